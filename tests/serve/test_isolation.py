"""What one token stored, no other one that is bound elsewhere ever meets."""

import json
from urllib.parse import urlencode

from hypothesis import HealthCheck, given, settings, strategies as st

MARK = {"red": "vermilion", "blue": "cobalt"}
SPACE = {"red": "/project/red", "blue": "/project/blue"}
spaces = st.sampled_from(["/global", "/project/red", "/project/blue", "/agent/red", "/agent/blue"])
keys = st.sampled_from(["paint", "sail", "mast"])
queries = st.sampled_from(["vermilion paint", "cobalt paint", "paint", "which sail", ""])
handles = st.integers(1, 60).map(lambda seq: f"#{seq}")
requests = st.one_of(
    st.tuples(st.just("POST"), st.just("/v1/search"), st.fixed_dictionaries(
        {"query": queries.filter(bool)}, optional={"ns": st.lists(spaces, max_size=2), "session": st.just("s1")})),
    st.tuples(st.just("POST"), st.just("/v1/pack"), st.fixed_dictionaries(
        {"query": queries, "mode": st.sampled_from(["auto", "fast", "deep", "orient"])},
        optional={"ns": st.lists(spaces, max_size=2), "session": st.just("s1")})),
    st.tuples(st.just("GET"), st.just("/v1/get"), st.one_of(
        st.fixed_dictionaries({"key": keys}, optional={"ns": spaces}),
        st.fixed_dictionaries({"id": handles}))),
    st.tuples(st.just("POST"), st.just("/v1/forget"), st.one_of(
        st.fixed_dictionaries({"key": keys}, optional={"ns": spaces}),
        st.fixed_dictionaries({"id": handles}))),
    st.tuples(st.just("POST"), st.just("/v1/record"), st.fixed_dictionaries(
        {"text": keys, "key": keys}, optional={"ns": spaces, "session": st.just("s1")})),
)  # fmt: skip


def asked(served, who, request):
    method, path, value = request
    if method == "GET":
        return served.ask(method, f"{path}?{urlencode(value)}", token=who)
    return served.ask(method, path, value, token=who)


def own(served, who, key):
    text = f"The {key} is {MARK[who]} since spring"
    value = {"text": text, "key": key, "kind": "decision", "session": "s1"}
    assert served.ask("POST", "/v1/record", value, who)[0] == 200


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.sampled_from(["red", "blue"]), requests, keys), min_size=1, max_size=6)
)
def test_no_answer_has_anything_of_another_namespace(served, script):
    for who, request, key in script:
        own(served, who, key)
        other = "blue" if who == "red" else "red"
        _, _, value = request
        claims = value.get("ns", [])
        named = [claims] if isinstance(claims, str) else claims
        status, answer = asked(served, who, request)
        said = json.dumps(answer)
        if request[2].get("query", "").find(MARK[other]) < 0:
            assert MARK[other] not in said
        else:  # its own words may come back, a statement may not
            assert f"is {MARK[other]}" not in said
        allowed = {SPACE[who], "/agent/red"} if who == "red" else {SPACE[who]}
        if not set(named) <= allowed:
            assert status == 403
        # And what the other one has stays: nothing here can archive or replace it.
        own(served, other, key)
        assert asked(served, who, request)[0] in (200, 400, 403, 404)
        _, still = served.ask("GET", f"/v1/get?key={key}", token=other)
        assert MARK[other] in still["text"]


def test_a_foreign_event_is_answered_like_none(served):
    own(served, "red", "paint")
    _, mine = served.ask("GET", "/v1/get?key=paint", token="red")
    for path, value in (
        (f"/v1/get?id={mine['id']}", None),
        ("/v1/forget", {"id": mine["id"]}),
        ("/v1/forget", {"id": f"#{mine['seq']}"}),
    ):
        method = "GET" if value is None else "POST"
        status, said = served.ask(method, path.replace("#", "%23"), value, "blue")
        named = mine["id"] if "#" not in str(value) else f"#{mine['seq']}"
        absent = f"no-such-{'x' * 4}"
        status_absent, said_absent = served.ask(
            method,
            path.replace(mine["id"], absent),
            None if value is None else {"id": absent},
            "blue",
        )
        assert status == status_absent == 404
        message = said["error"]["message"].replace(named, "X")
        assert message == said_absent["error"]["message"].replace(absent, "X")


def test_an_agents_own_namespace_is_closed_to_another_agent(served):
    given = {"text": "ann hides a key under the mat", "ns": "/agent/ann", "key": "mat"}
    assert served.ask("POST", "/v1/record", given)[0] == 200
    assert served.ask("GET", "/v1/get?key=mat&ns=/agent/ann", token="bob")[0] == 403
    assert served.ask("POST", "/v1/record", given, "bob")[0] == 403
    _, found = served.ask("POST", "/v1/search", {"query": "key under the mat"}, "bob")
    assert "mat" not in json.dumps(found)
