"""What the frameworks' own stores answered to recorded calls, the adapters answer as well.

No framework is needed: a few names stand in for each. `make
test-frameworks` compares 2,000 calls with the real ones; `record_frameworks.py` records.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import memplane
from memplane.adapters import adk, langgraph, llamaindex, openai_agents, pydantic_ai
from memplane.adapters.adk import user_agent
from memplane.adapters.openai_agents import PlaneSession
from memplane.adapters.turns import ContextPacks, Said, SessionTurns, kept_from, short_name
from tests.adapters.builders_frameworks import Message, stand_in_langchain, stand_in_saver
from tests.adapters.test_langgraph_store import GetOp, PutOp, SearchOp

RECORDED = Path(__file__).parent / "recorded"
CALLS_LEAST = 90


def _tape(name):
    """The calls of a tape, which has enough of them, and enough answers that say something."""
    lines = (RECORDED / f"{name}.jsonl").read_text().splitlines()
    calls = [SimpleNamespace(**json.loads(line)) for line in lines]
    assert len(calls) >= CALLS_LEAST
    assert len({one.call for one in calls}) >= 4
    assert sum(one.answer not in (None, [], {}) for one in calls) >= CALLS_LEAST // 4
    return calls


@pytest.fixture
def often(tmp_path):
    """A plane that is closed and opened again after every twenty calls."""

    class Often:
        plane = memplane.init(tmp_path / "plane", durability="os")
        calls = 0

        def due(self):
            self.calls += 1
            if self.calls % 20:
                return False
            self.plane.close()
            self.plane = memplane.open(tmp_path / "plane", durability="os")
            return True

    made = Often()
    yield made
    made.plane.close()


def test_recorded_calls_of_a_session_of_the_openai_agents_sdk(often):
    session = PlaneSession(often.plane, "s")
    for one in _tape("openai_agents"):
        if often.due():
            session = PlaneSession(often.plane, "s")
        assert asyncio.run(getattr(session, one.call)(*one.given)) == one.answer, one.call


class Fields:
    """A stand-in for a model of pydantic: fields, and JSON from and to them."""

    def __init__(self, **fields):
        vars(self).update(fields)

    @classmethod
    def model_validate(cls, value):
        return cls(**value)


class AdkEvent(Fields):
    partial = False

    @property
    def actions(self):
        return SimpleNamespace(**self.told["actions"])

    @classmethod
    def model_validate(cls, value):
        return cls(told=value, id=value["id"], timestamp=value["timestamp"],
                   partial=value.get("partial"))  # fmt: skip

    def model_dump(self, **_):
        return json.loads(json.dumps(self.told))


class AdkServices:
    """What the framework's base class does of an event: temporary state is for the session alone."""

    async def append_event(self, session, event):
        delta = event.told["actions"]["state_delta"]
        session.state.update(delta)
        event.told["actions"]["state_delta"] = {
            key: value for key, value in delta.items() if not key.startswith("temp:")
        }
        session.events.append(event)


class AlreadyExistsError(Exception):
    pass


def _session(found):
    if found is None:
        return None
    events = [one.model_dump() for one in found.events]
    told = {"app_name": found.app_name, "user_id": found.user_id, "id": found.id}
    return {**told, "state": found.state, "events": events}


def test_recorded_calls_of_a_session_service_of_adk(often, monkeypatch):
    stand_in = SimpleNamespace(
        Event=AdkEvent, Session=Fields, AlreadyExistsError=AlreadyExistsError
    )
    monkeypatch.setattr(adk, "_adk", lambda _: stand_in)
    kind = type("Service", (adk._Sessions, AdkServices), {})
    service, run = kind(often.plane), asyncio.run
    for one in _tape("adk"):
        given = dict(one.given)
        if often.due():
            service = kind(often.plane)
        if one.call == "create":
            try:
                found = _session(run(service.create_session(**given)))
            except AlreadyExistsError:
                found = "AlreadyExistsError"
        elif one.call == "append":
            event = AdkEvent.model_validate(given.pop("event"))
            session = run(service.get_session(**given))
            run(service.append_event(session, event))
            found = _session(session)
        elif one.call == "get":
            most = given.pop("most")
            config = SimpleNamespace(num_recent_events=most, after_timestamp=None)
            found = _session(run(service.get_session(**given, config=config)))
        elif one.call == "state":
            found = run(service.get_user_state(**given))
        else:
            found = run(service.delete_session(**given))
        assert found == one.answer, one.call


