"""Words that mean much the same: which are added, in what order, with what weight."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import memplane.index
from memplane.index import terms
from memplane.index.vectors import (
    NEAR_MAX,
    RELATED_MAX,
    NearWord,
    Neighbours,
    StaticTable,
    related,
)

FILE = Path(memplane.index.__file__).parent / "data" / "static.i8"
TABLE = StaticTable(FILE.read_bytes())
ALL = Neighbours(TABLE)
WORDS = "dog puppy kitten camping tent salary wages doctor physician database sql paint".split()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("pet", "dog"),
        ("camping", "tent"),
        ("doctor", "physician"),
        ("salary", "wages"),
        ("database", "sql"),
        ("mentorship", "mentor"),
        ("travelled", "traveled"),
    ],
)
def test_what_means_much_the_same_is_among_the_ten_nearest(word, expected):
    assert expected in [near.word for near in ALL.near(word)[:10]]


@pytest.mark.parametrize("word", ["pet", "camping", "database", "unheardofishness", "wage"])
def test_the_nearest_come_first_none_below_the_threshold_and_not_the_word_itself(word):
    found = ALL.near(word)
    assert len(found) <= NEAR_MAX
    assert [near.permille for near in found] == sorted((n.permille for n in found), reverse=True)
    assert all(300 <= near.permille <= 1_000 and near.word != word for near in found)


@pytest.mark.parametrize("word", ["", "a", "ox", "the", "42", "x_1", "東", "http2"])
def test_nothing_is_near_to_what_is_no_word(word):
    assert ALL.near(word) == ()


@given(st.permutations(WORDS), st.integers(0, len(WORDS)))
def test_the_words_as_of_a_document_are_always_asked_as_if_no_other_came(words, upto):
    whole, part = Neighbours(TABLE, words), Neighbours(TABLE, words[:upto])
    for word in ("pet", "doctors", "wage"):
        assert whole.near(word, upto) == part.near(word)
        assert whole.near(word, upto) == whole.near(word, upto)


@given(st.permutations(WORDS), st.integers(0, len(WORDS)))
def test_words_added_in_any_split_are_found_alike(words, cut):
    grown = Neighbours(TABLE, words[:cut])
    grown.near("pet")
    grown.add(words[cut:])
    assert len(grown) == len(words)
    assert grown.near("pet") == Neighbours(TABLE, words).near("pet")


QUESTION = "Which pets does the doctor have?"


def everything(found):
    return found


def words_of(found):
    """The words of a table that a weight belongs to."""
    return {
        word
        for word in TABLE.vocabulary()[: TABLE.words]
        if terms.whole_term(terms.stem(word)) in found
    }


def test_each_word_of_a_question_adds_six_terms_at_most():
    found = dict(related("pets", ALL.near, everything))
    assert len(found) == RELATED_MAX
    assert {"dog", "cat", "animal"} <= words_of(found)
    assert len(related(QUESTION, ALL.near, everything)) == 2 * RELATED_MAX


def test_forms_of_one_word_count_once_and_none_of_the_question_is_added():
    found = dict(related("dog puppy", ALL.near, everything))
    own = {term for term, _ in terms.query("dog puppy").words}
    assert not own & found.keys()
    assert {"dogs", "puppies"}.isdisjoint(words_of(found))


def test_only_what_the_index_has_is_added_and_what_is_farther_takes_its_place():
    first = dict(related("pets", ALL.near, everything))
    nearest = max(first, key=first.__getitem__)
    second = dict(related("pets", ALL.near, lambda all_: [t for t in all_ if t != nearest]))
    assert nearest not in second
    assert len(second) == RELATED_MAX
    assert related("pets", ALL.near, lambda _: []) == ()


def test_stop_words_and_words_that_frame_a_question_add_nothing():
    assert related("What did you say about the pets?", ALL.near, everything) == related(
        "pets", ALL.near, everything
    )


def test_a_term_reached_from_two_words_keeps_the_larger_weight():
    weights = {"cat": 400, "dog": 700}
    found = related("cat dog", lambda word: [NearWord("shared", weights[word])], everything)
    assert found == related("dog cat", lambda word: [NearWord("shared", weights[word])], everything)
    assert found == ((terms.whole_term(terms.stem("shared")), 0.7),)


@given(st.permutations(["pets", "doctor", "salary", "tents"]))
def test_the_order_of_a_question_never_changes_what_is_added(words):
    found = related(" ".join(words), ALL.near, everything)
    assert found == related("pets doctor salary tents", ALL.near, everything)
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    "changed",
    [
        {"NPY_DISABLE_CPU_FEATURES": "AVX2 AVX512F AVX512_SKX X86_V3 X86_V4"},
        {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "1"},
        {"PYTHONHASHSEED": "7"},
    ],
)
def test_what_is_near_is_the_same_under_another_cpu_dispatch(changed):
    program = f"""
from pathlib import Path
from memplane.index.vectors import Neighbours
from memplane.index.vectors import StaticTable
near = Neighbours(StaticTable(Path({str(FILE)!r}).read_bytes())).near
print([(n.word, n.permille) for word in {WORDS!r} for n in near(word)])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, **changed},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [(near.word, near.permille) for word in WORDS for near in ALL.near(word)]
    assert done.stdout.strip() == str(expected)
