"""Files of artifacts, and whether an approval lets prompts show their text.

A file is read once when it is added, and compared with its hash at every later read. Only regular
files are read, whole and up to a size. The MIME type follows from the file's name; a file counts as
text if its bytes are UTF-8 without NUL. A copy is stored in `bodies/` under its hash.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import ChangedError, InputError
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, word_table
from memplane.log.segments import body_path
from memplane.projections.artifacts import (
    COPY,
    NAME_MAX,
    ApprovalChange,
    ArtifactFacts,
    ArtifactTable,
    facts_of,
)
from memplane.projections.in_force import out_of_time

if TYPE_CHECKING:
    from memplane.ports import Line, Progress
    from memplane.projections.memories import Memories


COPY_BYTES_MAX: Final = 64 * 1024 * 1024
REFERENCE_BYTES_MAX: Final = 1024 * 1024 * 1024
SEARCHED_BYTES_MAX: Final = 8 * 1024 * 1024  # a longer text can be opened, not searched
_CHUNK: Final = 1 << 20
_UNKNOWN: Final = "application/octet-stream"
# What Python's own table does not name everywhere; all of it is text.
_TEXT_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".rst": "text/x-rst",
    ".diff": "text/x-diff",
    ".patch": "text/x-diff",
}
_TEXT_ENDINGS: Final = word_table("""
    json xml javascript sql x-sh x-csh x-tcl x-tex x-latex postscript
""")
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Taken(NamedTuple):
    """A file that was read: its path, its name, and its bytes if they are kept."""

    path: str
    name: str
    size: int
    sha256: str
    head: bytes
    data: bytes | None


def read_added_file(
    path: str | os.PathLike[str], where: str, *, reference: bool, progress: Progress | None = None
) -> Taken:
    """Read a file to add; raises InputError where it is no regular file or too large.

    Links are followed: `path` is where the bytes lie. Of a reference only the hash is kept.
    `progress` is called with the bytes read and their total.
    """
    real = _resolved(path, where)
    most = REFERENCE_BYTES_MAX if reference else COPY_BYTES_MAX
    try:
        with _opened(real) as file:
            before = os.fstat(file.fileno())
            if before.st_size > most:
                raise _too_large(real, before.st_size, where, reference=reference)
            digest, size = hashlib.sha256(), 0
            kept: list[bytes] = []
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                if size > most:  # it grows, or does not say how long it is
                    raise _too_large(real, size, where, reference=reference)
                digest.update(chunk)
                if progress is not None:
                    progress(size, before.st_size)
                if not reference or not kept:
                    kept.append(chunk)
            after = os.fstat(file.fileno())
    except OSError as error:
        raise InputError(
            f"{quoted_value(real, 300)}: {error.strerror or error}", where=where
        ) from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise InputError(
            f"{quoted_value(real, 300)} changed while it was read; add it again", where=where
        )
    data = None if reference else b"".join(kept)
    head = kept[0] if kept else b""
    return Taken(real, Path(real).name, size, digest.hexdigest(), head, data)


def artifact_bytes(home: Path, facts: ArtifactFacts) -> bytes:
    """Return the bytes of an artifact; raises ChangedError where they are not what was added."""
    return examine_artifact(home, facts, keep=True, most=max(facts.bytes, 1))


def copy_changed(home: Path, facts: ArtifactFacts) -> bool:
    """Whether the copy of an artifact differs from what was added; read again when replaced.

    Copies too long to be searched and references are not read: a block quotes them only where their
    handle is opened, which compares them anyway.
    """
    if facts.stored != COPY or facts.bytes > SEARCHED_BYTES_MAX:
        return False
    path = lies_at(home, facts)
    try:
        state = os.lstat(path)
    except OSError:
        return True
    # The last of them is set by the system alone, whatever somebody does to the file.
    mark = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return _differs(home, facts, mark)


@lru_cache(maxsize=1024)
def _differs(home: Path, facts: ArtifactFacts, _: tuple[int, ...]) -> bool:
    try:
        examine_artifact(home, facts)
    except ChangedError:
        return True
    return False


def lies_at(home: Path, facts: ArtifactFacts) -> str:
    """The path of the bytes of an artifact."""
    return body_path(os.fspath(home), facts.sha256) if facts.stored == COPY else facts.path


def examine_artifact(
    home: Path, facts: ArtifactFacts, *, keep: bool = False, most: int | None = None
) -> bytes:
    """Compare the file of an artifact with its hash; return its bytes if asked for.

    Raises ChangedError with the path and both hashes. Keeps at most `most` bytes of a file that
    grew.
    """
    path, expected = lies_at(home, facts), facts.sha256
    digest, size = hashlib.sha256(), 0
    kept: list[bytes] = []
    own = facts.stored == COPY
    try:
        with nofollow.open_regular(path, home=home) if own else _opened(path) as file:
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                if size > REFERENCE_BYTES_MAX:
                    raise ChangedError(path, expected, f"more than {REFERENCE_BYTES_MAX} bytes")
                digest.update(chunk)
                if keep and (most is None or size <= most):
                    kept.append(chunk)
    except FileNotFoundError:
        raise ChangedError(path, expected, "no file") from None
    except OSError as error:
        raise ChangedError(path, expected, error.strerror or str(error)) from error
    if digest.hexdigest() != expected:
        raise ChangedError(path, expected, digest.hexdigest())
    return b"".join(kept)


def decode_text(data: bytes) -> str | None:
    """Return the bytes as text; None where they are not text."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def mime_of(name: str, head: bytes) -> str:
    """Return the type that the name stands for, unless the bytes show another one."""
    is_text = _is_text(head)
    ending = Path(name).suffix.lower()
    if is_text and ending in _TEXT_TYPES:
        return _TEXT_TYPES[ending]
    from mimetypes import MimeTypes  # noqa: PLC0415 - only who adds a file needs the table

    # A table of its own: the system's differs from machine to machine.
    guessed, encoding = MimeTypes().guess_type(f"x{ending}" if ending else "x")
    if encoding is not None:
        guessed = f"application/{encoding}"
    if is_text:
        return guessed if guessed is not None and _reads_as_text(guessed) else "text/plain"
    return guessed if guessed is not None and not guessed.startswith("text/") else _UNKNOWN


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Raise InputError where the name is that of a device, pipe, socket or folder."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # not there, or the write says what is wrong
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise InputError(
            f"{quoted_value(os.fspath(path), 300)} is no file that could be replaced; name another",
            where="to",
        )


