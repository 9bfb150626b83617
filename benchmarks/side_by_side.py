"""Beside other engines and memories: the same texts and questions, processor time, 1k to 1M texts.

`make bench` prints it behind the table of speeds; alone: `benchmarks/run.py --only side-by-side`.
Each engine has a process of its own (`side_engines.py`), is filled, and is then asked in turns, in
three rounds. What is not installed is named under it (`pip install -r requirements-bench.txt`).
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import chunks
from side_engines import ENGINES, SIZES_MAX

__all__ = ["SIDE_WORDS", "SIZES", "SIZE_LARGE", "Sided", "compare", "side_rows", "side_table"]

OWN: Final = "memplane"
SIZES: Final = (1_000, 10_000, 100_000)
SIZE_LARGE: Final = 1_000_000
_ROUNDS: Final = 3
_CHARACTERS: Final = 600
_BATCH: Final = 5_000  # texts of one request
_SECONDS: Final = 90  # of processor time for the questions of one engine at one size and round

SIDE_WORDS: Final = f"""\
Side by side: processor time, median [95th percentile], and memplane's by it: above 1 memplane is
slower. Texts of {_CHARACTERS} characters; each question is asked once."""

# What is asked: its name, unit, the microseconds in one, and how often in a round.
WORKS: Final[dict[str, tuple[str, str, float, int]]] = {
    "import": ("import", "ms", 1e3, 1),
    "bulk": ("add many, per text", "us", 1.0, 1),
    "add": ("add one", "us", 1.0, 30),
    "add_search": ("add one and search", "ms", 1e3, 10),
    "search": ("search, 10 hits", "ms", 1e3, 30),
    "pack": ("context of 2,000 tokens", "ms", 1e3, 15),
    "pack_fast": ("the same, intent fast", "ms", 1e3, 15),
    "open_search": ("open again and search", "ms", 1e3, 3),
    "disk": ("disk, per text", "bytes", 1.0, 1),
    "resident": ("resident at most", "MB", 1.0, 1),
}


@dataclass
class Sided:
    """The figures of one engine at one size, by work: microseconds, bytes or MB."""

    engine: str
    size: int
    figures: dict[str, list[float]] = field(default_factory=dict)

    def p50(self, work: str) -> float | None:
        found = self.figures.get(work)
        return statistics.median(found) / WORKS[work][2] if found else None

    def p95(self, work: str) -> float | None:
        found = sorted(self.figures.get(work, []))
        return found[math.ceil(0.95 * len(found)) - 1] / WORKS[work][2] if found else None


class _Asked:
    """The process of one engine."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        command = [sys.executable, str(Path(__file__).with_name("side_engines.py"))]
        self._process = subprocess.Popen(
            [*command, name, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "MEM0_TELEMETRY": "False", "ANONYMIZED_TELEMETRY": "False"},
        )  # fmt: skip
        self.told = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"missing": "it ended"}
        return told

    def ask(self, work: str, texts: Sequence[str] = ()) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": work, "texts": list(texts)}), file=self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"missing": "it ended"}
        return self._answer()

    def end(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(60)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


def compare(
    folder: Path,
    sizes: Iterable[int],
    rounds: int = _ROUNDS,
    engines: Sequence[str] = tuple(ENGINES),
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[list[Sided], list[str]]:
    """The figures of each engine at each size, and the engines that are not installed."""
    found: list[Sided] = []
    missing: dict[str, None] = {}
    for size in sizes:
        at_size = [one for one in engines if size <= SIZES_MAX.get(one, size)]
        asked: list[tuple[_Asked, Sided]] = []
        for at, name in enumerate(at_size):
            tell(f"{name}: {size:,} texts")
            one = _Asked(name, folder / f"{size}-{at}")
            if "missing" in one.told:
                missing[name] = None
                one.end()
                continue
            figures = Sided(name, size, {"import": [one.told["import_us"]]})
            if _fill(one, figures, size):
                asked.append((one, figures))
            else:
                missing[f"{name} at {size:,}"] = None
                one.end()
        try:
            _ask_in_turns(asked, size, rounds, tell)
        finally:
            for one, _ in asked:
                one.end()
        found += [figures for _, figures in asked]
    return found, list(missing)


def _fill(one: _Asked, figures: Sided, size: int) -> bool:
    source = _texts(size)
    taken, batch = [], list(islice(source, size if one.told["at_once"] else _BATCH))
    while batch:
        answer = one.ask("bulk", batch)
        if "us" not in answer:
            return False
        taken.append((answer["us"][0], len(batch)))
        batch = list(islice(source, _BATCH))
    whole = sum(us * count for us, count in taken) / max(1, size)
    figures.figures["bulk"] = [whole]
    told = one.ask("size")
    if "disk" in one.told["can"]:
        figures.figures["disk"] = [told["bytes"] / size]
    return True


def _texts(count: int, seed: int = 1) -> Iterable[str]:
    return (text[:_CHARACTERS] for text in chunks.texts(count, seed))


def _ask_in_turns(
    asked: list[tuple[_Asked, Sided]], size: int, rounds: int, tell: Callable[[str], None]
) -> None:
    per_round = {work: count for work, (*_, count) in WORKS.items() if count > 1}
    questions = iter(chunks.questions(rounds * sum(per_round.values()), size))
    fresh = iter(_texts(rounds * (per_round["add"] + per_round["add_search"]), seed=2))
    for number in range(rounds):
        for work, count in per_round.items():
            tell(f"{size:,} texts, round {number + 1} of {rounds}: {WORKS[work][0]}")
            texts = list(islice(fresh if work.startswith("add") else questions, count))
            able = [each for each in asked if work in each[0].told["can"]]
            # Who comes first finds other caches than who comes second: they take turns.
            for one, figures in able if number % 2 == 0 else reversed(able):
                taken = figures.figures.setdefault(work, [])
                slow = statistics.median(taken) / 1e6 if taken else 0.0
                asking = texts[: max(1, int(_SECONDS / 10 / slow))] if slow else texts[: count // 3]
                taken += one.ask(work, asking).get("us", [])
    for one, figures in asked:
        figures.figures["resident"] = [one.ask("size").get("resident_mb", 0.0)]


def side_table(found: Sequence[Sided], missing: Sequence[str]) -> str:
    """The figures as text: a part for each work, an engine a row, a size a column."""
    sizes = sorted({one.size for one in found})
    lines = []
    for work, (name, unit, *_) in WORKS.items():
        rows = [one for one in found if one.figures.get(work)]
        if not rows:
            continue
        head = "".join(f"{f'{size:,}':>24}" for size in sizes)
        lines += ["", f"{f'{name}, {unit}':<30}{head}"]
        for engine in dict.fromkeys(one.engine for one in rows):
            cells = [_cell(rows, engine, size, work) for size in sizes]
            lines.append(f"  {engine:<28}" + "".join(f"{cell:>24}" for cell in cells))
    if missing:
        lines += ["", f"Not installed or not able: {', '.join(missing)}."]
    return "\n".join(line.rstrip() for line in lines[1:])


def _cell(rows: Sequence[Sided], engine: str, size: int, work: str) -> str:
    """`12.1 [20.3]  0.4x`: the median, the 95th percentile, and memplane's time by it."""
    at = {one.engine: one for one in rows if one.size == size}
    one, own = at.get(engine), at.get(OWN)
    p50 = one.p50(work) if one is not None else None
    if one is None or p50 is None:
        return "-"
    told, p95 = _short(p50), one.p95(work)
    if len(one.figures[work]) > 2 and p95 is not None:
        told += f" [{_short(p95)}]"
    mine = own.p50(work) if own is not None else None
    if engine == OWN or not mine or not p50:
        return f"{told}{'':>7}"
    return f"{told}{f'{_short(mine / p50)}x':>7}"


def _short(figure: float) -> str:
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def side_rows(found: Sequence[Sided]) -> list[dict[str, Any]]:
    """The figures as plain values."""
    own = {one.size: one for one in found if one.engine == OWN}
    rows = []
    for work, (name, unit, *_) in WORKS.items():
        for one in found:
            p50 = one.p50(work)
            if p50 is None:
                continue
            mine = own[one.size].p50(work) if one.size in own else None
            rows.append({
                "work": name, "unit": unit, "engine": one.engine, "size": one.size, "p50": p50,
                "p95": one.p95(work), "runs": len(one.figures[work]),
                "ratio": round(mine / p50, 3) if mine and p50 else None,
            })  # fmt: skip
    return rows
