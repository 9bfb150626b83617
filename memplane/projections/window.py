"""The window form: how one event reads inside a block.

The bytes of a form depend on the event alone, so a turn that was packed once
reads the same in every later pack and a provider's prompt cache stays valid.
"""

from __future__ import annotations

from typing import Final

from memplane.lazy import regex

__all__ = ["TIERS", "handle", "label", "limits", "plain", "short_handle", "shown", "shown_view"]

# Tokens that an event may take, by kind. A small window shows shorter turns,
# not fewer: each tier divides the limits of the first.
_LIMITS: Final = {"message": 400, "tool_call": 60, "tool_result": 80}
_OTHER: Final = 200
TIERS: Final = (1, 3, 8)
_LEAST: Final = 16

# A line that opens like this could pass for one of ours (a heading, a fence,
# a label, a date, the end mark), or costs tokens that depend on the line above (`//`).
_OURS: Final = regex(
    r"[ \t]*(?:#|```|~~~|memplane:|\d{4}-\d\d-\d\d[ \t]*$)|//"
    r"|(?:user|assistant|system|tool|note|call|result|task|file|omitted"
    r"|fact|decision|observation|plan|summary|preference|rule|insight)\b[^:\n]{0,80}:"
)
_INDENT: Final = "    "
_BLANK_RUN: Final = regex(r"\n[ \t\n]*\n")
_LINE_ENDS: Final = regex(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def _tiers(most: int) -> tuple[int, ...]:
    return tuple(max(_LEAST, most // tier) for tier in TIERS)


_TIERS_BY_KIND: Final = {kind: _tiers(most) for kind, most in _LIMITS.items()}
_TIERS_OF_OTHERS: Final = _tiers(_OTHER)


def limits(kind: str) -> tuple[int, ...]:
    """Tokens of text that an event of this kind may show, one figure a tier."""
    return _TIERS_BY_KIND.get(kind, _TIERS_OF_OTHERS)


def handle(seq: int) -> str:
    """What `expand` takes to show the whole event."""
    return f"expand://event/{seq}"


def short_handle(seq: int) -> str:
    """The same in three tokens, for passages: there are dozens in a block."""
    return f"#{seq}"


def plain(text: str) -> str:
    """Text with one kind of line end, no trailing blanks, and no more than one empty line in a row.

    Blanks inside a line stay: they are what code and tables are made of.
    """
    if "\r" in text or not text.isascii() or "\x0b" in text or "\x0c" in text or "\x1c" in text:
        text = _LINE_ENDS.sub("\n", text)
    text = text.strip("\n").rstrip()
    return _BLANK_RUN.sub("\n\n", text) if "\n" in text else text


def label(kind: str, role: str | None, actor: str | None, named: str, status: str) -> str:
    """Who speaks, or what the line is: the words before the colon.

    `named` is the event's key, task or tool.
    """
    if kind == "message":
        name = actor or role or "note"
        # Somebody may be called "decision": the role in front keeps such a turn a turn.
        return f"{role or 'note'} {name}" if actor and name != role and _is_ours(name) else name
    if kind == "tool_call":
        return "call"
    if kind == "tool_result":
        return f"result error {named}".rstrip() if status == "error" else "result"
    return f"{kind} {named}" if named else kind


def shown(head: str, text: str) -> str:
    """The lines of an entry, each with its newline; no line can pass for one of the block's own."""
    lines = f"{head}: {text}".split("\n")
    if not _is_ours(head):
        lines[0] = _escaped(lines[0])
    if len(lines) > 1:
        lines[1:] = map(_escaped, lines[1:])
    return "\n".join(lines) + "\n"


def shown_view(text: str) -> str:
    """The lines of a view: its headings are the owner's, only our marks are kept out of it."""
    lines = plain(text).split("\n")
    return "".join(
        f"{_INDENT}{line}\n" if line.startswith(("//", "memplane:")) else f"{line}\n"
        for line in lines
    )


def _escaped(line: str) -> str:
    return _INDENT + line if _OURS.match(line) else line


def _is_ours(head: str) -> bool:
    """Whether a label opens with a word of ours rather than with a name that somebody chose."""
    return head.partition(" ")[0] in _LABELS


_LABELS: Final = frozenset(
    [
        "user",
        "assistant",
        "system",
        "tool",
        "note",
        "call",
        "result",
        "task",
        "file",
        "fact",
        "decision",
        "observation",
        "plan",
        "summary",
        "preference",
        "rule",
        "insight",
        "approval",
        "artifact",
        "episode",
        "session",
        "secret",
    ]
)
