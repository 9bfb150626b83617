"""Passages of earlier sessions for a prompt or the start of one, with the standard library alone.

A passage is a run of sentences of a user's, an assistant's or a compaction's text; texts of tools
are none. `answer_prompt` ranks them for a prompt and gives the figures by which `recall.gate`
decides whether to speak; `recent_statements` gives the user's own words, newest first.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.event import KINDS
from memplane.index.bm25 import BM25, idf
from memplane.index.document import ROLES
from memplane.index.terms import IRREGULAR, Query, exact_term, term_of
from memplane.recall import gate
from memplane.recall.documents import KIND_BITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from memplane.index.reader import DocumentMarks, SavedIndexReader
    from memplane.policy.plane import AnswerRule
    from memplane.projections.item import Item
    from memplane.recall.suppress import Scope
    from memplane.search.hook_retriever import HookRetriever

__all__ = ["Passage", "PromptAnswer", "answer_prompt", "recent_statements"]


_COMMON: Final = Path(__file__).parent.parent / "index" / "data" / "common.txt"
_EVENTS: Final = 20  # of which passages are ranked
_EVENT_CHARACTERS: Final = 16_000  # of one event that are cut into passages
_SHORT: Final = 20  # content words of a prompt that an identifier may open by itself
_HOLDERS: Final = 256  # documents looked at for one word
_GROUPS: Final = 64  # documents that say in which groups a session's events are
_STATEMENTS: Final = 400  # documents of users that are looked at for a start
_STATEMENT_CHARACTERS: Final = 240
_STATEMENT_WORDS: Final = 3  # content words of a statement, at least
_USER, _ASSISTANT = ROLES.index("user"), ROLES.index("assistant")
_MESSAGE, _SUMMARY = KINDS.index("message"), KINDS.index("summary")
_COMPACT: Final = "compact"  # tags the summary that a client goes on with
_BM25: Final = BM25(1.2, 0.5)


class Passage(NamedTuple):
    """A part of an event's text. `score`: in 2**-20, 0 where nothing was asked."""

    item: Item
    start: int
    text: str
    score: int = 0


class PromptAnswer(NamedTuple):
    """What the memory holds for a prompt: the figures of the gate, and passages, best first."""

    figures: gate.GateFigures = gate.GateFigures()
    passages: tuple[Passage, ...] = ()


class _Memory:
    """Which documents are conversation of other sessions than one; a container of all others."""

    def __init__(
        self, reader: SavedIndexReader, session: str | None, never: Collection[int]
    ) -> None:
        self._reader, self._never = reader, never
        self._known: dict[int, bool] = {}
        label = exact_term(f"session:{session}")
        own = islice(reader.holders(label), _GROUPS) if session else ()
        self._own = frozenset(one.group for one in own)

    def __contains__(self, seq: object) -> bool:
        assert isinstance(seq, int)
        found = self._known.get(seq)
        if found is None:
            marks = self._reader.marks(seq)
            found = self._known[seq] = marks is None or not self.remembers(marks)
        return found

    def remembers(self, marks: DocumentMarks) -> bool:
        """Whether a document is conversation of another session."""
        return (
            is_conversation(marks)
            and marks.group not in self._own
            and (marks.seq not in self._never)
        )

    def is_said(self, marks: DocumentMarks) -> bool:
        """Whether a document is conversation of the session itself."""
        return is_conversation(marks) and marks.group in self._own


def is_conversation(marks: DocumentMarks) -> bool:
    """Whether a document is a message of a user or an assistant, or a summary."""
    kind = marks.flags >> KIND_BITS[0] & (1 << KIND_BITS[1]) - 1
    return kind == _SUMMARY or (kind == _MESSAGE and marks.role in (_USER, _ASSISTANT))


def answer_prompt(
    retriever: HookRetriever,
    prompt: str,
    *,
    session: str | None,
    rule: AnswerRule,
    upto: int,
    scope: Scope,
    never: Collection[int] = (),
    said: Sequence[Item] = (),
) -> PromptAnswer:
    """Return the gate's figures and the best passages of other sessions for a prompt.

    Nothing is ranked, and `matched` is 0, where no passage could meet the rule. `upto`: the last
    seq that counts; `never`: seqs that are no memory; `said`: events of the session itself that may
    not be indexed yet. Reads at most 20 events.
    """
    reader = retriever.reader
    words = gate.read_prompt(prompt, common_words())
    if reader is None or not words.content:
        return PromptAnswer()
    memory = _Memory(reader, session, never)
    known = [word for word in words.rare if _is_known(retriever, word, memory, scope, upto)]
    new = _unsaid(reader, known, memory, upto, [one.text for one in said if not one.says(prompt)])
    named = len(set(words.named).intersection(known)) if len(words.content) <= _SHORT else 0
    figures = gate.GateFigures(len(words.content), len(known), len(new), named, words.asks)
    if not gate.is_open(figures, rule):  # not even if the best passage held every word
        return PromptAnswer(figures._replace(matched=0))
    passages = _ranked(retriever, words, memory, scope, upto)
    if not passages:
        return PromptAnswer(figures._replace(matched=0))
    finder = gate.TextWords(words.content, IRREGULAR)
    matched = len(finder.count(passages[0].text))
    return PromptAnswer(figures._replace(matched=matched), tuple(passages))


