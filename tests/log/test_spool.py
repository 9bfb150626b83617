"""The spool: acknowledged without waiting, taken in once, and never in anybody's way."""

import errno
import json
import os
import re
import stat
import time
from contextlib import suppress
from hashlib import sha256

import pytest

from memplane.errors import InputError, LockError, PlaneError, WriteError
from memplane.event import Draft, encode
from memplane.log import Disk, FileLog, repair, spool, taking, verify
from memplane.log.spool import Spool, spooled


class Ticking:
    """A clock that goes on by a microsecond a call; `at` can be set back."""

    def __init__(self):
        self.at = 0

    def __call__(self):
        self.at += 1
        return f"2026-01-05T12:00:00.{self.at:06d}Z"


def draft(id_, text="hello", *, given=True, ts=None, body=None, data=None, kind="message"):
    fields = {"kind": kind, "role": "user", "text": text}
    if data is not None:
        fields["data"] = data
    rest = encode(fields)[1:-1].encode()
    return Draft(id_, given, ts, kind, "/global", "user", None, None, text, rest, body)


@pytest.fixture
def opened(tmp_path):
    logs = []

    def make(**options):
        options.setdefault("clock", Ticking())
        options.setdefault("lock_wait_ms_max", 200)
        logs.append(FileLog(tmp_path, "demo", **options))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


@pytest.fixture
def busy(opened, tmp_path):
    """Leave drafts in the spool: they come while somebody holds the lock."""
    holder, caller = opened(), opened()

    def leave(*batches):
        with holder.exclusive():
            for drafts in batches:
                assert caller.spool(drafts if isinstance(drafts, list) else [drafts]) is None

    return leave


def files(tmp_path, folder="spool"):
    where = tmp_path / "log" / folder
    return sorted(where.iterdir()) if where.is_dir() else []


def stored(log):
    return [line.event for line in log.read() if line.event.kind != "segment"]


def ids(log):
    return [event.id for event in stored(log)]


# --- leaving and taking in ---


def test_who_must_not_wait_records_where_the_lock_is_free_and_spools_where_it_is_held(
    opened, tmp_path
):
    log, holder = opened(), opened()
    (receipt,) = log.spool([draft("a")])
    assert (receipt.seq, receipt.id) == (2, "a")
    with holder.exclusive():
        assert log.spool([draft("b")]) is None
        assert len(files(tmp_path)) == 1
        with pytest.raises(LockError):
            log.append([draft("c")], wait=False)
    assert ids(log) == ["a"]
    assert log.append([draft("d")])[0].seq == 4
    assert ids(log) == ["a", "b", "d"]
    assert files(tmp_path) == []


def test_another_thread_that_holds_the_lock_is_not_waited_for_either(opened, tmp_path):
    log = opened()
    with log.exclusive():
        assert log.spool([draft("a")]) is None
        with pytest.raises(LockError) as error:
            log.append([draft("b")], wait=False)
    assert error.value.holder == os.getpid()
    log.append([])
    assert ids(log) == ["a"]


def test_a_file_is_the_documented_bytes(busy, tmp_path):
    busy([draft("a"), draft('q"uote', ts="2026-01-01T00:00:00.000000Z")])
    (file,) = files(tmp_path)
    raw = file.read_bytes()
    named = re.fullmatch(r"(\d{20})-(\d+)-[0-9a-f]{16}\.spool", file.name)
    assert (int(named[2]), named[1][:12]) == (len(raw), "202601051200")
    head, first, second, end = raw.splitlines(keepends=True)
    assert json.loads(head) == {"format": 1, "plane": "demo", "events": 2}
    assert json.loads(first) == {
        "id": "a", "ts": json.loads(first)["ts"], "kind": "message", "role": "user", "text": "hello"
    }  # fmt: skip
    assert json.loads(second)["ts"] == "2026-01-01T00:00:00.000000Z"
    assert json.loads(end) == {"sha256": sha256(head + first + second).hexdigest()}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_ts_is_when_it_was_spooled_and_rec_when_it_was_taken_in(opened, busy):
    busy(draft("a"), draft("b", ts="2026-01-01T00:00:00.000000Z"))
    clock = Ticking()
    clock.at = 5000
    log = opened(clock=clock)
    log.append([])
    a, b = stored(log)
    assert a.ts < "2026-01-05T12:00:00.005000Z" < a.rec == b.rec
    assert b.ts == "2026-01-01T00:00:00.000000Z"


