"""The ports: interfaces of the parts of a plane that can be replaced.

`memplane.wiring` chooses the implementations by the names in the policies. Each port has one suite
of contract tests in `tests/ports/`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from memplane.event import Draft, Event

__all__ = [
    "Appended",
    "Clock",
    "Detector",
    "Embedder",
    "EventLog",
    "Head",
    "Hit",
    "Index",
    "Line",
    "PackSource",
    "Reflector",
    "Span",
    "TokenCounter",
]


class Head(NamedTuple):
    """Where a log ends: last seq, its chain hash, and the byte behind it."""

    seq: int
    h: str
    segment: int
    offset: int


class Line(NamedTuple):
    """One verified line of the log and where it stands. `end` is the byte behind its newline."""

    event: Event
    segment: int
    offset: int
    end: int


class Appended(NamedTuple):
    """What became of one draft. `duplicate`: the same event was there already, under this seq."""

    seq: int
    id: str
    ts: str
    duplicate: bool


class EventLog(Protocol):
    """An append-only, ordered, durable sequence of events."""

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None = None) -> list[Appended]:
        """Append all drafts in one write and acknowledge them, or raise and store none of them."""
        ...

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """Yield the verified lines with after < seq <= upto, in order."""
        ...

    def head(self) -> Head:
        """Where the log ends now."""
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


class PackSource(Protocol[SearchT_co, SessionT_co, CandidateT]):
    """What a pack reads of a plane while it is laid out, for one request and one prefix of the log.

    All else that a pack depends on is given to it as values. The types are those of the layers
    above: `memplane.recall.retrieval.Retriever`, `memplane.pack.request.LastSession`,
    `memplane.projections.item.Item`. The same request and prefix give the same answers.
    """

    def search(self) -> SearchT_co:
        """Open the search of the whole log."""
        ...

    def last_sessions(self) -> Sequence[SessionT_co]:
        """The newest sessions but the request's own, newest first, with what the reader may see."""
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


class Reflector(Protocol):
    """Derives events from events, usually with a model. Never called while recording or packing."""

    def reflect(self, events: Sequence[Event]) -> Sequence[Mapping[str, object]]:
        """Rows for `record_many`, each with `refs` to the events it rests on."""
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
