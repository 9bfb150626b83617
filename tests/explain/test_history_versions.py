"""Files at a revision, in the working tree and in a folder; what is said where there are none."""

import os
import stat

import pytest
from builders_committed import Committed, swap

import memplane
from memplane.errors import InputError, NotFoundError
from memplane.explain import history
from memplane.explain.history import HEAD, NOW, PolicyRepository, in_home, policy_version


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "plane"
    memplane.init(home).close()
    return home


def test_a_revision_gives_the_bytes_that_were_committed_and_only_what_memplane_reads(home):
    committed = Committed(home)
    views = home / "views"
    (views / "deep" / "er").mkdir(parents=True)
    odd = "views/deep/er/naïve name.md"
    (home / odd).write_bytes(b"\xff\r\nno UTF-8, no end")
    (views / "empty.md").write_bytes(b"")
    (views / "notes.txt").write_text("no view")
    (home / "policies" / "other.yaml").write_text("none of ours")
    committed.commit("All")
    then = policy_version(home, HEAD)
    assert then.name.startswith("HEAD (")
    assert then.files == in_home(home).files
    assert set(then.files) == {
        *(f"policies/{name}.yaml" for name in ("budgets", "privacy", "channels", "scoring", "plane")),
        "views/empty.md", odd,
    }  # fmt: skip
    assert then.files[odd] == b"\xff\r\nno UTF-8, no end"


def test_a_file_that_is_longer_than_memplane_reads_is_cut_where_it_would_be(home):
    (home / "views" / "long.md").write_bytes(b"a" * (1024 * 1024 + 5))
    (home / "views" / "next.md").write_bytes(b"behind it")
    Committed(home).commit("Long")
    then = policy_version(home, HEAD)
    assert then.files == in_home(home).files
    assert len(then.files["views/long.md"]) == 1024 * 1024


def test_no_link_is_followed_now_or_in_a_commit(home):
    (home / "views" / "a.md").write_text("Said once.\n")
    (home / "views" / "b.md").symlink_to("a.md")
    (home / "views" / "c.md").symlink_to("/etc/hostname")
    (home / "views" / "round.md").symlink_to("round.md")
    Committed(home).commit("Links")
    then, now = policy_version(home, HEAD), in_home(home)
    links = ("views/b.md", "views/c.md", "views/round.md")
    for found in (then, now):
        assert found.files["views/a.md"] == b"Said once.\n"
        assert {*links[:2]} <= {*found.lost} <= {*links}
        assert not {*links} & {*found.files}


def test_a_folder_stands_before_the_home_with_what_it_has(home, tmp_path):
    (home / "views" / "identity.md").write_text("You are the build agent.\n")
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "plane.yaml").write_text("version: 1\nreports: {keep: 3}\n")
    whole = tmp_path / "whole"
    (whole / "policies").mkdir(parents=True)
    (whole / "views").mkdir()
    (whole / "policies" / "plane.yaml").write_text("version: 1\n")
    (whole / "views" / "identity.md").write_text("You are another.\n")
    now = in_home(home).files
    assert policy_version(home, str(bare)).files == {
        **now, "policies/plane.yaml": b"version: 1\nreports: {keep: 3}\n",
    }  # fmt: skip
    assert policy_version(home, str(whole)).files == {
        **now, "policies/plane.yaml": b"version: 1\n", "views/identity.md": b"You are another.\n",
    }  # fmt: skip
    with pytest.raises(InputError, match=r"expected policies \(budgets.yaml, .* found none"):
        policy_version(home, str(tmp_path))


def test_a_revision_stands_before_a_folder_of_its_name_unless_that_is_spelled_as_one(
    home, tmp_path, monkeypatch
):
    Committed(home).commit("Begin")
    folder = tmp_path / "main"
    folder.mkdir()
    (folder / "plane.yaml").write_text("version: 1\n")
    monkeypatch.chdir(tmp_path)
    assert policy_version(home, "main").name.startswith("main (")
    assert policy_version(home, "./main").name == "main"
    assert policy_version(home, NOW).name == "the working tree"


@pytest.mark.parametrize(
    "given", ["nothing-here", "HEAD~7", "deadbeef", "-v", "--all", "a\0b", ":/x"]
)
def test_a_revision_that_does_not_exist_is_named_with_what_was_expected(home, given):
    Committed(home).commit("Begin")
    with pytest.raises(NotFoundError) as caught:
        policy_version(home, given)
    assert "expected a commit, branch or tag of the repository" in str(caught.value)


def test_what_is_no_commit_is_no_revision(home):
    committed = Committed(home)
    committed.commit("Begin")
    blob = committed.git("rev-parse", "HEAD:policies/plane.yaml")
    with pytest.raises(NotFoundError, match="expected a commit, branch or tag"):
        policy_version(home, blob)
    with pytest.raises(InputError, match="found nothing"):
        policy_version(home, "")


def test_outside_of_a_repository_one_sentence_says_so_and_what_to_do(home):
    with pytest.raises(NotFoundError) as caught:
        PolicyRepository(home)
    assert str(caught.value) == (
        f"{home}: no git repository here or above, so policies have no history; `git init` and "
        "commit policies/ and views/"
    )
    assert policy_version(home, NOW).files == in_home(home).files


def test_a_repository_without_a_commit_says_so(home):
    Committed(home)
    with pytest.raises(NotFoundError, match="its repository has no commit yet"):
        policy_version(home, HEAD)


def test_without_git_it_is_said_that_it_is_missing(home, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFoundError, match=r"git: the program cannot be run .*; install git"):
        PolicyRepository(home)


def test_policies_that_git_passes_over_are_known_to_be_ignored(tmp_path):
    project = tmp_path / "project"
    home = project / ".memplane"
    memplane.init(home).close()
    (project / ".gitignore").write_text(".memplane/\n")
    Committed(project).commit("Begin")
    repository = PolicyRepository(home)
    assert (list(repository.log(5)), repository.ignored()) == ([], True)
    assert policy_version(home, HEAD).files == {}


def test_no_hook_alias_or_pager_of_a_repository_is_run(home, tmp_path, monkeypatch):
    committed = Committed(home)
    committed.commit("Begin")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    for name in ("core.pager", "core.fsmonitor", "alias.log", "diff.external", "core.editor"):
        committed.git("config", name, str(trap))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap))
    swap(home / "policies" / "plane.yaml", "keep: 500", "keep: 9")
    repository = PolicyRepository(home)
    assert [commit.subject for commit in repository.log(5)] == ["Begin"]
    assert policy_version(home, HEAD).files != in_home(home).files
    assert not (tmp_path / "sprung").exists()


def test_git_that_takes_too_long_or_says_too_much_is_stopped(home, tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(history, "SECONDS_MAX", 0.2)
    with pytest.raises(NotFoundError, match=r"git rev-parse took longer than 0\.2 seconds"):
        PolicyRepository(home)
    slow.write_text("#!/bin/sh\nexec yes\n")
    monkeypatch.setattr(history, "SECONDS_MAX", 60.0)
    with pytest.raises(NotFoundError, match="git rev-parse has more to say than 512 bytes"):
        PolicyRepository(home)
