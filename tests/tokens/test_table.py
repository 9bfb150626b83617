"""`bound1.idx` says what `bound1.xz` says, however much of it was read."""

import random
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from builders_nasty_texts import texts
from hypothesis import given, settings, strategies as st
from table_formats import encode_token_index

import memplane.tokens
from memplane.tokens import (
    _STOPS,
    CHARACTERS,
    ENCODINGS,
    NEVER,
    Ranks,
    TokenRanks,
    _Costs,
    make,
    starting,
    unpack,
)
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
        found.read_all()
        assert dict(found) == without_ff(ranks)


def test_the_index_counts_what_the_table_counts_while_it_is_read_and_after(bound, index):
    counter = make("bound/1", table=lambda: index)
    for number, text in enumerate(texts(random.Random(21), 6_000)):
        assert counter.count(text) == bound.count(text), text
        if number == 3_000:
            for one in counter._costs._vocabularies:
                assert not one._ranks.whole
                one._ranks.read_all()


def test_a_word_and_a_stop_behind_it_cost_what_the_encodings_split_them_into(bound):
    bound.count("the table is read")
    costs = _Costs(bound._costs._table, ENCODINGS)
    words = ("a", "I", "it", "word", "Words", "glimbings", "Xylographer", "q" * 200)
    for blank, word, stop in product(("", " "), words, ("", *_STOPS)):
        chunk = blank + word + stop
        assert costs.chunks.count(chunk) == max(
            one.word(chunk, chunk) for one in costs._vocabularies
        )


def test_the_first_texts_of_a_process_read_a_part_of_the_table(index):
    counter = make("bound/1", table=lambda: index)
    for text in texts(random.Random(22), 100):
        counter.count(text)
    for one in counter._costs._vocabularies:
        assert 0 < len(one._ranks) < 25_000
        assert not one._ranks.whole


def test_what_is_no_token_is_remembered_within_a_bound(index):
    (ranks, _), held = unpack(index).ranks, []
    for number in range(120_000):
        assert ranks[b"no token %d" % number] == NEVER
        held.append(len(ranks))
    assert max(held) <= 200_000 + 50_000


TOKEN = st.binary(min_size=1, max_size=5).filter(lambda token: FF not in token)


@settings(max_examples=examples(50), deadline=None)
@given(st.sets(TOKEN, min_size=1, max_size=90), st.lists(TOKEN, max_size=40))
def test_any_vocabulary_is_found_as_in_its_dictionary(tokens, others):
    ranks = {token: rank for rank, token in enumerate(sorted(tokens, key=lambda t: t[::-1]))}
    laid_out = encode_token_index(bytes(CHARACTERS), (ranks, ranks))
    for found in unpack(laid_out).ranks:
        for token in [*others, *tokens, b""]:
            assert found[token] == ranks.get(token, NEVER)
        found.read_all()
        for token in [*others, *tokens, b""]:
            assert found[token] == ranks.get(token, NEVER)


# Runs of letters as random text, names and base64 have them, and of what words are made of.
runs = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", max_size=128) | st.lists(
    st.sampled_from(["the", "ing", " an", "QUE", "0", "=", "--", "\u00e9", "x"]), max_size=40
).map("".join)


@settings(max_examples=examples(60), deadline=None)
@given(runs.map(lambda text: text.encode()[:128]).filter(bool))
def test_what_can_begin_in_a_text_is_the_same_where_all_ends_are_tried(table, index, text):
    """A table that is unpacked tries every end; the one laid out knows how long a token can be."""
    for found, ranks in zip(opened_once(index), unpacked_once(table), strict=True):
        assert starting(text, found) == starting(text, ranks)


@cache
def opened_once(index):
    return unpack(index).ranks


@cache
def unpacked_once(table):
    return unpack(table()).ranks


@pytest.mark.parametrize("asked", [0, 4_000])
def test_how_long_a_token_can_be_is_known_by_its_first_bytes(table, index, asked):
    packed, opened = unpack(table()), unpack(index)
    for ranks, every in zip(opened.ranks, packed.ranks, strict=True):
        for number in range(asked):
            ranks.longest(b"%03x" % number)
        lengths = {}
        for one in every:
            lengths[one[:3]] = max(len(one), lengths.get(one[:3], 0))
        wanted = random.Random(23).sample(sorted(every), 300)
        for prefix in [token[:3] for token in wanted if len(token) >= 3] + [
            b"\x00\x01\x02",
            b"zzq",
        ]:
            assert ranks.longest(prefix) == lengths.get(prefix, 0)
        assert ranks.whole == (asked > 3_000)


class Counting(TokenRanks):
    """Another's ranks, and how many were asked for."""

    whole = False

    def __init__(self, ranks):
        super().__init__()
        self.longest, self.ranks, self.asked = ranks.longest, ranks, 0

    def __missing__(self, token):
        self.asked += 1
        return self.ranks[token]


def test_a_run_of_random_letters_asks_for_few_ends(index):
    """Some ten a byte, of 128 that there are."""
    letters = bytes(random.Random(24).choices(range(97, 123), k=128))
    for ranks in unpack(index).ranks:
        counting = Counting(ranks)
        assert starting(letters, counting) == starting(letters, ranks)
        assert counting.asked < 128 * 16
