"""What is kept of a session for its digest: bounded, the same however the log is cut."""

import pytest
from hypothesis import given, settings, strategies as st

from memplane.event import Event
from memplane.ports import Line
from memplane.projections.digests import (
    ANSWERED,
    OPEN,
    PARTS,
    REPORTED,
    STANDING,
    Digests,
    parts_of,
)
from tests.examples import examples

NOW = "2026-01-05T12:00:00.000000Z"
REPORT = "The mast stands again, and the shrouds hold it on both sides of the boat now."


def event(seq, text="", kind="message", role="user", session="s1", **fields):
    return Event(seq, f"e{seq}", NOW, NOW, kind, text=text, role=role, session=session, **fields)


def ran(seq, command, status="ok", text="output", **data):
    about = {"tool": "Bash", "call": f"c{seq}"}
    return [
        event(seq, f'Bash command="{command}"', "tool_call", "assistant", data=about),
        event(seq + 1, text, "tool_result", "tool", data={**about, "status": status, **data}),
    ]


def failures(*events):
    session = parts_of(events)
    return [one.text for one in session.quotes("failures")]


def test_a_check_is_open_until_it_or_a_wider_one_passes():
    red = ran(1, "pytest tests/hull.py", "error", "1 failed")
    assert failures(*red) == ["pytest tests/hull.py"]
    assert failures(*red, *ran(3, "pytest tests/sails.py")) == ["pytest tests/hull.py"]
    assert failures(*red, *ran(3, "uv run pytest -q")) == []
    assert failures(*red, *ran(3, "pytest 2>&1 | tail", text="2 failed")) != []


def test_red_green_of_a_test_that_was_written_first_leaves_nothing_open():
    assert failures(*ran(1, "go test ./hull", "error", "FAIL"), *ran(3, "go test ./...")) == []


def test_look_ups_refusals_and_wrong_calls_are_no_failures():
    assert failures(*ran(1, "grep mast hull.py", "error")) == []
    assert failures(*ran(1, "make sails", "error", rejected="reason")) == []
    assert failures(*ran(1, "make sails", "error", "make: sailmaker: command not found")) == []
    other = {"tool": "Read", "call": "c1", "status": "error"}
    assert failures(event(1, "not there", "tool_result", "tool", data=other)) == []


def test_an_agent_that_says_its_tests_pass_closes_tests_and_nothing_else():
    red = [*ran(1, "go test ./...", "error"), *ran(3, "docker build .", "error")]
    assert failures(*red, event(5, "All tests pass now.", role="assistant")) == ["docker build ."]


def test_a_marked_failure_of_a_summary_is_none():
    text = "Failed: the whole of the talk before"
    marked = {"markers": ("failure",)}
    assert failures(event(1, text, "summary", "system", **marked)) == []
    assert failures(event(1, text, role="assistant", **marked)) == [text]


@pytest.mark.parametrize(
    ("answer", "turn"),
    [
        (REPORT, REPORTED),
        ("Let me look at the hull first.", OPEN),
        (f"{REPORT} Let me look at the sails next.", OPEN),
        ("It is painted.", ANSWERED),
    ],
)
def test_a_prompt_is_open_until_something_was_said_to_it(answer, turn):
    session = parts_of([event(1, "Please mend the mast"), event(2, answer, role="assistant")])
    assert session.turn(lambda _: True) == turn


def test_files_are_those_that_were_changed_each_with_its_branch():
    def edit(seq, path, status):
        about = {"tool": "Edit", "call": f"c{seq}", "path": path, "branch": "sails"}
        return [
            event(seq, f"Edit file_path={path}", "tool_call", "assistant", data=about),
            event(seq + 1, "x", "tool_result", "tool", data={**about, "status": status}),
        ]

    rows = [*edit(1, "a.py", "ok"), *edit(3, "b.py", "error"), *edit(5, "a.py", "ok")]
    session = parts_of(rows)
    assert [(one.path, one.more) for one in session.quotes("files")] == [("a.py", ["sails", "2"])]


def test_a_subagent_changes_files_and_reports_nothing():
    about = {"tool": "Write", "call": "c1", "path": "a.py"}
    side = {"tags": ("sidechain",)}
    rows = [
        event(1, "Write file_path=a.py", "tool_call", "assistant", data=about, **side),
        event(2, REPORT, role="assistant", **side),
    ]
    session = parts_of(rows)
    assert [one.path for one in session.quotes("files")] == ["a.py"]
    assert list(session.quotes("reports")) == []


def test_the_end_of_a_session_and_its_generated_summary_are_no_part_of_it():
    end = event(2, "Session ended", "session", None, data={"status": "end"})
    summary = event(3, '"Mast"', "summary", "system", data={"extract": True})
    assert parts_of([end, summary]) is None


EVENTS = st.lists(
    st.builds(
        event,
        st.just(0),
        st.sampled_from(["Mend the mast of the boat", REPORT, "yes", "All tests pass.", "x" * 900]),
        st.sampled_from(["message", "decision", "tool_call", "tool_result", "task", "session"]),
        st.sampled_from(["user", "assistant", "tool", None]),
        st.sampled_from(["s1", "s2", "s3", None]),
        sensitivity=st.sampled_from(["low", "normal", "high", "secret"]),
        ns=st.sampled_from(["/global", "/agent/a", "/project/b"]),
        key=st.sampled_from([None, None, "k"]),
        markers=st.sampled_from([(), ("failure",)]),
        data=st.fixed_dictionaries(
            {},
            optional={
                "tool": st.sampled_from(["Bash", "Edit", 7]),
                "call": st.sampled_from(["c1", "c2", 7]),
                "path": st.sampled_from(["a.py", 7]),
                "status": st.sampled_from(["ok", "error", "title", "end", 7]),
                "branch": st.sampled_from(["main", 7]),
                "plan": st.sampled_from([[{"step": "rig", "state": "done"}], ["x"], 7]),
            },
        ),
    ),
    max_size=60,
)


