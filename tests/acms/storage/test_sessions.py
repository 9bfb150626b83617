"""Sessions of `ACMS` over a store: the store is the truth, and a restart finds all of it."""

import asyncio
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

import memplane
from memplane.acms import ACMS, ACMSConfig, ConfigurationError, Fact, StorageError
from memplane.acms.storage import (
    InMemoryBackend,
    PlaneBackend,
    PostgresBackend,
    SQLiteBackend,
    StorageBackend,
)
from memplane.errors import ConflictError
from memplane.work.episodes import PlaneEpisodes

SECRET = "AKIA" + "Q3EGTZ7XKJ2M4NPR"
QUERIES = ("which port does the parser use?", "constraint about the cache", "turn 3 of the invoice")


def text(n):
    if n % 11 == 0:
        return f"Constraint: the cache of part {n} keeps at most {n} rows."
    if n % 13 == 0:
        return f"Thanks, part {n} is done."
    return f"Turn {n} of the invoice: the parser of part {n % 7} uses port {8000 + n}."


async def ingest(session, numbers):
    return [
        await session.ingest(("user", "assistant", "tool")[n % 3 if n % 9 == 2 else n % 2], text(n),
                             turn_id=f"t{n:03}", metadata={"n": n})
        for n in numbers
    ]  # fmt: skip


def episodes_of(session):
    return PlaneEpisodes(session.plane.context, session.config.rules())


def shown(items):
    return [
        (one.id, one.source, one.content, one.markers, one.episode_id, one.score) for one in items
    ]


def test_66_turns_over_three_restarts_are_recalled_as_from_a_plane_on_files(run, make, tmp_path):
    async def main():
        answers = {}
        for storage in ("store", "plane"):
            given = (lambda: tmp_path / "plane") if storage == "plane" else make
            for part in range(3):
                async with ACMS("s", given()) as session:
                    await ingest(session, range(part * 22, part * 22 + 22))
            async with ACMS("s", given()) as session:
                found = [
                    [one[:4] for one in shown(await session.recall(query, token_budget=900))]
                    for query in QUERIES
                ]
                stats = await session.get_session_stats()
                answers[storage] = found, stats.turn_count, stats.marker_counts, stats.turns_by_role
        return answers

    answers = run(main())
    assert answers["store"] == answers["plane"]
    assert answers["store"][1] == 66


def test_ids_of_episodes_are_the_same_after_a_restart_also_of_those_closed_by_hand(run, make):
    async def main():
        async with ACMS("s", make()) as session:
            await ingest(session, range(1, 4))
            closed = await session.close_episode("by hand")
            await ingest(session, range(4, 12))
            before = await everything(session)
        async with ACMS("s", make()) as session:
            after = await everything(session)
            await ingest(session, range(14, 16))
            grown = await everything(session)
        return closed, before, after, grown

    async def everything(session):
        await session.recall("x")
        return [
            (one.id, str(one.status), one.turn_ids, one.close_reason)
            for one in episodes_of(session).list("s", limit=1000)
        ]

    closed, before, after, grown = run(main())
    assert after == before
    assert {one[0]: one[3] for one in before}[closed] == "by hand"
    assert [one[0] for one in grown[: len(before)]] == [one[0] for one in before]


def test_the_store_has_turns_redacted_with_their_markers_episode_and_place(run, make):
    async def main():
        async with make() as store:
            async with ACMS("s", store) as session:
                first = await session.ingest(
                    "user", f"Constraint: never say {SECRET}", actor_id="ann"
                )
                second = await session.ingest("assistant", "Noted.")
            one, other = await store.get_turn(first), await store.get_turn(second)
            episodes = await store.get_episodes("s")
            return one, other, episodes, await store.get_turns_by_episode(one.episode_id)

    one, other, episodes, listed = run(main())
    assert SECRET not in one.content
    assert one.content.startswith("Constraint: never say ")
    assert (one.actor_id, one.markers, str(one.role)) == ("ann", ("constraint",), "user")
    assert one.episode_id == other.episode_id == episodes[0].id == f"s/{one.seq}"
    assert other.seq == one.seq + 1
    assert [turn.id for turn in listed] == [one.id, other.id]
    assert one.token_count > 0
    assert one.created_at.tzinfo is not None


def test_a_closed_episode_is_stored_with_its_turns_and_reason(run, make):
    async def main():
        async with make() as store, ACMS("s", store) as session:
            ids = await ingest(session, range(1, 14))
            stored = {one.id: one for one in await store.get_episodes("s", status="closed")}
            own = [one for one in episodes_of(session).list("s") if one.close_reason]
            return ids, stored, own

    ids, stored, own = run(main())
    assert own
    assert {one.id: one for one in own} == stored
    assert [id_ for one in own for id_ in one.turn_ids] == ids[
        : sum(len(one.turn_ids) for one in own)
    ]


