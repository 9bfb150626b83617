"""What the product is compared with: an order of events, rendered and counted as its own blocks.

A baseline says in which order it would take the events. From there on it is the product's code:
each event in its window form, under the heading of evidence, between the same two marks, counted
by the plane's counter. What does not fit is skipped. The whole budget is for evidence: a baseline
has no decisions, no recent window and no tasks to pay for.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memplane.context.folds import items_of_event
from memplane.errors import InputError
from memplane.event import UPKEEP_KINDS, Event
from memplane.index import store, terms
from memplane.index.document import Document
from memplane.intake.redact import Redactor
from memplane.pack.evidence import FOUND
from memplane.pack.layout import FRAMED_FROM, Sheet, budget_of, entry_group, entry_of
from memplane.pack.render import Rendered, frame_reserve, render_block
from memplane.projections.item import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memplane.plane import Plane
    from memplane.ports import Hit, Index, TokenCounter

    Order = Callable[[str], Iterable[int]]

__all__ = ["BASELINES", "PlainIndex", "Shelf", "check_baselines", "order_of"]


_WORD: Final = re.compile(r"\w+")
BASELINES: Final = ("recency", "rank_bm25", "lexical")


def check_baselines(names: Sequence[str]) -> None:
    """Raise InputError for a name that is none, or for one that cannot run here."""
    for name in names:
        if name not in BASELINES:
            known = ", ".join(BASELINES)
            raise InputError(f"expected some of {known}; found {name!r:.60}", where="baselines")
        if name == "rank_bm25" and find_spec("rank_bm25") is None:
            raise InputError("rank_bm25 is not installed: pip install rank-bm25", where="baselines")


class Shelf:
    """The events of a plane that a channel may see, each as the product prints it."""

    def __init__(
        self, plane: Plane, channel: str, counter: Callable[[str, int], TokenCounter]
    ) -> None:
        policies = plane.policies
        self._budgets = policies.budgets
        made = counter(policies.budgets.counter, policies.budgets.scale_ppm)
        redactor = Redactor(policies.privacy.redact_patterns)
        self._printer = Printer(made, lambda text: redactor.redact(text)[0], "evaluate")
        self.events: list[Event] = [
            event for event in plane.events(channel=channel) if event.kind not in UPKEEP_KINDS
        ]
        self._items = [items_of_event(event, made) for event in self.events]
        self._forms = [item.form(0, self._printer) for item in self._items]
        self._least = min((form[1] for form in self._forms), default=0)

    def fill(self, order: Iterable[int], budget: int) -> Rendered:
        """Take events (by their place here) in this order, as long as they fit; render them."""
        budget = budget_of(budget, self._budgets)
        framed = budget >= FRAMED_FROM
        frame = frame_reserve(self._printer.counter) if framed else 0
        sheet = Sheet({FOUND.section: budget - frame}, self._printer)
        room = sheet.room(FOUND)
        for at in order:
            form, item = self._forms[at], self._items[at]
            group = entry_group(item)
            if form[1] <= room and form[1] + sheet.date_tokens(FOUND, group) <= room:
                sheet.put(FOUND, entry_of(FOUND, item, form), group)
                room = sheet.room(FOUND)
                if room < self._least:
                    break
        block = render_block(sheet.entries(), self._printer.counter, sheet.frame, framed=framed)
        assert block.tokens <= budget, "a baseline has no more room than the product"
        return block


def order_of(name: str, events: Sequence[Event], index: Callable[[], Index]) -> Order:
    """Return the order of a baseline: from a question to places in `events`, best first.

    `name` is one of those that `check_baselines` lets through; `index` makes an empty index.
    """
    if name == "recency":
        newest = range(len(events) - 1, -1, -1)
        return lambda _question: newest
    if name == "rank_bm25":
        return _rank_bm25(events)
    return _lexical(events, index())


def _rank_bm25(events: Sequence[Event]) -> Order:
    """Okapi BM25 as rank-bm25 ships it, over the words of the text alone; ties to the newer."""
    made: Any = import_module("rank_bm25")
    # It divides by the number of words: a corpus without any has no order but the newest first.
    texts = [_words(event.text) for event in events]
    ranker = made.BM25Okapi(texts) if any(texts) else None

    def order(question: str) -> list[int]:
        scores = ranker.get_scores(_words(question)).tolist() if ranker else [0] * len(events)
        return sorted(range(len(events)), key=lambda at: (-scores[at], -at))

    return order


def _words(text: str) -> list[str]:
    """Words in lower case and nothing else, as rank-bm25's own page has it."""
    return _WORD.findall(text.lower())


def _lexical(events: Sequence[Event], index: Index) -> Order:
    """The index's own scores and nothing else; what it does not find is not taken."""
    places = {event.seq: at for at, event in enumerate(events)}
    for event in events:
        index.add(event.seq, event.text, index_fields(event))
    last = events[-1].seq if events else 0

    def order(question: str) -> list[int]:
        hits = index.search(question, len(events), upto=last, masked=frozenset())
        return [places[hit.seq] for hit in hits]

    return order


def index_fields(event: Event) -> dict[str, str]:
    """Give an event's fields to an index, those that have a value."""
    fields = {"actor": event.actor, "role": event.role, "session": event.session, "ts": event.ts}
    return {name: value for name, value in fields.items() if value}


# The `Index` of the ports over words alone: texts in, scores out, no ranking beyond BM25.
#
# What `memplane eval` compares the product with, and the smallest example of the port.
class PlainIndex:
    """Documents in memory, each found by its text and the values of its fields."""

    def __init__(self) -> None:
        self._index = store.SegmentedIndex()

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        """Add a document behind all others; a seq that is here already is passed over."""
        extra = " ".join(fields[name] for name in sorted(fields))
        self._index.add(Document(seq, text=text, extra=extra))

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """Return the k best with seq <= upto, without the masked ones; ties go to the newer."""
        view = self._index.view(upto)
        hidden = np.zeros(view.count, bool)
        hidden[view.documents(masked)] = True
        return view.hits(terms.query(query), k, hidden)
