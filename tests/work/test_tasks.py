"""plane.work.tasks: what each call records, what it refuses, and what can be read back."""

import pytest

import memplane
from memplane.errors import InputError, NotFoundError


def test_each_change_is_one_event_in_the_namespace_of_its_task(plane):
    before = plane.record("a first event").seq
    plane.work.tasks.open("t", "goal", plan=["one", "two"], specs=["/spec/x", "y"], session="s")
    plane.work.tasks.update("t", "a note", done=[1], doing=[2])
    plane.work.tasks.block("t", "why")
    plane.work.tasks.switch("t", session="s")
    plane.work.tasks.done("t", "merged")
    events = list(plane.events(after=before))
    assert [(e.kind, e.ns, e.task, e.session, e.text) for e in events] == [
        ("task", "/task/t", "t", "s", "goal"),
        ("task", "/task/t", "t", None, "a note"),
        ("task", "/task/t", "t", None, "why"),
        ("task", "/task/t", "t", "s", ""),
        ("task", "/task/t", "t", None, "merged"),
    ]
    plan = [{"step": "one", "state": "todo"}, {"step": "two", "state": "todo"}]
    assert [e.data for e in events] == [
        {"status": "open", "plan": plan, "specs": ["x", "y"]},
        {"steps": {"doing": [2], "done": [1]}},
        {"status": "blocked", "reason": "why"},
        {"status": "active"},
        {"status": "done"},
    ]


def test_every_field_of_an_event_can_be_given(plane):
    receipt = plane.work.tasks.open(
        "t", "goal", actor="builder", tags=["x"], id="mine", data={"branch": "main"}
    )
    event = receipt.event
    assert (event.actor, event.tags, event.id) == ("builder", ("x",), "mine")
    assert event.data == {"branch": "main", "status": "open"}


def test_a_view_tells_what_is_known_of_the_task(plane):
    opened = plane.work.tasks.open(
        "t", "Ship it. At last.", plan=["one", "two"], specs=["x"], session="s"
    )
    plane.work.tasks.update("t", done=[1])
    plane.record("We keep it", kind="decision", session="s")
    plane.record("red", kind="tool_result", data={"tool": "Bash", "status": "error"}, session="s")
    last = plane.work.tasks.update("t", "a note")
    view = plane.work.tasks.get("t")
    assert (view.id, view.status, view.active, view.goal) == (
        "t",
        "open",
        True,
        "Ship it. At last.",
    )
    assert [tuple(step) for step in view.plan] == [("one", "done"), ("two", "todo")]
    assert (view.specs, view.sessions) == (("x",), ("s",))
    assert (view.decisions, view.failures, view.files) == (("We keep it",), ("red",), ())
    assert (view.opened_seq, view.changed_seq) == (opened.seq, last.seq)
    assert (view.title, view.tags) == ("Ship it. At last.", ())
    assert (view.created, view.updated) == (opened.event.ts, last.event.ts)
    assert view.short == "Ship it. … Failing Bash: red."
    assert view.tokens == plane.context.counter(plane.upkeep.policies).count(view.paragraph)
    assert opened.id in view.events
    assert view.as_json()["plan"][0] == {"text": "one", "state": "done"}


def test_the_short_digest_is_a_sentence_or_two(plane):
    plane.work.tasks.open("t", "Ship it")
    assert plane.work.tasks.get("t").short == "Ship it."
    plane.work.tasks.update("t", plan=["write tests", "port"])
    assert plane.work.tasks.get("t").short == "Ship it. Next, step 1 of 2: write tests."
    plane.work.tasks.update("t", done=[1], doing=[2])
    assert plane.work.tasks.get("t").short == "Ship it. Doing step 2 of 2: port."
    plane.work.tasks.update("t", done=[2])
    assert plane.work.tasks.get("t").short == "Ship it. All steps done."
    plane.work.tasks.block("t", "no key. Ask Ada.")
    assert plane.work.tasks.get("t").short == "Ship it. Blocked: no key. …"
    plane.work.tasks.switch("t")
    plane.work.tasks.done("t", cancelled=True)
    assert plane.work.tasks.get("t").short == "Ship it. Cancelled."
    plane.work.tasks.open("long", "word " * 60)
    assert plane.work.tasks.get("long").short.endswith("word …")
    assert len(plane.work.tasks.get("long").short) < 170


# --- names ---


