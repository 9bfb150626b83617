"""`memplane task`: open tasks, say how they go, and see what is known of them."""

from typing import Annotated, Any, TypeAlias

import typer

from memplane.cli.app import command, task_app
from memplane.cli.options import Agent, Channel, Home, Json
from memplane.cli.output import one_line, put, say
from memplane.plane import Receipt
from memplane.plane.tasks import TaskView
from memplane.wiring import open_plane

__all__ = ["block", "close", "list_open", "open_task", "show", "switch", "update"]

_Task = Annotated[str, typer.Argument(metavar="ID", help="As `memplane task list` shows it.")]
_Text = Annotated[str, typer.Argument(metavar="TEXT", help="In words; kept as an event.")]
_Plan = Annotated[
    list[str] | None,
    typer.Option("--plan", metavar="STEP", help="A step of the plan, in order; repeatable."),
]
_Numbers: TypeAlias = list[int] | None
_Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="WORD", help="A tag; those given last count; repeatable."),
]
_Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="ID",
        help="For this session; else for all without a task of their own.",
    ),
]


@command(
    "open", example='task open parser "Parse nested lists" --plan "write tests"', group=task_app
)
def open_task(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The task's id; or its goal, which then makes the id."),
    ],
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What it is for.")] = "",
    *,
    plan: _Plan = None,
    spec: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A /spec/NAME that belongs to it; repeatable. Packs for the task see these, or "
            "every spec where it names none.",
        ),
    ] = None,
    tag: _Tags = None,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Open a task, or a closed one again. It becomes the active one where no other is."""
    with open_plane(home) as plane:
        receipt = plane.tasks.open(
            name, goal, plan=plan or (), specs=spec or (), session=session, tags=tag or None
        )
        _tell(receipt, "open", as_json=as_json)


@command("update", example='task update parser "the lexer is in" --done 1', group=task_app)
def update(
    task: _Task,
    text: _Text = "",
    *,
    plan: _Plan = None,
    done: Annotated[_Numbers, typer.Option(metavar="N", help="This step is done.")] = None,
    doing: Annotated[_Numbers, typer.Option(metavar="N", help="This step is begun.")] = None,
    failed: Annotated[_Numbers, typer.Option(metavar="N", help="This step failed.")] = None,
    todo: Annotated[_Numbers, typer.Option(metavar="N", help="This step is to do again.")] = None,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Note something on a task, give it another plan, or mark steps of its plan (repeatable)."""
    with open_plane(home) as plane:
        receipt = plane.tasks.update(
            task, text, plan=plan or (), done=done or (), doing=doing or (), failed=failed or (),
            todo=todo or (), session=session,
        )  # fmt: skip
        _tell(receipt, "updated", as_json=as_json)


@command("block", example='task block parser "waits for the grammar"', group=task_app)
def block(
    task: _Task,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why it cannot go on.")],
    *,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say why a task cannot go on. `switch` takes it up again."""
    with open_plane(home) as plane:
        _tell(plane.tasks.block(task, reason, session=session), "blocked", as_json=as_json)


@command("done", example='task done parser "merged"', group=task_app)
def close(
    task: _Task,
    text: _Text = "",
    *,
    cancelled: Annotated[
        bool, typer.Option("--cancelled", help="It ends without being done.")
    ] = False,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Close a task."""
    with open_plane(home) as plane:
        receipt = plane.tasks.done(task, text, cancelled=cancelled, session=session)
        _tell(receipt, "cancelled" if cancelled else "done", as_json=as_json)


@command("switch", example="task switch parser", group=task_app)
def switch(
    task: _Task, *, session: _Session = None, home: Home = None, as_json: Json = False
) -> None:
    """Make a task the active one: what happens belongs to it, and blocks tell it in full."""
    with open_plane(home) as plane:
        _tell(plane.tasks.switch(task, session=session), "active", as_json=as_json)


@command("list", example="task list", group=task_app)
def list_open(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="The last closed ones too, 100 at most.")
    ] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Mark this session's active task.")
    ] = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the open tasks, newest first, in a sentence or two each; * marks the active one."""
    with open_plane(home) as plane:
        views = plane.tasks.list(all=everything, session=session, channel=channel, agent=agent)
    put([_brief(view) for view in views], "\n".join(map(_row, views)), as_json=as_json)
    if not views:
        say("no task is open" if not everything else "no task yet")


@command("show", example="task show parser", group=task_app)
def show(
    task: _Task,
    *,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="As this session sees it.")
    ] = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what stands about a task, as a block shows the active one."""
    with open_plane(home) as plane:
        view = plane.tasks.get(task, session=session, channel=channel, agent=agent)
    put(view.as_json(), view.paragraph.rstrip("\n"), as_json=as_json)


def _tell(receipt: Receipt, word: str, *, as_json: bool) -> None:
    task = receipt.event.task or ""
    put({**receipt.as_json(), "task": task}, f"{one_line(task)}: {word}", as_json=as_json)


def _brief(view: TaskView) -> dict[str, Any]:
    fields = view.as_json()
    return {name: fields[name] for name in ("id", "status", "active", "short", "sessions")}


def _row(view: TaskView) -> str:
    mark = "*" if view.active else " "
    return f"{mark} {one_line(view.id, 48):<20}  {view.status:<9}  {one_line(view.short, 200)}"
