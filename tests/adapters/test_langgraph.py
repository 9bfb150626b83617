"""The checkpointer: what it keeps after a reopening, what it never shows, what deleting takes."""

from __future__ import annotations

import hashlib
import sys

import pytest

import memplane
from memplane.adapters.turns import PART_BYTES, BlobRows, turned_id
from memplane.errors import InputError, MissingExtraError, PlaneError
from tests.adapters.builders_frameworks import stand_in_saver

ZEBRA = "zebra crossing in Lisbon"


def at(thread="t1", id_=None, ns=""):
    named = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": named | ({"checkpoint_id": id_} if id_ else {})}


def checkpoint(id_, values, version=1):
    versions = dict.fromkeys(values, version)
    return {"v": 4, "id": id_, "channel_values": values, "channel_versions": versions}


def put(saver, id_, values, *, thread="t1", parent=None, version=1, ns="", **metadata):
    given = checkpoint(id_, values, version)
    config = at(thread, parent, ns)
    return saver.put(config, given, metadata, given["channel_versions"])


def ids(saver, config=None, **asked):
    return [one.checkpoint["id"] for one in saver.list(config, **asked)]


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "plane"):
        pass
    return tmp_path / "plane"


@pytest.fixture
def plane(home):
    with memplane.open(home) as opened:
        yield opened


@pytest.fixture
def saver(monkeypatch, plane):
    return stand_in_saver(monkeypatch, plane)


def test_a_checkpoint_with_its_writes_is_read_back_after_each_reopening(home, monkeypatch):
    with memplane.open(home) as plane:
        put(stand_in_saver(monkeypatch, plane), "a", {"x": [1]}, step=0)
    with memplane.open(home) as plane:
        stand_in_saver(monkeypatch, plane).put_writes(at(id_="a"), [("x", b"\0")], "task")
    with memplane.open(home) as plane:
        put(stand_in_saver(monkeypatch, plane), "b", {"x": [1, 2]}, parent="a", version=2)
    with memplane.open(home) as plane:
        saver = stand_in_saver(monkeypatch, plane)
        first = saver.get_tuple(at(id_="a"))
        newest = saver.get_tuple(at())
    assert first.checkpoint["channel_values"] == {"x": [1]}
    assert first.metadata == {"step": 0}
    assert first.pending_writes == [("task", "x", b"\0")]
    assert newest.checkpoint["channel_values"] == {"x": [1, 2]}
    assert newest.config == at(id_="b")
    assert newest.parent_config == at(id_="a")


def test_the_newest_comes_first_also_where_one_id_begins_with_another(saver):
    for one in ("a", "ab", "aa", "b", "é"):
        put(saver, one, {})
    assert ids(saver, at()) == ["é", "b", "ab", "aa", "a"]
    assert ids(saver, at(), limit=2) == ["é", "b"]
    assert ids(saver, at(), before=at(id_="ab")) == ["aa", "a"]
    assert ids(saver, at(id_="aa")) == ["aa"]
    assert ids(saver, at(), limit=0) == []


def test_threads_and_namespaces_are_apart(saver):
    put(saver, "a", {"x": 1}, thread="t")
    put(saver, "b", {"x": 2}, thread="t", ns="sub:1")
    put(saver, "c", {"x": 3}, thread="t/sub")
    assert saver.get_tuple(at("t")).checkpoint["channel_values"] == {"x": 1}
    assert saver.get_tuple(at("t", ns="sub:1")).checkpoint["channel_values"] == {"x": 2}
    assert saver.get_tuple(at("u")) is None
    assert sorted(ids(saver, {"configurable": {"thread_id": "t"}})) == ["a", "b"]
    assert sorted(ids(saver)) == ["a", "b", "c"]


def test_metadata_filters_the_list(saver):
    put(saver, "a", {}, source="input")
    put(saver, "b", {}, source="loop")
    assert ids(saver, at(), filter={"source": "input"}) == ["a"]


