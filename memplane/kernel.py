"""The compiled kernel, where it was built: a few classes that most of the time goes through.

`memplane/_kernel.c` has a twin for some classes in Python. `kernel_twin` chooses between the two,
by what was there at import alone: `pip install` builds the kernel where there is a compiler, and is
content where there is none. Both give the same, over any input (`tests/kernel`), so that no answer
and no byte on disk depends on which of them a machine has.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Twin = TypeVar("Twin")

# That of `_kernel.c`. A kernel of another one is not used: after a change to the sources an
# editable install has it until it is installed again.
KERNEL_VERSION = 14


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


class Literals:
    """Texts of which one wants to know which another text holds. Safe between threads.

    Where `letters` are given, the texts are words made of these bytes alone, and are found as
    whole words.
    """

    __slots__ = ("_table", "_texts")

    def __init__(self, texts: tuple[str, ...], letters: bytes = b"", /) -> None:
        self._texts = texts
        self._table = bytes(byte if byte in letters else 32 for byte in range(256))
        if not letters:
            self._table = b""

    def among(self, text: str | bytes, /) -> tuple[str, ...]:
        """Those that stand in a text (or its UTF-8 bytes), in the order in which they were given.

        A lone surrogate is a character like any other.
        """
        if isinstance(text, str) and not self._table:
            return tuple([each for each in self._texts if each in text])
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        encoded = [(each.encode("utf-8", "surrogatepass"), each) for each in self._texts]
        if self._table:
            words = frozenset(data.translate(self._table).split())
            return tuple([each for word, each in encoded if word in words])
        return tuple([each for literal, each in encoded if literal in data])

    def places(self, text: str, /) -> list[int]:
        """The places in a text at which one of them begins, each once, rising.

        An empty one begins nowhere. Where the texts are words, no place is given.
        """
        found: set[int] = set()
        for each in () if self._table else self._texts:
            at = text.find(each) if each else -1
            while at >= 0:
                found.add(at)
                at = text.find(each, at + 1)
        return sorted(found)


class RecordMaker:
    """Makes the objects of a record (see `memplane.lazy`): tuples of a class of its own.

    `fields` are the names of the places, `defaults` the values of the last of them. Arguments that
    do not fit the fields are given to `other`, for the error that a function of Python would raise.
    """

    __slots__ = ("_defaults", "_fields", "_other")

    def __init__(
        self, fields: tuple[str, ...], defaults: tuple[Any, ...], other: Callable[..., Any], /
    ) -> None:
        self._fields, self._other = fields, other
        self._defaults = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))

    def make(self, cls: type, /, *given: Any, **named: Any) -> Any:
        """Make an object of the class, whose `__new__` this is."""
        missing = self._fields[len(given) :]
        if len(given) > len(self._fields) or not named.keys() <= set(missing):
            return self._other(cls, *given, **named)
        values = self._defaults | named
        if not all(name in values for name in missing):
            return self._other(cls, *given, **named)
        return tuple.__new__(cls, (*given, *(values[name] for name in missing)))
