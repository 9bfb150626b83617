"""Every call of this process that changes a file below a folder, past one function.

That function records it, or makes it fail. Files that Python's own `open` writes go the same way;
what C code writes by itself (sqlite's cache) does not. `test_syscalls` holds it against strace.
"""

# Paths are strings here, as they are in the calls.
# ruff: noqa: PTH100, PTH118
import builtins
import fcntl
import io
import os
import threading
from typing import NamedTuple

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Call(NamedTuple):
    """One call. `path`: what it changes; `source`: what a rename or link takes; `at`: a byte."""

    name: str
    path: str
    fd: int = -1
    source: str = ""
    data: bytes = b""
    at: int = 0
    flags: int = 0
    new: bool = False


class WrittenFile(io.FileIO):
    """A file whose writes are calls like those of `os.write`."""

    def __init__(self, passing, file, mode, closefd, opener):
        super().__init__(file, mode, closefd, opener or passing.open)
        self._passing = passing

    def write(self, data):
        return self._passing.write(self.fileno(), bytes(data))

    def truncate(self, size=None):
        self._passing.ftruncate(self.fileno(), self.tell() if size is None else size)
        return size

    def close(self):
        if not self.closed and self.closefd:
            self._passing.fds.pop(self.fileno(), None)
        super().close()


class Passing:
    """While the block runs, each changing call is `handle(call, run)`; `run()` carries it out."""

    NAMES = (
        "open", "close", "write", "pwrite", "ftruncate", "truncate", "fsync", "fdatasync",
        "replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "rmdir",
    )  # fmt: skip

    def __init__(self, folder, handle):
        self.folder, self.handle = os.path.realpath(folder), handle
        self.fds = {}
        self.lock = threading.RLock()
        self.real = {name: getattr(os, name) for name in self.NAMES}
        self.real_open = io.open

    def __enter__(self):
        for name in self.NAMES:
            setattr(os, name, getattr(self, name))
        io.open = builtins.open = self.opened
        return self

    def __exit__(self, *_):
        for name, real in self.real.items():
            setattr(os, name, real)
        io.open = builtins.open = self.real_open

    def below(self, path, dir_fd=None):
        """The path as it is below the folder; None for one elsewhere."""
        if isinstance(path, int):
            return self.fds.get(path)
        path = os.fsdecode(path)
        if dir_fd is not None:
            name = self.fds.get(dir_fd)
            return None if name is None else os.path.normpath(os.path.join(name, path))
        path = os.path.abspath(path)
        inside = path == self.folder or path.startswith(self.folder + os.sep)
        return path[len(self.folder) + 1 :] if inside else None

    def passed(self, call, run):
        with self.lock:
            return self.handle(call, run)

    # --- the calls ---

    def open(self, path, flags, mode=0o777, *, dir_fd=None):
        name = self.below(path, dir_fd)
        if name is None:
            return self.real["open"](path, flags, mode, dir_fd=dir_fd)
        if flags & WRITES:
            new = not os.path.lexists(os.path.join(self.folder, name))
            call = Call("open", name, flags=flags, new=new)
            fd = self.passed(call, lambda: self.real["open"](path, flags, mode, dir_fd=dir_fd))
        else:
            fd = self.real["open"](path, flags, mode, dir_fd=dir_fd)
        self.fds[fd] = name
        return fd

    def close(self, fd):
        self.fds.pop(fd, None)
        self.real["close"](fd)

    def write(self, fd, data):
        name = self.fds.get(fd)
        if name is None:
            return self.real["write"](fd, data)
        appends = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        at = os.fstat(fd).st_size if appends else os.lseek(fd, 0, os.SEEK_CUR)
        call = Call("write", name, fd, data=bytes(data), at=at)
        return self.passed(call, lambda part=data: self.real["write"](fd, part))

    def pwrite(self, fd, data, offset):
        name = self.fds.get(fd)
        if name is None:
            return self.real["pwrite"](fd, data, offset)
        call = Call("write", name, fd, data=bytes(data), at=offset)
        return self.passed(call, lambda part=data: self.real["pwrite"](fd, part, offset))

    def ftruncate(self, fd, size):
        return self._on_fd("ftruncate", fd, lambda: self.real["ftruncate"](fd, size), size)

    def truncate(self, path, size):
        if isinstance(path, int):
            return self.ftruncate(path, size)
        fd = os.open(path, os.O_WRONLY)
        try:
            return self.ftruncate(fd, size)
        finally:
            os.close(fd)

    def fsync(self, fd):
        return self._on_fd("fsync", fd, lambda: self.real["fsync"](fd))

    def fdatasync(self, fd):
        return self._on_fd("fsync", fd, lambda: self.real["fdatasync"](fd))

    def _on_fd(self, kind, fd, run, at=0):
        name = self.fds.get(fd)
        return run() if name is None else self.passed(Call(kind, name, fd, at=at), run)

    def replace(self, source, target, **places):
        return self._two("rename", source, target, places, "replace")

    def rename(self, source, target, **places):
        return self._two("rename", source, target, places, "rename")

    def link(self, source, target, **places):
        return self._two("link", source, target, places, "link")

    def _two(self, kind, source, target, places, name):
        ours = self.below(target, places.get("dst_dir_fd"))
        run = lambda: self.real[name](source, target, **places)  # noqa: E731
        if ours is None:
            return run()
        old = self.below(source, places.get("src_dir_fd"))
        return self.passed(Call(kind, ours, source=old or ""), run)

    def symlink(self, source, target, **places):
        return self._one("symlink", target, lambda: self.real["symlink"](source, target, **places))

    def unlink(self, path, *, dir_fd=None):
        return self._one("unlink", path, lambda: self.real["unlink"](path, dir_fd=dir_fd), dir_fd)

    remove = unlink

    def mkdir(self, path, mode=0o777, *, dir_fd=None):
        run = lambda: self.real["mkdir"](path, mode, dir_fd=dir_fd)  # noqa: E731
        return self._one("mkdir", path, run, dir_fd)

    def rmdir(self, path, *, dir_fd=None):
        return self._one("rmdir", path, lambda: self.real["rmdir"](path, dir_fd=dir_fd), dir_fd)

    def _one(self, kind, path, run, dir_fd=None):
        name = self.below(path, dir_fd)
        return run() if name is None else self.passed(Call(kind, name), run)

    def opened(
        self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None,
        closefd=True, opener=None,
    ):  # fmt: skip
        """`open`, of a file below the folder that may be written through `WrittenFile`."""
        if self.below(file) is None or not set(mode) & set("wax+"):
            return self.real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = WrittenFile(self, file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)
