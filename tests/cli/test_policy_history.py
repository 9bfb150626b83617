"""`memplane policy log`, `diff` and `replay`: what they say, as JSON too, and their exit codes."""

import json
import os
import shutil
import subprocess

import pytest

ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
NO_DECISIONS = (
    "private: {suppress_sensitivity: [secret]}",
    "private: {suppress_sensitivity: [secret], suppress_kinds: [decision]}",
)


@pytest.fixture
def commit():
    """Commit all there is in a folder; return the hash."""

    def commit(folder, message):
        def git(*argv):
            return subprocess.run(
                ["git", "-C", folder, *argv], env={**os.environ, **ALONE}, check=True,
                capture_output=True, text=True,
            ).stdout.strip()  # fmt: skip

        if not (folder / ".git").exists():
            git("init", "-q", "-b", "main")
            git("config", "user.name", "Ann")
            git("config", "user.email", "ann@example.com")
            git("config", "commit.gpgsign", "false")
        git("add", "-A")
        git("commit", "-q", "-m", message)
        return git("rev-parse", "HEAD")

    return commit


def swap(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture
def packed(run, filled, commit):
    """A plane under git with two saved packs, which shows no decisions any more since the commit."""
    commit(filled, "Begin")
    for query in ("which database do we use?", "SQLite"):
        assert run("pack", query, "--session", "s1", "--home", filled).code == 0
    swap(filled / "policies" / "privacy.yaml", *NO_DECISIONS)
    return filled


def test_log_tells_each_commit_in_words(run, filled, commit):
    commit(filled, "Begin")
    swap(filled / "policies" / "budgets.yaml", "share: 0.32", "share: 0.2")
    (filled / "views" / "identity.md").write_text("You are the build agent.\n")
    hash_ = commit(filled, "Less evidence")
    done = run("policy", "log", "--limit", "1", "--home", filled)
    assert (done.code, done.err) == (0, "")
    head, *said = done.out.splitlines()
    assert head.startswith(hash_[:8])
    assert head.endswith("Ann Less evidence")
    assert said == [
        "  budgets.yaml: sections.retrieved_evidence.share 0.32 -> 0.2",
        "  views/identity.md: added, 1 line",
    ]
    found = json.loads(run("policy", "log", "--home", filled, "--json").out)
    assert [one["subject"] for one in found] == ["Less evidence", "Begin"]
    assert found[0]["changes"][0] == {
        "file": "budgets.yaml", "key": "sections.retrieved_evidence.share", "what": "changed",
        "before": 0.32, "after": 0.2,
        "words": "sections.retrieved_evidence.share 0.32 -> 0.2",
    }  # fmt: skip


def test_log_says_where_git_ignores_the_plane(run, new, tmp_path, commit):
    project = tmp_path / "project"
    shutil.copytree(new, project / ".memplane")
    (project / ".gitignore").write_text(".memplane\n")
    commit(project, "Begin")
    done = run("policy", "log", "--home", project)
    assert (done.code, done.out) == (0, "")
    assert "no commit has policies or views" in done.err
    assert "git ignores them" in done.err


def test_diff_has_the_words_and_the_lines_of_views(run, filled, commit):
    view = filled / "views" / "identity.md"
    view.write_text("You are the build agent.\nBe short.\n")
    commit(filled, "Begin")
    assert run("policy", "diff", "--home", filled).out.startswith("no difference between HEAD (")
    view.write_text("You are the build agent.\nBe \x1b[31mshort\x1b[0m and kind.\n")
    swap(filled / "policies" / "plane.yaml", "keep: 500", "keep: 7")
    done = run("policy", "diff", "--home", filled)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "plane.yaml: reports.keep 500 -> 7",
        "views/identity.md: 1 line added, 1 removed",
        "  - Be short.",
        "  + Be �[31mshort�[0m and kind.",
    ]
    found = json.loads(run("policy", "diff", "now", "HEAD", "--home", filled, "--json").out)
    assert found["from"] == "the working tree"
    assert [one["file"] for one in found["changes"]] == ["plane.yaml", "views/identity.md"]


def test_diff_names_the_mistakes_of_a_broken_version_and_goes_on(run, filled, commit):
    commit(filled, "Begin")
    (filled / "policies" / "plane.yaml").write_text("version: 1\nreports: {kep: 1}\n")
    swap(filled / "policies" / "budgets.yaml", "share: 0.32", "share: 0.2")
    done = run("policy", "diff", "--home", filled)
    assert done.code == 0
    assert done.out.splitlines() == [
        "budgets.yaml: sections.retrieved_evidence.share 0.32 -> 0.2",
        "plane.yaml: has mistakes at the working tree, so what it says there is not known:",
        "  policies/plane.yaml:2: reports.kep: unknown; did you mean `keep`?",
    ]
    done = run("policy", "replay", "--home", filled)
    assert done.code == 3
    assert "the working tree: policies/plane.yaml:2: reports.kep: unknown" in done.err


