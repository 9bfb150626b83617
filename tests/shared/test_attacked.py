"""What a crash, a fork or a hostile entry does to machines that follow one shared log."""

import hashlib
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from builders_machines import PLANE, Ticking, begun, draft, follower, written

from memplane.errors import SharedLogError, WriteError
from memplane.event import encode
from memplane.home import SharedLogWarning
from memplane.log import verify_log
from memplane.shared import follower as connect
from memplane.shared.apply import MemorySharedLog, published
from memplane.wiring import init_shared


def ids(log):
    return [line.event.id for line in log.read() if line.event.kind != "segment"]


def entries(one):
    return list(published(one, lambda _: None))


def purge(named, seqs, id_="p1"):
    said = {"purge": {"seqs": seqs, "ids": named, "documents": [1] * len(named)}}
    return draft(id_, "", kind="purge", data=said)


def test_a_purge_whose_place_was_not_kept_leaves_a_stone_for_who_joins(tmp_path, monkeypatch):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft("m0")])
        engine.publish([*entries(draft("m1", "the secret")), *entries(draft("m2"))])
        engine.publish(entries(purge(["m1"], [3])))
        with monkeypatch.context() as disk:
            disk.setattr("memplane.shared.follower.write_cursor", refused)
            with pytest.raises(WriteError):
                a.exchange()
        a.exchange()
    with closing(follower(tmp_path / "c", engine)) as c:
        c.exchange()
    assert written(tmp_path / "a") == written(tmp_path / "c")
    assert not any(b"the secret" in entry.payload for entry in engine.read(0, 100))


def refused(*_):
    raise WriteError("the disk is full")


def test_an_event_with_a_long_id_stops_no_machine(tmp_path):
    engine = begun()
    engine.publish(entries(draft("x" * 5_000)))
    with closing(follower(tmp_path / "a", engine, publish_ms=10_000)) as a:
        a.exchange()
        [done] = a.append([draft("m1")])
        assert done.seq == 3


class Leaving:
    """An engine that is not reached until `up`, and counts how often it was let go of."""

    def __init__(self, engine):
        self.engine, self.up, self.closed = engine, True, 0

    def __getattr__(self, name):
        if not self.up:
            raise SharedLogError("the engine is not reached")
        return getattr(self.engine, name)

    def close(self):
        self.closed += 1


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("memplane-shared")]


@pytest.mark.filterwarnings("ignore::memplane.home.SharedLogWarning")
@pytest.mark.parametrize("up", [True, False])
def test_who_closes_with_something_in_the_outbox_leaves_no_thread_and_no_connection(tmp_path, up):
    line = Leaving(begun())
    line.up = False
    a = follower(tmp_path / "a", line)
    a.append([draft("m1")])
    line.up = up
    worker = threads()
    a.close()
    for one in worker:
        one.join(5)
    assert not threads()
    assert line.closed == 1
    assert line.engine.head() == (2 if up else 1)


