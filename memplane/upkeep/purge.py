"""Purge: erase events for good, in the log and in everything that was made from them.

`due_of` finds what the `keep` of plane.yaml no longer keeps: results of tools, and only of sessions
in which nothing was recorded for the days that are kept (for the bytes that are kept: for the gap
that ends a session). Statements stay, and so does whatever a statement, an approval or a pin names,
whatever its age. `plan_of` finds the lines, files, quotations and damaged bytes that a purge takes,
and `purge_plane` erases them.

What a purge affects beside the events themselves.

Quotations of their texts elsewhere (`Quotations`), bytes that a repair took out of the log
(`Lost`), files that hold them (`Look`), and values that come back into force (`Revived`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.context.artifact_files import ArtifactApprovals
from memplane.context.calls import check_texts
from memplane.context.context import NO_END
from memplane.errors import HomeError, InputError, LockError, NotFoundError, WriteError
from memplane.event import SENSITIVITIES, Event, encode, is_derived
from memplane.index.storage import alone, holder
from memplane.intake import namespace, timestamp
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, regex
from memplane.log.segments import SUFFIX_BYTES, body_path, named_bodies
from memplane.log.writer import KEPT, clear_cache
from memplane.projections.artifacts import Artifacts
from memplane.projections.memories import Memories
from memplane.search.service import index_service

if TYPE_CHECKING:
    import re
    from collections.abc import Collection

    from memplane.context.context import PlaneContext
    from memplane.ports import Appended, Line, Progress
    from memplane.work.changes import Pick


_QUOTE_MIN: Final = 8  # characters; less stands in other texts by chance
_LINE_MIN: Final = 24  # of one line of several
_WORDS: Final = (8, 4, 2, 1)  # by so many words a quotation is known: the most that it has
_KEPT: Final = 1 - _WORDS[0]  # from which place, counted from the end, words may begin one
_LETTERS: Final = 8  # where it has none: a text without spaces, a token
_FEW: Final = 16  # to look for them one by one is quicker
_PREFIX: Final = 1_024  # characters by which the longer ones are told apart
_WINDOW: Final = 1 << 18  # characters of a text that are taken to pieces at once
_WORD: Final = regex(r"\w+")
_GAP: Final = regex(r"\W")
_ESCAPE: Final = regex(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_LETTER_OF: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE: Final = regex("[\ud800-\udfff]")


class _Alike:
    """Quotations that share what they are known by, and where in each of them that stands."""

    __slots__ = ("_by_size",)

    def __init__(self) -> None:
        # (place of the words, length up to _PREFIX) -> beginning -> what begins so; None: it is all
        self._by_size: dict[tuple[int, int], dict[str, list[str] | None]] = {}

    def add(self, needle: str, at: int) -> None:
        size = min(len(needle), _PREFIX)
        same = self._by_size.setdefault((at, size), {})
        longer = same.setdefault(needle[:size], [])
        if len(needle) == size:
            same[needle] = None
        elif longer is not None:
            longer.append(needle)

    def stand(self, text: str, place: int) -> bool:
        """Whether one of them stands in the text, with what they are known by at that place."""
        for (at, size), same in self._by_size.items():
            start = place - at
            if start < 0:
                continue
            found = text[start : start + size]
            if found not in same:
                continue
            longer = same[found]
            if longer is None or any(text.startswith(one, start) for one in longer):
                return True
        return False


class Quotations:
    """Finds quotations of a set of texts: a text whole, or one of its longer lines."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_words: dict[int, dict[int, str | _Alike]] = {}  # how many -> hash ->
        self._others: dict[str, None] = {}  # without a word that is whole wherever they stand
        self._by_letters: dict[str, _Alike] = {}
        for needle in _needles(texts):
            self._add(needle)
        if len(self._others) > _FEW:
            for needle in self._others:
                self._by_letters.setdefault(needle[:_LETTERS], _Alike()).add(needle, 0)
        self._sizes = sorted(self._by_words)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._by_words or self._others)

    def in_text(self, text: str) -> bool:
        """Whether a text quotes one of them."""
        return self._without_words(text) or (bool(self._sizes) and self._with_words(text))

    def in_file(self, text: str) -> bool:
        """Whether the text of a file quotes one of them, as it is or escaped as JSON."""
        if not self:
            return False
        return self.in_text(text) or ("\\" in text and self.in_text(unescaped(text)))

    def _add(self, needle: str) -> None:
        size, known, at = _known_by(needle)
        if not size:
            self._others[needle] = None
            return
        table = self._by_words.setdefault(size, {})
        found = table.get(known)
        if found is None:
            table[known] = needle  # most are alone: their place is looked for when it is needed
        elif found != needle:
            if isinstance(found, str):
                alike = _Alike()
                alike.add(found, _known_by(found)[2])
                table[known] = found = alike
            found.add(needle, at)

    def _without_words(self, text: str) -> bool:
        if not self._by_letters:
            return any(needle in text for needle in self._others)
        find = self._by_letters.get
        for at in range(len(text) - _LETTERS + 1):
            alike = find(text[at : at + _LETTERS])
            if alike is not None and alike.stand(text, at):
                return True
        return False

    def _with_words(self, text: str) -> bool:
        kept: list[tuple[int, str]] = []  # the last words before a window, and where they begin
        end = 0
        while end < len(text):
            begin = end
            gap = _GAP.search(text, begin + _WINDOW)
            end = len(text) if gap is None else gap.start()
            words = _WORD.findall(text, begin, end)
            near = [*(word for _, word in kept), *words]
            if any(self._may_be_in(near, size) for size in self._sizes):
                found = ((match.start(), match[0]) for match in _WORD.finditer(text, begin, end))
                if self._is_in(text, [*kept, *found]):
                    return True
            kept = [*kept, *_placed(text, begin, end, words[_KEPT:])][_KEPT:]
        return False

    def _may_be_in(self, words: list[str], size: int) -> bool:
        return any(map(self._by_words[size].__contains__, _hashes(words, size)))

    def _is_in(self, text: str, found: list[tuple[int, str]]) -> bool:
        words = [word for _, word in found]
        for size in self._sizes:
            table = self._by_words[size]
            for (start, _), known in zip(found, _hashes(words, size), strict=False):
                one = table.get(known)
                if isinstance(one, str):
                    place = start - _known_by(one)[2]
                    if place >= 0 and text.startswith(one, place):
                        return True
                elif one is not None and one.stand(text, start):
                    return True
        return False


