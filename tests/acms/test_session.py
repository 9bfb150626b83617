"""`ACMS`: a session as the plan has it, each test with the rows that it keeps."""

import asyncio
import logging
import random

import pytest

import memplane
from memplane.acms import (
    ACMS,
    ACMSConfig,
    EpisodeBoundaryConfig,
    EpisodeNotFoundError,
    MarkerType,
    Role,
    SessionNotFoundError,
    StorageError,
    TokenBudgetExceededError,
    ValidationError,
)
from memplane.errors import ConfigurationError, HomeError, MemplaneError
from tests.examples import examples

WORDS = {
    "decision": ["Decision:", "Decided:", "Choosing:", "Selected:"],
    "constraint": ["Constraint:", "Requirement:", "Must:", "Cannot:", "Budget:", "Limit:"],
    "failure": ["Failed:", "Error:", "Didn't work:", "Tried but:"],
    "goal": ["Goal:", "Objective:", "Task:", "Need to:"],
}
OS = ACMSConfig(durability="os")


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as made:
        yield made


def run(main):
    return asyncio.run(asyncio.wait_for(main, 120))


def test_a_turn_is_recallable_when_ingest_returns_its_id(tmp_path):
    """A2-01, A2-03, A2-04, A2-08, A2-09: ingest and recall, by a path that becomes a plane."""

    async def main():
        async with ACMS("trip", tmp_path / "notes", None) as session:
            id_ = await session.ingest("user", "The ferry to Naxos leaves at nine")
            (item,) = await session.recall("when does the ferry leave?")
            assert (item.id, item.role) == (id_, "user")
            assert item.content == "The ferry to Naxos leaves at nine"

    run(main())
    with memplane.open(tmp_path / "notes", environment={}) as plane:
        (event,) = plane.events(session="trip")
        assert (event.kind, event.role) == ("message", "user")


def test_metadata_and_actor_are_kept_with_the_turn(plane):
    """A2-06, A2-07: the role, a free mapping and who said it."""

    async def main():
        async with ACMS("s", plane) as session:
            data = {"page": 3, "tags": ["a"], "nested": {"x": None}}
            id_ = await session.ingest(Role.TOOL, "42 boats", actor_id="harbour", metadata=data)
            (item,) = await session.recall("how many boats?")
            assert (item.id, item.role, item.metadata) == (id_, "tool", data)
            return id_

    event = plane.event(run(main()))
    assert (event.kind, event.role, event.actor) == ("tool_result", "tool", "harbour")


def test_invalid_input_is_refused_and_nothing_is_stored(plane):
    """A2-05, A2-26: ValidationError on bad input."""

    async def main():
        async with ACMS("s", plane) as session:
            for wrong in (
                {"role": "system"}, {"role": "nobody"}, {"content": ""}, {"content": 7},
                {"markers": ["strange"]}, {"markers": "goal"}, {"markers": ["custom:"]},
                {"metadata": [1]}, {"metadata": {"x": object()}}, {"actor_id": ""},
                {"turn_id": ""}, {"actor_id": "x" * 200},
            ):  # fmt: skip
                with pytest.raises(ValidationError):
                    await session.ingest(**{"role": "user", "content": "hello", **wrong})

    run(main())
    assert list(plane.events()) == []


@pytest.mark.parametrize(
    ("marker", "word"), [(marker, word) for marker, words in WORDS.items() for word in words]
)
def test_each_word_of_the_plan_marks_a_turn(plane, marker, word):
    """A2-25, A2-30 to A2-34, A2-36: in any case, at the start of the text or of a line alone."""

    async def main():
        async with ACMS("s", plane) as session:
            ids = [
                await session.ingest("user", text)
                for text in (
                    f"{word} the blue door",
                    f"First this\n{word.upper()} the blue door",
                    f"I said {word} the blue door",
                )
            ]
            return [plane.event(id_).markers for id_ in ids]

    first, second, third = run(main())
    assert marker in first
    assert marker in second
    assert marker not in third


