"""Servers to talk to: most in this process, through the SDK's own client, some in their own."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import anyio
import pytest

import memplane
from memplane.projects import for_folder
from memplane.wiring import find_plane, init, make_counter, open_found, open_plane

# The extra is an extra: without it there is no server to test, and `tests/cli` says what one reads.
collect_ignore_glob = [] if find_spec("mcp") else ["test_*.py"]

MODES = ("auto", "legacy")


@pytest.fixture(autouse=True)
def _outside_of_a_client(monkeypatch):
    """Whoever runs the tests may do so inside of Claude Code, which names its session."""
    for name in ("CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR", "MEMPLANE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "plane"
    init(folder, durability="os").close()
    return folder


@pytest.fixture
def talk(home):
    """Run a coroutine function with the SDK's client of a server in this process."""
    from mcp import Client, types

    from memplane.mcp.server import Serving, server_of

    def talk(
        script: Callable[..., Any], *, mode: str = "auto", read_only: bool = False,
        channel: str = "agent", open_here: Callable[[], Any] | None = None, client: str = "heron",
        session: str = "s1", own: Any = None,
    ) -> Any:  # fmt: skip
        opened = open_here or partial(open_plane, home, read_only=read_only, durability="os")
        serving = Serving(opened, make_counter, channel, session, read_only, own)

        async def main():
            info = types.Implementation(name=client, version="1")
            async with Client(server_of(serving)[0], mode=mode, client_info=info) as connected:
                return await script(connected)

        return anyio.run(main)

    return talk


@pytest.fixture
def call(talk):
    """Call tools one after the other: pairs of name and arguments; give back the results."""

    def call(*calls, **how):
        async def script(client):
            return [await client.call_tool(name, arguments) for name, arguments in calls]

        return talk(script, **how)

    return call


@pytest.fixture
def done(call):
    """The structured answers of calls that must not fail."""

    def done(*calls, **how):
        results = call(*calls, **how)
        assert not [one.content[0].text for one in results if one.is_error]
        return [one.structured_content for one in results]

    return done


@pytest.fixture
def refused(call):
    """What the agent reads of a call that must fail."""

    def refused(name, arguments, **how):
        (result,) = call((name, arguments), **how)
        assert result.is_error
        assert result.structured_content is None
        return result.content[0].text

    return refused


@pytest.fixture
def process(home):
    """The SDK's connection to a server in a process of its own."""
    from mcp import StdioServerParameters, stdio_client

    def process(*options, home=home):
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "memplane", "mcp", "--home", str(home), *options]
        )
        # Without `errlog` the SDK gives the server the `sys.stderr` of the moment it was imported:
        # under pytest's capture that has no file descriptor.
        return stdio_client(server, errlog=sys.__stderr__)

    return process


@pytest.fixture
def opened(home):
    with memplane.open(home) as plane:
        yield plane


@pytest.fixture
def projects(tmp_path, monkeypatch):
    """What opens the user's own plane for the project of a folder of that name."""
    user = tmp_path / "user"
    monkeypatch.setenv("HOME", str(user))
    user.mkdir()
    init(user / ".memplane").close()

    def projects(name):
        folder = tmp_path / "work" / name
        folder.mkdir(parents=True)
        return lambda: open_found(for_folder(find_plane(user / ".memplane"), str(folder))[0])

    return projects
