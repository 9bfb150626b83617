"""The two profiles of a recall, as functions of values: budgets, order, edges."""

from hypothesis import given, strategies as st

from memplane.policy.records import BlendedProfile, EpisodeFirstProfile
from memplane.recall.profiles import (
    ITEM_TOKENS,
    RecallCandidate,
    blended,
    episode_first,
    marker_weight,
)

WEIGHTS = {"constraint": 400, "decision": 300, "goal": 300, "failure": 200, "custom": 200}
FIRST = EpisodeFirstProfile(WEIGHTS, 400_000, 0)
BLENDED = BlendedProfile(600, 200, 24, 200)
NOW = "2026-01-05T12:00:00.000000Z"
MARKERS = st.lists(
    st.sampled_from(["constraint", "decision", "goal", "failure", "custom:mood"]), max_size=3
).map(tuple)


def made(seq, source="search", relevance=0, markers=(), ts=NOW, episode="s/1"):
    return RecallCandidate(seq, f"e{seq}", source, relevance, ts, markers, episode)


@st.composite
def candidates(draw):
    """An episode, past candidates with seqs below it, and what each costs."""
    count = draw(st.integers(0, 25))
    past = [
        made(
            seq + 1,
            draw(st.sampled_from(["marked", "search", "fact"])),
            draw(st.integers(0, 1000)),
            draw(MARKERS),
            draw(st.sampled_from([NOW, "2026-01-01T00:00:00.000000Z", "2025-01-01T00:00:00Z"])),
            draw(st.sampled_from(["s/1", "s/9", None])),
        )
        for seq in range(count)
    ]
    episode = [
        made(count + 1 + n, "current_episode", draw(st.integers(0, 1000)), draw(MARKERS))
        for n in range(draw(st.integers(0, 20)))
    ]
    costs = {one.seq: draw(st.integers(0, 90)) for one in (*past, *episode)}
    return episode, past, costs


def chosen(episode, past, costs, budget, least=0, profile=FIRST):
    return episode_first(
        profile, episode, past, budget=budget, least=least, cost=lambda one: costs[one.seq]
    )


def seqs(choice):
    return [one.scored.candidate.seq for one in choice.kept]


@given(candidates(), st.integers(1, 900), st.integers(0, 1100))
def test_a_recall_never_costs_more_than_its_budget_and_loses_no_candidate(given_, budget, least):
    """A2-10, A1-03: within the budget, whatever the candidates, and each one kept or named."""
    episode, past, costs = given_
    for choice in (
        chosen(episode, past, costs, budget, least),
        blended(
            BLENDED, episode, past, budget=budget, least=least, now=NOW,
            cost=lambda one: costs[one.seq],
        ),
    ):  # fmt: skip
        assert choice.tokens == sum(one.tokens for one in choice.kept) <= budget
        for one in choice.kept:
            assert one.tokens == costs[one.scored.candidate.seq] + ITEM_TOKENS
        left = [one.scored.candidate.seq for one in choice.passed]
        assert sorted(left + seqs(choice)) == sorted(one.seq for one in (*episode, *past))


@given(candidates(), st.integers(1, 900))
def test_the_current_episode_takes_no_more_than_its_part(given_, budget):
    """A2-43: unscored, first in the budget, up to 40 %."""
    episode, past, costs = given_
    choice = chosen(episode, past, costs, budget)
    own = [one for one in choice.kept if one.scored.candidate.source == "current_episode"]
    assert sum(one.tokens for one in own) <= budget * 4 // 10
    assert {one.scored.score for one in own} <= {0}
    # And it is the same whatever else there is.
    alone = chosen(episode, [], costs, budget)
    assert [one.scored.candidate.seq for one in own] == seqs(alone)


