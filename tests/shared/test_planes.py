"""Planes that follow one shared log, as programs and people use them: an engine in this process."""

import json
import os
import subprocess
import sys

import pytest
from builders_machines import PLANE, Ticking, begun, draft, follower, written

import memplane
from memplane.errors import ConflictError, HomeError, InputError, NotFoundError, SharedLogError
from memplane.home import SharedLogWarning, open_home, shared_name
from memplane.hook.run import HookLog
from memplane.shared import follower as connect
from memplane.shared.apply import MemorySharedLog
from memplane.wiring import init_shared


@pytest.fixture
def engine(monkeypatch):
    """Shared logs by name, in this process, where an address begins with `here://`."""
    logs = {}

    def shared_log_of(shared, environment):
        assert environment[shared.address] == "here://"
        found = logs.setdefault(shared.name, MemorySharedLog(Ticking()))
        if logs.get("away"):
            raise SharedLogError("the engine is away")
        return found

    monkeypatch.setattr(connect, "shared_log_of", shared_log_of)
    monkeypatch.setenv("MEMPLANE_SHARED", "here://")
    return logs


def test_two_planes_give_equal_blocks_for_what_either_records(tmp_path, engine):
    with (
        init_shared(tmp_path / "a", "team") as a,
        init_shared(tmp_path / "b", "team", join=True) as b,
    ):
        assert a.id == b.id
        a.record("We keep PostgreSQL", kind="decision", key="db.engine")
        b.record("We deploy on Fridays", kind="rule", key="deploy")
        asked = {"budget": 500, "now": "2026-11-26T12:00:00Z"}
        a.context.log.exchange()
        blocks = [plane.pack("how do we deploy?", **asked) for plane in (a, b)]
        assert blocks[0].text == blocks[1].text
        assert "Fridays" in blocks[0].text
        assert blocks[0].report["shared"] == {"behind": 0, "waiting": 0, "fault": ""}
        assert a.get("deploy").text == "We deploy on Fridays"
        b.forget(key="deploy")
        a.context.log.exchange()
        assert a.get("deploy") is None
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_while_the_engine_is_away_receipts_say_that_the_event_waits(tmp_path, engine):
    with init_shared(tmp_path / "a", "team") as a:
        a.record("before")
    engine["away"] = True
    with memplane.open(tmp_path / "a") as a:
        with pytest.warns(SharedLogWarning, match="away"):
            receipt = a.record("my key is sk-ant-api03-" + "x" * 80)
        assert (receipt.seq, receipt.durability) == (0, "outbox")
        assert "redacted" in receipt.event.text
        assert a.record_many([{"text": "one"}, {"text": "two"}]).count == 2
        block = a.pack("before")
        assert block.report["shared"]["waiting"] == 2
        assert "away" in block.report["shared"]["fault"]
        with pytest.raises(SharedLogError):
            a.upkeep.purge(2)
    del engine["away"]
    with memplane.open(tmp_path / "a") as a:
        a.context.log.exchange()
        assert [event.text for event in a.events(kind="message")][2:] == ["one", "two"]


def test_a_hook_leaves_its_events_in_the_outbox_and_a_full_process_publishes_them(tmp_path, engine):
    with init_shared(tmp_path / "a", "team"):
        pass
    log = HookLog(open_home(tmp_path / "a"), Ticking(), {})
    log.record([{"kind": "message", "role": "user", "text": "said to the agent", "session": "s1"}])
    log.close()
    assert not log.faults
    assert engine["team"].head() == 1
    with memplane.open(tmp_path / "a") as a:
        assert "said to the agent" in a.pack("what was said?", session="s1").text
    with init_shared(tmp_path / "b", "team", join=True) as b:
        assert [event.text for event in b.events(session="s1")] == ["said to the agent"]


def test_an_export_of_a_plane_comes_into_a_shared_one(tmp_path, engine):
    with memplane.init(tmp_path / "old") as old:
        old.record("We keep PostgreSQL", kind="decision", key="db.engine")
        old.upkeep.export(tmp_path / "export.jsonl")
    with init_shared(tmp_path / "a", "team"):
        pass
    memplane.restore(tmp_path / "export.jsonl", tmp_path / "a")
    with init_shared(tmp_path / "b", "team", join=True) as b:
        assert b.get("db.engine").text == "We keep PostgreSQL"


def test_an_artifact_is_there_on_the_other_machine(tmp_path, engine):
    (tmp_path / "report.md").write_text("# Herons\n\nThey stand still.\n")
    with (
        init_shared(tmp_path / "a", "team") as a,
        init_shared(tmp_path / "b", "team", join=True) as b,
    ):
        added = a.work.artifacts.add(tmp_path / "report.md", "what herons do")
        assert b.get("none") is None
        out = tmp_path / "copy.md"
        b.work.artifacts.export(added.facts.handle, out)
        assert out.read_text() == "# Herons\n\nThey stand still.\n"


