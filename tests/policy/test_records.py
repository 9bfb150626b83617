"""What a policy says is what the records hold."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from memplane.event import SENSITIVITIES
from memplane.policy import ChannelRule, Privacy, SectionBudget
from memplane.recall.score import FADING_KINDS


def test_sections_keep_the_order_of_the_file_and_standard_ones_left_out_follow(policies):
    text = """version: 1
sections:
  rules: {max_tokens: 600, priority: 1, share: 3}
  runbooks: {max_tokens: 0, priority: 1, share: 0.5, views: [views/run/books.md]}
  identity: {max_tokens: 1, priority: 1, share: 0}
  lessons: {max_tokens: 9, priority: 0, share: 0.000001, kinds: [insight, observation]}
"""
    budgets, ours = policies(budgets=text).budgets, policies().budgets
    left_out = tuple(one for one in ours.sections if one.name not in ("rules", "identity"))
    assert len(left_out) == 8
    assert budgets.sections == (
        SectionBudget("rules", 600, 1, 3_000_000),
        SectionBudget("runbooks", 0, 1, 500_000, ("views/run/books.md",)),
        SectionBudget("identity", 1, 1, 0),
        SectionBudget("lessons", 9, 0, 1, (), ("insight", "observation")),
        *left_out,
    )
    assert budgets.section("rules") == budgets.sections[0]
    assert budgets.section("never_named") is None


def test_a_missing_share_is_the_sections_part_of_all_max_tokens(policies):
    text = """version: 1
sections:
  identity: {max_tokens: 1000, priority: 1}
  rules: {max_tokens: 2000, priority: 1}
  task_state: {max_tokens: 5000, priority: 1, share: 0.25}
"""
    sections = policies(budgets=text).budgets.sections
    assert [section.weight for section in sections[:3]] == [125_000, 250_000, 250_000]


def test_sections_of_no_tokens_at_all_have_no_weight(policies):
    text = "version: 1\nsections: {rules: {max_tokens: 0, priority: 1}}\n"
    assert policies(budgets=text).budgets.sections[0].weight == 0
    by_default = policies().budgets.sections
    assert policies(budgets="version: 1\nsections: {}\n").budgets.sections == by_default


def test_where_a_file_names_no_share_at_all_the_priorities_divide_a_block(policies):
    def by_priority(*rows: str) -> bool:
        sections = "".join(f"  {row}\n" for row in rows)
        return policies(budgets=f"version: 1\nsections:\n{sections}").budgets.by_priority

    rules, tasks = "rules: {max_tokens: 9, priority: 1", "task_state: {max_tokens: 9, priority: 2"
    assert by_priority(f"{rules}}}", f"{tasks}}}")
    for share in ("share", "share_orient", "share_without_session"):
        assert not by_priority(f"{rules}}}", f"{tasks}, {share}: 0}}")
    assert not policies().budgets.by_priority
    assert not policies(budgets="version: 1\n").budgets.by_priority


def test_limits_left_out_keep_their_defaults(policies):
    text = "version: 1\nlimits: {cards_max: 0, bytes_read_max: 2e6}\n"
    by_default = policies().budgets.limits
    limits = policies(budgets=text).budgets.limits
    assert limits == by_default._replace(cards_max=0, bytes_read_max=2_000_000)
    assert type(limits.bytes_read_max) is int


def test_scale_and_scores_become_integers(policies):
    scaled = policies(budgets="version: 1\nscale: 1.2\n").budgets
    assert scaled.scale_ppm == 1_200_000
    text = "version: 1\nmarker_boosts: {goal: 0.55, custom: 2}\nneighbour: 0\nkey_weight: 0.0005\n"
    scoring = policies(scoring=text).scoring
    assert scoring.marker_boosts == {
        "constraint": 400,
        "decision": 300,
        "goal": 550,
        "failure": 200,
        "custom": 2_000,
        "custom:instruction": 0,
    }
    assert (scoring.neighbour, scoring.key_weight, scoring.tag_weight) == (0, 0, 500)


def test_weights_of_retrieval_and_packing_become_thousandths_and_counts_stay_counts(policies):
    text = """version: 1
