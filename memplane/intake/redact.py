"""Mask secrets before the first byte is written.

Rules run in a fixed order: the policy's patterns, the tokens of known providers (`token_patterns`),
then key blocks, values beside the name of a secret, URL credentials and Bearer (`secret_syntax`).
What a rule masks becomes `[redacted:<rule>]`. Passes repeat until one changes nothing, so
redact(redact(x)) == redact(x).
"""

from __future__ import annotations

import re
from bisect import bisect
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.intake.markers import MARK, Span, widened
from memplane.intake.secret_syntax import (
    BEARERS,
    COMMANDS,
    FINDERS,
    PRIVATE_KEYS,
    SECRET_VALUE,
    STEMS,
    URLS,
    chosen,
    key_values,
    looks_secret,
    passphrase,
    password_key,
    secret_key,
)
from memplane.intake.token_patterns import RUN_MIN, looked_at, torn
from memplane.kernel import Literals, kernel_twin
from memplane.lazy import NamedTuple, regex, word_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memplane.intake.secret_syntax import Finder
    from memplane.ports import Detector


class Counts(dict[str, int]):
    """How many secrets were masked, by rule; `taken` has the secrets where a caller wants them."""

    __slots__ = ("taken",)

    def __init__(self, taken: list[str] | None = None) -> None:
        super().__init__()
        self.taken = taken

    def add(self, found: Counts) -> None:
        """Add the counts of another one."""
        for rule, number in found.items():
            self[rule] = self.get(rule, 0) + number


# A pass that changes nothing ends it; only a pattern that feeds on its own marks needs many.
_PASSES_MAX: Final = 32
# What an identifier is searched for beside tokens, and a list as one text.
_IN_NAMES: Final = (PRIVATE_KEYS, URLS, BEARERS)
_IN_LISTS: Final = (PRIVATE_KEYS, COMMANDS)
_QUOTED: Final = regex("%([0-7][0-9A-Fa-f])")
_FINDER_WORDS: Final = kernel_twin(Literals)(
    tuple({word: None for words in (STEMS, *(each.words for each in FINDERS)) for word in words})
)
_SHORT: Final = 128  # characters of what may come again
_MANY: Final = 10_000
# A pattern that begins with a plain word can only match where that word stands.
_FIRST_WORD: Final = regex(
    r"(?:\(\?i\))?(?:\\b)?([A-Za-z0-9_ -]*[A-Za-z0-9_ -])(?![*?{+|A-Za-z0-9_ -])"
)


