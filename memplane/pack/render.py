"""Placed entries to text, with the marks that let intake recognise a quoted block."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from memplane.pack.block import Entry
from memplane.pack.layout import FENCE, Part
from memplane.ports import TokenCounter

__all__ = ["BEGIN", "Rendered", "frame_reserve", "render"]

BEGIN = "memplane:begin\n"
_END = "memplane:end "


class Rendered(NamedTuple):
    """The block's text and where its areas end: area -> (byte, tokens) behind its last line.

    `at` has the byte and the token at which each of the entries starts.
    """

    text: str
    tokens: int
    frame: int
    entries: tuple[Entry, ...]
    ends: dict[str, tuple[int, int]]
    at: tuple[tuple[int, int], ...]


def frame_reserve(counter: TokenCounter) -> int:
    """Tokens that the begin and end line cost at most, whatever the checksum."""
    # No 16 hexadecimal digits and the blank before them cost more than 17 words of their own.
    return counter.count(BEGIN) + counter.count(f"{_END}{' a' * 17}\n")


def render(
    parts: list[tuple[Part, list[tuple[str, Entry]]]],
    counter: TokenCounter,
    frame: int,
    *,
    framed: bool,
) -> Rendered:  # fmt: skip
    """Join the parts in order, each entry behind its date line where it has one.

    `frame` is what headings, fences and date lines cost; the marks come on top.
    """
    pieces: list[str] = []
    ends: dict[str, tuple[int, int]] = {}
    at: list[tuple[int, int]] = []
    byte = len(BEGIN.encode()) if framed else 0
    tokens = counter.count(BEGIN) if framed else 0
    entries: list[Entry] = []
    for part, placed in parts:
        opening = f"{part.heading}\n{FENCE if part.fenced else ''}"
        closing = FENCE if part.fenced else ""
        pieces.append(opening)
        byte += len(opening.encode())
        tokens += counter.count(opening)
        for dated, entry in placed:
            if dated:
                pieces.append(dated)
                byte += len(dated)
                tokens += counter.count(dated)
            at.append((byte, tokens))
            pieces.append(entry.text)
            byte += len(entry.text.encode())
            tokens += entry.tokens
        pieces.append(closing)
        byte += len(closing)
        tokens += counter.count(closing)
        entries += [entry for _, entry in placed]
        ends[part.area] = (byte, tokens)
    body = "".join(pieces)
    if not framed or not body:
        return Rendered(body, tokens if body else 0, frame, tuple(entries), ends, tuple(at))
    end = f"{_END}{hashlib.sha256(body.encode()).hexdigest()[:16]}\n"
    marks = counter.count(BEGIN) + counter.count(end)
    tokens += counter.count(end)
    text = BEGIN + body + end
    return Rendered(text, tokens, frame + marks, tuple(entries), ends, tuple(at))
