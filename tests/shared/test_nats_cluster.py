"""Three NATS servers, machines that follow them, and servers that are killed meanwhile."""

import shutil
import signal
import time
from contextlib import closing
from functools import partial

import pytest
from builders_machines import PLANE, draft, follower, written
from builders_nats import CLUSTER, Node, free_port, new_folder, program
from checks_cluster import Machines, killed

from memplane.errors import SharedLogError
from memplane.shared.apply import beginning
from memplane.shared.servers import NatsSharedLog

pytestmark = [
    pytest.mark.servers,
    pytest.mark.filterwarnings("ignore::memplane.shared.follower.SharedLogWarning"),
]


class Cluster:
    """Three servers with one stream."""

    def __init__(self):
        program()
        self.folder = new_folder()
        routes = [free_port() for _ in range(3)]
        joined = ", ".join(f'"nats://127.0.0.1:{one}"' for one in routes)
        self.nodes = {
            f"n{n}": Node(
                self.folder / f"n{n}", f"n{n}", free_port(),
                CLUSTER.format(port=route, routes=joined),
            )
            for n, route in enumerate(routes)
        }  # fmt: skip
        self.logs = []
        for node in self.nodes.values():
            node.start()
        self.until(lambda log: log.publish([beginning(PLANE)], expected=0))

    @property
    def address(self):
        return "nats://" + ",".join(f"127.0.0.1:{one.port}" for one in self.nodes.values())

    def opened(self, address=None):
        self.logs.append(NatsSharedLog(address or self.address, "test"))
        return self.logs[-1]

    def until(self, work, seconds=120):
        """Do it by a new connection, again while the servers elect a leader."""
        end = time.monotonic() + seconds
        while True:
            try:
                with closing(NatsSharedLog(self.address, "test")) as log:
                    return work(log)
            except SharedLogError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def said(self, name):
        """What the leader of the stream says of its cluster."""
        work = partial(self.asked, f"STREAM.INFO.memplane-{name}")
        return self.until(work)["cluster"]

    @staticmethod
    def asked(subject, log):
        return log._connector.run(lambda line: line.api(subject), 5)

    def settled(self, name="test", seconds=120):
        """Wait until all replicas have what the leader has; the leader's name."""
        end = time.monotonic() + seconds
        while True:
            found = self.said(name)
            if all(one.get("current") and not one.get("offline") for one in found["replicas"]):
                return found["leader"]
            assert time.monotonic() < end, found
            time.sleep(0.2)

    def holding(self, text):
        """The servers' files that hold a text."""
        return [
            str(path.relative_to(self.folder))
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and text in path.read_bytes()
        ]

    def close(self):
        for log in self.logs:
            log.close()
        for node in self.nodes.values():
            node.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def machine(cluster, home, address=None, **options):
    return follower(
        home, cluster.opened(address), lock_wait_ms_max=60_000, catch_up_ms=20_000, **options
    )


def met(*logs, seconds=120):
    """All publish their outbox and read what came of it."""
    end = time.monotonic() + seconds
    while True:
        try:
            for _ in range(2):
                for log in logs:
                    log.exchange()
        except SharedLogError:
            assert time.monotonic() < end
            time.sleep(0.2)
            continue
        if not any(log.status().waiting for log in logs):
            return


def ids(log):
    return [line.event.id for line in log.read() if line.event.kind != "segment"]


def test_nothing_is_lost_or_doubled_while_leaders_and_a_follower_are_killed(cluster, tmp_path):
    run_cluster(cluster, tmp_path, each=500, kills=3, packs=20)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled_in_fifty_thousand_events(cluster, tmp_path):
    run_cluster(cluster, tmp_path, each=12_500, kills=10, packs=200)


def run_cluster(cluster, tmp_path, *, each, kills, packs):
    """Four writers on three machines; leaders are killed, and a process that only follows is."""
    leaders = set()
    with Machines(tmp_path, "fleet", {"MEMPLANE_SHARED": cluster.address}) as machines:
        process = machines.follow(machines.homes[1])
        machines.start(each)
        for n in range(1, kills + 1):
            machines.wait_for(n * 4 * each // (kills + 2))
            leader = cluster.settled("fleet")
            leaders.add(leader)
            cluster.nodes[leader].kill()
            killed(process)
            time.sleep(1)  # so that another leader is elected
            cluster.nodes[leader].start()
            process = machines.follow(machines.homes[1])
        machines.end()
        killed(process)
        cluster.settled("fleet")
        assert machines.check(packs)
    assert len(leaders) > 1


def test_a_machine_that_is_cut_off_records_to_its_outbox_and_all_meet_afterwards(cluster, tmp_path):
    cluster.settled()
    cut = cluster.nodes["n1"]
    with (
        closing(machine(cluster, tmp_path / "a", f"nats://127.0.0.1:{cut.port}")) as a,
        closing(machine(cluster, tmp_path / "b")) as b,
    ):
        a.append([draft("a1")])
        b.append([draft("b1")])
        cut.process.send_signal(signal.SIGSTOP)
        try:
            [kept] = a.append([draft("a2", "said on the train")])
            assert kept.seq == 0
            end = time.monotonic() + 60
            while not b.append([draft(f"b2-{time.monotonic()}")])[0].seq:
                assert time.monotonic() < end
        finally:
            cut.process.send_signal(signal.SIGCONT)
        cluster.settled()
        met(a, b)
        assert ids(a) == ids(b)
        assert ids(a).count("a2") == 1
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_a_purge_leaves_the_text_in_no_log_and_soon_in_no_file_of_the_servers(cluster, tmp_path):
    secret = b"the secret of the mountain"
    with (
        closing(machine(cluster, tmp_path / "a")) as a,
        closing(machine(cluster, tmp_path / "b")) as b,
    ):
        a.append([draft("m1", "keep this"), draft("m2", secret.decode())])
        b.append([draft("m3", "and this")])
        assert len(cluster.holding(secret)) >= 3
        said = {"purge": {"seqs": [3], "ids": ["m2"], "documents": [1]}}
        a.erase([draft("p", "", kind="purge", data=said)], {3: "m2"}, [])
        b.exchange()
    with closing(machine(cluster, tmp_path / "c")) as c:
        c.exchange()
        assert ids(c) == ["m1", "m3", "p"]
    assert written(tmp_path / "a") == written(tmp_path / "b") == written(tmp_path / "c")
    for home in "abc":
        for path in (tmp_path / home).rglob("*"):
            assert path.is_dir() or secret not in path.read_bytes(), path
    # What servers keep of it is their Raft log: a server that is stopped while it follows writes
    # its own anew, and each does so every two minutes.
    assert not [one for one in cluster.holding(secret) if "$SYS" not in one]
    for name, node in cluster.nodes.items():
        if cluster.settled() == name:
            cluster.until(partial(cluster.asked, "STREAM.LEADER.STEPDOWN.memplane-test"))
            cluster.settled()
        node.stop()
        node.start()
    end = time.monotonic() + 240
    while cluster.holding(secret):
        assert time.monotonic() < end
        time.sleep(1)
