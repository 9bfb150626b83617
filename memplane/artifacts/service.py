"""Add, list, show, export and approve artifacts: `plane.work.artifacts`.

To add one, its file is read once, searched for secrets and stored, before its event is written. The
event's id is a hash of everything that makes two artifacts the same: content, name, text, key,
type, namespace, task, sensitivity. So processes that add the same file at once record one event.
"""

from __future__ import annotations

import hashlib
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from memplane import nofollow
from memplane.artifacts.contents import by_hash, check_bundle, check_report, digits_of
from memplane.context.artifact_files import (
    Taken,
    artifact_bytes,
    decode_text,
    examine_artifact,
    mime_of,
    put_file,
    read_added_file,
)
from memplane.context.calls import Receipt, check_count, check_named, check_texts, refuse_given
from memplane.context.context import NO_END, OfPlane
from memplane.errors import ChangedError, ConflictError, InputError, NotFoundError, WriteError
from memplane.event import AnyEventFields, at_least, encode
from memplane.home import asset
from memplane.intake import namespace
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, regex
from memplane.log.disk import Disk
from memplane.log.segments import body_path, store_body
from memplane.ports import Appended
from memplane.projections.artifacts import COPY, REFERENCE, SCHEME, TYPES, ArtifactFacts, facts_of
from memplane.recall.suppress import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memplane.context.artifact_files import ArtifactApprovals
    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.event import Draft, Event
    from memplane.intake import Redactor
    from memplane.ports import Line, Progress
    from memplane.projections.artifacts import ApprovalChange

SUMMARY_CHARS_MAX: Final = 4_000
_REPORT, _BUNDLE = TYPES
_ADDED_OWN: Final = ("kind", "text", "data")
_MARK: Final = regex(r"\[redacted:([^\]]+)\]")
_BOMS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class Added(NamedTuple):
    """What became of a file. `redactions`: what was masked in the text that is stored, by rule."""

    receipt: Receipt
    facts: ArtifactFacts
    redactions: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            **self.receipt.as_json(),
            "uri": facts.uri,
            "handle": facts.handle,
            "name": facts.name,
            "mime": facts.mime,
            "bytes": facts.bytes,
            "sha256": facts.sha256,
            "stored": facts.stored,
            "redactions": dict(self.redactions),
        }


class _Stored(NamedTuple):
    """The bytes that are kept, and what was masked in them."""

    data: bytes
    sha256: str
    redactions: Mapping[str, int]


def add_artifact(
    context: PlaneContext,
    path: str | os.PathLike[str],
    text: str,
    *,
    reference: bool,
    name: str | None,
    mime: str | None,
    type_: str | None,
    sidecar: str | os.PathLike[str] | None,
    redact: bool,
    progress: Progress | None,
    fields: dict[str, Any],
) -> Added:
    """Add a file; see `PlaneArtifacts.add`."""
    _check(text, type_, reference=reference, redact=redact, sidecar=sidecar, fields=fields)
    redactor = context.intake(context.watched.policies_or_last()).redactor
    taken = read_added_file(path, "path", reference=reference, progress=progress)
    named = taken.name if name is None else name
    data: dict[str, Any] = {
        "uri": "",
        "name": named,
        "mime": mime_of(named, taken.head) if mime is None else mime,
        "bytes": taken.size,
        "sha256": taken.sha256,
        "stored": REFERENCE if reference else COPY,
    }
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
        _research(
            type_,
            named,
            bodies,
            data,
            _sidecar(taken.path, sidecar, type_),
            redactor,
            masked,
            redact=redact,
        )
    data["uri"] = f"{SCHEME}{data['sha256']}"
    _check_data(data, redactor)
    row = {**fields, "kind": "artifact", "text": text, "data": data}
    draft = context.drafting()(row, "")
    assert draft.body is None, "what is said of an artifact fits a line"
    facts = _facts_of_draft(data)
    appended = _append(context, draft, row, facts, bodies)
    return Added(Receipt(appended, context.durability, context.log.line), facts, masked)


def _check(
    text: str,
    type_: str | None,
    *,
    reference: bool,
    redact: bool,
    sidecar: object,
    fields: Mapping[str, Any],
) -> None:
    refuse_given(fields, _ADDED_OWN)
    if not isinstance(text, str) or len(text) > SUMMARY_CHARS_MAX:
        found = f"{len(text)}" if isinstance(text, str) else quoted_value(text)
        raise InputError(
            f"expected at most {SUMMARY_CHARS_MAX} characters of what it is about, found {found}",
            where="text",
        )
    if type_ is not None and type_ not in TYPES:
        raise unexpected(f"one of {', '.join(TYPES)}", type_, "type")
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
            "expected a file's name on one line without folders, found "
            f"{quoted_value(data['name'], 120)}",
            where="name",
        )
    if facts.mime != data["mime"]:
        raise InputError(
            f"expected a type such as text/plain, found {quoted_value(data['mime'], 120)}",
            where="mime",
        )


