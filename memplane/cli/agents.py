"""`memplane install`, `uninstall`, `mcp`, `hook`: in a coding agent; `serve`, `token`: for many.

The modules that do the work are imported when a command runs: diffs and TOML take 30 ms.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from memplane.cli.commands import Argument, Home, Json, Option, command
from memplane.cli.output import print_answer, say
from memplane.cli.policy import ask_once, say_if_untrusted
from memplane.clock import clock, ulid
from memplane.errors import HomeError, InputError, MemplaneError, MissingExtraError, WriteError
from memplane.home import HOME_NAME
from memplane.hook.run import ShownEntries
from memplane.importers.rows import name
from memplane.lazy import NamedTuple, late
from memplane.plane import Plane
from memplane.projects import for_folder
from memplane.trust import (
    Located,
    TrustStore,
    located,
    named_plane,
    refusal,
    state_folder,
    upward,
)
from memplane.wiring import (
    CALLER,
    Caller,
    find_home,
    held_words,
    init,
    make_counter,
    open_found,
    open_light,
    open_plane,
    user_folder,
)

if TYPE_CHECKING:
    from memplane import clients, serve as serve_room
    from memplane.clients import FileChange, Part, Program, Scope, Where
    from memplane.hook import run
else:
    clients = late("memplane.clients")
    run = late("memplane.hook.run")
    serve_room = late("memplane.serve")


class _Name(StrEnum):
    """The agents, as an argument."""

    claude_code = "claude-code"
    codex = "codex"


class _Plane(NamedTuple):
    """The plane that the agent will use, and whether it is there already."""

    path: Path
    there: bool


_PARTS: Final[dict[Part, str]] = {
    "hooks": "hooks",
    "mcp": "MCP server",
    "skill": "skill",
    "memory": "own memory",
}
_Agent = Annotated[_Name, Argument(metavar="AGENT", help="claude-code or codex.")]
_User = Annotated[bool, Option("--user", help="In your own settings, for every project.")]
_Project = Annotated[
    bool, Option("--project", help="In the settings of the project in this folder.")
]
_Hooks = Annotated[
    bool, Option("--hooks", help="Only the hooks, which record and recall by themselves.")
]
_Mcp = Annotated[bool, Option("--mcp", help="Only the MCP server, whose tools the agent calls.")]
_Skill = Annotated[
    bool,
    Option(
        "--skill",
        help="Only what tells the agent when to store and when to ask: a skill for Claude Code, a "
        "section of AGENTS.md for Codex.",
    ),
]


class _Switch(StrEnum):
    """What becomes of the client's own memory."""

    on = "on"
    off = "off"


_Native = Annotated[
    _Switch | None,
    Option(
        "--native-memory",
        metavar="on|off",
        help="Switch the agent's own memory off, or back to what it was, as uninstall does. Claude "
        "Code: autoMemoryEnabled (2.1.59 or later; CLAUDE_CODE_DISABLE_AUTO_MEMORY goes before "
        "it); Codex: features.memories.",
    ),
]
_DryRun = Annotated[
    bool, Option("--dry-run", help="Print what would change, as a diff; change nothing.")
]


_OnePlane = Annotated[
    str | None,
    Option(
        "--home",
        metavar="DIR",
        help="The one plane to use, wherever the agent works; else the one of MEMPLANE_HOME, "
        "else each project's own, and ~/.memplane where there is none.",
    ),
]


