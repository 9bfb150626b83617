"""Gather what a pack reads of an open plane, and run it; the files view.

`run_pack` makes the `Materials` of a request (projections, views and opened handles as values, and
a `PlaneSource` for what is read only where a section needs it) and packs with them.
`list_files` is the files view: what was worked on, and what a session is about to need.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from memplane.context.calls import checked_request
from memplane.context.folds import items_of_event, seq_by
from memplane.event import Event
from memplane.harness import remembered_lines
from memplane.intake.redact import unexpected
from memplane.lazy import NamedTuple, Protocol, late, late_calls
from memplane.pack.layout import budget_of
from memplane.pack.pack import Laid, pack
from memplane.pack.request import (
    Expansion,
    FormCache,
    LastSession,
    Materials,
    Request,
    View,
    prompt_of,
)
from memplane.recall.suppress import WITHHELD, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds, VisibleProjections
    from memplane.context.watched_files import Watched
    from memplane.pack.block import Block
    from memplane.pack.expansion_depths import OpenedHandle
    from memplane.pack.tail import naming_texts
    from memplane.policy import Policies
    from memplane.ports import Retriever
    from memplane.projections.files import FilesState
    from memplane.projections.hotset import HotsetState
    from memplane.projections.item import Item
    from memplane.projections.sessions import SessionFacts
    from memplane.projections.tasks import EventQuote
    from memplane.recall import (
        file_guess as recall_file_guess,
        session_digest as recall_session_digest,
    )
    from memplane.recall.gate import Passage, PromptAnswer
    from memplane.recall.session_digest import StandingNote
    from memplane.recall.time_words import AskedTime
else:
    recall_session_digest = late("memplane.recall.session_digest")
    recall_file_guess = late("memplane.recall.file_guess")
    (naming_texts,) = late_calls("memplane.pack.tail", "naming_texts")

_LABEL_MAX: Final = 40  # characters
_SESSIONS_MAX: Final = 8
# Of the sessions of a time that was asked for: how many are looked at, and how many lines of each.
# What describes the state of a session best, in this order.
_WORDS: Final = ("summary", "plan", "user", "assistant")


class Stopwatch:
    """Nanoseconds by stage: each mark ends one."""

    def __init__(self) -> None:
        self.spans: dict[str, int] = {}
        self._last = time.perf_counter_ns()

    def mark(self, stage: str) -> None:
        now = time.perf_counter_ns()
        self.spans[stage] = self.spans.get(stage, 0) + now - self._last
        self._last = now


def view_paths(policies: Policies, channel: str) -> list[str]:
    """The views that a channel loads, in its order, then those that own sections name."""
    hidden = frozenset(policies.privacy.rule(channel).suppress_views)
    name = channel if policies.channels.known(channel) else "agent"
    paths = [*policies.channels.default_views(name)]
    paths += [path for section in policies.budgets.sections for path in section.views]
    return [path for path in dict.fromkeys(paths) if path not in hidden]


class PassageSearch(Protocol):
    """The search for passages of one request: `memplane.search.passages`."""

    def answer(self, prompt: str, scope: Scope, said: Sequence[Item]) -> PromptAnswer: ...
    def at_tool(self, event: Event, scope: Scope) -> PromptAnswer: ...
    def statements(self, scope: Scope, said: Sequence[Item]) -> Sequence[Passage]: ...


class PlaneSource:
    """`memplane.ports.PackSource` of an open plane, for one request, under the plane's lock."""

    def __init__(
        self,
        context: PlaneContext,
        folds: Folds,
        policies: Policies,
        scope: Scope,
        session: str | None,
        seen: VisibleProjections,
        search: Callable[[], Retriever[Scope, Item]],
        passages: Callable[[], PassageSearch],
        held_seq: int | None = None,
    ) -> None:
        """`search` opens the search of the log, `passages` that for reminders.

        `seen` is what the reader may see of `folds`; the session holds its events behind
        `held_seq`.
        """
        self._held, self._limits = held_seq, policies.budgets.limits
        self._context, self._memories, self._seen = context, folds.memories, seen
        self._folds, self._passages = folds, passages
        self.scope, self._session = scope, session
        self._counter = context.counter(policies)
        self.search, self.unseen, self.line = search, seen.hidden, context.log.line

    def covers(self, seq: int, id: str, *, as_of: int, now: str) -> bool:  # noqa: A002
        """Whether an approval covers an artifact as of a seq and a time."""
        return self._context.approvals(self._folds).covers(seq, id, as_of=as_of, now=now)

    def covered(self, *, as_of: int, now: str) -> tuple[int, ...]:
        """The seqs of artifacts that an approval covers as of a seq and a time, sorted."""
        return self._context.approvals(self._folds).covered(as_of=as_of, now=now)

    def changed(self, id: str) -> bool:  # noqa: A002
        """Whether the copy that an artifact is searched by differs from what was added."""
        return self._context.approvals(self._folds).changed(id)

    def touched(self, event: Item, *, upto: int) -> tuple[str | None, bool]:
        """When an event was touched last, if it was, and whether it is pinned, as of a seq."""
        memories = self._memories
        return memories.touched(event, upto=upto), memories.pinned(event, upto=upto)

    def answer(self, prompt: str, scope: Scope) -> PromptAnswer:
        """What the memory holds for a prompt that its session does not hold, and how much of it."""
        hotset = self._seen.hotset
        ring = hotset.sessions.get(self._session) if self._session is not None else None
        items = [hotset.items[turn.seq] for turn in ring.ring] if ring is not None else []
        said = [item for item in items if item.role in ("user", "assistant")]
        return self._passages().answer(prompt, scope, said)

    def at_tool(self, event: Event, scope: Scope) -> PromptAnswer:
        """What the memory holds that decides or warns and names what a call of a tool names."""
        return self._passages().at_tool(event, scope)

    def statements(self, scope: Scope) -> Sequence[Passage]:
        """What users said that the session does not hold, what decides something first."""
        items = self._seen.hotset.items
        said = [items[seq] for seq in sorted(items) if items[seq].role == "user"]
        return self._passages().statements(scope, said)

    def wishes(self, scope: Scope) -> list[StandingNote]:
        """What users want from now on, newest first; not what the session holds that asks."""
        return recall_session_digest.standing_wishes(self._folds.digests.lasting, self._sees(scope))

    def traps(self, scope: Scope) -> list[StandingNote]:
        """What went wrong and how it went right, newest first; likewise."""
        return recall_session_digest.standing_traps(self._folds.digests.lasting, self._sees(scope))

    def _sees(self, scope: Scope) -> Callable[[EventQuote], bool]:
        held = self._held
        own = None if held is None else self._session

        def sees(quote: EventQuote) -> bool:
            is_held = own is not None and quote.session == own and quote.seq > (held or 0)
            # First what is gone: a scope remembers what it said of a seq, and quotes do not know.
            return not (is_held or self._is_gone(quote) or scope.hides(quote))

        return sees

    def last_sessions(self) -> tuple[LastSession, ...]:
        """The newest sessions but the asking one, newest first, as far as the reader may see them.

        Those in which nothing was said are left out: agents open and close many. Of each its
        summary; where there is none, or something happened since, the last summary and plan that
        were recorded in it, its last prompt and the last answer, as far as the hotset has them.
        Behind the sessions of the hotset come those of which only the summary is left there, by
        that. Nothing else decides which are shown: what the reader may not see moves no session.
        """
        hotset = self._seen.hotset
        last = _newest(hotset)
        newest = sorted(last, key=lambda id_: -last[id_])
        newest += [id_ for id_ in reversed(hotset.summed) if id_ not in last]
        found = (
            self._shown(id_, items)
            for id_ in newest
            if id_ != self._session and (items := self._items(id_))
        )
        return tuple(islice(found, _SESSIONS_MAX))

    def sessions_then(self, asked: AskedTime, scope: Scope) -> tuple[LastSession, ...]:
        """The sessions of a time, or the one so many back, newest first, with what was said there.

        A session counts where the reader sees a message of it in that time, and by the newest of
        these. Looks at `sessions_read_max` sessions, and at `session_lines_max` lines of each:
        where it has more, at the first and the last ones.
        """
        facts = sorted(
            (
                one
                for id_, one in self._folds.sessions.state.sessions.items()
                if id_ != self._session and overlaps(one, scope) and _may_be_seen(one, scope)
            ),
            key=lambda one: (one.last_ts, one.first_seq),
            reverse=True,
        )
        told = ((one.id, self._said(one, scope)) for one in facts[: self._limits.sessions_read_max])
        heard = sorted(
            ((id_, said) for id_, said in told if said),
            key=lambda one: (one[1][-1].ts, one[1][-1].seq),
            reverse=True,
        )
        back = asked.sessions_back
        wanted = heard[back - 1 : back] if back else heard[:_SESSIONS_MAX]
        return tuple(self._shown(id_, self._items(id_))._replace(said=said) for id_, said in wanted)

    def _said(self, session: SessionFacts, scope: Scope) -> tuple[Item, ...]:
        """What people and agents said in a session that the reader sees, in log order."""
        first, last = session.first_seq, min(session.last_seq, scope.as_of)
        spans = [(first - 1, last)]
        most = self._limits.session_lines_max
        if last - first >= most:
            half = most // 2
            spans = [(first - 1, first - 1 + half), (last - half, last)]
        found: list[Item] = []
        for span in spans:
            for line in remembered_lines(self._context.log.read(*span)):
                event = line.event
                told = event.kind == "message" and event.role in ("user", "assistant")
                if event.session != session.id or not told or not event.text.strip():
                    continue
                if self._memories.archived(event, upto=scope.as_of) is None:
                    item = items_of_event(event, self._counter)
                    if scope.hides(item) is None:
                        found.append(item)
        return tuple(found)

    def _shown(self, session: str, items: Sequence[Item]) -> LastSession:
        """The session with what its digest is made of, and what of that is out of force."""
        parts = self._folds.digests.sessions.get(session)
        quotes = () if parts is None else parts.every()
        gone = frozenset(quote.id for quote in quotes if self._is_gone(quote))
        return LastSession(session, tuple(items), parts, gone=gone)

    def _is_gone(self, quote: EventQuote) -> bool:
        """Whether what is quoted is out of force, as of the request."""
        event: Event | None = Event(
            quote.seq, quote.id, quote.ts, quote.ts, quote.kind, quote.ns, quote.session
        )
        if quote.key is not None:  # what replaced it may have come before it
            line = self.line(quote.seq)
            event = None if line is None else line.event
        return event is None or self._memories.archived(event, upto=self.scope.as_of) is not None

    def _items(self, session: str) -> list[Item]:
        """What is shown of a session; nothing of one that was forgotten."""
        hotset, hides = self._seen.hotset, self.scope.hides
        summed = hotset.summed.get(session, 0)
        summary = self._summary(summed)
        if summary is not None and hides(summary) in WITHHELD:
            summary = None  # it quotes what the reader may not see; the words are there anyway
        words = _last_words(hotset, session, 0 if summary is None else summed)
        if all(item.forgotten for item in words):
            words = []
        found = words if summary is None else [summary, *words]
        return [item for item in found if hides(item) not in WITHHELD]

    def _summary(self, seq: int) -> Item | None:
        line = self.line(seq) if seq else None
        if line is None or self._memories.archived(line.event, upto=self.scope.as_of):
            return None
        return items_of_event(line.event, self._counter)


