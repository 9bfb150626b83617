"""What an observer costs a pack, in per cent: pairs of packs in one process, by CPU time.

Wall time on a shared machine differs by more than what is looked for. So packs with and without
are made in turns, in the order A B B A, thousands of them, and each is timed by the CPU time of its
thread; a sample is the difference of one such pair, and the row its median.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import workload
from measure import Work

from memplane.observe import JsonLogs, Observing, note
from memplane.plane import Plane

if TYPE_CHECKING:
    from place import Place

__all__ = ["OBSERVER_WORKS"]

_BUDGET: Final = 4000
_LOOPS: Final = 20_000
_PAIRS_EACH: Final = 2  # of a run, as the rows of the table count them


class _Counting:
    """Counts what an observer is told of."""

    def __init__(self) -> None:
        self.told = 0

    def event(self, _name: str, _fields: Mapping[str, Any]) -> None:
        self.told += 1

    def span(self, _name: str, _fields: Mapping[str, Any]) -> AbstractContextManager[None]:
        self.told += 1
        return nullcontext()


def _packing(place: Place) -> Callable[[Callable[..., object]], int]:
    """A pack by a function of a query: the nanoseconds of CPU that it took."""
    queries = itertools.cycle([query for query in workload.QUERIES for _ in range(4)])

    def packed(pack: Callable[..., object]) -> int:
        query = next(queries)
        begun = time.thread_time_ns()
        pack(query, session=place.session, intent="fast", budget=_BUDGET)
        return time.thread_time_ns() - begun

    return packed


def _pairs(
    packed: Callable[[Callable[..., object]], int],
    one: Callable[..., object],
    other: Callable[..., object],
    count: int,
) -> list[float]:
    """By how many per cent `other` takes longer than `one`, of so many pairs of two and two."""
    found = []
    gc.disable()  # what it collects belongs to neither
    try:
        for at in range(count):
            first = packed(one)
            second = packed(other) + packed(other)
            first += packed(one)
            found.append(100 * (second - first) / first)
            if not at % 50:
                gc.collect()
    finally:
        gc.enable()
    return found


def unobserved(place: Place, runs: int) -> Work:
    """What a pack without an observer takes to ask for one, of the CPU time of the pack.

    Every place that would tell one something is counted, and asked in a loop without one: that is
    all there is where nobody observes, so nothing has to be told from the noise of two packs.
    """
    plane = place.big_open
    packed = _packing(place)

    def sample() -> list[float]:
        asked = _asked_ns(plane)
        return [100 * asked / packed(plane.pack) for _ in range(runs * _PAIRS_EACH)]

    return Work("fast pack, no observer: of its time", "%", sample, aim=1)


def _asked_ns(plane: Plane) -> float:
    """Nanoseconds that the places inside one pack take to ask for an observer."""
    counting, context = _Counting(), plane.context
    context.observing = Observing(counting, "plane")
    plane.pack(workload.QUERIES[0], intent="fast", budget=_BUDGET)
    context.observing = None
    begun = time.thread_time_ns()
    for _ in range(_LOOPS):
        said: dict[str, Any] = {"channel": None}
        with context.span("pack", said):
            note("asked", {"count": 1})
        said.update(tokens=1, count=1)
    return counting.told * (time.thread_time_ns() - begun) / _LOOPS


def logged(place: Place, runs: int) -> Work:
    """A pack with lines of JSON beside one without an observer; the lines go nowhere."""
    plane = place.big_open
    packed = _packing(place)
    nowhere: IO[str] = Path("/dev/null").open("w", encoding="utf-8")  # noqa: SIM115 - as long as the run
    observing = Observing(JsonLogs(nowhere), "plane")

    def with_logs(*given: Any, **named: Any) -> None:
        plane.context.observing = observing
        plane.pack(*given, **named)
        plane.context.observing = None

    def sample() -> list[float]:
        return _pairs(packed, plane.pack, with_logs, runs * _PAIRS_EACH)

    return Work("fast pack, JSON logs: more than without", "%", sample, aim=3)


OBSERVER_WORKS: Final = {"unobserved": unobserved, "json-logs": logged}
