"""What lies among the segments under the name of one and is none: told by a look, never read.

A folder, a pipe or a link; a segment of another plane; a copy of a segment, or one
that lost its place: its header follows a line that does not lie behind the segments before it.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from memplane import nofollow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["SUFFIX", "listed", "out_of_order"]

SUFFIX: Final = ".jsonl"


def listed(folder: str) -> tuple[list[int], dict[int, str]]:
    """The numbers of the files in a log's folder, ascending; of what is no file, what it is."""
    found: list[int] = []
    strays: dict[int, str] = {}
    try:
        fd = nofollow.enter(folder)
    except FileNotFoundError:
        return [], {}
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if len(name) != 8 + len(SUFFIX) or not name.endswith(SUFFIX):
                    continue
                if not (name[:8].isascii() and name[:8].isdigit()):
                    continue
                if entry.is_file(follow_symlinks=False):
                    found.append(int(name[:8]))
                else:
                    what = nofollow.kind_of(entry.stat(follow_symlinks=False).st_mode)
                    strays[int(name[:8])] = f"is {what}, expected a file"
    finally:
        os.close(fd)
    return sorted(found), strays


def out_of_order(follows: Mapping[int, int | None], size: Callable[[int], int]) -> dict[int, str]:
    """Which segments do not lie behind those before them, and why; the fewest that can be blamed.

    `follows` gives by number, ascending, the seq before each segment, None where its header is
    damaged: that one is not judged. Of as many, the larger ones stay, then the earlier.
    """
    known = [(number, seq) for number, seq in follows.items() if seq is not None]
    if all(one[1] < two[1] for one, two in pairwise(known)):
        return {}
    # The best row of segments that ends with each: how many, how many bytes, the one before it.
    best: list[tuple[int, int, int]] = []
    for at, (number, seq) in enumerate(known):
        count, weight, before = 0, 0, -1
        for earlier in range(at):
            if known[earlier][1] < seq and best[earlier][:2] > (count, weight):
                count, weight, before = *best[earlier][:2], earlier
        best.append((count + 1, weight + size(number), before))
    at = max(range(len(best)), key=lambda each: (*best[each][:2], -each))
    kept: set[int] = set()
    while at >= 0:
        kept.add(known[at][0])
        at = best[at][2]
    return {
        number: f"follows seq {seq}, which is not behind the segments before it: "
        "a copy, or under the wrong name"
        for number, seq in known
        if number not in kept
    }
