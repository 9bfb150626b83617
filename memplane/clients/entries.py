"""Entries of memplane in settings files: hooks (JSON), and the MCP server (JSON, TOML).

They are added behind those of others, and found again by the command that they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from memplane.clients import jsontext, tomltext
from memplane.clients.agents import SERVER, Agent, WantedHook, words_of
from memplane.clients.files import Traces
from memplane.errors import InputError

__all__ = [
    "add_hooks",
    "add_server",
    "add_server_table",
    "in_turn",
    "remove_hooks",
    "remove_server",
    "remove_server_table",
]

_HOOKS: Final = "hooks"


def add_hooks(text: str, agent: Agent, wanted: Sequence[WantedHook]) -> tuple[str, Traces]:
    """Put hooks into the text of a settings file that has not all of them yet.

    One that is there and runs the same stays as it is, with what was changed in it; one that runs
    another copy of memplane gets the new command. What is missing comes last in its event, so that
    the others keep their places. Raises InputError where the file has other things in these places.
    """
    if jsontext.is_blank(text):
        groups = {event: [_group(those)] for event, those in _by_event(wanted)}
        paths = ((_HOOKS,), *((_HOOKS, event) for event in groups))
        return jsontext.new({_HOOKS: groups}, text), Traces(made=paths, blank=text)
    _check(jsontext.parse_json(text), wanted)
    made: list[jsontext.Path] = []
    inner: dict[jsontext.Path, str] = {}
    for event, those in _by_event(wanted):
        missing = []
        for one in those:
            place = _same(jsontext.parse_json(text), agent, one)
            if place is None:
                missing.append(one)
            else:
                text = _renewed(text, place, one)
        there = jsontext.parse_json(text)
        if not missing:
            continue
        path, key, value = _where(there, event, _group(missing))
        text, was = jsontext.insert_value(text, path, value, key)
        made += [each for each in ((_HOOKS,), (_HOOKS, event)) if len(each) > len(path)]
        if was is not None:
            inner[path] = was
    return text, Traces(made=tuple(made), inner=tuple(inner.items()))


def remove_hooks(text: str, agent: Agent, traces: Traces) -> str:
    """Take our hooks out, wherever they stand, and what `traces` says was made for them.

    A group that has hooks of others too stays with those.
    """
    if jsontext.is_blank(text):
        return text
    inner = dict(traces.inner)
    while (place := next(in_turn(there := jsontext.parse_json(text), agent), None)) is not None:
        _, event, group, _, _ = place
        if len(there[_HOOKS][event][group][_HOOKS]) > 1:
            text = jsontext.remove_value(text, place)
            continue
        text = jsontext.remove_value(text, (_HOOKS, event, group), inner.get((_HOOKS, event), ""))
        left = len(there[_HOOKS][event]) - 1
        if not left and (_HOOKS, event) in traces.made:
            text = jsontext.remove_value(text, (_HOOKS, event), inner.get((_HOOKS,), ""))
            if len(there[_HOOKS]) == 1 and (_HOOKS,) in traces.made:
                text = jsontext.remove_value(text, (_HOOKS,), inner.get((), ""))
    if traces.blank is not None and jsontext.parse_json(text) == {}:
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


def _where(settings: Any, event: str, group: Any) -> tuple[jsontext.Path, str | None, Any]:
    """The container that a group goes into, its key there, and it with what it still needs."""
    if _HOOKS not in settings:
        return (), _HOOKS, {event: [group]}
    if event not in settings[_HOOKS]:
        return (_HOOKS,), event, [group]
    return (_HOOKS, event), None, group


def _same(settings: Any, agent: Agent, one: WantedHook) -> jsontext.Path | None:
    """Where a wanted hook stands already, whichever copy of memplane it runs."""
    for place in in_turn(settings, agent):
        _, event, group, _, at = place
        behind = agent.behind(settings[_HOOKS][event][group][_HOOKS][at]) or []
        if event == one.hook.event and ("--catch-up" in behind) == one.hook.catch_up:
            return place
    return None


def _renewed(text: str, place: jsontext.Path, one: WantedHook) -> str:
    """The text with the hook at a place running what is wanted; the rest of the hook stays."""
    value = jsontext.value_at(jsontext.parse_json(text), place)
    if words_of(value) == words_of(one.handler):
        return text
    run = {key: one.handler[key] for key in ("command", "args") if key in one.handler}
    kept = {key: each for key, each in value.items() if key != "args"}
    return jsontext.replace_value(text, place, kept | run)


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
    if jsontext.is_blank(text):
        whole = jsontext.new({_SERVERS: {SERVER: entry}}, text)
        return whole, Traces(made=((_SERVERS,),), blank=text)
    there = jsontext.parse_json(text)
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
        return jsontext.replace_value(text, (_SERVERS, SERVER), was | run), Traces()
    if _SERVERS in there:
        text, inner = jsontext.insert_value(text, (_SERVERS,), entry, SERVER)
        return text, Traces(inner=() if inner is None else (((_SERVERS,), inner),))
    text, inner = jsontext.insert_value(text, (), {SERVER: entry}, _SERVERS)
    return text, Traces(made=((_SERVERS,),), inner=() if inner is None else (((), inner),))


def remove_server(text: str, agent: Agent, traces: Traces) -> str:
    """Take the server out of JSON if it is ours, and what was made for it."""
    if jsontext.is_blank(text):
        return text
    there = jsontext.parse_json(text)
    servers = there.get(_SERVERS) if isinstance(there, dict) else None
    if not isinstance(servers, dict) or not agent.is_server(servers.get(SERVER)):
        return text
    inner = dict(traces.inner)
    text = jsontext.remove_value(text, (_SERVERS, SERVER), inner.get((_SERVERS,), ""))
    if len(servers) == 1 and (_SERVERS,) in traces.made:
        text = jsontext.remove_value(text, (_SERVERS,), inner.get((), ""))
        if traces.blank is not None and jsontext.parse_json(text) == {}:
            return traces.blank
    return text


def add_server_table(text: str, agent: Agent, entry: dict[str, Any]) -> tuple[str, Traces]:
    """Put the server into TOML as a table at its end; one there gets the command, if another.

    Raises InputError where a server of this name is not ours, or stands where no text can be put.
    """
    servers = tomltext.parse_toml(text).get(_TABLE[0], {})
    if not isinstance(servers, dict):
        raise InputError("expected a table of servers", where=_TABLE[0])
    if SERVER not in servers:
        text, joint = tomltext.add_table(text, _TABLE, entry)
        return text, Traces(joint=joint)
    _refuse_foreign(agent, servers[SERVER], ".".join(_TABLE))
    if words_of(servers[SERVER]) != words_of(entry):
        text = tomltext.set_values(text, _TABLE, entry)
    return text, Traces()


def remove_server_table(text: str, agent: Agent, traces: Traces) -> str:
    """Take the server out of TOML if it is ours, with the tables below it; comments stay."""
    servers = tomltext.parse_toml(text).get(_TABLE[0])
    if not isinstance(servers, dict) or not agent.is_server(servers.get(SERVER)):
        return text
    return tomltext.remove_table(text, _TABLE, traces.joint)


def _refuse_foreign(agent: Agent, entry: Any, where: str) -> None:
    if not agent.is_server(entry):
        raise InputError(
            "a server of this name is there already and does not run `memplane mcp`; rename it or "
            "take it out",
            where=where,
        )
