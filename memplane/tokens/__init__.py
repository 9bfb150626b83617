"""Token counters, and how a text is cut to a number of tokens.

Every counter is additive over lines: a text costs the sum of its lines, newlines included.
memplane's own have names in `budgets.yaml`; `bound/1` is the default: never below o200k nor cl100k
(byte pair encoding, Sennrich et al. 2016), and the same on every machine. Any other object with
`count(text) -> int` stands where these do; it need not know of lines: it is asked line by line, and
each line once.

**What `bound/1` counts.** A text costs the sum of its chunks (`CHUNKS`), a chunk the larger of its
exact counts in the two encodings. What is not exact, but never too little:

- A line that ends in punctuation: its last pretoken may read on over the newline, so it
  costs the worst that any continuation can make of it (`closing`).
- A line that begins with slashes: after punctuation o200k reads them with the newline
  before them, so it costs the larger of both readings.
- Every newline that ends no such pretoken costs 1; blanks that end a line or the text cost
  what can begin in them.
- A chunk with a character whose class is unsure, and a pretoken over 40 bytes (over 128 in
  ASCII) that is no token, cost what can begin in each part of them.

**Its table.** `bound1.xz` holds the vocabularies of o200k and cl100k, and the class and cost of
each character. `tools/build_bound1.py` writes it. Unpacked it is, in this order:

- one byte for each code point below `CHARACTERS`: bits 0-2 its class (`WHITE` .. `UNSURE`),
  bits 3-4 and 5-6 one less than its worst case in o200k and in cl100k (see `worst`),
- the tokens of o200k in rank order, joined by the byte FF,
- two bytes FF,
- the tokens of cl100k in rank order, joined by the byte FF.

The 256 single bytes, the first ranks of both, are left out: `single_bytes` gives their
order. FF is in no UTF-8 text, so no longer token has it.

The class of a character is given only where Unicode never changed it from 3.2 on
(or where it was no letter, mark or number before and is none now): two builds of a
tokenizer then agree on it. Everything else is `UNSURE`, as is everything from
`CHARACTERS` on.

What a process reads is `bound1.idx`, the same laid out for searching, so that a first count
unpacks nothing. Numbers are four bytes, the least first; each text is preceded by its length. In
this order:

- `MAGIC`, and one byte for each code point (as above),
- for o200k and then for cl100k, of all tokens but FF (which is in no UTF-8 text) in the order
  of their bytes, `GROUP` by `GROUP`: their number, their ranks, where each group begins in the
  text behind, a text of the groups' first tokens, a text of all of them. FF ends each token.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memplane.errors import InputError, MissingExtraError, ProviderError
from memplane.kernel import kernel_twin
from memplane.lazy import NamedTuple, late, regex

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from importlib import util as importlib_util
    from typing import TypeAlias

    from memplane.ports import TokenCounter

    Numbers: TypeAlias = array[int] | memoryview
else:
    importlib_util = late("importlib.util")


CHARACTERS = 0x20000
WHITE, UPPER, LOWER, LETTER, MARK, NUMBER, OTHER, UNSURE = range(8)

# Characters of a long text that are taken to pieces at once: each piece is an object of its own.
PART = 1 << 16

_SEPARATOR = b"\xff"
_BEYOND = UNSURE | 3 << 3 | 3 << 5  # four bytes of UTF-8, hence four tokens at the very worst


MAGIC = b"memplane bound/1 index 1\n"
GROUP = 16  # tokens that are read at once
_END = b"\xff"
_NUMBER_BYTES = 4
NEVER = 1 << 30  # the rank of what is no token: it is never merged
# Asked for, tokens or not, after which all are read, for some 50 ms and 20 MB: what it took to look
# up as many. The first thousand new texts ask for 17,000, most processes for a few hundred.
_MANY = 25_000
_GROUPS_AT_ONCE = 256  # of the table, where all of it is read
PREFIX = 3  # bytes by which it is known how long a token can be
_MANY_PREFIXES = 3_000  # asked for, after which all are found: what it took to look up as many
_LONGEST_TOKEN = 256  # bytes; no token has as many
_NO_TOKENS = 25_000  # what is no token, remembered beside all that are one


class TokenRanks(dict[bytes, int]):
    """The ranks of one encoding's tokens; `ranks[token]` is NEVER for what is no token."""

    __slots__: tuple[str, ...] = ()
    whole: bool = True  # it holds all tokens

    def __missing__(self, token: bytes) -> int:
        return NEVER

    def longest(self, prefix: bytes) -> int:
        """How many bytes a token that begins with these has at most, `PREFIX` of them."""
        del prefix
        return _LONGEST_TOKEN


