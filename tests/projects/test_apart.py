"""What another project of the plane says, and does, changes no byte of an answer in this one."""

import random
import re
import tempfile
from pathlib import Path

import pytest
from conftest import Own
from folders import repository
from hypothesis import Phase, given, settings, strategies as st

import memplane
from memplane.errors import InputError, MemplaneError, NotFoundError
from tests.examples import examples

WORDS = ["ledger", "cursor", "tenant", "parser", "invoice", "retry", "schema", "loadTides"]
KINDS = ("message", "tool_call", "tool_result", "decision", "fact", "rule", "task", "task")
ROLES = {"message": "user", "tool_call": "assistant", "tool_result": "tool"}
NOW = "2030-01-01T00:00:00Z"
# Of the block: the marks at its end are of all bytes, seqs are of the whole plane.
NUMBERS = re.compile(r"\b1\d\d\d\b|memplane:(?:begin|end) ?\w*")


def row(chance, who, number):
    """A random event; both projects use the same names of tasks, keys, files, tools and calls."""
    kind = chance.choice(KINDS)
    text = " ".join([*chance.choices(WORDS, k=chance.randint(3, 15)), who])
    found = {"kind": kind, "text": text, "id": f"{who}{number}", "role": ROLES.get(kind)}
    found["ts"] = f"2029-01-01T{number // 60:02d}:{number % 60:02d}:00Z"
    found["session"] = chance.choice((None, f"{who}-s1", f"{who}-s2"))
    if kind in ("decision", "fact", "rule"):
        found["key"] = f"k{chance.randint(0, 2)}"
    if kind in ("tool_call", "tool_result"):
        found["data"] = {"tool": "Edit", "path": f"src/{chance.randint(0, 3)}.py", "call": "c1"}
        found["data"]["status"] = chance.choice(("ok", "error"))
    if kind == "task" or chance.random() < 0.3:
        found["task"] = f"t{chance.randint(0, 2)}"
    if kind == "task":
        found["data"] = {"status": chance.choice(("open", "active", "blocked", "done"))}
        if chance.random() < 0.5:
            found["data"]["plan"] = [{"step": f"step of {who}", "state": "todo"}]
    if chance.random() < 0.2:
        found["refs"] = [f"a{chance.randint(0, 40)}"]
        found["markers"] = [chance.choice(("decision", "failure"))]
    if chance.random() < 0.1:
        found["sensitivity"] = "high"
    return found


def acts(plane, chance):
    """What somebody does in another project, with names that are those of this one."""
    name, key = f"t{chance.randint(0, 2)}", f"k{chance.randint(0, 2)}"
    for act in (
        lambda: plane.work.tasks.done(name, "done here"),
        lambda: plane.work.tasks.open(name, "another goal", plan=["another step"]),
        lambda: plane.work.tasks.switch(name),
        lambda: plane.forget(key),
        lambda: plane.work.sessions.end("a-s1"),
        lambda: plane.work.sessions.end("b-s1"),
        lambda: plane.pin(f"a{chance.randint(0, 40)}"),
        lambda: plane.upkeep.purge(source="a", older_than="1d", now="2040-01-01T00:00:00Z"),
        lambda: plane.upkeep.purge(tag="nothing"),
        plane.work.undo,
    ):
        try:
            act()
        except MemplaneError:
            continue


def answers(plane):
    """What is said in a project, by what was asked."""
    found = {}
    for intent in ("fast", "deep", "orient"):
        for asked in ({}, {"session": "a-s1"}, {"task": "t1"}):
            for query in ("", "parser ledger schema"):
                block = plane.pack(query, intent=intent, budget=3000, now=NOW, **asked)
                found[intent, query, *asked] = block.text
    for when in ("prompt", "start"):
        asked = {"remind": when, "session": "new", "cited": True, "budget": 600, "now": NOW}
        found[when] = plane.pack("loadTides of the ledger: parser, schema?", **asked).text
    for word in WORDS:
        found[word] = [(hit.score, hit.event.id, hit.text) for hit in plane.search(word, 20)]
    found["files"] = plane.work.files("", session="a-s1")
    found["tasks"] = [(one.id, one.status, one.plan) for one in plane.work.tasks.list(all=True)]
    found["keys"] = list(plane.keys())
    found["sessions"] = plane.work.sessions.list()
    found["decisions"] = [one.id for one in plane.work.decisions()]
    found["tides"] = plane.expand("task/t1").text if found["tasks"] else ""
    return {name: NUMBERS.sub("#", str(one)) for name, one in found.items()}


