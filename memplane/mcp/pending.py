"""What was asked and not answered yet, told by the messages that pass.

The SDK drops what is under way as soon as its input ends. Who pipes questions in and closes the
pipe wants the answers all the same, so the end is held back until there is nothing pending.
"""

from __future__ import annotations

from typing import Any, Self

import anyio
import mcp_types as types

__all__ = ["Heard", "Pending", "Said"]


class Pending:
    """The requests that passed and were neither answered nor taken back."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._fewer = anyio.Event()

    def heard(self, item: Any) -> None:
        """Note what the client says."""
        message: Any = getattr(item, "message", None)
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif getattr(message, "method", "") == "notifications/cancelled" and message.params:
            named = message.params.get("requestId")
            if isinstance(named, str | int):  # what else a client may put there names no request
                self._drop(named)

    def said(self, item: Any) -> None:
        """Note what the client is told."""
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._drop(item.message.id)

    def _drop(self, one: Any) -> None:
        self._ids.discard(one)
        self._fewer.set()

    async def none(self) -> None:
        """Return when there is none."""
        while self._ids:
            self._fewer = anyio.Event()
            await self._fewer.wait()


class _Stream:
    """A stream of the SDK whose messages are noted; all else is the stream's own."""

    def __init__(self, stream: Any, pending: Pending) -> None:
        self._stream, self._pending = stream, pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()


class Heard(_Stream):
    """What the client says."""

    async def receive(self) -> Any:
        item = await self._stream.receive()
        self._pending.heard(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        self._pending.heard(item)
        return item


class Said(_Stream):
    """What the client is told."""

    async def send(self, item: Any) -> None:
        await self._stream.send(item)
        self._pending.said(item)
