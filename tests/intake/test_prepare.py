"""Drafts: what goes to the log, byte for byte."""

import hashlib
import json

import pytest

from memplane.errors import InputError
from memplane.event import FIELDS, decode
from memplane.intake import HEAD_BYTES, LINE_MAX, Intake, Redactor, prepare, same

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
GITHUB = "ghp_" + hashlib.sha256(b"made up").hexdigest()[:36]
REDACTOR = Redactor((r"(?i)password\s*[:=]\s*\S+",))


def drafted(fields, **options):
    settings = {"redactor": REDACTOR, "never_store_kinds": ("secret",), "id": ULID, "count": None}
    return prepare(fields, **{**settings, **options})


def rest(draft):
    return json.loads(b"{" + draft.rest + b"}")


def line(draft, seq=1):
    head = {"seq": seq, "id": draft.id, "ts": draft.ts or "2026-01-05T12:17:31.459000Z"}
    return {**head, **rest(draft), "h": "0" * 16}


def test_a_draft_holds_the_line_from_kind_on_in_field_order_without_braces():
    draft = drafted(
        {"text": "Grüße", "role": "user", "session": "s1", "tags": ["b", "a"], "importance": 0.7},
        count=len,
    )
    assert draft.rest.decode() == (
        '"kind":"message","session":"s1","role":"user","text":"Grüße",'
        '"tags":["b","a"],"importance":700,"tokens":5'
    )
    assert draft._replace(rest=b"") == (
        ULID, False, None, "message", "/global", "user", "s1", None, "Grüße", b"", None, (),
    )  # fmt: skip
    order = [FIELDS.index(name) for name in rest(draft)]
    assert order == sorted(order)


def test_an_id_and_a_time_of_the_caller_are_taken_and_stay_out_of_the_rest():
    draft = drafted({"id": "src:1:0", "ts": "2026-01-05T12:00:00+01:00", "key": "k", "task": "t"})
    assert (draft.id, draft.id_given, draft.ts) == ("src:1:0", True, "2026-01-05T11:00:00.000000Z")
    assert (draft.ns, draft.key) == ("/task/t", "k")
    assert rest(draft) == {"kind": "message", "ns": "/task/t", "task": "t", "key": "k"}


def test_a_prepared_line_decodes_to_the_event_that_was_given():
    draft = drafted(
        {"kind": "fact", "text": "x", "markers": ["goal"], "refs": ["a"], "data": {"n": 1.5}}
    )
    event = decode(line(draft))
    assert (event.kind, event.text, event.markers, event.refs) == ("fact", "x", ("goal",), ("a",))
    assert (event.data, event.tokens, event.sensitivity) == ({"n": 1.5}, None, "normal")


def test_tokens_are_counted_on_the_redacted_text_and_left_out_without_a_counter():
    assert rest(drafted({"text": "password=hunter2"}, count=len))["tokens"] == len(
        "[redacted:policy-1]"
    )
    assert rest(drafted({}, count=len))["tokens"] == 0
    assert "tokens" not in rest(drafted({"text": "x"}))


def test_secrets_are_masked_in_text_tags_and_data_and_counted_by_rule():
    draft = drafted(
        {
            "text": f"use {GITHUB} and password: x",
            "tags": [f"t-{GITHUB}", "plain"],
            "data": {"env": {"API_TOKEN": "abcdef12"}, "args": [GITHUB], GITHUB: 1,
                     "redactions": {"jwt": 2, "github-token": 1}, "replaced": 3},
        }
    )  # fmt: skip
    assert draft.text == "use [redacted:github-token] and [redacted:policy-1]"
    assert rest(draft) == {
        "kind": "message",
        "text": draft.text,
        "tags": ["t-[redacted:github-token]", "plain"],
        "data": {
            "env": {"API_TOKEN": "[redacted:secret-value]"},
            "args": ["[redacted:github-token]"],
            "[redacted:github-token]": 1,
            "redactions": {"github-token": 5, "jwt": 2, "policy-1": 1, "secret-value": 1},
            "replaced": 3,
        },
    }
    assert GITHUB.encode() not in draft.rest


def test_a_tag_that_marks_make_too_long_becomes_one_mark():
    tag = "password=a " * 5
    assert rest(drafted({"tags": [tag]}))["tags"] == ["[redacted:policy-1]"]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"key": f"k {GITHUB}"}, "key"),
        ({"id": GITHUB}, "id"),
        ({"session": GITHUB}, "session"),
        ({"actor": GITHUB}, "actor"),
        ({"ns": f"/spec/{GITHUB}"}, "ns"),
        ({"refs": ["a", GITHUB]}, "refs[1]"),
        ({"markers": [f"custom:{GITHUB}"]}, "markers[0]"),
    ],
)
def test_a_token_in_an_identifier_is_refused_and_not_repeated(fields, where):
    with pytest.raises(InputError) as error:
        drafted(fields, where="rows[0]")
    assert error.value.where == f"rows[0].{where}"
    assert GITHUB not in str(error.value)


