"""Erasing lines in place: the chain holds, nothing of them stays, no interruption leaves a gap."""

import errno
import os
import shutil
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from memplane.errors import CorruptError, PurgedError, WriteError
from memplane.event import Draft, encode
from memplane.log import Disk, FileLog, repair_log, verify_log
from memplane.log.segments import erased_id, tombstone
from memplane.log.writer import blank_bytes
from tests.examples import examples

SECRET = "quagga-4711"
EVENTS = 8


def clock():
    return "2026-01-05T12:00:00.000000Z"


def draft(id_, text="hello", kind="message", data=None):
    fields = {"kind": kind, "text": text} | ({"data": data} if data else {})
    rest = encode(fields)[1:-1].encode()
    return Draft(id_, kind == "message", None, kind, "/global", None, None, None, text, rest)


def purge_of(lines):
    said = {"seqs": list(lines), "ids": list(lines.values()), "documents": [1] * len(lines)}
    return [draft("the-purge", "", "purge", {"purge": said})]


def opened(home, disk=None, **options):
    return FileLog(home, "demo", clock=clock, disk=disk, **options)


def erase(log, *ids):
    lines = {log.find(id_).event.seq: id_ for id_ in ids}
    return log.erase(purge_of(lines), lines, ())


def written(home, **options):
    """A log with a secret in one of its lines; the ids that were acknowledged."""
    with opened(home, durability="os", **options) as log:
        for n in range(EVENTS):
            log.append([draft(f"m{n}", SECRET if n == 3 else f"text {n}")])
    return [f"m{n}" for n in range(EVENTS) if n != 3]


def bytes_below(home):
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


def check_erased(home, kept):
    """All is there but the erased line, in whichever process, and the log goes on."""
    with opened(home) as log:
        log.append([draft("afterwards")])
        stored = [line.event.id for line in log.read() if line.event.kind == "message"]
        assert stored == [*kept, "afterwards"]
        assert log.gaps() == ()
        assert log.find("m3") is None
        assert log.purged_as("m3").by > log.purged_as("m3").seq
        with pytest.raises(PurgedError):
            log.append([draft("m3", SECRET)])
    assert SECRET.encode() not in bytes_below(home)
    report = verify_log(home, "demo")
    assert report.ok, report.problems


def test_an_erased_line_leaves_its_place_its_id_and_the_chain(tmp_path):
    kept = written(tmp_path)
    path = tmp_path / "log" / "00000001.jsonl"
    before = path.read_bytes().splitlines()
    with opened(tmp_path) as log:
        seq = log.find("m3").event.seq
        done = erase(log, "m3")
        assert log.line(seq) is None
        log.erased(done)
    after = path.read_bytes().splitlines()
    assert [len(a) for a in before] == [len(b) for b in after[: len(before)]]
    assert [n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b] == [seq - 1]
    assert after[seq - 1].startswith(b'{"seq":%d,"id":"m3","purged":true,"c":"' % seq)
    assert after[seq - 1].endswith(before[seq - 1][-24:])
    check_erased(tmp_path, kept)


def test_lines_of_sealed_segments_are_erased_and_found_by_the_tables_of_ids(tmp_path):
    kept = written(tmp_path, segment_bytes_max=600)
    with opened(tmp_path, segment_bytes_max=600) as log:
        assert log.head().segment > 3
        log.erased(erase(log, "m3"))
    check_erased(tmp_path, kept)
    shutil.rmtree(tmp_path / "index")  # the tables are made anew from what is left
    with opened(tmp_path) as log, pytest.raises(PurgedError):
        log.append([draft("m3", SECRET)])


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1), st.text(), st.binary(min_size=16, max_size=16))
def test_a_tombstone_fits_any_line_and_no_bit_of_it_can_be_another(id_, text, h):
    h = h.hex()[:16].encode()
    line = encode({"seq": 7, "dur": 3, "id": id_, "ts": clock(), "kind": "message", "text": text})
    raw = line[:-1].encode("utf-8", "surrogatepass") + b',"h":"0123456789abcdef"}'
    made = tombstone(raw, id_, h)
    assert len(made) == len(raw)
    assert erased_id(made, 6, h) == id_
    assert tombstone(made, id_, h) == made
    for at in range(len(made)):
        for bit in range(8):
            other = bytearray(made)
            other[at] ^= 1 << bit
            assert erased_id(bytes(other), 6, h) is None
    assert erased_id(made, 5, h) is None
    assert erased_id(made, 6, b"0" * 15 + b"x") is None


