"""What loads, but hardly says what was meant: named by the check, and no reason to stop a pack."""

from __future__ import annotations

import pytest

from memplane.policy import check_files

USUAL = ["views/identity.md", "views/preferences.md", "views/rules.project.md"]


@pytest.fixture(scope="session")
def checked(defaults, schemas):
    """Check the given files against the views that exist."""

    def read(views=(), overrides=None, **files):
        data = {f"{stem}.yaml": f"version: 1\n{text}\n".encode() for stem, text in files.items()}
        return check_files(
            data, defaults=defaults, schemas=schemas, overrides=overrides or {}, views=views
        )

    return read


@pytest.fixture(scope="session")
def doubts(checked, policies):
    """The doubts as people read them; whatever they are about loads."""

    def read(views=(), overrides=None, **files):
        found = checked(views, overrides, **files)
        assert found.mistakes == []
        if not overrides:
            policies(**{stem: f"version: 1\n{text}\n" for stem, text in files.items()})
        return [str(problem) for problem in found.doubts]

    return read


def test_the_defaults_raise_no_doubt_and_their_views_are_still_to_be_written(checked):
    assert checked() == ([], [], USUAL)
    assert checked(USUAL) == ([], [], [])
    assert checked(["views/identity.md"]).unwritten == USUAL[1:]


A_RULE = "load: {channel_rules: {ops: {}, agent: {}}}"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"budgets": "sections: {runbooks: {max_tokens: 9, priority: 1, views: [views/runbook.md]}}"},
            ["budgets.yaml:2: sections.runbooks.views[0]: expected a view that exists, found `views/runbook.md`: no such file; did you mean `views/runbooks.md`?"],
        ),
        (
            {"channels": "channels:\n- {name: ops, default_load_views: [views/ops/on-call.md, views/zebra.md]}", "privacy": A_RULE},
            [
                "channels.yaml:3: channels[0].default_load_views[0]: expected a view that exists, found `views/ops/on-call.md`: no such file; did you mean `views/ops/oncall.md`?",
                "channels.yaml:3: channels[0].default_load_views[1]: expected a view that exists, found `views/zebra.md`: no such file",
            ],
        ),
        (
            {"privacy": "load: {channel_rules: {public: {suppress_views: [views/preference.md]}, private: {}, team: {}, agent: {}}}"},
            ["privacy.yaml:2: load.channel_rules.public.suppress_views[0]: expected a view that exists, found `views/preference.md`: no such file; did you mean `views/preferences.md`?"],
        ),
    ],
)  # fmt: skip
def test_a_view_that_does_not_exist_is_named_with_the_one_that_was_meant(doubts, files, said):
    views = ["views/runbooks.md", "views/ops/oncall.md", "views/preferences.md"]
    assert doubts(views, **files) == said


def test_a_usual_view_is_missed_only_where_a_file_that_no_policy_names_may_be_meant(doubts):
    channel = "channels: [{name: private, default_load_views: [views/identity.md]}]"
    private = "load: {channel_rules: {private: {}}}"
    assert doubts([], channels=channel, privacy=private) == []
    assert doubts(["views/other.md"], channels=channel, privacy=private) == []
    assert doubts(["views/identitiy.md"], channels=channel, privacy=private) == [
        "channels.yaml:2: channels[0].default_load_views[0]: expected a view that exists, found `views/identity.md`: no such file; did you mean `views/identitiy.md`?"
    ]


def test_a_channel_without_a_rule_is_named_with_what_applies_instead(doubts):
    channels = "channels:\n- {name: private}\n- {name: ops}\n"
    assert doubts(channels=channels) == [
        "channels.yaml:4: channels[1].name: expected a rule in privacy.yaml, found none for `ops`: the rule of `agent` applies"
    ]
    privacy = "load: {channel_rules: {private: {}, team: {}}}"
    assert doubts(channels=channels.replace("ops", "teams"), privacy=privacy) == [
        "channels.yaml:4: channels[1].name: expected a rule in privacy.yaml, found none for `teams`: high and secret stay out; did you mean `team`?"
    ]
    assert doubts(channels=channels, privacy="load: {channel_rules: {private: {}, ops: {}}}") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "hooks:\n  channel: agnt",
            ["plane.yaml:3: hooks.channel: expected a channel (`private`, `public`, `team`, `agent`), found `agnt`: hooks record, and answer nothing; did you mean `agent`?"],
        ),
        ("hooks: {channel: team}", []),
        (
            "hooks:\n  milliseconds_max: 500\n  wait_ms: 500",
            ["plane.yaml:4: hooks.wait_ms: expected wait_ms below milliseconds_max, found 500 and 500: a hook would end while it waits and lose the event"],
        ),
        (
            "hooks: {milliseconds_max: 200}",
            ["plane.yaml:2: hooks.milliseconds_max: expected wait_ms below milliseconds_max, found 300 and 200: a hook would end while it waits and lose the event"],
        ),
        ("hooks: {milliseconds_max: 301}", []),
    ],
)  # fmt: skip
def test_hooks_that_name_no_channel_or_end_before_they_have_recorded_are_named(doubts, text, said):
    assert doubts(plane=text) == said


