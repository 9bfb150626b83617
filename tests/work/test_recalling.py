"""`plane.recall`: what a session is given, with the rows of the plan that it keeps."""

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import BudgetError, InputError
from tests.examples import examples

CHAT = "version: 1\nepisodes: {profile: chat}\n"


def opened(path, **fields):
    plane = memplane.init(path, trusted=False, environment={}, **fields)
    (plane.home / "policies" / "plane.yaml").write_text(CHAT)
    return plane


@pytest.fixture
def plane(tmp_path):
    with opened(tmp_path / "plane") as made:
        yield made


def say(plane, *texts, session="s1", **fields):
    fields = {"role": "user", **fields}
    return [plane.record(text, session=session, **fields).id for text in texts]


def ids(assembly, source=None):
    return [one.id for one in assembly.items if source in (None, one.source)]


def recall(plane, query="the heron colony", **asked):
    return plane.recall(query, **{"session": "s1", "scope": "session", **asked})


def test_the_current_episode_stands_behind_what_was_found_of_the_past(plane):
    """A2-10, A2-43, A2-49: ordered, within the budget, each with its source."""
    old = say(plane, "The heron colony nests at the mill", *["Soup for lunch"] * 5)
    now = say(plane, "And now the boats")
    found = recall(plane)
    assert ids(found, "search") == old  # what stands around a match has some of its relevance
    assert max(found.items, key=lambda one: one.score).id == old[0]
    assert ids(found, "current_episode") == now
    assert ids(found) == [*old, *now]
    assert ids(recall(plane, min_relevance=0.5)) == [old[0], *now]
    assert found.total_tokens == sum(one.tokens for one in found.items) <= found.token_budget
    assert found.budget_remaining == found.token_budget - found.total_tokens


def test_without_the_current_episode_none_of_its_turns_comes_back(plane):
    """A2-12: include_current_episode=False leaves the current episode out, found or not."""
    say(plane, "Soup", *["Bread"] * 5)
    say(plane, "The heron colony is here")
    assert recall(plane, include_current_episode=False).items == ()
    assert len(recall(plane).items) == 1


def test_marked_turns_of_the_past_come_back_whatever_the_query(plane):
    """A2-39, A2-47: foreign words bring the episode and the marked turns, and nothing else."""
    marked = say(plane, "Constraint: no travel on Mondays", *["Soup for lunch"] * 5)[:1]
    now = say(plane, "Boats")
    found = recall(plane, "xylophone quartet")
    assert ids(found) == [*marked, *now]
    (one,) = [item for item in found.items if item.source == "marked"]
    assert (one.relevance, one.marker_boost, one.score) == (0.0, 0.4, 0.4)


def test_nothing_relevant_leaves_the_current_episode_alone(plane):
    """A2-47: nothing relevant: only the current episode is returned."""
    say(plane, *["Soup for lunch"] * 6)
    now = say(plane, "Boats")
    assert ids(recall(plane, "xylophone quartet")) == now


def test_the_parts_of_a_score_add_up(plane):
    """A2-29, A2-40: score = relevance + the sum of the markers' weights."""
    say(plane, "The heron colony", markers=["goal", "constraint", "custom:bird"])
    say(plane, *["Soup"] * 5)
    item = recall(plane).items[0]
    assert item.score == sum(item.parts.values()) == item.relevance + item.marker_boost
    assert item.marker_boost == pytest.approx(0.9)
    assert 0 < item.relevance <= 1


def test_markers_add_nothing_to_relevance(plane):
    """A2-40: the relevance of a marked turn is that of its words."""
    plain = say(plane, "The heron colony nests")
    marked = say(plane, "The heron colony nests", markers=["constraint"])
    say(plane, *["Soup"] * 4)
    found = {one.id: one for one in recall(plane).items}
    assert found[plain[0]].relevance == pytest.approx(found[marked[0]].relevance, abs=0.02)
    assert found[marked[0]].score > found[plain[0]].score


def test_the_least_relevance_drops_past_turns(plane):
    """A2-11: 1.1 leaves the current episode alone, marked turns too."""
    say(plane, "Goal: see the heron colony", *["Soup"] * 5)
    now = say(plane, "Boats")
    found = recall(plane, min_relevance=1.1)
    assert ids(found) == now
    assert {one.reason for one in found.omissions} == {"relevance"}


def test_facts_in_force_come_first_and_forgotten_ones_not(plane):
    """A2-42, A2-49: L2 facts are candidates, before marked turns and the episode."""
    say(plane, "The heron colony is large", *["Soup"] * 5)
    kept = plane.record("The heron colony has 40 nests", kind="fact", session="s1").id
    gone = plane.record("The heron colony has 9 nests", kind="fact", session="s1").id
    plane.forget(id=gone)
    assert ids(recall(plane), "fact") == [kept]
    assert recall(plane).items[0].id == kept


def test_a_session_sees_nothing_of_another_and_the_plane_all(plane):
    """A2-02: nothing of another session comes back, be it marked, found or a fact."""
    say(plane, "Constraint: the heron colony is secret", *["Soup"] * 5, session="bob")
    plane.record("The heron colony is bob's", kind="fact", session="bob")
    mine = say(plane, "The heron colony nests", *["Soup"] * 5)
    assert ids(recall(plane)) == mine
    every = recall(plane, scope="plane")
    assert set(mine) < set(ids(every))
    assert {one.source for one in every.items} == {"marked", "search", "fact"}


def test_marked_turns_above_the_budget_are_warned_of(plane):
    """A2-48: the best by score stay, a warning names how many do not."""
    texts = [f"Goal: count the herons at pond {n}" for n in range(24)]
    say(plane, *texts)
    found = recall(plane, "herons", budget=60)
    assert found.warnings[0].startswith("marked_overflow: ")
    assert found.total_tokens <= 60
    assert {one.reason for one in found.omissions} == {"budget"}


