"""The projections of an open plane, caught up with the log or as of an earlier seq.

`SnapshotLog` is the log as it was at the last catch-up, so that one request reads one prefix;
`Folds` holds all projections over it; `Seen` is what one reader may see of them.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from memplane.harness import remembered, remembered_lines, remembered_text, variant_with
from memplane.lazy import NamedTuple, late, late_calls
from memplane.ports import Line, Position, TokenCounter
from memplane.projections.artifacts import Artifacts, ArtifactTable
from memplane.projections.files import AllFiles, AllFilesState
from memplane.projections.hotset import Hotsets, HotsetsState, HotsetState, without_gaps
from memplane.projections.item import Item
from memplane.projections.ledger import (
    Cards,
    Decisions,
    Ledgers,
    LedgersProjector,
    Statement,
    statement_item,
)
from memplane.projections.memories import ACTS_NAME, Memories
from memplane.projections.projector import (
    Bundle,
    Folded,
    Follower,
    Replayable,
    catch_up,
    folded_seq,
)
from memplane.projections.system_map import MapsState, MapState, PlaneMaps
from memplane.projections.tasks import ProjectTasks, Tasks, TaskTables, lines_of, owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from memplane.event import Event
    from memplane.log import FileLog
    from memplane.pack import expansion_depths as pack_expansion_depths
    from memplane.policy.records import EpisodeRules
    from memplane.projections import sessions as projections_sessions
    from memplane.projections.digests import Digests, DigestsState
    from memplane.projections.groups import Sees, VisibilityGroup
    from memplane.projections.sessions import (
        EpisodesProjector,
        EpisodesState,
        SessionsProjector,
        SessionsState,
    )
    from memplane.projections.tasks import TaskRecord, TaskTable
else:
    pack_expansion_depths = late("memplane.pack.expansion_depths")
    projections_sessions = late("memplane.projections.sessions")
    (Digests,) = late_calls("memplane.projections.digests", "Digests")
    (SessionsProjector,) = late_calls("memplane.projections.sessions", "SessionsProjector")


class RememberedLog:
    """The log without what clients add to texts (see `memplane.harness`)."""

    def __init__(self, log: Replayable) -> None:
        self._log = log

    def head(self) -> Position:
        return self._log.head()

    def matches(self, position: Position) -> bool:
        return self._log.matches(position)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        return remembered_lines(self._log.read(after, upto))

    def read_from(self, position: Position) -> Iterator[Line]:
        return remembered_lines(self._log.read_from(position))

    def may_be_purged_behind(self, position: Position) -> bool:
        return self._log.may_be_purged_behind(position)


class SnapshotLog:
    """A snapshot of the log: it ends at the head that the last call of `move` found.

    So all that a request reads is one prefix of the log, also what is opened late or folded again.
    """

    def __init__(self, log: Replayable) -> None:
        self._log = log
        self._head: Position | None = None  # before the first move the log is as it is

    def move(self) -> None:
        """Move the snapshot to the end of the log."""
        self._head = self._log.head()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The log without a snapshot: for saving, since others may have saved later states."""
        head, self._head = self._head, None
        try:
            yield
        finally:
            self._head = head

    def head(self) -> Position:
        return self._log.head() if self._head is None else self._head

    def matches(self, position: Position) -> bool:
        if self._head is not None and position.seq > self._head.seq:
            return False
        return self._log.matches(position)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        if self._head is None:
            return self._log.read(after, upto)
        return self._log.read(after, self._head.seq if upto is None else min(upto, self._head.seq))

    def read_from(self, position: Position) -> Iterator[Line]:
        lines = self._log.read_from(position)
        return lines if self._head is None else _until(lines, self._head.seq)

    def may_be_purged_behind(self, position: Position) -> bool:
        return self._log.may_be_purged_behind(position)


def _until(lines: Iterator[Line], last: int) -> Iterator[Line]:
    for line in lines:
        if line.event.seq > last:
            return
        yield line


