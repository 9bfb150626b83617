"""Saved requests packed again under two policies: what enters, what leaves, what it costs.

Each request is packed at its own place in the log and by its own clock.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memplane.errors import MemplaneError, PolicyError
from memplane.explain.history import PolicyVersion
from memplane.explain.replay import asked_of
from memplane.pack.block import Block, Entry
from memplane.pack.report import LogChanges, chain_of, compared, shape_of
from memplane.upkeep.reports import Saved, saved

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = [
    "Blocks",
    "Moved",
    "Side",
    "Trial",
    "TrialPack",
    "Tried",
    "in_order",
    "last",
    "seq_of",
    "trial",
    "trial_blocks",
]


Blocks: TypeAlias = tuple[Block | None, Block | None]
Report: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[int, int], None]
Key: TypeAlias = tuple[str, str, str]

_NO_STORY: Final = LogChanges(lambda _: None, lambda _: None, lambda: False)
_PPM: Final = 1_000_000
# What two reports are compared by, besides their prefix.
_COMPARED: Final = ("policies", "views", "budget", "channel", "entries", "tokens")
_ASKED: Final = ("request", "log", "acb_sha256")


class Moved(NamedTuple):
    """An entry that stands in one of two blocks: the id of its event, or what else it is made of.

    Several ids stand side by side.
    """

    name: str
    section: str
    tokens: int


class TrialPack(NamedTuple):
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
    before: TrialPack | None
    after: TrialPack | None
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
            "report": self.report,
            "seq": self.seq,
            "session": self.session,
            "same": self.same,
            "before": None if self.before is None else self.before._asdict(),
            "after": None if self.after is None else self.after._asdict(),
            "enters": [one._asdict() for one in self.enters],
            "leaves": [one._asdict() for one in self.leaves],
            "resized": [one._asdict() for one in self.resized],
            "why": self.why,
        }


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
        packs: list[TrialPack] = [getattr(row, name) for row in self.packed]
        sections: Counter[str] = Counter()
        for pack in packs:
            sections.update(pack.sections)
        repeating = [pack for pack in packs if pack.common_tokens is not None]
        common = sum(pack.common_tokens or 0 for pack in repeating)
        total = sum(pack.tokens for pack in repeating)
        return Side(
            sum(pack.tokens for pack in packs),
            dict(sections),
            common * _PPM // max(1, total) if repeating else None,
        )

    def largest(self, most: int) -> list[Tried]:
        """The packs that changed, those with the largest change first."""
        changed = [row for row in self.packed if not row.same]
        return sorted(changed, key=lambda row: (-row.moved_tokens, row.seq, row.report))[:most]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        packed = self.packed
        return {
            "from": self.old,
            "to": self.new,
            "packs": len(self.rows),
            "failed": len(self.rows) - len(packed),
            "same": sum(row.same for row in packed),
            "before": self.side("before")._asdict(),
            "after": self.side("after")._asdict(),
            "enters": _by_section(row.enters for row in packed),
            "leaves": _by_section(row.leaves for row in packed),
            "rows": [row.as_json() for row in self.rows],
        }


def last(home: Path, most: int) -> list[Saved]:
    """The newest saved requests of a home, newest first: of their reports what a trial needs."""
    return [
        one._replace(report={name: one.report[name] for name in _ASKED})
        for one in islice(saved(home), most)
    ]


def trial(
    plane: Plane,
    asked: Sequence[Saved],
    old: PolicyVersion,
    new: PolicyVersion,
    *,
    progress: Progress | None = None,
) -> Trial:
    """Pack the saved requests again under both versions. Reads only.

    `progress` is called with the requests done and the requests in all. Raises PolicyError where a
    version has mistakes; what stops a single request is named in its row.
    """
    rows: list[Tried] = []
    sides = (_Sessions(), _Sessions())
    for one, blocks, why in trial_blocks(plane, asked, old, new):
        rows.append(_tried(one, blocks, why, sides))
        if progress is not None:
            progress(len(rows), len(asked))
    return Trial(old.name, new.name, tuple(rows))


class _Sessions:
    """The last pack of every session and shape under one policy: what the next is compared by."""

    def __init__(self) -> None:
        self._last: dict[str, Report] = {}

    def packed(self, block: Block) -> TrialPack:
        """Note the next pack, and compare it with the one before."""
        report = block.report
        common = None
        if report["request"].get("session") is not None:
            kept: Report = {name: report[name] for name in _COMPARED}
            kept["prefix"] = {**report["prefix"], "chain": chain_of(block)}
            shape = shape_of(report)
            if shape in self._last:
                common = _common(self._last[shape], kept)
            self._last[shape] = kept
        sections = {name: row["used"] for name, row in report["sections"].items()}
        return TrialPack(report["acb_sha256"], block.tokens, sections, common)


def _common(old: Report, new: Report) -> int:
    tokens: int = compared(old, new, None, _NO_STORY)["common_tokens"]
    return tokens


def _tried(asked: Saved, blocks: Blocks, why: str, sides: tuple[_Sessions, _Sessions]) -> Tried:
    old, new = blocks
    before, after = (
        None if block is None else side.packed(block)
        for side, block in zip(sides, blocks, strict=True)
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


# Two versions of the policies take turns at packing the same requests, in the order of the log:
# each plane folds the log once, forward.


def in_order(asked: Sequence[Saved]) -> list[Saved]:
    """The requests in the order of the log."""
    return sorted(asked, key=lambda one: (seq_of(one), one.id))


def seq_of(asked: Saved) -> int:
    """The last event that the request could see."""
    seq: int = asked.report["log"]["seq"]
    return seq


def trial_blocks(
    plane: Plane, asked: Sequence[Saved], old: PolicyVersion, new: PolicyVersion
) -> Generator[tuple[Saved, Blocks, str]]:
    """Yield each report with its block under both versions, and why there is none, in log order.

    The blocks are those that `Plane.under` packs at the report's place in the log.
    """
    order = in_order(asked)
    head = plane.head().seq
    there = [one for one in order if seq_of(one) <= head]
    first = seq_of(there[0]) if there else 0
    with ExitStack() as stack:
        sides = [stack.enter_context(plane.under(one.files, first)) for one in (old, new)]
        for side, version in zip(sides, (old, new), strict=True):
            _check_policies(side, version)
        for one in there:
            yield one, *_packed_under(sides, one)
    for one in order[len(there) :]:
        yield one, (None, None), f"made at event {seq_of(one)}; this log ends at {head}"


def _check_policies(plane: Plane, version: PolicyVersion) -> None:
    """Raise PolicyError with the version named in every mistake."""
    try:
        _ = plane.policies
    except PolicyError as error:
        placed = (one._replace(file=f"{version}: {one.file}") for one in error.problems)
        raise PolicyError(tuple(placed)) from None


def _packed_under(sides: Sequence[Plane], asked: Saved) -> tuple[Blocks, str]:
    """The blocks of a report's request; and why one is not there."""
    found: list[Block | None] = []
    why, log = "", asked.report["log"]
    for side in sides:
        side.advance(log["seq"])
        try:
            block = side.pack(**asked_of(asked))
        except MemplaneError as error:
            found.append(None)
            why = why or str(error)
            continue
        if block.report["log"]["h"] != log["h"]:
            return (None, None), f"another log: event {log['seq']} has another hash there"
        found.append(block)
    return (found[0], found[1]), why
