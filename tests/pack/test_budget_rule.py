"""What a budget may be: the error says the same as the rule."""

import re

import pytest

import memplane
from memplane.errors import BudgetError


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
        yield plane


def test_a_budget_of_no_token_is_refused_by_the_rule_that_takes_every_other_number(plane):
    for asked in (0, -1):
        with pytest.raises(BudgetError) as raised:
            plane.pack("x", budget=asked)
        assert str(raised.value) == (
            f"budget: expected 1 token or more (60000 count of it at most), found {asked}"
        )
    for asked in (1, 60_000, 60_001, 10**9):
        assert plane.pack("x", budget=asked).report["budget"] == min(asked, 60_000)


@pytest.mark.parametrize("asked", [0, -1, True, 1.5, "many"])
def test_a_handle_refuses_the_same_budgets_with_the_same_error(plane, asked):
    for ask in (lambda: plane.pack("x", budget=asked), lambda: plane.expand("event/2", asked)):
        with pytest.raises(BudgetError, match=re.escape("found " + repr(asked))):
            ask()