def overlaps(session: SessionFacts, scope: Scope) -> bool:
    """Whether a session lies in the scope's span of time, at least in part."""
    begins = scope.until is None or session.first_ts <= scope.until
    return begins and (scope.since is None or session.last_ts >= scope.since)


def _may_be_seen(session: SessionFacts, scope: Scope) -> bool:
    """Whether a message of the session is of a sensitivity and namespace that the reader sees."""
    return any(
        kind == "message" and sensitivity not in scope.levels and scope.reaches(ns)
        for kind, sensitivity, ns in session.origins
    )


def _newest(hotset: HotsetState) -> dict[str, int]:
    """The newest event of each session that the hotset has."""
    items = hotset.items
    newest = {items[seq].session: seq for seq in hotset.plane}  # in log order: the last one stays
    return {id_: max(ring.seen, newest.get(id_, 0)) for id_, ring in hotset.sessions.items()}


def _last_words(hotset: HotsetState, session: str, after: int) -> list[Item]:
    """The last of each sort of words that the session has behind a seq."""
    ring, items = hotset.sessions.get(session), hotset.items
    found: dict[str, Item] = {}
    for turn in reversed(ring.ring if ring is not None else ()):
        seq = turn[0]
        if seq <= after:
            break
        item = items[seq]
        kind = item.kind
        if kind == "message":
            word = item.role or ""
        elif kind in _WORDS:
            word = kind
        else:
            continue  # most of them: tools
        if word not in found:
            found[word] = item
    return [found[word] for word in _WORDS if word in found]


