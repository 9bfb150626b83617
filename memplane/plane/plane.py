"""Plane: what a program opens. Thin: each method says what it promises and calls the room that does it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from memplane.errors import HomeError, InputError, NotFoundError
from memplane.event import GLOBAL, Draft, Event
from memplane.home import Home
from memplane.intake import Intake, Redactor, same, timestamp
from memplane.log import FileLog
from memplane.pack.block import Block
from memplane.pack.request import Expansion, Request
from memplane.plane import packing
from memplane.plane.asking import request_of
from memplane.plane.files import Reads, Watched
from memplane.plane.folds import Folds, Prefix, items_of_event, session_fold
from memplane.plane.reading import Expanded, Reader, Version, parse_handle
from memplane.plane.writing import BulkReceipt, Receipt, Recorder
from memplane.policy import Policies
from memplane.ports import Appended, Clock, Head, TokenCounter
from memplane.projections.hotset import HotsetState
from memplane.projections.item import Printer

__all__ = ["Plane"]

# Folding waits for the first reader; a process that records on and on folds as it goes.
_FOLD_AFTER = 32
_CHECKPOINT_EVENTS = 500
# A short process leaves a short tail to the next one rather than writing half a megabyte.
_CHECKPOINT_AT_CLOSE = 64

MakeCounter = Callable[[str, int], TokenCounter]


class Plane:
    """A memory plane: record what happened, pack what an agent needs.

    Threads may share one. Any number of processes may have the same plane open. Use it as a
    context manager or call `close()`; what was acknowledged is safe either way.
    """

    def __init__(
        self, home: Home, *, clock: Clock, make_counter: MakeCounter, durability: str = "sync",
        loads: Callable[[bytes], Any] = json.loads, log: FileLog | None = None,
        as_of: int | None = None,
    ) -> None:  # fmt: skip
        self.home, self.id, self.durability = home.path, home.plane_id, durability
        self.read_only = home.read_only or as_of is not None
        self._home, self._clock, self._make_counter = home, clock, make_counter
        self._as_of = as_of
        self._keeps = not self.read_only
        self.reads = Reads()
        self._watched = Watched(self.home, self.reads, lambda: self._keeps)
        self._folds: Folds | None = None
        self._prefixes: dict[int, Folds] = {}
        self._counter: tuple[tuple[str, int], TokenCounter] | None = None
        self._intake: tuple[str, Intake] | None = None
        self._memo: dict[tuple[str, int, str], tuple[str, int, bool]] = {}
        self._recorded = 0
        self._lock = threading.RLock()
        self._log = log or FileLog(
            self.home, self.id, clock=clock, durability="sync" if durability == "sync" else "os",
            lock_wait_ms_max=self._watched.policies_or_last().plane.lock_wait_ms_max,
            loads=loads, same=self._same, read_only=home.read_only,
        )  # fmt: skip
        self._recorder = Recorder(self._append, self._id_of)

    # --- recording ---

    def record(self, text: str = "", **fields: Any) -> Receipt:
        """Store one event and acknowledge it.

        `fields` are those of the event: kind, key, session, task, role, tags, ts and so on. Raises
        InputError (nothing stored), ConflictError (the id is taken by another event), WriteError,
        LockError and CorruptError.
        """
        appended = self._append([self._draft({"text": text, **fields})])[0]
        return Receipt(appended, self.durability, self._log.line)

    def record_many(
        self, rows: Iterable[Mapping[str, Any]], batch: int = 256, *, strict: bool = True
    ) -> BulkReceipt:
        """Store many events: all are checked first, then one write and one sync a batch.

        With `strict=False`, rows that cannot be taken (invalid, or their id is another event's)
        are listed in `refused` and the others are stored; rows may then be any iterator.
        """
        if batch < 1:
            raise InputError(f"expected 1 or more, found {batch}", where="batch")
        done, refused = self._recorder.many(rows, batch, self._draft, strict=strict)
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
        return self._forget(key, ns, id, session, source, reason, undo=False)

    def unforget(
        self, key: str | None = None, *, ns: str = GLOBAL, id: str | None = None,  # noqa: A002
        session: str | None = None, source: str | None = None, reason: str = "",
    ) -> Receipt:  # fmt: skip
        """Take back the forgetting of what is named, as `forget` names it."""
        return self._forget(key, ns, id, session, source, reason, undo=True)

    def pin(self, id: str | int) -> Receipt:  # noqa: A002 - the field's name
        """Put a statement before others in the head of blocks, from the next session on."""
        return self._internal({"kind": "pin", "refs": [self.event(id).id]})

    def unpin(self, id: str | int) -> Receipt:  # noqa: A002 - the field's name
        """Take a pin back."""
        row = {"kind": "pin", "refs": [self.event(id).id], "data": {"undo": True}}
        return self._internal(row)

    # --- packing ---

    def pack(self, query: str = "", *, save_report: bool = False, **asked: Any) -> Block:
        """Pack a block for the query within its budget.

        `asked`: budget (tokens), channel, intent (auto fast deep orient), session, task, ns, agent,
        sections, expand (handles), exclude (ids), query_event, since, until, as_of, now. Equal
        inputs give equal bytes. Raises BudgetError, InputError, PolicyError; never for size.
        """
        watch = packing.Stopwatch()
        before = (self.reads.files, self.reads.bytes)
        with self._lock:
            policies = self._watched.policies()
            watch.mark("policy")
            folds = self._caught_up(policies)
            head = folds.log.head()
            request = self._request(query, asked, policies, head)
            watch.mark("catch_up")
            if request.as_of != head.seq:
                folds = self._prefix(request.as_of, policies)
                head = folds.log.head()
            hotset, gap = self._hotset(folds, request, policies)
            limits = policies.budgets.limits
            most = before[0] + limits.file_reads_max
            views = packing.load_views(
                self._watched, policies, request.channel, self.reads, most
            )
            expansions = [self._expansion(handle, policies) for handle in request.expand]
            materials = packing.materials_of(
                request, policies, folds, hotset, views=views, expansions=expansions,
                memo=self._memo, gap=gap,
            )  # fmt: skip
            printer = self._printer(policies)
            watch.mark("read")
            gaps = [dict(g._asdict(), missing=g.last - g.first + 1) for g in self._log.gaps()]
            block = packing.run(request, materials, printer, watch, (head.seq, head.h), gaps)
        block.report["io"] = {
            "files": self.reads.files - before[0],
            "bytes": self.reads.bytes - before[1],
        }
        if save_report and not self.read_only:
            keep = policies.plane.reports_keep
            packing.save(self.home, block, self._clock(), keep, self._watched.source)
        return block

    # --- reading ---

    def event(self, id: str | int, *, channel: str = "private") -> Event:  # noqa: A002
        """One event by id or seq. Raises NotFoundError, ScopeError."""
        reader = self._reader(channel)
        line = self._log.line(id) if isinstance(id, int) else self._log.find(id)
        if line is not None and self._as_of is not None and line.event.seq > self._as_of:
            line = None
        return reader.one(line, repr(id))

    def text(self, event: Event) -> str:
        """The whole text of an event, also where the line holds only its beginning."""
        return self._redact(self._watched.policies_or_last())(self._log.text(event))

    def events(
        self, *, kind: str | None = None, session: str | None = None, ns: str | None = None,
        after: int = 0, limit: int | None = None, channel: str = "private",
    ) -> Iterator[Event]:  # fmt: skip
        """The events that match, in log order, behind the seq `after`."""
        reader = self._reader(channel)
        lines = self._log.read(after, self._as_of)
        return reader.events(lines, kind=kind, session=session, ns=ns, limit=limit)

    def get(
        self, key: str, ns: str = GLOBAL, *, channel: str = "private", now: str | None = None
    ) -> Event | None:
        """The value that a key has now; None where it has none, was forgotten or is out of time."""
        reader = self._reader(channel, now)
        with self._lock:
            row = self._caught_up().memories.current(ns, key, upto=self._as_of)
        if row is None:
            return None
        event = reader.one(self._log.line(row.seq), f"{key!r} in {ns}")
        return event if reader.in_time(event) else None

    def keys(
        self, prefix: str = "", ns: str | None = GLOBAL, *, channel: str = "private",
        limit: int = 1000,
    ) -> list[str]:  # fmt: skip
        """The keys with a value now, in byte order; `ns` None: of all namespaces."""
        reader = self._reader(channel)
        with self._lock:
            memories = self._caught_up().memories
            rows = memories.keys(prefix, ns, limit=limit, upto=self._as_of)
            lines = [(row.key, self._log.line(row.seq)) for row in rows]
        return [
            key
            for key, line in lines
            if line is not None and reader.shows(line.event) and reader.in_time(line.event)
        ]

    def history(
        self, key: str, ns: str = GLOBAL, *, channel: str = "private"
    ) -> list[Version]:
        """Every value that a key had, oldest first, each with what became of it."""
        reader = self._reader(channel)
        with self._lock:
            rows = self._caught_up().memories.history(ns, key, upto=self._as_of)
            lines = [(row, self._log.line(row.seq)) for row in rows]
        return [
            Version(reader.emit(line.event), row.reason, row.by_seq)
            for row, line in lines
            if line is not None and reader.shows(line.event)
        ]

    def decisions(self, *, channel: str = "private", ns: str | None = None) -> list[Event]:
        """The decisions in force that the ledger holds, in log order."""
        reader = self._reader(channel)
        with self._lock:
            found = [s.seq for s in self._caught_up().decisions.state.active()]
            lines = [self._log.line(seq) for seq in found]
        events = [line.event for line in lines if line is not None]
        return [
            reader.emit(event)
            for event in events
            if reader.shows(event) and reader.in_time(event) and ns in (None, event.ns)
        ]

    def expand(self, handle: str, budget: int = 2000, *, channel: str = "private") -> Expanded:
        """Open a handle: the whole of an event or view, as far as the budget (tokens) goes.

        Raises InputError for what is no handle, NotFoundError, ScopeError.
        """
        seq, path, start = parse_handle(handle)
        if budget <= 0:
            raise InputError(f"expected 1 token or more, found {budget}", where="budget")
        policies = self._watched.policies()
        reader, counter = self._reader(channel), self._counter_of(policies)
        if seq is None:
            view = self._watched.view(path) if path in packing.view_paths(policies, channel) else None
            if view is None or view.lost:
                raise NotFoundError(f"no view {path} on channel {channel}")
            return reader.expand_view(view, start, budget, counter)
        event = self.event(seq, channel=channel)
        line = self._log.line(seq)
        assert line is not None
        return reader.expand_event(event, self._log.text(line.event), start, budget, counter)

    def head(self) -> Head:
        """Where the log ends now."""
        return self._log.head()

    def at(self, when: int | str | datetime) -> Plane:
        """The plane as it was: a read-only one of the log up to a seq, or to what was recorded by then.

        Policies and views are today's; the clock stands where the last event was recorded.
        """
        seq = when if isinstance(when, int) else self._seq_by(timestamp(when))
        head = self._log.head().seq
        if not 0 <= seq <= head:
            raise InputError(f"expected a seq from 0 to {head}, found {seq}", where="at")
        line = self._log.line(seq) if seq else None
        moment = line.event.rec if line is not None else self._clock()
        return Plane(
            self._home, clock=lambda: moment, make_counter=self._make_counter,
            durability=self.durability, log=self._log, as_of=seq,
        )  # fmt: skip

    # --- upkeep ---

    @property
    def policies(self) -> Policies:
        """The policies as they are now; raises PolicyError."""
        return self._watched.policies()

    def hotset(self) -> HotsetState:
        """The hotset as of now. Read only."""
        with self._lock:
            return self._caught_up().hotset.state

    def rebuild(self) -> int:
        """Throw the projections away and fold the log again; returns the events folded."""
        with self._lock:
            folder = self.home / "projections"
            for name in ("hotset.json", "decisions.json", "cards.json", "cache.sqlite"):
                (folder / name).unlink(missing_ok=True)
            if self._folds is not None:
                self._folds.close()
                self._folds = None
            folds = self._caught_up()
            folds.save()
            return folds.log.head().seq

    def flush(self) -> None:
        """Make everything recorded here survive a power cut, whatever the durability."""
        self._log.flush()

    def close(self) -> None:
        """Write checkpoints where that is worth it and let go of the files."""
        with self._lock:
            if self._folds is not None:
                if self._keeps and self._folds.unsaved >= _CHECKPOINT_AT_CLOSE:
                    self._folds.save()
                self._folds.close()
                self._folds = None
            if self._as_of is None:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    # --- how it works ---

    def _append(self, drafts: list[Draft]) -> list[Appended]:
        if self._as_of is not None:
            raise HomeError(f"this is the plane as of seq {self._as_of}; it cannot be written")
        if self._home.read_only:
            raise HomeError(f"{self.home}: is read-only; nothing was recorded")
        done = self._log.append(drafts)
        self._recorded += len(drafts)
        if self._folds is not None or self._recorded >= _FOLD_AFTER:
            with self._lock:
                self._caught_up(self._watched.policies_or_last())
        return done

    def _draft(self, row: Mapping[str, Any], where: str = "", *, internal: bool = False) -> Draft:
        policies = self._watched.policies_or_last()
        count = self._counter_of(policies).count
        intake = self._intake_of(policies)
        return self._recorder.draft(row, intake, self._clock(), count, where, internal=internal)

    def _internal(self, row: dict[str, Any]) -> Receipt:
        appended = self._append([self._draft(row, internal=True)])[0]
        return Receipt(appended, self.durability, self._log.line)

    def _forget(
        self, key: str | None, ns: str, id_: str | None, session: str | None, source: str | None,
        reason: str, *, undo: bool,
    ) -> Receipt:  # fmt: skip
        given = [name for name in (key, id_, session, source) if name is not None]
        if len(given) != 1:
            raise InputError("expected exactly one of key, id, session and source")
        named: dict[str, Any]
        if key is not None:
            with self._lock:
                history = self._caught_up().memories.history(ns, key)
            if not history or (not undo and history[-1].reason is not None):
                raise NotFoundError(f"no value under {key!r} in {ns}")
            named = {"key": key, "ns": ns}
        elif id_ is not None:
            named = {"ids": [self.event(id_).id]}
        else:
            field, value = ("session", session) if session is not None else ("source", source)
            assert value is not None
            if not any(_is_of(line.event, session, source) for line in self._log.read()):
                raise NotFoundError(f"no event of {field} {value!r}")
            named = {field: value}
        data = {"forget": named, **({"undo": True} if undo else {})}
        return self._internal({"kind": "forget", "text": reason, "data": data})

    def _same(self, event: Event, draft: Draft) -> bool:
        redactor = self._intake_of(self._watched.policies_or_last()).redactor
        return same(event, draft, redactor, self._log.text(event))

    def _id_of(self, seq: int) -> str:
        line = self._log.line(seq)
        if line is None:
            raise InputError(f"no event with seq {seq}", where="refs")
        return line.event.id

    def _intake_of(self, policies: Policies) -> Intake:
        stamp = policies.hashes["privacy.yaml"]
        if self._intake is None or self._intake[0] != stamp:
            privacy = policies.privacy
            made = Intake(Redactor(privacy.redact_patterns), privacy.never_store_kinds)
            self._intake = (stamp, made)
        return self._intake[1]

    def _redact(self, policies: Policies) -> Callable[[str], str]:
        redactor = self._intake_of(policies).redactor
        return lambda text: redactor.redact(text)[0]

    def _printer(self, policies: Policies) -> Printer:
        counter = self._counter_of(policies)
        stamp = f"{counter.name}/{policies.hashes['privacy.yaml']}"
        return Printer(counter, self._redact(policies), stamp)

    def _counter_of(self, policies: Policies) -> TokenCounter:
        named = (policies.budgets.counter, policies.budgets.scale_ppm)
        if self._counter is None or self._counter[0] != named:
            self._counter = (named, self._make_counter(*named))
        return self._counter[1]

    def _reader(self, channel: str, now: str | None = None) -> Reader:
        policies = self._watched.policies()
        as_of = self._log.head().seq if self._as_of is None else self._as_of
        clock = self._clock() if now is None else timestamp(now)
        return Reader(policies, channel, now=clock, as_of=as_of, redact=self._redact(policies))

    def _caught_up(self, policies: Policies | None = None) -> Folds:
        counter = self._counter_of(policies or self._watched.policies_or_last())
        if self._as_of is not None:
            return self._prefix(self._as_of, policies or self._watched.policies())
        if self._folds is not None and self._folds.counter_name != counter.name:
            self._folds.close()
            self._folds = None
        if self._folds is None:
            folder = self.home / "projections"
            self._folds = Folds(self._log, folder, self.id, counter)
        self._folds.catch_up()
        if self._keeps and self._folds.unsaved > _CHECKPOINT_EVENTS:
            self._folds.save()
        return self._folds

    def _prefix(self, seq: int, policies: Policies) -> Folds:
        folds = self._prefixes.get(seq)
        if folds is None:
            counter = self._counter_of(policies)
            folds = Folds(Prefix(self._log, seq), None, self.id, counter)
            folds.catch_up()
            self._prefixes = {**dict(list(self._prefixes.items())[-3:]), seq: folds}
        return folds

    def _request(
        self, query: str, asked: dict[str, Any], policies: Policies, head: Head
    ) -> Request:
        return request_of(
            query, asked, policies, head=head.seq, clock=self._clock, redact=self._redact(policies)
        )

    def _hotset(
        self, folds: Folds, request: Request, policies: Policies
    ) -> tuple[HotsetState, bool]:
        """The hotset, with the request's session in it where the log can still give it."""
        hotset = folds.hotset.state
        session = request.session
        if session is None or session in hotset.sessions:
            return hotset, False
        size = sum(file.stat().st_size for file in (self.home / "log").glob("*.jsonl"))
        if size > policies.budgets.limits.bytes_read_max:
            return hotset, True
        return hotset.joined(session_fold(folds.log, session, self._counter_of(policies))), False

    def _expansion(self, handle: str, policies: Policies) -> Expansion:
        seq, _, start = parse_handle(handle)
        if seq is None:
            raise InputError("a pack expands events; views are read with expand()", where="expand")
        line = self._log.line(seq)
        if line is None:
            raise NotFoundError(f"no event {seq}")
        text = self._log.text(line.event)
        item = items_of_event(line.event, self._counter_of(policies))
        archived = self._caught_up(policies).memories.archived(line.event)
        if archived is not None:
            item.superseded, item.forgotten = archived[0] == "superseded", archived[0] == "forgotten"
        return Expansion(handle, item, text[start:], whole=start == 0)

    def _seq_by(self, moment: str) -> int:
        """The last seq recorded by a moment; `rec` never runs backwards, so halving finds it."""
        low, high = 0, self._log.head().seq
        while low < high:
            middle = (low + high + 1) // 2
            line = self._log.line(middle)
            if line is not None and line.event.rec > moment:
                high = middle - 1
            else:
                low = middle
        return low


def _is_of(event: Event, session: str | None, source: str | None) -> bool:
    if session is not None:
        return event.session == session and event.kind != "forget"
    return event.id.startswith(f"{source}:")