def _needles(texts: Iterable[str]) -> Iterator[str]:
    """The parts that identify a quotation: its longer lines, or all of it."""
    for text in texts:
        whole = text.strip()
        lines = [one for line in whole.splitlines() if _counts(one := line.strip())]
        if lines:
            yield from lines
        elif len(whole) >= _QUOTE_MIN:
            yield whole


def _counts(line: str) -> bool:
    return len(line) >= _LINE_MIN and _WORD.search(line) is not None


def _known_by(needle: str) -> tuple[int, int, int]:
    """By how many words it is known, their hash, and where they begin; no words: 0.

    The first and the last word may go on in a text that quotes it.
    """
    within = list(islice(_WORD.finditer(needle), _WORDS[0] + 2))[1:-1]
    for size in _WORDS:
        if len(within) >= size:
            words = tuple(match[0] for match in within[:size])
            return size, hash(words), within[0].start()
    return 0, 0, 0


def _hashes(words: list[str], size: int) -> Iterator[int]:
    """The hash of each so many words on end."""
    return map(hash, zip(*(words[at:] for at in range(size)), strict=False))


def _placed(text: str, begin: int, end: int, words: list[str]) -> list[tuple[int, str]]:
    """The last words of this part of a text, each with where it begins."""
    found: list[tuple[int, str]] = []
    for word in reversed(words):
        end = text.rindex(word, begin, end)
        found.append((end, word))
    return found[::-1]


def unescaped(text: str) -> str:
    """A text with its JSON escapes undone."""
    made = _ESCAPE.sub(_letter, text)
    if _SURROGATE.search(made) is None:
        return made
    return made.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _letter(match: re.Match[str]) -> str:
    said = match[1]
    return chr(int(said[1:], 16)) if said[0] == "u" else _LETTER_OF.get(said, said)


# Events that a repair took out of the log: where their bytes lie, so that a purge reaches them.
#
# A salvage leaves damaged lines where they are and copies them to quarantine; other repairs move
# what was never acknowledged there. Neither can be found by its seq or id as an event any more.
_TEXT: Final = regex(r'"text":"((?:[^"\\\n]|\\.)*)')
_ID: Final = regex(r'"id":"((?:[^"\\\n]|\\.)*)"')
_SHA256: Final = regex(r'"sha256":"([0-9a-f]{64})"')
_ID_MAX: Final = 128
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024


class Already(NamedTuple):
    """An event that was purged before: its seq (0 where unknown), its id, the purge event.

    `ts` is the time of that purge event.
    """

    seq: int
    id: str
    by: int
    ts: str