# The projections of a plane, caught up together, as of now or as of an earlier seq.
class Prefix:
    """A log up to a seq, for folding, as if nothing were behind it."""

    def __init__(self, log: Replayable, upto: int) -> None:
        self._log, self._upto = log, upto
        self._head: Position | None = None
        # What `advance` has read, behind which place, and the first line that is not yet there.
        self._fresh: tuple[Position, list[Line]] | None = None
        self._source: Iterator[Line] = iter(())
        self._next: Line | None = None

    def head(self) -> Position:
        if self._head is None:
            # A damaged line has no seq: the head is the last good one before it.
            last = None
            for seq in range(self._upto, 0, -1):
                last = next(iter(self._log.read(seq - 1, seq)), None)
                if last is not None:
                    break
            self._head = Position(0, "", 0, 0) if last is None else last.position
        return self._head

    def advance(self, upto: int) -> None:
        """Extend the prefix to `upto`, reading on, so that each line is verified once."""
        before = self.head()
        fresh = self._read_on(before, upto)
        self._fresh, self._upto = (before, fresh), upto
        if fresh:
            self._head = fresh[-1].position

    def _read_on(self, before: Position, upto: int) -> list[Line]:
        """The lines behind a place, to a seq."""
        if self._next is None:
            self._source = self._log.read_from(before) if before.seq else self._log.read()
            self._next = next(self._source, None)
        fresh: list[Line] = []
        while self._next is not None and self._next.event.seq <= upto:
            fresh.append(self._next)
            self._next = next(self._source, None)
        return fresh

    def matches(self, position: Position) -> bool:
        return position.seq <= self._upto and self._log.matches(position)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        return self._log.read(after, self._upto if upto is None else min(upto, self._upto))

    def read_from(self, position: Position) -> Iterator[Line]:
        if self._fresh is not None and self._fresh[0] == position:
            yield from self._fresh[1]
            return
        for line in self._log.read_from(position):
            if line.event.seq > self._upto:
                return
            yield line

    def may_be_purged_behind(self, position: Position) -> bool:
        return self._log.may_be_purged_behind(position)


class Told:
    """Follows a log, to tell how far others that follow it have come."""

    def __init__(
        self, log: Replayable, position: Position | None, tell: Callable[[int, int], None]
    ) -> None:
        self.position, self._head, self._tell = position, log.head().seq, tell

    def fold(self, lines: Sequence[Line]) -> None:
        self.position = lines[-1].position
        self._tell(self.position.seq, self._head)

    def reset(self) -> None:
        self.position = None


# Behind so many lines a checkpoint is worth what it costs: near half a second, of some ten.
_SAVED_EVERY: Final = 1 << 18


class Saver:
    """Follows a log that others follow, to keep what they have folded of a long stretch of it.

    A process that is killed over millions of lines then does not begin again from the first.
    """

    def __init__(
        self, log: SnapshotLog, position: Position | None, save: Callable[[], object]
    ) -> None:
        self.position, self._log, self._save = position, log, save
        self._saved = folded_seq(self)

    def fold(self, lines: Sequence[Line]) -> None:
        self.position = lines[-1].position
        if self.position.seq - self._saved < _SAVED_EVERY:
            return
        self._saved = self.position.seq
        # Before a purge nothing is kept, and to find that out would read all lines up to it.
        if not self._log.may_be_purged_behind(self.position):
            with self._log.moving():
                self._save()

    def reset(self) -> None:
        self.position, self._saved = None, 0


_RULES_KEPT: Final = 4  # sets of rules of episodes that are followed at once

# Checkpoints that every pack needs, small enough to be read together.
BUNDLED: Final = (
    "decisions.json",
    "cards.json",
    "tasks.json",
    "plane_map.json",
    "artifacts.json",
    ACTS_NAME,
)


