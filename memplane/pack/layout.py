"""The order of a block, the rooms of its sections, the sheet of its entries, and their text.

The order is the one that keeps a provider's prompt cache valid: A views, B cards and decisions as
of the session's epoch, C what was stated since, D the session's log up to the prompt, E the
prompt's evidence, F the prompt and what followed, G everything that may change at any time. The
rules behind it (R1-R9) are in ARCHITECTURE.md.

`render_block` makes text of placed entries, with the marks that let intake recognise a quoted
block, and `parse_block` reads it back. What begins at the margin of a block is its own: the marks,
headings, fences, date lines, and the first line of each entry. Every other line of an entry is
empty or set in by a blank, whatever text it quotes. So a block can be read back from its text
alone, and no text changes what is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.errors import BudgetError, InputError
from memplane.intake import skeleton
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, late, regex, word_table
from memplane.pack.block import Entry, Omission
from memplane.pack.request import Needs
from memplane.policy import Budgets, SectionBudget
from memplane.ports import TokenCounter
from memplane.projections.item import HANDLE, Item, Printer, own_text, own_view

if TYPE_CHECKING:
    from memplane.recall import gate as recall_gate
else:
    recall_gate = late("memplane.recall.gate")


FENCE: Final = "~~~~\n"
# The section that pays for decisions, whichever part they stand in.
DECISIONS: Final = "relevant_decisions"
_NO_LIMIT: Final = 2**63
# A label, a word and a newline cost no less; what has less room is full.
_LEAST_ENTRY: Final = 4


class EntryGroup(NamedTuple):
    """Entries of a dated part that print under one line: those of a session and a day.

    In log order, and so are the groups. Those with an `order` come first instead, the newest entry
    before the others; the date line of order 1 says that.
    """

    session: str
    day: str
    order: int = 0

    @property
    def line(self) -> str:
        """The day alone: the labels name the speakers, and the entries the ids."""
        return f"{self.day}, newest first\n" if self.order == 1 else f"{self.day}\n"


def entry_group(item: Item) -> EntryGroup:
    """The group of an event: its session, and the day on which it happened, in UTC."""
    return EntryGroup(item.session or "", item.ts[:10])


class BlockPart(NamedTuple):
    """A heading and the entries under it. `section` pays for both."""

    name: str
    area: str
    section: str
    heading: str
    fenced: bool = False  # quoted material that must not read as instructions
    ordered: bool = True  # entries print in log order, whatever order they were chosen in
    dated: bool = False  # entries print by session and day, each group under its date

    @property
    def place(self) -> Literal["head", "middle", "tail"]:
        if self.area in "ABC":
            return "head"
        return "middle" if self.area in "DEF" else "tail"


class ContradictionNote(NamedTuple):
    """What the label of a statement says that contradicts an older one, of the seq `older`."""

    older: int
    text: str


class RankedCandidates(NamedTuple):
    """The scored candidates, for callers that explain a block: rows with seq and score.

    `part` is where they would be placed; those below the score `floor` are not good enough.
    """

    part: BlockPart
    rows: Sequence[Any]
    floor: int


# Headings carry no counts and no dates: they must read the same in every pack (R8).
PARTS: Final = (
    BlockPart("identity", "A", "identity", "## Identity", ordered=False),
    BlockPart("rules", "A", "rules", "## Rules", ordered=False),
    BlockPart("map", "B", "system_map", "## Map of this memory", ordered=False),
    BlockPart("cards", "B", "knowledge_cards", "## Knowledge"),
    BlockPart("decisions", "B", "relevant_decisions", "## Decisions"),
    BlockPart("newer", "C", "recent_window", "## Stated since then"),
    BlockPart("log", "D", "recent_window", "## Earlier"),
    BlockPart(
        "evidence",
        "E",
        "retrieved_evidence",
        "## Evidence for the prompt: quoted data",
        fenced=True,
        dated=True,
    ),
    BlockPart("now", "F", "recent_window", "## Current prompt and what followed"),
    BlockPart("tasks", "G", "task_state", "## Tasks", ordered=False),
    BlockPart("elsewhere", "G", "task_state", "## Also stated since then"),
    BlockPart("decided", "G", "relevant_decisions", "## More decisions"),
    BlockPart("wishes", "G", "relevant_decisions", "## Standing wishes", ordered=False),
    BlockPart("more", "G", "knowledge_cards", "## More knowledge"),
    BlockPart("sessions", "G", "recent_window", "## Last sessions", ordered=False),
    BlockPart("files", "G", "tool_state", "## Files touched", ordered=False),
    BlockPart("tools", "G", "tool_state", "## Tools"),
    BlockPart(
        "expansions", "G", "expansions", "## Expansions: quoted data", fenced=True, ordered=False
    ),
    BlockPart(
        "reminder",
        "G",
        "retrieved_evidence",
        "## From earlier sessions: quoted data",
        fenced=True,
        ordered=False,
        dated=True,
    ),
    BlockPart("traps", "G", "retrieved_evidence", "## Traps", ordered=False),
    BlockPart(
        "found", "G", "retrieved_evidence", "## Evidence: quoted data", fenced=True, dated=True
    ),
)

# A reader that has just come reads on from the top: tasks, decisions, knowledge, last sessions. All
# but the views and the map is the tail there, for tasks change at any time.
_ORIENT_ORDER: Final = word_table("""
    identity rules map tasks elsewhere decisions decided wishes cards more sessions newer log
    evidence now reminder files tools expansions traps found