@settings(max_examples=examples(150), deadline=None)
@given(EVENTS, st.integers(0, 60))
def test_any_split_of_the_log_folds_to_the_same_bytes_within_bounds(events, at):
    projector = Digests(kept_max=2)
    lines = [
        Line(one._replace(seq=seq, id=f"e{seq}"), 1, seq, seq + 1)
        for seq, one in enumerate(events, 1)
    ]
    whole, part = projector.initial(), projector.initial()
    for line in lines:
        projector.apply(whole, line)
    for line in lines[:at]:
        projector.apply(part, line)
    part = projector.load(projector.dump(part))
    for line in lines[at:]:
        projector.apply(part, line)
    assert projector.dump(part) == projector.dump(whole)
    assert len(whole.sessions) <= 2
    for session in whole.sessions.values():
        for parts in session.groups.values():
            assert all(len(parts.quotes[sort]) <= most for sort, most in PARTS.items())
        assert not any(one.sensitivity == "secret" for one in session.every())


def test_steps_of_a_plan_take_the_states_that_later_events_of_its_task_give():
    plan = [{"step": "rig the mast"}, {"step": "set the sails"}]
    made = event(1, "Sail", "task", task="t", data={"plan": plan})
    told = event(2, "", "task", task="t", data={"steps": {"done": [1, 9], "doing": ["2"]}})
    other = event(3, "", "task", task="u", data={"steps": {"done": [2]}})
    (kept,) = parts_of([made, told, other]).quotes("plans")
    assert (kept.seq, kept.more) == (1, [["rig the mast", "done"], ["set the sails", "todo"]])


SAID = st.lists(
    st.sampled_from(
        (
            REPORT,
            "`mast.py` holds it now.",
            "Shall I sew the sails, too?",
            "Not yet: the keel.",
            "\n",
        )
    )
    | st.sampled_from(("What is left to be done for the boat is told below:\n", "- the sails\n"))
    | st.sampled_from(("Let me look at the hull before I go on with the sails of the boat.", "|-|"))
    | st.just("The boat has a mast and sails and a hull and a keel and a rudder and a crew. " * 9),
    max_size=6,
).map(" ".join)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("user", "assistant")), SAID), max_size=8))
def test_a_report_that_is_read_late_is_what_it_was_when_it_was_said(said):
    lines = [
        Line(event(seq, text, role=role), 1, 0, 0) for seq, (role, text) in enumerate(said, start=1)
    ]

    def folded():
        state = (digests := Digests()).initial()
        for line in lines:
            digests.apply(state, line)
        return digests.dump(state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memplane.projections.digests.has_outcome", lambda _: False)
        at_once = folded()
    assert folded() == at_once


ACTS = st.sampled_from(
    (
        ("said", "user", "Please always run the linter before you commit the sails."),
        ("said", "user", "Keep the halyards of both masts on the left side."),
        ("said", "user", "What is wrong with the keel?"),
        ("said", "assistant", REPORT),
        (
            "said",
            "assistant",
            "The rule no-shadow is for sails that stand behind others. All checks pass.",
        ),
        ("ran", "eslint hull", "error", "hull/mast.js:3:1: a sail behind a sail (no-shadow)"),
        ("ran", "eslint hull", "ok", "All checks passed!"),
        ("ran", "cat deck/keel.py", "error", "cat: deck/keel.py: No such file or directory"),
        ("ran", "cat hull/keel.py", "ok", "weight = 4"),
        ("ran", "pytest tests/hull.py", "error", "1 failed"),
        ("ran", "pytest", "ok", "4 passed"),
        ("ran", "git commit -m sails", "ok", "[main 1234567] sails"),
    )
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), ACTS), max_size=60),
    st.lists(st.integers(1, 4), min_size=5, max_size=5) | st.none(),
    st.sampled_from((9, 1_000, 1 << 20)),
)
def test_what_outlives_a_session_is_the_same_whether_its_events_waited(acts, bounds, waiting):
    events = []
    for session, (act, *about) in acts:
        seq = len(events) + 1
        ns = "/agent/keel" if session == "f" else "/global"
        if act == "said":
            events.append(event(seq, about[1], role=about[0]))
        else:
            events += ran(seq, *about)
        events = [
            one
            if one.seq < seq
            else one._replace(session=session, ns=ns, ts=NOW.replace("12", f"{seq % 7:02}"))
            for one in events
        ]

    def folded(*, waits):
        state = (digests := Digests(kept_max=2)).initial()
        for one in events:
            digests.apply(state, Line(one, 1, 0, 90))
            if not waits:
                state.settle()
        return digests.dump(state)

    with pytest.MonkeyPatch.context() as patch:
        if bounds is not None:
            lasting = dict(zip(STANDING, bounds, strict=True))
            patch.setattr("memplane.projections.digests.STANDING", lasting)
        patch.setattr("memplane.projections.digests._WAITING_MAX", waiting)
        assert folded(waits=True) == folded(waits=False)


def test_events_wait_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("memplane.projections.digests._WAITING_MAX", 1_000)
    state = (digests := Digests()).initial()
    for seq in range(1, 200):
        digests.apply(state, Line(event(seq, REPORT, role="assistant"), 1, 0, 99))
        assert state.waiting_bytes <= 1_000
    digests.dump(state)
    assert state.waiting_bytes == 0
