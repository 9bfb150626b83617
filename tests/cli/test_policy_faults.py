"""Mistakes in the policies are named, and stop packs and no record."""

import json
import sys

import pytest
from checks_refusals import refused

import memplane
from memplane.errors import (
    MissingExtraError,
)


@pytest.fixture
def mistaken(filled):
    """A plane whose budgets have two mistakes."""
    file = filled / "policies" / "budgets.yaml"
    file.write_text("version: 1\nreserve_tokens: lots\ncuonter: len4\n")
    return filled


def test_every_mistake_in_the_policies_is_listed_with_its_line(run, mistaken):
    done = run("policy", "check", "--home", mistaken)
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "policies/budgets.yaml:2", "policies/budgets.yaml:3",
    ]  # fmt: skip
    found = json.loads(run("policy", "check", "--home", mistaken, "--json").out)
    assert (found["ok"], [p["line"] for p in found["problems"]]) == (False, [2, 3])


def test_a_broken_policy_stops_packs_and_not_records(run, mistaken):
    refused(run("pack", "x", "--home", mistaken), 3, "reserve_tokens")
    error = json.loads(run("pack", "x", "--home", mistaken, "--json").out)["error"]
    assert (error["type"], len(error["problems"])) == ("PolicyError", 2)
    assert run("record", "still", "--home", mistaken).code == 0
    alone = run("--home", mistaken)
    assert alone.code == 3
    assert "refused: 2 mistakes" in alone.out
    assert "memplane policy check" in alone.out
    checked = run("verify", "--home", mistaken)
    assert checked.code == 0
    assert "were not compared" in checked.err
    assert "2 mistakes in the policies, the first: policies/budgets.yaml:2" in checked.err
    listed = json.loads(run("verify", "--home", mistaken, "--json").out)
    assert (listed["ok"], len(listed["policy_mistakes"])) == (True, 2)


def test_every_command_names_a_policy_file_by_its_path_in_the_home(run, mistaken):
    place = "policies/budgets.yaml:2: reserve_tokens: "
    for argv in (["pack", "x"], ["policy", "check"], ["policy", "show"], ["audit"], ["doctor"]):
        done = run(*argv, "--home", mistaken)
        assert place in done.out + done.err, argv
        assert "policies/policies" not in done.out + done.err
    error = json.loads(run("pack", "x", "--home", mistaken, "--json").out)["error"]
    assert {problem["file"] for problem in error["problems"]} == {"policies/budgets.yaml"}
    listed = json.loads(run("verify", "--home", mistaken, "--json").out)["policy_mistakes"]
    assert [one.startswith("policies/budgets.yaml:") for one in listed] == [True, True]


def test_an_unknown_counter_is_a_mistake_that_stops_packs_and_no_record(run, filled):
    budgets = filled / "policies" / "budgets.yaml"
    budgets.write_text("version: 1\ncounter: o100k\n")
    said = (
        "policies/budgets.yaml:2: counter: expected one of `bound/1`, `o200k`, `cl100k`, `len4`, "
        "found `o100k`; did you mean `o200k`?"
    )
    assert run("policy", "check", "--home", filled) == (1, f"{said}\n", "")
    refused(run("pack", "x", "--home", filled), 3, said)
    done = run("doctor", "--home", filled)
    assert done.code == 1
    assert said in done.out
    for argv in (
        ["record", "goes on"], ["task", "open", "Sort the tasks"], ["session", "start", "s9"],
        ["session", "end", "s9"],
    ):  # fmt: skip
        assert run(*argv, "--home", filled).code == 0, argv
    budgets.unlink()
    assert "goes on" in run("log", "--limit", "9", "--home", filled).out


def test_a_counter_whose_extra_is_missing_stops_packs_and_no_record(run, filled, monkeypatch):
    monkeypatch.setitem(sys.modules, "rs_bpe", None)  # as Python marks what is not there
    budgets = filled / "policies" / "budgets.yaml"
    budgets.write_text("version: 1\ncounter: o200k\nscale: 1.37\n")  # made nowhere else
    assert run("policy", "check", "--home", filled).code == 0
    refused(run("pack", "x", "--home", filled), 3, "pip install 'memplane[tokens]'")
    done = run("doctor", "--home", filled)
    assert (done.code, "memplane[tokens]" in done.out) == (1, True)
    for argv in (["record", "goes on"], ["task", "open", "Sort"], ["session", "start", "s9"]):
        assert run(*argv, "--home", filled).code == 0, argv
    with memplane.open(filled) as plane:
        for number in range(40):  # those that fold as they go
            plane.record(f"note {number}")
        with pytest.raises(MissingExtraError):
            plane.pack("note")
        assert plane.record("one more").event.tokens
    budgets.unlink()
    assert "note 39" in run("pack", "note 39", "--home", filled).out


def test_policies_without_mistakes_are_fine(run, filled):
    done = run("policy", "check", "--home", filled)
    assert (done.code, done.out.startswith("5 policies, no mistakes")) == (0, True)
