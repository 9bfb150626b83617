"""What a pack could take an event from: every part of the layout that looks at it, or none.

Rather one source too many than one too few: what has none is in no block of any budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.event import UPKEEP_KINDS, Event
from memplane.pack.ground import last_sessions, query_event
from memplane.pack.request import Expansion, View
from memplane.pack.tail import is_own
from memplane.projections.hotset import NO_TURNS, SESSION_RING
from memplane.recall.retrieval import Candidates

if TYPE_CHECKING:
    from memplane.pack.pack import Laid

__all__ = [
    "ITSELF",
    "Source",
    "ledgers_of",
    "never_of",
    "no_source",
    "rings_of",
    "sources_of",
    "tasks_of",
]

ITSELF: Final = "it is the query itself, which would only find itself"
_NEVER: Final = frozenset((*UPKEEP_KINDS, "session", "secret"))


class Source(NamedTuple):
    """One place that holds the event for a pack: `hotset`, `decisions`, `cards`, `index`, ...

    `tail`: what it offers stands in the tail, whose room depends on the budget to the token.
    """

    name: str
    tail: bool


def sources_of(laid: Laid, event: Event) -> list[Source]:
    """Every source of a pack that holds the event, whatever room there is for it."""
    found = dict.fromkeys((*_recent(laid, event), *_ranked(laid, event), *_asked(laid, event)))
    return list(found)


def _recent(laid: Laid, event: Event) -> Iterator[Source]:
    """What does not depend on the query: the window, statements, tasks, tools, own sections."""
    ground, seq = laid.ground, event.seq
    materials, held = ground.materials, ledgers_of(laid, seq)
    if event.kind not in NO_TURNS and _in_window(laid, seq):
        yield Source("window", tail=False)
    for name in held:
        yield Source(name, tail=False)
    if any(one.item.seq == seq for one in ground.stated):
        yield Source("statements since the epoch", tail=True)
    if tasks_of(laid, seq):
        yield Source("tasks", tail=True)
    if any(seq in seqs for seqs in materials.hotset.tools.values()):
        yield Source("tools", tail=True)
    if held or seq in materials.hotset.items:
        for section in materials.policies.budgets.sections:
            if is_own(section) and event.kind in section.kinds:
                yield Source(f"section {section.name}", tail=True)


def _in_window(laid: Laid, seq: int) -> bool:
    """Whether the window could reach back to an event."""
    ground = laid.ground
    materials, ring = ground.materials, ground.ring
    if ring is not None:
        return seq in ring.prompts or any(turn.seq == seq for turn in ring.ring)
    return seq in materials.hotset.plane[-materials.policies.budgets.limits.hotset_max_events :]


def _ranked(laid: Laid, event: Event) -> Iterator[Source]:
    """Evidence: what answers the query well enough to be shown, if there is room."""
    ranked, marked = laid.facts.sheet.ranked, laid.facts.sheet.marked_turns.get(event.seq)
    if marked is not None:
        yield Source("marked turns", tail=marked.area == "G")
    if ranked is None:
        return
    tail, rows = ranked.part.area == "G", ranked.rows
    if not isinstance(rows, Candidates):
        # The floor moves with what the block shows already: here whatever matches may pass it.
        if any(hit.item.seq == event.seq for hit in rows):
            yield Source("hotset", tail)
    elif event.seq in rows.seqs and rows.seqs.index(event.seq) < rows.above(ranked.floor):
        yield Source("index", tail)


def _asked(laid: Laid, event: Event) -> Iterator[Source]:
    """What the request asked for by name: handles, and the last sessions."""
    ground, seq = laid.ground, event.seq
    for opened in ground.materials.expansions:
        if isinstance(opened, View):
            continue
        if isinstance(opened, Expansion):
            inside = opened.item.seq == seq
        else:
            inside = any(one.seq == seq for one in opened.basis()) or any(
                one.item.seq == seq for one in opened.members(0, False)
            )
        if inside:
            yield Source("expansion", tail=True)
    if ground.intent == "orient" and any(
        item.seq == seq for session in last_sessions(ground) for item in session.items
    ):
        yield Source("last sessions", tail=True)


def no_source(laid: Laid, event: Event) -> tuple[str, str]:  # noqa: PLR0911 - a reason, a return
    """Why no source holds the event: the reason in a word, and in a sentence."""
    ground = laid.ground
    limits = ground.materials.policies.budgets.limits
    ranked, request = laid.facts.sheet.ranked, ground.request
    if event.kind in _NEVER:
        return "never_shown", f"events of kind {event.kind} stand in no block"
    if not event.text:
        return "empty", "it has no text"
    if event.seq in never_of(laid):
        return "query", ITSELF
    if request.sections and "retrieved_evidence" not in request.sections:
        return "section", f"the request asked for {', '.join(request.sections)} alone"
    in_session = request.session is not None and event.session == request.session
    if in_session and (ground.retriever is None or not ground.query):
        return "older", f"of its session the last {SESSION_RING} turns are at hand, it came before"
    if not ground.query:
        return "older", "nothing was asked, and it is not among what is recent"
    if ground.retriever is None:
        few = f"the last {limits.hotset_max_events} events and what is in force"
        return "older", f"a fast pack looks at {few}, and it is not among them"
    if ranked is not None and len(ranked.rows) >= limits.candidate_pool_max:
        most = limits.candidate_pool_max
        return "limit", f"{most} events answer the query better, and no more are looked at"
    return "not_relevant", "the index finds no word of the query in it or beside it"


def never_of(laid: Laid) -> frozenset[int]:
    """The seqs of what was asked, which is no answer."""
    ground = laid.ground
    found = {query_event(ground)}
    if ground.own_query and ground.prompt is not None:
        found.add(ground.prompt.seq)
    return frozenset(found - {0})


def ledgers_of(laid: Laid, seq: int) -> list[str]:
    """The ledgers that hold an event in force."""
    materials = laid.ground.materials
    ledgers = {"decisions": materials.decisions, "cards": materials.cards}
    return [name for name, items in ledgers.items() if any(item.seq == seq for item in items)]


def rings_of(laid: Laid, seq: int) -> Iterator[str]:
    """The rings and tables of the hotset that hold an event."""
    hotset = laid.ground.materials.hotset
    if seq in hotset.plane:
        yield "plane"
    for name, ring in hotset.sessions.items():
        if any(turn.seq == seq for turn in ring.ring):
            yield f"session {name}"
        elif seq in ring.prompts:
            yield f"prompts of session {name}"
        elif seq in ring.stated:
            yield f"statements of session {name}"
    for name, seqs in hotset.tools.items():
        if seq in seqs:
            yield f"tool {name}"
    for name, table in hotset.files.items():
        if any(touch.seq == seq for touch in table.touches.values()):
            yield f"files of session {name}" if name else "files"


def tasks_of(laid: Laid, seq: int) -> list[str]:
    """The tasks that quote an event."""
    tasks = laid.ground.materials.tasks.newest()
    return [task.id for task in tasks if any(quote.seq == seq for quote in task.quotes())]
