"""Finding lines in a segment's bytes without a table of them: for who needs a few.

A line that is found is not verified yet; what is not found may still be there where the bytes are
damaged. Both are up to the caller.
"""

from __future__ import annotations

from typing import Final

from memplane.lazy import regex
from memplane.log.format import named
from memplane.log.ids import Place

__all__ = ["line_of_seq", "may_hold_id"]

_SEQ: Final = regex(rb'\{"seq":(\d{1,19}),')


def may_hold_id(data: bytes, id_: str) -> bool:
    """Whether that id is said anywhere."""
    return named(id_).encode() in data


def line_of_seq(data: bytes, seq: int) -> Place | None:
    """Where the line with that seq is, by halves: seqs rise. None too where a line looks odd."""
    low, high = 0, len(data)  # lines begin at both
    while low < high:
        middle = (low + high) // 2
        start = max(data.rfind(b"\n", low, middle) + 1, low)
        end = data.find(b"\n", middle) + 1
        said = _SEQ.match(data, start)
        if not end:  # torn
            high = start
        elif said is None:
            return None
        elif int(said[1]) == seq:
            return Place(seq, start, end - start)
        elif int(said[1]) < seq:
            low = end
        else:
            high = start
    return None
