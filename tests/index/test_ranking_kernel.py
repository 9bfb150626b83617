"""What reaches a neighbour: tables over tokens, chains of groups, gaps between turns and chunks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memplane.index.ranking import GAP_MAX, Columns, Kernel, spread_scores, strengths
from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document
from memplane.ports import ONE


@pytest.mark.parametrize("kernel", [Kernel(400, 180, 12), Kernel(500, 700, 60)])
def test_the_table_is_the_exponential_to_five_digits(kernel):
    table = strengths(kernel)
    for gap, strength in enumerate(table.tolist()):
        wanted = ONE * kernel.permille / 1000 * math.exp(-gap / kernel.fade)
        assert abs(strength - wanted) <= 1 + ONE / 100_000
    assert len(table) == GAP_MAX + 1 or table[-1] < ONE / 500


@given(permille=st.integers(0, 1000), fade=st.integers(1, 2000))
def test_what_is_farther_never_hears_more(permille, fade):
    table = strengths(Kernel(permille, fade, 1))
    assert (np.diff(table) <= 0).all()
    assert (table > 0).all()


def frame(turns, upto=None):
    """(seq, tokens, group) of each document, in order."""
    index, parts = SegmentedIndex(), {}
    for seq, tokens, group in turns:
        parts[seq] = parts.get(seq, -1) + 1
        index.add(Document(seq, parts[seq], group, tokens=tokens))
    return Columns().frame(index.view(upto))


WITHIN = Kernel(1000, 100, 12)


def spread(scores, sources, amounts, where, kernel):
    """Add what the sources say to scores, one a document; return the documents reached."""
    docs, said = spread_scores(sources, amounts, where, strengths(kernel), kernel.reach)
    np.add.at(scores, docs, said)
    return docs


def heard(turns, source, kernel=WITHIN):
    """Gap at which each document hears the source, None where it does not."""
    where = frame(turns)
    scores = np.zeros(where.size, np.int64)
    spread(scores, np.array([source]), np.array([ONE]), where, kernel)
    table = strengths(kernel).tolist()
    return [table.index(score) if score else None for score in scores.tolist()]


def test_a_gap_counts_the_turns_between_and_ten_a_turn():
    turns = [(1, 7, "a"), (2, 30, "a"), (3, 99, "a"), (4, 5, "a"), (5, 8, "a")]
    assert heard(turns, 2) == [50, 10, None, 10, 25]


def test_chunks_of_the_own_event_lie_at_no_distance_and_hear_nothing():
    turns = [(3, 400, "a"), (3, 400, "a"), (3, 200, "a"), (4, 8, "a"), (5, 8, "a")]
    assert heard(turns, 0) == [None, None, None, 10, 28]


def test_chunks_of_another_event_are_one_turn_with_their_tokens_between():
    turns = [(1, 9, "a"), (1, 9, "a"), (2, 30, "a"), (4, 400, "a"), (4, 30, "a")]
    assert heard(turns, 2) == [19, 10, None, 10, 410]


def test_a_chain_stays_in_its_group_and_ends_at_its_reach():
    turns = [(1, 1, "a"), (2, 1, "b"), (3, 1, "a"), (4, 1, ""), (5, 1, "a"), (6, 1, "a")]
    assert heard(turns, 0, Kernel(1000, 100, 2)) == [None, None, 10, None, 21, None]
    assert heard(turns, 3) == [None] * 6


def test_nothing_is_heard_from_farther_than_the_table_goes():
    turns = [(1, 1, "a"), (2, 60_000, "a"), (3, 1, "a")]
    assert heard(turns, 0, Kernel(1000, 2000, 12)) == [None, 10, None]
    assert heard(turns, 0, Kernel(0, 2000, 12)) == [None, None, None]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["", "a", "b"])), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_columns_that_grew_are_those_that_were_read_at_once(documents, stops):
    turns = [(seq, tokens, group) for seq, (tokens, group) in enumerate(documents, 1)]
    index, grown = SegmentedIndex(), Columns()
    for seq, tokens, group in turns:
        index.add(Document(seq, 0, group, tokens=tokens))
        if seq in stops:
            grown.frame(index.view())
    ours, theirs = grown.frame(index.view()), frame(turns)
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from("ab")), min_size=1, max_size=20),
    st.data(),
)
def test_what_came_later_is_not_there_in_an_earlier_frame(documents, data):
    turns = [(seq, tokens, group) for seq, (tokens, group) in enumerate(documents, 1)]
    upto = data.draw(st.integers(1, len(turns)))
    source = np.array([data.draw(st.integers(0, upto - 1))])
    kernel, found = Kernel(900, 50, 12), []
    index, columns = SegmentedIndex(), Columns()
    index.add_many(Document(seq, 0, group, tokens=tokens) for seq, tokens, group in turns)
    columns.frame(index.view())
    for where in (columns.frame(index.view(upto)), frame(turns[:upto])):
        scores = np.zeros(where.size, np.int64)
        spread(scores, source, np.array([ONE]), where, kernel)
        found.append(scores.tolist())
    assert found[0] == found[1]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from("ab")), min_size=1, max_size=30),
    st.data(),
)
def test_what_sources_say_together_is_always_the_sum_of_what_each_says_alone(documents, data):
    where = frame([(seq, tokens, group) for seq, (tokens, group) in enumerate(documents, 1)])
    docs = data.draw(st.lists(st.integers(0, len(documents) - 1), min_size=1, unique=True))
    amounts = np.array(data.draw(st.lists(st.integers(1, ONE), min_size=len(docs))))[: len(docs)]
    together, alone = np.zeros((2, where.size), np.int64)
    reached = spread(together, np.array(docs), amounts, where, WITHIN)
    heard_by = set()
    for doc, amount in zip(docs, amounts.tolist(), strict=True):
        one = spread(alone, np.array([doc]), np.array([amount]), where, WITHIN)
        heard_by |= set(one.tolist())
    assert together.tolist() == alone.tolist()
    assert set(reached.tolist()) == heard_by


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.sampled_from(["", "a", "b"]), st.booleans()),
        min_size=1,
        max_size=30,
    ),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_a_chain_of_what_is_seen_is_the_chain_of_a_log_without_the_rest(documents, stops):
    index, columns = SegmentedIndex(), Columns()
    unseen = np.array([hides for _, _, hides in documents])
    shown = [seq for seq, (_, _, hides) in enumerate(documents) if not hides]
    for seq, (tokens, group, _) in enumerate(documents):
        index.add(Document(seq, 0, group, tokens=tokens))
        if seq in stops:  # chains grow with the index
            view = index.view()
            columns.seen(columns.frame(view), view, unseen[: seq + 1], "name")
    view = index.view()
    full = columns.seen(columns.frame(view), view, unseen, "name")
    bare = frame([(seq, *documents[seq][:2]) for seq in shown])
    for place, doc in enumerate(shown):
        scores, alone = np.zeros(full.size, np.int64), np.zeros(bare.size, np.int64)
        spread(scores, np.array([doc]), np.array([ONE]), full, WITHIN)
        spread(alone, np.array([place]), np.array([ONE]), bare, WITHIN)
        assert scores[shown].tolist() == alone.tolist()
        assert scores[unseen].sum() == 0
