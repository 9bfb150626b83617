"""The wall clock in the log's form, RFC 3339 in UTC: `2026-01-05T12:00:00.000000Z`."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Final


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


# Ids of events that came without one.
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DRAWN: Final = 8 * _ALPHABET.encode()  # a letter for each byte of chance


def ulid(now: str) -> str:
    """A ULID (github.com/ulid/spec): 48 bits of the time in milliseconds, 80 of chance."""
    return _moment(now[:23]) + os.urandom(16).translate(_DRAWN).decode()


# Of the events of a bulk some ten share a millisecond.
@lru_cache(maxsize=1)
def _moment(now: str) -> str:
    moment = max(0, _seconds(now[:19]) * 1000 + int(now[20:23]))
    return "".join([_ALPHABET[moment >> shift & 31] for shift in range(45, -1, -5)])


@lru_cache(maxsize=1)
def _seconds(now: str) -> int:
    # By hand: `datetime` would be a tenth of what a hook costs.
    year, month, day = int(now[:4]), int(now[5:7]), int(now[8:10])
    year -= month < 3  # years from March, so that a leap day is the last of one
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5
    seconds = 3600 * int(now[11:13]) + 60 * int(now[14:16]) + int(now[17:19])
    return (days + day - 719_469) * 86_400 + seconds
