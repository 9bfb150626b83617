"""What the summary of a session may say, and what takes it away."""

import pytest
from builders_sessions import THREE, status, summary, talk

import memplane


def written(plane, after):
    return [event.kind for event in plane.events(after=after)]


def test_what_comes_later_opens_an_ended_session_and_the_next_summary_takes_the_place(plane):
    talk(plane, "s", *THREE)
    first = plane.work.sessions.end("s").summary
    talk(plane, "s", "and the ibises")
    assert status(plane) == {"s": "open"}
    second = plane.work.sessions.end("s").summary
    assert "ibises" in summary(plane, "s").text
    assert plane.work.archived(first.event)[0] == "superseded"
    assert plane.work.archived(second.event) is None


def test_a_summary_quotes_no_summary_of_ours(plane):
    talk(plane, "s", *THREE)
    first = plane.work.sessions.end("s").summary.id
    talk(plane, "s", "more")
    assert first not in plane.work.sessions.end("s").summary.event.refs


def test_raw_turns_and_decisions_stay_in_force(plane):
    ids = talk(plane, "s", *THREE)
    ids.append(plane.record("We keep them", kind="decision", key="k", session="s").id)
    plane.work.sessions.end("s")
    assert [plane.work.archived(plane.event(id_)) for id_ in ids] == [None] * 4
    assert plane.get("k").text == "We keep them"


def test_no_summary_where_none_is_asked_for_or_too_little_happened(plane):
    talk(plane, "s", *THREE)
    assert plane.work.sessions.end("s", summary=False).summary is None
    plane.work.sessions.start("t")
    talk(plane, "t", "one", "two")
    assert plane.work.sessions.end("t").summary is None
    assert "summary" not in written(plane, 0)


def test_the_summary_keeps_to_the_policy_s_tokens(plane):
    talk(plane, "s", *(f"{text} {'again and again ' * 80}" for text in THREE))
    for text in THREE:
        plane.record(f"{text} {'again and again ' * 40}", kind="decision", session="s")
    assert 100 < plane.work.sessions.end("s").summary.event.tokens <= 200
    file = plane.home / "policies" / "plane.yaml"
    file.write_text("version: 1\nsessions: {gap_minutes: 30, summary_tokens_max: 60}\n")
    talk(plane, "s", "one more")
    assert 20 < plane.work.sessions.end("s").summary.event.tokens <= 60


def test_a_secret_is_never_quoted_and_the_highest_sensitivity_holds(plane):
    talk(plane, "s", "the launch code is 0000", sensitivity="secret")
    talk(plane, "s", *THREE)
    made = plane.work.sessions.end("s").summary.event
    assert (made.sensitivity, "launch" in made.text) == ("normal", False)
    talk(plane, "s", "our margin is 3 percent", sensitivity="high")
    made = plane.work.sessions.end("s").summary.event
    assert (made.sensitivity, "margin" in made.text) == ("high", True)
    assert plane.work.sessions.get("s", channel="private").summary is not None
    assert plane.work.sessions.get("s", channel="team").summary is None
    assert "margin" not in plane.pack("margin", channel="team").text


def test_no_channel_reads_in_a_summary_what_its_rule_takes_out_by_kind(plane):
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(
        "version: 1\nload:\n  channel_rules:\n    team: {suppress_kinds: [decision]}\n"
    )
    talk(plane, "s", *THREE)
    plane.record("We pay 3 percent", kind="decision", session="s")
    assert "3 percent" not in plane.work.sessions.end("s").summary.event.text


def test_a_summary_that_moves_to_another_namespace_leaves_none_behind(plane):
    talk(plane, "s", *THREE, ns="/task/a")
    first = plane.work.sessions.end("s").summary
    assert first.event.ns == "/task/a"
    talk(plane, "s", "something for all")
    talk(plane, "s", "of another task", ns="/task/b")
    second = plane.work.sessions.end("s").summary
    assert second.event.ns == "/global"
    assert second.event.text == "Asked: something for all"
    assert plane.work.archived(first.event)[0] == "forgotten"
    assert summary(plane, "s").id == second.id


@pytest.mark.parametrize("how", ["id", "session", "source", "key", "old key"])
def test_what_is_forgotten_does_not_live_on_in_a_summary_and_comes_back_with_it(plane, how):
    fields = {"kind": "decision", "session": "s"}
    fields |= {"key": "the.margin"} if "key" in how else {}
    plane.record("The margin is 3 percent", **fields, id="crm:7:0")
    if how == "old key":
        plane.work.sessions.start("s")
    talk(plane, "s", *THREE)
    made = plane.work.sessions.end("s").summary.event
    assert "margin" in made.text
    if how == "old key":
        plane.record("The margin is now secret", **{**fields, "session": "t"})
    named = {
        "id": {"id": "crm:7:0"}, "session": {"session": "s"}, "source": {"source": "crm"},
        "key": {"key": "the.margin"}, "old key": {"key": "the.margin"},
    }[how]  # fmt: skip
    plane.forget(**named)
    assert "margin" not in plane.pack("margin").text
    assert summary(plane, "s") is None
    assert plane.work.archived(made)[0] == "forgotten"
    with memplane.open(plane.home) as again:
        again.upkeep.rebuild()
        assert "margin" not in again.pack("margin").text
    plane.unforget(**named)
    if how != "old key":
        assert plane.work.archived(made) is None
        assert "margin" in summary(plane, "s").text


def test_what_has_a_key_is_named_in_a_summary_and_what_it_was_lives_on_nowhere(plane):
    talk(plane, "a", *THREE)
    plane.record("We run on MySQL", kind="decision", key="db.engine", session="a")
    made = plane.work.sessions.end("a").summary.event
    assert "Decided on: db.engine" in made.text
    plane.record("We run on Postgres", kind="decision", key="db.engine", session="b")
    assert "MySQL" not in plane.pack("which database?", budget=4000).text
    assert "Postgres" in plane.pack("which database?", budget=4000).text
    assert plane.work.archived(made) is None


def test_a_summary_comes_back_only_if_nothing_else_it_quotes_is_forgotten(plane):
    first, _, last = talk(plane, "s", *THREE)
    plane.work.sessions.end("s")
    plane.forget(id=first)
    plane.forget(id=last)
    plane.unforget(id=first)
    assert summary(plane, "s") is None
    plane.unforget(id=last)
    assert "herons" in summary(plane, "s").text


def test_what_a_summary_does_not_quote_is_forgotten_without_it(plane):
    middle = talk(plane, "s", *THREE)[1]
    plane.work.sessions.end("s")
    plane.forget(id=middle)
    assert summary(plane, "s") is not None


def test_what_was_forgotten_before_is_not_quoted(plane):
    ids = talk(plane, "s", *THREE, "last of all")
    plane.forget(id=ids[0])
    made = plane.work.sessions.end("s").summary.event
    assert made.text == "Asked: and the storks; last of all"
