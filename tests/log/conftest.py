"""Logs to open, and drafts that wait."""

import pytest
from fakes_clock import Ticking

from memplane.log import FileLog


@pytest.fixture
def opened(tmp_path):
    """Open the log of `tmp_path`, as often as it is asked for."""
    logs = []

    def make(**options):
        options.setdefault("clock", Ticking())
        logs.append(FileLog(tmp_path, "demo", **options))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


@pytest.fixture
def busy(opened):
    """Leave drafts in the spool: they come while somebody holds the lock."""
    holder, caller = opened(), opened()

    def leave(*batches):
        with holder.exclusive():
            for drafts in batches:
                assert caller.spool(drafts if isinstance(drafts, list) else [drafts]) is None

    return leave
