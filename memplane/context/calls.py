"""What a caller gives and gets: checked arguments, recorded rows, receipts.

InputError names the argument that is wrong. `checked_request` turns the arguments of a pack into a
`Request`; `Recorder` records rows one at a time or in bulk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.clock import ulid
from memplane.errors import ConflictError, InputError, MemplaneError, NotFoundError, PurgedError
from memplane.event import IMPORTANCE_DEFAULT, KINDS, is_kind
from memplane.intake import Intake, Redactor, check_whole, cleaned, namespace, normalise, timestamp
from memplane.intake.redact import masked, quoted_value, unexpected
from memplane.pack.request import REMINDERS, Request
from memplane.recall.gate import are_marks

if TYPE_CHECKING:
    from memplane.event import Draft, Event
    from memplane.policy import Policies
    from memplane.ports import Appended, Line


_SEQ_MAX: Final = 2**63 - 1
MARKS_MAX: Final = 800  # sentences that a caller holds: they stand in the report


def check_text(value: object, where: str) -> str:
    """Return a text; raises InputError for another type and for what UTF-8 cannot encode."""
    if not isinstance(value, str):
        raise unexpected("a text", value, where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise unexpected("a text without half a character", value, where) from None
    return value


def check_kind(kind: str) -> None:
    """Raise InputError where a kind of event is not known."""
    if not is_kind(kind):
        raise InputError(
            f"unknown kind {quoted_value(kind)}; known: {', '.join(KINDS)}, custom:<name>",
            where="kind",
        )


def refuse_given(fields: Mapping[str, Any], own: Iterable[str]) -> None:
    """Raise InputError where the caller's fields hold one that the method itself sets."""
    for name in own:
        if name in fields:
            raise InputError("is given by the call itself", where=name)


def check_texts(**given: object) -> None:
    """Check several texts by the names of the arguments; None means not given."""
    for where, value in given.items():
        if value is not None:
            check_text(value, where)


def check_count(value: object, where: str, least: int = 0) -> int:
    """Return a whole number of at least `least`; raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _SEQ_MAX:
        raise unexpected(f"a whole number from {least}", value, where)
    return value


def check_named(value: object, where: str) -> str | int:
    """Return the id or seq of an event; raises InputError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= _SEQ_MAX:
            raise unexpected("a seq or an id", value, where)
        return value
    if not isinstance(value, str):
        raise unexpected("a seq or an id", value, where)
    return check_text(value, where)


# A caller's arguments to a checked request.

# Known even where channels.yaml does not list them; each then loads and shows what `agent` does.
CHANNELS: Final = ("private", "public", "team", "agent")
_TIMES: Final = ("since", "until", "now")
_TAGS: Final = ("tag", "without_tag")
_LISTS: Final = ("sections", "expand", "exclude", "ns", "held_marks", *_TAGS)
_SEQS: Final = ("dense_seq", "held_seq", "index_seq")
_TEXTS: Final = (
    "channel", "intent", "session", "task", "agent", "project", "query_event", "remind",
)  # fmt: skip
_KNOWN: Final = frozenset(
    (*_TIMES, *_LISTS, *_TEXTS, *_SEQS, "budget", "as_of", "cited", "importance_min")
)


def check_channel(policies: Policies, channel: str) -> str:
    """The channel, if the policies or memplane know it; InputError naming the known ones."""
    check_text(channel, "channel")
    if channel in CHANNELS or policies.channels.known(channel):
        return channel
    known = ", ".join(dict.fromkeys((*policies.channels.views, *CHANNELS)))
    raise InputError(f"unknown channel {quoted_value(channel)}; known: {known}", where="channel")


def checked_request(
    query: str,
    asked: dict[str, Any],
    policies: Policies,
    *,
    head: int,
    clock: Callable[[], str],
    seq_by: Callable[[str], int],
    redactor: Redactor,
) -> Request:
    """Check what was asked; raises InputError naming the argument.

    Secrets in it are masked, in identifiers too: a report of the pack keeps what was asked, and the
    same can be asked again.
    """
    for name in asked:
        if name not in _KNOWN:
            raise _unknown(name)
    if not isinstance(query, str):
        raise InputError(f"expected a text, found {type(query).__name__}", where="query")
    fields: dict[str, Any] = {"query": redactor.redact(cleaned(query))[0].strip()}
    for name in _TEXTS:
        value = asked.get(name)
        if value is not None:
            fields[name] = redactor.name(check_text(value, name))
    for name in _LISTS:
        fields[name] = tuple(map(redactor.name, texts_of_argument(name, asked.get(name))))
    fields |= {name: tuple(dict.fromkeys(map(str.lower, fields[name]))) for name in _TAGS}
    fields["importance_min"] = _importance(asked.get("importance_min"))
    _check_marks(fields["held_marks"])
    for ns in fields["ns"]:
        namespace(ns)
    for name in _TIMES:
        value = asked.get(name)
        fields[name] = None if value is None else timestamp(value, where=name)
    fields["now"] = fields["now"] or clock()
    fields["budget"] = asked.get("budget")
    for name in _SEQS:
        fields[name] = _seq(name, asked.get(name))
    fields["cited"] = _flag("cited", asked.get("cited", False))
    fields["as_of"] = _as_of(asked.get("as_of"), head, seq_by)
    check_channel(policies, fields.get("channel", "private"))
    _check_reminder(fields.get("remind", ""))
    fields["project"] = policies.project
    return Request(**fields)


def _check_marks(given: tuple[str, ...]) -> None:
    if len(given) > MARKS_MAX:
        raise InputError(
            f"expected at most {MARKS_MAX} marks, found {len(given)}", where="held_marks"
        )
    if not are_marks(given):
        wrong = next(one for one in given if not are_marks([one]))
        raise unexpected("12 digits of hex", wrong, "held_marks")


def _check_reminder(value: str) -> None:
    if value and value not in REMINDERS:
        known = f"{', '.join(REMINDERS[:-1])} or {REMINDERS[-1]}"
        raise unexpected(known, value, "remind")


def _unknown(name: str) -> InputError:
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    close = get_close_matches(name, sorted(_KNOWN), 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return InputError(f"unknown argument{hint}", where=name)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise unexpected("true or false", value, name)
    return value


def _importance(value: Any) -> int:
    """An importance, as events have it: 0 to 1000, or a float from 0 to 1; 0 of None."""
    if value is None:
        return 0
    try:
        return int(normalise({"importance": value}).get("importance", IMPORTANCE_DEFAULT))
    except InputError as error:
        said = str(error).removeprefix("importance: ")
        raise InputError(said, where="importance_min") from None


def texts_of_argument(name: str, value: object) -> tuple[str, ...]:
    """One text or several as a tuple; () for None. Raises InputError."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable):
        found = tuple(value)
        if all(isinstance(one, str) for one in found):
            return found
    raise unexpected("a list of texts", value, name)


def _seq(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise unexpected("a seq of 0 or more", value, name)
    return value


def _as_of(value: object, head: int, seq_by: Callable[[str], int]) -> int:
    if value is None:
        return head
    if isinstance(value, (str, datetime)):
        return min(head, seq_by(timestamp(value, where="as_of")))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= head:
        raise unexpected(f"a seq from 0 to {head}", value, "as_of")
    return value


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
            raise unexpected("an object of event fields", row, where)
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

    def each(
        self, rows: Sequence[Mapping[str, Any]], make: Callable[[Any, str], Draft]
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
            except InputError as error:
                found[at] = error
        once, again = _first_of_each(drafts)
        for batch in (once, *([row] for row in again)):
            left = batch
            while left:
                try:
                    done = self._append([draft for _, draft in left])
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
