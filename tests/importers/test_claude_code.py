import json

import pytest
from builders_json import blocks, comes_to_something, json_values
from hypothesis import given, strategies as st

from memplane.importers.claude_code import ClaudeCode


def one(rows, kind):
    (row,) = [row for row in rows if row["kind"] == kind]
    return row


def test_a_turn_becomes_a_message_with_its_role_session_time_and_branch(transcript):
    rows, skipped = transcript().user("use PostgreSQL").says("It is done.").rows()
    assert rows[1:] == [
        {
            "id": "claude-code:s-one-0000:0",
            "ts": "2026-03-01T10:00:00.000Z",
            "session": "s-one",
            "kind": "message",
            "role": "user",
            "text": "use PostgreSQL",
            "data": {"branch": "main"},
        },
        {
            "id": "claude-code:s-one-0001:0",
            "ts": "2026-03-01T10:00:01.000Z",
            "session": "s-one",
            "kind": "message",
            "role": "assistant",
            "text": "It is done.",
            "data": {"message": "msg_1"},
        },
    ]
    assert skipped == []


def test_the_first_record_that_gives_a_row_begins_its_session(transcript):
    rows, skipped = transcript().add("progress").user("hello").user("again").rows()
    assert rows[0] == {
        "id": "claude-code:s-one:start",
        "ts": "2026-03-01T10:00:01.000Z",
        "kind": "session",
        "session": "s-one",
        "text": "Session started",
        "data": {"status": "start", "branch": "main", "folder": "proj"},
    }
    assert [row["kind"] for row in rows[1:]] == ["message", "message"]
    assert skipped == ["record type progress"]


def test_a_tool_call_reads_as_text_and_names_its_file_relative_to_the_folder(transcript):
    rows, _ = (
        transcript()
        .calls(
            "Edit", "t1", file_path="/proj/src/a.py", old_string="x = 1\ny = 2", new_string="x = 3"
        )
        .rows()
    )
    call = one(rows, "tool_call")
    assert call["text"] == ('Edit file_path=src/a.py new_string="x = 3"\nold_string:\nx = 1\ny = 2')
    assert call["role"] == "assistant"
    assert call["data"] == {
        "tool": "Edit",
        "call": "t1",
        "path": "src/a.py",
        "branch": "main",
        "message": "msg_1",
    }


def test_a_file_keeps_one_path_while_the_agent_changes_its_folder(transcript):
    made = transcript().calls("Read", "t1", file_path="/proj/src/a.py")
    made.common["cwd"] = "/proj/src"
    rows, _ = made.calls("Read", "t2", file_path="/proj/src/a.py").rows()
    assert [row["data"]["path"] for row in rows if row["kind"] == "tool_call"] == ["src/a.py"] * 2


