"""What an entry of a transcript may hold: anything, and it comes back but for secrets."""

import json

import pytest
from builders_transcripts import KEY, entry, said
from hypothesis import given, settings, strategies as st

from memplane.adapters.claude_sessions import packed, unpacked
from memplane.errors import InputError
from tests.examples import examples

_KEYS = st.text(alphabet=st.characters(codec=None), max_size=5)
_TEXTS = _KEYS | st.sampled_from(["x" * 9_000, "\0a\ud800" * 3_000, "é😀" * 40_000])
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=examples(20))
@given(st.dictionaries(_KEYS, _JSON, max_size=5))
def test_every_entry_comes_back_equal_field_by_field_and_in_order(fields):
    parts = packed(fields, lambda value: (value, {}))
    assert all(len(json.dumps(part, ensure_ascii=False).encode()) < 60_000 for part in parts)
    assert json.dumps(unpacked(json.loads(json.dumps(parts)))) == json.dumps(fields)


@pytest.mark.parametrize(
    "strange",
    [
        {"image": "iVBORw0KGgo" * 200_000},
        {"patch": [{"lines": [f"+ line {n}" for n in range(9_000)]}]},
        {"deep": json.loads("[" * 200 + "]" * 200)},
        {"odd": "a\0b\ud800c\ufffd", "big": 18446744073709552000, "\0": [{}, [], "", None]},
        {"quoted": "memplane:begin\nnothing\nmemplane:end 0123456789abcdef\n"},
        {"status": "end", "body": {"sha256": "0" * 64}, "redactions": "none", "replaced": -1},
        {"signature": "EqQBCkYIBxgCKkB" * 40, "requestId": "req_011CQ" + "a1B2" * 4},
    ],
    ids=["large", "wide", "deep", "unstorable", "a block", "names of our own", "signatures"],
)
def test_no_entry_is_too_strange_for_the_log(store, plane, strange):
    store.append(KEY, [entry(uuid="a", **strange), entry(uuid="b")])
    assert store.load(KEY) == [entry(uuid="a", **strange), entry(uuid="b")]
    assert plane.upkeep.verify(deep=True).ok


def test_a_secret_is_masked_in_what_is_loaded_and_all_else_stays(store, plane):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    store.append(KEY, [said(1, f"the token is {token}, keep it"), said(2, "ok", "assistant")])
    first, second = store.load(KEY)
    assert second == said(2, "ok", "assistant")
    assert token not in json.dumps(first)
    assert {**first, "message": None} == {**said(1, ""), "message": None}
    assert first["message"]["content"].startswith("the token is [redacted:")
    assert plane.upkeep.audit().findings == ()


def test_a_secret_in_an_entry_that_is_cut_is_masked_wherever_it_lies(store):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    for shift in range(0, 60, 7):
        store.append(KEY, [entry(text="x" * (3_000 - shift) + f" {token} " + "y" * 60_000)])
    assert "a1B2c3D4" not in json.dumps(store.load(KEY))


def test_what_is_no_entry_is_refused_and_nothing_is_stored(store, plane):
    head = plane.head()
    for wrong in (["text"], [{"type": "x", "n": {1, 2}}], [None]):
        with pytest.raises(InputError):
            store.append(KEY, wrong)
    with pytest.raises(InputError, match="subpath"):
        store.append({**KEY, "subpath": ""}, [entry()])
    assert plane.head() == head