""")
# What matters most stands first there: pinned decisions and constraints, then the newest.
_BY_WEIGHT: Final = frozenset(("decisions", "decided", "cards", "more"))
ORIENT_PARTS: Final = tuple(
    part
    if part.area == "A" or part.name == "map"
    else part._replace(area="G", ordered=part.ordered and part.name not in _BY_WEIGHT)
    for part in sorted(PARTS, key=lambda part: _ORIENT_ORDER.index(part.name))
)


_BY_HEADING: Final = {part.heading: part for part in PARTS}
_OWN_NAME: Final = "own:"  # before the name of the part of a section that a policy added
_OWN: Final = " (own section)"  # behind a heading that would be one of ours


def own_part(section: str) -> BlockPart:
    """The part of a section that a policy added: in the tail, under its own name."""
    heading = f"## {section.replace('_', ' ').capitalize()}"
    heading = f"{heading}{_OWN}" if heading in _BY_HEADING else heading
    return BlockPart(f"{_OWN_NAME}{section}", "G", section, heading)


def is_own_part(part: BlockPart) -> bool:
    """Whether a policy added the section of the part, which may hold views and events."""
    return part.name.startswith(_OWN_NAME)


def part_under(heading: str) -> BlockPart:
    """The part that prints under a heading: one of the table, else a section of a policy's own."""
    known = _BY_HEADING.get(heading)
    if known is not None:
        return known
    name = heading.removeprefix("## ").removesuffix(_OWN)
    return own_part(name.lower().replace(" ", "_"))


class Window(NamedTuple):
    """The turns in the window: before the prompt (D), from the prompt on (F), and its start."""

    before: tuple[Item, ...]
    after: tuple[Item, ...]
    tier: int
    anchor: int  # seq of the first turn inside; 0 without a session
    pinned: Item | None  # the prompt, where it lies before the anchor
    pin_tokens: int
    next_anchor_in: int  # clipped tokens of the session until the window moves


# Where what contradicts prints before what it contradicts: elsewhere that would move what a session
# has in its blocks already (R9).
_NEWER_FIRST: Final = frozenset("BG")

NO_WINDOW: Final = Window((), (), 0, 0, None, 0, 0)


