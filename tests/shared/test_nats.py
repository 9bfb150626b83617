"""What NATS alone does: its addresses, limits and settings, repeats inside a batch, lost servers."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from builders_machines import PLANE, draft, follower, written
from builders_nats import NatsServer, free_port

from memplane.errors import (
    ConfigurationError,
    ConflictError,
    DivergedError,
    InputError,
    SharedLogError,
)
from memplane.shared.apply import beginning
from memplane.shared.servers import Address, NatsSharedLog, parsed_address

servers = pytest.mark.servers

ACCOUNTS = """
accounts {
  SYS {
    users: [{ user: admin, password: other }]
    exports: [{ service: "$SYS.REQ.SERVER.PING.JSZ", response: stream }]
  }
  APP {
    jetstream: enabled
    users: [{ user: u, password: "p@:/" }]
    imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } }]
  }
}
system_account: SYS
"""


def test_an_address_names_the_servers_and_who_asks():
    assert parsed_address("nats://host") == Address("nats", ("host:4222",), "", "")
    assert parsed_address("tls://u:p%40%2F@a:1,b:2,nats://[::1]:3/") == Address(
        "tls", ("a:1", "b:2", "[::1]:3"), "u", "p@/"
    )
    assert parsed_address("nats://token@a,b").user == "token"


@pytest.mark.parametrize("address", [
    "", "host", "http://host", "nats://", "nats://u:secret@", "nats://u:secret@a:x",
    "nats://u:secret@a b", "nats://u:secret@a:99999", "nats://u:secret@a,,b",
])  # fmt: skip
def test_another_address_is_refused_and_not_repeated(address):
    with pytest.raises(ConfigurationError) as found:
        parsed_address(address)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a*", "ü", "x" * 65, "../x"])
def test_a_name_that_no_stream_may_have_is_refused(name):
    pytest.importorskip("nats")
    with pytest.raises(ConfigurationError):
        NatsSharedLog("nats://host", name)


def test_without_the_client_its_extra_is_named():
    code = (
        "import sys; sys.modules['nats'] = None\n"
        "from memplane.shared.servers import NatsSharedLog\n"
        "from memplane.errors import MissingExtraError\n"
        "try: NatsSharedLog('nats://host', 'x')\n"
        "except MissingExtraError as error: print(error.extra)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "nats\n"


def test_a_server_that_is_not_there_is_said_within_seconds():
    pytest.importorskip("nats")
    with closing(NatsSharedLog(f"nats://u:secret@127.0.0.1:{free_port()}", "x")) as log:
        with pytest.raises(SharedLogError) as found:
            log.head()
        assert not found.value.unsure
        assert "secret" not in str(found.value)


@pytest.fixture
def server(request):
    made = NatsServer(request)
    yield made
    made.close()


@servers
def test_a_batch_with_an_id_that_was_published_before_is_stored_whole(server):
    log = server.opened()
    log.publish([("a", b"one")])
    log.publish([("b", b"two"), ("c", b"three")])
    places = log.publish([("x", b"four"), ("b", b"two"), ("a", b"one")])
    found = log.read(0, 10)
    assert [one.position for one in found][-3:] == places
    assert [one.payload for one in found][-3:] == [b"four", b"two", b"one"]
    # One entry alone is answered with where it stands.
    assert log.publish([("a", b"one")]) == [1]
    assert log.head() == places[-1]


@servers
def test_a_repeat_at_another_position_than_expected_is_a_conflict(server):
    log = server.opened()
    log.publish([("a", b"one"), ("b", b"two")])
    for entries in ([("a", b"one")], [("a", b"one"), ("c", b"three")]):
        with pytest.raises(ConflictError) as found:
            log.publish(entries, expected=1)
        assert found.value.seq == 2
    assert log.head() == 2


@servers
def test_what_the_server_does_not_take_is_refused_before_anything_is_stored(server):
    log = server.opened()
    with pytest.raises(InputError, match="max_payload"):
        log.publish([("a", b"one"), ("b", b"x" * 2_000_000)])
    with pytest.raises(InputError, match="max_batch_size"):
        log.publish([(str(n), b"x") for n in range(1_001)])
    assert log.head() == 0
    assert log.publish([(f"id {n} ü\n", b"x") for n in range(1_000)])[-1] == 1_000


@servers
def test_gaps_without_a_stone_are_passed_over_and_those_with_one_are_filled(server):
    log = server.opened()
    places = log.publish([(str(n), b"text %d" % n) for n in range(8)])
    stone = b'{"format":1,"stone":{}}'
    log.erase({places[0]: stone, places[1]: stone, places[6]: stone, places[7]: stone})
    # By somebody else, without a stone.
    for seq in (3, 4):
        log._connector.run(lambda line, seq=seq: log._deleted(line, seq), 5)
    found = log.read(0, 10)
    assert [one.position for one in found] == [1, 2, 5, 6, 7, 8]
    assert [one.payload for one in found] == [stone, stone, b"text 4", b"text 5", stone, stone]
    assert [one.position for one in log.read(0, 3)] == [1, 2, 5]
    assert [one.position for one in log.read(6, 1)] == [7]
    assert server.opened().read(6, 10) == found[4:]
    assert log.head() == 8


@servers
def test_a_purge_that_was_cut_short_is_finished_by_the_next(server):
    log = server.opened()
    log.publish([("a", b"secret"), ("b", b"kept")])
    first, other = b'{"format":1,"stone":{"id":"a"}}', b'{"format":1,"stone":{}}'
    with suppress(ZeroDivisionError):
        log._deleted = lambda *_: 1 / 0
        log.erase({1: first})
    del log._deleted
    assert log.read(0, 10)[0].payload == b"secret"
    log.erase({1: first})
    log.erase({1: other})
    assert [one.payload for one in log.read(0, 10)] == [first, b"kept"]


@servers
def test_of_what_was_erased_a_server_alone_keeps_nothing_in_its_files(server):
    log = server.opened()
    log.publish([("a", b"the secret of the mountain"), ("b", b"the secret of the river")])
    log.publish([("c", b"the secret of the sea")])
    log.erase(dict.fromkeys((1, 2, 3), b'{"format":1,"stone":{}}'))
    server.node.stop()
    files = [path for path in server.node.store.rglob("*") if path.is_file()]
    assert not [path for path in files if b"the secret of" in path.read_bytes()]


@servers
def test_settings_that_may_lose_what_was_acknowledged_are_said(server):
    log = server.opened()
    said = " ".join(log.faults())
    assert "1 of 3 replicas" in said
    assert "sync_interval" in said
    assert "cannot be checked from here" in said
    limits = {"max_age": 3600 * 10**9, "storage": "memory", "discard": "old", "deny_purge": False}

    async def made(line):
        await log._create(line, "memplane-other", "memplane-other", {
            "num_replicas": 1, "allow_atomic": True, **limits,
        })  # fmt: skip

    log._connector.run(made, 5)
    said = " ".join(server.opened("other").faults())
    for word in ("max_age", "storage memory", "deny_purge", "oldest"):
        assert word in said


@servers
def test_a_stream_that_takes_no_batches_is_refused(server):
    log = server.opened()

    async def made(line):
        await log._create(line, "memplane-old", "memplane-old", {"num_replicas": 1})

    log._connector.run(made, 5)
    with pytest.raises(ConfigurationError, match="allow_atomic"):
        server.opened("old").head()


@servers
@pytest.mark.parametrize("sync", ["always", "2m"])
def test_where_the_account_may_ask_for_it_the_servers_sync_setting_is_checked(request, sync):
    made = NatsServer(request, ACCOUNTS, sync)
    try:
        address = made.address.replace("nats://", "nats://u:p%40%3A%2F@")
        with closing(NatsSharedLog(address, "x")) as log:
            said = [one for one in log.faults() if "sync_interval" in one]
        assert [one.split(":")[0] for one in said] == ([] if sync == "always" else ["server n1"])
        with (
            closing(NatsSharedLog(made.address.replace("nats://", "nats://u:wrong@"), "x")) as log,
            pytest.raises(SharedLogError, match="Authorization"),
        ):
            log.head()
    finally:
        made.close()


@servers
def test_a_server_that_ends_or_stands_still_is_noticed_and_found_again(server):
    log, node = server.opened(), server.node
    log.publish([("a", b"one")])
    node.kill()
    with pytest.raises(SharedLogError):
        log.publish([("b", b"two")])
    node.start()
    log.publish([("b", b"two")])
    node.process.send_signal(signal.SIGSTOP)
    os.waitpid(node.process.pid, os.WUNTRACED)  # it may answer for a moment yet
    try:
        with pytest.raises(SharedLogError) as found:
            log.publish([("c", b"three"), ("d", b"four")])
        assert found.value.unsure
    finally:
        node.process.send_signal(signal.SIGCONT)
    log.publish([("c", b"three"), ("d", b"four")])
    found = [one.payload for one in log.read(0, 10)]
    assert sorted({*found}) == [b"four", b"one", b"three", b"two"]


@servers
def test_who_waits_is_woken_by_another_connection_after_a_reconnect(server):
    log, other = server.opened(), server.opened()
    assert not log.wait(0, 0.01)
    server.node.stop()
    server.node.start()
    with suppress(SharedLogError):  # the connection that was lost
        log.wait(0, 0.01)
    other.publish([("a", b"one")])
    assert log.wait(0, 20)


@servers
def test_an_engine_that_was_restored_from_an_older_copy_is_noticed_and_refilled(server, tmp_path):
    server.opened().publish([beginning(PLANE)])
    with (
        closing(follower(tmp_path / "a", server.opened(), catch_up_ms=20_000)) as a,
        closing(follower(tmp_path / "b", server.opened(), catch_up_ms=20_000)) as b,
    ):
        a.append([draft(f"m{n}") for n in range(5)])
        server.node.stop()
        shutil.copytree(server.node.store, tmp_path / "older")
        server.node.start()
        for log in (a, b):
            met(log)
        a.append([draft(f"n{n}") for n in range(5)])
        b.exchange()
        before = [written(tmp_path / name) for name in "ab"]
        assert before[0] == before[1]
        server.node.kill()
        shutil.rmtree(server.node.store)
        shutil.copytree(tmp_path / "older", server.node.store)
        server.node.start()
        for log in (a, b):
            with pytest.raises(DivergedError) as found:
                met(log)
            assert found.value.seq == 6
        assert [written(tmp_path / name) for name in "ab"] == before
        assert a.refill().published == 5
        met(b)
        assert [written(tmp_path / name) for name in "ab"] == before


def met(log):
    """Exchange, by a new connection where the one there was is lost."""
    for _ in range(5):
        try:
            log.exchange()
        except DivergedError:
            raise
        except SharedLogError:
            continue
        return
    log.exchange()
