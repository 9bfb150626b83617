"""Planes to test on: real ones, in a temporary folder, with a clock that a test can move."""

import pytest
from hypothesis import HealthCheck, settings

import memplane

# How long an example takes to make says something about the machine, and nothing about a promise.
settings.register_profile("memplane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memplane")


class Clock:
    """A clock that stands still until a test moves it (seconds)."""

    def __init__(self, start: str = "2026-01-05T12:00:00.000000Z") -> None:
        self.now = start

    def __call__(self) -> str:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def plane(tmp_path, clock):
    with memplane.init(tmp_path / "plane", durability="os", clock=clock) as opened:
        yield opened
