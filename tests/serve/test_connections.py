"""Clients that are slow, silent, too many or too large: bounded, and nobody else waits for them."""

import contextlib
import resource
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memplane.serve import web
from memplane.wiring import init


def connected(served, **how):
    return socket.create_connection(("127.0.0.1", served.port), timeout=30, **how)


def head(served, method, path, *lines, token="ann"):
    said = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", *lines]
    if token is not None:
        said.append(f"Authorization: Bearer {served.secrets[token]}")
    return "\r\n".join([*said, "", ""]).encode()


def descriptors(served):
    return sum(1 for _ in Path(f"/proc/{served.process.pid}/fd").iterdir())


def healthy(served):
    return served.ask("GET", "/health", token=None)[0] == 200


def read_to_the_end(client):
    """The bytes until the server closes; None where it has not."""
    got = bytearray()
    try:
        while part := client.recv(65_536):
            got += part
    except ConnectionError:
        pass
    except TimeoutError:
        return None
    return bytes(got)


def flood(served, count):
    """That many connections: one in three silent, one with half a head, one that asks."""
    with contextlib.ExitStack() as stack:
        clients = []
        for n in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", served.port))
            clients.append(client)
            if n % 50 == 0:
                assert healthy(served)
        writable = selectors.DefaultSelector()
        stack.callback(writable.close)
        for client in clients:
            writable.register(client, selectors.EVENT_WRITE)
        for n, (key, _) in enumerate(writable.select(5)):
            with contextlib.suppress(OSError):
                if n % 3 == 1:
                    key.fileobj.send(b"POST /v1/record HTTP/1.1\r\nHo")
                elif n % 3 == 2:
                    key.fileobj.send(head(served, "GET", "/metrics"))
        most = 0
        for n in range(20):
            assert healthy(served)
            status, _ = served.ask("POST", "/v1/record", {"text": f"in the flood {n}"})
            assert status == 200
            most = max(most, descriptors(served))
    return most


def holds_a_flood(start, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        pytest.skip(f"{hard} descriptors are too few for {count} connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 500), hard))
    try:
        with start("--connections", "64", "--rate", "5000", "--open-planes", "4") as served:
            before = descriptors(served)
            most = flood(served, count)
            assert most <= before + 64 + 8 + 4 * web.DESCRIPTORS_OF_PLANE
            for n in range(20):
                assert served.ask("POST", "/v1/record", {"text": f"after it {n}"})[0] == 200
            assert descriptors(served) < before + 40
            assert served.end() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_300_connections_at_once_are_bounded_and_keep_nobody_out(start):
    holds_a_flood(start, 300)


@pytest.mark.long
@pytest.mark.servers
def test_2_000_connections_at_once_are_bounded_and_keep_nobody_out(start):
    holds_a_flood(start, 2_000)


def test_of_one_address_there_are_no_more_than_so_many(start):
    with start("--connections-of-address", "3") as served, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(served)) for _ in range(3)]
        with connected(served) as fourth:
            fourth.settimeout(5)
            assert read_to_the_end(fourth) == b""
        clients[0].close()
        time.sleep(0.2)
        assert healthy(served)


def test_who_takes_no_answers_is_cut_off_and_holds_up_nobody(start):
    """200 answers of 90 KB are asked for in one breath, and none is read."""
    with start("--rate", "5000", times="WRITE_S=1.5") as served:
        _, stored = served.ask("POST", "/v1/record", {"text": "lamp " * 18_000, "kind": "fact"})
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
            slow.settimeout(30)
            slow.connect(("127.0.0.1", served.port))
            asked = head(served, "GET", f"/v1/get?id={stored['id']}")
            slow.sendall(asked * 200)
            for n in range(10):
                assert served.ask("POST", "/v1/record", {"text": f"meanwhile {n}"})[0] == 200
            time.sleep(3)
            got = read_to_the_end(slow)
        assert got is not None
        assert len(got) < 20 * 90_000
        _, figures, _ = served.raw("GET", "/metrics")
        assert b"memplane_requests_running 1\n" in figures


def test_who_takes_an_answer_slowly_gets_it_whole(start):
    with start() as served:
        _, stored = served.ask("POST", "/v1/record", {"text": "lamp " * 18_000, "kind": "fact"})
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
            slow.settimeout(30)
            slow.connect(("127.0.0.1", served.port))
            path = f"/v1/get?id={stored['id']}"
            slow.sendall(head(served, "GET", path, "Connection: close"))
            got = bytearray()
            while part := slow.recv(4_096):
                got += part
                if len(got) % 40_960 < 4_096:
                    time.sleep(0.1)
        assert got.count(b"lamp") >= 18_000


