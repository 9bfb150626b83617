"""PostgreSQL is killed while four writers on three machines record: see `checks_cluster`."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders_postgres import PostgresProcess
from checks_cluster import Machines, killed

import memplane
from memplane.errors import DivergedError, SharedLogError
from memplane.shared.servers import CONNECTIONS_MAX, PostgresSharedLog
from memplane.wiring import init_shared

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server():
    made = PostgresProcess()
    yield made
    made.close()


def test_nothing_is_lost_or_doubled_while_the_server_is_killed(tmp_path, server):
    run_cluster(tmp_path, server, each=200, kills=2, packs=20)


@pytest.mark.long
def test_nothing_is_lost_or_doubled_in_fifty_thousand_events(tmp_path, server):
    run_cluster(tmp_path, server, each=12_500, kills=10, packs=200)


def run_cluster(tmp_path, server, *, each, kills, packs):
    environment = {"MEMPLANE_SHARED": server.address}
    with Machines(tmp_path, f"fleet{each}", environment) as machines:
        follower = machines.follow(machines.homes[1])
        machines.start(each)
        for n in range(1, kills + 1):
            machines.wait_for(n * 4 * each // (kills + 2))
            server.kill()
            killed(follower)
            follower = machines.follow(machines.homes[1])
        machines.end()
        killed(follower)
        assert machines.check(packs)


def test_entries_that_the_server_lost_are_noticed_and_refilled(tmp_path, server):
    environment = {"MEMPLANE_SHARED": server.address}
    homes = [tmp_path / "a", tmp_path / "b"]
    for at, home in enumerate(homes):
        init_shared(home, "team", join=at > 0, environment=environment).close()
    with (
        memplane.open(homes[0], environment=environment) as a,
        memplane.open(homes[1], environment=environment) as b,
    ):
        a.record_many([{"text": f"note {n}", "id": f"n{n}"} for n in range(20)])
        b.context.log.exchange()
        # As a copy of an hour ago would have it.
        server.ask("DELETE FROM memplane.entries WHERE position > 11 AND name = 'team'")
        server.ask("UPDATE memplane.heads SET position = 11 WHERE name = 'team'")
        for plane in (a, b):
            with pytest.raises(DivergedError):
                plane.context.log.exchange()
        assert b.context.log.refill().published == 10
        a.context.log.exchange()
        assert [a.context.log.find(f"n{n}") is not None for n in range(20)] == [True] * 20
    logs = [(home / "log" / "00000001.jsonl").read_bytes() for home in homes]
    assert logs[0] == logs[1]


def test_a_purged_text_is_in_no_table_and_after_a_vacuum_in_no_file(tmp_path, server):
    environment = {"MEMPLANE_SHARED": server.address}
    with init_shared(tmp_path / "a", "purged", environment=environment) as a:
        a.record("the lighthouse keeper signs as Zephyrine", id="x1")
        a.record("the other note", id="x2")
        a.upkeep.purge("x1")
    payloads = server.ask("SELECT payload FROM memplane.entries")
    assert not any(b"Zephyrine" in payload for [payload] in payloads)
    server.ask("VACUUM FULL memplane.entries")
    server.ask("CHECKPOINT")
    for folder in (tmp_path / "a", server.data / "base"):
        for path in folder.rglob("*"):
            assert path.is_dir() or b"Zephyrine" not in path.read_bytes(), path


def test_many_logs_of_one_process_share_a_few_connections_and_the_last_one_closes_them(server):
    def connected():
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memplane'"
        return server.ask(asked)[0][0]

    before = connected()
    logs = [PostgresSharedLog(server.address, f"many{n}") for n in range(40)]
    with ThreadPoolExecutor(40) as threads:
        assert list(threads.map(lambda log: log.publish([("a", b"one")]), logs)) == [[1]] * 40
    assert 0 < connected() - before <= CONNECTIONS_MAX
    with ThreadPoolExecutor(1) as threads:  # who waits keeps none from the others
        waiting = threads.submit(logs[0].wait, 1, 30)
        for log in logs[1:20]:
            log.read(0, 10)
        logs[0].publish([("b", b"two")])
        assert waiting.result()
    for log in logs[1:]:
        log.close()
    assert [one.payload for one in logs[0].read(0, 10)] == [b"one", b"two"]
    logs[0].close()
    for _ in range(100):  # the server notices a moment later
        if connected() == before:
            break
        time.sleep(0.05)
    assert connected() == before


def test_without_an_address_or_a_server_the_error_says_what_to_do(tmp_path):
    with pytest.raises(SharedLogError, match="MEMPLANE_SHARED is not set"):
        init_shared(tmp_path / "a", "team", environment={})
    with pytest.raises(SharedLogError, match="PostgreSQL"):
        init_shared(
            tmp_path / "a", "team", environment={"MEMPLANE_SHARED": "postgresql://127.0.0.1:1/x"}
        )
    assert not (tmp_path / "a").exists()
