"""A plane that was copied while it was written to: whatever moments its files are of, it opens."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import CorruptError
from memplane.log import repair_log, verify_log
from memplane.upkeep.verify import witnesses
from tests.examples import examples

PAGE = 4096
IN_PLACE = ("cache.sqlite",)


def clock():
    return "2026-01-05T12:00:00.000000Z"


def opened(home):
    return memplane.open(home, durability="os", clock=clock, environment={})


def tree(home):
    return {
        os.fspath(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


class Moments(list):
    """Trees with the ids acknowledged by then; hypothesis need not print them."""

    def __repr__(self):
        return "moments"


@pytest.fixture(scope="module")
def moments(tmp_path_factory):
    """What lies in a plane after each of many steps, and the ids acknowledged by then."""
    home = tmp_path_factory.mktemp("moments") / "plane"
    rng = random.Random(20260105)
    trees, ids = Moments(), []
    plane = memplane.init(home, durability="os", clock=clock, environment={})
    for n in range(60):
        plane._log._writer.segment_bytes_max = 2500
        step = n % 6
        if step < 3:
            rows = [
                {"id": f"m{n}-{m}", "text": f"event {n} {m} " + "x" * rng.randrange(200),
                 "session": f"s{n % 3}", "role": "user"}
                for m in range(4)
            ]  # fmt: skip
            rows += [
                {"id": f"k{n}-{m}", "kind": "fact", "key": f"key {n} {m}", "text": f"value {m}"}
                for m in range(6)
            ]
            plane.record_many(rows)
            ids += [row["id"] for row in rows]
        elif step == 3:
            plane.forget(f"key {n - 2} 1")
            with plane.context.lock:
                plane.context.caught_up().save()
        elif step == 4:
            plane.search("event")
            plane.upkeep.index()
        else:
            plane.close()
            plane = opened(home)
        trees.append((tree(home), tuple(ids)))
    plane.close()
    return trees


def copied(moments, rng, folder, *, listed_at_once):
    """A copy that took from one moment to another: each file is of some moment between them.

    A folder's names are read before its files are; `listed_at_once` or not, as of a large folder.
    Files that are written in place are of several moments at once.
    """
    first = rng.randrange(len(moments) - 1)
    last = rng.randrange(first, min(first + rng.choice((2, 8, 40)), len(moments)))
    listed: dict[str, int] = {}
    names = sorted({name for tree, _ in moments[first : last + 1] for name in tree})
    for name in names:
        above = name.rpartition("/")[0]
        if above not in listed or not listed_at_once:
            listed[above] = rng.randint(first, last)
        if name not in moments[listed[above]][0]:
            continue
        at = rng.randint(listed[above], last)
        data = moments[at][0].get(name)
        if data is None:
            continue
        if name.rpartition("/")[2] in IN_PLACE:
            later = [tree.get(name, data) for tree, _ in moments[at : last + 1]]
            pages = (rng.choice(later)[n : n + PAGE] for n in range(0, len(data), PAGE))
            data = b"".join(pages)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(data)
    return moments[first][1]


def is_well(home, promised):
    """It opens, answers, and can be written, after the command that an error names if need be."""
    with opened(home) as plane:
        whole = not any(
            "repair --salvage" in str(one) for one in verify_log(home, plane.id).problems
        )
        # What was folded before may know more than a log that has lost lines since.
        assert plane.upkeep.differing() == [] or not whole
        assert plane.pack("event 3").text
        plane.search("event")
        missing = [one for one in promised if plane._log.find(one) is None]
        assert missing == []
        try:
            plane.record("afterwards", id="afterwards")
        except CorruptError as error:
            names_a_command = "`memplane repair" in str(error)
            assert names_a_command
            plane.close()
            repaired(home, plane.id)
    with opened(home) as plane:
        plane.record("afterwards", id="afterwards")
        assert plane.upkeep.differing() == []
        assert [one for one in promised if plane._log.find(one) is None] == []
        assert plane.pack("event 3").entries
        left = verify_log(home, plane.id).problems
    # What was copied later than the log knows more than it: an older log, and that is told.
    assert all(one.expected.endswith("is an older copy") for one in left)
    if left:
        repaired(home, plane.id)
        assert verify_log(home, plane.id).problems == ()


def repaired(home, plane_id):
    """As the command does it."""
    told = list(witnesses(home, plane_id))
    repair_log(home, plane_id, clock=clock, salvage=True, witnesses=told)


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 2**32), at_once=st.booleans())
def test_files_of_any_moments_between_two_make_a_plane_that_opens(
    moments, tmp_path_factory, seed, at_once
):
    folder = tmp_path_factory.mktemp("copied")
    promised = copied(moments, random.Random(seed), folder, listed_at_once=at_once)
    if (folder / "plane.json").exists():
        is_well(folder, promised)
    shutil.rmtree(folder)


WRITER = """
import sys
import memplane

