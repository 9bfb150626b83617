"""The tables of tasks: open ones with what happened in them, the others with their goal only.

Places are kept by what can hide an event (`groups`): so many tasks, entries of each list, active
tasks and waiting calls in each group, that of a task being the one of the event that opened it.
"""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any, Final

from memplane.event import Event
from memplane.projections.forgetting import Forget
from memplane.projections.groups import GROUPS_MAX, HOME, Group, Sees, group_of
from memplane.projections.order import Moment
from memplane.projections.quote import Quote

__all__ = ["BRIEF_MAX", "CLOSED", "DETAILED_MAX", "SHOWN", "Task", "TaskTable"]

DETAILED_MAX: Final = 20
BRIEF_MAX: Final = 100
ACTIVE_MAX: Final = 64
NAMES_BYTES_MAX: Final = 48 * 1024
CALLS_MAX: Final = 32
CLOSED: Final = frozenset(("done", "cancelled"))
# What a digest shows of each list, and what is kept: some may be hidden from who asks.
SHOWN: Final = {"decisions": 3, "failures": 5, "artifacts": 5, "files": 5}
_KEPT: Final = {"decisions": 5, "failures": 8, "artifacts": 8, "files": 8}
_SINGLE: Final = ("goal", "state", "note", "plan", "specs", "tags")
_TASK_BYTES: Final = 360  # with an id of 128 characters
_NAME_BYTES: Final = 6  # of a character of an id, at most
_BRIEF_LEAST: Final = 20


def _quoted(name: str) -> int:
    """Bytes of a name in the file."""
    return len(encode_basestring(name).encode(errors="surrogatepass")) + 1