@given(candidates(), st.integers(1, 900))
def test_the_score_of_a_past_turn_is_its_relevance_and_the_sum_of_its_markers(given_, budget):
    """A2-29, A2-40: summed over the markers, uncapped, with no term of its age."""
    episode, past, costs = given_
    for one in (*(choice := chosen(episode, past, costs, budget)).kept, *choice.passed):
        candidate = one.scored.candidate
        if candidate.source != "current_episode":
            boost = sum(marker_weight(name, WEIGHTS) for name in set(candidate.markers))
            assert one.scored.parts == {"relevance": candidate.relevance, "markers": boost}
            assert one.scored.score == candidate.relevance + boost


@given(candidates(), st.integers(1, 900))
def test_facts_stand_first_then_the_past_then_the_current_episode(given_, budget):
    """A2-49: L2 facts, marked past turns with what was found, current episode; by time in each."""
    part = {"fact": 0, "marked": 1, "search": 1, "current_episode": 2}
    choice = chosen(*given_, budget)
    order = [(part[one.scored.candidate.source], one.scored.candidate.seq) for one in choice.kept]
    assert order == sorted(order)


@given(candidates(), st.integers(1, 900))
def test_the_blend_is_shown_in_log_order_and_its_parts_are_bounded(given_, budget):
    """A1-01, A1-04: relevance, recency and coherence; ordered by seq."""
    episode, past, costs = given_
    choice = blended(
        BLENDED, episode, past, budget=budget, least=0, now=NOW, cost=lambda one: costs[one.seq]
    )
    assert seqs(choice) == sorted(seqs(choice))
    for one in (*choice.kept, *choice.passed):
        parts = one.scored.parts
        assert set(parts) == {"relevance", "recency", "coherence"}
        assert 0 <= parts["relevance"] <= 600
        assert 0 <= parts["recency"] <= 200
        assert 0 <= parts["coherence"] <= 200


def test_custom_markers_weigh_what_custom_does_and_unknown_ones_nothing():
    """A2-27: constraint 0.4, decision and goal 0.3, failure and custom 0.2."""
    weighed = [marker_weight(name, WEIGHTS) for name in (*WEIGHTS, "custom:x", "strange")]
    assert weighed == [400, 300, 300, 200, 200, 200, 0]


def test_an_episode_above_its_part_keeps_its_newest_and_all_marked_turns():
    """A2-46: 20 turns, 200 tokens, the first one marked: oldest go, newest and marked stay."""
    episode = [
        made(n, "current_episode", markers=("decision",) if n == 1 else ()) for n in range(1, 21)
    ]
    choice = chosen(episode, [], dict.fromkeys(range(1, 21), 6), 200)
    assert seqs(choice) == [1, 14, 15, 16, 17, 18, 19, 20]
    assert {one.reason for one in choice.passed} == {"episode_share"}
    assert choice.warnings == ()


def test_marked_turns_above_the_budget_are_the_best_by_score_with_one_warning():
    """A2-44, A2-48: 50 marked turns, room for 5: the five best, and a warning."""
    past = [made(n, "marked", relevance=n * 10, markers=("goal",)) for n in range(1, 51)]
    choice = chosen([], past, dict.fromkeys(range(1, 51), 16), 100)
    assert seqs(choice) == [46, 47, 48, 49, 50]
    assert choice.warnings == ("marked_overflow: 45 of 50 marked turns left out",)
    assert {one.reason for one in choice.passed} == {"budget"}


def test_a_marked_turn_of_no_relevance_comes_before_what_was_found():
    """A2-39, A2-44: marked turns are always candidates, and come before facts and findings."""
    past = [made(1, "marked", 0, ("failure",)), made(2, "search", 1000), made(3, "fact", 1000)]
    choice = chosen([], past, {1: 10, 2: 10, 3: 10}, 20)
    assert seqs(choice) == [1]


def test_facts_and_findings_share_what_is_left_by_score():
    """A2-45: then facts and search results by score until the budget ends."""
    past = [
        made(1, "fact", 300),
        made(2, "search", 500),
        made(3, "search", 400),
        made(4, "fact", 900),
    ]
    assert seqs(chosen([], past, dict.fromkeys(range(1, 5), 6), 20)) == [4, 2]


