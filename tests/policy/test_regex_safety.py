"""A pattern that could stop a process is refused before it is used; the usual ones are taken."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from memplane.policy.regex_safety import SENTENCE, pattern_mistake

sys.path.insert(0, str(Path(__file__).parent))
from regex_proof import TooLargeError, ambiguous, shared

from tests.examples import examples

TOP = Path(__file__).parents[2]
SPEC = [
    (TOP / "policies" / "privacy.yaml").read_text(),
    (TOP / "tests" / "policy" / "spec" / "privacy.yaml").read_text(),
]
EXPONENTIAL = [
    r"(a+)+$",
    r"(a+)+",
    r"(a*)*b",
    r"(a|aa)*b",
    r"(a|a)*b",
    r"(a|b|ab)*c",
    r"(x+x+)+y",
    r"(\w+\s?)*$",
    r"(?i)token:\s*(?:\w+[-.]?)+!",
    r"(.*,)*x",
    r"(?s)(?:.|\n)*x",
    r'"(?:\\.|[^"])*"',
    r'"(?:[^"\\]+|\\.)*"',
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@)",
    r"(?=(a+)+$)b",
    r"(?:a+){1,12}b",
    r"(?:x(?:a*)?y)*z",
    r"(?i)(?:k+|K+)+;",
    r"(a?){20,}b",
    r"(?:[ab]|[^b]){2,30}!",
    r"(?P<x>a+)(?P=x)+b",
    r"(a+)(?:\1|aa)+b",
    r"(ab)(?:\1c|abc)+d",
]
POLYNOMIAL = [
    r"(.*)(.*)(.*)(.*)(.*)x",
    r"\s*\s*\s*\s*x",
    r"\s*\s*\s*x",
    r"(?i)key\s*\s*=\s*\s*x",
    r".*a.*b.*c",
    r"(x*x*)(y*y*)z",
    r"\w+\s*\w+\s*\w+\s*=",
    r"(?:\w+\s*){2,5}!",
    r"(?=.*a.*b.*c)d",
    r"\w*(?!\w*\d\w*=)x",
    r".*(?>a*)b|.*(?>a*a*a*b)c",
    r"(a+)\1\1\1b",
    r".{0,64}.{0,64}.{0,64}.{0,64}x",
    r".*a.*b.{0,40}c",
]
# Of the kinds that people have met, and those that a proof by loops of an automaton passes over.
BOMBS = [
    r"a*a*b",
    r"\d+\d+x",
    r".*foo.*bar",
    r"\s+$",
    r".*x",
    r"\w+\s*=\s*\w+;",
    r"^(a|b|ab)*$c",
    r"(a?){25}a{25}b",
    r"(?:a|b)*(?:a|c)*(?:a|d)*x",
    r"a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaaaaaaaaaaaaaaaaab",
    r"([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x([ab]c|a[cd])x!",
    r"^(?:\w+\.?)+@x",
    r"<[^>]*<[^>]*>",
    r"(?i)(?:api|key|a)+\s*=",
    r"\w{0,200}\w{0,200}\w{0,200}x",
    r"(?:\d{1,3}){4,}x",
    r"^\s*(.*?)\s*=\s*(.*?)\s*;$",
    r"\[.*\]\(.*\)",
    r'(?:[^"]*"[^"]*")*[^"]*$x',
    r"(?=.*[a-z].*[0-9].*!)x",
    r"(?<!x)(?:ab|a|b)+c",
    r"(?:(?:[a-z]+)*-)*:",
    r"(.+)+=",
    r"(\d+)*[a-z]",
    r'"(?:[^"]|\\")*"',
    r"/\*(?:.|\n)*\*/.*;",
    r"(?s)<div.*class=.*>.*</div>",
    r"(?:[a-z]+\s?){3,}\d",
    r"(?:0|00|1)+2",
    r"(?:\w|\d)+!",
    r"(?:a{1,9}){1,9}b",
    r"(?:,?\s*\w+)*\s*:",
    r"(?:x*y*)*z",
    r"(?i)(?:ss|\u00df|s)+x",
    r"(?:-?-?)*>",
    r"(?m)^.*a.*b.*$",
    r"(?s).*?,.*?,.*?,x",
    r"(?P<q>.*)(?P=q)(?P=q)x",
    r"[^@]+@[^@]+\.[^@]+",
]
FINE = [
    r"(?i)api_key\s*[:=]\s*\S+",
    r"(?i)password\s*[:=]\s*\S+",
    r"\bCUST-[0-9]{6}\b",
    r"\b\d{3}-\d{2}-\d{4}\b",
    r"\b(?:\d[ -]?){13,16}\b",
    r"(?:\d{1,3}\.){3}\d{1,3}",
    r"(?:[0-9a-fA-F]{1,4}:){1,7}[0-9a-fA-F]{1,4}",
    r"eyJ[\w-]+\.[\w-]+\.[\w-]*",
    r"(?i)bearer\s+[a-z0-9._~+/-]+=*",
    r"-----BEGIN [A-Z ]+-----(?:.|\n)*?-----END [A-Z ]+-----",
    r"(?s)-----BEGIN.*?-----END",
    r"https?://[^/\s:@]+:[^/\s:@]+@\S+",
    r"(?i)secret.*=.*",
    r"(?:wh(?:y|en)|how) did",
    r"(\()?a(?(1)\)|b)",
    r"^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])(?=.*\W).{8,}$",
    r"""(?i)(?:aws|amazon)[\w.-]{0,20}(?:key|secret)[\w.-]{0,20}\s*[:=]\s*['\"]?[a-z0-9/+]{40}""",
    r"[a-z]{20}[a-z0-9]{20}[a-z]{40}x",
    r"(\w)\1{4,}",
    r"(?:a){0}(b){0}\1c",
    r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
    r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.]{2,63}",
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    r"[A-Z0-9._%+-]{1,64}@example\.com",
    r"\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b",
    r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b",
    r"\bDE\d{2} ?(?:\d{4} ?){4}\d{2}\b",
    r"ghp_[A-Za-z0-9]{36}",
    r"gh[pousr]_[A-Za-z0-9]{36,255}",
    r"xox[baprs]-[A-Za-z0-9-]{10,}",
    r"sk-[A-Za-z0-9]{20,}",
    r"sk_(?:live|test)_[0-9a-zA-Z]{24,}",
    r"AKIA[0-9A-Z]{16}",
    r"eyJ[\w-]+\.[\w-]+\.[\w-]+",
    r"(?i)bearer\s+[A-Za-z0-9._~+/-]+=*",
    r"(?i)authorization:\s*\S+",
    r"glpat-[\w-]{20,}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"npm_[A-Za-z0-9]{36}",
    r"\b[0-9a-f]{32}\b",
    r"\b[0-9a-f]{40,64}\b",
    r"\b[A-Z]{2,10}-\d{1,6}\b",
    r"JIRA-\d+",
    r"\bTICKET[-_ ]?\d{4,8}\b",
    r"#\d{3,7}\b",
    r"\+\d{1,3}[ -]?\(?\d{1,4}\)?(?:[ -]?\d{2,4}){2,4}",
    r"\b0\d{2,4}[/ -]?\d{4,9}\b",
    r"\(\d{3}\) ?\d{3}-\d{4}",
    r"\b4[0-9]{12}(?:[0-9]{3})?\b",
    r"\b(?:(?:25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(?:25[0-5]|2[0-4]\d|[01]?\d\d?)\b",
    r"\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b",
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
    r"(?i)\bpassword\s*[:=]\s*\S+",
    r"""(?i)(?:secret|token|passwd)\s*[:=]\s*["']?[^\s"']+""",
    r"(?i)api[_-]?key\s*[:=]\s*\S+",
    r"""(?i)(?:aws|amazon)[\w.-]{0,20}(?:key|secret)[\w.-]{0,20}\s*[:=]\s*['"]?[a-z0-9/+]{40}""",
    r"(?s)-----BEGIN [A-Z ]{1,40}PRIVATE KEY-----.*?-----END",
    r'"[^"]*"',
    r"'[^']*'",
    r"\b\d{4}-\d{2}-\d{2}\b",
    r"(?i)my name is \w+",
    r"/home/\w+",
    r"/Users/[^/\s]+",
    r"C:\\Users\\[^\\\s]+",
    r"\b[A-Z]\d{2}[A-Z]{2}\d{3}[A-Z]\b",
    r"(?i)(?:project|codename)[ :]+(?:falcon|eagle|hawk)",
    r"\bPNR\s?[A-Z0-9]{6}\b",
    r"\$\d+(?:,\d{3})*(?:\.\d{2})?",
]
# Square of the length of a row: nothing for a sentence, minutes for a row of a million.
FINE_IN_A_SENTENCE = [
    r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
    r"(?:[\w-]+\.)*[\w-]+@",
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?;",
    r'"(?:[^"\\]|\\.)*"',
    r"'(?:[^'\\]|\\.)*'",
    r"(?:[^,]*,)*x",
    r"""([\"']).*?\1""",
    r"(?:\s+|\S+)x",
    r"(?:(?:\d+|[a-z]+)-)*!",
    r"(?>a+)+b",
    r"(?i)secret.*=.*;",
    r"(\w+)@\1\.com",
    r"\s*+\s*+\s*+\s*+x",
    r"\w+-\w+-\w+-\w+-\w+!",
]
# Harmless, or only just; what to write instead is short.
UNUSUAL = [
    r"(?:\w+[-.]?)+",
    r"(?:\r\n|\r|\n){2,}",
    r"(?:a++)+b",
    r".*a.*b",
    r"(?=(a+))*b",
]


