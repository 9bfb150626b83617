"""A confirmation: a statement that becomes a user's by a later event, and nothing else."""

import json

import pytest

import memplane
from memplane.errors import InputError, NotFoundError, ScopeError
from memplane.event import source_of
from memplane.pack.report import chain_of, compared
from memplane.upkeep.reports import story


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        yield plane


def policy(plane, **statements):
    file = plane.home / "policies" / "plane.yaml"
    file.write_text(f"version: 1\nstatements: {json.dumps(statements)}\n")


def inferred(plane, text="Jobs wait in a table", **more):
    fields = {"kind": "decision", "role": "assistant", **more}
    return plane.record(text, **fields).event


def head(block):
    return "".join(entry.text for entry in block.entries if entry.place == "head")


def test_blocks_mark_what_an_agent_a_tool_or_a_model_states_and_nothing_else(plane):
    inferred(plane, "Queues are tables", key="queue")
    plane.record("Herons nest in May", kind="fact", actor="reflector:stub:m")
    plane.record("Storks nest in April", kind="fact", role="user")
    plane.record("Cranes nest in June", kind="fact")
    plane.record("The port was 8080", kind="observation", role="tool")
    text = plane.pack("herons storks cranes queues port").text
    assert "decision queue (agent): Queues" in text
    assert "fact (model): Herons" in text
    assert "fact: Storks" in text
    assert "fact: Cranes" in text
    assert "observation (tool)" in text


def test_a_turn_is_named_by_its_speaker_and_not_marked_beside_that(plane):
    plane.record("Decision: keep the table", role="assistant", session="s")
    assert "(agent)" not in plane.pack("table", session="s").text


@pytest.mark.parametrize("key", [None, "queue"])
def test_a_confirmed_statement_is_a_users_and_takes_the_place_of_the_old_one(plane, key):
    old = inferred(plane, key=key, importance=800, tags=["q"], session="s1")
    new = plane.work.confirm(old.seq).event
    assert (new.text, new.role, new.said_by, new.actor) == (old.text, "user", "user", None)
    assert (new.key, new.importance, new.tags, new.session) == (key, 800, ("q",), None)
    assert new.data["confirms"] == old.id
    assert old.id in new.refs
    assert plane.work.standing(old).reason == ("superseded" if key else "forgotten")
    text = plane.pack("where do jobs wait?").text
    assert text.count("Jobs wait") == 1
    assert "(agent)" not in text
    assert plane.event(old.id).said_by == "agent"  # the event says what it said
    assert plane.upkeep.verify(deep=True).ok


@pytest.mark.parametrize("key", [None, "queue"])
def test_undo_takes_a_confirmation_back(plane, key):
    old = inferred(plane, key=key)
    new = plane.work.confirm(old.id).event
    assert plane.work.undo().events[0].id == new.id
    assert (plane.work.standing(old).reason is None) == (key is None)  # one with a key is restated
    assert "(agent): Jobs" in plane.pack("jobs").text
    assert plane.pack("jobs").text.count("Jobs wait") == 1


@pytest.mark.parametrize("key", [None, "queue"])
def test_a_second_confirmation_is_refused_and_names_the_first(plane, key):
    old = inferred(plane, key=key)
    new = plane.work.confirm(old.id).event
    with pytest.raises(InputError, match=f"confirmed already, by event {new.seq}"):
        plane.work.confirm(old.id)
    assert plane.head().seq == new.seq


@pytest.mark.parametrize("role", [None, "user"])
@pytest.mark.parametrize("restated", ["updated", "named", "restored", "confirmation undone"])
def test_what_an_agent_relays_stays_relayed_whatever_restates_it(plane, role, restated):
    policy(plane, head="confirmed")
    fields = {"key": "queue", "id": "mcp:0a", "actor": "heron"} | ({"role": role} if role else {})
    old = inferred(plane, **{"role": None, **fields})
    if restated == "updated":
        new = plane.work.update(old.id, importance=0.9).event
    elif restated == "named":
        new = plane.work.name_decision(old.id, "jobs").event
    else:
        if restated == "restored":
            plane.record("Jobs wait in Kafka", kind="decision", key="queue", role="user")
        else:
            plane.work.confirm(old.id)
        plane.work.undo()
        new = plane.get("queue")
    assert new.id != old.id
    assert new.said_by == old.said_by == ("user" if role else "agent")
    assert source_of(new).through == "mcp"
    plane.work.sessions.start("s")
    plane.record("go on", role="user", session="s")
    assert "Jobs wait" not in head(plane.pack("jobs", session="s"))
    assert plane.work.confirm(new.id).event.id[:4] != "mcp:"  # the user himself
    plane.work.sessions.start("t")
    plane.record("go on", role="user", session="t")
    assert "Jobs wait" in head(plane.pack("jobs", session="t"))


def test_an_agent_that_confirms_relays_it_and_enters_no_head_that_a_user_must_open(plane):
    policy(plane, head="confirmed")
    by_name = plane.work.confirm(inferred(plane, key="queue").id, agent="heron").event
    with memplane.open(plane.home, agent="crow") as bound:
        bound_to = bound.work.confirm(bound.record("Ports wait", kind="rule", role="assistant").id)
    for new, agent in ((by_name, "heron"), (bound_to.event, "crow")):
        assert (new.said_by, new.actor, source_of(new).through) == ("user", agent, "agent")
    plane.work.sessions.start("s")
    plane.record("go on", role="user", session="s")
    assert "wait" not in head(plane.pack("jobs", session="s"))
    new = plane.work.confirm(by_name.id).event  # the user himself
    assert (new.actor, source_of(new).through) == (None, None)


