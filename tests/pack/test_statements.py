"""What is stated in a session stays in its blocks when the turns around it have left the window."""

import random
from collections import Counter

import pytest

from memplane.projections.hotset import SESSIONS, STATED, STATED_BYTES
from tests.examples import paired
from tests.pack.test_prefix_law import holds

PROMPT = "continue"


def shown(block, areas="ABCDEFG") -> set[str]:
    found = [entry for entry in block.entries if entry.part in areas]
    return {id_ for entry in found for id_ in (*entry.events, *entry.parts)}


def start(plane, session="s"):
    plane.record(kind="session", session=session, data={"status": "start"})


def turns(plane, count, session="s"):
    plane.record_many(
        {
            "text": f"turn {number} about herons and their nests in the tall trees",
            "role": "user" if number % 5 == 0 else "assistant",
            "session": session,
        }
        for number in range(count)
    )


def say(plane, text, **fields) -> str:
    return plane.record(text, **{"session": "s", **fields}).id


@pytest.fixture
def stated(plane):
    """Twenty decisions, five rules and five constraints, then 240 turns and a prompt."""
    start(plane)
    ids = {
        "decisions": [
            say(plane, f"The service {n} uses port {7 * n}", kind="decision", key=f"svc.{n}")
            for n in range(20)
        ],
        "rules": [
            say(plane, f"Run check {n} before a merge", kind="rule", key=f"rule.{n}")
            for n in range(5)
        ],
        "constraints": [
            say(plane, f"Constraint: module {n} must not import module {n + 1}", role="user")
            for n in range(5)
        ],
    }
    plane.pin(key="svc.3")
    turns(plane, 240)
    say(plane, PROMPT, role="user")
    return ids


@pytest.mark.parametrize("query", ["", PROMPT])
@pytest.mark.parametrize("budget", [4000, 8000])
def test_all_that_a_session_stated_is_in_its_block_after_240_turns(plane, stated, budget, query):
    block = plane.pack(query, session="s", budget=budget)
    every = {id_ for ids in stated.values() for id_ in ids}
    assert every <= shown(block)
    assert block.tokens <= budget
    # And what comes first is where a provider's cache keeps it.
    assert {*stated["constraints"], *stated["rules"]} <= shown(block, "C")


@pytest.mark.parametrize("budget", [1000, 2000])
def test_a_small_block_has_what_is_pinned_the_constraints_and_the_newest(plane, stated, budget):
    block = plane.pack(PROMPT, session="s", budget=budget)
    pinned = stated["decisions"][3]
    newest = {stated["decisions"][-1], stated["rules"][-1]}
    assert {pinned, *stated["constraints"], *newest} <= shown(block)
    assert {pinned, *stated["constraints"]} <= shown(block, "C")


def test_in_the_little_room_of_c_stand_rules_before_decisions_and_the_newest_first(plane, stated):
    shares = {budget: shown(plane.pack(session="s", budget=budget), "C") for budget in (2000, 4000)}
    assert set(stated["constraints"]) < shares[2000] < shares[4000]
    assert not shares[2000] & {*stated["decisions"]} - {stated["decisions"][3]}
    there = [id_ in shares[4000] for id_ in stated["decisions"] if id_ != stated["decisions"][3]]
    assert True in there
    assert there == sorted(there), "the older ones gave way"


def test_what_fits_nowhere_is_an_omission_for_the_budget(plane):
    start(plane)
    ids = [
        say(plane, f"number {n}: {'long words of reasoning ' * 20}", kind="rule", key=f"r{n}")
        for n in range(60)
    ]
    turns(plane, 40)
    block = plane.pack(session="s", budget=2000)
    left = {one.id: one.reason for one in block.omissions}
    assert ids[-1] in shown(block)
    assert {left[id_] for id_ in ids if id_ not in shown(block)} == {"budget"}


KINDS_STATED = [
    {"kind": "rule"},
    {"kind": "preference"},
    {"kind": "decision"},
    {"kind": "fact", "key": "k"},
    {"kind": "rule", "ns": "/task/t"},
    {"kind": "preference", "ns": "/spec/parser", "key": "k"},
    {"role": "user", "markers": ["goal"]},
    {"role": "assistant", "markers": ["decision"]},
    {"role": "assistant", "markers": ["constraint"]},
]


