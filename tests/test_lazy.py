"""What is imported and compiled late is what it would have been at once."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
import time
import typing
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane import lazy
from memplane.lazy import NamedTuple, late, module_alone, regex


@given(st.text("ab1 \n", max_size=12))
def test_a_late_pattern_does_what_one_compiled_at_once_does(text):
    lazy, usual = regex(r"(a+)|\d", re.IGNORECASE), re.compile(r"(a+)|\d", re.IGNORECASE)
    assert lazy.findall(text) == usual.findall(text)
    assert lazy.sub("-", text) == usual.sub("-", text)
    assert lazy.split(text) == usual.split(text)
    spans = [[m and m.span() for m in (p.search(text), p.match(text), p.fullmatch(text))]
             for p in (lazy, usual)]  # fmt: skip
    assert spans[0] == spans[1]
    assert [m.span() for m in lazy.finditer(text)] == [m.span() for m in usual.finditer(text)]
    assert (lazy.pattern, lazy.flags, lazy.groups) == (usual.pattern, usual.flags, usual.groups)


def test_a_late_pattern_that_is_none_says_so_at_its_first_use():
    lazy = regex("(")
    with pytest.raises(re.error):
        lazy.search("x")


def test_a_module_comes_alone_and_its_package_whole_later():
    code = (
        "import sys\n"
        "from memplane.lazy import module_alone\n"
        "alone = module_alone('snowballstemmer', 'english_stemmer')\n"
        "assert 'snowballstemmer' not in sys.modules\n"
        "assert 'snowballstemmer.german_stemmer' not in sys.modules\n"
        "import snowballstemmer\n"
        "assert snowballstemmer.EnglishStemmer().stemWord('runs') == 'run'\n"
        "assert alone.EnglishStemmer().stemWord('runs') == 'run'\n"
        "assert snowballstemmer.stemmer('german').stemWord('hauses') == 'haus'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_that_want_a_module_alone_at_once_all_get_it():
    code = (
        "import sys, threading\n"
        "from importlib import import_module\n"
        "from memplane import lazy\n"
        "found, began, goes_on = [], threading.Event(), threading.Event()\n"
        "def slow(name):\n"
        "    began.set()\n"
        "    goes_on.wait(.5)\n"  # a second thread must wait for this one: it may not go on first
        "    return import_module(name)\n"
        "lazy.import_module = slow\n"
        "def get():\n"
        "    found.append(lazy.module_alone('snowballstemmer', 'english_stemmer').EnglishStemmer)\n"
        "    goes_on.set()\n"
        "threads = [threading.Thread(target=get) for _ in range(3)]\n"
        "threads[0].start()\n"
        "began.wait()\n"
        "for one in threads[1:]: one.start()\n"
        "for one in threads: one.join()\n"
        "assert [one().stemWord('runs') for one in found] == ['run'] * 3\n"
        "assert 'snowballstemmer' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_late_call_imports_its_module_when_it_is_called():
    code = (
        "import sys\n"
        "from memplane.lazy import late_calls\n"
        "escape, Parser = late_calls('html', 'escape', 'unescape')\n"
        "assert 'html' not in sys.modules\n"
        "assert escape('<', quote=True) == '&lt;'\n"
        "assert 'html' in sys.modules and Parser('&lt;') == '<'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_of_a_package_that_is_there_the_module_is_its_own():
    assert module_alone("json", "decoder") is sys.modules["json.decoder"]


@pytest.mark.parametrize(
    ("argv", "commands", "most"),
    [
        (["--version"], set(), 28),
        (["version"], {"about"}, 29),
        (["record", "hello"], {"record"}, 43),
        (["get", "a.key"], {"show"}, 71),
        (["pack", "hello", "--intent", "fast"], {"retrieval"}, 87),
    ],
)
def test_a_command_imports_its_own_module_and_no_other_command(argv, commands, most, tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False) as plane:
        plane.record("hello", kind="fact", key="a.key")
    code = (
        "import sys\n"
        "from memplane.cli.run import run_command_line\n"
        f"assert run_command_line({argv!r}) == 0\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "MEMPLANE_HOME": str(tmp_path / "plane")},
    )  # fmt: skip
    loaded = ran.stdout.splitlines()[-1].split()
    modules = [name for name in loaded if name.startswith("memplane")]
    assert len(modules) <= most
    found = {name.rpartition(".")[2] for name in modules if name.startswith("memplane.cli.")}
    assert found - {"run", "commands", "options", "output"} == commands
    heavy = {"typer", "click", "rich", "numpy", "orjson", "inspect", "dataclasses"}
    assert heavy.isdisjoint(loaded)


# Records: classes of `memplane.lazy.NamedTuple` against the same of `typing.NamedTuple`.


class _Ours(NamedTuple):
    """A record."""

    one: int
    two: str | None = None
    three: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.one

    def again(self) -> _Ours:
        return self._replace(one=self.one + 1)


class _Theirs(typing.NamedTuple):
    """A record."""

    one: int
    two: str | None = None
    three: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.one

    def again(self) -> _Theirs:
        return self._replace(one=self.one + 1)


_VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.tuples(st.integers()))
_NAMES = st.sampled_from(["one", "two", "three", "four", "_one"])


def _answer(act: Callable[[], Any]) -> Any:
    """What comes of it, without the names of the two classes."""
    try:
        found = act()
    except (TypeError, ValueError, AttributeError) as error:
        found = type(error)
    return repr(found).replace("_Ours", "_Theirs")


@given(st.lists(_VALUES, max_size=4), st.dictionaries(_NAMES, _VALUES, max_size=3))
def test_a_record_does_what_a_named_tuple_of_typing_does(given, named):
    for act in (
        lambda kind: kind(*given, **named),
        lambda kind: kind._make(given),
        lambda kind: kind(1)._replace(**named),
        lambda kind: kind(*given)._asdict(),
        lambda kind: kind(*given) == tuple(given),
        lambda kind: hash(kind(*given, **named)) == hash(tuple(kind(*given, **named))),
        lambda kind: kind(*given).again().double,
        lambda kind: pickle.loads(pickle.dumps(kind(*given, **named))),
        lambda kind: copy.replace(kind(1), **named) if hasattr(copy, "replace") else None,
        lambda kind: copy.deepcopy(kind(*given)),
    ):
        ours, theirs = _answer(lambda a=act: a(_Ours)), _answer(lambda a=act: a(_Theirs))
        assert ours == theirs


@given(st.lists(_VALUES, max_size=4), st.dictionaries(_NAMES, _VALUES, max_size=3), st.booleans())
def test_the_first_objects_of_a_record_are_as_the_later_ones(given, named, compiled):
    built = lazy.BUILT
    try:
        lazy.BUILT = built if compiled else None

        class Ours(NamedTuple):
            one: int
            two: str | None = None
            three: tuple[int, ...] = ()

    finally:
        lazy.BUILT = built

    answers = [_answer(lambda: tuple(Ours(*given, **named))) for _ in range(5)]
    assert answers == [_answer(lambda: tuple(_Theirs(*given, **named)))] * 5


def test_a_record_says_of_itself_what_a_named_tuple_of_typing_says():
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__module__"):
        assert getattr(_Ours, name) == getattr(_Theirs, name)
    assert isinstance(_Ours(1), tuple)
    assert not hasattr(_Ours(1), "__dict__")
    assert typing.get_type_hints(_Ours) == typing.get_type_hints(_Theirs)
    for _ in range(3):  # compiled by then
        _Ours(1)
    assert str(inspect.signature(_Ours)).replace("_cls, ", "") == "(one, two=None, three=())"
    match _Ours(1, "x"):
        case _Ours(one, two):
            assert (one, two) == (1, "x")
    with pytest.raises(AttributeError):
        _Ours(1).one = 2


def test_a_class_that_stands_on_a_record_makes_its_own():
    class Wider(_Ours):
        __slots__ = ()

        def __new__(cls, one):
            return super().__new__(cls, one, "wide")

    class First(_Ours):
        __slots__ = ()

    assert type(First(1)) is First
    assert Wider(3) == (3, "wide", ())
    assert list(inspect.signature(Wider).parameters) == ["one"]
    assert list(inspect.signature(First).parameters) == ["one", "two", "three"]
    assert type(Wider(3)._replace(two="x")) is Wider
    assert type(_Ours(1)) is _Ours


@pytest.mark.parametrize("other", [int, 5])
def test_a_record_makes_no_object_of_another_class(other):
    with pytest.raises(TypeError):
        _Ours.__new__(other, 1)


def test_a_default_before_a_field_without_one_and_a_second_base_are_refused():
    with pytest.raises(TypeError):

        class Bad(NamedTuple):
            one: int = 1
            two: int

    with pytest.raises(TypeError):

        class Both(NamedTuple, Mapping):
            one: int


def test_no_record_of_a_hook_costs_its_process_what_one_of_typing_does():
    code = (
        "import typing; made = []\n"
        "old = typing.NamedTupleMeta.__new__\n"
        "def new(*given): made.append(given[1]); return old(*given)\n"
        "typing.NamedTupleMeta.__new__ = new\n"
        "import memplane.hook.run, memplane.wiring\n"
        "import memplane.plane.packer, memplane.plane.plane\n"
        "print(made)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_threads_that_ask_a_late_module_at_once_wait_until_it_is_there(tmp_path, monkeypatch):
    name = "module_that_takes_its_time"
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{name}.py").write_text("import time\ntime.sleep(0.3)\nsaid = 'whole'\n")
    asked = late(name)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: asked.said)
        while name not in sys.modules:
            time.sleep(0.001)
        assert asked.said == "whole"
        assert first.result() == "whole"
    del sys.modules[name]
