"""The agents that memplane is installed in, and its entries in their settings files.

Entries are hooks (JSON) and the MCP server (JSON, TOML). They are added behind those of others, and
found again by the command that they run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from memplane.clients import settings_files
from memplane.clients.settings_files import Traces
from memplane.errors import InputError
from memplane.lazy import NamedTuple

Scope = Literal["user", "project"]
SERVER: Final = "memplane"  # the MCP server's name


class Hook(NamedTuple):
    """One command at one event of an agent. Without a matcher it runs at every such event."""

    event: str
    timeout_s: int
    matcher: str | None = None
    catch_up: bool = False
    background: bool = False


class WantedHook(NamedTuple):
    """A hook as the agent's file has it."""

    hook: Hook
    handler: dict[str, Any]


class Program(NamedTuple):
    """The words that run memplane, and those that name its plane, if one is named."""

    words: tuple[str, ...]
    home: tuple[str, ...] = ()


class Agent(NamedTuple):
    """An agent: its hooks, and whether it runs a command by a shell or word for word."""

    name: str
    title: str
    hooks: tuple[Hook, ...]
    by_shell: bool

    def wanted(self, program: Program) -> list[WantedHook]:
        """The hooks as they are written for this program."""
        return [WantedHook(hook, self._handler(hook, program)) for hook in self.hooks]

    def server(self, program: Program) -> dict[str, Any]:
        """The MCP server as it is written for this program."""
        words = [*program.words, "mcp", *program.home]
        typed = {} if self.by_shell else {"type": "stdio"}
        return {**typed, "command": words[0], "args": words[1:]}

    def _handler(self, hook: Hook, program: Program) -> dict[str, Any]:
        last = ["--catch-up"] if hook.catch_up else []
        words = [*program.words, "hook", self.name, *last, *program.home]
        run: dict[str, Any] = {"command": words[0], "args": words[1:]}
        if self.by_shell:
            run = {"command": shlex.join(words)}
        background = {"async": True} if hook.background else {}
        return {"type": "command", **run, "timeout": hook.timeout_s, **background}

    def behind(self, handler: Any) -> list[str] | None:
        """What `memplane hook AGENT` gets besides if that is what a handler runs, else None."""
        return _behind(words_of(handler), ["hook", self.name])

    def is_server(self, entry: Any) -> bool:
        """Whether an MCP server is `memplane mcp`, by whatever way it is started."""
        return _behind(words_of(entry), ["mcp"]) is not None


def words_of(entry: Any) -> list[str]:
    """What a handler or a server runs: command and args, or the command as a shell splits it."""
    if not isinstance(entry, dict) or not isinstance(command := entry.get("command"), str):
        return []
    if isinstance(words := entry.get("args"), list):
        return [command, *(word for word in words if isinstance(word, str))]
    try:
        return shlex.split(command)
    except ValueError:  # an open quotation mark
        return command.split()


def _behind(words: Sequence[str], expected: list[str]) -> list[str] | None:
    for at, word in enumerate(words):
        name = re.split(r"[/\\]", word)[-1]
        if name in ("memplane", "memplane.exe"):
            behind = _without_home(words[at + 1 :])
            if [one for one in behind if not one.startswith("-")][: len(expected)] == expected:
                return [one for one in behind if one not in expected]
    return None


def _without_home(words: Sequence[str]) -> list[str]:
    """The words without the plane that they name, wherever that stands."""
    rest = iter(words)
    kept = []
    for word in rest:
        if word == "--home":
            next(rest, None)
        elif not word.startswith("--home="):
            kept.append(word)
    return kept


# At the end of a session Claude Code waits 1.5 s for all hooks together, Codex 3 s for each.
AGENTS: Final[Mapping[str, Agent]] = {
    "claude-code": Agent(
        "claude-code",
        "Claude Code",
        (
            Hook("SessionStart", 5),
            # What the session before it left undone: one that is run without a person ends its
            # background work with itself.
            Hook("SessionStart", 60, catch_up=True, background=True),
            Hook("UserPromptSubmit", 5),
            Hook("PostToolUse", 5, matcher="*"),
            Hook("PostToolUseFailure", 5, matcher="*"),  # Codex tells failures as it tells success
            Hook("Stop", 5),
            Hook("Stop", 60, catch_up=True, background=True),
            Hook("PostCompact", 5),
            Hook("SessionEnd", 1),
        ),
        by_shell=False,
    ),
    "codex": Agent(
        "codex",
        "Codex",
        (
            Hook("SessionStart", 5),
            Hook("UserPromptSubmit", 5),
            Hook("PostToolUse", 5, matcher="*"),
            Hook("Stop", 5),
            Hook("Stop", 10, catch_up=True),
            Hook("PostCompact", 5),
            Hook("SessionEnd", 3),
        ),
        by_shell=True,
    ),
}