def put_file(path: Path, data: bytes, *, replace: bool) -> None:
    """Write a file whole, or raise InputError where one exists.

    A link of that name is replaced, never followed. Other names (devices, folders) are refused.
    """
    refuse_special(path)
    draft = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode was given to os.open
                file.write(data)
            if replace:
                draft.replace(path)
            else:
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        raise InputError(
            f"{quoted_value(os.fspath(path), 300)} is there already; name another, or say to "
            "replace it",
            where="to",
        ) from None
    except OSError as error:
        raise InputError(
            f"{quoted_value(os.fspath(path), 300)}: {error.strerror or error}", where="to"
        ) from error


def _resolved(path: str | os.PathLike[str], place: str) -> str:
    try:
        given = os.fspath(path)
    except TypeError:
        raise unexpected("a path", path, place) from None
    if not isinstance(given, str) or not given or "\0" in given:
        raise unexpected("a path", given, place)
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise unexpected("a path", given, place) from None
    real = os.path.realpath(given)
    name = Path(real).name
    if not real.isprintable() or len(name) > NAME_MAX:
        raise InputError(
            f"{quoted_value(real, 300)}: its name cannot stand on one line of text; rename it",
            where=place,
        )
    return real


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    # Without O_NONBLOCK a pipe would be waited for until somebody writes to it.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags)
    try:
        _check_kind(os.fstat(descriptor))
        file = open(descriptor, "rb")  # noqa: PTH123, SIM115 - flags were given to os.open
    except BaseException:
        os.close(descriptor)
        raise
    with file:
        yield file


