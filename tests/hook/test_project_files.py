"""A start says nothing that the project's own files say; those files can silence, and no more."""

import os

import pytest
from checks_calls import context, said
from hypothesis import given, strategies as st

import memplane
from memplane.context.calls import MARKS_MAX
from memplane.errors import InputError
from memplane.explain.replay import replay_pack
from memplane.hook import project_marks
from memplane.recall.gate import all_marked, sentence_marks
from memplane.upkeep.reports import find_report

RULE = "The hatch covers must be tarred before the barge leaves the lock"
OTHER = "The towpath must be mown before the horses come in spring"


@pytest.fixture
def home(home):
    with memplane.open(home, durability="os", environment={}) as plane:
        plane.record(RULE, role="user", session="old1", id="rule")
        plane.record(OTHER, role="user", session="old1")
        plane.record("The lock is opened at six", kind="decision", key="lock", id="lock")
        plane.upkeep.index()
    return home


def started(home):
    return said("SessionStart", home, source="startup")


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md", "README.md"])
def test_what_a_file_of_the_project_says_is_left_out_of_a_start(fork, home, name):
    before = context(fork(home, started(home)))
    assert RULE in before
    assert "opened at six" in before
    broken = RULE.replace("before the", "before\nthe")
    (home.parent / name).write_text(
        f"# Barge\n\n- **Tar**: {broken}.\n\nThe lock is opened at six."
    )
    answer = context(fork(home, said("SessionStart", home, source="startup", session_id="s2")))
    assert RULE not in answer
    assert "opened at six" not in answer
    assert OTHER in answer
    assert "# Barge" not in answer
    saved = find_report(home, "last")
    omitted = str(saved.report["omissions"])
    assert "told" in omitted
    (home.parent / name).unlink()
    with memplane.open(home, environment={}) as plane:
        assert replay_pack(plane, saved).block.text in answer


@pytest.mark.parametrize(
    "words", [f"Never: {RULE}", f"{RULE}, but not on Sundays", RULE.split(" before", maxsplit=1)[0]]
)
def test_what_is_said_otherwise_stays(fork, home, words):
    (home.parent / "CLAUDE.md").write_text(f"- {words}\n")
    assert RULE in context(fork(home, started(home)))


def test_links_pipes_and_other_bytes_hold_nothing_up(fork, home, tmp_path):
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text(RULE)
    (home.parent / "CLAUDE.md").symlink_to(elsewhere)
    os.mkfifo(home.parent / "AGENTS.md")
    (home.parent / "README.md").write_bytes(b"\xff\xfe\x00" * 100_000)
    assert RULE in context(fork(home, started(home)))


def test_of_a_hostile_file_a_bounded_part_is_read(tmp_path):
    for name, text in (
        ("CLAUDE.md", "A. " * 4_000_000), ("AGENTS.md", "key=" * 1_000_000),
        ("README.md", f"{'x' * 40_000}\n{RULE}\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    found = project_marks(str(tmp_path), str)
    assert len(found) <= MARKS_MAX
    assert not all_marked(RULE, frozenset(found))  # behind what is read


def test_secrets_of_the_files_are_in_no_hash(tmp_path):
    (tmp_path / "CLAUDE.md").write_text("The password is hunter2hunter2\n")
    seen = []

    def redact(text):
        seen.append(text)
        return text.replace("hunter2hunter2", "[redacted]")

    found = project_marks(str(tmp_path), redact)
    assert seen
    assert sentence_marks("The password is hunter2hunter2")[0] not in found


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_text_is_told_only_by_all_of_its_own_letters(one, other):
    marks = frozenset(sentence_marks(other))
    if all_marked(one, marks):
        letters = "".join(filter(str.isalnum, other)).lower()
        assert "".join(filter(str.isalnum, one)).lower()[:20] in letters


@pytest.mark.parametrize("marks", [["x" * 12], ["abc"], ["0" * 12] * (MARKS_MAX + 1)])
def test_marks_that_are_none_are_refused(home, marks):
    with (
        memplane.open(home, environment={}) as plane,
        pytest.raises(InputError, match="held_marks: expected"),
    ):
        plane.pack("", remind="start", held_marks=marks)
