"""Where a tool works: the plane, and on whose behalf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplane.errors import NotFoundError
from memplane.event import Event
from memplane.intake.redact import masked_name
from memplane.mcp.fitting import Cap, clipped
from memplane.plane import Plane
from memplane.ports import TokenCounter

__all__ = ["Desk", "event_named", "no_value"]

_NAME_CHARS: Final = 80


class Desk(NamedTuple):
    """The plane, and who works on it; all of one server belongs to one session.

    `actor` is the client's name, and the agent that reads and writes: `/agent/<actor>` is its own.
    `held`: says behind which seq the client itself has before it what was said in that session,
    None where it has nothing of it. `tell` is told of long work: done, in all. `begin` is called
    before something is recorded in that session.
    """

    plane: Plane
    make_counter: Callable[[str, int], TokenCounter]
    channel: str
    session: str
    actor: str
    held: Callable[[Path], int] | None
    tell: Callable[[int, int], None]
    begin: Callable[[], object] = bool

    @property
    def who(self) -> dict[str, Any]:
        """Who reads and writes, as every call of the plane takes it."""
        return {"channel": self.channel, "agent": self.actor}

    @property
    def counter(self) -> TokenCounter:
        """The plane's counter. Whoever writes asks for none: broken policies stop no record."""
        budgets = self.plane.policies.budgets
        return self.make_counter(budgets.counter, budgets.scale_ppm)

    def cap(self, given: dict[str, Any]) -> Cap:
        """The tokens that the call asks for at most."""
        return Cap(self.counter, given["max_tokens"])


def event_named(desk: Desk, given: str) -> Event:
    """The event that an id, `#12`, `12` or `event/12` names; raises NotFoundError."""
    name = given.removeprefix("expand://").removeprefix("event/").removeprefix("#")
    if name.isascii() and name.isdigit() and len(name) < 19:
        return desk.plane.event(int(name), **desk.who)
    if not name:
        raise NotFoundError("no event without a name; a search shows handles such as #12")
    return desk.plane.event(name, **desk.who)


def no_value(given: dict[str, Any]) -> NotFoundError:
    """That the key of a call has no value, and how to see those that have one."""
    key, ns = (clipped(masked_name(given[name]), _NAME_CHARS) for name in ("key", "ns"))
    return NotFoundError(f"no value under {key} in {ns}; memory_list_keys shows what there is")
