"""Files that list what holds now, such as notes of a client: compared with the plane and synced.

Such a file is rewritten and not appended to, so each of its statements (each has a key) is
compared with the plane:

* The same content under the key is a repeat, and nothing is written.
* Other content is recorded under the same key and supersedes it. The id is
  `<source>:<hash of key, kind and text>:<n>`, n counting how often the file came back to the very
  same words, so that a change that is taken back is a change, too.
* A statement that the file had before and no longer has is archived by a `forget` whose reason
  begins with the source: its owner removed it, and blocks would go on showing it. The log keeps
  it, and it comes back when the file has it again. A file without statements, or one that could
  not be read whole, archives nothing: a writer that crashed leaves such files.
* What was forgotten in the plane stays forgotten as long as the file says the same.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from memplane.errors import NotFoundError
from memplane.event import GLOBAL, at_least
from memplane.importers.rows import Row, json_digest, name
from memplane.intake.check import KEY_MAX, TAG_MAX
from memplane.intake.redact import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memplane.plane import Plane
    from memplane.projections.in_force import KeyValueRow as Version

__all__ = [
    "ORIGIN",
    "FileStatement",
    "StatedFile",
    "bounded",
    "forget_all",
    "gone",
    "key_of",
    "lost_with",
    "statement_rows",
    "tag",
]

ORIGIN: Final = "from"  # in an event's data: the file that stated it


class FileStatement(NamedTuple):
    """One memory as a file states it."""

    key: str
    kind: str
    text: str
    tags: tuple[str, ...] = ()


class StatedFile(NamedTuple):
    """What a file states. `origin` names the file, `prefix` begins all keys it may have.

    `whole`: nothing in it was unreadable, so what it does not state it no longer states.
    """

    origin: str
    prefix: str
    statements: list[FileStatement]
    skipped: list[str]
    whole: bool


def key_of(*parts: str) -> str:
    """Join parts to a key, or to its beginning: other parts give another."""
    return bounded("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


def bounded(key: str) -> str:
    """The key where it can be one, else what of it can, with a hash: another for another."""
    key = masked(key)
    if len(key) <= KEY_MAX and key.isprintable():
        return key
    kept = "".join(letter for letter in key if letter.isprintable())
    return f"{kept[: KEY_MAX - 18]}~{json_digest(key)[:16]}"


def tag(word: str) -> str | None:
    """The word where it can be a tag."""
    word = word.strip()
    return word if 0 < len(word) <= TAG_MAX and word.isprintable() else None


def statement_rows(
    plane: Plane, source: str, told: StatedFile, ts: str, ns: str | None = None
) -> Iterator[Row | Literal["repeated", "forgotten", "doubled"]]:
    """Of each statement: the row to record, or why there is none.

    `doubled`: the file states something else under the same key before. `ns`: of the project that
    the file is of, None for the usual. What `/global` has under a key stays there.
    """
    seen: dict[str, str] = {}
    for statement in told.statements:
        base = name(source, json_digest(*statement[:3])[:32])
        if (known := seen.get(statement.key)) is not None:
            yield "repeated" if known == base else "doubled"
            continue
        seen[statement.key] = base
        versions = _versions(plane, statement.key, ns)
        times = _times(plane, source, versions, f"{base}:")
        if isinstance(times, str):
            yield times
            continue
        row: Row = {
            "id": f"{base}:{times}",
            "ts": ts,
            "kind": statement.kind,
            "key": statement.key,
            "text": statement.text,
            "data": {ORIGIN: told.origin},
        }
        if versions:
            row["ns"] = versions[-1].ns
        elif ns is not None:
            row["ns"] = ns
        if versions:  # somebody has said since how sensitive it is; the file cannot
            row |= at_least(versions[-1].sensitivity, row)
        yield {**row, "tags": list(statement.tags)} if statement.tags else row


def _versions(plane: Plane, key: str, ns: str | None) -> list[Version]:
    """All that the key was, hidden values too: what is compared is shown to nobody."""
    context = plane.context
    spaces = dict.fromkeys((ns or context.home.project or GLOBAL, GLOBAL))
    with context.lock:
        memories = context.caught_up().memories
        every = (memories.history(space, key, upto=context.as_of) for space in spaces)
        return next(filter(None, every), [])


def _times(
    plane: Plane, source: str, versions: list[Version], base: str
) -> int | Literal["repeated", "forgotten"]:
    """How often these very words were recorded before, if they are to be recorded now."""
    if not versions:
        return 0
    last = versions[-1]
    times = sum(version.id.startswith(base) for version in versions)
    if last.id.startswith(base):
        if last.reason != "forgotten" or last.by_seq is None:
            return "repeated"
        return times if _by_us(plane, source, last.by_seq) else "forgotten"
    if times and not last.id.startswith(f"{source}:"):
        return "repeated"  # somebody corrected it in the plane, and the file says nothing new
    return times


def _by_us(plane: Plane, source: str, seq: int) -> bool:
    try:
        event = plane.event(seq)
    except NotFoundError:  # purged since
        return False
    return event.kind == "forget" and event.text.startswith(f"{source}: ")


def gone(plane: Plane, source: str, told: StatedFile) -> list[str]:
    """The keys in force that this file stated before and states no more."""
    if not told.whole or not told.statements:
        return []
    present = {statement.key for statement in told.statements}
    keys = [key for key in plane.keys(told.prefix, limit=sys.maxsize) if key not in present]
    return [key for key in keys if _origin(plane, source, key) == told.origin]


def lost_with(plane: Plane, source: str, prefix: str, there: Callable[[str], bool]) -> list[str]:
    """The keys in force below a prefix whose file is not there any more."""
    return [
        key
        for key in plane.keys(prefix, limit=sys.maxsize)
        if (origin := _origin(plane, source, key)) is not None and not there(origin)
    ]


def forget_all(plane: Plane, source: str, keys: Iterable[str]) -> int:
    """Archive what its file states no more; return how many."""
    done = 0
    for key in keys:
        origin = _origin(plane, source, key)
        if origin is not None:
            # Another import may be faster.
            with suppress(NotFoundError):
                plane.forget(key=key, reason=f"{source}: no longer in {origin}")
                done += 1
    return done


def _origin(plane: Plane, source: str, key: str) -> str | None:
    """The file that stated what the key has now; None where it is no file of the source."""
    event = plane.get(key)
    if event is None or not event.id.startswith(f"{source}:"):
        return None
    origin = event.data.get(ORIGIN)
    return origin if isinstance(origin, str) else None
