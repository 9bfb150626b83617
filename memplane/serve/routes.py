"""The JSON API as one table: path, arguments, answer and what is done; OpenAPI is made from it.

Who asks is what its token says: the agent and the channel come from there, and namespaces are those
that it is bound to. A request that claims another is refused, whether or not there is such a thing.
What is recorded has the role `assistant` unless the request gives another, so that a statement
counts as the agent's word, and not as its user's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from memplane.acms.runner import AgentRow
from memplane.context.calls import Receipt
from memplane.errors import InputError, NotFoundError, ScopeError
from memplane.event import RELAYED, TYPED_KINDS, Event
from memplane.home import VERSION
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple
from memplane.mcp.tools import Tool, checked
from memplane.plane import Plane
from memplane.serve.tokens import Token
from memplane.work.changes import forget_as

Schema = dict[str, Any]
Act = Callable[[Plane, Token, dict[str, Any]], dict[str, Any]]
Row = Callable[[Token, dict[str, Any]], AgentRow]

_TEXT_MAX: Final = 100_000
_QUERY_MAX: Final = 4_000
_BUDGET_MAX: Final = 200_000
_STRING: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_KINDS: Final = ("message", "tool_call", "tool_result", *TYPED_KINDS)
CLAIMS: Final = ("agent", "channel")  # that a request may repeat, but not change
NS_REFUSED: Final = "this token is not for that namespace"


class Route(NamedTuple):
    """One path of the API. `tool`: its name, words and schemas, as a tool of MCP has them.

    `act` does it on a plane; `row` makes the row of what is recorded and nothing else, so that it
    can share a write with those of other requests.
    """

    method: str
    path: str
    tool: Tool
    act: Act | None = None
    row: Row | None = None


def _text(most: int = 256, **more: Any) -> Schema:
    return {"type": "string", "maxLength": most, **more}


def _texts(most: int) -> Schema:
    return {"type": "array", "items": _STRING, "maxItems": most}


def _number(least: int, most: int, default: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


def _takes(*required: str, **properties: Schema) -> Schema:
    plane = _text(64, description="Where the token is for several planes.")
    return {
        "type": "object",
        "properties": {**properties, "plane": plane},
        "required": list(required),
        "additionalProperties": False,
    }


def _gives(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _spaces(token: Token, given: Mapping[str, Any]) -> tuple[str, ...]:
    """The namespaces to look in; empty: all that the agent may reach."""
    asked = tuple(given.get("ns") or ())
    if not all(token.reaches(one) for one in asked):
        raise ScopeError(NS_REFUSED)
    return asked or token.ns


def _space(token: Token, given: Mapping[str, Any]) -> str:
    """The one namespace that is meant."""
    ns = str(given.get("ns") or token.home_ns)
    if not token.reaches(ns):
        raise ScopeError(NS_REFUSED)
    return ns


def _row(token: Token, given: dict[str, Any]) -> AgentRow:
    ns = _space(token, given)
    row = {name: value for name, value in given.items() if name != "idempotency_key"}
    row |= {"ns": ns, "actor": token.agent}
    once = given.get("idempotency_key")
    if once is not None:
        said = f"{token.agent}\n{ns}\n{once}".encode("utf-8", "surrogatepass")
        row["id"] = f"{RELAYED}{hashlib.sha256(said).hexdigest()[:32]}"
    return AgentRow(row, token.channel, token.agent, token.ns)


def stored_row(stored: Receipt) -> dict[str, Any]:
    """The answer to a record."""
    return {
        "seq": stored.seq,
        "id": stored.id,
        "duplicate": stored.duplicate,
        "durability": stored.durability,
    }


def _pack(plane: Plane, token: Token, given: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "budget": given["budget"],
        "intent": given["mode"],
        "channel": token.channel,
        "agent": token.agent,
    }
    if spaces := _spaces(token, given):
        asked["ns"] = spaces
    if "session" in given:
        asked["session"] = given["session"]
    block = plane.pack(given["query"], **asked)
    return {
        "text": block.text,
        "tokens": block.tokens,
        "entries": [
            {"section": one.section, "seq": one.seq, "tokens": one.tokens} for one in block.entries
        ],
    }


def _search(plane: Plane, token: Token, given: dict[str, Any]) -> dict[str, Any]:
    hits = plane.search(
        given["query"],
        given["limit"],
        ns=_spaces(token, given) or None,
        kind=given.get("kind"),
        session=given.get("session"),
        channel=token.channel,
        agent=token.agent,
    )
    rows = [{**_told(hit.event), "text": hit.text, "score": hit.score} for hit in hits]
    return {"hits": rows, "degraded": list(hits.degraded)}


def _get(plane: Plane, token: Token, given: dict[str, Any]) -> dict[str, Any]:
    if ("key" in given) == ("id" in given):
        raise InputError("give exactly one of key and id")
    if "key" in given:
        event = plane.get(
            given["key"], _space(token, given), channel=token.channel, agent=token.agent
        )
        if event is None:
            raise NotFoundError(f"no value under {quoted_value(given['key'])}")
        return _told(event)
    return _told(_event(plane, token, given["id"]))


def _event(plane: Plane, token: Token, named: str) -> Event:
    """An event by id or #seq; one of another namespace is answered like none."""
    number = named.removeprefix("#")
    by_seq = named.startswith("#") and number.isascii() and number.isdigit() and len(number) < 19
    absent = NotFoundError(f"no event {quoted_value(named)}")
    try:
        event = plane.event(
            int(number) if by_seq else named, channel=token.channel, agent=token.agent
        )
    except NotFoundError:
        raise absent from None
    if not token.reaches(event.ns):
        raise absent
    return event


