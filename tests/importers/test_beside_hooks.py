"""A transcript whose session hooks were told of: what the two say alike stands in the plane once."""

import pytest

import memplane
from memplane import hook
from memplane.importers.records import Hooked
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
        plane.record_many(hook.read_payload("claude-code", call).rows)

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
    assert imported(made.user(other, isCompactSummary=True)) == ["They spoke of masts"]


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


@pytest.mark.parametrize("turn", [{"promptId": "p1"}, {}])
def test_what_a_hook_had_recorded_and_was_purged_stays_away(
    plane, hooked, imported, transcript, turn
):
    hooked("UserPromptSubmit", prompt="I have zebrapox", prompt_id="p1")
    hooked(
        "PostToolUse", tool_name="Bash", tool_use_id="t1", tool_response="zebrapox", tool_input={}
    )
    hooked("PostCompact", compact_summary="They spoke of zebrapox", prompt_id="p1")
    said = "zebrapox, then\n\nPoor you"
    hooked("Stop", last_assistant_message=said, prompt_id="p1")
    for event in [event for event in plane.events() if "zebrapox" in event.text]:
        plane.upkeep.purge(event.id, reason="private", cascade=True)
    made = transcript().user("I have zebrapox", **turn).calls("Bash", "t1")
    made.result("t1", "zebrapox").user(FRAMED.replace("sails", "zebrapox"), isCompactSummary=True)
    made.says(*(said.split("\n\n") if turn else [said])).user("What now?", promptId="p2").says(
        "Nothing"
    )
    assert imported(made) == ["What now?", "Nothing"]


def test_what_was_purged_does_not_come_back_in_the_copy_that_a_fork_holds(
    plane, hooked, imported, transcript
):
    hooked("UserPromptSubmit", prompt="I have zebrapox", prompt_id="p1")
    hooked(
        "PostToolUse", tool_name="Bash", tool_use_id="t1", tool_response="zebrapox", tool_input={}
    )
    for event in [event for event in plane.events() if "zebrapox" in event.text]:
        plane.upkeep.purge(event.id, reason="private", cascade=True)
    hooked("SessionStart", source="fork", session_id="s-two")
    made = transcript("s-two").user("I have zebrapox", promptId="p2").calls("Bash", "t1")
    assert imported(made.result("t1", "zebrapox").says("Poor you")) == ["Poor you"]


def test_an_import_opens_no_session_that_its_client_has_ended(plane, hooked, imported, transcript):
    def at(minute, *texts):
        made = transcript().user("hello")
        for text in texts:
            made.says(text)
        for record in made.records:
            record["timestamp"] = f"2026-06-01T{minute}:00.000Z"
        return made

    hooked("UserPromptSubmit", prompt="hello", prompt_id="p1")
    hooked("SessionEnd", reason="other")  # at noon, and so is the import
    assert imported(at("11:59", "Let me see", "and see")) == ["Let me see", "and see"]
    assert plane.work.sessions.get("s-one").status == "ended"
    assert plane.work.sessions.get("s-one").summary is not None
    assert imported(at("12:01", "Let me see", "and see", "again")) == ["again"]
    assert plane.work.sessions.get("s-one").status == "open"


def test_the_copy_that_a_fork_holds_is_there_already(plane, hooked, imported, transcript):
    hooked("UserPromptSubmit", prompt="of tulips", prompt_id="p1")
    hooked("Stop", last_assistant_message="tulips", prompt_id="p1")
    hooked("SessionStart", source="fork", session_id="s-two")
    hooked("UserPromptSubmit", prompt="of roses", prompt_id="p2", session_id="s-two")
    hooked("SessionEnd", reason="other", session_id="s-two")
    made = transcript("s-two").user("of tulips").says("tulips").user("of roses").says("so")
    for record in made.records[2:]:
        record["timestamp"] = "2026-07-01T10:00:00.000Z"
    assert imported(made) == ["so"]
    assert imported(transcript("s-two").user("of lilies")) == ["of lilies"]


@pytest.fixture
def running(plane, hooked, tmp_path, transcript):
    """Import a transcript while its session runs; give back what it added, and the report."""

    def running(made, **said):
        for record in made.records:
            record["timestamp"] = "2026-06-01T11:59:00.000Z"
        path = tmp_path / "s-one.jsonl"
        path.write_bytes(made.bytes)
        before = plane.head().seq
        report = import_paths(plane, "claude-code", [path])
        added = [event for event in plane.events(after=before) if event.role is not None]
        return [event.text for event in added], report

    return running


def test_what_a_running_agent_said_last_is_left_for_the_import_that_finds_it_answered(
    hooked, running, transcript
):
    hooked("UserPromptSubmit", prompt="import it", prompt_id="p1")
    made = transcript().user("import it").says("I run it").calls("Bash", "t1", command="import")
    added, report = running(made)
    assert added == []
    assert (report.lines, report.skipped) == (3, {"not answered yet": 2})
    used = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "import"}}
    hooked("PostToolUse", **used, tool_response="none")
    added, report = running(made.result("t1", "none").says("None"))
    assert added == ["I run it"]
    assert report.skipped == {"not answered yet": 1}
    hooked("Stop", last_assistant_message="None", prompt_id="p1")
    assert running(made)[0] == []
    assert running(made)[1].unchanged == 1


@pytest.mark.parametrize("how", ["ended", "silent", "without hooks"])
def test_what_an_agent_said_last_is_taken_when_no_hook_will_be_told_of_it(
    plane, hooked, running, transcript, how, monkeypatch
):
    if how == "ended":
        hooked("SessionEnd", reason="other")
    elif how == "silent":
        monkeypatch.setattr(plane.context, "clock", lambda: "2026-06-01T12:11:00.000000Z")
    session = "s-two" if how == "without hooks" else "s-one"
    assert running(transcript(session).user("look").says("I look"))[0] == ["look", "I look"]


def test_of_a_plane_without_hooks_no_event_is_read(tmp_path, monkeypatch):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record_many({"text": f"turn {n}", "role": "user", "session": "s"} for n in range(50))
        with monkeypatch.context() as patched:
            patched.setattr(plane.context.log, "read", None)
            known = Hooked(plane)
            assert not known.was_there("s")
        plane.record("by a hook", role="user", session="s", tags=["hook"])
        known.look()
        assert known.was_there("s")
