"""Our MCP server among those of others, in JSON (Claude Code) and in TOML (Codex)."""

from __future__ import annotations

from typing import Any, Final

from memplane.clients import jsontext, tomltext
from memplane.clients.agents import SERVER, Agent, words_of
from memplane.clients.files import Traces
from memplane.errors import InputError

__all__ = ["add_server", "add_server_table", "remove_server", "remove_server_table"]

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