def pushed(client, body, most):
    """How many bytes of a body went out before the connection was closed."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            sent += client.send(body)
    return sent


@pytest.mark.parametrize("token", ["ann", None])
@pytest.mark.parametrize("path", ["/v1/record", "/mcp", "/nowhere"])
def test_100_mb_that_are_announced_are_refused_and_not_read(served, token, path):
    with connected(served) as client:
        client.sendall(head(served, "POST", path, f"Content-Length: {100 << 20}", token=token))
        assert b" 413 " in client.recv(4_096)
        client.settimeout(5)
        assert pushed(client, b"x" * 65_536, 100 << 20) < 16 << 20


@pytest.mark.parametrize("token", ["ann", None])
def test_who_sends_the_whole_of_it_first_reads_that_it_was_too_large(served, token):
    for _ in range(5):
        assert served.raw("POST", "/v1/record", b"x" * (2 << 20), token)[0] == 413


@pytest.mark.parametrize("token", ["ann", None])
def test_100_mb_that_are_not_announced_are_cut_off(served, token):
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with connected(served) as client:
        client.sendall(
            head(served, "POST", "/v1/record", "Transfer-Encoding: chunked", token=token)
        )
        began = time.monotonic()
        sent = 0
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                sent += client.send(chunk)
                time.sleep(0.02)  # slowly, for as long as it is let
        assert time.monotonic() - began < 15
        assert sent < 100 << 20
    assert healthy(served)


def test_who_waits_to_be_told_to_go_on_is_told_that_it_is_too_large(served):
    with connected(served) as client:
        lines = (f"Content-Length: {100 << 20}", "Expect: 100-continue")
        client.sendall(head(served, "POST", "/v1/record", *lines))
        answer = client.recv(4_096)
        assert b" 413 " in answer
        assert b" 100 " not in answer


def test_a_silent_connection_and_half_a_head_are_cut_off(start):
    with start(times="HEAD_S=1") as served:
        for said in (b"", b"POST /v1/record HTTP/1.1\r\nHost: a", b"\r\n\r\n"):
            with connected(served) as client:
                client.sendall(said)
                client.settimeout(10)
                assert read_to_the_end(client) is not None
        with connected(served) as client:  # a byte now and then is no head either
            began = time.monotonic()
            with contextlib.suppress(OSError):
                for letter in b"GET /health HTTP/1.1\r\nHost: " + b"a" * 200:
                    client.sendall(bytes([letter]))
                    time.sleep(0.1)
                    assert time.monotonic() - began < 10
        assert healthy(served)


def test_no_more_planes_and_descriptors_than_so_many(start):
    with start("--open-planes", "2", "--rate", "5000") as served:
        for n in range(6):
            init(served.planes / f"dock{n}", durability="os").close()
        served.admit("many", [f"dock{n}" for n in range(6)])
        before, most, opened = descriptors(served), 0, []
        for turn in range(18):
            value = {"text": f"turn {turn}", "plane": f"dock{turn % 6}"}
            assert served.ask("POST", "/v1/record", value, "many")[0] == 200
            value = {"query": "turn", "plane": f"dock{turn % 6}"}
            assert served.ask("POST", "/v1/search", value, "many")[0] == 200
            most = max(most, descriptors(served))
            _, figures, _ = served.raw("GET", "/metrics")
            opened.append(int(figures.rsplit(b" ", 1)[1]))
        assert max(opened) == 2
        assert most <= before + 2 * web.DESCRIPTORS_OF_PLANE + 4


def test_a_plane_that_nobody_asks_for_is_closed(start):
    with start("--idle", "1", "--rate", "5000") as served:
        assert served.ask("POST", "/v1/record", {"text": "one"})[0] == 200
        for _ in range(200):
            _, figures, _ = served.raw("GET", "/metrics")
            if b"memplane_planes_open 0\n" in figures:
                break
            time.sleep(0.05)
        else:
            raise AssertionError(figures)
        assert served.ask("POST", "/v1/record", {"text": "two"})[0] == 200


def test_what_the_system_does_not_allow_is_said_at_the_start(tmp_path):
    (tmp_path / "planes").mkdir()
    words = ["serve", "--planes", str(tmp_path / "planes"), "--port", "0", "--connections", "400"]
    process = subprocess.run(
        [sys.executable, "-m", "memplane", *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert process.returncode
    assert "ulimit -n" in process.stderr
    assert "--connections" in process.stderr
