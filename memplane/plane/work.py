"""`plane.work`: tasks, sessions, files and projects, and what changes statements in their turn.

What a program calls at each turn stands on `Plane` itself.

`with plane.session(...)` is a session that begins and ends with a block of code. What is said in it
needs no `session=`: the handle records, packs and recalls for its session and its agent.

`plane.work.projects` lists the projects of the user's own plane, joins roots and sessions to one.
Nothing that was recorded is changed: each is an event, and events are read where it says.
"""

# ruff: noqa: PTH100, PTH111, PTH112, PTH119 - roots of projects are texts
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, Unpack

from memplane.context.calls import Receipt
from memplane.context.context import OfPlane, PlaneContext
from memplane.errors import HomeError, InputError, MemplaneError, NotFoundError
from memplane.event import Event, EventFields
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, Protocol, late
from memplane.projects import (
    UNKNOWN,
    KnownProjects,
    enter_folder,
    find_root,
    joined,
    project_named,
    shown_name,
)

if TYPE_CHECKING:
    from types import TracebackType

    from memplane import artifacts as artifacts_room
    from memplane.context import batches as context_batches, materials
    from memplane.context.batches import Spooled
    from memplane.context.event_access import Standing
    from memplane.pack.block import Block
    from memplane.pack.request import PackFields
    from memplane.recall import session_digest as recall_session_digest, suppress as recall_suppress
    from memplane.work import changes as work_changes, sessions, tasks
    from memplane.work.changes import Eviction, Forgotten, Undone, UpdateFields
    from memplane.work.episodes import ContextAssembly
    from memplane.work.sessions import Ended
else:
    recall_session_digest = late("memplane.recall.session_digest")
    recall_suppress = late("memplane.recall.suppress")
    context_batches = late("memplane.context.batches")
    artifacts_room = late("memplane.artifacts")
    materials = late("memplane.context.materials")
    work_changes = late("memplane.work.changes")
    sessions = late("memplane.work.sessions")
    tasks = late("memplane.work.tasks")


_OneOrMore: TypeAlias = str | Iterable[str] | None
_Time: TypeAlias = str | datetime | None


