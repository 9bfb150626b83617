"""`why`: what became of an event in a saved pack, told from the pack made again.

Reasons are the pack's own: it is laid out once more under what its report names, and asked. Whoever
may not see an event learns what he learns of one that does not exist: the counts of the report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from memplane.context.folds import items_of_event
from memplane.errors import InputError, NotFoundError
from memplane.event import UPKEEP_KINDS, Event
from memplane.explain.replay import asked_of, plane_of
from memplane.harness import remembered
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.pack.block import Block, Entry
from memplane.pack.evidence import score_parts
from memplane.pack.pack import Laid
from memplane.pack.request import Expansion, View
from memplane.pack.tail import is_own_section
from memplane.ports import ONE, Candidates
from memplane.projections.hotset import NO_TURNS, SESSION_RING
from memplane.projections.in_force import KEYLESS_KINDS, Archived
from memplane.recall.suppress import NAMED, OWNER

if TYPE_CHECKING:
    from memplane.plane import Plane
    from memplane.ports import Line
    from memplane.projections.memories import Memories
    from memplane.upkeep.reports import Saved

# The story of one event in one pack, as records: from the line of the log to its place or reason.
#
# JSON and words are made of the same fields. A story holds no text of the event.

# Sources of lines that name an event and say nothing of its text.
NAMING: Final = ("projection:plane_map", "projection:hotset", "projection:files")
_WIDTH: Final = 12
_PPM: Final = 10_000  # parts a million in a hundredth
WINDOW: Final = "older than the session's window"
# Stands where the number of an event would, for who may not see that event.
HIDDEN: Final = "an event that is not for you"


class Logged(NamedTuple):
    """The event's line: which segment of the log holds it, when it was recorded, what it is."""

    segment: int
    seq: int
    recorded: str
    kind: str
    ns: str
    session: str | None

    def words(self) -> str:
        where = f", session {self.session}" if self.session is not None else ""
        when = f"recorded {self.recorded[:19]}Z"
        return f"segment {self.segment}, seq {self.seq}, {when}: {self.kind} in {self.ns}{where}"


class Gone(NamedTuple):
    """Why an event is out of force, as of the pack, and by which event.

    Seq 0: by one that who asks may not see.
    """

    reason: str  # superseded, forgotten, evicted
    seq: int
    id: str

    def words(self) -> str:
        return f"{self.reason} by {_named(self.id, self.seq)}"


class Memory(NamedTuple):
    """The key that the event gave a value, and whether that was the key's value for the pack."""

    key: str
    current: bool


class HoldingProjections(NamedTuple):
    """Which projections held the event as of the pack.

    `hotset` names its rings and tables, `ledgers` is decisions and cards, `tasks` quote it.
    `gone` has every event that took it out of force.
    """

    hotset: tuple[str, ...]
    ledgers: tuple[str, ...]
    tasks: tuple[str, ...]
    memory: Memory | None
    gone: tuple[Gone, ...]
    pinned: int  # seq of the pin that holds it, 0 without one

    def words(self) -> str:
        said = [f"hotset ({', '.join(self.hotset)})"] if self.hotset else []
        said += [f"{name} ledger" for name in self.ledgers]
        said += [f"task {name}" for name in self.tasks]
        if self.memory is not None:
            value = "current value" if self.memory.current else "an earlier value"
            said.append(f"memories ({value} of {self.memory.key})")
        said += [one.words() for one in self.gone]
        if self.pinned:
            said.append(f"pinned by #{self.pinned}")
        return "; ".join(said) or "none: only the log has it"


class Sourced(NamedTuple):
    """Where the pack could have taken the event from; where nowhere, `why` says why."""

    names: tuple[str, ...]
    why: str

    def words(self) -> str:
        return ", ".join(self.names) or f"none: {self.why}"


class EventScore(NamedTuple):
    """How well the event answers the query, in thousandths; `rank` among the `of` that do.

    What scores less than `floor` is not shown as evidence.
    """

    score: int
    parts: dict[str, int]
    rank: int
    of: int
    floor: int

    def words(self) -> str:
        parts = ", ".join(f"{name} {points}" for name, points in self.parts.items() if points)
        below = "" if self.score >= self.floor else ", below it"
        return (
            f"{self.score} ({parts or 'nothing'}), rank {self.rank} of {self.of}; "
            f"shown from {self.floor} on{below}"
        )