@command("install", example="install claude-code --user --dry-run")
def install_agent(
    agent: _Agent,
    *,
    user: _User = False,
    project: _Project = False,
    hooks: _Hooks = False,
    mcp: _Mcp = False,
    skill: _Skill = False,
    native_memory: _Native = None,
    dry_run: _DryRun = False,
    home: _OnePlane = None,
    as_json: Json = False,
) -> None:
    """Put memplane into an agent's settings: hooks, server, skill, and a plane if there is none.

    Without --project it is for the user. Other entries keep their place and their bytes, and a
    second run changes nothing; a skill or section that you edited stays. Until an uninstall the
    file as it was is kept beside it (NAME.memplane-backup-N); that of a project, which may be in
    git, in the user's folder of state.
    """
    if user and project:
        raise InputError("expected one of --user and --project, found both")
    scope: Scope = "project" if project else "user"
    where = _where(agent, scope)
    parts = _parts_to_install(hooks=hooks, mcp=mcp, skill=skill)
    parts += ["memory"] if native_memory == _Switch.off else []
    back: list[Part] = ["memory"] if native_memory == _Switch.on else []
    plane, above = _plane(home, scope, asks=not as_json), _project_above() if project else None
    # Agents are also started where this shell's variables are not.
    named = home is not None or bool(os.environ.get("MEMPLANE_HOME"))
    program = clients.Program(_program(scope), ("--home", str(plane.path)) if named else ())
    changes = clients.install(where, parts, program, dry_run=True)
    if not dry_run:
        if not plane.there:
            init(plane.path).close()
            say_if_untrusted(str(plane.path))
        changes = clients.install(where, parts, program)
    changes += clients.uninstall(where, back, dry_run=dry_run)
    value: dict[str, Any] = {
        "agent": agent.value,
        "scope": scope,
        "dry_run": dry_run,
        "program": program.words,
        "plane": {"path": str(plane.path), "made": not plane.there},
        "files": [change._asdict() for change in changes],
    }
    words = _words(changes, dry_run=dry_run)
    if not dry_run:
        words += f"\nplane       {plane.path}: {'as it was' if plane.there else 'made'}"
    print_answer(value, words, as_json=as_json)
    if dry_run and not plane.there:
        say(f"a plane would be made in {plane.path}")
    if named and home is None and any(change.is_one for change in changes):
        say(f"MEMPLANE_HOME names the plane, so the settings do too: {plane.path}")
    if above is not None:
        say(f"{Path.cwd()} is a part of {above}; an agent started there does not read this")
    _say_what_is_next(where, changes, program, dry_run=dry_run)
    if native_memory is not None:
        _say_of_own_memory(where, changes, off=native_memory == _Switch.off)


@command("uninstall", example="uninstall claude-code --dry-run")
def uninstall_agent(
    agent: _Agent,
    *,
    user: _User = False,
    project: _Project = False,
    hooks: _Hooks = False,
    mcp: _Mcp = False,
    skill: _Skill = False,
    dry_run: _DryRun = False,
    home: Home = None,  # noqa: ARG001 - every command takes it; what is installed names its own
    as_json: Json = False,
) -> None:
    """Take memplane out of an agent's settings; the plane and what it holds stay.

    Without --user or --project, out of both. A file that nobody edited since is again what it was,
    byte for byte; from another only our entries go. The agent's own memory is what it was before
    --native-memory off. A skill or section that you edited stays.
    """
    scopes: list[Scope] = ["user", "project"]
    if user != project:
        scopes = ["user"] if user else ["project"]
    parts = _chosen(hooks=hooks, mcp=mcp, skill=skill)
    if not (hooks or mcp or skill):
        parts.append("memory")
    changes: list[FileChange] = []
    for scope in scopes:
        changes += clients.uninstall(_where(agent, scope), parts, dry_run=dry_run)
    value = {
        "agent": agent.value,
        "dry_run": dry_run,
        "files": [change._asdict() for change in changes],
    }
    print_answer(value, _words(changes, dry_run=dry_run), as_json=as_json)
    if not any(change.is_one for change in changes):
        say(f"was not installed for {_where(agent, 'user').agent.title}")


def _where(agent: str, scope: Scope) -> clients.Where:

    return clients.Where(clients.AGENTS[agent], scope, os.environ, Path.cwd())


def _parts_to_install(*, hooks: bool, mcp: bool, skill: bool) -> list[Part]:
    """What was asked for, all by default; the server only where it would start."""
    parts = _chosen(hooks=hooks, mcp=mcp, skill=skill)
    if importlib.util.find_spec("mcp") is None and "mcp" in parts:
        if mcp:
            raise MissingExtraError("`memplane mcp`", "mcp")
        say("without the MCP server, which needs: pip install 'memplane[mcp]'")
        parts.remove("mcp")
    return parts


def _chosen(**asked: bool) -> list[Part]:
    """The parts that were asked for; all of them where none was."""
    parts: tuple[Part, ...] = ("hooks", "mcp", "skill")
    return [part for part in parts if asked[part] or not any(asked.values())]


def _plane(home: str | None, scope: Scope, *, asks: bool) -> _Plane:
    """The plane that is named, or the project's own, or the user's.

    Raises UntrustedError where the project's is not trusted, and the settings would lead to it.
    """
    own = Path.home() / HOME_NAME
    path = own
    if home is not None or os.environ.get("MEMPLANE_HOME"):
        path = find_home(home).absolute()
    else:
        found = upward(os.environ, str(Path.cwd()), str(Path.home()))
        if found.passed is not None:
            error = refusal(found, os.environ)
            if asks and ask_once(error):
                return _plane(home, scope, asks=False)
            if scope == "project":
                raise error
            say(str(error))
        elif scope == "project":
            above = None if found.home is None else found.home.folder
            path = Path.cwd() / HOME_NAME if above in (None, str(own)) else Path(above or "")
    return _Plane(path, (path / "plane.json").exists())


