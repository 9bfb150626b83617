"""`io` in a report is what the process did: checked against the system's own account of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import memplane
from memplane.log import FileLog
from tests.process_copies import Copies, popen_of

if TYPE_CHECKING:
    from collections.abc import Iterator

STRACE = shutil.which("strace")
_OPENED = re.compile(r"openat\(.*, (O_[A-Z_|]+).* = \d+<(.*)>$")
_READ = re.compile(r"(?:read|pread64)\(\d+<(.*?)>, .* = (\d+)$")
_MAPPED = re.compile(r"mmap\(NULL, (\d+), .*<(.*)>, ")


class Done(NamedTuple):
    """What a process opened, read and mapped below a home until it had the report to save."""

    files: set[str]
    read: int
    mapped: int


def done(lines: list[str], home: Path) -> Done:
    files: set[str] = set()
    read = mapped = 0
    for line in lines:
        if f"{home}/reports" in line or '"reports"' in line:
            break
        if (found := _OPENED.search(line)) and _counts(found[2], home):
            if not {"O_DIRECTORY", "O_WRONLY", "O_EXCL"} & set(found[1].split("|")):
                files.add(found[2])
        elif (found := _READ.search(line)) and _counts(found[1], home):
            read += int(found[2])
        elif (found := _MAPPED.search(line)) and _counts(found[2], home):
            mapped += int(found[1])
    return Done(files, read, mapped)


def _counts(path: str, home: Path) -> bool:
    return path.startswith(f"{home}/")


WATCHED = (
    STRACE, "--seccomp-bpf", "-f", "-y", "-q", "-e", "trace=openat,read,pread64,mmap", "-o",
)  # fmt: skip


class Tracer:
    """Runs packs in processes that strace looks at: copies of one, as far as not asked otherwise.

    strace looks at the process that is copied, too: imports are made, and traced, once.
    """

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "trace"
        self._copies = Copies((*WATCHED, str(self.trace)))
        self._copied = popen_of(self._copies)

    def __call__(self, home: Path, *command: str, fresh: bool = False) -> tuple[Done, dict]:
        argv = [sys.executable, "-m", "memplane", "pack", *command, "--home", str(home), "--json"]
        start, trace = self._copied, self.trace
        if fresh:
            start, trace = subprocess.Popen, trace.with_name("fresh")
            argv = [*WATCHED, str(trace), *argv]
        seen = trace.stat().st_size if trace.exists() else 0
        with start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        ended = re.compile(
            r"\d+ +\+\+\+ exited" if fresh else rf"(?m)^{process.pid} +\+\+\+ exited"
        )
        for _ in range(24_000):
            text = trace.read_bytes()[seen:].decode(errors="replace")
            if ended.search(text):
                break
            time.sleep(0.005)  # strace is about to write it
        own = re.search(rf"(?m)^{process.pid} ", text)  # before it: what the original does first
        self.lines = text[0 if fresh or own is None else own.start() :].splitlines()
        return done(self.lines, home), json.loads(out)["report"]

    def close(self) -> None:
        self._copies.close()


@pytest.fixture(scope="module")
def traced(tmp_path_factory) -> Iterator[Tracer]:
    made = Tracer(tmp_path_factory.mktemp("traced"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("counted") / "plane"
    with memplane.init(home) as plane:
        (home / "views" / "identity.md").write_text("You keep the ledger.\n")
        rows = [
            {"text": f"Turn {n} of the heron at post {n % 40}. " * 12, "kind": "message",
             "role": "user" if n % 2 else "assistant", "session": f"s{n // 60}"}
            for n in range(900)
        ]  # fmt: skip
        rows += [
            {"text": f"Post {n} is watched.", "kind": "decision", "key": f"post.{n}"}
            for n in range(30)
        ]
        plane.record_many(rows)
        plane.record("The heron's log. " * 70_000, kind="observation", key="long")
        plane.pack("the heron", intent="deep")
    for path in home.rglob("*"):  # what was written a moment ago is read again, to be sure
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))
    return home


COMMANDS = {
    "fast": ("what next", "--intent", "fast"),
    "deep": ("which heron stands at post 7", "--intent", "deep"),
    "orient": ("where were we", "--intent", "orient"),
    "without a query": (),
    "session": ("which heron", "--session", "s14"),
    "a session that no ring holds": ("which heron", "--session", "s1"),
    "public": ("post 3", "--channel", "public"),
    "as of": ("post 3", "--as-of", "400"),
    "expand": ("post 3", "--expand", "event/2", "--expand", "views/identity.md"),
    "large": ("the log of the heron", "--budget", "30000"),
}


@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_report_counts_what_the_system_saw(home, traced, command):
    seen, report = traced(home, *command)
    assert report["io"] == {
        "files": len(seen.files), "bytes": seen.read, "mapped": seen.mapped
    }  # fmt: skip
    assert seen.files


@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_a_fresh_interpreter_opens_and_reads_what_a_copy_does(home, traced):
    copied, fresh = (traced(home, *COMMANDS["deep"], fresh=one) for one in (False, True))
    assert fresh[0] == copied[0]
    assert fresh[1]["io"] == copied[1]["io"]


@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize("gone", ["projections", "index"])
def test_building_caches_is_counted_too(home, tmp_path, traced, gone):
    copy = tmp_path / "plane"
    shutil.copytree(home, copy)
    shutil.rmtree(copy / gone)
    seen, report = traced(copy, "which heron", "--intent", "deep")
    assert report["io"]["files"] == len(seen.files)
    assert report["io"]["bytes"] == seen.read
    assert seen.read > (copy / "log" / "00000001.jsonl").stat().st_size / 2


@pytest.fixture(scope="module")
def long_logs(tmp_path_factory) -> dict[int, Path]:
    """Planes whose logs have one and twelve segments, with all their caches on disk."""
    made = {}
    defaults = FileLog.__init__.__kwdefaults__
    usual = defaults["segment_bytes_max"]
    for segments in (1, 12):
        home = made[segments] = tmp_path_factory.mktemp("long") / "plane"
        rows = [
            {"text": f"Turn {n} of the heron at post {n % 40}. " * 8, "kind": "message",
             "role": "user" if n % 2 else "assistant", "session": f"s{n // 60}"}
            for n in range(900)
        ]  # fmt: skip
        try:
            defaults["segment_bytes_max"] = usual if segments == 1 else 46_000
            with memplane.init(home) as plane:
                for at in range(0, len(rows), 25):  # a segment ends between two appends
                    plane.record_many(rows[at : at + 25])
                plane.pack("the heron", intent="deep")
                plane.search("heron at post 7")
        finally:
            defaults["segment_bytes_max"] = usual
        for path in home.rglob("*"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))
        for _ in range(2):  # each segment's time is taken note of
            with memplane.open(home) as plane:
                plane.pack("the heron", intent="deep")
                plane.pack("where were we", intent="orient")
        assert len(list((home / "log").glob("*.jsonl"))) >= segments
    return made


@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize("intent", ["fast", "orient", "deep"])
def test_a_pack_opens_no_sealed_segment_of_the_log_twice(long_logs, traced, intent):
    for _ in range(2):  # the first may have to make tables of where lines are
        traced(long_logs[12], "which heron stands at post 7", "--intent", intent)
    opened = [
        found[2]
        for line in traced.lines
        if (found := _OPENED.search(line)) and found[2].endswith(".jsonl")
    ]
    sealed = [path for path in opened if path != max(opened)]
    assert len(sealed) == len(set(sealed))
    assert len(opened) <= len(set(opened)) + 3  # to find the end of the log


@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize("intent", ["fast", "orient"])
def test_a_pack_of_what_is_recent_opens_as_many_files_however_long_the_log_is(
    long_logs, traced, intent
):  # fmt: skip
    """And no more than the policy's `file_reads_max` says of what a request needs."""
    seen = {
        segments: traced(home, "what next", "--intent", intent)[0].files
        for segments, home in long_logs.items()
    }
    # Of a log of several segments, what their headers say stands in a file of its own.
    assert len(seen[12]) <= len(seen[1]) + 1
    assert len(seen[12]) <= 20