class Ranks(TokenRanks):
    """The same, looked up in the laid-out table as they are asked for, in some 2 us each.

    It holds what was asked for, NEVER for what is no token. Threads may share it; at worst two find
    the same token.
    """

    __slots__ = (
        "_first_tokens",
        "_firsts",
        "_longest",
        "_most",
        "_prefixed",
        "_ranks",
        "_starts",
        "_text",
        "whole",
    )

    def __init__(
        self,
        text: memoryview,
        first_tokens: memoryview,
        ranks: Numbers,
        starts: Numbers,
    ) -> None:
        super().__init__()
        self._text, self._first_tokens, self._ranks = text, first_tokens, ranks
        self._firsts: list[bytes] = []
        self._longest: dict[bytes, int] = {}
        self._prefixed = False  # all of them are known
        self._starts = starts
        self.whole, self._most = False, _MANY

    def laid_out(self) -> tuple[memoryview, Numbers, Numbers]:
        """The tokens, their ranks and where the groups begin, as they lie in the file."""
        return self._text, self._ranks, self._starts

    def __missing__(self, token: bytes) -> int:
        if not self.whole and len(self) >= _MANY:
            self.read_all()
            return self[token]
        rank = NEVER if self.whole else self._find(token)
        if len(self) < self._most:
            self[token] = rank
        return rank

    def longest(self, prefix: bytes) -> int:
        """How many bytes a token that begins with these has at most, 0 where none does."""
        complete = self._prefixed  # asked before the table is: another thread may fill it
        known = self._longest.get(prefix)
        if known is not None or complete:
            return known or 0
        if self.whole or len(self._longest) >= _MANY_PREFIXES:
            self._read_prefixes()
            return self._longest.get(prefix, 0)
        known = max(map(len, self._beginning(prefix)), default=0)
        self._longest[prefix] = known
        return known

    def _read_prefixes(self) -> None:
        """Find the longest of all, in some 50 ms, with all tokens held."""
        if not self.whole:
            self.read_all()
        found: dict[bytes, int] = {}
        for token, rank in list(self.items()):
            if rank != NEVER and len(token) > found.get(token[:PREFIX], 0):
                found[token[:PREFIX]] = len(token)
        self._longest = found
        self._prefixed = True

    def _beginning(self, prefix: bytes) -> Iterator[bytes]:
        """The tokens that begin with these bytes: they lie side by side."""
        if not self._firsts:
            self._firsts = bytes(self._first_tokens[:-1]).split(_END)
        starts = self._starts
        for number in range(max(bisect_right(self._firsts, prefix) - 1, 0), len(starts)):
            end = starts[number + 1] if number + 1 < len(starts) else len(self._text)
            tokens = bytes(self._text[starts[number] : end - 1]).split(_END)
            yield from (token for token in tokens if token.startswith(prefix))
            if tokens[-1] > prefix and not tokens[-1].startswith(prefix):
                return

    def read_all(self) -> None:
        """Hold all tokens: quicker than to look up as many more as were asked for by now.

        A part at a time: in one piece it keeps the interpreter's lock, and every loop, for 60 ms.
        """
        starts, count = self._starts, len(self._starts)
        for number in range(0, count, _GROUPS_AT_ONCE):
            behind = number + _GROUPS_AT_ONCE
            end = starts[behind] if behind < count else len(self._text)
            tokens = bytes(self._text[starts[number] : end - 1]).split(_END)
            ranks = self._ranks[number * GROUP : behind * GROUP]
            self.update(zip(tokens, ranks, strict=True))
        self._most, self.whole = len(self) + _NO_TOKENS, True

    def _find(self, token: bytes) -> int:
        if not self._firsts:
            self._firsts = bytes(self._first_tokens[:-1]).split(_END)
        number = bisect_right(self._firsts, token) - 1
        if number < 0:
            return NEVER
        starts, behind = self._starts, number + 1
        end = starts[behind] if behind < len(starts) else len(self._text)
        group = _END + self._text[starts[number] : end]
        at = group.find(_END + token + _END)
        return NEVER if at < 0 else self._ranks[number * GROUP + group.count(_END, 0, at)]


class BoundTable(NamedTuple):
    """`characters` as described above; `ranks` of o200k and of cl100k by token."""

    characters: bytes | memoryview
    ranks: tuple[TokenRanks, TokenRanks]

    def entries(self, text: str) -> bytes:
        """Look up the byte of each character."""
        table = self.characters
        if len(text) > PART:
            spans = range(0, len(text), PART)
            return b"".join([self.entries(text[at : at + PART]) for at in spans])
        return bytes([table[code] if code < CHARACTERS else _BEYOND for code in map(ord, text)])


