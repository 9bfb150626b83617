"""Every value in force is listed once, with the place that it comes from."""

from __future__ import annotations

import pytest
import yaml

from memplane.errors import PolicyError
from memplane.policy import NAMES, PolicyValue, as_yaml, policy_values


@pytest.fixture(scope="session")
def listed(defaults, schemas):
    """The rows of the given files by file and key."""

    def read(overrides=None, **files):
        data = {f"{stem}.yaml": text.encode() for stem, text in files.items()}
        found = policy_values(data, defaults=defaults, schemas=schemas, overrides=overrides or {})
        keyed = {f"{row.file.removesuffix('.yaml')}.{row.key}": row for row in found}
        assert len(keyed) == len(found)
        return keyed

    return read


def test_without_files_every_value_is_a_default_and_all_of_them_are_there(listed, defaults):
    found = listed()
    assert {row.origin for row in found.values()} == {"default"}
    assert {row.line for row in found.values()} == {None}
    for name in NAMES:
        stem = name.removesuffix(".yaml")
        for key, value in yaml.safe_load(defaults[name]).items():
            if not isinstance(value, dict | list):
                assert found[f"{stem}.{key}"].value == value
    assert found["budgets.sections.rules.share"].value == 0.1
    assert found["privacy.store.never_store_kinds"].value == ["secret"]
    assert found["channels.channels[0].name"].value == "private"


def test_a_value_of_the_file_has_its_line_and_what_it_leaves_out_is_the_default(listed):
    text = "# mine\nversion: 1\n\ndefault_pack_tokens: 6000\nlimits:\n  cards_max: 2\n"
    found = listed(budgets=text)
    assert found["budgets.default_pack_tokens"] == PolicyValue(
        "budgets.yaml", "default_pack_tokens", 6000, "file", 4
    )
    assert found["budgets.limits.cards_max"][2:5] == (2, "file", 6)
    assert found["budgets.limits.decisions_max"][2:5] == (100, "default", None)
    assert found["budgets.scale"][2:5] == (1.0, "default", None)


def test_sections_that_the_file_leaves_out_are_listed_with_their_defaults(listed):
    rules = "version: 1\nsections:\n  rules: {max_tokens: 300, priority: 1"
    found = listed(budgets=f"{rules}, share: 0.5}}\n")
    assert found["budgets.sections.rules.share"][2:5] == (0.5, "file", 3)
    assert found["budgets.sections.system_map.max_tokens"][2:5] == (800, "default", None)
    assert found["budgets.sections.system_map.share"][2:5] == (0.02, "default", None)
    # Where no section has a share, none of them counts.
    assert not [key for key in listed(budgets=f"{rules}}}\n") if key.endswith(".share")]


def test_what_is_of_one_piece_is_all_the_files_or_all_the_defaults(listed):
    found = listed(
        budgets="version: 1\nsections:\n  rules: {max_tokens: 300, priority: 1}\n  identity: {max_tokens: 100, priority: 2}\n",
        scoring="version: 1\nintents: {deep: [why]}\n",
        privacy="version: 1\nload: {channel_rules: {public: {}}}\n",
        channels="version: 1\nchannels: [{name: public}]\n",
    )
    sections = [key for key in found if key.startswith("budgets.sections.")]
    assert sections[:4] == [
        f"budgets.sections.{name}.{key}"
        for name in ("rules", "identity")
        for key in ("max_tokens", "priority")
    ]
    assert [key for key in found if key.startswith("scoring.intents")] == ["scoring.intents.deep"]
    assert found["privacy.load.channel_rules.public"][2:5] == ({}, "file", 2)
    assert [key for key in found if key.startswith("channels.channels")] == [
        "channels.channels[0].name"
    ]


def test_a_variable_is_named_with_its_value(listed):
    name = "MEMPLANE_BUDGETS__SECTIONS__RULES__MAX_TOKENS"
    found = listed({name: "7000"}, budgets="version: 1\nscale: 2\n")
    row = found["budgets.sections.rules.max_tokens"]
    assert row == PolicyValue(
        "budgets.yaml", "sections.rules.max_tokens", 7000, "environment", None, name
    )
    assert found["budgets.sections.rules.priority"].origin == "default"
    assert found["budgets.scale"].origin == "file"


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (PolicyValue("budgets.yaml", "scale", 1.2, "file", 6), "budgets.scale: 1.2    # policies/budgets.yaml:6"),
        (PolicyValue("plane.yaml", "reports.keep", 5, "environment", None, "MEMPLANE_PLANE__REPORTS__KEEP"), "plane.reports.keep: 5    # environment MEMPLANE_PLANE__REPORTS__KEEP"),
        (PolicyValue("budgets.yaml", "counter", "bound/1", "default"), "budgets.counter: bound/1    # default"),
        (PolicyValue("privacy.yaml", "a", ["x y", "true", "5", "ok", "#"], "default"), 'privacy.a: ["x y", "true", "5", ok, "#"]    # default'),
    ],
)  # fmt: skip
def test_a_row_is_a_line_that_reads_as_yaml(row, line):
    assert f"{row.name}: {as_yaml(row.value)}    # {row.source}" == line
    key = f"{row.file.removesuffix('.yaml')}.{row.key}"
    assert yaml.safe_load(line) == {key: row.value}


def test_policies_with_a_mistake_have_no_values(defaults, schemas):
    with pytest.raises(PolicyError, match=r"plane\.yaml:1: version: missing"):
        policy_values(
            {"plane.yaml": b"log: {}\n"}, defaults=defaults, schemas=schemas, overrides={}
        )
