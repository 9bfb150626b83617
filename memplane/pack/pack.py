"""The order of packing: head, window, evidence, tail; then render and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from memplane.errors import InputError
from memplane.pack.block import Block, Omission
from memplane.pack.evidence import (
    EVIDENCE,
    FOUND,
    EvidenceQuery,
    place_evidence,
    pool_before,
    pool_now,
)
from memplane.pack.expansions import place_expansions
from memplane.pack.ground import (
    Ground,
    ground_of,
    not_placed,
    packed_last_sessions,
    query_event,
    searching,
    unknown,
)
from memplane.pack.handles import parse_handle
from memplane.pack.head import (
    omit_lost,
    place_cards,
    place_decisions,
    place_map,
    place_newer,
    place_others,
    place_views,
    room_of,
    stated_since,
)
from memplane.pack.layout import (
    DECISIONS,
    FRAMED_FROM,
    ORIENT_PARTS,
    PARTS,
    STEADY_FROM,
    BlockPart,
    Rooms,
    Sheet,
    budget_of,
    ladder,
    rooms,
)
from memplane.pack.render import Rendered, frame_reserve, render_block
from memplane.pack.report import LayoutFacts, pack_report, stable_prefix
from memplane.pack.request import Materials, Needs, Request, View
from memplane.pack.retrieved import place_retrieved
from memplane.pack.tail import TAIL, is_own_section, place_more_cards, place_own, place_sessions
from memplane.pack.tasks import place_tasks
from memplane.pack.tools import place_files, place_tools
from memplane.pack.window import NO_WINDOW, Window, lay_window, place_window
from memplane.policy import Budgets, SectionBudget
from memplane.projections.item import Printer
from memplane.recall.intent import intent_of
from memplane.recall.score import fades, fading, is_stale

if TYPE_CHECKING:
    from memplane.projections.item import Item

__all__ = ["Laid", "lay", "pack", "staleness"]


_HEAD = frozenset(("identity", "rules"))
# In a small block these share what the others leave; and these spend their share and no more
# while evidence is still to come.
_REST = frozenset(("recent_window", "retrieved_evidence"))
_THIN = frozenset(("tool_state", "expansions"))
_NEEDS_NOTHING = frozenset(
    (
        "identity",
        "rules",
        "task_state",
        "relevant_decisions",
        "knowledge_cards",
        "retrieved_evidence",
        "recent_window",
        "tool_state",
        "system_map",
    )
)

_STEADY_IN_ORIENT = frozenset(("identity", "rules", "system_map"))
_ORIENT_LAST = ("expansions", "retrieved_evidence")

Mark = Callable[[str], None]


class Laid(NamedTuple):
    """A block as it was laid out: what there was to choose from, what came of it, its text."""

    facts: LayoutFacts
    ground: Ground
    rendered: Rendered


def _unmarked(_stage: str) -> None:
    pass


def pack(
    request: Request,
    materials: Materials,
    printer: Printer,
    *,
    mark: Mark = _unmarked,
    watch: Callable[[Laid], None] | None = None,
) -> Block:
    """Pack the block for a request.

    A function of its arguments: the same ones give the same bytes. `mark` is told when a stage
    ends, so that a caller with a clock can time them; `watch` is shown how the block was laid out,
    for who explains it. Raises BudgetError for a budget of 0 or less, InputError for a section or
    intent that does not exist.
    """
    laid = lay(request, materials, printer, mark=mark)
    facts, ground, rendered = laid
    materials = ground.materials
    omissions, report = pack_report(facts, materials, rendered)
    if missing := unknown(ground, printer):
        report["unknown"] = missing
    report["prefix"] = stable_prefix(facts, rendered, materials)
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
    needs = Needs(budgets.limits.file_reads_max, budgets.limits.bytes_read_max)
    materials = materials._replace(views=_bounded(materials.views, needs))
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
    total = budget - frame
    if not framed:  # else a block without marks could hold more than one of a few tokens more
        spread = total = min(budget, FRAMED_FROM - frame_reserve(printer.counter))
    given = rooms(budgets, holding, spread, lone=lone, orient=ground.orients)
    sheet = Sheet(given.room, printer, ORIENT_PARTS if ground.orients else PARTS, given.cap, needs)
    sheet.stale, sheet.fading = staleness(ground), fading(materials.policies.scoring.half_lives)
    sections = [section for section in budgets.sections if section.name in holding]
    work = _Work(sheet, ground, given.room, total, steady=steady)
    if not steady:
        given = _small_rooms(work, sections, budgets, spread, lone=lone)
        work.room, sheet.left = given.room, dict(given.room)
    mark("allocate")

    _lay_out(work, sections, mark)
    if "expansions" not in holding:
        sheet.views_omitted += [
            Omission(str(parse_handle(handle)), 0, "expansions", 0, "section", 0, 0)
            for handle in request.expand
        ]
    omit_lost(sheet, materials, holding & (_HEAD | frozenset(s.name for s in sections if _ends(s))))
    mark("tail")

    rendered = render_block(sheet.entries(), printer.counter, sheet.frame, framed=framed)
    assert rendered.tokens <= budget, "a block never passes its budget"
    mark("render")
    facts = LayoutFacts(
        request, budget, ground.intent, given, sheet, work.window, ground.epoch,
        ground.prompt.seq if ground.prompt is not None else 0,
        *not_placed(ground, sheet, pool), ground.retriever, ground.intent_rule,
    )  # fmt: skip
    return Laid(facts, ground, rendered)


def _bounded(views: Sequence[View], needs: Needs) -> tuple[View, ...]:
    """The views that the limits allow: the first thing that a request needs, and the last to go."""
    return tuple(
        view
        if view.lost or needs.take_text(view.text, own_file=True)
        else View(view.path, "", "", "limit")
        for view in views
    )


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
            or is_own_section(section)
        )
    )


class _Step(NamedTuple):
    """One turn of a section.

    `takes`: its `own` room alone; the `rest`, which is all that those before it left over and none
    behind it will need; or `half` of that and of evidence's room, where evidence is still to come.
    """

    section: SectionBudget
    fill: _Fill
    takes: Literal["own", "rest", "half"]


class _Work:
    """A block while it is laid out: the one procedure for every budget and intent."""

    def __init__(
        self, sheet: Sheet, ground: Ground, room: dict[str, int], total: int, *, steady: bool
    ) -> None:
        self.sheet, self.ground, self.room, self.total = sheet, ground, room, total
        self.steady, self.window = steady, NO_WINDOW

    def run(self, steps: Sequence[_Step]) -> None:
        """Take the steps in order. What is to come keeps its room; no section passes its cap."""
        sheet, room = self.sheet, self.room
        for at, (section, fill, takes) in enumerate(steps):
            name = section.name
            most = section.max_tokens - sheet.taken(name)
            left = self._unspent(name)
            if takes != "own":
                waiting = dict.fromkeys(step.section.name for step in steps[at + 1 :])
                waiting.pop(name, None)
                left = self.total - sheet.spent - sum(map(self._unspent, waiting))
                if takes == "half":
                    left = (left + room["retrieved_evidence"]) // 2
            sheet.left[name] = max(0, min(most, left))
            fill(self, section)
            # Decisions stand as they are: none that was not refused would come with more room.
            if left < most and takes != "own":
                sheet.short |= name != DECISIONS or sheet.short_of(name)

    def _unspent(self, name: str) -> int:
        return max(0, self.room[name] - self.sheet.paid.get(name, 0))


_Fill = Callable[[_Work, SectionBudget], None]


def _lay_out(work: _Work, sections: list[SectionBudget], mark: Mark) -> None:
    """The steps of a block: A to F in their own rooms, then the tail, which takes what is left.

    Evidence, which can always use more, is filled last, but in a steady block for a session's own
    prompt: there it stands before what follows, and moves nothing (R4). Sections of a lower
    priority spend no more than their own room before it, and after it what it left.
    """
    named = {section.name: section for section in sections}
    if work.ground.orients:
        work.run(_oriented(sections, steady=work.steady))
        return
    early = work.steady and work.ground.own_query
    work.run([_Step(named[name], fill, "own") for name, fill in _HEAD_FILLS if name in named])
    mark("head")
    # The window first: evidence leaves out what the window shows.
    middle = (("recent_window", _fill_window), *((("retrieved_evidence", _fill_evidence),) * early))
    work.run([_Step(named[name], fill, "own") for name, fill in middle if name in named])
    mark("middle")
    steps, after = _tail(named, work.ground, early=early)
    work.run(steps)
    if not work.sheet.short_of("retrieved_evidence"):
        work.run(after)


def _tail(
    named: dict[str, SectionBudget], ground: Ground, *, early: bool
) -> tuple[list[_Step], list[_Step]]:
    """What is left over goes by priority, in the file's order where that is equal.

    The second steps are for what evidence leaves, where none of it is left out for its budget.
    """
    evidence, budgets = named.get("retrieved_evidence"), ground.materials.policies.budgets
    steps: list[_Step] = []
    after: list[_Step] = []
    if "knowledge_cards" in named:
        steps.append(_Step(named["knowledge_cards"], _fill_more_cards, "own"))
    if ground.intent == "orient" and "recent_window" in named:
        # The window keeps its room; the sessions before take what no other section will.
        steps.append(_Step(named["recent_window"], _fill_sessions, "rest"))
    for section in sorted(named.values(), key=lambda one: -one.priority):
        fill: _Fill = _fill
        more: _Fill = _fill_more
        if section.name == DECISIONS and DECISIONS in budgets.by_priority:
            # Those before it took the most of the block, whether they have anything to show or not.
            fill = more = _fill_more_decisions
        elif section is evidence or not _ends(section):
            continue
        if evidence is None or section.priority >= evidence.priority:
            steps.append(_Step(section, fill, "rest"))
        elif section.name == "expansions":
            steps.append(_Step(section, _fill, "rest" if early else "half"))
        else:
            steps.append(_Step(section, fill, "own"))
            after.append(_Step(section, more, "rest"))
    if evidence is not None and not early:
        steps.append(_Step(evidence, _fill_evidence, "rest"))
    return steps, after


def _oriented(sections: list[SectionBudget], *, steady: bool) -> list[_Step]:
    """For who has just come: what comes first in the block also takes first what is left over.

    The views and the map, which stay put, have their own rooms and no more. Sections of the
    policy's own stand before expansions and evidence.
    """
    order = dict.fromkeys((*_ORIENT_FILLS, *(one.name for one in sections)))
    for name in _ORIENT_LAST:
        order.pop(name, None)
    names = [*order, *_ORIENT_LAST]
    return [
        _Step(
            section,
            _ORIENT_FILLS.get(section.name, _fill),
            "own" if steady and section.name in _STEADY_IN_ORIENT else "rest",
        )
        for section in sorted(sections, key=lambda one: names.index(one.name))
    ]


def _small_rooms(
    work: _Work, sections: list[SectionBudget], budgets: Budgets, spread: int, *, lone: bool
) -> Rooms:
    """The rooms of a block that is too small for a ladder.

    What has no entry gives its room back to the others, but none gets more of it than it has in
    the smallest steady block, so that nothing goes as the budget grows. The recent window and
    evidence divide the rest. What may spend before evidence as little as its share keeps to it.
    """
    every = [section.name for section in sections]
    orients = work.ground.orients
    steady = rooms(budgets, every, STEADY_FROM, lone=lone, orient=orients)
    holds = [s.name for s in sections if _holds(work, s)]
    given = rooms(budgets, holds, spread, lone=lone, orient=orients)
    own = rooms(budgets, every, spread, lone=lone, orient=orients)
    room = dict.fromkeys(every, 0)
    rest = spread
    for name in holds:
        if name not in _REST:
            thin = name in _THIN
            room[name] = own.room[name] if thin else min(given.room[name], steady.room[name])
            rest -= room[name]
    divided = [section for section in sections if section.name in holds and section.name in _REST]
    weights = [max(1, given.share_ppm[section.name]) for section in divided]
    for section, weight in zip(divided, weights, strict=True):
        room[section.name] = min(section.max_tokens, rest * weight // sum(weights))
    return Rooms(room, own.cap, own.share_ppm)


def _holds(work: _Work, section: SectionBudget) -> bool:
    """Whether the section has an entry at all: tried by itself, with room enough for one."""
    ground = work.ground
    if section.name == "recent_window":
        return True
    if section.name == "retrieved_evidence":
        return bool(ground.query)
    if section.name == "expansions":
        return bool(ground.materials.expansions)
    alone = Sheet({section.name: STEADY_FROM}, work.sheet.printer, tuple(work.sheet.laid.values()))
    alone.stale, alone.fading = work.sheet.stale, work.sheet.fading
    trial = _Work(alone, ground, {section.name: STEADY_FROM}, STEADY_FROM, steady=False)
    fills = dict(_HEAD_FILLS)
    trial.run([_Step(section, fills.get(section.name, _fill), "own")])
    return bool(alone.spent)


def _fill_views(work: _Work, section: SectionBudget) -> None:
    place_views(work.sheet, work.ground.materials, frozenset((section.name,)))


def _fill_map(work: _Work, _: SectionBudget) -> None:
    ground = work.ground
    place_map(work.sheet, ground.materials, ground.scope, ground.epoch)


def _fill_cards(work: _Work, _: SectionBudget) -> None:
    ground = work.ground
    place_cards(work.sheet, ground.materials, ground.scope, ground.epoch)


def _fill_more_cards(work: _Work, _: SectionBudget) -> None:
    ground = work.ground
    place_more_cards(work.sheet, ground.materials, ground.scope, ground.query)


def _fill_decisions(work: _Work, _: SectionBudget) -> None:
    ground = work.ground
    place_decisions(work.sheet, ground.materials, ground.scope, ground.epoch)


def _fill_more_decisions(work: _Work, _: SectionBudget) -> None:
    ground = work.ground
    place_decisions(work.sheet, ground.materials, ground.scope, ground.epoch, part="decided")


def _fill_window(work: _Work, _: SectionBudget) -> None:
    work.window = _window(work.sheet, work.ground, steady=work.steady)


def _fill_sessions(work: _Work, _: SectionBudget) -> None:
    place_sessions(work.sheet, packed_last_sessions(work.ground), work.ground.scope)


def _fill_evidence(work: _Work, section: SectionBudget) -> None:
    if work.ground.own_query:
        _evidence(work.sheet, work.ground)
    else:
        _fill(work, section)


def _fill_cards_now(work: _Work, _: SectionBudget) -> None:
    materials, scope = work.ground.materials, work.ground.scope
    place_cards(work.sheet, materials, scope, work.ground.request.as_of)
    place_more_cards(work.sheet, materials, scope, "")


def _fill_decisions_now(work: _Work, _: SectionBudget) -> None:
    ground = work.ground
    place_decisions(work.sheet, ground.materials, ground.scope, ground.request.as_of)


def _fill_last_sessions(work: _Work, section: SectionBudget) -> None:
    sheet, name = work.sheet, section.name
    _fill_sessions(work, section)
    # What the sessions came to is worth what others leave over; single turns are not.
    own = work.room[name] - sheet.paid.get(name, 0)
    sheet.left[name] = max(0, min(sheet.left[name], own))
    _fill_window(work, section)


def _ends(section: SectionBudget) -> bool:
    """Whether the section stands in the tail."""
    return section.name in TAIL or is_own_section(section)


def _window(sheet: Sheet, ground: Ground, *, steady: bool) -> Window:
    """C, D and F."""
    room = room_of(sheet, ground, steady=steady)
    window = lay_window(
        sheet,
        ground.materials,
        ground.ring,
        ground.prompt,
        ground.scope,
        stated=room,
        steady=steady,
        asked=ground.retriever is not None,
    )
    place_newer(sheet, ground, window, room)
    place_window(sheet, window)
    return window


def _evidence(sheet: Sheet, ground: Ground) -> None:
    """E, where the query is the session's own prompt."""
    if ground.own_query and ground.prompt is not None and "retrieved_evidence" in sheet.left:
        before = ground.prompt.seq - 1
        never = frozenset((ground.prompt.seq, query_event(ground)))
        pool = pool_before(ground.materials, before)
        asked = EvidenceQuery(ground.query, before, never, pool, ground.prompt.ts)
        _place_found(sheet, ground, EVIDENCE, asked)


