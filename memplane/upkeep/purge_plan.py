"""The plan of a purge: the lines, files, quotations and damaged bytes that it erases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.context.arguments import check_texts
from memplane.errors import InputError, NotFoundError
from memplane.event import Event
from memplane.intake import namespace
from memplane.intake.redact import quoted_value
from memplane.lazy import regex
from memplane.log.bodies import recalled_hashes
from memplane.projections.sessions import is_extract
from memplane.upkeep.purge_effects import (
    NOTHING,
    Already,
    FolderSearch,
    LostBytes,
    Quotations,
    Revived,
    already_of,
    has_id,
    lost_of,
    revived,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.ports import Line
    from memplane.work.forget import Pick

__all__ = ["ARCHIVED", "Holes", "PurgePlan", "QuotingEvent", "plan_of"]


Hole = tuple[int, int, int]  # a segment, the first byte, the end


class Holes:
    """Shown all lines of the log in order, tells where in its segments none is.

    What is written meanwhile may be taken for a hole: who fills one looks again under the lock.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "log"
        self._found: list[Hole] = []
        self._seen: set[int] = set()
        self._segment = self._end = 0

    def see(self, line: Line) -> None:
        """Take the next line to knowledge."""
        if line.segment != self._segment:
            self._close()
            self._segment, self._end = line.segment, 0
            self._seen.add(line.segment)
        if line.offset > self._end:
            self._found.append((self._segment, self._end, line.offset))
        self._end = line.end

    def with_any(
        self, ids: set[str], marks: Collection[str], quotations: Quotations
    ) -> Iterator[Hole]:
        """Those that hold a line with one of these ids or marks, or one of the texts."""
        # Behind the last line others may be writing; what is torn there was set aside before.
        for hole in (*self._found, *self._without_lines()):
            text = self._read(hole)
            if has_id(text, ids) or any(mark in text for mark in marks) or quotations.in_file(text):
                yield hole

    def _close(self) -> None:
        if self._segment:
            self._found += self._behind(self._segment, self._end)

    def _without_lines(self) -> Iterator[Hole]:
        """Segments of nothing but damage."""
        for name in nofollow.file_names(self._folder):
            stem = name.removesuffix(".jsonl")
            number = int(stem) if stem != name and stem.isdecimal() else 0
            if 0 < number < self._segment and number not in self._seen:
                yield from self._behind(number, 0)

    def _behind(self, number: int, start: int) -> list[Hole]:
        size = (self._folder / f"{number:08d}.jsonl").lstat().st_size
        return [(number, start, size)] if size > start else []

    def _read(self, hole: Hole) -> str:
        number, start, end = hole
        with nofollow.open_regular(self._folder / f"{number:08d}.jsonl") as file:
            file.seek(start)
            return file.read(end - start).decode(errors="replace")


# The plan: the named events, their texts in other files, and what quotes them.
#
# Reads the whole log and the files beside it; changes nothing.
ARCHIVED: Final = ("forgotten", "superseded", "evicted")  # why something is no longer in force
_FORGOTTEN_AS: Final = "forgotten:"  # and the reason that was given
_OWN: Final = ("segment", "purge", "repair")  # the log's own: without them it could not be read
_QUOTES_MAX: Final = 1_000
_TOLD_EVERY: Final = 100  # events, to whom watches
_ROUNDS_MAX: Final = 20  # of a cascade
_HEX: Final = regex(r"[0-9a-f]{64}")

Progress = Callable[[int, int], None]


class QuotingEvent(NamedTuple):
    """What still says something of what is erased: an event by seq and id, or a file (seq 0).

    `how`: `text` if it has a text of the erased ones, `refs` if it names one, `unread` if nobody
    could look into it.
    """

    seq: int
    name: str
    how: str


@dataclass(slots=True)
class PurgePlan:
    """`events` are taken, in log order; `cascaded` counts those that were not named.

    `bodies` are hashes of files that nothing else needs; `files` are paths below the home that go
    as a whole (reports, what repairs set aside); `holes` are bytes of segments that are no lines
    and hold a text of an erased event: (segment, first byte, end). `lost` were named and are no
    lines any more: what is left of them goes too. `already` were purged before. `revived` is what
    comes back into force without all of them: what they forgot, or took the place of. `summaries`
    are those that memplane made of sessions, rest on an event that is taken, and are not taken.
    `kept` counts what a description named and that stays because it lasts.
    """

    events: list[Event]
    cascaded: int
    texts: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    quotes: list[QuotingEvent] = field(default_factory=list)
    quoted: int = 0  # `quotes` are the first of so many
    named: set[str] = field(default_factory=set)  # hashes of files that other events need
    revived: Revived = NOTHING
    lost: list[LostBytes] = field(default_factory=list)
    already: list[Already] = field(default_factory=list)
    summaries: list[Event] = field(default_factory=list)
    kept: int = 0
    quotations: Quotations = field(default_factory=lambda: Quotations(()))

    @property
    def ids(self) -> set[str]:
        """The ids of all that goes."""
        return {event.id for event in self.events}.union(*(one.ids for one in self.lost))

    def look(self, home: Path, marks: Iterable[str] = ()) -> FolderSearch:
        """What looks for it in files."""
        return FolderSearch(home, self.quotations, self.ids, marks, self.named)


