"""As the budget grows, blocks grow: no section goes, and no cliff where the ladder begins."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from tests.examples import examples

BUDGETS = [160, 199, 200, 240, 300, 400, 520, 700, 900, 999, 1000, 1400, 2000, 4000]


def rows(decisions: int, turns: int, calls: int, cards: int, tasks: int) -> list[dict]:
    made = [
        {"kind": "decision", "key": f"post.{n}", "text": f"Post {n} is watched by two herons."}
        for n in range(decisions)
    ]
    made += [
        {"kind": "insight", "text": f"Reeds of sort {n} grow back within {n + 2} weeks."}
        for n in range(cards)
    ]
    made += [
        {"kind": "task", "task": f"t{n}", "text": f"Count nest {n}",
         "data": {"status": "active" if n == 0 else "todo"}}
        for n in range(tasks)
    ]  # fmt: skip
    made += [
        {"kind": "message", "role": "user" if n % 2 else "assistant", "session": f"s{n // 9}",
         "text": f"Turn {n}: the ferry leaves pier {n % 7} with {n} crates of salt for the lake."}
        for n in range(turns)
    ]  # fmt: skip
    for n in range(calls):
        made.append({"kind": "tool_call", "role": "tool", "session": "s0", "text": f"make part {n}",
                     "data": {"tool": f"Tool{n}", "call": f"c{n}"}})  # fmt: skip
        made.append({"kind": "tool_result", "role": "tool", "session": "s0", "text": f"part {n} ok",
                     "data": {"tool": f"Tool{n}", "call": f"c{n}", "status": "ok"}})  # fmt: skip
    return made


def used(block) -> dict[str, int]:
    return {name: row["used"] for name, row in block.report["sections"].items()}


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    counts=st.fixed_dictionaries({
        "decisions": st.integers(0, 30), "turns": st.integers(0, 60), "calls": st.integers(0, 12),
        "cards": st.integers(0, 8), "tasks": st.integers(0, 6),
    }),
    query=st.sampled_from(["", "which ferry leaves with crates of salt", "continue"]),
    session=st.sampled_from([None, "s0"]),
    intent=st.sampled_from(["auto", "fast"]),
    shares=st.booleans(),
)  # fmt: skip
def test_no_section_that_has_entries_shrinks_to_nothing(
    tmp_path_factory, counts, query, session, intent, shares
):
    home = tmp_path_factory.mktemp("growing") / "plane"
    with memplane.init(home) as plane:
        (home / "views" / "identity.md").write_text("You keep the lake's ledger.\n")
        (home / "views" / "rules.project.md").write_text("Count twice.\nNever feed herons.\n")
        if not shares:
            policy = home / "policies" / "budgets.yaml"
            policy.write_text(
                "version: 1\nsections:\n  retrieved_evidence: {max_tokens: 28000, priority: 7}\n"
            )
        plane.record_many(rows(**counts))
        before: dict[str, set[str]] = {}
        for budget in BUDGETS:
            block = plane.pack(query, session=session, intent=intent, budget=budget)
            now = shown(block)
            everywhere = set().union(*now.values())
            # What stands in another section by now is not gone.
            gone = {name: ids for name, ids in before.items() if ids - everywhere and not now[name]}
            # Without shares the last in line get next to nothing of a small block.
            assert not (gone and shares), (budget, used(block))
            keeps_to_its_share(block)
            before = now


def shown(block) -> dict[str, set[str]]:
    """What each section shows: events, of which the whole or a part stands there, and views."""
    found: dict[str, set[str]] = {name: set() for name in block.report["sections"]}
    for entry in block.entries:
        found[entry.section].update(entry.events, entry.parts, () if entry.seq else (entry.source,))
    return found


def keeps_to_its_share(block) -> None:
    left_out = any(
        one.section == "retrieved_evidence" and one.reason == "budget" for one in block.omissions
    )
    tools = block.report["sections"].get("tool_state")
    if left_out and tools is not None:
        assert tools["used"] <= tools["share_ppm"] * block.report["budget"] // 1_000_000


@pytest.fixture
def busy(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record_many(rows(decisions=4, turns=200, calls=40, cards=3, tasks=2))
        yield plane


@pytest.mark.parametrize("query", ["which ferry leaves with crates of salt", "pier 3"])
def test_there_is_no_cliff_where_the_ladder_begins(busy, query):
    blocks = [busy.pack(query, budget=budget) for budget in (999, 1000)]
    for block in blocks:
        keeps_to_its_share(block)
        assert used(block)["tool_state"] <= 100
    below, at = map(used, blocks)
    for name in below:
        assert abs(below[name] - at[name]) <= 120, name
    assert below["retrieved_evidence"] > 250


def test_what_no_other_section_needs_goes_to_what_was_left_short(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record_many(rows(decisions=0, turns=0, calls=40, cards=0, tasks=0))
        for budget in (300, 500, 1000):
            asked = ["tool_state", "retrieved_evidence"]
            block = plane.pack("nothing answers this", budget=budget, sections=asked)
            assert used(block)["tool_state"] > 100


BY_PRIORITY = """\
version: 1
sections:
  identity:           {max_tokens: 1200,  priority: 10}
  rules:              {max_tokens: 6000,  priority: 9}
  task_state:         {max_tokens: 3000,  priority: 9}
  relevant_decisions: {max_tokens: 8000,  priority: 8}
  retrieved_evidence: {max_tokens: 28000, priority: 7}
  recent_window:      {max_tokens: 12000, priority: 6}
  tool_state:         {max_tokens: 2000,  priority: 6}
