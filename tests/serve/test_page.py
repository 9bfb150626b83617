"""docs/serve.md and the help, followed by somebody who types what stands there."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from memplane.serve.web import REFUSALS, ROUTES

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
COMMANDS = [
    line
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    if not kind
    for line in block.splitlines()
]


@pytest.fixture
def shell(tmp_path):
    """Runs commands as they stand on the page, in a folder of their own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "memplane"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m memplane "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }  # fmt: skip

    def shell(line):
        return subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environment, text=True, capture_output=True,
            check=True,
        ).stdout.strip()  # fmt: skip

    @contextmanager
    def running(line):
        words = shlex.split(re.sub(r" --port \d+", "", line))
        process = subprocess.Popen(
            [sys.executable, "-m", *words, "--port", "0"], cwd=tmp_path, env=environment,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield re.search(r"serving at (\S+)", process.stderr.readline())[1]
        finally:
            process.terminate()
            assert process.wait(30) == 0
            process.stderr.close()

    shell.running = running
    return shell


def asked(address, token=None, value=None, **headers):
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if value is not None:
        headers |= {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(address, data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def test_the_commands_of_the_page_come_to_a_server_that_answers(shell):
    assert [line.split()[0] for line in COMMANDS] == ["pip", "mkdir", *["memplane"] * 3]
    shell(COMMANDS[1])
    token = shell(COMMANDS[2])
    assert "builder" in shell("memplane token list")
    with shell.running(COMMANDS[3]) as address:
        stored = asked(f"{address}/v1/record", token, {"text": "Ropes are checked on Mondays"})
        assert stored["durability"] == "sync"
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "memory_search", "arguments": {"query": "when are ropes checked"}}}  # fmt: skip
        said = asked(f"{address}/mcp", token, call)
        assert "Mondays" in json.dumps(said)
        assert asked(f"{address}/mcp/team", token, call)["result"]["isError"] is False
        assert asked(f"{address}/openapi.json")["openapi"] == "3.1.0"
    with shell.running(COMMANDS[4]) as address:
        assert asked(f"{address}/health", Host="memory.example.org") == {"status": "ok"}
    assert shell("memplane token remove builder") == "builder: removed"
    assert shell("memplane token list") == "none"


def test_the_example_of_the_help_is_a_server(shell):
    said = shell("memplane serve --help")
    example = re.search(r"Example:\n\s+(memplane serve .*)", said)[1]
    shell("mkdir planes")
    with shell.running(example) as address:
        assert asked(f"{address}/health") == {"status": "ok"}


def test_a_project_is_the_tokens_to_say(shell):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        shell("mkdir p && memplane serve --planes p --project blue --port 0")
    assert "token add --ns" in refused.value.stderr


def test_the_page_has_every_route_status_and_option(shell):
    for route in ROUTES:
        assert f"{route.method} {route.path}" in PAGE
        for name in route.tool.takes["properties"]:
            assert re.search(rf"[\"`?&]{name}[\"`=]", PAGE), (route.path, name)
    for status in REFUSALS:
        assert re.search(rf"\b{status}\b", PAGE), status
    options = set(re.findall(r"--[a-z-]+", shell("memplane serve --help")))
    missing = {one for one in options if one not in PAGE} - {
        "--json",
        "--help",
        "--project",
        "--host",
    }
    assert missing == set()
