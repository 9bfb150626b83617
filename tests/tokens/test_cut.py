import random

import pytest
from builders_counters import MADE_HERE
from builders_nasty_texts import ATOMS, SENTENCES, texts
from hypothesis import given, settings, strategies as st

from memplane.tokens import clip, cut, make
from tests.examples import examples

TEXT = st.lists(st.one_of(st.sampled_from(ATOMS), st.sampled_from(SENTENCES), st.text())).map(
    "".join
)


class Watched:
    """A counter that knows the longest text it was asked for."""

    def __init__(self, counter):
        self.name, self._count, self.longest = counter.name, counter.count, 0

    def count(self, text):
        self.longest = max(self.longest, len(text))
        return self._count(text)


@settings(max_examples=examples(100), deadline=None)
@given(TEXT, st.integers(-1, 120))
def test_what_is_cut_always_is_a_prefix_within_the_limit(bound, text, limit):
    found = cut(bound, text, limit)
    assert text.startswith(found)
    assert bound.count(found) <= max(limit, 0)


@settings(max_examples=examples(66), deadline=None)
@given(st.text("ab1.;/é漢 \n", max_size=60), st.integers(0, 30))
def test_no_longer_prefix_of_whole_words_fits(bound, text, limit):
    found = cut(bound, text, limit)
    for end in range(len(found) + 1, len(text) + 1):
        at_end = end == len(text) or text[end] in " \n"
        if text[end - 1] == "\n" or (at_end and text[end - 1] != " ") or end == len(text):
            assert bound.count(text[:end]) > limit


def test_a_text_that_fits_stays_whole(bound):
    for text in texts(random.Random(4), 300):
        assert cut(bound, text, bound.count(text)) == text


def test_words_are_kept_whole(bound):
    assert cut(bound, "One two three.\nFour five six.", 3) == "One two"
    assert cut(bound, "One two three.\nFour five six.", 4) == "One two three.\n"
    assert cut(bound, "One two three.\nFour five six.", 5) == "One two three.\nFour"


def test_where_no_word_fits_as_many_characters_are_kept_as_do(bound):
    found = cut(bound, "Donaudampfschifffahrtsgesellschaft", 3)
    assert 3 <= len(found) < 34
    assert bound.count(found) <= 3
    assert cut(bound, "漢", 1) in {"", "漢"}
    assert cut(bound, "words", 0) == ""


@pytest.mark.sized
def test_a_long_text_is_read_as_far_as_the_limit_asks(table):
    long = 350_000
    for text in (
        "The words of a long text. " * 20_000,
        "A" * long,
        "漢字" * long,
        "\n" * long,
        " " * long,
    ):
        for name in [one for one in MADE_HERE if one != "cl100k"]:
            counter = Watched(make(name, table=table))
            assert counter.count(cut(counter, text, 60)) <= 60
            assert counter.longest <= 16_000


@settings(max_examples=examples(33), deadline=None)
@given(TEXT, st.integers(0, 60))
def test_other_counters_are_kept_to_their_limit_too(table, text, limit):
    for counter in (LEN4, SCALED):
        assert counter.count(cut(counter, text, limit)) <= limit


LEN4 = make("len4", table=bytes)
SCALED = make("len4", scale_ppm=1_300_000, table=bytes)


@settings(max_examples=examples(66), deadline=None)
@given(TEXT, st.integers(0, 80), st.integers(1, 3))
def test_what_is_clipped_counts_what_it_says_and_fits_with_its_handle(bound, text, tokens, step):
    found = clip(bound, text, tokens, lambda kept: f"said: {kept} … #12\n", around=4, step=step)
    if found is not None:
        lines, cost = found
        assert cost == bound.count(lines) <= tokens
        assert text.startswith(lines.removeprefix("said: ").removesuffix(" … #12\n"))


def test_a_clip_ends_where_it_may_or_is_none(bound):
    def at_line(kept):
        return kept[: kept.rfind("\n") + 1]

    text = "One two three.\nFour five six.\nSeven.\n"
    found = clip(bound, text, 10, lambda kept: f"{kept}…\n", around=2, ended=at_line)
    assert found is not None
    assert found[0] == "One two three.\nFour five six.\n…\n"
    assert clip(bound, "One two three", 3, str, around=0, ended=at_line) is None
    assert clip(bound, text, 4, lambda kept: f"{kept} … {'words ' * 9}\n", around=1) is None
