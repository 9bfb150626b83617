"""What a session does where something goes wrong: it loses no turn, and says what it was."""

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import memplane
from memplane import acms
from memplane.acms import ACMS, ACMSConfig, ConfigurationError, EpisodeBoundaryConfig, ProviderError
from memplane.adapters.memory_tool import MemoryFiles
from memplane.errors import HomeError, InputError, MemplaneError
from memplane.log import disk as log_disk
from memplane.search.service import vectors_upto

OS = ACMSConfig(durability="os")


def run(main):
    return asyncio.run(asyncio.wait_for(main, 120))


@pytest.mark.parametrize("storage", ["", "  ", "a\0b"])
def test_a_storage_that_names_no_folder_is_refused_and_makes_none(tmp_path, monkeypatch, storage):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="storage"):
        ACMS("s", storage)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("open_", [memplane.open, memplane.init])
def test_a_path_that_no_system_has_is_an_error_of_memplane(open_):
    with pytest.raises(InputError, match="path"):
        open_("a\0b")


def test_a_config_of_another_kind_is_refused():
    with pytest.raises(ConfigurationError, match="expected an ACMSConfig, found dict"):
        ACMS("s", "notes", config={"scope": "plane"})


@pytest.mark.parametrize("name", ["custom:\ud800", "custom:", "custom:a\nb", "custom:" + "x" * 65])
def test_a_marker_that_no_turn_can_have_is_refused_with_its_pattern(name):
    with pytest.raises(ConfigurationError, match="marker_patterns"):
        ACMSConfig(marker_patterns={name: ["x"]})


class Failing:
    """A counter that fails."""

    def count(self, text):
        raise ZeroDivisionError(text)


def test_a_counter_that_fails_is_a_provider_error(tmp_path):
    """A2-72, A2-77: `except ACMSError` catches what others' code raises, too."""

    async def main():
        async with ACMS("s", tmp_path / "notes", config=OS) as session:
            await session.ingest("user", "herons")
        async with ACMS("s", tmp_path / "notes", token_counter=Failing(), config=OS) as session:
            with pytest.raises(ProviderError, match="Failing failed") as caught:
                await session.recall("herons")
            assert isinstance(caught.value.cause, ZeroDivisionError)

    run(main())


class Asked:
    """An embedder whose answers can be anything."""

    dimension = 3

    def __init__(self, answer):
        self.answer = answer

    async def embed(self, texts):
        return self.answer(texts)


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[1.0, 2, 3]] * len(texts),
        lambda texts: tuple((1.0, 2.0, 3.0) for _ in texts),
        lambda texts: __import__("numpy").ones((len(texts), 3), "float32"),
    ],
)
def test_vectors_may_be_lists_tuples_or_arrays(tmp_path, answer):
    """A2-60: what an embedder of the plan gives, and what libraries give."""

    async def main():
        async with ACMS("s", tmp_path / "notes", Asked(answer), config=OS) as session:
            await session.ingest("user", "herons")
            return session.embed_failures, (await session.get_session_stats()).embedded_count

    assert run(main()) == (0, 1)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: None,
        lambda _: 3,
        lambda _: "abc",
        lambda _: [],
        lambda texts: ["abc"] * len(texts),
        lambda texts: [[1.0, 2.0]] * len(texts),
        lambda texts: [[1.0, float("nan"), 2.0]] * len(texts),
        lambda texts: [None] * len(texts),
        lambda texts: [{}] * len(texts),
        lambda _: 1 / 0,
    ],
)
def test_what_is_no_vector_costs_no_turn(tmp_path, answer):
    """A2-77: counted, and the turn is stored and recalled by words."""

    async def main():
        async with ACMS("s", tmp_path / "notes", Asked(answer), config=OS) as session:
            await session.ingest("user", "herons")
            found = await session.recall("herons")
            return [item.content for item in found], session.embed_failures

    assert run(main()) == (["herons"], 1)


class Synchronous:
    """An embedder of a plane, that fails as others' code does."""

    name, dimension = "broken", 8

    def embed(self, texts):
        raise ValueError(str(texts))


def test_a_synchronous_embedder_that_fails_costs_no_turn_either(tmp_path):
    async def main():
        async with ACMS("s", tmp_path / "notes", Synchronous(), config=OS) as session:
            await session.ingest("user", "herons")
            return session.embed_failures

    assert run(main()) == 1
    with (
        memplane.open(tmp_path / "notes", embedder=Synchronous(), environment={}) as plane,
        pytest.raises(ProviderError, match="broken"),
    ):
        plane.upkeep.embed()


