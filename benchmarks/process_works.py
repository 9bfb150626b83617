"""Rows of whole processes: what starting, importing and opening cost."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import workload
from measure import Peer, Work, times

import memplane

if TYPE_CHECKING:
    from place import Place

__all__ = ["modules", "open_and_pack", "record_command", "whole_process"]

_MILLI: Final = 1e3

_CHILD: Final = """
import sys, time
begun = time.perf_counter()
from memplane.wiring import open_plane
import orjson
import memplane.plane.plane
ready = time.perf_counter()
plane = open_plane(sys.argv[1])
plane.pack(sys.argv[2], budget=4000, intent="fast")
print(time.perf_counter() - ready)
"""


def _child(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip
    return done.stdout


def open_and_pack(place: Place, runs: int) -> Work:
    """In a fresh process with its modules imported: open the plane, pack."""
    home, runs = str(place.big), max(2, runs // 40)
    query = workload.QUERIES[0]
    return Work(
        "open + first fast pack, fresh process", "ms",
        lambda: [float(_child("-c", _CHILD, home, query)) * _MILLI for _ in range(runs)], aim=50,
    )  # fmt: skip


def whole_process(place: Place, runs: int) -> Work:
    """The same with the interpreter's start and the imports."""
    home, runs = str(place.big), max(2, runs // 40)
    query = workload.QUERIES[0]
    return Work(
        "whole process: import, open, fast pack", "ms",
        times(lambda: _child("-c", _CHILD, home, query), runs, _MILLI),
        peers=[Peer("python -c pass", times(lambda: _child("-c", "pass"), runs, _MILLI))],
    )  # fmt: skip


def record_command(place: Place, runs: int) -> Work:
    """`memplane record` as a process of its own, level os."""
    home, runs = place.new("plane"), max(2, runs // 40)
    memplane.init(home, trusted=False).close()
    command = ("-m", "memplane", "--home", str(home), "record", "The ledger keeps one cursor.")
    return Work(
        "whole process: memplane record", "ms",
        times(lambda: _child(*command), runs, _MILLI),
        peers=[Peer("python -c pass", times(lambda: _child("-c", "pass"), runs, _MILLI))],
    )  # fmt: skip


def modules(_place: Place, _runs: int) -> Work:
    """What `import memplane` loads beside what Python has loaded anyway."""
    code = "import sys; had = set(sys.modules); import memplane; print(len(set(sys.modules) - had))"
    name = "modules that `import memplane` loads"
    return Work(name, "modules", lambda: [float(_child("-c", code))])
