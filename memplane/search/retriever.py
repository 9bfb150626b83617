"""`LogRetriever`: search the whole log for one request, with mask, ranking, exact names and boosts.

`ItemCache` keeps between requests what does not depend on them: lines, items, passages, names.
`BehindRetriever` also searches the hot set where the index is far behind the log.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from memplane import index
from memplane.context.folds import items_of_event
from memplane.errors import HomeError, NotFoundError, PlaneError
from memplane.event import MARKERS
from memplane.index import terms
from memplane.index.bm25 import POSTING_BYTES, policy_constants, term_worth
from memplane.index.lexical import Matches, with_kinds
from memplane.index.ranking import (
    Boosted,
    ExactMatches,
    Frame,
    Kernel,
    Nearness,
    Ranking,
    RankingQuery,
    Similar,
    alike,
    boosted,
    marked_turns,
    merge_columns,
    rank,
    rank_sums,
)
from memplane.index.segment import asked_kinds
from memplane.index.terms import (
    INSTRUCTION,
    PREFERENCE,
    READ,
    ROLES,
    AskedTokens,
    Sentences,
    ask,
    best_run,
    exact_term,
    word_filter,
)
from memplane.index.vectors import Nearest, Neighbours, StaticTable, related
from memplane.lazy import NamedTuple, regex
from memplane.log.reader import LineCache
from memplane.ports import ONE, Candidates, FoundEvent, SearchResult
from memplane.projections.artifacts import facts_of
from memplane.projections.item import Item
from memplane.recall.documents import CARD, DAYS, KIND_BITS, MONTHS, kind_number, labels_of
from memplane.search.indexing import Indexed, whole_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.index.ranking import RankedEvents, Speakers
    from memplane.index.segment import Array
    from memplane.index.store import IndexView
    from memplane.log import FileLog
    from memplane.policy import Scoring
    from memplane.ports import Line, TokenCounter
    from memplane.projections.hotset import HotsetState
    from memplane.projections.memories import Memories
    from memplane.recall.suppress import Scope
    from memplane.search.engines import PlaneEngine, QueryVectors

Key = TypeVar("Key")
Value = TypeVar("Value")

_ITEMS_KEPT: Final = 8_192
_IDS_KEPT: Final = 32_768
_PASSAGES_KEPT: Final = 4_096
_SENTENCES_KEPT: Final = 128  # texts, with all their words
_SPEAKERS_MAX: Final = 64
_CHARACTERS_A_TOKEN: Final = 4
_ROLE_WORDS: Final = frozenset(ROLES)


class _Search(NamedTuple):
    """What decides which events a query finds, beside its terms."""

    query: str
    view: IndexView
    hidden: Array
    frame: Frame
    asked: RankingQuery
    ranking: Ranking
    sought: tuple[int, ...]  # kinds of things that it asks for
    most: int


class _Kept(Generic[Key, Value]):
    """The values asked for last: at most so many, the least recently used is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def keep(self, key: Key, value: Value) -> Value:
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return value


