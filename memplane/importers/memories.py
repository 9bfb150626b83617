"""What other memory programs keep, in files of text: their memories become facts of the plane.

Each is compared with the plane as `statements` says: a memory has a key, so what changed there
supersedes here, and what was forgotten here stays forgotten while the program says the same. Of
two values of a memory the one that the program changed last holds, in whatever order files come.
What a program keeps is an agent's word (`said_by` agent, the program as actor): a model wrote it,
or a user years ago. So it becomes a fact and never a rule, a preference or a decision, whatever it
says, and no marker is looked for in it.

Source `mem0`: what `Memory.get_all` and the hosted service answer (`{"results": [..]}`, an array,
or an object a line), its history.db, and OpenMemory's export (the zip, or memories.json and
memories.jsonl.gz of it) and database. OpenMemory gives its memories the ids of mem0, so they share
their keys, `mem0/<id>`. A memory that OpenMemory deleted, archived or paused is archived here.

Source `langgraph`: items of a LangGraph store, from its SQLite database, or as rows of its table in
JSON lines, as PostgreSQL writes them. The key is `langgraph/<namespace>/<key>`; text is what the
value has as `content`, `text` or `memory`, with its other fields below it, or all of it as JSON.

Source `basic-memory`: Markdown notes with a permalink. An observation (`- [category] ..`) is a fact
with its category and hashtags as tags, a relation (`- type [[Note]]`) is a fact, and the rest of a
note is a fact for each section. Keys begin with `basic-memory/<permalink>#`.

`databases` reads those that are SQLite, `ledger` GitHub's ledgers.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
import zlib
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from memplane.errors import InputError
from memplane.importers.records import (
    is_gzip,
    parse_records,
    read_all,
    read_elements,
    read_lines,
    unpacked_lines,
)
from memplane.importers.rows import json_digest, short_text
from memplane.importers.statements import (
    FileStatement,
    StatedFile,
    bounded,
    key_of,
    markdown_sections,
    tag,
)
from memplane.intake.check import TAGS_MAX, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MEM0: Final = "mem0"
LANGGRAPH: Final = "langgraph"
BASIC_MEMORY: Final = "basic-memory"

_NOTE_HEAD_BYTES: Final = 64 * 1024
_LINE_HEAD_BYTES: Final = 1024 * 1024
_LOOKED_AT: Final = 300  # objects of a document until one is a memory
_LOOKED_BYTES: Final = 32 * 1024 * 1024  # likewise
_EPOCH_MAX: Final = 253_402_300_799  # the last second of the year 9999
_MILLISECONDS: Final = 10**11  # a larger number counts them
_ABOUT_MAX: Final = 2_000  # characters of what a memory says of itself beside its text
_DEPTH_MAX: Final = 8
_FIELD_MAX: Final = 200
_WORD_MAX: Final = 100
_NAMED_IN_A_DOCUMENT: Final = (b'"results"', b'"memories"', b'"memory"', b'"content"')
_MEMBERS: Final = ("", "results", "memories")
_TEXTS: Final = ("memory", "content", "text", "data")


def stored_time(value: Any) -> str:
    """A time as RFC 3339 in UTC, "" for what is none. Without a zone it is UTC, as programs store.

    Numbers are seconds since 1970, or milliseconds.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if value > _MILLISECONDS else value
        return datetime.fromtimestamp(seconds, UTC).isoformat() if 0 < seconds <= _EPOCH_MAX else ""
    if not isinstance(value, str) or not value or len(value) > _WORD_MAX:
        return ""
    try:
        parsed = datetime.fromisoformat(value)
        return timestamp(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    except (ValueError, InputError):
        return ""


def word_of(value: Any) -> str:
    """A short name as it is said, "" for anything else."""
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= _WORD_MAX or not value.isprintable():
        return ""
    return value.strip()


def tags_of(words: Iterable[Any]) -> tuple[str, ...]:
    """The words that can be tags, each once, as many as an event may have."""
    made = (tag(word) for word in words if isinstance(word, str))
    return tuple(islice(dict.fromkeys(filter(None, made)), TAGS_MAX))


def kept_about(**said: Any) -> dict[str, Any]:
    """What goes into an event's data: short words, and flat JSON of at most 2,000 letters."""
    kept: dict[str, Any] = {}
    for field, value in said.items():
        if isinstance(value, dict | list):
            if value and not _is_deeper(value, _DEPTH_MAX) and len(shown_json(value)) <= _ABOUT_MAX:
                kept[field] = value
        elif word := word_of(value):
            kept[field] = word
    return kept


def _is_deeper(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(one, depth - 1) for one in inner)


def shown_json(value: Any) -> str:
    """A value as one line of JSON; too deep a one is said to be."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    except (RecursionError, ValueError, TypeError):
        return "(too deep to show)"


def shown_value(value: Any) -> str:
    """A stored value as text: its own text first, then its other fields, a line each."""
    if isinstance(value, str):
        return value.strip()
    if not isinstance(value, dict):
        return shown_json(value)
    said = next((field for field in _TEXTS if _is_text(value.get(field))), None)
    if said is None:
        inner = value.get("content")  # as langmem stores: {"kind": .., "content": {..}}
        if isinstance(inner, dict) and inner and set(value) <= {"kind", "content"}:
            return shown_value(inner)
        return shown_json(value)
    rest = (
        f"{field}: {one if isinstance(one, str) else shown_json(one)}"
        for field, one in value.items()
        if field != said and one not in (None, "", [], {})
    )
    return "\n".join([value[said].strip(), *rest])


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


# What a file is, by its beginning.


def packed_source(path: Path) -> str | None:
    """The source of a note or a zip; None where it is of none."""
    if path.suffix.lower() == ".md":
        text = _head(path, _NOTE_HEAD_BYTES).decode("utf-8", "replace")
        return BASIC_MEMORY if permalink_of(text) else None
    return MEM0 if _export_in(path) is not None else None


def document_source(path: Path) -> str | None:
    """The source of a JSON document, however large; None where it is of none."""
    head = _head(path, _NOTE_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head.startswith((b"[", b"{")) or not any(one in head for one in _NAMED_IN_A_DOCUMENT):
        return None
    with closing(read_elements(path, most=_LOOKED_BYTES)) as elements:
        for element in islice(elements, _LOOKED_AT):
            if element.name in _MEMBERS and element.body and is_mem0(_loaded(element.body)):
                return MEM0
    return None


def is_mem0(record: Mapping[str, Any]) -> bool:
    """Tell a memory of mem0 or OpenMemory."""
    if not word_of(record.get("id")):
        return False
    if isinstance(record.get("memory"), str):
        return not {"hash", "metadata", "user_id", "created_at", "score"}.isdisjoint(record)
    return isinstance(record.get("content"), str) and {"state", "metadata"} <= record.keys()


def is_langgraph(record: Mapping[str, Any]) -> bool:
    """Tell a row of the table of a LangGraph store."""
    return {"prefix", "key", "value", "updated_at"} <= record.keys()


def _head(path: Path, size: int) -> bytes:
    if is_gzip(path):
        with gzip.open(path) as text, suppress(OSError, EOFError, zlib.error):
            return text.read(size)
        return b""
    with path.open("rb") as disk:
        return disk.read(size)


def _loaded(body: bytes) -> dict[str, Any]:
    """An object of a document, {} for what is none."""
    return next(iter(parse_records(body).records), {})


# mem0, OpenMemory.

_OPENMEMORY_LINES: Final = "memories.jsonl.gz"
_ENDED: Final = frozenset({"deleted", "archived", "paused"})


def statements_of_mem0(path: Path) -> StatedFile:
    """What an export states. It may be of one user, or a page: it takes back nothing unnamed."""
    told = StatedFile(origin=path.name, prefix="mem0/", statements=(), whole=False, keeper=MEM0)
    told.statements = _mem0(path, told)
    return told


def _mem0(path: Path, told: StatedFile) -> Iterator[FileStatement]:
    names = _Names()
    if (member := _export_in(path)) is not None:
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(member) as packed,
            gzip.GzipFile(fileobj=packed) as lines,
        ):
            yield from _mem0_lines(unpacked_lines(lines, packed), told, names)
        return
    if is_gzip(path) or not _is_document(path):
        yield from _mem0_lines(read_lines(path), told, names)
        return
    for element in read_elements(path):
        told.done = element.done
        if element.fault:
            told.skipped.append("damaged file" if element.fault == "damaged" else "overlong item")
        elif element.name in ("apps", "categories"):
            names.take(element.name, _loaded(element.body))
        elif element.name in _MEMBERS:
            yield from mem0_statement(_loaded(element.body), told, names)


def _mem0_lines(lines: Iterable[Any], told: StatedFile, names: _Names) -> Iterator[FileStatement]:
    for line in lines:
        told.done = line.done
        if line.fault:
            told.skipped.append("damaged file" if line.fault == "damaged" else "overlong line")
        elif line.body.strip():
            records, broken = parse_records(line.body)
            for record in records:
                yield from mem0_statement(record, told, names)
            told.skipped += ["malformed line"] * broken


def mem0_statement(
    record: Mapping[str, Any], told: StatedFile, names: _Names | None = None
) -> Iterator[FileStatement]:
    """The statement that a memory makes, if it makes one; else the reason is in `told`."""
    id_ = word_of(record.get("id")).lower()
    text = next((record[one] for one in _TEXTS if isinstance(record.get(one), str)), "").strip()
    if not id_:
        told.skipped.append("malformed memory" if text else "no memory")
        return
    if len(id_) == 32 and id_.isalnum():  # as SQLAlchemy writes a UUID into SQLite
        id_ = "-".join((id_[:8], id_[8:12], id_[12:16], id_[16:20], id_[20:]))
    key = key_of(MEM0, id_)
    state = short_text(record, "state")
    if state in _ENDED:
        told.withdrawn.append(key)
        told.skipped.append(f"{state} there")
        return
    if not text:
        told.skipped.append("empty text")
        return
    groups = names.of(record) if names is not None else []
    metadata = record.get("metadata")
    owner = {
        field: word_of(record.get(f"{field}_id")) or word_of(record.get(field))
        for field in ("user", "agent", "app", "run")
    }
    if names is not None and owner["app"] in names.apps:
        owner["app"] = names.apps[owner["app"]]
    day = short_text(record, "expiration_date")[:10]
    yield FileStatement(
        key,
        "fact",
        text,
        tags_of([*groups, *(f"{field}:{who}" for field, who in owner.items() if who)]),
        ts=stored_time(record.get("updated_at")) or stored_time(record.get("created_at")),
        valid_until=stored_time(f"{day}T23:59:59Z") if day else "",
        about=kept_about(metadata=metadata if isinstance(metadata, dict) else None),
    )


class _Names:
    """Names that an OpenMemory document gives to ids, before it lists its memories."""

    _MAX: Final = 10_000

    def __init__(self) -> None:
        self.apps: dict[str, str] = {}
        self.categories: dict[str, str] = {}

    def take(self, kind: str, record: Mapping[str, Any]) -> None:
        known = self.apps if kind == "apps" else self.categories
        id_, said = word_of(record.get("id")), word_of(record.get("name"))
        if id_ and said and len(known) < self._MAX:
            known[id_] = said

    def of(self, record: Mapping[str, Any]) -> list[Any]:
        """The categories of a memory, by name."""
        named, ids = record.get("categories"), record.get("category_ids")
        found = list(named) if isinstance(named, list) else []
        return found + [self.categories.get(str(one)) for one in ids or [] if isinstance(ids, list)]


def _is_document(path: Path) -> bool:
    """Tell a document from a memory a line."""
    first = _head(path, _LINE_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return not is_mem0(_loaded(first))


def _export_in(path: Path) -> str | None:
    """The member of OpenMemory's zip that is read; None where the file is no such zip."""
    try:
        if not zipfile.is_zipfile(path):
            return None
        with zipfile.ZipFile(path) as archive:
            names = [one for one in archive.namelist() if one.split("/")[-1] == _OPENMEMORY_LINES]
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    return names[0] if names else None


# LangGraph.


def statements_of_langgraph(path: Path) -> StatedFile:
    """What the rows of a store's table in JSON lines state; some of them may be all there are."""
    told = StatedFile(
        origin=path.name, prefix="langgraph/", statements=(), whole=False, keeper=LANGGRAPH
    )

    def read() -> Iterator[FileStatement]:
        for line in read_lines(path):
            told.done = line.done
            if line.fault:
                told.skipped.append("damaged file" if line.fault == "damaged" else "overlong line")
            elif line.body.strip():
                records, broken = parse_records(line.body)
                for record in records:
                    yield from langgraph_statement(record, told)
                told.skipped += ["malformed line"] * broken

    told.statements = read()
    return told


def langgraph_statement(row: Mapping[str, Any], told: StatedFile) -> Iterator[FileStatement]:
    """The statement that an item of a store makes; `value` is JSON, or its text."""
    prefix, key, value = row.get("prefix"), row.get("key"), row.get("value")
    if not isinstance(prefix, str) or not isinstance(key, str) or not key:
        told.skipped.append("malformed item")
        return
    if isinstance(value, str | bytes):
        try:
            value = orjson.loads(value)
        except ValueError:
            told.skipped.append("malformed item")
            return
    text = shown_value(value)
    if not text or value in ({}, []):
        told.skipped.append("empty text")
        return
    namespace = prefix.split(".") if prefix else []
    yield FileStatement(
        key_of(LANGGRAPH, *namespace, key),
        "fact",
        text,
        tags_of(namespace),
        ts=stored_time(row.get("updated_at")) or stored_time(row.get("created_at")),
        valid_until=stored_time(row.get("expires_at")),
        about=kept_about(namespace=namespace),
    )


# basic-memory.

_FRONT: Final = re.compile(r"---[ \t]*\n(.{0,16384}?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PERMALINK: Final = re.compile(r"(?m)^permalink:[ \t]*(\S[^\n]*?)[ \t]*$")
_TITLE: Final = re.compile(r"(?m)^title:[ \t]*(\S[^\n]*?)[ \t]*$")
_TAG_LIST: Final = re.compile(r"(?m)^tags:[ \t]*\n((?:[ \t]*-[ \t]+[^\n]*\n?)*)")
_OBSERVATION: Final = re.compile(r"[ \t]*[-*][ \t]+\[([^\]\[()]{1,64})\][ \t]+(\S[^\n]*)")
_RELATION: Final = re.compile(
    r"[ \t]*[-*][ \t]+([^\[\]\n]{0,100}?)[ \t]*\[\[([^\[\]\n]{1,300})\]\]([^\n]*)"
)
_HASHTAG: Final = re.compile(r"(?<!\S)#([\w/-]{1,64})")
_BOXES: Final = frozenset({"x", "X", " ", "-"})  # of to-do lists


def permalink_of(text: str) -> str:
    """The permalink that a note's front matter gives, "" where there is none."""
    front = _FRONT.match(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    found = _PERMALINK.search(front[1]) if front else None
    return found[1].strip("\"'")[:_FIELD_MAX] if found else ""


def statements_of_basic_memory(path: Path) -> StatedFile | None:
    """What a note states, None for a damaged or overlong one. It is named by its permalink."""
    content = None if path.is_symlink() else read_all(path)
    if content is None:
        return None
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    permalink = permalink_of(text)
    told = StatedFile(
        origin=permalink,
        prefix=_note_key(permalink, "")[:200],
        statements=(),
        keeper=BASIC_MEMORY,
        whole=bool(permalink),
    )
    if not permalink:
        told.skipped.append("no note of basic-memory")
        return told
    told.statements = _note(text, permalink, path.stem, told)
    return told


def _note(text: str, permalink: str, stem: str, told: StatedFile) -> Iterator[FileStatement]:
    front = _FRONT.match(text)
    about, body = (front[1], text[front.end() :]) if front else ("", text)
    titled = _TITLE.search(about)
    title = titled[1].strip("\"'")[:_FIELD_MAX] if titled else stem
    listed = _TAG_LIST.search(f"{about}\n")
    tags = [one.strip(" \t-\"'") for one in listed[1].splitlines()] if listed else []
    said = False
    for section in markdown_sections(body):
        prose: list[str] = []
        for line in section.body.split("\n"):
            made = _list_item(line, title, permalink, tags)
            if made is None:
                prose.append(line)
            else:
                said = True
                yield made
        if any(line.strip() for line in prose):
            said = True
            headings = " > ".join(dict.fromkeys((title, *section.headings)))
            words = "\n".join(prose).strip("\n")
            key = _note_key(permalink, " > ".join(section.headings))
            yield FileStatement(key, "fact", f"{headings}\n{words}", tags_of(tags))
    if not said:
        told.skipped.append("empty file")


def _list_item(line: str, title: str, permalink: str, tags: list[str]) -> FileStatement | None:
    """The observation or relation that a line is; None for a line of prose."""
    if found := _RELATION.fullmatch(line):
        kind, target, rest = (part.strip() for part in found.groups())
        words = " ".join(filter(None, (title, kind or "relates to", target, rest)))
        named = [*tags, target]
    elif (found := _OBSERVATION.fullmatch(line)) and found[1] not in _BOXES:
        words = f"{title}: {found[2].strip()}"
        named = [*tags, found[1], *_HASHTAG.findall(found[2])]
    else:
        return None
    key = _note_key(permalink, json_digest(line.strip())[:16])
    return FileStatement(key, "fact", words, tags_of(named))


def _note_key(permalink: str, place: str) -> str:
    return bounded(f"{key_of(BASIC_MEMORY, *permalink.split('/'))}#{place}")
