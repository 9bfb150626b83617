"""The JSON Schemas that ship: all of them are named, and each stands alone."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

import memplane
from memplane.errors import InputError
from memplane.home import SCHEMAS

ROOT = Path(__file__).parents[1]


def references(value):
    if isinstance(value, dict):
        yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
        yield from (ref for one in value.values() for ref in references(one))
    elif isinstance(value, list):
        yield from (ref for one in value for ref in references(one))


def test_every_schema_that_ships_has_a_name():
    shipped = sorted(file.name for file in (ROOT / "schemas").iterdir())
    assert shipped == [f"{name}.schema.json" for name in SCHEMAS]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_resolves_alone(name):
    whole = json.loads(memplane.schema(name))
    Draft202012Validator.check_schema(whole)
    registry = Registry().with_contents([("", whole)]).crawl()
    base = registry.resolver(whole.get("$id", ""))
    for ref in references(whole):
        # References of a document that is held inside are relative to that one.
        bases = [base, *(base.lookup(one["$id"]).resolver for one in whole.get("$defs", {}).values() if "$id" in one)]  # fmt: skip
        assert any(resolves(one, ref) for one in bases), ref


def resolves(resolver, ref):
    try:
        resolver.lookup(ref)
    except Unresolvable:
        return False
    return True


def test_a_block_is_checked_by_the_schema_of_blocks_alone(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
        block = json.loads(json.dumps(plane.pack("which database?").as_json()))
    check = Draft202012Validator(json.loads(memplane.schema("acb")), registry=Registry())
    check.validate(block)
    block["report"]["version"] = 0
    assert not check.is_valid(block)


def test_a_new_plane_has_every_schema_where_headers_of_policies_and_scenarios_name_them(tmp_path):
    memplane.init(tmp_path / "p", trusted=False).close()
    copied = {file.name: file.read_bytes() for file in (tmp_path / "p" / "schemas").iterdir()}
    assert copied == {f"{name}.schema.json": memplane.schema(name) for name in SCHEMAS}


def test_a_name_of_no_schema_is_answered_with_those_there_are():
    with pytest.raises(InputError, match=r"expected one of acb, .*, found 'acc'"):
        memplane.schema("acc")
