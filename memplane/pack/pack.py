"""The order of packing: head, window, evidence, tail; then render and report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from memplane.errors import InputError
from memplane.pack.allocate import (
    FRAMED_FROM,
    STEADY_FROM,
    Rooms,
    budget_of,
    ladder,
    rooms,
)
from memplane.pack.block import Block
from memplane.pack.evidence import (
    EVIDENCE,
    FOUND,
    Asked,
    place_evidence,
    pool_before,
    pool_now,
)
from memplane.pack.head import omit_lost, place_cards, place_decisions, place_views
from memplane.pack.layout import Part, Sheet
from memplane.pack.render import frame_reserve, render
from memplane.pack.report import Facts, prefix_of, report_of
from memplane.pack.request import Materials, Request
from memplane.pack.retrieved import place_retrieved
from memplane.pack.tail import (
    TAIL,
    fill_tail,
    is_own,
    place_elsewhere,
    place_expansions,
    place_own,
)
from memplane.pack.tasks import place_tasks
from memplane.pack.tools import place_files, place_tools
from memplane.pack.window import NO_WINDOW, Window, lay_window, place_newer, place_window, prompt_of
from memplane.policy import Budgets, Section
from memplane.ports import TokenCounter
from memplane.projections.hotset import SessionRing
from memplane.projections.item import Item, Printer, digest_of
from memplane.projections.window import plain
from memplane.recall.intent import intent_of
from memplane.recall.retrieval import Retriever
from memplane.recall.suppress import Scope

__all__ = ["pack"]

_HEAD = frozenset(("identity", "rules"))
_NEEDS_NOTHING = frozenset(
    ("identity", "rules", "task_state", "relevant_decisions", "knowledge_cards",
     "retrieved_evidence", "recent_window", "tool_state")
)  # fmt: skip

Mark = Callable[[str], None]


class _Ground(NamedTuple):
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
    retriever: Retriever | None = None  # the whole log, where this pack searches it


def pack(
    request: Request, materials: Materials, printer: Printer, *, mark: Mark = lambda _stage: None
) -> Block:
    """Pack the block for a request.

    A function of its arguments: the same ones give the same bytes. `mark` is told when a stage
    ends, so that a caller with a clock can time them. Raises BudgetError for a budget of 0 or
    less, InputError for a section or intent that does not exist.
    """
    budgets = materials.policies.budgets
    budget = budget_of(request.budget, budgets)
    intent_of(request.intent, "", materials.policies.scoring)  # a mistake comes before any work
    holding = _holding(request, budgets)
    pool = pool_now(materials, request.session)
    for item in (*pool, *materials.decisions, *materials.cards):
        if not item.final:
            item.finish(printer.counter)
    ground = _ground(request, materials, pool, printer.counter)
    mark("suppress")
    if "retrieved_evidence" in holding:
        ground = _searching(ground)
        mark("index")

    framed = budget >= FRAMED_FROM
    frame = frame_reserve(printer.counter) if framed else 0
    steady = budget >= STEADY_FROM
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    lone = bool(request.query) and request.session is None
    spread = (ladder(budget, most) if steady else budget) - frame
    given = rooms(budgets, holding, spread, lone=lone)
    sheet = Sheet(given.room, printer)
    total = budget - frame
    mark("allocate")

    sections = [section for section in budgets.sections if section.name in holding]
    if steady:
        window = _lay_steady(sheet, ground, sections, given, total, mark)
    else:
        window = _lay_small(sheet, ground, sections, given, total)
    omit_lost(sheet, materials, holding & (_HEAD | frozenset(s.name for s in sections if _ends(s))))
    mark("tail")

    rendered = render(sheet.entries(), printer.counter, sheet.frame, framed=framed)
    assert rendered.tokens <= budget, "a block never passes its budget"
    mark("render")
    facts = Facts(
        request, budget, ground.intent, given, sheet, window, ground.epoch,
        ground.prompt.seq if ground.prompt is not None else 0,
        *_not_placed(ground, sheet, pool), ground.retriever,
    )  # fmt: skip
    omissions, report = report_of(facts, materials, rendered)
    report["prefix"] = prefix_of(facts, rendered, materials)
    mark("report")
    return Block(rendered.text, rendered.tokens, rendered.entries, omissions, report)


def _holding(request: Request, budgets: Budgets) -> frozenset[str]:
    """Sections that can hold something in this request; a share goes to no other."""
    names = {section.name for section in budgets.sections}
    for name in request.sections:
        if name not in names:
            known = ", ".join(section.name for section in budgets.sections)
            raise InputError(f"unknown section {name!r}; the policy has {known}", where="sections")
    return frozenset(
        section.name
        for section in budgets.sections
        if (not request.sections or section.name in request.sections)
        and (
            section.name in _NEEDS_NOTHING
            or (section.name == "expansions" and request.expand)
            or is_own(section)
        )
    )


def _ground(
    request: Request, materials: Materials, pool: list[Item], counter: TokenCounter
) -> _Ground:
    scope = Scope(
        materials.policies.privacy.rule(request.channel), now=request.now, as_of=request.as_of,
        ns=request.ns, task=request.task, specs=materials.tasks.specs_of(request.task),
        agent=request.agent, since=request.since,
        until=request.until, exclude=frozenset(request.exclude),
    )  # fmt: skip
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
    intent = intent_of(request.intent, query, materials.policies.scoring)
    return _Ground(request, materials, scope, ring, prompt, epoch, own, query, pool, intent)


def _searching(ground: _Ground) -> _Ground:
    """Open the search of the whole log where the pack is for more than what is recent."""
    opens = ground.materials.retriever
    if opens is None or ground.intent != "deep" or not ground.query:
        return ground
    return ground._replace(retriever=opens())


def _lay_steady(
    sheet: Sheet, ground: _Ground, sections: list[Section], given: Rooms, total: int, mark: Mark
) -> Window:
    """Each area within its own rooms; only the tail takes what the others leave over."""
    names = frozenset(section.name for section in sections)
    place_views(sheet, ground.materials, _HEAD & names)
    place_cards(sheet, ground.materials, ground.scope, ground.epoch)
    place_decisions(sheet, ground.materials, ground.scope, ground.epoch)
    mark("head")
    # The window first: evidence leaves out what the window shows.
    window = _window(sheet, ground, steady=True)
    _evidence(sheet, ground)
    mark("middle")
    tail = [s for s in sections if _ends(s) and not _in_middle(s.name, ground)]
    fill_tail(sheet, tail, given.room, total, partial(_fill, sheet, ground))
    return window


def _lay_small(
    sheet: Sheet, ground: _Ground, sections: list[Section], given: Rooms, total: int
) -> Window:
    """A small block spends what it has: by falling share, each also takes what is left so far."""
    window = NO_WINDOW
    lone = bool(ground.request.query) and ground.request.session is None
    waiting = sorted(sections, key=lambda section: -section.weight_of(lone=lone))
    for at, section in enumerate(waiting):
        name = section.name
        later = sum(given.room[other.name] for other in waiting[at + 1 :])
        sheet.left[name] = max(0, min(section.max_tokens, total - sheet.spent - later))
        match name:
            case "identity" | "rules":
                place_views(sheet, ground.materials, frozenset((name,)))
            case "knowledge_cards":
                place_cards(sheet, ground.materials, ground.scope, ground.epoch)
            case "relevant_decisions":
                place_decisions(sheet, ground.materials, ground.scope, ground.epoch)
            case "recent_window":
                window = _window(sheet, ground, steady=False)
            case "retrieved_evidence" if ground.own_query:
                _evidence(sheet, ground)
            case _:
                _fill(sheet, ground, section)
    return window


def _ends(section: Section) -> bool:
    """Whether the section stands in the tail."""
    return section.name in TAIL or is_own(section)


def _window(sheet: Sheet, ground: _Ground, *, steady: bool) -> Window:
    """C, D and F."""
    room = sheet.left.get("recent_window", 0)
    window = lay_window(
        sheet, ground.materials, ground.ring, ground.prompt, ground.scope, steady=steady,
        asked=ground.retriever is not None,
    )  # fmt: skip
    if ground.ring is not None:
        place_newer(
            sheet,
            ground.materials,
            ground.scope,
            (ground.epoch, window.anchor),
            room,
            window.pinned,
        )
    place_window(sheet, window)
    return window


def _evidence(sheet: Sheet, ground: _Ground) -> None:
    """E, where the query is the session's own prompt."""
    if ground.own_query and ground.prompt is not None and "retrieved_evidence" in sheet.left:
        before = ground.prompt.seq - 1
        never = frozenset((ground.prompt.seq, _query_event(ground)))
        pool = pool_before(ground.materials, before)
        _place_found(sheet, ground, EVIDENCE, Asked(ground.query, before, never, pool))


