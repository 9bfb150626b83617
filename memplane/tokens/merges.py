"""Byte pair encoding, and how bad it can get when the context is not known.

Two facts carry every bound here. In the final state of byte pair encoding no two
neighbours together are a token, else they would have been merged. And each token begins
in exactly one place, so charging every place with the largest number of tokens that can
begin there is never too little, whatever stands around it.
"""

from __future__ import annotations

__all__ = ["closing", "pieces", "starting"]

_NEVER = 1 << 30


def pieces(text: bytes, ranks: dict[bytes, int]) -> int:
    """Count the tokens that a whole pretoken becomes."""
    if text in ranks:
        return 1
    get = ranks.get
    parts = [text[at : at + 1] for at in range(len(text))]
    joins = [get(text[at : at + 2], _NEVER) for at in range(len(text) - 1)]
    while joins:
        best = min(joins)
        if best == _NEVER:
            break
        at = joins.index(best)
        merged = parts[at] = parts[at] + parts.pop(at + 1)
        del joins[at]
        if at < len(joins):
            joins[at] = get(merged + parts[at + 1], _NEVER)
        if at:
            joins[at - 1] = get(parts[at - 1] + merged, _NEVER)
    return len(parts)


def starting(text: bytes, ranks: dict[bytes, int]) -> int:
    """Bound the tokens that can begin in these bytes, whatever stands before and behind them.

    The sum over any partition of a text is never below its count.
    """
    # From where the last whole token ends, one more may reach beyond the text.
    return 1 + max(_most(text, ranks, anywhere=True)[:-1])


def closing(text: bytes, newline: bytes, ranks: dict[bytes, int]) -> int:
    """Bound a pretoken that reads on over the newline into lines not yet known.

    For every continuation F that begins with `newline`: tokens(text + F) - (len(F) - 1) at
    most. Each further byte of F is charged 1 by the line it stands in.
    """
    # Either a token ends behind the newline, and all tokens up to there count; or the one that
    # takes the newline in takes a further byte of F too, which pays for it, and only the
    # tokens before it count, wherever they end.
    return max(_most(text + newline, ranks, anywhere=False))


def _most(text: bytes, ranks: dict[bytes, int], *, anywhere: bool) -> list[int]:
    """For each place in the text: the most whole tokens of a final state that end there.

    The first of them begins with the text or, with `anywhere`, wherever a token that came in
    from before may have ended. Impossible places have 0.
    """
    size = len(text)
    most = [0] * (size + 1)
    # Bit sets of ends: `tokens[start]` of the tokens that begin there; `merging[at][count]`, for
    # the states of that count that end at `at`, of the ends with which each of them would merge.
    tokens = [
        sum(1 << end for end in range(start + 1, size + 1) if text[start:end] in ranks)
        for start in range(size)
    ]
    merging: list[dict[int, int]] = [{} for _ in range(size + 1)]
    for start in range(size):
        opening = 1 if anywhere or start == 0 else 0
        before = sorted(merging[start].items(), reverse=True)
        for end in range(start + 1, size + 1):
            if not tokens[start] >> end & 1:
                continue
            count = next((so_far + 1 for so_far, ends in before if not ends >> end & 1), opening)
            if count:
                most[end] = max(most[end], count)
                merging[end][count] = merging[end].get(count, -1) & tokens[start]
    return most
