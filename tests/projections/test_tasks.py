"""Tasks: what belongs to each, what is active where, and the law of every projector."""

import json

import pytest
from builders_histories import NAMES, SESSIONS, TASK_ROW, TEXT, task
from builders_journal import ROWS, Journal, from_elsewhere
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.tasks import BRIEF_MAX, DETAILED_MAX, Tasks
from tests.examples import examples, sampled

FILE_BYTES_MAX = 512 * 1024
PROJECTOR = Tasks()


def opened(id_, text="do it", **data):
    return task(id_, text, data={"status": "open", **data})


def result(status="error", *, tool="Bash", text="it broke", **fields):
    data = {"tool": tool, "status": status, **fields.pop("data", {})}
    return {"kind": "tool_result", "role": "tool", "text": text, "data": data, **fields}


def state_of(*rows):
    return fold(PROJECTOR, Journal(rows).lines)


def texts(quotes):
    return [quote.text for quote in quotes]


TOLD_ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["tool_call", "tool_result", "decision", "artifact", "message"]),
        "text": TEXT,
        "data": st.fixed_dictionaries(
            {},
            optional={
                "tool": st.sampled_from(["Bash", "Read"]),
                "status": st.sampled_from(["ok", "error", "fixed"]),
                "path": st.sampled_from(["a.py", "b.py", "c.py"]),
                "call": st.sampled_from(["c1", "c2", 3]),
            },
        ),
    },
    optional={
        "session": SESSIONS, "task": NAMES, "ns": st.sampled_from(["/task/t1", "/global"]),
        "key": st.sampled_from(["db", "#3"]),
        "refs": st.lists(st.integers(1, 24).map(lambda n: f"e{n}"), max_size=2).map(tuple),
        "markers": st.sampled_from([("failure",), ("decision",), ("goal",)]),
        "sensitivity": st.sampled_from(["high", "secret"]),
    },
)  # fmt: skip
HISTORY = st.lists(st.one_of(TASK_ROW, TOLD_ROW, TOLD_ROW, ROWS), max_size=50)


@settings(max_examples=examples(40), deadline=None)
@given(HISTORY)
def test_any_split_of_the_log_folds_to_the_same_bytes(rows):
    holds_the_law(PROJECTOR, Journal(rows).lines)


@settings(max_examples=examples(26), deadline=None)
@given(HISTORY)
def test_the_law_holds_where_the_bound_is_always_at_work(rows):
    holds_the_law(Tasks(bytes_max=3000), Journal(rows).lines)


@settings(max_examples=examples(26), deadline=None)
@given(HISTORY, st.sampled_from([3000, 10**9]))
def test_what_is_counted_is_what_is_held_and_never_less_than_what_is_written(rows, most):
    state = fold(Tasks(bytes_max=most), Journal(rows).lines)
    tasks = [*state.tasks.values(), *state.brief.values()]
    assert state.bytes == sum(t.size + sum(q.size for q in t.quotes()) for t in tasks)
    written = json.loads(Tasks().dump(state))
    rows_bytes = len(json.dumps([written["tasks"], written["brief"]], ensure_ascii=False).encode())
    assert rows_bytes <= state.bytes + 100


def flood(count, text):
    for n in range(count):
        name = f"{text[:100]}{n % 300}"
        yield opened(name, text, plan=[{"step": text}] * 40, specs=[text[:100]] * 20)
        yield {"kind": "decision", "text": text, "task": name, "session": f"{text[:100]}{n}"}
        yield result(text=text, task=name, data={"path": f"{text[:200]}{n}"})
        if n % 3 == 0:
            yield task(name, text, data={"status": "done"}, session=f"s{n}")


@pytest.mark.sized
@pytest.mark.parametrize(
    "text", sampled(['\x01\\"' * 900, "word " * 300, "\U0001f469" * 900, "x"], 4)
)
def test_the_file_stays_within_its_bound_whatever_is_recorded(text):
    state = state_of(*flood(900, text))
    assert len(PROJECTOR.dump(state)) <= FILE_BYTES_MAX
    assert len(state.tasks) <= DETAILED_MAX
    assert len(state.brief) <= BRIEF_MAX
    assert state.gone


@pytest.mark.sized
def test_the_law_holds_under_a_flood():
    holds_the_law(PROJECTOR, Journal(flood(150, "word " * 300)).lines)