def places(
    agent: str, scope: Scope, environment: Mapping[str, str], project: Path
) -> tuple[Path, Path]:
    """The files of an agent that have its hooks and its MCP servers.

    CLAUDE_CONFIG_DIR and CODEX_HOME move those of the user.
    """
    user = Path(environment.get("HOME") or Path.home())
    if agent == "codex":
        folder = project / ".codex"
        if scope == "user":
            folder = Path(environment.get("CODEX_HOME") or user / ".codex")
        return folder / "hooks.json", folder / "config.toml"
    if scope == "project":
        return project / ".claude" / "settings.json", project / ".mcp.json"
    given = environment.get("CLAUDE_CONFIG_DIR")
    folder = Path(given) if given else user / ".claude"
    older = folder / ".config.json"  # goes before the other where there is one
    servers = (folder if given else user) / ".claude.json"
    return folder / "settings.json", older if older.is_file() else servers


_HOOKS: Final = "hooks"


def add_hooks(text: str, agent: Agent, wanted: Sequence[WantedHook]) -> tuple[str, Traces]:
    """Put hooks into the text of a settings file that has not all of them yet.

    One that is there and runs the same stays as it is, with what was changed in it; one that runs
    another copy of memplane gets the new command. What is missing comes last in its event, so that
    the others keep their places. Raises InputError where the file has other things in these places.
    """
    if settings_files.is_blank(text):
        groups = {event: [_group(those)] for event, those in _by_event(wanted)}
        paths = ((_HOOKS,), *((_HOOKS, event) for event in groups))
        return settings_files.new({_HOOKS: groups}, text), Traces(made=paths, blank=text)
    _check(settings_files.parse_json(text), wanted)
    made: list[settings_files.JsonPath] = []
    inner: dict[settings_files.JsonPath, str] = {}
    for event, those in _by_event(wanted):
        missing = []
        for one in those:
            place = _same(settings_files.parse_json(text), agent, one)
            if place is None:
                missing.append(one)
            else:
                text = _renewed(text, place, one)
        there = settings_files.parse_json(text)
        if not missing:
            continue
        path, key, value = _where(there, event, _group(missing))
        text, was = settings_files.insert_value(text, path, value, key)
        made += [each for each in ((_HOOKS,), (_HOOKS, event)) if len(each) > len(path)]
        if was is not None:
            inner[path] = was
    return text, Traces(made=tuple(made), inner=tuple(inner.items()))


def remove_hooks(text: str, agent: Agent, traces: Traces) -> str:
    """Take our hooks out, wherever they stand, and what `traces` says was made for them.

    A group that has hooks of others too stays with those.
    """
    if settings_files.is_blank(text):
        return text
    inner = dict(traces.inner)
    while (
        place := next(in_turn(there := settings_files.parse_json(text), agent), None)
    ) is not None:
        _, event, group, _, _ = place
        if len(there[_HOOKS][event][group][_HOOKS]) > 1:
            text = settings_files.remove_value(text, place)
            continue
        text = settings_files.remove_value(
            text, (_HOOKS, event, group), inner.get((_HOOKS, event), "")
        )
        left = len(there[_HOOKS][event]) - 1
        if not left and (_HOOKS, event) in traces.made:
            text = settings_files.remove_value(text, (_HOOKS, event), inner.get((_HOOKS,), ""))
            if len(there[_HOOKS]) == 1 and (_HOOKS,) in traces.made:
                text = settings_files.remove_value(text, (_HOOKS,), inner.get((), ""))
    if traces.blank is not None and settings_files.parse_json(text) == {}:
        return traces.blank
    return text


