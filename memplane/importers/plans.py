"""To-do lists of coding agents, as a task with the steps of a plan. Pure; hooks use it.

Claude Code writes a list whole (`TodoWrite`: `todos [{content, status}]`), or step by step
(`TaskCreate`: `{subject}`, answered with `{task: {id, subject}}`; `TaskUpdate`: `{taskId, status}`,
answered with `{success, taskId, statusChange: {from, to}}`; `TaskList`, answered with `{tasks [{id,
subject, status}]}`, in any order); Codex writes it whole (`update_plan`:
`plan [{step, status}]`). All come to the same: an event of kind `task`, named after its session,
with the whole plan as it is then. A step of the second sort keeps its `id`.

The task is active while a step is left, and done when none is; a list that is emptied before that
was given up, and to empty one that is done changes nothing. Its goal is what the person asked
for first in the session, and of a later list what he asked for last before it; it stands in the
first event alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane.importers.rows import short_text
from memplane.lazy import NamedTuple
from memplane.projections.reports import title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memplane.importers.rows import Row

PLANNING: Final = frozenset(("TodoWrite", "TaskCreate", "TaskList", "TaskUpdate", "update_plan"))
STEPS_MAX: Final = 64
_STEP_CHARS: Final = 200
_ID_CHARS: Final = 32
_STATES: Final = {
    "pending": "todo",
    "todo": "todo",
    "in_progress": "doing",
    "doing": "doing",
    "completed": "done",
    "done": "done",
    "failed": "failed",
    "blocked": "todo",
}
_DROPPED: Final = frozenset(("deleted", "cancelled", "canceled", "removed"))

Step = dict[str, str]  # step, state, and an id where the client gives one


class PlanChange(NamedTuple):
    """What a call makes of a plan: another one, a new step, or the state of one by its id.

    `steps` None: the plan stays, but for what is changed in it. `state` "": the step goes.
    """

    steps: tuple[Step, ...] | None = None
    added: Step | None = None
    id: str = ""
    state: str | None = None


def change_of(tool: str, given: Any, answer: Any = None) -> PlanChange | None:
    """What a call of an agent's to-do tool changes; None for any other, or one that says nothing.

    `given` are its arguments, `answer` is what the client made of it. Where the answer alone knows
    (the number of a new step), there is no change without one.
    """
    told = given if isinstance(given, dict) else {}
    answered = answer if isinstance(answer, dict) else {}
    if tool in ("TodoWrite", "update_plan"):
        listed = told.get("todos" if tool == "TodoWrite" else "plan")
        return PlanChange(tuple(known_steps(listed))) if isinstance(listed, list) else None
    if tool == "TaskList":
        found = [step for step in known_steps(answered.get("tasks")) if "id" in step]
        found.sort(key=lambda step: (len(step["id"]), step["id"]))
        return PlanChange(tuple(found)) if found else None
    if tool == "TaskCreate":
        made = answered.get("task")
        step = _step({**told, **made}) if isinstance(made, dict) else None
        return None if step is None or "id" not in step else PlanChange(added=step)
    return _moved(told, answered) if tool == "TaskUpdate" else None


def _moved(told: dict[str, Any], answered: dict[str, Any]) -> PlanChange | None:
    id_ = _id(answered.get("taskId", told.get("taskId")))
    change = answered.get("statusChange")
    status = change.get("to") if isinstance(change, dict) else told.get("status")
    if not id_ or answered.get("success") is False or not isinstance(status, str):
        return None
    return PlanChange(id=id_, state="" if status in _DROPPED else _STATES.get(status, "todo"))


def changed(steps: Sequence[Step], change: PlanChange) -> list[Step]:
    """The plan with a change made in it."""
    if change.steps is not None:
        return [dict(step) for step in change.steps]
    found = [dict(step) for step in steps]
    if change.added is not None:
        found = [step for step in found if step.get("id") != change.added.get("id")]
        return [*found, dict(change.added)][-STEPS_MAX:]
    if not change.state:
        return [step for step in found if step.get("id") != change.id]
    return [
        {**step, "state": change.state} if step.get("id") == change.id else step for step in found
    ]


def plan_row(
    session: str, steps: Sequence[Step], *, goal: str = "", of: str = "", call: str = ""
) -> Row:
    """The row of the task as it is now; `goal` for the first one alone, `of` the event it is of.

    An empty list is one that was given up.
    """
    status = "done" if is_done(steps) else "active" if steps else "cancelled"
    data: dict[str, Any] = {"status": status, "plan": list(steps), "derived": True}
    if call:
        data["call"] = call
    row: Row = {"kind": "task", "role": "assistant", "task": task_name(session), "text": goal}
    return {**row, **({"refs": [of]} if goal and of else {}), "data": data}


def is_done(steps: Sequence[Step]) -> bool:
    """Whether a plan has steps, and none that is not done."""
    return bool(steps) and all(step["state"] == "done" for step in steps)


def is_other(before: Sequence[Step] | None, steps: Sequence[Step]) -> bool:
    """Whether a plan is another one than before: to empty none, or one that is done, is no news."""
    return list(before or ()) != list(steps) and not (not steps and is_done(before or ()))


class PlanBook:
    """The to-do lists of sessions, and what was asked for in each: for a whole import."""

    def __init__(self) -> None:
        self._plans: dict[str, list[Step]] = {}
        self._asked: dict[str, tuple[str, str]] = {}  # the title, and the event it is of

    def begin(self, state: Any) -> None:
        """Take what `state` kept of a file; of sessions met in this run more is known."""
        for session, kept in state.items() if isinstance(state, dict) else ():
            if isinstance(kept, dict):
                asked = short_text(kept, "asked"), short_text(kept, "of")
                self._asked.setdefault(session, asked)
                if session not in self._plans and isinstance(kept.get("plan"), list):
                    self._plans[session] = known_steps(kept["plan"])

    def state(self, sessions: Iterable[str]) -> dict[str, Any]:
        """What is known of these sessions, as JSON."""
        kept: dict[str, Any] = {}
        for one in sessions:
            asked, of = self._asked.get(one, ("", ""))
            plan = {"plan": self._plans[one]} if one in self._plans else {}
            if asked or plan:
                kept[one] = {"asked": asked, "of": of, **plan}
        return kept

    def asked(self, session: str, id_: str, text: str) -> None:
        """A person asked for something."""
        before = self._plans.get(session)
        begins = session not in self._asked or (before is not None and is_done(before))
        if begins and (title := title_of(text)):
            self._asked[session] = title, id_

    def row(self, session: str, change: PlanChange, call: str = "") -> Row | None:
        """The row that a change makes; None where it changes nothing."""
        before = self._plans.get(session)
        steps = changed(before or [], change)
        if not is_other(before, steps):
            return None
        self._plans[session] = steps
        begins = before is None or is_done(before)
        goal, of = self._asked.get(session, ("", "")) if begins else ("", "")
        return plan_row(session, steps, goal=goal, of=of, call=call)


def task_name(session: str) -> str:
    """What the task of a session is called: the same for an import and for a hook."""
    digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
    return f"todo-{digest[:8]}"


def known_steps(plan: Any) -> list[Step]:
    """The steps of a plan that was recorded, or that a reader's state kept."""
    found = (_step(one) for one in plan) if isinstance(plan, list) else ()
    return [step for step in found if step is not None][:STEPS_MAX]


def _step(given: Any) -> Step | None:
    if not isinstance(given, dict):
        return None
    text = next(
        (said for field in ("step", "content", "subject") if (said := short_text(given, field))), ""
    )
    state = short_text(given, "status") or short_text(given, "state")
    if not text.strip() or state in _DROPPED:
        return None
    step = {"step": " ".join(text.split())[:_STEP_CHARS], "state": _STATES.get(state, "todo")}
    return {**step, "id": id_} if (id_ := _id(given.get("id"))) else step


def _id(given: Any) -> str:
    return given[:_ID_CHARS] if isinstance(given, str) else ""