# --- statuses and words ---


def test_the_text_that_opens_a_task_is_its_goal_and_later_ones_are_notes():
    state = state_of(opened("a", "the goal"), task("a", "a note"))
    assert state.tasks["a"].goal.text == "the goal"
    assert state.tasks["a"].note.text == "a note"


def test_an_event_without_a_status_opens_what_is_new_and_changes_nothing_else():
    state = state_of(task("a", "recorded by hand"), task("a", "more", data={"any": "thing"}))
    assert (state.tasks["a"].status, state.tasks["a"].goal.text) == ("open", "recorded by hand")
    assert state.active_in(None) is None
    blocked = state_of(opened("a"), task("a", "why", data={"status": "blocked"}), task("a", "hm"))
    assert blocked.tasks["a"].status == "blocked"
    assert blocked.tasks["a"].state.text == "why"


def test_a_task_without_the_field_is_named_by_its_namespace():
    row = {"kind": "task", "ns": "/task/a", "text": "goal"}
    assert state_of(row).tasks["a"].goal.text == "goal"
    assert not state_of({"kind": "task", "text": "of nothing"}).tasks


def test_a_closed_task_keeps_its_goal_and_how_it_ended():
    state = state_of(
        opened("a", "goal"), {"kind": "decision", "text": "d"},
        task("a", "merged", data={"status": "done"}),
    )  # fmt: skip
    brief = state.brief["a"]
    assert (brief.goal.text, brief.state.text, brief.decisions) == ("goal", "merged", [])
    assert not state.tasks


def test_a_closed_task_is_opened_again_with_its_goal_or_another():
    closed = [opened("a", "goal"), task("a", data={"status": "done"})]
    assert state_of(*closed, opened("a", "")).tasks["a"].goal.text == "goal"
    again = state_of(*closed, opened("a", "the rest")).tasks["a"]
    assert (again.goal.text, again.state, again.status) == ("the rest", None, "open")


def test_a_plan_may_be_given_whole_and_marked_by_number():
    state = state_of(
        opened("a", plan=["one", {"step": "two", "state": "doing"}, {"step": ""}]),
        task("a", data={"steps": {"done": [1, 9, True], "failed": "all", "doing": [2]}}),
    )
    plan = state.tasks["a"].plan
    assert plan.more == [["one", "todo"], ["two", "doing"]]
    assert {n: q.more[0] for n, q in state.tasks["a"].marks.items()} == {1: "done", 2: "doing"}
    replaced = state_of(opened("a", plan=["x"]), task("a", data={"steps": {"done": [1]}}),
                        task("a", data={"plan": ["y"]})).tasks["a"]  # fmt: skip
    assert (replaced.plan.more, replaced.marks) == ([["y", "todo"]], {})


# --- what belongs to a task ---


def test_events_belong_to_the_task_they_name_else_to_the_active_one_of_their_session():
    state = state_of(
        {**opened("a"), "session": "s1"}, {**opened("b"), "session": "s2"},
        {"kind": "decision", "text": "of a", "session": "s1"},
        {"kind": "decision", "text": "of b", "session": "s2"},
        {"kind": "decision", "text": "of b by name", "session": "s1", "task": "b"},
        {"kind": "decision", "text": "of b by namespace", "session": "s1", "ns": "/task/b"},
        {"kind": "decision", "text": "of none", "session": "s3"},
        {"kind": "decision", "text": "nor this"},
    )  # fmt: skip
    assert texts(state.tasks["a"].decisions) == ["of a"]
    assert texts(state.tasks["b"].decisions) == ["of b", "of b by name", "of b by namespace"]


def test_a_task_opened_without_a_session_is_everybodys_who_has_none_of_their_own():
    state = state_of(
        opened("a"), {**opened("b"), "session": "s1"},
        {"kind": "decision", "text": "x", "session": "s1"},
        {"kind": "decision", "text": "y", "session": "s2"}, {"kind": "decision", "text": "z"},
    )  # fmt: skip
    assert texts(state.tasks["a"].decisions) == ["y", "z"]
    assert texts(state.tasks["b"].decisions) == ["x"]


