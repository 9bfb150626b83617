"""The search of hooks, over the saved index, with the standard library alone.

`HookRetriever` finds events. Words are scored by the formulas of the full search (`index.bm25`), to
the same integers; speakers, neighbours, related words, kinds and vectors are left out. Events that
are not indexed yet are not found: a full process indexes them (`memplane hook --catch-up`, or any
command that searches).

`SavedPassages` finds passages of earlier sessions for a prompt or the start of one. A passage is a
run of sentences of a user's, an assistant's or a compaction's text; texts of tools are none.
`answer` ranks them for a prompt and gives the figures by which `recall.gate` decides whether to
speak; `statements` gives the user's own words; `at_tool` what names a tool's file.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memplane.context.folds import items_of_event
from memplane.errors import NotFoundError
from memplane.event import KINDS, PROJECTS, TYPED_KINDS
from memplane.harness import remembered
from memplane.index import terms
from memplane.index.bm25 import (
    BM25,
    POSTING_BYTES,
    idf,
    length_norm,
    policy_constants,
    term_gain,
    term_worth,
)
from memplane.index.reader import SavedIndexReader
from memplane.index.terms import (
    IRREGULAR,
    ROLES,
    Query,
    Sentences,
    best_run,
    exact_term,
    whole_term,
)
from memplane.log.reader import LineCache
from memplane.ports import ONE, Candidates, ListColumn, Position, SearchResult
from memplane.recall import gate
from memplane.recall.documents import KIND_BITS, PROJECT_BITS, labels_of, variant_of
from memplane.recall.gate import Passage, PromptAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.index.reader import DocumentMarks
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.policy.records import AnswerRule
    from memplane.ports import Line
    from memplane.projections.item import Item
    from memplane.recall.suppress import Scope


_COMMON: Final = Path(__file__).parent.parent / "index" / "data" / "common.txt"
# Events that one request ranks; of them it reads lines of the log until so many may be shown.
_RANKED: Final = 200
_SHOWABLE: Final = 32
_EVENTS: Final = 20  # of which passages are ranked
_EXCLUDED: Final = 200  # events that were shown before, and may be among the best
_SHORT: Final = 20  # content words of a prompt that an identifier may open by itself
_HOLDERS: Final = 256  # documents looked at for one word
_GROUPS: Final = 64  # documents that say in which groups a session's events are
_STATEMENTS: Final = 400  # documents of users that are looked at for a start
_REMARK_CHARACTERS: Final = 200
_SUMMARIES: Final = 8  # of compactions, the newest, that are read for a start
_POINT_CHARACTERS: Final = 240
_POINTS: Final = 24  # with three rare identifiers: more fit into no start
_RARE: Final = 100  # a rare identifier is in at most one document of so many
_NAMED: Final = 3  # rare identifiers of a point: more are no better
_USER, _ASSISTANT, _SYSTEM = (ROLES.index(role) for role in ("user", "assistant", "system"))
_MESSAGE: Final = KINDS.index("message")
_STATED: Final = frozenset(KINDS.index(kind) for kind in TYPED_KINDS if kind != "observation")
_COMPACT: Final = "compact"  # tags the summary that a client goes on with
_BM25: Final = BM25(1.2, 0.5)


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

    def prompt(self, _doc: int) -> str | None:
        """See `Retriever.prompt`: here events are read anyway."""
        return None

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


class SavedPassages:
    """The passages of one request, over the saved index.

    `cosine`: gives the per cent of the text that is nearest to a prompt, where the rule asks.
    """

    def __init__(
        self,
        retriever: HookRetriever,
        rule: AnswerRule,
        request: Request,
        cosine: Callable[[Request, str, Scope], int],
    ) -> None:
        self._retriever, self._rule, self._request = retriever, rule, request
        self._cosine = cosine

    def answer(self, prompt: str, scope: Scope, said: Sequence[Item]) -> PromptAnswer:
        """Return the gate's figures and the best passages for a prompt.

        Of what the request's session does not hold: what others said, and what it said up to
        `held_seq`. Nothing is ranked, and `matched` is 0, where no passage could meet the rule.
        `said`: events of the session itself, of which the index may not have all yet; the newest
        that the request names, or that says the prompt, is the prompt. Reads at most 20 events that
        may be shown, of the best 200, and of as many more as the request excludes.
        """
        request, retriever, reader = self._request, self._retriever, self._retriever.reader
        retriever.keep_apart(scope)
        words = gate.read_prompt(prompt, common_words())
        if reader is None or not words.content:
            return PromptAnswer(gate.GateFigures())
        reach = _reach(request, reader)
        held = request.held_seq or 0
        named = request.query_event
        own = (one.seq for one in said if one.id == named or one.says(prompt))
        asking = max(own, default=0)
        memory = _Memory(reader, request.session, held, asking)
        known = [word for word in words.rare if _is_known(retriever, word, memory, scope, reach)]
        texts = [one.text for one in said if one.seq > held and one.seq != asking]
        new = _unsaid(known, memory, reach, texts)
        whole = len(set(words.named).intersection(known)) if len(words.content) <= _SHORT else 0
        size = len(words.content)
        composed = len(words.composed)
        most = gate.GateFigures(size, size, len(known), len(new), whole, words.asks, composed)
        if self._rule.cosine_percent and known:
            most = most._replace(cosine=self._cosine(request, prompt, scope))
        passages: list[Passage] = []
        quoted = gate.Quoted(prompt)
        if gate.is_open(most, self._rule):  # if the best passage held every word
            more = min(len(request.exclude), _EXCLUDED)
            ranked = _ranked(retriever, words, memory, scope, reach, more, quoted)
            # Of a long prompt a passage is a part.
            if any(_repeats(one, prompt) if one.whole else one.text in prompt for one in ranked):
                memory.leave_out(prompt)
                ranked = _ranked(retriever, words, memory, scope, reach, more, quoted)
            held_marks = frozenset(request.held_marks)
            passages = [
                one
                for one in ranked
                if not _repeats(one, prompt) and not gate.all_marked(one.text, held_marks)
            ]
        finder = gate.TextWords(words.content, IRREGULAR)
        best = [finder.count(_own_words(one, quoted)) for one in passages[: self._rule.passages]]
        matched = len(best[0]) if best else 0
        tied = sum(
            any(all(part in one for part in parts) for one in best) for parts in words.composed
        )
        return PromptAnswer(most._replace(matched=matched, tied=tied), tuple(passages), reach)

    def at_tool(self, event: Event, scope: Scope) -> PromptAnswer:
        """Return the best passages for a call of a tool that decide or warn and name what it names.

        Figures: `content` names that the call holds, `known` of them that the memory holds,
        `matched` that stand in the best passage. Passages of at most 200 characters, of what the
        session does not hold. Reads as many events as `answer`.
        """
        request, retriever, reader = self._request, self._retriever, self._retriever.reader
        retriever.keep_apart(scope)
        names = gate.tool_names(event)
        if reader is None or not names:
            return PromptAnswer(gate.GateFigures())
        reach = _reach(request, reader)
        memory = _Memory(reader, request.session, request.held_seq or 0)
        known = [word for word in names if _is_known(retriever, word, memory, scope, reach)]
        figures = gate.GateFigures(len(names), 0, len(known), len(known), len(known))
        if not known:
            return PromptAnswer(figures, (), reach)
        words = gate.PromptWords(tuple(known), tuple(known))
        more = min(len(request.exclude), _EXCLUDED)
        ranked = _ranked(
            retriever, words, memory, scope, reach, more, characters=_REMARK_CHARACTERS
        )
        finder = gate.TextWords(known, IRREGULAR)
        remarks = (_shortened(one) for one in ranked if _remarks(one))
        held_marks = frozenset(request.held_marks)
        passages = tuple(
            one
            for one in remarks
            if finder.count(one.text) and not gate.all_marked(one.text, held_marks)
        )
        matched = len(finder.count(passages[0].text)) if passages else 0
        return PromptAnswer(figures._replace(matched=matched), passages, reach)

    def statements(self, scope: Scope, said: Sequence[Item]) -> list[Passage]:
        """Return what users said that the session does not hold: its own words first.

        Of those of other sessions what decides something first; then the newest. Behind each of
        them stands one of a compaction's summary that warns, names a cause or decides, and holds a
        rare identifier. Passages of at most 240 characters. `said`: users' events that the hotset
        has, of which the index may not have all yet. Looks at the 400 newest documents of users,
        and at 8 summaries.
        """
        request, retriever, reader = self._request, self._retriever, self._retriever.reader
        retriever.keep_apart(scope)
        held = request.held_seq or 0
        reach = 0 if reader is None else _reach(request, reader)
        items = {one.seq: one for one in said if _is_missing(one, request, held, reach)}
        found = [
            (_is_own(item, request), one)
            for item in items.values()
            for one in gate.statements_of(item, item.text)
        ]
        if reader is not None:
            memory = _Memory(reader, request.session, held)
            documents = reader.documents(_USER, reach)
            for marks in islice(documents, _STATEMENTS):
                if marks.seq in items or not memory.remembers(marks):
                    continue
                item = _shown(retriever, marks.seq, scope)
                if item is not None:
                    items[marks.seq] = item
                    own, text = _is_own(item, request), retriever.text(marks.seq)
                    found += [(own, one) for one in gate.statements_of(item, text)]
        found = [(own, one) for own, one in found if scope.hides(one.item) is None]
        found.sort(
            key=lambda one: (
                not one[0],
                not gate.decides(one[1].text),
                -one[1].item.seq,
                one[1].start,
            )
        )
        points: list[Passage] = []
        if reader is not None:
            points = self._points(memory, scope, reach)
        # Of texts that differ in numbers or marks alone one says enough at a start.
        mixed = _mixed([one for _, one in found], points)
        return gate.distinct_passages(mixed, gate.letters_of)

    def _points(self, memory: _Memory, scope: Scope, reach: int) -> list[Passage]:
        """What summaries of compactions say, those of three rare identifiers first.

        A summary says in one line what took an hour: the fault, its cause, where it lies.
        """
        reader = self._retriever.reader
        assert reader is not None
        seqs = (
            marks.seq
            for marks in islice(reader.documents(_SYSTEM, reach), _STATEMENTS)
            if memory.remembers(marks)
        )
        # A long summary is several documents.
        items = (_shown(self._retriever, seq, scope) for seq in dict.fromkeys(seqs))
        summaries = islice((one for one in items if one is not None), _SUMMARIES)
        rare = max(reader.there(reader.below(reach)) // _RARE, 1)
        found: list[tuple[int, Passage]] = []
        for item in summaries:
            if sum(size == _NAMED for size, _ in found) >= _POINTS:
                break
            text = self._retriever.text(item.seq)
            for one in gate.passages_of(item, text, _POINT_CHARACTERS):
                if gate.is_remark(one.text, decided=True):
                    names = [whole_term(word) for word in gate.named_words(one.text)]
                    size = sum(0 < count <= rare for count in reader.counts(names, reach))
                    if size:
                        found.append((min(size, _NAMED), one))
        found.sort(key=lambda one: (-one[0], -one[1].item.seq, one[1].start))
        return [one for _, one in found]


def is_conversation(marks: DocumentMarks) -> bool:
    """Whether a document is a message of a user or an assistant, a summary or a statement."""
    kind = marks.flags >> KIND_BITS[0] & (1 << KIND_BITS[1]) - 1
    return kind in _STATED or (kind == _MESSAGE and marks.role in (_USER, _ASSISTANT))


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Return words and stems that are common in English or in talk about code.

    The first pieces of the static table's vocabulary, which is ordered by frequency;
    `tools/build_static.py` writes them.
    """
    return frozenset(_COMMON.read_bytes().decode("ascii").split())


