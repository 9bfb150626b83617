"""What time takes of an importance: half in every half-life, nothing of what never fades."""

from datetime import datetime, timedelta
from decimal import Decimal, getcontext
from typing import NamedTuple

from hypothesis import given, strategies as st

from memplane.recall.score import FADING_KINDS, decayed, hours_between, importance_now, is_stale

LIVES = {"observation": 720, "plan": 1_440, "fact": 8_760, "preference": 0}
NOON = "2026-01-01T12:00:00.000000Z"
getcontext().prec = 60


class Memory(NamedTuple):
    ts: str = NOON
    kind: str = "observation"
    markers: tuple[str, ...] = ()
    importance: int = 800


def at(days: int, hours: int = 0) -> str:
    moment = datetime.fromisoformat(NOON) + timedelta(days=days, hours=hours)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000000Z"


def now(memory, moment, *, touched=None, pinned=False, lives=LIVES):
    return importance_now(memory, touched, pinned=pinned, now=moment, half_lives=lives)


def stale(memory, moment, *, touched=None, pinned=False, after_days=30):
    return is_stale(
        memory, touched, pinned=pinned, now=moment, half_lives=LIVES, after_days=after_days
    )  # fmt: skip


@given(st.integers(0, 1_000), st.integers(0, 200_000), st.integers(1, 20_000))
def test_what_is_left_is_that_of_the_last_64th_of_a_half_life_rounded_down(value, hours, life):
    steps = hours * 64 // life
    exact = Decimal(value) * Decimal(2) ** (-Decimal(steps) / 64)
    left = decayed(value, "fact", hours, {"fact": life})
    assert left <= exact
    assert exact - left < 1 + Decimal(value) / 2**29


@given(st.integers(0, 1_000), st.integers(0, 50_000), st.integers(0, 5_000), st.integers(1, 9_000))
def test_it_never_rises_with_the_hours(value, hours, more, life):
    lives = {"plan": life}
    assert decayed(value, "plan", hours + more, lives) <= decayed(value, "plan", hours, lives)
    assert decayed(value, "plan", hours, lives) <= value


def test_a_half_life_takes_half_and_the_next_one_half_of_that():
    values = [decayed(800, "observation", hours, LIVES) for hours in (0, 719, 720, 1_440, 7_200)]
    assert values == [800, 404, 400, 200, 0]


def test_a_kind_without_a_half_life_keeps_all_of_it():
    for kind in ("preference", "decision", "rule", "message", "unheard"):
        assert decayed(700, kind, 10**7, LIVES) == 700


def test_decisions_rules_constraints_and_what_is_pinned_never_fade_whatever_the_policy_says():
    lives = dict.fromkeys((*FADING_KINDS, "decision", "rule", "message"), 1)
    for memory in (Memory(kind="decision"), Memory(kind="rule"), Memory(kind="message")):
        assert now(memory, at(300), lives=lives) == 800
    assert now(Memory(markers=("goal", "constraint")), at(300), lives=lives) == 800
    assert now(Memory(), at(300), pinned=True, lives=lives) == 800
    assert now(Memory(markers=("goal",)), at(300), lives=lives) == 0


def test_time_is_counted_from_the_record_or_the_last_touch_whichever_is_later():
    assert now(Memory(), at(30)) == 400
    assert now(Memory(), at(30), touched=at(30)) == 800
    assert now(Memory(), at(60), touched=at(30)) == 400
    assert now(Memory(), at(30), touched="2025-01-01T00:00:00.000000Z") == 400


def test_a_clock_before_the_event_takes_nothing():
    assert hours_between(at(3), at(2)) == hours_between(at(3), at(3)) == 0
    assert hours_between(at(3), at(4, -1)) == 23
    assert now(Memory(ts=at(9)), NOON) == 800


def test_what_fades_is_stale_after_the_days_of_the_policy_and_a_touch_makes_it_fresh():
    assert not stale(Memory(), at(29))
    assert stale(Memory(), at(30))
    assert not stale(Memory(), at(30), touched=at(1))
    assert not stale(Memory(), at(300), after_days=0)
    assert not stale(Memory(), at(300), pinned=True)
    for kind in ("decision", "rule", "preference", "message"):
        assert not stale(Memory(kind=kind), at(300))
    assert not stale(Memory(markers=("constraint",)), at(300))
