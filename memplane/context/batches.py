"""Many rows recorded at once, and the receipts of that.

A process that records one event does without this module: dataclasses cost it more than the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from memplane.errors import ConflictError, InputError, MemplaneError, PurgedError
from memplane.intake.redact import masked

if TYPE_CHECKING:
    from memplane.event import Draft
    from memplane.ports import Appended

    Append: TypeAlias = Callable[[list[Draft]], list[Appended]]


@dataclass(frozen=True, slots=True)
class Spooled:
    """The acknowledgement of an event recorded without waiting for the lock.

    With durability `spool` it is in the spool, safe from a power cut, and `seq` is None until the
    next writer appends it; else it is in the log.
    """

    id: str
    durability: str
    seq: int | None = None
    duplicate: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, order=True)
class Refusal:
    """A row that was not recorded, where rows may be refused.

    `reason`: invalid, conflict, or purged (the id is that of an erased event).
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


def many(
    append: Append,
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
            done += append(drafts[start : start + batch])
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
        done += _tolerant(append, once, refused)
        # What repeats an id of its own batch is judged against what is stored by then.
        for row in again:
            done += _tolerant(append, [row], refused)
    return done, refused


def each(
    append: Append, rows: Sequence[Any], make: Callable[[Any, str], Draft]
) -> list[Appended | MemplaneError]:
    """Append rows of several callers in one write; each gets its own receipt or error.

    A row that is refused does not keep the others from being stored; where the log cannot be
    written, all of them get that error.
    """
    found: dict[int, Appended | MemplaneError] = {}
    drafts: list[tuple[int, Draft]] = []
    for at, row in enumerate(rows):
        try:
            drafts.append((at, make(row, "")))
        except MemplaneError as error:
            found[at] = error
    once, again = _first_of_each(drafts)
    for batch in (once, *([row] for row in again)):
        left = batch
        while left:
            try:
                done = append([draft for _, draft in left])
            except ConflictError as error:
                ids = set(error.ids) if isinstance(error, PurgedError) else {error.id}
                found.update((at, error) for at, draft in left if draft.id in ids)
                left = [(at, draft) for at, draft in left if draft.id not in ids]
            except MemplaneError as error:
                found.update((at, error) for at, _ in left)
                break
            else:
                found.update(zip((at for at, _ in left), done, strict=True))
                break
    return [found[at] for at in range(len(rows))]


def _tolerant(
    append: Append, good: list[tuple[int, Draft]], refused: list[Refusal]
) -> list[Appended]:
    """Append a batch; where an id is taken by other content, leave that row out and go on."""
    while good:
        try:
            return append([draft for _, draft in good])
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
