"""The cache file of the memories: harmed, lost, locked, shared or killed, the answers stay the same."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest
from builders_journal import Journal

import memplane
from memplane.index.storage import alone
from memplane.projections.memories import Memories, stated_sum
from memplane.projections.projector import encode_checkpoint, read_checkpoint
from tests.examples import paired
from tests.projections.test_checkpoint import in_process
from tests.projections.test_ledger import forget
from tests.projections.test_memories import KEYED, opened


def rewritten(query):
    def harm(path):
        connection = sqlite3.connect(path)
        connection.execute(query)
        connection.commit()
        connection.close()

    return harm


def overwrite(start, data):
    def harm(path):
        with path.open("r+b") as file:
            file.seek(start)
            file.write(data)

    return harm


FAULTS = {
    "deleted": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "torn": lambda path: os.truncate(path, 10_000),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "zeroed behind its header": overwrite(4096, bytes(24_000)),
    "junk behind its header": overwrite(8192, b"\xa5" * 16_000),
    "no database": lambda path: path.write_bytes(b"not ours" * 1000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "another version": rewritten("UPDATE checkpoint SET version=99"),
    "another plane": rewritten("UPDATE checkpoint SET plane='elsewhere'"),
    "ahead of the log": rewritten("UPDATE checkpoint SET seq=9999"),
    "another history": rewritten("UPDATE checkpoint SET h='0123456789abcdef'"),
    "no checkpoint": rewritten("DELETE FROM checkpoint"),
    "a checkpoint of another form": rewritten("UPDATE checkpoint SET seq='x'"),
    "no table": rewritten("DROP TABLE memories"),
    "no acts": rewritten("DROP TABLE acts"),
}


@pytest.mark.parametrize(("fault", "while_open"), paired(FAULTS, [True, False], 2))
def test_a_file_that_is_harmed_or_lost_at_any_time_is_folded_again_and_replaced(
    tmp_path, fault, while_open
):
    journal = Journal([*KEYED, forget(session="s1")])
    truth = opened(journal)
    memories = opened(journal, tmp_path)
    assert memories.save()
    if not while_open:
        memories.close()
    FAULTS[fault](tmp_path / "cache.sqlite")
    if not while_open:
        memories = opened(journal, tmp_path)
    assert memories.keys(limit=99) == truth.keys(limit=99)
    assert [memories.current("/global", f"k{n:02}") for n in range(40)] == [
        truth.current("/global", f"k{n:02}") for n in range(40)
    ]
    journal.extend([*KEYED[:50], forget(key="k01")])
    memories.catch_up()
    assert memories.save()
    memories.close()
    again = opened(journal, tmp_path)
    assert again.dump() == opened(journal).dump()
    again.close()


def test_a_file_that_a_stranger_locks_is_answered_from_the_log(tmp_path):
    journal = Journal(KEYED)
    memories = opened(journal, tmp_path)
    assert memories.save()
    stranger = sqlite3.connect(tmp_path / "cache.sqlite", isolation_level=None)
    stranger.execute("BEGIN EXCLUSIVE")
    assert memories.keys(limit=99) == opened(journal).keys(limit=99)
    late = opened(journal, tmp_path)
    assert late.dump() == opened(journal).dump()
    stranger.close()
    assert late.save()
    assert memories.save()
    memories.close()
    late.close()


def test_nothing_is_written_while_another_holds_the_lock_and_a_home_that_cannot_be_written_is_no_error(
    tmp_path,
):
    journal = Journal(KEYED)
    memories = opened(journal, tmp_path)
    with alone(tmp_path):
        assert not memories.save()
    assert memories.save()
    memories.close()
    (tmp_path / "file").write_bytes(b"")
    for folder in (None, tmp_path / "file", tmp_path / "no" / "where"):
        elsewhere = opened(journal, folder)
        assert not elsewhere.save()
        assert elsewhere.dump() == opened(journal).dump()


def test_a_slower_process_neither_sees_nor_undoes_what_a_faster_one_saved(tmp_path):
    journal = Journal(KEYED[:100])
    slow = opened(journal, tmp_path)
    assert slow.save()
    before = slow.dump()
    journal.extend([*KEYED[100:], forget(source="src")])
    fast = opened(journal, tmp_path)
    assert fast.save()
    assert slow.dump() == before
    assert len(slow.keys(limit=99)) == 40
    assert slow.catch_up() == 201
    assert slow.keys() == []
    assert slow.save()
    assert slow.dump() == fast.dump() == opened(journal).dump()
    slow.close()
    fast.close()


def test_a_log_that_was_cut_and_went_on_replaces_the_file(tmp_path):
    journal = Journal(KEYED)
    memories = opened(journal, tmp_path)
    assert memories.save()
    journal.cut(120)
    journal.extend([{"key": "k01"}, forget(key="k02")])
    memories.catch_up()
    assert memories.dump() == opened(journal).dump()
    assert memories.save()
    memories.close()
    again = Memories(journal, tmp_path, plane="plane")
    assert again.catch_up() == 0
    assert again.dump() == opened(journal).dump()
    again.close()


def saved(folder, journal):
    memories = opened(journal, folder)
    assert memories.save()
    memories.close()
    return folder / "cache.sqlite"


def test_a_copy_is_believed_wherever_it_lies(tmp_path):
    journal = Journal([*KEYED, forget(session="s1")])
    kept = saved(tmp_path, journal)
    (tmp_path / "copy").mkdir()
    shutil.copy(kept, tmp_path / "copy")
    copy = Memories(journal, tmp_path / "copy", plane="plane")
    assert copy.catch_up() == 0
    assert copy.dump() == opened(journal).dump()
    copy.close()


@pytest.mark.parametrize("beside", [True, False], ids=["acts kept beside it", "alone"])
def test_a_file_patched_together_of_two_states_is_not_believed_wherever_the_seam_is(
    tmp_path, beside
):
    """A copy may be taken page by page, with a commit in between, or an older one half replaced."""
    journal = Journal(KEYED)
    before = saved(tmp_path, journal).read_bytes()
    journal.extend([*KEYED[:150], forget(key="k01")])
    path = saved(tmp_path, journal)
    behind = path.read_bytes()
    truth = opened(journal).dump()
    for seam in range(4096, max(len(before), len(behind)), 4096):
        for patched in (before[:seam] + behind[seam:], behind[:seam] + before[seam:]):
            if patched in (before, behind):
                continue
            path.write_bytes(patched)
            if not beside:
                (tmp_path / "cache.acts").unlink(missing_ok=True)
            again = Memories(journal, tmp_path, plane="plane")
            # With the sum that the acts know, it is found out when it is opened.
            assert again.catch_up() == journal.head().seq or (
                beside and patched[:100] == behind[:100]
            )
            assert again.dump() == truth
            again.close()


def test_whoever_reads_the_file_goes_on_with_what_it_opened_and_a_backup_of_it_stays(tmp_path):
    journal = Journal(KEYED)
    path = saved(tmp_path, journal)
    os.link(path, tmp_path / "backup")
    before = path.read_bytes()
    reader = opened(journal, tmp_path)
    journal.extend([{"key": "k01"}])
    saved(tmp_path, journal)
    assert (tmp_path / "backup").read_bytes() == before != path.read_bytes()
    assert len(reader.keys(limit=99)) == 40
    reader.close()


def test_a_forked_child_answers_without_the_connection_of_its_parent(tmp_path):
    journal = Journal(KEYED)
    memories = opened(journal, tmp_path)
    assert memories.save()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if len(memories.keys(limit=99)) == 40 and journal.passes == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(memories.keys(limit=99)) == 40
    memories.close()


def test_processes_that_save_at_once_lose_nothing(tmp_path):
    processes = [in_process("save", tmp_path) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert in_process("check", tmp_path).wait() == 0


@pytest.mark.parametrize(
    "waits", [(400, 550), pytest.param((350, 450, 600), marks=pytest.mark.long)]
)
def test_a_process_killed_at_any_moment_leaves_nothing_that_is_believed_wrongly(tmp_path, waits):
    for wait_ms in waits:
        process = in_process("save", tmp_path)
        time.sleep(wait_ms / 1000)
        process.kill()
        process.wait()
        assert in_process("look", tmp_path).wait() == 0
    assert in_process("check", tmp_path).wait() == 0


def test_without_sqlite_a_plane_is_folded_from_its_log(tmp_path):
    """Some builds of Python have none: nothing is kept there, and every answer is the same."""
    script = """