def _project_above() -> Path | None:
    """The folder of the project, where this one is a part of it: with a plane, or in git."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder == Path.home():
            break
        if (folder / ".git").exists() or (folder / HOME_NAME / "plane.json").exists():
            return folder if folder != here else None
    return None


def _program(scope: Scope) -> tuple[str, ...]:
    """The words that run this memplane again, from any folder and without this shell.

    Its whole path, as an agent may be started where PATH is another one. What is shared with a
    project has the bare name, if PATH has it outside of a virtual environment.
    """
    script = Path(sys.argv[0]).absolute()
    if script.name not in ("memplane", "memplane.exe"):
        script = Path(sys.executable).with_name("memplane")
    if not script.is_file():
        return (sys.executable, "-m", "memplane")
    if scope == "project":
        inside = os.environ.get("VIRTUAL_ENV")
        search = [
            folder
            for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)
            if folder and not (inside and Path(folder).is_relative_to(inside))
        ]
        found = shutil.which("memplane", path=os.pathsep.join(search))
        if found is not None and Path(found).samefile(script):
            return ("memplane",)
    return (str(script),)


_DID: Final = {
    "unchanged": "as it was",
    "absent": "is not there",
    "edited": "was edited, so it stays as it is",
}


def _words(changes: list[FileChange], *, dry_run: bool) -> str:
    """The diff of a dry run, or a line for each file that was changed or might have been."""
    if dry_run:
        diff = "".join(change.diff for change in changes)
        return diff.rstrip("\n") or "no settings would change"
    lines = []
    for change in changes:
        said = _DID.get(change.did, change.did)
        if change.backup is not None:
            beside = Path(change.backup).parent == Path(change.path).parent
            said += f"; what it was is in {Path(change.backup).name if beside else change.backup}"
        lines.append(f"{_PARTS[change.part]:<11} {change.path}: {said}")
    return "\n".join(lines)


def _say_what_is_next(
    where: Where, changes: list[FileChange], program: Program, *, dry_run: bool
) -> None:
    """Tell what the agent will ask, and what may surprise."""
    changed = {change.part for change in changes if change.is_one}
    if "hooks" in changed and (off := clients.switched_off(where)):
        say(f"{where.agent.title} runs no hooks now: {off}")
    elif "hooks" in changed and where.agent.by_shell:
        say("Codex runs a new hook when you have accepted it: start codex and see /hooks")
    instead = where.file("skill").with_name("AGENTS.override.md")
    if "skill" in changed and where.agent.by_shell and instead.exists():
        say(f"Codex reads {instead} in place of the AGENTS.md beside it")
    if changed and where.scope == "project":
        say(f"{where.agent.title} asks whether to trust a project before it takes its settings")
        for word in (program.words[0], *program.home[1:]):
            if Path(word).is_absolute():
                say(f"{word} is a path of this machine; do not share these settings")
    if not dry_run and changed and _is_elsewhere(where, changes):
        other = "project" if where.scope == "user" else "user"
        say(f"it is installed with --{other} too; hooks would run twice, so uninstall one of them")


def _say_of_own_memory(where: Where, changes: list[FileChange], *, off: bool) -> None:
    """Tell where nothing was to be changed, and what goes before the setting."""
    title = where.agent.title
    changed = any(change.part == "memory" and change.is_one for change in changes)
    if off and not changed:
        say(f"{title}'s own memory is off already; nothing was changed for it")
    if not off and not changed:
        say(f"{title}'s own memory was not switched off here; nothing was changed for it")
    if not where.agent.by_shell and clients.OVERRIDES in where.environment:
        say(f"{clients.OVERRIDES} is set in this environment and goes before the setting")


def _is_elsewhere(where: Where, changes: list[FileChange]) -> bool:
    """Whether the same is installed in the other scope too, in files of its own."""
    other = where._replace(scope="project" if where.scope == "user" else "user")
    parts: list[Part] = ["hooks"]
    try:
        found = clients.uninstall(other, parts, dry_run=True)
    except MemplaneError:
        return False
    paths = {change.path for change in changes}
    return any(one.is_one and one.path not in paths for one in found)


# `memplane mcp`: the plane as tools of an MCP client.

# What Claude Code tells its servers and hooks.
_SESSION: Final = "CLAUDE_CODE_SESSION_ID"
_PROJECT: Final = "CLAUDE_PROJECT_DIR"


@command("mcp", example="mcp")
def mcp(
    *,
    read_only: Annotated[
        bool, Option("--read-only", help="Offer no tool that writes; open nothing to write.")
    ] = False,
    channel: Annotated[
        str,
        Option(metavar="NAME", help="Who asks: agent, private, public, team, or another."),
    ] = "agent",
    session: Annotated[
        str | None,
        Option(
            metavar="ID",
            help="The session of what is stored and packed; else that of the client (Claude Code "
            "names it), else a new one.",
        ),
    ] = None,
    make: Annotated[
        bool,
        Option("--init", help="Make the plane where there is none: --home, or ~/.memplane."),
    ] = False,
    home: Annotated[
        str | None,
        Option(
            "--home",
            metavar="DIR",
            help="The plane's folder; else MEMPLANE_HOME, else .memplane here or above, if you "
            "trust it, else ~/.memplane.",
        ),
    ] = None,
    as_json: Json = False,  # noqa: ARG001 - every command takes it; errors at the start are JSON
) -> None:
    """Serve one MCP client over stdin and stdout, until its end closes or SIGTERM.

    Tools memory_store, _get, _search, _curate, _task, _forget, _list_keys; resources for decisions,
    tasks, the last report and handles. Needs the extra `mcp`. The plane is opened at the first call
    of a tool. Any number of servers may serve the same plane. A new session begins with the first
    record, its agent is the client, and it ends, with a summary, when the server does.
    """
    gc.disable()  # the SDK makes 10,000 things to keep and none to collect: a fifth of its import
    try:
        from memplane.mcp.server import Own, Serving, serve_client  # noqa: PLC0415 - half a second
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("memplane"):
            raise
        raise MissingExtraError("`memplane mcp`", "mcp") from None
    finally:
        gc.enable()
    gc.freeze()
    _say_what_is_passed_over(home)
    opened = partial(_opened, home, read_only=read_only, make=make)
    own = None
    if session is None and (named := os.environ.get(_SESSION)):
        theirs = name(named)
        own = Own("claude-code", theirs, lambda folder: ShownEntries(folder, theirs).held)
    given = session or f"mcp-{ulid(clock())}"
    serve_client(Serving(opened, make_counter, channel, given, read_only, own, session is None))


def _opened(home: str | None, *, read_only: bool, make: bool) -> Plane:
    """The plane that the hooks of the same agent use: clients start both anywhere."""
    given, user = home or os.environ.get("MEMPLANE_HOME"), user_folder()
    if make and not read_only and given:
        return init(named_plane(given))
    found = located(os.environ, _here(), user, given=home)
    if found.home is None and make and not read_only:
        return init(Path(user) / HOME_NAME)
    if found.home is None and found.passed is not None:
        raise refusal(found, os.environ)
    if found.home is None:
        raise HomeError(
            f"no plane in {_here()} or above, and no {HOME_NAME} in {user}; `memplane init` makes "
            "one for a project, `memplane install claude-code` or `memplane install codex` one for "
            "every project; it is used from then on"
        )
    plane = open_found(for_folder(found.home, _here())[0], read_only=read_only)
    if held := plane.upkeep.held_files():
        say(held_words(plane, held))
    return plane


def _say_what_is_passed_over(home: str | None) -> None:
    """Tell the person, on stderr, of a plane that is here and not trusted."""
    try:
        found = located(os.environ, _here(), user_folder(), given=home)
    except MemplaneError:
        return  # the first call of a tool says it
    if found.passed is not None:
        with suppress(WriteError):
            TrustStore(os.environ).meet(found.passed)
        say(f"{refusal(found, os.environ)}; {_instead(found)}")


def _instead(found: Located) -> str:
    return "no memory is served" if found.home is None else f"{found.home.folder} is served"


def _here() -> str:
    """The project's folder, or the one that the client started this in; that may be gone."""
    try:
        return os.environ.get(_PROJECT) or os.getcwd()  # noqa: PTH109 - a text is what is wanted
    except OSError:
        return "/"