@pytest.mark.parametrize(("fields", "budget"), paired(KINDS_STATED, [500, 2000, 4000], 3))
def test_each_kind_of_statement_stays_at_hand(plane, fields, budget):
    start(plane)
    id_ = say(plane, "wading birds come first", **fields)
    turns(plane, 220)
    assert id_ in shown(plane.pack(session="s", budget=budget))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "fact"},
        {"kind": "observation", "key": "k"},
        {"role": "user", "markers": ["custom:note"]},
        {"role": "assistant", "markers": ["failure"]},
        {"role": "tool", "kind": "tool_result", "markers": ["constraint"]},
        {"role": "assistant", "kind": "tool_call", "markers": ["decision"]},
        {"role": "tool", "kind": "decision"},
        {"role": "system", "markers": ["constraint"]},
    ],
)
def test_what_a_tool_says_and_other_marks_hold_no_place(plane, fields):
    start(plane)
    id_ = say(plane, "wading birds come first", **fields)
    turns(plane, 220)
    assert id_ not in shown(plane.pack(session="s", budget=4000), "C")
    assert not any(e.part == "G" and e.section == "task_state"
                   for e in plane.pack(session="s", budget=4000).entries)  # fmt: skip


def test_a_correction_acts_at_once(plane, stated):
    plane.forget("rule.2")
    plane.record("Skip check 3", kind="rule", key="rule.3", session="s")
    found = shown(plane.pack(session="s", budget=4000))
    assert not {stated["rules"][2], stated["rules"][3]} & found
    assert stated["rules"][4] in found


@pytest.mark.parametrize("session", [None, "another"])
def test_what_others_state_is_in_the_tail_at_once_and_in_c_when_the_anchor_passes_it(
    plane, session
):
    start(plane)
    turns(plane, 150)
    fields = {"kind": "rule", "key": "merge", "session": session}
    id_ = say(plane, "Squash before a merge", **fields)
    before = plane.pack(session="s", budget=4000)
    assert id_ in shown(before, "G")
    anchor = before.report["prefix"]["anchor_seq"]
    for _ in range(240):
        say(plane, "and one more turn about the herons in the reeds", role="assistant")
        block = plane.pack(session="s", budget=4000)
        now = block.report["prefix"]["anchor_seq"]
        passed = now > plane.event(id_).seq
        assert id_ in shown(block, "C" if passed else "G")
        if passed:
            assert now > anchor
            return
    pytest.fail("the anchor never passed it")


@pytest.mark.parametrize(
    "budget", [1000, *(pytest.param(more, marks=pytest.mark.long) for more in (4000, 16_000))]
)
def test_who_stands_in_c_changes_when_the_anchor_moves_and_not_before(plane, stated, budget):
    def standing():
        block = plane.pack(session="s", budget=budget)
        return block.report["prefix"]["anchor_seq"], shown(block, "C")

    before, moved = standing(), 0
    for number in range(90):
        role = "user" if number % 7 == 0 else "assistant"
        marked = {"markers": ["goal"]} if number % 7 == 0 else {}
        say(plane, f"step {number} along the reeds", role=role, **marked)
        if number % 5 == 0:
            plane.record(f"rule {number}", kind="rule", key=f"n{number}")
        now = standing()
        moved += now[0] != before[0]
        assert now[0] != before[0] or now[1] == before[1]
        before = now
    assert moved


def test_a_marked_prompt_is_shown_once_wherever_the_window_begins(plane):
    start(plane)
    id_ = say(plane, "Goal: count the herons", role="user")
    for number in range(130):
        say(plane, f"step {number} along the reeds", role="assistant")
        block = plane.pack(session="s", budget=2000)
        assert sum(id_ in (*e.events, *e.parts) for e in block.entries) == 1


def test_what_is_pinned_in_a_session_stays_whatever_it_is_until_it_is_unpinned(plane):
    start(plane)
    plan = say(plane, "first the reeds, then the trees", kind="plan", key="way")
    turn = say(plane, "herons nest early", role="assistant")
    old = [say(plane, f"older {n}", kind="decision", key=f"o{n}") for n in range(2)]
    plane.pin(key="way")
    plane.pin(id=turn)
    turns(plane, 220)
    assert {plan, turn, *old} <= shown(plane.pack(session="s", budget=4000), "C")
    plane.unpin(key="way")
    plane.unpin(id=turn)
    assert not {plan, turn} & shown(plane.pack(session="s", budget=4000))


