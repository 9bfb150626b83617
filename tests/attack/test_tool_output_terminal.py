"""A tool's output against the person's terminal: what is recorded is printed, and drives nothing.

The attacker controls every byte of the text. Into a pipe or a file it goes as it was recorded.
"""

import os
import pty
import re
import subprocess
import sys

import pytest

import memplane

# Bold and dim, with which a table is drawn.
OUR_STYLES = re.compile(r"\x1b\[[012]m")
HOSTILE = "done\x1b[31m\x1b]0;owned\x07\x1b[2J\x1b[1;1H\u202egnp.exe\x9b31m\rok\ttab"


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record(HOSTILE, kind="tool_result", role="tool", key="k", id="hostile")
        plane.record(HOSTILE, kind="fact", key="k", id="fact")
    return tmp_path / "plane"


def on_a_terminal(*argv):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "memplane", *map(str, argv)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as child:
        os.close(theirs)
        found = b""
        try:
            while part := os.read(ours, 65536):
                found += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
    assert child.returncode == 0
    return found.decode()


@pytest.mark.parametrize(
    "argv",
    [
        ("show", "hostile"),
        ("log", "--whole"),
        ("get", "k"),
        ("expand", "event/2"),
        ("search", "done"),
    ],
)
def test_no_command_gives_a_terminal_what_would_drive_it(home, argv):
    found = OUR_STYLES.sub("", on_a_terminal(*argv, "--home", home))
    assert "done" in found
    assert not {c for c in found if c in "\x1b\x07\x9b\u202e"}
    assert "\r" not in found.replace("\r\n", "\n")


def test_a_pipe_gets_the_text_as_it_was_recorded(home):
    command = [sys.executable, "-m", "memplane", "get", "k", "--home", str(home)]
    printed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    with memplane.open(home) as plane:
        assert printed == plane.text(plane.get("k")) + "\n"
