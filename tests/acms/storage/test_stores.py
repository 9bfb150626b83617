"""The contract of stores, over each of them and over one that somebody else wrote."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from memplane.acms import StorageError
from memplane.acms.storage import StorageBackend
from memplane.errors import InputError
from memplane.work.episodes import Episode, EpisodeStatus, Fact, Turn

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def turn(number, episode="s/1", session="s", **more):
    return Turn(**{
        "id": f"t{number}", "session_id": session, "episode_id": episode, "role": "user",
        "content": f"Turn {number}.", "created_at": START + timedelta(seconds=number),
        "token_count": 3, "seq": number, **more,
    })  # fmt: skip


def episode(number, session="s", status="open", turns=(), **more):
    closed = {"ended_at": START, "close_reason": "manual"} if status == "closed" else {}
    return Episode(**{
        "id": f"{session}/{number}", "session_id": session, "status": EpisodeStatus(status),
        "turn_ids": tuple(turns), "started_at": START + timedelta(seconds=number),
        "token_count": 3, **closed, **more,
    })  # fmt: skip


def fact(number, session="s", **more):
    return Fact(**{
        "id": f"f{number}", "session_id": session, "episode_id": f"{session}/1",
        "content": f"Fact {number}.", "source_turn_ids": ("t1",),
        "created_at": START + timedelta(seconds=number), **more,
    })  # fmt: skip


def stored(run, make, work):
    """What `work(store)` gives on an open store."""

    async def main():
        async with make() as store:
            return await work(store)

    return run(main())


# --- turns ---

ODD_TEXTS = [
    "plain", "ü 猫 🙂", "a\nb\tc", "'; DROP TABLE turns; --", '"quoted" \\ back', " lead and trail ",
    "nul \0 inside", "x" * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_turn_comes_back_as_it_was_saved(run, make, text):
    one = turn(
        1, content=text, role="assistant", actor_id="bot", markers=("goal", "custom:x"),
        metadata={"a": [1, {"b": None}], "ü": "x", "n": 1.5, "t": True},
    )  # fmt: skip

    async def work(store):
        await store.save_turn(one)
        return await store.get_turn("t1"), await store.get_turns_by_episode("s/1")

    got, listed = stored(run, make, work)
    assert got == one
    assert listed == [one]


def test_what_was_never_saved_is_none_and_no_list_holds_it(run, make):
    async def work(store):
        return [
            await store.get_turn("t1"), await store.get_episode("s/1"),
            await store.get_turns_by_episode("s/1"), await store.get_episodes("s"),
            await store.get_facts_by_session("s"), await store.vector_search([1.0, 0.0]),
        ]  # fmt: skip

    assert stored(run, make, work) == [None, None, [], [], [], []]


def test_turns_of_an_episode_come_by_time_then_id_whatever_the_order_of_saving(run, make):
    ones = [turn(n, created_at=START + timedelta(microseconds=n // 2)) for n in range(1, 9)]
    others = [turn(n, episode="s/9") for n in range(20, 23)]
    mixed = [*ones, *others]
    random.Random(7).shuffle(mixed)

    async def work(store):
        for one in mixed:
            await store.save_turn(one)
        return await store.get_turns_by_episode("s/1")

    assert stored(run, make, work) == sorted(ones, key=lambda one: (one.created_at, one.id))


def test_the_same_turn_again_changes_nothing_and_another_under_its_id_is_refused(run, make):
    async def work(store):
        await store.save_turn(turn(1))
        await store.save_turn(turn(1))
        with pytest.raises(StorageError):
            await store.save_turn(turn(1, content="Another."))
        with pytest.raises(StorageError):
            await store.save_turn(turn(1, session="other"))
        return await store.get_turn("t1"), await store.get_turns_by_episode("s/1")

    assert stored(run, make, work) == (turn(1), [turn(1)])


def test_sessions_and_episodes_do_not_mix(run, make):
    names = ["s", "S", "s ", "s%", "s/1", "ß"]

    async def work(store):
        for at, name in enumerate(names):
            await store.save_turn(turn(100 + at, f"{name}/1", name))
            await store.save_episode(episode(1, name))
            await store.save_fact(fact(100 + at, name))
        return [
            (
                [one.session_id for one in await store.get_turns_by_episode(f"{name}/1")],
                [one.session_id for one in await store.get_episodes(name)],
                [one.session_id for one in await store.get_facts_by_session(name)],
            )
            for name in names
        ]

    assert stored(run, make, work) == [([name], [name], [name]) for name in names]


# --- episodes ---


def test_an_episode_grows_and_closes_and_then_never_changes(run, make):
    async def work(store):
        await store.save_episode(episode(1))
        await store.save_episode(episode(1, turns=["t1", "t2"]))
        closed = episode(1, status="closed", turns=["t1", "t2", "t3"])
        await store.save_episode(closed)
        await store.save_episode(closed)
        for other in (episode(1), episode(1, status="closed", close_reason="time_gap")):
            with pytest.raises(StorageError):
                await store.save_episode(other)
        return await store.get_episode("s/1"), closed

    found, closed = stored(run, make, work)
    assert found == closed


def test_the_newest_episodes_come_first_at_most_so_many_and_by_status(run, make):
    async def work(store):
        for number in (3, 1, 5, 2, 4):
            status = "closed" if number % 2 else "open"
            await store.save_episode(episode(number, status=status))
        every = await store.get_episodes("s")
        return [
            [one.id for one in found]
            for found in (
                every, await store.get_episodes("s", limit=2),
                await store.get_episodes("s", status="closed"),
                await store.get_episodes("s", status=EpisodeStatus.OPEN, limit=1),
                await store.get_episodes("nobody"),
            )
        ]  # fmt: skip

    assert stored(run, make, work) == [
        ["s/5", "s/4", "s/3", "s/2", "s/1"], ["s/5", "s/4"], ["s/5", "s/3", "s/1"], ["s/4"], [],
    ]  # fmt: skip


def test_a_hundred_episodes_are_given_where_nobody_says_how_many(run, make):
    async def work(store):
        for number in range(103):
            await store.save_episode(episode(number))
        return len(await store.get_episodes("s")), len(await store.get_episodes("s", limit=1_000))

    assert stored(run, make, work) == (100, 103)


# --- facts ---


def test_facts_of_a_session_come_by_time(run, make):
    ones = [fact(3), fact(1, metadata={"by": "x"}), fact(2, confidence=0.25)]

    async def work(store):
        for one in (*ones, fact(9, "other")):
            await store.save_fact(one)
            await store.save_fact(one)
        with pytest.raises(StorageError):
            await store.save_fact(fact(1, content="Another."))
        return await store.get_facts_by_session("s")

    assert stored(run, make, work) == [ones[1], ones[2], ones[0]]


# --- vectors ---


async def some_vectors(store, count=40, dimension=8, seed=1):
    chance = random.Random(seed)
    rows = {}
    for number in range(count):
        vector = [round(chance.uniform(-1, 1), 3) for _ in range(dimension)]
        rows[f"v{number:03}"] = vector
        await store.save_embedding(
            f"v{number:03}", vector, {"n": number % 3, "even": number % 2 == 0}
        )
    return rows


def cosine(one, other):
    size = (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5
    return sum(a * b for a, b in zip(one, other, strict=True)) / size if size else 0.0


def test_the_nearest_come_first_with_their_cosine(run, make):
    async def work(store):
        rows = await some_vectors(store)
        found = await store.vector_search(rows["v007"], k=5)
        return rows, found

    rows, found = stored(run, make, work)
    expected = sorted(rows, key=lambda id_: (-round(cosine(rows["v007"], rows[id_]), 6), id_))[:5]
    assert [one.id for one in found] == expected
    assert found[0].score == 1.0
    for one in found:
        assert one.score == pytest.approx(cosine(rows["v007"], rows[one.id]), abs=2e-6)
        number = int(one.id[1:])
        assert one.metadata == {"n": number % 3, "even": number % 2 == 0}


@pytest.mark.parametrize(("wanted", "numbers"), [
    ({"n": 1}, [n for n in range(12) if n % 3 == 1]),
    ({"n": 1, "even": True}, [n for n in range(12) if n % 3 == 1 and n % 2 == 0]),
    ({"even": 1}, []), ({"n": "1"}, []), ({"gone": None}, []), ({}, range(12)),
])  # fmt: skip
def test_a_filter_asks_every_key_for_its_value(run, make, wanted, numbers):
    async def work(store):
        await some_vectors(store, 12)
        return await store.vector_search([1.0] * 8, k=50, filter=wanted)

    assert sorted(int(one.id[1:]) for one in stored(run, make, work)) == list(numbers)


def test_k_above_what_is_there_gives_all_and_below_one_nothing(run, make):
    async def work(store):
        await some_vectors(store, 3)
        return [len(await store.vector_search([1.0] * 8, k=k)) for k in (100, 3, 1, 0, -1)]

    assert stored(run, make, work) == [3, 3, 1, 0, 0]


def test_equal_scores_go_by_id_and_zeros_have_none(run, make):
    async def work(store):
        for id_ in ("c", "a", "d", "b"):
            await store.save_embedding(id_, [2.0, 0.0], {})
        await store.save_embedding("zero", [0.0, 0.0], {})
        await store.save_embedding("away", [-1.0, 0.0], {})
        found = await store.vector_search([1.0, 0.0], k=3)
        every = await store.vector_search([1.0, 0.0], k=9)
        blank = await store.vector_search([0.0, 0.0], k=2)
        return [[(one.id, one.score) for one in some] for some in (found, every, blank)]

    found, every, blank = stored(run, make, work)
    assert found == [("a", 1.0), ("b", 1.0), ("c", 1.0)]
    assert every == [*found, ("d", 1.0), ("zero", 0.0), ("away", -1.0)]
    assert blank == [("a", 0.0), ("away", 0.0)]


def test_another_dimension_is_refused_to_save_and_to_find_also_after_opening_again(run, make):
    async def work(store):
        await store.save_embedding("a", [1.0, 0.0], {})
        for call in (store.save_embedding("b", [1.0], {}), store.vector_search([1.0, 0.0, 0.0])):
            with pytest.raises(StorageError):
                await call

    async def again(store):
        with pytest.raises(StorageError):
            await store.save_embedding("b", [1.0, 0.0, 0.0], {})
        return await store.vector_search([0.5, 0.0])

    stored(run, make, work)
    assert [one.id for one in stored(run, make, again)] == ["a"]


def test_the_same_vector_again_changes_nothing_and_another_is_refused(run, make):
    async def work(store):
        await store.save_embedding("a", [1.0, 0.5], {"x": 1})
        await store.save_embedding("a", [1.0, 0.5], {"x": 1})
        with pytest.raises(StorageError):
            await store.save_embedding("a", [0.5, 1.0], {"x": 1})
        return await store.vector_search([1.0, 0.5])

    assert [(one.id, one.metadata) for one in stored(run, make, work)] == [("a", {"x": 1})]


# --- opening and closing ---


def calls(store):
    yield store.save_turn(turn(1))
    yield store.get_turn("t1")
    yield store.get_turns_by_episode("s/1")
    yield store.save_episode(episode(1))
    yield store.get_episode("s/1")
    yield store.get_episodes("s")
    yield store.save_embedding("a", [1.0], {})
    yield store.vector_search([1.0])
    yield store.save_fact(fact(1))
    yield store.get_facts_by_session("s")


def test_no_call_answers_before_it_is_opened_or_after_it_is_closed(run, make):
    async def main():
        store = make()
        assert isinstance(store, StorageBackend)
        for _ in range(2):
            for call in calls(store):
                with pytest.raises(StorageError):
                    await call
            await store.initialize()
            await store.initialize()
            assert await store.get_turn("t1") is None
            await store.close()
            await store.close()

    run(main())


def test_what_was_saved_is_there_after_closing_and_opening(run, make):
    async def fill(store):
        await store.save_turn(turn(1))
        await store.save_episode(episode(1, status="closed"))
        await store.save_fact(fact(1))
        await store.save_embedding("t1", [1.0, 0.0], {"session_id": "s"})

    async def look(store):
        return (
            await store.get_turn("t1"), await store.get_episode("s/1"),
            await store.get_facts_by_session("s"), (await store.vector_search([1.0, 0.0]))[0].id,
        )  # fmt: skip

    stored(run, make, fill)
    assert stored(run, make, look) == (turn(1), episode(1, status="closed"), [fact(1)], "t1")


def test_many_at_once_are_all_there(run, make):
    async def work(store):
        await asyncio.gather(*(store.save_turn(turn(n)) for n in range(60)))
        await asyncio.gather(*(store.save_turn(turn(n)) for n in range(60)))
        found = await asyncio.gather(*(store.get_turn(f"t{n}") for n in range(60)))
        return found, await store.get_turns_by_episode("s/1")

    found, listed = stored(run, make, work)
    assert list(found) == listed == [turn(n) for n in range(60)]


@pytest.mark.parametrize("wrong", [
    lambda store: store.save_turn({"id": "t1"}),
    lambda store: store.save_turn(episode(1)),
    lambda store: store.save_turn(turn(1, metadata={"x": object()})),
    lambda store: store.save_turn(turn(1, metadata={"x": float("nan")})),
    lambda store: store.save_turn(turn(1, content="\ud800")),
    lambda store: store.save_turn(turn(1, id="")),
    lambda store: store.save_turn(turn(1, id="a\0b")),
    lambda store: store.save_episode(turn(1)),
    lambda store: store.save_fact("x"),
    lambda store: store.get_episodes("s", limit=0),
    lambda store: store.get_episodes("s", limit=True),
    lambda store: store.get_episodes("s", status="ended"),
    lambda store: store.get_turn(""),
    lambda store: store.save_embedding("a", [], {}),
    lambda store: store.save_embedding("a", ["x"], {}),
    lambda store: store.save_embedding("a", [float("inf")], {}),
    lambda store: store.save_embedding("a", [[1.0]], {}),
    lambda store: store.save_embedding("a", [1.0], "meta"),
    lambda store: store.vector_search([float("nan")]),
])  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_stored(run, make, wrong, request):
    if "own" in request.node.callspec.id:
        pytest.skip("what somebody else checks is his")

    async def work(store):
        with pytest.raises(InputError):
            await wrong(store)
        return (
            await store.get_turns_by_episode("s/1"), await store.get_episodes("s"),
            await store.get_facts_by_session("s"), await store.vector_search([1.0]),
        )  # fmt: skip

    assert stored(run, make, work) == ([], [], [], [])
