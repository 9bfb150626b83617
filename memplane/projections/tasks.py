"""Tasks: goal, status and plan, with the decisions, failures and artifacts of each.

An event of kind `task` opens or changes the task that it names. Its text is the goal where it
opens one and a note where it does not; its data may hold

    status   open, active, blocked, done or cancelled; without one only the text changes
    reason   why it is blocked, or how it ended; else the text is the reason
    plan     [{"step": "write the parser", "state": "todo"}, ...], the whole of it; a step may have
             an `id`, which is kept where it is a number
    steps    {"done": [1, 2], "doing": [3], "failed": [4], "todo": [5]}: marks on the plan
    specs    names of the `/spec/<name>` that belong to it, all of them

Any other event belongs to the task that it names, by `task` or by a namespace `/task/<id>`, else
to the active one of its session. `active` makes a task the active one, `open` only where none is;
without a session that holds for every session that has none of its own.

A failure (a tool result with status error, or the marker) stays open until the same tool gives a
result without one for the same path and the same call, as far as either is known. An event of the
task with status resolved, fixed or ok that refers to it closes it too.

The table of tasks has the open ones with what happened in them, the others with their goal only.
Each visibility group (`groups`) has places of its own: so many tasks, entries of each list, active
tasks and waiting calls; the group of a task is the widest of its own events. A field that a task
has once (goal, state, note, plan, specs, tags) has one place in each group too, so that what a
reader may not see removes nothing: `TaskTable.seen_by` gives the values for one reader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from json.encoder import encode_basestring
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memplane.event import GLOBAL, Event
from memplane.lazy import late_calls, word_table
from memplane.ports import Line
from memplane.projections.artifacts import facts_of
from memplane.projections.groups import (
    GROUPS_MAX,
    HOME,
    LOST_MAX,
    Sees,
    VisibilityGroup,
    project_space,
    share_of,
    visibility_group,
)
from memplane.projections.in_force import (
    KEYLESS_KINDS,
    Forget,
    Moment,
    forget_of,
    is_foreign,
    moment_of,
)
from memplane.projections.projector import canonical

if TYPE_CHECKING:
    from memplane.projections.checks import blamed_name, check_names, covers, shows_red
else:
    blamed_name, check_names, covers, shows_red = late_calls(
        "memplane.projections.checks", "blamed_name", "check_names", "covers", "shows_red"
    )

DETAILED_MAX: Final = 20
BRIEF_MAX: Final = 100
ACTIVE_MAX: Final = 64
NAMES_BYTES_MAX: Final = 48 * 1024
CALLS_MAX: Final = 32
CLOSED: Final = frozenset(("done", "cancelled"))
STATES: Final = ("todo", "doing", "done", "failed")  # of a step of a plan
# What people and other programs write, and what it means.
_STATUS: Final = {
    "open": "open",
    "active": "active",
    "in_progress": "active",
    "doing": "active",
    "blocked": "blocked",
    "done": "done",
    "closed": "done",
    "completed": "done",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "abandoned": "cancelled",
}
# What a digest shows of each list, and what is kept: some may be hidden from who asks.
SHOWN: Final = {"decisions": 3, "failures": 5, "artifacts": 5, "files": 5}
_KEPT: Final = {"decisions": 5, "failures": 8, "artifacts": 8, "files": 8}
_SINGLE: Final = ("goal", "state", "note", "plan", "specs", "tags")
_BRIEF: Final = ("goal", "state", "specs", "tags")  # what a task without details has, too
_TASK_BYTES: Final = 320  # with an id of 128 characters
_SPAN_BYTES: Final = 40  # of a group in a row
_MOMENT_BYTES: Final = 28  # of a moment without its time and its id
_NAME_BYTES: Final = 6  # of a character of an id, at most
_BRIEF_LEAST: Final = 20


def _quoted(name: str) -> int:
    """Bytes of a name in the file."""
    return len(encode_basestring(name).encode(errors="surrogatepass")) + 1


def status_of(event: Event) -> str | None:
    """What the event makes of its task: open, active, blocked, done or cancelled; None: nothing."""
    status = event.data.get("status")
    return _STATUS.get(status) if isinstance(status, str) else None


class TaskRecord:
    """One task as folded so far. Lists are in log order, the newest last.

    `state` is the event that blocked or closed it, `marks` the latest word on each step of the
    plan. Only a detailed task has more than its goal, its state, specs and tags. `spans` has the
    first and the last task event of each group, `at` the moment of the latest: one of another plane
    may come later and be older. `older` has what newer words of other groups took the place of, by
    name, and `older_marks` such marks, by step.
    """

    __slots__ = (
        "artifacts",
        "at",
        "decisions",
        "failures",
        "files",
        "goal",
        "group",
        "id",
        "marks",
        "note",
        "older",
        "older_marks",
        "plan",
        "spans",
        "specs",
        "state",
        "status",
        "tags",
        "touched",
    )

    def __init__(self, id: str, seq: int, group: VisibilityGroup) -> None:  # noqa: A002 - the field's name
        self.id, self.group = id, group
        self.status = "open"  # open, blocked, done, cancelled
        self.touched = seq
        self.spans: dict[VisibilityGroup, tuple[int, int]] = {group: (seq, seq)}
        self.at: dict[VisibilityGroup, Moment] = {}
        self.goal: EventQuote | None = None
        self.state: EventQuote | None = None
        self.note: EventQuote | None = None
        self.plan: EventQuote | None = None
        self.specs: EventQuote | None = None
        self.tags: EventQuote | None = None
        self.marks: dict[int, EventQuote] = {}
        self.decisions: list[EventQuote] = []
        self.failures: list[EventQuote] = []
        self.artifacts: list[EventQuote] = []
        self.files: list[EventQuote] = []
        self.older: dict[str, list[EventQuote]] = {}
        self.older_marks: list[tuple[int, EventQuote]] = []

    @property
    def first(self) -> int:
        """The seq of its first task event."""
        return min(first for first, _ in self.spans.values())

    @property
    def seen(self) -> int:
        """The seq of its last task event."""
        return max(last for _, last in self.spans.values())

    @property
    def size(self) -> int:
        """Bytes of the row without its quotes, at most."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[VisibilityGroup, int]:
        """The same by group: a span counts for its own group, the rest for that of the task."""
        sizes = {group: _SPAN_BYTES + _NAME_BYTES * len(group.space) for group in self.spans}
        for group, at in self.at.items():
            sizes[group] += _SPAN_BYTES + _NAME_BYTES * len(group.space) + _moment_bytes(at)
        own = _TASK_BYTES + _NAME_BYTES * (len(self.id) + len(self.group.space))
        sizes[self.group] = sizes.get(self.group, 0) + own
        return sizes

    def said_last(self, sees: Sees) -> Moment | None:
        """Return the moment of the latest task event in the groups visible to a reader."""
        return max((at for group, at in self.at.items() if sees(*group)), default=None)

    def latest(self, name: str, sees: Sees) -> EventQuote | None:
        """Return the newest quote of a single field from the groups visible to a reader."""
        own: EventQuote | None = getattr(self, name)
        every = (*self.older.get(name, ()), *(() if own is None else (own,)))
        newest: EventQuote | None = None
        for quote in sorted(filter(_seen_of(sees), every), key=_seq_of):
            if newest is None or quote.follows(newest):
                newest = quote
        return newest

    def seen_by(self, sees: Sees) -> TaskRecord:
        """Return the task reduced to the groups visible to a reader; itself where all are."""
        spans = {group: span for group, span in self.spans.items() if sees(*group)}
        if len(spans) == len(self.spans):
            return self
        task = TaskRecord(self.id, self.first, self.group)
        task.spans = spans or self.spans
        task.status, task.touched = self.status, self.touched
        task.at = {group: at for group, at in self.at.items() if group in task.spans}
        for name in _SINGLE:
            setattr(task, name, self.latest(name, sees))
        for name in _KEPT:  # before the reader's first word on it there was no such task
            setattr(task, name, [one for one in getattr(self, name) if one.seq > task.first])
        since = 0 if task.plan is None else task.plan.seq
        marks = sorted((*self.older_marks, *self.marks.items()), key=lambda mark: mark[1].seq)
        seen = _seen_of(sees)
        task.marks = {}
        for step, one in marks:
            before = task.marks.get(step)
            if one.seq >= since and seen(one) and (before is None or one.follows(before)):
                task.marks[step] = one
        return task

    @property
    def names(self) -> tuple[str, ...]:
        """The specs that belong to it."""
        return () if self.specs is None else tuple(self.specs.more)

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags that were given last."""
        return () if self.tags is None else tuple(self.tags.more)

    def quotes(self) -> Iterator[EventQuote]:
        """Yield everything quoted."""
        for name in _SINGLE:
            quote: EventQuote | None = getattr(self, name)
            if quote is not None:
                yield quote
            yield from self.older.get(name, ())
        yield from self.marks.values()
        yield from (mark for _, mark in self.older_marks)
        for name in _KEPT:
            yield from getattr(self, name)

    def row(self) -> dict[str, Any]:
        """The task as JSON values."""
        row: dict[str, Any] = {
            "id": self.id,
            "group": [int(self.group.high), self.group.space],
            "status": self.status,
            "touched": self.touched,
            "at": [[int(high), space, *at] for (high, space), at in self.at.items()],
            "spans": [[int(high), space, *span] for (high, space), span in self.spans.items()],
        }
        for name in _SINGLE:
            quote: EventQuote | None = getattr(self, name)
            if quote is not None:
                row[name] = quote.row()
        older = {name: [one.row() for one in found] for name, found in self.older.items()}
        if older:
            row["older"] = older
        for name, marks in (("marks", [*self.marks.items()]), ("older_marks", self.older_marks)):
            if marks:
                row[name] = [[step, quote.row()] for step, quote in marks]
        for name in _KEPT:
            if getattr(self, name):
                row[name] = [quote.row() for quote in getattr(self, name)]
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> TaskRecord:
        """The task that `row` was made from."""
        high, space = row["group"]
        task = cls(row["id"], row["touched"], VisibilityGroup(bool(high), space))
        task.status, task.touched = row["status"], row["touched"]
        task.spans = {
            VisibilityGroup(bool(high), space): (first, last)
            for high, space, first, last in row["spans"]
        }
        task.at = {
            VisibilityGroup(bool(high), space): Moment(*at) for high, space, *at in row["at"]
        }
        for name in _SINGLE:
            if name in row:
                setattr(task, name, EventQuote(row[name]))
        task.older = {
            name: [EventQuote(one) for one in found] for name, found in row.get("older", {}).items()
        }
        task.marks = {step: EventQuote(quote) for step, quote in row.get("marks", ())}
        task.older_marks = [(step, EventQuote(quote)) for step, quote in row.get("older_marks", ())]
        for name in _KEPT:
            setattr(task, name, [EventQuote(quote) for quote in row.get(name, ())])
        return task


def _seen_of(sees: Sees) -> Callable[[EventQuote], bool]:
    return lambda quote: sees(*visibility_group(quote))


def _seq_of(quote: EventQuote) -> int:
    return quote.seq


def _gone_bytes(id_: str, group: VisibilityGroup) -> int:
    """Bytes in the file of the name of a task that only the log has."""
    return _quoted(id_) + _quoted(group.space) + 4


def _moment_bytes(at: Moment) -> int:
    """Bytes of a moment in the file, at most."""
    return _MOMENT_BYTES + _quoted(at.time) + _quoted(at.id)


def _wider(group: VisibilityGroup) -> tuple[VisibilityGroup, ...]:
    """The group and those that all see who see it."""
    return (group, VisibilityGroup(False, group.space), HOME)


def open_to(group: VisibilityGroup) -> Sees:
    """The reader who sees no more than all do who see a group."""
    groups = _wider(group)
    return lambda high, space: (high, space) in groups


def _latest(active: tuple[str, int]) -> int:
    return active[1]


class TaskTable:
    """The state: tasks, which of them is active where, and calls that wait for their result.

    Read it, never write it, outside the projector. Of tasks that only the log has, `gone` has the
    names of the newest; `shed` counts those whose names are gone too.
    """

    __slots__ = (
        "_keyed",
        "_names",
        "active",
        "brief",
        "calls",
        "gone",
        "keep",
        "shed",
        "spent",
        "tasks",
    )

    def __init__(self, keep: str | None = None) -> None:
        self.keep = keep  # a task that no bound strips: for reading one from the log
        self.tasks: dict[str, TaskRecord] = {}  # with details, by their last task event
        self.brief: dict[str, TaskRecord] = {}  # closed, or crowded out, by the same
        # By who sees what made it so, and by session: task, seq. Session None: the plane.
        self.active: dict[tuple[VisibilityGroup, str | None], tuple[str, int]] = {}
        # Of a group: call -> what it checks, else a digest of its text.
        self.calls: dict[VisibilityGroup, dict[str, str]] = {}
        self.gone: dict[str, VisibilityGroup] = {}
        self.shed = 0
        self.spent: dict[VisibilityGroup, int] = {}  # bytes of what each group said
        self._names = 0  # bytes of `gone`
        self._keyed: dict[tuple[str, str], list[TaskRecord]] = {}

    @property
    def bytes(self) -> int:
        """Bytes of all tasks with what is quoted of them, at most."""
        return sum(self.spent.values())

    # --- reading ---

    def seen_by(self, sees: Sees) -> TaskTable:
        """The tables in the words that a reader sees the groups of: for reading only."""
        table = TaskTable(self.keep)
        table.tasks = {id_: task.seen_by(sees) for id_, task in self.tasks.items()}
        table.brief = {id_: task.seen_by(sees) for id_, task in self.brief.items()}
        table.active = {place: one for place, one in self.active.items() if sees(*place[0])}
        table.gone, table.shed = self.gone, self.shed
        return table

    def get(self, id: str) -> TaskRecord | None:  # noqa: A002 - the field's name
        """The task, with details or without; None where the tables do not hold it."""
        return self.tasks.get(id) or self.brief.get(id)

    def is_gone(self, id: str, group: VisibilityGroup) -> bool:  # noqa: A002 - the field's name
        """Whether the log alone has a task of that name that all see who see a group."""
        return self.gone.get(id) in _wider(group)

    def only_in_log(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Whether the log may hold a task of that name that the tables do not."""
        return id in self.gone or self.shed > 0

    def newest(self) -> list[TaskRecord]:
        """Every task in the tables, by its last task event, newest first."""
        return sorted((*self.tasks.values(), *self.brief.values()), key=lambda task: -task.seen)

    def open(self) -> list[TaskRecord]:
        """Tasks that are not closed, newest first."""
        return [task for task in self.newest() if task.status not in CLOSED]

    def active_in(self, session: str | None) -> str | None:
        """The active task of a session: its own, else the plane's."""
        for of in (session, None):
            found = [one for (_, at), one in self.active.items() if at == of]
            if found:
                return max(found, key=_latest)[0]
        return None

    def owner(self, session: str | None, group: VisibilityGroup) -> str | None:
        """The task that events of a session and group belong to.

        One that all see who see the events, if any is active there; else one of high sensitivity.
        """
        for of in (*_wider(group), VisibilityGroup(True, group.space), VisibilityGroup(True, "")):
            for at in (session, None):
                own = self.active.get((of, at))
                if own is not None:
                    return own[0]
        return None

    def is_active_in(self, session: str | None, group: VisibilityGroup) -> bool:
        """Whether a task is active there that all see who see this group."""
        return any((of, session) in self.active for of in _wider(group))

    def active_for(self, session: str | None) -> str | None:
        """The task that a request is about; without a session the latest of any."""
        if session is not None:
            return self.active_in(session)
        latest = max(self.active.values(), key=_latest, default=None)
        return None if latest is None else latest[0]

    def specs_of(self, id: str | None) -> tuple[str, ...]:  # noqa: A002 - the field's name
        """The specs that a task names."""
        task = None if id is None else self.get(id)
        return () if task is None else task.names

    # --- writing, for the projector ---

    def enter(self, task: TaskRecord, event: Event, at: Moment) -> None:
        """File a task by its status, as the newest; what it crowds out is kept with less.

        `at` is the moment of the event, the latest that its readers may see. Where not all who see
        the task see the event, the task keeps its place among the others, but for being closed.
        """
        id_, group, known = task.id, visibility_group(event), self.get(task.id) is task
        closed = task.status in CLOSED and id_ != self.keep
        if known:
            self._charge(task, -1)
        if id_ in self.gone:
            self._names -= _gone_bytes(id_, self.gone.pop(id_))
        first, _ = task.spans.pop(group, (event.seq, 0))
        task.spans[group], task.at[group] = (first, event.seq), at
        if len(task.spans) > GROUPS_MAX:
            oldest = next(one for one in task.spans if one not in (task.group, HOME))
            del task.spans[oldest]
            task.at.pop(oldest, None)
        wide = group in _wider(task.group)
        if wide:
            task.group, task.touched = group, event.seq
        self._charge(task, 1)
        if known and not wide and not (closed and id_ in self.tasks):
            return
        self.tasks.pop(id_, None)
        self.brief.pop(id_, None)
        if closed:
            self._strip(task)
            self._file_brief(task)
        else:
            self.tasks[id_] = task
            if len(self.tasks) > DETAILED_MAX:  # else no group has more
                peers = [one for one in self.tasks.values() if one.group == task.group]
                if len(peers) > DETAILED_MAX:
                    self._crowd_out(peers)

    def _charge(self, task: TaskRecord, sign: int) -> None:
        for group, size in task.sizes().items():
            self._spend(group, sign * size)

    def _spend(self, group: VisibilityGroup, size: int) -> None:
        self.spent[group] = self.spent.get(group, 0) + size
        if not self.spent[group]:
            del self.spent[group]

    def hold(self, task: TaskRecord, quote: EventQuote) -> None:
        """Count a quote that stands somewhere in the task."""
        self._spend(visibility_group(quote), quote.size)
        if quote.key is not None:
            self._keyed.setdefault((quote.ns, quote.key), []).append(task)

    def release(self, task: TaskRecord, quote: EventQuote) -> None:
        """Count a quote no longer."""
        self._spend(visibility_group(quote), -quote.size)
        if quote.key is not None:
            place = (quote.ns, quote.key)
            holders = self._keyed[place]
            holders.remove(task)
            if not holders:
                del self._keyed[place]

    def put(self, task: TaskRecord, name: str, quote: EventQuote | None) -> None:
        """Put a single quote in its place; what another group said there stays behind it.

        One of another plane that is older than what another group said stands behind that itself.
        """
        old: EventQuote | None = getattr(task, name)
        if quote is None or old is None or visibility_group(old) == visibility_group(quote):
            setattr(task, name, quote)
            if old is not None:
                self.release(task, old)
        if quote is None:
            return
        group, older = visibility_group(quote), task.older.get(name, [])
        self._drop_older(task, name, [one for one in older if visibility_group(one) == group])
        self.hold(task, quote)
        if getattr(task, name) is not quote and old is not None:
            newer = quote.follows(old)
            setattr(task, name, quote if newer else old)
            task.older.setdefault(name, []).append(old if newer else quote)
        self._drop_older(task, name, task.older.get(name, [])[: 1 - GROUPS_MAX])

    def clear(self, task: TaskRecord, name: str) -> None:
        """Take away what was said of a single thing, in every group."""
        self._drop_older(task, name, [*task.older.get(name, ())])
        self.put(task, name, None)

    def _drop_older(self, task: TaskRecord, name: str, gone: list[EventQuote]) -> None:
        for quote in gone:
            task.older[name].remove(quote)
            self.release(task, quote)
        if not task.older.get(name, True):
            del task.older[name]

    def add(self, task: TaskRecord, name: str, quote: EventQuote) -> None:
        """Put a quote at the end of a list; the oldest makes room."""
        kept: list[EventQuote] = getattr(task, name)
        kept.append(quote)
        self.hold(task, quote)
        if len(kept) > _KEPT[name]:  # else no group has more
            group = visibility_group(quote)
            peers = [one for one in kept if visibility_group(one) == group]
            if len(peers) > _KEPT[name]:
                kept.remove(peers[0])
                self.release(task, peers[0])
        if visibility_group(quote) in _wider(task.group):
            task.touched = quote.seq

    def drop(self, task: TaskRecord, name: str, gone: list[EventQuote]) -> None:
        """Take quotes out of a list."""
        kept: list[EventQuote] = getattr(task, name)
        for quote in gone:
            kept.remove(quote)
            self.release(task, quote)

    def mark(self, task: TaskRecord, step: int, quote: EventQuote | None) -> None:
        """Set or take away the latest word on a step; what another group said of it stays."""
        old = task.marks.get(step)
        group = None if quote is None else visibility_group(quote)
        if old is not None and (group is None or visibility_group(old) == group):
            del task.marks[step]
            self.release(task, old)
            old = None
        if quote is None or group is None:
            return
        self._drop_marks(task, lambda at, one: at == step and visibility_group(one) == group)
        self.hold(task, quote)
        on_newest = task.latest("plan", open_to(group)) is task.plan
        if on_newest and (old is None or quote.follows(old)):
            task.marks[step] = quote
        else:
            old = quote
        if old is not None:
            task.older_marks.append((step, old))

    def unmark(self, task: TaskRecord, plan: EventQuote) -> None:
        """Take the marks away for a new plan of a group; those on plans of others stay theirs."""
        group = visibility_group(plan)
        own = task.plan is None or visibility_group(task.plan) == group
        if not own and task.plan is not None and not plan.follows(task.plan):
            self._drop_marks(task, lambda _, one: visibility_group(one) == group)
            return
        alone = own and not task.older.get("plan")
        for step, quote in tuple(task.marks.items()):
            if alone or visibility_group(quote) == group:
                self.mark(task, step, None)
            else:
                task.older_marks.append((step, task.marks.pop(step)))
        self._drop_marks(task, lambda _, one: alone or visibility_group(one) == group)

    def _drop_marks(self, task: TaskRecord, gone: Callable[[int, EventQuote], bool]) -> None:
        for mark in [mark for mark in task.older_marks if gone(*mark)]:
            task.older_marks.remove(mark)
            self.release(task, mark[1])

    def close(self, id: str) -> None:  # noqa: A002 - the field's name
        """A closed task is active nowhere."""
        for place in [place for place, (one, _) in self.active.items() if one == id]:
            del self.active[place]

    def activate(self, group: VisibilityGroup, session: str | None, id: str, seq: int) -> None:  # noqa: A002
        """Make a task the active one of a session, or of the plane, for who sees this group."""
        self.active.pop((group, session), None)
        self.active[group, session] = (id, seq)
        if len(self.active) > ACTIVE_MAX:  # else no group has more
            peers = [place for place in self.active if place[0] == group and place[1] is not None]
            if len(peers) > ACTIVE_MAX:
                del self.active[peers[0]]
        if len(self.active) > GROUPS_MAX * ACTIVE_MAX:
            del self.active[next(iter(self.active))]

    def call(self, group: VisibilityGroup, name: str, check: str) -> None:
        """Keep what a tool call checks, or its digest, until its result is recorded."""
        calls = self.calls.pop(group, None) or {}
        self.calls[group] = calls
        calls[name] = check
        if len(calls) > CALLS_MAX:
            del calls[next(iter(calls))]
        if len(self.calls) > GROUPS_MAX:
            del self.calls[next(one for one in self.calls if one.space)]

    def called(self, group: VisibilityGroup, name: str) -> str:
        """Remove and return what `call` kept for a result's call; "" where there is none."""
        for calls in (self.calls.get(group, {}), *self.calls.values()):
            if name in calls:
                return calls.pop(name)
        return ""

    def supersede(self, ns: str, key: str) -> None:
        """Drop every quote of what is replaced."""

        def replaced(quote: EventQuote) -> bool:
            return (quote.ns, quote.key) == (ns, key)

        for task in tuple(self._keyed.get((ns, key), ())):
            for name in _SINGLE:
                quote: EventQuote | None = getattr(task, name)
                if quote is not None and replaced(quote):
                    self.put(task, name, None)
                self._drop_older(task, name, [*filter(replaced, task.older.get(name, ()))])
            for step in [step for step, one in task.marks.items() if replaced(one)]:
                self.mark(task, step, None)
            self._drop_marks(task, lambda _, one: replaced(one))
            for name in _KEPT:
                self.drop(task, name, [*filter(replaced, getattr(task, name))])

    def forget(self, forget: Forget) -> None:
        """Flag what is named, or take the flag away."""
        held: Iterable[TaskRecord] = (*self.tasks.values(), *self.brief.values())
        if forget.key is not None:
            held = self._keyed.get((forget.ns, forget.key), ())
        forget.mark(quote for task in held for quote in task.quotes())

    def load(self, task: TaskRecord, *, detailed: bool) -> None:
        """Take a task from the file."""
        (self.tasks if detailed else self.brief)[task.id] = task
        self._charge(task, 1)
        for quote in task.quotes():
            self.hold(task, quote)

    def shrink(self, group: VisibilityGroup) -> bool:
        """Drop the least important part of a group; False where nothing is left to drop."""
        brief = [task for task in self.brief.values() if task.group == group]
        if len(brief) > _BRIEF_LEAST:
            self._shed(brief[0])
            return True
        for task in sorted(self.tasks.values(), key=lambda task: task.touched):
            if task.id != self.keep and any(
                visibility_group(one) == group for one in self._details(task)
            ):
                self._strip(task, group)
                return True
        if brief:
            self._shed(brief[0])
            return True
        peers = [task for task in self.tasks.values() if task.group == group]
        if len(peers) > 1:
            self._crowd_out(peers)
            return True
        return False

    def _details(self, task: TaskRecord) -> Iterator[EventQuote]:
        kept = [one for name in _BRIEF for one in (getattr(task, name), *task.older.get(name, ()))]
        return (quote for quote in task.quotes() if quote not in kept)

    def _strip(self, task: TaskRecord, group: VisibilityGroup | None = None) -> None:
        """Give up the details, or those that one group told of."""

        def goes(quote: EventQuote) -> bool:
            return group is None or visibility_group(quote) == group

        for name in ("note", "plan"):
            quote: EventQuote | None = getattr(task, name)
            if quote is not None and goes(quote):
                self.put(task, name, None)
            self._drop_older(task, name, [*filter(goes, task.older.get(name, ()))])
        for step in [step for step, mark in task.marks.items() if goes(mark)]:
            self.mark(task, step, None)
        self._drop_marks(task, lambda _, mark: goes(mark))
        for name in _KEPT:
            self.drop(task, name, [*filter(goes, getattr(task, name))])

    def _crowd_out(self, peers: list[TaskRecord]) -> None:
        others = (task for task in peers if task.id != self.keep)
        task = min(others, key=lambda task: task.touched)
        del self.tasks[task.id]
        self._strip(task)
        self._file_brief(task)

    def _file_brief(self, task: TaskRecord) -> None:
        self.brief[task.id] = task
        if len(self.brief) > BRIEF_MAX:  # else no group has more
            peers = [one for one in self.brief.values() if one.group == task.group]
            if len(peers) > BRIEF_MAX:
                self._shed(peers[0])

    def remember(self, id: str, group: VisibilityGroup) -> None:  # noqa: A002 - the field's name
        """Keep the name of a task that only the log has, as long as there is room."""
        self.gone[id] = group
        self._names += _gone_bytes(id, group)
        while self._names > NAMES_BYTES_MAX:
            oldest = next(iter(self.gone))
            self._names -= _gone_bytes(oldest, self.gone.pop(oldest))
            self.shed += 1

    def _shed(self, task: TaskRecord | None = None) -> None:
        task = self.brief.pop(next(iter(self.brief)) if task is None else task.id)
        self.close(task.id)
        self.remember(task.id, task.group)
        self._charge(task, -1)
        for quote in task.quotes():
            self.release(task, quote)


