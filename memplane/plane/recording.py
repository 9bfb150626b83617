"""The writing half of a plane: events, one or many, and what memplane records of them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memplane.errors import InputError
from memplane.event import GLOBAL
from memplane.nofollow import Tally, counting
from memplane.plane import forgets
from memplane.plane.answers import Answers
from memplane.plane.pinning import pin_row, touch_row
from memplane.plane.tasks import PlaneTasks
from memplane.plane.writing import BulkReceipt, Receipt, Spooled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime, timedelta

    from memplane.log.recovery import Restart
    from memplane.log.spool import AsideNote
    from memplane.plane.changing import Undone
    from memplane.plane.evicting import Eviction
    from memplane.plane.picking import Forgotten

__all__ = ["Recording"]


class Recording(Answers):
    """What a plane stores. Nothing is acknowledged that is not as durable as the answer says."""

    durability: str
    _opening: Tally  # what the first pack has read before

    def record(self, text: str = "", **fields: Any) -> Receipt:
        """Store one event and acknowledge it.

        `fields` are those of the event: kind, key, session, task, role, tags, ts and so on. Raises
        InputError (nothing stored), ConflictError (the id is taken by another event), WriteError,
        LockError and CorruptError.
        """
        engine = self._engine
        appended = engine.append([engine.drafting()({"text": text, **fields}, "")])[0]
        return Receipt(appended, self.durability, self._log.line)

    def spool(self, text: str = "", **fields: Any) -> Spooled:
        """Store one event without waiting for another writer.

        Where nobody holds the log's lock it is recorded as `record` does. Else it is left in the
        spool, as durable (durability `spool`, seq None), and the next writer takes it in, once.
        Raises as `record` does, and WriteError where the spool is full.
        """
        engine = self._engine
        engine.check_open()
        draft = engine.drafting()({"text": text, **fields}, "")
        if not engine.keeps:
            engine.append([])  # says why nothing can be written
        done = self._log.spool([draft])
        if done is None:
            return Spooled(draft.id, "spool")
        return Spooled(draft.id, self.durability, done[0].seq, done[0].duplicate)

    @property
    def waiting(self) -> int:
        """How many calls of `spool` wait for a writer to take them in."""
        return len(self._log.waiting.names())

    @property
    def damage(self) -> str:
        """Why the log takes no event: its newest segment lost its first line; "" if it did not."""
        with counting(self._opening):
            refusal = self._log.headless()
        return "" if refusal is None else str(refusal)

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The repairs after which the log, or its newest segment, was started again."""
        return tuple(self._log.restarts())

    @property
    def set_aside(self) -> tuple[AsideNote, ...]:
        """What lay in the spool and could not be taken in; it is in log/quarantine now."""
        return tuple(self._log.waiting.notes)

    def record_many(
        self, rows: Iterable[Mapping[str, Any]], batch: int = 256, *, strict: bool = True
    ) -> BulkReceipt:
        """Store many events: all are checked first, then one write and one sync a batch.

        With `strict=False`, rows that cannot be taken (invalid, or their id is another event's)
        are listed in `refused` and the others are stored; rows may then be any iterator.
        """
        if batch < 1:
            raise InputError(f"expected 1 or more, found {batch}", where="batch")
        done, refused = self._engine.recorder.many(
            rows, batch, self._engine.drafting(), strict=strict
        )
        new = [appended.seq for appended in done if not appended.duplicate]
        return BulkReceipt(
            len(new), len(done) - len(new), new[0] if new else None, new[-1] if new else None,
            self.durability, tuple(refused),
        )  # fmt: skip

    def forget(
        self, key: str | None = None, *, ns: str = GLOBAL, id: str | None = None,  # noqa: A002
        session: str | None = None, source: str | None = None, reason: str = "",
    ) -> Receipt:  # fmt: skip
        """Archive: what is named is in no block, search or listing; the log keeps it.

        Exactly one of key (with ns), id, session and source (an importer's prefix of ids). Raises
        NotFoundError where that names nothing.
        """
        named = {"key": key, "id": id, "session": session, "source": source}
        return forgets.forget(self._engine, named, ns, reason, undo=False)

    def forget_many(
        self, *, tag: str | Iterable[str] | None = None,
        older_than: str | timedelta | None = None, kind: str | Iterable[str] | None = None,
        ns: str | None = None, decisions: bool = False, reason: str = "", dry_run: bool = False,
        now: str | datetime | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> Forgotten:  # fmt: skip
        """Archive what bears a tag, what is older than an age (`90d`, a timedelta), or both.

        Of one or several kinds and one namespace, if named; only what is in force. Decisions,
        rules, constraints and what is pinned stay, unless `decisions` or their kind is given. A
        `dry_run` says what it would take and writes nothing. `unforget(id=)` takes one back.
        """
        from memplane.plane.picking import forget_many  # noqa: PLC0415 - a pack does without

        given = {
            "tag": tag, "older_than": older_than, "kind": kind, "ns": ns, "decisions": decisions,
            "now": now,
        }  # fmt: skip
        return forget_many(self._engine, given, reason, dry_run=dry_run, progress=progress)

    def update(self, id: str | int, **changes: Any) -> Receipt:  # noqa: A002
        """Change a statement in force, with or without a key, by recording it anew.

        `changes`: text, importance, tags, markers, sensitivity, valid_from, valid_until. The new
        event names the old one in its refs and keeps all else of it but its session; the old one
        is superseded, or forgotten where it has no key. Raises NotFoundError, and InputError for
        what is no statement or out of force.
        """
        from memplane.plane.changing import update  # noqa: PLC0415 - a pack does without

        return update(self._engine, id, changes)

    def undo(self, *, dry_run: bool = False) -> Undone:
        """Take back the last statement that was recorded, or the last forget or unforget.

        A statement is forgotten, and the value that it had replaced is recorded anew; an update is
        taken back whole. Again, it goes further back. Turns, tasks and sessions stay. Raises
        NotFoundError where the last 10,000 lines have nothing to take back.
        """
        from memplane.plane.changing import undo  # noqa: PLC0415 - a pack does without

        return undo(self._engine, dry_run=dry_run)

    def unforget(
        self, key: str | None = None, *, ns: str = GLOBAL, id: str | None = None,  # noqa: A002
        session: str | None = None, source: str | None = None, reason: str = "",
    ) -> Receipt:  # fmt: skip
        """Take back the forgetting of what is named, as `forget` names it."""
        named = {"key": key, "id": id, "session": session, "source": source}
        return forgets.forget(self._engine, named, ns, reason, undo=True)

    def pin(
        self, id: str | int | None = None, *, key: str | None = None, ns: str = GLOBAL,  # noqa: A002
    ) -> Receipt:  # fmt: skip
        """Put a statement before others in the head of blocks, from the next session on.

        Exactly one of id (or seq) and key (with ns), which names the value that it has now.
        """
        self._engine.take_in_waiting()
        return self._engine.write(pin_row(self, id, key, ns, undo=False))

    def unpin(
        self, id: str | int | None = None, *, key: str | None = None, ns: str = GLOBAL,  # noqa: A002
    ) -> Receipt:  # fmt: skip
        """Take a pin back; named as `pin` names it."""
        self._engine.take_in_waiting()
        return self._engine.write(pin_row(self, id, key, ns, undo=True))

    def touch(
        self, id: str | int | None = None, *, key: str | None = None, ns: str = GLOBAL,  # noqa: A002
    ) -> Receipt:  # fmt: skip
        """Say that a memory still holds: its importance fades anew from now on.

        Exactly one of id (or seq) and key (with ns), which names the value that it has now.
        """
        return self._engine.write(touch_row(self, id, key, ns))

    def evict(
        self, below: float, *, dry_run: bool = False, ns: str | None = None,
        kind: str | None = None, now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Eviction:  # fmt: skip
        """Archive the memories whose importance has faded below a line (0 to 1000, or 0.0 to 1.0).

        Facts, observations, plans, summaries, insights and preferences, of one `ns` or `kind` or of
        all, by the importance that they have now or at `now`; never a decision, a rule, a
        constraint or what is pinned. The log keeps them; `unforget` takes them back. A `dry_run`
        says what it would take and writes nothing.
        """
        from memplane.plane.evicting import evict  # noqa: PLC0415 - a pack does without

        return evict(
            self._engine, below, ns=ns, kind=kind, now=now, dry_run=dry_run, progress=progress
        )

    @property
    def tasks(self) -> PlaneTasks:
        """Open, update, block, switch, close and list tasks."""
        return PlaneTasks(self.record, self._engine)
