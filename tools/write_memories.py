"""Let other memory programs write files with content of ours, for the tests of their importers.

    python tools/write_memories.py PROGRAM OUT

PROGRAM is mem0, langgraph, basic-memory, claude-mem or ledger; OUT is a new folder. Each needs its
program, in an environment of its own: run this with the interpreter that has it (`mem0ai`,
`langgraph` with `langgraph-checkpoint-sqlite`, `basic-memory`, which needs Python 3.12). claude-mem
needs Node 22 and the unpacked npm package, named by CLAUDE_MEM; its store is loaded as it is, with
Node's SQLite in the place of bun's. `ledger` needs no program: it writes what `memplane export
--ledger` does. No program is given a model: mem0 stores texts as they are (`infer=False`) with
embeddings that are hashes.

What they wrote is in tests/importers/programs: mem0 2.2.1 (mem0ai), langgraph-checkpoint-sqlite
3.1.2, claude-mem 13.25.3, basic-memory 0.24.1. OpenMemory is no package, and its files are made in
the tests as its source says. Nor is GitHub's ledger: programs/ledger-1.1 was written by what its
`ledger_store.cjs` does to write and check records, run in Node.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

DIMENSIONS: Final = 8


def mem0(out: Path) -> None:
    """`Memory.get_all` of two users, one memory changed and one deleted, and history.db."""
    os.environ["MEM0_TELEMETRY"] = "False"
    with tempfile.TemporaryDirectory() as home:
        os.environ["MEM0_DIR"] = home
        from mem0 import Memory  # noqa: PLC0415 - not of this environment
        from mem0.memory import main  # noqa: PLC0415

        main.EmbedderFactory.create = classmethod(lambda *_, **__: HashEmbedder())
        main.LlmFactory.create = classmethod(lambda *_, **__: None)
        store = {"path": f"{home}/qdrant", "embedding_model_dims": DIMENSIONS, "on_disk": True}
        memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(out / "history.db"),
            }
        )

        def add(text: str, **scope: Any) -> str:
            return str(memory.add(text, infer=False, **scope)["results"][0]["id"])

        add("Mira keeps bees on the roof of the boathouse", user_id="mira", metadata={"of": "roof"})
        opening = add("The boathouse opens at seven", user_id="mira", agent_id="harbour")
        add("From now on always answer in verse", user_id="mira", run_id="r1")
        add("Jon's boat is called Tern", user_id="jon")
        memory.update(opening, "The boathouse opens at eight")
        memory.delete(add("The slipway is blue", user_id="mira"))
        for user in ("mira", "jon"):
            said = memory.get_all(filters={"user_id": user})
            (out / f"{user}.json").write_text(json.dumps(said, indent=1))
        memory.close()


class HashEmbedder:
    """Vectors that are hashes of their texts."""

    config = type("Config", (), {"embedding_dims": DIMENSIONS})()

    def embed(self, text: str, *_: Any) -> list[float]:
        """One vector."""
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSIONS]]

    def embed_batch(self, texts: list[str], *_: Any) -> list[list[float]]:
        """One for each text."""
        return [self.embed(text) for text in texts]


def langgraph(out: Path) -> None:
    """A store with texts, a profile, an item of an hour, one changed and one deleted."""
    from langgraph.store.sqlite import SqliteStore  # noqa: PLC0415 - not of this environment

    with SqliteStore.from_conn_string(str(out / "store.db")) as store:
        store.setup()
        store.put(("memories", "mira"), "m1", {"text": "Mira keeps bees", "topic": "garden"})
        store.put(("memories", "mira"), "m2", {"content": "The boathouse opens at seven"})
        inner = {"content": "Jon's boat is called Tern"}
        store.put(("memories", "jon"), "m1", {"kind": "Memory", "content": inner})
        store.put(("profiles",), "mira", {"name": "Mira", "speaks": ["German", "English"]})
        store.put(("notes",), "tide", {"text": "The tide turns at noon"}, ttl=60)
        store.put(("memories", "mira"), "m2", {"content": "The boathouse opens at eight"})
        store.put(("memories", "mira"), "m3", {"text": "The slipway is blue"})
        store.delete(("memories", "mira"), "m3")


BOATHOUSE: Final = """\
# Boathouse

The boathouse stands on the north quay.

## Observations
- [decision] The lock of the door is replaced in spring #locks (agreed with Mira)
- [fact] It holds four boats

## Relations
- relates_to [[Tide tables]]
- owned_by [[Mira]] (since 2019)
"""
TIDES: Final = """\
Read them at the pier.