def load_views(watched: Watched, policies: Policies, channel: str) -> list[View]:
    """Read the channel's views: as many files as file_reads_max allows."""
    most = policies.budgets.limits.file_reads_max
    paths = view_paths(policies, channel)
    views = [watched.view(path) for path in paths[:most]]
    return [*views, *(View(path, "", "", "limit") for path in paths[most:])]


def run_pack(
    context: PlaneContext,
    folds: Folds,
    request: Request,
    policies: Policies,
    seen: VisibleProjections,
    source: PlaneSource,
    *,
    views: list[View],
    expansions: list[Expansion | OpenedHandle | View],
    lines: FormCache,
    clock: Stopwatch,
    watch: Callable[[Laid], None] | None = None,
) -> Block:
    """Pack from what the reader sees of the projections, and `source` for the rest.

    Adds to the report what only the plane has: the log's head and the timings.
    """
    materials = Materials(
        policies,
        seen.hotset,
        seen.tasks,
        tuple(seen.decisions),
        tuple(seen.cards),
        seen.pinned,
        tuple(views),
        tuple(expansions),
        source,
        lines,
        seen.plane_map,
        seen.gap,
        seen.shed_seq,
        _files_for(context, folds, request, source.scope, seen.hotset, policies),
        context.seq_of(request.query_event),
        tuple(seen.left),
        seen.left_more,
        tuple(seen.pins),
    )
    printer = context.printer(policies, cites=request.cited)
    printer = printer._replace(redact=_remembering(printer.redact))
    clock.mark("read")
    block = pack(request, materials, printer, mark=clock.mark, watch=watch)
    seq, h = folds.log.head()[:2]
    block.report["log"] = {"seq": seq, "h": h}
    block.report["timings_ns"] = clock.spans
    return block


