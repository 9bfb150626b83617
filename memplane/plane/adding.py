"""Adding an artifact: the file is read once, checked for secrets, stored, then its event written.

The id of the event is made of what decides whether two are the same: content, name, text, key,
type, namespace, task, sensitivity. So processes that add the same file at once write one event.
"""

from __future__ import annotations

import hashlib
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.errors import ConflictError, InputError, WriteError
from memplane.event import encode
from memplane.home import asset
from memplane.intake.redact import shown
from memplane.intake.research import check_bundle, check_report
from memplane.lazy import regex
from memplane.log.bodies import body_path, store_body
from memplane.log.disk import Disk
from memplane.plane.artifact_files import Progress, Taken, decoded, mime_of, take
from memplane.plane.writing import Receipt
from memplane.ports import Appended
from memplane.projections.artifacts import COPY, REFERENCE, SCHEME, TYPES, Facts, facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memplane.event import Draft
    from memplane.intake import Redactor
    from memplane.plane.engine import Engine

__all__ = ["SUMMARY_CHARS_MAX", "Added", "add"]

SUMMARY_CHARS_MAX: Final = 4_000
_REPORT, _BUNDLE = TYPES
_OWN: Final = ("kind", "text", "data")
_MARK: Final = regex(r"\[redacted:([^\]]+)\]")
_BOMS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class Added(NamedTuple):
    """What became of a file. `redactions`: what was masked in the text that is stored, by rule."""

    receipt: Receipt
    facts: Facts
    redactions: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            **self.receipt.as_json(), "uri": facts.uri, "handle": facts.handle, "name": facts.name,
            "mime": facts.mime, "bytes": facts.bytes, "sha256": facts.sha256,
            "stored": facts.stored, "redactions": dict(self.redactions),
        }  # fmt: skip


class _Stored(NamedTuple):
    """The bytes that are kept, and what was masked in them."""

    data: bytes
    sha256: str
    redactions: Mapping[str, int]


def add(
    engine: Engine, path: str | os.PathLike[str], text: str, *, reference: bool, name: str | None,
    mime: str | None, type_: str | None, sidecar: str | os.PathLike[str] | None, redact: bool,
    progress: Progress | None, fields: dict[str, Any],
) -> Added:  # fmt: skip
    """Add a file; see `PlaneArtifacts.add`."""
    _check(text, type_, reference=reference, redact=redact, sidecar=sidecar, fields=fields)
    redactor = engine.intake(engine.watched.policies_or_last()).redactor
    taken = take(path, "path", reference=reference, progress=progress)
    named = taken.name if name is None else name
    data: dict[str, Any] = {
        "uri": "", "name": named, "mime": mime_of(named, taken.head) if mime is None else mime,
        "bytes": taken.size, "sha256": taken.sha256, "stored": REFERENCE if reference else COPY,
    }  # fmt: skip
    bodies: list[bytes] = []
    masked: dict[str, int] = {}
    if reference:
        data["path"] = taken.path
    else:
        stored = _clean(taken, named, redactor, redact=redact)
        data |= {"bytes": len(stored.data), "sha256": stored.sha256}
        bodies, masked = [stored.data], dict(stored.redactions)
    if type_ is not None:
        data["type"] = type_
        _research(type_, named, bodies, data, _sidecar(taken.path, sidecar, type_), redactor,
                  masked, redact=redact)  # fmt: skip
    data["uri"] = f"{SCHEME}{data['sha256']}"
    _check_data(data, redactor)
    row = {**fields, "kind": "artifact", "text": text, "data": data}
    draft = engine.drafting()(row, "")
    assert draft.body is None, "what is said of an artifact fits a line"
    facts = _facts_of_draft(data)
    appended = _append(engine, draft, row, facts, bodies)
    return Added(Receipt(appended, engine.durability, engine.log.line), facts, masked)