def test_a_large_episode_gives_way_to_its_part_and_its_marked_turns_stay(tmp_path):
    """A2-46: 20 turns, 200 tokens, the first one marked."""
    with opened(tmp_path / "plane") as plane:
        (plane.home / "policies" / "plane.yaml").write_text(
            "version: 1\nepisodes: {profile: none}\n"
        )
        said = say(plane, "Decision: take the ferry", *[f"Word {n} of it" for n in range(19)])
        found = recall(plane, budget=200)
        assert ids(found)[0] == said[0]
        assert ids(found)[1:] == said[-(len(found.items) - 1) :]
        assert found.total_tokens <= 80


def test_turns_of_the_episode_before_are_carried_where_the_policy_says_so(plane):
    """G3: right after a boundary the current episode is empty; carry_last_turns keeps continuity."""
    said = say(plane, *[f"Turn {n}" for n in range(6)])
    assert recall(plane, "boats").items == ()
    (plane.home / "policies" / "scoring.yaml").write_text(
        "version: 1\nprofiles: {acms-v2: {carry_last_turns: 4}}\n"
    )
    assert ids(recall(plane, "boats")) == said[-4:]
    more = say(plane, "Turn 6")
    assert ids(recall(plane, "boats")) == [*said[-4:], *more]


def test_the_first_profile_lets_the_episode_compete(plane):
    """A1-01, A1-02, A1-04: one sum for all candidates, in log order."""
    old = say(plane, "The heron colony nests at the mill", *["Soup for lunch"] * 5)
    now = say(plane, "Boats", "The heron colony again")
    found = recall(plane, profile="acms-v1")
    assert ids(found) == [*old, *now]
    assert set(found.items[0].parts) == {"relevance", "recency", "coherence"}
    tight = recall(plane, profile="acms-v1", budget=14)
    assert ids(tight) in ([old[0]], [now[1]])


@pytest.mark.parametrize("profile", ["acms-v2", "acms-v1"])
def test_an_empty_session_and_an_empty_query_give_nothing_and_no_error(plane, profile):
    """A2-94: empty sessions work."""
    assert recall(plane, profile=profile).items == ()
    now = say(plane, "Boats")
    assert ids(recall(plane, "", profile=profile)) == now


def test_a_huge_turn_is_passed_over(plane):
    """A2-94: huge messages work."""
    say(plane, "heron " * 40_000)
    found = recall(plane)
    assert found.items == ()
    assert [one.reason for one in found.omissions] == ["episode_share"]


def test_what_cannot_be_asked_is_refused_by_its_name(plane):
    """A2-74: a budget that cannot be met is an error."""
    for budget in (0, -1):
        with pytest.raises(BudgetError):
            recall(plane, budget=budget)
    for wrong in (
        {"budget": 1.5}, {"budget": True}, {"profile": "v3"}, {"scope": "all"}, {"session": 7},
        {"min_relevance": -0.1}, {"min_relevance": float("nan")}, {"min_relevance": "high"},
        {"include_current_episode": 1}, {"channel": "nobody"},
    ):  # fmt: skip
        with pytest.raises(InputError, match=next(iter(wrong))):
            recall(plane, **wrong)


def test_what_a_channel_may_not_see_is_recalled_on_none(plane):
    hidden = say(plane, "Goal: the heron colony", "The heron colony", sensitivity="high")
    say(plane, *["Soup"] * 4)
    assert set(hidden) <= set(ids(recall(plane)))
    assert recall(plane, channel="agent").items == ()
    assert recall(plane, channel="agent").omissions == ()


def test_a_recall_writes_nothing_and_is_the_same_again(plane):
    say(plane, "The heron colony", *["Soup"] * 8)
    first, before = recall(plane), plane.head()
    assert recall(plane) == first
    assert plane.head() == before
    assert type(first).from_dict(first.to_dict()) == first


def test_a_recall_of_a_prefix_is_what_it_was_then(plane):
    say(plane, "The heron colony", *["Soup"] * 8)
    now = "2026-01-05T12:00:00Z"
    then, seq = recall(plane, now=now), plane.head().seq
    say(plane, "The heron colony once more", *["Goal: fish"] * 8)
    assert recall(plane.at(seq), now=now) == then
    assert recall(plane, now=now) != then


QUERIES = st.sampled_from(["heron colony", "soup", "goal", "", "xylophone", "mill at noon"])


@settings(max_examples=examples(6))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["s1", "s2"]),
            st.sampled_from(["user", "assistant", "tool"]),
            st.sampled_from(["Goal: herons", "soup and heron", "thanks", "the mill at noon " * 9]),
        ),
        max_size=30,
    ),
    st.lists(
        st.tuples(QUERIES, st.integers(1, 400), st.sampled_from(["acms-v2", "acms-v1"])),
        min_size=20,
        max_size=20,
    ),
)
def test_no_recall_is_above_its_budget_or_of_another_session(tmp_path_factory, said, asked):
    """A2-02, A2-10: whatever was said and is asked."""
    with opened(tmp_path_factory.mktemp("planes") / "plane") as plane:
        session = {plane.record(text, role=role, session=one).id: one for one, role, text in said}
        count = plane.context.counter(plane.upkeep.policies).count
        for query, budget, profile in asked:
            found = recall(plane, query, budget=budget, profile=profile)
            assert found.total_tokens == sum(count(one.content) + 4 for one in found.items)
            assert found.total_tokens <= budget
            assert {session[one.id] for one in found.items} <= {"s1"}
