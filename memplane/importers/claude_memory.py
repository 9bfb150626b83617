"""The memory that Claude Code keeps for itself: MEMORY.md and topic files, in Markdown.

A folder `memory` holds MEMORY.md (an index, and what fits into it) and a file a topic, often with
front matter (`name`, `description`, `type`). CLAUDE.md is not imported: people write it
for the client, and the client goes on reading it.

A statement is a section: a heading and what stands below it up to the next one. Its key is
`claude-memory/<project>/<file>#<headings>`, so an edit supersedes it; a bullet has no name of its
own that would distinguish an edited one from a new one. The text begins with the headings, in a
topic file with its description. A section is a `preference` where the topic is of type user or
feedback, or where the heading says so, else a `fact`. Lines of the index that only point to a
topic file beside it are counted and left out. The time is the file's: Markdown has none.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.importers.statements import FileStatement, StatedFile, bounded, key_of, tag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "FOLDER",
    "INDEX",
    "SOURCE",
    "folder_of",
    "is_memory",
    "memory_key_prefix",
    "origin_of",
    "statements_of_claude",
]

SOURCE: Final = "claude-memory"
INDEX: Final = "MEMORY.md"
FOLDER: Final = "memory"

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_POINTER: Final = re.compile(r"[ \t]*[-*+][ \t]+\[[^\]\n]*\]\(([^)\s]+\.md)\)[^\n]*")
_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"(?m)^[ \t]*(description|type):[ \t]*(.*?)[ \t]*$")
_OF_A_PERSON: Final = frozenset({"user", "feedback"})
_PREFERENCE: Final = re.compile(r"\bpreferences?\b|\bprefers?\b", re.IGNORECASE)


class _Section(NamedTuple):
    headings: tuple[str, ...]
    body: str


def folder_of(path: Path) -> Path:
    """The memory folder that a file is of: the nearest `memory` above it, else its own."""
    path = path.absolute()
    return next((above for above in path.parents if above.name == FOLDER), path.parent)


def is_memory(path: Path) -> bool:
    """Tell a file of a folder `memory` that has an index."""
    if path.suffix != ".md":
        return False
    folder = folder_of(path)
    return folder.name == FOLDER and (folder / INDEX).is_file()


def memory_key_prefix(folder: Path) -> str:
    """How all keys of a memory folder begin: with the project's name, which is its parent's."""
    project = folder.parent.name if folder.name == FOLDER else folder.name
    return f"{key_of(SOURCE, project)}/"


def origin_of(path: Path) -> str:
    """How a file is named in keys: project/file."""
    folder = folder_of(path)
    file = key_of(*path.absolute().relative_to(folder).parts)
    return f"{memory_key_prefix(folder)}{file}".removeprefix(f"{SOURCE}/")


def statements_of_claude(path: Path, content: bytes) -> StatedFile:
    """What a file states."""
    origin = origin_of(path)
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    about, text = _front_matter(text)
    statements: list[FileStatement] = []
    skipped: list[str] = []
    counts: Counter[str] = Counter()
    for section in _sections(text):
        body, pointers = _without_pointers(section.body, path.parent)
        skipped += ["index line"] * pointers
        if not body.strip():
            continue
        headings = " > ".join(section.headings)
        counts[headings] += 1
        again = f" ({counts[headings]})" if counts[headings] > 1 else ""
        statements.append(_statement(origin, f"{headings}{again}", headings, body, about))
        about.pop("description", None)  # it stands with the first section
    if about.get("description") and not statements:
        statements.append(_statement(origin, "", "", "", about))
    if not statements and not skipped:
        skipped.append("empty file")
    return StatedFile(origin, f"{SOURCE}/{origin}#"[:200], statements, skipped, whole=True)


def _statement(
    origin: str, place: str, headings: str, body: str, about: dict[str, str]
) -> FileStatement:
    topic = about.get("type", "")
    liked = topic in _OF_A_PERSON or _PREFERENCE.search(headings)
    text = "\n".join(filter(None, (headings, about.get("description", ""), body)))
    tags = tuple(filter(None, (tag(topic),)))
    key = bounded(f"{SOURCE}/{origin}#{place}")
    return FileStatement(key, "preference" if liked else "fact", text, tags)


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """What a topic file says of itself, and the text behind it."""
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    about = {
        field: value.strip("\"'") for field, value in _FIELD.findall(found[1]) if value.strip("\"'")
    }
    return about, text[found.end() :]


def _without_pointers(body: str, folder: Path) -> tuple[str, int]:
    """The body without the lines that only point to a file beside it, and how many those were."""
    kept, pointers = [], 0
    for line in body.split("\n"):
        found = _POINTER.fullmatch(line)
        if found and ".." not in found[1] and _is_file(folder / found[1]):
            pointers += 1
        else:
            kept.append(line)
    return "\n".join(kept).strip("\n"), pointers


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _sections(text: str) -> Iterator[_Section]:
    headings: list[tuple[int, str]] = []
    body: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if opened and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else opened[1]
        found = None if fence or opened else _HEADING.fullmatch(line)
        if found is None:
            body.append(line)
            continue
        yield _Section(tuple(title for _, title in headings), "\n".join(body).strip("\n"))
        level, body = len(found[1]), []
        headings = [*(one for one in headings if one[0] < level), (level, found[2])]
    yield _Section(tuple(title for _, title in headings), "\n".join(body).strip("\n"))
