"""The spool where something fails: nothing is lost, nothing comes twice, nobody is stopped."""

import errno
import os
from contextlib import suppress
from functools import partial
from hashlib import sha256

import pytest
from builders_damaged_logs import FailingDisk
from fakes_clock import Ticking, draft, files, ids, stored

from memplane.errors import PlaneError, WriteError
from memplane.log import Disk, FileLog, repair_log, verify_log
from memplane.log.spool import Spool, spooled


@pytest.fixture
def opened(opened):
    """Nobody here waits long for the lock."""
    return partial(opened, lock_wait_ms_max=200)


class KilledError(BaseException):
    """The process ends here: no call of the disk comes behind it."""


@pytest.mark.parametrize(
    ("error", "dies"),
    [(OSError(errno.EIO, "no"), False), (KilledError(), True)],
    ids=["fails", "dies"],
)
def test_whichever_call_ends_it_what_was_spooled_is_in_the_log_once(tmp_path, error, dies):
    text = "long " * 2000
    data = {"body": {"sha256": sha256(text.encode()).hexdigest(), "bytes": len(text)}}
    big = draft("big", "long", data=data, body=text.encode())._replace(text=text)
    k, worked = 0, False
    while not worked:
        k += 1
        home = tmp_path / str(k)
        home.mkdir()
        acknowledged, disk = [], FailingDisk(k, error, lasts=dies)
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
        assert verify_log(home, "demo").ok
    assert k > 20


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
    assert verify_log(tmp_path, "demo").ok


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
    repair_log(tmp_path, "demo", clock=Ticking(), salvage=True)
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
