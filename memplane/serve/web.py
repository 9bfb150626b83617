"""What one HTTP request goes through: Host, Origin, token, rate, size, time; then it is answered.

An ASGI application. /health and /openapi.json need no token; /metrics, /v1/... and /mcp do. Nothing
that a token may not see has a part in an answer, an error or a figure: `/metrics` counts requests
by route and status, times, and open planes, and names neither planes nor tokens.

The front checks (Host 421, Origin 403) are those that the Model Context Protocol asks of servers
over streamable HTTP, against pages that reach loopback by rebinding a name.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

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
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple
from memplane.mcp.server import server_of_many
from memplane.mcp.tools import Desk
from memplane.plane import Plane
from memplane.serve import routes
from memplane.serve.planes import BusyError, Planes
from memplane.serve.tokens import Token, TokenFile
from memplane.wiring import make_counter

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
                raise _Refused(504, routes.REFUSALS[504]) from None
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
            await _send(send, 200, _json(routes.openapi()))
            return
        if self._metrics.running > self._limits.running:
            raise _Refused(503, routes.REFUSALS[503], ("Retry-After", "1"), ("Connection", "close"))
        self._check_size(scope)
        token = self._token(scope)
        if not self._rates.take(token.name, time.monotonic()):
            raise _Refused(429, routes.REFUSALS[429], ("Retry-After", "1"))
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
        route = routes.BY_PATH.get(path)
        if route is None:
            raise _Refused(404, "no such path; /openapi.json has those there are")
        _check_method(method, route.method)
        given = _query(scope) if method == "GET" else _body(await self._read(receive))
        name, checked = routes.arguments(route, token, given)
        if route.row is not None:
            stored = await self._planes.record(name, route.row(token, checked))
            await _send(send, 200, _json(routes.stored_row(stored)))
            return
        assert route.act is not None
        call: Callable[[Plane], dict[str, Any]] = partial(_done, route.act, token, checked)
        run = self._planes.write if route.tool.writes else self._planes.read
        await _send(send, 200, _json(await run(name, call)))

    def _check_front(self, scope: dict[str, Any]) -> None:
        # The parser's own bound is for heads that come in pieces.
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_MAX:
            raise _Refused(431, routes.REFUSALS[431], ("Connection", "close"))
        hosts = _headers(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise _Refused(421, routes.REFUSALS[421])
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
            raise _Refused(401, routes.REFUSALS[401], ("WWW-Authenticate", "Bearer"))
        return token

    def _check_size(self, scope: dict[str, Any]) -> None:
        """Refuse a body that is too large by its own word, before any of it is read."""
        length = _headers(scope, b"content-length")
        if length and length[0].isdigit() and int(length[0][:19]) > self._limits.body:
            raise _Refused(413, routes.REFUSALS[413], ("Connection", "close"))

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
                        raise _Refused(413, routes.REFUSALS[413], ("Connection", "close"))
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise _Refused(408, routes.REFUSALS[408], ("Connection", "close")) from None

    async def _answer_mcp(
        self, scope: dict[str, Any], receive: Receive, send: Send, token: Token
    ) -> None:
        # Without sessions there is nothing that a stream would tell.
        _check_method(scope["method"], "POST", *(("GET", "DELETE") if self._sessions else ()))
        named = scope["path"].removeprefix(_MCP).removeprefix("/") or None
        plane = routes.meant_plane(token, named)
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


def _done(act: routes.Act, token: Token, given: dict[str, Any], plane: Plane) -> dict[str, Any]:
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
    said = routes.words(error)
    if status >= 500 and not isinstance(error, BusyError):
        _tell_person(f"{error}\n")
        said = _UNUSABLE
    return _Refused(status, said, *more, kind=type(error).__name__)


def _label(path: str) -> str:
    """The path as a figure may name it: one of a table."""
    if path in routes.BY_PATH or path in ("/health", "/metrics", "/openapi.json"):
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
