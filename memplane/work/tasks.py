"""`plane.work.tasks`: open tasks, change them, and read their state. Each change is one event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Unpack

from memplane.context.calls import check_channel, refuse_given
from memplane.context.context import NO_END, OfPlane, PlaneContext
from memplane.context.folds import Folds, task_fold
from memplane.errors import InputError, NotFoundError, ScopeError
from memplane.event import GLOBAL, SENSITIVITIES, AnyEventFields
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, regex
from memplane.pack.expansion_depths import (
    PARAGRAPH_TOKENS_MAX,
    PlanStep,
    Sight,
    artifact_words,
    is_seen,
    plan_steps,
    task_paragraph,
    task_sentence,
    visible_artifacts,
    visible_quotes,
)
from memplane.projections.groups import Sees, VisibilityGroup, group_space, project_space
from memplane.projections.item import one_line
from memplane.projections.tasks import (
    CLOSED,
    PLAN_MAX,
    EventQuote,
    TaskRecord,
    TaskTable,
    TaskTables,
    open_to,
)
from memplane.recall.suppress import OWNER, WITHHELD, Scope

if TYPE_CHECKING:
    from datetime import datetime

    from memplane.context.calls import Receipt
    from memplane.policy import Policies

_ID_CHARS_MAX: Final = 48
_TITLE_MAX: Final = 80  # characters
_WORDS: Final = regex(r"\w+")
_AGENTS: Final = "/agent/"


class TaskView(NamedTuple):
    """A task as a channel may see it, its texts redacted as on every way out.

    `title` is the first line of its goal, its id where it has none. `short` is a sentence or two,
    `paragraph` what a block shows of it when it is active, with its `tokens`. `sessions` are those
    in which it is the active one. Seqs are of its first and last event of kind task, `created` and
    `updated` the times of the first and last of them that the channel may see; `tags` are those
    that were given last. `events` are the ids that the paragraph quotes.
    """

    id: str
    status: str  # open, blocked, done, cancelled
    active: bool
    goal: str
    reason: str
    short: str
    paragraph: str
    tokens: int
    plan: tuple[PlanStep, ...]
    specs: tuple[str, ...]
    decisions: tuple[str, ...]
    failures: tuple[str, ...]
    artifacts: tuple[str, ...]
    files: tuple[str, ...]
    sessions: tuple[str, ...]
    opened_seq: int
    changed_seq: int
    title: str
    created: str
    updated: str
    tags: tuple[str, ...]
    events: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        plan = [step._asdict() for step in self.plan]
        return {**self._asdict(), "plan": plan}


_Views = list[TaskView]  # inside the class `list` is a method


class TaskReader(NamedTuple):
    """Tasks as one reader sees them. Hold the plane's lock. Raises InputError for the channel."""

    context: PlaneContext
    folds: Folds
    policies: Policies
    channel: str
    agent: str | None

    def sight(self, task: TaskRecord) -> Sight:
        """Return what the reader may see of a task's quotes."""
        context, policies = self.context, self.policies
        check_channel(policies, self.channel)
        scope = Scope.of(
            policies,
            self.channel,
            now=context.clock(),
            task=task.id,
            specs=task.names,
            as_of=NO_END if context.as_of is None else context.as_of,
            agent=self.agent,
            approvals=context.approvals(self.folds),
        )
        return Sight(scope.hides, context.printer(policies))

    @property
    def _scope(self) -> Scope:
        check_channel(self.policies, self.channel)
        return Scope.of(self.policies, self.channel, now="", as_of=NO_END, agent=self.agent)

    @property
    def sees(self) -> Sees:
        """Return whether the reader sees events of a visibility group."""
        return self._scope.sees

    def tables(self) -> TaskTables:
        """Return the tables of tasks, whole for each project that the reader sees."""
        places, _ = self.context.places(self.folds, self._scope, self.policies)
        return places.tasks

    def table(self) -> TaskTable:
        """Return the task table reduced to what the reader may see."""
        return self.tables().seen_by(self.sees)

    def find(self, id_: str, *, detailed: bool = True) -> TaskRecord | None:
        """Return a task, with all details as a rule; None if unknown.

        Folded from the log if need be. The reader's own project goes before what is of none, and
        that before other projects, the one with the latest word first.
        """
        tables, sees = self.tables().tables, self.sees
        others = [one for one in reversed(tables) if one and (sees(False, one) or sees(True, one))]
        own = [one for one in others if one == self.policies.project]
        for space in dict.fromkeys((*own, "", *others)):
            table = tables.get(space)
            if table is None:
                continue
            task = table.tasks.get(id_) if detailed else table.get(id_)
            if task is None and (table.get(id_) is not None or table.only_in_log(id_)):
                task = task_fold(self.folds, id_, space)
            if task is not None:
                return task
        return None

    def is_told(self, task: TaskRecord) -> bool:
        """Whether the reader may know of a task, even where nothing of it is in force.

        The task is as `find` returns it.
        """
        hides, own = self.sight(task).hides, _own(task)
        return not own or any(hides(quote) not in WITHHELD for quote in own)

    def span(self, task: TaskRecord, sight: Sight) -> tuple[str, str]:
        """Return `ts` of the first and last visible event of kind task."""
        shows = self.context.reader(self.channel, agent=self.agent, policies=self.policies).shows
        times = [quote.ts for quote in _own(task) if sight.sees(quote)]
        ends = (self.context.log.line(seq) for seq in (task.first, task.seen))
        first, last = (
            line.event.ts if line is not None and shows(line.event) else "" for line in ends
        )
        return first or min(times), last or max(times)

    def whose(self, task: TaskRecord) -> str:
        """For the owner, who may name any agent: whose the task is, and how to ask for it."""
        if self.channel != OWNER or self.agent is not None:
            return ""
        hides = self.sight(task).hides
        spaces = {one.ns for one in _own(task) if one.ns.startswith(_AGENTS) and hides(one) == "ns"}
        if not spaces:
            return ""
        whose = min(spaces)
        return (
            f"; it is in {whose}: ask with agent={quoted_value(whose.removeprefix(_AGENTS), 160)}"
        )

    def unknown(self, id_: str) -> NotFoundError:
        """Return the error for an unknown task; it names the closest that the reader may know."""
        tasks = self.table().newest()
        known = [task.id for task in tasks if is_seen(task, self.sight(task))]
        close = get_close_matches(id_, known, 1)
        hint = f"; did you mean {quoted_value(close[0], 160)}?" if close else ""
        return NotFoundError(f"no task {quoted_value(id_, 160)}{hint}")


