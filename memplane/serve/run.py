"""Listen until SIGTERM or SIGINT, then finish what was begun and close.

On loopback unless `--allow-host` names what clients call this server: what travels is not encrypted
here, so a proxy with TLS belongs before it, and hands the Host on.

A connection has `HEAD_S` for the head of each request; who is slower, or silent, is cut off. More
than `CONNECTIONS_MAX` at once are answered with 503.
"""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from memplane.errors import HomeError, InputError
from memplane.lazy import NamedTuple
from memplane.serve.planes import Planes
from memplane.serve.tokens import TokenFile
from memplane.serve.web import Front, RequestLimits

HEAD_S: Final = 10.0
CONNECTIONS_MAX: Final = 512
_HEAD_BYTES: Final = 32_768
_GRACE_S: Final = 20  # for requests that have begun, at the end
_BACKLOG: Final = 512


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


class _Connection(H11Protocol):
    """A connection that is cut off where the head of a request does not come in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._in_time()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """A server that a signal ends with exit code 0, when all that was begun is done."""

    def __init__(self, settings: uvicorn.Config, answering: Callable[[], object]) -> None:
        super().__init__(settings)
        self._answering = answering

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._answering()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.should_exit = True

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
    planes = Planes(listening.planes, listening.only)
    front = Front(
        planes,
        TokenFile(listening.tokens),
        frozenset(hosts),
        frozenset(listening.origins),
        listening.limits,
    )
    settings = uvicorn.Config(
        front,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(settings, lambda: tell(f"http://{shown}:{port}"))
    async with front.running():
        await server.serve(sockets=[listener])


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
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise HomeError(f"{host}:{port}: cannot listen there: {error}") from None
    return made