class Allocated(NamedTuple):
    """What a section could spend and spent, and what the event costs there."""

    section: str
    share_ppm: int
    room: int
    cap: int
    used: int
    tokens: int

    def words(self) -> str:
        share = f"{self.share_ppm // _PPM} %"
        cost = f"; the event takes {self.tokens}" if self.tokens else ""
        return (
            f"{self.section}: room {self.room} ({share}, at most {self.cap}), "
            f"used {self.used}{cost}"
        )


class EntryPlacement(NamedTuple):
    """One entry of the block that has the event. `entry` counts from 1; 0: it is not told.

    `how`: `whole`, `part`, or `named` in a line that says nothing of its text.
    """

    entry: int
    section: str
    place: str
    area: str
    how: str
    tokens: int
    source: str

    def bare(self) -> EntryPlacement:
        """The place without what other entries decide or share with it."""
        return self._replace(entry=0, tokens=0, source="")

    def words(self) -> str:
        if not self.entry:
            return f"{self.section} ({self.place}, {self.area}), {self.how}"
        return (
            f"entry {self.entry}: {self.section} ({self.place}, {self.area}), {self.how}, "
            f"{self.tokens} tokens, from {self.source}"
        )


class LeftOut(NamedTuple):
    """A reason why the event, or the whole of it, is not in the block.

    `counted`: among the report's omissions; else no stage looked at the event. Of a budget `of`
    says whether it was the section's alone or the block's too, and `short_by` what was missing
    where the event was tried. `by_seq` is what took its place: what replaced or forgot it, says the
    same, or began the window behind it.
    """

    reason: str
    why: str
    section: str = ""
    tokens: int = 0
    short_by: int = 0
    of: str = ""
    by_seq: int = 0
    by_id: str = ""
    counted: bool = True

    def bare(self) -> LeftOut:
        """The reason without what other entries decide: how much room they left, and who began."""
        bare = self._replace(tokens=0, short_by=0, of="")
        if self.reason == "budget":
            return bare._replace(why="there was no more room")
        if self.reason == "older" and self.why.startswith(WINDOW):
            return bare._replace(why=WINDOW, by_seq=0, by_id="")
        return bare

    def words(self) -> str:
        by = f" {_named(self.by_id, self.by_seq)}" if self.by_seq else ""
        where = f" [{self.section}]" if self.section else ""
        return f"{self.reason}{where}: {self.why}{by}"


