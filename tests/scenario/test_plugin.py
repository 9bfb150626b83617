"""The pytest plugin: scenarios are tests, other files are not, and others pay nothing for it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PASSES = "version: 1\nscenario: good\nwhen: [{pack: a}]\nassertions: [{acb_max_tokens: 4000}]\n"
FAILS = "version: 1\nscenario: bad\nwhen: [{pack: a}]\nassertions: [{contains: heron}, {contains: reeds}]\n"
WRONG = "version: 1\nscenario: wrong\nassertions: [{contians: heron}]\n"
LONG = """\
version: 1
scenario: long
long: true
given: {events: [{generate: {seed: 1, count: 90, short: 30}}]}
when: [pack: a]
assertions: [{contains: nothing like it}, {acb_build_latency_p95_ms: 0}]
"""
# What other plugins cost is no matter here, and they would cost more than all else.
WITHOUT = [
    word
    for name in ("cacheprovider", "hypothesispytest", "xdist", "xdist.looponfail", "timeout")
    for word in ("-p", f"no:{name}")
]


@pytest.fixture
def pytest_in(tmp_path):
    """Run pytest in a folder with these files, its plugin found as an installed one is."""

    def pytest_in(*argv, **files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.with_suffix(".yaml").write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "pytest", *WITHOUT, *argv], cwd=tmp_path,
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    return pytest_in


def test_the_plugin_is_offered_to_every_pytest_where_memplane_is_installed():
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nmemplane = "memplane.pytest_plugin"\n' in text


def test_each_scenario_is_a_test_and_a_failure_is_its_messages_alone(pytest_in):
    ran = pytest_in(
        "-q", scenarios__a=PASSES, scenarios__b=FAILS, scenarios__c=WRONG,
        scenarios__compose="version: 1\nservices: {}\n", elsewhere__d=FAILS,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "2 failed, 1 passed" in ran.stdout
    # The summary below the failures quotes them in full where the variable CI is set.
    failures = ran.stdout.partition("short test summary info")[0]
    shown = [line for line in failures.splitlines() if line.startswith("scenarios/")]
    assert shown == [
        "scenarios/b.yaml:4: contains: expected `heron` in block `when[0].pack`, found no `heron`",
        "scenarios/b.yaml:4: contains: expected `reeds` in block `when[0].pack`, found no `reeds`",
        "scenarios/c.yaml:3: assertions[0].contians: unknown; did you mean `contains`?",
    ]
    assert "Traceback" not in ran.stdout
    assert "FAILED scenarios/b.yaml::b" in ran.stdout


def test_long_scenarios_are_short_and_times_are_told_unless_it_is_asked_otherwise(pytest_in):
    short = pytest_in("-q", "--durations=0", "--scenario-lenient-time", scenarios__a=LONG)
    assert "1 failed" in short.stdout
    assert "acb_build_latency" not in short.stdout
    assert re.search(r"long \(run short\): \d+\.\d ms in `when\[0\].pack`", short.stdout)
    full = pytest_in("-q", "--scenario-long", scenarios__a=LONG)
    assert "acb_build_latency_p95_ms: expected a p95 of at most 0 ms" in full.stdout
    assert "times of scenarios" in full.stdout


def test_they_run_under_the_policies_of_a_folder(pytest_in, tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "budgets.yaml").write_text("version: 1\ndefault_pack_tokens: 300\n")
    text = (
        "version: 1\nscenario: shown\nwhen: [{run: {command: policy show budgets, as: shown}}]\n"
        "assertions: [{contains: {text: 'default_pack_tokens: 300', run: shown}}]\n"
    )
    assert pytest_in("-q", scenarios__a=text).returncode == 1
    assert pytest_in("-q", "--scenario-policies=policies", scenarios__a=text).returncode == 0


def test_a_project_without_scenarios_imports_nothing_of_memplane_but_the_plugin(
    pytest_in, tmp_path
):
    (tmp_path / "test_own.py").write_text(
        "import sys\n\ndef test():\n"
        "    print(*sorted(name for name in sys.modules if name.startswith('memplane')))\n"
    )
    ran = pytest_in("-q", "-s", elsewhere__a="scenario: of another kind\n")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[0].removesuffix(".").strip() == "memplane memplane.pytest_plugin"
