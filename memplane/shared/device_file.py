"""The file of one device in a shared folder, and what a plane keeps at home of such a folder.

A device is one plane that shares a folder. It alone writes the file, `DEVICE.jsonl`, and only at
its end, so no two machines ever change the same file. JSON lines, UTF-8, ended by LF, each numbered
and chained as the lines of a log are (`memplane.log.segments`), from the hash of the device's id::

    {"seq":1,"id":DEVICE,"device":{"format":1,"plane":ID,"name":NAME},"h":HEX16}
    {"seq":N,"id":ID,"event":{"ts":..,"kind":..,"text":..},"h":HEX16}
    {"seq":N,"id":ID,"text":PART,"h":HEX16}          a part of a long text; all parts stand before
    {"seq":N,"id":ID,"event":{..},"parts":P,"h":..}  ... the line of their event, in their order
    {"seq":N,"id":ID,"purge":[ID,..],"h":HEX16}      these events are erased, here and elsewhere

DEVICE is 16 hex digits. An event has the fields of the log's, without what a log gives
(`seq`, `dur`, `rec`, `tokens`, `h`); `data.origin` says from which plane it is and the time by
which values of several planes are ordered (`projections.in_force`). Forgets and pins name ids.

A purge puts tombstones of the same length, number and hash in the place of lines (`tombstone` in
`log.segments`). No other change of what was read before is accepted: a reader keeps the `FilePlace`
up to which it has read, and refuses a file whose line there has another hash, or that is shorter,
or in which a tombstone stands that no purge names. Refused is the whole file, before anything of
it counts. Bytes behind the last newline are not looked at: the rest of the line is on its way.

Every number is bounded: the bytes of a line, a text and a file, the ids that one line names.

**At home** (`FolderState`) is what a plane keeps of a shared folder: its device there, what was
chosen, how far each was read. One JSON file a folder, `HOME/shared/folder-DEVICE.json`, mode 0600,
kept out of git. It holds ids, names and hashes, no text of an event. Without it a plane is a new
device of the folder, and reads every file again: events are taken in by their ids, so nothing
doubles.

It counts on the machine that wrote it alone: a plane that was cloned or unpacked may bring one in
which a stranger has accepted a device, and two copies of a plane must not write one file. So the
user's state folder (`memplane.trust.state_folder`) has a mark for each device,
`folders/DEVICE.json`, with the place and inode of the plane's home; what has neither is no state of
this plane.
"""

from __future__ import annotations

import json
import os
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from memplane import nofollow
from memplane.errors import HomeError, InputError, MemplaneError, WriteError
from memplane.event import FIELDS, REFS_MAX, SENSITIVITIES, Event, decode, encode
from memplane.home import replace_file
from memplane.intake import NAME_MAX, OWN_KINDS, TEXT_BYTES_MAX, check_whole, collect
from memplane.lazy import NamedTuple, regex
from memplane.log.segments import chain_hash, chained, genesis, line_id, tombstone
from memplane.projections.in_force import ORIGIN, is_foreign
from memplane.trust import state_folder

DEVICE_FORMAT: Final = 1
DEVICE_NAME_MAX: Final = 64
FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
ENTRY_BYTES_MAX: Final = 2 * 1024 * 1024  # of a line
NAMED_MAX: Final = 200  # ids that one line names
PURGED_MAX: Final = 1_000_000  # ids that the purges of a file name, and tombstones in it
_ENDING: Final = ".jsonl"
# It stands in labels of blocks: no colon, no bracket.
_NAMED: Final = regex(r"(?! )[\w .@'-]{1,64}(?<! )")
_DEVICE: Final = regex(r"[0-9a-f]{16}")
_WINDOW_BYTES: Final = 1024 * 1024
_INLINE_BYTES: Final = 64 * 1024  # of a text that stands in its event's line
_PART_BYTES: Final = 256 * 1024
_LEFT_OUT: Final = frozenset(("seq", "dur", "id", "rec", "tokens", "h"))
_EVENT_FIELDS: Final = tuple(name for name in FIELDS if name not in _LEFT_OUT)
_AGENTS: Final = "/agent/"
_ORIGIN_FIELDS: Final = frozenset(("plane", "seq", "time", "turn", "given", "device"))
_PURGE: Final = b',"purge":['


