"""`PlaneContext`: what an open plane holds, and how events are drafted and appended.

Log, clock, counter, policies, intake, projections and the lock, for the rooms above (`search`,
`work`, `artifacts`, `upkeep`), none of which needs the facade.
"""

from __future__ import annotations

import json
import os
import warnings
from _thread import RLock
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from memplane import nofollow
from memplane.context.calls import check_channel, check_texts
from memplane.context.watched_files import Frozen, watched
from memplane.errors import HomeError, InputError, MemplaneError, WriteError
from memplane.event import GLOBAL, PROJECTS, UPKEEP_KINDS, Draft, Event
from memplane.home import Home, RefoldWarning, replace_file
from memplane.intake import Intake, Redactor, marker_of, namespace, same, timestamp
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, Protocol, late
from memplane.log import FileLog
from memplane.log.reader import LineCache
from memplane.nofollow import Tally, counting
from memplane.observe import UNOBSERVED, Observing, note
from memplane.ports import Appended, Clock, Detector, Embedder, Position, TokenCounter

if TYPE_CHECKING:
    import shutil
    import weakref
    from collections.abc import Sequence
    from datetime import datetime

    from memplane import projects
    from memplane.context import (
        artifact_files as context_artifact_files,
        calls,
        event_access,
        folds as context_folds,
    )
    from memplane.context.artifact_files import ArtifactApprovals
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds, GroupedProjections, Prefixes, VisibleProjections
    from memplane.context.watched_files import Watched
    from memplane.log import log as log_log
    from memplane.pack import layout as pack_layout
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.ports import Line
    from memplane.projections import (
        hotset as projections_hotset,
        item as projections_item,
        projector as projections_projector,
    )
    from memplane.projections.files import FilesState
    from memplane.projections.hotset import HotsetState
    from memplane.projections.in_force import KeyValueRow
    from memplane.projections.item import Item, Printer
    from memplane.projections.memories import Memories
    from memplane.projections.projector import Follower
    from memplane.projections.sessions import SessionsState
    from memplane.recall.suppress import Scope
else:
    shutil = late("shutil")
    weakref = late("weakref")
    context_folds = late("memplane.context.folds")
    context_artifact_files = late("memplane.context.artifact_files")
    pack_layout = late("memplane.pack.layout")
    projections_hotset = late("memplane.projections.hotset")
    projections_item = late("memplane.projections.item")
    projections_projector = late("memplane.projections.projector")
    projects = late("memplane.projects")
    event_access = late("memplane.context.event_access")
    calls = late("memplane.context.calls")
    log_log = late("memplane.log.log")

_VALUES_KEPT: Final = 2_048


class Recent:
    """Cache of the values and lines read last, of one plane. Not safe between threads.

    Values are those of one prefix of the log, identified by its head. Should the log be cut and
    continued, its rows have other ids or places.
    """

    def __init__(self, read: Callable[[int], Line | None]) -> None:
        self._lines = LineCache(read)
        self._at: Position | None = None
        self._rows: dict[tuple[str, str], KeyValueRow | None] = {}

    def current(
        self, memories: Memories, ns: str, key: str, upto: int | None
    ) -> KeyValueRow | None:
        """Return the value in force as `Memories.current` does; `upto` is always the same."""
        at = memories.position
        if at != self._at or len(self._rows) >= _VALUES_KEPT:
            self._at, self._rows = at, {}
        place = ns, key
        if place not in self._rows:
            self._rows[place] = memories.current(ns, key, upto=upto)
        return self._rows[place]

    def line(self, row: KeyValueRow) -> Line | None:
        """Return the line of a row, if it is there and verifies."""
        return self._lines.line(row.seq, (row.id, row.segment, row.offset))


# What an open plane holds: files, log, projections, counter, intake.
_PINS_MAX = 100  # of one session
# A process that reads projections folds as it records, so many at once: to look where the log ends
# costs as much as to fold some lines. One that only writes leaves it to the readers: it would fold
# what the other writers record too.
_FOLD_EVERY = 64
_CHECKPOINT_EVENTS = 500
# A busy writer saves less often: half a megabyte every 500 events would cost a quarter of its time.
_CHECKPOINT_WRITING = 5000
# A short process leaves a short tail to the next one rather than writing half a megabyte.
_CHECKPOINT_AT_CLOSE = 64
NO_END = 2**63

