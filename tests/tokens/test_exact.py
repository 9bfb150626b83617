import random

import pytest
from builders_nasty_texts import SENTENCES, texts

from memplane.tokens import lines, make


def sweep(table, encodings, name, *, seed, trials):
    counter = make(name, table=table)
    for text in texts(random.Random(seed), trials):
        clean = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
        assert counter.count(text) >= encodings[name].count(clean), text
        assert counter.count(text) == sum(map(counter.count, lines(text))), text


@pytest.mark.parametrize("name", ["o200k", "cl100k"])
def test_never_below_the_encoding_and_the_sum_of_its_lines(table, encodings, name):
    sweep(table, encodings, name, seed=11, trials=6_000)


@pytest.mark.long
@pytest.mark.parametrize("name", ["o200k", "cl100k"])
def test_never_below_the_encoding_in_a_long_sweep(table, encodings, name):
    sweep(table, encodings, name, seed=12, trials=150_000)


@pytest.mark.parametrize("name", ["o200k", "cl100k"])
def test_exact_where_no_line_ends(table, encodings, name):
    counter = make(name, table=table)
    for sentence in SENTENCES:
        for line in sentence.split("\n"):
            text = line.strip().lstrip("/")
            assert counter.count(text) == encodings[name].count(text)
