"""The rows of `memplane mcp`: a round trip of its tools, its start, its memory.

The server is a process; the SDK's own client drives it, in the protocol's newest form. Beside it
stand the same call in process, and a server of the SDK that has one tool and gives back its
argument: what a round trip and a start cost before memplane does anything.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

import chunks
from measure import Peer, Work, seconds
from place import Place

import memplane

__all__ = ["MCP_WORKS"]

_MILLI: Final = 1e3
_SESSION: Final = "bench"
_SEARCH: Final = "memory_search"
_CURATE: Final = "memory_curate"
_TOKENS: Final = 4_000
_CHUNKS_A_SESSION: Final = 160

_HELLO: Final = """
from mcp.server.mcpserver import MCPServer
app = MCPServer("hello")
@app.tool()
def echo(text: str) -> str:
    return text
app.run()
"""

Make = Callable[[Place, int], Work]


class Client:
    """The SDK's client of a server process, in a loop of its own thread."""

    def __init__(self, arguments: list[str]) -> None:
        import mcp  # noqa: PLC0415 - the rows are left out where the extra is missing
        from anyio.from_thread import start_blocking_portal  # noqa: PLC0415 - likewise

        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        server = mcp.StdioServerParameters(command=sys.executable, args=arguments)
        self._client = self._stack.enter_context(
            self._portal.wrap_async_context_manager(mcp.Client(server))
        )

    def timed(self, tool: str, asked: list[dict[str, Any]]) -> list[float]:
        """Milliseconds of each call, timed in the loop."""

        async def calls() -> list[float]:
            took = []
            for arguments in asked:
                begun = time.perf_counter()
                answer = await self._client.call_tool(tool, arguments)
                took.append((time.perf_counter() - begun) * _MILLI)
                assert not answer.is_error, answer.content
            return took

        return self._portal.call(calls)

    def close(self) -> None:
        self._stack.close()


class Shelf:
    """A plane of chunks, searched once in process, with a server on it and a server of echoes."""

    def __init__(self, place: Place) -> None:
        self.home, self.size = place.new("chunks"), place.chunks
        with memplane.init(self.home, durability="os", trusted=False) as plane:
            plane.record_many(_rows(place.chunks))
            plane.upkeep.index()
        self.plane = place.closing(memplane.open(self.home, durability="os"))
        self.server = place.closing(Client(_serving(self.home)))
        self.hello = place.closing(Client(["-c", _HELLO]))
        self._questions = iter(chunks.questions(1_000_000, place.chunks, seed=5)[:50_000])
        for tool in (_SEARCH, _CURATE):
            self.server.timed(tool, self.asked(1))
        self.search(next(self._questions))
        self.pack(next(self._questions))

    def asked(self, runs: int, name: str = "query") -> list[dict[str, Any]]:
        """Questions that were not asked before."""
        return [{name: next(self._questions)} for _ in range(runs)]

    def search(self, query: str) -> object:
        """What the tool asks of the plane."""
        return self.plane.search(query, 10, channel="agent")

    def pack(self, query: str) -> object:
        """What the tool asks of the plane."""
        return self.plane.pack(
            query, budget=_TOKENS * 3 // 4, channel="agent", session=_SESSION, save_report=True
        )


def _rows(count: int) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(chunks.texts(count)):
        yield {"text": text, "role": "user", "session": f"s{number // _CHUNKS_A_SESSION}"}


def _serving(home: Path) -> list[str]:
    return ["-m", "memplane", "mcp", "--home", str(home), "--session", _SESSION]


@cache
def _shelf(place: Place) -> Shelf:
    return Shelf(place)