def test_a_forged_tombstone_and_one_whose_purge_was_taken_out_are_noticed(tmp_path):
    written(tmp_path)
    path = tmp_path / "log" / "00000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = tombstone(lines[4][:-1], "m3", lines[3][-19:-3]) + b"\n"
    path.write_bytes(b"".join(lines))
    report = verify_log(tmp_path, "demo")
    assert any("by no purge" in str(problem) for problem in report.problems)


def test_an_overwriting_that_stopped_at_any_byte_is_no_gap_and_is_finished_by_the_next_writer(
    tmp_path,
):
    kept = written(tmp_path / "whole")
    path = tmp_path / "whole" / "log" / "00000001.jsonl"
    whole = path.read_bytes()
    with opened(tmp_path / "whole") as log:
        place = log.find("m3")
        erase(log, "m3")  # not told to be erased everywhere: the note stays
    erased = path.read_bytes()
    # Bytes arrive in any order: the beginning of the new ones and the end of the old, or turned.
    for cut in range(place.offset, place.end, 7):
        for first, second in ((erased, whole + erased[len(whole) :]), (whole, erased)):
            home = tmp_path / "torn"
            shutil.copytree(tmp_path / "whole", home)
            torn = first[:cut] + second[cut : place.end]
            (home / "log" / path.name).write_bytes(torn + erased[place.end :])
            with opened(home, read_only=True) as reading:
                found = [e.event.id for e in reading.read() if e.event.kind == "message"]
                assert [each for each in found if each != "m3"] == kept
                assert reading.gaps() == ()
            check_erased(home, kept)
            shutil.rmtree(home)


class ZeroingDisk(Disk):
    """The power goes while bytes are written over others: zeros are there instead."""

    def overwrite(self, fd, data, offset):
        super().overwrite(fd, bytes(len(data)), offset)
        raise KeyboardInterrupt

    def fdatasync(self, fd):
        os.fstat(fd)


@pytest.mark.parametrize("named", [("m3",), ("m0", "m3"), ("m7",)])
def test_an_overwriting_that_left_zeros_is_finished_by_the_next_writer(tmp_path, named):
    # The hash that a line states is nowhere else: what later lines chain from is never written.
    written(tmp_path, segment_bytes_max=900)
    with opened(tmp_path, ZeroingDisk(), segment_bytes_max=900) as log, suppress(KeyboardInterrupt):
        erase(log, *named)
    with opened(tmp_path, segment_bytes_max=900) as again:
        again.append([])
        ids = [line.event.id for line in again.read() if line.event.kind == "message"]
        assert ids == [f"m{n}" for n in range(EVENTS) if f"m{n}" not in named]
        assert again.gaps() == ()
    assert verify_log(tmp_path, "demo").ok
    assert not (tmp_path / "log" / ".purging").exists()


def test_bytes_between_lines_that_were_left_zeros_are_no_more_damage_than_before(tmp_path):
    written(tmp_path)
    path = tmp_path / "log" / "00000001.jsonl"
    whole = path.read_bytes()
    with opened(tmp_path) as log:
        place, behind = log.find("m3"), log.find("m4")
    harmed = whole[: place.offset + 40] + b"#" + whole[place.offset + 41 :]
    path.write_bytes(harmed)
    with opened(tmp_path) as log, suppress(KeyboardInterrupt):
        hole = (place.segment, place.offset, place.end)
        blank_bytes(log._segments, ZeroingDisk(), [hole])
    assert path.read_bytes()[place.end - 25 :] == whole[place.end - 25 :]
    with opened(tmp_path) as log:
        assert log.line(behind.event.seq) == behind