class LostBytes(NamedTuple):
    """The byte range of the log in which an event was lost, and the files with copies of it.

    `first` to `last` are the seqs that were lost there, all of which are erased; 0 where no segment
    holds anything of it. `files` are paths below the home. `texts` and `digests` are what can still
    be read there.
    """

    named: str
    segment: int
    offset: int
    end: int
    first: int
    last: int
    ids: tuple[str, ...]
    files: tuple[str, ...]
    texts: tuple[str, ...]
    digests: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "named": self.named,
            "segment": self.segment,
            "offset": self.offset,
            "bytes": self.end - self.offset,
            "first": self.first,
            "last": self.last,
            "ids": [*self.ids],
            "files": [*self.files],
        }


def lost_of(context: PlaneContext, named: int | str) -> LostBytes | None:
    """Where an event that is no line of the log still lies; None where nothing is known of it."""
    for _ in context.log.read():  # all gaps are known then
        continue
    home = context.home.path
    place, text = (0, 0, 0, 0, 0), ""
    for gap in context.log.gaps():
        found = _bytes_of(home, gap.segment, gap.offset, gap.end)
        if gap.first <= named <= gap.last if isinstance(named, int) else has_id(found, {named}):
            if not _is_blank(found):
                place, text = (gap.segment, gap.offset, gap.end, gap.first, gap.last), found
            break
    ids = {named} if isinstance(named, str) else set()
    ids |= {one for one in _ids_in(text) if len(one) <= _ID_MAX}
    files, copies = [], []
    quarantine = home / "log" / "quarantine"
    for path in (quarantine / name for name in nofollow.file_names(quarantine, home)):
        copy = file_text(path)
        if has_id(copy, ids) or (text and copy == text):
            files.append(path.relative_to(home).as_posix())
            copies.append(copy)
    if not text and not files:
        return None
    parts = [_lines_of(one, ids) for one in copies]
    said = "\n".join([text, *parts])
    return LostBytes(
        str(named),
        *place,
        tuple(sorted(ids, key=lambda one: (one != named, one))),
        tuple(files),
        tuple(dict.fromkeys(unescaped(match[1]) for match in _TEXT.finditer(said))),
        tuple(dict.fromkeys(match[1] for match in _SHA256.finditer(said))),
    )


def already_of(context: PlaneContext, named: int | str) -> Already | None:
    """The earlier purge of a seq or id; None where there was none."""
    gone = context.log.purged_as(named)
    if gone is not None:
        line = context.log.line(gone.by)
        return Already(gone.seq, gone.id, gone.by, "" if line is None else line.event.ts)
    for line in context.log.read():
        said = line.event.data.get("purge") if line.event.kind == "purge" else None
        rows = said.get("lost") if isinstance(said, dict) else None
        for row in rows if isinstance(rows, list) else ():
            if _is_named(row, named):
                seq, id_ = (named, "") if isinstance(named, int) else (0, named)
                return Already(seq, id_, line.event.seq, line.event.ts)
    return None


def has_id(text: str, ids: set[str]) -> bool:
    """Whether a line of the text, whole or cut off, has one of the ids."""
    return bool(ids) and any(unescaped(match[1]) in ids for match in _ID.finditer(text))


def _is_named(row: object, named: int | str) -> bool:
    if not isinstance(row, dict):
        return False
    if isinstance(named, str):
        ids = row.get("ids")
        return isinstance(ids, list) and named in ids
    first, last = row.get("first"), row.get("last")
    return isinstance(first, int) and isinstance(last, int) and 0 < first <= named <= last


def _is_blank(text: str) -> bool:
    """Whether a purge has left nothing but where lines end and what they state."""
    return all(len(line.strip()) <= SUFFIX_BYTES for line in text.split("\n"))


def _ids_in(text: str) -> Iterator[str]:
    """The ids of lines: the first that each names."""
    for line in text.split("\n"):
        match = _ID.search(line)
        if match is not None:
            yield unescaped(match[1])


def _lines_of(text: str, ids: set[str]) -> str:
    return "\n".join(line for line in text.split("\n") if has_id(line, ids))


def _bytes_of(home: Path, segment: int, start: int, end: int) -> str:
    try:
        with nofollow.open_regular(home / "log" / f"{segment:08d}.jsonl") as file:
            file.seek(start)
            return file.read(end - start).decode(errors="replace")
    except OSError:
        return ""


def file_text(path: Path) -> str:
    """The text of a file below the plane; "" where it is too long or cannot be read."""
    try:
        if path.lstat().st_size > _FILE_BYTES_MAX:
            return ""
        return nofollow.read_bytes(path).decode(errors="replace")
    except OSError:
        return ""


