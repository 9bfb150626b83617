"""The schema of scenarios is valid, says what each value is, and knows what the code knows."""

import json

import jsonschema
import yaml

from memplane.event import KINDS, ROLES, SENSITIVITIES, UPKEEP_KINDS
from memplane.home import asset
from memplane.policy import NAMES
from memplane.scenario import ASSERTIONS, STEPS, TIMED
from memplane.scenario.document import MAIN

SCHEMA = json.loads(asset("schemas/scenario.schema.json"))
DEFINED = SCHEMA["$defs"]


def parts_of(schema):
    yield schema
    for key in ("items", "additionalProperties", "propertyNames", "then", "else"):
        if isinstance(schema.get(key), dict):
            yield from parts_of(schema[key])
    for key in ("properties", "$defs"):
        for part in schema.get(key, {}).values():
            yield from parts_of(part)


def test_it_is_a_valid_schema_of_draft_2020_12():
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_each_value_that_a_mistake_may_name_says_what_it_must_be():
    for part in parts_of(SCHEMA):
        if {"type", "enum", "const"} & set(part):
            assert part["title"], part
            assert part["description"], part


def test_no_mapping_takes_keys_that_mean_nothing():
    for part in parts_of(SCHEMA):
        if part.get("type") == "object":
            assert "additionalProperties" in part, part


def test_it_knows_the_steps_and_assertions_that_the_runner_knows():
    step = DEFINED["step"]["else"]
    assert list(step["properties"]) == list(STEPS)
    one = DEFINED["assertion"]["else"]
    assert set(one["else"]["properties"]) == set(ASSERTIONS)
    assert set(one["then"]["properties"]["type"]["enum"]) == set(ASSERTIONS)
    for name in ASSERTIONS:
        said = DEFINED[f"assert_{name}"]["properties"]
        assert said["type"]["const"] == name
        assert name not in MAIN or MAIN[name] in said
    assert set(ASSERTIONS) >= TIMED


def test_it_knows_the_words_of_events_and_policies():
    event = DEFINED["event"]["properties"]
    assert event["kind"]["anyOf"][0]["enum"] == [kind for kind in KINDS if kind not in UPKEEP_KINDS]
    assert event["role"]["enum"] == list(ROLES)
    assert event["sensitivity"]["enum"] == list(SENSITIVITIES)
    assert [f"{stem}.yaml" for stem in DEFINED["policies"]["properties"]] == list(NAMES)


def test_the_suite_is_valid_for_any_reader_of_the_schema(suite):
    reader = jsonschema.validators.validator_for(SCHEMA)
    reader.check_schema(SCHEMA)
    for file in suite:
        reader(SCHEMA).validate(yaml.safe_load(file.read_text()))
