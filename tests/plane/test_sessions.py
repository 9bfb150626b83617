"""Sessions on a real plane: who ends what and when, and what the summary may say."""

import json
from datetime import datetime, timedelta

import pytest

import memplane
from memplane.errors import InputError, NotFoundError, ScopeError
from memplane.importers import import_paths


def later(clock, minutes):
    moment = datetime.fromisoformat(clock.now) + timedelta(minutes=minutes)
    clock.now = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def talk(plane, session, *texts, **fields):
    """Record prompts of a session; give back their ids."""
    return [plane.record(text, role="user", session=session, **fields).id for text in texts]


def status(plane):
    return {one.id: one.status for one in plane.sessions.list()}


def written(plane, after):
    return [event.kind for event in plane.events(after=after)]


def summary(plane, session):
    return plane.sessions.get(session).summary


THREE = ("Fix the herons", "and the storks", "then the cranes")


def test_a_session_is_started_marked_ended_and_summed_up(plane):
    started = plane.sessions.start("s", agent="coder", branch="main", cwd="/work")
    assert started.receipt.event.data == {"status": "start", "branch": "main", "cwd": "/work"}
    ids = talk(plane, "s", *THREE)
    assert plane.sessions.checkpoint("s", "half way").event.text == "half way"
    ended = plane.sessions.end("s")
    assert (ended.reason, ended.already) == ("explicit", False)
    found = plane.sessions.get("s")
    assert (found.agent, found.branch, found.cwd) == ("coder", "main", "/work")
    assert (found.status, found.reason, found.prompts) == ("ended", "explicit", 3)
    assert found.events == {"session": 3, "message": 3}
    assert found.summary.text == "Asked first: Fix the herons\nAsked last: then the cranes"
    assert found.summary.id == ended.summary.id
    event = ended.summary.event
    assert (event.kind, event.role, event.session, event.key) == (
        "summary", "system", "s", "session/s/summary",
    )  # fmt: skip
    assert event.refs == (ids[0], ids[2])
    assert event.data == {"extract": True}
    json.dumps([found.as_json(), started.as_json(), ended.as_json()])


def test_a_session_without_a_name_gets_one_and_no_two_the_same(plane):
    names = [plane.sessions.start().session for _ in range(3)]
    assert len(set(names)) == 3
    assert [len(name) for name in names] == [26] * 3


def test_to_end_twice_writes_nothing_and_says_so(plane):
    talk(plane, "s", *THREE)
    plane.sessions.end("s")
    seq = plane.head().seq
    again = plane.sessions.end("s")
    assert (again.already, again.reason) == (True, "explicit")
    assert plane.head().seq == seq


def test_an_unknown_session_is_refused_with_the_one_that_was_meant(plane):
    talk(plane, "parser-work", "x")
    for refused in (plane.sessions.end, plane.sessions.get, plane.sessions.checkpoint):
        with pytest.raises(NotFoundError, match=r"'parser-wrok'; did you mean parser-work\?"):
            refused("parser-wrok")
    assert plane.head().seq == 2


def test_to_record_with_an_unknown_session_writes_one_event_and_it_is_one(plane):
    plane.record("of no session")
    seq = plane.head().seq
    talk(plane, "s", "x")
    assert plane.head().seq == seq + 1
    assert status(plane) == {"s": "open"}


def test_a_start_ends_what_the_same_agent_left_and_touches_no_other(plane, clock):
    for agent in ("a", "b", None):
        plane.sessions.start(f"old-{agent}", agent=agent)
        talk(plane, f"old-{agent}", *THREE)
    later(clock, 31)
    started = plane.sessions.start("new-a", agent="a")
    assert [(one.session, one.reason) for one in started.ended] == [("old-a", "gap")]
    assert started.ended[0].summary is not None
    assert status(plane) == {
        "old-a": "ended", "old-b": "idle", "old-None": "idle", "new-a": "open",
    }  # fmt: skip
    assert [one.session for one in plane.sessions.start("new").ended] == ["old-None"]
    assert plane.sessions.get("old-b").status == "idle"


def test_what_is_still_alive_is_left_open(plane, clock):
    plane.sessions.start("one", agent="a")
    later(clock, 30)
    assert plane.sessions.start("two", agent="a").ended == ()
    later(clock, 29)
    talk(plane, "two", "still here")
    later(clock, 2)
    ended = plane.sessions.start("three", agent="a").ended
    assert [one.session for one in ended] == ["one"]
    assert status(plane) == {"one": "ended", "two": "open", "three": "open"}


