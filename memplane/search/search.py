"""`Plane.search`: from the arguments of a caller to ranked hits.

What the channel may not see, what is out of force and what the filters exclude is masked before
anything is scored: it is no hit and does not affect the scores of others.
"""

from __future__ import annotations

from functools import partial
from itertools import islice, pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from memplane.context.calls import check_kind, checked_request, texts_of_argument
from memplane.context.folds import seq_by
from memplane.errors import ChangedError, DegradedError
from memplane.event import Event
from memplane.harness import is_typed_again, remembered
from memplane.intake.redact import unexpected
from memplane.lazy import NamedTuple, late
from memplane.observe import note
from memplane.ports import ONE, FoundEvent
from memplane.projections.item import plain_text, short_handle
from memplane.projections.sessions import is_extract
from memplane.projects import roots_of_folder
from memplane.recall.score import Circumstances, count, lifted
from memplane.recall.suppress import Filter, Scope
from memplane.search.service import (
    IndexReach,
    degraded_parts,
    index_service,
    near_to,
    prepare_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.index import terms as index_terms
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.ports import SearchResult
    from memplane.recall import documents
    from memplane.search.retriever import LogRetriever
else:
    documents = late("memplane.recall.documents")
    index_terms = late("memplane.index.terms")

HITS_MAX: Final = 1_000
PASSAGE_TOKENS: Final = 40
_TYPED_WITHIN: Final = 400  # events between a prompt and the same one, typed again
_PERMILLE: Final = 1_000
_TOGETHER: Final = 100  # hits that are read side by side
# The filters that are labels of the index, by the argument that names them.
_LABELLED: Final = ("kind", "session", "tag", "file")
_PARTS: Final = ("words", "similar", "neighbours", "markers", "tags", "key")


class SearchHit(NamedTuple):
    """One event that answers a query.

    `score` compares the hits of one search: 1000 is what an event earns that matches best of all
    and has every word of the query; factors and boosts come on top. It is the sum of `parts`:
    words (its own), neighbours (lent by the events around it), markers, tags and key, and where
    scoring.yaml gives them a weight, recency and coherence, as in packs. `text` is the passage that
    says most, in 40 tokens or one sentence, and `whole` whether that is all of the event's text;
    `event` is what this channel may see of it, without what its client put there; `stale` says that
    it fades and was left alone for longer than the policy's days.
    """

    score: int
    text: str
    event: Event
    parts: dict[str, int]
    whole: bool
    stale: bool = False

    @property
    def said_by(self) -> str | None:
        """Who says so: `user`, `agent`, `tool` or `model`; None where the event does not tell."""
        return self.event.said_by

    @property
    def handle(self) -> str:
        """What `expand` takes to show the whole event."""
        return short_handle(self.event.seq)


class SearchHits(list[SearchHit]):
    """The hits of one search, the best first. `degraded`: what they were found without, in words.

    As in a report: a failing embedder, an index that is far behind the log.
    """

    def __init__(self, hits: Iterable[SearchHit] = (), degraded: Iterable[str] = ()) -> None:
        super().__init__(hits)
        self.degraded = tuple(degraded)

    def _repr_markdown_(self) -> str:
        """How notebooks show them."""
        return "\n".join(f"1. {hit.text} *({hit.event.kind}, {hit.score})*" for hit in self)


def search_plane(
    context: PlaneContext,
    query: str,
    k: int,
    asked: dict[str, Any],
    *,
    similar: bool = False,
    wait: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SearchHits:
    """Return at most `k` hits by relevance; ties go by importance now, then to the newer.

    `similar`: by the cosine of their vectors with that of the query instead, and nothing else.
    `wait` for the whole index, as that one does.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= HITS_MAX:
        raise unexpected(f"1 to {HITS_MAX}", k, "k")
    named = {name: asked.pop(name, None) for name in _LABELLED}
    texts = {name: texts_of_argument(name, value) for name, value in named.items()}
    about = _AskedFiles(context, texts["file"])
    texts["file"] = about.names
    only = _only(texts)
    most = HITS_MAX if about.whole else k  # of what ends with one of the names, many may be others
    if similar:
        prepare_vectors(context, progress)
    with context.lock, context.log.held():
        policies = context.watched.policies()
        folds = context.caught_up(policies)
        request = checked_request(
            query,
            context.asked(asked),
            policies,
            head=folds.log.head().seq,
            clock=context.clock,
            seq_by=partial(seq_by, context.log),
            redactor=context.intake(policies).redactor,
        )
        reader = context.reader_of(request)
        if not request.query:
            return SearchHits()
        upto, scope, without = (
            request.as_of,
            scope_of_request(context, folds, request, policies),
            list[str](),
        )
        if similar:
            most = upto if request.dense_seq is None else request.dense_seq
            wanted = IndexReach(most, wait=True, progress=progress)
            retriever = index_service(context).retriever(policies, folds, wanted)
            near = near_to(context, policies, most)
            finding = retriever.alike(
                request.query, near, upto=upto, scope=scope, most=most, only=only
            )
        else:
            wanted = IndexReach.of(request, wait=wait, progress=progress)
            retriever, finding, without = found_by_words(
                context, policies, folds, request, scope, most, only, wanted
            )
        hits = _hits(context, policies, folds, request, reader, retriever, finding, similar=similar)
        return SearchHits(islice(filter(about.has, hits), k), without)


def _hits(
    context: PlaneContext,
    policies: Policies,
    folds: Folds,
    request: Request,
    reader: EventAccess,
    retriever: LogRetriever,
    finding: SearchResult,
    *,
    similar: bool,
) -> Iterator[SearchHit]:
    """The hits among the events found that may be shown, best first. Hold the lock."""
    every, terms = finding.found, dict[int, Circumstances]()
    best = every[0].score if every else 0
    floor = max(1, best * policies.scoring.evidence_floor // _PERMILLE)
    if every and not similar:
        every, terms = lifted(every, every.above(floor), retriever, request.now, policies.scoring)
    says = _Passages(context, policies, retriever, finding.wanted)
    hits: list[tuple[tuple[int, int, int], SearchHit]] = []
    good = (found for found in every if found.score >= floor)
    while some := list(islice(good, _TOGETHER)):
        found_lines = ((found, retriever.line(found.seq)) for found in some)
        events = [(found, line.event) for found, line in found_lines if line is not None]
        for said, text, whole in says.of(events, reader):
            found, event = said.found, said.event
            score, parts = _scores(found, terms.get(found.seq))
            left, stale = reader.fading(event, folds.memories, request.as_of)
            stale = stale and not is_extract(event)  # what came of a session stays so
            rank = (-found.score, -left, -found.seq)
            hits.append((rank, SearchHit(score, text, said.emitted, parts, whole, stale)))
    # The retriever's ties go by the importance that was recorded; by now it may have faded.
    hits.sort(key=itemgetter(0))
    again = _typed_again(retriever, [hit.event for _, hit in hits])
    return (hit for _, hit in hits if hit.event.seq not in again)


def _typed_again(retriever: LogRetriever, events: Iterable[Event]) -> set[int]:
    """The seqs of prompts that repeat another of these, typed again behind an interruption.

    Reads backwards, up to the prompt before in the session, and no more than 400 events.
    """
    prompts: dict[tuple[str | None, str], list[Event]] = {}
    for event in events:
        if event.kind == "message" and event.role == "user":
            prompts.setdefault((event.session, event.text.strip()), []).append(event)
    found: set[int] = set()
    for same in prompts.values():
        for first, then in pairwise(sorted(same, key=attrgetter("seq"))):
            if then.seq - first.seq <= _TYPED_WITHIN:
                lines = map(retriever.line, range(then.seq, first.seq - 1, -1))
                said = (remembered(line.event) for line in lines if line is not None)
                if is_typed_again(next(said), said):
                    found.add(then.seq)
    return found


def found_by_words(
    context: PlaneContext,
    policies: Policies,
    folds: Folds,
    request: Request,
    scope: Scope,
    most: int,
    only: Sequence[Sequence[str]],
    wanted: IndexReach,
    *,
    never: Collection[int] = (),
) -> tuple[LogRetriever, SearchResult, list[str]]:
    """What answers by words, and by vectors where the embedder does not fail; what is missing.

    `never` are seqs that are no answer.
    """
    if count(policies.scoring):  # what comes behind `most` of them may be lifted before them
        most = max(most, policies.budgets.limits.candidate_pool_max)

    def searched(wanted: IndexReach) -> tuple[LogRetriever, SearchResult, list[str]]:
        retriever = index_service(context).retriever(policies, folds, wanted)
        finding = retriever.find(
            request.query, upto=request.as_of, scope=scope, never=never, most=most, only=only
        )
        return retriever, finding, degraded_parts(request.as_of, retriever.index_seq)

    try:
        return searched(wanted)
    except DegradedError as error:
        note("degraded", {"part": error.part})
        retriever, finding, without = searched(wanted._replace(dense_seq=0))
        return retriever, finding, [error.part, *without]


class _Said(NamedTuple):
    """An event that was found, as this channel may see it, and its whole text as it is stored."""

    found: FoundEvent
    event: Event
    emitted: Event
    text: str
    masked: str


class _Passages(NamedTuple):
    """What hits say. No passage is a part of what redaction takes out of the whole text."""

    context: PlaneContext
    policies: Policies
    retriever: LogRetriever
    wanted: Mapping[int, int]

    def of(
        self, events: Iterable[tuple[FoundEvent, Event]], reader: EventAccess
    ) -> Iterator[tuple[_Said, str, bool]]:
        """Each event with the passage that says most, and whether it is the whole text.

        A short one always is. An artifact whose copy is another one is left out. Step by step for
        all of them: what a step needs stays in the processor's cache.
        """
        stored = [(found, event, remembered(event)) for found, event in events]
        read = [
            one
            for found, event, before in stored
            if (one := self._read(found, event, before, reader.emit(before))) is not None
        ]
        long = [one for one in read if one.found.tokens > PASSAGE_TOKENS]
        as_stored = [one.found.doc for one in long if one.masked == one.text]
        passages = iter(self.retriever.passages(as_stored, self.wanted, PASSAGE_TOKENS))
        for one in read:
            text = one.masked
            if one.found.tokens > PASSAGE_TOKENS:
                text = next(passages) if one.masked == one.text else self._anew(one.masked)
            said = plain_text(text)
            yield one, said, said == plain_text(one.masked)

    def _read(self, found: FoundEvent, event: Event, stored: Event, emitted: Event) -> _Said | None:
        text, masked = stored.text, emitted.text
        if "body" in stored.data or stored.kind == "artifact":
            try:
                text = self.retriever.text(found.seq)
            except ChangedError:  # the copy of an artifact
                return None
            masked = self.context.redact(self.policies)(text)
        return _Said(found, event, emitted, text, masked)

    def _anew(self, text: str) -> str:

        count = self.context.counter(self.policies).count
        start, end = index_terms.passage(
            text, self.wanted, PASSAGE_TOKENS, count, index_terms.TermVocabulary()
        )
        return text[start:end]


def _scores(found: FoundEvent, terms: Circumstances | None) -> tuple[int, dict[str, int]]:
    """The score and its parts in thousandths; what rounding leaves over goes to the largest."""
    score = found.score * _PERMILLE // ONE
    parts = {name: getattr(found, name) * _PERMILLE // ONE for name in _PARTS}
    parts.update({} if terms is None else terms._asdict())
    parts[max(parts, key=parts.__getitem__)] += score - sum(parts.values())
    return score, parts


def scope_of_request(
    context: PlaneContext, folds: Folds, request: Request, policies: Policies
) -> Scope:
    """What a pack with these arguments would see."""
    if request.task is not None and request.as_of != folds.log.head().seq:
        folds = context.prefix(request.as_of, policies)
    specs: tuple[str, ...] = ()
    if request.task is not None:
        sight = request.scope(policies)
        places, _ = context.places(folds, sight, policies)
        specs = places.tasks.seen_by(sight.sees).specs_of(request.task)
    return Scope.of(
        policies,
        request.channel,
        now=request.now,
        as_of=request.as_of,
        ns=request.ns,
        task=request.task,
        specs=specs,
        agent=request.agent,
        since=request.since,
        until=request.until,
        approvals=context.approvals(folds),
        only=Filter(request.tag, request.without_tag, request.importance_min),
    )


class _AskedFiles:
    """The files of a search: a path from the root is that file alone, any other an end of paths.

    `names` are those by which the index has them. `whole`: for some it has more than is meant.
    """

    def __init__(self, context: PlaneContext, paths: Sequence[str]) -> None:
        self._ends = [path.removeprefix("./") for path in paths if not path.startswith("/")]
        found = [tuple(_recorded_as(context, path)) for path in paths]
        self.names = tuple(name for some in found for name in some)
        self._exact = {name for some in found if some[0].startswith("/") for name in some}
        self.whole = any(len(some) > 1 for some in found)

    def has(self, hit: SearchHit) -> bool:
        """Whether a hit is about one of them."""
        path = hit.event.data.get("path")
        if not self.whole or not isinstance(path, str):
            return True
        if path in self._exact or path.removeprefix("./") in self._exact:
            return True
        return any(path == end or path.endswith(f"/{end}") for end in self._ends)


def _recorded_as(context: PlaneContext, path: str) -> Iterator[str]:
    """A path, and where it lies in a root of the plane or the project, how events name it there."""
    yield path
    if not path.startswith("/"):
        return
    home, registry = context.home, context.registry
    if registry is None:
        roots = roots_of_folder(home.folder.rpartition("/")[0])
    else:
        known, above = registry.follow(), registry.follow().above(path)
        spaces = [home.project] if home.project else [above[1]] if above else []
        roots = tuple(root for ns in spaces for root in known.roots_of(ns))
    for root in sorted(roots, key=len, reverse=True):
        if path.startswith(f"{root.rstrip('/')}/"):
            yield path[len(root.rstrip("/")) + 1 :]
            return


def _only(named: dict[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Labels by groups: an event must have one of each."""
    for kind in named["kind"]:
        check_kind(kind)
    named = {**named, "tag": tuple(tag.lower() for tag in named["tag"])}
    files = tuple(map(documents.file_label, named.pop("file")))
    groups = [tuple(f"{name}:{value}" for value in values) for name, values in named.items()]
    return [group for group in (*groups, files) if group]
