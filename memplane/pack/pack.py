"""Lay out a block by a table of sections, then render it and report on it.

`TABLE` and `ORIENT_TABLE` name for each section the functions that place its entries, which tokens
it may take, and when its turn comes. `_Layout.run` is the one loop that walks them, whatever the
budget and the intent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from memplane.errors import InputError
from memplane.lazy import NamedTuple, late, late_calls, late_functions
from memplane.pack.block import Block, Omission
from memplane.pack.evidence import (
    SECTIONS as REMINDER_SECTIONS,
    Reminder,
    leave_told,
    place_evidence,
    place_one,
    place_passages,
    place_statements,
    pool_now,
    remind,
    said_then,
)
from memplane.pack.layout import (
    DECISIONS,
    FRAMED_FROM,
    ORIENT_PARTS,
    PARTS,
    STEADY_FROM,
    Rendered,
    Rooms,
    Sheet,
    budget_of,
    frame_reserve,
    ladder,
    render_block,
    rooms,
)
from memplane.pack.report import LayoutFacts, not_placed, pack_report, stable_prefix, unknown_names
from memplane.pack.request import (
    Materials,
    Needs,
    PackContext,
    PackQuery,
    Request,
    View,
    intent_of,
    prepare_pack,
)
from memplane.policy import Budgets, SectionBudget
from memplane.projections.item import Printer

if TYPE_CHECKING:
    from memplane.pack import block as pack_block, head as pack_head, tail as pack_tail
    from memplane.projections.item import Item
    from memplane.recall.score import fades, fading, is_stale
    from memplane.recall.time_words import AskedTime
else:
    pack_block = late("memplane.pack.block")
    # A hook's answer has but passages.
    pack_head = late_functions("memplane.pack.head")
    pack_tail = late_functions("memplane.pack.tail")
    fades, fading, is_stale = late_calls("memplane.recall.score", "fades", "fading", "is_stale")

Mark = Callable[[str], None]
Place = Callable[[Sheet, PackContext, SectionBudget], None]
Search = Callable[[Sheet, PackContext, SectionBudget, PackQuery], None]
Takes = Literal["own", "rest", "half"]


class Row(NamedTuple):
    """One turn of a section: who places its entries, which tokens they may take, and when.

    `places` run in order, then `search`, which gets the query. `takes`: `own`, the room of the
    section; `rest`, what is left over and not needed by the sections behind it; `steady`, its own
    room in a steady block, else the rest; `priority`, see `_by_priority`. Rows of one stage that
    take by priority run in that order, and in the policy file's where it is equal. `again` runs
    with what evidence leaves over, for a section that had to keep to its own room before it.
    """

    section: str
    stage: Literal["head", "middle", "tail"]
    takes: Literal["own", "rest", "steady", "priority"]
    places: tuple[Place, ...] = ()
    search: Search | None = None
    again: tuple[Place, ...] = ()
    when: Callable[[PackContext], bool] | None = None


_OWN: Final = ""  # in the place of a name: each section that the policy added
_EVIDENCE: Final = "retrieved_evidence"


def _is_early(context: PackContext) -> bool:
    return context.early


def _is_late(context: PackContext) -> bool:
    return not context.early


def _asks_where(context: PackContext) -> bool:
    """Whether a session's prompt asks where the work stands: its block shows the last sessions."""
    return context.intent == "orient"


def _divides_by_priority(context: PackContext) -> bool:
    """Whether the policy divides by priority and names decisions: those before took their share."""
    return DECISIONS in context.materials.policies.budgets.by_priority


def _place_decisions_now(sheet: Sheet, context: PackContext, section: SectionBudget) -> None:
    pack_head.place_decisions(sheet, context._replace(epoch=context.as_of), section)


def _place_cards_now(sheet: Sheet, context: PackContext, section: SectionBudget) -> None:
    pack_head.place_cards(sheet, context._replace(epoch=context.as_of), section)
    pack_tail.place_more_cards(sheet, context, section, None)


def _place_at_tool(sheet: Sheet, context: PackContext, section: SectionBudget) -> None:
    """One line at a call of a tool: the trap that it names, else a passage."""
    pack_tail.place_traps(sheet, context, section, None)
    if not sheet.spent:
        place_one(sheet, context, section)


