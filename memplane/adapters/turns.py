"""Messages of agents' frameworks as turns of a session: packs and searches use them as any others.

A message is a JSON value of its framework. What it says is the text of an event, and stands in it
once; the rest lies in `data` under the framework's name::

    data.NAME.value   the message, null where its text was taken out
    data.NAME.at      the names and places that lead to its text; none where it has no single one
    data.NAME.blob    the key that the message has, where it is too large for an event: see `blobs`

Where the messages of a conversation begin in the log stands under a key of its own, so a session
that is opened reads the log from there, and nothing of it where the conversation is new.

Secrets are masked before anything is stored, so such a message comes back with the mask in it.
A `SessionTurns` keeps the events that it has read.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.blobs import BlobRows, session_of, short_name
from memplane.errors import NotFoundError
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.plane import Plane

AGENTS: Final = "/agent/"
DATA_BYTES: Final = 32 * 1024  # of a message without its text, that stand in its event
SESSIONS_KEPT: Final = 64
_REASON: Final = "cleared by its program"
_Path = tuple[str | int, ...]


class Said(NamedTuple):
    """A message: who says it, its JSON value and where its text stands in that.

    Where no single text does, `at` is empty and `text` is what a block and a search show.
    """

    role: str | None
    value: Any
    at: _Path = ()
    text: str = ""
    kind: str = "message"
    tool: str | None = None  # that is called


class KeptTurn(NamedTuple):
    """A message that was stored: its event's seq, id, session and role, and its JSON value."""

    seq: int
    id: str
    session: str | None
    role: str | None
    value: Any