def test_replay_says_what_enters_and_leaves_section_by_section(run, packed):
    done = run("policy", "replay", "--home", packed)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("2 packs from HEAD (")
    assert lines[0].endswith("to the working tree: 0 the same, 2 changed")
    assert lines[2].split() == ["tokens", "by", "section", "before", "after", "enters", "leaves"]
    assert any(line.startswith("recent_window") and line.endswith("2") for line in lines)
    assert any(line.startswith("shared with pack before") for line in lines)
    assert any(line.startswith("  - recent_window  ") for line in lines)
    found = json.loads(run("policy", "replay", "--home", packed, "--json").out)
    assert (found["packs"], found["same"], found["failed"]) == (2, 0, 0)
    assert found["leaves"]["recent_window"] == 2
    assert "recent_window" in [one["section"] for one in found["rows"][0]["leaves"]]
    assert (
        json.loads(run("policy", "replay", "--last", "1", "--home", packed, "--json").out)["packs"]
        == 1
    )


def test_replay_of_what_says_the_same_packs_nothing(run, filled, commit):
    commit(filled, "Begin")
    run("pack", "SQLite", "--home", filled)
    done = run("policy", "replay", "--home", filled)
    assert (done.code, done.out) == (0, "")
    assert "say the same" in done.err


def test_replay_without_reports_says_so(run, packed):
    shutil.rmtree(packed / "reports")
    done = run("policy", "replay", "--home", packed)
    assert (done.code, done.out) == (0, "")
    assert "no report is saved yet" in done.err


def test_replay_heeds_no_variable_and_says_so(run, packed, monkeypatch):
    before = run("policy", "replay", "--home", packed).out
    monkeypatch.setenv("MEMPLANE_BUDGETS__SCALE", "2")
    done = run("policy", "replay", "--home", packed)
    assert done.out == before
    assert "not heeded here: MEMPLANE_BUDGETS__SCALE" in done.err


def test_folders_can_be_tried_without_any_repository(run, filled, tmp_path):
    run("pack", "SQLite", "--home", filled)
    draft = tmp_path / "draft"
    shutil.copytree(filled / "policies", draft)
    swap(draft / "privacy.yaml", *NO_DECISIONS)
    done = run("policy", "replay", "--from", "now", "--to", draft, "--home", filled)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"1 pack from the working tree to {draft}: 0 the same, 1 changed")


@pytest.mark.parametrize("argv", [("log",), ("diff",), ("replay",), ("diff", "HEAD", "HEAD~1")])
def test_outside_of_a_repository_a_sentence_says_so(run, filled, argv):
    done = run("policy", *argv, "--home", filled)
    assert (done.code, done.out) == (1, "")
    assert "no git repository here or above, so policies have no history" in done.err


def test_without_git_it_is_said_that_it_is_missing(run, filled, commit, tmp_path, monkeypatch):
    commit(filled, "Begin")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("policy", "log", "--home", filled)
    assert (done.code, done.out) == (1, "")
    assert "git: the program cannot be run" in done.err


def test_a_revision_that_does_not_exist_is_named(run, packed):
    for argv in (("diff", "v9"), ("replay", "--from", "v9"), ("replay", "--to", "v9")):
        done = run("policy", *argv, "--home", packed)
        assert (done.code, done.out) == (1, "")
        assert "expected a commit, branch or tag of the repository" in done.err
        assert "'v9'" in done.err


def test_wrong_use_is_told_apart(run, packed, tmp_path):
    assert run("policy", "replay", "--last", "0", "--home", packed).code == 2
    assert run("policy", "log", "--limit", "0", "--home", packed).code == 2
    assert run("policy", "diff", tmp_path / "plane" / "views", "--home", packed).code == 2
    assert run("policy", "diff", "--home", tmp_path / "nothing").code == 3


def test_two_revisions_are_tried_while_the_home_itself_has_mistakes(run, packed, commit):
    commit(packed, "No decisions")
    (packed / "policies" / "plane.yaml").write_text("version: 1\nreports: {kep: 1}\n")
    done = run("policy", "replay", "--from", "HEAD~1", "--to", "HEAD", "--home", packed)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].endswith("0 the same, 2 changed")
    assert run("policy", "log", "--limit", "1", "--home", packed).code == 0


def test_a_plane_that_is_not_committed_has_no_history_and_is_not_lost(run, new, tmp_path, commit):
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("none of memplane's\n")
    commit(project, "Begin")
    shutil.copytree(new, project / ".memplane")
    done = run("policy", "log", "--home", project)
    assert (done.code, done.out) == (0, "")
    assert "commit them to keep their history" in done.err
    done = run("policy", "diff", "--home", project)
    assert done.code == 0
    assert "budgets.yaml: added; memplane's defaults stood for it before" in done.out
    assert "budgets.yaml: counter bound/1 -> len4 (was the default)" in done.out