def bury(plane, session="another"):
    """So many turns elsewhere that no ring of the hotset holds what was said before."""
    turns(plane, 450, session=session)


@pytest.mark.parametrize("fields", [{"role": "assistant"}, {"kind": "plan", "ns": "/task/t"}])
def test_what_is_pinned_after_it_left_the_recent_window_comes_back(plane, fields):
    start(plane)
    old = say(plane, "herons nest early", **fields)
    turns(plane, 120)
    say(plane, "is it noon?", role="user")  # nothing answers it
    bury(plane)
    assert plane.upkeep.hotset().sessions["s"].ring[0].seq > plane.event(old).seq
    assert old not in shown(plane.pack(session="s", budget=4000))
    plane.pin(id=old)
    assert old in shown(plane.pack(session="s", budget=4000), "G")
    turns(plane, 220)
    say(plane, "is it noon?", role="user")
    assert old in shown(plane.pack(session="s", budget=4000), "C")
    plane.unpin(id=old)  # what answers a prompt may quote any turn
    assert old not in shown(plane.pack(session="s", budget=4000), "ABCDFG")


def test_a_pin_shows_what_another_session_said_long_ago(plane):
    old = say(plane, "herons nest early", role="user", session="long ago")
    bury(plane)
    start(plane)
    turns(plane, 30)
    plane.pin(id=old)
    assert old in shown(plane.pack(session="s", budget=4000), "G")


def test_what_is_pinned_is_shown_to_who_may_see_it_while_it_is_in_force(plane):
    start(plane)
    hidden = say(plane, "the nest is secret", role="user", sensitivity="high")
    replaced = say(plane, "nests in spring", kind="plan", key="way")
    forgotten = say(plane, "nests in summer", role="user")
    tool = say(plane, "nests in autumn", kind="tool_result", role="tool")
    turns(plane, 120)
    bury(plane)
    for id_ in (hidden, replaced, forgotten, tool):
        plane.pin(id=id_)
    assert hidden not in shown(plane.pack(session="s", channel="public", budget=4000))
    assert {hidden, replaced, forgotten} <= shown(plane.pack(session="s", budget=4000))
    plane.record("nests in winter", kind="plan", key="way")
    plane.forget(id=forgotten)
    block = plane.pack(session="s", budget=4000)
    assert hidden in shown(block)
    assert not {replaced, forgotten} & shown(block)
    assert tool not in shown(block, "CG")  # as evidence it may stand in E


def test_a_warm_pack_reads_nothing_for_what_is_pinned(plane):
    start(plane)
    old = say(plane, "herons nest early", role="assistant")
    turns(plane, 120)
    bury(plane)
    plane.pin(id=old)
    plane.pack(session="s", intent="fast")
    before = plane.pack(session="another", intent="fast")
    block = plane.pack(session="s", intent="fast")
    assert old in shown(block)
    assert block.report["io"] == before.report["io"]


@pytest.mark.parametrize(
    ("fields", "session"),
    paired(
        [
            {"kind": "rule", "ns": "/spec/merge"},
            {"kind": "preference", "ns": "/task/t"},
            {"kind": "fact", "key": "k", "ns": "/spec/parser"},
        ],
        [None, "another"],
        2,
    ),
)
def test_what_others_state_in_any_namespace_is_in_the_tail_and_then_in_c(plane, fields, session):
    start(plane)
    turns(plane, 30)
    id_ = say(plane, "Squash before a merge", **{**fields, "session": session})
    assert id_ in shown(plane.pack(session="s", budget=4000), "G")
    bury(plane, session="third")
    turns(plane, 220)
    assert id_ in shown(plane.pack(session="s", budget=4000), "C")
    assert id_ not in shown(plane.pack(session="s", budget=4000, ns=["/task/other"]))
    start(plane)
    assert id_ not in shown(plane.pack(session="s", budget=4000), "CDEFG")


