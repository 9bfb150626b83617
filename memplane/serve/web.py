"""The server: planes opened on demand, the JSON API, what a request goes through, the listener.

**Planes** (`Planes`) are opened when they are asked for and closed when nobody asks. At most
`PLANES_MAX` are open at once, which bounds threads and descriptors; the one that was idle for
longest makes room. Each has the threads of a `PlaneRunner` (`memplane.acms.runner`), and a bounded
line of calls: who comes when it is full is told to come again.

**The JSON API** is one table: path, arguments, answer and what is done; OpenAPI is made from it.
Who asks is what its token says: the agent and the channel come from there, and namespaces are those
that it is bound to. A request that claims another is refused, whether or not there is such a thing.
What is recorded has the role `assistant` unless the request gives another, so that a statement
counts as the agent's word, and not as its user's.

**What one HTTP request goes through**: Host, Origin, token, rate, size, time; then it is answered,
by an ASGI application. /health and /openapi.json need no token; /metrics, /v1/... and /mcp do.
Nothing that a token may not see has a part in an answer, an error or a figure: `/metrics` counts
requests by route and status, times, and open planes, and names neither planes nor tokens. The front
checks (Host 421, Origin 403) are those that the Model Context Protocol asks of servers over
streamable HTTP, against pages that reach loopback by rebinding a name.

**The listener** ends at SIGTERM or SIGINT: it finishes what was begun, and closes. It is on
loopback unless `--allow-host` names what clients call this server: what travels is not encrypted
here, so a proxy with TLS belongs before it, and hands the Host on. A connection has `HEAD_S` for
the head of each request, and `WRITE_S` to take an answer; who is slower, or silent, is cut off.
There are `ConnectionLimits.total` of them at most: where one more comes, the one that has waited
for longest without a request makes room, so that silent ones keep nobody out. Of one address there
are `of_address` at most; of loopback, where the proxy is, as many as there are in all.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import h11
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from uvicorn.protocols.http.h11_impl import H11Protocol

from memplane.acms.runner import AgentRow, PlaneOpening, PlaneRunner, held, release_settled
from memplane.context.calls import Receipt
from memplane.context.watched_files import bound_to
from memplane.errors import (
    ConflictError,
    HomeError,
    InputError,
    LockError,
    MemplaneError,
    NotFoundError,
    PlaneError,
    ScopeError,
)
from memplane.event import RELAYED, TYPED_KINDS, Event
from memplane.home import VERSION
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple
from memplane.mcp import Desk, Tool, checked
from memplane.mcp.server import server_of_many
from memplane.plane import Plane
from memplane.serve import NAME, Token, TokenFile
from memplane.wiring import make_counter
from memplane.work.changes import forget_as

Made = TypeVar("Made")

PLANES_MAX: Final = 64
WAITING_MAX: Final = 128  # calls of one plane that run or wait
IDLE_S: Final = 300.0
_SWEEP_S: Final = 15.0
_SETTLE_S: Final = 10.0
ONLY: Final = "main"  # the name of the plane of `--home`


class OpenLimits(NamedTuple):
    """How many planes are open at most, and until when.

    `memory`: bytes of this process, above which no further plane is opened until idle ones are
    closed; 0: no bound.
    """

    most: int = PLANES_MAX
    idle_s: float = IDLE_S
    memory: int = 0


class BusyError(MemplaneError):
    """More is asked for at once than the server takes; the same may be asked again soon."""


class _Open:
    """An open plane, how many calls it has, and when the last one ended."""

    def __init__(self, runner: PlaneRunner, path: Path) -> None:
        self.runner = runner
        self.calls = 0
        self.left = time.monotonic()
        self._path, self._stamp = path, _stamp(path)

    def is_there(self) -> bool:
        """Whether its folder holds this plane still: none was put in its place, or moved away."""
        return self._stamp is not None and _stamp(self._path) == self._stamp


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What tells the plane in a folder from another one; None where there is none."""
    try:
        found = (path / "plane.json").lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


