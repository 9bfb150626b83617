"""The quick form of `make bench`: its rows are there. What they say is nobody's business here."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import sampled

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(*arguments):
    command = [sys.executable, str(BENCHMARKS / "run.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


@pytest.fixture(scope="module")
def workload():
    spec = importlib.util.spec_from_file_location("workload", BENCHMARKS / "workload.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENGINES = ("engines-fill", "engines-search", "engines-add", "engines-disk")


@pytest.mark.long  # all rows: a minute; single rows are tried below
def test_the_quick_bench_has_every_row_with_its_aim_and_its_peers(tmp_path):
    done = run("--quick", "--reports", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (file,) = tmp_path.glob("bench-*.json")
    found = json.loads(file.read_text())
    rows = {row["work"]: row for row in found["rows"]}
    assert len(rows) == 81
    assert all(row["runs"] > 0 and row["noise"] >= 1 for row in rows.values())
    assert all(row["loop_us"] > 0 and row["in_loops"] > 0 for row in rows.values())
    assert all(peer["p95"] > 0 for row in rows.values() for peer in row["peers"])
    aims = {name: row["aim"] for name, row in rows.items() if row["aim"] is not None}
    assert aims["log.append, a prepared line, os"] == 10
    assert aims["record, 600 new characters, os, folded"] == 400
    assert aims["keys by prefix, 100 rows"] == 3
    assert aims["verify: chain + decode"] == 300_000
    assert aims["log.append, 8 processes, os"] == 100_000
    crowd = rows["log.append, 8 processes, sync"]
    assert aims[crowd["work"]] == 0.6 * crowd["peers"][0]["p50"]
    assert all(row["missed"] in (True, False) for row in rows.values() if row["aim"] is not None)
    assert (
        sum(bool(row["peers"]) for row in rows.values()) >= 10
    )  # two more where rs-bpe is installed
    layouts = {(row["policy"], row["mode"], row["budget"]): row for row in found["layouts"]}
    assert len(layouts) == 12
    assert all(row["packs"] > 0 and row["unexplained"] == 0 for row in layouts.values())
    assert layouts["agent", "T", 8000]["share_aim"] == 0.92
    text = file.with_suffix(".txt").read_text()
    assert text in done.stdout
    assert all(name in text for name in rows)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".txt"}


def test_one_row_can_be_asked_for_alone(tmp_path):
    assert run("--quick", "--only", "modules", "--reports", tmp_path).returncode == 0
    (file,) = tmp_path.glob("bench-*.json")
    assert len(json.loads(file.read_text())["rows"]) == 1


@pytest.mark.parametrize("names", sampled([ENGINES[1:2], ENGINES], 2))
def test_the_engines_of_the_index_are_held_against_each_other(tmp_path, names):
    """Those that are not installed have no figures."""
    asked = [part for name in names for part in ("--only", name)]
    done = run("--quick", *asked, "--reports", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (file,) = tmp_path.glob("bench-*.json")
    rows = json.loads(file.read_text())["rows"]
    there = sum(importlib.util.find_spec(name) is not None for name in ("tantivy", "usearch"))
    assert [len(row["peers"]) for row in rows] == [there] * len(names)
    assert all(row["p50"] > 0 and all(peer["p50"] > 0 for peer in row["peers"]) for row in rows)


def test_side_by_side_each_engine_is_asked_the_same_in_a_process_of_its_own(tmp_path):
    """Those that are not installed are named; SQLite always is."""
    done = run("--quick", "--only", "side-by-side", "--texts", 60, "--reports", tmp_path,
               "--html", tmp_path / "page.html")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    (file,) = tmp_path.glob("bench-*.json")
    found = json.loads(file.read_text())
    by_engine = {}
    for row in found["side"]:
        assert row["size"] == 60
        assert 0 < row["p50"] <= row["p95"]
        by_engine.setdefault(row["engine"], {})[row["work"]] = row
    others = by_engine["memplane"].keys() - {"context of 2,000 tokens", "the same, intent fast"}
    assert by_engine["SQLite FTS5"].keys() == others
    assert len(others) == 8
    own, peer = (by_engine[name]["search, 10 hits"] for name in ("memplane", "SQLite FTS5"))
    assert peer["ratio"] == pytest.approx(own["p50"] / peer["p50"], abs=0.001)
    assert len(by_engine) + len(found["unable"]) == 11
    assert "Side by side" in file.with_suffix(".txt").read_text()
    assert "Side by side" in (tmp_path / "page.html").read_text()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_row_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    done = run("--only", "nothing", "--reports", tmp_path)
    assert done.returncode == 2
    assert "record-os" in done.stderr


def test_the_workload_is_the_same_for_the_same_seed_and_another_for_another(workload):
    assert list(workload.rows(300, 5)) == list(workload.rows(300, 5))
    assert list(workload.rows(300, 5)) != list(workload.rows(300, 6))
    assert workload.transcript(50) == workload.transcript(50)
    assert len(list(workload.rows(300))) == 300


def test_every_row_of_the_workload_has_an_id_of_its_own_and_goes_forward_in_time(workload):
    rows = list(workload.rows(1000))
    assert len({row["id"] for row in rows}) == 1000
    assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)
