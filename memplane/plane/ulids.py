"""Ids of events that came without one."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["ulid"]

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DRAWN: Final = 8 * _ALPHABET.encode()  # a letter for each byte of chance


def ulid(now: str) -> str:
    """A ULID (github.com/ulid/spec): 48 bits of the time in milliseconds, 80 of chance."""
    moment = _milliseconds(now)
    letters = [_ALPHABET[moment >> shift & 31] for shift in range(45, -1, -5)]
    letters.append(os.urandom(16).translate(_DRAWN).decode())
    return "".join(letters)


def _milliseconds(now: str) -> int:
    # By hand: `datetime` would be a tenth of what a hook costs.
    year, month, day = int(now[:4]), int(now[5:7]), int(now[8:10])
    year -= month < 3  # years from March, so that a leap day is the last of one
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5
    seconds = 3600 * int(now[11:13]) + 60 * int(now[14:16]) + int(now[17:19])
    return max(0, ((days + day - 719_469) * 86_400 + seconds) * 1000 + int(now[20:23]))
