"""The Claude Agent SDK's own conformance suite for session stores, and its readers, over a plane."""

import asyncio

import pytest

import memplane
from memplane.adapters.claude_sessions import PlaneSessionStore

sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")


@pytest.fixture
def made(tmp_path):
    """Stores over new planes, as many as are asked for."""
    opened = []

    def make():
        plane = memplane.init(tmp_path / f"plane-{len(opened)}", durability="os")
        opened.append((PlaneSessionStore(plane), plane))
        return opened[-1][0]

    yield make
    for store, plane in opened:
        store.close()
        plane.close()


def test_the_conformance_suite_holds_with_nothing_left_out(made):
    from claude_agent_sdk.testing import run_session_store_conformance

    asyncio.run(run_session_store_conformance(made))


def test_the_sdk_lists_and_reads_what_a_store_holds_as_from_its_own(made, tmp_path):
    store, own = made(), sdk.InMemorySessionStore()
    session = "11111111-2222-4333-8444-555555555555"
    key = {"project_key": sdk.project_key_for_directory(tmp_path), "session_id": session}
    entries, before = [], None
    for number in range(12):
        role = "assistant" if number % 2 else "user"
        uuid = f"00000000-0000-4000-8000-{number:012x}"
        content = [{"type": "text", "text": f"turn {number}"}]
        entries.append(
            {
                "type": role, "uuid": uuid, "parentUuid": before, "isSidechain": False,
                "sessionId": session, "cwd": str(tmp_path), "gitBranch": "main",
                "timestamp": f"2026-01-05T12:00:{number:02}.000Z",
                "message": {"role": role, "content": content},
            }
        )  # fmt: skip
        before = uuid
    entries.append({"type": "custom-title", "customTitle": "Twelve turns", "sessionId": session})

    async def both(ask):
        return [await ask(one) for one in (store, own)]

    async def fill(one):
        for at in range(0, len(entries), 5):
            await one.append(key, entries[at : at + 5])

    asyncio.run(both(fill))
    ours, theirs = asyncio.run(both(lambda one: sdk.list_sessions_from_store(one, str(tmp_path))))
    assert [info.summary for info in ours] == [info.summary for info in theirs] == ["Twelve turns"]
    ours, theirs = asyncio.run(
        both(lambda one: sdk.get_session_messages_from_store(one, session, str(tmp_path)))
    )
    assert len(ours) == 12
    assert ours == theirs