# `memplane hook` for the help, and for who writes options before it.
#
# As agents call it, it never comes here: `memplane.__main__` runs it without the command line.


@command("hook", example="hook claude-code < event.json")
def hook(
    agent: Annotated[str, Argument(metavar="AGENT", help="claude-code or codex.")],
    *,
    catch_up: Annotated[
        bool,
        Option(
            "--catch-up",
            help="Index what was recorded, so that answers find it; for the end of a turn.",
        ),
    ] = False,
    home: Annotated[
        str | None,
        Option(
            "--home",
            metavar="DIR",
            help="The plane's folder; else MEMPLANE_HOME, else .memplane where the agent works or "
            "above, if you trust it, else ~/.memplane.",
        ),
    ] = None,
    as_json: Json = False,  # noqa: ARG001 - every command takes it; a hook's answer is JSON anyway
) -> int:
    """Record what a coding agent tells at an event, and answer with what it may not know.

    `memplane install` puts it into an agent's settings; people need not run it. The event is JSON
    on stdin. Recorded are prompts, tool calls and their results, answers, summaries of compactions,
    and where sessions begin and end. Where a session begins or was compacted, and at a prompt,
    JSON on stdout gives the agent a small block, and nothing twice in a session: see `hooks` in
    policies/plane.yaml.

    It ends with 0 whatever happens and says nothing on stderr; faults stand in hooks.log in the
    plane's folder. If another process holds the log, the event waits in the spool.
    """
    more = ["--catch-up"] if catch_up else []
    named = ["--home", home] if home is not None else []
    openers = run.Openers(open_light, lambda found: open_plane(found.path))
    return run.run_hook([agent, *more, *named], os.environ, openers)