class Planes:
    """Planes by name, in a folder, or one alone. Of one event loop."""

    def __init__(
        self,
        folder: Path | None,
        only: Path | None,
        limits: OpenLimits = OpenLimits(),  # noqa: B008 - a record, never changed
    ) -> None:
        self._folder, self._only, self._limits = folder, only, limits
        self._open: dict[str, _Open] = {}
        self._writing: set[asyncio.Task[Any]] = set()
        self._changing = asyncio.Lock()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def names(self) -> list[str]:
        """All that there are."""
        if self._only is not None:
            return [ONLY]
        with os.scandir(self._folder) as entries:
            return sorted(one.name for one in entries if self._path(one.name) is not None)

    def _path(self, name: str) -> Path | None:
        if self._only is not None:
            return self._only if name == ONLY else None
        if self._folder is None or not NAME.fullmatch(name):
            return None
        path = self._folder / name
        return path if not path.is_symlink() and (path / "plane.json").is_file() else None

    async def read(self, name: str, call: Callable[[Plane], Made]) -> Made:
        """What a call gives that reads; raises NotFoundError, BusyError, and what it raises."""
        async with self._using(name) as runner:
            return await runner.reading(call, runner.plane)

    async def write(self, name: str, call: Callable[[Plane], Made]) -> Made:
        """What a call gives that writes. It runs to its end even where nobody waits any more."""

        async def written() -> Made:
            async with self._using(name) as runner:
                return await runner.writing(lambda: call(runner.plane))

        return await self._to_its_end(written())

    async def record(self, name: str, row: AgentRow) -> Receipt:
        """Record a row for an agent, in one write with those that wait at the same time.

        Raises NotFoundError, BusyError, and what `record_as` does. It runs to its end as well.
        """

        async def written() -> Receipt:
            async with self._using(name) as runner:
                return await runner.commit.write(row)

        return await self._to_its_end(written())

    async def _to_its_end(self, work: Coroutine[Any, Any, Made]) -> Made:
        task = asyncio.create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Task[Any]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # who waited may have given up: it is then nobody's

    @asynccontextmanager
    async def _using(self, name: str) -> AsyncIterator[PlaneRunner]:
        one = self._open.get(name)
        if one is None or not one.is_there():
            one = await self._opened(name)
        if one.calls >= WAITING_MAX:
            raise BusyError("too many calls of this plane wait; try again")
        one.calls += 1
        try:
            yield one.runner
        finally:
            one.calls -= 1
            one.left = time.monotonic()

    async def _opened(self, name: str) -> _Open:
        async with self._changing:
            one = self._open.get(name)
            if one is not None and one.is_there():
                return one
            if one is not None:
                await self._close(name)
            path = await asyncio.to_thread(self._path, name)
            if path is None:
                raise NotFoundError("no such plane")
            while self._open and self._is_full():
                await self._make_room()
            one = self._open[name] = _Open(await held(PlaneOpening(path)), path)
            return one

    def _is_full(self) -> bool:
        most = self._limits.memory
        return len(self._open) >= self._limits.most or bool(most and resident() > most)

    async def _make_room(self) -> None:
        idle = [name for name, one in self._open.items() if not one.calls]
        if not idle:
            raise BusyError("too many planes are in use; try again")
        await self._close(min(idle, key=lambda name: self._open[name].left))

    async def _close(self, name: str) -> None:
        """Close a plane; one that was moved away is let go, or it would write where it was."""
        one = self._open.pop(name)
        one.runner.owned = one.is_there()
        await release_settled(one.runner, _SETTLE_S)

    async def sweep(self) -> None:
        """Close what was idle for long, until this is cancelled."""
        while True:
            await asyncio.sleep(min(_SWEEP_S, self._limits.idle_s))
            async with self._changing:
                before = time.monotonic() - self._limits.idle_s
                for name, one in list(self._open.items()):
                    if not one.calls and one.left < before:
                        await self._close(name)

    async def close(self) -> None:
        """Wait for what is being written, and close all."""
        if self._writing:
            await asyncio.wait(set(self._writing), timeout=_SETTLE_S)
        async with self._changing:
            for name in list(self._open):
                await self._close(name)