def _place_found(sheet: Sheet, ground: Ground, part: BlockPart, asked: EvidenceQuery) -> None:
    """Evidence from the whole log, or for a fast request from what is recent."""
    if ground.retriever is not None:
        place_retrieved(sheet, ground.materials, ground.scope, part, asked, ground.retriever)
    else:
        place_evidence(sheet, ground.materials, ground.scope, part, asked)


def _fill(work: _Work, section: SectionBudget) -> None:
    sheet, ground = work.sheet, work.ground
    materials, scope = ground.materials, ground.scope
    place_views(sheet, materials, frozenset((section.name,)))
    match section.name:
        case "task_state":
            place_tasks(sheet, materials, ground.request, scope)
            place_others(sheet, ground, work.window)
        case "expansions":
            place_expansions(sheet, materials, scope)
        case "retrieved_evidence":
            if ground.query:
                never = frozenset((query_event(ground),))
                asked = EvidenceQuery(
                    ground.query, ground.request.as_of, never, ground.pool, scope.now
                )
                _place_found(sheet, ground, FOUND, asked)
        case _:
            _fill_more(work, section)


def _fill_more(work: _Work, section: SectionBudget) -> None:
    """What can go on where it ended: with more room it adds to what stands there."""
    sheet, ground = work.sheet, work.ground
    if section.name == "tool_state":
        place_files(sheet, ground.materials, ground.request, ground.scope, ground.query)
        place_tools(sheet, ground.materials, ground.scope)
    else:
        place_own(sheet, ground.materials, ground.scope, section)