def test_a_fact_of_a_model_that_is_confirmed_stays_when_its_turns_go(plane):
    turn = plane.record("Jobs wait in a table", role="user", session="s").event
    fields = {"actor": "reflector:stub:m", "session": "s", "refs": [turn.id]}
    made = plane.record("Jobs wait", kind="fact", data={"derived": True}, **fields).event
    new = plane.work.confirm(made.id).event
    assert "derived" not in new.data
    plane.forget(id=turn.id)
    assert plane.work.standing(new).reason is None


def test_what_may_not_be_confirmed_is_refused_and_nothing_is_written(plane):
    gone, replaced = inferred(plane), inferred(plane, key="k")
    mine = plane.record("Mine", kind="fact", role="user").event
    turn = plane.record("a turn", role="assistant").event
    over = inferred(plane, "Over", valid_until="2020-01-01T00:00:00Z")
    theirs = inferred(plane, "Theirs", ns="/agent/crow")
    secret = inferred(plane, "Closed", sensitivity="high")
    plane.forget(id=gone.id)
    plane.record("other", kind="decision", key="k", role="user")
    before = plane.head().seq
    for event in (gone, replaced, mine, turn, over):
        with pytest.raises(InputError):
            plane.work.confirm(event.id)
    with pytest.raises(NotFoundError):
        plane.work.confirm("nobody")
    who = {"channel": "agent", "agent": "heron"}
    for event in (theirs, secret):
        with pytest.raises(NotFoundError):
            plane.work.confirm(event.id, **who)
    plane.forget(id=gone.id, reason="again")
    assert plane.head().seq == before + 1


def test_another_agents_namespace_that_is_shared_is_read_and_not_confirmed(plane):
    file = plane.home / "policies" / "plane.yaml"
    file.write_text("version: 1\nnamespaces: {shared: [/agent/crow]}\n")
    theirs = inferred(plane, "Theirs", ns="/agent/crow")
    with pytest.raises(ScopeError):
        plane.work.confirm(theirs.id, channel="agent", agent="heron")
    assert plane.work.confirm(theirs.id).event.ns == "/agent/crow"  # the owner may


def test_where_a_user_has_to_confirm_no_head_has_what_agents_and_models_state(plane):
    policy(plane, head="confirmed")
    old = inferred(plane, key="queue")
    plane.record("Cranes nest in June", kind="fact", actor="reflector:stub:m")
    plane.record("Relayed", kind="decision", role="user", id="mcp:1")
    plane.record("Said", kind="decision", role="user")
    plane.work.sessions.start("s")
    plane.record("Later", kind="decision", role="assistant", session="s")
    plane.record("go on", role="user", session="s")
    shown = head(plane.pack("jobs", session="s"))
    assert "Said" in shown
    assert not any(word in shown for word in ("Jobs", "Cranes", "Relayed", "Later"))
    assert "Jobs wait" in plane.pack("where do jobs wait?").text  # as evidence
    plane.work.confirm(old.id)
    plane.work.sessions.start("next")
    plane.record("go on", role="user", session="next")
    assert "Jobs wait" in head(plane.pack("jobs", session="next"))


@pytest.mark.parametrize("key", [None, "queue"])
def test_a_confirmation_breaks_a_prefix_by_a_listed_cause(plane, key):
    old = inferred(plane, key=key)
    plane.work.sessions.start("s")
    plane.record("where do jobs wait?", role="user", session="s")
    blocks = [plane.pack("", session="s")]
    plane.work.confirm(old.id)
    blocks.append(plane.pack("", session="s"))
    reports = [
        {**one.report, "prefix": {**one.report["prefix"], "chain": chain_of(one)}} for one in blocks
    ]
    held = compared(reports[0], reports[1], "before", story(plane.context, *reports))
    assert held["break"]["cause"] == "confirmed"


def test_of_equal_cards_the_one_that_a_user_said_is_shown(plane):
    plane.record("Tabs, never spaces", kind="rule", role="user")
    plane.record("Tabs, never spaces", kind="rule", role="assistant")
    text = plane.pack("tabs or spaces").text
    assert "rule: Tabs" in text
    assert "rule (agent)" not in text


def test_what_a_model_made_stands_in_no_head_and_no_window_unless_it_is_pinned(plane):
    plane.work.sessions.start("s")
    turn = plane.record("The herons nest at the pond", role="user", session="s").event
    fields = {"kind": "fact", "actor": "reflector:stub:m", "refs": [turn.id]}
    made = plane.record("Herons nest at the north pond", session="s", **fields).event
    plane.record("go on", role="user", session="s")
    assert "(model)" not in plane.pack("", session="s").text
    assert "fact (model): Herons" in plane.pack("where do herons nest?").text
    plane.pin(made.id)
    plane.work.sessions.start("next")
    plane.record("go on", role="user", session="next")
    assert "fact (model): Herons" in head(plane.pack("", session="next"))
