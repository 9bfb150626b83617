"""The adapters of LangChain: what they keep, what they show, what they leave alone."""

from __future__ import annotations

import random
import sys

import pytest

from memplane.adapters import langchain
from memplane.errors import InputError, MissingExtraError
from tests.adapters.builders_frameworks import Message, stand_in_langchain


@pytest.fixture
def adapters(monkeypatch):
    return stand_in_langchain(monkeypatch)


def test_a_store_keeps_bytes_and_stores_of_other_names_are_apart(plane, adapters):
    one, other = adapters.PlaneByteStore(plane), adapters.PlaneByteStore(plane, name="b")
    one.mset([("a", b"1"), ("b", b"\0"), ("a", b"2")])
    one.mset([])
    other.mset([("a", b"")])
    assert one.mget(["a", "b", "c"]) == [b"2", b"\0", None]
    assert other.mget(["a"]) == [b""]
    assert list(one.yield_keys()) == ["a", "b"]
    assert list(one.yield_keys(prefix="b")) == ["b"]
    one.mdelete(["a", "never"])
    assert list(one.yield_keys()) == ["b"]
    assert list(other.yield_keys()) == ["a"]


def test_a_store_refuses_what_is_not_bytes_and_stores_nothing(plane, adapters):
    store = adapters.PlaneByteStore(plane)
    with pytest.raises(InputError):
        store.mset([("good", b"1"), ("bad", "text")])
    assert list(store.yield_keys()) == []


def test_parts_of_a_large_value_go_with_it_and_when_it_is_overwritten(plane, adapters):
    def parts():
        return list(plane.keys("p/", "/agent/langchain", limit=1000))

    chance = random.Random(2)
    large, larger = chance.randbytes(100_000), chance.randbytes(150_000)
    store = adapters.PlaneByteStore(plane)
    for value, count in ((large, 3), (larger, 5), (large, 3), (b"small", 0), (larger, 5)):
        store.mset([("a", value)])
        assert store.mget(["a"]) == [value]
        assert len(parts()) == count
    store.mset([("b", larger), ("c", larger)])
    forgets = len(list(plane.events(kind="forget")))
    store.mdelete(["a", "b", "c", "never"])
    assert parts() == []
    assert store.mget(["a", "b", "c"]) == [None, None, None]
    assert len(list(plane.events(kind="forget"))) == forgets + 1


def test_any_text_is_a_key_and_is_found_by_what_it_begins_with(plane, adapters):
    store = adapters.PlaneByteStore(plane)
    keys = ["", "a\nb", "ü" * 60, "ü" * 61, "x" * 80, "x" * 81, "x" * 3000, "x" * 2999 + "y"]
    store.mset([(key, key.encode()) for key in keys])
    assert store.mget(keys) == [key.encode() for key in keys]
    assert sorted(store.yield_keys()) == sorted(keys)
    for prefix in ("a", "x", "x" * 80, "x" * 81, "x" * 2999 + "y", "ü", "z"):
        begun = [key for key in keys if key.startswith(prefix)]
        assert sorted(store.yield_keys(prefix=prefix)) == sorted(begun)
    store.mdelete(["x" * 3000])
    assert store.mget(["x" * 3000, "x" * 81]) == [None, b"x" * 81]


def test_values_of_a_store_are_in_no_block_and_no_search(plane, adapters):
    plane.record("Where do herons nest?", role="user", session="s1")
    adapters.PlaneByteStore(plane).mset([("zebra", b"zebra crossing")])
    for who in ({}, {"agent": "langchain"}):
        for channel in ("private", "agent"):
            block = plane.pack("zebra", session="s1", channel=channel, **who)
            assert "zebra" not in block.text
            assert not plane.search("zebra", channel=channel, **who)


def test_messages_are_turns_and_clearing_leaves_the_rest_of_the_session(plane, adapters):
    history = adapters.PlaneChatHistory(plane, session="s1")
    given = [
        Message("system", "Be brief"),
        Message("human", "Where do herons nest?", "Ann"),
        Message("ai", ""),
        Message("tool", "in the old tree"),
        Message("human", [{"type": "text", "text": "And storks?"}]),
    ]
    history.add_messages(given[:2])
    assert history.messages == given[:2]
    history.add_messages(given[2:])
    history.add_messages([])
    plane.record("Owls sleep", role="user", session="s1")
    assert history.messages == given
    assert adapters.PlaneChatHistory(plane, session="s1").messages == given
    roles = [event.role for event in plane.events(session="s1")]
    assert roles == ["system", "user", "assistant", "tool", "user", "user"]
    history.clear()
    history.clear()
    assert history.messages == []
    assert "Owls sleep" in plane.pack("", session="s1").text
    assert "herons" not in plane.pack("", session="s1").text


def test_a_message_that_was_purged_or_forgotten_is_gone_from_the_history(plane, adapters):
    history = adapters.PlaneChatHistory(plane, session="s1")
    history.add_messages([Message("human", text) for text in ("one", "two", "three")])
    assert len(history.messages) == 3
    first, second, _ = (event.id for event in plane.events(session="s1"))
    plane.upkeep.purge(first)
    plane.forget(id=second)
    assert [one.content for one in history.messages] == ["three"]
    plane.unforget(id=second)
    assert [one.content for one in history.messages] == ["two", "three"]


def test_a_secret_in_a_message_comes_back_masked(plane, adapters):
    history = adapters.PlaneChatHistory(plane, session="s1")
    history.add_messages([Message("human", "use AKIA" + "IOSFODNN7EXAMPLQ now")])
    assert "IOSFODNN7EXAMPLQ" not in history.messages[0].content


def test_a_document_of_the_retriever_says_where_it_is_from(plane, adapters):
    plane.record("Herons nest in the old tree", role="user", session="s1")
    plane.record("Herons are grey", role="user", session="s2")
    retriever = adapters.PlaneRetriever(plane=plane, k=2, asked={"session": "s1"})
    (found,) = retriever._get_relevant_documents("herons", run_manager=None)
    event = next(plane.events(session="s1"))
    assert found.page_content == event.text
    assert found.metadata["seq"] == event.seq
    assert (found.id, found.metadata["day"]) == (event.id, event.ts[:10])
    assert found.metadata["score"] > 0
    assert not adapters.PlaneRetriever(plane=plane, k=2, asked={})._get_relevant_documents(
        "zebra", run_manager=None, k=1
    )


@pytest.mark.parametrize("name", ["PlaneByteStore", "PlaneChatHistory", "PlaneRetriever"])
def test_without_the_extra_each_class_names_it(monkeypatch, name):
    for module in ("stores", "chat_history", "retrievers"):
        monkeypatch.setitem(sys.modules, f"langchain_core.{module}", None)
    with pytest.raises(MissingExtraError, match=r"memplane\[langchain\]"):
        getattr(langchain, name)
    with pytest.raises(AttributeError):
        _ = langchain.Nothing
