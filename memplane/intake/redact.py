"""Mask secrets before the first byte is written.

Rules run in a fixed order: the policy's patterns, the shapes of known providers,
then key=value, URL credentials, Bearer and PEM. What a rule masks becomes
`[redacted:<rule>]`. Passes repeat until one changes nothing, so
redact(redact(x)) == redact(x).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.intake.pairs import (
    MARK,
    bearers,
    key_values,
    looks_secret,
    private_keys,
    secret_key,
    urls,
)
from memplane.intake.shapes import suspects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Redactor", "holds_token", "shown"]

Counts = dict[str, int]

# A pass that changes nothing ends it; only a pattern that feeds on its own marks needs many.
_PASSES_MAX: Final = 32
_SECRET_VALUE: Final = "secret-value"  # noqa: S105 - the name of a rule
_FINDERS: Final[tuple[tuple[str, Callable[[str, str], Iterable[tuple[int, int]]]], ...]] = (
    ("private-key", lambda text, _: private_keys(text)),
    (_SECRET_VALUE, key_values),
    ("url-password", lambda text, _: urls(text)),
    ("bearer", bearers),
)
_SHORT: Final = 128  # characters of a string of data that may come again
_MANY: Final = 10_000
# A pattern that begins with a plain word can only match where that word stands.
_FIRST_WORD: Final = re.compile(
    r"(?:\(\?i\))?(?:\\b)?([A-Za-z0-9_ -]*[A-Za-z0-9_ -])(?![*?{+|A-Za-z0-9_ -])"
)


class Redactor:
    """The built-in rules and, before them, the policy's patterns; shared by threads.

    It remembers short strings of data that hold no secret, since tools, paths and keys come
    again and again; answers never depend on that. Rule names are `policy-1`, `policy-2` … for
    patterns in the order given.
    """

    __slots__ = ("_clean", "_names", "_patterns")

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._patterns = tuple(
            _compiled(pattern, number) for number, pattern in enumerate(patterns, start=1)
        )
        self._clean: set[str] = set()
        self._names: dict[str, bool] = {}  # of clean keys: whether a secret stands under them

    def redact(self, text: str) -> tuple[str, Counts]:
        """Mask every secret that a rule finds; counts by rule. Same text, same answer, anywhere."""
        counts: Counts = {}
        for _ in range(_PASSES_MAX):
            before = text
            found: Counts = {}
            text = self._once(text, found)
            if text == before:
                break
            for rule, number in found.items():
                counts[rule] = counts.get(rule, 0) + number
        return text, counts

    def redact_data(self, value: Any) -> tuple[Any, Counts]:
        """Mask strings anywhere in JSON data, and what stands under a secret-looking key."""
        counts: Counts = {}
        return self._walk(value, counts, under_secret=False), counts

    def _once(self, text: str, counts: Counts) -> str:
        lowered = _lowered(text)
        for rule, pattern, word in self._patterns:
            if word in lowered:
                text = _spliced(text, _widened(text, pattern), rule, counts)
        for shape in suspects(text.encode()):
            text = _spliced(text, shape.spans(text), shape.name, counts)
        for rule, find in _FINDERS:
            # Finders look up places of `lowered` in the text: the two must be of one length.
            if len(lowered) != len(text) or counts:
                lowered = _lowered(text)
            text = _spliced(text, find(text, lowered), rule, counts)
        return text

    def _walk(self, value: Any, counts: Counts, *, under_secret: bool) -> Any:
        if isinstance(value, str):
            return self._string(value, counts, under_secret=under_secret)
        if isinstance(value, dict):
            out: dict[str, Any] = {}
            for key, item in value.items():
                name = self._string(key, counts, under_secret=False)
                while name in out:
                    name += "'"  # two secret keys under one mark: neither value may be lost
                judged = self._names.get(name)
                if judged is None:
                    # As stored: a mark that names a token makes no secret of what it labels.
                    judged = secret_key(MARK.sub("", name))
                    if name in self._clean:
                        self._names[name] = judged
                out[name] = self._walk(item, counts, under_secret=judged)
            return out
        if isinstance(value, list | tuple):
            return [self._walk(item, counts, under_secret=under_secret) for item in value]
        return value

    def _string(self, text: str, counts: Counts, *, under_secret: bool) -> str:
        if not under_secret and text in self._clean:
            return text
        masked, found = self.redact(text)
        if not found and masked == text and len(text) <= _SHORT:
            if len(self._clean) >= _MANY:
                self._clean.clear()
                self._names.clear()
            self._clean.add(text)
        if under_secret and masked == text and looks_secret(text):
            masked, found = f"[redacted:{_SECRET_VALUE}]", {_SECRET_VALUE: 1}
        for rule, number in found.items():
            counts[rule] = counts.get(rule, 0) + number
        return masked


def holds_token(text: str) -> bool:
    """Whether a known provider's token stands in the text."""
    return any(any(shape.spans(text)) for shape in suspects(text.encode()))


def shown(value: object) -> str:
    """Show a value in an error message: short, and without the tokens that it may hold."""
    text = repr(value).encode("utf-8", "backslashreplace").decode()
    if len(text) > 4096:
        text = text[:4096]
    text = _BUILT_IN.redact(text)[0]
    return text if len(text) <= 60 else text[:57] + "..."


def _compiled(pattern: str, number: int) -> tuple[str, re.Pattern[str], str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"not a regular expression: {error}; expected Python's syntax",
            where=f"redact_patterns[{number - 1}]",
        ) from error
    first = _FIRST_WORD.match(pattern)
    plain = first is not None and "|" not in pattern and not compiled.flags & re.VERBOSE
    return f"policy-{number}", compiled, first[1].lower() if first is not None and plain else ""


def _lowered(text: str) -> str:
    # Four letters match ASCII ones under (?i) although str.lower does not make them ASCII.
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def _widened(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Spans of the matches; one that touches marks takes them in whole, so marks never break."""
    marks = [mark.span() for mark in MARK.finditer(text)] if "[redacted:" in text else []
    at = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start == end:
            continue
        while at < len(marks) and marks[at][1] <= start:
            at += 1
        for mark_start, mark_end in marks[at:]:
            if mark_start >= end:
                break
            start, end = min(start, mark_start), max(end, mark_end)
        yield start, end


def _spliced(text: str, spans: Iterable[tuple[int, int]], rule: str, counts: Counts) -> str:
    pieces: list[str] = []
    last = 0
    for start, end in spans:
        if start < last:  # inside what was just masked
            continue
        pieces += (text[last:start], f"[redacted:{rule}]")
        last = end
    if not pieces:
        return text
    counts[rule] = counts.get(rule, 0) + len(pieces) // 2
    return "".join(pieces) + text[last:]


_BUILT_IN: Final = Redactor()
