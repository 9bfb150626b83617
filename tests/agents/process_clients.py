"""The sessions that the real clients run here: a boat, over three sessions and a compaction.

Ann says what the mast is made of; her agent looks by its own shell what varnish it gets and stores
a decision by memplane's server. In a second session she asks about the first, twice, and again
after a compaction; then she goes on with the first, where a command fails. In Claude Code a
sub-agent looks at the keel there, and she says something while they are at work. The scripted model
gives the agents' part.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("memplane")

SAID = "The mast of the Albatros is made of spruce"
VARNISH = "varnish of the mast: two coats, in May"
LOOK = f"echo '{VARNISH}' > mast.txt; cat mast.txt"
DECIDED = "The Albatros gets red sails"
NOTED = "Noted: spruce, and two coats of varnish"
ASKED = "Which wood is the mast of the Albatros made of?"
ANSWERED = "Spruce"
AGAIN = "Again: which wood is the mast of the Albatros made of?"
STILL = "Still spruce"
SUMMARY = "Ann asked about the wood of a mast"
AFTER = "So which wood is the mast of the Albatros?"
LAST = "Spruce, as before"
RESUMED = "What about its rudder?"
FAILED = "there is no drawing of a rudder"
DRAW = f"echo '{FAILED}'; exit 3"
MEANWHILE = "Its keel is of oak, by the way"
ORDERED = "Look how the keel is fastened"
BOLTED = "the keel is bolted, eight bolts"
BOLTS = f"echo '{BOLTED}'"
REPORTED = "It is fastened by eight bolts"
UNKNOWN = "Nobody has told me about a rudder"
TEXTS = (
    LOOK, SAID, VARNISH, DECIDED, NOTED, ASKED, ANSWERED, AGAIN, STILL, SUMMARY, AFTER, LAST, RESUMED,
    DRAW, FAILED, MEANWHILE, UNKNOWN, ORDERED, BOLTED, BOLTS, REPORTED,
)  # fmt: skip
STORED = {"content": DECIDED, "type": "decision", "key": "sails"}
SENT = {
    "description": "look at the keel", "prompt": ORDERED, "subagent_type": "general-purpose",
    "run_in_background": False,
}  # fmt: skip
SEARCHED = {"query": "mast of the Albatros"}


def find_claude():
    given = os.environ.get("MEMPLANE_CLAUDE") or shutil.which("claude")
    if given is None and (sdk := find_spec("claude_agent_sdk")) is not None:
        bundled = Path(sdk.origin).parent / "_bundled" / "claude"
        given = str(bundled) if bundled.is_file() else None
    return given


CLAUDE = find_claude()
CODEX = os.environ.get("MEMPLANE_CODEX") or shutil.which("codex")


class Person:
    """A person's home with a project in it, and how they run a program there."""

    def __init__(self, folder, script=SCRIPT):
        self.home, self.script = folder / "ann", script
        self.project = self.home / "project"
        self.project.mkdir(parents=True)

    def __call__(self, *argv, **more):
        """Run a program to its end; give back what it printed."""
        with self.start(*argv, **more) as process:
            out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, out
        return out

    def start(self, *argv, cwd=None, **more):
        environment = {
            "PATH": f"{self.script.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ANTHROPIC_API_KEY": "none", "ENABLE_TOOL_SEARCH": "false",
            "MCP_CONNECTION_NONBLOCKING": "false", "MCP_TIMEOUT": "60000", **more,
        }  # fmt: skip
        return subprocess.Popen(
            [str(one) for one in argv], cwd=cwd or self.project, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def transcripts(self, pattern):
        """What the client wrote of its sessions, the oldest first."""
        return sorted(self.home.rglob(pattern), key=lambda one: one.stat().st_ctime_ns)


def with_claude_code(person, model):
    """The three sessions in Claude Code, installed as its user does."""
    person(person.script, "install", "claude-code", "--user")

    def session(*prompts, of=None):
        """Each prompt is said when the one before it was answered, several in a tuple at once."""
        with person.start(
            CLAUDE, "-p", "--input-format", "stream-json", "--output-format", "stream-json",
            "--verbose", "--allowedTools", "mcp__memplane,Bash,Agent",
            *(() if of is None else ("--resume", of)), ANTHROPIC_BASE_URL=model.url,
        ) as process:  # fmt: skip
            for together in prompts:
                for prompt in (together,) if isinstance(together, str) else together:
                    said = {"type": "user", "message": {"role": "user", "content": prompt}}
                    process.stdin.write(f"{json.dumps(said)}\n")
                process.stdin.flush()
                answered = next(line for line in process.stdout if '"type":"result"' in line)
            process.communicate(timeout=240)
        assert process.returncode == 0
        return json.loads(answered)["session_id"]

    tool = "mcp__memplane__memory_{}".format
    model.steps = [("Bash", {"command": LOOK}), (tool("store"), STORED), NOTED]
    first = session(SAID)
    model.steps = [(tool("search"), SEARCHED), ANSWERED]
    model.steps += [STILL, f"<summary>{SUMMARY}</summary>", LAST]
    session(ASKED, AGAIN, "/compact", AFTER)
    model.steps = [("Agent", SENT), ("Bash", {"command": BOLTS}), REPORTED]
    model.steps += [("Bash", {"command": DRAW}), UNKNOWN]
    session((RESUMED, MEANWHILE), of=first)
    return person.transcripts("projects/**/*.jsonl")


def with_codex(person, model):
    """The three sessions in Codex, which compacts by itself where its model has taken too much."""
    codex = person.home / ".codex"
    codex.mkdir()
    (codex / "config.toml").write_text(
        'model = "mock"\nmodel_provider = "mock"\nmodel_auto_compact_token_limit = 50000\n'
        '[model_providers.mock]\nname = "mock"\n'
        f'base_url = "{model.url}/v1"\nwire_api = "responses"\n'
    )
    person(person.script, "install", "codex", "--user")

    def session(prompt, of=None):
        out = person(
            CODEX, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
            "-c", "mcp_servers.memplane.required=true", *(() if of is None else ("resume", of)),
            prompt,
        )  # fmt: skip
        begun = (json.loads(line) for line in out.splitlines() if line.startswith("{"))
        return next(one["thread_id"] for one in begun if "thread_id" in one)

    tool = "mcp__memplane/memory_{}".format
    model.steps = [("exec_command", {"cmd": LOOK}), (tool("store"), STORED), NOTED]
    first = session(SAID)
    model.steps = [(tool("search"), SEARCHED), ANSWERED]
    second = session(ASKED)
    model.steps, model.tokens = [STILL], 90_000
    session(AGAIN, second)
    model.steps, model.tokens = [SUMMARY, LAST], 1
    session(AFTER, second)
    model.steps = [("exec_command", {"cmd": DRAW}), UNKNOWN]
    session(RESUMED, first)
    return person.transcripts("sessions/**/*.jsonl")