class RefusedFileError(MemplaneError):
    """A device's file that is not taken: nothing of it counts, nothing here was changed."""


class DeviceHeader(NamedTuple):
    """The first line: whose file it is, as that device says."""

    device: str
    plane: str
    name: str


class FilePlace(NamedTuple):
    """How far a file was read: so many bytes and whole lines, and the hash of the last one."""

    bytes: int = 0
    lines: int = 0
    h: str = ""


class SharedEvent(NamedTuple):
    """An event of a device's file, with its whole text. `row` has the fields of a new event."""

    id: str
    row: dict[str, Any]


class SharedPurge(NamedTuple):
    """A purge of a device's file, by the ids of what it erased."""

    id: str
    ids: tuple[str, ...]


class ReadFile(NamedTuple):
    """What one reading of a file found; `purged` are the ids that all its purges name."""

    header: DeviceHeader
    end: FilePlace
    purged: frozenset[str]
    events: int
    first: str
    last: str


def device_of(name: str) -> str | None:
    """The device whose file has that name; None for any other file."""
    device = name.removesuffix(_ENDING)
    return device if name != device and _DEVICE.fullmatch(device) else None


def file_of(device: str) -> str:
    """The name of a device's file."""
    return f"{device}{_ENDING}"


def check_device_name(name: object, where: str = "name") -> str:
    """The name of a device as it may be kept and shown; raises InputError for any other."""
    if isinstance(name, str) and _NAMED.fullmatch(name) and name.isprintable():
        return name
    raise InputError(
        f"found {name!a:.80}; expected a name of 1 to {DEVICE_NAME_MAX} letters, digits, "
        "blanks and any of . _ - @ '",
        where=where,
    )


# Is given an entry, and the place in the file where its first line begins.
Take = Callable[["SharedEvent | SharedPurge", FilePlace], None]


