"""Rollouts of Codex, record by record."""

import json

import pytest

from memplane.importers.codex import Codex, codex_end_id, codex_sessions_in


class Rollout:
    """Builds the records of one rollout as its client writes them."""

    def __init__(self, session="s-one", folder="/proj", *, meta=True, **fields):
        self.records = []
        git = {"commit_hash": "c0ffee", "branch": "main"}
        if meta:
            self.add("session_meta", id=session, cwd=folder, git=git, source="cli", **fields)

    def add(self, kind, **payload):
        number = len(self.records)
        ts = f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z"
        self.records.append({"timestamp": ts, "ordinal": number, "type": kind, "payload": payload})
        return self

    def item(self, kind, **fields):
        return self.add("response_item", type=kind, **fields)

    def says(self, text, role="user"):
        shape = "output_text" if role == "assistant" else "input_text"
        parts = [text] if isinstance(text, str) else text
        content = [{"type": shape, "text": p} if isinstance(p, str) else p for p in parts]
        return self.item("message", role=role, content=content)

    def calls(self, tool, call, **arguments):
        given = json.dumps(arguments)
        return self.item("function_call", name=tool, arguments=given, call_id=call)

    def answer(self, call, output):
        return self.item("function_call_output", call_id=call, output=output)

    def rows(self, reader=None, **options):
        reader = reader or Codex(**options)
        reader.begin({})
        outcomes = [reader.read(record, b"") for record in self.records]
        rows = [row for outcome in outcomes for row in outcome.rows]
        return rows, [reason for outcome in outcomes for reason in outcome.skipped]


def told(rows):
    return [(row["kind"], row.get("role"), row["text"]) for row in rows]


def test_a_talk_becomes_messages_with_their_session_time_and_branch():
    rows, skipped = Rollout().says("use PostgreSQL").says("It is done.", "assistant").rows()
    assert rows[0] == {
        "id": "codex:s-one:start",
        "ts": "2026-03-01T10:00:01.000Z",
        "kind": "session",
        "session": "s-one",
        "text": "Session started",
        "data": {"status": "start", "branch": "main", "folder": "proj"},
    }
    assert {key: rows[1][key] for key in rows[1] if key != "id"} == {
        "ts": "2026-03-01T10:00:01.000Z",
        "session": "s-one",
        "kind": "message",
        "role": "user",
        "text": "use PostgreSQL",
        "data": {"branch": "main"},
    }
    assert (rows[2]["role"], rows[2]["text"]) == ("assistant", "It is done.")
    assert skipped == ["record type session_meta"]


def test_ids_name_the_session_and_differ_where_the_same_words_come_again():
    rows, _ = Rollout().says("go on").says("go on").rows()
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == 3
    assert all(id_.startswith("codex:s-one:") for id_ in ids)


def test_a_call_reads_as_text_and_its_output_knows_the_tool_and_whether_it_failed():
    made = (
        Rollout()
        .calls("shell", "c1", command=["bash", "-lc", "make test"], workdir="/proj")
        .answer("c1", json.dumps({"output": "boom", "metadata": {"exit_code": 2}}))
        .calls("exec_command", "c2", cmd="ls", yield_time_ms=1000)
        .answer("c2", "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\na.py")
        .calls("exec_command", "c3", cmd="false")
        .answer("c3", "Exit code: 1\nWall time: 0 seconds\nOutput:\n")
    )
    rows, _ = made.rows()
    assert [row["text"] for row in rows if row["kind"] == "tool_call"] == [
        'shell command="make test" workdir=/proj',
        "exec_command cmd=ls yield_time_ms=1000",
        "exec_command cmd=false",
    ]
    results = [row for row in rows if row["kind"] == "tool_result"]
    assert results[0]["text"] == "boom"
    assert [(r["data"]["tool"], r["data"]["status"]) for r in results] == [
        ("shell", "error"), ("exec_command", "ok"), ("exec_command", "error"),
    ]  # fmt: skip


