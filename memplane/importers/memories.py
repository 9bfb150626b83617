"""What other programs keep as memory: it becomes facts of the plane.

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

Source `ledger`: GitHub's ledgers (`memplane.upkeep.export` has the format). A ledger is the folder
of its shards, whichever of them was named; its records are replayed in the order of their graph.
Which of its types a ledger has stands in the workflow and not in the branch; the operations tell:

* `map`: the value that each key holds, under `ledger/<ledger>/<key>`.
* `table`: the row that each primary key holds. Which field is the key is found from the rows and
  the keys of updates and deletions; where that is not to be seen, each record is a fact.
* `set`, `counter`: each value that is in it; the sum of each name.
* `claims`: each claim with its reason and citations, and how many votes it has.
* `log`, and records of a ledger without a type: a fact for each record.

`<ledger>` is the hash of its oldest record without a parent, the same in every checkout. What a
ledger no longer holds is archived here, unless a line of it could not be read. Jobs write it that
anybody's words may have reached. What this plane itself exported to the ledger is passed over.

A SQLite database is copied with its journal (`-wal`, `-journal`) into a folder of this user's
alone, as its program may be writing, twice where it changed meanwhile, and the copy is opened:
SQLite takes in what the journal holds, and no lock, no byte of the original is touched. The file
may be anybody's: only real tables are read, only columns that are stored, and texts are limited. A
newer schema is read as far as the columns that are needed are there; without them the file is
refused. What the tables become:

* `history` of mem0: the text that each memory has after its last change. It does not say of whom a
  memory is; an export of `get_all` does.
* `memories` of OpenMemory: as its export.
* `store` of LangGraph: an item that was deleted there is archived here. Checkpoints are no memory.
* `observations` and `session_summaries` of claude-mem: observations and summaries under the key
  `claude-mem/<session>/<number>`. A model made them of what agents did, so a decision among them is
  an observation with that tag. Prompts and tool calls are left out and counted: they stand in the
  transcripts. In a plane of projects they go to the one whose folder has the project's name.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
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
    EXPORTER,
    FileStatement,
    StatedFile,
    bounded,
    key_of,
    markdown_sections,
    tag,
)
from memplane.intake import TAGS_MAX, timestamp
from memplane.lazy import NamedTuple, late
from memplane.nofollow import folder_names
from memplane.upkeep.export import (
    FILES_MAX,
    LedgerRecord,
    canonical_json,
    read_ledger,
    shards_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping
else:
    sqlite3 = late("sqlite3")  # some Pythons have none; only databases need it


MEM0: Final = "mem0"
LANGGRAPH: Final = "langgraph"
BASIC_MEMORY: Final = "basic-memory"
CLAUDE_MEM: Final = "claude-mem"
LEDGER: Final = "ledger"
ENDINGS: Final = (".db", ".sqlite", ".sqlite3")  # of databases

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


_FIELDS: Final = frozenset({"version", "id", "type", "timestamp", "parents", "payload", "sha"})
_USUAL_KEYS: Final = ("id", "key", "name")
_AMOUNT_MAX: Final = 2**53 - 1
_CITATIONS_MAX: Final = 32


def is_ledger_record(record: Mapping[str, Any]) -> bool:
    """Tell a record of a ledger."""
    return record.keys() == _FIELDS


def first_shards(folder: Path) -> list[Path]:
    """One shard of each ledger in a folder and below it, which stands for the ledger."""
    named = shards_of(folder)
    found = {named} if named is not None else set()
    found |= {path for path in folder.rglob("ledger/shards") if path.is_dir()}
    firsts = (first_shard(one) for one in sorted(found))
    return [path for path in firsts if path is not None]


def first_shard(shards: Path) -> Path | None:
    """The shard by which a ledger is named; None where it has none."""
    names = (name for name in folder_names(shards) if name.endswith(".jsonl"))
    first = next(names, None)
    return None if first is None else shards / first


def state_of_shards(path: Path) -> list[list[object]]:
    """What tells whether a ledger has changed since: its files, their sizes and times."""
    found: list[list[object]] = []
    for name in folder_names(path.parent)[: FILES_MAX + 1]:
        stat = (path.parent / name).lstat()
        found.append([name, stat.st_size, stat.st_mtime_ns])
    return found


def statements_of_ledger(path: Path) -> StatedFile:
    """What the ledger of a shard holds."""
    told = StatedFile(origin="", prefix="", statements=(), keeper=LEDGER, dated=False)
    state = read_ledger(path.parent)
    told.skipped += [f"record refused: {fault.code}" for fault in state.faults]
    told.whole = not state.faults
    roots = [one for one in state.records if not one.parents] or list(state.records)
    if not roots:
        told.skipped.append("empty file")
        return told
    root = min(roots, key=lambda one: (one.timestamp, one.sha)).sha.removeprefix("sha256:")
    told.origin, told.prefix = root[:12], f"{LEDGER}/{root[:12]}/"
    replayed = _Replayed(root[:12], _primary_key(state.records))
    for record in state.records:
        replayed.apply(record)
    told.statements = replayed.statements()
    return told


class _Held(NamedTuple):
    """A value, and the record that gave it."""

    key: tuple[str, ...]
    value: Any
    record: LedgerRecord


class _Replayed:
    """The state of a ledger, whichever of its types it has."""

    def __init__(self, ledger: str, primary: str | None) -> None:
        self._ledger, self._primary = ledger, primary
        self._held: dict[str, _Held] = {}
        self._votes: dict[str, list[int]] = {}

    def apply(self, record: LedgerRecord) -> None:
        """Take in the next record."""
        said = record.payload if isinstance(record.payload, dict) else {}
        operation = said.get("operation")
        take = _TAKES.get(operation) if isinstance(operation, str) else None
        if take is None or not take(self, said, record):
            self._hold(f"record:{record.id}", (record.id,), record.payload, record)

    def statements(self) -> Iterator[FileStatement]:
        """Each value that is held, in the order of the records."""
        for held in sorted(self._held.values(), key=lambda one: one.record.timestamp):
            yield from self._statement(held)

    def _statement(self, held: _Held) -> Iterator[FileStatement]:
        value, record = held.value, held.record
        text, tags, plane = "", (), None
        if isinstance(value, dict) and isinstance(value.get(EXPORTER), str):  # as memplane writes
            plane = value[EXPORTER]
            text = value["text"] if isinstance(value.get("text"), str) else ""
            tags = tuple(value["tags"]) if isinstance(value.get("tags"), list) else ()
        elif isinstance(value, dict) and value.get("operation") == "claim":
            text = _claim_text(value, self._votes.get(record.id))
        if not text.strip():
            text = shown_value(value)
            text = text if held.key == (record.id,) else f"{held.key[-1]}: {text}"
        yield FileStatement(
            key_of(LEDGER, self._ledger, *held.key),
            "fact",
            text,
            tags_of(tags),
            ts=record.timestamp,
            about=kept_about(record=record.id, type=record.type, **{EXPORTER: plane}),
        )

    def _hold(self, name: str, key: tuple[str, ...], value: Any, record: LedgerRecord) -> bool:
        self._held.pop(name, None)
        self._held[name] = _Held(key, value, record)
        return True

    def put(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a map."""
        key = said.get("key")
        if not isinstance(key, str) or "value" not in said:
            return False
        return self._hold(f"key:{key}", (key,), said["value"], record)

    def delete(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a map or a table."""
        del record
        key = said.get("key")
        if isinstance(key, str):
            self._held.pop(f"key:{key}", None)
            return True
        return False

    def upsert(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a table; also `insert`."""
        row = said.get("value")
        key = row.get(self._primary) if isinstance(row, dict) and self._primary else None
        return isinstance(key, str) and self._hold(f"key:{key}", (key,), row, record)

    def update(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a table."""
        key, patch = said.get("key"), said.get("patch")
        before = self._held.get(f"key:{key}")
        if before is None or not isinstance(patch, dict) or not isinstance(before.value, dict):
            return False
        return self._hold(f"key:{key}", before.key, {**before.value, **patch}, record)

    def add(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a set."""
        try:
            name = f"value:{canonical_json(said['value'])}"
        except (KeyError, ValueError):
            return False
        return self._hold(name, (record.id,), said["value"], record)

    def remove(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a set."""
        del record
        try:
            self._held.pop(f"value:{canonical_json(said['value'])}", None)
        except (KeyError, ValueError):
            return False
        return True

    def count(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a counter: `increment` and `decrement`."""
        name, amount = said.get("name"), said.get("amount")
        if not isinstance(name, str) or not name or type(amount) is not int:
            return False
        before = self._held.get(f"sum:{name}")
        change = amount if said["operation"] == "increment" else -amount
        total = (before.value if before is not None else 0) + change
        if abs(total) > _AMOUNT_MAX:
            return False
        return self._hold(f"sum:{name}", (name,), total, record)

    def append(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of a log."""
        return "value" in said and self._hold(
            f"record:{record.id}", (record.id,), said["value"], record
        )

    def claim(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of claims."""
        return self._hold(f"record:{record.id}", (record.id,), dict(said), record)

    def vote(self, said: Mapping[str, Any], record: LedgerRecord) -> bool:
        """Of claims."""
        del record
        named = said.get("claim_id")
        if not isinstance(named, str) or said.get("vote") not in ("up", "down"):
            return False
        self._votes.setdefault(named, [0, 0])[said["vote"] == "down"] += 1
        return True


_TAKES: Final = {
    "put": _Replayed.put,
    "delete": _Replayed.delete,
    "insert": _Replayed.upsert,
    "upsert": _Replayed.upsert,
    "update": _Replayed.update,
    "add": _Replayed.add,
    "remove": _Replayed.remove,
    "increment": _Replayed.count,
    "decrement": _Replayed.count,
    "append": _Replayed.append,
    "claim": _Replayed.claim,
    "vote": _Replayed.vote,
}


def _primary_key(records: tuple[LedgerRecord, ...]) -> str | None:
    """The field of a table's rows that is its primary key, as far as records tell."""
    rows: list[dict[str, Any]] = []
    named: set[str] = set()
    for record in records:
        said = record.payload
        if not isinstance(said, dict):
            continue
        if said.get("operation") in ("insert", "upsert") and isinstance(said.get("value"), dict):
            rows.append(said["value"])
        elif said.get("operation") in ("update", "delete") and isinstance(said.get("key"), str):
            named.add(said["key"])
    if not rows:
        return None
    fields = [
        field for field, one in rows[0].items()
        if isinstance(one, str) and all(isinstance(row.get(field), str) for row in rows)
    ]  # fmt: skip
    if named:
        fields = [one for one in fields if named <= {row[one] for row in rows}]
    usual = [one for one in _USUAL_KEYS if one in fields]
    return usual[0] if usual else fields[0] if len(fields) == 1 else None


def _claim_text(said: Mapping[str, Any], votes: list[int] | None) -> str:
    """A claim as text: subject and claim, reason, where it is to be seen, and its votes."""
    lines = [": ".join(str(said[one]) for one in ("subject", "claim") if said.get(one))]
    if isinstance(said.get("reason"), str):
        lines.append(f"because {said['reason']}")
    cited = said.get("citations")
    for one in cited[:_CITATIONS_MAX] if isinstance(cited, list) else ():
        path = one.get("path") if isinstance(one, dict) else None
        if isinstance(path, str):
            ends = [str(one[end]) for end in ("start_line", "end_line") if one.get(end)]
            lines.append(f"see {path}" + (f":{'-'.join(ends)}" if ends else ""))
        else:
            lines.append(f"see {shown_json(one)}")
    if votes is not None:
        lines.append(f"votes: {votes[0]} up, {votes[1]} down")
    return "\n".join(lines)


_MAGIC: Final = b"SQLite format 3\0"
_JOURNALS: Final = ("-wal", "-journal")
_TRIES: Final = 4  # to copy a database that stands still meanwhile
_BYTES_MAX: Final = 16 * 1024 * 1024 * 1024
_TEXT_BYTES_MAX: Final = 16 * 1024 * 1024
_STEPS: Final = 10_000  # of SQLite's machine between two looks at the limit
_ROW_STEPS_MAX: Final = 5_000_000_000  # until the next row: sorting comes before the first


class _Kind(NamedTuple):
    """A table that is recognised, the columns that it must have, and what reads it."""

    source: str
    table: str
    needed: frozenset[str]
    read: Callable[[_Tables, StatedFile], Iterator[FileStatement]]
    whole: bool  # what it does not hold was deleted there


def is_database(path: Path) -> bool:
    """Tell by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def database_source(path: Path) -> str | None:
    """The source of a database; None where it holds no table that is known, or cannot be read."""
    if not is_database(path):
        return None
    with suppress(InputError, OSError, sqlite3.Error):
        kind = _kind_in(path)
        return kind.source if kind is not None else None
    return None


def check_database(path: Path, source: str | None = None) -> _Kind:
    """The table that a database is read by.

    Raises InputError for one without the tables and columns that are needed, of another source, or
    that is written to all the time.
    """
    try:
        kind = _kind_in(path)
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be read as SQLite: {error}", where="paths") from error
    if kind is not None and source in (None, kind.source):
        return kind
    known = "; or ".join(
        f"{one.table} with {', '.join(sorted(one.needed))} ({one.source})"
        for one in _KINDS
        if source in (None, one.source)
    )
    raise InputError(
        f"{path}: a SQLite database; expected the table {known}; found none such", where="paths"
    )


def state_of_journals(path: Path) -> list[int]:
    """What tells whether the journals beside a database have changed since; [] without any."""
    found: list[int] = []
    for ending in _JOURNALS:
        with suppress(OSError):
            stat = Path(f"{path}{ending}").stat()
            found += [stat.st_size, stat.st_mtime_ns] if stat.st_size else []
    return found


def statements_of_database(path: Path, source: str) -> StatedFile:
    """What a database of a source states, read as it is asked for.

    It is named by its place, as a program has one of them under the same name everywhere. Raises
    InputError as `check_database`.
    """
    kind = check_database(path, source)
    origin = f"{path.name}-{json_digest(str(path))[:12]}"
    told = StatedFile(
        origin=origin,
        prefix=f"{kind.source}/",
        statements=(),
        whole=kind.whole,
        keeper=kind.source,
    )
    told.statements = _stated(path, kind, told)
    return told


def _stated(path: Path, kind: _Kind, told: StatedFile) -> Iterator[FileStatement]:
    try:
        with _opened(path) as tables:
            if kind.needed <= tables.columns.get(kind.table, frozenset()):
                yield from kind.read(tables, told)
                return
        told.whole = False
        told.skipped.append("changing file")  # its schema, meanwhile
    except (InputError, sqlite3.Error, OSError) as error:
        told.whole = False
        told.skipped.append("damaged file" if isinstance(error, sqlite3.Error) else "changing file")


def _kind_in(path: Path) -> _Kind | None:
    """Which table a database has; without journals its file alone says so, and is not copied."""
    if not state_of_journals(path):
        with closing(_connected(path, "mode=ro&immutable=1")) as connection:
            return _kind_of(_Tables(connection))
    with _opened(path) as tables:
        return _kind_of(tables)


def _kind_of(tables: _Tables) -> _Kind | None:
    for kind in _KINDS:
        if kind.needed <= tables.columns.get(kind.table, frozenset()):
            return kind
    return None


@contextmanager
def _opened(path: Path) -> Iterator[_Tables]:
    """The tables of a copy of the database, which lives as long as this is entered."""
    with tempfile.TemporaryDirectory(prefix="memplane-") as folder:
        copy = Path(folder) / "copy.db"
        _copy_still(path, copy)
        with closing(_connected(copy, "mode=rw")) as connection:
            yield _Tables(connection)


def _connected(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)


def _copy_still(path: Path, copy: Path) -> None:
    """Copy a database and its journals as they are at one moment; InputError if there was none."""
    for _ in range(_TRIES):
        before = _stats(path)
        if sum(size for _, size, _ in before) > _BYTES_MAX:
            raise InputError(f"{path}: more than {_BYTES_MAX >> 30} GiB", where="paths")
        for ending, _, _ in before:
            shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
        if _stats(path) == before:
            return
        for ending in _JOURNALS:
            Path(f"{copy}{ending}").unlink(missing_ok=True)
    raise InputError(
        f"{path}: was written to each of {_TRIES} times that it was copied; stop its program, or "
        "import it again later",
        where="paths",
    )


def _stats(path: Path) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for ending in ("", *_JOURNALS):
        try:
            stat = Path(f"{path}{ending}").stat()
        except OSError:
            if not ending:
                raise
            continue
        if stat.st_size:
            found.append((ending, stat.st_size, stat.st_mtime_ns))
    return found


class _Tables:
    """The real tables of a database and their stored columns. Raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        for limit, value in (
            (sqlite3.SQLITE_LIMIT_LENGTH, _TEXT_BYTES_MAX),
            (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        ):
            connection.setlimit(limit, value)
        connection.execute("PRAGMA query_only=1")
        connection.execute("PRAGMA trusted_schema=0")
        connection.execute("PRAGMA cell_size_check=1")
        self._steps = 0
        connection.set_progress_handler(self._step, _STEPS)
        listed = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type='table' AND sql LIKE 'CREATE TABLE%' "
            "LIMIT 500"
        ).fetchall()
        self.columns = {name: self._stored(name) for (name,) in listed if isinstance(name, str)}

    def rows(self, table: str, order: str, where: str = "") -> Iterator[dict[str, Any]]:
        """The rows of a table, by a column; `where` compares columns that are there."""
        names = sorted(self.columns[table])
        listed = ", ".join(map(_quoted, names))
        condition = f" WHERE {where}" if where else ""
        cursor = self._connection.execute(
            f"SELECT {listed} FROM {_quoted(table)}{condition} ORDER BY {order}"  # noqa: S608 - quoted
        )
        for row in cursor:
            self._steps = 0
            yield dict(zip(names, row, strict=True))

    def count(self, table: str) -> int:
        """How many rows a table has, 0 where it is not there."""
        if table not in self.columns:
            return 0
        (found,) = self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()  # noqa: S608 - quoted
        return int(found)

    def _stored(self, table: str) -> frozenset[str]:
        listed = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        return frozenset(row[1] for row in listed if row[6] == 0)

    def _step(self) -> int:
        self._steps += _STEPS
        return int(self._steps > _ROW_STEPS_MAX)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _mem0_history(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    """The last text of each memory, by its last change."""
    last: str | None = None
    held: dict[str, Any] = {}
    for row in tables.rows("history", '"memory_id", coalesce("updated_at", "created_at"), rowid'):
        if last is not None and row["memory_id"] != last:
            yield from _remembered(held, told)
        last, held = row["memory_id"], row
    yield from _remembered(held, told)


def _remembered(row: Mapping[str, Any], told: StatedFile) -> Iterator[FileStatement]:
    if not row:
        return
    deleted = row.get("event") == "DELETE" or row.get("is_deleted") == 1
    yield from mem0_statement(
        {
            "id": row.get("memory_id"),
            "memory": "" if row.get("new_memory") is None else row["new_memory"],
            "updated_at": row.get("updated_at"),
            "created_at": row.get("created_at"),
            "state": "deleted" if deleted else "",
        },
        told,
    )


def _openmemory(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    names = {
        table: {row["id"]: word_of(row["name"]) for row in tables.rows(table, "rowid")}
        for table in ("apps", "categories")
        if {"id", "name"} <= tables.columns.get(table, frozenset())
    }
    groups: dict[Any, list[str]] = {}
    if "memory_categories" in tables.columns:
        for row in tables.rows("memory_categories", "rowid"):
            named = names.get("categories", {}).get(row.get("category_id"))
            if named:
                groups.setdefault(row.get("memory_id"), []).append(named)
    for row in tables.rows("memories", "rowid"):
        yield from mem0_statement(
            {
                **row,
                "metadata": _json_of(row.get("metadata")),
                "user_id": None,
                "app_id": names.get("apps", {}).get(row.get("app_id")),
                "categories": groups.get(row["id"], []),
            },
            told,
        )


def _langgraph(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    for row in tables.rows("store", "rowid"):
        yield from langgraph_statement(row, told)


_CLAUDE_MEM_TYPES: Final = ("type", "concepts")
_SUMMARY_PARTS: Final = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def _claude_mem(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    for row in tables.rows("observations", '"id"'):
        parts = [row.get(one) for one in ("title", "subtitle", "narrative", "text")]
        facts = _list_of(row.get("facts"))
        lines = [one.strip() for one in parts if isinstance(one, str)]
        lines += [f"- {fact}" for fact in facts if isinstance(fact, str)]
        words = [row.get("type"), *_list_of(row.get("concepts"))]
        yield from _of_session(row, "", "observation", lines, words, told)
    if {"id", "memory_session_id", "created_at"} <= tables.columns.get(
        "session_summaries", frozenset()
    ):
        for row in tables.rows("session_summaries", '"id"'):
            lines = [
                f"{part.replace('_', ' ')}: {row[part].strip()}"
                for part in _SUMMARY_PARTS
                if isinstance(row.get(part), str) and row[part].strip()
            ]
            yield from _of_session(row, "s", "summary", lines, [], told)
    for table, noun in (("user_prompts", "prompt"), ("tool_uses", "tool call")):
        told.skipped += [noun] * tables.count(table)


def _of_session(
    row: Mapping[str, Any],
    letter: str,
    kind: str,
    lines: list[str],
    words: list[Any],
    told: StatedFile,
) -> Iterator[FileStatement]:
    text = "\n".join(dict.fromkeys(filter(None, lines)))
    session, number = word_of(row.get("memory_session_id")), word_of(row.get("id"))
    if not text or not session or not number:
        told.skipped.append("malformed memory" if text else "empty text")
        return
    project = word_of(row.get("project"))
    yield FileStatement(
        key_of(CLAUDE_MEM, session, f"{letter}{number}"),
        kind,
        text,
        tags_of(words),
        ts=stored_time(row.get("created_at_epoch")) or stored_time(row.get("created_at")),
        about=kept_about(
            project=project,
            session=session,
            read=_list_of(row.get("files_read")),
            modified=_list_of(row.get("files_modified")) or _list_of(row.get("files_edited")),
        ),
        project=project,
    )


def _json_of(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None


def _list_of(value: Any) -> list[Any]:
    """A list that is stored as JSON, or as names with commas between them."""
    found = _json_of(value)
    if isinstance(found, list):
        return found
    named = value.split(",") if isinstance(value, str) and found is None else []
    return [one.strip() for one in named if one.strip()]


_KINDS: Final = (
    _Kind(
        CLAUDE_MEM,
        "observations",
        frozenset({"id", "memory_session_id", "project", "type", "created_at"}),
        _claude_mem,
        whole=False,
    ),
    _Kind(LANGGRAPH, "store", frozenset({"prefix", "key", "value"}), _langgraph, whole=True),
    _Kind(
        MEM0,
        "memories",
        frozenset({"id", "content", "state", "app_id", "updated_at"}),
        _openmemory,
        whole=False,
    ),
    _Kind(
        MEM0,
        "history",
        frozenset({"memory_id", "new_memory", "event", "created_at", "updated_at"}),
        _mem0_history,
        whole=False,
    ),
)
