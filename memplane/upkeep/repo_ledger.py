"""GitHub's ledgers: records of agents' memory in JSON lines, in a branch of a repository.

The format is that of GitHub Agentic Workflows ("Git-backed Ledger Specification" 1.1, working
draft; as "Repository Memory Ledger Specification" 1.0 before). In `ledger/shards/<uuid>.jsonl` each
line is one record as canonical JSON::

    {"id":"ldg-<uuid>","parents":["sha256:…"],"payload":{…},"sha":"sha256:…",
     "timestamp":"2026-03-01T10:00:00.000Z","type":"ledger_append","version":1}

`sha` is the SHA-256 of the line without `sha`, `parents` are those of the records that nothing
followed when it was written, so that branches can be merged: records form a graph, and are read in
its order, those of one rank by their sha. A line that is not exactly so is named and passed over.

Canonical JSON is what JavaScript writes of an object whose members were sorted by UTF-16 code
units: names that are array indices come first, by number; a lone surrogate is escaped.

`export_to_ledger` writes the memories that hold as operations of a ledger of type `map`
(`tools: ledger: memory: {type: map}`): `put` for one that is new or changed, `delete` for one that
no longer holds. A ledger's own history keeps what was deleted, and whoever may read the repository
may read it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from memplane import nofollow
from memplane.errors import InputError, WriteError
from memplane.event import TYPED_KINDS
from memplane.lazy import NamedTuple
from memplane.log.disk import Disk
from memplane.upkeep.export import EventSelector, ExportFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.ports import Progress

SHARDS: Final = ("ledger", "shards")
FILES_MAX: Final = 1024
_SEGMENT_BYTES: Final = 100 * 1024  # of a file that is written; GitHub's default
_SEGMENT_BYTES_MAX: Final = 10 * 1024 * 1024  # of one that is read
_LEDGER_BYTES_MAX: Final = 100 * 1024 * 1024
_RECORD_BYTES_MAX: Final = 32 * 1024
_PARENTS_MAX: Final = 64
_DEPTH_MAX: Final = 32
_TYPE_MAX: Final = 128
_INDEX_MAX: Final = 2**32 - 2  # of a JavaScript array
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_SHARD: Final = re.compile(rf"{_UUID}\.jsonl")
_ID: Final = re.compile(rf"ldg-{_UUID}")
_SHA: Final = re.compile("sha256:[0-9a-f]{64}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FIELDS: Final = frozenset({"version", "id", "type", "timestamp", "parents", "payload", "sha"})
_NOT_SHARED: Final = frozenset({"preference", "rule"})
_CHANNEL: Final = "public"
_TYPE: Final = "ledger_append"


class LedgerRecord(NamedTuple):
    """One record; `payload` is any JSON."""

    id: str
    type: str
    timestamp: str
    parents: tuple[str, ...]
    payload: Any
    sha: str


class LedgerFault(NamedTuple):
    """What is wrong, in GitHub's words, and where; `line` 0: with the whole file."""

    code: str
    file: str
    line: int = 0


class LedgerState(NamedTuple):
    """The records in the order of the graph, and those that nothing follows, by their sha."""

    records: tuple[LedgerRecord, ...]
    heads: tuple[str, ...]
    files: int
    faults: tuple[LedgerFault, ...]


class LedgerReport(NamedTuple):
    """What was written: operations, and memories that did not leave, by reason."""

    path: str
    put: int
    deleted: int
    unchanged: int
    files: int
    withheld: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return self._asdict()


# The format.


def canonical_json(value: Any, depth: int = 0) -> str:
    """JSON as ledgers have it. Raises ValueError for what is nested deeper than 32."""
    if depth > _DEPTH_MAX:
        raise ValueError("nested deeper than 32")
    if isinstance(value, _Number):
        return value.written
    if isinstance(value, dict):
        members = (
            f"{_string(name)}:{canonical_json(value[name], depth + 1)}"
            for name in sorted(value, key=_place)
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical_json(one, depth + 1) for one in value) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


class _Number(NamedTuple):
    """A number as it is written."""

    written: str