def test_a_repeat_is_stored_once_and_another_turn_under_its_id_nowhere(run, make):
    async def main():
        async with make() as store, ACMS("s", store) as session:
            for _ in range(3):
                await session.ingest("user", "Once.", turn_id="a")
            with pytest.raises(ConflictError):
                await session.ingest("user", "Twice.", turn_id="a")
            stats = await session.get_session_stats()
            return stats.turn_count, (await store.get_turn("a")).content

    assert run(main()) == (1, "Once.")


def test_sessions_share_a_store_and_see_nothing_of_each_other(run, make):
    async def main():
        store = make()
        async with ACMS("ann", store) as ann, ACMS("bob", store) as bob:
            await asyncio.gather(*(ann.ingest("user", f"Ann's wish {n}") for n in range(8)))
            await asyncio.gather(*(bob.ingest("user", f"Bob's wish {n}") for n in range(8)))
            found = [[one.content for one in await each.recall("wish")] for each in (ann, bob)]
        with pytest.raises(StorageError):
            await store.get_turn("x")  # who opened it has closed it
        return found

    ann, bob = run(main())
    assert len(ann) == len(bob) == 8
    assert all(one.startswith("Ann") for one in ann)
    assert all(one.startswith("Bob") for one in bob)


def test_a_store_that_its_owner_opened_stays_open(run, make):
    async def main():
        async with make() as store:
            async with ACMS("s", store) as session:
                id_ = await session.ingest("user", "Still here.")
            return (await store.get_turn(id_)).content

    assert run(main()) == "Still here."


class Failing(InMemoryBackend):
    """Fails where it is told to, before or after it has done its work."""

    fails = frozenset()
    after = False

    async def save_turn(self, turn):
        await self.does("save_turn", super().save_turn(turn))

    async def save_episode(self, episode):
        await self.does("save_episode", super().save_episode(episode))

    async def save_embedding(self, id, embedding, metadata):  # noqa: A002
        await self.does("save_embedding", super().save_embedding(id, embedding, metadata))

    async def does(self, name, work):
        if name in self.fails and not self.after:
            work.close()
            raise StorageError("no room")
        await work
        if name in self.fails:
            raise StorageError("the answer was lost")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["save_turn", "save_episode"])
def test_what_the_store_refuses_is_nowhere_and_the_next_try_stores_it_once(run, name, after):
    async def main():
        store = Failing()
        async with ACMS("s", store) as session:
            store.fails, store.after = {name}, after
            with pytest.raises(StorageError):
                await session.ingest("user", "Constraint: once alone.", turn_id="a")
            assert await session.recall("once") == []
            store.fails = frozenset()
            await session.ingest("user", "Constraint: once alone.", turn_id="a")
            await session.ingest("user", "Another.", turn_id="b")
            first = [one.id for one in await session.recall("once")]
        async with ACMS("s", store) as session:
            return first, [one.id for one in await session.recall("once")]

    first, second = run(main())
    assert sorted(first) == sorted(second) == ["a", "b"]


def test_the_end_of_an_episode_that_was_not_stored_is_stored_with_the_next_turn(run, caplog):
    async def main():
        store = Failing()
        async with ACMS("s", store) as session:
            for n in range(5):
                await session.ingest("user", f"Wish {n}.")
            store.fails = {"save_episode"}
            await session.ingest("user", "Wish 6.")  # the sixth closes it
            assert await store.get_episodes("s", status="closed") == []
            store.fails = frozenset()
            await session.ingest("user", "Wish 7.")
            return [one.close_reason for one in await store.get_episodes("s", status="closed")]

    assert run(main()) == ["max_turns"]
    assert "not stored yet" in caplog.text


class Letters:
    name, dimension = "letters", 8
    fails = False

    async def embed(self, texts):
        if self.fails:
            raise memplane.ProviderError("down", provider="letters")
        return [[float(1 + one.lower().count(chr(97 + at))) for at in range(8)] for one in texts]


def test_vectors_of_turns_are_stored_and_a_failing_embedder_costs_no_turn(run, make):
    async def main():
        embedder = Letters()
        async with make() as store, ACMS("s", store, embedder) as session:
            await session.ingest("user", "aaa", turn_id="a")
            embedder.fails = True
            await session.ingest("user", "bbb", turn_id="b")
            embedder.fails = False
            await session.ingest("user", "c" * 30_000, turn_id="c")
            found = await store.vector_search((await embedder.embed(["aaa"]))[0], k=9)
            return {one.id: one for one in found}, session.embed_failures

    found, failures = run(main())
    assert failures == 1
    assert found["a"].score == 1.0
    assert found["a"].metadata == {"session_id": "s"}
    assert {"a", "c"} <= found.keys()


class Facts:
    name = "rules"
    calls = 0

    async def reflect(self, episode, turns):
        self.calls += 1
        return [
            Fact(id="x", session_id="s", episode_id=episode.id, content=f"Said: {turns[0].content}",
                 source_turn_ids=(turns[0].id,), confidence=0.5,
                 created_at=datetime(2026, 1, 5, tzinfo=UTC))
        ]  # fmt: skip


