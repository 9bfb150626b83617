"""`memplane hook` as a coding agent runs it: a process, JSON on stdin, exit code 0 whatever happens."""

from checks_calls import WORDS, context, events_of, hook, said, told


def test_what_a_session_says_and_does_is_recorded(home):
    hook(home, said("SessionStart", home, source="startup"))
    hook(home, said("UserPromptSubmit", home, prompt="hello", prompt_id="p1"))
    used = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    hook(home, said("PostToolUse", home, tool_response={"stdout": "a.py"}, **used))
    hook(home, said("Stop", home, last_assistant_message="there is a.py"))
    hook(home, said("PostCompact", home, compact_summary="they looked at a.py"))
    hook(home, said("SessionEnd", home, reason="other"))
    assert [(one.kind, one.role, one.text) for one in events_of(home)] == [
        ("session", None, "Session started"),
        ("message", "user", "hello"),
        ("tool_call", "assistant", "Bash command=ls"),
        ("tool_result", "tool", "a.py"),
        ("message", "assistant", "there is a.py"),
        ("summary", "system", "they looked at a.py"),
        ("session", None, "Session ended"),
    ]
    assert told(home) == ""


def test_a_start_tells_what_holds_and_a_prompt_what_speaks_to_it_once(home):
    start = context(hook(home, said("SessionStart", home, source="startup")))
    assert "We keep PostgreSQL for the ledger" in start
    prompt = said("UserPromptSubmit", home, prompt="which cursor does the ledger keep?")
    first = context(hook(home, {**prompt, "prompt_id": "p1"}))
    assert WORDS in first
    assert "which cursor does" not in first
    assert "We keep PostgreSQL" not in first
    again = hook(home, {**prompt, "prompt_id": "p2"})
    told = {line for line in first.splitlines() if WORDS in line}
    assert not again or told.isdisjoint(context(again).splitlines())


def test_after_a_compaction_what_was_shown_comes_again(home):
    first = context(hook(home, said("SessionStart", home, source="startup")))
    assert hook(home, said("SessionStart", home, source="resume")) == ""
    again = context(hook(home, said("SessionStart", home, source="compact")))
    assert "We keep PostgreSQL" in first
    assert "We keep PostgreSQL" in again


def test_what_another_session_said_is_found_after_a_catch_up(home):
    text = "The mast of the new boat is spruce"
    hook(home, {**said("UserPromptSubmit", home, prompt=text), "session_id": "s0"})
    hook(home, said("Stop", home), "--catch-up")
    asked = said("UserPromptSubmit", home, prompt="what is the mast of the boat made of?")
    assert text in context(hook(home, asked))
