"""The examples of the original specification, as they stand there: loaded, run, and lived under."""

from __future__ import annotations

from pathlib import Path

import pytest

import memplane
from memplane.cli.trials import builders, read_scenario_file
from memplane.scenario import Runner, Settings

SPEC = Path(__file__).parents[1] / "policy" / "spec"
POLICIES = {f"{name}.yaml": (SPEC / f"{name}.yaml").read_bytes() for name in
            ("budgets", "privacy", "channels")}  # fmt: skip
SUITE = sorted((Path(__file__).parents[2] / "scenarios").glob("SCN-*.yaml"))

GIVEN = """
version: 1
scenario: original
given:
  events:
    - {role: user, session: s1, text: "Which post does the heron watch?"}
    - {kind: decision, key: post, text: "The heron watches post 7.", refs: [event-1]}
when:
  - pack: {query: "Which post does the heron watch?", as: block}
"""
LIST = """
assertions:
  - {type: acb_max_tokens, max: 65000}
  - {type: acb_build_latency_p95_ms, max: 60000}
  - {type: acb_candidate_scan_max, max: 2000}
  - {type: acb_file_reads_max, max: 20}
  - {type: acb_bytes_read_max, max: 8000000}
  - {type: traceability, target: "decision", must_have_refs: true}
"""
MAPPING = """
assertions:
  acb_max_tokens: 65000
  acb_build_latency_p95_ms: 60000
  acb_candidate_scan_max: 2000
  acb_file_reads_max: 20
  acb_bytes_read_max: 8000000
"""


@pytest.mark.parametrize("assertions", [LIST, MAPPING], ids=["list", "mapping"])
def test_both_forms_of_its_assertions_run_under_its_policies(run_once, assertions):
    outcome = run_once(GIVEN + assertions, policies=POLICIES)
    assert outcome.failures == []
    assert len(outcome.held) >= 5


ROOMY = "SCN-S1"  # what it keeps out of the head has room behind it under these budgets


def short(file: Path) -> bool:
    return not read_scenario_file(file).long and file.stem != ROOMY


LARGE = (
    "SCN-002",
    "SCN-004",
    "SCN-005",
    "SCN-006",
    "SCN-007",
    "SCN-008",
    "SCN-010",
)  # worlds that take long


def given(file: Path):
    marks = [pytest.mark.long] if file.stem in LARGE else []
    return pytest.param(file, id=file.stem, marks=marks)


@pytest.mark.parametrize("file", [given(file) for file in SUITE if short(file)])
def test_the_shipped_suite_passes_under_its_policies(file):
    with Runner(builders(), Settings(lenient_time=True, policies=POLICIES)) as runner:
        assert runner.run(read_scenario_file(file)).failures == []


def test_each_of_its_channels_shows_its_views_and_no_others(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        for name, data in POLICIES.items():
            (plane.home / "policies" / name).write_bytes(data)
        for name in ("identity.md", "rules.project.md", "preferences.md"):
            (plane.home / "views" / name).write_text(f"The heron of {name}.\n")
        plane.record("The heron's nest is secret.", sensitivity="high")
        for channel in ("private", "public", "agent"):
            text = plane.pack("heron", channel=channel).text
            assert "identity.md" in text
            assert "rules.project.md" in text
            assert ("preferences.md" in text) == (channel == "private")
            assert ("nest" in text) == (channel == "private")


def test_what_its_budgets_do_not_name_is_not_switched_off(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        (plane.home / "policies" / "budgets.yaml").write_bytes(POLICIES["budgets.yaml"])
        plane.record("The heron likes shallow water.", kind="insight")
        long = plane.record("The log of the ferry. " * 400, kind="observation")
        block = plane.pack("", expand=[f"event/{long.seq}"], intent="orient")
        used = {name: row["used"] for name, row in block.report["sections"].items()}
        assert used["knowledge_cards"]
        assert used["expansions"]
        rooms = plane.pack("").report["sections"]
        assert rooms["system_map"]["room"] == pytest.approx(80, abs=5)
