"""Events by relevance: factors, neighbours, masks, ties, whole numbers."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memplane.index import ranking, terms
from memplane.index.fill_order import FillingParameters, filling_steps
from memplane.index.ranking import (
    Columns,
    Kernel,
    RankedEvents,
    Ranking,
    RankingQuery,
    Similar,
    rank,
)
from memplane.index.store import SegmentedIndex
from memplane.index.terms import PREFERENCE, Document
from memplane.ports import ONE
from tests.examples import examples

ALONE = Ranking(near=Kernel(0, 180, 12), wide=Kernel(0, 700, 60))


def turn(seq, text, *, group="s", speaker="", role="", part=0, flags=0):
    return Document(seq, part, group, role, speaker, text, "", len(text) // 4 + 1, flags=flags)


def view(*documents):
    index = SegmentedIndex()
    index.add_many(documents)
    return index.view()


PLAIN = Ranking()
ANY = RankingQuery()
ANA = RankingQuery(speakers=(terms.exact_term("ana"),))


def found(where, question, weights=PLAIN, asked=ANY, most=100, hidden=None):
    matches = where.match(terms.query(question), hidden)
    frame = Columns().frame(where)
    return rank(matches, frame, asked, weights, most=most, hidden=hidden)


def by_seq(ranked):
    return dict(zip(ranked.seqs.tolist(), ranked.scores.tolist(), strict=True))


def test_the_best_words_earn_one_and_nothing_matches_nothing():
    where = view(turn(1, "a red kayak"), turn(2, "a red car"), turn(3, "silence"))
    ranked = found(where, "red kayak", ALONE)
    assert ranked.seqs.tolist() == [1, 2]
    assert ranked.scores[0] == ONE
    assert found(where, "zebra").seqs.tolist() == []
    assert found(view(), "zebra").seqs.tolist() == []


def test_a_named_speaker_counts_for_more():
    where = view(
        turn(1, "the kayak is red", speaker="ana"), turn(2, "the kayak is red", speaker="bo")
    )
    scores = by_seq(found(where, "kayak", ALONE, ANA))
    assert scores[1] == scores[2] * 1800 // 1000 * 1500 // 1000
    scores = by_seq(found(where, "kayak", ALONE, ANA._replace(broad=True)))
    assert scores[1] == scores[2] * 1800 // 1000


def test_what_a_named_speaker_answers_counts_for_more_though_another_used_the_words():
    where = view(
        turn(1, "yes, the red one", speaker="ana"),
        turn(2, "did you take the kayak?", speaker="bo"),
        turn(3, "or was it somebody?", speaker="bo"),
    )
    scores = by_seq(found(where, "kayak"))
    assert scores[1] == scores[3]
    assert scores[2] > scores[1]
    told = by_seq(found(where, "kayak", asked=ANA))
    assert told[1] == scores[1] * 1500 // 1000
    assert told[3] == scores[3]


def test_first_person_questions_prefer_what_the_user_said():
    where = view(turn(1, "red kayak", role="assistant"), turn(2, "red kayak", role="user"))
    scores = by_seq(found(where, "my kayak", ALONE, RankingQuery(first_person=True)))
    assert scores[2] == scores[1] * 2000 // 1000 * 1300 // 1000
    assert len(set(by_seq(found(where, "kayak", ALONE)).values())) == 1


def test_a_question_about_the_user_hears_less_of_what_an_assistant_says():
    where = view(
        turn(1, "red kayak", role="assistant"), turn(2, "red kayak", role="user"),
        turn(3, "red kayak", role="system"),
    )  # fmt: skip
    asked = RankingQuery(first_person=True)
    plain, scores = (
        by_seq(found(where, "my kayak", ALONE._replace(answer=by), asked)) for by in (1_000, 500)
    )
    assert scores == {**plain, 1: plain[1] // 2}
    for asked in (ANY, ANA):
        assert by_seq(found(where, "kayak", ALONE._replace(answer=500), asked)) == by_seq(
            found(where, "kayak", ALONE, asked)
        )


def long_session(first, group):
    """Seven turns of a user, each answered in three chunks; the first two turns have chunks too."""
    for at in range(first, first + 14, 2):
        yield turn(at, "kayak", group=group, role="user")
        if at < first + 4:
            yield turn(at, "kayak", group=group, role="user", part=1)
        yield from (
            turn(at + 1, "kayak", group=group, role="assistant", part=part) for part in range(3)
        )


def test_a_broad_question_prefers_the_turns_with_which_the_user_opened_a_session():
    where = view(
        *long_session(1, "s"), *long_session(21, "t"), turn(41, "kayak", role="user", group="")
    )
    opening, broad = ALONE._replace(opening=1_700), RankingQuery(broad=True)
    plain, scores = (by_seq(found(where, "kayak", by, broad)) for by in (ALONE, opening))
    first = {1, 3, 5, 7, 9, 21, 23, 25, 27, 29}
    assert scores == {
        seq: plain[seq] * (1_700 if seq in first else 1_000) // 1_000 for seq in plain
    }
    assert by_seq(found(where, "kayak", opening)) == by_seq(found(where, "kayak", ALONE))


def test_a_question_about_the_beginning_prefers_the_opening_of_that_session_alone():
    where = view(*long_session(1, "s"), *long_session(21, "t"))
    frame = Columns().frame(where)
    weights = ALONE._replace(beginning=3_000)
    asked = RankingQuery(beginning=int(frame.group[0]))
    plain, scores = (by_seq(found(where, "kayak", weights, by)) for by in (ANY, asked))
    first = {1, 3, 5, 7, 9}
    assert scores == {seq: plain[seq] * (3 if seq in first else 1) for seq in plain}


def test_a_reader_counts_the_opening_turns_that_it_sees():
    where = view(*(turn(seq, "kayak", role="user") for seq in range(1, 9)))
    columns = Columns()
    unseen = np.arange(8) < 2
    frame = columns.seen(columns.frame(where), where, unseen, "two")
    matches = where.match(terms.query("kayak"), unseen)
    by = [
        by_seq(
            rank(
                matches,
                frame,
                RankingQuery(broad=True),
                ALONE._replace(opening=value),
                most=9,
                hidden=unseen,
            )
        )
        for value in (1_000, 1_700)
    ]
    assert [seq for seq in by[0] if by[1][seq] > by[0][seq]] == [7, 6, 5, 4, 3]


def test_a_preference_counts_a_little_more():
    where = view(turn(1, "red kayak"), turn(2, "red kayak", flags=PREFERENCE))
    scores = by_seq(found(where, "kayak", ALONE))
    assert scores[2] == scores[1] * 1100 // 1000


OWN = Ranking(impersonal=700, timed=1_200, near=Kernel(0, 180, 12), wide=Kernel(0, 700, 60))


def test_turns_of_a_named_speaker_count_by_whether_they_speak_of_him_and_of_a_time():
    where = view(
        turn(1, "red kayak", speaker="ana"),
        turn(2, "I: red kayak", speaker="ana"),
        turn(3, "my red kayak: tomorrow", speaker="ana"),
        turn(4, "red kayak in 2019", speaker="ana"),
    )
    plain = by_seq(found(where, "kayak", ALONE, ANA))
    scores = by_seq(found(where, "kayak", OWN, ANA))
    assert scores[1] == plain[1] * 700 // 1000
    assert scores[2] == plain[2]
    assert scores[3] == plain[3] * 1200 // 1000
    assert scores[4] == plain[4] * 700 // 1000 * 1200 // 1000
    for asked in (ANY, ANA._replace(broad=True)):
        assert by_seq(found(where, "kayak", OWN, asked)) == by_seq(
            found(where, "kayak", ALONE, asked)
        )


def test_the_best_of_each_session_is_raised_and_what_is_of_none_is_not():
    where = view(
        turn(1, "red kayak", group="s"), turn(2, "red kayak", group="s"),
        turn(3, "kayak", group="t"), turn(4, "red kayak", group=""),
    )  # fmt: skip
    plain = by_seq(found(where, "red kayak", ALONE))
    scores = by_seq(found(where, "red kayak", ALONE._replace(session_best=1_300)))
    assert scores == {seq: plain[seq] * (1300 if seq in {2, 3} else 1000) // 1000 for seq in plain}
    hidden = np.array([False, True, False, False])
    scores = by_seq(found(where, "red kayak", ALONE._replace(session_best=1_300), hidden=hidden))
    assert scores[1] == plain[1] * 1300 // 1000


REPLY = ALONE._replace(reply=400)


def test_what_one_asks_is_lent_to_what_another_one_says_next():
    def scores(*turns, weights=REPLY):
        return by_seq(found(view(*turns), "red kayak", weights))

    asks = turn(1, "a red kayak?", speaker="ana")
    says = turn(2, "from the fair", speaker="ben")
    assert scores(asks, says) == {1: ONE, 2: ONE * 400 // 1000}
    assert scores(asks, says, weights=ALONE) == {1: ONE}
    # Not to what is said by the same one, elsewhere, later, or before.
    assert scores(asks, turn(2, "from the fair", speaker="ana")) == {1: ONE}
    assert scores(asks, turn(2, "from the fair", speaker="ben", group="t")) == {1: ONE}
    assert set(scores(asks, says, turn(3, "so", speaker="ana"))) == {1, 2}
    assert scores(turn(1, "so", speaker="ben"), turn(2, "a red kayak?", speaker="ana")) == {2: ONE}
    # Nor by what asks nothing, or says much beside.
    assert scores(turn(1, "a red kayak", speaker="ana"), says) == {1: ONE}
    assert scores(turn(1, "a red kayak? " + "so " * 80, speaker="ana"), says) == {1: ONE}


def test_a_question_in_parts_is_lent_to_the_event_behind_it_alone():
    where = view(
        turn(1, "a red kayak?", part=0, speaker="ana"), turn(1, "or so", part=1, speaker="ana"),
        turn(2, "from the fair", part=0, speaker="ben"), turn(2, "hm", part=1, speaker="ben"),
        turn(3, "so", speaker="ana"),
    )  # fmt: skip
    assert by_seq(found(where, "red kayak", REPLY)) == {1: ONE, 2: ONE * 400 // 1000}


def test_a_hidden_question_lends_nothing_and_a_hidden_answer_gets_nothing():
    where = view(turn(1, "a red kayak?", speaker="ana"), turn(2, "the fair", speaker="ben"))
    for hidden, left in (([True, False], set()), ([False, True], {1})):
        assert set(by_seq(found(where, "red kayak", REPLY, hidden=np.array(hidden)))) == left


def test_a_short_text_that_asks_counts_less_where_a_speaker_is_named():
    where = view(
        turn(1, "a red kayak?"), turn(2, "a red kayak"), turn(3, "a red kayak? " + "so " * 80)
    )
    weights = ALONE._replace(asking=850)
    plain = by_seq(found(where, "red kayak", ALONE, ANA))
    scores = by_seq(found(where, "red kayak", weights, ANA))
    assert scores == plain | {1: plain[1] * 850 // 1000}
    for asked in (ANY, ANA._replace(broad=True)):
        assert by_seq(found(where, "red kayak", weights, asked)) == by_seq(
            found(where, "red kayak", ALONE, asked)
        )


def test_a_match_speaks_for_the_turns_around_it_and_less_with_distance():
    where = view(
        *(turn(seq, "kayak" if seq == 3 else f"word{seq} and more") for seq in range(1, 8))
    )
    scores = by_seq(found(where, "kayak"))
    assert scores[3] > scores[4] > scores[5] > scores[6] > scores[7]
    assert scores[2] == scores[4]


def test_a_long_turn_between_blocks_the_view():
    short = view(turn(1, "kayak"), turn(2, "so"), turn(3, "yes"))
    long = view(turn(1, "kayak"), turn(2, "so " * 700), turn(3, "yes"))
    assert by_seq(found(long, "kayak"))[3] < by_seq(found(short, "kayak"))[3] // 10


def test_neighbours_end_with_the_group_whatever_lies_between_in_the_log():
    where = view(
        turn(1, "kayak", group="a"), turn(2, "other", group="b"), turn(3, "answer", group="a")
    )
    assert set(by_seq(found(where, "kayak"))) == {1, 3}


def test_a_broad_question_hears_farther():
    turns = [turn(1, "kayak"), *(turn(seq, f"short{seq}") for seq in range(2, 41))]
    assert len(by_seq(found(view(*turns), "kayak"))) == 13
    assert len(by_seq(found(view(*turns), "kayak", asked=RankingQuery(broad=True)))) == 40


def test_an_event_scores_as_its_best_chunk_and_is_found_once():
    where = view(turn(1, "sea and sun"), turn(2, "red kayak", part=0), turn(2, "kayak", part=1))
    ranked = found(where, "red kayak")
    assert ranked.seqs.tolist().count(2) == 1
    assert ranked.docs[ranked.seqs.tolist().index(2)] == 1


def test_chunks_of_one_event_do_not_speak_for_each_other():
    where = view(turn(1, "red kayak", part=0), turn(1, "sea", part=1), turn(2, "sun"))
    assert by_seq(found(where, "red kayak"))[1] == ONE


WORDS = st.sampled_from(["kayak", "red", "sea", "sun", "boat", "kayak sea"])
LOGS = st.lists(st.tuples(WORDS, st.sampled_from("ab"), st.booleans()), min_size=1, max_size=30)


@settings(deadline=None)
@given(LOGS)
def test_what_is_hidden_never_comes_back(log):
    where = view(*(turn(seq, text, group=g) for seq, (text, g, _) in enumerate(log, 1)))
    hidden = np.array([hide for _, _, hide in log])
    scores = by_seq(found(where, "red kayak", hidden=hidden))
    assert not {seq for seq, (_, _, hide) in enumerate(log, 1) if hide} & set(scores)
    if not any(set(text.split()) & {"red", "kayak"} and not hide for text, _, hide in log):
        assert scores == {}


def test_a_hidden_match_speaks_for_nobody_and_is_no_measure_for_others():
    where = view(
        turn(1, "red kayak"),
        turn(2, "quiet"),
        turn(3, "kayak", group="b"),
        turn(4, "hm", group="b"),
    )
    scores = by_seq(found(where, "red kayak", hidden=np.array([True, False, False, False])))
    assert set(scores) == {3, 4}
    alone = by_seq(found(where, "kayak", hidden=np.array([True, False, False, False])))
    assert alone[3] == ONE


def test_a_hidden_neighbour_hears_nothing():
    where = view(turn(1, "red kayak"), turn(2, "quiet"), turn(3, "so"))
    scores = by_seq(found(where, "red kayak", hidden=np.array([False, True, False])))
    assert set(scores) == {1, 3}


@settings(deadline=None)
@given(LOGS, st.booleans())
def test_what_the_own_words_earned_is_never_more_than_the_score(log, broad):
    where = view(
        *(
            turn(seq, text, group=g, speaker="ana" if user else "bo", role="user" * user)
            for seq, (text, g, user) in enumerate(log, 1)
        )
    )
    asked = RankingQuery(ANA.speakers, first_person=True, broad=broad)
    weights = Ranking(impersonal=700, timed=1_200, session_best=1_300)
    ranked = found(where, "red kayak", weights, asked)
    assert (ranked.own <= ranked.scores).all()
    assert (ranked.own >= 0).all()


@settings(deadline=None)
@given(LOGS, st.integers(1, 10))
def test_the_best_k_are_a_beginning_of_all_and_ties_go_to_the_newer(log, k):
    where = view(*(turn(seq, text, group=g) for seq, (text, g, _) in enumerate(log, 1)))
    every = found(where, "kayak sea")
    few = found(where, "kayak sea", most=k)
    assert few.seqs.tolist() == every.seqs.tolist()[:k]
    keys = list(zip((-every.scores).tolist(), (-every.seqs).tolist(), strict=True))
    assert keys == sorted(keys)


@settings(deadline=None)
@given(LOGS)
def test_later_events_never_change_a_ranking_as_of_an_earlier_seq(log):
    index = SegmentedIndex()
    index.add_many(turn(seq, text, group=g) for seq, (text, g, _) in enumerate(log, 1))
    then = found(index.view(), "red kayak")
    index.add_many(turn(len(log) + n, "red kayak sun", group="a") for n in range(1, 5))
    now = found(index.view(upto=len(log)), "red kayak")
    assert all(np.array_equal(a, b) for a, b in zip(then, now, strict=True))


def test_of_equals_the_more_important_then_the_newer_comes_first():
    where = view(
        *(
            Document(seq, group="", text="red kayak", importance=importance)
            for seq, importance in enumerate((500, 900, 500, 900, 100), 1)
        )
    )
    assert found(where, "kayak").seqs.tolist() == [4, 2, 3, 1, 5]
    assert found(where, "kayak", most=3).seqs.tolist() == [4, 2, 3]
    assert found(where, "kayak", most=0).seqs.tolist() == []


def test_few_sources_are_the_best_ones():
    where = view(
        turn(1, "red kayak"), turn(2, "quiet"), turn(3, "red", group="b"), turn(4, "hm", group="b")
    )
    scores = by_seq(found(where, "red kayak", Ranking(sources_max=1)))
    assert set(scores) == {1, 2, 3}


DIGEST = """
import sys, hashlib, random
sys.path.insert(0, {root!r})
from tests.index.test_ranking import digest
print(digest())
"""


def digest():
    words = [f"word{n}" for n in range(60)]
    rng = np.random.RandomState(7)
    documents = [
        turn(seq, " ".join(words[i] for i in rng.zipf(1.5, 12) % 60), group=f"g{seq % 5}")
        for seq in range(1, 700)
    ]
    where = view(*documents)
    total = hashlib.sha256()
    for n in range(50):
        question = f"word{n} word{(n * 7) % 60} word{(n * 3) % 60}"
        ranked: RankedEvents = found(where, question, asked=RankingQuery(broad=n % 2 == 0))
        tokens, importance = ranked.seqs % 300, ranked.seqs % 3
        plan = filling_steps(
            ranked.scores, tokens, importance, ranked.seqs, 2000, FillingParameters()
        )
        for part in (*ranked, *plan):
            total.update(part.astype(np.int64).tobytes())
    return total.hexdigest()


@pytest.mark.parametrize("features", ["AVX512F AVX512CD AVX512_SKX X86_V4", "AVX2 FMA3 X86_V3"])
def test_scores_are_the_same_bits_whatever_the_cpu_offers(features):
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DIGEST.format(root=str(root))],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": features, "PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    assert ran.stdout.strip() == digest()


NO_VECTORS = Similar(*np.zeros((2, 0), np.int64), np.zeros(0, bool))
factors = st.sampled_from([700, 1_000, 1_800])
turns = st.lists(
    st.tuples(
        st.lists(st.sampled_from("red kayak lake river boat tent I 3 boat?".split()), max_size=4),
        st.sampled_from(["ana", "ben"]),
        st.sampled_from(["user", "assistant"]),
        st.integers(0, 1),  # whether it begins an event
        st.sampled_from([0, PREFERENCE]),
        st.booleans(),  # whether it is hidden
    ),
    min_size=20,
    max_size=120,
)


@settings(max_examples=examples(50), deadline=None)
@given(
    turns,
    st.tuples(*[factors] * 12, st.sampled_from([1_000, 1_300])),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 200, 1_000]),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_the_matches_that_are_never_scored_are_always_those_that_change_nothing(
    rows, by, named, first_person, broad, at_first, coverage, limit, most
):  # fmt: skip
    seq, documents, hidden = 0, [], []
    for words, speaker, role, begins, flags, out in rows:
        last = documents[-1] if documents else None
        seq += begins or last is None
        part = last.part + 1 if last is not None and last.seq == seq else 0
        group = f"s{seq // 9}"
        documents.append(turn(seq, " ".join(words), group=group, speaker=speaker, role=role,
                              part=part, flags=flags))  # fmt: skip
        hidden.append(hidden[-1] if part else out)
    where, out = view(*documents), np.array(hidden)
    speakers = (terms.exact_term("ana"),) if named else ()
    weights = Ranking(coverage=coverage, speaker=by[0], speaker_heard=by[1], first_person=by[2],
                      first_person_heard=by[3], preference=by[4], impersonal=by[5], timed=by[6],
                      answer=by[7], opening=by[8], beginning=by[9], asking=by[10], reply=by[11],
                      session_best=by[12], near=Kernel(400, 9, 2),
                      sources_max=limit, wide_sources_max=limit)  # fmt: skip
    matches, frame = where.match(terms.query("red kayak lake boat"), out), Columns().frame(where)
    asked = RankingQuery(speakers, first_person, broad, at_first * int(frame.group[0]))
    few = rank(matches, frame, asked, weights, most=most, hidden=out)
    # Where vectors take part, everything is scored.
    every = rank(matches, frame, asked, weights, most=most, hidden=out, similar=NO_VECTORS)
    assert [column.tolist() for column in few] == [column.tolist() for column in every]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(-(2**55), 2**55)), max_size=60)
    | st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**30)), max_size=60)
    | st.lists(st.tuples(st.integers(0, 40), st.integers(-(2**30), 2**30)), max_size=60)
)
def test_sums_of_documents_are_exact_wherever_they_lie(parts):
    sums = {}
    for doc, amount in parts:
        sums[doc] = sums.get(doc, 0) + amount
    docs, values = ranking._summed(
        np.array([doc for doc, _ in parts], np.int32), np.array([one for _, one in parts], np.int64)
    )
    assert dict(zip(docs.tolist(), values.tolist(), strict=True)) == sums
    assert docs.tolist() == sorted(sums)
    assert (docs.dtype, values.dtype) == (np.int32, np.int64)
