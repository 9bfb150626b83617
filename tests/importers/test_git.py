"""Commits of real repositories, made here, into a real plane: what of each is kept."""

import shutil

import pytest
from builders_git import Made, commits, run
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.errors import InputError
from memplane.importers import detect, find_sources, git, import_paths

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


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
    assert [tuple(found) for found in find_sources(path)] == [
        (path, "claude-code", 1, f"memplane import claude-code {path}"),
        (path, "jsonl", 1, f"memplane import jsonl {path}"),
        (path, "git", 1, f"memplane import git {path}"),
        (path, None, 1, None),
    ]
    assert detect(path) == "jsonl"
    with pytest.raises(InputError, match="no such file or folder"):
        find_sources(tmp_path / "none")


def test_a_repository_named_without_its_source_is_pointed_to_it(plane, repository):
    (repository.path / "package.json").write_text("[1, 2]\n")
    with pytest.raises(InputError, match=r"`memplane import git .*work` takes its commits"):
        import_paths(plane, None, [repository.path])
    (repository.path / "n.jsonl").write_text('{"kind": "fact", "text": "x"}\n')
    assert import_paths(plane, None, [repository.path]).events == 1
