"""The nearest words that are shipped: those that the table gives, with no vector compared."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from table_formats import encode_neighbours, encode_static_table

import memplane.index
from memplane.errors import InputError
from memplane.index import terms, vectors
from memplane.index.vectors import Kin, Nearest, Neighbours, StaticTable, related
from tests.examples import examples

DATA = Path(memplane.index.__file__).parent / "data"
TABLE = StaticTable((DATA / "static.i8").read_bytes())
FILE = (DATA / "near.bin").read_bytes()
KEPT = Nearest(FILE, TABLE)
ALL = Neighbours(TABLE)
WORDS = TABLE.vocabulary()[: TABLE.words]

questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def kin_of(word):
    """What the file should keep of a word, from the table."""
    found = {}
    for other, permille in ALL.near(word):
        if terms.stem(other) != terms.stem(word):
            found.setdefault(terms.whole_term(terms.stem(other)), permille)
    return tuple(Kin(*one) for one in found.items())


def test_the_file_is_whole_and_with_the_table_small_enough_to_ship():
    assert KEPT.verify()
    assert len(FILE) + (DATA / "static.i8").stat().st_size <= 10_500_000


def test_the_build_script_makes_the_bytes_of_a_small_table(tmp_path):
    small = small_table(WORDS[:60])
    near = Neighbours(small).near
    kept = Nearest(encode_neighbours(small, [near(word) for word in WORDS[:60]]), small)
    assert kept.verify()
    for word in WORDS[:60]:
        own = terms.whole_term(terms.stem(word))
        found = {}
        for other, permille in near(word):
            found.setdefault(terms.whole_term(terms.stem(other)), permille)
        found.pop(own, None)
        assert kept.near(word) == tuple(Kin(*one) for one in found.items())


def small_table(words):
    places = {word: place for place, word in enumerate(WORDS)}
    rows = TABLE.rows()[[places[word] for word in words]]
    weights = np.ones(len(words), np.uint16)
    return StaticTable(encode_static_table("small", "none", words, len(words), weights, rows))


@settings(max_examples=examples(20))
@given(st.sampled_from(WORDS))
def test_what_is_kept_of_a_word_is_always_what_the_table_has_near_to_it(word):
    assert KEPT.near(word) == kin_of(word)


@pytest.mark.parametrize("word", ["unheardofishness", "", "the"])
def test_of_other_words_nothing_is_kept(word):
    assert KEPT.near(word) is None


def test_every_term_is_that_of_the_analysers_stem():
    for word in [*WORDS, "kayaking", "kayaking"]:
        assert KEPT.term(word) == terms.whole_term(terms.stem(word))


def test_terms_that_were_let_go_are_found_again(monkeypatch):
    monkeypatch.setattr(vectors, "_TERMS_MAX", 3)
    kept = Nearest(FILE, TABLE)
    words = ["kayaking", "unheard", "zither", "quokkas", "brexit"] * 2
    assert [kept.term(word) for word in words] == [KEPT.term(word) for word in words]


@settings(max_examples=examples(20))
@given(questions, st.integers(0, 3), st.integers(0, 6), st.sampled_from([300, 420, 550]))
def test_a_question_always_gets_the_same_related_words_as_from_the_table(asked, had, most, least):
    def present(some):
        # Fewer the larger `had` is.
        return [term for term in some if term >> 62 >= had]

    from_table = related(asked, ALL.near, present, most=most, least=least)
    assert related(asked, ALL.near, present, KEPT, most=most, least=least) == from_table


def test_the_table_is_not_asked_for_a_word_that_it_has():
    def near(word):
        raise AssertionError(word)

    assert len(related("Which database does the doctor have?", near, list, KEPT)) == 12


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "these are no nearest words of format 2"),
        (b"memplane static 1\n{}\n", "these are no nearest words of format 2"),
        (FILE[:-1], "the nearest words are not those of the table"),
        (FILE.replace(b'"table":"', b'"table":"0', 1), "not those of the table"),
    ],
)
def test_a_file_that_is_torn_or_of_another_table_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        Nearest(data, TABLE)


def test_a_flipped_byte_is_told_by_the_sum():
    assert not Nearest(FILE[:-1] + bytes([FILE[-1] ^ 1]), TABLE).verify()
