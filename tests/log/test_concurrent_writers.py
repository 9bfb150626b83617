"""Many writers of one log: each goes on behind the others, and reads little of what they wrote."""

import itertools
import os
import tempfile
import threading
from pathlib import Path

import pytest
from builders_damaged_logs import QuickDisk
from hypothesis import given, settings, strategies as st

from memplane.errors import CorruptError
from memplane.event import Draft, encode
from memplane.log import FileLog, reader, verify_log
from memplane.log.log import Tail
from memplane.log.reader import LogReader
from memplane.ports import Position
from tests.examples import examples

NOW = "2026-01-05T12:00:00.000000Z"
LOOK_BYTES = 4096


def draft(id_, text="hello"):
    rest = encode({"kind": "message", "text": text})[1:-1].encode()
    return Draft(id_, False, None, "message", "/global", None, None, None, text, rest)


def writer(home, **options):
    options.setdefault("clock", lambda: NOW)
    return FileLog(home, "demo", disk=QuickDisk(), **options)


@pytest.fixture
def pair(tmp_path):
    with writer(tmp_path) as one, writer(tmp_path) as other:
        one.append([draft("first")])
        yield one, other


class Reading:
    """Counts the reads of files and their bytes."""

    def __init__(self, monkeypatch):
        self.reads = self.bytes = 0
        pread = os.pread

        def counted(fd, size, offset):
            data = pread(fd, size, offset)
            self.reads, self.bytes = self.reads + 1, self.bytes + len(data)
            return data

        monkeypatch.setattr(os, "pread", counted)


def test_to_go_on_behind_others_costs_one_look_at_the_end_however_much_they_wrote(
    pair, monkeypatch
):
    one, other = pair
    costs = []
    for lines in (20, 200, 2000):
        for n in range(0, lines, 20):
            other.append([draft(f"{lines}-{n + m}", "text " * 30) for m in range(20)])
        with monkeypatch.context() as patched:
            counted = Reading(patched)
            one.append([draft(f"one-{lines}")])
            costs.append((counted.reads, counted.bytes))
    assert len(set(costs)) == 1
    reads, read = costs[0]
    assert reads == 2  # the lock's mark, the end of the segment
    assert read <= LOOK_BYTES + 64
    assert [line.event.seq for line in one.read()] == list(range(1, 2226))
    assert verify_log(Path(one.home), "demo").ok


def test_to_go_on_in_a_segment_that_others_began_costs_a_look_at_its_ends(tmp_path, monkeypatch):
    costs = set()
    with (
        writer(tmp_path, segment_bytes_max=50_000) as one,
        writer(tmp_path, segment_bytes_max=50_000) as other,
    ):
        one.append([draft("first")])
        for turn in range(5):
            before = other.head().segment
            n = 0
            while other.head().segment == before or n % 20:
                other.append([draft(f"{turn}-{n}", "text " * 30)])
                n += 1
            with monkeypatch.context() as patched:
                counted = Reading(patched)
                one.append([draft(f"one-{turn}")])
                costs.add(counted.reads)
                assert counted.bytes <= 2 * LOOK_BYTES + 64 + 19
            assert other.head().segment == before + 1
        assert costs == {4}  # the mark, the end of the one, the beginning and the end of the other
        seqs = [line.event.seq for line in one.read()]
        assert seqs == list(range(1, len(seqs) + 1))
    assert verify_log(tmp_path, "demo").ok


@pytest.mark.parametrize("damaged", ["header", "end of the one before", "last line", "broken"])
def test_a_segment_that_others_began_is_looked_at_whole_where_a_look_does_not_do(tmp_path, damaged):
    with writer(tmp_path, segment_bytes_max=20_000) as one:
        one.append([draft("first")])
        with writer(tmp_path, segment_bytes_max=20_000) as other:
            n = 0
            while other.head().segment == 1:
                other.append([draft(f"m{n}", "text " * 30)])
                n += 1
            other.append([draft("last")])
        old, new = (tmp_path / "log" / f"0000000{number}.jsonl" for number in (1, 2))
        path, at = {"header": (new, 60), "last line": (new, -60)}.get(damaged, (old, -9))
        if damaged == "broken":
            (tmp_path / "log" / "00000002.broken").write_bytes(b"")
        else:
            data = bytearray(path.read_bytes())
            data[at] ^= 1
            path.write_bytes(data)
        if damaged in ("header", "end of the one before"):
            with pytest.raises(CorruptError):
                one.append([draft("afterwards")])
        else:
            one.append([draft("afterwards")])
            assert one.head().segment == 3
            assert verify_log(tmp_path, "demo").ok