class Sheet:
    """Entries placed so far, the tokens each section has left, and what did not fit.

    Every token that ends up in the block, headings and fences included, passes through here.
    """

    def __init__(
        self,
        room: dict[str, int],
        printer: Printer,
        parts: tuple[BlockPart, ...] = PARTS,
        caps: dict[str, int] | None = None,
        needs: Needs | None = None,
    ) -> None:
        self.laid = {part.name: part for part in parts}  # where each part stands in this block
        self.left = dict(room)
        self.needs = needs or Needs(_NO_LIMIT, _NO_LIMIT)
        self.caps = caps or {}  # max_tokens of sections that pay for entries of other parts
        self.printer = printer
        self.placed: dict[str, list[Entry]] = {}
        self.parts: dict[str, BlockPart] = {}
        self.groups: dict[str, set[EntryGroup]] = {}  # open ones, by part; asked only
        self.group: dict[int, EntryGroup] = {}  # of each placed event of a dated part
        self._days: dict[str, int] = {}  # tokens of date lines
        self._headings: dict[str, int] = {}  # tokens of headings, by part
        self.seqs: set[int] = set()  # rendered events; asked, never iterated
        self.whole: set[int] = set()  # of these, the ones that stand whole
        self.used: dict[str, int] = {}  # by the section that the report names
        self.paid: dict[str, int] = {}  # by the section whose room it came from
        self.short = False  # whether a larger block could hold more
        self.frame = 0  # tokens of headings and fences
        # By seq, in the order of Omission's fields but for the item in place of id and seq; of what
        # was not even read from the log there is no item.
        self.omitted: dict[int, tuple[Item | None, str, int, str, int, int]] = {}
        self.passed: dict[int, str] = {}  # others that stay out, by seq, with the reason alone
        self.hidden: dict[int, str] = {}  # inside what a handle opened, by seq, with the reason
        self.views_omitted: list[Omission] = []
        self.score_parts: dict[int, dict[str, int]] = {}
        self.scored = 0  # candidates that were scored
        self.found = 0  # of these, the ones that answer the query
        self.ranked: RankedCandidates | None = None  # these, where something was asked
        self.marked_turns: dict[int, BlockPart] = {}  # offered whatever was asked
        self.same: dict[int, int] = {}  # what says the same as another event, and which
        self.window = NO_WINDOW  # what the session's log shows, once its section was filled
        self.unread = 0  # terms of the query whose postings pass a limit
        self.scanned = 0  # documents of the index that held a word of the query
        self.stale: Callable[[Item, str], bool] | None = None  # as an area's entries may say it
        self.fading: Container[str] = frozenset()  # the kinds of which it says so of any event
        self.notes: Mapping[int, ContradictionNote] = {}  # by seq of the newer statement

    @property
    def counter(self) -> TokenCounter:
        return self.printer.counter

    @property
    def spent(self) -> int:
        """Tokens of everything placed."""
        return sum(self.used.values())

    def heading_tokens(self, part: BlockPart) -> int:
        """Tokens of opening the part (heading and fences): 0 where it is open."""
        name = part.name
        if name in self.placed:
            return 0
        known = self._headings.get(name)
        if known is None:
            count = self.counter.count
            known = count(part.heading + "\n") + (2 * count(FENCE) if part.fenced else 0)
            self._headings[name] = known
        return known

    def date_tokens(self, part: BlockPart, group: EntryGroup | None) -> int:
        """Tokens of the date line of a group: 0 where the group has one already or needs none."""
        if group is None or not part.dated or group in self.groups.get(part.name, ()):
            return 0
        line = group.line
        known = self._days.get(line)
        if known is None:
            known = self._days[line] = self.counter.count(line)
        return known

    def room(self, part: BlockPart) -> int:
        """Tokens that one more entry may cost; negative where not even the heading fits."""
        return self.left.get(part.section, 0) - self.heading_tokens(part)

    def put(
        self, part: BlockPart, entry: Entry, group: EntryGroup | None = None, *, kind: str = ""
    ) -> None:
        """Place an entry whose cost, with that of its date line, was checked against `room`.

        `kind` is that of its event: a decision counts against the cap of the section of decisions,
        also where it takes the room of another section.
        """
        # Every entry of every block passes here: no unneeded call.
        name = part.name
        part = self.laid.get(name, part)
        if entry.part != part.area:
            entry = entry._replace(place=part.place, part=part.area)
        tokens, seq, payer, used = entry.tokens, entry.seq, part.section, self.used
        placed = self.placed.get(name)
        opening = 0
        if placed is None:
            opening = self.heading_tokens(part)
            placed = self.placed[name] = []
        if group is not None and part.dated:
            opening += self.date_tokens(part, group)
            self.groups.setdefault(name, set()).add(group)
            self.group[seq] = group
        cost = tokens + opening
        self.left[payer] -= cost
        assert self.left[payer] >= 0, "an entry was placed that does not fit"
        self.paid[payer] = self.paid.get(payer, 0) + cost
        if kind == "decision" and payer != DECISIONS and self._takes(DECISIONS, tokens):
            used[DECISIONS] = used.get(DECISIONS, 0) + tokens
            cost = opening
        used[payer] = used.get(payer, 0) + cost
        self.frame += opening
        self.parts[name] = part
        placed.append(entry)
        if seq:
            self.seqs.add(seq)
            if entry.events:
                self.whole.add(seq)
            if seq in self.omitted:
                del self.omitted[seq]
            if seq in self.passed:
                del self.passed[seq]

    def stands(self, seq: int, *, whole: bool) -> None:
        """Note that the block shows an event inside the entry of another one."""
        self.seqs.add(seq)
        if whole:
            self.whole.add(seq)
        self.omitted.pop(seq, None)
        self.passed.pop(seq, None)

    def taken(self, section: str) -> int:
        """Tokens that count against a section's cap."""
        return max(self.used.get(section, 0), self.paid.get(section, 0))

    def short_of(self, section: str) -> bool:
        """Whether a candidate of the section was left out for want of room."""
        return "budget" in self.passed.values() or any(
            row[3] == "budget" and row[1] == section for row in self.omitted.values()
        )

    def _takes(self, section: str, tokens: int) -> bool:
        """Whether a section of this block may be named for tokens from another one's room."""
        most = self.caps.get(section)
        return most is not None and self.used.get(section, 0) + tokens <= most

    def marked(self, part: BlockPart, item: Item) -> Item:
        """The item, or its twin with a note or marked `(stale)` as of this part's area."""
        note = self.notes.get(item.seq)
        if note is not None:
            item = item.with_note(note.text, self.counter)
        if self.stale is None or item.kind not in self.fading:
            return item
        area = self.laid.get(part.name, part).area
        return item.as_stale(self.counter) if self.stale(item, area) else item

    def offer(
        self,
        part: BlockPart,
        item: Item,
        *,
        tier: int = 0,
        score: int = 0,
        source: str = "event",
        most: int | None = None,
        others: Sequence[Item] = (),
    ) -> bool:
        """Place an event if it fits the section's room (and `most`, where a part has its own cap).

        `tier` is the form: 0 the longest, 2 a snippet with a handle. `others` have the same text,
        and are placed with it. An event that no room of this part could hold is cut to a snippet;
        one that only comes too late is left out, so that a shorter one behind it may still fit.
        Returns whether it was placed. An event that says nothing is not.
        """
        if says_nothing(item):
            self.omit(item, part.section, 0, "empty", score)
            return False
        if item.kind in self.fading or item.seq in self.notes:
            item = self.marked(part, item)
        room = self.left.get(part.section, 0)
        if part.name not in self.placed:
            room -= self.heading_tokens(part)
        group = entry_group(item) if part.dated else None
        if group is not None:
            room -= self.date_tokens(part, group)
        room = room if most is None else min(room, most)
        if room < _LEAST_ENTRY:
            self.omit(item, part.section, item.cost, "budget", score, item.cost - room)
            return False
        lines, tokens, whole = item.form(tier, self.printer)
        if tokens > room and tokens > self._whole_room(part) and tier < 2:
            lines, tokens, whole = item.form(2, self.printer)
        if tokens > room:
            self.omit(item, part.section, tokens, "budget", score, tokens - room)
            return False
        if not self.needs.take_text(lines):
            self.omit(item, part.section, tokens, "limit", score)
            return False
        entry = entry_of(part, item, (lines, tokens, whole), score, source)
        if others:
            entry = self._standing_for(entry, others, whole=whole)
        self.put(part, entry, group, kind=item.kind)
        return True

    def _standing_for(self, entry: Entry, others: Sequence[Item], *, whole: bool) -> Entry:
        """The entry with the ids of others that have the same text: they are placed with it."""
        for one in others:
            self.stands(one.seq, whole=whole)
        ids = tuple(one.id for one in others)
        return entry._replace(
            events=(*entry.events, *(ids if whole else ())),
            parts=(*entry.parts, *(() if whole else ids)),
        )

    def _whole_room(self, part: BlockPart) -> int:
        return self.left.get(part.section, 0) + self.paid.get(part.section, 0)

    def omit(
        self, item: Item, section: str, tokens: int, reason: str, score: int = 0, short_by: int = 0
    ) -> None:
        """Note why a candidate is not in the block; a later reason replaces an earlier one."""
        seq = item.seq
        if seq not in self.seqs:
            self.omitted[seq] = (item, section, tokens, reason, score, short_by)
            self.passed.pop(seq, None)

    def omit_unread(self, seq: int, why: tuple[Item | None, str, int, str, int, int]) -> None:
        """`omit` for an event of which only the seq is known: (None, section, tokens, ...)."""
        if seq not in self.seqs:
            self.omitted[seq] = why
            self.passed.pop(seq, None)

    def omit_all(self, items: Iterable[Item], section: str, reason: str) -> None:
        """`omit` for many that are left out for one reason, independent of room."""
        placed, omitted, passed = self.seqs, self.omitted, self.passed
        for item in items:
            seq = item.seq
            if seq not in placed:
                if not item.final:  # else its cost would say whether an earlier pack has counted it
                    item.finish(self.counter)
                omitted[seq] = (item, section, item.cost, reason, 0, 0)
                passed.pop(seq, None)

    def is_repeated(self, seq: int) -> bool:
        """Whether an event was left out because what is placed says the same."""
        found = self.omitted.get(seq)
        return found is not None and found[3] == "duplicate"

    def pass_over(self, reasons: dict[int, str]) -> None:
        """Note the reasons why events, by seq, are left out, without listing them."""
        for seq in reasons.keys() & self.seqs:
            del reasons[seq]
        self.passed.update(reasons)

    def entries(self) -> list[tuple[BlockPart, list[tuple[str, Entry]]]]:
        """The parts in the order of the block, each with its entries as they print.

        Before an entry stands its date line where it begins a group, else "".
        """
        own = [part for name, part in self.parts.items() if name not in self.laid]
        fixed = [part for name, part in self.laid.items() if name in self.placed]
        # Sections that a policy added come before expansions and evidence in the tail.
        cut = next(
            (at for at, part in enumerate(fixed) if part.name in ("expansions", "found")),
            len(fixed),
        )
        return [(part, self._printed(part)) for part in (*fixed[:cut], *own, *fixed[cut:])]

    def _printed(self, part: BlockPart) -> list[tuple[str, Entry]]:
        placed = self.placed[part.name]
        ordered = sorted(placed, key=_log_order) if part.ordered else placed
        if self.notes and part.ordered and self.laid.get(part.name, part).area in _NEWER_FIRST:
            ordered = self._newer_first(ordered)
        if not part.dated:
            return [("", entry) for entry in ordered]
        of = self.group
        newest = [entry for entry in ordered if of[entry.seq].order]
        groups: dict[EntryGroup, list[Entry]] = {}
        for entry in (*reversed(newest), *(e for e in ordered if not of[e.seq].order)):
            groups.setdefault(of[entry.seq], []).append(entry)
        return [
            ("" if at else group.line, entry)
            for group, entries in groups.items()
            for at, entry in enumerate(entries)
        ]

    def _newer_first(self, entries: list[Entry]) -> list[Entry]:
        """Each statement that contradicts an older one before that, where both are among these."""
        here = {entry.seq for entry in entries}
        first: dict[int, int] = {}  # the oldest of those that contradict each other
        for seq in sorted(here):
            note = self.notes.get(seq)
            rival = seq if note is None or note.older not in here else note.older
            first[seq] = first.get(rival, seq)
        return sorted(entries, key=lambda entry: (first[entry.seq], -entry.seq))