def test_a_result_knows_the_tool_and_file_of_its_call_and_whether_it_failed(transcript):
    rows, _ = (
        transcript()
        .calls("Read", "t1", file_path="/elsewhere/b.py")
        .result("t1", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
        .calls("Bash", "t2", command="make")
        .result("t2", "Exit code 2", is_error=True)
        .rows()
    )
    good, bad = [row for row in rows if row["kind"] == "tool_result"]
    assert (good["role"], good["text"]) == ("tool", "one\ntwo")
    assert good["data"]["path"] == "/elsewhere/b.py"
    assert [row["data"]["status"] for row in (good, bad)] == ["ok", "error"]
    assert [row["data"]["tool"] for row in (good, bad)] == ["Read", "Bash"]


def test_what_memplane_was_asked_and_answered_itself_is_not_recorded_again(transcript):
    made = transcript()
    for call, server in (("t1", "memplane"), ("t2", "plugin_memplane_memplane"), ("t3", "other")):
        made.calls(f"mcp__{server}__memory_search", call, query="db").result(call, f"by {server}")
    rows, skipped = made.rows()
    assert [row["text"] for row in rows if row["kind"] == "tool_result"] == ["by other"]
    assert [row["data"]["tool"] for row in rows if row["kind"] == "tool_call"] == [
        "mcp__other__memory_search"
    ]
    assert skipped == ["call of memplane", "answer of memplane"] * 2


def test_what_a_person_types_while_the_agent_is_at_work_is_a_prompt(transcript):
    blocks = [{"type": "text", "text": "and mind the keel"}, {"type": "image"}]
    queued = {"type": "queued_command", "commandMode": "prompt"}
    made = transcript()
    for more in (
        {"prompt": "use the other file"},
        {"prompt": blocks, "origin": {"kind": "human"}},
        {"prompt": "a reminder", "isMeta": True},
        {"prompt": "an agent is done", "origin": {"kind": "task-notification"}},
        {"prompt": "an agent is done", "commandMode": "task-notification"},
    ):
        made.add("attachment", attachment={**queued, **more})
    rows, skipped = made.add("attachment", attachment={"type": "todo"}).rows()
    assert [(row["role"], row["text"]) for row in rows[1:]] == [
        ("user", "use the other file"),
        ("user", "and mind the keel"),
    ]
    assert skipped == ["block type image", *["record type attachment"] * 4]


def test_rows_name_the_turn_that_they_are_of_as_hooks_do(transcript):
    reader, turns = ClaudeCode(), []
    made = transcript().user("one", promptId="p1").says("ok").user("two", promptId="p2").says("ok")
    for half in (made.records[:2], made.records[2:]):
        reader.begin(reader.state())
        turns += [reader.read(record, b"").turn for record in half]
    assert turns == ["p1", "p1", "p2", "p2"]


def test_of_a_compaction_the_summary_is_taken_without_the_client_s_words_around_it(transcript):
    told = (
        "This session is being continued from a previous conversation that ran out of context.\n\n"
        "Summary:\nThey spoke of sails\nPlease continue the conversation from where we left it off."
    )
    rows, _ = transcript().user(told, isCompactSummary=True).rows()
    assert rows[1]["text"] == "They spoke of sails"


def test_thinking_is_left_out_and_counted_unless_it_is_asked_for(transcript):
    made = transcript().says({"type": "thinking", "thinking": "let me see"}, "Here.")
    rows, skipped = made.rows()
    assert [row["text"] for row in rows[1:]] == ["Here."]
    assert skipped == ["reasoning"]
    rows, skipped = made.rows(reasoning=True)
    assert [(row["text"], row.get("tags")) for row in rows[1:]] == [
        ("let me see", ["reasoning"]),
        ("Here.", None),
    ]
    assert skipped == []


def test_blocks_of_one_message_spread_over_records_are_one_event_each(transcript):
    rows, _ = transcript().says("part one").says("part two", "part three").rows()
    assert [row["id"] for row in rows[1:]] == [
        "claude-code:s-one-0000:0",
        "claude-code:s-one-0001:0",
        "claude-code:s-one-0001:1",
    ]
    assert {row["data"]["message"] for row in rows[1:]} == {"msg_1"}


def test_a_compaction_is_a_checkpoint_of_the_session_and_its_summary_a_summary(transcript):
    rows, _ = (
        transcript()
        .user("hello")
        .add("system", subtype="compact_boundary", content="Conversation compacted")
        .user("So far: …", isCompactSummary=True, isVisibleInTranscriptOnly=True)
        .rows()
    )
    assert [(row["kind"], row.get("role")) for row in rows] == [
        ("session", None),
        ("message", "user"),
        ("session", None),
        ("summary", "system"),
    ]
    assert rows[2]["data"] == {"status": "checkpoint", "branch": "main"}
    assert rows[2]["id"] == "claude-code:s-one-0001:0"


def test_an_api_error_is_a_message_of_the_system(transcript):
    rows, _ = (
        transcript()
        .add("system", subtype="api_error", error={"message": "overloaded"})
        .says("API Error: 500", isApiErrorMessage=True)
        .rows()
    )
    assert [(row["role"], row["text"], row["tags"]) for row in rows[1:]] == [
        ("system", "overloaded", ["api-error"]),
        ("system", "API Error: 500", ["api-error"]),
    ]


@pytest.mark.parametrize(
    ("content", "fields", "role", "tags"),
    [
        ("fix it", {}, "user", None),
        ("a reminder", {"isMeta": True}, "system", ["meta"]),
        ("shown", {"isVisibleInTranscriptOnly": True}, "system", ["transcript-only"]),
        ("[Request interrupted by user]", {}, "system", ["interrupted"]),
        ("<system-reminder>x</system-reminder>", {}, "system", ["meta"]),
        ("<local-command-stdout>Bye</local-command-stdout>", {}, "tool", ["command"]),
        ("look at a.py", {"isSidechain": True}, "system", ["sidechain"]),
    ],
)
def test_only_what_a_person_typed_has_the_role_user(transcript, content, fields, role, tags):
    rows, _ = transcript().user(content, **fields).rows()
    assert (rows[1]["role"], rows[1].get("tags"), rows[1]["text"]) == (role, tags, content)


def test_a_command_reads_as_it_was_typed(transcript):
    written = "<command-name>/r</command-name>\n<command-args>the tests</command-args>"
    rows, _ = transcript().user(written).rows()
    assert (rows[1]["role"], rows[1]["tags"]) == ("user", ["command"])
    assert rows[1]["text"] == "/r the tests"


def test_a_sub_agent_is_named_as_the_actor(transcript):
    rows, _ = transcript().says("found it", isSidechain=True, agentId="a1").rows()
    assert (rows[1]["actor"], rows[1]["tags"]) == ("a1", ["sidechain"])


def test_what_is_left_out_is_counted_by_its_reason(transcript):
    _, skipped = (
        transcript()
        .add("summary")
        .add("hologram")
        .add("system", subtype="turn_duration")
        .user([{"type": "image"}, {"type": "text", "text": "  "}, {"type": "smell"}, 7])
        .says()
        .result("t", [{"type": "text", "text": "seen"}, {"type": "image"}])
        .rows()
    )
    assert skipped == [
        "record type summary",
        "unknown record type hologram",
        "record type system turn_duration",
        "block type image",
        "empty text",
        "unknown block type smell",
        "unknown block",
        "empty record",
        "block type image",
    ]


def test_a_repeated_record_makes_no_rows_and_counts_as_many_as_before(transcript):
    made = transcript().says("one", "two")
    reader = ClaudeCode()
    reader.begin({})
    first = reader.read(made.records[0], b"")
    reader.begin({})
    again = reader.read(made.records[0], b"")
    assert (len(first.rows), again.rows, again.repeated) == (3, (), 2)


def test_reading_goes_on_with_what_the_earlier_lines_told(transcript):
    made = transcript().calls("Read", "t1", file_path="/proj/a.py").result("t1", "text")
    first, second = ClaudeCode(), ClaudeCode()
    first.begin({})
    first.read(made.records[0], b"")
    second.begin(json.loads(json.dumps(first.state())))
    (row,) = second.read(made.records[1], b"").rows
    assert row["data"]["path"] == "a.py"


def test_a_record_without_a_time_has_the_time_before_it(transcript):
    rows, _ = transcript().user("one").user("two", timestamp=None).rows()
    assert rows[1]["ts"] == rows[2]["ts"] == "2026-03-01T10:00:00.000Z"


records = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "summary", "y"]) | json_values},
    optional={
        "uuid": st.text(max_size=200) | json_values,
        "sessionId": st.text(max_size=200) | json_values,
        "timestamp": json_values,
        "cwd": json_values,
        "agentId": st.text(max_size=5),
        "gitBranch": json_values,
        "subtype": st.sampled_from(["compact_boundary", "api_error"]) | json_values,
        "isSidechain": st.booleans(),
        "isMeta": st.booleans(),
        "isApiErrorMessage": st.booleans(),
        "error": json_values,
        "message": json_values
        | st.fixed_dictionaries(
            {"content": st.lists(blocks | json_values, max_size=4) | st.text()}
        ),
    },
)