def _place_decisions_at_start(sheet: Sheet, context: PackContext, section: SectionBudget) -> None:
    kept = leave_told(sheet, context, context.materials.decisions, DECISIONS)
    materials = context.materials._replace(decisions=kept)
    _place_decisions_now(sheet, context._replace(materials=materials), section)


# Evidence, which can always use more, is filled last, but for a session's own prompt: there it is
# printed before what followed the prompt, so it must not depend on the tail (R4). The window is
# filled before it: evidence leaves out what the window shows.
TABLE: Final = (
    Row("identity", "head", "own", (pack_head.place_views,)),
    Row("rules", "head", "own", (pack_head.place_views,)),
    Row("system_map", "head", "own", (pack_head.place_map,)),
    Row("knowledge_cards", "head", "own", (pack_head.place_cards,)),
    Row(DECISIONS, "head", "own", (pack_head.place_decisions,)),
    Row("recent_window", "middle", "own", (pack_head.place_window,)),
    Row(_EVIDENCE, "middle", "own", search=place_evidence, when=_is_early),
    Row("knowledge_cards", "tail", "own", search=pack_tail.place_more_cards),
    Row("recent_window", "tail", "rest", (pack_tail.place_sessions,), when=_asks_where),
    Row(
        "task_state",
        "tail",
        "priority",
        (pack_head.place_views, pack_tail.place_tasks, pack_head.place_stated),
    ),
    Row(
        "tool_state",
        "tail",
        "priority",
        (pack_head.place_views, pack_tail.place_files, pack_tail.place_tools),
        again=(pack_tail.place_files, pack_tail.place_tools),
    ),
    Row("expansions", "tail", "priority", (pack_head.place_views, pack_tail.place_expansions)),
    Row(
        _OWN,
        "tail",
        "priority",
        (pack_head.place_views, pack_tail.place_own),
        again=(pack_tail.place_own,),
    ),
    Row(
        DECISIONS,
        "tail",
        "priority",
        (pack_head.place_more_decisions,),
        again=(pack_head.place_more_decisions,),
        when=_divides_by_priority,
    ),
    # What a prompt names; behind its own evidence, which stays until the next prompt.
    Row(_EVIDENCE, "tail", "rest", search=pack_tail.place_traps),
    Row(_EVIDENCE, "tail", "rest", search=place_evidence, when=_is_late),
)

# For a reader that has just come: what comes first in the block also takes first what is left over.
# The views and the map, which stay put, have their own rooms and no more.
ORIENT_TABLE: Final = (
    Row("identity", "tail", "steady", (pack_head.place_views,)),
    Row("rules", "tail", "steady", (pack_head.place_views,)),
    Row("system_map", "tail", "steady", (pack_head.place_map,)),
    Row(
        "task_state",
        "tail",
        "rest",
        (pack_head.place_views, pack_tail.place_tasks, pack_head.place_stated),
    ),
    Row(DECISIONS, "tail", "rest", (_place_decisions_now, pack_tail.place_wishes)),
    Row("knowledge_cards", "tail", "rest", (_place_cards_now,)),
    Row("recent_window", "tail", "rest", (pack_tail.place_sessions,)),
    # What the sessions came to is worth what others leave over; single turns are not.
    Row("recent_window", "tail", "own", (pack_head.place_window,)),
    # What a tool said last is of the work of others there.
    Row("tool_state", "tail", "rest", (pack_head.place_views, pack_tail.place_files)),
    Row(_OWN, "tail", "rest", (pack_head.place_views, pack_tail.place_own)),
    Row("expansions", "tail", "rest", (pack_head.place_views, pack_tail.place_expansions)),
    Row(_EVIDENCE, "tail", "rest", search=place_evidence),
)
# Reminders: an answer to a prompt holds passages alone, one at a tool a single one. At a start
# tasks, wishes and decisions take a fifth at most: the rest is for what users said.
_BESIDE: Final = 5
REMINDER_TABLES: Final = {
    "prompt": (Row(_EVIDENCE, "tail", "rest", (place_passages,)),),
    "tool": (Row(_EVIDENCE, "tail", "rest", (_place_at_tool,)),),
    "start": (
        Row("task_state", "tail", "own", (pack_tail.place_tasks,)),
        Row(DECISIONS, "tail", "own", (pack_tail.place_wishes, _place_decisions_at_start)),
        Row(_EVIDENCE, "tail", "rest", (place_statements,)),
    ),
}
# What was done at a time that was asked for: what its sessions came to, what was decided in them,
# and what people and agents said there.
TIME_TABLE: Final = (
    Row("identity", "tail", "steady", (pack_head.place_views,)),
    Row("rules", "tail", "steady", (pack_head.place_views,)),
    Row("recent_window", "tail", "rest", (pack_tail.place_sessions,)),
    Row(DECISIONS, "tail", "own", (_place_decisions_now,)),
    Row(_OWN, "tail", "own", (pack_head.place_views, pack_tail.place_own)),
    Row(_EVIDENCE, "tail", "rest", (place_statements,)),
)
_TIME_SECTIONS: Final = frozenset(row.section for row in TIME_TABLE)
_FIRST_ROWS: Final = {row.section: row for row in reversed(TABLE)}
_VIEWS_IN: Final = frozenset(  # the sections whose rows place views
    ("identity", "rules", "task_state", "tool_state", "expansions", _EVIDENCE)
)
# In a small block these share what the others leave; and these spend their share and no more
# while evidence is still to come.
_REST: Final = frozenset(("recent_window", _EVIDENCE))
_THIN: Final = frozenset(("tool_state", "expansions"))
_NO_QUERY: Final = PackQuery("", own=False, event=0, rule="")


