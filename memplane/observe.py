"""What a program can see of a plane at work: calls, counts and times, never what they are about.

An `Observer` is given to `memplane.open`. It gets the name of each call (record, pack, search, get,
expand, recall, embed, reflect) and of what happens within it (catch_up, index, retry, degraded,
marked_overflow, episode_closed), with numbers and short hashes: no text, query, key, tag, path, and
no name of a person, a session or an agent. One correlation id follows a call through all of them.
Reads are seen here and never written to the log.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from memplane.errors import ConfigurationError, InputError
from memplane.lazy import Protocol, late

if TYPE_CHECKING:
    import logging
else:
    logging = late("logging")  # where an observer fails

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

Fields = dict[str, Any]

LEVELS: Final = ("debug", "info", "warning")
_WARNINGS: Final = frozenset(("degraded", "retry", "marked_overflow"))
_DETAILS: Final = frozenset(("catch_up", "index"))
_ID_CHARACTERS: Final = 64
_HASH_DIGITS: Final = 12

_CORRELATION: Final[ContextVar[str]] = ContextVar("memplane_correlation", default="")
OBSERVED: Final[ContextVar[Observing | None]] = ContextVar("memplane_observed", default=None)
UNOBSERVED: Final[AbstractContextManager[None]] = nullcontext()


class Observer(Protocol):
    """Receives what a plane does. It may be called from any thread, and must not call the plane.

    `fields` are numbers and short texts. Those of a span grow until it ends: `duration_ms`, what
    was found, and `error`, the class of what was raised. One that raises is dropped.
    """

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Something happened."""

    def span(self, name: str, fields: Mapping[str, Any]) -> AbstractContextManager[object]:
        """Something begins; it ends when the context manager is left."""


@contextmanager
def correlated(id: str | None = None) -> Iterator[str]:  # noqa: A002 - the field's name
    """Give all calls inside one correlation id: the one that is given, or a new one.

    Without it each outermost call has its own. Raises InputError for an id that is no word of at
    most 64 letters, digits, `-`, `_` and `.`.
    """
    name = _new_id() if id is None else id
    plain = isinstance(name, str) and name.replace("-", "").replace("_", "").replace(".", "")
    if not plain or not plain.isalnum() or not plain.isascii() or len(name) > _ID_CHARACTERS:
        raise InputError(
            "expected up to 64 letters, digits, -, _ and ., found something else", where="id"
        )
    token = _CORRELATION.set(name)
    try:
        yield name
    finally:
        _CORRELATION.reset(token)


def correlation_id() -> str:
    """The id that the calls of this task or thread have now, "" outside of all."""
    return _CORRELATION.get()


def note(name: str, fields: Mapping[str, Any]) -> None:
    """Tell the observer of the call that is under way, if there is one."""
    observing = OBSERVED.get()
    if observing is not None:
        observing.event(name, dict(fields))


def hashed(name: str | None) -> str:
    """What stands for a name: 12 hex digits of its SHA-256, "" for none."""
    if not name:
        return ""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


def _new_id() -> str:
    return os.urandom(8).hex()


def check_observer(given: object) -> None:
    """Raise ConfigurationError for what is no `Observer`."""
    if not all(callable(getattr(given, name, None)) for name in ("event", "span")):
        raise ConfigurationError(
            f"observer: expected one with `event` and `span`, found {type(given).__name__}"
        )


class Observing:
    """The observer of one plane, as the plane calls it; the first error drops the observer."""

    def __init__(self, observer: Observer, plane: str) -> None:
        self.observer: Observer | None = observer
        self._plane = hashed(plane)

    def event(self, name: str, fields: Fields) -> None:
        """Pass an event on."""
        observer = self.observer
        if observer is None:
            return
        try:
            observer.event(name, self.common(fields))
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self.drop(error)

    def span(self, name: str, fields: Fields) -> AbstractContextManager[None]:
        """Pass a span on."""
        return UNOBSERVED if self.observer is None else _Span(self, name, fields)

    def common(self, fields: Fields) -> Fields:
        """The fields with those that all have."""
        fields.setdefault("plane", self._plane)
        fields["correlation_id"] = _CORRELATION.get()
        return fields

    def drop(self, error: Exception) -> None:
        """An observer that fails is asked no more, and costs no call."""
        self.observer = None
        kind = type(error).__name__
        logging.getLogger("memplane").warning("the observer failed and was dropped (%s)", kind)