# `memplane serve` and the tokens of those who may ask it.

_TokenFile = Annotated[
    str | None,
    Option(
        "--tokens",
        metavar="FILE",
        help="The file of tokens (hashes alone, 0600); else tokens.json in the user's folder of "
        "state.",
    ),
]


_AllowHost = Annotated[
    list[str] | None,
    Option(
        "--allow-host",
        metavar="HOST[:PORT]",
        help="What clients call this server in Host; repeatable. Needed off loopback.",
    ),
]
_AllowOrigin = Annotated[
    list[str] | None,
    Option("--allow-origin", metavar="ORIGIN", help="A site that may ask; repeatable."),
]
_ServedPlane = Annotated[
    str | None,
    Option(
        "--home",
        metavar="PLANE",
        help="The one plane to serve, named main; else MEMPLANE_HOME, else .memplane here or "
        "above, if you trust it.",
    ),
]


_Connections = Annotated[
    int,
    Option(
        "--connections",
        metavar="N",
        min=1,
        max=65_536,
        help="Connections at once; one more takes the place of one without a request.",
    ),
]
_OfAddress = Annotated[
    int | None,
    Option(
        "--connections-of-address",
        metavar="N",
        min=1,
        max=65_536,
        help="Of one address; else 64, and of loopback as many as there are in all.",
    ),
]
_OpenPlanes = Annotated[
    int, Option("--open-planes", metavar="N", min=1, max=4_096, help="Planes open at once.")
]
_Idle = Annotated[
    int,
    Option("--idle", metavar="SECONDS", min=1, max=86_400, help="A plane closes after so long."),
]
_Sessions = Annotated[
    bool, Option("--sessions", help="Sessions and streams for MCP; else each request alone.")
]
_Memory = Annotated[
    int,
    Option(
        "--memory",
        metavar="MB",
        min=0,
        max=1 << 20,
        help="Above this idle planes close before another opens; 0: no bound.",
    ),
]


