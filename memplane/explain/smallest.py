"""The smallest budget at which an event comes into a pack, found by packing again.

Coming in is not monotone: at one token more another section may take the room. So every budget
between is packed, but for those of which a pack at another budget speaks for certain:

- From 1,000 tokens on the rooms follow a ladder. Between two steps of it only the tail is laid
  out differently, so an event that no part of the tail could show is looked for once a step.
- Where each section of the tail had as much as it may ever have on a step, more changes nothing.

A fit is one pack. Where the bound on fits ends the search, the answer says below which budget
nothing is left to be tried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.explain.sources import sources_of
from memplane.explain.story import NAMING, Smallest
from memplane.pack.allocate import STEADY_FROM, ladder
from memplane.pack.pack import Laid, lay
from memplane.pack.request import Materials, Request
from memplane.recall.retrieval import Finding, Retriever
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane import Plane
    from memplane.projections.item import Printer

__all__ = ["FITS_MAX", "Outcome", "outcome", "smallest_for"]

FITS_MAX: Final = 5_000
# Below this a pack has no use for the files view, and may have been made without it.
_FILES_FROM: Final = 8
_NOT_IN: Final = ("", "")


class _Stretch(NamedTuple):
    """Budgets `first` to `last` of one layout; `flat`: all of them show the event, or none does."""

    first: int
    last: int
    flat: bool


def smallest_for(
    laid: Laid, then: Plane, event: Event, why: str, fits: int,
    progress: Callable[[int, int], None] | None = None,
) -> Smallest:  # fmt: skip
    """Find the smallest budget above the pack's own at which a block shows the event's text.

    The promise: at the budget named the event is in, at one token less it is not, and none below
    `not_below` brings it in. `then` is the plane of the pack; `why` says why there is none, where
    that is known already.
    """
    own, budgets = laid.facts.budget, laid.ground.materials.policies.budgets
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    if not why and not sources_of(laid, event):
        why = "no budget brings it in: no part of the pack looks at it"
    if why:
        return Smallest(None, "", "", exact=True, not_below=most + 1, most=most, fits=0, why=why)
    if own >= most:
        return Smallest(None, "", "", exact=True, not_below=most + 1, most=most, fits=0)
    with then._engine.lock:  # noqa: SLF001 - what a retriever reads is shared
        search = _Search(_laid_for(laid, then), event, _stretches(laid, event), fits, progress)
        return search.run()


def _stretches(laid: Laid, event: Event) -> list[_Stretch]:
    """The budgets above the pack's own, by layout."""
    own, ground = laid.facts.budget, laid.ground
    budgets = ground.materials.policies.budgets
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    tail = ground.orients or any(source.tail for source in sources_of(laid, event))
    found: list[_Stretch] = []
    first = own + 1
    while first <= most:
        if first < STEADY_FROM:
            last, flat = min(STEADY_FROM, most) - 1, False
            last = max(last, first) if first < most else most
        else:
            step, flat = ladder(first, most), not tail
            within = bisect_right(range(first, most + 1), step, key=partial(ladder, most=most))
            last = first + within - 1
            same = own >= STEADY_FROM and ladder(own, most) == step
            if same and (flat or _settled(laid)):  # laid out as the pack itself was
                first = last + 1
                continue
        found.append(_Stretch(first, last, flat))
        first = last + 1
    return found


