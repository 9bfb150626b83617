"""Every field of an event: what is taken, in which form, and how the rest is refused."""

import pytest

from memplane.errors import InputError
from memplane.event import KINDS
from memplane.intake import hides_nothing, normalise, permitted_actor, with_permitted_actor


def refusal(fields, **options):
    with pytest.raises(InputError) as error:
        normalise(fields, **options)
    return error.value


def test_the_least_event_is_a_message_and_defaults_are_left_out():
    assert normalise({}) == {"kind": "message"}
    defaults = {
        "kind": "message",
        "ns": "/global",
        "text": "",
        "tags": [],
        "markers": (),
        "refs": [],
        "sensitivity": "normal",
        "importance": 500,
        "data": {},
        "session": None,
        "role": None,
        "ts": None,
    }
    assert normalise(defaults) == {"kind": "message"}
    normalise(defaults)


def test_fields_come_back_in_the_order_of_the_log_whatever_the_order_given():
    given = {
        "data": {"tool": "bash"},
        "valid_until": "2027-01-01T00:00:00Z",
        "valid_from": "2026-01-01T00:00:00Z",
        "importance": 1,
        "sensitivity": "high",
        "refs": ["a", "b"],
        "markers": ["goal", "custom:mine"],
        "tags": ("x", "y z"),
        "key": "db.engine",
        "text": "We keep PostgreSQL",
        "role": "assistant",
        "actor": "coder",
        "task": "T-1",
        "session": "s1",
        "ns": "/agent/coder",
        "kind": "decision",
        "ts": "2026-01-05T12:17:31+01:00",
        "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    }
    taken = normalise(given)
    assert list(taken) == list(given)[::-1]
    assert taken["ts"] == "2026-01-05T11:17:31.000000Z"
    assert taken["tags"] == ["x", "y z"]


@pytest.mark.parametrize(
    ("fields", "ns"),
    [
        ({"task": "T-1"}, "/task/T-1"),
        ({"task": "feature/x"}, "/task/feature/x"),
        ({"task": "T-1", "ns": "/global"}, None),
        ({"ns": "/spec/auth flow"}, "/spec/auth flow"),
        ({}, None),
    ],
)
def test_an_event_of_a_task_belongs_to_the_task_unless_it_says_otherwise(fields, ns):
    assert normalise(fields).get("ns") == ns


@pytest.mark.parametrize(
    ("given", "stored"),
    [(0, 0), (1, 1), (1000, 1000), (0.0, 0), (1.0, 1000), (0.25, 250), (0.0005, 1), (0.0004, 0)],
)
def test_importance_is_an_integer_in_thousandths_rounded_half_up(given, stored):
    assert normalise({"importance": given})["importance"] == stored


@pytest.mark.parametrize(
    "given",
    [-1, 1001, 1.5, 2.0, 500.0, 1000.0, 1.0001, -0.1, float("nan"), float("inf"), True, "5", []],
)
def test_importance_outside_its_range_or_of_another_type_is_refused(given):
    assert refusal({"importance": given}).where == "importance"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"kind": "desicion"},
            "; did you mean `decision`?",
        ),
        (
            {"rol": "user"},
            "; did you mean `role`?",
        ),
        (
            {"kind": "Fact"},
            "kind: found 'Fact'; expected one of: message, tool_call, tool_result, fact,",
        ),
        ({"rol": "user"}, "unknown field 'rol'; expected one of: id, ts, kind, ns, session, task,"),
        ({"seq": 4}, "`seq` is set by the log and cannot be given; leave it out"),
        ({"tokens": 4}, "`tokens` is set by the log and cannot be given; leave it out"),
        ({"key": "k" * 10_000}, "key: found 10000 characters; expected 1 to 256 characters"),
        ({"key": ""}, "key: found 0 characters; expected 1 to 256 characters"),
        (
            {"session": "a\nb"},
            "session: found a control character or lone surrogate; expected 1 to 128",
        ),
        ({"actor": "\ud800"}, "actor: found a control character or lone surrogate"),
        ({"task": 7}, "task: found 7; expected 1 to 128 characters"),
        ({"id": "two words"}, "id: found 9 characters; expected an id of 1 to 128 printable ASCII"),
        ({"id": "é"}, "id: found 1 characters; expected an id"),
        (
            {"ns": "/tasks/1"},
            "ns: found '/tasks/1'; expected /global, /project/<name>, /task/<id>, /spec/<name> or",
        ),
        ({"ns": "/task/"}, "ns: found 0 characters; expected 1 to 128 characters"),
        ({"ts": "2026-01-05T12:00:00"}, "ts: found no zone (naive); expected RFC 3339 with a zone"),
        ({"valid_until": "soon"}, "valid_until: found no time that can be read"),
        ({"role": "bot"}, "role: found 'bot'; expected one of: user, assistant, tool, system"),
        ({"role": ["user"]}, "role: found a value of type list; expected one of"),
        (
            {"text": b"\x00\xff"},
            "text: found a value of type bytes; expected text: decode the bytes",
        ),
        ({"text": 3}, "text: found 3; expected text: give it as a string"),
        ({"tags": "abc"}, "tags: found 'abc'; expected a list of strings"),
        ({"tags": ["t"] * 33}, "tags: found 33 entries; expected at most 32"),
        ({"tags": ["ok", "t" * 65]}, "tags[1]: found 65 characters; expected 1 to 64 characters"),
        (
            {"markers": ["goals"]},
            "markers[0]: found 'goals'; expected one of: decision, constraint, failure, goal, custom:<name>; did you mean `goal`?",
        ),
        ({"markers": ["custom:"]}, "markers[0]: found 0 characters; expected 1 to 64 characters"),
        ({"markers": ["goal"] * 17}, "markers: found 17 entries; expected at most 16"),
        ({"refs": [12]}, "refs[0]: found 12; expected an id of 1 to 128"),
        ({"refs": ["a"] * 257}, "refs: found 257 entries; expected at most 256"),
        (
            {"sensitivity": "hihg"},
            "sensitivity: found 'hihg'; expected one of: low, normal, high, secret; did you mean `high`?",
        ),
        ({"data": ["x"]}, "data: found list; expected an object with string keys"),
        ({"data": {1: "x"}}, "data: found a key of type int; expected a string"),
        ({"data": {"a": [{"b": {1, 2}}]}}, "data.a.0.b: found set; expected JSON: null, boolean,"),
        ({"data": {"a": "x" * 65_536}}, "data: found 65544 bytes of JSON; expected at most 65536"),
        ({"data": {"body": {}}}, "data.body: memplane itself writes this key"),
        ({"data": {"replaced": 0}}, "data.replaced: found something else than a count"),
        ({"data": {"redactions": {"jwt": "x"}}}, "data.redactions: expected counts by rule"),
        ({"data": {"recalled": ["x"]}}, "data.recalled: expected checksums of 16 hex digits"),
        ({"data": {"marked": "goal"}}, "data.marked: expected the markers that were found"),
        ({"data": {"marked": [7]}}, "data.marked: expected the markers that were found"),
        ({"data": {"marked": ["goals"]}}, "data.marked: expected the markers that were found"),
        ({"data": {"marked": ["custom:"]}}, "data.marked: expected the markers that were found"),
        ({"data": {"marked": ["goal"] * 17}}, "data.marked: expected the markers that were found"),
        ({"key": "a\u2028b"}, "key: found a line or paragraph separator (U+2028, U+2029)"),
        ({"actor": "a\u2029b"}, "actor: found a line or paragraph separator"),
        (
            {"actor": "A.S.S.I.S.T.A.N.T", "role": "user"},
            "actor: found 'A.S.S.I.S.T.A.N.T', which reads like the role `assistant`",
        ),
    ],
)
def test_every_mistake_says_where_what_was_found_and_what_was_expected(fields, message):
    found = str(refusal(fields))
    assert message in found
    assert len(found) < 500
    row = refusal(fields, where="rows[3]")
    assert row.where.startswith("rows[3]")