def _check(
    text: str, type_: str | None, *, reference: bool, redact: bool, sidecar: object,
    fields: Mapping[str, Any],
) -> None:  # fmt: skip
    for name in _OWN:
        if name in fields:
            raise InputError("is given by the call itself", where=name)
    if not isinstance(text, str) or len(text) > SUMMARY_CHARS_MAX:
        found = f"{len(text)}" if isinstance(text, str) else shown(text)
        raise InputError(
            f"expected at most {SUMMARY_CHARS_MAX} characters of what it is about, found {found}",
            where="text",
        )
    if type_ is not None and type_ not in TYPES:
        raise InputError(f"expected one of {', '.join(TYPES)}, found {shown(type_)}", where="type")
    if sidecar is not None and type_ != _REPORT:
        raise InputError(f"only a {_REPORT} has a sidecar", where="sidecar")
    if reference and (redact or type_ is not None):
        which = "redact" if redact else "type"
        raise InputError("a reference stays as it is: add a copy", where=which)


def _check_data(data: dict[str, Any], redactor: Redactor) -> None:
    """Refuse what could not be read back: a name that leads elsewhere, a mask in what is compared.

    The log redacts data; a masked path or hash would name nothing.
    """
    for field, value in data.items():
        named = field in ("name", "path") and redactor.in_name(value)
        if named or redactor.redact_data({field: value})[0] != {field: value}:
            raise InputError(
                "holds what looks like a secret (not repeated here); a file is found again by "
                "this: give it another",
                where=field,
            )
    facts = _facts_of_draft(data)
    if facts.name != data["name"]:
        raise InputError(
            f"expected a file's name on one line without folders, found {shown(data['name'], 120)}",
            where="name",
        )
    if facts.mime != data["mime"]:
        raise InputError(
            f"expected a type such as text/plain, found {shown(data['mime'], 120)}", where="mime"
        )


def _facts_of_draft(data: dict[str, Any]) -> Facts:
    from memplane.event import Event  # noqa: PLC0415 - the name is taken by the type above

    facts = facts_of(Event(0, "", "", "", "artifact", data=data))
    assert facts is not None, "the data is our own"
    return facts


def _clean(taken: Taken, name: str, redactor: Redactor, *, redact: bool) -> _Stored:
    """The bytes to store: with secrets masked where that was asked for; else none may be there."""
    assert taken.data is not None
    data = taken.data
    text = decoded(data)
    if text is None:
        other = _read_otherwise(data)
        masked, counts = redactor.redact(other)
        if counts:
            raise InputError(
                f"{_place(name, other, masked)}; it is not UTF-8: convert it, then that can be "
                "masked",
                where="path",
            )
        return _Stored(data, taken.sha256, {})
    masked, counts = redactor.redact(text)
    if not counts:
        return _Stored(data, taken.sha256, {})
    if not redact:
        raise InputError(
            f"{_place(name, text, masked)}; take it out, or store the text with its secrets masked "
            "(redact)",
            where="path",
        )
    kept = masked.encode()
    return _Stored(kept, hashlib.sha256(kept).hexdigest(), counts)


def _place(name: str, text: str, masked: str) -> str:
    """Where the first secret stands, and by which rule; nothing of the secret."""
    pairs = zip(text, masked, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), len(masked))
    marks = [mark for mark in _MARK.finditer(masked) if mark.start() <= at]
    rule = marks[-1][1] if marks else next(iter(_MARK.findall(masked)), "detector")
    line = text.count("\n", 0, marks[-1].start() if marks else at) + 1
    return f"{shown(name, 120)}, line {line}: holds what looks like a secret (rule {rule})"


def _read_otherwise(data: bytes) -> str:
    """What is not UTF-8 as a text, for finding secrets in it; "" for what is hardly one."""
    encoding = _BOMS.get(data[:2])
    if encoding is not None:
        return data.decode(encoding, "replace")
    return "" if b"\0" in data else data.decode("latin-1")


