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
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from memplane.event import Event
from memplane.ports import Line
from memplane.projections.artifacts import facts_of
from memplane.projections.checks import blamed_name, check_names, covers, shows_red
from memplane.projections.groups import (
    GROUPS_MAX,
    LOST_MAX,
    Sees,
    VisibilityGroup,
    project_space,
    share_of,
    visibility_group,
)
from memplane.projections.in_force import KEYLESS_KINDS, forget_of, is_foreign, moment_of
from memplane.projections.projector import canonical
from memplane.projections.task_table import (
    CLOSED,
    STATES,
    TEXT_CHARS_MAX,
    EventQuote,
    TaskRecord,
    TaskTable,
    open_to,
    status_of,
)

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
