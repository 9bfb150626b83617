"""`--home`: one plane, named main; the user's own, which is parted into projects, too."""

import json
import os
import subprocess
import sys

import pytest

from memplane import serve
from memplane.wiring import init
from tests.serve.conftest import CREATED, serving


def secrets_for(top, **bound):
    found = {}
    for name, ns in bound.items():
        made, found[name] = serve.made(name, name, "agent", ns, ("main",), CREATED)
        serve.TokenFile(top / "tokens.json").add(made)
    return found


def test_one_plane_is_served_as_main(tmp_path):
    init(tmp_path / "plane").close()
    secrets = secrets_for(tmp_path, ann=())
    with serving(tmp_path, secrets=secrets, home=tmp_path / "plane") as served:
        value = {"text": "The buoy is green", "key": "buoy", "plane": "main"}
        assert served.ask("POST", "/v1/record", value)[0] == 200
        assert served.ask("GET", "/v1/get?key=buoy")[1]["text"] == "The buoy is green"
        assert served.ask("GET", "/v1/get?key=buoy&plane=plane")[0] == 403


@pytest.fixture
def own(tmp_path):
    """The user's own plane, with events of two projects, and the folder of one."""
    user, folder = tmp_path / "user", tmp_path / "user" / "work" / "ferry"
    (folder / ".git").mkdir(parents=True)
    variables = {"HOME": str(user)}

    def memplane(*words, folder=folder):
        done = subprocess.run(
            [sys.executable, "-m", "memplane", *words], cwd=folder, text=True, check=True,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path), **variables}, capture_output=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    memplane("init", str(user / ".memplane"), "--json")
    memplane("record", "The ferry leaves at noon", "--kind", "fact", "--json")
    other = user / "work" / "tug"
    (other / ".git").mkdir(parents=True)
    memplane("record", "The tug leaves at dawn", "--kind", "fact", "--json", folder=other)
    return tmp_path, user / ".memplane", folder, variables


def test_the_folder_where_a_server_was_started_is_no_project_of_its_clients(own):
    top, home, folder, variables = own
    secrets = secrets_for(top, ann=())
    with serving(top, secrets=secrets, home=home, folder=folder, **variables) as served:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "memory_store",
            "arguments": {"content": "Said by one far away", "type": "fact", "key": "far"},
        }}  # fmt: skip
        mcp = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ]
        assert served.ask("POST", "/mcp", call, "ann", mcp)[0] == 200
        assert served.ask("GET", "/v1/get?key=far")[1]["ns"] == "/global"
        _, found = served.ask("POST", "/v1/search", {"query": "when does the tug leave"})
        assert "The tug leaves at dawn" in json.dumps(found)


def test_a_token_of_one_project_of_the_own_plane_sees_that_one_alone(own):
    top, home, folder, variables = own
    with serving(
        top, secrets=secrets_for(top, ann=()), home=home, folder=folder, **variables
    ) as served:
        _, found = served.ask("POST", "/v1/search", {"query": "when does the ferry leave"})
        space = found["hits"][0]["ns"]
        assert space.startswith("/project/ferry")
        made, served.secrets["crew"] = serve.made(
            "crew", "crew", "agent", (space,), ("main",), CREATED
        )
        serve.TokenFile(top / "tokens.json").add(made)
        assert (
            served.ask("POST", "/v1/record", {"text": "Of nobody's project", "key": "all"})[0]
            == 200
        )
        value = {"text": "The ferry has a new engine", "key": "engine"}
        assert served.ask("POST", "/v1/record", value, "crew")[0] == 200
        assert served.ask("GET", "/v1/get?key=engine", token="crew")[1]["ns"] == space
        _, found = served.ask("POST", "/v1/search", {"query": "the ferry, of nobody's"}, "crew")
        assert {hit["ns"] for hit in found["hits"]} == {space}
        assert served.ask("GET", "/v1/get?key=all&ns=/global", token="crew")[0] == 403
