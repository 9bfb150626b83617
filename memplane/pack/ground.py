"""What stays the same while a block is laid out: who asks, what for, and what may be seen."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from memplane.pack.digest import Sight, is_seen
from memplane.pack.layout import DECISIONS, Sheet
from memplane.pack.request import LastSession, Materials, Request
from memplane.pack.window import prompt_of
from memplane.ports import Retriever, TokenCounter
from memplane.projections.hotset import SessionRing
from memplane.projections.item import Item, Printer, digest_of
from memplane.projections.window import plain_text
from memplane.recall.intent import chosen_intent
from memplane.recall.suppress import WITHHELD, Scope

__all__ = [
    "Ground",
    "StatedEvent",
    "ground_of",
    "not_placed",
    "packed_last_sessions",
    "query_event",
    "searching",
    "unknown",
]


class StatedEvent(NamedTuple):
    """An event that was stated since the session's epoch: see `statements`.

    `at` is the seq at which it counts as stated: its own, or that of the pin that brought an older
    one back; `pinned_at` the seq of the pin in force, 0 for none. `own`: the session's.
    """

    item: Item
    source: str
    at: int
    pinned_at: int
    own: bool


class Ground(NamedTuple):
    """What stays the same while a block is laid out."""

    request: Request
    materials: Materials
    scope: Scope
    ring: SessionRing | None
    prompt: Item | None
    epoch: int
    own_query: bool  # the query is the session's prompt: evidence stands before it
    query: str
    pool: list[Item]  # what this pack could show as of now, in log order, counted
    intent: str
    intent_rule: str
    retriever: Retriever[Scope, Item] | None = None  # the whole log, where this pack searches it
    stated: tuple[StatedEvent, ...] = ()  # since the epoch, in log order
    step: int = 0  # tokens of the budget's step on the ladder: see `allocate`

    @property
    def orients(self) -> bool:
        """Whether the block is laid out for who has just come.

        In a session that is so where it is asked for: a prompt like "where were we" is one of
        many, and the blocks around it go on as they are.
        """
        asked = self.request.intent == "orient" or self.request.session is None
        return asked and self.intent == "orient"


def _held(request: Request) -> tuple[str, int] | None:
    if request.session is None or request.held_seq is None:
        return None
    return request.session, request.held_seq


def ground_of(
    request: Request, materials: Materials, pool: list[Item], counter: TokenCounter
) -> Ground:
    """What the request asks of these materials; the prompt is counted."""
    scope = Scope.of(
        materials.policies,
        request.channel,
        now=request.now,
        as_of=request.as_of,
        ns=request.ns,
        task=request.task,
        specs=materials.tasks.specs_of(request.task),
        agent=request.agent,
        since=request.since,
        until=request.until,
        exclude=frozenset(request.exclude),
        approvals=materials.approvals,
        held=_held(request),
        only=request.only,
        labels=materials.labels,
    )
    hotset = materials.hotset
    ring = hotset.sessions.get(request.session) if request.session is not None else None
    prompt = prompt_of(ring, hotset, scope)
    if prompt is not None:
        prompt.finish(counter)
    own = prompt is not None and (not request.query or prompt.says(request.query))
    epoch = ring.epoch if ring is not None else request.as_of
    query = prompt.text if own and prompt is not None else request.query
    # The prompt's own words decide where it is the query: its evidence must not change when the
    # caller stops repeating it.
    intent, rule = chosen_intent(request.intent, query, materials.policies.scoring)
    return Ground(request, materials, scope, ring, prompt, epoch, own, query, pool, intent, rule)


def searching(ground: Ground) -> Ground:
    """Open the search of the whole log where the pack is for more than what is recent."""
    opens = ground.materials.retriever
    if opens is None or ground.intent != "deep" or not ground.query:
        return ground
    return ground._replace(retriever=opens())


def packed_last_sessions(ground: Ground) -> tuple[LastSession, ...]:
    """The last sessions, read from the log only now."""
    opens = ground.materials.sessions
    return opens() if opens is not None else ()


def unknown(ground: Ground, printer: Printer) -> list[str]:
    """`session` and `task` where the request names one of which it may see nothing.

    Where only the log could tell they count as known. What may not be seen is as what is not there;
    the owner's session is known as soon as it began.
    """
    request, materials, scope = ground.request, ground.materials, ground.scope
    found: list[str] = []

    def bears(own: Callable[[Item], bool]) -> bool:
        held = chain(materials.hotset.items.values(), materials.decisions, materials.cards)
        return any(own(item) and scope.hides(item) not in WITHHELD for item in held)

    session, began = request.session, scope.owner and ground.ring is not None
    told = began or materials.gap or session is None
    if not told and not bears(lambda item: item.session == session):
        found.append("session")
    task, table = request.task, materials.tasks
    if task is not None and not table.only_in_log(task):
        known, space = table.get(task), f"/task/{task}"
        told = known is not None and is_seen(known, Sight(scope.hides, printer))
        if not (told or bears(lambda item: task == item.task or space == item.ns)):
            found.append("task")
    return found


def query_event(ground: Ground) -> int:
    """Seq of the event that is the query itself, which would only find itself; 0 if none."""
    request = ground.request
    if request.query_event is not None:
        return ground.materials.query_seq
    if not request.query:
        return 0
    digest, text = digest_of(request.query), plain_text(request.query)
    same = (
        item.seq
        for item in ground.pool
        if (request.session is None or item.session == request.session)
        and item.is_same(digest, text)
    )
    return max(same, default=0)


def not_placed(ground: Ground, sheet: Sheet, pool: list[Item]) -> tuple[dict[str, int], list[Item]]:
    """Counts of suppressed candidates by reason, and visible ones that no stage spoke about.

    Of the suppressed nothing else is told; the others are older than what was looked at. Decisions
    that no place is kept for are omitted here.
    """
    omit_left(sheet, ground.materials, ground.scope)
    counts: dict[str, int] = {}
    left: list[Item] = []
    hides, hidden = ground.scope.hides, ground.materials.hidden
    for item in hidden() if hidden is not None else ():
        reason = hides(item)
        if reason is not None and item.seq not in sheet.hidden:
            counts[reason] = counts.get(reason, 0) + 1
    looked_at = {item.seq for item in pool} if sheet.hidden else frozenset[int]()
    for seq, why in sheet.hidden.items():
        if seq not in looked_at:
            counts[why] = counts.get(why, 0) + 1
    told = {omission.seq for omission in sheet.views_omitted if omission.seq}
    rendered, omitted, passed = sheet.seqs, sheet.omitted, sheet.passed
    for item, reason in zip(pool, ground.scope.reasons(pool), strict=True):
        if reason is None:
            seq = item.seq
            if not (seq in rendered or seq in omitted or seq in passed):
                left.append(item)
        elif reason == "changed":
            # Who may see it is told which one it is, where that was not said yet.
            if item.seq not in told and item.seq not in omitted:
                sheet.omit(item, "", item.cost, reason)
        else:
            counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items())), left


def omit_left(sheet: Sheet, materials: Materials, scope: Scope) -> None:
    """Note the decisions that no place is kept for, where nothing else spoke of them."""
    for item in materials.left:
        if not (item.seq in sheet.seqs or item.seq in sheet.omitted or scope.hides(item)):
            sheet.omit_unread(item.seq, (item, DECISIONS, item.cost, "limit", 0, 0))