_HEAD_FILLS: Final[tuple[tuple[str, _Fill], ...]] = (
    ("identity", _fill_views),
    ("rules", _fill_views),
    ("system_map", _fill_map),
    ("knowledge_cards", _fill_cards),
    (DECISIONS, _fill_decisions),
)
# In the order of the block, which is that of taking what is left over.
_ORIENT_FILLS: Final[dict[str, _Fill]] = {
    "identity": _fill_views,
    "rules": _fill_views,
    "system_map": _fill_map,
    "task_state": _fill,
    DECISIONS: _fill_decisions_now,
    "knowledge_cards": _fill_cards_now,
    "recent_window": _fill_last_sessions,
    "tool_state": _fill,
    "retrieved_evidence": _fill_evidence,
}


# When a memory is said to be stale: at the request's clock, or as of a session's own moments.
#
# A word that came with the clock would break the prefix that the next pack of a session repeats
# (R9). So before the tail it is said as of the session's epoch, which moves with a listed cause
# alone (start, checkpoint), and in the evidence of a prompt as of that prompt. In the tail, and
# everywhere in a block that belongs to no session, it is said at the request's clock.


def staleness(ground: Ground) -> Callable[[Item, str], bool]:
    """Whether an event is stale, as the entries of an area may say it; asked once of each."""
    request, materials, prompt = ground.request, ground.materials, ground.prompt
    scoring, touched, moment = materials.policies.scoring, materials.touched, materials.moment
    half_lives = scoring.half_lives
    times: dict[int, str] = {}
    known: dict[tuple[int, int | None], bool] = {}

    def seq_of(area: str) -> int | None:
        """As of which event the area speaks; None: at the request's clock."""
        if request.session is None or area == "G":
            return None
        return prompt.seq if area == "E" and prompt is not None else ground.epoch

    def at(seq: int) -> str:
        if seq not in times:
            times[seq] = moment(seq) if moment is not None else ""
        return times[seq]

    def by(item: Item, now: str, last: str | None, *, pinned: bool) -> bool:
        return is_stale(
            item,
            last,
            pinned=pinned,
            now=now,
            half_lives=half_lives,
            after_days=scoring.stale_after_days,
        )

    def stale(item: Item, area: str) -> bool:
        if not fades(item, half_lives, pinned=False):
            return False
        seq = seq_of(area)
        found = known.get((item.seq, seq))
        if found is None:
            now, upto = (request.now, request.as_of) if seq is None else (at(seq), seq)
            found = by(item, now, None, pinned=False)
            if found and touched is not None:
                last, pinned = touched(item, upto)
                found = by(item, now, last, pinned=pinned)
            known[item.seq, seq] = found
        return found

    return stale