def single_bytes() -> list[bytes]:
    """All single bytes in rank order: the printable ones of Latin-1 before the others."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    return [bytes((value,)) for value in printable + others]


def unpack(packed: bytes | memoryview) -> BoundTable:
    """Read `bound1.idx`, in a millisecond, or the xz file, in some 150.

    Of the former nothing is copied: where it is a mapped file, what is never asked for is not read.
    """
    view = memoryview(packed)
    if view[: len(MAGIC)] == MAGIC:
        start = len(MAGIC) + CHARACTERS
        o200k, pos = open_ranks(view, start)
        return BoundTable(view[len(MAGIC) : start], (o200k, open_ranks(view, pos)[0]))
    import lzma  # noqa: PLC0415 - a plane reads the other one, and starts faster without it

    blob = lzma.decompress(packed)
    first, second = blob[CHARACTERS:].split(_SEPARATOR * 2)
    return BoundTable(blob[:CHARACTERS], (_ranks(first), _ranks(second)))


def _ranks(part: bytes) -> TokenRanks:
    tokens = part.split(_SEPARATOR)
    ranks = TokenRanks(zip(tokens, range(256, 256 + len(tokens)), strict=True))
    ranks.update(zip(single_bytes(), range(256), strict=True))
    return ranks


def open_ranks(data: memoryview, pos: int) -> tuple[Ranks, int]:
    """The ranks that are laid out at `pos`, and the place behind them."""
    count = _read_words(data, pos, 1)[0]
    ranks = _read_words(data, pos + _NUMBER_BYTES, count)
    pos += _NUMBER_BYTES * (1 + count)
    groups = -(-count // GROUP)
    starts = _read_words(data, pos, groups)
    pos += _NUMBER_BYTES * groups
    firsts, pos = _read_text(data, pos)
    text, pos = _read_text(data, pos)
    return Ranks(text, firsts, ranks, starts), pos


def _read_text(data: memoryview, pos: int) -> tuple[memoryview, int]:
    start = pos + _NUMBER_BYTES
    end = start + _read_words(data, pos, 1)[0]
    return data[start:end], end


def _read_words(data: memoryview, pos: int, count: int) -> Numbers:
    span = data[pos : pos + _NUMBER_BYTES * count]
    if sys.byteorder == "little":
        return span.cast("I")
    numbers = array("I", bytes(span))
    numbers.byteswap()
    return numbers


# Where a text can be cut so that every part becomes the same tokens alone as in its place.
#
# Both encodings first split a text into pretokens, which no token crosses. Both always split before
# a blank that follows a non-blank, and give all blanks of a run but the last a pretoken of their
# own. So a word with the blank before it is a chunk, and all differences between the two
# (contractions, capitals, marks, digits, punctuation) lie inside chunks. Only newlines join: a run
# of punctuation reads on over them, in o200k over slashes too.
#
# Python's `re` knows no Unicode classes, and its idea of a blank differs. Characters beyond ASCII
# are therefore replaced by a stand-in for their class before a pattern sees them.

BLANKS = (
    "\t\x0b\x0c \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)
BLANKS += "\u2028\u2029\u202f\u205f\u3000"  # what Unicode calls white space, without CR and LF
_WORD = f"[^{BLANKS}\\r\\n]"

# A word with the blank before it and the newline behind it; the blanks before that; blanks
# that end a line; a newline. Blanks at the end of the text are left over.
CHUNKS = regex(
    f"[{BLANKS}]?{_WORD}+[\\r\\n]?|[{BLANKS}]+(?=[{BLANKS}]{_WORD})|[{BLANKS}]+[\\r\\n]|[\\r\\n]"
)

# Behind one of these no chunk goes on: the last character of a word before a blank, a newline.
_BORDER = regex(f"{_WORD}(?=[{BLANKS}])|[\\r\\n]")
# Between the two of them no pretoken of either encoding goes on.
_WORD_END = regex(f"{_WORD}(?=[{BLANKS}])")

# One pretoken in both encodings, and the bulk of new text.
PLAIN = regex(r" ?[A-Za-z]?[a-z]+").fullmatch
# One of these behind such a text is a pretoken of its own in both, and one token.
_STOPS = frozenset('.,:;!?)"]}*`')

_STANDS_FOR = {
    WHITE: "\x80",
    UPPER: "\x81",
    LOWER: "\x82",
    LETTER: "\x83",
    MARK: "\x84",
    NUMBER: "\x85",
    OTHER: "\x86",
    UNSURE: "\x87",
}
UNSURE_CHARACTER = _STANDS_FOR[UNSURE]
_STAND_IN = [_STANDS_FOR[entry & 7] for entry in range(256)]

_L = r"A-Za-z\x81-\x83"
_N = r"0-9\x85"
_S = r"\t-\r \x80"
_CAPITAL = r"[A-Z\x81\x83\x84]"
_SMALL = r"[a-z\x82-\x84]"
# Under the encodings' (?i) long s is an s too; the table calls it unsure.
_CONTRACTION = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"

CL100K = regex(
    rf"{_CONTRACTION}"
    rf"|[^\r\n{_L}{_N}]?[{_L}]+"
    rf"|[{_N}]{{1,3}}"
    rf"| ?[^{_S}{_L}{_N}]+[\r\n]*"
    rf"|[{_S}]*[\r\n]+"
    rf"|[{_S}]+(?![^{_S}])|[{_S}]+"
)

O200K = regex(
    rf"[^\r\n{_L}{_N}]?{_CAPITAL}*{_SMALL}+(?:{_CONTRACTION})?"
    rf"|[^\r\n{_L}{_N}]?{_CAPITAL}+{_SMALL}*(?:{_CONTRACTION})?"
    rf"|[{_N}]{{1,3}}"
    rf"| ?[^{_S}{_L}{_N}]+[\r\n/]*"
    rf"|[{_S}]*[\r\n]+"
    rf"|[{_S}]+(?![^{_S}])|[{_S}]+"
)

_surrogates = regex("[\ud800-\udfff]")


def text_slices(text: str, size: int, *, within_line: bool = False) -> Iterator[str]:
    """Yield a text in parts of about `size` characters whose chunks are those of the whole.

    `within_line`: in parts of a line that an encoding counts alone as it does in the line. A word
    is never cut: one that is longer makes a part longer.
    """
    start, border = 0, _WORD_END if within_line else _BORDER
    while len(text) - start > size:
        found = border.search(text, start + size - 1)
        if found is None or found.end() == len(text):
            break
        yield text[start : found.end()]
        start = found.end()
    yield text[start:] if start else text


def stand_ins(text: str, entries: bytes) -> str:
    """Replace each character beyond ASCII by the stand-in of its class."""
    if len(text) > PART:
        spans = [(at, at + PART) for at in range(0, len(text), PART)]
        return "".join([stand_ins(text[at:end], entries[at:end]) for at, end in spans])
    return "".join(
        [
            char if char < "\x80" else _STAND_IN[entry]
            for char, entry in zip(text, entries, strict=True)
        ]
    )


def without_surrogates(text: str) -> str:
    """Replace what UTF-8 cannot carry by U+FFFD."""
    return text if text.isascii() else _surrogates.sub("\ufffd", text)


def lines(text: str) -> Iterator[str]:
    """Yield the lines with their newlines; nothing but LF ends one."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