def test_the_hooks_channel_is_held_against_the_channels_that_are_there(doubts):
    channels = "channels: [{name: private}, {name: ops}]"
    private = "load: {channel_rules: {private: {}, ops: {}}}"
    assert doubts(plane="hooks: {channel: ops}", channels=channels, privacy=private) == []
    assert doubts(plane="hooks: {channel: agent}", channels=channels, privacy=private) == []
    assert doubts(plane="hooks: {channel: team}", channels=channels, privacy=private) == []
    said = "expected a channel (`private`, `ops`, `public`, `team`, `agent`), found `opps`: hooks record, and answer nothing; did you mean `ops`?"
    assert doubts(plane="hooks: {channel: opps}", channels=channels, privacy=private) == [
        f"plane.yaml:2: hooks.channel: {said}"
    ]
    variable = {"MEMPLANE_PLANE__HOOKS__CHANNEL": "opps"}
    assert doubts(overrides=variable, channels=channels, privacy=private) == [
        f"environment: MEMPLANE_PLANE__HOOKS__CHANNEL: {said}"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "acb_total_max_tokens: 9000\nreserve_tokens: 6000\ndefault_pack_tokens: 3001",
            ["budgets.yaml:4: default_pack_tokens: expected at most 3000, what `reserve_tokens` leaves of `acb_total_max_tokens`, found `3001`"],
        ),
        ("acb_total_max_tokens: 9000\nreserve_tokens: 6000\ndefault_pack_tokens: 3000", []),
        ("acb_total_max_tokens: 9000\nreserve_tokens: 8000", []),
        (
            "sections:\n  rules: {max_tokens: 9, priority: 1, share: 1}\n  identity: {max_tokens: 9, priority: 1}",
            ["budgets.yaml:4: sections.identity.share: missing; expected a share in every section or in none, found one in 1 of 2 sections: this one follows its max_tokens"],
        ),
        (
            "sections:\n  rules: {max_tokens: 9, priority: 1, share: 0}\n  identity: {max_tokens: 9, priority: 1, share: 0}",
            ["budgets.yaml:2: sections: expected a share above 0, found none: all sections count the same"],
        ),
        ("sections: {rules: {max_tokens: 9, priority: 1}, identity: {max_tokens: 9, priority: 1}}", []),
    ],
)  # fmt: skip
def test_sums_and_shares_that_cannot_be_meant_are_named(doubts, text, said):
    assert doubts(budgets=text) == said


def test_a_doubt_about_a_variable_names_the_variable(doubts):
    name = "MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS"
    assert doubts(overrides={name: "65000"}, budgets="scale: 1") == [
        f"environment: {name}: expected at most 60000, what `reserve_tokens` leaves of `acb_total_max_tokens`, found `65000`"
    ]


def test_mistakes_and_doubts_of_other_files_come_together(checked):
    found = checked(
        ["views/a.md"],
        budgets="scale: 0",
        channels="channels: [{name: private, default_load_views: [views/aa.md]}]",
        privacy="load: {channel_rules: {private: {}, x: {}}}",
    )
    assert [str(problem) for problem in found.mistakes] == [
        "budgets.yaml:2: scale: expected a factor from 0.1 to 10, found `0`",
        "privacy.yaml:2: load.channel_rules.x: expected a channel of channels.yaml (`private`), found `x`",
    ]
    assert [str(problem) for problem in found.doubts] == [
        "channels.yaml:2: channels[0].default_load_views[0]: expected a view that exists, found `views/aa.md`: no such file"
    ]


@pytest.mark.parametrize(
    "text", ["[", "- a", "channels: 5", "load: []", "sections: {a: [], b: {views: 5}}"]
)
def test_a_file_of_any_shape_is_checked_without_an_error(defaults, schemas, text):
    files = dict.fromkeys(defaults, f"{text}\n".encode())
    found = check_files(files, defaults=defaults, schemas=schemas, overrides={}, views=USUAL)
    assert found.mistakes