def _ranked(
    retriever: HookRetriever, words: gate.PromptWords, memory: _Memory, scope: Scope, upto: int
) -> list[Passage]:
    reader = retriever.reader
    assert reader is not None
    terms = sorted({term_of(word) for word in words.content})
    query = Query(words=tuple((term, 1.0) for term in terms))
    hits = reader.hits(query, _EVENTS, upto, memory, _BM25)
    items = [item for hit in hits if (item := _shown(retriever, hit.seq, scope)) is not None]
    finder = gate.TextWords(words.content, IRREGULAR)
    counts = reader.counts([term_of(word) for word in words.content], upto)
    size = reader.below(upto)
    weights = {word: idf(size, count) for word, count in zip(words.content, counts, strict=True)}
    found: list[tuple[Passage, dict[str, int]]] = []
    for item in items:
        for start, text in _passages_of(retriever, item, gate.PASSAGE_CHARACTERS):
            holds = finder.count(text)
            if holds:
                found.append((Passage(item, start, text), holds))
    average = sum(len(one.text) for one, _ in found) / max(len(found), 1)
    scored = [one._replace(score=_score(one, holds, average, weights)) for one, holds in found]
    scored.sort(key=lambda one: (-one.score, -one.item.seq, one.start))
    return _distinct(scored)


def _score(one: Passage, holds: dict[str, int], average: float, weights: dict[str, float]) -> int:
    score = gate.score_passage(holds, len(one.text), average, weights)
    # A user's words are short and decide.
    return score * 3 // 2 if one.item.role == "user" else score


def _shown(retriever: HookRetriever, seq: int, scope: Scope) -> Item | None:
    """The event where it may be shown and is no digest of others."""
    if not retriever.is_there(seq):
        return None
    item = retriever.item(seq)
    if item.kind == "summary" and _COMPACT not in item.tags:
        return None
    return item if scope.hides(item) is None else None


def _passages_of(retriever: HookRetriever, item: Item, most: int) -> Iterator[tuple[int, str]]:
    text = retriever.text(item.seq)[:_EVENT_CHARACTERS]
    for start, end in gate.split_passages(text, most):
        yield start, text[start:end].strip()


def _distinct(passages: Iterable[Passage]) -> list[Passage]:
    """The first of those that say the same, in their order."""
    found: dict[str, Passage] = {}
    for one in passages:
        found.setdefault(" ".join(one.text.lower().split()), one)
    return list(found.values())


def _is_known(
    retriever: HookRetriever, word: str, memory: _Memory, scope: Scope, upto: int
) -> bool:
    assert retriever.reader is not None
    holders = islice(retriever.reader.holders(term_of(word), upto), _HOLDERS)
    remembered = (one.seq for one in holders if memory.remembers(one))
    return any(_shown(retriever, seq, scope) is not None for seq in remembered)


def _unsaid(
    reader: SavedIndexReader, known: Sequence[str], memory: _Memory, upto: int, texts: list[str]
) -> list[str]:
    """Those of the words that neither the session's documents nor the texts hold."""
    finder = gate.TextWords(known, IRREGULAR)
    spoken = {word for text in texts for word in finder.count(text)}
    return [
        word
        for word in known
        if word not in spoken
        and not any(
            memory.is_said(one) for one in islice(reader.holders(term_of(word), upto), _HOLDERS)
        )
    ]


def recent_statements(
    retriever: HookRetriever,
    *,
    session: str | None,
    upto: int,
    scope: Scope,
    never: Collection[int] = (),
) -> list[Passage]:
    """Return what users said in other sessions: what decides something first, then the newest.

    Passages of at most 240 characters with three content words and more. Looks at the 400 newest
    documents of users.
    """
    reader = retriever.reader
    if reader is None:
        return []
    memory = _Memory(reader, session, never)
    found: list[Passage] = []
    seen: set[int] = set()
    for marks in islice(reader.documents(_USER, upto), _STATEMENTS):
        if marks.seq in seen or not memory.remembers(marks):
            continue
        seen.add(marks.seq)
        item = _shown(retriever, marks.seq, scope)
        if item is not None:
            found += [
                Passage(item, start, text)
                for start, text in _passages_of(retriever, item, _STATEMENT_CHARACTERS)
                if gate.count_content(text) >= _STATEMENT_WORDS
            ]
    found.sort(key=lambda one: (not gate.decides(one.text), -one.item.seq, one.start))
    return _distinct(found)


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Return words and stems that are common in English or in talk about code.

    The first pieces of the static table's vocabulary, which is ordered by frequency;
    `tools/build_static.py` writes them.
    """
    return frozenset(_COMMON.read_text(encoding="ascii").split())
