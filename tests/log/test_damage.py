"""Damage: what is cut, what is refused, what is still read, and that nothing happens silently."""

import shutil
import subprocess
import sys
from itertools import count

import pytest
from builders_damaged_logs import QuickDisk, clock
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.errors import CorruptError
from memplane.event import Draft, encode
from memplane.log import FileLog, repair_log, verify_log
from tests.examples import examples

SEALED = "00000001.jsonl"


def draft(id_, text="hello"):
    rest = encode({"kind": "message", "text": text})[1:-1].encode()
    return Draft(id_, True, None, "message", "/global", None, None, None, text, rest)


def opened(home, **options):
    return FileLog(home, "demo", clock=clock, disk=QuickDisk(), **options)


def written(home, events, *, durability="sync", **options):
    """A log with these many events, its bytes (of the first segment), and its lines."""
    with opened(home, durability=durability, **options) as log:
        for n in range(events):
            log.append([draft(f"m{n}", f"text {n} " * (n % 3 + 1))])
        lines = list(log.read())
    return (home / "log" / SEALED).read_bytes(), lines


def place(home, data):
    """A log that consists of one segment with these bytes."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "log").mkdir(parents=True)
    (home / "log" / SEALED).write_bytes(data)
    return home


def own(lines):
    """What users recorded, without the log's own events."""
    return [line.event.id for line in lines if line.event.kind == "message"]


def quarantined(home):
    return [path.read_bytes() for path in sorted((home / "log" / "quarantine").glob("*"))]


def check_cut(home, data, lines, cut):
    whole = [line for line in lines if line.end <= cut]
    torn = data[max((line.end for line in whole), default=0) : cut]
    place(home, data[:cut])
    with opened(home, read_only=True) as reading:
        assert own(reading.read()) == own(whole)
    if not whole:  # the header, durable before the segment had its name: no crash cuts it
        with opened(home) as log, pytest.raises(CorruptError, match="run `memplane repair`"):
            log.append([draft("next")])
        assert (home / "log" / SEALED).read_bytes() == data[:cut]
        repair_log(home, "demo", clock=clock)
    with opened(home) as log:
        log.append([draft("next")])
        assert own(log.read()) == [*own(whole), "next"]
        repairs = [line.event for line in log.read() if line.event.kind == "repair"]
        assert log.gaps() == ()
    report = verify_log(home, "demo")
    assert report.ok, report.problems
    assert quarantined(home) == ([torn] if torn else [])
    assert [event.data["bytes"] for event in repairs] == ([len(torn)] if torn or not cut else [])


def test_a_log_cut_at_any_byte_recovers_exactly_the_complete_lines(tmp_path):
    data, lines = written(tmp_path / "made", 3)
    for cut in range(len(data) + 1):
        check_cut(tmp_path / "cut", data, lines, cut)


@pytest.mark.long
def test_a_longer_log_cut_at_any_byte_recovers_exactly_the_complete_lines(tmp_path):
    data, lines = written(tmp_path / "made", 60)
    for cut in range(len(data) + 1):
        check_cut(tmp_path / "cut", data, lines, cut)


