"""`bound1.idx` says what `bound1.xz` says, however much of it was read."""

import random
from pathlib import Path

import pytest
from builders_nasty_texts import texts
from hypothesis import given, settings, strategies as st
from table_formats import encode_token_index

import memplane.tokens
from memplane.tokens import make
from memplane.tokens.bound import CHARACTERS, Ranks, unpack
from tests.examples import examples

FF = b"\xff"


@pytest.fixture(scope="module")
def index():
    return Path(memplane.tokens.__file__).with_name("bound1.idx").read_bytes()


def without_ff(ranks):
    return {token: rank for token, rank in ranks.items() if token != FF}


def test_the_index_is_the_table_laid_out_for_searching(table, index):
    packed = unpack(table())
    assert encode_token_index(packed.characters, packed.ranks) == index


def test_the_index_holds_every_token_and_every_character_of_the_table(table, index):
    packed, opened = unpack(table()), unpack(index)
    assert opened.characters == packed.characters
    for found, ranks in zip(opened.ranks, packed.ranks, strict=True):
        assert isinstance(found, Ranks)
        assert found.all() == without_ff(ranks)


def test_the_index_counts_what_the_table_counts_while_it_is_read_and_after(bound, index):
    counter = make("bound/1", table=lambda: index)
    for text in texts(random.Random(21), 6_000):
        assert counter.count(text) == bound.count(text), text
    assert not any(isinstance(one._table, Ranks) for one in counter._costs._vocabularies)


TOKEN = st.binary(min_size=1, max_size=5).filter(lambda token: FF not in token)


@settings(max_examples=examples(50), deadline=None)
@given(st.sets(TOKEN, min_size=1, max_size=90), st.lists(TOKEN, max_size=40))
def test_any_vocabulary_is_found_as_in_its_dictionary(tokens, others):
    ranks = {token: rank for rank, token in enumerate(sorted(tokens, key=lambda t: t[::-1]))}
    laid_out = encode_token_index(bytes(CHARACTERS), (ranks, ranks))
    for found in unpack(laid_out).ranks:
        for token in [*others, *tokens, b""]:
            assert found.get(token, -7) == ranks.get(token, -7)
            assert (token in found) == (token in ranks)
        assert found.all() == ranks
