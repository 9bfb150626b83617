"""GitHub's ledgers as a source: what the records of a ledger come to becomes facts of the plane.

`memplane.upkeep.export` has the format; a ledger is the folder of its shards, whichever of
them was named. Records are replayed in the order of their graph. Which of its types a ledger has
stands in the workflow and not in the branch; the operations tell:

* `map`: the value that each key holds, under `ledger/<ledger>/<key>`.
* `table`: the row that each primary key holds. Which field is the key is found from the rows and
  the keys of updates and deletions; where that is not to be seen, each record is a fact.
* `set`, `counter`: each value that is in it; the sum of each name.
* `claims`: each claim with its reason and citations, and how many votes it has.
* `log`, and records of a ledger without a type: a fact for each record.

`<ledger>` is the hash of its oldest record without a parent, the same in every checkout. What a
ledger no longer holds is archived here, unless a line of it could not be read. Agents wrote it, in
jobs that anybody's words may have reached: all of it is an agent's word and nothing but a fact.
What this plane itself exported to the ledger is passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.importers.memories import kept_about, shown_json, shown_value, tags_of
from memplane.importers.statements import EXPORTER, FileStatement, StatedFile, key_of
from memplane.lazy import NamedTuple
from memplane.nofollow import folder_names
from memplane.upkeep.export import (
    FILES_MAX,
    LedgerRecord,
    canonical_json,
    read_ledger,
    shards_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LEDGER: Final = "ledger"

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
