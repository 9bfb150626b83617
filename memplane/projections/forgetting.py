"""Read what a `forget` event names. Every projection reads it here, so all of them agree.

`data.forget` is one of `{"key": k, "ns": ns}`, `{"ids": [..]}`, `{"session": s}` and `{"source":
prefix}` (ids that begin with `prefix:`). With `data.undo` the event takes a forget back. It acts
on earlier events only; the last one that names an event holds.
"""

from __future__ import annotations

from typing import NamedTuple

from memplane.event import GLOBAL, Event

__all__ = ["Forget", "forget_of"]


class Forget(NamedTuple):
    """The parsed form; exactly one of key, ids, session and source is set."""

    undo: bool
    key: str | None = None
    ns: str = GLOBAL
    ids: frozenset[str] = frozenset()
    session: str | None = None
    source: str | None = None

    def names(self, id: str, session: str | None) -> bool:  # noqa: A002 - the field's name
        """Whether it names the event by id, session or source; a key is the caller's to resolve."""
        if self.session is not None:
            return session == self.session
        if self.source is not None:
            return id.startswith(f"{self.source}:")
        return id in self.ids


def forget_of(event: Event) -> Forget | None:
    """Parse a `forget` event; None where its data names nothing (an event of a newer memplane)."""
    named = event.data.get("forget")
    if not isinstance(named, dict):
        return None
    undo = bool(event.data.get("undo", False))
    match named:
        case {"key": str(key)}:
            ns = named.get("ns", GLOBAL)
            return Forget(undo, key=key, ns=ns if isinstance(ns, str) else GLOBAL)
        case {"ids": list(ids)}:
            return Forget(undo, ids=frozenset(id_ for id_ in ids if isinstance(id_, str)))
        case {"session": str(session)}:
            return Forget(undo, session=session)
        case {"source": str(source)}:
            return Forget(undo, source=source)
        case _:
            return None
