"""Byte pair encoding, and how bad it can get when the context is not known.

Three facts carry every bound here. Each token begins in exactly one place, so charging every
place with the largest number of tokens that can begin there is never too little. In the final
state no two neighbours together are a token, else they would have been merged. And tokens
that stand side by side in a final state are what their bytes alone become: no merge ever
crossed their ends, so the others came in the same order as they would alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.tokens.index import Ranks

__all__ = ["closing", "merged", "pieces", "starting"]

_NEVER = 1 << 30


def pieces(text: bytes, ranks: dict[bytes, int] | Ranks) -> int:
    """Count the tokens that a whole pretoken becomes."""
    return 1 if text in ranks else merged(text, ranks)


def merged(text: bytes, ranks: dict[bytes, int] | Ranks) -> int:
    """Count the tokens that merging leaves: 1 for every token, as the build of the table checks."""
    get = ranks.get
    cuts = list(range(len(text) + 1))
    joins = [get(text[at : at + 2], _NEVER) for at in range(len(text) - 1)]
    while joins:
        best = min(joins)
        if best == _NEVER:
            break
        at = joins.index(best)
        del cuts[at + 1], joins[at]
        if at < len(joins):
            joins[at] = get(text[cuts[at] : cuts[at + 2]], _NEVER)
        if at:
            joins[at - 1] = get(text[cuts[at - 1] : cuts[at + 1]], _NEVER)
    return len(cuts) - 1


def closing(text: bytes, newline: bytes, ranks: dict[bytes, int] | Ranks) -> int:
    """Bound a pretoken that reads on over the newline into lines not yet known.

    For every continuation F that begins with `newline`: tokens(text + F) - (len(F) - 1) at
    most. Each further byte of F is charged 1 by the line it stands in.
    """
    # Either a token ends behind the newline, and all tokens up to there count; or the one that
    # takes the newline in takes a further byte of F too, which pays for it, and only the
    # tokens before it count, wherever they end. Such a token up to LF, or up to the byte behind
    # it, is a token too (the build checks it), which rules out most places.
    whole = text + newline
    places = [end for end in range(1, len(whole)) if newline != b"\n" or _on(whole[end:], ranks)]
    return max(pieces(whole[:end], ranks) for end in (*places, len(whole)))


def _on(tail: bytes, ranks: dict[bytes, int] | Ranks) -> bool:
    return tail in ranks or any(tail + further in ranks for further in (b"\n", b"\r", b"/"))


def starting(text: bytes, ranks: dict[bytes, int] | Ranks) -> int:
    """Bound the tokens that can begin in these bytes, whatever stands before and behind them.

    The sum over any partition of a text is never below its count.
    """
    size = len(text)
    # Bit sets of ends: `tokens[start]` of the tokens that begin there; `merging[at][count]`, for
    # the final states of that count that end at `at`, of the ends with which all would merge.
    tokens = [
        sum(1 << end for end in range(start + 1, size + 1) if text[start:end] in ranks)
        for start in range(size)
    ]
    merging: list[dict[int, int]] = [{} for _ in range(size + 1)]
    for start in range(size):
        before = sorted(merging[start].items(), reverse=True)
        for end in range(start + 1, size):
            if tokens[start] >> end & 1:
                # Any token may be the first: one from before the text may end where it begins.
                count = next((so_far + 1 for so_far, ends in before if not ends >> end & 1), 1)
                merging[end][count] = merging[end].get(count, -1) & tokens[start]
    # From where the last whole token ends, one more may reach beyond the text.
    return 1 + max((max(counts) for counts in merging if counts), default=0)
