"""What transcripts say by their structure: titles, plans, decisions, edits of sub-agents."""

import json

import pytest

from memplane.importers import import_paths
from memplane.importers.claude_code import ClaudeCode
from memplane.importers.codex import Codex
from memplane.importers.plans import task_name

LIST = "Two ways:\n\n1. Oil paint, for the hull\n2. Varnish, for the deck\n\nWhich one?"
TODOS = [{"content": "sew", "status": "completed"}, {"content": "rig", "status": "pending"}]


def record(number, kind, content, **more):
    return {
        "type": kind,
        "uuid": f"u{number}",
        "sessionId": "s1",
        "timestamp": f"2026-01-05T12:00:{number:02}.000Z",
        "cwd": "/w",
        "message": {"role": kind, "content": content},
        **more,
    }


def call(number, name, **given):
    block = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
    return record(number, "assistant", [block])


def answer(number, to, text="done", *, failed=False, **result):
    block = {"type": "tool_result", "tool_use_id": f"t{to}", "content": text, "is_error": failed}
    return record(number, "user", [block], **({"toolUseResult": result} if result else {}))


def rows_of(*records, reader=None):
    reader = reader or ClaudeCode()
    reader.begin({})
    return [row for one in records for row in reader.read(one, json.dumps(one).encode()).rows]


def of_kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]


def test_a_title_is_taken_for_the_session_of_the_record_that_it_names():
    title = {"type": "summary", "summary": "Paint for the hull", "leafUuid": "u1"}
    other = {"type": "summary", "summary": "Another boat", "leafUuid": "elsewhere"}
    prompt = record(1, "user", "Please paint the hull")
    for records in ((title, other, prompt), (other, prompt, title)):
        titles = [
            r for r in of_kind(rows_of(*records), "session") if r["data"]["status"] == "title"
        ]
        [row] = titles
        assert (row["text"], row["session"]) == ("Paint for the hull", "s1")
        assert row["ts"].startswith("2026-01-05T12:00:01")


def test_a_to_do_list_is_a_task_with_the_goal_that_was_asked_for():
    rows = rows_of(
        record(1, "user", "Please rig the boat for the race"),
        call(2, "TodoWrite", todos=TODOS),
        answer(3, 2),
        call(4, "TodoWrite", todos=[{**one, "status": "completed"} for one in TODOS]),
        answer(5, 4),
    )
    first, second = of_kind(rows, "task")
    assert (first["task"], first["text"]) == (task_name("s1"), "rig the boat for the race")
    assert [one["state"] for one in first["data"]["plan"]] == ["done", "todo"]
    assert (second["text"], second["data"]["status"]) == ("", "done")
    assert len({row["id"] for row in rows}) == len(rows)


def test_a_list_whose_call_failed_is_none():
    rows = rows_of(call(1, "TodoWrite", todos=TODOS), answer(2, 1, "refused", failed=True))
    assert of_kind(rows, "task") == []


def test_answers_plans_picks_and_refusals_are_decisions_with_refs_to_their_turns():
    question = {"question": "Which wood?", "options": [{"label": "Oak", "description": "hard"}]}
    why = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell "
        "you how to proceed, the user said:\nuse the spruce for the mast instead"
    )
    rows = rows_of(
        call(1, "AskUserQuestion", questions=[question]),
        answer(2, 1, "User has answered", questions=[question], answers={"Which wood?": "Oak"}),
        call(3, "ExitPlanMode", plan="# Sails\n\nThe boat sails in light wind."),
        answer(
            4, 3, "User has approved your plan.", plan="# Sails\n\nThe boat sails in light wind."
        ),
        record(5, "assistant", [{"type": "text", "text": LIST}]),
        record(6, "user", "2"),
        call(7, "Edit", file_path="/w/mast.py"),
        answer(8, 7, why, failed=True),
    )
    found = {row["text"]: row for row in of_kind(rows, "decision")}
    assert list(found) == [
        "Which wood? \u2192 Oak",
        "Plan: Sails: The boat sails in light wind.",
        '"2" = Varnish, for the deck',
        '"use the spruce for the mast instead" (to: Edit mast.py)',
    ]
    ids = {row["id"] for row in rows}
    assert all(ids.issuperset(row["refs"]) for row in found.values())
    assert found['"2" = Varnish, for the deck']["refs"] == ["claude-code:u6:0", "claude-code:u5:0"]
    assert {row["role"] for row in found.values()} == {"user"}