def _log_order(entry: Entry) -> int:
    return entry.seq


def says_nothing(item: Item) -> bool:
    """Whether an entry of the event would be its label alone, and the label no news."""
    if item.text.strip() or item.kind in ("task", "artifact"):
        return False
    return item.kind != "tool_result" or item.status != "error"


def entry_of(
    part: BlockPart, item: Item, form: tuple[str, int, bool], score: int = 0, source: str = "event"
) -> Entry:
    """The entry of one event, whole or in part."""
    lines, tokens, whole = form
    whole_of = (item.id,) if whole else ()
    part_of = () if whole else (item.id,)
    return Entry(
        part.section,
        part.place,
        lines,
        tokens,
        score,
        whole_of,
        part_of,
        source,
        part.area,
        item.seq,
    )


# How many tokens each section may spend: a matter of the budget and the policy alone.
#
# A room that moved with its neighbours' leftovers would move the block's prefix with it.

_LADDER: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
# Below this a block follows the room that is there, not a ladder: its prefix may move.
STEADY_FROM: Final = 1000
# Below this not even the begin and end line are worth their tokens.
FRAMED_FROM: Final = 200
_PPM: Final = 1_000_000
# Half of the shares that memplane ships: what no other section takes where priorities divide.
_FLOORS: Final = {"retrieved_evidence": 160_000, "recent_window": 140_000}


