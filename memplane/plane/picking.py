"""Which events a forget or a purge takes that names none: by tag, age, kind and namespace.

What lasts is kept unless it is asked for: decisions, rules, constraints and what is pinned. Tasks,
sessions, artifacts and what memplane writes about its log are taken only where their kind is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import ConflictError, InputError
from memplane.event import KINDS, TYPED_KINDS, UPKEEP_KINDS, Event
from memplane.intake import namespace, timestamp
from memplane.intake.redact import shown
from memplane.lazy import regex
from memplane.plane.asking import texts
from memplane.plane.forgets import forget_rows
from memplane.plane.given import check_texts
from memplane.plane.quoting import summaries_of
from memplane.plane.writing import Receipt
from memplane.recall.score import LASTING

if TYPE_CHECKING:
    from memplane.plane.engine import Engine
    from memplane.projections.memories import Memories

__all__ = ["Forgotten", "Pick", "forget_many"]

_USUAL: Final = frozenset(("message", "tool_call", "tool_result", *TYPED_KINDS))
_KEPT: Final = frozenset(("decision", "rule"))
_AGE: Final = regex(r"([0-9]{1,6})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TRIES: Final = 5  # before somebody else writes
_TOLD_EVERY: Final = 5_000  # events

Progress = Callable[[int, int], None]


class Pick(NamedTuple):
    """What an event must be to be taken: it has one of the tags, it happened before a time, ..."""

    tags: tuple[str, ...]
    before: str | None
    kinds: tuple[str, ...]
    ns: str | None
    decisions: bool

    @classmethod
    def of(
        cls, now: str, *, tag: str | Iterable[str] | None, older_than: str | timedelta | None,
        kind: str | Iterable[str] | None, ns: str | None, decisions: bool,
    ) -> Pick:  # fmt: skip
        """Check what a caller gave; raises InputError naming the argument."""
        kinds = texts("kind", kind)
        for one in kinds:
            if (one not in KINDS and not one.startswith("custom:")) or one in UPKEEP_KINDS:
                raise InputError(f"expected a kind of events, found {shown(one)}", where="kind")
        namespace(ns)
        tags = tuple(one.lower() for one in texts("tag", tag))
        check_texts(**dict(zip(map(str, tags), tags, strict=True)))
        before = None if older_than is None else _before(now, older_than)
        return cls(tags, before, kinds, ns, decisions)

    @property
    def narrows(self) -> bool:
        """Whether it names a tag or an age: kind and namespace alone are no reason to take."""
        return bool(self.tags) or self.before is not None

    def names(self, event: Event) -> bool:
        """Whether the event is what was asked for, were it not kept."""
        return (
            (event.kind in self.kinds if self.kinds else _is_usual(event.kind))
            and (self.before is None or event.ts < self.before)
            and (self.ns is None or event.ns == self.ns)
            and (not self.tags or any(tag.lower() in self.tags for tag in event.tags))
        )

    def keeps(self, event: Event, memories: Memories) -> bool:
        """Whether what it names is kept all the same."""
        if self.decisions or event.kind in self.kinds:
            return False
        lasting = event.kind in _KEPT or not LASTING.isdisjoint(event.markers)
        return lasting or memories.pinned(event)


class Forgotten(NamedTuple):
    """What was archived, in log order, by which events: none of a dry run.

    `kept` counts the decisions, rules, constraints and pinned events that were named and stayed.
    """

    taken: tuple[Event, ...]
    kept: int
    receipts: tuple[Receipt, ...]


def forget_many(
    engine: Engine, given: dict[str, Any], reason: str, *, dry_run: bool,
    progress: Progress | None,
) -> Forgotten:  # fmt: skip
    """Archive what is in force and answers the description; see `Plane.forget_many`."""
    check_texts(reason=reason)
    engine.check_open()
    now = given.pop("now", None)
    pick = Pick.of(engine.clock() if now is None else timestamp(now, where="now"), **given)
    if not pick.narrows:
        raise InputError("expected a tag or an age, found neither")
    if not dry_run:
        engine.take_in_waiting()
    for left in range(_TRIES, -1, -1):
        with engine.lock:
            folds = engine.caught_up()
            read = folds.memories.position
            found = [
                event
                for event in _told(engine, progress)
                if pick.names(event) and folds.memories.archived(event) is None
            ]
            taken = [event for event in found if not pick.keeps(event, folds.memories)]
            kept = len(found) - len(taken)
            if dry_run or not taken:
                return Forgotten(tuple(taken), kept, ())
            named = {event.id for event in taken}
            quoting = summaries_of(engine.log, folds, taken, undo=False)
        ids = [*(event.id for event in taken), *(one for one in quoting if one not in named)]
        draft = engine.drafting(internal=True)
        drafts = [draft(row, "") for row in forget_rows(ids, reason)]
        try:
            done = engine.append(drafts, expected_seq=read.seq if read and left else None)
        except ConflictError:
            if not left:
                raise
            continue
        receipts = (Receipt(one, engine.durability, engine.log.line) for one in done)
        return Forgotten(tuple(taken), kept, tuple(receipts))
    raise AssertionError("the last try returns or raises")


def _told(engine: Engine, progress: Progress | None) -> Iterator[Event]:
    head = engine.log.head().seq
    for line in engine.log.read():
        if progress is not None and line.event.seq % _TOLD_EVERY == 0:
            progress(line.event.seq, head)
        yield line.event


def _is_usual(kind: str) -> bool:
    return kind in _USUAL or kind.startswith("custom:")


def _before(now: str, older_than: str | timedelta) -> str:
    """The time before which events are old enough."""
    if isinstance(older_than, str):
        match = _AGE.fullmatch(older_than)
        if match is None:
            raise InputError(
                f"expected a number and s, m, h, d or w (90d), found {shown(older_than)}",
                where="older_than",
            )
        older_than = timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InputError(f"expected an age, found {shown(older_than)}", where="older_than")
    try:
        return timestamp(datetime.fromisoformat(now) - older_than)
    except OverflowError:
        raise InputError("is longer than time goes back", where="older_than") from None