def _facts_of_draft(data: dict[str, Any]) -> ArtifactFacts:
    from memplane.event import Event  # noqa: PLC0415 - the name is taken by the type above

    facts = facts_of(Event(0, "", "", "", "artifact", data=data))
    assert facts is not None, "the data is our own"
    return facts


def _clean(taken: Taken, name: str, redactor: Redactor, *, redact: bool) -> _Stored:
    """The bytes to store: with secrets masked where that was asked for; else none may be there."""
    assert taken.data is not None
    data = taken.data
    text = decode_text(data)
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
    return f"{quoted_value(name, 120)}, line {line}: holds what looks like a secret (rule {rule})"


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
            f"{quoted_value(str(beside), 300)}: name it",
            where="sidecar",
        )
    return read_added_file(beside if given is None else given, "sidecar", reference=False)


def _research(
    type_: str,
    name: str,
    bodies: list[bytes],
    data: dict[str, Any],
    sidecar: Taken | None,
    redactor: Redactor,
    masked: dict[str, int],
    *,
    redact: bool,
) -> None:
    """Hold a report or bundle to its schema, and take its sidecar in."""
    schema = asset(f"schemas/{type_}.schema.json")
    text = decode_text(bodies[0])
    if text is None:
        raise InputError(f"{quoted_value(name, 120)}: expected a text in UTF-8", where="path")
    if sidecar is None:
        check_bundle(bodies[0], schema, name)
        return
    stored = _clean(sidecar, sidecar.name, redactor, redact=redact)
    check_report(text, stored.data, schema, (name, sidecar.name))
    for rule, number in stored.redactions.items():
        masked[rule] = masked.get(rule, 0) + number
    bodies.append(stored.data)
    data["sidecar"] = {"name": sidecar.name, "bytes": len(stored.data), "sha256": stored.sha256}


def _append(
    context: PlaneContext,
    draft: Draft,
    row: Mapping[str, Any],
    facts: ArtifactFacts,
    bodies: list[bytes],
) -> Appended:
    """Store the bytes, then the event; where it is there already, the bytes alone."""
    if draft.id_given:
        _store(context, bodies)
        return _appended(context, draft, bodies)
    id_ = _identity(draft, row, facts)
    with context.lock:
        context.check_open()
        _store(context, bodies)
        memories = context.caught_up().memories
        for number in count(1):
            named = id_ if number == 1 else f"{id_}-{number}"
            line = context.log.find(named)
            if line is None:
                try:
                    return _appended(context, draft._replace(id=named, id_given=True), bodies)
                except ConflictError:  # somebody else added it meanwhile, in another session say
                    line = context.log.find(named)
                    assert line is not None, "the id is taken"
                    context.caught_up()
            event = line.event
            # What was forgotten or replaced comes back as another event, which nobody approved.
            if facts_of(event) == facts and memories.archived(event, upto=None) is None:
                return Appended(event.seq, event.id, event.ts, duplicate=True)
    raise AssertionError


def _appended(context: PlaneContext, draft: Draft, bodies: list[bytes]) -> Appended:
    """Append the event; a purge of the same bytes may remove them until it is in the log.

    As a draft's body the log keeps the file itself, under its lock; the sidecar is looked at once
    more behind it.
    """
    (done,) = context.append([draft._replace(body=bodies[0]) if bodies else draft])
    for body in bodies:
        digest = hashlib.sha256(body).hexdigest()
        if not nofollow.is_file(body_path(os.fspath(context.home.path), digest)):
            _store(context, [body])
    return done


def _store(context: PlaneContext, bodies: list[bytes]) -> None:
    if not context.keeps:
        return  # appending says why nothing can be written
    for body in bodies:
        try:
            store_body(os.fspath(context.home.path), body, Disk())
        except OSError as error:
            raise WriteError(
                f"{context.home.path}/bodies: {error.strerror}; nothing was recorded"
            ) from error


def _identity(draft: Draft, row: Mapping[str, Any], facts: ArtifactFacts) -> str:
    sidecar = None if facts.sidecar is None else [*facts.sidecar]
    named = [
        draft.ns,
        draft.key,
        draft.role,
        draft.text,
        row.get("task"),
        row.get("sensitivity"),
        [*facts._replace(sidecar=None)],
        sidecar,
    ]
    return f"artifact-{hashlib.sha256(encode({'of': named}).encode()).hexdigest()[:32]}"