class _Memory:
    """Which documents are conversation of other sessions than one; a container of all others."""

    def __init__(
        self, reader: SavedIndexReader, session: str | None, held: int, asking: int = 0
    ) -> None:
        """`held`: what the session said behind that seq is at hand, what it said before is not.

        `asking`: the seq of the prompt itself, which is neither.
        """
        self._reader, self._held, self._asking = reader, held, asking
        self._prompt: str | None = None
        self._known: dict[int, bool] = {}
        label = exact_term(f"session:{session}")
        own = islice(reader.holders(label), _GROUPS) if session else ()
        self._own = frozenset(one.group for one in own if one.group)
        # Nothing before it is said by the session.
        self._begins = (reader.first_seq(label) or 0) if self._own else None

    def __contains__(self, seq: object) -> bool:
        assert isinstance(seq, int)
        found = self._known.get(seq)
        if found is None:
            found = self._known[seq] = self._leaves_out(seq)
        return found

    def _leaves_out(self, seq: int) -> bool:
        marks = self._reader.marks(seq)
        if marks is None or not self.remembers(marks):
            return True
        return self._prompt is not None and _worded(self._reader.text(seq)) == self._prompt

    def leave_out(self, prompt: str) -> None:
        """Contain also what says the prompt and nothing else, by its text in the index.

        A question that is asked each day has more repeats than events are ranked for an answer.
        """
        self._prompt = _worded(prompt)
        self._known.clear()

    def remembers(self, marks: DocumentMarks) -> bool:
        """Whether a document is conversation that the session does not hold."""
        return is_conversation(marks) and (marks.group not in self._own or marks.seq <= self._held)

    def says(self, term: int, upto: int) -> bool:
        """Whether conversation that the session holds has a word.

        Looks at the newest documents up to that seq alone.
        """
        if self._begins is None:
            return False
        least = max(self._begins, self._held + 1)
        holders = islice(self._reader.holders(term, upto), _HOLDERS)
        return any(
            one.group in self._own and one.seq != self._asking and is_conversation(one)
            for one in takewhile(lambda one: one.seq >= least, holders)
        )