def _remembering(redact: Callable[[str], str]) -> Callable[[str], str]:
    """`redact` for one pack: the labels of its entries are a dozen, and come hundreds of times."""
    known: dict[str, str] = {}

    def redacted(text: str) -> str:
        if len(text) > _LABEL_MAX:
            return redact(text)
        found = known.get(text)
        if found is None:
            found = known[text] = redact(text)
        return found

    return redacted


# The files view: what was worked on, and what a session is about to need.
LIMIT_MAX = 1000
_LEAST = 8  # tokens of a heading and the shortest line that names a file
# A session's own files come before guessed ones, whose terms add up to less than this.
_OWN = 10_000


class FileView(NamedTuple):
    """A file, the event that touched it last as far as the channel may see, and why it is listed.

    `score` falls along a list. `why`: `session` (touched by it), `recent`, `branch`, `prompt` (the
    query is like prompts that led to the file), `path` (its words), `named` (by the query, a
    decision or an error); the strongest first.
    """

    path: str
    branch: str
    seq: int
    id: str
    touches: int
    score: int
    why: tuple[str, ...]


def _files_for(
    context: PlaneContext,
    folds: Folds,
    request: Request,
    scope: Scope,
    hotset: HotsetState,
    policies: Policies,
) -> FilesState | None:
    """The files view where a pack needs it: for a session that has touched no file yet."""
    section = policies.budgets.section("tool_state")
    if (
        request.session is None
        or request.remind  # which names no files
        or request.session in hotset.files
        or section is None
        or min(section.max_tokens, budget_of(request.budget, policies.budgets)) < _LEAST
        or (request.sections and "tool_state" not in request.sections)
    ):
        return None
    return context.files(folds, scope, policies)


