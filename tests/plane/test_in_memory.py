"""A plane in memory answers as one on files does, leaves nothing behind, and says what it cannot."""

import gc
import io
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import memplane
from memplane.errors import HomeError, InputError

NOW = "2026-01-05T12:00:00.000000Z"
QUERIES = ("ledger cursor", "why is the queue slow?", "", "what did Ana decide about the invoice?")


def rows():
    yield {"kind": "decision", "key": "ledger.cursor", "text": "One cursor for the ledger."}
    yield {"kind": "preference", "key": "tone", "text": "Short answers.", "ns": "/global"}
    for n in range(60):
        text = f"Turn {n}: the queue of invoice {n % 7} is slow, says Ana. " + "More of it. " * n
        yield {"text": text, "role": "assistant" if n % 2 else "user", "session": f"s{n % 3}"}
    yield {"text": "The log of a test. " * 20_000, "role": "tool", "session": "s1"}
    yield {"kind": "decision", "key": "ledger.cursor", "text": "Two cursors for the ledger."}


def filled(path):
    plane = memplane.init(path, clock=lambda: NOW, environment={}, trusted=False)
    plane.record_many(
        {**row, "id": f"e{n}", "ts": f"2026-01-04T10:{n // 60:02}:{n % 60:02}.000000Z"}
        for n, row in enumerate(rows())
    )
    return plane


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with filled(tmp_path_factory.mktemp("plane") / "files") as files, filled(":memory:") as memory:
        yield files, memory


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("asked", [
    {"intent": "deep"}, {"intent": "fast", "session": "s1"}, {"intent": "orient"},
    {"as_of": 30}, {"expand": ["#62"]}, {"channel": "public"}, {"budget": 300},
])  # fmt: skip
def test_the_same_events_give_the_same_block(both, query, asked):
    blocks = [plane.pack(query, now=NOW, **{"budget": 1500, **asked}) for plane in both]
    assert blocks[0].text == blocks[1].text
    assert blocks[0].entries == blocks[1].entries
    first, second = (
        {name: block.report[name] for name in block.report.keys() - {"log", "io", "timings_ns"}}
        for block in blocks
    )
    assert first == second


def test_and_the_same_hits_values_texts_and_sessions(both):
    for get in (
        lambda plane: [
            (hit.score, hit.event.id, hit.text) for hit in plane.search("ledger cursor", k=8)
        ],
        lambda plane: [(one.id, one.score) for one in plane.recall("queue", session="s1").items],
        lambda plane: plane.get("ledger.cursor").text,
        lambda plane: plane.text(plane.event("e62"))[-300:],
        lambda plane: len(plane.history("ledger.cursor")),
        lambda plane: [one.id for one in plane.work.sessions.list()],
    ):
        assert get(both[0]) == get(both[1])


def test_nothing_lies_anywhere_but_an_empty_folder_that_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plane = filled(":memory:")
    plane.search("queue")
    plane.pack("queue", save_report=True)
    plane.work.sessions.end("s1")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    plane.close()
    assert list(tmp_path.iterdir()) == []
    left = memplane.open(":memory:")
    left.record("x", role="user")
    del left
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_as_it_was_at_a_seq(both):
    blocks = []
    for plane in both:
        with plane.at(30) as then:
            blocks.append(then.pack("queue", budget=900, now=NOW).text)
        assert plane.home.is_dir()
    assert blocks[0] == blocks[1]


def test_each_is_a_plane_of_its_own():
    with memplane.open(":memory:") as one, memplane.open(":memory:") as other:
        one.record("The tank is full.", role="user")
        assert other.head().seq == 0
        assert one.id != other.id
        assert not other.search("tank")


def test_what_is_purged_is_gone_and_what_stays_still_chains():
    with filled(":memory:") as plane:
        secret = plane.record("zanzibar " * 90_000, role="user", session="s1").seq
        plane.record("A turn behind it.", role="user", session="s1")
        assert plane.search("zanzibar")
        plane.upkeep.purge(secret, reason="asked for")
        assert not plane.search("zanzibar")
        assert "zanzibar" not in plane.pack("zanzibar", session="s1").text
        log = plane.context.log
        assert not log.says(b"zanzibar")
        assert [line.event.seq for line in log.read(secret - 2)][:2] == [secret - 1, secret + 1]
        with pytest.raises(memplane.PurgedError):
            plane.record("zanzibar again", role="user", id=log.purged(secret).id)


