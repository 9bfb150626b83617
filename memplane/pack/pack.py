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
from memplane.pack.expansions import place_expansions
from memplane.pack.ground import (
    Ground,
    ground_of,
    last_sessions,
    not_placed,
    query_event,
    searching,
    unknown,
)
from memplane.pack.head import omit_lost, place_cards, place_decisions, place_views
from memplane.pack.layout import ORIENT_PARTS, PARTS, Part, Sheet
from memplane.pack.mapping import place_map
from memplane.pack.prefix import prefix_of
from memplane.pack.render import Rendered, frame_reserve, render
from memplane.pack.report import Facts, report_of
from memplane.pack.request import Materials, Request
from memplane.pack.retrieved import place_retrieved
from memplane.pack.staleness import staleness
from memplane.pack.statements import place_newer, place_others, room_of, stated_since
from memplane.pack.tail import (
    TAIL,
    fill_tail,
    is_own,
    place_more_cards,
    place_own,
    place_sessions,
)
from memplane.pack.tasks import place_tasks
from memplane.pack.tools import place_files, place_tools
from memplane.pack.window import NO_WINDOW, Window, lay_window, place_window
from memplane.policy import Budgets, Section
from memplane.projections.item import Printer
from memplane.recall.intent import intent_of

__all__ = ["Laid", "lay", "pack"]

_HEAD = frozenset(("identity", "rules"))
_NEEDS_NOTHING = frozenset(
    ("identity", "rules", "task_state", "relevant_decisions", "knowledge_cards",
     "retrieved_evidence", "recent_window", "tool_state", "system_map")
)  # fmt: skip

_STEADY_IN_ORIENT = frozenset(("identity", "rules", "system_map"))
_ORIENT_ORDER = (
    "identity", "rules", "system_map", "task_state", "relevant_decisions", "knowledge_cards",
    "recent_window", "tool_state",
)  # fmt: skip
_ORIENT_LAST = ("expansions", "retrieved_evidence")

Mark = Callable[[str], None]


class Laid(NamedTuple):
    """A block as it was laid out: what there was to choose from, what came of it, its text."""

    facts: Facts
    ground: Ground
    rendered: Rendered


def _unmarked(_stage: str) -> None:
    pass


def pack(
    request: Request, materials: Materials, printer: Printer, *, mark: Mark = _unmarked,
    watch: Callable[[Laid], None] | None = None,
) -> Block:  # fmt: skip
    """Pack the block for a request.

    A function of its arguments: the same ones give the same bytes. `mark` is told when a stage
    ends, so that a caller with a clock can time them; `watch` is shown how the block was laid out,
    for who explains it. Raises BudgetError for a budget of 0 or less, InputError for a section or
    intent that does not exist.
    """
    laid = lay(request, materials, printer, mark=mark)
    facts, ground, rendered = laid
    omissions, report = report_of(facts, materials, rendered)
    if missing := unknown(ground, printer):
        report["unknown"] = missing
    report["prefix"] = prefix_of(facts, rendered, materials)
    mark("report")
    if watch is not None:
        watch(laid)
    return Block(rendered.text, rendered.tokens, rendered.entries, omissions, report)


def lay(
    request: Request, materials: Materials, printer: Printer, *, mark: Mark = _unmarked
) -> Laid:  # fmt: skip
    """`pack` without the report."""
    budgets = materials.policies.budgets
    budget = budget_of(request.budget, budgets)
    intent_of(request.intent, "", materials.policies.scoring)  # a mistake comes before any work
    holding = _holding(request, budgets)
    pool = pool_now(materials, request.session)
    for item in (*pool, *materials.decisions, *materials.cards):
        if not item.final:
            item.finish(printer.counter)
    ground = ground_of(request, materials, pool, printer.counter)
    ground = ground._replace(stated=stated_since(ground))
    mark("suppress")
    if "retrieved_evidence" in holding:
        ground = searching(ground)
        mark("index")

    framed = budget >= FRAMED_FROM
    frame = frame_reserve(printer.counter) if framed else 0
    steady = budget >= STEADY_FROM
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    lone = bool(request.query) and request.session is None
    step = ladder(budget, most) if steady else budget
    ground = ground._replace(step=step)
    spread = step - frame
    given = rooms(budgets, holding, spread, lone=lone, orient=ground.orients)
    sheet = Sheet(given.room, printer, ORIENT_PARTS if ground.orients else PARTS)
    sheet.stale = staleness(ground)
    total = budget - frame
    mark("allocate")

    sections = [section for section in budgets.sections if section.name in holding]
    if ground.orients:
        window = _lay_orient(sheet, ground, sections, given, total, steady=steady)
    elif steady:
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
        *not_placed(ground, sheet, pool), ground.retriever,
    )  # fmt: skip
    return Laid(facts, ground, rendered)


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


