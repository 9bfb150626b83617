"""Writing this plane's own file in a shared folder.

What the log has got since the last sync is appended: events of the chosen namespaces, redacted as
an export, with where they are from. What was taken from other devices is theirs to say. Forgets,
pins and touches name ids of what the folder holds, whatever they named here: a key, a session and a
source mean other events elsewhere.

A value that was forgotten before it was ever written leaves without its text, under the id `!ID`:
its key and time alone, so that an older value of another device does not come into force there. The
text follows where the forget is taken back.

A purge of this plane's log is written as an entry, and the lines of what it erased are overwritten.
The forget of a key means another value once the one that it meant is purged; it is written again
for that one. Ids tell what is in the file, so an interrupted write goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.event import Event
from memplane.intake.check import NAME_MAX, with_permitted_actor
from memplane.log.segments import erased_by
from memplane.projections.in_force import (
    EVICTED,
    Forget,
    Moment,
    Moments,
    forget_of,
    originated,
    place_of,
)
from memplane.shared.device_file import (
    NAMED_MAX,
    DeviceLines,
    append_lines,
    check_shared_row,
    erase_lines,
    file_of,
    ids_in,
)
from memplane.shared.folder_reading import ACT_KINDS, suffixed
from memplane.shared.folder_state import FolderState, device_that_said
from memplane.upkeep.export import EventSelector, ExportFilter

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext

SENT_MAX: Final = 100_000  # events in one sync
BLANK: Final = "!"  # how the id of a value without its text begins
_APPEND_BYTES: Final = 4 * 1024 * 1024
_FORGOTTEN: Final = "forgotten"  # why an export withholds an event

Progress = Callable[[int, int], None]


class FolderWriter:
    """One sync's writing of the own file."""

    def __init__(
        self,
        context: PlaneContext,
        state: FolderState,
        folder: str,
        others: Iterable[str],
        save: Callable[[], None] | None,
    ) -> None:
        """`save` keeps the state; None for a dry run, which writes nothing."""
        self._context, self._state, self._save = context, state, save
        self._path = f"{folder}/{file_of(state.device)}"
        self._draft = f"{folder}/.{state.device}.new"
        self._others = [f"{folder}/{file_of(one)}" for one in others]
        self._selector = EventSelector(context, ExportFilter())
        self._moments = Moments()
        self._lines = DeviceLines(state.device, state.own)
        self._waiting: list[bytes] = []
        self._size = 0
        self._ids: set[str] = set()
        self._purged: dict[str, list[str]] = {}  # by the id of the purge
        self.sent = self.erased = 0
        self.more = False
        self.withheld: dict[str, int] = {}

    def write(self, progress: Progress | None) -> None:
        """Write what is new; nothing where that is nothing of this plane's to say."""
        log, state = self._context.log, self._state
        head = log.head().seq
        if state.own.lines and not any(
            self._is_news(line.event) for line in log.read(state.seq, head)
        ):
            self._done(head)
            return
        self._ids = ids_in(self._path)
        if not self._lines.place.lines:
            self._put(self._lines.header(state.device, state.plane, state.name))
        for line in log.read(0, head):
            if progress is not None and line.event.seq % 1024 == 0:
                progress(line.event.seq, head)
            self._see(line.event, new=line.event.seq > state.seq)
            if self.sent >= SENT_MAX and line.event.seq < head:
                self.more, head = True, line.event.seq
                break
        self._write_purges()
        self._flush()
        self._done(head)

    def _done(self, head: int) -> None:
        state = self._state
        changed = (state.seq, state.own, state.writing) != (head, self._lines.place, False)
        if self._save is None:
            return
        self._erase()
        if changed:
            state.seq, state.own, state.writing = head, self._lines.place, False
            self._save()

    def _is_news(self, event: Event) -> bool:
        """Whether the own file has to be looked at for this event."""
        if device_that_said(event) is not None:
            return False
        if event.kind in (*ACT_KINDS, "purge"):
            return True
        return self._state.chosen.shares(event)

    def _see(self, event: Event, *, new: bool) -> None:
        """Take one event of the log; those written before give the times of later ones."""
        moment = self._moments.see(event)
        if not new or device_that_said(event) is not None:
            return
        if event.kind in ACT_KINDS:
            self._act(event, self._origin(event._replace(data={}), moment))
        elif event.kind == "purge":
            self._purged[event.id] = [one.id for one in erased_by(event)]
        elif self._state.chosen.shares(event):
            self._share(event, moment)

    def _origin(self, event: Event, moment: Moment | None) -> dict[str, Any]:
        return originated(event, self._state.plane, moment)

    def _share(self, event: Event, moment: Moment | None) -> None:
        """Write an event, or why it stays."""
        held = self._selector.withheld
        before = held.get(_FORGOTTEN, 0)
        row = self._selector.leaving(event)
        if row is not None:
            self._send(event.id, row, event, moment)
        elif held.get(_FORGOTTEN, 0) > before:
            self._withhold(_FORGOTTEN)
            self._blank(event, moment)
        else:
            self._withhold("hidden")

    def _withhold(self, why: str) -> None:
        self.withheld[why] = self.withheld.get(why, 0) + 1

    def _send(self, id_: str, row: dict[str, Any], event: Event, moment: Moment | None) -> None:
        """Write an event once; what no device may say stays."""
        if id_ in self._ids:
            return
        data = self._origin(event._replace(data=row.get("data", {})), moment)
        try:
            said = self._checked(with_permitted_actor({**row, "id": id_, "data": data}))
        except InputError:
            self._withhold("invalid")
            return
        self._put(self._lines.event(id_, said))
        self._ids.add(id_)
        self.sent += 1

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        """The fields of the file, which a reader accepts; raises InputError."""
        given = {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in row.items()
            if name not in ("seq", "dur", "rec", "tokens", "h")
        }
        check_shared_row(given)
        return given

    def _blank(self, event: Event, moment: Moment | None) -> None:
        """Write the key and time of a forgotten value, without what it says."""
        place, id_ = place_of(event), f"{BLANK}{event.id}"
        if place is None or event.id in self._ids or len(id_) > NAME_MAX:
            return
        kind = "fact" if event.kind == "message" else event.kind  # no message is without a text
        row = {"ts": event.ts, "kind": kind, "ns": event.ns, "key": event.key}
        self._send(id_, row, event, moment)

    # Forgets, pins and touches.

    def _act(self, event: Event, data: dict[str, Any]) -> None:
        if event.kind != "forget":
            self._write_act(event, event.refs, data)
            return
        named = forget_of(event)
        if named is None:
            return
        if named.key is not None:
            self._forget_key(event, named, data)
            return
        self._write_act(event, self._named(event, named), data)

    def _forget_key(self, event: Event, named: Forget, data: dict[str, Any]) -> None:
        """It means the value that the key had then, and says which by its id."""
        with self._context.lock:
            memories = self._context.caught_up().memories
            rows = memories.history(named.ns, str(named.key), upto=event.seq)
        if rows:
            self._write_act(event, [rows[-1].id], data)

    def _named(self, event: Event, named: Forget) -> Iterator[str]:
        """The ids of what a forget by ids, session or source means."""
        if named.ids:
            yield from sorted(named.ids)
            return
        for line in self._context.log.read(0, event.seq - 1):
            one = line.event
            if one.kind not in ACT_KINDS and named.names(one.id, one.session):
                yield one.id

    def _write_act(self, event: Event, named: Iterable[str], data: dict[str, Any]) -> None:
        """Write an act on what the folder holds of the ids, under an id made of them."""
        undo = bool(event.data.get("undo"))
        ids = [said for one in named for said in self._as_sent(one, undo=undo)]
        for at in range(0, len(ids), NAMED_MAX):
            part = ids[at : at + NAMED_MAX]
            own = suffixed(event.id, "\n".join(part))
            if own in self._ids:
                continue
            said: dict[str, Any] = {**data}
            row: dict[str, Any] = {"id": own, "ts": event.ts, "kind": event.kind}
            if event.kind == "forget":
                said["forget"] = {"ids": part}
            else:
                row["refs"] = part
            if undo:
                said["undo"] = True
            if event.data.get("reason") == EVICTED:
                said["reason"] = EVICTED
            self._put(self._lines.event(own, {**row, "data": said}))
            self._ids.add(own)

    def _as_sent(self, id_: str, *, undo: bool) -> Iterator[str]:
        """The ids by which the folder has an event; none where it does not have it."""
        line = self._context.log.find(id_)
        if line is not None and device_that_said(line.event) is not None:
            if self._state.chosen.shares(line.event):
                yield id_
            return
        if undo and line is not None and id_ not in self._ids:
            self._send_late(line.event)
        if id_ in self._ids:
            yield id_
        if f"{BLANK}{id_}" in self._ids:
            yield f"{BLANK}{id_}"

    def _send_late(self, event: Event) -> None:
        """Write an event that was withheld while it was forgotten."""
        if not self._state.chosen.shares(event) or event.kind in ACT_KINDS:
            return
        row = EventSelector(self._context, ExportFilter()).leaving(event)
        if row is not None:
            self._send(event.id, row, event, self._moment(event))

    def _moment(self, event: Event) -> Moment | None:
        """The moment of a value, as the chain of its key has it."""
        if place_of(event) is None:
            return None
        with self._context.lock:
            rows = self._context.caught_up().memories.history(event.ns, str(event.key))
        return next((row.moment for row in rows if row.seq == event.seq), None)

    # Purges.

    def _write_purges(self) -> None:
        if not self._purged:
            return
        wanted = {id_ for ids in self._purged.values() for id_ in ids}
        elsewhere = set[str]().union(*(ids_in(path, wanted) for path in self._others))
        for purge, erased in self._purged.items():
            ids = [
                said
                for one in erased
                for said in (one, f"{BLANK}{one}")
                if said in self._ids or (said == one and one in elsewhere)
            ]
            for at in range(0, len(ids), NAMED_MAX):
                own = purge if not at else suffixed(purge, f"/{at}")
                if own not in self._ids:
                    self._put(self._lines.purge(own, ids[at : at + NAMED_MAX]))
                    self._ids.add(own)
        self._forget_anew()

    def _forget_anew(self) -> None:
        """Write the forgets of keys for the values that they mean now, where those are others."""
        moments = Moments()
        for line in self._context.log.read(0):
            event = line.event
            if event.kind != "forget":
                continue
            moment, named = moments.see(event), forget_of(event)
            if named is None or named.key is None or device_that_said(event) is not None:
                continue
            self._forget_key(event, named, self._origin(event._replace(data={}), moment))

    def _erase(self) -> None:
        """Overwrite what was purged in the own file; again, where that was interrupted."""
        gone = {
            said
            for ids in self._purged.values()
            for one in ids
            for said in (one, f"{BLANK}{one}")
            if said in self._ids
        }
        if gone:
            self.erased = erase_lines(self._path, self._draft, self._state.device, gone)

    # The file.

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= _APPEND_BYTES:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        if not data or self._save is None:
            return
        if not self._state.writing:
            self._state.writing = True
            self._save()
        append_lines(self._path, self._lines.place.bytes - len(data), data)
