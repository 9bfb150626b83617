"""The forms in which secrets are really written, with secrets made anew at each run."""

import random
import tracemalloc

import pytest
from builders_fresh_secrets import CONTEXTS, forms, left
from hypothesis import given, settings, strategies as st

from memplane.intake import Redactor
from memplane.intake.redact import stems
from memplane.intake.token_patterns import WINDOW, looked_at
from tests.examples import examples

BUILT_IN = Redactor()
FIRST = Redactor((r"(?i)api_key\s*[:=]\s*\S+", r"(?i)password\s*[:=]\s*\S+"))
SHARE = 0.95


def measured(redactor, seed, contexts):
    """The share of forms in contexts of which nothing is left, and the others."""
    tried, failed = 0, []
    for number, (name, text, secret) in enumerate(forms(seed)):
        for context in contexts(number):
            before = CONTEXTS[context](text)
            tried += 1
            if left(before, redactor.redact(before)[0], secret):
                failed.append((name, context))
    return 1 - len(failed) / tried, failed


def test_of_the_forms_that_people_write_95_of_100_are_masked_in_any_context():
    names = sorted(CONTEXTS)
    seeds = [random.randrange(1 << 32) for _ in range(3)]  # one by one some lie on the line
    found = [
        measured(BUILT_IN, seed, lambda number: (names[number % len(names)],)) for seed in seeds
    ]
    share = sum(share for share, _ in found) / len(found)
    assert share >= SHARE, (seeds, found)


@pytest.mark.long
@pytest.mark.parametrize("redactor", [BUILT_IN, FIRST], ids=["built in", "first policy"])
def test_of_all_forms_in_all_contexts_95_of_100_are_masked(redactor):
    seed = random.randrange(1 << 32)
    share, failed = measured(redactor, seed, lambda _: CONTEXTS)
    assert share >= SHARE, (seed, share, failed[:200])


def test_a_form_alone_is_masked_whatever_secret_it_holds():
    """But for one of letters alone that happens to look like words: one of a hundred."""
    failed, tried = [], 0
    for seed in range(10):
        for name, text, secret in forms(seed, every=False):
            tried += 1
            if left(text, BUILT_IN.redact(text)[0], secret):
                failed.append((seed, name))
    assert [name for _, name in failed if not name.startswith("letters")] == []
    assert len(failed) <= tried // 500


LONG = st.lists(
    st.one_of(
        st.sampled_from([text for _, text, _ in forms(7)]),
        st.sampled_from(
            [
                "\n",
                " ",
                "x" * 300,
                "z y x " * 60,
                "設定 ",
                "\u200b",
                "password: ",
                "ghp_",
                "-----BEGIN ",
            ]
        ),
    ),
    max_size=14,
).map("".join)


@settings(max_examples=examples(25), deadline=None)
@given(LONG, st.integers(1, 400))
def test_a_long_text_that_is_searched_in_windows_loses_nothing(text, window):
    """Shapes looked for in windows are those of the whole text, and more cost time alone."""
    padded = text + "z y x " * 3000 + text
    whole, halves = looked_at(padded, len(padded))
    some, torn_some = looked_at(padded, window * 40)
    assert set(whole) <= set(some)
    assert halves <= torn_some
    lowered = padded.lower()
    assert list(stems(lowered, window)) == list(stems(lowered, len(lowered)))


def test_a_text_over_several_windows_is_masked_as_its_parts_are():
    """Secrets at the borders too: the windows of a megabyte share more than a token's head."""
    token = dict.fromkeys(text for name, text, _ in forms(8) if name == "github-token 0")
    (token,) = token
    for before in range(WINDOW - 60, WINDOW + 20, 26):
        text = ("z y x " * (before // 6 + 1))[:before] + f" {token} " + "DB_PASSWORD=hunter2x9 "
        masked = BUILT_IN.redact(text)[0]
        assert masked.endswith(" [redacted:github-token] DB_PASSWORD=[redacted:secret-value] ")


def peak(text):
    """Bytes that redacting a text adds at most, and how long it is then."""
    tracemalloc.start()
    masked = BUILT_IN.redact(text)[0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, len(masked)


@pytest.mark.long
@pytest.mark.parametrize(
    "piece",
    [
        "z y x ", "a", "INFO request 12345 took 15 ms, token cache hit key=abc path=/v1/items/42\n",
        "The service reads its settings and runs. ", "設定は今日から変わりました。", '{"key":"value","token":[1]},',
        "DB_PASSWORD=hunter2x9 ", "token " * 4,
    ],
)  # fmt: skip
def test_redacting_a_long_text_takes_twice_its_memory_at_most(piece):
    size = 6_000_000
    text = piece * (size // len(piece.encode()))
    most, masked = peak(text)  # marks may be longer than what they stand for
    assert most <= 2 * max(size, masked) + (8 << 20)