class Folds:
    """All projections over one log; `folder` None: in memory only.

    Sessions, files and digests open on demand, all others at once. `keeps`: what a long stretch of
    the log became is written before all of it is read.
    """

    def __init__(
        self,
        log: Replayable,
        folder: Path | None,
        plane_id: str,
        counter: TokenCounter,
        variant: str,
        *,
        keeps: bool = False,
    ) -> None:
        # One prefix for all of a request; that of an earlier seq stands still anyway.
        self.log = log = log if isinstance(log, Prefix) else SnapshotLog(RememberedLog(log))
        self.variant = variant  # names the counter and its scale: another one is another fold
        variant, plain = variant_with(variant), variant_with("")
        self.bundle = Bundle(folder, plane_id, BUNDLED)
        self.memories = memories = Memories(log, folder, plane=plane_id, reads=self.bundle.read)
        self.hotset: Folded[HotsetsState] = Folded(
            Hotsets(counter),
            log,
            folder,
            plane=plane_id,
            variant=variant,
            arriving=memories.arriving,
        )
        opened = partial(Folded, log=log, folder=folder, plane=plane_id, reads=self.bundle.read)
        in_force = partial(opened, arriving=memories.arriving)
        self.decisions: Folded[Ledgers] = in_force(
            LedgersProjector(Decisions, counter=counter), variant=variant
        )
        self.cards: Folded[Ledgers] = in_force(
            LedgersProjector(Cards, counter=counter), variant=variant
        )
        self.tasks: Folded[TaskTables] = in_force(ProjectTasks(), variant=plain)
        self.plane_map: Folded[MapsState] = in_force(PlaneMaps(), variant=plain)
        self.artifacts: Folded[ArtifactTable] = opened(Artifacts())
        self._sessions: Folded[SessionsState] | None = None  # until somebody asks for them
        self._files: Folded[AllFilesState] | None = None  # likewise
        self._digests: Folded[DigestsState] | None = None
        self._episodes: dict[str, Folded[EpisodesState]] = {}  # likewise, by their rules
        self.of_tasks: dict[tuple[str, str], OfTask] = {}  # for who expands a task
        self._place = (folder, plane_id, counter)
        self._keeps = keeps
        self._caught: Position | None = None  # where all stood when they were caught up last
        # Items of the statements in force, by ledger: as of which seq, and by theirs.
        self._items: dict[str, tuple[int, dict[int, Item]]] = {}
        self._stated: tuple[object, Stated] | None = None  # of whom, as of which place

    @property
    def sessions(self) -> Folded[SessionsState]:
        """The sessions, caught up: opened at the first use, and folded on from then."""
        if self._sessions is None:
            folder, plane, counter = self._place
            self._sessions = Folded(
                SessionsProjector(counter),
                self.log,
                folder,
                plane=plane,
                variant=variant_with(self.variant),
            )
            self._fold_alone(self._sessions)
        return self._sessions

    @property
    def sessions_opened(self) -> bool:
        """Whether the sessions are open: then only what was appended is read."""
        return self._sessions is not None

    @property
    def files(self) -> AllFilesState:
        """The files view, caught up: opened at the first use, and folded on from then."""
        self.open_files()
        assert self._files is not None
        self._fold_alone(self._files)
        return self._files.state

    @property
    def files_opened(self) -> bool:
        """Whether the files view is open: then only what was appended is read."""
        return self._files is not None

    def open_files(self) -> Position | None:
        """Open the files view; return its position. Not caught up."""
        if self._files is None:
            folder, plane, _ = self._place
            self._files = Folded(
                AllFiles(),
                self.log,
                folder,
                plane=plane,
                variant=variant_with(""),
                arriving=self.memories.arriving,
            )
        return self._files.position

    def episodes(self, rules: EpisodeRules) -> tuple[EpisodesState, EpisodesProjector]:
        """The episodes under these rules, caught up, and their projector.

        Opened at the first use, and kept up with then. One checkpoint is kept, that of the rules
        that were asked for first.
        """
        found = self._episodes.get(rules.variant)
        if found is None:
            while len(self._episodes) >= _RULES_KEPT:
                del self._episodes[list(self._episodes)[1]]
            folder, plane, counter = self._place
            found = self._episodes[rules.variant] = Folded(
                projections_sessions.EpisodesProjector(rules, counter),
                self.log,
                None if self._episodes else folder,
                plane=plane,
                variant=f"{variant_with(self.variant)}, {rules.variant}",
            )
            self._fold_alone(found)
        return found.state, cast("EpisodesProjector", found.projector)

    @property
    def digests(self) -> DigestsState:
        """What digests of sessions are made of, caught up: opened at the first use."""
        opened = self.open_digests()
        self._fold_alone(opened)
        opened.state.settle()  # by who holds the plane's lock, before anybody reads it
        return opened.state

    @property
    def digests_opened(self) -> bool:
        """Whether the digests are open: then only what was appended is read."""
        return self._digests is not None

    def open_digests(self) -> Folded[DigestsState]:
        """Open the digests. Not caught up."""
        if self._digests is None:
            folder, plane, _ = self._place
            self._digests = Folded(
                Digests(), self.log, folder, plane=plane, variant=variant_with("")
            )
        return self._digests

    def _fold_alone(self, *late: Folded[Any]) -> None:
        """Catch up some that were opened on demand."""
        if late:
            first = min(late, key=folded_seq)
            savers = self._savers(first.position, lambda: [one.save() for one in late])
            catch_up(self.log, [*late, *savers])

    def _savers(self, position: Position | None, save: Callable[[], object]) -> list[Follower]:
        if not self._keeps or not isinstance(self.log, SnapshotLog):
            return []
        return [Saver(self.log, position, save)]

    @property
    def _opened(self) -> list[Folded[Any]]:
        lazy = (self._sessions, self._files, self._digests, *self._episodes.values())
        return [one for one in lazy if one is not None]

    @property
    def followers(self) -> list[Follower]:
        return [
            self.memories,
            self.hotset,
            self.decisions,
            self.cards,
            self.tasks,
            self.plane_map,
            self.artifacts,
            *self._opened,
        ]

    def catch_up(
        self,
        progress: Callable[[int, int], None] | None = None,
        *,
        for_all: bool = True,
        beside: Sequence[Follower] = (),
    ) -> int:
        """Fold what was appended since; return the lines read. `progress` is told the seqs.

        `for_all`: where all of the log is folded, also into files and digests. Those `beside` are
        shown the lines too: to read and verify them again would cost as much as some of the folds.
        """
        if isinstance(self.log, SnapshotLog):
            self.log.move()
        if self._caught is not None and self.log.head() == self._caught:
            return 0
        self._caught = None  # for as long as an interruption would leave them apart
        if for_all and self.hotset.position is None and self._place[0] is not None:
            self.open_files()  # one pass over the log is to do for all
            self.open_digests()
        others = [*beside, *self._savers(self.hotset.position, self._save)]
        if progress is not None:
            others.append(Told(self.log, self.hotset.position, progress))
        read = catch_up(self.log, [*self.followers, *others])
        at = {one.position for one in self.followers}
        self._caught = at.pop() if len(at) == 1 else None
        return read

    def lines_behind(self, *, digests: bool = False) -> int:
        """How many lines of the log the one furthest behind has to fold; `digests`: them too."""
        if digests:
            self.open_digests()
        return self.log.head().seq - min(map(folded_seq, self.followers))

    @property
    def outdated(self) -> list[str]:
        """The files of these projections that another version of memplane wrote."""
        bounded: list[Folded[Any]] = [
            self.hotset,
            self.decisions,
            self.cards,
            self.tasks,
            self.plane_map,
            self.artifacts,
            *self._opened,
        ]
        found = [f"{one.projector.name}.json" for one in bounded if one.outdated]
        return found + ["cache.sqlite"] * self.memories.outdated

    @property
    def unsaved(self) -> int:
        """Events folded since the last checkpoint."""
        lazy = (one.unsaved for one in self._opened)
        return max(self.hotset.unsaved, self.memories.unsaved, *lazy)

    def save(self, lines_max: int | None = None) -> bool:
        """Write all checkpoints; False where one of them could not be written.

        With those of files and digests, which are opened on demand, where no more than `lines_max`
        lines are to be folded for them: to fold these costs as much as all others together.
        """
        # Who saves has read much: the next pack that needs them finds these near the head.
        head = self.log.head().seq
        if lines_max != 0:
            self.open_files()
            self.open_digests()
        both = [one for one in (self._files, self._digests) if one is not None]
        near = [one for one in both if lines_max is None or head - folded_seq(one) <= lines_max]
        self._fold_alone(*near)  # in one pass: to read costs as much as to fold
        # Others may have saved more meanwhile: that is not written over.
        with self.log.moving() if isinstance(self.log, SnapshotLog) else nullcontext():
            saved = self._save()
        self.bundle.keep()
        return saved

    def _save(self) -> bool:
        saved = [
            self.hotset.save(self._active()),
            self.decisions.save(),
            self.cards.save(),
            self.memories.save(),
        ]
        saved += [self.tasks.save(), self.plane_map.save(), self.artifacts.save()]
        saved += [one.save() for one in self._opened if one.position is not None]
        return all(saved)

    def _active(self) -> dict[str, list[str]]:
        """Ids of the tasks that are active somewhere, by when they became so, and of decisions."""
        tables = self.tasks.state.tables.values()
        active = [one for table in tables for one in table.active.values()]
        tasks = sorted(active, key=lambda one: one[1])
        return {
            "tasks": list(dict.fromkeys(id_ for id_, _ in tasks)),
            "decisions": [statement.id for statement in self.decisions.state.active()],
        }

    def forget(self) -> None:
        """Drop what was derived from the states, because lines were erased."""
        self.of_tasks, self._items, self._stated = {}, {}, None

    def close(self) -> None:
        self.memories.close()

    @property
    def places(self) -> GroupedProjections:
        """The projections whose places are kept by what can hide an event."""
        return GroupedProjections(
            self.hotset.state,
            self.decisions.state,
            self.cards.state,
            self.plane_map.state,
            self.tasks.state,
        )

    def items(self, name: str, statements: list[Statement]) -> list[Item]:
        """The statements of a ledger as items, which carry their rendered forms from pack to pack.

        Those in force stay, the others go. `left`: of decisions that the ledger has no text of.
        """
        folded = self.cards if name == "cards" else self.decisions
        at = folded.position.seq if folded.position is not None else 0
        known = self._items.get(name)
        if known is None or known[0] != at:
            old = {} if known is None else known[1]
            state = folded.state
            known_now = state.left() if name == "left" else state.active()
            kept = {one.seq: old[one.seq] for one in known_now if one.seq in old}
            known = self._items[name] = (at, kept)
        made = known[1]
        items = []
        for statement in statements:
            item = made.get(statement.seq)
            if item is None:
                item = made[statement.seq] = statement_item(statement)
                if name == "left":
                    item.cost = (
                        statement.event.tokens or 0
                    )  # what is listed, for want of the entry's
            items.append(item)
        return items

    def stated(self, places: GroupedProjections, sees: Sees, reader: object) -> Stated:
        """Return what is in force for a reader; cached for `reader` while the log is unchanged.

        None: `places` are not those of these folds.
        """
        known, key = self._stated, (reader, self._caught)
        if known is not None and reader is not None and known[0] == key:
            return known[1]
        decisions, cards = places.decisions.active(sees), places.cards.active(sees)
        found = Stated(
            decisions=self.items("decisions", decisions),
            cards=self.items("cards", cards),
            pinned={one.seq: one.pinned_at for one in (*decisions, *cards) if one.pinned_at},
            left=self.items("left", places.decisions.left(sees)),
            left_more=places.decisions.more(sees),
            shed_seq=max(places.decisions.shed_seq(sees), places.cards.shed_seq(sees)),
            plane_map=places.plane_map.seen(sees),
            tasks=places.tasks.seen_by(sees),
        )
        if reader is not None and self._caught is not None:
            self._stated = key, found
        return found


