"""The engines that the suites of shared logs run on; servers are marked `servers`."""

import pytest
from builders_machines import Ticking
from builders_nats import NatsServer

from memplane.shared.memory import MemorySharedLog


class InProcess:
    """The engine in memory: every connection is the same object."""

    def __init__(self, request):
        del request
        self._log = MemorySharedLog(Ticking())

    def opened(self):
        return self._log

    def close(self):
        """Nothing was started."""


ENGINES = [InProcess, pytest.param(NatsServer, marks=pytest.mark.servers)]
