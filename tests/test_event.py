"""Who says so, where it is from and how it relates to others: functions of the event alone."""

import pytest
from hypothesis import given, strategies as st

from memplane.event import (
    KINDS,
    REFS_MAX,
    ROLES,
    SPEAKERS,
    Event,
    Relation,
    relations_of,
    said_by,
    source_of,
    speaker_mark,
)

FIELDS = st.tuples(
    st.sampled_from([*KINDS, "custom:note"]),
    st.sampled_from([None, *ROLES]),
    st.sampled_from([None, "ann", "reflector:openai:m", "heron"]),
    st.sampled_from(["01M8", "mcp:0a1b", "git:0a1b:0"]),
)


def event(**fields):
    given = {"seq": 7, "id": "e7", "ts": "2026-01-05T12:00:00.000000Z", "rec": "", "kind": "fact"}
    return Event(**{**given, **fields})


@given(FIELDS)
def test_who_says_so_is_always_one_of_four_or_nobody_and_a_user_is_never_marked(fields):
    by, mark = said_by(*fields), speaker_mark(*fields)
    assert by is None or by in SPEAKERS
    assert mark in ("", "agent", "tool", "model")
    assert mark in ("", by)
    if fields[1] == "user":
        assert (by, mark) == ("user", "")


@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ({"role": "user"}, "user"),
        ({"role": "assistant"}, "agent"),
        ({"role": "tool"}, "tool"),
        ({"role": "system"}, None),
        ({}, None),
        ({"actor": "ann"}, None),  # a name is no proof of what it names
        ({"id": "mcp:0a1b"}, "agent"),
        ({"id": "mcp:0a1b", "role": "user"}, "user"),  # an agent relays it
        ({"actor": "reflector:openai:m"}, "model"),
        ({"actor": "reflector:openai:m", "role": "user"}, "user"),  # confirmed
        ({"kind": "tool_result"}, "tool"),
        ({"kind": "tool_call"}, "agent"),
    ],
)
def test_role_reflector_and_channel_decide_who_says_so(fields, by):
    assert event(**fields).said_by == by


def test_the_source_of_what_a_model_made_names_the_model_the_episode_and_the_prompt():
    made = event(
        actor="reflector:openai:m",
        data={"episode": "s-1", "confidence": 0.8, "prompt": "ab12", "derived": True},
        refs=("t1", "t2"),
    )
    assert source_of(made)._asdict() == {
        "said_by": "model",
        "actor": "reflector:openai:m",
        "through": None,
        "episode": "s-1",
        "confidence": 0.8,
        "prompt": "ab12",
        "tool": None,
    }
    assert relations_of(made) == (Relation("derived_from", "t1"), Relation("derived_from", "t2"))
    odd = event(data={"episode": 3, "confidence": True, "prompt": ""})
    assert source_of(odd)[3:] == (None, None, None, None)


def test_relations_that_a_caller_states_stand_beside_those_of_memplane():
    one = event(
        refs=("a", "b", "c"),
        data={"confirms": "a", "updates": ["a"], "relations": {"depends_on": ["b", 4], "x": 5}},
    )
    assert relations_of(one) == (
        Relation("confirms", "a"),
        Relation("updates", "a"),
        Relation("depends_on", "b"),
        Relation("refers_to", "c"),
    )


def test_relations_are_bounded_whatever_a_caller_states():
    many = {"near": [f"e{n}" for n in range(2 * REFS_MAX)]}
    assert len(relations_of(event(data={"relations": many}))) == REFS_MAX
    assert relations_of(event(data={"relations": ["a"]})) == ()
