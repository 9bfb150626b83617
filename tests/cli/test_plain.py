"""What is asked plainly is answered as typer would have it answered, from one declaration."""

import functools
import re
import shutil

import pytest
import typer
from hypothesis import HealthCheck, given, settings, strategies as st

from memplane.cli import app as cli_app, run as cli_run
from memplane.cli.commands import (
    DECLARED,
    WrongUseError,
    load_command,
    parameters_of,
    values_of,
)
from tests.examples import examples

load_command("")
_PLAIN = sorted(key for key in DECLARED if key[1] and key[1] != "help")
_WORDS = st.sampled_from(
    [
        "one",
        "",
        "2",
        "007",
        "-1",
        "-",
        "--",
        "-x",
        "1_0",
        "٣",
        "9" * 30,
        "a b",
        "ü",
        "--json",
        "=",
        "a=b",
    ]
)


@functools.cache
def _told(key):
    """What typer would call the command with: a function of the words, or None where it refuses."""
    declared = DECLARED[key]
    tree = typer.Typer(add_completion=False, rich_markup_mode=None)
    tree.callback()(lambda: None)

    @functools.wraps(cli_app.typed(cli_app._in_project(declared.function)))
    def note(*words, **named):
        assert not words
        got.append(named)

    got = []
    tree.command("it")(note)
    made = typer.main.get_command(tree)

    def told(words):
        got.clear()
        try:
            made.main(["it", *words], standalone_mode=False)
        except (cli_app._UsageError, SystemExit):
            return None
        return got[0] if got else None

    return told


def _defaults(function):
    code = function.__code__
    given = function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return {**dict(zip(positional, given, strict=True)), **(function.__kwdefaults__ or {})}


@st.composite
def _asked(draw):
    key = draw(st.sampled_from(_PLAIN))
    function = DECLARED[key].function
    names = [name for one in parameters_of(function) if not one.is_argument
             for some in one.flags() for name in some]  # fmt: skip
    words = []
    for _ in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(names or ["--none"]))
        words += draw(
            st.sampled_from([
                [name], [name, draw(_WORDS)], [f"{name}={draw(_WORDS)}"], [draw(_WORDS)],
                [name[:-1]], [draw(_WORDS), draw(_WORDS)],
            ])
        )  # fmt: skip
    return key, words


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_asked())
def test_words_taken_plainly_give_a_command_what_typer_gives_it(asked):
    key, words = asked
    function = DECLARED[key].function
    plain = values_of(function, words)
    if plain is None:
        return
    theirs = _told(key)(words)
    assert theirs is not None, "typer refuses it"
    usual = {**({"project": None} if "project" in theirs else {}), **_defaults(function)}
    assert {**usual, **plain} == theirs
    assert all(type(value) is type(theirs[name]) for name, value in plain.items())


@pytest.mark.parametrize("key", _PLAIN, ids=" ".join)
def test_each_option_of_each_command_is_taken_plainly(key):
    function = DECLARED[key].function
    needed = []
    for one in parameters_of(function):
        if one.required and one.kind is None:
            pytest.skip("typer reads what it needs")
        if one.required:
            needed += ["7"] if one.is_argument else [one.flags()[0][0], "7"]
    for one in parameters_of(function):
        if one.is_argument or one.kind is None:
            continue
        on, off = one.flags()
        for name in (*on, *off):
            words = [*needed, name] if one.kind is bool else [*needed, name, "7"]
            assert values_of(function, words) is not None, words


_LISTS = (
    ["record", "We keep PostgreSQL", "--kind", "decision", "--key", "db.engine", "--id", "a1"],
    ["record", "We keep PostgreSQL", "--kind=decision", "--key=db.engine", "--id", "a1", "--json"],
    ["record", "--tag", "one", "--tag", "two", "both", "--id", "a2", "--json"],
    ["record"], ["record", "one", "two"], ["record", "--kind"], ["record", "x", "--knd", "fact"],
    ["record", "x", "--importance", "much"], ["record", "-"], ["record", "--", "-x", "--id", "b"],
    ["record", "x", "--ref", "1", "--id", "a3"], ["record", "x", "--home"], ["record", "-h"],
    ["get", "db.engine"], ["get", "db.engine", "--json"], ["get", "none"], ["get"],
    ["get", "none", "--json"], ["get", "db.engine", "--ns", "elsewhere"],
    ["keys", "--limit", "0"], ["keys", "--limit", "2"], ["keys", "--limit", "-2"],
    ["pack", "which database?", "--budget", "500", "--intent", "fast", "--no-report"],
    ["pack", "which database?", "--budget", "x"], ["pack", "--budget", "500", "--report", "--no-report"],
    ["pack", "", "--section", "rules", "--section", "decisions", "--no-report", "--json"],
    ["search", "PostgreSQL"], ["search", "nothing of that kind"], ["log", "--limit", "2"],
    ["task", "list"], ["task"], ["task", "nope"], ["session", "list", "--open", "--json"],
    ["nope"], [], ["--json"], ["--version"], ["--version", "--json"], ["version"], ["--nope"],
    ["--project", "x"], ["record", "x", "--project", "y"], ["projects"], ["projects", "--project", "x"], ["projects", "--json"], ["help", "get"],
)  # fmt: skip


def test_a_table_of_commands_says_the_same_with_and_without_typer(run, told, monkeypatch, tmp_path):
    def all_of(name, plain):
        home = shutil.copytree(told, tmp_path / name / "plane")
        monkeypatch.setenv("SHELL", "/bin/bash")
        if not plain:
            monkeypatch.setattr(cli_run, "_plain", lambda _: None)
        return [
            tuple(
                re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|[\d.]+ ms|\"us\": ?\d+|\d{4}-\d\d-\d\dT[\d:.]+Z|"
                       r"\"(h|age|bytes|at|size|reports?)\":[^,}]*", "*",
                       str(part)).replace(str(home), "HOME")
                for part in run(*argv, *(() if "--" in argv else ("--home", home)))
            )
            for argv in _LISTS
        ]  # fmt: skip

    plainly, fully = all_of("one", plain=True), all_of("two", plain=False)
    for argv, ours, theirs in zip(_LISTS, plainly, fully, strict=True):
        assert ours == theirs, argv


def test_a_command_that_is_wrong_is_refused_by_typer_alone():
    for words in (["--knd", "x"], ["--kind"], ["one", "two"], ["--limit=x"], ["-x"], ["--", "x"]):
        assert values_of(DECLARED["", "record"].function, words) is None
    with pytest.raises(WrongUseError):
        cli_app.answer(["record", "one", "two"])
