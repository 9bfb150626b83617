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

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text; raises ProviderError where the answer is not one."""
        if self.loop.is_closed():
            raise ProviderError(
                f"the embedder {self.name}: the loop that it was given on has ended",
                provider=self.name,
            )
        asked = asyncio.run_coroutine_threadsafe(self.inner.embed(list(texts)), self.loop)
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
        return [self._bytes(vector) for vector in self._whole(vectors, len(texts))]

    def _whole(self, vectors: Any, count: int) -> list[list[float]]:
        if not isinstance(vectors, list) or len(vectors) != count:
            raise self._odd(f"a list of {count} vectors")
        return vectors

    def _bytes(self, vector: list[float]) -> bytes:
        if len(vector) != self.dimension or not all(map(math.isfinite, vector)):
            raise self._odd(f"{self.dimension} finite numbers")
        return signed_bytes(vector)

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
