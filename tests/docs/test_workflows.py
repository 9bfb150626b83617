"""The jobs of `.github/workflows` are targets of the Makefile, and the frameworks have one alone."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_each_job_runs_one_target_that_there_is():
    found = {}
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            found[name] = [step["run"] for step in job["steps"] if "run" in step]
            assert job["timeout-minutes"] <= 60
    assert found["frameworks"] == ["make test-frameworks"]
    for (command,) in found.values():
        assert command.removeprefix("make ") in TARGETS


def test_what_a_job_caches_by_is_a_file():
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                named = step.get("with", {}).get("cache-dependency-path", "")
                assert all((ROOT / name).is_file() for name in named.split())
