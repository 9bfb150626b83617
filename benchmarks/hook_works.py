"""The rows of `memplane hook`: a process for each event of a coding agent, beside a bare Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

from measure import Peer, Work, seconds, times
from place import Place
from process_works import cpu_row

import memplane

__all__ = ["HOOK_COPIED", "HOOK_PROMPT", "HOOK_RECORD", "HOOK_WORKS"]

_MILLI: Final = 1e3
_numbers = count(1)
# What the memory answers, and with what: others are met by silence, sooner.
_PROMPT: Final = "Why does the billing cache drop the invoice after a restart?"
_ANSWER: Final = "The billing cache drops the invoice after a restart: its snapshot is late."

HOOK_RECORD: Final = "hook, a tool's result recorded"
HOOK_PROMPT: Final = "hook, a prompt recorded and answered"
HOOK_COPIED: Final = "CPU of a hook, prompt, plane copied"

Make = Callable[[Place, int], Work]


def recording(place: Place, runs: int) -> Work:
    """What each tool call of an agent costs."""
    home, runs = place.hooked, max(2, runs // 40)

    def told() -> dict[str, Any]:
        number = next(_numbers)
        return {
            "hook_event_name": "PostToolUse", "session_id": "bench", "tool_name": "Bash",
            "tool_use_id": f"call-{number}", "tool_input": {"command": f"ls src/{number}"},
            "tool_response": {"stdout": place.text(), "stderr": ""},
        }  # fmt: skip

    return _row(HOOK_RECORD, runs, times(lambda: _hook(home, told()), runs, _MILLI))


def answering(place: Place, runs: int) -> Work:
    """What the first prompt of a session costs, which is answered from the whole log.

    The session begins with it: a start could say before what would answer the prompt.
    """
    home, runs = place.hooked, max(2, runs // 40)
    with memplane.open(home, durability="os") as plane:
        plane.record(_ANSWER, role="user", session="earlier")
        plane.upkeep.index()
        plane.upkeep.rebuild()

    def asked() -> float:
        number = next(_numbers)
        session = {"session_id": f"bench-{number}"}
        said = {
            **session, "hook_event_name": "UserPromptSubmit", "prompt_id": f"p{number}",
            "prompt": _PROMPT,
        }  # fmt: skip
        answers: list[bytes] = []
        took = seconds(lambda: answers.append(_hook(home, said)))
        assert b"additionalContext" in answers[0]
        return took * _MILLI

    return _row(HOOK_PROMPT, runs, lambda: [asked() for _ in range(runs)])


def answering_copied(place: Place, runs: int) -> Work:
    """The same of a plane that was just copied, but for its first prompt: processor time."""
    home, runs = place.new("copied"), max(2, runs // 40)
    shutil.copytree(place.hooked, home)

    def asked() -> None:
        number = next(_numbers)
        _hook(home, {
            "session_id": f"bench-{number}", "hook_event_name": "UserPromptSubmit",
            "prompt_id": f"p{number}", "prompt": _PROMPT,
        })  # fmt: skip

    asked()
    return cpu_row(HOOK_COPIED, runs, asked)


def _row(name: str, runs: int, sample: Callable[[], list[float]]) -> Work:
    bare = times(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), runs, _MILLI)
    return Work(name, "ms", sample, peers=[Peer("python -c pass", bare)])


def _hook(home: Path, said: dict[str, Any]) -> bytes:
    done = subprocess.run(
        [Path(sys.executable).with_name("memplane"), "hook", "claude-code"], check=True,
        input=json.dumps({"cwd": "/", **said}).encode(), capture_output=True,
        env={**os.environ, "MEMPLANE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip
    return done.stdout


HOOK_WORKS: Final[dict[str, Make]] = {
    "hook-record": recording,
    "hook-prompt": answering,
    "hook-copied": answering_copied,
}