class _Span:
    """A call that is under way."""

    __slots__ = ("_begun", "_fields", "_inner", "_name", "_observing", "_tokens")

    def __init__(self, observing: Observing, name: str, fields: Fields) -> None:
        self._observing, self._name, self._fields = observing, name, fields
        self._inner: AbstractContextManager[object] | None = None
        self._tokens: tuple[Token[str] | None, Token[Observing | None] | None] = (None, None)

    def __enter__(self) -> None:
        outer = None if _CORRELATION.get() else _CORRELATION.set(_new_id())
        self._tokens = outer, OBSERVED.set(self._observing)
        observer = self._observing.observer
        self._begun = time.perf_counter()
        if observer is None:
            return
        try:
            inner = observer.span(self._name, self._observing.common(self._fields))
            inner.__enter__()
            self._inner = inner
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._observing.drop(error)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._fields["duration_ms"] = round((time.perf_counter() - self._begun) * 1000, 3)
        if kind is not None:
            self._fields["error"] = kind.__name__
        try:
            if self._inner is not None:
                self._inner.__exit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._observing.drop(error)
        finally:
            outer, observed = self._tokens
            if observed is not None:
                OBSERVED.reset(observed)
            if outer is not None:
                _CORRELATION.reset(outer)


class _Context(Protocol):
    observing: Observing | None


class Observable(Protocol):
    """What has the observer of an open plane."""

    @property
    def context(self) -> _Context: ...


def observed(
    name: str, said: Callable[[Any], Mapping[str, Any]]
) -> Callable[
    [Callable[Concatenate[Any, Given], Answer]], Callable[Concatenate[Any, Given], Answer]
]:
    """A method of an `Observable` whose calls are spans; `said` gives the fields of its answer."""

    def wrap(
        method: Callable[Concatenate[Any, Given], Answer],
    ) -> Callable[Concatenate[Any, Given], Answer]:
        @wraps(method)
        def call(self: Observable, /, *args: Given.args, **named: Given.kwargs) -> Answer:
            observing = self.context.observing
            if observing is None:
                return method(self, *args, **named)
            fields: Fields = {
                key: value if key == "channel" else hashed(value)
                for key in ("channel", "agent", "session")
                if isinstance(value := named.get(key), str)
            }
            with observing.span(name, fields):
                answer = method(self, *args, **named)
                fields.update(said(answer))
            return answer

        return call

    return wrap


class JsonLogs:
    """Writes a line of JSON for each event and each span that has ended.

    `level`: debug for all, info without what happens within calls, warning for what went without
    something. Lines of several threads do not mix; one that cannot be written is lost.
    """

    def __init__(self, stream: IO[str] | None = None, level: str = "info") -> None:
        if level not in LEVELS:
            raise ConfigurationError(f"level: expected one of {', '.join(LEVELS)}, found {level!r}")
        self._stream, self._least = stream, LEVELS.index(level)

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write a line."""
        level = "warning" if name in _WARNINGS or "error" in fields else "info"
        if name in _DETAILS:
            level = "debug"
        if LEVELS.index(level) < self._least:
            return
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        line = {"ts": now, "level": level, "event": name, **fields}
        stream = self._stream or sys.stderr
        stream.write(f"{json.dumps(line, ensure_ascii=True, separators=(',', ':'))}\n")
        stream.flush()

    @contextmanager
    def span(self, name: str, fields: Mapping[str, Any]) -> Iterator[None]:
        """Write a line at the end."""
        yield
        self.event(name, fields)


class Both:
    """Two observers as one."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._first, self._second = first, second

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Tell both."""
        self._first.event(name, fields)
        self._second.event(name, fields)

    @contextmanager
    def span(self, name: str, fields: Mapping[str, Any]) -> Iterator[Self]:
        """Tell both."""
        with self._first.span(name, fields), self._second.span(name, fields):
            yield self
