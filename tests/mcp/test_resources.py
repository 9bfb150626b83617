"""What a client attaches: decisions, tasks, the last report, and what handles open."""

import json

import pytest

MODES = ("auto", "legacy")


def reads(*uris):
    async def script(client):
        return [(await client.read_resource(uri)).contents[0] for uri in uris]

    return script


@pytest.mark.parametrize("mode", MODES)
def test_the_resources_and_the_template_are_listed(talk, mode):
    async def script(client):
        return (await client.list_resources(), await client.list_resource_templates())

    listed, templates = talk(script, mode=mode)
    assert {str(one.uri) for one in listed.resources} == {
        "memplane://decisions", "memplane://tasks", "memplane://report",
    }  # fmt: skip
    assert all(one.description and one.mime_type for one in listed.resources)
    assert [one.uri_template for one in templates.resource_templates] == ["expand://{+handle}"]


@pytest.mark.parametrize("mode", MODES)
def test_decisions_are_told_newest_first_with_date_key_and_handle(talk, opened, mode):
    opened.record("SQLite", kind="decision", key="db", ts="2026-01-05T00:00:00Z")
    opened.record("no cloud", kind="decision", ts="2026-01-06T00:00:00Z")
    opened.record("for our eyes", kind="decision", sensitivity="high")
    (found,) = talk(reads("memplane://decisions"), mode=mode)
    assert found.text == "#3 2026-01-06: no cloud\n#2 2026-01-05 db: SQLite\n"
    assert found.mime_type == "text/plain"


def test_open_tasks_are_told_and_closed_ones_are_not(talk, opened):
    opened.work.tasks.open("parser", "Parse nested lists", plan=["write the lexer"])
    opened.work.tasks.open("docs", "Write the page")
    opened.work.tasks.done("docs")
    (found,) = talk(reads("memplane://tasks"))
    assert "Parse nested lists" in found.text
    assert "Write the page" not in found.text


def test_the_last_report_is_of_the_servers_channel(talk, opened):
    opened.pack("what the owner asked", save_report=True)

    async def script(client):
        await client.call_tool("memory_curate", {"query": "what the agent asked"})
        opened.pack("what the owner asked last", save_report=True)
        return (await client.read_resource("memplane://report")).contents[0]

    found = talk(script)
    report = json.loads(found.text)
    assert report["request"]["query"] == "what the agent asked"
    assert report["channel"] == "agent"
    assert found.mime_type == "application/json"


def test_a_handle_opens_with_and_without_its_slash_escaped(talk, opened):
    opened.record("Herons stay", kind="fact", key="herons", session="s1")
    first, second, value, told = talk(
        reads("expand://event/2", "expand://event%2F2", "expand://memory/global/herons",
              "expand://session/s1?depth=3")
    )  # fmt: skip
    assert first.text == second.text == "Herons stay"
    assert "Herons stay" in value.text
    assert "Herons stay" in told.text


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("memplane://nothing", "no resource memplane://nothing; there are memplane://decisions"),
        ("memplane://report", "no report is saved yet; memory_curate saves one"),
        ("expand://event/99", "no event 99"),
        ("expand://heron", "heron"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_resource_that_is_not_there_is_an_error_of_the_protocol(talk, uri, said, mode):
    from mcp.shared.exceptions import MCPError

    async def script(client):
        with pytest.raises(MCPError) as error:
            await client.read_resource(uri)
        return error.value

    error = talk(script, mode=mode)
    assert error.code == -32602
    assert said in str(error)


def test_a_resource_shows_nothing_that_the_channel_may_not_see(talk, opened):
    from mcp.shared.exceptions import MCPError

    seq = opened.record("between us", sensitivity="high", kind="fact").seq

    async def script(client):
        with pytest.raises(MCPError) as error:
            await client.read_resource(f"expand://event/{seq}")
        return str(error.value)

    assert "between us" not in talk(script)
