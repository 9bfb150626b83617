"""The asynchronous forms of a plane's methods: same parameters, same answers, no name left out."""

import asyncio
import inspect
import threading

import pytest

import memplane
from memplane.acms.runner import AsyncPlane, AsyncUpkeep, AsyncWork
from memplane.plane.plane import Plane, PlaneUpkeep
from memplane.plane.work import PlaneWork

PAIRS = [(AsyncPlane, Plane), (AsyncUpkeep, PlaneUpkeep), (AsyncWork, PlaneWork)]
# On the plane: what has no asynchronous form is made or kept in memory, and costs no wait.
ITSELF = {"at", "under", "advance", "head", "flush", "episodes"}


def methods(kind):
    return {
        name
        for name, one in vars(kind).items()
        if inspect.isfunction(one) and not name.startswith("_")
    }


@pytest.mark.parametrize(("asynchronous", "plain"), PAIRS)
def test_every_method_has_an_asynchronous_form_with_the_same_parameters(asynchronous, plain):
    here = methods(plain) - ITSELF - {"hotset"}
    assert here <= methods(asynchronous)
    for name in here - {"session", "close"}:
        made = getattr(asynchronous, name)
        assert inspect.iscoroutinefunction(made)
        assert inspect.signature(made) == inspect.signature(getattr(plain, name)), name
        assert made.__doc__


def test_what_is_awaited_is_what_the_plane_says(tmp_path):
    async def work():
        memplane.init(tmp_path / "p", trusted=False, environment={}).close()
        async with memplane.aopen(tmp_path / "p") as plane:
            await plane.record("We keep PostgreSQL", kind="decision", key="db.engine", session="s")
            await plane.record_many([{"text": "The comma is lost", "session": "s"}])
            assert [event.seq for event in await plane.events(session="s")] == [2, 3]
            assert (await plane.get("db.engine")).seq == 2
            assert list(await plane.keys()) == ["db.engine"]
            assert "PostgreSQL" in (await plane.pack("postgresql", budget=400)).text
            assert (await plane.search("comma"))[0].event.seq == 3
            assert "comma" in (await plane.expand("event/3")).text
            await plane.forget("db.engine")
            assert await plane.work.decisions() == []
            await plane.unforget("db.engine")
            assert [event.seq for event in await plane.work.decisions()] == [2]
            assert (await plane.upkeep.verify(deep=True)).ok
            assert await plane.upkeep.index() == (await plane.run(lambda own: own.head().seq))
            ended = await plane.work.run(lambda own: own.sessions.end("s"))
            assert ended is not None
            assert await plane.upkeep.run(lambda own: own.waiting) == 0

    asyncio.run(work())


def test_no_call_runs_on_the_loop_and_errors_come_as_they_are(tmp_path):
    async def work():
        memplane.init(tmp_path / "p", trusted=False, environment={}).close()
        here = threading.get_ident()
        async with memplane.aopen(tmp_path / "p") as plane:
            assert await plane.run(lambda _: threading.get_ident()) != here
            with pytest.raises(memplane.NotFoundError):
                await plane.event(7)
            with pytest.raises(memplane.BudgetError):
                await plane.pack("x", budget=0)
        with pytest.raises(memplane.HomeError, match="not open"):
            await plane.upkeep.verify()

    asyncio.run(work())
