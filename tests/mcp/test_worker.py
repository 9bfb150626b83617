"""The event loop never waits for the plane; what a client gives up is dropped, not undone."""

import threading

import anyio
import pytest

import memplane
from memplane.context.context import PlaneContext
from memplane.wiring import init, open_plane

MODES = ("auto", "legacy")


class Held:
    """Holds a method of the plane, or of its engine, until it is let go; counts its calls."""

    def __init__(self, monkeypatch, name, owner=memplane.Plane):
        self.begun, self.go, self.calls = threading.Event(), threading.Event(), 0
        real = getattr(owner, name)

        def held(plane, *args, **more):
            self.calls += 1
            self.begun.set()
            assert self.go.wait(60)
            return real(plane, *args, **more)

        monkeypatch.setattr(owner, name, held)

    async def has_begun(self):
        await anyio.to_thread.run_sync(self.begun.wait, 60)


@pytest.mark.parametrize("mode", MODES)
def test_while_searches_wait_the_server_answers_stores_and_lists(talk, monkeypatch, mode):
    held = Held(monkeypatch, "search")

    async def script(client):
        async def search():
            found.append(await client.call_tool("memory_search", {"query": "herons"}))

        found = []
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(search)
            await held.has_begun()
            tools = await client.list_tools()
            asked = {"content": "Herons stay", "type": "fact"}
            stored = await client.call_tool("memory_store", asked)
            waited = not found
            held.go.set()
        return waited, len(tools.tools), stored.is_error, [one.is_error for one in found]

    assert talk(script, mode=mode) == (True, 7, False, [False] * 5)
    assert held.calls == 5


@pytest.mark.parametrize("mode", MODES)
def test_a_record_that_was_begun_is_finished_though_its_client_gave_up(
    talk, monkeypatch, opened, mode
):
    held = Held(monkeypatch, "append", PlaneContext)

    async def script(client):
        asked = {"content": "Herons stay", "type": "fact", "key": "herons"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "memory_store", asked)
            await held.has_begun()
            tasks.cancel_scope.cancel()
        held.go.set()
        # Behind it in the one thread that writes; so it is done when this is.
        more = await client.call_tool("memory_store", {"content": "and more", "type": "fact"})
        return more.structured_content["seq"]

    last = talk(script, mode=mode)
    assert opened.get("herons").text == "Herons stay"
    assert last == opened.get("herons").seq + 1


def test_a_search_that_was_given_up_before_its_turn_is_not_begun(talk, monkeypatch):
    held = Held(monkeypatch, "search")

    async def script(client):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(client.call_tool, "memory_search", {"query": "herons"})
            await held.has_begun()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        held.go.set()
        return (await client.call_tool("memory_search", {"query": "herons"})).is_error

    assert talk(script) is False
    assert held.calls <= 3  # two threads read: what they had begun, and the last one


def test_given_up_calls_leave_a_server_that_answers_all_that_comes_after(talk):
    async def script(client):
        for number in range(30):
            with anyio.move_on_after(0.001 * (number % 5)):
                asked = {"content": f"heron {number}", "type": "fact"}
                await client.call_tool("memory_store", asked)
        done = await client.call_tool("memory_store", {"content": "the last", "type": "fact"})
        listed = await client.call_tool("memory_search", {"query": "last"})
        return done.is_error, [hit["text"] for hit in listed.structured_content["hits"]]

    failed, texts = talk(script, mode="legacy")
    assert not failed
    assert "the last" in texts


@pytest.mark.parametrize("mode", MODES)
def test_the_first_index_of_many_events_reports_how_far_it_is(talk, opened, mode):
    opened.record_many(
        [{"text": f"heron {number} stands", "kind": "fact"} for number in range(4000)]
    )
    heard = []

    async def note(done, total, message):
        heard.append((done, total, message))

    async def script(client):
        asked = {"query": "heron 17"}
        return await client.call_tool("memory_search", asked, progress_callback=note)

    assert not talk(script, mode=mode).is_error
    assert heard
    assert all(0 <= done <= total and message for done, total, message in heard)
    assert [done for done, *_ in heard] == sorted(done for done, *_ in heard)


def test_the_plane_is_opened_by_the_first_call_and_closed_at_the_end(talk, home):
    planes = []

    def opening():
        planes.append(open_plane(home))
        return planes[-1]

    async def script(client):
        await client.list_tools()
        await client.list_resources()
        before = len(planes)
        for _ in range(3):
            await client.call_tool("memory_list_keys", {})
        return before

    assert talk(script, open_here=opening) == 0
    assert len(planes) == 1
    with pytest.raises(memplane.HomeError, match="was closed"):
        planes[0].head()


def test_a_plane_that_is_moved_away_is_missed_and_found_again_when_it_is_back(talk, home, tmp_path):
    away = tmp_path / "away"

    async def script(client):
        async def say(content):
            asked = {"content": content, "type": "fact"}
            return await client.call_tool("memory_store", asked)

        first = await say("one")
        home.rename(away)
        gone = [await say("two"), await client.call_tool("memory_search", {"query": "one"})]
        left = home.exists()
        away.rename(home)
        return first, gone, left, await say("three")

    first, gone, left, last = talk(script)
    assert (first.is_error, last.is_error, left) == (False, False, False)
    for result in gone:
        assert result.is_error
        assert "no plane here" in result.content[0].text
    with memplane.open(home) as plane:
        assert [event.text for event in plane.events(kind="fact")] == ["one", "three"]
        assert plane.upkeep.verify(deep=True).ok


def test_a_plane_that_is_gone_at_the_end_is_not_made_again(talk, home, tmp_path):
    async def script(client):
        await client.call_tool("memory_store", {"content": "one", "type": "fact"})
        home.rename(tmp_path / "away")

    talk(script)
    assert not home.exists()


def test_another_plane_in_the_same_folder_is_opened(talk, home, tmp_path):
    async def script(client):
        await client.call_tool("memory_store", {"content": "one", "type": "fact"})
        home.rename(tmp_path / "away")
        init(home).close()
        await client.call_tool("memory_store", {"content": "two", "type": "fact"})

    talk(script)
    with memplane.open(home) as plane:
        assert [event.text for event in plane.events(kind="fact")] == ["two"]
