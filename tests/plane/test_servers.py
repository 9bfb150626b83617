"""Two long-lived servers, a command line and a projector on one plane, all at once."""

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import count

import process_server as server
import pytest
from process_children import Child

import memplane
from memplane.log import verify_log
from tests.process_copies import import_everything

PURGES = 6
COMMANDS = (
    ("record", "said in a shell", "--no-wait"),
    ("pack", "which heron?"),
    ("record", "said in a shell", "--session", "shell"),
    ("search", "heron"),
    ("verify",),
)


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "p") as plane:
        home = plane.home
    budgets = home / "policies" / "budgets.yaml"
    text, found = re.subn(r"(?m)^counter:.*$", "counter: len4", budgets.read_text())
    assert found == 1
    budgets.write_text(text)
    return home


class World:
    """The processes of one test, and what they said."""

    def __init__(self, home, folder):
        self.home, self.folder = home, folder
        self.running, self.said = [], []

    def start(self, name, run, *arguments):
        self.running.append(Child(run, *arguments, name=name, said=self.folder))
        return self.running[-1]

    def server(self, name, events, durability="sync"):
        return self.start(name, server.main, self.home, name, events, durability)

    def projector(self):
        return self.start("projector", server.project, self.home)

    def command(self, number):
        """Run one command to its end; it must not fail."""
        argv = [*COMMANDS[number % len(COMMANDS)], "--home", str(self.home), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "memplane", *argv], capture_output=True, check=False, timeout=120
        )
        # Lines that are being written while it reads may look torn to `verify`.
        assert done.returncode == 0 or argv[0] == "verify", (argv, done.stderr.decode())
        if argv[0] == "record":
            answer = json.loads(done.stdout)
            spooled = answer["seq"] is None
            self.said.append(["spooled", answer["id"]] if spooled else
                             ["receipt", answer["seq"], answer["id"]])  # fmt: skip

    def wait(self, *processes):
        for process in processes:
            assert process.wait() == 0, process.err.read_text()

    def stop(self):
        """Kill what still runs, and read what was said whole."""
        for process in self.running:
            process.kill()
            self.said += map(json.loads, process.lines())
        self.running = []


@pytest.fixture
def world(home, tmp_path):
    import_everything()  # or threads of a child would
    world = World(home, tmp_path)
    yield world
    world.stop()


def check(world, *, packs=20):
    """Nothing lost, nothing doubled, every receipt and every pack true, the caches right."""
    with memplane.open(world.home) as plane:
        plane.flush()  # takes in what servers that were killed have left, however much that is
        assert (plane.upkeep.waiting, plane.upkeep.set_aside) == (0, ())
        ids = {event.seq: event.id for event in plane.events()}
        kept = Counter(ids.values())
        assert list(ids) == list(range(1, len(ids) + 1)), "seq is not dense"
        assert kept.most_common(1)[0][1] == 1, "an id is there twice"
        for what, *said in world.said:
            if what in ("receipt", "hit"):
                assert ids[said[0]] == said[1], f"{what} {said} is not true"
            elif what == "spooled":
                assert kept[said[0]] == 1, f"{said[0]} was spooled and is lost"
        assert plane.upkeep.differing() == []
    report = verify_log(world.home, plane.id)
    assert report.ok, report.problems
    assert not list((world.home / "log").glob("quarantine/spool-*"))
    told = [said for what, *said in world.said if what == "pack"]
    assert all(tokens <= request["budget"] for request, tokens, _ in told)
    chosen = random.Random(7).sample(told, min(packs, len(told)))
    with memplane.open(world.home, read_only=True) as fresh:
        for request, tokens, hashed in sorted(chosen, key=lambda one: one[0]["as_of"]):
            assert server.packed(fresh.pack(**request)) == [tokens, hashed], request
    return report


@pytest.mark.parametrize("turns", [20, pytest.param(30, marks=pytest.mark.long)])
def test_two_servers_a_shell_and_a_projector_lose_double_and_mix_up_nothing(world, turns):
    servers = [world.server("s", turns), world.server("t", turns, "os")]
    world.projector()
    for number in count():
        world.command(number)
        if number >= 5 and any(server.poll() is not None for server in servers):
            break
    world.wait(*servers)
    world.stop()
    report = check(world)
    assert report.segments > turns // 15
    said = Counter(what for what, *_ in world.said)
    assert said["receipt"] + said["spooled"] >= 2 * 3 * turns
    assert 3 * said["pack"] > 2 * turns


def packs(process):
    return sum(line.startswith('["pack"') for line in process.lines())


@pytest.mark.parametrize(
    ("seed", "turns"), [(0, 2), *(pytest.param(n, 3, marks=pytest.mark.long) for n in (0, 1))]
)
def test_servers_that_are_killed_leave_nothing_to_mend_by_hand(world, seed, turns):
    chance = random.Random(seed)
    for turn in range(turns):
        names = [f"s{turn}", f"t{turn}"]
        for name in names:
            world.server(name, 100_000, chance.choice(["sync", "os"]))
        enough = chance.randrange(10, 40)
        while any(packs(process) < 1 for process in world.running) or (
            sum(map(packs, world.running)) < enough
        ):
            assert all(process.poll() is None for process in world.running)
            time.sleep(0.01)
        world.stop()
        check(world, packs=6)


def told_so_far(world):
    """The ids that were acknowledged and not purged, with their seqs."""
    said = [json.loads(line) for process in world.running for line in process.lines()]
    return {id_: seq for what, *rest in said if what == "receipt" for seq, id_ in [rest]}


def test_purges_and_exports_among_servers_erase_what_they_name_and_nothing_else(world, tmp_path):
    chance = random.Random(5)
    servers = [world.server("s", 40), world.server("t", 40, "os")]
    gone, exports = {}, []
    while not gone or any(server.poll() is None for server in servers):
        known = {id_: seq for id_, seq in told_so_far(world).items() if id_ not in gone}
        turns = sorted(id_ for id_ in known if int(id_.split(".")[1]) % 4 == 0)
        if not turns or len(gone) == PURGES:
            time.sleep(0.01)
            continue
        named = chance.choice(turns)
        with memplane.open(world.home) as plane:
            text = plane.event(named).text
            plane.upkeep.purge(named)
            gone[named] = (known[named], text)
            exports.append(tmp_path / f"export{len(exports)}.jsonl")
            plane.upkeep.export(exports[-1])
    world.wait(*servers)
    world.stop()
    with memplane.open(world.home) as plane:
        ids = {event.seq: event.id for event in plane.events()}
        missing = set(range(1, max(ids) + 1)) - set(ids)
        assert missing == {seq for seq, _ in gone.values()}
        assert max(Counter(ids.values()).values()) == 1
        for what, *said in world.said:
            if what == "receipt" and said[1] not in gone:
                assert ids[said[0]] == said[1]
        assert plane.upkeep.differing() == []
        report = verify_log(plane.home, plane.id)
        assert report.ok, report.problems
    for file in (path for path in world.home.rglob("*") if path.is_file()):
        raw = file.read_bytes()
        assert [text for _, text in gone.values() if text.encode() in raw] == [], file
    # What was exported holds what was purged up to then, and stands by itself.
    for number, export in enumerate((exports[0], exports[-1])):
        memplane.restore(export, tmp_path / f"restored{number}")
        with memplane.open(tmp_path / f"restored{number}") as again:
            assert verify_log(again.home, again.id).ok
            assert again.upkeep.differing() == []
