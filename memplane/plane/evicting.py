"""Which memories have faded below a line, and the events that archive them.

Only kinds that fade are taken, and of them no constraint and nothing that is pinned: a decision or
a rule is never evicted. What is taken is archived as by `forget`, and comes back by `unforget`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import ConflictError, InputError
from memplane.event import IMPORTANCE_DEFAULT, Event
from memplane.intake import normalise
from memplane.intake.redact import shown
from memplane.plane.writing import Receipt
from memplane.projections.acts import EVICTED
from memplane.recall.score import FADING_KINDS, LASTING
from memplane.recall.suppress import is_pattern, within

if TYPE_CHECKING:
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.plane.reading import Reader

__all__ = ["Evicted", "Eviction", "evict"]

_IDS_AT_ONCE: Final = 200  # of an event that forgets
_TRIES: Final = 5  # before somebody else writes
_TOLD_EVERY: Final = 5_000  # events
_ALL: Final = 1 << 62

_Progress = Callable[[int, int], None]


class Evicted(NamedTuple):
    """A memory that has faded below the line, and what is left of its importance."""

    event: Event
    importance: int


class Eviction(NamedTuple):
    """What was archived, in log order, by which events: none of a dry run."""

    taken: tuple[Evicted, ...]
    receipts: tuple[Receipt, ...]


def evict(
    engine: Engine, below: float, *, ns: str | None, kind: str | None, now: Any, dry_run: bool,
    progress: _Progress | None,
) -> Eviction:  # fmt: skip
    """Archive what has faded below the line; InputError, ScopeError."""
    line = _line(below)
    if kind is not None and kind not in FADING_KINDS:
        known = ", ".join(FADING_KINDS)
        raise InputError(f"expected one of {known}; found {shown(kind)}", where="kind")
    reader = engine.reader("private", now, ns=ns)
    if not dry_run:
        engine.take_in_waiting()
    for left in range(_TRIES, -1, -1):
        with engine.lock:
            folds = engine.caught_up()
            read = folds.memories.position
            taken = tuple(_faded(folds, reader, line, ns, kind, progress))
        if dry_run or not taken:
            return Eviction(taken, ())
        try:
            # At the head that was read: nothing is archived that was touched meanwhile.
            return Eviction(taken, _write(engine, taken, read.seq if read and left else None))
        except ConflictError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _line(below: float) -> int:
    """An importance, as events have it: 0 to 1000, or a float from 0 to 1."""
    if below is None:
        raise InputError("expected an importance, found nothing", where="below")
    try:
        said = normalise({"importance": below}).get("importance", IMPORTANCE_DEFAULT)
    except InputError as error:
        raise InputError(str(error).removeprefix("importance: "), where="below") from None
    return int(said)


def _faded(
    folds: Folds, reader: Reader, line: int, ns: str | None, kind: str | None,
    progress: _Progress | None,
) -> Iterator[Evicted]:  # fmt: skip
    memories, head = folds.memories, folds.log.head().seq
    one = None if ns is None or is_pattern(ns) else ns
    # Of a hundred thousand values most were replaced: one look at all keys instead of one at each.
    in_force = {row.seq for row in memories.keys(ns=one, limit=_ALL)}
    for each in folds.log.read():
        event = each.event
        if progress is not None and event.seq % _TOLD_EVERY == 0:
            progress(event.seq, head)
        if (
            event.kind not in FADING_KINDS
            or kind not in (None, event.kind)
            or not (ns is None or within(event.ns, (ns,)))
            or not LASTING.isdisjoint(event.markers)
            or reader.faded(event) >= line  # a touch or a pin could only raise it
            or not reader.in_time(event)
            or not reader.may_read(event)
            or memories.pinned(event)
        ):
            continue
        if event.key is None:
            gone = memories.archived(event) is not None
        else:
            gone = event.seq not in in_force
        left = line if gone else reader.faded(event, memories.touched(event))
        if left < line:
            yield Evicted(reader.emit(event), left)


def _write(
    engine: Engine, taken: tuple[Evicted, ...], expected_seq: int | None
) -> tuple[Receipt, ...]:
    ids = [one.event.id for one in taken]
    draft = engine.drafting(internal=True)
    drafts = [
        draft(_row(ids[at : at + _IDS_AT_ONCE]), "") for at in range(0, len(ids), _IDS_AT_ONCE)
    ]
    done = engine.append(drafts, expected_seq=expected_seq)
    return tuple(Receipt(one, engine.durability, engine.log.line) for one in done)


def _row(ids: list[str]) -> dict[str, Any]:
    return {"kind": "forget", "data": {"forget": {"ids": ids}, "reason": EVICTED}}