def _place(name: str) -> tuple[int, int, bytes]:
    if _INDEX.fullmatch(name) and int(name) <= _INDEX_MAX:
        return 0, int(name), b""
    return 1, 0, name.encode("utf-16-be", "surrogatepass")


def _string(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _refused(word: str) -> Any:
    raise ValueError(word)


def record_of_line(line: bytes) -> LedgerRecord | str:
    """The record on a line without its newline, or what is wrong with it."""
    try:
        text = line.decode("utf-8")
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_refused)
    except (ValueError, RecursionError):
        return "invalid-json"
    if (fault := _fault_in(value, text)) is not None:
        return fault
    try:
        payload = orjson.loads(line)["payload"]
    except ValueError:  # a lone surrogate
        payload = json.loads(text)["payload"]
    parents = tuple(value["parents"])
    return LedgerRecord(
        value["id"], value["type"], value["timestamp"], parents, payload, value["sha"]
    )


def _fault_in(value: Any, text: str) -> str | None:
    """What is wrong with a parsed line, None where it is a record."""
    if not isinstance(value, dict):
        return "invalid-envelope"
    if "version" in value and value["version"] != _Number("1"):
        return "unsupported-version"
    try:
        if not _is_envelope(value) or canonical_json(value) != text:
            return "invalid-envelope"
    except (ValueError, RecursionError):
        return "invalid-envelope"
    body = {name: one for name, one in value.items() if name != "sha"}
    return None if _sha_of(body) == value["sha"] else "invalid-sha"


def _is_envelope(value: Mapping[str, Any]) -> bool:
    kind, parents = value.get("type"), value.get("parents")
    if value.keys() != _FIELDS or not isinstance(kind, str) or not isinstance(parents, list):
        return False
    return (
        0 < len(kind) <= _TYPE_MAX
        and _is_form(_ID, value["id"])
        and _is_form(_SHA, value["sha"])
        and _is_time(value["timestamp"])
        and len(parents) <= _PARENTS_MAX
        and all(_is_form(_SHA, one) for one in parents)
        and parents == sorted(set(parents))
    )


