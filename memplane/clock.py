"""The wall clock in the log's form: `2026-01-05T12:00:00.000000Z`."""

from __future__ import annotations

import time

__all__ = ["clock"]


class _WallClock:
    """Formats a second once: this runs for every event."""

    def __init__(self) -> None:
        self._second = (-1, "")

    def __call__(self) -> str:
        seconds, rest = divmod(time.time_ns(), 1_000_000_000)
        known, text = self._second
        if known != seconds:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            self._second = (seconds, text)
        return f"{text}.{rest // 1000:06d}Z"


clock = _WallClock()