def resident() -> int:
    """Bytes of memory of this process now; the most that it had, where the system says no more."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - a line of the kernel
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return found if sys.platform == "darwin" else found * 1024


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
        str(status): {"description": said, "content": _json_content(error)}
        for status, said in REFUSALS.items()
    }
    paths: dict[str, Any] = {}
    for route in ROUTES:
        tool = route.tool
        operation: dict[str, Any] = {
            "operationId": tool.name,
            "summary": tool.description,
            "responses": {"200": {"description": "done", "content": _json_content(tool.gives)}}
            | refusals,
        }
        if route.method == "GET":
            operation["parameters"] = [
                {"name": name, "in": "query", "schema": schema}
                for name, schema in tool.takes["properties"].items()
            ]
        else:
            operation["requestBody"] = {"required": True, "content": _json_content(tool.takes)}
        paths[route.path] = {route.method.lower(): operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "memplane", "version": VERSION},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _json_content(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_MAX: Final = 1 << 20
HEAD_MAX: Final = 32_768
BODY_S: Final = 10.0  # for the whole of a body
REQUEST_S: Final = 60.0
RATE: Final = 50  # requests a second of one token, in the mean
SESSIONS_MAX: Final = 1_000
SESSION_IDLE_S: Final = 300.0
RUNNING_MAX: Final = 256  # requests at once, of all tokens
_BURST_S: Final = 4.0  # seconds of that rate at once
_BUCKETS_MAX: Final = 10_000
_FIELDS_MAX: Final = 32
_MCP: Final = "/mcp"
_UNUSABLE: Final = "this cannot be answered as things are; the server's stderr says why"


class RequestLimits(NamedTuple):
    """What one request may cost."""

    body: int = BODY_MAX
    body_s: float = BODY_S
    request_s: float = REQUEST_S
    rate: int = RATE
    running: int = RUNNING_MAX

    @property
    def of_token(self) -> int:
        """How many requests of one token may run at once, so that others find room."""
        return max(1, self.running // 4)


class _Refused(Exception):  # noqa: N818 - an answer
    """A request that is answered with a status and words, and nothing else."""

    def __init__(self, status: int, said: str, *headers: tuple[str, str], kind: str = "") -> None:
        super().__init__(said)
        self.status, self.headers, self.kind = status, headers, kind or "Refused"


class _Rates:
    """How much each token may still ask: a bucket that fills with time."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, now: float) -> bool:
        """Whether one more is taken."""
        full = self._rate * _BURST_S
        left, at = self._buckets.pop(name, (full, now))
        left = min(full, left + (now - at) * self._rate)
        self._buckets[name] = (left - 1 if left >= 1 else left), now
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return left >= 1