def test_markers_that_the_text_was_found_to_carry_may_be_given_again():
    data = {"marked": ["goal", "custom:mine"]}
    assert normalise({"text": "x", "data": data})["data"] == data


def test_an_error_never_repeats_a_token():
    token = "ghp_" + "q1W2e3R4t5" * 4
    for fields in ({"kind": token}, {"ns": token}, {token: 1}, {"role": token}):
        assert token not in str(refusal(fields))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_known_and_the_plane_alone_writes_its_own(kind):
    assert normalise({"kind": kind}, internal=True)["kind"] == kind
    if kind in {"purge", "repair", "segment", "project"}:
        assert "written by memplane alone" in str(refusal({"kind": kind}))
    else:
        assert normalise({"kind": kind})["kind"] == kind


def test_the_plane_itself_may_name_a_body():
    body = {"sha256": "0" * 64, "bytes": 1}
    assert normalise({"data": {"body": body}}, internal=True)["data"] == {"body": body}


def test_nul_and_lone_surrogates_become_replacement_characters_and_are_counted():
    taken = normalise({"text": "a\0b\ud800", "data": {"k\0": ["\udfff", "fine 🎉"], "replaced": 2}})
    assert taken["text"] == "a\ufffdb\ufffd"
    assert taken["data"] == {"k\ufffd": ["\ufffd", "fine 🎉"], "replaced": 6}
    assert normalise({"text": "\0"})["data"] == {"replaced": 1}
    assert "data" not in normalise({"text": "\x01\x1b[0m é 🎉"})


