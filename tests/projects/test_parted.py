"""Nothing crosses: packs, searches, keys and single events of one project hold none of another."""

import random

import pytest
from folders import repository

import memplane
from memplane.errors import InputError, NotFoundError, ScopeError
from memplane.event import GLOBAL
from tests.examples import sampled

WORDS = ["ledger", "cursor", "tenant", "parser", "invoice", "retry", "schema", "deploy", "cache"]
NAMES = ("app", "app", "web")  # three projects, two of one name
KINDS = ("message", "tool_call", "tool_result", "decision", "fact", "rule", "task", "summary")


def mark(project):
    """A word that stands in every text of a project and nowhere else."""
    return f"zq{project}x"


def rows(chance, project, count, first=0):
    """Random events of sessions of a project, each with the project's own word in all its parts."""
    found = []
    for n in range(first, first + count):
        kind = chance.choice(KINDS)
        text = " ".join([*chance.choices(WORDS, k=chance.randint(3, 30)), mark(project), str(n)])
        row = {"kind": kind, "text": text, "session": f"{mark(project)}-s{n // 40}"}
        role = {"message": "user" if n % 3 else "assistant", "tool_call": "assistant"}
        row["role"] = role.get(kind, "tool" if kind == "tool_result" else None)
        if kind in ("decision", "fact", "rule"):
            row["key"] = f"{chance.choice(WORDS)}.{chance.choice(('a', mark(project)))}"
        if kind in ("tool_call", "tool_result"):
            row["data"] = {"tool": f"T{mark(project)}", "path": f"src/{mark(project)}{n % 7}.py"}
            row["data"]["status"] = chance.choice(("ok", "error"))
        if kind == "task":
            row["task"] = f"{mark(project)}-{n % 3}"
            row["data"] = {"status": chance.choice(("open", "blocked", "done"))}
        if n % 5 == 0:
            row["tags"] = [mark(project)]
        if n % 11 == 0:
            row["sensitivity"] = "high"
        found.append(row)
    return found


@pytest.fixture
def three(own, tmp_path):
    """Three projects in one plane, recorded in turns; and what is for everywhere."""
    chance = random.Random(20)
    folders = [repository(tmp_path / f"{n}" / name, f"https://git.example/{n}/{name}")
               for n, name in enumerate(NAMES)]  # fmt: skip
    for turn in range(3):
        for project, folder in enumerate(folders):
            with own.at(folder) as plane:
                plane.record_many(rows(chance, project, 60, turn * 60))
    with own.at(folders[0]) as plane:
        plane.record("I write British English", ns=GLOBAL, kind="rule")
        plane.record("I like short answers", kind="preference")
    return own, folders


def asked(chance, project):
    """A random request, from a session of the project, a new one, or none."""
    request = {"budget": chance.choice((0.3, 0.6, 1, 2, 4, 8))}
    request["budget"] = int(request["budget"] * 1000)
    request["intent"] = chance.choice(("auto", "fast", "deep", "orient"))
    request["channel"] = chance.choice(("private", "agent"))
    session = chance.choice((None, "new", f"{mark(project)}-s{chance.randint(0, 4)}"))
    request |= {} if session is None else {"session": session}
    other = mark(chance.randrange(3))
    query = " ".join(chance.choices([*WORDS, other], k=chance.randint(0, 4)))
    return query, request


@pytest.mark.parametrize("packs", [25, pytest.param(334, marks=pytest.mark.long)])
def test_no_random_pack_of_a_project_holds_text_of_another(three, packs):
    own, folders = three
    chance, said = random.Random(4), 0
    for project, folder in enumerate(folders):
        others = [mark(one) for one in range(3) if one != project]
        with own.at(folder) as plane:
            for _ in range(packs):
                query, request = asked(chance, project)
                block = plane.pack(query, **request)
                text = block.text + "".join(
                    f"{one.source}{one.events}{one.parts}" for one in block.entries
                )
                assert not [one for one in others if one in text]
                said += mark(project) in block.text
    assert said > packs * len(folders) // 2


def test_what_the_user_said_for_everywhere_is_seen_in_every_project(three):
    own, folders = three
    for folder in folders:
        with own.at(folder) as plane:
            assert {e.text for e in plane.events(kind="rule", ns=GLOBAL)} == {
                "I write British English"
            }
            assert [e.text for e in plane.events(kind="preference")] == ["I like short answers"]


def test_searches_keys_tasks_and_single_events_are_of_one_project(three):
    own, folders = three
    with own.whole() as plane:
        foreign = [e for e in plane.events() if mark(1) in e.text]
    with own.at(folders[0]) as plane:
        for word in (mark(1), mark(2), *WORDS):
            assert not [h for h in plane.search(word, 50) if mark(0) not in h.text]
        keys = list(plane.keys())
        assert not [key for key in keys if mark(1) in key or mark(2) in key]
        assert {task.id.partition("-")[0] for task in plane.work.tasks.list()} == {mark(0)}
        sessions = {one.id.partition("-")[0] for one in plane.work.sessions.list()}
        assert sessions == {mark(0)}
        assert not [e for e in plane.events() if mark(1) in e.text or mark(2) in e.text]
        for event in foreign[:20]:
            with pytest.raises(NotFoundError):
                plane.event(event.seq)
            with pytest.raises(NotFoundError):
                plane.expand(f"event/{event.seq}")


