"""Sessions over a store that are cut short: cancelled, failed, killed, begun again otherwise."""

import asyncio
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memplane
from memplane.acms import ACMS, ACMSConfig, EpisodeBoundaryConfig, StorageError
from memplane.acms.storage import CachedBackend, InMemoryBackend, SQLiteBackend
from memplane.work.episodes import Role, Turn


async def told(store, session="s"):
    """The session's turns as the store tells a session that begins: (content, seq, episode)."""
    found = []
    for episode in await store.get_episodes(session, limit=1000):
        found += await store.get_turns_by_episode(episode.id)
    return sorted((one.content, one.seq, one.episode_id) for one in found)


def contents(session):
    return [event.text for event in session.plane.events(session="s") if event.kind == "message"]


def dividing(**rules):
    return ACMSConfig(boundaries=EpisodeBoundaryConfig(**rules))


class Watch:
    """A clock that is set by hand."""

    def __init__(self):
        self.at = datetime(2026, 5, 4, tzinfo=UTC)

    def __call__(self):
        return self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_an_episode_that_a_pause_closed_is_the_same_after_a_restart(run):
    async def main():
        store, watch = InMemoryBackend(), Watch()
        for texts in (("a", "b", "after a pause c"), ("d",), ("after a pause e", "f"), ()):
            async with ACMS("s", store) as session:
                session.plane.context.clock = watch
                for text in texts:
                    watch.at += timedelta(hours=9 if "pause" in text else 0, seconds=1)
                    await session.ingest("user", text)
                seen = contents(session)
        async with store:
            return seen, await told(store)

    seen, stored = run(main())
    assert seen == ["a", "b", "after a pause c", "d", "after a pause e", "f"]
    names = {content: name for content, _, name in stored}
    assert names["a"] == names["b"]
    assert names["after a pause c"] == names["d"]
    assert names["after a pause e"] == names["f"]
    assert sorted(seq for _, seq, _ in stored) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("first", "then"), [(10, 3), (3, 10), (None, 2), (2, None)])
def test_no_turn_is_lost_when_a_restart_has_other_rules_of_episodes(run, first, then):
    async def main():
        store = InMemoryBackend()
        await store.initialize()
        for part, most in enumerate((first, then, first, then)):
            async with ACMS("s", store, config=dividing(max_turns=most)) as session:
                for n in range(part * 7, part * 7 + 7 - part):
                    await session.ingest("user", f"turn {n:03}")
                    # A process that is killed now leaves it so.
                    assert f"turn {n:03}" in {one[0] for one in await told(store)}
        async with ACMS("s", store, config=dividing(max_turns=then)) as session:
            return contents(session)

    expected = [f"turn {n:03}" for part in range(4) for n in range(part * 7, part * 7 + 7 - part)]
    assert run(main()) == expected


class Slow(InMemoryBackend):
    """A store that lets others run before and after each row."""

    async def _put(self, *row):
        await asyncio.sleep(0)
        found = await super()._put(*row)
        await asyncio.sleep(0)
        return found


@pytest.mark.parametrize("steps", range(0, 30, 2))
def test_a_turn_whose_caller_gave_up_is_in_both_the_store_and_the_plane_or_in_neither(run, steps):
    async def main():
        store = Slow()
        async with store, ACMS("s", store) as session:
            await session.ingest("user", "before")
            giving_up = asyncio.create_task(session.ingest("user", "given up", turn_id="g"))
            for _ in range(steps):
                await asyncio.sleep(0.0002)
            giving_up.cancel()
            await asyncio.wait([giving_up])
            await session.ingest("user", "behind")
            here, stored = contents(session), await told(store)
            await session.ingest("user", "given up", turn_id="g")
            again = contents(session)
        async with ACMS("s", store) as session:
            return here, stored, again, contents(session)

    here, stored, again, restarted = run(main())
    assert sorted(here) == [one[0] for one in stored]
    assert len({seq for _, seq, _ in stored}) == len(stored)
    assert sorted(again) == ["before", "behind", "given up"]
    assert restarted == again


