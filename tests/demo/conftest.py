"""Scripts of the repository, run in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Ran(NamedTuple):
    home: Path
    code: int
    out: str
    err: str
    reports: dict


def run(script, *arguments, **environment):
    command = [sys.executable, str(ROOT / script), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def run_demo(folder, home, **environment):
    done = run("tools/demo.py", "--home", home, "--reports", folder, **environment)
    reports = {file.name: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    return Ran(home, done.returncode, done.stdout, done.stderr, reports)


@pytest.fixture(scope="session")
def run_again():
    """Runs the demo: folder of the reports, home, environment."""
    return run_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return run_demo(folder / "reports", folder / "home")