def test_what_a_user_of_adk_said_is_in_no_block_of_another_one(often, monkeypatch):
    stand_in = SimpleNamespace(Event=AdkEvent, Session=Fields)
    monkeypatch.setattr(adk, "_adk", lambda _: stand_in)
    service = type("Service", (adk._Sessions, AdkServices), {})(often.plane)
    run, named = asyncio.run, {"app_name": "boat", "user_id": "ann", "session_id": "s"}
    told = {
        "id": "e1", "author": "user", "timestamp": 1.0,
        "content": {"role": "user", "parts": [{"text": "The heron nests here"}]},
        "actions": {"state_delta": {"k": "zebra"}},
    }  # fmt: skip
    run(service.append_event(run(service.create_session(**named)), AdkEvent.model_validate(told)))
    own, other = user_agent("boat", "ann"), user_agent("boat", "bob")
    assert "heron" in often.plane.pack("heron", agent=own).text
    for who in ({}, {"agent": other}):
        assert "heron" not in often.plane.pack("heron", **who).text
        assert not often.plane.search("heron", **who)
    assert not often.plane.search("zebra", agent=own)
    run(service.delete_session(**named))
    assert "heron" not in often.plane.pack("heron", agent=own).text


class ConversationConflict(Exception):  # noqa: N818 - the framework's name
    pass


class Records:
    """A stand-in for an adapter of pydantic: the values are JSON already."""

    @staticmethod
    def dump_python(value, **_):
        return vars(value)

    @staticmethod
    def validate_python(value):
        return Fields(**value)


def _told(value):
    if isinstance(value, list):
        return [_told(one) for one in value]
    return vars(value) if isinstance(value, Fields) else value


def test_recorded_calls_of_a_conversation_store_of_pydantic_ai(often, monkeypatch):
    stand_in = SimpleNamespace(ConversationEntry=Fields, ConversationConflict=ConversationConflict)
    monkeypatch.setattr(pydantic_ai, "_module", lambda _: stand_in)
    monkeypatch.setattr(pydantic_ai, "_adapter", lambda _: Records)
    store, answers = pydantic_ai._Store(often.plane), set()
    for one in _tape("pydantic_ai"):
        if often.due():
            store = pydantic_ai._Store(often.plane)
        given, named = one.given
        if one.call == "write_record":
            given = [Fields(**given[0])]
            named["new_entries"] = [Fields(**entry) for entry in named.get("new_entries", ())]
        try:
            found = _told(asyncio.run(getattr(store, one.call)(*given, **named)))
        except ConversationConflict:
            found = "ConversationConflict"
        assert found == one.answer, one.call
        answers.add((one.call, str(found)[:20]))
    assert ("write_record", "None") in answers


def test_of_two_that_save_a_conversation_at_once_one_is_told(tmp_path, monkeypatch):
    """The version behind which a record stands is in its id, which the log takes once."""
    stand_in = SimpleNamespace(ConversationEntry=Fields, ConversationConflict=ConversationConflict)
    monkeypatch.setattr(pydantic_ai, "_module", lambda _: stand_in)
    monkeypatch.setattr(pydantic_ai, "_adapter", lambda _: Records)
    memplane.init(tmp_path / "plane").close()
    with memplane.open(tmp_path / "plane") as one, memplane.open(tmp_path / "plane") as two:
        stores = [pydantic_ai._Store(plane) for plane in (one, two)]
        before = [store._checked("c", None) for store in stores]
        message = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}
        for at, store in enumerate(stores):
            entry = pydantic_ai.entry_said({"parent_id": None, "message": message})
            rows = store._turns("c").rows(entry, f"entry{at}")
            if at == 0:
                store._keep("c", before[at], {"revision": "1"}, rows)
            else:
                with pytest.raises(ConversationConflict):
                    store._keep("c", before[at], {"revision": "2"}, rows)
        assert [turn.id for turn in stores[0]._turns("c").turns()] == ["pydantic-ai.e:entry0"]
        assert one.text(one.get(f"c/{short_name('c')}", "/agent/pydantic-ai")) == ""
        assert stores[1]._head("c").head["record"] == {"revision": "1"}