def test_a_session_that_is_closed_waits_for_the_turns_on_their_way(run):
    async def main():
        store = Slow()
        session = ACMS("s", store)
        await session.ingest("user", "a")
        going = [asyncio.create_task(session.ingest("user", text)) for text in "bc"]
        await asyncio.sleep(0)
        await session.close()
        done = await asyncio.gather(*going, return_exceptions=True)
        async with store:
            return done, await told(store)

    done, stored = run(main())
    assert all(isinstance(one, str) for one in done)
    assert [one[0] for one in stored] == ["a", "b", "c"]


class Cancels(InMemoryBackend):
    """A store whose caller gives up as soon as a row is there."""

    caller = None

    async def save_turn(self, turn):
        await super().save_turn(turn)
        if self.caller is not None:
            asyncio.get_running_loop().call_soon(self.caller.cancel)


def test_a_turn_whose_caller_gave_up_when_the_store_had_it_keeps_its_place(run):
    async def main():
        store = Cancels()
        async with store, ACMS("s", store) as session:
            await session.ingest("user", "a")
            store.caller = asyncio.create_task(session.ingest("user", "b"))
            await asyncio.wait([store.caller])
            store.caller = None
            await session.ingest("user", "c")
            return contents(session), await told(store)

    here, stored = run(main())
    assert here == ["a", "b", "c"]
    assert [one[:2] for one in stored] == [("a", 2), ("b", 3), ("c", 4)]


class LosesAnswers(InMemoryBackend):
    """A store that has a row and says that it failed."""

    fails = False

    async def save_turn(self, turn):
        await super().save_turn(turn)
        if self.fails:
            raise StorageError("the connection broke")


def test_a_turn_that_the_store_has_in_spite_of_its_error_keeps_its_place(run):
    async def main():
        store = LosesAnswers()
        async with store, ACMS("s", store) as session:
            await session.ingest("user", "a")
            store.fails = True
            with pytest.raises(StorageError):
                await session.ingest("user", "b", turn_id="b")
            store.fails = False
            await session.ingest("user", "c")
            assert await session.ingest("user", "b", turn_id="b") == "b"
            here, stored = contents(session), await told(store)
        async with ACMS("s", store) as session:
            return here, stored, contents(session)

    here, stored, restarted = run(main())
    assert here == restarted == ["a", "b", "c"]
    assert [one[:2] for one in stored] == [("a", 2), ("b", 3), ("c", 4)]


@dataclass
class Equal(InMemoryBackend):
    """A store that equals another one, and so has no hash; its opening takes a while."""

    name: str = "x"
    opened: int = 0
    log: list[Any] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    async def _start(self):
        self.opened += 1
        await asyncio.sleep(0)
        self.log.append("opened")

    async def _stop(self):
        await asyncio.sleep(0)
        self.log.append("closed")


def test_sessions_that_begin_and_end_at_once_open_a_store_once_and_close_it_last(run):
    async def main():
        one, other = Equal(), Equal()

        async def session(n):
            async with ACMS(f"s{n}", one if n % 2 else other) as session:
                await session.ingest("user", "x")

        await asyncio.gather(*map(session, range(6)))
        await session(7)
        return one, other

    one, other = run(main())
    assert other.log == ["opened", "closed"]
    assert one.log == ["opened", "closed"] * 2


def test_a_store_below_caches_of_several_sessions_is_closed_with_the_last_of_them(run):
    async def main():
        store = InMemoryBackend()
        one, other = (ACMS(name, CachedBackend(store)) for name in "ab")
        await one.ingest("user", "x")
        await other.ingest("user", "y")
        await one.close()
        await other.ingest("user", "z")
        await other.close()
        return store.is_open

    assert run(main()) is False


