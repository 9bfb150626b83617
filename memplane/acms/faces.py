"""The methods of a plane and of its faces as coroutines, with their own parameters.

`reads(Plane.pack)` has the parameters of `Plane.pack`, for editors and type checkers too, and runs
it on the thread of the plane's runner; `writes` after the writes before it, `aside` on a thread
beside, for what may take seconds.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from memplane.plane.upkeep import PlaneUpkeep
from memplane.plane.work import PlaneWork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from memplane.acms.runner import PlaneRunner

Given = ParamSpec("Given")
Made = TypeVar("Made")
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
    merge = aside(PlaneUpkeep.merge)


class AsyncWork(AsyncFace[PlaneWork]):
    """`PlaneWork`, asynchronous; had as `plane.work` of an AsyncPlane."""

    spool = writes(PlaneWork.spool)
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
