"""Calls that are tried again: how often, after what waits, and what is never repeated."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from memplane.errors import ConfigurationError, InputError, ProviderError
from memplane.providers import RetryConfig, with_retry


class Clockwork:
    """A call that fails with each of `errors`, then answers; waits are written down."""

    def __init__(self, *errors):
        self.errors, self.calls, self.waits, self.told = list(errors), 0, [], []

    async def call(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    async def sleep(self, seconds):
        self.waits.append(seconds)

    def run(self, chance=lambda: 0.0):
        return asyncio.run(
            with_retry(
                self.call,
                on_retry=lambda *said: self.told.append(said),
                sleep=self.sleep,
                chance=chance,
            )
        )


def test_the_defaults_are_those_of_the_plan():
    """A2-75"""
    config = RetryConfig()
    assert (config.max_attempts, config.base_delay, config.max_delay) == (3, 0.5, 30.0)
    assert (config.exponential_base, config.jitter) == (2.0, True)
    assert config.retryable_exceptions == (ConnectionError, TimeoutError)


def test_each_wait_is_told_before_it_and_the_last_error_is_raised():
    """A2-76"""
    errors = [ConnectionError("1"), TimeoutError("2"), ConnectionError("3")]
    clockwork = Clockwork(*errors)
    with pytest.raises(ConnectionError, match="3"):
        clockwork.run()
    assert clockwork.calls == 3
    assert clockwork.told == [(1, errors[0]), (2, errors[1])]
    assert clockwork.waits == [0.25, 0.5]


def test_with_jitter_a_wait_is_from_one_half_to_the_whole():
    for chance, waits in ((0.0, [0.25, 0.5]), (1.0, [0.5, 1.0])):
        clockwork = Clockwork(ConnectionError(), ConnectionError())
        assert clockwork.run(chance=lambda chance=chance: chance) == "answer"
        assert clockwork.waits == waits


def test_what_cannot_work_later_is_raised_at_once():
    for error in (ValueError("x"), InputError("x"), ProviderError("x", provider="p")):
        clockwork = Clockwork(error)
        with pytest.raises(type(error)):
            clockwork.run()
        assert clockwork.calls == 1


def test_what_the_provider_asks_for_is_the_least_wait_up_to_the_most():
    def busy(seconds):
        return ProviderError("busy", provider="p", retryable=True, retry_after=seconds)

    clockwork = Clockwork(busy(7.0), busy(500.0))
    clockwork.run()
    assert clockwork.waits == [7.0, 30.0]


def test_a_cancelled_call_is_not_repeated():
    clockwork = Clockwork(asyncio.CancelledError())

    async def main():
        with pytest.raises(asyncio.CancelledError):
            await with_retry(clockwork.call, sleep=clockwork.sleep)

    asyncio.run(main())
    assert (clockwork.calls, clockwork.waits) == (1, [])


@given(
    attempts=st.integers(1, 100),
    base=st.floats(0, 1_000),
    most=st.floats(0, 1_000),
    exponential=st.floats(1, 1_000),
    chance=st.floats(0, 1),
)
def test_no_wait_is_longer_than_the_most(attempts, base, most, exponential, chance):
    config = RetryConfig(
        max_attempts=attempts, base_delay=base, max_delay=most, exponential_base=exponential
    )
    waits = [config.seconds(n, ConnectionError(), lambda: chance) for n in range(1, attempts + 1)]
    assert all(0 <= wait <= most for wait in waits)


def test_every_mistake_of_the_settings_is_named():
    with pytest.raises(ConfigurationError) as caught:
        RetryConfig(
            max_attempts=0,
            base_delay=-1,
            exponential_base=float("nan"),
            retryable_exceptions=("ConnectionError",),
        )
    for name in ("max_attempts", "base_delay", "exponential_base", "retryable_exceptions"):
        assert name in str(caught.value)
    assert "max_delay" not in str(caught.value)