class Redactor:
    """Masks secrets by the policy's patterns, the built-in rules, and a detector if there is one.

    Safe to share between threads. It caches identifiers and short strings without secrets, because
    sessions, tools and paths recur; results do not depend on the cache. Rules are named `policy-1`,
    `policy-2`, ... for patterns in their order, and `<detector>:<rule>`.
    """

    __slots__ = ("_clean", "_detector", "_identifiers", "_names", "_patterns")

    def __init__(self, patterns: tuple[str, ...] = (), detector: Detector | None = None) -> None:
        self._patterns = tuple(
            _compiled(pattern, number) for number, pattern in enumerate(patterns, start=1)
        )
        self._detector: Second | None = None
        if detector is not None:
            self._detector = Second(detector)
        self._clean: set[str] = set()
        self._identifiers: set[str] = set()  # in which `in_name` found nothing
        self._names: dict[str, bool] = {}  # of clean keys: whether a secret stands under them

    def redact(self, text: str, taken: list[str] | None = None) -> tuple[str, Counts]:
        """The text with every secret masked, and the counts by rule. Deterministic.

        The secrets are appended to `taken`: for comparisons, never for display.
        """
        counts = Counts(taken)
        for _ in range(_PASSES_MAX):
            before = text
            found = Counts(taken)
            text = self._once(text, found)
            if text == before and self._detector is not None:
                text = self._detected(self._detector, text, found)
            if text == before:
                break
            counts.add(found)
        return text, counts

    def redact_data(self, value: Any, taken: list[str] | None = None) -> tuple[Any, Counts]:
        """JSON data with strings and values of secret keys masked, and the counts by rule."""
        counts = Counts(taken)
        return self._walk(value, counts, under_secret=False), counts

    def redact_value(self, key: str, text: str) -> tuple[str, Counts]:
        """The text stored under a key, masked, and the counts by rule.

        It is masked as a whole where the key names a secret and the text looks like one.
        """
        masked, counts = self.redact(text)
        value = text.strip()
        if not counts and secret_key(key) and looks_secret(value) and chosen(value, key):
            return self._taken(value, counts), counts
        return masked, counts

    def in_name(self, name: str) -> Counts:
        """Counts by rule of what an identifier must not hold.

        That is tokens, matches of patterns, and findings of the detector. A key beside a value does
        not count unless the key names a password: identifiers have forms like `a=b` and `a:b`.
        """
        if name in self._identifiers:
            return Counts()
        counts = self._in_name(name)
        for part in _parts(name):
            counts = counts or self._in_name(part)
        if not counts and len(name) <= _SHORT:
            if len(self._identifiers) >= _MANY:
                self._identifiers.clear()
            self._identifiers.add(name)
        return counts

    def name(self, name: str) -> str:
        """An identifier in a request: unchanged, or masked where `in_name` finds something.

        Nothing is stored under such an identifier, so its masked form finds nothing either.
        """
        if not self.in_name(name):
            return name
        head, slash, last = self.redact(name)[0].rpartition("/")
        masked = f"{head}{slash}{self.redact(last)[0]}"
        found = self.in_name(masked)
        return f"[redacted:{min(found).partition(':')[0]}]" if found else masked

    def _in_name(self, name: str) -> Counts:
        counts = Counts()
        lowered = _lowered(name)
        for rule, pattern, word in self._patterns:
            if word in lowered:
                _spliced(name, _matches(name, pattern), rule, counts)
        if len(name) >= RUN_MIN:
            shapes, halves = looked_at(name)
            for rule, span in torn(name, halves) if halves else ():
                _spliced(name, [span], rule, counts)
            for shape in shapes:
                _spliced(name, shape.spans(name), shape.name, counts)
        for rule, _, find, _ in _may_find(lowered):
            _spliced(name, find(name, lowered), rule, counts)
        if "=" in name:
            _spliced(name, _passwords(name, lowered), SECRET_VALUE, counts)
        if self._detector is not None:
            self._detected(self._detector, name, counts)
        if not counts and "%" in name:  # an importer writes `://` so
            plain = _QUOTED.sub(lambda code: chr(int(code[1], 16)), name)
            return self._in_name(plain) if plain != name else counts
        return counts

    def _once(self, text: str, counts: Counts) -> str:
        lowered = _lowered(text)
        for rule, pattern, word in self._patterns:
            if word in lowered:
                text = _spliced(text, _matches(text, pattern), rule, counts)
        if "private" in lowered:  # before the shapes of what stands in a block
            text = _spliced(text, PRIVATE_KEYS.find(text, lowered), PRIVATE_KEYS.rule, counts)
        text = _tokens(text, counts)
        if counts:
            lowered = _lowered(text)
        among = frozenset(_FINDER_WORDS.among(lowered))
        for finder in FINDERS:
            if among.isdisjoint(finder.words) or (finder.keyed and among.isdisjoint(STEMS)):
                continue
            # Finders look up places of `lowered` in the text: the two are of one length.
            spans = finder.find(text, lowered)
            if spans and (pieces := _pieces(text, spans, finder.rule, counts)):
                spans = ()
                lowered = ""  # before the new text is made: of a long one there are few copies
                text = "".join(pieces)
                pieces.clear()
                lowered = _lowered(text)
                among = frozenset(_FINDER_WORDS.among(lowered))
        return text

    def _detected(self, detector: Second, text: str, counts: Counts) -> str:
        found = list(detector.find(text))
        for one in found:
            counts[one.rule] = counts.get(one.rule, 0) + 1
        return _masked(text, [(detector.name, one.span) for one in found], counts)

    def _walk(self, value: Any, counts: Counts, *, under_secret: bool) -> Any:
        if isinstance(value, str):
            return self._string(value, counts, under_secret=under_secret)
        if isinstance(value, dict):
            labelled = _labelled(value)
            out: dict[str, Any] = {}
            again: dict[str, int] = {}
            for key, item in value.items():
                name = self._string(key, counts, under_secret=False)
                if name in out:  # two secret keys under one mark: neither value may be lost
                    name = _another(name, out, again)
                out[name] = self._under(name, item, counts, labelled=key in labelled)
            return out
        if isinstance(value, list | tuple):
            return self._list(value, counts, under_secret=under_secret)
        return value

    def _under(self, name: str, item: Any, counts: Counts, *, labelled: bool) -> Any:
        judged = self._names.get(name)
        if judged is None:
            # As stored: a mark that names a token makes no secret of what it labels.
            judged = secret_key(MARK.sub("", name))
            if name in self._clean:
                self._names[name] = judged
        if judged and _as_number(name, item):
            return self._taken(str(item), counts)
        if judged and isinstance(item, str) and password_key(name) and passphrase(item):
            return self._taken(item, counts)
        return self._walk(item, counts, under_secret=judged or labelled)

    def _list(
        self, items: list[Any] | tuple[Any, ...], counts: Counts, *, under_secret: bool
    ) -> Any:
        """The items, each masked; then what only gives itself away beside its neighbours."""
        out = [self._walk(item, counts, under_secret=under_secret) for item in items]
        texts = [(number, item) for number, item in enumerate(out) if isinstance(item, str)]
        if len(texts) < 2 or under_secret:
            return out
        for (at, name), (number, item) in pairwise(texts):
            if number == at + 1 and _names_next(name) and looks_secret(item) and _digits(item):
                out[number] = self._taken(item, counts)
        texts = [(number, out[number]) for number, _ in texts]
        # A command's arguments, and the lines of a file: as one text, masked item by item.
        joined = " ".join(item for _, item in texts)
        lowered = _lowered(joined)
        for finder in _IN_LISTS:
            spans = list(finder.find(joined, lowered))
            if not spans:
                continue
            for (number, item), inside in zip(texts, _shares(texts, spans), strict=True):
                out[number] = _spliced(item, inside, finder.rule, counts)
            return self._list(out, counts, under_secret=False)
        return out

    def _taken(self, text: str, counts: Counts) -> str:
        counts[SECRET_VALUE] = counts.get(SECRET_VALUE, 0) + 1
        if counts.taken is not None:
            counts.taken.append(text)
        return f"[redacted:{SECRET_VALUE}]"

    def _string(self, text: str, counts: Counts, *, under_secret: bool) -> str:
        if not under_secret and text in self._clean:
            return text
        masked, found = self.redact(text, counts.taken)
        if not found and masked == text and len(text) <= _SHORT:
            if len(self._clean) >= _MANY:
                self._clean.clear()
                self._names.clear()
            self._clean.add(text)
        if under_secret and masked == text and looks_secret(text):
            return self._taken(text, counts)
        counts.add(found)
        return masked


