"""Scan sealed segments in other processes.

The result of scanning a segment depends on its bytes and on the line before it, so sealed segments
can be scanned in any order by any process. The caller takes the results in log order.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

from memplane import nofollow
from memplane.log.format import Run, runs
from memplane.log.segments import read_fd

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from types import TracebackType


__all__ = ["Scan", "ScanTask", "Scanners", "identity", "scan", "serve_scans"]

_LISTED: Final = ("tags", "markers", "refs")

_TELLING: Final = frozenset(("artifact", "purge", "repair"))

# Starting a process costs as much as scanning some of these.
_SEGMENTS_MIN: Final = 12

_PARSERS: Final = ("json", "orjson")

_CHILD: Final = """
import pickle, sys
path, tasks, parser = pickle.load(sys.stdin.buffer)
sys.path[:] = path
from memplane.log.scanning import serve_scans
serve_scans(tasks, parser, sys.stdout.buffer)
"""


class ScanTask(NamedTuple):
    """A segment to scan, and the seq and hash of the line before its first one."""

    number: int
    path: str
    seq: int
    h: bytes


class Scan(NamedTuple):
    """The believed runs behind (seq, h), and the first bytes of the lines to look at again.

    These are no events, or name a body, or are of a kind that says something of other lines.
    `file` tells the file as it was scanned from any later one.
    """

    file: tuple[int, ...]
    seq: int
    h: bytes
    believed: list[Run]
    odd: list[int]


def scan(
    data: bytes, seq: int, h: bytes, loads: Callable[[bytes], Any], file: tuple[int, ...] = ()
) -> Scan:
    """What a segment's bytes hold behind the line with that seq and hash."""
    believed = runs(data, 0, seq, h)
    odd: list[int] = []
    for run in believed:
        erased, ends = run.erased, [*run.starts[1:], run.end]
        for start, end in zip(run.starts, ends, strict=False):  # an empty run has an end alone
            if erased and start in erased:
                continue
            try:
                fields = loads(data[start : end - 1])
                if _is_odd(fields):
                    odd.append(start)
            except (ValueError, KeyError, TypeError, RecursionError):
                odd.append(start)
    return Scan(file, seq, h, believed, odd)


def _is_odd(fields: dict[str, Any]) -> bool:
    """Whether it says something of other lines or files; raises what decoding it would."""
    _ = fields["ts"], fields["seq"], fields["id"]
    for name in _LISTED:
        if name in fields:
            iter(fields[name])
    if fields["kind"] in _TELLING:
        return True
    data = fields.get("data") or ()
    return "body" in data or "recalled" in data


def identity(fd: int) -> tuple[int, ...]:
    """What changes when the file does."""
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Scanners:
    """Processes that scan, each every so manieth of the segments; none where it is not worth it.

    A process that fails is no reason to fail: who asks for its results gets None and scans himself.
    """

    def __init__(
        self, tasks: Sequence[ScanTask], loads: Callable[[bytes], Any], processes: int
    ) -> None:
        self._of: dict[int, subprocess.Popen[bytes]] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        parser = loads.__module__
        if processes < 2 or len(tasks) < _SEGMENTS_MIN or not sys.executable:
            return
        if parser.partition(".")[0] not in _PARSERS or loads.__name__ != "loads":
            return
        for each in range(processes):
            share = tasks[each::processes]
            with suppress(OSError):
                self._start(share, parser.partition(".")[0])

    def _start(self, share: Sequence[ScanTask], parser: str) -> None:
        import pickle  # noqa: PLC0415 - both cost too much where nothing is verified
        import subprocess  # noqa: PLC0415

        child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._started.append(child)
        assert child.stdin is not None
        with suppress(OSError):  # it died at once; nobody will hear of it then
            pickle.dump((sys.path, list(share), parser), child.stdin)
        with suppress(OSError):
            child.stdin.close()
        self._of.update((task.number, child) for task in share)

    def take(self, number: int) -> Scan | None:
        """The scan of a segment, to be asked in the order of the tasks; None where there is none.

        Waits for it.
        """
        child = self._of.pop(number, None)
        if child is None:
            return None
        import pickle  # noqa: PLC0415 - as above

        assert child.stdout is not None
        try:
            told, found = pickle.load(child.stdout)  # noqa: S301 - an own child wrote it
        except (OSError, EOFError, pickle.UnpicklingError):
            told, found = 0, None
        if told != number:
            self._of = {other: by for other, by in self._of.items() if by is not child}
            return None
        return found if isinstance(found, Scan) else None

    def close(self) -> None:
        """End the processes."""
        for child in self._started:
            child.kill()
        for child in self._started:
            assert child.stdout is not None
            child.stdout.close()
            child.wait()
        self._started, self._of = [], {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def serve_scans(tasks: Sequence[ScanTask], parser: str, out: BinaryIO) -> None:
    """Scan them one by one, as a process of `Scanners`."""
    import pickle  # noqa: PLC0415 - as above

    loads = __import__(parser).loads
    for task in tasks:
        found: Scan | None = None
        with suppress(OSError):
            fd = nofollow.open_file(task.path)
            try:
                file = identity(fd)
                found = scan(read_fd(fd), task.seq, task.h, loads, file)
            finally:
                os.close(fd)
        pickle.dump((task.number, found), out)
        out.flush()