@pytest.mark.parametrize("pattern", [*EXPONENTIAL, *POLYNOMIAL, *BOMBS])
def test_a_pattern_that_can_take_minutes_is_refused_with_what_to_write_instead(pattern):
    found = pattern_mistake(pattern)
    assert found == "it matches an empty text" or re.fullmatch(
        r"it can take (?:exponential time|minutes on a text of 1,000,000 characters): .+; .+", found
    )


@pytest.mark.parametrize("pattern", [*EXPONENTIAL, *POLYNOMIAL])
def test_exponential_and_cubic_patterns_are_refused_for_sentences_too(pattern):
    assert pattern_mistake(pattern, SENTENCE)


@pytest.mark.parametrize("pattern", FINE)
def test_the_patterns_that_people_write_are_taken_and_get_through_hostile_texts(pattern):
    assert pattern_mistake(pattern) == ""
    compiled = re.compile(pattern)
    for text in rows_of(pattern, 5_000):
        compiled.search(text)


def rows_of(pattern, size):
    """Texts of characters, words and pieces of the pattern itself, each repeated."""
    words = re.findall(r"\w{2,}", pattern)
    for piece in dict.fromkeys([*"a0 -.=/:@\n\"'", *words, "a1-", "1.", "a@b.", *words]):
        yield (piece * (size // len(piece))) + "\x00"


@pytest.mark.parametrize("pattern", FINE_IN_A_SENTENCE)
def test_one_repeat_that_a_search_can_begin_in_anywhere_is_taken_for_sentences_alone(pattern):
    assert pattern_mistake(pattern, SENTENCE) == ""
    assert "1,000,000 characters" in pattern_mistake(pattern)


@pytest.mark.parametrize("pattern", UNUSUAL)
def test_a_form_that_is_not_allowed_is_refused_although_it_might_do(pattern):
    assert pattern_mistake(pattern, SENTENCE)


@pytest.mark.parametrize(
    "pattern", [p for text in SPEC for p in yaml.safe_load(text)["store"]["redact_patterns"]]
)
def test_the_patterns_of_the_shipped_and_the_specified_privacy_are_taken(pattern):
    assert pattern_mistake(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "(?:a+)+b",
            (
                "it can take exponential time: a repeated part can go on or begin again with `a`; "
                "write one repeat, or a character between that neither can take"
            ),
        ),
        (
            "(?:aa|.a)+c",
            (
                "it can take exponential time: inside a repeat, two alternatives can begin with `a`; "
                "write alternatives that begin differently, or one set of characters"
            ),
        ),
        (
            "(?:x+x+;)+y",
            (
                "it can take exponential time: inside a repeat, two parts in a row can both take `x`; "
                "write one repeat, or a character between that neither can take"
            ),
        ),
        (
            "(?:a?)+b",
            (
                "it can take exponential time: it repeats what can be empty; "
                "repeat what has at least one character"
            ),
        ),
        (
            "start.*foo.*bar",
            (
                "it can take minutes on a text of 1,000,000 characters: repeats can share a row of "
                "`a`; write one repeat, a bound (`{0,40}`), or a character between that neither can "
                "take"
            ),
        ),
        (
            r"\s+$",
            (
                "it can take minutes on a text of 1,000,000 characters: a search can begin anywhere in "
                "a row of ` ` that a repeat takes; give the repeat a bound (`{1,64}`), or begin with "
                "what cannot stand in the row (`\\b`, `^`)"
            ),
        ),
    ],
)
def test_each_refusal_says_what_was_found_and_what_to_write(pattern, message):
    assert pattern_mistake(pattern) == message