def list_files(
    context: PlaneContext, query: str, *, session: str | None, branch: str | None, limit: int,
    asked: dict[str, Any],
) -> list[FileView]:  # fmt: skip
    """The session's own files, the warmest first, then those that it may need.

    At most `limit` (1 to 1000). `asked` has fields of a request (channel, ns, as_of, ...). Raises
    InputError for a limit or branch of another type or range.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise unexpected(f"1 to {LIMIT_MAX}", limit, "limit")
    if branch is not None and not isinstance(branch, str):
        raise unexpected("a text", branch, "branch")
    with context.lock:
        policies = context.watched.policies()
        folds = context.caught_up(policies)
        request = checked_request(
            query,
            context.asked({**asked, "session": session}),
            policies,
            head=folds.log.head().seq,
            clock=context.clock,
            seq_by=partial(seq_by, context.log),
            redactor=context.intake(policies).redactor,
        )
        context.reader_of(request)
        scope = request.scope(policies)
        seen = context.seen(folds, scope, request.session, policies)
        hotset, decisions = seen.hotset, seen.decisions
        state = context.files(folds, scope, policies)
        wanted = request.query
        if not wanted and session is not None:
            prompt = prompt_of(hotset.sessions.get(session), hotset, scope)
            wanted = prompt.text if prompt is not None else ""
        own = _own(state, hotset, session, scope)
        guesses = recall_file_guess.guess_files(
            state,
            scope,
            query=wanted,
            named=naming_texts(hotset, decisions, scope),
            branch=state.branch_of(session, scope.hides) if branch is None else branch,
            limit=LIMIT_MAX,
        )
        redact = context.redact(policies)
    listed = {one.path for one in own}
    found = own + [
        FileView(
            one.path, one.touch.episode.branch, one.touch.seq, one.touch.id,
            _touches(state, one.path, scope), one.score, one.why,
        )
        for one in guesses
        if one.path not in listed
    ]  # fmt: skip
    return [one._replace(path=redact(one.path), branch=redact(one.branch)) for one in found[:limit]]


def _own(
    state: FilesState, hotset: HotsetState, session: str | None, scope: Scope
) -> list[FileView]:
    table = hotset.files.get(session) if session is not None else None
    if table is None:
        return []
    return [
        FileView(
            path,
            touch.branch,
            touch.seq,
            hotset.items[touch.seq].id,
            _touches(state, path, scope),
            _OWN + table.heat(touch),
            ("session",),
        )
        for path, touch in table.warmest()
        if not scope.hides(hotset.items[touch.seq])
    ]


def _touches(state: FilesState, path: str, scope: Scope) -> int:
    """Touches in the namespaces and at the sensitivities that may be seen; 1 at least."""
    touches = state.last.get(path, ())
    return sum(touch.touches for touch in touches if not scope.hides(touch)) or 1
