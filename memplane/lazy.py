"""Import names, compile patterns and make records at their first use; tables of words.

A process that lives for a tenth of a second then pays only for what it uses.
"""

from __future__ import annotations

import re
import sys
from _thread import allocate_lock
from collections import namedtuple
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, Final, cast

from memplane.kernel import BUILT, RecordMaker, kernel_twin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import (
        NamedTuple as NamedTuple,  # noqa: PLC0414 - passed on
        Protocol as Protocol,  # noqa: PLC0414
        Self,
        TypedDict as TypedDict,  # noqa: PLC0414
    )

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


def late_calls(module: str, *names: str) -> tuple[Callable[..., Any], ...]:
    """Functions and classes that are imported when they are first called.

    In the place of `from module import names` beside the same under `TYPE_CHECKING`.
    """
    return tuple(_late_call(module, name) for name in names)


class _LateFunctions:
    """A module whose functions are named before it is imported."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = _late_call(self._module, name)
        setattr(self, name, found)  # the same one each time
        return found


def late_functions(module: str) -> Any:
    """A module of functions, for tables that name them: it is imported when one is first called."""
    return _LateFunctions(module)


def _late_call(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = None

    def call(*given: Any, **named: Any) -> Any:
        nonlocal found
        if found is None:
            __import__(module)
            found = cast("Callable[..., Any]", getattr(sys.modules[module], name))
        return found(*given, **named)

    return call


class _Late:
    """Asks the module each time: what a test puts in the place of a name counts."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        # As the statement does: `-X importtime` tells of it. Also of one that is in `sys.modules`:
        # another thread may be importing it, and is waited for.
        __import__(self._module)
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


# Readers of a tuple's places, one set for all records; a record has at most so many fields.
_FIELDS_MAX: Final = 40
_PLACES: Final[Any] = namedtuple("_PLACES", [f"place{at}" for at in range(_FIELDS_MAX)])  # type: ignore[misc]  # noqa: PYI024
_READERS: Final = tuple(vars(_PLACES)[place] for place in vars(_PLACES)["_fields"])


_COMPILED_FROM: Final = 3  # a record's object from which on its constructor is compiled
# For names that are no field, as typing's own.
_NO_FIELD: Final = TypeError if sys.version_info >= (3, 13) else ValueError


def _owner(cls: Any) -> Any:
    """The record that a class is, or stands on."""
    for one in cls.__mro__ if isinstance(cls, type) else ():
        if "_fields" in vars(one):
            return one
    raise TypeError(f"{cls!r} is no record")


def _constructor(owner: Any) -> Callable[..., Any]:
    """A record's `__new__` as a function."""
    names = ", ".join(owner._fields)
    source = f"lambda _cls, {names}: _new(_cls, ({names}{',' if names else ''}))"
    made: Any = eval(source, {"_new": tuple.__new__, "__builtins__": {}})  # noqa: S307 - our names
    made.__name__, made.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
    made.__defaults__ = tuple(owner._field_defaults.values())
    return cast("Callable[..., Any]", made)


def _called(cls: Any, /, *given: Any, **named: Any) -> Any:
    """What a function makes of these arguments: the error where they do not fit."""
    return _constructor(_owner(cls))(cls, *given, **named)


class _Signature:
    """`__signature__` of a record: that of its constructor, which the kernel's does not tell."""

    def __get__(self, record: object, cls: Any) -> Any:
        made = [one for one in cls.__mro__ if {"__new__", "_fields"} & vars(one).keys()]
        if "_fields" not in vars(made[0]):
            return None  # its own `__new__` tells
        import inspect  # noqa: PLC0415 - the caller has imported it

        whole = inspect.signature(_constructor(made[0]))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


class _Record(tuple[Any, ...]):
    """What `typing.NamedTuple` gives its classes, except that no constructor is compiled for each.

    A hook imports 200 records and makes some of 100, most of them once or twice. Of a class of
    typing each takes 130 us: every annotation is compiled, and the constructor; of these it takes
    11. The kernel's `RecordMaker` is the constructor, where there is one; else it is compiled, in
    65 us, from the third of a record's objects on.
    """

    __slots__ = ()
    __signature__ = _Signature()
    if TYPE_CHECKING:
        _fields: tuple[str, ...]
        _field_defaults: dict[str, Any]
        __made__: int

    def __new__(cls, /, *given: Any, **named: Any) -> Self:
        owner = _owner(cls)
        owner.__made__ += 1
        if owner.__made__ < _COMPILED_FROM:
            defaults = tuple(owner._field_defaults.values())
            return cast(
                "Self", RecordMaker(owner._fields, defaults, _called).make(cls, *given, **named)
            )
        owner.__new__ = staticmethod(_constructor(owner))
        return cast("Self", owner.__new__(cls, *given, **named))

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **named: Any) -> Self:
        made = self._make(map(named.pop, self._fields, self))
        if named:
            raise _NO_FIELD(f"Got unexpected field names: {list(named)!r}")
        return made

    __replace__ = _replace  # what `copy.replace` of Python 3.13 asks for

    def __repr__(self) -> str:
        values = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values)})"

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Fields(type):
    """Makes a record of a class body: its annotations are the fields, in order."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        del bases
        fields = tuple(body.get("__annotations__", ()))
        values = {field: body[field] for field in fields if field in body}
        if not fields or [*values] != [*fields[len(fields) - len(values) :]]:
            raise TypeError(f"{name}: expected fields, those with a default last")
        body |= dict(zip(fields, _READERS[: len(fields)], strict=True))
        body |= {"__slots__": (), "__match_args__": fields, "_fields": fields, "__made__": 0}
        if BUILT is not None:
            maker = kernel_twin(RecordMaker)(fields, tuple(values.values()), _called)
            body["__new__"] = staticmethod(maker.make)
        return type(name, (_Record,), body | {"_field_defaults": values})


class _Named:
    """The base that a class statement names; the class made has another one."""

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        if len(bases) > 1:
            raise TypeError("a record has no other base")
        return (_BASE,)


_BASE: Final[Any] = type.__new__(_Fields, "NamedTuple", (), {})
if not TYPE_CHECKING:
    # As `typing.NamedTuple`, of which type checkers are told. Where it is used annotations are
    # texts (`from __future__ import annotations`).
    NamedTuple = _Named()


class _Described:
    """What stands in the place of `typing.Protocol` and `typing.TypedDict`.

    Classes of these say to type checkers what others are like, and make no objects. typing's own
    compile each annotation and ask `abc`: a hook imports 30 of them.
    """

    __slots__ = ()

    def __init_subclass__(cls, **_: Any) -> None: ...

    def __class_getitem__(cls, _: Any) -> Any:
        return cls


if not TYPE_CHECKING:
    Protocol = TypedDict = _Described
