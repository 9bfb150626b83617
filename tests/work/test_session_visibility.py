"""What a reader is told of sessions: no name that it may not read in an event."""

import pytest

from memplane.errors import NotFoundError

THREE = ("Fix the herons", "and the storks", "then the cranes")


def rule(plane, **rules):
    """Set what the channel `team` may not see."""
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(
        "version: 1\nload:\n  channel_rules:\n    private: {suppress_sensitivity: [secret]}\n"
        f"    team: {rules}\n"
    )


def talk(plane, session, *texts, **fields):
    return [plane.record(text, role="user", session=session, **fields).id for text in texts]


def touch(plane, path, kind="tool_call", **fields):
    return plane.record("Edit", kind=kind, session="s", data={"path": path}, **fields).id


def shown(plane, session="s", **who):
    """The session as `get` and `list` tell it, which is the same."""
    found = plane.work.sessions.get(session, **who)
    if "agent" not in who:
        listed = {one.id: one for one in plane.work.sessions.list(**who)}[session]
        assert listed._replace(summary=found.summary) == found
    return found


@pytest.mark.parametrize("how", ["id", "key", "source", "session"])
def test_names_that_were_forgotten_are_told_no_more_and_come_back(plane, how):
    talk(plane, "s", *THREE)
    plane.record(
        "Edit", kind="tool_call", session="s", task="parser", id="crm:1", key="k",
        data={"path": "secret-plan.py"},
    )  # fmt: skip
    touch(plane, "open.py")
    named = {how: {"id": "crm:1", "key": "k", "source": "crm", "session": "s"}[how]}
    named |= {"ns": "/task/parser"} if how == "key" else {}
    plane.forget(**named)
    if how == "session":
        talk(plane, "s", "and on")
    found = shown(plane)
    assert (found.files, found.tasks) == ((() if how == "session" else ("open.py",)), ())
    assert found.more
    assert found.calls == 2, "figures stay"
    plane.unforget(**named)
    found = shown(plane)
    assert (found.files, found.tasks) == (("open.py", "secret-plan.py"), ("parser",))


def test_a_session_that_was_forgotten_and_goes_on_tells_nothing_of_before(plane):
    plane.work.sessions.start("s", agent="coder", branch="hidden-branch", cwd="/hidden")
    plane.forget(session="s")
    talk(plane, "s", "and on")
    found = shown(plane)
    assert (found.agent, found.branch, found.cwd) == (None, None, None)


def test_what_is_in_an_agent_s_namespace_is_told_to_that_agent_alone(plane):
    plane.record(
        kind="session", session="s", ns="/agent/x",
        data={"status": "start", "branch": "b-of-x", "cwd": "/of-x"},
    )  # fmt: skip
    talk(plane, "s", *THREE, ns="/agent/x")
    touch(plane, "of-x.py", ns="/agent/x", task="t-of-x")
    plane.work.sessions.end("s")
    owners = shown(plane)
    assert owners.prompts == 3
    assert (owners.files, owners.tasks, owners.branch, owners.cwd) == ((), (), None, None)
    assert (owners.agent, owners.summary) == (None, None)
    for who in ({"agent": "y"}, {"channel": "team"}, {"channel": "team", "agent": "y"}):
        with pytest.raises(NotFoundError):
            plane.work.sessions.get("s", **who)
    assert plane.work.sessions.list(channel="team") == []
    mine = plane.work.sessions.get("s", agent="x")
    assert (mine.files, mine.tasks, mine.branch, mine.cwd) == (
        ("of-x.py",), ("t-of-x",), "b-of-x", "/of-x",
    )  # fmt: skip
    assert "herons" in mine.summary.text


def test_an_agent_finds_the_sessions_of_its_own_namespace_and_nobody_else_does(plane):
    talk(plane, "s", "x", ns="/agent/x")
    plane.work.sessions.start("t", agent="x")
    assert [one.id for one in plane.work.sessions.list(agent="x")] == ["s", "t"]
    assert {one.id: one.agent for one in plane.work.sessions.list()} == {"s": None, "t": "x"}
    assert plane.work.sessions.list(agent="y") == []


