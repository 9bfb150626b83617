"""Many hooks at once, as agents start them that work side by side."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from checks_calls import asked, checked, command, said, surroundings, told, unhurried

import memplane

AGENTS = ("claude-code", "codex")
MEGABYTES_MAX = {"UserPromptSubmit": 72, "PostToolUse": 40, "Stop": 40}
ALWAYS = "version: 1\nhooks: {answer: {when: always}}\n"
FEW, MANY = 6, pytest.param(50, marks=pytest.mark.long)


class Ended(NamedTuple):
    """How a hook ended, what it said, and the most memory it had."""

    code: int
    out: bytes
    err: bytes
    megabytes: int


def crowd(home, folder, calls):
    """Run hooks at once, each an agent, what it says, and more words; no process may be left.

    Every prompt is answered.
    """
    (home / "policies" / "plane.yaml").write_text(ALWAYS)
    folder.mkdir()
    paths = [folder / str(number) for number in range(len(calls))]
    for path, call in zip(paths, calls, strict=True):
        path.write_text(json.dumps(call[1]))
    names = [str(path) for path in paths]
    words = [command(agent, *more) for agent, _, *more in calls]
    done = subprocess.run(
        [sys.executable, "-S", Path(__file__).with_name("process_crowd.py")], check=True, text=True,
        input=json.dumps({"words": words, "given": names, "outputs": names}), capture_output=True,
        **surroundings(home, **unhurried(folder)),
    )  # fmt: skip
    ended, left = json.loads(done.stdout)
    assert left == 0
    return [
        Ended(code, Path(f"{name}.out").read_bytes(), Path(f"{name}.err").read_bytes(), kb // 1024)
        for name, (code, kb) in zip(names, ended, strict=True)
    ]


def told_by(home, number):
    """What the hook of this number is told: of three calls a prompt, a tool and an answer."""
    session = {"session_id": f"s{number % 7}"}
    if number % 3 == 0:
        return asked(home, f"the ledger of tenant {number}", prompt_id=f"p{number}", **session)
    if number % 3 == 1:
        used = {"tool_name": "Bash", "tool_use_id": f"t{number}", "tool_response": f"ok {number}"}
        return said("PostToolUse", home, tool_input={"command": f"ls{number}"}, **used, **session)
    return said("Stop", home, last_assistant_message=f"said {number}", **session)


def expected(number):
    return (
        {f"the ledger of tenant {number}"},
        {f"Bash command=ls{number}", f"ok {number}"},
        {f"said {number}"},
    )[number % 3]


@pytest.mark.parametrize("many", [FEW, MANY])
def test_many_hooks_at_once_lose_nothing_leave_nobody_and_stay_small(home, tmp_path, many):
    calls = [(AGENTS[number % 2], told_by(home, number)) for number in range(many)]
    for (_, call), ended in zip(calls, crowd(home, tmp_path / "crowd", calls), strict=True):
        answer = checked(ended.code, ended.out, ended.err)
        assert bool(answer) == (call["hook_event_name"] == "UserPromptSubmit")
        assert ended.megabytes <= MEGABYTES_MAX[call["hook_event_name"]]
    assert told(home) == ""
    assert texts(home) == Counter(text for number in range(many) for text in expected(number))


def texts(home):
    """How often each text of the crowd's sessions stands in the log, which is whole."""
    with memplane.open(home, environment={}) as plane:
        plane.flush()
        assert plane.upkeep.verify(deep=True).ok
        return Counter(event.text for event in plane.events() if (event.session or "")[:1] == "s")


def test_what_many_hooks_are_told_at_once_stands_once(home, tmp_path):
    calls = [("claude-code", asked(home))] * (FEW // 2)
    for ended in crowd(home, tmp_path / "crowd", calls):
        checked(ended.code, ended.out, ended.err)
    assert texts(home) == Counter([asked(home)["prompt"]])


def test_catch_ups_among_the_hooks_lose_nothing(home, tmp_path):
    calls = [(AGENTS[number % 2], told_by(home, number)) for number in range(FEW // 2)]
    calls[2:2] = [(agent, said("Stop", home), "--catch-up") for agent in AGENTS]
    for ended in crowd(home, tmp_path / "crowd", calls):
        checked(ended.code, ended.out, ended.err)
    assert told(home) == ""
    assert texts(home) == Counter(text for number in range(FEW // 2) for text in expected(number))
