"""`aopen`: a plane for programs with an event loop, its threads, and group commit.

    async with memplane.aopen("notes") as plane:
        await plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
        print(await plane.pack("which database do we use?", budget=2000))

The methods of a plane and of its faces are coroutines with their own parameters:
`reads(Plane.pack)` has those of `Plane.pack`, for editors and type checkers too, and runs on the
plane's thread; `writes` after the writes before it, `aside` on a thread beside, for what may take
seconds. Group commit is one write and one sync for all who wait; each gets its own receipt.

No call of a plane runs on the event loop. A plane has one thread for records and recalls in a
process, whoever uses it, and two that are started for what takes long (embedding, upkeep): sessions
and `AsyncPlane` share a `PlaneRunner`, which lives as long as one of them does. Rows that come
while a write runs go into the next one together.

One thread, because each one that computes is one more that the loop waits for: CPython hands its
lock on every few ms to any of the threads that want it (see `_SwitchInterval`). Reads would not be
faster on more of them, as a plane answers one at a time.

To import numpy keeps that lock for 40 ms, on whatever thread: so it is imported with this module.

Rows of several agents in one write: what `record_as` does for one row, for all that wait.

Each row is judged for its own agent, and each gets its own receipt or error. The values that rows
replace are read before the write, which holds only where the log did not grow in between.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
)

from memplane import wiring
from memplane.context.batches import each
from memplane.context.calls import Receipt
from memplane.context.watched_files import bound_to
from memplane.errors import ConflictError, HomeError, LockError, MemplaneError
from memplane.event import GLOBAL, at_least
from memplane.lazy import NamedTuple
from memplane.observe import correlated, correlation_id, hashed
from memplane.plane import Plane
from memplane.plane.plane import PlaneUpkeep
from memplane.plane.work import PlaneWork
from memplane.providers import Bridged, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.event import Draft, EventFields
    from memplane.observe import Observer
    from memplane.plane.work import OpenedSession
    from memplane.ports import Appended, Embedder
    from memplane.work.episodes import ContextAssembly


Given = ParamSpec("Given")
Made = TypeVar("Made")
Row = dict[str, Any]

_ASIDE: Final = 2
_ROWS_MAX: Final = 256  # of one write


class _Waiting(NamedTuple):
    """A row, and who waits for its receipt. An `AgentRow` is judged for its agent."""

    row: Mapping[str, Any] | AgentRow
    receipt: asyncio.Future[Receipt]
    correlation: str


class GroupCommit:
    """Writes rows of one event loop, all that wait at once."""

    def __init__(self, runner: PlaneRunner) -> None:
        self._runner = runner
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, row: Mapping[str, Any] | AgentRow) -> Receipt:
        """Store one event; returns when it is as safe as the plane's durability says.

        Who is cancelled while he waits does not know whether it was stored; with an id of his own
        he may write the same again. Raises what `Plane.record` does, and for the row of an agent
        what `record_as` does.
        """
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(row, receipt, correlation_id()))
        if self._writing is None or self._writing.done():
            # A task of its own: who cancels one caller cancels no other's write.
            self._writing = asyncio.create_task(self._write())
        return await receipt

    async def settled(self) -> None:
        """Return when nothing waits any more."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        await asyncio.sleep(0)  # whoever is ready to write as well joins
        while self._waiting:
            batch, self._waiting = self._waiting[:_ROWS_MAX], self._waiting[_ROWS_MAX:]
            batch = [one for one in batch if not one.receipt.done()]  # who gave up writes nothing
            if batch:
                await self._write_batch(batch)

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        rows = [one.row for one in batch]
        try:
            answers = await self._runner.writing(partial(write_each, self._runner.plane, rows))
        except asyncio.CancelledError:
            for one in batch:
                one.receipt.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - each of those who wait is to get it
            answers = [error] * len(batch)
        for one, answer in zip(batch, answers, strict=True):
            if one.receipt.done():  # cancelled meanwhile
                continue
            if isinstance(answer, Receipt):
                self._tell(one, answer)
                one.receipt.set_result(answer)
            else:
                one.receipt.set_exception(answer)

    def _tell(self, one: _Waiting, stored: Receipt) -> None:
        """Tell the observer of a record that shared its write, under its caller's own id."""
        observing = self._runner.plane.context.observing
        if observing is not None:
            row = one.row.row if isinstance(one.row, AgentRow) else one.row
            session = row.get("session")
            with correlated(one.correlation or None):
                observing.event(
                    "record", {"seq": stored.seq, "count": 1, "session": hashed(session)}
                )


