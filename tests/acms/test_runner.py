"""Group commit: few syncs for many tasks, and no id that was returned is ever lost."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import memplane
from memplane.acms import ACMS, ACMSConfig, runner as runner_module, session as session_module
from memplane.context.context import PlaneContext
from memplane.errors import ConflictError, HomeError, InputError, WriteError
from memplane.log import FileLog, disk as log_disk
from tests.examples import sampled

OS = ACMSConfig(durability="os")


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as made:
        yield made


@pytest.fixture
def syncs(monkeypatch):
    """How often the log was synced."""
    count = []
    real = log_disk.Disk.fdatasync

    def counted(self, fd):
        count.append(fd)
        real(self, fd)

    monkeypatch.setattr(log_disk.Disk, "fdatasync", counted)
    return count


def run(main):
    return asyncio.run(asyncio.wait_for(main, 180))


def test_a_hundred_sessions_that_ingest_at_once_share_a_few_syncs(plane, syncs):
    """A2-93, G1: 100 concurrent ingests make fewer than 20 syncs; each gets its own id."""

    async def main():
        sessions = [ACMS(f"s{n}", plane) for n in range(100)]
        await sessions[0].ingest("user", "first")
        del syncs[:]
        ids = await asyncio.gather(
            *(session.ingest("user", f"turn of {n}") for n, session in enumerate(sessions))
        )
        made = len(syncs)
        for session in sessions:
            await session.close()
        return ids, made

    ids, made = run(main())
    assert made < 20
    assert len(set(ids)) == 100
    for n, id_ in enumerate(ids):
        assert (plane.event(id_).session, plane.event(id_).text) == (f"s{n}", f"turn of {n}")


def test_one_mistake_is_its_callers_alone(plane):
    async def main():
        async with memplane.aopen(plane) as shared:
            return await asyncio.gather(
                shared.record("one", id="a"),
                shared.record("two", kind="nonsense"),
                shared.record("three"),
                shared.record("other", id="a"),
                shared.record("one", id="a"),
                return_exceptions=True,
            )

    first, second, third, fourth, fifth = run(main())
    assert first.seq
    assert third.seq
    assert isinstance(second, InputError)
    assert isinstance(fourth, ConflictError)
    assert (fifth.seq, fifth.duplicate) == (first.seq, True)


def test_where_the_disk_refuses_each_caller_gets_the_error(plane, monkeypatch):
    async def main():
        async with memplane.aopen(plane) as shared:
            first = await shared.record("first")

            def full(self, fd, data):
                raise OSError(28, "no space left")

            with monkeypatch.context() as patch:
                patch.setattr(log_disk.Disk, "write", full)
                found = await asyncio.gather(
                    *(shared.record(f"turn {n}") for n in range(5)), return_exceptions=True
                )
            after = await shared.record("again")
            return found, after.seq - first.seq

    found, after = run(main())
    assert {type(one) for one in found} == {WriteError}
    assert after == 1


def test_cancelling_one_caller_leaves_the_others_and_loses_no_returned_id(plane):
    """A2-93: cancelled at any point; a retry with the same turn_id stores nothing twice."""

    async def main():
        rng = random.Random(3)
        returned = []

        async def ingest(session, n):
            returned.append((n, await session.ingest("user", f"turn {n}", turn_id=f"t{n}")))

        async with ACMS("s", plane) as session:
            tasks = []
            for n in range(200):
                tasks.append(asyncio.create_task(ingest(session, n)))
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.choice([0, 0, 0.0005]))
                if rng.random() < 0.4:
                    rng.choice(tasks).cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            gave_up = [n for n, one in enumerate(done) if isinstance(one, asyncio.CancelledError)]
            assert not [one for one in done if isinstance(one, Exception)]
            for n in gave_up:
                await session.ingest("user", f"turn {n}", turn_id=f"t{n}")
        return returned, gave_up

    returned, gave_up = run(main())
    assert gave_up
    stored = [event.id for event in plane.events(session="s")]
    assert sorted(stored) == sorted(f"t{n}" for n in range(200))
    assert {id_ for _, id_ in returned} <= set(stored)


@pytest.mark.parametrize("after", sampled([1, 7, 150, 40], 2))
def test_a_process_that_is_killed_has_lost_no_id_that_it_returned(tmp_path, after):
    """A2-04, A2-92: kill -9 at any point; what ingest returned is in the log."""
    child = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "process_ingest.py", tmp_path / "notes"],
        stdout=subprocess.PIPE,
        text=True,
    )
    told = [child.stdout.readline().strip() for _ in range(after)]
    child.send_signal(signal.SIGKILL)
    told += [
        line.strip()
        for line in child.stdout.read().splitlines(keepends=True)
        if line.endswith("\n")
    ]
    child.wait()
    child.stdout.close()
    with memplane.open(tmp_path / "notes", environment={}) as plane:
        stored = {event.id for event in plane.events()}
    assert len(told) >= after
    assert set(told) <= stored


@pytest.mark.parametrize(
    ("sessions_used", "calls"), [(30, 300), pytest.param(100, 1_000, marks=pytest.mark.long)]
)
def test_no_call_of_a_plane_runs_on_the_loop(tmp_path, monkeypatch, sessions_used, calls):
    """A2-03, G1: random ingests and recalls of many sessions; the loop only waits."""
    where = set()

    def noted(owner, name):
        real = getattr(owner, name)

        def call(*args, **named):
            where.add(threading.get_ident())
            return real(*args, **named)

        monkeypatch.setattr(owner, name, call)

    noted(FileLog, "append")
    noted(PlaneContext, "drafting")
    noted(PlaneContext, "caught_up")
    noted(PlaneContext, "close")
    noted(os, "open")

    async def main():
        rng = random.Random(11)
        sessions = [ACMS(f"s{n}", tmp_path / "notes", config=OS) for n in range(sessions_used)]
        where.clear()

        async def work(n):
            session = sessions[n % sessions_used]
            if rng.random() < 0.6:
                text = rng.choice(["herons", "Goal: boats", "thanks"])
                await session.ingest("user", f"{text} {n}")
            elif rng.random() < 0.9:
                await session.recall("herons and boats", token_budget=rng.randint(20, 900))
            else:
                await session.get_session_stats()

        await asyncio.gather(*(work(n) for n in range(calls)))
        for session in sessions:
            await session.close()
        return threading.get_ident()

    loop_thread = run(main())
    assert where
    assert loop_thread not in where


def test_sessions_of_one_folder_share_one_plane_and_the_last_closes_it(tmp_path):
    async def main():
        first, second = ACMS("a", tmp_path / "notes"), ACMS("b", tmp_path / "notes")
        await first.ingest("user", "hello")
        await second.ingest("user", "hello")
        assert first.plane is second.plane
        await first.close()
        assert not second.plane.context.closed
        plane = second.plane
        await second.close()
        return plane

    assert run(main()).context.closed


def test_a_plane_with_an_event_loop_does_what_a_plane_does(tmp_path):
    """Record, record_many, pack, search, get, recall; a session ends on an exception, too."""

    memplane.init(tmp_path / "notes", trusted=False).close()

    async def main():
        async with memplane.aopen(tmp_path / "notes") as plane:
            await plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
            await plane.record_many([{"text": f"row {n}", "session": "s"} for n in range(3)])
            assert (await plane.get("db.engine")).text == "We keep PostgreSQL"
            assert [one.event.key for one in await plane.search("PostgreSQL")] == ["db.engine"]
            block = await plane.pack("which database do we keep?", budget=500)
            assert "PostgreSQL" in str(block)
            assert block.budget_remaining == 500 - block.tokens
            assert len((await plane.recall("row", session="s")).items) == 3
            async with plane.session(goal="mend the parser", agent="ann") as session:
                receipt = await session.record("The parser drops commas", role="user")
                assert receipt.event.session == session.id
            with pytest.raises(ZeroDivisionError):
                async with plane.session("broken"):
                    raise ZeroDivisionError
            return [plane.plane.work.sessions.get(name) for name in (session.id, "broken")]

    done, broken = run(main())
    assert (done.status, done.reason) == ("ended", "explicit")
    assert (broken.status, broken.reason, broken.summary) == ("ended", "error", None)


def test_a_folder_without_a_plane_is_not_made_one_by_opening_it(tmp_path):
    async def main():
        with pytest.raises(HomeError):
            await memplane.aopen(tmp_path / "nothing").start()
        made = memplane.aopen(tmp_path)
        with pytest.raises(HomeError):
            await made.record("not open")

    run(main())
    assert list(tmp_path.iterdir()) == []


def computing(monkeypatch):
    """The most calls of recall and append that ran at the same time."""
    running, most, lock = [], [0], threading.Lock()

    def counted(owner, name):
        real = getattr(owner, name)

        def call(*args, **named):
            with lock:
                running.append(name)
                most[0] = max(most[0], len(running))
            try:
                return real(*args, **named)
            finally:
                with lock:
                    running.remove(name)

        monkeypatch.setattr(owner, name, call)

    counted(session_module, "recall_plane")
    counted(runner_module, "write_each")
    return most


def test_one_thread_at_a_time_computes_beside_the_loop(plane, monkeypatch):
    """CPython hands its lock to any of the threads that want it: the loop waits for each of them."""
    most = computing(monkeypatch)

    async def main():
        sessions = [ACMS(f"s{n}", plane) for n in range(12)]
        await asyncio.gather(*(one.ingest("user", "herons") for one in sessions))
        await asyncio.gather(
            *(one.recall("herons") for one in sessions for _ in range(3)),
            *(one.ingest("user", f"turn {n}") for one in sessions for n in range(3)),
        )
        for one in sessions:
            await one.close()

    run(main())
    assert most == [1]


def test_the_loop_starts_no_thread_and_makes_no_hop_for_a_plane_that_is_held(plane, monkeypatch):
    """A thread's start waits until it runs, which is long beside a busy one."""
    started = []
    real = threading.Thread.start

    def noted(thread):
        started.append((threading.get_ident(), thread.name))
        real(thread)

    async def main():
        first = ACMS("first", plane)
        await first.ingest("user", "hello")
        monkeypatch.setattr(threading.Thread, "start", noted)
        sessions = [ACMS(f"s{n}", plane) for n in range(20)]
        await asyncio.gather(*(one.ingest("user", "herons") for one in sessions))
        await asyncio.gather(*(one.recall("herons") for one in sessions))
        for one in sessions:
            await one.close()
        assert not plane.context.closed
        await first.recall("herons")
        monkeypatch.undo()
        await first.close()

    run(main())
    assert started == []