def test_a_write_that_is_there_stays_and_a_special_one_is_replaced(saver):
    put(saver, "a", {})
    saver.put_writes(at(id_="a"), [("x", 1), ("__interrupt__", "first")], "task")
    saver.put_writes(at(id_="a"), [("x", 2), ("__interrupt__", "second")], "task")
    saver.put_writes(at(id_="a"), [], "other")
    found = saver.get_tuple(at(id_="a")).pending_writes
    assert found == [("task", "__interrupt__", "second"), ("task", "x", 1)]


@pytest.mark.parametrize("channel", ["private", "agent"])
@pytest.mark.parametrize("agent", [None, "langgraph"])
def test_no_block_no_search_and_no_expansion_shows_a_checkpoint(plane, saver, channel, agent):
    plane.record("Where shall we meet?", role="user", session="t1")
    put(saver, "a", {"messages": [ZEBRA]}, note=ZEBRA)
    saver.put_writes(at(id_="a"), [("messages", ZEBRA)], "task")
    named = {} if agent is None else {"agent": agent}
    for query in ("zebra", "", "langgraph checkpoint bytes"):
        for intent in ("fast", "deep", "orient"):
            block = plane.pack(
                query, session="t1", budget=4000, channel=channel, intent=intent, **named
            )
            for hidden in ("zebra", "langgraph", "c/", "eJ", "bytes"):
                assert hidden not in block.text
        assert not plane.search(query or "zebra", channel=channel, kind="custom:langgraph", **named)
    assert plane.keys("", "/agent/langgraph", channel="agent", agent="langgraph") == []
    if agent is None:  # nor by the very digest that its key consists of
        for part in plane.keys("", "/agent/langgraph")[0].split("/"):
            assert not plane.search(part, channel=channel)
            assert "custom:" not in plane.pack(part, session="t1", channel=channel).text


def test_deleting_a_thread_forgets_it_alone_and_not_the_turns_of_its_session(plane, saver):
    said = plane.record("Where shall we meet?", role="user", session="t1")
    put(saver, "a", {"x": 1})
    put(saver, "a", {"x": 1}, thread="t2")
    saver.delete_thread("t1")
    saver.delete_thread("never")
    assert saver.get_tuple(at()) is None
    assert ids(saver) == ["a"]
    assert plane.event(said.seq).text
    assert "meet" in plane.pack("", session="t1").text
    put(saver, "a", {"x": 2})
    assert saver.get_tuple(at()).checkpoint["channel_values"] == {"x": 2}


def test_a_purge_takes_the_bytes_out_of_the_log(plane, saver, home):
    put(saver, "a", {"x": 1})
    stored = [
        event.data["bytes"] for event in plane.events(kind="custom:langgraph", agent="langgraph")
    ]
    saver.delete_thread("t1", purge=True)
    left = b"".join(path.read_bytes() for path in (home / "log").rglob("*") if path.is_file())
    assert stored
    assert not [one for one in stored if one.encode() in left]


def test_runs_are_deleted_with_their_copies(saver):
    put(saver, "a", {"x": 1}, run_id="r1")
    put(saver, "b", {"x": 2}, parent="a", run_id="r2")
    saver.copy_thread("t1", "t2")
    saver.put_writes(at(id_="a"), [("x", 1)], "task")
    saver.delete_for_runs(["r1"])
    assert ids(saver, at()) == ids(saver, at("t2")) == ["b"]
    put(saver, "a", {"x": 1})
    assert saver.get_tuple(at(id_="a")).pending_writes == []


