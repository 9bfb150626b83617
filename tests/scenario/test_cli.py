"""`memplane scenario run`: exit codes, folders, reports, JSON."""

import json
import os
import subprocess
import sys

import pytest

import memplane
from memplane.__main__ import main

PASSES = "version: 1\nscenario: good\nwhen: [{pack: a}]\nassertions: [{acb_max_tokens: 4000}]\n"
FAILS = "version: 1\nscenario: bad\nwhen: [{pack: a}]\nassertions: [{contains: heron}]\n"
WRONG = "version: 1\nscenario: wrong\nassertions: [{contians: heron}]\n"
SLOW = (
    "version: 1\nscenario: slow\nwhen: [{pack: a}]\nassertions: [{acb_build_latency_p95_ms: 0}]\n"
)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, temporary):
    """Run the command in a folder with these files; its exit code, what it printed, its words."""
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*argv, **files):
        (tmp_path / "scenarios").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / "scenarios" / f"{name}.yaml").write_text(text)
        code = main(["scenario", "run", *argv])
        return code, *capsys.readouterr()

    return run


def test_the_exit_code_says_whether_all_pass_one_failed_or_a_file_has_a_mistake(run):
    assert run("scenarios", a=PASSES)[0] == 0
    assert run("scenarios", b=FAILS)[0] == 1
    code, out, err = run("scenarios", c=WRONG)
    assert code == 2
    assert out == "scenarios/c.yaml:3: assertions[0].contians: unknown; did you mean `contains`?\n"
    assert err == "memplane: nothing was run\n"


def test_mistakes_of_all_files_are_named_at_once_and_a_name_that_two_have(run):
    code, out, _ = run("scenarios", "--json", a=PASSES, b=PASSES, c=WRONG)
    answer = json.loads(out)
    assert code == 2
    assert [problem["file"] for problem in answer["problems"]] == [
        "scenarios/c.yaml",
        "scenarios/b.yaml",
    ]
    assert answer["problems"][1]["message"] == (
        "expected each name once, found `good` in scenarios/a.yaml too"
    )


def test_a_limit_of_time_fails_unless_it_is_only_reported_and_is_printed_either_way(run):
    code, out, _ = run("scenarios", a=SLOW)
    assert code == 1
    assert ": OVER\n" in out
    code, out, _ = run("scenarios", "--lenient-time")
    assert code == 0
    assert ": OVER, not enforced\n" in out


def test_a_limit_of_time_that_is_kept_is_printed_too(run):
    code, out, _ = run("scenarios", a=SLOW.replace("p95_ms: 0", "p95_ms: 60000"))
    assert code == 0
    assert ": within\n" in out


def test_assertions_alone_are_asked_of_packs_over_a_conversation_and_may_be_a_mapping(run):
    alone = "assertions:\n  acb_max_tokens: 65000\n  traceability: {target: decision, must_have_refs: true}\n"
    code, out, _ = run("scenarios", "--json", alone=alone)
    (one,) = json.loads(out)["scenarios"]
    assert code == 0
    assert (one["scenario"], one["packs"][0]["runs"]) == ("alone", 20)
    assert [(held["type"], held["line"]) for held in one["assertions"]] == [
        ("acb_max_tokens", 2),
        ("traceability", 3),
    ]
    assert run("scenarios", alone=alone.replace("65000", "1"))[0] == 1


def test_a_mistake_in_a_mapping_of_assertions_is_named_where_it_is_written(run):
    wrong = "assertions:\n  acb_max_tokens: many\n  contians: x\n"
    code, out, _ = run("scenarios/alone.yaml", alone=wrong)
    assert code == 2
    assert out.splitlines()[0].startswith("scenarios/alone.yaml:2: assertions.acb_max_tokens: ")
    assert "scenarios/alone.yaml:3: assertions.contians: unknown; did you mean `contains`?" in out


def test_a_file_or_folder_that_holds_no_scenario_is_wrong_use(run):
    for name in ("scenarios", "scenarios/none.yaml"):
        code, _, err = run(name)
        assert code == 2
        assert err.startswith(f"memplane: {name}: expected ")
    # In a folder other YAML is passed over.
    assert run("scenarios", a=PASSES, other="version: 1\nservices: {}\n")[0] == 0


def test_without_a_path_the_planes_own_scenarios_are_run(run, tmp_path):
    memplane.init(tmp_path / ".memplane").close()
    (tmp_path / ".memplane" / "scenarios" / "mine.yaml").write_text(PASSES)
    code, out, _ = run("--json")
    assert code == 0
    assert [one["scenario"] for one in json.loads(out)["scenarios"]] == ["good"]


def test_they_run_under_the_policies_of_a_folder(run, tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "budgets.yaml").write_text("version: 1\ndefault_pack_tokens: 300\n")
    code, out, _ = run("scenarios", "--policies", "policies", "--json", a=PASSES)
    assert code == 0
    assert json.loads(out)["scenarios"][0]["packs"][0]["budget"] == 300
    assert run("scenarios", "--policies", "scenarios")[0] == 2


def test_a_report_dir_is_made_and_filled(run, tmp_path):
    assert run("scenarios", "--report-dir", "out/ci", a=PASSES, b=FAILS)[0] == 1
    found = json.loads((tmp_path / "out" / "ci" / "scenarios.json").read_text())
    assert [one["passed"] for one in found["scenarios"]] == [True, False]
    assert "1 failed" in (tmp_path / "out" / "ci" / "scenarios.txt").read_text()


def test_what_the_environment_says_of_policies_is_no_part_of_a_scenario(run, monkeypatch):
    monkeypatch.setenv("MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS", "77")
    text = """\
version: 1
scenario: env
when: [{pack: {query: a, as: here}}, {pack: {query: a, process: true, as: there}}, {run: policy show budgets}]
assertions: [{lacks: {text: "77", run: shown}}]
"""
    text = text.replace(
        "{run: policy show budgets}", "{run: {command: policy show budgets, as: shown}}"
    )
    code, out, _ = run("scenarios", "--json", a=text)
    assert code == 0
    assert [pack["budget"] for pack in json.loads(out)["scenarios"][0]["packs"]] == [4000, 4000]


def test_no_command_pays_for_scenarios_and_they_pay_for_no_numpy_before_they_need_it():
    """What a command imports before it is known which one it is."""
    code = "import memplane.cli.run, sys; print(*(m for m in sys.modules if 'scenario' in m))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert ran.stdout.split() == []
    code = "import memplane.scenario, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "yaml", "jsonschema", "typer"} & set(ran.stdout.split())