def _looked_at(task: asyncio.Task[int]) -> None:
    """Who waited may have given up: an error is then nobody's, and no warning."""
    if not task.cancelled():
        task.exception()


class GroupEmbed:
    """Embeds what was recorded, for all who wait at once on one loop."""

    def __init__(self, runner: PlaneRunner) -> None:
        self._runner = runner
        self._running: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def caught_up(self) -> None:
        """Return when all that was recorded before this call has its vectors.

        A run that is under way may have begun before it: the next one is waited for, together.
        Raises what `plane.upkeep.embed` does.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_looked_at)
        await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[int] | None) -> int:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._running, self._next = self._next, None  # who comes now waits for another one
        return await self._runner.aside(self._runner.plane.upkeep.embed)


def write_each(plane: Plane, rows: list[Mapping[str, Any] | AgentRow]) -> list[Receipt | Exception]:
    """Record rows in one write, each with its own receipt or error; those of agents in another."""
    context = plane.context
    found: dict[int, Receipt | Exception] = {}
    own = {at: row for at, row in enumerate(rows) if not isinstance(row, AgentRow)}
    if own:
        done = context.recorder.each(list(own.values()), context.drafting())
        found |= zip(own, (_receipt(plane, one) for one in done), strict=True)
    agents = {at: row for at, row in enumerate(rows) if isinstance(row, AgentRow)}
    if agents:
        found |= zip(agents, record_each_as(context, list(agents.values())), strict=True)
    return [found[at] for at in range(len(rows))]


def _receipt(plane: Plane, answer: Appended | MemplaneError) -> Receipt | Exception:
    if isinstance(answer, MemplaneError):
        return answer
    return Receipt(answer, plane.durability, plane.context.log.line)


class _SwitchInterval:
    """While calls run, a thread that waits for the interpreter's lock gets it within about 1 ms.

    A thread waits for so long before it asks for the lock, and begins to wait again whenever the
    other one gave the lock up for a system call: of 5 ms, as it is else, a loop saw 70 where a
    plane saves its projections.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._running, self._before = 0, 0.0

    def __enter__(self) -> None:
        with self._mutex:
            if not self._running:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SWITCH_SECONDS))
            self._running += 1

    def __exit__(self, *raised: object) -> None:
        with self._mutex:
            self._running -= 1
            # Who set another one meanwhile keeps it.
            if not self._running and abs(sys.getswitchinterval() - _SWITCH_SECONDS) < _MICRO:
                sys.setswitchinterval(self._before)


_SWITCH_SECONDS: Final = 0.001
_MICRO: Final = 1e-6
_SWITCHING: Final = _SwitchInterval()


def called(call: Callable[[], Made]) -> Made:
    """What a call gives; RuntimeError for a StopIteration, which no future can hold."""
    try:
        with _SWITCHING:
            return call()
    except StopIteration as error:
        raise RuntimeError("the call raised StopIteration") from error


class _Call(NamedTuple):
    """What is to be run, and who waits for it on which loop."""

    run: Callable[[], Any]
    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop

    def done(self) -> None:
        """Run it here, and hand over what it gave; who gave up before is passed over."""
        if self.answer.done():
            return
        try:
            given, failed = called(self.run), None
        except BaseException as error:  # noqa: BLE001 - who waits is to get it, whatever it is
            given, failed = None, error
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self.loop.call_soon_threadsafe(self._settle, given, failed)

    def _settle(self, given: Any, failed: BaseException | None) -> None:
        if self.answer.done():
            return
        if failed is None:
            self.answer.set_result(given)
        else:
            self.answer.set_exception(failed)


