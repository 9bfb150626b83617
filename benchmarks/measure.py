"""What a row of the table is, how it is timed, and how it is shown.

A row is sampled in rounds, its peers in the same rounds, in turns; a fixed loop before and after
each turn says how noisy the machine was meanwhile. Percentiles are of samples, never of means.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["Peer", "Work", "calibrate", "measure", "seconds", "table", "times"]

Sample = Callable[[], list[float]]

_LOOP: Final = 20_000
_WIDTH: Final = 41


@dataclass
class Peer:
    """Something else that does a comparable job, or the floor below which the job cannot go.

    One without a `sample` is not installed, and says so in its row.
    """

    name: str
    sample: Sample | None
    figures: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return statistics.median(self.figures)


@dataclass
class Work:
    """One row. `aim` is what the design asks of `judged`; None where it asks nothing."""

    name: str
    unit: str
    sample: Sample
    aim: float | None = None
    judged: Literal["p50", "p95"] = "p50"
    more_is_better: bool = False
    peers: list[Peer] = field(default_factory=list)
    figures: list[float] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return statistics.median(self.figures)

    @property
    def p95(self) -> float:
        return _p95(self.figures, more_is_better=self.more_is_better)

    @property
    def missed(self) -> bool | None:
        """Whether the aim was missed; None where there is none."""
        if self.aim is None:
            return None
        figure = self.p50 if self.judged == "p50" else self.p95
        return figure < self.aim if self.more_is_better else figure > self.aim

    @property
    def loop(self) -> float:
        """Seconds of the fixed loop beside the samples: what the machine could do meanwhile."""
        return statistics.median(self.loops)

    @property
    def in_loops(self) -> float:
        """The figure in fixed loops, which machines of another speed or load can compare."""
        scale = {"us": 1e6, "ms": 1e3}.get(self.unit.partition("/")[0])
        if scale is not None:
            return self.p50 / (self.loop * scale)
        return self.p50 * self.loop if self.more_is_better else self.p50

    def ratio(self, peer: Peer) -> float:
        """How many times the peer's time this takes: above 1 it is slower."""
        slow, fast = (peer.p50, self.p50) if self.more_is_better else (self.p50, peer.p50)
        return slow / fast if fast else math.inf

    def as_json(self, quiet: float) -> dict[str, Any]:
        """The row as plain values. `quiet`: the shortest loop of the run."""
        return {
            "work": self.name,
            "unit": self.unit,
            "p50": self.p50,
            "p95": self.p95,
            "aim": self.aim,
            "judged": self.judged,
            "missed": self.missed,
            "runs": len(self.figures),
            "loop_us": self.loop * 1e6,
            "in_loops": self.in_loops,
            "noise": self.loop / quiet,
            "peers": [
                {
                    "name": p.name,
                    "p50": p.p50,
                    "p95": _p95(p.figures, more_is_better=self.more_is_better),
                    "ratio": self.ratio(p),
                    "runs": len(p.figures),
                }
                for p in self.peers
                if p.sample is not None
            ],
            "not_installed": [p.name for p in self.peers if p.sample is None],
        }


def calibrate() -> float:
    """Seconds that a fixed loop takes: what the machine can do at this moment."""
    start = time.perf_counter()
    total = 0
    for number in range(_LOOP):
        total += number * number % 7
    assert total
    return time.perf_counter() - start


def seconds(act: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def times(act: Callable[[], object], runs: int, scale: float) -> Sample:
    """A sample of so many calls, in seconds times `scale`."""
    return lambda: [seconds(act) * scale for _ in range(runs)]


def measure(works: list[Work], rounds: int, tell: Callable[[str], None]) -> float:
    """Sample every row and its peers, round by round; return the shortest loop seen."""
    calibrate()
    for number in range(rounds):
        for work in works:
            tell(f"round {number + 1} of {rounds}: {work.name}")
            work.loops.append(calibrate())
            there = [peer for peer in work.peers if peer.sample is not None]
            turns: list[Work | Peer] = [work, *there]
            # Who comes first finds other caches than who comes second: they take turns.
            for one in turns if number % 2 == 0 else reversed(turns):
                one.figures += one.sample()
            work.loops.append(calibrate())
    return min(loop for work in works for loop in work.loops)


def table(works: list[Work], quiet: float) -> str:
    """The rows as text, at most 120 columns wide; `loop` is the fixed loop beside each row."""
    head = f"{'work':<{_WIDTH}} {'p50':>8} {'p95':>8} {'unit':<9} {'aim':>13} {'':<6}"
    lines = [f"{head} {'ratio':>8} {'noise':>5} {'loop us':>8} {'runs':>5}", ""]
    lines[1] = "-" * len(lines[0])
    for work in works:
        sign = ">=" if work.more_is_better else "<="
        aim = "-" if work.aim is None else f"{sign} {_short(work.aim)}"
        if work.aim is not None and work.judged == "p95":
            aim += " p95"
        verdict = {None: "", True: "MISSED", False: "met"}[work.missed]
        lines.append(
            f"{work.name:<{_WIDTH}} {_short(work.p50):>8} {_short(work.p95):>8} {work.unit:<9} "
            f"{aim:>13} {verdict:<6} {'':>8} {work.loop / quiet:>5.2f} {work.loop * 1e6:>8,.0f} "
            f"{len(work.figures):>5}"
        )
        for peer in work.peers:
            if peer.sample is None:
                lines.append(f"    {peer.name}: not installed")
                continue
            p95 = _p95(peer.figures, more_is_better=work.more_is_better)
            lines.append(
                f"{'    ' + peer.name:<{_WIDTH}} {_short(peer.p50):>8} {_short(p95):>8} "
                f"{'':<9} {'':>13} {'':<6} {work.ratio(peer):>7.2f}x"
            )
    return "\n".join(line.rstrip() for line in lines)


def _p95(figures: list[float], *, more_is_better: bool) -> float:
    """What 19 of 20 samples do not exceed; of rates, what they do not fall below."""
    ordered = sorted(figures, reverse=more_is_better)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def _short(figure: float) -> str:
    if figure >= 1000:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"
