"""`memplane today`, `last` and `session list`: what was done, told as a person reads it."""

import json

import pytest

import memplane

SAID = (
    ("one", "2026-03-02", "Please move the heron parser into its own module.",
     "I moved the heron parser into its own module. All tests pass."),
    ("two", "2026-03-03", "Please make the crane index twice as fast.",
     "The crane index is twice as fast now. Should I commit this?"),
)  # fmt: skip


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "plane"
    with memplane.init(home) as plane:
        for session, day, asked, told in SAID:
            start = {"status": "start", "branch": f"work-{session}"}
            plane.record(kind="session", session=session, data=start, ts=f"{day}T09:00:00Z")
            plane.record(asked, role="user", session=session, ts=f"{day}T09:01:00Z")
            plane.record(told, role="assistant", session=session, ts=f"{day}T09:02:00Z")
        plane.record(kind="session", session="empty", data={"status": "start"})
    return home


def test_a_time_is_told_session_by_session_and_no_other_is(run, home):
    done = run("today", "3 March 2026", "--home", home)
    assert "2026-03-03 09:00 to 09:02" in done.out
    assert "make the crane index" in done.out
    assert "Came to: The crane index is twice as fast now." in done.out
    assert "Left: Should I commit this?" in done.out
    assert "heron" not in done.out


def test_where_nothing_was_done_it_says_so(run, home):
    assert run("today", "yesterday", "--home", home).out == "nothing was recorded yesterday\n"
    assert json.loads(run("today", "yesterday", "--json", "--home", home).out) == []


def test_a_time_that_is_none_is_refused_with_what_was_expected(run, home):
    done = run("today", "soonish", "--home", home)
    assert done.code == 2
    assert "expected a time such as yesterday" in done.err


def test_the_last_session_is_the_last_in_which_something_was_said(run, home):
    assert "crane" in run("last", "--home", home).out
    assert "heron" in run("last", "2", "--home", home).out
    done = run("last", "3", "--home", home)
    assert (done.code, "there are 2 sessions" in done.err) == (1, True)
    answer = json.loads(run("last", "--json", "--home", home).out)
    assert answer["left"].startswith("Should I commit this?")
    assert answer["title"]


def test_a_list_names_sessions_by_title_day_branch_and_outcome(run, home):
    row = next(
        line for line in run("session", "list", "--home", home).out.splitlines() if "crane" in line
    )
    assert row.startswith("03-03 09:02")
    assert "on work-two" in row
    assert "The crane index is twice as fast now." in row


def test_the_beginning_of_a_clients_name_is_enough(run, home):
    name = "0d1b7e52-1111-4222-8333-444455556666"
    with memplane.open(home) as plane:
        plane.record("Mend the stork test.", role="user", session=name)
    assert name not in run("session", "list", "--home", home).out
    shown = run("session", "show", "0d1b7e52", "--home", home)
    assert (shown.code, name in shown.out) == (0, True)
    with memplane.open(home) as plane:  # two that begin so: neither is meant
        plane.record("And another.", role="user", session=name[:-1] + "7")
    assert run("session", "show", "0d1b7e52", "--home", home).code == 1


def test_what_a_channel_may_not_see_is_in_no_line(run, home):
    with memplane.open(home) as plane:
        plane.record(
            "The secret plan of the falcon.", role="user", session="two", sensitivity="high",
            ts="2026-03-03T09:05:00Z",
        )  # fmt: skip
        plane.record(
            "I let the falcon fly over all of the lake. All tests pass.", role="assistant", session="two", sensitivity="high",
            ts="2026-03-03T09:06:00Z",
        )  # fmt: skip
    for command in (
        ("today", "3 March 2026"),
        ("last",),
        ("session", "list"),
        ("session", "show", "two"),
    ):
        assert "falcon" not in run(*command, "--channel", "public", "--home", home).out
    assert "falcon" in run("last", "--home", home).out


def test_what_was_forgotten_is_in_no_line(run, home):
    with memplane.open(home) as plane:
        plane.forget(session="two")
    for command in (("today", "3 March 2026"), ("session", "list")):
        assert "crane" not in run(*command, "--home", home).out
    assert "heron" in run("last", "--home", home).out
