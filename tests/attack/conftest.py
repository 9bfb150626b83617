"""Attacks from outside: real commands, hooks and servers against planes that others have touched."""

import pytest
from process_commands import Forks


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    """Commands in forks of one process; see `process_commands`."""
    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.close()