def test_a_write_goes_before_the_reads_that_wait_and_reads_go_between_writes(plane):
    async def main():
        done = []
        async with memplane.aopen(plane) as shared:
            held = shared.held
            begun, go = threading.Event(), threading.Event()

            def wait():
                begun.set()
                go.wait(20)

            first = asyncio.create_task(held.reading(wait))
            await asyncio.to_thread(begun.wait, 20)
            tasks = [asyncio.create_task(held.reading(done.append, f"read {n}")) for n in range(3)]
            tasks += [
                asyncio.create_task(held.writing(partial(done.append, f"write {n}")))
                for n in range(2)
            ]
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(first, *tasks)
        return done

    assert run(main()) == ["write 0", "read 0", "write 1", "read 1", "read 2"]


def test_who_gives_up_before_his_turn_is_passed_over_and_others_go_on(plane):
    async def main():
        done = []
        async with memplane.aopen(plane) as shared:
            begun, go = threading.Event(), threading.Event()

            def wait():
                begun.set()
                go.wait(20)

            first = asyncio.create_task(shared.held.reading(wait))
            await asyncio.to_thread(begun.wait, 20)
            gone = asyncio.create_task(shared.held.reading(done.append, "gone"))
            kept = asyncio.create_task(shared.held.reading(done.append, "kept"))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(first, kept)
            with pytest.raises(asyncio.CancelledError):
                await gone
        return done

    assert run(main()) == ["kept"]