class Laid(NamedTuple):
    """The layout of a block: the request, the candidates, what was left out, and the text."""

    request: Request
    facts: LayoutFacts
    context: PackContext
    query: PackQuery
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

    A function of its arguments: the same ones give the same bytes. `mark` is called with the name
    of a stage when it ends, so that a caller with a clock can time them; `watch` is called with the
    layout, for callers that explain it. Raises BudgetError for a budget of 0 or less, InputError
    for a section or intent that does not exist.
    """
    laid = lay(request, materials, printer, mark=mark)
    facts, rendered = laid.facts, laid.rendered
    retriever, answer = laid.query.retriever, facts.reminder.answer
    if answer is not None:
        request = request._replace(index_seq=answer.index_seq)
        prompt = materials.source.line(laid.query.event) if laid.query.event else None
        if prompt is not None:  # the report names it, and does not repeat it
            request = request._replace(query="", query_event=prompt.event.id)
    request = request._replace(engine=None)  # nothing was searched, or memplane's index was
    if retriever is not None:  # with these the search can be asked again
        request = request._replace(
            dense_seq=retriever.dense_seq, index_seq=retriever.index_seq, engine=retriever.engine
        )
    omissions, report = pack_report(facts, rendered, request)
    if missing := unknown_names(laid.context, printer):
        report["unknown"] = missing
    if answer is not None:
        report["gate"] = facts.reminder.as_json()
    report["prefix"] = stable_prefix(facts, rendered)
    mark("report")
    if watch is not None:
        watch(laid)
    return Block(rendered.text, rendered.tokens, rendered.entries, omissions, report)


def lay(
    request: Request, materials: Materials, printer: Printer, *, mark: Mark = _unmarked
) -> Laid:
    """Lay out and render the block of a request: `pack` without the report."""
    budgets = materials.policies.budgets
    budget = budget_of(request.budget, budgets)
    intent_of(request.intent, "", materials.policies.scoring)  # a mistake comes before any work
    sections = _sections(request.sections, bool(request.expand), budgets)
    if request.remind:
        sections = [one for one in sections if one.name in REMINDER_SECTIONS[request.remind]]
    needs = Needs(budgets.limits.file_reads_max, budgets.limits.bytes_read_max)
    materials = materials._replace(views=_bounded(materials.views, needs))
    pool = pool_now(materials, request.session)
    for item in (*pool, *materials.decisions, *materials.cards):
        if not item.final:
            item.finish(printer.counter)
    context, query = prepare_pack(request, materials, pool, printer.counter)
    context = context._replace(stated=pack_head.stated_since(context))
    mark("suppress")
    if context.asked is not None and context.orients:
        sections = [
            one for one in sections if one.name in _TIME_SECTIONS or pack_tail.is_own_section(one)
        ]
    names = frozenset(section.name for section in sections)
    reminder = remind(request, materials, query, context.scope) if request.remind else Reminder()
    if context.asked is not None:
        context, reminder = _asked_for_a_time(context, context.asked)
    if _EVIDENCE in names and not request.remind:
        if context.intent == "deep" and query.text:
            query = query._replace(retriever=materials.source.search())
        mark("index")
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    steady = budget >= STEADY_FROM
    context = context._replace(
        steady=steady,
        early=steady and query.own,
        step=ladder(budget, most) if steady else budget,
        searches=query.retriever is not None,
        files=pack_tail.listed_files(context, query.text) if "tool_state" in names else (),
        remind=request.remind,
        passages=reminder.passages,
        traps=reminder.traps[:1],
        held_marks=frozenset(request.held_marks),
    )
    lone, asks = bool(request.query) and request.session is None, bool(query.text)
    layout, given = _rooms_of(context, sections, printer, needs, budget, lone=lone, asks=asks)
    mark("allocate")
    layout.walk(sections, query, mark)
    sheet = layout.sheet
    _omit_unasked(sheet, request.expand, materials, sections)
    mark("tail")
    framed = budget >= FRAMED_FROM
    rendered = render_block(sheet.entries(), printer.counter, sheet.frame, framed=framed)
    assert rendered.tokens <= budget, "a block never passes its budget"
    mark("render")
    hidden, left_over = not_placed(context, sheet)
    facts = LayoutFacts(
        budget, given, sheet, context, query.rule, hidden, left_over, query.retriever, reminder
    )
    return Laid(request, facts, context, query, rendered)


def _omit_unasked(
    sheet: Sheet, expand: Sequence[str], materials: Materials, sections: Sequence[SectionBudget]
) -> None:
    """Say what has no section in this block: handles, and views."""
    if all(section.name != "expansions" for section in sections):
        sheet.views_omitted += [
            Omission(str(pack_block.parse_handle(handle)), 0, "expansions", 0, "section", 0, 0)
            for handle in expand
        ]
    pack_head.omit_unshown_views(
        sheet, materials, frozenset(s.name for s in sections if _shows_views(s))
    )


def _asked_for_a_time(context: PackContext, asked: AskedTime) -> tuple[PackContext, Reminder]:
    """The sessions of the time that the query asks for, and what was said in them."""
    span = context.scope.within(asked.since, asked.until)
    then = tuple(context.materials.source.sessions_then(asked, span))
    return context._replace(then=then), Reminder(tuple(said_then(then)))


def _bounded(views: Sequence[View], needs: Needs) -> tuple[View, ...]:
    """The views that the limits allow: the first thing that a request needs, and the last to go."""
    return tuple(
        view
        if view.lost or needs.take_text(view.text, own_file=True)
        else View(view.path, "", "", "limit")
        for view in views
    )


def _sections(wanted: tuple[str, ...], expands: bool, budgets: Budgets) -> list[SectionBudget]:
    """Sections that can hold something in this request; a share goes to no other.

    `wanted` are those that the request names, () for all. Raises InputError for one that the policy
    does not have.
    """
    names = {section.name for section in budgets.sections}
    for name in wanted:
        if name not in names:
            known = ", ".join(section.name for section in budgets.sections)
            raise InputError(f"unknown section {name!r}; the policy has {known}", where="sections")
    return [
        section
        for section in budgets.sections
        if (not wanted or section.name in wanted)
        and (
            expands
            if section.name == "expansions"
            else section.name in _FIRST_ROWS or pack_tail.is_own_section(section)
        )
    ]


def _shows_views(section: SectionBudget) -> bool:
    return section.name in _VIEWS_IN or pack_tail.is_own_section(section)


def _rooms_of(
    context: PackContext,
    sections: list[SectionBudget],
    printer: Printer,
    needs: Needs,
    budget: int,
    *,
    lone: bool,
    asks: bool,
) -> tuple[_Layout, Rooms]:
    """The empty sheet of a block of `budget` tokens, and the rooms of its sections."""
    budgets = context.materials.policies.budgets
    reserve = frame_reserve(printer.counter)
    spread, total = context.step - reserve, budget - reserve
    if budget < FRAMED_FROM:  # else a block without marks could hold more than one of a few more
        spread = total = min(budget, FRAMED_FROM - reserve)
    names = frozenset(section.name for section in sections)
    given = rooms(budgets, names, spread, lone=lone, orient=context.orients)
    parts = ORIENT_PARTS if context.orients else PARTS
    sheet = Sheet(given.room, printer, parts, given.cap, needs)
    half_lives = context.materials.policies.scoring.half_lives
    sheet.stale, sheet.fading = staleness(context), fading(half_lives)
    sheet.notes = pack_head.contradictions(context)
    layout = _Layout(sheet, context, given.room, total)
    if not context.steady:
        given = _small_rooms(layout, sections, spread, lone=lone, asks=asks)
        layout.room, sheet.left = given.room, dict(given.room)
    return layout, given


class _Step(NamedTuple):
    """A turn as it is taken: `half` takes half of the rest and of evidence's room together."""

    section: SectionBudget
    takes: Takes
    places: tuple[Place, ...]
    search: Search | None = None


