"""What was acknowledged into the spool comes before whatever is written after it.

Somebody holds the log's lock, another records without waiting (by the library, by command or by a
hook), then an open plane forgets, ends, evicts or purges.
"""

import fcntl
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import memplane
from memplane.adapters.memory_tool import MemoryFiles
from memplane.errors import LockError, NotFoundError
from memplane.log import log, verify_log

SECRET = "Alice lives in Paris, door code quagga-4711"


@pytest.fixture
def plane(tmp_path):
    """A plane that is open, as a server's is, while others record."""
    with memplane.init(tmp_path / "work" / ".memplane") as plane:
        plane.record("the first")
        yield plane


@contextmanager
def locked(plane):
    """The log's lock in a stranger's hands."""
    fd = os.open(plane.home / "log" / ".lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


def spooled(plane, text, **fields):
    """Record from elsewhere, which must not wait; it is acknowledged."""
    with locked(plane), memplane.open(plane.home) as other:
        assert other.work.spool(text, **fields).durability == "spool"
    assert plane.upkeep.waiting == 1


def commanded(plane, text, *more):
    """`spooled` by the command, in a process of its own."""
    command = [sys.executable, "-m", "memplane", "record", text, "--no-wait", *more]
    with locked(plane):
        done = subprocess.run(
            [*command, "--home", plane.home, "--json"], capture_output=True, check=True
        )
    assert json.loads(done.stdout)["durability"] == "spool"


def hooked(plane, prompt):
    """A prompt that a hook records while the lock is held for longer than it waits."""
    said = {
        "hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt_id": "p1",
        "prompt": prompt, "cwd": str(plane.home.parent),
    }  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLAUDE")}
    with locked(plane):
        subprocess.run(
            [sys.executable, "-m", "memplane", "hook", "claude-code"], check=True,
            input=json.dumps(said).encode(), capture_output=True, cwd=plane.home.parent,
            env={**kept, "MEMPLANE_HOME": str(plane.home)},
        )  # fmt: skip
    assert plane.upkeep.waiting == 1


def order(plane):
    """Kinds and texts in the order of the log."""
    return [(event.kind, event.text) for event in plane.events() if event.kind != "segment"]


def shows(plane, words):
    found = [one.event.text for one in plane.search(words)]
    return words in plane.pack("anything else").text or words in found


def test_a_forgotten_key_does_not_come_back_with_what_was_spooled_before(plane):
    plane.record("Alice lives in Berlin", kind="fact", key="alice.home")
    commanded(plane, SECRET, "--kind", "fact", "--key", "alice.home")
    plane.forget("alice.home", reason="user asked")
    assert plane.upkeep.waiting == 0
    plane.record("unrelated")
    assert plane.get("alice.home") is None
    assert not shows(plane, SECRET)
    assert [one.event.text for one in plane.history("alice.home")][-1] == SECRET
    assert verify_log(plane.home, plane.id).ok


def test_a_key_whose_only_value_waits_can_be_forgotten(plane):
    spooled(plane, SECRET, kind="fact", key="alice.home")
    plane.forget("alice.home")
    plane.record("unrelated")
    assert plane.get("alice.home") is None
    assert not shows(plane, SECRET)


@pytest.mark.parametrize("named", ["session", "source", "id"])
def test_what_waits_is_forgotten_by_its_session_its_source_and_its_id(plane, named):
    spooled(plane, SECRET, kind="fact", session="s1", id="notes:1")
    plane.forget(**{named: {"session": "s1", "source": "notes", "id": "notes:1"}[named]})
    plane.record("unrelated")
    assert plane.upkeep.waiting == 0
    assert not shows(plane, SECRET)


def test_what_a_hook_had_to_spool_is_forgotten_with_its_session(plane):
    plane.record("an earlier prompt", role="user", session="s1")
    hooked(plane, SECRET)
    plane.forget(session="s1")
    plane.record("unrelated")
    assert not shows(plane, SECRET)
    event = next(event for event in plane.events() if event.text == SECRET)
    assert plane.work.archived(event)[0] == "forgotten"


@pytest.mark.parametrize("named", ["session", "source", "key"])
def test_a_purge_takes_what_waits(plane, named):
    spooled(plane, SECRET, kind="fact", session="s1", id="notes:1", key="alice.home")
    plane.upkeep.purge(**{named: {"session": "s1", "source": "notes", "key": "alice.home"}[named]})
    plane.close()
    files = [file for file in plane.home.rglob("*") if file.is_file()]
    assert [file for file in files if b"quagga-4711" in file.read_bytes()] == []


def test_a_purge_takes_more_files_than_one_append_takes_in(plane):
    count = log.FILES_AT_ONCE + 5
    with locked(plane), memplane.open(plane.home) as other:
        for n in range(count):
            other.work.spool(f"{SECRET} {n}", session="s1")
    assert len(plane.upkeep.purge(session="s1").events) == count


def test_a_decision_that_waits_is_in_the_summary_of_its_session(plane):
    for n in range(6):
        plane.record(f"a turn {n} about the ledger", role="user", session="s1")
    spooled(plane, "We keep PostgreSQL for the ledger", kind="decision", session="s1")
    plane.work.sessions.end("s1")
    plane.record("unrelated")
    kinds = [kind for kind, _ in order(plane)]
    assert kinds.index("decision") < kinds.index("summary") < kinds.index("session")
    summary = next(text for kind, text in order(plane) if kind == "summary")
    assert "PostgreSQL" in summary


def test_an_eviction_sees_what_waits(plane):
    spooled(plane, SECRET, kind="fact", ts="2020-01-01T00:00:00Z", importance=0.1)
    assert [one.event.text for one in plane.work.evict(0.5).taken] == [SECRET]
    plane.record("unrelated")
    assert not shows(plane, SECRET)


def test_a_file_deleted_by_the_memory_tool_stays_deleted(plane):
    files = MemoryFiles(plane)
    files.run({"command": "create", "path": "/memories/a.md", "file_text": "Berlin"})
    (first,) = [event for event in plane.events() if event.key is not None]
    spooled(plane, SECRET, kind="fact", key=first.key, ns=first.ns)
    files.run({"command": "delete", "path": "/memories/a.md"})
    plane.record("unrelated")
    assert plane.get(first.key, first.ns) is None
    assert not shows(plane, SECRET)


def test_a_pin_by_key_names_the_value_that_was_acknowledged_before_it(plane):
    plane.record("Alice lives in Berlin", kind="fact", key="alice.home")
    spooled(plane, "Alice lives in Rome", kind="fact", key="alice.home", id="rome")
    plane.pin(key="alice.home")
    assert plane.work.standing(plane.event("rome")).pinned


def test_more_files_than_one_append_takes_in_come_before_a_forget(plane):
    plane.record("Alice lives in Berlin", kind="fact", key="alice.home")
    count = 2 * log.FILES_AT_ONCE + 5
    with locked(plane), memplane.open(plane.home) as other:
        for n in range(count):
            other.work.spool(f"{SECRET} {n}", kind="fact", key="alice.home")
    assert plane.upkeep.waiting == count
    plane.forget("alice.home")
    assert plane.upkeep.waiting == 0
    plane.record("unrelated")
    assert plane.get("alice.home") is None


def test_others_who_spool_at_every_try_do_not_hold_a_forget_up(plane, monkeypatch):
    """The head moves before each try: after some of them it is written behind what waits then."""
    plane.record("Alice lives in Berlin", kind="fact", key="alice.home")
    append, tries = plane.context.log.append, []
    with memplane.open(plane.home) as other:

        def crowded(drafts, **more):
            tries.append(len(drafts))
            if drafts:
                with locked(plane):
                    other.work.spool(f"noise {len(tries)}", kind="fact", key="alice.home")
            return append(drafts, **more)

        monkeypatch.setattr(plane.context.log, "append", crowded)
        plane.forget("alice.home")
    assert len(tries) < 10
    monkeypatch.undo()
    plane.record("unrelated")
    assert plane.get("alice.home") is None


def test_a_spooled_file_that_cannot_be_taken_in_stops_no_forget(plane):
    plane.record("Alice lives in Berlin", kind="fact", key="alice.home")
    folder = plane.home / "log" / "spool"
    folder.mkdir(exist_ok=True)
    (folder / "20260101000000000000-3-0123456789abcdef.spool").write_bytes(b"bad")
    plane.forget("alice.home")
    assert plane.get("alice.home") is None


def test_nothing_is_forgotten_where_the_lock_cannot_be_had(tmp_path):
    home = tmp_path / "p"
    with memplane.init(home) as made:
        (made.home / "policies" / "plane.yaml").write_text(
            "version: 1\nlog: {lock_wait_ms_max: 50}\n"
        )
    with memplane.open(home) as plane:
        plane.record("Alice lives in Berlin", kind="fact", key="alice.home")
        spooled(plane, SECRET, kind="fact", key="alice.home")
        with locked(plane), pytest.raises(LockError):
            plane.forget("alice.home")
        assert plane.get("alice.home").text == "Alice lives in Berlin"
        with pytest.raises(NotFoundError):
            plane.forget("nothing")
        assert plane.get("alice.home").text == SECRET
