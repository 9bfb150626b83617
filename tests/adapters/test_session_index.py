"""Many processes, a harmed index, and what a load reads."""

import asyncio
import multiprocessing
import sys

import pytest
from builders_transcripts import KEY, SUB, Store, entry, fold, said

import memplane
from memplane.adapters.claude_sessions import PlaneSessionStore
from memplane.errors import InputError
from memplane.index.storage import alone


def _write(home, number):
    async def turns(store):
        for at in range(20):
            await store.append(KEY, [said(1_000 * number + at, f"process {number}, turn {at}")])

    with memplane.open(home, durability="os") as plane, PlaneSessionStore(plane) as store:
        asyncio.run(turns(store))


def test_several_processes_append_to_one_transcript_and_none_loses_a_turn(store, plane):
    spawn = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    writers = [spawn.Process(target=_write, args=(plane.home, number)) for number in (1, 2, 3)]
    for writer in writers:
        writer.start()
    for _ in range(5):
        store.load(KEY)
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    texts = [one["message"]["content"] for one in store.load(KEY)]
    for number in (1, 2, 3):
        own = [text for text in texts if text.startswith(f"process {number}")]
        assert own == [f"process {number}, turn {at}" for at in range(20)]
    assert len(texts) == 60


def test_calls_at_once_are_served_in_their_order(plane):
    async def all_at_once(store):
        await asyncio.gather(*(store.append(KEY, [entry(uuid=f"u{n}", n=n)]) for n in range(50)))
        return await store.load(KEY)

    with PlaneSessionStore(plane) as store:
        loaded = asyncio.run(all_at_once(store))
    assert [one["n"] for one in loaded] == list(range(50))


@pytest.mark.parametrize("harm", ["gone", "cut", "foreign", "zeros", "folder", "held"])
def test_the_index_of_transcripts_is_a_cache_and_nothing_else(plane, harm):
    with Store(plane, fold=fold) as store:
        store.append(KEY, [entry(uuid=f"u{n}", n=n) for n in range(30)])
        store.append(SUB, [entry(uuid="s")])
        before = store.load(KEY), store.list_session_summaries("proj")
    path = plane.home / "projections" / "transcripts.sqlite"
    data = path.read_bytes()
    if harm == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif harm == "foreign":
        path.write_bytes(b"not a database, but long enough for its header to be read" * 40)
    elif harm == "zeros":
        path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    elif harm in ("gone", "folder"):
        path.unlink()
        if harm == "folder":
            path.mkdir()
    with Store(plane, fold=fold) as store, alone(path.parent if harm == "held" else plane.home):
        store.append(KEY, [entry(uuid="more")])
        assert store.load(KEY) == [*before[0], entry(uuid="more")]
        assert store.list_subkeys(KEY) == ["subagents/agent-1"]
        assert store.list_session_summaries("proj")[0]["data"]["count"] == 31


def test_a_load_reads_the_lines_of_its_transcript_and_no_others(store, plane, monkeypatch):
    for number in range(200):
        store.append({**KEY, "session_id": f"s{number}"}, [entry(uuid=f"u{number}", n=number)])
    store.load({**KEY, "session_id": "s0"})
    log, read = plane.context.log, []
    line = log.line
    monkeypatch.setattr(log, "line", lambda seq: read.append(seq) or line(seq))
    monkeypatch.setattr(log, "read", lambda *_: pytest.fail("the whole log was read"))
    assert store.load({**KEY, "session_id": "s7"}) == [entry(uuid="u7", n=7)]
    assert len(read) == 1


def test_a_plane_of_a_prefix_has_no_session_store(plane):
    plane.record("one")
    with pytest.raises(InputError, match="prefix"):
        PlaneSessionStore(plane.at(1))


def test_a_closed_store_takes_nothing_more(plane):
    store = PlaneSessionStore(plane)
    store.close()
    store.close()
    with pytest.raises(RuntimeError):
        asyncio.run(store.load(KEY))
