"""Whatever stands in the files: records or a PolicyError, and the same on each run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memplane.errors import PolicyError
from memplane.policy import NAMES, Policies, load_policies
from memplane.policy.document import read_document, without_places
from tests.examples import examples

TOP = Path(__file__).parents[2]
SNIPPETS = st.sampled_from(
    [
        "version: 1\n", "version: ", "sections:", "limits:", "channels:", "intents:", "log:",
        "\n", "\n  ", "- ", ": ", "{", "}", "[", "]", ", ", "&a ", "*a", "!!x ", "? ", "| ", "> ",
        "'", '"', "#", "---\n", "...\n", "%YAML 1.1\n", "\t", "\0", "\r", "<<: ", "~", "true",
        ".nan", "1e999", "-1", "65000", "rules", "name", "views/a.md", "max_tokens", "priority",
        "store: ", "load: ", "channel_rules: ", "redact_patterns: ", "(", "\x85", "\ufeff", "é",
    ]
)  # fmt: skip
YAMLISH = st.lists(SNIPPETS | st.text(max_size=3), max_size=25).map("".join)
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def outcome(files, defaults, schemas, kept):
    try:
        return load_policies(
            files, defaults=defaults, schemas=schemas, version="1.2", cached=kept.get
        )
    except PolicyError as error:
        return "\n".join(str(problem) for problem in error.problems) or error


def file_bytes():
    text = YAMLISH.map(lambda text: text.encode("utf-8", "surrogatepass"))
    return st.binary(max_size=60) | text | text.map(lambda data: b"version: 1\n" + data)


def always_the_same(kept, name, data, *shipped):
    first = outcome({name: data}, *shipped, kept)
    assert isinstance(first, Policies | str)
    assert outcome({name: data}, *shipped, kept) == first


@settings(max_examples=examples(26), deadline=None)
@given(name=st.sampled_from(NAMES), data=file_bytes())
def test_any_bytes_give_records_or_a_policy_error_and_the_same_each_time(
    defaults, schemas, kept, name, data
):
    always_the_same(kept, name, data, defaults, schemas)


@pytest.mark.long
@settings(max_examples=examples(2_000), deadline=None)
@given(name=st.sampled_from(NAMES), data=file_bytes())
def test_thousands_of_files_give_records_or_a_policy_error_and_the_same_each_time(
    defaults, schemas, kept, name, data
):
    always_the_same(kept, name, data, defaults, schemas)


@settings(max_examples=examples(50), deadline=None)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_a_default_file_with_any_value_in_any_place_gives_records_or_a_policy_error(
    defaults, schemas, kept, name, data
):
    lines = defaults[name].decode().split("\n")
    keyed = [n for n, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    at = data.draw(st.sampled_from(keyed))
    value = data.draw(JSONISH | YAMLISH)
    lines[at] = lines[at].split(":", 1)[0] + ": " + str(value)
    changed = "\n".join(lines).encode("utf-8", "surrogatepass")
    assert isinstance(outcome({name: changed}, defaults, schemas, kept), Policies | str)


@given(data=file_bytes())
def test_what_can_be_read_is_plain_values_with_a_place_for_each(data):
    root, _ = read_document("any.yaml", data)
    if root is not None:
        assert without_places(root) == without_places(root)
        assert root.at >= (1, 1)


def test_mistakes_and_records_do_not_depend_on_the_hash_seed():
    program = """
import sys
from pathlib import Path
from memplane.errors import PolicyError
from memplane.policy import NAMES, load_policies
top = Path(sys.argv[1])
defaults = {name: (top / "policies" / name).read_bytes() for name in NAMES}
schemas = {path.name: path.read_bytes() for path in sorted((top / "schemas").glob("*.json"))}
kept = []
print(load_policies({}, defaults=defaults, schemas=schemas, keep=lambda *kept_form: kept.append(kept_form)))
print(kept)
broken = b"foo: {a: 1}\\nbar: [x]\\nsections: {x: {a: 1, b: 2, kinds: [c, d]}, rulse: {}}\\nload: 3\\n"
try:
    load_policies(dict.fromkeys(NAMES, broken), defaults=defaults, schemas=schemas)
except PolicyError as error:
    print(error)
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program, str(TOP)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(TOP)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(printed) == 1
