"""The smallest budget that brings an event in is the smallest: every other one was tried."""

import random
import re

import pytest
from checks_stories import busy, packed

from memplane.explain import why
from memplane.explain.replay import asked_of, plane_of
from memplane.explain.why import FITS_MAX, NAMING, retold


def limited(plane, most: int) -> None:
    """Blocks of at most so many tokens, so that every budget can be tried."""
    path = plane.home / "policies" / "budgets.yaml"
    text = re.sub(r"(?m)^reserve_tokens:.*$", "reserve_tokens: 0", path.read_text())
    text = re.sub(r"(?m)^acb_total_max_tokens:.*$", f"acb_total_max_tokens: {most}", text)
    text = re.sub(r"(?m)^default_pack_tokens:.*$", "default_pack_tokens: 500", text)
    path.write_text(re.sub(r"{max_tokens: \d+", f"{{max_tokens: {most // 2}", text))
    assert plane.policies.budgets.acb_total_max_tokens == most


def shown(block) -> dict[str, str]:
    """How each event stands in a block whose text is there."""
    found: dict[str, str] = {}
    for entry in block.entries:
        if entry.source not in NAMING:
            for id_ in entry.parts:
                found.setdefault(id_, "part")
            found.update(dict.fromkeys(entry.events, "whole"))
    return found


pack_at = why.outcome


def every_budget(plane, saved, most: int) -> dict[int, dict[str, str]]:
    """What stands in the block of each budget above the pack's own."""
    then, _ = plane_of(plane, saved)
    with then:
        asked = asked_of(saved)
        return {
            budget: shown(then.pack(**{**asked, "budget": budget}))
            for budget in range(saved.report["budget"] + 1, most + 1)
        }


def held_against_all(plane, chance, most: int, events: int, monkeypatch) -> int:
    """Compare the answers for some events of a pack with all budgets there are; how many come in."""
    block, saved = packed(plane, chance, budgets=[60, most // 3, most // 2, most - 200])
    budgets, there, found = every_budget(plane, saved, most), shown(block), 0
    # The search of each event goes its own way over packs that are made once.
    made: dict[int, why.PackOutcome] = {}

    def once(*given):
        if given[-1] not in made:
            made[given[-1]] = pack_at(*given)
        return made[given[-1]]

    monkeypatch.setattr(why, "outcome", once)
    with retold(plane, saved, channel="private") as pack:
        lines = [line for line in plane._log.read() if line.event.id not in there]
        for line in chance.sample(lines, min(events, len(lines))):
            got = pack.smallest(line, pack.story(line), FITS_MAX, None)
            first = next((b for b, ids in budgets.items() if line.event.id in ids), None)
            assert (got.budget, got.exact) == (first, True), (got, saved.report["request"])
            assert got.not_below == (first or most + 1)
            if first is not None:
                assert got.how == budgets[first][line.event.id]
                found += 1
    return found


def test_no_smaller_budget_brings_the_event_in_all_were_tried(plane, monkeypatch):
    limited(plane, 700)
    busy(plane, 11, 60)
    chance = random.Random(11)
    assert sum(held_against_all(plane, chance, 700, 8, monkeypatch) for _ in range(2)) > 3


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("most", [1300, 2600, 3100])
@pytest.mark.parametrize("seed", range(2))
def test_nor_across_the_steps_of_the_ladder(plane, most, seed, monkeypatch):
    limited(plane, most)
    busy(plane, seed + most, 90)
    chance = random.Random(seed)
    assert sum(held_against_all(plane, chance, most, 40, monkeypatch) for _ in range(3)) > 3


def edges(plane, seed: int, packs: int, events: int, fits: int) -> int:
    """Named budgets of random pairs bring the event in, and one token less does not."""
    chance, named = random.Random(seed), 0
    for _ in range(packs):
        block, saved = packed(plane, chance)
        own = block.report["budget"]
        with retold(plane, saved, channel="private") as pack:
            for _ in range(events):
                line = plane._log.line(chance.randint(1, plane.head().seq))
                got = pack.smallest(line, pack.story(line), fits, None)
                assert got.fits <= fits
                assert got.not_below > own
                if got.budget is None:
                    continue
                named += 1
                assert own < got.not_below <= got.budget <= got.most
                then, _ = plane_of(plane, saved)
                with then:
                    at, less = (
                        shown(then.pack(**{**asked_of(saved), "budget": budget}))
                        for budget in (got.budget, got.budget - 1)
                    )
                assert at.get(line.event.id) == got.how, (got, saved.report["request"])
                assert line.event.id not in less, (got, saved.report["request"])
    return named


def test_a_budget_that_is_named_brings_the_event_in_and_one_token_less_does_not(plane):
    busy(plane, 21, 150)
    assert edges(plane, 21, packs=6, events=5, fits=60) > 3


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_so_it_is_for_a_thousand_random_pairs(plane):
    for world in range(5):
        busy(plane, 3000 + world, 100)
        assert edges(plane, world, packs=20, events=10, fits=80) > 10


def test_a_search_that_is_cut_short_says_below_what_nothing_is_left(plane):
    limited(plane, 900)
    busy(plane, 31, 60)
    block = plane.pack("parser retry timeout", budget=700, save_report=True)
    saved = packed_as(plane, block)
    out = [one["seq"] for one in block.report["omissions"]["listed"] if one["reason"] == "budget"]
    assert len(out) > 3
    with retold(plane, saved) as pack:
        for seq in out[:3]:
            line = plane._log.line(seq)
            story = pack.story(line)
            whole = pack.smallest(line, story, FITS_MAX, None)
            assert whole.exact
            for fits in (1, 5, 20):
                some = pack.smallest(line, story, fits, None)
                assert some.not_below <= whole.not_below
                assert some.budget is None or some.budget >= whole.budget
                assert f"not below {some.not_below}" in some.words() or some.exact


def packed_as(plane, block):
    from memplane.upkeep import reports

    return reports.read_report(block.report_path)


def test_what_no_budget_brings_in_is_said_without_a_pack(plane):
    plane.record("we keep pg", kind="decision", key="db", id="old")
    plane.record("we move to sqlite", kind="decision", key="db", id="new")
    plane.record(kind="session", session="s", data={"status": "start"}, id="begun")
    saved = packed_as(plane, plane.pack("pg", budget=300, save_report=True))
    for id_, said in (("old", "superseded"), ("new", "in the block"), ("begun", "no part of")):
        with retold(plane, saved) as pack:
            line = plane._log.find(id_)
            got = pack.smallest(line, pack.story(line), FITS_MAX, None)
        assert (got.fits, got.budget) == (0, None)
        assert said in got.why