def test_another_project_is_seen_where_it_is_named(three):
    own, folders = three
    with own.at(folders[1]) as plane:
        other = plane.context.home.project
    with own.at(folders[0]) as plane:
        assert plane.search(mark(1), ns=other)
        assert mark(1) in plane.pack(mark(1), ns=other, budget=2000).text
        assert plane.keys(ns=other)
    with own.whole(project=other) as plane:
        assert plane.search(mark(1))
        assert not plane.search(mark(0))
    with own.whole(project="web") as plane:
        assert plane.search(mark(2))
        assert not plane.search(mark(0))
    with own.whole(project="*") as plane:
        assert plane.search(mark(1))
        assert plane.search(mark(0))
    with pytest.raises(InputError, match="the name of 2 projects; expected one of app-"):
        own.whole(project="app")
    with pytest.raises(NotFoundError, match=r"known: app-.*, app-.*, web"):
        own.whole(project="nosuch")


def test_a_library_that_names_a_session_sees_its_project(three):
    own, _ = three
    with own.whole() as plane:
        block = plane.pack(WORDS[0], session=f"{mark(1)}-s0", budget=4000)
        assert mark(1) in block.text
        assert mark(0) not in block.text
        assert block.report["request"]["project"].startswith("/project/app-")


def test_a_block_is_made_again_as_who_asked_saw_it(three):
    own, folders = three
    with own.at(folders[0]) as plane:
        block = plane.pack(WORDS[0], budget=2000, intent="deep", save_report=True)
        request = {k: v for k, v in block.report["request"].items() if k != "query"}
    with own.whole() as plane:
        assert plane.pack(WORDS[0], **request).text == block.text


@pytest.mark.parametrize("intent", sampled(["deep", "fast", "orient"], 2))
def test_400_events_of_another_project_change_nothing_in_a_block(three, intent):
    own, folders = three
    chance = random.Random(9)
    requests = [
        (" ".join(chance.choices(WORDS, k=3)), {"budget": budget, "intent": intent, "now": NOW, **who})
        for budget in (600, 2000, 8000)
        for who in ({}, {"session": f"{mark(0)}-s4"}, {"session": "new"})
    ]  # fmt: skip

    def blocks():
        with own.at(folders[0]) as plane:
            return [plane.pack(query, **request).text for query, request in requests]

    before = blocks()
    with own.at(folders[1]) as plane:
        plane.record_many(rows(chance, 1, 400, 1000))
    assert blocks() == before


NOW = "2030-01-01T00:00:00Z"


def test_an_agent_writes_into_its_own_project_alone(three):
    from memplane.work.changes import forget_as, record_as

    own, folders = three
    who = {"channel": "agent", "agent": "bot"}
    with own.at(folders[1]) as plane:
        other = plane.context.home.project
        foreign = next(e for e in plane.events(kind="fact"))
    with own.at(folders[0]) as plane:
        context = plane.context
        receipt = record_as(context, {"text": "a fact", "kind": "fact", "key": "k"}, **who)
        assert receipt.event.ns == context.home.project
        with pytest.raises(ScopeError):
            record_as(context, {"text": "x", "kind": "fact", "ns": other}, **who)
        with pytest.raises(NotFoundError):
            forget_as(context, {"id": foreign.id}, GLOBAL, "", **who)
        forget_as(context, {"key": "k"}, GLOBAL, "", **who)
        assert plane.get("k") is None


def test_a_key_is_of_the_project_before_it_is_of_everywhere(own, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with own.at(tmp_path / "a") as plane:
        plane.record("everywhere", kind="fact", key="db", ns=GLOBAL)
        assert plane.get("db").text == "everywhere"
        plane.record("here", kind="fact", key="db")
        assert plane.get("db").text == "here"
        plane.record("mine", kind="fact", key="c")
        assert list(plane.keys()) == ["c", "db"]
        plane.forget("c")
    with own.at(tmp_path / "b") as plane:
        assert plane.get("db").text == "everywhere"
        assert list(plane.keys()) == ["db"]
        assert [event.text for event in plane.work.undo().events] == ["everywhere"]
        assert plane.get("db") is None
    with own.at(tmp_path / "a") as plane:
        assert plane.get("db").text == "here"


def test_a_projects_own_plane_is_one_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    with memplane.init(tmp_path / "w" / ".memplane") as plane:
        plane.record("in one", ns="/project/a-00000001")
        plane.record("in another", ns="/project/b-00000002")
        plane.record("nowhere said")
        assert plane.context.home.project is None
        assert len(list(plane.events(kind="message"))) == 3
        assert plane.event(4).ns == GLOBAL


def test_listed_files_say_of_which_project_they_are(three):
    own, folders = three
    with own.at(folders[2]) as plane:
        text = plane.pack("", intent="orient", budget=4000).text
        assert f"file of web: src/{mark(2)}" in text
        assert memplane.parse_block(text).sections
