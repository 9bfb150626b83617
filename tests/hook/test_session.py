"""A whole session as its hooks see it: nothing twice while the client holds it, and a light end."""

import json
import re
import subprocess
import sys

import pytest
from checks_calls import WORDS, asked, command, events_of, hook, said, surroundings, told

PROMPTS = (
    "which cursor does the ledger keep?",
    "what does the ledger keep for tenant 42?",
    "is there one cursor for each tenant of the ledger?",
    "who keeps the cursor of tenant 7?",
)


@pytest.fixture
def talk(fork, home):
    """Say things at a session's hooks, and catch up as at its stops; give back the answers."""
    count = 0

    def talk(*prompts, agent="claude-code"):
        nonlocal count
        answers = []
        for prompt in prompts:
            count += 1
            answers.append(fork(home, asked(home, prompt, prompt_id=f"p{count}"), agent=agent))
            words = f"It keeps what was asked, {count}"
            fork(home, said("Stop", home, last_assistant_message=words), agent=agent)
            fork(home, said("Stop", home), "--catch-up", agent=agent)
        return answers

    return talk


def shown(answers):
    """The numbered facts in answers, each as often as it stands there."""
    return [found for one in answers for found in re.findall(rf"{WORDS} (\d+)", one)]


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_nothing_comes_twice_before_a_compaction_and_nothing_twice_after_it(
    fork, home, talk, agent
):
    before = [fork(home, said("SessionStart", home, source="startup"), agent=agent)]
    before += talk(*PROMPTS, agent=agent)
    fork(home, said("PostCompact", home, compact_summary="They spoke of cursors"), agent=agent)
    after = [fork(home, said("SessionStart", home, source="compact"), agent=agent)]
    after += talk(*PROMPTS[::-1], agent=agent)
    for answers in (before, after):
        numbers = shown(answers)
        assert len(numbers) == len(set(numbers)) > 0
        assert sum("We keep PostgreSQL" in one for one in answers) == 1
    assert set(shown(before)) & set(shown(after))  # the client has dropped what it held
    assert told(home) == ""


@pytest.mark.parametrize("resumed", [False, True])
def test_a_session_is_never_told_what_it_said_itself_while_the_client_holds_it(
    fork, home, talk, resumed
):
    fork(home, said("SessionStart", home, source="startup"))
    own = ["the ledger keeps the cursor of Ada", "Ada keeps the ledger's cursor in a drawer"]
    answers = talk(*own, "where does Ada keep the cursor of the ledger?")
    if resumed:
        answers.append(fork(home, said("SessionStart", home, source="resume")))
    answers += talk("whose cursor of the ledger lies in a drawer?")
    assert not [one for one in answers if "Ada" in one]
    assert "drawer" in fork(home, asked(home, "where is the cursor of Ada?", session_id="s2"))


def test_after_a_compaction_a_session_is_told_once_what_it_said_before(fork, home, talk):
    fork(home, said("SessionStart", home, source="startup"))
    talk("Ada keeps the ledger's cursor in a drawer")
    answers = [fork(home, said("SessionStart", home, source="compact"))]
    answers += talk("where is the drawer of Ada?", "is the cursor in the drawer of Ada?")
    assert sum("Ada keeps" in one for one in answers) == 1
    assert not [one for one in answers if "is the drawer" in one]


@pytest.mark.parametrize("first", ["SessionStart", "PostCompact"])
def test_what_was_said_between_two_compactions_is_told_after_the_second(fork, home, talk, first):
    """Claude Code starts the session anew before it tells of the summary."""

    def compact(number):
        calls = [
            said("SessionStart", home, source="compact"),
            said("PostCompact", home, compact_summary=f"summary {number} of nothing much"),
        ]
        if first == "PostCompact":
            calls.reverse()
        return [fork(home, call) for call in calls]

    fork(home, said("SessionStart", home, source="startup"))
    talk("Ada keeps the cursor in a drawer")
    compact(1)
    talk("the millstone weighs two tonnes")
    answers = [*compact(2), *talk("how heavy is the millstone in tonnes?")]
    assert sum("weighs two" in one for one in answers) == 1
    answers += talk("where is the cursor of Ada?")
    assert sum("in a drawer" in one for one in answers) == 1


def imported(home, call, *more):
    """The modules that a hook imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command("claude-code", *more)[1:]],
        input=json.dumps(call).encode(), capture_output=True, check=False, **surroundings(home),
    )  # fmt: skip
    words = done.stderr.decode()
    assert not (
        noise := [line for line in words.splitlines() if not line.startswith("import time:")]
    ), noise
    return {line.rpartition("|")[2].strip() for line in words.splitlines()}


HEAVY = {
    "memplane.plane.packer", "memplane.plane.plane", "memplane.context.context",
    "memplane.pack.block", "memplane.recall.gate", "memplane.index.reader", "memplane.wiring",
    "memplane.tokens", "importlib.metadata",
    "numpy", "yaml", "typer", "rich", "jsonschema", "orjson", "asyncio", "subprocess", "sqlite3",
}  # fmt: skip


@pytest.mark.parametrize("event", ["SessionEnd", "PostToolUse", "Stop", "PostCompact"])
def test_who_only_records_opens_no_plane_and_packs_nothing(home, event):
    """Claude Code gives all hooks together a second and a half at a session's end."""
    more = {"tool_name": "Bash", "tool_response": "ok", "last_assistant_message": "done",
            "compact_summary": "short", "reason": "other"}  # fmt: skip
    hook(home, asked(home))  # the policies' parsed form is kept from now on
    loaded = imported(home, said(event, home, **more))
    assert loaded & HEAVY == set()
    assert not [one for one in loaded if one.startswith(("memplane.pack", "memplane.index."))]
    assert len([one for one in loaded if one.startswith("memplane")]) <= 40
    assert len(events_of(home)) > 1


def test_an_answer_is_packed_without_what_is_heavy_for_a_hook(home):
    hook(home, asked(home))
    question = "where is the cursor of the ledger?"
    loaded = imported(home, asked(home, question, prompt_id="p2"))
    assert "memplane.plane.packer" in loaded
    heavy = {"numpy", "yaml", "typer", "rich", "jsonschema", "orjson", "asyncio"}
    assert loaded & (heavy | {"dataclasses", "inspect", "difflib"}) == set()
    ours = [name for name in loaded if name.startswith("memplane")]
    assert len(ours) <= 83
    unused = (
        *("memplane.work", "memplane.artifacts", "memplane.explain", "memplane.importers.decided"),
        *("memplane.pack.tail", "memplane.projections.digests", "memplane.projections.checks"),
        *("memplane.index.fill_order", "memplane.context.artifact_files"),
    )
    assert not [name for name in ours if name.startswith(unused)]
