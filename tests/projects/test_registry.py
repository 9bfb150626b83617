"""What the log says of projects, found by its bytes, and where older events belong."""

import json
from functools import partial

from memplane.event import GLOBAL
from memplane.projects import UNKNOWN, KnownProjects, Registry, digest, joined, root_row

A, B = "/project/alpha-aaaaaaaa", "/project/beta-bbbbbbbb"


def opened(own, **more):
    home = json.loads((own.home / "plane.json").read_text())["plane"]
    return Registry(str(own.home), home, keeps=True, **more)


def root(ns, path, **more):
    return {"ts": "", **root_row(KnownProjects(), ns, path, key=digest(f"path {path}"), **more)}


def started(session, folder, ns=GLOBAL):
    said = {"status": "start", "folder": folder}
    row = {"kind": "session", "session": session, "ns": ns, "ts": "2026-01-01T00:00:00Z"}
    return {**row, "id": f"claude-code:{session}:start", "tags": ["hook"], "data": said}


def turn(session, **more):
    return {"kind": "message", "session": session, "id": "x", "tags": ["hook"], **more}


def told(*rows):
    known = KnownProjects()
    for row in rows:
        known.apply(row)
    return known


def test_sessions_of_before_are_of_the_project_of_their_folder_and_the_clients():
    known = told(
        started("s1", "alpha"), started("s2", "beta"), started("s3", "other"),
        root(A, "/w/alpha", sessions=("s3",)), root(B, "/w/beta", sessions=("s2", "s3")),
    )  # fmt: skip
    assert known.place(turn("s1")) == A  # by the folder's name
    assert known.place(turn("s2")) == B  # and as its client keeps it
    assert known.place(turn("s3")) == UNKNOWN  # its folder's name fits no root
    assert known.place(turn("never-begun")) == UNKNOWN


def test_what_is_no_clients_and_what_is_preferred_stays_everywhere():
    known = told(started("s1", "alpha"), root(A, "/w/alpha"))
    assert known.place({"kind": "fact", "session": "s1", "id": "mine"}) == GLOBAL
    assert known.place(turn("s1", kind="preference")) == GLOBAL
    assert known.place({"kind": "message", "id": "claude-code:u:0", "session": "s1"}) == A
    summary = {"kind": "summary", "id": "y", "session": "s1", "key": "session/s1/summary"}
    assert known.place(summary) == A
    assert known.place(turn("s1", ns="/task/t")) == "/task/t"


def test_the_second_root_of_a_name_takes_nothing_and_a_claim_has_no_name():
    known = told(started("s1", "app"), root(A, "/w/app"), root(B, "/x/app"))
    assert known.place(turn("s1")) == A
    claim = told(started("s1", "app"), root(B, "/x/app", claims=A))
    assert claim.place(turn("s1")) == UNKNOWN


def test_the_user_gives_sessions_and_folders_and_the_last_word_holds():
    given = {"kind": "project", "data": {"assign": {"project": B, "sessions": ["s1"]}}}
    folder = {"kind": "project", "data": {"assign": {"project": A, "sessions": [], "folder": "x"}}}
    known = told(started("s1", "alpha"), started("s2", "x"), root(A, "/w/alpha"), given, folder)
    assert known.place(turn("s1")) == B
    assert known.place(turn("s2")) == A
    assert known.place(turn("s1", ns=A)) == B


def test_a_root_that_is_joined_brings_what_was_recorded_there():
    known = told(root(A, "/w/alpha"), root(B, "/w/copy", claims=A))
    known.apply(joined(known, A, "/w/copy"))
    assert known.place(turn("s9", ns=B)) == A
    assert known.namespaces() == [A]
    assert known.roots_of(A) == ["/w/alpha", "/w/copy"]


def test_a_path_is_below_its_deepest_root_but_not_below_the_users_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/h/u")
    known = told(root(A, "/h/u"), root(B, "/h/u/beta"))
    assert known.above("/h/u/beta/src") == ("/h/u/beta", B)
    assert known.above("/h/u/other") is None
    assert known.above("/h/u/betas") is None


def test_the_registry_follows_the_log_and_its_cache_says_the_same(own, tmp_path):
    for name in ("alpha", "beta"):
        (tmp_path / name).mkdir()
        with own.at(tmp_path / name) as plane:
            plane.work.sessions.start(f"of-{name}")
            plane.record(f"said in {name}", session=f"of-{name}")
    first = opened(own)
    before = json.dumps(first.follow().fields())
    first.save()
    (tmp_path / "gamma").mkdir()
    with own.at(tmp_path / "gamma") as plane:
        plane.record("said in gamma")
    kept, fresh = opened(own), opened(own)
    (own.home / "projections" / "projects.json").unlink()
    fresh = opened(own)
    assert kept.follow().fields() == fresh.follow().fields() == first.follow().fields()
    assert json.dumps(first.known.fields()) != before
    assert len(fresh.known.roots) == 3


def test_a_purge_takes_what_the_cache_had_of_a_session(own, tmp_path):
    with own.at(tmp_path) as plane:
        plane.work.sessions.start("secret-name", cwd="x")
        registry = opened(own)
        assert "secret-name" in registry.follow().sessions
        registry.save()
        plane.upkeep.purge(session="secret-name", cascade=True)
        assert "secret-name" not in registry.follow().sessions
    assert "secret-name" not in opened(own).follow().sessions


def test_lines_are_placed_as_they_are_parsed_and_their_bytes_stay(own, tmp_path):
    with own.whole() as plane:
        plane.record_many([started("s1", "alpha") | {"ts": "2026-01-01T00:00:00Z"},
                           turn("s1", text="the ledger", id="claude-code:u1:0")])  # fmt: skip
    with own.whole() as plane:
        assert plane.event("claude-code:u1:0").ns == UNKNOWN
        assert b'"ns"' not in next(own.home.glob("log/*.jsonl")).read_bytes()
    (tmp_path / "alpha").mkdir()
    with own.at(tmp_path / "alpha") as plane:
        assert not plane.search("ledger")
        plane.record("a first word")
        assert [hit.event.id for hit in plane.search("ledger")] == ["claude-code:u1:0"]
        assert plane.upkeep.verify(deep=True).ok
    with own.at(tmp_path) as plane:
        assert not plane.search("ledger")


def test_a_forget_of_a_summary_of_before_goes_with_its_session(own, tmp_path):
    (tmp_path / "alpha").mkdir()
    with own.whole() as plane:
        plane.record_many([started("s1", "alpha"), turn("s1", text="hello there", id="m1")])
        plane.record("short", kind="summary", session="s1", key="session/s1/summary")
        named = {"key": "session/s1/summary", "ns": GLOBAL}  # as it was written before
        plane.record("", kind="forget", data={"forget": named})
    with own.at(tmp_path / "alpha") as plane:
        plane.record("a first word")
        assert plane.get("session/s1/summary") is None
        history = partial(plane.history, "session/s1/summary")
        assert [one.reason for one in history()] == ["forgotten"]
