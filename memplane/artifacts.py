"""Artifacts, files beside the log: add, list, show, export, approve (`plane.work.artifacts`).

To add one, its file is read once, searched for secrets and stored, before its event is written. The
event's id is a hash of everything that makes two artifacts the same: content, name, text, key,
type, namespace, task, sensitivity. So processes that add the same file at once record one event.

**Research reports and bundles** are checked by their schemas, and for a source of every citation. A
report is Markdown with a JSON file beside it that lists its sources and claims; a bundle is one
JSON file with the report, its sources, and their content. In the text `[@s1]` cites the source s1,
and `[@s1; @s2]` two of them. `[s9]` and `[^s9]` cite too where the sources are called s1, s2 and so
on: a number that none of them has is then a citation without a source. Code cites nothing.

**The text of an artifact**: all of it for the index, and in pages for a handle. A page has as many
tokens as the request asks for. `from=N` in a handle continues at character N, independent of where
earlier pages ended.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from memplane import nofollow
from memplane.context.artifact_files import (
    SEARCHED_BYTES_MAX,
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
from memplane.errors import (
    BudgetError,
    ChangedError,
    ConflictError,
    InputError,
    NotFoundError,
    ScopeError,
    WriteError,
)
from memplane.event import AnyEventFields, at_least, encode
from memplane.home import asset
from memplane.intake import namespace
from memplane.intake.redact import masked, quoted_value, unexpected
from memplane.lazy import NamedTuple, regex
from memplane.log.disk import Disk
from memplane.log.segments import body_path, store_body
from memplane.pack.request import Expansion
from memplane.policy.document import against_schema, key_text
from memplane.ports import Appended
from memplane.projections.artifacts import (
    COPY,
    HANDLE_DIGITS,
    REFERENCE,
    SCHEME,
    TYPES,
    ArtifactFacts,
    facts_of,
)
from memplane.projections.item import Item
from memplane.recall.suppress import within
from memplane.tokens import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memplane.context.artifact_files import ArtifactApprovals
    from memplane.context.context import PlaneContext, Requester
    from memplane.context.event_access import EventAccess
    from memplane.event import Draft, Event
    from memplane.intake import Redactor
    from memplane.pack.block import Handle
    from memplane.ports import Line, Progress, TokenCounter
    from memplane.projections.artifacts import ApprovalChange, ArtifactTable


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


_LISTED_MAX: Final = 20
_FENCE: Final = regex(r" {0,3}(`{3,}|~{3,})")
_CODE: Final = regex(r"(?<!`)(`++).+?(?<!`)\1(?!`)")  # runs of one length, as Markdown has it
_CITED: Final = regex(r"\[([@^]?[^\[\]\n]{1,300})\](?![(\[:])")
_NUMBERED: Final = regex(r"([A-Za-z_.:-]*)[0-9]+")


def check_report(text: str, sidecar: bytes, schema: bytes, names: tuple[str, str]) -> None:
    """Raise InputError naming every mistake in a report and its sidecar, called `names`."""
    document, found = _read(sidecar, schema, names[1])
    if not found:
        found = [*_mistakes(document, names[1]), *_uncited(text, document, names[0])]
    _refuse(found)


def check_bundle(data: bytes, schema: bytes, name: str) -> None:
    """Raise InputError naming every mistake in a bundle that is called `name`."""
    document, found = _read(data, schema, name)
    if not found:
        report = f"{name}: report"
        found = [*_mistakes(document, name), *_uncited(document["report"], document, report)]
    _refuse(found)


def bundle_text(data: str) -> str:
    """Return a bundle as a text to read: the report, then each source with what it says.

    What is no bundle stays as it is.
    """
    try:
        document = json.loads(data)
        parts = [f"# {document['title']}", document["question"], document["report"]]
        for source in document["sources"]:
            head = f"## [@{source['id']}] {source['title']}"
            parts.append(f"{head}\n{source['url']} ({source['accessed']})\n\n{source['text']}")
        return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return data


def citations(text: str, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield what a text in Markdown cites, with its line from 1; `known` are its sources."""
    forms = {match[1] for one in known if (match := _NUMBERED.fullmatch(one)) is not None}
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opens = _FENCE.match(line)
        if fence:
            if opens is not None and opens[1].startswith(fence) and not line.strip("`~ \t"):
                fence = ""
            continue
        if opens is not None:
            fence = opens[1]
            continue
        for match in _CITED.finditer(_CODE.sub("", line)):
            for name in _names(match[1], forms, known):
                yield number, name


def _names(inside: str, forms: set[str], known: frozenset[str]) -> Iterator[str]:
    """What stands between two brackets cites: `@a; @b` anything, else what looks like a source."""
    if inside.startswith("@"):
        for part in inside.split(";"):
            name, _, _ = part.strip().removeprefix("@").partition(",")  # `@s1, p. 3`
            yield name.strip()
        return
    name = inside.removeprefix("^")
    match = _NUMBERED.fullmatch(name)
    if name in known or (match is not None and match[1] in forms):
        yield name


