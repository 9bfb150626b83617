"""The part of scoring.yaml that says which markers a text carries by how it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.policy.document import Fault, shown
from memplane.policy.mistakes import text_items
from memplane.policy.patterns import CHARACTERS_MAX, PATTERNS_MAX, pattern_mistake
from memplane.policy.standing import LINE_STARTS, STANDING
from memplane.policy.values import Json, mapping, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Markers", "build", "faults", "normal"]

# Their test stands for them: a plane that is opened for the first time need not wait for it.
_KNOWN: Final = frozenset(pattern for row in STANDING.values() for pattern in row.values())


class Markers(NamedTuple):
    """What is looked for at intake, where the caller gave no markers; nothing unless `detect`.

    `line_starts`: marker -> words that stand before a colon at the beginning of a line.
    `standing`: marker -> phrase -> the pattern that tells, in the sentence around the phrase,
    whether it is meant; an empty pattern switches the phrase off. Case counts in none of them.
    """

    detect: bool = True
    line_starts: dict[str, tuple[str, ...]] = LINE_STARTS
    standing: dict[str, dict[str, str]] = STANDING


def build(document: Json) -> Markers:
    """Build the record from a whole `markers` without mistakes."""
    detect = document["detect"]
    if not isinstance(detect, bool):
        raise TypeError(f"expected true or false, found {detect!r}")
    return Markers(
        detect,
        {marker: texts(words) for marker, words in mapping(document["line_starts"]).items()},
        {marker: _patterns(row) for marker, row in mapping(document["standing"]).items()},
    )


def _patterns(row: object) -> dict[str, str]:
    found = mapping(row)
    for pattern in found.values():
        if not isinstance(pattern, str):
            raise TypeError(f"expected a pattern, found {pattern!r}")
    return found


def normal(word: str) -> str:
    """Return a word of a table as texts are looked through for it: small, with plain quotes."""
    return word.replace("\u2019", "'").lower().strip(" :")


def faults(document: Any) -> Iterator[Fault]:
    """Name what the schema cannot see: a word under two markers, a pattern of no use."""
    if not isinstance(document, dict):
        return
    starts, standing = document.get("line_starts"), document.get("standing")
    first: dict[str, str] = {}
    for marker, words in starts.items() if isinstance(starts, dict) else ():
        for position, word in text_items(words, PATTERNS_MAX):
            owner = first.setdefault(normal(word), marker)
            if owner != marker:
                why = f"expected under one marker, found {shown(word)} in `{owner}` too"
                yield Fault(("markers", "line_starts", marker, position), why)
    for marker, row in standing.items() if isinstance(standing, dict) else ():
        for phrase, pattern in list(row.items())[:PATTERNS_MAX] if isinstance(row, dict) else ():
            if not isinstance(pattern, str) or pattern in _KNOWN:
                continue
            # An empty one is none, and of one that is too long the schema says so.
            usual = 0 < len(pattern) <= CHARACTERS_MAX
            why = pattern_mistake(_whole(pattern)) if usual else ""
            if why:
                why = f"expected a regular expression, found {shown(pattern)}: {why}"
                yield Fault(("markers", "standing", marker, phrase), why)


def _whole(pattern: str) -> str:
    """The pattern as it is used, so that what only case keeps apart is judged as one."""
    return pattern if pattern.startswith("(?i)") else f"(?i){pattern}"
