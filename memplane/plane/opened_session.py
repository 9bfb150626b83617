"""`with plane.session(...)`: a session that begins and ends with a block of code.

What is said in it needs no `session=`: the handle records, packs and recalls for its session and
its agent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self, Unpack

from memplane.errors import HomeError, MemplaneError

if TYPE_CHECKING:
    from types import TracebackType

    from memplane.context.calls import Receipt
    from memplane.event import EventFields
    from memplane.pack.block import Block
    from memplane.pack.request import PackFields
    from memplane.plane.work import PlaneWork
    from memplane.work.sessions import Ended
    from memplane.work.turns import ContextAssembly


class SessionHost(Protocol):
    """What a session needs of its plane."""

    @property
    def work(self) -> PlaneWork: ...
    def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt: ...
    def pack(self, query: str = "", **asked: Unpack[PackFields]) -> Block: ...
    def recall(
        self, query: str, *, session: str, budget: int, scope: str, agent: str | None
    ) -> ContextAssembly: ...


class OpenedSession:
    """A session of a plane, as a context manager. `ended` says how it ended, None before."""

    def __init__(
        self,
        plane: SessionHost,
        id: str | None = None,  # noqa: A002
        *,
        agent: str | None = None,
        goal: str = "",
    ) -> None:
        self.plane, self.agent, self.goal = plane, agent, goal
        self._id = id
        self.ended: Ended | None = None

    def __repr__(self) -> str:
        goal = f", {self.goal!r}" if self.goal else ""
        return f"<session {self._id or 'not started'}{goal}>"

    @property
    def id(self) -> str:
        """Its name; raises HomeError before it has started without one."""
        if self._id is None:
            raise HomeError("this session has no name yet: enter it with `with`")
        return self._id

    def start(self) -> Self:
        """Begin it, or go on with it."""
        started = self.plane.work.sessions.start(self._id, agent=self.agent, goal=self.goal or None)
        self._id = started.session
        return self

    def end(self, *, failed: bool = False) -> Ended:
        """End it; `failed`: for the reason `error`, without a summary."""
        self.ended = self.plane.work.sessions.end(
            self.id, summary=not failed, reason="error" if failed else "explicit"
        )
        return self.ended

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.end()
            return
        # The error of the block is the one to be seen.
        with suppress(MemplaneError):
            self.end(failed=True)

    def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt:
        """As `Plane.record`, in this session."""
        return self.plane.record(text, **self.with_session(fields))

    def with_session(self, fields: EventFields) -> EventFields:
        """Fields of an event with this session, and with its agent as the actor of what it says."""
        said: EventFields = {"session": self.id, **fields}
        if self.agent is not None and said.get("role") == "assistant":
            said.setdefault("actor", self.agent)
        return said

    def pack(self, query: str = "", **asked: Unpack[PackFields]) -> Block:
        """As `Plane.pack`, for this session and its agent."""
        whole: PackFields = {"session": self.id, "agent": self.agent, **asked}
        return self.plane.pack(query, **whole)

    def recall(self, query: str, *, budget: int = 4000, scope: str = "session") -> ContextAssembly:
        """As `Plane.recall`, for this session and its agent."""
        return self.plane.recall(
            query, session=self.id, budget=budget, scope=scope, agent=self.agent
        )