def test_recorded_calls_of_a_saver_of_langgraph(often, monkeypatch):
    saver = stand_in_saver(monkeypatch, often.plane)
    for one in _tape("langgraph"):
        if often.due():
            saver = stand_in_saver(monkeypatch, often.plane)
        found = getattr(saver, one.call)(*one.given)
        if one.call in ("get_tuple", "list") and found is not None:
            found = json.loads(json.dumps(list(found)))
        assert (found or None) == (one.answer or None), one.call


def test_recorded_calls_of_a_store_of_langgraph(often, monkeypatch):
    core = SimpleNamespace(Item=SimpleNamespace, SearchItem=SimpleNamespace)
    monkeypatch.setattr(langgraph, "_langgraph", lambda _: core)
    store = langgraph._Store(often.plane)
    for one in _tape("langgraph_store"):
        if often.due():
            store = langgraph._Store(often.plane)
        space, *given = one.given
        if one.call == "search":
            (items,) = store.batch([SearchOp(tuple(space), *given, limit=100)])
            told = [[list(item.namespace), item.key, item.value] for item in items]
            found = sorted(told, key=json.dumps)
        elif one.call == "get":
            (item,) = store.batch([GetOp(tuple(space), *given)])
            found = None if item is None else item.value
        else:
            value = given[1] if one.call == "put" else None
            (found,) = store.batch([PutOp(tuple(space), given[0], value)])
        assert found == one.answer, one.call


def test_recorded_calls_of_a_key_value_store_and_a_history_of_langchain(often, monkeypatch):
    adapters = stand_in_langchain(monkeypatch)

    def opened():
        return adapters.PlaneByteStore(often.plane), adapters.PlaneChatHistory(
            often.plane, session="s"
        )

    store, history = opened()
    for one in _tape("langchain"):
        if often.due():
            store, history = opened()
        found = None
        if one.call == "mset":
            store.mset([(key, value.encode("latin-1")) for key, value in one.given])
        elif one.call == "mget":
            read = store.mget(one.given)
            found = [None if value is None else value.decode("latin-1") for value in read]
        elif one.call == "mdelete":
            store.mdelete(one.given)
        elif one.call == "keys":
            found = sorted(store.yield_keys(prefix=one.given))
        elif one.call == "add":
            history.add_messages([Message(*told) for told in one.given])
        elif one.call == "messages":
            found = [[message.type, message.content] for message in history.messages]
        else:
            history.clear()
        assert found == one.answer, one.call


class ChatMessage(Fields):
    @property
    def role(self):
        return SimpleNamespace(value=self.told["role"])

    @classmethod
    def model_validate(cls, value):
        return cls(told=value)

    def model_dump(self, **_):
        return json.loads(json.dumps(self.told))


def _messages(value):
    if isinstance(value, list):
        return [_messages(one) for one in value]
    if isinstance(value, ChatMessage):
        return value.told
    return ChatMessage(told=value) if isinstance(value, dict) else value


def test_recorded_calls_of_a_chat_store_of_llamaindex(often, monkeypatch):
    monkeypatch.setattr(llamaindex, "_core", lambda _: SimpleNamespace(ChatMessage=ChatMessage))
    store = llamaindex._ChatStore(often.plane)
    for one in _tape("llamaindex"):
        if often.due():
            store = llamaindex._ChatStore(often.plane)
        found = getattr(store, one.call)(*_messages(one.given))
        if one.call == "get_keys":
            assert sorted(found) == one.answer
        else:
            assert _messages(found) == one.answer, one.call


def test_messages_are_turns_that_packs_and_searches_use(often):
    session = PlaneSession(often.plane, "s1")
    large = {"type": "input_image", "image_url": "data:image/png;base64," + "iVBOR" * 20_000}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Is this a heron?"}, large]},
        {"type": "function_call", "name": "look", "arguments": '{"at": 1}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "grey, long legs"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "zebra"}]},
    ]
    asyncio.run(session.add_items(items))
    assert asyncio.run(PlaneSession(often.plane, "s1").get_items()) == items
    turns = [(one.role, one.kind, one.text) for one in often.plane.events(session="s1")]
    assert turns == [
        ("user", "message", "Is this a heron?"),
        ("assistant", "tool_call", 'look {"at": 1}'),
        ("tool", "tool_result", "grey, long legs"),
        ("assistant", "message", ""),
    ]
    assert "Is this a heron?" in often.plane.pack("", session="s1").text
    assert often.plane.search("long legs")
    assert not often.plane.search("zebra")
    secret = "use AKIA" + "IOSFODNN7EXAMPLQ now"
    asyncio.run(session.add_items([{"role": "user", "content": secret}]))
    assert "IOSFODNN7EXAMPLQ" not in str(asyncio.run(session.get_items()))
    asyncio.run(session.clear_session())
    assert not often.plane.search("heron")