def test_a_patch_names_the_file_that_it_changes_relative_to_the_folder():
    patch = "*** Begin Patch\n*** Update File: /proj/src/a.py\n@@\n-x\n+y\n*** End Patch"
    made = (
        Rollout()
        .item("custom_tool_call", name="apply_patch", input=patch, call_id="c1")
        .item("custom_tool_call_output", call_id="c1", output="Success")
        .calls("shell", "c2", command=["apply_patch", patch.replace("/proj/", "")])
    )
    rows, _ = made.rows()
    assert [row["data"]["path"] for row in rows[1:]] == ["src/a.py"] * 3
    assert rows[1]["text"] == f"apply_patch\n{patch}"


def test_searches_and_local_shells_are_calls_too():
    made = (
        Rollout()
        .item("web_search_call", status="completed", action={"type": "search", "query": "bm25 idf"})
        .item("local_shell_call", call_id="c", action={"type": "exec", "command": ["ls", "a b"]})
    )
    rows, _ = made.rows()
    assert [row["text"] for row in rows[1:]] == [
        'web_search query="bm25 idf"',
        "local_shell command=\"ls 'a b'\"",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/proj</cwd>\n</environment_context>",
        "# AGENTS.md instructions for /proj\n\n<INSTRUCTIONS>be brief</INSTRUCTIONS>",
        "<user_instructions>\nbe brief\n</user_instructions>",
        "<skill>\n<name>demo</name>\n</skill>",
        "<permissions instructions>none</permissions instructions>",
        '<subagent_notification>{"agent_id": 1}</subagent_notification>',
        "<hook_prompt hook_run_id='1'>go on</hook_prompt>",
    ],
)
def test_what_the_client_says_under_the_users_name_is_counted_and_not_recorded(text):
    rows, skipped = Rollout().says([text, "fix it"]).rows()
    assert [row["text"] for row in rows[1:]] == ["fix it"]
    assert [reason.split()[0] for reason in skipped] == ["record", "client"]
    assert "%" not in skipped[1].replace("permissions%20instructions", "")


def test_where_a_rollout_says_what_a_person_typed_that_counts():
    made = Rollout().says(["<skill>typed</skill>", "new in this version", "fix it", "and this"])
    kinds = ["user.text", "clocks.reminder", "user.text", "unknown"]
    passed = {"turn_id": "t", "content_item_kinds": kinds}
    made.records[-1]["payload"]["internal_chat_message_metadata_passthrough"] = passed
    rows, skipped = made.rows()
    assert [row["text"] for row in rows[1:]] == ["<skill>typed</skill>", "fix it", "and this"]
    assert skipped[1:] == ["client text clocks.reminder"]


def test_messages_of_the_developer_which_hold_what_hooks_gave_are_not_recorded():
    block = "<hook_context>The database is SQLite.</hook_context>"
    rows, skipped = Rollout().says(block, "developer").says("be brief", "system").rows()
    assert rows == []
    assert skipped[1:] == ["message of role developer", "message of role system"]


def test_an_interruption_and_a_command_of_the_user_are_no_words_of_the_user():
    made = Rollout().says("<turn_aborted>\nThe user interrupted.\n</turn_aborted>")
    rows, _ = made.says("<user_shell_command>\n<command>ls</command>").rows()
    assert [(row["role"], row["tags"]) for row in rows[1:]] == [
        ("system", ["interrupted"]),
        ("tool", ["command"]),
    ]


def test_of_a_prompt_from_an_editor_the_request_is_taken():
    prompt = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix it\n"
    rows, _ = Rollout().says(prompt).rows()
    assert rows[1]["text"] == "fix it"


def test_rows_name_the_turn_that_they_are_of_as_hooks_do():
    made = Rollout().says("none yet").add("turn_context", turn_id="t1", cwd="/proj").says("one")
    made.add("compacted", message="so far").add("turn_context", turn_id="t2").says("two")
    reader, turns = Codex(), []
    reader.begin({})
    for record in made.records:
        outcome = reader.read(record, b"")
        turns += [outcome.turn] * bool(outcome.rows)
        state = reader.state()
        reader.begin(state)
    assert turns == ["", "t1", "t1", "t2"]


