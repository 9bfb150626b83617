"""Trace the walk of a pack's query: which functions and files of memplane it passes through.

A plane is filled with a small mixed log, packed once (so that caches and the index are up to date)
and packed again under `sys.setprofile`. A function is counted when an argument holds the query or
a piece of it: as a text, or in a record, list, mapping or attribute down to `DEPTH` levels. Prints
distinct functions, files, moves (changes of file along the functions in the order in which each was
first entered) and calls up: from a room to one that stands above it in the layers of
`pyproject.toml`. `-v` prints the walk.

    python tools/trace_query.py [-v] [--session] [--fast]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import memplane

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = str(Path(memplane.__file__).parent)
DEPTH: Final = 2  # levels of records, lists and mappings that are looked into
# A word that no event holds: wherever it turns up, the query or a piece of it was handed on.
MARK: Final = "zyxquux"
QUERY: Final = f"which database did we choose for the ledger {MARK}"
ITEMS_MAX: Final = 64  # of one list or mapping


class Step(NamedTuple):
    """A function that the query passed through, its file, and the file of the first caller."""

    file: str
    function: str
    caller: str


def holds(value: object, depth: int = DEPTH) -> bool:
    """Whether a value is a text with the mark, or holds one that many levels down."""
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, bytes):
        return MARK.encode() in value
    if depth == 0:
        return False
    if type(value).__module__.startswith(memplane.__name__) and hasattr(value, "__dict__"):
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())[:ITEMS_MAX]
    if isinstance(value, tuple | list):
        return any(holds(one, depth - 1) for one in value[:ITEMS_MAX])
    return False


def walk(run: Callable[[], object]) -> list[Step]:
    """Run something; return the functions of memplane that the query passed, in order of entry."""
    passed: dict[tuple[str, str], Step] = {}

    def look(frame: FrameType, what: str, _: Any) -> None:
        code = frame.f_code
        if what != "call" or not code.co_filename.startswith(PACKAGE):
            return
        place = code.co_filename.removeprefix(PACKAGE)[1:], code.co_qualname
        if place in passed or code.co_name.startswith("<") or is_late(frame):
            return
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 8)
        names = code.co_varnames[:count]
        if any(holds(frame.f_locals.get(name)) for name in names):
            passed[place] = Step(*place, caller_of(frame))

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(passed.values())


def is_late(frame: FrameType) -> bool:
    """Whether it only imports what is called."""
    return frame.f_code.co_filename == f"{PACKAGE}/lazy.py"


def caller_of(frame: FrameType) -> str:
    """The file of the nearest caller that belongs to memplane; "" for none."""
    back = frame.f_back
    while back is not None and (not back.f_code.co_filename.startswith(PACKAGE) or is_late(back)):
        back = back.f_back
    return "" if back is None else back.f_code.co_filename.removeprefix(PACKAGE)[1:]


def calls_up(steps: Iterable[Step]) -> list[Step]:
    """The steps that were called from a room below theirs."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rows = layers["contracts"][0]["layers"]
    heights = {room: -at for at, row in enumerate(rows) for room in row.split(" | ")}

    def height(file: str) -> int:
        return heights.get(file.partition("/")[0].removesuffix(".py"), 0)

    return [step for step in steps if step.caller and height(step.caller) < height(step.file)]


def moves(steps: Iterable[Step]) -> int:
    """How often the file changes along the walk."""
    files = [step.file for step in steps]
    return sum(one != two for one, two in pairwise(files))


def filled(home: Path) -> memplane.Plane:
    """A plane with turns of two sessions, decisions, facts, a task and touched files."""
    plane = memplane.init(home, environment={}, trusted=False)
    rows: list[dict[str, Any]] = []
    for number in range(60):
        session = f"s{number // 30}"
        rows += [
            {"text": f"Is the database of part {number} ready?", "role": "user"},
            {"text": f"Part {number} uses database {number % 7}.", "role": "assistant"},
        ]
        for row in rows[-2:]:
            row.update(kind="message", session=session)
    rows += [
        {"kind": "decision", "text": "We choose SQLite for the ledger.", "session": "s1"},
        {"kind": "fact", "text": "The ledger has 12 tables.", "key": "ledger.tables"},
        {"kind": "tool_call", "text": "pytest", "session": "s1", "data": {"tool": "Bash"}},
    ]
    plane.record_many(rows)
    plane.record(QUERY.replace(MARK, ""), role="user", session="s1")
    return plane


def main() -> None:
    """Print the figures of one walk."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-v", "--verbose", action="store_true", help="print the walk")
    parser.add_argument("--session", action="store_true", help="pack for a session")
    parser.add_argument("--fast", action="store_true", help="search the hotset, not the whole log")
    given = parser.parse_args()
    asked: dict[str, Any] = {"intent": "fast" if given.fast else "auto"}
    if given.session:
        asked["session"] = "s1"
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder) / ".memplane") as plane:
        plane.pack(QUERY.replace(MARK, "sqlite"), **asked)
        steps = walk(lambda: plane.pack(QUERY, **asked))
    if given.verbose:
        file = ""
        for step in steps:
            print(f"{'' if step.file == file else step.file:40} {step.function}")
            file = step.file
    files = {step.file for step in steps}
    print(f"functions {len(steps)}  files {len(files)}  moves {moves(steps)}")
    for step in calls_up(steps):
        print(f"up: {step.caller} > {step.file}:{step.function}")


if __name__ == "__main__":
    main()
