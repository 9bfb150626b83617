"""Context for LangChain's agents (extra `langchain-agents`): a middleware.

    from memplane.adapters.langchain_agents import PlaneContext

    agent = create_agent(model, tools, middleware=[PlaneContext(plane, session="s1", budget=2000)])

Before each call of a model the messages that are new become turns of the session; of a long history
the last turns are sent, and a block with what the plane knows beside stands before the newest
prompt (`adapters/placing.py`). What the model answers becomes a turn as well. The state of the
agent stays as it is: the block is in no message that LangChain keeps.

`marks="anthropic"` sets cache marks (`cache_control`) where the next call still agrees: behind the
instructions, the messages before the block, the block and the newest message. OpenAI needs none:
its cache takes the longest beginning that agrees; `marks="openai"` gives it a key of the session.

Source: `langchain.agents.middleware.AgentMiddleware`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.langchain import message_said
from memplane.adapters.placing import ContextPacks, kept_from
from memplane.adapters.turns import SessionTurns
from memplane.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneContext: Any

PROGRAM: Final = "langchain-agent"
MARKS: Final = ("none", "anthropic", "openai")
_MARK: Final = {"type": "ephemeral"}


class _Context:
    """Middleware for one session: at most `budget` tokens of context, at most `turns` prompts.

    A message is a turn once, by its id, however often the agent is called with it and in however
    many processes. `asked` goes to `plane.pack`; `watch` is given each block. Raises InputError for
    unknown marks, and what `Plane.record` and `pack` raise.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        session: str,
        budget: int = 2000,
        channel: str = "agent",
        turns: int = 20,
        marks: str = "none",
        watch: Callable[[Any], None] | None = None,
        **asked: Any,
    ) -> None:
        super().__init__()
        if marks not in MARKS:
            raise InputError(f"expected one of {', '.join(MARKS)}", where="marks")
        self._plane, self._most, self._marks, self._watch = plane, turns, marks, watch
        self._kept = SessionTurns(plane, session=session, program=PROGRAM)
        self._packs = ContextPacks(
            plane, self._kept.session, budget=budget, channel=channel, asked=asked
        )
        self._known: dict[str, int] = {}  # seqs of the turns of messages, by their event's id

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with context, and record what it answers."""
        answer = handler(self._given(request))
        self._record(answer.result)
        return answer

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for event loops."""
        answer = await handler(await asyncio.to_thread(self._given, request))
        await asyncio.to_thread(self._record, answer.result)
        return answer

    def _record(self, messages: Sequence[Any]) -> None:
        """Make turns of the messages that have an id and are none yet, with one write."""
        named = {self._kept.id(str(one.id)): one for one in messages if one.id is not None}
        fresh = {id_: one for id_, one in named.items() if id_ not in self._known}
        rows = [
            row
            for id_, one in fresh.items()
            for row in self._kept.rows(message_said(one), str(one.id))
        ]
        if rows:
            self._plane.record_many(rows, batch=len(rows), strict=False)
        for id_ in fresh:
            self._known[id_] = self._plane.event(id_).seq

    def _given(self, request: Any) -> Any:
        messages = list(request.messages)
        self._record(messages)
        prompts = [at for at, one in enumerate(messages) if one.type == "human"]
        if not prompts:
            return request
        first, newest = prompts[kept_from(len(prompts), self._most)], prompts[-1]
        start = self._known.get(self._kept.id(str(messages[first].id)))
        held = (self._plane.head().seq if start is None else start) - 1
        prompt = self._kept.id(str(messages[newest].id))
        known = prompt if prompt in self._known else None
        block = self._packs.block(str(messages[newest].text), held, known)
        if self._watch is not None:
            self._watch(block)
        told = self._marked(messages[first:], newest - first, block.text)
        return request.override(messages=told, **self._settings(request))

    def _marked(self, messages: list[Any], newest: int, block: str) -> list[Any]:
        """The messages with the block in the newest prompt, and with marks where they are asked."""
        marked = self._marks == "anthropic"
        content = _parts(messages[newest].content)
        if block:
            part: dict[str, Any] = {"type": "text", "text": block}
            content.insert(0, part | ({"cache_control": _MARK} if marked else {}))
        messages[newest] = messages[newest].model_copy(update={"content": content})
        if marked:
            for at in dict.fromkeys((newest - 1, len(messages) - 1)):
                if at >= 0:
                    messages[at] = _with_mark(messages[at])
        return messages

    def _settings(self, request: Any) -> dict[str, Any]:
        if self._marks == "openai":
            key = {"prompt_cache_key": self._kept.owner}
            return {"model_settings": {**request.model_settings, **key}}
        if self._marks == "anthropic" and request.system_message is not None:
            return {"system_message": _with_mark(request.system_message)}
        return {}


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _with_mark(message: Any) -> Any:
    parts = _parts(message.content)
    if not parts or not isinstance(parts[-1], Mapping):
        return message
    parts[-1] = {**parts[-1], "cache_control": _MARK}
    return message.model_copy(update={"content": parts})


@cache
def _made() -> Any:
    try:
        base = import_module("langchain.agents.middleware").AgentMiddleware
    except ImportError as error:
        raise MissingExtraError("A context of LangChain's agents", "langchain-agents") from error
    told = {"__doc__": _Context.__doc__, "__module__": __name__}
    return type("PlaneContext", (_Context, base), told)


def __getattr__(name: str) -> Any:
    """The class, made when it is first asked for; MissingExtraError without the extra."""
    if name == "PlaneContext":
        return _made()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
