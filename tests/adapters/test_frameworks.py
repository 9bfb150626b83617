"""The adapters under the suites of LangGraph and LangChain, and beside their own stores."""

import asyncio
import operator
import os
import random
import subprocess
import sys
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Annotated, TypedDict
from xml.etree import ElementTree as ET

import pytest

import memplane

pytestmark = pytest.mark.frameworks
base = pytest.importorskip("langgraph.checkpoint.base")
pytest.importorskip("langgraph.graph")

from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from langgraph.store.memory import InMemoryStore  # noqa: E402
from langgraph.types import Command, interrupt  # noqa: E402

from memplane.adapters.langgraph import PlaneSaver, PlaneStore  # noqa: E402

STEPS = 2_000
CALLS = ("aput", "aput_writes", "aget_tuple", "adelete_thread", "adelete_for_runs")
CALLS += ("acopy_thread", "aprune")


class ReopeningSaver(base.BaseCheckpointSaver):
    """A PlaneSaver that is made for each call, over a plane that is opened for it."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    async def alist(self, config, **asked):
        with memplane.open(self.path) as plane:
            found = [one async for one in PlaneSaver(plane).alist(config, **asked)]
        for one in found:
            yield one


def _reopening(name):
    async def call(self, *given, **named):
        with memplane.open(self.path) as plane:
            return await getattr(PlaneSaver(plane), name)(*given, **named)

    return call


for one in CALLS:
    setattr(ReopeningSaver, one, _reopening(one))


@pytest.mark.parametrize("reopened", [False, True])
def test_the_conformance_suite_of_checkpointers(tmp_path, reopened):
    suite = pytest.importorskip("langgraph.checkpoint.conformance")
    number = count()

    @suite.checkpointer_test(name=f"memplane {reopened}")
    async def made():
        path = tmp_path / f"{next(number)}"
        with memplane.init(path, durability="os") as plane:
            if not reopened:
                yield PlaneSaver(plane)
        if reopened:
            yield ReopeningSaver(path)

    report = asyncio.run(suite.validate(made))
    results = report.results.values()
    assert [one.failures for one in results if one.failures] == []
    assert sum(one.tests_passed for one in results) == 81


def _config(thread, ns, id_=None):
    named = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": named | ({"checkpoint_id": id_} if id_ else {})}


def _told(found):
    return None if found is None else tuple(found)


def test_random_calls_are_answered_as_by_the_saver_in_memory(tmp_path):
    chance = random.Random(7)
    own = InMemorySaver()
    path = tmp_path / "plane"
    plane = memplane.init(path, durability="os")
    saver = PlaneSaver(plane)
    made = []
    for step in range(STEPS):
        thread, ns = chance.choice("tuv"), chance.choice(["", "sub:1"])
        known = [one for one in made if one[:2] == (thread, ns)]
        parent = chance.choice(known)[2] if known and chance.random() < 0.8 else None
        act = chance.choices(
            ["put", "writes", "get", "list", "delete", "reopen"], [30, 25, 25, 12, 1, 1]
        )[0]
        if act == "put":
            id_ = f"{chance.choice('abc')}{step:04}"
            values = {name: [step, name] for name in "xyz" if chance.random() < 0.6}
            versions = {name: f"{step:08}.{chance.random()}" for name in values}
            fresh = {name: version for name, version in versions.items() if chance.random() < 0.8}
            given = base.empty_checkpoint() | {
                "id": id_,
                "channel_values": values,
                "channel_versions": versions,
            }
            metadata = {"source": chance.choice(["input", "loop"]), "step": step}
            answers = [
                one.put(_config(thread, ns, parent), given, metadata, fresh) for one in (own, saver)
            ]
            assert answers[0] == answers[1]
            made.append((thread, ns, id_))
        elif act == "writes" and parent:
            channels = ["x", "y", "__error__", "__interrupt__", "__resume__"]
            writes = [(chance.choice(channels), step) for _ in range(chance.randrange(4))]
            task, where = chance.choice("kl"), chance.choice(["", "~1", "~2"])
            for one in (own, saver):
                one.put_writes(_config(thread, ns, parent), writes, task, where)
        elif act == "get":
            config = _config(thread, ns, parent)
            assert _told(own.get_tuple(config)) == _told(saver.get_tuple(config))
        elif act == "list":
            asked = {
                "filter": chance.choice([None, {"source": "loop"}]),
                "limit": chance.choice([None, 0, 1, 3]),
                "before": _config(thread, ns, parent) if parent and chance.random() < 0.5 else None,
            }
            config = _config(thread, ns)
            theirs = [_told(one) for one in own.list(config, **asked)]
            assert theirs == [_told(one) for one in saver.list(config, **asked)]
        elif act == "delete":
            purge = chance.random() < 0.3
            own.delete_thread(thread)
            saver.delete_thread(thread, purge=purge)
            made = [one for one in made if one[0] != thread]
        elif act == "reopen":
            plane.close()
            plane = memplane.open(path, durability="os")
            saver = PlaneSaver(plane)
    plane.close()


def _items(found):
    return sorted((one.namespace, one.key, repr(one.value)) for one in found)


def test_random_calls_are_answered_as_by_the_store_in_memory(tmp_path):
    """But for the order of a listing, and namespaces in which nothing is left."""
    chance = random.Random(5)
    theirs = InMemoryStore()
    path = tmp_path / "plane"
    plane = memplane.init(path, durability="os")
    ours = PlaneStore(plane)
    spaces = [("a",), ("a", "b"), ("ab",), ("a/b", "c"), ("ü", "%2F", "c")]
    names = ["k", "k/1", "//", "%", "x y"]
    for step in range(STEPS):
        space, name = chance.choice(spaces), chance.choice(names)
        act = chance.choices(
            ["put", "get", "delete", "search", "spaces", "reopen"], [30, 30, 10, 20, 9, 1]
        )[0]
        if act == "put":
            value = {"n": chance.randrange(5), "said": f"heron {step}", "in": {"d": [step, None]}}
            for one in (theirs, ours):
                one.put(space, name, value)
        elif act == "get":
            found = [one.get(space, name) for one in (theirs, ours)]
            assert _items(filter(None, found[:1])) == _items(filter(None, found[1:]))
        elif act == "delete":
            for one in (theirs, ours):
                one.delete(space, name)
        elif act == "search":
            asked = {
                "filter": chance.choice([None, {"n": 2}, {"n": {"$gte": 2, "$ne": 4}}]),
                "limit": 100,
            }
            prefix = chance.choice([(), ("a",), space])
            found = [_items(one.search(prefix, **asked)) for one in (theirs, ours)]
            assert found[0] == found[1]
        elif act == "spaces":
            full = {one.namespace for one in theirs.search((), limit=1000)}
            asked = {"suffix": chance.choice([None, ("c",), ("*", "c")])}
            found = [one.list_namespaces(**asked) for one in (theirs, ours)]
            assert [one for one in found[0] if one in full] == found[1]
        else:
            plane.close()
            plane = memplane.open(path, durability="os")
            ours = PlaneStore(plane)
    plane.close()


def test_langgraphs_own_tests_of_its_store(tmp_path):
    """They are in the source archive of langgraph-checkpoint, which `make test-frameworks` unpacks.

    But for the score of an item of which several paths are searched: theirs has a vector for each
    and counts the nearest, a plane has one for the text of all.
    """
    suite = os.environ.get("MEMPLANE_LANGGRAPH_SUITE", "")
    if not (Path(suite) / "tests" / "test_store.py").is_file():
        pytest.skip("the source archive of langgraph-checkpoint is not here")
    asked = ["-p", "langgraph_suite_plugin", "-p", "no:memplane", "-o", "asyncio_mode=auto"]
    asked += ["-o", "asyncio_default_fixture_loop_scope=function", "-o", "addopts="]
    report = tmp_path / "report.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *asked, f"--junitxml={report}", "tests/test_store.py"],
        capture_output=True, text=True, check=False, cwd=suite,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}"},
    )  # fmt: skip
    cases = ET.parse(report).findall(".//testcase")
    failed = [one.get("name") for one in cases if one.find("failure") is not None]
    assert failed == ["test_embed_with_path"], done.stdout[-2000:]
    assert len(cases) >= 117
    assert not [one for one in cases if one.find("error") is not None]


def test_a_store_finds_by_words_and_lets_go_by_its_ttl(tmp_path):
    now = "2026-01-05T12:00:00.000000Z"
    with memplane.init(tmp_path / "plane", clock=lambda: now) as plane:
        store = PlaneStore(plane, now=lambda: datetime.fromisoformat(now))
        store.put(("users", "ann"), "tea", {"likes": "green tea", "with": "honey"})
        store.put(("users", "bob"), "tea", {"likes": "black tea"}, ttl=10)
        store.put(("users", "cy"), "tea", {"likes": "white tea"}, index=False)
        store.put(("users", "di"), "tea", {"likes": "red tea", "not": "mint"}, index=["likes"])
        found = store.search(("users",), query="who likes green tea?")
        assert (found[0].namespace, found[0].value["with"]) == (("users", "ann"), "honey")
        assert found[0].score > 0
        assert len(store.search(("users", "bob"), query="tea")) == 1
        found = [one.namespace for one in store.search((), query="white")]
        assert ("users", "cy") not in found
        assert "green tea" in plane.pack("green tea", agent="store").text
        assert "green tea" not in plane.pack("green tea").text
        now = "2026-01-05T12:11:00.000000Z"
        assert store.get(("users", "bob"), "tea") is None
        assert not store.search(("users", "bob"))
        store.put(("users", "ann"), "tea", {"likes": "no tea"})
        item = store.get(("users", "ann"), "tea")
        assert item.value == {"likes": "no tea"}
        assert item.created_at < item.updated_at


def test_fields_say_what_an_item_is_found_by_where_a_put_names_none(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        store = PlaneStore(plane, fields=["said"])
        store.put(("a",), "one", {"said": "herons are grey", "not": "zebra"})
        store.put(("a",), "two", {"said": "owls", "not": "otter"}, index=["not"])
        asked = {query: store.search((), query=query) for query in ("zebra", "herons", "otter")}
        found = {query: [one.key for one in items] for query, items in asked.items()}
        assert found == {"zebra": [], "herons": ["one"], "otter": ["two"]}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def test_a_graph_that_waits_for_an_answer_goes_on_after_a_reopening(tmp_path):
    def ask(_):
        return {"said": [interrupt("name?")]}

    built = StateGraph(State)
    built.add_node("greet", lambda _: {"said": ["hello"]})
    built.add_node("ask", ask)
    built.add_edge(START, "greet")
    built.add_edge("greet", "ask")
    built.add_edge("ask", END)
    config = {"configurable": {"thread_id": "t1"}}
    with memplane.init(tmp_path / "plane") as plane:
        built.compile(checkpointer=PlaneSaver(plane)).invoke({"said": ["hi"]}, config)
    with memplane.open(tmp_path / "plane") as plane:
        graph = built.compile(checkpointer=PlaneSaver(plane))
        assert graph.get_state(config).next == ("ask",)
        assert graph.invoke(Command(resume="Ann"), config) == {"said": ["hi", "hello", "Ann"]}
        assert len(list(graph.get_state_history(config))) == 4
        assert "hello" not in plane.pack("hello", session="t1").text