class EventTrace(NamedTuple):
    """One event in one pack, step by step. `outcome`: `placed`, `named` or `left_out`.

    `allocated` has every section that showed it or turned it away.
    """

    id: str
    outcome: str
    logged: Logged
    held: HoldingProjections
    sourced: Sourced
    scored: EventScore | str  # why it has no score, where it has none
    allocated: tuple[Allocated, ...]
    places: tuple[EntryPlacement, ...]
    left_out: tuple[LeftOut, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        unscored = isinstance(self.scored, str)
        return {
            "id": self.id,
            "outcome": self.outcome,
            "log": _plain(self.logged),
            "projection": _plain(self.held),
            "source": _plain(self.sourced),
            "score": None if unscored else _plain(self.scored),
            "unscored": self.scored if unscored else "",
            "allocation": _plain(self.allocated),
            "places": _plain(self.places),
            "left_out": _plain(self.left_out),
        }

    def lines(self) -> Iterator[str]:
        """The same for people, a line each step."""
        yield f"{self.id} (#{self.logged.seq}): {self.outcome.replace('_', ' ')}"
        yield _line("log", self.logged.words())
        yield _line("projection", self.held.words())
        yield _line("source", self.sourced.words())
        scored = self.scored
        yield _line("score", f"none: {scored}" if isinstance(scored, str) else scored.words())
        for allocated in self.allocated:
            yield _line("allocation", allocated.words())
        for placed in self.places:
            yield _line("place", placed.words())
        for reason in self.left_out:
            yield _line("left out", reason.words())


class Why(NamedTuple):
    """What `why` answers: the stories of what was asked about, in the pack of a report.

    `same`: the block that was made again to tell them is the saved one, byte for byte; else `note`
    says what is known of that. `entry` has the fields of the entry, where one was asked about.
    """

    report: str
    same: bool
    note: str
    entry: dict[str, Any] | None
    stories: tuple[EventTrace, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self._asdict(), "stories": [story.as_json() for story in self.stories]}

    def lines(self) -> Iterator[str]:
        """The same for people."""
        if self.entry is not None:
            said = self.entry
            yield (
                f"entry {said['entry']}: {said['section']} ({said['place']}, {said['area']}), "
                f"{said['tokens']} tokens, from {said['source']}"
            )
            if not self.stories:
                yield "no event stands in it"
        for at, story in enumerate(self.stories):
            if at or self.entry is not None:
                yield ""
            yield from story.lines()


def _plain(value: Any) -> Any:
    """Records as objects, tuples as lists."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _named(id_: str, seq: int) -> str:
    """An event by id and number, or by as much of that as is told."""
    if not seq:
        return HIDDEN
    return f"{id_} (#{seq})" if id_ else f"#{seq}"


def _line(name: str, words: str) -> str:
    return f"  {name:<{_WIDTH}}{words}"


# Why an event is not in a block: what the pack noted of it, and of what it never looked at.
#
# Nothing is judged anew: omissions come from the sheet, what is suppressed from the pack's own
# scope.

REASON_WORDS: Final = {
    "sensitivity": "its sensitivity is not for the channel of the pack",
    "kind": "its kind is not for the channel of the pack",
    "ns": "its namespace is not in the scope of the pack",
    "as_of": "recorded after the pack was made",
    "superseded": "replaced by",
    "forgotten": "forgotten by",
    "expired": "not valid at the clock of the pack",
    "time": "outside of the time that was asked for",
    "tag": "its tags are not those that were asked for",
    "importance": "of less importance than was asked for",
    "excluded": "the request excludes it",
    "unapproved": "nobody has approved the artifact: no more than its card may be shown",
    "approval": "what an approval says is quoted nowhere",
    "changed": "its file is gone or changed",
    "gap": "the log has lost it",
    "not_relevant": "what else answers the query does so much better, or it does not at all",
    "duplicate": "the same words as",
    "empty": "it has no text",
    "told": "the session has the same words, from a file of the project or an answer before",
    "section": "no section that shows it was asked for",
    "past_end": "the handle begins behind its end",
    "cut": "shown in part",
}
_LIMITS: Final = {"relevant_decisions": "decisions_max", "knowledge_cards": "cards_max"}


class Archive:
    """What took events out of force, as of the pack."""

    def __init__(self, memories: Memories, upto: int) -> None:
        self._memories, self._upto = memories, upto

    def current(self, event: Event) -> bool:
        """Whether the event is the value of its key."""
        row = self._memories.current(event.ns, event.key or "", upto=self._upto)
        return row is not None and row.seq == event.seq

    def gone(self, event: Event) -> list[Archived]:
        """What took the event out of force, and by which seq: forgotten first, then superseded."""
        if event.seq > self._upto:
            return []
        found = self._memories.archived(event, upto=self._upto)
        gone = [] if found is None else [found]
        later = self._memories.superseded(event, upto=self._upto)
        if later is not None and Archived("superseded", later) not in gone:
            gone.append(Archived("superseded", later))
        return gone

    def by(self, event: Event, reason: str) -> int:
        """The seq that gave the event this reason; 0 where none did."""
        words = ("superseded",) if reason == "superseded" else ("forgotten", "evicted")
        return next((one.by_seq for one in self.gone(event) if one.reason in words), 0)


def left_out(laid: Laid, event: Event, archive: Archive) -> Iterator[LeftOut]:
    """Each reason that the pack has against an event; none for one that it shows whole."""
    facts, seq = laid.facts, event.seq
    sheet = facts.sheet
    for omission in sheet.views_omitted:
        if omission.seq == seq:
            yield _noted(laid, event, *omission[2:5], omission.short_by)
    row = sheet.omitted.get(seq)
    if row is not None:
        yield _noted(laid, event, *row[1:4], row[5])
    elif seq in sheet.passed:
        yield _passed(laid, event, sheet.passed[seq])
    pool = next((item for item in laid.context.pool if item.seq == seq), None)
    if any(item.seq == seq for item in facts.left_over):
        yield _older(laid, event)
        return
    if seq in sheet.seqs:
        return
    reason = suppressed(laid, event, archive)
    # A changed file that was looked for is noted on the sheet already.
    if reason is not None and (row is None or row[3] != reason):
        by = archive.by(event, reason) if reason in ("superseded", "forgotten") else 0
        counted = pool is not None or seq in sheet.hidden or _is_apart(laid, seq)
        yield LeftOut(reason, REASON_WORDS[reason], by_seq=by, counted=counted)


def _is_apart(laid: Laid, seq: int) -> bool:
    """Whether it is kept with what the reader sees nothing of, which the pack counts as well."""
    return any(item.seq == seq for item in laid.context.materials.source.unseen())


def suppressed(laid: Laid, event: Event, archive: Archive) -> str | None:
    """Why the pack may not show the event, None where it may."""
    item = next((item for item in laid.context.pool if item.seq == event.seq), None)
    if item is None:
        item = items_of_event(event, laid.facts.sheet.counter)
        gone = {one.reason for one in archive.gone(event)}
        item.superseded = "superseded" in gone
        item.forgotten = not gone.isdisjoint(("forgotten", "evicted"))
    return laid.context.scope.hides(item)


def _noted(
    laid: Laid, event: Event, section: str, tokens: int, reason: str, short_by: int
) -> LeftOut:
    """A reason as the sheet has it."""
    if reason != "budget":
        by = laid.facts.sheet.same.get(event.seq, 0) if reason == "duplicate" else 0
        why = _limit(laid, event, section) if reason == "limit" else REASON_WORDS.get(reason, "")
        return LeftOut(reason, why, section, tokens, by_seq=by)
    facts = laid.facts
    free = facts.budget - laid.rendered.tokens
    if short_by > free:
        return LeftOut(
            "budget",
            f"the block had no more room: {short_by} tokens short",
            section,
            tokens,
            short_by,
            "block",
        )
    return LeftOut(
        "budget",
        f"the section had no more room: {short_by} tokens short ({free} of the block stayed free)",
        section,
        tokens,
        short_by,
        "section",
    )


def _limit(laid: Laid, event: Event, section: str) -> str:
    """The policy's limit that a section has come to, or that of what is kept to choose from."""
    if any(item.seq == event.seq for item in laid.context.materials.left):
        return "newer decisions, or those that are pinned or constraints, have all the places"
    limits = laid.context.materials.policies.budgets.limits
    name = _LIMITS.get(section, "retrieved_chunks_max")
    return f"the section has the {getattr(limits, name)} that it takes at most ({name})"


def _passed(laid: Laid, event: Event, reason: str) -> LeftOut:
    """A reason that the sheet has without the rest, which no report lists."""
    sheet = laid.facts.sheet
    ranked = sheet.ranked
    assert ranked is not None, "only what answers a query is passed over"
    rows, section = ranked.rows, ranked.part.section
    assert isinstance(rows, Candidates), "and only where the whole log was searched"
    tokens = rows.tokens[rows.seqs.index(event.seq)]
    short_by = max(1, tokens - sheet.left[section]) if reason == "budget" else 0
    return _noted(laid, event, section, tokens, reason, short_by)


def _older(laid: Laid, event: Event) -> LeftOut:
    """A candidate of which no stage spoke: it lies before what is shown as recent."""
    if event.seq in never_of(laid):
        return LeftOut("older", ITSELF)
    anchor, session = laid.facts.sheet.window.anchor, laid.request.session
    if session is not None and event.session == session and anchor > event.seq:
        return LeftOut("older", f"{WINDOW}, which begins at", by_seq=anchor)
    return LeftOut("older", "no section looked so far back")


# What a pack could take an event from: every part of the layout that looks at it, or none.
#
# Rather one source too many than one too few: what has none is in no block of any budget.

ITSELF: Final = "it is the query itself, which would only find itself"
_NEVER: Final = frozenset((*UPKEEP_KINDS, "session", "secret"))


class CandidateSource(NamedTuple):
    """One place that holds the event for a pack: `hotset`, `decisions`, `cards`, `index`, ...

    `tail`: what it offers stands in the tail, whose room depends on the budget to the token.
    """

    name: str
    tail: bool


def candidate_sources(laid: Laid, event: Event) -> list[CandidateSource]:
    """Every source of a pack that holds the event, whatever room there is for it."""
    found = dict.fromkeys((*_recent(laid, event), *_ranked(laid, event), *_asked(laid, event)))
    return list(found)


def _recent(laid: Laid, event: Event) -> Iterator[CandidateSource]:
    """What does not depend on the query: the window, statements, tasks, tools, own sections."""
    context, seq = laid.context, event.seq
    materials, held = context.materials, ledgers_of(laid, seq)
    if event.kind not in NO_TURNS and _in_window(laid, seq):
        yield CandidateSource("window", tail=False)
    for name in held:
        yield CandidateSource(name, tail=False)
    if any(one.item.seq == seq for one in context.stated):
        yield CandidateSource("statements since the epoch", tail=True)
    if tasks_of(laid, seq):
        yield CandidateSource("tasks", tail=True)
    if any(seq in seqs for seqs in materials.hotset.tools.values()):
        yield CandidateSource("tools", tail=True)
    if held or seq in materials.hotset.items:
        for section in materials.policies.budgets.sections:
            if is_own_section(section) and event.kind in section.kinds:
                yield CandidateSource(f"section {section.name}", tail=True)


def _in_window(laid: Laid, seq: int) -> bool:
    """Whether the window could reach back to an event."""
    context = laid.context
    materials, ring = context.materials, context.ring
    if ring is not None:
        return seq in ring.prompts or any(turn.seq == seq for turn in ring.ring)
    return seq in materials.hotset.plane[-materials.policies.budgets.limits.hotset_max_events :]


def _ranked(laid: Laid, event: Event) -> Iterator[CandidateSource]:
    """Evidence: what answers the query well enough to be shown, if there is room."""
    ranked, marked = laid.facts.sheet.ranked, laid.facts.sheet.marked_turns.get(event.seq)
    if marked is not None:
        yield CandidateSource("marked turns", tail=marked.area == "G")
    if ranked is None:
        return
    tail, rows = ranked.part.area == "G", ranked.rows
    if not isinstance(rows, Candidates):
        # The floor moves with what the block shows already: here whatever matches may pass it.
        if any(hit.item.seq == event.seq for hit in rows):
            yield CandidateSource("hotset", tail)
    elif event.seq in rows.seqs and rows.seqs.index(event.seq) < rows.above(ranked.floor):
        yield CandidateSource("index", tail)


def _asked(laid: Laid, event: Event) -> Iterator[CandidateSource]:
    """What the request asked for by name: handles, and the last sessions."""
    context, seq = laid.context, event.seq
    for opened in context.materials.expansions:
        if isinstance(opened, View):
            continue
        if isinstance(opened, Expansion):
            inside = opened.item.seq == seq
        else:
            inside = any(one.seq == seq for one in opened.basis()) or any(
                one.item.seq == seq for one in opened.members(0, False)
            )
        if inside:
            yield CandidateSource("expansion", tail=True)
    asked = context.asked is not None
    shown = context.then if asked else context.materials.source.last_sessions()
    if context.intent == "orient" and any(
        item.seq == seq for session in shown for item in (*session.items, *session.said)
    ):
        yield CandidateSource("last sessions", tail=True)


def no_source(laid: Laid, event: Event) -> tuple[str, str]:  # noqa: PLR0911 - a reason, a return
    """Why no source holds the event: the reason in a word, and in a sentence."""
    limits = laid.context.materials.policies.budgets.limits
    ranked, request, query = laid.facts.sheet.ranked, laid.request, laid.query
    if event.kind in _NEVER:
        return "never_shown", f"events of kind {event.kind} stand in no block"
    if not event.text:
        return "empty", "it has no text"
    if not remembered(event).text:
        return "empty", "its text is all of its client's, and no memory"
    if event.seq in never_of(laid):
        return "query", ITSELF
    if request.sections and "retrieved_evidence" not in request.sections:
        return "section", f"the request asked for {', '.join(request.sections)} alone"
    in_session = request.session is not None and event.session == request.session
    if in_session and (query.retriever is None or not query.text):
        return "older", f"of its session the last {SESSION_RING} turns are at hand, it came before"
    if not query.text:
        return "older", "nothing was asked, and it is not among what is recent"
    if query.retriever is None:
        few = f"the last {limits.hotset_max_events} events and what is in force"
        return "older", f"a fast pack looks at {few}, and it is not among them"
    if ranked is not None and len(ranked.rows) >= limits.candidate_pool_max:
        most = limits.candidate_pool_max
        return "limit", f"{most} events answer the query better, and no more are looked at"
    return "not_relevant", "the index finds no word of the query in it or beside it"


def never_of(laid: Laid) -> frozenset[int]:
    """The seqs of what was asked, which is no answer."""
    query, prompt = laid.query, laid.context.prompt
    found = {query.event}
    if query.own and prompt is not None:
        found.add(prompt.seq)
    return frozenset(found - {0})


def ledgers_of(laid: Laid, seq: int) -> list[str]:
    """The ledgers that hold an event in force."""
    materials = laid.context.materials
    ledgers = {"decisions": materials.decisions, "cards": materials.cards}
    return [name for name, items in ledgers.items() if any(item.seq == seq for item in items)]


def rings_of(laid: Laid, seq: int) -> Iterator[str]:
    """The rings and tables of the hotset that hold an event."""
    hotset = laid.context.materials.hotset
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
    tasks = laid.context.materials.tasks.newest()
    return [task.id for task in tasks if any(quote.seq == seq for quote in task.quotes())]


# Stands for figures that others than who made the pack and the owner are not told.
UNTOLD: Final = "told to who made the pack, and to the owner"
_ENTRY: Final = "entry:"
_PERMILLE: Final = 1000
_NOT_SAME: Final = (
    "the pack made again is another one than was saved (see `memplane replay`): this is its story"
)
_PRIVATE: Final = ("sensitivity", "kind", "ns")


def why(
    plane: Plane,
    saved: Saved,
    given: str | int,
    *,
    channel: str | None = None,
    agent: str | None = None,
) -> Why:
    """Tell the story of an event (id, seq, `#seq`) or of those of an entry (`entry:N`) in a pack.

    Who asks is the report's channel and agent, or those given; `private` without an agent is the
    owner, who is told all. Any other than who made the pack is told the place or the reason, and no
    figure that entries decide which he may not see. Raises NotFoundError for an event that is not
    there, and in the same words for one that is not for who asks, or for an entry of another's
    pack; also where too much of what the pack was made of is lost.
    """
    with retold(plane, saved, channel=channel, agent=agent) as pack:
        entry, lines = pack.asked_about(given)
        stories = tuple(pack.story(line) for line in lines)
        return Why(saved.id, pack.same, pack.note, entry, stories)


@contextmanager
def retold(
    plane: Plane, saved: Saved, *, channel: str | None = None, agent: str | None = None
) -> Iterator[Retold]:
    """The pack of a report made again, to be asked about many events; see `why` for the rest."""
    then, lost = plane_of(plane, saved)
    if then is None:
        names = "; ".join(map(str, lost))
        raise NotFoundError(f"the pack {saved.id} cannot be made again: {names}")
    with then:
        laid: list[Laid] = []
        block = then.pack(**asked_of(saved), watch=laid.append)
        same = hashlib.sha256(block.text.encode()).hexdigest() == saved.report["acb_sha256"]
        note = "" if same else "; ".join((_NOT_SAME, *map(str, lost)))
        request = laid[0].request
        if channel is None and agent is None:
            channel, agent = request.channel, request.agent
        asker = _Asker(plane, then, channel or request.channel, agent)
        yield Retold(asker, block, laid[0], note)


class _Asker(NamedTuple):
    """Who wants to know, on the plane of now and on the one of then."""

    now: Plane
    then: Plane
    channel: str
    agent: str | None

    @property
    def owner(self) -> bool:
        return self.channel == OWNER and self.agent is None

    def may_see(self, event: Event) -> bool:
        """Whether he may know of the event: by today's policies, and by those of the pack."""
        if self.owner:
            return True
        planes = (self.now, self.then) if event.seq <= self.then.head().seq else (self.now,)
        return all(
            one.context.reader(self.channel, agent=self.agent).may_read(event) for one in planes
        )

    def __str__(self) -> str:
        return (
            f"channel {self.channel}"
            if self.agent is None
            else (f"agent {quoted_value(self.agent)} on channel {self.channel}")
        )


class Retold:
    """A pack made again, and what it was made of. `same`: it is the saved one, byte for byte."""

    def __init__(self, asker: _Asker, block: Block, laid: Laid, note: str) -> None:
        self.same, self.note = not note, note
        self._asker, self._block, self._laid = asker, block, laid
        # A plane shows what an event is, not where it stands.
        self._log, context = asker.now.context.log, asker.then.context
        self._archive = Archive(context.caught_up().memories, laid.request.as_of)

    def asked_about(self, given: str | int) -> tuple[dict[str, Any] | None, list[Line]]:
        """The lines of the events that are named, and the entry, where one is."""
        if isinstance(given, str) and given.startswith(_ENTRY):
            return self._entry(given)
        line = self._line(given)
        if line is None and self._asker.owner:
            self._lost(given)
        if line is None or not self._asker.may_see(line.event):
            raise self._unknown(f"event {quoted_value(given)}")
        return None, [line]

    def story(self, line: Line) -> EventTrace:
        """What became of one event."""
        event, laid = line.event, self._laid
        places = tuple(self._places(event))
        reasons = tuple(map(self._named, left_out(laid, event, self._archive)))
        names = tuple(source.name for source in candidate_sources(laid, event))
        if not places and not reasons:
            unseen = _passed_over(names) if names else no_source(laid, event)
            reasons = (LeftOut(*unseen, counted=False),)
        told = any(place.how != "named" for place in places)
        outcome = "placed" if told else "named" if places else "left_out"
        none = "" if names else self._no_source(event)
        logged = Logged(line.segment, event.seq, event.rec, event.kind, event.ns, event.session)
        allocated = tuple(self._allocated(places, reasons))
        scored: EventScore | str = UNTOLD
        if self._foreign:
            places, allocated = tuple(place.bare() for place in places), ()
            reasons = tuple(reason.bare() for reason in reasons)
        else:
            scored = self._scored(event)
        return EventTrace(
            event.id,
            outcome,
            logged,
            self._held(event),
            Sourced(names, none),
            scored,
            allocated,
            places,
            reasons,
        )

    @property
    def _foreign(self) -> bool:
        """Whether who asks has other eyes than who made the pack, and does not own the plane."""
        request = self._laid.request
        own = (self._asker.channel, self._asker.agent) == (request.channel, request.agent)
        return not (own or self._asker.owner)

    def _no_source(self, event: Event) -> str:
        reason = suppressed(self._laid, event, self._archive)
        if reason in NAMED:
            return no_source(self._laid, event)[1]
        return f"it may not be shown ({reason})"

    def _entry(self, given: str) -> tuple[dict[str, Any], list[Line]]:
        number = given.removeprefix(_ENTRY)
        entries = self._block.entries
        if not _is_number(number):
            raise InputError(f"expected {_ENTRY}1 for the first entry, found {quoted_value(given)}")
        at = int(number)
        entry = entries[at - 1] if 0 < at <= len(entries) else None
        found_lines = [] if entry is None else list(self._lines_of(entry))
        lines = [line for line in found_lines if self._asker.may_see(line.event)]
        if entry is None or self._foreign:
            raise self._unknown(f"entry {at}")
        fields = {
            "entry": at,
            "section": entry.section,
            "place": entry.place,
            "area": entry.part,
            "tokens": entry.tokens,
            "source": entry.source,
        }
        return fields, lines

    def _lines_of(self, entry: Entry) -> Iterator[Line]:
        for id_ in (*entry.events, *entry.parts):
            line = self._log.find(id_)
            if line is not None:
                yield line

    def _line(self, given: str | int) -> Line | None:
        """The line that an id or a seq names: a number is a seq first, and else an id."""
        digits = str(given).removeprefix("#")
        if _is_number(digits):
            line = self._log.line(int(digits))
            if line is not None or not isinstance(given, str) or given != digits:
                return line
        return self._log.find(given) if isinstance(given, str) else None

    def _lost(self, given: str | int) -> None:
        """Raise where the log had the event, or may have had it: for the owner, who may know."""
        digits = str(given).removeprefix("#")
        if _is_number(digits) and 0 < int(digits) <= self._log.head().seq:
            raise NotFoundError(
                f"the log cannot give event {quoted_value(given)}: its line does not verify; "
                "see `memplane verify`"
            )
        if self._log.gaps():
            raise NotFoundError(
                f"no event {quoted_value(given)} in what the log can give: parts of it do not "
                "verify; "
                "see `memplane verify`"
            )

    def _unknown(self, what: str) -> NotFoundError:
        if self._foreign:
            return NotFoundError(f"no {what} for {self._asker}")
        counts = self._block.report["omissions"]["counts"]
        hidden = ", ".join(f"{counts[name]} {name}" for name in _PRIVATE if name in counts)
        left = f"; the pack left out for privacy: {hidden}" if hidden else ""
        return NotFoundError(f"no {what} for {self._asker}{left}")

    def _named(self, reason: LeftOut) -> LeftOut:
        """The reason with the event that it names, for who may see that one."""
        if not reason.by_seq:
            return reason
        seq, id_ = self._told_of(reason.by_seq)
        if seq:
            return reason._replace(by_id=id_)
        if reason.reason == "duplicate":  # who sees the one would know the other's words
            return LeftOut("passed_over", "the block shows something else", reason.section)
        return reason._replace(why=f"{reason.why} {HIDDEN}", by_seq=0)

    def _told_of(self, seq: int) -> tuple[int, str]:
        """The seq and id of another event, 0 and "" for who may not see it."""
        if seq > self._laid.request.as_of:  # an empty window begins at what comes next
            return seq, ""
        line = self._log.line(seq)
        if line is not None and self._asker.may_see(line.event):
            return seq, line.event.id
        return seq if self._asker.owner else 0, ""

    def _held(self, event: Event) -> HoldingProjections:
        laid, seq = self._laid, event.seq
        materials = laid.context.materials
        tasks = tasks_of(laid, seq)
        if not self._asker.owner:  # of others he may not even know the name
            tasks = [name for name in tasks if name == event.task]
        memory = None
        if event.key is not None and event.kind not in KEYLESS_KINDS:
            current = self._archive.current(event)
            memory = Memory(event.key, current)
        gone = tuple(Gone(reason, *self._told_of(by)) for reason, by in self._archive.gone(event))
        pin = materials.pinned.get(seq, 0)
        if pin:
            pin, _ = self._told_of(pin)
        return HoldingProjections(
            tuple(rings_of(laid, seq)),
            tuple(ledgers_of(laid, seq)),
            tuple(tasks),
            memory,
            gone,
            pin,
        )

    def _scored(self, event: Event) -> EventScore | str:
        ranked = self._laid.facts.sheet.ranked
        if ranked is None:
            asked = bool(self._laid.query.text)
            return "nothing answers the query" if asked else "nothing was asked"
        rows, none = ranked.rows, "it does not answer the query"
        if isinstance(rows, Candidates):
            if event.seq not in rows.seqs:
                return none
            at = rows.seqs.index(event.seq)
            found, floor = rows[at], ranked.floor * _PERMILLE // ONE
            score = found.score * _PERMILLE // ONE
            return EventScore(score, score_parts(found), at + 1, len(rows), floor)
        hit = next((hit for hit in rows if hit.item.seq == event.seq), None)
        if hit is None:
            return none
        parts = {
            "words": hit.words,
            "tags": hit.tags,
            "key": hit.key,
            "neighbours": hit.neighbours,
            "markers": hit.markers,
        }
        rank = 1 + sum(1 for other in rows if other.score > hit.score)
        return EventScore(hit.score, parts, rank, len(rows), ranked.floor)

    def _places(self, event: Event) -> Iterator[EntryPlacement]:
        for at, entry in enumerate(self._block.entries, 1):
            if event.id in entry.events or event.id in entry.parts:
                how = "whole" if event.id in entry.events else "part"
                if entry.source in NAMING:
                    how = "named"
                yield EntryPlacement(
                    at, entry.section, entry.place, entry.part, how, entry.tokens, entry.source
                )

    def _allocated(
        self, places: tuple[EntryPlacement, ...], reasons: tuple[LeftOut, ...]
    ) -> Iterator[Allocated]:
        tokens = {reason.section: reason.tokens for reason in reversed(reasons)}
        shown_in = [place for place in reversed(places) if place.how != "named"]
        tokens |= {place.section: place.tokens for place in shown_in}
        for name, section in self._block.report["sections"].items():
            if name in tokens:
                yield Allocated(
                    name,
                    section["share_ppm"],
                    section["room"],
                    section["cap"],
                    section["used"],
                    tokens[name],
                )


def _passed_over(names: tuple[str, ...]) -> tuple[str, str]:
    """Why an event is out that something holds, and of which no stage spoke."""
    return "passed_over", f"of what {', '.join(names)} hold, the block shows something else"


def _is_number(text: str) -> bool:
    """Whether a text is a number that a seq could be."""
    return text.isascii() and text.isdigit() and len(text) < 19
