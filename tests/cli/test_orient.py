"""From a transcript to a block that tells a newcomer what the project is doing."""

import json


def turn(number, role, content):
    return {
        "type": role, "uuid": f"u{number}", "sessionId": "parser-work",
        "timestamp": f"2020-03-01T10:{number:02}:00Z",
        "message": {"role": role, "content": content},
    }  # fmt: skip


def call(number, tool, command):
    used = {"type": "tool_use", "id": f"c{number}", "name": tool, "input": {"command": command}}
    return turn(number, "assistant", [used])


TALK = [
    turn(1, "user", "Rewrite the parser so that it reads YAML by itself, without PyYAML."),
    call(2, "Bash", "pytest tests/parser"),
    turn(3, "assistant", "The tokenizer is in place; anchors are still missing."),
    turn(4, "user", "Good. Leave anchors for next week and finish block scalars."),
    turn(5, "assistant", "Block scalars are done, all 41 tests of the parser pass."),
    *(turn(n, "assistant", f"Checked case {n} of the suite.") for n in range(6, 12)),
]


def test_after_an_import_orient_tells_a_newcomer_what_the_project_is_doing(run, home, tmp_path):
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text("".join(json.dumps(one) + "\n" for one in TALK))
    run("import", "claude-code", transcript, "--home", home)
    run(
        "record", "No new dependencies.", "--kind", "decision", "--key", "deps.none", "--home", home
    )
    run("record", "Never push to main.", "--kind", "rule", "--home", home)
    run("task", "open", "parser", "A YAML parser of our own", "--home", home)
    done = run("pack", "--intent", "orient", "--budget", "1500", "--home", home, "--json")
    assert done.code == 0
    block = json.loads(done.out)
    assert block["tokens"] <= 1500
    text = block["text"]
    places = [
        text.index(said)
        for said in (
            "## Map of this memory\nrecorded: decisions 1, rules 1,", "keys: deps.*",
            "## Tasks\n", "A YAML parser of our own", "## Decisions\n", "No new dependencies.",
            "## Knowledge\n", "Never push to main.", "## Last sessions\nsession 03-01 ",
            "Rewrite the parser so that it reads YAML by itself",
            "Came to: Checked case 11 of the suite.",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    again = run("pack", "where were we?", "--budget", "1500", "--home", home).out
    assert again.startswith(text.partition("## Earlier\n")[0])
