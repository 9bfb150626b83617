"""Events whose fields are fine and that say nothing all the same."""

import pytest

from memplane.errors import InputError
from memplane.intake import check_whole, namespace, normalise

EARLY, LATE = "2026-01-05T12:00:00Z", "2026-01-05T13:30:00+01:00"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "text: a message without text and data says nothing"),
        ({"text": "", "key": "k", "tags": ["t"]}, "text: a message without text and data says nothing"),
        ({"text": " \t\n\u00a0\u3000"}, "text: a message without text and data says nothing"),
        ({"text": "\u200b\ufeff \x1b[0m", "key": "k"}, "text: a message without text and data"),
        ({"kind": "decision", "text": "  \n"}, "text: a decision without text and data says nothing"),
        ({"kind": "pin"}, "`memplane pin` or `unpin` writes one"),
        ({"kind": "pin", "refs": []}, "names what it is about in refs"),
        ({"kind": "touch", "text": "x"}, "names what it is about in refs"),
        ({"kind": "forget", "refs": ["a"]}, "names what it is about in data.forget"),
        ({"kind": "forget", "data": {"forget": "a"}}, "`memplane forget` or `unforget` writes one"),
        (
            {"kind": "fact", "valid_from": "2026-01-05T12:00:01Z", "valid_until": EARLY},
            "valid_from: lies after valid_until (2026-01-05T12:00:00.000000Z)",
        ),
    ],
)  # fmt: skip
def test_what_says_nothing_is_refused_and_told_what_is_missing(fields, said):
    normalise(fields)
    with pytest.raises(InputError) as refused:
        check_whole(fields, fields.get("kind", "message"))
    assert said in str(refused.value)
    with pytest.raises(InputError) as refused:
        check_whole(fields, fields.get("kind", "message"), "rows[3]")
    assert str(refused.value).startswith("rows[3].")


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x"}, {"data": {"a": 1}}, {"kind": "task"}, {"kind": "fact", "key": "k"},
        {"text": " . "}, {"text": " ", "data": {"a": 1}}, {"kind": "tool_result", "text": "\n"},
        {"kind": "fact", "key": "/memories/a.md", "text": "\n"},
        {"kind": "pin", "refs": ["a"]}, {"kind": "touch", "refs": ["a"]},
        {"kind": "forget", "data": {"forget": {"key": "k"}}},
        {"kind": "fact", "valid_from": EARLY, "valid_until": LATE},
        {"kind": "fact", "valid_from": EARLY, "valid_until": EARLY},
    ],
)  # fmt: skip
def test_what_says_something_is_taken(fields):
    check_whole(fields, fields.get("kind", "message"))


def test_a_misspelt_kind_is_offered_only_kinds_that_can_be_recorded():
    with pytest.raises(InputError) as refused:
        normalise({"kind": "decisoin"})
    said = str(refused.value)
    assert said.endswith("did you mean `decision`?")
    for kind in ("forget", "pin", "touch", "purge", "repair", "segment", "secret"):
        assert f" {kind}" not in said


@pytest.mark.parametrize("bad", ["", "global", "/globl", "/task/", "/other/x", "/task/a\n"])
def test_a_namespace_that_no_event_can_have_is_none(bad):
    with pytest.raises(InputError, match=r"^ns: found "):
        namespace(bad)
    for good in ("/global", "/task/a b", "/spec/x", "/agent/y", None):
        namespace(good)