def _round_trip(place: Place, runs: int, tool: str, name: str, act: str) -> Work:
    shelf, runs = _shelf(place), max(4, runs // 8)
    hello = partial(shelf.hello.timed, "echo")

    def inside() -> list[float]:
        asked = [one["query"] for one in shelf.asked(runs)]
        return [seconds(partial(getattr(shelf, act), query)) * _MILLI for query in asked]

    return Work(
        f"MCP {name}, {shelf.size:,} chunks", "ms",
        lambda: shelf.server.timed(tool, shelf.asked(runs)),
        peers=[Peer("the same in process", inside),
               Peer("SDK server: echo", lambda: hello(shelf.asked(runs, "text")))],
    )  # fmt: skip


def search(place: Place, runs: int) -> Work:
    """`memory_search`: ten hits, questions that were not asked before."""
    return _round_trip(place, runs, _SEARCH, "search", "search")


def curate(place: Place, runs: int) -> Work:
    """`memory_curate` at its default of 4,000 tokens, of which 3,000 are the block's."""
    return _round_trip(place, runs, _CURATE, "curate", "pack")


class _Started:
    """A server process, spoken to by hand: no client's start is in its times."""

    def __init__(self, arguments: list[str]) -> None:
        self.begun = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        info = {"name": "bench", "version": "1"}
        first = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.ask("initialize", **first)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, **params: Any) -> float:
        """Ask and wait for the answer; give back the milliseconds since the start."""
        self._say({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert not answer["result"].get("isError"), answer
        return (time.perf_counter() - self.begun) * _MILLI

    def resident(self) -> float:
        """Megabytes in memory now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def _started(
    arguments: list[str], runs: int, ask: Callable[[_Started], float]
) -> Callable[[], list[float]]:
    def sample() -> list[float]:
        taken = []
        for _ in range(runs):
            with _Started(arguments) as server:
                taken.append(ask(server))
        return taken

    return sample


def _listed(server: _Started) -> float:
    return server.ask("tools/list")


def _called(tool: str, arguments: dict[str, Any]) -> Callable[[_Started], float]:
    return lambda server: server.ask("tools/call", name=tool, arguments=arguments)


def _resident(ask: Callable[[_Started], float]) -> Callable[[_Started], float]:
    def resident(server: _Started) -> float:
        ask(server)
        return server.resident()

    return resident


def _beside_hello(
    place: Place, runs: int, name: str, unit: str, ask: Callable[[_Started], float],
    hello: Callable[[_Started], float],
) -> Work:  # fmt: skip
    runs = max(1, runs // 100)
    return Work(
        name, unit, _started(_serving(_shelf(place).home), runs, ask),
        peers=[Peer("SDK hello server", _started(["-c", _HELLO], runs, hello))],
    )  # fmt: skip


_ECHO: Final = _called("echo", {"text": "heron"})
_KEYS: Final = _called("memory_list_keys", {})
_FIND: Final = _called(_SEARCH, {"query": "what the heron said"})


def start(place: Place, runs: int) -> Work:
    """From the start of the process to its list of tools: nothing of the plane is opened yet."""
    return _beside_hello(place, runs, "MCP server: start to tools/list", "ms", _listed, _listed)


def answer(place: Place, runs: int) -> Work:
    """To the first answer of a tool, which opens the plane."""
    return _beside_hello(place, runs, "MCP server: start to first answer", "ms", _KEYS, _ECHO)


def found(place: Place, runs: int) -> Work:
    """To the first answer of a search, which opens the index too."""
    size = _shelf(place).size
    return _beside_hello(place, runs, f"MCP: start to search, {size:,} chunks", "ms", _FIND, _ECHO)


def memory(place: Place, runs: int) -> Work:
    """What the process holds when it has listed its tools."""
    return _beside_hello(
        place, runs, "MCP server: memory, listed", "MB", _resident(_listed), _resident(_listed)
    )


def memory_found(place: Place, runs: int) -> Work:
    """What it holds after a search: arrays, index and tables."""
    return _beside_hello(
        place, runs, "MCP server: memory, searched", "MB", _resident(_FIND), _resident(_ECHO)
    )


MCP_WORKS: Final[dict[str, Make]] = (
    {
        "mcp-search": search,
        "mcp-curate": curate,
        "mcp-start": start,
        "mcp-answer": answer,
        "mcp-found": found,
        "mcp-memory": memory,
        "mcp-memory-searched": memory_found,
    }
    if find_spec("mcp") is not None
    else {}
)
