"""To-do lists of agents become one task with a plan, however their client writes them."""

from hypothesis import given, strategies as st

from memplane.importers.plans import (
    PlanBook,
    change_of,
    changed,
    is_done,
    known_steps,
    plan_row,
    task_name,
)

TODOS = {
    "todos": [
        {"content": "sew the sails", "status": "completed", "activeForm": "Sewing"},
        {"content": "step the mast", "status": "in_progress", "activeForm": "Stepping"},
        {"content": "paint", "status": "pending", "activeForm": "Painting"},
    ]
}
STEPS = [
    {"step": "sew the sails", "state": "done"},
    {"step": "step the mast", "state": "doing"},
    {"step": "paint", "state": "todo"},
]


def test_a_list_that_is_written_whole_is_the_plan():
    assert changed([], change_of("TodoWrite", TODOS)) == STEPS
    codex = {"plan": [{"step": "paint", "status": "in_progress"}], "explanation": "why"}
    assert changed(STEPS, change_of("update_plan", codex)) == [{"step": "paint", "state": "doing"}]


def test_a_list_that_is_written_step_by_step_comes_to_the_same():
    plan = []
    for number, text in enumerate(("sew the sails", "paint"), 1):
        answer = {"task": {"id": str(number), "subject": text}}
        plan = changed(plan, change_of("TaskCreate", {"subject": text}, answer))
    moved = {"success": True, "taskId": "2", "statusChange": {"from": "pending", "to": "completed"}}
    plan = changed(plan, change_of("TaskUpdate", {"taskId": "2"}, moved))
    assert plan == [
        {"step": "sew the sails", "state": "todo", "id": "1"},
        {"step": "paint", "state": "done", "id": "2"},
    ]
    gone = change_of("TaskUpdate", {"taskId": "1", "status": "deleted"}, {"success": True})
    assert [step["id"] for step in changed(plan, gone)] == ["2"]
    listed = {
        "tasks": [{"id": "2", "subject": "b", "status": "pending"}, {"id": "1", "subject": "a"}]
    }
    assert [step["step"] for step in changed(plan, change_of("TaskList", {}, listed))] == ["a", "b"]


def test_what_failed_or_says_nothing_changes_nothing():
    assert change_of("TaskUpdate", {"taskId": "1", "status": "done"}, {"success": False}) is None
    assert change_of("TaskCreate", {"subject": "paint"}) is None
    assert change_of("TodoWrite", {"todos": "none"}) is None
    assert change_of("Read", TODOS) is None


def test_the_goal_stands_in_the_first_row_alone_and_again_when_a_new_list_begins():
    book = PlanBook()
    book.asked("s", "e1", "Please rig the boat for the race")
    change = change_of("TodoWrite", TODOS)
    first = book.row("s", change, "c1")
    assert (first["text"], first["refs"]) == ("rig the boat for the race", ["e1"])
    assert (first["task"], first["data"]["status"]) == (task_name("s"), "active")
    assert first["data"]["plan"] == STEPS
    assert book.row("s", change) is None
    done = change_of("TodoWrite", {"todos": [{"content": "paint", "status": "completed"}]})
    book.asked("s", "e2", "Please sweep the floor of the boathouse too")  # of the list at work
    assert (book.row("s", done)["text"], book.row("s", change)["text"]) == ("", first["text"])
    book.row("s", done)
    book.asked("s", "e3", "Please paint the mast of the boat white")
    again = book.row("s", change)
    assert (again["text"], again["refs"]) == ("paint the mast of the boat white", ["e3"])


def test_a_plan_whose_steps_are_all_done_is_done():
    row = plan_row("s", [{"step": "paint", "state": "done"}])
    assert row["data"]["status"] == "done"
    assert not is_done([])


def test_a_later_import_goes_on_where_the_state_was_left():
    book, later = PlanBook(), PlanBook()
    book.asked("s", "e1", "Please rig the boat for the race")
    book.row("s", change_of("TodoWrite", TODOS))
    later.begin(book.state(["s"]))
    assert later.row("s", change_of("TodoWrite", TODOS)) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["todos", "plan", "task", "id", "status", "content"]), inner
            )
        ),
    )
)
def test_whatever_a_client_writes_nothing_raises(given_):
    for tool in ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "update_plan"):
        change = change_of(tool, given_, given_)
        assert change is None or isinstance(changed(STEPS, change), list)
    PlanBook().begin(given_)
    known_steps(given_)


def test_a_list_that_is_emptied_was_given_up_and_one_that_was_done_stays_done():
    book = PlanBook()
    todos = {"todos": [{"content": "paint", "status": "pending"}]}
    assert book.row("s1", change_of("TodoWrite", todos))["data"]["status"] == "active"
    gone = book.row("s1", change_of("TodoWrite", {"todos": []}))
    assert (gone["data"]["status"], gone["data"]["plan"]) == ("cancelled", [])
    done = {"todos": [{"content": "paint", "status": "completed"}]}
    assert book.row("s1", change_of("TodoWrite", done))["data"]["status"] == "done"
    assert book.row("s1", change_of("TodoWrite", {"todos": []})) is None
    assert book.row("s2", change_of("TodoWrite", {"todos": []})) is None


def test_two_lists_of_a_session_each_have_the_goal_that_was_asked_before_them():
    book = PlanBook()
    book.asked("s1", "m1", "Please rig the mast of the Albatros")
    done = {"todos": [{"content": "rig", "status": "completed"}]}
    assert book.row("s1", change_of("TodoWrite", done))["text"] == "rig the mast of the Albatros"
    book.asked("s1", "m2", "Please paint the hull of the Albatros")
    todos = {"todos": [{"content": "paint", "status": "pending"}]}
    second = book.row("s1", change_of("TodoWrite", todos))
    assert (second["text"], second["refs"]) == ("paint the hull of the Albatros", ["m2"])