@command("serve", example="serve --planes planes --port 8765")
def serve(
    *,
    host: Annotated[str, Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, Option(metavar="PORT", min=0, max=65_535, help="0: any that is free.")
    ] = 8765,
    planes: Annotated[
        str | None,
        Option(metavar="DIR", help="A folder of planes, each by its name; else one: --home."),
    ] = None,
    tokens: _TokenFile = None,
    allow_host: _AllowHost = None,
    allow_origin: _AllowOrigin = None,
    rate: Annotated[
        int, Option(metavar="N", min=1, max=100_000, help="Requests a second of one token.")
    ] = 50,
    connections: _Connections = 512,
    connections_of_address: _OfAddress = None,
    open_planes: _OpenPlanes = 64,
    idle: _Idle = 300,
    sessions: _Sessions = False,
    memory: _Memory = 0,
    home: _ServedPlane = None,
    as_json: Json = False,  # noqa: ARG001 - every command takes it; errors at the start are JSON
) -> None:
    """Serve many agents at one address until SIGTERM: MCP over HTTP at /mcp, and a JSON API.

    /openapi.json describes the API; /health and /metrics tell how it is. `memplane token add` gives
    a token to each who may ask. Needs the extra `mcp`. Off loopback put a proxy with TLS before it.
    """
    folder, only = _served(planes, home)
    try:
        from memplane.serve import web  # noqa: PLC0415 - half a second
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("memplane"):
            raise
        raise MissingExtraError("`memplane serve`", "mcp") from None
    listening = web.Listening(
        host,
        port,
        _token_path(tokens),
        folder,
        only,
        tuple(allow_host or ()),
        tuple(allow_origin or ()),
        web.RequestLimits(rate=rate, running=max(4, connections // 2)),
        web.ConnectionLimits(connections, connections_of_address),
        web.OpenLimits(open_planes, idle, memory << 20),
        sessions,
    )
    # Clients work in no folder of this machine: the one where the server was started is no project
    # of theirs, should the plane be the user's own.
    before = CALLER.set(Caller())
    try:
        web.listen(listening, lambda address: say(f"serving at {address}"))
    finally:
        CALLER.reset(before)


def _served(planes: str | None, home: str | None) -> tuple[Path | None, Path | None]:
    """The folder of planes that is served, or the one plane."""
    if planes is not None and home is not None:
        raise InputError("expected one of --planes and --home, found both")
    if CALLER.get().project is not None:
        raise InputError(
            "a token says which project: token add --ns /project/NAME", where="--project"
        )
    if planes is None:
        return None, find_home(home)
    folder = Path(planes).expanduser()
    if not folder.is_dir():
        raise HomeError(f"{folder}: no such folder")
    return folder, None


def _token_path(given: str | None) -> Path:
    if given is not None:
        return Path(given).expanduser().absolute()
    return Path(state_folder(os.environ)) / serve_room.FILE_NAME


@command("add", group="token", example="token add ci --agent builder --plane team")
def token_add(
    name: Annotated[str, Argument(metavar="NAME", help="What you call this token.")],
    *,
    agent: Annotated[str, Option(metavar="NAME", help="Whom it stands for.")],
    channel: Annotated[
        str, Option(metavar="NAME", help="Who reads: agent, team, public, private, or another.")
    ] = "agent",
    ns: Annotated[
        list[str] | None,
        Option(metavar="NS", help="The only namespaces that it reaches; repeatable."),
    ] = None,
    plane: Annotated[
        list[str] | None,
        Option(
            metavar="NAME", help="A plane that it reaches; repeatable. main: the one of --home."
        ),
    ] = None,
    tokens: _TokenFile = None,
    home: Home = None,  # noqa: ARG001 - every command takes it; tokens are of no plane
    as_json: Json = False,
) -> None:
    """Make a token for `memplane serve`, and print it: this once, as only its hash is kept."""
    made, secret = serve_room.made(name, agent, channel, ns or [], plane or ["main"], clock())
    serve_room.TokenFile(_token_path(tokens)).add(made)
    print_answer({**_told_of(made), "token": secret}, secret, as_json=as_json)


@command("list", group="token", example="token list")
def token_list(
    *,
    tokens: _TokenFile = None,
    home: Home = None,  # noqa: ARG001 - as above
    as_json: Json = False,
) -> None:
    """List the tokens of `memplane serve`, and what each is bound to."""
    found = serve_room.TokenFile(_token_path(tokens)).all()
    lines = [
        f"{one.name}  agent {one.agent}, channel {one.channel}, planes {' '.join(one.planes)}, "
        f"{' '.join(one.ns) or 'every namespace that it may see'}"
        for one in found
    ]
    print_answer(list(map(_told_of, found)), "\n".join(lines) or "none", as_json=as_json)


@command("remove", group="token", example="token remove ci")
def token_remove(
    name: Annotated[str, Argument(metavar="NAME", help="The token, by its name.")],
    *,
    tokens: _TokenFile = None,
    home: Home = None,  # noqa: ARG001 - as above
    as_json: Json = False,
) -> None:
    """Remove a token: servers refuse it from then on."""
    gone = serve_room.TokenFile(_token_path(tokens)).remove(name)
    print_answer(_told_of(gone), f"{gone.name}: removed", as_json=as_json)


def _told_of(token: serve_room.Token) -> dict[str, Any]:
    """A token without its hash."""
    return {name: value for name, value in token._asdict().items() if name != "sha256"}