def test_a_plan_that_a_session_begins_with_was_accepted_and_one_that_was_refused_bare_was_not():
    plan = "# Sails\n\nThe boat sails in light wind."
    first = record(1, "user", f"Implement the following plan:\n\n{plan}", planContent=plan)
    assert [row["text"] for row in of_kind(rows_of(first), "decision")] == [
        "Plan: Sails: The boat sails in light wind."
    ]
    bare = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    rows = rows_of(call(1, "ExitPlanMode", plan=plan), answer(2, 1, bare, failed=True))
    assert of_kind(rows, "decision") == []


def test_of_a_sub_agents_progress_its_edits_are_taken_and_nothing_else():
    def step(number, *blocks):
        said = {"type": "assistant", "uuid": f"p{number}", "message": {"content": list(blocks)}}
        data = {"type": "agent_progress", "agentId": "a1", "message": said}
        return {**record(number, "progress", ""), "data": data}

    edit = {"type": "tool_use", "id": "e1", "name": "Edit", "input": {"file_path": "/w/mast.py"}}
    look = {"type": "tool_use", "id": "e2", "name": "Grep", "input": {"pattern": "oak"}}
    rows = rows_of(record(1, "user", "go"), step(2, look), step(3, edit))
    [row] = of_kind(rows, "tool_call")
    assert (row["data"]["path"], row["tags"], row["actor"]) == ("mast.py", ["sidechain"], "a1")


def test_a_link_to_a_pull_request_is_kept():
    link = {"type": "pr-link", "sessionId": "s1", "prNumber": 7, "prUrl": "https://x/y/z/pull/7"}
    rows = rows_of(record(1, "user", "go"), link)
    assert rows[-1]["data"]["pull_request"] == "PR #7"
    assert rows_of(link) == []


def test_what_a_sub_agent_says_and_is_told_decides_nothing():
    side = {"isSidechain": True}
    rows = rows_of(
        record(1, "assistant", [{"type": "text", "text": LIST}], **side),
        record(2, "user", "2", **side),
        record(3, "user", "2"),
    )
    assert of_kind(rows, "decision") == []


def test_codex_plans_and_replies_come_to_the_same():
    def item(**payload):
        stamp = "2026-01-05T12:00:00.000Z"
        return {"timestamp": stamp, "type": "response_item", "payload": payload}

    def said(role, text, shape):
        return item(type="message", role=role, content=[{"type": shape, "text": text}])

    meta = {"id": "s1", "timestamp": "2026-01-05T12:00:00.000Z", "cwd": "/w"}
    plan = {"plan": [{"step": "sew", "status": "completed"}, {"step": "rig", "status": "pending"}]}
    made = json.dumps(plan)
    rows = rows_of(
        {"timestamp": meta["timestamp"], "type": "session_meta", "payload": meta},
        said("user", "Please rig the boat for the race", "input_text"),
        item(type="function_call", name="update_plan", arguments=made, call_id="c1"),
        said("assistant", LIST, "output_text"),
        said("user", "2", "input_text"),
        reader=Codex(),
    )
    [task], [decision] = of_kind(rows, "task"), of_kind(rows, "decision")
    assert (task["task"], task["text"]) == (task_name("s1"), "rig the boat for the race")
    assert [one["state"] for one in task["data"]["plan"]] == ["done", "todo"]
    assert decision["text"] == '"2" = Varnish, for the deck'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s1.jsonl"
    records = [
        record(1, "user", "Please rig the boat for the race"),
        call(2, "TodoWrite", todos=TODOS),
        answer(3, 2),
        record(4, "assistant", [{"type": "text", "text": LIST}]),
        record(5, "user", "2"),
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    return path


def test_a_plan_and_a_decision_are_there_for_who_reads_the_plane(plane, file):
    import_paths(plane, "claude-code", file)
    [task] = plane.work.tasks.list()
    assert (task.goal, [step.text for step in task.plan]) == (
        "rig the boat for the race",
        ["sew", "rig"],
    )
    assert [event.text for event in plane.work.decisions()] == ['"2" = Varnish, for the deck']


def test_another_import_records_nothing_twice(plane, file):
    import_paths(plane, "claude-code", file)
    count = plane.head().seq
    report = import_paths(plane, "claude-code", file, full=True)
    assert report.events == 0
    assert plane.head().seq == count


@pytest.mark.parametrize("turn", ["claude-code:u5:0", "claude-code:u4:0"])
def test_who_forgets_or_purges_a_turn_forgets_what_it_decided(plane, file, turn):
    import_paths(plane, "claude-code", file)
    plane.forget(id=turn)
    assert plane.work.decisions() == []
    plane.unforget(id=turn)
    assert len(plane.work.decisions()) == 1
    plane.upkeep.purge(turn, summaries=True)
    assert plane.work.decisions() == []
    import_paths(plane, "claude-code", file, full=True)
    assert plane.work.decisions() == []
