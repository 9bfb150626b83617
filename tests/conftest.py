"""Planes to test on: real ones, in a temporary folder, with a clock that a test can move."""

import functools
import gc
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import memplane
from tests.process_copies import Copies, popen_of, read_once

# What tests share beside fixtures: builders of what is tested, fakes of what stands around it,
# checks of one promise in many places, and what runs in processes of its own.
SHARED = ("builders_*.py", "fakes_*.py", "checks_*.py", "process_*.py")
HERE = Path(__file__).parent
sys.path[:0] = sorted({str(file.parent) for one in SHARED for file in HERE.glob(f"*/{one}")})

# How long an example takes to make says something about the machine, and nothing about a promise.
# `make test` tries the same few examples each time: more, and new ones, are for `make test-long`.
usual = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("memplane", usual, max_examples=8, derandomize=True)
settings.register_profile("long", usual, max_examples=500)
settings.load_profile("memplane")


MEMORY = Path("/dev/shm")
OURS = "memplane-tests-{}-"
ROOM = 4 << 30
# What tests the rooms whose coverage is held: in folders of their own, or through a whole plane.
ROOMS = (
    "intake/", "log/", "recall/", "pack/", "test_nofollow.py", "ports/test_detector.py",
    "upkeep/test_export", "upkeep/test_restore", "upkeep/test_verify.py",
)  # fmt: skip

# Rooms whose tests are quick, but for files that start processes and laws that hypothesis tries.
QUICK = ("policy/", "tokens/", "index/", "log/", "projections/", "recall/", "ports/", "test_")


def pytest_configure(config):
    """Temporary folders lie in memory where there is room: no promise is about what a sync costs.

    They go when the run ends; `--basetemp` puts them elsewhere and keeps them. Children get the
    usual SIGINT where the suite itself was started with that signal ignored (`nohup`, `&`).
    """
    gc.disable()  # what is collected stays: see `pytest_collection_finish`
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.basetemp is not None or not os.access(MEMORY, os.W_OK):
        return
    for left in MEMORY.glob(OURS.format("[0-9]*") + "*"):  # by runs that were killed
        if not Path(f"/proc/{left.name.split('-')[2]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    disk = os.statvfs(MEMORY)
    if disk.f_bavail * disk.f_frsize >= ROOM and not disk.f_flag & os.ST_NOEXEC:
        folder = tempfile.mkdtemp(prefix=OURS.format(os.getpid()), dir=MEMORY)
        config.option.basetemp = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_finish(session):
    """What is collected stays: no search for garbage goes through it again and again.

    And there are fewer: planes are not circular, and a test is short.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


SWIFT = tuple(f"{HERE}/{one}" for one in QUICK)
MEASURED = tuple(f"{HERE}/{one}" for one in ROOMS)


def pytest_itemcollected(item):
    """Mark the tests by example of these rooms: what hypothesis reaches is chance, and slow."""
    by_chance = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if not by_chance and str(item.path).startswith(MEASURED):
        item.add_marker("measured")
    small = not by_chance and item.get_closest_marker("sized") is None
    if small and str(item.path).startswith(SWIFT) and starts_none(item.path):
        item.add_marker("quick")


@functools.cache
def starts_none(path):
    """Whether a file of tests starts no process by itself."""
    words = ("subprocess", "Popen", "multiprocessing", "os.fork")
    return not any(word in path.read_text() for word in words)


@pytest.fixture(scope="session", autouse=True)
def _read_once():
    """The suite is one process for thousands of planes, commands and clients of servers.

    Each client reads the certificates of the system anew, for tens of milliseconds: here one does.
    """
    with pytest.MonkeyPatch.context() as patch:
        read_once(patch.setattr)
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


# Here processes start as users start them; elsewhere, most are copies.
FRESH = tuple(
    f"{HERE}/{one}"
    for one in (
        "agents/", "attack/test_agent_hook_", "attack/test_environment_", "attack/test_repository_",
        "demo/test_demo.py",
    )
)  # fmt: skip
COPIES = Copies()


def pytest_runtest_setup(item):
    COPIES.wanted = not str(item.path).startswith(FRESH)


@pytest.fixture(scope="session", autouse=True)
def _copied_processes():
    """`python -m memplane` is a copy of a process that has imported it, where that is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", popen_of(COPIES))
        yield
    COPIES.close()


@pytest.fixture(scope="session", autouse=True)
def _nothing_below_home(tmp_path_factory):
    """No test writes below HOME: that, and the folder of state, are temporary for every process."""
    here, state = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("state")
    before = {name: os.environ.get(name) for name in ("HOME", "XDG_STATE_HOME")}
    os.environ |= {"HOME": str(here), "XDG_STATE_HOME": str(state)}
    yield
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    ours = {".memplane", ".local", ".claude", ".claude.json", ".codex"}
    found = {one.name for one in here.iterdir()} & ours
    assert not found, f"a test without a HOME of its own wrote {found} below it"


@pytest.fixture
def file(tmp_path):
    """A file to add to a plane, by its name and what it says."""

    def file(name="report.md", data="# Herons\n\nThey nest in trees.\n"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return file


class Clock:
    """A clock that stands still until a test moves it (seconds)."""

    def __init__(self, start: str = "2026-01-05T12:00:00.000000Z") -> None:
        self.now = start

    def __call__(self) -> str:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def plane(tmp_path, clock):
    with memplane.init(tmp_path / "plane", durability="os", clock=clock) as opened:
        yield opened
