"""Public names of a package that are imported when they are first used.

A process that lives for a tenth of a second pays for what it uses alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


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