# What a task keeps of one event: enough of its text to be quoted, and what decides who sees it.

Place: TypeAlias = tuple[str, str, int, str]  # label, text, tokens at most, printer
Form: TypeAlias = tuple[str, int, bool]  # the line, its tokens, whether the text is whole there

TEXT_CHARS_MAX: Final = 400
# Of a failure the end says more than the middle: a traceback names its error there.
_HEAD_CHARS: Final = 140
_FIELD_MAX: Final = 300
_ROW_BYTES: Final = 360
_MORE_BYTES: Final = 12
_GAP: Final = " … "


class EventQuote:
    """A bounded part of one event.

    `whole` says whether `text` is all that the event said. `more` is what its data says beside
    the text: steps of a plan, names of specs. `moment` is that of a task event of another plane.
    Every field but `forgotten` is final.
    """

    __slots__ = (
        "_size",
        "call",
        "forgotten",
        "forms",
        "id",
        "key",
        "kind",
        "moment",
        "more",
        "ns",
        "path",
        "role",
        "sensitivity",
        "seq",
        "session",
        "text",
        "tool",
        "ts",
        "valid_from",
        "valid_until",
        "whole",
    )
    # What replaces a quoted event takes the quote away with it.
    superseded = False

    def __init__(self, row: dict[str, Any]) -> None:
        get = row.get
        self.seq: int = row["seq"]
        self.id: str = row["id"]
        self.ts: str = row["ts"]
        self.kind: str = row["kind"]
        self.ns: str = get("ns", GLOBAL)
        self.session: str | None = get("session")
        self.key: str | None = get("key")
        self.role: str | None = get("role")
        self.sensitivity: str = get("sensitivity", "normal")
        self.valid_from: str | None = get("valid_from")
        self.valid_until: str | None = get("valid_until")
        self.text: str = get("text", "")
        self.whole: bool = get("whole", True)
        self.forgotten: bool = get("forgotten", False)
        self.tool: str = get("tool", "")
        self.path: str = get("path", "")
        self.call: str = get("call", "")
        self.more: list[Any] = get("more", [])
        moment = get("moment")
        self.moment: Moment | None = None if moment is None else Moment(*moment)
        self._size = 0
        self.forms: dict[Place, Form] = {}

    @classmethod
    def of(
        cls, event: Event, text: str | None = None, *, call: str = "", more: list[Any] | None = None
    ) -> EventQuote:
        """Quote a new event: its text, or another that its data gives."""
        quote = object.__new__(cls)
        # A digest quotes two of three events: their fields are read at once.
        (
            quote.seq,
            quote.id,
            quote.ts,
            quote.kind,
            quote.ns,
            quote.session,
            quote.key,
            quote.role,
            quote.sensitivity,
            quote.valid_from,
            quote.valid_until,
            own,
            data,
        ) = _QUOTED(event)
        said = own if text is None else text
        whole = (text is None or text.strip() == own.strip()) and "body" not in data
        if quote.sensitivity == "secret":  # stored, never loaded
            said, whole = "", False
        elif len(said) > TEXT_CHARS_MAX:
            said, whole = _cut(said, quote.kind), False
        quote.text, quote.whole = said, whole
        quote.forgotten = False
        quote.tool = quote.path = ""
        if data:
            quote.tool, quote.path = _name(data.get("tool")), _name(data.get("path"))
        quote.call = call
        quote.more = [] if more is None else more
        of_other_plane = quote.kind == "task" and is_foreign(event)
        quote.moment = moment_of(event, None) if of_other_plane else None
        quote._size, quote.forms = 0, {}
        return quote

    def follows(self, other: EventQuote) -> bool:
        """Whether this is the later word: in one plane by its order, between planes by moment."""
        if self.moment is None:
            return True
        return self.moment >= (other.moment or Moment(other.ts, 0, other.id))

    def row(self) -> dict[str, Any]:
        """The row of the file; what is as usual is left out."""
        row: dict[str, Any] = {"seq": self.seq, "id": self.id, "ts": self.ts, "kind": self.kind}
        for name, usual in _USUAL:
            value = getattr(self, name)
            if value != usual:
                row[name] = value
        return row

    @property
    def size(self) -> int:
        """The row's bytes at most: the same for a new quote and for a loaded one."""
        if not self._size:  # most quotes of a digest are never asked for it
            self._size = self._measured()
        return self._size

    def _measured(self) -> int:
        texts = [each if isinstance(each, str) else "".join(each) for each in self.more]
        quoted = encode_basestring(
            f"{self.id}{self.ns}{self.session}{self.key}{self.path}{self.tool}{self.text}"
            f"{self.call}{''.join(texts)}"
        )
        size = len(quoted) if quoted.isascii() else len(quoted.encode(errors="surrogatepass"))
        of_moment = 0 if self.moment is None else _moment_bytes(self.moment)
        return _ROW_BYTES + size + _MORE_BYTES * len(texts) + of_moment


