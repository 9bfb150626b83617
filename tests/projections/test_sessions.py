"""The sessions: figures, names and bounds."""

import pytest
from builders_histories import MARKS, WORK
from builders_journal import FORGETS, SESSIONS, STATEMENTS, Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.sessions import BYTES_MAX, GONE_MAX, SessionsProjector, session_facts
from memplane.tokens import make
from tests.examples import examples

COUNTER = make("len4", scale_ppm=1_000_000, table=bytes)
FILE_MAX = 512 * 1024

EXTRACTS = st.fixed_dictionaries(
    {"kind": st.just("summary"), "session": SESSIONS, "data": st.just({"extract": True})}
)
HISTORIES = st.lists(st.one_of(WORK, WORK, MARKS, EXTRACTS, STATEMENTS, FORGETS), max_size=40)


def folded(rows, **bounds):
    return fold(SessionsProjector(COUNTER, **bounds), Journal(rows).lines)


def message(session, text="hello", **fields):
    return {"session": session, "text": text, "role": "user", **fields}


def mark(session, status, **fields):
    return {"kind": "session", "session": session, "data": {"status": status}, **fields}


@settings(max_examples=examples(20), deadline=None)
@given(HISTORIES, st.integers(1, 5), st.sampled_from([1500, 3000, BYTES_MAX]))
def test_any_split_of_any_history_folds_to_the_same_bytes_whatever_the_bounds(rows, kept, size):
    holds_the_law(SessionsProjector(COUNTER, kept_max=kept, bytes_max=size), Journal(rows).lines)


@settings(max_examples=examples(20), deadline=None)
@given(HISTORIES, st.integers(1, 3), st.sampled_from([1500, 3000]))
def test_the_bounds_hold_after_every_event_and_the_sizes_are_never_too_small(rows, kept, size):
    projector = SessionsProjector(COUNTER, kept_max=kept, bytes_max=size)
    state = projector.initial()
    for line in Journal(rows).lines:
        projector.apply(state, line)
        assert len(state.sessions) <= kept
        assert state.bytes == sum(facts.size for facts in state.sessions.values())
        assert state.bytes <= size or len(state.sessions) == 1
        assert len(projector.dump(state)) <= state.bytes + 60 + 48 * len(state.gone)


@pytest.mark.sized
def test_a_file_of_the_longest_names_stays_below_512_kib():
    paths = [f"{n:03}" + '"\\' * 98 for n in range(40)]
    rows = [
        row
        for n in range(300)
        for row in (
            mark(f"{n:03}" + "é" * 125, "start", actor="é" * 128, id=f"{n:05}" + '"' * 123),
            *(
                {"kind": "tool_call", "session": f"{n:03}" + "é" * 125, "data": {"path": path}}
                for path in paths
            ),
        )
    ]
    projector = SessionsProjector(COUNTER)
    state = folded(rows)
    assert len(projector.dump(state)) < FILE_MAX - 1024
    assert 30 < len(state.sessions) < 200


def test_two_hundred_usual_sessions_are_all_kept():
    state = folded([message(f"s{n}") for n in range(201)])
    assert list(state.sessions) == [f"s{n}" for n in range(1, 201)]


def test_over_a_bound_an_ended_session_goes_before_an_open_one():
    rows = [message("a"), message("b"), mark("b", "end"), message("c"), message("d")]
    assert list(folded(rows, kept_max=3).sessions) == ["a", "c", "d"]


def test_a_session_that_was_let_go_of_and_goes_on_says_that_it_is_older():
    rows = [message("a"), message("b"), message("c"), message("a")]
    state = folded(rows, kept_max=2)
    facts = state.sessions["a"]
    assert (facts.partial, facts.events, facts.first_seq) == (True, 1, 1)
    whole = session_facts(Journal(rows), state, ["a"], COUNTER)["a"]
    assert (whole.partial, whole.events) == (False, 2)


def test_a_session_that_was_forgotten_and_then_let_go_of_is_forgotten_still():
    forget = {"kind": "forget", "data": {"forget": {"session": "a"}}}
    rows = [message("a"), forget, message("b")]
    state = folded(rows, kept_max=1)
    assert list(state.sessions) == ["b"]
    assert session_facts(Journal(rows), state, ["a"], COUNTER)["a"].forgotten


def folded_alone(rows, name, **bounds):
    """One session from its part of the log, the lines read for it, and all that it was."""
    projector, log = SessionsProjector(COUNTER, **bounds), Journal(rows)
    state = fold(projector, log.lines)
    found = session_facts(log, state, [name], COUNTER).get(name)
    whole = fold(SessionsProjector(COUNTER), log.lines).sessions.get(name)
    return found, log.lines_read, whole


def row_of(facts):
    fields = ("size", "bytes", "__weakref__")
    return {f: getattr(facts, f) for f in facts.__slots__ if f not in fields}


@settings(max_examples=examples(50), deadline=None)
@given(HISTORIES, st.integers(1, 3), st.sampled_from(["s1", "s2", "s3"]))
def test_a_session_folded_from_its_part_of_the_log_is_what_the_whole_log_says(rows, kept, name):
    found, _, whole = folded_alone(rows, name, kept_max=kept)
    assert (found is None) == (whole is None)
    if found is not None:
        assert row_of(found) == row_of(whole)


def test_of_a_session_that_was_let_go_of_only_its_part_of_the_log_is_read():
    long = [message(f"s{n % 7}") for n in range(500)]
    rows = [*long, message("a"), mark("a", "end"), *long, message("a"), *long]
    found, lines, whole = folded_alone(rows, "a", kept_max=3)
    assert (found.events, row_of(found)) == (3, row_of(whole))
    assert lines <= 504
    found, lines, _ = folded_alone(rows[:-501], "a", kept_max=3)
    assert (found.events, lines) == (2, 2)
    assert folded_alone(rows, "nowhere", kept_max=3)[:2] == (None, 0)


