"""There is one kind of decision: what was recorded as one, and what a user said as one."""

import pytest

from memplane.errors import InputError


def texts(plane):
    return [event.text for event in plane.work.decisions()]


def test_what_a_user_says_with_decision_is_in_force(plane):
    plane.record("Decision: the hull is red", role="user")
    plane.record("We keep oak", kind="decision")
    assert texts(plane) == ["Decision: the hull is red", "We keep oak"]
    assert "the hull is red" in plane.pack("which paint?").text


@pytest.mark.parametrize("role", ["assistant", "tool", "system", None])
def test_what_others_say_so_is_not(plane, role):
    plane.record("Decision: the hull is red", role=role)
    assert texts(plane) == []


@pytest.mark.parametrize(
    "text",
    [
        "Ann wrote:\n> Decision: the hull is red",
        "see this:\n```\nDecision: the hull is red\n```",
        "what was the decision: red?",
        "Decision: red\n" + "and many more words about the boat " * 30,
    ],
)
def test_what_is_quoted_or_said_beside_much_else_is_not(plane, text):
    plane.record(text, role="user")
    assert texts(plane) == []


def test_a_decision_gets_a_key_and_a_later_one_replaces_it(plane):
    said = plane.record("Decision: the hull is red", role="user")
    named = plane.work.name_decision(said.id, "hull.paint").event
    assert (named.kind, named.key, named.text) == (
        "decision",
        "hull.paint",
        "Decision: the hull is red",
    )
    assert [event.id for event in plane.work.decisions()] == [named.id]
    plane.record("The hull is green", kind="decision", key="hull.paint")
    assert texts(plane) == ["The hull is green"]


def test_only_a_decision_in_force_gets_one(plane):
    said = plane.record("the hull is red", role="user")
    with pytest.raises(InputError, match="is no decision but a message"):
        plane.work.name_decision(said.id, "hull.paint")
    decided = plane.record("We keep oak", kind="decision")
    with pytest.raises(InputError, match="expected a name"):
        plane.work.name_decision(decided.id, "")
    plane.work.name_decision(decided.id, "mast.wood")
    with pytest.raises(InputError, match="no longer in force"):
        plane.work.name_decision(decided.id, "mast.wood")


def test_undo_takes_the_name_back(plane):
    decided = plane.record("We keep oak", kind="decision")
    plane.work.name_decision(decided.id, "mast.wood")
    plane.work.undo()
    assert [event.key for event in plane.work.decisions()] == [None]
