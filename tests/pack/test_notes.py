"""Wishes stand at a start, traps where a query or a call of a tool names them."""

import pytest

import memplane

NOW = "2026-01-08T12:00:00.000000Z"
WISH = "From now on always caulk the seams before you paint the hull"
LOST, FOUND = "hull/src/mast.py", "hull/mast.py"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", environment={}, trusted=True) as plane:
        yield plane


def fill(plane, **labels):
    day = "2026-01-05T12:00:00Z"
    common = {"session": "s1", "ts": day, **labels}
    plane.record(WISH, role="user", id="wish", **common)
    for number, (path, status, text) in enumerate(
        [(LOST, "error", "File does not exist."), (FOUND, "ok", "mast = 3")]
    ):
        about = {"tool": "Read", "call": f"c{number}", "path": path}
        said = {"kind": "tool_call", "role": "assistant", "data": about}
        plane.record(f"Read file_path={path}", id=f"call{number}", **said, **common)
        told = {"kind": "tool_result", "role": "tool", "data": {**about, "status": status}}
        plane.record(text, **told, **common)


def test_a_reader_that_has_just_come_sees_the_wish_with_its_day_and_no_trap(plane):
    fill(plane)
    block = plane.pack("What are we working on?", budget=1500, now=NOW)
    assert f"## Standing wishes\npreference 01-05: {WISH}\n" in block.text
    assert "## Traps" not in block.text
    [entry] = [one for one in block.entries if one.text.startswith("preference 01-05")]
    assert (entry.parts, entry.source) == (("wish",), "projection:digests")


def test_a_query_that_names_the_file_gets_the_trap_and_another_query_does_not(plane):
    fill(plane)
    text = plane.pack(f"What stands in {LOST} now?", budget=1500, now=NOW).text
    assert f"## Traps\nnote 01-05: {LOST} does not exist; {FOUND} does\n" in text
    assert "## Traps" not in plane.pack("What stands in the mast?", budget=1500, now=NOW).text


def test_what_a_channel_may_not_see_makes_no_wish_and_no_trap_for_it(plane):
    fill(plane, sensitivity="high")
    for query in ("What are we working on?", f"What stands in {LOST}?"):
        text = plane.pack(query, budget=1500, channel="public", now=NOW).text
        assert "caulk" not in text
        assert LOST not in text.partition("## Evidence")[0]
        assert "## Traps" not in text


@pytest.mark.parametrize("gone", ["call0", "call1"])
def test_a_trap_goes_with_each_of_its_two_calls(plane, gone):
    fill(plane)
    plane.forget(id=gone)
    assert "## Traps" not in plane.pack(f"{LOST}?", budget=1500, now=NOW).text


def test_a_purge_reaches_the_wish(plane):
    fill(plane)
    plane.forget(id="wish")
    assert "caulk" not in plane.pack("What are we working on?", budget=1500, now=NOW).text
    plane.upkeep.purge("wish", reason="asked for")
    files = plane.home.rglob("*.json")
    assert not any("caulk" in one.read_text(errors="replace") for one in files)


def test_a_start_says_the_wish_once(plane):
    fill(plane)
    block = plane.pack("", budget=1000, remind="start", session="s2", now=NOW)
    assert block.text.count("caulk the seams") == 1


def test_a_start_says_the_first_prompt_once_and_a_decision_without_the_words_that_it_quotes(plane):
    def start():
        return plane.pack("", budget=1000, remind="start", session="s2", now=NOW).text

    prompt = "please rewrite the logbook importer from the harbour, never by hand"
    said = plane.record(prompt, role="user", session="s1", ts="2026-01-04T08:00:00Z")
    reply = "B. keep the lanterns out of the logbook table, we decided that long ago."
    plane.record("Which?", role="assistant", session="s1", ts="2026-01-04T08:01:00Z")
    turn = plane.record(reply, role="user", session="s1", ts="2026-01-04T08:02:00Z")
    assert "never by hand" in start()
    assert reply in start()
    plane.work.tasks.open("todo-1", "rewrite the logbook importer from the harbour, never by hand")
    plane.record(
        f'"{reply}" = A table of their own: they burn at night', kind="decision", role="user",
        session="s1", refs=[turn.id], ts="2026-01-04T08:02:01Z",
    )  # fmt: skip
    told = start()
    assert told.count("never by hand") == 1
    assert told.count("out of the logbook table") == 1
    assert "they burn at night" in told
    report = plane.pack("", budget=1000, remind="start", session="s2", now=NOW).omissions
    assert {one.seq for one in report if one.reason == "told"} >= {said.seq, turn.seq}


def test_a_wish_that_a_task_is_called_by_stands_as_the_task(plane):
    wish = "please write the tide table for the harbour, and never round the heights"
    plane.record(wish, role="user", session="s1", ts="2026-01-04T08:00:00Z")
    before = plane.pack("", budget=1000, remind="start", session="s2", now=NOW).text
    assert "preference 01-04: please write the tide table" in before
    plane.work.tasks.open("t", "write the tide table for the harbour, and never round the heights")
    told = plane.pack("", budget=1000, remind="start", session="s2", now=NOW).text
    assert told.count("never round the heights") == 1
    assert "task t (active): write the tide table" in told
    plane.work.tasks.done("t")
    again = plane.pack("", budget=1000, remind="start", session="s2", now=NOW).text
    assert "preference 01-04: please write the tide table" in again