class Stated(NamedTuple):
    """The statements in force for a reader, the map and the tasks. Read only."""

    decisions: list[Item]
    cards: list[Item]
    pinned: dict[int, int]  # statement -> seq of the pin that holds it
    left: list[Item]  # decisions in force that the ledger has no text of
    left_more: bool  # whether there may be more of these
    shed_seq: int
    plane_map: MapState
    tasks: TaskTable


class GroupedProjections(NamedTuple):
    """What was folded by groups of events that are open to the same readers."""

    hotset: HotsetsState
    decisions: Ledgers
    cards: Ledgers
    plane_map: MapsState
    tasks: TaskTables

    def missing(self, sees: Sees, named: tuple[str, ...]) -> set[VisibilityGroup]:
        """The groups that a reader sees and that only the log has whole: see `Groups.missing`."""
        return {group for one in self for group in one.missing(sees, named)}

    def filled(self, other: GroupedProjections) -> GroupedProjections:
        """These with the groups of another fold in place of their own."""
        return GroupedProjections(
            self.hotset.filled(other.hotset),
            self.decisions.filled(other.decisions),
            self.cards.filled(other.cards),
            self.plane_map.filled(other.plane_map),
            self.tasks.filled(other.tasks),
        )


def items_of_event(event: Event, counter: TokenCounter) -> Item:
    """One event as the packing stages see it."""
    event = remembered(event)
    tokens = event.tokens if event.tokens is not None else counter.count(event.text)
    return Item.of(event, tokens)


