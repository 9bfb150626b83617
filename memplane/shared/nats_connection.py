"""One connection to NATS for a caller that has no event loop: requests, each bounded in seconds.

nats-py is made for asyncio, so a loop of its own runs in one thread. A connection that failed is
let go of, and the next call makes another, to the next of the servers: that is decided here and not
by the library, whose own way of coming back may deliver a request after its caller gave it up.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

from memplane.errors import ConfigurationError, MissingExtraError, SharedLogError
from memplane.lazy import NamedTuple, late

if TYPE_CHECKING:
    from nats import errors as nats_errors
    from nats.aio import client as nats_client
    from nats.aio.msg import Msg
else:
    nats_errors = late("nats.errors")
    nats_client = late("nats.aio.client")

Given = TypeVar("Given")

CONNECT_S: Final = 2  # to one server
REQUEST_S: Final = 5.0
_CLOSE_S: Final = 2.0
_LOOK_S: Final = 0.25
_AT_ONCE: Final = 64  # requests on their way
_PORT: Final = 4222
_SCHEMES: Final = ("nats", "tls")
_HOST: Final = re.compile(r"(?:[a-z]+://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/@:\[\]]+)(?::([0-9]{1,5}))?")


class RefusedError(SharedLogError):
    """The server answered that it does not do what was asked; `code` is its `err_code`."""

    def __init__(self, message: str, *, code: int, unsure: bool) -> None:
        super().__init__(message, unsure=unsure)
        self.code = code


class NobodyError(SharedLogError):
    """Nobody took the request: the stream has no leader just now, or JetStream is off."""


class Address(NamedTuple):
    """The servers, as `host:port`, and who asks; "" where the server asks for nothing."""

    scheme: str
    servers: tuple[str, ...]
    user: str
    password: str


def parsed_address(address: str) -> Address:
    """The parts of `nats://[user:password@]host:port[,host:port…]`; `tls://` likewise.

    User and password are percent-encoded where they must be; a user alone is a token. Raises
    ConfigurationError, whose message holds no password.
    """
    scheme, found, rest = address.strip().partition("://")
    who, _, hosts = rest.rstrip("/").rpartition("@")
    servers = [_HOST.fullmatch(one.strip()) for one in hosts.split(",")]
    if not found or scheme not in _SCHEMES or not all(servers):
        raise ConfigurationError(
            "the address of the shared log: expected "
            "nats://[user:password@]host:port[,host:port...]; found something else, which is not "
            "shown since it may hold a password"
        )
    user, _, password = who.partition(":")
    named = tuple(f"{one[1]}:{one[2] or _PORT}" for one in servers if one)
    for one in named:
        if not 0 < int(one.rpartition(":")[2]) < 65536:
            raise ConfigurationError(f"the address of the shared log: {one}: no such port")
    return Address(scheme, named, unquote(user), unquote(password))


class Connection:
    """A connection that was made; `closed` is done when it is gone."""

    def __init__(self, client: nats_client.Client, server: str) -> None:
        self.client, self.server = client, server
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_made = False
        # What the server said of itself and of its streams by this connection.
        self.streams: dict[str, dict[str, Any]] = {}
        self.stored = 0  # the highest position that a wake-up named
        self.woken: asyncio.Event | None = None

    @property
    def is_over(self) -> bool:
        """Whether the connection is gone; the library forgets its callbacks where it fails."""
        return self.closed.done() or self.client.is_closed

    async def gone(self) -> None:
        """The library calls it when the connection ends, whoever ended it."""
        if not self.closed.done():
            self.closed.set_result(None)

    async def failed(self, error: Exception) -> None:
        """The library reports an error; what fails by it raises it anyway, but for a connect.

        That would try the same server for minutes: raised here, it ends at once.
        """
        if not self.is_made:
            raise error

    async def first(self, work: Coroutine[Any, Any, Given], seconds: float) -> Given:
        """What the work returns; raises TimeoutError, and OSError when the connection ends."""
        task = asyncio.ensure_future(work)
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0 and not self.is_over:
            await asyncio.wait(
                (task, self.closed), timeout=min(left, _LOOK_S), return_when="FIRST_COMPLETED"
            )
            if task.done():
                return task.result()
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        if self.is_over:
            raise OSError("the connection ended")
        raise TimeoutError

    async def ask(
        self,
        subject: str,
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        seconds: float = REQUEST_S,
    ) -> Msg:
        """The answer to a request.

        Raises NobodyError, and SharedLogError with `unsure` where no answer came.
        """
        work = self.client.request(subject, data, timeout=seconds + 1, headers=headers)
        try:
            return await self.first(work, seconds)
        except nats_errors.NoRespondersError:
            raise NobodyError(
                f"{self.server}: nobody takes what is sent to {subject}: the stream has no "
                "leader just now, or JetStream is off; try again"
            ) from None
        except (nats_errors.Error, OSError, TimeoutError) as error:
            await self.close()
            words = str(error) or f"no answer within {seconds:g} s"
            raise SharedLogError(f"{self.server}: {words}", unsure=True) from error

    async def said(
        self,
        subject: str,
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        seconds: float = REQUEST_S,
    ) -> dict[str, Any]:
        """The JSON object that is the answer; raises RefusedError where it is an error."""
        found = (await self.ask(subject, data, headers, seconds)).data
        try:
            answer = json.loads(found)
            fault = answer.get("error")
        except (ValueError, AttributeError):
            raise SharedLogError(f"{self.server}: its answer is no JSON", unsure=True) from None
        if fault is not None:
            said, code = str(fault.get("description", "refused")), int(fault.get("err_code", 0))
            # What the server refuses as a fault of the request was not stored.
            unsure = fault.get("code") not in (400, 404)
            raise RefusedError(f"{self.server}: {said} ({code})", code=code, unsure=unsure)
        assert isinstance(answer, dict)
        return answer

    async def api(
        self,
        subject: str,
        body: Mapping[str, Any] | None = None,
        seconds: float = REQUEST_S,
    ) -> dict[str, Any]:
        """An answer of the JetStream API."""
        data = json.dumps(body).encode() if body else b""
        return await self.said(f"$JS.API.{subject}", data, seconds=seconds)

    async def each(
        self, work: Callable[[int], Awaitable[Given]], numbers: Sequence[int]
    ) -> dict[int, Given]:
        """The work for each number, some at once."""
        found: dict[int, Given] = {}
        for begin in range(0, len(numbers), _AT_ONCE):
            some = numbers[begin : begin + _AT_ONCE]
            done = await asyncio.gather(*map(work, some), return_exceptions=True)
            for number, one in zip(some, done, strict=True):
                if isinstance(one, BaseException):
                    raise one
                found[number] = one
        return found

    async def close(self) -> None:
        """End it; bounded also where the server does not read on."""
        with suppress(Exception):
            await asyncio.wait_for(self.client.close(), _CLOSE_S)
        await self.gone()


class Connector:
    """Runs work with a connection, which it makes at the first need, in a thread of its own.

    Raises ConfigurationError for another address than `parsed_address` takes, MissingExtraError
    without nats-py.
    """

    def __init__(self, address: str, prepare: Callable[[Connection], Awaitable[None]]) -> None:
        try:
            nats_client.Client  # noqa: B018 - an extra, imported here
        except ImportError:
            raise MissingExtraError("a shared log in NATS", "nats") from None
        self._address, self._prepare = parsed_address(address), prepare
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._connection: Connection | None = None
        self._next = 0  # the server to try first

    def run(
        self, work: Callable[[Connection], Coroutine[Any, Any, Given]], seconds: float
    ) -> Given:
        """What the work returns; `seconds` bound it beside the making of a connection.

        Raises SharedLogError, and what the work raises.
        """
        future = asyncio.run_coroutine_threadsafe(self._connected(work), self._started())
        bound = seconds + (CONNECT_S + 1) * len(self._address.servers) + 2 * REQUEST_S
        try:
            return future.result(bound)
        except FutureTimeoutError:
            future.cancel()
            raise SharedLogError(f"NATS did not answer within {bound:g} s", unsure=True) from None

    def close(self) -> None:
        """End the connection and the thread; the next `run` begins anew."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        with suppress(FutureTimeoutError):
            asyncio.run_coroutine_threadsafe(self._ended(), loop).result(2 * _CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(2 * _CLOSE_S)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.set_exception_handler(_quiet)
            self._thread = Thread(
                target=_serve, args=(self._loop,), name="memplane-nats", daemon=True
            )
            self._thread.start()
        return self._loop

    async def _connected(self, work: Callable[[Connection], Coroutine[Any, Any, Given]]) -> Given:
        if self._connection is None or self._connection.is_over:
            self._connection = await self._made()
        return await work(self._connection)

    async def _made(self) -> Connection:
        """Connect to the first server that answers, beginning behind the one that was lost."""
        servers, faults = self._address.servers, []
        for _ in servers:
            server = servers[self._next % len(servers)]
            self._next += 1
            try:
                made = await self._to(server)
            except (nats_errors.Error, OSError, TimeoutError) as error:
                faults.append(f"{server}: {str(error) or type(error).__name__}")
                continue
            try:
                await self._prepare(made)
            except SharedLogError as error:
                await made.close()
                faults.append(str(error))
                continue
            except BaseException:
                await made.close()
                raise
            return made
        raise SharedLogError(f"the shared log is not reached: {'; '.join(faults)}")

    async def _to(self, server: str) -> Connection:
        client = nats_client.Client()
        made = Connection(client, server)
        address = self._address
        who: dict[str, Any] = {}
        if address.password:
            who = {"user": address.user, "password": address.password}
        elif address.user:
            who = {"token": address.user}
        try:
            await asyncio.wait_for(
                client.connect(
                    f"{address.scheme}://{server}",
                    name="memplane",
                    allow_reconnect=False,
                    connect_timeout=CONNECT_S,
                    error_cb=made.failed,
                    disconnected_cb=made.gone,
                    closed_cb=made.gone,
                    **who,
                ),
                CONNECT_S + 1,
            )
        except BaseException:
            await made.close()
            raise
        made.is_made = True
        return made

    async def _ended(self) -> None:
        made, self._connection = self._connection, None
        if made is not None:
            await made.close()


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What fails in a task of the library's own; the call that waits for it fails as well."""


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancelled())
    finally:
        loop.close()


async def _cancelled() -> None:
    """Cancel what is still under way in this loop, and wait for that."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for one in left:
        one.cancel()
    await asyncio.gather(*left, return_exceptions=True)