def test_a_session_is_folded_alone_once_until_it_goes_on_or_something_is_forgotten():
    rows = [message("a"), message("b"), message("c"), message("a")]
    projector, log = SessionsProjector(COUNTER, kept_max=2), Journal(rows)
    state = fold(projector, log.lines)
    for _ in range(3):
        assert session_facts(log, state, ["a"], COUNTER)["a"].events == 2
    assert log.passes == 1
    more = [message("a"), {"kind": "forget", "data": {"forget": {"session": "a"}}}]
    for events, row in zip((3, 3), more, strict=True):
        log.extend([row])
        fold(projector, log.lines[-1:], state)
        assert session_facts(log, state, ["a"], COUNTER)["a"].events == events
    assert log.passes == 3
    assert session_facts(log, state, ["a"], COUNTER)["a"].forgotten


def test_a_session_older_than_all_that_is_remembered_of_them_is_still_found():
    rows = [message("a"), *(message(f"s{n}") for n in range(GONE_MAX + 2))]
    assert folded_alone(rows, "a", kept_max=1)[0].events == 1


def test_a_session_that_was_let_go_of_does_not_come_back_only_to_be_ended():
    rows = [message("a"), message("b"), message("c"), mark("a", "end")]
    assert list(folded(rows, kept_max=2).sessions) == ["b", "c"]


def test_figures_are_those_of_the_events():
    rows = [
        mark("s", "start", actor="coder", data={"status": "start", "branch": "main"}),
        message("s", "x" * 40, tokens=7, task="t"),
        {"kind": "tool_call", "session": "s", "data": {"tool": "Edit", "path": "a.py"}},
        {"kind": "tool_result", "session": "s", "data": {"status": "error", "path": "a.py"}},
        {"kind": "decision", "session": "s", "text": "y" * 40},
        message("other"),
    ]
    facts = folded(rows).sessions["s"]
    assert facts.kinds == {
        "session": 1, "message": 1, "tool_call": 1, "tool_result": 1, "decision": 1,
    }  # fmt: skip
    assert (facts.agent, facts.branch, facts.prompts, facts.errors) == ("coder", "main", 1, 1)
    assert facts.tokens == 7 + COUNTER.count("y" * 40), "what nobody counted is counted"
    assert facts.files == {"a.py": {2: 3, 3: 4}}, "by the number of an origin, the newest seq"
    assert list(facts.origins)[2:4] == [
        ("tool_call", "normal", "/global"), ("tool_result", "normal", "/global"),
    ]  # fmt: skip
    assert (facts.tasks, facts.agent_seq, facts.branch_seq) == ({"t": {1: 2}}, 1, 1)
    assert (facts.first_seq, facts.last_seq) == (1, 5)


def test_the_agent_is_the_last_who_started_it_else_the_first_in_whose_namespace_it_wrote():
    rows = [
        mark("a", "start", actor="w"),
        mark("a", "start", actor="x"),
        message("a", ns="/agent/y"),
        mark("a", "start"),
        message("b", ns="/agent/y", actor="Ann"),
        message("c", actor="Ann"),
    ]
    assert [facts.agent for facts in folded(rows).sessions.values()] == ["x", "y", None]


def test_an_event_in_an_ended_session_opens_it_again_and_a_summary_does_not():
    ended = [message("s"), mark("s", "end", data={"status": "end", "reason": "gap"})]
    summary = {"kind": "summary", "session": "s", "data": {"extract": True}}
    facts = folded([*ended, summary]).sessions["s"]
    assert (facts.ended, facts.reason, facts.summary) == (2, "gap", 3)
    assert facts.events == 2, "what memplane adds changes no figure"
    for row in (message("s"), mark("s", "start"), mark("s", "checkpoint")):
        assert folded([*ended, row]).sessions["s"].ended == 0


def test_an_end_is_not_the_last_thing_that_happened():
    rows = [message("s", id="m", ts="2026-01-01T00:00:00.000000Z"), mark("s", "end")]
    facts = folded(rows).sessions["s"]
    assert (facts.last_id, facts.last_ts) == ("m", "2026-01-01T00:00:00.000000Z")


@pytest.mark.parametrize("sensitivity", ["high", "secret"])
def test_files_and_tasks_of_what_not_everybody_may_see_are_counted_and_not_named(sensitivity):
    row = {"kind": "tool_call", "data": {"path": "a.py"}, "task": "t", "session": "s"}
    facts = folded([{**row, "sensitivity": sensitivity}]).sessions["s"]
    assert (facts.kinds, facts.files, facts.tasks) == ({"tool_call": 1}, {}, {})


def test_who_the_agent_is_stands_with_its_event_and_a_secret_one_is_not_kept():
    rows = [mark("s", "start", actor="coder", sensitivity="high"), message("s")]
    facts = folded(rows).sessions["s"]
    assert (facts.agent, facts.agent_seq) == ("coder", 1)
    assert folded([{**rows[0], "sensitivity": "secret"}]).sessions["s"].agent is None


def test_a_forgotten_session_is_marked_until_it_goes_on():
    touch = {"kind": "tool_call", "data": {"path": "a.py"}, "session": "s", "id": "cc:1"}
    for named in ({"session": "s"}, {"source": "cc"}):
        forget = {"kind": "forget", "data": {"forget": named}}
        assert folded([touch, forget]).sessions["s"].forgotten
        undo = {"kind": "forget", "data": {"forget": named, "undo": True}}
        assert not folded([touch, forget, undo]).sessions["s"].forgotten
        assert not folded([touch, forget, message("s")]).sessions["s"].forgotten
