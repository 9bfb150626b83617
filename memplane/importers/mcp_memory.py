"""The file of MCP's reference memory server: a graph, one entity or relation a line.

`{"type": "entity", "name", "entityType", "observations": [..]}` and `{"type": "relation", "from",
"to", "relationType"}`, in memory.json, or memory.jsonl since the server moved it. The server writes
the whole file anew at each change, so it is compared with the plane (see `statements`). Also taken
is what its tool read_graph answers: one object with `entities` and `relations`.

Each observation is a fact, with the name of its entity in front and as a tag; so is the type of an
entity, and each relation. Each is added or deleted as a whole, so each has a key of its
own, `mcp-memory/<entity>/<hash>` or `mcp-memory//<hash>`. The time is the file's: the graph
has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.importers.records import parse_document, parse_records
from memplane.importers.rows import json_digest, short_text, type_word
from memplane.importers.statements import FileStatement, StatedFile, key_of, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["SOURCE", "is_graph", "statements_of_mcp"]

SOURCE: Final = "mcp-memory"


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
    return StatedFile(origin, f"{SOURCE}/", statements, skipped, whole)


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
            key_of(SOURCE, entity, json_digest("type", kind)[:16]),
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
            key = key_of(SOURCE, entity, json_digest(observation)[:16])
            yield FileStatement(key, "fact", text, tags)
    if not kind and not observations:
        yield "empty entity"


def _relation(record: Mapping[str, Any]) -> FileStatement | str:
    said = [short_text(record, field).strip() for field in ("from", "relationType", "to")]
    if not all(said):
        return "malformed relation"
    key = key_of(SOURCE, "", json_digest(said)[:16])
    return FileStatement(key, "fact", " ".join(said), _tags(said[0], said[2]))


def _tags(*words: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(tag, words))))
