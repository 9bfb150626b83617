"""Planes are opened when asked for, closed when idle, never more than so many."""

import asyncio
from contextlib import asynccontextmanager

import pytest

import memplane
from memplane.acms.runner import AgentRow
from memplane.errors import NotFoundError
from memplane.log import disk as log_disk
from memplane.serve import web as serve_planes
from memplane.serve.web import ONLY, BusyError, OpenLimits, Planes
from memplane.wiring import init


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        init(tmp_path / "planes" / name, durability="os").close()
    (tmp_path / "planes" / "link").symlink_to(tmp_path / "planes" / "a")
    (tmp_path / "planes" / "empty").mkdir()
    return tmp_path / "planes"


def plane_id(plane):
    return plane.id


def run(script, folder, **how):
    @asynccontextmanager
    async def opened():
        planes = Planes(folder, None, OpenLimits(**how))
        try:
            yield planes
        finally:
            await planes.close()
            assert len(planes) == 0

    async def main():
        async with opened() as planes:
            return await script(planes)

    return asyncio.run(main())


def test_many_are_served_with_few_open(folder):
    async def script(planes):
        seen = []
        for name in "abcabcab":
            seen.append(await planes.read(name, plane_id))
            assert len(planes) <= 2
        return seen

    seen = run(script, folder, most=2)
    assert len(set(seen)) == 3
    assert seen[:3] == seen[3:6]


def test_where_all_are_in_use_another_is_told_to_come_again(folder):
    async def script(planes):
        async with planes._using("a"):
            with pytest.raises(BusyError):
                await planes.read("b", plane_id)
            return await planes.read("a", plane_id)

    assert run(script, folder, most=1)


def test_more_calls_than_may_wait_are_told_to_come_again(folder, monkeypatch):
    monkeypatch.setattr(serve_planes, "WAITING_MAX", 1)

    async def script(planes):
        async with planes._using("a"):
            with pytest.raises(BusyError):
                await planes.read("a", plane_id)

    run(script, folder)


def test_above_its_memory_idle_planes_make_room(folder):
    async def script(planes):
        for name in "abcab":
            await planes.read(name, plane_id)
            assert len(planes) == 1
        async with planes._using("a"):
            with pytest.raises(BusyError):
                await planes.read("b", plane_id)
        return True

    assert run(script, folder, memory=1)


def test_an_idle_one_is_closed(folder):
    async def script(planes):
        sweeping = asyncio.create_task(planes.sweep())
        await planes.read("a", plane_id)
        for _ in range(500):
            if not len(planes):
                break
            await asyncio.sleep(0.02)
        sweeping.cancel()
        assert len(planes) == 0
        return await planes.read("a", plane_id)

    assert run(script, folder, idle_s=0.05)


@pytest.mark.parametrize(
    "name", ["nowhere", "..", "../planes/a", "a/../a", "link", "empty", "", "."]
)
def test_what_is_no_plane_of_the_folder_is_not_opened(folder, name):
    async def script(planes):
        with pytest.raises(NotFoundError):
            await planes.read(name, plane_id)

    run(script, folder)


def test_a_write_runs_to_its_end_though_nobody_waits(folder):
    async def script(planes):
        writing = asyncio.create_task(
            planes.write("a", lambda plane: plane.record("kept", key="k"))
        )
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

    run(script, folder)

    async def look(planes):
        return await planes.read("a", lambda plane: plane.get("k"))

    assert run(look, folder).text == "kept"


def test_a_plane_that_was_moved_away_or_replaced_is_not_written_to(folder):
    row = AgentRow({"text": "the old one", "kind": "fact", "key": "k"}, "agent", "ann")

    async def script(planes):
        before = await planes.read("a", plane_id)
        await planes.record("a", row)
        (folder / "a").rename(folder.parent / "gone")
        with pytest.raises(NotFoundError):
            await planes.record("a", row)
        assert not (folder / "a").exists()
        init(folder / "a", durability="os").close()
        assert await planes.read("a", plane_id) != before
        assert await planes.read("a", lambda plane: plane.get("k")) is None
        (folder / "a").rename(folder.parent / "gone too")
        return True

    assert run(script, folder)
    assert not (folder / "a").exists()
    with memplane.open(folder.parent / "gone") as plane:
        assert plane.get("k").text == "the old one"


def test_many_small_writers_share_syncs(folder, monkeypatch):
    syncs, real = [], log_disk.Disk.fdatasync

    def counted(disk, fd):
        syncs.append(fd)
        return real(disk, fd)

    monkeypatch.setattr(log_disk.Disk, "fdatasync", counted)

    async def script(planes):
        await planes.read("a", plane_id)
        del syncs[:]
        rows = [
            AgentRow({"text": f"from {n}", "kind": "fact", "key": f"k{n}"}, "agent", f"agent{n}")
            for n in range(60)
        ]
        done = await asyncio.gather(*(planes.record("a", row) for row in rows))
        assert len({one.seq for one in done}) == 60
        return len(syncs)

    assert run(script, folder) <= 6


def test_one_plane_alone_has_one_name(folder):
    async def script():
        planes = Planes(None, folder / "a")
        assert planes.names() == [ONLY]
        found = await planes.read(ONLY, plane_id)
        with pytest.raises(NotFoundError):
            await planes.read("a", plane_id)
        await planes.close()
        return found

    assert asyncio.run(script())


def test_the_names_are_those_of_planes(folder):
    assert Planes(folder, None).names() == ["a", "b", "c"]
