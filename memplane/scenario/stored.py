"""Assertions about the log and the disk: what entries came from, what is kept, what is nowhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from memplane.event import Event
from memplane.home import open_home
from memplane.log import FileLog, verify
from memplane.pack.block import Entry
from memplane.scenario.finding import Finding, block_of, listed, quoted, texts
from memplane.scenario.scene import Scene

__all__ = ["STORED", "missing_events"]

_ALL: Final = "all"
# How a text may lie in a file beside as it is.
_ENCODINGS: Final = ("utf-8", "utf-16-le")


def _event(scene: Scene, id_: str) -> Event | None:
    """An event of the log, whoever may see it; None where there is none."""
    _ = scene.plane.policies  # raises where the plane cannot be asked
    line = scene.plane._log.find(id_)  # noqa: SLF001 - a plane shows what its reader may see
    return None if line is None else line.event


def missing_events(scene: Scene, ids: Iterable[str]) -> list[str]:
    """Those of the ids that no event of the log has."""
    return [id_ for id_ in ids if _event(scene, id_) is None]


def _traceability(scene: Scene, said: Mapping[str, Any]) -> Finding:
    block, target = block_of(scene, said), said["target"]
    must = said.get("must_have_refs", False)
    rooted = (
        "events that are in the log, and these others" if must else "events that are in the log"
    )
    expected = f"every entry of {quoted(target)} to name {rooted}"
    checked, faults = 0, list[str]()
    for entry in block.entries:
        events = [_event(scene, id_) for id_ in (*entry.events, *entry.parts)]
        kinds = {event.kind for event in events if event is not None}
        if target not in (_ALL, entry.section, *kinds):
            continue
        checked += 1
        faults += _untraced(scene, entry, events)
        if must:
            own = target if target in kinds else None
            faults += _unfounded(scene, [event for event in events if event is not None], own)
    if not checked:
        return Finding(False, expected, f"no entry of {quoted(target)}")
    return Finding(not faults, expected, listed(faults, f"it so in all {checked}"))


def _untraced(scene: Scene, entry: Entry, events: list[Event | None]) -> list[str]:
    """What does not lead from an entry to what it came from."""
    kind, _, named = entry.source.partition(":")
    if kind == "view":
        path, _, sha256 = named.rpartition("@")
        file = scene.home / path
        same = file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256
        return [] if same else [f"{quoted(entry.source)}, which is no view of the plane"]
    ids = (*entry.events, *entry.parts)
    lost = [quoted(id_) for id_, event in zip(ids, events, strict=True) if event is None]
    if lost:
        return [f"{', '.join(lost)}, which is not in the log, in {quoted(entry.text)}"]
    return [] if ids else [f"{quoted(entry.text)} without any event"]


def _unfounded(scene: Scene, events: list[Event], kind: str | None) -> list[str]:
    """Events (of the kind, where one is asked for) that name no others, or lost ones."""
    faults = []
    for event in events:
        if kind is not None and event.kind != kind:
            continue
        lost = missing_events(scene, event.refs)
        if not event.refs:
            faults.append(f"{quoted(event.id)} without refs")
        elif lost:
            faults.append(f"{quoted(event.id)} with refs to nothing: {listed(map(quoted, lost))}")
    return faults


def _redacted_on_disk(scene: Scene, said: Mapping[str, Any]) -> Finding:
    scene.close()  # what is still in memory is written
    secrets = texts(said, "text")
    expected = f"no {listed(map(quoted, secrets))} in any file of the plane"
    found, files, size = list[str](), 0, 0
    for file in scene.files_of_home():
        data = file.read_bytes()
        files, size = files + 1, size + len(data)
        place = file.relative_to(scene.home).as_posix()
        found += [f"{quoted(secret)} in {place}" for secret in secrets if _lies_in(secret, data)]
    return Finding(not found, expected, listed(found, f"none in {files} files, {size} bytes"))


def _lies_in(secret: str, data: bytes) -> bool:
    forms = {secret.encode(encoding) for encoding in _ENCODINGS}
    forms |= {json.dumps(secret, ensure_ascii=ascii_)[1:-1].encode() for ascii_ in (True, False)}
    return any(form in data for form in forms)


def _events_intact(scene: Scene, said: Mapping[str, Any]) -> Finding:
    acknowledged = scene.acknowledged
    expected = f"all {len(acknowledged)} acknowledged events once in the log"
    scene.close()
    home = scene.home
    plane_id = open_home(home).plane_id
    seen = _ids(home, plane_id, scene)
    lost = [id_ for id_ in dict.fromkeys(acknowledged) if seen.get(id_, 0) != 1]
    if lost:
        found = (f"{quoted(id_)} {_times(seen.get(id_, 0))}" for id_ in lost)
        return Finding(False, expected, listed(found))
    if said.get("verify", True):
        report = verify(home, plane_id)
        if not report.ok:
            return Finding(
                False, f"{expected}, and a log that verifies", listed(map(str, report.problems))
            )
    return Finding(True, expected, f"{len(acknowledged)} of them")


def _ids(home: Path, plane_id: str, scene: Scene) -> dict[str, int]:
    """How often each id is in the log."""
    seen: dict[str, int] = {}
    with FileLog(home, plane_id, clock=scene.now, read_only=True) as log:
        for line in log.read():
            seen[line.event.id] = seen.get(line.event.id, 0) + 1
    return seen


def _times(count: int) -> str:
    return "nowhere" if not count else f"{count} times"


STORED: Final = {
    "traceability": _traceability,
    "redacted_on_disk": _redacted_on_disk,
    "events_intact": _events_intact,
}