class SessionTurns:
    """The messages that a program keeps in one session, in their order.

    Other turns of the session are not among them. `owner` sets those of one conversation apart from
    others of the same session. Threads and processes may share a plane. `ns` is where they lie: an
    agent's namespace is its own, any other is for all that read the plane.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        session: str,
        program: str,
        owner: str | None = None,
        ns: str | None = None,
    ) -> None:
        self._plane, self._program, self._ns = plane, program, ns
        own = ns is not None and ns.startswith(AGENTS)
        self._agent = ns.removeprefix(AGENTS) if own and ns is not None else None
        self.session = session_of(session)
        self.owner = owner or short_name(session)
        self.source = f"{program}.{self.owner}"
        self._blobs = BlobRows(
            plane, ns=f"/agent/{program}", kind=f"custom:{program}", source=program
        )
        self._mark = f"t/{short_name(self.owner, self.session)}"
        self._begun: int | None = None  # the seq before the first message, None while unknown
        self._lock, self._popping = Lock(), Lock()
        self._seqs: list[int] = []  # of the messages up to the seq `_upto`
        self._found: dict[int, Event] = {}  # those of them that are in force
        self._upto = 0

    def id(self, name: str) -> str:
        """The id of the event of a message that has a name of its own."""
        return f"{self.source}:{name}"

    def rows(self, said: Said, name: str | None = None) -> list[dict[str, Any]]:
        """The events that keep a message; of a name that is there already nothing is stored.

        For the first message of a conversation it is recorded where that begins.
        """
        self._begin()
        text, value = _taken(said)
        kept: dict[str, Any] = {"value": value}
        if said.at:
            kept["at"] = list(said.at)
        found: list[dict[str, Any]] = []
        raw = json.dumps(kept).encode()
        if len(raw) > DATA_BYTES:
            key = f"m/{self.owner}/{uuid.uuid4().hex}"
            found += self._blobs.rows(key, {}, [raw], owner=self.owner, session=self.session)
            kept = {"blob": key}
        data: dict[str, Any] = {self._program: kept}
        if said.tool is not None:
            data["tool"] = said.tool
        row = {
            "kind": said.kind,
            "session": self.session,
            "id": self.id(name or uuid.uuid4().hex),
            "text": text,
            "data": data,
        }
        given = {"role": said.role, "ns": self._ns}
        found.append({**row, **{key: one for key, one in given.items() if one is not None}})
        return found

    def add(self, messages: Iterable[Said]) -> None:
        """Record messages with one write; raises as `Plane.record` does."""
        rows = [row for said in messages for row in self.rows(said)]
        if rows:
            self._plane.record_many(rows, batch=len(rows))

    def turns(self, last: int | None = None) -> list[KeptTurn]:
        """The messages in force, or the last of them; of the log only what is new is read."""
        with self._lock:
            self._follow()
            events = list(self._found.values())
        if last is not None:
            events = events[max(0, len(events) - last) :]
        return [self._turn(event) for event in events]

    def _begin(self) -> None:
        if self._begins() is None:
            head = {"after": self._plane.head().seq}
            # Of an owner of its own: it stays when the messages are forgotten, for those to come.
            # Under one id: of two that begin at once the first says where.
            (row,) = self._blobs.rows(self._mark, head, owner="begins")
            self._blobs.keep([{**row, "id": f"{self._program}.begins:{self._mark[2:]}"}])

    def _begins(self) -> int | None:
        if self._begun is None:
            blob = self._blobs.get(self._mark)
            self._begun = None if blob is None else int(blob.head["after"])
        return self._begun

    def _follow(self) -> None:
        plane, head = self._plane, self._plane.head().seq
        if head <= self._upto:
            return
        begins = self._begins()
        if begins is None:  # what is recorded from now on is behind this head
            self._upto = head
            return
        self._upto = max(self._upto, begins)
        begin = f"{self.source}:"
        asked: dict[str, Any] = {"after": self._upto, "agent": self._agent}
        for one in plane.events(session=self.session, ns=self._ns, **asked):
            if one.id.startswith(begin) and self._program in one.data:
                self._seqs.append(one.seq)
                self._found[one.seq] = one
        # What is in force changes by these alone: a message has no key and no end.
        if any(next(plane.events(kind=kind, **asked), None) for kind in ("forget", "purge")):
            left = {seq: self._in_force(seq) for seq in self._seqs}
            self._found = {seq: event for seq, event in left.items() if event is not None}
        self._upto = max([head, *self._seqs[-1:]])

    def _in_force(self, named: int | str) -> Event | None:
        try:
            event = self._plane.event(named, agent=self._agent)
        except NotFoundError:  # purged
            return None
        kept = self._program in event.data and self._plane.work.archived(event) is None
        return event if kept else None

    def turn(self, named: int | str) -> KeptTurn | None:
        """The message of a seq or id; None where there is none, or it was forgotten or purged."""
        event = self._in_force(named)
        return None if event is None else self._turn(event)

    def _turn(self, event: Event) -> KeptTurn:
        return KeptTurn(event.seq, event.id, event.session, event.role, self._value(event))

    def pop(self) -> KeptTurn | None:
        """Forget the newest message and return it; None where there is none.

        Two threads are never given the same one; two processes at the same moment may be.
        """
        with self._popping:
            for turn in self.turns(1):
                self.forget(turn.id)
                return turn
            return None

    def forget(self, id_: str) -> None:
        """Forget one message; NotFoundError where it is not there."""
        done = self._plane.forget(id=id_, reason=_REASON)
        with self._lock:
            if done.seq == self._upto + 1:  # nothing else was written meanwhile
                self._found = {seq: one for seq, one in self._found.items() if one.id != id_}
                self._upto = done.seq

    def clear(self) -> None:
        """Forget the messages, and nothing else of the session; nothing where there are none."""
        try:
            self._plane.forget(source=self.source, reason=_REASON)
        except NotFoundError:
            return

    def _value(self, event: Event) -> Any:
        kept = event.data[self._program]
        if "blob" in kept:
            blob = self._blobs.get(kept["blob"])
            kept = {"value": None} if blob is None else json.loads(blob.raws[0])
        value = json.loads(json.dumps(kept["value"]))  # a caller may change what it is given
        if at := kept.get("at"):
            at_path(value, at[:-1])[at[-1]] = self._plane.text(event)
        return value


class RecentTurns:
    """The conversations that were used last, at most SESSIONS_KEPT, with what they have read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[str, SessionTurns] = {}

    def of(self, name: str, make: Callable[[], SessionTurns]) -> SessionTurns:
        """The conversation of a name, made where it is not among them."""
        with self._lock:
            found = self._kept.pop(name, None) or make()
            while len(self._kept) >= SESSIONS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[name] = found
            return found


def texts_in(value: Any, *, names: Sequence[str] = ("text",)) -> Iterator[_Path]:
    """The paths of a message's texts: of the value itself, or of items of a list under `names`."""
    if isinstance(value, str):
        yield ()
    elif isinstance(value, list):
        for at, one in enumerate(value):
            for name in names:
                if isinstance(one, dict) and isinstance(one.get(name), str):
                    yield at, name


def at_path(value: Any, path: Sequence[str | int]) -> Any:
    """What stands at a path."""
    for step in path:
        value = value[step]
    return value


def said_at(role: str | None, value: Any, paths: Sequence[_Path], *, kind: str = "message") -> Said:
    """A message of one text, or of several, which are joined for its event."""
    if len(paths) == 1:
        return Said(role, value, paths[0], kind=kind)
    return Said(role, value, (), "\n".join(at_path(value, path) for path in paths), kind)


def call_said(value: Any, name: str, arguments: Any) -> Said:
    """A message that is a call of a tool and says nothing else."""
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Said("assistant", value, (), f"{name} {told}", "tool_call", name)


def _taken(said: Said) -> tuple[str, Any]:
    """The text of a message, and its value without it."""
    if not said.at:
        return said.text, said.value
    value = json.loads(json.dumps(said.value))
    inner = at_path(value, said.at[:-1])
    text, inner[said.at[-1]] = inner[said.at[-1]], None
    return text, value