class _Metrics:
    """Counts and times, in the text format of Prometheus (version 0.0.4)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, float] = {}
        self.running = 0

    def done(self, route: str, status: int, seconds: float) -> None:
        self._counts[route, status] = self._counts.get((route, status), 0) + 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def text(self, planes: int) -> str:
        lines = ["# TYPE memplane_requests_total counter"]
        for (route, status), count in sorted(self._counts.items()):
            labels = f'route="{route}",status="{status}"'
            lines.append(f"memplane_requests_total{{{labels}}} {count}")
        lines.append("# TYPE memplane_request_seconds_total counter")
        for route, seconds in sorted(self._seconds.items()):
            lines.append(f'memplane_request_seconds_total{{route="{route}"}} {seconds:.6f}')
        lines += [
            "# TYPE memplane_requests_running gauge",
            f"memplane_requests_running {self.running}",
        ]
        lines += ["# TYPE memplane_planes_open gauge", f"memplane_planes_open {planes}"]
        return "\n".join(lines) + "\n"


class Front:
    """The application. `hosts`: what a Host header may say; `origins`: what an Origin may.

    `sessions`: MCP has sessions and answers by streams; else each request stands alone.
    """

    def __init__(
        self,
        planes: Planes,
        tokens: TokenFile,
        hosts: frozenset[str],
        origins: frozenset[str] = frozenset(),
        limits: RequestLimits = RequestLimits(),  # noqa: B008 - a record, never changed
        *,
        sessions: bool = False,
    ) -> None:
        self._planes, self._tokens = planes, tokens
        self._hosts, self._origins, self._limits = hosts, origins, limits
        self._rates, self._metrics = _Rates(limits.rate), _Metrics()
        self._running: Counter[str] = Counter()  # requests, by token
        self._sessions, self._ending = sessions, asyncio.Event()
        self._mcp = StreamableHTTPSessionManager(
            server_of_many(self._at_desk),
            json_response=not sessions,
            stateless=not sessions,
            max_request_body_size=limits.body,
            max_sessions=SESSIONS_MAX,
            session_idle_timeout=SESSION_IDLE_S,
        )

    def end(self) -> None:
        """End the streams on which nothing is answered: the server is about to stop."""
        self._ending.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take requests; at the end finish what was begun, and close all planes."""
        sweeping = asyncio.create_task(self._planes.sweep())
        try:
            async with self._mcp.run():
                yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            await self._planes.close()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status = time.monotonic(), 0

        async def counted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._metrics.running += 1
        try:
            await self._within(scope, receive, counted, lambda: bool(status))
        finally:
            self._metrics.running -= 1
            self._metrics.done(_label(scope["path"]), status, time.monotonic() - began)

    async def _within(
        self, scope: dict[str, Any], receive: Receive, send: Send, begun: Callable[[], bool]
    ) -> None:
        """Answer within the time of a request, whatever goes wrong."""
        try:
            try:
                async with asyncio.timeout(self._limits.request_s):
                    await self._answer(scope, receive, send)
            except TimeoutError:
                raise _Refused(504, REFUSALS[504]) from None
            except MemplaneError as error:
                raise _refusal(error) from None
            except OSError as error:
                _tell_person(f"{error}\n")
                raise _Refused(500, _UNUSABLE) from None
            except Exception as error:
                if isinstance(error, _Refused):
                    raise
                _tell_person(traceback.format_exc())
                raise _Refused(500, "a bug in memplane; the server's stderr has it") from None
        except _Refused as refused:
            if not begun():
                said = {"error": {"type": refused.kind, "message": str(refused)}}
                await _send(send, refused.status, _json(said), *refused.headers)

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self._check_front(scope)
        path, method = scope["path"], scope["method"]
        if path == "/health":
            _check_method(method, "GET")
            await _send(send, 200, _json({"status": "ok"}))
            return
        if path == "/openapi.json":
            _check_method(method, "GET")
            await _send(send, 200, _json(openapi()))
            return
        if self._metrics.running > self._limits.running:
            raise _Refused(503, REFUSALS[503], ("Retry-After", "1"), ("Connection", "close"))
        self._check_size(scope)
        token = self._token(scope)
        if not self._rates.take(token.name, time.monotonic()):
            raise _Refused(429, REFUSALS[429], ("Retry-After", "1"))
        if self._running[token.name] >= self._limits.of_token:
            raise _Refused(429, "too many requests of this token run", ("Retry-After", "1"))
        self._running[token.name] += 1
        try:
            await self._answer_token(scope, receive, send, token)
        finally:
            self._running[token.name] -= 1
            if not self._running[token.name]:
                del self._running[token.name]

    async def _answer_token(
        self, scope: dict[str, Any], receive: Receive, send: Send, token: Token
    ) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/metrics":
            _check_method(method, "GET")
            text = self._metrics.text(len(self._planes)).encode()
            await _send(send, 200, text, ("Content-Type", "text/plain; version=0.0.4"))
        elif path == _MCP or path.startswith(f"{_MCP}/"):
            await self._answer_mcp(scope, receive, send, token)
        else:
            await self._answer_route(scope, receive, send, token)

    async def _answer_route(
        self, scope: dict[str, Any], receive: Receive, send: Send, token: Token
    ) -> None:
        path, method = scope["path"], scope["method"]
        route = BY_PATH.get(path)
        if route is None:
            raise _Refused(404, "no such path; /openapi.json has those there are")
        _check_method(method, route.method)
        given = _query(scope) if method == "GET" else _body(await self._read(receive))
        name, checked = arguments(route, token, given)
        if route.row is not None:
            stored = await self._planes.record(name, route.row(token, checked))
            await _send(send, 200, _json(stored_row(stored)))
            return
        assert route.act is not None
        call: Callable[[Plane], dict[str, Any]] = partial(_done, route.act, token, checked)
        run = self._planes.write if route.tool.writes else self._planes.read
        await _send(send, 200, _json(await run(name, call)))

    def _check_front(self, scope: dict[str, Any]) -> None:
        # The parser's own bound is for heads that come in pieces.
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_MAX:
            raise _Refused(431, REFUSALS[431], ("Connection", "close"))
        hosts = _headers(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise _Refused(421, REFUSALS[421])
        if _headers(scope, b"transfer-encoding") and _headers(scope, b"content-length"):
            # Two lengths: what is before this server may have gone by the other one.
            raise _Refused(400, "two lengths of one body", ("Connection", "close"))
        if not all(one in self._origins for one in _headers(scope, b"origin")):
            raise _Refused(403, "this origin may not ask here")

    def _token(self, scope: dict[str, Any]) -> Token:
        given = _headers(scope, b"authorization")
        scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
        token = self._tokens.holder(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise _Refused(401, REFUSALS[401], ("WWW-Authenticate", "Bearer"))
        return token

    def _check_size(self, scope: dict[str, Any]) -> None:
        """Refuse a body that is too large by its own word, before any of it is read."""
        length = _headers(scope, b"content-length")
        if length and length[0].isdigit() and int(length[0][:19]) > self._limits.body:
            raise _Refused(413, REFUSALS[413], ("Connection", "close"))

    async def _read(self, receive: Receive) -> bytes:
        """The whole body, within its size and time."""
        most = self._limits.body
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Refused(400, "the request ended before its body did")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _Refused(413, REFUSALS[413], ("Connection", "close"))
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise _Refused(408, REFUSALS[408], ("Connection", "close")) from None

    async def _answer_mcp(
        self, scope: dict[str, Any], receive: Receive, send: Send, token: Token
    ) -> None:
        # Without sessions there is nothing that a stream would tell.
        _check_method(scope["method"], "POST", *(("GET", "DELETE") if self._sessions else ()))
        named = scope["path"].removeprefix(_MCP).removeprefix("/") or None
        plane = meant_plane(token, named)
        body: bytes | None = await self._read(receive)

        async def replayed() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            whole, body = body, None
            return {"type": "http.request", "body": whole, "more_body": False}

        inner = {**scope, "path": _MCP, "raw_path": _MCP.encode(), "memplane": (token, plane)}
        # A session is that of the token and plane that opened it; to others there is none.
        whose = AccessToken(token=token.name, client_id=f"{token.sha256} {plane}", scopes=[])
        inner["user"] = AuthenticatedUser(whose)
        answering = self._mcp.handle_request(inner, replayed, send)
        if scope["method"] == "GET":
            answering = self._until_the_end(answering)
        await answering

    async def _until_the_end(self, streaming: Coroutine[Any, Any, None]) -> None:
        """Run a stream that never ends by itself until the server stops."""
        stream, ending = asyncio.create_task(streaming), asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({stream, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (stream, ending):
                one.cancel()
            await asyncio.gather(stream, ending, return_exceptions=True)

    async def _at_desk(self, request: Any, act: Callable[[Desk], Any], writes: bool) -> Any:
        """Do something for the agent of the token, whatever the client calls itself."""
        token, name = request.scope["memplane"]

        def work(plane: Plane) -> Any:
            session = f"http-{token.name}"
            desk = Desk(plane, make_counter, token.channel, session, token.agent, None, _untold)
            with bound_to(token.ns):
                return act(desk._replace(spaces=token.spaces))

        try:
            return await (self._planes.write if writes else self._planes.read)(name, work)
        except (PlaneError, OSError) as error:  # whose words name folders of this machine
            _tell_person(f"{error}\n")
            raise BusyError(_UNUSABLE) from None


def _untold(_done: int, _total: int) -> None:
    """Nobody is told of long work: an answer is one JSON value."""


def _done(act: Act, token: Token, given: dict[str, Any], plane: Plane) -> dict[str, Any]:
    with bound_to(token.ns):
        return act(plane, token, given)


def _tell_person(said: str) -> None:
    """Say on stderr what is not for who asked."""
    sys.stderr.write(masked(said))
    sys.stderr.flush()


def _refusal(error: MemplaneError) -> _Refused:
    """What an error of memplane is in HTTP. Of the plane's own faults the words stay here."""
    statuses = (
        (ScopeError, 403),
        (InputError, 400),
        (NotFoundError, 404),
        (ConflictError, 409),
        (BusyError, 503),
        (LockError, 503),
        (HomeError, 503),
    )
    status = next((status for kind, status in statuses if isinstance(error, kind)), 500)
    more = (("Retry-After", "1"),) if status == 503 else ()
    said = words(error)
    if status >= 500 and not isinstance(error, BusyError):
        _tell_person(f"{error}\n")
        said = _UNUSABLE
    return _Refused(status, said, *more, kind=type(error).__name__)


def _label(path: str) -> str:
    """The path as a figure may name it: one of a table."""
    if path in BY_PATH or path in ("/health", "/metrics", "/openapi.json"):
        return path
    return _MCP if path == _MCP or path.startswith(f"{_MCP}/") else "other"


def _check_method(found: str, *expected: str) -> None:
    if found not in expected:
        allowed = ", ".join(expected)
        raise _Refused(405, f"expected {allowed}", ("Allow", allowed))


def _headers(scope: dict[str, Any], name: bytes) -> list[str]:
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def _query(scope: dict[str, Any]) -> dict[str, Any]:
    text = scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise InputError(f"expected at most {_FIELDS_MAX} arguments, found more") from None
    given = dict(pairs)
    if len(given) != len(pairs):
        raise InputError("an argument is given twice")
    return given


def _body(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("expected a JSON object") from None


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def _send(send: Send, status: int, body: bytes, *headers: tuple[str, str]) -> None:
    kept = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    } | dict(headers)
    lines = [(name.lower().encode(), value.encode()) for name, value in kept.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


HEAD_S: Final = 10.0
WRITE_S: Final = 30.0  # in which a client takes what was written to it
_LINGER_S: Final = 2.0  # for the rest of a body whose request was answered before it came
_DROPPED_MAX: Final = 1 << 20  # bytes of such a rest that are taken, and not looked at
CONNECTIONS_MAX: Final = 512
OF_ADDRESS_MAX: Final = 64
_GRACE_S: Final = 20  # for requests that have begun, at the end
_BACKLOG: Final = 512  # that wait in the system to be taken


_OTHER_DESCRIPTORS: Final = 64
DESCRIPTORS_OF_PLANE: Final = 12  # 4 as a rule: see docs/decisions/serve.md
_SEND_BYTES: Final = 1 << 18  # that the system keeps of an answer which a client does not take


class ConnectionLimits(NamedTuple):
    """How many connections there may be. `of_address` None: `OF_ADDRESS_MAX`, but for loopback."""

    total: int = CONNECTIONS_MAX
    of_address: int | None = None

    @property
    def at_once(self) -> int:
        """How many are taken in one turn of the loop: few of all, so that each is read in time."""
        return max(1, self.total // 16)


class Listening(NamedTuple):
    """Where a server listens, for whom, and what: `planes` is a folder of them, `only` is one."""

    host: str
    port: int
    tokens: Path
    planes: Path | None
    only: Path | None
    allowed: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    limits: RequestLimits = RequestLimits()
    connections: ConnectionLimits = ConnectionLimits()
    opening: OpenLimits = OpenLimits()
    sessions: bool = False


class _Connections:
    """Those that there are, and which of them have no request now: the longest ones first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._all: dict[_Connection, str] = {}
        self._idle: OrderedDict[_Connection, None] = OrderedDict()
        self._of: Counter[str] = Counter()

    def admit(self, one: _Connection) -> bool:
        """Take a new one in, in the place of an idle one where there are too many."""
        address = one.client[0] if one.client else ""
        most = self._limits.of_address
        if most is None and not _is_loopback(address):
            most = OF_ADDRESS_MAX
        if most is not None and self._of[address] >= most:
            return False
        if len(self._all) >= self._limits.total:
            if not self._idle:
                return False
            longest = next(iter(self._idle))
            self.leave(longest)
            longest.transport.abort()
        self._all[one] = address
        self._idle[one] = None
        self._of[address] += 1
        return True

    def asks(self, one: _Connection) -> None:
        """A request of it has begun."""
        self._idle.pop(one, None)

    def rests(self, one: _Connection) -> None:
        """Its request is answered."""
        if one in self._all:
            self._idle[one] = None

    def leave(self, one: _Connection) -> None:
        """It is gone."""
        address = self._all.pop(one, None)
        self._idle.pop(one, None)
        if address is not None:
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]


class _Transport:
    """A transport whose `close` waits for a client that still sends a body nobody will read.

    To close at once would reset the connection, and the answer might be lost on its way.
    """

    def __init__(self, transport: Any, is_sent_to: Callable[[], bool]) -> None:
        self._transport, self._is_sent_to = transport, is_sent_to
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.lingers or self._transport.is_closing() or not self._is_sent_to():
            self._transport.close()
            return
        self.lingers = True
        with suppress(OSError):
            self._transport.write_eof()


class _Connection(H11Protocol):
    """A connection that is cut off where a head, or the taking of an answer, is too slow."""

    def __init__(self, *args: Any, among: _Connections, **named: Any) -> None:
        super().__init__(*args, **named)
        self._among, self._dropped = among, 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(
            _Transport(transport, lambda: self.conn.their_state is h11.SEND_BODY)  # type: ignore[arg-type] # it has what is asked of one
        )
        if not self._among.admit(self):
            transport.abort()
            return
        # Any byte that is not taken yet counts: see `pause_writing`.
        transport.set_write_buffer_limits(high=0)
        self._begin("head", HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._lingers:
            self._dropped += len(data)
            if self._dropped > _DROPPED_MAX:
                self.transport.pause_reading()
            return
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY:
            self._end("rest")
        if self.conn.their_state is not h11.IDLE:
            self._end("head")
        elif not self.transport.is_closing():
            self._begin("head", HEAD_S, self.transport.close)
        if self.cycle is not None and not self.cycle.response_complete:
            self._among.asks(self)

    def on_response_complete(self) -> None:
        self._among.rests(self)
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._among.asks(self)  # the next one had come already
        elif self._lingers:
            self._begin("rest", _LINGER_S, self.transport.close)
        elif self.conn.their_state is h11.SEND_BODY:
            self._begin("rest", _LINGER_S, self._give_up)

    def _give_up(self) -> None:
        """Close, though the rest of a body is still on its way."""
        self._end("rest")
        self.transport.close()
        self._begin("rest", _LINGER_S, self.transport.close)

    @property
    def _lingers(self) -> bool:
        return getattr(self.transport, "lingers", False)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin("write", WRITE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end("write")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._end(name)
        self._among.leave(self)
        super().connection_lost(exc)

    def _begin(self, name: str, seconds: float, then: Callable[[], object]) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _end(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


class _Server(uvicorn.Server):
    """A server that a signal ends with exit code 0, when all that was begun is done."""

    def __init__(
        self,
        settings: uvicorn.Config,
        answering: Callable[[], object],
        ending: Callable[[], object],
    ) -> None:
        super().__init__(settings)
        self._answering, self._ending = answering, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_BACKLOG)  # of the loop it is how many it takes at once
        self._answering()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.should_exit = True
            self._ending()

        signals = (signal.SIGTERM, signal.SIGINT)
        for one in signals:
            loop.add_signal_handler(one, end)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)


def listen(listening: Listening, tell: Callable[[str], object]) -> None:
    """Serve until a signal; `tell` is told the address once it answers.

    Raises InputError for a host off loopback without `allowed`, HomeError where it cannot listen.
    """
    local = _is_loopback(listening.host)
    if not local and not listening.allowed:
        raise InputError(
            "off loopback, name what clients call this server (--allow-host memory.example.org); "
            "and put a proxy with TLS before it",
            where="--host",
        )
    _allow_descriptors(listening)
    listener = _listener(listening.host, listening.port)
    try:
        asyncio.run(_serve(listening, listener, local, tell))
    finally:
        listener.close()


async def _serve(
    listening: Listening, listener: socket.socket, local: bool, tell: Callable[[str], object]
) -> None:
    port = listener.getsockname()[1]
    shown = f"[{listening.host}]" if ":" in listening.host else listening.host
    hosts = {one.lower() for one in listening.allowed}
    if local:
        hosts |= {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", shown)}
    # What is named so was not reached by another name: the origin of a rebound page is that name.
    own = {f"http://{host}" for host in hosts} if local else set()
    planes = Planes(listening.planes, listening.only, listening.opening)
    front = Front(
        planes,
        TokenFile(listening.tokens),
        frozenset(hosts),
        frozenset(own.union(listening.origins)),
        listening.limits,
        sessions=listening.sessions,
    )
    settings = uvicorn.Config(
        front,
        http=partial(_Connection, among=_Connections(listening.connections)),  # type: ignore[arg-type] # it makes one
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what strangers send is no line on stderr
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=listening.connections.at_once,
        h11_max_incomplete_event_size=HEAD_MAX,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(settings, lambda: tell(f"http://{shown}:{port}"), front.end)
    async with front.running():
        await server.serve(sockets=[listener])


def _allow_descriptors(listening: Listening) -> None:
    """Raise the process's own bound on descriptors to what the limits come to.

    Raises HomeError where the system allows fewer: better now than in the middle of a request.
    """
    need = listening.connections.total + listening.connections.at_once + _OTHER_DESCRIPTORS
    need += DESCRIPTORS_OF_PLANE * listening.opening.most
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now == resource.RLIM_INFINITY or now >= need:
        return
    if most != resource.RLIM_INFINITY and most < need:
        raise HomeError(
            f"{need} descriptors may be needed at once, and the system allows {most}; give fewer "
            "--connections or --open-planes, or raise it (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, most))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)  # of each connection
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise HomeError(f"{host}:{port}: cannot listen there: {error}") from None
    return made