class ItemCache:
    """Lines, items, passages and names of a plane, kept between requests; never changes an answer.

    `line` returns a line by its seq, where there is something quicker than `log`, and `id_of` an id
    alone, None where it has to come from the line. Make a new cache under another token counter,
    and when the index was started again (`renewed` counts that): the log may be another one.
    """

    def __init__(
        self,
        log: FileLog,
        counter: TokenCounter,
        renewed: int,
        line: Callable[[int], Line | None] | None = None,
        id_of: Callable[[int], str | None] | None = None,
    ) -> None:
        self.log, self.counter, self.renewed = log, counter, renewed
        self._id = id_of
        self._lines = LineCache(line or log.line)
        self._items: _Kept[int, Item] = _Kept(_ITEMS_KEPT)
        self._told: _Kept[tuple[int, bool, int], Item] = _Kept(_ITEMS_KEPT)
        self._ids: _Kept[int, str] = _Kept(_IDS_KEPT)
        self._passages: _Kept[tuple[str, str], str] = _Kept(_PASSAGES_KEPT)
        self._sentences: _Kept[str, Sentences] = _Kept(_SENTENCES_KEPT)
        self._vocabulary = terms.TermVocabulary()
        self._names: dict[int, str] = {}

    def line(self, seq: int) -> Line:
        """Return a line of the log; raises NotFoundError without it."""
        found = self._lines.line(seq)
        if found is None:
            raise NotFoundError(f"no event {seq}")
        return found

    def id(self, seq: int) -> str:
        """Return the event's id; raises NotFoundError without its line."""
        found = self._ids.get(seq)
        if found is None:
            item = self._items.get(seq)
            said = None if self._id is None or item is not None else self._id(seq)
            if said is None:
                said = self.line(seq).event.id if item is None else item.id
            found = self._ids.keep(seq, said)
        return found

    def item(self, seq: int) -> Item:
        """Return the event as packing sees it: one object for all requests, in force."""
        item = self.kept(seq)
        if item is None:
            made = items_of_event(self.line(seq).event, self.counter)
            item = self._items.keep(seq, made)
            item.settle(None)
        return item

    def kept(self, seq: int) -> Item | None:
        """Return what `item` returned before, without a look at the log; None if it did not."""
        item = self._items.get(seq)
        if item is not None:
            item.settle(None)
        return item

    def saying(self, event: Event, text: str, *, card: bool) -> Item:
        """Return an event as packing sees it with another text: an artifact's, or its card.

        The hash in the event stands for what its file says: it has one text of each.
        """
        key = (event.seq, card, len(text))
        item = self._told.get(key)
        if item is None:
            said = event._replace(text=text)
            item = self._told.keep(key, Item.of(said, len(text) // _CHARACTERS_A_TOKEN))
        item.settle(None)
        return item

    def passage(
        self,
        text: str,
        wanted: Mapping[int, int],
        limit: int,
        *,
        goes_on: bool = False,
        only: AskedTokens | None = None,
    ) -> str:
        """Return the passage of a text that says most of `wanted`; see `Retriever.passage`."""
        return self.passages([text], wanted, limit, goes_on=goes_on, only=only)[0]

    def passages(
        self,
        texts: Sequence[str],
        wanted: Mapping[int, int],
        limit: int,
        *,
        goes_on: bool = False,
        only: AskedTokens | None = None,
    ) -> list[str]:
        """Return the passage of each text."""
        how = f"{limit} {goes_on} {sorted(wanted.items())}"  # a text, for it keeps its hash
        keys = [(text, how) for text in texts]
        found = list(map(self._passages.get, keys))
        places = [at for at, one in enumerate(found) if one is None]
        said = [self._said(texts[at]) for at in places]
        holds = [one.holding(wanted.keys(), only) for one in said]
        count = self.counter.count
        for at, one, held in zip(places, said, holds, strict=True):
            start, end = best_run(one, held, wanted, limit, count, goes_on=goes_on)
            found[at] = self._passages.keep(keys[at], texts[at][start:end].strip())
        return [one or "" for one in found]

    def asked(self, words: terms.WordFilter) -> terms.AskedTokens:
        """Return what finds the words of a query in texts, for the passages of one request."""
        return AskedTokens(words, self._fresh_vocabulary())

    def words(self, text: str) -> frozenset[int]:
        """Return the words of a text, numbered as the terms of queries are."""
        return frozenset().union(*self._said(text).words)

    def _said(self, text: str) -> Sentences:
        said = self._sentences.get(text)
        if said is None:
            said = self._sentences.keep(text, Sentences(text, self._fresh_vocabulary()))
        return said

    def _fresh_vocabulary(self) -> terms.TermVocabulary:
        if self._vocabulary.full():
            self._vocabulary = terms.TermVocabulary()
        return self._vocabulary

    def names(self, speakers: Speakers, hidden: Array, frame: Frame) -> dict[str, int]:
        """Return the speakers of visible documents, by lower-case name: at most 64.

        `frame` has all documents. Words for roles are no names.
        """
        found: dict[str, int] = {}
        for number in speakers.visible(hidden):
            label = speakers.labels[number]
            if label and label not in self._names:
                # The index knows a number only; one of the events says what it stands for.
                line = self._lines.line(int(frame.seq[speakers.firsts[number]]))
                actor = None if line is None else line.event.actor
                self._names[label] = "" if actor is None else actor.lower()
            name = self._names.get(label, "")
            if name not in _ROLE_WORDS:
                found[name] = label
            if len(found) == _SPEAKERS_MAX:
                break
        return found


class SearchEngine(NamedTuple):
    """Another search engine than memplane's index: its name, and what makes it when it is asked.

    `make` raises MissingExtraError.
    """

    name: str
    make: Callable[[], PlaneEngine]


# Search over the whole log for one request: query, mask, ranking, exact names, boosts.
_NAMES_MAX: Final = 100  # words of a query that may be a key or a tag
_UNCHANGED: Final = 1000  # a factor
_TWO: Final = 2
_AROUND: Final = regex(r"^[^\w/#@]+|[^\w/#@]+$")
_READ_KEPT: Final = 1 << 16  # characters of a text that a request keeps
_CALL: Final = kind_number("tool_call")
_TURN: Final = kind_number("message")
_RESULT: Final = kind_number("tool_result")
_KINDS: Final = (1 << KIND_BITS[1]) - 1
_USER: Final = ROLES.index("user")


class LogRetriever:
    """The `Retriever` over a plane's index and log.

    For one request, under the plane's lock. `memories` may go further than the folds. `index_seq`
    is None where all that the request may see is indexed.
    """

    index_seq: int | None = None

    def __init__(
        self,
        indexed: Indexed,
        seen: ItemCache,
        folds: Folds,
        memories: Memories,
        scoring: Scoring,
        near: QueryVectors | None = None,
        engine: SearchEngine | None = None,
    ) -> None:
        self._indexed, self._seen, self._folds = indexed, seen, folds
        self._engine, self.engine = engine, None if engine is None else engine.name
        self._hot = list(folds.hotset.state.groups.values())
        self._memories, self._scoring = memories, scoring
        self._near, self.dense_seq = near, None if near is None else near.seq
        self._every, self._reach = indexed.view(), indexed.seq
        self._masks = indexed.masks
        self._frame = indexed.frame(self._every)
        self._found: set[int] = set()  # what is in force: it would not have been found else
        self._approved: frozenset[int] = frozenset()  # artifacts whose text may be shown
        self._asked: AskedTokens | None = None  # for the words of the query
        self._read: dict[int, str] = {}  # what files of artifacts said, compared with their hashes

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
        wanted = terms.query(query)
        self._asked = self._seen.asked(word_filter(query))
        view = self._view(upto, scope)
        if not wanted.words or not view.there or most < 1:
            return SearchResult((), 0, {})
        hidden = self._hidden(view, scope, never, only)
        speakers = self._indexed.speakers
        speakers.follow(self._frame)
        names = self._seen.names(speakers, hidden, self._frame)
        counts, size, unread = dict[int, int](), 0, 0
        if self._engine is None:
            wanted, counts, size, unread = _affordable(wanted, view, bytes_max)
            wanted = self._with_related(query, self._weighted(wanted, names), view)
        unseen = self._masks.unseen(scope, self._every, self._frame)
        frame = self._indexed.frame(view, *unseen)
        answered = speakers.answered(view.count)
        # Who speaks alone is no company: that takes two names.
        among_people = not answered and len(names) >= _TWO
        sought = asked_kinds(query) if among_people and self._scoring.retrieval.kinds else ()
        ranking = _heeding(self._scoring, answered, len(names))
        read = ask(query, list(names))
        # A preference shapes help, and says nothing about what was or is so.
        helps = answered and not (read.broad or read.looks_up)
        if not helps:
            ranking = ranking._replace(preference=_UNCHANGED)
        meant = tuple(sorted(names[name] for name in read.speakers))
        first = _first_group(frame, hidden) if read.begins and answered else 0
        asked = RankingQuery(meant, read.first_person, read.broad, first)
        search = _Search(query, view, hidden, frame, asked, ranking, sought, most)
        wanted, ranked, scanned = self._ranked(search, wanted)
        heeded = {"custom:instruction": answered, "custom:preference": helps}
        exact, bearing = self._exact(query, view, heeded)
        found = self._carded(boosted(ranked, exact, frame, hidden, most), frame)
        standing = found.flags & (INSTRUCTION * _bits(self._scoring) if answered else 0) != 0
        made = Candidates((*found[:10], standing, found.docs))
        self._found.update(made.seqs)
        worth = self._worth(wanted, view, counts)
        marked = [] if bytes_max is None else self._marked(view, frame, hidden, bearing)
        self._indexed.searched()
        return SearchResult(made, scanned, worth, marked, size, unread)

    def _with_related(self, query: str, wanted: terms.Query, view: IndexView) -> terms.Query:
        """The query with the words that are near to its own."""
        said = self._scoring.retrieval
        if not (said.related and said.related_most):
            return wanted
        near, kept = neighbours()
        most, least = said.related_most, said.related_least
        kin = related(query, near.near, view.present, kept, most=most, least=least, query=wanted)
        return wanted._replace(related=kin)

    def _ranked(
        self, search: _Search, wanted: terms.Query
    ) -> tuple[terms.Query, RankedEvents, int]:
        """The query as it was asked, its best events, and how many documents it found."""
        query, view, hidden, frame, asked, ranking, sought, most = search
        near = self._near
        if self._engine is not None:
            matches, by_vectors = self._of_engine(self._engine, query, hidden, most)
            near = None if by_vectors else near  # vectors count once
        else:
            constants = policy_constants(self._scoring.retrieval)
            sums = view.sums(wanted, hidden, *constants)
            if near is None and not sought:  # nothing but words counts: see `rank_sums`
                ranked, count, covered = rank_sums(
                    sums, frame, asked, ranking, most=most, hidden=hidden
                )
                if covered:
                    return wanted, ranked, count
            matches = sums.matches()
            if not matches.coverage.any():  # no word of it is there
                wanted = self._stand_in(wanted)
                matches = view.match(wanted, hidden, *constants)
        if sought:
            weight = self._scoring.retrieval.kinds / 1000
            matches = with_kinds(matches, frame.traits, sought, weight, hidden, view.apart)
        similar = None if near is None else self._similar(near, query, hidden)
        ranked = rank(matches, frame, asked, ranking, most=most, hidden=hidden, similar=similar)
        return wanted, ranked, len(matches.docs)

    def _stand_in(self, wanted: terms.Query) -> terms.Query:
        """The words that are closest to those of a query, in their place."""
        alone = self._scoring.retrieval.related_alone / 1000
        # Names of days are near to each other, and each event has those of its own time.
        dated = _date_terms() if any(term in _date_terms() for term, _ in wanted.words) else ()
        close = tuple(
            (term, cosine)
            for term, cosine in wanted.related
            if cosine >= alone and term not in dated
        )
        return wanted._replace(words=close, related=())

    def _of_engine(
        self, engine: SearchEngine, query: str, hidden: Array, most: int
    ) -> tuple[Matches, bool]:
        """What another engine finds, as many as lend to their neighbours; whether by vectors."""
        made, ranking = engine.make(), ranking_weights(self._scoring)
        count = max(most, ranking.sources_max, ranking.wide_sources_max)
        return made.matches(query, count, self._indexed, hidden, self._near), made.alike

    def alike(
        self,
        query: str,
        near: QueryVectors,
        *,
        upto: int,
        scope: Scope,
        most: int,
        only: Sequence[Sequence[str]] = (),
    ) -> SearchResult:
        """The events nearest to the query by these vectors, whatever their words."""
        view = self._view(upto, scope)
        hidden = self._hidden(view, scope, (), only)
        nearest = near.nearest(query, hidden) if view.count else None
        if nearest is None:
            return SearchResult((), 0, {})
        frame = self._indexed.frame(view)
        found = self._carded(alike(*nearest, frame, hidden, most), frame)
        made = Candidates((*found[:10], found.flags < 0, found.docs))  # no instruction stands out
        self._found.update(made.seqs)
        return SearchResult(made, len(nearest[0]), self._worth(terms.query(query), view, {}))

    def _view(self, upto: int, scope: Scope) -> IndexView:
        """The index as of a seq, without what is of other projects."""
        view = self._indexed.view(upto)
        return view.without(self._masks.apart(scope, self._every, self._frame))

    def item(self, seq: int) -> Item:
        for one in self._hot:
            if seq in one.holds:
                item = one.item(seq)
                if item.kind != "artifact":
                    return item
                break
        kept = self._seen.kept(seq) if seq in self._found else None
        if kept is not None:  # no artifact, and in force
            return kept
        event = self._seen.line(seq).event
        if event.kind == "artifact":
            card = seq not in self._approved
            item = self._seen.saying(event, self.text(seq), card=card)
        else:
            item = self._seen.item(seq)
        if seq not in self._found:
            archived = self._memories.archived(event, upto=self._folds.log.head().seq)
            if archived is not None:
                item.settle(archived)
        return item

    def id(self, seq: int) -> str:
        for one in self._hot:
            if seq in one.holds:
                return one.item(seq).id
        return self._seen.id(seq)

    def text(self, seq: int) -> str:
        event = self._seen.line(seq).event
        if event.kind != "artifact":
            return whole_text(self._seen.log, event)
        card = self._card(event)
        if card is not None:
            return card
        said = self._read.get(seq)
        if said is None:  # a file is read once for one request
            said = whole_text(self._seen.log, event, lenient=False)
            if len(said) <= _READ_KEPT:
                self._read[seq] = said
        return said

    def line(self, seq: int) -> Line | None:
        """Return the line of an event that was found; None where it is gone."""
        try:
            return self._seen.line(seq)
        except NotFoundError:
            return None

    def words(self, doc: int) -> frozenset[int]:
        return self._seen.words(self._every.text(doc))

    def prompt(self, doc: int) -> str | None:
        seqs, flags = self._frame.seq, self._frame.flags
        if not 0 <= doc < len(seqs) or self._frame.role[doc] != _USER:
            return None
        near = seqs[max(doc - 1, 0) : doc + 2].tolist()
        if near.count(seqs[doc]) > 1 or int(flags[doc]) >> KIND_BITS[0] & _KINDS != _TURN:
            return None
        try:
            return self._every.text(doc)
        except PlaneError:  # of a damaged index: the log knows
            return None

    def passage(
        self, doc: int, wanted: Mapping[int, int], limit: int, *, goes_on: bool = False
    ) -> str:
        text = self._every.text(doc)
        return self._seen.passage(text, wanted, limit, goes_on=goes_on, only=self._asked)

    def passages(self, docs: Sequence[int], wanted: Mapping[int, int], limit: int) -> list[str]:
        """Return what `passage` does for each of them, step by step, which is quicker."""
        texts = list(map(self._every.text, docs))
        return self._seen.passages(texts, wanted, limit, only=self._asked)

    def _card(self, event: Event) -> str | None:
        """What stands for an artifact that is not approved; None for any other event."""
        if event.kind != "artifact" or event.seq in self._approved:
            return None
        facts = facts_of(event)
        return "" if facts is None else f"{facts.card} {facts.handle}"

    def _carded(self, found: Boosted, frame: Frame) -> Boosted:
        """The same, with the tokens of its card for an artifact that is not approved."""
        cards = (found.flags & CARD).nonzero()[0].tolist()
        if not cards:
            return found
        tokens = found.tokens.copy()
        for at in cards:
            if int(found.seqs[at]) not in self._approved:
                tokens[at] = frame.tokens[found.docs[at]]
        return found._replace(tokens=tokens)

    def _hidden(
        self, view: IndexView, scope: Scope, never: Collection[int], only: Sequence[Sequence[str]]
    ) -> Array:
        self._approved = frozenset(scope.approved())
        mask = self._masks.of(scope, view, self._every, self._frame, self._memories, self._reach)
        if never:
            mask.documents(view.documents(never))
        for labels in only:
            mask.all_but(view.labelled(*labels))
        return mask.hidden

    def _similar(self, near: QueryVectors, query: str, hidden: Array) -> Similar | None:
        said = self._scoring.retrieval
        weights = Nearness(said.dense, said.dense_least, said.dense_cosine)
        return near.similar(query, hidden, weights)

    def _weighted(self, wanted: terms.Query, names: Iterable[str]) -> terms.Query:
        """The query with less weight on the names of speakers: half the log bears them."""
        weight = self._scoring.retrieval.speaker_name / 1000
        spoken = frozenset(term for name in names for term in _terms_of(name))
        words = tuple((term, weight if term in spoken else own) for term, own in wanted.words)
        return wanted._replace(words=words)

    def _exact(
        self, query: str, view: IndexView, heeded: Mapping[str, bool]
    ) -> tuple[ExactMatches, dict[str, Array]]:
        """Look up what the query names by key or tag, and what bears a marker, by its label too.

        Markers that are not `heeded` lift nothing; what it does not name is.
        """
        scoring, own = self._scoring, self._scoring.marker_boosts
        every = own | {name: own.get(name, own["custom"]) for name in heeded}
        boosts = {
            f"marker:{name}": boost
            for name, boost in every.items()
            if boost and heeded.get(name, True)
        }
        prepared = terms.normalise_text(query).lower()  # words that may be a key or a tag
        named = dict.fromkeys(_AROUND.sub("", word) for word in prepared.split())
        named |= dict.fromkeys(terms.surfaces(prepared))
        names = [name for name in named if name][:_NAMES_MAX]
        keys, tags = [f"key:{name}" for name in names], [f"tag:{name}" for name in names]
        found = view.bearing(list(map(exact_term, [*boosts, *keys, *tags])))
        first, second = len(boosts), len(boosts) + len(keys)
        exact = ExactMatches(
            found[first:second],
            scoring.key_weight,
            found[second:],
            scoring.tag_weight,
            list(zip(found[:first], boosts.values(), strict=True)),
        )
        return exact, dict(zip(boosts, found[:first], strict=True))

    def _marked(
        self, view: IndexView, frame: Frame, hidden: Array, known: Mapping[str, Array]
    ) -> list[tuple[int, int]]:
        """The turns of people and models that bear a marker: seqs and tokens, best first.

        `known` has the documents that bear some of them, by label.
        """
        if not self._scoring.packing.marked_reserve:
            return []
        boosts = {f"marker:{name}": self._scoring.marker_boosts[name] for name in MARKERS}
        left = [label for label in boosts if label not in known]
        bearing = (
            {**known, **dict(zip(left, view.bearing(list(map(exact_term, left))), strict=True))}
            if left
            else known
        )
        marks = [(bearing[label], boost) for label, boost in boosts.items()]
        if not any(len(docs) for docs, _ in marks):
            return []
        return marked_turns(marks, frame, hidden, KIND_BITS, _TURN)

    def _worth(
        self, wanted: terms.Query, view: IndexView, counts: Mapping[int, int]
    ) -> dict[int, int]:
        """What each word of the query is worth in a passage; `counts` has what is counted yet."""
        left = [term for term, _ in wanted.words if term not in counts]
        having = {**counts, **dict(zip(left, view.counts(left), strict=True))} if left else counts
        return {term: term_worth(weight, view.there, having[term]) for term, weight in wanted.words}


def _affordable(
    wanted: terms.Query, view: IndexView, most: int | None
) -> tuple[terms.Query, dict[int, int], int, int]:
    """The query without terms, as needed to read at most so many bytes of postings.

    With how many documents hold each term, the bytes of those kept, and how many were dropped;
    without a bound nothing is counted. The rarest are kept, and words before pairs and prefixes: a
    term of half the log says least.
    """
    if most is None:
        return wanted, {}, 0, 0
    fields = (wanted.words, wanted.bigrams, wanted.prefixes)
    every = [term for field in fields for term, _ in field]
    counts = dict(zip(every, map(int, view.counts(every)), strict=True))
    sizes = {term: POSTING_BYTES * count for term, count in counts.items()}
    total = sum(sizes.values())
    if total <= most:
        return wanted, counts, total, 0
    size, kept = 0, set[int]()
    for field in fields:
        for term in sorted((term for term, _ in field), key=lambda one: (sizes[one], one)):
            if size + sizes[term] <= most:
                size += sizes[term]
                kept.add(term)
    words, bigrams, prefixes = (tuple(one for one in field if one[0] in kept) for field in fields)
    left = wanted._replace(words=words, bigrams=bigrams, prefixes=prefixes)
    return left, counts, size, len(sizes) - len(kept)


def ranking_weights(scoring: Scoring) -> Ranking:
    """Return the weights of the ranking that the policy names."""
    said = scoring.retrieval
    return Ranking(
        coverage=said.coverage,
        speaker=said.speaker,
        speaker_heard=said.speaker_heard,
        first_person=said.first_person,
        first_person_heard=said.first_person_heard,
        preference=said.preference,
        preferring=PREFERENCE * _bits(scoring),
        near=Kernel(*said.near),
        wide=Kernel(*said.wide),
        impersonal=said.impersonal,
        timed=said.timed,
        asking=said.asking,
        reply=said.reply,
        session_best=said.session_best,
        answer=said.answer,
        opening=said.opening,
        beginning=said.beginning,
        sources_max=said.sources_max,
        wide_sources_max=said.wide_sources_max,
        bits=KIND_BITS,
        # They hold the words of whatever was looked for, many times over; what was made of it
        # stands in what people and agents said.
        factors=((_CALL, said.tool_call), (_RESULT, said.tool_result)),
        faint=said.tool_heard,
        faint_numbers=(_CALL, _RESULT),
    )


def _heeding(scoring: Scoring, answered: bool, names: int) -> Ranking:
    """The weights for talk with an assistant, or for so many people among themselves.

    Of these none speaks to an assistant. What an assistant says is long and names things of many
    kinds. Where two talk, what one asks the other answers; where more do, turns are short and need
    those around them.
    """
    ranking = ranking_weights(scoring)
    if answered or names < _TWO:
        ranking = ranking._replace(impersonal=_UNCHANGED, timed=_UNCHANGED, session_best=_UNCHANGED)
    if answered or names != _TWO:
        ranking = ranking._replace(asking=_UNCHANGED, reply=0)
    if answered:
        return ranking
    if names > _TWO:
        ranking = ranking._replace(near=Kernel(*scoring.retrieval.near_many))
    return ranking._replace(
        first_person=_UNCHANGED,
        first_person_heard=_UNCHANGED,
        preference=_UNCHANGED,
        answer=_UNCHANGED,
        opening=_UNCHANGED,
        beginning=_UNCHANGED,
    )


def _first_group(frame: Frame, hidden: Array) -> int:
    """The first session of which something may be seen, 0 where there is none."""
    shown = (frame.group != 0) & ~hidden[: frame.size]
    return int(frame.group[shown.argmax()]) if shown.any() else 0


def _bits(scoring: Scoring) -> int:
    """Times a flag: the flags of which one is enough.

    What was read from a text counts as what an event says itself, where texts are to be read.
    """
    return 1 | 1 << READ if scoring.markers.detect else 1


@lru_cache(maxsize=1)
def _date_terms() -> frozenset[int]:
    """The terms of the names of days and months, which stand beside the texts of documents."""
    return frozenset(term for name in (*DAYS, *MONTHS) for term in _terms_of(name))


@lru_cache(maxsize=1_024)
def _terms_of(name: str) -> tuple[int, ...]:
    return tuple(term for term, _ in terms.query(name).words)


@lru_cache(maxsize=1)
def neighbours() -> tuple[Neighbours, Nearest]:
    """The words of the static table and what is kept of their neighbours, mapped once."""
    table = StaticTable(_mapped("static.i8"))
    return Neighbours(table), Nearest(_mapped("near.bin"), table)


def _mapped(name: str) -> memoryview:
    path = Path(index.__file__).parent / "data" / name
    try:
        with path.open("rb") as file:  # of the package
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise HomeError(
            f"memplane was installed without index/data/{name}; install it again"
        ) from error


# Search while the index is far behind the log: the indexed part, and words of the hot set.
#
# Events recorded after the end of the index that have left the hot set are not found: the answer
# says how far the index reached, and a caller can wait for all of it instead.
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
        self,
        indexed: Indexed,
        seen: ItemCache,
        folds: Folds,
        memories: Memories,
        scoring: Scoring,
        near: QueryVectors | None = None,
        engine: SearchEngine | None = None,
        *,
        reach: int,
        hotset: Callable[[Scope], HotsetState],
    ) -> None:
        super().__init__(indexed, seen, folds, memories, scoring, near, engine)
        self.index_seq = self._upto_index = reach
        self._hotset = hotset  # that of a reader, with all groups of events that he sees
        # What was forgotten or replaced behind the documents that are there counts as well.
        self._masks, self._reach = indexed.new_masks(), folds.log.head().seq

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
        """See `Retriever.find`."""
        before = super().find(
            query,
            upto=min(upto, self._upto_index),
            scope=scope,
            never=never,
            most=most,
            only=only,
            bytes_max=bytes_max,
        )
        wanted = terms.query(query).words
        hot = [
            _Hot(item, self._seen.words(item.text))
            for seq, item in sorted(self._hotset(scope).items.items())
            if self._upto_index < seq <= upto and item.kind != "artifact"
        ]
        if not wanted or not hot or most < 1:
            return before
        worth = self._worth_with(wanted, self._view(min(upto, self._upto_index), scope), hot)
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

    def passage(
        self, doc: int, wanted: Mapping[int, int], limit: int, *, goes_on: bool = False
    ) -> str:
        """See `Retriever.passage`."""
        if doc >= 0:
            return super().passage(doc, wanted, limit, goes_on=goes_on)
        return self._seen.passage(self.text(-doc), wanted, limit, goes_on=goes_on)

    def passages(self, docs: Sequence[int], wanted: Mapping[int, int], limit: int) -> list[str]:
        """See `LogRetriever.passages`."""
        return [self.passage(doc, wanted, limit) for doc in docs]

    def _worth_with(
        self, wanted: Sequence[tuple[int, float]], view: IndexView, hot: Sequence[_Hot]
    ) -> dict[int, int]:
        """What each word of the query is worth, over the documents and the hotset together."""
        count = view.there + len(hot)
        having = view.counts([term for term, _ in wanted])
        return {
            term: term_worth(weight, count, held + sum(term in one.words for one in hot))
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

    def _row(self, one: _Hot, score: int) -> FoundEvent:
        item = one.item
        item.finish(self._seen.counter)
        return FoundEvent(
            item.seq, score, score, 0, 0, 0, 0, 0, item.cost, item.importance, False, -item.seq
        )


def _joined(
    before: Candidates | tuple[()], rows: Sequence[FoundEvent], most: int
) -> Candidates | tuple[()]:
    """The best of both."""
    if not rows:
        return before
    ours = list(before.columns.values()) if before else []
    return Candidates(merge_columns(ours, rows, most))