class FailingDisk(Disk):
    """The k-th call fails as told; counts all calls."""

    def __init__(self, k, fault):
        self.calls, self.k, self.fault = 0, k, fault

    def due(self):
        self.calls += 1
        if self.calls == self.k and self.fault == "die":
            raise KeyboardInterrupt
        return self.calls == self.k

    def fail(self, code=errno.EIO):
        raise OSError(code, os.strerror(code))

    def write(self, fd, data):
        if not self.due():
            return super().write(fd, data)
        return super().write(fd, data[: len(data) // 2]) if self.fault == "short" else self.fail()

    def overwrite(self, fd, data, offset):
        if not self.due():
            return super().overwrite(fd, data, offset)
        if self.fault == "short":
            return super().overwrite(fd, data[: len(data) // 2], offset)
        return self.fail(errno.ENOSPC)

    def fdatasync(self, fd):
        if self.due():
            self.fail()
        os.fstat(fd)

    def replace(self, source, target, home=None):
        if self.due():
            self.fail()
        super().replace(source, target, home)

    def sync_directory(self, path, *_):
        if self.due():
            self.fail()
        os.access(path, os.F_OK)


@pytest.mark.parametrize("fault", ["error", "short", "die"])
def test_whichever_call_fails_or_is_the_last_a_purge_is_whole_or_did_not_happen(tmp_path, fault):
    written(tmp_path / "origin", segment_bytes_max=900)
    kept = [f"m{n}" for n in range(EVENTS) if n != 3]
    k, calls = 0, 1
    while k <= calls:
        home = tmp_path / f"{fault}{k}"
        shutil.copytree(tmp_path / "origin", home)
        disk = FailingDisk(k, fault)
        log = opened(home, disk, segment_bytes_max=900)
        with suppress(WriteError, KeyboardInterrupt):
            log.erased(erase(log, "m3"))
        calls = max(calls, disk.calls)
        with opened(home) as again:
            again.append([])
            happened = again.purged_as("m3") is not None
            ids = [line.event.id for line in again.read() if line.event.kind == "message"]
        if happened:
            check_erased(home, kept)
        else:
            assert ids == [f"m{n}" for n in range(EVENTS)]
            assert verify_log(home, "demo").ok
        assert not (home / "log" / ".purging").exists()
        shutil.rmtree(home)
        k += 1
    assert calls > 8


def test_a_reader_that_has_the_old_lines_in_hand_gives_them_no_more_once_it_met_the_purge(tmp_path):
    written(tmp_path)
    with opened(tmp_path) as reading, opened(tmp_path) as log:
        assert SECRET in [line.event.text for line in reading.read()]
        log.erased(erase(log, "m3"))
        assert SECRET not in [line.event.text for line in reading.read()]
        assert reading.gaps() == ()


def test_a_purge_whose_note_is_lost_is_finished_by_a_repair(tmp_path):
    kept = written(tmp_path)
    path = tmp_path / "log" / "00000001.jsonl"
    before = path.read_bytes()
    with opened(tmp_path) as log:
        erase(log, "m3")
    path.write_bytes(before + path.read_bytes()[len(before) :])  # the overwriting never arrived
    (tmp_path / "log" / ".purging").write_text("{")
    assert any("erased it" in str(one) for one in verify_log(tmp_path, "demo").problems)
    repair_log(tmp_path, "demo", clock=clock)
    check_erased(tmp_path, kept)


def test_the_note_of_a_purge_that_never_began_goes_whatever_the_disk_says(tmp_path):
    class Refusing(Disk):
        def sync_directory(self, path, *_):
            if not path.endswith("/log"):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            super().sync_directory(path, *_)

    written(tmp_path)
    note = tmp_path / "log" / ".purging"
    note.write_text("torn")
    with opened(tmp_path, Refusing()) as log:
        log.append([draft("after")])
    assert not note.exists()


def test_a_disk_that_is_full_before_a_purge_began_says_that_nothing_was_purged(tmp_path):
    written(tmp_path)
    disk = FailingDisk(0, "error")
    with opened(tmp_path, disk) as log:
        lines = {log.find("m3").event.seq: "m3"}
        log.append([])
        disk.calls, disk.k = 0, 1
        with pytest.raises(WriteError, match="nothing was purged"):
            log.erase(purge_of(lines), lines, ())
    assert not (tmp_path / "log" / ".purging").exists()
    assert verify_log(tmp_path, "demo").ok


@settings(
    max_examples=examples(26),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_blanking_what_damage_left_takes_no_line_that_was_believed(tmp_path_factory, data):
    home = tmp_path_factory.mktemp("blank")
    written(home, segment_bytes_max=data.draw(st.sampled_from((700, 4000))))
    with opened(home) as log:
        if data.draw(st.booleans()):
            log.erased(erase(log, "m3"))
    for path in sorted((home / "log").glob("*.jsonl"))[:2]:
        raw = bytearray(path.read_bytes())
        for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(raw)
    with suppress(CorruptError):
        repair_log(home, "demo", clock=clock, salvage=True)
    repair_log(home, "demo", clock=clock, salvage=True)
    problems = len(verify_log(home, "demo").problems)
    with opened(home) as log:
        before = [line.event.id for line in log.read()]
        gaps = [gap[:3] for gap in log.gaps()]
        with log.exclusive() as writer:
            for _ in range(2):  # whoever finishes an interrupted purge does it again
                blank_bytes(writer.segments, writer.disk, gaps)
    with opened(home, read_only=True) as log:
        assert [line.event.id for line in log.read()] == before
    assert len(verify_log(home, "demo").problems) == problems
    for number, start, end in gaps:
        left = (home / "log" / f"{number:08d}.jsonl").read_bytes()[start:end]
        assert b'"text"' not in left


def lost(home):
    """A log in which the line with the secret was lost, as a salvage said; its place, its copy."""
    written(home, segment_bytes_max=600)
    (path,) = (p for p in (home / "log").glob("*.jsonl") if SECRET.encode() in p.read_bytes())
    raw = path.read_bytes()
    at = raw.index(b'text":"%b' % SECRET.encode())
    path.write_bytes(raw[:at] + b"Z" + raw[at + 1 :])
    repair_log(home, "demo", clock=clock, salvage=True)
    with opened(home) as log:
        assert log.find("m3") is None
        list(log.read())
        (gap,) = log.gaps()
    (copy,) = (home / "log" / "quarantine").iterdir()
    assert bytes_below(home).count(SECRET.encode()) == 2
    return gap[:3], f"log/quarantine/{copy.name}"


@pytest.mark.parametrize("fault", ["error", "short", "die"])
def test_bytes_that_are_no_line_are_erased_whichever_call_fails_or_is_the_last(tmp_path, fault):
    hole, copy = lost(tmp_path / "origin")
    said = {"seqs": [], "ids": [], "documents": [], "lost": [{"segment": hole[0]}]}
    k, calls = 0, 1
    while k <= calls:
        home = tmp_path / f"{fault}{k}"
        shutil.copytree(tmp_path / "origin", home)
        disk = FailingDisk(k, fault)
        log = opened(home, disk)
        with suppress(WriteError, KeyboardInterrupt):
            event = draft("the-purge", "", "purge", {"purge": said})
            log.erased(log.erase([event], {}, [copy], [hole]))
        calls = max(calls, disk.calls)
        with opened(home) as again:
            again.append([])
            lines = [line.event for line in again.read()]
        assert [e.id for e in lines if e.kind == "message"] == [
            f"m{n}" for n in range(EVENTS) if n != 3
        ]
        happened = any(event.kind == "purge" for event in lines)
        assert (SECRET.encode() in bytes_below(home)) is not happened
        assert not (home / "log" / ".purging").exists()
        assert verify_log(home, "demo").ok
        shutil.rmtree(home)
        k += 1
    assert calls > 6
