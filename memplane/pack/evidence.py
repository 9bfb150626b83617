"""Evidence: E, as of the session's prompt, or in the tail for any other query.

Here for a fast request, from the hotset alone; `retrieved` fills the same parts from the whole log.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Final, NamedTuple

from memplane.pack.layout import PARTS, Part, Ranked, Sheet
from memplane.pack.request import Materials
from memplane.policy import Scoring
from memplane.projections.item import Item
from memplane.projections.window import TIERS, limits
from memplane.projections.words import normalised
from memplane.recall.circumstances import NONE, circumstances, count
from memplane.recall.score import Scored, score
from memplane.recall.suppress import Scope

__all__ = ["EVIDENCE", "FOUND", "Asked", "place_evidence", "pool_before", "pool_now"]

_BY_NAME = {part.name: part for part in PARTS}
EVIDENCE: Final = _BY_NAME["evidence"]
FOUND: Final = _BY_NAME["found"]
# How many events before the prompt its evidence comes from, where the log is not searched.
_BEFORE_PROMPT: Final = 200
_SCALE: Final = 1_000_000


class Asked(NamedTuple):
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


def place_evidence(
    sheet: Sheet, materials: Materials, scope: Scope, part: Part, asked: Asked
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
    placed = sheet.seqs
    every = score(query, pool, hidden, scoring)
    sheet.found += len(every)
    hits = [hit for hit in every if hit.item.seq not in never and hit.item.seq not in placed]
    hits = [hit for hit in hits if scope.hides(hit.item) is None]
    best = max((hit.score for hit in hits), default=0)
    floor = max(1, best * scoring.evidence_floor // 1000)
    good = [hit for hit in hits if hit.score >= floor]
    if count(scoring):
        every, hits, good = _lifted((every, hits, good), now, scoring)
    sheet.ranked = Ranked(part, every, floor)
    worth = frozenset(hit.item.seq for hit in good)
    scored = {hit.item.seq: hit.score for hit in hits}
    for item, mask in zip(pool, hidden, strict=True):
        seq = item.seq
        if not (mask or seq in placed or seq in never or seq in worth):
            sheet.omit(item, part.section, item.cost, "not_relevant", scored.get(seq, 0))
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
                "words": hit.words, "tags": hit.tags, "key": hit.key,
                "neighbours": hit.neighbours, "markers": hit.markers,
                "recency": hit.recency, "coherence": hit.coherence,
            }  # fmt: skip


def _lifted(
    lists: Sequence[Sequence[Scored]], now: str, scoring: Scoring
) -> tuple[list[Scored], ...]:
    """All hits, those that may be shown and those that are relevant, with the terms beside it."""
    shown = [hit.item for hit in lists[1]]
    terms = dict(zip([item.seq for item in shown], circumstances(shown, now, scoring), strict=True))

    def lifted(hit: Scored) -> Scored:
        more = terms.get(hit.item.seq, NONE)
        return hit._replace(score=hit.score + more.both, **more._asdict())

    return tuple([lifted(hit) for hit in hits] for hits in lists)


def _tier(item: Item, chunk_max_tokens: int) -> int:
    """The longest form within the policy's bound of a chunk."""
    for tier, most in enumerate(limits(item.kind)):
        if most <= chunk_max_tokens:
            return tier
    return len(TIERS) - 1


def _by_value(hit: Scored) -> tuple[int, int, int, int, str]:
    """Score per root of the tokens: long turns match more words without saying more."""
    item = hit.item
    value = hit.score * _SCALE // isqrt((item.cost + 20) * _SCALE)
    return (-value, -item.importance, -item.seq, item.cost, item.id)


def _words(item: Item) -> str:
    if item.words is None:
        item.words = normalised(item.text)
    return item.words


def _newest_of_same(ranked: Sequence[Scored]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for hit in ranked:
        words = _words(hit.item)
        newest[words] = max(newest.get(words, 0), hit.item.seq)
    return newest
