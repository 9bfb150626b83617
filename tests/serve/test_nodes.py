"""Nodes over one engine: a mixed load on many planes, and a restart of one node after the other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.servers

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve_nodes.py"
ENGINES = ["PostgreSQL", "NATS"]


def ran(folder, *arguments):
    """The figures of a run, whose exit code says that nothing failed twice and nothing is lost."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--folder", str(folder), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    if done.returncode == 2:
        pytest.skip(done.stderr)
    assert done.returncode == 0, (done.stdout, done.stderr[-2_000:])
    return json.loads(done.stdout)


@pytest.mark.parametrize("engine", ENGINES)
def test_three_nodes_serve_any_of_many_planes_and_lose_nothing(tmp_path, engine):
    found = ran(tmp_path, "--engine", engine, "--planes", 80, "--requests", 240)
    assert found["mixed"]["requests"] == 240
    assert found["mixed"]["failed"] == found["lost"] == 0
    assert found["acknowledged"] > 80
    # Planes are opened when they are asked for, and no node has all of them.
    assert 0 < max(one["open"] for one in found["full nodes"]) < 80
    assert found["exit codes"] == [0, 0, 0]


@pytest.mark.parametrize("how", ["--restart", "--kill"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_restart_of_each_node_under_load_fails_no_request_twice_and_loses_nothing(
    tmp_path, engine, how
):
    load = ("--planes", 12, "--requests", 1_000, "--clients", 8)
    found = ran(tmp_path, "--engine", engine, *load, how)
    assert found["mixed"]["failed"] == found["lost"] == 0
    assert found["mixed"]["asked again"] > 0
    assert found["exit codes"] == [0] * 6
