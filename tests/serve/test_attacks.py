"""What somebody sends who means harm: refused in a word, no trace on stderr, and it goes on."""

import json
import os
import re
import socket
import time

import pytest

from memplane import serve
from memplane.errors import HomeError, WriteError
from tests.serve.conftest import CREATED, furnished, serving

MCP = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A server of which all tests here are over when its stderr is read."""
    top = tmp_path_factory.mktemp("attacked")
    with serving(top, "--rate", "5000", secrets=furnished(top)) as one:
        yield one
        assert one.ask("GET", "/health", token=None)[0] == 200
        assert one.ask("POST", "/v1/record", {"text": "still here"})[0] == 200
        assert one.end() == 0
        assert one.process.stderr.read() == ""


def sent(served, data, *, close=True):
    """The bytes that come back to these."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        client.sendall(data)
        if close:
            client.shutdown(socket.SHUT_WR)
        got = bytearray()
        try:
            while part := client.recv(65_536):
                got += part
        except ConnectionError:
            pass
        return bytes(got)


def statuses(answer):
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def head(served, first, *lines, token="ann"):
    said = [first, f"Host: 127.0.0.1:{served.port}", *lines]
    if token is not None:
        said.append(f"Authorization: Bearer {served.secrets[token]}")
    return "\r\n".join([*said, "", ""]).encode("latin-1")


RECORD = b'{"text": "smuggled in"}'
INNER = b"GET /v1/get?key=none HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5, 6",),
        ("Content-Length: +5",),
        ("Content-Length: 0x5",),
        ("Content-Length: -1",),
        ("Content-Length: 5\x0b",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding : chunked",),
        ("Transfer-Encoding:\x0bchunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        (" folded: yes", "Content-Length: 5"),
    ],
)
def test_of_two_meanings_of_a_request_neither_is_taken(attacked, lines):
    """A second request in the body of a first is none, whichever length a proxy believed."""
    data = head(attacked, "POST /v1/record HTTP/1.1", *lines) + b"0\r\n\r\n" + INNER
    found = statuses(sent(attacked, data))
    assert found
    assert set(found) <= {400, 413, 421, 501}


def test_a_chunk_whose_length_is_none_ends_the_connection(attacked):
    for chunk in (
        b"zz\r\n",
        b"-1\r\n",
        b"5;" + b"x" * 70_000 + b"\r\n",
        b"fffffffffffffffffff\r\n",
    ):
        data = head(attacked, "POST /v1/record HTTP/1.1", "Transfer-Encoding: chunked") + chunk
        answer = sent(attacked, data + RECORD)
        assert b"200 OK" not in answer
    _, found = attacked.ask("POST", "/v1/search", {"query": "smuggled in"})
    assert found["hits"] == []


def test_requests_in_one_breath_are_each_of_their_own_token(attacked):
    value = json.dumps({"text": "in one breath", "key": "breath", "ns": "/agent/ann"}).encode()
    first = head(attacked, "POST /v1/record HTTP/1.1", f"Content-Length: {len(value)}") + value
    second = head(attacked, "GET /v1/get?key=breath&ns=/agent/ann HTTP/1.1", token="bob")
    third = head(attacked, "GET /v1/get?key=breath&ns=/agent/ann HTTP/1.1")
    last = "GET /v1/get?key=breath&ns=/agent/ann HTTP/1.1"
    nobody = head(attacked, last, "Connection: close", token=None)
    answer = sent(attacked, first + second + third + nobody, close=False)
    assert statuses(answer) == [200, 403, 200, 401]


@pytest.mark.parametrize(
    "given",
    [
        "Bearer {0}\x00", "Bearer {0}x", "Bearer {0} {0}", "Bearer {0},{0}", "bearer\t{0}x",
        "Bearer", "Basic {0}", "{0}", "Bearer " + "a" * 20_000, "Bearer \xff\xfe", "Bearer mpt_",
        "Bearer {0}\u00a0x",
    ],
)  # fmt: skip
def test_what_is_not_quite_a_token_is_none(attacked, given):
    line = f"Authorization: {given.format(attacked.secrets['ann'])}"
    data = head(attacked, "GET /metrics HTTP/1.1", line, token=None)
    assert statuses(sent(attacked, data))[0] in (400, 401)


