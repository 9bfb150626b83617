"""The bounds of `merges`, against every continuation of small made-up vocabularies."""

from itertools import pairwise, product

from hypothesis import given, settings, strategies as st

from memplane.tokens import TokenRanks, closing, pretoken_count, starting
from tests.examples import examples

LETTERS = "ab\r"


def reachable(tokens):
    """As in both encodings, every token is what its own bytes merge into."""
    ranks = TokenRanks((letter.encode(), rank) for rank, letter in enumerate(LETTERS))
    for token in tokens:
        if len(merged(token.encode(), ranks)) == 2:
            ranks[token.encode()] = len(ranks)
    return ranks


TOKEN = st.text(LETTERS, min_size=2, max_size=4)
VOCABULARY = (
    st.lists(TOKEN, max_size=24, unique=True)
    .map(sorted)
    .map(lambda tokens: reachable(sorted(tokens, key=len)))
)
TEXT = st.text(LETTERS, min_size=1, max_size=7).map(str.encode)


def merged(text, ranks):
    """Byte pair encoding as one would write it down: join the best pair until none is left."""
    parts = [text[at : at + 1] for at in range(len(text))]
    while True:
        pairs = [(ranks[a + b], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not pairs:
            return parts
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@settings(max_examples=examples(100), deadline=None)
@given(TEXT, VOCABULARY)
def test_merging_joins_the_best_pair_until_none_is_left(text, ranks):
    assert pretoken_count(text, ranks) == (1 if text in ranks else len(merged(text, ranks)))


@settings(max_examples=examples(33), deadline=None)
@given(TEXT, VOCABULARY)
def test_no_continuation_behind_the_newline_costs_more_than_closing_says(text, ranks):
    bound = closing(text, b"\r", ranks)
    for size in range(5):
        for more in product(LETTERS, repeat=size):
            whole = text + b"\r" + "".join(more).encode()
            assert pretoken_count(whole, ranks) - size <= bound


@settings(max_examples=examples(33), deadline=None)
@given(TEXT, VOCABULARY)
def test_no_context_lets_more_tokens_begin_than_starting_says(text, ranks):
    bound = starting(text, ranks)
    around = [
        "".join(letters).encode() for size in range(3) for letters in product(LETTERS, repeat=size)
    ]
    for before, behind in product(around, around):
        at, begun = 0, 0
        for part in merged(before + text + behind, ranks):
            begun += len(before) <= at < len(before) + len(text)
            at += len(part)
        assert begun <= bound