_QUOTED: Final = itemgetter(
    *map(
        Event._fields.index,
        word_table("""
            seq id ts kind ns session key role sensitivity valid_from valid_until text data
        """),
    )
)
_USUAL: Final[tuple[tuple[str, object], ...]] = (
    ("ns", GLOBAL),
    ("session", None),
    ("key", None),
    ("role", None),
    ("sensitivity", "normal"),
    ("valid_from", None),
    ("valid_until", None),
    ("text", ""),
    ("whole", True),
    ("forgotten", False),
    ("tool", ""),
    ("path", ""),
    ("call", ""),
    ("more", []),
    ("moment", None),
)


def _cut(text: str, kind: str) -> str:
    if kind != "tool_result":
        return text[:TEXT_CHARS_MAX]
    # Trailing blanks would take the place of the words.
    text = text.rstrip()
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:_HEAD_CHARS]}{_GAP}{text[_HEAD_CHARS + len(_GAP) - TEXT_CHARS_MAX :]}"


def _name(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _FIELD_MAX else value[:_FIELD_MAX]


# What one group may take in quotes: with names of sessions and calls it stays below 512 KiB.
BYTES_MAX: Final = 320 * 1024
PLAN_MAX: Final = 32
STEP_CHARS_MAX: Final = 200
_SPECS_MAX: Final = 16
_NAME_MAX: Final = 128
_DIGITS_MAX: Final = 4  # of the number that a client gave to a step
_PATH_MAX: Final = 300
_SPEC: Final = "/spec/"
_TASK: Final = "/task/"
_RESOLVED: Final = frozenset(("resolved", "fixed", "ok"))
# Kinds that say something about a task whatever their marks are.
_TELLING: Final = frozenset(("decision", "tool_call", "tool_result", "artifact"))


class Tasks:
    """The projector of one table. `keep`: a task that no bound and no closing takes details of."""

    name = "tasks"
    version = 9

    def __init__(self, *, keep: str | None = None, bytes_max: int = BYTES_MAX) -> None:
        self.keep, self.bytes_max = keep, bytes_max

    def initial(self) -> TaskTable:
        return TaskTable(self.keep)

    def apply(self, state: TaskTable, line: Line) -> None:
        event = line.event
        kind = event.kind
        if kind in KEYLESS_KINDS:
            if kind == "forget":
                forget = forget_of(event)
                if forget is not None:
                    state.forget(forget)
            return
        if event.key is not None:
            state.supersede(event.ns, event.key)
        if kind == "task":
            _task(state, event)
        elif not state.tasks:
            return
        elif kind in _TELLING or event.markers or event.refs or "path" in event.data:
            task = _owner(state, event)
            if task is None:
                return
            _told(state, task, event)
        else:
            return
        group = visibility_group(event)
        most = share_of(group, self.bytes_max)
        while state.spent.get(group, 0) > most and state.shrink(group):
            pass

    def dump(self, state: TaskTable) -> bytes:
        return canonical(self.fields(state))

    def fields(self, state: TaskTable) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "tasks": [task.row() for task in state.tasks.values()],
            "brief": [task.row() for task in state.brief.values()],
            "active": [
                [int(group.high), group.space, session, *one]
                for (group, session), one in state.active.items()
            ],
            "calls": [
                [int(group.high), group.space, list(calls.items())]
                for group, calls in state.calls.items()
            ],
            "gone": [[id_, int(high), space] for id_, (high, space) in state.gone.items()],
            "shed": state.shed,
        }

    def load(self, data: bytes) -> TaskTable:
        return self.of(json.loads(data))

    def of(self, fields: dict[str, Any]) -> TaskTable:
        """The state that `fields` gave."""
        state = self.initial()
        for row in fields["tasks"]:
            state.load(TaskRecord.from_row(row), detailed=True)
        for row in fields["brief"]:
            state.load(TaskRecord.from_row(row), detailed=False)
        for high, space, session, id_, seq in fields["active"]:
            state.active[VisibilityGroup(bool(high), space), session] = (id_, seq)
        for high, space, calls in fields["calls"]:
            state.calls[VisibilityGroup(bool(high), space)] = dict(calls)
        for id_, high, space in fields["gone"]:
            state.remember(id_, VisibilityGroup(bool(high), space))
        state.shed = fields["shed"]
        return state


