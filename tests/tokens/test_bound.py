import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders_nasty_texts import ATOMS, SENTENCES, texts
from hypothesis import given, settings, strategies as st

from memplane.tokens import CHARACTERS, UNSURE_CHARACTER, lines, make, stand_ins, unpack
from tests.examples import examples

WORDS = st.lists(st.one_of(st.sampled_from(ATOMS), st.sampled_from(SENTENCES), st.text())).map(
    "".join
)


def exact(encodings, text):
    clean = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return {name: encoding.count(clean) for name, encoding in encodings.items()}


def sweep(bound, encodings, *, seed, trials):
    for text in texts(random.Random(seed), trials):
        count = bound.count(text)
        assert count >= max(exact(encodings, text).values()), text
        assert count == sum(map(bound.count, lines(text))), text


def test_never_below_either_encoding_and_the_sum_of_its_lines(bound, encodings):
    sweep(bound, encodings, seed=1, trials=5_000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 7))
def test_never_below_either_encoding_in_a_long_sweep(bound, encodings, seed):
    sweep(bound, encodings, seed=seed, trials=150_000)


@settings(max_examples=examples(166), deadline=None)
@given(WORDS)
def test_never_below_either_encoding_whatever_the_text(bound, encodings, text):
    assert bound.count(text) >= max(exact(encodings, text).values())


@settings(max_examples=examples(100), deadline=None)
@given(WORDS, WORDS)
def test_a_text_always_costs_the_sum_of_its_lines(bound, text, other):
    assert bound.count(text) == sum(map(bound.count, lines(text)))
    assert bound.count(text + "\n" + other) == bound.count(text + "\n") + bound.count(other)


JOINS = st.tuples(
    st.text('a1.;:/)"}*-= 。', max_size=8),
    st.text("\n\r", min_size=1, max_size=12),
    st.text("/\n\r", max_size=6),
    st.text("a1./ *", max_size=6),
).map("".join)


@settings(max_examples=examples(166), deadline=None)
@given(JOINS)
def test_no_run_of_newlines_and_slashes_is_too_long(bound, encodings, text):
    assert bound.count(text) >= max(exact(encodings, text).values())


@pytest.mark.parametrize("mark", [".", ");", "```", "***", "。", "-" * 30, "=" * 79])
@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 40, 200])
def test_a_long_run_of_newlines_is_covered_too(bound, encodings, mark, size):
    text = f"end{mark}" + "\n" * size + "next"
    assert bound.count(text) >= max(exact(encodings, text).values())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("\n", 1),
        ("hello world", 2),
        ("hello world.\n", 3),  # the newline belongs to the full stop
        ("hello world\n", 3),
        ("        return x\n", 4),  # seven blanks are one token
        ("// note\n", 4),  # exact: 3; after `;\n` the slashes would be tokens of the line before
        ("    // note\n", 4),
        ("=" * 79 + "\n", 2),
    ],
)
def test_plain_lines_cost_what_one_expects(bound, text, count):
    assert bound.count(text) == count


def test_the_count_stays_close_to_the_larger_exact_one(bound, encodings):
    for text, most in zip(SENTENCES, (1.1, 1.3, 1.1, 1.1, 1.1, 2.1, 2.1), strict=False):
        assert bound.count(text) <= most * max(exact(encodings, text).values()), text


@pytest.mark.sized
@pytest.mark.parametrize(("step", "first"), [(23, 3), pytest.param(1, 0, marks=pytest.mark.long)])
def test_both_encodings_see_the_classes_of_characters_as_the_table_does(
    table, encodings, step, first
):
    characters = unpack(table())
    counters = {name: make(name, table=table)._bound for name in encodings}
    for code in range(first, CHARACTERS, step):
        char = chr(code)
        sure = UNSURE_CHARACTER not in stand_ins(char, characters.entries(char))
        if not sure or char in "\r\n" or 0xD800 <= code < 0xE000:
            continue
        for name, counter in counters.items():
            for text in (f"aB{char}cD", f"a {char}9{char}'s", f"-{char}-A{char}b"):
                assert counter.count(text) == encodings[name].count(text), (name, ascii(text))


def test_a_lone_surrogate_counts_as_the_replacement_character(bound):
    assert bound.count("a\ud800 \udfff.\n") == bound.count("a\ufffd \ufffd.\n")
    assert bound.count("\ud83d\ude00") >= 1


def test_only_a_line_feed_ends_a_line():
    text = "a\u2028b\x0bc\rd\r\ne\x85f\n\ng"
    assert list(lines(text)) == ["a\u2028b\x0bc\rd\r\n", "e\x85f\n", "\n", "g"]


def test_the_table_is_read_once_and_not_before_the_first_count(table):
    reads = []
    counter = make("bound/1", table=lambda: reads.append(1) or table())
    assert reads == []
    assert counter.count("") == 0
    assert reads == []
    counter.count("one")
    counter.count("two")
    assert reads == [1]


def test_the_memo_is_bounded_and_never_changes_a_count(table, bound, monkeypatch):
    monkeypatch.setattr("memplane.tokens._FULL", 16)
    small = make("bound/1", table=table)
    for text in texts(random.Random(8), 500):
        assert small.count(text) == bound.count(text)
    assert len(small._costs.chunks) <= 16


@pytest.mark.sized
def test_threads_share_a_counter_and_agree(table, bound):
    shared = make("bound/1", table=table)
    many = list(texts(random.Random(9), 300))
    with ThreadPoolExecutor(4) as pool:
        rounds = list(pool.map(lambda _: [shared.count(text) for text in many], range(4)))
    assert rounds == [[bound.count(text) for text in many]] * 4