import sys
sys.modules["sqlite3"] = None
import memplane
with memplane.open(sys.argv[1]) as plane:
    plane.record("We move to SQLite", kind="decision", key="db")
    print(plane.get("db").text, len(plane.history("db")), plane.pack("database").text.count("SQLite"))
"""
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        for number in range(70):
            plane.record(f"We keep {number}", kind="decision", key="db")
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "plane")], capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("We move to SQLite 71 ")


def test_a_file_whose_acts_are_kept_is_opened_when_a_value_is_asked_for(tmp_path):
    journal = Journal([*KEYED, forget(session="s1")])
    saved(tmp_path, journal)
    truth = opened(journal)
    memories = opened(journal, tmp_path)
    assert memories._cache._open is None
    assert memories.forgets() == truth.forgets()
    assert memories._cache._open is None
    assert memories.keys(limit=99) == truth.keys(limit=99)
    assert memories._cache._open is not None
    memories.close()


def test_another_file_in_the_place_of_one_not_yet_opened_is_read_or_folded_again(tmp_path):
    journal = Journal(KEYED)
    older = saved(tmp_path, journal).read_bytes()
    journal.extend([*KEYED[:50], forget(key="k01")])
    path = saved(tmp_path, journal)
    behind, ahead = opened(journal, tmp_path), opened(journal, tmp_path)
    path.write_bytes(older)
    truth = opened(journal).dump()
    assert behind.dump() == truth
    at = journal.head().seq
    journal.extend([{"key": "k01", "text": "later"}])
    path.unlink()
    saved(tmp_path, journal)
    assert ahead.current("/global", "k01", upto=at) == opened(journal).current(
        "/global", "k01", upto=at
    )
    assert ahead._base is not None  # of the file that goes further
    assert ahead.catch_up() == 1
    assert ahead.dump() == opened(journal).dump()
    behind.close()
    ahead.close()


@pytest.mark.parametrize(
    "state", [b"{}", b"[]", b'{"sum":"","acts":[]}', b'{"sum":5,"acts":[[1]]}', b"nothing", b"9"]
)
def test_acts_of_another_form_are_not_believed(tmp_path, state):
    journal = Journal([*KEYED, forget(session="s1")])
    saved(tmp_path, journal)
    beside = tmp_path / "cache.acts"
    kept = read_checkpoint(beside)
    beside.write_bytes(encode_checkpoint(kept._replace(state=state)))
    memories = opened(journal, tmp_path)
    assert memories.dump() == opened(journal).dump()
    memories.close()


ACT = ["key", "/global", "k01", 3, 0, 0, "2026-01-05T10:00:00.000000Z", 0, "one"]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, ["a"]), (1, None), (2, {}), (3, "x"), (3, None), (3, 10**9), (3, -1), (6, 5), (7, "y"), (8, 8)],
)  # fmt: skip
def test_acts_with_the_sum_of_the_file_and_of_other_types_are_not_believed(tmp_path, at, value):
    journal = Journal([*KEYED, forget(session="s1")])
    path = saved(tmp_path, journal)
    beside = tmp_path / "cache.acts"
    kept = read_checkpoint(beside)
    act = [*ACT[:at], value, *ACT[at + 1 :]]
    state = json.dumps({"sum": stated_sum(path).hex(), "acts": [act]}).encode()
    beside.write_bytes(encode_checkpoint(kept._replace(state=state)))
    memories = opened(journal, tmp_path)
    assert memories.dump() == opened(journal).dump()
    memories.close()


def test_a_file_that_was_harmed_behind_the_sum_that_the_acts_know_is_replaced(tmp_path):
    journal = Journal([*KEYED, forget(session="s1")])
    path = saved(tmp_path, journal)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4096])
    memories = opened(journal, tmp_path)
    assert memories.keys(limit=99) == opened(journal).keys(limit=99)
    assert memories.unsaved >= journal.head().seq  # who saves what is much to fold saves this
    assert memories.save()
    memories.close()
    assert path.read_bytes() == whole
