"""A pattern that could stop a process is named before it is used; the usual ones are taken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.policy.regex_safety import TooLargeError, ambiguous, pattern_mistake, shared

BLOW_UP = {
    r"(a+)+$": "a",
    r"(a+)+": "a",
    r"(a*)*b": "a",
    r"(a|aa)*b": "aa",
    r"(a|a)*b": "a",
    r"(a|b|ab)*c": "aba",
    r"(x+x+)+y": "xx",
    r"(\w+\s?)*$": "a",
    r"(?i)token:\s*(?:\w+[-.]?)+!": "a",
    r"(.*,)*x": ",a",
    r"(?s)(?:.|\n)*x": "\na",
    r'"(?:\\.|[^"])*"': r"\a\a",
    r'"(?:[^"\\]+|\\.)*"': "a",
    r"^(([a-z])+.)+[A-Z]([a-z])+$": "aa",
    r"([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@)": "a",
    r"(?=(a+)+$)b": "a",
    r"(?:a+){1,12}b": "a",
    r"(?:x(?:a*)?y)*z": "yx",
    r"(?i)(?:k+|K+)+;": "K",
    r"(a?){20,}b": "a",
    r"(?:[ab]|[^b]){2,30}!": "aa",
    r"(?P<x>a+)(?P=x)+b": "a",
    r"(a+)(?:\1|aa)+b": "a",
    r"(ab)(?:\1c|abc)+d": "abcabc",
}
SHARED = {
    r"(.*)(.*)(.*)(.*)(.*)x": "a",
    r"\s*\s*\s*\s*x": " ",
    r"\s*\s*\s*x": " ",
    r"(?i)key\s*\s*=\s*\s*x": " ",
    r".*a.*b.*c": "ba",
    r"(x*x*)(y*y*)z": "y",
    r"\w+\s*\w+\s*\w+\s*=": "a",
    r"(?:\w+\s*){2,5}!": "a",
    r"(?=.*a.*b.*c)d": "ba",
    r"\w*(?!\w*\d\w*=)x": "0a",
    r".*(?>a*)b|.*(?>a*a*a*b)c": "a",
    r"(a+)\1\1\1b": "a",
    r".{0,64}.{0,64}.{0,64}.{0,64}x": "a",
    r".*a.*b.{0,40}c": "ba",
}
FINE = [
    r"(?i)api_key\s*[:=]\s*\S+",
    r"(?i)password\s*[:=]\s*\S+",
    r"\bCUST-[0-9]{6}\b",
    r"\b\d{3}-\d{2}-\d{4}\b",
    r"\b(?:\d[ -]?){13,16}\b",
    r"(?:\d{1,3}\.){3}\d{1,3}",
    r"(?:[0-9a-fA-F]{1,4}:){1,7}[0-9a-fA-F]{1,4}",
    r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
    r"(?:[\w-]+\.)*[\w-]+@",
    r"eyJ[\w-]+\.[\w-]+\.[\w-]*",
    r"(?i)bearer\s+[a-z0-9._~+/-]+=*",
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?;",
    r"-----BEGIN [A-Z ]+-----(?:.|\n)*?-----END [A-Z ]+-----",
    r"(?s)-----BEGIN.*?-----END",
    r'"(?:[^"\\]|\\.)*"',
    r"'(?:[^'\\]|\\.)*'",
    r"(?:[^,]*,)*x",
    r"([\"']).*?\1",
    r"https?://[^/\s:@]+:[^/\s:@]+@\S+",
    r"(?i)secret.*=.*",
    r"(?:\s+|\S+)x",
    r"(?:(?:\d+|[a-z]+)-)*!",
    r"(?:\w+[-.]?)+",
    r"(?:\r\n|\r|\n){2,}",
    r"(?:a++)+b",
    r"(?>a+)+b",
    r"(?:wh(?:y|en)|how) did",
    r"(\()?a(?(1)\)|b)",
    r".*a.*b",
    r"(?i)secret.*=.*;",
    r"(?=(a+))*b",
    r"^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])(?=.*\W).{8,}$",
    r"(?i)(?:aws|amazon)[\w.-]{0,20}(?:key|secret)[\w.-]{0,20}\s*[:=]\s*['\"]?[a-z0-9/+]{40}",
    r"[a-z]{20}[a-z0-9]{20}[a-z]{40}x",
    r"(\w+)@\1\.com",
    r"(\w)\1{4,}",
    r"(?:a){0}(b){0}\1c",
    r"\s*+\s*+\s*+\s*+x",
    r"\w+-\w+-\w+-\w+-\w+!",
]


@pytest.mark.parametrize(("pattern", "text"), BLOW_UP.items())
def test_a_pattern_with_two_ways_through_a_repeat_is_named_with_the_text(pattern, text):
    assert ambiguous(pattern) == text


@pytest.mark.parametrize(("pattern", "text"), SHARED.items())
def test_repeats_that_can_share_one_text_in_too_many_ways_are_named_with_it(pattern, text):
    assert ambiguous(pattern) is None
    assert shared(pattern) == text
    why = f"it can take minutes on a short text; too many repeats in it can share a row of `{text}`"
    assert pattern_mistake(pattern) in (why, "it matches an empty text")


@settings(max_examples=60, deadline=None)
@given(
    repeats=st.lists(st.sampled_from([".*", ".+", r"[^;]*", r"\w+", "(?:ab|a)*"]), min_size=3),
    between=st.lists(st.sampled_from(["", "a", "[ab]", "a?", "(?:a|ba)"]), min_size=3, max_size=3),
)
def test_three_repeats_of_one_text_are_always_named_and_two_never(repeats, between):
    row = "".join(map("".join, zip(repeats, between, strict=False)))
    assert shared(f"{row};;") is not None
    assert shared(f"{repeats[0]}{between[0]}{repeats[1]}{between[1]};;") is None


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 12), repeat=st.sampled_from(["[a-z]+", r"\w*", "(?:ab|c)+", ".{0,30}"]))
def test_repeats_with_an_end_that_they_cannot_take_are_never_named(count, repeat):
    assert shared(f"(?:{repeat}\n)" * count + "!") is None


@pytest.mark.parametrize("pattern", FINE)
def test_the_patterns_that_people_write_are_taken(pattern):
    assert ambiguous(pattern) is None
    assert shared(pattern) is None
    assert re.compile(pattern)


def test_the_mistake_says_which_text_and_why(mistakes):
    found = mistakes(
        privacy="version: 1\nstore: {redact_patterns: ['ok', '(a+)+$']}\n",
        scoring="version: 1\nintents:\n  deep:\n    - '(?:why|w.y)+\\?'\n    - '(\\w+ ?)*$'\n",
    )
    slow = "it can take exponential time; a repeat in it matches a row of"
    assert found == [
        f"privacy.yaml:2: store.redact_patterns[1]: expected a regular expression, found `(a+)+$`: {slow} `a` in two ways",
        f"scoring.yaml:4: intents.deep[0]: expected a regular expression, found `(?:why|w.y)+\\?`: {slow} `hyw` in two ways",
        "scoring.yaml:5: intents.deep[1]: expected a regular expression, found `(\\w+ ?)*$`: it matches an empty text",
    ]


def test_a_pattern_too_large_to_be_checked_is_refused():
    # Every letter may follow every other: the square of that is beyond what is tried.
    pattern = "(?:%s)+!" % "|".join(f"{chr(0x4E00 + n)}." for n in range(200))
    with pytest.raises(TooLargeError):
        ambiguous(pattern)
    assert pattern_mistake(pattern) == (
        "it is too large to tell whether it can take exponential time"
    )


def test_a_pattern_of_any_size_that_loops_nowhere_is_taken():
    assert ambiguous("|".join(f"word{n:03}" for n in range(140))) is None
    assert ambiguous("(" * 90 + "a" + ")" * 90) is None
    assert ambiguous("x{64}" * 30) is None


ATOMS = st.sampled_from(["a", "b", "ab", "[ab]", ".", r"\w", r"\d", "(?:a|b)", "c?", "a*?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{2,9}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        )
    ),
    max_leaves=7,
)


@settings(max_examples=150, deadline=None)
@given(pattern=PATTERNS)
def test_any_pattern_has_one_answer_and_behind_an_atomic_group_nothing_is_at_stake(pattern):
    text = ambiguous(f"(?:{pattern})+!")
    assert text != ""
    assert ambiguous(f"(?:{pattern})+!") == text
    # What is named inside stays named; the group itself matches in one way.
    inner = ambiguous(f"(?>{pattern})!")
    assert inner is None or ambiguous(f"(?>{pattern})+!") is not None


@settings(max_examples=100, deadline=None)
@given(pattern=PATTERNS)
def test_a_repeat_of_a_repeat_is_always_named(pattern):
    if re.compile(pattern).search("") is None:
        assert ambiguous(f"(?:(?:{pattern})+)+!") is not None


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6))
def test_words_with_an_end_of_their_own_are_never_named(words):
    assert ambiguous("(?:(?:%s);)+!" % "|".join(sorted(set(words)))) is None


def has_two_readings(words):
    """The test of Sardinas and Patterson: what is left over when one reading is ahead."""
    waiting = {
        one[len(two) :] for one in words for two in words if one != two and one.startswith(two)
    }
    seen = set()
    while waiting:
        rest = waiting.pop()
        if rest in words:
            return True
        seen.add(rest)
        ahead = {word[len(rest) :] for word in words if word.startswith(rest)}
        ahead |= {rest[len(word) :] for word in words if rest.startswith(word)}
        waiting |= ahead - seen
    return False


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5, unique=True))
def test_words_in_a_row_are_named_exactly_where_some_text_of_them_has_two_readings(words):
    pattern = "(?:%s)+!" % "|".join(words)
    assert (ambiguous(pattern) is not None) == has_two_readings(words)
