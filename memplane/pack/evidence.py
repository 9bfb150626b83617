"""Evidence: E, as of the session's prompt, or in the tail for any other query; and reminders.

A fast request takes it from the hotset, a deep one from the whole log. What an event is worth comes
from `recall.score` or the retriever, in which order events are tried from `index.fill_order`; here
is decided what fits: the best value for its tokens first, passages before whole turns. A turn that
came in as a passage may grow to the whole. Part of the room is kept for marked turns, and of turns
about the same fact the newest stands first.

Evidence about the same fact is printed first, the newest before the older: a reader must not take
an old value for the current one. The rest follows in log order.

**Reminders** are passages of earlier sessions, at a prompt where the gate opens or at a start. At a
prompt the best passages stand first, a few of them. At the start of a session the user's own words
of earlier sessions are chosen (what decides something first), and printed newest first. At a tool
one passage stands that names the file or an identifier of the failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, tee, zip_longest
from math import isqrt
from typing import TYPE_CHECKING, Final

from memplane.errors import ChangedError, NotFoundError
from memplane.event import MARKERS, TYPED_KINDS
from memplane.lazy import NamedTuple, late, late_calls, regex
from memplane.pack.layout import (
    PARTS,
    BlockPart,
    EntryGroup,
    RankedCandidates,
    Sheet,
    entry_group,
    entry_of,
    is_task_of,
    says_nothing,
)
from memplane.pack.request import Form, LastSession, Materials, PackContext, PackQuery, Request
from memplane.policy import Limits, Scoring, SectionBudget
from memplane.ports import ONE, Candidates, FoundEvent, Retriever, SearchResult
from memplane.projections.files import normalised
from memplane.projections.item import TIERS, Item, Printer, limits, plain_text
from memplane.recall.gate import (
    Passage,
    PromptAnswer,
    all_marked,
    decides,
    distinct_passages,
    is_open,
    letters_of,
    statements_of,
    tool_names,
)
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.index import fill_order
    from memplane.index.fill_order import FillingParameters, steps_of
    from memplane.pack.head import place_views
    from memplane.projections.reports import (
        ends_in_narration,
        is_narration,
        is_report,
        sentences_in,
    )
    from memplane.recall import score as recall_score, session_digest as recall_session_digest
    from memplane.recall.score import ScoredCandidate, circumstances, count, lifted, score
    from memplane.recall.session_digest import StandingNote
else:
    fill_order = late("memplane.index.fill_order")
    recall_score = late("memplane.recall.score")
    recall_session_digest = late("memplane.recall.session_digest")
    # Of what follows a hook's passages need nothing.
    FillingParameters, steps_of = late_calls(
        "memplane.index.fill_order", "FillingParameters", "steps_of"
    )
    (place_views,) = late_calls("memplane.pack.head", "place_views")
    ends_in_narration, is_narration, is_report, sentences_in = late_calls(
        "memplane.projections.reports",
        "ends_in_narration",
        "is_narration",
        "is_report",
        "sentences_in",
    )
    circumstances, count, lifted, score = late_calls(
        "memplane.recall.score", "circumstances", "count", "lifted", "score"
    )


_BY_NAME = {part.name: part for part in PARTS}
_PROMPT: Final = _BY_NAME["evidence"]
FOUND: Final = _BY_NAME["found"]
# How many events before the prompt its evidence comes from, where the log is not searched.
_BEFORE_PROMPT: Final = 200
_SCALE: Final = 1_000_000
_TURN: Final = "message"
_MARKERS: Final = frozenset(MARKERS)
_LEAST_TURN: Final = 8  # tokens: a label, a few words and the newline
_NO_ROW: Final = (None, "", 0, "", 0, 0)
_MISSES_MAX: Final = 24  # turns in a row that were read and did not fit; then the part is full


class EvidenceQuery(NamedTuple):
    """The query of evidence: the text, the last seq to look at, and seqs to leave out (`never`).

    `never` are the seqs of the query itself. `pool` are the candidates of the hotset, in log order.
    `now` is the time at which events are faded: a prompt's own, else the request's clock.
    """

    query: str
    upto: int
    never: frozenset[int]
    pool: Sequence[Item]
    now: str


def place_evidence(
    sheet: Sheet, context: PackContext, section: SectionBudget, query: PackQuery
) -> None:
    """Place the evidence for a query: E where it is the session's own prompt, else in the tail.

    The prompt's evidence is as of the prompt, so that it stays until the next one (R5).
    """
    materials, scope, prompt = context.materials, context.scope, context.prompt
    if query.own and prompt is not None:
        part, upto, now = _PROMPT, prompt.seq - 1, prompt.ts
        never, pool = frozenset((prompt.seq, query.event)), _pool_before(materials, upto)
    else:
        place_views(sheet, context, section)
        if not query.text:
            return
        part, upto, now = FOUND, context.as_of, scope.now
        never, pool = frozenset((query.event,)), context.pool
    asked = EvidenceQuery(query.text, upto, never, pool, now)
    if query.retriever is not None:
        _place_retrieved(sheet, materials, scope, part, asked, query.retriever)
    else:
        _place_recent(sheet, materials, scope, part, asked)


def _pool_before(materials: Materials, upto: int) -> list[Item]:
    """Candidates as of the prompt: the plane's newest events up to a seq, hidden ones included."""
    hotset = materials.hotset
    most = min(_BEFORE_PROMPT, materials.policies.budgets.limits.hotset_max_events)
    items = hotset.items
    return [items[seq] for seq in [seq for seq in hotset.plane if seq <= upto][-most:]]


def pool_now(materials: Materials, session: str | None) -> list[Item]:
    """Candidates as of the log's head: recent events, the session's turns, statements in force."""
    hotset, limits = materials.hotset, materials.policies.budgets.limits
    by_seq = {item.seq: item for item in (*materials.decisions, *materials.cards)}
    ring = hotset.sessions.get(session) if session is not None else None
    items = hotset.items
    if ring is not None:
        for seq in (*(turn.seq for turn in ring.ring), *ring.stated):
            by_seq[seq] = items[seq]
    for seq in hotset.plane[-limits.hotset_max_events :]:
        by_seq[seq] = items[seq]
    return [by_seq[seq] for seq in sorted(by_seq)][-limits.candidate_pool_max :]