def in_turn(settings: Any, agent: Agent) -> Iterator[tuple[str, str, int, str, int]]:
    """Where our hooks stand in settings, in the order of the file. Odd things are passed over."""
    events = settings.get(_HOOKS) if isinstance(settings, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            handlers = group.get(_HOOKS) if isinstance(group, dict) else None
            for at, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if agent.behind(handler) is not None:
                    yield _HOOKS, event, number, _HOOKS, at


def _by_event(wanted: Sequence[WantedHook]) -> list[tuple[str, list[WantedHook]]]:
    events = dict.fromkeys(one.hook.event for one in wanted)
    return [(event, [one for one in wanted if one.hook.event == event]) for event in events]


def _group(those: Sequence[WantedHook]) -> dict[str, Any]:
    """The hooks of one event as one group: they share its matcher."""
    matcher = those[0].hook.matcher
    handlers = [one.handler for one in those]
    return {_HOOKS: handlers} if matcher is None else {"matcher": matcher, _HOOKS: handlers}


def _where(
    settings: Any, event: str, group: Any
) -> tuple[settings_files.JsonPath, str | None, Any]:
    """The container that a group goes into, its key there, and it with what it still needs."""
    if _HOOKS not in settings:
        return (), _HOOKS, {event: [group]}
    if event not in settings[_HOOKS]:
        return (_HOOKS,), event, [group]
    return (_HOOKS, event), None, group


def _same(settings: Any, agent: Agent, one: WantedHook) -> settings_files.JsonPath | None:
    """Where a wanted hook stands already, whichever copy of memplane it runs."""
    for place in in_turn(settings, agent):
        _, event, group, _, at = place
        behind = agent.behind(settings[_HOOKS][event][group][_HOOKS][at]) or []
        if event == one.hook.event and ("--catch-up" in behind) == one.hook.catch_up:
            return place
    return None


def _renewed(text: str, place: settings_files.JsonPath, one: WantedHook) -> str:
    """The text with the hook at a place running what is wanted; the rest of the hook stays."""
    value = settings_files.value_at(settings_files.parse_json(text), place)
    if words_of(value) == words_of(one.handler):
        return text
    run = {key: one.handler[key] for key in ("command", "args") if key in one.handler}
    kept = {key: each for key, each in value.items() if key != "args"}
    return settings_files.replace_value(text, place, kept | run)


def _check(settings: Any, wanted: Sequence[WantedHook]) -> None:
    """Refuse settings whose hooks are not where, or not of the kind that, they have to be."""
    if not isinstance(settings, dict):
        raise InputError("expected a JSON object, found another value")
    events = settings.get(_HOOKS, {})
    if not isinstance(events, dict):
        raise InputError("expected an object of events", where=_HOOKS)
    for one in wanted:
        if not isinstance(events.get(one.hook.event, []), list):
            raise InputError("expected a list", where=f"{_HOOKS}.{one.hook.event}")


_SERVERS: Final = "mcpServers"
_TABLE: Final = ("mcp_servers", SERVER)


def add_server(text: str, agent: Agent, entry: dict[str, Any]) -> tuple[str, Traces]:
    """Put the server into JSON behind the others; one that is there gets the command, if another.

    Raises InputError where a server of this name is not ours.
    """
    if settings_files.is_blank(text):
        whole = settings_files.new({_SERVERS: {SERVER: entry}}, text)
        return whole, Traces(made=((_SERVERS,),), blank=text)
    there = settings_files.parse_json(text)
    if not isinstance(there, dict):
        raise InputError("expected a JSON object, found another value")
    servers = there.get(_SERVERS, {})
    if not isinstance(servers, dict):
        raise InputError("expected an object of servers", where=_SERVERS)
    if SERVER in servers:
        was = servers[SERVER]
        _refuse_foreign(agent, was, f"{_SERVERS}.{SERVER}")
        if words_of(was) == words_of(entry):
            return text, Traces()
        run = {"command": entry["command"], "args": entry["args"]}
        return settings_files.replace_value(text, (_SERVERS, SERVER), was | run), Traces()
    if _SERVERS in there:
        text, inner = settings_files.insert_value(text, (_SERVERS,), entry, SERVER)
        return text, Traces(inner=() if inner is None else (((_SERVERS,), inner),))
    text, inner = settings_files.insert_value(text, (), {SERVER: entry}, _SERVERS)
    return text, Traces(made=((_SERVERS,),), inner=() if inner is None else (((), inner),))


def remove_server(text: str, agent: Agent, traces: Traces) -> str:
    """Take the server out of JSON if it is ours, and what was made for it."""
    if settings_files.is_blank(text):
        return text
    there = settings_files.parse_json(text)
    servers = there.get(_SERVERS) if isinstance(there, dict) else None
    if not isinstance(servers, dict) or not agent.is_server(servers.get(SERVER)):
        return text
    inner = dict(traces.inner)
    text = settings_files.remove_value(text, (_SERVERS, SERVER), inner.get((_SERVERS,), ""))
    if len(servers) == 1 and (_SERVERS,) in traces.made:
        text = settings_files.remove_value(text, (_SERVERS,), inner.get((), ""))
        if traces.blank is not None and settings_files.parse_json(text) == {}:
            return traces.blank
    return text


def add_server_table(text: str, agent: Agent, entry: dict[str, Any]) -> tuple[str, Traces]:
    """Put the server into TOML as a table at its end; one there gets the command, if another.

    Raises InputError where a server of this name is not ours, or stands where no text can be put.
    """
    servers = settings_files.parse_toml(text).get(_TABLE[0], {})
    if not isinstance(servers, dict):
        raise InputError("expected a table of servers", where=_TABLE[0])
    if SERVER not in servers:
        text, joint = settings_files.add_table(text, _TABLE, entry)
        return text, Traces(joint=joint)
    _refuse_foreign(agent, servers[SERVER], ".".join(_TABLE))
    if words_of(servers[SERVER]) != words_of(entry):
        text = settings_files.set_values(text, _TABLE, entry)
    return text, Traces()


def remove_server_table(text: str, agent: Agent, traces: Traces) -> str:
    """Take the server out of TOML if it is ours, with the tables below it; comments stay."""
    servers = settings_files.parse_toml(text).get(_TABLE[0])
    if not isinstance(servers, dict) or not agent.is_server(servers.get(SERVER)):
        return text
    return settings_files.remove_table(text, _TABLE, traces.joint)


def _refuse_foreign(agent: Agent, entry: Any, where: str) -> None:
    if not agent.is_server(entry):
        raise InputError(
            "a server of this name is there already and does not run `memplane mcp`; rename it or "
            "take it out",
            where=where,
        )
