"""The programs in examples/ run as they stand, and do what their first lines say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memplane

EXAMPLES = Path(__file__).parents[2] / "examples"
LIBRARY = EXAMPLES.parent / "docs" / "library.md"


def ran(name, folder, *, code=0):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(folder)],
        capture_output=True, text=True, check=False, cwd=folder.parent, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


def test_a_loop_finds_in_a_later_session_what_an_earlier_one_was_told(tmp_path):
    said = ran("agent_loop.py", tmp_path / "plane")
    assert said.splitlines() == [
        "monday : Noted.",
        "tuesday: The Heron reefs at 22 knots",
    ]


def test_a_session_recalls_its_constraint(tmp_path):
    lines = ran("async_session.py", tmp_path / "plane").splitlines()
    assert lines[0].startswith("user: Constraint: no ferry after 20:00")
    assert lines[-1] == "5 turns"


def test_an_mcp_client_finds_what_it_stored(tmp_path):
    pytest.importorskip("mcp")
    first, second = ran("mcp_client.py", tmp_path / "plane").splitlines()
    assert first.count("memory_") == 7
    assert second == "found: True"


def test_a_scenario_holds_under_the_policies_and_not_under_a_change_that_breaks_it(tmp_path):
    said = ran("policy_in_ci.py", tmp_path / "plane")
    assert said.splitlines()[-1] == "as it is: True; with 12 tokens: False"


def test_a_log_is_read_and_checked_without_memplane(tmp_path):
    home = tmp_path / "plane"
    with memplane.init(home) as plane:
        plane.record("We keep PostgreSQL", kind="decision", key="db")
        plane.record("The spare key lies under the mat", id="gone")
        plane.record("which database?", role="user")
        plane.upkeep.purge("gone")
    lines = ran("read_log.py", home).splitlines()
    assert lines[0].split() == ["2", "decision", "We", "keep", "PostgreSQL"]
    assert lines[-1] == "every line chains"
    assert "memplane" not in re.findall(r"^(?:from|import) (\w+)", (EXAMPLES / "read_log.py").read_text(), re.MULTILINE)  # fmt: skip
    damaged = shutil.copytree(home, tmp_path / "damaged")
    (segment,) = (damaged / "log").glob("*.jsonl")
    segment.chmod(0o600)
    segment.write_bytes(segment.read_bytes().replace(b"PostgreSQL", b"PostgresQL"))
    assert ran("read_log.py", damaged, code=1).splitlines()[-1] == "the chain is broken"


def test_every_program_is_run_here_and_named_in_the_docs():
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert len(names) == 5
    assert names <= {*re.findall(r"(\w+\.py)", Path(__file__).read_text())}
    assert names <= {*re.findall(r"examples/(\w+\.py)", LIBRARY.read_text())}