def told(chunks, *, both):
    """The answers in the first of two projects, whose events come in chunks of either."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", folder)
        patch.setenv("MEMPLANE_BUDGETS__COUNTER", "len4")
        own = Own(Path(folder, ".memplane"))
        memplane.init(own.home).close()
        a, b = (
            repository(Path(folder, one, "app"), f"https://git.example/{one}/app") for one in "ab"
        )
        with own.at(b) as plane:  # numbers of four digits, with and without the other's events
            plane.record_many([{"text": "first", "id": f"first{n}"} for n in range(1000)])
        for at, (ours, seed) in enumerate(chunks):
            chance = random.Random(seed)
            if ours or both:
                with own.at(a if ours else b) as plane:
                    who = "a" if ours else "b"
                    rows = [row(chance, who, at * 12 + n) for n in range(12)]
                    plane.record_many(rows)
                    if not ours:
                        acts(plane, chance)
        with own.at(a) as plane:
            return answers(plane)


CHUNKS = st.lists(st.tuples(st.booleans(), st.integers(0, 2**16)), min_size=2, max_size=6)


@settings(max_examples=examples(4), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(CHUNKS.filter(lambda chunks: any(ours for ours, _ in chunks)))
def test_events_and_acts_of_another_project_change_nothing_wherever_they_stand(chunks):
    assert told(chunks, both=True) == told(chunks, both=False)


@pytest.fixture
def two(own, tmp_path):
    """The folders of two projects of one plane."""
    return own, *(repository(tmp_path / one / "app", f"https://git.example/{one}") for one in "ab")


def test_a_task_of_one_name_is_another_task_in_another_project(two):
    own, a, b = two
    with own.at(a) as plane:
        plane.work.tasks.open("ship", "the tide tables", plan=["read the gauge", "print"])
        plane.work.tasks.update("ship", done=[1])
    with own.at(b) as plane:
        assert plane.work.tasks.list() == []
        plane.work.tasks.open("ship", "the boat", plan=["paint"])
        plane.work.tasks.done("ship", "sold")
        assert "gauge" not in plane.expand("task/ship").text
    with own.at(a) as plane:
        task = plane.work.tasks.get("ship")
        assert (task.goal, task.status, len(task.plan)) == ("the tide tables", "open", 2)
        assert [one.state for one in task.plan] == ["done", "todo"]
        with pytest.raises(InputError, match="is open already"):
            plane.work.tasks.open("ship")
    with own.whole() as plane:
        goals = {one.goal for one in plane.work.tasks.list(all=True)}
        assert goals == {"the tide tables", "the boat"}


def test_more_projects_than_have_places_keep_their_tasks(own, tmp_path):
    folders = [tmp_path / f"p{n:02d}" for n in range(15)]
    for folder in folders:
        folder.mkdir()
        with own.at(folder) as plane:
            plane.work.tasks.open("ship", f"goal of {folder.name}")
            plane.context.caught_up()
    for folder in folders:
        with own.at(folder) as plane:
            assert [one.goal for one in plane.work.tasks.list()] == [f"goal of {folder.name}"]
            plane.work.tasks.update("ship", f"note of {folder.name}")
            assert plane.work.tasks.get("ship").goal == f"goal of {folder.name}"
            assert f"goal of {folder.name}" in plane.pack("", intent="orient", budget=2000).text


def test_many_sessions_of_another_project_take_no_place_from_this_ones(two):
    own, a, b = two
    with own.at(a) as plane:
        plane.record("the tides", session="s1", role="user")
        before = plane.work.sessions.list()
    with own.at(b) as plane:
        plane.record_many([{"text": f"boat {n}", "session": f"b{n}"} for n in range(300)])
        assert len(plane.work.sessions.list()) == 50
    with own.at(a) as plane:
        assert plane.work.sessions.list() == before


def test_a_session_of_another_project_is_not_ended(two):
    own, a, b = two
    with own.at(a) as plane:
        plane.record("the tides", session="s1", role="user")
    with own.at(b) as plane, pytest.raises(NotFoundError, match="s1"):
        plane.work.sessions.end("s1")
    with own.at(a) as plane:
        assert not plane.work.sessions.end("s1").already


def test_a_purge_by_tag_age_session_or_source_takes_nothing_of_another_project(two):
    own, a, b = two
    later = {"older_than": "1d", "now": "2040-01-01T00:00:00Z"}
    described = ({"tag": "old"}, later, {"source": "notes"}, {"session": "s1"})
    rows = [{"id": f"notes:{n}", "text": "x", "tags": ["old"], "session": "s1"} for n in range(3)]
    with own.at(a) as plane:
        plane.record_many(rows)
        other = plane.context.home.project
    with own.at(b) as plane:
        plane.record("mine", tags=["old"], id="mine")
        for one in described[:2]:
            assert [event[1] for event in plane.upkeep.purge(**one, dry_run=True).events] == [
                "mine"
            ]
        for one in described[2:]:
            with pytest.raises(NotFoundError):
                plane.upkeep.purge(**one, dry_run=True)
        assert len(plane.upkeep.purge(tag="old", ns=other, dry_run=True).events) == 3
    with own.whole() as plane:
        assert len(plane.upkeep.purge(tag="old", dry_run=True).events) == 4


def test_a_file_is_found_by_its_absolute_path_where_events_name_it_from_the_root(two):
    own, a, b = two
    for folder, text in ((a, "in a"), (b, "in b")):
        with own.at(folder) as plane:
            plane.record(f"gauge {text}", data={"path": "src/tide.py"})
    with own.at(a) as plane:
        found = [hit.text for hit in plane.search("gauge", file=f"{a}/src/tide.py")]
        assert found == ["gauge in a"]
        assert not plane.search("gauge", file=f"{b}/src/tide.py")


def test_a_file_is_found_by_its_absolute_path_in_a_projects_own_plane(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    root = repository(tmp_path / "app")
    with memplane.init(root / ".memplane") as plane:
        plane.record("gauge", data={"path": "src/tide.py"})
        assert plane.search("gauge", file=f"{root}/src/tide.py")
        assert not plane.search("gauge", file="/elsewhere/src/tide.py")