def test_the_gap_counts_from_the_recording_whatever_the_events_say_of_themselves(plane, clock):
    talk(plane, "s", "long ago", ts="2020-01-01T00:00:00Z")
    later(clock, 10)
    assert plane.sessions.start().ended == ()
    assert plane.sessions.get("s").status == "open"


def test_a_session_that_is_started_again_goes_on(plane, clock):
    plane.sessions.start("s", agent="a")
    later(clock, 99)
    assert plane.sessions.start("s", agent="a").ended == ()
    assert status(plane) == {"s": "open"}


def test_a_mistake_at_the_start_ends_nothing(plane, clock):
    talk(plane, "s", *THREE)
    later(clock, 99)
    with pytest.raises(InputError):
        plane.sessions.start("x" * 200)
    assert status(plane) == {"s": "idle"}


def test_all_that_is_idle_is_ended_when_asked_for(plane, clock):
    plane.sessions.start("a", agent="a")
    talk(plane, "b", *THREE)
    later(clock, 31)
    plane.sessions.start("c", agent="c")
    assert [(one.session, one.reason) for one in plane.sessions.end_idle()] == [
        ("a", "abandoned"),
        ("b", "abandoned"),
    ]
    assert plane.sessions.end_idle() == []


def test_reading_writes_nothing_and_idle_is_a_matter_of_the_clock(plane, clock):
    talk(plane, "s", *THREE)
    seq = plane.head().seq
    assert status(plane) == {"s": "open"}
    later(clock, 31)
    assert status(plane) == {"s": "idle"}
    assert [one.id for one in plane.sessions.list(only_open=True)] == ["s"]
    assert plane.at(seq).sessions.get("s").status == "open"
    assert plane.head().seq == seq


def test_what_comes_later_opens_an_ended_session_and_the_next_summary_takes_the_place(plane):
    talk(plane, "s", *THREE)
    first = plane.sessions.end("s").summary
    talk(plane, "s", "and the ibises")
    assert status(plane) == {"s": "open"}
    second = plane.sessions.end("s").summary
    assert "ibises" in summary(plane, "s").text
    assert plane.archived(first.event)[0] == "superseded"
    assert plane.archived(second.event) is None


def test_a_summary_quotes_no_summary_of_ours(plane):
    talk(plane, "s", *THREE)
    first = plane.sessions.end("s").summary.id
    talk(plane, "s", "more")
    assert first not in plane.sessions.end("s").summary.event.refs


def test_raw_turns_and_decisions_stay_in_force(plane):
    ids = talk(plane, "s", *THREE)
    ids.append(plane.record("We keep them", kind="decision", key="k", session="s").id)
    plane.sessions.end("s")
    assert [plane.archived(plane.event(id_)) for id_ in ids] == [None] * 4
    assert plane.get("k").text == "We keep them"


def test_no_summary_where_none_is_asked_for_or_too_little_happened(plane):
    talk(plane, "s", *THREE)
    assert plane.sessions.end("s", summary=False).summary is None
    plane.sessions.start("t")
    talk(plane, "t", "one", "two")
    assert plane.sessions.end("t").summary is None
    assert "summary" not in written(plane, 0)


def test_the_summary_keeps_to_the_policy_s_tokens(plane):
    talk(plane, "s", *(f"{text} {'again and again ' * 80}" for text in THREE))
    assert 100 < plane.sessions.end("s").summary.event.tokens <= 200
    file = plane.home / "policies" / "plane.yaml"
    file.write_text("version: 1\nsessions: {gap_minutes: 30, summary_tokens_max: 60}\n")
    talk(plane, "s", "one more")
    assert 20 < plane.sessions.end("s").summary.event.tokens <= 60


def test_a_secret_is_never_quoted_and_the_highest_sensitivity_holds(plane):
    talk(plane, "s", "the launch code is 0000", sensitivity="secret")
    talk(plane, "s", *THREE)
    made = plane.sessions.end("s").summary.event
    assert (made.sensitivity, "launch" in made.text) == ("normal", False)
    talk(plane, "s", "our margin is 3 percent", sensitivity="high")
    made = plane.sessions.end("s").summary.event
    assert (made.sensitivity, "margin" in made.text) == ("high", True)
    assert plane.sessions.get("s", channel="private").summary is not None
    assert plane.sessions.get("s", channel="team").summary is None
    assert "margin" not in plane.pack("margin", channel="team").text


