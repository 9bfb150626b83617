"""Marked turns of the past have a part of the evidence of their own, whatever is asked."""

import pytest
import yaml

from tests.examples import paired

CONSTRAINT = "Constraint: module 4 must not import module 5"


def shown(block) -> set[str]:
    return {id_ for entry in block.entries for id_ in (*entry.events, *entry.parts)}


def turns(plane, count, session, words="about herons and their nests in the tall trees"):
    plane.record_many(
        {
            "text": f"{session} turn {number} {words}",
            "role": "user" if number % 5 == 0 else "assistant",
            "session": session,
        }
        for number in range(count)
    )


@pytest.fixture
def past(plane):
    """One constraint among the turns of ten other sessions; returns its id."""
    id_ = plane.record(CONSTRAINT, role="user", session="o").id
    for number in range(10):
        turns(plane, 50, f"o{number}")
    plane.record(kind="session", session="s", data={"status": "start"})
    return id_


@pytest.mark.parametrize("query", ["continue", "where do herons nest?"])
@pytest.mark.parametrize(("session", "budget"), paired([None, "s"], [1000, 2000, 8000], 2))
def test_a_constraint_of_another_session_is_in_the_block_whatever_is_asked(
    plane, past, query, session, budget
):
    if session is not None:
        plane.record(query, role="user", session=session)
    block = plane.pack(query, session=session, budget=budget, intent="deep")
    assert past in shown(block)
    assert block.tokens <= budget


def test_a_fast_pack_takes_them_from_what_is_recent(plane):
    id_ = plane.record(CONSTRAINT, role="user", session="o").id
    turns(plane, 120, "o")
    assert id_ in shown(plane.pack("continue", session="s", budget=2000, intent="fast"))


def test_the_part_is_the_policys_and_none_is_none(plane, past):
    policy = plane.home / "policies" / "scoring.yaml"
    policy.write_text(yaml.safe_dump({"version": 1, "packing": {"marked_reserve": 0}}))
    assert past not in shown(plane.pack("continue", budget=2000, intent="deep"))


@pytest.mark.parametrize("intent", ["deep", "fast"])
def test_they_take_no_more_than_their_part_and_the_rest_are_omissions_for_the_budget(plane, intent):
    ids = [
        plane.record(f"{marker.title()}: heron {number} stays", role="user", session="o",
                     markers=[marker]).id
        for number in range(20) for marker in ("failure", "goal", "constraint")
    ]  # fmt: skip
    turns(plane, 120, "o1")
    block = plane.pack("continue", session="s", budget=2000, intent=intent)
    there = [entry for entry in block.entries if entry.section == "retrieved_evidence"]
    assert there
    assert sum(entry.tokens for entry in there) <= 2000 * 6 // 100
    assert {*there[-1].events} <= {*ids[2::3]}, "what is lifted most first, the newest of them"
    assert ids[-1] in shown(block)
    left = {one.id: one for one in block.omissions}
    assert {left[id_].reason for id_ in ids if id_ not in shown(block)} == {"budget"}
    assert all(one.short_by > 0 for one in left.values() if one.reason == "budget")


@pytest.mark.parametrize("words", [60, 400])
def test_one_that_does_not_fit_whole_takes_no_room_and_is_an_omission_for_the_budget(plane, words):
    text = f"Goal: count the herons {'reeds ' * words}"
    id_ = plane.record(text, role="user", session="o").id
    turns(plane, 300, "o1")
    block = plane.pack("continue", budget=1000, intent="deep")
    assert id_ not in shown(block)
    assert {one.reason for one in block.omissions if one.id == id_} == {"budget"}
    policy = plane.home / "policies" / "scoring.yaml"
    policy.write_text(yaml.safe_dump({"version": 1, "packing": {"marked_reserve": 0}}))
    assert plane.pack("continue", budget=1000, intent="deep").text == block.text


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "tool", "kind": "tool_result", "markers": ["failure"]},
        {"role": "user", "markers": ["custom:note"]},
        {"role": "user", "sensitivity": "high", "markers": ["constraint"]},
    ],
)
def test_tools_other_marks_and_what_is_hidden_have_no_part_of_it(plane, fields):
    id_ = plane.record("nothing leaves the reeds", session="o", **fields).id
    turns(plane, 250, "o1")
    block = plane.pack("continue", budget=2000, intent="deep", channel="public")
    assert id_ not in shown(block)
    assert id_ not in {one.id for one in block.omissions}


def test_what_is_said_again_is_shown_once_and_what_is_taken_back_not_at_all(plane, past):
    again = plane.record(CONSTRAINT, role="user", session="o9").id
    turns(plane, 250, "o10")
    block = plane.pack("continue", budget=2000, intent="deep")
    assert again in shown(block)
    assert past not in shown(block)
    plane.forget(id=again)
    plane.forget(id=past)
    assert not {again, past} & shown(plane.pack("continue", budget=2000, intent="deep"))