def test_facts_are_stored_found_after_a_restart_and_not_made_again(run, make):
    async def main():
        first, second = Facts(), Facts()
        async with ACMS("s", make(), reflector=first) as session:
            await ingest(session, range(1, 8))
            await session.reflect()
        store = make()
        async with store:
            kept = await store.get_facts_by_session("s")
            async with ACMS("s", store, reflector=second) as session:
                await session.reflect()
                found = [one for one in await session.recall("said") if one.source == "fact"]
        return first.calls, second.calls, kept, found

    made, again, kept, found = run(main())
    assert made >= 1
    assert again == 0
    assert len(kept) == made
    assert [one.content for one in found] == [one.content for one in kept]
    assert kept[0].confidence == 0.5
    assert kept[0].source_turn_ids == ("t001",)


KILLED = """
import asyncio, os, signal, sys
from memplane.acms import ACMS
from memplane.acms.storage import SQLiteBackend
from memplane.errors import ConflictError
from memplane.work.episodes import PlaneEpisodes

class Killed(SQLiteBackend):
    async def save_turn(self, turn):
        if sys.argv[2] == "before" and turn.id == "t3":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().save_turn(turn)
        if turn.id == "t3":
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with ACMS("s", Killed(sys.argv[1])) as session:
        for n in range(6):
            print(await session.ingest("user", f"Turn {n}.", turn_id=f"t{n}"), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_around_save_turn_leaves_the_turn_once_or_not_at_all(run, tmp_path, when):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "rows.sqlite"), when]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["t0", "t1", "t2"]

    async def main():
        async with ACMS("s", SQLiteBackend(tmp_path / "rows.sqlite")) as session:
            before = (await session.get_session_stats()).turn_count
            for n in range(3, 6):
                await session.ingest("user", f"Turn {n}.", turn_id=f"t{n}")
            found = [one.id for one in await session.recall("turn")]
            return before, found

    before, found = run(main())
    assert before == (4 if when == "after" else 3)
    assert found == [f"t{n}" for n in range(6)]


@pytest.mark.servers
def test_a_server_that_stops_is_a_storage_error_and_nothing_is_lost_when_it_is_back(run):
    from tests.acms.storage.builders_servers import postgres_dsn, started

    dsn, server = postgres_dsn(extended=False), started()

    async def main():
        store = PostgresBackend(dsn, schema="stopped", timeout=5)
        async with store, ACMS("s", store) as session:
            await session.ingest("user", "Before.", turn_id="a")
            await asyncio.to_thread(server.stop)
            with pytest.raises(StorageError) as error:
                await session.ingest("user", "Meanwhile.", turn_id="b")
            await asyncio.to_thread(server.start)
            for _ in range(20):  # connections that broke are given up one by one
                try:
                    await session.ingest("user", "Meanwhile.", turn_id="b")
                    break
                except StorageError:
                    await asyncio.sleep(0.2)
            found = [one.id for one in await session.recall("meanwhile")]
        async with PostgresBackend(dsn, schema="stopped") as again, ACMS("s", again) as session:
            return found, [one.id for one in await session.recall("meanwhile")], str(error.value)

    found, after, said = run(main())
    assert found == after == ["a", "b"]
    assert "PostgresBackend: schema stopped" in said


def test_a_plane_as_a_store_is_that_plane(run, tmp_path):
    async def main():
        with memplane.init(tmp_path / "plane", trusted=False) as plane:
            store = PlaneBackend(plane, rules=ACMSConfig().rules())
            async with ACMS("s", store) as session:
                await ingest(session, range(1, 9))
                assert session.plane is plane
            async with store:
                episodes = await store.get_episodes("s")
                turns = await store.get_turns_by_episode(episodes[-1].id)
                got = await store.get_turn("t001")
                copied = turns[0]
                await store.save_turn(copied)
                with pytest.raises(StorageError):
                    await store.save_turn(
                        type(copied)(**{**vars_of(copied), "content": "Another."})
                    )
                await store.save_embedding("t001", [1.0, 0.0], {"a": 1})
            async with store:
                near = await store.vector_search([1.0, 0.0], filter={"a": 1})
            return episodes, turns, got, near

    def vars_of(turn):
        return {name: getattr(turn, name) for name in turn.__slots__}

    episodes, turns, got, near = run(main())
    assert "closed" in {str(one.status) for one in episodes}
    assert got == turns[0]
    assert got.metadata == {"n": 1}
    assert [one.id for one in near] == ["t001"]


def test_anything_else_is_no_store():
    for wrong in (3, object(), StorageBackend):
        with pytest.raises(ConfigurationError, match="expected a plane, a folder or a store"):
            ACMS("s", wrong)


def test_what_is_closed_lets_go_of_the_plane_in_memory(run, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main():
        async with ACMS("s", InMemoryBackend(), config=ACMSConfig()) as session:
            await session.ingest("user", "x")
            assert len(list(tmp_path.iterdir())) == 1

    run(main())
    assert list(tmp_path.iterdir()) == []