def plan_of(
    context: PlaneContext,
    named: dict[str, Any],
    ns: str,
    pick: Pick,
    *,
    cascade: bool,
    summaries: bool,
    progress: Progress | None = None,
) -> PurgePlan:
    """Find all that goes with what is named: ids, a key, session or source, or a description.

    A description is why events are archived (`archived`), what they are (`pick`), or both.

    With `summaries` those that memplane made of it go too, with `cascade` all that quotes it.
    Raises InputError, and NotFoundError where nothing is named so. Hold the plane's lock.
    """
    kept: list[Event] = []
    named_ones = list(_named(context, named, ns, pick, kept))
    events = {one.seq: one for one in named_ones if isinstance(one, Event)}
    lost = list({one[1:4]: one for one in named_ones if isinstance(one, LostBytes)}.values())
    already = [one for one in named_ones if isinstance(one, Already)]
    count, plan, quotes = len(events), PurgePlan([], 0), _Quotes()
    for _ in range(_ROUNDS_MAX):
        quotes = _Quotes()
        taken = [events[seq] for seq in sorted(events)]
        plan = PurgePlan(
            taken,
            len(events) - count,
            lost=lost,
            already=already,
            kept=sum(event.seq not in events for event in kept),
        )
        if taken or lost:
            _read(context, plan, quotes, _marks(named), progress)
        more = quotes.events if cascade else quotes.extracts
        if not more or not (cascade or summaries):
            break
        events |= {event.seq: event for event in more}
    if not plan.events and not plan.lost:
        return plan
    plan.summaries = [event for event in quotes.extracts if event.seq not in events]
    look = plan.look(context.home.path, _marks(named))
    files = [name for one in plan.lost for name in one.files]
    plan.files = list(dict.fromkeys((*files, *look.to_remove())))
    quotes.found += [
        QuotingEvent(0, name, how) for name, how in look.to_tell() if name not in plan.files
    ]
    plan.revived = revived(context, plan.events, _OWN, progress)
    plan.quotes, plan.quoted = quotes.found[:_QUOTES_MAX], len(quotes.found)
    return plan


def _marks(named: dict[str, Any]) -> list[str]:
    """What lines say of the session or the source that is to go, also those that were lost."""
    session, source = (
        json.dumps(named[name], ensure_ascii=False) if named.get(name) else ""
        for name in ("session", "source")
    )
    return [f'"session":{session}'] * bool(session) + [f'"id":{source[:-1]}:'] * bool(source)


def _named(
    context: PlaneContext, named: dict[str, Any], ns: str, pick: Pick, kept: list[Event]
) -> Iterator[Event | LostBytes | Already]:
    """What is to be taken; what is described and lasts is put into `kept`."""
    namespace(ns)
    given = [(name, value) for name, value in named.items() if value]
    described = pick.narrows or bool(named["archived"])
    if described and len(given) == bool(named["archived"]):
        yield from _described(context, named["archived"], pick, kept)
        return
    if len(given) != 1 or pick.narrows or pick.kinds:
        raise InputError(
            "expected exactly one of id, key, session and source, or a description: archived, "
            "tag, older_than"
        )
    name, value = given[0]
    if name == "ids":
        for one in value:
            yield _by_id(context, one)
        return
    check_texts(**{name: value})
    if name == "key":
        rows = context.caught_up().memories.history(ns, value)
        lines = [context.log.line(row.seq) for row in rows]
        found = [line.event for line in lines if line is not None]
    else:
        found = [line.event for line in context.log.read() if _is_of(line.event, name, value)]
    if not found:
        where = f" in {ns}" if name == "key" else ""
        raise NotFoundError(f"no event of {name} {quoted_value(value)}{where}")
    yield from found


def _by_id(context: PlaneContext, one: int | str) -> Event | LostBytes | Already:
    if isinstance(one, bool) or not isinstance(one, int | str):
        raise InputError(f"expected an id or a seq, found {quoted_value(one)}", where="id")
    line = context.log.line(one) if isinstance(one, int) else context.log.find(one)
    if line is None:
        before = already_of(context, one)
        found = lost_of(context, one) if before is None or isinstance(one, str) else None
        if before is not None and (found is None or not found.files):
            return before
        if found is None:
            raise NotFoundError(f"no event {quoted_value(one)}")
        return found
    if line.event.kind in _OWN:
        raise InputError(
            f"event {line.event.seq} is a {line.event.kind} event: the log cannot be read without"
        )
    return line.event


