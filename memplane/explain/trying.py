"""Saved requests packed again under two policies: what enters, what leaves, what it costs.

Each request is packed at its own place in the log and by its own clock.
"""

from __future__ import annotations

import gc
import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memplane.explain.turns import Blocks, blocks_of, in_order, seq_of
from memplane.explain.versions import Version
from memplane.pack.block import Block, Entry
from memplane.pack.comparing import Story, chain_of, compared, shape_of
from memplane.plane.reports import Saved, saved

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = ["Moved", "Packed", "Part", "Side", "Trial", "Tried", "last", "part", "trial"]

Report: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[int, int], None]
Key: TypeAlias = tuple[str, str, str]

_NO_STORY: Final = Story(lambda _: None, lambda _: None, lambda: False)
_PPM: Final = 1_000_000
# What two reports are compared by, besides their prefix.
_COMPARED: Final = ("policies", "views", "budget", "channel", "entries", "tokens")
_ASKED: Final = ("request", "log", "acb_sha256")
_SIDES_AT: Final = 3  # `before` in a row; `after` follows
# With fewer requests a second process, which folds the log too, is not worth it.
_SHARED_FROM: Final = 60


class Moved(NamedTuple):
    """An entry that stands in one of two blocks: the id of its event, or what else it is made of.

    Several ids stand side by side.
    """

    name: str
    section: str
    tokens: int


class Packed(NamedTuple):
    """One pack: its hash, its tokens by section, and what it repeats of the one before it.

    `common_tokens` is None where the session has no pack before it among those tried.
    """

    sha256: str
    tokens: int
    sections: dict[str, int]
    common_tokens: int | None


class Tried(NamedTuple):
    """One request under both policies.

    A side is None where it could not be packed: `why` says so. `resized` entries stand in both
    with other tokens.
    """

    report: str
    seq: int
    session: str | None
    before: Packed | None
    after: Packed | None
    enters: tuple[Moved, ...] = ()
    leaves: tuple[Moved, ...] = ()
    resized: tuple[Moved, ...] = ()
    why: str = ""

    @property
    def same(self) -> bool:
        """Whether both blocks are the same, byte for byte."""
        return (
            self.before is not None
            and self.after is not None
            and self.before.sha256 == self.after.sha256
        )

    @property
    def moved_tokens(self) -> int:
        """How many tokens came and went: the size of the change."""
        return sum(one.tokens for one in (*self.enters, *self.leaves))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "report": self.report, "seq": self.seq, "session": self.session, "same": self.same,
            "before": None if self.before is None else self.before._asdict(),
            "after": None if self.after is None else self.after._asdict(),
            "enters": [one._asdict() for one in self.enters],
            "leaves": [one._asdict() for one in self.leaves],
            "resized": [one._asdict() for one in self.resized],
            "why": self.why,
        }  # fmt: skip


class Side(NamedTuple):
    """All packs under one policy: tokens, those of each section, and the share repeated.

    `prefix_ppm` is None where no pack has one before it in its session.
    """

    tokens: int
    sections: dict[str, int]
    prefix_ppm: int | None


class Trial(NamedTuple):
    """Every request tried, in the order of the log."""

    old: str
    new: str
    rows: tuple[Tried, ...]

    @property
    def packed(self) -> list[Tried]:
        """Those that could be packed under both."""
        return [row for row in self.rows if row.before is not None and row.after is not None]

    def side(self, name: str) -> Side:
        """The packs of one side, `before` or `after`, of those that could be packed under both."""
        packs: list[Packed] = [getattr(row, name) for row in self.packed]
        sections: Counter[str] = Counter()
        for pack in packs:
            sections.update(pack.sections)
        repeating = [pack for pack in packs if pack.common_tokens is not None]
        common = sum(pack.common_tokens or 0 for pack in repeating)
        total = sum(pack.tokens for pack in repeating)
        return Side(
            sum(pack.tokens for pack in packs), dict(sections),
            common * _PPM // max(1, total) if repeating else None,
        )  # fmt: skip

    def largest(self, most: int) -> list[Tried]:
        """The packs that changed, those with the largest change first."""
        changed = [row for row in self.packed if not row.same]
        return sorted(changed, key=lambda row: (-row.moved_tokens, row.seq, row.report))[:most]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        packed = self.packed
        return {
            "from": self.old, "to": self.new,
            "packs": len(self.rows), "failed": len(self.rows) - len(packed),
            "same": sum(row.same for row in packed),
            "before": self.side("before")._asdict(), "after": self.side("after")._asdict(),
            "enters": _by_section(row.enters for row in packed),
            "leaves": _by_section(row.leaves for row in packed),
            "rows": [row.as_json() for row in self.rows],
        }  # fmt: skip


def last(home: Path, most: int) -> list[Saved]:
    """The newest saved requests of a home, newest first: of their reports what a trial needs."""
    return [
        one._replace(report={name: one.report[name] for name in _ASKED})
        for one in islice(saved(home), most)
    ]


