"""An expansion that was asked for and is not in the block is an omission, and is said."""

from __future__ import annotations

import subprocess
import sys

import pytest

import memplane


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("The heron stands in the reeds. " * 60, kind="observation")
    return tmp_path / "plane"


@pytest.mark.parametrize(
    ("options", "reason", "said"),
    [
        (["--budget", "60"], "budget", "no room for it in the block"),
        (["--section", "rules"], "section", "was not asked for"),
    ],
)
def test_an_expansion_without_room_is_an_omission_and_a_line_on_stderr(home, options, reason, said):
    with memplane.open(home) as plane:
        asked = {"budget": 60} if reason == "budget" else {"sections": ["rules"]}
        block = plane.pack("", expand=["event/2"], **asked)
        named = [one for one in block.omissions if one.section == "expansions"]
        assert [(one.id, one.reason) for one in named] == [("expand://event/2", reason)]
    command = [sys.executable, "-m", "memplane", "pack", "--expand", "event/2", *options]
    ran = subprocess.run(
        [*command, "--home", str(home)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "memplane: expand://event/2: " in ran.stderr
    assert said in ran.stderr


def test_a_switched_off_section_is_said_too(home):
    policy = home / "policies" / "budgets.yaml"
    policy.write_text("version: 1\nsections: {expansions: {max_tokens: 0, priority: 4}}\n")
    with memplane.open(home) as plane:
        block = plane.pack("", expand=["event/2"])
        assert [one.reason for one in block.omissions if one.section == "expansions"] == ["budget"]
