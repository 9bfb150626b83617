"""A shared folder that is a clone: three of them work offline and meet at a bare repository."""

import os
import subprocess

import pytest
from builders_folders import device_in, files_in, in_force, made, written

from memplane.shared import folder as clones
from memplane.shared.folder import Clone, CloneError

DEVICE = "0123456789abcdef"
SAFE = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip


def git(folder, *words):
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True,
        env={**os.environ, **SAFE},
    ).stdout  # fmt: skip


@pytest.fixture(autouse=True)
def _no_users_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def origin(tmp_path):
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "origin.git")
    return tmp_path / "origin.git"


def cloned(origin, to):
    git(origin.parent, "clone", "-q", str(origin), str(to))
    git(to, "symbolic-ref", "HEAD", "refs/heads/main")
    return to


@pytest.fixture
def three(tmp_path, origin):
    planes = {name: made(tmp_path / name) for name in ("ann", "bob", "carol")}
    folders = {name: cloned(origin, tmp_path / f"{name}-clone") for name in planes}
    for name, plane in planes.items():
        plane.upkeep.sync(folders[name], name=name, git=True)
    ids = {name: device_in(plane, folders[name]) for name, plane in planes.items()}
    for name in ("ann", "bob"):
        Clone(str(folders[name])).pull(None)
    for name, plane in planes.items():
        for other, device in ids.items():
            if other != name:
                plane.upkeep.sync(folders[name], accept=device, mine=True)
    yield planes, folders
    for plane in planes.values():
        plane.close()


@pytest.fixture
def one(tmp_path, origin):
    """A plane with a clone, as `three` has them, by the name ann."""
    with made(tmp_path / "ann") as plane:
        yield {"ann": plane}, {"ann": cloned(origin, tmp_path / "ann-clone")}


def test_three_clones_work_offline_and_meet(three):
    planes, folders = three
    for name, plane in planes.items():
        plane.record(f"the port of {name}", kind="fact", key="port")
        plane.record(f"only {name}", kind="fact", key=name)
        plane.upkeep.sync(folders[name])  # offline: no git
    planes["ann"].forget("ann")
    for _ in range(3):
        for name, plane in planes.items():
            plane.upkeep.sync(folders[name], git=True)
    found = [in_force(plane) for plane in planes.values()]
    assert found[0] == found[1] == found[2]
    assert found[0][("/global", "port")] == "the port of carol"
    assert ("/global", "ann") not in found[0]
    files = [files_in(folder) for folder in folders.values()]
    assert files[0] == files[1] == files[2]
    assert len(files[0]) == 3


def test_a_purge_travels_by_git(three):
    planes, folders = three
    planes["ann"].record("a heron", kind="fact", key="bird")
    for _ in range(2):
        for name, plane in planes.items():
            plane.upkeep.sync(folders[name], git=True)
    planes["carol"].upkeep.purge(key="bird")
    for _ in range(3):
        for name, plane in planes.items():
            assert plane.upkeep.sync(folders[name], git=True).refused == []
    for name, plane in planes.items():
        assert plane.get("bird") is None
        assert b"a heron" not in b"".join(files_in(folders[name]).values())


def test_a_sync_without_news_commits_nothing(three, origin):
    planes, folders = three
    for name, plane in planes.items():
        plane.upkeep.sync(folders[name], git=True)
    before = git(origin, "rev-parse", "main")
    for name, plane in planes.items():
        assert plane.upkeep.sync(folders[name], git=True).git == "nothing to push"
    assert git(origin, "rev-parse", "main") == before


def test_a_push_that_others_overtook_is_tried_again(three, monkeypatch):
    planes, folders = three
    planes["ann"].record("late", kind="fact", key="late")
    planes["bob"].record("early", kind="fact", key="early")
    whole = Clone.pull

    def overtaken(self, device):
        whole(self, device)
        if device is not None and self.folder == str(folders["ann"]):
            planes["bob"].upkeep.sync(folders["bob"], git=True)

    monkeypatch.setattr(Clone, "pull", overtaken)
    assert planes["ann"].upkeep.sync(folders["ann"], git=True).git == "pushed"
    monkeypatch.undo()
    planes["carol"].upkeep.sync(folders["carol"], git=True)
    planes["carol"].upkeep.sync(folders["carol"], git=True)
    assert planes["carol"].get("late") is not None
    assert planes["carol"].get("early") is not None


def test_an_interrupted_sync_is_committed_by_the_next(three, origin):
    planes, folders = three
    planes["ann"].record("written, not committed", kind="fact", key="a")
    planes["ann"].upkeep.sync(folders["ann"])
    planes["bob"].record("meanwhile", kind="fact", key="b")
    planes["bob"].upkeep.sync(folders["bob"], git=True)
    assert planes["ann"].upkeep.sync(folders["ann"], git=True).git == "pushed"
    assert planes["ann"].get("b").text == "meanwhile"


MARK = "hook-ran"