class PlaneRunner:
    """The threads of one plane. Made by `hold`, given back by `release`."""

    def __init__(self, plane: Plane, *, owned: bool) -> None:
        self.plane, self.owned = plane, owned
        self.users = 0
        self._thread = ThreadPoolExecutor(1, "memplane")
        self._thread.submit(bool).result()  # started here, not on the loop, which would wait for it
        self._aside = ThreadPoolExecutor(_ASIDE, "memplane-aside")
        self._writes: deque[_Call] = deque()
        self._reads: deque[_Call] = deque()
        self._wrote = False
        self._groups: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[GroupCommit, GroupEmbed]
        ] = weakref.WeakKeyDictionary()

    @property
    def commit(self) -> GroupCommit:
        """The group commit of the running loop."""
        return self._group()[0]

    @property
    def embedding(self) -> GroupEmbed:
        """What embeds for the running loop."""
        return self._group()[1]

    def _group(self) -> tuple[GroupCommit, GroupEmbed]:
        loop = asyncio.get_running_loop()
        found = self._groups.get(loop)
        if found is None:
            found = self._groups[loop] = GroupCommit(self), GroupEmbed(self)
        return found

    async def writing(self, call: Callable[[], Made]) -> Made:
        """Run a call that writes, after those before it, and before reads that wait."""
        return await self._queued(self._writes, call)

    async def reading(
        self, call: Callable[Given, Made], *args: Given.args, **named: Given.kwargs
    ) -> Made:
        """Run a call that reads."""
        return await self._queued(self._reads, partial(call, *args, **named))

    async def aside(
        self, call: Callable[Given, Made], *args: Given.args, **named: Given.kwargs
    ) -> Made:
        """Run a call that may take seconds, beside the others."""
        loop = asyncio.get_running_loop()
        try:
            made = loop.run_in_executor(self._aside, called, partial(call, *args, **named))
        except RuntimeError:
            raise self._shut_error() from None
        return await made

    def _queued(self, line: deque[_Call], call: Callable[[], Made]) -> asyncio.Future[Made]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Made] = loop.create_future()
        line.append(_Call(partial(copy_context().run, call), answer, loop))
        try:
            self._thread.submit(self._next)
        except RuntimeError:
            raise self._shut_error() from None
        return answer

    def _next(self) -> None:
        """Run one call of those that wait: a write, but after each write a read if there is one."""
        self._wrote = bool(self._writes) and not (self._wrote and self._reads)
        line = self._writes if self._wrote else self._reads
        line.popleft().done()

    def _shut_error(self) -> HomeError:
        return HomeError(f"{self.plane.home}: this plane was closed meanwhile")

    def shut(self) -> None:
        """End the threads, and close the plane where it was opened here.

        An embedder that is asked at that moment is given up: it may never answer.
        """
        if self.owned and isinstance(self.plane.context.embedder, Bridged):
            self.plane.context.embedder.stop()
        self._thread.shutdown()
        self._aside.shutdown()
        if self.owned:
            self.plane.close()


_LOCK: Final = threading.Lock()
_OF_PLANES: Final[weakref.WeakKeyDictionary[Plane, PlaneRunner]] = weakref.WeakKeyDictionary()
_OF_PATHS: Final[dict[tuple[object, ...], PlaneRunner]] = {}


class PlaneOpening(NamedTuple):
    """Which plane, and how it is opened where `storage` is a folder; None: see `memplane.open`.

    `create`: a folder without a plane becomes one; else HomeError.
    """

    storage: Plane | str | os.PathLike[str] | None
    durability: Literal["sync", "os"] = "sync"
    embedder: Embedder | None = None
    agent: str | None = None
    create: bool = False
    observer: Observer | None = None

    def open(self, path: Path | str) -> Plane:
        make = partial(wiring.init, trusted=False) if self.create else wiring.open_plane
        return make(
            path,
            durability=self.durability,
            embedder=self.embedder,
            agent=self.agent,
            observer=self.observer,
        )


