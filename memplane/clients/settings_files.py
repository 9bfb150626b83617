"""Settings files of other programs: edited as text, replaced whole or not at all.

A file is written under another name, synced and renamed, with the mode and owner that it had; a
symbolic link stays one, its target is replaced. Just before the rename the file is read again: what
another program wrote since is never lost.

What an install did to a file besides our own entries is kept, so that an uninstall leaves none of
it::

    {"file": "/home/ann/.claude/settings.json", "part": "hooks",
     "before": SHA-256 of the file as it was, null where there was none,
     "backups": [[a copy that was made of it, its SHA-256]], "folders": [those made for it],
     "made": [["hooks"], ["hooks", "Stop"]], "inner": [[["hooks"], " "]],
     "blank": "", "joint": "", "former": ""}

It lies in the user's folder of state (XDG_STATE_HOME, else ~/.local/state), a file for each
settings file: not beside the settings, which are often in git and shared, and not in a plane,
which may be moved or deleted before. So do the copies of a project's settings, for the same
reason. Where it is lost, our entries are found by what they run, and empty containers stay.

JSON is read as values and changed as text. A settings file is never written out anew. What is added
stands behind what is there, in the file's own indentation and line ends; what is taken out takes
its comma along. Every other byte stays, and taking out what was added gives the text back as it
was.

A path is a list of keys and numbers from the root: `["hooks", "Stop", 0]`. Of two members with the
same key the last one counts, as it does for the programs that read the file.

TOML is read by the standard library and changed by tomlkit as text. A table of ours is put behind
everything else and found again by its name, however it was moved. Comments and layout stay. Every
change is read back before it counts: the text must say what it said before, with and without the
table.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import json.decoder
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from memplane.errors import InputError, WriteError
from memplane.home import replace_file, sync_names
from memplane.lazy import NamedTuple, late
from memplane.trust import state_folder

if TYPE_CHECKING:
    import tomlkit
    from tomlkit import exceptions as toml_errors
else:
    tomlkit = late("tomlkit")
    toml_errors = late("tomlkit.exceptions")


_BYTES_MAX = 64 << 20


class ChangedMeanwhileError(Exception):
    """The file is no longer what was read; nothing was written."""


def read_settings(path: Path) -> bytes | None:
    """The bytes of a file, None where there is none. Raises InputError, WriteError."""
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError("expected a file, found something else", where=str(path))
            data = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise InputError("expected a file, found a folder", where=str(path)) from None
    except OSError as error:
        raise WriteError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _BYTES_MAX:
        raise InputError("expected settings, found more than 64 MiB", where=str(path))
    return data


def decode_settings(data: bytes) -> str:
    """The text of a file. Raises InputError naming the place where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"line {line}, column {column}: expected UTF-8, found the byte 0x{byte:02x}"
        ) from None


def refuse_unwritable(path: Path) -> None:
    """Raise WriteError where a file is for reading only, or its folder is."""
    real = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        if not real.stat().st_mode & 0o222 or not os.access(real, os.W_OK):
            raise WriteError(f"{path}: is read-only; nothing was changed")
    above = next(one for one in real.parents if one.exists())
    if not above.is_dir():
        raise WriteError(f"{above}: expected a folder, found a file; nothing was changed")
    if not os.access(above, os.W_OK | os.X_OK):
        raise WriteError(f"{above}: is read-only; nothing was changed")


def put_settings(path: Path, data: bytes, was: bytes | None, new_mode: int) -> list[str]:
    """Replace a file that holds `was` (None: there is none), and give the folders made for it.

    Raises ChangedMeanwhileError where it holds something else, WriteError where it cannot be done.
    """
    real = Path(os.path.realpath(path))
    draft = real.with_name(f".{real.name}.memplane-{os.getpid()}.tmp")
    made: list[str] = []
    try:
        made = _make(real.parent)
        _write(draft, data, real, new_mode)
        if read_settings(path) != was:
            raise ChangedMeanwhileError
        if was is None:
            try:
                os.link(draft, real)  # unlike a rename it does not go over what came meanwhile
            except FileExistsError:
                raise ChangedMeanwhileError from None
            draft.unlink()
        else:
            draft.replace(real)
        sync_names(real.parent)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return made