def test_what_memplane_was_asked_and_answered_itself_is_not_recorded_again():
    made = (
        Rollout()
        .calls("mcp__memplane__memory_search", "c1", query="db")
        .answer("c1", "The database is SQLite.")
        .item("function_call", namespace="mcp__memplane", name="memory_get", arguments="{}",
              call_id="c2")
        .answer("c2", "SQLite")
        .calls("mcp__other__memplane", "c3")
        .answer("c3", "new")
    )  # fmt: skip
    rows, skipped = made.rows()
    assert [row["text"] for row in rows if row["kind"] == "tool_result"] == ["new"]
    assert [row["data"]["tool"] for row in rows if row["kind"] == "tool_call"] == [
        "mcp__other__memplane"
    ]
    assert skipped[1:] == ["call of memplane", "answer of memplane"] * 2


def test_reasoning_is_left_out_unless_it_is_asked_for_and_names_nothing_else():
    summary = [{"type": "summary_text", "text": "let me see"}]
    made = Rollout().item("reasoning", summary=summary, encrypted_content="x").says("hi")
    without, skipped = made.rows()
    rows, _ = made.rows(reasoning=True)
    assert skipped == ["record type session_meta", "reasoning"]
    assert told(rows[1:]) == [
        ("message", "assistant", "let me see"), ("message", "user", "hi"),
    ]  # fmt: skip
    assert rows[1]["tags"] == ["reasoning"]
    assert without[-1]["id"] == rows[-1]["id"]


def test_a_compaction_is_a_checkpoint_and_its_summary_a_summary():
    rows, _ = Rollout().says("hi").add("compacted", message="So far: …").rows()
    assert told(rows[2:]) == [
        ("session", None, "Conversation compacted"), ("summary", "system", "So far: …"),
    ]  # fmt: skip
    assert rows[2]["data"] == {"status": "checkpoint", "branch": "main"}
    bare, _ = Rollout().says("hi").add("compacted", message="").rows()
    assert told(bare[2:]) == told(rows[2:3])


def test_what_repeats_or_is_unknown_is_counted_by_its_type():
    made = (
        Rollout()
        .add("event_msg", type="user_message", message="hi")
        .add("turn_context", cwd="/proj/sub", model="m")
        .add("world_state", state={})
        .add("hologram", x=1)
        .item("ghost_snapshot", ghost_commit={})
        .item("smell")
        .says([{"type": "input_image", "image_url": "data:"}, "  ", {"type": "odour"}])
        .answer("c", [{"type": "input_text", "text": "seen"}, {"type": "input_image"}])
    )
    rows, skipped = made.rows()
    assert skipped[1:] == [
        "event_msg user_message",
        "record type turn_context",
        "record type world_state",
        "unknown record type hologram",
        "item type ghost_snapshot",
        "unknown item type smell",
        "part type input_image",
        "empty text",
        "unknown part type odour",
        "part type input_image",
    ]
    assert [row["text"] for row in rows[1:]] == ["seen"]


