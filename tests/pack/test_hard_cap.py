"""The cap: no block is ever above its budget, in the plane's counter or in the exact encodings."""

import random

import pytest
from builders_planes import HOSTILE, rows, sentence, text

from memplane.errors import BudgetError, NotFoundError

rs_bpe = pytest.importorskip("rs_bpe", reason="exact counts need the `tokens` extra")


def exact(block_text: str) -> int:
    from rs_bpe.bpe import openai

    return max(openai.o200k_base().count(block_text), openai.cl100k_base().count(block_text))


def request(chance: random.Random, head: int) -> dict:
    asked = {
        "query": chance.choice(["", sentence(chance, 6), text(chance), chance.choice(HOSTILE)]),
        "budget": chance.choice(
            [50, 99, 150, 199, 200, 400, 999, 1000, 1500, 4000, 9000, 30000, 65000]
        )
        + chance.randrange(40),
        "channel": chance.choice(["private", "public", "team", "agent"]),
        "intent": chance.choice(["auto", "fast", "deep", "orient"]),
        "session": chance.choice([None, "s0", "s1", "s2", "unknown"]),
        "task": chance.choice([None, None, "t1"]),
    }
    if chance.random() < 0.2:
        asked["sections"] = chance.sample(
            ["rules", "recent_window", "retrieved_evidence", "relevant_decisions", "tool_state"], 2
        )
    if chance.random() < 0.3:
        asked |= {"cited": True, "held_seq": chance.randrange(head)}
    if chance.random() < 0.2:
        asked["expand"] = [f"expand://event/{chance.randint(2, head)}"]
    return asked


def check(plane, asked: dict) -> None:
    try:
        block = plane.pack(**asked)
    except NotFoundError:  # the handle names what this channel may not see
        block = plane.pack(**{**asked, "expand": []})
    assert block.tokens <= asked["budget"]
    assert block.tokens == plane_count(plane, block.text), "the total is not what the text costs"
    assert block.tokens == sum(e.tokens for e in block.entries) + block.report["frame_tokens"]
    assert exact(block.text) <= block.tokens
    for entry in block.entries:
        assert entry.text in block.text
        for id_ in (*entry.events, *entry.parts):
            assert plane.event(id_).id == id_
        for id_ in entry.events:
            assert words(plane.text(plane.event(id_))) in words(entry.text)


def plane_count(plane, block_text: str) -> int:
    context = plane.context
    return context.counter(plane.upkeep.policies).count(block_text)


def words(said: str) -> str:
    return " ".join(said.split())


EVERY = [pytest.param(seed, 120, marks=pytest.mark.long) for seed in range(8)]


@pytest.mark.parametrize(("seed", "packs"), [(0, 10), (2, 8), *EVERY])
def test_no_pack_passes_its_budget_in_any_counter(plane, seed, packs):
    plane.record_many(rows(seed, 60 + 120 * seed))
    chance = random.Random(seed)
    for _ in range(packs):
        check(plane, request(chance, plane.head().seq))


@pytest.mark.parametrize("packs", [3, pytest.param(120, marks=pytest.mark.long)])
def test_a_plane_full_of_everything_keeps_the_cap(full_plane, packs):
    chance = random.Random(99)
    for _ in range(packs):
        check(full_plane, request(chance, full_plane.head().seq))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_no_pack_passes_its_budget_over_thousands(full_plane, seed):
    chance = random.Random(1000 + seed)
    full_plane.record_many(rows(1000 + seed, 300))
    for _ in range(100):
        check(full_plane, request(chance, full_plane.head().seq))


@pytest.mark.parametrize("budget", [1000, 4000])
def test_a_plane_full_of_everything_still_packs_evidence_and_recent_turns(full_plane, budget):
    block = full_plane.pack("why did the parser retry after a timeout", budget=budget, session="s1")
    filled = {entry.section for entry in block.entries}
    assert {"retrieved_evidence", "recent_window", "relevant_decisions", "rules"} <= filled


@pytest.mark.parametrize("budget", [0, -1, -65000, True, 3.5, "many"])
def test_a_budget_that_no_block_can_meet_is_refused(plane, budget):
    with pytest.raises(BudgetError, match="budget"):
        plane.pack("anything", budget=budget)


def test_a_budget_above_the_total_is_the_total_less_the_reserve(full_plane):
    block = full_plane.pack("parser", budget=10_000_000)
    assert block.report["budget"] == 60_000
    assert block.tokens <= 60_000


def test_an_empty_plane_packs_to_an_empty_text(plane):
    block = plane.pack("anything at all")
    assert (block.text, block.tokens, block.entries) == ("", 0, ())
    assert block.report["reason"] == "nothing to show"


def test_what_is_too_small_for_anything_is_empty_for_lack_of_budget(plane):
    plane.record("a turn of several words", role="user")
    block = plane.pack("turn", budget=1)
    assert (block.text, block.tokens, block.report["reason"]) == ("", 0, "budget")