def take_away(path: Path, was: bytes, folders: tuple[str, ...]) -> None:
    """Delete a file that holds `was`, and those of the folders that then are empty."""
    if read_settings(path) != was:
        raise ChangedMeanwhileError
    try:
        Path(os.path.realpath(path)).unlink()
    except OSError as error:
        raise WriteError(f"{path}: cannot be deleted: {error.strerror}") from error
    take_folders(folders)


def take_folders(folders: tuple[str, ...]) -> None:
    """Delete those of the folders that are empty; the last one is the deepest."""
    with contextlib.suppress(OSError):
        for folder in reversed(folders):
            Path(folder).rmdir()


def back_up(path: Path, data: bytes, folder: Path) -> Path:
    """Copy a file's bytes into a folder under the first name that is free, with its mode."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder}: cannot be made: {error.strerror}") from error
    for number in itertools.count(1):
        copy = folder / f"{path.name}.memplane-backup-{number}"
        try:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise WriteError(f"{copy}: cannot be written: {error.strerror}") from error
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode was given to os.open
                file.write(data)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            copy.unlink(missing_ok=True)
            raise WriteError(f"{copy}: cannot be written: {error.strerror}") from error
        return copy
    raise AssertionError


def _make(folder: Path) -> list[str]:
    """Make a folder and those above it; give those that were made, the uppermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir()
    return [str(one) for one in reversed(missing)]


def _write(draft: Path, data: bytes, like: Path, new_mode: int) -> None:
    """Write a file with the mode and owner of another, or a mode for what is new."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, new_mode)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode was given to os.open
        file.write(data)
        with contextlib.suppress(FileNotFoundError):
            state = like.stat()
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), state.st_uid, state.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode))
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What an edit left in a text besides our entries.

    `made` are containers that were not there, `inner` what stood in those that were empty, `blank`
    the whole text where there was nothing in it, `joint` what divides a table or a section from
    what was before, `former` the value that stood where ours does, as JSON.
    """

    made: tuple[JsonPath, ...] = ()
    inner: tuple[tuple[JsonPath, str], ...] = ()
    blank: str | None = None
    joint: str = ""
    former: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRecord:
    """What is remembered of a file: the traces in it, and what it was before."""

    file: str
    part: str
    before: str | None = None
    backups: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    traces: Traces = field(default_factory=Traces)

    def with_more(self, traces: Traces) -> SettingsRecord:
        """The same after another edit: what was there before the first one stays known."""
        known = self.traces
        inner = dict(traces.inner) | dict(known.inner)
        made = dict.fromkeys((*known.made, *traces.made))
        blank = traces.blank if known.blank is None else known.blank
        more = Traces(
            made=tuple(made),
            inner=tuple(inner.items()),
            blank=blank,
            joint=known.joint or traces.joint,
            former=known.former or traces.former,
        )
        return replace(self, traces=more)