def test_no_channel_reads_in_a_summary_what_its_rule_takes_out_by_kind(plane):
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(
        "version: 1\nload:\n  channel_rules:\n    team: {suppress_kinds: [decision]}\n"
    )
    talk(plane, "s", *THREE)
    plane.record("We pay 3 percent", kind="decision", session="s")
    assert "3 percent" not in plane.sessions.end("s").summary.event.text


def test_a_summary_that_moves_to_another_namespace_leaves_none_behind(plane):
    talk(plane, "s", *THREE, ns="/task/a")
    first = plane.sessions.end("s").summary
    assert first.event.ns == "/task/a"
    talk(plane, "s", "something for all")
    talk(plane, "s", "of another task", ns="/task/b")
    second = plane.sessions.end("s").summary
    assert second.event.ns == "/global"
    assert second.event.text == "Asked first: something for all"
    assert plane.archived(first.event)[0] == "forgotten"
    assert summary(plane, "s").id == second.id


@pytest.mark.parametrize("how", ["id", "session", "source", "key", "old key"])
def test_what_is_forgotten_does_not_live_on_in_a_summary_and_comes_back_with_it(plane, how):
    fields = {"kind": "decision", "session": "s"}
    fields |= {"key": "the.margin"} if "key" in how else {}
    plane.record("The margin is 3 percent", **fields, id="crm:7:0")
    if how == "old key":
        plane.sessions.start("s")
    talk(plane, "s", *THREE)
    made = plane.sessions.end("s").summary.event
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
    assert plane.archived(made)[0] == "forgotten"
    with memplane.open(plane.home) as again:
        again.rebuild()
        assert "margin" not in again.pack("margin").text
    plane.unforget(**named)
    if how != "old key":
        assert plane.archived(made) is None
        assert "margin" in summary(plane, "s").text


def test_what_has_a_key_is_named_in_a_summary_and_what_it_was_lives_on_nowhere(plane):
    talk(plane, "a", *THREE)
    plane.record("We run on MySQL", kind="decision", key="db.engine", session="a")
    made = plane.sessions.end("a").summary.event
    assert "Decided on: db.engine" in made.text
    plane.record("We run on Postgres", kind="decision", key="db.engine", session="b")
    assert "MySQL" not in plane.pack("which database?", budget=4000).text
    assert "Postgres" in plane.pack("which database?", budget=4000).text
    assert plane.archived(made) is None


def test_a_summary_comes_back_only_if_nothing_else_it_quotes_is_forgotten(plane):
    first, _, last = talk(plane, "s", *THREE)
    plane.sessions.end("s")
    plane.forget(id=first)
    plane.forget(id=last)
    plane.unforget(id=first)
    assert summary(plane, "s") is None
    plane.unforget(id=last)
    assert "herons" in summary(plane, "s").text


def test_what_a_summary_does_not_quote_is_forgotten_without_it(plane):
    middle = talk(plane, "s", *THREE)[1]
    plane.sessions.end("s")
    plane.forget(id=middle)
    assert summary(plane, "s") is not None


def test_what_was_forgotten_before_is_not_quoted(plane):
    ids = talk(plane, "s", *THREE, "last of all")
    plane.forget(id=ids[0])
    made = plane.sessions.end("s").summary.event
    assert made.text == "Asked first: and the storks\nAsked last: last of all"


def test_a_forgotten_session_is_in_no_list(plane):
    talk(plane, "s", *THREE)
    talk(plane, "t", "x")
    plane.forget(session="s")
    assert status(plane) == {"t": "open"}
    plane.unforget(session="s")
    assert status(plane) == {"s": "open", "t": "open"}


