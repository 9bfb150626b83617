"""`memory_task`: work of several steps, kept for the session that goes on with it."""

from hypothesis import given, settings, strategies as st
from jsonschema import validate

from memplane.mcp import tool_named
from memplane.wiring import init, open_plane
from tests.examples import examples

GOAL = "Retry payments that time out"
PLAN = ["find the cause", "add the retry", "test it"]


def task(action, **more):
    return "memory_task", {"action": action, **more}


def only(answer):
    (found,) = answer["tasks"]
    return found


def test_a_task_is_opened_planned_marked_closed_and_each_answer_says_how_it_stands(done):
    opened, listed, marked, closed, after = done(
        task("open", content=GOAL, plan=PLAN),
        task("list"),
        task("plan", done=[1], doing=[2], content="it was the pool"),
        task("done", content="merged"),
        task("list"),
    )
    assert only(opened) == {
        "task": "retry-payments-that-time-out", "state": "open", "active": True, "goal": GOAL,
        "steps": [f"todo: {step}" for step in PLAN],
    }  # fmt: skip
    assert listed["tasks"] == opened["tasks"]
    assert only(marked)["steps"] == [
        "done: find the cause",
        "doing: add the retry",
        "todo: test it",
    ]
    assert (only(closed)["state"], only(closed)["active"]) == ("done", False)
    assert after == {"tasks": [], "note": "no open task; open makes one"}


def test_what_it_records_is_the_clients_in_its_session(done, opened):
    done(task("open", content=GOAL, plan=PLAN), task("plan", done=[1]), task("done"))
    events = list(opened.events(kind="task"))
    assert len(events) == 3
    assert {(event.actor, event.session) for event in events} == {("heron", "s1")}
    assert opened.work.tasks.list(session="s2") == []


def test_to_open_or_close_it_again_adds_nothing(done, opened):
    done(task("open", content=GOAL), task("open", task="parser", content="Parse lists"))
    head = opened.head()
    again, named = done(task("open", content=f" {GOAL}\n"), task("open", task="parser"))
    assert only(again)["goal"] == GOAL
    assert again["note"] == named["note"] == "is open already; plan changes it"
    assert opened.head() == head
    done(task("done", task="parser", content="merged"))
    head = opened.head()
    closed, late = done(task("done", task="parser"), task("plan", task="parser", done=[1]))
    assert closed["note"] == late["note"] == "is done already; open it again to go on"
    assert opened.head() == head
    (reopened,) = done(task("open", task="parser", plan=["once more"]))
    assert (only(reopened)["state"], only(reopened)["steps"]) == ("open", ["todo: once more"])


def test_a_plan_that_is_replaced_is_marked_by_its_own_numbers(done, refused):
    done(task("open", content=GOAL, plan=PLAN))
    (found,) = done(task("plan", plan=["one"], failed=[1]))
    assert only(found)["steps"] == ["failed: one"]
    assert refused(*task("plan", done=[2])) == "done: found 2; expected 1 to 1"
    assert refused(*task("plan")).startswith("expected a text, a plan or steps to mark")
    assert refused(*task("plan", plan=["s"] * 33)) == "plan: expected at most 32, found 33"


def test_a_task_that_the_agent_may_not_see_is_not_there_and_is_not_written_to(done, opened):
    opened.work.tasks.open("secret", "Sell the boat", plan=["ask"], sensitivity="high")
    head = opened.head()
    asked = [task(action, task="secret", done=[1]) for action in ("plan", "done", "list")]
    for found in done(*asked, task("list")):
        assert found["tasks"] == []
        assert "boat" not in str(found)
    assert opened.head() == head
    (found,) = done(task("open", task="secret", content="Paint the boat"))
    assert (only(found)["task"], only(found)["goal"]) == ("secret-2", "Paint the boat")
    view = opened.work.tasks.get("secret")
    assert (view.goal, view.status) == ("Sell the boat", "open")


def test_nor_is_a_task_of_another_project(done, projects):
    here, there = projects("app"), projects("web")
    done(task("open", task="retry", content="Retry in the web"), open_here=there)
    found = done(
        task("list"), task("list", task="retry"), task("done", task="retry"),
        task("open", task="retry", content="Retry in the app"), task("list"), open_here=here,
    )  # fmt: skip
    assert "in the web" not in str(found)
    assert [one["tasks"] for one in found[:3]] == [[], [], []]
    assert only(found[4])["task"] == "retry"  # each project has its own names
    (left,) = done(task("list"), open_here=there)
    assert (only(left)["task"], only(left)["state"]) == ("retry", "open")


def test_answers_are_bounded_whatever_there_is(done, opened):
    for number in range(40):
        opened.work.tasks.open(f"t{number}", f"{number} " + "goal " * 200, plan=["step " * 60] * 8)
    (found,) = done(task("list"))
    left = 40 - len(found["tasks"])
    assert found["note"] == f"{left} older ones did not fit; name one"
    assert found["tasks"][0]["task"] == "t39"


def test_a_secret_in_a_goal_or_step_is_masked(done, home):
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    (found,) = done(task("open", content=f"use {token} now", plan=[f"rotate {token}"]))
    assert token not in str(found)
    for file in home.rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes()


actions = st.lists(
    st.tuples(
        st.sampled_from(["open", "plan", "done", "list"]),
        st.fixed_dictionaries(
            {},
            optional={
                "task": st.sampled_from(["a", "b", "secret", "a b", "nope"]),
                "content": st.sampled_from(["Parse lists", "x", " ", "g" * 500]),
                "plan": st.lists(st.sampled_from(["one", "two", ""]), max_size=3),
                "done": st.lists(st.integers(0, 4), max_size=2),
                "doing": st.lists(st.integers(1, 2), max_size=1),
            },
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(10))
@given(asked=actions)
def test_any_run_of_calls_is_answered_within_the_schema_and_never_touches_what_is_hidden(
    tmp_path_factory, asked
):
    import anyio
    from mcp import Client

    from memplane.mcp.server import Serving, server_of
    from memplane.wiring import make_counter

    home = tmp_path_factory.mktemp("t") / "plane"
    with init(home, durability="os") as plane:
        plane.work.tasks.open("secret", "Sell the boat", plan=["ask"], sensitivity="high")
        before = plane.work.tasks.get("secret")
    serving = Serving(lambda: open_plane(home, durability="os"), make_counter, "agent", "s1")

    async def main():
        async with Client(server_of(serving)[0]) as client:
            return [
                await client.call_tool("memory_task", {"action": action, **more})
                for action, more in asked
            ]

    for result in anyio.run(main):
        assert "boat" not in result.model_dump_json()
        assert "a bug in memplane" not in result.content[0].text
        if not result.is_error:
            validate(result.structured_content, tool_named("memory_task").gives)
    with open_plane(home) as plane:
        after = plane.work.tasks.get("secret")
    assert after._replace(active=True, paragraph=before.paragraph) == before