def test_after_the_last_has_let_go_a_call_is_refused_by_name(plane):
    async def main():
        shared = memplane.aopen(plane)
        await shared.start()
        held = shared.held
        await shared.close()
        for call in (held.reading(bool), held.writing(bool), held.aside(bool)):
            with pytest.raises(HomeError, match="closed meanwhile"):
                await call

    run(main())


def test_who_is_cancelled_while_a_plane_opens_or_closes_holds_nothing(tmp_path, monkeypatch):
    """A2-15: the last who uses a plane closes it, whatever was cancelled before."""
    real = runner_module.wiring.init

    def slow(*args, **named):
        time.sleep(0.05)
        return real(*args, **named)

    monkeypatch.setattr(runner_module.wiring, "init", slow)

    async def main():
        planes = []
        session = ACMS("s", tmp_path / "notes", config=OS)
        for steps in (1, 2, 5):
            opening = asyncio.create_task(session.ingest("user", "hello"))
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        await session.ingest("user", "hello again")
        planes.append(session.plane)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        for _ in range(200):
            if not runner_module._OF_PATHS:
                break
            await asyncio.sleep(0.02)
        return planes, len(runner_module._OF_PATHS)

    (plane,), left = run(main())
    assert left == 0
    assert plane.context.closed


def test_a_call_that_raises_what_no_future_holds_is_an_error_and_not_a_wait(plane):
    def none():
        return next(iter(()))

    async def main():
        async with memplane.aopen(plane) as shared:
            for call in (shared.held.reading(none), shared.held.aside(none)):
                with pytest.raises(RuntimeError, match="StopIteration"):
                    await asyncio.wait_for(call, 20)

    run(main())


