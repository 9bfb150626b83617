"""Turns on one matter: which ones share it, whatever order they come in."""

from hypothesis import given, strategies as st

from memplane.pack.evidence import LOOKED_AT_MAX, ValueMention, on_one_matter, says_a_value

WORDS = st.frozensets(st.integers(0, 12), max_size=8)
TURNS = st.lists(st.tuples(WORDS, st.booleans()), max_size=20).map(
    lambda rows: [ValueMention(at + 1, *row) for at, row in enumerate(rows)]
)


def test_two_values_of_the_same_thing_share_their_matter():
    old = ValueMention(1, frozenset((1, 2, 3, 4)), valued=True)
    new = ValueMention(9, frozenset((1, 2, 3, 8)), valued=True)
    other = ValueMention(5, frozenset((1, 6, 7, 9)), valued=True)
    assert on_one_matter({1, 2}, [other, new, old]) == {1, 9}


def test_a_turn_without_a_value_shares_no_matter():
    turns = [ValueMention(seq, frozenset((1, 2, 3, 4)), valued=seq == 1) for seq in (1, 2, 3)]
    assert on_one_matter({1, 2}, turns) == frozenset()


def test_words_that_the_query_does_not_ask_for_make_no_matter():
    turns = [ValueMention(seq, frozenset((1, 2, 3, 4)), valued=True) for seq in (1, 2)]
    assert on_one_matter({1, 9}, turns) == frozenset()
    assert on_one_matter({1}, turns) == {1, 2}, "a query of one word asks for no more"


def test_two_short_texts_need_half_of_their_words():
    short = [
        ValueMention(1, frozenset((1, 2)), valued=True),
        ValueMention(2, frozenset((1, 2, 5)), valued=True),
    ]
    assert on_one_matter({1, 2}, short) == {1, 2}


@given(WORDS, TURNS)
def test_a_matter_is_always_shared_by_two_of_the_first_turns_or_by_none(asked, turns):
    found = on_one_matter(asked, turns)
    assert len(found) != 1
    looked_at = {turn.seq for turn in turns[:LOOKED_AT_MAX] if turn.valued}
    assert found <= looked_at
    assert on_one_matter(asked, turns[:LOOKED_AT_MAX][::-1]) == found, "in whatever order"


def test_numbers_negations_and_changes_are_values_and_a_wish_is_none():
    for text in ("it has 45 sources", "I've never used Zotero", "we don't cache", "It changed."):
        assert says_a_value(text), text
    assert not says_a_value("Can you help me with my essay, please?")