def test_the_least_relevance_is_asked_of_all_but_the_episode():
    """A2-11: min_relevance drops past turns below it, marked ones too; 1.1 leaves the episode."""
    episode = [made(9, "current_episode")]
    past = [made(1, "marked", 600, ("goal",)), made(2, "search", 700), made(3, "fact", 699)]
    costs = dict.fromkeys((1, 2, 3, 9), 5)
    assert seqs(chosen(episode, past, costs, 900, 700)) == [2, 9]
    assert seqs(chosen(episode, past, costs, 900, 1100)) == [9]


def test_what_is_too_large_is_passed_over_and_the_smaller_behind_it_is_kept():
    past = [made(1, "search", 900), made(2, "search", 800), made(3, "search", 700)]
    assert seqs(chosen([], past, {1: 10, 2: 500, 3: 10}, 60)) == [1, 3]


def test_equal_scores_go_to_the_newer_and_age_counts_nothing():
    """A2-40: the same text at two ages has the same score; no recency term."""
    past = [made(1, "search", 500, ts="2020-01-01T00:00:00Z"), made(2, "search", 500)]
    choice = chosen([], past, {1: 10, 2: 10}, 20)
    assert seqs(choice) == [2]
    assert choice.passed[0].scored.score == choice.kept[0].scored.score


def test_the_blend_halves_recency_with_each_half_life():
    """A1-01: recency by the request's clock; the episode competes by score, A1-02."""
    episode = [made(2, "current_episode")]
    past = [made(1, "search", ts="2026-01-04T12:00:00.000000Z", episode=None)]
    choice = blended(BLENDED, episode, past, budget=99, least=0, now=NOW, cost=lambda _: 5)
    parts = {one.scored.candidate.seq: one.scored.parts for one in choice.kept}
    assert parts[1] == {"relevance": 0, "recency": 100, "coherence": 0}
    assert parts[2] == {"relevance": 0, "recency": 200, "coherence": 100}


def greedy(scored, room, costs):
    """The best first, the newer where equal; one that does not fit is passed over."""
    kept = []
    for _, seq in sorted(scored, reverse=True):
        if costs[seq] + ITEM_TOKENS <= room:
            kept.append(seq)
            room -= costs[seq] + ITEM_TOKENS
    return kept, room


@given(candidates(), st.integers(1, 900), st.integers(0, 1100))
def test_the_blend_chooses_greedily_by_score(given_, budget, least):
    """A1-01, A1-03: of all candidates together, until the budget is spent."""
    episode, past, costs = given_
    choice = blended(
        BLENDED, episode, past, budget=budget, least=least, now=NOW,
        cost=lambda one: costs[one.seq],
    )  # fmt: skip
    every = [one.scored for one in (*choice.kept, *choice.passed)]
    past_seqs = {one.seq for one in past}
    scored = [
        (one.score, one.candidate.seq)
        for one in every
        if one.candidate.seq not in past_seqs or one.candidate.relevance >= least
    ]
    assert sorted(seqs(choice)) == sorted(greedy(scored, budget, costs)[0])


@given(candidates(), st.integers(1, 900), st.integers(0, 1100))
def test_behind_the_episode_marked_turns_come_before_facts_and_findings_each_by_score(
    given_, budget, least
):
    """A2-44, A2-45: marked turns by score within what is left, then the others together."""
    episode, past, costs = given_
    choice = chosen(episode, past, costs, budget, least)
    own = {one.seq for one in episode}
    spent = sum(one.tokens for one in choice.kept if one.scored.candidate.seq in own)
    every = [one.scored for one in (*choice.kept, *choice.passed)]
    relevant = [
        one for one in every if one.candidate.seq not in own and one.candidate.relevance >= least
    ]
    parts = [
        [
            (one.score, one.candidate.seq)
            for one in relevant
            if (one.candidate.source == "marked") is marked
        ]
        for marked in (True, False)
    ]
    first, left = greedy(parts[0], budget - spent, costs)
    second, _ = greedy(parts[1], left, costs)
    assert sorted(set(seqs(choice)) - own) == sorted((*first, *second))