VIEWS = ("identity.md", "rules.project.md")


def grown(home: Path, events: int, segment_bytes: int) -> Path:
    """A plane with all its caches on disk, whose evidence lies all over a log of such segments."""
    rows = [
        {"text": f"Turn {n} of the heron at post {n % 40}. " * 4, "kind": "message", "id": f"t{n}",
         "role": "user" if n % 2 else "assistant", "session": f"s{n // 60}"}
        for n in range(events)
    ]  # fmt: skip
    defaults = FileLog.__init__.__kwdefaults__
    usual = defaults["segment_bytes_max"]
    try:
        defaults["segment_bytes_max"] = segment_bytes
        with memplane.init(home, durability="os") as plane:
            for view in VIEWS:
                (home / "views" / view).write_text(f"The heron of {view}.\n")
            for at in range(0, events, 25):  # a segment ends between two appends
                plane.record_many(rows[at : at + 25])
            plane.forget(id="t7", reason="wrong")  # by id: whoever is asked looks for its line
            plane.record("Until June.", valid_until="2027-06-01T00:00:00Z")
            plane.pack("the heron", intent="deep", wait=True)
    finally:
        defaults["segment_bytes_max"] = usual
    with memplane.open(home) as plane:  # the last segments have been sealed since
        plane.pack("the heron", intent="deep")
    return home