def _check_kind(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        kind = next((said for asks, said in _KINDS if asks(state.st_mode)), "no file")
        raise OSError(errno.EINVAL, f"is {kind}; expected a file")


def _too_large(path: str, size: int, place: str, *, reference: bool) -> InputError:
    most = REFERENCE_BYTES_MAX if reference else COPY_BYTES_MAX
    hint = "" if reference else "; add it by reference, which leaves it where it is"
    return InputError(
        f"{quoted_value(path, 300)} has {size} bytes; expected at most {most}{hint}", where=place
    )


def _is_text(head: bytes) -> bool:
    """Whether the first bytes of a file are text, which may end within a character."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) >= _CHUNK and error.start >= len(head) - 3
    return True


def _reads_as_text(mime: str) -> bool:
    return mime.startswith("text/") or mime.endswith(_TEXT_ENDINGS)


# Whether a prompt may show the text of an artifact, by its approvals as of a seq and a time.
#
# Not if the approved copy has other bytes by now.
#
# An approval covers the content that it names, of the artifacts that it names, from its seq on,
# while it is in force (not forgotten, not replaced) and in time. One that takes back ends all
# before it, and is ended itself where it is forgotten. What came from another plane stands among
# the others by its time (`projections.in_force`).
class _Named(NamedTuple):
    """The artifact of an id: its place in the log and its content."""

    seq: int
    sha256: str


class ArtifactApprovals:
    """The approvals in a log. Hold the plane's lock.

    `find` gives a line by its id; without `home` no copy is read.
    """

    def __init__(
        self,
        table: ArtifactTable,
        memories: Memories,
        find: Callable[[str], Line | None],
        home: Path | None = None,
    ) -> None:
        self._table, self._memories, self._find = table, memories, find
        self._home = home
        self._named: dict[str, _Named] = {}
        self._last: tuple[object, tuple[int, ...]] = (None, ())

    def reads(self, table: ArtifactTable, memories: Memories) -> bool:
        """Whether it was made from these arguments."""
        return self._table is table and self._memories is memories

    def covers(self, seq: int, id: str, *, as_of: int, now: str) -> bool:  # noqa: A002
        """Whether the artifact of this seq and id is approved as of a seq, at a time."""
        if id not in self._table.said:
            return False
        named = self._artifact(id)
        return named is not None and named.seq == seq and self._holds(id, named, as_of, now)

    def covered(self, *, as_of: int, now: str) -> tuple[int, ...]:
        """Return the seqs of all artifacts that are approved, rising."""
        asked = (as_of, now, self._memories.position, self._memories.resets)
        if self._last[0] != asked:
            found = (
                named.seq
                for id_ in self._table.said
                if (named := self._artifact(id_)) is not None
                and self._holds(id_, named, as_of, now)
            )
            self._last = asked, tuple(sorted(found))
        return self._last[1]

    def changed(self, id: str) -> bool:  # noqa: A002
        """Whether the copy that this artifact is searched by differs from what was added."""
        if self._home is None:
            return False
        line = self._find(id)
        facts = None if line is None else facts_of(line.event)
        return facts is not None and copy_changed(self._home, facts)

    def said_of(self, id: str, *, as_of: int, now: str) -> list[tuple[ApprovalChange, bool]]:  # noqa: A002
        """Return an artifact's approvals and revocations as of a seq, with whether each holds."""
        named = self._artifact(id)
        if named is None:
            return []
        holding = [one.event.seq for one in self._holding(id, named, as_of, now)]
        said = (one for one in self._table.said.get(id, ()) if one.event.seq <= as_of)
        return [(one, one.event.seq in holding) for one in said]

    def _holds(self, id_: str, named: _Named, as_of: int, now: str) -> bool:
        return next(self._holding(id_, named, as_of, now), None) is not None

    def _holding(self, id_: str, named: _Named, as_of: int, now: str) -> Iterator[ApprovalChange]:
        """The approvals that cover it, the newest first."""
        for one in reversed(self._table.said.get(id_, ())):
            if not named.seq < one.event.seq <= as_of:  # nobody approves what is not there yet
                continue
            if self._memories.archived(one.event, upto=as_of) is not None:
                continue
            if one.undo:
                return
            if one.sha256 == named.sha256 and out_of_time(one.event, now) is None:
                yield one

    def _artifact(self, id_: str) -> _Named | None:
        named = self._named.get(id_)
        if named is None:
            line = self._find(id_)
            facts = None if line is None else facts_of(line.event)
            if line is not None and facts is not None:
                named = self._named[id_] = _Named(line.event.seq, facts.sha256)
        return named