# Costs that were worked out once.

_FULL = 100_000  # texts
_FULL_CHARACTERS = 1 << 20
_MEMORABLE = 128  # characters; longer texts seldom come twice


class Memo(dict[str, int]):
    """What `cost` says of a text, remembered until there are too many; then it starts anew.

    Results never depend on what is remembered, and threads may share it.
    """

    def __init__(self, cost: Callable[[str], int], full: int | None = None) -> None:
        super().__init__()
        self._cost, self._full = cost, _FULL if full is None else full
        self._characters = 0

    def __missing__(self, text: str) -> int:
        cost = self._cost(text)
        size = len(text)
        if size <= _MEMORABLE:
            if len(self) >= self._full or self._characters >= _FULL_CHARACTERS:
                self.clear()
                self._characters = 0
            self[text] = cost
            self._characters += size
        return cost


class ChunkSums:
    """What the chunks of texts cost together, each by `cost`. Its twin is in `_kernel.c`.

    `encodings`: of each in which a chunk counts whether it is o200k, and what `Ranks.laid_out`
    gives: the twin finds out by itself what nearly all chunks in ASCII cost.
    """

    __slots__ = ("_costs",)

    def __init__(
        self,
        cost: Callable[[str], int],
        encodings: tuple[tuple[bool, memoryview, Numbers, Numbers], ...],
        full: int,
    ) -> None:
        del encodings
        self._costs = Memo(cost, full)

    def __len__(self) -> int:
        """How many chunks are remembered, at most `full`."""
        return len(self._costs)

    def clear(self) -> None:
        """Forget what was remembered."""
        self._costs.clear()

    def count(self, text: str) -> int:
        """The costs of the chunks of a text, without blanks that end it."""
        return sum(map(self._costs.__getitem__, CHUNKS.findall(text)))


# Byte pair encoding, and how bad it can get when the context is not known.
#
# Three facts carry every bound here. Each token begins in exactly one place, so charging every
# place with the largest number of tokens that can begin there is never too little. In the final
# state no two neighbours together are a token, else they would have been merged. And tokens that
# stand side by side in a final state are what their bytes alone become: no merge ever crossed their
# ends, so the others came in the same order as they would alone.


def pretoken_count(text: bytes, ranks: TokenRanks) -> int:
    """Count the tokens that a whole pretoken becomes."""
    return 1 if ranks[text] != NEVER else merged_count(text, ranks)


def merged_count(text: bytes, ranks: TokenRanks) -> int:
    """Count the tokens that merging leaves: 1 for every token, as the build of the table checks."""
    rank = ranks.__getitem__
    cuts = list(range(len(text) + 1))
    joins = [rank(text[at : at + 2]) for at in range(len(text) - 1)]
    while joins:
        best = min(joins)
        if best == NEVER:
            break
        at = joins.index(best)
        del cuts[at + 1], joins[at]
        if at < len(joins):
            joins[at] = rank(text[cuts[at] : cuts[at + 2]])
        if at:
            joins[at - 1] = rank(text[cuts[at - 1] : cuts[at + 1]])
    return len(cuts) - 1


