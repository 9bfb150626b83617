"""The compiled kernel, where it was built: a few classes that most of the time goes through.

`memplane/_kernel.c` has a twin for some classes in Python. `kernel_twin` chooses between the two,
by what was there at import alone: `pip install` builds the kernel where there is a compiler, and is
content where there is none. Both give the same, over any input (`tests/kernel`), so that no answer
and no byte on disk depends on which of them a machine has.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

Twin = TypeVar("Twin")

# That of `_kernel.c`. A kernel of another one is not used: after a change to the sources an
# editable install has it until it is installed again.
KERNEL_VERSION = 3


def _built() -> Any:
    try:
        found = import_module("memplane._kernel")
    except ImportError:
        return None
    return found if found.VERSION == KERNEL_VERSION else None


BUILT = _built()


def kernel_twin(twin: type[Twin]) -> type[Twin]:
    """The class of that name in the kernel; `twin` itself where that was not built."""
    found: type[Twin] = twin if BUILT is None else getattr(BUILT, twin.__name__)
    return found
