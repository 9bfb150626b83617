"""The tables by which a block is laid out: every section has a turn, and none in the head a query."""

from itertools import groupby
from pathlib import Path

import pytest

from memplane.pack.layout import PARTS
from memplane.pack.pack import ORIENT_TABLE, TABLE
from memplane.policy import NAMES, load_policies

TOP = Path(__file__).parents[2]
DEFAULTS = {name: (TOP / "policies" / name).read_bytes() for name in NAMES}
SCHEMAS = {
    name: (TOP / "schemas" / name).read_bytes()
    for name in (name.replace(".yaml", ".schema.json") for name in NAMES)
}
TABLES = {"table": TABLE, "orient": ORIENT_TABLE}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_section_of_the_policy_and_each_part_has_a_turn(table):
    sections = load_policies({}, defaults=DEFAULTS, schemas=SCHEMAS).budgets.sections
    own = ""
    assert {section.name for section in sections} | {own} == {row.section for row in table}
    assert {part.section for part in PARTS} <= {row.section for row in table}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_stages_come_in_order_and_rows_by_priority_are_one_group(table):
    assert [stage for stage, _ in groupby(table, key=lambda row: row.stage)] in (
        ["head", "middle", "tail"],
        ["tail"],
    )
    assert sum(ordered for ordered, _ in groupby(table, key=lambda r: r.takes == "priority")) <= 1


def test_no_section_of_the_head_is_given_the_query():
    assert [row.section for row in TABLE if row.stage == "head" and row.search is not None] == []
    assert [row.section for row in TABLE if row.stage == "head" and row.takes != "own"] == []
