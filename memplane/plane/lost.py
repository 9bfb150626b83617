"""Events that a repair took out of the log: where their bytes lie, so that a purge reaches them.

A salvage leaves damaged lines where they are and copies them to quarantine; other repairs move
what was never acknowledged there. Neither can be found by its seq or id as an event any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.lazy import regex
from memplane.log.format import SUFFIX_BYTES
from memplane.plane.quotations import unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memplane.plane.engine import Engine

__all__ = ["Already", "Lost", "already_of", "has_id", "lost_of"]

_TEXT: Final = regex(r'"text":"((?:[^"\\\n]|\\.)*)')
_ID: Final = regex(r'"id":"((?:[^"\\\n]|\\.)*)"')
_SHA256: Final = regex(r'"sha256":"([0-9a-f]{64})"')
_ID_MAX: Final = 128
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024


class Already(NamedTuple):
    """What was purged before: its seq (0: it never had one that is known), its id, by which event.

    `ts` is when that event says that it happened.
    """

    seq: int
    id: str
    by: int
    ts: str


class Lost(NamedTuple):
    """Bytes of the log in which an event was lost, and the files that hold copies of them.

    `first` to `last` are the seqs that were lost there, all of which go; 0 where nothing of it
    stands in a segment. `files` are paths below the home. `texts` and `digests` are what can
    still be read there.
    """

    named: str
    segment: int
    offset: int
    end: int
    first: int
    last: int
    ids: tuple[str, ...]
    files: tuple[str, ...]
    texts: tuple[str, ...]
    digests: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "named": self.named, "segment": self.segment, "offset": self.offset,
            "bytes": self.end - self.offset, "first": self.first, "last": self.last,
            "ids": [*self.ids], "files": [*self.files],
        }  # fmt: skip


def lost_of(engine: Engine, named: int | str) -> Lost | None:
    """Where an event that is no line of the log still lies; None where nothing is known of it."""
    for _ in engine.log.read():  # all gaps are known then
        continue
    home = engine.home.path
    place, text = (0, 0, 0, 0, 0), ""
    for gap in engine.log.gaps():
        found = _bytes_of(home, gap.segment, gap.offset, gap.end)
        if gap.first <= named <= gap.last if isinstance(named, int) else has_id(found, {named}):
            if not _is_blank(found):
                place, text = (gap.segment, gap.offset, gap.end, gap.first, gap.last), found
            break
    ids = {named} if isinstance(named, str) else set()
    ids |= {one for one in _ids_in(text) if len(one) <= _ID_MAX}
    files, copies = [], []
    quarantine = home / "log" / "quarantine"
    for path in (quarantine / name for name in nofollow.files(quarantine, home)):
        copy = content(path)
        if has_id(copy, ids) or (text and copy == text):
            files.append(path.relative_to(home).as_posix())
            copies.append(copy)
    if not text and not files:
        return None
    parts = [_lines_of(one, ids) for one in copies]
    said = "\n".join([text, *parts])
    return Lost(
        str(named), *place, tuple(sorted(ids, key=lambda one: (one != named, one))), tuple(files),
        tuple(dict.fromkeys(unescaped(match[1]) for match in _TEXT.finditer(said))),
        tuple(dict.fromkeys(match[1] for match in _SHA256.finditer(said))),
    )  # fmt: skip


def already_of(engine: Engine, named: int | str) -> Already | None:
    """What was purged by that seq or id before; None where nothing was."""
    gone = engine.log.purged_as(named)
    if gone is not None:
        line = engine.log.line(gone.by)
        return Already(gone.seq, gone.id, gone.by, "" if line is None else line.event.ts)
    for line in engine.log.read():
        said = line.event.data.get("purge") if line.event.kind == "purge" else None
        rows = said.get("lost") if isinstance(said, dict) else None
        for row in rows if isinstance(rows, list) else ():
            if _is_of(row, named):
                seq, id_ = (named, "") if isinstance(named, int) else (0, named)
                return Already(seq, id_, line.event.seq, line.event.ts)
    return None


def has_id(text: str, ids: set[str]) -> bool:
    """Whether a line of the text, whole or not, says that it has one of the ids."""
    return bool(ids) and any(unescaped(match[1]) in ids for match in _ID.finditer(text))


def _is_of(row: object, named: int | str) -> bool:
    if not isinstance(row, dict):
        return False
    if isinstance(named, str):
        ids = row.get("ids")
        return isinstance(ids, list) and named in ids
    first, last = row.get("first"), row.get("last")
    return isinstance(first, int) and isinstance(last, int) and 0 < first <= named <= last


def _is_blank(text: str) -> bool:
    """Whether a purge has left nothing but where lines end and what they state."""
    return all(len(line.strip()) <= SUFFIX_BYTES for line in text.split("\n"))


def _ids_in(text: str) -> Iterator[str]:
    """The ids of lines: the first that each names."""
    for line in text.split("\n"):
        match = _ID.search(line)
        if match is not None:
            yield unescaped(match[1])


def _lines_of(text: str, ids: set[str]) -> str:
    return "\n".join(line for line in text.split("\n") if has_id(line, ids))


def _bytes_of(home: Path, segment: int, start: int, end: int) -> str:
    try:
        with nofollow.opened(home / "log" / f"{segment:08d}.jsonl") as file:
            file.seek(start)
            return file.read(end - start).decode(errors="replace")
    except OSError:
        return ""


def content(path: Path) -> str:
    """The text of a file below the plane; "" of one that is too long, or cannot be read."""
    try:
        if path.lstat().st_size > _FILE_BYTES_MAX:
            return ""
        return nofollow.read(path).decode(errors="replace")
    except OSError:
        return ""
