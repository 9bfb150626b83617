"""An embedder with an `async` method as a plane takes it: synchronous, in signed bytes.

The plane calls it from a thread; the call runs on an event loop. A session gives the loop on which
it was opened; for a plane without one a loop of its own runs in a thread until the plane is closed.
A synchronous embedder is used as it is.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from memplane.errors import ConfigurationError, MemplaneError, ProviderError
from memplane.intake.redact import masked
from memplane.lazy import late
from memplane.ports import Embedder

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memplane.index import vectors
    from memplane.work.episodes import Episode, Fact, Turn
else:
    vectors = late("memplane.index.vectors")  # numpy, before there is a text to embed

_SECONDS_MAX: Final = 60.0
_CLOSING_SECONDS: Final = 5.0


@runtime_checkable
class AsyncEmbedder(Protocol):
    """Makes vectors of texts: one of `dimension` numbers for each, in order."""

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """The vectors; ProviderError where that fails."""
        ...


class Bridged:
    """The port of a plane over an AsyncEmbedder, on one loop; None: on a loop of its own.

    It is called by what `name` of the embedder says, else by its class: under another name all
    vectors are made again. One that says `seconds` is waited for so long, else 60 s.
    """

    def __init__(self, inner: AsyncEmbedder, loop: asyncio.AbstractEventLoop | None) -> None:
        self.inner, self.loop = inner, loop
        said = getattr(inner, "name", None)
        self.name: str = said if isinstance(said, str) else type(inner).__name__
        self.dimension = inner.dimension
        seconds = getattr(inner, "seconds", None)
        self._seconds = seconds if isinstance(seconds, int | float) else _SECONDS_MAX
        self._asked: set[Future[Any]] = set()
        self._stopped = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def stop(self) -> None:
        """Give up what is being asked, and ask nothing more: whoever waits gets a ProviderError."""
        self._stopped = True
        for asked in list(self._asked):
            asked.cancel()
        with self._starting:
            thread, self._thread = self._thread, None
        if thread is not None and self.loop is not None:
            closing = getattr(self.inner, "aclose", None)
            if iscoroutinefunction(closing):
                with suppress(Exception):  # whatever it was, nobody uses it any more
                    asyncio.run_coroutine_threadsafe(closing(), self.loop).result(_CLOSING_SECONDS)
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join(_CLOSING_SECONDS)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text; raises ProviderError where the answer is not one."""
        loop = self._running()
        if self._stopped or loop.is_closed():
            raise ProviderError(
                f"the embedder {self.name}: the session or the loop that it was given on has ended",
                provider=self.name,
            )
        asked = asyncio.run_coroutine_threadsafe(self.inner.embed(list(texts)), loop)
        self._asked.add(asked)
        try:
            found = asked.result(self._seconds)
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
        return [
            vectors.signed_bytes(numbers)
            for numbers in whole_vectors(found, len(texts), self.dimension, self.name)
        ]

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self.loop,), name="memplane-embedder", daemon=True
                )
                self._thread.start()
            return self.loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and end what still runs on it."""
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()


class BlockingReflector:
    """A reflector that blocks, over an asynchronous one; see `blocking`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        said = getattr(inner, "name", None)
        self.name: str = said if isinstance(said, str) and said else type(inner).__name__
        seconds = getattr(inner, "seconds", None)
        self._seconds = seconds if isinstance(seconds, int | float) else _SECONDS_MAX

    def reflect(self, episode: Episode, turns: Sequence[Turn]) -> Sequence[Fact]:
        """Facts that the turns say; raises what the inner one does, TimeoutError after its time."""
        done: list[Sequence[Fact]] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                done.append(asyncio.run(self._asked(episode, turns)))
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                failed.append(error)

        # In a thread: the caller may stand on a loop. With its context: the observer of its call.
        run = partial(copy_context().run, work)
        thread = threading.Thread(target=run, name="memplane-reflector", daemon=True)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]

    async def _asked(self, episode: Episode, turns: Sequence[Turn]) -> Sequence[Fact]:
        try:
            async with asyncio.timeout(self._seconds):
                found: Sequence[Fact] = await self.inner.reflect(episode, list(turns))
        finally:
            closing = getattr(self.inner, "aclose", None)
            if iscoroutinefunction(closing):  # its connections are of this loop
                with suppress(Exception):
                    await closing()
        return found


def blocking(reflector: object) -> BlockingReflector:
    """A reflector for `sessions.end(summary="model")`, over one with an `async` method.

    Raises ConfigurationError where it is none.
    """
    if not iscoroutinefunction(getattr(reflector, "reflect", None)):
        raise ConfigurationError(
            f"reflector: expected one with `async reflect(episode, turns)`, found "
            f"{type(reflector).__name__}"
        )
    return BlockingReflector(reflector)


def whole_vectors(found: Any, count: int, dimension: int, provider: str) -> list[list[float]]:
    """The vectors of an answer: a list, tuple or array of `count` rows of `dimension` numbers.

    Raises ProviderError, not retryable, for any other answer, and for a number that is not finite.
    `dimension` 0: as many in each as in the first.
    """
    try:
        rows = list(found)
    except TypeError:
        rows = []
    if isinstance(found, str | bytes | dict) or len(rows) != count:
        raise _odd(f"a list of {count} vectors", provider)
    read = []
    for row in rows:
        try:
            numbers = [] if isinstance(row, str | bytes) else [float(one) for one in row]
        except (TypeError, ValueError, OverflowError):
            numbers = []
        dimension = dimension or len(numbers)
        if not numbers or len(numbers) != dimension or not all(map(math.isfinite, numbers)):
            raise _odd(f"{dimension or 'some'} finite numbers", provider)
        read.append(numbers)
    return read


def _odd(expected: str, provider: str) -> ProviderError:
    return ProviderError(
        f"the embedder {provider}: expected {expected}, found others", provider=provider
    )


def identity_of(embedder: Embedder | None) -> tuple[int, int]:
    """What tells embedders apart: the one that was given, and the loop it runs on."""
    if isinstance(embedder, Bridged):
        return id(embedder.inner), id(embedder.loop)
    return id(embedder), 0


def bridged(given: object, loop: asyncio.AbstractEventLoop | None) -> Embedder:
    """The embedder as a plane takes it; raises ConfigurationError where it is no embedder."""
    embed = getattr(given, "embed", None)
    dimension = getattr(given, "dimension", None)
    if not callable(embed) or not isinstance(dimension, int):
        raise ConfigurationError(
            f"embedder: expected one with `embed` and `dimension`, found {type(given).__name__}"
        )
    if not iscoroutinefunction(embed):
        return cast("Embedder", given)
    if dimension < 1:
        raise ConfigurationError(
            f"embedder: how many numbers a vector of {getattr(given, 'name', 'this model')} has is "
            "not known; give `dimension=`, or await one `embed` before"
        )
    return Bridged(cast("AsyncEmbedder", given), loop)
