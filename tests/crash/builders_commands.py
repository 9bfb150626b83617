"""Every command of the command line, with arguments that make it write what it can write."""

import contextlib
import io
import json
import os
import random
import sqlite3
import subprocess
from pathlib import Path

from builders_plane_operations import planned

import memplane
from memplane import serve
from memplane.cli.run import run_command_line
from memplane.shared.device_file import DeviceLines, FilePlace

OTHER = "0123456789abcdef"  # a device whose file waits in a shared folder

# In a home made by `prepare`; {top} is the folder above it.
COMMANDS = {
    "init": ["init", "{top}/another"],
    "demo": ["demo", "--home", "{top}/demo"],
    "record": ["record", "one more thing", "--kind", "fact", "--key", "k7", "--json"],
    "record of a long text": ["record", "--id", "long", "x" * 1_200_000, "--json"],
    "record without waiting": ["record", "not now", "--no-wait", "--json"],
    "import of a database": ["import", "langgraph", "{top}/store.db", "--json"],
    "export to a ledger": ["export", "--ledger", "{top}/branch", "--json"],
    "import": ["import", "jsonl", "{top}/given.jsonl", "--json"],
    "pack": ["pack", "which database?", "--budget", "600", "--session", "s1"],
    "search": ["search", "database"],
    "show": ["show", "3"],
    "get": ["get", "k1"],
    "keys": ["keys", "k"],
    "history": ["history", "k1"],
    "log": ["log", "--limit", "5"],
    "replay": ["replay", "last"],
    "why": ["why", "last", "3"],
    "expand": ["expand", "session/s1?depth=2", "--budget", "800"],
    "files": ["files", "database"],
    "task open": ["task", "open", "second", "to do", "--json"],
    "task update": ["task", "update", "parser", "it is in", "--done", "1", "--json"],
    "task block": ["task", "block", "parser", "waits", "--json"],
    "task done": ["task", "done", "parser", "merged", "--json"],
    "task switch": ["task", "switch", "parser", "--json"],
    "task list": ["task", "list"],
    "task show": ["task", "show", "parser"],
    "decisions": ["decisions"],
    "artifact add": ["artifact", "add", "{top}/given.txt", "another text", "--json"],
    "inspect": ["inspect", "--out", "{top}/page.html", "--json"],
    "artifact list": ["artifact", "list"],
    "artifact show": ["artifact", "show", "given.txt"],
    "artifact export": ["artifact", "export", "given.txt", "--to", "{top}/copy.txt"],
    "artifact approve": ["artifact", "approve", "given.txt", "--actor", "ann", "--json"],
    "artifact revoke": ["artifact", "revoke", "given.txt", "--json"],
    "session start": ["session", "start", "s7", "--json"],
    "session checkpoint": ["session", "checkpoint", "s1", "so far", "--json"],
    "session end": ["session", "end", "s1", "--json"],
    "session list": ["session", "list"],
    "session show": ["session", "show", "s1"],
    "today": ["today"],
    "last": ["last"],
    "remember": ["remember", "the mast is of spruce", "--json"],
    "forget": ["forget", "k1", "--json"],
    "unforget": ["unforget", "k3", "--json"],
    "update": ["update", "old1", "another value", "--json"],
    "confirm": ["confirm", "old1", "--json"],
    "undo": ["undo", "--json"],
    "pin": ["pin", "--key", "k2", "--json"],
    "unpin": ["unpin", "--key", "k5", "--json"],
    "touch": ["touch", "--key", "k2", "--json"],
    "evict": ["evict", "--below", "0.9", "--json"],
    "purge": ["purge", "old4", "--json"],
    "stats": ["stats"],
    "schema": ["schema", "budgets"],
    "audit": ["audit"],
    "verify": ["verify"],
    "repair": ["repair"],
    "rebuild": ["rebuild"],
    "export": ["export", "{top}/exported.jsonl"],
    "export --sqlite": ["export", "--sqlite", "{top}/tables.sqlite"],
    "restore": ["restore", "{top}/export.jsonl", "--into", "{top}/restored"],
    "restore into a plane": ["restore", "{top}/export.jsonl"],
    "sync": ["sync", "{top}/shared", "--accept", "0123", "--mine", "--json"],
    "doctor": ["doctor"],
    "trust": ["trust", "{top}/home", "--yes", "--json"],
    "policy accept": ["policy", "accept", "--yes"],
    "embed": ["embed"],
    "help": ["help", "pack"],
    "version": ["version"],
    "where": ["where"],
    "completion": ["completion", "bash"],
    "eval": [
        "eval", "--events", "{top}/events.jsonl", "--questions", "{top}/questions.jsonl",
        "--report", "{top}/eval.json",
    ],
    "policy check": ["policy", "check"],
    "policy show": ["policy", "show", "budgets"],
    "policy log": ["policy", "log"],
    "policy diff": ["policy", "diff", "HEAD~1", "HEAD"],
    "policy replay": ["policy", "replay", "--last", "2", "--from", "HEAD~1", "--to", "HEAD"],
    "scenario run": ["scenario", "run", "{top}/one.yaml"],
    "install": ["install", "codex", "--project", "--hooks", "--dry-run"],
    "uninstall": ["uninstall", "codex", "--project", "--dry-run"],
    "token add": ["token", "add", "second", "--agent", "a", "--tokens", "{top}/tokens.json"],
    "token list": ["token", "list", "--tokens", "{top}/tokens.json"],
    "token remove": ["token", "remove", "first", "--tokens", "{top}/tokens.json"],
}  # fmt: skip

