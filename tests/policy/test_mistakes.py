"""Every mistake is named by file, line and key, with what was expected and what was found."""

from __future__ import annotations

import pytest

from memplane.errors import PolicyError, Problem

NO_PATTERN = (
    "expected a regular expression, found `(`: missing ), unterminated subpattern at position 0"
)
A_CHANNEL = "the name of a channel: small letters, digits, _ and -"
A_VIEW = "expected the path of a view, as in views/rules.project.md"


def test_every_mistake_of_every_file_is_named_at_once_and_in_order(mistakes):
    found = mistakes(
        plane="version: 1\nreports:\n  kep: 5\nlog: [1]\n",
        scoring="version: 1\nevidence_floor: 1.5\nmarker_boosts: {gaol: 0.1}\n",
        channels="version: 1\nchannels:\n  - {name: ops}\n  - {default_load_views: [a.md]}\n",
        privacy="version: 1\nstore:\n  redact_patterns: ['(']\n  never_store: [secret]\n",
        budgets="reserve_tokens: many\nlimits:\n  cards_max: -1\n",
    )
    assert found == [
        "budgets.yaml:1: reserve_tokens: expected a number of tokens from 0 to 65000, found `many`",
        "budgets.yaml:1: version: missing; expected 1",
        "budgets.yaml:3: limits.cards_max: expected a number of cards from 0 to 200, found `-1`",
        f"privacy.yaml:3: store.redact_patterns[0]: {NO_PATTERN}",
        "privacy.yaml:4: store.never_store: unknown; did you mean `never_store_kinds`?",
        f"channels.yaml:4: channels[1].name: missing; expected {A_CHANNEL}",
        f"channels.yaml:4: channels[1].default_load_views[0]: {A_VIEW}, found `a.md`",
        "scoring.yaml:2: evidence_floor: expected a part of the best score from 0 to 1, found `1.5`",
        "scoring.yaml:3: marker_boosts.gaol: unknown; did you mean `goal`?",
        "plane.yaml:3: reports.kep: unknown; did you mean `keep`?",
        "plane.yaml:4: log: expected a mapping of lock_wait_ms_max, found a list of 1 item",
    ]


def test_problems_are_facts_too(policies):
    with pytest.raises(PolicyError) as raised:
        policies(plane="version: 1\n\nreports: {keep: -1}\n")
    message = "expected a number of reports from 0 to 100000, found `-1`"
    assert raised.value.problems == (Problem("plane.yaml", 3, "reports.keep", message),)


KEEP = "plane.yaml:2: reports.keep: expected a number of reports from 0 to 100000, found "


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("true", "`true`"),
        ("yes", "`yes`"),
        ("five", "`five`"),
        ("'5'", "the text `5`"),
        ("-1", "`-1`"),
        ("100001", "`100001`"),
        ("1.5", "`1.5`"),
        (".nan", "`.nan`"),
        (".inf", "`.inf`"),
        ("1e999", "`1e999`"),
        ("1_000", "`1_000`"),
        ("0x10", "`0x10`"),
        ("010", "`010`"),
        ("1:30", "`1:30`"),
        ("9" * 19, f"`{'9' * 19}`"),
        ("9" * 5000, f"`{'9' * 60}…`"),
        ("", "nothing"),
        ("~", "nothing"),
        ("[]", "an empty list"),
        ("[1, 2]", "a list of 2 items"),
        ("{}", "an empty mapping"),
        ("{a: 1}", "a mapping"),
        ('"a\\nb"', "`a\\nb`"),
    ],
)
def test_a_number_is_a_whole_decimal_number_in_its_range(mistakes, written, found):
    assert mistakes(plane=f"version: 1\nreports: {{keep: {written}}}\n") == [KEEP + found]


def test_numbers_in_other_decimal_spellings_are_taken(policies):
    for written in ("500", "+500", "5e2", "500.0"):
        loaded = policies(plane=f"version: 1\nreports: {{keep: {written}}}\n")
        assert loaded.plane.reports_keep == 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reports: {keep: 1}", ":1: version: missing; expected 1"),
        ("version: '1'", ":1: version: expected 1, found the text `1`"),
        ("version: true", ":1: version: expected 1, found `true`"),
        ("version: 0", ":1: version: expected 1, found `0`"),
        (
            "version: 2",
            (
                ":1: version: expected 1, the version that this memplane reads, found `2`: "
                "written for a newer memplane"
            ),
        ),
    ],
)
def test_a_file_that_says_anything_says_its_version(mistakes, text, message):
    assert mistakes(plane=text) == [f"plane.yaml{message}"]


@pytest.mark.parametrize("version", ["0", "2", "one", "1.5", "[1]"])
def test_a_wrong_version_hides_no_other_mistake_of_its_file(mistakes, version):
    said = mistakes(plane=f"version: {version}\nreports: {{keep: lots}}\nsesions: 1\n")
    assert [line.split(": ")[:2] for line in said] == [
        ["plane.yaml:1", "version"], ["plane.yaml:2", "reports.keep"], ["plane.yaml:3", "sesions"],
    ]  # fmt: skip
