"""intent=orient: map, tasks, decisions, cards, last sessions, for who has just come."""

import pytest
from builders_planes import rows
from hypothesis import given, settings, strategies as st

import memplane
from tests.examples import examples

GOLDEN = """\
## Map of this memory
recorded: decisions 2, rules 1, plans 1, messages 10+, sessions 3+
open tasks: parse
keys: db.*
## Tasks
task parse (active): Rewrite the parser
 - decided: We keep PostgreSQL
## Decisions
decision: We ship on Fridays
## Knowledge
rule: Never push to main. Ask first.
## Last sessions
plan: Next come the tests.
session 01-05 "make the index faster, part 0": Came to: Done with part 2.
session 01-05 "make the index faster, part 0": Came to: Done with part 2.
 Decided on: db.engine
"""


@pytest.fixture
def busy(plane):
    plane.record("We ship on Fridays", kind="decision")
    plane.record("Rewrite the parser", kind="task", task="parse", data={"status": "active"})
    for session in ("s0", "s1"):
        plane.record(kind="session", session=session, data={"status": "start"})
        for n in range(3):
            plane.record(f"Please make the index faster, part {n}", role="user", session=session)
            plane.record(f"Done with part {n}.", role="assistant", session=session)
        if session == "s0":
            plane.record("We keep PostgreSQL", kind="decision", key="db.engine", session="s0")
            plane.work.sessions.end("s0")
    plane.record("Never push to main. Ask first.", kind="rule")
    plane.record("Next come the tests.", kind="plan", session="s2")
    return plane


def headings(block) -> list[str]:
    return [line for line in block.text.split("\n") if line.startswith("## ")]


def test_a_newcomer_reads_map_tasks_decisions_cards_and_last_sessions_in_this_order(busy):
    block = busy.pack(intent="orient", budget=2000)
    body = block.text.removeprefix("memplane:begin\n")
    assert body.startswith(GOLDEN)
    assert block.report["intent"] == "orient"


@pytest.mark.parametrize("query", ["where were we?", "Catch me up please", "status"])
def test_the_words_of_a_query_without_a_session_are_enough(busy, query):
    asked, plain = busy.pack(query, budget=2000), busy.pack(intent="orient", budget=2000)
    assert headings(asked)[:5] == headings(plain)[:5] == headings(plain)[:5]
    assert headings(asked)[0] == "## Map of this memory"
    assert asked.report["sections"] != busy.pack("which?", budget=2000).report["sections"]


def test_in_a_session_such_a_prompt_moves_nothing_and_adds_the_last_sessions(busy):
    busy.record(kind="session", session="now", data={"status": "start"})
    busy.record("Let us begin.", role="user", session="now")
    before = busy.pack(session="now", budget=2000)
    busy.record("where were we?", role="user", session="now")
    after = busy.pack(session="now", budget=2000)
    end = before.report["prefix"]["stable_bytes"]["prompt"]
    assert after.text.encode().startswith(before.text.encode()[:end])
    assert after.report["intent"] == "orient"
    assert "## Last sessions\n" in after.text
    assert "## Last sessions\n" not in before.text
    rooms = [
        {name: row["room"] for name, row in block.report["sections"].items()}
        for block in (before, after)
    ]
    assert rooms[0] == rooms[1]


def test_in_a_busy_session_too_the_last_sessions_find_room(busy):
    busy.record(kind="session", session="now", data={"status": "start"})
    for n in range(120):
        busy.record(f"Turn {n} of a long talk. " * 5, role="assistant", session="now")
    busy.record("where were we?", role="user", session="now")
    block = busy.pack(session="now", budget=4000)
    assert "Decided on: db.engine" in block.text.partition("## Last sessions\n")[2]
    assert block.tokens <= 4000


def test_sessions_in_which_nothing_was_said_hide_none_in_which_something_was(busy):
    for n in range(20):
        for status in ("start", "end"):
            busy.record(kind="session", session=f"empty{n}", data={"status": status})
    said = busy.pack(intent="orient", budget=2000).text.partition("## Last sessions\n")[2]
    for text in ("Decided on: db.engine", "Done with part 2.", "Next come the tests."):
        assert text in said


def test_the_asking_session_is_no_last_session(busy):
    block = busy.pack(session="s1", intent="orient", budget=2000)
    sessions = block.text.partition("## Last sessions\n")[2].partition("## ")[0]
    assert "Decided on: db.engine" in sessions
    assert "\nassistant: Done with part 2." not in sessions


