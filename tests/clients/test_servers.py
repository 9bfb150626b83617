"""Our MCP server among others, in JSON and in TOML."""

import json
import tomllib

import builders_settings as settings
import pytest
from hypothesis import example, given, strategies as st

from memplane import clients
from memplane.clients import AGENTS, settings_files
from memplane.clients.settings_files import Traces
from memplane.errors import InputError

CLAUDE, CODEX = AGENTS["claude-code"], AGENTS["codex"]
ENTRY = CLAUDE.server(settings.PROGRAM)
TABLE = CODEX.server(settings.PROGRAM)


@given(settings.texts())
def test_in_json_it_comes_in_and_goes_out_to_the_byte(text):
    added, traces = clients.add_server(text, CLAUDE, ENTRY)
    value = settings_files.parse_json(text)
    value.setdefault("mcpServers", {})["memplane"] = ENTRY
    assert settings_files.parse_json(added) == value
    assert clients.add_server(added, CLAUDE, ENTRY) == (added, Traces())
    assert clients.remove_server(added, CLAUDE, traces) == text


@given(settings.texts(), settings.objects(), st.randoms(use_true_random=False))
def test_from_json_that_was_edited_since_only_ours_goes(text, theirs, chance):
    added, traces = clients.add_server(text, CLAUDE, ENTRY)
    edited = {**settings_files.parse_json(added), "theirs": theirs}
    edited["mcpServers"]["more"] = {"command": "x"}
    edited["mcpServers"] = dict(
        chance.sample(list(edited["mcpServers"].items()), len(edited["mcpServers"]))
    )
    left = clients.remove_server(json.dumps(edited), CLAUDE, traces)
    del edited["mcpServers"]["memplane"]
    assert left == json.dumps(edited)


bare = st.sampled_from(
    ["model", "a-b", "sandbox_mode", '"quoted key"', "'x.y'", "a . b", "tui.theme"]
)
values = st.one_of(
    st.integers().map(str),
    st.text(max_size=9).map(lambda text: json.dumps(text).replace("\x7f", "")),
    st.sampled_from(
        [
            "true", "nan", "-inf", "1979-05-27T07:32:00Z", "'C:\\x'", "'''\n[mcp_servers.memplane]\n'''",
            '"""\na = "x" # no\n\\"""[b]"""', '"""""x"""""', "''''y''''", "[ 1, # one\n  [2],\n]",
            '{ a = "}", b = [1] }', '"[" # ]',
        ]
    ),
)  # fmt: skip
blanks = st.sampled_from(["", "\n", '# a comment ] "\n', "   \n", "\t# [mcp_servers.memplane]\n"])
headers = st.sampled_from(
    [
        "[profiles.x]",
        "[ mcp_servers . other ]  # c",
        "[[list]]",
        "[mcp_servers.'me m']",
        '[hooks.state."a:b"]',
    ]
)


@st.composite
def tomls(draw):
    text = draw(st.sampled_from(["", "\ufeff"]))
    for block in range(draw(st.integers(0, 3))):
        if block:
            text += draw(headers) + "\n"
        for key in draw(st.lists(bare, max_size=3, unique=True)):
            text += (
                draw(blanks)
                + f"{key} = {draw(values)}"
                + draw(st.sampled_from(["", " # c"]))
                + "\n"
            )
        text += draw(blanks)
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:  # the same table twice
        text = ""
    return text


def read(text):
    return tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)


@given(tomls())
def test_in_toml_it_comes_in_and_goes_out_to_the_byte(text):
    added, traces = clients.add_server_table(text, CODEX, TABLE)
    assert added.startswith(text)
    value = read(text)
    value.setdefault("mcp_servers", {})["memplane"] = TABLE
    assert read(added) == value
    assert clients.add_server_table(added, CODEX, TABLE) == (added, Traces())
    assert clients.remove_server_table(added, CODEX, traces) == text