class TaskTables:
    """The state: a table for each project of a parted plane, and "" for all that is of none.

    Two projects may use one name for a task: neither sees or changes the other's. `lost`: projects
    whose tables are not whole here; `shed`: there are more of these. Read only.
    """

    __slots__ = ("lost", "shed", "tables")

    def __init__(self) -> None:
        self.tables: dict[str, TaskTable] = {}  # the one with the latest word on a task last
        self.lost: dict[str, None] = {}
        self.shed = False

    def missing(self, sees: Sees, named: Iterable[str]) -> set[VisibilityGroup]:
        """The groups of projects, visible to a reader, of which only the log has all tasks."""
        gone = {*self.lost, *(named if self.shed else ())} - ({*self.tables} - {*self.lost})
        both = (VisibilityGroup(high, space) for space in gone for high in (False, True))
        return {group for group in both if project_space(group.space) and sees(*group)}

    def filled(self, other: TaskTables) -> TaskTables:
        """These tables, with those of another fold in their place. Changes neither."""
        both = TaskTables()
        both.tables = {**self.tables, **other.tables}
        return both

    def seen_by(self, sees: Sees) -> TaskTable:
        """The tasks of the projects that a reader sees, as one table: for reading only.

        Of several with one name the one that a project has stands before that of none, else the
        newest; the others have no name here by which they are found.
        """
        seen = {
            space: table.seen_by(sees)
            for space, table in sorted(self.tables.items())
            if not space or sees(False, space) or sees(True, space)
        }
        if len(seen) == 1:  # as a rule
            return next(iter(seen.values()))
        best: dict[str, tuple[bool, int, str]] = {}
        for space, table in seen.items():
            for task in table.newest():
                rank = bool(space), task.seen, space
                best[task.id] = max(best.get(task.id, rank), rank)
        joined = TaskTable()
        for space, table in seen.items():
            alone = {id_: id_ for id_, (_, _, its) in best.items() if its == space}
            names = {task.id: alone.get(task.id, f"{task.id}\n{space}") for task in table.newest()}
            joined.tasks |= {names[id_]: task for id_, task in table.tasks.items()}
            joined.brief |= {names[id_]: task for id_, task in table.brief.items()}
            joined.active |= {
                place: (names.get(id_, id_), seq) for place, (id_, seq) in table.active.items()
            }
            joined.gone |= table.gone
            joined.shed += table.shed
        return joined


