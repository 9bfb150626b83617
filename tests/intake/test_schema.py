"""`schemas/event.schema.json` and the fast check say the same."""

import json
from datetime import UTC
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from memplane.errors import InputError
from memplane.event import FIELDS, KINDS
from memplane.intake import Redactor, normalise, prepare
from tests.examples import examples

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "event.schema.json").read_text())
Validator = jsonschema.Draft202012Validator
LINE = Validator(SCHEMA)
INPUT = Validator({"$ref": "#/$defs/input", "$defs": SCHEMA["$defs"]})
REDACTOR = Redactor((r"(?i)password\s*[:=]\s*\S+",))


def taken(fields):
    try:
        normalise(fields)
    except InputError:
        return False
    return True


def name(most):
    return st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=most)


IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128)
TIMES = st.one_of(
    st.datetimes(timezones=st.timezones()).filter(lambda t: 1 < t.year < 9999).map(
        lambda t: t.astimezone(UTC).isoformat().replace("+00:00", "Z")
    ),
    st.sampled_from(["2026-01-05t12:17:31.123456789+05:30", "2024-02-29 00:00:00-00:00"]),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NAMESPACES = st.just("/global") | st.builds(
    "/{}/{}".format, st.sampled_from(["task", "spec", "agent"]), name(128)
)
MARKERS = st.sampled_from(["decision", "constraint", "failure", "goal"]) | name(64).map(
    "custom:{}".format
)
VALID = {
    "id": IDS,
    "ts": TIMES,
    "kind": st.sampled_from(
        [kind for kind in KINDS if kind not in ("purge", "repair", "segment", "project")]
    ),
    "ns": NAMESPACES,
    "session": name(128),
    "task": name(128),
    "actor": name(128),
    "role": st.sampled_from(["user", "assistant", "tool", "system"]),
    "text": st.text(st.characters(), max_size=200),
    "key": name(256),
    "tags": st.lists(name(64), max_size=32),
    "markers": st.lists(MARKERS, max_size=16),
    "refs": st.lists(IDS, max_size=8),
    "sensitivity": st.sampled_from(["low", "normal", "high", "secret"]),
    "importance": st.integers(0, 1000) | st.floats(0, 1),
    "valid_from": TIMES,
    "valid_until": TIMES,
    "data": st.dictionaries(st.text(max_size=8), JSON, max_size=4),
}
EVENTS = st.fixed_dictionaries(
    {}, optional={key: st.none() | value for key, value in VALID.items()}
)
# Values at the bounds, beyond them and of the wrong kind, each of them put into every field.
NEAR_THE_BOUNDS = ["", " ", "\n", "a\n", "a\x7f", "a\x85", "\ud800", "k" * 64, "k" * 65, "k" * 128, "k" * 129, "k" * 256,
         "k" * 257, "é" * 128, "/global", "/global\n", "/task/", "/task/x\n", "/other/x", "/spec/a/b", "goal",
         "custom:", "custom:x", "custom:" + "x" * 65, "secret", "segment", "purge", "Message", -1, 0, 1, 1000, 1001,
         0.5, 1.0, 1.5, 2.0, 500.0, 1000.5, True, [], {}, ["x"] * 16, ["goal"] * 16, ["goal"] * 17, ["x"] * 32,
         ["x"] * 33, ["x"] * 256, ["x"] * 257, [""], [None], [1], ["goal", "x"], {"body": {}}, {"replaced": 0},
         {"replaced": 3}, {"replaced": 1.0}, {"replaced": True}, {"redactions": {"jwt": 1}}, {"redactions": {"a": 0}},
         {"redactions": None}, {"redactions": {"a": "b"}}, "2026-01-05T12:17:31Z", "2026-01-05T12:17:31",
         "2026-01-05T12:17:60Z", "2026-01-05T24:00:00Z", "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z",
         "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-05T12:17:31.Z",
         "2026-01-05T12:17:31.1234567890Z", "2026-01-05T12:17:31+24:00", "2026-01-05T12:17:31+01:60",
         "2026-01-05T12:17:31Z\n", "2026-1-5T12:17:31Z", "2026-01-05T12:17:31 Z", "x" * 300]  # fmt: skip


def valid(event):
    """What the schema takes, but for what it cannot say: 2.0 is an integer to it."""
    importance = event.get("importance")
    return INPUT.is_valid(event) and not (isinstance(importance, float) and importance > 1)


FIELD_NAMES = st.sampled_from([*VALID, "seq", "dur", "rec", "tokens", "h", "rol", ""])


def test_the_schema_is_a_schema_and_names_every_field_and_kind():
    Validator.check_schema(SCHEMA)
    assert tuple(SCHEMA["$defs"]["line"]["properties"]) == FIELDS
    assert tuple(SCHEMA["$defs"]["kind"]["anyOf"][0]["enum"]) == KINDS
    assert set(SCHEMA["$defs"]["input"]["properties"]) == set(VALID)


@settings(max_examples=examples(50), deadline=None)
@given(EVENTS)
def test_every_valid_event_is_taken_by_both_and_its_line_validates(fields):
    assert INPUT.is_valid(fields)
    draft = prepare(fields, redactor=REDACTOR, never_store_kinds=(), id="made-here", count=len)
    head = {"seq": 1, "dur": 1, "id": draft.id, "ts": draft.ts or "2026-01-05T12:17:31.459000Z"}
    line = {**head, **json.loads(b"{" + draft.rest + b"}"), "h": "0123456789abcdef"}
    LINE.validate(line)


@settings(max_examples=examples(200), deadline=None)
@given(EVENTS, FIELD_NAMES, JSON | st.sampled_from(NEAR_THE_BOUNDS))
def test_the_check_takes_an_event_exactly_when_the_schema_does(fields, field, value):
    mutated = {**fields, field: value}
    assert taken(mutated) == valid(mutated)


@pytest.mark.parametrize("field", [*VALID, "seq", "rol"])
def test_the_check_and_the_schema_agree_on_every_value_at_a_bound_in_every_field(field):
    events = [{field: value} for value in NEAR_THE_BOUNDS]
    assert [taken(event) for event in events] == [valid(event) for event in events]


@pytest.mark.parametrize(
    "line",
    [
        {"seq": 2, "id": "a", "ts": "2026-01-05T12:17:31.459000Z", "kind": "segment", "h": "0" * 16,
         "data": {"format": 1, "plane": "p", "prev_seq": 0, "prev_h": ""}},
        {"seq": 2, "id": "a", "purged": True, "c": "0" * 16, "h": "f" * 16},
        {"seq": 2, "id": "a", "ts": "2026-01-05T12:17:31.459000Z", "kind": "message", "text": "head",
         "data": {"body": {"sha256": "a" * 64, "bytes": 9}}, "h": "0" * 16},
    ],
)  # fmt: skip
def test_what_the_log_itself_writes_validates_as_a_line(line):
    LINE.validate(line)


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 0}, {"h": "0" * 15}, {"h": "0" * 16 + "\n"}, {"ts": "2026-01-05T12:17:31Z"}, {"kind": "note"},
        {"importance": 0.5}, {"extra": 1}, {"session": None}, {"tokens": -1}, {"data": {"body": {"bytes": 1}}},
    ],
)  # fmt: skip
def test_a_line_in_another_form_does_not_validate(change):
    line = {"seq": 1, "id": "a", "ts": "2026-01-05T12:17:31.459000Z", "kind": "fact", "h": "0" * 16}
    LINE.validate(line)
    assert not LINE.is_valid({**line, **change})