def closing(text: bytes, newline: bytes, ranks: TokenRanks) -> int:
    """Bound a pretoken that reads on over the newline into lines not yet known.

    For every continuation F that begins with `newline`: tokens(text + F) - (len(F) - 1) at
    most. Each further byte of F is charged 1 by the line it stands in.
    """
    # Either a token ends behind the newline, and all tokens up to there count; or the one that
    # takes the newline in takes a further byte of F too, which pays for it, and only the
    # tokens before it count, wherever they end. Such a token up to LF, or up to the byte behind
    # it, is a token too (the build checks it), which rules out most places.
    whole = text + newline
    places = [end for end in range(1, len(whole)) if newline != b"\n" or _on(whole[end:], ranks)]
    return max(pretoken_count(whole[:end], ranks) for end in (*places, len(whole)))


def _on(tail: bytes, ranks: TokenRanks) -> bool:
    return ranks[tail] != NEVER or any(
        ranks[tail + further] != NEVER for further in (b"\n", b"\r", b"/")
    )


def starting(text: bytes, ranks: TokenRanks) -> int:
    """Bound the tokens that can begin in these bytes, whatever stands before and behind them.

    The sum over any partition of a text is never below its count.
    """
    size = len(text)
    # Ends of the tokens that begin in each place, also as bit sets; `merging[at][count]`, for the
    # final states of that count that end at `at`, the ends with which all would merge.
    ends_of = _token_ends(text, ranks)
    tokens = [sum(1 << end for end in ends) for ends in ends_of]
    merging: list[dict[int, int]] = [{} for _ in range(size + 1)]
    for start in range(size):
        before = sorted(merging[start].items(), reverse=True)
        for end in ends_of[start]:
            if end < size:
                # Any token may be the first: one from before the text may end where it begins.
                count = next((so_far + 1 for so_far, ends in before if not ends >> end & 1), 1)
                merging[end][count] = merging[end].get(count, -1) & tokens[start]
    # From where the last whole token ends, one more may reach beyond the text.
    return 1 + max((max(counts) for counts in merging if counts), default=0)


def _token_ends(text: bytes, ranks: TokenRanks) -> list[list[int]]:
    """For each place of a text where the tokens end that begin there.

    Most ends are ruled out by the first three bytes, of which few tokens begin with the same.
    """
    size, longest, held = len(text), ranks.longest, ranks.get
    found = []
    for start in range(size):
        most = PREFIX - 1
        if start + most < size:  # many thousands begin with a blank, which a text may end with
            most = max(longest(text[start : start + PREFIX]), most)
        ends = range(start + 1, min(size, start + most) + 1)
        if ranks.whole:  # what it does not hold is no token, and is not looked up
            found.append([end for end in ends if held(text[start:end], NEVER) != NEVER])
        else:
            found.append([end for end in ends if ranks[text[start:end]] != NEVER])
    return found


# What words, blanks and newlines cost in one of the two encodings.

ENCODINGS = ("o200k", "cl100k")
_PATTERNS = (O200K, CL100K)

# A pretoken of more bytes that is no token is charged by what can begin in it: merging takes
# time by the square of the length. Part of what `bound/1` means. Scripts without blanks make
# long ones all the time, ASCII hardly ever (rules of dashes).
_LONGEST = 40
_LONGEST_ASCII = 128
_LOOKED_AHEAD = 8  # characters; no pattern looks further behind what it finds


