"""Which root is of which project: nobody joins another one's memory by what a `.git` says."""

from folders import repository, work_tree

from memplane import projects
from memplane.projects import (
    KnownProjects,
    digest,
    enter_folder,
    joined,
    path_place,
    root_row,
    sessions_in,
    shown_names,
)

ORIGIN = "https://git.example/team/app.git"


def entered(known, folder, **more):
    """Enter a folder as who records there: what is new is known from then on."""
    found = enter_folder(known, str(folder), **more)
    for row in found.rows:
        known.apply({"ts": "", **row})
    return found


def test_a_namespace_is_made_of_the_origin_else_of_the_path(tmp_path):
    known = KnownProjects()
    place = entered(known, repository(tmp_path / "a", ORIGIN)).place
    assert place.ns == f"/project/app-{digest('git.example/team/app')[:8]}"
    plain = tmp_path / "notes"
    plain.mkdir()
    assert entered(known, plain).place.ns == f"/project/notes-{digest(str(plain))[:8]}"


def test_a_root_that_was_met_stays_where_it_is(tmp_path):
    known, root = KnownProjects(), tmp_path / "app"
    root.mkdir()
    first = entered(known, root).place.ns
    repository(root, ORIGIN)
    again = entered(known, root)
    assert (again.place.ns, again.rows) == (first, ())


def test_who_claims_a_known_origin_is_a_project_of_its_own_until_the_user_joins_it(tmp_path):
    known = KnownProjects()
    ours = entered(known, repository(tmp_path / "ours" / "app", ORIGIN)).place
    copy = repository(tmp_path / "copy" / "app", ORIGIN)
    theirs = entered(known, copy).place
    assert theirs.ns == f"/project/app-{digest(str(copy))[:8]}" != ours.ns
    assert theirs.claims == ours.ns
    assert entered(known, copy).place.claims == ours.ns
    known.apply(joined(known, ours.ns, str(copy)))
    assert entered(known, copy).place[0] == ours.ns
    assert known.now(theirs.ns) == ours.ns
    assert entered(known, copy).place.claims == ""


def test_a_work_tree_joins_where_its_root_lists_it(tmp_path):
    known = KnownProjects()
    main = repository(tmp_path / "app", ORIGIN)
    tree = work_tree(main, tmp_path / "fix")
    first = entered(known, tree).place  # before its root was met
    assert first.ns == entered(known, main).place.ns
    later = work_tree(main, tmp_path / "later")
    place = entered(known, later).place
    assert place.ns == first.ns
    assert place.root == str(later)
    assert set(place.folders) == {str(main), str(tree), str(later)}
    evil = work_tree(main, tmp_path / "evil", listed=tmp_path / "nowhere")
    assert entered(known, evil).place.ns != first.ns


def test_of_two_that_claim_an_origin_at_once_the_second_is_by_its_path(tmp_path):
    known = KnownProjects()
    roots = [repository(tmp_path / name / "app", ORIGIN) for name in "ab"]
    found = [enter_folder(known, str(root)) for root in roots]  # neither has seen the other
    for one in found:
        known.apply({"ts": "", **one.rows[0]})
    spaces = [known.of_root(str(root)) for root in roots]
    assert spaces[0] == found[0].place.ns != spaces[1]


def test_eight_digits_that_were_met_on_purpose_open_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("memplane.projects._DIGITS", 0)
    known = KnownProjects()
    ours = entered(known, repository(tmp_path / "a", "https://one.example/app")).place.ns
    theirs = entered(known, repository(tmp_path / "b", "https://two.example/app")).place.ns
    assert ours != theirs
    monkeypatch.setattr(projects, "_HEX", 1)  # of 16 spaces 9 are taken: some were met twice
    paths = [f"/w/{name}/app" for name in "cdefghijk"]
    for path in paths:
        known.apply({"ts": "", **root_row(known, *_placed(known, path))})
    assert len({known.of_root(path) for path in paths}) == 9


def _placed(known, path):
    return path_place(known, path)[0], path


def test_names_are_short_where_they_are_the_only_ones():
    spaces = ["/project/app-00000001", "/project/app-00000002", "/project/web-00000003"]
    shown = shown_names(spaces)
    assert list(shown.values()) == ["app-00000001", "app-00000002", "web"]
    assert shown_names(["/project/unknown"]) == {"/project/unknown": "unknown"}


def test_the_sessions_of_a_clients_folder_are_the_names_of_its_transcripts(tmp_path):
    for name in ("s1.jsonl", "s2.jsonl", "notes.md", ".jsonl"):
        (tmp_path / name).touch()
    assert sessions_in(str(tmp_path)) == ["s1", "s2"]
    assert sessions_in("") == []
