"""`memplane.open(agent=)`: who asks and who answers is said once, not at every call."""

import asyncio

import pytest

import memplane
from memplane.acms import ACMS
from memplane.errors import InputError, NotFoundError, ScopeError

OWN = "Ann waters the ferns on Mondays"
OTHER = "Ben keeps the boat key under the bench"


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as plane:
        plane.record(OWN, kind="fact", key="ferns", ns="/agent/ann", id="own")
        plane.record(OTHER, kind="fact", key="key", ns="/agent/ben", id="other")
        plane.record("The boat is green", kind="fact", key="boat", id="shared")
    return tmp_path / "plane"


@pytest.fixture
def plane(home):
    with memplane.open(home, environment={}, agent="ann") as made:
        yield made


def test_every_reading_call_asks_for_the_agent(plane):
    """T-65: `agent_id` is bound at construction."""
    assert plane.agent == "ann"
    assert plane.get("ferns", "/agent/ann").id == "own"
    with pytest.raises(ScopeError):
        plane.get("key", "/agent/ben")
    with pytest.raises(ScopeError):
        plane.keys(ns="/agent/ben")
    with pytest.raises(ScopeError):
        plane.history("key", "/agent/ben")
    with pytest.raises(NotFoundError):
        plane.event("other")
    with pytest.raises(NotFoundError):
        plane.expand("event/other")
    assert [event.id for event in plane.events(kind="fact")] == ["own", "shared"]
    assert [hit.event.id for hit in plane.search("ferns boat key bench")][:2] != []
    assert "other" not in {hit.event.id for hit in plane.search("boat key bench")}
    assert OTHER not in plane.pack("where is the boat key?", budget=2000).text
    assert OWN in plane.pack("when are the ferns watered?", budget=2000).text
    items = plane.recall("boat key bench ferns", session="s").items
    assert {item.id for item in items} <= {"own", "shared"}


def test_who_is_named_at_a_call_counts_more(plane):
    assert plane.get("key", "/agent/ben", agent="ben").id == "other"
    assert OTHER in plane.pack("where is the boat key?", agent="ben", budget=2000).text
    receipt = plane.record("Done", role="assistant", actor="ben")
    assert receipt.event.actor == "ben"


def test_what_the_assistant_says_is_the_agents(plane):
    said = [
        plane.record("I water them", role="assistant"),
        plane.record("Water them", role="user"),
        plane.record("The boat leaks", kind="fact"),
    ]
    assert [one.event.actor for one in said] == ["ann", None, None]
    plane.record_many([{"text": "Watered", "role": "assistant", "id": "many"}])
    assert plane.event("many").actor == "ann"
    assert plane.work.spool("Later", role="assistant", id="later").seq
    assert plane.event("later").actor == "ann"


def test_a_session_is_the_agents(plane):
    with plane.session("s1") as session:
        session.record("Watered", role="assistant")
    assert plane.work.sessions.get("s1").agent == "ann"
    plane.work.sessions.start("s2")
    assert plane.work.sessions.get("s2").agent == "ann"
    assert {one.id for one in plane.work.sessions.list()} == {"s1", "s2"}


def test_a_plane_of_the_past_asks_for_the_same_agent(plane):
    with plane.at(plane.head().seq) as past:
        assert past.agent == "ann"
        with pytest.raises(NotFoundError):
            past.event("other")


def test_upkeep_is_the_owners(plane, tmp_path):
    plane.upkeep.export(tmp_path / "whole.jsonl")
    restored = memplane.restore(tmp_path / "whole.jsonl", tmp_path / "again")
    assert restored.checked.opened.whole
    assert plane.upkeep.verify(deep=True).ok
    plane.upkeep.purge("other")


def test_without_one_the_plane_is_its_owners_as_ever(home):
    with memplane.open(home, environment={}) as plane:
        assert plane.agent is None
        assert plane.event("other").text == OTHER
        assert plane.record("Done", role="assistant").event.actor is None


@pytest.mark.parametrize("agent", ["", " ", 3, ["ann"]])
def test_an_agent_without_a_name_is_refused(home, agent):
    with pytest.raises(InputError, match="agent"):
        memplane.open(home, environment={}, agent=agent)


def test_so_it_is_with_an_event_loop(home):
    async def work():
        async with memplane.aopen(home, agent="ann") as plane:
            receipt = await plane.record("I water them", role="assistant")
            assert receipt.event.actor == "ann"
            with pytest.raises(NotFoundError):
                await plane.event("other")
            async with plane.session("s1") as session:
                await session.record("Watered", role="assistant")
            seen = await plane.work.run(lambda own: own.sessions.get("s1"))
            assert seen.agent == "ann"
            async with memplane.aopen(home) as owners:
                assert owners.plane is not plane.plane
                assert (await owners.event("other")).text == OTHER
            async with ACMS("s3", plane.plane) as talk:
                await talk.ingest("assistant", "Watered again")
                (turn,) = [
                    item for item in await talk.recall("watered") if item.content == "Watered again"
                ]
                assert plane.plane.event(turn.id).actor == "ann"

    asyncio.run(work())
