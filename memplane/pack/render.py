"""Placed entries to text, with the marks that let intake recognise a quoted block; and back.

What begins at the margin of a block is its own: the marks, headings, fences, date lines, and the
first line of each entry. Every other line of an entry is empty or set in by a blank, whatever text
it quotes. So a block can be read back from its text alone, and no text changes what is read.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from memplane.errors import InputError
from memplane.intake.check import skeleton
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, regex
from memplane.pack.block import Entry
from memplane.pack.layout import FENCE, BlockPart, is_own_part, part_under
from memplane.ports import TokenCounter
from memplane.projections.item import HANDLE, own_text, own_view

FORM: Final = 3  # of a block's lines: raised where the same entries are printed otherwise
BEGIN = "memplane:begin\n"
_END = "memplane:end "
_END_LINE: Final = regex(r"memplane:end ([0-9a-f]{16})\n\Z")
_DATE: Final = regex(r"(\d{4}-\d\d-\d\d)(?:, newest first)?", re.ASCII)
_LABEL: Final = regex(r"(.+?): ")
_CITED: Final = regex(
    r" #(\d{1,18})(?: \d{4}-\d\d-\d\d)?(?: \(differs [^()]*\))?(?: \(stale\))?\Z", re.ASCII
)
_VIEWS: Final = frozenset(("identity", "rules"))
_REMEDY: Final = "give the text of a block as `pack` made it, whole and unchanged"


class Rendered(NamedTuple):
    """The block's text and where its areas end: area -> (byte, tokens) behind its last line.

    `at` has the byte and the token at which each of the entries starts.
    """

    text: str
    tokens: int
    frame: int
    entries: tuple[Entry, ...]
    ends: dict[str, tuple[int, int]]
    at: tuple[tuple[int, int], ...]


def frame_reserve(counter: TokenCounter) -> int:
    """The most tokens that the begin and end line can cost."""
    # No 16 hexadecimal digits and the blank before them cost more than 17 words of their own.
    return counter.count(BEGIN) + counter.count(f"{_END}{' a' * 17}\n")


def render_block(
    parts: list[tuple[BlockPart, list[tuple[str, Entry]]]],
    counter: TokenCounter,
    frame: int,
    *,
    framed: bool,
) -> Rendered:
    """Join the parts in order, each entry behind its date line where it has one.

    `frame` is what headings, fences and date lines cost; the marks come on top.
    """
    pieces: list[str] = []
    ends: dict[str, tuple[int, int]] = {}
    at: list[tuple[int, int]] = []
    byte = len(BEGIN.encode()) if framed else 0
    tokens = counter.count(BEGIN) if framed else 0
    entries: list[Entry] = []
    for part, placed in parts:
        opening = f"{part.heading}\n{FENCE if part.fenced else ''}"
        closing = FENCE if part.fenced else ""
        pieces.append(opening)
        byte += len(opening.encode())
        tokens += counter.count(opening)
        for dated, entry in placed:
            if dated:
                pieces.append(dated)
                byte += len(dated)
                tokens += counter.count(dated)
            at.append((byte, tokens))
            pieces.append(entry.text)
            byte += len(entry.text.encode())
            tokens += entry.tokens
        pieces.append(closing)
        byte += len(closing)
        tokens += counter.count(closing)
        entries += [entry for _, entry in placed]
        ends[part.area] = (byte, tokens)
    body = "".join(pieces)
    if not framed or not body:
        return Rendered(body, tokens if body else 0, frame, tuple(entries), ends, tuple(at))
    end = f"{_END}{hashlib.sha256(body.encode()).hexdigest()[:16]}\n"
    marks = counter.count(BEGIN) + counter.count(end)
    tokens += counter.count(end)
    text = BEGIN + body + end
    return Rendered(text, tokens, frame + marks, tuple(entries), ends, tuple(at))


class ParsedEntry(NamedTuple):
    """One entry of a block's text.

    `text` is its lines as printed, equal to `Entry.text`. `label` names the speaker or kind; None
    for a view. `said` is the text without label, margin and the mark of a cut. `date` is the day of
    the line above its group, in UTC; `seq` the event that the label or the mark of a passage names,
    0 for none; `handle` opens the rest of an entry that was cut.
    """

    section: str
    text: str
    label: str | None
    said: str
    date: str | None
    seq: int
    handle: str | None


class ParsedSection(NamedTuple):
    """A heading of a block and the entries under it. Several headings may share a section."""

    section: str
    heading: str
    entries: tuple[ParsedEntry, ...]


class ParsedBlock(NamedTuple):
    """A block as read back from its text. `checksum` verified; None for a block without marks."""

    sections: tuple[ParsedSection, ...]
    checksum: str | None

    @property
    def entries(self) -> tuple[ParsedEntry, ...]:
        """The entries of all sections, in the order of the block."""
        return tuple(entry for section in self.sections for entry in section.entries)


def parse_block(text: str) -> ParsedBlock:
    """Read a block back from its text alone, in O(n): sections, and the entries under each.

    These are exactly the entries that were placed (`Block.entries`): no recorded text can add, hide
    or move one. Raises InputError for another text: marks that are cut or do not verify, or a line
    that cannot be in a block.
    """
    if not isinstance(text, str):
        raise unexpected("the text of a block", text, "text")
    body, checksum = _unframed(text)
    reading = _Reading()
    if body and not body.endswith("\n"):
        raise _no_block(body.count("\n") + (checksum is not None) + 1, "a line without its end")
    for number, line in enumerate(body.split("\n")[:-1], 1 if checksum is None else 2):
        reading.take(line, number)
    return ParsedBlock(reading.done(), checksum)


def _unframed(text: str) -> tuple[str, str | None]:
    """The lines between the marks, and the checksum that they have; the text where none are."""
    if not text.startswith(BEGIN):
        return text, None
    end = _END_LINE.search(text, max(0, len(text) - 64))
    body = text[len(BEGIN) : end.start()] if end is not None else ""
    if end is None:
        raise InputError(f"found no end mark; {_REMEDY}", where="last line")
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if digest != end[1]:
        raise InputError(
            f"found lines of checksum {digest}, expected {end[1]} as it stands there: they were "
            f"changed; {_REMEDY}",
            where="last line",
        )
    return body, end[1]


class _Reading:
    """The lines of a block as they come."""

    def __init__(self) -> None:
        self._sections: list[tuple[BlockPart, list[ParsedEntry]]] = []
        self._date: str | None = None
        self._lines: list[str] = []  # of the open entry
        self._fenced = False

    def take(self, line: str, number: int) -> None:
        if self._lines and (not line or line[0] == " "):
            self._lines.append(line)
            return
        self._close()
        if line.startswith("## ") and not self._fenced:
            self._open(line, number)
        elif not self._sections or not line or line[0] == " ":
            raise _no_block(number, quoted_value(line))
        elif self._sections[-1][0].fenced and f"{line}\n" == FENCE:
            self._turn_fence(number)
        elif self._sections[-1][0].fenced and not self._fenced:
            raise _no_block(number, quoted_value(line))
        elif self._sections[-1][0].dated and (date := _DATE.fullmatch(line)) is not None:
            self._date = date[1]
        else:
            self._lines = [line]

    def done(self) -> tuple[ParsedSection, ...]:
        self._close()
        if self._fenced:
            raise InputError(f"found no end of a fence; {_REMEDY}", where="last line")
        return tuple(
            ParsedSection(part.section, part.heading, tuple(entries))
            for part, entries in self._sections
        )

    def _open(self, heading: str, number: int) -> None:
        if self._sections and not self._sections[-1][1]:
            raise _no_block(number, "a heading right below another")
        self._sections.append((part_under(heading), []))
        self._date = None

    def _turn_fence(self, number: int) -> None:
        if self._fenced != bool(self._sections[-1][1]):
            raise _no_block(number, "a fence out of place")
        self._fenced = not self._fenced

    def _close(self) -> None:
        if self._lines:
            part, entries = self._sections[-1]
            entries.append(_entry_of(part, self._lines, self._date))
            self._lines = []


def _entry_of(part: BlockPart, lines: list[str], date: str | None) -> ParsedEntry:
    text = "\n".join([*lines, ""])
    cut = HANDLE.search(lines[-1])
    if cut is not None:
        lines = [*lines[:-1], *filter(None, [lines[-1][: cut.start()]])]
    handle = None if cut is None else cut[1] or cut[2]
    own = is_own_part(part)
    viewed = own_view(lines, beside_events=own) if own or part.name in _VIEWS else None
    label = _LABEL.match(lines[0]) if viewed is None else None
    if label is None:
        said = viewed if viewed is not None else "\n".join(lines)
        return ParsedEntry(part.section, text, None, said, date, 0, handle)
    said = "\n".join([lines[0][label.end() :], *map(own_text, lines[1:])])
    cited = _CITED.search(label[1])
    seq = cited[1] if cited is not None else handle[1:] if handle and handle[0] == "#" else "0"
    return ParsedEntry(part.section, text, label[1], said, date, int(seq), handle)


def _no_block(number: int, found: str) -> InputError:
    return InputError(f"found {found}, which no block has there; {_REMEDY}", where=f"line {number}")


# Marks of coding agents in recorded text are defused, so that no client takes it for its own words.
#
# Agents put their own messages between marks and trust what is between them; models are trained on
# others. A page that a tool once fetched may hold such marks, and comes back in a block.

_MARKS: Final = (
    r"/?(?:system-reminder|system|command-[a-z]+|local-command-[a-z]+|task-notification"
    r"|user-prompt-submit-hook|bash-[a-z]+|environment_context|user_instructions)\b|\|/?[a-z_]+\|"
)
_MARK: Final = regex(rf"<(?={_MARKS})", re.IGNORECASE | re.ASCII)
_READS_SO: Final = regex(rf"<(?:{_MARKS})", re.ASCII)
_LIKE: Final = "<\uff1c\ufe64\u2039\u3008\u2329"
# Only where the next character begins a mark, or could hide its beginning.
_OPENS: Final = regex(rf"[{_LIKE}](?=[|/bceltu s]|[^!-~])", re.IGNORECASE)
_REACH: Final = 600  # characters from the opening on that are looked at
_LONGEST: Final = 32  # of a mark in which nothing unseen stands
_CONTROLS: Final = regex(r"[\x00-\x08\x0b-\x1f\x7f]")


def defused(text: str) -> str:
    """The text with a blank in each such mark, so that a client does not take it for one."""
    if text.isascii():
        if "<" not in text:
            return text
        return (_OPENS.sub if _CONTROLS.search(text) else _MARK.sub)(_parted, text)
    return _OPENS.sub(_parted, text) if any(one in text for one in _LIKE) else text


def _parted(opens: re.Match[str]) -> str:
    start = opens.start()
    read = opens.string[start : start + _LONGEST].lower()
    if not (read.isascii() and read.isprintable()):
        read = skeleton(opens.string[start : start + _REACH])
    return f"{opens[0]} " if _READS_SO.match(read) else opens[0]
