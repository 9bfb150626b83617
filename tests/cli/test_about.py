"""Help, version and completion, as people expect them of a command line."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from memplane.cli.about import SCRIPTS
from memplane.cli.commands import COMMANDS, SECTIONS


def completed(*words, form="words", **environment):
    done = subprocess.run(
        [sys.executable, "-m", "memplane", *words], capture_output=True, text=True, check=True,
        env={**os.environ, "_MEMPLANE_COMPLETE": form, **environment},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_h_is_help_of_the_root_of_groups_and_of_commands(run):
    for words in ([], ["task"], ["task", "open"], ["pack"]):
        assert run(*words, "-h") == run(*words, "--help")
        assert run(*words, "-h").code == 0


def test_help_prints_what_the_option_prints(run):
    for words in ([], ["task"], ["task", "open"], ["pack"]):
        assert run("help", *words).out == run(*words, "--help").out
    assert json.loads(run("help", "pack", "--json").out)["command"] == "pack"


def test_help_of_what_is_no_command_names_the_nearest(run):
    done = run("help", "serach")
    assert (done.code, done.out) == (2, "")
    assert done.err == "memplane: help: no command 'serach'; did you mean `search`?\n"
    assert run("help", "task", "opne").code == 2


def test_version_is_what_the_option_prints(run):
    assert run("version") == run("--version")
    assert json.loads(run("version", "--json").out) == json.loads(run("--version", "--json").out)


def test_the_help_groups_every_command_and_cuts_no_text(run):
    page = run("--help").out
    headings = re.findall(r"^([A-Z].*|memplane itself):$", page, re.MULTILINE)
    assert headings == ["Options", *SECTIONS]
    assert re.findall(r"^  ([a-z]+)  ", page, re.MULTILINE) == list(COMMANDS)
    for name in ("task", "policy", "session", "artifact", "scenario", "projects"):
        page += run(name, "--help").out
    assert page.count("...") == 7  # of `COMMAND [ARGS]...` in each first line


def test_names_of_commands_and_options_are_completed():
    assert completed("re") == ["record", "remember", "replay", "repair", "rebuild", "restore"] or (
        set(completed("re")) == {name for name in COMMANDS if name.startswith("re")}
    )
    assert completed("--home", "x", "sea") == ["search"]
    assert completed("task", "o") == ["open"]
    assert completed("record", "--ke") == ["--key"]
    assert completed("task", "open", "--pl") == ["--plan"]
    assert completed("record", "half a text") == []  # names of files, by the shell itself
    assert completed("nosuch", "") == []


def test_completion_explains_where_the_shell_can_show_it():
    (row,) = completed("record", "--ke", form="tabs")
    assert row.startswith("--key\tA later event")
    (row,) = completed("task", "op", form="colons")
    assert row.startswith("open:Open a task")


def test_a_name_is_completed_without_the_import_of_a_command():
    code = (
        "import sys\n"
        "from memplane.cli.run import run_command_line\n"
        "assert run_command_line(['sea']) == 0\n"
        "print(*sorted(m for m in sys.modules if m.startswith('memplane.cli.')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "_MEMPLANE_COMPLETE": "words"},
    ).stdout.splitlines()  # fmt: skip
    assert ran[0] == "search"
    assert {name.rpartition(".")[2] for name in ran[1].split()} == {
        "about", "commands", "options", "output", "run",
    }  # fmt: skip


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_a_shell_is_printed_and_is_valid_there(run, tmp_path, monkeypatch, shell):
    done = run("completion", shell)
    assert done.code == 0
    assert "_MEMPLANE_COMPLETE" in done.out
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run("--show-completion").out == done.out == run("completion").out
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    (tmp_path / "script").write_text(done.out)
    subprocess.run([program, "-n", tmp_path / "script"], check=True)


def test_without_a_plane_it_names_the_demo_and_the_help(run, person):
    done = run()
    assert done.code == 3
    assert "make one with `memplane init`" in done.err
    assert "`memplane demo` shows what it does; `memplane help` lists the commands" in done.err


def test_another_shell_is_wrong_use(run, monkeypatch):
    assert run("completion", "zs").err == (
        "memplane: completion: expected bash, zsh or fish, found 'zs'; did you mean `zsh`?\n"
    )
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run("--show-completion").code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_tab_in_bash_completes_what_was_begun(tmp_path):
    (tmp_path / "memplane").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memplane "$@"\n')
    (tmp_path / "memplane").chmod(0o755)
    code = (
        'eval "$(memplane completion bash)"\n'
        "COMP_WORDS=(memplane task op); COMP_CWORD=2; _memplane_completion memplane\n"
        'echo "${COMPREPLY[@]}"\n'
        "COMP_WORDS=(memplane session ''); COMP_CWORD=2; _memplane_completion memplane\n"
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.stdout == "open\nstart checkpoint end list show\n"
