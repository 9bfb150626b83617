"""Try a call of a provider again, after waits that double (exponential backoff with jitter)."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from memplane.errors import ConfigurationError, ProviderError

Answer = TypeVar("Answer")

_ATTEMPTS_MAX: Final = 100
_SECONDS_MAX: Final = 86_400.0


def _is_number(value: object, least: float, most: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and least <= value <= most  # type: ignore[arg-type, operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """How often a call is tried, and how long is waited between.

    The n-th wait is `base_delay * exponential_base ** (n - 1)` seconds, at most `max_delay`; with
    `jitter` a part of it from one half to all, so that many clients do not come back at once.
    Errors of `retryable_exceptions` are tried again, and each ProviderError that says that it is
    retryable. Raises ConfigurationError that names every mistake, a line each.
    """

    max_attempts: int = 3
    base_delay: float = 0.5
    max_delay: float = 30.0
    exponential_base: float = 2.0
    jitter: bool = True
    retryable_exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)

    def __post_init__(self) -> None:
        faults = []
        if not _is_number(self.max_attempts, 1, _ATTEMPTS_MAX) or self.max_attempts % 1:
            faults.append(f"max_attempts: expected a whole number from 1 to {_ATTEMPTS_MAX}")
        for name, least in (("base_delay", 0.0), ("max_delay", 0.0), ("exponential_base", 1.0)):
            if not _is_number(getattr(self, name), least, _SECONDS_MAX):
                faults.append(f"{name}: expected a number from {least:g} to {_SECONDS_MAX:g}")
        if not all(isinstance(one, type) for one in self.retryable_exceptions):
            faults.append("retryable_exceptions: expected classes of exceptions")
        if faults:
            raise ConfigurationError("\n".join(faults))

    def again(self, error: Exception) -> bool:
        """Whether the call that raised this may be tried again."""
        if isinstance(error, ProviderError):
            return error.retryable
        return isinstance(error, self.retryable_exceptions)

    def seconds(self, attempt: int, error: Exception, chance: Callable[[], float]) -> float:
        """How long to wait after so many attempts; `chance` gives a number from 0 to 1.

        What the provider asked for is the least, as far as `max_delay` allows.
        """
        try:
            grown = min(self.max_delay, self.base_delay * self.exponential_base ** (attempt - 1))
        except OverflowError:
            grown = self.max_delay
        waited = grown * (0.5 + chance() / 2) if self.jitter else grown
        asked = error.retry_after if isinstance(error, ProviderError) else 0.0
        return min(self.max_delay, max(waited, asked))


DEFAULT: Final = RetryConfig()


async def with_retry(
    fn: Callable[[], Awaitable[Answer]],
    config: RetryConfig = DEFAULT,
    *,
    on_retry: Callable[[int, Exception], None] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> Answer:
    """Await `fn()` until it answers, at most `config.max_attempts` times.

    `on_retry(attempt, error)` is called before each wait. Raises the last error, and at once what
    is not to be tried again; a cancelled call is never repeated.
    """
    for attempt in range(1, config.max_attempts):
        try:
            return await fn()
        except Exception as error:
            if not config.again(error):
                raise
            if on_retry is not None:
                on_retry(attempt, error)
            wait = config.seconds(attempt, error, chance)
        await sleep(wait)
    return await fn()