def test_names_and_addresses_that_cannot_be_are_refused_and_nothing_is_made(tmp_path, engine):
    for name in ("", "Team", "a b", "../x", "x" * 41, "-x"):
        with pytest.raises(InputError):
            init_shared(tmp_path / "a", name)
    for address in ("DATABASE_URL", "MEMPLANE_SHARED; rm", "memplane_shared", ""):
        with pytest.raises(InputError):
            init_shared(tmp_path / "a", "team", address=address)
    with pytest.raises(NotFoundError, match="init --shared"):
        init_shared(tmp_path / "a", "team", join=True)
    assert not (tmp_path / "a").exists()
    init_shared(tmp_path / "a", "team").close()
    with pytest.raises(ConflictError, match="memplane join"):
        init_shared(tmp_path / "b", "team")
    with pytest.raises(HomeError, match="a plane is here already"):
        init_shared(tmp_path / "a", "other")
    assert not (tmp_path / "b").exists()


def test_a_strangers_plane_cannot_name_another_programs_variable(tmp_path, engine):
    init_shared(tmp_path / "a", "team").close()
    path = tmp_path / "a" / "plane.json"
    said = json.loads(path.read_text())
    assert said["shared"] == {"name": "team", "address": "MEMPLANE_SHARED"}
    for shared in ({"name": "team", "address": "DATABASE_URL"}, {"name": "team"}, [], "x"):
        path.write_text(json.dumps({**said, "shared": shared}))
        with pytest.raises(HomeError, match="shared"):
            open_home(tmp_path / "a")
    with pytest.raises(InputError):
        shared_name("team", "PGPASSWORD")


def test_who_can_only_read_reads_what_is_here(tmp_path, engine):
    with init_shared(tmp_path / "a", "team") as a:
        a.record("We keep PostgreSQL", kind="decision", key="db.engine")
    engine["away"] = True
    with memplane.open(tmp_path / "a", read_only=True) as a:
        assert a.get("db.engine").text == "We keep PostgreSQL"
        assert "PostgreSQL" in a.at(a.head().seq).pack("which database?").text


def test_lost_entries_are_refilled_and_those_of_others_come_before_them(tmp_path):
    engine = begun()
    a, b = (follower(tmp_path / name, engine) for name in "ab")
    a.append([draft(f"m{n}") for n in range(6)])
    b.exchange()
    del engine._entries[4:]  # m3 and later
    late = follower(tmp_path / "c", engine)
    late.append([draft("other")])
    done = a.refill()
    assert (done.published, done.derived) == (3, True)
    assert b.refill().published == 0
    late.exchange()
    for log in (a, b, late):
        found = [line.event.id for line in log.read() if line.event.kind != "segment"]
        assert found == ["m0", "m1", "m2", "other", "m3", "m4", "m5"]
        log.close()
    assert written(tmp_path / "a") == written(tmp_path / "b") == written(tmp_path / "c")


def test_a_refill_without_others_changes_no_byte(tmp_path):
    engine = begun()
    a, b = (follower(tmp_path / name, engine) for name in "ab")
    a.append(
        [draft(f"m{n}", ts="2026-01-01T00:00:00.000000Z" if n % 2 else None) for n in range(6)]
    )
    b.exchange()
    before = written(tmp_path / "a")
    del engine._entries[4:]
    assert a.refill().published == 3
    b.exchange()
    late = follower(tmp_path / "c", engine)
    late.exchange()
    assert before == written(tmp_path / "a") == written(tmp_path / "b") == written(tmp_path / "c")
    for log in (a, b, late):
        log.close()


def test_two_logs_of_one_engine_are_seen_by_their_notes(tmp_path):
    engine = begun()
    a = follower(tmp_path / "a", engine, device="one")
    a.append([draft("m1")])
    a.notes()
    b = follower(tmp_path / "b", engine, device="two")
    b.exchange()
    assert not [fault for fault in b.faults() if "another line" in fault]
    engine.put_note("one", json.dumps({"seq": 2, "h": "0" * 16}).encode())
    assert [fault for fault in b.faults() if fault.startswith("one: its log has another line")]
    for log in (a, b):
        log.close()


def test_a_long_batch_is_published_in_steps_that_an_engine_takes(tmp_path):
    engine = begun()
    steps = []
    publish = engine.publish
    engine.publish = lambda entries, **more: steps.append(len(entries)) or publish(entries, **more)
    with follower(tmp_path / "a", engine) as a:
        done = a.append([draft(f"m{n}") for n in range(1_500)])
        assert [one.seq for one in done] == list(range(2, 1_502))
    assert max(steps) <= 400


def test_a_closed_log_leaves_no_thread_and_a_fork_uses_no_connection_of_its_parent(tmp_path):
    program = f"""
import os, sys, threading, time
sys.path.insert(0, {str(__import__("pathlib").Path(__file__).parent)!r})
from pathlib import Path
from builders_machines import begun, draft, follower
engine = begun()
log = follower(Path({str(tmp_path)!r}) / "a", engine)
log.append([draft("m1")])
pid = os.fork()
if not pid:
    log.append([draft("m2")])
    os._exit(0 if log.find("m2") else 1)
assert os.waitpid(pid, 0)[1] == 0
log.close()
for _ in range(200):
    if threading.active_count() == 1:
        break
    time.sleep(0.05)
assert threading.active_count() == 1, threading.enumerate()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
        check=False, env={**os.environ}, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert PLANE
