"""What similarity earns: whole numbers, nothing of what is hidden, the same as of any document."""

from math import isqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st

from memplane.index import terms
from memplane.index.ranking import (
    FULL,
    Columns,
    Kernel,
    Nearness,
    Ranking,
    RankingQuery,
    Similar,
    rank,
    similar,
)
from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document
from memplane.index.vectors import Vectors, cosines
from memplane.ports import ONE

WEIGHTS = Nearness(500, 1_500, 300)
signed = st.lists(st.integers(-127, 127), min_size=8, max_size=8)
stores = st.lists(signed, min_size=1, max_size=30)


def stored(vectors):
    store = Vectors(8)
    store.append([np.array(vector, np.int8).tobytes() for vector in vectors])
    return store


def asked(vectors, query, hidden=None, upto=None, weights=WEIGHTS):
    hidden = np.zeros(len(vectors), bool) if hidden is None else np.array(hidden)
    upto = len(vectors) if upto is None else upto
    text = np.array(query, np.int8).tobytes()
    found = similar(stored(vectors), text, weights, upto=upto, hidden=hidden)
    return dict(
        zip(
            found.docs.tolist(),
            zip(found.scores.tolist(), found.alone.tolist(), strict=True),
            strict=True,
        )
    )


def by_hand(vectors, query):
    """In Python's own numbers, from the cosines."""
    near = cosines(np.array(vectors, np.int8), np.array([query], np.int8))[:, 0].tolist()
    seen = {doc: near[doc] for doc, vector in enumerate(vectors) if max(vector) > 0}
    if not any(query) or not seen:
        return {}
    count, total = len(seen), sum(seen.values())
    spread = isqrt(count * sum(one * one for one in seen.values()) - total * total)
    z = {doc: 1000 * (count * one - total) // spread for doc, one in seen.items() if spread}
    earned = {doc: one * WEIGHTS.weight * ONE // (FULL * 1_000_000) for doc, one in z.items()}
    alone = {doc: z[doc] >= WEIGHTS.least and seen[doc] >= 1_000 * WEIGHTS.cosine for doc in z}
    return {doc: (one, alone[doc]) for doc, one in earned.items() if one > 0}


@given(stores, signed)
def test_scores_are_always_those_of_plain_integers(vectors, query):
    assert asked(vectors, query) == by_hand(vectors, query)


@given(stores, signed, st.data())
def test_what_is_hidden_is_never_similar_and_changes_nothing_for_the_others(vectors, query, data):
    hidden = data.draw(st.lists(st.booleans(), min_size=len(vectors), max_size=len(vectors)))
    every = by_hand(vectors, query)
    assert asked(vectors, query, hidden) == {d: one for d, one in every.items() if not hidden[d]}


@given(stores, signed, st.integers(0, 31))
def test_the_answer_as_of_a_document_is_always_that_of_those_before(vectors, query, upto):
    expected = by_hand(vectors[:upto], query) if vectors[:upto] else {}
    assert asked(vectors, query, upto=upto) == expected


def test_where_all_are_equally_similar_none_stands_out():
    assert asked([[1, 2, 3, 4, 5, 6, 7, 8]] * 9, [1] * 8) == {}
    assert asked([[9] * 8], [1] * 8) == {}


@pytest.mark.parametrize("least", [0, 2_999, 3_001])
def test_what_is_far_above_the_mean_is_a_match_by_itself(least):
    found = asked([[9, 0, 0, 0, 0, 0, 0, 1]] * 9 + [[0, 9] + [0] * 6], [0, 1] + [0] * 6,
                  weights=Nearness(1000, least, 0))  # fmt: skip
    (score, alone) = found[9]  # one of ten: three spreads above the mean
    assert (score, alone) == (3 * ONE // 4, least < 3_000)


def test_what_stands_out_and_is_far_from_the_query_is_no_match_by_itself():
    vectors = [[9, 0, 0, 0, 0, 0, 0, 1]] * 9 + [[8, 2] + [0] * 6]
    for cosine, alone in ((200, True), (300, False)):  # it has .24
        found = asked(vectors, [0, 1] + [0] * 6, weights=Nearness(1000, 2_000, cosine))
        assert found[9][1] == alone


def test_of_many_documents_a_thousand_and_some_give_the_mean():
    rng = np.random.default_rng(5)
    drawn = rng.integers(-127, 128, (5_000, 8))
    drawn[:, 0] = 1  # no vector without a component above 0
    query = [3, -2, 9, 0, 1, 1, -7, 5]
    text = np.array(query, np.int8).tobytes()
    store = stored(drawn)
    assert len(store.sample(text, 1_024)) == 1_000
    every = cosines(drawn.astype(np.int8), np.array([query], np.int8))[::5, 0]
    assert store.sample(text, 1_024).tolist() == every.tolist()
    found = similar(store, text, WEIGHTS, upto=5_000, hidden=np.zeros(5_000, bool))
    assert 0 < len(found.docs) <= 1_000


# --- beside the words ---


def ranked(question, scores, alone=(), weights=None):
    """Rank three turns of one session, so many of whose documents are similar."""
    index = SegmentedIndex()
    texts = ("a red kayak", "a red car", "silence", "nothing at all")
    index.add_many(Document(seq, 0, "s", "", "", text, "", 5) for seq, text in enumerate(texts, 1))
    where = index.view()
    docs = np.array(sorted(scores), np.int64)
    like = Similar(
        docs,
        np.array([scores[doc] for doc in docs]),
        np.array([doc in alone for doc in docs], bool),
    )
    weights = weights or Ranking(near=Kernel(0, 180, 12))
    frame = Columns().frame(where)
    found = rank(
        where.match(terms.query(question)), frame, RankingQuery(), weights, most=9, similar=like
    )
    rows = zip(found.scores.tolist(), found.own.tolist(), found.alike.tolist(), strict=True)
    return dict(zip(found.seqs.tolist(), rows, strict=True))


def test_similarity_adds_to_what_words_earn_and_alone_is_a_match_only_where_it_says_so():
    plain = ranked("red kayak", {})
    found = ranked("red kayak", {0: 100, 2: 300, 3: 500}, alone=(3,))
    assert found[1] == (ONE + 100, ONE, 100)
    assert found[2] == plain[2]
    assert found[4] == (500, 0, 500)
    assert 3 not in found


def test_a_match_by_similarity_speaks_for_the_turns_around_it():
    found = ranked("zebra", {3: ONE}, alone=(3,), weights=Ranking())
    assert found[4] == (ONE, 0, ONE)
    score, own, alike = found[3]
    assert (own, alike) == (0, 0)
    assert 0 < score < ONE


def test_words_that_nothing_holds_and_nothing_similar_find_nothing():
    assert ranked("zebra", {0: 500, 1: 300}) == {}
