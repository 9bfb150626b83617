"""Verifying by several processes: sooner done, and not one word different."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from builders_damaged_logs import copied, draft, filled, opened, segment

from memplane.event import Draft, encode
from memplane.log import verify_log, verifying
from memplane.log.segments import genesis
from memplane.log.verifying import Scanners, ScanTask, scan
from memplane.wiring import _Lines
from tests.examples import sampled

SEGMENTS_MIN = 13


def purge_of(lines):
    said = {"seqs": list(lines), "ids": list(lines.values()), "documents": [1] * len(lines)}
    rest = encode({"kind": "purge", "text": "", "data": {"purge": said}})[1:-1].encode()
    return Draft("the-purge", False, None, "purge", "/global", None, None, None, "", rest)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Some segments more than it takes, one line erased."""
    home = tmp_path_factory.mktemp("whole")
    filled(home, 140)
    with opened(home, segment_bytes_max=1500) as log:
        lines = {log.find("m9").event.seq: "m9"}
        log.erase([purge_of(lines)], lines, ())
        log.append([draft("last")])
    assert len(list((home / "log").glob("*.jsonl"))) > SEGMENTS_MIN
    return home


def flip(home, number, at):
    path = segment(home, number)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 4
    path.write_bytes(data)


def cut_lines(home, number, keep):
    path = segment(home, number)
    path.write_bytes(b"".join(keep(path.read_bytes().splitlines(keepends=True))))


def last(home):
    return max(int(path.stem) for path in (home / "log").glob("*.jsonl"))


def erased(home):
    """The segment of the erased line, and a byte of it."""
    for path in (home / "log").glob("*.jsonl"):
        at = path.read_bytes().find(b'"purged":true')
        if at >= 0:
            return int(path.stem), at
    raise AssertionError


DAMAGE = {
    "none": lambda _home: None,
    "a bit in a header": lambda home: flip(home, 5, 40),
    "a bit in a line": lambda home: flip(home, 7, 700),
    "a bit in the last line of a segment": lambda home: flip(home, 8, -30),
    "bits in two segments": lambda home: [flip(home, n, 600) for n in (3, 4)],
    "a line missing": lambda home: cut_lines(home, 6, lambda lines: lines[:2] + lines[3:]),
    "lines swapped": lambda home: cut_lines(home, 6, lambda lines: [*lines[:1], *lines[:0:-1]]),
    "an empty segment": lambda home: segment(home, 9).write_bytes(b""),
    "a segment missing": lambda home: segment(home, 10).unlink(),
    "the first one missing": lambda home: segment(home, 1).unlink(),
    "bytes behind an end": lambda home: cut_lines(home, 12, lambda lines: [*lines, b"{"]),
    "a torn tail": lambda home: cut_lines(home, last(home), lambda lines: [*lines, b'{"seq":']),
    "a bit in the erased line": lambda home: flip(home, *erased(home)),
}


@pytest.mark.parametrize("damage", sampled(DAMAGE, 3))
def test_any_number_of_processes_finds_the_same(whole, tmp_path, damage):
    loads = json.loads if len(damage) % 2 else pytest.importorskip("orjson").loads
    home = copied(whole, tmp_path / "home")
    DAMAGE[damage](home)
    seen = []
    alone = verify_log(home, "demo", loads=loads)
    shared = verify_log(
        home, "demo", loads=loads, processes=2, progress=lambda done, of: seen.append((done, of))
    )
    assert shared == alone
    assert alone.ok == (damage == "none")
    assert seen[-1] == (alone.bytes, alone.bytes)


def tasks_of(home):
    """The sealed segments, each behind what its header states."""
    made = []
    for path in sorted((home / "log").glob("*.jsonl"))[:-1]:
        said = json.loads(path.read_bytes().partition(b"\n")[0])["data"]
        task = ScanTask(int(path.stem), str(path), said["prev_seq"], said["prev_h"].encode())
        made.append(task)
    return made


@pytest.mark.parametrize("loads", [json.loads, _Lines()], ids=["json", "a plane's"])
def test_the_processes_do_the_work_and_are_gone_afterwards(whole, loads):
    tasks = tasks_of(whole)
    assert tasks[0][2:] == (0, genesis("demo"))
    with Scanners(tasks, loads, 2) as scanners:
        started = list(scanners._started)
        found = [scanners.take(task.number) for task in tasks]
        assert scanners.take(tasks[0].number) is None  # once
    assert len(started) == 2
    assert all(child.poll() is not None for child in started)
    for task, told in zip(tasks, found, strict=True):
        with Path(task.path).open("rb") as file:
            file_as_it_is = verifying.identity(file.fileno())
            assert told == scan(file.read(), task.seq, task.h, json.loads, file_as_it_is)


def test_a_segment_that_changed_since_is_scanned_again(whole, tmp_path, monkeypatch):
    home = copied(whole, tmp_path / "home")
    before = verify_log(home, "demo")
    take, once = Scanners.take, [7]

    def late(scanners, number):
        found = take(scanners, number)
        if number in once:
            once.clear()
            flip(home, 7, 700)
            state = segment(home, 7).stat()
            os.utime(segment(home, 7), ns=(state.st_atime_ns, state.st_mtime_ns + 1))
        return found

    monkeypatch.setattr(Scanners, "take", late)
    assert before.ok
    assert verify_log(home, "demo", processes=2).problems == verify_log(home, "demo").problems != ()


@pytest.mark.parametrize("command", ["false", "cat", "true", None])
def test_processes_that_fail_cost_time_and_nothing_else(whole, monkeypatch, command):
    alone = verify_log(whole, "demo")
    where = "/nowhere/python" if command is None else shutil.which(command)
    monkeypatch.setattr(sys, "executable", where)
    assert verify_log(whole, "demo", processes=2) == alone


@pytest.mark.parametrize("processes", [0, 1])
def test_alone_and_for_a_short_log_none_is_started(whole, tmp_path, processes):
    with Scanners(tasks_of(whole), json.loads, processes) as scanners:
        assert scanners._started == []
    filled(tmp_path, 5)
    with Scanners(tasks_of(tmp_path), json.loads, 4) as scanners:
        assert scanners._started == []


def test_a_parser_that_another_process_cannot_know_is_used_here_alone(whole):
    calls = []

    def loads(raw):
        calls.append(raw)
        return json.loads(raw)

    with Scanners(tasks_of(whole), loads, 2) as scanners:
        assert scanners._started == []
    assert verify_log(whole, "demo", loads=loads, processes=2) == verify_log(whole, "demo")
    assert len(calls) >= verify_log(whole, "demo").events - 1