def text_of(log: FileLog) -> Callable[[Event], str]:
    """What gives all of an event's text as memory has it. It raises what `FileLog.text` does."""
    return lambda event: remembered_text(event, log.text(event))


class VisibleProjections(NamedTuple):
    """The projections as one reader sees them, independent of what is hidden from it.

    `gap`: the log is too long to read what is missing of it. `hidden` gives the items of what he
    does not see that could else be candidates, for counting them.
    """

    hotset: HotsetState
    decisions: list[Item]
    cards: list[Item]
    pinned: dict[int, int]  # statement -> seq of the pin that holds it
    left: list[Item]  # decisions in force that the ledger has no text of
    left_more: bool  # whether there may be more of these
    shed_seq: int
    plane_map: MapState
    tasks: TaskTable
    gap: bool
    hidden: Callable[[], Iterable[Item]]
    pins: list[tuple[Item, int]] = []  # noqa: RUF012 - never changed: what was pinned since the epoch


def seen_by(
    folds: Folds,
    places: GroupedProjections,
    hotset: HotsetState,
    sees: Sees,
    *,
    gap: bool,
    reader: object = None,
) -> VisibleProjections:
    """Return the projections for a reader, from `places` with missing groups filled in.

    `hotset` is the reader's; `reader` identifies it for caching where no group was missing.
    """
    stated = folds.stated(places, sees, reader)
    return VisibleProjections(
        hotset=hotset, **stated._asdict(), gap=gap, hidden=partial(_hidden, folds, sees)
    )