def test_two_agents_at_once_each_see_their_own_window_and_end_their_own_session(plane):
    for agent in ("ann", "bob"):
        plane.sessions.start(f"of-{agent}", agent=agent)
    for turn in range(5):
        talk(plane, "of-ann", f"heron {turn}")
        talk(plane, "of-bob", f"stork {turn}")
    for mine, other, word in (("of-ann", "of-bob", "heron"), ("of-bob", "of-ann", "stork")):
        window = {
            event
            for entry in plane.pack("", session=mine, budget=4000).entries
            if entry.section == "recent_window"
            for event in (*entry.events, *entry.parts)
        }
        shown = [plane.event(event) for event in window]
        assert {event.session for event in shown} == {mine}
        assert {event.text.split()[0] for event in shown} == {word}
        assert other not in {event.session for event in shown}
    plane.sessions.end("of-ann")
    assert status(plane) == {"of-ann": "ended", "of-bob": "open"}
    talk(plane, "of-bob", "stork 5")
    assert "stork 5" in plane.pack("", session="of-bob").text
    assert plane.sessions.get("of-bob").prompts == 6


def test_ending_many_old_sessions_puts_no_live_one_out_of_the_hotset(plane, clock):
    for number in range(20):
        talk(plane, f"old-{number}", *THREE)
    later(clock, 60)
    for number in range(8):
        plane.sessions.start(f"live-{number}", agent=f"agent-{number}")
        talk(plane, f"live-{number}", "here")
    assert len(plane.sessions.end_idle()) == 20
    assert set(plane.hotset().sessions) == {f"live-{number}" for number in range(8)}


def test_a_session_that_the_projection_let_go_of_is_read_from_the_log(plane):
    talk(plane, "first", *THREE)
    plane.record_many([{"text": "x", "session": f"s{n}", "role": "user"} for n in range(201)])
    assert "first" not in status(plane)
    assert plane.sessions.get("first").prompts == 3
    talk(plane, "first", "and on")
    assert {one.id: one.partial for one in plane.sessions.list()}["first"]
    found = plane.sessions.get("first")
    assert (found.prompts, found.partial) == (4, False)
    plane.sessions.end("first")
    assert summary(plane, "first").text.startswith("Asked first: Fix the herons")
    with pytest.raises(NotFoundError):
        plane.sessions.get("nowhere")


def test_the_file_is_read_by_who_asks_and_by_no_pack(plane):
    talk(plane, "s", *THREE)
    plane.pack("herons", session="s")
    plane.rebuild()
    assert not (plane.home / "projections" / "sessions.json").exists()
    plane.record_many([{"text": "x", "session": "s"} for _ in range(70)])
    plane.sessions.list()
    plane.close()
    assert (plane.home / "projections" / "sessions.json").exists()
    with memplane.open(plane.home) as again:
        assert again.sessions.get("s").prompts == 3
        assert again.differing() == []
        again.rebuild()
        assert not (again.home / "projections" / "sessions.json").exists()


def test_two_who_end_the_same_session_at_once_write_its_end_once(plane, clock):
    talk(plane, "s", *THREE)
    with memplane.open(plane.home, clock=clock) as other:
        other.sessions.list()
        ended = plane.sessions.end("s")
        seq = plane.head().seq
        assert other.sessions.end("s").already
        assert other.head().seq == seq
    assert ended.summary.event.id.startswith("session:summary:")


def test_the_plane_of_an_earlier_seq_and_a_read_only_one_show_sessions_and_end_none(plane):
    talk(plane, "s", *THREE)
    seq = plane.head().seq
    plane.sessions.end("s")
    earlier = plane.at(seq)
    assert status(earlier) == {"s": "open"}
    for act in (earlier.sessions.start, lambda: earlier.sessions.end("s")):
        with pytest.raises(memplane.HomeError):
            act()
    plane.close()
    with memplane.wiring.open_plane(plane.home, read_only=True) as again:
        assert again.sessions.get("s").summary is not None
        with pytest.raises(memplane.HomeError):
            again.sessions.start()


@pytest.mark.parametrize("wrong", [None, 5, b"s", ["s"]])
def test_what_is_no_text_is_refused_and_nothing_is_written(plane, wrong):
    talk(plane, "s", "x")
    seq = plane.head().seq
    acts = [
        lambda: plane.sessions.end(wrong),
        lambda: plane.sessions.get(wrong),
        lambda: plane.sessions.checkpoint(wrong),
        lambda: plane.sessions.checkpoint("s", wrong),
    ]
    if wrong is not None:
        acts += [
            lambda: plane.sessions.start(wrong),
            lambda: plane.sessions.start(agent=wrong),
            lambda: plane.sessions.start(branch=wrong),
            lambda: plane.sessions.start(cwd=wrong),
            lambda: plane.sessions.list(agent=wrong),
            lambda: plane.sessions.get("s", agent=wrong),
        ]
    for act in acts:
        with pytest.raises(InputError, match="expected a text, found "):
            act()
    assert plane.head().seq == seq