def _is_of(event: Event, name: str, value: str) -> bool:
    if event.kind in _OWN:
        return False
    if name == "session":
        return event.session == value
    return event.id.startswith(f"{value}:")


def _described(
    context: PlaneContext, reasons: Iterable[str], pick: Pick, kept: list[Event]
) -> Iterator[Event]:
    """The events that are archived for one of the reasons, if any, and are what `pick` names."""
    wanted = tuple(reasons)
    for one in wanted:
        if one not in ARCHIVED and not one.startswith(_FORGOTTEN_AS):
            known = ", ".join(ARCHIVED)
            raise InputError(
                f"expected some of {known}, {_FORGOTTEN_AS}TEXT; found {quoted_value(one)}",
                where="archived",
            )
    memories = context.caught_up().memories
    narrowed = pick.narrows or bool(pick.kinds) or pick.ns is not None
    for line in context.log.read():
        event = line.event
        if event.kind in _OWN or (narrowed and not pick.names(event)):
            continue
        if wanted and not _is_archived(context, memories.archived(event), wanted):
            continue
        if narrowed and pick.keeps(event, memories):
            kept.append(event)
        else:
            yield event


def _is_archived(
    context: PlaneContext, gone: tuple[str, int] | None, wanted: tuple[str, ...]
) -> bool:
    if gone is None or gone[0] in wanted:
        return gone is not None
    by = context.log.line(gone[1]) if gone[0] == "forgotten" else None
    return by is not None and f"{_FORGOTTEN_AS}{by.event.text}" in wanted


class _Quotes:
    """What quotes what is taken, as it is found."""

    def __init__(self) -> None:
        self.found: list[QuotingEvent] = []
        self.events: list[Event] = []
        self.extracts: list[Event] = []  # of memplane's own making

    def add(self, event: Event, how: str) -> None:
        self.found.append(QuotingEvent(event.seq, event.id, how))
        if event.kind not in _OWN:
            self.events.append(event)
            if how == "refs" and is_extract(event):
                self.extracts.append(event)


def _read(
    context: PlaneContext,
    plan: PurgePlan,
    quotes: _Quotes,
    marks: list[str],
    progress: Progress | None,
) -> None:
    """One pass over the log: who quotes, which bodies are needed by others, where no lines are."""
    seqs, ids = {event.seq for event in plan.events}, plan.ids
    plan.texts = [_text(context, event) for event in plan.events]
    plan.texts += [text for one in plan.lost for text in one.texts]
    plan.quotations = quotations = Quotations(plan.texts)
    bodies = dict.fromkeys(one for event in plan.events for one in _digests(event))
    bodies |= dict.fromkeys(digest for one in plan.lost for digest in one.digests)
    named: set[str] = set()
    holes = Holes(context.home.path)
    head = context.log.head().seq
    for line in context.log.read():
        event = line.event
        holes.see(line)
        if progress is not None and (event.seq % _TOLD_EVERY == 0 or "body" in event.data):
            progress(event.seq, head)
        if event.seq in seqs:
            continue
        if event.kind != "approval":
            for digest in _digests(event):
                named.add(digest)
                bodies.pop(digest, None)
        if any(ref in ids for ref in event.refs):
            quotes.add(event, "refs")
        elif quotations and quotations.in_text(_searched(context, event)):
            quotes.add(event, "text")
    plan.bodies, plan.named = list(bodies), named.difference(bodies)
    lost = {(one.segment, one.offset, one.end) for one in plan.lost if one.segment}
    plan.holes = sorted(lost.union(holes.with_any(ids, marks, quotations)))


def _text(context: PlaneContext, event: Event) -> str:
    try:
        return context.log.text(event)
    except (NotFoundError, OSError, ValueError):
        return event.text


def _searched(context: PlaneContext, event: Event) -> str:
    text = _text(context, event) if "body" in event.data else event.text
    said = [one for one in (event.key, event.task, event.session, event.actor) if one]
    said += _recalled(context, event)
    return "\n".join((text, *said, *event.tags, *_strings(event.data)))


def _recalled(context: PlaneContext, event: Event) -> list[str]:
    """The blocks that were moved out of the event's text: they quote what others say."""
    if "recalled" not in event.data:
        return []
    return [block for block in context.log.recalled(event) if block is not None]


def _strings(data: Any) -> Iterator[str]:
    """All texts in an event's data, names included."""
    said = [data] if data else []
    while said:
        one = said.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            said += [*one, *one.values()]
        elif isinstance(one, list):
            said += one


def _digests(event: Event) -> Iterator[str]:
    """The hashes of the files in bodies/ that hold something of the event."""
    yield from recalled_hashes(event)
    said: list[Any] = [event.data] if event.kind == "artifact" else [event.data.get("body")]
    while said:
        one = said.pop()
        if isinstance(one, dict):
            said += [value for value in one.values() if isinstance(value, dict)]
            digest = one.get("sha256")
            if isinstance(digest, str) and _HEX.fullmatch(digest):
                yield digest
