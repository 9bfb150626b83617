"""`plane.artifacts`: files beside the log, by copy or by reference, and who may show their text.

To add, to approve and to revoke write one event each. Until an approval covers an artifact, its
text and what was said of it are in no block, hit or expansion: only name, size and handle are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import ChangedError, InputError, NotFoundError
from memplane.event import at_least
from memplane.intake import namespace
from memplane.intake.redact import shown
from memplane.plane.adding import Added, add
from memplane.plane.artifact_files import Progress, content, examine, put_file
from memplane.plane.artifact_pages import by_hash, digits_of
from memplane.plane.engine import NO_END
from memplane.plane.given import check_count, check_named, check_texts
from memplane.plane.writing import Receipt
from memplane.projections.artifacts import Facts, facts_of
from memplane.recall.suppress import within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memplane.event import Event
    from memplane.plane.approvals import Approvals
    from memplane.plane.engine import Engine
    from memplane.plane.reading import Reader
    from memplane.ports import Line
    from memplane.projections.artifacts import Said

__all__ = ["Added", "Approval", "Artifact", "PlaneArtifacts"]

_OWN: Final = ("kind", "refs", "data", "text")


class Approval(NamedTuple):
    """What somebody said of an artifact. `holds`: it covers the content now; `by`: who said it."""

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


class PlaneArtifacts:
    """The artifacts of a plane. Built per use; holds no state of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(
        self, path: str | os.PathLike[str], text: str = "", *, reference: bool = False,
        name: str | None = None, mime: str | None = None, type: str | None = None,  # noqa: A002
        sidecar: str | os.PathLike[str] | None = None, redact: bool = False,
        progress: Progress | None = None, **fields: Any,
    ) -> Added:  # fmt: skip
        """Add a file: its bytes, or with `reference` its path and hash; `text` says what it is.

        `fields` are those of the event: ns, task, session, tags, sensitivity, key and so on. The
        same file added again with the same name, text, key, namespace, task and sensitivity is a
        duplicate; then nothing is written. With `redact` a text is stored with its secrets masked;
        without it one that holds any is refused. `progress` is told of a long reading. Raises
        InputError.
        """
        return add(
            self._engine, path, text, reference=reference, name=name, mime=mime, type_=type,
            sidecar=sidecar, redact=redact, progress=progress, fields=fields,
        )  # fmt: skip

    def list(
        self, *, ns: str | None = None, session: str | None = None, task: str | None = None,
        all: bool = False, limit: int = 100, channel: str = "private",  # noqa: A002
        agent: str | None = None,
    ) -> _Listed:  # fmt: skip
        """The artifacts in force, newest first; with `all` those that are out of force, too."""
        check_count(limit, "limit", 1)
        namespace(ns)
        check_texts(session=session, task=task)
        wanted = {"ns": ns, "session": session, "task": task}
        engine = self._engine
        found: _Listed = []
        with engine.lock:
            reader = engine.reader(channel, agent=agent)
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
        self, named: str | int, *, review: bool = False, channel: str = "private",
        agent: str | None = None,
    ) -> Artifact:  # fmt: skip
        """One artifact, by id, seq, hash, URI, handle or name; its file is compared with the hash.

        `review` shows what was said of it to a person who has to decide. Raises NotFoundError, also
        for one that the channel and agent may not see, and InputError where several are meant.
        """
        engine = self._engine
        with engine.lock:
            reader = engine.reader(channel, agent=agent)
            event, facts = self._one(named, reader)
            view = self._view(event, facts, reader, review=review)
        return view._replace(changed=_fault_of(engine, facts))

    def export(
        self, named: str | int, to: str | os.PathLike[str], *, replace: bool = False,
        channel: str = "private", agent: str | None = None,
    ) -> Sequence[Path]:  # fmt: skip
        """Write the bytes that were added to a file, or under their name into a folder.

        Of a report its sidecar, too, beside it. Raises ChangedError where they are not what was
        added, InputError where a file is in the way, NotFoundError.
        """
        engine = self._engine
        with engine.lock:
            _, facts = self._one(named, engine.reader(channel, agent=agent))
        path = Path(to)
        path = path / facts.name if path.is_dir() else path
        files = [(path, content(engine.home.path, facts))]
        if facts.sidecar is not None:
            beside = path.with_name(facts.sidecar.name)
            if beside == path:
                raise InputError(f"{path} is the name of its sidecar; name another", where="to")
            sidecar = facts._replace(
                sha256=facts.sidecar.sha256, bytes=facts.sidecar.bytes, sidecar=None
            )
            files.append((beside, content(engine.home.path, sidecar)))
        if not replace and (there := [one for one, _ in files if os.path.lexists(one)]):
            raise InputError(
                f"{shown(str(there[0]), 300)} is there already; name another, or replace it",
                where="to",
            )
        for one, data in files:
            put_file(one, data, replace=replace)
        return [one for one, _ in files]

    def approve(
        self, named: str | int, reason: str = "", *, valid_until: str | None = None, **fields: Any
    ) -> Receipt:
        """Let prompts show its text, exactly as it is now, from here on.

        Raises ChangedError where the file is not what was added, NotFoundError, InputError.
        """
        event, facts = self._in_force(named)
        fault = _fault_of(self._engine, facts)
        if fault is not None:
            examine(self._engine.home.path, facts)
            raise ChangedError(facts.name, facts.sha256, fault)
        more = {} if valid_until is None else {"valid_until": valid_until}
        return self._say(event, facts, reason, {}, {**fields, **more})

    def revoke(self, named: str | int, reason: str = "", **fields: Any) -> Receipt:
        """Take every approval of it back. Raises NotFoundError where there is none."""
        event, facts = self._in_force(named)
        with self._engine.lock:
            said = self._approvals().said_of(event.id, **self._when())
        if not any(holds or not one.undo for one, holds in said):
            raise NotFoundError(f"artifact {event.seq} was never approved")
        if not any(holds for _, holds in said) and said[-1][0].undo:
            raise NotFoundError(f"artifact {event.seq} is not approved")
        return self._say(event, facts, reason, {"undo": True}, fields)

    # --- parts ---

    def _say(
        self, event: Event, facts: Facts, reason: str, more: dict[str, Any], fields: dict[str, Any]
    ) -> Receipt:
        for name in _OWN:
            if name in fields:
                raise InputError("is given by the call itself", where=name)
        row = {
            "kind": "approval", "ns": event.ns, "text": reason,
            **({} if event.task is None else {"task": event.task}), **fields,
            "refs": [event.id], "data": {"sha256": facts.sha256, **more},
        }  # fmt: skip
        row |= at_least(event.sensitivity, row)
        engine = self._engine
        appended = engine.append([engine.drafting()(row, "")])[0]
        return Receipt(appended, engine.durability, engine.log.line)

    def _in_force(self, named: str | int) -> tuple[Event, Facts]:
        engine = self._engine
        with engine.lock:
            event, facts = self._one(named, engine.reader("private"))
            gone = engine.caught_up().memories.archived(event, upto=engine.as_of)
        if gone is not None:
            raise NotFoundError(f"artifact {event.seq} is {gone[0]} by event {gone[1]}")
        return event, facts

    def _one(self, named: str | int, reader: Reader) -> tuple[Event, Facts]:
        visible = [line.event for line in self._named(named, reader)]
        if not visible:
            raise NotFoundError(f"no artifact {shown(named, 120)}")
        archived = self._engine.caught_up().memories.archived
        upto = self._engine.as_of
        live = [one for one in visible if archived(one, upto=upto) is None] or visible[:1]
        if len(live) > 1:
            seqs = ", ".join(str(one.seq) for one in live[:10])
            raise InputError(f"{shown(named, 120)} may be event {seqs}; name one of them")
        facts = facts_of(live[0])
        assert facts is not None, "only artifacts are found"
        return live[0], facts

    def _named(self, named: str | int, reader: Reader) -> Sequence[Line]:
        """The artifacts that are meant: by seq, then id, then hash, then name.

        Only those that may be read: one that may not keeps no other from being meant.
        """
        if isinstance(named, str) and named.isascii() and named.isdigit() and len(named) < 19:
            found = self._named(int(named), reader)
            if found:
                return found
        log = self._engine.log
        check_named(named, "named")
        one = log.line(named) if isinstance(named, int) else log.find(named)
        if one is None:
            self._engine.look_in_vain()
        elif self._may_mean(one, reader):
            return [one]
        if isinstance(named, int):
            return []
        digits = digits_of(named)
        if digits is not None:
            table = self._engine.caught_up().artifacts.state
            lines = by_hash(self._engine, table, digits, self._when()["as_of"])
            if not lines:
                self._engine.look_in_vain()
            return [line for line in lines if reader.may_read(line.event)]
        named_so = (line for line in self._newest() if _facts(line).name == named)
        return [line for line in named_so if reader.may_read(line.event)]

    def _newest(self) -> Iterator[Line]:
        """The listed artifacts, the newest first."""
        for seq in reversed(self._engine.caught_up().artifacts.state.listed):
            line = self._engine.log.line(seq)
            if line is not None and facts_of(line.event) is not None and self._reaches(line):
                yield line

    def _may_mean(self, line: Line, reader: Reader) -> bool:
        found = facts_of(line.event) is not None and self._reaches(line)
        return found and reader.may_read(line.event)

    def _reaches(self, line: Line) -> bool:
        return self._engine.as_of is None or line.event.seq <= self._engine.as_of

    def _approvals(self) -> Approvals:
        return self._engine.approvals()

    def _when(self) -> dict[str, Any]:
        engine = self._engine
        as_of = NO_END if engine.as_of is None else engine.as_of
        return {"as_of": as_of, "now": engine.clock()}

    def _view(
        self, event: Event, facts: Facts, reader: Reader, *, review: bool = False
    ) -> Artifact:
        engine = self._engine
        gone = engine.caught_up().memories.archived(event, upto=engine.as_of)
        when = self._when()
        approved = self._approvals().covers(event.seq, event.id, **when)
        seen = reader.emit(event, review=review)
        said = self._approvals().said_of(event.id, **when)
        redact = engine.redact(engine.watched.policies())
        facts = facts._replace(name=redact(facts.name), path=redact(facts.path))
        return Artifact(
            event.seq, event.id, facts.uri, facts.handle, facts.card, facts.name, facts.mime,
            facts.bytes, facts.sha256, facts.stored, facts.path, facts.type,
            "" if facts.sidecar is None else facts.sidecar.name, event.ts, event.actor, event.ns,
            event.session, event.task, event.key, seen.tags, event.sensitivity, approved,
            seen.text, None if gone is None else gone[0],
            tuple(filter(None, (self._approval(one, holds, reader) for one, holds in said))),
        )  # fmt: skip

    def _approval(self, said: Said, holds: bool, reader: Reader) -> Approval | None:
        line = self._engine.log.line(said.seq)
        if line is None or not reader.shows(line.event):
            return None
        event = reader.emit(line.event)
        return Approval(
            said.seq, said.id, event.ts, event.actor, said.undo, holds, said.valid_until, event.text
        )


def _facts(line: Line) -> Facts:
    facts = facts_of(line.event)
    assert facts is not None, "only artifacts are listed"
    return facts


def _fits(event: Event, wanted: dict[str, str | None]) -> bool:
    ns = wanted["ns"]
    if ns is not None and not within(event.ns, (ns,)):
        return False
    named = ((name, wanted[name]) for name in ("session", "task"))
    return all(value is None or getattr(event, name) == value for name, value in named)


def _fault_of(engine: Engine, facts: Facts) -> str | None:
    """What is wrong with the files of an artifact; None where they are what was added."""
    parts = [facts]
    if facts.sidecar is not None:
        parts.append(facts._replace(sha256=facts.sidecar.sha256))
    for one in parts:
        try:
            examine(engine.home.path, one)
        except ChangedError as error:
            return str(error)
    return None