def _lay_steady(
    sheet: Sheet, ground: Ground, sections: list[Section], given: Rooms, total: int, mark: Mark
) -> Window:
    """Each area within its own rooms; only the tail takes what the others leave over."""
    names = frozenset(section.name for section in sections)
    place_views(sheet, ground.materials, _HEAD & names)
    place_map(sheet, ground.materials, ground.scope, ground.epoch)
    place_cards(sheet, ground.materials, ground.scope, ground.epoch)
    place_decisions(sheet, ground.materials, ground.scope, ground.epoch)
    mark("head")
    # The window first: evidence leaves out what the window shows.
    window = _window(sheet, ground, steady=True)
    _evidence(sheet, ground)
    mark("middle")
    place_more_cards(sheet, ground.materials, ground.scope, ground.query)
    tail = [s for s in sections if _ends(s) and not _in_middle(s.name, ground)]
    recent = next((s for s in sections if s.name == "recent_window"), None)
    if ground.intent == "orient" and recent is not None:
        # The window keeps its room; the sessions before take what no other section will.
        later = sum(given.room[section.name] for section in tail)
        free = total - sheet.spent - later
        most = recent.max_tokens - sheet.used.get(recent.name, 0)
        sheet.left[recent.name] = max(0, min(most, free))
        place_sessions(sheet, last_sessions(ground), ground.scope)
    fill_tail(sheet, tail, given.room, total, partial(_fill, sheet, ground, window))
    return window


def _lay_small(
    sheet: Sheet, ground: Ground, sections: list[Section], given: Rooms, total: int
) -> Window:
    """A small block spends what it has: by falling share, each also takes what is left so far."""
    window = NO_WINDOW
    lone = bool(ground.request.query) and ground.request.session is None
    waiting = _by_share(sections, lone=lone)
    for at, section in enumerate(waiting):
        name = section.name
        later = sum(given.room[other.name] for other in waiting[at + 1 :])
        if name == "expansions":
            later -= given.room.get("retrieved_evidence", 0) // 2
        sheet.left[name] = max(0, min(section.max_tokens, total - sheet.spent - later))
        match name:
            case "identity" | "rules":
                place_views(sheet, ground.materials, frozenset((name,)))
            case "system_map":
                place_map(sheet, ground.materials, ground.scope, ground.epoch)
            case "knowledge_cards":
                place_cards(sheet, ground.materials, ground.scope, ground.epoch)
                place_more_cards(sheet, ground.materials, ground.scope, ground.query)
            case "relevant_decisions":
                place_decisions(sheet, ground.materials, ground.scope, ground.epoch)
            case "recent_window":
                window = _window(sheet, ground, steady=False)
            case "retrieved_evidence" if ground.own_query:
                _evidence(sheet, ground)
            case _:
                _fill(sheet, ground, window, section)
    return window


def _by_share(sections: list[Section], *, lone: bool) -> list[Section]:
    """By falling share; what is asked for by name stands before evidence, which takes all else."""
    waiting = sorted(sections, key=lambda section: -section.weight_of(lone=lone))
    asked = next((section for section in waiting if section.name == "expansions"), None)
    evidence = next((section for section in waiting if section.name == "retrieved_evidence"), None)
    if asked is not None and evidence is not None:
        waiting.remove(asked)
        waiting.insert(waiting.index(evidence), asked)
    return waiting