class Marked:
    """The part of the evidence's room that is reserved for marked turns that no query retrieves.

    `turns` are their seqs, tokens and items (None: `read` loads it), the most important first.
    `held` are the tokens of the chosen ones, which other evidence leaves free.
    """

    def __init__(
        self,
        sheet: Sheet,
        part: BlockPart,
        materials: Materials,
        turns: Sequence[tuple[int, int, Item | None]],
        read: Callable[[int], Item | None],
    ) -> None:
        permille = materials.policies.scoring.packing.marked_reserve
        self._sheet, self._part, self._read = sheet, part, read
        self._turns = turns if permille else ()
        self._reserve = self._left = max(0, sheet.room(part)) * permille // 1000
        self._repeated: set[int] = set()  # asked, never iterated
        self.chosen: dict[int, Item] = {}
        self.held = 0
        self._choose((), None)

    def give_back(self, shown: Container[int]) -> int:
        """Choose again, without events that are shown by now; return the tokens that this saves."""
        before = self.held
        if self.chosen:
            self._choose(shown, before)
        return before - self.held

    def _choose(self, shown: Container[int], most: int | None) -> None:
        """Take each turn that fits whole; of the same words the first alone.

        What is cut may lack the very line that is marked: long answers of models have headings that
        read like marks. `most`: what they may cost with their date lines, which the reserve does
        not pay.
        """
        sheet, part, self._left = self._sheet, self._part, self._reserve
        self.chosen, self.held = {}, 0
        said: set[str] = set()  # asked, never iterated
        days: set[EntryGroup] = set()  # likewise
        misses = 0
        for seq, tokens, known in self._turns:
            if self._left < _LEAST_TURN or misses == _MISSES_MAX:
                break
            if seq in sheet.seqs or seq in shown or tokens > self._left:
                continue
            item = known if known is not None else self._read(seq)
            if item is None:
                continue
            item.finish(sheet.counter)
            _, costs, whole = item.form(0, sheet.printer)
            group = entry_group(item)
            dated = 0 if group in days else sheet.date_tokens(part, group)
            if _words(item) in said:
                self._repeated.add(seq)
            elif whole and costs <= self._left and (most is None or costs + dated <= most):
                said.add(_words(item))
                days.add(group)
                self.chosen[seq] = item
                self._left -= costs
                self.held += costs + dated
                most = None if most is None else most - costs - dated
                continue
            misses += 1

    def place(self) -> None:
        """Place the chosen turns; omit the others for want of room.

        Only a few of those that were not read are listed: each costs a look at the log.
        """
        sheet, part, unread = self._sheet, self._part, 0
        beyond: dict[int, str] = {}
        for seq, tokens, known in self._turns:
            if seq in sheet.seqs:
                continue
            sheet.marked_turns[seq] = part
            if seq in self.chosen:
                sheet.offer(part, self.chosen[seq])
                continue
            row = sheet.omitted.get(seq, _NO_ROW)
            if row[3] == "budget":
                continue
            item = known if known is not None else row[0]
            unread += item is None
            why = "duplicate" if seq in self._repeated else "budget"
            if item is None and unread > _MISSES_MAX:
                sheet.omitted.pop(seq, None)
                beyond[seq] = why
            else:
                short_by = max(1, tokens - self._left) if why == "budget" else 0
                sheet.omit_unread(seq, (item, part.section, tokens, why, 0, short_by))
        if beyond:
            sheet.pass_over(beyond)


def _marked_turns(
    pool: Sequence[Item], hidden: Sequence[bool], asked: EvidenceQuery, boosts: dict[str, int]
) -> list[tuple[int, int, Item | None]]:
    """The visible turns of user and assistant in the pool that bear a standard marker."""
    found = [
        (max(boosts[mark] for mark in marks), item)
        for item, mask in zip(pool, hidden, strict=True)
        if item.kind == _TURN
        and item.role in ("user", "assistant")
        and (marks := _MARKERS.intersection(item.markers))
        and not (mask or item.seq in asked.never)
    ]
    found.sort(key=lambda one: (-one[0], -one[1].seq))
    return [(item.seq, item.cost, item) for _, item in found]


