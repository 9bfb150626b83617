"""The window form: how one event reads inside a block.

The bytes of a form depend on the event alone, so a turn that was packed once reads the same in
every later pack, and a provider's prompt cache stays valid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from memplane.intake.check import hides_nothing, imitated, skeleton
from memplane.lazy import regex, word_table

# Tokens that an event may take, by kind. A small window shows shorter turns,
# not fewer: each tier divides the limits of the first.
_LIMITS: Final = {"message": 400, "tool_call": 60, "tool_result": 80}
_OTHER: Final = 200
TIERS: Final = (1, 3, 8)
_LEAST: Final = 16

# What stands at the beginning of a block's own lines: headings and their underlines, fences, marks,
# dates, labels; and what models are trained to take for the words of somebody else. Matched against
# the skeleton of a line, so that no unseen mark, case or width gets by.
_LABELS: Final = word_table("""
    user assistant system tool human developer note call result task file view omitted recorded
    fact decision observation plan summary preference rule insight approval artifact episode
    session secret
""")
_READS_SO: Final = (
    r"(?:[ \t]*\[[\d;?]*[a-z])*[ \t]*"  # what is left of a terminal's sequence
    r"(?:#|```|~~~|memplane ?:|[=-]+[ \t]*$|\d{4}-\d\d-\d\d(?:, newest first)?[ \t]*$"
    rf"|(?:{'|'.join(_LABELS)})\b[^:\n]{{0,80}}:"
    r"|<[|/!?]{0,2}[ \t]?(?:user|assistant|system|tool|human|developer|im_)|\[/?inst\]|<<sys>>)"
)
_OURS: Final = regex(_READS_SO, re.ASCII)
# The same of a text that hides nothing: of one line, and of each line behind another.
_OURS_PLAINLY: Final = regex(_READS_SO, re.ASCII | re.IGNORECASE)
_OURS_BEHIND: Final = regex(rf"\n(?={_READS_SO})", re.ASCII | re.IGNORECASE | re.MULTILINE)
_INDENT: Final = "    "
_BLANK_RUN: Final = regex(r"\n[ \t\n]*\n")
_LINE_ENDS: Final = regex(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS: Final = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MARGIN: Final = " "  # before every line of an entry but its first
_FURTHER: Final = f"\n{_INDENT.removesuffix(_MARGIN)}"
_EMPTY: Final = f"\n{_MARGIN}\n"
_AT_MARGIN: Final = regex(r"^(?=[^\n])", re.MULTILINE)
# What the first line of a view may not be.
_STRUCTURE: Final = regex(
    r"\\*(?:## |~~~~|memplane:|//|\d{4}-\d\d-\d\d(?:, newest first)?\Z)", re.ASCII
)
_LABELLED: Final = regex(r"\\|.*?: ")  # nor, where entries with labels stand beside it
_ESCAPE: Final = "\\"
# How an entry ends that shows a part, and an end that would read so.
HANDLE: Final = regex(r" \u2026(?: (expand://\S+)|(#\d{1,18}))\Z", re.ASCII)
_LIKE_HANDLE: Final = regex(r"\u2026 ?(?=(?:expand://\S+|#\d{1,18})\s*\Z)", re.ASCII)
_HANDLE_MAX: Final = 4096
# Of a name what would end its label, or cite an event there; unseen marks but those of emoji.
_ENDS_LABEL: Final = regex(r":\s+")
_CITES: Final = regex(r"(?:(?<=\s)|\A)#(?=\d)")
_UNSEEN_IN_NAMES: Final = regex(
    "[\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_OF_THE_MAP: Final = frozenset(("open tasks", "keys", "tags", "namespaces", "tools used"))


def _tiers(most: int) -> tuple[int, ...]:
    return tuple(max(_LEAST, most // tier) for tier in TIERS)


_TIERS_BY_KIND: Final = {kind: _tiers(most) for kind, most in _LIMITS.items()}
_TIERS_OF_OTHERS: Final = _tiers(_OTHER)


def limits(kind: str) -> tuple[int, ...]:
    """Tokens of text that an event of this kind may show, one figure a tier."""
    return _TIERS_BY_KIND.get(kind, _TIERS_OF_OTHERS)


def handle(seq: int) -> str:
    """Return the handle by which `expand` shows the whole event."""
    return f"expand://event/{seq}"


def short_handle(seq: int) -> str:
    """Return the short form of the handle, three tokens, for passages."""
    return f"#{seq}"


def plain_text(text: str) -> str:
    """Text with one kind of line end, no trailing blanks, and no more than one empty line in a row.

    Blanks inside a line stay: they are what code and tables are made of.
    """
    if "\r" in text or not text.isascii() or "\x0b" in text or "\x0c" in text or "\x1c" in text:
        text = _LINE_ENDS.sub("\n", text)
    text = text.strip("\n").rstrip()
    return _BLANK_RUN.sub("\n\n", text) if "\n" in text else text


def _settled(text: str) -> str:
    """The text with line feeds alone as line ends."""
    return text if _CONTROLS.search(text) is None else _LINE_ENDS.sub("\n", text)


def _printed(text: str) -> str:
    """The text with a blank for every control: none moves a cursor, no two words become one."""
    return _CONTROLS.sub(" ", text)


def one_line(text: str) -> str:
    """The words of a text on one line, without controls."""
    return " ".join(_printed(text).split())


@lru_cache(maxsize=4096)
def safe_name(name: str) -> str:
    """A name as a label may hold it: on one line, and no part of it ends the label or cites."""
    if name.isascii() and name.isprintable() and " " not in name:
        return f"# {name[1:]}" if name.startswith("#") and name[1:2].isdigit() else name
    return _CITES.sub("# ", _ENDS_LABEL.sub(":", one_line(_UNSEEN_IN_NAMES.sub("", name))))


def entry_label(kind: str, role: str | None, actor: str | None, said_of: str, status: str) -> str:
    """Return the label of an entry, the words before its colon: the speaker, or the kind.

    `said_of` is the name of the event's key, task or tool.
    """
    if kind == "message":
        return _speaker(role, actor) if actor else role or "note"
    if kind == "tool_call":
        return "call"
    said_of = safe_name(said_of) if said_of else ""
    if kind == "tool_result":
        return f"result error {said_of}".rstrip() if status == "error" else "result"
    return f"{kind} {said_of}" if said_of else kind


@lru_cache(maxsize=4096)
def _speaker(role: str | None, actor: str) -> str:
    """The name, behind its role where it could pass for something else than a person's name.

    Somebody may be called "decision", and intake once took every name; tools speak for nobody.
    """
    said, name = role or "note", safe_name(actor)
    if not name or name == said:
        return said
    read = skeleton(name)
    if role in (None, "user", "assistant") and not (
        read[:1] in _PUNCTUATION
        or read in _OF_THE_MAP
        or imitated(name) is not None
        or _OURS.match(f"{read}:")
        or _OURS.match(read)
    ):
        return name
    return f"{said} {name}"


def entry_lines(head: str, text: str, mark: str = "") -> str:
    """The lines of an entry, each with its newline: `head`, a colon and the text, then `mark`.

    Only the first line begins at the margin, so nothing in the text begins an entry, a heading or
    a fence, whatever it is; a line that could pass for one is set in further, out of Markdown's
    reach.
    """
    if not mark:
        text = own_end(text)
    text = f"{text}{mark}"
    if _CONTROLS.search(text) is None:
        if "\n" not in text:
            return f"{head}: {text}\n"
        if hides_nothing(text):
            return f"{head}: {_set_in(text)}"
    first, *more = _settled(text).split("\n")
    return f"{head}: {_printed(first)}\n{''.join([quote_line(line) for line in more])}"


def shown_view(text: str, *, beside_events: bool = False) -> str:
    """The lines of a view: its headings are the owner's, but none begins at the block's margin.

    Where it stands `beside_events` its first line does not read like one that has a label. "" where
    nothing is in it.
    """
    first, *more = own_end(plain_text(_printed(_settled(text)))).strip().split("\n")
    if not first:
        return ""
    escaped = _STRUCTURE.match(first) or (beside_events and _LABELLED.match(first))
    first = f"{_ESCAPE}{first}\n" if escaped else f"{first}\n"
    return first + nested("\n".join([*more, ""]))


def own_view(lines: Sequence[str], *, beside_events: bool) -> str | None:
    """The text of a view of these lines, None where they are those of an event."""
    first, *more = lines
    if first.startswith(_ESCAPE) and (beside_events or _STRUCTURE.match(first[1:])):
        first = first[1:]
    elif beside_events and _LABELLED.match(first):
        return None
    return "\n".join([first, *(line[len(_MARGIN) :] for line in more)])


def nested(lines: str) -> str:
    """The lines of an entry as lines of another one, where they stand behind its first."""
    return _AT_MARGIN.sub(_MARGIN, lines)


def quote_line(line: str) -> str:
    """A line of a text as an entry shows it behind its first one, with its newline."""
    if not line:
        return "\n"
    return f"{_INDENT if is_own_line(line) else _MARGIN}{_printed(line)}\n"


def quoted_text(text: str) -> str:
    """The lines of a text as they stand below something that is not quoted."""
    return "".join([quote_line(line) for line in _settled(text).split("\n")]).rstrip("\n")


def _set_in(text: str) -> str:
    """The text, which hides nothing, as `quoted` would show each line behind the first."""
    lines = f"{_OURS_BEHIND.sub(_FURTHER, text)}\n".replace("\n", f"\n{_MARGIN}")
    lines = lines.removesuffix(_MARGIN)
    while _EMPTY in lines:
        lines = lines.replace(_EMPTY, "\n\n")
    return lines


def is_own_line(line: str) -> bool:
    """Whether the line, even disguised, looks like a heading, fence or label of the block."""
    if _CONTROLS.search(line) is None and hides_nothing(line):
        return _OURS_PLAINLY.match(line) is not None
    if _OURS.match(skeleton(line)) is not None:
        return True
    # A sequence of a terminal may swallow what a reader still sees.
    printed = _printed(line)
    return printed != line and _OURS.match(skeleton(printed)) is not None


def own_text(line: str) -> str:
    """What `quoted` was given, of a line without its newline."""
    bare = line[len(_INDENT) :]
    return bare if line.startswith(_INDENT) and is_own_line(bare) else line[len(_MARGIN) :]


def own_end(text: str) -> str:
    """The text, the end of which cannot pass for the mark of what was cut."""
    if "\u2026" not in text:
        return text
    found = _LIKE_HANDLE.search(text, max(0, len(text) - _HANDLE_MAX))
    return text if found is None else f"{text[: found.start()]}...{text[found.start() + 1 :]}"
