"""Listen until SIGTERM or SIGINT, then finish what was begun and close.

On loopback unless `--allow-host` names what clients call this server: what travels is not encrypted
here, so a proxy with TLS belongs before it, and hands the Host on.

A connection has `HEAD_S` for the head of each request, and `WRITE_S` to take an answer; who is
slower, or silent, is cut off. There are `ConnectionLimits.total` of them at most: where one more
comes, the one that has waited for longest without a request makes room, so that silent ones keep
nobody out. Of one address there are `of_address` at most; of loopback, where the proxy is, as many
as there are in all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import signal
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from memplane.errors import HomeError, InputError
from memplane.lazy import NamedTuple
from memplane.serve.planes import OpenLimits, Planes
from memplane.serve.tokens import TokenFile
from memplane.serve.web import HEAD_MAX, Front, RequestLimits

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
