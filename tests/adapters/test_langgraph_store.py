"""LangGraph's store without LangGraph: what is put, found by words or filters, and let go."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from memplane.adapters import langgraph
from memplane.adapters.langgraph import _Store, matches
from memplane.errors import InputError


class GetOp(NamedTuple):
    namespace: Any
    key: Any


class PutOp(NamedTuple):
    namespace: Any
    key: Any
    value: Any
    index: Any = None
    ttl: Any = None


class SearchOp(NamedTuple):
    namespace_prefix: Any
    filter: Any = None
    limit: int = 10
    offset: int = 0
    query: Any = None


class ListNamespacesOp(NamedTuple):
    match_conditions: Any = None
    max_depth: Any = None
    limit: int = 100
    offset: int = 0


class Under(NamedTuple):
    match_type: str
    path: Any


ANN, BOB = ("users", "ann"), ("users", "bob")


@pytest.fixture
def store(plane, clock, monkeypatch):
    core = SimpleNamespace(Item=SimpleNamespace, SearchItem=SimpleNamespace)
    monkeypatch.setattr(langgraph, "_langgraph", lambda _: core)
    return _Store(plane, now=lambda: datetime.fromisoformat(clock.now))


def put(store, *given, **named):
    store.batch([PutOp(*given, **named)])


def found(store, *given, **named):
    return [(one.namespace, one.key) for one in store.batch([SearchOp(*given, **named)])[0]]


def test_reads_of_a_batch_are_answered_before_its_writes(store):
    put(store, ANN, "tea", {"n": 1})
    read, none, gone = store.batch(
        [GetOp(ANN, "tea"), PutOp(ANN, "tea", {"n": 2}), GetOp(BOB, "tea")]
    )
    assert (read.value, none, gone) == ({"n": 1}, None, None)
    assert store.batch([GetOp(ANN, "tea")])[0].value == {"n": 2}


def test_a_prefix_reaches_what_lies_below_it_and_no_namespace_of_a_longer_name(store):
    for space in (("a",), ("a", "b"), ("ab",), ("a/b",)):
        put(store, space, "k//1", {"n": 1})
    assert found(store, ("a",)) == [(("a",), "k//1"), (("a", "b"), "k//1")]
    assert len(found(store, ())) == 4
    assert len(found(store, (), limit=2, offset=3)) == 1
    assert found(store, (), limit=0) == []


def test_items_are_found_by_words_and_deleted_ones_are_not(store, plane):
    put(store, ANN, "drink", {"likes": "green tea"})
    put(store, BOB, "drink", {"plays": "loud trumpets"})
    assert found(store, ("users",), query="green tea")[0] == (ANN, "drink")
    assert found(store, BOB, query="green tea") == []
    assert "green tea" in plane.pack("green tea", agent="store").text
    assert "green tea" not in plane.pack("green tea").text
    put(store, ANN, "drink", None)
    put(store, ANN, "never", None)
    assert found(store, ANN) == found(store, ANN, query="green tea") == []


def test_a_ttl_ends_and_the_time_of_creation_stays(store, clock):
    put(store, ANN, "tea", {"n": 1}, ttl=10)
    put(store, BOB, "tea", {"n": 1})
    clock.now = "2026-01-05T12:11:00.000000Z"
    put(store, BOB, "tea", {"n": 2})
    assert found(store, ()) == [(BOB, "tea")]
    item = store.batch([GetOp(BOB, "tea")])[0]
    assert item.created_at < item.updated_at


def test_namespaces_are_listed_by_their_begin_their_end_and_to_a_depth(store):
    for space in (("a", "b", "c"), ("a", "x", "c"), ("d",)):
        put(store, space, "k", {})
    listed = [
        store.batch([ListNamespacesOp(*given)])[0]
        for given in ((), ((Under("suffix", ("*", "c")),),), (None, 1), (None, None, 1, 1))
    ]
    assert listed[0] == [("a", "b", "c"), ("a", "x", "c"), ("d",)]
    assert listed[1] == listed[0][:2]
    assert listed[2] == [("a",), ("d",)]
    assert listed[3] == [("a", "x", "c")]


def test_filters_compare_as_they_say():
    value = {"n": 3, "in": {"a": 1, "b": 2}, "some": [1, 2]}
    for asked in ({"n": 3}, {"n": {"$gte": 3, "$lt": 4, "$ne": 1}}, {"in": {"a": 1}}, {}):
        assert matches(value, asked)
    for asked in ({"n": {"$gt": 3}}, {"in": {"c": 1}}, {"some": [1]}, {"n": {"$eq": 4}}):
        assert not matches(value, asked)
    with pytest.raises(InputError, match="known"):
        matches(value, {"n": {"$near": 3}})


def test_with_similar_vectors_decide_what_is_found(plane, store):
    put(store, ("a",), "tea", {"likes": "a cup of green tea"})
    put(store, ("a",), "car", {"drives": "an old lorry"})
    ours = _Store(plane, similar=True)
    (items,) = ours.batch([SearchOp(("a",), query="which vehicle, a truck?", limit=2)])
    assert items[0].key == "car"
    assert 0 < items[0].score <= 1
    (other,) = _Store(plane).batch([SearchOp(("a",), query="green")])
    assert other[0].key == "tea"