def _is_form(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    if not _is_form(_TIME, value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _sha_of(value: Any) -> str:
    return f"sha256:{hashlib.sha256(canonical_json(value).encode()).hexdigest()}"


def uuid_of(digest: str) -> str:
    """A version 4 UUID made of a SHA-256 in hex, as GitHub makes one."""
    variant = f"{(int(digest[16:18], 16) & 0x3F) | 0x80:02x}"
    return "-".join(
        (digest[:8], digest[8:12], f"4{digest[13:16]}", variant + digest[18:20], digest[20:32])
    )


# Reading.


def shards_of(path: Path) -> Path | None:
    """The folder of the shards that a path names: a checkout, `ledger`, it itself, or a shard."""
    for folder in (path / SHARDS[0] / SHARDS[1], path / SHARDS[1], path, path.parent):
        if folder.parts[-2:] == SHARDS and folder.is_dir():
            return folder
    return None


def read_ledger(shards: Path) -> LedgerState:
    """The ledger in a folder of shards, at most 1,024 files and 100 MiB of it.

    Links are not followed. Raises OSError where the folder cannot be read.
    """
    names = [name for name in nofollow.folder_names(shards) if name.endswith(".jsonl")]
    faults = [LedgerFault("too-many-files", names[FILES_MAX])] if len(names) > FILES_MAX else []
    met: dict[str, LedgerRecord] = {}
    left = _LEDGER_BYTES_MAX
    for name in names[:FILES_MAX]:
        if not _SHARD.fullmatch(name):
            faults.append(LedgerFault("invalid-envelope", name))
            continue
        try:
            content = nofollow.read_bytes(shards / name, _SEGMENT_BYTES_MAX + 1)
        except OSError:  # a link, or no file
            faults.append(LedgerFault("invalid-envelope", name))
            continue
        left -= len(content)
        if len(content) > _SEGMENT_BYTES_MAX or left < 0:
            faults.append(LedgerFault("too-large", name))
            continue
        faults += _take(content, name, met)
    records = _in_order(met)
    if len(records) < len(met):
        faults.append(LedgerFault("cycle", ""))
    followed = {parent for record in records for parent in record.parents}
    heads = sorted(record.sha for record in records if record.sha not in followed)
    return LedgerState(tuple(records), tuple(heads), len(names), tuple(faults))


def _take(content: bytes, name: str, met: dict[str, LedgerRecord]) -> Iterator[LedgerFault]:
    *lines, rest = content.split(b"\n")
    if rest:
        yield LedgerFault("truncated-record", name, len(lines) + 1)
    for number, line in enumerate(lines, 1):
        made = record_of_line(line)
        if isinstance(made, str):
            yield LedgerFault(made, name, number)
        else:  # a compaction that was cut short leaves a record in two files
            met.setdefault(made.sha, made)


def _in_order(met: Mapping[str, LedgerRecord]) -> list[LedgerRecord]:
    """The records by rank and sha: a rank behind the last of its parents that are there."""
    waits = {sha: sum(parent in met for parent in record.parents) for sha, record in met.items()}
    followers: dict[str, list[str]] = defaultdict(list)
    for sha, record in met.items():
        for parent in record.parents:
            followers[parent].append(sha)
    ordered: list[LedgerRecord] = []
    ready = sorted(sha for sha, count in waits.items() if not count)
    while ready:
        ordered += (met[sha] for sha in ready)
        following: list[str] = []
        for sha in ready:
            for one in followers[sha]:
                waits[one] -= 1
                if not waits[one]:
                    following.append(one)
        ready = sorted(following)
    return ordered


# Writing.


def export_to_ledger(
    context: PlaneContext,
    to: str | os.PathLike[str],
    asked: ExportFilter,
    *,
    progress: Progress | None = None,
) -> LedgerReport:
    """Write the memories that hold to the ledger in a folder; see `PlaneUpkeep.export_ledger`."""
    context.check_open()
    top = Path(to).absolute()
    if not top.is_dir():
        raise InputError(f"{top}: expected a folder, as a checkout of the branch", where="to")
    shards = top.joinpath(*SHARDS)
    try:
        nofollow.make_folder(shards, top)
        state = read_ledger(shards)
    except OSError as error:
        raise InputError(f"{shards}: {error.strerror or error}", where="to") from error
    if state.faults:
        fault = state.faults[0]
        raise InputError(
            f"{shards / fault.file}: line {fault.line}: {fault.code}, one of "
            f"{len(state.faults)} faults; GitHub would refuse to add to such a ledger, and so does "
            "this: mend it or take it from the branch anew",
            where="to",
        )
    if len(state.heads) > _PARENTS_MAX:
        raise InputError(f"{shards}: {len(state.heads)} heads, more than 64", where="to")
    return _Writing(context, top, shards, state, asked).write(progress)


class _Writing:
    def __init__(
        self,
        context: PlaneContext,
        top: Path,
        shards: Path,
        state: LedgerState,
        asked: ExportFilter,
    ) -> None:
        self._context, self._top, self._shards, self._asked = context, top, shards, asked
        self._plane = context.home.plane_id
        self._files = state.files
        self._parents = list(state.heads)
        self._last_sha = ",".join(state.heads)
        self._there = _map_of(state.records)
        self._lines: list[bytes] = []
        self._bytes = self._made = 0
        self._withheld: dict[str, int] = {}

    def write(self, progress: Progress | None) -> LedgerReport:
        """Add what differs; the files appear whole, one after the other."""
        put = deleted = unchanged = 0
        present: set[str] = set()
        for key, value, moment in self._memories(progress):
            present.add(key)
            if self._there.get(key) == value:
                unchanged += 1
            elif self._add({"operation": "put", "key": key, "value": value}, moment):
                put += 1
            else:
                self._withhold("too long")
        if self._asked._replace(redact=False, secret=False).is_everything:
            now = self._context.clock()
            for key in sorted(self._there.keys() - present):
                value = self._there[key]
                if isinstance(value, dict) and value.get("plane") == self._plane:
                    deleted += self._add({"operation": "delete", "key": key}, now)
        self._flush()
        return LedgerReport(str(self._shards), put, deleted, unchanged, self._made, self._withheld)

    def _memories(self, progress: Progress | None) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Key, value and time of each memory that holds and may leave, in log order."""
        context = self._context
        chosen = EventSelector(context, self._asked, channel=_CHANNEL)
        with context.lock:
            memories = context.caught_up().memories
        head, now = context.head().seq, context.clock()
        taken: set[str] = set()
        for line in context.log.read(0, head):
            event = line.event
            if progress is not None and event.seq % 1024 == 0:
                progress(event.seq, head)
            if event.kind not in TYPED_KINDS or memories.archived(event) is not None:
                continue
            if event.valid_until is not None and event.valid_until <= now:
                continue
            if (reason := self._stays(event)) is not None:
                self._withhold(reason)
                continue
            row = chosen.leaving(event)
            if row is None or not row.get("text", "").strip():
                continue
            key = row.get("key") or f"memplane/{row['id']}"
            if key in taken:
                key = f"{event.ns.strip('/')}#{key}"
            taken.add(key)
            yield key, self._value(event, row), event.ts
        for reason, count in chosen.withheld.items():
            self._withheld[reason] = self._withheld.get(reason, 0) + count

    def _stays(self, event: Event) -> str | None:
        """Why a memory is not for a repository, whatever its sensitivity."""
        if event.kind in _NOT_SHARED:
            return f"{event.kind} of the user's"
        if event.id.startswith("ledger:"):
            return "from a ledger"
        return "of another person" if event.said_by == "person" else None

    def _value(self, event: Event, row: Mapping[str, Any]) -> dict[str, Any]:
        said = {
            "at": event.ts,
            "by": event.said_by,
            "kind": event.kind,
            "plane": self._plane,
            "tags": list(row.get("tags", ())),
            "text": row["text"],
        }
        return {name: one for name, one in said.items() if one}

    def _withhold(self, reason: str) -> None:
        self._withheld[reason] = self._withheld.get(reason, 0) + 1

    def _add(self, payload: dict[str, Any], moment: str) -> bool:
        """Put one record behind the others; False where it would be too long."""
        named = canonical_json([self._plane, self._last_sha, payload])
        id_ = f"ldg-{uuid_of(hashlib.sha256(named.encode()).hexdigest())}"
        body = {
            "version": 1,
            "id": id_,
            "type": _TYPE,
            "timestamp": f"{moment[:23]}Z",
            "parents": self._parents,
            "payload": {**payload, "id": id_},
        }
        sha = _sha_of(body)
        line = canonical_json({**body, "sha": sha}).encode() + b"\n"
        if len(line) > _RECORD_BYTES_MAX:
            return False
        if self._bytes + len(line) > _SEGMENT_BYTES:
            self._flush()
        self._parents, self._last_sha = [sha], sha
        self._lines.append(line)
        self._bytes += len(line)
        return True

    def _flush(self) -> None:
        data, self._lines, self._bytes = b"".join(self._lines), [], 0
        if not data:
            return
        if self._files >= FILES_MAX:
            raise WriteError(f"{self._shards}: holds {FILES_MAX} files, the most of a ledger")
        name = f"{uuid_of(hashlib.sha256(data).hexdigest())}.jsonl"
        try:
            Disk().publish(str(self._shards / name), data, str(self._top))
        except OSError as error:
            raise WriteError(f"{self._shards / name}: {error.strerror or error}") from error
        self._files += 1
        self._made += 1


def _map_of(records: Iterable[LedgerRecord]) -> dict[str, Any]:
    """What a ledger of type `map` holds."""
    held: dict[str, Any] = {}
    for record in records:
        said = record.payload
        key = said.get("key") if isinstance(said, dict) else None
        if not isinstance(key, str):
            continue
        if said.get("operation") == "put":
            held[key] = said.get("value")
        elif said.get("operation") == "delete":
            held.pop(key, None)
    return held
