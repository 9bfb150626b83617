"""One of many writers, as a process of its own: `python writers.py KIND PATH CHARACTERS`.

Each line of its input says how often to write, and how many lines at once; it answers when it
began and ended by a clock that all processes share. KIND: `os` and `sync` append to a log, `record`
records new texts in a plane, synced, `raw` writes to a file without a lock, `sqlite-normal` and
`sqlite-full` insert. `crowds` starts several.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from itertools import count, cycle, islice
from pathlib import Path
from typing import Literal, cast

Write = Callable[[int, int], None]

_PLANE = "bench"
_DRAFTS = 64
_BUSY_SECONDS = 60.0
_WORDS = "The ledger keeps one cursor for each tenant and closes it before the next one opens. "


def _appending(path: Path, durability: str, text: str) -> Write:
    from memplane.intake import Intake, Redactor  # noqa: PLC0415 - the others start sooner without
    from memplane.log import FileLog  # noqa: PLC0415
    from memplane.wiring import clock  # noqa: PLC0415

    intake, row = Intake(Redactor(())), {"text": text, "role": "assistant"}
    drafts = [intake.prepare(row, id=f"{os.getpid():013}{number:013}") for number in range(_DRAFTS)]
    log = FileLog(
        path, _PLANE, clock=clock, durability=cast("Literal['sync', 'os']", durability),
        lock_wait_ms_max=round(_BUSY_SECONDS * 1000),
    )  # fmt: skip

    def append(writes: int, lines: int) -> None:
        batches = cycle([drafts[at : at + lines] for at in range(0, _DRAFTS, lines)])
        for batch in islice(batches, writes):
            log.append(batch)

    return append


def _recording(path: Path, characters: int) -> Write:
    import workload  # noqa: PLC0415 - the others start sooner without

    import memplane  # noqa: PLC0415

    plane, seeds = memplane.open(path), count(os.getpid() * 1_000_000)

    def record(writes: int, lines: int) -> None:
        for _ in range(writes):
            rows = [
                {"text": workload.text(next(seeds), characters), "role": "assistant"}
                for _ in range(lines)
            ]
            plane.record_many(rows)

    return record


def _inserting(path: Path, synchronous: str, line: str) -> Write:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
    connection.execute(f"PRAGMA synchronous={synchronous}")
    statement = "INSERT INTO events (line) VALUES (?)"

    def insert(writes: int, lines: int) -> None:
        for _ in range(writes):
            if lines == 1:
                connection.execute(statement, (line,))
                continue
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, [(line,)] * lines)
            connection.execute("COMMIT")

    return insert


def _writing(path: Path, line: bytes) -> Write:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sync = getattr(os, "fdatasync", os.fsync)

    def write(writes: int, lines: int) -> None:
        for _ in range(writes):
            os.write(fd, line * lines)
            sync(fd)

    return write


def main() -> int:
    kind, path = sys.argv[1], Path(sys.argv[2])
    text = (_WORDS * 99)[: int(sys.argv[3])]
    # As long as a line of the log: seq, dur, id, time and hash are in it.
    line = b"{" + b" " * 117 + b'"kind":"message","role":"assistant","text":"%b"}\n' % text.encode()
    if kind == "raw":
        write = _writing(path, line)
    elif kind == "record":
        write = _recording(path, len(text))
    elif kind.startswith("sqlite-"):
        write = _inserting(path, kind.removeprefix("sqlite-"), line.decode())
    else:
        write = _appending(path, kind, text)
    print("ready", flush=True)
    for asked in sys.stdin:
        writes, lines = map(int, asked.split())
        begun = time.monotonic()
        write(writes, lines)
        print(begun, time.monotonic(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
