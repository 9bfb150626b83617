"""Every mistake is named by file, line and key, with what was expected and what was found."""

from __future__ import annotations

import pytest
import yaml

from memplane.errors import PolicyError, Problem
from memplane.event import KINDS, UPKEEP_KINDS

KINDS_LISTED = ", ".join(f"`{kind}`" for kind in KINDS if kind not in UPKEEP_KINDS)
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


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("version: 1\nfoo: 1\n", [":2: foo: unknown; expected one of `version`, `reports`, `log`, `sessions`, `index`, `namespaces`, `prompt_cache`"]),
        ("version: 1\nreprots: {}\n", [":2: reprots: unknown; did you mean `reports`?"]),
        ("[1, 2]", [":1: expected a mapping of keys, found a list of 2 items"]),
        ("plane", [":1: expected a mapping of keys, found `plane`"]),
        (
            "version: 1\nlog: {}\nreports: {keep: 1, keep: 2}\nlog: {}\n",
            [":3: reports.keep: given twice; line 3 has it already", ":4: log: given twice; line 2 has it already"],
        ),
        ("version: 1\n? [a]\n: 1\n", [":2: expected a plain text as key, found something else"]),
        ("version: 1\nreports: {? {keep: 1} : 2}\n", [":2: reports: expected a plain text as key, found something else"]),
        ("version: !!int 1\n", [":1: version: expected a value without a tag, found `tag:yaml.org,2002:int`"]),
        ("version: 1\nlog: !!python/name:os.system {}\n", [":2: log: expected a value without a tag, found `tag:yaml.org,2002:python/name:os.system`"]),
        ("version: 1\n---\nversion: 1\n", [":3: expected one document, found a second one"]),
        ("version: 1\nreports:\n\tkeep: 1\n", [":3: expected spaces, found a tab in the indentation"]),
        ("version: 1\nlog: *other\n", [":2: expected an anchor that ends before its alias, found `*other`"]),
        ("version: 1\nlog: &log {a: *log}\n", [":2: expected an anchor that ends before its alias, found `*log`"]),
        (b"version: 1\nlog: \xff\n", [":2: expected UTF-8 text, found the byte 0xff"]),
        ("version: 1".encode("utf-16"), [":1: expected UTF-8 text, found the byte 0xff"]),
        (b"version: 1\r\nlog:\r\n  a: \0\r\n", [":3: expected printable text, found the character U+0000"]),
        ("[" * 33, [":1: expected at most 32 levels, found more"]),
        ("- " * 100_000, [":1: expected at most 32 levels, found more"]),
        ("x" * 262_145, [": expected at most 262144 bytes, found 262145"]),
        (f"version: 1\nlog: [{'1,' * 10_000}]", [":2: expected at most 10000 values, aliases written out, found more"]),
    ],
)  # fmt: skip
def test_what_yaml_would_pass_over_or_choke_on_is_named(mistakes, text, messages):
    assert mistakes(plane=text) == [f"plane.yaml{message}" for message in messages]


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="the words are those of libyaml")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\nlog: [1, 2", ":2: expected YAML, found a mistake: did not find expected ',' or ']' (while parsing a flow sequence, begun in line 2)"),
        ("version: 1\nlog: {a: b\n\n\n", ":2: expected YAML, found a mistake: did not find expected ',' or '}' (while parsing a flow mapping, begun in line 2)"),
        ("version: 1\n log: 2\n", ":2: expected YAML, found a mistake: mapping values are not allowed in this context"),
        ("%YAML 3.0\n---\nversion: 1", ":1: expected YAML, found a mistake: found incompatible YAML document"),
        ('version: "\\ud800"', ":1: expected YAML, found a mistake: found invalid Unicode character escape code (while parsing a quoted scalar, begun in line 1)"),
    ],
)  # fmt: skip
def test_a_syntax_error_is_named_with_its_line(mistakes, text, message):
    assert mistakes(plane=text) == [f"plane.yaml{message}"]


def test_aliases_are_taken_and_bombs_refused(mistakes, policies):
    shared = "version: 1\nchannels:\n- {name: a, default_load_views: &v [views/x.md]}\n- {name: b, default_load_views: *v}\n"
    assert policies(channels=shared).channels.default_views("b") == ("views/x.md",)
    bomb = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
    )
    expected = "expected at most 10000 values, aliases written out, found more"
    assert mistakes(channels=bomb) == [f"channels.yaml:5: {expected}"]


def test_a_mistake_behind_an_alias_is_named_where_it_is_written(mistakes):
    text = "version: 1\nreports: &r\n  keep: 3\nlog: *r\n"
    assert mistakes(plane=text) == [
        "plane.yaml:3: log.keep: unknown; expected one of `lock_wait_ms_max`"
    ]