# `plane.work.artifacts`: files beside the log, by copy or by reference, and their approvals.
#
# To add, to approve and to revoke write one event each. Until an approval covers an artifact, its
# text and what was said of it are in no block, hit or expansion: only name, size and handle are.
_OWN: Final = ("kind", "refs", "data", "text")


class Approval(NamedTuple):
    """An approval or revocation. `holds`: it covers the content now; `by`: its author."""

    seq: int
    id: str
    at: str
    by: str | None
    revokes: bool
    holds: bool
    valid_until: str | None
    reason: str


class Artifact(NamedTuple):
    """An artifact as a channel may see it.

    `card` is its name, size and type on a line. `text` is what was said of it, "" until it is
    approved. `archived`: why it is out of force.
    `changed`: what is wrong with its file, where that was looked at.
    """

    seq: int
    id: str
    uri: str
    handle: str
    card: str
    name: str
    mime: str
    bytes: int
    sha256: str
    stored: str
    path: str
    type: str
    sidecar: str
    added: str
    actor: str | None
    ns: str
    session: str | None
    task: str | None
    key: str | None
    tags: tuple[str, ...]
    sensitivity: str
    approved: bool
    text: str
    archived: str | None
    approvals: tuple[Approval, ...] = ()
    changed: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {**self._asdict(), "approvals": [one._asdict() for one in self.approvals]}


_Listed = list[Artifact]  # inside the class `list` is a method


class ApprovalFields(AnyEventFields, total=False):
    """What may be said of an approval or its end."""

    session: str | None
    task: str | None
    id: str | None


class ArtifactFields(ApprovalFields, total=False):
    """What may be said of an artifact that is added."""

    refs: Iterable[str | int] | None
    valid_until: str | datetime | None