def test_what_nobody_else_touched_is_not_read_again(pair, monkeypatch):
    one, _other = pair
    counted = Reading(monkeypatch)
    for n in range(50):
        one.append([draft(f"m{n}")])
    assert counted.reads == 50  # the lock's mark
    assert counted.bytes <= 50 * 64


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(st.sampled_from([1, 90, 1500, LOOK_BYTES, 9000]), min_size=1, max_size=9),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=25,
    ),
    st.sampled_from([2_000, 30_000, 4_000_000]),
)
@settings(max_examples=examples(20), deadline=None)
def test_whoever_writes_when_and_how_much_the_log_is_whole(turns, segment_bytes_max):
    minutes = itertools.cycle([3, 1, 2])  # clocks that run backwards
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        logs = [
            writer(
                home,
                durability=durability,
                segment_bytes_max=segment_bytes_max,
                clock=lambda: f"2026-01-05T12:0{next(minutes)}:00.000000Z",
            )
            for durability in ("sync", "os", "os")
        ]
        receipts = {}
        for turn, (who, sizes, flushed) in enumerate(turns):
            batch = [draft(f"{turn}-{n}", "x" * size) for n, size in enumerate(sizes)]
            for receipt in logs[who].append(batch):
                receipts[receipt.id] = receipt.seq
            if not flushed:
                logs[who].flush()
        lines = list(logs[0].read())
        for log in logs:
            log.close()
        events = [line.event for line in lines]
        assert [event.seq for event in events] == list(range(1, len(lines) + 1))
        assert {event.id: event.seq for event in events}.items() >= receipts.items()
        recs = [event.rec for event in events]
        assert recs == sorted(recs)
        for segment in {line.segment for line in lines}:
            durs = [line.event.dur for line in lines if line.segment == segment]
            assert durs == sorted(durs)
        assert verify_log(home, "demo").ok


@pytest.mark.sized
@pytest.mark.parametrize(
    ("lines", "step"),
    [(1, 3), (60, 7), *(pytest.param(n, 1, marks=pytest.mark.long) for n in (1, 3, 60))],
)
def test_a_line_that_another_writer_did_not_finish_is_set_aside_wherever_it_ends(
    tmp_path, lines, step
):
    with writer(tmp_path, durability="os") as one:
        one.append([draft("first")])
        path = tmp_path / "log" / "00000001.jsonl"
        with writer(tmp_path, durability="os") as other:
            other.append([draft(f"m{n}", "text " * 40) for n in range(lines)])
            size = path.stat().st_size
            other.append([draft("last", "text " * 40)])
            whole = path.read_bytes()
    for cut in sorted({*range(size, len(whole), step), len(whole) - 1}):
        home = tmp_path / str(cut)
        with writer(home, durability="os") as log:
            log.append([draft("first")])
            begun = home / "log" / "00000001.jsonl"
            begun.write_bytes(whole[: begun.stat().st_size])
            log.append([])
            begun.write_bytes(whole[:cut])  # what others wrote, the last of them killed
            (home / "log" / ".lock").write_bytes(b"1\n")
            log.append([draft("afterwards")])
            found = [line.event.id for line in log.read() if line.event.kind == "message"]
            assert found == ["first", *(f"m{n}" for n in range(lines)), "afterwards"]
        assert verify_log(home, "demo").ok


def test_a_last_line_that_does_not_verify_is_never_written_behind(pair):
    one, other = pair
    other.append([draft(f"m{n}", "text " * 40) for n in range(60)])
    other.append([draft("last")])
    path = Path(one.home) / "log" / "00000001.jsonl"
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)
    one.append([draft("m60")])
    report = verify_log(Path(one.home), "demo")
    assert report.ok
    kinds = [line.event.kind for line in one.read()]
    assert kinds[-2:] == ["repair", "message"]


def test_what_a_stranger_damaged_between_the_writers_is_told_by_readers_and_verify(pair):
    one, other = pair
    other.append([draft(f"m{n}", "text " * 40) for n in range(60)])
    other.append([draft("last")])  # says that the lines before it are durable
    path = Path(one.home) / "log" / "00000001.jsonl"
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    one.append([draft("m60")])
    assert not verify_log(Path(one.home), "demo").ok
    assert [line.event.id for line in one.read()][-1] == "m60"
    assert len(one.gaps()) == 1
    with writer(Path(one.home)) as late, pytest.raises(CorruptError):
        late.append([draft("m61")])