def _mixed(statements: list[Passage], points: list[Passage]) -> list[Passage]:
    """One of each in turn, as long as there are any."""
    pairs = zip_longest(statements, points)
    return [one for pair in pairs for one in pair if one is not None]


def _remarks(one: Passage) -> bool:
    return gate.is_remark(one.text, decided=one.item.role != "assistant")


def _is_own(item: Item, request: Request) -> bool:
    return item.session is not None and item.session == request.session


def _is_missing(item: Item, request: Request, held: int, reach: int) -> bool:
    """Whether the index lacks a message that the session does not hold, or may lack it."""
    if item.kind != "message" or item.seq > request.as_of:
        return False
    return item.seq <= held if _is_own(item, request) else item.seq > reach


def _reach(request: Request, reader: SavedIndexReader) -> int:
    """The last seq that counts: of the index, the request and its prefix of the log."""
    asked = reader.seq if request.index_seq is None else min(request.index_seq, reader.seq)
    return min(asked, request.as_of)


def _ranked(
    retriever: HookRetriever,
    words: gate.PromptWords,
    memory: _Memory,
    scope: Scope,
    upto: int,
    more: int,
    quoted: gate.Quoted | None = None,
    *,
    characters: int = gate.PASSAGE_CHARACTERS,
) -> list[Passage]:
    """The passages of the best events that may be shown; `more` of the best may be no candidate.

    What a summary has of the prompt because it is `quoted` counts for nothing.
    """
    reader = retriever.reader
    assert reader is not None
    content = sorted({whole_term(word) for word in words.content})
    query = Query(words=tuple((term, 1.0) for term in content))
    items: list[Item] = []
    # Most of the best may be hidden from this reader: then more of them are looked at.
    for most in (_EVENTS + more, _RANKED + more):
        hits = reader.hits(query, most, upto, memory, _BM25)
        found_items = (_shown(retriever, hit.seq, scope) for hit in hits)
        items = list(islice((item for item in found_items if item is not None), _EVENTS))
        if len(items) == _EVENTS or len(hits) < most:
            break
    finder = gate.TextWords(words.content, IRREGULAR)
    counts = reader.counts([whole_term(word) for word in words.content], upto)
    size = reader.there(reader.below(upto))
    weights = {word: idf(size, count) for word, count in zip(words.content, counts, strict=True)}
    found: list[tuple[Passage, dict[str, int]]] = []
    for item in items:
        for one in gate.passages_of(item, retriever.text(item.seq), characters):
            holds = finder.count(one.text if quoted is None else _own_words(one, quoted))
            if holds:
                found.append((one, holds))
    average = sum(len(one.text) for one, _ in found) / max(len(found), 1)
    scored = [one._replace(score=_score(one, holds, average, weights)) for one, holds in found]
    scored.sort(key=lambda one: (-one.score, -one.item.seq, one.start))
    return gate.distinct_passages(scored, lambda text: "".join(text.split()))