def test_after_a_hundred_mistakes_the_rest_is_counted(mistakes):
    text = "version: 1\n" + "".join(f"key{n}: 1\n" for n in range(250))
    found = mistakes(plane=text)
    assert len(found) == 101
    assert found[99].startswith("plane.yaml:101: key99: unknown")
    assert found[100] == "plane.yaml: and 150 more mistakes"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "acb_total_max_tokens: 65001",
            ["acb_total_max_tokens: expected a number of tokens from 1 to 65000, found `65001`"],
        ),
        (
            "acb_total_max_tokens: 4000",
            ["acb_total_max_tokens: expected `reserve_tokens` to be less than `acb_total_max_tokens` (4000), found `5000`: no room is left"],
        ),
        (
            "reserve_tokens: 65000",
            ["reserve_tokens: expected `reserve_tokens` to be less than `acb_total_max_tokens` (65000), found `65000`: no room is left"],
        ),
        (
            "default_pack_tokens: 0",
            ["default_pack_tokens: expected a number of tokens from 1 to 65000, found `0`"],
        ),
        (
            "counter: 4",
            ["counter: expected one of `bound/1`, `o200k`, `cl100k`, `len4`, found `4`"],
        ),
        ("scale: 0", ["scale: expected a factor from 0.1 to 10, found `0`"]),
        (
            "sections: {rules: {max_tokens: 9}}",
            ["sections.rules.priority: missing; expected a priority from 0 to 100"],
        ),
        (
            "sections: {rules: {max_tokens: 9, priority: 1, share: -1}}",
            ["sections.rules.share: expected a weight from 0 to 100, found `-1`"],
        ),
        (
            "sections: {rules: 9}",
            ["sections.rules: expected a mapping of max_tokens, priority, share, found `9`"],
        ),
        (
            "sections: {rulez: {max_tokens: 9, priority: 1}}",
            ["sections.rulez: expected `views` or `kinds` in a section of your own, found neither; did you mean `rules`?"],
        ),
        (
            "sections: {zebra: {max_tokens: 9, priority: 1}}",
            ["sections.zebra: expected `views` or `kinds` in a section of your own, found neither"],
        ),
        (
            "sections: {My Notes: {max_tokens: 9, priority: 1, kinds: [fact]}}",
            ["sections.My Notes: expected a name of small letters, digits and _ as key, found `My Notes`"],
        ),
        (
            "sections: {rules: {max_tokens: 9, priority: 1, kinds: [rule]}}",
            ["sections.rules.kinds: expected only in a section of your own; `rules` has its content already"],
        ),
        (
            "sections: {a: {max_tokens: 9, priority: 1, views: []}}",
            ["sections.a.views: expected a list of views (at most 50), found an empty list"],
        ),
        (
            "sections: {a: {max_tokens: 9, priority: 1, views: [views/../a.md, /views/a.md, views/.a.md, views/a.txt]}}",
            [
                f"sections.a.views[0]: {A_VIEW}, found `views/../a.md`",
                f"sections.a.views[1]: {A_VIEW}, found `/views/a.md`",
                f"sections.a.views[2]: {A_VIEW}, found `views/.a.md`",
                f"sections.a.views[3]: {A_VIEW}, found `views/a.txt`",
            ],
        ),
        (
            "sections: {a: {max_tokens: 9, priority: 1, kinds: [fcat, touch]}}",
            [
                "sections.a.kinds[0]: expected a kind of event, found `fcat`; did you mean `fact`?",
                f"sections.a.kinds[1]: expected one of {KINDS_LISTED}, found `touch`",
            ],
        ),
        (
            "sections: {a: {max_tokens: 9, priority: 1, kinds: [fact, fact]}, b: {max_tokens: 9, priority: 1, kinds: [plan, fact]}}",
            [
                "sections.a.kinds[1]: expected each item once, found `fact` again",
                "sections.b.kinds[1]: expected in one section, found `fact` in `a` too",
            ],
        ),
        ("limits:", ["limits: expected a mapping of limits, found nothing"]),
        (
            "limits: {hotset_max_events: 401}",
            ["limits.hotset_max_events: expected a number of events from 1 to 400, found `401`"],
        ),
        (
            "limits: {bytes_read_max: 1000}",
            ["limits.bytes_read_max: expected a number of bytes from 65536 to 1000000000, found `1000`"],
        ),
    ],
)  # fmt: skip
def test_mistakes_in_budgets_are_named(mistakes, text, messages):
    found = mistakes(budgets=f"version: 1\n{text}\n")
    assert found == [f"budgets.yaml:2: {message}" for message in messages]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "store: {never_store_kinds: [secrets, segment]}",
            [
                "store.never_store_kinds[0]: expected a kind of event, found `secrets`; did you mean `secret`?",
                f"store.never_store_kinds[1]: expected one of {KINDS_LISTED}, found `segment`",
            ],
        ),
        (
            "store: {redact_patterns: ['[[a]', 'x*', 'a{99999999999}', '', 5, ok, ok]}",
            [
                "store.redact_patterns[0]: expected a regular expression, found `[[a]`: Possible nested set at position 1",
                "store.redact_patterns[1]: expected a regular expression, found `x*`: it matches an empty text",
                "store.redact_patterns[2]: expected a regular expression, found `a{99999999999}`: the repetition number is too large",
                "store.redact_patterns[3]: expected a regular expression of 1 to 1000 characters, found an empty text",
                "store.redact_patterns[4]: expected a regular expression of 1 to 1000 characters, found `5`",
                "store.redact_patterns[6]: expected each item once, found `ok` again",
            ],
        ),
        (
            "load: {channel_rules: {public: {suppress_sensitivity: [hihg]}}}",
            ["load.channel_rules.public.suppress_sensitivity[0]: expected one of `low`, `normal`, `high`, `secret`, found `hihg`; did you mean `high`?"],
        ),
        (
            "load: {channel_rules: {public: {suppress_kind: [fact]}}}",
            ["load.channel_rules.public.suppress_kind: unknown; did you mean `suppress_kinds`?"],
        ),
        (
            "load: {channel_rules: {public: {suppress_views: preferences}}}",
            ["load.channel_rules.public.suppress_views: expected a list of views (at most 100), found `preferences`"],
        ),
        (
            "load: {channel_rules: {pubilc: {}}}",
            ["load.channel_rules.pubilc: expected a channel of channels.yaml (`private`, `public`, `team`, `agent`), found `pubilc`; did you mean `public`?"],
        ),
        (
            "load: {channel_rules: {Ops!: {}}}",
            [
                "load.channel_rules.Ops!: expected a channel of channels.yaml (`private`, `public`, `team`, `agent`), found `Ops!`",
                "load.channel_rules.Ops!: expected the name of a channel: small letters, digits, _ and - as key, found `Ops!`",
            ],
        ),
    ],
)  # fmt: skip
def test_mistakes_in_privacy_are_named(mistakes, text, messages):
    found = mistakes(privacy=f"version: 1\n{text}\n")
    assert sorted(found) == sorted(f"privacy.yaml:2: {message}" for message in messages)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("channels: []", ["channels: expected a list of channels (at most 100), found an empty list"]),
        ("channels: {private: []}", ["channels: expected a list of channels (at most 100), found a mapping"]),
        (
            "channels: [{name: a}, {name: b}, {name: a}]",
            ["channels[2].name: expected a name of its own, found `a`, which `channels[0]` has"],
        ),
        (
            "channels: [{nmae: a}]",
            [
                "channels[0].name: missing; expected the name of a channel: small letters, digits, _ and -",
                "channels[0].nmae: unknown; did you mean `name`?",
            ],
        ),
    ],
)  # fmt: skip
def test_mistakes_in_channels_are_named(mistakes, text, messages):
    found = mistakes(channels=f"version: 1\n{text}\n")
    assert found == [f"channels.yaml:2: {message}" for message in messages]


