"""Files and folders below a plane's home, opened without following a link.

A plane can come from elsewhere (a clone, an archive) with a link, a pipe or a device in the place
of one of its files; following such a path would read or overwrite another file of the user. So
every room that touches a plane's home opens through this module: each part of a path is opened
relative to the folder before it, none of them may be a link, and a file must be a regular one.

Paths are `HOME/folder/name`. Of such a path the folder and the name are checked; for a name
further below, `home` says up to where the path is trusted. The home itself may be reached by
links: a person named it.

Since all goes through here, what a thread opens and reads of a plane can be counted: `counting`.

Everything raises OSError; StrangeFileError, which is also a HomeError, for what is not a file, or
not a folder. No call waits: a pipe is opened without a writer on its other end, and refused.
"""

# Strings and few imports: every hook starts with this module, and pathlib is a twentieth of one.
# ruff: noqa: PTH102, PTH112, PTH115
# ruff: noqa: PTH208
from __future__ import annotations

import errno
import os
import stat
from _thread import _local, get_ident
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from typing import TYPE_CHECKING, BinaryIO, Final

from memplane.errors import StrangeFileError
from memplane.lazy import late

if TYPE_CHECKING:
    import mmap
    import tempfile
    from collections.abc import Iterator
else:
    tempfile = late("tempfile")

Path = str | os.PathLike[str]
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that nobody writes to would keep `open` waiting; regular files do not notice the flag.
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Tally:
    """What one thread opened, read and mapped: files by their paths, and numbers of bytes."""

    __slots__ = ("files", "mapped", "read")

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.read = self.mapped = 0

    def add(self, other: Tally) -> None:
        """Count what another one did."""
        self.files.update(other.files)
        self.read += other.read
        self.mapped += other.mapped


class _Counting(_local):
    tally: Tally | None = None


_counting: Final = _Counting()


@contextmanager
def counting(tally: Tally) -> Iterator[Tally]:
    """Count what this thread opens and reads meanwhile; an inner one counts in place of an outer.

    Files that are made or opened for writing alone are not counted.
    """
    outer, _counting.tally = _counting.tally, tally
    try:
        yield tally
    finally:
        _counting.tally = outer


@contextmanager
def reading_elsewhere(path: Path, *, opens: bool = False) -> Iterator[None]:
    """Count what a library of another language reads meanwhile, as far as the system says it.

    Linux does, by thread. Elsewhere the file counts with all its bytes when it is opened.
    """
    tally = _counting.tally
    if tally is None:
        yield
        return
    if opens:
        tally.files[os.fspath(path)] = None
    before = _read_so_far()
    try:
        yield
    finally:
        after = _read_so_far()
        if before is not None and after is not None:
            tally.read += after[0] - before[0] - before[1]
        elif opens:
            with suppress(OSError):
                tally.read += os.lstat(path).st_size


def _read_so_far() -> tuple[int, int] | None:
    """Bytes that this thread has read, and what it took to ask; None where nobody counts them."""
    try:
        fd = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        said = os.read(fd, 4096)
    finally:
        os.close(fd)
    first = said.partition(b"\n")[0]  # rchar: 1234
    name, _, number = first.partition(b": ")
    return (int(number), len(said)) if name == b"rchar" and number.isdigit() else None


class _Counted(FileIO):
    """A file whose reads are counted, whoever reads it."""

    def readinto(self, buffer: object, /) -> int | None:
        count = super().readinto(buffer)  # type: ignore[arg-type]
        _note_read(count or 0)
        return count

    def readall(self) -> bytes:
        data = super().readall()
        _note_read(len(data))
        return data


def _note_read(count: int) -> None:
    if _counting.tally is not None:
        _counting.tally.read += count


def pread(fd: int, size: int, offset: int) -> bytes:
    """`os.pread`, counted."""
    data = os.pread(fd, size, offset)
    if _counting.tally is not None:
        _counting.tally.read += len(data)
    return data


def map_file(file: BinaryIO) -> mmap.mmap:
    """Map a whole file for reading. Raises ValueError for an empty one."""
    import mmap  # noqa: PLC0415 - who records maps nothing

    made = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if _counting.tally is not None:
        _counting.tally.mapped += len(made)
    return made


