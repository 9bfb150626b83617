"""What a server takes, from whom, and what each refusal is."""

import http.client
import json
import socket
import time

import pytest
from jsonschema import Draft202012Validator

from memplane.serve.web import ROUTES, openapi


def test_a_record_is_found_by_search_pack_and_get_and_gone_when_forgotten(served):
    status, stored = served.ask(
        "POST", "/v1/record", {"text": "The crane lifts forty tons", "kind": "fact", "key": "crane"}
    )
    assert status == 200
    assert stored["seq"] > 0
    _, got = served.ask("GET", "/v1/get?key=crane")
    assert (got["text"], got["actor"], got["id"]) == (
        "The crane lifts forty tons", "ann", stored["id"],
    )  # fmt: skip
    _, found = served.ask("POST", "/v1/search", {"query": "crane tons"})
    assert stored["seq"] in [hit["seq"] for hit in found["hits"]]
    _, block = served.ask("POST", "/v1/pack", {"query": "crane tons", "budget": 800})
    assert "forty tons" in block["text"]
    assert block["tokens"] <= 800
    status, _ = served.ask("POST", "/v1/forget", {"id": stored["id"]})
    assert status == 200
    assert served.ask("GET", "/v1/get?key=crane")[0] == 404
    assert "forty" not in served.ask("POST", "/v1/pack", {"query": "crane tons"})[1]["text"]


def test_the_same_twice_under_one_idempotency_key_is_stored_once(served):
    given = {"text": "Low water at six", "idempotency_key": "tide-1"}
    first, second = (served.ask("POST", "/v1/record", given)[1] for _ in range(2))
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert first["seq"] == second["seq"]
    other = {**given, "text": "Low water at seven"}
    assert served.ask("POST", "/v1/record", other)[0] == 409


def test_a_statement_is_the_agents_word_unless_the_request_says_otherwise(served):
    _, stored = served.ask("POST", "/v1/record", {"text": "Berth nine is deep", "kind": "fact"})
    _, got = served.ask("GET", f"/v1/get?id={stored['id']}")
    assert got["role"] == "assistant"


@pytest.mark.parametrize("path", ["/v1/search", "/v1/get?key=a", "/metrics", "/mcp", "/nowhere"])
@pytest.mark.parametrize(
    "said", [(), ("Bearer",), ("Bearer mpt_wrong",), ("Basic mpt_wrong",), ("Bearer \xff",)]
)
def test_without_a_known_token_nothing_is_answered(served, path, said):
    headers = [("Authorization", one) for one in said]
    status, body, sent = served.raw("GET", path, token=None, headers=headers)
    assert status == 401
    assert sent["WWW-Authenticate"] == "Bearer"
    assert json.loads(body)["error"]["message"]


def test_two_tokens_in_one_request_are_none(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as client:
        line = f"Authorization: Bearer {served.secrets['ann']}\r\n"
        head = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{line}{line}\r\n"
        client.sendall(head.encode())
        assert b" 401 " in client.recv(4096)


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1", "127.0.0.1.attacker.example:80", ""]
)
@pytest.mark.parametrize("path", ["/health", "/v1/get?key=a", "/mcp", "/openapi.json"])
def test_a_foreign_host_is_misdirected(served, host, path):
    assert served.raw("GET", path, headers=[("Host", host)])[0] == 421


@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://127.0.0.1"])
@pytest.mark.parametrize("path", ["/health", "/v1/get?key=a", "/mcp"])
def test_a_foreign_origin_is_refused(served, origin, path):
    assert served.raw("GET", path, headers=[("Origin", origin)])[0] == 403


def test_its_own_origin_is_none_of_another_page(served):
    """A page under a rebound name has that name as its origin, and never this address."""
    for name in ("127.0.0.1", "localhost"):
        headers = [("Origin", f"http://{name}:{served.port}")]
        assert served.raw("GET", "/health", headers=headers)[0] == 200
    headers = [("Origin", f"https://127.0.0.1:{served.port}")]
    assert served.raw("GET", "/health", headers=headers)[0] == 403


@pytest.mark.parametrize(
    "claimed",
    [
        {"agent": "bob"}, {"channel": "private"}, {"agent": None}, {"plane": "quay"},
        {"plane": "nowhere"}, {"plane": "../harbour"}, {"plane": ["harbour"]},
    ],
)  # fmt: skip
def test_what_a_request_claims_beyond_its_token_is_refused(served, claimed):
    given = {"text": "not to be stored", **claimed}
    assert served.ask("POST", "/v1/record", given)[0] == (
        200 if claimed == {"plane": None} else 403
    )