class PlaneArtifacts(OfPlane):
    """The artifacts of a plane. Built per use; holds no state of its own."""

    def __init__(self, context: PlaneContext) -> None:
        self._context = context

    def add(
        self,
        path: str | os.PathLike[str],
        text: str = "",
        *,
        reference: bool = False,
        name: str | None = None,
        mime: str | None = None,
        type: str | None = None,  # noqa: A002
        sidecar: str | os.PathLike[str] | None = None,
        redact: bool = False,
        progress: Progress | None = None,
        **fields: Unpack[ArtifactFields],
    ) -> Added:
        """Add a file: its bytes, or with `reference` its path and hash; `text` describes it.

        `fields` are those of the event: ns, task, session, tags, sensitivity, key and so on. The
        same file added again with the same name, text, key, namespace, task and sensitivity is a
        duplicate; then nothing is written. With `redact` a text is stored with its secrets masked;
        without it one with secrets is refused. `progress` is called during a long read. Raises
        InputError.
        """
        return add_artifact(
            self._context,
            path,
            text,
            reference=reference,
            name=name,
            mime=mime,
            type_=type,
            sidecar=sidecar,
            redact=redact,
            progress=progress,
            fields=dict(fields),
        )

    def list(
        self,
        *,
        ns: str | None = None,
        session: str | None = None,
        task: str | None = None,
        all: bool = False,  # noqa: A002
        limit: int = 100,
        channel: str = "private",
        agent: str | None = None,
    ) -> _Listed:
        """The artifacts in force, newest first; with `all` those that are out of force, too."""
        check_count(limit, "limit", 1)
        namespace(ns)
        check_texts(session=session, task=task)
        wanted = {"ns": ns, "session": session, "task": task}
        context = self._context
        found: _Listed = []
        with context.lock:
            reader = context.reader(channel, agent=context.agent_of(agent))
            for line in self._newest():
                event = line.event
                facts = facts_of(event)
                if facts is None or not reader.shows(event) or not _fits(event, wanted):
                    continue
                view = self._view(event, facts, reader)
                if all or view.archived is None:
                    found.append(view)
                if len(found) == limit:
                    break
        return found

    def show(
        self,
        named: str | int,
        *,
        review: bool = False,
        channel: str = "private",
        agent: str | None = None,
    ) -> Artifact:
        """One artifact, by id, seq, hash, URI, handle or name; its file is compared with the hash.

        `review` shows what was said of it to a person who has to decide. Raises NotFoundError, also
        for one that the channel and agent may not see, and InputError where several are meant.
        """
        context = self._context
        with context.lock:
            reader = context.reader(channel, agent=context.agent_of(agent))
            event, facts = self._one(named, reader)
            view = self._view(event, facts, reader, review=review)
        return view._replace(changed=_fault_of(context, facts))

    def export(
        self,
        named: str | int,
        to: str | os.PathLike[str],
        *,
        replace: bool = False,
        channel: str = "private",
        agent: str | None = None,
    ) -> Sequence[Path]:
        """Write the bytes that were added to a file, or under their name into a folder.

        Of a report its sidecar, too, beside it. Raises ChangedError where they are not what was
        added, InputError where a file is in the way, NotFoundError.
        """
        context = self._context
        with context.lock:
            reader = context.reader(channel, agent=context.agent_of(agent))
            _, facts = self._one(named, reader)
        path = Path(to)
        path = path / facts.name if path.is_dir() else path
        files = [(path, artifact_bytes(context.home.path, facts))]
        if facts.sidecar is not None:
            beside = path.with_name(facts.sidecar.name)
            if beside == path:
                raise InputError(f"{path} is the name of its sidecar; name another", where="to")
            sidecar = facts._replace(
                sha256=facts.sidecar.sha256, bytes=facts.sidecar.bytes, sidecar=None
            )
            files.append((beside, artifact_bytes(context.home.path, sidecar)))
        if not replace and (there := [one for one, _ in files if os.path.lexists(one)]):
            raise InputError(
                f"{quoted_value(str(there[0]), 300)} is there already; name another, or replace it",
                where="to",
            )
        for one, data in files:
            put_file(one, data, replace=replace)
        return [one for one, _ in files]

    def approve(
        self,
        named: str | int,
        reason: str = "",
        *,
        valid_until: str | datetime | None = None,
        **fields: Unpack[ApprovalFields],
    ) -> Receipt:
        """Let prompts show its text, exactly as it is now, from here on.

        Raises ChangedError where the file is not what was added, NotFoundError, InputError.
        """
        event, facts = self._in_force(named)
        fault = _fault_of(self._context, facts)
        if fault is not None:
            examine_artifact(self._context.home.path, facts)
            raise ChangedError(facts.name, facts.sha256, fault)
        more = {} if valid_until is None else {"valid_until": valid_until}
        return self._say(event, facts, reason, {}, {**fields, **more})

    def revoke(
        self, named: str | int, reason: str = "", **fields: Unpack[ApprovalFields]
    ) -> Receipt:
        """Revoke every approval of an artifact. Raises NotFoundError where there is none."""
        event, facts = self._in_force(named)
        with self._context.lock:
            said = self._approvals().said_of(event.id, **self._when())
        if not any(holds or not one.undo for one, holds in said):
            raise NotFoundError(f"artifact {event.seq} was never approved")
        if not any(holds for _, holds in said) and said[-1][0].undo:
            raise NotFoundError(f"artifact {event.seq} is not approved")
        return self._say(event, facts, reason, {"undo": True}, dict(fields))

    # --- parts ---

    def _say(
        self,
        event: Event,
        facts: ArtifactFacts,
        reason: str,
        more: dict[str, Any],
        fields: dict[str, Any],
    ) -> Receipt:
        refuse_given(fields, _OWN)
        row = {
            "kind": "approval",
            "ns": event.ns,
            "text": reason,
            **({} if event.task is None else {"task": event.task}),
            **fields,
            "refs": [event.id],
            "data": {"sha256": facts.sha256, **more},
        }
        row |= at_least(event.sensitivity, row)
        context = self._context
        appended = context.append([context.drafting()(row, "")])[0]
        return Receipt(appended, context.durability, context.log.line)

    def _in_force(self, named: str | int) -> tuple[Event, ArtifactFacts]:
        context = self._context
        with context.lock:
            event, facts = self._one(named, context.reader("private"))
            gone = context.caught_up().memories.archived(event, upto=context.as_of)
        if gone is not None:
            raise NotFoundError(f"artifact {event.seq} is {gone[0]} by event {gone[1]}")
        return event, facts

    def _one(self, named: str | int, reader: EventAccess) -> tuple[Event, ArtifactFacts]:
        visible = [line.event for line in self._named(named, reader)]
        if not visible:
            raise NotFoundError(f"no artifact {quoted_value(named, 120)}")
        archived = self._context.caught_up().memories.archived
        upto = self._context.as_of
        live = [one for one in visible if archived(one, upto=upto) is None] or visible[:1]
        if len(live) > 1:
            seqs = ", ".join(str(one.seq) for one in live[:10])
            raise InputError(f"{quoted_value(named, 120)} may be event {seqs}; name one of them")
        facts = facts_of(live[0])
        assert facts is not None, "only artifacts are found"
        return live[0], facts

    def _named(self, named: str | int, reader: EventAccess) -> Sequence[Line]:
        """The artifacts that are meant: by seq, then id, then hash, then name.

        Only those that may be read: one that may not keeps no other from being meant.
        """
        if isinstance(named, str) and named.isascii() and named.isdigit() and len(named) < 19:
            found = self._named(int(named), reader)
            if found:
                return found
        log = self._context.log
        check_named(named, "named")
        one = log.line(named) if isinstance(named, int) else log.find(named)
        if one is None:
            self._context.look_in_vain()
        elif self._may_mean(one, reader):
            return [one]
        if isinstance(named, int):
            return []
        digits = digits_of(named)
        if digits is not None:
            table = self._context.caught_up().artifacts.state
            lines = by_hash(self._context, table, digits, self._when()["as_of"])
            if not lines:
                self._context.look_in_vain()
            return [line for line in lines if reader.may_read(line.event)]
        named_so = (line for line in self._newest() if _facts(line).name == named)
        return [line for line in named_so if reader.may_read(line.event)]

    def _newest(self) -> Iterator[Line]:
        """The listed artifacts, the newest first."""
        for seq in reversed(self._context.caught_up().artifacts.state.listed):
            line = self._context.log.line(seq)
            if line is not None and facts_of(line.event) is not None and self._reaches(line):
                yield line

    def _may_mean(self, line: Line, reader: EventAccess) -> bool:
        found = facts_of(line.event) is not None and self._reaches(line)
        return found and reader.may_read(line.event)

    def _reaches(self, line: Line) -> bool:
        return self._context.as_of is None or line.event.seq <= self._context.as_of

    def _approvals(self) -> ArtifactApprovals:
        return self._context.approvals()

    def _when(self) -> dict[str, Any]:
        context = self._context
        as_of = NO_END if context.as_of is None else context.as_of
        return {"as_of": as_of, "now": context.clock()}

    def _view(
        self, event: Event, facts: ArtifactFacts, reader: EventAccess, *, review: bool = False
    ) -> Artifact:
        context = self._context
        gone = context.caught_up().memories.archived(event, upto=context.as_of)
        when = self._when()
        approved = self._approvals().covers(event.seq, event.id, **when)
        seen = reader.emit(event, review=review)
        said = self._approvals().said_of(event.id, **when)
        redact = context.redact(context.watched.policies())
        facts = facts._replace(name=redact(facts.name), path=redact(facts.path))
        return Artifact(
            seq=event.seq,
            id=event.id,
            uri=facts.uri,
            handle=facts.handle,
            card=facts.card,
            name=facts.name,
            mime=facts.mime,
            bytes=facts.bytes,
            sha256=facts.sha256,
            stored=facts.stored,
            path=facts.path,
            type=facts.type,
            sidecar="" if facts.sidecar is None else facts.sidecar.name,
            added=event.ts,
            actor=event.actor,
            ns=event.ns,
            session=event.session,
            task=event.task,
            key=event.key,
            tags=seen.tags,
            sensitivity=event.sensitivity,
            approved=approved,
            text=seen.text,
            archived=None if gone is None else gone.reason,
            approvals=tuple(
                filter(None, (self._approval(one, holds, reader) for one, holds in said))
            ),
        )

    def _approval(self, said: ApprovalChange, holds: bool, reader: EventAccess) -> Approval | None:
        line = self._context.log.line(said.event.seq)
        if line is None or not reader.shows(line.event):
            return None
        event = reader.emit(line.event)
        return Approval(
            seq=said.event.seq,
            id=said.event.id,
            at=event.ts,
            by=event.actor,
            revokes=said.undo,
            holds=holds,
            valid_until=event.valid_until,
            reason=event.text,
        )


def _facts(line: Line) -> ArtifactFacts:
    facts = facts_of(line.event)
    assert facts is not None, "only artifacts are listed"
    return facts


def _fits(event: Event, wanted: dict[str, str | None]) -> bool:
    ns = wanted["ns"]
    if ns is not None and not within(event.ns, (ns,)):
        return False
    named = ((name, wanted[name]) for name in ("session", "task"))
    return all(value is None or getattr(event, name) == value for name, value in named)


def _fault_of(context: PlaneContext, facts: ArtifactFacts) -> str | None:
    """What is wrong with the files of an artifact; None where they are what was added."""
    parts = [facts]
    if facts.sidecar is not None:
        parts.append(facts._replace(sha256=facts.sidecar.sha256))
    for one in parts:
        try:
            examine_artifact(context.home.path, one)
        except ChangedError as error:
            return str(error)
    return None
