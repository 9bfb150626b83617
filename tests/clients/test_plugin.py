"""The plugin for Claude Code runs what an install would write, and says which memplane it is of."""

import json
from pathlib import Path

from memplane import clients
from memplane.clients import AGENTS, SERVER, Program
from memplane.home import VERSION

PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code"
CLAUDE = AGENTS["claude-code"]
BY_NAME = Program(("memplane",))


def read(name):
    return json.loads((PLUGIN / name).read_bytes())


def test_its_hooks_and_its_server_are_those_of_an_install():
    added, _ = clients.add_hooks("{}", CLAUDE, CLAUDE.wanted(BY_NAME))
    assert read("hooks/hooks.json")["hooks"] == json.loads(added)["hooks"]
    assert read(".mcp.json") == {"mcpServers": {SERVER: CLAUDE.server(BY_NAME)}}


def test_it_has_the_version_of_memplane():
    assert read(".claude-plugin/plugin.json")["version"] == VERSION


def test_its_skill_is_that_of_an_install_under_a_name_of_its_own():
    text = (PLUGIN / "skills" / "memory" / "SKILL.md").read_text()
    installed = clients.skill_text().replace("name: memplane", "name: memory")
    assert text == installed[: installed.index("\n<!-- memplane install")]


def test_the_marketplace_beside_it_offers_it():
    market = json.loads((PLUGIN.parent / ".claude-plugin" / "marketplace.json").read_bytes())
    [offered] = market["plugins"]
    assert (PLUGIN.parent / offered["source"]).resolve() == PLUGIN.resolve()
    assert offered["name"] == read(".claude-plugin/plugin.json")["name"]