def test_open_makes_active_only_where_none_is_and_switch_always():
    switch = {"status": "active"}
    state = state_of(opened("a"), opened("b"))
    assert state.active_in(None) == "a"
    state = state_of(opened("a"), opened("b"), task("b", data=switch))
    assert state.active_in("any") == "b"
    state = state_of(opened("a"), opened("b"), {**task("b", data=switch), "session": "s"})
    assert (state.active_in("s"), state.active_in("t"), state.active_for(None)) == ("b", "a", "b")
    closed = state_of(opened("a"), opened("b"), task("b", data=switch),
                      task("b", data={"status": "done"}))  # fmt: skip
    assert closed.active_in(None) is None


def test_the_last_of_each_is_kept_in_log_order():
    rows = [{"kind": "decision", "text": f"d{n}"} for n in range(9)]
    rows += [result(text=f"f{n}", tool=f"tool{n}") for n in range(20)]
    rows += [{"kind": "tool_call", "text": "c", "data": {"tool": "Read", "path": f"{n % 9}.py"}}
             for n in range(20)]  # fmt: skip
    kept = state_of(opened("a"), *rows).tasks["a"]
    assert texts(kept.decisions) == ["d4", "d5", "d6", "d7", "d8"]
    assert texts(kept.failures) == [f"f{n}" for n in range(12, 20)]
    assert [quote.path for quote in kept.files] == [f"{n % 9}.py" for n in range(12, 20)]


# --- failures ---


def failures(*rows):
    return texts(state_of(opened("a"), *rows).tasks["a"].failures)


def test_a_failure_is_closed_by_the_same_tool_without_an_error():
    assert failures(result(text="f"), result("ok")) == []
    assert failures(result(text="f"), result("ok", tool="Read")) == ["f"]
    assert failures(result(text="f", data={"path": "a"}), result("ok", data={"path": "b"})) == ["f"]
    assert failures(result(text="f", data={"path": "a"}), result("ok")) == ["f"]
    assert failures(result(text="f"), result("ok", task="other")) == ["f"]


def call(id_, text):
    return {"kind": "tool_call", "text": text, "data": {"tool": "Bash", "call": id_}}


def of(id_, status, text=""):
    return result(status, text=text, data={"call": id_})


def test_a_failure_of_one_call_is_not_closed_by_another_call_of_the_tool():
    rows = [call("1", "Bash pytest"), of("1", "error", "red"), call("2", "Bash ls"), of("2", "ok")]
    assert failures(*rows) == ["red"]
    assert failures(*rows, call("3", "Bash pytest"), of("3", "ok")) == []


def test_a_result_that_names_no_call_closes_none_that_does():
    rows = [call("1", "Bash pytest"), of("1", "error", "red"), result("ok")]
    assert failures(*rows) == ["red"]


def test_calls_of_two_sessions_are_told_apart_though_they_share_a_name():
    mine = [{**row, "session": "s", "task": "a"} for row in
            (call("1", "Bash pytest"), of("1", "error", "red"), call("2", "Bash pytest"))]  # fmt: skip
    theirs = {**call("2", "Bash ls"), "session": "t", "task": "a"}
    ended = {**of("2", "ok"), "session": "s", "task": "a"}
    assert failures(*mine, theirs, ended) == []


def test_the_same_call_failing_again_stands_for_its_older_failure():
    rows = [call("1", "Bash pytest"), of("1", "error", "red"), call("2", "Bash pytest"),
            of("2", "error", "still red")]  # fmt: skip
    assert failures(*rows) == ["still red"]
    assert failures(result(text="one"), result(text="two")) == ["one", "two"]


def test_a_failing_line_goes_when_the_same_check_passes_in_other_words():
    red = "FAILED test_nested - expected 3 got 2"
    rows = [row for at, command in enumerate(("pytest", "pytest -x", "pytest a.py -q", "pytest a.py::b"))
            for row in (call(str(at), f'Bash command="{command}" description=n{at}'), of(str(at), "error", red))]  # fmt: skip
    assert failures(*rows) == [red]  # word for word the same: one line
    green = (call("9", 'Bash command="uv run pytest -x | tail -3"'), of("9", "ok", "12 passed"))
    assert failures(*rows, *green) == []
    still = (green[0], of("9", "ok", "1 failed, 11 passed"))  # the pipe hid the exit code
    assert failures(*rows, *still) == [red]
    other = (call("9", 'Bash command="ruff check ."'), of("9", "ok", "All checks passed!"))
    assert failures(*rows, *other) == [red]


