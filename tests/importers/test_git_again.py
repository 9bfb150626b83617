"""What a later import of a repository reads, whatever became of its history meanwhile."""

import shutil

import pytest
from builders_git import Made, commits, run

from memplane.errors import InputError
from memplane.importers import git, import_paths

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_a_second_import_records_nothing_and_asks_git_for_no_commit(plane, repository, monkeypatch):
    repository.commit("Two")
    assert run(plane, repository.path).events == 2
    seq = plane.head().seq
    monkeypatch.setattr(git.GitRepository, "commits", None)  # reading would be an error
    again = run(plane, repository.path)
    assert (again.events, again.repeated, again.unchanged, again.lines) == (0, 0, 1, 0)
    assert plane.head().seq == seq


def test_only_the_commits_since_are_read(plane, repository):
    run(plane, repository.path)
    repository.commit("Two")
    repository.commit("Three")
    report = run(plane, repository.path)
    assert (report.lines, report.events, report.repeated) == (2, 2, 0)
    assert [event.text.split("\n")[0] for event in commits(plane)] == ["Begin", "Two", "Three"]
    assert run(plane, repository.path, full=True).repeated == 3


def test_without_its_cache_an_import_reads_all_and_records_nothing_twice(plane, repository):
    run(plane, repository.path)
    for junk in (b"junk", b'{"format":1}'):
        (plane.home / "projections" / "imports.json").write_bytes(junk)
        report = run(plane, repository.path)
        assert (report.events, report.repeated) == (0, 1)


def test_an_import_of_files_keeps_what_is_known_of_repositories(plane, repository, tmp_path):
    run(plane, repository.path)
    (tmp_path / "a.jsonl").write_text('{"kind": "fact", "text": "x"}\n')
    import_paths(plane, "jsonl", [tmp_path / "a.jsonl"], full=True)
    assert run(plane, repository.path).unchanged == 1
    assert import_paths(plane, "jsonl", [tmp_path / "a.jsonl"]).unchanged == 1


def test_rewritten_history_adds_what_is_new_and_repeats_nothing(plane, repository):
    repository.commit("Two")
    run(plane, repository.path)
    repository("commit", "-q", "--amend", "--allow-empty", "-m", "Two, said better")
    report = run(plane, repository.path)
    assert (report.lines, report.events) == (1, 1)
    # The old head is cleaned away: git no longer knows what was read.
    repository("commit", "-q", "--amend", "--allow-empty", "-m", "Two, said best")
    repository("reflog", "expire", "--expire=now", "--all")
    repository("gc", "-q", "--prune=now")
    report = run(plane, repository.path)
    assert (report.events, report.repeated) == (1, 1)


def test_a_branch_that_is_checked_out_brings_its_own_commits(plane, repository):
    run(plane, repository.path)
    repository("checkout", "-q", "-b", "feature")
    repository.commit("On the branch")
    assert run(plane, repository.path).events == 1
    assert commits(plane)[-1].data["branch"] == "feature"
    repository("checkout", "-q", "main")
    assert run(plane, repository.path).unchanged == 1


def test_a_bare_one_a_work_tree_and_a_folder_below_are_the_same_repository(
    plane, repository, tmp_path
):
    (repository.path / "below").mkdir()
    assert run(plane, repository.path / "below").events == 1
    repository("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert run(plane, tmp_path / "tree").unchanged == 1
    repository("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    assert run(plane, tmp_path / "bare.git").repeated == 1


def test_a_submodule_is_one_path_of_its_parent_and_a_repository_of_its_own(
    plane, repository, tmp_path
):
    part = Made(tmp_path / "part")
    part.commit("Of the part", {"p.py": "p"})
    repository("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part.path), "sub")
    repository.commit("Take the part in")
    run(plane, repository.path)
    assert commits(plane)[-1].data["paths"] == [".gitmodules", "sub"]
    assert run(plane, repository.path / "sub").events == 1
    assert commits(plane)[-1].text.startswith("Of the part")


def test_a_shallow_clone_does_not_pass_its_whole_tree_off_as_one_commit(
    plane, repository, tmp_path
):
    repository.commit("Two", {"b.py": "b"})
    repository.commit("Three", {"c.py": "c"})
    shallow = Made(tmp_path / "shallow")
    shallow("remote", "add", "origin", f"file://{repository.path}")
    shallow("fetch", "-q", "--depth=2", "origin", "main")
    shallow("reset", "-q", "--hard", "FETCH_HEAD")
    assert run(plane, shallow.path).events == 2
    assert [event.text for event in commits(plane)] == ["Two", "Three\n\nFiles: A c.py"]
    assert run(plane, shallow.path).unchanged == 1
    # Deepened, the older ones come; what was there is known by its hash though it now reads longer.
    shallow("fetch", "-q", "--unshallow", "origin", "main")
    report = run(plane, shallow.path)
    assert (report.events, report.repeated, report.refusals) == (1, 2, 0)


def test_max_count_takes_the_newest_and_a_later_import_the_rest(plane, repository):
    for number in range(5):
        repository.commit(f"Number {number}")
    run(plane, repository.path, max_count=2)
    assert [event.text for event in commits(plane)] == ["Number 3", "Number 4"]
    report = run(plane, repository.path)
    assert (report.events, report.repeated) == (4, 2)
    with pytest.raises(InputError, match="max_count: expected 1 or more, found 0"):
        run(plane, repository.path, max_count=0)


def test_progress_is_told_commits_done_and_commits_in_all(plane, repository):
    repository.commit("Two")
    told = []
    run(plane, repository.path, progress=lambda *said: told.append(said))
    assert [said[:2] for said in told] == [(1, 2), (2, 2)]