# In objects with the name of something beside its value.
_LABELS: Final = word_table("""
    name key Name Key variable env header field option label
""")
_VALUES: Final = ("value", "val", "Value", "content", "default", "secret", "data", "text")
_OPTION: Final = regex(r"-{0,2}[A-Za-z][A-Za-z0-9_.-]{2,60}:?")


def _labelled(value: dict[str, Any]) -> tuple[str, ...]:
    """The keys whose values belong to what another value names: `{"name": "TOKEN", "value": …}`."""
    if len(value) < 2:
        return ()
    for label in _LABELS:
        name = value.get(label)
        if isinstance(name, str) and len(name) <= _SHORT and secret_key(MARK.sub("", name)):
            return tuple(key for key in _VALUES if key in value)
    return ()


def _another(name: str, taken: dict[str, Any], again: dict[str, int]) -> str:
    """A key like this one that is not taken: with a stroke, then numbered. `again` has the last."""
    number = again.get(name, 0)
    while True:
        number += 1
        other = f"{name}'" if number == 1 else f"{name}'{number}"
        if other not in taken:
            again[name] = number
            return other


def _shares(texts: list[tuple[int, str]], spans: list[Span]) -> Iterator[list[Span]]:
    """Of spans in the texts joined by blanks, what lies in each text, counted from its start."""
    begin = first = 0
    for _, text in texts:
        end = begin + len(text)
        while first < len(spans) and spans[first][1] <= begin:
            first += 1
        inside: list[Span] = []
        at = first
        while at < len(spans) and spans[at][0] < end:
            start, last = spans[at]
            if last > begin:
                inside.append((max(start, begin) - begin, min(last, end) - begin))
            at += 1
        yield inside
        begin = end + 1


