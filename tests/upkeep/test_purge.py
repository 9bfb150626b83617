"""Purging: what is erased is in no file, in no answer, and stays away."""

import shutil

import pytest
from builders_purges import SECRET, WORD, check_gone, fill, holds, used
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.errors import HomeError, InputError, NotFoundError, PurgedError
from memplane.log import verify_log
from tests.examples import examples, sampled


@pytest.mark.parametrize(
    "kind", sampled(["message", "decision", "fact", "rule", "tool_result", "plan"], 2)
)
def test_an_erased_text_is_in_no_file_and_in_no_answer(plane, kind):
    fill(plane)
    role = "tool" if kind == "tool_result" else "user"
    key = "door" if kind == "fact" else None
    plane.record(SECRET, id="it", kind=kind, role=role, session="s1", key=key)
    fill(plane, 3)
    used(plane)
    assert len(holds(plane.home)) > 2
    report = plane.upkeep.purge("it", reason="asked to")
    assert report.events == ((42, "it"),)
    assert report.reports == 2
    check_gone(plane)
    with pytest.raises(NotFoundError, match="was purged by event 43"):
        plane.event("it")
    with pytest.raises(PurgedError):
        plane.record(SECRET, id="it", kind=kind, role=role, session="s1", key=key)


def test_a_long_text_and_a_file_go_with_their_copies_but_for_those_that_others_need(plane, file):
    plane.record(f"{SECRET}\n" * 30_000, id="long", session="s1")
    first = plane.work.artifacts.add(file("a.md", SECRET), session="s1").receipt
    plane.work.artifacts.approve(first.id)
    second = plane.work.artifacts.add(file("b/b.md", SECRET), name="other.md", session="s1").receipt
    used(plane)
    report = plane.upkeep.purge("long", first.id)
    assert report.bodies == 1  # the file is needed by the other one
    assert plane.work.artifacts.show(second.id)
    assert plane.upkeep.purge(second.id).bodies == 1
    for path in (plane.home.parent / "a.md", plane.home.parent / "b" / "b.md"):
        path.unlink(missing_ok=True)
    check_gone(plane)