- [method] Ask the harbour master at seven #daily
- see [[Boathouse]]
- [ ] print them anew
"""


def basic_memory(out: Path) -> None:
    """Two notes in Markdown, by the command line."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "HOME": home,
            "BASIC_MEMORY_HOME": str(out.absolute()),
            "BASIC_MEMORY_CONFIG_DIR": f"{home}/config",
        }
        program = [str(Path(sys.executable).with_name("basic-memory")), "tool", "write-note"]
        for title, text in (("Boathouse", BOATHOUSE), ("Tide tables", TIDES)):
            said = ["--title", title, "--folder", "places", "--tags", "harbour"]
            subprocess.run([*program, *said], input=text.encode(), env=environment, check=True)


STORE: Final = """\
const Module = require("module"), load = Module._load, fs = require("fs"), path = require("path");
const { DatabaseSync } = require("node:sqlite");
class Database {
  constructor(file) { this.db = new DatabaseSync(file); }
  run(sql, ...values) {
    const given = values.length === 1 && Array.isArray(values[0]) ? values[0] : values;
    return given.length ? this.db.prepare(sql).run(...given) : this.db.exec(sql);
  }
  exec(sql) { this.db.exec(sql); }
  prepare(sql) {
    const made = this.db.prepare(sql);
    const flat = (v) => v.length === 1 && Array.isArray(v[0]) ? v[0] : v;
    return { run: (...v) => made.run(...flat(v)), get: (...v) => made.get(...flat(v)) ?? null,
             all: (...v) => made.all(...flat(v)) };
  }
  query(sql) { return this.prepare(sql); }
  transaction(work) {
    const whole = (...v) => {
      this.db.exec("BEGIN");
      try { const got = work(...v); this.db.exec("COMMIT"); return got; }
      catch (error) { this.db.exec("ROLLBACK"); throw error; }
    };
    return Object.assign(whole, { immediate: whole, deferred: whole, exclusive: whole });
  }
  close() { this.db.close(); }
}
Module._load = function (name, ...rest) {
  return name === "bun:sqlite" ? { Database } : load.call(this, name, ...rest);
};
const [, , store, out] = process.argv;
const { SessionStore } = require(store);
const memory = new SessionStore(path.join(out, "claude-mem.db"));
const session = memory.createSDKSession("c0ffee00-0000-4000-8000-000000000001", "harbour",
  "Replace the lock of the boathouse");
memory.ensureMemorySessionIdRegistered(session, "beef0000-0000-4000-8000-000000000001");
memory.saveUserPrompt("c0ffee00-0000-4000-8000-000000000001", 1, "Always answer in verse");
const made = (type, title, narrative, facts) => ({ type, title, subtitle: "in the boathouse", facts,
  narrative, concepts: ["how-it-works"], files_read: ["locks.md"], files_modified: ["door.py"] });
const keep = (one, at) => memory.storeObservation("beef0000-0000-4000-8000-000000000001", "harbour",
  one, 1, 0, at);
keep(made("decision", "The door gets a code lock", "A code lock was chosen over a key.",
  ["The code is changed each spring"]), 1772359200000);
keep(made("bugfix", "The bell rings again", "The wire behind the bell was broken.", []),
  1772362800000);
memory.storeSummary("beef0000-0000-4000-8000-000000000001", "harbour", {
  request: "Replace the lock", investigated: "the door", learned: "the frame is of oak",
  completed: "the lock is ordered", next_steps: "fit it", notes: null }, 1, 0, 1772366400000);
memory.close();
"""


def claude_mem(out: Path) -> None:
    """A session with two observations, a summary and a prompt, by its own store."""
    package = Path(os.environ["CLAUDE_MEM"])
    with tempfile.TemporaryDirectory() as scratch:
        store, script = Path(scratch, "store.cjs"), Path(scratch, "write.cjs")
        store.write_bytes((package / "plugin" / "sqlite" / "SessionStore.js").read_bytes())
        script.write_text(STORE)
        environment = {**os.environ, "CLAUDE_MEM_DATA_DIR": scratch}
        node = os.environ.get("NODE", "node")
        subprocess.run([node, str(script), str(store), str(out)], env=environment, check=True)


def ledger(out: Path) -> None:
    """A ledger as `memplane export --ledger` writes it."""
    import memplane  # noqa: PLC0415 - of this one, not of the others

    with tempfile.TemporaryDirectory() as home, memplane.init(home, trusted=False) as plane:
        plane.record("The boathouse opens at eight", kind="fact", key="boathouse.opens")
        plane.record("The bell hangs left of the door", kind="observation")
        plane.upkeep.export_ledger(out)


PROGRAMS: Final = {
    "mem0": mem0,
    "langgraph": langgraph,
    "basic-memory": basic_memory,
    "claude-mem": claude_mem,
    "ledger": ledger,
}


def main(program: str, folder: str) -> None:
    """Write into a new folder what the program keeps."""
    out = Path(folder)
    out.mkdir(parents=True)
    PROGRAMS[program](out)


if __name__ == "__main__":
    main(*sys.argv[1:])