def test_a_callers_events_keep_their_order_whatever_the_clock_does(opened, tmp_path):
    clock = Ticking()
    log, holder = opened(clock=clock), opened()
    with holder.exclusive():
        for n in range(6):
            clock.at = 1000 - n
            log.spool([draft(f"m{n}"), draft(f"m{n}b")])
    log.append([draft("z")])
    assert ids(log) == [*(f"m{n}{b}" for n in range(6) for b in ("", "b")), "z"]


def test_a_text_too_large_for_a_line_waits_whole_and_gets_its_body(opened, busy):
    text = "söme text " * 1000
    data = {"body": {"sha256": sha256(text.encode()).hexdigest(), "bytes": len(text.encode())}}
    big = draft("big", text[:100], data=data, body=text.encode())._replace(text=text)
    busy([draft("before"), big, draft("behind")])
    log = opened()
    log.append([])
    assert ids(log) == ["before", "big", "behind"]
    assert log.text(log.find("big").event) == text
    assert log.append([big])[0].duplicate


@pytest.mark.parametrize("taker", ["append", "flush", "close", "repair", "another process's spool"])
def test_whoever_holds_the_lock_next_takes_in_what_waits(opened, busy, tmp_path, taker):
    opened().append([draft("first")])
    busy(draft("a"), draft("b"))
    log = opened()
    if taker == "append":
        log.append([draft("c")])
    elif taker == "flush":
        log.flush()
    elif taker == "close":
        log.close()
    elif taker == "repair":
        repair(tmp_path, "demo", clock=Ticking())
    else:
        assert log.spool([draft("c")])[0].seq == 5
    assert ids(opened(read_only=True))[:3] == ["first", "a", "b"]
    assert files(tmp_path) == []


def test_readers_neither_see_nor_touch_what_waits(opened, busy, tmp_path):
    busy(draft("a"))
    before = [(path.name, path.stat().st_mtime_ns) for path in files(tmp_path)]
    log = opened(read_only=True)
    assert list(log.read()) == []
    log.flush()
    log.close()
    assert [(path.name, path.stat().st_mtime_ns) for path in files(tmp_path)] == before


def test_one_append_takes_in_a_bounded_part_and_the_next_ones_the_rest(
    opened, busy, tmp_path, monkeypatch
):
    monkeypatch.setattr(taking, "FILES_AT_ONCE", 4)
    busy(*(draft(f"m{n}") for n in range(10)))
    log = opened()
    waiting = []
    for n in range(4):
        log.append([draft(f"own{n}")])
        waiting.append(len(files(tmp_path)))
    assert waiting == [6, 2, 0, 0]
    monkeypatch.setattr(taking, "BYTES_AT_ONCE", 1)
    busy(*(draft(f"n{n}") for n in range(3)))
    log.append([draft("own")])
    assert len(files(tmp_path)) == 2
    log.flush()
    assert files(tmp_path) == []
    assert sorted(ids(log)) == sorted(
        [*(f"m{n}" for n in range(10)), *(f"n{n}" for n in range(3)), "own"]
        + [f"own{n}" for n in range(4)]
    )


def test_a_full_spool_refuses_and_says_what_to_do(opened, busy, tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "FILES_MAX", 3)
    busy(*(draft(f"m{n}") for n in range(3)))
    with pytest.raises(WriteError, match=r"3 files wait there.*nothing was spooled.*repair"):
        busy(draft("one more"))
    monkeypatch.setattr(spool, "FILES_MAX", 9)
    monkeypatch.setattr(spool, "BYTES_MAX", 1000)
    with pytest.raises(WriteError):
        busy(draft("long", "x" * 900))
    assert len(files(tmp_path)) == 3


