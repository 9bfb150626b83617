"""A transcript whose session hooks were told of: what the two say alike stands in the plane once."""

import pytest

from memplane.hook import told
from memplane.importers.hooked import Hooked
from memplane.importers.run import import_paths

SUMMARY = "<analysis>\nSails.\n</analysis>\n\n<summary>\nThey spoke of sails\n</summary>"
FRAMED = (
    "This session is being continued from a previous conversation that ran out of context.\n\n"
    "Summary:\nThey spoke of sails\n\nIf you need specific details from before compaction, read "
    "the full transcript at: /t.jsonl\nContinue the conversation from where it left off."
)


@pytest.fixture
def hooked(plane):
    def hooked(event, **said):
        call = {"hook_event_name": event, "session_id": "s-one", "cwd": "/proj", **said}
        plane.record_many(told.read("claude-code", call).rows)

    hooked("SessionStart", source="startup")
    return hooked


@pytest.fixture
def imported(plane, tmp_path):
    """Import a transcript; give back the texts that it added."""

    def imported(made):
        before = plane.head().seq
        path = tmp_path / "s-one.jsonl"
        path.write_bytes(made.bytes)
        import_paths(plane, "claude-code", [path])
        added = [
            event for event in plane.events(after=before) if event.text and event.kind != "session"
        ]
        return [event.text for event in added if not event.data.get("extract")]

    return imported


def test_the_blocks_of_an_answer_that_a_hook_was_told_as_one_are_there(
    plane, hooked, imported, transcript
):
    hooked("UserPromptSubmit", prompt="two blocks", prompt_id="p1")
    hooked("Stop", last_assistant_message="block one\n\nblock\ntwo", prompt_id="p1")
    made = transcript().user("two blocks").says("Let me see").says("block one").says("block\ntwo")
    assert imported(made) == ["Let me see"]


def test_a_part_of_a_line_of_an_answer_is_said_anew(hooked, imported, transcript):
    hooked("Stop", last_assistant_message="block one\n\nblock two", prompt_id="p1")
    assert imported(transcript().says("block").says("two").says("block one")) == ["block", "two"]


def test_a_compaction_has_one_summary(hooked, imported, transcript):
    hooked("PostCompact", compact_summary=SUMMARY)
    made = transcript().user(FRAMED, isCompactSummary=True)
    other = FRAMED.replace("sails", "masts")
    assert imported(made.user(other, isCompactSummary=True)) == [other]


def test_what_the_client_wrote_is_there_once_too(hooked, imported, transcript):
    hooked("UserPromptSubmit", prompt="go on", prompt_id="p1")
    hooked("UserPromptSubmit", prompt="/go Ana", prompt_id="p2")
    opened = {"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"}
    typed = {"type": "text", "text": "go on"}
    command = "<command-name>/go</command-name>\n<command-args>Ana</command-args>"
    assert imported(transcript().user([opened, typed]).user(command)) == [opened["text"]]


def test_what_no_model_said_is_no_answer(plane, imported, transcript):
    made = transcript().user("hello").says("No response requested.").says("Stopped by a limit")
    for record in made.records[1:]:
        record["message"]["model"] = "<synthetic>"
    assert imported(made) == ["hello", "Stopped by a limit"]
    assert [one.role for one in plane.events(kind="message")] == ["user", "system"]


@pytest.mark.parametrize("said", ["ok", "error"])
def test_a_failure_that_no_hook_was_told_of_is_added(plane, hooked, imported, transcript, said):
    data = {"tool": "Bash", "call": "t1", "status": said}
    row = {"kind": "tool_result", "role": "tool", "text": "no drawing", "session": "s-one"}
    plane.record(**row, data=data, id="claude-code:s-one:result:t1", tags=["hook"])
    made = (
        transcript().calls("Bash", "t1", command="draw").result("t1", "no drawing", is_error=True)
    )
    added = imported(made)
    assert added[1:] == (["no drawing"] if said == "ok" else [])


def test_what_hooks_record_later_is_known_when_it_is_looked_for_again(plane, hooked, transcript):
    rows, _ = transcript().user("hello").rows()
    other, _ = transcript("s-two").user("hello").rows()
    asked = Hooked(plane)
    assert not [row for row in (*rows, *other) if asked.holds("claude-code", row)]
    hooked("UserPromptSubmit", prompt="hello", prompt_id="p1")
    hooked("SessionStart", source="resume", session_id="s-two")
    hooked("UserPromptSubmit", prompt="hello", prompt_id="p1", session_id="s-two")
    assert not asked.holds("claude-code", rows[1])
    asked.look()
    assert [asked.holds("claude-code", row) for row in (*rows, *other)] == [False, True] * 2


def test_a_session_that_began_before_others_is_found_after_them(plane, hooked, transcript):
    hooked("UserPromptSubmit", prompt="hello", prompt_id="p1")
    hooked("SessionStart", source="startup", session_id="s-two")
    hooked("UserPromptSubmit", prompt="hello", prompt_id="p1", session_id="s-two")
    asked = Hooked(plane)
    for session in ("s-two", "s-one"):
        rows, _ = transcript(session).user("hello").rows()
        assert asked.holds("claude-code", rows[1])


def test_the_reader_of_transcripts_and_hooks_share_what_they_call_a_person(transcript):
    rows, _ = transcript().user("tick", promptSource="system").rows()
    assert [(row.get("role"), row.get("tags")) for row in rows[1:]] == [("system", ["meta"])]
