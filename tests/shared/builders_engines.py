"""The engines that the suites of shared logs run on; servers are marked `servers`."""

from uuid import uuid4

import pytest
from builders_machines import Ticking
from builders_nats import NatsServer

from memplane.shared.apply import MemorySharedLog
from memplane.shared.servers import PostgresSharedLog
from tests.acms.storage.builders_servers import postgres_dsn


class InProcess:
    """The engine in memory: every connection is the same object."""

    def __init__(self, request):
        del request
        self._log = MemorySharedLog(Ticking())

    def opened(self):
        return self._log

    def close(self):
        """Nothing was started."""


class Postgres:
    """A log of its own in a database that the tests started."""

    def __init__(self, request):
        del request
        self.address = postgres_dsn(extended=False)
        self.name = f"t{uuid4().hex[:12]}"
        self._opened = []

    def opened(self):
        self._opened.append(PostgresSharedLog(self.address, self.name))
        return self._opened[-1]

    def close(self):
        for one in self._opened:
            one.close()


ENGINES = [
    InProcess,
    pytest.param(Postgres, marks=pytest.mark.servers),
    pytest.param(NatsServer, marks=pytest.mark.servers),
]
