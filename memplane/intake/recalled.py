"""A quoted block is memory coming back, not something new that was said.

An agent that echoes the block it was given would have it recorded again, and retrieved again, each
turn. A block whose checksum verifies is taken out of the text; anything else stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from memplane.lazy import regex

__all__ = ["without_blocks"]

_BEGIN: Final = "memplane:begin\n"
_MARK: Final = regex(r"^memplane:(?:begin\n|end ([0-9a-f]{16})(?:\n|\Z))", re.MULTILINE)


def without_blocks(text: str) -> tuple[str, list[str]]:
    """The text without the blocks quoted in it, and their checksums in order; one pass."""
    if _BEGIN not in text:
        return text, []
    found: list[str] = []
    kept: list[str] = []
    at, begin = 0, None
    for mark in _MARK.finditer(text):
        if mark[1] is None:
            begin = mark  # no line inside a block looks like a mark, so the nearest one opens it
        elif begin is not None:
            body = text[begin.end() : mark.start()].encode("utf-8", "surrogatepass")
            if hashlib.sha256(body).hexdigest()[:16] == mark[1]:
                found.append(mark[1])
                kept.append(text[at : begin.start()])
                at = mark.end()
            begin = None
    return ("".join([*kept, text[at:]]), found) if found else (text, [])
