"""A stranger's repository with a plane in it, cloned by a user whose agents have memplane's hooks.

Who attacks: whoever wrote the repository, or the archive it came in. What they control: every
file, folder, link, pipe, device, hard link, mode and name below the clone, and what they say.

What is promised: no byte outside the plane's own folder changes; nothing hangs; nothing raises.
Before the user trusts the plane nothing in the clone changes either, no answer shows the stranger's
text, and what the user says goes to the user's own plane.
"""

import json
import random

import builders_hostile_repositories as hostile_repositories
import pytest
from builders_hostile_repositories import WORD, Stranger, changed, entries, hostile, make_world
from process_commands import HUNG, fresh

import memplane
from tests.examples import sampled

PROMPT = "which herons nest at the lake and who decided on deploy"
SECRET = "ghp_" + "q7Zk29Xm4Qp7LwVbN3rT8yHs6DfGj1Kc5AeU"


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Stranger(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def user_home(tmp_path_factory):
    """The plane of the user, which every world has a copy of."""
    home = tmp_path_factory.mktemp("user") / ".memplane"
    with memplane.init(home) as plane:
        plane.record("The herons nest at the lake", kind="fact", key="herons")
        plane.upkeep.rebuild()
    return home


def agent_says(world):
    """What agents tell their hooks, by agent: events of one session, in order."""
    usual = {"session_id": "s1", "cwd": str(world.clone)}
    call = {"tool_name": "Bash", "tool_use_id": "u1", "tool_input": {"command": "ls"}}
    events = [
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", "prompt": f"{PROMPT} {SECRET}", "prompt_id": "p1"},
        {"hook_event_name": "PostToolUse", "tool_response": {"stdout": f"x {SECRET}"}, **call},
        {"hook_event_name": "Stop", "last_assistant_message": "done"},
        {"hook_event_name": "SessionEnd", "reason": "exit"},
    ]
    return [json.dumps({**usual, **event}).encode() for event in events]


def mcp_says():
    """What an MCP client sends: it opens, stores, searches, reads, and goes."""
    info = {"name": "pipe", "version": "1"}
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    calls = (
        ("memory_search", {"query": "deploy herons"}),
        ("memory_store", {"content": "The herons left", "type": "fact", "key": "herons.2"}),
        ("memory_get", {"key": "deploy"}),
        ("memory_list_keys", {}),
    )
    lines = [
        {"id": 0, "method": "initialize", "params": opening},
        {"method": "notifications/initialized"},
        *(
            {"id": at, "method": "tools/call", "params": {"name": name, "arguments": given}}
            for at, (name, given) in enumerate(calls, 1)
        ),
        {"id": 9, "method": "resources/read", "params": {"uri": "memplane://decisions"}},
    ]
    return "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines).encode()


READS = (
    (), ("search", "deploy"), ("get", "deploy"), ("log",), ("show", "3"), ("verify",), ("doctor",),
    ("policy", "check"), ("pack", "deploy", "--session", "s1"), ("keys",), ("stats",), ("decisions",),
    ("task", "list"), ("session", "list"), ("files",), ("history", "deploy"), ("audit",),
    ("expand", "expand://event/3"), ("pack", "", "--intent", "fast", "--channel", "agent"),
    ("search", "deploy", "--similar"), ("export", "../export.jsonl"), ("artifact", "list"),
    ("pack", "deploy", "--no-report"), ("replay",), ("policy", "show"), ("purge", "3", "--dry-run"),
)  # fmt: skip
WRITES = (
    ("record", "the user says this"), ("record", "and this", "--no-wait"), ("rebuild",),
    ("forget", "--key", "deploy"), ("repair",), ("repair", "--salvage"), ("purge", "3"), ("evict",),
    ("record", "--kind", "decision", "--key", "deploy", "no"), ("task", "open", "birds"),
    ("artifact", "add", "README"), ("session", "start", "s9"), ("session", "end", "s1"),
    ("import", "jsonl", "README"), ("pin", "deploy"), ("touch", "deploy"),
)  # fmt: skip


class Visit:
    """A user in a clone: runs what an agent or a person would, and lists what must not be."""

    def __init__(self, world, forks, chance, *, trusted=False, named=False):
        self.world, self.forks, self.chance = world, forks, chance
        self.trusted = trusted
        self.named = ("--home", str(world.home)) if named else ()
        self.broken = []

    def run(self, *argv, stdin=b"", start=None):
        ran = (start or self.forks)(
            *argv, *self.named, cwd=self.world.clone, stdin=stdin, env=self.world.environment()
        )
        wrong = []
        if ran.code == HUNG:
            wrong.append("hung")
        elif not isinstance(ran.code, int) or ran.code not in (0, 1, 2, 3):
            wrong.append(f"exit code {ran.code}: {ran.said[-400:]}")
        if "Traceback" in ran.said:
            wrong.append(f"raised: {ran.said[-1500:]}")
        if not self.trusted and WORD in ran.said and argv[0] != "trust":
            wrong.append(f"shows what the stranger says: {ran.said[:800]}")
        self.broken += [f"`{' '.join(ran.argv)}`: {one}" for one in wrong]
        return ran

    def hook(self, agent, said, *more, start=None):
        ran = self.run("hook", agent, *more, stdin=said, start=start)
        if ran.code not in (0, HUNG) or ran.err:
            self.broken.append(f"hook {agent} {said[:60]}: exit {ran.code}, {ran.err[:300]}")

    def work(self, hooks, commands):
        """So many events of an agent, and so many commands, among them writes; MCP now and then."""
        agent = self.chance.choice(["claude-code", "codex"])
        for said in self.chance.sample(agent_says(self.world), hooks):
            self.hook(agent, said)
        if hooks > 2:
            self.hook(agent, agent_says(self.world)[3], "--catch-up")
        half = commands // 2
        for argv in self.chance.sample(READS, commands - half) + self.chance.sample(WRITES, half):
            self.run(*argv)
        if commands > 4 or self.chance.random() < 0.3:
            self.run("mcp", stdin=mcp_says())


def visited(world, forks, said, seed, *, hooks, commands):
    """Use a clone before it is trusted, then after; what was broken."""
    chance = random.Random(f"visit {seed}")
    others, clone, linked = world.others(), entries(world.clone), world.linked()
    first = Visit(world, forks, chance)
    first.hook("claude-code", agent_says(world)[0], start=fresh if seed % 10 == 0 else None)
    first.work(hooks, commands)
    broken = first.broken
    broken += [f"changed outside: {one}" for one in changed(others, world.others())]
    broken += [f"changed before trust: {one}" for one in changed(clone, entries(world.clone))]
    broken += [f"{path}: holds the user's secret" for path in holding(world.user, SECRET)]
    second = Visit(world, forks, chance, trusted=True, named=seed % 2)
    if not second.named:
        second.run("trust", "--yes")
    second.work(hooks, commands)
    broken += second.broken
    after = world.others()
    broken += [
        f"changed outside, trusted: {one}"
        for one in changed(others, after)
        if not (linked and one.startswith(f"{linked}"))
    ]
    return [f"{one}\n    ({'; '.join(said)})" for one in broken]


def holding(folder, word):
    """The files below a folder that hold a word."""
    return [
        path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
    ]


@pytest.fixture
def visit(tmp_path, forks, stranger, user_home):
    def visit(seed, **amounts):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = make_world(folder, stranger, user_home)
        said = hostile(seed, world, stranger)
        broken = visited(world, forks, said, seed, **amounts)
        hostile_repositories.taken_away(folder)
        return [f"repository {seed}: {one}" for one in broken]

    return visit


@pytest.mark.parametrize("seed", sampled(range(4), 2))
def test_nothing_in_a_strangers_repository_harms_who_cloned_it(visit, seed):
    broken = visit(seed, hooks=1, commands=2)
    assert not broken, "\n".join(broken)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(0, 500, 20))
def test_nothing_in_five_hundred_repositories_harms_who_cloned_them(visit, first):
    broken = []
    for seed in range(first, first + 20):
        broken += visit(1000 + seed, hooks=3, commands=6)
    assert not broken, "\n".join(broken)
