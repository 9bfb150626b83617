"""Every rule of every schema has a broken file, and the whole of what is said about it is compared.

The files stand in `broken/`: a line of YAML (a version is put before it, unless it begins with `!`),
and below it, indented, what is said. What needs a hundred items is written here.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from memplane.event import KINDS, UPKEEP_KINDS
from memplane.policy import NAMES
from memplane.policy.document import read_document, without_places

RECORDED = [kind for kind in KINDS if kind not in UPKEEP_KINDS]
KEYWORDS = {
    "type", "const", "enum", "anyOf", "minimum", "maximum", "pattern", "minLength", "maxLength",
    "minItems", "maxItems", "uniqueItems", "maxProperties", "required", "additionalProperties",
}  # fmt: skip
SILENT = {"$schema", "$id", "$ref", "$defs", "title", "description"}
INNER = {"properties", "$defs", "items", "propertyNames", "additionalProperties"}


def listed(count, form):
    return ", ".join(form % number for number in range(count))


A_VIEW = "views/" + "x" * 200 + ".md"
TOO_LONG = "expected at most 200 characters, found 209"
PATTERNS = "expected a list of regular expressions (at most 100), found a list of 101 items"
VIEWS = "expected a list of views (at most 100), found a list of 101 items"
KINDS_TWICE = [
    "expected a list of kinds of events (at most 17), found a list of 18 items",
    "[17]: expected each item once, found `message` again",
]
PHRASE = "expected a phrase of 2 to 60 characters with a letter in it as key, found"
SHORTENED = f"{'x' * 60}…"
EIGHTEEN = ", ".join([*RECORDED, "message"])
RULES = "load.channel_rules"
LARGE = [
    (
        "budgets",
        f"sections: {{{listed(101, 's%d: {max_tokens: 1, priority: 1, share: 1, views: [views/%%d.md]}') % tuple(range(101))}}}",
        ["2: sections: expected a mapping of sections (at most 100), found a mapping of 101 keys"],
    ),
    (
        "budgets",
        f"sections: {{a: {{max_tokens: 9, priority: 1, views: [{listed(51, 'views/%d.md')}]}}}}",
        ["2: sections.a.views: expected a list of views (at most 50), found a list of 51 items"],
    ),
    (
        "budgets",
        f"sections: {{a: {{max_tokens: 9, priority: 1, views: [{A_VIEW}]}}}}",
        [f"2: sections.a.views[0]: {TOO_LONG}"],
    ),
    (
        "budgets",
        f"sections: {{a: {{max_tokens: 9, priority: 1, kinds: [{EIGHTEEN}]}}}}",
        [f"2: sections.a.kinds: {KINDS_TWICE[0]}", f"2: sections.a.kinds{KINDS_TWICE[1]}"],
    ),
    (
        "privacy",
        f"store: {{never_store_kinds: [{EIGHTEEN}]}}",
        [
            f"2: store.never_store_kinds: {KINDS_TWICE[0]}",
            f"2: store.never_store_kinds{KINDS_TWICE[1]}",
        ],
    ),
    (
        "privacy",
        f"store: {{redact_patterns: [{listed(101, 'key%d')}]}}",
        [f"2: store.redact_patterns: {PATTERNS}"],
    ),
    (
        "privacy",
        f"store: {{redact_patterns: [{'x' * 1001}]}}",
        ["2: store.redact_patterns[0]: expected at most 1000 characters, found 1001"],
    ),
    (
        "privacy",
        f"load: {{channel_rules: {{public: {{}}, {listed(100, 'c%d: {}')}}}}}",
        [f"2: {RULES}: expected a mapping of channels (at most 100), found a mapping of 101 keys"],
    ),
    (
        "privacy",
        "load: {channel_rules: {team: {suppress_sensitivity: [low, normal, high, secret, low]}}}",
        [
            f"2: {RULES}.team.suppress_sensitivity: expected a list of sensitivities (at most 4), found a list of 5 items",
            f"2: {RULES}.team.suppress_sensitivity[4]: expected each item once, found `low` again",
        ],
    ),
    (
        "privacy",
        f"load: {{channel_rules: {{team: {{suppress_kinds: [{EIGHTEEN}]}}}}}}",
        [
            f"2: {RULES}.team.suppress_kinds: {KINDS_TWICE[0]}",
            f"2: {RULES}.team.suppress_kinds{KINDS_TWICE[1]}",
        ],
    ),
    (
        "privacy",
        f"load: {{channel_rules: {{team: {{suppress_views: [{listed(101, 'views/%d.md')}]}}}}}}",
        [f"2: {RULES}.team.suppress_views: {VIEWS}"],
    ),
    (
        "privacy",
        f"load: {{channel_rules: {{team: {{suppress_views: [{A_VIEW}]}}}}}}",
        [f"2: {RULES}.team.suppress_views[0]: {TOO_LONG}"],
    ),
    (
        "channels",
        f"channels: [{listed(101, '{name: c%d}')}]",
        ["2: channels: expected a list of channels (at most 100), found a list of 101 items"],
    ),
    (
        "channels",
        f"channels: [{{name: a, default_load_views: [{listed(101, 'views/%d.md')}]}}]",
        [f"2: channels[0].default_load_views: {VIEWS}"],
    ),
    (
        "channels",
        f"channels: [{{name: a, default_load_views: [{A_VIEW}]}}]",
        [f"2: channels[0].default_load_views[0]: {TOO_LONG}"],
    ),
    *[
        ("scoring", f"intents: {{{intent}: [{listed(101, 'why%d')}]}}", [f"2: intents.{intent}: {PATTERNS}"])
        for intent in ("deep", "orient", "fast")
    ],
    (
        "plane",
        f"episodes: {{close_on_patterns: [{listed(101, 'done%d')}]}}",
        ["2: episodes.close_on_patterns: expected a list of regular expressions (at most 100), found a list of 101 items"],
    ),
    (
        "plane",
        f"episodes: {{close_on_patterns: [{'x' * 1001}]}}",
        ["2: episodes.close_on_patterns[0]: expected at most 1000 characters, found 1001"],
    ),
    (
        "scoring",
        f"intents: {{deep: [{'x' * 1001}]}}",
        ["2: intents.deep[0]: expected at most 1000 characters, found 1001"],
    ),
    *[
        (
            "scoring",
            f"markers: {{{table}: {{{listed(51, 'custom:m%d: ' + empty)}}}}}",
            [f"2: markers.{table}: expected a mapping of markers (at most 50), found a mapping of 51 keys"],
        )
        for table, empty in (("line_starts", "[]"), ("standing", "{}"))
    ],
    (
        "scoring",
        f"markers: {{line_starts: {{goal: [{listed(51, 'Aim %d')}]}}}}",
        ["2: markers.line_starts.goal: expected a list of words (at most 50), found a list of 51 items"],
    ),
    (
        "scoring",
        f"markers: {{line_starts: {{goal: [{'x' * 41}]}}}}",
        ["2: markers.line_starts.goal[0]: expected at most 40 characters, found 41"],
    ),
    (
        "scoring",
        f"markers: {{standing: {{goal: {{{listed(101, 'aim %d: aim')}}}}}}}",
        ["2: markers.standing.goal: expected a mapping of phrases (at most 100), found a mapping of 101 keys"],
    ),
    (
        "scoring",
        f"markers: {{standing: {{goal: {{{'x' * 61}: x}}}}}}",
        [f"2: markers.standing.goal.{SHORTENED}: {PHRASE} `{SHORTENED}`"],
    ),
    (
        "scoring",
        f"markers: {{standing: {{goal: {{aim: {'x' * 1001}}}}}}}",
        ["2: markers.standing.goal.aim: expected at most 1000 characters, found 1001"],
    ),
    (
        "scoring",
        f"times: {{{', '.join(f'{chr(97 + n)}a: {{}}' for n in range(21))}}}",
        ["2: times: expected a mapping of languages (at most 20), found a mapping of 21 keys"],
    ),
    (
        "scoring",
        f"times: {{en: {{numbers: {{{listed(61, 'n%d: 1')}}}}}}}",
        ["2: times.en.numbers: expected a mapping of words (at most 60), found a mapping of 61 keys"],
    ),
    (
        "scoring",
        f"times: {{en: {{idle: [{listed(401, 'w%d')}]}}}}",
        ["2: times.en.idle: expected a list of phrases (at most 400), found a list of 401 items"],
    ),
    (
        "scoring",
        f"times: {{en: {{idle: [{'x' * 61}]}}}}",
        ["2: times.en.idle[0]: expected at most 60 characters, found 61"],
    ),
]  # fmt: skip
# The rules of a hundred channels need the channels.
BESIDE = {"channels": f"version: 1\nchannels: [{listed(100, '{name: c%d}')}]\n"}


def cases():
    for name in NAMES:
        stem = name.removesuffix(".yaml")
        text = (Path(__file__).parent / "broken" / f"{stem}.txt").read_text()
        said: list[str] = []
        for line in text.splitlines():
            if line.startswith("    "):
                said.append(line.strip())
            elif line:
                said = []
                yield stem, line, said
    yield from LARGE


CASES = list(cases())


def written(yaml):
    return f"{yaml[1:]}\n" if yaml.startswith("!") else f"version: 1\n{yaml}\n"


@pytest.mark.parametrize("stem", sorted({stem for stem, *_ in CASES}))
def test_the_whole_of_what_is_said_about_a_broken_rule(mistakes, stem):
    wrong = {}
    for yaml, said in [case[1:] for case in CASES if case[0] == stem]:
        beside = BESIDE if "c99" in yaml and stem == "privacy" else {}
        found = mistakes(**beside, **{stem: written(yaml)})
        if not said or found != [f"{stem}.yaml:{line}" for line in said]:
            wrong[yaml] = (found, said)
    assert wrong == {}


def rules_of(schema, at=()):
    """Where the schema says that something must be so, as paths into it."""
    for keyword, value in schema.items():
        here = (*at, keyword)
        if keyword == "type" and at[-1:] == ("propertyNames",):
            continue  # a key of YAML, as memplane reads it, is always a text
        if keyword in KEYWORDS and not isinstance(value, dict):
            yield here
        elif keyword in ("properties", "$defs"):
            for name, inner in value.items():
                yield from rules_of(inner, (*here, name))
        elif keyword in INNER:
            yield from rules_of(value, here)
        else:
            assert keyword in SILENT, f"{keyword}: no rule that this test knows"


def broken_rules(schema, document):
    """The rules that a document breaks, as the same paths: a reference leads to its definition."""
    for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
        path, at = (), schema
        # Some versions of jsonschema name the reference as a step, some do not.
        for step in (one for one in error.absolute_schema_path if one != "$ref"):
            if "$ref" in at and step not in at:
                path = tuple(at["$ref"].removeprefix("#/").split("/"))
                at = schema[path[0]][path[1]]
            path, at = (*path, step), at[step]
        yield path


@pytest.mark.parametrize("stem", [name.removesuffix(".yaml") for name in NAMES])
def test_no_rule_of_a_schema_is_without_its_broken_file(schemas, stem):
    schema = json.loads(schemas[f"{stem}.schema.json"])
    broken = set()
    for _, yaml, _ in (case for case in CASES if case[0] == stem):
        root, problems = read_document(f"{stem}.yaml", written(yaml).encode())
        assert not problems
        broken.update(broken_rules(schema, without_places(root)))
    assert set(rules_of(schema)) - broken == set()


def test_a_file_with_ten_mistakes_reports_ten(mistakes):
    text = """\
