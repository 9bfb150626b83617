"""The live page: who is answered, who is not, and what its actions do."""

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest
from builders_pages import Parts, made

from memplane.inspect import BODY_BYTES_MAX, CONFIRMATIONS_MAX, HOST, LiveServer, PageRequest


@pytest.fixture
def plane(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("the quokka smiles", kind="fact", key="quokka", session="s1", id="one")
        plane.record("the numbat sleeps", sensitivity="high", session="s1", id="high")
        yield plane


@pytest.fixture
def server(plane):
    with LiveServer(plane, PageRequest()) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server
        server.stop()
        thread.join()


def asked(server, method="GET", name="", *, path=None, body=None, host=None, **headers):
    """The status and body of one request; a header's name has `_` for `-`."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=20)
    path = f"/{server.token}/{name}" if path is None else path
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"{HOST}:{server.port}")
    data = (
        None if body is None else json.dumps(body).encode() if not isinstance(body, bytes) else body
    )
    if data is not None and "Content_Length" not in headers:
        connection.putheader("Content-Length", str(len(data)))
    for key, value in headers.items():
        connection.putheader(key.replace("_", "-"), value)
    connection.endheaders(data)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def posted(server, body, **headers):
    given = {"Origin": f"http://{HOST}:{server.port}", "Content_Type": "application/json",
             "Sec_Fetch_Site": "same-origin"} | headers  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    answer, text = asked(server, "POST", "act", body=body, **given)
    return answer.status, json.loads(text)


def test_the_page_and_its_version_are_answered_to_who_has_the_address(server):
    answer, text = asked(server)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    parts = Parts(text.encode())
    data = json.loads(parts.texts["data"])
    assert data["live"]["actions"] is True
    assert "connect-src 'self'" in parts.rules
    assert answer.headers["Content-Security-Policy"] == f"{parts.rules}; frame-ancestors 'none'"
    answer, text = asked(server, "GET", "version")
    assert json.loads(text) == {"version": data["live"]["version"]}
    assert asked(server, "HEAD")[1] == ""
    assert asked(server, host=f"localhost:{server.port}")[0].status == 200


def test_it_listens_on_loopback_alone_on_a_port_of_its_own(server):
    assert server._http.server_address == ("127.0.0.1", server.port)
    assert server.port > 0
    assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/[\w-]{{32}}/", server.url)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}",
     "127.0.0.1.nip.io:{port}", "[::1]:{port}", "0.0.0.0:{port}", "127.0.0.1:{port}@evil.example", "127.1:{port}"],
)  # fmt: skip
def test_a_name_that_was_rebound_to_loopback_is_refused(server, host):
    for method, name, more in (
        ("GET", "", {}),
        ("GET", "version", {}),
        ("POST", "act", {"body": {}}),
    ):
        answer, text = asked(server, method, name, host=host.format(port=server.port), **more)
        assert answer.status == 421
        assert "quokka" not in text


def test_two_hosts_or_none_are_refused(server):
    for lines in (b"", b"Host: 127.0.0.1:%d\r\nHost: evil.example\r\n" % server.port):
        with socket.create_connection((HOST, server.port), timeout=20) as wire:
            wire.sendall(
                b"GET /%s/ HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (server.token.encode(), lines)
            )
            assert wire.recv(4096).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("path", ["/", "/version", "/favicon.ico", "/{token}x/", "/{short}/", "//", "/x/{token}/",
                                  "/%2e/{token}/", "/{token}/../etc", "/{token}/page", "*"])  # fmt: skip
def test_a_path_without_the_token_or_of_no_page_is_not_found(server, path):
    answer, text = asked(server, path=path.format(token=server.token, short=server.token[:-1]))
    assert answer.status == 404
    assert "quokka" not in text
    assert server.token not in text


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
     {"Origin": "https://127.0.0.1:{port}"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}],
)  # fmt: skip
def test_another_site_is_refused_whatever_it_asks(server, headers):
    headers = {name: value.format(port=server.port) for name, value in headers.items()}
    answer, text = asked(server, **headers)
    assert answer.status == 403
    assert "quokka" not in text
    assert posted(server, {"action": "forget", "id": "one"}, **headers)[0] == 403


def test_no_answer_lets_another_origin_read_it(server):
    for more in ({}, {"path": "/"}, {"host": "evil.example"}, {"Origin": "http://evil.example"}):
        answer, _ = asked(server, **more)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"])
def test_no_other_method_is_answered(server, method):
    answer, text = asked(server, method)
    assert answer.status == 501
    assert "quokka" not in text


def test_an_action_is_asked_for_first_and_done_once(server, plane):
    status, first = posted(server, {"action": "forget", "id": "one"})
    assert (status, set(first)) == (200, {"confirm", "question"})
    assert plane.get("quokka") is not None
    status, _ = posted(server, {"action": "forget", "id": "one", "confirm": first["confirm"]})
    assert status == 200
    assert plane.get("quokka") is None
    assert posted(server, {"action": "forget", "id": "one", "confirm": first["confirm"]})[0] == 409
    assert "quokka smiles" not in asked(server)[1]
    _, again = posted(server, {"action": "unforget", "id": "one"})
    assert (
        posted(server, {"action": "unforget", "id": "one", "confirm": again["confirm"]})[0] == 200
    )
    assert plane.get("quokka") is not None
    _, pin = posted(server, {"action": "pin", "id": "one"})
    assert posted(server, {"action": "pin", "id": "one", "confirm": pin["confirm"]})[0] == 200
    assert plane.work.standing(plane.event("one")).pinned


def test_a_confirmation_is_good_for_its_action_and_event_alone(server, plane):
    plane.record("the wombat digs", kind="fact", key="wombat", session="s1", id="two")
    _, first = posted(server, {"action": "pin", "id": "one"})
    assert posted(server, {"action": "forget", "id": "one", "confirm": first["confirm"]})[0] == 409
    _, first = posted(server, {"action": "forget", "id": "one"})
    assert posted(server, {"action": "forget", "id": "two", "confirm": first["confirm"]})[0] == 409
    assert posted(server, {"action": "forget", "id": "two", "confirm": "guessed"})[0] == 409
    assert plane.get("quokka") is not None
    assert plane.get("wombat") is not None


def test_an_action_reaches_no_event_that_is_not_on_the_page(server, plane):
    before = plane.head().seq
    for action in ("forget", "unforget", "pin"):
        assert posted(server, {"action": action, "id": "high"})[0] == 404
        assert posted(server, {"action": action, "id": "none"})[0] == 404
    assert plane.head().seq == before


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"action": "forget", "id": "one"}, {"Origin": None}, 403),
        ({"action": "forget", "id": "one"}, {"Content_Type": "text/plain"}, 415),
        (
            {"action": "forget", "id": "one"},
            {"Content_Type": "application/x-www-form-urlencoded"},
            415,
        ),
        ({"action": "purge", "id": "one"}, {}, 400),
        ({"action": "forget", "id": 1}, {}, 400),
        ({"action": ["forget"], "id": "one"}, {}, 400),
        ({"action": "forget", "id": "one", "ns": "/global"}, {}, 400),
        ([], {}, 400),
        (b"{", {}, 400),
        (b"[" * 4_000, {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"{}", {"Content_Length": "-1"}, 411),
        (b"{}", {"Content_Length": "2x"}, 411),
        (b"", {"Transfer_Encoding": "chunked"}, 411),
        (b" " * (BODY_BYTES_MAX + 1), {}, 413),
        (b"{}", {"Content_Length": "9" * 30}, 413),
    ],
)
def test_what_is_no_action_is_refused_and_changes_nothing(server, plane, body, headers, status):
    before = plane.head().seq
    assert posted(server, body, **headers)[0] == status
    assert plane.head().seq == before


def test_a_body_of_a_read_is_no_second_request(server, plane):
    before = plane.head().seq
    body = b"POST /%s/act HTTP/1.1\r\nHost: evil.example\r\n\r\n" % server.token.encode()
    head = b"GET /%s/version HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %d\r\n\r\n" % (
        server.token.encode(), server.port, len(body),
    )  # fmt: skip
    with socket.create_connection((HOST, server.port), timeout=20) as wire:
        wire.sendall(head + body)
        said = b""
        while part := wire.recv(4096):
            said += part
    assert said.count(b"HTTP/1.1 ") == 1
    assert plane.head().seq == before


def test_a_client_that_goes_away_is_no_fault(server, capfd):
    for sent in (b"", b"GET /", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"):
        wire = socket.create_connection((HOST, server.port), timeout=20)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.sendall(sent)
        wire.close()
    assert asked(server, "GET", "version")[0].status == 200
    assert capfd.readouterr() == ("", "")


def test_reads_never_act(server, plane):
    before = plane.head().seq
    for name in ("act", "act?action=forget&id=one"):
        assert asked(server, "GET", name)[0].status == 404
    assert plane.head().seq == before


def test_the_version_and_the_page_follow_the_log(server, plane):
    first = json.loads(asked(server, "GET", "version")[1])["version"]
    page = asked(server)[1]
    assert asked(server)[1] == page
    plane.record("the bilby digs", session="s1", role="user")
    assert json.loads(asked(server, "GET", "version")[1])["version"] != first
    assert "the bilby digs" in asked(server)[1]


def test_confirmations_that_nobody_uses_are_forgotten(server):
    words = [
        posted(server, {"action": "pin", "id": "one"})[1]["confirm"]
        for _ in range(CONFIRMATIONS_MAX + 1)
    ]
    assert len(server._confirmed) == CONFIRMATIONS_MAX
    assert posted(server, {"action": "pin", "id": "one", "confirm": words[0]})[0] == 409
    assert posted(server, {"action": "pin", "id": "one", "confirm": words[1]})[0] == 200


def test_the_command_prints_its_address_and_ends_with_a_line_at_ctrl_c(plane):
    plane.close()
    command = [sys.executable, "-m", "memplane", "inspect", "--live", "--home", str(plane.home)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        url = process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[\w-]+/)", url)
        connection = http.client.HTTPConnection(HOST, int(found[1]), timeout=60)
        connection.request("GET", found[2])
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "memplane: ended; the address answers no more"
    assert found[2] not in err