# --- the tail that a process keeps of its own lines ---


def line_of(seq, h, size):
    return b'{"seq":%d,' % seq + b"x" * size + b',"h":"%b"}\n' % h


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.data())
def test_the_tail_gives_the_lines_behind_any_of_its_positions_and_no_other(sizes, data):
    tail, end, h = Tail(), 100, b"0" * 16
    begin = Position(7, h.decode(), 1, end)
    positions, lines = [begin], []
    for n, size in enumerate(sizes):
        said = b"%016d" % n
        lines.append(line_of(8 + n, said, size))
        tail.add(1, end, 7 + n, h, [lines[-1]])
        end, h = end + len(lines[-1]), said
        positions.append(Position(8 + n, said.decode(), 1, end))
    at = data.draw(st.integers(0, len(sizes)))
    kept = tail.behind(positions[at])
    assert [each.raw for each in kept] == lines[at:]
    assert [(each.start, each.end) for each in kept] == [
        (before.offset, after.offset) for before, after in itertools.pairwise(positions[at:])
    ]
    for other in (
        positions[at]._replace(h="f" * 16),
        positions[at]._replace(segment=2),
        positions[at]._replace(offset=positions[at].offset + 1),
        positions[at]._replace(seq=6),
        positions[at]._replace(seq=8 + len(sizes)),
    ):
        assert tail.behind(other) is None


def test_a_tail_begins_anew_where_somebody_else_wrote_in_between():
    tail = Tail()
    assert tail.behind(Position(0, "", 1, 0)) is None
    first, second = line_of(1, b"1" * 16, 5), line_of(9, b"9" * 16, 5)
    tail.add(1, 0, 0, b"0" * 16, [first])
    tail.add(1, 500, 8, b"8" * 16, [second])
    assert tail.behind(Position(0, "0" * 16, 1, 0)) is None
    assert [each.raw for each in tail.behind(Position(8, "8" * 16, 1, 500))] == [second]


class Pausing:
    """An append in a thread of its own that stops when its line lies in the file."""

    def __init__(self, log, monkeypatch, id_):
        self.written, self.goes_on = threading.Event(), threading.Event()
        write = log._writer.write
        monkeypatch.setattr(log._writer, "write", lambda *given: self._write(write, *given))
        self._thread = threading.Thread(target=log.append, args=([draft(id_)],))
        self._thread.start()
        assert self.written.wait(20)

    def _write(self, write, *given):
        write(*given)
        self.written.set()
        assert self.goes_on.wait(20)

    def finish(self):
        self.goes_on.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_who_reads_from_a_place_gets_all_lines_up_to_a_head_that_was_asked_before(
    tmp_path, monkeypatch
):
    with writer(tmp_path) as log:
        log.append([draft("first")])
        place = log.head()
        log.append([draft("second")])
        append = Pausing(log, monkeypatch, "third")
        head = log.head()  # by the file: the appending thread has noted nothing yet
        assert head.seq == place.seq + 2
        behind = Tail.behind

        def behind_and_then(tail, position):
            found = behind(tail, position)
            append.finish()
            return found

        monkeypatch.setattr(Tail, "behind", behind_and_then)
        assert [line.event.seq for line in log.read_from(place)][:2] == [place.seq + 1, head.seq]


def test_the_head_never_falls_back_to_what_a_slower_thread_has_read(tmp_path, monkeypatch):
    with writer(tmp_path) as other, writer(tmp_path) as log:
        other.append([draft("first")])
        main, read, goes_on = threading.current_thread(), threading.Event(), threading.Event()
        read_file, spans = reader.read_segment_file, LogReader._spans

        def paused(*given):
            data = read_file(*given)
            if threading.current_thread() is not main:
                read.set()
                assert goes_on.wait(20)
            return data

        def finishing(self, position):
            head = yield from spans(self, position)
            if threading.current_thread() is main:
                goes_on.set()
                slow.join(20)
            return head

        slow = threading.Thread(target=lambda: list(log.read()))
        monkeypatch.setattr(reader, "read_segment_file", paused)
        slow.start()
        assert read.wait(20)
        other.append([draft("second")])
        monkeypatch.setattr(LogReader, "_spans", finishing)
        assert log.head() == other.head()
        assert log.head() == other.head()
