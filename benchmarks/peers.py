"""What the figures are held against: SQLite from the standard library, and bare system calls."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import orjson

__all__ = ["Raw", "Sqlite", "hash_and_parse", "parse"]


class Sqlite:
    """One table of JSON lines in WAL mode, each insert a transaction of its own."""

    def __init__(self, path: Path, synchronous: str = "NORMAL", *, keyed: bool = False) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(f"PRAGMA synchronous={synchronous}")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, key TEXT, line TEXT)"
        )
        if keyed:
            self.connection.execute("CREATE INDEX IF NOT EXISTS keys ON events (key)")

    def insert(self, line: str) -> None:
        self.connection.execute("INSERT INTO events (line) VALUES (?)", (line,))

    def insert_many(self, lines: Sequence[tuple[str | None, str]], batch: int = 256) -> None:
        """Rows of (key, line), a transaction a batch."""
        for start in range(0, len(lines), batch):
            self.connection.execute("BEGIN")
            self.connection.executemany(
                "INSERT INTO events (key, line) VALUES (?, ?)", lines[start : start + batch]
            )
            self.connection.execute("COMMIT")

    def newest(self, count: int, characters: int) -> str:
        """What people build instead of a pack: the newest texts, newest last, cut to a length."""
        found = self.connection.execute(
            "SELECT line FROM events ORDER BY seq DESC LIMIT ?", (count,)
        ).fetchall()
        texts = [orjson.loads(line).get("text", "") for (line,) in reversed(found)]
        return "\n".join(texts)[-characters:]

    def close(self) -> None:
        self.connection.close()


class Raw:
    """A file that grows by one write and one fdatasync at a time."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write_and_sync(self, line: bytes) -> None:
        os.write(self._fd, line)
        getattr(os, "fdatasync", os.fsync)(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _lines(log: Path) -> list[bytes]:
    return [line for file in sorted(log.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


def parse(log: Path) -> int:
    """Read every line of a log and parse it; return how many there are."""
    lines = _lines(log)
    for line in lines:
        orjson.loads(line)
    return len(lines)


def hash_and_parse(log: Path) -> int:
    """As `parse`, with a SHA-256 of each line."""
    lines = _lines(log)
    for line in lines:
        hashlib.sha256(line).hexdigest()
        orjson.loads(line)
    return len(lines)
