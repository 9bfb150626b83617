"""Commands for the work at hand: `session`, `task`, `projects`, `remember` and `artifact`.

Artifacts are files beside the log; an approval lets prompts show their text.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from memplane.artifacts import Approval, Artifact
from memplane.cli import commands
from memplane.cli.commands import (
    FINE,
    Actor,
    Agent,
    Argument,
    Channel,
    EventNs,
    EventSession,
    Home,
    Json,
    Key,
    OneNs,
    Option,
    Reason,
    Sensitivity,
    Session as OneSession,
    Tags,
    Task,
    Time,
    command,
)
from memplane.cli.output import (
    Bar,
    TableColumn,
    clipped_line,
    counted,
    print_answer,
    print_list,
    say,
    say_aside,
)
from memplane.clock import clock
from memplane.errors import InputError, NotFoundError
from memplane.event import GLOBAL, TYPED_KINDS
from memplane.intake.redact import quoted_value
from memplane.lazy import late, regex
from memplane.plane import Plane, Receipt
from memplane.plane.work import Project, Reassigned
from memplane.projects import UNKNOWN
from memplane.recall.time_words import read_time
from memplane.trust import working_folder
from memplane.wiring import open_plane
from memplane.work.episodes import Episode
from memplane.work.sessions import Ended, Session
from memplane.work.tasks import TaskView

if TYPE_CHECKING:
    from memplane import providers
else:
    providers = late("memplane.providers")

_Id = Annotated[str, Argument(metavar="ID", help="The session's name.")]
_Agent = Annotated[str | None, Option(metavar="NAME", help="Whose session; without it, nobody's.")]
_OfAgent = Annotated[
    str | None, Option(metavar="NAME", help="Only this agent's sessions, as it sees them.")
]
_NAMES_SHOWN = 10
_NAME_LEAST: Final = 6  # characters of a session's name that may stand for it
_UUID: Final = regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@command("start", example="session start fix-login --agent coder", group="session")
def start(
    session: Annotated[
        str | None, Argument(metavar="[ID]", help="Its name; without one it gets one.")
    ] = None,
    *,
    agent: _Agent = None,
    branch: Annotated[
        str | None, Option(metavar="NAME", help="The git branch that it works on.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Begin a session and print its name.

    Of the same agent's others, those silent for longer than plane.yaml's gap_minutes are ended.
    """
    with open_plane(home) as plane:
        started = plane.work.sessions.start(session, agent=agent, branch=branch)
        words = [started.session, *(_ended(one) for one in started.ended)]
    print_answer(started.as_json(), "\n".join(words), as_json=as_json)