def test_a_line_in_a_token_is_another_header_and_no_part_of_it(attacked):
    for joint in ("\r\n ", "\n", "\r"):
        secret = attacked.secrets["ann"]
        line = f"Authorization: Bearer {secret[:20]}{joint}{secret[20:]}"
        data = head(attacked, "GET /metrics HTTP/1.1", line, token=None)
        assert statuses(sent(attacked, data))[0] in (400, 401)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../v1/get?key=a", "//v1/get?key=a", "/v1//get", "/v1/get/", "/V1/get", "/v1/get%00",
        "/v1/get%2f..%2frecord", "/v1%2fget%3fkey=a", "/mcp/..", "/mcp/%2e%2e", "/mcp/%2e%2e%2fquay",
        "/mcp/harbour/../quay", "/mcp/harbour%2f..%2fquay", "/mcp/harbour%00", "/mcp/h%C3%A1rbour",
        "/mcp/harbour%20", "/mcp//harbour", "/mcp/" + "a" * 5_000, "/mcp/harbo%75r/", "/..;/health",
        "/mcp/%F0%9F%9A%A2", "/mcp/%ff%fe", "http://127.0.0.1/v1/get?key=a", "*",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_path_leads_anywhere_else(attacked, method, path):
    value = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    lines = [f"{name}: {said}" for name, said in MCP]
    lines.append(f"Content-Length: {len(value)}")
    answer = sent(attacked, head(attacked, f"{method} {path} HTTP/1.1", *lines) + value)
    assert statuses(answer)[0] in (400, 403, 404, 405)
    assert b"memory_curate" not in answer


@pytest.mark.parametrize(
    "plane",
    ["..", "../harbour", "harbour/", "HARBOUR", "harbour\x00", "hárbour", "\uff48arbour", "harbour\n",
     "harbour ", "", "a" * 65, "\ud800", "a" * 9_000, ".", "harbour/../quay"],
)  # fmt: skip
def test_no_name_of_a_plane_is_another_than_it_says(attacked, plane):
    status, said = attacked.ask("POST", "/v1/search", {"query": "a", "plane": plane})
    assert status in (400, 403)
    assert len(json.dumps(said)) < 2_000


@pytest.mark.parametrize(
    "lines",
    [["X: " + "a" * 40_000], [f"X-{n}: a" for n in range(9_000)], ["X" * 40_000 + ": a"],
     ["Cookie: " + "a=b; " * 9_000]],
)  # fmt: skip
def test_a_head_that_is_too_large_is_refused(attacked, lines):
    answer = sent(attacked, head(attacked, "GET /health HTTP/1.1", *lines), close=False)
    assert statuses(answer) in ([400], [431])