class ProjectTasks:
    """The projector of all tables. `only` selects the projects to fold; then none is dropped.

    At most `GROUPS_MAX` projects have a table; the one longest without a word on a task goes first.
    """

    name = "tasks"
    version = 9

    def __init__(self, *, only: Sees | None = None, bytes_max: int = BYTES_MAX) -> None:
        self._part, self._only = Tasks(bytes_max=bytes_max), only

    def initial(self) -> TaskTables:
        state = TaskTables()
        if self._wants(""):
            state.tables[""] = self._part.initial()
        return state

    def _wants(self, space: str) -> bool:
        return self._only is None or self._only(False, space) or self._only(True, space)

    def apply(self, state: TaskTables, line: Line) -> None:
        kind = line.event.kind
        if kind in KEYLESS_KINDS:
            for table in state.tables.values():
                self._part.apply(table, line)
            return
        space = project_space(line.event.ns)
        if space and kind == "task" and self._wants(space):
            self._enter(state, space)
        found = state.tables.get(space)
        if found is not None:
            self._part.apply(found, line)

    def _enter(self, state: TaskTables, space: str) -> None:
        """Make a project's table the latest; the first may have to go."""
        table = state.tables.pop(space, None)
        if table is None:
            table = self._part.initial()
            if state.shed:
                self._lose(state, space)
        state.tables[space] = table
        if len(state.tables) > GROUPS_MAX and self._only is None:
            gone = next(one for one in state.tables if one)
            del state.tables[gone]
            self._lose(state, gone)

    def _lose(self, state: TaskTables, space: str) -> None:
        state.lost[space] = None
        if len(state.lost) > LOST_MAX:
            absent = next((one for one in state.lost if one not in state.tables), None)
            if absent is not None:
                del state.lost[absent]
                state.shed = True

    def dump(self, state: TaskTables) -> bytes:
        tables = [[space, self._part.fields(one)] for space, one in state.tables.items()]
        return canonical({"lost": list(state.lost), "shed": state.shed, "tables": tables})

    def load(self, data: bytes) -> TaskTables:
        fields: dict[str, Any] = json.loads(data)
        state = TaskTables()
        state.lost, state.shed = dict.fromkeys(fields["lost"]), fields["shed"]
        state.tables = {space: self._part.of(one) for space, one in fields["tables"]}
        return state