ENDS = """
import asyncio
from memplane.acms import ACMS, StorageError
from memplane.acms.storage import SQLiteBackend

async def main():
    try:
        async with ACMS("s", SQLiteBackend("rows.sqlite")):
            pass
    except StorageError as error:
        print(error)

asyncio.run(main())
"""


def test_a_process_that_cannot_open_its_file_ends_with_the_error(tmp_path):
    (tmp_path / "rows.sqlite").write_bytes(b"no database, and no end of it. " * 100)
    done = subprocess.run(
        [sys.executable, "-c", ENDS],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=15,
    )
    assert done.returncode == 0, done.stderr
    assert "not a database" in done.stdout


@pytest.mark.parametrize("flush", ["each", "batched"])
def test_a_save_that_is_cancelled_leaves_the_file_to_other_writers(run, tmp_path, flush):
    def turn(n):
        return Turn(
            id=f"t{n}", session_id="s", episode_id="s/1", role=Role.USER, content="x", seq=n,
            created_at=datetime(2026, 5, 4, tzinfo=UTC), token_count=1,
        )  # fmt: skip

    async def main():
        async with SQLiteBackend(tmp_path / "rows.sqlite", flush=flush) as store:
            other = sqlite3.connect(
                tmp_path / "rows.sqlite", timeout=2, isolation_level=None, check_same_thread=False
            )
            for steps in range(10):
                saving = asyncio.create_task(store.save_turn(turn(steps)))
                for _ in range(steps):
                    await asyncio.sleep(0)
                saving.cancel()
                await asyncio.wait([saving])
                await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            other.close()
            await store.save_turn(turn(99))
            return await store.get_turn("t99")

    assert run(main()) == turn(99)


class Garbles(InMemoryBackend):
    """A store that gives something else than what it was given."""

    def __init__(self, garble):
        super().__init__()
        self.garble = garble

    async def get_turns_by_episode(self, episode_id):
        return self.garble(await super().get_turns_by_episode(episode_id))


@pytest.mark.parametrize(
    "garble",
    [
        lambda _: None,
        lambda turns: [one.to_dict() for one in turns],
        lambda turns: [replace(one, session_id="other") for one in turns],
        lambda turns: [replace(one, content="") for one in turns],
        lambda turns: [replace(one, created_at=one.created_at.replace(tzinfo=None)) for one in turns],
        lambda turns: [*turns, replace(turns[0], content="something else")],
    ],
    ids=("none", "mappings", "of another session", "empty", "no zone", "two of one id"),
)  # fmt: skip
def test_rows_that_are_no_turns_of_the_session_are_a_storage_error(run, garble):
    async def main():
        store = Garbles(lambda turns: turns)
        async with store:
            async with ACMS("s", store) as session:
                await session.ingest("user", "a")
            store.garble = garble
            with pytest.raises(StorageError, match="Garbles: "):
                await ACMS("s", store).recall("a")

    run(main())


@pytest.mark.parametrize("made", ["CREATE TABLE turns (mine TEXT)", "PRAGMA user_version=-3"])
def test_a_database_of_another_program_is_refused_and_left_as_it_was(run, tmp_path, made):
    path = tmp_path / "rows.sqlite"
    with sqlite3.connect(path) as file:
        file.execute(made)
    file.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="of another program"):
        run(SQLiteBackend(path).initialize())
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["rows.sqlite"]


def test_a_session_in_memory_is_a_plane_of_its_own_and_no_folder_of_that_name(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    async def main():
        async with ACMS("s", ":memory:") as one, ACMS("s", ":memory:") as other:
            await one.ingest("user", "a")
            async with memplane.aopen(":memory:") as plane:
                await plane.record(kind="message", role="user", text="b")
            return contents(one), (await other.get_session_stats()).turn_count

    assert run(main()) == (["a"], 0)
    assert not list(tmp_path.iterdir())