Turn = tuple[_Step, _Step | None]  # with the step that goes on behind evidence, where it may


def _turns(
    table: Sequence[Row], stage: str, sections: list[SectionBudget], context: PackContext
) -> Iterator[Turn]:
    """The turns of a stage for these sections, in order."""
    rows = [
        (row, section)
        for row in table
        if row.stage == stage and (row.when is None or row.when(context))
        for section in sections
        if (
            pack_tail.is_own_section(section)
            if row.section == _OWN
            else section.name == row.section
        )
    ]
    for ordered, group in groupby(rows, key=lambda one: one[0].takes == "priority"):
        if ordered:
            lone = context.session is None and context.searches
            yield from _by_priority(list(group), sections, early=context.early, lone=lone)
            continue
        for row, section in group:
            own = row.takes == "own" or (row.takes == "steady" and context.steady)
            yield _Step(section, "own" if own else "rest", row.places, row.search), None


def _by_priority(
    rows: list[tuple[Row, SectionBudget]], sections: list[SectionBudget], *, early: bool, lone: bool
) -> Iterator[Turn]:
    """The turns of a group by falling priority, in the file's order where it is equal.

    A section of no lower priority than evidence takes the rest, but where a query is asked `lone`,
    outside any session: there evidence is the answer. Any other spends no more than its own room
    before evidence, and after it what that left; expansions, which were asked for, may take half of
    evidence's room, or the rest where evidence was filled `early`.
    """
    evidence = next((one for one in sections if one.name == _EVIDENCE), None)
    rows.sort(key=lambda one: (-one[1].priority, sections.index(one[1])))
    for row, section in rows:
        takes: Takes = "own"
        if evidence is None or (section.priority >= evidence.priority and not lone):
            takes = "rest"
        elif section.name == "expansions":
            takes = "rest" if early else "half"
        again = _Step(section, "rest", row.again) if takes == "own" else None
        yield _Step(section, takes, row.places, row.search), again