def _read(data: bytes, schema: bytes, name: str) -> tuple[Any, list[str]]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return None, [f"{name}: expected JSON in UTF-8: {masked(str(error))}"]
    faults = islice(against_schema(document, schema), _LISTED_MAX + 1)
    return document, [f"{name}: {key_text(one.path)}: {one.message}" for one in faults]


def _mistakes(document: Mapping[str, Any], name: str) -> Iterator[str]:
    """What the schema cannot say: each source has a name of its own, each claim rests on one."""
    first: dict[str, int] = {}
    for at, source in enumerate(document["sources"]):
        if first.setdefault(source["id"], at) != at:
            found = f"found {quoted_value(source['id'])}, which sources[{first[source['id']]}] has"
            yield f"{name}: sources[{at}].id: expected a name of its own, {found}"
    for at, claim in enumerate(document["claims"]):
        for place, id_ in enumerate(claim["sources"]):
            if id_ not in first:
                yield f"{name}: claims[{at}].sources[{place}]: {_no_source(id_, first)}"


def _uncited(text: str, document: Mapping[str, Any], name: str) -> Iterator[str]:
    known = {source["id"]: None for source in document["sources"]}
    for line, id_ in citations(text, frozenset(known)):
        if id_ not in known:
            yield f"{name}:{line}: {_no_source(id_, known)}"


def _no_source(id_: str, known: Mapping[str, Any]) -> str:
    listed = ", ".join([*known][:12])
    more = ", ..." if len(known) > 12 else ""
    return f"cites {quoted_value(id_)}, which is no source; there are {listed}{more}"


def _refuse(found: list[str]) -> None:
    if found:
        listed = found[:_LISTED_MAX]
        more = [f"and {len(found) - len(listed)} more"] if len(found) > len(listed) else []
        raise InputError("\n".join([*listed, *more]))


PAGE_TOKENS: Final = 1_000  # of a page that a pack opens by its number
_PAGES_MAX: Final = 100_000
_HANDLE: Final = regex(r"(?:expand://)?artifact/(?:sha256/)?")
_DIGITS: Final = regex(r"[0-9a-f]{8,64}")


class Page(NamedTuple):
    """A page of a text; `end` is the character behind it, None at the end of the text."""

    text: str
    end: int | None


def digits_of(named: str) -> str | None:
    """Return the digits of a hash, of a URI or of a handle; None for any other name."""
    digits = _HANDLE.sub("", named.partition("?")[0].removeprefix(SCHEME), count=1)
    return digits if _DIGITS.fullmatch(digits) else None


def by_hash(context: PlaneContext, table: ArtifactTable, digits: str, upto: int) -> list[Line]:
    """Return the artifacts up to a seq whose hash begins so, the newest first."""
    most = min(len(digits), HANDLE_DIGITS)
    seqs = [seq for seq, known in table.listed.items() if known.startswith(digits[:most])]
    lines: Iterable[Line | None] = map(context.log.line, reversed(seqs))
    if not seqs and table.older:
        lines = reversed([*context.log.read(0, upto)])
    found = ((line, facts_of(line.event)) for line in lines if line is not None)
    return [
        line
        for line, facts in found
        if facts is not None and facts.sha256.startswith(digits) and line.event.seq <= upto
    ]


def newest(asker: Requester, digits: str, *, strict: bool = True) -> Event:
    """Return the newest artifact in force with this hash: one that is approved before others.

    Raises NotFoundError where the asker may know of none. Without `strict` any that he may know of
    will do: whether it may be shown is decided with others.
    """
    table = asker.folds.artifacts.state
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    lines = by_hash(asker.context, table, digits, asker.as_of)
    if not lines:
        asker.context.look_in_vain()
    found = [line.event for line in lines if reader.may_read(line.event)]
    if len({one.data["sha256"] for one in found}) > 1:
        raise InputError(f"{digits} begins the hash of several artifacts", where="handle")
    if not found:
        raise NotFoundError(f"no artifact {digits}")
    archived = asker.folds.memories.archived
    live = [one for one in found if archived(one, upto=asker.as_of) is None]
    seen = [one for one in live if reader.in_time(one)]
    if strict and not seen:
        raise NotFoundError(f"no artifact {digits} is in force")
    return next((one for one in seen if _covers(asker, one)), (seen or found)[0])


def artifact_text(home: Path, event: Event, facts: ArtifactFacts) -> str:
    """Return the text of an artifact's file, compared with its hash.

    Raises ChangedError, and NotFoundError where the file is no text.
    """
    from memplane.artifacts import bundle_text  # noqa: PLC0415 - few artifacts are bundles

    text = decode_text(artifact_bytes(home, facts))
    if text is None:
        raise NotFoundError(
            f"{quoted_value(facts.name, 120)} (event {event.seq}) is no text but {facts.mime}; "
            f"`memplane artifact export {event.seq}` writes it to a file"
        )
    return bundle_text(text) if facts.type == "research_bundle" else text