def test_pruning_keeps_what_the_newest_needs(plane, saver):
    put(saver, "a", {"x": 1, "y": 1})
    given = checkpoint("b", {"x": 1, "y": 2})
    given["channel_versions"]["y"] = 2
    saver.put(at(id_="a"), given, {}, {"y": 2})
    saver.prune(["t1"])
    assert ids(saver, at()) == ["b"]
    assert saver.get_tuple(at()).checkpoint["channel_values"] == {"x": 1, "y": 2}
    assert len(plane.keys("b/", "/agent/langgraph")) == 2
    with pytest.raises(InputError):
        saver.prune(["t1"], strategy="keep_some")
    saver.prune(["t1"], strategy="delete")
    assert ids(saver, at()) == []


def test_pruning_a_long_thread_is_one_write(plane, saver):
    parent = None
    for number in range(30):
        put(saver, f"{number:04}", {"x": number}, parent=parent, version=number)
        parent = f"{number:04}"
    head = plane.head().seq
    saver.prune(["t1"])
    assert ids(saver) == ["0029"]
    assert plane.head().seq == head + 1


def test_pruning_keeps_the_ancestors_that_a_channel_without_a_value_is_made_of(saver):
    put(saver, "0", {"log": ["old"]})
    put(saver, "a", {"log": ["begun"]}, parent="0", version=2)
    saver.put_writes(at(id_="a"), [("log", "more")], "task")
    given = checkpoint("b", {}) | {"channel_versions": {"log": 3}}
    saver.put(at(id_="a"), given, {}, {"log": 3})
    saver.prune(["t1"])
    assert ids(saver, at()) == ["b", "a"]
    assert saver.get_tuple(at(id_="a")).pending_writes == [("task", "log", "more")]


def test_a_value_of_many_parts_is_kept_whole_and_forgotten_whole(plane):
    blobs = BlobRows(plane, "own")
    large = b"".join(hashlib.sha256(bytes([one % 256, one // 256])).digest() for one in range(6000))
    blobs.keep(blobs.rows("k", {"a": 1}, [b"", large], owner="o"))
    found = blobs.get("k")
    assert (found.head, found.raws) == ({"a": 1}, (b"", large))
    assert len(plane.keys("p/", "/agent/own")) == -(-len(large) // PART_BYTES)
    part = plane.keys("p/", "/agent/own")[0]
    plane.forget(part, ns="/agent/own")
    with pytest.raises(PlaneError):
        blobs.get("k")
    blobs.forget("k")
    assert plane.keys("", "/agent/own") == []


def test_reading_the_newest_lists_one_key_however_long_the_thread(plane, saver, monkeypatch):
    for number in range(30):
        put(saver, f"{number:03}", {"x": number}, version=number)
    asked = []
    listed = type(plane).keys
    monkeypatch.setattr(
        type(plane),
        "keys",
        lambda self, *given, **named: asked.append(named["limit"]) or listed(self, *given, **named),
    )
    assert saver.get_tuple(at()).checkpoint["id"] == "029"
    assert asked[0] == 1
    assert len(asked) == 2


def test_names_of_any_length_and_form_are_threads(saver):
    for thread in ("x" * 4000, "a\nb", "/", "..", "ü" * 200):
        put(saver, "a", {"x": thread}, thread=thread)
        assert saver.get_tuple(at(thread)).checkpoint["channel_values"] == {"x": thread}


def test_the_reverse_of_names_orders_them_backwards():
    names = ["", "a", "a~", "aa", "b", "1f0", "é", "\U0001f600"]
    in_order = sorted(names, key=str.encode, reverse=True)
    assert sorted(names, key=turned_id) == in_order


def test_without_the_extra_the_class_names_it(monkeypatch):
    from memplane.adapters import langgraph

    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.base", None)
    monkeypatch.setitem(sys.modules, "langgraph.store.base", None)
    with pytest.raises(MissingExtraError, match=r"memplane\[langgraph\]"):
        _ = langgraph.PlaneSaver
    with pytest.raises(MissingExtraError, match=r"memplane\[langgraph\]"):
        _ = langgraph.PlaneStore
    with pytest.raises(AttributeError):
        _ = langgraph.Nothing