@pytest.mark.parametrize("level", ["high", "secret"])
def test_the_agent_of_a_start_that_a_channel_may_not_see_is_not_named_there(plane, level):
    plane.record(
        kind="session", session="s", actor="mole", sensitivity=level, data={"status": "start"}
    )
    talk(plane, "s", *THREE)
    rule(plane, suppress_sensitivity=["high", "secret"])
    assert shown(plane, channel="team").agent is None
    assert plane.work.sessions.list(agent="mole", channel="team") == []
    assert shown(plane).agent == ("mole" if level == "high" else None)
    plane.work.sessions.end("s")
    assert all(event.actor is None for event in plane.events(channel="team"))


def test_an_agent_that_is_not_named_still_ends_what_it_left(plane, clock):
    plane.record(
        kind="session", session="s", actor="mole", sensitivity="high", data={"status": "start"}
    )
    clock.now = "2026-01-06T12:00:00.000000Z"
    assert [one.session for one in plane.work.sessions.start(agent="mole").ended] == ["s"]


def test_names_of_kinds_that_a_channel_may_not_see_are_not_told_there(plane):
    rule(plane, suppress_kinds=["tool_call"])
    touch(plane, "both.py")
    touch(plane, "call.py", task="t")
    touch(plane, "both.py", kind="tool_result")
    touch(plane, "result.py", kind="tool_result")
    touch(plane, "both.py")
    assert shown(plane).files == ("both.py", "result.py", "call.py")
    team = shown(plane, channel="team")
    assert (team.files, team.tasks, team.more) == (("both.py", "result.py"), (), True)


def test_how_a_session_ended_is_told_to_who_may_see_the_end(plane):
    talk(plane, "s", "x")
    plane.record(
        kind="session", session="s", sensitivity="high", data={"status": "end", "reason": "fired"}
    )
    rule(plane, suppress_sensitivity=["high"])
    assert shown(plane).reason == "fired"
    assert (shown(plane, channel="team").reason, shown(plane, channel="team").status) == (
        None, "ended",
    )  # fmt: skip


def test_names_leave_the_plane_as_today_s_policy_masks_them(plane):
    touch(plane, "/home/alicia/a.py")
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text("version: 1\nstore:\n  redact_patterns: ['alicia']\n")
    assert "alicia" not in str(shown(plane).files)


def test_a_session_of_which_a_channel_sees_nothing_is_in_no_list_and_no_hint(plane):
    talk(plane, "merger-of-acme", "x", sensitivity="high")
    talk(plane, "vault", "x", sensitivity="secret")
    talk(plane, "birds", "x")
    rule(plane, suppress_sensitivity=["high"])
    assert [one.id for one in plane.work.sessions.list(channel="team")] == ["birds"]
    assert len(plane.work.sessions.list()) == 2
    with pytest.raises(NotFoundError):
        plane.work.sessions.get("merger-of-acme", channel="team")
    with pytest.raises(NotFoundError) as told:
        plane.work.sessions.get("merger-of-acm", channel="team")
    assert str(told.value) == "no session 'merger-of-acm'"
    with pytest.raises(NotFoundError, match="did you mean merger-of-acme"):
        plane.work.sessions.get("merger-of-acm")
    with pytest.raises(NotFoundError) as told:
        plane.work.sessions.end("vaul")
    assert "did you mean" not in str(told.value)


def test_a_channel_without_sessions_is_given_no_hint(plane):
    talk(plane, "merger-notes", "x")
    rule(plane, suppress_kinds=["session"])
    with pytest.raises(NotFoundError) as told:
        plane.work.sessions.get("merger-note", channel="team")
    assert "merger-notes" not in str(told.value)