def test_a_failure_out_of_sight_stands_for_none_in_sight():
    seen = [call("1", "Bash pytest"), of("1", "error", "red")]
    hidden = [{**row, "sensitivity": "high"} for row in (call("2", "Bash pytest"), of("2", "error", "red"))]  # fmt: skip
    assert failures(*seen, *hidden) == ["red", "red"]
    assert failures(*seen, *hidden, *hidden) == ["red", "red"]
    assert failures(*seen, *hidden, call("3", "Bash pytest"), of("3", "ok")) == []


@pytest.mark.parametrize("status", ["resolved", "fixed", "ok"])
def test_a_failure_is_closed_by_an_event_that_refers_to_it_and_says_so(status):
    broke = {"text": "it broke", "markers": ("failure",)}
    fixed = {"text": "mended", "refs": ("e2",), "data": {"status": status}}
    assert failures(broke) == ["it broke"]
    assert failures(broke, fixed) == []
    assert failures(broke, {**fixed, "data": {}}) == ["it broke"]
    assert failures(broke, {**fixed, "refs": ("e1",)}) == ["it broke"]


def test_the_end_of_a_long_failure_is_kept_with_its_beginning():
    (kept,) = failures(result(text="Traceback\n" + "frame\n" * 400 + "ValueError: 7"))
    assert kept.startswith("Traceback")
    assert kept.endswith("ValueError: 7")
    assert len(kept) == 400


# --- corrections ---


def test_what_is_superseded_leaves_the_task():
    keyed = {"kind": "decision", "text": "old", "key": "db"}
    state = state_of(opened("a"), keyed, {**keyed, "text": "new", "task": "b"})
    assert state.tasks["a"].decisions == []
    state = state_of(opened("a"), keyed, {**keyed, "text": "hidden", "sensitivity": "secret"})
    assert state.tasks["a"].decisions == []
    goal = state_of({**opened("a", "old"), "key": "k"}, {**task("a", "new"), "key": "k"})
    assert goal.tasks["a"].goal.text == "new"


@pytest.mark.parametrize(
    "named", [{"ids": ["e2"]}, {"session": "s"}, {"source": "e2"}, {"key": "db", "ns": "/global"}]
)
def test_a_forget_flags_what_it_names_and_can_be_taken_back(named):
    decided = {"kind": "decision", "text": "d", "session": "s", "key": "db", "id": "e2"}
    if "source" in named:
        decided["id"] = "e2:1:1"
    forget = {"kind": "forget", "data": {"forget": named}}
    rows = [opened("a"), decided, forget]
    (gone,) = state_of(*rows).tasks["a"].decisions
    assert gone.forgotten
    undo = {"kind": "forget", "data": {"forget": named, "undo": True}}
    (back,) = state_of(*rows, undo).tasks["a"].decisions
    assert not back.forgotten


def test_nothing_of_a_secret_is_kept_and_its_status_still_counts():
    secret = {"sensitivity": "secret"}
    state = state_of(
        opened("a", "goal"),
        {"kind": "decision", "text": "hush", **secret}, result(text="hush", **secret),
        {**task("a", "hush", data={"status": "done", "specs": ["hush"], "plan": ["hush"]}), **secret},
    )  # fmt: skip
    assert state.brief["a"].status == "done"
    assert b"hush" not in PROJECTOR.dump(state)


def test_a_task_that_is_kept_for_reading_has_its_details_after_it_was_closed():
    rows = [opened("a"), {"kind": "decision", "text": "d"}, task("a", data={"status": "done"})]
    rows += [opened(f"t{n}") for n in range(200)]
    state = fold(Tasks(keep="a"), Journal(rows).lines)
    assert texts(state.get("a").decisions) == ["d"]
    assert "a" not in fold(Tasks(), Journal(rows).lines).tasks


def test_an_open_task_that_was_crowded_out_keeps_its_goal_and_comes_back():
    rows = [opened("a", "the first")] + [opened(f"t{n}") for n in range(DETAILED_MAX)]
    state = state_of(*rows)
    assert state.brief["a"].goal.text == "the first"
    assert [t.id for t in state.open()][-1] == "a"
    back = state_of(*rows, task("a", "a note"))
    assert (back.tasks["a"].goal.text, back.tasks["a"].note.text) == ("the first", "a note")


