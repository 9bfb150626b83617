"""The rows of the table: what is timed, what the design asks of it, what it is held against."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import orjson
import workload
from measure import Peer, Work, seconds, times
from observer_works import OBSERVER_WORKS
from peers import Raw, Sqlite, hash_and_parse, parse
from place import Place, lines_of
from process_works import COMMAND_WORKS, modules, open_and_pack, whole_process
from text_works import counting_again, counting_new, exact, redacting, redacting_suspects

import memplane
from memplane.context.folds import Folds
from memplane.importers import import_paths
from memplane.intake import Intake, Redactor
from memplane.log import FileLog, verify_log
from memplane.ports import Line, Position
from memplane.wiring import clock, open_plane

__all__ = ["WORKS"]

_MICRO: Final = 1e6
_MILLI: Final = 1e3
_FOLD_AFTER: Final = 64  # a plane folds and indexes what it recorded at most this much later
_BUDGET: Final = 4000
_AS_LOCAL: Final = 16_000  # characters of the newest texts that 4,000 tokens hold

Make = Callable[[Place, int], Work]


def _prepared(place: Place, runs: int) -> Iterator[memplane.event.Draft]:
    intake = Intake(Redactor(()))
    for number in range(runs):
        yield intake.prepare(place.row(), id=f"draft-{number}")


def append(place: Place, runs: int) -> Work:
    """`log.append` of a prepared line, level os."""
    plane = place.plane("os")
    log = place.closing(FileLog(plane.home, plane.id, clock=clock, durability="os"))
    drafts = itertools.cycle(list(_prepared(place, runs)))
    sqlite = place.closing(Sqlite(place.new("sqlite")))
    log.append([next(drafts)])
    line = next(reversed(list(lines_of(plane.home)))).decode()
    return Work(
        "log.append, a prepared line, os", "us",
        times(lambda: log.append([next(drafts)]), runs, _MICRO), aim=10,
        peers=[Peer("SQLite insert, WAL NORMAL",
                    times(lambda: sqlite.insert(line), runs, _MICRO))],
    )  # fmt: skip


def record_os(place: Place, runs: int) -> Work:
    """Whole `record` of new text, level os; a sample is a block with its share of folding."""
    plane = place.closing(memplane.open(place.copy(), durability="os"))
    plane.pack("warm up")
    sqlite = place.closing(Sqlite(place.new("sqlite")))
    line = orjson.dumps(place.row()).decode()

    def record(block: list[dict[str, Any]]) -> None:
        for row in block:
            plane.record(**row)

    def sample() -> list[float]:
        rows = [[place.row() for _ in range(_FOLD_AFTER)] for _ in range(max(1, runs // 20))]
        return [seconds(partial(record, block)) * _MICRO / _FOLD_AFTER for block in rows]

    return Work(
        "record, 600 new characters, os, folded", "us", sample, aim=400,
        peers=[Peer("SQLite insert, WAL NORMAL",
                    times(lambda: sqlite.insert(line), runs, _MICRO))],
    )  # fmt: skip


def record_tokens(place: Place, runs: int) -> Work:
    """The same where the policy names o200k and the extra `tokens` counts it."""
    home = place.copy()
    budgets = home / "policies" / "budgets.yaml"
    budgets.write_text(budgets.read_text().replace("counter: bound/1", "counter: o200k", 1))
    plane = place.closing(memplane.open(home, durability="os"))
    plane.pack("warm up")

    def record(block: list[dict[str, Any]]) -> None:
        for row in block:
            plane.record(**row)

    def sample() -> list[float]:
        rows = [[place.row() for _ in range(_FOLD_AFTER)] for _ in range(max(1, runs // 20))]
        return [seconds(partial(record, block)) * _MICRO / _FOLD_AFTER for block in rows]

    name = "record, 600 new characters, os, [tokens]"
    return Work(name, "us", sample, aim=250, peers=exact(place, runs, new=True))


def record_sync(place: Place, runs: int) -> Work:
    """Whole `record`, level sync."""
    runs = max(1, runs // 6)
    plane = place.plane("sync")
    plane.record(**place.row())
    raw = place.closing(Raw(place.new("raw")))
    full = place.closing(Sqlite(place.new("sqlite"), "FULL"))
    line = orjson.dumps(place.row()) + b"\n"

    def sample() -> list[float]:
        rows = [place.row() for _ in range(runs)]
        return [seconds(partial(plane.record, **row)) * _MICRO for row in rows]

    return Work(
        "record, 600 new characters, sync", "us", sample,
        peers=[
            Peer("write + fdatasync", times(lambda: raw.write_and_sync(line), runs, _MICRO)),
            Peer("SQLite insert, WAL FULL",
                 times(lambda: full.insert(line.decode()), runs, _MICRO)),
        ],
    )  # fmt: skip


def record_many(place: Place, runs: int) -> Work:
    """Bulk recording of a coding session's rows, level os."""
    events = runs * 10
    seeds = itertools.count(100)

    def sample() -> list[float]:
        rows = list(workload.rows(events, next(seeds)))
        with place.warm("bulk") as plane:
            return [events / seconds(lambda: plane.record_many(rows))]

    return Work("record_many, session rows, os", "events/s", sample, aim=2000,
                more_is_better=True)  # fmt: skip


