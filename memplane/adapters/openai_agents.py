"""The OpenAI Agents SDK over a plane (extra `openai-agents`): its `Session`, and a context filter.

    session = PlaneSession(plane, "s1")
    config = RunConfig(call_model_input_filter=context_filter(session, budget=2000))
    await Runner.run(agent, "Where do herons nest?", session=session, run_config=config)

Items of a session are turns of the plane's session of that name. Source: the SDK's protocol
`Session` and `RunConfig.call_model_input_filter`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.turns import (
    BUDGET,
    ContextPacks,
    Said,
    SessionTurns,
    at_path,
    call_said,
    framework,
    in_thread,
    said_at,
    texts_in,
)

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

PROGRAM: Final = "openai-agents"
_ROLES: Final = {"developer": "system"}
_OUTPUT: Final = "output"
_Item = dict[str, Any]
_agents = framework("agents", "The OpenAI Agents SDK", "openai-agents")


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

    @in_thread
    def get_items(self, limit: int | None = None) -> list[_Item]:
        """The items, or the last `limit` of them; a limit below 0 is none."""
        if limit is None:
            limit = getattr(self.session_settings, "limit", None)
        turns = self.kept.turns(limit if limit is not None and limit >= 0 else None)
        return [turn.value for turn in turns]

    @in_thread
    def add_items(self, items: list[_Item]) -> None:
        """Store items with one write."""
        self.kept.add(map(item_said, items))

    @in_thread
    def pop_item(self) -> _Item | None:
        """Forget the newest item and return it, None where there is none."""
        turn = self.kept.pop()
        return None if turn is None else turn.value

    @in_thread
    def clear_session(self) -> None:
        """Forget the items; other turns of the session stay."""
        self.kept.clear()


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
    session: PlaneSession, *, budget: int = BUDGET, **asked: Any
) -> Callable[[Any], Awaitable[Any]]:
    """What `RunConfig(call_model_input_filter=...)` takes: context before each call of a model.

    A block of at most `budget` tokens stands before the newest prompt. `ContextPacks` takes what is
    `asked`: `turns`, `channel`, `watch`, arguments of `plane.pack`. The run needs `session` as its
    session.
    """
    made = _agents(".run_config").ModelInputData
    packs = ContextPacks(session.plane, session.kept.session, budget=budget, **asked)

    async def filtered(call: Any) -> Any:
        data = call.model_data
        sent = await packs.sent(data.input, _prompt, _as_message, session.kept.turns)
        return made(input=sent, instructions=data.instructions)

    return filtered


def cache_settings(session: PlaneSession) -> Any:
    """`ModelSettings` with OpenAI's cache key of a session: its calls meet the same cache."""
    return _agents("").ModelSettings(extra_args={"prompt_cache_key": session.kept.owner})


def _prompt(item: _Item) -> str | None:
    if item.get("role") != "user":
        return None
    content = item.get("content")
    return "\n".join(at_path(content, path) for path in texts_in(content))


def _as_message(block: str) -> _Item:
    return {"role": "developer", "content": block}
