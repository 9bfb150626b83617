"""The figures, checked by hand."""

from math import isclose, sqrt
from typing import NamedTuple

from hypothesis import given, strategies as st

from memplane.evaluate import (
    EvidenceWords,
    QuestionOutcome,
    RankedQuestion,
    found_in,
    mean_of,
    percentile,
    se_groups,
    se_values,
)
from memplane.pack.block import Entry
from memplane.pack.layout import Rendered

SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=40)


class Said(NamedTuple):
    """An event of a plane that stands in memory alone."""

    id: str
    text: str


class Shelved:
    """As much of a plane as is asked for the words of evidence."""

    def __init__(self, **texts):
        self.texts = texts

    def event(self, name, *, channel):
        assert channel == "private"
        return Said(name, self.texts[name])

    def text(self, event):
        return event.text


def block_of(*entries):
    """A block with these entries, each (text, whole events, events in part)."""
    lines = [f"user: {text}\n" for text, _, _ in entries]
    body = "".join(["## Evidence: quoted data\n", "~~~~\n", *lines, "~~~~\n"])
    placed = [
        Entry("retrieved_evidence", "tail", line, 9, 0, whole, parts, "event", "G", 1)
        for line, (_, whole, parts) in zip(lines, entries, strict=True)
    ]
    return Rendered(body, 90, 8, tuple(placed), {}, ())


WORDS = EvidenceWords(
    Shelved(a="Spruce.", b="The mast was cut from spruce in March", c="Of it", x="Rope"), "private"
)


def test_evidence_is_found_whole_or_touched_or_missing():
    evidence = {"1": "a", "2": "b", "3": "c", "4": None}
    block = block_of(("Spruce.", ("a",), ()), ("Rope", ("x",), ()), ("it was cut", (), ("b",)))
    assert found_in(evidence, block, WORDS) == (1, 1.25, 2, ("3", "4"))
    both = block_of(("Spruce.", ("a",), ()), ("Spruce", (), ("a",)))
    assert found_in(evidence, both, WORDS) == (1, 1, 1, ("2", "3", "4"))
    one = QuestionOutcome("talk", "q", "", "memplane", 500, 4, 1, 1.5, 2, 90, 1, ("c", "d"))
    assert [one.share(column) for column in ("whole", "words", "touched")] == [0.25, 0.375, 0.5]


def test_words_count_where_an_entry_of_their_own_event_says_them_in_whatever_form():
    def share(*entries):
        return found_in({"2": "b"}, block_of(*entries), WORDS).words

    assert share(("cutting masts", (), ("b",))) == 0.5
    assert share(("cut", (), ("b",)), ("March, and masts", (), ("b",))) == 0.75
    assert share(("the was from in", (), ("b",))) == 0  # words that say nothing
    assert share(("The mast was cut from spruce in March", (), ("a",))) == 0  # of another event
    assert found_in({"3": "c"}, block_of(("Of it", (), ("c",))), WORDS).words == 0


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("mast spruce march rope the cut".split())).map(" ".join),
            st.lists(st.sampled_from("abcx"), max_size=2).map(tuple),
            st.lists(st.sampled_from("abcx"), max_size=2).map(tuple),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_words_found_always_lie_between_what_is_whole_and_what_is_touched(entries):
    evidence = {"1": "a", "2": "b", "3": "c", "4": None}
    found = found_in(evidence, block_of(*entries), WORDS)
    assert found.whole <= found.words <= found.touched == len(evidence) - len(found.missing)


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