version: 1
acb_total_max_tokens: 65001
reserve_tokens: many
default_pack_tokens: 0
counter: two words
scale: 11
sections:
  rules: {max_tokens: 9}
  rulez: {max_tokens: 9, priority: 1}
limits: {cards_max: -1, card_max: 1}
limits: {}
"""
    counter = "one of `bound/1`, `o200k`, `cl100k`, `len4`"
    own = "expected `views` or `kinds` in a section of your own, found neither"
    assert mistakes(budgets=text) == [
        "budgets.yaml:2: acb_total_max_tokens: expected a number of tokens from 1 to 65000, found `65001`",
        "budgets.yaml:3: reserve_tokens: expected a number of tokens from 0 to 65000, found `many`",
        "budgets.yaml:4: default_pack_tokens: expected a number of tokens from 1 to 65000, found `0`",
        f"budgets.yaml:5: counter: expected {counter}, found `two words`",
        "budgets.yaml:6: scale: expected a factor from 0.1 to 10, found `11`",
        "budgets.yaml:8: sections.rules.priority: missing; expected a priority from 0 to 100",
        f"budgets.yaml:9: sections.rulez: {own}",
        "budgets.yaml:10: limits.cards_max: expected a number of cards from 0 to 200, found `-1`",
        "budgets.yaml:10: limits.card_max: unknown; did you mean `cards_max`?",
        "budgets.yaml:11: limits: given twice; line 10 has it already",
    ]
