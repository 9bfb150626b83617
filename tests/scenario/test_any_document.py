"""Whatever somebody writes is a scenario or a list of mistakes, never anything else."""

import json

from hypothesis import given, settings, strategies as st

from memplane.home import asset
from memplane.scenario import Scenario, ScenarioError, read_scenario
from tests.examples import examples

SCHEMA = json.loads(asset("schemas/scenario.schema.json"))


def words_of(schema):
    """Every key and word that the schema knows."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                yield from value
            if key == "enum":
                yield from value
            yield from words_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from words_of(value)


WORDS = sorted({word for word in words_of(SCHEMA) if isinstance(word, str)})
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 70_000), st.floats(allow_nan=False, width=32),
    st.sampled_from(["", "a", "'", "one", "2026-01-05T12:00:00Z", *WORDS]), st.text(max_size=5),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
    ),
    max_leaves=12,
)


def of(schema, depth=0):
    """Values that a schema allows, more or less: most of what a slip of the pen leaves as it is."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    kind = schema.get("type")
    if "then" in schema and "else" in schema:
        made = st.one_of(of(schema["then"], depth), of(schema["else"], depth))
    elif "const" in schema or "enum" in schema:
        made = st.sampled_from(schema.get("enum", [schema.get("const")]))
    elif kind == "array" and depth < 7:
        made = st.lists(of(schema["items"], depth + 1), min_size=1, max_size=2)
    elif kind == "object" and depth < 7:
        made = mapping_of(schema, depth)
    elif kind == "integer":
        made = st.integers(schema.get("minimum", 0), min(9, schema.get("maximum", 9)))
    else:
        made = st.sampled_from(["one", "two", "a"]) if kind == "string" else LEAVES
    return made


def mapping_of(schema, depth):
    known = schema.get("properties", {})
    if not known:
        return st.dictionaries(st.sampled_from(["a", "b"]), LEAVES, max_size=2)
    needed = {key: of(known[key], depth + 1) for key in schema.get("required", ())}
    most = schema.get("maxProperties", 3)
    keys = st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=most, unique=True)
    return keys.flatmap(
        lambda some: st.fixed_dictionaries(
            needed | {key: of(known[key], depth + 1) for key in some}
        )
    )


def read(document):
    def open_file(name):
        raise FileNotFoundError(2, "No such file or directory")

    try:
        return read_scenario(
            "a.yaml", json.dumps(document, ensure_ascii=False).encode(errors="replace"),
            schema=json.dumps(SCHEMA).encode(), open_file=open_file,
        )  # fmt: skip
    except ScenarioError as error:
        return error.problems


@settings(max_examples=examples(50))
@given(
    given_=VALUES, when=VALUES, assertions=VALUES, more=st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=2)
)  # fmt: skip
def test_any_document_is_a_scenario_or_a_list_of_mistakes(given_, when, assertions, more):
    document = {"version": 1, "scenario": "a", "given": given_, "when": when}
    found = read({**document, "assertions": assertions, **more})
    assert isinstance(found, Scenario) or all(problem.message for problem in found)


@settings(max_examples=examples(50))
@given(
    given_=of(SCHEMA["properties"]["given"]), when=of(SCHEMA["properties"]["when"]),
    assertions=of(SCHEMA["properties"]["assertions"]), long=st.booleans(),
)  # fmt: skip
def test_what_looks_right_is_a_scenario_or_a_list_of_mistakes(given_, when, assertions, long):
    document = {"version": 1, "scenario": "a", "given": given_, "when": when, "long": long}
    found = read({**document, "assertions": assertions})
    if isinstance(found, Scenario):
        assert len(found.steps) == len(when)
        assert len(found.assertions) == len(assertions)
    else:
        assert all(problem.message for problem in found)