class TaskFields(AnyEventFields, total=False):
    """What may be said of a task's event beside what its method takes."""

    refs: Iterable[str | int] | None
    valid_until: str | datetime | None
    data: Mapping[str, Any] | None


class PlaneTasks(OfPlane):
    """The tasks of a plane. Built per use; holds no state of its own."""

    def __init__(self, record: Callable[..., Receipt], context: PlaneContext) -> None:
        self._record, self._context = record, context

    def open(
        self,
        name: str,
        goal: str = "",
        *,
        plan: Sequence[str] = (),
        specs: Sequence[str] = (),
        session: str | None = None,
        **fields: Unpack[TaskFields],
    ) -> Receipt:
        """Open a task, or open a closed one again; it becomes active where no other is.

        A name with blanks and no goal is the goal: the id is made of its words, and is
        `receipt.event.task`. Raises InputError where the task is open already.
        """
        id_, goal = self._named(name, goal)
        task = self._find(id_)
        if task is not None and task.status not in CLOSED:
            raise InputError(
                f"task {quoted_value(id_, 160)} is open already; update it, or switch to it",
                where="name",
            )
        data: dict[str, Any] = {"status": "open"}
        if plan:
            data["plan"] = _planned(plan)
        if specs:
            data["specs"] = [_spec(name) for name in _listed(specs, "specs")]
        said = dict(fields) if task is None else self._bounded(task, fields)
        return self._write(id_, goal, data, session, said)

    def update(
        self,
        id: str,  # noqa: A002
        text: str = "",
        *,
        plan: Sequence[str] = (),
        done: Iterable[int] = (),
        doing: Iterable[int] = (),
        failed: Iterable[int] = (),
        todo: Iterable[int] = (),
        session: str | None = None,
        **fields: Unpack[TaskFields],
    ) -> Receipt:
        """Note something on an open task, give it another plan, or mark steps by their numbers.

        Raises InputError for a step that the plan does not have, NotFoundError.
        """
        task = self._open(id)
        said = self._bounded(task, fields)
        _check_text(text, "text")
        marks = {"todo": todo, "doing": doing, "done": done, "failed": failed}
        marked = {state: _listed(numbers, state) for state, numbers in marks.items()}
        marked = {state: numbers for state, numbers in marked.items() if numbers}
        if not text and not plan and not marked:
            raise InputError("expected a text, a plan or steps to mark, found none")
        size = len(plan) or len(_plan_for(task, self._context.placed(said)))
        for state, numbers in marked.items():
            for number in numbers:
                if type(number) is not int or not 1 <= number <= size:
                    has = f"1 to {size}" if size else "a plan first: the task has none"
                    raise InputError(f"found {quoted_value(number)}; expected {has}", where=state)
        data: dict[str, Any] = {"plan": _planned(plan)} if plan else {}
        if marked:
            data["steps"] = marked
        return self._write(id, text, data, session, said)

    def block(
        self,
        id: str,  # noqa: A002
        reason: str,
        *,
        session: str | None = None,
        **fields: Unpack[TaskFields],
    ) -> Receipt:
        """Mark an open task as blocked; `switch` resumes it. Raises NotFoundError."""
        said = self._bounded(self._open(id), fields)
        if not _check_text(reason, "reason").strip():
            raise InputError("expected why it is blocked, found nothing", where="reason")
        return self._write(id, reason, {"status": "blocked", "reason": reason}, session, said)

    def done(
        self,
        id: str,  # noqa: A002
        text: str = "",
        *,
        cancelled: bool = False,
        session: str | None = None,
        **fields: Unpack[TaskFields],
    ) -> Receipt:
        """Close an open task with its result; it is active nowhere then. Raises NotFoundError."""
        said = self._bounded(self._open(id), fields)
        status = "cancelled" if cancelled else "done"
        return self._write(id, text, {"status": status}, session, said)

    def switch(
        self,
        id: str,  # noqa: A002
        *,
        session: str | None = None,
        **fields: Unpack[TaskFields],
    ) -> Receipt:
        """Make an open task the active one of the session, or of all that have none of their own.

        What was active before stays open; a blocked one goes on. Raises NotFoundError.
        """
        said = self._bounded(self._open(id), fields)
        return self._write(id, "", {"status": "active"}, session, said)

    def list(
        self,
        *,
        all: bool = False,  # noqa: A002
        session: str | None = None,
        channel: str = "private",
        agent: str | None = None,
    ) -> _Views:
        """The open tasks, newest first; with `all` also the closed ones that are remembered.

        `session` says whose active task is marked; without one it is the latest anywhere. `agent`:
        who reads.
        """
        with self._context.lock:
            policies = self._context.watched.policies()
            folds = self._context.caught_up(policies)
            reader = TaskReader(
                self._context, folds, policies, channel, self._context.agent_of(agent)
            )
            table = reader.table()
            tasks = table.newest() if all else table.open()
            views = [self._view(reader, table, task, session) for task in tasks]
        return [view for view in views if view is not None]

    def get(
        self,
        id: str,  # noqa: A002
        *,
        session: str | None = None,
        channel: str = "private",
        agent: str | None = None,
    ) -> TaskView:
        """One task, open or closed; one that was closed long ago is read from the log.

        Raises NotFoundError, also for a task of which the channel and agent may see nothing. The
        owner gets a ScopeError for one that is in an agent's namespace, naming the agent.
        """
        with self._context.lock:
            policies = self._context.watched.policies()
            folds = self._context.caught_up(policies)
            reader = TaskReader(
                self._context, folds, policies, channel, self._context.agent_of(agent)
            )
            task = reader.find(_check_text(id, "id"))
            own = None if task is None else task.seen_by(reader.sees)
            view = None if own is None else self._view(reader, reader.table(), own, session)
            if task is not None and view is None and (whose := reader.whose(task)):
                raise ScopeError(
                    f"task {quoted_value(id, 160)} is not for channel {channel}{whose}"
                )
            if view is None:
                raise reader.unknown(id)
        return view

    def _write(
        self, id_: str, text: str, data: dict[str, Any], session: str | None, fields: dict[str, Any]
    ) -> Receipt:
        given = fields.pop("data", {})
        if not isinstance(given, Mapping):
            raise unexpected("an object", given, "data")
        refuse_given(fields, ("kind", "task", "text"))
        data = {**given, **data}
        return self._record(text, kind="task", task=id_, session=session, data=data, **fields)

    def _find(self, id_: str) -> TaskRecord | None:
        _check_text(id_, "id")
        with self._context.lock:
            policies = self._context.watched.policies_or_last()
            folds = self._context.caught_up(policies)
            reader = TaskReader(self._context, folds, policies, OWNER, None)
            return reader.find(id_, detailed=False)

    def _open(self, id_: str) -> TaskRecord:
        task = self._find(id_)
        if task is None:
            with self._context.lock:
                policies = self._context.watched.policies_or_last()
                folds = self._context.caught_up(policies)
                raise TaskReader(self._context, folds, policies, OWNER, None).unknown(id_)
        if task.status in CLOSED:
            raise InputError(
                f"task {quoted_value(id_, 160)} is {task.status}; open it again first", where="id"
            )
        return task

    def _bounded(self, task: TaskRecord, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a task's next event: see `_bounded`; it stays in the task's project."""
        bounded, space = _bounded(task, fields), project_space(task.group.space)
        if space != (self._context.home.project or ""):
            bounded.setdefault("ns", space or GLOBAL)
        return bounded

    def _named(self, name: str, goal: str) -> tuple[str, str]:
        _check_text(goal, "goal")
        if not _check_text(name, "name").strip():
            raise InputError("expected a name or a goal, found nothing", where="name")
        if not any(character.isspace() for character in name):
            return name, goal
        if goal:
            raise InputError(
                f"expected a name without blanks, found {quoted_value(name, 80)}", where="name"
            )
        return self.free_id(name), name

    def free_id(self, name: str) -> str:
        """Return an id that no task has, whoever may see it.

        The name itself, or one made of its words where it has blanks or is taken.
        """
        if not any(character.isspace() for character in name) and self._find(name) is None:
            return name
        # An id is stored as it is and compared: what a policy masks must not get into one.
        words = _WORDS.findall(self._context.redact(self._context.watched.policies_or_last())(name))
        first, number = _joined(words, _ID_CHARS_MAX), 1
        id_ = first
        while self._find(id_) is not None:
            number += 1
            id_ = f"{_joined(words, _ID_CHARS_MAX - 1 - len(str(number)))}-{number}"
        return id_

    def _view(
        self, reader: TaskReader, table: TaskTable, task: TaskRecord, session: str | None
    ) -> TaskView | None:
        sight = reader.sight(task)
        if not is_seen(task, sight):
            return None
        printer = sight.printer
        active = table.active_for(session) == task.id
        whole = task_paragraph(task, sight, PARAGRAPH_TOKENS_MAX, active=active)
        brief = task_sentence(task, sight, NO_END, label=False)
        assert whole is not None
        assert brief is not None

        def texts(name: str) -> tuple[str, ...]:
            return tuple(
                printer.redact(quote.path if name == "files" else quote.text or quote.path)
                for quote in visible_quotes(getattr(task, name), name, sight)
            )

        def text(quote: EventQuote | None) -> str:
            return printer.redact(quote.text) if quote is not None and sight.sees(quote) else ""

        created, updated = reader.span(task, sight)
        return TaskView(
            id=task.id,
            status=task.status,
            active=active,
            goal=text(task.goal),
            reason=text(task.state),
            short=brief.text.rstrip(),
            paragraph=whole.text,
            tokens=whole.tokens,
            plan=tuple(
                PlanStep(printer.redact(step.text), step.state) for step in plan_steps(task, sight)
            ),
            specs=task.names if sight.sees(task.specs) else (),
            decisions=texts("decisions"),
            failures=texts("failures"),
            artifacts=tuple(
                printer.redact(_artifact(quote, sight)) for quote in visible_artifacts(task, sight)
            ),
            files=texts("files"),
            sessions=tuple(
                dict.fromkeys(
                    one for (_, one), (id_, _) in table.active.items() if one and id_ == task.id
                )
            ),
            opened_seq=task.first,
            changed_seq=task.seen,
            title=_title(text(task.goal)) or task.id,
            created=created,
            updated=updated,
            tags=tuple(map(printer.redact, task.labels)) if sight.sees(task.tags) else (),
            events=(*whole.events, *whole.parts),
        )


def _plan_for(task: TaskRecord, fields: Mapping[str, Any]) -> list[Any]:
    """The steps that an event with these fields marks: of the plan that all see who see it."""
    high = fields.get("sensitivity") in ("high", "secret")
    plan = task.latest(
        "plan", open_to(VisibilityGroup(high, group_space(fields.get("ns", GLOBAL))))
    )
    return [] if plan is None else plan.more


def _bounded(task: TaskRecord, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a task's next event: as sensitive as the least sensitive of those before it.

    In its agent's namespace where all of those are. Else who may see none of them would be told of
    the task by this one. What the caller gives stands.
    """
    own = _own(task)
    if not own:
        return dict(fields)
    shared = [quote for quote in own if not quote.ns.startswith(_AGENTS)]
    level = min((one.sensitivity for one in shared or own), key=SENSITIVITIES.index)
    bounds: dict[str, Any] = {} if level in ("low", "normal") else {"sensitivity": level}
    return bounds | ({} if shared else {"ns": own[0].ns}) | dict(fields)


def _title(goal: str) -> str:
    first = one_line(goal.strip().partition("\n")[0])
    return first if len(first) <= _TITLE_MAX else f"{first[: _TITLE_MAX - 1]}…"


def _own(task: TaskRecord) -> list[EventQuote]:
    """What is quoted of the task's own events."""
    own = (task.goal, task.note, task.plan, task.state)
    older = (
        quote for name in ("goal", "note", "plan", "state") for quote in task.older.get(name, ())
    )
    return [*(quote for quote in own if quote is not None), *older]


def _artifact(quote: EventQuote, sight: Sight) -> str:
    return artifact_words(quote, sight) or quote.path or quote.key or quote.id


def _check_text(value: str, where: str) -> str:
    if not isinstance(value, str):
        raise unexpected("a text", value, where)
    return value


def _listed(values: object, where: str) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise unexpected("a list", values, where)
    return list(values)


def _planned(plan: Sequence[str]) -> list[dict[str, str]]:
    steps = _listed(plan, "plan")
    if len(steps) > PLAN_MAX:
        raise InputError(
            f"expected a list of at most {PLAN_MAX} steps, found {len(steps)} steps", where="plan"
        )
    for step in steps:
        if not isinstance(step, str) or not step.strip():
            raise unexpected("the words of a step", step, "plan")
    return [{"step": step, "state": "todo"} for step in steps]


def _spec(name: str) -> str:
    short_name = _check_text(name, "specs").removeprefix("/spec/")
    if not short_name or any(character.isspace() for character in short_name):
        raise InputError(
            f"expected the name of a spec, found {quoted_value(name, 80)}", where="specs"
        )
    return short_name


def _joined(words: Sequence[str], most: int) -> str:
    """Words in lower case with hyphens between them, as many as `most` characters hold."""
    name = ""
    for word in words:
        longer = f"{name}-{word.lower()}" if name else word.lower()[:most]
        if len(longer) > most:
            break
        name = longer
    return name or "task"
