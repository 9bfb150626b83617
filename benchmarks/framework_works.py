"""The rows of the frameworks' adapters: one turn more, and a whole session read, beside their own.

Theirs are the stores that a framework ships, in memory but for the OpenAI Agents SDK's SQLite file.
A plane's are durable as `os`: they survive the process. A framework that is not installed has no
row; the head of the table names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import workload
from measure import Peer, Work, seconds
from place import Place

import memplane
from memplane.adapters import (
    adk as adapters_adk,
    langchain as adapters_langchain,
    langgraph as adapters_langgraph,
    llamaindex as adapters_llamaindex,
    openai_agents as adapters_openai_agents,
    pydantic_ai as adapters_pydantic_ai,
)
from memplane.lazy import late

__all__ = ["FRAMEWORK_WORKS", "not_installed"]

_MILLI: Final = 1e3
_HELD: Final = 200  # turns of the session that is read
_READS: Final = 10
_LETTERS: Final = 120

# What a framework has is imported where its row is made.
_AGENTS: Any = late("agents")
_ADK_EVENTS: Any = late("google.adk.events")
_ADK_SESSIONS: Any = late("google.adk.sessions")
_GENAI: Any = late("google.genai")
_CONVERSATION: Any = late("pydantic_ai.conversation")
_CONVERSATION_STORE: Any = late("pydantic_ai.conversation_store")
_MESSAGES: Any = late("pydantic_ai.messages")
_LLMS: Any = late("llama_index.core.llms")
_CHAT_STORE: Any = late("llama_index.core.storage.chat_store")
_CHAT_HISTORY: Any = late("langchain_core.chat_history")
_CHECKPOINTS: Any = late("langgraph.checkpoint.base")
_CHECKPOINT_MEMORY: Any = late("langgraph.checkpoint.memory")

Run = Callable[[], object]


class Side(NamedTuple):
    """A store: to add the turn of a number, and to read what it holds."""

    name: str
    add: Callable[[int], object]
    read: Run


Both = Callable[[memplane.Plane, Place], tuple[Side, Side]]


def _text(number: int) -> str:
    return workload.text(number, _LETTERS)


def _waiting(call: Callable[..., Any]) -> Callable[..., object]:
    loop = asyncio.new_event_loop()
    return lambda *given: loop.run_until_complete(call(*given))


def openai_agents(plane: memplane.Plane, place: Place) -> tuple[Side, Side]:
    def side(name: str, session: Any) -> Side:
        add = _waiting(session.add_items)
        told = {"role": "user"}
        return Side(
            name, lambda n: add([told | {"content": _text(n)}]), _waiting(session.get_items)
        )

    theirs = place.closing(_AGENTS.SQLiteSession("s", place.new("openai-agents")))
    return side("PlaneSession", adapters_openai_agents.PlaneSession(plane, "s")), side(
        "SQLiteSession, a file", theirs
    )


def adk(plane: memplane.Plane, _: Place) -> tuple[Side, Side]:
    def side(name: str, service: Any) -> Side:
        named = {"app_name": "a", "user_id": "u", "session_id": "s"}
        session = _waiting(partial(service.create_session, **named))()
        append = _waiting(service.append_event)

        def add(number: int) -> object:
            content = _GENAI.types.Content(
                role="user", parts=[_GENAI.types.Part(text=_text(number))]
            )
            return append(session, _ADK_EVENTS.Event(author="user", content=content))

        return Side(name, add, _waiting(partial(service.get_session, **named)))

    ours = side("PlaneSessionService", adapters_adk.PlaneSessionService(plane))
    return ours, side("InMemorySessionService", _ADK_SESSIONS.InMemorySessionService())


def pydantic_ai(plane: memplane.Plane, _: Place) -> tuple[Side, Side]:
    def side(name: str, store: Any) -> Side:
        kept = _CONVERSATION.Conversation(conversation_id="s")
        save = _waiting(store.save)

        def add(number: int) -> object:
            kept.messages.append(_MESSAGES.ModelRequest.user_text_prompt(_text(number)))
            return save(kept)

        return Side(name, add, _waiting(partial(store.load, "s")))

    ours = side("PlaneConversationStore", adapters_pydantic_ai.PlaneConversationStore(plane))
    return ours, side("InMemoryConversationStore", _CONVERSATION_STORE.InMemoryConversationStore())


def llamaindex(plane: memplane.Plane, _: Place) -> tuple[Side, Side]:
    def side(name: str, store: Any) -> Side:
        def add(number: int) -> object:
            return store.add_message("s", _LLMS.ChatMessage(role="user", content=_text(number)))

        return Side(name, add, partial(store.get_messages, "s"))

    return side("PlaneChatStore", adapters_llamaindex.PlaneChatStore(plane)), side(
        "SimpleChatStore", _CHAT_STORE.SimpleChatStore()
    )


def langchain(plane: memplane.Plane, _: Place) -> tuple[Side, Side]:
    def side(name: str, history: Any) -> Side:
        return Side(name, lambda n: history.add_user_message(_text(n)), lambda: history.messages)

    ours = side("PlaneChatHistory", adapters_langchain.PlaneChatHistory(plane, session="s"))
    return ours, side("InMemoryChatMessageHistory", _CHAT_HISTORY.InMemoryChatMessageHistory())


def langgraph(plane: memplane.Plane, _: Place) -> tuple[Side, Side]:
    """Here a turn is a checkpoint, and what is read is the newest of so many."""

    def side(name: str, saver: Any) -> Side:
        config = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}

        def add(number: int) -> object:
            versions = {"messages": f"{number:08}"}
            given = _CHECKPOINTS.empty_checkpoint() | {
                "id": f"{number:08}",
                "channel_values": {"messages": [_text(number)]},
                "channel_versions": versions,
            }
            return saver.put(config, given, {"step": number}, versions)

        return Side(name, add, partial(saver.get_tuple, config))

    return side("PlaneSaver", adapters_langgraph.PlaneSaver(plane)), side(
        "InMemorySaver", _CHECKPOINT_MEMORY.InMemorySaver()
    )


_FRAMEWORKS: Final[dict[str, tuple[str, Both]]] = {
    "adk": ("google.adk", adk),
    "langchain": ("langchain_core", langchain),
    "langgraph": ("langgraph", langgraph),
    "llamaindex": ("llama_index", llamaindex),
    "openai-agents": ("agents", openai_agents),
    "pydantic-ai": ("pydantic_ai", pydantic_ai),
}


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # its package is not there
        return False


def not_installed() -> list[str]:
    """The frameworks without rows."""
    return [name for name, (module, _) in _FRAMEWORKS.items() if not _there(module)]


def _adding(name: str, both: Both, place: Place, runs: int) -> Work:
    sides = _opened(name, both, place)
    numbers = iter(range(10**9))

    def sample(side: Side) -> list[float]:
        return [seconds(partial(side.add, next(numbers))) * _MILLI for _ in range(runs)]

    ours, theirs = sides
    work = Work(f"{name}: a turn", "ms", partial(sample, ours))
    work.peers.append(Peer(theirs.name, partial(sample, theirs)))
    return work


def _reading(name: str, both: Both, place: Place, runs: int) -> Work:
    sides = _opened(name, both, place)
    for side in sides:
        for number in range(min(_HELD, runs)):
            side.add(number)

    def sample(side: Side) -> list[float]:
        return [seconds(side.read) * _MILLI for _ in range(_READS)]

    ours, theirs = sides
    work = Work(f"{name}: {min(_HELD, runs)} turns read", "ms", partial(sample, ours))
    work.peers.append(Peer(theirs.name, partial(sample, theirs)))
    return work


def _opened(name: str, both: Both, place: Place) -> tuple[Side, Side]:
    plane = memplane.init(place.new(name), durability="os", trusted=False)
    return both(place.closing(plane), place)


FRAMEWORK_WORKS: Final[dict[str, Callable[[Place, int], Work]]] = {
    f"{name}-{word}": partial(make, name, both)
    for name, (module, both) in _FRAMEWORKS.items()
    if _there(module)
    for word, make in (("add", _adding), ("read", _reading))
}
