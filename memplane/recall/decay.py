"""What a memory is worth after a while: importance halves with time, when somebody reads it.

Nothing is written as time goes by. An observation, plan, summary, fact or insight (whatever the
policy gives a half-life) loses half of its importance in that many hours since it was recorded or
last touched, by the reader's clock; decisions, rules, constraints and what is pinned never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Final, Protocol

__all__ = [
    "FADING_KINDS",
    "LASTING",
    "decayed",
    "fades",
    "fading",
    "hours_between",
    "importance_now",
    "is_stale",
]

# The kinds that a policy may give a half-life.
FADING_KINDS: Final = ("fact", "observation", "plan", "summary", "preference", "insight")
# The markers of what never fades, whatever its kind.
LASTING: Final = frozenset(("constraint", "decision"))
_DAY_HOURS: Final = 24
_STEPS: Final = 64  # of a half-life
_BITS: Final = 30


def _factor(step: int) -> int:
    """2 ** (_BITS - step / 64), rounded down: a 64th root is six square roots, each exact."""
    value = 1 << (_BITS * _STEPS - step)
    for _ in range(6):
        value = isqrt(value)
    return value


_FACTORS: Final = tuple(_factor(step) for step in range(_STEPS))


class Remembered(Protocol):
    """The fields of an event that decide how it fades."""

    @property
    def ts(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def markers(self) -> tuple[str, ...]: ...
    @property
    def importance(self) -> int: ...


def decayed(importance: int, kind: str, hours: int, half_lives: Mapping[str, int]) -> int:
    """Return what is left of an importance after so many hours; all of it for other kinds.

    A whole number, rounded down; 64 steps to a half-life, so that it never rises with the hours.
    """
    half_life = half_lives.get(kind, 0)
    if half_life <= 0 or hours <= 0:
        return importance
    halved, step = divmod(hours * _STEPS // half_life, _STEPS)
    return importance * _FACTORS[step] >> _BITS >> halved


def hours_between(then: str, now: str) -> int:
    """Return the whole hours from one time of the log to a later one; 0 where it is not later."""
    if now <= then:
        return 0
    from datetime import datetime, timedelta  # noqa: PLC0415 - few packs have anything that fades

    return (datetime.fromisoformat(now) - datetime.fromisoformat(then)) // timedelta(hours=1)


def fading(half_lives: Mapping[str, int]) -> frozenset[str]:
    """Return the kinds of which an event may fade at all."""
    return frozenset(kind for kind in FADING_KINDS if half_lives.get(kind, 0) > 0)


def fades(event: Remembered, half_lives: Mapping[str, int], *, pinned: bool) -> bool:
    """Whether time takes anything from the event at all."""
    return (
        not pinned
        and half_lives.get(event.kind, 0) > 0
        and event.kind in FADING_KINDS
        and LASTING.isdisjoint(event.markers)
    )


def importance_now(
    event: Remembered, touched: str | None, *, pinned: bool, now: str,
    half_lives: Mapping[str, int],
) -> int:  # fmt: skip
    """Return the importance that an event has at a time; `touched`: when it was touched last."""
    if not fades(event, half_lives, pinned=pinned):
        return event.importance
    return decayed(event.importance, event.kind, _idle(event, touched, now), half_lives)


def is_stale(
    event: Remembered, touched: str | None, *, pinned: bool, now: str,
    half_lives: Mapping[str, int], after_days: int,
) -> bool:  # fmt: skip
    """Whether an event that fades was neither recorded nor touched for so many days; 0: never."""
    return (
        after_days > 0
        and fades(event, half_lives, pinned=pinned)
        and _idle(event, touched, now) >= after_days * _DAY_HOURS
    )


def _idle(event: Remembered, touched: str | None, now: str) -> int:
    return hours_between(max(event.ts, touched or ""), now)
