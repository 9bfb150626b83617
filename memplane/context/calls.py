"""What a caller gives and gets: checked arguments, recorded rows, receipts.

InputError names the argument that is wrong. `checked_request` turns the arguments of a pack into a
`Request`; `Recorder` records rows one at a time or in bulk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from memplane.clock import ulid
from memplane.errors import InputError, MemplaneError, NotFoundError
from memplane.event import IMPORTANCE_DEFAULT, KINDS, is_kind
from memplane.intake import (
    Intake,
    Redactor,
    check_whole,
    cleaned,
    namespace,
    normalise,
    time_bound,
    timestamp,
)
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import late

if TYPE_CHECKING:
    from memplane.context import batches
    from memplane.context.batches import Refusal
    from memplane.event import Draft, Event
    from memplane.pack import request as pack_request
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.ports import Appended, Line
    from memplane.recall import gate as recall_gate, suppress as recall_suppress
else:
    batches = late("memplane.context.batches")
    pack_request = late("memplane.pack.request")
    recall_gate = late("memplane.recall.gate")
    recall_suppress = late("memplane.recall.suppress")

_SEQ_MAX: Final = 2**63 - 1
MARKS_MAX: Final = 800  # sentences that a caller holds: they stand in the report
INDEX_BEHIND: Final = "index: "  # how the line about what an answer lacks begins


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
    "engine",
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


def _times(asked: dict[str, Any]) -> dict[str, str | None]:
    """The times of a request as events have them: bounds may be days."""
    found: dict[str, str | None] = {}
    for name in _TIMES:
        value = asked.get(name)
        if value is not None and name != "now":
            value = time_bound(value, where=name, last=name == "until")
        found[name] = None if value is None else timestamp(value, where=name)
    return found


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
    fields["ns"] = recall_suppress.asked_within(fields["ns"], policies.bounds)
    fields |= _times(asked)
    fields["now"] = fields["now"] or clock()
    fields["budget"] = asked.get("budget")
    for name in _SEQS:
        fields[name] = _seq(name, asked.get(name))
    fields["cited"] = _flag("cited", asked.get("cited", False))
    fields["as_of"] = _as_of(asked.get("as_of"), head, seq_by)
    check_channel(policies, fields.get("channel", "private"))
    _check_reminder(fields.get("remind", ""))
    fields["project"] = policies.project
    return pack_request.Request(**fields)


def _check_marks(given: tuple[str, ...]) -> None:
    if len(given) > MARKS_MAX:
        raise InputError(
            f"expected at most {MARKS_MAX} marks, found {len(given)}", where="held_marks"
        )
    if not recall_gate.are_marks(given):
        wrong = next(one for one in given if not recall_gate.are_marks([one]))
        raise unexpected("12 digits of hex", wrong, "held_marks")


def _check_reminder(value: str) -> None:
    if value and value not in pack_request.REMINDERS:
        known = f"{', '.join(pack_request.REMINDERS[:-1])} or {pack_request.REMINDERS[-1]}"
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

    `durability` says what it survives: `sync` a power cut, `os` the end of the process. `outbox`: a
    power cut too, here; the shared log was not reached, and `seq` is 0 until it is.
    `duplicate`: the same event was there already, and `seq` is its number.
    """

    __slots__ = ("_line", "_waiting", "duplicate", "durability", "id", "seq")

    def __init__(
        self, appended: Appended, durability: str, line: Callable[[int], Line | None]
    ) -> None:
        self.seq, self.id = appended.seq, appended.id
        self.durability = durability if appended.seq else "outbox"
        self.duplicate = appended.duplicate
        self._line, self._waiting = line, appended.waiting

    @property
    def event(self) -> Event:
        """The event as it stands in the log, read when asked for."""
        if self._waiting is not None:
            return self._waiting
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
        return batches.many(self._append, rows, batch, make, strict=strict)

    def each(
        self, rows: Sequence[Mapping[str, Any]], make: Callable[[Any, str], Draft]
    ) -> list[Appended | MemplaneError]:
        """Append rows of several callers in one write; each gets its own receipt or error."""
        return batches.each(self._append, rows, make)


def degraded_parts(as_of: int, index_seq: int | None) -> list[str]:
    """What an answer as of a seq lacks, where the index was used up to `index_seq` (None: all)."""
    missing = 0 if index_seq is None else max(0, as_of - index_seq)
    return [f"{INDEX_BEHIND}{missing} events behind"] if missing else []
