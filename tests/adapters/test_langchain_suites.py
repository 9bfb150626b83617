"""LangChain's own suites over a plane, its chat history, and its store in memory beside ours."""

from __future__ import annotations

import random

import pytest

import memplane

pytestmark = pytest.mark.frameworks
suites = pytest.importorskip("langchain_tests.integration_tests")

from langchain_core.chat_history import InMemoryChatMessageHistory  # noqa: E402
from langchain_core.messages import (  # noqa: E402
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.stores import InMemoryByteStore  # noqa: E402
from langchain_tests.integration_tests import (  # noqa: E402
    base_store,
    retrievers,
)

from memplane.adapters.langchain import (  # noqa: E402
    PlaneByteStore,
    PlaneChatHistory,
    PlaneRetriever,
)

STEPS = 2_000


class TestStore(base_store.BaseStoreSyncTests[bytes]):
    @pytest.fixture
    def kv_store(self, plane):
        return PlaneByteStore(plane)

    @pytest.fixture
    def three_values(self):
        return b"one", b"\0\xff", b""


class TestStoreOfEventLoops(base_store.BaseStoreAsyncTests[bytes]):
    @pytest.fixture
    async def kv_store(self, plane):
        return PlaneByteStore(plane)

    @pytest.fixture
    def three_values(self):
        return b"one", b"\0\xff", b""


class TestRetriever(retrievers.RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _herons(self, plane):
        for number in range(5):
            plane.record(f"Heron {number} nests in the old tree", session="s1", role="user")
        self.plane = plane

    @property
    def retriever_constructor(self):
        return PlaneRetriever

    @property
    def retriever_constructor_params(self):
        return {"plane": self.plane}

    @property
    def retriever_query_example(self):
        return "which heron nests in a tree?"

    def test_a_document_says_where_it_is_from(self):
        found = PlaneRetriever(plane=self.plane, asked={"session": "s1"}).invoke("heron 3")[0]
        event = self.plane.event(found.metadata["seq"])
        assert found.page_content == event.text == "Heron 3 nests in the old tree"
        assert found.id == found.metadata["id"] == event.id
        assert found.metadata["session"] == "s1"
        assert found.metadata["day"] == event.ts[:10]
        assert found.metadata["score"] > 0


def test_messages_come_back_after_a_reopening_and_are_turns_of_the_session(tmp_path):
    given = [
        SystemMessage("Be brief"),
        HumanMessage("Where do herons nest?"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": "tree"}, "id": "c1"}]),
        ToolMessage("in the old tree", tool_call_id="c1"),
        HumanMessage([{"type": "text", "text": "And storks?"}]),
    ]
    with memplane.init(tmp_path / "plane") as plane:
        PlaneChatHistory(plane, session="s1").add_messages(given)
        plane.record("Owls sleep", role="user", session="s1")
        PlaneChatHistory(plane, session="s2").add_user_message("Other")
    with memplane.open(tmp_path / "plane") as plane:
        history = PlaneChatHistory(plane, session="s1")
        assert history.messages == given
        history.add_ai_message("On roofs")
        assert [one.text for one in history.messages][-2:] == ["And storks?", "On roofs"]
        assert "Where do herons nest?" in plane.pack("", session="s1").text
        assert plane.search("storks")
        history.clear()
        history.clear()
        assert history.messages == PlaneChatHistory(plane, session="s1").messages == []
        assert "Owls sleep" in plane.pack("", session="s1").text
        assert len(PlaneChatHistory(plane, session="s2").messages) == 1
        history.add_user_message("Again")
        assert [one.text for one in history.messages] == ["Again"]


def test_random_calls_are_answered_as_by_the_store_in_memory(tmp_path):
    chance = random.Random(11)
    theirs = InMemoryByteStore()
    plane = memplane.init(tmp_path / "plane", durability="os")
    ours = PlaneByteStore(plane)
    names = ["a", "ab", "b/1", "b/2", "ü", "x y"]
    for step in range(STEPS):
        act = chance.choices(["set", "get", "delete", "keys", "reopen"], [30, 30, 15, 24, 1])[0]
        some = chance.choices(names, k=chance.randrange(4))
        if act == "set":
            pairs = [(name, f"{step}".encode() * chance.randrange(5)) for name in some]
            for one in (theirs, ours):
                one.mset(pairs)
        elif act == "get":
            assert theirs.mget(some) == ours.mget(some)
        elif act == "delete":
            for one in (theirs, ours):
                one.mdelete(some)
        elif act == "keys":
            prefix = chance.choice([None, "", "a", "b/"])
            found = [sorted(one.yield_keys(prefix=prefix)) for one in (theirs, ours)]
            assert found[0] == found[1]
        else:
            plane.close()
            plane = memplane.open(tmp_path / "plane", durability="os")
            ours = PlaneByteStore(plane)
    plane.close()


def _message(chance, step):
    call = {"name": "look", "args": {"at": step}, "id": f"c{step}"}
    return chance.choice([
        HumanMessage(f"heron {step}"),
        HumanMessage([{"type": "text", "text": f"heron {step}"}, {"type": "text", "text": "and"}]),
        HumanMessage(f"heron {step}", name="ann", id=f"m{step}"),
        AIMessage(f"grey {step}", tool_calls=[call]),
        AIMessage("", tool_calls=[call]),
        ToolMessage(f"seen {step}", tool_call_id=f"c{step}"),
        SystemMessage("Be brief"),
    ])  # fmt: skip


@pytest.mark.filterwarnings("ignore:The class `InMemoryChatMessageHistory`")
def test_random_calls_are_answered_as_by_the_chat_history_in_memory(tmp_path):
    """There are no differences."""
    chance = random.Random(13)
    plane = memplane.init(tmp_path / "plane", durability="os")
    theirs = {name: InMemoryChatMessageHistory() for name in "ab"}
    ours = {name: PlaneChatHistory(plane, session=name) for name in "ab"}
    for step in range(STEPS):
        name = chance.choice("ab")
        act = chance.choices(["add", "read", "clear", "reopen"], [50, 45, 2, 1])[0]
        if act == "add":
            messages = [_message(chance, step) for _ in range(chance.randrange(4))]
            for one in (theirs[name], ours[name]):
                one.add_messages(messages)
        elif act == "read":
            assert theirs[name].messages == ours[name].messages
        elif act == "clear":
            for one in (theirs[name], ours[name]):
                one.clear()
        else:
            plane.close()
            plane = memplane.open(tmp_path / "plane", durability="os")
            ours = {name: PlaneChatHistory(plane, session=name) for name in "ab"}
    plane.close()
