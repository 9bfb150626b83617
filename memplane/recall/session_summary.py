"""The generated summary of a session: an extract of its own events, without a model.

Fixed labels in a fixed order; each part is cut at the end of a sentence or word and marked. The
same events give the same bytes. Output of tools is not quoted: of a failure the tool and what it
was called with are named. What has a key is named by it and never quoted, since a later value of
the key would leave the old one standing here. Refs name every event that is quoted or named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from memplane.event import GLOBAL, SENSITIVITIES, UPKEEP_KINDS, Event
from memplane.lazy import regex
from memplane.ports import TokenCounter
from memplane.projections.in_force import out_of_time
from memplane.tokens import clip

__all__ = ["EVENTS_MIN", "Extract", "extract", "is_readable"]

EVENTS_MIN: Final = 3  # a session of fewer events is its own summary
DECISIONS: Final = 5
FAILURES: Final = 3
FILES: Final = 6
_PATH_MAX: Final = 120
_QUOTE_LEAST: Final = 20  # tokens that one of several may take before they share alike
_MARK: Final = " …"
# Parts of the tokens, among those that have something; what one leaves goes to the next.
_SHARES: Final = {
    "Asked first": 20,
    "Asked last": 20,
    "Decided": 30,
    "Decided on": 10,
    "Failed, still open": 12,
    "Files": 10,
    "Said last": 8,
}
# Lists of names, none of which is cut.
_NAMES: Final = frozenset(("Decided on", "Files"))
_UNREAD: Final = frozenset((*UPKEEP_KINDS, "session", "secret", "artifact", "approval", "episode"))
_SIDE: Final = frozenset(("sidechain", "reasoning"))
# The number of an item (`1.`) ends no sentence.
_SENTENCE: Final = regex(r"(?<![\s(:]\d)[.!?。！？](?=[\s\"')\]]|$)[\"')\]]*")  # noqa: RUF001 - full-width


class Extract(NamedTuple):
    """What a summary event takes: text, namespace, ids quoted, the highest sensitivity of them."""

    text: str
    ns: str
    refs: tuple[str, ...]
    sensitivity: str


class _Quote(NamedTuple):
    text: str
    sources: tuple[Event, ...]


def is_readable(event: Event, now: str) -> bool:
    """Whether a model would read the event, and may still do so tomorrow.

    A secret is no source, nor is what has a time to end: the summary has none.
    """
    return (
        bool(event.text)
        and event.kind not in _UNREAD
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

    At most `tokens_max` tokens and 20 refs. Events of several namespaces beside /global give a
    summary of what is in /global alone.
    """
    if len(events) < EVENTS_MIN:
        return None
    ns, sources = _one_space(events)
    lines: list[tuple[str, list[Event]]] = []
    spare = 0
    parts = [(label, quotes) for label, quotes in _parts(sources) if quotes]
    whole = sum(_SHARES[label] for label, _ in parts)
    for label, quotes in parts:
        room = tokens_max * _SHARES[label] // whole + spare
        line, used = _line(label, quotes, room, counter, redact)
        spare = room
        if line:
            lines.append((line, used))
            spare -= counter.count(f"{line}\n")
    # A line may count more without its newline than with it; then the last one goes.
    while lines and counter.count(_joined(lines)) > tokens_max:
        lines.pop()
    if not lines:
        return None
    text, quoted = _joined(lines), [event for _, used in lines for event in used]
    refs = tuple(dict.fromkeys(event.id for event in quoted))
    return Extract(text, ns, refs, max((e.sensitivity for e in quoted), key=SENSITIVITIES.index))


def _joined(lines: list[tuple[str, list[Event]]]) -> str:
    return "\n".join(line for line, _ in lines)


def _one_space(events: Sequence[Event]) -> tuple[str, list[Event]]:
    others = sorted({event.ns for event in events} - {GLOBAL})
    if len(others) > 1:  # nothing may leak from one into another
        return GLOBAL, [event for event in events if event.ns == GLOBAL]
    return (others[0] if others else GLOBAL), list(events)


