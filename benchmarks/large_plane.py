"""One plane of millions of events: built once, then measured as often as one likes.

    python benchmarks/large_plane.py FOLDER [--events 3000000]

Where FOLDER is not there, a plane is built in it by `record_many`, which takes some ten minutes a
million and two gigabytes a million. Each row is a process of its own and says processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import workload
from writing_works import cpu_seconds

import memplane

_MILLI: Final = 1e3
_MICRO: Final = 1e6
_AT_ONCE: Final = 20_000  # rows of one `record_many`
_REPEATED: Final = 40
_TOKENS: Final = 2_000  # of a deep pack
_PROMPT: Final = "Why does the billing cache drop the invoice after a restart?"
_COMMANDS: Final = {
    "record": ["record", "The export job closes the cursor"],
    "pack": ["pack", _PROMPT, "--intent", "deep"],
    "search": ["search", _PROMPT],
    "verify": ["verify"],
}

Figures = dict[str, float]


def _questions() -> Iterator[str]:
    for number in count():
        asked = workload.QUERIES[number % len(workload.QUERIES)] or "what was decided"
        yield f"{asked} {workload.text(number)[:40]}"


def _ms(act: Callable[[], object]) -> float:
    return cpu_seconds(act) * _MILLI


def _first_and_then(name: str, act: Callable[[str], object]) -> Figures:
    """What the first question costs a process, and the middle and the slow of those behind it."""
    asked = _questions()
    first = _ms(lambda: act(next(asked)))
    rest = sorted(_ms(lambda: act(next(asked))) for _ in range(_REPEATED))
    slow = rest[len(rest) * 19 // 20]
    return {
        f"{name}, first, ms": first,
        f"{name}, p50, ms": statistics.median(rest),
        f"{name}, p95, ms": slow,
    }


def opened(home: Path) -> Figures:
    """Open, one event by its seq, one short record."""
    planes: list[memplane.Plane] = []
    took = {"open, ms": _ms(lambda: planes.append(memplane.open(home, durability="os")))}
    with planes[0] as plane:
        middle = plane.head().seq // 2
        took["get an event, ms"] = _ms(lambda: plane.event(middle))
        plane.record("warm up")
        texts = [f"The cursor of batch {number} is closed" for number in range(_REPEATED)]
        took["record, ms"] = _ms(lambda: [plane.record(text) for text in texts]) / len(texts)
    return took


def fast(home: Path) -> Figures:
    """Fast packs."""
    with memplane.open(home, durability="os") as plane:
        return _first_and_then("fast pack", partial(plane.pack, intent="fast"))


def deep(home: Path) -> Figures:
    """Deep packs, and what the process holds behind them."""
    with memplane.open(home, durability="os") as plane:
        act = partial(plane.pack, intent="deep", budget=_TOKENS)
        return _first_and_then("deep pack", act) | _resident()


def search(home: Path) -> Figures:
    """Ten hits a question."""
    with memplane.open(home, durability="os") as plane:
        return _first_and_then("search", plane.search)


def _resident() -> Figures:
    here = Path("/proc/self/statm")
    if not here.exists():
        return {}
    return {"resident, MB": int(here.read_text().split()[1]) * resource.getpagesize() / 1e6}


def hooks(home: Path) -> Figures:
    """Whole processes of a coding agent's hook: a start, a prompt."""
    session = {"cwd": "/", "session_id": f"large-{os.getpid()}"}
    said = {
        "start": {"hook_event_name": "SessionStart", "source": "startup"},
        "prompt": {"hook_event_name": "UserPromptSubmit", "prompt": _PROMPT},
    }
    return {
        f"hook, {name}, ms": _ms(lambda one=one: _run(home, ["hook", "claude-code"], session | one))
        for name, one in said.items()
    }


def commands(home: Path) -> Figures:
    """Whole processes of the command line."""
    return {
        f"memplane {name}, ms": _ms(partial(_run, home, given)) for name, given in _COMMANDS.items()
    }


def _run(home: Path, given: list[str], said: dict[str, Any] | None = None) -> None:
    subprocess.run(
        [sys.executable, "-m", "memplane", *given], check=True, stdout=subprocess.DEVNULL,
        input=json.dumps(said or {}).encode(),
        env={**os.environ, "MEMPLANE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip


def build(home: Path, events: int) -> Iterator[Figures]:
    """Record, index and fold that many events: a figure for each of these, an event."""
    rows = workload.rows(events)
    took: list[float] = []
    with memplane.init(home, durability="os", trusted=False) as plane:
        while some := list(islice(rows, _AT_ONCE)):
            took.append(cpu_seconds(partial(plane.record_many, some)) / len(some) * _MICRO)
            print(f"\rrecorded {len(took) * _AT_ONCE:,} of {events:,}", end="", file=sys.stderr)
        print(file=sys.stderr)
        yield {"record_many, first, us/event": took[0], "record_many, last, us/event": took[-1]}
        yield {"index, us/event": cpu_seconds(plane.upkeep.index) / events * _MICRO}
        yield {"first pack behind all of them, s": cpu_seconds(lambda: plane.pack("warm up"))}


MEASURED: Final = {one.__name__: one for one in (opened, fast, deep, search, hooks, commands)}


def main() -> None:
    """Build where there is nothing, and print a row for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=3_000_000, help="of a plane that is built")
    parser.add_argument("--measure", choices=sorted(MEASURED), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(MEASURED[given.measure](given.folder)))
        return
    if not given.folder.exists():
        for found in build(given.folder, given.events):
            _show(found)
    for name in MEASURED:
        command = [sys.executable, __file__, str(given.folder), "--measure", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        _show(json.loads(done.stdout))


def _show(figures: Figures) -> None:
    for name, figure in figures.items():
        print(f"{name:<36}{figure:>10,.2f}", flush=True)


if __name__ == "__main__":
    main()
