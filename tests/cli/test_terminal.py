"""Lists on a terminal: tables as wide as it is; plain lines in a pipe; what Ctrl-C leaves."""

import os
import pty
import re
import struct
import sys
import termios
from fcntl import ioctl
from subprocess import PIPE, Popen

import pytest

import memplane
from memplane.cli.output import Bar
from tests.examples import sampled

LONG = "the mast of the old boat is of spruce, and nobody has oiled it " * 4


@pytest.fixture
def spoken(home):
    with memplane.open(home) as plane:
        plane.work.sessions.start("s1")
        plane.record("How is the mast?", role="user", session="s1")
        plane.record(LONG, role="assistant", session="s1")
        plane.record("[red]We oil it[/red] \x1b[31mnow", kind="decision", key="mast.oil")
        plane.work.tasks.open("oil", "Oil the mast")
    return home


def on_terminal(*argv, columns=72, **environment):
    """What a command prints on a terminal of so many columns."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    given = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "memplane", *map(str, argv)]
    said = b""
    with Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=PIPE,
        env={**given, "TERM": "xterm", **environment},
    ) as process:
        os.close(follower)
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            said += piece
        process.wait()
    os.close(leader)
    return said.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


LISTS = (["log"], ["search", "mast"], ["session", "list"], ["task", "list"], ["decisions"],
         ["history", "mast.oil"], ["policy", "show", "budgets"])  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "columns"),
    sampled([(["search", "mast"], 100), *((argv, 60) for argv in LISTS)], 2, several=True),
    ids=lambda one: one[0] if isinstance(one, list) else None,
)
def test_a_list_is_a_table_no_wider_than_the_terminal(spoken, argv, columns):
    lines = plain(on_terminal(*argv, "--home", spoken, columns=columns)).splitlines()
    assert max(map(len, lines)) <= columns, lines
    assert "────" in lines[1]


def test_a_long_hit_wraps_and_loses_no_word(spoken):
    said = plain(on_terminal("search", "spruce", "--home", spoken, columns=70))
    words = " ".join(said.split())
    assert words.count("oiled") == words.count("spruce") >= 1
    assert max(map(len, said.splitlines())) <= 70


def test_what_was_recorded_draws_nothing(spoken):
    said = on_terminal("decisions", "--home", spoken, columns=120)
    assert "[red]We oil it[/red]" in plain(said)
    assert "\x1b[31m" not in said


def test_no_color_means_none(spoken):
    colours = re.compile(r"\x1b\[(?:3|4|9|10)[0-9;]*m")
    for argv in (["log"], ["decisions"]):
        assert not colours.search(on_terminal(*argv, "--home", spoken, NO_COLOR="1"))


def test_a_pipe_gets_plain_lines(spoken, shell):
    for argv in LISTS:
        done = shell(*argv, "--home", spoken)
        assert b"\x1b" not in done.stdout.replace(b"\x1b[31mnow", b"")
        assert "─".encode() not in done.stdout


def test_json_on_a_terminal_is_json(spoken):
    assert on_terminal("decisions", "--home", spoken, "--json").startswith('[{"seq":')


def work(reached, end):
    with Bar("import", "that stays") as bar:
        if reached:
            bar(*reached)
        if end is not None:
            raise end


def test_work_that_ctrl_c_ends_says_how_far_it_came_and_what_stays(capsys):
    with pytest.raises(KeyboardInterrupt):
        work((1, 4, 297), KeyboardInterrupt())
    assert capsys.readouterr().err == (
        "memplane: import stopped at 25%, 297 events recorded; that stays\n"
    )


def test_what_ends_otherwise_or_before_it_began_says_nothing(capsys):
    with pytest.raises(KeyboardInterrupt):
        work((), KeyboardInterrupt())
    with pytest.raises(ValueError, match="no"):
        work((1, 4), ValueError("no"))
    work((4, 4), None)
    assert capsys.readouterr().err == ""
