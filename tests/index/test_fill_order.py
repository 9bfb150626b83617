"""The order in which a block is filled: value per token, passages first, then growth."""

import numpy as np
from hypothesis import given, strategies as st

from memplane.index.fill_order import FillingParameters, filling_steps
from memplane.ports import ONE

WHOLE = FillingParameters(passage_tokens=0)


def plan(events, budget=2000, packing=WHOLE):
    """(score, tokens, importance, seq) of each event -> (place, grows, value), best first."""
    columns = np.array(events, np.int64).reshape(-1, 4).T
    return list(
        zip(*(part.tolist() for part in filling_steps(*columns, budget, packing)), strict=True)
    )


def places(events, **rest):
    return [place for place, _, _ in plan(events, **rest)]


def test_a_short_turn_goes_before_a_long_one_that_is_as_relevant():
    assert places([(ONE, 400, 0, 1), (ONE, 40, 0, 2)]) == [1, 0]


def test_a_small_block_weighs_relevance_more_and_a_large_one_length():
    events = [(ONE * 34 // 10, 400, 0, 1), (ONE, 20, 0, 2)]
    assert places(events, budget=500) == [0, 1]
    assert places(events, budget=8000) == [1, 0]


def test_equal_values_go_by_importance_then_the_newer():
    events = [(ONE, 9, 1, 9), (ONE, 9, 2, 3), (ONE, 9, 2, 4), (2 * ONE, 9, 0, 1)]
    assert places(events) == [3, 2, 1, 0]


@given(
    st.integers(1, 1 << 26),
    st.integers(0, 100_000),
    st.sampled_from([(500, 8), (2999, 8), (3000, 9), (9000, 9)]),
)
def test_the_value_of_a_whole_turn_is_its_score_by_a_power_of_its_length(score, tokens, at):
    budget, sixteenths = at
    wanted = score * 1024 / (tokens + 20) ** (sixteenths / 16)
    for _, _, value in plan([(score, tokens, 0, 1)], budget=budget):
        assert abs(value - wanted) <= 1 + wanted / 1e12


EVENTS = st.lists(
    st.tuples(st.integers(0, 1 << 24), st.integers(0, 3000), st.integers(0, 9), st.integers(1, 99)),
    max_size=20,
    unique_by=lambda event: event[3],
)


@given(EVENTS, st.integers(1, 20_000))
def test_an_event_never_grows_before_it_is_shown_and_short_ones_never_grow(events, budget):
    shown = {}
    packing = FillingParameters()
    for place, grows, value in plan(events, budget, packing):
        assert value > 0
        if grows:
            assert value <= shown[place]
            assert events[place][1] > packing.whole_tokens
        else:
            assert place not in shown
            shown[place] = value


@given(EVENTS, st.integers(1, 20_000))
def test_without_passages_nothing_grows(events, budget):
    assert not any(grows for _, grows, _ in plan(events, budget, WHOLE))


@given(EVENTS, st.integers(1, 20_000), st.randoms(use_true_random=False))
def test_the_order_of_candidates_never_matters(events, budget, chance):
    mixed = list(events)
    chance.shuffle(mixed)
    ours = [
        (events[place][3], grows, value)
        for place, grows, value in plan(events, budget, FillingParameters())
    ]
    theirs = [
        (mixed[place][3], grows, value)
        for place, grows, value in plan(mixed, budget, FillingParameters())
    ]
    assert ours == theirs


def test_the_best_turns_come_whole_before_the_last_passages_are_shown():
    events = [(ONE, 800, 0, 1), *((ONE // 20, 800, 0, seq) for seq in range(2, 9))]
    order = plan(events, packing=FillingParameters())
    assert [(place, grows) for place, grows, _ in order[:2]] == [(0, False), (0, True)]


def test_passages_of_turns_as_good_come_before_the_rest_of_one_long_turn():
    order = plan([(ONE, 800, 0, seq) for seq in range(1, 4)], packing=FillingParameters())
    assert [grows for _, grows, _ in order] == [False] * 3 + [True] * 3


@given(EVENTS, st.integers(1, 20_000))
def test_a_turn_whose_rest_is_no_dearer_than_its_passage_always_comes_whole_at_once(events, budget):
    order = plan(events, budget, FillingParameters())
    for here, (place, grows, value) in enumerate(order):
        if 40 < events[place][1] <= 60:  # little longer than a passage
            there = here - 1 if grows else here + 1
            assert order[there] == (place, not grows, value)


def test_the_part_of_a_turn_that_a_passage_carries_is_worth_less_the_longer_the_turn_is():
    show = {
        place: value
        for place, grows, value in plan(
            [(ONE, tokens, 0, seq) for seq, tokens in enumerate((300, 600, 900), 1)],
            packing=FillingParameters(),
        )
        if not grows
    }
    assert show[0] > show[1] > show[2]
