"""What is imported and compiled late is what it would have been at once."""

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.lazy import module_alone, regex


@given(st.text("ab1 \n", max_size=12))
def test_a_late_pattern_does_what_one_compiled_at_once_does(text):
    late, usual = regex(r"(a+)|\d", re.IGNORECASE), re.compile(r"(a+)|\d", re.IGNORECASE)
    assert late.findall(text) == usual.findall(text)
    assert late.sub("-", text) == usual.sub("-", text)
    assert late.split(text) == usual.split(text)
    spans = [[m and m.span() for m in (p.search(text), p.match(text), p.fullmatch(text))]
             for p in (late, usual)]  # fmt: skip
    assert spans[0] == spans[1]
    assert [m.span() for m in late.finditer(text)] == [m.span() for m in usual.finditer(text)]
    assert (late.pattern, late.flags, late.groups) == (usual.pattern, usual.flags, usual.groups)


def test_a_late_pattern_that_is_none_says_so_at_its_first_use():
    late = regex("(")
    with pytest.raises(re.error):
        late.search("x")


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


def test_of_a_package_that_is_there_the_module_is_its_own():
    assert module_alone("json", "decoder") is sys.modules["json.decoder"]


@pytest.mark.parametrize(
    ("argv", "commands"),
    [(["--version"], set()), (["version"], {"about"}), (["record", "hello"], {"record"})],
)
def test_a_command_imports_its_own_module_and_no_other_command(argv, commands, tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False):
        pass
    code = (
        "import sys\n"
        "from memplane.cli.run import run_command_line\n"
        f"assert run_command_line({argv!r}) == 0\n"
        "print(*(name for name in sys.modules if name.startswith('memplane')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "MEMPLANE_HOME": str(tmp_path / "plane")},
    )  # fmt: skip
    modules = ran.stdout.splitlines()[-1].split()
    assert len(modules) <= 110
    found = {name.rpartition(".")[2] for name in modules if name.startswith("memplane.cli.")}
    assert found - {"run", "app", "options", "output"} == commands
