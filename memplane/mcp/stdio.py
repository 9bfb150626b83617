"""Run the server over stdin and stdout, until the input ends or a signal comes.

At the end of the input all requests received until then are answered. After a signal there is one
second for that; then only records that have begun are finished and the rest is cancelled. Nothing
but the protocol reaches stdout, whatever else prints.
"""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Final, Self

import anyio
import anyio.from_thread
import anyio.lowlevel
import mcp_types as types
from mcp.server.stdio import stdio_server

from memplane.mcp.server import Serving, Worker, server_of

_CHUNK_BYTES: Final = 65_536
# Clients wait for two seconds at the end of the input, and for two more behind a signal.
_ANSWER_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_TURNS: Final = 20  # of the loop, for what was read last to come to where it is noted
_LEAVE_SECONDS: Final = 1.5


def serve_client(serving: Serving) -> None:
    """Serve one client until its end of the pipe closes or this process is told to end."""
    with suppress(KeyboardInterrupt):
        anyio.run(_serve, serving)


async def _serve(serving: Serving) -> None:
    server, worker = server_of(serving)
    lines = _Lines(worker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_on_signal, lines)
        try:
            async with stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type] # all that it does is iterate
                pending = lines.pending
                await server.run(
                    Heard(read, pending),
                    ServerMessage(write, pending),
                    server.create_initialization_options(),
                )
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # the client is gone, and nobody is left to tell
        finally:
            lines.left()
            tasks.cancel_scope.cancel()


async def _end_on_signal(lines: _Lines) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for _ in signals:
            lines.hurry()


class _Lines:
    """The lines of stdin, until its end or until `end` is called.

    They are read by a thread of their own that dies with the process: a read that blocks cannot
    be called back, and a signal must not wait for the client's next line.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker, self._leaving = worker, _Leaving(worker)
        self._file: int | None = None
        self._send, self._lines = anyio.create_memory_object_stream[bytes](math.inf)
        self._answering, self.pending = anyio.CancelScope(), Pending()

    def end(self) -> None:
        """Take no more lines."""
        self._send.close()

    def hurry(self) -> None:
        """Take no more lines, and leave soon."""
        self.end()
        if not self._leaving.is_alive():
            self._leaving.start()
            self._answering.deadline = anyio.current_time() + _ANSWER_SECONDS

    def left(self) -> None:
        """All is done, nothing has to be cut short; stdin is what it was."""
        self._leaving.cancel()
        self._send.close()
        self._lines.close()
        if self._file is not None:
            os.dup2(self._file, 0)  # and stays open itself: a thread may still read it

    async def __aiter__(self) -> AsyncIterator[str]:
        token = anyio.lowlevel.current_token()
        file = self._file = _taken_stdin()

        def read() -> None:
            # At the end of the loop it does not matter what was still to be sent.
            with suppress(Exception):
                for line in _lines_of(file):
                    anyio.from_thread.run_sync(self._send.send_nowait, line, token=token)
                anyio.from_thread.run_sync(self.end, token=token)

        threading.Thread(target=read, name="stdin", daemon=True).start()
        async for line in self._lines:
            yield _whole(line.decode("utf-8", "replace"))
        await self._answered()

    async def _answered(self) -> None:
        """Wait until what was asked is answered."""
        with self._answering:
            for _ in range(_TURNS):
                await anyio.lowlevel.checkpoint()
            await self.pending.none()


class _Leaving(threading.Timer):
    """Ends the process where a search would hold it up: what is acknowledged is safe by then."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(_LEAVE_SECONDS, self._leave)
        self.daemon, self._worker = True, worker

    def _leave(self) -> None:
        while self._worker.writing:
            time.sleep(_LOOK_SECONDS)
        os._exit(0)


def _whole(line: str) -> str:
    """The line without halves of characters, as clients send them that cut a text anywhere.

    The SDK drops such a message without a word, and its client would wait for ever.
    """
    if "\\ud" not in line and "\\uD" not in line:
        return line
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return line


def _taken_stdin() -> int:
    """A descriptor of stdin that nobody else has; whoever reads stdin from now on reads nothing."""
    file = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return file


def _lines_of(file: int) -> Iterator[bytes]:
    """The lines of a descriptor, with what stands behind the last newline as one more."""
    parts: list[bytes] = []
    while data := os.read(file, _CHUNK_BYTES):
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line])
            parts.clear()
        parts.append(rest)
    if any(parts):
        yield b"".join(parts)


# What was asked and not answered yet, told by the messages that pass.
#
# The SDK drops what is under way as soon as its input ends. Who pipes questions in and closes the
# pipe wants the answers all the same, so the end is held back until there is nothing pending.


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


class ServerMessage(_Stream):
    """What the client is told."""

    async def send(self, item: Any) -> None:
        await self._stream.send(item)
        self._pending.said(item)