def lines_of(lines: Iterable[Line], space: str) -> Iterator[Line]:
    """The lines that the table of a project, or "", is folded from."""
    for line in lines:
        if line.event.kind in KEYLESS_KINDS or project_space(line.event.ns) == space:
            yield line


def task_of(event: Event) -> str | None:
    """The task that an event names, by its field or by its namespace."""
    if event.task is not None:
        return event.task
    return event.ns[len(_TASK) :] if event.ns.startswith(_TASK) else None


def owner_of(state: TaskTable, event: Event) -> str | None:
    """The task that an event belongs to: the one that it names, else the active one there."""
    named = task_of(event)
    return state.owner(event.session, visibility_group(event)) if named is None else named


def _owner(state: TaskTable, event: Event) -> TaskRecord | None:
    id_ = owner_of(state, event)
    return None if id_ is None else state.tasks.get(id_)


def _task(state: TaskTable, event: Event) -> None:
    id_ = task_of(event)
    if id_ is None or len(id_) > _NAME_MAX:
        return
    word = status_of(event)
    task = state.get(id_)
    opens = task is None
    group = visibility_group(event)
    before = None if task is None else task.said_last(open_to(group))
    at = moment_of(event, before)
    if task is None:
        if is_foreign(event) and state.is_gone(id_, group):  # closed long ago: the log knows how
            return
        task = TaskRecord(id_, event.seq, group)
    elif before is not None and at < before:  # from another plane, and older than what is here
        return
    # Its words are for those who see it; the status is for all, so the latest of all is in force.
    latest = task.said_last(_everyone)
    if is_foreign(event) and latest is not None and at < latest:
        word = None
    was, was_closed = task.status, task.status in CLOSED
    if word is not None:
        task.status = "open" if word == "active" else word
    if task.status != was:  # what was said of another one is no word on this
        state.clear(task, "state")
    state.enter(task, event, at)
    _words(state, task, event, word, opens or (was_closed and task.status not in CLOSED))
    _plan(state, task, event)
    _labels(state, task, event)
    if task.status in CLOSED:
        state.close(id_)
        return
    if word == "active" or (word == "open" and not state.is_active_in(event.session, group)):
        state.activate(group, event.session, id_, event.seq)