def _score(one: Passage, holds: dict[str, int], average: float, weights: dict[str, float]) -> int:
    """BM25 over passages: the length is in characters; words are added in their own order."""
    norm = length_norm(len(one.text), average, _BM25)
    total = 0.0
    for word in sorted(holds):
        total = total + term_gain(weights[word], holds[word], norm, _BM25)
    score = round(total * ONE)
    # A user's words are short and decide.
    return score * 3 // 2 if one.item.role == "user" else score


def _own_words(one: Passage, quoted: gate.Quoted) -> str:
    """What a passage says itself: a compaction's summary lists what the user had asked."""
    return quoted.without(one.text) if one.item.kind == "summary" else one.text


def _repeats(one: Passage, prompt: str) -> bool:
    """Whether a passage asks what the prompt asks: no answer to it."""
    return one.whole and _worded(one.text) == _worded(prompt)


def _worded(text: str) -> str:
    """A text in lower case, its words one space apart."""
    return " ".join(text.lower().split())


def _shown(retriever: HookRetriever, seq: int, scope: Scope) -> Item | None:
    """The event where it may be shown and is no digest of others."""
    if not retriever.is_there(seq):
        return None
    item = retriever.item(seq)
    if item.role == "tool" or (item.kind == "summary" and _COMPACT not in item.tags):
        return None
    return item if scope.hides(item) is None else None


def _shortened(one: Passage) -> Passage:
    """A passage of one long sentence, cut between words."""
    if len(one.text) <= _REMARK_CHARACTERS:
        return one
    kept = one.text[:_REMARK_CHARACTERS]
    return one._replace(text=kept[: kept.rfind(" ")].rstrip() or kept, whole=False)


def _is_known(
    retriever: HookRetriever, word: str, memory: _Memory, scope: Scope, upto: int
) -> bool:
    assert retriever.reader is not None
    holders = islice(retriever.reader.holders(whole_term(word), upto), _HOLDERS)
    remembered = (one.seq for one in holders if memory.remembers(one))
    return any(_shown(retriever, seq, scope) is not None for seq in remembered)


def _unsaid(known: Sequence[str], memory: _Memory, upto: int, texts: list[str]) -> list[str]:
    """Those of the words that neither the session's documents nor the texts hold."""
    finder = gate.TextWords(known, IRREGULAR)
    spoken = {word for text in texts for word in finder.count(text)}
    return [
        word for word in known if word not in spoken and not memory.says(whole_term(word), upto)
    ]


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