home, name = sys.argv[1:]
with memplane.open(home, environment={}) as plane:
    plane._log._writer.segment_bytes_max = 3000
    n = 0
    while True:
        ids = [plane.record(f"{name} {n}", id=f"{name}-{n}", role="user", session=name).id]
        if n % 7 == 0:
            rows = [{"text": f"{name} {n} {m}", "id": f"{name}-{n}-{m}"} for m in range(5)]
            plane.record_many(rows)
            ids += [row["id"] for row in rows]
        if n % 20 == 0:
            plane.record(f"value {n}", kind="fact", key=f"{name} {n}")
            plane.pack(f"{name} 3", session=name)
            plane.context.caught_up().save()
        print(*ids, sep="\\n", flush=True)
        n += 1
"""


class Writers:
    """Processes that record into a plane until they are killed; what each was acknowledged."""

    def __init__(self, home, names, folder):
        self.told = [folder / f"{name}.told" for name in names]
        self.running = []
        for name, told in zip(names, self.told, strict=True):
            with told.open("wb") as out:
                argv = [sys.executable, "-c", WRITER, home, name]
                self.running.append(subprocess.Popen(argv, stdout=out))

    def acknowledged(self):
        """The ids of all lines that were written whole."""
        return [one for told in self.told for one in told.read_text().split("\n")[:-1]]

    def wait(self, count):
        deadline = time.monotonic() + 60
        while any(told.read_bytes().count(b"\n") < count for told in self.told):
            assert time.monotonic() < deadline
            assert all(one.poll() is None for one in self.running)
            time.sleep(0.02)

    @contextmanager
    def held(self):
        """They wait, with all that they hold, as on a machine that has others to serve."""
        for one in self.running:
            one.send_signal(signal.SIGSTOP)
        yield
        for one in self.running:
            one.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.running:
            one.kill()
            one.wait()


def copy(home, to):
    """By `cp -r`, which passes over what is renamed under its eyes."""
    subprocess.run(["cp", "-r", home, to], check=False, capture_output=True)


def clone(home, to):
    """By git, with the log in it."""

    def git(*words):
        named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")
        return subprocess.run(["git", *named, *words], cwd=home, check=False, capture_output=True)

    (home / ".gitignore").write_text("")
    git("init", "-q")
    for _ in range(20):  # a file that is gone when it is to be added ends `git add`
        if git("add", "-A").returncode == 0:
            break
    git("commit", "-qm", "as it is")
    subprocess.run(["git", "clone", "-q", home, to], check=True, capture_output=True)


@pytest.mark.parametrize("way", [copy, clone])
@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.long)])
def test_a_copy_made_while_processes_write_has_all_that_was_acknowledged_before(
    tmp_path, way, rounds
):
    home = tmp_path / "plane"
    memplane.init(home).close()
    with Writers(home, ("ann", "bob"), tmp_path) as writers:
        for n in range(rounds):
            writers.wait(20 * min(n + 1, 10))
            promised = writers.acknowledged()
            way(home, tmp_path / f"copy{n}")
            with writers.held():  # or the log grows while the copy is looked at
                is_well(tmp_path / f"copy{n}", promised)
            shutil.rmtree(tmp_path / f"copy{n}")
            shutil.rmtree(home / ".git", ignore_errors=True)
