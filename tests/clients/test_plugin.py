"""The plugin for Claude Code runs what an install would write, and says which memplane it is of."""

import json
import re
from pathlib import Path

from memplane.clients import entries
from memplane.clients.entries import AGENTS, SERVER, Program
from memplane.home import VERSION
from memplane.mcp.schemas import TOOLS

PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code"
CLAUDE = AGENTS["claude-code"]
BY_NAME = Program(("memplane",))


def read(name):
    return json.loads((PLUGIN / name).read_bytes())


def test_its_hooks_and_its_server_are_those_of_an_install():
    added, _ = entries.add_hooks("{}", CLAUDE, CLAUDE.wanted(BY_NAME))
    assert read("hooks/hooks.json")["hooks"] == json.loads(added)["hooks"]
    assert read(".mcp.json") == {"mcpServers": {SERVER: CLAUDE.server(BY_NAME)}}


def test_it_has_the_version_of_memplane():
    assert read(".claude-plugin/plugin.json")["version"] == VERSION


def test_the_skill_names_tools_that_there_are_and_fits_the_list_of_skills():
    text = (PLUGIN / "skills" / "memory" / "SKILL.md").read_text()
    assert set(re.findall(r"memory_\w+", text)) <= {tool.name for tool in TOOLS}
    description = re.search(r"^description: (.*)$", text, re.MULTILINE)[1]
    assert len(description) <= 1536


def test_the_marketplace_beside_it_offers_it():
    market = json.loads((PLUGIN.parent / ".claude-plugin" / "marketplace.json").read_bytes())
    [offered] = market["plugins"]
    assert (PLUGIN.parent / offered["source"]).resolve() == PLUGIN.resolve()
    assert offered["name"] == read(".claude-plugin/plugin.json")["name"]