def _hidden(folds: Folds, sees: Sees) -> Iterator[Item]:
    """The items of all groups that a reader does not see, each once."""

    def hides(high: bool, space: str) -> bool:
        return not sees(high, space)

    places = folds.places
    grouped = (places.hotset, places.decisions, places.cards, places.plane_map)
    if not any(hides(*group) for one in grouped for group in one.groups):
        return  # as a rule
    items = dict(places.hotset.seen(hides).items)
    for name, ledgers in (("decisions", places.decisions), ("cards", places.cards)):
        for item in folds.items(name, ledgers.active(hides)):
            items.setdefault(item.seq, item)
    yield from items.values()


def group_fold(
    folds: Folds, groups: set[VisibilityGroup], counter: TokenCounter
) -> GroupedProjections:
    """Fold some groups from the log, for a request that sees groups not complete here."""

    def wanted(high: bool, space: str) -> bool:
        return (high, space) in groups

    parts: tuple[Any, ...] = (
        Hotsets(counter, only=wanted),
        LedgersProjector(Decisions, only=wanted),
        LedgersProjector(Cards, only=wanted),
        PlaneMaps(only=wanted),
        ProjectTasks(only=wanted),
    )
    states = [part.initial() for part in parts]
    for line in _in_force(folds):
        for part, state in zip(parts, states, strict=True):
            part.apply(state, line)
    return GroupedProjections(*states)


def files_fold(folds: Folds, groups: set[VisibilityGroup]) -> AllFilesState:
    """`group_fold` of the files view."""
    projector = AllFiles(only=lambda high, space: (high, space) in groups)
    state: AllFilesState = projector.initial()
    for line in _in_force(folds):
        projector.apply(state, line)
    return state


def session_fold(folds: Folds, session: str, counter: TokenCounter, sees: Sees) -> HotsetState:
    """Fold one session from the log as a reader sees it, for one that the hotset dropped."""
    projector = Hotsets(counter, only=sees)
    state = projector.initial()
    for line in _in_force(folds):
        event = line.event
        if event.session == session or event.kind in ("forget", "pin"):
            projector.apply(state, line)
        elif event.key is not None and event.kind != "session":
            # It may supersede a turn of the session, but is none: as a secret it is not kept.
            projector.apply(state, line._replace(event=event._replace(sensitivity="secret")))
    alone: HotsetState = state.seen()
    return alone


def task_fold(folds: Folds, task: str, space: str) -> TaskRecord | None:
    """Fold the log for one task with all its details, also of one that was closed long ago.

    `space`: the namespace of the project that has it, "" for none.
    """
    projector = Tasks(keep=task)
    state = projector.initial()
    for line in lines_of(_in_force(folds), space):
        projector.apply(state, line)
    return state.get(task)


