"""Evidence: E, as of the session's prompt, or in the tail for any other query.

Here for a fast request, from the hotset alone; `retrieved` fills the same parts from the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from math import isqrt
from typing import Final, NamedTuple

from memplane.event import MARKERS
from memplane.pack.layout import PARTS, BlockPart, EntryGroup, RankedCandidates, Sheet, entry_group
from memplane.pack.request import Materials
from memplane.policy import Scoring
from memplane.projections.files import normalised
from memplane.projections.item import Item
from memplane.projections.window import TIERS, limits
from memplane.recall.score import NONE, ScoredCandidate, circumstances, count, score
from memplane.recall.suppress import Scope

__all__ = [
    "EVIDENCE",
    "FOUND",
    "EvidenceQuery",
    "Marked",
    "place_evidence",
    "pool_before",
    "pool_now",
]

_BY_NAME = {part.name: part for part in PARTS}
EVIDENCE: Final = _BY_NAME["evidence"]
FOUND: Final = _BY_NAME["found"]
# How many events before the prompt its evidence comes from, where the log is not searched.
_BEFORE_PROMPT: Final = 200
_SCALE: Final = 1_000_000
_TURN: Final = "message"
_MARKERS: Final = frozenset(MARKERS)
_LEAST_TURN: Final = 8  # tokens: a label, a few words and the newline
_NO_ROW: Final = (None, "", 0, "", 0, 0)
_MISSES_MAX: Final = 24  # marked turns in a row that were read and did not fit


class EvidenceQuery(NamedTuple):
    """What evidence is wanted for: the query, up to which seq, without the events in `never`.

    `never` are the seqs of the query itself. `pool` is what the hotset offers, in log order. `now`
    is when it is asked: of a prompt, when that was said.
    """

    query: str
    upto: int
    never: frozenset[int]
    pool: Sequence[Item]
    now: str


def pool_before(materials: Materials, upto: int) -> list[Item]:
    """Candidates as of the prompt: the plane's events right before it, whoever may see them."""
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
    """The part of the evidence that is kept for marked turns which nothing else brings.

    `turns` are their seqs, tokens and items, None for one that `read` reads: those that matter most
    first. `held` are the tokens of those that were chosen, which other evidence leaves free.
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
        """Choose again, without what is shown by now; return how many tokens less that takes."""
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
        """Place what was chosen; of the others say that they had no room.

        Few of those that nobody has read are named: to list one takes a look at the log.
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


def place_evidence(
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
        more = terms.get(hit.item.seq, NONE)
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
    newest: dict[str, int] = {}
    for hit in ranked:
        words = _words(hit.item)
        newest[words] = max(newest.get(words, 0), hit.item.seq)
    return newest
