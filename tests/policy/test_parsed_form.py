"""The parsed form: the same records without yaml or jsonschema, and never trusted when damaged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from memplane import policy
from memplane.errors import PolicyError
from memplane.policy import NAMES, load_policies
from tests.examples import examples

WARM = """
import json, sys
from memplane.policy import load_policies
forms = {key: form.encode() for key, form in json.loads(sys.stdin.readline()).items()}
defaults = {name: text.encode() for name, text in json.loads(sys.stdin.readline()).items()}
policies = load_policies({}, defaults=defaults, schemas={}, version="1.2", cached=forms.get)
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


def test_all_files_are_kept_as_one_under_a_key_of_version_bytes_and_variables(defaults, kept):
    assert set(kept) == {policy.cache_key("1.2", defaults, {})}
    other = {**defaults, "plane.yaml": b"version: 1\n"}
    keys = [
        policy.cache_key("1.2", defaults, {}), policy.cache_key("1.3", defaults, {}),
        policy.cache_key("1.2", other, {}), policy.cache_key("1.2", defaults, {"MEMPLANE_A__B": "1"}),
        policy.cache_key("1.2", defaults, {"MEMPLANE_A__B": "2"}),
        policy.cache_key("1.2", defaults, {"MEMPLANE_A__B": "\udcff"}),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_with_a_warm_cache_nothing_is_read_and_nothing_kept_again(defaults, policies, kept):
    again = {}
    warm = load_policies(
        {}, defaults=defaults, schemas={}, version="1.2", cached=kept.get, keep=again.__setitem__
    )
    assert (warm, again) == (policies(), {})


def test_a_form_that_was_filled_in_from_other_defaults_is_not_used(defaults, schemas, policies):
    kept = {}
    files = {"scoring.yaml": b"version: 1\n"}
    ours = defaults["scoring.yaml"]
    former = {**defaults, "scoring.yaml": ours.replace(b"tag_weight: 0.5", b"tag_weight: 0.7")}
    first = load_policies(files, defaults=former, schemas=schemas, keep=kept.__setitem__)
    again = load_policies(files, defaults=defaults, schemas=schemas, cached=kept.get)
    assert (first.scoring.tag_weight, again.scoring) == (700, policies().scoring)


def test_nothing_is_kept_of_files_with_a_mistake(defaults, schemas):
    kept = {}
    for files, overrides in (
        ({"plane.yaml": b"foo: 1"}, {}),
        ({"privacy.yaml": b"version: 1\nload: {channel_rules: {ops: {}}}\n"}, {}),
        ({}, {"MEMPLANE_PLANE__REPORTS__KEEP": "many"}),
    ):
        with pytest.raises(PolicyError):
            load_policies(
                files, defaults=defaults, schemas=schemas, overrides=overrides,
                keep=kept.__setitem__,
            )  # fmt: skip
    assert kept == {}


def test_what_the_environment_says_is_the_same_from_the_form(defaults, schemas):
    overrides = {"MEMPLANE_PLANE__REPORTS__KEEP": "7"}
    kept = {}
    first = load_policies(
        {}, defaults=defaults, schemas=schemas, overrides=overrides, keep=kept.__setitem__
    )
    again = load_policies({}, defaults=defaults, schemas={}, overrides=overrides, cached=kept.get)
    assert again == first
    assert again.plane.reports_keep == 7


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_a_damaged_form_is_ignored_always(defaults, schemas, policies, kept, data):
    (key,) = kept
    form = bytearray(kept[key])
    at = data.draw(st.integers(0, len(form) - 1))
    damage = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    if damage == "cut":
        del form[at:]
    elif damage == "flip":
        form[at] ^= data.draw(st.integers(1, 255))
    else:
        form[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    loaded = load_policies(
        {},
        defaults=defaults,
        schemas=schemas,
        version="1.2",
        cached=(kept | {key: bytes(form)}).get,
    )
    assert loaded == policies()


@settings(max_examples=examples(30), deadline=None)
@given(
    form=st.binary() | st.sampled_from([b"[" * 100_000, b"null", b"[]", b"{}", b'{"document":1}'])
)
def test_what_is_no_form_is_ignored(defaults, schemas, policies, form):
    assert (
        load_policies({}, defaults=defaults, schemas=schemas, cached=lambda _: form) == policies()
    )


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
    key = policy.cache_key("", defaults, {})
    documents = {**{each: {} for each in NAMES}, name: document}
    form = policy.packed_form(key, policy.ParsedPolicies(documents, []))
    assert policy.form_of(key, form) == policy.ParsedPolicies(documents, [])
    assert (
        load_policies({}, defaults=defaults, schemas=schemas, cached={key: form}.get) == policies()
    )


@pytest.mark.parametrize(
    "form",
    [
        policy.ParsedPolicies({}, []),
        policy.ParsedPolicies({name: [] for name in NAMES}, []),
        policy.ParsedPolicies({name: {} for name in NAMES}, ["other.yaml"]),
        policy.ParsedPolicies({name: {} for name in NAMES}, 5),
    ],
)
def test_a_form_of_other_files_is_ignored(defaults, schemas, policies, form):
    key = policy.cache_key("", defaults, {})
    kept = {key: policy.packed_form(key, form)}
    assert load_policies({}, defaults=defaults, schemas=schemas, cached=kept.get) == policies()


def test_a_sound_form_under_another_key_is_none():
    form = policy.packed_form("a", policy.ParsedPolicies({"plane.yaml": {"version": 1}}, []))
    assert policy.form_of("a", form) == policy.ParsedPolicies({"plane.yaml": {"version": 1}}, [])
    assert policy.form_of("b", form) is None


DOCUMENTS = st.dictionaries(
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


@settings(max_examples=examples(25))
@given(document=DOCUMENTS)
def test_a_document_comes_back_as_it_was_kept(document):
    form = policy.ParsedPolicies({"any.yaml": document}, [])
    again = policy.form_of("k", policy.packed_form("k", form))
    assert again == form
    assert list(again.documents["any.yaml"]) == list(document)
