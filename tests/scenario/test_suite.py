"""The suite in scenarios/: which there are, and what the three for speed hold. pytest runs them."""

import json
from pathlib import Path

import pytest
import yaml

from memplane.cli.trials import read_scenario_file
from memplane.scenario import ASSERTIONS, STEPS

NAMES = [*(f"SCN-{number:03}" for number in range(1, 11)), "SCN-P1", "SCN-P2", "SCN-P3", "SCN-S1"]


def test_the_suite_has_these_scenarios_each_in_a_file_of_its_name(suite):
    scenarios = [read_scenario_file(file) for file in suite]
    assert [scenario.name for scenario in scenarios] == NAMES
    assert [file.stem for file in suite] == NAMES
    assert all(scenario.title for scenario in scenarios)


def test_the_three_for_speed_share_a_plane_of_65000_events_and_hold_the_agreed_limits(suite):
    fast = [read_scenario_file(file) for file in suite if file.stem.startswith("SCN-P")]
    assert {json.dumps(scenario.given) for scenario in fast} == {json.dumps(fast[0].given)}
    assert fast[0].given.events[0]["generate"]["count"] == 65_000
    limits = [
        {one.said["max"] for one in scenario.assertions if "latency" in one.type}
        for scenario in fast
    ]
    assert limits == [{150}, {500}, {1500}]
    for scenario in fast:
        assert scenario.long
        assert all("aim" in one.said for one in scenario.assertions if "latency" in one.type)


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_scenario_names_its_schema_where_editors_look_for_it(suite, number):
    first, *_ = suite[number].read_text().splitlines()
    assert first == "# yaml-language-server: $schema=../schemas/scenario.schema.json"
    assert yaml.safe_load(suite[number].read_text())["version"] == 1


def test_the_page_beside_the_suite_names_every_step_and_assertion_and_its_example_passes(run_once):
    page = (Path(__file__).parents[2] / "scenarios" / "README.md").read_text()
    for name in (*STEPS, *ASSERTIONS):
        assert f"`{name}`" in page, name
    example = page.partition("```yaml\n")[2].partition("```")[0]
    example = example.replace(
        "    - file: data/rows.jsonl     # as `memplane record --jsonl` takes them; beside the scenario\n",
        "",
    )
    outcome = run_once(example)
    assert outcome.failures == []
