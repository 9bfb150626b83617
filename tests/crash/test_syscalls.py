"""What the harness watches is all that a plane writes: held against strace."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from builders_crash_states import Recording, World, put
from builders_plane_operations import PLANES
from fakes_syscalls import Passing

from tests.examples import sampled

WATCHED = r"write|pwrite64|ftruncate|truncate|fsync|fdatasync|rename|renameat|renameat2|unlink|unlinkat|mkdir|mkdirat|rmdir|link|linkat|symlink|symlinkat|writev|pwritev|sendfile|copy_file_range|fallocate"
SAME = {
    "pwrite64": "write", "fdatasync": "fsync", "renameat": "rename", "renameat2": "rename",
    "unlinkat": "unlink", "mkdirat": "mkdir", "linkat": "link", "symlinkat": "symlink",
    "remove": "unlink",
}  # fmt: skip

RAN = """
import json, os, random, shutil, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from builders_plane_operations import PLANES
from fakes_syscalls import Passing
top = Path(sys.argv[2])
calls = []
def handle(call, run):
    if call.name == "open":
        return run()
    done = run()
    calls.append((call.name, call.path))
    return done
for name, operation in PLANES.items():
    top.mkdir()
    home = top / "home"
    operation.prepare(home, random.Random(1))
    os.access(f"/begin/{name}", os.F_OK)
    with Passing(top, handle):
        operation.act(home, lambda _: None, random.Random(1))
    os.access(f"/end/{name}", os.F_OK)
    shutil.rmtree(top)
print(json.dumps(calls))
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
def test_no_call_that_changes_a_plane_escapes_but_those_of_sqlite(tmp_path):
    top = tmp_path / "top"
    ran = subprocess.run(
        ["strace", "-f", "-y", "-o", str(tmp_path / "trace"), "-e", "trace=/(access|" + WATCHED + ")$|^faccessat",
         sys.executable, "-c", RAN, str(Path(__file__).parent), str(top)],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    watched = Counter((name, path) for name, path in json.loads(ran.stdout) if ours(name, path))
    seen = seen_by_strace(tmp_path / "trace", f"{top}/")
    assert sum(seen.values()) > 300
    assert seen == watched


def seen_by_strace(trace, top):
    """Calls and the paths below `top` that they changed, while an operation ran."""
    seen, running = Counter(), False
    for line in trace.read_text(errors="replace").splitlines():
        if "/begin/" in line:
            running = True
        elif "/end/" in line:
            running = False
        found = re.match(r"\d+ +(\w+)\((.*)\) += (-?\d+)", line)
        if not running or found is None or not re.fullmatch(WATCHED, found[1]) or found[3] == "-1":
            continue
        name, whole = SAME.get(found[1], found[1]), found[2]
        if found[1] in SAME and found[1].startswith(
            ("rename", "unlink", "mkdir", "link", "symlink")
        ):
            # A name behind the descriptor of a folder lies in that folder.
            whole = re.sub(r'\d+<([^>]*)>, "([^"/]+)"', r'"\1/\2"', whole)
        paths = re.findall(rf'[<"]{re.escape(top)}([^">]*)[">]', whole)
        if "AT_REMOVEDIR" in whole:
            name = "rmdir"
        if paths:
            call = name, paths[-1].removesuffix(" (deleted)")
            seen[call] += ours(*call)
    return +seen


def ours(name, path):
    """Whether memplane makes such a call; the others are sqlite's, for its cache."""
    return bool(path) and "sqlite" not in path and (name, path) != ("fsync", "home/projections")


@pytest.mark.parametrize("name", sampled(PLANES, 3))
def test_the_trace_of_an_operation_ends_with_the_files_that_are_there(tmp_path, name):
    top = tmp_path / "top"
    top.mkdir()
    operation = PLANES[name]
    operation.prepare(top / "home", random.Random(3))
    recording = Recording(top)
    with recording.running():
        operation.act(top / "home", recording.ack, random.Random(3))
    assert any(op.kind == "ack" for op in recording.trace), "nothing was acknowledged"
    world = World(recording.trace[0].data)
    for op in recording.trace[1:]:
        if op.kind != "ack":
            world.step(op)
    put(world.live(), tmp_path / "replayed")
    assert files(tmp_path / "replayed") == files(top)


def files(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and "sqlite" not in path.name]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def test_files_written_by_open_are_watched_whatever_the_mode(tmp_path):
    names = []

    def handle(call, run):
        names.append(call.name)
        return run()

    with Passing(tmp_path, handle):
        (tmp_path / "text").write_text("one\ntwo\n")
        (tmp_path / "bytes").write_bytes(b"three")
        with (tmp_path / "text").open("a") as file:
            file.write("four\n")
        with (tmp_path / "bytes").open("r+b", buffering=0) as file:
            file.write(b"T")
            file.truncate(2)
        with os.fdopen(os.open(tmp_path / "fd", os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.write(b"five")
        (tmp_path / "fd").rename(tmp_path / "renamed")
        (tmp_path / "renamed").unlink()
    assert names == [
        *("open", "write") * 3, "open", "write", "ftruncate", "open", "write", "rename", "unlink"
    ]  # fmt: skip
    assert (tmp_path / "text").read_text() == "one\ntwo\nfour\n"
    assert (tmp_path / "bytes").read_bytes() == b"Th"
