"""Every example of docs/frameworks.md runs as it stands, where its framework is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "frameworks.md"
PARTS = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```py\n(.*?)^```$",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
NEEDS = {
    "LangGraph": "langgraph.graph",
    "LangChain": "langchain.agents",
    "OpenAI Agents SDK": "agents",
    "Google ADK": "google.adk",
    "Pydantic AI": "pydantic_ai",
    "LlamaIndex": "llama_index.core",
}


def test_there_is_an_example_of_each_framework():
    assert [name for name, _ in PARTS] == [*NEEDS]


@pytest.mark.frameworks
@pytest.mark.parametrize(("name", "code"), PARTS, ids=[name for name, _ in PARTS])
def test_an_example_runs_as_it_stands(name, code, tmp_path):
    pytest.importorskip(NEEDS[name])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