def test_a_goal_alone_makes_the_id(plane):
    receipt = plane.work.tasks.open("Parse Nested lists, without recursion!")
    assert receipt.event.task == "parse-nested-lists-without-recursion"
    assert receipt.event.text == "Parse Nested lists, without recursion!"
    again = plane.work.tasks.open("Parse Nested lists, without recursion!")
    assert again.event.task == "parse-nested-lists-without-recursion-2"
    long = plane.work.tasks.open("many words " * 30).event.task
    assert len(long) <= 48
    assert len(plane.work.tasks.open("many words " * 30).event.task) <= 48
    assert plane.work.tasks.open("? !").event.task == "task"
    assert plane.work.tasks.open("Ünïcode wörds").event.task == "ünïcode-wörds"


def test_an_id_made_of_a_goal_holds_nothing_that_the_policy_masks(plane):
    receipt = plane.work.tasks.open("Rotate password: hunter2swordfish today")
    assert "hunter2swordfish" not in receipt.event.task
    assert "hunter2swordfish" not in receipt.event.text


def test_an_id_made_of_a_goal_is_none_that_was_closed_long_ago(plane):
    plane.work.tasks.open("ship it")
    plane.work.tasks.done("ship-it")
    for number in range(130):
        plane.record("x", kind="task", task=f"t{number}", data={"status": "done"})
    assert plane.upkeep.hotset().head == plane.head().seq
    assert plane.work.tasks.open("ship it").event.task == "ship-it-2"


def test_a_task_that_is_open_cannot_be_opened_and_one_that_is_closed_can(plane):
    plane.work.tasks.open("t", "goal")
    with pytest.raises(InputError) as error:
        plane.work.tasks.open("t")
    assert str(error.value) == "name: task 't' is open already; update it, or switch to it"
    plane.work.tasks.done("t")
    plane.work.tasks.open("t")
    view = plane.work.tasks.get("t")
    assert (view.status, view.goal) == ("open", "goal")


# --- what is refused ---


def test_an_unknown_task_is_named_with_the_one_that_was_meant(plane):
    plane.work.tasks.open("parser", "goal")
    for call in (plane.work.tasks.get, plane.work.tasks.switch, plane.work.tasks.done):
        with pytest.raises(NotFoundError) as error:
            call("praser")
        assert str(error.value) == "no task 'praser'; did you mean 'parser'?"
    with pytest.raises(NotFoundError) as error:
        plane.work.tasks.get("zzz")
    assert str(error.value) == "no task 'zzz'"


def test_what_cannot_be_taken_is_refused_and_nothing_is_stored(plane):
    plane.work.tasks.open("t", "goal", plan=["one"])
    plane.work.tasks.open("closed", "goal")
    plane.work.tasks.done("closed")
    before = plane.head().seq
    refused = {
        "done: found 2; expected 1 to 1": lambda: plane.work.tasks.update("t", done=[2]),
        "doing: found 0; expected 1 to 1": lambda: plane.work.tasks.update("t", doing=[0]),
        "expected a text, a plan or steps to mark, found none": lambda: plane.work.tasks.update("t"),
        "reason: expected why it is blocked, found nothing": lambda: plane.work.tasks.block("t", " "),
        "id: task 'closed' is done; open it again first": lambda: plane.work.tasks.switch("closed"),
        "name: expected a name without blanks, found 'a b'": lambda: plane.work.tasks.open("a b", "goal"),
        "plan: expected a list of at most 32 steps, found 33 steps":
            lambda: plane.work.tasks.open("u", plan=["x"] * 33),
        "plan: expected the words of a step, found ' '": lambda: plane.work.tasks.open("u", plan=[" "]),
        "specs: expected the name of a spec, found '/spec/'":
            lambda: plane.work.tasks.open("u", specs=["/spec/"]),
    }  # fmt: skip
    for message, call in refused.items():
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value) == message
    assert plane.head().seq == before
    plane.work.tasks.open("empty")
    with pytest.raises(InputError, match="the task has none"):
        plane.work.tasks.update("empty", done=[1])


# --- reading ---


def test_a_list_holds_the_open_tasks_newest_first_and_with_all_the_closed_ones_too(plane):
    for name in ("a", "b", "c"):
        plane.work.tasks.open(name, f"goal of {name}")
    plane.work.tasks.done("b")
    plane.work.tasks.update("a", "news")
    assert [view.id for view in plane.work.tasks.list()] == ["a", "c"]
    assert [(v.id, v.status) for v in plane.work.tasks.list(all=True)] == [
        ("a", "open"), ("b", "done"), ("c", "open"),
    ]  # fmt: skip
    assert [view.id for view in plane.work.tasks.list() if view.active] == ["a"]


