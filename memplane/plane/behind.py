"""Search while the index is far behind the log: its part, and words of the hotset behind that.

What lies between, recorded after the index ended and gone from the hotset since, is not found:
whoever asks is told how far the index reached, and may wait for all of it instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.index import terms
from memplane.index.bm25 import idf
from memplane.index.ranking import merged
from memplane.plane.retrieving import LogRetriever
from memplane.recall.documents import labels_of
from memplane.recall.retrieval import ONE, Candidates, Finding, Found

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from memplane.plane.dense import Near
    from memplane.plane.folds import Folds
    from memplane.plane.indexing import Indexed
    from memplane.plane.seen import Seen
    from memplane.policy import Scoring
    from memplane.projections.hotset import HotsetState
    from memplane.projections.item import Item
    from memplane.projections.memories import Memories
    from memplane.recall.suppress import Scope

__all__ = ["BehindRetriever"]

_FINE: Final = 1_024
_PERMILLE: Final = 1_000


class _Hot(NamedTuple):
    """An event of the hotset that is not indexed, and its words."""

    item: Item
    words: frozenset[int]


class BehindRetriever(LogRetriever):
    """The `Retriever` over the documents of events up to `reach`, and the hotset behind them.

    The same request with the same `index_seq` finds the same however much was indexed since. An
    event of the hotset earns what the words of the query that it has are worth of all of them; it
    has no neighbours, and no vector. Artifacts, of which only a file says whether they may be
    shown, wait for the index. The document of such an event is its seq, negative.
    """

    def __init__(
        self, indexed: Indexed, seen: Seen, folds: Folds, memories: Memories, scoring: Scoring,
        near: Near | None = None, *, reach: int, hotset: Callable[[Scope], HotsetState],
    ) -> None:  # fmt: skip
        super().__init__(indexed, seen, folds, memories, scoring, near)
        self.index_seq = self._upto_index = reach
        self._hotset = hotset  # that of a reader, with all groups of events that he sees
        # What was forgotten or replaced behind the documents that are there counts as well.
        self._masks, self._reach = indexed.new_masks(), folds.log.head().seq

    def find(
        self, query: str, *, upto: int, scope: Scope, never: Collection[int] = (), most: int,
        only: Sequence[Sequence[str]] = (), bytes_max: int | None = None,
    ) -> Finding:  # fmt: skip
        """See `Retriever.find`."""
        before = super().find(
            query, upto=min(upto, self._upto_index), scope=scope, never=never, most=most, only=only,
            bytes_max=bytes_max,
        )  # fmt: skip
        wanted = terms.query(query).words
        hot = [
            _Hot(item, self._seen.words(item.text))
            for seq, item in sorted(self._hotset(scope).items.items())
            if self._upto_index < seq <= upto and item.kind != "artifact"
        ]
        if not wanted or not hot or most < 1:
            return before
        worth = self._worth_with(wanted, min(upto, self._upto_index), hot)
        rows = [
            self._row(one, score)
            for one in hot
            if (score := self._score(one, worth))
            and one.item.seq not in never
            and self._may_be_shown(one.item, scope, only)
        ]
        found = _joined(before.found, rows, most)
        return before._replace(found=found, scanned=before.scanned + len(rows), wanted=worth)

    def words(self, doc: int) -> frozenset[int]:
        """See `Retriever.words`."""
        return super().words(doc) if doc >= 0 else self._seen.words(self.text(-doc))

    def passage(self, doc: int, wanted: Mapping[int, int], limit: int) -> str:
        """See `Retriever.passage`."""
        if doc >= 0:
            return super().passage(doc, wanted, limit)
        return self._seen.passage(self.text(-doc), wanted, limit)

    def _worth_with(
        self, wanted: Sequence[tuple[int, float]], upto: int, hot: Sequence[_Hot]
    ) -> dict[int, int]:
        """What each word of the query is worth, over the documents and the hotset together."""
        view = self._indexed.view(upto)
        count = view.count + len(hot)
        having = view.counts([term for term, _ in wanted])
        return {
            term: int(weight * idf(count, held + sum(term in one.words for one in hot)) * _FINE)
            for (term, weight), held in zip(wanted, having, strict=True)
        }

    def _score(self, one: _Hot, worth: Mapping[int, int]) -> int:
        """What the event earns, in 2**-20; less for what tools were called with and gave back."""
        said = self._scoring.retrieval
        factors = {"tool_call": said.tool_call, "tool_result": said.tool_result}
        own = sum(value for term, value in worth.items() if term in one.words)
        earned = own * ONE // max(1, sum(worth.values()))
        return earned * factors.get(one.item.kind, _PERMILLE) // _PERMILLE

    def _may_be_shown(self, item: Item, scope: Scope, only: Sequence[Sequence[str]]) -> bool:
        if scope.hides(item) is not None:
            return False
        event = self._seen.line(item.seq).event
        if self._memories.archived(event, upto=min(scope.as_of, self._reach)) is not None:
            return False
        labels = frozenset(labels_of(event)) if only else frozenset()
        return all(not labels.isdisjoint(group) for group in only)

    def _row(self, one: _Hot, score: int) -> Found:
        item = one.item
        item.finish(self._seen.counter)
        return Found(
            item.seq, score, score, 0, 0, 0, 0, 0, item.cost, item.importance, False, -item.seq
        )


def _joined(
    before: Candidates | tuple[()], rows: Sequence[Found], most: int
) -> Candidates | tuple[()]:
    """The best of both."""
    if not rows:
        return before
    ours = list(before.columns.values()) if before else []
    return Candidates(merged(ours, rows, most))