@pytest.mark.parametrize("form", ["Bearer={}", "Bearer:{}", "bearer {}", "x-bearer:{}"])
@pytest.mark.parametrize("field", ["id", "session", "actor", "key", "task"])
def test_a_bearer_in_an_identifier_is_refused_in_every_form(field, form):
    secret = hashlib.sha256(b"bearer").hexdigest()[:40]
    if field == "id":
        form = form.replace(" ", "=")  # an id has no blank
    with pytest.raises(InputError) as error:
        drafted({field: form.format(secret)})
    assert secret not in str(error.value)


def test_a_kind_that_the_policy_never_stores_is_refused_with_the_policys_key():
    with pytest.raises(InputError, match=r"kind: .*privacy\.yaml.*store\.never_store_kinds"):
        drafted({"kind": "secret"})
    assert drafted({"kind": "secret"}, never_store_kinds=()).kind == "secret"
    with pytest.raises(InputError):
        drafted({"kind": "message"}, never_store_kinds=("message",))
    assert (
        drafted({"kind": "repair"}, never_store_kinds=("repair",), internal=True).kind == "repair"
    )


def test_an_intake_prepares_as_its_policy_says():
    intake = Intake(REDACTOR)
    fields = {"text": "password=x", "session": "s"}
    assert intake.prepare(fields, id=ULID, count=len) == drafted(fields, count=len)
    with pytest.raises(InputError):
        intake.prepare({"kind": "secret"}, id=ULID)


def test_a_text_too_large_for_a_line_goes_to_a_body_and_its_head_stays():
    text = "é" * (LINE_MAX // 2)
    draft = drafted({"text": text, "data": {"tool": "bash"}}, count=len)
    body = text.encode()
    fields = rest(draft)
    assert draft.body == body
    assert draft.text == text
    assert fields["text"] == "é" * (HEAD_BYTES // 2)
    assert fields["data"] == {
        "tool": "bash",
        "body": {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)},
    }
    assert fields["tokens"] == len(text)


def test_the_head_of_a_spilled_text_is_cut_between_characters():
    draft = drafted({"text": "a" + "é" * LINE_MAX})
    assert rest(draft)["text"] == "a" + "é" * ((HEAD_BYTES - 1) // 2)


def test_a_line_at_the_bound_stays_whole_and_one_byte_more_spills():
    longest = LINE_MAX - 300 - len('"kind":"message","text":""')
    assert drafted({"text": "x" * longest}).body is None
    assert drafted({"text": "x" * (longest + 1)}).body is not None
    # Quotes cost two bytes in a line: the line decides, not the text.
    assert drafted({"text": '"' * (longest // 2 + 1)}).body is not None


def test_the_same_arguments_give_the_same_bytes_and_change_nothing_given():
    fields = {
        "text": f"{GITHUB} password=x\0",
        "data": {"a": [{"token": "abcdef12"}]},
        "tags": [GITHUB],
    }
    before = json.dumps(fields)
    assert drafted(fields) == drafted(fields)
    assert json.dumps(fields) == before


def test_a_repeat_is_the_same_and_any_other_identity_or_text_is_not():
    fields = {"id": "x:1", "text": "hello", "role": "user", "session": "s", "key": "k"}
    draft = drafted(fields)
    event = decode(line(draft))
    assert same(event, draft, REDACTOR, lambda: "hello")
    assert not same(event, draft, REDACTOR, lambda: "hello!")
    for change in (
        {"kind": "fact"},
        {"ns": "/spec/x"},
        {"role": "tool"},
        {"session": "t"},
        {"key": "l"},
    ):
        assert not same(event, drafted({**fields, **change}), REDACTOR, lambda: "hello")
    # Neither tags nor data make another event of it.
    assert same(
        event, drafted({**fields, "tags": ["t"], "data": {"a": 1}}), REDACTOR, lambda: "hello"
    )


def test_a_repeat_is_still_the_same_under_a_stricter_policy():
    fields = {"id": "x:1", "text": "the code word is swordfish"}
    event = decode(line(drafted(fields)))
    stricter = Redactor((r"code word is \w+",))
    again = drafted(fields, redactor=stricter)
    assert again.text != event.text
    assert same(event, again, stricter, lambda: event.text)


def test_a_kind_of_ones_own_that_holds_a_token_is_refused():
    with pytest.raises(InputError, match="kind: holds what looks like a secret") as refused:
        drafted({"kind": f"custom:{GITHUB}", "text": "x"})
    assert GITHUB not in str(refused.value)
    assert drafted({"kind": "custom:deploy", "text": "x"}).kind == "custom:deploy"


def test_a_repeat_of_a_text_stored_apart_is_known_by_its_hash_and_the_text_is_not_read():
    text = "long words " * (LINE_MAX // 10)
    draft, other = drafted({"text": text}), drafted({"text": f"{text}."})
    stored = decode(line(draft))
    assert same(stored, draft, REDACTOR, lambda: pytest.fail("the text was read"))
    assert not same(stored, other, REDACTOR, lambda: text)