def test_a_draft_that_no_line_can_be_is_not_spooled(busy, tmp_path):
    with pytest.raises(InputError):
        busy(draft("a")._replace(rest=b'"kind":"message"\n'))
    assert files(tmp_path) == []


def test_an_append_looks_at_the_spool_once_and_lists_it_only_after_a_change(
    opened, busy, tmp_path, monkeypatch
):
    log = opened()
    looked, listed = [], []
    stat_, listdir = os.stat, os.listdir

    def count(seen, call):
        def counted(path=".", **more):
            if str(path).endswith("log/spool"):
                seen.append(path)
            return call(path, **more)

        return counted

    monkeypatch.setattr(os, "stat", count(looked, stat_))
    monkeypatch.setattr(os, "listdir", count(listed, listdir))
    for n in range(20):
        log.append([draft(f"m{n}")])
    assert (len(looked), listed) == (20, [])  # there is none
    busy(draft("a"))
    log.append([draft("b")])
    long_ago = time.time_ns() - 10**10
    os.utime(tmp_path / "log" / "spool", ns=(long_ago, long_ago))
    log.append([draft("c")])
    del looked[:], listed[:]
    for n in range(20):
        log.append([draft(f"n{n}")])
    assert (len(looked), listed) == (20, [])


def test_a_file_that_comes_within_a_tick_of_the_folders_clock_is_not_overlooked(
    opened, busy, tmp_path
):
    log = opened()
    folder = tmp_path / "log" / "spool"
    for n in range(5):
        busy(draft(f"m{n}"))
        tick = folder.stat().st_mtime_ns
        log.append([])
        os.utime(folder, ns=(tick, tick))
        log.append([])  # finds it empty, under the time that the next file will have
        busy(draft(f"n{n}"))
        os.utime(folder, ns=(tick, tick))
        log.append([])
        assert files(tmp_path) == []


# --- once ---


def test_what_was_taken_in_and_not_removed_is_a_repeat(opened, busy, tmp_path):
    busy([draft("given"), draft("01KE68AHX0S9HNAPC8C6XVDB1V", given=False)])
    (file,) = files(tmp_path)
    raw = file.read_bytes()
    log = opened()
    log.append([])
    for each in (log, opened()):
        file.write_bytes(raw)
        each.append([])
        assert ids(each) == ["given", "01KE68AHX0S9HNAPC8C6XVDB1V"]
        assert files(tmp_path) == []


def test_the_same_event_spooled_twice_is_recorded_once(opened, busy, tmp_path):
    busy(draft("a"), draft("a"), [draft("b"), draft("a"), draft("b")])
    log = opened()
    log.append([])
    assert ids(log) == ["a", "b"]
    assert files(tmp_path) == files(tmp_path, "quarantine") == []


class FailingDisk(Disk):
    """The k-th call fails, or is the last thing that happens; counts all calls."""

    def __init__(self, k, how):
        self.calls, self.k, self.how = 0, k, how

    def due(self):
        self.calls += 1
        if self.how == "dies" and self.calls >= self.k:
            raise KilledError
        if self.calls == self.k:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write(self, fd, data):
        self.due()
        return super().write(fd, data)

    def fdatasync(self, fd):
        self.due()
        os.fstat(fd)

    def ftruncate(self, fd, size):
        self.due()
        super().ftruncate(fd, size)

    def replace(self, source, target):
        self.due()
        super().replace(source, target)

    def sync_directory(self, path):
        self.due()
        os.access(path, os.F_OK)


class KilledError(BaseException):
    """The process ends here: no call of the disk comes behind it."""