def test_what_one_group_says_of_tasks_takes_no_bytes_from_another():
    def rows(hidden):
        for n in range(6):
            yield {
                "kind": "task",
                "task": f"t{n}",
                "text": f"goal {n}",
                "data": {"plan": ["a", "b"]},
            }
        for n in range(60 * hidden):
            row = {"kind": "task", "task": f"t{n % 9}", "sensitivity": "high", "text": f"more {n}"}
            yield {**row, "data": {"plan": ["x" * 200] * 8}, "tags": ["y" * 100]}
        yield {"kind": "task", "task": "t0", "text": "the last word"}

    bare, full = (
        fold(Tasks(bytes_max=16_000), Journal(list(rows(hidden))).lines) for hidden in (0, 1)
    )
    seen = full.seen_by(lambda high, _: not high)
    assert full.bytes <= 1.5 * 16_000
    for one in bare.tasks.values():
        told = seen.get(one.id)
        assert [quote.text for quote in told.quotes()] == [quote.text for quote in one.quotes()]
        assert told.plan.more == one.plan.more


SAID_OF_A_TASK = st.fixed_dictionaries(
    {
        "kind": st.just("task"),
        "task": st.sampled_from(["t1", "t2"]),
        "text": st.sampled_from(["", "one", "two", "three"]),
    },
    optional={
        "data": st.fixed_dictionaries(
            {},
            optional={
                "plan": st.lists(st.sampled_from(["read", "write", "test"]), max_size=3),
                "steps": st.dictionaries(
                    st.sampled_from(["done", "doing"]), st.just([1, 2]), max_size=1
                ),
                "specs": st.lists(st.sampled_from(["x", "y"]), max_size=1),
            },
        ),
        "tags": st.sampled_from([("a",), ("b",)]),
    },
)
HIDDEN_OF_A_TASK = SAID_OF_A_TASK.map(lambda row: {**row, "sensitivity": "high"})


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.one_of(
            SAID_OF_A_TASK,
            from_elsewhere(SAID_OF_A_TASK),
            HIDDEN_OF_A_TASK,
            from_elsewhere(HIDDEN_OF_A_TASK),
        ),
        max_size=12,
    )
)
def test_what_a_reader_may_not_see_takes_no_words_from_a_task_whenever_it_was_said(rows):
    rows = [
        {"ts": f"2026-01-01T00:00:{number:02}.000000Z", **row, "id": f"n{number}"}
        for number, row in enumerate(rows)
    ]

    def words(task):
        singles = ("goal", "note", "plan", "specs", "tags")
        quotes = {name: getattr(task, name) for name in singles}
        marks = {step: (one.id, one.more) for step, one in task.marks.items()}
        said = {name: one and (one.id, one.text, one.more) for name, one in quotes.items()}
        for name in ("plan", "specs"):  # an empty list shows as none does
            if said[name] is not None and not said[name][2]:
                said[name] = None
        return {**said, "marks": marks}

    def seen(rows):
        state = state_of(*rows).seen_by(lambda high, _: not high)
        return {one.id: words(one) for one in state.newest()}

    visible = seen(row for row in rows if "sensitivity" not in row)
    assert {id_: one for id_, one in seen(rows).items() if id_ in visible} == visible


def test_an_older_word_from_another_plane_stands_for_those_who_may_not_see_the_newer_one():
    def at(second, row):
        origin = {"plane": "other", "seq": 7}
        time = f"2026-01-01T00:00:{second:02}.000000Z"
        return {**row, "ts": time, "data": {**row.get("data", {}), "origin": origin}}

    hidden = {**task("t", "a hidden note"), "sensitivity": "high"}
    older = at(10, task("t", "an older note", data={"plan": ["read"]}))
    state = state_of(at(1, opened("t", "goal")), at(20, hidden), older)
    assert state.get("t").note.text == "a hidden note"
    seen = state.seen_by(lambda high, _: not high).get("t")
    assert (seen.note.text, seen.plan.more) == ("an older note", [["read", "todo"]])
    closed = at(11, task("t", "given up", data={"status": "cancelled"}))
    done = {**at(20, task("t", "ready", data={"status": "done"})), "sensitivity": "high"}
    state = state_of(at(1, opened("t", "goal")), done, closed)
    assert state.get("t").status == "done", "a status acts for all: the later one is in force"
