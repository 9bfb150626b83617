"""The story of one event in one pack, as records: from the line of the log to its place or reason.

JSON and words are made of the same fields. A story holds no text of the event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = [
    "HIDDEN", "NAMING", "WINDOW", "Allocated", "Gone", "Held", "LeftOut", "Logged", "Memory",
    "Placed", "Scored", "Smallest", "Sourced", "Story", "Why",
]  # fmt: skip

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


class Held(NamedTuple):
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


class Scored(NamedTuple):
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


class Placed(NamedTuple):
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

    def bare(self) -> Placed:
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


class Smallest(NamedTuple):
    """The smallest budget above the pack's own at which the event comes in, whole or as a part.

    `budget` None: none was found. No budget below `not_below` brings the event in; where `exact`,
    `budget` is the smallest there is, or there is none up to `most`. At `budget` less one the event
    is not in, exact or not. `fits` is how many packs were made to find it.
    """

    budget: int | None
    how: str
    section: str
    exact: bool
    not_below: int
    most: int
    fits: int
    why: str = ""

    def words(self) -> str:
        tried = f"{self.fits} packs tried" if self.fits != 1 else "1 pack tried"
        if self.why:
            return self.why
        if self.budget is None:
            if self.exact:
                return f"none up to {self.most} tokens, which is the most there is; {tried}"
            return f"not below {self.not_below} tokens; {tried}"
        found = f"{self.budget} tokens: {self.how}, in {self.section}"
        if self.exact:
            return f"{found}; {tried}"
        return f"not below {self.not_below}; the smallest of those tried is {found}; {tried}"


class Story(NamedTuple):
    """One event in one pack, step by step. `outcome`: `placed`, `named` or `left_out`.

    `allocated` has every section that showed it or turned it away.
    """

    id: str
    outcome: str
    logged: Logged
    held: Held
    sourced: Sourced
    scored: Scored | str  # why it has no score, where it has none
    allocated: tuple[Allocated, ...]
    places: tuple[Placed, ...]
    left_out: tuple[LeftOut, ...]
    smallest: Smallest | None = None

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
            "smallest": _plain(self.smallest),
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
        if self.smallest is not None:
            yield _line("smallest", self.smallest.words())


class Why(NamedTuple):
    """What `why` answers: the stories of what was asked about, in the pack of a report.

    `same`: the block that was made again to tell them is the saved one, byte for byte; else `note`
    says what is known of that. `entry` has the fields of the entry, where one was asked about.
    """

    report: str
    same: bool
    note: str
    entry: dict[str, Any] | None
    stories: tuple[Story, ...]

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