class Hanging:
    """An embedder that never answers."""

    dimension = 3

    def __init__(self):
        self.asked = asyncio.Event()

    async def embed(self, _texts):
        self.asked.set()
        await asyncio.sleep(3_600)


def test_an_embedder_that_never_answers_holds_up_neither_a_recall_nor_the_end(tmp_path):
    """A2-15: close() comes back; the turn of the cancelled call is stored."""

    async def main():
        embedder = Hanging()
        session = ACMS("s", tmp_path / "notes", embedder, config=OS)
        waiting = asyncio.create_task(session.ingest("user", "herons"))
        await embedder.asked.wait()
        assert [item.content for item in await session.recall("herons")] == ["herons"]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        begun = time.monotonic()
        await session.close()
        return time.monotonic() - begun

    assert run(main()) < 30  # of 60 that an answer may take
    with memplane.open(tmp_path / "notes", environment={}) as plane:
        assert [event.text for event in plane.events(session="s")] == ["herons"]


@pytest.mark.parametrize("steps", range(6))
def test_closing_while_turns_are_ingested_loses_none_that_was_acknowledged(tmp_path, steps):
    """A2-15, A2-93: what is under way is stored or refused; close waits for the write."""

    async def main():
        session = ACMS("s", tmp_path / "notes", config=OS)
        await session.ingest("user", "first")
        tasks = [asyncio.create_task(session.ingest("user", f"turn {n}")) for n in range(40)]
        tasks += [asyncio.create_task(session.recall("first")) for _ in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        await session.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    done = run(main())
    assert {type(one) for one in done if isinstance(one, BaseException)} <= {HomeError}
    with memplane.open(tmp_path / "notes", environment={}) as plane:
        stored = {event.id for event in plane.events()}
        assert plane.upkeep.verify(deep=True).ok
    assert {one for one in done if isinstance(one, str)} <= stored


def test_two_objects_of_one_session_see_one_session(tmp_path):
    """A2-93: also with other settings, where they are two planes of one folder."""

    async def main():
        one, other = ACMS("s", tmp_path / "notes", config=OS), ACMS("s", tmp_path / "notes")
        await asyncio.gather(
            *(each.ingest("user", f"turn {n}") for n in range(10) for each in (one, other))
        )
        assert one.plane is not other.plane
        stats = [await each.get_session_stats() for each in (one, other)]
        assert stats[0] == stats[1]
        await one.close()
        await other.ingest("user", "still here")
        await other.close()
        return stats[0].turn_count

    assert run(main()) == 20
    with memplane.open(tmp_path / "notes", environment={}) as plane:
        assert plane.upkeep.verify(deep=True).ok
        assert plane.upkeep.differing() == []


TURNS = """
import asyncio, sys
from memplane.acms import ACMS, ACMSConfig

async def main():
    async with ACMS("s", sys.argv[1], config=ACMSConfig(durability="os")) as session:
        for n in range(30):
            await session.ingest("user", f"{sys.argv[2]} {n}", turn_id=f"{sys.argv[2]}{n}")
            await session.recall("turn", token_budget=200)

asyncio.run(main())
"""


def test_one_session_in_two_processes_keeps_every_turn_in_one_episode_each(tmp_path):
    """A2-17, A2-93: the fold of both is one; every turn is in exactly one episode."""
    memplane.init(tmp_path / "notes", trusted=False, environment={}).close()
    both = [
        subprocess.Popen([sys.executable, "-c", TURNS, tmp_path / "notes", name]) for name in "ab"
    ]
    assert [one.wait(120) for one in both] == [0, 0]

    async def main():
        async with ACMS("s", tmp_path / "notes", config=OS) as session:
            stats = await session.get_session_stats()
            plane = session.plane
            episodes = plane.episodes.list("s", limit=1000)
            return stats, [id_ for one in episodes for id_ in one.turn_ids]

    stats, turns = run(main())
    assert stats.turn_count == 60
    assert sorted(turns) == sorted(f"{name}{n}" for name in "ab" for n in range(30))


def test_a_config_that_changes_between_restarts_divides_history_anew(tmp_path):
    """A2-23: rules are of the fold, not of the log; nothing is written for them."""

    async def counts(*configs):
        found = []
        for config in configs:
            async with ACMS("s", tmp_path / "notes", config=config) as session:
                stats = await session.get_session_stats()
                found.append((stats.turn_count, stats.episode_count, session.plane.head().seq))
        return found

    async def fill():
        async with ACMS("s", tmp_path / "notes", config=OS) as session:
            for n in range(12):
                await session.ingest("user", f"turn {n}")

    run(fill())
    rules = [
        ACMSConfig(boundaries=EpisodeBoundaryConfig(max_turns=most), durability="os")
        for most in (6, 3, None, 1, 6)
    ]
    found = run(counts(*rules))
    assert [(turns, episodes) for turns, episodes, _ in found] == [
        (12, 2), (12, 4), (12, 1), (12, 12), (12, 2),
    ]  # fmt: skip
    assert len({seq for _, _, seq in found}) == 1


def test_turns_of_any_size_and_letters_come_back_within_the_budget(tmp_path):
    """A2-94: huge messages; half a character is refused, all else is kept."""
    texts = ["herons " * 150_000, "\U0001f9a9" * 100, "\u202eabc", "one\0two"]

    async def main():
        async with ACMS("s", tmp_path / "notes", config=OS) as session:
            ids = [await session.ingest("user", text) for text in texts]
            with pytest.raises(InputError, match="half a character"):
                await session.ingest("user", "a\ud800b")
            for budget in (1, 20, 200, 1_000_000):
                found = await session.assemble("herons", token_budget=budget)
                assert found.total_tokens <= budget
                json.dumps(found.to_dict())
            for budget in (0, -1, 1.5, True, None, "5", float("nan")):
                with pytest.raises(MemplaneError):
                    await session.recall("herons", token_budget=budget)
            return ids, [item.id for item in found.items]

    ids, shown = run(main())
    assert shown == ids


def test_a_plane_that_its_owner_closed_is_refused_by_name(tmp_path):
    async def main():
        plane = memplane.init(tmp_path / "notes", trusted=False, environment={})
        session = ACMS("s", plane)
        await session.ingest("user", "herons")
        plane.close()
        for call in (
            session.ingest("user", "more"),
            session.recall("herons"),
            session.get_session_stats(),
            session.close_episode(),
        ):
            with pytest.raises(HomeError, match="closed"):
                await call
        await session.close()

    run(main())


def test_without_its_policies_a_session_records_and_says_what_is_wrong(tmp_path):
    def break_it():
        Path(tmp_path / "notes" / "policies" / "budgets.yaml").write_text("a: [")

    async def main():
        async with ACMS("s", tmp_path / "notes", config=OS) as session:
            await session.ingest("user", "herons")
            break_it()
            await session.ingest("user", "boats")
            with pytest.raises(ConfigurationError, match=r"budgets\.yaml"):
                await session.recall("herons")

    run(main())


class Watching:
    """An embedder that notes what was stored when it was asked."""

    dimension = 3

    def __init__(self):
        self.session = None
        self.asked = []

    async def embed(self, texts):
        stored = await asyncio.to_thread(lambda: [e.text for e in self.session.plane.events()])
        self.asked.append((list(texts), stored))
        return [[1.0, 2.0, 3.0]] * len(texts)


def test_a_turn_is_checked_then_redacted_and_stored_then_embedded(tmp_path):
    """A2-08: turn -> validate -> store -> embed; what is refused reaches no embedder."""

    async def main():
        embedder = Watching()
        async with ACMS("s", tmp_path / "notes", embedder, config=OS) as session:
            embedder.session = session
            for wrong in ({"role": "nobody"}, {"markers": ["strange"]}, {"metadata": [1]}):
                with pytest.raises(InputError):
                    await session.ingest(**{"role": "user", "content": "herons", **wrong})
            assert embedder.asked == []
            id_ = await session.ingest("user", "The mill's password: hunter2hunter2")
            return embedder.asked, session.plane.event(id_).text

    ((texts, stored),), text = run(main())
    assert "hunter2" not in text
    assert stored[-1] == text
    assert len(texts) == 1
    assert "hunter2" not in texts[0]


def raised_by(call):
    with pytest.raises(MemplaneError) as caught:
        call()
    return type(caught.value)


def test_each_error_of_the_plan_is_raised_by_a_call(tmp_path):
    """A2-72, A2-73, A2-74: by what a user does wrong, or others' code."""

    async def calls():
        async with ACMS("s", tmp_path / "notes", config=OS) as session:
            for call, error in (
                (lambda: session.ingest("nobody", "x"), acms.ValidationError),
                (lambda: session.recall("x", token_budget=0), acms.TokenBudgetExceededError),
                (session.close_episode, acms.EpisodeNotFoundError),
                (lambda: ACMS.resume("never", tmp_path / "notes"), acms.SessionNotFoundError),
            ):
                with pytest.raises(acms.ACMSError) as caught:
                    await call()
                assert type(caught.value) is error
            await session.ingest("user", "herons")
        with pytest.raises(acms.StorageError):
            await session.ingest("user", "herons")
        async with ACMS("s", tmp_path / "notes", token_counter=Failing(), config=OS) as session:
            with pytest.raises(acms.ProviderError) as caught:
                await session.recall("herons")
            assert (caught.value.provider, caught.value.retryable) == ("Failing", False)

    run(calls())
    assert raised_by(lambda: ACMSConfig(profile="x")) is acms.ConfigurationError
    with memplane.open(tmp_path / "notes", environment={}, agent="ann") as plane:
        plane.record("x", ns="/agent/ben", kind="fact", key="k")
        assert raised_by(lambda: plane.get("k", "/agent/ben")) is acms.ScopeError
        files = MemoryFiles(plane)
        assert raised_by(lambda: files.view("/memories/../etc")) is acms.SecurityError


OPERATIONS = ("write", "fdatasync", "ftruncate", "replace", "publish", "sync_directory")


@pytest.mark.parametrize("fails", range(12))
def test_a_disk_that_fails_at_any_point_is_an_acms_error_and_costs_no_acknowledged_turn(
    tmp_path, monkeypatch, fails
):
    """A2-72, A2-77, G10: `except ACMSError` catches every failure."""
    left = [fails]

    def failing(name):
        real = getattr(log_disk.Disk, name)

        def call(self, *args, **named):
            left[0] -= 1
            if left[0] == 0:
                raise OSError(28, "No space left on device")
            return real(self, *args, **named)

        monkeypatch.setattr(log_disk.Disk, name, call)

    for name in OPERATIONS:
        failing(name)
    kept = []

    async def main():
        session = ACMS("s", tmp_path / "notes")
        for n in range(4):
            with suppress(acms.ACMSError):
                kept.append(await session.ingest("user", f"turn {n}"))
            with suppress(acms.ACMSError):
                await session.recall("turn")
        for call in (session.get_session_stats, session.close_episode, session.close):
            with suppress(acms.ACMSError):
                await call()

    run(main())
    monkeypatch.undo()
    with memplane.open(tmp_path / "notes", environment={}) as plane:
        assert set(kept) <= {event.id for event in plane.events()}
        assert plane.upkeep.verify(deep=True).ok
    assert len(kept) >= 3


class Slow:
    """An embedder that takes its time, and counts how often it is asked."""

    dimension = 3

    def __init__(self):
        self.texts = []

    async def embed(self, texts):
        await asyncio.sleep(0.02)
        self.texts.append(len(texts))
        return [[1.0, 2.0, 3.0]] * len(texts)


def test_turns_that_are_ingested_at_once_are_all_embedded_when_they_return(tmp_path):
    """A2-09: embedding is awaited, also where others embed meanwhile; they share few requests."""

    async def main():
        embedder = Slow()
        sessions = [ACMS(f"s{n}", tmp_path / "notes", embedder, config=OS) for n in range(40)]
        await sessions[0].recall("herons")

        async def ingest(n):
            await asyncio.sleep(n % 7 * 0.003)
            await sessions[n].ingest("user", f"herons {n}")
            plane = sessions[n].plane
            with plane.context.lock:
                upto = vectors_upto(plane.context, plane.upkeep.policies)
            return [event.seq <= upto for event in plane.events(session=f"s{n}")]

        found = await asyncio.gather(*(ingest(n) for n in range(40)))
        failures = sum(one.embed_failures for one in sessions)
        for one in sessions:
            await one.close()
        return embedder.texts, found, failures

    texts, found, failures = run(main())
    assert (found, failures) == ([[True]] * 40, 0)
    assert sum(texts) == 40
    assert len(texts) < 25
