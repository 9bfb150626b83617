"""What planes answer, as lines that can be kept and compared: a name, and a digest for each part."""

import hashlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import requests
from planes import clock

import memplane
from memplane.errors import MemplaneError
from memplane.wiring import make_counter, open_light, open_plane

UNKEPT = {"timings_ns", "io"}  # of a report: how long it took and what it read
HOOKED = ("sample", "world", "shared")  # planes that hooks and servers are called on
FORMATS = ("log/*.jsonl", "projections/*.json", "index/*.bin", "index/manifest.json")
# Caches that say where files lie, or are named by what they are parsed from.
PLACED = ("policy-", "imports", "segments")
PROMPTS = (
    "continue", "why did the database time out?", "what did we decide about the ledger cache?",
    "which sails does the Albatros have?",
)  # fmt: skip


def digest(value: Any) -> str:
    data = value if isinstance(value, bytes) else _canonical(value).encode()
    return hashlib.sha256(data).hexdigest()[:12]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=_fields)


def _fields(value: Any) -> Any:
    """What an object says of itself; of those that say nothing their fields."""
    if hasattr(value, "as_json"):
        return value.as_json()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return list(value)


Answer = tuple[str, dict[str, str]]


def all_of(name: str, home: Path, each: int = 1) -> Iterator[Answer]:
    """The answers of one plane to one in `each` of its requests. But for caches, it is left as it was."""
    with memplane.open(home, clock=clock, environment={}) as plane:
        known = requests.facts(plane)
        yield from _packed(plane, requests.packs(name, known), each)
        for n, asked in [*enumerate(requests.searches(name, known))][::each]:
            yield f"search {n}", _tried(partial(plane.search, **asked), lambda hits: {
                "hits": digest([*hits]), "degraded": digest(getattr(hits, "degraded", None)),
            })  # fmt: skip
        for n, (method, first, more) in [*enumerate(requests.calls(name, known))][::each]:
            often = hasattr(memplane.Plane, method.partition(".")[0])
            call = attrgetter(method)(plane if often else plane.work)
            asked = partial(call, first, **more) if first else partial(call, **more)
            yield f"{method} {n}", _tried(asked, lambda found: {"found": digest(found)})
    if name in HOOKED:
        yield from _hooked(home)
        if find_spec("mcp"):
            yield from _served(home)


def formats(home: Path) -> Iterator[Answer]:
    """The bytes of the files that memplane reads again: those of the log, folds and the index."""
    with memplane.open(home, clock=clock, environment={}) as plane:
        plane.upkeep.rebuild()
        plane.upkeep.index()
        file = io.BytesIO()
        plane.upkeep.export(file)
    for pattern in FORMATS:
        for path in sorted(home.glob(pattern)):
            if not path.name.startswith(PLACED):
                yield f"file {path.relative_to(home)}", {"bytes": digest(path.read_bytes())}
    yield "file export", {"bytes": digest(file.getvalue())}


def _packed(plane: memplane.Plane, asked: list[dict[str, Any]], each: int) -> Iterator[Answer]:
    def parts(block: memplane.Block) -> dict[str, str]:
        report = {name: digest(one) for name, one in block.report.items() if name not in UNKEPT}
        entries = digest([block.entries, block.omissions])
        return {"text": digest(block.text), "records": entries} | report

    for n, request in [*enumerate(asked)][::each]:
        yield f"pack {n}", _tried(partial(plane.pack, **request), parts)


def _tried(call: Any, parts: Any) -> dict[str, str]:
    """The parts of an answer, or the words of a refusal."""
    try:
        return parts(call())
    except MemplaneError as error:
        return {"refused": f"{type(error).__name__} {digest(str(error))}"}


def _hooked(home: Path) -> Iterator[Answer]:
    """What an agent's hooks are answered at the start of a session and at prompts."""
    calls = [("SessionStart", {"source": "startup"})]
    calls += [("UserPromptSubmit", {"prompt": prompt, "prompt_id": prompt}) for prompt in PROMPTS]
    calls += [("SessionStart", {"source": "compact"})]
    for agent in ("claude-code", "codex"):
        for n, (event, more) in enumerate(calls):
            said = {
                "hook_event_name": event, "session_id": f"golden-{agent}", "turn_id": str(n),
                "cwd": str(home.parent), **more,
            }  # fmt: skip
            yield f"hook {agent} {n}", {"answer": digest(_hook(home, agent, said))}


def _hook(home: Path, agent: str, said: dict[str, Any]) -> str:
    from memplane.hook.run import Openers, run_hook

    out = io.StringIO()
    stdin = SimpleNamespace(buffer=io.BytesIO(json.dumps(said).encode()))
    opened = Openers(open_light, lambda found: open_plane(found.path))
    was = signal.getsignal(signal.SIGALRM)
    try:
        with (
            mock.patch.object(sys, "stdin", stdin), mock.patch.object(sys, "stdout", out),
            mock.patch("memplane.clock.clock", clock),
        ):  # fmt: skip
            more = {"MEMPLANE_PLANE__HOOKS__MILLISECONDS_MAX": "60000"}
            run_hook([agent, "--home", str(home)], {**os.environ, **more}, opened)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, was)
    return out.getvalue()


def _served(home: Path) -> Iterator[Answer]:
    """What the MCP server lists and answers."""
    import anyio
    from mcp import Client, types

    from memplane.mcp.server import Serving, server_of

    asked = [
        ("memory_search", {"query": "database timeout", "limit": 5}),
        ("memory_search", {"query": "", "limit": 5}),
        ("memory_curate", {"query": "continue the ledger", "max_tokens": 1500}),
        ("memory_curate", {"query": "", "max_tokens": 400}),
        ("memory_get", {"key": "k1"}),
        ("memory_list_keys", {}),
        ("memory_get", {"key": "unheard.of"}),
    ]

    async def talk() -> list[tuple[str, Any]]:
        opened = partial(open_plane, home, clock=clock, environment={})
        serving = Serving(opened, make_counter, "agent", "golden-mcp")
        info = types.Implementation(name="golden", version="1")
        async with Client(server_of(serving)[0], mode="auto", client_info=info) as client:
            found = [("tools", (await client.list_tools()).model_dump(mode="json"))]
            for n, (name, arguments) in enumerate(asked):
                answer = await client.call_tool(name, arguments)
                found.append((f"{name} {n}", answer.model_dump(mode="json")))
            return found

    for name, answer in anyio.run(talk):
        yield f"mcp {name}", {"answer": digest(_untimed(answer))}


def _untimed(answer: Any) -> Any:
    """An answer without figures of time."""
    if isinstance(answer, dict):
        return {key: _untimed(one) for key, one in answer.items() if key not in UNKEPT}
    return [*map(_untimed, answer)] if isinstance(answer, list) else answer