def _in_force(folds: Folds) -> Iterator[Line]:
    """The lines of the log, as those projections fold them that know only what is in force."""
    for line in folds.log.read():
        yield from folds.memories.arriving((line,))


# Which events belong to a task: those that name it, and what happened while it was active there.
#
# To tell costs one pass over the log, remembered with the projections and carried on from there.
_KEPT: Final = 4  # tasks that are followed at once


class OfTask:
    """The seqs of a task's events, in log order; `facts` of the decisions and facts among them.

    `space`: the namespace of the project that has it, "" for none.
    """

    def __init__(self, name: str, space: str) -> None:
        self.name, self.space = name, space
        self.every: list[int] = []
        self.facts: list[int] = []
        self._projector = Tasks(keep=name)
        self._state = self._projector.initial()
        self._seq = 0

    def follow(self, log: Replayable) -> OfTask:
        """Take in what the log has gained."""
        head = log.head().seq
        if self._seq == head:  # to read on would look at a whole segment
            return self
        for line in lines_of(log.read(self._seq, head), self.space):
            event = line.event
            # Asked before the event is folded: what ends a task is still of it.
            if owner_of(self._state, event) == self.name and pack_expansion_depths.belongs(event):
                self.every.append(event.seq)
                if pack_expansion_depths.says(event):
                    self.facts.append(event.seq)
            self._projector.apply(self._state, line)
        self._seq = head
        return self


def of_task(folds: Folds, name: str, space: str) -> OfTask:
    """Return the events of a task up to the log's head. Hold the plane's lock."""
    found = folds.of_tasks.pop((name, space), None) or OfTask(name, space)
    while len(folds.of_tasks) >= _KEPT:
        del folds.of_tasks[next(iter(folds.of_tasks))]
    folds.of_tasks[name, space] = found.follow(folds.log)
    return found


# The projections of earlier prefixes of a log: folded when asked for, the last few are kept.
PREFIXES_KEPT: Final = 4
_LOOKED_AT: Final = 1000  # lines of a gap


class Prefixes:
    """Folds by the seq up to which they go and the variant of their counter."""

    def __init__(self, log: FileLog, plane_id: str) -> None:
        self._log, self._plane_id = log, plane_id
        self._kept: dict[tuple[int, str], Folds] = {}

    def at(self, seq: int, counter: TokenCounter, variant: str) -> Folds:
        """The projections as of a seq, folded from the log's beginning."""
        folds = self._kept.get((seq, variant))
        if folds is None:
            log = Prefix(RememberedLog(self._log), seq)
            folds = Folds(log, None, self._plane_id, counter, variant)
            folds.catch_up()
            self._tell_purged(folds)
            newest = list(self._kept.items())[1 - PREFIXES_KEPT :]
            self._kept = {**dict(newest), (seq, variant): folds}
        return folds

    def advance(self, now: int, seq: int) -> None:
        """Fold those as of `now` on up to `seq`; let go of the others."""
        kept, self._kept = self._kept, {}
        for (at, variant), folds in kept.items():
            if at == now and isinstance(folds.log, Prefix):
                folds.log.advance(seq)
                folds.catch_up()
                self._tell_purged(folds)
                self._kept[seq, variant] = folds

    def _tell_purged(self, folds: Folds) -> None:
        """A line that a later event purged is missing in the prefix too, and no gap."""
        state = folds.hotset.state
        if state.gaps:
            missing = (seq for gap in state.gaps for seq in range(gap[0], gap[1] + 1)[:_LOOKED_AT])
            gone = {seq for seq in missing if self._log.purged(seq) is not None}
            state.gaps = without_gaps(state.gaps, gone)

    def clear(self) -> None:
        """Let go of all."""
        self._kept = {}


def seq_by(log: FileLog, moment: str) -> int:
    """The last seq recorded by a moment; `rec` never runs backwards, so halving finds it."""
    low, high = 0, log.head().seq
    while low < high:
        middle = (low + high + 1) // 2
        line = log.line(middle)
        if line is not None and line.event.rec > moment:
            high = middle - 1
        else:
            low = middle
    return low
