"""The runner: it leaves nothing behind, makes what is given once, and reports what it saw."""

import json
import re

import pytest

from memplane import scenario as scenario_room
from memplane.cli.trials import builders
from memplane.scenario import (
    Runner,
    Settings,
    as_json,
    as_words,
    work_of,
    write_reports,
)

GIVEN = """\
long: true
given: {events: [{generate: {seed: 3, count: 400, short: 60, session_events: 20}}]}
"""
PACKED = "when: [{pack: {query: a, as: seen}}]\nassertions: [{acb_max_tokens: 4000}]"


def left_in(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    "text",
    [
        PACKED,
        "when: [{pack: {query: a, budget: 0}}]\nassertions: [events_intact]",
        "when: [{pack: {query: a, as: seen}}]\nassertions: [{contains: nothing of that}]",
        "when: [{processes: {count: 2, steps: [{record: {kind: secret}}]}}]\nassertions: [events_intact]",
        f"{GIVEN}{PACKED}",
    ],
    ids=["passes", "a step fails", "an assertion fails", "a process fails", "a generated plane"],
)
def test_nothing_is_left_behind(run, temporary, text):
    run(text)
    assert left_in(temporary) == []


def test_nothing_is_left_behind_by_a_bug_either(run, temporary, monkeypatch):
    def stumble(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(scenario_room, "pack_arguments", stumble)
    with pytest.raises(ZeroDivisionError):
        run(PACKED)
    assert left_in(temporary) == []


def test_what_two_scenarios_are_given_alike_is_generated_once_and_neither_sees_the_other(
    read, temporary
):
    one = read(f"{GIVEN}when: [{{record: {{id: own, text: a}}}}, delete: both, pack: a]\n"
               "assertions: [events_intact, {contains: {event: own}}]")  # fmt: skip
    other = read(f"{GIVEN}when: [run: stats, {{pack: a}}]\n"
                 "assertions: [events_intact, {acb_max_tokens: 4000}, exit: 0]")  # fmt: skip
    third = read(f"{GIVEN}when: [{{run: show own}}]\nassertions: [exit: 1]")
    told = []
    with Runner(builders(), Settings(progress=told.append)) as runner:
        outcomes = [runner.run(scenario) for scenario in (one, other, third)]
    assert [outcome.failures for outcome in outcomes] == [[], [], []]
    assert outcomes[1].held[0].finding.found == "400 of them"
    # 400 events in two batches, once; each step and assertion.
    assert sorted(value for value in told if value < 1) == [0.144, 0.256]
    assert sum(told) == 0.4 + (3 + 2) + (2 + 3) + (1 + 1)


def test_a_long_scenario_is_run_short_where_that_is_asked_for(read, temporary):
    scenario = read(f"{GIVEN}when: [pack: a]\nassertions: [events_intact]")
    found = {}
    for short in (True, False):
        with Runner(builders(), Settings(short=short)) as runner:
            outcome = runner.run(scenario)
        assert outcome.passed
        assert outcome.short == short
        found[short] = outcome.held[0].finding.found
    assert found == {True: "60 of them", False: "400 of them"}
    assert work_of(scenario, short=True) == 2.06
    assert work_of(scenario, short=False) == 2.4


def test_a_report_says_what_packs_took_and_what_each_assertion_found(run, tmp_path):
    outcomes = [
        run(
            """\
            title: A heron is found
            when: [{record: {id: a, text: a heron}}, {pack: {query: heron, repeat: 3, as: seen}}]
            assertions: [{contains: {event: a}}, {acb_build_latency_p95_ms: {max: 0, aim: 2}}]
            """,
            lenient_time=True,
        ),
        run("when: [{pack: a}]\nassertions: [{contains: heron}]"),
    ]
    words = re.sub(r"\d+\.\d", "N.N", as_words(outcomes))
    assert words.splitlines() == [
        "ok     a  A heron is found (N.N s)",
        (
            "       N.N ms in `seen`, of 3 packs; expected a p95 of at most 0 ms (our aim: 2): OVER, "
            "not enforced"
        ),
        "FAILED a   (N.N s)",
        "       a.yaml:4: contains: expected `heron` in block `when[0].pack`, found no `heron`",
        "2 scenarios, 3 assertions, 1 failed, N.N s",
    ]
    found = as_json(outcomes)
    assert json.loads(json.dumps(found)) == found
    assert [one["passed"] for one in found["scenarios"]] == [True, False]
    first = found["scenarios"][0]
    assert first["assertions"][0] | {"found": ""} == {
        "type": "contains", "line": 5, "passed": True, "enforced": True, "found": "",
        "expected": "`a` in block `seen`", "figures": {},
    }  # fmt: skip
    assert set(first["assertions"][1]["figures"]) == {"p95_ms", "max_ms", "aim"}
    (pack,) = first["packs"]
    assert (pack["name"], pack["runs"], pack["budget"]) == ("seen", 3, 4000)
    assert set(pack) >= {"p50_ms", "p95_ms", "stages_p95_ms", "candidates_scored", "files", "bytes"}
    write_reports(tmp_path / "deep" / "reports", outcomes)
    names = {path.name for path in (tmp_path / "deep" / "reports").iterdir()}
    assert names == {
        "scenarios.txt", "scenarios.json", "a.seen.md", "a.seen.report.json", "a.when-0-pack.md",
        "a.when-0-pack.report.json",
    }  # fmt: skip
    assert "a heron" in (tmp_path / "deep" / "reports" / "a.seen.md").read_text()
