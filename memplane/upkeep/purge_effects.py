"""What a purge affects beside the events themselves.

Quotations of their texts elsewhere (`Quotations`), bytes that a repair took out of the log
(`Lost`), files that hold them (`Look`), and values that come back into force (`Revived`).
"""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.context.artifact_files import ArtifactApprovals
from memplane.context.context import NO_END
from memplane.lazy import NamedTuple, regex
from memplane.log.format import SUFFIX_BYTES
from memplane.projections.artifacts import Artifacts
from memplane.projections.memories import Memories

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Iterable, Iterator

    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.ports import Line

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
            if _is_of(row, named):
                seq, id_ = (named, "") if isinstance(named, int) else (0, named)
                return Already(seq, id_, line.event.seq, line.event.ts)
    return None


def has_id(text: str, ids: set[str]) -> bool:
    """Whether a line of the text, whole or cut off, has one of the ids."""
    return bool(ids) and any(unescaped(match[1]) in ids for match in _ID.finditer(text))


def _is_of(row: object, named: int | str) -> bool:
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
_LEFT: Final = (".new", ".tmp")  # of a file that was being written when somebody died
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
            if path.suffix in _LEFT:
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
        for some in _portions(lines):
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


def _portions(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while some := list(islice(lines, _AT_ONCE)):
        yield some