def test_everything_but_views_and_map_is_the_tail_so_tasks_may_change(busy):
    block = busy.pack(session="s1", intent="orient", budget=2000)
    assert {e.part for e in block.entries} <= {"A", "B", "G"}
    assert {e.section for e in block.entries if e.part == "B"} <= {"system_map"}
    assert [point["part"] for point in block.report["prefix"]["breakpoints"]] == ["B", "D", "F"]
    ends = {point["byte"] for point in block.report["prefix"]["breakpoints"]}
    assert ends == {block.text.index("## Tasks\n")}


def test_a_session_that_is_forgotten_or_not_for_the_channel_is_no_last_session(busy):
    busy.record("The merger is on.", role="user", session="hush", sensitivity="high")
    assert "The merger" in busy.pack(intent="orient", budget=2000).text
    assert "The merger" not in busy.pack(intent="orient", budget=2000, channel="team").text
    busy.forget(session="s0")
    text = busy.pack(intent="orient", budget=2000).text
    assert "Decided on" not in text
    assert "PostgreSQL" not in text


def test_a_policy_may_give_the_sections_other_shares(busy):
    budgets = busy.home / "policies" / "budgets.yaml"
    text = budgets.read_text()
    row = "  system_map:         {max_tokens: 800,   priority: 5,  share: 0.02"
    assert row in text
    budgets.write_text(text.replace(row, row + ", share_orient: 0"))
    assert "## Map" not in busy.pack(intent="orient", budget=2000).text


def test_what_no_section_needs_is_not_filled_with_old_turns(busy):
    for n in range(200):
        busy.record(f"turn {n} of a long talk about nothing", role="assistant", session="talk")
    block = busy.pack(intent="orient", budget=4000)
    assert block.report["sections"]["recent_window"]["used"] <= 4000 * 22 // 100


@settings(max_examples=examples(8))
@given(st.integers(0, 10_000), st.integers(1, 6000), st.sampled_from(["s0", "s9", None]))
def test_no_block_to_orient_passes_its_budget_and_none_differs_from_the_next(
    tmp_path_factory, seed, budget, session
):
    with memplane.init(tmp_path_factory.mktemp("orient"), durability="os") as plane:
        plane.record_many(rows(seed, 60))
        now = "2026-01-05T12:00:00Z"
        asked = {"intent": "orient", "budget": budget, "session": session, "now": now}
        one, two = plane.pack(**asked), plane.pack(**asked)
        assert one.tokens <= budget
        assert one.text == two.text
        assert plane.at(plane.head().seq).pack(**asked).text == one.text
        parts = [part for part in headings(one) if part.startswith(("## Map", "## Knowledge"))]
        assert parts == sorted(parts, reverse=True)


@pytest.mark.parametrize("budget", [1, 10, 30, 50, 80, 120, 2000])
def test_a_block_that_is_too_small_for_any_of_the_map_says_what_was_short(busy, budget):
    block = busy.pack(intent="orient", budget=budget)
    lost = [one for one in block.omissions if one.id == "projection:plane_map"]
    if "## Map" in block.text:
        assert lost == []
    else:
        (one,) = lost
        assert (one.section, one.reason) == ("system_map", "budget")
        assert one.short_by > 0
    assert block.tokens <= budget
    asked = {"intent": "orient", "sections": ["system_map"]}
    alone = busy.pack(budget=budget, **asked)
    for one in (lost for lost in alone.omissions if lost.section == "system_map"):
        assert "## Map" in busy.pack(budget=budget + one.short_by, **asked).text


def test_where_there_is_nothing_to_tell_no_map_is_missed(plane):
    plane.record("hello", role="user")
    block = plane.pack(intent="orient", budget=20)
    assert not [one for one in block.omissions if one.section == "system_map"]


def test_what_a_session_came_to_is_said_once(busy):
    """The digest under the last sessions stands for the summary that was recorded at its end."""
    (summary,) = busy.events(kind="summary")
    block = busy.pack(intent="orient", budget=2000)
    _, _, earlier = block.text.partition("## Earlier")
    assert earlier
    assert "Came to" not in earlier
    left = {one.id: one.reason for one in block.omissions}
    assert left[summary.id] == "duplicate"
