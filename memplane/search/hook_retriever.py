"""A `Retriever` over the saved index with the standard library alone, for hooks.

Words are scored by the formulas of the full search (`index.bm25`), to the same integers; speakers,
neighbours, related words, kinds and vectors are left out. Events that are not indexed yet are not
found: a full process indexes them (`memplane hook --catch-up`, or any command that searches).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.context.folds import items_of_event
from memplane.errors import NotFoundError
from memplane.event import PROJECTS
from memplane.harness import remembered
from memplane.index import terms
from memplane.index.bm25 import POSTING_BYTES, policy_constants, term_worth
from memplane.index.reader import SavedIndexReader
from memplane.index.terms import Sentences, best_run
from memplane.log.reader import LineCache
from memplane.ports import Candidates, ListColumn, Position, SearchResult
from memplane.recall.documents import PROJECT_BITS, labels_of, variant_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.policy import Policies
    from memplane.ports import Line
    from memplane.projections.item import Item
    from memplane.recall.suppress import Scope

# Events that one request ranks; of them it reads lines of the log until so many may be shown.
_RANKED: Final = 200
_SHOWABLE: Final = 32


class HookRetriever:
    """The `Retriever` of a brief process. A document is an event here: its number is the seq."""

    dense_seq: int | None = None
    index_seq: int | None = None  # it never waits, and says nothing of it
    engine: str | None = None

    def __init__(self, context: PlaneContext, policies: Policies, folds: Folds) -> None:
        folder = context.home.path / "index"
        reader = SavedIndexReader(
            folder, plane=context.cache_id, variant=variant_of(policies), keeps=context.keeps
        )
        place = Position.from_mark(reader.seq, reader.mark)
        # Of another log, or of one that has lost its end since: nothing in it is to be believed.
        self.reader = reader if place is not None and context.log.matches(place) else None
        self._counter = context.counter(policies)
        self._scoring, self._folds = policies.scoring, folds
        self._items: dict[int, Item] = {}
        self._lines = LineCache(context.log.line)
        self._texts: dict[int, Sentences] = {}
        self._vocabulary = terms.TermVocabulary()

    def find(
        self,
        query: str,
        *,
        upto: int,
        scope: Scope,
        never: Collection[int] = (),
        most: int,
        only: Sequence[Sequence[str]] = (),
        bytes_max: int | None = None,
    ) -> SearchResult:
        """See `Retriever.find`; the best 32 that may be shown. All terms take part, or none."""
        wanted = terms.query(query)
        reader = self.reader
        self.keep_apart(scope)
        if reader is None or not wanted.words or not reader.below(upto) or most < 1:
            return SearchResult((), 0, {})
        words = [term for term, _ in wanted.words]
        size = POSTING_BYTES * sum(reader.counts(words, upto))
        if bytes_max is not None and size > bytes_max:
            return SearchResult((), 0, {}, unread=len(words))
        constants = policy_constants(self._scoring.retrieval)
        hits = reader.hits(wanted, min(2 * most, _RANKED), upto, (), *constants)
        found: list[tuple[Item, int]] = []
        for hit in hits:
            if hit.seq in never or not self.is_there(hit.seq):
                continue
            item = self.item(hit.seq)
            if scope.hides(item) is None and self._bears(hit.seq, only) and _says(item, query):
                found.append((item, hit.score))
                if len(found) == _SHOWABLE:
                    break
        found.sort(key=lambda each: (-each[1], -each[0].importance, -each[0].seq))
        worth = self._worth(wanted, upto)
        return SearchResult(_candidates(found[:most]), len(hits), worth, size=size)

    def keep_apart(self, scope: Scope) -> None:
        """Have documents of other projects than the reader's match nothing and count in nothing."""
        if self.reader is not None and scope.project is not None:
            spaces = [ns for ns in (scope.project, *scope.ns) if ns.startswith(PROJECTS)]
            self.reader.set_apart(PROJECT_BITS[0], [f"ns:{ns}" for ns in spaces])

    def item(self, seq: int) -> Item:
        """See `Retriever.item`."""
        kept = self._folds.hotset.state.find(seq)
        if kept is not None and kept.kind != "artifact":
            return kept
        item = self._items.get(seq)
        if item is None:
            event = self._line(seq).event
            item = self._items[seq] = items_of_event(event, self._counter)
            head = self._folds.log.head().seq
            item.settle(self._folds.memories.archived(event, upto=head))
        return item

    def id(self, seq: int) -> str:
        """See `Retriever.id`."""
        return self.item(seq).id

    def text(self, seq: int) -> str:
        """See `Retriever.text`; as far as it was indexed, of a long one."""
        event = self._line(seq).event
        if "body" in event.data and self.reader is not None:
            return self.reader.text(seq) or remembered(event).text
        return remembered(event).text

    def words(self, doc: int) -> frozenset[int]:
        """See `Retriever.words`."""
        return frozenset().union(*self._said(doc).words)

    def passage(
        self, doc: int, wanted: Mapping[int, int], limit: int, *, goes_on: bool = False
    ) -> str:
        """See `Retriever.passage`."""
        text, count = self.text(doc), self._counter.count
        said = self._said(doc)
        holds = said.holding(wanted.keys())
        start, end = best_run(said, holds, wanted, limit, count, goes_on=goes_on)
        return text[start:end].strip()

    def _said(self, seq: int) -> Sentences:
        said = self._texts.get(seq)
        if said is None:
            said = self._texts[seq] = Sentences(self.text(seq), self._vocabulary)
        return said

    def is_there(self, seq: int) -> bool:
        """Whether the log still holds an event."""
        try:
            self._line(seq)
        except NotFoundError:  # purged since it was indexed
            return False
        return True

    def _bears(self, seq: int, only: Sequence[Sequence[str]]) -> bool:
        if not only:
            return True
        labels = frozenset(labels_of(self._line(seq).event))
        return all(not labels.isdisjoint(group) for group in only)

    def _line(self, seq: int) -> Line:
        line = self._lines.line(seq)
        if line is None:
            raise NotFoundError(f"no event {seq}")
        return line

    def _worth(self, wanted: terms.Query, upto: int) -> dict[int, int]:
        assert self.reader is not None
        count = self.reader.there(self.reader.below(upto))
        counts = self.reader.counts([term for term, _ in wanted.words], upto)
        return {
            term: term_worth(weight, count, having)
            for (term, weight), having in zip(wanted.words, counts, strict=True)
        }


def _says(item: Item, query: str) -> bool:
    """Whether it can answer: neither the same question, nor a digest of turns found as such."""
    return not item.says(query) and item.key != f"session/{item.session}/summary"


def _candidates(found: Sequence[tuple[Item, int]]) -> Candidates | tuple[()]:
    if not found:
        return ()
    rows = [
        (item.seq, score, score, 0, 0, 0, 0, 0, item.cost, item.importance, False, item.seq)
        for item, score in found
    ]
    return Candidates([ListColumn(column) for column in zip(*rows, strict=True)])
