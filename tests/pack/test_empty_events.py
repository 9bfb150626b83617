"""An event without a text: what its data says is shown, a label alone is not."""


def block_of(plane, query="db engine", **asked):
    return plane.pack(query, **asked)


def test_a_statement_without_a_text_says_the_value_in_its_data(plane):
    plane.record(kind="fact", key="db.port", data={"value": 5432})
    plane.record(kind="decision", key="db.pool", data={"value": {"size": 5, "kind": "söft"}})
    plane.record(kind="fact", key="db.host", data={"value": "atlas"}, text="the host is hera")
    text = block_of(plane).text
    assert "fact db.port: 5432" in text
    assert 'decision db.pool: {"kind": "söft", "size": 5}' in text
    assert "hera" in text
    assert "atlas" not in text
    (found,) = plane.search("5432")
    assert found.event.key == "db.port"


def test_an_event_that_says_nothing_is_in_no_block_and_the_report_says_why(plane):
    for kind in ("fact", "decision", "preference", "rule", "observation"):
        plane.record(kind=kind, key=f"db.engine.{kind}", session="s", data={"other": 1})
    plane.record(kind="fact", key="db.engine", data={"value": None})
    plane.record(kind="message", role="assistant", session="s", data={"x": 1})
    plane.record(kind="tool_call", role="assistant", session="s", data={"tool": "look"})
    plane.record(kind="tool_result", role="tool", session="s", data={"tool": "look"})
    plane.record("hello", kind="message", role="user", session="s")
    for asked in ({}, {"session": "s"}, {"session": "s", "budget": 300}):
        block = block_of(plane, **asked)
        bare = [line for line in block.text.splitlines() if line.rstrip().endswith(":")]
        assert bare == [], asked
        assert block.tokens <= block.report["budget"]
    assert block_of(plane).report["omissions"]["counts"]["empty"] > 0


def test_a_tool_that_failed_without_a_word_is_still_shown(plane):
    plane.record(
        kind="tool_result", role="tool", session="s", data={"tool": "look", "status": "error"}
    )
    plane.record("hello", kind="message", role="user", session="s")
    assert "result error look" in block_of(plane, "did look fail?").text


def test_a_secret_in_a_value_is_masked(plane):
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    plane.record(kind="fact", key="db.key", data={"value": f"use {secret} now"})
    block = block_of(plane)
    assert "fact db.key: use " in block.text
    assert secret not in block.text