# Those have clients: tests/mcp ends, kills and starves one, tests/hook breaks all around the other.
# tests/serve does the same to the one for many.
SERVERS = frozenset({"mcp", "hook", "serve"})

# They erase old4: `sync` because the other device has purged it.
PURGING = ("purge", "sync")

# Those need a shared log: tests/shared kills engines and machines, and cuts logs, below them.
FOLLOWING = frozenset({"join", "shared status", "shared follow", "shared refill"})

# Their answer is what they find: exit code 1 then says that there is something.
FINDING = ("verify", "doctor", "audit", "search", "replay", "policy check", "scenario run")

SCENARIO = """\
version: 1
scenario: one
title: A decision is in the block
given:
  events:
    - {id: load, kind: decision, key: db, text: we keep SQLite}
when:
  - pack: {query: which database, budget: 800}
assertions:
  - contains: {event: load}
"""
TURN = {
    "conversation_id": "c1", "event_id": "i1", "ts": "2026-01-05T12:00:00Z", "session_id": "s1",
    "role": "user", "speaker": "Ann", "text": "imported 1",
}  # fmt: skip
QUESTION = {
    "conversation_id": "c1", "question_id": "q1", "question": "imported 1", "category": "single",
    "asked_at": "2026-02-01T09:00:00Z", "evidence_event_ids": ["i1"],
}  # fmt: skip


def argv(name, top):
    """The arguments of a command, for the plane in `top`."""
    words = [word.replace("{top}", str(top)) for word in COMMANDS[name]]
    return (
        words
        if words[0] in ("init", "trust", "demo") or "--into" in words
        else [*words, "--home", f"{top}/home"]
    )


def prepare(top):
    """A plane with something in it for every command, in a git working tree."""
    home = top / "home"
    planned(home, random.Random(1))
    (top / "given.txt").write_text("an artifact\n")
    rows = "".join(f'{{"text": "imported {n}", "id": "i{n}"}}\n' for n in range(5))
    (top / "given.jsonl").write_text(rows)
    (top / "branch").mkdir()
    with contextlib.closing(sqlite3.connect(top / "store.db")) as file, file:
        file.execute("CREATE TABLE store (prefix TEXT, key TEXT, value TEXT, updated_at TEXT)")
        file.execute("INSERT INTO store VALUES ('a', 'k', '{\"text\": \"kept\"}', '2026-01-05')")
    (top / "events.jsonl").write_text(json.dumps(TURN) + "\n")
    (top / "questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    (top / "one.yaml").write_text(SCENARIO)
    first, _ = serve.made("first", "a", "agent", (), ("main",), "2026-01-05T12:00:00.000000Z")
    serve.TokenFile(top / "tokens.json").add(first)
    values = home / "policies" / "plane.yaml"
    values.write_text(values.read_text().replace("embedder: none", "embedder: static"))
    with memplane.open(home, environment={}) as plane:
        plane.work.tasks.open("parser", "parse", plan=["tests", "lexer"])
        plane.work.artifacts.add(top / "given.txt", "what was found")
        plane.work.artifacts.approve("given.txt", actor="ann")
        plane.pin(key="k5")
        plane.pack("which database?", session="s1", save_report=True)
        plane.upkeep.export(top / "export.jsonl")
        shared(top / "shared", plane)
    for words in (["init", "-q"], ["add", "-f", "home/policies"], ["commit", "-qm", "one"]):
        git(top, words)
    budgets = home / "policies" / "budgets.yaml"
    budgets.write_text(budgets.read_text() + "# reviewed\n")
    git(top, ["commit", "-qam", "two"])


def shared(folder, plane):
    """A folder that the plane shares with a device that has written, and purged, something."""
    folder.mkdir()
    plane.upkeep.sync(folder, name="here")
    lines = DeviceLines(OTHER, FilePlace())
    data = lines.header(OTHER, "01PLANE", "there")
    for n in range(4):
        origin = {"origin": {"plane": "01PLANE", "seq": n + 1}}
        row = {"ts": "2026-01-05T12:00:00.000000Z", "kind": "fact", "key": f"k{n}", "data": origin}
        data += lines.event(f"there{n}", {**row, "text": f"said there {n}"})
    forget = {"forget": {"ids": ["there0", "there9"]}, "origin": {"plane": "01PLANE", "seq": 8}}
    data += lines.event("gone", {"ts": row["ts"], "kind": "forget", "data": forget})
    data += lines.purge("purged", ["old4", "there1"])
    (folder / f"{OTHER}.jsonl").write_bytes(data)
    plane.record("not sent yet", kind="fact", key="k8")


def git(top, words):
    named = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    named |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    subprocess.run(["git", *words], cwd=top, check=True, env={**os.environ, **named})


def ran(words):
    """Run one command in this process: its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command_line(words)
    return code, out.getvalue(), err.getvalue()


def working_folder(top):
    """Stand where relative paths and git look."""
    os.chdir(top)
    os.environ.pop("MEMPLANE_HOME", None)
    return Path(top)
