"""`aopen`: a plane for programs with an event loop. Nothing of it blocks the loop.

    async with memplane.aopen("notes") as plane:
        await plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
        print(await plane.pack("which database do we use?", budget=2000))

Records of all tasks that wait at once are one write and one sync; each gets its own receipt.

The methods of a plane and of its faces are coroutines with their own parameters:
`reads(Plane.pack)` has those of `Plane.pack`, for editors and type checkers too, and runs on the
plane's thread; `writes` after the writes before it, `aside` on a thread beside, for what may take
seconds.
"""

from __future__ import annotations

import os
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, Unpack

from memplane.acms import runner as runners
from memplane.errors import HomeError, MemplaneError
from memplane.plane import Plane
from memplane.plane.upkeep import PlaneUpkeep
from memplane.plane.work import PlaneWork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Literal

    from memplane.context.calls import Receipt
    from memplane.event import EventFields
    from memplane.observe import Observer
    from memplane.plane.work import OpenedSession
    from memplane.ports import Embedder
    from memplane.work.episodes import ContextAssembly


Given = ParamSpec("Given")
Made = TypeVar("Made")
Face = TypeVar("Face")


class AsyncFace(Generic[Face]):
    """What calls the methods of `Face` on the threads of a plane."""

    def __init__(
        self, held: Callable[[], runners.PlaneRunner], face: Callable[[runners.PlaneRunner], Face]
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
    merge = aside(PlaneUpkeep.merge)


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
        self._opening = runners.PlaneOpening(
            storage, durability, embedder, agent, observer=observer
        )
        self._runner: runners.PlaneRunner | None = None
        super().__init__(lambda: self.held, lambda runner: runner.plane)

    def __repr__(self) -> str:
        storage = self._opening.storage
        where = storage.home if isinstance(storage, Plane) else storage
        state = "" if self._runner is not None else ", not open"
        return f"<AsyncPlane {os.fspath(where or '')!r}{state}>"

    async def start(self) -> Self:
        """Open the plane. Raises what `memplane.open` does."""
        if self._runner is None:
            self._runner = await runners.held(self._opening)
        return self

    async def close(self) -> None:
        """Wait for what is being written, and let go. Again: nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runners.release_settled(runner, _SECONDS)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def plane(self) -> Plane:
        """The plane itself; raises HomeError before it is open."""
        return self.held.plane

    @property
    def held(self) -> runners.PlaneRunner:
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