def check_flip(home, data, lines, bit):
    """Flip one bit; the watermark of a log at level sync is the seq before the last."""
    at = bit // 8
    bad = bytearray(data)
    bad[at] ^= 1 << bit % 8
    place(home, bytes(bad))
    hit = next(line.event.seq for line in lines if line.offset <= at < line.end)
    last = lines[-1].event.seq
    report = verify_log(home, "demo")
    assert not report.ok
    with opened(home) as log:
        believed = [line.event for line in log.read()]
        assert believed == [line.event for line in lines if line.event in believed]
        # The newline of a line takes the next line with it, a line's hash nobody else.
        assert {line.event.seq for line in lines} - {event.seq for event in believed} <= {
            hit,
            hit + 1,
        }
        # What the log can still know: the newline before the last line takes that line's `dur` along.
        watermark = max(event.dur for event in believed) if believed else 0
        if hit <= watermark or hit < last - 1:
            with pytest.raises(CorruptError) as error:
                log.append([draft("next")])
            assert (error.value.segment, error.value.seq) == (SEALED, hit - 1)
            assert (home / "log" / SEALED).read_bytes() == bytes(bad)
            assert log.gaps()[0].first == hit
        else:
            log.append([draft("next")])
            kept = [line for line in lines if line.event.seq < hit]
            assert own(log.read()) == [*own(kept), "next"]
            assert quarantined(home) == [bytes(bad)[kept[-1].end :]]


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_flipped_bit_is_always_noticed_and_never_cut_below_the_watermark(tmp_path, data):
    if not (tmp_path / "made").exists():
        written(tmp_path / "made", 12)
    raw = (tmp_path / "made" / "log" / SEALED).read_bytes()
    with opened(tmp_path / "made", read_only=True) as log:
        lines = list(log.read())
    check_flip(tmp_path / "flip", raw, lines, data.draw(st.integers(0, len(raw) * 8 - 1)))


@pytest.mark.long
def test_every_flipped_bit_is_noticed_and_never_cut_below_the_watermark(tmp_path):
    raw, lines = written(tmp_path / "made", 12)
    for bit in range(len(raw) * 8):
        check_flip(tmp_path / "flip", raw, lines, bit)


def test_lines_deleted_swapped_doubled_or_edited_are_noticed(tmp_path):
    raw, _ = written(tmp_path / "made", 12)
    lines = raw.splitlines(keepends=True)
    for n in range(1, 10):
        for changed in (
            lines[:n] + lines[n + 1 :],
            [*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]],
            [*lines[:n], lines[n], *lines[n:]],
            [*lines[:n], lines[n].replace(b"text", b"tent"), *lines[n + 1 :]],
        ):
            place(tmp_path / "bad", b"".join(changed))
            assert not verify_log(tmp_path / "bad", "demo").ok
            with opened(tmp_path / "bad") as log, pytest.raises(CorruptError):
                log.append([draft("next")])


def test_what_was_never_acknowledged_is_set_aside_and_what_verifies_behind_it_kept(tmp_path):
    # At level `os` nothing was synced behind the first append: the watermark stays there.
    raw, lines = written(tmp_path / "made", 10, durability="os")
    assert max(line.event.dur for line in lines) <= 2
    for hit in range(3, 10):
        line = lines[hit]
        bad = raw[: line.offset] + b"\0" * (line.end - line.offset - 1) + raw[line.end - 1 :]
        place(tmp_path / "bad", bad)
        with opened(tmp_path / "bad") as log:
            log.append([draft("next")])
            # The zeroed line's hash is gone too, and with it what the next line chains from.
            kept = [each.event.id for each in lines[1:] if each.event.seq not in (hit + 1, hit + 2)]
            assert own(log.read()) == [*kept, "next"]
            assert log.gaps() == ()
            (event,) = [each.event for each in log.read() if each.event.kind == "repair"]
            assert event.data["offset"] == line.offset
            assert event.data["case"] == ("scattered" if hit < 9 else "torn")
            assert log.append(
                [draft(kept[-1], f"text {kept[-1][1:]} " * (int(kept[-1][1:]) % 3 + 1))]
            )[0].duplicate
            seqs = [each.event.seq for each in log.read()]
        assert seqs == list(range(1, len(seqs) + 1))
        assert quarantined(tmp_path / "bad") == [bad[line.offset :]]
        assert verify_log(tmp_path / "bad", "demo").ok