class PlaneWork(OfPlane):
    """The part of a plane that a program calls now and then; had as `plane.work`."""

    def __init__(self, context: PlaneContext, record: Callable[..., Receipt]) -> None:
        self._context, self._record = context, record

    def spool(self, text: str = "", **fields: Unpack[EventFields]) -> Spooled:
        """Store one event without waiting for another writer.

        Where nobody holds the log's lock it is recorded as `record` does. Else it is left in the
        spool, as durable (durability `spool`, seq None), and the next writer takes it in, once.
        Raises as `record` does, and WriteError where the spool is full.
        """
        context = self._context
        context.check_open()
        draft = context.drafting()({"text": text, **fields}, "")
        if not context.keeps:
            context.append([])  # says why nothing can be written
        done = self._context.log.spool([draft])
        if done is None:
            return context_batches.Spooled(draft.id, "spool")
        return context_batches.Spooled(
            draft.id, self._context.durability, done[0].seq, done[0].duplicate
        )

    def recalled(self, event: Event) -> list[str | None]:
        """The quoted blocks that were moved out of an event's text, secrets masked, in order.

        For the owner: a block quotes what other events say, also those that a channel may not see.
        None stands for a block whose file is lost. Events of earlier versions kept none.
        """
        redact = self._context.redact(self._context.watched.policies_or_last())
        blocks = self._context.log.recalled(event)
        return [None if block is None else redact(block) for block in blocks]

    def archived(
        self,
        event: Event,
        *,
        now: _Time = None,
        channel: str = "private",
        agent: str | None = None,
    ) -> tuple[str, int | None] | None:
        """Why an event is out of force, and by which event (its seq); None where it is in force.

        `superseded`, `forgotten`, `evicted`; `expired` by its own `valid_until` at the clock. The
        seq is None where that event is one that the channel and agent may not see.
        """
        standing = self.standing(event, now=now, channel=channel, agent=agent)
        if standing.reason is None or standing.reason == "pending":
            return None
        return standing.reason, standing.by_seq

    def standing(
        self,
        event: Event,
        *,
        now: _Time = None,
        channel: str = "private",
        agent: str | None = None,
    ) -> Standing:
        """What became of an event, what it superseded, and what time has left of its importance.

        Other values of its key are named where the channel and agent may see them.
        """
        agent, as_of = self._context.agent_of(agent), self._context.as_of
        reader = self._context.reader(channel, now, agent=agent)
        with self._context.lock:
            memories = self._context.caught_up(reader.policies).memories
            return reader.standing(event, memories, as_of)

    def decisions(
        self,
        *,
        channel: str = "private",
        ns: str | None = None,
        agent: str | None = None,
        reversed_too: bool = False,
    ) -> list[Event]:
        """The decisions in force that the ledger knows of, in log order: some 400 at most.

        `reversed_too`: also those that a later answer reversed (`memplane.recall.session_digest`).
        """
        reader = self._context.reader(channel, agent=self._context.agent_of(agent), ns=ns)
        with self._context.lock:
            ledger = self._context.caught_up(reader.policies).decisions.state
            found = sorted(one.seq for one in (*ledger.active(), *ledger.left()))
            lines = [self._context.log.line(seq) for seq in found]
        events = [
            line.event
            for line in lines
            if line is not None
            and reader.shows(line.event)
            and reader.in_time(line.event)
            and (ns is None or recall_suppress.within(line.event.ns, (ns,)))
        ]
        gone = (
            {}
            if reversed_too
            else recall_session_digest.reversed_by(map(recall_session_digest.derived, events))
        )
        return [reader.emit(event) for event in events if event.seq not in gone]

    def files(
        self,
        query: str = "",
        *,
        session: str | None = None,
        branch: str | None = None,
        limit: int = 20,
        channel: str = "private",
        ns: _OneOrMore = None,
        agent: str | None = None,
    ) -> list[materials.FileView]:
        """The files that the session works on, then those that it may need: the best first.

        Without a branch, the session's. Guessed from what was touched, never from the disk.
        Raises ScopeError for a namespace that the caller may not read.
        """
        asked: dict[str, Any] = {"channel": channel, "ns": ns, "agent": agent}
        return materials.list_files(
            self._context, query, session=session, branch=branch, limit=limit, asked=asked
        )

    def update(self, id: str | int, **changes: Unpack[UpdateFields]) -> Receipt:  # noqa: A002
        """Change a statement in force, with or without a key, by recording it anew.

        `changes`: text, importance, tags, markers, sensitivity, valid_from, valid_until. The new
        event names the old one in its refs and keeps all else of it but its session; the old one
        is superseded, or forgotten where it has no key. Raises NotFoundError, and InputError for
        what is no statement or out of force.
        """
        return work_changes.update_statement(self._context, id, changes)

    def confirm(
        self,
        id: str | int,  # noqa: A002
        *,
        channel: str = "private",
        agent: str | None = None,
    ) -> Receipt:
        """Record a statement in force anew as a user's: what an agent, tool or model stated.

        The new event has the role `user`, the session of none, and names the old one
        (`data.confirms`); the old one is superseded, or forgotten where it has no key. `undo` takes
        that back. Where an agent asks (`agent`, or the plane's), the event names it and counts as
        relayed: for `statements.head: confirmed` that is no confirmation. Raises NotFoundError for
        what the reader may not see, ScopeError for another's namespace, and InputError for what is
        no statement, out of force, expired or a user's.
        """
        return work_changes.confirm_statement(
            self._context, id, channel=channel, agent=self._context.agent_of(agent)
        )

    def name_decision(self, id: str | int, key: str) -> Receipt:  # noqa: A002
        """Give a decision in force a key, by recording it anew: a later one of the key replaces it.

        Also one that a user said with `Decision: ...`. Without a key it is filed under its seq.
        Raises NotFoundError, and InputError for what is no decision or out of force.
        """
        return work_changes.name_decision(self._context, id, key)

    def undo(self, *, dry_run: bool = False) -> Undone:
        """Take back the last statement that was recorded, or the last forget or unforget.

        A statement is forgotten, and the value that it had replaced is recorded anew; an update is
        taken back whole. Again, it goes further back. Turns, tasks and sessions stay. Raises
        NotFoundError where the last 10,000 lines have nothing to take back.
        """
        return work_changes.undo_statement(self._context, dry_run=dry_run)

    def forget_many(
        self,
        *,
        query: str | None = None,
        tag: str | Iterable[str] | None = None,
        since: _Time = None,
        older_than: str | timedelta | None = None,
        project: str | None = None,
        ids: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        ns: str | None = None,
        decisions: bool = False,
        reason: str = "",
        dry_run: bool = False,
        now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Forgotten:
        """Archive what matches all that is given: ids, a tag, words, a span of time, a project.

        `query`: its whole text has every one of these words. `since` is a time or an age (`2d`),
        `older_than` an age (`90d`, a timedelta), `project` a namespace. Of one or several kinds and
        one namespace, if named; only what is in force, and nothing of another project than the
        plane is opened for. Decisions, rules, constraints and what is pinned stay, unless
        `decisions` or their kind is given. A `dry_run` says what it would take and writes nothing.
        `undo` takes it back whole, `unforget(id=)` one. Raises InputError naming the argument.
        """
        given = {
            "query": query,
            "tag": tag,
            "since": since,
            "older_than": older_than,
            "project": project,
            "ids": ids,
            "kind": kind,
            "ns": ns,
            "decisions": decisions,
            "now": now,
        }
        return work_changes.forget_many(
            self._context, given, reason, dry_run=dry_run, progress=progress
        )

    def evict(
        self,
        below: float,
        *,
        dry_run: bool = False,
        ns: str | None = None,
        kind: str | None = None,
        now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Eviction:
        """Archive the memories whose importance has faded below a line (0 to 1000, or 0.0 to 1.0).

        Facts, observations, plans, summaries, insights and preferences, of one `ns` or `kind` or of
        all, by the importance that they have now or at `now`; never a decision, a rule, a
        constraint or what is pinned. The log keeps them; `unforget` takes them back. A `dry_run`
        says what it would take and writes nothing.
        """
        return work_changes.evict(
            self._context, below, ns=ns, kind=kind, now=now, dry_run=dry_run, progress=progress
        )

    @property
    def tasks(self) -> tasks.PlaneTasks:
        """Open, update, block, switch, close and list tasks."""
        return tasks.PlaneTasks(self._record, self._context)

    @property
    def projects(self) -> PlaneProjects:
        """The projects of the user's own plane: list, join, assign. HomeError for another plane."""
        return PlaneProjects(self._context)

    @property
    def sessions(self) -> sessions.PlaneSessions:
        """The sessions: begin, mark and end them, list them, show one."""
        return sessions.PlaneSessions(self._context)

    @property
    def artifacts(self) -> artifacts_room.PlaneArtifacts:
        """Files beside the log: add, list, show, export, approve and revoke them."""
        return artifacts_room.PlaneArtifacts(self._context)


class SessionHost(Protocol):
    """What a session needs of its plane."""

    @property
    def work(self) -> PlaneWork: ...
    def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt: ...
    def pack(self, query: str = "", **asked: Unpack[PackFields]) -> Block: ...
    def recall(
        self, query: str, *, session: str, budget: int, scope: str, agent: str | None
    ) -> ContextAssembly: ...


class OpenedSession:
    """A session of a plane, as a context manager. `ended` says how it ended, None before."""

    def __init__(
        self,
        plane: SessionHost,
        id: str | None = None,  # noqa: A002
        *,
        agent: str | None = None,
        goal: str = "",
    ) -> None:
        self.plane, self.agent, self.goal = plane, agent, goal
        self._id = id
        self.ended: Ended | None = None

    def __repr__(self) -> str:
        goal = f", {self.goal!r}" if self.goal else ""
        return f"<session {self._id or 'not started'}{goal}>"

    @property
    def id(self) -> str:
        """Its name; raises HomeError before it has started without one."""
        if self._id is None:
            raise HomeError("this session has no name yet: enter it with `with`")
        return self._id

    def start(self) -> Self:
        """Begin it, or go on with it."""
        started = self.plane.work.sessions.start(self._id, agent=self.agent, goal=self.goal or None)
        self._id = started.session
        return self

    def end(self, *, failed: bool = False) -> Ended:
        """End it; `failed`: for the reason `error`, without a summary."""
        self.ended = self.plane.work.sessions.end(
            self.id, summary=not failed, reason="error" if failed else "explicit"
        )
        return self.ended

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.end()
            return
        # The error of the block is the one to be seen.
        with suppress(MemplaneError):
            self.end(failed=True)

    def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt:
        """As `Plane.record`, in this session."""
        return self.plane.record(text, **self.with_session(fields))

    def with_session(self, fields: EventFields) -> EventFields:
        """Fields of an event with this session, and with its agent as the actor of what it says."""
        said: EventFields = {"session": self.id, **fields}
        if self.agent is not None and said.get("role") == "assistant":
            said.setdefault("actor", self.agent)
        return said

    def pack(self, query: str = "", **asked: Unpack[PackFields]) -> Block:
        """As `Plane.pack`, for this session and its agent."""
        whole: PackFields = {"session": self.id, "agent": self.agent, **asked}
        return self.plane.pack(query, **whole)

    def recall(self, query: str, *, budget: int = 4000, scope: str = "session") -> ContextAssembly:
        """As `Plane.recall`, for this session and its agent."""
        return self.plane.recall(
            query, session=self.id, budget=budget, scope=scope, agent=self.agent
        )


_SESSIONS_LISTED: Final = 20
_SESSIONS_AT_ONCE: Final = 1_000


class ProjectSession(NamedTuple):
    """A session as its project lists it. `folder`: the name of where it began, "" for unknown."""

    session: str
    folder: str
    since: str


class Project(NamedTuple):
    """A project: `name` as it is shown, `here` for that of this folder.

    `claims`: the project whose origin its root claims and has not joined, "" for none. `recent`:
    its newest sessions, at most 20.
    """

    name: str
    ns: str
    here: bool
    address: str
    roots: tuple[str, ...]
    sessions: int
    recent: tuple[ProjectSession, ...]
    claims: str

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            **self._asdict(),
            "roots": list(self.roots),
            "recent": [one._asdict() for one in self.recent],
        }


class Reassigned(NamedTuple):
    """What was recorded: `seq` None where it was so already. `what`: a root, or sessions."""

    project: str
    ns: str
    what: tuple[str, ...]
    seq: int | None

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**self._asdict(), "what": list(self.what)}


