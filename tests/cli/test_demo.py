"""What `memplane demo` promises to whoever has only the package."""

import json
import re

import pytest

import memplane
from memplane.cli.maintenance import QUESTIONS


@pytest.fixture
def person(person, monkeypatch):
    for name in ("MEMPLANE_HOME",):
        monkeypatch.delenv(name, raising=False)
    return person


def below(folder):
    return sorted(
        path.relative_to(folder).parts[:2] for path in folder.rglob("*") if path.is_file()
    )


def test_it_leaves_one_folder_and_names_it(run, person):
    done = run("demo")
    assert (done.code, done.err) == (0, "")
    assert {parts[:2] for parts in below(person)} == {("project", "memplane-demo")}
    assert "rm -r memplane-demo" in done.out
    assert max(map(len, done.out.splitlines())) <= 100


def test_three_questions_are_answered_within_their_budgets(run, person):
    said = json.loads(run("demo", "--json").out)
    working, redirects, outage = (one["text"] for one in said["questions"])
    assert len(said["questions"]) == len(QUESTIONS) == 3
    assert all(one["tokens"] <= one["budget"] for one in said["questions"])
    assert "task metrics (active)" in working
    assert "doing step 2: one table, one row a day" in working
    assert "Left: Next, in this order" in working
    assert "decision redirect.status: Redirect with 302" in redirects
    assert "a corrected target never reaches" in redirects
    assert "Redirect with 301, so that browsers keep it" not in redirects
    assert "three links are lost" in outage
    assert "preference" not in outage


def test_there_is_a_page_to_look_at_and_it_can_be_opened(run, person, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = run("demo", "--open")
    page = person / "project" / "memplane-demo" / "page.html"
    assert opened == [page.as_uri()]
    assert f"memplane-demo/{page.name}" in done.out
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "Redirect with 302" in text
    assert page.stat().st_mode & 0o777 == 0o600


def test_the_page_shows_what_two_packs_of_a_session_share(run, person):
    assert run("demo").code == 0
    text = (person / "project" / "memplane-demo" / "page.html").read_text()
    data = json.loads(re.search(r'<script[^>]* id="data">(.*?)</script>', text, re.DOTALL)[1])
    block, prefix = (
        next(one for one in data["views"] if one["id"] == name) for name in ("block", "prefix")
    )
    assert block["query"] == QUESTIONS[1].query
    assert (prefix["stable_kept"], prefix["note"]) == (True, "")
    assert prefix["common_tokens"] > 800
    assert prefix["before"]["tokens"] > prefix["common_tokens"]
    assert len(prefix["packs"]["shares"]) == 2


def test_a_second_run_adds_nothing_and_gives_the_same_blocks(run, person):
    first, second = (json.loads(run("demo", "--json").out) for _ in range(2))
    assert first["recorded"] > 180
    assert second["recorded"] == 0
    assert [one["text"] for one in first["questions"]] == [
        one["text"] for one in second["questions"]
    ]


def test_its_own_commands_do_what_they_say(run, person):
    done = run("demo")
    rows = [line.partition("#") for line in done.out.partition("\nNext\n")[2].splitlines()]
    ours = [row[0].split() for row in rows if "--home" in row[0]]
    said = [run(*(word.strip('"') for word in words[1:])) for words in ours]
    assert [one.code for one in said] == [0, 0, 0]
    assert "sudo" in said[0].out
    assert "superseded" in said[1].out
    assert "Redirect with 301" in said[2].out


def test_a_folder_with_other_things_is_left_alone(run, person, home, stored):
    with memplane.open(home) as plane:
        plane.record("mine")
    before = stored(home)
    done = run("demo", "--home", home)
    assert (done.code, stored(home)) == (2, before)
    (person / "project" / "memplane-demo").mkdir()
    (person / "project" / "memplane-demo" / "notes.txt").write_text("mine")
    assert run("demo").code == 2
    assert below(person / "project") == [("memplane-demo", "notes.txt")]