def hold(opening: PlaneOpening) -> PlaneRunner:
    """The runner of a plane, or of the plane in a folder.

    Blocks; call it in a thread. Who holds it gives it back with `release`. One folder is opened
    once, as long as somebody holds it, for the same durability, embedder and agent; `:memory:` is a
    new plane each time.
    """
    storage = opening.storage
    with _LOCK:
        if isinstance(storage, Plane):
            if storage.context.closed:
                raise HomeError(f"{storage.home}: this plane was closed; open it again to use it")
            runner = _OF_PLANES.get(storage)
            if runner is None:
                runner = _OF_PLANES[storage] = PlaneRunner(storage, owned=False)
        elif wiring.in_memory(storage):
            runner = PlaneRunner(opening.open(wiring.MEMORY), owned=True)
        else:
            path = wiring.find_home() if storage is None else Path(storage).expanduser()
            key = (
                os.path.realpath(path),
                opening.durability,
                opening.agent,
                *identity_of(opening.embedder),
                id(opening.observer),
            )
            runner = _OF_PATHS.get(key)
            if runner is None:
                runner = _OF_PATHS[key] = PlaneRunner(opening.open(path), owned=True)
        runner.users += 1
        return runner


async def held(opening: PlaneOpening) -> PlaneRunner:
    """As `hold`, on a thread; for an open plane that somebody holds already, at once."""
    storage = opening.storage
    if isinstance(storage, Plane) and _LOCK.acquire(blocking=False):
        try:
            runner = _OF_PLANES.get(storage)
            if runner is not None and not storage.context.closed:
                runner.users += 1
                return runner
        finally:
            _LOCK.release()
    return await to_the_end(asyncio.to_thread(hold, opening), release)


async def held_in_memory(embedder: Embedder | None) -> PlaneRunner:
    """The runner of a new plane in memory; its only user closes it by releasing it."""

    def made() -> PlaneRunner:
        runner = PlaneRunner(wiring.init(wiring.MEMORY, embedder=embedder), owned=True)
        runner.users = 1
        return runner

    return await asyncio.to_thread(made)


async def release_settled(runner: PlaneRunner, seconds: float) -> bool:
    """Wait for what is being written, so long, and give the runner back.

    Returns whether all was written by then; what was acknowledged is safe in any case. Who is
    cancelled here has given it back all the same.
    """
    try:
        await asyncio.wait_for(runner.commit.settled(), seconds)
    except TimeoutError:
        return False
    finally:
        await _released(runner)
    return True


async def _released(runner: PlaneRunner) -> None:
    """As `release`, on a thread; where others hold it, too, at once."""
    if _LOCK.acquire(blocking=False):
        try:
            if runner.users > 1:
                runner.users -= 1
                return
        finally:
            _LOCK.release()
    await to_the_end(asyncio.to_thread(release, runner))


_GOING_ON: Final[set[asyncio.Task[Any]]] = set()


