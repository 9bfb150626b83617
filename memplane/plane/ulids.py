"""Ids of events that came without one."""

from __future__ import annotations

import os
from datetime import datetime
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
    return max(0, int(datetime.fromisoformat(now).timestamp() * 1000))
