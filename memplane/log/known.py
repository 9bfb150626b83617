"""Ids given by callers: which of a batch are in the log already, and whether that is a repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from memplane.errors import ConflictError, PurgedError
from memplane.event import decode
from memplane.log.bodies import body_hash, recalled_hashes
from memplane.ports import Appended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memplane.event import Draft, Event
    from memplane.log.reader import Reader

__all__ = ["Known", "Sorted", "same_content"]


class Sorted(NamedTuple):
    """A batch by places: `known` are answered, `fresh` are to be written.

    `repeated` maps the place of an id that came before in the batch to that earlier place.
    """

    known: dict[int, Appended]
    fresh: list[int]
    repeated: dict[int, int]

    def receipts(self, written: Sequence[Appended], count: int) -> list[Appended]:
        """A receipt for each of the batch, given those for `fresh`."""
        new = dict(zip(self.fresh, written, strict=True))
        for place, earlier in self.repeated.items():
            if earlier in new:
                self.known[place] = new[earlier]._replace(duplicate=True)
        return [self.known[place] if place in self.known else new[place] for place in range(count)]


class Known:
    """Tells repeats from conflicts; `same` decides whether a repeated id brings the same event."""

    def __init__(
        self, reader: Reader, loads: Callable[[bytes], Any], same: Callable[[Event, Draft], bool]
    ) -> None:
        self._reader, self._loads, self._same = reader, loads, same

    def unerased(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Those with a body, but for ids that are purged: they are refused, and leave no body."""
        return [
            draft
            for draft in drafts
            if (draft.body is not None or draft.recalled)
            and not (draft.id_given and isinstance(self._reader.look_up(draft.id), int))
        ]

    def sort(self, drafts: Sequence[Draft], seq: int) -> Sorted:
        """Which drafts are in the log (which ends at `seq`) or earlier in the batch.

        Raises ConflictError for an id of other content, PurgedError for one that was erased.
        """
        known: dict[int, Appended] = {}
        first: dict[str, int] = {}
        repeated: dict[int, int] = {}
        purged: dict[str, int] = {}
        for place, draft in enumerate(drafts):
            if draft.id_given:
                earlier = first.setdefault(draft.id, place)
                if earlier != place:
                    repeated[place] = earlier
                elif isinstance(found := self._find(draft), int):
                    purged[draft.id] = found
                elif found is not None:
                    known[place] = found
        if purged:
            raise _purged(purged)
        fresh = [p for p in range(len(drafts)) if p not in known and p not in repeated]
        new = dict(zip(fresh, range(len(fresh)), strict=True))
        for place, earlier in repeated.items():
            if earlier in known:
                found = self._find(drafts[place])
                assert isinstance(found, Appended)
                known[place] = found
            elif not self._same(_unstamped(drafts[earlier], self._loads), drafts[place]):
                raise _conflict(drafts[place], seq + 1 + new[earlier])
        return Sorted(known, fresh, repeated)

    def _find(self, draft: Draft) -> Appended | int | None:
        """The receipt of a repeat; the seq of a purged event; None for an id that is new."""
        line = self._reader.look_up(draft.id)
        if line is None or isinstance(line, int):
            return line
        event = line.event
        if not self._same(event, draft):
            raise _conflict(draft, event.seq)
        return Appended(event.seq, event.id, event.ts, duplicate=True)


def same_content(event: Event, draft: Draft) -> bool:
    """Whether a draft says what an event says: kind, ns, role, session, key, text and blocks."""
    if (event.kind, event.ns, event.role, event.session, event.key) != (
        draft.kind,
        draft.ns,
        draft.role,
        draft.session,
        draft.key,
    ):
        return False
    digest, recalled = body_hash(event), recalled_hashes(event)
    if digest is None and event.text != draft.text:
        return False
    if digest is None and not recalled and not draft.recalled:
        return True
    from hashlib import sha256  # noqa: PLC0415 - long texts and quoted blocks are rare

    if recalled != [sha256(block).hexdigest() for block in draft.recalled]:
        return False
    return digest is None or sha256(draft.text.encode()).hexdigest() == digest


def _purged(seqs: dict[str, int]) -> PurgedError:
    id_, seq = next(iter(seqs.items()))
    return PurgedError(
        f"id {id_!r} is that of a purged event, seq {seq}; nothing was recorded; "
        "to record it all the same, give it another id",
        id=id_,
        seq=seq,
        ids=tuple(seqs),
    )


def _conflict(draft: Draft, seq: int) -> ConflictError:
    return ConflictError(
        f"id {draft.id!r} is taken by another event, seq {seq}; nothing was recorded; "
        "give the new one an id of its own",
        id=draft.id,
        seq=seq,
    )


def _unstamped(draft: Draft, loads: Callable[[bytes], Any]) -> Event:
    """The event that a draft will be, but for what only the log can say."""
    fields = loads(b"{" + draft.rest + b"}")
    fields.update(seq=0, id=draft.id, ts=draft.ts or "")
    return decode(fields)
