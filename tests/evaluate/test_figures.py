"""The figures, checked by hand."""

from math import isclose, sqrt

from hypothesis import given, strategies as st

from memplane.evaluate.run import (
    QuestionOutcome,
    RankedQuestion,
    found_in,
    mean_of,
    percentile,
    se_groups,
    se_values,
)

SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=40)


def test_evidence_is_found_whole_or_touched_or_missing():
    evidence = {"a": "p:a", "b": "p:b", "c": "p:c", "d": None}
    assert found_in(evidence, {"p:a", "p:x"}, {"p:b"}) == (1, 2, ("c", "d"))
    assert found_in(evidence, {"p:a"}, {"p:a"}) == (1, 1, ("b", "c", "d"))
    one = QuestionOutcome("talk", "q", "", "memplane", 500, 4, 1, 2, 90, 1, ("c", "d"))
    assert (one.share("whole"), one.share("touched")) == (0.25, 0.5)


def test_recall_at_k_counts_the_evidence_among_the_first_k():
    one = RankedQuestion("talk", "q", "", "memplane", 4, (1, 5, 11), 1)
    assert [one.recall(k) for k in (1, 4, 5, 10, 11)] == [0.25, 0.25, 0.5, 0.5, 0.75]


def test_percentiles_are_values_that_were_there():
    assert [percentile([40, 10, 30, 20], at) for at in (1, 25, 50, 51, 95, 100)] == [
        10, 10, 20, 30, 40, 40,
    ]  # fmt: skip
    assert percentile([], 50) == 0
    assert mean_of([]) == 0.0


def test_the_bootstrap_error_of_half_and_half_is_what_theory_says():
    values = [0.0, 1.0] * 200
    assert isclose(se_values(values), 0.5 / sqrt(400), rel_tol=0.1)
    assert se_values([1.0] * 50) == 0.0
    assert se_values([1.0]) is se_groups({"a": [0.0, 1.0]}) is None
    # Whole conversations that are all right or all wrong: ten draws, not four hundred.
    groups = {str(at): values[at % 2 :: 2][:40] for at in range(10)}
    assert isclose(se_groups(groups), 0.5 / sqrt(10), rel_tol=0.1)


@given(SHARES)
def test_the_same_values_always_give_the_same_error(values):
    assert se_values(values) == se_values(list(values))
    assert 0 <= se_values(values) <= 1
    groups = {"a": values, "b": values[:1], "c": [0.5]}
    assert se_groups(groups) == se_groups(dict(groups))


def test_the_error_is_this_number_on_every_machine():
    assert round(se_values([0.0, 0.5, 1.0, 1.0, 0.25]), 12) == 0.174356388326
