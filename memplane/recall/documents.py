"""The documents of an event for the index: chunks, words beside the text, labels and flags.

The same event gives the same documents everywhere, whatever came before it. `VERSION` is raised
whenever this changes, and every index is then made again.

Flags, 16 bits a document::

    0-1    a standing instruction, a preference: by its markers or its kind
    2-3    sensitivity: low, normal, high, secret
    4-5    namespace: global (or a project's), task, spec, agent
    6      has a time before or after which it does not hold
    7-11   kind: its place in `event.KINDS`, 31 for one that this memplane does not know
    12-13  as 0-1, by memplane's own patterns, of a user's text not searched for markers before
    14     the card of an artifact: what may be shown of it before it is approved
    15     a project's namespace

Of an artifact the first document is its card (name, size, type), the others hold the text of its
event and the text of its copy; none of them has neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memplane.event import (
    KINDS,
    PROJECTS,
    SENSITIVITIES,
    UPKEEP_KINDS,
    WISH_MARKER,
    Event,
    said_by,
)
from memplane.harness import remembered, variant_with
from memplane.index.terms import INSTRUCTION, PREFERENCE, READ, Document, sentences
from memplane.intake.markers import marker_of
from memplane.lazy import regex, word_table
from memplane.policy.records import Markers
from memplane.projections.artifacts import facts_of
from memplane.recall.suppress import namespace_class

if TYPE_CHECKING:
    from memplane.policy import Policies

VERSION: Final = 5

SENSITIVITY_BITS: Final = (2, 2)  # the lowest bit, how many
SPACE_BITS: Final = (4, 2)
LIMITED: Final = 1 << 6
KIND_BITS: Final = (7, 5)
CARD: Final = 1 << 14
PROJECT_BITS: Final = (15, 1)
ARTIFACT: Final = KINDS.index("artifact")
_STRANGE: Final = (1 << KIND_BITS[1]) - 1

_NEVER: Final = frozenset((*UPKEEP_KINDS, "session", "approval", "secret"))
# A token is reckoned as four characters of ASCII or one of anything else: chunks are then rarely
# longer than 400 in any counter.
_RESULTS: Final = regex(r"results \d+")  # in a variant: of the policy
_CHUNK: Final = 1_600
_TOKEN: Final = 4
_CHUNKS_MAX: Final = 64  # of one event: the first half and the last
_PIECE: Final = 1 << 18  # characters of a long text that are encoded at once
_NAME_MAX: Final = 300
_ENDS_MAX: Final = 16  # of one path: a file may be asked for by as many of its last names
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")
MONTHS: Final = word_table("""
    January February March April May June July August September October November December
""")
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def variant_of(policies: Policies) -> str:
    """Name all that decides which documents a log gives, beside the analyser."""
    return variant_with(f"documents {VERSION}, results {policies.plane.tool_result_tokens}")


def versions_of(variant: str) -> str:
    """What versions of memplane decide of a variant: all of it but what a policy says."""
    return _RESULTS.sub("", variant)


def documents_of(event: Event, text: str, tool_result_tokens: int) -> list[Document]:
    """Return the documents of an event, `text` being all of its text as memory has it.

    Secrets, sessions, approvals and what memplane writes about its own log have none, nor has an
    event without text and names, or with nothing but its client's text. Of a tool's result the
    first and last so many tokens are indexed. The tokens of the documents sum up to the event's.
    """
    if event.kind in _NEVER or event.sensitivity == "secret":
        return []
    if event.kind == "artifact":
        return _of_artifact(event, text)
    names = _names(event)
    if not text.strip() and (event.text or not names):
        return []
    if text is not event.text and "body" not in event.data:
        event = remembered(event)  # whose tokens nobody has counted
    kind, role, actor, ts = event.kind, event.role or "", event.actor or "", event.ts
    parts = _parts(text, tool_result_tokens if kind == "tool_result" else None)
    if actor and said_by(kind, event.role, actor, event.id) == "model":
        actor = ""  # a model that notes what people said is none of them
    extra = " ".join((actor or role, _date_words(ts[:10]), *names))
    session = event.session
    first = Document(
        event.seq,
        0,
        "" if session is None else f"{event.ns} {session}",
        role,
        actor.lower(),
        parts[0],
        extra,
        event.tokens or 0,
        event.importance,
        flags_of(event, text),
        microseconds(ts),
        labels_of(event),
    )
    if len(parts) == 1 and event.tokens is not None:
        return [first]  # as a rule
    shares = enumerate(zip(parts, _shares(event, text, parts), strict=True))
    return [first._replace(part=part, text=said, tokens=tokens) for part, (said, tokens) in shares]


def _of_artifact(event: Event, text: str) -> list[Document]:
    facts = facts_of(event)
    card = "" if facts is None else facts.card
    names = [*_names(event), *([] if facts is None else [facts.type])]
    extra = " ".join((event.actor or "", _date_words(event.ts[:10]), *names))
    flags, labels = flags_of(event, ""), labels_of(event)
    parts = chunks(text) if text.strip() else []
    said = [(card, flags | CARD), *((part, flags) for part in parts)]
    return [
        Document(
            event.seq,
            number,
            "",
            "",
            "",
            part,
            extra,
            -(-_size(part) // _TOKEN),
            event.importance,
            own,
            microseconds(event.ts),
            labels,
        )
        for number, (part, own) in enumerate(said)
        if part
    ]


def flags_of(event: Event, text: str) -> int:
    """Return the flags of an event's documents."""
    flags = _standing(event, text) | _filed(event.kind, event.ns, event.sensitivity)
    if event.valid_from is not None or event.valid_until is not None:
        flags |= LIMITED
    return flags