class Rooms(NamedTuple):
    """Tokens a section: `room` is what it may spend, `cap` its max_tokens."""

    room: dict[str, int]
    cap: dict[str, int]
    share_ppm: dict[str, int]


def budget_of(asked: int | None, budgets: Budgets) -> int:
    """The tokens of the whole block: the budget asked for, at most the total less the reserve.

    Raises BudgetError for a budget of 0 or less, or another type than a whole number.
    """
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    if asked is None:
        return min(budgets.default_pack_tokens, most)
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise BudgetError(f"expected a whole number of tokens, found {asked!r}", where="budget")
    if asked <= 0:
        rule = f"expected 1 token or more ({most} count of it at most)"
        raise BudgetError(f"{rule}, found {asked}", where="budget")
    return min(asked, most)


def ladder(budget: int, most: int) -> int:
    """The budget rounded down, so that 4,000 and 4,100 tokens share a layout."""
    if budget >= most:
        return most
    fitting = [step * 1000 for step in _LADDER if step * 1000 <= budget]
    return fitting[-1] if fitting else budget


def rooms(
    budgets: Budgets,
    holding: Collection[str],
    tokens: int,
    *,
    lone: bool = False,
    orient: bool = False,
) -> Rooms:
    """Divide `tokens` among the sections in `holding` by their shares; all 0 means equal parts.

    Where the file names no share the priorities divide them. `lone`: the block is for a query
    without a session. `orient`: for a reader that has just come.
    """
    sections = [section for section in budgets.sections if section.name in holding]
    caps = {section.name: section.max_tokens for section in sections}
    if budgets.by_priority and not orient:
        room = _by_priority(sections, tokens, budgets.by_priority, lone=lone)
        return Rooms(room, caps, {name: of * _PPM // max(1, tokens) for name, of in room.items()})
    weights = [section.weight_of(lone=lone, orient=orient) for section in sections]
    if not any(weights):
        weights = [1] * len(sections)
    total = sum(weights)
    share = {
        section.name: weight * _PPM // total
        for section, weight in zip(sections, weights, strict=True)
    }
    room = {name: min(most, share[name] * tokens // _PPM) for name, most in caps.items()}
    return Rooms(room, caps, share)


def _by_priority(
    sections: Sequence[SectionBudget], tokens: int, named: Collection[str], *, lone: bool
) -> dict[str, int]:
    """By falling priority, to each at most half of what is left above the floors.

    Evidence and the recent window have floors, for their priorities are low and all others could
    take everything before them. Sections that are not `named` keep the shares of their defaults.
    """
    floors = {}
    for section in sections:
        share = _FLOORS.get(section.name, 0)
        if section.name not in named:
            share = section.weight_of(lone=lone)
        floors[section.name] = min(section.max_tokens, share * tokens // _PPM)
    left = max(0, tokens - sum(floors.values()))
    room = dict.fromkeys((section.name for section in sections), 0)
    for section in sorted(sections, key=lambda one: -one.priority):  # stable: the file's order
        floor, taken = floors[section.name], 0
        # To a question without a session the map is no answer. Expansions take from evidence.
        if section.name in named and not (lone and section.name == "system_map"):
            taken = min(section.max_tokens - floor, left // 2)
        room[section.name] = floor + (taken if section.name != "expansions" else 0)
        left -= room[section.name] - floor
    return room


def is_task_of(sheet: Sheet, text: str) -> bool:
    """Whether what the block says of a task has a text, or it is called by most of that."""
    letters_of = recall_gate.letters_of
    said = letters_of(text.lower())
    for entry in sheet.placed.get("tasks", ()):
        head = entry.text.partition("\n")[0]
        title = head.partition(": ")[2].partition(" \u2026")[0].partition(". ")[0]
        name = letters_of(title.lower())
        if said in letters_of(entry.text.lower()):
            return True
        if name and name in said and 2 * len(said) < 3 * len(name):
            return True
    return False


FORM: Final = 3  # of a block's lines: raised where the same entries are printed otherwise
BEGIN = "memplane:begin\n"
_END = "memplane:end "
_END_LINE: Final = regex(r"memplane:end ([0-9a-f]{16})\n\Z")
_DATE: Final = regex(r"(\d{4}-\d\d-\d\d)(?:, newest first)?", re.ASCII)
_LABEL: Final = regex(r"(.+?): ")
_CITED: Final = regex(
    r" #(\d{1,18})(?: \d{4}-\d\d-\d\d)?(?: \(differs [^()]*\))?(?: \(stale\))?\Z", re.ASCII
)
_VIEWS: Final = frozenset(("identity", "rules"))
_REMEDY: Final = "give the text of a block as `pack` made it, whole and unchanged"


class Rendered(NamedTuple):
    """The block's text and where its areas end: area -> (byte, tokens) behind its last line.

    `at` has the byte and the token at which each of the entries starts.
    """

    text: str
    tokens: int
    frame: int
    entries: tuple[Entry, ...]
    ends: dict[str, tuple[int, int]]
    at: tuple[tuple[int, int], ...]


def frame_reserve(counter: TokenCounter) -> int:
    """The most tokens that the begin and end line can cost."""
    # No 16 hexadecimal digits and the blank before them cost more than 17 words of their own.
    return counter.count(BEGIN) + counter.count(f"{_END}{' a' * 17}\n")


def render_block(
    parts: list[tuple[BlockPart, list[tuple[str, Entry]]]],
    counter: TokenCounter,
    frame: int,
    *,
    framed: bool,
) -> Rendered:
    """Join the parts in order, each entry behind its date line where it has one.

    `frame` is what headings, fences and date lines cost; the marks come on top.
    """
    pieces: list[str] = []
    ends: dict[str, tuple[int, int]] = {}
    at: list[tuple[int, int]] = []
    byte = len(BEGIN.encode()) if framed else 0
    tokens = counter.count(BEGIN) if framed else 0
    entries: list[Entry] = []
    for part, placed in parts:
        opening = f"{part.heading}\n{FENCE if part.fenced else ''}"
        closing = FENCE if part.fenced else ""
        pieces.append(opening)
        byte += len(opening.encode())
        tokens += counter.count(opening)
        for dated, entry in placed:
            if dated:
                pieces.append(dated)
                byte += len(dated)
                tokens += counter.count(dated)
            at.append((byte, tokens))
            pieces.append(entry.text)
            byte += len(entry.text.encode())
            tokens += entry.tokens
        pieces.append(closing)
        byte += len(closing)
        tokens += counter.count(closing)
        entries += [entry for _, entry in placed]
        ends[part.area] = (byte, tokens)
    body = "".join(pieces)
    if not framed or not body:
        return Rendered(body, tokens if body else 0, frame, tuple(entries), ends, tuple(at))
    end = f"{_END}{hashlib.sha256(body.encode()).hexdigest()[:16]}\n"
    marks = counter.count(BEGIN) + counter.count(end)
    tokens += counter.count(end)
    text = BEGIN + body + end
    return Rendered(text, tokens, frame + marks, tuple(entries), ends, tuple(at))


class ParsedEntry(NamedTuple):
    """One entry of a block's text.

    `text` is its lines as printed, equal to `Entry.text`. `label` names the speaker or kind; None
    for a view. `said` is the text without label, margin and the mark of a cut. `date` is the day of
    the line above its group, in UTC; `seq` the event that the label or the mark of a passage names,
    0 for none; `handle` opens the rest of an entry that was cut.
    """

    section: str
    text: str
    label: str | None
    said: str
    date: str | None
    seq: int
    handle: str | None


class ParsedSection(NamedTuple):
    """A heading of a block and the entries under it. Several headings may share a section."""

    section: str
    heading: str
    entries: tuple[ParsedEntry, ...]


class ParsedBlock(NamedTuple):
    """A block as read back from its text. `checksum` verified; None for a block without marks."""

    sections: tuple[ParsedSection, ...]
    checksum: str | None

    @property
    def entries(self) -> tuple[ParsedEntry, ...]:
        """The entries of all sections, in the order of the block."""
        return tuple(entry for section in self.sections for entry in section.entries)


def parse_block(text: str) -> ParsedBlock:
    """Read a block back from its text alone, in O(n): sections, and the entries under each.

    These are exactly the entries that were placed (`Block.entries`): no recorded text can add, hide
    or move one. Raises InputError for another text: marks that are cut or do not verify, or a line
    that cannot be in a block.
    """
    if not isinstance(text, str):
        raise unexpected("the text of a block", text, "text")
    body, checksum = _unframed(text)
    reading = _Reading()
    if body and not body.endswith("\n"):
        raise _no_block(body.count("\n") + (checksum is not None) + 1, "a line without its end")
    for number, line in enumerate(body.split("\n")[:-1], 1 if checksum is None else 2):
        reading.take(line, number)
    return ParsedBlock(reading.done(), checksum)


def _unframed(text: str) -> tuple[str, str | None]:
    """The lines between the marks, and the checksum that they have; the text where none are."""
    if not text.startswith(BEGIN):
        return text, None
    end = _END_LINE.search(text, max(0, len(text) - 64))
    body = text[len(BEGIN) : end.start()] if end is not None else ""
    if end is None:
        raise InputError(f"found no end mark; {_REMEDY}", where="last line")
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if digest != end[1]:
        raise InputError(
            f"found lines of checksum {digest}, expected {end[1]} as it stands there: they were "
            f"changed; {_REMEDY}",
            where="last line",
        )
    return body, end[1]


class _Reading:
    """The lines of a block as they come."""

    def __init__(self) -> None:
        self._sections: list[tuple[BlockPart, list[ParsedEntry]]] = []
        self._date: str | None = None
        self._lines: list[str] = []  # of the open entry
        self._fenced = False

    def take(self, line: str, number: int) -> None:
        if self._lines and (not line or line[0] == " "):
            self._lines.append(line)
            return
        self._close()
        if line.startswith("## ") and not self._fenced:
            self._open(line, number)
        elif not self._sections or not line or line[0] == " ":
            raise _no_block(number, quoted_value(line))
        elif self._sections[-1][0].fenced and f"{line}\n" == FENCE:
            self._turn_fence(number)
        elif self._sections[-1][0].fenced and not self._fenced:
            raise _no_block(number, quoted_value(line))
        elif self._sections[-1][0].dated and (date := _DATE.fullmatch(line)) is not None:
            self._date = date[1]
        else:
            self._lines = [line]

    def done(self) -> tuple[ParsedSection, ...]:
        self._close()
        if self._fenced:
            raise InputError(f"found no end of a fence; {_REMEDY}", where="last line")
        return tuple(
            ParsedSection(part.section, part.heading, tuple(entries))
            for part, entries in self._sections
        )

    def _open(self, heading: str, number: int) -> None:
        if self._sections and not self._sections[-1][1]:
            raise _no_block(number, "a heading right below another")
        self._sections.append((part_under(heading), []))
        self._date = None

    def _turn_fence(self, number: int) -> None:
        if self._fenced != bool(self._sections[-1][1]):
            raise _no_block(number, "a fence out of place")
        self._fenced = not self._fenced

    def _close(self) -> None:
        if self._lines:
            part, entries = self._sections[-1]
            entries.append(_entry_of(part, self._lines, self._date))
            self._lines = []


def _entry_of(part: BlockPart, lines: list[str], date: str | None) -> ParsedEntry:
    text = "\n".join([*lines, ""])
    cut = HANDLE.search(lines[-1])
    if cut is not None:
        lines = [*lines[:-1], *filter(None, [lines[-1][: cut.start()]])]
    handle = None if cut is None else cut[1] or cut[2]
    own = is_own_part(part)
    viewed = own_view(lines, beside_events=own) if own or part.name in _VIEWS else None
    label = _LABEL.match(lines[0]) if viewed is None else None
    if label is None:
        said = viewed if viewed is not None else "\n".join(lines)
        return ParsedEntry(part.section, text, None, said, date, 0, handle)
    said = "\n".join([lines[0][label.end() :], *map(own_text, lines[1:])])
    cited = _CITED.search(label[1])
    seq = cited[1] if cited is not None else handle[1:] if handle and handle[0] == "#" else "0"
    return ParsedEntry(part.section, text, label[1], said, date, int(seq), handle)


def _no_block(number: int, found: str) -> InputError:
    return InputError(f"found {found}, which no block has there; {_REMEDY}", where=f"line {number}")


# Marks of coding agents in recorded text are defused, so that no client takes it for its own words.
#
# Agents put their own messages between marks and trust what is between them; models are trained on
# others. A page that a tool once fetched may hold such marks, and comes back in a block.

_MARKS: Final = (
    r"/?(?:system-reminder|system|command-[a-z]+|local-command-[a-z]+|task-notification"
    r"|user-prompt-submit-hook|bash-[a-z]+|environment_context|user_instructions)\b|\|/?[a-z_]+\|"
)
_MARK: Final = regex(rf"<(?={_MARKS})", re.IGNORECASE | re.ASCII)
_READS_SO: Final = regex(rf"<(?:{_MARKS})", re.ASCII)
_LIKE: Final = "<\uff1c\ufe64\u2039\u3008\u2329"
# Only where the next character begins a mark, or could hide its beginning.
_OPENS: Final = regex(rf"[{_LIKE}](?=[|/bceltu s]|[^!-~])", re.IGNORECASE)
_REACH: Final = 600  # characters from the opening on that are looked at
_LONGEST: Final = 32  # of a mark in which nothing unseen stands
_CONTROLS: Final = regex(r"[\x00-\x08\x0b-\x1f\x7f]")


def defused(text: str) -> str:
    """The text with a blank in each such mark, so that a client does not take it for one."""
    if text.isascii():
        if "<" not in text:
            return text
        return (_OPENS.sub if _CONTROLS.search(text) else _MARK.sub)(_parted, text)
    return _OPENS.sub(_parted, text) if any(one in text for one in _LIKE) else text


def _parted(opens: re.Match[str]) -> str:
    start = opens.start()
    read = opens.string[start : start + _LONGEST].lower()
    if not (read.isascii() and read.isprintable()):
        read = skeleton(opens.string[start : start + _REACH])
    return f"{opens[0]} " if _READS_SO.match(read) else opens[0]