def test_explicit_markers_stand_for_themselves(plane):
    """A2-37, A2-38: explicit markers override detected ones, and stay with the turn."""

    async def main():
        async with ACMS("s", plane) as session:
            one = await session.ingest(
                "user", "Goal: fish", markers=[MarkerType.FAILURE, "custom:x"]
            )
            two = await session.ingest("user", "Goal: fish", markers=[])
            await session.ingest("user", "thanks")
            items = {one.id: one for one in await session.recall("fish")}
            assert items[one].markers == ("failure", "custom:x")
            assert items[one].marker_boost == pytest.approx(0.4)
            return plane.event(one).markers, plane.event(two).markers

    assert run(main()) == (("failure", "custom:x"), ())


def test_detection_can_be_switched_off_and_its_patterns_changed(plane):
    """A2-30, A2-35: auto_detect_markers and the patterns are configurable."""

    async def main():
        found = []
        for config in (
            ACMSConfig(auto_detect_markers=False),
            ACMSConfig(marker_patterns={"goal": ["aim"], "custom:pet": ["cat|dog"]}),
        ):
            async with ACMS("s", plane, config=config) as session:
                for text in ("Goal: fish", "Aim high", "see\n dogs", "my aim"):
                    id_ = await session.ingest("user", text)
                    found.append(plane.event(id_).markers)
        return found

    assert run(main()) == [(), (), (), (), (), ("goal",), ("custom:pet",), ()]


def test_weights_of_markers_are_configurable(plane):
    """A2-27, A2-28: the default boosts, and one's own."""

    async def main():
        boosts = []
        marked = ["constraint", "decision", "goal", "failure", "custom:any"]
        async with ACMS("s", plane) as session:
            for marker in marked:
                await session.ingest("user", f"words of {marker[:4]}", markers=[marker])
            await session.close_episode()
            boosts += [one.marker_boost for one in await session.recall("xyz")]
        own = ACMSConfig(marker_weights={"goal": 2, "custom:*": 0.7})
        async with ACMS("s", plane, config=own) as session:
            boosts += [one.marker_boost for one in await session.recall("xyz")]
        return boosts

    assert run(main()) == [0.4, 0.3, 0.3, 0.2, 0.2, 0.0, 0.0, 2.0, 0.0, 0.7]


def test_episodes_close_by_the_rules_of_the_configuration(plane):
    """A2-19, A2-23: max_turns; A2-13: close_episode returns the episode's id."""

    async def main():
        ends = EpisodeBoundaryConfig(max_turns=2, close_on_patterns=[])
        async with ACMS("s", plane, config=ACMSConfig(boundaries=ends)) as session:
            with pytest.raises(EpisodeNotFoundError):
                await session.close_episode()
            for n in range(5):
                await session.ingest("user", f"thanks {n}")
            stats = await session.get_session_stats()
            assert (stats.episode_count, stats.turn_count) == (3, 5)
            closed = await session.close_episode("topic")
            assert closed == stats.open_episode_id
            assert (await session.get_session_stats()).open_episode_id is None
            with pytest.raises(EpisodeNotFoundError):
                await session.close_episode()

    run(main())


def test_statistics_are_a_recount(plane):
    """A2-14: get_session_stats() -> SessionStats."""

    async def main():
        async with ACMS("s", plane) as session:
            empty = await session.get_session_stats()
            assert (empty.turn_count, empty.first_turn_at, empty.open_episode_id) == (0, None, None)
            await session.ingest("user", "Goal: fish")
            await session.ingest("assistant", "Which?")
            await session.ingest("tool", "12 trout")
            return await session.get_session_stats()

    stats = run(main())
    events = list(plane.events(session="s"))
    assert stats.turns_by_role == {"assistant": 1, "tool": 1, "user": 1}
    assert stats.marker_counts == {"goal": 1}
    assert stats.token_count == sum(event.tokens for event in events)
    assert (stats.episode_count, stats.open_episode_id) == (1, None)
    assert type(stats).from_dict(stats.to_dict()) == stats


def test_statistics_are_given_under_policies_that_cannot_be_read(plane):
    async def main():
        async with ACMS("s", plane) as session:
            await session.ingest("user", "Goal: fish")
            before = await session.get_session_stats()
            (plane.home / "policies" / "channels.yaml").write_text("version: [")
            assert await session.get_session_stats() == before

    run(main())