class PlaneProjects(OfPlane):
    """The projects of a plane. Built per use; HomeError for a plane that is not parted."""

    def __init__(self, context: PlaneContext) -> None:
        if context.registry is None:
            raise HomeError(
                f"{context.home.folder}: one project's plane, and not parted; expected your own, "
                "~/.memplane: leave --home and MEMPLANE_HOME out, outside of folders with a "
                ".memplane"
            )
        self._context, self._registry = context, context.registry

    def list(self, folder: str = "") -> list[Project]:
        """All projects by name, the unknown one last; `folder`: where whoever asks works."""
        known = self._registry.follow()
        here = enter_folder(known, folder).place if folder else None
        namespaces = known.namespaces()
        if here is not None and here.ns and here.ns not in namespaces:
            namespaces = [*namespaces, here.ns]
        sessions: dict[str, list[ProjectSession]] = {}
        for id_, one in known.sessions.items():
            ns = known.of_session(id_) or ""
            sessions.setdefault(ns, []).append(ProjectSession(id_, one.folder, one.since))
        found = []
        for ns in namespaces:
            its = sorted(sessions.get(ns, ()), key=lambda one: (one.since, one.session))
            own = here is not None and here.ns == ns
            claims = here.claims if here is not None and own else ""
            found.append(
                Project(
                    shown_name(ns, namespaces),
                    ns,
                    own,
                    known.projects.get(ns, ("", ""))[1],
                    tuple(known.roots_of(ns)),
                    len(its),
                    tuple(its[: -_SESSIONS_LISTED - 1 : -1]),
                    shown_name(claims, namespaces) if claims else "",
                )
            )
        return sorted(found, key=lambda one: (one.ns == UNKNOWN, one.name, one.ns))

    def join(self, folder: str, project: str | None = None) -> Reassigned:
        """Let the root of a folder be of a project from now on, with all that was recorded there.

        Without a name of the one whose origin it claims. Raises InputError where it claims none,
        NotFoundError for a name that no project has.
        """
        known = self._registry.follow()
        root = find_root(folder)
        if not root.path or not root.there:
            found = quoted_value(folder)
            raise InputError(f"expected a folder that is there, found {found}", where="DIR")
        if project is not None:
            ns = project_named(known, project, where="PROJECT")
        else:
            ns = enter_folder(known, root.path).place.claims
            if not ns:
                raise InputError(
                    f"{root.path} claims no origin of another root; expected the name of the "
                    "project: `memplane projects join --to NAME`",
                    where="--to",
                )
        name = shown_name(ns, known.namespaces())
        if known.of_root(root.path) == ns:
            return Reassigned(name, ns, (root.path,), None)
        receipt = self._context.write(joined(known, ns, root.path))
        return Reassigned(name, ns, (root.path,), receipt.seq)

    def assign(self, what: str, project: str) -> Reassigned:
        """Give a session, or all that were recorded in folders of a name, to a project.

        `project` may be a folder: then it is that folder's. Of a folder's name those sessions go
        that are nobody's, and those that come later. Raises NotFoundError.
        """
        known = self._registry.follow()
        ns = self._target(known, project)
        name = shown_name(ns, [*known.namespaces(), ns])
        if what in known.sessions:
            return self._assigned(name, ns, (what,), "", known)
        folder = os.path.basename(what.rstrip("/"))
        sessions = tuple(
            id_
            for id_, one in known.sessions.items()
            if one.folder == folder and known.of_session(id_) == UNKNOWN
        )
        if not folder or not any(one.folder == folder for one in known.sessions.values()):
            raise NotFoundError(
                f"SESSION|FOLDER: no session {quoted_value(what)}, and none in a folder of that "
                "name; `memplane projects --json` lists both"
            )
        return self._assigned(name, ns, sessions, folder, known)

    def _target(self, known: KnownProjects, project: str) -> str:
        path = os.path.expanduser(project)
        if os.path.isdir(path) and (project.startswith((".", "/", "~"))):
            entered = enter_folder(known, os.path.abspath(path))
            for row in entered.rows:
                self._context.write(dict(row))
            return entered.place.ns
        return project_named(known, project, where="PROJECT")

    def _assigned(
        self, name: str, ns: str, sessions: tuple[str, ...], folder: str, known: KnownProjects
    ) -> Reassigned:
        if not folder and all(known.of_session(one) == ns for one in sessions):
            return Reassigned(name, ns, sessions, None)
        seq = None
        for start in range(0, max(len(sessions), 1), _SESSIONS_AT_ONCE):
            part = list(sessions[start : start + _SESSIONS_AT_ONCE])
            said: dict[str, Any] = {"project": ns, "sessions": part}
            if folder:
                said["folder"] = folder
            text = f"Given to {ns}: {folder or ', '.join(part)}"
            row = {"kind": "project", "ns": ns, "text": text, "data": {"assign": said}}
            seq = self._context.write(row).seq
        return Reassigned(name, ns, sessions, seq)