class _Search:
    """Packs at one budget after the other. What was found out is kept."""

    def __init__(
        self, laid: Laid, event: Event, stretches: Sequence[_Stretch], fits: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:  # fmt: skip
        self._stretches = stretches
        self._request, self._printer = laid.ground.request, laid.facts.sheet.printer
        self._materials = _asked_once(laid.ground.materials)
        self._event, self._fits, self._progress = event, fits, progress
        self._known: dict[int, tuple[str, str]] = {}
        self._settled: dict[int, bool] = {}
        budgets = self._materials.policies.budgets
        self._most = budgets.acb_total_max_tokens - budgets.reserve_tokens

    @property
    def _left(self) -> int:
        return self._fits - len(self._known)

    def run(self) -> Smallest:
        """Look once at each stretch, then at every budget that may be smaller than what that found.

        What is found is brought nearer by halves first, so that a bounded search has an answer.
        """
        found = self._glance()
        if found is None:
            return self._scan(self._most + 1)
        before = self._before(found)
        if before is not None and not before.flat:
            found = self._edge(before.first, found)
        return self._scan(found)

    def _before(self, budget: int) -> _Stretch | None:
        """The stretch that ends right below a budget."""
        return next((one for one in self._stretches if one.last == budget - 1), None)

    def _glance(self) -> int | None:
        for stretch in self._stretches:
            if not self._left:
                return None
            if self._shows(stretch.first):
                return stretch.first
        return None

    def _edge(self, out: int, inside: int) -> int:
        """A budget between that shows the event, where one token less does not."""
        while inside - out > 1 and self._left:
            middle = (out + inside) // 2
            if self._shows(middle):
                inside = middle
            else:
                out = middle
        return inside

    def _scan(self, upto: int) -> Smallest:
        """Try every budget below `upto` of which nothing is certain yet, from the smallest on."""
        for stretch in self._stretches:
            budget, last = stretch.first, min(stretch.last, upto - 1)
            while budget <= last:
                if budget not in self._known and not self._left:
                    return self._answer(upto, budget)
                if self._shows(budget):
                    return self._answer(budget, budget)
                if stretch.flat or (budget >= STEADY_FROM and self._settled.get(budget)):
                    break
                budget += 1
        return self._answer(upto, upto)

    def _answer(self, found: int, not_below: int) -> Smallest:
        there = found <= self._most and self._edged(found, not_below)
        how, section = self._known[found] if there else _NOT_IN
        return Smallest(
            found if there else None, how, section, exact=found == not_below,
            not_below=not_below, most=self._most, fits=len(self._known),
        )  # fmt: skip

    def _edged(self, found: int, not_below: int) -> bool:
        """Whether it is known that one token less than what was found does not do."""
        if found == not_below or self._known.get(found - 1) == _NOT_IN:
            return True
        before = self._before(found)
        flat = before is not None and before.flat
        return flat and before is not None and self._known.get(before.first) == _NOT_IN

    def _shows(self, budget: int) -> bool:
        known = self._known.get(budget)
        if known is None:
            came = outcome(self._request, self._materials, self._printer, budget)
            known = self._known[budget] = came.shown.get(self._event.id, _NOT_IN)
            self._settled[budget] = came.settled
            if self._progress is not None:
                self._progress(len(self._known), self._fits)
        return known != _NOT_IN


class Outcome(NamedTuple):
    """What a pack shows: how and in which section by the event's id. `settled`: see `_settled`."""

    shown: dict[str, tuple[str, str]]
    settled: bool


def outcome(request: Request, materials: Materials, printer: Printer, budget: int) -> Outcome:
    """Pack with a budget, and say what became of each event."""
    laid = lay(request._replace(budget=budget), materials, printer)
    shown: dict[str, tuple[str, str]] = {}
    for entry in laid.rendered.entries:
        if entry.source not in NAMING:
            for id_ in entry.parts:
                shown.setdefault(id_, ("part", entry.section))
            for id_ in entry.events:
                shown[id_] = ("whole", entry.section)
    return Outcome(shown, _settled(laid))


def _settled(laid: Laid) -> bool:
    """Whether a steady block would be the same with any more tokens of the same step.

    It is where each section of the tail had all that it may have.
    """
    return laid.ground.intent != "orient" and not laid.facts.sheet.short


def _laid_for(laid: Laid, then: Plane) -> Laid:
    """The pack with all that a larger one is made of."""
    request = laid.ground.request
    if laid.facts.budget >= _FILES_FROM:
        return laid
    found: list[Laid] = []
    asked = request._replace(budget=_FILES_FROM).as_json()
    then.pack(**{**asked, "as_of": request.as_of, "now": request.now}, watch=found.append)
    return found[0]._replace(facts=laid.facts)


def _asked_once(materials: Materials) -> Materials:
    """The materials, of which what is read for a pack is read once for all of them."""
    opens, sessions = materials.retriever, materials.sessions
    kept: list[Any] = []

    def retriever() -> Retriever:
        assert opens is not None
        if not kept:
            kept.append(_Remembering(opens()))
        found: Retriever = kept[0]
        return found

    last = sessions() if sessions is not None else ()
    return materials._replace(
        retriever=None if opens is None else retriever,
        sessions=None if sessions is None else lambda: last,
    )


class _Remembering:
    """A retriever for packs that differ in their budget alone: each answer is looked for once."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever, self.dense_seq = retriever, retriever.dense_seq
        self.index_seq = retriever.index_seq
        self._found: dict[tuple[object, ...], Finding] = {}
        self._passages: dict[tuple[int, int], str] = {}
        self.item, self.id = retriever.item, retriever.id
        self.text, self.words = retriever.text, retriever.words

    def find(
        self, query: str, *, upto: int, scope: Scope, never: Collection[int] = (), most: int,
        only: Sequence[Sequence[str]] = (), bytes_max: int | None = None,
    ) -> Finding:  # fmt: skip
        key = (query, upto, frozenset(never), most, tuple(map(tuple, only)), bytes_max)
        if key not in self._found:
            self._found[key] = self._retriever.find(
                query,
                upto=upto,
                scope=scope,
                never=never,
                most=most,
                only=only,
                bytes_max=bytes_max,
            )
        return self._found[key]

    def passage(self, doc: int, wanted: Mapping[int, int], limit: int) -> str:
        # What is wanted comes from the one query.
        key = (doc, limit)
        if key not in self._passages:
            self._passages[key] = self._retriever.passage(doc, wanted, limit)
        return self._passages[key]