# Other files below a plane's home with an event's text: those to remove, and those to name.
_WRITTEN: Final = ("views", "policies", "scenarios")  # by people: told of, never touched
_CACHES: Final = ("projections", "index")  # made again, or rewritten, after a purge
_DRAFTS: Final = (".new", ".tmp")  # of a file that was being written when somebody died
_PID: Final = regex(r"\.(\d+)(?:\.\d+)?\.(?:new|tmp)$")


class FolderSearch:
    """Searches the files of a home for a set of texts and ids.

    `marks`: strings that mark a line as erased too, whatever its text. `named`: the hashes of
    bodies that other events need; their quotations are reported with those events.
    """

    def __init__(
        self,
        home: Path,
        quotations: Quotations,
        ids: set[str],
        marks: Iterable[str],
        named: set[str],
    ) -> None:
        self._home, self._ids, self._named = home, ids, named
        self._quotations, self._marks = quotations, tuple(marks)

    def reports(self) -> list[str]:
        """The reports that name one of the events or quote a text."""
        return [
            self._name(path)
            for path in _files_in(self._home, "reports")
            if path.suffix == ".json"
            and (names_event(text := file_text(path), self._ids) or self._quotes(text))
        ]

    def to_remove(self) -> list[str]:
        """Files that are removed whole: reports, quarantine, bodies that no event names."""
        found = self.reports()
        for path in _files_in(self._home, "log/quarantine"):
            text = file_text(path)
            if has_id(text, self._ids) or self._marked(text) or self._quotes(text):
                found.append(self._name(path))
        found += [self._name(path) for path in self._orphans() if self._quotes(file_text(path))]
        return found

    def to_tell(self) -> Iterator[tuple[str, str]]:
        """Files of people that quote a text, and files that could not be read."""
        removed = set(self._orphans())
        for path in self._files():
            name = self._name(path)
            top = name.split("/", maxsplit=1)[0]
            aside = name.startswith("log/quarantine/")
            own = not aside and top in (*_CACHES, "log", "bodies", "reports")
            if own or path in removed:
                continue
            size = path.lstat().st_size
            if size > _FILE_BYTES_MAX:
                yield name, "unread"
            elif not aside and self._quotes(file_text(path)):
                yield name, "text"

    def _orphans(self) -> Iterator[Path]:
        """Snapshots and bodies that no event needs, and what a dead process left half written."""
        for path in self._files():
            name = self._name(path)
            if path.suffix in _DRAFTS:
                if not _is_written(path) and name.split("/")[0] not in _CACHES:
                    yield path
            elif name.startswith("bodies/") and path.parent.name + path.name not in self._named:
                yield path

    def _files(self) -> Iterator[Path]:
        return map(Path, sorted(nofollow.walk_files(self._home)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _marked(self, text: str) -> bool:
        return any(mark in text for mark in self._marks)

    def _quotes(self, text: str) -> bool:
        return self._quotations.in_file(text)


def _is_written(path: Path) -> bool:
    """Whether the process that began the file may still be writing it."""
    match = _PID.search(path.name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _files_in(home: Path, folder: str) -> list[Path]:
    return [home / folder / name for name in nofollow.file_names(home / folder, home)]


def names_event(report: str, ids: set[str]) -> bool:
    """Whether a report names one of the events as an entry, omission, prompt or query."""
    try:
        said: list[Any] = [json.loads(report)]
    except (ValueError, RecursionError):
        return False
    while said:
        one = said.pop()
        if isinstance(one, str):
            if one in ids:
                return True
        elif isinstance(one, dict):
            said += one.values()
        elif isinstance(one, list):
            said += one
    return False


# Values in force again, or approved again, without some events: found by folding the others.
#
# What a purge takes may have forgotten others, taken the place of their values, or taken approvals
# back. Which of it counted is for the projections to say, with it and without.
_AT_ONCE: Final = 1_000
_ACTS: Final = ("forget", "approval")


class Revived(NamedTuple):
    """Seq and id of events that come into force again, in log order, and artifacts among them.

    Prompts may show the artifacts in `approved` again, because nothing revokes their approval.
    """

    events: tuple[tuple[int, str], ...]
    approved: frozenset[int]


NOTHING: Final = Revived((), frozenset())


def revived(
    context: PlaneContext,
    taken: Collection[Event],
    own: Collection[str],
    progress: Callable[[int, int], None] | None = None,
) -> Revived:
    """The events that come into force again without those that are erased.

    `own` are kinds that nothing archives. `progress` gets the seqs folded, and of how many. Hold
    the plane's lock.
    """
    if not any(event.key is not None or event.kind in _ACTS for event in taken):
        return NOTHING
    seqs = {event.seq for event in taken}
    left = _Left(context, seqs, progress)
    folds, now = context.caught_up(), context.clock()
    before = set(context.approvals(folds).covered(as_of=NO_END, now=now))
    approved = {seq for seq in left.covered(now) if seq not in before}
    found = []
    for line in context.log.read():
        event = line.event
        if event.seq in seqs or event.kind in own:
            continue
        gone = folds.memories.archived(event)
        if gone is None and event.seq not in approved:
            continue
        if left.memories.archived(event) is None:
            found.append((event.seq, event.id))
    return Revived(tuple(found), frozenset(approved.intersection(seq for seq, _ in found)))


class _Left:
    """Memories and approvals as they would be folded from the log without some lines."""

    def __init__(
        self, context: PlaneContext, seqs: set[int], progress: Callable[[int, int], None] | None
    ) -> None:
        self._find = context.log.find
        self.memories = Memories(context.log, None, plane=context.home.plane_id)
        artifacts = Artifacts()
        self._table = artifacts.initial()
        lines = (line for line in context.log.read() if line.event.seq not in seqs)
        head = context.log.head().seq
        for some in _line_portions(lines):
            self.memories.fold(some)
            for line in some:
                if line.event.kind in artifacts.kinds_read:
                    artifacts.apply(self._table, line)
            if progress is not None:
                progress(some[-1].event.seq, head)

    def covered(self, now: str) -> tuple[int, ...]:
        """The seqs of the artifacts that would be approved."""
        approvals = ArtifactApprovals(self._table, self.memories, self._find)
        return approvals.covered(as_of=NO_END, now=now)


def _line_portions(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while some := list(islice(lines, _AT_ONCE)):
        yield some


# What a purge erases.
Hole = tuple[int, int, int]  # a segment, the first byte, the end


class Holes:
    """Given all lines of the log in order, finds the byte ranges of segments that hold no line.

    A line that is written meanwhile may be taken for a hole, so a caller that overwrites one looks
    again under the lock.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "log"
        self._found: list[Hole] = []
        self._seen: set[int] = set()
        self._segment = self._end = 0

    def see(self, line: Line) -> None:
        """Take the next line into account."""
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
        """The holes that hold a line with one of these ids or marks, or one of the texts."""
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
_SHOWN_EVERY: Final = 100  # events, to whom watches
_ROUNDS_MAX: Final = 20  # of a cascade


class QuotingEvent(NamedTuple):
    """An event (seq and id) or a file (seq 0) that still quotes what is erased.

    `how`: `text` if it has a text of the erased events, `refs` if it names one, `unread` if it
    could not be read.
    """

    seq: int
    name: str
    how: str


@dataclass(slots=True)
class PurgePlan:
    """What a purge erases. `events` are in log order; `cascaded` counts those that were not named.

    `bodies` are hashes of files that nothing else needs; `files` are paths below the home that are
    removed whole (reports, quarantine); `holes` are byte ranges of segments that hold no line but a
    text of an erased event: (segment, first byte, end). `lost` were named and are no lines any
    more: what is left of them is erased. `already` were purged before. `revived` come into force
    again without the events: what they forgot or superseded. `summaries` are generated summaries of
    sessions that rest on the events and are not erased. `kept` counts events that a description
    named and that stay because they last.
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
        """The ids of everything that is erased."""
        return {event.id for event in self.events}.union(*(one.ids for one in self.lost))

    def look(self, home: Path, marks: Iterable[str] = ()) -> FolderSearch:
        """A search of the files of the home for what is erased."""
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
    """Find what a purge of the named ids, key, session, source or description erases.

    A description is why events are archived (`archived`), what they are (`pick`), or both. In a
    plane opened for a project a session, source or description takes nothing of other projects,
    unless `ns` names one. With `summaries` generated summaries that rest on it are erased too, with
    `cascade` everything that quotes it. Raises InputError, and NotFoundError where nothing has that
    name. Hold the plane's lock.
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
        found = [
            line.event
            for line in context.log.read()
            if _is_of(line.event, name, value) and not _is_elsewhere(context, line.event, ns)
        ]
    if not found:
        where = f" in {ns}" if name == "key" else ""
        raise NotFoundError(f"no event of {name} {quoted_value(value)}{where}")
    yield from found


def _by_id(context: PlaneContext, one: int | str) -> Event | LostBytes | Already:
    if isinstance(one, bool) or not isinstance(one, int | str):
        raise unexpected("an id or a seq", one, "id")
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


def _is_elsewhere(context: PlaneContext, event: Event, ns: str | None) -> bool:
    """Whether an event is of another project than the caller's, and that is not named."""
    return context.is_elsewhere(event.ns) and event.ns != ns


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
        if _is_elsewhere(context, event, pick.ns):
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
            if how == "refs" and is_derived(event):
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
    bodies = dict.fromkeys(
        one for event in plan.events for one in named_bodies(event.kind, event.data)
    )
    bodies |= dict.fromkeys(digest for one in plan.lost for digest in one.digests)
    named: set[str] = set()
    holes = Holes(context.home.path)
    head = context.log.head().seq
    for line in context.log.read():
        event = line.event
        if not context.home.passing:  # in memory there is no damage
            holes.see(line)
        if progress is not None and (event.seq % _SHOWN_EVERY == 0 or "body" in event.data):
            progress(event.seq, head)
        if event.seq in seqs:
            continue
        if event.kind != "approval":
            for digest in named_bodies(event.kind, event.data):
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


# What is over by the policy.
_MB: Final = 1_000_000


class Due(NamedTuple):
    """Tool results that retention no longer keeps: seqs in log order, bytes, number of sessions."""

    seqs: tuple[int, ...] = ()
    bytes: int = 0
    sessions: int = 0

    def __str__(self) -> str:
        results = "1 tool result" if len(self.seqs) == 1 else f"{len(self.seqs)} tool results"
        sessions = "1 old session" if self.sessions == 1 else f"{self.sessions} old sessions"
        return f"{results} of {sessions}, {self.bytes} bytes"


class _Session:
    __slots__ = ("last", "results", "size")

    def __init__(self) -> None:
        self.last = ""  # when something was recorded in it
        self.results: list[tuple[int, str, int]] = []  # seq, id, bytes
        self.size = 0


def due_of(context: PlaneContext, now: str) -> Due:
    """What the retention policy no longer keeps at a time (RFC 3339). Hold the plane's lock."""
    policy = context.watched.policies_or_last().plane
    if not policy.keep_days and not policy.keep_mb:
        return Due()
    sessions, named = _read_sessions(context)
    taken: set[str] = set()
    silent = sorted(sessions, key=lambda id_: (sessions[id_].last, id_))
    if policy.keep_days:
        before = _earlier(now, timedelta(days=policy.keep_days))
        taken.update(id_ for id_ in silent if sessions[id_].last < before)
    if policy.keep_mb:
        before = _earlier(now, timedelta(minutes=policy.session_gap_minutes))
        over = sum(one.size for one in sessions.values()) - policy.keep_mb * _MB
        over -= sum(sessions[id_].size for id_ in silent if id_ in taken)
        for id_ in silent:
            if over <= 0 or sessions[id_].last >= before:
                break
            if id_ not in taken:
                taken.add(id_)
                over -= sessions[id_].size
    gone = [
        (seq, size, session)
        for session in silent
        if session in taken
        for seq, id_, size in sessions[session].results
        if id_ not in named
    ]
    return Due(
        tuple(sorted(seq for seq, _, _ in gone)),
        sum(size for _, size, _ in gone),
        len({session for _, _, session in gone}),
    )


def _read_sessions(context: PlaneContext) -> tuple[dict[str, _Session], set[str]]:
    """The sessions with what tools gave back in them, and the ids that something else names."""
    sessions: dict[str, _Session] = {}
    named: set[str] = set()
    for line in context.log.read():
        event = line.event
        if event.kind not in ("tool_call", "tool_result"):
            named.update(event.refs)
        if event.session is None:
            continue
        session = sessions.setdefault(event.session, _Session())
        session.last = max(session.last, event.rec)
        if event.kind == "tool_result":
            size = line.end - line.offset + _body(event)
            session.results.append((event.seq, event.id, size))
            session.size += size
    return sessions, named


def _body(event: Event) -> int:
    """The bytes of the event's text that lie beside the log."""
    body = event.data.get("body")
    size = body.get("bytes") if isinstance(body, dict) else None
    return size if isinstance(size, int) else 0


def _earlier(now: str, span: timedelta) -> str:
    try:
        return timestamp(datetime.fromisoformat(now) - span)
    except OverflowError:
        return ""


# Erasing for good: the log's lines, and all that memplane made of them.
_DATA_BYTES: Final = 48 * 1024  # of a purge event, whose data holds 64 KiB
_NUMBERS_BYTES: Final = 32  # seq, count of documents, commas
_LOST_AT_ONCE: Final = 4  # places of lost events, in a purge event
_LOST_IDS: Final = 16  # that it names, of each: an id has 128 characters at most
_NAMED_MAX: Final = 5  # summaries, in an error
_PAUSE_S: Final = 0.02
_LEFT: Final = (
    "what was purged is erased from the log; the next process that opens the plane for writing "
    "erases it from here too"
)


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What was erased, or would be by a dry run, and what still quotes it.

    `events` are (seq, id) in log order, `cascaded` how many of them were not named; `by` the seqs
    of the purge events. `reports` and `quarantine` count files that went as a whole. `quotes` are
    the first of `quoted`. `revived` are (seq, id) of what is in force again without them, and
    `approved` the seqs of artifacts among them that prompts may show again. `lost` are places of
    events that a repair had set aside, `already` those that were purged before.
    `repository`: the git working tree that the plane lies in, if any. `summaries` of a dry run are
    (seq, id) of generated ones that rest on the events: without a word on them nothing is purged.
    `kept` counts decisions and what else lasts that a description named and that stay.
    """

    events: tuple[tuple[int, str], ...]
    cascaded: int
    by: tuple[int, ...]
    bodies: int
    reports: int
    quarantine: int
    quotes: tuple[QuotingEvent, ...]
    quoted: int
    revived: tuple[tuple[int, str], ...]
    approved: frozenset[int]
    lost: tuple[LostBytes, ...]
    already: tuple[Already, ...]
    repository: str | None
    dry_run: bool
    summaries: tuple[tuple[int, str], ...] = ()
    kept: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "events": [{"seq": seq, "id": id_} for seq, id_ in self.events],
            "cascaded": self.cascaded,
            "by": list(self.by),
            "bodies": self.bodies,
            "reports": self.reports,
            "quarantine": self.quarantine,
            "quotes": [quote._asdict() for quote in self.quotes],
            "quoted": self.quoted,
            "revived": [
                {"seq": seq, "id": id_, "approved": seq in self.approved}
                for seq, id_ in self.revived
            ],
            "lost": [one.as_json() for one in self.lost],
            "already_purged": [one._asdict() for one in self.already],
            "repository": self.repository,
            "dry_run": self.dry_run,
            "summaries": [{"seq": seq, "id": id_} for seq, id_ in self.summaries],
            "kept": self.kept,
        }


def purge_plane(
    context: PlaneContext,
    named: dict[str, Any],
    ns: str,
    pick: Pick,
    reason: str,
    *,
    cascade: bool,
    summaries: bool,
    dry_run: bool,
    progress: Progress | None,
) -> PurgeReport:
    """Erase what is named everywhere below the home; see `Plane.purge`."""
    context.check_open()
    check_texts(reason=reason)
    if not context.keeps and not context.home.passing and not dry_run:
        raise HomeError(f"{context.home.path}: is read-only; nothing was purged")
    with context.lock:
        if not dry_run:  # what is torn or waits in the spool is part of the log first
            context.log.append([])
        context.caught_up()
        plan = plan_of(
            context, named, ns, pick, cascade=cascade, summaries=summaries, progress=progress
        )
        if plan.summaries and not dry_run:
            raise _resting(plan.summaries)
        taken = plan.events or plan.lost
        done = _erase(context, plan, reason) if taken and not dry_run else []
    return PurgeReport(
        tuple((event.seq, event.id) for event in plan.events),
        plan.cascaded,
        tuple(each.seq for each in done),
        len(plan.bodies),
        _count(plan, "reports/"),
        _count(plan, "log/"),
        tuple(plan.quotes),
        plan.quoted,
        plan.revived.events,
        plan.revived.approved,
        tuple(plan.lost),
        tuple(plan.already),
        _repository(context),
        dry_run,
        tuple((event.seq, event.id) for event in plan.summaries),
        plan.kept,
    )


def _resting(summaries: list[Event]) -> InputError:
    """The refusal to leave a summary that has words of what is erased, or to take it unasked."""
    named = ", ".join(f"{event.seq} {event.id}" for event in summaries[:_NAMED_MAX])
    more = f" and {len(summaries) - _NAMED_MAX} more" if len(summaries) > _NAMED_MAX else ""
    return InputError(
        f"generated summaries rest on what is to be purged: {named}{more}; nothing was purged; "
        "--summaries (summaries=True) purges them too, --cascade all that quotes it"
    )


def _count(plan: PurgePlan, folder: str) -> int:
    return sum(name.startswith(folder) for name in plan.files)


def _erase(context: PlaneContext, plan: PurgePlan, reason: str) -> list[Appended]:
    """Erase in the log first, durably; then files; then caches, even those that others hold."""
    log, home = context.log, context.home.path
    bodies = [os.path.relpath(body_path(os.fspath(home), one), home) for one in plan.bodies]
    files = [*plan.files, *bodies]
    draft = context.drafting(internal=True)
    drafts = [draft(row, "") for row in _rows(context, plan, reason)]
    done = log.erase(drafts, {event.seq: event.id for event in plan.events}, files, plan.holes)
    try:
        for name in plan.look(home).reports():  # saved meanwhile
            with suppress(FileNotFoundError):
                nofollow.remove_name(home / name, home=home)
        context.forget_folds()
        _until(context, "projections", lambda: _cleared(home, "projections"))
        context.caught_up().save()
        _erase_from_index(context, done[-1].seq)
    except OSError as error:
        raise WriteError(f"{error.filename or home}: {error.strerror}; {_LEFT}") from error
    log.erased(done)
    return done


def _rows(context: PlaneContext, plan: PurgePlan, reason: str) -> list[dict[str, Any]]:
    slots = index_service(context).slots(context.watched.policies_or_last())
    rows = []
    for events in _portions(plan.events):
        said: dict[str, Any] = {
            "seqs": [event.seq for event in events],
            "ids": [event.id for event in events],
            "documents": [slots(event) for event in events],
        }
        # It holds their ids, so it is as sensitive as the most sensitive of them.
        hidden = max((event.sensitivity for event in events), key=SENSITIVITIES.index)
        rows.append(_row(reason, hidden, said))
    # The sensitivity of what was lost is not known any more.
    for some in _some(plan.lost):
        said = {"seqs": [], "ids": [], "documents": [], "lost": [_told(one) for one in some]}
        rows.append(_row(reason, SENSITIVITIES[-1], said))
    return rows


def _row(reason: str, sensitivity: str, said: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "purge", "text": reason, "sensitivity": sensitivity, "data": {"purge": said}}


def _some(lost: list[LostBytes]) -> Iterator[list[LostBytes]]:
    for at in range(0, len(lost), _LOST_AT_ONCE):
        yield lost[at : at + _LOST_AT_ONCE]


def _told(one: LostBytes) -> dict[str, Any]:
    """What a purge event says of a place where events were lost: enough to tell a repeat."""
    said = one.as_json()
    return {**said, "ids": said["ids"][:_LOST_IDS], "files": len(one.files), "named": ""}


def _portions(events: list[Event]) -> Iterator[list[Event]]:
    """The events by what a purge event has room for."""
    portion: list[Event] = []
    size = 0
    for event in events:
        size += len(encode({"": event.id})) + _NUMBERS_BYTES
        if portion and size > _DATA_BYTES:
            yield portion
            portion, size = [], len(encode({"": event.id})) + _NUMBERS_BYTES
        portion.append(event)
    if portion:
        yield portion


def _cleared(home: Path, cache: str) -> bool:
    with alone(home / cache) as held:
        if held:
            clear_cache(os.fspath(home), cache)
        return held


def _erase_from_index(context: PlaneContext, seq: int) -> None:
    """Leave nothing in the index's folder; where others hold it for too long, LockError."""
    folder = context.home.path / "index"
    if all(name in KEPT for name in nofollow.folder_names(folder)):
        return
    policies = context.watched.policies_or_last()
    with suppress(OSError):
        if index_service(context).erased(policies, seq):
            return
    # An index of other rules, or of which another process keeps a part: made again when needed.
    index_service(context).drop()
    _until(context, "index", lambda: _cleared(context.home.path, "index"))


def _until(context: PlaneContext, name: str, tried: Callable[[], bool]) -> None:
    most = context.watched.policies_or_last().plane.lock_wait_ms_max
    deadline = time.monotonic() + most / 1000
    while not tried():
        if time.monotonic() >= deadline:
            pid = holder(context.home.path / name)
            who = "another process" if pid is None else f"process {pid}"
            raise LockError(
                f"{context.home.path / name}: held by {who} for more than {most} ms; {_LEFT}",
                holder=pid,
            )
        time.sleep(_PAUSE_S)


def _repository(context: PlaneContext) -> str | None:
    home = context.home.path.resolve()
    return next((str(one) for one in home.parents if (one / ".git").exists()), None)
