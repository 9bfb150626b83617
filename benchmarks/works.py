"""The rows of the table: what is timed, what the design asks of it, what it is held against."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import orjson
import workload
from measure import Peer, Work, seconds
from peers import Raw, Sqlite, hash_and_parse, parse
from place import Place, lines_of

import memplane
from memplane.importers import import_paths
from memplane.intake import Intake, Redactor
from memplane.log import FileLog, verify
from memplane.plane.folds import Folds
from memplane.ports import Head, Line
from memplane.wiring import clock, open_plane

__all__ = ["WORKS"]

_MICRO: Final = 1e6
_MILLI: Final = 1e3
_FOLD_AFTER: Final = 64  # a plane folds and indexes what it recorded at most this much later
_BUDGET: Final = 4000
_AS_LOCAL: Final = 16_000  # characters of the newest texts that 4,000 tokens hold

Make = Callable[[Place, int], Work]


def _times(act: Callable[[], object], runs: int, scale: float) -> Callable[[], list[float]]:
    return lambda: [seconds(act) * scale for _ in range(runs)]


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
        _times(lambda: log.append([next(drafts)]), runs, _MICRO), aim=10,
        peers=[Peer("SQLite insert, WAL NORMAL",
                    _times(lambda: sqlite.insert(line), runs, _MICRO))],
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
                    _times(lambda: sqlite.insert(line), runs, _MICRO))],
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
    return Work(name, "us", sample, aim=250, peers=_exact(place, runs, new=True))


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
            Peer("write + fdatasync", _times(lambda: raw.write_and_sync(line), runs, _MICRO)),
            Peer("SQLite insert, WAL FULL",
                 _times(lambda: full.insert(line.decode()), runs, _MICRO)),
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
        _times(lambda: plane.pack(next(queries), session=session, intent="fast", budget=_BUDGET),
               max(8, runs // 4), _MILLI),
        aim=2, judged="p95",
        peers=[Peer("SQLite: newest 200 texts joined",
                    _times(lambda: sqlite.newest(200, _AS_LOCAL), max(8, runs // 4), _MILLI))],
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


_CHILD: Final = """
import sys, time
begun = time.perf_counter()
from memplane.wiring import open_plane
import orjson
import memplane.plane
ready = time.perf_counter()
plane = open_plane(sys.argv[1])
plane.pack(sys.argv[2], budget=4000, intent="fast")
print(time.perf_counter() - ready)
"""


def _child(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip
    return done.stdout


def open_and_pack(place: Place, runs: int) -> Work:
    """In a fresh process with its modules imported: open the plane, pack."""
    home, runs = str(place.big), max(2, runs // 40)
    query = workload.QUERIES[0]
    return Work(
        "open + first fast pack, fresh process", "ms",
        lambda: [float(_child("-c", _CHILD, home, query)) * _MILLI for _ in range(runs)], aim=50,
    )  # fmt: skip


def whole_process(place: Place, runs: int) -> Work:
    """The same with the interpreter's start and the imports."""
    home, runs = str(place.big), max(2, runs // 40)
    query = workload.QUERIES[0]
    return Work(
        "whole process: import, open, fast pack", "ms",
        _times(lambda: _child("-c", _CHILD, home, query), runs, _MILLI),
        peers=[Peer("python -c pass", _times(lambda: _child("-c", "pass"), runs, _MILLI))],
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
                    _times(lambda: parse(home / "log"), 1, _MILLI))],
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

    def head(self) -> Head:
        last = self._lines[-1]
        return Head(last.event.seq, last.event.h, last.segment, last.end)

    def matches(self, _position: Head) -> bool:
        return False

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        return iter(self._lines[after:upto])

    def read_from(self, position: Head) -> Iterator[Line]:
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
        "open + get + close, in process", "ms", _times(own, runs, _MILLI), aim=50,
        peers=[Peer("SQLite: open, select, close", _times(peer, runs, _MILLI))],
    )  # fmt: skip


def verifying(place: Place, _runs: int) -> Work:
    """Chain and decode of every line."""
    plane = place.big_open

    def own() -> list[float]:
        reports = []
        check = partial(
            verify, plane.home, plane.id, loads=orjson.loads, processes=os.cpu_count() or 1
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


def _exact(place: Place, runs: int, *, new: bool) -> list[Peer]:
    try:
        from rs_bpe.bpe import openai  # noqa: PLC0415 - an extra; without it there is no peer
    except ImportError:
        return []
    encoding = openai.o200k_base()
    same = place.text()
    return [Peer("rs-bpe, o200k alone", lambda: [
        seconds(partial(encoding.count, text)) * _MICRO
        for text in [place.text() if new else same for _ in range(runs)]])]  # fmt: skip


def counting_new(place: Place, runs: int) -> Work:
    """bound/1 over text not seen before."""
    counter = place.counter

    def sample() -> list[float]:
        texts = [place.text() for _ in range(runs)]
        return [seconds(partial(counter.count, text)) * _MICRO for text in texts]

    return Work("bound/1, 600 new characters", "us", sample, peers=_exact(place, runs, new=True))


def counting_again(place: Place, runs: int) -> Work:
    """bound/1 over text seen before."""
    counter, text = place.counter, place.text()
    counter.count(text)
    return Work(
        "bound/1, the same 600 characters again", "us",
        _times(lambda: counter.count(text), runs, _MICRO), peers=_exact(place, runs, new=False),
    )  # fmt: skip


_PATHS: Final = "src/ledger/token_cache.py sha256:9f86d081884c7d659a2f keyboard monkey passage "


def redacting(place: Place, runs: int) -> Work:
    """What a look for secrets costs where there is none, by KB."""
    redactor, floor = Redactor(()), re.compile("AKIA[0-9A-Z]{16}")

    def sample() -> list[float]:
        texts = [place.text() + workload.text(number)[:424] for number in range(runs)]
        return [seconds(partial(redactor.redact, text)) * _MICRO for text in texts]

    def peer() -> list[float]:
        texts = [place.text() + workload.text(number)[:424] for number in range(runs)]
        return [seconds(partial(floor.sub, "", text)) * _MICRO for text in texts]

    name = "redaction, 1,024 characters, no secret"
    return Work(name, "us", sample, peers=[Peer("one pattern by re alone", peer)])


def redacting_suspects(place: Place, runs: int) -> Work:
    """The same where words look like the beginning of a secret, and are none."""
    redactor = Redactor(())

    def sample() -> list[float]:
        made = [_PATHS * 9 + place.text() for _ in range(runs)]
        return [seconds(partial(redactor.redact, text[:1024])) * _MICRO for text in made]

    return Work("redaction, 1,024 characters of suspects", "us", sample)


def record_command(place: Place, runs: int) -> Work:
    """`memplane record` as a process of its own, level os."""
    home, runs = place.new("plane"), max(2, runs // 40)
    memplane.init(home).close()
    command = ("-m", "memplane", "--home", str(home), "record", "The ledger keeps one cursor.")
    return Work(
        "whole process: memplane record", "ms",
        _times(lambda: _child(*command), runs, _MILLI),
        peers=[Peer("python -c pass", _times(lambda: _child("-c", "pass"), runs, _MILLI))],
    )  # fmt: skip


def modules(_place: Place, _runs: int) -> Work:
    """What `import memplane` loads beside what Python has loaded anyway."""
    code = "import sys; had = set(sys.modules); import memplane; print(len(set(sys.modules) - had))"
    name = "modules that `import memplane` loads"
    return Work(name, "modules", lambda: [float(_child("-c", code))])


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
    "record-command": record_command,
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
}
