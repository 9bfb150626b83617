"""The spool: acknowledged without waiting, taken in once, and never in anybody's way."""

import json
import os
import re
import stat
import time
from functools import partial
from hashlib import sha256

import pytest
from fakes_clock import Ticking, draft, files, ids, stored

from memplane import nofollow
from memplane.errors import InputError, LockError, WriteError
from memplane.log import log as taking, repair_log, spool


@pytest.fixture
def opened(opened):
    """Nobody here waits long for the lock."""
    return partial(opened, lock_wait_ms_max=200)


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
        repair_log(tmp_path, "demo", clock=Ticking())
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


def test_an_append_looks_at_the_spool_only_after_somebody_else_held_the_lock_or_spooled(
    opened, busy, tmp_path, monkeypatch
):
    log = opened()
    looked, listed = [], []
    lstat, names = os.lstat, nofollow.folder_names

    def count(seen, call):
        def counted(path, *more):
            if str(path).endswith("log/spool"):
                seen.append(path)
            return call(path, *more)

        return counted

    monkeypatch.setattr(os, "lstat", count(looked, lstat))
    monkeypatch.setattr(nofollow, "folder_names", count(listed, names))
    for n in range(20):
        log.append([draft(f"m{n}")])
    assert (len(looked), listed) == (1, [])  # there is none
    busy(draft("a"))
    log.append([draft("b")])
    long_ago = time.time_ns() - 10**10
    os.utime(tmp_path / "log" / "spool", ns=(long_ago, long_ago))
    log.append([draft("c")])
    del looked[:], listed[:]
    for n in range(20):
        log.append([draft(f"n{n}")])
    assert (len(looked), listed) == (0, [])


def test_who_holds_the_lock_again_and_again_learns_of_what_was_spooled_meanwhile(opened):
    log, other = opened(), opened()
    for n in range(5):
        log.append([draft(f"m{n}")])
        with log.exclusive():
            assert other.spool([draft(f"waits{n}")]) is None
        log.append([draft(f"n{n}")])
    found = [line.event.id for line in log.read() if line.event.kind != "segment"]
    assert found == [name for n in range(5) for name in (f"m{n}", f"waits{n}", f"n{n}")]


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