class SettingsStore:
    """The records of one user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Resolved: a person may have put a link anywhere in it.
        self._folder = (Path(state_folder(environment)) / "clients").resolve()

    def get(self, file: Path, part: str) -> SettingsRecord | None:
        """The record of a file, None where there is none that can be read."""
        try:
            found = json.loads(self._place(file, part).read_bytes())
            traces = found.pop("traces")
            return SettingsRecord(
                **{
                    **found,
                    "folders": tuple(found["folders"]),
                    "backups": tuple((copy, digest) for copy, digest in found["backups"]),
                },
                traces=Traces(
                    made=tuple(tuple(path) for path in traces["made"]),
                    inner=tuple((tuple(path), text) for path, text in traces["inner"]),
                    blank=traces["blank"],
                    joint=traces["joint"],
                    former=traces.get("former", ""),
                ),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def put(self, record: SettingsRecord) -> None:
        """Keep a record; WriteError where that cannot be."""
        place = self._place(Path(record.file), record.part)
        if not replace_file(place, (json.dumps(asdict(record), indent=1) + "\n").encode()):
            raise WriteError(f"{place}: cannot be written: permission denied")

    def copies(self, file: Path, part: str) -> Path:
        """The folder for copies of a file that should not have them beside it."""
        return self._place(file, part).with_suffix("")

    def drop(self, file: Path, part: str) -> None:
        """Forget a record, and the folders that then are empty."""
        with contextlib.suppress(OSError):
            self._place(file, part).unlink()
        for folder in (self.copies(file, part), self._folder, self._folder.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _place(self, file: Path, part: str) -> Path:
        name = hashlib.sha256(f"{part}\n{file}".encode(errors="surrogateescape")).hexdigest()[:24]
        return self._folder / f"{name}.json"


JsonPath = tuple[str | int, ...]

_BOM: Final = "\ufeff"
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_COMMENT: Final = re.compile(r"//|/\*|#")
_WORDS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')


class _Member(NamedTuple):
    """One entry of an object or a list: where it begins (at its key), its value, and its end."""

    key: str | int
    start: int
    at: int
    end: int


class _Style(NamedTuple):
    """How a file is laid out: members on lines of their own, in steps of `unit`, or on one."""

    lined: bool
    newline: str
    unit: str
    spaced: bool


class _NoNumberError(Exception):
    """NaN or Infinity, which Python reads as numbers and JSON has not."""


def _no_number(name: str) -> Any:
    raise _NoNumberError(name)


# Numbers are only compared: as floats, as their readers have them, none is too long to be read.
_scan_text: Final[Callable[[str, int, bool], tuple[str, int]]] = vars(json.decoder)["scanstring"]
_DECODER: Final = json.JSONDecoder(parse_constant=_no_number, parse_int=float)


def is_blank(text: str) -> bool:
    """Whether there is nothing in the text but white space."""
    return not text.removeprefix(_BOM).strip(" \t\n\r")


def parse_json(text: str) -> Any:
    """The value of the text, whose mark of byte order is passed over.

    Raises InputError naming line and column where it is no JSON; comments are named as such.
    """
    body = text.removeprefix(_BOM)
    try:
        return _DECODER.decode(body)
    except json.JSONDecodeError as error:
        found = body[error.pos : error.pos + 1]
        what = repr(found) if found else "the end"
        if _COMMENT.match(body, error.pos):
            what = "a comment"
        raise _refusal(body, error.pos, what) from None
    except _NoNumberError as error:
        words = (one for one in _WORDS.finditer(body) if one[0] == str(error))
        raise _refusal(body, next(words).start(), str(error)) from None
    except RecursionError:
        raise InputError("expected settings, found JSON nested a thousand times") from None


def new(value: Any, blank: str = "") -> str:
    """The text of a file that holds one value, where there was a blank one."""
    mark = _BOM if blank.startswith(_BOM) else ""
    return mark + json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def value_at(value: Any, path: JsonPath) -> Any:
    """What stands at a path of a parsed value."""
    for key in path:
        value = value[key]
    return value


def insert_value(
    text: str, path: JsonPath, value: Any, key: str | None = None
) -> tuple[str, str | None]:
    """Put a value behind the others of the container at a path; an object's gets a key.

    Gives the text, and what stood between the brackets if that was nothing but white space.
    """
    start = _place(text, path)
    found, close = _members(text, start)
    style = _style(text)
    if not found:
        inner = text[start + 1 : close]
        body = _written(value, key, None, style)
        if style.lined:
            margin = _margin(text, start)
            line = style.newline + margin + style.unit
            body = line + _written(value, key, margin + style.unit, style) + style.newline + margin
        return text[: start + 1] + body + text[close:], inner
    last = found[-1]
    after = found[-2].end if len(found) > 1 else start
    gap = text[after : last.start].lstrip(" \t\r\n")[1:]  # behind the comma or the bracket
    if "\n" in gap:
        margin = gap[gap.rindex("\n") + 1 :]
        body = style.newline + margin + _written(value, key, margin, style)
    else:
        body = (" " if style.spaced else "") + _written(value, key, None, style)
    return f"{text[: last.end]},{body}{text[last.end :]}", None


def remove_value(text: str, path: JsonPath, inner: str = "") -> str:
    """Take out the member at a path; a container that it was alone in is left with `inner`."""
    start = _place(text, path[:-1])
    found, close = _members(text, start)
    number = _number(found, path[-1])
    if len(found) == 1:
        return text[: start + 1] + inner + text[close:]
    if number == 0:
        return text[: found[0].start] + text[found[1].start :]
    return text[: found[number - 1].end] + text[found[number].end :]


def replace_value(text: str, path: JsonPath, value: Any) -> str:
    """Put another value where one stands; one over several lines stays so."""
    start = _place(text, path)
    _, end = _DECODER.raw_decode(text, start)
    margin = _margin(text, start) if "\n" in text[start:end] else None
    return text[:start] + _written(value, None, margin, _style(text)) + text[end:]


def _refusal(text: str, at: int, what: str) -> InputError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return InputError(f"line {line}, column {column}: expected JSON, found {what}")


def _place(text: str, path: JsonPath) -> int:
    """Where the value at a path begins. The text was parsed: it is JSON, and the path in it."""
    at = _skip(text, len(_BOM) if text.startswith(_BOM) else 0)
    for key in path:
        found, _ = _members(text, at)
        at = found[_number(found, key)].at
    return at


def _number(found: Sequence[_Member], key: str | int) -> int:
    return max(number for number, member in enumerate(found) if member.key == key)


def _members(text: str, start: int) -> tuple[list[_Member], int]:
    """The entries of the object or list that begins at `start`, and where its last bracket is."""
    named = text[start] == "{"
    at = _skip(text, start + 1)
    found: list[_Member] = []
    while text[at] not in "}]":
        begin, key = at, cast("str | int", len(found))
        if named:
            key, at = _scan_text(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        found.append(_Member(key, begin, at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found, at


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _margin(text: str, at: int) -> str:
    """The white space that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _style(text: str) -> _Style:
    start = _place(text, ())
    found, _ = _members(text, start)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not found:
        return _Style(lined=True, newline=newline, unit="  ", spaced=True)
    gap = text[start + 1 : found[0].start]
    spaced = text[found[0].at - 1] != ":"
    unit = gap[gap.rindex("\n") + 1 :] if "\n" in gap else "  "
    return _Style("\n" in gap, newline, unit, spaced)


