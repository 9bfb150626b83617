"""Import names and compile patterns at their first use; tables of words.

A process that lives for a tenth of a second then pays only for what it uses.
"""

from __future__ import annotations

import re
import sys
from _thread import allocate_lock
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ALONE = allocate_lock()


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A `__getattr__` (PEP 562) for the package: each name comes from the module that it is in.

    No name may be that of a module of the package: which of the two it meant would depend on what
    was imported before.
    """
    named = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        module = named.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def late(module: str) -> Any:
    """Return what stands for a module that is imported when one of its names is first asked for.

    Beside an import of the same name under `TYPE_CHECKING`, which type checkers and the contracts
    on imports read.
    """
    return _Late(module)


class _Late:
    """Asks the module each time: what a test puts in the place of a name counts."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if self._module not in sys.modules:
            __import__(self._module)  # as the statement does, `-X importtime` tells of it
        return getattr(sys.modules[self._module], name)


def module_alone(package: str, name: str) -> ModuleType:
    """A module of somebody's package without what the package itself imports.

    The package stays as it was: whole, or not imported, for whoever imports it later.
    """
    with _ALONE:  # what one thread puts into `sys.modules` and takes out no other may find there
        if package in sys.modules or (spec := PathFinder.find_spec(package)) is None:
            return import_module(f"{package}.{name}")
        bare = ModuleType(package)
        bare.__path__ = list(spec.submodule_search_locations or ())
        sys.modules[package] = bare
        try:
            return import_module(f"{package}.{name}")
        finally:
            # A copy at once: other threads import meanwhile.
            for each in [one for one in list(sys.modules) if one.partition(".")[0] == package]:
                del sys.modules[each]


def word_table(text: str) -> tuple[str, ...]:
    """The words of a table that is written as one text, in order."""
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    """The same words as a set."""
    return frozenset(text.split())


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, compiled when one of its methods is first asked for."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, flags))


class _Pattern:
    """Keeps the methods of the compiled pattern, so that they cost nothing more from then on."""

    __slots__ = (
        "_given",
        "findall",
        "finditer",
        "fullmatch",
        "match",
        "pattern",
        "search",
        "split",
        "sub",
        "subn",
    )

    def __init__(self, source: Any, flags: int) -> None:
        self._given = source, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)
        for each in self.__slots__[1:]:
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)
