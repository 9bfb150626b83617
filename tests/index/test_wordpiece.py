"""Texts as the tokenizer of the model splits them."""

import unicodedata

from hypothesis import given, strategies as st

from memplane.index.vectors import WORD_LETTERS_MAX, WordPiece, plain_words

PIECES = ["a", "b", "ab", "abc", "##a", "##b", "##bc", "##c", "cab", "##cab"]
SPLIT = WordPiece({piece: number for number, piece in enumerate(PIECES)}.get, max(map(len, PIECES)))


def spelled(word):
    return [PIECES[number] for number in SPLIT.pieces(word)]


def test_words_are_lower_case_without_accents_and_marks_stand_alone():
    assert plain_words("Naïve Café, isn't it?  x_1") == (
        ["naive", "cafe", ",", "isn", "'", "t", "it", "?", "x", "_", "1"]
    )
    assert plain_words("“Über-größe”…") == ["“", "uber", "-", "große", "”", "…"]


def test_ideographs_stand_alone_and_hangul_is_taken_apart():
    assert plain_words("東京に行く") == ["東", "京", "に", "行", "く"]
    assert plain_words("한국") == [unicodedata.normalize("NFD", "한국")]


def test_control_characters_vanish_and_every_white_space_divides():
    assert plain_words("a\x00b\x1fc\td\ne\u2003f\u00a0g\u200bh\ufffd") == [
        "abc",
        "d",
        "e",
        "f",
        "gh",
    ]


def test_the_longest_piece_goes_first():
    assert spelled("abc") == ["abc"]
    assert spelled("abbc") == ["ab", "##bc"]
    assert spelled("cabcab") == ["cab", "##cab"]


def test_a_word_that_cannot_be_put_together_is_unknown_as_a_whole():
    assert spelled("abx") == []
    assert spelled("cb") == []
    assert spelled("a" * WORD_LETTERS_MAX) != []
    assert spelled("a" * (WORD_LETTERS_MAX + 1)) == []


@given(st.text("abc", max_size=12))
def test_the_pieces_of_a_word_always_spell_it(word):
    found = spelled(word)
    if found:
        assert "".join(piece.removeprefix("##") for piece in found) == word
        assert all(piece.startswith("##") == bool(place) for place, piece in enumerate(found))


@given(st.text(st.characters(codec="ascii"), max_size=40))
def test_plain_text_is_split_alike_on_the_short_way_and_the_long_one(text):
    assert plain_words(text) == plain_words(f"{text} é")[:-1]


@given(st.text(max_size=40))
def test_words_never_hold_white_space_and_splitting_again_changes_nothing(text):
    found = plain_words(text)
    assert all(word and not any(map(str.isspace, word)) for word in found)
    assert plain_words(" ".join(found)) == found
