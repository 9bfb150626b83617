"""Touches of files: which events are one, and how warm a file is after them.

A file's heat is the number of its touches, each worth half after `HALF_LIFE` more touches of any
file in the same session. Touches are the clock, so a night does not cool what was left open. Heat
is a whole number: `fade` multiplies by a table of powers of two, the same on every machine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

from memplane.event import Event

__all__ = [
    "FILES",
    "HALF_LIFE",
    "PATH_MAX",
    "UNIT",
    "FileTable",
    "Touch",
    "fade",
    "json_bytes",
    "json_bytes_of",
    "touched_by",
]

HALF_LIFE: Final = 20
UNIT: Final = 1000  # the heat of one touch
FILES: Final = 16  # of one session
PATH_MAX: Final = 300  # characters; a longer path is no file that a line could name
_PPM: Final = 1_000_000
# 2 ** (-step / 20) in millionths.
_POWERS: Final = (
    1_000_000, 965_936, 933_033, 901_250, 870_551, 840_896, 812_252, 784_584, 757_858, 732_043,
    707_107, 683_020, 659_754, 637_280, 615_572, 594_604, 574_349, 554_785, 535_887, 517_632,
)  # fmt: skip
# UNIT * 2 ** (step / 40), for what a file could ever be: halves of a touch.
_HEATS: Final = tuple(
    heat // _PPM
    for heat in accumulate(
        repeat(1_017_480, 200), lambda heat, by: heat * by // _PPM, initial=UNIT * _PPM
    )
)
_ROW_BYTES: Final = 40  # numbers, quotes and commas
_KINDS: Final = frozenset(("tool_call", "artifact", "message"))
# Tools that look around: the path is where they searched, not a file that was worked on. Counting
# them costs 4 of 91 points of what a list of ten covers.
_SEARCHES: Final = frozenset(
    ("grep", "glob", "ls", "list", "find", "search", "rg", "tree", "list_dir", "list_directory",
     "file_search", "grep_search", "search_files", "list_files", "codebase_search")
)  # fmt: skip


def fade(heat: int, age: int, half_life: int = HALF_LIFE) -> int:
    """What is left of the heat after `age` touches; never more than before, 0 in the end."""
    halvings, step = divmod(age * HALF_LIFE // half_life, HALF_LIFE)
    return heat * _POWERS[step] // _PPM >> halvings


def touched_by(event: Event) -> tuple[str, str] | None:
    """Path and branch of the file that the event works on; None where it works on none."""
    if event.kind not in _KINDS or not event.data:
        return None
    data: dict[str, Any] = event.data
    path, branch, tool = data.get("path"), data.get("branch"), data.get("tool")
    if not isinstance(path, str) or not path or len(path) > PATH_MAX:
        return None
    if isinstance(tool, str) and tool.lower() in _SEARCHES:
        return None
    return path, branch[:PATH_MAX] if isinstance(branch, str) else ""


class Touch(NamedTuple):
    """The last touch of a file in a session: its event, and the heat at that tick of the clock.

    Whatever the clock is, of two touches the one with the lower `rank` is colder.
    """

    seq: int
    branch: str
    heat: int
    at: int
    rank: int

    @classmethod
    def of(cls, seq: int, branch: str, heat: int, at: int) -> Touch:
        """A touch with its rank: the tick at which one touch alone would be as warm, doubled."""
        rank = 2 * at + bisect_right(_HEATS, heat)
        return tuple.__new__(cls, (seq, branch, heat, at, rank))  # the quickest way to make one


_RANK: Final = itemgetter(Touch._fields.index("rank"))


class FileTable:
    """The files of one session, by their last touch; the coldest of seventeen goes."""

    __slots__ = ("bytes", "clock", "touches")

    def __init__(self) -> None:
        self.clock = 0  # touches so far
        self.bytes = 0  # an upper bound of the rows in the file
        self.touches: dict[str, Touch] = {}

    def touch(self, path: str, seq: int, branch: str) -> list[int]:
        """Note a touch; return the seqs of touches that the table let go."""
        self.clock += 1
        before = self.touches.pop(path, None)
        gone, heat = [], UNIT
        if before is not None:
            gone.append(before.seq)
            heat += fade(before.heat, self.clock - before.at)
            self.bytes -= _size_of(path, before.branch)
        self.touches[path] = Touch.of(seq, branch, heat, self.clock)
        self.bytes += _size_of(path, branch)
        if len(self.touches) > FILES:
            # Never the newest: it would come in cold again and again. Of equals the oldest, which
            # stands before the others.
            ranks = [*map(_RANK, self.touches.values())]
            ranks.pop()
            coldest = [*self.touches][ranks.index(min(ranks))]
            old = self.touches.pop(coldest)
            gone.append(old.seq)
            self.bytes -= _size_of(coldest, old.branch)
        return gone

    @classmethod
    def together(cls, tables: Sequence[FileTable]) -> FileTable:
        """What several groups of events touched in one session: each file as warm as all say."""
        if len(tables) == 1:
            return tables[0]
        both = cls()
        both.clock = sum(table.clock for table in tables)
        for table in tables:
            for path, touch in table.touches.items():
                heat, known = table.heat(touch), both.touches.get(path)
                if known is not None:
                    heat += known.heat
                newer = touch if known is None or touch.seq > known.seq else known
                both.touches[path] = Touch.of(newer.seq, newer.branch, heat, both.clock)
        return both

    def warmest(self) -> list[tuple[str, Touch]]:
        """Files by heat now, the warmest first; of equally warm ones the newer touch."""
        return sorted(self.touches.items(), key=lambda one: (-self.heat(one[1]), -one[1].seq))

    def heat(self, touch: Touch) -> int:
        """The heat of a file now."""
        return fade(touch.heat, self.clock - touch.at)

    def fields(self) -> list[Any]:
        """The table as JSON values."""
        return [self.clock, [[path, *touch[:-1]] for path, touch in self.touches.items()]]

    @classmethod
    def of(cls, fields: list[Any]) -> FileTable:
        """The table that `fields` gave."""
        table = cls()
        table.clock = fields[0]
        table.touches = {path: Touch.of(*rest) for path, *rest in fields[1]}
        table.bytes = sum(_size_of(path, touch.branch) for path, touch in table.touches.items())
        return table


@lru_cache(maxsize=4096)  # the same files are touched again and again
def _size_of(path: str, branch: str) -> int:
    return _ROW_BYTES + json_bytes(path) + json_bytes(branch)


def json_bytes(text: str) -> int:
    """An upper bound of the bytes of a text in JSON, without its quotes."""
    return len(text) if _is_plain(text) else 6 * len(text)


def json_bytes_of(texts: Sequence[str]) -> int:
    """The same of many texts, added up; they are looked at together, as nearly all are plain."""
    joined = "".join(texts)
    return len(joined) if _is_plain(joined) else sum([json_bytes(text) for text in texts])


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