@lru_cache(maxsize=1_024)
def _filed(kind: str, ns: str, sensitivity: str) -> int:
    """The flags of where an event belongs: events have few of these."""
    flags = namespace_class(ns) << SPACE_BITS[0] | kind_number(kind) << KIND_BITS[0]
    if sensitivity in SENSITIVITIES:
        flags |= SENSITIVITIES.index(sensitivity) << SENSITIVITY_BITS[0]
    if ns.startswith(PROJECTS):
        flags |= 1 << PROJECT_BITS[0]
    return flags


def _standing(event: Event, text: str) -> int:
    """The flags of a standing instruction and a preference.

    Of an event without markers that was recorded before memplane looked for them, or elsewhere,
    by the text: with memplane's own table, for the index depends on the log alone.
    """
    if event.kind in _BY_KIND:
        return _BY_KIND[event.kind]
    if event.markers or "marked" in event.data:
        return _flagged(event.markers)
    if event.role != "user":
        return 0
    return _flagged(_OWN.find(text, "user", event.kind)) << READ


def _flagged(markers: Iterable[str]) -> int:
    return sum(flag for name, flag in _STANDING.items() if name in markers)


_BY_KIND: Final = {"rule": INSTRUCTION, "preference": PREFERENCE}
_STANDING: Final = {"custom:instruction": INSTRUCTION, "custom:preference": PREFERENCE}
_OWN: Final = marker_of(Markers())


def kind_number(kind: str) -> int:
    """Return the number by which flags know a kind."""
    return KINDS.index(kind) if kind in KINDS else _STRANGE


def microseconds(ts: str) -> int:
    """Return a time of the log as microseconds since 1970; 0 for a text that is no time."""
    try:
        since = datetime.fromisoformat(ts) - _EPOCH
    except (ValueError, TypeError):
        return 0
    # A third of what a division by a microsecond costs, for each event.
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def chunks(text: str) -> list[str]:
    """Cut a text at ends of sentences into pieces of at most 400 tokens or so; joined, they are it.

    Of a text of more than 64 pieces only the first and the last 32 or so are there.
    """
    most = _CHUNKS_MAX // 2 * _CHUNK
    if len(text) <= 2 * most:
        return _cut(text)
    # Whole words: a part of a secret would be seen by no rule.
    head, tail = text[: _blank_before(text, most)], text[_blank_behind(text, len(text) - most) :]
    half = _CHUNKS_MAX // 2
    return [*_cut(head)[:half], *_cut(tail)[-half:]]


def _cut(text: str) -> list[str]:
    if _size(text) <= _CHUNK:
        return [text]
    found: list[str] = []
    begin = size = 0
    if text.isascii():  # of which each character counts once
        for start, end in sentences(text):
            if end - begin > _CHUNK and start > begin:
                found.append(text[begin:start])
                begin = start
        return [*found, text[begin:]]
    for start, end in sentences(text):
        cost = _size(text[start:end])
        if size + cost > _CHUNK and start > begin:
            found.append(text[begin:start])
            begin, size = start, 0
        size += cost
    found.append(text[begin:])
    return found


def _size(text: str) -> int:
    if text.isascii():
        return len(text)
    if len(text) > _PIECE:
        return sum(_size(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))
    plain = len(text.encode("ascii", "ignore"))
    return plain + _TOKEN * (len(text) - plain)


