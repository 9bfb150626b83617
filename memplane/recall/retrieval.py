"""The protocol `Retriever`, by which packs search the whole log, and the values that it returns.

The plane makes a `Retriever` from its index and log; recall and packing know no more of either. An
answer depends on the log up to `upto`, the policies and the scope alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import add, neg
from typing import Any, Final, NamedTuple, Protocol, overload

from memplane.errors import PlaneError
from memplane.projections.item import Item
from memplane.recall.suppress import Scope

__all__ = [
    "ONE",
    "Candidates",
    "Column",
    "DegradedError",
    "FoundEvent",
    "ListColumn",
    "Retriever",
    "SearchResult",
]

ONE: Final = 1 << 20  # what the words of a query could earn at most, before factors and boosts


class DegradedError(PlaneError):
    """A part failed that an answer can do without; `part` names it and the error, without its text.

    Whoever answers asks again without that part, and says so.
    """

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


class FoundEvent(NamedTuple):
    """One event that answers a query, with the parts of its score, all in 2**-20.

    `score` is their sum. `words` is what its own words earned, `similar` what its vector did,
    `neighbours` what the turns around it lent; `tokens` counts the whole text; `doc` is the
    document that speaks best for the event.
    """

    seq: int
    score: int
    words: int
    similar: int
    neighbours: int
    markers: int
    tags: int
    key: int
    tokens: int
    importance: int
    standing: bool  # a standing instruction, which answers questions it shares no word with
    doc: int


class Column(Protocol):
    """One field of all events found, as an array has it."""

    def item(self, at: int, /) -> Any: ...
    def take(self, places: Sequence[int], /) -> Column: ...
    def tolist(self) -> list[Any]: ...


class Candidates(Sequence[FoundEvent]):
    """Events found, best first, by columns: a row is made for who looks at it.

    `columns` are those of `Found`, in its order, all of one length.
    """

    __slots__ = ("_docs", "columns", "scores", "seqs", "tokens")

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = dict(zip(FoundEvent._fields, columns, strict=True))
        self.seqs: list[int] = self.columns["seq"].tolist()
        self.scores: list[int] = self.columns["score"].tolist()
        self.tokens: list[int] = self.columns["tokens"].tolist()
        self._docs: list[int] | None = None  # until one is asked for

    def rows(self, places: Sequence[int]) -> list[FoundEvent]:
        """Several rows at once: quicker than one by one."""
        taken = [column.take(places).tolist() for column in self.columns.values()]
        return list(map(FoundEvent._make, zip(*taken, strict=True))) if places else []

    def standing(self) -> list[int]:
        """Places of the standing instructions."""
        marks = self.columns["standing"].tolist()
        return [at for at, mark in enumerate(marks) if mark] if True in marks else []

    def doc(self, at: int) -> int:
        """The document that speaks best for the event at this place."""
        if self._docs is None:
            self._docs = self.columns["doc"].tolist()
        return self._docs[at]

    def above(self, floor: int) -> int:
        """How many score at least `floor`: they come first."""
        return bisect_right(self.scores, -floor, key=neg)

    def lifted(self, more: Sequence[int]) -> Candidates:
        """The same events with more on the scores of the first ones, in the order that follows."""
        scores = [*map(add, self.scores, more), *self.scores[len(more) :]]
        importance = self.columns["importance"].tolist()
        order = sorted(
            range(len(self)), key=lambda at: (-scores[at], -importance[at], -self.seqs[at])
        )
        columns = {**self.columns, "score": ListColumn(scores)}
        return Candidates([ListColumn(one.take(order).tolist()) for one in columns.values()])

    def __len__(self) -> int:
        return len(self.seqs)

    def __iter__(self) -> Iterator[FoundEvent]:
        return iter(self.rows(range(len(self))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self.seqs))

    @overload
    def __getitem__(self, at: int) -> FoundEvent: ...
    @overload
    def __getitem__(self, at: slice) -> list[FoundEvent]: ...
    def __getitem__(self, at: int | slice) -> FoundEvent | list[FoundEvent]:
        if isinstance(at, slice):
            return self.rows(range(len(self))[at])
        return FoundEvent._make([column.item(at) for column in self.columns.values()])


class ListColumn(list[Any]):
    """A column of candidates without arrays."""

    def item(self, at: int) -> Any:
        return self[at]

    def take(self, places: Sequence[int]) -> ListColumn:
        return ListColumn([self[at] for at in places])

    def tolist(self) -> list[Any]:
        return list(self)


class SearchResult(NamedTuple):
    """Events found, best first; ties go by importance, then to the newer.

    `scanned`: how many documents held a word of the query. `wanted` weighs the query's terms, for
    choosing passages. `unread`: how many of the terms were left out because their postings were
    too many. Only where those are bounded, as for a pack: `marked` are turns that bear a marker,
    whatever was asked, by their seqs and the tokens of their texts, those of the greatest boost
    first, then the newest; `size`: bytes of the postings.
    """

    found: Candidates | tuple[()]
    scanned: int
    wanted: Mapping[int, int]
    marked: Sequence[tuple[int, int]] = ()
    size: int = 0
    unread: int = 0


class Retriever(Protocol):
    """The whole log by relevance, for one request.

    Vectors take part for the events up to `dense_seq`; None where no embedder does. `index_seq`: up
    to which event the log was indexed, where it was not wholly.
    """

    dense_seq: int | None
    index_seq: int | None

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
        """Return at most `most` events with seq <= upto that the scope does not hide.

        The statistics of terms are those of all documents up to `upto`. What is hidden or in
        `never` (the query itself) is no answer and no neighbour, nor is an event that bears none
        of the labels of a group in `only` (`kind:fact`, `ns:/global`, `session:s1`, `task:t`,
        `tag:x` and `key:x` in small letters, `marker:goal`). A query without words finds nothing.
        Of its terms the rarest take part, as far as their postings come to `bytes_max`.
        """
        ...

    def item(self, seq: int) -> Item:
        """Return the event as packing sees it; raises NotFoundError where the line is lost."""
        ...

    def id(self, seq: int) -> str:
        """Return the event's id; raises NotFoundError where the line is lost."""
        ...

    def text(self, seq: int) -> str:
        """Return the whole text of the event, from its body too."""
        ...

    def words(self, doc: int) -> frozenset[int]:
        """Return the words of a document as the terms of queries are numbered: see `wanted`."""
        ...

    def passage(self, doc: int, wanted: Mapping[int, int], limit: int) -> str:
        """Return the run of sentences of a document that says most of `wanted` in `limit` tokens.

        At least one sentence; the beginning where none says any of it. Tokens of the plane's
        counter.
        """
        ...
