"""The ports: interfaces of the parts of a plane that can be replaced.

`memplane.wiring` chooses the implementations by the names in the policies, and for `Index`
`memplane.search.service` does. Each port has one suite of contract tests in `tests/ports/`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import add, neg
from typing import Any, Final, Protocol, TypeAlias, TypeVar, overload

from memplane.event import Draft, Event
from memplane.lazy import NamedTuple


class Position(NamedTuple):
    """A place in the log: behind the line with this seq and chain hash.

    `offset` is the byte behind the line in its segment. Caches name the place that they go up to.
    """

    seq: int
    h: str
    segment: int
    offset: int

    @property
    def mark(self) -> str:
        """What names the place beside its seq, in the manifest of a cache; see `from_mark`."""
        return f"{self.h} {self.segment} {self.offset}"

    @classmethod
    def from_mark(cls, seq: int, mark: str) -> Position | None:
        """Return the place with that seq that a mark names; None where it names none."""
        parts = mark.split(" ")
        if len(parts) != len(cls._fields) - 1 or not (
            parts[1].isdecimal() and parts[2].isdecimal()
        ):
            return None
        return cls(seq, parts[0], int(parts[1]), int(parts[2]))


class Line(NamedTuple):
    """One verified line of the log and where it stands. `end` is the byte behind its newline."""

    event: Event
    segment: int
    offset: int
    end: int

    @property
    def position(self) -> Position:
        """The place behind the line."""
        return Position(self.event.seq, self.event.h, self.segment, self.end)


Progress: TypeAlias = Callable[[int, int], None]  # what is done, and what there is to do


class Appended(NamedTuple):
    """What became of one draft. `duplicate`: the same event was there already, under this seq.

    `waiting`: the event, where it waits for a shared log and has no seq yet.
    """

    seq: int
    id: str
    ts: str
    duplicate: bool
    waiting: Event | None = None


class EventLog(Protocol):
    """An append-only, ordered, durable sequence of events."""

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None = None) -> list[Appended]:
        """Append all drafts in one write and acknowledge them, or raise and store none of them."""
        ...

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """Yield the verified lines with after < seq <= upto, in order."""
        ...

    def head(self) -> Position:
        """Where the log ends now."""
        ...


class SharedEntry(NamedTuple):
    """One entry of a shared log: where it stands, when the engine took it, and its bytes.

    Positions rise, and may have gaps. `at` is RFC 3339 in UTC with six decimals.
    """

    position: int
    at: str
    payload: bytes


class SharedLog(Protocol):
    """An ordered log of entries that many machines publish to and read: an engine's.

    Of use to one thread at a time. Each call ends within some seconds; raises SharedLogError where
    the engine is not reached or refuses.
    """

    def publish(
        self, entries: Sequence[tuple[str, bytes]], *, expected: int | None = None
    ) -> list[int]:
        """Store the entries, each with its id, in this order, all or none; their positions.

        Returns when they are as durable as the engine makes anything. An id that was published
        before may be stored a second time, or answered with where it stands. Raises ConflictError,
        and stores nothing, where the log does not end at the position `expected`.
        """
        ...

    def read(self, after: int, limit: int) -> list[SharedEntry]:
        """The first entries behind a position, at most so many, in order; stones among them."""
        ...

    def wait(self, after: int, seconds: float) -> bool:
        """Return at the latest after so long; whether there is an entry behind the position."""
        ...

    def erase(self, stones: Mapping[int, bytes]) -> None:
        """Put other bytes in the place of the entries at these positions, in this order.

        What stood there is gone for every reader. An entry that was erased before stays as it is.
        """
        ...

    def head(self) -> int:
        """The position of the last entry; 0 where there is none."""
        ...

    def put_note(self, device: str, note: bytes) -> None:
        """Keep the last note of a device, beside the log."""
        ...

    def notes(self) -> dict[str, bytes]:
        """The last note of each device."""
        ...

    def faults(self) -> list[str]:
        """What of the engine's settings may lose what it acknowledges, in words."""
        ...

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        ...


class TokenCounter(Protocol):
    """Counts tokens, additively: a text costs the sum of its lines, newlines included."""

    name: str

    def count(self, text: str) -> int:
        """Tokens of the text, never fewer than the encodings that the name stands for."""
        ...


class Clock(Protocol):
    """The time as RFC 3339 in UTC with six decimals: `2026-01-05T12:17:31.459000Z`."""

    def __call__(self) -> str: ...


class Hit(NamedTuple):
    """One document that an index found; scores are integers and compare within one answer only."""

    seq: int
    score: int


class Index(Protocol):
    """Documents by relevance, numbered in log order: the index as of a seq is a prefix."""

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        """Add one document; it can be found at once."""
        ...

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """The k best documents with seq <= upto that are not masked; ties go to the newer."""
        ...


ONE: Final = 1 << 20  # what the words of a query could earn at most, before factors and boosts

ScopeT_contra = TypeVar("ScopeT_contra", contravariant=True)
ItemT_co = TypeVar("ItemT_co", covariant=True)


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

    `columns` are those of `FoundEvent`, in its order, all of one length.
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


