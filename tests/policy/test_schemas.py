"""The schemas are valid, say what each value is, and know the same words as the code."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
import yaml

from memplane import tokens
from memplane.event import KINDS, MARKERS, SENSITIVITIES, UPKEEP_KINDS
from memplane.policy import NAMES, Limits
from memplane.policy.records import STANDARD

RECORDED_KINDS = [kind for kind in KINDS if kind not in UPKEEP_KINDS]


@pytest.fixture(params=[name.removesuffix(".yaml") for name in NAMES])
def schema(request, schemas):
    return json.loads(schemas[f"{request.param}.schema.json"])


def parts_of(schema):
    yield schema
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(key), dict):
            yield from parts_of(schema[key])
    for key in ("properties", "$defs"):
        for part in schema.get(key, {}).values():
            yield from parts_of(part)


def test_each_schema_is_a_valid_one_of_draft_2020_12(schema):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_each_value_has_a_title_and_a_description(schema):
    for part in parts_of(schema):
        assert "$ref" in part or (part["title"] and part["description"]), part


def test_no_mapping_takes_keys_that_govern_nothing(schema):
    for part in parts_of(schema):
        if part.get("type") == "object":
            assert "additionalProperties" in part, part


def test_the_default_files_are_valid_for_any_reader_of_the_schemas(defaults, schemas):
    for name in NAMES:
        schema = json.loads(schemas[name.replace(".yaml", ".schema.json")])
        jsonschema.validate(yaml.safe_load(defaults[name]), schema)


def test_the_schemas_know_the_same_words_as_the_code(schemas):
    budgets, privacy, scoring = (
        json.loads(schemas[f"{stem}.schema.json"]) for stem in ("budgets", "privacy", "scoring")
    )
    for schema in (budgets, privacy):
        listed, custom = schema["$defs"]["kind"]["anyOf"]
        assert listed["enum"] == RECORDED_KINDS
        assert re.search(custom["pattern"], "custom:step")
    rule = privacy["$defs"]["rule"]["properties"]
    assert rule["suppress_sensitivity"]["items"]["enum"] == list(SENSITIVITIES)
    sections = budgets["properties"]["sections"]["properties"]
    assert list(sections) == [section.name for section in STANDARD]
    assert list(budgets["properties"]["limits"]["properties"]) == list(Limits._fields)
    boosts = scoring["properties"]["marker_boosts"]["properties"]
    assert set(boosts) == {*MARKERS, "custom", "custom:instruction"}


def test_the_counters_are_those_that_can_be_made(schemas):
    budgets = json.loads(schemas["budgets.schema.json"])
    assert budgets["properties"]["counter"]["enum"] == list(tokens.NAMES)
