"""Where a block stands among the messages of an agent, so that providers' caches still agree.

A call of a model is sent, in this order: the instructions, the last turns of the session as they
are, a block, the newest prompt and what followed it. Up to the block each call begins with what the
call before sent; between two prompts that is the whole call. The block is packed once for each
prompt, and holds nothing of what the messages hold already (`held_seq`): what the session said
before them, other sessions, statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memplane.errors import InputError

if TYPE_CHECKING:
    from memplane.pack.block import Block
    from memplane.plane.plane import Plane


def kept_from(prompts: int, turns: int) -> int:
    """Which prompt of a session, counted from 0, is the first that is sent with its messages.

    At most `turns` and the newest one are. Where there would be more, half of them go at once: the
    answer changes with every half of `turns` prompts alone. InputError for fewer than 1 turn.
    """
    if turns < 1:
        raise InputError(f"expected 1 or more, found {turns}", where="turns")
    step = max(1, (turns + 1) // 2)
    over = prompts - 1 - turns
    return 0 if over <= 0 else -(-over // step) * step


class ContextPacks:
    """Packs for the prompts of one session: one block for each, the same for all of its calls."""

    def __init__(
        self, plane: Plane, session: str, *, budget: int, channel: str, asked: Mapping[str, Any]
    ) -> None:
        self._plane = plane
        self._asked = {**asked, "session": session, "budget": budget, "channel": channel}
        self._last: tuple[tuple[str, int, str | int], Block] | None = None

    def block(self, prompt: str, held: int, event: str | None) -> Block:
        """The block for a prompt whose messages hold what the session said behind the seq `held`.

        `event` is the id of the prompt's event, if it is stored. Raises as `plane.pack` does.
        """
        named = (prompt, held, self._plane.head().seq if event is None else event)
        if self._last is None or self._last[0] != named:
            more: dict[str, Any] = {} if event is None else {"query_event": event}
            block = self._plane.pack(prompt, held_seq=held, **more, **self._asked)
            self._last = (named, block)
        return self._last[1]