"""


@pytest.fixture
def ranked(tmp_path):
    """Forty decisions and a session, where the priorities divide a block."""
    with memplane.init(tmp_path / "plane") as plane:
        (plane.home / "policies" / "budgets.yaml").write_text(BY_PRIORITY)
        plane.record_many(rows(decisions=40, turns=9, calls=0, cards=0, tasks=0))
        yield plane


def decided(block) -> dict[str, int]:
    """How many decisions stand in each area under their own section."""
    areas = [entry.part for entry in block.entries if entry.section == "relevant_decisions"]
    return {area: areas.count(area) for area in areas}


def test_where_priorities_divide_decisions_take_what_the_sections_before_them_leave(ranked):
    prompt = "Turn 8: the ferry leaves pier 1 with 8 crates of salt for the lake."
    found = {}
    for budget in (1000, 2000, 4000, 8000):
        block = ranked.pack(prompt, session="s0", budget=budget)
        found[budget] = decided(block)
        used = block.report["sections"]["relevant_decisions"]
        assert used["used"] <= used["cap"]
    assert [sum(areas.values()) for areas in found.values()] == sorted(
        sum(areas.values()) for areas in found.values()
    )
    assert found[4000]["B"] <= 10
    assert sum(found[4000].values()) == 40


def test_no_more_decisions_stand_in_the_tail_than_the_policy_takes_in_all(ranked):
    policy = ranked.home / "policies" / "budgets.yaml"
    policy.write_text(BY_PRIORITY + "limits: {decisions_max: 12}\n")
    block = ranked.pack("", session="s0", budget=4000)
    assert decided(block)["B"] < 12 == sum(decided(block).values())


def test_what_stands_in_the_tail_moves_no_head(ranked):
    before = ranked.pack("", session="s0", budget=4000)
    (ranked.home / "views" / "rules.project.md").write_text("")
    ranked.record("Post 40 is watched by an owl.", kind="decision", key="post.40", session="s0")
    after = ranked.pack("", session="s0", budget=4000)
    kept = before.report["prefix"]["stable_bytes"]["prompt"]
    assert after.text.encode().startswith(before.text.encode()[:kept])
    assert decided(after)["B"] == decided(before)["B"]
