"""Anthropic's memory tool over a plane, for `client.beta.messages.run_tools(tools=[...])`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memplane.adapters.memory_files import COMMANDS, MemoryFiles
from memplane.errors import MemplaneError, MissingExtraError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

__all__ = ["async_memory_tool", "memory_tool"]


def memory_tool(plane: Plane, *, cache_control: Any = None, **place: str) -> Any:
    """A `BetaAbstractMemoryTool` of the anthropic SDK that keeps its files in the plane.

    `place`: ns (whose files they are, `/global` by default), session, task, actor, and for whom the
    tool reads: channel (`agent` by default), agent. What cannot be done reaches the model as the
    SDK's `ToolError`.
    """
    tools = _sdk()
    files = MemoryFiles(plane, **place)

    def carry_out(_: Any, command: Any) -> str:
        return _carried_out(files.run, command, tools.ToolError)

    def clear(_: Any) -> str:
        return files.clear()

    methods = {
        **dict.fromkeys(("call", "execute", *COMMANDS), carry_out),
        "clear_all_memory": clear,
    }
    return type("PlaneMemoryTool", (tools.BetaAbstractMemoryTool,), methods)(
        cache_control=cache_control
    )


def async_memory_tool(plane: Plane, *, cache_control: Any = None, **place: str) -> Any:
    """The same for the asynchronous client; commands run in another thread."""
    tools = _sdk()
    files = MemoryFiles(plane, **place)

    async def carry_out(_: Any, command: Any) -> str:
        return await asyncio.to_thread(_carried_out, files.run, command, tools.ToolError)

    async def clear(_: Any) -> str:
        return await asyncio.to_thread(files.clear)

    methods = {
        **dict.fromkeys(("call", "execute", *COMMANDS), carry_out),
        "clear_all_memory": clear,
    }
    return type("AsyncPlaneMemoryTool", (tools.BetaAsyncAbstractMemoryTool,), methods)(
        cache_control=cache_control
    )


def _carried_out(
    run: Callable[[Mapping[str, Any]], str], command: Any, refusal: Callable[[str], Exception]
) -> str:
    given = command if isinstance(command, Mapping) else command.to_dict()
    try:
        return run(given)
    except MemplaneError as error:
        raise refusal(str(error)) from error


def _sdk() -> Any:
    try:
        return import_module("anthropic.tools")
    except ImportError as error:
        raise MissingExtraError("the memory tool", "anthropic") from error
