"""Agents of each framework over a plane: sixty turns in four processes, and calls with tools."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from scripted_agents import BUDGET, LAST

import memplane

pytestmark = pytest.mark.frameworks
SCRIPT = Path(__file__).parent / "scripted_agents.py"
ROOT = SCRIPT.parents[2]
PROCESSES = ((1, 15), (16, 30), (31, 45), (46, LAST))
# The framework's module, and how much of a call at least is what the call before began with. In
# LangGraph's example the block alone tells of earlier turns: no call has their messages.
AGENTS = {
    "langchain": ("langchain.agents", 0.25),
    "langgraph": ("langgraph.graph", 0.0),
    "openai_agents": ("agents", 0.25),
    "adk": ("google.adk", 0.25),
    "pydantic_ai": ("pydantic_ai", 0.25),
    "llamaindex": ("llama_index.core", 0.25),
}


def _common(one, other):
    return next((at for at, two in enumerate(zip(one, other, strict=False)) if two[0] != two[1]),
                min(len(one), len(other)))  # fmt: skip


@pytest.mark.parametrize("framework", AGENTS)
def test_what_was_said_in_turn_3_answers_turn_60_three_restarts_later(tmp_path, framework, capsys):
    module, floor = AGENTS[framework]
    pytest.importorskip(module)
    home = tmp_path / "plane"
    memplane.init(home).close()
    calls = []
    for first, last in PROCESSES:
        command = [sys.executable, f"{SCRIPT}", framework, f"{home}", f"{first}", f"{last}"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        calls += [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["turn"] for one in calls] == [*range(1, LAST + 1)]
    assert calls[-1]["answer"] == "22 knots"
    assert max(one["tokens"] or 0 for one in calls) <= BUDGET
    texts = ["\n".join(one["sent"]) for one in calls]
    shared = sum(_common(one, other) for one, other in pairwise(texts))
    part = shared / sum(map(len, texts[:-1]))
    with capsys.disabled():
        sys.stdout.write(f" {framework}: {part:.0%} of a call begins the next one ")
    assert part >= floor


def _tool_calls(plane, marks):
    """Two prompts for an agent of LangChain whose model asks a tool first; what it was sent."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    from memplane.adapters.langchain import PlaneContext

    sent = []

    class Fake(GenericFakeChatModel):
        def bind_tools(self, *_, **__):
            return self

    class Watch(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            sent.append(request)
            return handler(request)

        async def awrap_model_call(self, request, handler):
            sent.append(request)
            return await handler(request)

    def look(at: str) -> str:
        """Look at a place."""
        return f"There is a heron at the {at}"

    call = {"name": "look", "args": {"at": "tree"}, "id": "c1"}
    answers = [AIMessage("", tool_calls=[call]), AIMessage("A heron"), AIMessage("Grey")]
    agent = create_agent(
        Fake(messages=iter(answers)), [look], system_prompt="Be brief",
        middleware=[PlaneContext(plane, session="s1", budget=300, marks=marks), Watch()],
    )  # fmt: skip
    found = agent.invoke({"messages": [("user", "What is in the tree?")]})
    asyncio.run(agent.ainvoke({"messages": [*found["messages"], ("user", "Which colour?")]}))
    return sent


def test_langchain_agents_have_one_block_for_all_calls_of_a_prompt(tmp_path):
    pytest.importorskip("langchain.agents")
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("Herons of the old tree are shy", kind="fact", key="herons")
        first, second, third = _tool_calls(plane, "none")
        block, prompt = first.messages[-1].content
        assert "Herons of the old tree are shy" in block["text"]
        assert prompt["text"] == "What is in the tree?"
        assert second.messages[: len(first.messages)] == first.messages
        assert [one.type for one in third.messages] == ["human", "ai", "tool", "ai", "human"]
        assert third.messages[0].content == "What is in the tree?"
        turns = [(one.role, one.kind, one.text) for one in plane.events(session="s1")]
        assert turns == [
            ("user", "message", "What is in the tree?"),
            ("assistant", "tool_call", 'look {"at": "tree"}'),
            ("tool", "tool_result", "There is a heron at the tree"),
            ("assistant", "message", "A heron"),
            ("user", "message", "Which colour?"),
            ("assistant", "message", "Grey"),
        ]


def test_langchain_agents_have_cache_marks_where_they_are_asked_for(tmp_path):
    pytest.importorskip("langchain.agents")
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("Herons of the old tree are shy", kind="fact", key="herons")
        third = _tool_calls(plane, "anthropic")[-1]
        told = [third.system_message, *third.messages]
        parts = [part for one in told if not isinstance(one.content, str) for part in one.content]
        marked = [part["text"] for part in parts if "cache_control" in part]
        assert marked[:2] == ["Be brief", "A heron"]
        assert marked[2].startswith("memplane:begin")
        assert marked[3:] == ["Which colour?"]
    with memplane.init(tmp_path / "other") as plane:
        settings = [one.model_settings for one in _tool_calls(plane, "openai")]
        assert settings[0] == settings[2]
        assert settings[0]["prompt_cache_key"]
        with pytest.raises(memplane.InputError):
            _tool_calls(plane, "all")


def test_openai_agents_have_one_block_for_all_calls_of_a_prompt(tmp_path):
    agents = pytest.importorskip("agents")
    from agents.testing import ScriptedModel, assistant_message, function_call

    from memplane.adapters.openai_agents import PlaneSession, cache_settings, context_filter

    agents.set_tracing_disabled(True)

    @agents.function_tool
    def look(at: str) -> str:
        return f"There is a heron at the {at}"

    call = function_call("look", {"at": "tree"}, call_id="c1")
    model = ScriptedModel([[call], [assistant_message("A heron")], [assistant_message("Grey")]])
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("Herons of the old tree are shy", kind="fact", key="herons")
        session = PlaneSession(plane, "s1")
        agent = agents.Agent(
            name="a", model=model, tools=[look], model_settings=cache_settings(session)
        )
        config = agents.RunConfig(call_model_input_filter=context_filter(session, budget=300))

        async def run():
            for prompt in ("What is in the tree?", "Which colour?"):
                await agents.Runner.run(agent, prompt, session=session, run_config=config)

        asyncio.run(run())
        first, second, third = (one.input for one in model.calls)
        assert first[0]["role"] == "developer"
        assert "Herons of the old tree are shy" in first[0]["content"]
        assert second[:2] == first
        roles = [one.get("role") or one["type"] for one in third]
        begins = ["user", "function_call", "function_call_output", "assistant"]
        assert roles == [*begins, "developer", "user"]
        assert model.last_call.model_settings.extra_args["prompt_cache_key"] == session.kept.owner
        assert len([one for one in plane.events(session="s1") if one.kind == "tool_result"]) == 1