def test_numbers_that_json_readers_do_not_share_become_strings():
    given = {
        "nan": float("nan"),
        "inf": [float("-inf"), float("inf")],
        "big": 2**64,
        "low": -(2**63) - 1,
    }
    assert normalise({"data": given})["data"] == {
        "nan": "NaN",
        "inf": ["-Infinity", "Infinity"],
        "big": "18446744073709551616",
        "low": "-9223372036854775809",
    }
    kept = {"most": 2**64 - 1, "least": -(2**63), "float": 0.1, "true": True, "none": None}
    assert normalise({"data": kept})["data"] == kept


def nested(depth):
    data = {}
    for _ in range(depth - 1):
        data = {"a": data}
    return data


def test_data_is_taken_to_thirty_two_levels_and_refused_beyond_and_where_it_holds_itself():
    assert normalise({"data": nested(32)})["data"] == nested(32)
    assert "nested deeper than 32 levels" in str(refusal({"data": nested(33)}))
    endless = {}
    endless["a"] = [endless]
    assert "nested deeper than 32 levels" in str(refusal({"data": endless}))


def test_what_the_caller_gave_is_never_changed():
    data = {"inner": {"a": "x\0"}, "list": [1, (2, 3)]}
    taken = normalise({"text": "\0", "data": data})
    assert data == {"inner": {"a": "x\0"}, "list": [1, (2, 3)]}
    assert taken["data"]["list"] == [1, [2, 3]]


def test_a_text_over_the_bound_is_refused_and_one_at_the_bound_is_taken():
    most = 64 * 1024 * 1024
    assert len(normalise({"text": "x" * most})["text"]) == most
    assert "store the file as an artifact" in str(refusal({"text": "é" * (most // 2 + 1)}))


@pytest.mark.parametrize(
    ("name", "role", "permitted"),
    [
        ("reviewer", "assistant", "reviewer"),
        ("a\u2028b", None, "a b"),
        ("User", "user", None),
        ("A.s.s.i.s.t.a.n.t", "user", "actor assistant"),
    ],
)
def test_an_actor_from_elsewhere_is_renamed_where_it_reads_like_a_role(name, role, permitted):
    assert permitted_actor(name, role) == permitted
    row = with_permitted_actor({"actor": name, "role": role, "text": "x"})
    assert row == {"actor": permitted, "role": role, "text": "x"}
    assert normalise(row).get("actor") == permitted
    assert with_permitted_actor({"text": "x"}) == {"text": "x"}


def test_letters_of_any_script_hide_nothing_and_those_that_read_like_others_may():
    assert all(map(hides_nothing, ("Rules", "Grüße", "読む")))
    assert not any(
        map(hides_nothing, ("\uff32ules", "правила", "ru\u200bles", "ru\u00a0les", "e\u0301"))
    )