def pack_warm(place: Place, runs: int) -> Work:
    """A fast pack when nothing was recorded since the last one."""
    plane, sqlite = place.big_open, place.big_sqlite
    queries = itertools.cycle(workload.QUERIES)
    session = place.session
    return Work(
        f"fast pack, warm, {place.events:,} events", "ms",
        times(lambda: plane.pack(next(queries), session=session, intent="fast", budget=_BUDGET),
               max(8, runs // 4), _MILLI),
        aim=2, judged="p95",
        peers=[Peer("SQLite: newest 200 texts joined",
                    times(lambda: sqlite.newest(200, _AS_LOCAL), max(8, runs // 4), _MILLI))],
    )  # fmt: skip


def pack_after_event(place: Place, runs: int) -> Work:
    """A fast pack with one prompt recorded before it, as an agent works."""
    plane = place.closing(memplane.open(place.copy(), durability="os"))
    queries = itertools.cycle(workload.QUERIES)

    def one() -> float:
        query = next(queries) + " " + place.text()[:60]
        plane.record(query, role="user", session=place.session)
        return seconds(
            lambda: plane.pack(query, session=place.session, intent="fast", budget=_BUDGET)
        )

    one()
    return Work(
        "fast pack for a prompt just recorded", "ms",
        lambda: [one() * _MILLI for _ in range(max(8, runs // 4))], aim=2, judged="p95",
    )  # fmt: skip


def pack_cold(place: Place, _runs: int) -> Work:
    """Open and pack where the projections were deleted."""
    home = place.copy()

    def one() -> float:
        shutil.rmtree(home / "projections")
        (home / "projections").mkdir(mode=0o700)
        plane = open_plane(home, durability="os")
        took = seconds(lambda: plane.pack(workload.QUERIES[0], intent="fast", budget=_BUDGET))
        plane.close()
        return took * _MILLI

    return Work(
        f"cold fast pack, {place.events:,} events to fold", "ms", lambda: [one()], aim=1000,
        peers=[Peer("read and parse the log's lines",
                    times(lambda: parse(home / "log"), 1, _MILLI))],
    )  # fmt: skip


def importing(place: Place, runs: int) -> Work:
    """A Claude Code transcript into an empty plane."""
    events = runs * 10
    seeds = itertools.count(500)
    file = place.new("transcripts").with_suffix(".jsonl")

    def sample() -> list[float]:
        file.write_bytes(workload.transcript(events, next(seeds)))
        with place.warm("imported") as plane:
            reports = []
            took = seconds(lambda: reports.append(import_paths(plane, "claude-code", [file])))
            return [reports[0].events / took]

    def insert() -> list[float]:
        lines = [(None, line.decode()) for line in file.read_bytes().splitlines()]
        with_close = Sqlite(place.new("sqlite"))
        took = seconds(lambda: with_close.insert_many(lines))
        with_close.close()
        return [len(lines) / took]

    file.write_bytes(workload.transcript(events))
    return Work(
        "import of a transcript, os", "events/s", sample, aim=2000, more_is_better=True,
        peers=[Peer("SQLite, the same lines, 256 a commit", insert)],
    )  # fmt: skip


class _Lines:
    """A log in memory, so that folding is timed without reading."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines

    def head(self) -> Position:
        last = self._lines[-1]
        return Position(last.event.seq, last.event.h, last.segment, last.end)

    def matches(self, _position: Position) -> bool:
        return False

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        return iter(self._lines[after:upto])

    def read_from(self, position: Position) -> Iterator[Line]:
        return self.read(position.seq)


def fold(place: Place, runs: int) -> Work:
    """All projections over lines that lie in memory and carry their tokens."""
    plane = place.big_open
    log = FileLog(plane.home, plane.id, clock=clock, loads=orjson.loads, read_only=True)
    lines = list(log.read(0, runs * 100))
    raw = list(itertools.islice(lines_of(place.big), len(lines)))

    def one() -> float:
        folds = Folds(_Lines(lines), None, plane.id, place.counter, "bench")
        took = seconds(folds.catch_up)
        folds.close()
        return took * _MICRO / len(lines)

    one()
    return Work(
        "fold of all projections, no counting", "us/event", lambda: [one()], aim=8,
        peers=[Peer("orjson.loads of the same lines", lambda: [
            seconds(lambda: [orjson.loads(line) for line in raw]) * _MICRO / len(raw)])],
    )  # fmt: skip


def open_and_get(place: Place, runs: int) -> Work:
    """Open the plane and read a key, modules imported."""
    home, runs = place.big, max(2, runs // 20)
    key = place.big_open.keys()[0]

    def own() -> None:
        plane = open_plane(home)
        assert plane.get(key) is not None
        plane.close()

    def peer() -> None:
        sqlite = Sqlite(place.big_sqlite.path)
        wanted = "SELECT line FROM events WHERE key=? ORDER BY seq DESC LIMIT 1"
        assert sqlite.connection.execute(wanted, (key,)).fetchone()
        sqlite.close()

    place.big_sqlite  # noqa: B018 - built before anything is timed
    return Work(
        "open + get + close, in process", "ms", times(own, runs, _MILLI), aim=50,
        peers=[Peer("SQLite: open, select, close", times(peer, runs, _MILLI))],
    )  # fmt: skip


def verifying(place: Place, _runs: int) -> Work:
    """Chain and decode of every line."""
    plane = place.big_open

    def own() -> list[float]:
        reports = []
        check = partial(
            verify_log, plane.home, plane.id, loads=orjson.loads, processes=os.cpu_count() or 1
        )
        took = seconds(lambda: reports.append(check()))
        assert reports[0].ok
        return [reports[0].events / took]

    log = plane.home / "log"
    return Work(
        "verify: chain + decode", "lines/s", own, aim=300_000, more_is_better=True,
        peers=[Peer("SHA-256 + orjson.loads of each line",
                    lambda: [place.events / seconds(lambda: hash_and_parse(log))])],
    )  # fmt: skip


WORKS: Final[dict[str, Make]] = {
    "append": append,
    "record-os": record_os,
    "record-tokens": record_tokens,
    "record-sync": record_sync,
    "record-many": record_many,
    "pack-warm": pack_warm,
    "pack-after-event": pack_after_event,
    "open-pack": open_and_pack,
    "whole-process": whole_process,
    **COMMAND_WORKS,
    "pack-cold": pack_cold,
    "import": importing,
    "fold": fold,
    "open-get": open_and_get,
    "verify": verifying,
    "count-new": counting_new,
    "count-again": counting_again,
    "redact": redacting,
    "redact-suspects": redacting_suspects,
    "modules": modules,
    **OBSERVER_WORKS,
}