async def to_the_end(
    work: Coroutine[Any, Any, Made], undo: Callable[[Made], object] | None = None
) -> Made:
    """What `work` gives. Who is cancelled leaves it to its end, and to `undo` on a thread."""
    task = asyncio.create_task(work)
    _GOING_ON.add(task)
    task.add_done_callback(_GOING_ON.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:

        def undone(done: asyncio.Task[Made]) -> None:
            if undo is not None and not done.cancelled() and done.exception() is None:
                threading.Thread(target=undo, args=(done.result(),)).start()

        task.add_done_callback(undone)
        raise


def release(runner: PlaneRunner) -> None:
    """Give a runner back; the last one ends its threads and closes a plane that was opened here."""
    with _LOCK:
        runner.users -= 1
        if runner.users:
            return
        for every in (_OF_PLANES, _OF_PATHS):
            for key, one in list(every.items()):
                if one is runner:
                    del every[key]  # type: ignore[arg-type]
        runner.shut()


Face = TypeVar("Face")


class AsyncFace(Generic[Face]):
    """What calls the methods of `Face` on the threads of a plane."""

    def __init__(
        self, held: Callable[[], PlaneRunner], face: Callable[[PlaneRunner], Face]
    ) -> None:
        self._held, self._face = held, face

    async def run(self, call: Callable[[Face], Made]) -> Made:
        """What `call` gives for the face itself, on a thread: for what has no form of its own.

        `await plane.work.run(lambda work: work.sessions.end("s1"))`.
        """
        runner = self._held()
        return await runner.aside(call, self._face(runner))


def reads(
    method: Callable[Concatenate[Face, Given], Made],
) -> Callable[Concatenate[AsyncFace[Face], Given], Coroutine[Any, Any, Made]]:
    """The method, on one of the threads for reads."""

    @wraps(method)
    async def call(self: AsyncFace[Face], /, *args: Given.args, **named: Given.kwargs) -> Made:
        runner = self._held()
        return await runner.reading(method, self._face(runner), *args, **named)

    return call


def lists(
    method: Callable[Concatenate[Face, Given], Iterator[Made]],
) -> Callable[Concatenate[AsyncFace[Face], Given], Coroutine[Any, Any, list[Made]]]:
    """The method, all that it yields at once."""

    @wraps(method)
    async def call(
        self: AsyncFace[Face], /, *args: Given.args, **named: Given.kwargs
    ) -> list[Made]:
        runner = self._held()

        def all_of() -> list[Made]:
            return list(method(self._face(runner), *args, **named))

        return await runner.reading(all_of)

    return call


def writes(
    method: Callable[Concatenate[Face, Given], Made],
) -> Callable[Concatenate[AsyncFace[Face], Given], Coroutine[Any, Any, Made]]:
    """The method, on the thread for writes."""

    @wraps(method)
    async def call(self: AsyncFace[Face], /, *args: Given.args, **named: Given.kwargs) -> Made:
        runner = self._held()
        return await runner.writing(partial(method, self._face(runner), *args, **named))

    return call


def aside(
    method: Callable[Concatenate[Face, Given], Made],
) -> Callable[Concatenate[AsyncFace[Face], Given], Coroutine[Any, Any, Made]]:
    """The method, on a thread beside those of reads and writes."""

    @wraps(method)
    async def call(self: AsyncFace[Face], /, *args: Given.args, **named: Given.kwargs) -> Made:
        runner = self._held()
        return await runner.aside(method, self._face(runner), *args, **named)

    return call


class AsyncUpkeep(AsyncFace[PlaneUpkeep]):
    """`PlaneUpkeep`, asynchronous; had as `plane.upkeep` of an AsyncPlane."""

    index = aside(PlaneUpkeep.index)
    embed = aside(PlaneUpkeep.embed)
    policy_values = reads(PlaneUpkeep.policy_values)
    check_policies = reads(PlaneUpkeep.check_policies)
    held_files = reads(PlaneUpkeep.held_files)
    audit = aside(PlaneUpkeep.audit)
    purge = aside(PlaneUpkeep.purge)
    due = aside(PlaneUpkeep.due)
    purge_due = aside(PlaneUpkeep.purge_due)
    rebuild = aside(PlaneUpkeep.rebuild)
    verify = aside(PlaneUpkeep.verify)
    differing = aside(PlaneUpkeep.differing)
    export = aside(PlaneUpkeep.export)
    export_tables = aside(PlaneUpkeep.export_tables)
    export_ledger = aside(PlaneUpkeep.export_ledger)
    merge = aside(PlaneUpkeep.merge)
    sync = aside(PlaneUpkeep.sync)


class AsyncWork(AsyncFace[PlaneWork]):
    """`PlaneWork`, asynchronous; had as `plane.work` of an AsyncPlane."""

    spool = writes(PlaneWork.spool)
    confirm = writes(PlaneWork.confirm)
    recalled = reads(PlaneWork.recalled)
    archived = reads(PlaneWork.archived)
    standing = reads(PlaneWork.standing)
    decisions = reads(PlaneWork.decisions)
    files = reads(PlaneWork.files)
    update = writes(PlaneWork.update)
    name_decision = writes(PlaneWork.name_decision)
    undo = writes(PlaneWork.undo)
    forget_many = aside(PlaneWork.forget_many)
    evict = aside(PlaneWork.evict)


_SECONDS: Final = 5.0


class AsyncPlane(AsyncFace[Plane]):
    """A plane, asynchronous. Use it with `async with`, or `await` its `start` and `close`.

    Tasks may share it. Its methods are those of `Plane`, with the same parameters; `events` gives a
    list. `run` is for what has no asynchronous form: `await plane.run(lambda plane: plane.head())`.
    """

    def __init__(
        self,
        storage: Plane | str | os.PathLike[str] | None,
        *,
        durability: Literal["sync", "os"] = "sync",
        embedder: Embedder | None = None,
        agent: str | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._opening = PlaneOpening(storage, durability, embedder, agent, observer=observer)
        self._runner: PlaneRunner | None = None
        super().__init__(lambda: self.held, lambda runner: runner.plane)

    def __repr__(self) -> str:
        storage = self._opening.storage
        where = storage.home if isinstance(storage, Plane) else storage
        state = "" if self._runner is not None else ", not open"
        return f"<AsyncPlane {os.fspath(where or '')!r}{state}>"

    async def start(self) -> Self:
        """Open the plane. Raises what `memplane.open` does."""
        if self._runner is None:
            self._runner = await held(self._opening)
        return self

    async def close(self) -> None:
        """Wait for what is being written, and let go. Again: nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await release_settled(runner, _SECONDS)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def plane(self) -> Plane:
        """The plane itself; raises HomeError before it is open."""
        return self.held.plane

    @property
    def held(self) -> PlaneRunner:
        """Its threads; raises HomeError before it is open."""
        if self._runner is None:
            raise HomeError("this plane is not open; enter it with `async with`")
        return self._runner

    async def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt:
        """Store one event, as `Plane.record` does; others that wait share its write and sync.

        Who is cancelled meanwhile does not know whether it was stored; with an `id` of his own he
        may record the same again.
        """
        row: dict[str, Any] = {"text": text, **fields}
        return await self.held.commit.write(row)

    record_many = writes(Plane.record_many)
    pack = reads(Plane.pack)
    search = reads(Plane.search)
    recall = reads(Plane.recall)
    event = reads(Plane.event)
    events = lists(Plane.events)
    text = reads(Plane.text)
    get = reads(Plane.get)
    keys = reads(Plane.keys)
    history = reads(Plane.history)
    expand = reads(Plane.expand)
    forget = writes(Plane.forget)
    unforget = writes(Plane.unforget)
    pin = writes(Plane.pin)
    unpin = writes(Plane.unpin)
    touch = writes(Plane.touch)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """`Plane.upkeep`, asynchronous."""
        return AsyncUpkeep(lambda: self.held, lambda runner: runner.plane.upkeep)

    @property
    def work(self) -> AsyncWork:
        """`Plane.work`, asynchronous."""
        return AsyncWork(lambda: self.held, lambda runner: runner.plane.work)

    def session(
        self,
        id: str | None = None,  # noqa: A002
        *,
        agent: str | None = None,
        goal: str = "",
    ) -> AsyncSession:
        """A session to work in, as `Plane.session`: `async with plane.session(goal=...)`."""
        return AsyncSession(self, id, agent=agent, goal=goal)


class AsyncSession:
    """A session of an AsyncPlane, as a context manager; it ends on an exception, too."""

    def __init__(
        self,
        plane: AsyncPlane,
        id: str | None = None,  # noqa: A002
        *,
        agent: str | None = None,
        goal: str = "",
    ) -> None:
        self._plane, self._named = plane, (id, agent, goal)
        self._opened: OpenedSession | None = None

    @property
    def id(self) -> str:
        """Its name; raises HomeError before it has started."""
        return self.opened.id

    @property
    def opened(self) -> OpenedSession:
        """The session as the plane has it; raises HomeError before it has started."""
        if self._opened is None:
            raise HomeError("this session has not started: enter it with `async with`")
        return self._opened

    async def __aenter__(self) -> Self:
        name, agent, goal = self._named
        made = self._plane.plane.session(name, agent=agent, goal=goal)
        self._opened = await self._plane.held.writing(made.start)
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        end = partial(self.opened.end, failed=error is not None)
        try:
            await self._plane.held.writing(end)
        except MemplaneError:
            if error is None:  # the error of the block is the one to be seen
                raise

    async def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt:
        """As `AsyncPlane.record`, in this session."""
        return await self._plane.record(text, **self.opened.with_session(fields))

    async def recall(
        self, query: str, *, budget: int = 4000, scope: str = "session"
    ) -> ContextAssembly:
        """As `AsyncPlane.recall`, for this session and its agent."""
        return await self._plane.recall(
            query, session=self.id, budget=budget, scope=scope, agent=self.opened.agent
        )


def aopen(
    path: Plane | str | os.PathLike[str] | None = None,
    *,
    durability: Literal["sync", "os"] = "sync",
    embedder: Embedder | None = None,
    agent: str | None = None,
    observer: Observer | None = None,
) -> AsyncPlane:
    """A plane for `async with`: in a folder, as `memplane.open` finds it, or one that is open.

    A plane that is given stays its owner's; one that is opened here is closed with the last who
    uses it here. The others as of `memplane.open`, for a folder alone.
    """
    return AsyncPlane(
        path, durability=durability, embedder=embedder, agent=agent, observer=observer
    )


_TRIES: Final = 50  # while others write to the plane


class AgentRow(NamedTuple):
    """A row, the agent that it is recorded for, and the channel on which that one reads.

    `bounds`: the only namespaces that the agent may use; empty: all that it may reach.
    """

    row: Mapping[str, Any]
    channel: str
    agent: str
    bounds: tuple[str, ...] = ()


class _MovedError(Exception):
    """Others wrote between the reading of values and the write that was to replace them."""


def record_each_as(
    context: PlaneContext, rows: Sequence[AgentRow]
) -> list[Receipt | MemplaneError]:
    """Record rows with as few writes as can be; give the receipt or error of each, in their order.

    Rows of different keys and ids share one write and one sync; what replaces a value of the same
    batch comes in the next write. A row that is refused keeps no other from being stored. The
    errors are those of `record_as`.
    """
    found: dict[int, Receipt | MemplaneError] = {}
    for _ in range(_TRIES + len(rows)):
        left = [at for at in range(len(rows)) if at not in found]
        if not left:
            break
        batch = _without_clashes(left, rows)
        with suppress(_MovedError):
            done = _recorded_at_once(context, [rows[at] for at in batch])
            found.update(zip(batch, done, strict=True))
    busy = LockError("others write to this plane without a pause; try again", holder=None)
    return [found.get(at, busy) for at in range(len(rows))]


def _without_clashes(left: Sequence[int], rows: Sequence[AgentRow]) -> list[int]:
    """The rows of which no earlier one has the key or the id."""
    seen: set[tuple[str, object]] = set()
    batch = []
    for at in left:
        names = {(name, one) for name in ("id", "key") if (one := rows[at].row.get(name))}
        if seen.isdisjoint(names):
            batch.append(at)
        seen |= names
    return batch


def _recorded_at_once(
    context: PlaneContext, rows: Sequence[AgentRow]
) -> list[Receipt | MemplaneError]:
    """Record rows of different keys in one write; raises _MovedError where others were faster."""
    draft, memories, expected = context.drafting(), None, None
    if any(one.row.get("key") is not None for one in rows):
        with context.lock:
            memories = context.caught_up().memories
            expected = 0 if memories.position is None else memories.position.seq

    def make(one: Any, where: str) -> Draft:
        row = context.placed(one.row)
        ns, key = row.get("ns") or GLOBAL, row.get("key")
        made = draft(row, where)  # a mistake in what was given is named before anything else
        with bound_to(one.bounds):
            # A broken policy stops no write: the last good one judges it.
            policies = context.watched.policies_or_last()
        reader = context.reader(one.channel, agent=one.agent, policies=policies)
        if not reader.may_write(ns):
            raise reader.unwritable(ns, key)
        if key is None or memories is None:
            return made
        with context.lock:
            value = memories.current(ns, key)
        if not reader.may_replace(value):
            raise reader.unwritable(ns, key)
        return made if value is None else draft({**row, **at_least(value.sensitivity, row)}, where)

    def append(drafts: list[Draft]) -> list[Appended]:
        try:
            return context.append(drafts, expected_seq=expected)
        except ConflictError as error:
            if error.id:  # the id is taken
                raise
            raise _MovedError from None

    return [
        one
        if isinstance(one, MemplaneError)
        else Receipt(one, context.durability, context.log.line)
        for one in each(append, rows, make)
    ]
