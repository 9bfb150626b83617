"""The mask over the documents of the index for one request.

A document is hidden exactly if `Scope.hides` hides its event. The card of an artifact is visible as
long as its event may be named (`Scope.names`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from memplane.event import KINDS, PROJECTS, SENSITIVITIES
from memplane.index.columns import Bits, Fates, Flagged, Mask, Spans
from memplane.policy import ALL_AGENTS
from memplane.recall.documents import (
    ARTIFACT,
    CARD,
    KIND_BITS,
    LIMITED,
    PROJECT_BITS,
    SENSITIVITY_BITS,
    SPACE_BITS,
    kind_number,
    microseconds,
)
from memplane.recall.suppress import SPACES, Filter, Scope, is_pattern, namespace_class

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from memplane.index.columns import Frame
    from memplane.index.segment import Array
    from memplane.index.store import IndexView
    from memplane.ports import Line
    from memplane.projections.in_force import Act
    from memplane.projections.memories import Memories

_GLOBAL, _TASK, _SPEC, _AGENT = range(len(SPACES))
# An artifact, but for its card: the bits from those of the kind up to the card's.
_KINDS: Final = 1 << KIND_BITS[1]
_CARD: Final = CARD >> KIND_BITS[0]
_UNAPPROVED: Final = Bits(
    KIND_BITS[0],
    tuple(bits % _KINDS == ARTIFACT and not bits & _CARD for bits in range(2 * _CARD)),
)
_ALWAYS: Final = -(1 << 62)
_LATER: Final = 1 << 62


class MaskLog(Protocol):
    """How masks look at the log: one line by its seq, one of those with documents by its id."""

    def line(self, seq: int) -> Line | None: ...
    def find(self, id_: str) -> Line | None: ...


class Masks:
    """Masks over one index; make a new one when its documents were renumbered or erased.

    What became of events is followed through `Memories`, and told once. One thread at a time.
    """

    def __init__(self, lines: MaskLog) -> None:
        self._lines = lines
        self._flagged = Flagged()
        self._fates = Fates()
        self._followed: tuple[Memories, int] | None = None
        self._told = 0
        self._spans = Spans()

    def of(
        self,
        scope: Scope,
        view: IndexView,
        every: IndexView,
        frame: Frame,
        memories: Memories,
        reach: int,
    ) -> Mask:
        """Return which documents of the view the scope hides.

        `every` and `frame` have all documents that are there, later ones too: of the events up to
        `reach`. What became of them is told of all, and judged as of the scope's seq.
        """
        upto = min(scope.as_of, _LATER)
        self._tell(every, frame, memories, reach)
        mask = Mask(view.count)
        mask.add(self._flagged.hidden(frame.flags, *_levels(scope)))
        approved = view.documents(scope.approved())
        mask.add(self._flagged.hidden(frame.flags, _UNAPPROVED), approved)
        classes, reached = _spaces(scope)
        but = view.labelled(*(f"ns:{ns}" for ns in reached)) if reached else None
        mask.add(self._flagged.hidden(frame.flags, Bits(SPACE_BITS[0], classes)), but)
        strange = _strange(scope)
        if strange:
            mask.documents(view.labelled(*strange))
        apart = self.apart(scope, every, frame)
        if apart is not None:
            mask.add(apart)
        mask.after(frame.seq, upto)
        mask.add(self._fates.hidden(upto, view.count))
        self._expire(mask, scope.now, frame)
        if scope.since is not None or scope.until is not None:
            since = None if scope.since is None else microseconds(scope.since)
            until = None if scope.until is None else microseconds(scope.until)
            mask.outside(view.column("at"), since, until)
        if scope.only is not None:
            self._narrow(mask, scope.only, view, frame)
        if scope.exclude:
            mask.documents(view.documents(self._seqs(sorted(scope.exclude))))
        if scope.held is not None:
            session, held = scope.held
            docs = view.labelled(f"session:{session}")
            mask.documents(docs[frame.seq[docs] > held])
        return mask

    def apart(self, scope: Scope, every: IndexView, frame: Frame) -> Array | None:
        """Which documents are of other projects: they count in no statistics either.

        None where there are none, or the scope sees all projects.
        """
        if scope.project is None:
            return None
        found = self._flagged.hidden(frame.flags, Bits(PROJECT_BITS[0], (False, True)))
        named = (scope.project, *scope.ns)
        apart = found.copy()
        apart[every.labelled(*(f"ns:{ns}" for ns in named if ns.startswith(PROJECTS)))] = False
        return apart if apart.any() else None

    def _seqs(self, ids: Iterable[str]) -> list[int]:
        found = (self._lines.find(one) for one in ids)
        return [line.event.seq for line in found if line is not None]

    def unseen(self, scope: Scope, every: IndexView, frame: Frame) -> tuple[Array, Hashable]:
        """Which documents are of a sensitivity or kind that the scope never sees, and its name."""
        levels, strange = _levels(scope), _strange(scope)
        found = self._flagged.hidden(frame.flags, *levels)
        if strange:
            found = found.copy()
            found[every.labelled(*strange)] = True
        apart = self.apart(scope, every, frame)
        if apart is None:
            return found, (levels, strange)
        return found | apart, (levels, strange, scope.project, scope.ns)

    def _narrow(self, mask: Mask, only: Filter, view: IndexView, frame: Frame) -> None:
        if only.tags:
            mask.all_but(view.labelled(*(f"tag:{tag}" for tag in only.tags)))
        if only.without:
            mask.documents(view.labelled(*(f"tag:{tag}" for tag in only.without)))
        if only.least:
            mask.add(frame.importance < only.least)

    def _expire(self, mask: Mask, now: str, frame: Frame) -> None:
        fresh = self._spans.fresh(frame.flags, LIMITED)
        if len(fresh):
            self._spans.add(fresh, [self._limits(seq) for seq in frame.seq[fresh].tolist()])
        mask.documents(self._spans.out(microseconds(now)))

    def _limits(self, seq: int) -> tuple[int, int]:
        line = self._lines.line(seq)
        if line is None:  # nobody can say any more until when it held
            return _LATER, _ALWAYS
        begin, end = line.event.valid_from, line.event.valid_until
        return (
            _ALWAYS if begin is None else microseconds(begin),
            _LATER if end is None else microseconds(end),
        )

    def _tell(self, view: IndexView, frame: Frame, memories: Memories, reach: int) -> None:
        """Take in what was replaced and forgotten since, by events whose documents are there.

        The memories may have come further: what is told is told once, and would miss documents.
        """
        if self._followed is None or self._followed != (memories, memories.resets):
            self._followed = memories, memories.resets
            self._fates, self._told = Fates(), 0
        position = memories.position
        seq = 0 if position is None else min(position.seq, reach)
        if seq <= self._told:
            return
        replaced = [pair for pair in memories.replaced(self._told) if pair[0] <= seq]
        self._fates.replace(replaced, frame.seq)
        for act in memories.forgets(self._told):
            if act.seq <= seq:
                docs = self._named(act, view, memories)
                self._fates.forget(act.seq, docs, frame.seq, undo=act.undo)
        self._told = seq

    def _named(self, act: Act, view: IndexView, memories: Memories) -> Array:
        """The documents that a forget means."""
        form, ns, value = act.target
        if form == "id":
            line = self._lines.find(value)
            # A forget from another plane may be older than the last word here.
            named = line is not None and memories.prevails(act, line.event)
            return view.documents([line.event.seq] if line is not None and named else [])
        if form == "key":
            chain = memories.history(ns, value, upto=act.seq - 1)
            return view.documents([row.seq for row in chain[-1:]])
        return view.labelled(f"{form}:{value}")


def _levels(scope: Scope) -> tuple[Bits, ...]:
    levels = tuple(level in scope.levels for level in SENSITIVITIES)
    kinds = {kind_number(kind) for kind in scope.kinds if kind in KINDS}
    return (
        Bits(SENSITIVITY_BITS[0], levels),
        Bits(KIND_BITS[0], tuple(number in kinds for number in range(1 << KIND_BITS[1]))),
    )


def _strange(scope: Scope) -> tuple[str, ...]:
    """The labels of the kinds out of sight that flags do not know."""
    return tuple(f"kind:{kind}" for kind in sorted(scope.kinds) if kind not in KINDS)


def _spaces(scope: Scope) -> tuple[tuple[bool, ...], list[str]]:
    """Which classes of namespaces are out of scope, and namespaces of them that are in it."""
    hides = set() if ALL_AGENTS in scope.shared else {_AGENT}
    named: list[str] = list(scope.ns)
    if not scope.ns or ALL_AGENTS in scope.ns:
        named += scope.shared
        if scope.agent is not None:
            named.append(f"/agent/{scope.agent}")
    if scope.ns:
        closed = hides - {_AGENT} if scope.owner else hides
        asked = {namespace_class(ns) for ns in scope.ns if is_pattern(ns)}
        hides = {_GLOBAL, _TASK, _SPEC, _AGENT} - (asked - closed)
    elif scope.task is not None:
        hides.add(_TASK)
        named.append(f"/task/{scope.task}")
        if scope.specs:
            hides.add(_SPEC)
            named += scope.specs
    reached = [ns for ns in dict.fromkeys(named) if scope.reaches(ns)]
    return tuple(place in hides for place in range(len(SPACES))), reached