MakeCounter = Callable[[str, int], TokenCounter]
MakeEmbedder = Callable[[str], Embedder]
# The log of a plane whose own is not the only one: of what is open, the parser for its lines, and
# what decides whether a repeated id brings the same event.
MakeLog = Callable[
    ["PlaneContext", Callable[[bytes], Any], Callable[[Event, Draft], bool]], FileLog
]
Made = TypeVar("Made")
OnePart = TypeVar("OnePart", bound="PlanePart")


class PlanePart(Protocol):
    """A part that lives as long as an open plane and follows what is recorded."""

    def __init__(self, context: PlaneContext) -> None: ...

    def follow(self, seq: int, count: int) -> None:
        """Note the last `count` events, up to `seq`. The lock is held."""

    def close(self) -> None:
        """Save if it is worth it, and close the files. The lock is held."""


class OfPlane:
    """One side of an open plane, as `plane.work` and `plane.work.tasks`; its repr says which."""

    _context: PlaneContext

    def __repr__(self) -> str:
        kind = type(self).__name__.removeprefix("Plane").lower()
        return f"<{kind} of the plane {str(self._context.home.path)!r}>"


class Drafting(Protocol):
    """Makes a draft of a row; `recalled` are quoted blocks that were moved out of its text."""

    def __call__(
        self, row: Mapping[str, Any], where: str, recalled: Sequence[str] = ()
    ) -> Draft: ...


