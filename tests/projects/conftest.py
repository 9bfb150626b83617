"""The user's own plane, and folders with repositories made by hand: no git is run."""

import sys
from pathlib import Path

import pytest

import memplane
from memplane.home import open_home
from memplane.projects import for_folder
from memplane.wiring import open_found

sys.path.insert(0, str(Path(__file__).parent))  # for `folders`


class Own:
    """The plane `~/.memplane` of a user whose folder is temporary."""

    def __init__(self, home):
        self.home = home

    def at(self, folder):
        """The plane as whoever works in a folder sees it."""
        return open_found(for_folder(open_home(self.home), str(folder))[0])

    def whole(self, **more):
        """The plane as a library opens it: all projects."""
        return memplane.open(self.home, **more)

    def lines(self):
        """How many lines its log has."""
        return sum(len(file.read_bytes().splitlines()) for file in self.home.glob("log/*.jsonl"))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty one; policies with a counter that needs no table."""
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("MEMPLANE_BUDGETS__COUNTER", "len4")
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)
    memplane.init(user / ".memplane").close()
    return Own(user / ".memplane")