def _as_number(name: str, item: Any) -> bool:
    """Whether a number is a password: `{"password": 12345678}`."""
    return type(item) is int and abs(item) >= _NUMBER_MIN and password_key(name)


_NUMBER_MIN: Final = 100_000


def _parts(name: str) -> Iterator[str]:
    """What of a namespace or file's name is looked at alone.

    Behind a slash some shapes do not begin, and before the endings of a file some do not end.
    """
    last = name.rpartition("/")[2]
    if len(last) < len(name):
        yield last
    for _ in range(2):
        last = last.rpartition(".")[0]
        if last:
            yield last


def _names_next(name: str) -> bool:
    """Whether an item of a list names the next one: `["X-Api-Key", …]`, `["--token", …]`."""
    return len(name) <= _SHORT and _OPTION.fullmatch(name) is not None and secret_key(name)


def _digits(text: str) -> bool:
    return any(map(str.isdigit, text))


def _may_find(lowered: str) -> list[Finder]:
    """Those for identifiers of which the text, in small letters, holds a word: so few patterns."""
    return [finder for finder in _IN_NAMES if any(word in lowered for word in finder.words)]


def masked_name(name: str) -> str:
    """An identifier from outside: unchanged, or masked where the built-in rules find a secret."""
    return _BUILT_IN.name(name)


def masked(text: str) -> str:
    """A text for people, such as an error message, masked by the built-in rules."""
    return _BUILT_IN.redact(text)[0]


def masked_data(value: Any) -> Any:
    """JSON data for a file beside the log, masked by the built-in rules."""
    return _BUILT_IN.redact_data(value)[0]


