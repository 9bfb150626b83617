"""The memory tool beside the anthropic SDK's own: the same commands, the same answers."""

import asyncio

import pytest
from builders_memory_commands import operations

import memplane
from memplane.adapters.memory_tool import async_memory_tool, memory_tool
from tests.examples import sampled


@pytest.fixture(scope="module")
def tools():
    """The SDK, imported by who runs this file: that takes seconds."""
    return pytest.importorskip("anthropic.tools", reason="anthropic is not installed")


def asked(tools, tool, command):
    """The answer, or the refusal; what the SDK's raises by accident is a refusal of any words."""
    try:
        return "answer", tool.call(command)
    except tools.ToolError as error:
        return "refusal", error.content
    except OSError:
        return "refusal", None


def without_folder_sizes(text):
    """What a folder takes on the disk depends on the file system."""
    if not text.startswith("Here're the files"):
        return text
    lines = text.split("\n")
    folders = [1, *(at for at, line in enumerate(lines) if at > 1 and line.endswith("/"))]
    for at in folders:
        lines[at] = f"4K\t{lines[at].partition(chr(9))[2]}"
    return "\n".join(lines)


@pytest.mark.parametrize("seed", sampled(range(20), 5))
def test_two_hundred_commands_are_answered_as_the_local_implementation_answers(
    tools, tmp_path, seed
):
    theirs = tools.BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs"))
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        ours = memory_tool(plane)
        for command in operations(200, seed):
            expected, words = asked(tools, theirs, command)
            found, said = asked(tools, ours, command)
            assert found == expected, (command, words, said)
            if words is not None:
                told = (without_folder_sizes(words), without_folder_sizes(said))
                assert told[0] == told[1], command


def test_both_clients_take_the_tool_and_it_names_itself_as_the_api_wants(tools, tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        tool = memory_tool(plane, cache_control={"type": "ephemeral"}, session="s1")
        assert isinstance(tool, tools.BetaAbstractMemoryTool)
        assert tool.to_dict() == {
            "type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}
        }  # fmt: skip
        other = async_memory_tool(plane)
        assert isinstance(other, tools.BetaAsyncAbstractMemoryTool)
        made = {"command": "create", "path": "/memories/a.md", "file_text": "Likes tea\n"}
        assert tool.call(made) == "File created successfully at: /memories/a.md"
        seen = asyncio.run(other.call({"command": "view", "path": "/memories/a.md"}))
        assert seen.endswith("     1\tLikes tea\n     2\t")
        with pytest.raises(tools.ToolError, match="already exists"):
            asyncio.run(other.call(made))
        assert plane.get("/memories/a.md").session == "s1"
        assert tool.clear_all_memory() == "All memory cleared"
        assert plane.get("/memories/a.md") is None
