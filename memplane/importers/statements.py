"""Files that list what holds now, such as notes of a client: compared with the plane and synced.

Such a file is rewritten and not appended to, so each of its statements (each has a key) is
compared with the plane:

* The same content under the key is a repeat, and nothing is written.
* Other content is recorded under the same key and supersedes it. The id is
  `<source>:<hash of key, kind and text>:<n>`, n counting how often the file came back to the very
  same words, so that a change that is taken back is a change, too.
* A statement that the file had before and no longer has is archived by a `forget` whose reason
  begins with the source: its owner removed it, and blocks would go on showing it. The log keeps
  it, and it comes back when the file has it again. A file without statements, or one that could
  not be read whole, archives nothing: a writer that crashed leaves such files.
* What was forgotten in the plane stays forgotten as long as the file says the same.

Source `mcp-memory` is the file of MCP's reference memory server: a graph, one entity or relation a
line. `{"type": "entity", "name", "entityType", "observations": [..]}` and `{"type": "relation",
"from", "to", "relationType"}`, in memory.json, or memory.jsonl since the server moved it. The
server writes the whole file anew at each change, so it is compared with the plane, as above. Also
taken is what its tool read_graph answers: one object with `entities` and `relations`.

Each observation is a fact, with the name of its entity in front and as a tag; so is the type of an
entity, and each relation. Each is added or deleted as a whole, so each has a key of its
own, `mcp-memory/<entity>/<hash>` or `mcp-memory//<hash>`. The time is the file's: the graph
has none.

Source `claude-memory` is what Claude Code keeps for itself: MEMORY.md and topic files, in Markdown.
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
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.errors import NotFoundError
from memplane.event import GLOBAL, at_least
from memplane.importers.records import parse_document, parse_records
from memplane.importers.rows import Row, json_digest, name, short_text, type_word
from memplane.intake import KEY_MAX, TAG_MAX, timestamp
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memplane.plane import Plane
    from memplane.projections.in_force import KeyValueRow as Version

ORIGIN: Final = "from"  # in an event's data: the file that stated it
EXPORTER: Final = "plane"  # the plane that had exported it to where it was read


class FileStatement(NamedTuple):
    """One memory as a file states it.

    `ts` and `valid_until` are RFC 3339, "" where the file does not say; `about` goes into the
    event's data. `project`: the name of the project it is of, where one file has several.
    """

    key: str
    kind: str
    text: str
    tags: tuple[str, ...] = ()
    ts: str = ""
    valid_until: str = ""
    about: Mapping[str, Any] = MappingProxyType({})
    project: str = ""


@dataclass(slots=True)
class StatedFile:
    """What a file states. `origin` names the file, `prefix` begins all keys it may have.

    `statements` may be read as they are asked for: then `skipped` (a reason for each part that
    states nothing), `withdrawn` (keys that it takes back by name), `whole` and `done` (bytes of the
    file) are final when they have been. `whole`: nothing in the file was unreadable, so what it
    does not state it no longer states. `keeper` names the program whose memory it is: that is an
    agent's word and no person's, whatever it says, and no marker is looked for in it. `dated`: its
    times tell which of two values of a memory is the newer, whichever file was read first.
    """

    origin: str
    prefix: str
    statements: Iterable[FileStatement]
    skipped: list[str] = field(default_factory=list)
    whole: bool = True
    keeper: str = ""
    dated: bool = True
    withdrawn: list[str] = field(default_factory=list)
    done: int = 0
    seen: dict[str, str] = field(default_factory=dict)  # by key, what was stated first


def key_of(*parts: str) -> str:
    """Join parts to a key, or to its beginning: other parts give another."""
    return bounded("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


def bounded(key: str) -> str:
    """The key where it can be one, else what of it can, with a hash: another for another."""
    key = masked(key)
    if len(key) <= KEY_MAX and key.isprintable():
        return key
    kept = "".join(letter for letter in key if letter.isprintable())
    return f"{kept[: KEY_MAX - 18]}~{json_digest(key)[:16]}"


def tag(word: str) -> str | None:
    """The word where it can be a tag."""
    word = word.strip()
    return word if 0 < len(word) <= TAG_MAX and word.isprintable() else None


def statement_rows(
    plane: Plane,
    source: str,
    told: StatedFile,
    ts: str,
    ns: str | Callable[[str], str | None] | None = None,
) -> Iterator[Row | Literal["repeated", "forgotten", "doubled", "older", "own"]]:
    """For each statement the row to record, or the reason why there is none.

    `doubled`: the file states something else under the same key before; `older`: another file had
    what the program made of it later; `own`: this plane exported it. `ns`: the namespace of the
    file's project, or of the project that a statement names; None for the usual one. Values of
    `/global` under a key stay there.
    """
    for statement in told.statements:
        base = _name_of(source, statement)
        if (known := told.seen.get(statement.key)) is not None:
            yield "repeated" if known == base else "doubled"
            continue
        told.seen[statement.key] = base
        if statement.about.get(EXPORTER) == plane.id:
            yield "own"
            continue
        space = ns(statement.project) if callable(ns) else ns
        versions = _versions(plane, statement.key, space)
        times = _times(plane, source, versions, f"{base}:")
        if not isinstance(times, int):
            yield times
        elif told.dated and _is_older(source, statement, versions):
            yield "older"
        else:
            yield _row(statement, f"{base}:{times}", told, ts, space, versions)


def _row(
    statement: FileStatement,
    id_: str,
    told: StatedFile,
    ts: str,
    space: str | None,
    versions: list[Version],
) -> Row:
    row: Row = {
        "id": id_,
        "ts": statement.ts or ts,
        "kind": statement.kind,
        "key": statement.key,
        "text": statement.text,
        "data": {ORIGIN: told.origin, **statement.about},
    }
    if told.keeper:
        row |= {"role": "assistant", "actor": told.keeper, "markers": []}
    if statement.valid_until:
        row["valid_until"] = statement.valid_until
    if versions:
        row["ns"] = versions[-1].ns
    elif space is not None:
        row["ns"] = space
    if versions:  # somebody has said since how sensitive it is; the file cannot
        row |= at_least(versions[-1].sensitivity, row)
    return {**row, "tags": list(statement.tags)} if statement.tags else row


def _is_older(source: str, statement: FileStatement, versions: list[Version]) -> bool:
    """Whether the program changed the memory again behind this: by its time, where it has one."""
    if not statement.ts or not versions or not versions[-1].id.startswith(f"{source}:"):
        return False
    return timestamp(statement.ts) < versions[-1].time


def _name_of(source: str, statement: FileStatement) -> str:
    """How the id of a statement begins: by its key and what it says."""
    said = statement[:3] if not statement.valid_until else (*statement[:3], statement.valid_until)
    return name(source, json_digest(*said)[:32])


def _versions(plane: Plane, key: str, ns: str | None) -> list[Version]:
    """All that the key was, hidden values too: what is compared is shown to nobody."""
    context = plane.context
    spaces = dict.fromkeys((ns or context.home.project or GLOBAL, GLOBAL))
    with context.lock:
        memories = context.caught_up().memories
        every = (memories.history(space, key, upto=context.as_of) for space in spaces)
        return next(filter(None, every), [])


def _times(
    plane: Plane, source: str, versions: list[Version], base: str
) -> int | Literal["repeated", "forgotten"]:
    """How often these very words were recorded before, if they are to be recorded now."""
    if not versions:
        return 0
    last = versions[-1]
    times = sum(version.id.startswith(base) for version in versions)
    if last.id.startswith(base):
        if last.reason != "forgotten" or last.by_seq is None:
            return "repeated"
        return times if _by_us(plane, source, last.by_seq) else "forgotten"
    if times and not last.id.startswith(f"{source}:"):
        return "repeated"  # somebody corrected it in the plane, and the file says nothing new
    return times


def _by_us(plane: Plane, source: str, seq: int) -> bool:
    try:
        event = plane.event(seq)
    except NotFoundError:  # purged since
        return False
    return event.kind == "forget" and event.text.startswith(f"{source}: ")


class StatedKey(NamedTuple):
    """Where a value is that a file stated."""

    ns: str
    key: str


def gone(
    plane: Plane, source: str, told: StatedFile, ns: str | None = None
) -> dict[StatedKey, str]:
    """The keys in force that this file stated before and states no more, with that file.

    `ns`: where an import was asked to record; the usual places are looked at as well.
    """
    lost = {
        found: origin
        for key in told.withdrawn
        if key not in told.seen
        for found, origin in _stated_under(plane, source, [key], ns)
    }
    if told.whole and told.seen:
        lost |= {
            found: origin
            for found, origin in _stated_below(plane, source, told.prefix, ns)
            if found.key not in told.seen and origin == told.origin
        }
    return lost


def lost_with(
    plane: Plane, source: str, prefix: str, there: Callable[[str], bool], ns: str | None = None
) -> dict[StatedKey, str]:
    """The keys in force below a prefix whose file is not there any more, with that file."""
    found = _stated_below(plane, source, prefix, ns)
    return {key: origin for key, origin in found if not there(origin)}


def forget_all(plane: Plane, source: str, lost: Mapping[StatedKey, str]) -> None:
    """Archive what its file states no more."""
    for (ns, key), origin in lost.items():
        with suppress(NotFoundError):  # another import may be faster
            plane.forget(key=key, ns=ns, reason=f"{source}: no longer in {origin}")


def _stated_below(
    plane: Plane, source: str, prefix: str, ns: str | None
) -> Iterator[tuple[StatedKey, str]]:
    for space in dict.fromkeys((ns or GLOBAL, GLOBAL)):
        keys = plane.keys(prefix, space, limit=sys.maxsize)
        yield from _stated_under(plane, source, keys, space)


def _stated_under(
    plane: Plane, source: str, keys: Iterable[str], ns: str | None
) -> Iterator[tuple[StatedKey, str]]:
    """The keys whose value a file of the source stated, with that file."""
    for space in dict.fromkeys((ns or GLOBAL, GLOBAL)):
        for key in keys:
            event = plane.get(key, space)
            if event is not None and event.id.startswith(f"{source}:"):
                origin = event.data.get(ORIGIN)
                if isinstance(origin, str):
                    yield StatedKey(space, key), origin


MCP_MEMORY: Final = "mcp-memory"


def is_graph(record: Mapping[str, Any]) -> bool:
    """Tell an entity or a relation, or an object with lists of both."""
    if isinstance(record.get("entities"), list):
        return isinstance(record.get("relations"), list)
    kind = record.get("type")
    if kind == "entity":
        return "name" in record and "observations" in record
    return kind == "relation" and {"from", "to", "relationType"} <= record.keys()


def statements_of_mcp(path: Path, content: bytes) -> StatedFile:
    """What a file states. It is named by its place without the ending, which the server changed."""
    records = parse_document(content).records if _is_document(content) else ()
    faults = 0
    if not records:
        records, faults = _of_lines(content)
    statements: list[FileStatement] = []
    skipped = ["malformed line"] * faults
    for record in records:
        made = list(_stated(record))
        statements += (one for one in made if not isinstance(one, str))
        skipped += (one for one in made if isinstance(one, str))
    if not statements and not skipped:
        skipped.append("empty file")
    # A graph may lie anywhere, in several places under one name.
    origin = f"{path.stem}-{json_digest(str(path.with_suffix('')))[:12]}"
    whole = not any(reason.startswith("malformed") for reason in skipped)
    return StatedFile(
        origin=origin,
        prefix=f"{MCP_MEMORY}/",
        statements=statements,
        skipped=skipped,
        whole=whole,
    )


def _is_document(content: bytes) -> bool:
    return b'"entities"' in content[: 64 * 1024]


def _of_lines(content: bytes) -> tuple[tuple[dict[str, Any], ...], int]:
    records: list[dict[str, Any]] = []
    broken = 0
    for line in content.split(b"\n"):
        if line.strip():
            parsed = parse_records(line)
            records += parsed.records
            broken += parsed.broken
    return tuple(records), broken


def _stated(record: Mapping[str, Any]) -> Iterator[FileStatement | str]:
    kind = short_text(record, "type")
    if kind == "entity":
        yield from _entity(record)
    elif kind == "relation":
        yield _relation(record)
    else:
        yield f"unknown record type {type_word(kind)}"


def _entity(record: Mapping[str, Any]) -> Iterator[FileStatement | str]:
    entity, kind = short_text(record, "name").strip(), short_text(record, "entityType").strip()
    observations = record.get("observations")
    if not entity or not isinstance(observations, list):
        yield "malformed entity"
        return
    tags = _tags(entity, kind)
    if kind:
        yield FileStatement(
            key_of(MCP_MEMORY, entity, json_digest("type", kind)[:16]),
            "fact",
            f"{entity}: {kind}",
            tags,
        )
    for observation in observations:
        if not isinstance(observation, str):
            yield "malformed observation"
        elif not observation.strip():
            yield "empty text"
        else:
            named = observation.lower().startswith(entity.lower())
            text = observation if named else f"{entity}: {observation}"
            key = key_of(MCP_MEMORY, entity, json_digest(observation)[:16])
            yield FileStatement(key, "fact", text, tags)
    if not kind and not observations:
        yield "empty entity"


def _relation(record: Mapping[str, Any]) -> FileStatement | str:
    said = [short_text(record, field).strip() for field in ("from", "relationType", "to")]
    if not all(said):
        return "malformed relation"
    key = key_of(MCP_MEMORY, "", json_digest(said)[:16])
    return FileStatement(key, "fact", " ".join(said), _tags(said[0], said[2]))


def _tags(*words: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(tag, words))))


CLAUDE_MEMORY: Final = "claude-memory"
NOTES_INDEX: Final = "MEMORY.md"
NOTES_FOLDER: Final = "memory"

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_POINTER: Final = re.compile(r"[ \t]*[-*+][ \t]+\[[^\]\n]*\]\(([^)\s]+\.md)\)[^\n]*")
_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"(?m)^[ \t]*(description|type):[ \t]*(.*?)[ \t]*$")
_OF_A_PERSON: Final = frozenset({"user", "feedback"})
_PREFERENCE: Final = re.compile(r"\bpreferences?\b|\bprefers?\b", re.IGNORECASE)


class MarkdownSection(NamedTuple):
    """A heading with those above it, and the text below it up to the next one."""

    headings: tuple[str, ...]
    body: str


def folder_of(path: Path) -> Path:
    """The memory folder that a file is of: the nearest `memory` above it, else its own."""
    path = path.absolute()
    return next((above for above in path.parents if above.name == NOTES_FOLDER), path.parent)


def is_memory(path: Path) -> bool:
    """Tell a file of a folder `memory` that has an index."""
    if path.suffix != ".md":
        return False
    folder = folder_of(path)
    return folder.name == NOTES_FOLDER and (folder / NOTES_INDEX).is_file()


def memory_key_prefix(folder: Path) -> str:
    """How all keys of a memory folder begin: with the project's name, which is its parent's."""
    project = folder.parent.name if folder.name == NOTES_FOLDER else folder.name
    return f"{key_of(CLAUDE_MEMORY, project)}/"


def origin_of(path: Path) -> str:
    """How a file is named in keys: project/file."""
    folder = folder_of(path)
    file = key_of(*path.absolute().relative_to(folder).parts)
    return f"{memory_key_prefix(folder)}{file}".removeprefix(f"{CLAUDE_MEMORY}/")


def statements_of_claude(path: Path, content: bytes) -> StatedFile:
    """What a file states."""
    origin = origin_of(path)
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    about, text = _front_matter(text)
    statements: list[FileStatement] = []
    skipped: list[str] = []
    counts: Counter[str] = Counter()
    for section in markdown_sections(text):
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
    prefix = f"{CLAUDE_MEMORY}/{origin}#"[:200]
    return StatedFile(origin=origin, prefix=prefix, statements=statements, skipped=skipped)


def _statement(
    origin: str, place: str, headings: str, body: str, about: dict[str, str]
) -> FileStatement:
    topic = about.get("type", "")
    liked = topic in _OF_A_PERSON or _PREFERENCE.search(headings)
    text = "\n".join(filter(None, (headings, about.get("description", ""), body)))
    tags = tuple(filter(None, (tag(topic),)))
    key = bounded(f"{CLAUDE_MEMORY}/{origin}#{place}")
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


def markdown_sections(text: str) -> Iterator[MarkdownSection]:
    """The sections of a Markdown text, in order; fenced code has no headings."""
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
        yield MarkdownSection(tuple(title for _, title in headings), "\n".join(body).strip("\n"))
        level, body = len(found[1]), []
        headings = [*(one for one in headings if one[0] < level), (level, found[2])]
    yield MarkdownSection(tuple(title for _, title in headings), "\n".join(body).strip("\n"))