def _place_recent(
    sheet: Sheet, materials: Materials, scope: Scope, part: BlockPart, asked: EvidenceQuery
) -> None:
    """Score the pool and place what is worth its tokens, best value first, printed in log order.

    What nothing matches stays out; of several events with the same words only the newest is a
    candidate.
    """
    query, _, never, pool, now = asked
    scoring = materials.policies.scoring
    for item in pool:
        if not item.final:
            item.finish(sheet.counter)
    sheet.scored += len(pool)
    hidden = scope.masks(pool)
    turns = _marked_turns(pool, hidden, asked, scoring.marker_boosts)
    marked = Marked(sheet, part, materials, turns, lambda _: None)
    if marked.held:
        sheet.left[part.section] -= marked.held
    placed = sheet.seqs
    every = score(query, pool, hidden, scoring)
    sheet.found += len(every)
    out = placed.union(never)
    if True in hidden:
        out.update(item.seq for item, mask in zip(pool, hidden, strict=True) if mask)
    hits = [hit for hit in every if hit.item.seq not in out]
    best = max((hit.score for hit in hits), default=0)
    floor = max(1, best * scoring.evidence_floor // 1000)
    good = [hit for hit in hits if hit.score >= floor]
    if count(scoring):
        every, hits, good = _lifted((every, hits, good), now, scoring)
    sheet.ranked = RankedCandidates(part, every, floor)
    worth = frozenset(hit.item.seq for hit in good)
    scored = {hit.item.seq: hit.score for hit in hits}
    out |= worth
    section, omitted, passed = part.section, sheet.omitted, sheet.passed
    for item in pool:
        seq = item.seq
        if seq not in out:
            omitted[seq] = (item, section, item.cost, "not_relevant", scored.get(seq, 0), 0)
            passed.pop(seq, None)
    _place_good(sheet, materials, part, good)
    if marked.held:
        sheet.left[part.section] += marked.held
        marked.give_back(())
    marked.place()


def _place_good(
    sheet: Sheet, materials: Materials, part: BlockPart, good: list[ScoredCandidate]
) -> None:
    """Place what is good enough, best value for its tokens first."""
    newest = _newest_of_same(good)
    good.sort(key=_by_value)
    most = materials.policies.budgets.limits.retrieved_chunks_max
    chunk = materials.policies.budgets.limits.chunk_max_tokens
    taken = 0
    for hit in good:
        item = hit.item
        if newest[_words(item)] != item.seq:
            sheet.omit(item, part.section, item.cost, "duplicate", hit.score)
            sheet.same[item.seq] = newest[_words(item)]
        elif taken == most:
            sheet.omit(item, part.section, item.cost, "limit", hit.score)
        elif sheet.offer(part, item, tier=_tier(item, chunk), score=hit.score):
            taken += 1
            sheet.score_parts[item.seq] = {
                "words": hit.words,
                "tags": hit.tags,
                "key": hit.key,
                "neighbours": hit.neighbours,
                "markers": hit.markers,
                "recency": hit.recency,
                "coherence": hit.coherence,
            }


def _lifted(
    lists: Sequence[Sequence[ScoredCandidate]], now: str, scoring: Scoring
) -> tuple[list[ScoredCandidate], ...]:
    """All hits, those that may be shown and those that are relevant, with the terms beside it."""
    shown = [hit.item for hit in lists[1]]
    terms = dict(zip([item.seq for item in shown], circumstances(shown, now, scoring), strict=True))

    def lifted(hit: ScoredCandidate) -> ScoredCandidate:
        more = terms.get(hit.item.seq, recall_score.NONE)
        return hit._replace(score=hit.score + more.both, **more._asdict())

    return tuple([lifted(hit) for hit in hits] for hits in lists)


def _tier(item: Item, chunk_max_tokens: int) -> int:
    """The longest form within the policy's bound of a chunk."""
    for tier, most in enumerate(limits(item.kind)):
        if most <= chunk_max_tokens:
            return tier
    return len(TIERS) - 1


def _by_value(hit: ScoredCandidate) -> tuple[int, int, int, int, str]:
    """Score per root of the tokens: long turns match more words without saying more."""
    item = hit.item
    value = hit.score * _SCALE // isqrt((item.cost + 20) * _SCALE)
    return (-value, -item.importance, -item.seq, item.cost, item.id)


def _words(item: Item) -> str:
    if item.words is None:
        item.words = normalised(item.text)
    return item.words


def _newest_of_same(ranked: Sequence[ScoredCandidate]) -> dict[str, int]:
    newest: dict[str, Item] = {}
    for hit in ranked:
        words = _words(hit.item)
        other = newest.get(words)
        if other is None or not _yields(hit.item, other):
            newest[words] = hit.item
    return {words: item.seq for words, item in newest.items()}


def _yields(item: Item, other: Item) -> bool:
    """Whether of two that say the same the first is left out: the older, or what a model made.

    It made it of the other one, or of what says that too: who said it stands for both.
    """
    made = item.is_by_model
    return item.seq < other.seq if made == other.is_by_model else made


# Evidence from the whole log.

_PERMILLE: Final = 1000
# A label, a few words and the newline: with less left nothing more is read from the log.
_LEAST: Final = 8
_NAMED_MAX: Final = 200  # omissions with all that is known of them: twice what a report lists
_ORDERED_FROM: Final = 600  # tokens: with less there is no room for date lines that come twice
_DATES: Final = 40  # tokens kept for date lines that come twice
_REPEATED_WORDS: Final = 6  # a text of so many words is not repeated
_LINES_LEAST: Final = 2
_LINE_WORDS: Final = 4  # a line of so many words may be a repeated one
_REPEATED_PART: Final = 333  # permille of a text whose lines others show: it says too little
# The passages of the best: of the first so many with this part of the best score so many times the
# usual tokens. They go on behind the words that were looked for, since what a question asks for
# often comes next; with less room than that, more events are worth more. Not users': in a long text
# of theirs something pasted comes next.
_LONG_PASSAGES: Final = ((2, 800, 5), (8, 600, 3))
_LONG_FROM: Final = 1_100
# What a passage saves must be worth its mark: it has at most this part of the whole.
_MOST_OF_WHOLE: Final = (4, 5)


class _Shown(NamedTuple):
    at: int  # its place among the events found
    item: Item
    form: Form
    group: EntryGroup


def _place_retrieved(
    sheet: Sheet,
    materials: Materials,
    scope: Scope,
    part: BlockPart,
    asked: EvidenceQuery,
    retriever: Retriever[Scope, Item],
) -> None:
    """Search the log for the query and place what is worth its tokens, by session and in log order.

    Nothing that matches no term of the query and has no neighbour that does. Looks at no more than
    `candidate_pool_max` events, and takes no more than `retrieved_chunks_max` chunks: turns that
    stand under one date line count together, a chunk for every `chunk_max_tokens`.
    """
    limits = materials.policies.budgets.limits
    finding = retriever.find(
        asked.query,
        upto=asked.upto,
        scope=scope,
        never=asked.never,
        most=limits.candidate_pool_max,
        bytes_max=sheet.needs.left,
    )
    sheet.needs.take(finding.size)
    sheet.unread += finding.unread
    found = finding.found
    turns = [(seq, tokens, None) for seq, tokens in finding.marked]
    marked = Marked(sheet, part, materials, turns, partial(_read, retriever))
    sheet.scored += len(found)
    sheet.found += len(found)
    sheet.scanned += finding.scanned
    if found:
        best = found.scores[0] * materials.policies.scoring.evidence_floor // _PERMILLE
        above = found.above(max(1, best))
        found, terms = lifted(found, above, retriever, asked.now, materials.policies.scoring)
        fill = _Filling(sheet, part, retriever, found, finding, limits)
        fill.place(above, materials, marked)
        for seq, more in terms.items():
            if seq in sheet.score_parts:
                sheet.score_parts[seq].update(more._asdict())
        sheet.ranked = RankedCandidates(part, found, max(1, best))
        others = asked.never.union(found.seqs)
    else:
        others = asked.never
    hides = scope.hides
    sheet.omit_all(
        [item for item in asked.pool if not (item.seq in others or hides(item))],
        part.section,
        "not_relevant",
    )
    marked.place()


def _read(retriever: Retriever[Scope, Item], seq: int) -> Item | None:
    """The event; None where the log has lost it."""
    try:
        return retriever.item(seq)
    except NotFoundError:
        return None


def score_parts(found: FoundEvent) -> dict[str, int]:
    """The parts of a score in thousandths of what the words could earn."""
    parts = {
        "words": found.words,
        "tags": found.tags,
        "key": found.key,
        "neighbours": found.neighbours,
        "markers": found.markers,
        "similar": found.similar,
    }
    return {name: part * _PERMILLE // ONE for name, part in parts.items()}


class _Filling:
    """The events of one part as they come in, until its room is spent."""

    def __init__(
        self,
        sheet: Sheet,
        part: BlockPart,
        retriever: Retriever[Scope, Item],
        found: Candidates,
        finding: SearchResult,
        limits: Limits,
    ) -> None:
        self._sheet, self._part, self._retriever = sheet, part, retriever
        self._found, self._wanted = found, finding.wanted
        # What the report says of a marked turn depends on whether it was read.
        self._marked = frozenset(seq for seq, _ in finding.marked)
        self._left = self._room = sheet.room(part)
        self._chunks_left, self._chunk = limits.retrieved_chunks_max, limits.chunk_max_tokens
        self._groups: dict[EntryGroup, int] = {}  # tokens under each date line
        self._texts: dict[tuple[str, int], int] = {}  # what was said -> the seq that shows it
        self._prompts: dict[str, int] = {}  # users' turns -> the seq that shows it: see `_repeats`
        self._prompt_tokens: set[int] = set()  # how long these are; asked only
        self._read: dict[int, Item] = {}
        self._counted: set[int] = set()  # events whose texts were needed; asked only
        self._exhausted = False  # whether a limit of the policy lets no more of them be read
        self._misses = 0  # events in a row that were read and did not fit
        self._why: dict[int, tuple[str, int]] = {}  # seq -> reason and tokens short
        self._shown: dict[int, _Shown] = {}
        self._ids: dict[str, int] = {}  # of what was shown
        self._cited: dict[str, int] = {}  # ids -> the seq shown that a model made of them
        self._lines: dict[str, int] = {}  # a line of some words -> the seq that shows it
        self._narrated: list[int] = []  # places of what only says what comes next
        self._forms: dict[tuple[int, int], tuple[Item, Form]] = {}  # what no room decides
        self._split: dict[str, list[str]] = {}  # the lines of some words of each form
        self._repeated: dict[int, int] = {}  # seq -> what said the same and was shown
        self._shows = 0  # how often an event was shown, or more of it
        self._steps: Iterator[tuple[int, bool]] = iter(())  # what to try: see `steps_of`

    def place(self, above: int, materials: Materials, marked: Marked) -> None:
        """Show which of the first `above` are worth their tokens; omit the rest with a reason.

        Tokens reserved for marked turns, or for date lines that come twice, that are not needed
        once others are chosen are spent too.
        """
        sheet, part, seqs = self._sheet, self._part, self._found.seqs
        placed = sheet.seqs
        kept = _DATES if self._left >= _ORDERED_FROM else 0
        self._left -= kept + marked.held
        good = [at for at in range(above) if seqs[at] not in placed]
        packing = _packing_of(materials)
        self._spend_on_standing(good, packing, materials)
        columns = [self._found.columns[name] for name in fill_order.STEP_COLUMNS]
        self._steps = (
            (good[at], more) for at, more in steps_of(columns, good, self._left, packing)
        )
        self._spend(packing)
        freed = marked.give_back(self._shown)
        if freed:
            self._left, self._misses = self._left + freed, 0
            self._spend(packing, marked.chosen)
        for at in self._narrated:
            self._take(at, packing, self._left, grows=True, told=True)
        self._left += kept
        first = NONE_FIRST
        if kept:
            first, shows = self._first(), self._shows
            self._left, self._misses = self._left - first.tokens, 0
            self._spend(packing, marked.chosen)
            self._left += first.tokens
            if self._shows != shows:
                first = self._first()
        chosen = list(self._shown.values())
        rows = self._found.rows([one.at for one in chosen])
        for found, (_, item, form, group) in zip(rows, chosen, strict=True):
            score = found.score * _PERMILLE // ONE
            entry = entry_of(part, item, form, score)
            sheet.put(part, entry, first.groups.get(item.seq, group), kind=item.kind)
            sheet.score_parts[found.seq] = score_parts(found) | recall_score.NONE._asdict()
        self._omit_others(above)

    def _first(self) -> FirstGroups:
        """The groups of the entries that are printed first, by seq: see `newest_first`."""
        best = sorted(self._shown.values(), key=_place)
        rows = [ChosenEvent(self._found.doc(one.at), one.item, one.group) for one in best]
        return newest_first(
            self._sheet, self._part, rows, self._retriever, self._wanted, self._left
        )

    def _spend_on_standing(
        self, good: Sequence[int], packing: FillingParameters, materials: Materials
    ) -> None:
        """Show the standing instructions in `good` within their reserve."""
        found = self._found
        reserve = self._left * materials.policies.scoring.packing.instruction_reserve // _PERMILLE
        standing = found.standing()
        for at in sorted(set(good).intersection(standing)) if standing else ():
            if found.tokens[at] <= reserve:
                reserve -= self._take(at, packing, reserve, grows=True)

    def _spend(self, packing: FillingParameters, without: Container[int] = ()) -> None:
        """Show events by value, but for some seqs; the order is the same each time."""
        found, shown = self._found, self._shown
        for at, grows, whole in self._tried(without):
            seq = found.seqs[at]
            there = shown.get(seq)
            if grows:
                if there is not None and not there.form[2]:
                    self._take(at, packing, self._left, grows=True)
            elif there is None:
                tokens = found.tokens[at]
                if self._left < packing.least_room(tokens, whole=whole):
                    # Neither its passage nor all of it fits, as with most once the room is small.
                    self._why[seq] = ("budget", max(1, tokens - self._left))
                # Where the whole is due at once, no passage is cut that would stand for nothing.
                elif not (whole and self._take(at, packing, self._left, grows=True)):
                    self._take(at, packing, self._left, grows=False)
            if self._left < _LEAST or self._misses >= _MISSES_MAX:
                return

    def _tried(self, without: Container[int]) -> Iterator[tuple[int, bool, bool]]:
        """Places in the order to try them; whether one grows, and whether its whole is due next."""
        # Steps behind those that were asked for so far are ordered when they are.
        self._steps, steps = tee(self._steps)
        seqs, at, grows = self._found.seqs, -1, False
        for next_, more in steps:
            if without and seqs[next_] in without:
                continue
            if at >= 0:
                yield at, grows, not grows and more and next_ == at
            at, grows = next_, more
        if at >= 0:
            yield at, grows, False

    def _take(
        self, at: int, packing: FillingParameters, room: int, *, grows: bool, told: bool = False
    ) -> int:
        """Show an event, or more of it; return the tokens that cost, 0 where it did not fit.

        Of what only says what its agent does next nothing, unless `told`.
        """
        seq, tokens = self._found.seqs[at], self._found.tokens[at]
        cut = not grows and packing.cuts(tokens)
        room = min(room, self._left)
        if room < max(_LEAST, packing.passage_mean if cut else tokens - packing.passage_tokens):
            # Not even the text fits: not worth reading it for that.
            return self._refuse(seq, "budget", tokens - room)
        read = self._formed(at, packing.passage_tokens if cut else 0, room)
        barred = read if isinstance(read, str) else self._barred(at, *read, told=told)
        if isinstance(read, str) or barred:
            return self._refuse(seq, barred, 0)
        item, form = read
        said = self._said(item, seq)
        same = self._same(item, seq, said)
        if same != seq and _yields(item, self._shown[same].item):
            self._sheet.same[seq] = self._repeated[seq] = same
            return self._refuse(seq, "duplicate", 0)
        there = self._shown.get(seq)
        group = entry_group(item) if there is None else there.group
        costs = form[1] + (0 if group in self._groups else self._dated(group))
        replaced = there if there is not None else self._shown.get(same)
        more = costs - (replaced.form[1] if replaced is not None else 0)
        if more > room:
            self._misses += 1
            return self._refuse(seq, "budget", more - room)
        chunks = self._chunks_of(group, more)
        if chunks > self._chunks_left:
            return self._refuse(seq, "limit", 0)
        if same != seq:
            self._why[same] = ("duplicate", 0)
            self._sheet.same[same] = seq
            del self._shown[same]
        if there is None and not said[1]:
            self._note_prompt(at, item)
        self._chunks_left -= chunks
        self._misses = 0
        self._groups[group] = self._groups.get(group, 0) + more
        self._texts[said] = seq
        self._shown[seq] = _Shown(at, item, form, group)
        self._ids[item.id] = seq
        self._cited.update(dict.fromkeys(item.sources, seq))
        for line in self._lines_of(form):
            self._lines.setdefault(line, seq)
        self._shows += 1
        self._left -= more
        return max(1, more)

    def _same(self, item: Item, seq: int, said: tuple[str, int]) -> int:
        """The seq of what is shown and says the same, else its own.

        What a model made says the same as what it made it of, and that as the other.
        """
        shown = self._shown
        for one in (self._texts.get(said, seq), self._cited.get(item.id, seq)):
            if one != seq and one in shown:
                return one
        found = (self._ids.get(source, seq) for source in item.sources)
        return next((one for one in found if one != seq and one in shown), seq)

    def _barred(self, at: int, item: Item, form: Form, *, told: bool) -> str:
        """Why the lines of an event are not worth their tokens, "" where they are.

        They only say what its agent does next, but for `told`, or others show a third of them. Not
        a user's: what is pasted again comes with another question.
        """
        seq = item.seq
        if says_nothing(item):
            return "empty"
        if item.role == "user":
            return ""
        if not told and _narrates(item):
            self._narrated += [at] if at not in self._narrated else []
            return "not_relevant"
        lines = self._lines_of(form)
        shown = [line for line in lines if self._lines.get(line, seq) != seq]
        part = sum(map(len, shown)) * _PERMILLE
        if len(lines) < _LINES_LEAST or part < _REPEATED_PART * sum(map(len, lines)):
            return ""
        self._sheet.same[seq] = self._lines[shown[0]]
        return "duplicate"

    def _lines_of(self, form: Form) -> list[str]:
        text = form[0]
        lines = self._split.get(text)
        if lines is None:
            lines = self._split[text] = _lines_of(text)
        return lines

    def _formed(self, at: int, limit: int, room: int) -> tuple[Item, Form] | str:
        """The event at a place and how it prints (see `_form`), or why it stays out unread.

        A passage of `limit` tokens, or a longer one of the best, where there is `room` for it.
        """
        seq = self._found.seqs[at]
        repeats = self._repeated.get(seq) in self._shown or self._repeats(at, seq)
        known = "duplicate" if repeats else self._forms.get((at, limit))
        if known is not None:
            return known
        try:
            item = self._item(seq) if seq in self._counted else self._needed(seq)
            if item is None:
                return "limit"
            times = self._times(at, item) if limit else 1
            if times > 1:
                form = self._form(at, item, times * limit, goes_on=True)
                if form[1] + self._dated(entry_group(item)) <= room:
                    return item, form
                return item, self._form(at, item, limit)
            made = self._forms[at, limit] = item, self._form(at, item, limit)
        except NotFoundError as error:  # the index remembers what the log or a file has lost
            return "changed" if isinstance(error, ChangedError) else "gap"
        return made

    def _note_prompt(self, at: int, item: Item) -> None:
        if item.role == "user" and item.whole:
            prompt = self._retriever.prompt(self._found.doc(at))
            if prompt is not None:
                self._prompts[prompt] = item.seq
                self._prompt_tokens.add(self._found.tokens[at])

    def _repeats(self, at: int, seq: int) -> bool:
        """Whether the event is a user's turn that a newer one shown says in the same words.

        Told by the index's texts: of a question that was put a thousand times the log is not read a
        thousand times. Counts as if it had been read.
        """
        if self._found.tokens[at] not in self._prompt_tokens or seq in self._marked:
            return False
        prompt = self._retriever.prompt(self._found.doc(at))
        other = self._prompts.get(prompt, 0) if prompt is not None else 0
        there = self._shown.get(other)
        if there is None or seq >= other:
            return False
        if not (seq in self._counted or self._counts(seq, there.item.text)):
            return False
        self._sheet.same[seq] = self._repeated[seq] = other
        return True

    def _times(self, at: int, item: Item) -> int:
        """How many times the usual tokens the passage of the event at a place may have."""
        scores = self._found.scores
        share = scores[at] * _PERMILLE // max(1, scores[0])
        if self._room < _LONG_FROM or item.role == "user":
            return 1
        rules = _LONG_PASSAGES
        return next((times for most, least, times in rules if at < most and share >= least), 1)

    def _needed(self, seq: int) -> Item | None:
        """Count the event's text, once, and read it; None as soon as a limit on reading is passed.

        Raises NotFoundError where the log has lost it.
        """
        if self._exhausted:  # what is shorter is not even read
            return None
        item = self._item(seq)
        if not item.final:
            item.finish(self._sheet.counter)
        text = item.text if item.whole else self._retriever.text(seq)
        return item if self._counts(seq, text, own_file=item.kind == "artifact") else None

    def _counts(self, seq: int, text: str, *, own_file: bool = False) -> bool:
        """Count the text of an event; False where a limit on reading is passed."""
        if self._exhausted or not self._sheet.needs.take_text(text, own_file=own_file):
            self._exhausted = True
            return False
        self._counted.add(seq)
        return True

    def _said(self, item: Item, seq: int) -> tuple[str, int]:
        """What two events must agree in for the older to stay out: the normalised text.

        All of it, also where the item holds a part. With the seq, where it is as short as "Yes, of
        course": that says something else each time.
        """
        item.finish(self._sheet.counter)  # before that the item holds more of it, or less
        words = item.words if item.whole else None
        if words is None:
            # An artifact's item has its file's text, which the log does not.
            given = item.whole or item.kind == "artifact"
            words = normalised(item.text if given else self._retriever.text(seq))
            if item.whole:
                item.words = words
        return words, -seq if words.count(" ") < _REPEATED_WORDS - 1 else 0

    def _refuse(self, seq: int, reason: str, short_by: int) -> int:
        if seq not in self._shown:
            # With too little left for anything, how much is missing is not even looked at.
            self._why[seq] = (reason, max(1, short_by) if reason == "budget" else 0)
        return 0

    def _dated(self, group: EntryGroup) -> int:
        return self._sheet.date_tokens(self._part, group)

    def _chunks_of(self, group: EntryGroup, more: int) -> int:
        """How many chunks so many tokens more are; without a session there is no conversation."""
        if not group.session:
            return 1
        before = self._groups.get(group, 0)
        return -(-(before + more) // self._chunk) - -(-before // self._chunk)

    def _item(self, seq: int) -> Item:
        """Read the event; no more of them than the pool has. Raises NotFoundError."""
        item = self._read.get(seq)
        if item is None:
            item = self._retriever.item(seq)
            if item.kind in self._sheet.fading or seq in self._sheet.notes:
                item = self._sheet.marked(self._part, item)
            self._read[seq] = item
        return item

    def _form(self, at: int, item: Item, limit: int, *, goes_on: bool = False) -> Form:
        """A passage of at most `limit` tokens (0: none); the whole where that saves little."""
        printer = self._sheet.printer
        if not limit and item.holds_all(printer):
            return item.form(0, printer)
        found = self._found
        text = self._retriever.text(item.seq)
        # What today's redaction would take from the whole must not come in by a part of it.
        if limit and item.is_clean(text, printer):
            passage = self._retriever.passage(found.doc(at), self._wanted, limit, goes_on=goes_on)
            form = item.passage(passage, printer)
            part, whole = _MOST_OF_WHOLE
            if form[1] * whole < found.tokens[at] * part:
                return form
        return item.entire(text, printer)

    def _omit_others(self, above: int) -> None:
        """Name what stays out and why, best first; of what no report lists the reason alone.

        `above`: how many of them are good enough to be shown.
        """
        section, sheet, why = self._part.section, self._sheet, self._why
        found, seqs = self._found, self._found.seqs
        named = at = 0
        for at, seq in enumerate(seqs):
            if seq in sheet.seqs:
                continue
            named += 1
            if named > _NAMED_MAX:
                break
            tokens, score = found.tokens[at], found.scores[at] * _PERMILLE // ONE
            reason, short_by = why.get(seq, ("budget" if at < above else "not_relevant", 0))
            if reason == "budget":
                short_by = max(1, short_by or tokens - self._left)
            row = (self._read.get(seq), section, tokens, reason, score, short_by)
            sheet.omit_unread(seq, row)
        if named > _NAMED_MAX:
            # Thousands of them, and nothing but a count comes of it: none is looked at alone.
            rest = dict.fromkeys(seqs[at:], "not_relevant")
            rest.update(dict.fromkeys(seqs[at:above], "budget"))
            rest.update((seq, reason) for seq, (reason, _) in why.items() if seq in rest)
            sheet.pass_over(rest)


def _narrates(item: Item) -> bool:
    """Whether it is one sentence in which an agent says what it does next."""
    if item.kind != _TURN or item.role != "assistant" or not is_narration(item.text):
        return False
    return len(sentences_in(item.text)) < _LINES_LEAST


def _lines_of(text: str) -> list[str]:
    """The lines of an entry that have some words, in small letters."""
    lines = (line.lower().split() for line in text.split("\n"))
    return [" ".join(words) for words in lines if len(words) >= _LINE_WORDS]


def _place(shown: _Shown) -> int:
    return shown.at


def _packing_of(materials: Materials) -> FillingParameters:
    weights = materials.policies.scoring.packing
    return FillingParameters(
        passage_tokens=weights.passage_tokens,
        passage_mean=weights.passage_mean,
        whole_tokens=weights.whole_tokens,
        passage_permille=weights.passage_worth,
        base_tokens=weights.base_tokens,
        powers=weights.powers,
        power=weights.power,
    )


_FIRST: Final = 1
_OTHER: Final = 2


class FirstGroups(NamedTuple):
    """By seq, the groups of the events that are printed before the others; what that costs."""

    groups: dict[int, EntryGroup]
    tokens: int


NONE_FIRST: Final = FirstGroups({}, 0)


class ChosenEvent(NamedTuple):
    """An event to show: its best document, and the place in the block."""

    doc: int
    item: Item
    group: EntryGroup


def newest_first(
    sheet: Sheet,
    part: BlockPart,
    chosen: Sequence[ChosenEvent],
    retriever: Retriever[Scope, Item],
    wanted: Mapping[int, int],
    room: int,
) -> FirstGroups:
    """Which of the events are printed before the others.

    `chosen` comes best first; of user turns and typed memories the first `LOOKED_AT_MAX`
    are looked at. The date lines that this adds cost at most `room` tokens: days for which that is
    not enough stay in log order.
    """
    spoken = [one for one in chosen if one.item.role == "user" or one.item.kind in TYPED_KINDS]
    told = [
        ValueMention(one.item.seq, retriever.words(one.doc), valued=True)
        for one in spoken[:LOOKED_AT_MAX]
        if says_a_value(one.item.text)
    ]
    matter = on_one_matter(wanted.keys(), told)
    if not matter:
        return NONE_FIRST
    staying = {one.group for one in chosen if one.item.seq not in matter}
    groups: dict[EntryGroup, list[int]] = {}  # those with the best evidence first
    for one in chosen:
        if one.item.seq in matter:
            groups.setdefault(one.group, []).append(one.item.seq)
    says_more = max(_says_more(sheet, part, group) for group in groups)
    taken: list[tuple[int, EntryGroup, list[int]]] = []
    left = room
    for group, seqs in groups.items():
        # Where others of the day are printed later, its date line comes twice; one is longer.
        again = sheet.date_tokens(part, group) if group in staying else 0
        more = 0 if taken else says_more
        if again + more <= left:
            left -= again + more
            taken.append((max(seqs), group, seqs))
    taken.sort(reverse=True)
    moved: dict[int, EntryGroup] = {}
    for _, group, seqs in taken:
        moved.update(dict.fromkeys(seqs, group._replace(order=_OTHER if moved else _FIRST)))
    return FirstGroups(moved, room - left) if len(moved) > 1 else NONE_FIRST


def _says_more(sheet: Sheet, part: BlockPart, group: EntryGroup) -> int:
    plain = sheet.date_tokens(part, group)
    return max(0, sheet.date_tokens(part, group._replace(order=_FIRST)) - plain)


# Turns about the same fact, so that the newest value comes first.
#
# Without a model: two turns are about the same fact where they share words of the query and words
# beside it, and each states a value - a number, a negation, a change. Of two such turns the later
# one holds, whichever matches the query better (in BEAM the newer of two statements comes later in
# the log in 116 of 117 pairs, and first by words in half of them).

LOOKED_AT_MAX: Final = 12  # the turns that answer best; all pairs of them are compared

_ASKED_WORDS: Final = 2  # words of the query that both say; all, where the query has fewer
_SHARED_WORDS: Final = 3  # words that both say, those of the query among them;
_SHORT_WORDS: Final = 2  # or half of the words of the shorter one, if that is not less than this
_VALUE_CHARACTERS: Final = 8_000
_VALUE: Final = regex(
    r"\d"
    r"|\b(?:never|not|no longer|cannot|without|instead|actually|now|new|newly|recently)\b"
    r"|n['\u2019]t\b"
    r"|\b(?:updat|chang|mov|reschedul|switch|increas|decreas|reduc|improv|adjust|extend|replac"
    r"|rais|lower|drop|grow)(?:e|es|ed|s|ing)?\b",
    re.IGNORECASE,
)


class ValueMention(NamedTuple):
    """A user turn or a memory: its seq, its words (term numbers), whether it states a value."""

    seq: int
    words: Collection[int]
    valued: bool


def says_a_value(text: str) -> bool:
    """Whether a text states a value that may change: a number, a negation, a change."""
    return _begins_with_a_value(text[:_VALUE_CHARACTERS])


@lru_cache(maxsize=512)
def _begins_with_a_value(text: str) -> bool:
    return _VALUE.search(text) is not None


def on_one_matter(asked: Collection[int], told: Sequence[ValueMention]) -> frozenset[int]:
    """The seqs of turns that state the same fact as another one: none, or at least two.

    `asked` are the term numbers of the query. Compares the first `LOOKED_AT_MAX` turns.
    """
    query = frozenset(asked)
    least = min(_ASKED_WORDS, len(query))
    turns = [(one.seq, frozenset(one.words)) for one in told[:LOOKED_AT_MAX] if one.valued]
    found: set[int] = set()
    for at, (seq, words) in enumerate(turns):
        for other, others in turns[:at]:
            both = words & others
            half = max(_SHORT_WORDS, min(len(words), len(others)) // 2)
            if len(both) >= min(_SHARED_WORDS, half) and len(both & query) >= least:
                found |= {seq, other}
    return frozenset(found)


# What a reminder may show: passages, and at a start what is left to do and what was decided.
SECTIONS: Final = {
    "prompt": frozenset(("retrieved_evidence",)),
    "tool": frozenset(("retrieved_evidence",)),
    "start": frozenset(("retrieved_evidence", "task_state", "relevant_decisions")),
}
TOLD: Final = "told"  # why what the session has already is left out
_PART: Final = next(part for part in PARTS if part.name == "reminder")


class Reminder(NamedTuple):
    """The passages of a reminder, in the order in which they take room.

    `answer`: at a prompt or a tool, the figures of the gate; `opens`: what it decided. `traps`: at
    a tool those that its call names.
    """

    passages: tuple[Passage, ...] = ()
    answer: PromptAnswer | None = None
    opens: bool = True
    traps: tuple[StandingNote, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The decision and its figures, for the report."""
        if self.answer is None:
            return {}
        figures = self.answer.figures._asdict()
        if not figures["cosine"]:  # nobody asked for vectors
            del figures["cosine"]
        return {"opens": self.opens, **figures}


def remind(request: Request, materials: Materials, query: PackQuery, scope: Scope) -> Reminder:
    """Read the passages of the requested reminder from the source."""
    if request.remind == "start":
        return Reminder(tuple(materials.source.statements(scope)))
    if request.remind == "tool":
        line = materials.source.line(query.event) if query.event else None
        if line is None:
            return Reminder(opens=False)
        found = materials.source.at_tool(line.event, scope)
        named = tool_names(line.event)
        text = "\n".join([*named, str(line.event.data.get("command", ""))])
        traps: tuple[StandingNote, ...] = ()
        if named:
            traps = tuple(recall_session_digest.named_in(materials.source.traps(scope), text))
        return Reminder(found.passages, found, bool(found.passages or traps), traps)
    rule = materials.policies.plane.hooks.answer
    answer = materials.source.answer(query.text, scope)
    opens = is_open(answer.figures, rule)
    return Reminder(answer.passages[: rule.passages] if opens else (), answer, opens)


def said_then(sessions: Sequence[LastSession]) -> list[Passage]:
    """Messages of the sessions of a time, one of each session in turn, the newest session first.

    Within a session messages of users (decisions first) and reports of agents take turns, the
    newest first.
    """
    told: list[Iterable[Passage]] = []
    for session in sessions:
        newest = session.said[::-1]
        asked = [one for item in newest if item.role == "user" for one in _said_by_user(item)]
        asked.sort(key=lambda one: not decides(one.text))
        reported = [one for item in newest if item.role != "user" for one in _reported(item)]
        told.append(_in_turn(asked, reported))
    return distinct_passages(_in_turn(*told), letters_of)


def _said_by_user(item: Item) -> list[Passage]:
    return statements_of(item, item.text)


def _reported(item: Item) -> list[Passage]:
    """How an agent's report begins; what is no report tells of what comes next."""
    told = is_report(item.text) and not ends_in_narration(item.text)
    return statements_of(item, item.text)[:1] if told else []


def _in_turn(*lists: Iterable[Passage]) -> Iterator[Passage]:
    """The first of each, then the second of each, ..."""
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)


def place_passages(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The passages of a prompt's answer, best first."""
    for passage, form, group in list(_fitting(sheet, context)):
        _put(sheet, passage, form, group)


def place_one(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The first passage that fits."""
    for passage, form, group in islice(_fitting(sheet, context), 1):
        _put(sheet, passage, form, group)


def place_statements(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The user's words at a start: those that fit, the newest first.

    Words that the project's files contain are left out.
    """
    wishes = [letters_of(entry.text.lower()) for entry in sheet.placed.get("wishes", ())]

    def is_told(one: Passage) -> bool:
        """Whether the session holds it, or a wish or a task above says it."""
        said = letters_of(one.text.lower())
        return (
            all_marked(one.text, context.held_marks)
            or any(said in wish for wish in wishes)
            or is_task_of(sheet, one.text)
        )

    kept = [one for one in context.passages if not is_told(one)]
    sheet.omit_all((one.item for one in context.passages if is_told(one)), _PART.section, TOLD)
    chosen: list[tuple[Passage, Form, EntryGroup]] = []
    shown: dict[int, dict[int, str]] = {}  # the letters of events, by where their passages begin

    def is_repeated(one: Passage) -> bool:
        """Whether an event that was chosen before says it, as a decision does that quotes it."""
        said = letters_of(one.text.lower())
        events = (parts for seq, parts in shown.items() if seq != one.item.seq)
        return any(said in "".join(parts[at] for at in sorted(parts)) for parts in events)

    for row in _fitting(sheet, context._replace(passages=tuple(kept)), is_repeated):
        chosen.append(row)
        passage = row[0]
        letters = letters_of(passage.text.lower())
        shown.setdefault(passage.item.seq, {})[passage.start] = letters
    for passage, form, group in sorted(chosen, key=lambda one: (-one[0].item.seq, one[0].start)):
        _put(sheet, passage, form, group)


def leave_told(
    sheet: Sheet, context: PackContext, items: Iterable[Item], section: str
) -> tuple[Item, ...]:
    """Omit the events whose whole text is in the project's files; return the others."""
    kept: list[Item] = []
    for item in items:
        if not all_marked(item.text, context.held_marks):
            kept.append(item)
        elif context.scope.hides(item) is None:
            sheet.omit_all((item,), section, TOLD)
    return tuple(kept)


def _fitting(
    sheet: Sheet, context: PackContext, is_told: Callable[[Passage], bool] | None = None
) -> Iterator[tuple[Passage, Form, EntryGroup]]:
    """Those that fit the section's room one after the other, each with its lines.

    `is_told` is asked of each when those before it have their places.
    """
    left, dated = sheet.room(_PART), set[EntryGroup]()
    for passage in context.passages:
        item = passage.item
        if item.seq in sheet.seqs:
            continue
        if is_told is not None and is_told(passage):
            sheet.omit_all((item,), _PART.section, TOLD)
            continue
        form, group = _form(passage, sheet.printer), entry_group(item)
        cost = form[1] + (0 if group in dated else sheet.date_tokens(_PART, group))
        if cost > left:
            sheet.omit(item, _PART.section, form[1], "budget", passage.score, cost - left)
        elif not sheet.needs.take_text(form[0]):
            sheet.omit(item, _PART.section, form[1], "limit", passage.score)
        else:
            left -= cost
            dated.add(group)
            yield passage, form, group


def _put(sheet: Sheet, passage: Passage, form: Form, group: EntryGroup) -> None:
    entry = entry_of(_PART, passage.item, form, passage.score * 1000 >> 20)
    sheet.put(_PART, entry, group, kind=passage.item.kind)


def _form(passage: Passage, printer: Printer) -> Form:
    item = passage.item
    item.finish(printer.counter)
    if passage.whole:
        return item.lines_of(plain_text(passage.text), whole=True, printer=printer)
    return item.passage(passage.text, printer)