class _Layout:
    """A block while it is laid out: the one loop for every budget and intent.

    `room` has the tokens of each section, `total` those of the block without its begin and end.
    """

    def __init__(
        self, sheet: Sheet, context: PackContext, room: dict[str, int], total: int
    ) -> None:
        self.sheet, self.context, self.room, self.total = sheet, context, room, total

    def walk(self, sections: list[SectionBudget], query: PackQuery, mark: Mark) -> None:
        """Take the turns of the table for these sections, stage by stage.

        If no evidence was left out for want of room, sections of a lower priority get what it left
        over.
        """
        if self.context.orients:
            asked = self.context.asked is not None
            orient = TIME_TABLE if asked else ORIENT_TABLE
            table = REMINDER_TABLES.get(self.context.remind, orient)
            turns = _turns(table, "tail", sections, self.context)
            self.run([step for step, _ in turns], query)
            return
        for stage in ("head", "middle"):
            self.run([step for step, _ in _turns(TABLE, stage, sections, self.context)], query)
            mark(stage)
        tail = list(_turns(TABLE, "tail", sections, self.context))
        self.run([step for step, _ in tail], query)
        if not self.sheet.short_of(_EVIDENCE):
            self.run([again for _, again in tail if again is not None], query)

    def run(self, steps: Sequence[_Step], query: PackQuery) -> None:
        """Take the steps in order. Later steps keep their room; no section passes its cap."""
        sheet, context, room = self.sheet, self.context, self.room
        for at, (section, takes, places, search) in enumerate(steps):
            name = section.name
            most = section.max_tokens - sheet.taken(name)
            left = self._unspent(name)
            if context.remind:  # what stands beside passages
                left = min(left, self.total // _BESIDE - sum(sheet.paid.values()))
            if takes != "own":
                waiting = dict.fromkeys(step.section.name for step in steps[at + 1 :])
                waiting.pop(name, None)
                left = self.total - sheet.spent - sum(map(self._unspent, waiting))
                if takes == "half":
                    left = (left + room[_EVIDENCE]) // 2
            sheet.left[name] = max(0, min(most, left))
            for place in places:
                place(sheet, context, section)
            if search is not None:
                search(sheet, context, section, query)
            # Every decision is tried: with more room only one that was refused would be added.
            if left < most and takes != "own":
                sheet.short |= name != DECISIONS or sheet.short_of(name)

    def _unspent(self, name: str) -> int:
        return max(0, self.room[name] - self.sheet.paid.get(name, 0))


def _small_rooms(
    layout: _Layout, sections: list[SectionBudget], spread: int, *, lone: bool, asks: bool
) -> Rooms:
    """The rooms of a block that is too small for a ladder.

    What has no entry gives its room back to the others, but none gets more of it than it has in
    the smallest steady block, so that nothing goes as the budget grows. The recent window and
    evidence divide the rest. What may spend before evidence as little as its share keeps to it.
    """
    every = [section.name for section in sections]
    budgets, orients = layout.context.materials.policies.budgets, layout.context.orients
    steady = rooms(budgets, every, STEADY_FROM, lone=lone, orient=orients)
    holds = [section.name for section in sections if _holds(layout, section, asks=asks)]
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


def _holds(layout: _Layout, section: SectionBudget, *, asks: bool) -> bool:
    """Whether the section has an entry at all: tried by itself, with room enough for one."""
    name, sheet = section.name, layout.sheet
    if name == "recent_window":
        return True
    if name == _EVIDENCE:
        return asks or bool(layout.context.passages)
    if name == "expansions":
        return bool(layout.context.materials.expansions)
    alone = Sheet({name: STEADY_FROM}, sheet.printer, tuple(sheet.laid.values()))
    alone.stale, alone.fading, alone.notes = sheet.stale, sheet.fading, sheet.notes
    trial = _Layout(alone, layout.context, {name: STEADY_FROM}, STEADY_FROM)
    row = _FIRST_ROWS.get(name) or _FIRST_ROWS[_OWN]
    trial.run([_Step(section, "own", row.places)], _NO_QUERY)
    return bool(alone.spent)


# When a memory is marked as stale: at the request's clock, or as of a session's own moments.
#
# A word that came with the clock would break the prefix that the next pack of a session repeats
# (R9). So before the tail it holds as of the session's epoch, which moves with a listed cause
# alone (start, checkpoint), and in the evidence of a prompt as of that prompt. In the tail, and
# everywhere in a block that belongs to no session, it holds at the request's clock.


def staleness(context: PackContext) -> Callable[[Item, str], bool]:
    """A function of an event and an area: whether its entry there is marked as stale; memoized."""
    materials, prompt, scope = context.materials, context.prompt, context.scope
    scoring, source = materials.policies.scoring, materials.source
    half_lives = scoring.half_lives
    times: dict[int, str] = {}
    known: dict[tuple[int, int | None], bool] = {}

    def seq_of(area: str) -> int | None:
        """The seq as of which the area is written; None: at the request's clock."""
        if context.session is None or area == "G":
            return None
        return prompt.seq if area == "E" and prompt is not None else context.epoch

    def at(seq: int) -> str:
        if seq not in times:
            line = source.line(seq) if seq else None
            times[seq] = "" if line is None else line.event.rec
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
            now, upto = (scope.now, scope.as_of) if seq is None else (at(seq), seq)
            found = by(item, now, None, pinned=False)
            if found:
                last, pinned = source.touched(item, upto=upto)
                found = by(item, now, last, pinned=pinned)
            known[item.seq, seq] = found
        return found

    return stale
