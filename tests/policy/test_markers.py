"""The tables of markers: what stands in scoring.yaml holds, and what cannot be used is named."""

import json

import pytest
import yaml

from memplane.policy.records import STANDING, Markers
from memplane.policy.regex_safety import SENTENCE, pattern_mistake

PHRASES = [(marker, phrase) for marker, row in STANDING.items() for phrase in row]


def scoring(**tables):
    return yaml.safe_dump({"version": 1, "markers": tables})


def wrong(mistakes, **tables):
    """The mistakes behind the file's name and line."""
    return [one.partition(": ")[2] for one in mistakes(scoring=scoring(**tables))]


def test_the_shipped_file_says_what_memplane_says_without_one(policies, defaults):
    assert policies().scoring.markers == Markers()
    assert policies(scoring=defaults["scoring.yaml"]).scoring.markers == Markers()


@pytest.mark.parametrize(("marker", "phrase"), PHRASES)
def test_memplanes_own_patterns_pass_the_check_that_others_go_through(marker, phrase, schemas):
    pattern = STANDING[marker][phrase]
    assert pattern_mistake(f"(?i){pattern}", SENTENCE) == ""
    row = json.loads(schemas["scoring.schema.json"])["properties"]["markers"]["properties"]
    assert (
        len(pattern) <= row["standing"]["additionalProperties"]["additionalProperties"]["maxLength"]
    )
    assert phrase == phrase.lower()


def test_a_file_changes_the_phrases_and_words_that_it_names_and_no_others(policies):
    given = {
        "custom:instruction": {"always": "", "tabs": "^tabs"},
        "custom:todo": {"todo": "^todo"},
    }
    found = policies(scoring=scoring(standing=given, line_starts={"goal": ["Aim"]})).scoring.markers
    assert found.standing == {
        **STANDING,
        "custom:instruction": {**STANDING["custom:instruction"], "always": "", "tabs": "^tabs"},
        "custom:todo": {"todo": "^todo"},
    }
    assert found.line_starts == {**Markers().line_starts, "goal": ("Aim",)}
    assert found.detect


def test_one_word_switches_it_all_off(policies):
    assert not policies(scoring=scoring(detect=False)).scoring.markers.detect


KEY = "expected a marker: decision, constraint, failure, goal or custom:<name> as key, found"
PHRASE = "expected a phrase of 2 to 60 characters with a letter in it as key, found"
PATTERN = "expected a regular expression, found"
SLOW = (
    "it can take exponential time: inside a repeat, two alternatives can begin with `K`;"
    " write alternatives that begin differently, or one set of characters"
)


@pytest.mark.parametrize(
    ("tables", "key", "message"),
    [
        ({"detect": "no idea"}, "detect", "expected true or false, found `no idea`"),
        ({"detekt": True}, "detekt", "unknown; did you mean `detect`?"),
        ({"line_starts": {"gaol": ["Aim"]}}, "line_starts.gaol", f"{KEY} `gaol`"),
        (
            {"line_starts": {"goal": "Aim"}},
            "line_starts.goal",
            "expected a list of words (at most 50), found `Aim`",
        ),
        (
            {"line_starts": {"decision": ["aim"], "goal": ["Aim:"]}},
            "line_starts.goal[0]",
            "expected under one marker, found `Aim:` in `decision` too",
        ),
        ({"standing": {"custom:": {"ab": "ab"}}}, "standing.custom:", f"{KEY} `custom:`"),
        (
            {"standing": {"custom:x": {"12": "ab"}}},
            "standing.custom:x.12",
            f"{PHRASE} the text `12`",
        ),
        (
            {"standing": {"custom:x": {"ab": ["ab"]}}},
            "standing.custom:x.ab",
            f"{PATTERN} a list of 1 item",
        ),
        (
            {"standing": {"custom:x": {"ab": "(ab"}}},
            "standing.custom:x.ab",
            f"{PATTERN} `(ab`: missing ), unterminated subpattern at position 4",
        ),
        (
            {"standing": {"custom:x": {"ab": "(k+|K+)+;"}}},
            "standing.custom:x.ab",
            f"{PATTERN} `(k+|K+)+;`: {SLOW}",
        ),
        (
            {"standing": {"custom:x": {"ab": "x" * 1_001}}},
            "standing.custom:x.ab",
            "expected at most 1000 characters, found 1001",
        ),
    ],
)
def test_what_cannot_be_used_is_named_by_its_key(mistakes, tables, key, message):
    assert wrong(mistakes, **tables) == [f"markers.{key}: {message}"]


def test_a_mistake_has_its_line(mistakes):
    text = "version: 1\nmarkers:\n  standing:\n    custom:x:\n      ab: '(ab'\n"
    assert [one.partition(" ")[0] for one in mistakes(scoring=text)] == ["scoring.yaml:5:"]
