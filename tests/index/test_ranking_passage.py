"""Passages: runs of sentences, the one that holds most of what is asked."""

import string

import pytest
from hypothesis import given, strategies as st

from memplane.index import terms
from memplane.index.stems import snowball
from memplane.index.terms import (
    IRREGULAR,
    AskedTokens,
    Sentences,
    passage,
    sentences,
    word_filter,
)

LONG = (
    "We talked for hours. The weather was fine. Then Ana bought the red kayak in Lisbon. "
    "It cost ninety euros. We went home. Nobody was tired."
)


def words(text):
    return len(text.split())


def wanted(question):
    return {term: 10 for term, _ in terms.query(question).words}


def cut(text, question, limit):
    start, end = passage(text, wanted(question), limit, words, terms.TermVocabulary())
    return text[start:end].strip()


@given(st.text(alphabet="ab .!?\n\u3002", max_size=900))
def test_sentences_always_are_the_text_in_order(text):
    spans = sentences(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= 300 for start, end in spans)


def test_the_passage_is_where_the_words_of_the_question_are():
    assert cut(LONG, "Which kayak?", 9) == "Then Ana bought the red kayak in Lisbon."


def test_a_longer_run_is_taken_only_where_it_holds_more():
    assert cut(LONG, "Which kayak?", 30) == "Then Ana bought the red kayak in Lisbon."
    both = cut(LONG, "What did the kayak cost in euros?", 30)
    assert both == "Then Ana bought the red kayak in Lisbon. It cost ninety euros."
    assert cut(LONG, "What did the kayak cost in euros?", 9) == "It cost ninety euros."


def test_of_equal_passages_the_shorter_then_the_first_is_taken():
    assert cut("A kayak of wood and tar. A kayak! Kayak?", "kayak", 9) == "Kayak?"
    assert cut("Kayak one. Kayak two.", "kayak", 2) == "Kayak one."


def test_without_any_word_of_the_question_a_text_gives_its_beginning():
    assert cut(LONG, "zebra", 8) == "We talked for hours. The weather was fine."


def test_at_least_one_sentence_comes_even_over_the_limit():
    assert cut(LONG, "kayak", 1) == "Then Ana bought the red kayak in Lisbon."


def test_an_empty_text_has_an_empty_passage():
    assert passage("", {}, 5, words, terms.TermVocabulary()) == (0, 0)


@given(
    st.lists(st.sampled_from("kayak red home. sea! Ana we\n".split(" ")), max_size=60),
    st.integers(4, 30),
)
def test_a_passage_never_exceeds_its_limit_unless_one_sentence_does(parts, limit):
    text = " ".join(parts)
    start, end = passage(text, wanted("red kayak"), limit, words, terms.TermVocabulary())
    inside = [span for span in sentences(text) if start <= span[0] and span[1] <= end]
    assert sum(words(text[a:b].strip()) for a, b in inside) <= limit or len(inside) == 1


# Words whose stems, forms and spellings are not how they begin.
ODD = (
    "dying tying skies happily hoping 05 5 1,000 went children foo_bar payRetry PDFs src/pay.ts"
    " src\\pay.ts it's don't café CAFE ability relational 왜가리 a::b Lisbon kayaks \u2460 co-op"
).split()
pieces = st.sampled_from(ODD) | st.text(string.ascii_letters + "._-/'0é ", min_size=1, max_size=9)


@given(st.lists(pieces, max_size=12), st.lists(pieces, min_size=1, max_size=5))
def test_what_a_filter_leaves_out_never_holds_a_word_of_the_question(said, asked):
    text, question = ". ".join(said), " ".join(asked)
    vocabulary = terms.TermVocabulary()
    only = AskedTokens(word_filter(question), vocabulary)
    words = wanted(question).keys() & only.terms
    held = [words & own for own in Sentences(text, vocabulary).words]
    assert Sentences(text, vocabulary).holding(words, only) == held


@pytest.mark.parametrize(
    "question", ["Which kayak did Ana buy?", "pay_retry and src/pay.ts in 2024"]
)
def test_a_filter_is_for_all_words_of_a_question(question):
    assert wanted(question).keys() <= word_filter(question).terms


SUFFIXES = (
    *("", "s", "es", "ed", "ied", "ies", "ing", "ying", "yings", "y", "ily", "ity", "ability"),
    *(
        "ational",
        "ization",
        "ousness",
        "fulness",
        "lessly",
        "ogist",
        "alism",
        "ement",
        "ance",
        "er",
    ),
)


@given(st.text(string.ascii_lowercase, min_size=1, max_size=12), st.sampled_from(SUFFIXES))
def test_all_letters_of_a_stem_but_the_last_always_begin_its_word(word, suffix):
    made = snowball(word + suffix)
    assert (word + suffix).startswith(made[:-1]) or (made[1:] == "ie" and suffix.startswith("ying"))


def test_a_text_without_any_of_the_words_is_not_analysed():
    vocabulary = terms.TermVocabulary()
    said = Sentences("Nobody went there. " * 9 + "The kayak sank.", vocabulary)
    words = wanted("Which kayak?").keys()
    only = AskedTokens(word_filter("Which kayak?"), vocabulary)
    assert said.holding(words, only) == [frozenset()] * 9 + [words]
    assert vocabulary.keys() == {"kayak"}


def test_an_irregular_form_is_found_by_its_word():
    vocabulary = terms.TermVocabulary()
    for form, word in IRREGULAR.items():
        assert AskedTokens(word_filter(word), vocabulary).may(form.upper())
        assert AskedTokens(word_filter(form), vocabulary).may(word)