def _told(event: Event) -> dict[str, Any]:
    fields = ("key", "session", "actor", "role")
    row: dict[str, Any] = {
        "seq": event.seq,
        "id": event.id,
        "ts": event.ts,
        "kind": event.kind,
        "ns": event.ns,
        "text": event.text,
    }
    return row | {name: value for name in fields if (value := getattr(event, name)) is not None}


def _forget(plane: Plane, token: Token, given: dict[str, Any]) -> dict[str, Any]:
    if ("key" in given) == ("id" in given):
        raise InputError("give exactly one of key and id")
    named: dict[str, str | None] = {}
    ns = token.home_ns
    if "key" in given:
        named["key"], ns = given["key"], _space(token, given)
    else:
        named["id"] = _event(plane, token, given["id"]).id
    stored = forget_as(
        plane.context, named, ns, given["reason"], channel=token.channel, agent=token.agent
    )
    return {"seq": stored.seq, "durability": stored.durability}


_NS: Final = _text(256, description="One of the token's namespaces.")
_NSS: Final = _texts(16)
_EVENT: Final = _gives(seq=_INTEGER, id=_STRING, ts=_STRING, kind=_STRING, ns=_STRING, text=_STRING)
_HITS: Final[Schema] = {"type": "array", "items": {"type": "object"}}

