"""The defaults are the figures of the design, in the files and in the records."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from memplane.intake import Redactor
from memplane.policy import NAMES, ChannelRule, Limits, PlanePolicy, SectionBudget, load_policies

SPEC = {
    name: (Path(__file__).parent / "spec" / f"{name}.yaml").read_text()
    for name in ("budgets", "privacy", "channels")
}
SHARED = ("views/identity.md", "views/rules.project.md")


def test_the_default_budgets_are_the_figures_of_the_design(policies):
    budgets = policies().budgets
    assert budgets[:5] == (65_000, 5_000, 4_000, "bound/1", 1_000_000)
    assert budgets.sections == (
        SectionBudget("identity", 1_200, 10, 40_000),
        SectionBudget("rules", 6_000, 9, 100_000),
        SectionBudget("task_state", 3_000, 9, 60_000),
        SectionBudget("relevant_decisions", 8_000, 8, 90_000),
        SectionBudget("knowledge_cards", 2_000, 8, 50_000),
        SectionBudget("retrieved_evidence", 28_000, 7, 320_000),
        SectionBudget("recent_window", 12_000, 6, 280_000),
        SectionBudget("tool_state", 2_000, 6, 40_000),
        SectionBudget("system_map", 800, 5, 20_000),
        SectionBudget("expansions", 8_000, 4, 0),
    )
    assert sum(section.weight for section in budgets.sections) == 1_000_000
    assert budgets.limits == Limits(200, 2_000, 200, 400, 100, 6, 20, 8_000_000)


FIRST_PATTERNS = (r"(?i)api_key\s*[:=]\s*\S+", r"(?i)password\s*[:=]\s*\S+")


def test_the_patterns_of_the_original_specification_mask_to_the_letter(policies):
    """Placeholders, variables and calls too: those are exempt in the built-in table alone."""
    redactor = Redactor(policies(privacy=SPEC["privacy"]).privacy.redact_patterns)
    for value in ("YOUR_API_KEY", "<token>", "xxxx", "$X", "${X}", "{{x}}", "%X%", "None,", "f()"):
        for name, rule in (("api_key", "policy-1"), ("Password", "policy-2")):
            assert redactor.redact(f"a {name} = {value} b") == (f"a [redacted:{rule}] b", {rule: 1})
            assert Redactor().redact(f"a {name} = {value} b")[1] == {}


def test_the_default_privacy_hides_what_the_design_hides(policies):
    privacy = policies().privacy
    assert privacy.never_store_kinds == ("secret",)
    # Narrower than the specification's: those want a digit, and masked 139 places of 20 MB of code.
    assert len(privacy.redact_patterns) == len(FIRST_PATTERNS)
    assert all(r"\d" in pattern for pattern in privacy.redact_patterns)
    careful = ChannelRule(("high", "secret"))
    assert privacy.rules == {
        "public": ChannelRule(("high", "secret"), ("views/preferences.md",)),
        "private": ChannelRule(("secret",)),
        "team": careful,
        "agent": careful,
    }


def test_the_default_channels_load_the_views_of_the_design(policies):
    assert policies().channels.views == {
        "private": (*SHARED, "views/preferences.md"),
        "public": SHARED,
        "team": SHARED,
        "agent": SHARED,
    }


def test_the_default_scoring_and_housekeeping_are_the_figures_of_the_design(policies):
    scoring = policies().scoring
    assert scoring.marker_boosts == {
        "constraint": 400,
        "decision": 300,
        "goal": 300,
        "failure": 200,
        "custom": 300,
        "custom:instruction": 0,
    }
    assert scoring[1:5] == (20, 500, 1_000, 300)
    assert [intent for intent, _ in scoring.intents] == ["deep", "orient"]
    assert scoring.default_intent == "deep"
    assert policies().plane == PlanePolicy(500, 5_000, 30, 200, 200)


@pytest.mark.sized
def test_the_numbers_of_the_shipped_scoring_file_are_the_defaults_of_its_keys(policies, defaults):
    document = yaml.safe_load(defaults["scoring.yaml"])
    by_default = policies().scoring
    for above in ("retrieval", "packing"):
        # Every key is absent once, and stands once beside each of those that are.
        names = list(document[above])
        for kept in (names[::2], names[1::2], names[: len(names) // 2], names[len(names) // 2 :]):
            row = {name: document[above][name] for name in kept}
            assert policies(scoring=yaml.safe_dump({**document, above: row})).scoring == by_default


def test_empty_files_a_bare_version_and_the_default_files_mean_the_same(policies):
    by_default = policies()[:5]
    stems = [name.removesuffix(".yaml") for name in NAMES]
    for text in ("", "# nothing yet\n", "---\n", "~\n", "{}\n", "\ufeff", "version: 1\n"):
        assert policies(**dict.fromkeys(stems, text))[:5] == by_default


def test_a_missing_file_is_its_default_with_the_hash_of_the_default_bytes(defaults, schemas):
    loaded = load_policies(
        {"budgets.yaml": None, "plane.yaml": b"version: 1\n"}, defaults=defaults, schemas=schemas
    )
    expected = {name: sha256(defaults[name]).hexdigest() for name in NAMES}
    assert loaded.hashes == expected | {"plane.yaml": sha256(b"version: 1\n").hexdigest()}
    assert list(loaded.hashes) == list(NAMES)


def test_the_files_of_the_original_specification_load_as_they_are(policies):
    loaded = policies(**SPEC)
    assert [section.name for section in loaded.budgets.sections][:2] == ["identity", "rules"]
    # What the file does not name, younger than it, is not switched off by that.
    for name in ("knowledge_cards", "system_map", "expansions"):
        assert loaded.budgets.section(name) == policies().budgets.section(name)
    assert loaded.budgets.limits == Limits()
    assert loaded.privacy == policies().privacy._replace(
        redact_patterns=FIRST_PATTERNS,
        rules={name: loaded.privacy.rules[name] for name in ("public", "private", "agent")},
    )
    assert list(loaded.channels.views) == ["private", "public", "agent"]


def test_the_example_files_of_the_design_load_as_they_are(policies):
    budgets = """# budgets.yaml
