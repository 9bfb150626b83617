"""A recorded session, replayed: our hooks and our server are given again what a client gave them."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import memplane
from memplane.clients import places, words_of

SCRIPT = Path(sys.executable).with_name("memplane")
RECORDED = sorted(file.parent for file in Path(__file__).parent.glob("*/crossed.jsonl"))
WITH_SERVER = find_spec("mcp") is not None  # the extra is an extra


class Call(NamedTuple):
    """One run of a hook: what it was called with, and the context that it gave to the agent."""

    argv: list[str]
    said: dict
    context: str

    @property
    def event(self):
        return self.said["hook_event_name"]


COPIED = (sys.executable, "-m", "memplane")  # the suite starts these as copies: tests/conftest.py


class Server:
    """`memplane mcp` as a client runs it: a line in, and the answer to it out."""

    def __init__(self, words, how):
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **how
        )

    def say(self, line):
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        if "id" not in line:
            return None
        answers = map(json.loads, self._process.stdout)
        return next(one for one in answers if one.get("id") == line["id"])

    def close(self):
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0


class Replay:
    """A recording that was given to an installed memplane, with what memplane answered."""

    def __init__(self, folder, top):
        self.agent = folder.name.rpartition("-")[0]
        self.home = top / "ann"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)
        self.transcripts = []
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home),
            # A slow machine is not what is tested here.
            "MEMPLANE_PLANE__HOOKS__MILLISECONDS_MAX": "60000",
        }  # fmt: skip
        self._how = {"cwd": self.project, "env": environment}
        for file in (folder / "home").rglob("*.jsonl"):
            copy = self.home / file.relative_to(folder / "home")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(self._at_home(file))
            self.transcripts.append(copy)
        subprocess.run(
            [SCRIPT, "install", self.agent, "--user"], check=True, capture_output=True, **self._how
        )
        hooks, _ = places(self.agent, "user", environment, self.project)
        self.settings = json.loads(hooks.read_bytes())["hooks"]
        self.calls, self.spoken, self._started = [], [], set()
        self._replay(self._at_home(folder / "crossed.jsonl"))

    def _at_home(self, file):
        """What was recorded of Ann's home, about the one of this test."""
        return file.read_text().replace("/home/ann", str(self.home))

    def _replay(self, recorded):
        servers = {}
        try:
            for crossing in map(json.loads, recorded.splitlines()):
                number = crossing.get("server")
                if number is None:
                    self.calls.append(self._hook(**crossing))
                elif WITH_SERVER:
                    if number not in servers:
                        for before in servers.values():
                            before.close()
                        words = self._words("server", [SCRIPT, *crossing["argv"]])
                        servers = {number: Server(words, self._how)}
                    answer = servers[number].say(crossing["line"])
                    self.spoken.append((crossing["line"], answer))
        finally:
            for one in servers.values():
                one.close()

    def _hook(self, argv, env, stdin):
        """Run what the installed settings run for it."""
        handlers = [
            words
            for group in self.settings[stdin["hook_event_name"]]
            for words in map(words_of, group["hooks"])
            if words[1:] == argv
        ]
        assert len(handlers) == 1, (argv, stdin["hook_event_name"])
        how = self._how | {"env": self._how["env"] | env}
        [words] = handlers
        assert words[0] == str(SCRIPT)
        done = subprocess.run(
            self._words("hook", words), input=json.dumps(stdin).encode(), capture_output=True, check=False,
            timeout=60, **how,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        output = json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}
        assert output.get("hookEventName", stdin["hook_event_name"]) == stdin["hook_event_name"]
        return Call(argv, stdin, output.get("additionalContext", ""))

    def _words(self, what, words):
        """The first hook and the first server start as they are installed, the others as copies."""
        if what in self._started:
            return [*COPIED, *words[1:]]
        self._started.add(what)
        return words

    @property
    def sessions(self):
        """The ids of the client's sessions, in the order in which they began."""
        return list(dict.fromkeys(call.said["session_id"] for call in self.calls))

    def of(self, session):
        """The calls about one session, catching up aside."""
        of = [call for call in self.calls if call.said["session_id"] == session]
        return [call for call in of if "--catch-up" not in call.argv]


@pytest.fixture(scope="module", params=RECORDED, ids=lambda folder: folder.name)
def replay(request, tmp_path_factory):
    return Replay(request.param, tmp_path_factory.mktemp("replay"))


@pytest.fixture
def plane(replay):
    """The plane that the replayed sessions are in, to read."""
    with memplane.open(replay.home / ".memplane", environment={}, read_only=True) as plane:
        yield plane


@pytest.fixture
def copied(replay, tmp_path):
    """A copy of that plane, to change."""
    home = shutil.copytree(replay.home / ".memplane", tmp_path / ".memplane")
    with memplane.open(home, environment={}, durability="os") as plane:
        yield plane
