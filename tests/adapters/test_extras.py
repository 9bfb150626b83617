"""An adapter costs nothing until it is used, and without its framework names its extra."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "memplane" / "adapters"
# What needs a framework, by adapter: a call, and the extra that brings it.
NEEDS = {
    "adk": (("adk.PlaneSessionService", "adk"), ("adk.PlaneMemoryService", "adk")),
    "claude_sessions": (("claude_sessions._sdk_fold()", "claude"),),
    "langchain": (
        ("langchain.PlaneByteStore", "langchain"),
        ("langchain.PlaneChatHistory", "langchain"),
        ("langchain.PlaneRetriever", "langchain"),
        ("langchain.PlaneContext", "langchain-agents"),
    ),
    "langgraph": (("langgraph.PlaneSaver", "langgraph"), ("langgraph.PlaneStore", "langgraph")),
    "llamaindex": (
        ("llamaindex.PlaneChatStore", "llamaindex"),
        ("llamaindex.PlaneMemoryBlock", "llamaindex"),
    ),
    "memory_tool": (("memory_tool._sdk()", "anthropic"),),
    "minilm": (("minilm.MiniLM()", "dense"),),
    "openai_agents": (
        ("openai_agents.context_filter(session)", "openai-agents"),
        ("openai_agents.cache_settings(session)", "openai-agents"),
    ),
    "otel": (("otel.OtelObserver()", "otel"),),
    "pydantic_ai": (("pydantic_ai.PlaneConversationStore", "pydantic-ai"),),
}
NO_FRAMEWORK = {"turns"}
BARE = """
import json, sys
from importlib import import_module

FRAMEWORKS = {
    "agents", "anthropic", "claude_agent_sdk", "google", "langchain", "langchain_core",
    "langgraph", "llama_index", "opentelemetry", "pydantic", "pydantic_ai",
}

class Blocked:
    asked = set()
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FRAMEWORKS:
            self.asked.add(name)
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import memplane
from memplane.errors import MissingExtraError

assert not [name for name in sys.modules if name.startswith("memplane.adapters")]
for name in ADAPTERS:
    globals()[name] = import_module(f"memplane.adapters.{name}")
assert not Blocked.asked, Blocked.asked
minilm.PACKAGES = ()
session = openai_agents.PlaneSession(memplane.open(":memory:"), "s")
found = []
for call in CALLS:
    try:
        eval(call)
    except MissingExtraError as error:
        found.append([error.extra, f"memplane[{error.extra}]" in str(error)])
    else:
        found.append(call)
print(json.dumps(found))
"""


def test_every_adapter_is_asked_here():
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert modules == {*NEEDS, *NO_FRAMEWORK}


def test_no_adapter_imports_its_framework_and_each_names_its_extra_without_it():
    calls = [one for some in NEEDS.values() for one in some]
    given = f"ADAPTERS, CALLS = {[*NEEDS, *NO_FRAMEWORK]!r}, {[call for call, _ in calls]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", given + BARE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [[extra, True] for _, extra in calls]


@pytest.mark.parametrize("extra", sorted({extra for some in NEEDS.values() for _, extra in some}))
def test_an_extra_that_an_adapter_names_is_one(extra):
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert extra in told["project"]["optional-dependencies"]
