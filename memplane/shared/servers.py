"""The shared log on servers of others: PostgreSQL, NATS JetStream.

**PostgreSQL**: a schema of a database. Needs the extra `postgres`. The order of entries is the
order of commits: a publisher holds the row of the log's head until its transaction ends, and counts
positions there. A sequence would leave gaps, and show later numbers before earlier ones. `NOTIFY`
only wakes who waits. The address may hold a password, so no message repeats it.

**NATS JetStream**: one stream, and two buckets beside it. Needs the extra `nats`. An entry is a
message of the stream `memplane-NAME`, its position the message's sequence, its time the server's.
Entries that are published together are an atomic batch (ADR-50 of NATS, from server 2.12). A
message cannot be changed, so what is put in the place of an erased one stands in the bucket
`memplane-NAME-stones` under its sequence; `memplane-NAME-notes` has the machines' notes.

What is asked of one server only is asked of the stream's leader. Entries are read from any replica
(direct get in batches, ADR-31), which may lag: where one has less than is known to be there, the
leader is asked; and that there is nothing is believed only of a leader that most replicas follow.

nats-py is made for asyncio, so a loop of its own runs in one thread (`Connection`); each request is
bounded in seconds. A connection that failed is let go of, and the next call makes another, to the
next of the servers: that is decided here and not by the library, whose own way of coming back may
deliver a request after its caller gave it up.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from threading import BoundedSemaphore, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote
from uuid import uuid4
from weakref import WeakSet

from memplane.errors import (
    ConfigurationError,
    ConflictError,
    FormatError,
    InputError,
    MissingExtraError,
    SharedLogError,
)
from memplane.lazy import NamedTuple, late
from memplane.ports import SharedEntry
from memplane.shared.apply import STONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg
    from nats import errors as nats_errors
    from nats.aio import client as nats_client
    from nats.aio.msg import Msg
else:
    psycopg = late("psycopg")
    nats_errors = late("nats.errors")
    nats_client = late("nats.aio.client")


Given = TypeVar("Given")

VERSION: Final = 1  # of the tables
CONNECTIONS_MAX: Final = 8  # of one process to one database, but for those that wait
_CONNECT_S: Final = 3
_STATEMENT_MS: Final = 5_000
_LOCK: Final = 7_305_111  # held while tables are made: two machines may begin at once
_NOW: Final = """to_char(clock_timestamp() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
# Positions for one publisher, and when it took them: what it holds is locked until it commits.
_TAKE: Final = (
    "UPDATE memplane.heads SET position = position + %s "  # noqa: S608 - of constants
    "WHERE name = %s AND position = coalesce(%s, position) RETURNING position, " + _NOW
)
_TABLES: Final = """
CREATE SCHEMA IF NOT EXISTS memplane;
CREATE TABLE IF NOT EXISTS memplane.format (version integer NOT NULL);
CREATE TABLE IF NOT EXISTS memplane.heads (name text PRIMARY KEY, position bigint NOT NULL);
CREATE TABLE IF NOT EXISTS memplane.entries (name text, position bigint, at text NOT NULL,
  payload bytea NOT NULL, PRIMARY KEY (name, position));
CREATE TABLE IF NOT EXISTS memplane.notes (name text, device text, note bytea NOT NULL,
  PRIMARY KEY (name, device))
"""
# What may not be off where an acknowledged entry is to survive a power cut.
_SETTINGS: Final = ("fsync", "full_page_writes", "synchronous_commit")


class PostgresSharedLog:
    """The port `SharedLog` over a database; `address` as libpq takes it, `postgresql://host/db`.

    Any number of logs may lie in one database, by `name`.
    """

    def __init__(self, address: str, name: str) -> None:
        """Check that the driver is there; raises MissingExtraError. Connects at the first need."""
        try:
            psycopg.connect  # noqa: B018 - an extra, imported here
        except ImportError:
            raise MissingExtraError("a shared log in PostgreSQL", "postgres") from None
        self._address, self._name = address, name
        self._pool = _pool(address)

    def publish(
        self, entries: Sequence[tuple[str, bytes]], *, expected: int | None = None
    ) -> list[int]:
        """See `memplane.ports.SharedLog.publish`."""

        def work(connection: psycopg.Connection[Any]) -> list[int]:
            with connection.transaction(), connection.cursor() as cursor:
                head, now = self._taken(cursor, len(entries), expected)
                places = list(range(head - len(entries) + 1, head + 1))
                cursor.executemany(
                    "INSERT INTO memplane.entries VALUES (%s, %s, %s, %s)",
                    [
                        (self._name, place, now, payload)
                        for place, (_, payload) in zip(places, entries, strict=True)
                    ],
                )
                cursor.execute("SELECT pg_notify(%s, '')", (self._channel,))
            return places

        return self._do(work)

    def read(self, after: int, limit: int) -> list[SharedEntry]:
        """See `memplane.ports.SharedLog.read`."""

        def work(connection: psycopg.Connection[Any]) -> list[SharedEntry]:
            rows = connection.execute(
                "SELECT position, at, payload FROM memplane.entries "
                "WHERE name = %s AND position > %s ORDER BY position LIMIT %s",
                (self._name, after, limit),
                binary=True,
            ).fetchall()
            return [SharedEntry(place, at, bytes(payload)) for place, at, payload in rows]

        return self._do(work)

    def wait(self, after: int, seconds: float) -> bool:
        """See `memplane.ports.SharedLog.wait`."""

        def work(connection: psycopg.Connection[Any]) -> bool:
            connection.execute(f'LISTEN "{self._channel}"')
            deadline = time.monotonic() + seconds
            while not (found := self._head(connection) > after):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                for _ in connection.notifies(timeout=left, stop_after=1):
                    continue
            connection.execute(f'UNLISTEN "{self._channel}"')
            return found

        return self._do(work, shared=False)

    def erase(self, stones: Mapping[int, bytes]) -> None:
        """See `memplane.ports.SharedLog.erase`.

        Old versions of the rows lie in the files until `VACUUM FULL memplane.entries`, and in the
        write-ahead log until that is recycled.
        """

        def work(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "UPDATE memplane.entries SET payload = %s WHERE name = %s AND position = %s "
                    "AND substr(payload, 1, %s) <> %s",
                    [
                        (payload, self._name, place, len(STONE), STONE)
                        for place, payload in stones.items()
                    ],
                )

        if stones:
            self._do(work)

    def head(self) -> int:
        """See `memplane.ports.SharedLog.head`."""
        return self._do(self._head)

    def put_note(self, device: str, note: bytes) -> None:
        """See `memplane.ports.SharedLog.put_note`."""
        self._do(
            lambda connection: connection.execute(
                "INSERT INTO memplane.notes VALUES (%s, %s, %s) "
                "ON CONFLICT (name, device) DO UPDATE SET note = excluded.note",
                (self._name, device, note),
            )
        )

    def notes(self) -> dict[str, bytes]:
        """See `memplane.ports.SharedLog.notes`."""

        def work(connection: psycopg.Connection[Any]) -> dict[str, bytes]:
            rows = connection.execute(
                "SELECT device, note FROM memplane.notes WHERE name = %s ORDER BY device",
                (self._name,),
            )
            return {device: bytes(note) for device, note in rows.fetchall()}

        return self._do(work)

    def faults(self) -> list[str]:
        """See `memplane.ports.SharedLog.faults`."""

        def work(connection: psycopg.Connection[Any]) -> list[str]:
            found = []
            for name in _SETTINGS:
                [said] = connection.execute(f"SHOW {name}").fetchone() or ("",)
                if said == "off":
                    found.append(
                        f"{name} is off: a power cut may lose what was acknowledged; set it on"
                    )
            return found

        return self._do(work)

    def close(self) -> None:
        """See `memplane.ports.SharedLog.close`."""
        self._pool.users.discard(self)
        if not self._pool.users:
            self._pool.rest()

    def _taken(
        self, cursor: psycopg.Cursor[Any], count: int, expected: int | None
    ) -> tuple[int, str]:
        """Move the head on by so many positions, which are this publisher's; where it is, and when.

        The row stays locked to the end of the transaction. Raises ConflictError.
        """
        for _ in range(2):
            cursor.execute(_TAKE, (count, self._name, expected))
            row = cursor.fetchone()
            if row is not None:
                return int(row[0]), str(row[1])
            cursor.execute(
                "INSERT INTO memplane.heads VALUES (%s, 0) ON CONFLICT DO NOTHING", (self._name,)
            )
        head = self._head(cursor.connection)
        raise ConflictError(
            f"the shared log ends at position {head}, expected {expected}", id="", seq=head
        )

    @property
    def _channel(self) -> str:
        return f"memplane_{self._name}"

    def _head(self, connection: psycopg.Connection[Any]) -> int:
        row = connection.execute(
            "SELECT position FROM memplane.heads WHERE name = %s", (self._name,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _do(
        self, work: Callable[[psycopg.Connection[Any]], Given], *, shared: bool = True
    ) -> Given:
        """The work's answer; done again where a connection of before had broken meanwhile.

        What was published and not acknowledged is published a second time, and counts once. Not
        `shared`: on a connection beside the bounded ones, which is closed afterwards.
        """
        self._pool.users.add(self)
        try:
            if not shared:
                with self._pool.beside() as connection:
                    return work(connection)
            with self._pool.connection() as (connection, kept):
                try:
                    return work(connection)
                except psycopg.Error:
                    connection.close()
                    if not kept:
                        raise
            # Those that were kept broke together, as a rule, when the server went.
            self._pool.rest()
            with self._pool.connection() as (connection, _):
                return work(connection)
        except psycopg.Error as error:
            raise _error(error) from error


class _Pool:
    """The connections of this process to one database, for all of its shared logs.

    A node of many planes would take all that a server has, 100 as it comes, if each plane had its
    own. At most CONNECTIONS_MAX are in use at once; who finds none waits for one.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.users: WeakSet[PostgresSharedLog] = WeakSet()  # with the last one all are closed
        self._idle: list[psycopg.Connection[Any]] = []
        self._free = BoundedSemaphore(CONNECTIONS_MAX)

    @contextmanager
    def connection(self) -> Iterator[tuple[psycopg.Connection[Any], bool]]:
        """A connection for one piece of work, and whether it was made before."""
        if not self._free.acquire(timeout=_STATEMENT_MS / 1000):
            raise SharedLogError(
                f"PostgreSQL: all {CONNECTIONS_MAX} connections of this process are in use",
                unsure=False,
            )
        try:
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = self._connected(), False
            try:
                yield connection, kept
            finally:
                # What was broken off may be in the middle of an answer.
                if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    connection.close()
        finally:
            self._free.release()

    @contextmanager
    def beside(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the caller's own, for what waits."""
        with self._connected() as connection:
            yield connection

    def rest(self) -> None:
        """Close what is idle; the next work makes a connection."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _connected(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            options=f"-c statement_timeout={_STATEMENT_MS} -c lock_timeout={_STATEMENT_MS}",
            tcp_user_timeout=_STATEMENT_MS,
            application_name="memplane",
        )
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


_POOLS: Final[dict[tuple[str, int], _Pool]] = {}
_MAKING: Final = Lock()


def _pool(address: str) -> _Pool:
    """That of this process: none of a parent is used, whose connections are the parent's."""
    with _MAKING:
        return _POOLS.setdefault((address, os.getpid()), _Pool(address))


def _prepare(connection: psycopg.Connection[Any]) -> None:
    """Make the tables where they are not there; FormatError for those of a newer memplane."""
    there = connection.execute("SELECT to_regclass('memplane.format')").fetchone()
    if there is None or there[0] is None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO memplane.format SELECT %s WHERE NOT EXISTS "
                "(SELECT 1 FROM memplane.format)",
                (VERSION,),
            )
    row = connection.execute("SELECT max(version) FROM memplane.format").fetchone()
    version = VERSION if row is None or row[0] is None else int(row[0])
    if version > VERSION:
        raise FormatError(
            f"schema memplane: its tables have version {version}, this memplane knows up to "
            f"{VERSION}: upgrade memplane"
        )


def _error(error: psycopg.Error) -> SharedLogError:
    """What a driver's error comes to, in one line."""
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    return SharedLogError(f"PostgreSQL: {said:.300}", unsure=True)


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


REPLICAS: Final = 3
# Ids that were published within so long are not stored again; readers know repeats for ever.
DEDUPE_S: Final = 120
BATCH_MAX: Final = 1_000  # messages of an atomic batch: the server's own limit
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MESSAGE_ID: Final = re.compile(r"[!-~]{1,256}")
_HEADERS_BYTES: Final = 1_024  # what goes with a payload, at most
_READ_BYTES: Final = 8 * 1024 * 1024  # of one answer
_POLL_S: Final = 2.0  # while waiting, should a wake-up be lost
_AGAIN_S: Final = 0.1
_HEARD_NS: Final = 3_000_000_000  # a replica that the leader has heard of lately; a beat is 1 s
_SYNC_UNKNOWN: Final = (
    "whether the servers sync each write to disk (`sync_interval: always` in their block "
    "`jetstream`) cannot be checked from here: it stands in their files, and this account may not "
    "ask for it; without it a power cut on several servers at once loses what they acknowledged in "
    "the two minutes before"
)
_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_HEX: Final = re.compile(r"=([0-9A-F]{2})")
# `err_code`s of the server.
_WRONG_SEQUENCE: Final = 10071
_NO_STREAM: Final = 10059
_NAME_IN_USE: Final = 10058
_ONE_SERVER: Final = 10074
_NO_MESSAGE: Final = 10037
_TOO_MANY: Final = 10199
_REPEATED_ID: Final = 10201
_IN_FLIGHT: Final = (10158, 10210, 10211)


class NatsSharedLog:
    """The port `SharedLog` over a stream, which is made where it is not there.

    `address`: `nats://[user:password@]host:port[,host:port…]`; name all servers of a cluster, only
    these are tried. `name` of the log: letters, digits, `_` and `-`, at most 64. Connected at the
    first call. Raises ConfigurationError, MissingExtraError.
    """

    def __init__(self, address: str, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"the name of the shared log: expected 1 to 64 letters, digits, _ and -, found "
                f"{name!r:.80}"
            )
        self._stream = f"memplane-{name}"
        self._stones, self._notes = f"{self._stream}-stones", f"{self._stream}-notes"
        self._known = 0  # a position that an entry was seen at
        self._connector = Connector(address, self._prepare)

    # --- the port ---

    def publish(
        self, entries: Sequence[tuple[str, bytes]], *, expected: int | None = None
    ) -> list[int]:
        """See `memplane.ports.SharedLog.publish`.

        Raises InputError for an entry larger than the server takes (its setting `max_payload`), or
        for more entries at once than it takes (1,000).
        """
        if not entries:
            return []
        if len(entries) > BATCH_MAX:
            raise _too_many(len(entries))
        return self._connector.run(
            lambda line: self._published(line, entries, expected), 2 * REQUEST_S
        )

    def read(self, after: int, limit: int) -> list[SharedEntry]:
        """See `memplane.ports.SharedLog.read`."""
        if limit < 1:
            return []
        return self._connector.run(
            lambda line: self._read(line, max(after, 0), limit), 4 * REQUEST_S
        )

    def wait(self, after: int, seconds: float) -> bool:
        """See `memplane.ports.SharedLog.wait`."""
        return self._connector.run(
            lambda line: self._waited(line, after, seconds), seconds + 2 * REQUEST_S
        )

    def erase(self, stones: Mapping[int, bytes]) -> None:
        """See `memplane.ports.SharedLog.erase`. Each entry takes a request or two."""
        if stones:
            self._connector.run(
                lambda line: self._erased(line, stones), 2 * REQUEST_S + 0.5 * len(stones)
            )

    def head(self) -> int:
        """See `memplane.ports.SharedLog.head`."""
        return self._connector.run(self._head, REQUEST_S)

    def put_note(self, device: str, note: bytes) -> None:
        """See `memplane.ports.SharedLog.put_note`."""
        self._connector.run(lambda line: self._noted(line, device, note), 3 * REQUEST_S)

    def notes(self) -> dict[str, bytes]:
        """See `memplane.ports.SharedLog.notes`."""
        return self._connector.run(self._all_notes, 3 * REQUEST_S)

    def faults(self) -> list[str]:
        """See `memplane.ports.SharedLog.faults`."""
        return self._connector.run(self._faults, 4 * REQUEST_S)

    def close(self) -> None:
        """See `memplane.ports.SharedLog.close`."""
        self._connector.close()

    # --- the streams ---

    async def _prepare(self, line: Connection) -> None:
        config = {
            "deny_purge": True,  # else one command empties the log
            "allow_atomic": True,
            "allow_direct": True,
            "duplicate_window": DEDUPE_S * 1_000_000_000,
            # What was stored, and where: wakes those who wait, without its text.
            "republish": {
                "src": self._stream,
                "dest": f"{self._stream}.stored",
                "headers_only": True,
            },
        }
        found = await self._made(line, self._stream, self._stream, config)
        if not found["config"].get("allow_atomic"):
            raise ConfigurationError(
                f"{line.server}: stream {self._stream} has no allow_atomic: entries that belong "
                "together would be stored singly; nats-server 2.12 or newer is needed, and "
                f"`nats stream edit {self._stream} --allow-batch` for a stream of an older one"
            )

    async def _bucket(self, line: Connection, name: str) -> None:
        """Make the bucket of values, one a key, where this connection has not seen it yet."""
        config = {"max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "deny_delete": True}
        await self._made(line, f"KV_{name}", f"$KV.{name}.>", config)

    async def _made(
        self, line: Connection, stream: str, subject: str, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the server says of a stream, which is made where it is not there."""
        if stream in line.streams:
            return line.streams[stream]
        try:
            found = await line.api(f"STREAM.INFO.{stream}", seconds=CONNECT_S)
        except RefusedError as error:
            if error.code != _NO_STREAM:
                raise
            found = await self._create(line, stream, subject, more)
        line.streams[stream] = found
        return found

    async def _create(
        self, line: Connection, stream: str, subject: str, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        config = {
            "name": stream,
            "subjects": [subject],
            "storage": "file",
            "retention": "limits",
            "discard": "new",  # a full disk refuses what is new, and drops nothing
            **dict.fromkeys(("max_msgs", "max_bytes", "max_msg_size", "max_consumers"), -1),
            "max_age": 0,
            "num_replicas": REPLICAS,
            **more,
        }
        try:
            return await line.api(f"STREAM.CREATE.{stream}", config)
        except RefusedError as error:
            if error.code == _NAME_IN_USE:  # by another machine, meanwhile
                return await line.api(f"STREAM.INFO.{stream}")
            if error.code != _ONE_SERVER:
                raise
        return await line.api(f"STREAM.CREATE.{stream}", {**config, "num_replicas": 1})

    async def _info(self, line: Connection) -> dict[str, Any]:
        return await line.api(f"STREAM.INFO.{self._stream}")

    async def _head(self, line: Connection) -> int:
        return int((await self._info(line))["state"]["last_seq"])

    # --- publishing ---

    async def _published(
        self, line: Connection, entries: Sequence[tuple[str, bytes]], expected: int | None
    ) -> list[int]:
        largest = max(len(payload) for _, payload in entries)
        if largest + _HEADERS_BYTES > line.client.max_payload:
            raise InputError(
                f"an entry of {largest} bytes is larger than {line.server} takes: its setting "
                f"max_payload is {line.client.max_payload}; nothing was published; set it to 8MB"
            )
        ids = [_message_id(id_) for id_, _ in entries]
        payloads = [payload for _, payload in entries]
        give_up = asyncio.get_running_loop().time() + REQUEST_S
        while True:
            try:
                last = await self._put(line, ids, payloads, expected)
                self._known = max(self._known, last)
                return list(range(last - len(entries) + 1, last + 1))
            except RefusedError as error:
                if error.code == _WRONG_SEQUENCE:
                    raise _conflict(error, expected) from error
                if error.code == _TOO_MANY:
                    raise _too_many(len(entries)) from error
                if error.code == _REPEATED_ID:
                    # Some were stored before, and the server does not say which: all are stored
                    # now, those a second time, which gives no line.
                    again = f"/{uuid4().hex}"
                    ids = [_message_id(id_ + again) for id_, _ in entries]
                    continue
                if error.code not in _IN_FLIGHT or asyncio.get_running_loop().time() > give_up:
                    raise
            except NobodyError:
                # No leader just now, so that nothing was stored.
                if asyncio.get_running_loop().time() > give_up:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _put(
        self,
        line: Connection,
        ids: Sequence[str],
        payloads: Sequence[bytes],
        expected: int | None,
    ) -> int:
        """Store one message, or an atomic batch; the position of the last."""
        batch, last = uuid4().hex, len(payloads)
        for number, (id_, payload) in enumerate(zip(ids, payloads, strict=True), 1):
            headers = {"Nats-Msg-Id": id_}
            if expected is not None and number == 1:
                headers["Nats-Expected-Last-Sequence"] = str(expected)
            if last > 1:
                headers |= {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            if number < last:
                await self._sent(line, payload, headers)
                continue
            if last > 1:
                headers["Nats-Batch-Commit"] = "1"
            answer = await line.said(self._stream, payload, headers)
            return int(answer["seq"])
        raise AssertionError

    async def _sent(self, line: Connection, payload: bytes, headers: dict[str, str]) -> None:
        """Send a part of a batch; what is wrong with it is the answer to the last part."""
        work = line.client.publish(self._stream, payload, headers=headers)
        try:
            await line.first(work, REQUEST_S)
        except Exception as error:
            await line.close()
            raise SharedLogError(f"{line.server}: {_words(error)}") from error

    # --- reading ---

    async def _read(self, line: Connection, after: int, limit: int) -> list[SharedEntry]:
        found: list[SharedEntry] = []
        at = after
        while len(found) < limit:
            got, more = await self._stored(line, at + 1, limit - len(found))
            if not got:
                break
            found += await self._with_stones(line, at, got)
            at = got[-1].position
            if not more:
                break
        if len(found) < limit and (not found or at < self._known):
            found += await self._of_leader(line, at, limit - len(found), is_empty=not found)
        found = found[:limit]
        if found:
            self._known = max(self._known, found[-1].position)
        return found

    async def _stored(
        self, line: Connection, first: int, count: int
    ) -> tuple[list[SharedEntry], bool]:
        """Messages of one replica from a sequence on, and whether it has more behind them."""
        asked = json.dumps({"seq": first, "batch": count, "max_bytes": _READ_BYTES}).encode()
        got: list[SharedEntry] = []
        ended: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()

        async def took(message: Msg) -> None:
            headers = message.headers or {}
            if "Nats-Sequence" in headers:
                at = _time(headers["Nats-Time-Stamp"])
                got.append(SharedEntry(int(headers["Nats-Sequence"]), at, message.data))
            elif not ended.done():
                ended.set_result(message)

        async def asking() -> Msg:
            inbox = line.client.new_inbox()
            answers = await line.client.subscribe(inbox, cb=took)
            try:
                await line.client.publish(f"$JS.API.DIRECT.GET.{self._stream}", asked, reply=inbox)
                return await ended
            finally:
                with suppress(Exception):
                    await answers.unsubscribe()

        try:
            end = (await line.first(asking(), REQUEST_S)).headers or {}
        except Exception as error:
            await line.close()
            raise SharedLogError(f"{line.server}: {_words(error)}") from error
        status = end.get("Status", "")
        if status not in ("204", "404", "503"):
            raise SharedLogError(
                f"{line.server}: {status} {end.get('Description', '')}: expected entries of "
                f"{self._stream}"
            )
        return got, int(end.get("Nats-Num-Pending", "0")) > 0

    async def _with_stones(
        self, line: Connection, after: int, got: Sequence[SharedEntry]
    ) -> list[SharedEntry]:
        """The messages, and what stands in the gaps between them."""
        there = {one.position: one for one in got}
        gaps = [seq for seq in range(after + 1, got[-1].position) if seq not in there]
        if gaps:
            there |= await self._single(line, gaps)
        return [there[seq] for seq in sorted(there)]

    async def _of_leader(
        self, line: Connection, after: int, limit: int, *, is_empty: bool
    ) -> list[SharedEntry]:
        """Entries that the replica which was asked did not have; none where there are none.

        Raises SharedLogError where that cannot be believed, because the leader may be cut off.
        """
        info = await self._info(line)
        last = int(info["state"]["last_seq"])
        if last <= after:
            if (is_empty or last < self._known) and not _is_followed(info):
                raise SharedLogError(
                    f"{line.server}: stream {self._stream} ends at {last} by a leader that most "
                    "replicas do not follow just now; try again"
                )
            self._known = last
            return []
        found: list[SharedEntry] = []
        for begin in range(after + 1, last + 1, limit):
            some = await self._single(line, range(begin, min(last, begin + limit - 1) + 1))
            found += [some[seq] for seq in sorted(some)]
            if len(found) >= limit:
                break
        return found

    async def _single(self, line: Connection, positions: Sequence[int]) -> dict[int, SharedEntry]:
        """Messages of the leader, and stones of those that were erased."""
        stones = await self._all_stones(line, positions)
        left = [seq for seq in positions if seq not in stones]
        get = partial(self._one, line, f"STREAM.MSG.GET.{self._stream}")
        found = await line.each(lambda seq: get({"seq": seq}), left)
        there = {seq: one._replace(position=seq) for seq, one in found.items() if one is not None}
        return stones | there

    async def _one(
        self, line: Connection, subject: str, which: Mapping[str, Any]
    ) -> SharedEntry | None:
        try:
            message = (await line.api(subject, which))["message"]
        except RefusedError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        payload = b64decode(message.get("data") or "")
        return SharedEntry(int(message["seq"]), _time(message["time"]), payload)

    # --- erasing ---

    async def _all_stones(
        self, line: Connection, positions: Sequence[int]
    ) -> dict[int, SharedEntry]:
        await self._bucket(line, self._stones)
        get = partial(self._one, line, f"STREAM.MSG.GET.KV_{self._stones}")
        found = await line.each(
            lambda seq: get({"last_by_subj": f"$KV.{self._stones}.{seq}"}), positions
        )
        return {seq: one._replace(position=seq) for seq, one in found.items() if one is not None}

    async def _erased(self, line: Connection, stones: Mapping[int, bytes]) -> None:
        """Each stone is stored before its message is deleted, so that no reader meets a gap."""
        await self._bucket(line, self._stones)

        async def put(seq: int) -> None:
            subject, payload = f"$KV.{self._stones}.{seq}", stones[seq]
            first = {"Nats-Expected-Last-Subject-Sequence": "0"}
            try:
                await line.said(subject, payload, first)
            except RefusedError as error:
                if error.code != _WRONG_SEQUENCE:
                    raise
                # A stone without its message stays. Beside a message it is of a purge that was
                # cut short, or of an entry that the stream has lost since.
                get = f"STREAM.MSG.GET.{self._stream}"
                if await self._one(line, get, {"seq": seq}) is not None:
                    await line.said(subject, payload)

        await line.each(put, list(stones))
        for seq in stones:
            await self._deleted(line, seq)

    async def _deleted(self, line: Connection, seq: int) -> None:
        """Erase a message from the stream's files; nothing where it was erased before."""
        try:
            await line.api(f"STREAM.MSG.DELETE.{self._stream}", {"seq": seq, "no_erase": False})
        except RefusedError:
            # Its code for a message that is not there depends on where in the stream that was.
            get = f"STREAM.MSG.GET.{self._stream}"
            if await self._one(line, get, {"seq": seq}) is not None:
                raise

    # --- waiting ---

    async def _waited(self, line: Connection, after: int, seconds: float) -> bool:
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        woken = await self._wakened(line)
        while True:
            woken.clear()
            if max(line.stored, await self._head(line)) > after:
                return True
            left = until - clock()
            if left <= 0:
                return False
            with suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(woken.wait(), min(left, _POLL_S))
            if line.stored > after:
                return True

    async def _wakened(self, line: Connection) -> asyncio.Event:
        """The event that is set when something was stored; listened for from the first wait on."""
        if line.woken is not None:
            return line.woken
        woken = line.woken = asyncio.Event()

        async def took(message: Msg) -> None:
            with suppress(KeyError, ValueError, TypeError):
                line.stored = max(line.stored, int((message.headers or {})["Nats-Sequence"]))
            woken.set()

        try:
            await line.first(line.client.subscribe(f"{self._stream}.stored", cb=took), REQUEST_S)
        except Exception as error:
            await line.close()
            raise SharedLogError(f"{line.server}: {_words(error)}") from error
        return woken

    # --- notes ---

    async def _noted(self, line: Connection, device: str, note: bytes) -> None:
        await self._bucket(line, self._notes)
        await line.said(f"$KV.{self._notes}.{_key(device)}", note)

    async def _all_notes(self, line: Connection) -> dict[str, bytes]:
        await self._bucket(line, self._notes)
        stream, prefix = f"KV_{self._notes}", f"$KV.{self._notes}."
        info = await line.api(f"STREAM.INFO.{stream}", {"subjects_filter": f"{prefix}>"})
        subjects = sorted(info["state"].get("subjects") or {})
        get = partial(self._one, line, f"STREAM.MSG.GET.{stream}")
        found = await line.each(
            lambda place: get({"last_by_subj": subjects[place]}), range(len(subjects))
        )
        return {
            _device(subjects[place].removeprefix(prefix)): one.payload
            for place, one in found.items()
            if one is not None
        }

    # --- settings ---

    async def _faults(self, line: Connection) -> list[str]:
        await self._bucket(line, self._stones)
        found = []
        for stream in (self._stream, f"KV_{self._stones}"):
            info = await line.api(f"STREAM.INFO.{stream}")
            found += [f"stream {stream}: {one}" for one in _stream_faults(info)]
        if not (await self._info(line))["config"].get("deny_purge"):
            found.append(
                f"stream {self._stream}: deny_purge is off: one `nats stream purge` empties it"
            )
        return [*found, *await self._sync_faults(line)]

    async def _sync_faults(self, line: Connection) -> list[str]:
        """Whether servers sync before they acknowledge; most accounts may not see it."""
        answers = await _settings(line)
        if not answers:
            return [_SYNC_UNKNOWN]
        return [
            f"server {name}: sync_interval is not `always`: a power cut on several servers at "
            "once loses what they acknowledged meanwhile"
            for name, config in sorted(answers.items())
            if not config.get("sync_always")
        ]


async def _settings(line: Connection) -> dict[str, dict[str, Any]]:
    """The JetStream settings of each server that answers; none where an account may not ask."""
    found: dict[str, dict[str, Any]] = {}

    async def took(message: Msg) -> None:
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            said = json.loads(message.data)
            found[str(said["server"]["name"])] = dict(said["data"]["config"])

    inbox = line.client.new_inbox()
    answers = await line.client.subscribe(inbox, cb=took)
    try:
        await line.client.publish("$SYS.REQ.SERVER.PING.JSZ", b"", reply=inbox)
        await asyncio.sleep(1.0)
    finally:
        await answers.unsubscribe()
    return found


def _stream_faults(info: Mapping[str, Any]) -> Iterable[str]:
    config = info["config"]
    if config["num_replicas"] < REPLICAS:
        yield (
            f"{config['num_replicas']} of {REPLICAS} replicas: what a server acknowledged is lost "
            "with its disk; three servers in a cluster are needed, then "
            f"`nats stream edit {config['name']} --replicas 3`"
        )
    if config["storage"] != "file":
        yield f"storage {config['storage']}: it is gone when the servers end"
    if config["retention"] != "limits":
        yield f"retention {config['retention']}: entries go when somebody has read them"
    for limit in ("max_age", "max_msgs", "max_bytes"):
        if config.get(limit, -1) > 0:
            what = "is refused" if config["discard"] == "new" else "pushes out the oldest"
            yield f"{limit} is {config[limit]}: what comes behind it {what}"
    if config.get("persist_mode") == "async":
        yield "persist_mode async: it acknowledges what it has not written"
    if config.get("no_ack"):
        yield "no_ack: it acknowledges nothing"
    for one in (info.get("cluster") or {}).get("replicas") or ():
        if one.get("offline") or not one.get("current"):
            yield f"replica {one.get('name')} is away or behind"


def _is_followed(info: Mapping[str, Any]) -> bool:
    """Whether the leader heard of most replicas lately; a server alone needs nobody."""
    others = (info.get("cluster") or {}).get("replicas") or ()
    heard = [one for one in others if not one.get("offline") and one.get("active", 0) < _HEARD_NS]
    return (len(heard) + 1) * 2 > len(others) + 1


def _too_many(count: int) -> InputError:
    return InputError(
        f"{count} entries at once, NATS takes {BATCH_MAX} in one step (`max_batch_size` of its "
        "limits); nothing was published; record fewer at once"
    )


def _conflict(error: RefusedError, expected: int | None) -> ConflictError:
    numbers = re.findall(r"sequence: ([0-9]+)", str(error))
    seq = int(numbers[0]) if numbers else 0
    return ConflictError(
        f"the shared log ends at position {seq}, expected {expected}", id="", seq=seq
    )


def _words(error: Exception) -> str:
    return str(error) or f"no answer within {REQUEST_S:g} s"


def _message_id(id_: str) -> str:
    """The id as it may stand in a header."""
    return id_ if _MESSAGE_ID.fullmatch(id_) else f"sha256-{sha256(id_.encode()).hexdigest()}"


def _time(said: str) -> str:
    """`2026-11-26T07:40:39.93245129Z` with six decimals, cut."""
    seconds, _, decimals = said.removesuffix("Z").partition(".")
    return f"{seconds}.{decimals[:6]:0<6}Z"


def _key(device: str) -> str:
    """A name as a key of a bucket."""
    return "".join(chr(one) if one in _SAFE else f"={one:02X}" for one in device.encode())


def _device(key: str) -> str:
    plain = _HEX.sub(lambda found: chr(int(found[1], 16)), key)
    return plain.encode("latin-1", "replace").decode("utf-8", "replace")
