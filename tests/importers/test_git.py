"""Commits of real repositories, made here, into a real plane."""

import json
import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memplane
from memplane.errors import InputError
from memplane.home import open_home
from memplane.importers import detect, git, import_paths, sources_of
from memplane.plane import Plane
from memplane.wiring import make_counter

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Ada Lovelace",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Bot",
    "GIT_COMMITTER_EMAIL": "bot@example.org",
}


class Made:
    """A repository that a test writes."""

    def __init__(self, path, *options):
        self.path, self.tick = path, 1_770_000_000
        path.mkdir(parents=True, exist_ok=True)
        self("init", "-q", "-b", "main", *options)

    def __call__(self, *argv, stdin=b"", **environment):
        done = subprocess.run(
            ["git", "-C", str(self.path), *argv], input=stdin, capture_output=True, check=False,
            env={**ENVIRONMENT, "GIT_AUTHOR_DATE": f"{self.tick} +0200",
                 "GIT_COMMITTER_DATE": f"{self.tick + 5} +0000", **environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, message, files=None, *options, **environment):
        self.tick += 60
        for name, text in (files or {}).items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self("add", "-A")
        given = message if isinstance(message, bytes) else message.encode()
        self(
            "commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-F",
            "-", *options, stdin=given, **environment,
        )  # fmt: skip
        return self("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    made = Made(tmp_path / "work")
    made.commit("Begin", {"a.py": "1\n2\n3\n4\n5\n6\n"})
    return made


def run(plane, *paths, **options):
    report = import_paths(plane, "git", paths, **options)
    assert report.items == (
        report.events + report.repeated + report.refusals + sum(report.skipped.values())
    )
    json.dumps(report.as_json())
    return report


def commits(plane):
    return list(plane.events(kind="observation"))


def snapshot(folder):
    """Every file of a repository with its bytes: an import changes none of them."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_commit_is_an_observation_that_says_who_when_why_and_which_files(plane, repository):
    body = "Why: the old one lost lines.\n\nReviewed-by: Grace Hopper <grace@example.org>\n"
    repository.commit("Replace the parser\n\n" + body, {"src/b.py": "x", "a.py": "other\n"})
    run(plane, repository.path)
    event = commits(plane)[-1]
    head = repository("rev-parse", "HEAD")
    assert event.id == f"git:{head}:0"
    assert (event.kind, event.role, event.actor, event.tags) == (
        "observation", None, "Ada Lovelace", ("git",),
    )  # fmt: skip
    assert event.ts == "2026-02-02T02:42:00.000000Z"
    assert event.text == (
        "Replace the parser\n\nWhy: the old one lost lines.\n\nReviewed-by: Grace Hopper\n\n"
        "Files: M a.py, A src/b.py"
    )
    assert event.data == {
        "tool": "git", "commit": head, "branch": "main", "paths": ["a.py", "src/b.py"], "files": 2,
    }  # fmt: skip


def test_no_address_of_anybody_is_kept(plane, repository):
    repository.commit("x\n\nSigned-off-by: A <a@b.c>\nCo-authored-by: B C <b-c@d.e>\n")
    run(plane, repository.path)
    stored = b"".join(file.read_bytes() for file in (plane.home / "log").glob("*.jsonl"))
    assert b"@" not in stored


def test_a_second_import_records_nothing_and_asks_git_for_no_commit(plane, repository, monkeypatch):
    repository.commit("Two")
    assert run(plane, repository.path).events == 2
    seq = plane.head().seq
    monkeypatch.setattr(git.Repository, "commits", None)  # reading would be an error
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


def test_a_merge_is_taken_without_files_and_parents_come_before_children(plane, repository):
    repository("checkout", "-q", "-b", "side")
    side = repository.commit("Side", {"s.py": "s"})
    repository("checkout", "-q", "main")
    main = repository.commit("Main", {"m.py": "m"})
    repository("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    run(plane, repository.path)
    events = commits(plane)
    assert (events[-1].text, events[-1].data["merge"]) == ("Merge side", True)
    assert "paths" not in events[-1].data
    assert {event.data["commit"] for event in events[1:3]} == {side, main}


def test_renames_are_told_and_deletions_too(plane, repository):
    repository.commit("More", {"gone.py": "unlike anything"})
    (repository.path / "a.py").rename(repository.path / "b.py")
    (repository.path / "gone.py").unlink()
    repository.commit("Tidy up")
    run(plane, repository.path)
    event = commits(plane)[-1]
    assert event.text.endswith("Files: R a.py -> b.py, D gone.py")
    assert event.data["paths"] == ["b.py", "gone.py"]


def test_of_many_files_the_first_twenty_are_named_and_the_others_counted(plane, repository):
    repository.commit("Many", {f"f{number:03}.txt": str(number) for number in range(50)})
    run(plane, repository.path)
    event = commits(plane)[-1]
    assert event.text.endswith("A f019.txt, and 30 others")
    assert (len(event.data["paths"]), event.data["files"]) == (20, 50)


def test_strange_names_messages_and_encodings_stay_on_their_line(plane, repository):
    forged = "0" * 40
    repository("config", "i18n.commitEncoding", "ISO-8859-1")
    repository.commit("Grüße\n".encode("latin-1"), {"new\nline.py": "1", 'quo"te\t.py': "2"})
    repository("config", "i18n.commitEncoding", "UTF-8")
    repository.commit(b"\xff\xfe not text\n")
    repository.commit(f"{forged}\n\n{forged}", {forged: "a file named like a commit"})
    report = run(plane, repository.path)
    assert (report.events, report.refusals) == (4, 0)
    first, second, third = commits(plane)[1:]
    assert first.text == 'Grüße\n\nFiles: A new�line.py, A quo"te�.py'
    assert second.text == "ÿþ not text"  # git itself takes what is not UTF-8 for Latin-1
    assert third.text == f"{forged}\n\n{forged}\n\nFiles: A {forged}"


def test_nul_bytes_in_a_commit_change_nothing_behind_it(plane, repository):
    tree, parent = repository("rev-parse", "HEAD^{tree}"), repository("rev-parse", "HEAD")
    raw = (
        f"tree {tree}\nparent {parent}\nauthor N <n@n> 1770000000 +0000\n"
        "committer N <n@n> 1770000000 +0000\n\nbefore\0after\n"
    )
    made = repository(
        "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw.encode()
    )
    repository("reset", "-q", "--hard", made)
    repository.commit("Next")
    assert run(plane, repository.path).events == 3
    assert [event.text.split("\n")[0] for event in commits(plane)] == ["Begin", "before", "Next"]


@pytest.mark.parametrize("when", ["0 +0000", "99999999999999 +0000"])
def test_a_time_that_no_calendar_has_is_left_out(plane, repository, when):
    tree = repository("rev-parse", "HEAD^{tree}")
    raw = f"tree {tree}\nauthor N <n@n> {when}\ncommitter N <n@n> {when}\n\nodd\n"
    made = repository(
        "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw.encode()
    )
    repository("reset", "-q", "--hard", made)
    assert run(plane, repository.path).events == 1


def test_an_author_whose_name_is_no_name_is_still_an_author(plane, repository):
    repository.commit("long", GIT_AUTHOR_NAME="N" * 300)
    repository.commit("odd", GIT_AUTHOR_NAME="A\u200bB")
    assert run(plane, repository.path).events == 3


def test_a_repository_without_commits_is_no_mistake(plane, tmp_path):
    empty = Made(tmp_path / "empty")
    assert run(plane, empty.path).skipped == {"no commits yet": 1}


def test_a_commit_that_says_nothing_and_touches_nothing_is_no_event(plane, repository):
    repository.commit("")
    assert run(plane, repository.path).skipped == {"empty commit": 1}


def test_a_detached_head_has_no_branch(plane, repository):
    repository("checkout", "-q", "--detach")
    run(plane, repository.path)
    assert "branch" not in commits(plane)[0].data


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
        with Plane(open_home(plane.home), clock=clock, make_counter=makes) as opened:
            budgets.write_text("version: 1\nscale: 2\n")
            with pytest.raises(InputError, match=r"^scale: no scale of 2000000"):
                import_paths(opened, "git", [repository.path], progress=progress)


def test_without_the_program_an_import_says_so(plane, repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="source: git: the program cannot be run"):
        run(plane, repository.path)
    assert git.version() is None


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


def test_progress_is_told_commits_done_and_commits_in_all(plane, repository):
    repository.commit("Two")
    told = []
    run(plane, repository.path, progress=lambda *said: told.append(said))
    assert [said[:2] for said in told] == [(1, 2), (2, 2)]


def test_the_same_repository_gives_the_same_rows_on_any_machine(repository, tmp_path):
    repository.commit("Two", {"ü.py": "b"})
    logs = []
    for name in ("one", "two"):
        with memplane.init(tmp_path / name) as plane:
            run(plane, repository.path)
            logs.append([(e.id, e.ts, e.actor, e.text, e.data) for e in commits(plane)])
    assert logs[0] == logs[1]


@given(
    fields=st.lists(
        st.tuples(
            st.binary(min_size=0, max_size=30).filter(lambda b: b"\0" not in b),
            st.lists(st.sampled_from(["M", "A", "D", "R090", "C100", "T"]), max_size=30),
        ),
        max_size=6,
    ),
    size=st.integers(1, 40),
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_what_git_says_comes_apart_the_same_however_it_arrives(fields, size):
    said = b""
    for number, (message, statuses) in enumerate(fields):
        said += b"\0".join([b"%040x" % number, b"", b"1", b"1", b"N", message, b"", b""])
        for at, status in enumerate(statuses):
            said += (b"\n" if not at else b"") + status.encode() + b"\0"
            said += b"".join(b"%040x\0" % at for _ in range(2 if status[0] in "RC" else 1))
    chunks = (said[at : at + size] for at in range(0, len(said), size))
    found = list(git._commits(git._tokens(chunks)))
    assert [(c.message, c.changed) for c in found] == [
        (message.decode("utf-8", "replace"), len(statuses)) for message, statuses in fields
    ]


def test_detect_names_sources_counts_and_the_command_for_each(repository, tmp_path, transcript):
    (repository.path / "notes.jsonl").write_text('{"kind": "fact", "text": "x"}\n')
    (repository.path / "t.jsonl").write_bytes(transcript().user("hello").bytes)
    (repository.path / "package.json").write_text("[1, 2]\n")
    memplane.init(repository.path / ".memplane").close()
    with memplane.open(repository.path / ".memplane") as plane:
        plane.record("x")
    path = str(repository.path)
    assert [tuple(found) for found in sources_of(path)] == [
        (path, "claude-code", 1, f"memplane import claude-code {path}"),
        (path, "jsonl", 1, f"memplane import jsonl {path}"),
        (path, "git", 1, f"memplane import git {path}"),
        (path, None, 1, None),
    ]
    assert detect(path) == "jsonl"
    with pytest.raises(InputError, match="no such file or folder"):
        sources_of(tmp_path / "none")


def test_a_repository_named_without_its_source_is_pointed_to_it(plane, repository):
    (repository.path / "package.json").write_text("[1, 2]\n")
    with pytest.raises(InputError, match=r"`memplane import git .*work` takes its commits"):
        import_paths(plane, None, [repository.path])
    (repository.path / "n.jsonl").write_text('{"kind": "fact", "text": "x"}\n')
    assert import_paths(plane, None, [repository.path]).events == 1