@pytest.mark.parametrize(
    "first",
    ["GET /health HTTP/1.0", "GET /health", "GET  /health HTTP/1.1", "GET /health HTTP/9.9",
     "get /health HTTP/1.1", "PRI * HTTP/2.0", "CONNECT a:1 HTTP/1.1", "OPTIONS * HTTP/1.1",
     "TRACE /health HTTP/1.1", "HEAD /health HTTP/1.1", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc"],
)  # fmt: skip
def test_strange_first_lines_are_answered_or_cut_off(attacked, first):
    found = statuses(sent(attacked, head(attacked, first)))
    assert found in ([], [200], [400], [404], [405], [421])


def test_an_upgrade_is_not_taken(attacked):
    lines = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: YQ==")
    answer = sent(attacked, head(attacked, "GET /mcp HTTP/1.1", *lines))
    assert statuses(answer) == [405]


BOMBS = [
    b"[" * 400_000, b'{"a":' * 100_000, b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"text": "a", "importance": ' + b"9" * 900_000 + b"}",
    b'{"text": "a", "importance": 1e999}', b'{"text": "a", "importance": NaN}',
    b'{"text": "a", "importance": -Infinity}', b'{"text": NaN}', b'{"text": 1e308}',
    b'{"text": "a", "importance": 1' + b"0" * 4_000 + b"}",
    b'{"text": "a", "tags": [' + b'"a",' * 200_000 + b'"a"]}',
    b'{"text": "a", "' + b"k" * 900_000 + b'": 1}',
    b'{"text": "a", ' + b",".join(b'"k%d": 1' % n for n in range(50_000)) + b"}",
    b'{"text": "a", "key": "\\udfff"}', b'{"text": "a", "key": "\\u0000"}',
    b'{"text": "a", "session": "\\ud800"}', b'{"text": "a", "ns": "/task/\\ud800"}',
    b'\xff\xfe{"text": "a"}', b"\xef\xbb\xbf{}", b'{"text": "a"}{"text": "b"}', b"null", b"\x00" * 900_000,
]  # fmt: skip


@pytest.mark.parametrize("body", BOMBS, ids=range(len(BOMBS)))
def test_json_that_is_meant_to_break_something_is_an_argument_that_cannot_be_taken(attacked, body):
    status, said, _ = attacked.raw("POST", "/v1/record", body)
    assert status == 400
    assert len(said) < 3_000


def test_half_a_character_is_stored_as_one_that_is_whole(attacked):
    status, stored, _ = attacked.raw("POST", "/v1/record", b'{"text": "half \\ud800 of one"}')
    assert status == 200
    _, got = attacked.ask("GET", f"/v1/get?id={json.loads(stored)['id']}")
    assert got["text"].encode().decode() == "half \ufffd of one"


@pytest.mark.parametrize("body", BOMBS, ids=range(len(BOMBS)))
def test_the_same_as_arguments_of_a_tool_is_no_bug_either(attacked, body):
    call = (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": '
        b'{"name": "memory_store", "arguments": ' + body + b"}}"
    )
    status, said, _ = attacked.raw("POST", "/mcp", call, headers=MCP)
    assert status in (200, 202, 400, 413)
    assert b"a bug" not in said
    assert b"stored as" not in said


@pytest.mark.parametrize(
    "asked",
    ["key=a&" * 40, "&".join(f"a{n}=1" for n in range(33)), "key=%ff%fe", "key=%00", "key=a;id=b",
     "id=%23" + "9" * 18, "id=%23" + "9" * 400, "id=%23-1", "id=" + "a" * 9_000, "key[]=a", "=a",
     "key=%ED%A0%80", "ns=%2F%2F", "key=a&ns=/agent/../agent/bob", "key=a&plane=%2e%2e"],
)  # fmt: skip
def test_arguments_of_an_address_are_checked(attacked, asked):
    status, said, _ = attacked.raw("GET", f"/v1/get?{asked}")
    assert status in (400, 403, 404)
    assert len(said) < 3_000


def test_what_a_proxy_would_say_of_a_client_is_not_believed(attacked):
    headers = [
        ("X-Forwarded-Host", "127.0.0.1"), ("X-Forwarded-For", "127.0.0.1"),
        ("Forwarded", "host=127.0.0.1"), ("X-Original-URL", "/health"),
        ("X-HTTP-Method-Override", "GET"), ("X-Rewrite-URL", "/health"),
    ]  # fmt: skip
    assert attacked.raw("GET", "/v1/get?key=a", None, None, headers)[0] == 401
    assert attacked.raw("GET", "/health", None, None, [*headers, ("Host", "a")])[0] == 421


def test_two_servers_over_the_same_planes_are_one_memory(start):
    with start("--rate", "5000") as one, start("--rate", "5000") as other:
        both = (one, other)
        for n in range(24):
            value = {"text": f"value {n}", "key": f"k{n % 3}", "idempotency_key": f"i{n}"}
            here, there = both[n % 2], both[1 - n % 2]
            status, stored = here.ask("POST", "/v1/record", value)
            assert status == 200
            assert there.ask("GET", f"/v1/get?key=k{n % 3}")[1]["text"] == f"value {n}"
            _, again = there.ask("POST", "/v1/record", value)
            assert (again["duplicate"], again["seq"]) == (True, stored["seq"])
        assert other.end() == 0
        assert one.ask("GET", "/v1/get?key=k2")[1]["text"] == "value 23"


def test_a_pipe_or_a_link_in_the_place_of_the_token_file_is_not_waited_for(tmp_path):
    file = serve.TokenFile(tmp_path / "tokens.json")
    os.mkfifo(tmp_path / "tokens.json", 0o600)
    began = time.monotonic()
    with pytest.raises(HomeError):
        file.holder("mpt_any")
    assert time.monotonic() - began < 60
    (tmp_path / "tokens.json").unlink()
    (tmp_path / "tokens.json.lock").symlink_to(tmp_path / "elsewhere")
    made, _ = serve.made("n", "a", "agent", (), ("p",), CREATED)
    with pytest.raises(WriteError):
        file.add(made)
    assert not (tmp_path / "elsewhere").exists()
