"""Locks in the hands of another process: caches are gone around, the log says who holds it."""

import subprocess
import sys
from pathlib import Path

import pytest

import memplane
from memplane.errors import LockError

# As memplane itself holds them: the log, a folder of caches, the cache file of the memories.
HOLD = """
import sqlite3, sys, time
from contextlib import ExitStack
from pathlib import Path
from memplane.index.folder import alone
from memplane.log import FileLog
home, held = Path(sys.argv[1]), sys.argv[3:]
with ExitStack() as stack:
    for what in held:
        if what == "log":
            log = stack.enter_context(FileLog(home, sys.argv[2], clock=lambda: ""))
            stack.enter_context(log.exclusive())
        elif what.endswith(".sqlite"):
            stranger = sqlite3.connect(home / what, isolation_level=None)
            stranger.execute("BEGIN EXCLUSIVE")
        else:
            assert stack.enter_context(alone(home / what))
    print("held", flush=True)
    time.sleep(600)
"""
CACHES = ("projections", "index", "projections/cache.sqlite")


@pytest.fixture
def hold():
    started = []

    def hold(plane, *what):
        arguments = [sys.executable, "-c", HOLD, str(plane.home), plane.id, *what]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.stdout.close()
        process.wait()


def fill(home: Path, count: int, start: int = 0) -> None:
    with memplane.open(home) as plane:
        for n in range(start, start + count):
            plane.record(
                f"heron {n} stands in pond {n % 9}", kind="fact", key=f"pond.{n % 9}", session="s"
            )
        plane.pack("which heron stands in pond 3?", intent="deep")


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "p") as plane:
        home = plane.home
    fill(home, 120)
    return home


def answers(plane, upto):
    """What a plane says, for comparison: a pack, a search, a listing."""
    now = "2030-01-01T00:00:00Z"
    hits = plane.search("heron in pond 3", k=5)
    return (
        plane.pack("which heron stands in pond 3?", intent="deep", as_of=upto, now=now).text,
        [(hit.event.seq, hit.score) for hit in hits],
        list(plane.keys("pond.", now=now)),
        plane.get("pond.4", now=now),
    )


@pytest.mark.parametrize("what", [*((one,) for one in CACHES), CACHES])
def test_caches_in_another_process_hands_cost_no_answer_and_no_event(home, hold, what):
    with memplane.open(home) as plane:
        holder = hold(plane, *what)
        for n in range(120, 240):
            plane.record(
                f"heron {n} stands in pond {n % 9}", kind="fact", key=f"pond.{n % 9}", session="s"
            )
        upto = plane.head().seq
        said = answers(plane, upto)
    with memplane.open(home) as again:
        assert answers(again, upto) == said
    holder.kill()
    holder.wait()
    with memplane.open(home) as free:
        assert answers(free, upto) == said
        assert free.differing() == []
        free.rebuild()
        assert answers(free, upto) == said


def test_a_log_in_another_process_hands_stops_writers_alone_and_says_who_holds_it(home, hold):
    policy = home / "policies" / "plane.yaml"
    policy.write_text(policy.read_text().replace("lock_wait_ms_max: 5000", "lock_wait_ms_max: 100"))
    with memplane.open(home) as plane:
        assert plane.policies.plane.lock_wait_ms_max == 100
        upto = plane.head().seq
        said = answers(plane, upto)
        holder = hold(plane, "log")
        for write in (
            lambda: plane.record("x"), lambda: plane.record_many([{"text": "x"}]),
            lambda: plane.forget("pond.3"), lambda: plane.pin(key="pond.3"),
            lambda: plane.tasks.open("t", "goal"), lambda: plane.sessions.start("s9"),
        ):  # fmt: skip
            with pytest.raises(LockError, match=f"held by process {holder.pid}.*end that process"):
                write()
        assert answers(plane, upto) == said
        holder.kill()
        holder.wait()
        assert plane.record("y").seq == upto + 1


def test_an_embedder_in_another_process_is_named(home, hold, monkeypatch):
    monkeypatch.setenv("MEMPLANE_PLANE__INDEX__EMBEDDER", "static")
    with memplane.open(home) as plane:
        holder = hold(plane, "index/dense")
        with pytest.raises(LockError, match=f"process {holder.pid} embeds here") as error:
            plane.embed()
        assert error.value.holder == holder.pid
        holder.kill()
        holder.wait()
        assert plane.embed() > 0
