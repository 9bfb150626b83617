"""The generated summary of a session: its digest, of its own events, without a model.

See `memplane.recall.session_digest` for what stands in it. The same events give the same bytes.
What has a key is named by it and never quoted, since a later value of the key would leave the old
one standing here. Refs name every event that is quoted or named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from memplane.event import GLOBAL, UPKEEP_KINDS, Event
from memplane.lazy import NamedTuple
from memplane.ports import TokenCounter
from memplane.projections.digests import parts_of
from memplane.projections.in_force import out_of_time
from memplane.projections.task_table import EventQuote
from memplane.recall.session_digest import session_digest

EVENTS_MIN: Final = 3  # a session of fewer events is its own summary
_UNREAD: Final = frozenset((*UPKEEP_KINDS, "secret", "artifact", "approval", "episode"))
# Events of a session's own that say what it is called, or what came of it.
_TELLING: Final = frozenset(("title", "note"))


class Extract(NamedTuple):
    """What a summary event takes: text, namespace, ids quoted, the highest sensitivity of them."""

    text: str
    ns: str
    refs: tuple[str, ...]
    sensitivity: str


def is_readable(event: Event, now: str) -> bool:
    """Whether a model would read the event, and may still do so tomorrow.

    A secret is no source, nor is what has a time to end: the summary has none. The steps of a
    to-do list are text, too: clients write its goal once.
    """
    return (
        (bool(event.text) or (event.kind == "task" and isinstance(event.data.get("plan"), list)))
        and event.kind not in _UNREAD
        and (event.kind != "session" or event.data.get("status") in _TELLING)
        and event.sensitivity != "secret"
        and event.valid_until is None
        and out_of_time(event, now) is None
        and not (event.kind == "summary" and event.data.get("extract") is True)
    )


def extract(
    events: Sequence[Event],
    *,
    counter: TokenCounter,
    tokens_max: int,
    redact: Callable[[str], str],
) -> Extract | None:
    """Sum up the readable events of one session, in log order; None where that is no gain.

    At most `tokens_max` tokens and 32 refs. Events of several namespaces beside /global give a
    summary of what is in /global alone.
    """
    if sum(event.kind != "session" for event in events) < EVENTS_MIN:
        return None
    ns, sources = _one_space(events)
    session = parts_of(sources)
    if session is None:
        return None
    made = session_digest(session, _all, counter=counter, tokens_max=tokens_max, redact=redact)
    return None if made is None else Extract(made.text, ns, made.refs, made.sensitivity)


def _all(_: EventQuote) -> bool:
    return True


def _one_space(events: Sequence[Event]) -> tuple[str, list[Event]]:
    others = sorted({event.ns for event in events} - {GLOBAL})
    if len(others) > 1:  # nothing may leak from one into another
        return GLOBAL, [event for event in events if event.ns == GLOBAL]
    return (others[0] if others else GLOBAL), list(events)