@pytest.mark.parametrize("how", ["fails", "dies"])
def test_whichever_call_ends_it_what_was_spooled_is_in_the_log_once(tmp_path, how):
    text = "long " * 2000
    data = {"body": {"sha256": sha256(text.encode()).hexdigest(), "bytes": len(text)}}
    big = draft("big", "long", data=data, body=text.encode())._replace(text=text)
    k, worked = 0, False
    while not worked:
        k += 1
        home = tmp_path / str(k)
        home.mkdir()
        acknowledged, disk = [], FailingDisk(k, how)
        with FileLog(home, "demo", clock=Ticking()) as log:
            log.append([draft("first")])
        holder = FileLog(home, "demo", clock=Ticking())
        log = FileLog(home, "demo", clock=Ticking(), disk=disk, segment_bytes_max=900)
        with suppress(WriteError, KilledError):
            with holder.exclusive():
                for drafts in ([draft("a"), draft("b")], [draft("a", "other")], [big]):
                    with suppress(WriteError):
                        assert log.spool(drafts) is None
                        acknowledged += drafts
            for n in range(2):
                own = draft(f"own{n}")
                log.append([own])
                acknowledged.append(own)
            worked = disk.calls < k
        with suppress(PlaneError, KilledError):
            log.close()
        holder.close()
        with FileLog(home, "demo", clock=Ticking()) as log:
            log.append([draft("afterwards")])
            found = {event.id: log.text(event) for event in stored(log)}
            assert len(found) == len(ids(log))
            aside = b"".join(path.read_bytes() for path in files(home, "quarantine"))
            for one in acknowledged:  # that of another's id is in quarantine, and nothing else is
                text = found.get(one.id)
                assert text == one.text or (one.id == "a" and one.text.encode() in aside)
            assert files(home) == [] or all(path.suffix == ".new" for path in files(home))
        assert verify(home, "demo").ok
    assert k > 20


# --- what is no good ---


def torn(tmp_path, folder, path):
    Spool(str(tmp_path), "demo", Disk()).put([draft("torn")], Ticking()())
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-30])


def edited(tmp_path, folder, path):
    Spool(str(tmp_path), "demo", Disk()).put([draft("edited")], Ticking()())
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))


def of_another_plane(tmp_path, folder, path):
    Spool(str(tmp_path), "other", Disk()).put([draft("foreign")], Ticking()())


def of_the_logs_own_kind(tmp_path, folder, path):
    Spool(str(tmp_path), "demo", Disk()).put([draft("own", kind="purge")], Ticking()())


def folder_there(tmp_path, folder, path):
    path.mkdir(parents=True)


def link_there(tmp_path, folder, path):
    (tmp_path / "elsewhere").write_text("not for the log")
    folder.mkdir(parents=True)
    path.symlink_to(tmp_path / "elsewhere")


def pipe_there(tmp_path, folder, path):
    folder.mkdir(parents=True)
    os.mkfifo(path)


def notes_there(tmp_path, folder, path):
    folder.mkdir(parents=True)
    (folder / "notes \udcff.txt").write_text("things to do")


def zeros(tmp_path, folder, path):
    folder.mkdir(parents=True)
    path.write_bytes(bytes(4096))


def nothing(tmp_path, folder, path):
    folder.mkdir(parents=True)
    path.write_bytes(b"")