class TokenCosts:
    """The costs of one encoding. `table` holds both; `which` is a place in `ENCODINGS`."""

    def __init__(self, table: BoundTable, which: int) -> None:
        self._ranks = table.ranks[which]
        self._entries = table.entries
        self._shift = 3 + 2 * which
        self._pattern = _PATTERNS[which]
        self._slashes = which == 0
        # Of a text that is one pretoken, or one up to its newline.
        self.pretokens = Memo(self._pretoken)
        self._blocks = Memo(lambda text: starting(text.encode(), self._ranks))

    def word(self, text: str, shape: str) -> int:
        """Bound a word with the blank before it and the newline behind it, by its shape."""
        cost = self._apart(text, shape)
        if self._slashes and text[0] == "/":
            # After punctuation and a newline the slashes belong to the pretoken before.
            rest = text.lstrip("/")
            slashes = len(text) - len(rest)
            cost = max(cost, slashes + self._apart(rest, shape[slashes:]))
        return cost

    def _apart(self, text: str, shape: str) -> int:
        cost_of = self.pretokens.__getitem__
        if shape is text:
            if len(text) <= PART:
                return sum(map(cost_of, self._pattern.findall(text)))
            return sum(sum(map(cost_of, some)) for some in _pretokens(self._pattern, text))
        spans = self._pattern.finditer(shape)
        return sum(cost_of(text[span.start() : span.end()]) for span in spans)

    def _pretoken(self, text: str) -> int:
        if len(text) > _LONGEST_TOKEN:
            return self.anywhere(text)
        whole = text.encode()
        ranks = self._ranks
        if len(whole) > 1 and text[-1] in "\r\n":
            longest = _LONGEST_ASCII if len(whole) == len(text) else _LONGEST
            if len(whole) > longest and ranks[whole] == NEVER:
                return self.anywhere(text)
            # Even one that is a token could become more with what follows.
            return closing(whole[:-1], whole[-1:], ranks)
        if ranks[whole] != NEVER:
            return 1
        if len(whole) > (_LONGEST_ASCII if len(whole) == len(text) else _LONGEST):
            return self.anywhere(text)
        return merged_count(whole, ranks)

    def plain(self, text: bytes) -> int:
        """Count a text that `PLAIN` matches."""
        if self._ranks[text] != NEVER:
            return 1
        if len(text) > _LONGEST_ASCII:
            return self.anywhere(text.decode())
        return merged_count(text, self._ranks)

    def blanks(self, text: str) -> int:
        """Bound the blanks before a word's own, which are a pretoken of their own."""
        return self.pretokens[text] if text.isascii() else self.anywhere(text)

    def anywhere(self, text: str) -> int:
        """Bound a text, however it is split and whatever stands around it."""
        if text.isascii():
            cost_of = self._blocks.__getitem__
            starts = range(0, len(text), _LONGEST_ASCII)
            return sum(cost_of(text[at : at + _LONGEST_ASCII]) for at in starts)
        shift = self._shift
        return sum((entry >> shift & 3) + 1 for entry in self._entries(text))


def _pretokens(pattern: re.Pattern[str], text: str) -> Iterator[list[str]]:
    """Yield the pretokens of a long word, some at a time: as strings they are many times as long.

    They follow each other without a gap. What ends near the end of a window may go on behind it.
    """
    at, size = 0, PART
    while at < len(text):
        window = text[at : at + size]
        found, end = pattern.findall(window), len(window)
        if at + end < len(text):
            while found and end > len(window) - _LOOKED_AHEAD:
                end -= len(found.pop())
            if not found:  # one pretoken fills the window
                size *= 2
                continue
        yield found
        at, size = at + end, PART


class Bound:
    """Counts by the table that `table` returns; it is read once, at the first count.

    The same text always has the same count. Threads may share a counter; at worst two of
    them read the table.
    """

    def __init__(
        self,
        table: Callable[[], bytes | memoryview],
        *,
        name: str = "bound/1",
        encodings: tuple[str, ...] = ENCODINGS,
    ) -> None:
        self.name = name
        self._read = table
        self._encodings = encodings
        self._costs: _Costs | None = None

    def count(self, text: str) -> int:
        """Never below the exact counts, and the sum over the lines."""
        if not text:
            return 0
        if len(text) > PART:
            return sum(map(self._count, text_slices(text, PART)))
        return self._count(text)

    def _count(self, text: str) -> int:
        costs = self._costs
        if costs is None:
            costs = self._costs = _Costs(unpack(self._read()), self._encodings)
        if text[-1] not in BLANKS:
            return costs.chunks.count(text)
        # The pattern would look for the end of these blanks from each of them anew.
        body = text.rstrip(BLANKS)
        return costs.chunks.count(body) + costs.anywhere(text[len(body) :])


class _Costs:
    """What each chunk costs in the dearest of the encodings."""

    def __init__(self, table: BoundTable, encodings: tuple[str, ...]) -> None:
        self._table = table
        places = [ENCODINGS.index(name) for name in encodings]
        self._vocabularies = [TokenCosts(table, which) for which in places]
        laid_out = tuple(
            (which == 0, *ranks.laid_out())
            for which in places
            if isinstance(ranks := table.ranks[which], Ranks)
        )
        # Of all of them or of none: a chunk costs what it costs in the dearest.
        self.chunks = kernel_twin(ChunkSums)(
            self._chunk, laid_out if len(laid_out) == len(places) else (), _FULL
        )

    def anywhere(self, text: str) -> int:
        """Bound a text in any context."""
        return max([one.anywhere(text) for one in self._vocabularies])

    def _chunk(self, chunk: str) -> int:
        if PLAIN(chunk):
            return self._plain(chunk)
        if chunk[-1] in _STOPS and PLAIN(chunk[:-1]):
            return self._plain(chunk[:-1]) + 1
        return self._any_chunk(chunk)

    def _plain(self, chunk: str) -> int:
        text = chunk.encode()
        return max([one.plain(text) for one in self._vocabularies])

    def _any_chunk(self, chunk: str) -> int:
        if not chunk.strip(BLANKS):
            return max([one.blanks(chunk) for one in self._vocabularies])
        if not chunk.strip(BLANKS + "\r\n"):
            return self.anywhere(chunk)
        if chunk.isascii():
            return max([one.word(chunk, chunk) for one in self._vocabularies])
        chunk = without_surrogates(chunk)
        shape = stand_ins(chunk, self._table.entries(chunk))
        if UNSURE_CHARACTER in shape:
            return self.anywhere(chunk)
        return max([one.word(chunk, shape) for one in self._vocabularies])


