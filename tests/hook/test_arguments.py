"""The words of `memplane hook` may come in any order: people write these lines by hand, too."""

import json
import subprocess
import sys

import pytest
from checks_calls import asked, checked, said, surroundings

import memplane


@pytest.mark.parametrize(
    "words",
    [
        "claude-code --home {}", "claude-code --home={}", "--home {} claude-code",
        "--home={} claude-code",
    ],
)  # fmt: skip
def test_the_plane_may_be_named_before_the_agent_or_behind(home, tmp_path, words):
    (tmp_path / "elsewhere").mkdir()
    where = surroundings(tmp_path / "elsewhere" / "x")
    for given in (said("SessionStart", tmp_path / "elsewhere" / "x", source="startup"),
                  asked(tmp_path / "elsewhere" / "x", prompt="the sluice is of elm")):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "memplane", "hook", *words.format(home).split()],
            input=json.dumps(given).encode(), capture_output=True, check=False, **where,
        )  # fmt: skip
        checked(done.returncode, done.stdout, done.stderr)
    assert not (home / "hooks.log").exists()
    with memplane.open(home) as plane:
        assert "the sluice is of elm" in [event.text for event in plane.events()]
