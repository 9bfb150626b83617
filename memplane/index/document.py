"""What the index holds: chunks of events, in log order, numbered densely from 0."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ROLES", "Document", "blank"]

ROLES: Final = ("", "user", "assistant", "tool", "system")


class Document(NamedTuple):
    """One chunk of an event. Documents come in the order of (seq, part).

    The index shows `text` and finds a document by `text` and `extra` (speaker, month,
    year, day, weekday, tool, file names). Labels are exact: whatever a request filters
    by (`ns:/global`, `kind:message`, `tag:x`); the group is found like a label.
    """

    seq: int
    part: int = 0
    group: str = ""  # neighbours are smoothed within it (session and namespace); "" has none
    role: str = ""
    speaker: str = ""
    text: str = ""
    extra: str = ""
    tokens: int = 0
    importance: int = 500  # 0..1000
    flags: int = 0  # 16 bits that the index keeps and never reads
    at: int = 0  # a time in whole units of the caller, for since and until
    labels: tuple[str, ...] = ()
    name: int = 0  # 64 bits by which the caller may look for documents; 0 is no name
    kept: bytes = b""  # what the caller keeps beside the document; the index never reads it


def blank(seq: int, part: int) -> Document:
    """What stays of a purged document: its slot."""
    return Document(seq, part, importance=0)