def read_device(
    path: str,
    seen: FilePlace | None = None,
    *,
    check: Take | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReadFile:
    """Read and check a device's file from its first byte to its last whole line.

    `check` is given every entry behind `seen`, in order, and raises what it cannot accept. Holds
    one window of the file, and one text. Raises RefusedFileError.
    """
    with _refusing(path), nofollow.open_regular(path) as file:
        return _Reading(file, path, seen or FilePlace()).run(check, progress)


class _refusing:  # noqa: N801 - used as a function
    """Makes a refusal of whatever keeps a file from being read."""

    def __init__(self, path: str) -> None:
        self._name = os.path.basename(path)  # noqa: PTH119 - a text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RefusedFileError):
            return
        if isinstance(error, OSError):
            raise RefusedFileError(f"{self._name}: {error.strerror or error}") from error


class _Reading:
    """One reading of a file."""

    def __init__(self, file: IO[bytes], path: str, seen: FilePlace) -> None:
        self._file, self._name, self._seen = file, os.path.basename(path), seen  # noqa: PTH119
        self._device = device_of(self._name) or ""
        self._header: DeviceHeader | None = None
        self._place = FilePlace(0, 0, genesis(self._device).decode())
        self._parts: list[str] = []
        self._part_id, self._part_bytes = "", 0
        self._before_parts = FilePlace()  # where the parts of a text begin that is not whole yet
        self._erased: dict[str, int] = {}  # by id: the number of the line
        self._purged: set[str] = set()
        self._events, self._first, self._last = 0, "", ""

    def run(self, check: Take | None, progress: Callable[[int, int], None] | None) -> ReadFile:
        size = os.fstat(self._file.fileno()).st_size
        if size > FILE_BYTES_MAX:
            raise self._refusal(f"{size} bytes, expected at most {FILE_BYTES_MAX}")
        for data in self._windows():
            self._window(data, check)
            if progress is not None:
                progress(self._place.bytes, size)
        if self._header is None:
            raise self._refusal("no whole line, expected its header")
        if self._place.lines < self._seen.lines:
            raise self._refusal(
                f"shortened: {self._place.lines} lines, {self._seen.lines} were read before"
            )
        strange = [one for one in self._erased if one not in self._purged]
        if strange:
            line = self._erased[strange[0]]
            raise self._refusal(f"line {line} was erased, and no purge in the file names it")
        end = self._before_parts if self._parts else self._place
        return ReadFile(
            self._header,
            end,
            frozenset(self._purged),
            self._events,
            self._first,
            self._last,
        )

    def _windows(self) -> Iterator[bytes]:
        """The whole lines of the file, some megabytes at a time."""
        rest = b""
        while part := self._file.read(_WINDOW_BYTES):
            rest += part
            end = rest.rfind(b"\n") + 1
            if end:
                yield rest[:end]
                rest = rest[end:]
            if len(rest) > ENTRY_BYTES_MAX:
                raise self._refusal(
                    f"line {self._place.lines + 1} has more than {ENTRY_BYTES_MAX} bytes"
                )

    def _window(self, data: bytes, check: Take | None) -> None:
        before = self._place
        run = chained(data, 0, len(data), before.lines, before.h.encode())
        if run.end != len(data):
            raise self._refusal(
                f"line {run.last + 1} does not follow from the one before: the file was rewritten "
                "or is damaged"
            )
        starts = [*run.starts, run.end]
        self._compare(data, starts)
        for at, start in enumerate(run.starts):
            raw, number = data[start : starts[at + 1] - 1], before.lines + at + 1
            if len(raw) >= ENTRY_BYTES_MAX:
                raise self._refusal(f"line {number} has more than {ENTRY_BYTES_MAX} bytes")
            if start in run.erased:
                self._erased.setdefault(line_id(raw) or "", number)
            elif number == 1:
                self._header = self._opened(self._parsed(raw, 1))
            elif number > self._seen.lines:
                if not self._parts:
                    h = data[start - 19 : start - 3].decode() if start else before.h
                    self._before_parts = FilePlace(before.bytes + start, number - 1, h)
                self._entry(raw, number, check)
        self._note_purges(data, starts, before.lines, run.erased)
        if max(len(self._purged), len(self._erased)) > PURGED_MAX:
            raise self._refusal(f"more than {PURGED_MAX} events were purged")
        self._place = FilePlace(before.bytes + run.end, run.last, run.h.decode())
        if self._header is None:
            raise self._refusal("line 1 was erased, expected the header of the device")

    def _compare(self, data: bytes, starts: Sequence[int]) -> None:
        """Refuse a file whose line at the place that was read before has another hash."""
        before, seen = self._place, self._seen
        at = seen.lines - before.lines
        if not 0 < at < len(starts):
            return
        end = starts[at]
        if (before.bytes + end, data[end - 19 : end - 3].decode("ascii", "replace")) != (
            seen.bytes,
            seen.h,
        ):
            raise self._refusal(f"rewritten: line {seen.lines} is not the one that was read before")

    def _note_purges(
        self, data: bytes, starts: Sequence[int], before: int, erased: frozenset[int]
    ) -> None:
        """Note what purges read earlier name: their tombstones may come later."""
        at = data.find(_PURGE)
        while at >= 0:
            row = bisect_right(starts, at) - 1
            number = before + row + 1
            if 1 < number <= self._seen.lines and starts[row] not in erased:
                fields = self._parsed(data[starts[row] : starts[row + 1] - 1], number)
                if "purge" in fields:
                    self._purged.update(self._purge(fields, number).ids)
            at = data.find(_PURGE, starts[row + 1])

    def _parsed(self, raw: bytes, number: int) -> dict[str, Any]:
        try:
            fields = json.loads(raw)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise self._refusal(f"line {number} is no JSON object in UTF-8")
        return fields

    def _opened(self, fields: dict[str, Any]) -> DeviceHeader:
        said = fields.get("device")
        if not isinstance(said, dict) or set(fields) != {"seq", "id", "device", "h"}:
            raise self._refusal("line 1 is not the header of a device's file")
        version = said.get("format")
        if type(version) is int and version > DEVICE_FORMAT:
            raise self._refusal(
                f"format {version}; this memplane reads format {DEVICE_FORMAT}: upgrade memplane"
            )
        plane, name = said.get("plane"), said.get("name")
        if (
            version != DEVICE_FORMAT
            or not _is_name(plane)
            or set(said)
            - {
                "format",
                "plane",
                "name",
            }
        ):
            raise self._refusal("line 1 is not the header of a device's file")
        if fields["id"] != self._device:
            raise self._refusal(
                f"line 1 is of device {fields['id']!r:.40}, expected {self._device}"
            )
        try:
            return DeviceHeader(self._device, str(plane), check_device_name(name))
        except InputError as error:
            raise self._refusal(f"line 1: {error}") from None

    def _entry(self, raw: bytes, number: int, check: Take | None) -> None:
        """Check one line behind the header, and pass on what it says."""
        fields = self._parsed(raw, number)
        id_ = fields.get("id")
        if not isinstance(id_, str):
            raise self._refusal(f"line {number} has no id")
        names = set(fields) - {"seq", "id", "h"}
        if self._parts and (id_ != self._part_id or not names & {"text", "event"}):
            raise self._refusal(f"line {number} stands between the parts of a text and their event")
        entry: SharedEvent | SharedPurge
        if names == {"text"}:
            self._part(id_, fields["text"], number)
            return
        if names == {"purge"}:
            entry = self._purge(fields, number)
            self._purged.update(entry.ids)
        elif names in ({"event"}, {"event", "parts"}):
            entry = self._event(id_, fields, number)
            self._events += 1
            day = str(entry.row["ts"])[:10]
            self._first = min(self._first or day, day)
            self._last = max(self._last, day)
        else:
            raise self._refusal(f"line {number} is no line of a device's file")
        if check is None:
            return
        try:
            check(entry, self._before_parts)
        except InputError as error:
            raise self._refusal(f"line {number}: {error}") from error

    def _part(self, id_: str, text: object, number: int) -> None:
        if not isinstance(text, str) or not text:
            raise self._refusal(f"line {number}: expected a part of a text")
        self._part_id = id_
        self._parts.append(text)
        self._part_bytes += len(text)
        if self._part_bytes > TEXT_BYTES_MAX:
            raise self._refusal(f"line {number}: a text of more than {TEXT_BYTES_MAX} bytes")

    def _event(self, id_: str, fields: dict[str, Any], number: int) -> SharedEvent:
        said, parts = fields["event"], self._parts
        self._parts, self._part_bytes = [], 0
        if not isinstance(said, dict) or fields.get("parts", 0) != len(parts):
            raise self._refusal(f"line {number}: expected an event with all parts of its text")
        row = {"id": id_, **said}
        if parts:
            if "text" in said:
                raise self._refusal(f"line {number}: a text and parts of one")
            row["text"] = "".join(parts)
        try:
            check_shared_row(row)
        except (InputError, RecursionError) as error:
            raise self._refusal(f"line {number}: {error}") from None
        return SharedEvent(id_, row)

    def _purge(self, fields: dict[str, Any], number: int) -> SharedPurge:
        ids = fields["purge"]
        if not isinstance(ids, list) or len(ids) > NAMED_MAX or not all(map(_is_name, ids)):
            raise self._refusal(f"line {number}: expected at most {NAMED_MAX} ids of purged events")
        return SharedPurge(str(fields["id"]), tuple(ids))

    def _refusal(self, what: str) -> RefusedFileError:
        return RefusedFileError(f"{self._name}: {what}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_MAX and value.isprintable()


def check_shared_row(row: Mapping[str, Any]) -> None:
    """Raise InputError for an event that no device writes."""
    unknown = [name for name in row if name != "id" and name not in _EVENT_FIELDS]
    if unknown:
        raise InputError(f"the event has a field {unknown[0]!r:.40}, which no device writes")
    kind, ns = row.get("kind"), row.get("ns", "")
    if kind in OWN_KINDS or not isinstance(kind, str):
        raise InputError(f"an event of kind {kind!r:.40}, which only a log writes")
    if isinstance(ns, str) and ns.startswith(_AGENTS):
        raise InputError(f"an event of {ns!r:.80}: what is an agent's own never travels")
    if not isinstance(row.get("ts"), str):
        raise InputError("an event without a time")
    checked = collect(row, internal=False, where="")
    check_whole(checked, kind)
    origin = checked.get("data", {}).get(ORIGIN)
    named = {"seq": 0, "id": row["id"], "ts": checked["ts"], "kind": kind}
    if not isinstance(origin, dict) or not is_foreign(decode({**named, "data": {ORIGIN: origin}})):
        raise InputError("an event that does not say from which plane it is")
    if set(origin) - _ORIGIN_FIELDS or "device" in origin:
        raise InputError("an event whose origin says what only the reader of a folder writes")


# Writing.


class DeviceLines:
    """Composes the lines of a device's file, from a place on; writes nothing."""

    def __init__(self, device: str, place: FilePlace) -> None:
        self.place = place if place.lines else FilePlace(0, 0, genesis(device).decode())

    def header(self, device: str, plane: str, name: str) -> bytes:
        """The first line."""
        said = {"format": DEVICE_FORMAT, "plane": plane, "name": name}
        return self.line(device, {"device": said})

    def event(self, id_: str, fields: Mapping[str, Any]) -> bytes:
        """The lines of an event; `fields` by the names of the log, with the whole text."""
        said = {name: fields[name] for name in _EVENT_FIELDS if name in fields}
        text = said.get("text", "")
        if len(text) * 4 <= _INLINE_BYTES or len(text.encode()) <= _INLINE_BYTES:
            return self.line(id_, {"event": said})
        said.pop("text")
        parts = list(_parts_of(text))
        lines = [self.line(id_, {"text": part}) for part in parts]
        return b"".join([*lines, self.line(id_, {"event": said, "parts": len(parts)})])

    def purge(self, id_: str, ids: Sequence[str]) -> bytes:
        """The line of a purge."""
        return self.line(id_, {"purge": list(ids)})

    def line(self, id_: str, said: Mapping[str, Any]) -> bytes:
        """A line with these fields behind its number and id."""
        count, number = self.place.bytes, self.place.lines + 1
        body = encode({"seq": number, "id": id_, **said})[:-1].encode()
        h = chain_hash(self.place.h.encode(), body)
        line = body + b',"h":"' + h + b'"}\n'
        self.place = FilePlace(count + len(line), number, h.decode())
        return line


def _parts_of(text: str) -> Iterator[str]:
    """The text in pieces of at most `_PART_BYTES` bytes; no character is cut."""
    data, at = text.encode(), 0
    while at < len(data):
        end = min(at + _PART_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[at:end].decode()
        at = end


def append_lines(path: str, at: int, data: bytes) -> None:
    """Write behind byte `at` of a device's own file, durable; what stands there is cut off."""
    made = not os.path.lexists(path)
    fd = nofollow.open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        if made:
            os.fchmod(fd, 0o644)  # who may enter the folder may read it: that is what it is for
        os.ftruncate(fd, at)
        os.lseek(fd, at, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    nofollow.sync_folder(os.path.dirname(path))  # noqa: PTH120 - a text


def ids_in(path: str, wanted: Iterable[str] | None = None) -> set[str]:
    """The ids of the lines of a file that are no tombstones: all of them, or those of `wanted`."""
    asked = None if wanted is None else set(wanted)
    found: set[str] = set()
    with suppress(FileNotFoundError), nofollow.open_regular(path) as file:
        for raw in iter(lambda: file.readline(ENTRY_BYTES_MAX), b""):
            id_ = _id_of(raw)
            if id_ is not None and (asked is None or id_ in asked) and not _says(raw, _ERASED):
                found.add(id_)
    return found


_ERASED: Final = b'"purged":true,'
_PURGE_LINE: Final = b'"purge":'
_OPENING: Final = regex(rb'\{"seq":\d+,"id":("(?:[^"\\]|\\.)*"),')


def _id_of(raw: bytes) -> str | None:
    found = _OPENING.match(raw)
    if found is None:
        return None
    try:
        said = json.loads(found[1])
    except ValueError:
        return None
    return said if isinstance(said, str) else None


def erase_lines(path: str, draft: str, device: str, ids: set[str]) -> int:
    """Put tombstones in the place of the lines of these events; return how many.

    The file is written anew beside it, under the name `draft`, and takes its place in one step:
    whoever reads it sees all of the purge or nothing.
    """
    count, h = 0, genesis(device)
    with nofollow.open_regular(path) as file, os.fdopen(nofollow.create_draft(draft), "wb") as to:
        for raw in iter(lambda: file.readline(ENTRY_BYTES_MAX), b""):
            line = raw.removesuffix(b"\n")
            id_ = _id_of(raw)
            if id_ in ids and not _says(line, _ERASED) and not _says(line, _PURGE_LINE):
                line = tombstone(line, str(id_), h)
                count += 1
            to.write(line + raw[len(line) :])
            h = line[-18:-2]
        to.flush()
        os.fchmod(to.fileno(), 0o644)
        os.fsync(to.fileno())
    if count:
        nofollow.rename_name(draft, path)
        nofollow.sync_folder(os.path.dirname(path))  # noqa: PTH120 - a text
    else:
        nofollow.remove_name(draft)
    return count


def _says(line: bytes, word: bytes) -> bool:
    """Whether the first field behind the id of a line begins with these bytes."""
    found = _OPENING.match(line)
    return found is not None and line.startswith(word, found.end())


assert REFS_MAX >= NAMED_MAX, "a pin names its ids in refs"


EVERYTHING: Final = "*"
STATE_FOLDER: Final = "shared"
WAITING_MAX: Final = 20_000  # ids that acts wait for, and ids that are not wanted
_FORMAT: Final = 1
_BYTES_MAX: Final = 64 * 1024 * 1024
_MARK_BYTES: Final = 64 * 1024
# What belongs to one machine: files and what is said of them, folders, secrets, the log itself.
_STAYING: Final = frozenset(
    ("artifact", "approval", "secret", "project", "segment", "repair", "purge")
)
_SENSITIVE: Final = frozenset(SENSITIVITIES[SENSITIVITIES.index("high") :])


class Chosen(NamedTuple):
    """What is shared with a folder: the namespaces, `*` for all, and whether preferences are."""

    spaces: tuple[str, ...] = (EVERYTHING,)
    preferences: bool = False

    def takes(self, kind: str, ns: str) -> bool:
        """Whether events of a kind and namespace are shared; what is an agent's own never is."""
        if kind in _STAYING or ns.startswith(_AGENTS):
            return False
        if kind == "preference" and not self.preferences:
            return False
        return EVERYTHING in self.spaces or ns in self.spaces

    def shares(self, event: Event) -> bool:
        """Whether this event may be in the folder: never one of high sensitivity."""
        return event.sensitivity not in _SENSITIVE and self.takes(event.kind, event.ns)


def device_that_said(event: Event) -> str | None:
    """The device from whose file an event was taken in; None for one of this plane's own."""
    if not is_foreign(event):
        return None
    device = event.data[ORIGIN].get("device")
    return device if isinstance(device, str) else None


@dataclass(slots=True)
class KnownDevice:
    """An accepted device: the name it is shown under, whose it is, how far its file was read."""

    name: str
    mine: bool
    place: FilePlace = field(default_factory=FilePlace)
    stat: tuple[int, ...] = ()


class MetFile(NamedTuple):
    """What was found in the file of a device that is not accepted: see `DeviceReport`."""

    stat: tuple[int, ...]
    status: str
    name: str
    why: str
    events: int
    first: str
    last: str


@dataclass(slots=True)
class WaitingAct:
    """A forget, pin or touch of a device, with the ids that it names and that are not here yet.

    `part`: others of its ids were here, so that what was recorded of it has an id of its own.
    """

    device: str
    row: dict[str, Any]
    ids: list[str]
    part: bool = False


@dataclass(slots=True)
class FolderState:
    """What is kept of one folder. `seq`: up to which event of the log the own file was written.

    `writing`: the own file may have more lines than `own` says, as an append was not finished.
    `purging`: by device the ids that its purges named, until that is done here. `unwanted`: ids of
    events that were purged elsewhere before they came here. `met`: what was found in the files of
    devices that are not accepted, so that none is read again before it changes.
    """

    device: str
    name: str
    folder: str
    plane: str
    chosen: Chosen = field(default_factory=Chosen)
    seq: int = 0
    own: FilePlace = field(default_factory=FilePlace)
    writing: bool = False
    devices: dict[str, KnownDevice] = field(default_factory=dict)
    waiting: list[WaitingAct] = field(default_factory=list)
    purging: dict[str, list[str]] = field(default_factory=dict)
    unwanted: dict[str, None] = field(default_factory=dict)
    met: dict[str, MetFile] = field(default_factory=dict)

    def save(self, home: str) -> None:
        """Keep it, durable; raises WriteError."""
        count = sum(len(act.ids) for act in self.waiting)
        while count > WAITING_MAX:
            count -= len(self.waiting.pop(0).ids)
        while len(self.unwanted) > WAITING_MAX:
            del self.unwanted[next(iter(self.unwanted))]
        said = {"format": _FORMAT, **asdict(self), "unwanted": list(self.unwanted)}
        folder, name = f"{home}/{STATE_FOLDER}", f"folder-{self.device}.json"
        try:
            nofollow.make_folder(folder, home)
            if not nofollow.is_file(f"{folder}/.gitignore"):  # of a plane made by an older memplane
                _put(f"{folder}/.gitignore", b"*\n", home)
            _put(f"{folder}/{name}", json.dumps(said).encode(), home)
        except OSError as error:
            raise WriteError(f"{error.filename or folder}: {error.strerror}") from error


def _put(path: str, data: bytes, home: str) -> None:
    draft = f"{path}.new"
    with os.fdopen(nofollow.create_draft(draft, home=home), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    nofollow.rename_name(draft, path, home=home)
    nofollow.sync_folder(path.rpartition("/")[0], home)


def _mark_of(device: str) -> str:
    return f"{state_folder(os.environ)}/folders/{device}.json"


def is_of_this_machine(home: str, device: str) -> bool:
    """Whether this plane, on this machine, is that device."""
    try:
        said = json.loads(nofollow.read_bytes(_mark_of(device), _MARK_BYTES))
        found = Path(home).stat()
        same_folder = [found.st_dev, found.st_ino] == said["inode"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return bool(same_folder or said["location"] == os.path.realpath(home))


def mark_device(home: str, device: str) -> None:
    """Note that this plane, on this machine, is that device; raises WriteError."""
    path, found = Path(_mark_of(device)), Path(home).stat()
    said = {"location": os.path.realpath(home), "inode": [found.st_dev, found.st_ino]}
    with suppress(OSError, ValueError):
        if json.loads(nofollow.read_bytes(path, _MARK_BYTES)) == said:
            return
    if not replace_file(path, json.dumps(said).encode()):
        raise WriteError(f"{path}: cannot be written: permission denied; nothing was synced")


def new_device() -> str:
    """The id of a device that was never seen."""
    return secrets.token_hex(8)


def kept_state(home: str, plane: str, folder: str) -> FolderState | None:
    """What is kept of a folder, wherever it lies now; None where nothing is.

    It is found by the own file in the folder, else by the path. What is of another machine, or of
    the plane that this one is a copy of, is not looked at. Raises HomeError for a file that cannot
    be read.
    """
    found: FolderState | None = None
    for name in nofollow.file_names(f"{home}/{STATE_FOLDER}", home):
        device = device_of(f"{name.removeprefix('folder-')}l") if name[:7] == "folder-" else None
        if device is None or not is_of_this_machine(home, device):
            continue
        state = _state_in(f"{home}/{STATE_FOLDER}/{name}", home)
        if state.plane != plane:
            continue
        if nofollow.is_file(f"{folder}/{file_of(state.device)}"):
            return state
        if state.folder == folder:
            found = state
    return found


def _state_in(path: str, home: str) -> FolderState:
    try:
        return _parsed(json.loads(nofollow.read_bytes(path, _BYTES_MAX, home=home)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise HomeError(
            f"{path}: cannot be used ({what}); move it away, and this plane is a new device of its "
            "folder"
        ) from error


def _parsed(said: Mapping[str, Any]) -> FolderState:
    if said["format"] != _FORMAT:
        raise ValueError(f"format {said['format']!r:.40}, expected {_FORMAT}")
    spaces, preferences = said["chosen"]
    return FolderState(
        said["device"],
        said["name"],
        said["folder"],
        said["plane"],
        Chosen(tuple(map(str, spaces)), bool(preferences)),
        int(said["seq"]),
        FilePlace(*said["own"]),
        bool(said["writing"]),
        {
            device: KnownDevice(
                str(one["name"]), bool(one["mine"]), FilePlace(*one["place"]), tuple(one["stat"])
            )
            for device, one in said["devices"].items()
        },
        [WaitingAct(**one) for one in said["waiting"]],
        {str(device): [*map(str, ids)] for device, ids in said["purging"].items()},
        dict.fromkeys(said["unwanted"]),
        {device: MetFile(tuple(one[0]), *one[1:]) for device, one in said["met"].items()},
    )


def accept_device(state: FolderState, device: str, *, name: str, mine: bool) -> None:
    """Take a device's events from now on, as this person's or, with `mine`, as the user's own.

    Raises InputError where another device has the name: what two persons say would look like one's.
    """
    name = check_device_name(name, "--name")
    same = [one for one, known in state.devices.items() if known.name == name and one != device]
    if (same or name == state.name) and not mine:
        raise InputError(
            f"{name!r} is the name of another device here; name this one with --name", where="name"
        )
    before = state.devices.get(device)
    state.devices[device] = KnownDevice(name, mine, before.place if before else FilePlace())


# What a sync did.


@dataclass(slots=True)
class DeviceReport:
    """What was found in one device's file.

    `status`: accepted, waiting (nothing of it counts until it is accepted) or refused, with why.
    `events` is how many the file holds, with the first and last day of them; `taken` how many were
    recorded now, `repeated` those that were here; `left` those that this plane does not take: other
    namespaces, kinds that another person may not say here.
    """

    device: str
    name: str
    status: str
    mine: bool = False
    why: str = ""
    events: int = 0
    first: str = ""
    last: str = ""
    taken: int = 0
    repeated: int = 0
    left: int = 0
    refusals: int = 0
    purged: int = 0


@dataclass(slots=True)
class SyncReport:
    """What a sync did, or would do by a dry run.

    `sent` counts events that were written to the own file, `erased` those of which it was cleared,
    `withheld` by reason those that stay. `more`: so much is new that the next sync goes on.
    """

    folder: str
    device: str
    name: str
    spaces: tuple[str, ...]
    preferences: bool
    dry_run: bool
    sent: int = 0
    erased: int = 0
    withheld: dict[str, int] = field(default_factory=dict)
    devices: list[DeviceReport] = field(default_factory=list)
    more: bool = False
    git: str = ""

    @property
    def refused(self) -> list[DeviceReport]:
        """The files that were refused."""
        return [one for one in self.devices if one.status == "refused"]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def stat_of(path: str) -> tuple[int, ...]:
    """What changes when a file does; nothing where there is none."""
    with suppress(OSError):
        found = os.lstat(path)
        return (found.st_size, found.st_mtime_ns, found.st_ino)
    return ()
