"""Rows of whole processes: what starting, importing and opening cost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import workload
from measure import Peer, Work, times

if TYPE_CHECKING:
    from place import Place

__all__ = ["COMMAND_WORKS", "PYTHONS", "cpu_row", "modules", "open_and_pack", "whole_process"]

_MILLI: Final = 1e3
_QUERY: Final = workload.QUERIES[0]

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


# How many bare Pythons a command may take: `run.py` makes aims of them.
_COMMANDS: Final = {
    "record": (7, ("record", "The ledger keeps one cursor.")),
    "get": (9, ("get", "ledger.cursor", "--json")),
    "pack, fast": (12, ("pack", _QUERY, "--budget", "2000", "--intent", "fast")),
    "pack, deep": (25, ("pack", _QUERY, "--budget", "2000", "--intent", "deep")),
    "search": (22, ("search", "billing cache invoice")),
    "status": (14, ()),
    "--version": (6, ("--version",)),
}
PYTHONS: Final = {f"CPU of memplane {name}": most for name, (most, _) in _COMMANDS.items()}


def _command(name: str) -> Callable[[Place, int], Work]:
    def made(place: Place, runs: int) -> Work:
        """The command as a process of its own, on a copy of the big plane; processor time."""
        home, runs = place.hooked, max(3, runs // 40)
        words = ("--home", str(home), *_COMMANDS[name][1])
        script = (str(Path(sys.executable).with_name("memplane")), *words)
        return cpu_row(f"CPU of memplane {name}", runs, lambda: _run(script))

    return made


COMMAND_WORKS: Final = {
    f"command-{name.replace(', ', '-').strip('-')}": _command(name) for name in _COMMANDS
}


def cpu_row(name: str, runs: int, act: Callable[[], object]) -> Work:
    """A row of the processor time of the processes that `act` starts, beside a bare Python's."""
    bare = (sys.executable, "-c", "pass")
    return Work(
        name, "ms", lambda: [_cpu(act) for _ in range(runs)],
        peers=[Peer("python -c pass", lambda: [_cpu(lambda: _run(bare)) for _ in range(runs)])],
    )  # fmt: skip


def _cpu(act: Callable[[], object]) -> float:
    """Milliseconds of processor time, user and system, of the children that end meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    act()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * _MILLI


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip
    assert done.returncode <= 1, done.stderr  # `get` and `search` may find nothing


def modules(_place: Place, _runs: int) -> Work:
    """What `import memplane` loads beside what Python has loaded anyway."""
    code = "import sys; had = set(sys.modules); import memplane; print(len(set(sys.modules) - had))"
    name = "modules that `import memplane` loads"
    return Work(name, "modules", lambda: [float(_child("-c", code))])