def _everyone(_high: bool, _space: str) -> bool:
    return True


def _labels(state: TaskTable, task: TaskRecord, event: Event) -> None:
    """Take the specs and tags that an event gives."""
    keeps = event.sensitivity != "secret"
    if "specs" in event.data:
        names = _specs(event.data["specs"]) if keeps else ()
        _give(state, task, "specs", EventQuote.of(event, "", more=list(names)))
    if event.tags and keeps:
        state.put(task, "tags", EventQuote.of(event, "", more=list(event.tags)))


def _words(state: TaskTable, task: TaskRecord, event: Event, word: str | None, opens: bool) -> None:
    """Take the text as goal, reason or note; an event without words of its own changes neither."""
    data = event.data
    text = event.text.strip()
    given = data.get("reason")
    reason = given if isinstance(given, str) else None
    goal = task.latest("goal", open_to(visibility_group(event)))
    if goal is None or (text and (opens or word == "open" or not goal.text)):
        # Without words it says at least that there is such a task, and who may know of it.
        state.put(task, "goal", EventQuote.of(event))
        text = ""
    if word in ("open", "active"):
        state.clear(task, "state")
    elif word is not None:
        said = text if reason is None else reason
        state.put(task, "state", EventQuote.of(event, said))
        if said == text:
            text = ""
    if text and task.status not in CLOSED:
        state.put(task, "note", EventQuote.of(event))


