"""The kernel's sums of postings are those of its twin in arrays, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memplane import kernel
from memplane.index.bm25 import BM25, Weights
from memplane.index.lexical import PostingSums
from tests.examples import examples

pytestmark = pytest.mark.skipif(kernel.BUILT is None, reason="the kernel was not built")

FIELDS = 4
TERMS = 6


def made(seed, sizes, *, limit, masks):
    """Blocks with postings by chance, and what a query of six terms a field asks of them."""
    chance = np.random.default_rng(seed)
    blocks, rows, first = [], [], 0
    for place, size in enumerate(sizes):
        docs, here = [], []
        for field in range(FIELDS):
            for term in range(TERMS):
                own = np.flatnonzero(chance.random(size) < chance.random())
                own = own[own + first < limit]
                begin = sum(map(len, docs))
                if len(own):
                    here.append((place, field, field * TERMS + term, begin, begin + len(own)))
                    docs.append(own)
        docs = np.concatenate([*docs, np.zeros(0, int)]).astype(np.uint16)
        lengths = [chance.integers(1, 1_500, size).astype(np.uint16) for _ in range(3)]
        times = chance.integers(1, 256, len(docs)).astype(np.uint8)
        blocks.append((first, size, docs, times, *lengths))
        rows += here
        first += size
    slices = np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 5)
    hidden, apart = (chance.random(first) < 0.3 if there else None for there in masks)
    weights = [np.sort(chance.random(FIELDS * TERMS)) * 9 for _ in range(2)]
    return (tuple(blocks), slices, min(limit, first), hidden, apart), weights


WORLDS = st.builds(
    made,
    st.integers(0, 1 << 32),
    # What is added up at a time are 512 documents.
    st.lists(st.integers(0, 90) | st.sampled_from([511, 512, 513, 2_500]), max_size=4),
    limit=st.integers(0, 300) | st.integers(1_000, 5_000),
    masks=st.tuples(st.booleans(), st.booleans()),
)


@settings(max_examples=examples(600), deadline=None)
@given(WORLDS, st.tuples(st.floats(0.1, 3), st.floats(0, 1)), st.floats(0.5, 900))
def test_documents_and_sums_are_the_same_bytes(world, constants, average):
    given_, (strength, rare) = world
    built, plain = kernel.BUILT.PostingSums(*given_), PostingSums(*given_)
    assert bytes(built.counts()) == plain.counts().tobytes()
    averages = (average, average / 2, average / 3, average)
    asked = (strength, rare, averages, BM25(*constants), Weights(0.7, 0.2, 0.3))
    parts = zip(built.of(*asked), plain.of(*asked), strict=True)
    assert all(bytes(one) == other.tobytes() for one, other in parts)


def asked_of(given_, slices, limit, weights=9):
    """What the kernel gives of postings, all terms worth the same."""
    sums = kernel.BUILT.PostingSums(given_, slices, limit, None, None)
    return sums.of(np.ones(weights), np.ones(weights), (1.0,) * 4, BM25(), Weights())


def block(docs=(0, 1), size=2, lengths=2):
    column = np.ones(lengths, np.uint16)
    return (0, size, np.array(docs, np.uint16), np.ones(len(docs), np.uint8), *[column] * 3)


@pytest.mark.parametrize(
    ("one", "row", "limit"),
    [
        (block(), (1, 0, 0, 0, 1), 2),  # no such block
        (block(), (-1, 0, 0, 0, 1), 2),
        (block(), (0, 4, 0, 0, 1), 2),  # no such field
        (block(), (0, 0, -1, 0, 1), 2),
        (block(), (0, 0, 0, 0, 3), 2),  # more than there is
        (block(), (0, 0, 0, -1, 1), 2),
        (block(), (0, 0, 0, 2, 1), 2),
        (block(docs=(0, 2)), (0, 0, 0, 0, 2), 9),  # a document that the block has not
        (block(docs=(1, 0)), (0, 0, 0, 0, 2), 9),  # they do not rise
        (block(docs=(1, 1)), (0, 0, 0, 0, 2), 9),
        (block(), (0, 0, 0, 0, 2), 1),  # behind the limit
        (block(lengths=1), (0, 0, 0, 0, 1), 2),
        (block(), (0, 0, 0, 0, 1), 1 << 40),
    ],
)
def test_postings_of_a_broken_file_are_refused_and_never_read(one, row, limit):
    with pytest.raises(ValueError, match=r"slice|lengths"):
        asked_of((one,), np.array([row], np.int64), limit)


def test_blocks_that_do_not_follow_each_other_are_refused():
    none = np.zeros((0, 5), np.int64)
    for first in (0, 1, -3):
        with pytest.raises(ValueError, match=r"blocks|lengths"):
            asked_of((block(), (first, *block()[1:])), none, 9)
    assert list(map(len, asked_of((block(), (2, *block()[1:])), none, 9))) == [0, 0, 0]


def test_a_term_without_a_weight_and_a_short_mask_are_refused():
    slices = np.array([(0, 0, 3, 0, 1)], np.int64)
    with pytest.raises(ValueError, match="weight"):
        asked_of((block(),), slices, 2, weights=3)
    with pytest.raises(ValueError, match="mask"):
        kernel.BUILT.PostingSums((block(),), slices, 2, np.zeros(1, bool), None)
    with pytest.raises(TypeError):
        kernel.BUILT.PostingSums([block()], slices, 2, None, None)
    with pytest.raises(TypeError):
        kernel.BUILT.PostingSums((block()[:5],), slices, 2, None, None)


def test_a_file_that_changes_once_it_was_checked_leads_nowhere_else():
    docs = np.array([0, 1_500, 1_600, 1_700], np.uint16)
    column = np.ones(2_000, np.uint16)
    given = ((0, 2_000, docs, np.ones(4, np.uint8), *[column] * 3),)
    slices = np.array([(0, 0, 0, 0, 4)], np.int64)
    apart = np.zeros(2_000, bool)
    for changed in ([0, 0, 1_023, 1_700], [0, 1_500, 65_535, 3], [65_535] * 4, [3, 4, 5, 6]):
        docs[:] = [0, 1_500, 1_600, 1_700]
        sums = kernel.BUILT.PostingSums(given, slices, 2_000, None, apart)
        slices_given = slices.copy()
        docs[:] = changed
        slices[:] = 1 << 40  # they are copied
        counted = np.frombuffer(sums.counts(), np.int64).tolist()
        asked = (np.ones(1), np.ones(1), (1.0,) * 4, BM25(), Weights())
        if changed == [3, 4, 5, 6]:  # as if the file had been so from the beginning
            assert np.frombuffer(sums.of(*asked)[0], np.int32).tolist() == changed
        else:
            with pytest.raises(ValueError, match="rising"):
                sums.of(*asked)
        slices[:] = slices_given
        assert counted == [4]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 40).map(float) | st.floats(0, 1e9), max_size=400), st.integers(0, 9))
def test_what_reaches_the_best_holds_all_of_the_best(words, wanted):
    sums = kernel.BUILT.PostingSums((), np.zeros((0, 5), np.int64), 0, None, None)
    low, found = sums.highest(np.array(words), wanted)
    places = np.frombuffer(found, np.int32).tolist()
    assert places == [at for at, one in enumerate(words) if one >= low - 2]
    rows = [max(words[at : at + 64]) for at in range(0, len(words), 64)]
    assert low == (sorted(rows)[-wanted] if 1 <= wanted <= len(rows) else 0.0)
    assert low == 0.0 or sum(one >= low for one in words) >= wanted


def test_a_block_that_is_no_tuple_is_refused():
    with pytest.raises(TypeError, match="tuple"):
        kernel.BUILT.PostingSums((list(block()),), np.zeros((0, 5), np.int64), 2, None, None)