def test_a_channel_without_sessions_sees_none_and_an_unknown_one_is_refused(plane):
    talk(plane, "s", "x")
    with pytest.raises(InputError):
        plane.sessions.list(channel="nobody")
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(
        "version: 1\nload:\n  channel_rules:\n    team: {suppress_kinds: [session]}\n"
    )
    assert plane.sessions.list(channel="team") == []
    with pytest.raises(ScopeError):
        plane.sessions.get("s", channel="team")


def transcript(path, session, texts, start="2026-01-05T10:00"):
    lines = [
        {
            "type": "user", "uuid": f"{session}-{number}", "sessionId": session, "cwd": "/p",
            "timestamp": f"{start}:{number:02}.000Z", "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_import_ends_what_is_over_with_the_time_of_its_last_event(plane, tmp_path):
    file = tmp_path / "a.jsonl"
    transcript(file, "s", THREE)
    report = import_paths(plane, "claude-code", [file])
    assert (report.events, report.ended) == (4, 1)
    made, end = list(plane.events(session="s"))[-2:]
    assert (end.id, end.ts) == ("claude-code:s:end:s-2:0", "2026-01-05T10:00:02.000000Z")
    assert end.data == {"status": "end", "reason": "importer"}
    assert (made.id, made.ts) == ("claude-code:s:summary:s-2:0", end.ts)
    seq = plane.head().seq
    for again in (False, True):
        assert import_paths(plane, "claude-code", [file], full=again).ended == 0
    assert plane.head().seq == seq


def test_a_transcript_that_grew_opens_its_session_and_ends_it_again(plane, tmp_path):
    file = tmp_path / "a.jsonl"
    transcript(file, "s", THREE)
    import_paths(plane, "claude-code", [file])
    transcript(file, "s", [*THREE, "and the ibises"])
    assert import_paths(plane, "claude-code", [file]).ended == 1
    assert [event.data["status"] for event in plane.events(kind="session")] == [
        "start", "end", "end",
    ]  # fmt: skip
    assert summary(plane, "s").text.endswith("Asked last: and the ibises")


def test_a_transcript_that_may_still_go_on_is_ended_by_a_later_import(plane, clock, tmp_path):
    file = tmp_path / "a.jsonl"
    transcript(file, "s", THREE, start="2026-01-05T11:45")
    assert import_paths(plane, "claude-code", [file]).ended == 0
    assert status(plane) == {"s": "open"}
    later(clock, 31)
    report = import_paths(plane, "claude-code", [file])
    assert (report.unchanged, report.ended) == (1, 1)
    assert status(plane) == {"s": "ended"}


def test_an_import_of_more_sessions_than_are_kept_ends_every_one_once(plane, tmp_path):
    for number in range(230):
        transcript(tmp_path / f"{number:03}.jsonl", f"s{number:03}", THREE)
    assert import_paths(plane, "claude-code", [tmp_path]).ended == 230
    assert len(list(plane.events(kind="summary"))) == 230
    seq = plane.head().seq
    assert import_paths(plane, "claude-code", [tmp_path], full=True).ended == 0
    assert import_paths(plane, "claude-code", [tmp_path]).ended == 0
    assert plane.head().seq == seq
    assert plane.sessions.get("s000").status == "ended"


def test_json_lines_end_no_session_and_forgetting_their_source_takes_summaries_along(
    plane, tmp_path
):
    file = tmp_path / "rows.jsonl"
    rows = [{"id": f"r{n}", "text": text, "session": "s"} for n, text in enumerate(THREE)]
    dated = [{**row, "role": "user", "ts": "2020-01-01T00:00:00Z"} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in dated))
    assert import_paths(plane, "jsonl", [file]).ended == 0
    assert status(plane) == {"s": "open"}
    transcript(tmp_path / "a.jsonl", "t", THREE)
    import_paths(plane, "claude-code", [tmp_path / "a.jsonl"])
    plane.forget(source="claude-code")
    assert summary(plane, "t") is None
    assert status(plane) == {"s": "open"}