def test_a_child_follows_although_its_parent_was_reading_when_it_forked(tmp_path):
    program = f"""
import os, sys, threading
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from builders_machines import begun, draft, follower
engine, reads, gate = begun(), threading.Event(), threading.Event()
log = follower(Path({str(tmp_path)!r}) / "a", engine, catch_up_ms=500)
log.append([draft("m1")])
read = engine.read
def slow(after, limit):
    reads.set()
    gate.wait(20)
    return read(after, limit)
engine.read = slow
log.follow()
assert reads.wait(5)
pid = os.fork()
if not pid:
    engine.read = read
    from memplane.shared.apply import published
    engine.publish([*published(draft("m2"), lambda _: None)])
    log._looked = float("-inf")
    log.follow()
    os._exit(0 if log.find("m2") else 1)
code = os.waitpid(pid, 0)[1]
gate.set()
log.close()
sys.exit(1 if code else 0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def offline(home, engine, drafts):
    """What a machine records while it does not reach the engine; its receipts have no seq."""
    line = Leaving(engine)
    line.up = False
    with closing(follower(home, line)) as log:
        assert [one.seq for one in log.append(drafts)] == [0] * len(drafts)


@pytest.mark.filterwarnings("ignore::memplane.home.SharedLogWarning")
def test_what_waited_under_an_id_that_another_machine_took_is_kept_and_told(tmp_path):
    engine = begun()
    offline(tmp_path / "a", engine, [draft("x", "said on the train"), draft("y")])
    with closing(follower(tmp_path / "b", engine)) as b:
        b.append([draft("x", "said at home")])
    with closing(follower(tmp_path / "a", engine)) as a:
        with pytest.warns(SharedLogWarning, match="quarantine"):
            a.exchange()
        a.exchange()
        assert ids(a) == ["x", "y"]
        assert not a.status().waiting
        assert engine.head() == 3
    [kept] = (tmp_path / "a" / "log" / "quarantine").iterdir()
    assert b"said on the train" in kept.read_bytes()


@pytest.mark.filterwarnings("ignore::memplane.home.SharedLogWarning")
def test_a_purged_text_that_waited_beside_a_taken_id_is_not_kept(tmp_path):
    engine = begun()
    waiting = [draft("m1", "the secret"), draft("x", "said on the train")]
    offline(tmp_path / "a", engine, waiting)
    with closing(follower(tmp_path / "b", engine)) as b:
        b.append([draft("m1", "the secret"), draft("x", "said at home")])
        b.erase([purge(["m1"], [2])], {2: "m1"}, [])
    with closing(follower(tmp_path / "a", engine)) as a:
        a.exchange()
        a.exchange()
        assert not a.status().waiting
    files = [path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert not any(b"the secret" in data for data in files)
    assert any(b"said on the train" in data for data in files)


def test_a_purge_that_was_refilled_erases_nothing_of_others(tmp_path):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft("m1")])
        a.append([draft("bad", "the secret")])
        a.erase([purge(["bad"], [3])], {3: "bad"}, [])
        del engine._entries[2:]
        with closing(follower(tmp_path / "b", engine)) as b:
            b.append([draft("innocent", "to be kept")])
            a.refill()
            b.exchange()
    with closing(follower(tmp_path / "c", engine)) as c:
        c.exchange()
    for name in "abc":
        with closing(follower(tmp_path / name, engine)) as log:
            for _ in range(2):
                assert ids(log) == ["m1", "innocent", "p1"]
                assert log.purged(3) is None
                assert log.purged_as("bad").by == 5
        assert not verify_log(tmp_path / name, PLANE).problems
    assert written(tmp_path / "a") == written(tmp_path / "b") == written(tmp_path / "c")


@pytest.mark.parametrize("seq", [1, 2, 3, 4, 9])
def test_a_purge_that_names_what_is_not_there_erases_nothing_and_stops_no_machine(tmp_path, seq):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft("m1")])
        header = next(a.read()).event.id
        engine.publish(entries(purge([header if seq == 1 else "other"], [seq])))
        a.append([draft("m3")])
        assert ids(a) == (["m1", "p1", "m3"] if seq < 3 else ["m1", "m3"])
    with closing(follower(tmp_path / "c", engine)) as c:
        c.exchange()
    assert written(tmp_path / "a") == written(tmp_path / "c")


def stone_of(**said):
    usual = {"id": "x", "bytes": 400, "h": "0123456789abcdef", "rec": "2026-01-05T12:00:00.000000Z"}
    return encode({"format": 1, "stone": {**usual, **said}}).encode()


@pytest.mark.parametrize(
    "payload",
    [
        stone_of(bytes=40_000_000),
        stone_of(rec="z" * 27),
        stone_of(rec="2026-02-30T12:00:00.000000Z"),
        stone_of(rec="2026-01-07T12:00:00.000000Z"),  # days behind the engine's clock
        stone_of(rec="9999-12-31T23:59:59.999999Z"),
        b'{"format":1,"rec":"%b","event":{"id":"x","kind":"message","text":"y"}}' % (b"z" * 27),
        b'{"format":1,"event":{"id":"x","ts":"%b","kind":"message","text":"y"}}' % (b"z" * 27),
    ],
)
def test_a_length_or_a_time_that_no_line_has_gives_no_line_and_stops_no_machine(tmp_path, payload):
    engine = begun()
    engine.publish([("x", payload)])
    with closing(follower(tmp_path / "a", engine, segment_bytes=300)) as a:
        a.append([draft(f"m{n}") for n in range(4)])
        assert ids(a) == ["m0", "m1", "m2", "m3"]
    assert max(map(len, written(tmp_path / "a"))) < 1_000


def test_what_was_published_and_could_not_be_written_here_is_answered_and_in_the_log_once(
    tmp_path, monkeypatch
):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft("m1")])
        with monkeypatch.context() as disk:
            disk.setattr(a._writer, "write", refused)
            with pytest.warns(SharedLogWarning, match="the disk is full"):
                [done] = a.append([draft("m2")])
        assert (done.seq, done.id) == (0, "m2")
        a.exchange()
        assert ids(a) == ["m1", "m2"]
        assert not a.status().waiting


def test_an_event_that_came_first_without_its_body_is_erased_and_parts_no_logs(tmp_path):
    engine, body = begun(), b"the secret of the mountain" * 20
    said = {"body": {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}}
    one = draft("m1", body.decode(), data=said, body=body)
    with closing(follower(tmp_path / "a", engine)) as a:
        engine.publish(entries(one)[1:])
        a.append([draft("m0")])
        a.append([one])
        a.erase([purge(["m1"], [3])], {3: "m1"}, [])
    with closing(follower(tmp_path / "c", engine)) as c:
        c.exchange()
    assert written(tmp_path / "a") == written(tmp_path / "c")
    assert not any(b"mountain" in entry.payload for entry in engine.read(0, 100))


@pytest.mark.filterwarnings("ignore::memplane.home.SharedLogWarning")
def test_many_that_wait_are_said_to_wait(tmp_path, monkeypatch):
    line = Leaving(MemorySharedLog(Ticking()))
    monkeypatch.setattr(connect, "shared_log_of", lambda *_: line)
    with init_shared(tmp_path / "a", "team") as a:
        line.up = False
        done = a.record_many([{"text": "one"}, {"text": "two"}])
        assert (done.count, done.first_seq, done.durability) == (2, None, "outbox")
        line.up = True
        assert a.record_many([{"text": "three"}]).durability == "sync"


def test_a_segment_is_durable_before_the_next_one_begins(tmp_path, monkeypatch):
    synced, sealed = set(), []
    with closing(follower(tmp_path / "a", begun(), segment_bytes=500)) as a:
        sync, publish = a._disk.fdatasync, a._disk.publish

        def noted(fd):
            sync(fd)
            synced.add((os.fstat(fd).st_ino, os.fstat(fd).st_size))

        def begins(path, data, home=None):
            if path.endswith(".jsonl"):
                found = [one.stat() for one in (tmp_path / "a" / "log").glob("0*.jsonl")]
                sealed.extend((one.st_ino, one.st_size) for one in found)
                assert set(sealed) <= synced
            publish(path, data, home)

        monkeypatch.setattr(a._disk, "fdatasync", noted)
        monkeypatch.setattr(a._disk, "publish", begins)
        a.append([draft(f"m{n}") for n in range(20)])
    assert sealed


@pytest.mark.parametrize("count", [1, 999, 1_000, 2_500])
def test_pieces_whose_event_never_comes_stop_no_machine(tmp_path, count):
    engine = begun()
    said = {"format": 1, "piece": "0" * 64, "of": "zz", "at": 0, "data": "AAAA"}
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft("m1")])
        engine.publish([("zz", encode(said).encode())] * count)
        a._exchanged(wait=True, seconds=10)
        [done] = a.append([draft("m2")], expected_seq=2)
        assert done.seq == 3
        a.exchange()
    with closing(follower(tmp_path / "c", engine)) as c:
        c.exchange()
    assert written(tmp_path / "a") == written(tmp_path / "c")
