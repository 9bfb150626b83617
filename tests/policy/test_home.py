"""Policies in a plane: the environment, the one parsed form, the schemas that editors read."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import jsonschema
import pytest
import yaml

import memplane
from memplane.policy import FILLED, NAMES, cache_key

VARIABLE = {"MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS": "700"}


def key_of(home):
    """The key of the form of a home's files, the defaults that it was filled in from included."""
    data = {name: (home / "policies" / name).read_bytes() for name in NAMES}
    data |= {f"default {name}": memplane.home.asset(f"policies/{name}") for name in FILLED}
    return cache_key(memplane.home.VERSION, data, {})


def forms(home):
    return sorted(file.name for file in (home / "projections").glob("policy-*.json"))


def filled(plane):
    plane.record_many(
        {"text": f"turn {number} about herons and the budget", "role": "user", "session": "s"}
        for number in range(60)
    )
    return plane.home


def test_the_environment_is_read_when_a_plane_is_opened_unless_another_is_given(plane, monkeypatch):
    plane.close()
    name, value = next(iter(VARIABLE.items()))
    monkeypatch.setenv(name, value)
    for given, tokens in ((None, 700), ({}, 4000), ({name: "800"}, 800)):
        with memplane.open(plane.home, environment=given) as opened:
            assert opened.upkeep.policies.budgets.default_pack_tokens == tokens
            assert opened.at(0).upkeep.policies.budgets.default_pack_tokens == tokens
    with memplane.init(plane.home, environment={}) as opened:
        assert opened.upkeep.policies.budgets.default_pack_tokens == 4000
        monkeypatch.setenv(name, "900")
        assert opened.upkeep.policies.budgets.default_pack_tokens == 4000


def test_a_pack_under_a_variable_is_the_pack_of_the_policy_that_its_report_names(
    plane, clock, tmp_path
):
    home = filled(plane)
    with memplane.open(home, clock=clock, environment=VARIABLE) as opened:
        block = opened.pack("herons", session="s", save_report=True)
    assert block.report["budget"] == 700
    hashes = block.report["policies"]
    copy = shutil.copytree(home, tmp_path / "copy")
    for name in NAMES:
        body = home / "bodies" / "sha256" / hashes[name][:2] / hashes[name][2:]
        data = body.read_bytes()
        assert hashlib.sha256(data).hexdigest() == hashes[name]
        (copy / "policies" / name).write_bytes(data)
    assert json.loads((copy / "policies" / "budgets.yaml").read_text())["version"] == 1
    with memplane.open(copy, clock=clock, environment={}) as opened:
        again = opened.pack("herons", session="s")
    assert (again.text, again.report["policies"]) == (block.text, hashes)


def test_the_defaults_that_stand_for_a_missing_file_are_kept_with_the_report(plane):
    (plane.home / "policies" / "scoring.yaml").unlink()
    sha256 = plane.pack("x", save_report=True).report["policies"]["scoring.yaml"]
    body = plane.home / "bodies" / "sha256" / sha256[:2] / sha256[2:]
    assert hashlib.sha256(body.read_bytes()).hexdigest() == sha256


def test_a_variable_with_a_mistake_stops_packs_and_never_records(plane):
    broken = {"MEMPLANE_BUDGETS__SCALE": "much"}
    with memplane.open(plane.home, environment=broken) as opened:
        opened.record("still taken: password = hunter2hunter2")
        with pytest.raises(memplane.PolicyError) as raised:
            opened.pack("x")
    assert str(raised.value) == (
        "environment: MEMPLANE_BUDGETS__SCALE: expected a factor from 0.1 to 10, found `much`"
    )
    assert "hunter2" not in plane.event(2).text


def test_a_pattern_that_could_stop_recording_is_not_used_even_from_a_broken_file(plane):
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text("version: 1\nstore: {redact_patterns: ['CUST-[0-9]+', '(x+)+$']}\n")
    with memplane.open(plane.home) as other:
        other.record(f"CUST-123 {'x' * 5000}!")
    privacy.unlink()
    text = plane.event(2).text
    assert "CUST-123" not in text
    assert "xxxx" in text


def test_a_plane_keeps_one_parsed_form_and_reads_nothing_else_of_it(plane):
    plane.record("hello herons")
    plane.pack("herons")
    (name,) = forms(plane.home)
    assert name == f"policy-{key_of(plane.home)}.json"
    for _ in range(2):  # the first one keeps what it folded
        with memplane.open(plane.home) as other:
            files = other.pack("herons").report["io"]["files"]
    for each in NAMES:
        (plane.home / "policies" / each).unlink()
    with memplane.open(plane.home) as other:
        # The same bytes, from what memplane ships: the five files of the home are spared.
        assert other.pack("herons").report["io"]["files"] <= files - len(NAMES)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b'{"documents":{},"overridden":[]}'])
def test_a_broken_form_is_read_over_and_written_again(plane, damage):
    plane.pack("x")
    (name,) = forms(plane.home)
    file = plane.home / "projections" / name
    sound = file.read_bytes()
    file.write_bytes(damage)
    with memplane.open(plane.home) as other:
        assert other.upkeep.policies == plane.upkeep.policies
    assert file.read_bytes() == sound


def test_no_more_than_a_handful_of_forms_is_kept_and_the_newest_is(plane):
    (plane.home / "projections" / "policy-old.json").write_text("{}")
    file = plane.home / "policies" / "plane.yaml"
    for keep in range(10):
        file.write_text(f"version: 1\nreports: {{keep: {keep}}}\n")
        with memplane.open(plane.home) as other:
            assert other.upkeep.policies.plane.reports_keep == keep
        assert f"policy-{key_of(plane.home)}.json" in forms(plane.home)
    assert len(forms(plane.home)) <= 6
    assert "policy-old.json" not in forms(plane.home)


def test_the_first_line_of_each_policy_leads_an_editor_to_its_schema(plane):
    for name in NAMES:
        file = plane.home / "policies" / name
        first = file.read_text().splitlines()[0]
        path = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)[1]
        schema = json.loads((file.parent / path).resolve(strict=True).read_text())
        assert schema["title"] == name
        jsonschema.validate(yaml.safe_load(file.read_text()), schema)


def test_the_shipped_files_lead_to_the_shipped_schemas(defaults, schemas):
    for name in NAMES:
        schema = name.replace(".yaml", ".schema.json")
        assert schema in schemas
        header = f"# yaml-language-server: $schema=../schemas/{schema}\n"
        assert defaults[name].startswith(header.encode())


def test_init_brings_back_a_schema_and_leaves_every_file_of_a_person_alone(plane):
    plane.close()
    home = plane.home
    mine, gone = home / "schemas" / "budgets.schema.json", home / "schemas" / "plane.schema.json"
    mine.write_text('{"title": "mine"}\n')
    gone.unlink()
    (home / "policies" / "plane.yaml").write_text("version: 1\n")
    (home / "policies" / "scoring.yaml").unlink()
    before = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    memplane.init(home).close()
    memplane.init(home).close()
    after = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    made = {file for file in set(after) - set(before) if file.parent.name != "projections"}
    assert made == {gone}
    assert {file: after[file] for file in before} == before


def test_schemas_are_for_git_as_policies_are(plane):
    ignored = (plane.home / ".gitignore").read_text().splitlines()
    assert "schemas/" not in ignored
    assert "policies/" not in ignored