def trial(
    plane: Plane, asked: Sequence[Saved], old: Version, new: Version, *,
    progress: Progress | None = None, processes: int = 1,
) -> Trial:  # fmt: skip
    """Pack the saved requests again under both versions. Reads only.

    `progress` is told requests done and requests in all. With two `processes` a fork of this one
    does the later half of many requests: only where no other thread runs. Raises PolicyError where
    a version has mistakes; what stops a single request is told in its row.
    """
    order = in_order(asked)
    if processes > 1 and len(order) >= _SHARED_FROM:
        from memplane.explain.halves import halves  # noqa: PLC0415 - for many requests only

        parts = halves(plane, order, old, new, progress)
    else:
        parts = [part(plane, order, old, new, progress)]
    rows = parts[0].rows
    for before, after in pairwise(parts):
        rows += _joined(before, after)
    return Trial(old.name, new.name, tuple(rows))


class Part(NamedTuple):
    """Some of the requests, one after the other; `sides` keep what joins them to others."""

    rows: list[Tried]
    sides: tuple[_Sessions, _Sessions]


def part(
    plane: Plane, order: Sequence[Saved], old: Version, new: Version,
    progress: Progress | None = None,
) -> Part:  # fmt: skip
    """Try requests that are in the order of the log."""
    made = Part([], (_Sessions(), _Sessions()))
    with _uncollected():
        for one, blocks, why in blocks_of(plane, order, old, new):
            made.rows.append(_tried(one, blocks, why, made))
            if progress is not None:
                progress(len(made.rows), len(order))
    return made


def _joined(before: Part, after: Part) -> list[Tried]:
    """The rows of the later part, its first packs of a session held against the earlier part's."""
    rows = list(after.rows)
    for number, late in enumerate(after.sides):
        for shape, (at, report) in late.first.items():
            old, packed = before.sides[number].last.get(shape), rows[at][_SIDES_AT + number]
            if old is not None and isinstance(packed, Packed):
                joined = packed._replace(common_tokens=_common(old, report))
                fields = list(rows[at])
                fields[_SIDES_AT + number] = joined
                rows[at] = Tried._make(fields)
    return rows


@contextmanager
def _uncollected() -> Generator[None]:
    """Without the cyclic collector: a pack leaves no cycles, and looking for some costs a fifth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Sessions:
    """The first and the last pack of every session and shape under one policy.

    Of their reports what two packs are compared by; the first with its place among all.
    """

    def __init__(self) -> None:
        self.first: dict[str, tuple[int, Report]] = {}
        self.last: dict[str, Report] = {}

    def packed(self, block: Block, at: int) -> Packed:
        """Note the next pack, and hold it against the one before."""
        report = block.report
        common = None
        if report["request"].get("session") is not None:
            kept: Report = {name: report[name] for name in _COMPARED}
            kept["prefix"] = {**report["prefix"], "chain": chain_of(block)}
            shape = shape_of(report)
            if shape in self.last:
                common = _common(self.last[shape], kept)
            else:
                self.first[shape] = at, kept
            self.last[shape] = kept
        sections = {name: row["used"] for name, row in report["sections"].items()}
        return Packed(report["acb_sha256"], block.tokens, sections, common)


def _common(old: Report, new: Report) -> int:
    tokens: int = compared(old, new, None, _NO_STORY)["common_tokens"]
    return tokens


def _tried(asked: Saved, blocks: Blocks, why: str, made: Part) -> Tried:
    old, new = blocks
    at = len(made.rows)
    before, after = (
        None if block is None else side.packed(block, at)
        for side, block in zip(made.sides, blocks, strict=True)
    )
    session = asked.report["request"].get("session")
    one = Tried(asked.id, seq_of(asked), session, before, after, why=why)
    if old is None or new is None or one.same:
        return one
    was, is_ = _entries(old.entries), _entries(new.entries)
    return one._replace(
        enters=tuple(moved for key, moved in is_.items() if key not in was),
        leaves=tuple(moved for key, moved in was.items() if key not in is_),
        resized=tuple(
            moved for key, moved in is_.items() if key in was and was[key].tokens != moved.tokens
        ),
    )


def _entries(entries: Sequence[Entry]) -> dict[Key, Moved]:
    """Entries by what they are of, one event or a view; else by what they say."""
    found: dict[Key, Moved] = {}
    for entry in entries:
        ids = (*entry.events, *entry.parts)
        name, more = entry.source.partition("@")[0], ""
        if len(ids) == 1 or name == "event":
            name = " ".join(ids)
        elif not name.startswith("view:"):
            more = hashlib.sha256(entry.text.encode()).hexdigest()
        key = (entry.section, name, more)
        tokens = entry.tokens + (found[key].tokens if key in found else 0)
        found[key] = Moved(name, entry.section, tokens)
    return found


def _by_section(groups: Iterable[Sequence[Moved]]) -> dict[str, int]:
    counts = Counter(one.section for group in groups for one in group)
    return dict(sorted(counts.items()))