def _plan(state: TaskTable, task: TaskRecord, event: Event) -> None:
    if task.id not in state.tasks:
        return
    data = event.data
    given = data.get("plan")
    if isinstance(given, list):
        steps = [step for step in map(_step, given[:PLAN_MAX]) if step is not None]
        if event.sensitivity == "secret":  # it replaces the plan, and shows nowhere
            steps = []
        quote = EventQuote.of(event, "", more=steps)
        state.unmark(task, quote)
        _give(state, task, "plan", quote)
    marked = data.get("steps")
    plan = task.latest("plan", open_to(visibility_group(event)))
    if plan is not None and isinstance(marked, dict):
        for value in STATES:
            numbers = marked.get(value)
            for number in numbers if isinstance(numbers, list) else ():
                if type(number) is int and 1 <= number <= len(plan.more):
                    state.mark(task, number, EventQuote.of(event, "", more=[value]))


def _give(state: TaskTable, task: TaskRecord, name: str, quote: EventQuote) -> None:
    """Put a list in its place; an empty one is kept only where it hides that of another group."""
    own, group = getattr(task, name), visibility_group(quote)
    alone = not task.older.get(name) and (own is None or visibility_group(own) == group)
    state.put(task, name, None if alone and not quote.more else quote)


def _step(given: object) -> list[str] | None:
    text = given.get("step") if isinstance(given, dict) else given
    value = given.get("state") if isinstance(given, dict) else "todo"
    if not isinstance(text, str) or not text.strip():
        return None
    id_ = given.get("id") if isinstance(given, dict) else None
    numbered = isinstance(id_, str) and id_.isascii() and id_.isdigit() and len(id_) <= _DIGITS_MAX
    step = [text.strip()[:STEP_CHARS_MAX], value if value in STATES else "todo"]
    return [*step, str(id_)] if numbered else step


def _specs(given: object) -> tuple[str, ...]:
    found = [
        one.removeprefix(_SPEC)
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, str) and 0 < len(one.removeprefix(_SPEC)) <= _NAME_MAX
    ]
    return tuple(dict.fromkeys(found))[:_SPECS_MAX]


def _told(state: TaskTable, task: TaskRecord, event: Event) -> None:
    """What an event that belongs to the task says about it."""
    kind, data, markers = event.kind, event.data, event.markers
    keeps = event.sensitivity != "secret"
    status = data.get("status")
    failed = status == "error" and kind == "tool_result"
    if kind == "tool_call":
        _call(state, event)
    elif kind == "tool_result":
        call = _digest(state, event)
        call = blamed_name(call, event.text) if failed else call
        _closed(state, task, event, call, failed=failed)
        if failed and keeps:
            state.add(task, "failures", EventQuote.of(event, call=call))
    elif kind == "artifact" and keeps:
        facts = facts_of(event)
        named = [] if facts is None else [facts.card, facts.handle]
        state.add(task, "artifacts", EventQuote.of(event, more=named))
    if keeps and event.text:
        if kind == "decision" or "decision" in markers:
            state.add(task, "decisions", EventQuote.of(event))
        if "failure" in markers and not failed:
            state.add(task, "failures", EventQuote.of(event))
    if event.refs and isinstance(status, str) and status in _RESOLVED:
        refs = frozenset(event.refs)
        state.drop(task, "failures", [one for one in task.failures if one.id in refs])
    if kind in ("tool_call", "message") and keeps:
        _file(state, task, event)


def _call(state: TaskTable, event: Event) -> None:
    """Remember what was called, so that its result can be told from those of other calls."""
    call, tool = event.data.get("call"), event.data.get("tool")
    if isinstance(call, str) and 0 < len(call) <= _NAME_MAX:
        keeps = isinstance(tool, str) and event.sensitivity != "secret"
        text = event.text.encode(errors="surrogatepass")
        check = check_names(str(tool), event.text) if keeps else ""
        digest = check or hashlib.sha256(text).hexdigest()[:16]
        state.call(visibility_group(event), _call_name(event, call), digest)


def _call_name(event: Event, call: str) -> str:
    """Calls are numbered by whoever makes them: two sessions may use the same name."""
    return f"{event.session or ''} {call}"


def _digest(state: TaskTable, event: Event) -> str:
    call = event.data.get("call")
    if not isinstance(call, str):
        return ""
    return state.called(visibility_group(event), _call_name(event, call))


def _closed(state: TaskTable, task: TaskRecord, event: Event, call: str, *, failed: bool) -> None:
    """Close what the result answers; where it failed again, its own line stands for the older.

    A call that passed closes the failures of all that it checked too, in whatever words; one that
    failed those of its own check, or that say the same, where the same readers see both.
    """
    tool, path = event.data.get("tool"), event.data.get("path")
    if not isinstance(tool, str) or not tool or (not failed and shows_red(event.text)):
        return
    said, group = event.text[:TEXT_CHARS_MAX], visibility_group(event)

    def answered(one: EventQuote) -> bool:
        if failed:
            same = (bool(call) and one.call == call) or one.text[:TEXT_CHARS_MAX] == said
            return same and visibility_group(one) == group
        return covers(call, one.call)

    gone = [
        one
        for one in task.failures
        if one.kind == "tool_result"
        and one.tool == tool[:_PATH_MAX]
        and one.path == (path[:_PATH_MAX] if isinstance(path, str) else "")
        and answered(one)
    ]
    if gone:
        state.drop(task, "failures", gone)


def _file(state: TaskTable, task: TaskRecord, event: Event) -> None:
    path = event.data.get("path")
    if not isinstance(path, str) or not path or len(path) > _PATH_MAX:
        return
    group = visibility_group(event)
    again = [one for one in task.files if one.path == path and visibility_group(one) == group]
    state.drop(task, "files", again)
    state.add(task, "files", EventQuote.of(event, ""))