class Retriever(Protocol[ScopeT_contra, ItemT_co]):
    """The whole log by relevance, for one request.

    An answer depends on the log up to `upto`, the policies and the scope alone. `ScopeT_contra`
    says what the reader may see (`recall.suppress.Scope`); `ItemT_co` is an event as packing sees
    it (`projections.item.Item`). Two implementations: `search.retriever` over arrays, and
    `search.passages` with the standard library, for brief processes, which ranks by words
    alone; where that is all that counts, they give the same events in the same order.

    Vectors take part for the events up to `dense_seq`; None where no embedder does. `index_seq`: up
    to which event the log was indexed, where it was not wholly. `engine`: the name of the search
    engine, where it is not memplane's.
    """

    dense_seq: int | None
    index_seq: int | None
    engine: str | None

    def find(
        self,
        query: str,
        *,
        upto: int,
        scope: ScopeT_contra,
        never: Collection[int] = (),
        most: int,
        only: Sequence[Sequence[str]] = (),
        bytes_max: int | None = None,
    ) -> SearchResult:
        """Return at most `most` events with seq <= upto that the scope does not hide.

        The statistics of terms are those of all documents up to `upto`. What is hidden or in
        `never` (the query itself) is no answer and no neighbour, nor is an event that bears none
        of the labels of a group in `only` (`kind:fact`, `ns:/global`, `session:s1`, `task:t`,
        `tag:x` and `key:x` in small letters, `marker:goal`, `file:src/a.py`: a path or its end). A
        query without words finds nothing. Of its terms the rarest take part, as far as their
        postings come to `bytes_max`.
        """
        ...

    def item(self, seq: int) -> ItemT_co:
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

    def prompt(self, doc: int) -> str | None:
        """Return the text of a document that is all of a user's turn, without a look at the log.

        None of any other, and where only the log could tell.
        """
        ...

    def passage(
        self, doc: int, wanted: Mapping[int, int], limit: int, *, goes_on: bool = False
    ) -> str:
        """Return the run of sentences of a document that says most of `wanted` in `limit` tokens.

        `goes_on`: with what follows it there, as far as the limit goes. At least one sentence; the
        beginning where none says any of it. Tokens of the plane's counter.
        """
        ...


class Embedder(Protocol):
    """Texts to vectors. Never called while recording.

    `name` says which vectors they are: under another name all are computed again. A text's vector
    does not depend on the texts it is given with. Threads may ask at once.
    """

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One vector a text: `dimension` signed bytes, the largest 127 or -127; zeros for none.

        `memplane.index.vectors.signed_bytes` makes them of floats.
        """
        ...


SearchT_co = TypeVar("SearchT_co", covariant=True)
SessionT_co = TypeVar("SessionT_co", covariant=True)
CandidateT = TypeVar("CandidateT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
PassageT_co = TypeVar("PassageT_co", covariant=True)
TimeT_contra = TypeVar("TimeT_contra", contravariant=True)
NoteT_co = TypeVar("NoteT_co", covariant=True)


class PackSource(
    Protocol[
        SearchT_co,
        SessionT_co,
        CandidateT,
        ScopeT_contra,
        AnswerT_co,
        PassageT_co,
        TimeT_contra,
        NoteT_co,
    ]
):
    """What a pack reads of a plane while it is laid out, for one request and one prefix of the log.

    All else that a pack depends on is given to it as values. The types are those of the layers
    above: `Retriever`, `memplane.pack.request.LastSession`,
    `memplane.projections.item.Item`, `memplane.recall.gate.PromptAnswer` and `Passage`,
    `memplane.recall.session_digest.StandingNote`. The same request and prefix give the same
    answers.
    """

    def search(self) -> SearchT_co:
        """Open the search of the whole log."""
        ...

    def last_sessions(self) -> Sequence[SessionT_co]:
        """The newest sessions but the request's own, newest first, with what the reader may see."""
        ...

    def sessions_then(self, asked: TimeT_contra, scope: ScopeT_contra) -> Sequence[SessionT_co]:
        """The sessions of a time that was asked for, newest first, with what was said in them."""
        ...

    def answer(self, prompt: str, scope: ScopeT_contra) -> AnswerT_co:
        """What the memory holds for a prompt that its session does not hold, and how much of it."""
        ...

    def at_tool(self, event: Event, scope: ScopeT_contra) -> AnswerT_co:
        """What the memory holds that decides or warns and names what a call of a tool names."""
        ...

    def statements(self, scope: ScopeT_contra) -> Sequence[PassageT_co]:
        """What users said that the session does not hold, what decides something first."""
        ...

    def wishes(self, scope: ScopeT_contra) -> Sequence[NoteT_co]:
        """What users want from now on, newest first, as far as the reader may see it."""
        ...

    def traps(self, scope: ScopeT_contra) -> Sequence[NoteT_co]:
        """What went wrong and how it went right, newest first, as far as the reader may see it."""
        ...

    def unseen(self) -> Iterable[CandidateT]:
        """Events, each once, that could be candidates but for who reads: to be counted."""
        ...

    def line(self, seq: int) -> Line | None:
        """The line of an event; None where there is none, or the log has lost it."""
        ...

    def touched(self, event: CandidateT, *, upto: int) -> tuple[str | None, bool]:
        """When an event was touched last, if it was, and whether it is pinned, as of a seq."""
        ...

    def covers(self, seq: int, id: str, *, as_of: int, now: str) -> bool:  # noqa: A002
        """Whether the artifact of this seq and id is approved as of a seq, at a time."""
        ...

    def covered(self, *, as_of: int, now: str) -> Collection[int]:
        """Return the seqs of all artifacts that are approved."""
        ...

    def changed(self, id: str) -> bool:  # noqa: A002
        """Whether the copy of an artifact is not what was added."""
        ...


class Span(NamedTuple):
    """Characters of a text that a detector takes for a secret, and what it calls such ones."""

    start: int
    end: int
    rule: str


class Detector(Protocol):
    """A second engine for secrets, asked after memplane's own rules: on write, emit and audit.

    `name` is of lower-case letters, digits and dashes; masks and counts carry it. The same text
    must give the same spans, and threads may ask at once.
    """

    name: str

    def find(self, text: str) -> Sequence[Span]:
        """The secrets of a text, in any order; where it raises, nothing is stored or shown."""
        ...
