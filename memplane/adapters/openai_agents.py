"""The OpenAI Agents SDK over a plane (extra `openai-agents`): its `Session`, and a context filter.

    from memplane.adapters.openai_agents import PlaneSession, context_filter

    session = PlaneSession(plane, "s1")
    config = RunConfig(call_model_input_filter=context_filter(session, budget=2000))
    await Runner.run(agent, "Where do herons nest?", session=session, run_config=config)

Items of a session are turns of the plane's session of that name. The filter runs before each call
of a model: of a long session it sends the last turns, and puts a block with what the plane knows
beside before the prompt (`adapters/placing.py`).

Source: the SDK's protocol `Session` and `RunConfig.call_model_input_filter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.placing import ContextPacks, kept_from
from memplane.adapters.turns import Said, SessionTurns, call_said, said_at, texts_in
from memplane.errors import MissingExtraError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

PROGRAM: Final = "openai-agents"
_ROLES: Final = {"developer": "system"}
_OUTPUT: Final = "output"
_Item = dict[str, Any]


class PlaneSession:
    """The items of one session: the SDK's protocol `Session`. The SDK need not be installed.

    `clear_session` and `pop_item` forget: the log keeps what was said, a purge erases it. Secrets
    are masked. Items are JSON objects; raises what `Plane.record` raises.
    """

    session_settings: Any

    def __init__(
        self,
        plane: Plane,
        session_id: str,
        *,
        ns: str | None = None,
        session_settings: Any = None,
    ) -> None:
        self.plane, self.session_id = plane, session_id
        self.session_settings = session_settings
        self.kept = SessionTurns(plane, session=session_id, program=PROGRAM, ns=ns)

    async def get_items(self, limit: int | None = None) -> list[_Item]:
        """The items, or the last `limit` of them; a limit below 0 is none."""
        if limit is None:
            limit = getattr(self.session_settings, "limit", None)
        last = limit if limit is not None and limit >= 0 else None
        turns = await asyncio.to_thread(self.kept.turns, last)
        return [turn.value for turn in turns]

    async def add_items(self, items: list[_Item]) -> None:
        """Store items with one write."""
        await asyncio.to_thread(self.kept.add, list(map(item_said, items)))

    async def pop_item(self) -> _Item | None:
        """Forget the newest item and return it, None where there is none."""
        turn = await asyncio.to_thread(self.kept.pop)
        return None if turn is None else turn.value

    async def clear_session(self) -> None:
        """Forget the items; other turns of the session stay."""
        await asyncio.to_thread(self.kept.clear)


def item_said(item: _Item) -> Said:
    """What an item of the Responses API says."""
    kind = str(item.get("type", "message"))
    if kind.endswith("_call"):
        name = str(item.get("name") or kind.removesuffix("_call"))
        return call_said(item, name, item.get("arguments") or item.get("action") or "")
    if kind.endswith("_output"):
        paths = [(_OUTPUT, *path) for path in texts_in(item.get(_OUTPUT))]
        return said_at("tool", item, paths, kind="tool_result")
    role = item.get("role")
    names = ("text", "refusal")
    paths = [("content", *path) for path in texts_in(item.get("content"), names=names)]
    if role is None and kind != "message":
        return said_at("assistant", item, [])  # such as reasoning: no text is told of it
    return said_at(_ROLES.get(str(role), role), item, paths)


def context_filter(
    session: PlaneSession,
    *,
    budget: int = 2000,
    channel: str = "agent",
    turns: int = 20,
    watch: Callable[[Any], None] | None = None,
    **asked: Any,
) -> Callable[[Any], Awaitable[Any]]:
    """What `RunConfig(call_model_input_filter=...)` takes: context before each call of a model.

    Of the session's earlier prompts at most `turns`, with what followed each, are sent as they are;
    where there are more the older half goes at once, so that what begins a call stays the same. A
    block of at most `budget` tokens stands before the newest prompt and is the same for all calls
    of that prompt. `asked` goes to `plane.pack`; `watch` is given each block. The run needs
    `session` as its session.
    """
    made = _agents().run_config.ModelInputData
    packs = ContextPacks(
        session.plane, session.kept.session, budget=budget, channel=channel, asked=asked
    )

    async def filtered(call: Any) -> Any:
        items = list(call.model_data.input)
        prompts = [at for at, item in enumerate(items) if item.get("role") == "user"]
        if not prompts:
            return call.model_data
        first = kept_from(len(prompts), turns)
        kept = [turn for turn in await asyncio.to_thread(session.kept.turns) if _is_prompt(turn)]
        back = len(prompts) - first
        held = kept[-back].seq - 1 if len(kept) >= back else session.plane.head().seq
        prompt = kept[-1] if kept else None
        block = await asyncio.to_thread(
            packs.block, _text(items[prompts[-1]]), held, None if prompt is None else prompt.id
        )
        if watch is not None:
            watch(block)
        if block.text:
            items.insert(prompts[-1], {"role": "developer", "content": block.text})
        return made(input=items[prompts[first] :], instructions=call.model_data.instructions)

    return filtered


def cache_settings(session: PlaneSession) -> Any:
    """`ModelSettings` with OpenAI's cache key of a session: its calls meet the same cache."""
    key = session.kept.owner
    return _agents().ModelSettings(extra_args={"prompt_cache_key": key})


def _is_prompt(turn: Any) -> bool:
    return bool(turn.value.get("role") == "user")


def _text(item: _Item) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(one["text"] for one in content or () if isinstance(one.get("text"), str))


def _agents() -> Any:
    try:
        return import_module("agents")
    except ImportError as error:
        raise MissingExtraError("The OpenAI Agents SDK", "openai-agents") from error