def _lay_orient(
    sheet: Sheet, ground: Ground, sections: list[Section], given: Rooms, total: int, *,
    steady: bool,
) -> Window:  # fmt: skip
    """For who has just come: what comes first in the block also takes first what is left over.

    The views and the map, which stay put, have their own rooms and no more.
    """
    window, materials, scope = NO_WINDOW, ground.materials, ground.scope
    now = ground.request.as_of
    waiting = sorted(sections, key=_oriented)
    for at, section in enumerate(waiting):
        name = section.name
        later = sum(given.room[other.name] for other in waiting[at + 1 :])
        if not (steady and name in _STEADY_IN_ORIENT):
            sheet.left[name] = max(0, min(section.max_tokens, total - sheet.spent - later))
        match name:
            case "identity" | "rules":
                place_views(sheet, materials, frozenset((name,)))
            case "system_map":
                place_map(sheet, materials, scope, ground.epoch)
            case "relevant_decisions":
                place_decisions(sheet, materials, scope, now)
            case "knowledge_cards":
                place_cards(sheet, materials, scope, now)
                place_more_cards(sheet, materials, scope, "")
            case "recent_window":
                place_sessions(sheet, last_sessions(ground), scope)
                # What the sessions came to is worth what others leave over; single turns are not.
                own = given.room[name] - sheet.used.get(name, 0)
                sheet.left[name] = max(0, min(sheet.left[name], own))
                window = _window(sheet, ground, steady=steady)
            case "retrieved_evidence" if ground.own_query:
                _evidence(sheet, ground)
            case _:
                _fill(sheet, ground, window, section)
    return window


def _oriented(section: Section) -> int:
    """Sections of the policy's own stand before expansions and evidence."""
    name = section.name
    at = _ORIENT_ORDER.index(name) if name in _ORIENT_ORDER else len(_ORIENT_ORDER)
    return at if name not in _ORIENT_LAST else len(_ORIENT_ORDER) + 1 + _ORIENT_LAST.index(name)


def _ends(section: Section) -> bool:
    """Whether the section stands in the tail."""
    return section.name in TAIL or is_own(section)


def _window(sheet: Sheet, ground: Ground, *, steady: bool) -> Window:
    """C, D and F."""
    room = room_of(sheet, ground, steady=steady)
    window = lay_window(
        sheet, ground.materials, ground.ring, ground.prompt, ground.scope, stated=room,
        steady=steady, asked=ground.retriever is not None,
    )  # fmt: skip
    place_newer(sheet, ground, window, room)
    place_window(sheet, window)
    return window


def _evidence(sheet: Sheet, ground: Ground) -> None:
    """E, where the query is the session's own prompt."""
    if ground.own_query and ground.prompt is not None and "retrieved_evidence" in sheet.left:
        before = ground.prompt.seq - 1
        never = frozenset((ground.prompt.seq, query_event(ground)))
        pool = pool_before(ground.materials, before)
        asked = Asked(ground.query, before, never, pool, ground.prompt.ts)
        _place_found(sheet, ground, EVIDENCE, asked)


def _place_found(sheet: Sheet, ground: Ground, part: Part, asked: Asked) -> None:
    """Evidence from the whole log, or for a fast request from what is recent."""
    if ground.retriever is not None:
        place_retrieved(sheet, ground.materials, ground.scope, part, asked, ground.retriever)
    else:
        place_evidence(sheet, ground.materials, ground.scope, part, asked)


def _in_middle(name: str, ground: Ground) -> bool:
    return name == "retrieved_evidence" and ground.own_query


def _fill(sheet: Sheet, ground: Ground, window: Window, section: Section) -> None:
    materials, scope = ground.materials, ground.scope
    place_views(sheet, materials, frozenset((section.name,)))
    match section.name:
        case "task_state":
            place_tasks(sheet, materials, ground.request, scope)
            place_others(sheet, ground, window)
        case "tool_state":
            place_files(sheet, materials, ground.request, scope, ground.query)
            place_tools(sheet, materials, scope)
        case "expansions":
            place_expansions(sheet, materials, scope)
        case "retrieved_evidence":
            if ground.query:
                never = frozenset((query_event(ground),))
                asked = Asked(ground.query, ground.request.as_of, never, ground.pool, scope.now)
                _place_found(sheet, ground, FOUND, asked)
        case _:
            place_own(sheet, materials, scope, section)