def test_a_rollout_without_envelope_has_the_time_and_session_of_its_header():
    made = Rollout(meta=False)
    made.records = [
        {"id": "old", "timestamp": "2025-07-01T08:00:00.000Z", "instructions": None,
         "git": {"branch": "dev"}},
        {"record_type": "state"},
        {"type": "message", "id": None, "role": "user",
         "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
    ]  # fmt: skip
    rows, skipped = made.rows()
    assert skipped == ["record type session_meta", "record type state"]
    assert {(row["session"], row["ts"]) for row in rows} == {("old", "2025-07-01T08:00:00.000Z")}
    assert [row["text"] for row in rows] == ["Session started", "hello", "hi"]
    made.records = [{"session": made.records[0], "items": made.records[2:]}]
    assert made.rows()[0] == rows


def test_a_copy_in_a_fork_has_the_ids_of_the_original_and_what_follows_has_its_own():
    original = Rollout("s-one").says("one").says("two", "assistant").says("three")
    fork = Rollout("s-two", forked_from_id="s-one")
    fork.records += Rollout("s-one").says("one").says("two", "assistant").records
    fork.says("another")
    first, second = original.rows()[0], fork.rows()[0]
    assert [row["id"] for row in first[1:3]] == [row["id"] for row in second[1:3]]
    assert second[0]["data"]["parent"] == "s-one"
    assert second[3]["id"] not in {row["id"] for row in first}
    assert {row["session"] for row in second} == {"s-two"}


def test_a_header_that_is_written_again_names_nothing_anew():
    made = Rollout().says("hello")
    made.records.append(made.records[0])
    rows, _ = made.says("hello").rows()
    assert len({row["id"] for row in rows}) == len(rows) == 3


def test_a_sub_agents_orders_are_no_words_of_the_user_and_it_is_the_actor():
    spawn = {"parent_thread_id": "s-one", "depth": 1, "agent_nickname": "Cicero"}
    made = Rollout("s-two", thread_source="subagent")
    made.records[0]["payload"]["source"] = {"subagent": {"thread_spawn": spawn}}
    rows, _ = made.says("look at a.py").says("found it", "assistant").rows()
    assert [row.get("role") for row in rows] == [None, "system", "assistant"]
    assert {row.get("actor") for row in rows[1:]} == {"Cicero"}
    assert rows[1]["tags"] == ["sidechain"]
    assert rows[0]["data"]["parent"] == "s-one"


def test_a_session_is_named_by_what_is_kept_of_its_file():
    reader = Codex()
    Rollout().says("hi").rows(reader)
    assert codex_sessions_in(json.loads(json.dumps(reader.state()))) == ["s-one"]
    assert codex_sessions_in({}) == codex_sessions_in({"file": 3}) == []
    assert codex_end_id("s-one", "end", "codex:s-one:abc:0") == "codex:s-one:end:s-one:abc:0"


QUESTIONS = [{"id": "hull", "question": "Which colour for the hull?", "options": []}]
PLAN = "<proposed_plan>\n# New sails\n\nThe boat sails in light wind.\n</proposed_plan>"


def test_questions_that_were_answered_and_a_plan_that_was_accepted_are_decisions():
    rollout = Rollout().says("Mend the boat")
    rollout.calls("request_user_input", "c1", questions=QUESTIONS)
    rollout.answer("c1", '{"answers":{"hull":{"answers":["Green"]}}}')
    rollout.says(PLAN, "assistant").says("Implement the plan.")
    rows, _ = rollout.rows()
    decisions = [row for row in rows if row["kind"] == "decision"]
    assert [row["text"] for row in decisions] == [
        "Which colour for the hull? \u2192 Green",
        "Plan: New sails: The boat sails in light wind.",
    ]
    by_id = {row["id"]: row["text"] for row in rows}
    assert [[by_id[one] for one in row["refs"]] for row in decisions] == [
        ['{"answers":{"hull":{"answers":["Green"]}}}'],
        ["Implement the plan.", PLAN],
    ]
    one_by_one, state = [], {}
    for record in rollout.records:  # an import that stops behind any line goes on the same
        reader = Codex()
        reader.begin(json.loads(json.dumps(state)))
        one_by_one += reader.read(record, b"").rows
        state = reader.state()
    assert one_by_one == rows
    assert "asked" not in state


def test_of_questions_without_an_answer_the_newest_few_are_kept():
    rollout = Rollout()
    for number in range(9):
        rollout.calls("request_user_input", f"c{number}", questions=QUESTIONS)
    rollout.calls("request_user_input", "long", questions=[{"question": "x" * 9_000}])
    reader = Codex()
    rollout.rows(reader)
    assert [*reader.state()["asked"]] == ["c5", "c6", "c7", "c8"]