def test_a_task_closed_long_ago_is_read_from_the_log_with_what_happened_in_it(plane):
    plane.work.tasks.open("old", "the oldest goal", plan=["one"])
    plane.record("We keep it", kind="decision")
    plane.work.tasks.done("old", "merged")
    assert plane.work.tasks.get("old").decisions == ("We keep it",)
    for number in range(130):
        plane.record("x", kind="task", task=f"t{number}", data={"status": "done"})
    assert "old" not in {view.id for view in plane.work.tasks.list(all=True)}
    view = plane.work.tasks.get("old")
    assert (view.status, view.goal, view.reason) == ("done", "the oldest goal", "merged")
    assert view.decisions == ("We keep it",)
    assert view.short == "the oldest goal. Done: merged."


def test_a_task_that_a_channel_may_not_see_is_no_part_of_its_answers(plane):
    plane.work.tasks.open("t", "quokka", sensitivity="high")
    assert plane.work.tasks.get("t").goal == "quokka"
    assert plane.work.tasks.list(channel="public") == []
    with pytest.raises(NotFoundError, match=r"^no task 't'$"):
        plane.work.tasks.get("t", channel="public")
    with pytest.raises(InputError, match="unknown channel"):
        plane.work.tasks.get("t", channel="nobody")


def test_reading_tasks_writes_nothing(plane):
    plane.work.tasks.open("t", "goal")
    before = plane.head()
    plane.work.tasks.list(all=True)
    plane.work.tasks.get("t")
    assert plane.head() == before


def test_tasks_are_the_same_after_a_rebuild_and_in_another_process(plane):
    plane.work.tasks.open("t", "goal", plan=["one"], session="s")
    plane.record("We keep it", kind="decision", session="s")
    plane.work.tasks.block("t", "why")
    view = plane.work.tasks.get("t")
    plane.upkeep.rebuild()
    assert plane.work.tasks.get("t") == view
    assert (plane.home / "projections" / "tasks.json").exists()
    assert plane.upkeep.differing() == []
    with memplane.open(plane.home) as other:
        assert other.work.tasks.get("t") == view


def test_two_sessions_each_work_on_a_task_of_their_own(plane):
    plane.work.tasks.open("a", "goal of a", session="s1")
    plane.work.tasks.open("b", "goal of b", session="s2")
    plane.record("of a", kind="decision", session="s1")
    plane.record("of b", kind="decision", session="s2")
    assert plane.work.tasks.get("a").decisions == ("of a",)
    assert plane.work.tasks.get("b").decisions == ("of b",)
    assert [v.id for v in plane.work.tasks.list(session="s1") if v.active] == ["a"]
    plane.work.tasks.done("a", session="s1")
    assert [v.id for v in plane.work.tasks.list(session="s2") if v.active] == ["b"]


def test_a_task_without_a_goal_is_there_all_the_same(plane):
    plane.work.tasks.open("parser")
    (view,) = plane.work.tasks.list()
    assert (view.id, view.goal, view.active) == ("parser", "", True)
    assert plane.work.tasks.get("parser").paragraph == "task parser (active): (no goal to show)\n"
    assert "task parser (active)" in plane.pack("x").text
    plane.work.tasks.update("parser", "Parse nested lists")
    assert plane.work.tasks.get("parser").goal == "Parse nested lists"


@pytest.mark.parametrize("gone", ["forget", "expire"])
def test_an_artifact_that_is_gone_is_in_no_task(plane, gone):
    plane.work.tasks.open("t", "goal")
    until = {"valid_until": "2020-01-01T00:00:00Z"} if gone == "expire" else {}
    data = {"path": "report.pdf"}
    plane.record("a report", kind="artifact", task="t", id="art", data=data, **until)
    if gone == "forget":
        assert plane.work.tasks.get("t").artifacts == ("report.pdf",)
        plane.forget(id="art")
    assert plane.work.tasks.get("t").artifacts == ()


def test_a_name_that_the_channel_may_not_know_is_not_offered(plane):
    plane.work.tasks.open("fire-bob", "goal", sensitivity="high")
    with pytest.raises(NotFoundError) as error:
        plane.work.tasks.get("fire-bo", channel="public")
    assert "fire-bob" not in str(error.value)