def _place_found(sheet: Sheet, ground: _Ground, part: Part, asked: Asked) -> None:
    """Evidence from the whole log, or for a fast request from what is recent."""
    if ground.retriever is not None:
        place_retrieved(sheet, ground.materials, ground.scope, part, asked, ground.retriever)
    else:
        place_evidence(sheet, ground.materials, ground.scope, part, asked)


def _in_middle(name: str, ground: _Ground) -> bool:
    return name == "retrieved_evidence" and ground.own_query


def _fill(sheet: Sheet, ground: _Ground, section: Section) -> None:
    materials, scope = ground.materials, ground.scope
    place_views(sheet, materials, frozenset((section.name,)))
    match section.name:
        case "task_state":
            place_tasks(sheet, materials, ground.request, scope)
            place_elsewhere(sheet, materials, ground.request, scope, ground.epoch)
        case "tool_state":
            place_files(sheet, materials, ground.request, scope, ground.query)
            place_tools(sheet, materials, scope)
        case "expansions":
            place_expansions(sheet, materials, scope)
        case "retrieved_evidence":
            if ground.query:
                never = frozenset((_query_event(ground),))
                asked = Asked(ground.query, ground.request.as_of, never, ground.pool)
                _place_found(sheet, ground, FOUND, asked)
        case _:
            place_own(sheet, materials, scope, section)


def _query_event(ground: _Ground) -> int:
    """Seq of the event that is the query itself, which would only find itself; 0 if none."""
    request = ground.request
    if request.query_event is not None:
        return ground.materials.query_seq
    if not request.query:
        return 0
    digest, text = digest_of(request.query), plain(request.query)
    same = (
        item.seq
        for item in ground.pool
        if (request.session is None or item.session == request.session)
        and item.is_same(digest, text)
    )
    return max(same, default=0)


def _not_placed(
    ground: _Ground, sheet: Sheet, pool: list[Item]
) -> tuple[dict[str, int], list[Item]]:
    """Counts of suppressed candidates by reason, and visible ones that no stage spoke about.

    Of the suppressed nothing else is told; the others are older than what was looked at.
    """
    counts: dict[str, int] = {}
    left: list[Item] = []
    hides = ground.scope.hides
    for item in pool:
        reason = hides(item)
        if reason is not None:
            counts[reason] = counts.get(reason, 0) + 1
        elif not (item.seq in sheet.seqs or item.seq in sheet.omitted or item.seq in sheet.passed):
            left.append(item)
    return dict(sorted(counts.items())), left