FAULTS = {
    torn: "torn", edited: "checksum", of_another_plane: "another plane",
    of_the_logs_own_kind: "only the log writes", folder_there: "not a file",
    link_there: "not a file", pipe_there: "not a file", notes_there: "torn", zeros: "torn",
    nothing: "torn",
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_file_of_this_spool_is_set_aside_and_told_and_stops_nobody(
    opened, busy, tmp_path, fault
):
    folder, words = tmp_path / "log" / "spool", FAULTS[fault]
    fault(tmp_path, folder, folder / f"20260105120000000009-99-{'0' * 16}.spool")
    (path,) = folder.iterdir()
    raw = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    (told,) = spooled(str(tmp_path), "demo")
    assert (told.name, told.drafts) == (path.name, ())
    assert words in told.fault
    busy(draft("good"))
    log = opened()
    log.append([draft("own")])
    assert sorted(each for each in ids(log) if not each.startswith("repair")) == ["good", "own"]
    (event,) = [event for event in stored(log) if event.kind == "repair"]
    (kept,) = files(tmp_path, "quarantine")
    assert event.data["case"] == "spool"
    assert event.data["quarantine"] == kept.name
    assert words in event.data["what"]
    if raw:
        assert kept.read_bytes() == raw
    (note,) = log.waiting.notes
    assert (note.name, note.kept) == (path.name, kept.name)
    assert files(tmp_path) == spooled(str(tmp_path), "demo") == []
    assert verify(tmp_path, "demo").ok


def test_no_cut_and_no_flipped_bit_of_a_file_passes_for_what_was_spooled(busy, tmp_path):
    busy([draft("a"), draft("b", "two")])
    (file,) = files(tmp_path)
    raw = file.read_bytes()
    reader = Spool(str(tmp_path), "demo", Disk())
    assert [one.id for one in reader.read(file.name).drafts] == ["a", "b"]
    damaged = [raw[:cut] for cut in range(len(raw))]
    damaged += [raw[cut:] for cut in range(1, len(raw))]
    damaged += [raw + bytes([each]) for each in range(256)]
    damaged += [
        raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
        for at in range(len(raw))
        for bit in range(8)
    ]
    for each in damaged:
        file.write_bytes(each)
        found = reader.read(file.name)
        assert found.fault
        assert found.drafts == ()


def test_an_id_that_is_another_events_is_kept_in_quarantine_with_the_rest_recorded(
    opened, busy, tmp_path
):
    log = opened()
    log.append([draft("taken")])
    busy(draft("before"), [draft("x"), draft("taken", "other"), draft("y")], draft("behind"))
    name, raw = files(tmp_path)[1].name, files(tmp_path)[1].read_bytes()
    log.append([draft("own")])
    found = [each for each in ids(log) if not each.startswith("repair")]
    assert found == ["taken", "before", "x", "y", "behind", "own"]
    (kept,) = files(tmp_path, "quarantine")
    assert kept.read_bytes() == raw
    (told,) = [event for event in stored(log) if event.kind == "repair"]
    assert "'taken' is taken by another event, seq 2" in told.data["what"]
    kept.rename(tmp_path / "log" / "spool" / name)  # tried again, nothing comes twice
    log.append([])
    assert len(ids(log)) == 7
    assert len(files(tmp_path, "quarantine")) == 1


def test_a_repeat_of_an_event_whose_text_is_lost_stops_nobody(opened, busy, tmp_path):
    text = "long " * 2000
    digest = sha256(text.encode()).hexdigest()
    data = {"body": {"sha256": digest, "bytes": len(text)}}
    big = draft("big", "long", data=data, body=text.encode())._replace(text=text)

    def same(event, one):
        return log.text(event) == one.text

    log = opened(same=same)
    log.append([big])
    busy([draft("x"), big._replace(body=None, text="long")])
    (tmp_path / "bodies" / "sha256" / digest[:2] / digest[2:]).unlink()
    log.append([draft("own")])
    assert [each for each in ids(log) if not each.startswith("repair")] == ["big", "x", "own"]
    assert "cannot be read" in log.waiting.notes[0].what


def test_a_log_that_refuses_writers_loses_nothing_that_waits(opened, busy, tmp_path):
    log = opened()
    for n in range(5):
        log.append([draft(f"m{n}")])
    log.close()
    busy(draft("a"))
    segment = tmp_path / "log" / "00000001.jsonl"
    raw = bytearray(segment.read_bytes())
    raw[raw.index(b'"m1"') + 1] ^= 4
    segment.write_bytes(raw)
    fresh = opened()
    with pytest.raises(PlaneError):
        fresh.append([])
    fresh.flush()
    fresh.close()
    assert len(files(tmp_path)) == 1
    repair(tmp_path, "demo", clock=Ticking(), salvage=True)
    assert ids(opened())[-1] == "a"
    assert files(tmp_path) == []


def test_a_disk_that_refuses_to_spool_acknowledges_nothing(opened, tmp_path):
    class Full(Disk):
        def fdatasync(self, fd):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(fd))

    holder, log = opened(), opened(disk=Full())
    with holder.exclusive(), pytest.raises(WriteError, match=r"No space left.*nothing was spooled"):
        log.spool([draft("a")])
    assert files(tmp_path) == []