ROUTES: Final = (
    Route(
        "POST",
        "/v1/record",
        Tool(
            "record",
            "Store one event; the answer comes when it survives what `durability` says.",
            _takes(
                "text",
                text=_text(_TEXT_MAX, minLength=1),
                kind={"type": "string", "enum": list(_KINDS), "default": "observation"},
                key=_text(256, description="Replaces the value of this key."),
                ns=_NS,
                session=_text(256),
                role={
                    "type": "string",
                    "enum": ["assistant", "user", "tool"],
                    "default": "assistant",
                },
                tags=_texts(16),
                importance=_number(0, 1000, 500),
                idempotency_key=_text(256, description="The same twice is stored once."),
            ),
            _gives(seq=_INTEGER, id=_STRING, duplicate={"type": "boolean"}, durability=_STRING),
            writes=True,
        ),
        row=_row,
    ),
    Route(
        "POST",
        "/v1/pack",
        Tool(
            "pack",
            "A block of context for a query, within a budget of tokens.",
            _takes(
                query=_text(_QUERY_MAX, default=""),
                budget=_number(1, _BUDGET_MAX, 4_000),
                mode={
                    "type": "string",
                    "enum": ["auto", "fast", "deep", "orient"],
                    "default": "auto",
                },
                ns=_NSS,
                session=_text(256),
            ),
            _gives(text=_STRING, tokens=_INTEGER, entries=_HITS),
        ),
        _pack,
    ),
    Route(
        "POST",
        "/v1/search",
        Tool(
            "search",
            "The events that answer a query, the best first.",
            _takes(
                "query",
                query=_text(_QUERY_MAX, minLength=1),
                limit=_number(1, 100, 10),
                kind=_texts(8),
                ns=_NSS,
                session=_text(256),
            ),
            _gives(hits=_HITS, degraded=_texts(16)),
        ),
        _search,
    ),
    Route(
        "GET",
        "/v1/get",
        Tool(
            "get",
            "The value of a key, or one event by its id or #seq.",
            _takes(key=_text(256), id=_text(256), ns=_NS),
            _EVENT,
        ),
        _get,
    ),
    Route(
        "POST",
        "/v1/forget",
        Tool(
            "forget",
            "Archive the value of a key, or an event: out of every answer, not erased.",
            _takes(key=_text(256), id=_text(256), ns=_NS, reason=_text(500, default="")),
            _gives(seq=_INTEGER, durability=_STRING),
            writes=True,
            archives=True,
        ),
        _forget,
    ),
)
BY_PATH: Final = {route.path: route for route in ROUTES}


def arguments(route: Route, token: Token, given: Any) -> tuple[str, dict[str, Any]]:
    """The plane that is meant, and the checked arguments.

    Raises ScopeError for a claim that is not the token's, InputError for what cannot be taken.
    """
    if not isinstance(given, dict):
        raise InputError("expected a JSON object")
    for name in CLAIMS:
        if name in given and given[name] != getattr(token, name):
            raise ScopeError(f"this token is not for that {name}")
    left = {name: value for name, value in given.items() if name not in CLAIMS}
    return meant_plane(token, left.pop("plane", None)), checked(route.tool, left)


def meant_plane(token: Token, named: Any) -> str:
    """The plane by the name that a request gives; the token's only one where it gives none."""
    if named is None:
        if len(token.planes) != 1:
            raise InputError("this token is for several planes: name one", where="plane")
        return token.planes[0]
    if named not in token.planes:
        raise ScopeError("this token is not for that plane")
    return str(named)


def words(error: Exception) -> str:
    """What an error says, without secrets, not too long."""
    return masked(str(error))[:1_000]


# What may come instead of an answer, by status.
REFUSALS: Final = {
    400: "an argument cannot be taken; nothing was stored",
    401: "no token, or none that is known",
    403: "not for this token, or from a foreign origin",
    404: "there is no such thing, or none that this token may see",
    408: "the request came too slowly",
    409: "the id is another event's",
    413: "the request is too large",
    421: "the Host is not one of this server",
    429: "too many requests of this token",
    431: "the head of the request is too large",
    503: "too much at once; try again",
    504: "it took too long; a record may be stored: repeat it with its idempotency_key",
}


def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document of the table."""
    error = _gives(error=_gives(type=_STRING, message=_STRING))
    refusals = {
        str(status): {"description": said, "content": _json(error)}
        for status, said in REFUSALS.items()
    }
    paths: dict[str, Any] = {}
    for route in ROUTES:
        tool = route.tool
        operation: dict[str, Any] = {
            "operationId": tool.name,
            "summary": tool.description,
            "responses": {"200": {"description": "done", "content": _json(tool.gives)}} | refusals,
        }
        if route.method == "GET":
            operation["parameters"] = [
                {"name": name, "in": "query", "schema": schema}
                for name, schema in tool.takes["properties"].items()
            ]
        else:
            operation["requestBody"] = {"required": True, "content": _json(tool.takes)}
        paths[route.path] = {route.method.lower(): operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "memplane", "version": VERSION},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
