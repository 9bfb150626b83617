"""What a purge takes: the events that are named, what lies elsewhere of them, what quotes them.

Reads the whole log and the files beside it; changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import InputError, NotFoundError
from memplane.event import Event
from memplane.intake import namespace
from memplane.intake.redact import shown
from memplane.plane.given import check_texts
from memplane.plane.purge_files import Look, Quotations, set_aside
from memplane.projections.sessions import is_extract

if TYPE_CHECKING:
    from memplane.plane.engine import Engine
    from memplane.ports import Line

__all__ = ["ARCHIVED", "Plan", "Quote", "plan_of"]

ARCHIVED: Final = ("forgotten", "superseded", "evicted")  # why something is no longer in force
_OWN: Final = ("segment", "purge", "repair")  # the log's own: without them it could not be read
_QUOTES_MAX: Final = 1_000
_ROUNDS_MAX: Final = 20  # of a cascade
_HEX: Final = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int, int], None]


class Quote(NamedTuple):
    """What still says something of what is erased: an event by seq and id, or a file (seq 0).

    `how`: `text` if it has a text of the erased ones, `refs` if it names one, `unread` if nobody
    could look into it.
    """

    seq: int
    name: str
    how: str


@dataclass(slots=True)
class Plan:
    """`events` are taken, in log order; `cascaded` counts those that were not named.

    `bodies` are hashes of files that nothing else needs; `files` are paths below the home that go
    as a whole (reports, what repairs set aside); `holes` are bytes of segments that are no lines
    and hold a text of an erased event: (segment, first byte, end). `revived` are seq and id of
    what comes back into force without them: what they forgot, or took the place of.
    """

    events: list[Event]
    cascaded: int
    texts: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    quoted: int = 0  # `quotes` are the first of so many
    named: set[str] = field(default_factory=set)  # hashes of files that other events need
    revived: list[tuple[int, str]] = field(default_factory=list)


def plan_of(
    engine: Engine, named: dict[str, Any], ns: str, *, cascade: bool,
    progress: Progress | None = None,
) -> Plan:  # fmt: skip
    """Find all that goes with what is named: one of ids, key, session, source, archived.

    Raises InputError, and NotFoundError where nothing is named so. Hold the engine's lock.
    """
    events = {event.seq: event for event in _named(engine, named, ns)}
    count, plan, quotes = len(events), Plan([], 0), _Quotes()
    for _ in range(_ROUNDS_MAX if cascade else 2):
        quotes = _Quotes()
        plan = Plan([events[seq] for seq in sorted(events)], len(events) - count)
        _read(engine, plan, quotes, progress)
        # What memplane itself made of an event goes with it, as when it is forgotten.
        more = quotes.events if cascade else quotes.extracts
        if not more:
            break
        events |= {event.seq: event for event in more}
    look = Look(engine.home.path, plan.texts, {event.id for event in plan.events}, plan.named)
    plan.files += look.to_remove()
    quotes.found += [Quote(0, name, how) for name, how in look.to_tell()]
    plan.revived = list(_revived(engine, plan))
    plan.quotes, plan.quoted = quotes.found[:_QUOTES_MAX], len(quotes.found)
    return plan


def _named(engine: Engine, named: dict[str, Any], ns: str) -> Iterator[Event]:
    namespace(ns)
    given = [(name, value) for name, value in named.items() if value]
    if len(given) != 1:
        raise InputError("expected exactly one of id, key, session, source and archived")
    name, value = given[0]
    if name == "ids":
        for one in value:
            yield _by_id(engine, one)
        return
    if name == "archived":
        yield from _archived(engine, value)
        return
    check_texts(**{name: value})
    if name == "key":
        rows = engine.caught_up().memories.history(ns, value)
        lines = [engine.log.line(row.seq) for row in rows]
        found = [line.event for line in lines if line is not None]
    else:
        found = [line.event for line in engine.log.read() if _is_of(line.event, name, value)]
    if not found:
        where = f" in {ns}" if name == "key" else ""
        raise NotFoundError(f"no event of {name} {shown(value)}{where}")
    yield from found


def _by_id(engine: Engine, one: int | str) -> Event:
    if isinstance(one, bool) or not isinstance(one, int | str):
        raise InputError(f"expected an id or a seq, found {shown(one)}", where="id")
    line = engine.log.line(one) if isinstance(one, int) else engine.log.find(one)
    if line is None:
        where = set_aside(engine.home.path, one) if isinstance(one, str) else ""
        raise NotFoundError(f"no event {shown(one)}{where}")
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


def _archived(engine: Engine, reasons: Iterable[str]) -> Iterator[Event]:
    wanted = tuple(reasons)
    for one in wanted:
        if one not in ARCHIVED:
            known = ", ".join(ARCHIVED)
            raise InputError(f"expected some of {known}; found {shown(one)}", where="archived")
    memories = engine.caught_up().memories
    for line in engine.log.read():
        event = line.event
        gone = None if event.kind in _OWN else memories.archived(event)
        if gone is not None and gone[0] in wanted:
            yield event


class _Quotes:
    """What quotes what is taken, as it is found."""

    def __init__(self) -> None:
        self.found: list[Quote] = []
        self.events: list[Event] = []
        self.extracts: list[Event] = []  # of memplane's own making

    def add(self, event: Event, how: str) -> None:
        self.found.append(Quote(event.seq, event.id, how))
        if event.kind not in _OWN:
            self.events.append(event)
            if how == "refs" and is_extract(event):
                self.extracts.append(event)


def _read(engine: Engine, plan: Plan, quotes: _Quotes, progress: Progress | None) -> None:
    """One pass over the log: who quotes, which bodies are needed by others, where no lines are."""
    seqs, ids = {event.seq for event in plan.events}, {event.id for event in plan.events}
    plan.texts = [_text(engine, event) for event in plan.events]
    quotations = Quotations(plan.texts)
    bodies = dict.fromkeys(one for event in plan.events for one in _digests(event))
    named: set[str] = set()
    holes = _Holes(engine.home.path)
    head = engine.log.head().seq
    for line in engine.log.read():
        event = line.event
        holes.see(line)
        if progress is not None and event.seq % 1000 == 0:
            progress(event.seq, head)
        if event.seq in seqs:
            continue
        if event.kind != "approval":
            for digest in _digests(event):
                named.add(digest)
                bodies.pop(digest, None)
        if any(ref in ids for ref in event.refs):
            quotes.add(event, "refs")
        elif quotations and quotations.in_text(_searched(engine, event)):
            quotes.add(event, "text")
    plan.bodies, plan.named = list(bodies), named.difference(bodies)
    plan.holes = [hole for hole in holes.all() if _holds(engine.home.path, hole, ids, quotations)]


class _Holes:
    """The bytes of segments that are no lines: erased ones, and what damage left behind."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "log"
        self._found: list[tuple[int, int, int]] = []
        self._segment = self._end = 0

    def see(self, line: Line) -> None:
        if line.segment != self._segment:
            self._close()
            self._segment, self._end = line.segment, 0
        if line.offset > self._end:
            self._found.append((self._segment, self._end, line.offset))
        self._end = line.end

    def all(self) -> list[tuple[int, int, int]]:
        # Behind the last line others may be writing; what is torn there was set aside before.
        return self._found

    def _close(self) -> None:
        if self._segment:
            size = (self._folder / f"{self._segment:08d}.jsonl").stat().st_size
            if size > self._end:
                self._found.append((self._segment, self._end, size))