def test_what_a_request_repeats_of_its_token_is_taken(served):
    given = {"text": "a repeated claim", "agent": "ann", "channel": "agent", "plane": "harbour"}
    assert served.ask("POST", "/v1/record", given)[0] == 200


def test_a_token_for_several_planes_names_one(served):
    assert served.ask("POST", "/v1/record", {"text": "which?"}, "both")[0] == 400
    given = {"text": "The quay is closed for the herring", "plane": "quay"}
    assert served.ask("POST", "/v1/record", given, "both")[0] == 200
    _, found = served.ask("POST", "/v1/search", {"query": "herring quay"})
    assert found["hits"] == []


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"1", b"\xff", b"[" * 9000, {}, {"text": ""}, {"text": "a", "actor": "x"},
     {"text": "a", "kind": "purge"}, {"text": "a", "importance": 5000}, {"text": "a", "id": "x"}],
)  # fmt: skip
def test_what_cannot_be_taken_is_said_and_stores_nothing(served, value):
    status, said = served.ask("POST", "/v1/record", value)
    assert status == 400
    assert said["error"]["type"] == "InputError"


def test_paths_and_methods_that_are_not_there(served):
    assert served.ask("GET", "/v1/nowhere")[0] == 404
    assert served.raw("GET", "/v1/record")[2]["Allow"] == "POST"
    assert served.ask("GET", "/v1/get?key=a&key=b")[0] == 400


def test_a_body_over_the_limit_is_refused_whether_it_says_its_length_or_not(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    said = {"Authorization": f"Bearer {served.secrets['ann']}"}
    connection.putrequest("POST", "/v1/record")
    for name, value in {**said, "Content-Length": str(100 << 20)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("POST", "/v1/record", iter([b"x" * 65_536] * 20), said, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_slow_client_holds_up_nobody_and_is_cut_off(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as silent:
        silent.sendall(b"POST /v1/record HTTP/1.1\r\nHost: a")
        began = time.monotonic()
        assert served.ask("GET", "/health")[0] == 200
        assert silent.recv(1) == b""  # closed by the server
        assert time.monotonic() - began < 25
        assert served.ask("GET", "/health")[0] == 200


def test_a_slow_body_is_given_up(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as slow:
        head = (
            f"POST /v1/record HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: 50\r\n"
            f"Authorization: Bearer {served.secrets['ann']}\r\n\r\n{{"
        )
        slow.sendall(head.encode())
        assert b" 408 " in slow.recv(4096)


def test_health_and_the_document_need_no_token_and_say_nothing_of_planes(served):
    assert served.ask("GET", "/health", token=None) == (200, {"status": "ok"})
    status, document = served.ask("GET", "/openapi.json", token=None)
    assert status == 200
    assert document == json.loads(json.dumps(openapi()))
    assert "harbour" not in json.dumps(document)


def test_the_document_is_of_the_table_and_its_schemas_are_schemas():
    document = openapi()
    assert set(document["paths"]) == {route.path for route in ROUTES}
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == route.tool.name
        Draft202012Validator.check_schema(route.tool.takes)
        Draft202012Validator.check_schema(route.tool.gives)


def test_answers_are_what_the_document_says(served):
    served.ask("POST", "/v1/record", {"text": "Buoys are green", "kind": "fact", "key": "buoys"})
    asked = {
        "/v1/record": {"text": "a gull"}, "/v1/pack": {"query": "buoys"},
        "/v1/search": {"query": "buoys"}, "/v1/get?key=buoys": None, "/v1/forget": {"key": "buoys"},
    }  # fmt: skip
    for path, given in asked.items():
        route = next(one for one in ROUTES if one.path == path.partition("?")[0])
        status, answer = served.ask(route.method, path, given)
        assert status == 200
        Draft202012Validator(route.tool.gives).validate(answer)


def test_figures_name_routes_and_statuses_alone(served):
    served.ask("POST", "/v1/record", {"text": "counted", "key": "heron-key"})
    served.ask("GET", "/secret-path-of-somebody")
    text = served.raw("GET", "/metrics")[1].decode()
    assert 'memplane_requests_total{route="/v1/record",status="200"}' in text
    for word in ("heron", "secret-path", "ann", "harbour"):
        assert word not in text