def test_what_gives_nothing_back_or_can_no_longer_fail_adds_no_ways():
    assert pattern_mistake(r"start\s*+\s*+\s*+x", SENTENCE) == ""
    assert pattern_mistake("start.*foo.*") == ""
    assert pattern_mistake("^.*foo") == ""
    assert pattern_mistake(r"(?<!\w)\w+@") == ""
    assert pattern_mistake(r"\b\w+@") == ""


@settings(max_examples=examples(20), deadline=None)
@given(
    repeats=st.lists(st.sampled_from([".*", ".+", r"[^;]*", r"\w+", "(?:ab)*"]), min_size=3),
    between=st.lists(st.sampled_from(["", "a", "[ab]", "a?", "(?:a|ba)"]), min_size=3, max_size=3),
)
def test_two_repeats_of_one_text_are_always_refused(repeats, between):
    row = "".join(map("".join, zip(repeats, between, strict=False)))
    assert pattern_mistake(f"start{row};;")
    assert pattern_mistake(f"start{repeats[0]};;") == ""


@settings(max_examples=examples(20), deadline=None)
@given(count=st.integers(1, 12), repeat=st.sampled_from(["[a-z]+", r"\w*", "(?:ab|c)+", ".{0,30}"]))
def test_repeats_with_an_end_that_they_cannot_take_are_never_refused(count, repeat):
    assert pattern_mistake("start" + f"(?:{repeat}\n)" * count + "!") == ""


