"""A machine that kills processes at any moment, while eight of them use one plane.

Who attacks: nobody with a plan: an out-of-memory killer, a person with Ctrl-C, a laptop's lid.
What they control: when each process ends. Two writers, one that packs, one that purges, one that
imports, an agent's hooks, one that does not wait, and one that keeps house, each killed with all
that it started.

What is promised: what was acknowledged is there once, in its place; what was purged is nowhere;
the log verifies; caches are what the log folds to; an export comes back; nothing raises.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from process_storm import ACTORS

import memplane
from memplane.log import verify_log

ACKS = (20, 100, 400, 1000)  # of a round, before it is killed: one of these


class Storm:
    """The processes of a storm, and what they were told."""

    def __init__(self, home, folder, env):
        self.home, self.folder = home, folder
        script = Path(__file__).with_name("process_storm.py")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        argv = [sys.executable, script, home, folder]
        self.process = subprocess.Popen(argv, env=env, cwd=folder, **pipes)
        self.kills = 0

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def acks(self):
        path = self.folder / "acks"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def lines(self):
        path = self.folder / "acks"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def faults(self):
        path = self.folder / "faults"
        return path.read_text().splitlines() if path.exists() else []

    def blow(self, turn, chance, most):
        """One round: all start, work until enough is acknowledged, and are killed."""
        enough = self.lines() + most
        self.ask(start=turn)
        while self.lines() < enough and not self.faults():
            time.sleep(0.02)
        time.sleep(chance.random() * 0.05)
        self.kills += self.ask(kill=turn)


@pytest.fixture
def storm(tmp_path):
    home = tmp_path / "work" / ".memplane"
    memplane.init(home).close()
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "PATH": ""}
    folder = tmp_path / "said"
    folder.mkdir()
    storm = Storm(home, folder, env)
    with storm.process:  # waits for it, and closes its pipes
        yield storm
        storm.ask(kill=0)
        storm.process.stdin.close()


def check(storm):
    """What of the promises does not hold, with the plane as the kill left it."""
    broken = list(storm.faults())
    acks = storm.acks()
    purged = {one["id"]: one["word"] for one in acks if one["what"] == "purged"}
    with memplane.open(storm.home) as plane:
        plane.record("after the storm")  # who writes next goes on with what was interrupted
        events = {event.id: event.seq for event in plane.events()}
        seqs = sorted([*events.values(), *tombstones(plane)])
        if seqs != list(range(1, len(seqs) + 1)):
            broken.append("seqs are not dense")
        twice = Counter(event.id for event in plane.events()).most_common(1)[0]
        broken += [f"twice: {twice}"] if twice[1] > 1 else []
        for one in acks:
            if one["what"] == "event" and one["id"] not in events:
                broken.append(f"lost: {one}")
            elif one["what"] == "event" and one["seq"] not in (None, events[one["id"]]):
                broken.append(f"not where it was acknowledged: {one}")
        broken += [f"purged and there: {id_}" for id_ in purged if id_ in events]
    report = verify_log(storm.home, plane.id)
    broken += [f"verify: {one}" for one in report.problems]
    words = [word.encode() for word in purged.values()]
    for path in storm.home.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        broken += [f"purged, and in {path.name}: {word}" for word in words if word in data]
    return broken


def tombstones(plane):
    """The seqs of what was purged."""
    head = plane.head().seq
    return [seq for seq in range(1, head + 1) if plane._log.purged(seq) is not None]


def check_whole(storm, tmp_path, number):
    """What is made from the log is what it folds to, and an export comes back."""
    broken = []
    with memplane.open(storm.home) as plane:
        broken += [f"differs from a rebuild: {one}" for one in plane.upkeep.differing()]
        asked = {"budget": 4000, "intent": "deep", "now": "2027-01-01T00:00:00Z"}
        before = plane.pack("herons and storks", **asked).text
        plane.upkeep.rebuild()
        if plane.pack("herons and storks", **asked).text != before:
            broken.append("a rebuild changes what is packed")
        export = tmp_path / f"export{number}"
        plane.upkeep.export(export)
        memplane.restore(export, tmp_path / f"back{number}")
        with memplane.open(tmp_path / f"back{number}") as back:
            if [event.id for event in back.events()] != [event.id for event in plane.events()]:
                broken.append("an export comes back otherwise")
            broken += [f"restored: {one}" for one in verify_log(back.home, back.id).problems]
    return broken


@pytest.mark.parametrize(
    ("rounds", "acks"),
    [
        (2, (20, 60)),
        pytest.param(40, ACKS, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_a_plane_outlives_the_kills_of_all_who_use_it(storm, tmp_path, rounds, acks):
    chance = random.Random(f"storm {rounds}")
    for turn in range(rounds):
        storm.blow(turn, chance, chance.choice(acks))
        broken = check(storm)
        if turn % 10 == 9 or turn == rounds - 1:
            broken += check_whole(storm, tmp_path, turn)
        assert not broken, f"round {turn}: " + "\n".join(broken[:20])
    told = storm.acks()
    assert storm.kills == rounds * len(ACTORS)
    assert len(told) >= rounds * min(acks)
    if rounds > 10:
        assert {one["what"] for one in told} == {"event", "pack", "purged", "hook", "house"}
