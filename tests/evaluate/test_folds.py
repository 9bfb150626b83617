"""Cross-validation by conversation."""

import pytest
from hypothesis import given, strategies as st

from memplane.errors import InputError
from memplane.evaluate import QuestionOutcome, cross_validate, deal


def outcome(conversation, found, budget=500, system="memplane"):
    """An answer that needs 4 events and found so many of them, all touched."""
    missing = tuple("abcd"[found:])
    return QuestionOutcome(conversation, "q", "", system, budget, 4, found, 4, 4, 90, None, missing)


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 50), min_size=2, max_size=12),
    st.data(),
)
def test_every_conversation_is_always_in_one_fold_and_no_fold_is_empty(sizes, data):
    k = data.draw(st.integers(2, len(sizes)))
    dealt = deal(sizes, k)
    assert set(dealt) == set(sizes)
    assert set(dealt.values()) == set(range(k))
    assert deal(dict(reversed(sizes.items())), k) == dealt


def test_folds_are_of_about_equal_size():
    assert deal({"a": 9, "b": 5, "c": 4, "d": 1}, 2) == {"a": 0, "b": 1, "c": 1, "d": 0}


@pytest.mark.parametrize("k", [0, 1, 3])
def test_more_folds_than_conversations_or_fewer_than_two_are_refused(k):
    with pytest.raises(InputError, match=f"found {k} folds of 2 conversations"):
        deal({"a": 1, "b": 1}, k)


def test_a_candidate_is_chosen_without_looking_at_the_fold_that_judges_it():
    # `flat` is the same everywhere; `odd` is made for conversation a and bad in the others.
    found = {
        b"flat": [outcome("a", 2), outcome("b", 2), outcome("c", 2)],
        b"odd": [outcome("a", 4), outcome("b", 1), outcome("c", 2)],
    }
    done = cross_validate({"flat": b"flat", "odd": b"odd"}, found.__getitem__, 3)
    # Without a: flat .5, odd .375. Without b: flat .5, odd .75. Without c: .5, .625.
    assert [(one.candidate, one.others, one.own) for one in done.folds] == [
        ("flat", 0.5, 0.5), ("odd", 0.75, 0.25), ("odd", 0.625, 0.5),
    ]  # fmt: skip
    assert done.honest == pytest.approx(1.25 / 3)
    assert done.fitted == pytest.approx({"flat": 0.5, "odd": 7 / 12})


def test_only_the_product_counts_and_the_first_of_equals_is_chosen():
    same = [outcome("a", 2), outcome("b", 2), outcome("b", 4, system="recency")]
    done = cross_validate({"x": b"1", "y": b"2"}, lambda _: same, 2)
    assert {one.candidate for one in done.folds} == {"x"}
    assert done.honest == 0.5
    assert cross_validate({"x": b"1"}, lambda _: same, 2, column="touched").honest == 1.0
    with pytest.raises(InputError, match="candidate"):
        cross_validate({}, lambda _: same, 2)