@given(st.lists(records, max_size=4), st.booleans())
def test_any_record_comes_to_something_and_every_row_passes_the_check_of_events(made, reasoning):
    reader = ClaudeCode(reasoning=reasoning)
    reader.begin({})
    comes_to_something(reader, made)


def queue(made, operation, words=None):
    more = {} if words is None else {"content": words}
    return made.add("queue-operation", operation=operation, **more)


def typed(rows):
    return [row["text"] for row in rows if row.get("role") == "user"]


def test_words_of_the_queue_that_the_running_turn_took_are_the_user_s(transcript):
    made = queue(transcript().user("rig the sails").says("I do."), "enqueue", "use hemp")
    rows, skipped = queue(made, "remove").says("With hemp.").rows()
    assert typed(rows) == ["rig the sails", "use hemp"]
    queued = rows[3]
    assert (queued["kind"], queued["ts"], queued["tags"]) == (
        "message",
        "2026-03-01T10:00:02.000Z",
        ["queued"],
    )
    assert queued["id"].startswith("claude-code:queued:")
    assert skipped == ["record type queue-operation"]


@pytest.mark.parametrize(
    "words", ["/skills", "", "<task-notification>\ndone\n</task-notification>"]
)
def test_commands_and_notes_of_the_client_in_the_queue_are_nobody_s_words(transcript, words):
    made = queue(queue(transcript().user("rig the sails"), "enqueue", words), "enqueue", "use hemp")
    rows, _ = queue(queue(made, "remove"), "remove").says("Aye.").rows()
    assert typed(rows) == ["rig the sails", "use hemp"]


