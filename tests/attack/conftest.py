"""Attacks from outside: real commands, hooks and servers against planes that others have touched."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the modules that make what attacks


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    """Commands in forks of one process; see `running`."""
    from running import Forks

    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.close()