def _parts(events: list[Event]) -> Iterator[tuple[str, list[_Quote]]]:
    """Each label with the quotes that may follow it, the most important first."""
    unkeyed = [e for e in events if e.key is None]
    prompts = [e for e in unkeyed if e.kind == "message" and e.role == "user"]
    # A command to the client (`/clear`) is quoted only where there is no other prompt.
    prompts = [e for e in prompts if "command" not in e.tags] or prompts
    yield "Asked first", [_said(event) for event in prompts[:1]]
    yield "Asked last", [_said(event) for event in prompts[1:][-1:]]
    decisions = [e for e in events if e.kind == "decision" and e.role != "tool"]
    latest = decisions[::-1][:DECISIONS]
    yield "Decided", [_said(event) for event in latest if event.key is None]
    yield "Decided on", _keys([event for event in latest if event.key is not None])
    yield "Failed, still open", _failures(events)[:FAILURES]
    yield "Files", _files(unkeyed)[:FILES]
    answers = [
        e
        for e in unkeyed
        if e.kind == "message" and e.role == "assistant" and _SIDE.isdisjoint(e.tags)
    ]
    yield "Said last", [_Quote(_first_sentence(e.text), (e,)) for e in answers[-1:]]


def _said(event: Event) -> _Quote:
    return _Quote(event.key or event.text, (event,))


def _keys(events: list[Event]) -> list[_Quote]:
    """Each key once, of all the events that have it."""
    keys = dict.fromkeys(event.key or "" for event in events)
    return [_Quote(key, tuple(event for event in events if event.key == key)) for key in keys]


def _failures(events: list[Event]) -> list[_Quote]:
    """What failed and did not succeed since, newest first; the same call is one failure."""
    calls: dict[str, Event] = {}
    found: dict[tuple[str, str], _Quote] = {}
    for event in events:
        data = event.data
        if event.kind == "tool_call":
            calls[str(data.get("call"))] = event
        elif event.kind == "tool_result" and data.get("status") in ("error", "ok"):
            call = calls.get(str(data.get("call"))) if data.get("call") else None
            tool = data.get("tool")
            name = tool if isinstance(tool, str) else "tool"
            about = (name, str(data.get("path") or (call.text if call is not None else "")))
            found.pop(about, None)
            if data["status"] == "error":
                shown = call.text.partition("\n")[0] if call is not None else " ".join(about)
                sources = (event,) if call is None else (event, call)
                key = next((source.key for source in sources if source.key is not None), shown)
                found[about] = _Quote(key, sources)
        elif "failure" in event.markers and event.role != "tool":
            found["failure", event.id] = _said(event)
    return list(found.values())[::-1]


def _files(events: list[Event]) -> list[_Quote]:
    """Files that were worked on, the last touched first."""
    found: dict[str, _Quote] = {}
    for event in events:
        path = event.data.get("path")
        if isinstance(path, str) and 0 < len(path) <= _PATH_MAX:
            found.pop(path, None)
            found[path] = _Quote(path, (event,))
    return list(found.values())[::-1]


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    end = _SENTENCE.search(line)
    return line if end is None else line[: end.end()]


def _line(
    label: str,
    quotes: list[_Quote],
    room: int,
    counter: TokenCounter,
    redact: Callable[[str], str],
) -> tuple[str, list[Event]]:
    """One line of what fits, and the events it quotes; "" where nothing does."""
    names = label in _NAMES
    line, joint = f"{label}: ", ", " if names else "; "
    used: list[Event] = []
    for place, quote in enumerate(quotes):
        before = f"{line}{joint}" if used else line
        text = " ".join(redact(quote.text).split())
        whole = f"{before}{text}"
        if not text:
            continue
        spent = counter.count(f"{before}\n")
        fair = max(_QUOTE_LEAST, (room - spent) // (len(quotes) - place))
        most = room if names else min(room, spent + fair)
        if counter.count(f"{whole}\n") > most:
            whole = "" if names else _shortened(before, text, most, counter)
            if not whole:
                break
        line = whole
        used += quote.sources
    return (line, used) if used else ("", [])


def _shortened(before: str, text: str, room: int, counter: TokenCounter) -> str:
    """The line with as much of the text as fits, up to a sentence's or a word's end, marked."""
    made = clip(
        counter,
        text,
        room,
        lambda kept: f"{before}{kept}{_MARK}\n",
        around=counter.count(f"{before}{_MARK}\n"),
        ended=_to_sentence,
    )
    return "" if made is None else made[0].removesuffix("\n")


def _to_sentence(text: str) -> str:
    """The text up to the end of a sentence, where that is more than half; "" if it is too short.

    One word or less is too short; some scripts have no blanks between words.
    """
    kept = text.rstrip()
    if " " not in kept and (kept.isascii() or not kept):
        return ""
    ends = [match.end() for match in _SENTENCE.finditer(kept)]
    return kept[: ends[-1]] if ends and ends[-1] * 2 > len(kept) else kept