def test_a_session_never_sees_anothers_turns(plane):
    """A2-02: one instance is one session; nothing of another session comes back."""

    async def main():
        rng = random.Random(7)
        names = [f"s{n}" for n in range(8)]
        sessions = {name: ACMS(name, plane) for name in names}
        try:
            for n in range(120):
                name = rng.choice(names)
                word = rng.choice(["Goal: herons", "the heron colony", "soup", "thanks"])
                await sessions[name].ingest("user", f"{word} {n} said by {name}")
            for _ in range(examples(400)):
                name = rng.choice(names)
                budget = rng.randint(1, 300)
                found = await sessions[name].assemble(
                    rng.choice(["herons", "soup", "said by s3", ""]), token_budget=budget
                )
                assert found.total_tokens <= budget
                assert all(one.content.endswith(f"said by {name}") for one in found.items)
        finally:
            for session in sessions.values():
                await session.close()

    run(main())


def test_a_plane_wide_scope_can_be_chosen(plane):
    """A2-02: isolation is the default; `scope` plane is a choice."""

    async def main():
        async with ACMS("a", plane) as one:
            await one.ingest("user", "The heron colony nests at the mill")
        async with ACMS("b", plane, config=ACMSConfig(scope="plane")) as other:
            return len(await other.recall("heron colony"))

    assert run(main()) == 1


def test_budgets_that_admit_nothing_are_an_error(plane):
    """A2-74: TokenBudgetExceededError."""

    async def main():
        async with ACMS("s", plane) as session:
            for budget in (0, -5):
                with pytest.raises(TokenBudgetExceededError):
                    await session.recall("x", token_budget=budget)

    run(main())


def test_marked_turns_that_do_not_fit_are_logged(plane, caplog):
    """A2-48: a warning is logged."""

    async def main():
        async with ACMS("s", plane) as session:
            for n in range(18):
                await session.ingest("user", f"Goal: count herons at pond {n}")
            await session.recall("herons", token_budget=60)

    with caplog.at_level(logging.WARNING, "memplane.acms"):
        run(main())
    assert any("marked_overflow" in one.getMessage() for one in caplog.records)


def test_a_session_goes_on_after_restarts(tmp_path):
    """A2-92, A2-15: 60 turns over three restarts keep their context; close releases the plane."""

    async def main():
        for n in range(60):
            if n % 20 == 0:
                config = ACMSConfig(durability="os")
                make = ACMS.resume if n else ACMS
                made = make("s", tmp_path / "notes", config=config)
                session = await made if n else made
            await session.ingest("user", "Decision: we sail on Friday" if n == 3 else f"turn {n}")
            if n % 20 == 19:
                await session.close()
                await session.close()
        async with await ACMS.resume("s", tmp_path / "notes", config=OS) as session:
            stats = await session.get_session_stats()
            assert stats.turn_count == 60
            found = await session.recall("which day do we sail?")
            assert "Decision: we sail on Friday" in [one.content for one in found]

    run(main())


def test_a_session_that_never_was_cannot_be_resumed(tmp_path):
    async def main():
        with pytest.raises(SessionNotFoundError):
            await ACMS.resume("nobody", tmp_path / "notes")

    run(main())


def test_a_closed_session_refuses_and_the_callers_plane_stays_open(plane):
    """A2-15: close() releases resources; a plane of the caller's stays the caller's."""

    async def main():
        session = ACMS("s", plane)
        await session.ingest("user", "hello")
        await session.close()
        with pytest.raises(StorageError):
            await session.ingest("user", "again")

    run(main())
    assert plane.record("still open").seq
    plane.close()

    async def later():
        with pytest.raises(HomeError):
            await ACMS("s", plane).ingest("user", "again")

    run(later())


def test_what_cannot_be_a_session_is_refused_at_once(plane):
    """A2-01: every argument is checked at construction."""
    for wrong in (
        lambda: ACMS("", plane), lambda: ACMS(7, plane), lambda: ACMS("s", 7),
        lambda: ACMS("s", plane, object()), lambda: ACMS("s", plane, reflector=object()),
        lambda: ACMS("s", plane, token_counter=object()),
    ):  # fmt: skip
        with pytest.raises((ConfigurationError, ValidationError)):
            wrong()


class Words:
    """A counter of one's own."""

    name = "words"

    def __init__(self):
        self.asked = 0

    def count(self, text):
        self.asked += 1
        return len(text.split())


