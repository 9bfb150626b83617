"""What became of everything that an import met."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

__all__ = ["REFUSED_LISTED", "FileReport", "ImportReport", "Refused"]

REFUSED_LISTED: Final = 100  # of an import; all of them are counted
_REASONS_MAX: Final = 60


class Refused(NamedTuple):
    """A row that the plane did not take. `reason` is "conflict" or "invalid"."""

    file: str
    id: str
    reason: str
    message: str


@dataclass(slots=True)
class FileReport:
    """One file: each of its `items` is one of events, repeated, refused or skipped.

    A line is one item or more (a record has blocks, the first one of a session
    begins it); a file that cannot be read is one item without a line, and one that is
    read as a whole has only items.
    """

    path: str
    source: str | None
    lines: int = 0
    items: int = 0
    events: int = 0
    repeated: int = 0
    refused: int = 0
    unchanged: bool = False  # nothing new since an earlier import
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Count one item that made no event."""
        self.items += 1
        self.drop(reason)

    def drop(self, reason: str) -> None:
        """Count why an item, counted before, made no event."""
        if reason not in self.skipped and len(self.skipped) >= _REASONS_MAX:
            # Junk has any number of types; a report stays readable.
            reason = "other"
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass(slots=True)
class ImportReport:
    """The whole import. `refused` lists the first 100, `refusals` counts all of them.

    `ended`: sessions that it ended, each by one or two events which no file holds.
    `archived`: memories that it archived, as their file states them no more.
    """

    per_file: list[FileReport] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    ended: int = 0
    archived: int = 0

    def add(self, other: ImportReport) -> None:
        """Take in the report of another import that ran after this one."""
        self.per_file += other.per_file
        self.refused = [*self.refused, *other.refused][:REFUSED_LISTED]
        self.ended += other.ended
        self.archived += other.archived

    @property
    def files(self) -> int:
        """Files met, those without news and those that could not be read among them."""
        return len(self.per_file)

    @property
    def unchanged(self) -> int:
        """Files without news since an earlier import."""
        return sum(file.unchanged for file in self.per_file)

    @property
    def lines(self) -> int:
        """Lines read."""
        return sum(file.lines for file in self.per_file)

    @property
    def items(self) -> int:
        """Everything that lines came to: events + repeated + refusals + all skipped."""
        return sum(file.items for file in self.per_file)

    @property
    def events(self) -> int:
        """Events recorded."""
        return sum(file.events for file in self.per_file)

    @property
    def repeated(self) -> int:
        """Events that were in the plane already."""
        return sum(file.repeated for file in self.per_file)

    @property
    def refusals(self) -> int:
        """Rows that the plane did not take."""
        return sum(file.refused for file in self.per_file)

    @property
    def skipped(self) -> dict[str, int]:
        """What made no event, by reason, the commonest first."""
        counts: dict[str, int] = {}
        for file in self.per_file:
            for reason, count in file.skipped.items():
                counts[reason] = counts.get(reason, 0) + count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        totals = ("files", "unchanged", "lines", "items", "events", "repeated", "refusals")
        return {
            **{total: getattr(self, total) for total in (*totals, "ended", "archived")},
            "skipped": self.skipped,
            "refused": [row._asdict() for row in self.refused],
            "per_file": [asdict(file) for file in self.per_file],
        }
