"""What a query is after is said by whoever asks, else by the policy's patterns, else by its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memplane.errors import InputError
from memplane.pack.request import INTENTS, chosen_intent, intent_of, opening_words
from memplane.policy import NAMES, load_policies
from tests.examples import examples

TOP = Path(__file__).parents[2]
DEFAULTS = {name: (TOP / "policies" / name).read_bytes() for name in NAMES}
SCHEMAS = {
    name: (TOP / "schemas" / name).read_bytes()
    for name in (name.replace(".yaml", ".schema.json") for name in NAMES)
}


def scoring(text="version: 1\n"):
    files = {"scoring.yaml": text.encode()}
    return load_policies(files, defaults=DEFAULTS, schemas=SCHEMAS).scoring


OURS = scoring()


@pytest.mark.parametrize(
    ("query", "intent"),
    [
        ("When did we drop MySQL?", "deep"),
        ("why did the build fail", "deep"),
        ("what did I say earlier", "deep"),
        ("which database do we use?", "deep"),
        ("what is the HTTP status of that call", "deep"),
        ("What are we working on?", "orient"),
        ("so, where were we", "orient"),
        ("Catch me up", "orient"),
        ("status?", "orient"),
        ("resume", "orient"),
        ("", "fast"),
        (" \n", "fast"),
    ],
)
def test_the_usual_questions_are_understood_and_any_other_searches_the_whole_log(query, intent):
    assert intent_of("auto", query, OURS) == intent


def test_the_policy_says_what_a_query_is_that_no_pattern_fits():
    named = scoring("version: 1\ndefault_intent: fast\n")
    assert intent_of("auto", "which database do we use?", named) == "fast"
    assert intent_of("auto", "why did we drop it", named) == "deep"


def test_patterns_may_make_a_query_fast_and_the_first_intent_of_the_file_decides():
    named = scoring("version: 1\nintents: {fast: ['^(?:ok|thanks)'], deep: ['thanks']}\n")
    assert intent_of("auto", "Thanks, go on", named) == "fast"
    assert intent_of("auto", "go on, thanks", named) == "deep"


@given(query=st.text(), intent=st.sampled_from([one for one in INTENTS if one != "auto"]))
def test_an_intent_that_is_asked_for_is_always_taken(query, intent):
    assert intent_of(intent, query, OURS) == intent


def test_an_intent_that_does_not_exist_is_refused_by_name():
    with pytest.raises(InputError) as raised:
        intent_of("wild", "x", OURS)
    assert str(raised.value) == "intent: expected one of auto, fast, deep, orient, found 'wild'"


def test_the_rule_that_chose_is_named():
    named = OURS._replace(intents=(("deep", ("^why", "drop")),), default_intent="fast")
    assert chosen_intent("orient", "why", named) == ("orient", "asked")
    assert chosen_intent("auto", " ", named) == ("fast", "empty query")
    assert chosen_intent("auto", "who dropped it", named) == ("deep", "pattern: drop")
    assert chosen_intent("auto", "hello there", named) == ("fast", "default_intent")


PIECES = st.sampled_from([
    "(?i)", "^", r"\W*", r"\b", "what", "we did", "(?:", "(?:", "(", ")", ")", "|", "?", "*", "{0,1}",
    "[a(|]", "\\\\", r"\(", r"\|", " ", "x", "(?!", "(?x:", "(?#", ".", "$",
])  # fmt: skip
SAID = st.lists(
    st.sampled_from(["what", "We did", "x", "wha", " ", "(", "|", "\\", "wedid", "why"])
)


@settings(max_examples=examples(600))
@given(st.lists(PIECES, max_size=9).map("".join), SAID.map("".join))
def test_an_ascii_text_that_a_pattern_matches_has_one_of_its_opening_words(pattern, said):
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error:
        return
    words = opening_words(pattern)
    if words and compiled.search(said) is not None:
        assert any(word in said.lower() for word in words)


def test_of_the_shipped_patterns_most_are_compiled_for_no_prompt():
    patterns = [one for _, named in OURS.intents for one in named]
    assert sum(not opening_words(one) for one in patterns) <= 2
