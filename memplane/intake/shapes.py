"""What the tokens of known providers look like.

Each shape has literals of which one stands in every token of that shape. A text
is searched for shapes only where a long unbroken run holds one of them, so prose
pays a table look-up per byte and nothing more. There is no entropy rule: hashes,
uuids and tool-use ids are our daily text, and they look as random as a key.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.intake.providers import PROVIDERS
from memplane.lazy import regex

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from memplane.intake.marks import Span

__all__ = ["RUN_MIN", "SHAPES", "WINDOW", "Shape", "looked_at", "suspects", "torn"]

# The shortest token of the table; a shorter unbroken run cannot hold any.
RUN_MIN: Final = 18
# Characters of a long text that are searched at once, and those on both sides that are shared with
# the next: more than the head of a token, its literal and what must stand behind that.
WINDOW: Final = 1 << 20
_SHARED: Final = 8192


class Shape(NamedTuple):
    """One provider's tokens. `pattern` matches the token and nothing beside it.

    One of the literals begins every such token. One written `*literal` or `~literal` stands inside
    it; with `~` what stands before that may be of any length. Behind one written `literal{n}` come
    n letters and digits in a row, or more. `start` says what may stand before a token.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str
    start: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where such tokens stand, from left to right."""
        whole = _compiled(self.start + self.pattern)
        kinds = {literal[0] for literal in self.literals}
        if not kinds.isdisjoint("*~"):
            # Without its start a pattern is searched for by its first characters, which is much
            # faster, but then begins anywhere: bad where it goes on for any length from there.
            if "~" in kinds or _compiled(self.pattern).search(text) is not None:
                for match in whole.finditer(text):
                    yield match.span()
            return
        # Looking only where a literal stands is ten times as fast as a search for the pattern.
        last = 0
        for start in self._starts(text):
            found = whole.match(text, start) if start >= last else None
            if found is not None:
                last = found.end()
                yield found.span()

    def _starts(self, text: str) -> Iterator[int]:
        """Where a literal stands, from left to right; in a long text window by window."""
        words = [_plain(literal) for literal in self.literals]
        for at in range(0, len(text), WINDOW):
            yield from sorted(found for word in words for found in _places(text, word, at))

    def over(self, text: str, first: int, gap: int, end: int) -> tuple[int, int] | None:
        """The token that begins before `gap` and ends behind it, if the text ended at `end`."""
        for match in _compiled(self.pattern).finditer(text, first, end):
            if match.start() >= gap:
                break
            if match.end() > gap:
                return match.span()
        return None

    def whole(self, text: str, start: int, end: int) -> bool:
        """Whether a token stands between the two, if the text ended there."""
        found = _compiled(self.pattern).match(text, start, end)
        return found is not None and found.end() == end

    def begins(self, text: str, at: int) -> bool:
        """Whether a token may begin there, by what stands before it."""
        return _compiled(self.start).match(text, at) is not None

    def ends(self, text: str, start: int) -> int:
        """Where the token ends that begins there, or -1."""
        found = _compiled(self.start + self.pattern).match(text, start)
        return -1 if found is None else found.end()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling the whole table costs more than all else that a hook does.
    return re.compile(pattern)


def _places(text: str, literal: str, first: int) -> Iterator[int]:
    """Where the literal begins in the window from `first` on."""
    last = first + WINDOW + len(literal) - 1
    at = text.find(literal, first, last)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1, last)


SHAPES: Final = tuple(Shape(*row) for row in PROVIDERS)

_ALNUM: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_RUN: Final = frozenset(_ALNUM + b"_-.+/=~:%@\\")
# Every byte of a run becomes `x`, so one substring search finds a run of RUN_MIN.
_MASK: Final = bytes(120 if byte in _RUN else 32 for byte in range(256))
_WORDS: Final = bytes(byte if byte in _ALNUM else 32 for byte in range(256))
_LONG: Final = b"x" * RUN_MIN
_ESCAPES: Final = regex(rb"\\[nrt]|%[0-9A-Fa-f]{2}")
_COLOURS: Final = regex(rb" [0-9]{1,2}m")  # no run holds the bracket before it


class _Literal(NamedTuple):
    """A literal at the head of a token, its first word, and the shapes that it may begin.

    `least`: how long the word is that holds the literal, or of a literal that ends between words,
    how long a word behind it is.
    """

    text: str
    word: bytes
    least: int
    shapes: tuple[int, ...]

    def begins(self, words: set[bytes]) -> bool:
        """Whether one of the words may be the head of such a token."""
        word, least = self.word, self.least
        return any(len(each) >= least and each.startswith(word) for each in words)


# Literals that stand inside a token, by what they begin with, and the shapes that they are of.
_Inner = tuple[str, tuple[tuple[str, int], ...]]


def _plain(literal: str) -> str:
    return literal.partition("{")[0]


def _by_literal() -> tuple[
    dict[bytes, list[_Literal]], dict[bytes, list[_Literal]], tuple[_Inner, ...]
]:
    """Literals whose first word ends in them, by it; those it goes on behind, by its head; others.

    Of the second kind those in small letters must say how long the word is at least.
    """
    numbers: dict[str, list[int]] = {}
    inner: list[tuple[str, int]] = []
    for number, shape in enumerate(SHAPES):
        for literal in shape.literals:
            if literal[0] in "*~":
                inner.append((literal[1:], number))
            else:
                numbers.setdefault(literal, []).append(number)
    whole: dict[bytes, list[_Literal]] = {}
    opened: dict[bytes, list[_Literal]] = {}
    for literal, found in numbers.items():
        text, _, more = literal.partition("{")
        word = text.encode().translate(_WORDS).split()[0]
        least = int(more.removesuffix("}") or 0)
        if text.endswith(word.decode()):
            least += len(word)
            assert word < _SMALL or least >= _LONG_WORD, literal
            opened.setdefault(word[:2], []).append(_Literal(text, word, least, tuple(found)))
        else:
            whole.setdefault(word, []).append(_Literal(text, word, least, tuple(found)))
    opening: dict[str, list[tuple[str, int]]] = {}
    for literal, number in inner:
        opening.setdefault(literal[:2], []).append((literal, number))
    return whole, opened, tuple((_common(found), tuple(found)) for found in opening.values())


def _common(literals: list[tuple[str, int]]) -> str:
    """What all of them begin with."""
    first = literals[0][0]
    return next(
        first[:size]
        for size in range(len(first), 0, -1)
        if all(literal.startswith(first[:size]) for literal, _ in literals)
    )


_SMALL: Final = b"a"  # capitals and digits come before it
_LONG_WORD: Final = 17
_WHOLE, _OPENED, _INNER = _by_literal()
_INNER_SMALL: Final = tuple([row for row in _INNER if row[0] == row[0].lower()])
_WHOLE_WORDS: Final = frozenset(_WHOLE)
_HEADS: Final = frozenset(_OPENED)


def suspects(encoded: bytes) -> tuple[Shape, ...]:
    """Shapes that the text (in ASCII or UTF-8) may hold, in table order; usually none."""
    return _suspects(encoded, _long_runs(encoded, None))


def looked_at(text: str, window: int = WINDOW) -> tuple[tuple[Shape, ...], frozenset[Shape]]:
    """Shapes that the text may hold as it stands, and those it may hold torn: see `torn`.

    A long text is looked at in windows, which share more at their edges than a token's head.
    """
    if len(text) <= window + 2 * _SHARED:
        return _looked_at(text)
    plain: set[Shape] = set()
    halves: set[Shape] = set()
    for at in range(0, len(text), window):
        found, torn = _looked_at(text[max(0, at - _SHARED) : at + window + _SHARED])
        plain.update(found)
        halves |= torn
    return tuple([shape for shape in SHAPES if shape in plain]), frozenset(halves)


def _looked_at(text: str) -> tuple[tuple[Shape, ...], frozenset[Shape]]:
    encoded = text.encode("ascii", "replace")
    edges: list[tuple[int, int]] = []
    runs = _long_runs(encoded, edges)
    plain = _suspects(encoded, runs) if runs else ()
    if b"?" in encoded and any(map(text.__contains__, _WIDTHLESS)):
        narrow = _NARROW.sub("", text).encode("ascii", "replace")
        edges = []
        runs = _long_runs(narrow, edges)
        return plain, frozenset((*_suspects(narrow, runs), *suspects(_joined(narrow, edges))))
    joined = _joined(encoded, edges) if edges else b""
    if not joined:
        return plain, _NONE
    # With the bracket of a terminal's colours, which no run holds.
    return plain, frozenset(suspects(b"[ " + joined if b"[" in encoded else joined))


_NONE: Final[frozenset[Shape]] = frozenset()


def _suspects(encoded: bytes, runs: bytes) -> tuple[Shape, ...]:
    if not runs:
        return ()
    plain = _COLOURS.sub(b" ", runs) if b"[" in encoded or b";" in encoded else runs
    words = set(plain.translate(_WORDS).split())
    if b"\\" in runs or b"%" in runs:
        # Both readings: `%AB` may be an escape, or a percent sign before a token.
        words.update(_ESCAPES.sub(b" ", plain).translate(_WORDS).split())
    text = runs.decode("ascii")
    found = [
        number
        for opening, literals in (_INNER_SMALL if text.islower() else _INNER)
        if opening in text
        for literal, number in literals
        if literal in text
    ]
    for word in _WHOLE_WORDS.intersection(words):
        for literal in _WHOLE[word]:
            if literal.text in text and literal.least <= max(map(len, words)):
                found += literal.shapes
    heads = {word[:2] for word in words if word < _SMALL or len(word) >= _LONG_WORD}
    for head in heads & _HEADS if heads else ():
        for literal in _OPENED[head]:
            if literal.text in text and literal.begins(words):
                found += literal.shapes
    return tuple([SHAPES[number] for number in sorted(set(found))]) if found else ()


def _long_runs(encoded: bytes, edges: list[tuple[int, int]] | None) -> bytes:
    """The unbroken runs of RUN_MIN bytes and more, each once and with a space before it.

    `edges` gets those that may be halves of a token: with a digit or a backslash in them.
    """
    mask = encoded.translate(_MASK)
    find = mask.find
    at = find(_LONG)
    if at < 0:
        return b""
    runs = {b"": None}
    while at >= 0:
        end = find(b" ", at + RUN_MIN)
        if end < 0:
            end = len(encoded)
        run = encoded[at:end]
        runs[run] = None
        if edges is not None and _HALF(run) is not None:
            edges.append((at, end))
        at = find(_LONG, end)
    return b" ".join(runs)


_HALF: Final = regex(rb"[0-9\\]").search


# What may stand inside a token that was not meant to: characters without a width, and a break of
# the line with what quotes or numbers the next one; as they are, and as JSON escapes them.
_WIDTHLESS: Final = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_IN_RUN: Final = r"[A-Za-z0-9_.+/=~:%-]"
_QUOTING: Final = r"(?:[ \t]{0,12}(?:[>|#+*-]|//|[0-9]{1,5}(?:\t|\\{1,7}t))?[ \t]{0,8})"
_GAP: Final = regex(
    rf"(?<={_IN_RUN})(?:[{_WIDTHLESS}]+|(?:\\{{1,7}}u(?:00[aA][dD]|200[b-dB-D]|2060|[fF][eE][fF][fF]))+"
    rf"|(?P<line>(?:\\?\r?\n|\\{{1,7}}n|\\{{1,7}}r\\{{1,7}}n){_QUOTING}))(?={_IN_RUN})"
    r"(?!ey[A-Za-z0-9_-]{10})"
)
_NARROW: Final = regex(f"[{_WIDTHLESS}]+")
_NEXT: Final = regex(
    rb"\\?\r?\n(?:[ \t]{0,12}(?:[>|#+*-]|//|[0-9]{1,5}\t)?[ \t]{0,8})(?=[A-Za-z0-9_.+/=~:%-])"
)
_BEFORE: Final = 24  # bytes of quoting before a line's first run
_QUOTED: Final = b" \t>|#+*-/0123456789\r"
_WORD: Final = regex(r"[A-Za-z]?[a-z]*|[A-Z]*")
_WHOLE_RUN: Final = regex(rf"{_IN_RUN}*\Z")
_HEAD_MAX: Final = 4096  # characters of a token before its first gap
_GAPS_MAX: Final = 100  # that one token may go over
_AHEAD_MAX: Final = 3  # of them before it is long enough to be one
_LINE_MIN: Final = 56  # characters of a line that was broken because it was full


def torn(text: str, shapes: frozenset[Shape]) -> Iterator[tuple[str, Span]]:
    """Tokens over a break of the line, or with characters without a width inside: name and span.

    The text is read as if those were not there, but only where that makes a token.
    """
    view, places, removed = _without_gaps(text)
    found: list[tuple[int, int, str]] = []
    for shape in shapes:  # in any order: what they find is sorted
        last = 0
        for number in range(len(places) - 1):
            if places[number] < last:
                continue
            at = places[number] + removed[number]
            span = _over(view, shape, places, number, partial(_is_short, text, at))
            if span is None:
                continue
            start, end = span[0] + removed[number], span[1] + removed[bisect_left(places, span[1])]
            gap = _GAP.match(text, at)
            assert gap is not None
            if shape.begins(text, start) and _goes_on(text, shape, start, end, gap):
                last = span[1]
                found.append((start, end, shape.name))
    last = 0
    for start, end, name in sorted(found):
        if start >= last:
            yield name, (start, end)
            last = end


def _without_gaps(text: str) -> tuple[str, array[int], array[int]]:
    """The text without its gaps, where each of them was in that, and what is gone before each.

    Both rows end with the place behind the last gap. A long text may have millions of gaps.
    """
    from array import array  # noqa: PLC0415 - few texts may hold a torn token

    places, removed = array("I"), array("I", [0])
    joined: list[str] = []
    pieces: list[str] = []
    last = gone = 0
    for gap in _GAP.finditer(text):
        start, end = gap.span()
        pieces.append(text[last:start])
        places.append(start - gone)
        gone += end - start
        removed.append(gone)
        last = end
        if len(pieces) == _PIECES_MAX:
            joined.append("".join(pieces))
            pieces.clear()
    view = "".join([*joined, *pieces, text[last:]])
    places.append(len(view))
    return view, places, removed


_PIECES_MAX: Final = 4096


def _over(
    view: str, shape: Shape, places: array[int], number: int, is_short: Callable[[], bool]
) -> tuple[int, int] | None:
    """The token that this gap tears first, in the view: over as many more gaps as it goes on.

    None for one that is whole before the break of a short line.
    """
    gap, span = places[number], None
    first, before = max(places[number - 1] if number else 0, gap - _HEAD_MAX), gap
    for ahead, end in enumerate(places[number + 1 : number + 1 + _GAPS_MAX]):
        longer = shape.over(view, first, gap, end)
        if longer is not None:
            if span is None and shape.whole(view, longer[0], gap) and is_short():
                return None
            first = longer[0]
            if span is not None and not _is_tail(view[span[1] : longer[1]]):
                break
            span = longer
        # What does not reach the next gap ends here.
        reaches = _WHOLE_RUN.match(view, before, end) if longer is None else longer[1] == end
        if not reaches or (span is None and ahead == _AHEAD_MAX):
            break
        before = end
    return span


def _is_tail(text: str) -> bool:
    """Whether the characters on the next line could go on with a token: no word of prose."""
    return len(text) >= 4 and _WORD.fullmatch(text) is None


def _goes_on(text: str, shape: Shape, start: int, end: int, gap: re.Match[str]) -> bool:
    """Whether a token that is whole before the break of a line goes on behind it."""
    if gap["line"] is None or shape.ends(text, start) != gap.start():
        return True
    return not _is_short(text, gap.start()) and _is_tail(text[gap.end() : end])


def _is_short(text: str, at: int) -> bool:
    """Whether the gap that begins there breaks a line that was not full."""
    gap = _GAP.match(text, at)
    if gap is None or gap["line"] is None:
        return False
    least = at - _LINE_MIN + 1
    return least < 0 or text.rfind("\n", least, at) >= 0


def _joined(encoded: bytes, edges: list[tuple[int, int]]) -> bytes:
    """The runs at the ends of lines, each with that at the beginning of the next; mostly none.

    Only where one of the two is long: a token is, and so is the longer half of it. Escapes that
    stand for what may tear a token are taken out of a run.
    """
    joined: list[bytes] = []
    done, size = 0, len(encoded)
    for at, end in edges:
        if at < done:
            continue
        first = _run_before(encoded, at)
        if first < at or (end < size and encoded[end] in _LINE_ENDS):
            done = _chain(encoded, first, joined)
        elif b"\\" in encoded[at:end]:
            run = encoded[at:end]
            narrow = _ESCAPED.sub(b"", run)
            if narrow != run:
                joined.append(narrow)
            _put_together(_BROKEN.split(narrow), joined)
    return b" ".join(joined)


_LINE_ENDS: Final = b"\n\r\\"
_ESCAPED: Final = regex(rb"\\{1,7}u(?:00[aA][dD]|200[b-dB-D]|2060|[fF][eE][fF][fF])")
_BROKEN: Final = regex(rb"(?:\\{1,7}r)?\\{1,7}n(?:[>|#+*-]|//)?")
_END_BYTES: Final = 320  # of a run, which is more than any literal with what must stand behind it


def _put_together(pieces: list[bytes], joined: list[bytes]) -> None:
    """Each piece with the two behind it: a literal stands in one of them, the token goes on."""
    for number in range(len(pieces) - 1):
        following = b"".join(piece[:_END_BYTES] for piece in pieces[number + 1 : number + 3])
        joined.append(pieces[number][-_END_BYTES:] + following)


def _run_before(encoded: bytes, at: int) -> int:
    """Where the run begins at the end of the line before; `at` if there is none."""
    line = encoded.rfind(b"\n", max(0, at - _BEFORE), at)
    if line <= 0 or encoded[line + 1 : at].strip(_QUOTED):
        return at
    before = _LAST_RUN.search(encoded, max(0, line - RUN_MIN), line)
    return at if before is None else before.start()


_LAST_RUN: Final = regex(rb"[A-Za-z0-9_.+/=~:%@\\-]+(?=\r?\Z)")
_RUN_ON: Final = regex(rb"[A-Za-z0-9_.+/=~:%@\\-]*")


def _chain(encoded: bytes, first: int, joined: list[bytes]) -> int:
    """Put the runs together that go on from line to line; gives back where they end."""
    pieces: list[bytes] = []
    at = first
    while True:
        run = _RUN_ON.match(encoded, at)
        assert run is not None
        pieces.append(run.group())
        if (gap := _NEXT.match(encoded, run.end())) is None:
            break
        at = gap.end()
    _put_together(pieces, joined)
    return run.end()