def _parts(text: str, ends: int | None) -> list[str]:
    """All chunks of a text, or those of its two ends of so many tokens."""
    if len(text) <= _CHUNK and text.isascii() and (ends is None or len(text) <= 2 * ends * _TOKEN):
        return [text]  # as a rule
    if ends is None or _size(text) <= 2 * ends * _TOKEN:
        return chunks(text)
    # Characters that count four times reach the middle sooner: the two ends never overlap.
    most = min(ends * _TOKEN, len(text) // 2)
    head = text[: _blank_before(text, most)]
    tail = text[_blank_behind(text, len(text) - most) :]
    return [*(chunks(head) if head else ()), *(chunks(tail) if tail else ())]


def _blank_before(text: str, place: int) -> int:
    """The end of the last whole word before a place; the place where the word is too long."""
    least = max(0, place - _NAME_MAX)
    found = max(text.rfind(blank, least, place) for blank in " \n\t")
    return found if found > 0 else place


def _blank_behind(text: str, place: int) -> int:
    found = [text.find(blank, place, place + _NAME_MAX) for blank in " \n\t"]
    return min((one + 1 for one in found if one >= 0), default=place)


def _shares(event: Event, text: str, parts: list[str]) -> list[int]:
    """What each part is of the event's tokens; the last takes what no part shows."""
    whole = event.tokens if event.tokens is not None else -(-_size(text) // _TOKEN)
    if len(parts) == 1:
        return [whole]
    size = max(1, _size(text))
    shares = [whole * _size(part) // size for part in parts[:-1]]
    return [*shares, max(0, whole - sum(shares))]


def _names(event: Event) -> list[str]:
    """Tool, file, key and tags: an event may be asked for by them."""
    data, key, tags = event.data, event.key, event.tags
    if not data and key is None and not tags:
        return []
    named = [data.get("tool"), data.get("path"), key, *tags]
    return [name[:_NAME_MAX] for name in named if isinstance(name, str) and name]


def labels_of(event: Event) -> tuple[str, ...]:
    """Return what an event may be asked for by, from its kind to its id.

    Namespace, session, task, tags, key, markers, the sources that its id names; and the file that
    it is about (`data.path`): by its whole path or any end of it, name by name.
    """
    kind, ns, session, task = event.kind, event.ns, event.session, event.task
    source, colon, _ = event.id.rpartition(":")
    if event.tags or event.key is not None or event.markers:
        sources = _sources(source) if colon else ()
        found = (*_placed(kind, ns, session, task), *_own_labels(event), *sources)
    else:  # events one after another share all of these
        found = _shared_labels(kind, ns, session, task, source if colon else None)
    path = event.data.get("path")
    if isinstance(path, str) and len(path) <= _NAME_MAX:
        return (*found, *_about(path))
    return found


def _own_labels(event: Event) -> Iterator[str]:
    for tag in event.tags:
        yield f"tag:{tag.lower()}"
    if event.key is not None:
        yield f"key:{event.key.lower()}"
    for marker in event.markers:
        alone = marker in _STANDING or marker == WISH_MARKER
        yield f"marker:{marker if alone else marker.partition(':')[0]}"


@lru_cache(maxsize=256)
def _shared_labels(
    kind: str, ns: str, session: str | None, task: str | None, source: str | None
) -> tuple[str, ...]:
    return (*_placed(kind, ns, session, task), *(() if source is None else _sources(source)))


@lru_cache(maxsize=256)
def _placed(kind: str, ns: str, session: str | None, task: str | None) -> tuple[str, ...]:
    """The labels of where an event belongs."""
    found = [f"kind:{kind}", f"ns:{ns}"]
    if session is not None:
        found.append(f"session:{session}")
    if task is not None:
        found.append(f"task:{task}")
    return tuple(found)


@lru_cache(maxsize=256)
def _sources(source: str) -> tuple[str, ...]:
    """The labels of whatever a forget may name as the source of an id."""
    ends = [at for at, one in enumerate(source) if one == ":"]
    return tuple([f"source:{source[:end]}" for end in (*ends, None)])


@lru_cache(maxsize=1_024)
def _about(path: str) -> tuple[str, ...]:
    """The labels of a file, by its path and the ends of it."""
    return tuple(map(file_label, _ends(path)))


def _ends(path: str) -> Iterator[str]:
    """A path and its ends, name by name: `a/b.py` and `b.py`; at most 16, and the whole path."""
    names = path.split("/")
    for at in range(len(names) - 1, max(-1, len(names) - 1 - _ENDS_MAX), -1):
        if names[at]:
            yield "/".join(names[at:])
    if path.startswith("/"):
        yield path


def file_label(path: str) -> str:
    """Return the label of what is about a file, by its path or the end of one: `src/pay.py`."""
    return f"file:{path.removeprefix('./')}"


@lru_cache(maxsize=1_024)
def _date_words(day: str) -> str:
    """The month, year, day and weekday of a time's first ten characters."""
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return ""
    return f"{MONTHS[found.month - 1]} {found.year:04} {found.day:02} {DAYS[found.weekday()]}"