class PlaneContext:
    """The parts of one open plane.

    `as_of`: the plane of a prefix of the log, read only. `keeps`: caches may be written though the
    plane is opened for reading. `agent`: the agent of calls that name none; its events have role
    assistant.
    """

    def __init__(
        self,
        home: Home,
        *,
        clock: Clock,
        make_counter: MakeCounter,
        durability: str = "sync",
        loads: Callable[[bytes], Any] = json.loads,
        log: FileLog | None = None,
        make_log: MakeLog | None = None,
        as_of: int | None = None,
        detector: Detector | None = None,
        overrides: Mapping[str, str] = MappingProxyType({}),
        make_embedder: MakeEmbedder | None = None,
        embedder: Embedder | None = None,
        files: Mapping[str, bytes] | None = None,
        keeps: bool = False,
        agent: str | None = None,
        on_close: Callable[[], None] | None = None,
        observing: Observing | None = None,
        known: tuple[Watched, FileLog] | None = None,
    ) -> None:
        self.agent, self._on_close, self.observing = agent, on_close, observing
        self.make_embedder, self.embedder = make_embedder or _no_embedder, embedder
        self.home, self.clock, self.durability, self.as_of = home, clock, durability, as_of
        self.make_counter, self.detector, self.loads = make_counter, detector, loads
        # Whether caches may be written.
        self.keeps = (keeps or not home.read_only) and as_of is None and not home.passing
        self._counter: tuple[tuple[str, int], TokenCounter] | None = None
        # What opening the plane took to read belongs to its first pack.
        self.opening = Tally()
        if log is None and home.read:
            self.opening.files[f"{home.folder}/plane.json"] = None
            self.opening.read += home.read
        with counting(self.opening):
            if files is None:
                self.watched = watched(home, lambda: self.keeps, overrides, self.counter)
            else:
                counts = overrides if home.passing else None
                self.watched = Frozen(home.path, files, self.counter, overrides=counts)
            self.lock = RLock()
            loads = self._parted(home, loads)
            self.log = log or self._opened_log(loads, make_log, known)
        self._emptied = _emptied_later(self) if home.passing and log is None else None
        self._folds: Folds | None = None
        self._opened_now = False  # the folds, and not caught up since
        self._prefixes: Prefixes | None = None
        self._intake: tuple[str, Intake] | None = None
        self._approvals: ArtifactApprovals | None = None
        self._alone: dict[tuple[object, ...], Any] = {}  # folds of a part of the log alone
        self._pinned: dict[tuple[object, str], tuple[Event, Item]] = {}  # read for their pins
        self._recorded = 0  # since the last fold
        self._finished = 0
        self._seen: Position | None = None  # the head of the log when purges were looked for
        self.recent = Recent(self.log.line)
        self._parts: dict[type[PlanePart], PlanePart] = {}
        self.closed = False
        if log is None and not self.read_only and not home.passing:
            with counting(self.opening):
                log_log.take_in_all(self.log)

    def _opened_log(
        self,
        loads: Callable[[bytes], Any],
        make_log: MakeLog | None = None,
        known: tuple[Watched, FileLog] | None = None,
    ) -> FileLog:
        home = self.home
        if known is not None:
            self.watched.take(known[0])
        policy = self.watched.policies_or_last().plane
        if make_log is not None:
            return make_log(self, loads, self._same)
        if home.passing:
            made = log_log.MemoryLog(home.plane_id, clock=self.clock, loads=loads, same=self._same)
            return cast("FileLog", made)  # it has what a plane asks of its log: see tests/log
        opened = FileLog(
            home.path,
            home.plane_id,
            clock=self.clock,
            durability="os" if self.durability == "os" else "sync",
            lock_wait_ms_max=policy.lock_wait_ms_max,
            loads=loads,
            same=self._same,
            read_only=home.read_only,
            keeps=self.keeps,
            outbox=home.shared is not None,
        )
        if known is not None:
            opened.take(known[1])
        return opened

    def need_files(self, what: str) -> None:
        """Raise HomeError for a plane in memory, where `what` cannot be done."""
        if self.home.passing:
            raise HomeError(f"a plane in memory has no files; {what} takes a plane in a folder")

    def _parted(self, home: Home, loads: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Find out what a parted plane's log says of projects; the parser for its lines."""
        self.watched.project, self._entry, self._stamp = home.project, home.entry, ""
        self.registry = (
            projects.Registry(home.folder, home.plane_id, keeps=self.keeps) if home.parted else None
        )
        if self.registry is None:
            return loads
        self._stamp = self.registry.follow().stamp()
        return self.registry.loads(loads)

    @property
    def cache_id(self) -> str:
        """The plane that caches are of, and where its events belong: see `KnownProjects.stamp`."""
        return f"{self.home.plane_id}/{self._stamp}" if self._stamp else self.home.plane_id

    def placed(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row with its namespace: that of the caller's project.

        Preferences are of the user in all projects, and events of memplane about its own log of no
        project. Without a project, and where the row names its namespace, it is returned as it is.
        """
        project = self.home.project
        if project is None or row.get("ns") is not None:
            return row
        kind = row.get("kind")
        return {**row, "ns": GLOBAL if kind == "preference" or kind in UPKEEP_KINDS else project}

    def is_elsewhere(self, ns: str) -> bool:
        """Whether a namespace is of another project than that of the open plane."""
        project = self.home.project
        return project is not None and ns.startswith(PROJECTS) and ns != project

    def seen_from(self, asked: Mapping[str, Any]) -> Policies:
        """The policies of now, with the project of the caller or of the session.

        In the user's own plane a session sees its own project, whoever opened the plane.
        """
        policies = self.watched.policies()
        project, session = asked.get("project"), asked.get("session")
        if project is not None:
            check_texts(project=project)
            namespace(str(project), where="project")
            return policies._replace(project=str(project))
        if self.registry is None or policies.project is not None or not isinstance(session, str):
            return policies
        ns = self.registry.follow().of_session(session)
        if ns is None:  # it never said that it began
            with self.lock:
                facts = self.caught_up(policies).sessions.state.sessions.get(session)
            spaces = [] if facts is None else [space for _, _, space in facts.origins]
            ns = next((space for space in spaces if space.startswith(PROJECTS)), None)
        known = ns is not None and ns.startswith(PROJECTS)
        return policies._replace(project=ns) if known else policies

    def key_space(self, key: str | None, ns: str) -> str:
        """The namespace of a key of `/global`: the caller's project where that has the key."""
        project = self.home.project
        if ns != GLOBAL or project is None or not isinstance(key, str):
            return ns
        with self.lock:
            memories = self.caught_up().memories
            return project if memories.history(project, key, upto=self.as_of) else GLOBAL

    def enter(self) -> None:
        """Record the project of the caller's folder, unless that was recorded before."""
        entry, self._entry = self._entry, ()
        if entry and self.registry is not None:
            known = self.registry.follow()
            make = self.drafting(internal=True)
            fresh = [row for row in entry if known.is_news(row)]
            if fresh:
                self.log.append([make(row, "") for row in fresh])

    @property
    def read_only(self) -> bool:
        """Whether nothing can be recorded: read-only files, or the plane of a prefix."""
        return self.home.read_only or self.as_of is not None

    @cached_property
    def recorder(self) -> calls.Recorder:
        """What makes drafts of rows."""
        return calls.Recorder(self.append, self._id_of)

    def check_open(self) -> None:
        """Raise HomeError if the plane was closed: the log would silently reopen itself."""
        if self.closed:
            raise HomeError(f"{self.home.path}: this plane was closed; open it again to use it")

    # --- writing ---

    def append(self, drafts: list[Draft], *, expected_seq: int | None = None) -> list[Appended]:
        """Append and return receipts; projections that are in use are folded now and then."""
        self.check_open()
        if self.as_of is not None:
            raise HomeError(f"this is the plane as of seq {self.as_of}; it cannot be written")
        if self.home.read_only:
            raise HomeError(f"{self.home.path}: is read-only; nothing was recorded")
        done = self.log.append(drafts, expected_seq=expected_seq)
        project = self.home.project
        here = zip(drafts, done, strict=True) if self._entry else ()
        if any(draft.ns == project and not one.duplicate for draft, one in here):
            self.enter()
        self._recorded += len(drafts)
        reads = self._folds is not None or bool(self._parts)
        if self._recorded >= (_FOLD_EVERY if reads else _CHECKPOINT_WRITING):
            recorded, self._recorded = self._recorded, 0
            with self.lock:
                if not reads:
                    self._save_for_readers()
                    return done
                policies = self.watched.policies_last_read()
                self.caught_up(policies, save_after=_CHECKPOINT_WRITING, lines_max=0)
                for part in self._parts.values():
                    part.follow(done[-1].seq if done else 0, recorded)
        return done

    def _save_for_readers(self, lines_max: int = 0) -> None:
        """Bring the checkpoints up to the log's end where this process only writes."""
        self.caught_up(self.watched.policies_last_read(), save_after=0, lines_max=lines_max)
        self._drop_folds()

    def take_in_waiting(self) -> None:
        """Append the events in the spool, before a decision that may depend on them.

        Raises HomeError where the plane cannot be written, LockError as an append.
        """
        self.check_open()
        if self.log.waiting.waits():
            self.append([])

    def drafting(self, *, internal: bool = False) -> Drafting:
        """The maker of drafts under the policies of now, or the last valid ones."""
        policies = self.watched.policies_to_record()
        count, intake = self.counter(policies).count, self.intake(policies)

        def draft(row: Mapping[str, Any], where: str, recalled: Sequence[str] = ()) -> Draft:
            if not internal:
                row = self.placed(self._signed(row))
            return self.recorder.draft(
                row, intake, self.clock(), count, where, internal=internal, recalled=recalled
            )

        return draft

    def agent_of(self, named: str | None) -> str | None:
        """The agent that is named, else the one that the plane was opened for."""
        return self.agent if named is None else named

    def _signed(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row with the plane's agent as the actor of what the assistant says."""
        if self.agent is None or not isinstance(row, Mapping) or row.get("role") != "assistant":
            return row
        return row if row.get("actor") is not None else {**row, "actor": self.agent}

    def asked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of a request with the agent of the call."""
        if self.agent is None or fields.get("agent") is not None:
            return {**fields}
        return {**fields, "agent": self.agent}

    def write(self, row: dict[str, Any]) -> calls.Receipt:
        """Record an event of memplane's own: forget, pin."""
        appended = self.append([self.drafting(internal=True)(row, "")])[0]
        return calls.Receipt(appended, self.durability, self.log.line)

    def _same(self, event: Event, draft: Draft) -> bool:
        redactor = self.intake(self.watched.policies_or_last()).redactor
        log = self.log
        return same(event, draft, redactor, lambda: log.text(event), lambda: log.recalled(event))

    def _id_of(self, seq: int) -> str:
        line = self.log.line(seq)
        if line is None:
            raise InputError(f"no event with seq {seq}", where="refs")
        return line.event.id

    # --- policies to objects ---

    def held_files(self) -> list[str]:
        """The policies and views that count as they were trusted, not as they are; sorted."""
        with self.lock:
            return self.watched.held()

    def intake(self, policies: Policies) -> Intake:
        """The intake (checks, redaction, markers) of these policies."""
        self.check_open()
        stamp = policies.hashes["privacy.yaml"] + policies.hashes["scoring.yaml"]
        if self._intake is None or self._intake[0] != stamp:
            privacy = policies.privacy
            made = Intake(
                Redactor(privacy.redact_patterns, self.detector),
                privacy.never_store_kinds,
                marker_of(policies.scoring.markers),
            )
            self._intake = (stamp, made)
        return self._intake[1]

    def redact(self, policies: Policies) -> Callable[[str], str]:
        """A function that masks secrets in text that leaves the plane."""
        return self.intake(policies).redactor.emitted

    def counter(self, policies: Policies) -> TokenCounter:
        """The counter that the policies name."""
        named = (policies.budgets.counter, policies.budgets.scale_ppm)
        if self._counter is None or self._counter[0] != named:
            self._counter = (named, self.make_counter(*named))
        return self._counter[1]

    def _variant(self, policies: Policies) -> str:
        """The counter and its scale: what the counts in projections and forms depend on."""
        return f"{self.counter(policies).name} x {policies.budgets.scale_ppm}"

    def printer(self, policies: Policies, *, cites: bool = False) -> Printer:
        """How entries are printed under these policies."""
        counter = self.counter(policies)
        rules = f"{policies.hashes['privacy.yaml']}{'/cited' if cites else ''}"
        stamp = f"{self._variant(policies)}/{rules}"
        redact = self.redact(policies)
        if cites:  # a client keeps such a block among what it says itself
            return projections_item.Printer(
                counter, lambda text: pack_layout.defused(redact(text)), stamp, cites
            )
        return projections_item.Printer(counter, redact, stamp, cites)

    def reader(
        self,
        channel: str,
        now: str | datetime | None = None,
        *,
        agent: str | None = None,
        ns: str | None = None,
        policies: Policies | None = None,
    ) -> event_access.EventAccess:
        """The access of one channel and agent, at the clock's time or another.

        `ns` is the namespace that is asked for, if any; raises ScopeError where it may not be read.
        `policies` are those of now by default; with others every channel is accepted.
        """
        self.check_open()
        check_texts(agent=agent)
        namespace(ns)
        if policies is None:
            policies = self.watched.policies()
            check_channel(policies, channel)
            self.follow()
        moment = self.clock() if now is None else timestamp(now, where="now")
        # What is found is there: only a plane of a prefix has an end that is not the log's own.
        as_of = NO_END if self.as_of is None else self.as_of
        redactor = self.intake(policies).redactor
        return event_access.EventAccess(
            policies,
            channel,
            now=moment,
            as_of=as_of,
            agent=agent,
            ns=ns,
            redactor=redactor,
            covers=self._covers,
        )

    def reader_of(self, request: Request) -> EventAccess:
        """The access of the request's reader; raises ScopeError for a namespace it may not read."""
        channel, now, agent = request.channel, request.now, request.agent
        return [self.reader(channel, now, agent=agent, ns=ns) for ns in request.ns or (None,)][-1]

    def _covers(self, seq: int, id_: str, as_of: int, now: str) -> bool:
        with self.lock:
            return self.approvals().covers(seq, id_, as_of=as_of, now=now)

    # --- projections ---

    def approvals(self, folds: Folds | None = None) -> ArtifactApprovals:
        """Which artifacts are approved, as of the log's head or of a prefix. Hold `lock`."""
        folds = folds or self.caught_up()
        table, memories = folds.artifacts.state, folds.memories
        known = self._approvals
        if known is None or not known.reads(table, memories):
            known = self._approvals = context_artifact_files.ArtifactApprovals(
                table, memories, self.log.find, self.home.path
            )
        return known

    def caught_up(
        self,
        policies: Policies | None = None,
        *,
        save_after: int = _CHECKPOINT_EVENTS,
        lines_max: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        beside: Sequence[Follower] = (),
    ) -> Folds:
        """The projections at the head of the log; `progress` is told the seqs. Hold `lock`.

        Saved where more than `save_after` lines are not; `lines_max` and `beside` as of `Folds`.
        """
        policies = policies or self.watched.policies_or_last()
        if self.as_of is not None:
            self.check_open()
            self._follow_projects()
            return self.prefix(self.as_of, policies)
        folds = self._opened_folds(policies)
        self.follow()
        if folds.catch_up(progress, for_all=lines_max != 0, beside=beside):
            self._notice_purges()
            if self.observing is not None:
                note("catch_up", {"seq": folds.log.head().seq})
        if self.keeps and folds.unsaved > save_after:
            self._save(folds, lines_max)
        fresh, self._opened_now = self._opened_now, False
        if fresh and self.keeps and (outdated := folds.outdated):
            self._renew(folds, outdated)
        return folds

    def follow(self) -> None:
        """Take in what other machines recorded, where the log follows a shared one."""
        if self.as_of is None:
            self.log.follow()

    def lines_to_fold(self, policies: Policies, *, digests: bool = False) -> int:
        """How many lines of the log `caught_up` has to fold now. Hold `lock`.

        `digests`: with those of sessions, which are opened on demand.
        """
        if self.as_of is not None:
            return self.as_of
        return self._opened_folds(policies).lines_behind(digests=digests)

    def _opened_folds(self, policies: Policies) -> Folds:
        """The projections of now as they were left, or as they are on the disk."""
        self.check_open()
        counter, variant = self.counter(policies), self._variant(policies)
        self._follow_projects()
        if self.log.finished != self._finished:  # what was folded may have a hole there
            self._finished = self.log.finished
            self.forget_folds()
        if self._folds is not None and self._folds.variant != variant:
            self._drop_folds()
        if self._folds is None:
            folder = None if self.home.passing else self.home.path / "projections"
            self._opened_now = True
            self._recorded = 0  # who reads from now on follows what comes from now on
            self._folds = context_folds.Folds(
                self.log, folder, self.cache_id, counter, variant, keeps=self.keeps
            )
        return self._folds

    def _follow_projects(self) -> None:
        """Let go of what was folded before events of the log were given to another project."""
        if self.registry is None:
            return
        stamp = self.registry.follow().stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            self._drop_folds()
            self._prefixes = None
            self._alone, self._pinned, self._approvals = {}, {}, None
            self.recent = Recent(self.log.line)

    def _renew(self, folds: Folds, outdated: Sequence[str]) -> None:
        """Save what was folded again, and warn once if another version of memplane had made it."""
        self._save(folds)
        warnings.warn(
            f"{self.home.folder}: another version of memplane made projections/"
            f"{', '.join(outdated)}; folded again from the {folds.log.head().seq} lines of the log",
            RefoldWarning,
            stacklevel=2,
        )

    def keep_first(self) -> None:
        """Write the checkpoints of a plane that has none: from its first pack on. Hold `lock`."""
        if self.keeps and self._folds is not None and not self._folds.hotset.is_stored:
            self._save(self._folds)

    def save_all(self) -> None:
        """Fold to the log's end and save, also what is opened on demand. Hold `lock`."""
        folds = self.caught_up()
        if self.keeps:
            self._save(folds)

    def _save(self, folds: Folds, lines_max: int | None = None) -> None:
        """Write the checkpoints, and with them what spares others a look at each segment."""
        if folds.save(lines_max):
            self._keep_headers()

    def _keep_headers(self) -> None:
        kept = self.log.headers_to_keep()
        if kept is not None:
            with suppress(WriteError):  # a cache that is not written is no error
                replace_file(self.home.path / kept[0], kept[1])

    def files(self, folds: Folds, scope: Scope, policies: Policies) -> FilesState:
        """The files view of the scope's reader."""
        files = folds.files
        missing = files.missing(scope.sees, scope.spaces())
        if missing:
            alone = self._folded_alone(
                folds,
                policies,
                ("files", *_reader(scope)),
                lambda: context_folds.files_fold(folds, missing),
            )
            files = files if alone is None else files.filled(alone)
        return files.seen(scope.sees)

    def sessions(self, folds: Folds) -> SessionsState:
        """The sessions, caught up."""
        return folds.sessions.state

    def newest_memories(self, folds: Folds) -> Memories:
        """The memories of now, which hold all that those of a prefix do, and more.

        Those of `folds` where none of now are folded. Hold `lock`.
        """
        return folds.memories if self._folds is None else self._folds.memories

    def part(self, kind: type[OnePart]) -> OnePart:
        """The one object of a kind that lives as long as the open plane, made at its first use.

        It follows what is recorded, and is closed with the plane.
        """
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return cast("OnePart", found)

    def prefix(self, seq: int, policies: Policies) -> Folds:
        """The projections as of a seq, folded from the log's beginning; the last few are kept."""
        self._notice_purges()
        return self._kept_prefixes().at(seq, self.counter(policies), self._variant(policies))

    def _kept_prefixes(self) -> Prefixes:
        if self._prefixes is None:
            self._prefixes = context_folds.Prefixes(self.log, self.cache_id)
        return self._prefixes

    def advance(self, seq: int) -> None:
        """Move the plane of a prefix forward to a seq by folding on.

        Raises InputError for a plane that is no prefix, or one that is behind `seq` already.
        """
        now, head = self.as_of, self.log.head().seq
        if now is None or not now <= seq <= head:
            found = "the log's head" if now is None else now
            raise unexpected(f"a seq from {found} to {head}", seq, "advance")
        with self.lock:
            self.as_of = seq
            self._kept_prefixes().advance(now, seq)

    def head(self) -> Position:
        """The end of the log now, or of the prefix that this plane is of."""
        self.check_open()
        return (
            self.log.head()
            if self.as_of is None
            else context_folds.Prefix(self.log, self.as_of).head()
        )

    def seen(
        self, folds: Folds, scope: Scope, session: str | None, policies: Policies
    ) -> VisibleProjections:
        """What the scope's reader sees of the projections, with the session in it."""
        counter, (places, gap) = self.counter(policies), self.places(folds, scope, policies)
        hotset = places.hotset.seen(scope.sees)
        ring = hotset.sessions.get(session) if session is not None else None
        if session is not None and (ring is None or ring.partial):
            turns = self._folded_alone(
                folds,
                policies,
                ("session", session, *_reader(scope)),
                lambda: context_folds.session_fold(folds, session, counter, scope.sees),
            )
            hotset, gap = (hotset, True) if turns is None else (hotset.joined(turns), gap)
        whole = places == folds.places  # no group had to be read from the log
        reader = _reader(scope) if whole else None
        seen = context_folds.seen_by(folds, places, hotset, scope.sees, gap=gap, reader=reader)
        ring = hotset.sessions.get(session) if session is not None else None
        if ring is None:
            return seen
        return seen._replace(pins=self._pins(folds, hotset, ring.epoch, scope, policies))

    def _pins(
        self, folds: Folds, hotset: HotsetState, epoch: int, scope: Scope, policies: Policies
    ) -> list[tuple[Item, int]]:
        """What was pinned since an epoch, newest first: at most 100 that the scope shows."""
        named = folds.memories.pins(epoch, upto=scope.as_of)
        recent = {item.id: item for item in hotset.items.values()} if named else {}
        found: list[tuple[Item, int]] = []
        for id_, pin in named:
            item = recent.get(id_) or self._left(folds, id_, scope.as_of, policies)
            if item is None or _is_held_elsewhere(item.kind) or item.seq > pin:
                continue
            if not scope.hides(item):
                found.append((item, pin))
                if len(found) == _PINS_MAX:
                    break
        return found

    def _left(self, folds: Folds, id_: str, as_of: int, policies: Policies) -> Item | None:
        """A pinned event that no projection holds, read from the log once; None if missing."""
        key = self._variant(policies), id_
        known = self._pinned.get(key)
        if known is None:
            line = self.log.find(id_)
            if line is None or line.event.seq > as_of:
                return None
            item = context_folds.items_of_event(line.event, self.counter(policies))
            known = self._pinned[key] = line.event, item
        event, item = known
        item.settle(folds.memories.archived(event, upto=as_of))
        return item

    def places(
        self, folds: Folds, scope: Scope, policies: Policies
    ) -> tuple[GroupedProjections, bool]:
        """The projections kept by groups of events, with all groups that a reader sees.

        And whether some are missing, because the log is too long to fold them.
        """
        places, counter = folds.places, self.counter(policies)
        missing = places.missing(scope.sees, scope.spaces())
        if not missing:
            return places, False
        alone = self._folded_alone(
            folds,
            policies,
            ("groups", *_reader(scope)),
            lambda: context_folds.group_fold(folds, missing, counter),
        )
        return (places, True) if alone is None else (places.filled(alone), False)

    def _folded_alone(
        self, folds: Folds, policies: Policies, key: tuple[object, ...], fold: Callable[[], Made]
    ) -> Made | None:
        """What takes the whole log, made or kept from the last time; None: it is too long."""
        most = policies.budgets.limits.bytes_read_max
        key = (folds.log.head().h, self._variant(policies), most, *key)
        made: Made | None = self._alone.get(key)
        if made is None and _log_bytes(self.home.folder, folds.log.head()) > most:
            return None
        if made is None:
            made = fold()
            kept = list(self._alone.items())[1 - context_folds.PREFIXES_KEPT :]
            self._alone = {**dict(kept), key: made}
        return made

    def seq_of(self, id: str | None) -> int:  # noqa: A002 - the field's name
        """The seq of an event, 0 where there is none."""
        line = self.log.find(id) if id is not None else None
        return 0 if line is None else line.event.seq

    def look_in_vain(self) -> None:
        """Read one line of the log, as it takes to find that an event is hidden.

        So a caller without access sees the same number of reads for a hidden event and a missing
        one.
        """
        self.log.line(1)

    def span(self, name: str, fields: dict[str, Any]) -> AbstractContextManager[None]:
        """What the observer is told of a call, `fields` as they are when it ends."""
        return UNOBSERVED if self.observing is None else self.observing.span(name, fields)

    def close(self) -> None:
        """Write checkpoints where that is worth it and let go of the files. Again: nothing."""
        self._close_folds()
        for part in self._parts.values():
            part.close()
        if self.as_of is None:
            self.log.close()
        if self._on_close is not None:
            self._on_close()
        if self._emptied is not None:
            self._emptied()

    def _close_folds(self) -> None:
        if self._folds is None and self.keeps and self._recorded >= _CHECKPOINT_EVENTS:
            # What the log will not give is for whoever reads it next, not for who closes.
            with suppress(MemplaneError, OSError):
                self._save_for_readers(_CHECKPOINT_WRITING)
        self.closed = True
        if self._folds is not None:
            if self.keeps and self._folds.unsaved >= _CHECKPOINT_AT_CLOSE:
                self._save(self._folds)
            elif self.keeps:  # what was opened one by one: of a copy, or sealed since
                if self.log.headers_missed:
                    self._keep_headers()
                if self._folds.bundle.missed:
                    self._folds.bundle.keep()
            self._drop_folds()

    def _notice_purges(self) -> None:
        """Forget what was kept of lines that may be erased since."""
        head, seen = self.log.head(), self._seen
        self._seen = head
        if seen is None or seen == head:
            return
        kept = self._prefixes, self._alone, self._pinned, self._approvals
        if not any(kept) and (self._folds is None or self._opened_now):
            self.recent = Recent(self.log.line)  # cheaper than to read what came since
            return
        if not projections_projector.overtaken(self.log, seen):
            return
        if self._prefixes is not None:
            self._prefixes.clear()
        self._alone, self._pinned, self._approvals = {}, {}, None
        self.recent = Recent(self.log.line)
        if self._folds is not None:
            self._folds.forget()

    def forget_folds(self) -> None:
        """Drop all projections without saving them."""
        self._notice_purges()
        self._drop_folds()

    def _drop_folds(self) -> None:
        if self._folds is not None:
            self._folds.close()
            self._folds = None


def _is_held_elsewhere(kind: str) -> bool:
    """Whether a pinned event of this kind has another place in a block, or none."""
    return kind in UPKEEP_KINDS or kind in projections_hotset.NO_TURNS or kind == "session"


def _reader(scope: Scope) -> tuple[object, ...]:
    """The same as values."""
    return scope.levels, scope.ns, scope.agent, scope.shared, scope.owner, scope.project


def _no_embedder(name: str) -> Embedder:
    raise InputError(f"no embedder {quoted_value(name)} here: the plane was opened without any")


def _log_bytes(home: str, head: Position) -> int:
    """Bytes of the log up to its head, or to the head of a prefix of it."""
    sealed = (f"{home}/log/{number:08}.jsonl" for number in range(1, head.segment))
    return head.offset + sum(os.lstat(file).st_size for file in sealed if nofollow.is_file(file))


class Requester(NamedTuple):
    """The reader of a handle, and as of when."""

    context: PlaneContext
    folds: Folds
    policies: Policies
    channel: str
    agent: str | None
    now: str
    as_of: int


def _emptied_later(context: PlaneContext) -> Callable[[], object]:
    """Remove the folder of a plane in memory when the plane is closed, or forgotten unclosed."""
    return weakref.finalize(context, _remove_of, os.getpid(), context.home.folder)


def _remove_of(process: int, folder: str) -> None:
    """Remove a folder, but not at the end of a fork of the process that has it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