def test_a_log_shorter_than_what_this_process_knows_to_be_durable_is_refused(tmp_path):
    with opened(tmp_path) as log:
        for n in range(5):
            log.append([draft(f"m{n}")])
        path = tmp_path / "log" / SEALED
        lines = list(log.read())
        path.write_bytes(path.read_bytes()[: lines[3].end])
        with pytest.raises(CorruptError):
            log.append([draft("next")])
        path.write_bytes(b"")
        with pytest.raises(CorruptError):
            log.append([draft("next")])


def damaged(home, seq):
    """A log of several segments with one line's bytes overwritten; the lines as they were."""
    with opened(home, segment_bytes_max=1200) as log:
        for n in range(30):
            log.append([draft(f"m{n}", f"text {n}")])
        lines = list(log.read())
    line = lines[seq - 1]
    path = home / "log" / f"{line.segment:08d}.jsonl"
    data = bytearray(path.read_bytes())
    data[line.offset + 8 : line.offset + 20] = b"x" * 12
    path.write_bytes(data)
    return lines


@pytest.mark.parametrize("seq", range(1, 36, 2))
def test_damage_in_the_log_is_read_around_listed_refused_and_salvaged_on_request(tmp_path, seq):
    lines = damaged(tmp_path, seq)
    if lines[-1].event.seq == seq:
        pytest.skip("the last line may be torn")
    rest = [line for line in lines if line.event.seq != seq]
    with opened(tmp_path) as log:
        assert list(log.read()) == rest
        (gap,) = log.gaps()
        assert (gap.segment, gap.offset, gap.first, gap.last) == (
            lines[seq - 1].segment,
            lines[seq - 1].offset,
            seq,
            seq,
        )
        for line in rest:
            assert log.line(line.event.seq) == line
        assert log.line(seq) is None
        with pytest.raises(CorruptError, match="repair --salvage"):
            log.append([draft("next")])
    report = verify_log(tmp_path, "demo")
    first = report.problems[0]
    assert (first.segment, first.offset) == (f"{gap.segment:08d}.jsonl", gap.offset)
    before = {path.name: path.read_bytes() for path in (tmp_path / "log").glob("*.jsonl")}
    with pytest.raises(CorruptError):
        repair_log(tmp_path, "demo", clock=clock)
    done = repair_log(tmp_path, "demo", clock=clock, salvage=True)
    assert [event.data["case"] for event in done.events] == ["salvaged"] * len(done.events)
    assert {(e.data["segment"], e.data["offset"]) for e in done.events} >= {
        (gap.segment, gap.offset)
    }
    for name, data in before.items():
        assert (tmp_path / "log" / name).read_bytes() == data
    with opened(tmp_path) as log:
        log.append([draft("next")])
        events = [line.event for line in log.read()]
        assert [line.event for line in rest] == events[: len(rest)]
        assert own(log.read()) == [*own(rest), "next"]
        assert gap in log.gaps()
    report = verify_log(tmp_path, "demo")
    assert report.ok, report.problems
    assert gap in report.salvaged
    assert repair_log(tmp_path, "demo", clock=clock, salvage=True).events == ()


def test_a_lost_segment_is_a_gap_and_can_be_salvaged(tmp_path):
    damaged(tmp_path, 2)
    (tmp_path / "log" / "00000003.jsonl").unlink()
    with opened(tmp_path) as log:
        events = [line.event.seq for line in log.read()]
        assert events[-1] == max(events)
        assert len(log.gaps()) == 2
        with pytest.raises(CorruptError):
            log.append([draft("next")])
    repair_log(tmp_path, "demo", clock=clock, salvage=True)
    with opened(tmp_path) as log:
        log.append([draft("next")])
        assert own(log.read())[-1] == "next"
    assert verify_log(tmp_path, "demo").ok