def test_words_of_the_queue_that_come_as_a_record_of_their_own_count_once(transcript):
    made = queue(transcript().user("rig the sails"), "enqueue", "use hemp")
    rows, _ = queue(made, "dequeue").user("use hemp").says("Aye.").rows()
    assert typed(rows) == ["rig the sails", "use hemp"]
    assert rows[2]["id"] == "claude-code:s-one-0003:0"
    queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "use hemp"}
    made = transcript().add("attachment", attachment={"type": "todo"}).user("rig the sails")
    made = queue(queue(made, "enqueue", "use hemp"), "remove")
    rows, _ = made.add("attachment", attachment=queued).says("Aye.").rows()
    assert typed(rows) == ["rig the sails", "use hemp"]


def test_words_that_a_person_took_back_from_the_queue_were_not_said(transcript):
    made = queue(transcript().user("rig the sails"), "enqueue", "use hemp")
    rows, _ = queue(made, "popAll").says("Aye.").rows()
    assert typed(rows) == ["rig the sails"]


def test_words_that_still_wait_at_the_end_of_a_file_count_once_when_it_grows(transcript):
    made = queue(transcript().user("rig the sails"), "enqueue", "use hemp")
    grown = queue(made, "dequeue").user("use hemp").records[2:]
    reader = ClaudeCode()
    reader.begin({})
    for record in made.records[:2]:
        reader.read(record, b"")
    assert typed(reader.rest().rows) == ["use hemp"]
    again = ClaudeCode()
    again.begin(json.loads(json.dumps(reader.state())))
    outcomes = [again.read(record, b"") for record in grown]
    assert [row for outcome in outcomes for row in outcome.rows] == []
    assert sum(outcome.repeated for outcome in outcomes) == 1
    assert again.rest().rows == ()


def test_copies_of_a_file_give_the_words_of_the_queue_the_same_id(transcript):
    made = queue(queue(transcript().user("rig the sails"), "enqueue", "use hemp"), "remove")
    ids = [row["id"] for row in made.rows()[0]]
    assert ids == [row["id"] for row in made.rows()[0]]


def test_why_a_person_refused_a_call_is_a_message_of_his_beside_the_result(transcript):
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. "
        "To tell you how to proceed, the user said:\nuse a map"
    )
    made = (
        transcript().calls("Edit", "t1", file_path="/proj/a.py").result("t1", said, is_error=True)
    )
    rows, _ = made.rows()
    result, reason = rows[-2:]
    assert (result["text"], result["data"]["rejected"]) == (said, "reason")
    assert reason == {
        "id": "claude-code:s-one-0001:0:reason",
        "ts": "2026-03-01T10:00:01.000Z",
        "session": "s-one",
        "kind": "message",
        "role": "user",
        "text": "use a map",
        "tags": ["reason"],
        "data": {"call": "t1", "branch": "main"},
    }
    bare, _ = transcript().calls("Edit", "t1").result("t1", said.partition(" To")[0]).rows()
    assert "rejected" not in bare[-1]["data"]
