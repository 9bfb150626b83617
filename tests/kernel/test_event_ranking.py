"""The kernel's ranking of events is that of its twin in arrays: documents, scores, own parts."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memplane import kernel
from memplane.index import ranking
from memplane.index.bm25 import BM25, Weights
from memplane.index.lexical import Matches, PostingSums
from memplane.index.ranking import Columns, EventRanking, Kernel, Ranking, RankingQuery
from memplane.index.segment import ASKING, PERSONAL, TIMED
from memplane.ports import ONE
from tests.examples import examples

pytestmark = pytest.mark.skipif(kernel.BUILT is None, reason="the kernel was not built")

SPEAKERS = np.array([0, 5, 6, 1 << 63], np.uint64)
FACTORS = (0, 300, 1_000, 1_300, 10_000)


class Given:
    """Columns as an index gives them."""

    def __init__(self, columns):
        self.columns, self.count = columns, len(columns["seq"])

    def take(self, column, docs):
        return self.columns[column][docs]

    def run(self, column, start, end):
        return self.columns[column][start:end]


def frame_of(chance, size):
    """A frame of events with a few documents each, in sessions that run side by side."""
    new = chance.random(size) < 0.7
    seq = np.cumsum(new).astype(np.int64)
    traits = chance.choice([0, ASKING, PERSONAL, TIMED, ASKING | TIMED], size).astype(np.uint32)
    columns = {
        "seq": seq,
        "tokens": chance.integers(1, 90, size).astype(np.int32),
        "group": chance.integers(0, 4, size + 1)[seq].astype(np.uint64),
        "speaker": SPEAKERS[chance.integers(0, 4, size + 1)[seq]],
        "importance": chance.integers(0, 3, size).astype(np.uint16),
        "flags": chance.integers(0, 1 << 6, size).astype(np.uint16),
        "role": chance.integers(0, chance.choice([4, 12]), size + 1)[seq].astype(np.uint8),
        "traits": traits,
    }
    return Columns().frame(Given(columns))


def matches_of(chance, frame, hidden, part, levels):
    """Matches by chance: the fewer the levels, the more of them are equal."""
    there = chance.random(frame.size) < part
    docs = np.flatnonzero(there if hidden is None else there & ~hidden).astype(np.int32)
    words = chance.integers(0, levels, len(docs)) / 7 * ONE
    return Matches(docs, words, chance.random(len(docs)))


@st.composite
def weights(draw):
    factor = st.sampled_from(FACTORS)
    names = ("speaker", "speaker_heard", "first_person", "first_person_heard", "preference")
    names += ("impersonal", "timed", "asking", "answer", "opening", "beginning", "faint")
    return Ranking(
        **{name: draw(factor) for name in names},
        coverage=draw(st.sampled_from([0, 200, 1_000])),
        preferring=draw(st.sampled_from([1, 2, 48])),
        reply=draw(st.sampled_from([0, 400])),
        session_best=draw(st.sampled_from([1_000, 1_300, 10_000])),
        sources_max=draw(st.integers(0, 20)),
        wide_sources_max=draw(st.integers(1, 20)),
        near=Kernel(400, draw(st.sampled_from([9, 180])), draw(st.integers(0, 12))),
        bits=(2, 2),
        factors=((1, draw(factor)), (3, draw(factor))),
        faint_numbers=(1, 2),
    )


# Factors of roles beyond those that a policy has: how the kernel tells them apart is its own matter.
OF_ROLES = st.lists(
    st.tuples(
        st.just(ranking._ROLE), st.sampled_from([0, 1, 3, 6, 7, 9]), st.sampled_from(FACTORS)
    ),
    max_size=3,
)


def with_steps(rules, said, heard):
    """The rules with more factors behind theirs."""
    more = (np.array(rows, np.int64).reshape(-1, 3) for rows in (said, heard))
    own = (rules.said, rules.heard)
    said, heard = (np.concatenate(pair) for pair in zip(own, more, strict=True))
    return rules._replace(said=said, heard=heard)


ASKED = st.builds(
    RankingQuery,
    st.sampled_from([(), (5,), (6, 1 << 63)]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 1, 3]),
)


@settings(max_examples=examples(900), deadline=None)
@given(
    st.integers(0, 1 << 32), st.sampled_from([0, 1, 7, 60, 400]), weights(), ASKED,
    st.booleans(), st.sampled_from([0.1, 0.6, 1.0]), st.sampled_from([1, 3, 1_000]),
    st.integers(0, 60),
)  # fmt: skip
def test_the_same_events_in_the_same_order(seed, size, by, asked, masked, part, levels, most):
    chance = np.random.default_rng(seed)
    frame = frame_of(chance, size)
    hidden = chance.random(size) < 0.3 if masked else None
    matches = matches_of(chance, frame, hidden, part, levels)
    rules = ranking._rules(asked, by)
    expected = EventRanking(frame, hidden).of(matches, rules, most)
    found = kernel.BUILT.EventRanking(frame, hidden).of(matches, rules, most)
    assert [bytes(one) for one in found] == [one.tobytes() for one in expected]


def sums_of(chance, size, hidden, levels):
    """Postings of terms of all fields, in blocks, and what they are worth."""
    blocks, rows, first = [], [], 0
    while first < size:
        count = min(int(chance.integers(1, 1_500)), size - first)
        docs, begin = [], 0
        for term in range(8):
            own = np.flatnonzero(chance.random(count) < chance.choice([0.01, 0.2, 0.9]))
            if len(own):
                rows.append((len(blocks), term // 2, term, begin, begin + len(own)))
                docs.append(own)
                begin += len(own)
        lengths = [chance.integers(1, 90, count).astype(np.uint16) for _ in range(3)]
        times = chance.integers(1, levels, begin).astype(np.uint8)
        docs = np.concatenate([*docs, np.zeros(0, int)]).astype(np.uint16)
        blocks.append((first, count, docs, times, *lengths))
        first += count
    slices = np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 5)
    apart = chance.random(size) < 0.2 if chance.random() < 0.5 else None
    worth = [chance.choice([0.1, 1.0, 5.0], 8) * chance.random(8) for _ in range(2)]
    asked = (*worth, (30.0, 20.0, 25.0, 30.0), BM25(1.2, 0.75), Weights(0.7, 0.2, 0.3))
    return (tuple(blocks), slices, size, hidden, apart), asked


@settings(max_examples=examples(900), deadline=None)
@given(
    st.integers(0, 1 << 32), st.sampled_from([0, 60, 2_000, 5_000]), weights(), ASKED,
    st.booleans(), st.sampled_from([2, 9]), st.sampled_from([0, 1, 10, 60, 700, 1 << 40]),
    st.sampled_from([0, 1, 520, 900, 2_000]), OF_ROLES, OF_ROLES,
)  # fmt: skip
def test_the_best_matches_of_sums_are_the_best_of_all_of_them(
    seed, size, by, asked, masked, levels, most, room, said, heard
):
    """Whatever the kernel drops on the way: the twin has all of them."""
    chance = np.random.default_rng(seed)
    frame = frame_of(chance, size)
    hidden = chance.random(size) < 0.3 if masked else None
    given_, worth = sums_of(chance, size, hidden, levels)
    # What all words of the query are worth, or more: no document has more of them than all.
    rules, mass = ranking._rules(asked, by), worth[1][:2].sum() * chance.choice([1.0, 3.7])
    plain, built = PostingSums(*given_), kernel.BUILT.PostingSums(*given_)
    ranked, rules = (frame, hidden), with_steps(rules, said, heard)
    same_best(ranked, (plain, worth, mass, rules, most), (built, worth, mass, rules, most, room))


@settings(max_examples=examples(240), deadline=None)
@given(
    st.integers(0, 1 << 32), st.sampled_from([1_200, 4_000]), st.sampled_from([20, 100]),
    st.sampled_from([3, 20, 200]), st.booleans(), st.sampled_from([1_000, 1_300]),
    st.sampled_from([1, 900]), OF_ROLES,
)  # fmt: skip
def test_what_neighbours_lend_is_added_to_the_words_of_matches_that_were_dropped(
    seed, size, most, sources, masked, best, room, heard
):
    chance = np.random.default_rng(seed)
    frame = frame_of(chance, size)
    hidden = chance.random(size) < 0.3 if masked else None
    given_, worth = sums_of(chance, size, hidden, 9)
    near = Kernel(2_000, 180, 12)
    by = Ranking(coverage=200, sources_max=sources, session_best=best, near=near, bits=(2, 2))
    rules = with_steps(ranking._rules(RankingQuery(), by), [], heard)
    plain, built = PostingSums(*given_), kernel.BUILT.PostingSums(*given_)
    mass = worth[1][:2].sum()
    ranked = (frame, hidden)
    same_best(ranked, (plain, worth, mass, rules, most), (built, worth, mass, rules, most, room))


def same_best(frame, *asked):
    """What the twin finds, which the kernel finds, too."""
    plain, built = asked
    expected, *facts = EventRanking(*frame).best(*plain)
    found, *others = kernel.BUILT.EventRanking(*frame).best(*built)
    assert [bytes(one) for one in found] == [one.tobytes() for one in expected]
    assert others == facts
    return expected[0].tolist(), *facts


def long_frame(size, **columns):
    """A frame of events of one document each, that nothing else tells apart."""
    kinds = {**ranking._TYPES, **{name: column.dtype for name, column in columns.items()}}
    same = {name: np.zeros(size, kind) for name, kind in kinds.items()}
    same |= {"seq": np.arange(size, dtype=np.int64), "tokens": np.full(size, 9, np.int32)}
    return Columns().frame(Given(same | columns))


def of_terms(size, slices, docs, length, worth, average=9.0):
    """Postings of one block, and what they are worth."""
    docs, length = np.asarray(docs, np.uint16), np.asarray(length, np.uint16)
    block = (0, size, docs, np.ones(len(docs), np.uint8), length, length, length)
    asked = (*worth, (average,) * 4, BM25(1.2, 0.75), Weights(0.7, 0.2, 0.3))
    return ((block,), np.array(slices, np.int64), size, None, None), asked


def test_a_late_match_with_more_words_does_not_let_those_count_again_that_were_dropped():
    """Beside it the others earn next to nothing: rounded they are equal, and importance decides."""
    size = 40_000
    odd = np.arange(size) % 2
    frame = long_frame(size, importance=odd.astype(np.uint16))
    slices = [[0, 0, 0, 0, size], [0, 0, 1, size, size + 1]]
    docs = np.append(np.arange(size), size - 1)
    worth = np.array([1.0, 30_000.0]), np.ones(2)
    given_, worth = of_terms(size, slices, docs, 9 + odd, worth, 9.5)
    rules = ranking._rules(RankingQuery(), Ranking(sources_max=0, coverage=0, preference=1_000))
    sums = [one(*given_) for one in (PostingSums, kernel.BUILT.PostingSums)]
    docs, *_ = same_best((frame, None), *((one, worth, 2.0, rules, 5) for one in sums))
    assert docs[:3] == [size - 1, size - 3, size - 5]


def test_a_word_of_the_query_is_there_also_where_only_dropped_matches_have_it():
    size = 40_000
    docs = np.append(np.arange(0, size, 2), np.arange(1, size, 2))
    slices = [[0, 0, 0, 0, size // 2], [0, 3, 1, size // 2, size]]
    worth = np.array([0.1, 5.0]), np.array([0.1, 5.0])
    given_, worth = of_terms(size, slices, docs, np.full(size, 9), worth)
    rules = ranking._rules(RankingQuery(), Ranking())
    sums = [one(*given_) for one in (PostingSums, kernel.BUILT.PostingSums)]
    _, *facts = same_best((long_frame(size), None), *((one, worth, 0.1, rules, 10) for one in sums))
    assert facts == [size, True]


def test_sums_of_other_documents_or_of_another_kind_are_refused():
    frame, _, rules = small()
    given_, worth = sums_of(np.random.default_rng(1), 10, None, 2)
    ranked = kernel.BUILT.EventRanking(frame, None)
    with pytest.raises(ValueError, match="frame"):
        ranked.best(kernel.BUILT.PostingSums(*given_), worth, 1.0, rules, 3)
    for wrong in (PostingSums(*given_), None, ranked):
        with pytest.raises(TypeError, match="PostingSums"):
            ranked.best(wrong, worth, 1.0, rules, 3)


def small():
    chance = np.random.default_rng(1)
    frame = frame_of(chance, 9)
    return frame, matches_of(chance, frame, None, 1.0, 9), ranking._rules(RankingQuery(), Ranking())


def test_a_frame_whose_columns_are_too_short_and_a_short_mask_are_refused():
    frame, _, _ = small()
    ranked = kernel.BUILT.EventRanking
    for name in frame._fields[1:]:
        with pytest.raises(ValueError, match="column"):
            ranked(frame._replace(**{name: getattr(frame, name)[:-1]}), None)
    with pytest.raises(ValueError, match="documents"):
        ranked(frame._replace(size=-1), None)
    with pytest.raises(ValueError, match="mask"):
        ranked(frame, np.zeros(8, bool))


@pytest.mark.parametrize("docs", [[3, 2], [2, 2], [-1, 2], [2, 9], [2]])
def test_matches_that_are_not_of_the_frame_are_refused(docs):
    frame, matches, rules = small()
    cut = Matches(np.array(docs, np.int32), *(column[:2] for column in matches[1:]))
    with pytest.raises(ValueError, match="matches"):
        kernel.BUILT.EventRanking(frame, None).of(cut, rules, 3)


@pytest.mark.parametrize(
    "wrong", [{"bits": (10, 7)}, {"bits": (-1, 1)}, {"shares": np.ones(0)}, {"reach": -1}]
)
def test_rules_that_do_not_fit_are_refused(wrong):
    frame, matches, rules = small()
    with pytest.raises(ValueError, match="rules"):
        kernel.BUILT.EventRanking(frame, None).of(matches, rules._replace(**wrong), 3)


def test_a_chain_that_leads_out_of_the_frame_ends_there():
    frame, matches, rules = small()
    links = np.full(2 * frame.size, 2 * frame.size, np.int32)
    given_ = frame._replace(links=links)
    alone = kernel.BUILT.EventRanking(given_, None).of(matches, rules, 9)
    expected = EventRanking(given_, None).of(matches, rules, 9)
    assert [bytes(one) for one in alone] == [one.tobytes() for one in expected]


def test_a_chain_that_is_a_circle_ends():
    frame, matches, rules = small()
    links = np.repeat(np.arange(frame.size), 2).astype(np.int32) * 2
    round_ = frame._replace(links=links, seq=np.ones(frame.size, np.int64))
    found = kernel.BUILT.EventRanking(round_, None).of(matches, rules, 9)
    assert len(found[0]) == 4
