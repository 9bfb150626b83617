"""Planes to test on: real ones, in a temporary folder, with a clock that a test can move."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import memplane

# How long an example takes to make says something about the machine, and nothing about a promise.
settings.register_profile("memplane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memplane")


MEMORY = Path("/dev/shm")
OURS = "memplane-tests-{}-"
ROOM = 4 << 30


def pytest_configure(config):
    """Temporary folders lie in memory where there is room: no promise is about what a sync costs.

    They go when the run ends; `--basetemp` puts them elsewhere and keeps them.
    """
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


@pytest.fixture(scope="session", autouse=True)
def _nothing_below_home(tmp_path_factory):
    """No run writes below HOME: it, and the folder of state, are temporary for every process."""
    here, at = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("state")
    user = Path(os.environ.get("HOME") or Path.home())
    before = {name: os.environ.get(name) for name in ("HOME", "XDG_STATE_HOME")}
    there = _of_user(user)
    os.environ |= {"HOME": str(here), "XDG_STATE_HOME": str(at)}
    yield
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    assert _of_user(user) == there, "a test wrote into the plane or the state of who ran it"
    ours = {".memplane", ".local", ".claude", ".codex"}
    assert not {one.name for one in here.iterdir()} & ours, (
        "a test wrote below HOME, without one of its own"
    )


def _of_user(user):
    """Names, sizes and times of what memplane could have written for a user."""
    state = Path(os.environ.get("XDG_STATE_HOME") or user / ".local" / "state") / "memplane"
    above = {str(one): one.exists() for one in (user / ".memplane", state)}
    files = [one for top in (user / ".memplane", state) for one in top.rglob("*")]
    seen = {str(one): one.lstat() for one in files}
    return above, {path: (one.st_size, one.st_mtime_ns) for path, one in seen.items()}


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
