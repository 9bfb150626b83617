"""An embedder with an `async` method as a plane takes it: synchronous, in signed bytes.

The plane calls it from a thread; the call runs on the event loop on which the plane was opened. A
synchronous embedder is used as it is.
"""

from __future__ import annotations

import asyncio
import math
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from memplane.errors import ConfigurationError, MemplaneError, ProviderError
from memplane.index.vectors import signed_bytes
from memplane.intake.redact import masked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from memplane.ports import Embedder

_SECONDS_MAX: Final = 60.0


@runtime_checkable
class AsyncEmbedder(Protocol):
    """Makes vectors of texts: one of `dimension` numbers for each, in order."""

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """The vectors; ProviderError where that fails."""
        ...


class Bridged:
    """The port of a plane over an AsyncEmbedder, on one loop."""

    def __init__(self, inner: AsyncEmbedder, loop: asyncio.AbstractEventLoop) -> None:
        self.inner, self.loop = inner, loop
        said = getattr(inner, "name", None)
        self.name: str = said if isinstance(said, str) else type(inner).__name__
        self.dimension = inner.dimension
        self._asked: set[Future[Any]] = set()
        self._stopped = False

    def stop(self) -> None:
        """Give up what is being asked, and ask nothing more: whoever waits gets a ProviderError."""
        self._stopped = True
        for asked in list(self._asked):
            asked.cancel()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text; raises ProviderError where the answer is not one."""
        if self._stopped or self.loop.is_closed():
            raise ProviderError(
                f"the embedder {self.name}: the session or the loop that it was given on has ended",
                provider=self.name,
            )
        asked = asyncio.run_coroutine_threadsafe(self.inner.embed(list(texts)), self.loop)
        self._asked.add(asked)
        try:
            vectors = asked.result(_SECONDS_MAX)
        except MemplaneError:
            raise
        except Exception as error:
            asked.cancel()
            raise ProviderError(
                f"the embedder {self.name} failed ({type(error).__name__}: "
                f"{masked(str(error))[:200]})",
                provider=self.name,
                retryable=isinstance(error, ConnectionError | TimeoutError),
                cause=error,
            ) from error
        finally:
            self._asked.discard(asked)
        return [self._bytes(vector) for vector in self._whole(vectors, len(texts))]

    def _whole(self, vectors: Any, count: int) -> Sequence[Any]:
        """The rows of a list, a tuple or an array."""
        try:
            rows = list(vectors)
        except TypeError:
            rows = []
        if isinstance(vectors, str | bytes | dict) or len(rows) != count:
            raise self._odd(f"a list of {count} vectors")
        return rows

    def _bytes(self, vector: Any) -> bytes:
        try:
            numbers = [float(one) for one in vector]
        except (TypeError, ValueError):
            numbers = []
        whole = not isinstance(vector, str | bytes) and len(numbers) == self.dimension
        if not whole or not all(map(math.isfinite, numbers)):
            raise self._odd(f"{self.dimension} finite numbers")
        return signed_bytes(numbers)

    def _odd(self, expected: str) -> ProviderError:
        return ProviderError(
            f"the embedder {self.name}: expected {expected}, found others", provider=self.name
        )


def identity_of(embedder: Embedder | None) -> tuple[int, int]:
    """What tells embedders apart: the one that was given, and the loop it runs on."""
    if isinstance(embedder, Bridged):
        return id(embedder.inner), id(embedder.loop)
    return id(embedder), 0


def bridged(given: object, loop: asyncio.AbstractEventLoop) -> Embedder:
    """The embedder as a plane takes it; raises ConfigurationError where it is no embedder."""
    embed = getattr(given, "embed", None)
    if not callable(embed) or not isinstance(getattr(given, "dimension", None), int):
        raise ConfigurationError(
            f"embedder: expected one with `embed` and `dimension`, found {type(given).__name__}"
        )
    if iscoroutinefunction(embed):
        return Bridged(cast("AsyncEmbedder", given), loop)
    return cast("Embedder", given)
