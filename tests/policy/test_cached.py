"""The parsed form: the same records without yaml or jsonschema, and never trusted when damaged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.errors import PolicyError
from memplane.policy import NAMES, load
from memplane.policy import cached as forms

WARM = """
import json, sys
from memplane.policy import load
forms = {key: form.encode() for key, form in json.loads(sys.stdin.readline()).items()}
defaults = {name: text.encode() for name, text in json.loads(sys.stdin.readline()).items()}
policies = load({}, defaults=defaults, schemas={}, version="1.2", cached=forms.get)
heavy = {"yaml", "jsonschema", "difflib", "numpy", "orjson", "typer", "rich", "asyncio"}
print(sorted(heavy & set(sys.modules)))
print(repr(policies))
"""


def test_a_warm_process_gets_the_same_records_and_imports_neither_yaml_nor_jsonschema(
    defaults, policies, kept
):
    given_in = [
        json.dumps({key: form.decode() for key, form in kept.items()}),
        json.dumps({name: data.decode() for name, data in defaults.items()}),
    ]
    ran = subprocess.run(
        [sys.executable, "-c", WARM],
        input="\n".join(given_in),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"[]\n{policies()!r}\n"


def test_each_file_is_kept_once_under_a_key_of_version_name_and_bytes(defaults, kept):
    assert len(kept) == len(NAMES)
    assert set(kept) == {forms.key("1.2", name, defaults[name]) for name in NAMES}
    assert forms.key("1.3", "plane.yaml", b"x") != forms.key("1.2", "plane.yaml", b"x")
    assert forms.key("1", "plane.yaml", b"x") != forms.key("1", "budgets.yaml", b"x")


def test_with_a_warm_cache_nothing_is_read_and_nothing_kept_again(defaults, policies, kept):
    again = {}
    warm = load(
        {}, defaults=defaults, schemas={}, version="1.2", cached=kept.get, keep=again.__setitem__
    )
    assert (warm, again) == (policies(), {})


def test_a_file_with_mistakes_is_never_kept(defaults, schemas):
    kept = {}
    with pytest.raises(PolicyError):
        load({"plane.yaml": b"foo: 1"}, defaults=defaults, schemas=schemas, keep=kept.__setitem__)
    assert len(kept) == len(NAMES) - 1


def test_a_rule_without_its_channel_is_named_with_its_line_though_both_files_are_cached(
    defaults, schemas
):
    privacy = b"version: 1\n\nload:\n  channel_rules: {ops: {}}\n"
    ours, others = (
        {"privacy.yaml": privacy, "channels.yaml": f"version: 1\nchannels: [{{name: {name}}}]".encode()}
        for name in ("ops", "private")
    )  # fmt: skip
    kept = {}
    load(ours, defaults=defaults, schemas=schemas, keep=kept.__setitem__)
    load(
        {**others, "privacy.yaml": None}, defaults=defaults, schemas=schemas, keep=kept.__setitem__
    )
    with pytest.raises(PolicyError) as raised:
        load(others, defaults=defaults, schemas={}, cached=kept.get)
    assert str(raised.value) == (
        "privacy.yaml:4: load.channel_rules.ops: expected a channel of channels.yaml (`private`), "
        "found `ops`"
    )


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_form_is_ignored_always(defaults, schemas, policies, kept, data):
    key = data.draw(st.sampled_from(sorted(kept)))
    form = bytearray(kept[key])
    at = data.draw(st.integers(0, len(form) - 1))
    damage = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    if damage == "cut":
        del form[at:]
    elif damage == "flip":
        form[at] ^= data.draw(st.integers(1, 255))
    else:
        form[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    loaded = load(
        {},
        defaults=defaults,
        schemas=schemas,
        version="1.2",
        cached=(kept | {key: bytes(form)}).get,
    )
    assert loaded == policies()


@settings(max_examples=30, deadline=None)
@given(
    form=st.binary() | st.sampled_from([b"[" * 100_000, b"null", b"[]", b"{}", b'{"document":1}'])
)
def test_what_is_no_form_is_ignored(defaults, schemas, policies, form):
    assert load({}, defaults=defaults, schemas=schemas, cached=lambda _: form) == policies()


SHAPES = {
    "budgets.yaml": [
        {"limits": {"foo": 1}},
        {"limits": []},
        {"sections": {"rules": {}}},
        {"sections": {"rules": 1}},
        {"counter": 1},
        {"scale": "1"},
        {"reserve_tokens": True},
        {"reserve_tokens": 1.5},
    ],
    "privacy.yaml": [
        {"store": 1},
        {"store": {"redact_patterns": "abc"}},
        {"load": {"channel_rules": {"a": {"b": []}}}},
    ],
    "channels.yaml": [{"channels": 1}, {"channels": [{"name": 1}]}, {"channels": [{}]}],
    "scoring.yaml": [{"intents": []}, {"intents": {"deep": [1]}}, {"neighbour": None}],
    "plane.yaml": [{"reports": {"keep": "5"}}, {"log": 3}],
}


@pytest.mark.parametrize(
    ("name", "document"), [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]
)
def test_a_form_of_another_shape_is_ignored_though_its_checksum_is_right(
    defaults, schemas, policies, name, document
):
    key = forms.key("", name, defaults[name])
    form = forms.pack(key, document)
    assert forms.unpack(key, form) == document
    assert load({}, defaults=defaults, schemas=schemas, cached={key: form}.get) == policies()


def test_a_sound_form_under_another_key_is_none():
    form = forms.pack("a", {"version": 1})
    assert forms.unpack("a", form) == {"version": 1}
    assert forms.unpack("b", form) is None


@settings(max_examples=25)
@given(
    document=st.dictionaries(
        st.text(),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text()
            | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=10,
        ),
    )
)
def test_a_document_comes_back_as_it_was_kept(document):
    assert forms.unpack("k", forms.pack("k", document)) == document
    assert list(forms.unpack("k", forms.pack("k", document))) == list(document)