@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize(
    ("segments", "events", "segment_bytes"),
    [(1, 1_000, 1 << 22), (8, 1_500, 60_000),
     pytest.param(17, 3_000, 55_000, marks=pytest.mark.long),
     pytest.param(1, 20_000, 1 << 24, marks=pytest.mark.long)],
)  # fmt: skip
def test_a_pack_of_a_process_of_its_own_opens_at_most_twenty_files(
    tmp_path, traced, segments, events, segment_bytes
):
    """And each configured view: what people wrote is read where it stands."""
    home = grown(tmp_path / "plane", events, segment_bytes)
    assert len(list((home / "log").glob("0*.jsonl"))) >= segments
    for intent in ("fast", "orient", "deep"):
        seen, report = traced(
            home, "which heron stands at post 7", "--intent", intent, "--budget", "8000"
        )
        assert len(seen.files) <= 20 + len(VIEWS), sorted(seen.files)
        assert report["io"]["files"] == len(seen.files)
        sealed = [name for name in seen.files if name.endswith((".jsonl", ".ids"))]
        assert len(sealed) == 1, sealed  # the newest segment


def test_a_warm_pack_opens_nothing_and_reads_nothing(home):
    with memplane.open(home, read_only=True) as plane:
        first = plane.pack("which heron", intent="deep").report["io"]
        assert first["files"] > 5
        again = plane.pack("which heron", intent="deep").report["io"]
    assert again == {"files": 0, "bytes": 0, "mapped": 0}


def test_the_interpreter_saw_no_file_opened_that_the_report_does_not_count(home, tmp_path):
    script = (
        "import sys, os\n"
        "seen = set()\n"
        "def hook(event, args):\n"
        "    if event == 'open' and isinstance(args[0], str) and not args[2] & (os.O_WRONLY | os.O_DIRECTORY | os.O_EXCL):\n"
        "        seen.add(args[0].rpartition('/')[2])\n"
        "import memplane, memplane.wiring\n"
        "sys.addaudithook(hook)\n"
        f"plane = memplane.open({str(home)!r}, read_only=True)\n"
        "report = plane.pack('which heron', intent='fast').report\n"
        f"names = {{n for _, _, ns in os.walk({str(home)!r}) for n in ns}}\n"
        "print(report['io']['files'], len(seen & names), sorted(seen & names))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    counted, opened, names = ran.stdout.split(" ", 2)
    # sqlite opens its own file, which the interpreter does not see.
    assert int(counted) == int(opened) + ("cache.sqlite" not in names), names
