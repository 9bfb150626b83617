"""An agent of each framework with a scripted model, some turns of one session a process.

    python scripted_agents.py FRAMEWORK PLANE FIRST LAST

The model answers from what it is sent alone. Each of its calls is one line of JSON on standard
output: the turn, what was sent (a list of texts), the answer, and the block's tokens.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

import memplane
from memplane.adapters.turns import ContextPacks

BUDGET = 600
KEPT = 10
SYSTEM = "You sail a small boat. Be brief."
FACT = "The Heron reefs at 22 knots"
QUESTION = "At how many knots does the Heron reef?"
LAST = 60
FACT_TURN = 3


def prompt_of(turn: int) -> str:
    """What the user says in a turn."""
    if turn == FACT_TURN:
        return FACT
    if turn == LAST:
        return QUESTION
    return f"Turn {turn}: which lights has harbour number {turn * 37 % 100}, and how deep is it?"


class Script:
    """The model: it knows what it is sent, and writes down each call."""

    def __init__(self) -> None:
        self.turn = 0
        self.block = None

    def watch(self, block: Any) -> None:
        self.block = block

    def answer(self, sent: list[str]) -> str:
        known = re.search(r"reefs at (\d+) knots", "\n".join(sent))
        if self.turn == LAST:
            said = f"{known[1]} knots" if known else "I do not know"
        else:
            said = f"Harbour {self.turn} has a green light and is {self.turn * 3} feet deep"
        tokens = None if self.block is None else self.block.tokens
        told = {"turn": self.turn, "sent": sent, "answer": said, "tokens": tokens}
        sys.stdout.write(f"{json.dumps(told)}\n")
        return said


def _flat(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [one["text"] for one in content if isinstance(one, dict) and "text" in one]


def _chat_model(script: Script) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages: Any, *given: Any, **named: Any) -> Any:
            del given, named
            said = script.answer([text for one in messages for text in _flat(one.content)])
            return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])

    return Scripted()


def langchain(plane: memplane.Plane, script: Script, turns: range) -> None:
    from langchain.agents import create_agent

    from memplane.adapters.langchain import PlaneContext
    from memplane.adapters.langgraph import PlaneSaver

    context = PlaneContext(plane, session="s", budget=BUDGET, turns=KEPT, watch=script.watch)
    agent = create_agent(
        _chat_model(script),
        system_prompt=SYSTEM,
        middleware=[context],
        checkpointer=PlaneSaver(plane),
    )
    for script.turn in turns:
        said = {"messages": [{"role": "user", "content": prompt_of(script.turn)}]}
        agent.invoke(said, {"configurable": {"thread_id": "s"}})


def langgraph(plane: memplane.Plane, script: Script, turns: range) -> None:
    from langgraph.graph import START, MessagesState, StateGraph

    from memplane.adapters.langgraph import PlaneSaver

    model = _chat_model(script)

    def call(state: Any) -> Any:
        prompt = state["messages"][-1]
        done = plane.record(prompt.text, role="user", session="s")
        packs = ContextPacks(plane, "s", budget=BUDGET)
        block = packs.block(prompt.text, done.seq - 1, done.id)
        script.watch(block)
        answer = model.invoke([("system", SYSTEM), ("system", block.text), prompt])
        plane.record(answer.text, role="assistant", session="s")
        return {"messages": [answer]}

    built = StateGraph(MessagesState)
    built.add_node("call", call)
    built.add_edge(START, "call")
    graph = built.compile(checkpointer=PlaneSaver(plane))
    config: Any = {"configurable": {"thread_id": "s"}}
    for script.turn in turns:
        said: Any = {"messages": [("user", prompt_of(script.turn))]}
        found = graph.invoke(said, config)
        assert len(found["messages"]) == 2 * script.turn


def openai_agents(plane: memplane.Plane, script: Script, turns: range) -> None:
    import agents
    from agents.testing import ModelStep, ScriptedModel, assistant_message

    from memplane.adapters.openai_agents import PlaneSession, context_filter

    session = PlaneSession(plane, "s")
    context = context_filter(session, budget=BUDGET, turns=KEPT, watch=script.watch)

    def respond(call: Any) -> Any:
        sent = [text for item in call.input for text in _flat(item["content"])]
        return [assistant_message(script.answer([call.system_instructions, *sent]))]

    agents.set_tracing_disabled(True)
    model = ScriptedModel([ModelStep.respond(respond) for _ in turns])
    agent = agents.Agent(name="mate", instructions=SYSTEM, model=model)
    config = agents.RunConfig(call_model_input_filter=context)

    async def run() -> None:
        for script.turn in turns:
            prompt = prompt_of(script.turn)
            await agents.Runner.run(agent, prompt, session=session, run_config=config)

    asyncio.run(run())


def adk(plane: memplane.Plane, script: Script, turns: range) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.genai import types

    from memplane.adapters.adk import PlaneMemoryService, PlaneSessionService, context_callback

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            del stream
            sent = [part.text for one in llm_request.contents for part in one.parts or ()]
            told = script.answer([str(llm_request.config.system_instruction), *sent])
            content = types.Content(role="model", parts=[types.Part(text=told)])
            yield LlmResponse(content=content)

    agent = LlmAgent(
        name="mate",
        model=Scripted(model="scripted"),
        instruction=SYSTEM,
        before_model_callback=context_callback(
            plane, budget=BUDGET, turns=KEPT, watch=script.watch
        ),
    )
    sessions = PlaneSessionService(plane)
    runner = Runner(
        app_name="boat",
        agent=agent,
        session_service=sessions,
        memory_service=PlaneMemoryService(plane),
    )

    async def run() -> None:
        named = {"app_name": "boat", "user_id": "ann", "session_id": "s"}
        if await sessions.get_session(**named) is None:
            await sessions.create_session(**named)
        for script.turn in turns:
            said = types.Content(role="user", parts=[types.Part(text=prompt_of(script.turn))])
            async for _ in runner.run_async(user_id="ann", session_id="s", new_message=said):
                pass

    asyncio.run(run())


def pydantic_ai(plane: memplane.Plane, script: Script, turns: range) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    from memplane.adapters.pydantic_ai import PlaneConversationStore, context_processor

    def respond(messages: Any, info: Any) -> Any:
        parts = (part for one in messages for part in one.parts)
        sent = [text for part in parts for text in _flat(part.content)]
        return ModelResponse(parts=[TextPart(script.answer([str(info.instructions), *sent]))])

    context = context_processor(plane, "s", budget=BUDGET, turns=KEPT, watch=script.watch)
    agent = Agent(
        FunctionModel(respond), instructions=SYSTEM, capabilities=[ProcessHistory(context)]
    )
    store = PlaneConversationStore(plane)

    async def run() -> None:
        for script.turn in turns:
            conversation = await store.load("s") or Conversation(conversation_id="s")
            given = {"conversation": conversation, "usage_limits": UsageLimits(request_limit=None)}
            await store.save(await agent.run(prompt_of(script.turn), **given))

    asyncio.run(run())


def llamaindex(plane: memplane.Plane, script: Script, turns: range) -> None:
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
    from llama_index.core.chat_engine import SimpleChatEngine
    from llama_index.core.llms import CustomLLM
    from llama_index.core.memory import InsertMethod, Memory

    from memplane.adapters.llamaindex import PlaneMemoryBlock

    class Scripted(CustomLLM):
        @property
        def metadata(self) -> Any:
            return LLMMetadata(is_chat_model=True)

        def complete(self, prompt: str, **given: Any) -> Any:
            raise NotImplementedError

        def stream_complete(self, prompt: str, **given: Any) -> Any:
            raise NotImplementedError

        def chat(self, messages: Any, **given: Any) -> Any:
            del given
            said = script.answer([str(one.content) for one in messages])
            return ChatResponse(message=ChatMessage(role="assistant", content=said))

        async def achat(self, messages: Any, **given: Any) -> Any:
            return self.chat(messages, **given)

    block = PlaneMemoryBlock(plane=plane, session="s", budget=BUDGET, watch=script.watch)
    memory = Memory.from_defaults(
        session_id="s",
        token_limit=1_000,
        chat_history_token_ratio=0.5,
        token_flush_size=200,
        tokenizer_fn=str.split,
        memory_blocks=[block],
        insert_method=InsertMethod.USER,
        async_database_uri=f"sqlite+aiosqlite:///{plane.home}/../short-term.sqlite",
    )
    engine = SimpleChatEngine.from_defaults(llm=Scripted(), memory=memory, system_prompt=SYSTEM)

    async def run() -> None:
        for script.turn in turns:
            await engine.achat(prompt_of(script.turn))

    asyncio.run(run())


AGENTS = {one.__name__: one for one in (
    langchain, langgraph, openai_agents, adk, pydantic_ai, llamaindex,
)}  # fmt: skip


def main(framework: str, home: str, first: str, last: str) -> None:
    with memplane.open(home, durability="os") as plane:
        AGENTS[framework](plane, Script(), range(int(first), int(last) + 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
