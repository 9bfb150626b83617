"""Old copies that bring back what was erased: transcripts, spools, backups, agents that say it again.

Who attacks: nobody on purpose. A word that a person had purged still stands in the transcript it
came from, in a backup, in what a hook is told again.

What is promised: after `purge` the bytes are in no file below the plane, and neither an import, a
full one, the same hook, a restored backup nor a rebuild brings them back; what else quotes them is
listed by the purge.
"""

import fcntl
import json
import os

import pytest

import memplane

WORDS = {name: f"zebra{name}word" for name in ("import", "body", "artifact", "hook", "spool")}


@pytest.fixture
def folder(tmp_path):
    memplane.init(tmp_path / ".memplane").close()
    turn = {
        "type": "user", "uuid": "u1", "sessionId": "s1", "timestamp": "2026-01-05T12:00:00Z",
        "message": {"role": "user", "content": f"it said {WORDS['import']}"},
    }  # fmt: skip
    (tmp_path / "transcript.jsonl").write_text(json.dumps(turn) + "\n")
    (tmp_path / "report.md").write_text(f"{WORDS['artifact']}\n" * 50)
    return tmp_path


class Machine:
    """One user's commands and hooks, with the times at which each word goes in."""

    def __init__(self, folder, forks):
        self.folder, self.forks = folder, forks
        self.home = folder / ".memplane"

    def run(self, *argv, stdin=b"", codes=(0,)):
        env = {
            "HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state"),
            "PATH": os.environ["PATH"],
        }  # fmt: skip
        ran = self.forks(
            *argv, "--home", self.home, cwd=self.folder, env=env, stdin=stdin, seconds=60
        )
        assert ran.code in codes, ran.said
        return ran

    def put_in(self):
        """Every word by the door that it is named after."""
        self.run("import", "claude-code", self.folder / "transcript.jsonl")
        long = f"{WORDS['body']} stands here\n" * 110_000
        self.run("record", "--stdin", "--id", "long", stdin=long.encode())
        self.run("artifact", "add", self.folder / "report.md", f"a report of {WORDS['artifact']}")
        self.tell()
        with (self.home / "log" / ".lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.run("record", f"left {WORDS['spool']}", "--id", "left", "--no-wait")
        self.run("record", "taken in")
        self.run("pack", "what was said, left and reported?", "--budget", "8000")

    def tell(self):
        said = {
            "hook_event_name": "UserPromptSubmit", "session_id": "h1", "cwd": str(self.folder),
            "prompt": f"do {WORDS['hook']}", "prompt_id": "p1",
        }  # fmt: skip
        self.run("hook", "claude-code", stdin=json.dumps(said).encode())

    def purge(self):
        """What holds a word, until nothing does: a purge may list what quotes it."""
        with memplane.open(self.home) as plane:
            events = [line.event for line in plane._log.read()]
            ids = [one.id for one in events if self.holds(repr(one) + plane.text(one))]
        for id_ in ids:
            self.run("purge", id_, "--cascade", codes=(0, 1))
        return len(ids)

    @staticmethod
    def holds(text):
        return any(word in text for word in WORDS.values())

    def left(self):
        """The files below the plane that hold a word."""
        words = [word.encode() for word in WORDS.values()]
        return [
            f"{path.relative_to(self.home)}: {word.decode()}"
            for path in sorted(self.home.rglob("*"))
            if path.is_file()
            for word in words
            if word in path.read_bytes()
        ]

    def again(self):
        """All that could bring it back."""
        for more in ((), ("--full",)):
            self.run("import", "claude-code", self.folder / "transcript.jsonl", *more)
        self.tell()
        self.run("restore", self.folder / "backup")
        self.run("rebuild")
        self.run("pack", "what was said, left and reported?", "--budget", "8000")
        self.run("search", WORDS["import"], codes=(0, 1))


@pytest.mark.long
def test_what_was_purged_stays_away_whatever_says_it_again(folder, forks):
    machine = Machine(folder, forks)
    machine.put_in()
    machine.run("export", folder / "backup")
    there = {line.rpartition(" ")[2] for line in machine.left()}
    assert there == set(WORDS.values())
    assert machine.purge() >= len(WORDS)
    assert machine.left() == []
    machine.again()
    assert machine.left() == []
    machine.run("verify")
