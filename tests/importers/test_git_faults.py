"""Repositories that are hostile, damaged, somebody else's or none, and a machine without git."""

import os
import shutil

import pytest
from builders_git import Made, commits, run

from memplane.context.context import PlaneContext
from memplane.errors import InputError
from memplane.home import open_home
from memplane.importers import git, import_paths
from memplane.plane import Plane
from memplane.wiring import make_counter

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def snapshot(folder):
    """Every file of a repository with its bytes: an import changes none of them."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_nothing_is_written_to_a_repository_and_nothing_of_it_is_run(plane, repository, tmp_path):
    touched = tmp_path / "touched"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {touched}\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "diff.external", "gpg.program", "core.sshCommand"):
        repository("config", name, str(program))
    for name, value in {
        "log.showSignature": "true", "color.ui": "always", "log.showRoot": "false",
        "diff.noprefix": "true", "log.follow": "true", "format.pretty": "oneline",
        "diff.renames": "false", "log.date": "relative", "log.mailmap": "true",
        "i18n.logOutputEncoding": "UTF-16", "core.quotePath": "true",
    }.items():  # fmt: skip
        repository("config", name, value)
    (repository.path / ".git" / "refs" / "stray").write_text("")
    before = snapshot(repository.path)
    assert run(plane, repository.path).events == 1
    assert commits(plane)[0].text == "Begin\n\nFiles: A a.py"
    assert snapshot(repository.path) == before
    assert not touched.exists()


def test_the_environment_leads_to_no_other_repository(plane, repository, tmp_path, monkeypatch):
    other = Made(tmp_path / "other")
    other.commit("Of the other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "log.showRoot")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "nonsense")
    run(plane, repository.path)
    assert [event.text.split("\n")[0] for event in commits(plane)] == ["Begin"]


def test_what_is_no_repository_is_refused_before_anything_is_recorded(plane, repository, tmp_path):
    (tmp_path / "plain").mkdir()
    seq = plane.head().seq
    for path, said in (
        ("none", "no such file or folder"),
        ("plain", "no git repository here or above"),
        ("work/a.py", "expected a folder with a git repository"),
    ):
        with pytest.raises(InputError, match=f"^paths: .*{path}: {said}"):
            run(plane, repository.path, tmp_path / path)
    assert plane.head().seq == seq


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_refused_with_what_would_open_it(plane, repository):
    for path in (repository.path, *repository.path.rglob("*")):
        os.chown(path, 65534, 65534)
    with pytest.raises(InputError, match=r"belongs to another user.*safe.directory"):
        run(plane, repository.path)


def test_a_mistake_that_is_none_of_the_repository_is_an_error_wherever_it_comes(
    plane, repository, clock
):
    for number in range(3):
        repository.commit(f"Number {number}")

    def makes(name, scale):
        if scale != 1_000_000:
            raise InputError(f"no scale of {scale}", where="scale")
        return make_counter(name, scale)

    plane.close()
    for progress in (None, lambda *_: None):
        budgets = plane.home / "policies" / "budgets.yaml"
        budgets.unlink(missing_ok=True)
        context = PlaneContext(open_home(plane.home), clock=clock, make_counter=makes)
        with Plane(context) as opened:
            budgets.write_text("version: 1\nscale: 2\n")
            with pytest.raises(InputError, match=r"^scale: no scale of 2000000"):
                import_paths(opened, "git", [repository.path], progress=progress)


def test_without_the_program_an_import_says_so(plane, repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="source: git: the program cannot be run"):
        run(plane, repository.path)
    assert git.git_version() is None


def test_history_that_cannot_be_read_to_its_end_is_said_and_read_again(plane, repository):
    repository.commit("Two")
    lost = repository.commit("Three", {"b.py": "b"})
    repository.commit("Four", {"c.py": "c"})
    tree = repository("rev-parse", f"{lost}^{{tree}}")
    file = repository.path / ".git" / "objects" / tree[:2] / tree[2:]
    kept = file.read_bytes()
    file.unlink()
    report = run(plane, repository.path)
    (reason,) = report.skipped
    assert "git cannot read it" in reason
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(kept)
    report = run(plane, repository.path)
    assert (report.events + report.repeated, report.skipped) == (4, {})
    assert len(commits(plane)) == 4