def test_no_hook_of_the_clone_is_run(three, tmp_path):
    planes, folders = three
    for hook in (
        "pre-commit", "commit-msg", "post-commit", "pre-push", "post-merge", "pre-rebase",
        "post-checkout", "post-rewrite", "reference-transaction", "prepare-commit-msg",
    ):  # fmt: skip
        path = folders["ann"] / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/{MARK}\n")
        path.chmod(0o755)
    planes["bob"].record("something", kind="fact", key="b")
    planes["bob"].upkeep.sync(folders["bob"], git=True)
    planes["ann"].record("something else", kind="fact", key="a")
    planes["ann"].upkeep.sync(folders["ann"], git=True)
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize(
    "setting",
    [
        ("core.sshCommand", "touch {mark}"), ("core.fsmonitor", "touch {mark}"),
        ("core.hooksPath", "{mark}"), ("core.editor", "touch {mark}"),
        ("filter.x.clean", "touch {mark}"), ("filter.x.process", "touch {mark}"),
        ("remote.origin.uploadpack", "touch {mark}"), ("remote.origin.receivepack", "touch {mark}"),
        ("remote.origin.vcs", "x"), ("credential.helper", "!touch {mark}"),
        ("gpg.program", "{mark}"), ("include.path", "{mark}"), ("url.ext::sh.insteadOf", "x"),
        ("merge.x.driver", "touch {mark}"), ("core.worktree", "/"), ("alias.fetch", "!touch {mark}"),
        ("extensions.worktreeConfig", "true"), ("core.attributesFile", "{mark}"),
        ("core.gitProxy", "touch {mark}"), ("diff.external", "touch {mark}"),
    ],
)  # fmt: skip
def test_a_clone_whose_configuration_names_programs_is_refused(one, tmp_path, setting):
    planes, folders = one
    key, value = setting
    mark = tmp_path / MARK
    git(folders["ann"], "config", key, value.format(mark=mark))
    (folders["ann"] / ".gitattributes").write_text("* filter=x merge=x\n")
    with pytest.raises(CloneError) as refused:
        planes["ann"].upkeep.sync(folders["ann"], git=True)
    assert key.lower().split(".")[0] in str(refused.value).lower()
    assert not mark.exists()


def test_a_remote_that_is_a_program_is_refused(one, tmp_path):
    planes, folders = one
    git(folders["ann"], "remote", "set-url", "origin", f"ext::sh -c touch% {tmp_path}/{MARK}")
    with pytest.raises(CloneError, match="ext"):
        planes["ann"].upkeep.sync(folders["ann"], git=True)
    assert not (tmp_path / MARK).exists()


def test_attributes_that_a_commit_brings_change_no_byte(three, origin, tmp_path):
    planes, folders = three
    other = cloned(origin, tmp_path / "fourth")
    (other / ".gitattributes").write_text("*.jsonl text eol=crlf ident\n")
    git(other, "add", ".gitattributes")
    git(other, "commit", "-qm", "line ends")
    git(other, "push", "-q", "origin", "HEAD:main")
    planes["ann"].record("a value", kind="fact", key="a")
    for _ in range(2):
        for name, plane in planes.items():
            assert plane.upkeep.sync(folders[name], git=True).refused == []
    assert planes["carol"].get("a").text == "a value"
    assert b"\r" not in b"".join(files_in(folders["carol"]).values())


def test_what_else_lies_in_the_clone_is_not_committed(three, origin):
    planes, folders = three
    (folders["ann"] / "private.txt").write_text("mine")
    planes["ann"].record("a value", kind="fact", key="a")
    planes["ann"].upkeep.sync(folders["ann"], git=True)
    assert "private.txt" not in git(origin, "ls-tree", "-r", "--name-only", "main")


def test_a_link_in_the_place_of_a_device_file_is_refused(three, tmp_path, origin):
    planes, folders = three
    other = cloned(origin, tmp_path / "fourth")
    (other / f"{DEVICE}.jsonl").symlink_to("/etc/passwd")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "a link")
    git(other, "push", "-q", "origin", "HEAD:main")
    report = planes["ann"].upkeep.sync(folders["ann"], git=True)
    assert [one.device for one in report.refused] == [DEVICE]


def test_a_folder_inside_a_repository_is_refused(tmp_path):
    git(tmp_path, "init", "-q", "repo")
    folder = tmp_path / "repo" / "memory"
    folder.mkdir()
    with made(tmp_path / "p") as plane:
        for place in (folder, tmp_path):
            with pytest.raises(CloneError, match="no git repository begins here"):
                plane.upkeep.sync(place, git=True)


def test_a_clone_without_a_remote_or_branch_says_so(tmp_path, origin):
    git(tmp_path, "init", "-q", "-b", "main", "alone")
    with made(tmp_path / "p") as plane:
        with pytest.raises(CloneError, match="has no remote"):
            plane.upkeep.sync(tmp_path / "alone", git=True)
        clone = cloned(origin, tmp_path / "clone")
        written(clone, DEVICE)
        git(clone, "add", "-A")
        git(clone, "commit", "-qm", "one")
        git(clone, "checkout", "-q", "--detach")
        with pytest.raises(CloneError, match="no branch is checked out"):
            plane.upkeep.sync(clone, git=True)


def test_an_unreachable_remote_is_said_in_gits_words(one):
    planes, folders = one
    git(folders["ann"], "remote", "set-url", "origin", "/nonexistent\x1b[31m/x.git")
    with pytest.raises(CloneError, match="git fetch") as refused:
        planes["ann"].upkeep.sync(folders["ann"], git=True)
    assert str(refused.value).isprintable()


def test_a_machine_without_git_says_so(one, monkeypatch):
    planes, folders = one
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CloneError, match="install git"):
        planes["ann"].upkeep.sync(folders["ann"], git=True)


def test_git_that_hangs_is_ended(one, tmp_path, monkeypatch):
    planes, folders = one
    programs = tmp_path / "programs"
    programs.mkdir()
    git = programs / "git"
    git.write_text("#!/bin/sh\nexec sleep 60\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(clones, "_SECONDS_MAX", 0.2)
    with pytest.raises(CloneError, match="took longer"):
        planes["ann"].upkeep.sync(folders["ann"], git=True)