# The counters `o200k` and `cl100k`: one encoding, counted by rs-bpe inside each line.
#
# At the ends of a line the rules of the bound apply, because a pretoken may extend over a newline;
# so the sum over lines is never below the count of the whole text.


class _Encoding(Protocol):
    def count(self, text: str) -> int: ...


class ExactCounter:
    """Counts one encoding; needs the extra `tokens`. The encoding is loaded at the first count."""

    def __init__(self, table: Callable[[], bytes | memoryview], *, name: str) -> None:
        if importlib_util.find_spec("rs_bpe") is None:
            raise MissingExtraError(f"the counter `{name}`", "tokens")
        self.name = name
        self._bound = Bound(table, name=name, encodings=(name,))
        self._encoding: _Encoding | None = None

    def count(self, text: str) -> int:
        """Never below the exact count, equal to it but for line ends, additive over lines."""
        encoding = self._encoding
        if encoding is None:
            encoding = self._encoding = _load(self.name)
        text = without_surrogates(text)
        return sum(self._line(line, encoding) for line in lines(text))

    def _line(self, line: str, encoding: _Encoding) -> int:
        # Slashes and CR may belong to a pretoken of the line before.
        if line[0] in "/\r":
            return self._bound.count(line)
        body = line.rstrip(BLANKS + "\r\n")
        if body == line:
            return _within(line, encoding)
        if line == body + "\n" and body[-1:].isascii() and body[-1:].isalnum():
            return _within(body, encoding) + 1
        # The last word of the line is bounded together with what follows it. Both encodings
        # split before the blank, unless more blanks stand before that.
        at = body.rfind(" ")
        if at <= 0 or line[at - 1] in BLANKS or line[at - 1] in "\r\n":
            return self._bound.count(line)
        return _within(line[:at], encoding) + self._bound.count(line[at:])


def _within(line: str, encoding: _Encoding) -> int:
    """The count of what stands within a line, of a long one in parts."""
    if len(line) <= PART:
        return encoding.count(line)
    return sum(map(encoding.count, text_slices(line, PART, within_line=True)))


def _load(name: str) -> _Encoding:
    from rs_bpe.bpe import openai  # noqa: PLC0415 - optional, and slow to start

    loaded: _Encoding = openai.o200k_base() if name == "o200k" else openai.cl100k_base()
    return loaded


NAMES = ("bound/1", "o200k", "cl100k", "len4")

_MILLION = 1_000_000


def make(
    name: str, *, scale_ppm: int = _MILLION, table: Callable[[], bytes | memoryview]
) -> TokenCounter:
    """Make the counter of that name. `scale_ppm` multiplies each line's count, rounded up.

    `table` returns the bytes of `bound1.idx` or of `bound1.xz`; it is called at the first
    count that needs it.
    """
    if scale_ppm < 1:
        raise InputError(f"expected a scale above 0, found {scale_ppm} ppm", where="scale")
    counter: TokenCounter
    if name == "bound/1":
        counter = Bound(table)
    elif name in {"o200k", "cl100k"}:
        counter = ExactCounter(table, name=name)
    elif name == "len4":
        counter = Len4()
    else:
        known = ", ".join(f"`{one}`" for one in NAMES)
        raise InputError(f"unknown counter `{name}`; expected one of {known}", where="counter")
    return scaled(counter, scale_ppm)


def scaled(counter: TokenCounter, scale_ppm: int) -> TokenCounter:
    """A counter whose count of each line is multiplied, in millionths."""
    return counter if scale_ppm == _MILLION else Scaled(counter, scale_ppm)


