"""Whether a prompt may show the text of an artifact: what approvals say, as of a seq and a time.

Not while the copy that was approved is another one by now.

An approval covers the content that it names, of the artifacts that it names, from its seq on,
while it is in force (not forgotten, not replaced) and in time. One that takes back ends all before
it, and is ended itself where it is forgotten. What came from another plane stands among the others
by its time (`projections.order`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memplane.plane.artifact_files import copy_changed
from memplane.projections.artifacts import ArtifactTable, Said, facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memplane.ports import Line
    from memplane.projections.memories import Memories

__all__ = ["Approvals"]


class _Named(NamedTuple):
    """The artifact of an id: its place in the log and its content."""

    seq: int
    sha256: str


class Approvals:
    """What was approved in a log. Hold the engine's lock.

    `find` gives a line by its id; without `home` no copy is looked at.
    """

    def __init__(
        self, table: ArtifactTable, memories: Memories, find: Callable[[str], Line | None],
        home: Path | None = None,
    ) -> None:  # fmt: skip
        self._table, self._memories, self._find = table, memories, find
        self._home = home
        self._named: dict[str, _Named] = {}
        self._last: tuple[object, tuple[int, ...]] = (None, ())

    def reads(self, table: ArtifactTable, memories: Memories) -> bool:
        """Whether these are what it answers from."""
        return self._table is table and self._memories is memories

    def covers(self, seq: int, id: str, *, as_of: int, now: str) -> bool:  # noqa: A002
        """Whether the artifact of this seq and id is approved as of a seq, at a time."""
        if id not in self._table.said:
            return False
        named = self._artifact(id)
        return named is not None and named.seq == seq and self._holds(id, named, as_of, now)

    def covered(self, *, as_of: int, now: str) -> tuple[int, ...]:
        """Return the seqs of all artifacts that are approved, rising."""
        asked = (as_of, now, self._memories.position, self._memories.resets)
        if self._last[0] != asked:
            found = (
                named.seq
                for id_ in self._table.said
                if (named := self._artifact(id_)) is not None
                and self._holds(id_, named, as_of, now)
            )
            self._last = asked, tuple(sorted(found))
        return self._last[1]

    def changed(self, id: str) -> bool:  # noqa: A002
        """Whether the copy that this artifact is searched by is not what was added."""
        if self._home is None:
            return False
        line = self._find(id)
        facts = None if line is None else facts_of(line.event)
        return facts is not None and copy_changed(self._home, facts)

    def said_of(self, id: str, *, as_of: int, now: str) -> list[tuple[Said, bool]]:  # noqa: A002
        """Return what was said of an artifact, in log order, each with whether it holds now."""
        named = self._artifact(id)
        if named is None:
            return []
        holding = [one.seq for one in self._holding(id, named, as_of, now)]
        said = (one for one in self._table.said.get(id, ()) if one.seq <= as_of)
        return [(one, one.seq in holding) for one in said]

    def _holds(self, id_: str, named: _Named, as_of: int, now: str) -> bool:
        return next(self._holding(id_, named, as_of, now), None) is not None

    def _holding(self, id_: str, named: _Named, as_of: int, now: str) -> Iterator[Said]:
        """The approvals that cover it, the newest first."""
        for one in reversed(self._table.said.get(id_, ())):
            if not named.seq < one.seq <= as_of:  # nobody approves what is not there yet
                continue
            if self._memories.archived(one.event, upto=as_of) is not None:
                continue
            if one.undo:
                return
            if one.sha256 == named.sha256 and one.in_time(now):
                yield one

    def _artifact(self, id_: str) -> _Named | None:
        named = self._named.get(id_)
        if named is None:
            line = self._find(id_)
            facts = None if line is None else facts_of(line.event)
            if line is not None and facts is not None:
                named = self._named[id_] = _Named(line.event.seq, facts.sha256)
        return named