def secrets_in(text: str) -> list[str]:
    """The secrets that the built-in rules find in a text, longest first: to remove, not to show."""
    taken: list[str] = []
    _BUILT_IN.redact(text, taken)
    return sorted(set(taken), key=lambda secret: (-len(secret), secret))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, nor the beginning of one at which the text was cut off."""
    for secret in secrets:
        least = min(len(secret), _BEGINNING)
        # A text that holds a beginning holds each shorter one: the longest is found by halving.
        sizes = range(least, len(secret) + 1)
        held = bisect(sizes, 0, key=lambda size: secret[:size] not in text)
        if held:
            text = text.replace(secret[: sizes[held - 1]], f"[redacted:{SECRET_VALUE}]")
    return masked(text)


_BEGINNING: Final = 8  # characters of a secret that may be shown are fewer


def quoted_value(value: object, most: int = 60) -> str:
    """A value for an error message: its repr, at most `most` characters, tokens masked."""
    text = repr(value).encode("utf-8", "backslashreplace").decode()
    # Masked first: what is cut off a token's end leaves a beginning that no rule knows.
    text = masked(text[:4096])
    return text if len(text) <= most else text[: most - 3] + "..."


def unexpected(wanted: str, value: object, where: str) -> InputError:
    """The error for an argument of another type or value than the one wanted."""
    return InputError(f"expected {wanted}, found {quoted_value(value)}", where=where)


def _passwords(name: str, lowered: str) -> Iterator[Span]:
    """Passwords behind their names: of other pairs identifiers are full."""
    for start, end in key_values(name, lowered):
        key = name[:start].rstrip("=\"'")
        if len(key) < start and password_key(key):
            yield start, end


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
    """The text in small letters, `?` for what is beyond ASCII: as long, and quick to search."""
    if text.isascii():
        return text.lower()
    if len(text) <= _AT_ONCE:
        return _lowered_piece(text)
    # In pieces: one wide letter makes a copy of the text four times as long as its answer.
    starts = range(0, len(text), _AT_ONCE)
    return "".join(_lowered_piece(text[at : at + _AT_ONCE]) for at in starts)


_AT_ONCE: Final = 1 << 20  # characters


def _lowered_piece(text: str) -> str:
    # Four letters match ASCII ones under (?i) although str.lower does not make them ASCII.
    for letter, plain in _FOLDED:
        if letter in text:
            text = text.replace(letter, plain)
    return text.encode("ascii", "replace").decode("ascii").lower()


_FOLDED: Final = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"), ("\u212a", "k"))


def _matches(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    return widened(text, (match.span() for match in pattern.finditer(text)))


def _tokens(text: str, counts: Counts) -> str:
    """The text with the tokens of known providers masked, torn ones first."""
    shapes, halves = looked_at(text)
    if halves and (found := list(torn(text, halves))):
        for name, _ in found:
            counts[name] = counts.get(name, 0) + 1
        text = _masked(text, found, counts)
        shapes = looked_at(text)[0]
    for shape in shapes:
        text = _spliced(text, shape.spans(text), shape.name, counts)
    return text


def _spliced(text: str, spans: Iterable[Span], rule: str, counts: Counts) -> str:
    pieces = _pieces(text, spans, rule, counts)
    return "".join(pieces) if pieces else text


def _pieces(text: str, spans: Iterable[Span], rule: str, counts: Counts) -> list[str]:
    """The text with marks in place of the spans, in few pieces; [] where there are no spans."""
    joined: list[str] = []
    pieces: list[str] = []
    last = number = 0
    for start, end in spans:
        if start < last:  # inside what was just masked
            continue
        pieces += (text[last:start], f"[redacted:{rule}]")
        if counts.taken is not None:
            counts.taken.append(text[start:end])
        last = end
        number += 1
        if len(pieces) == _PIECES_MAX:
            joined.append("".join(pieces))
            pieces.clear()
    if not number:
        return []
    counts[rule] = counts.get(rule, 0) + number
    return [*joined, *pieces, text[last:]]


_PIECES_MAX: Final = 4096


def _masked(text: str, found: Iterable[tuple[str, Span]], counts: Counts) -> str:
    """The text with the mark that is named in place of each span; they are counted elsewhere."""
    pieces: list[str] = []
    last = 0
    for mark, (start, end) in found:
        pieces += (text[last:start], f"[redacted:{mark}]")
        if counts.taken is not None:
            counts.taken.append(text[start:end])
        last = end
    return "".join(pieces) + text[last:]


_BUILT_IN: Final = Redactor()


# A second engine behind the built-in rules, held to what the port `Detector` promises.
#
# Other people's code: what it answers is checked, and where it fails nothing is stored or shown.

_NAME: Final = regex(r"[a-z0-9-]{1,40}")
_RULE: Final = regex(r"[A-Za-z0-9_.-]{1,60}")


class DetectedSecret(NamedTuple):
    """A span found by a detector and the rule that it counts under, `<detector>:<rule>`."""

    span: Span
    rule: str


class Second:
    """A detector with its answers checked."""

    __slots__ = ("_detector", "name")

    def __init__(self, detector: Detector) -> None:
        name = getattr(detector, "name", None)
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise InputError(
                "expected a name of 1 to 40 lower-case letters, digits and dashes",
                where="detector.name",
            )
        self._detector, self.name = detector, name

    def find(self, text: str) -> Iterator[DetectedSecret]:
        """The detector's findings from left to right, without overlaps and parts of marks."""
        failure = ""
        try:
            spans = sorted((int(s), int(e), str(rule)) for s, e, rule in self._detector.find(text))
        except Exception as error:  # noqa: BLE001 - other people's code
            failure, spans = type(error).__name__, []
        if failure:  # without its message or itself as a cause: they may quote the text
            raise self._failed(f"failed ({failure})")
        if any(not 0 <= start <= end <= len(text) for start, end, _ in spans):
            raise self._failed("named characters outside the text")
        last = 0
        spans = [span for span in spans if span[0] < span[1]]
        for (start, end), (_, _, rule) in zip(
            widened(text, [span[:2] for span in spans]), spans, strict=True
        ):
            if start >= last and MARK.fullmatch(text, start, end) is None:
                named = rule if _RULE.fullmatch(rule) else "other"
                yield DetectedSecret((start, end), f"{self.name}:{named}")
                last = end

    def _failed(self, how: str) -> InputError:
        return InputError(
            f"the detector `{self.name}` {how}; what it cannot look at is neither stored nor shown",
            where="detector",
        )