def _sidecar(path: str, given: str | os.PathLike[str] | None, type_: str) -> Taken | None:
    if type_ != _REPORT:
        return None
    beside = Path(path).with_suffix(".json")
    if given is None and not beside.is_file():
        raise InputError(
            f"a {_REPORT} has a JSON file beside it with its sources and claims; there is no "
            f"{shown(str(beside), 300)}: name it",
            where="sidecar",
        )
    return take(beside if given is None else given, "sidecar", reference=False)


def _research(
    type_: str, name: str, bodies: list[bytes], data: dict[str, Any], sidecar: Taken | None,
    redactor: Redactor, masked: dict[str, int], *, redact: bool,
) -> None:  # fmt: skip
    """Hold a report or bundle to its schema, and take its sidecar in."""
    schema = asset(f"schemas/{type_}.schema.json")
    text = decoded(bodies[0])
    if text is None:
        raise InputError(f"{shown(name, 120)}: expected a text in UTF-8", where="path")
    if sidecar is None:
        check_bundle(bodies[0], schema, name)
        return
    stored = _clean(sidecar, sidecar.name, redactor, redact=redact)
    check_report(text, stored.data, schema, (name, sidecar.name))
    for rule, number in stored.redactions.items():
        masked[rule] = masked.get(rule, 0) + number
    bodies.append(stored.data)
    data["sidecar"] = {
        "name": sidecar.name, "bytes": len(stored.data), "sha256": stored.sha256
    }  # fmt: skip


def _append(
    engine: Engine, draft: Draft, row: Mapping[str, Any], facts: Facts, bodies: list[bytes]
) -> Appended:
    """Store the bytes, then the event; where it is there already, the bytes alone."""
    if draft.id_given:
        _store(engine, bodies)
        return _appended(engine, draft, bodies)
    id_ = _identity(draft, row, facts)
    with engine.lock:
        engine.check_open()
        _store(engine, bodies)
        memories = engine.caught_up().memories
        for number in count(1):
            named = id_ if number == 1 else f"{id_}-{number}"
            line = engine.log.find(named)
            if line is None:
                try:
                    return _appended(engine, draft._replace(id=named, id_given=True), bodies)
                except ConflictError:  # somebody else added it meanwhile, in another session say
                    line = engine.log.find(named)
                    assert line is not None, "the id is taken"
                    engine.caught_up()
            event = line.event
            # What was forgotten or replaced comes back as another event, which nobody approved.
            if facts_of(event) == facts and memories.archived(event, upto=None) is None:
                return Appended(event.seq, event.id, event.ts, duplicate=True)
    raise AssertionError


def _appended(engine: Engine, draft: Draft, bodies: list[bytes]) -> Appended:
    """Append the event; a purge of the same bytes may remove them until it is in the log.

    As a draft's body the log keeps the file itself, under its lock; the sidecar is looked at once
    more behind it.
    """
    (done,) = engine.append([draft._replace(body=bodies[0]) if bodies else draft])
    for body in bodies:
        digest = hashlib.sha256(body).hexdigest()
        if not nofollow.is_file(body_path(os.fspath(engine.home.path), digest)):
            _store(engine, [body])
    return done


def _store(engine: Engine, bodies: list[bytes]) -> None:
    if not engine.keeps:
        return  # appending says why nothing can be written
    for body in bodies:
        try:
            store_body(os.fspath(engine.home.path), body, Disk())
        except OSError as error:
            raise WriteError(
                f"{engine.home.path}/bodies: {error.strerror}; nothing was recorded"
            ) from error


def _identity(draft: Draft, row: Mapping[str, Any], facts: Facts) -> str:
    sidecar = None if facts.sidecar is None else [*facts.sidecar]
    named = [
        draft.ns, draft.key, draft.role, draft.text, row.get("task"), row.get("sensitivity"),
        [*facts._replace(sidecar=None)], sidecar,
    ]  # fmt: skip
    return f"artifact-{hashlib.sha256(encode({'of': named}).encode()).hexdigest()[:32]}"