def test_a_session_sees_what_others_add_and_forget(often):
    one, other = PlaneSession(often.plane, "s1"), PlaneSession(often.plane, "s1")
    apart = PlaneSession(often.plane, "s2")

    async def run():
        await one.add_items([{"role": "user", "content": "a"}])
        await other.add_items([{"role": "user", "content": "b"}])
        assert [item["content"] for item in await one.get_items()] == ["a", "b"]
        assert (await one.pop_item())["content"] == "b"
        assert [item["content"] for item in await other.get_items()] == ["a"]
        assert await apart.pop_item() is None
        often.plane.record("Owls sleep", role="user", session="s1")
        assert len(await one.get_items()) == 1
        given = await one.get_items()
        given[0]["content"] = "changed by whom it was given to"
        assert (await one.get_items())[0]["content"] == "a"

    asyncio.run(run())


@pytest.mark.parametrize("between", [0, 100])
def test_sessions_of_one_name_in_other_namespaces_are_apart(often, between):
    spaces = ("/spec/boat", "/agent/x", "/task/t")
    for ns in spaces:
        kept = SessionTurns(often.plane, session="s1", program="p", ns=ns)
        kept.add([Said("user", {"said": ns}, ("said",))])
    for number in range(between):
        often.plane.record(f"Owl {number}", role="user", session="other")
    for ns in spaces:
        found = SessionTurns(often.plane, session="s1", program="p", ns=ns).turns()
        assert [turn.value["said"] for turn in found] == [ns]


def test_a_long_tail_is_not_read_whole_for_one_session(often, monkeypatch):
    kept = SessionTurns(often.plane, session="s1", program="p")
    kept.add([Said("user", {"said": "a"}, ("said",))])
    for number in range(100):
        often.plane.record(f"Owl {number}", role="user", session="other")
    given = []
    events = memplane.Plane.events

    def watched(self, **asked):
        for one in events(self, **asked):
            given.append(one.seq)
            yield one

    monkeypatch.setattr(memplane.Plane, "events", watched)
    assert len(SessionTurns(often.plane, session="s1", program="p").turns()) == 1
    assert len(given) == 1


def test_threads_that_share_a_session_lose_and_repeat_nothing(often):
    session = PlaneSession(often.plane, "s1")

    async def run():
        items = [[{"role": "user", "content": f"{number}"}] for number in range(24)]
        reads = [session.get_items() for _ in range(12)]
        await asyncio.gather(*reads, *map(session.add_items, items))
        popped = await asyncio.gather(*(session.pop_item() for _ in range(4)))
        left = await session.get_items()
        return sorted(int(one["content"]) for one in [*popped, *left])

    assert asyncio.run(run()) == [*range(24)]


POPPING = """
import json, sys
import memplane
from memplane.adapters.turns import SessionTurns

with memplane.open(sys.argv[1], durability="os") as plane:
    turns, popped = SessionTurns(plane, session="s1", program="p"), []
    print(len(turns.turns()), flush=True)
    sys.stdin.readline()
    while (turn := turns.pop()) is not None:
        popped.append(turn.value["said"])
print(json.dumps(popped))
"""


def test_no_two_processes_that_pop_are_given_the_same_message(often):
    said = [f"{number}" for number in range(40)]
    kept = SessionTurns(often.plane, session="s1", program="p")
    kept.add(Said("user", {"said": one}, ("said",)) for one in said)
    home = str(often.plane.home)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", POPPING, home],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in both:
        assert process.stdout.readline() == "40\n"  # it has looked
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    popped = [json.loads(process.communicate()[0]) for process in both]
    assert sorted(popped[0] + popped[1], key=int) == said
    assert kept.turns() == []


