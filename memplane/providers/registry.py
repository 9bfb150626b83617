"""Providers by name: what memplane ships, what a program registers, what packages offer.

Kinds are `embedder`, `reflector`, `counter` and `storage`. A package offers one as an entry point
of the group `memplane.<kind>s`; what a program registers stands before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from memplane.errors import ConfigurationError
from memplane.intake.redact import quoted_value

KINDS: Final = ("embedder", "reflector", "counter", "storage")

_LOCK: Final = threading.Lock()
_REGISTERED: Final[dict[str, dict[str, Callable[..., Any]]]] = {kind: {} for kind in KINDS}


def _store(module: str, name: str) -> Callable[..., Any]:
    """Builds a store; its module is imported when it is asked for."""

    def made(**options: Any) -> Any:
        return getattr(import_module(f"memplane.acms.storage.{module}"), name)(**options)

    return made


_STORES: Final[Mapping[str, Callable[..., Any]]] = {
    "memory": _store("memory", "InMemoryBackend"),
    "sqlite": _store("sqlite", "SQLiteBackend"),
    "postgres": _store("postgres", "PostgresBackend"),
    "chroma": _store("chroma", "ChromaBackend"),
    "plane": _store("plane", "PlaneBackend"),
}


def register(kind: str, name: str, factory: Callable[..., Any]) -> None:
    """Make a provider known: `factory(**options)` builds it. Raises ConfigurationError.

    A name that is taken is refused; memplane's own names are taken.
    """
    known = _of_kind(kind)
    if not isinstance(name, str) or not name.strip() or not callable(factory):
        raise ConfigurationError(
            f"registry: expected a name and a factory, found {quoted_value(name)}"
        )
    with _LOCK:
        if name in known or name in _shipped(kind):
            raise ConfigurationError(f"registry: the {kind} {quoted_value(name)} is registered")
        known[name] = factory


def unregister(kind: str, name: str) -> None:
    """Take back what a program has registered; ConfigurationError where it has not."""
    known = _of_kind(kind)
    with _LOCK:
        if known.pop(name, None) is None:
            raise ConfigurationError(f"registry: no {kind} {quoted_value(name)} was registered")


def get(kind: str, name: str, **options: Any) -> Any:
    """Build a provider. Raises ConfigurationError that lists the known ones, and what it raises."""
    factory = _of_kind(kind).get(name) or _shipped(kind).get(name)
    if factory is None:
        offered = entry_points(group=f"memplane.{kind}s")
        if name not in offered.names:
            known = ", ".join(names(kind)) or "none"
            raise ConfigurationError(f"no {kind} {quoted_value(name)} (known: {known})")
        factory = offered[name].load()
        if not callable(factory):  # a package may offer the provider itself
            return factory
    return factory(**options)


def names(kind: str) -> tuple[str, ...]:
    """The names that `get` knows, in order of letters. Raises ConfigurationError for the kind."""
    offered = entry_points(group=f"memplane.{kind}s").names
    return tuple(sorted({*_of_kind(kind), *_shipped(kind), *offered}))


def _of_kind(kind: str) -> dict[str, Callable[..., Any]]:
    if kind not in _REGISTERED:
        raise ConfigurationError(
            f"registry: expected one of {', '.join(KINDS)}, found {quoted_value(kind)}"
        )
    return _REGISTERED[kind]


def _shipped(kind: str) -> Mapping[str, Callable[..., Any]]:
    """What memplane brings; imported only when somebody asks for providers by name."""
    from memplane.providers import http  # noqa: PLC0415 - it imports this package

    shipped: dict[str, Mapping[str, Callable[..., Any]]] = {
        "embedder": {"http": http.HTTPEmbedder, "openai": http.OpenAIEmbedder},
        "reflector": {
            "http": http.HTTPReflector,
            "openai": http.OpenAIReflector,
            "anthropic": http.AnthropicReflector,
        },
        "storage": _STORES,
    }
    return shipped.get(kind, {})
