"""Mistakes in budgets, privacy, channels and scoring are named in the words of each file."""

from __future__ import annotations

import pytest

from memplane.event import KINDS, UPKEEP_KINDS

KINDS_LISTED = ", ".join(
    f"`{kind}`" for kind in [*(kind for kind in KINDS if kind not in UPKEEP_KINDS), "custom:<name>"]
)
A_VIEW = "expected the path of a view, as in views/rules.project.md"


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