retrieval: {k1: 1.25, related_most: 3, wide: {weight: 0.125}, near: {fade: 60, reach: 2}}
packing: {passage_worth: 0.5, whole_tokens: 80, powers: [{up_to: 900, power: 6}, {power: 12}]}
"""
    ours, scoring = policies().scoring, policies(scoring=text).scoring
    assert scoring.retrieval == ours.retrieval._replace(
        k1=1_250, related_most=3, wide=ours.retrieval.wide._replace(weight=125),
        near=ours.retrieval.near._replace(fade=60, reach=2),
    )  # fmt: skip
    assert scoring.packing == ours.packing._replace(
        passage_worth=500, whole_tokens=80, powers=((900, 6),), power=12
    )
    assert {type(number) for number in scoring.retrieval if not isinstance(number, tuple)} == {int}


def test_of_a_tool_result_as_many_tokens_are_indexed_as_the_policy_says(policies):
    plane = policies(plane="version: 1\nindex: {tool_result_tokens: 60}\n").plane
    assert plane == policies().plane._replace(tool_result_tokens=60)


def test_intents_keep_the_order_of_the_file_and_replace_the_default_ones(policies):
    text = "version: 1\nintents:\n  orient: ['^so$']\n  fast: ['^quick']\n"
    assert policies(scoring=text).scoring.intents == (("orient", ("^so$",)), ("fast", ("^quick",)))
    assert policies(scoring="version: 1\nintents: {}\n").scoring.intents == ()


def test_a_channel_without_a_rule_gets_the_rule_of_agent(policies):
    text = """version: 1
load:
  channel_rules:
    agent: {suppress_sensitivity: [low], suppress_kinds: [tool_result]}
"""
    privacy = policies(privacy=text).privacy
    assert privacy.rule("team") == privacy.rule("agent") == privacy.rule("never heard of")
    assert privacy.rule("agent") == ChannelRule(("low", "secret"), (), ("tool_result",))


def test_where_agent_has_no_rule_high_and_secret_stay_out(policies):
    privacy = policies(privacy="version: 1\nload: {channel_rules: {}}\n").privacy
    assert privacy.rules == {}
    assert privacy.rule("agent") == privacy.rule("private") == ChannelRule(("high", "secret"))


@given(hidden=st.lists(st.sampled_from(SENSITIVITIES), unique=True), channel=st.text(max_size=8))
def test_secret_is_always_suppressed_whatever_the_rule_says(hidden, channel):
    rule = Privacy(rules={"agent": ChannelRule(tuple(hidden))}).rule(channel)
    assert set(rule.suppress_sensitivity) == {*hidden, "secret"}


def test_lists_may_be_emptied(policies):
    text = "version: 1\nstore: {never_store_kinds: [], redact_patterns: []}\n"
    assert policies(privacy=text).privacy[:2] == ((), ())


def test_channels_know_their_names_and_views(policies):
    text = "version: 1\nchannels:\n- {name: ops}\n- {name: on-call, default_load_views: [views/a.md]}\n"
    channels = policies(channels=text).channels
    assert (channels.known("ops"), channels.known("private")) == (True, False)
    assert channels.default_views("ops") == channels.default_views("private") == ()
    assert channels.default_views("on-call") == ("views/a.md",)
    assert list(channels.views) == ["ops", "on-call"]


def test_a_rule_for_a_standard_channel_that_the_plane_does_without_is_no_mistake(policies):
    loaded = policies(channels="version: 1\nchannels: [{name: private}]\n")
    assert loaded.privacy.rule("private") == ChannelRule(("secret",))


def test_own_channels_may_have_rules(policies):
    loaded = policies(
        channels="version: 1\nchannels: [{name: ops}]\n",
        privacy="version: 1\nload: {channel_rules: {ops: {suppress_views: [views/x.md]}}}\n",
    )
    assert loaded.privacy.rule("ops") == ChannelRule(("secret",), ("views/x.md",))


def test_half_lives_and_shared_namespaces_are_the_files_and_what_is_left_out_is_ours(policies):
    ours = policies()
    text = "version: 1\nhalf_lives: {fact: 48, preference: 24}\nstale_after_days: 0\n"
    scoring = policies(scoring=text).scoring
    assert scoring.half_lives == {**ours.scoring.half_lives, "fact": 48, "preference": 24}
    assert (scoring.stale_after_days, ours.scoring.stale_after_days) == (0, 30)
    assert ours.plane.shared == ()
    shared = policies(plane="version: 1\nnamespaces: {shared: [/agent/a, '/agent/*']}\n").plane
    assert shared.shared == ("/agent/a", "/agent/*")


def test_the_kinds_that_may_fade_are_the_same_in_schema_policy_and_code(policies, schemas):
    schema = json.loads(schemas["scoring.schema.json"])
    known = set(schema["properties"]["half_lives"]["properties"])
    assert known == set(FADING_KINDS) == set(policies().scoring.half_lives)
    assert not known & {"decision", "rule"}