def test_a_counter_of_ones_own_decides_what_fits(plane):
    """A2-62: TokenCounter is replaceable; the recall is within the budget in its own count."""
    counter = Words()

    async def main():
        async with ACMS("s", plane, token_counter=counter) as session:
            for n in range(6):
                await session.ingest("user", f"one two three {n}")
            return await session.assemble("one two three", token_budget=24)

    found = run(main())
    assert found.items
    assert [one.tokens for one in found.items] == [
        len(one.content.split()) + 4 for one in found.items
    ]
    assert found.total_tokens <= 24
    assert counter.asked


def test_who_reads_is_bound_once(plane):
    """T-65: agent_id is bound at construction."""

    async def main():
        plane.record("Goal: the blue door", session="s", role="user", ns="/agent/ann")
        plane.record("thanks", session="s", role="user", ns="/agent/ann")
        async with ACMS("s", plane, config=ACMSConfig(agent="ann")) as session:
            await session.ingest("assistant", "I will paint it")
            mine = await session.recall("blue door")
        async with ACMS("s", plane, config=ACMSConfig(agent="bob")) as session:
            others = await session.recall("blue door")
        return mine, others

    mine, others = run(main())
    assert "Goal: the blue door" in [one.content for one in mine]
    assert "Goal: the blue door" not in [one.content for one in others]
    assert list(plane.events(session="s"))[-1].actor == "ann"


def test_the_settings_are_policies_by_which_a_recall_can_be_made_again(plane):
    """A2-85: ACMSConfig becomes policy bytes: a plane under them recalls the same."""
    config = ACMSConfig(
        boundaries=EpisodeBoundaryConfig(max_turns=3, max_time_gap_seconds=None),
        marker_weights={"goal": 0.5},
        current_episode_budget_pct=0.2,
        carry_last_turns=2,
    )

    async def main():
        async with ACMS("s", plane, config=config) as session:
            for n in range(10):
                await session.ingest(
                    "user", f"Goal: count herons {n}" if n % 4 == 0 else f"pond {n}"
                )
            return await session.assemble("herons at the pond", token_budget=90)

    found = run(main())
    again = plane.under(config.policies(), plane.head().seq).recall(
        "herons at the pond", session="s", budget=90, scope="session"
    )
    assert again == found


def test_every_error_of_a_session_is_an_acms_error(plane):
    """A2-72: one tree."""
    from memplane import acms

    assert acms.ACMSError is MemplaneError
    for name in (
        "ConfigurationError", "ValidationError", "StorageError", "ProviderError",
        "TokenBudgetExceededError", "SessionNotFoundError", "EpisodeNotFoundError", "ConfigError",
        "TulvingError", "SecurityError", "ScopeError",
    ):  # fmt: skip
        assert issubclass(getattr(acms, name), acms.ACMSError)
    assert issubclass(memplane.PolicyError, acms.ConfigurationError)
    assert issubclass(memplane.MissingExtraError, acms.ConfigurationError)
    for name in ("HomeError", "LockError", "WriteError", "CorruptError", "FormatError"):
        assert issubclass(getattr(memplane, name), acms.StorageError)
    assert issubclass(acms.EpisodeNotFoundError, memplane.NotFoundError)


def test_what_was_settled_is_found_again_in_a_long_conversation(plane):
    """A2-50: task continuity, decisions, constraints, failures and current state."""
    settled = {
        4: ("user", "Goal: move the herbarium to the north wing"),
        9: ("assistant", "Decision: the specimens travel in cedar boxes"),
        15: ("user", "Constraint: humidity must stay below 45 percent"),
        22: ("assistant", "Failed: the plastic crates bent on the stairs"),
    }
    asked = (
        ("what are we trying to do?", 4),
        ("what do the specimens travel in?", 9),
        ("how humid may it be?", 15),
        ("did we try plastic crates?", 22),
    )

    async def main():
        async with ACMS("s", plane, config=OS) as session:
            for n in range(150):
                role, text = settled.get(n, ("user", f"Shelf {n} is swept and its labels are read"))
                await session.ingest(role, text)
            found = []
            for query, n in asked:
                items = await session.recall(query, token_budget=400)
                found.append(settled[n][1] in [one.content for one in items])
            last = await session.ingest("user", "We are at shelf 150 now")
            items = await session.recall("where are we?", token_budget=200)
            return found, items[-1].id == last

    assert run(main()) == ([True] * 4, True)
