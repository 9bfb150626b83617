"""Vectors of signed bytes: exact comparison, search, ties, masks, prefixes."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from memplane.index.vectors import MILLION, Vectors, cosines, encoded, signed_bytes

DIMENSION = 8
signed = st.lists(st.integers(-127, 127), min_size=DIMENSION, max_size=DIMENSION)
stores = st.lists(signed, min_size=1, max_size=30)


def as_bytes(vector):
    return np.array(vector, np.int8).tobytes()


def stored(vectors, dimension=DIMENSION):
    store = Vectors(dimension)
    store.append([as_bytes(vector) for vector in vectors])
    return store


def cosine(one, other):
    """In Python's own numbers."""
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    norm = sum(a * a for a in one) * sum(b * b for b in other)
    return math.floor(float(dot * MILLION) / math.sqrt(norm)) if norm else 0


def by_hand(vectors, query, k):
    scored = [
        (cosine(vector, query), number)
        for number, vector in enumerate(vectors)
        if max(vector) > 0 and any(query)
    ]
    return [(number, score) for score, number in sorted(scored, reverse=True)[:k]]


@given(stores, signed)
def test_cosines_are_always_those_of_plain_integers(vectors, query):
    rows = np.array(vectors, np.int8)
    found = cosines(rows, np.array([query], np.int8))[:, 0]
    assert found.tolist() == [cosine(vector, query) for vector in vectors]


@pytest.mark.parametrize("dimension", [256, 1_040, 1_041, 3_072])
def test_the_largest_products_are_exact_whatever_the_dimension(dimension):
    rows = np.full((2, dimension), 127, np.int8)
    rows[1, 0] = 126
    found = cosines(rows, rows)
    assert found.tolist() == [[cosine(a, b) for b in rows.tolist()] for a in rows.tolist()]


@given(stores, signed, st.integers(0, 10))
def test_a_search_among_few_is_always_exact_and_ties_go_to_the_newer(vectors, query, k):
    assert stored(vectors).search(as_bytes(query), k) == by_hand(vectors, query, k)


@given(stores, signed, st.integers(0, 31))
def test_the_index_as_of_a_document_always_answers_like_the_index_of_those_before(
    vectors, query, upto
):
    whole = stored(vectors).search(as_bytes(query), 5, upto=upto)
    assert whole == stored(vectors[:upto]).search(as_bytes(query), 5)


@given(stores, signed, st.data())
def test_a_masked_document_is_never_found_and_moves_no_other(vectors, query, data):
    masked = data.draw(st.lists(st.booleans(), min_size=len(vectors), max_size=len(vectors)))
    found = stored(vectors).search(as_bytes(query), 30, masked=np.array(masked))
    everything = stored(vectors).search(as_bytes(query), 30)
    assert found == [hit for hit in everything if not masked[hit[0]]]


@given(stores, signed, st.data())
def test_any_split_between_files_and_what_was_added_answers_alike(vectors, query, data):
    cut = data.draw(st.integers(0, len(vectors)))
    filed = encoded([as_bytes(vector) for vector in vectors[:cut]], DIMENSION)
    for bits in (filed.bits, None):
        store = Vectors(DIMENSION, filed.rows, bits)
        for vector in vectors[cut:]:
            store.append([as_bytes(vector)])
        assert len(store) == len(vectors)
        assert store.search(as_bytes(query), 9) == stored(vectors).search(as_bytes(query), 9)


def test_files_are_the_same_bytes_however_they_were_appended():
    rows = [as_bytes([i - 3, 5, -i, 1, 0, 2, -9, i]) for i in range(7)]
    parts = [encoded(rows[:2], DIMENSION), encoded(rows[2:], DIMENSION)]
    whole = encoded(rows, DIMENSION)
    assert whole.rows == b"".join(part.rows for part in parts)
    assert whole.bits == b"".join(part.bits for part in parts)


@pytest.mark.parametrize(("rows", "bits"), [(3, 0), (0, 3), (DIMENSION, 8), (1, 7)])
def test_a_row_that_a_torn_file_lacks_does_not_count(rows, bits):
    whole = encoded([as_bytes([1] * DIMENSION)] * 5, DIMENSION)
    short = Vectors(DIMENSION, whole.rows[: 40 - rows], whole.bits[: 40 - bits])
    assert len(short) == (5 if rows == bits == 0 else 4)
    assert len(short.search(as_bytes([1] * DIMENSION), 10)) == len(short)


def test_among_many_the_candidates_are_bounded_and_hold_what_is_near():
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(200, 64))
    drawn = centres[rng.integers(0, 200, 20_000)] + 0.4 * rng.normal(size=(20_000, 64))
    store = Vectors(64)
    store.append([signed_bytes(row) for row in drawn])
    asked = signed_bytes(drawn[123])
    query = np.frombuffer(asked, np.int8).reshape(1, 64)
    rows = np.array([np.frombuffer(signed_bytes(row), np.int8) for row in drawn])
    exact = np.lexsort((-np.arange(20_000), -cosines(rows, query)[:, 0]))[:10]
    found = [number for number, _ in store.search(asked, 10)]
    assert len(store._candidates(query, 20_000, None)) == 1_000
    assert found == exact.tolist()


def test_of_equally_distant_candidates_the_newer_are_compared():
    store = stored([[1] * DIMENSION] * 3_000)
    found = store.search(as_bytes([2] * DIMENSION), 3)
    assert found == [(2_999, MILLION), (2_998, MILLION), (2_997, MILLION)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_floats_become_bytes_that_stay_what_they_are(components):
    once = signed_bytes(components)
    back = np.frombuffer(once, np.int8)
    assert signed_bytes(back.astype(np.float64)) == once
    assert np.abs(back.astype(int)).max() == (127 if any(components) else 0)


def test_a_vector_that_is_not_finite_is_an_error_of_who_made_it():
    with pytest.raises(AssertionError):
        signed_bytes([1.0, float("nan")])