def test_a_message_that_another_one_forgot_meanwhile_is_not_popped(often, monkeypatch):
    one, two = (SessionTurns(often.plane, session="s1", program="p") for _ in range(2))
    one.add(Said("user", {"said": said}, ("said",)) for said in "abc")
    forget = SessionTurns.forget
    rivals = [lambda id_: forget(two, id_), often.plane.upkeep.purge]

    def late(self, id_):
        if rivals:
            rivals.pop(0)(id_)
        return forget(self, id_)

    monkeypatch.setattr(SessionTurns, "forget", late)
    assert one.pop().value["said"] == "a"  # c was forgotten and b purged by others
    assert one.pop() is None


def test_what_others_forget_costs_a_session_no_look_at_its_messages(often, monkeypatch):
    plane, looked = often.plane, []
    one, other = PlaneSession(plane, "s1"), PlaneSession(plane, "s2")

    async def run():
        for session in (one, other):
            await session.add_items([{"role": "user", "content": f"{at}"} for at in range(9)])
        assert len(await one.get_items()) == 9
        event = memplane.Plane.event
        monkeypatch.setattr(
            memplane.Plane, "event", lambda *a, **b: looked.append(a[1]) or event(*a, **b)
        )
        await other.pop_item()
        await other.clear_session()
        assert len(await one.get_items()) == 9
        assert looked == []
        plane.forget(id=next(plane.events(session="s1")).id)
        assert [item["content"] for item in await one.get_items()] == [
            f"{at}" for at in range(1, 9)
        ]
        assert len(looked) == 1

    asyncio.run(run())


def test_of_two_that_begin_a_session_at_once_the_messages_of_both_are_found(often, monkeypatch):
    one, two = (SessionTurns(often.plane, session="s1", program="p") for _ in range(2))
    one.add([Said("user", {"said": "a"}, ("said",))])
    monkeypatch.setattr(two, "_begins", lambda: None)  # it looked before the other one wrote
    two.add([Said("user", {"said": "b"}, ("said",))])
    found = SessionTurns(often.plane, session="s1", program="p").turns()
    assert [turn.value["said"] for turn in found] == ["a", "b"]


def test_a_session_reads_the_log_from_where_it_begins(often, monkeypatch):
    plane, after = often.plane, []
    events = memplane.Plane.events

    def watched(self, **asked):
        after.append(asked["after"])
        return events(self, **asked)

    monkeypatch.setattr(memplane.Plane, "events", watched)
    for number in range(50):
        plane.record(f"Heron {number}", role="user", session="before")
    assert asyncio.run(PlaneSession(plane, "s1").get_items()) == []
    assert after == []
    head = plane.head().seq
    asyncio.run(PlaneSession(plane, "s1").add_items([{"role": "user", "content": "a"}]))
    for _ in range(2):
        session = PlaneSession(plane, "s1")
        assert [one["content"] for one in asyncio.run(session.get_items())] == ["a"]
        assert {*after} == {head}
    asyncio.run(session.clear_session())
    asyncio.run(session.add_items([{"role": "user", "content": "b"}]))
    assert [one["content"] for one in asyncio.run(PlaneSession(plane, "s1").get_items())] == ["b"]


@pytest.mark.parametrize("turns", [1, 2, 5, 10])
def test_a_session_is_cut_in_steps_of_half_of_its_turns(turns):
    before = 0
    for prompts in range(1, 100):
        first = kept_from(prompts, turns)
        assert prompts - 1 - turns <= first < prompts
        assert first - before in (0, (turns + 1) // 2)
        before = first
    with pytest.raises(memplane.InputError):
        kept_from(1, 0)


def test_the_block_of_a_prompt_is_packed_once_and_leaves_out_what_messages_hold(often):
    plane = often.plane
    plane.record("Herons nest in the old tree", role="user", session="s1")
    start = plane.record("Owls sleep by day", role="user", session="s1")
    prompt = plane.record("Where do herons nest?", role="user", session="s1")
    packs = ContextPacks(plane, "s1", budget=200)
    block = packs.block(prompt.event.text, start.seq - 1, prompt.id)
    assert "old tree" in block.text
    assert "Owls" not in block.text
    assert "Where do herons" not in block.text
    assert block.tokens <= 200
    plane.record("It is late", role="assistant", session="s1")
    assert packs.block(prompt.event.text, start.seq - 1, prompt.id) is block


def test_a_context_filter_names_its_extra(often, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "agents", None)
    with pytest.raises(memplane.MissingExtraError, match=r"memplane\[openai-agents\]"):
        openai_agents.context_filter(PlaneSession(often.plane, "s"))
