"""What adapters of agents' frameworks have in common: imports at first use, classes, threads.

An adapter imports its framework when that is used first. Its classes stand over a base class of the
framework and are made when they are first asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import cache, wraps
from importlib import import_module
from types import MappingProxyType, new_class
from typing import Any, Final, ParamSpec, TypeVar, get_type_hints

from memplane.errors import MissingExtraError
from memplane.lazy import NamedTuple

_P = ParamSpec("_P")
_T = TypeVar("_T")
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Over(NamedTuple):
    """A class of ours, what gives the framework's base class, and values of fields."""

    own: type
    base: Callable[[], type]
    values: Mapping[str, Any] = _NONE


def framework(begins: str, name: str, extra: str) -> Callable[[str], Any]:
    """What imports a framework's modules, by the end of their names.

    It raises MissingExtraError where the framework is not installed.
    """

    def module(ends: str) -> Any:
        try:
            return import_module(f"{begins}{ends}")
        except ImportError as error:
            raise MissingExtraError(name, extra) from error

    return module


def classes(home: str, made: Mapping[str, Over]) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562) for classes over those of a framework.

    What our class annotates are fields of the class that is made; `values` are their defaults.
    """

    @cache
    def make(name: str) -> type:
        own, base, values = made[name]
        told = {"__doc__": own.__doc__, "__module__": home, "__annotations__": get_type_hints(own)}
        body = {**told, **values}
        return new_class(name, (own, base()), exec_body=lambda space: space.update(body))

    def get(name: str) -> Any:
        if name not in made:
            raise AttributeError(f"module {home!r} has no attribute {name!r}")
        return make(name)

    return get


def in_thread(call: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """The same call for event loops: it runs in a thread, so that none waits for the disk."""

    @wraps(call)
    async def run(*given: _P.args, **named: _P.kwargs) -> _T:
        return await asyncio.to_thread(call, *given, **named)

    return run
