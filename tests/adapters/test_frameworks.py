"""The adapters under the suites of LangGraph and LangChain, and beside their own stores."""

from __future__ import annotations

import asyncio
import random
from itertools import count

import pytest

import memplane

pytestmark = pytest.mark.frameworks
base = pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402

from memplane.adapters.langgraph import PlaneSaver  # noqa: E402

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