def searched_text(home: Path, event: Event, *, lenient: bool) -> str:
    """Return what an approved artifact is found by: what was said of it, and its copy's text.

    A file that is no text, too long or a reference adds nothing. One that is not what was added
    raises ChangedError, or adds nothing where that is to be passed over.
    """
    facts = facts_of(event)
    if facts is None or facts.stored != COPY or facts.bytes > SEARCHED_BYTES_MAX:
        return event.text
    try:
        text = artifact_text(home, event, facts)
    except ChangedError:
        if not lenient:
            raise
        return event.text
    except NotFoundError:
        return event.text
    return f"{event.text}\n\n{text}" if event.text else text


def check_start(start: int, text: str) -> None:
    """Raise InputError for a `from` behind the end of a text; 0 is never that."""
    if start and start >= len(text):
        most = f"it has {len(text)} characters; expected from={max(0, len(text) - 1)} or less"
        raise InputError(f"{most}, found {start}", where="from")


def page_of(
    asker: Requester, event: Event, handle: Handle, budget: int
) -> tuple[ArtifactFacts, Page]:
    """Return what is known of an artifact, and a page of its text of at most `budget` tokens.

    Raises NotFoundError where it is out of force, ScopeError where it is not approved,
    ChangedError, InputError and BudgetError.
    """
    facts = facts_of(event)
    gone = asker.folds.memories.archived(event, upto=asker.as_of)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    if gone is not None:
        raise NotFoundError(f"artifact {event.seq} is {gone[0]} by event {gone[1]}")
    if (late := reader.out_of_time(event)) is not None:
        raise NotFoundError(f"artifact {event.seq} is {late}")
    if facts is None or not _covers(asker, event):
        raise ScopeError(
            f"artifact {event.seq} is not approved: its text is shown once somebody has read it "
            f"and says `memplane artifact approve {event.seq}`"
        )
    context, policies = asker.context, asker.policies
    text = context.redact(policies)(artifact_text(context.home.path, event, facts))
    counter = context.counter(policies)
    check_start(handle.start, text)
    start = handle.start or _start(text, handle.page, budget, counter, facts.name)
    kept = _page(text, start, budget, counter)
    end = start + len(kept)
    return facts, Page(kept, end if end < len(text) else None)


def material(asker: Requester, event: Event, handle: Handle) -> Expansion:
    """What the handle of an artifact gives a pack: no text unless it is approved.

    Nor where its file is not what was added: then `lost` says so.
    """
    item = Item.of(event, len(event.text))
    gone = asker.folds.memories.archived(event, upto=asker.as_of)
    item.settle(gone)
    facts = facts_of(event)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    told = gone is None and reader.may_read(event) and reader.in_time(event)
    # Who may not see it is not told either that it has no text, or no such page.
    if facts is None or not told or not _covers(asker, event):
        return Expansion(str(handle), item, "", whole=False)
    context, policies = asker.context, asker.policies
    try:
        text = context.redact(policies)(artifact_text(context.home.path, event, facts))
    except ChangedError:
        return Expansion(str(handle), item, "", whole=False, lost="changed")
    start, end = handle.start, len(text)
    if handle.page > 1 and not start:
        counter = context.counter(policies)
        start = _start(text, handle.page, PAGE_TOKENS, counter, facts.name)
        end = start + len(_page(text, start, PAGE_TOKENS, counter))
    named = handle._replace(form="artifact", name=facts.digits)
    return Expansion(
        str(named),
        item,
        text[start:end],
        whole=False,
        start=start,
        ends=end == len(text),
        lost="past_end" if start and start >= end else "",
    )


def _covers(asker: Requester, event: Event) -> bool:
    approvals = asker.context.approvals(asker.folds)
    return approvals.covers(event.seq, event.id, as_of=asker.as_of, now=asker.now)


def _start(text: str, number: int, budget: int, counter: TokenCounter, name: str) -> int:
    """Where a page begins if all before it are of so many tokens."""
    if number > _PAGES_MAX:
        raise InputError(f"expected a page from 1 to {_PAGES_MAX}, found {number}", where="page")
    start = 0
    for before in range(1, number):
        start += len(_page(text, start, budget, counter))
        if start >= len(text):
            pages = f"{before} page{'s' if before > 1 else ''} of {budget} tokens"
            raise NotFoundError(f"{quoted_value(name, 120)} has {pages}, not {number}")
    return start


def _page(text: str, start: int, budget: int, counter: TokenCounter) -> str:
    """As much as the budget takes, to the end of a line where one ends late in it."""
    rest = text[start:]
    kept = cut(counter, rest, budget)
    if rest and not kept:
        raise BudgetError(f"{budget} tokens hold not one character of it", where="budget")
    if len(kept) < len(rest):
        line = kept.rfind("\n") + 1
        return kept[:line] if 2 * line > len(kept) else kept
    return kept
