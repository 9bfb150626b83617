"""Help, version and completion, as people expect them of a command line."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

import memplane
from memplane.cli.about import SCRIPTS
from memplane.cli.commands import COMMANDS, SECTIONS
from tests.examples import sampled


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


def test_where_names_the_plane_that_commands_here_use(run, tmp_path, monkeypatch):
    home = tmp_path / "made" / ".memplane"
    memplane.init(home).close()
    monkeypatch.chdir(tmp_path)
    assert run("where").code == 3
    assert run("where", "--home", tmp_path / "made").out == f"{home}\n"
    monkeypatch.setenv("MEMPLANE_HOME", str(home))
    assert json.loads(run("where", "--json").out)["home"] == str(home)


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
        "about", "commands", "output", "run",
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


def program_in(folder):
    (folder / "memplane").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memplane "$@"\n')
    (folder / "memplane").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_tab_in_bash_completes_what_was_begun(tmp_path):
    environment = program_in(tmp_path)
    code = (
        'eval "$(memplane completion bash)"\n'
        "COMP_WORDS=(memplane task op); COMP_CWORD=2; _memplane_completion memplane\n"
        'echo "${COMPREPLY[@]}"\n'
        "COMP_WORDS=(memplane session ''); COMP_CWORD=2; _memplane_completion memplane\n"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert done.stdout == "open\nstart checkpoint end list show\n"


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_tab_in_fish_completes_what_was_begun_and_files_where_nothing_else_may_stand(tmp_path):
    environment = program_in(tmp_path)
    (tmp_path / "opal.txt").touch()

    def tab(line):
        code = f"memplane completion fish | source; complete -C {line!r}"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    assert tab("memplane task op") == ["open"]
    assert tab("memplane session ") == ["checkpoint", "end", "list", "show", "start"]
    assert tab("memplane record --ke") == ["--key"]
    assert tab("memplane record op") == ["opal.txt"]


def typed_in_zsh(line, wanted, folder, environment):
    """What a zsh at a terminal shows after a line and Tab, up to `wanted` or for half a minute."""
    terminal, its_end = pty.openpty()
    child = subprocess.Popen(
        ["zsh", "-f", "-i"], cwd=folder, env={**environment, "TERM": "dumb"},
        stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True,
    )  # fmt: skip
    os.close(its_end)
    shown = b""

    def until(words):
        nonlocal shown
        shown, end = b"", time.monotonic() + 30
        while words.encode() not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65_536)

    try:
        ready = "autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; PROMPT=; "
        os.write(terminal, f'{ready}eval "$(memplane completion zsh)"; print rea"dy"\n'.encode())
        until("ready\r\n")
        os.write(terminal, f"{line}\t".encode())
        until(wanted)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)
    return shown.decode(errors="replace")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
@pytest.mark.parametrize(
    ("line", "wanted"),
    sampled(
        [
            ("memplane task op", "memplane task open "),
            ("memplane session che", "memplane session checkpoint "),
            ("memplane record op", "memplane record opal.txt "),
            ("memplane record --ke", "memplane record --key "),
        ],
        2,
        several=True,
    ),
)
def test_tab_in_zsh_completes_what_was_begun_and_files_where_nothing_else_may_stand(
    tmp_path, line, wanted
):
    environment = program_in(tmp_path)
    (tmp_path / "opal.txt").touch()
    assert wanted in typed_in_zsh(line, wanted, tmp_path, environment)