def open_file(path: Path, flags: int = os.O_RDONLY, *, home: Path | None = None) -> int:
    """A descriptor of a regular file; with O_CREAT one for the owner alone is made.

    O_TRUNC is not for here: it would cut a file that has other names too (see `create`).
    """
    path = os.fspath(path)
    folder, _, name = path.rpartition("/")
    above = enter(folder, home)
    try:
        try:
            fd = os.open(name, flags | _FILE, 0o600, dir_fd=above)
        except OSError as error:
            raise _explained(error, path, name, above, "a file") from None
    finally:
        os.close(above)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        tally = _counting.tally
        if tally is not None and not flags & (os.O_WRONLY | os.O_EXCL):
            tally.files[path] = None
        return fd
    os.close(fd)
    raise _strange(path, kind_of(mode), "a file")


def open_regular(path: Path, *, home: Path | None = None) -> BinaryIO:
    """A regular file, for reading."""
    fd = open_file(path, home=home)
    if _counting.tally is not None:
        return BufferedReader(_Counted(fd))
    return os.fdopen(fd, "rb")


def read_bytes(path: Path, most: int = -1, *, home: Path | None = None) -> bytes:
    """The bytes of a regular file, at most so many."""
    fd = open_file(path, home=home)
    try:
        size = os.fstat(fd).st_size + 1
        parts = []
        left = most if most >= 0 else size
        while part := os.read(fd, min(left, max(size, 4096))):
            _note_read(len(part))
            parts.append(part)
            if most >= 0:
                left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(fd)