class Len4:
    """A rough count without a vocabulary: a quarter of each line's characters, rounded up."""

    name = "len4"

    def count(self, text: str) -> int:
        """Sum over the lines."""
        return sum((len(line) + 3) // 4 for line in lines(text))


class Scaled:
    """Another counter's count of each line, multiplied and rounded up."""

    def __init__(self, counter: TokenCounter, scale_ppm: int) -> None:
        self.name = counter.name
        self._count = counter.count
        self._scale = scale_ppm

    def count(self, text: str) -> int:
        """Sum over the lines."""
        return sum(-(-self._count(line) * self._scale // _MILLION) for line in lines(text))


# Behind a word, or behind a newline.
_ENDS = regex(f"(?<=\\n)|(?<=[^{BLANKS}\\r\\n])(?=[{BLANKS}\\r\\n]|\\Z)")

# A finished word may cost less than its beginning, though never by more than one token has bytes.
SWING = 128
_FURTHER = 16


def cut(counter: TokenCounter, text: str, limit: int) -> str:
    """Take the longest prefix of whole words or lines that counts at most `limit`.

    Where not even the first word fits, as many of its characters as do, perhaps none. Looks
    at a beginning of the text whose length depends on the limit alone.
    """
    if limit <= 0:
        return ""
    reach = 4 * limit + 64
    while reach < len(text):
        window = text[:reach]
        ends = [match.end() for match in _ENDS.finditer(window)]
        if ends and ends[-1] == reach and window[-1] != "\n":
            ends.pop()  # the word may go on
        # What stands in the window decides if its last word is too much, or the window by far.
        if ends and counter.count(window[: ends[-1]]) > limit:
            return _words(counter, window, ends, limit)
        if counter.count(window) > 2 * limit + SWING:
            return _words(counter, window, ends, limit)
        reach *= 2
    if counter.count(text) <= limit:
        return text
    return _words(counter, text, [match.end() for match in _ENDS.finditer(text)], limit)


def clip(
    counter: TokenCounter,
    text: str,
    tokens: int,
    quoted: Callable[[str], str],
    *,
    around: int,
    ended: Callable[[str], str] = str.rstrip,
    step: int = 1,
) -> tuple[str, int] | None:
    """Quote the longest beginning of a text that fits `tokens` with all that is printed around it.

    `quoted` makes of a beginning the lines that are printed: its label, the mark of what was cut,
    the handle that goes on behind it. `around` are the tokens of that, as far as they are known
    before. `ended` moves the end of a beginning back to where it may end; "" where nothing worth
    quoting is left. A beginning that turns out too long is tried again, by `step` tokens shorter at
    least. Returns the lines and their tokens; None where nothing fits.
    """
    limit = tokens - around
    while limit > 0:
        kept = ended(cut(counter, text, limit))
        if not kept:
            return None
        lines = quoted(kept)
        over = counter.count(lines) - tokens
        if over <= 0:
            return lines, tokens + over
        limit -= max(step, over)
    return None


def _words(counter: TokenCounter, text: str, ends: list[int], limit: int) -> str:
    # Whole words never make a text cheaper, so halving finds the last that fits.
    fitting = bisect_right(ends, limit, key=lambda end: counter.count(text[:end]))
    if fitting:
        return text[: ends[fitting - 1]]
    return _characters(counter, text[: ends[0]] if ends else text, limit)


def _characters(counter: TokenCounter, text: str, limit: int) -> str:
    # One more character can make a word cheaper (`unhappines`, `unhappiness`), so a few more
    # are tried behind the one that halving finds, the longest first.
    found = 0
    over = len(text) + 1
    while over - found > 1:
        middle = (found + over) // 2
        if counter.count(text[:middle]) <= limit:
            found = middle
        else:
            over = middle
    further = range(min(len(text), found + _FURTHER), found, -1)
    for size in chain(further, (found,)):
        if counter.count(text[:size]) <= limit:
            return text[:size]
    return ""


_LINES_KEPT = 16_384


@runtime_checkable
class CountsTokens(Protocol):
    """What a counter must have; a `name` too, where reports should not call it by its class."""

    def count(self, text: str) -> int: ...


class HeuristicTokenCounter:
    """A quarter of the characters. Too low by more than half for Korean and Chinese."""

    name = "heuristic"

    def count(self, text: str) -> int:
        return len(text) // 4


class PluggedCounter:
    """A counter of others, line by line. Raises InputError for a count that is none."""

    def __init__(self, inner: CountsTokens) -> None:
        self.name = name_of_counter(inner)
        self._line = lru_cache(_LINES_KEPT)(checked_count(inner))

    def count(self, text: str) -> int:
        """Sum over the lines."""
        return sum(map(self._line, lines(text)))


class WholeCounter:
    """A counter of others that is asked for whole texts, for what is no block of lines."""

    def __init__(self, inner: CountsTokens) -> None:
        self.name = name_of_counter(inner)
        self.count = checked_count(inner)


def name_of_counter(inner: CountsTokens) -> str:
    """The name by which reports call a counter: its own, or its class's."""
    name = getattr(inner, "name", None)
    return name if isinstance(name, str) and name else type(inner).__name__


def checked_count(inner: CountsTokens) -> Callable[[str], int]:
    """The count of a counter; it raises InputError where that is no whole number from 0.

    And ProviderError where the counter itself fails.
    """
    if not callable(getattr(inner, "count", None)):
        raise InputError(
            f"expected a counter with `count(text)`, found {type(inner).__name__}", where="counter"
        )

    def count(text: str) -> int:
        try:
            found = inner.count(text)
        except Exception as error:
            name = name_of_counter(inner)
            raise ProviderError(
                f"the counter {name} failed ({type(error).__name__}: {error})",
                provider=name,
                cause=error,
            ) from error
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise InputError(
                f"{name_of_counter(inner)}: expected a whole number from 0, found {found!r}",
                where="counter",
            )
        return found

    return count