def test_the_mistake_has_its_place_and_the_pattern(mistakes):
    found = mistakes(
        privacy="version: 1\nstore: {redact_patterns: ['ok', '(a+)+$']}\n",
        scoring="version: 1\nintents:\n  deep:\n    - '(?:why|w.y)+\\?'\n    - '(\\w+ ?)*$'\n",
    )
    slow = "it can take exponential time:"
    assert found == [
        f"privacy.yaml:2: store.redact_patterns[1]: expected a regular expression, found `(a+)+$`: {slow} a repeated part can go on or begin again with `a`; write one repeat, or a character between that neither can take",
        f"scoring.yaml:4: intents.deep[0]: expected a regular expression, found `(?:why|w.y)+\\?`: {slow} inside a repeat, two alternatives can begin with `h`; write alternatives that begin differently, or one set of characters",
        "scoring.yaml:5: intents.deep[1]: expected a regular expression, found `(\\w+ ?)*$`: it matches an empty text",
    ]


def test_a_pattern_too_large_to_be_checked_is_refused():
    assert pattern_mistake("(?:(?:(?:(?:(?:a?b?){8}){8}){8}){8}){8}!")
    assert pattern_mistake("".join(f"{chr(0x4E00 + n)}?x" for n in range(330))) == (
        "it is too large to tell whether it can take minutes; write several patterns"
    )


def test_a_pattern_of_any_size_that_loops_nowhere_is_taken():
    assert pattern_mistake("|".join(f"word{n:03}" for n in range(110))) == ""
    assert pattern_mistake("(" * 90 + "a" + ")" * 90) == ""
    assert pattern_mistake("x{64}" * 30) == ""


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


@settings(max_examples=examples(100), deadline=None)
@given(pattern=PATTERNS, end=st.sampled_from(["!", "", "b", ";"]))
def test_whatever_the_proof_by_automata_refuses_is_refused(pattern, end):
    pattern += end
    try:
        slow = ambiguous(pattern) or shared(pattern)
    except TooLargeError:
        slow = "too large"
    if slow:
        assert pattern_mistake(pattern)
        assert not ambiguous(pattern) or pattern_mistake(pattern, SENTENCE)


@settings(max_examples=examples(33), deadline=None)
@given(pattern=PATTERNS)
def test_a_repeat_of_a_repeat_is_always_refused(pattern):
    assert pattern_mistake(f"(?:(?:{pattern})+)+!")


@settings(max_examples=examples(33), deadline=None)
@given(words=st.lists(st.text("abc", min_size=3, max_size=3), min_size=1, max_size=6))
def test_different_words_of_one_length_are_never_refused(words):
    assert pattern_mistake("start(?:(?:%s);)+!" % "|".join(sorted(set(words)))) == ""
