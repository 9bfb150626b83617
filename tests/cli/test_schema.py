"""`memplane schema`: one schema, or their names."""

import json

import memplane
from memplane.home import SCHEMAS


def test_schema_prints_one_schema_and_lists_them_without_a_name(run):
    assert run("schema").out.split() == list(SCHEMAS)
    assert json.loads(run("schema", "--json").out) == list(SCHEMAS)
    done = run("schema", "acb")
    assert (done.code, done.err, done.out.encode()) == (0, "", memplane.schema("acb"))
    assert json.loads(run("schema", "event.schema.json", "--json").out)["title"]
    wrong = run("schema", "events")
    assert (wrong.code, wrong.out) == (2, "")
    assert "expected one of acb, budgets" in wrong.err
