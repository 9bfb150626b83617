"""Receipts of recorded events, and the recording of rows one at a time or in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from memplane.clock import ulid
from memplane.errors import ConflictError, InputError, NotFoundError, PurgedError
from memplane.intake import Intake, check_whole
from memplane.intake.redact import masked, quoted_value

if TYPE_CHECKING:
    from memplane.event import Draft, Event
    from memplane.ports import Appended, Line


class Receipt:
    """The acknowledgement of one event.

    `durability` says what it survives: `sync` a power cut, `os` the end of the process.
    `duplicate`: the same event was there already, and `seq` is its number.
    """

    __slots__ = ("_line", "duplicate", "durability", "id", "seq")

    def __init__(
        self, appended: Appended, durability: str, line: Callable[[int], Line | None]
    ) -> None:
        self.seq, self.id = appended.seq, appended.id
        self.durability, self.duplicate = durability, appended.duplicate
        self._line = line

    @property
    def event(self) -> Event:
        """The event as it stands in the log, read when asked for."""
        line = self._line(self.seq)
        if line is None:
            raise NotFoundError(f"event {self.seq} is no longer readable in the log")
        return line.event

    def as_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "id": self.id,
            "durability": self.durability,
            "duplicate": self.duplicate,
        }

    def __repr__(self) -> str:
        again = ", duplicate" if self.duplicate else ""
        return f"Receipt(seq={self.seq}, id={self.id!r}, {self.durability}{again})"


@dataclass(frozen=True, slots=True)
class Spooled:
    """The acknowledgement of one event that waited for nobody.

    With durability `spool` it lies beside the log, safe from a power cut, and `seq` is None until
    the next writer takes it in; else it is recorded.
    """

    id: str
    durability: str
    seq: int | None = None
    duplicate: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, order=True)
class Refusal:
    """A row that was not taken, where rows may be refused.

    `reason`: invalid, conflict, or purged (the id is that of an event that was erased).
    """

    index: int
    id: str | None
    reason: Literal["invalid", "conflict", "purged"]
    message: str


@dataclass(frozen=True, slots=True)
class BulkReceipt:
    """The acknowledgement of many events. The seqs are None where nothing new was stored."""

    count: int
    duplicates: int
    first_seq: int | None
    last_seq: int | None
    durability: str
    refused: tuple[Refusal, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Recorder:
    """Rows to drafts to the log. The caller holds no lock; the log takes its own."""

    def __init__(
        self, append: Callable[[list[Draft]], list[Appended]], resolve: Callable[[int], str]
    ) -> None:
        self._append, self._resolve = append, resolve

    def draft(
        self,
        row: Mapping[str, Any],
        intake: Intake,
        now: str,
        count: Callable[[str], int] | None,
        where: str = "",
        *,
        internal: bool = False,
        recalled: Sequence[str] = (),
    ) -> Draft:
        """Check one row; refs given as seqs become ids. `recalled`: see `prepare`."""
        if not isinstance(row, Mapping):
            raise InputError(
                f"expected an object of event fields, found {quoted_value(row)}", where=where
            )
        refs = row.get("refs")
        if isinstance(refs, (list, tuple)) and any(isinstance(ref, int) for ref in refs):
            row = {
                **row,
                "refs": [
                    self._resolve(ref)
                    if isinstance(ref, int) and not isinstance(ref, bool)
                    else ref
                    for ref in refs
                ],
            }
        draft = intake.prepare(
            row, id=ulid(now), count=count, where=where, internal=internal, recalled=recalled
        )
        if not internal:
            check_whole(row, draft.kind, where)
        return draft

    def many(
        self,
        rows: Iterable[Mapping[str, Any]],
        batch: int,
        make: Callable[[Any, str], Draft],
        *,
        strict: bool,
    ) -> tuple[list[Appended], list[Refusal]]:
        """Append rows in batches. Strict: all are checked before the first is written."""
        numbered: Iterable[tuple[int, Any]] = enumerate(rows)
        if strict:
            drafts = [make(row, f"rows[{index}]") for index, row in numbered]
            done: list[Appended] = []
            for start in range(0, len(drafts), batch):
                done += self._append(drafts[start : start + batch])
            return done, []
        done, refused = [], []
        for chunk in _chunks(numbered, batch):
            good: list[tuple[int, Draft]] = []
            for index, row in chunk:
                try:
                    good.append((index, make(row, f"rows[{index}]")))
                except InputError as error:
                    given = row.get("id") if isinstance(row, Mapping) else None
                    name = masked(given) if isinstance(given, str) else None
                    refused.append(Refusal(index, name, "invalid", str(error)))
            once, again = _first_of_each(good)
            done += self._tolerant(once, refused)
            # What repeats an id of its own batch is judged against what is stored by then.
            for row in again:
                done += self._tolerant([row], refused)
        return done, refused

    def _tolerant(self, good: list[tuple[int, Draft]], refused: list[Refusal]) -> list[Appended]:
        """Append a batch; where an id is taken by other content, leave that row out and go on."""
        while good:
            try:
                return self._append([draft for _, draft in good])
            except ConflictError as error:
                purged = isinstance(error, PurgedError)
                ids = set(error.ids) if isinstance(error, PurgedError) else {error.id}
                kept = [(index, draft) for index, draft in good if draft.id not in ids]
                gone = [(index, draft) for index, draft in good if draft.id in ids]
                assert gone, "a conflict names one of the batch"
                reason: Literal["purged", "conflict"] = "purged" if purged else "conflict"
                for index, draft in gone:
                    one = f"id {draft.id!r} is that of a purged event" if purged else str(error)
                    refused.append(Refusal(index, draft.id, reason, one))
                good = kept
        return []


def _chunks(rows: Iterable[tuple[int, Any]], size: int) -> Iterator[list[tuple[int, Any]]]:
    source = iter(rows)
    while chunk := list(islice(source, size)):
        yield chunk


def _first_of_each(
    rows: list[tuple[int, Draft]],
) -> tuple[list[tuple[int, Draft]], list[tuple[int, Draft]]]:
    """The first row of each id, and those that come later in the batch with an id of these."""
    seen: set[str] = set()
    first: list[tuple[int, Draft]] = []
    later: list[tuple[int, Draft]] = []
    for row in rows:
        (later if row[1].id in seen else first).append(row)
        seen.add(row[1].id)
    return first, later