def create_draft(path: Path, *, home: Path | None = None) -> int:
    """A descriptor of a new, empty file for the owner alone; what had the name has lost it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        return open_file(path, flags, home=home)
    except FileExistsError:
        remove_name(path, home=home)
        return open_file(path, flags, home=home)


def enter(folder: Path, home: Path | None = None) -> int:
    """A descriptor of a folder. Without `home` only its own name is checked, else all below it."""
    folder = os.fspath(folder)
    if home is None:
        try:
            return os.open(folder or ".", _FOLDER)
        except OSError as error:
            raise _explained(error, folder, folder, None, "a folder") from None
    top = os.fspath(home)
    fd = os.open(top, _FOLDER & ~os.O_NOFOLLOW)
    if folder == top:
        return fd
    if top == "." and not folder.startswith("/"):
        above = ""  # a path drops the name of the folder that we stand in
    else:
        above = top if top.endswith("/") else f"{top}/"
    if not folder.startswith(above):
        os.close(fd)
        raise ValueError(f"{folder}: expected a folder below {top}")
    try:
        for part in folder[len(above) :].split("/"):
            try:
                if part == "..":
                    raise PermissionError(errno.EACCES, "leads out of the plane")
                below = os.open(part, _FOLDER, dir_fd=fd)
            except OSError as error:
                raise _explained(error, folder, part, fd, "a folder") from None
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def temporary_folder() -> str:
    """Make an empty folder for the owner alone, where the system has such folders."""
    return tempfile.mkdtemp(prefix="memplane-")


def make_folder(folder: Path, home: Path | None = None) -> None:
    """Make a folder and those above it, for the owner alone; one that is there stays."""
    folder = os.fspath(folder)
    try:
        os.close(enter(folder, home))
    except FileNotFoundError:
        above, _, name = folder.rpartition("/")
        if home is None or folder == os.fspath(home):
            # Above the home, a link is the person's own.
            if not os.path.isdir(above):
                make_folder(above)
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            return
        make_folder(above, home)
        fd = enter(above, home)
        try:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=fd)
        finally:
            os.close(fd)


def folder_names(folder: Path, home: Path | None = None) -> list[str]:
    """What a folder holds, sorted; nothing where there is none."""
    try:
        fd = enter(folder, home)
    except FileNotFoundError:
        return []
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def file_names(folder: Path, home: Path | None = None) -> list[str]:
    """The names of the regular files in a folder, sorted; none where there is no such folder."""
    try:
        fd = enter(folder, home)
    except OSError:
        return []
    try:
        with os.scandir(fd) as entries:
            return sorted(each.name for each in entries if each.is_file(follow_symlinks=False))
    finally:
        os.close(fd)


def walk_files(top: Path, *, folders: bool = False) -> Iterator[str]:
    """The paths of the regular files in a folder and below it, those of one folder sorted.

    With `folders` all that is there, of whatever sort. Links are not entered.
    """
    top = os.fspath(top)
    try:
        fd = enter(top)
    except OSError:
        return
    try:
        with os.scandir(fd) as entries:
            found = sorted(
                (each.name, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False))
                for each in entries
            )
    finally:
        os.close(fd)
    for name, is_folder, is_regular in found:
        if folders or is_regular:
            yield f"{top}/{name}"
        if is_folder:
            yield from walk_files(f"{top}/{name}", folders=folders)


def remove_name(path: Path, *, home: Path | None = None) -> None:
    """Take a name away: of a file, or of a link or pipe that has the place of one."""
    path = os.fspath(path)
    folder, _, name = path.rpartition("/")
    fd = enter(folder, home)
    try:
        os.unlink(name, dir_fd=fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(fd)


def remove_tree(folder: Path, home: Path | None = None) -> None:
    """Remove a folder with all that it holds; a link in it goes, not what it names."""
    folder = os.fspath(folder)
    fd = enter(folder, home)
    try:
        with os.scandir(fd) as entries:
            found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
        for name, is_folder in found:
            with suppress(FileNotFoundError):  # another process removes it, too
                if is_folder:
                    remove_tree(f"{folder}/{name}", home)
                else:
                    os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
    remove_folder(folder, home)


def remove_folder(folder: Path, home: Path | None = None) -> None:
    """Remove an empty folder."""
    folder = os.fspath(folder)
    above, _, name = folder.rpartition("/")
    fd = enter(above, home)
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, folder) from None
    finally:
        os.close(fd)


def rename_name(source: Path, target: Path, *, home: Path | None = None) -> None:
    """Give a file another name, in one step, over whatever has that name but a folder."""
    source, target = os.fspath(source), os.fspath(target)
    folder, _, old = source.rpartition("/")
    there, _, new = target.rpartition("/")
    from_fd = enter(folder, home)
    to_fd = from_fd
    try:
        if there != folder:
            to_fd = enter(there, home)
        os.replace(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)
    except OSError as error:
        if isinstance(error, StrangeFileError):
            raise
        raise OSError(error.errno, error.strerror, source, None, target) from None
    finally:
        if to_fd != from_fd:
            os.close(to_fd)
        os.close(from_fd)


def link(source: Path, target: Path, *, home: Path | None = None) -> None:
    """Give a file one more name; FileExistsError where something has that."""
    source, target = os.fspath(source), os.fspath(target)
    folder, _, old = source.rpartition("/")
    there, _, new = target.rpartition("/")
    from_fd = enter(folder, home)
    try:
        to_fd = enter(there, home)
        try:
            os.link(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
        finally:
            os.close(to_fd)
    finally:
        os.close(from_fd)


def sync_folder(folder: Path, home: Path | None = None) -> None:
    """Return when the names in a folder would survive a power cut."""
    fd = enter(folder, home)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_file(path: Path) -> bool:
    """Whether the path names a regular file, itself and not by a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def separate(path: Path, *, home: Path | None = None) -> None:
    """Give a file that has several names (hard links, as of a backup) bytes of its own.

    Before it is written in place, under the lock of those who write it: the others are to keep
    what they hold. The copy is durable before it takes the name. What is not there stays so.
    """
    path = os.fspath(path)
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
        return
    draft = f"{path}.{os.getpid()}.{get_ident()}.new"
    try:
        fd = create_draft(draft, home=home)
        try:
            with open_regular(path, home=home) as file:
                while part := file.read(1 << 20):
                    view = memoryview(part)
                    while view:
                        view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        rename_name(draft, path, home=home)
    except BaseException:
        with suppress(OSError):
            remove_name(draft, home=home)
        raise
    sync_folder(path.rpartition("/")[0], home)


def refuse_link(path: Path, expected: str) -> None:
    """Raise StrangeFileError where the path names a link instead of a file or folder."""
    path = os.fspath(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise _strange(path, f"a link to {os.readlink(path)!r}", expected)


def kind_of(mode: int) -> str:
    """What a file of that mode is, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "a file" if stat.S_ISREG(mode) else "no file")


def _explained(error: OSError, path: str, name: str, above: int | None, expected: str) -> OSError:
    """The error with the whole path; for a link or an odd file, what is there and what to do."""
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        with suppress(OSError):
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                aim = os.readlink(name, dir_fd=above)
                return _strange(path, f"a link to {aim!r}", expected)
            if stat.S_ISREG(found.st_mode) != (expected == "a file"):
                return _strange(path, kind_of(found.st_mode), expected)
    return OSError(error.errno, error.strerror, path)


def _strange(path: str, found: str, expected: str) -> StrangeFileError:
    return StrangeFileError(
        errno.ELOOP,
        f"is {found}, expected {expected}: nothing below a plane is followed; remove it, or put "
        f"{expected} there",
        path,
    )