@given(
    tomls(),
    st.sampled_from(["[theirs]\nx = 1\n", "\n[theirs]\nx = 1", "# note\n\n[theirs]\nx=1\n"]),
    st.booleans(),
)
def test_from_toml_that_was_edited_since_only_ours_goes(text, theirs, before):
    added, traces = clients.add_server_table(text, CODEX, TABLE)
    own = "startup_timeout_sec = 9 # theirs\n[mcp_servers.memplane.env]\nA = 'b'\n"
    edited = theirs + "\n" + added.removeprefix("\ufeff") if before else added + own + theirs
    try:
        tomllib.loads(edited)
    except tomllib.TOMLDecodeError:  # keys of the top, now in a table
        return
    left = clients.remove_server_table(edited, CODEX, traces)
    value = read(edited)
    del value["mcp_servers"]["memplane"]
    assert {**read(left), "mcp_servers": {}} | read(left) == value
    assert theirs in left
    rest = iter(left)
    assert all(letter in rest for letter in text.removeprefix("\ufeff").rstrip("\r\n"))


@example("[ mcp_servers . other ]  # c\n[[list]]\n")
@given(tomls())
def test_another_copy_of_memplane_takes_the_place_of_the_first(text):
    other = CODEX.server(settings.OTHER)
    added, traces = clients.add_server_table(text, CODEX, TABLE)
    added += "startup_timeout_sec = 9\n"
    moved, _ = clients.add_server_table(added, CODEX, other)
    assert read(moved)["mcp_servers"]["memplane"] == {**other, "startup_timeout_sec": 9}
    assert clients.remove_server_table(moved, CODEX, traces) == text


def test_a_server_written_in_other_ways_is_ours_too():
    for text in (
        'mcp_servers.memplane.command = "memplane"\nmcp_servers.memplane.args = ["mcp"]\n',
        '[mcp_servers]\nmemplane = { command = "memplane", args = ["mcp"] }\n',
        "[ 'mcp_servers' . \"memplane\" ]\ncommand = 'uvx'\nargs = [\n  'memplane',\n  'mcp',\n]\n",
    ):
        left = clients.remove_server_table(f"a = 1\n{text}[b]\n", CODEX, Traces())
        assert read(left) in ({"a": 1, "b": {}}, {"a": 1, "mcp_servers": {}, "b": {}})
    on_one_line = 'mcp_servers = { memplane = { command = "memplane", args = ["mcp"] } }'
    with pytest.raises(InputError):
        clients.remove_server_table(on_one_line, CODEX, Traces())
    command_only = '[mcp_servers.memplane]\ncommand = "memplane mcp"'
    moved, _ = clients.add_server_table(command_only, CODEX, TABLE)
    assert read(moved)["mcp_servers"]["memplane"] == TABLE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mcp_servers = { other = { command = "x" } }\n', "mcp_servers: is written in a way that"),
        ("mcp_servers = 1\n", "mcp_servers: expected a table"),
        ("[mcp_servers.memplane]\ncommand = 'other'\n", "mcp_servers.memplane: a server of this name"),
        ("a = 1\nb = = 2\n", "line 2, column 5"),
    ],
)  # fmt: skip
def test_toml_that_cannot_be_extended_is_refused(text, said):
    with pytest.raises(InputError) as refused:
        clients.add_server_table(text, CODEX, TABLE)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {"memplane": {"command": "x"}}}', "mcpServers.memplane: a server of this"),
        ('{"mcpServers": []}', "mcpServers: expected an object of servers"),
        ("3", "expected a JSON object"),
    ],
)
def test_json_that_cannot_be_extended_is_refused(text, said):
    with pytest.raises(InputError) as refused:
        clients.add_server(text, CLAUDE, ENTRY)
    assert said in str(refused.value)


def test_a_server_of_our_name_that_is_not_ours_stays():
    text = '{"mcpServers": {"memplane": {"command": "x"}}}'
    assert clients.remove_server(text, CLAUDE, Traces()) == text
    toml = "[mcp_servers.memplane]\nurl = 'http://localhost'\n"
    assert clients.remove_server_table(toml, CODEX, Traces()) == toml


def test_a_word_that_toml_must_escape_comes_back_as_it_was():
    odd = CODEX.server(settings.OTHER._replace(words=('/a "b"\\c\x7f\té',)))
    assert read(clients.add_server_table("", CODEX, odd)[0])["mcp_servers"]["memplane"] == odd