def test_rules_are_held_against_channels_that_have_mistakes_of_their_own(mistakes):
    found = mistakes(
        privacy="version: 1\nload: {channel_rules: {pos: {}}}\n",
        channels="version: 1\nchannels: [{name: ops, views: []}]\n",
    )
    assert found == [
        "privacy.yaml:2: load.channel_rules.pos: expected a channel of channels.yaml (`ops`), found `pos`",
        "channels.yaml:2: channels[0].views: unknown; expected one of `name`, `default_load_views`",
    ]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "marker_boosts: {constraint: 10.5, custom: x}",
            [
                "marker_boosts.constraint: expected a weight from 0 to 10, found `10.5`",
                "marker_boosts.custom: expected a weight from 0 to 10, found `x`",
            ],
        ),
        (
            "neighbour: -0.1",
            ["neighbour: expected a part of a neighbour's score from 0 to 1, found `-0.1`"],
        ),
        (
            "intents: {depe: [x]}",
            ["intents.depe: unknown; did you mean `deep`?"],
        ),
        (
            "intents: {deep: 'when'}",
            ["intents.deep: expected a list of regular expressions (at most 100), found `when`"],
        ),
        (
            "intents: {deep: ['a', '*']}",
            ["intents.deep[1]: expected a regular expression, found `*`: nothing to repeat at position 0"],
        ),
        ("tag_weight: true", ["tag_weight: expected a weight from 0 to 10, found `true`"]),
    ],
)  # fmt: skip
def test_mistakes_in_scoring_are_named(mistakes, text, messages):
    found = mistakes(scoring=f"version: 1\n{text}\n")
    assert found == [f"scoring.yaml:2: {message}" for message in messages]