def test_vectors_are_made_and_found_in_memory_too(tmp_path, monkeypatch):
    class Counted:
        name, dimension = "letters", 26

        def embed(self, texts):
            return [
                bytes(min(one.lower().count(chr(97 + at)), 127) for at in range(26))
                for one in texts
            ]

    answers = []
    for path in (tmp_path / "files", ":memory:"):
        with memplane.init(path, embedder=Counted(), clock=lambda: NOW, trusted=False) as plane:
            for n in range(12):
                plane.record(f"zebra number {n} of the zoo", role="user", id=f"z{n}")
            hits = plane.search("zzz", k=3)
            answers.append((plane.upkeep.embed(), [hit.event.id for hit in hits]))
    assert answers[0] == answers[1]


def test_threads_lose_nothing():
    with memplane.open(":memory:") as plane:

        def work(number):
            for n in range(50):
                plane.record(f"t{number} {n}", role="user", id=f"{number}-{n}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        lines = list(plane.context.log.read())
        assert [line.event.seq for line in lines] == list(range(1, plane.head().seq + 1))
        assert len({line.event.id for line in lines}) == 301


@pytest.mark.parametrize("call", [
    lambda plane: plane.upkeep.verify(),
    lambda plane: plane.upkeep.export(io.BytesIO()),
    lambda plane: plane.pack("x", remind="prompt"),
])  # fmt: skip
def test_what_takes_files_is_refused_by_name(call):
    with (
        memplane.open(":memory:") as plane,
        pytest.raises(HomeError, match="in memory has no files"),
    ):
        call(plane)


def test_a_part_is_exported_and_brought_into_a_plane_on_files(tmp_path):
    with filled(":memory:") as plane:
        plane.upkeep.export(tmp_path / "part.jsonl", kind="decision")
    memplane.restore(tmp_path / "part.jsonl", tmp_path / "kept")
    with memplane.open(tmp_path / "kept") as kept:
        assert kept.get("ledger.cursor").text == "Two cursors for the ledger."


def test_variables_count_and_read_only_is_read_only():
    with memplane.open(
        ":memory:", environment={"MEMPLANE_BUDGETS__RESERVE_TOKENS": "900"}
    ) as plane:
        assert plane.upkeep.policies.budgets.reserve_tokens == 900
    with memplane.open(":memory:", read_only=True) as plane, pytest.raises(HomeError):
        plane.record("x", role="user")
    for wrong in (
        lambda: memplane.open(":memory:", project="a"),
        lambda: memplane.restore(io.BytesIO(), ":memory:"),
    ):
        with pytest.raises(InputError):
            wrong()


def test_a_folder_of_that_name_is_named_as_a_path_and_a_command_means_it(
    tmp_path, monkeypatch, capsys
):
    from memplane.cli.run import run_command_line

    monkeypatch.chdir(tmp_path)
    assert run_command_line(["record", "x", "--home", ":memory:"]) != 0
    assert "no plane here" in capsys.readouterr().err
    with memplane.init(Path(":memory:"), trusted=False) as plane:
        plane.record("x", role="user")
    assert [path.name for path in Path().iterdir()] == [":memory:"]
    with memplane.open(":memory:") as plane:
        assert plane.head().seq == 0


def test_what_is_closed_is_closed():
    with memplane.open(":memory:") as plane:
        plane.record("x", role="user")
    with pytest.raises(HomeError):
        plane.record("y", role="user")


FORKS = """
import os
import sys

import memplane

plane = memplane.open(":memory:")
plane.record(kind="message", role="user", text="the parser of the invoice")
child = os.fork()
if not child:
    plane.record(kind="message", role="user", text="said by the child alone")
    sys.exit(0)
os.waitpid(child, 0)
print(os.path.isdir(plane.home), [event.text for event in plane.events(kind="message")])
plane.close()
print(os.path.isdir(plane.home))
"""


def test_a_fork_that_ends_leaves_the_plane_of_its_parent_as_it_was():
    done = subprocess.run([sys.executable, "-c", FORKS], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True ['the parser of the invoice']", "False"]
