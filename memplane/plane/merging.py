"""An export taken into a plane that has events of its own: recorded anew, with where they are from.

Ids stay, so that a second time records nothing. `data.origin` names the plane and the seq, and
the moment by which values and forgets of several planes are ordered (`projections.order`): what is
older than what is here enters history, and takes nothing's place.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import InputError, WriteError
from memplane.event import GLOBAL, decode
from memplane.intake.check import OWN_KINDS, is_checksum
from memplane.intake.redact import masked
from memplane.intake.skeleton import with_permitted_actor
from memplane.log.bodies import body_path, store_body
from memplane.log.disk import Disk, drop
from memplane.log.export import Body, LogLines, Opened, Row, read_export
from memplane.log.format import line_id
from memplane.projections.artifacts import COPY, facts_of
from memplane.projections.order import Moments, originated

if TYPE_CHECKING:
    from memplane.event import Draft
    from memplane.plane.engine import Engine
    from memplane.ports import Appended

__all__ = ["LISTED_MAX", "MergeReport", "NotTaken", "merge"]

LISTED_MAX: Final = 100
_GIVEN_ANEW: Final = ("seq", "dur", "rec", "h", "tokens")
_ROWS_AT_ONCE: Final = 256
_TEXT_AT_ONCE: Final = 8 * 1024 * 1024
_NAMED: Final = ("key", "session", "source")  # what a forget names beside ids
_IDS_AT_ONCE: Final = 200  # of an event that forgets

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class NotTaken:
    """An event that was not recorded; `seq` is that of the exported plane.

    `reason`: invalid, conflict (the id is another event's), purged (it was erased here), or lost
    (its text was lost before it was exported).
    """

    seq: int
    id: str
    reason: str
    message: str


@dataclass(slots=True)
class MergeReport:
    """What became of the events of an export.

    `skipped`: those about the log that they came from. `purged` were erased there; of these,
    `still_here` names the ids, at most 100, that this plane still holds. `refused` lists 100.
    `kept` counts keys of which older values were recorded, and whose newer one here stays in force.
    """

    recorded: int = 0
    repeated: int = 0
    refusals: int = 0
    skipped: int = 0
    purged: int = 0
    kept: int = 0
    refused: list[NotTaken] = field(default_factory=list)
    still_here: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def merge(
    engine: Engine, file: IO[bytes], name: str, progress: Progress | None = None
) -> MergeReport:  # fmt: skip
    """Record the events of an export that was checked."""
    merging = _Merging(engine, file)
    try:
        for item in read_export(file, name, progress):
            merging.take(item)
        merging.flush()
        merging.report.kept = merging.kept()
    except WriteError as error:
        refused, recorded = str(error).partition("; ")[0], merging.report.recorded
        raise WriteError(
            f"{refused}; {recorded} events of the export were recorded; make room, and restore it "
            "again: each is taken in once"
        ) from error
    return merging.report


class _Merging:
    """One export on its way into a plane."""

    def __init__(self, engine: Engine, file: IO[bytes]) -> None:
        self._engine, self._file = engine, file
        self._plane = ""
        self._bodies: dict[str, int] = {}  # where each begins in the export
        self._rows: list[dict[str, Any]] = []
        self._seqs: list[int] = []
        self._copies: list[tuple[str, ...]] = []  # files that belong to each row
        self._recalled: dict[str, list[str]] = {}  # by id: blocks moved out of the text of a row
        self._text = 0
        # The ids of the export by what a forget may name: session or source, and its value.
        self._ids: dict[tuple[str, str], list[str]] = {}
        self._moments = Moments()  # of the plane that was exported
        self._recorded: dict[tuple[str, str], set[int]] = {}  # seqs of new values, by their key
        self.report = MergeReport()

    def take(self, item: object) -> None:
        """Take one part of the export."""
        if isinstance(item, Opened):
            self._plane = item.plane
        elif isinstance(item, Body):
            self._bodies.setdefault(item.sha256, item.place)
        elif isinstance(item, Row):
            self._add(item.fields)
        elif isinstance(item, LogLines):
            ends = [*item.run.starts[1:], item.run.end]
            for start, end in zip(item.run.starts, ends, strict=True):
                raw = item.data[start : end - 1]
                if start in item.run.erased:
                    self._purged(line_id(raw))
                else:
                    self._add(json.loads(raw))

    def flush(self) -> None:
        """Record what waits, with the files that belong to it."""
        rows, self._rows, self._text = self._rows, [], 0
        seqs, self._seqs = self._seqs, []
        copies, self._copies = self._copies, []
        blocks, self._recalled = self._recalled, {}
        if not rows:
            return
        engine, report = self._engine, self.report
        drafting = engine.drafting()

        def make(row: Any, where: str) -> Draft:
            return drafting(row, where, blocks.get(row["id"], ()))

        placed = self._place(rows, copies)
        done, refused = engine.recorder.many(rows, len(rows), make, strict=False)
        again = sum(appended.duplicate for appended in done)
        report.recorded += len(done) - again
        report.repeated += again
        self._note(rows, done)
        for one in sorted(refused):
            # Its place in this batch says nothing to anybody.
            message = one.message.removeprefix(f"rows[{one.index}]").lstrip(".: ")
            self._refuse(seqs[one.index], rows[one.index], one.reason, message)
        gone = {one.index for one in refused}
        needed = {one for at, digests in enumerate(copies) if at not in gone for one in digests}
        for digest in placed - needed:
            drop(body_path(engine.log.home, digest), engine.log.home)

    def _note(self, rows: list[dict[str, Any]], done: list[Appended]) -> None:
        """Note which keys got values that this plane did not have."""
        new = {one.id: one.seq for one in done if not one.duplicate}
        for row in rows:
            if row.get("key") is not None and row["id"] in new:
                place = row.get("ns", GLOBAL), row["key"]
                self._recorded.setdefault(place, set()).add(new[row["id"]])

    def kept(self) -> int:
        """How many values stay in force though others of their keys were recorded."""
        if not self._recorded:
            return 0
        with self._engine.lock:
            current = self._engine.caught_up().memories.current
            found = ((current(*place), seqs) for place, seqs in self._recorded.items())
            return sum(row is not None and row.seq not in seqs for row, seqs in found)

    def _place(self, rows: list[dict[str, Any]], copies: list[tuple[str, ...]]) -> set[str]:
        """Store the files of the rows, as all bodies before their events; return the new ones.

        What was purged here does not come back with its file.
        """
        log, placed = self._engine.log, set[str]()
        for row, digests in zip(rows, copies, strict=True):
            if digests and log.purged_as(str(row.get("id"))) is None:
                for digest in digests:
                    body = self._body(digest)
                    if body is not None:
                        if not nofollow.is_file(body_path(log.home, digest)):
                            placed.add(digest)
                        _store_copy(log.home, body)
        return placed

    def _add(self, fields: dict[str, Any]) -> None:
        kind, seq = fields.get("kind"), fields["seq"]
        if kind in OWN_KINDS:
            self.report.skipped += 1
            return
        row = {name: value for name, value in fields.items() if name not in _GIVEN_ANEW}
        event = decode(fields)
        moment = self._moments.see(event)
        data = dict(originated(event, self._plane, moment))
        said = data.pop("body", None)
        if said is not None:
            text = self._body(str(said.get("sha256")))
            if text is None:
                self._refuse(seq, row, "lost", "its whole text was lost before it was exported")
                return
            row["text"] = text.decode()
        self._take_recalled(row["id"], data)
        row["data"] = data
        row = with_permitted_actor(row)
        for each in self._own(row):
            self._rows.append(each)
            self._seqs.append(seq)
            self._copies.append(tuple(_files_of(fields)))
        self._text += len(row.get("text", ""))
        if len(self._rows) >= _ROWS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
            self.flush()

    def _take_recalled(self, id_: str, data: dict[str, Any]) -> None:
        """Put the blocks that the event's data names beside its row; lost ones by checksum only."""
        named = data.pop("recalled", None)
        if not isinstance(named, list):
            return
        blocks, checksums = [], []
        for one in named:
            digest = one.get("sha256") if isinstance(one, dict) else None
            block = self._body(digest) if isinstance(digest, str) else None
            if block is not None:
                blocks.append(block.decode())
                self._text += len(blocks[-1])
            elif is_checksum(one):
                checksums.append(one)
        if blocks:
            self._recalled[id_] = blocks
        if checksums:
            data["recalled"] = checksums

    def _own(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The row; a forget names what the export has, by id: it means nothing that is here."""
        named = row["data"].get("forget")
        if row.get("kind") != "forget" or not isinstance(named, dict) or "ids" in named:
            for place in _places(row):
                self._ids.setdefault(place, []).append(row["id"])
            yield row
            return
        (name, value) = next(((n, named[n]) for n in _NAMED if n in named), ("", ""))
        if name == "key":  # it means the value that the key had there
            current = self._moments.in_force(named.get("ns", GLOBAL), value)
            ids = [] if current is None else [current]
        else:
            ids = self._ids.get((name, value), [])
        for at in range(0, len(ids), _IDS_AT_ONCE):
            part = {**row["data"], "forget": {"ids": ids[at : at + _IDS_AT_ONCE]}}
            yield {**row, "data": part} | ({"id": f"{row['id']}/{at}"} if at else {})

    def _purged(self, id_: str | None) -> None:
        report = self.report
        report.purged += 1
        if id_ is not None and len(report.still_here) < LISTED_MAX:
            self.flush()
            if self._engine.log.find(id_) is not None:
                report.still_here.append(id_)

    def _refuse(self, seq: int, row: dict[str, Any], reason: str, message: str) -> None:
        self.report.refusals += 1
        if len(self.report.refused) < LISTED_MAX:
            named = masked(str(row.get("id")))[:200]
            self.report.refused.append(NotTaken(seq, named, reason, message))

    def _body(self, digest: str) -> bytes | None:
        """A body by its hash, from its place in the export; None where that had lost it."""
        place = self._bodies.get(digest)
        if place is None:
            return None
        here = self._file.tell()
        self._file.seek(place)
        parts = bytearray()
        while True:
            part = json.loads(self._file.readline())
            if part.get("body") != digest:
                raise InputError("the export changed while it was read; restore it again")
            text = part.get("utf8")
            parts += text.encode() if text is not None else b64decode(part["base64"])
            if len(parts) >= part["bytes"]:
                break
        self._file.seek(here)
        return bytes(parts)


def _places(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """By what a forget may name an event."""
    if row.get("session") is not None:
        yield "session", row["session"]
    end = row["id"].find(":")
    while end >= 0:
        yield "source", row["id"][:end]
        end = row["id"].find(":", end + 1)


def _files_of(fields: dict[str, Any]) -> Iterator[str]:
    """The hashes of the files that belong to an artifact."""
    if fields.get("kind") != "artifact":
        return
    facts = facts_of(decode(fields))
    if facts is not None:
        if facts.stored == COPY:
            yield facts.sha256
        if facts.sidecar is not None:
            yield facts.sidecar.sha256


def _store_copy(home: str, body: bytes) -> None:
    try:
        store_body(home, body, Disk())
    except OSError as error:
        raise WriteError(f"{home}/bodies: {error.strerror}; not all was recorded") from error
