"""A bar on stderr for work that takes more than a second, where stderr is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

__all__ = ["Bar"]

_AFTER_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 0.1
_CELLS: Final = 24


class Bar:
    """Call it with what is done and what there is; it draws itself when it is time to, and goes."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _AFTER_SECONDS
        self._drawn = 0

    def __call__(self, done: int, total: int, events: int | None = None) -> None:
        now = time.monotonic()
        if not self._terminal or now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        share = min(1.0, done / total) if total else 1.0
        cells = "#" * round(share * _CELLS)
        count = "" if events is None else f"  {events} events"
        line = f"{self._what} [{cells:.<{_CELLS}}] {share:4.0%}{count}"
        print(f"\r{line:<{self._drawn}}", end="", file=sys.stderr, flush=True)
        self._drawn = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            print(f"\r{'':{self._drawn}}\r", end="", file=sys.stderr, flush=True)
