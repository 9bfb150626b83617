"""Processes that use one plane at once until they are killed: `python process_storm.py HOME FOLDER`.

Each actor is a session of its own, so that a kill takes it with all that it started. What was
acknowledged to it stands in FOLDER/acks, a line of JSON each, written at once; what went wrong in
FOLDER/faults. Stdin says what to start and what to kill; each line is answered by one.
"""

import importlib
import json
import os
import random
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

MODULES = (
    "memplane.cli.run",
    "memplane.wiring",
    "memplane.hook.run",
    "memplane.index.segment",
)


class Actor:
    """One process of the storm, named, with its own chance and its own words."""

    def __init__(self, home, folder, name, seed):
        self.home, self.folder, self.name = home, folder, name
        self.chance = random.Random(f"{name} {seed}")
        self.number = 0

    def told(self, what, **more):
        self._line("acks", {"what": what, **more})

    def fault(self, text):
        self._line("faults", f"{self.name}: {text}")

    def _line(self, name, what):
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, (json.dumps(what) + "\n").encode())
        os.close(fd)

    def next(self):
        self.number += 1
        return f"{self.name}.{self.number}"

    def command(self, *argv, stdin=b"", fine=(0,)):
        """Run a command in a fork of this process; its answer, or None where it has none."""
        paths = [self.folder / f"{self.name}.{stream}" for stream in ("in", "out", "err")]
        for path, data in zip(paths, (stdin, b"", b""), strict=True):
            path.write_bytes(data)
        child = os.fork()
        if not child:
            for number, path in enumerate(paths):
                os.dup2(os.open(path, os.O_RDONLY if not number else os.O_WRONLY), number)
            code = 99
            try:
                from memplane.__main__ import main

                code = main([*argv])
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:  # noqa: BLE001 - it ends here, whatever it is
                traceback.print_exc()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        err = paths[2].read_text(errors="replace")
        if code not in fine or "Traceback" in err:
            self.fault(f"{argv}: exit code {code}: {err[-1500:]}")
            return None
        out = paths[1].read_text(errors="replace")
        return json.loads(out) if out.startswith("{") else {}


def write(actor, durability="sync"):
    """Record, one event or a few, and say what was acknowledged."""
    import memplane

    with memplane.open(actor.home, durability=durability) as plane:
        while True:
            ids = [actor.next() for _ in range(actor.chance.choice([1, 1, 1, 5]))]
            long = actor.chance.choice([9, 9, 9, 9, 400, 300_000])
            for id_ in ids:
                text = f"turn {id_} about herons " + "and storks " * (long // 10)
                got = plane.record(text, id=id_, session=actor.name, role="assistant")
                actor.told("event", id=id_, seq=got.seq)


def write_quickly(actor):
    write(actor, "os")


def pack(actor):
    """Pack, search and save what there is to save."""
    import memplane

    while True:
        with memplane.open(actor.home) as plane:
            for _ in range(4):
                intent = actor.chance.choice(["deep", "fast", "orient"])
                plane.pack("herons and storks", budget=1500, intent=intent, save_report=True)
                plane.search("herons")
            actor.told("pack")


def purge(actor):
    """Record a word that stands nowhere else, and purge it."""
    home = ("--home", str(actor.home), "--json")
    while True:
        id_ = actor.next()
        word = f"secretword{id_.replace('.', 'x')}x"
        text = f"{word} " * actor.chance.choice([1, 3, 120_000])
        if actor.command("record", "--stdin", "--id", id_, *home, stdin=text.encode()) is None:
            continue
        if actor.command("purge", id_, *home) is not None:
            actor.told("purged", id=id_, word=word)


def take(actor):
    """Import files of ten lines, some of them twice."""
    while True:
        ids = [actor.next() for _ in range(10)]
        path = actor.folder / f"{actor.name}.jsonl"
        rows = [{"id": one, "text": f"imported {one} on cranes", "role": "user"} for one in ids]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for _ in range(actor.chance.choice([1, 2])):
            done = actor.command("import", "jsonl", str(path), "--home", str(actor.home), "--json")
            if done is not None:
                for one in ids:
                    actor.told("event", id=one, seq=None)


def hook(actor):
    """Tell hooks what an agent does."""
    usual = {"session_id": actor.name, "cwd": str(Path(actor.home).parent)}
    while True:
        prompt = f"hooked {actor.next()} on herons"
        for event in (
            {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "prompt_id": actor.next()},
            {"hook_event_name": "Stop", "last_assistant_message": f"done {actor.next()}"},
        ):
            said = json.dumps({**usual, **event}).encode()
            agent = actor.chance.choice(["claude-code", "codex"])
            actor.command("hook", agent, "--home", str(actor.home), stdin=said)
        actor.command("hook", "codex", "--catch-up", "--home", str(actor.home), stdin=said)
        actor.told("hook")


def leave(actor):
    """Leave events to the next writer."""
    while True:
        id_ = actor.next()
        argv = ("record", f"left {id_}", "--id", id_, "--no-wait", "--home", str(actor.home))
        if actor.command(*argv, "--json") is not None:
            actor.told("event", id=id_, seq=None)


def keep_house(actor):
    """Whatever a person may run, at random. Readers may see a line that is being written."""
    home = ("--home", str(actor.home))
    while True:
        argv, fine = actor.chance.choice([
            (("verify",), (0, 1)), (("repair",), (0,)), (("rebuild",), (0,)), (("doctor",), (0, 1)),
            (("export", str(actor.folder / f"{actor.name}.export"), "--replace"), (0,)),
            (("stats",), (0,)), (("log", "--limit", "3"), (0,)),
        ])  # fmt: skip
        actor.command(*argv, *home, fine=fine)
        actor.told("house")


ACTORS = (write, write_quickly, pack, purge, take, hook, leave, keep_house)


def started(home, folder, act, name, seed):
    """Fork an actor; it runs until it is killed."""
    child = os.fork()
    if not child:
        try:
            os.setsid()
            actor = Actor(home, folder, name, seed)
            act(actor)
        except BaseException:  # noqa: BLE001 - it is read by the test
            actor.fault(traceback.format_exc())
        finally:
            os._exit(3)
    return child


def serve(home, folder):
    """Answer `{"start": round}` with a line, and `{"kill": seed}` when all are dead."""
    for module in MODULES:
        importlib.import_module(module)
    running = []
    try:
        for line in sys.stdin:
            turn, killed = json.loads(line), 0
            if "start" in turn:
                name = turn["start"]
                running = [
                    started(home, folder, act, f"{act.__name__}{name}", name) for act in ACTORS
                ]
            else:
                killed = end(running, turn["kill"])
            sys.stdout.write(f"{killed}\n")
            sys.stdout.flush()
    finally:
        end(running, 0)


def end(running, seed):
    """Kill them in any order; how many there were."""
    count = len(running)
    random.Random(seed).shuffle(running)
    for child in running:
        with suppress(ProcessLookupError):  # it has no session yet
            os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
    while running:
        os.waitpid(running.pop(), 0)
    return count


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