def test_a_block_that_is_cancelled_or_times_out_ends_its_session(plane):
    """T-44: exception-safe, whatever ends it."""

    async def main():
        async with memplane.aopen(plane) as shared:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2), shared.session("late"):
                    await asyncio.sleep(60)
            begun = asyncio.Event()

            async def work():
                async with shared.session("gone"):
                    begun.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await begun.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return [shared.plane.work.sessions.get(name) for name in ("late", "gone")]

    assert {(one.status, one.reason) for one in run(main())} == {("ended", "error")}


def test_while_calls_run_the_lock_changes_hands_sooner_and_afterwards_as_before(plane):
    before, seen = sys.getswitchinterval(), []

    def look(*_):
        seen.append(sys.getswitchinterval())
        raise InputError("it fails")

    async def main():
        async with memplane.aopen(plane) as shared:
            for _ in range(2):
                with pytest.raises(InputError):
                    await shared.run(look)
            await asyncio.gather(*(shared.record(f"turn {n}") for n in range(20)))

    run(main())
    assert seen == [pytest.approx(0.001, abs=2e-6)] * 2
    assert sys.getswitchinterval() == pytest.approx(before, abs=2e-6)


def test_a_program_that_sets_the_interval_itself_keeps_it(plane):
    before = sys.getswitchinterval()

    async def main(seconds):
        async with memplane.aopen(plane) as shared:
            await shared.run(lambda _: sys.setswitchinterval(seconds))
            assert sys.getswitchinterval() == pytest.approx(seconds, abs=2e-6)
            await shared.record("a turn")

    try:
        for seconds in (0.0002, 0.02):
            run(main(seconds))
            assert sys.getswitchinterval() == pytest.approx(seconds, abs=2e-6)
    finally:
        sys.setswitchinterval(before)