def _written(value: Any, key: str | None, margin: str | None, style: _Style) -> str:
    """A value, with its key if it has one: over lines from a margin on, or on one line."""
    if margin is None:
        marks = (", ", ": ") if style.spaced else (",", ":")
        body = json.dumps(value, ensure_ascii=False, separators=marks)
    else:
        body = json.dumps(value, ensure_ascii=False, indent=style.unit)
        body = body.replace("\n", style.newline + margin)
    colon = ":" if margin is None and not style.spaced else ": "
    return body if key is None else json.dumps(key, ensure_ascii=False) + colon + body


TablePath = tuple[str, str]


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text. Raises InputError naming line and column where it is no TOML."""
    try:
        return tomllib.loads(text.removeprefix(_BOM), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"expected TOML: {error}") from None
    except RecursionError:
        raise InputError("expected TOML, found it nested too deep") from None


def add_table(text: str, path: TablePath, values: dict[str, Any]) -> tuple[str, str]:
    """Put a table at the end; return the text, and what divides the table from what was there.

    Raises InputError where the text cannot be extended like that.
    """
    newline = _newline(text)
    body = text.removeprefix(_BOM)
    joint = newline if body.strip() else ""
    if body and not body.endswith("\n"):
        joint = newline * 2
    table = f"[{'.'.join(path)}]\n{tomlkit.dumps(values)}"
    added = text + joint + table.replace("\n", newline)
    _must_say(added, path, _with(parse_toml(text), path, values))
    return added, joint


def set_values(text: str, path: TablePath, values: dict[str, Any]) -> str:
    """Give keys of a table other values. Raises InputError where tomlkit cannot."""
    tables = parse_toml(text)
    expected = _with(tables, path, {**tables[path[0]][path[1]], **values})
    body = text.removeprefix(_BOM)
    try:  # the table's own lines alone: a whole text may come back with its tables moved
        without: Any = _document(text, path)
        del without[path[0]][path[1]]
        start, end = _cut(body, tomlkit.dumps(without), path)
        changed = body[:start] + _changed(body[start:end], path, values) + body[end:]
    except (InputError, KeyError, toml_errors.TOMLKitError):
        changed = _changed(body, path, values)
    changed = _bom(text) + changed
    _must_say(changed, path, expected)
    return changed


def _changed(text: str, path: TablePath, values: dict[str, Any]) -> str:
    document = tomlkit.parse(text)
    table: Any = document
    for key in path:
        table = table[key]
    for key, value in values.items():
        table[key] = value
    return tomlkit.dumps(document)


def remove_table(text: str, path: TablePath, joint: str) -> str:
    """Take out a table and those below it; at the end of the text, `joint` before it too.

    What is taken out must be lines of its own in one place; else InputError.
    """
    expected = _with(parse_toml(text), path, None)
    body = text.removeprefix(_BOM)
    document: Any = _document(text, path)
    del document[path[0]][path[1]]
    start, end = _cut(body, tomlkit.dumps(document), path)
    # Blank lines and comments at the end of a table belong to what stands behind it.
    lines = [line + "\n" for line in body[start:end].removesuffix("\n").split("\n")]
    while lines and lines[-1].strip(" \t\r\n")[:1] in ("", "#"):
        end -= len(lines.pop())
    head, tail = body[:start], body[end:]
    if joint and head.endswith(joint):
        head = head.removesuffix(joint)
        if tail and head and not head.endswith("\n") and not tail.startswith(("\n", "\r\n")):
            head += _newline(text)
    left = _bom(text) + head + tail
    _must_say(left, path, expected)
    return left


def _cut(body: str, left: str, path: TablePath) -> tuple[int, int]:
    """Where the lines of `body` begin and end that are not in `left`; InputError for other cuts."""
    size = len(body) - len(left)
    pairs = enumerate(zip(body, left, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), len(left))
    starts = [0, *(found.end() for found in re.finditer("\n", body[:same]))]
    for start in reversed(starts):
        end = start + size
        if body[:start] + body[end:] == left and (end == len(body) or body[end - 1] == "\n"):
            return start, end
    raise _refuse_table(path)


def _document(text: str, path: TablePath) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text.removeprefix(_BOM))
    except toml_errors.TOMLKitError:
        raise _refuse_table(path) from None


def _bom(text: str) -> str:
    return _BOM if text.startswith(_BOM) else ""


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with(tables: dict[str, Any], path: TablePath, values: dict[str, Any] | None) -> dict[str, Any]:
    """The tables with another one at a path of two keys, or without it; no empty first one."""
    first, second = path
    below = {key: one for key, one in tables.get(first, {}).items() if key != second}
    if values is not None:
        below[second] = values
    rest = {key: one for key, one in tables.items() if key != first}
    return {**rest, first: below} if below else rest


def _must_say(text: str, path: TablePath, expected: dict[str, Any]) -> None:
    try:
        said = parse_toml(text)
    except InputError:
        said = {}
    if not said.get(path[0], True):
        del said[path[0]]
    if said != expected:
        raise _refuse_table(path)


def _refuse_table(path: TablePath) -> InputError:
    return InputError(
        f"is written in a way that is not changed here; write it as [{'.'.join(path)}], or change "
        "it by hand",
        where=path[0],
    )