version: 1
acb_total_max_tokens: 65000
reserve_tokens: 5000            # for the user's message and tool inserts; taken from the total only
default_pack_tokens: 4000       # 65,000 is a ceiling, not an aim
counter: bound/1                # bound/1 | o200k | cl100k ([tokens]) | len4 | a plugged-in name
scale: 1.0                      # e.g. 1.2 for a model whose tokenizer is not public
sections:                       # max_tokens, priority as specified; share = its part of a small block
  identity:           {max_tokens: 1200,  priority: 10, share: 0.04}
  rules:              {max_tokens: 6000,  priority: 9,  share: 0.10}
  task_state:         {max_tokens: 3000,  priority: 9,  share: 0.06}
  relevant_decisions: {max_tokens: 8000,  priority: 8,  share: 0.09}
  knowledge_cards:    {max_tokens: 2000,  priority: 8,  share: 0.05}
  retrieved_evidence: {max_tokens: 28000, priority: 7,  share: 0.32}
  recent_window:      {max_tokens: 12000, priority: 6,  share: 0.28}
  tool_state:         {max_tokens: 2000,  priority: 6,  share: 0.04}
  system_map:         {max_tokens: 800,   priority: 5,  share: 0.02}
  expansions:         {max_tokens: 8000,  priority: 4,  share: 0.0}      # only when asked for
limits: {hotset_max_events: 200, candidate_pool_max: 2000, retrieved_chunks_max: 200, chunk_max_tokens: 400, decisions_max: 100,
         cards_max: 6, file_reads_max: 20, bytes_read_max: 8000000}
"""
    privacy = r"""# privacy.yaml
version: 1
store:
  never_store_kinds: [secret]
  redact_patterns: ["(?i)api_key\\s*[:=]\\s*\\S+", "(?i)password\\s*[:=]\\s*\\S+"]     # beside the built-in table
load:
  channel_rules:
    public:  {suppress_sensitivity: [high, secret], suppress_views: [views/preferences.md]}
    private: {suppress_sensitivity: [secret]}
    team:    {suppress_sensitivity: [high, secret]}
    agent:   {suppress_sensitivity: [high, secret]}       # a channel without a rule gets this one
"""
    channels = """# channels.yaml
version: 1
channels:
  - {name: private, default_load_views: [views/identity.md, views/rules.project.md, views/preferences.md]}
  - {name: public,  default_load_views: [views/identity.md, views/rules.project.md]}
  - {name: team,    default_load_views: [views/identity.md, views/rules.project.md]}
  - {name: agent,   default_load_views: [views/identity.md, views/rules.project.md]}
"""
    plane = "reports: {keep: 500}\nversion: 1\n"
    loaded = policies(budgets=budgets, privacy=privacy, channels=channels, plane=plane)
    shipped = policies()
    assert loaded.privacy.redact_patterns == FIRST_PATTERNS
    privacy = loaded.privacy._replace(redact_patterns=shipped.privacy.redact_patterns)
    assert loaded._replace(privacy=privacy)[:5] == shipped[:5]


def test_each_shipped_pattern_is_tried_only_on_a_text_that_has_its_word(defaults):
    """What a pattern costs each text that is recorded: an alternative in it would take this away."""
    shipped = yaml.safe_load(defaults["privacy.yaml"])["store"]["redact_patterns"]
    patterns = Redactor(tuple(shipped))._patterns
    assert [word for _, _, word in patterns] == ["api_key", "password"]
