"""A server in a process of its own, on loopback, with two planes and tokens for them."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from memplane import serve
from memplane.wiring import init

# The extra is an extra: without it there is no server to test.
collect_ignore_glob = [] if find_spec("mcp") else ["test_*.py"]

CREATED = "2026-01-01T00:00:00.000000Z"


class Served:
    """A running server: its address, its tokens, and requests of it."""

    def __init__(self, process, port, secrets, planes):
        self.process, self.port, self.secrets, self.planes = process, port, secrets, planes

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, value=None, token="ann", headers=()):
        """Status, and the value that the answer is."""
        status, body, _ = self.raw(method, path, value, token, headers)
        return status, json.loads(body)

    def raw(self, method, path, value=None, token="ann", headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        said = {} if token is None else {"Authorization": f"Bearer {self.secrets[token]}"}
        body = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        try:
            connection.request(method, path, body, {**said, **dict(headers)})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def admit(self, name, planes):
        """A token for some planes, as the server finds it at the next request."""
        made, self.secrets[name] = serve.made(name, name, "agent", (), planes, CREATED)
        serve.TokenFile(self.planes.parent / "tokens.json").add(made)

    def end(self):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


# With other times than it has as a rule: what is waited for is whether, and not how long.
HURRIED = """
import sys
import memplane.serve.web as run
for one in sys.argv.pop(1).split(","):
    name, value = one.split("=")
    assert hasattr(run, name)
    setattr(run, name, float(value))
from memplane.__main__ import main
sys.exit(main())
"""


@contextmanager
def serving(top, *options, secrets, times=None, port=0, home=None, folder=None, **variables):
    what = ["--planes", str(top / "planes")] if home is None else ["--home", str(home)]
    words = ["serve", *what, "--tokens", str(top / "tokens.json")]
    program = ["-m", "memplane"] if times is None else ["-c", HURRIED, times]
    process = subprocess.Popen(
        [sys.executable, *program, *words, "--port", str(port), *options],
        stderr=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(top), **variables},
    )  # fmt: skip
    try:
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, f"the server ended with {process.wait()}"
            found = re.search(r"serving at http://127\.0\.0\.1:(\d+)", line)
        yield Served(process, int(found[1]), secrets, top / "planes")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def furnished(top):
    """Two planes, and tokens: their secrets by name."""
    for name in ("harbour", "quay"):
        init(top / "planes" / name).close()
    file = serve.TokenFile(top / "tokens.json")
    secrets = {"nobody": "mpt_none"}
    for name, agent, ns, planes in (
        ("ann", "ann", (), ("harbour",)),
        ("bob", "bob", (), ("harbour",)),
        ("red", "red", ("/project/red", "/agent/red"), ("harbour",)),
        ("blue", "blue", ("/project/blue",), ("harbour",)),
        ("both", "cox", (), ("harbour", "quay")),
    ):
        made, secrets[name] = serve.made(name, agent, "agent", ns, planes, CREATED)
        file.add(made)
    return secrets


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for the tests of a module that leave it as it is."""
    top = tmp_path_factory.mktemp("served")
    with serving(top, "--rate", "5000", secrets=furnished(top)) as one:
        yield one


@pytest.fixture
def start(tmp_path):
    """What starts a server of one test's own; a second time over the same planes."""
    secrets = furnished(tmp_path)
    return lambda *options, **how: serving(tmp_path, *options, secrets=secrets, **how)
