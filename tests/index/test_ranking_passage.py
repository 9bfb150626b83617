"""Passages: runs of sentences, the one that holds most of what is asked."""

from hypothesis import given, strategies as st

from memplane.index import terms
from memplane.index.terms import passage, sentences

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