def test_what_memplane_made_of_it_goes_with_it_if_asked_for_and_what_others_made_is_listed(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    plane.work.sessions.end("s1")
    plane.record(f"Noted: {SECRET}!", id="quote", session="s2")
    plane.record("Nobody goes there", kind="decision", refs=["it"], id="rests")
    (plane.home / "views").mkdir(exist_ok=True)
    (plane.home / "views" / "rules.doors.md").write_text(f"- {SECRET}\n")
    planned = plane.upkeep.purge("it", summaries=True, dry_run=True)
    assert {(one.name, one.how) for one in planned.quotes} == {
        ("quote", "text"), ("rests", "refs"), ("views/rules.doors.md", "text"),
    }  # fmt: skip
    assert planned.by == ()
    assert plane.event("it").text == SECRET
    done = plane.upkeep.purge("it", summaries=True)
    assert done.events == planned.events
    assert {one.name for one in done.quotes} == {"quote", "rests", "views/rules.doors.md"}
    assert holds(plane.home) == [
        "log/00000001.jsonl",
        "projections/hotset.json",
        "views/rules.doors.md",
    ]
    again = plane.upkeep.purge("quote", cascade=True)
    assert [id_ for _, id_ in again.events] == ["quote"]
    (plane.home / "views" / "rules.doors.md").unlink()
    check_gone(plane)


@pytest.mark.parametrize("named", [{"source": "notes"}, {"key": "door"}, {"ids": ["notes:it"]}])
def test_a_generated_summary_does_not_go_unasked_and_keeps_nothing_that_was_purged(plane, named):
    fill(plane)
    plane.record(SECRET, id="notes:it", session="s1", role="user", key="door", kind="decision")
    plane.work.sessions.end("s1")
    (summary,) = (event for event in plane.events() if event.kind == "summary")
    ids, given = named.get("ids", ()), {k: v for k, v in named.items() if k != "ids"}
    before = (plane.home / "log" / "00000001.jsonl").read_bytes()
    with pytest.raises(InputError, match=f"{summary.seq} {summary.id}; nothing was purged"):
        plane.upkeep.purge(*ids, **given)
    assert (plane.home / "log" / "00000001.jsonl").read_bytes() == before
    planned = plane.upkeep.purge(*ids, **given, dry_run=True)
    assert planned.summaries == ((summary.seq, summary.id),)
    assert planned.as_json()["summaries"] == [{"seq": summary.seq, "id": summary.id}]
    assert [id_ for _, id_ in planned.events] == ["notes:it"]
    done = plane.upkeep.purge(*ids, **given, summaries=True)
    assert [id_ for _, id_ in done.events] == ["notes:it", summary.id]
    assert (done.cascaded, done.summaries) == (1, ())
    check_gone(plane)


def test_a_summary_that_is_named_itself_or_purged_before_is_no_obstacle(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    plane.work.sessions.end("s1")
    (summary,) = (event for event in plane.events() if event.kind == "summary")
    assert plane.upkeep.purge("it", summary.seq).cascaded == 0
    check_gone(plane)


def test_a_purge_event_is_as_hidden_as_what_it_erased(plane):
    for level in ("low", "high", "secret"):
        plane.record(SECRET, id=f"it-{level}", sensitivity=level)
        (by,) = plane.upkeep.purge(f"it-{level}").by
        assert plane._log.line(by).event.sensitivity == level
        assert (by in {event.seq for event in plane.events()}) is (level != "secret")
        assert by not in {event.seq for event in plane.events(channel="agent")}
        check_gone(plane)


def test_a_cascade_takes_what_quotes_and_what_rests_on_it_and_so_on(plane):
    plane.record(SECRET, id="it")
    plane.record(f"Noted: {SECRET}!", id="quote")
    plane.record("Nobody goes there", kind="decision", refs=["it"], id="rests")
    plane.record("So the door is closed", kind="decision", refs=["rests"], id="further")
    plane.record("Herons", id="other")
    report = plane.upkeep.purge("it", cascade=True)
    assert [id_ for _, id_ in report.events] == ["it", "quote", "rests", "further"]
    assert (report.cascaded, report.quoted) == (3, 0)
    assert [e.id for e in plane.events() if e.kind not in ("segment", "purge")] == ["other"]


def test_a_session_a_key_a_source_and_what_is_archived_can_be_named(plane):
    fill(plane, 9)
    for value in ("PostgreSQL", "SQLite", "MySQL"):
        plane.record(f"We use {value}", kind="decision", key="db", id=f"db:{value}")
    plane.record("gone", id="gone")
    plane.forget(id="gone", reason="wrong")
    planned = plane.upkeep.purge(archived=("superseded",), dry_run=True)
    assert [id_ for _, id_ in planned.events] == ["db:PostgreSQL", "db:SQLite"]
    assert plane.upkeep.purge(archived=("superseded", "forgotten")).events == (
        *planned.events, (14, "gone"),
    )  # fmt: skip
    assert plane.get("db").text == "We use MySQL"
    assert [one.event.text for one in plane.history("db")] == ["We use MySQL"]
    assert len(plane.upkeep.purge(session="s1").events) == 3
    assert len(plane.upkeep.purge(key="db").events) == 1
    assert plane.keys() == []
    plane.record("x", id="src:1")
    assert [id_ for _, id_ in plane.upkeep.purge(source="src").events] == ["src:1"]
    assert plane.upkeep.differing() == []


def test_what_can_not_be_purged_is_refused_and_nothing_changes(plane):
    plane.record("herons", id="it")
    before = (plane.home / "log" / "00000001.jsonl").read_bytes()
    for named in ({}, {"key": "none"}, {"session": "none"}, {"source": "none"}):
        with pytest.raises((InputError, NotFoundError)):
            plane.upkeep.purge(**named)
    for one in (1, "none", 99, True, 2.5, ""):
        with pytest.raises((InputError, NotFoundError)):
            plane.upkeep.purge(one)
    with pytest.raises(InputError):
        plane.upkeep.purge("it", key="db")
    with pytest.raises(InputError):
        plane.upkeep.purge(archived=("old",))
    with memplane.open(plane.home, read_only=True) as reading, pytest.raises(HomeError):
        reading.upkeep.purge("it")
    with pytest.raises(HomeError):
        plane.at(2).upkeep.purge("it")
    assert (plane.home / "log" / "00000001.jsonl").read_bytes() == before


def test_ids_that_take_much_room_as_json_are_told_in_several_events(plane):
    ids = [f"{n:04d}" + '"\\' * 62 for n in range(300)]
    plane.record_many({"text": "herons", "session": "s", "id": id_} for id_ in ids)
    report = plane.upkeep.purge(session="s")
    assert len(report.events) == 300
    assert len(report.by) == 2
    assert plane.upkeep.differing() == []


def test_a_dry_run_of_a_torn_log_and_of_a_read_only_plane_writes_nothing(plane):
    plane.record(SECRET, id="it")
    plane.close()
    path = plane.home / "log" / "00000001.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":3,')
    before = sorted((p, p.stat().st_mtime_ns) for p in (plane.home / "log").rglob("*"))
    with memplane.open(plane.home, read_only=True) as reading:
        assert reading.upkeep.purge("it", dry_run=True).events == ((2, "it"),)
    assert sorted((p, p.stat().st_mtime_ns) for p in (plane.home / "log").rglob("*")) == before


def test_what_comes_back_into_force_is_said(plane):
    for value in ("PostgreSQL", "SQLite", "MySQL"):
        plane.record(f"We use {value}", kind="decision", key="db", id=value)
    plane.record("Herons", kind="fact", key="birds", id="birds")
    forget = plane.forget("birds").seq
    assert plane.upkeep.purge("SQLite", dry_run=True).revived == ()
    assert plane.upkeep.purge("MySQL", dry_run=True).revived == ((3, "SQLite"),)
    assert plane.upkeep.purge("MySQL", "SQLite", dry_run=True).revived == ((2, "PostgreSQL"),)
    assert plane.upkeep.purge(forget, dry_run=True).revived == ((5, "birds"),)
    assert plane.upkeep.purge("birds", forget, dry_run=True).revived == ()
    assert plane.upkeep.purge("MySQL", forget).revived == ((3, "SQLite"), (5, "birds"))
    assert plane.get("db").id == "SQLite"
    assert plane.get("birds").id == "birds"


def test_files_of_the_index_are_those_of_an_index_made_anew(plane):
    fill(plane, 700)
    for n in range(5):
        plane.record(f"{SECRET} {n}. " * 60, id=f"it{n}", session="s1", role="user")
        fill(plane, 9)
    used(plane)
    plane.upkeep.purge(*(f"it{n}" for n in range(4)))
    plane.upkeep.purge("it4", "h3")
    assert plane.upkeep.index()
    folder = plane.home / "index"
    kept = {
        path.name: path.read_bytes() for path in folder.glob("*.*") if path.name != "stamps.json"
    }
    shutil.rmtree(folder)
    plane.close()
    with memplane.open(plane.home) as other:
        other.upkeep.index()
        made = {
            path.name: path.read_bytes()
            for path in folder.glob("*.*")
            if path.name != "stamps.json"
        }
        assert made == kept
        check_gone(other)


KINDS = ("message", "decision", "preference", "tool_result")
rows = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(("a", "b", None)), st.sampled_from("xyz")),
    min_size=2, max_size=14,
)  # fmt: skip


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows, st.data())
def test_whatever_is_purged_when_the_projections_are_what_a_fold_of_the_rest_gives(
    tmp_path_factory, made, data
):
    home = tmp_path_factory.mktemp("purges") / "home"
    with memplane.init(home) as plane, memplane.open(home) as other:
        left = []
        for n, (kind, key, session) in enumerate(made):
            role = "tool" if kind == "tool_result" else "user"
            keyed = key if kind in ("decision", "preference") else None
            plane.record(f"{WORD} {kind} number {n}", kind=kind, role=role, key=keyed,
                         session=session, id=f"e{n}")  # fmt: skip
            left.append(f"e{n}")
            if data.draw(st.integers(0, 3)) == 0:
                taken = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
                which = data.draw(st.sampled_from((plane, other)))
                which.upkeep.purge(*taken)
                left = [id_ for id_ in left if id_ not in taken]
                if not left:
                    break
            if data.draw(st.booleans()):
                other.pack(WORD, session=session, intent="deep")
        for each in (plane, other):
            assert each.upkeep.differing() == []
            assert [e.id for e in each.events() if e.kind in KINDS] == left
        assert verify_log(home, plane.id).ok