class Task:
    """One task as folded so far. Lists are in log order, the newest last.

    `state` is the event that blocked or closed it, `marks` the latest word on each step of the
    plan. Only a detailed task has more than its goal, its state, specs and tags. `at` is the moment
    of the latest task event: one of another plane may come later and be older.
    """

    __slots__ = (
        "artifacts", "at", "decisions", "failures", "files", "first", "goal", "group", "id",
        "marks", "note", "plan", "seen", "specs", "state", "status", "tags", "touched",
    )  # fmt: skip

    def __init__(self, id: str, seq: int, group: Group) -> None:  # noqa: A002 - the field's name
        self.id, self.group = id, group
        self.status = "open"  # open, blocked, done, cancelled
        self.first = self.seen = self.touched = seq  # seqs; `seen` of the last task event
        self.at: Moment | None = None
        self.goal: Quote | None = None
        self.state: Quote | None = None
        self.note: Quote | None = None
        self.plan: Quote | None = None
        self.specs: Quote | None = None
        self.tags: Quote | None = None
        self.marks: dict[int, Quote] = {}
        self.decisions: list[Quote] = []
        self.failures: list[Quote] = []
        self.artifacts: list[Quote] = []
        self.files: list[Quote] = []

    @property
    def size(self) -> int:
        """Bytes of the row without its quotes, at most."""
        return _TASK_BYTES + _NAME_BYTES * (len(self.id) + len(self.group.space))

    @property
    def names(self) -> tuple[str, ...]:
        """The specs that belong to it."""
        return () if self.specs is None else tuple(self.specs.more)

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags that were given last."""
        return () if self.tags is None else tuple(self.tags.more)

    def quotes(self) -> Iterator[Quote]:
        """Yield everything quoted."""
        for name in _SINGLE:
            quote: Quote | None = getattr(self, name)
            if quote is not None:
                yield quote
        yield from self.marks.values()
        for name in _KEPT:
            yield from getattr(self, name)

    def row(self) -> dict[str, Any]:
        """The task as JSON values."""
        row: dict[str, Any] = {
            "id": self.id, "group": [int(self.group.high), self.group.space],
            "status": self.status,
            "first": self.first, "seen": self.seen, "touched": self.touched, "at": self.at,
        }  # fmt: skip
        for name in _SINGLE:
            quote: Quote | None = getattr(self, name)
            if quote is not None:
                row[name] = quote.row()
        if self.marks:
            row["marks"] = [[step, quote.row()] for step, quote in self.marks.items()]
        for name in _KEPT:
            if getattr(self, name):
                row[name] = [quote.row() for quote in getattr(self, name)]
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Task:
        """The task that `row` was made from."""
        high, space = row["group"]
        task = cls(row["id"], row["first"], Group(bool(high), space))
        task.status, task.seen, task.touched = row["status"], row["seen"], row["touched"]
        task.at = row["at"] and Moment(*row["at"])
        for name in _SINGLE:
            if name in row:
                setattr(task, name, Quote(row[name]))
        task.marks = {step: Quote(quote) for step, quote in row.get("marks", ())}
        for name in _KEPT:
            setattr(task, name, [Quote(quote) for quote in row.get(name, ())])
        return task


def _wider(group: Group) -> tuple[Group, ...]:
    """The group and those that all see who see it."""
    return (group, Group(False, group.space), HOME)


def _latest(active: tuple[str, int]) -> int:
    return active[1]


class TaskTable:
    """The state: tasks, which of them is active where, and calls that wait for their result.

    Read it, never write it, outside the projector. Of tasks that only the log has, `gone` has the
    names of the newest; `shed` counts those whose names are gone too.
    """

    __slots__ = (
        "_keyed", "_names", "active", "brief", "bytes", "calls", "gone", "keep", "shed", "tasks",
    )  # fmt: skip

    def __init__(self, keep: str | None = None) -> None:
        self.keep = keep  # a task that no bound strips: for reading one from the log
        self.tasks: dict[str, Task] = {}  # with details, by their last task event
        self.brief: dict[str, Task] = {}  # closed, or crowded out, by the same
        # By who sees what made it so, and by session: task, seq. Session None: the plane.
        self.active: dict[tuple[Group, str | None], tuple[str, int]] = {}
        # Of a group: call -> what it checks, else a digest of its text.
        self.calls: dict[Group, dict[str, str]] = {}
        self.gone: dict[str, None] = {}
        self.shed = 0
        self.bytes = 0
        self._names = 0  # bytes of `gone`
        self._keyed: dict[tuple[str, str], list[Task]] = {}

    # --- reading ---

    def get(self, id: str) -> Task | None:  # noqa: A002 - the field's name
        """The task, with details or without; None where the tables do not hold it."""
        return self.tasks.get(id) or self.brief.get(id)

    def only_in_log(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Whether the log may hold a task of that name that the tables do not."""
        return id in self.gone or self.shed > 0

    def newest(self) -> list[Task]:
        """Every task in the tables, by its last task event, newest first."""
        return sorted((*self.tasks.values(), *self.brief.values()), key=lambda task: -task.seen)

    def open(self) -> list[Task]:
        """Tasks that are not closed, newest first."""
        return [task for task in self.newest() if task.status not in CLOSED]

    def active_in(self, session: str | None, sees: Sees | None = None) -> str | None:
        """The active task of a session, as a reader sees it: its own, else the plane's."""
        for of in (session, None):
            found = [
                one
                for (group, at), one in self.active.items()
                if at == of and (sees is None or sees(*group))
            ]
            if found:
                return max(found, key=_latest)[0]
        return None

    def owner(self, session: str | None, group: Group) -> str | None:
        """The task that events of a session and group belong to.

        One that all see who see the events, if any is active there; else one of high sensitivity.
        """
        for of in (*_wider(group), Group(True, group.space), Group(True, "")):
            for at in (session, None):
                own = self.active.get((of, at))
                if own is not None:
                    return own[0]
        return None

    def is_active_in(self, session: str | None, group: Group) -> bool:
        """Whether a task is active there that all see who see this group."""
        return any((of, session) in self.active for of in _wider(group))

    def active_for(self, session: str | None, sees: Sees | None = None) -> str | None:
        """The task that a request is about; without a session the latest of any."""
        if session is not None:
            return self.active_in(session, sees)
        found = (one for (group, _), one in self.active.items() if sees is None or sees(*group))
        latest = max(found, key=_latest, default=None)
        return None if latest is None else latest[0]

    def specs_of(self, id: str | None) -> tuple[str, ...]:  # noqa: A002 - the field's name
        """The specs that a task names."""
        task = None if id is None else self.get(id)
        return () if task is None else task.names

    # --- writing, for the projector ---

    def enter(self, task: Task, event: Event) -> None:
        """File a task by its status, as the newest; what it crowds out is kept with less."""
        was_detailed = self.tasks.pop(task.id, None) is not None
        was_known = self.brief.pop(task.id, None) is not None or was_detailed
        if task.id in self.gone:
            self._names -= _quoted(task.id)
            del self.gone[task.id]
        if not was_known:
            self.bytes += task.size
        task.seen = task.touched = event.seq
        if task.status in CLOSED and task.id != self.keep:
            self._strip(task)
            self._file_brief(task)
        else:
            self.tasks[task.id] = task
            if len(self.tasks) > DETAILED_MAX:  # else no group has more
                peers = [one for one in self.tasks.values() if one.group == task.group]
                if len(peers) > DETAILED_MAX:
                    self._crowd_out(peers)

    def hold(self, task: Task, quote: Quote) -> None:
        """Count a quote that stands somewhere in the task."""
        self.bytes += quote.size
        if quote.key is not None:
            self._keyed.setdefault((quote.ns, quote.key), []).append(task)

    def release(self, task: Task, quote: Quote) -> None:
        """Count a quote no longer."""
        self.bytes -= quote.size
        if quote.key is not None:
            place = (quote.ns, quote.key)
            holders = self._keyed[place]
            holders.remove(task)
            if not holders:
                del self._keyed[place]

    def put(self, task: Task, name: str, quote: Quote | None) -> None:
        """Put a single quote in its place."""
        old: Quote | None = getattr(task, name)
        if old is not None:
            self.release(task, old)
        setattr(task, name, quote)
        if quote is not None:
            self.hold(task, quote)

    def add(self, task: Task, name: str, quote: Quote) -> None:
        """Put a quote at the end of a list; the oldest makes room."""
        kept: list[Quote] = getattr(task, name)
        kept.append(quote)
        self.hold(task, quote)
        if len(kept) > _KEPT[name]:  # else no group has more
            group = group_of(quote)
            peers = [one for one in kept if group_of(one) == group]
            if len(peers) > _KEPT[name]:
                kept.remove(peers[0])
                self.release(task, peers[0])
        task.touched = quote.seq

    def drop(self, task: Task, name: str, gone: list[Quote]) -> None:
        """Take quotes out of a list."""
        kept: list[Quote] = getattr(task, name)
        for quote in gone:
            kept.remove(quote)
            self.release(task, quote)

    def mark(self, task: Task, step: int, quote: Quote | None) -> None:
        """Set or take away the latest word on a step."""
        old = task.marks.pop(step, None)
        if old is not None:
            self.release(task, old)
        if quote is not None:
            task.marks[step] = quote
            self.hold(task, quote)

    def close(self, id: str) -> None:  # noqa: A002 - the field's name
        """A closed task is active nowhere."""
        for place in [place for place, (one, _) in self.active.items() if one == id]:
            del self.active[place]

    def activate(self, group: Group, session: str | None, id: str, seq: int) -> None:  # noqa: A002
        """Make a task the active one of a session, or of the plane, for who sees this group."""
        self.active.pop((group, session), None)
        self.active[group, session] = (id, seq)
        if len(self.active) > ACTIVE_MAX:  # else no group has more
            peers = [place for place in self.active if place[0] == group and place[1] is not None]
            if len(peers) > ACTIVE_MAX:
                del self.active[peers[0]]
        if len(self.active) > GROUPS_MAX * ACTIVE_MAX:
            del self.active[next(iter(self.active))]

    def call(self, group: Group, name: str, check: str) -> None:
        """Remember what a call checks, or its digest, until its result comes, if there is room."""
        calls = self.calls.pop(group, None) or {}
        self.calls[group] = calls
        calls[name] = check
        if len(calls) > CALLS_MAX:
            del calls[next(iter(calls))]
        if len(self.calls) > GROUPS_MAX:
            del self.calls[next(one for one in self.calls if one.space)]

    def called(self, group: Group, name: str) -> str:
        """What `call` was told of the one that a result answers; "" where none is known."""
        for calls in (self.calls.get(group, {}), *self.calls.values()):
            if name in calls:
                return calls.pop(name)
        return ""

    def supersede(self, ns: str, key: str) -> None:
        """Drop every quote of what is replaced."""
        for task in tuple(self._keyed.get((ns, key), ())):
            for name in _SINGLE:
                quote: Quote | None = getattr(task, name)
                if quote is not None and (quote.ns, quote.key) == (ns, key):
                    self.put(task, name, None)
            for step in [s for s, one in task.marks.items() if (one.ns, one.key) == (ns, key)]:
                self.mark(task, step, None)
            for name in _KEPT:
                kept: list[Quote] = getattr(task, name)
                self.drop(task, name, [one for one in kept if (one.ns, one.key) == (ns, key)])

    def forget(self, forget: Forget) -> None:
        """Flag what is named, or take the flag away."""
        if forget.key is not None:
            held = self._keyed.get((forget.ns, forget.key), ())
            place = (forget.ns, forget.key)
            named = [q for task in held for q in task.quotes() if (q.ns, q.key) == place]
        else:
            named = [
                quote
                for task in (*self.tasks.values(), *self.brief.values())
                for quote in task.quotes()
                if forget.names(quote.id, quote.session)
            ]
        for quote in named:
            quote.forgotten = not forget.undo

    def load(self, task: Task, *, detailed: bool) -> None:
        """Take a task from the file."""
        (self.tasks if detailed else self.brief)[task.id] = task
        self.bytes += task.size
        for quote in task.quotes():
            self.hold(task, quote)

    def shrink(self) -> bool:
        """Give up what matters least; False where nothing is left to give up."""
        if len(self.brief) > _BRIEF_LEAST:
            self._shed()
            return True
        oldest = sorted(self.tasks.values(), key=lambda task: task.touched)
        for task in oldest:
            if task.id != self.keep and any(True for _ in self._details(task)):
                self._strip(task)
                return True
        if self.brief:
            self._shed()
            return True
        if len(oldest) > 1:
            self._crowd_out(oldest)
            return True
        return False

    def _details(self, task: Task) -> Iterator[Quote]:
        kept = (task.goal, task.state, task.specs, task.tags)
        return (quote for quote in task.quotes() if quote not in kept)

    def _strip(self, task: Task) -> None:
        for quote in tuple(self._details(task)):
            self.release(task, quote)
        task.note = task.plan = None
        task.marks = {}
        for name in _KEPT:
            setattr(task, name, [])

    def _crowd_out(self, peers: list[Task]) -> None:
        others = (task for task in peers if task.id != self.keep)
        task = min(others, key=lambda task: task.touched)
        del self.tasks[task.id]
        self._strip(task)
        self._file_brief(task)

    def _file_brief(self, task: Task) -> None:
        self.brief[task.id] = task
        if len(self.brief) > BRIEF_MAX:  # else no group has more
            peers = [one for one in self.brief.values() if one.group == task.group]
            if len(peers) > BRIEF_MAX:
                self._shed(peers[0])

    def remember(self, id: str) -> None:  # noqa: A002 - the field's name
        """Keep the name of a task that only the log has, as long as there is room."""
        self.gone[id] = None
        self._names += _quoted(id)
        while self._names > NAMES_BYTES_MAX:
            oldest = next(iter(self.gone))
            del self.gone[oldest]
            self._names -= _quoted(oldest)
            self.shed += 1

    def _shed(self, task: Task | None = None) -> None:
        task = self.brief.pop(next(iter(self.brief)) if task is None else task.id)
        self.close(task.id)
        self.remember(task.id)
        self.bytes -= task.size
        for quote in task.quotes():
            self.release(task, quote)
