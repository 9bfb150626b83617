"""The kernel finds the terms of some segments where its twin finds them."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memplane import kernel
from memplane.index.segment import TermTables
from tests.examples import examples

pytestmark = pytest.mark.skipif(kernel.BUILT is None, reason="the kernel was not built")

# Terms are hashes, but nobody has to believe it: some lie together, at both ends, too.
TERMS = st.one_of(
    st.integers(1, (1 << 64) - 1),
    st.integers(1, 90),
    st.integers((1 << 64) - 90, (1 << 64) - 1),
    st.integers(1 << 63, (1 << 63) + 900),
)


def table_of(terms):
    """A table of these terms, each with one posting or more."""
    own = np.array(sorted(terms), np.uint64)
    return own, np.cumsum(np.append(0, own % np.uint64(7) + np.uint64(1)), dtype=np.uint32)


def found_in(tables, wanted):
    """The rows of the kernel, which its twin finds, too."""
    wanted = np.array(wanted, np.uint64)
    expected = TermTables(tables).of(wanted)
    assert bytes(kernel.BUILT.TermTables(tables).of(wanted)) == expected.tobytes()
    return expected.tolist()


@settings(max_examples=examples(600), deadline=None)
@given(
    st.lists(st.sets(TERMS, max_size=60).map(table_of), max_size=4).map(tuple),
    st.lists(TERMS, max_size=20),
    st.randoms(use_true_random=False),
)
def test_the_same_terms_are_found_in_the_same_order(tables, wanted, chance):
    there = [int(term) for terms, _ in tables for term in terms]
    wanted += chance.choices(there, k=20) if there else []
    rows = found_in(tables, wanted)
    assert rows == sorted(rows)
    assert [table[0][place] for table, place in places(tables, rows)] == [
        np.uint64(wanted[row[1]]) for row in rows
    ]


def places(tables, rows):
    """The table of each row, and the place of its term there."""
    for at, _, begin, _ in rows:
        yield tables[at], int(np.searchsorted(tables[at][1], begin, "right")) - 1


@pytest.mark.parametrize("size", [1, 2, 33, 40_000])
def test_each_term_of_a_table_is_found_and_none_between_them(size):
    chance = np.random.default_rng(size)
    terms = np.unique(chance.integers(2, 1 << 63, size).astype(np.uint64) * np.uint64(2))
    table = terms, np.arange(len(terms) + 1, dtype=np.uint32)
    found = found_in((table,), terms)
    assert [row[1:] for row in found] == [[at, at, at + 1] for at in range(len(terms))]
    assert (
        found_in((table,), terms + np.uint64(1)) == found_in((table,), terms - np.uint64(1)) == []
    )


def test_a_table_that_does_not_rise_ends_the_search_within_it():
    terms = np.random.default_rng(5).integers(0, 1 << 63, 5_000).astype(np.uint64)
    built = kernel.BUILT.TermTables(((terms, np.zeros(5_001, np.uint32)),))
    rows = np.frombuffer(built.of(terms), np.int64).reshape(-1, 4)
    assert (rows[:, 2:] == 0).all()
    assert len(rows) < len(terms)


@pytest.mark.parametrize("starts", [np.zeros(3, np.uint32), np.zeros(4, np.int64)])
def test_a_table_without_a_start_for_each_term_is_refused(starts):
    with pytest.raises(ValueError, match="a start for each term and one more"):
        kernel.BUILT.TermTables(((np.arange(3, dtype=np.uint64), starts),))
