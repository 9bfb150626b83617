"""Reports as pages: each command that has `--html` writes one from the figures that it prints."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import checks_layers
from builders_pages import Parts

from memplane.__main__ import main
from memplane.cli import figures
from memplane.inspect import document

ROOT = Path(__file__).parents[2]


def data_of(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return json.loads(Parts(path.read_bytes()).texts["data"])


def tables(data):
    """Title and rows of every table."""
    return {
        one.get("title"): one["rows"]
        for view in data["views"]
        for one in view["parts"]
        if "rows" in one
    }


def test_the_cache_of_saved_packs_as_a_page(sample, tmp_path, capsys):
    page = tmp_path / "cache.html"
    assert main(["stats", "--cache", "--html", str(page), "--home", str(sample), "--json"]) == 0
    said, told = capsys.readouterr()
    (row,) = json.loads(said)
    data = data_of(page)
    assert tables(data)["By session"][0][:3] == [row["session"], row["budget"], row["packs"]]
    assert told == f"memplane: {page}: the page\n"


def test_a_page_of_stats_is_one_of_its_cache(sample, tmp_path, capsys):
    assert main(["stats", "--html", str(tmp_path / "page.html"), "--home", str(sample)]) == 2
    assert "expected --cache beside it" in capsys.readouterr().err


def test_what_verify_finds_as_a_page(sample, tmp_path):
    page = tmp_path / "faults.html"
    assert main(["verify", "--html", str(page), "--home", str(sample)]) == 0
    assert data_of(page)["views"][0]["lead"] == "Nothing is wrong."
    (segment,) = (sample / "log").glob("*.jsonl")
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"redirect", b"rederect", 1))
    assert main(["verify", "--html", str(page), "--home", str(sample)]) == 1
    data = data_of(page)
    assert data["views"][0]["lead"] != "Nothing is wrong."
    assert len(tables(data)["Faults"]) >= 1


def test_two_policies_on_the_same_packs_as_a_page(sample, tmp_path):
    other = tmp_path / "other"
    (other / "policies").mkdir(parents=True)
    text = (sample / "policies" / "budgets.yaml").read_text()
    assert "counter: bound/1" in text
    (other / "policies" / "budgets.yaml").write_text(
        text.replace("counter: bound/1", "counter: len4")
    )
    page = tmp_path / "trial.html"
    argv = [
        "policy",
        "replay",
        "--from",
        "now",
        "--to",
        str(other),
        "--html",
        str(page),
        "--home",
        str(sample),
    ]
    assert main(argv) == 0
    data = data_of(page)
    assert [view["id"] for view in data["views"]][:2] == ["sections", "packs"]
    rows = tables(data)["Tokens by section"]
    assert rows
    assert all(row[1] or row[2] for row in rows)


def test_an_evaluation_as_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = {"conversation_id": "c", "event_id": "e1", "ts": "2026-01-05T12:00:00Z", "session_id": "s",
            "role": "user", "speaker": "Ana", "text": "the mast is of spruce"}  # fmt: skip
    asks = {"conversation_id": "c", "question_id": "q", "question": "what is the mast of?", "category": "one",
            "asked_at": "2026-01-06T12:00:00Z", "evidence_event_ids": ["e1"]}  # fmt: skip
    Path("events.jsonl").write_text(json.dumps(said))
    Path("questions.jsonl").write_text(json.dumps(asks))
    argv = [
        "eval",
        "--events",
        "events.jsonl",
        "--questions",
        "questions.jsonl",
        "--budgets",
        "500,1000",
        "--by",
        "category",
    ]
    assert main([*argv, "--html", "eval.html"]) == 0
    data = data_of(tmp_path / "eval.html")
    assert [view["label"] for view in data["views"]] == ["All questions", "one"]
    lines = data["views"][0]["parts"][0]["lines"]
    assert lines["labels"] == ["500 tokens", "1,000 tokens"]
    assert [len(one["values"]) for one in lines["series"]] == [2]


def test_replayed_sessions_and_candidates_as_pages():
    place = {
        "asked": 4,
        "answered": 1,
        "tokens": 90,
        "tokens_median": 90,
        "passages": 2,
        "needed": 0.5,
        "at_random": 0.1,
        "newest": None,
    }
    report = {"sessions": 2, "events": 9, "starts": place, "prompts": place, "tools": place}
    data = figures.replayed_page({**report, "parts": [report]})
    assert [one["title"] for one in data["views"][0]["parts"]] == [
        "All sessions",
        "Part 1: 2 sessions",
    ]
    folds = [{"fold": 0, "own": 0.5, "candidate": "b.yaml"}]
    data = figures.candidates_page(
        {"honest": 0.5, "fitted": {"a": 0.4, "b.yaml": 0.6}, "folds": folds}
    )
    assert tables(data)["On all conversations"] == [["b.yaml", 60.0], ["a", 40.0]]
    assert document(data).startswith(b"<!doctype html>")


def test_the_bench_as_a_page(tmp_path):
    page = tmp_path / "bench.html"
    command = [
        sys.executable,
        "benchmarks/run.py",
        "--quick",
        "--only",
        "modules",
        "--reports",
        str(tmp_path),
        "--html",
        str(page),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ
    )
    assert (done.returncode, done.stderr) == (0, "")
    (kept,) = tmp_path.glob("bench-*.json")
    rows = json.loads(kept.read_text())["rows"]
    shown = data_of(page)["views"][0]["parts"][0]["rows"]
    assert shown[0][0] == rows[0]["work"]
    assert len(shown) == len(rows) + sum(len(row["peers"]) for row in rows)


def test_the_summary_of_faults_is_a_page_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(checks_layers, "SUMMARY", tmp_path / "faults.json")
    count = checks_layers.Count("cuts", "append")
    count.add(["a </script> was lost"], done=7)
    checks_layers.keep_summary([count])
    data = data_of(tmp_path / "faults.html")
    assert tables(data)["Layers"][0][:3] == ["cuts", 7, 1]
    assert [view["id"] for view in data["views"]] == ["layers", "operations", "violations"]
    checks_layers.keep_summary([checks_layers.Count("cuts", "append")])
    assert tables(data_of(tmp_path / "faults.html"))["Layers"][0][:3] == ["cuts", 0, 0]


def test_a_file_of_somebody_is_not_written_over_by_a_report(sample, tmp_path, capsys):
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    assert main(["verify", "--html", str(mine), "--home", str(sample)]) == 2
    assert mine.read_text() == "mine"
    assert "name another" in capsys.readouterr().err


def test_names_in_a_report_are_as_inert_as_those_of_a_plane():
    row = {"session": "</script><img src=x onerror=1>", "budget": 1, "packs": 1, "kept": 0, "breaks": {"<b>": 1},
           "shares": {"median_ppm": None, "p10_ppm": None},
           "costs": {reuse: {"of_fresh_ppm": 1} for reuse in ("prompt", "call")}}  # fmt: skip
    parts = Parts(document(figures.cache_page([row])))
    assert parts.tags.count("script") == 2
    assert not {"img", "b"} & {*parts.tags}