def test_repair_makes_a_torn_log_whole_and_reports_it_once(tmp_path):
    raw, _ = written(tmp_path, 5)
    (tmp_path / "log" / SEALED).write_bytes(raw + b'{"seq":7,"id":')
    (problem,) = verify_log(tmp_path, "demo").problems
    assert (problem.segment, problem.offset) == (SEALED, len(raw))
    assert (tmp_path / "log" / SEALED).read_bytes() == raw + b'{"seq":7,"id":'
    (event,) = repair_log(tmp_path, "demo", clock=clock).events
    assert event.data["case"] == "torn"
    assert event.data["bytes"] == 14
    assert quarantined(tmp_path) == [b'{"seq":7,"id":']
    assert repair_log(tmp_path, "demo", clock=clock).events == ()
    assert verify_log(tmp_path, "demo").ok


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_zeroed_and_cut_tails_behind_the_watermark_never_cost_a_durable_event(tmp_path, data):
    raw, lines = written(tmp_path / f"made{next(NUMBERS)}", 8, durability="os")
    durable = max(line.event.dur for line in lines)
    end = next(line.end for line in lines if line.event.seq == durable)
    tail = bytearray(raw[end : data.draw(st.integers(end, len(raw)))])
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(tail)))
        stop = data.draw(st.integers(start, len(tail)))
        tail[start:stop] = bytes(stop - start)
    home = place(tmp_path / "bad", raw[:end] + bytes(tail))
    with opened(home) as log:
        log.append([draft("next")])
        ids = own(log.read())
    assert ids[-1] == "next"
    assert ids[: durable - 1] == own(lines)[: durable - 1]
    assert verify_log(home, "demo").ok


NUMBERS = count()


def test_damage_to_a_synced_line_is_corruption_also_where_each_writer_wrote_one_line(tmp_path):
    """Each process that opens the log for writing syncs what is there, so `dur` moves."""
    ran = """
import sys, memplane
with memplane.open(sys.argv[1]) as plane:
    plane.record(f"line number {sys.argv[2]} of many")
"""
    home = memplane.init(tmp_path / "p").home
    for number in range(4):
        subprocess.run([sys.executable, "-c", ran, str(home), str(number)], check=True)
    file = home / "log" / "00000001.jsonl"
    data = bytearray(file.read_bytes())
    data[data.index(b"number 1")] ^= 1
    file.write_bytes(bytes(data))
    with memplane.open(home) as plane, pytest.raises(memplane.CorruptError):
        plane.record("another")
    assert file.read_bytes() == bytes(data)


def test_the_head_is_the_same_whatever_position_was_asked_about_before(tmp_path):
    _, lines = written(tmp_path, 30)
    with opened(tmp_path, read_only=True) as plain:
        head = plain.head()
    for line in lines:
        position = head._replace(seq=line.event.seq, h=line.event.h, offset=line.end)
        wrong = position._replace(seq=position.seq + 3)
        for asked in (position, wrong):
            with opened(tmp_path, read_only=True) as log:
                assert log.matches(asked)
                assert log.head() == head


def test_damage_right_behind_a_salvaged_gap_is_not_excused_by_it(tmp_path):
    _, lines = written(tmp_path, 12, segment_bytes_max=900)
    path = tmp_path / "log" / SEALED

    def flip(line):
        data = bytearray(path.read_bytes())
        data[line.offset + 30] ^= 1
        path.write_bytes(data)

    flip(lines[2])
    repair_log(tmp_path, "demo", clock=clock, salvage=True)
    assert verify_log(tmp_path, "demo").ok
    flip(lines[3])
    assert not verify_log(tmp_path, "demo").ok
    with opened(tmp_path) as log:
        list(log.read())
        with pytest.raises(CorruptError):
            log.append([draft("more")])
    assert len(repair_log(tmp_path, "demo", clock=clock, salvage=True).events) == 1
    assert verify_log(tmp_path, "demo").ok
    with opened(tmp_path) as log:
        log.append([draft("more")])
        lost = {lines[2].event.id, lines[3].event.id}
        assert own(log.read()) == [
            *(line.event.id for line in lines
              if line.event.kind == "message" and line.event.id not in lost),
            "more",
        ]  # fmt: skip
