"""Whose words a prompt of Claude Code is, and what of a compaction's summary is the summary."""

import pytest
from hypothesis import given, strategies as st

from memplane.importers.rows import asked_of_codex, compaction, spoken

PERSON = ("", "user", "typed", "queued", "suggestion_accepted", "sdk", "anything new")
SELECTED = "<ide_selection>lines 1 to 9 of a.py:\nx</ide_selection> y</ide_selection>"
OPENED = "<ide_opened_file>The user opened a.py</ide_opened_file>"


@pytest.mark.parametrize("source", PERSON)
@given(st.text(st.characters(exclude_characters="<["), min_size=1))
def test_words_without_a_mark_of_the_client_are_always_a_persons_and_stay_as_they_are(source, text):
    assert spoken(text, source) == (text, "user", "")


@pytest.mark.parametrize("source", ["system", "loop_wakeup", "schedule_wakeup", "poll_event"])
def test_what_the_client_says_that_it_wrote_is_no_persons(source):
    assert spoken("go on with the tests", source) == ("go on with the tests", "system", "meta")


@pytest.mark.parametrize(
    ("text", "role", "tag"),
    [
        ("<system-reminder>\nAlways obey</system-reminder>", "system", "meta"),
        ("\n <task-notification>\n<task-id>b1</task-id></task-notification>", "system", "meta"),
        ('<teammate-message teammate_id="a">hi</teammate-message>', "system", "meta"),
        ('<cross-session-message from="b">hi</cross-session-message>', "system", "meta"),
        ("<local-command-caveat>Caveat</local-command-caveat>", "system", "meta"),
        ("<local-command-stdout>out</local-command-stdout>", "tool", "command"),
        ("<bash-input>ls</bash-input>", "tool", "command"),
        ("<bash-stderr>out</bash-stderr>", "tool", "command"),
        ("[Request interrupted by user for tool use]", "system", "interrupted"),
        (OPENED, "system", "meta"),
        ("<ide_opened_file>unfinished", "system", "meta"),
    ],
)
def test_what_the_client_writes_under_the_users_name_is_no_persons(text, role, tag):
    assert spoken(text) == (text, role, tag)


def test_a_command_is_told_as_it_was_typed():
    said = "<command-message>go</command-message>\n<command-name>/go</command-name>"
    assert spoken(f"{said}\n<command-args>Ana </command-args>") == ("/go Ana", "user", "command")
    assert spoken(said) == ("/go", "user", "command")
    assert spoken("<command-name>unfinished") == ("<command-name>unfinished", "user", "")


@pytest.mark.parametrize("before", [OPENED, SELECTED, OPENED + SELECTED, f"{SELECTED}\n{OPENED}"])
def test_what_an_editor_puts_before_a_persons_words_is_none_of_them(before):
    assert spoken(f"{before}\nfix it") == ("fix it", "user", "")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            "# Context from my IDE setup:\n\n## Open\na.py\n\n## My request for Codex:\nfix it\n",
            "fix it",
        ),
        ("# Context from my IDE setup:\n\n## My request for Codex:\n", None),
        ("# Context from my IDE setup: what is it?", None),
        ("Say:\n## My request for Codex:\nfix it", None),
    ],
)
def test_what_an_editor_puts_before_a_request_of_codex_is_none_of_it(text, asked):
    assert asked_of_codex(text) == (text if asked is None else asked)


SUMMARY = "They spoke of sails.\n\n1. Red ones <b>\n2. None"
FRAMED = (
    "This session is being continued from a previous conversation that ran out of context. The "
    "summary below covers the earlier portion of the conversation.\n\n{}\n\nIf you need specific "
    "details from before compaction (like exact code snippets), read the full transcript at: /t\n"
    "Continue the conversation from where it left off."
)
OLD = (
    "This session is being continued from a previous conversation that ran out of context. The "
    "conversation is summarized below:\n{}.\nPlease continue the conversation from where we left "
    "it off without asking the user any further questions."
)
TOOLS = "<system-reminder>\n<tools-used>Bash</tools-used>\n</system-reminder>\n"


@pytest.mark.parametrize(
    "told",
    [
        SUMMARY,
        f"<analysis>\nFirst, sails.\n</analysis>\n\n<summary>\n{SUMMARY}\n</summary>",
        FRAMED.format(SUMMARY),
        FRAMED.format(f"Summary:\n{SUMMARY}"),
        FRAMED.format(f"{TOOLS}{SUMMARY}"),
        f"Another language model started to solve this problem and made this:\n{SUMMARY}",
    ],
)
def test_a_summary_is_the_same_whatever_the_client_says_around_it(told):
    assert compaction(told) == SUMMARY


def test_the_summary_of_older_clients_keeps_their_full_stop():
    assert compaction(OLD.format(SUMMARY)) == f"{SUMMARY}."


@given(st.text())
def test_any_text_has_a_summary_in_it(text):
    assert compaction(text) in text or "</" in text
    compaction(FRAMED.format(text))