@pytest.mark.parametrize(
    "act",
    [
        lambda tasks: tasks.open(None),
        lambda tasks: tasks.open("   "),
        lambda tasks: tasks.open("q", "g", plan=5),
        lambda tasks: tasks.open("q", "g", plan="abc"),
        lambda tasks: tasks.open("q", "g", specs="abc"),
        lambda tasks: tasks.open("q", "g", specs=[5]),
        lambda tasks: tasks.open("q", "g", data=[1]),
        lambda tasks: tasks.open("q", "g", kind="fact"),
        lambda tasks: tasks.get(5),
        lambda tasks: tasks.update("t", done=1),
        lambda tasks: tasks.update("t", 5),
        lambda tasks: tasks.block("t", None),
    ],
)
def test_a_value_of_another_type_is_refused_and_nothing_is_stored(plane, act):
    plane.work.tasks.open("t", "goal", plan=["one"])
    before = plane.head().seq
    with pytest.raises(InputError):
        act(plane.work.tasks)
    assert plane.head().seq == before


def test_tasks_that_only_the_log_has_cost_no_look_at_it_until_they_are_named(plane):
    for number in range(130):
        plane.work.tasks.open(f"t{number}", "goal")
        plane.work.tasks.done(f"t{number}")
    table = plane.context.caught_up().tasks.state.tables[""]
    assert "t0" in table.gone
    assert not table.only_in_log("another")
    assert plane.work.tasks.get("t0").status == "done"
    plane.work.tasks.open("t0")
    assert [view.id for view in plane.work.tasks.list()] == ["t0"]
    assert "t0" not in plane.context.caught_up().tasks.state.tables[""].gone


def test_a_task_has_a_title_times_and_the_tags_that_were_given_last(plane, clock):
    opened = plane.work.tasks.open("t", "Ship it\nwith a long tail", tags=["release", "q3"])
    clock.now = "2026-01-06T12:00:00.000000Z"
    plane.work.tasks.update("t", "a note")
    plane.work.tasks.open("bare")
    view = plane.work.tasks.get("t")
    assert (view.title, view.tags) == ("Ship it", ("release", "q3"))
    assert (view.created, view.updated) == (opened.event.ts, clock.now)
    assert plane.work.tasks.get("bare").title == "bare"
    plane.work.tasks.done("t", tags=["shipped"])
    for again in (plane, memplane.open(plane.home)):
        fields = again.work.tasks.get("t").as_json()
        assert (fields["title"], tuple(fields["tags"])) == ("Ship it", ("shipped",))
        assert again.work.tasks.list(all=True)[-1].tags in (("shipped",), ())
    long = plane.work.tasks.open("long", "x" * 200)
    assert plane.work.tasks.get("long").title == "x" * 79 + "…"
    assert long.seq


def test_times_and_tags_of_a_task_tell_nothing_of_what_is_hidden(plane, clock):
    opened = plane.work.tasks.open("t", "Ship it", tags=["release"])
    clock.now = "2026-01-06T12:00:00.000000Z"
    plane.work.tasks.update("t", "hidden words", sensitivity="high", tags=["hidden"])
    owner, public = plane.work.tasks.get("t"), plane.work.tasks.get("t", channel="public")
    assert (owner.updated, owner.tags) == (clock.now, ("hidden",))
    assert (public.updated, public.tags) == (opened.event.ts, ("release",))


def test_what_is_hidden_takes_no_words_from_a_task(plane):
    hide = {"sensitivity": "high"}
    plane.work.tasks.open("t", "Ship it", plan=["write", "test"], specs=["public"])
    plane.work.tasks.update("t", "half way", done=[1])
    before = plane.work.tasks.get("t", channel="public")
    plane.work.tasks.update("t", "hidden", plan=["other"], tags=["hidden"], **hide)
    plane.work.tasks.update("t", failed=[1], **hide)
    plane.record("hidden", kind="task", task="t", data={"specs": []}, **hide)
    plane.record("hidden goal", kind="task", task="t", data={"status": "open"}, **hide)
    assert plane.work.tasks.get("t", channel="public") == before
    owner = plane.work.tasks.get("t")
    assert (owner.goal, owner.specs) == ("hidden goal", ())
    assert owner.plan == (("other", "failed"),)
    plane.work.tasks.update("t", doing=[2], sensitivity="normal")
    after = plane.work.tasks.get("t", channel="public")
    assert [step.state for step in after.plan] == ["done", "doing"]
    assert plane.work.tasks.list(channel="public") == memplane.open(plane.home).work.tasks.list(
        channel="public"
    )


def test_a_task_that_is_active_out_of_sight_is_active_for_those_who_see_it(plane):
    plane.work.tasks.open("t", "Ship it", session="s")
    plane.work.tasks.open("u", "Hide it", session="s", sensitivity="high")
    plane.work.tasks.switch("u", session="s", sensitivity="high")
    assert [view.active for view in plane.work.tasks.list(session="s")] == [True, False]
    assert [view.active for view in plane.work.tasks.list(session="s", channel="public")] == [True]
