"""A plane marks what it records by the text, and what is marked counts where it should."""

import subprocess
import sys

import pytest
import yaml

import memplane

RULE = "Always give temperatures in Celsius."
FILLER = "Sure. The chart has wind, rain, sun and clouds, hour by hour, for the whole of the week."
OFF = {"markers": {"detect": False}}


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "home", durability="os") as plane:
        yield plane


def say(plane, **scoring):
    (plane.home / "policies" / "scoring.yaml").write_text(yaml.safe_dump({"version": 1, **scoring}))


def talk(plane, **first):
    """A conversation that begins with a rule and goes on about something else."""
    plane.record(RULE, role="user", session="s", id="rule", **first)
    for number in range(80):
        plane.record(f"{number}: draw a chart of the weather", role="user", session="s")
        plane.record(f"{number}: {FILLER}", role="assistant", session="s")


def shown(plane, query="how warm will the week be, by the chart of the weather?", budget=1500):
    block = plane.pack(query, budget=budget, intent="deep")
    return {name for entry in block.entries for name in entry.events}


def test_what_is_recorded_bears_the_markers_of_its_text(plane):
    event = plane.record("Decision: boats\nNever sail alone.", role="user").event
    assert event.markers == ("custom:instruction", "decision")
    assert event.data == {"marked": ["custom:instruction", "decision"]}
    assert plane.record("Error: no wind", role="tool").event.markers == ()


def test_markers_that_are_given_stay_as_they_are(plane):
    assert plane.record(RULE, role="user", markers=["goal"]).event.markers == ("goal",)
    silent = plane.record(RULE, role="user", markers=[]).event
    assert (silent.markers, silent.data) == ((), {"marked": []})


def test_many_rows_are_marked_like_one(plane):
    plane.record_many([{"text": RULE, "role": "user"}, {"text": RULE, "role": "assistant"}])
    assert [event.markers for event in plane.events(kind="message")] == [
        ("custom:instruction",),
        (),
    ]


def test_the_policy_of_now_decides_and_what_it_calls_otherwise_is_still_the_same_event(plane):
    first = plane.record(RULE, role="user", id="a")
    say(plane, **OFF)
    assert plane.record(RULE, role="user", id="a").duplicate
    assert plane.record("Never sail alone.", role="user", id="b").event.markers == ()
    say(plane, markers={"standing": {"custom:todo": {"todo": "^todo"}}})
    assert plane.record("todo sails", role="user", id="c").event.markers == ("custom:todo",)
    assert first.event.markers == ("custom:instruction",)


def test_under_a_broken_policy_the_tables_of_memplane_hold(plane):
    (plane.home / "policies" / "scoring.yaml").write_text("version: 1\nmarkers: 3\n")
    assert plane.record(RULE, role="user").event.markers == ("custom:instruction",)


def test_a_decision_that_says_constraint_is_protected_in_the_ledger(plane):
    plane.record("Constraint: no sails in winter", kind="decision", key="sails")
    [statement] = plane.context.caught_up().decisions.state.active()
    assert statement.event.markers == ("constraint",)


def test_a_standing_instruction_is_in_the_block_of_a_question_that_shares_no_word_with_it(plane):
    talk(plane)
    assert "rule" in shown(plane)
    say(plane, packing={"instruction_reserve": 0}, marker_boosts={"custom:instruction": 0})
    assert "rule" not in shown(plane)


def test_an_instruction_that_was_recorded_before_anybody_looked_counts_by_its_text(plane):
    say(plane, **OFF)
    talk(plane)
    assert plane.event("rule").markers == ()
    assert "rule" not in shown(plane)
    say(plane)
    assert "rule" in shown(plane)


def test_what_the_caller_called_unmarked_is_no_instruction_to_the_index_either(plane):
    talk(plane, markers=[])
    assert "rule" not in shown(plane)


@pytest.mark.parametrize("query", ["Can you draw the lake?", "What is the lake like?"])
def test_a_preference_counts_where_somebody_asks_for_help(plane, query):
    plane.record("I prefer the lake in blue", role="user", session="s", id="liked")
    plane.record("Noted", role="assistant", session="s")
    [hit] = [hit for hit in plane.search(query, 10) if hit.event.id == "liked"]
    assert (hit.parts["markers"] > 0) is query.startswith("Can you")


def test_what_people_tell_each_other_to_do_is_no_instruction_to_who_answers(plane):
    for number in range(20):
        plane.record(f"{number} lakes", role="user", actor="ann", session="s")
        plane.record(f"{number} boats", role="assistant", actor="bob", session="s")
    plane.record("Never forget the lake", role="user", actor="ann", session="s", id="told")
    [hit] = [hit for hit in plane.search("forget the lake", 50) if hit.event.id == "told"]
    assert hit.parts["markers"] == 0


def test_marking_takes_no_yaml_once_the_policies_were_read(plane):
    plane.record(RULE, role="user")
    code = (
        "import sys, memplane\n"
        f"with memplane.open({str(plane.home)!r}) as plane:\n"
        f"    print(plane.record({RULE!r}, role='user').event.markers)\n"
        "print([name for name in ('yaml', 'jsonschema', 'numpy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "('custom:instruction',)\n[]\n"