@command("checkpoint", example='session checkpoint s1 "tests are green"', group="session")
def checkpoint(
    session: _Id,
    text: Annotated[str, Argument(metavar="[TEXT]", help="What there is to say.")] = "",
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Mark a point in a session: the head of its blocks is chosen anew from here on."""
    with open_plane(home) as plane:
        receipt = plane.work.sessions.checkpoint(session, text)
    print_answer(receipt.as_json(), f"{receipt.seq} {receipt.id}", as_json=as_json)


@command("end", example="session end s1", group="session")
def end(
    session: Annotated[
        str | None, Argument(metavar="[ID]", help="Its name, or none with --idle.")
    ] = None,
    *,
    no_summary: Annotated[bool, Option("--no-summary", help="Do not sum it up.")] = False,
    summary: Annotated[
        str,
        Option(metavar="HOW", help="extract: quotes; model: a model's sentences, each with refs."),
    ] = "extract",
    model: Annotated[
        str | None, Option(metavar="NAME", help="With --summary model: the model's name.")
    ] = None,
    server: Annotated[
        str | None,
        Option(metavar="URL", help="And its OpenAI-compatible server: http://127.0.0.1:11434/v1."),
    ] = None,
    idle: Annotated[
        bool,
        Option("--idle", help="All that were silent longer than plane.yaml's gap_minutes."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """End a session and sum it up in an event. One that has ended stays as it is.

    A model is asked once, on the server that is named and nowhere else; the key is OPENAI_API_KEY,
    sent over https alone. Where it fails, or none is named, the summary is an extract.
    """
    if summary not in ("extract", "model"):
        raise InputError(
            f"expected extract or model, found {quoted_value(summary)}", where="--summary"
        )
    if summary == "model" and (no_summary or idle):
        raise InputError("expected neither --no-summary nor --idle beside --summary model")
    if summary != "model" and (model or server):
        raise InputError("--model and --server go with --summary model")
    if (session is not None) == idle:
        found = "both" if idle else "none"
        raise InputError(f"expected ID or --idle, found {found}")
    with open_plane(home) as plane:
        if session is None:
            many = plane.work.sessions.end_idle(summary=not no_summary)
            words = "\n".join(_ended(one) for one in many) or "no session is idle"
            print_answer([one.as_json() for one in many], words, as_json=as_json)
            return
        ended = plane.work.sessions.end(
            session,
            summary="model" if summary == "model" else not no_summary,
            reflector=_reflector(model, server),
        )
        words = _ended(ended)
    if ended.degraded:
        say(ended.degraded)
    print_answer(ended.as_json(), words, as_json=as_json)


def _reflector(model: str | None, server: str | None) -> object:
    """The reflector on a server; None where none is named."""
    if model is None and server is None:
        return None
    if model is None or server is None:
        raise InputError("expected --model and --server together")
    return providers.blocking(providers.HTTPReflector(server, model))


@command("list", example="session list --open", group="session")
def list_sessions(
    *,
    agent: _OfAgent = None,
    only_open: Annotated[bool, Option("--open", help="Only what has not ended.")] = False,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the newest 200 sessions, the latest last: idle is open, and silent for long."""
    with open_plane(home) as plane:
        found = plane.work.sessions.list(agent=agent, only_open=only_open, channel=channel)
    words = "\n".join(_session_row(one) for one in found)
    print_list(
        [one.as_json() for one in found],
        words,
        _SESSIONS,
        [_session_cells(one) for one in found],
        as_json=as_json,
    )


@command("show", example="session show s1", group="session")
def show_session(
    session: _Id,
    *,
    episodes: Annotated[
        bool,
        Option("--episodes", help="And its newest 100 episodes, the latest last."),
    ] = False,
    agent: Annotated[
        str | None,
        Option(metavar="NAME", help="Who reads: it alone is told what is in its namespace."),
    ] = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what a session came to, its figures, and the summary that was recorded of it.

    The first eight characters of a client's name for it are enough.
    """
    with open_plane(home) as plane:
        session = _session_named(plane, session, channel)
        found = plane.work.sessions.get(session, channel=channel, agent=agent)
        divided = plane.episodes.list(session, channel=channel, agent=agent) if episodes else []
    answer, words = found.as_json(), _whole_session(found)
    if episodes:
        answer["episodes"] = [one.to_dict() for one in divided]
        words = "\n".join((words, *map(_episode_row, divided)))
    print_answer(answer, words, as_json=as_json)


@command("today", example="today yesterday")
def tell_day(
    when: Annotated[
        str, Argument(metavar="[WHEN]", help="Another time: yesterday, 'last week', '3 May'.")
    ] = "today",
    *,
    agent: _OfAgent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what was done today, or at another time: sessions, what they came to, what is left.

    Days are those of UTC.
    """
    with open_plane(home) as plane:
        asked = read_time(when, clock(), plane.upkeep.policies.scoring.times)
        if asked is None or asked.sessions_back:
            raise InputError(
                f"expected a time such as yesterday, last week or 2026-05-03, found {when!r}",
                where="WHEN",
            )
        found = plane.work.sessions.list(
            agent=agent, channel=channel, since=asked.since, until=asked.until
        )
    told = [one for one in found if one.events.get("message") or one.digest]
    words = "\n\n".join(map(_page, reversed(told))) or f"nothing was recorded {asked.words}"
    print_answer([one.as_json() for one in told], words, as_json=as_json)


@command("last", example="last")
def tell_last_session(
    back: Annotated[
        int, Argument(metavar="[N]", min=1, max=50, help="The session so many back.")
    ] = 1,
    *,
    agent: _OfAgent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what the last session did, decided and left; with N the one so many back."""
    with open_plane(home) as plane:
        told = [
            one
            for one in plane.work.sessions.list(agent=agent, channel=channel)
            if one.events.get("message") or one.digest
        ]
        told.sort(key=lambda one: one.last)
        if back > len(told):
            few = counted(len(told), "session")
            raise NotFoundError(f"there are {few} in which something was said, not {back}")
        found = plane.work.sessions.get(told[-back].id, channel=channel, agent=agent)
    print_answer(found.as_json(), _page(found), as_json=as_json)


def _page(one: Session) -> str:
    """A session for people: when, how it is called, and what its digest says."""
    from_, to = one.first[:16].replace("T", " "), one.last[11:16]
    days = f"{from_} to {to}" if one.first[:10] == one.last[:10] else f"{from_} to {one.last[:10]}"
    head = f"{days}  {one.status}  session {clipped_line(one.id, 60)}"
    return f"{head}\n{one.digest}" if one.digest else head


def _ended(ended: Ended) -> str:
    name = clipped_line(ended.session)
    if ended.already:
        return f"{name} had ended already ({_reason(ended.reason)}); nothing was written"
    summary = ended.summary
    said = "no summary" if summary is None else f"summary in event {summary.seq}"
    return f"ended {name} ({_reason(ended.reason)}), {said}"


def _reason(reason: str | None) -> str:
    return clipped_line(reason or "no reason given")


def _session_row(one: Session) -> str:
    """A line: day and time, status, name as far as it tells it apart, title, branch, outcome."""
    title = f'"{clipped_line(one.title, 48)}"' if one.title else ""
    branch = f"on {clipped_line(one.branch, 30)}" if one.branch else ""
    events = counted(sum(one.events.values()), "event") + ("+" if one.partial else "")
    outcome = clipped_line(one.outcome, 60) if one.outcome else events
    agent = clipped_line(one.agent or "", 20)
    told = "  ".join(filter(None, (title, branch, outcome, agent)))
    return f"{one.last[5:16].replace('T', ' ')}  {one.status:<5}  {_short_name(one.id)}  {told}"


_SESSIONS: Final = (
    TableColumn("last", dim=True),
    TableColumn("status"),
    TableColumn("session"),
    TableColumn("title", wraps=True),
    TableColumn("outcome", wraps=True),
    TableColumn("branch", dim=True),
)


def _session_cells(one: Session) -> tuple[str, ...]:
    events = counted(sum(one.events.values()), "event") + ("+" if one.partial else "")
    return (
        one.last[:16].replace("T", " "),
        one.status,
        _short_name(one.id).strip(),
        clipped_line(one.title or "", 120),
        clipped_line(one.outcome or events, 120),
        clipped_line(one.branch or "", 24),
    )


def _short_name(session: str) -> str:
    """A session's name; of a long one, as clients make them, what `session show` takes for it."""
    return f"{session[:8]:<8}" if _UUID.fullmatch(session) else f"{clipped_line(session, 40):<8}"


def _session_named(plane: Plane, name: str, channel: str) -> str:
    """The session whose name begins so, if it is one alone; else the name as it is."""
    if len(name) < _NAME_LEAST:
        return name
    found = [one.id for one in plane.work.sessions.list(channel=channel) if one.id.startswith(name)]
    return found[0] if len(found) == 1 else name


def _episode_row(one: Episode) -> str:
    ended = one.close_reason or "open"
    turns = counted(len(one.turn_ids), "turn")
    return f"  {clipped_line(one.id)}  {turns}, {one.token_count} tokens  {clipped_line(ended)}"


def _whole_session(one: Session) -> str:
    status = one.status if one.reason is None else f"{one.status} ({clipped_line(one.reason)})"
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(one.events.items()))
    tools = f"{counted(one.calls, 'tool call')}, {counted(one.errors, 'error')}"
    lines = [
        ("session", one.id),
        ("agent", one.agent),
        ("branch", one.branch),
        ("folder", one.cwd),
        ("status", status),
        ("from", one.first),
        ("to", one.last),
        ("events", f"{sum(one.events.values())}: {kinds}"),
        ("prompts", str(one.prompts)),
        ("tools", tools),
        ("decisions", str(one.decisions)),
        ("tokens", str(one.tokens)),
        ("files", _named(one.files, more=one.more)),
        ("tasks", _named(one.tasks, more=False)),
    ]
    shown = [f"{name:<12}{clipped_line(value, 1000)}" for name, value in lines if value]
    told = [*one.digest.split("\n"), ""] if one.digest else []
    summary = ["", one.summary.text] if one.summary and not one.digest else []
    return "\n".join([*told, *shown, *summary])


def _named(names: tuple[str, ...], *, more: bool) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown}, and others" if more or len(names) > _NAMES_SHOWN else shown


# `memplane task`: open tasks, say how they go, and see what is known of them.

_Task = Annotated[str, Argument(metavar="ID", help="As `memplane task list` shows it.")]
_Text = Annotated[str, Argument(metavar="TEXT", help="In words; kept as an event.")]
_Plan = Annotated[
    list[str] | None,
    Option("--plan", metavar="STEP", help="A step of the plan, in order; repeatable."),
]
_Numbers: TypeAlias = list[int] | None
_Tags = Annotated[
    list[str] | None,
    Option("--tag", metavar="WORD", help="A tag; those given last count; repeatable."),
]
_Session = Annotated[
    str | None,
    Option(
        "--session",
        metavar="ID",
        help="For this session; else for all without a task of their own.",
    ),
]


@command("open", example='task open parser "Parse nested lists" --plan "write tests"', group="task")
def open_task(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="The task's id; or its goal, which then makes the id."),
    ],
    goal: Annotated[str, Argument(metavar="GOAL", help="What it is for.")] = "",
    *,
    plan: _Plan = None,
    spec: Annotated[
        list[str] | None,
        Option(
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
        receipt = plane.work.tasks.open(
            name, goal, plan=plan or (), specs=spec or (), session=session, tags=tag or None
        )
        _tell(receipt, "open", as_json=as_json)


@command("update", example='task update parser "the lexer is in" --done 1', group="task")
def update_task(
    task: _Task,
    text: _Text = "",
    *,
    plan: _Plan = None,
    done: Annotated[_Numbers, Option(metavar="N", help="This step is done.")] = None,
    doing: Annotated[_Numbers, Option(metavar="N", help="This step is begun.")] = None,
    failed: Annotated[_Numbers, Option(metavar="N", help="This step failed.")] = None,
    todo: Annotated[_Numbers, Option(metavar="N", help="This step is to do again.")] = None,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Note something on a task, give it another plan, or mark steps of its plan (repeatable)."""
    with open_plane(home) as plane:
        receipt = plane.work.tasks.update(
            task,
            text,
            plan=plan or (),
            done=done or (),
            doing=doing or (),
            failed=failed or (),
            todo=todo or (),
            session=session,
        )
        _tell(receipt, "updated", as_json=as_json)


@command("block", example='task block parser "waits for the grammar"', group="task")
def block(
    task: _Task,
    reason: Annotated[str, Argument(metavar="REASON", help="Why it cannot go on.")],
    *,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say why a task cannot go on. `switch` takes it up again."""
    with open_plane(home) as plane:
        _tell(plane.work.tasks.block(task, reason, session=session), "blocked", as_json=as_json)


@command("done", example='task done parser "merged"', group="task")
def close(
    task: _Task,
    text: _Text = "",
    *,
    cancelled: Annotated[bool, Option("--cancelled", help="It ends without being done.")] = False,
    session: _Session = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Close a task."""
    with open_plane(home) as plane:
        receipt = plane.work.tasks.done(task, text, cancelled=cancelled, session=session)
        _tell(receipt, "cancelled" if cancelled else "done", as_json=as_json)


@command("switch", example="task switch parser", group="task")
def switch(
    task: _Task, *, session: _Session = None, home: Home = None, as_json: Json = False
) -> None:
    """Make a task the active one: what happens belongs to it, and blocks tell it in full."""
    with open_plane(home) as plane:
        _tell(plane.work.tasks.switch(task, session=session), "active", as_json=as_json)


@command("list", example="task list", group="task")
def list_open(
    *,
    everything: Annotated[
        bool, Option("--all", help="The last closed ones too, 100 at most.")
    ] = False,
    session: Annotated[
        str | None, Option("--session", metavar="ID", help="Mark this session's active task.")
    ] = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the open tasks, newest first, in a sentence or two each; * marks the active one."""
    with open_plane(home) as plane:
        views = plane.work.tasks.list(all=everything, session=session, channel=channel, agent=agent)
    print_list(
        [_brief(view) for view in views],
        "\n".join(map(_task_row, views)),
        _TASKS,
        [_task_cells(view) for view in views],
        as_json=as_json,
    )
    if not views:
        say("no task is open" if not everything else "no task yet")


@command("show", example="task show parser", group="task")
def show_task(
    task: _Task,
    *,
    session: Annotated[
        str | None, Option("--session", metavar="ID", help="As this session sees it.")
    ] = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what stands about a task, as a block shows the active one."""
    with open_plane(home) as plane:
        view = plane.work.tasks.get(task, session=session, channel=channel, agent=agent)
    print_answer(view.as_json(), view.paragraph.rstrip("\n"), as_json=as_json)


def _tell(receipt: Receipt, word: str, *, as_json: bool) -> None:
    task = receipt.event.task or ""
    print_answer(
        {**receipt.as_json(), "task": task}, f"{clipped_line(task)}: {word}", as_json=as_json
    )


def _brief(view: TaskView) -> dict[str, Any]:
    options = view.as_json()
    return {name: options[name] for name in ("id", "status", "active", "short", "sessions")}


_TASKS: Final = (
    TableColumn(""),
    TableColumn("task"),
    TableColumn("status"),
    TableColumn("goal", wraps=True),
)


def _task_cells(view: TaskView) -> tuple[str, ...]:
    mark = "*" if view.active else ""
    return mark, clipped_line(view.id, 48), view.status, clipped_line(view.short, 200)


def _task_row(view: TaskView) -> str:
    mark = "*" if view.active else " "
    return (
        f"{mark} {clipped_line(view.id, 48):<20}  {view.status:<9}  {clipped_line(view.short, 200)}"
    )


# Projects of the user's own plane, and what is remembered of one or for everywhere.
_RECENT_SHOWN: Final = 5  # sessions of no project that the text lists


@command("", example="projects", group="projects")
def list_projects(*, home: Home = None, as_json: Json = False) -> int:
    """Your own plane's projects: roots, sessions, and what is nobody's yet.

    In ~/.memplane everything belongs to a project: that of the folder in which it was recorded. A
    session sees its own project, and /global, which is what you said of yourself for everywhere.
    """
    with open_plane(home) as plane:
        found = plane.work.projects.list(working_folder())
    say_aside(plane)
    print_answer([one.as_json() for one in found], _projects_listed(found), as_json=as_json)
    return FINE


@command("join", example="projects join . --to app", group="projects")
def join_root(
    folder: Annotated[
        str | None, Argument(metavar="DIR", help="A folder of the root; else this one.")
    ] = None,
    *,
    to: Annotated[
        str | None,
        Option(
            "--to", metavar="NAME", help="The project; else the one whose origin the root claims."
        ),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Let a root be of a project that it was not met in, with all that was recorded there.

    A `.git` can claim any origin: a second root with an origin that is known is a project of its
    own, and is shown nothing of the other, until you join it.
    """
    path = os.path.abspath(os.path.expanduser(folder)) if folder is not None else working_folder()  # noqa: PTH100, PTH111
    with open_plane(home) as plane:
        moved = plane.work.projects.join(path, to)
    say_aside(plane)
    print_answer(moved.as_json(), _reassigned(moved, "joined"), as_json=as_json)


@command("assign", example="projects assign app .", group="projects")
def assign_sessions(
    what: Annotated[
        str,
        Argument(metavar="SESSION|FOLDER", help="A session, or the name of its folder."),
    ],
    to: Annotated[
        str, Argument(metavar="PROJECT", help="A project's name, or a folder: `.`, /a/b.")
    ],
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Give a session to a project, or all that are nobody's and began in folders of a name.

    It is an event: nothing that was recorded is rewritten.
    """
    with open_plane(home) as plane:
        moved = plane.work.projects.assign(what, to)
    say_aside(plane)
    print_answer(moved.as_json(), _reassigned(moved, "given"), as_json=as_json)


@command("remember", example='remember --everywhere "I write British English"')
def remember(
    text: Annotated[str, Argument(metavar="TEXT", help="One statement.")],
    *,
    everywhere: Annotated[
        bool,
        Option("--everywhere", help="Of you, for every project; preferences are so without it."),
    ] = False,
    kind: Annotated[
        str, Option("--kind", metavar="KIND", help="fact, rule, preference, decision, ...")
    ] = "fact",
    key: commands.Key = None,
    tag: commands.Tags = None,
    session: commands.EventSession = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Remember a statement of this project, or of you for everywhere."""
    if kind not in TYPED_KINDS:
        raise InputError(
            f"expected one of {', '.join(TYPED_KINDS)}, found {kind!r:.60}", where="--kind"
        )
    if not text.strip():
        raise InputError("expected a statement, found only blanks", where="TEXT")
    given: dict[str, Any] = {"kind": kind, "role": "user", "key": key, "session": session}
    given |= {"tags": tag} if tag else {}
    given |= {"ns": GLOBAL} if everywhere else {}
    with open_plane(home) as plane:
        receipt = plane.record(text, **given)
        ns = receipt.event.ns
    say_aside(plane)
    where = "everywhere" if ns == GLOBAL else ns
    print_answer(
        {**receipt.as_json(), "ns": ns}, f"{receipt.seq} {receipt.id} {where}", as_json=as_json
    )
    if receipt.duplicate:
        say("it was there already; nothing was added")


def _reassigned(moved: Reassigned, word: str) -> str:
    if moved.seq is None:
        return f"{moved.project}: it is so already"
    if word == "joined":
        return f"{moved.what[0]} is of {moved.project} now ({moved.ns})"
    return f"{counted(len(moved.what), 'session')} given to {moved.project} ({moved.ns})"


def _projects_listed(found: list[Project]) -> str:
    lines = []
    for one in found:
        here = "  (here)" if one.here else ""
        lines.append(f"{clipped_line(one.name, 60)}  {counted(one.sessions, 'session')}{here}")
        if one.address:
            lines.append(f"    origin  {clipped_line(one.address, 100)}")
        lines += [f"    root    {clipped_line(root, 200)}" for root in one.roots]
        if one.claims:
            lines.append(
                f"    claims the origin of {one.claims}; `memplane projects join` lets it be of it"
            )
        if one.ns == UNKNOWN:
            lines += [
                f"    {session.since[:10]}  {clipped_line(session.session, 60)}  "
                f"{clipped_line(session.folder, 40)}"
                for session in one.recent[:_RECENT_SHOWN]
            ]
            lines.append(
                "    `memplane projects assign SESSION|FOLDER PROJECT` says whose they are"
            )
    return "\n".join(lines) or "no project yet; a session in a folder makes one"


_Named: TypeAlias = Annotated[
    str,
    Argument(
        metavar="ID|SEQ|HASH", help="Its event, the beginning of its hash, its URI or its name."
    ),
]
_Reference: TypeAlias = Annotated[
    bool,
    Option("--reference", help="Leave it where it is and keep path and hash: up to 1 GiB."),
]
_Type: TypeAlias = Annotated[
    str | None,
    Option(
        "--type",
        metavar="TYPE",
        help="research_report (Markdown and a JSON sidecar) or research_bundle (JSON).",
    ),
]


@command("add", example='artifact add report.md "What we found on herons"', group="artifact")
def artifact_add(
    path: Annotated[str, Argument(metavar="FILE", help="A file of at most 64 MiB.")],
    text: Annotated[
        str, Argument(metavar="[TEXT]", help="What it is; shown once it is approved.")
    ] = "",
    *,
    reference: _Reference = False,
    name: Annotated[
        str | None, Option("--name", metavar="NAME", help="Instead of the file's own.")
    ] = None,
    mime: Annotated[
        str | None, Option("--mime", metavar="TYPE", help="Instead of what its name says.")
    ] = None,
    type_: _Type = None,
    sidecar: Annotated[
        str | None,
        Option("--sidecar", metavar="FILE", help="Of a report; else its name with .json."),
    ] = None,
    redact: Annotated[
        bool, Option("--redact", help="Store a text with its secrets masked.")
    ] = False,
    ns: EventNs = None,
    task: Task = None,
    session: EventSession = None,
    tag: Tags = None,
    sensitivity: Sensitivity = None,
    key: Key = None,
    actor: Actor = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Add a file: a copy of its bytes, or with --reference its path and hash.

    No block, hit or expansion shows its text until somebody approves it; until then its name, size
    and handle are told. A text that holds a secret is refused without --redact.
    """
    with open_plane(home) as plane, Bar("reading") as bar:
        added = plane.work.artifacts.add(
            path, text, reference=reference, name=name, mime=mime, type=type_, sidecar=sidecar,
            redact=redact, progress=bar, ns=ns, task=task, session=session, tags=tag,
            sensitivity=sensitivity, key=key, actor=actor,
        )  # fmt: skip
    facts, receipt = added.facts, added.receipt
    print_answer(added.as_json(), f"{receipt.seq} {facts.uri}", as_json=as_json)
    masked = sum(added.redactions.values())
    if masked:
        rules = ", ".join(f"{rule} {number}" for rule, number in added.redactions.items())
        say(f"{counted(masked, 'secret')} masked in what is stored: {rules}")
    if receipt.duplicate:
        say(f"it was there already, as event {receipt.seq}")


@command("list", example="artifact list", group="artifact")
def list_all(
    *,
    ns: OneNs = None,
    session: OneSession = None,
    task: Annotated[str | None, Option("--task", metavar="ID", help="Only this task.")] = None,
    everything: Annotated[bool, Option("--all", help="Replaced and forgotten ones, too.")] = False,
    limit: Annotated[int, Option(metavar="N", min=1, help="At most so many.")] = 100,
    channel: Channel = "private",
    agent: Agent = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the artifacts, newest first: seq, hash, whether approved, name, size and type."""
    with open_plane(home) as plane:
        found = plane.work.artifacts.list(
            ns=ns,
            session=session,
            task=task,
            all=everything,
            limit=limit,
            channel=channel,
            agent=agent,
        )
    print_list(
        [one.as_json() for one in found],
        "\n".join(map(_row, found)),
        _ARTIFACTS,
        [_artifact_cells(one) for one in found],
        as_json=as_json,
    )
    if not found:
        say("no artifact")


@command("show", example="artifact show report.md", group="artifact")
def print_artifact(
    named: _Named,
    *,
    review: Annotated[
        bool,
        Option("--review", help="What was said of it, too, for who decides whether to."),
    ] = False,
    channel: Channel = "private",
    agent: Agent = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what is known of an artifact, who approved it, and whether its file is unchanged."""
    with open_plane(home) as plane:
        found = plane.work.artifacts.show(named, review=review, channel=channel, agent=agent)
    print_answer(found.as_json(), _whole(found), as_json=as_json)


@command("export", example="artifact export report.md --to copy.md", group="artifact")
def export_artifact(
    named: _Named,
    *,
    to: Annotated[
        str, Option("--to", metavar="PATH", help="A file, or a folder to put it in.")
    ] = ".",
    replace: Annotated[
        bool, Option("--replace", help="Replace what is there by that name.")
    ] = False,
    channel: Channel = "private",
    agent: Agent = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write the bytes that were added to a file, compared with their hash; a sidecar beside it."""
    with open_plane(home) as plane:
        paths = [
            str(path)
            for path in plane.work.artifacts.export(
                named, to, replace=replace, channel=channel, agent=agent
            )
        ]
    print_answer(paths, "\n".join(paths), as_json=as_json)


@command("approve", example="artifact approve report.md --actor ann", group="artifact")
def approve(
    named: _Named,
    *,
    actor: Actor = None,
    reason: Reason = "",
    valid_until: Time = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Let prompts show its text as it is now. Read it first: `memplane artifact export`."""
    with open_plane(home) as plane:
        receipt = plane.work.artifacts.approve(named, reason, valid_until=valid_until, actor=actor)
        words = f"approved {receipt.event.data['sha256'][:16]} by event {receipt.seq}"
    print_answer(receipt.as_json(), words, as_json=as_json)


@command("revoke", example="artifact revoke report.md", group="artifact")
def revoke(
    named: _Named,
    *,
    actor: Actor = None,
    reason: Reason = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take every approval of an artifact back."""
    with open_plane(home) as plane:
        receipt = plane.work.artifacts.revoke(named, reason, actor=actor)
        words = f"revoked {receipt.event.data['sha256'][:16]} by event {receipt.seq}"
    print_answer(receipt.as_json(), words, as_json=as_json)


_ARTIFACTS: Final = (
    TableColumn("seq", right=True),
    TableColumn("sha256", dim=True),
    TableColumn("status"),
    TableColumn("artifact", wraps=True),
)


def _artifact_cells(one: Artifact) -> tuple[str, ...]:
    standing = one.archived or ("approved" if one.approved else "unapproved")
    card = clipped_line(one.card, 400)
    return str(one.seq), one.sha256[:16], standing, f"{card} {one.path or ''}".strip()


def _row(one: Artifact) -> str:
    standing = one.archived or ("approved" if one.approved else "unapproved")
    where = f"  {clipped_line(one.path)}" if one.path else ""
    return f"{one.seq:>6}  {one.sha256[:16]}  {standing:<10}  {clipped_line(one.card)}{where}"


def _whole(one: Artifact) -> str:
    standing = one.archived or ("approved" if one.approved else "not approved")
    lines = [
        ("artifact", one.name),
        ("event", f"{one.seq} {one.id}"),
        ("uri", one.uri),
        ("handle", one.handle),
        ("mime", one.mime),
        ("bytes", str(one.bytes)),
        ("stored", f"{one.stored} {one.path}".strip()),
        ("type", one.type),
        ("sidecar", one.sidecar),
        ("added", f"{one.added[:19]}Z{'' if one.actor is None else f' by {one.actor}'}"),
        ("ns", one.ns),
        ("session", one.session),
        ("task", one.task),
        ("key", one.key),
        ("tags", ", ".join(one.tags)),
        ("sensitivity", one.sensitivity),
        ("status", standing),
        ("file", one.changed or "as it was added"),
    ]
    shown = [f"{name:<12}{clipped_line(value, 1000)}" for name, value in lines if value]
    shown += [f"{'':<12}{_said(each)}" for each in one.approvals]
    return "\n".join([*shown, "", one.text] if one.text else shown)


def _said(one: Approval) -> str:
    word = "revoked" if one.revokes else "approved"
    by = "" if one.by is None else f" by {clipped_line(one.by, 60)}"
    until = "" if one.valid_until is None else f", until {one.valid_until[:19]}Z"
    holds = "" if one.holds or one.revokes else " (no longer)"
    reason = f": {clipped_line(one.reason)}" if one.reason else ""
    return f"{word} {one.at[:19]}Z{by} in event {one.seq}{until}{holds}{reason}"