def _holds(home: Path, hole: tuple[int, int, int], ids: set[str], quotations: Quotations) -> bool:
    segment, start, end = hole
    with (home / "log" / f"{segment:08d}.jsonl").open("rb") as file:
        file.seek(start)
        text = file.read(end - start).decode(errors="replace")
    return any(f'"id":{json.dumps(one)}' in text for one in ids) or quotations.in_file(text)


def _revived(engine: Engine, plan: Plan) -> Iterator[tuple[int, str]]:
    """What is out of force for nothing but an event that is taken, in log order."""
    seqs = {event.seq for event in plan.events}
    places = {(event.ns, event.key) for event in plan.events if event.key is not None}
    if not places and not any(event.kind == "forget" for event in plan.events):
        return
    memories = engine.caught_up().memories
    newest: set[int] = set()
    for ns, key in places:
        left = [row.seq for row in memories.history(ns, key or "") if row.seq not in seqs]
        newest |= set(left[-1:])
    for line in engine.log.read():
        event = line.event
        gone = None if event.seq in seqs or event.kind in _OWN else memories.archived(event)
        if (
            gone is not None
            and gone[1] in seqs
            and (gone[0] != "superseded" or event.seq in newest)
        ):
            yield event.seq, event.id


def _text(engine: Engine, event: Event) -> str:
    try:
        return engine.log.text(event)
    except (NotFoundError, OSError, ValueError):
        return event.text


def _searched(engine: Engine, event: Event) -> str:
    text = _text(engine, event) if "body" in event.data else event.text
    if event.data:
        text += "\n" + json.dumps(event.data, ensure_ascii=False)
    return text


def _digests(event: Event) -> Iterator[str]:
    """The hashes of the files in bodies/ that hold something of the event."""
    said: list[Any] = [event.data] if event.kind == "artifact" else [event.data.get("body")]
    while said:
        one = said.pop()
        if isinstance(one, dict):
            said += [value for value in one.values() if isinstance(value, dict)]
            digest = one.get("sha256")
            if isinstance(digest, str) and _HEX.fullmatch(digest):
                yield digest