def test_the_hotset_keeps_a_hundred_of_what_others_state_and_what_is_in_force_longest(plane):
    start(plane)
    for number in range(150):
        key = {"key": "same"} if number < 100 else {}
        plane.record(f"rule {number}", kind="rule", ns="/task/t", **key)
    hotset = plane.upkeep.hotset()
    assert len(hotset.stated) == 100
    texts = [hotset.items[seq].text for seq in hotset.stated]
    assert texts[-51:] == [f"rule {number}" for number in range(99, 150)]
    assert hotset.shed == 0
    for number in range(60):
        plane.record(f"rule {number}", kind="rule", ns="/task/t")
    assert plane.upkeep.hotset().shed > 0


@pytest.mark.parametrize(
    ("kind", "budget"), paired(["message", "rule", "decision"], [500, 2000, 4000], 3)
)
def test_a_constraint_said_first_is_shown_in_a_session_without_a_start(plane, kind, budget):
    id_ = say(plane, "Constraint: nothing leaves the reeds", kind=kind, role="user")
    turns(plane, 220)
    bury(plane)
    block = plane.pack(session="s", budget=budget)
    assert id_ in shown(block)
    assert block.text.count("nothing leaves the reeds") == 1


def test_an_epoch_leaves_to_the_head_what_was_stated_before_it(plane, stated):
    start(plane)
    block = plane.pack(session="s", budget=4000)
    assert not shown(block, "C")
    assert set(stated["decisions"][-3:]) <= shown(block, "B")


def test_a_session_that_left_the_hotset_comes_back_with_what_it_stated(plane, stated):
    for number in range(SESSIONS + 1):
        turns(plane, 120, session=f"other{number}")
    assert "s" not in plane.upkeep.hotset().sessions
    every = {id_ for ids in stated.values() for id_ in ids}
    assert every <= shown(plane.pack(session="s", budget=4000))
    turns(plane, 150)
    assert every <= shown(plane.pack(session="s", budget=4000))


def test_the_hotset_keeps_two_hundred_of_a_session_and_constraints_longest(plane):
    start(plane)
    kept = say(plane, "Constraint: nothing leaves the reeds", role="user")
    for number in range(2 * STATED):
        say(plane, f"goal {number}", role="assistant", markers=["goal"])
    ring = plane.upkeep.hotset().sessions["s"]
    assert len(ring.stated) == STATED
    assert plane.event(kept).seq in ring.stated
    assert kept in shown(plane.pack(session="s", budget=2000), "C")
    for number in range(60):
        say(plane, f"goal {number} " + "of many words " * 100, role="assistant", markers=["goal"])
        assert plane.upkeep.hotset().sessions["s"].stated_bytes <= STATED_BYTES
    assert kept in shown(plane.pack(session="s", budget=2000), "C")


KINDS = (
    "turn", "turn", "turn", "prompt", "marked prompt", "constraint", "rule", "nobody", "another",
    "pin", "unpin", "forget", "bulk",
)  # fmt: skip


def take(plane, what, key, number):
    words = f"{what} {number} along the reeds and the water"
    match what:
        case "turn" | "prompt":
            say(plane, words, role="user" if what == "prompt" else "assistant")
        case "marked prompt" | "constraint":
            role, mark = ("user", "goal") if what == "marked prompt" else ("assistant", what)
            say(plane, words, role=role, markers=[mark])
        case "rule":
            say(plane, words, kind=("rule", "fact", "preference")[key % 3], key=f"k{key}")
        case "nobody" | "another":
            session = None if what == "nobody" else "t"
            say(plane, words, kind="rule", key=f"{what}{key}", session=session)
        case "bulk":
            turns(plane, 10 * key)
        case "pin" | "unpin" | "forget" if plane.keys():
            named = plane.keys()[key % len(plane.keys())]
            getattr(plane, what)(key=named)


@pytest.mark.parametrize("budget", [1000, pytest.param(2000, marks=pytest.mark.long), 8000])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_pack_starts_with_the_stable_part_of_the_one_before_whatever_is_stated(
    plane, seed, budget
):
    chance = random.Random(f"{seed} {budget}")
    start(plane)
    say(plane, "the first prompt", role="user")
    before, kept = plane.pack(session="s", budget=budget), Counter()
    for number in range(50):
        take(plane, chance.choice(KINDS), chance.randrange(6), number)
        after = plane.pack(session="s", budget=budget)
        kept[holds(plane, before, after)] += 1
        before = after
    assert kept["kept"] > 25
