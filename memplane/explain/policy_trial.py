"""Saved requests packed again under two policies: what enters, what leaves, what it costs.

Each request is packed at its own place in the log and by its own clock.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memplane.context.folds import Folds
from memplane.errors import MemplaneError, PolicyError
from memplane.explain.history import PolicyVersion
from memplane.explain.replay import asked_of
from memplane.pack.block import Block, Entry
from memplane.pack.report import LogChanges, chain_of, compared, shape_of
from memplane.policy import Policies
from memplane.recall.retrieval import SearchResult
from memplane.recall.suppress import Scope
from memplane.search.retriever import LogRetriever
from memplane.search.service import IndexReach, IndexService
from memplane.upkeep.reports import Saved, saved

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = [
    "Blocks",
    "Moved",
    "SharedIndexService",
    "Side",
    "Trial",
    "TrialPack",
    "TrialPart",
    "Tried",
    "halves",
    "in_order",
    "last",
    "seq_of",
    "trial",
    "trial_blocks",
    "try_part",
]


Report: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[int, int], None]
Key: TypeAlias = tuple[str, str, str]

_NO_STORY: Final = LogChanges(lambda _: None, lambda _: None, lambda: False)
_PPM: Final = 1_000_000
# What two reports are compared by, besides their prefix.
_COMPARED: Final = ("policies", "views", "budget", "channel", "entries", "tokens")
_ASKED: Final = ("request", "log", "acb_sha256")
_SIDES_AT: Final = 3  # `before` in a row; `after` follows
# With fewer requests a second process, which folds the log too, is not worth it.
_SHARED_FROM: Final = 60


class Moved(NamedTuple):
    """An entry that stands in one of two blocks: the id of its event, or what else it is made of.

    Several ids stand side by side.
    """

    name: str
    section: str
    tokens: int


class TrialPack(NamedTuple):
    """One pack: its hash, its tokens by section, and what it repeats of the one before it.

    `common_tokens` is None where the session has no pack before it among those tried.
    """

    sha256: str
    tokens: int
    sections: dict[str, int]
    common_tokens: int | None


class Tried(NamedTuple):
    """One request under both policies.

    A side is None where it could not be packed: `why` says so. `resized` entries stand in both
    with other tokens.
    """

    report: str
    seq: int
    session: str | None
    before: TrialPack | None
    after: TrialPack | None
    enters: tuple[Moved, ...] = ()
    leaves: tuple[Moved, ...] = ()
    resized: tuple[Moved, ...] = ()
    why: str = ""

    @property
    def same(self) -> bool:
        """Whether both blocks are the same, byte for byte."""
        return (
            self.before is not None
            and self.after is not None
            and self.before.sha256 == self.after.sha256
        )

    @property
    def moved_tokens(self) -> int:
        """How many tokens came and went: the size of the change."""
        return sum(one.tokens for one in (*self.enters, *self.leaves))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "report": self.report,
            "seq": self.seq,
            "session": self.session,
            "same": self.same,
            "before": None if self.before is None else self.before._asdict(),
            "after": None if self.after is None else self.after._asdict(),
            "enters": [one._asdict() for one in self.enters],
            "leaves": [one._asdict() for one in self.leaves],
            "resized": [one._asdict() for one in self.resized],
            "why": self.why,
        }


class Side(NamedTuple):
    """All packs under one policy: tokens, those of each section, and the share repeated.

    `prefix_ppm` is None where no pack has one before it in its session.
    """

    tokens: int
    sections: dict[str, int]
    prefix_ppm: int | None


class Trial(NamedTuple):
    """Every request tried, in the order of the log."""

    old: str
    new: str
    rows: tuple[Tried, ...]

    @property
    def packed(self) -> list[Tried]:
        """Those that could be packed under both."""
        return [row for row in self.rows if row.before is not None and row.after is not None]

    def side(self, name: str) -> Side:
        """The packs of one side, `before` or `after`, of those that could be packed under both."""
        packs: list[TrialPack] = [getattr(row, name) for row in self.packed]
        sections: Counter[str] = Counter()
        for pack in packs:
            sections.update(pack.sections)
        repeating = [pack for pack in packs if pack.common_tokens is not None]
        common = sum(pack.common_tokens or 0 for pack in repeating)
        total = sum(pack.tokens for pack in repeating)
        return Side(
            sum(pack.tokens for pack in packs),
            dict(sections),
            common * _PPM // max(1, total) if repeating else None,
        )

    def largest(self, most: int) -> list[Tried]:
        """The packs that changed, those with the largest change first."""
        changed = [row for row in self.packed if not row.same]
        return sorted(changed, key=lambda row: (-row.moved_tokens, row.seq, row.report))[:most]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        packed = self.packed
        return {
            "from": self.old,
            "to": self.new,
            "packs": len(self.rows),
            "failed": len(self.rows) - len(packed),
            "same": sum(row.same for row in packed),
            "before": self.side("before")._asdict(),
            "after": self.side("after")._asdict(),
            "enters": _by_section(row.enters for row in packed),
            "leaves": _by_section(row.leaves for row in packed),
            "rows": [row.as_json() for row in self.rows],
        }


def last(home: Path, most: int) -> list[Saved]:
    """The newest saved requests of a home, newest first: of their reports what a trial needs."""
    return [
        one._replace(report={name: one.report[name] for name in _ASKED})
        for one in islice(saved(home), most)
    ]


def trial(
    plane: Plane,
    asked: Sequence[Saved],
    old: PolicyVersion,
    new: PolicyVersion,
    *,
    progress: Progress | None = None,
    processes: int = 1,
) -> Trial:
    """Pack the saved requests again under both versions. Reads only.

    `progress` is told requests done and requests in all. With two `processes` a fork of this one
    does the later half of many requests: only where no other thread runs. Raises PolicyError where
    a version has mistakes; what stops a single request is told in its row.
    """
    order = in_order(asked)
    if processes > 1 and len(order) >= _SHARED_FROM:
        parts = halves(plane, order, old, new, progress)
    else:
        parts = [try_part(plane, order, old, new, progress)]
    rows = parts[0].rows
    for before, after in pairwise(parts):
        rows += _joined(before, after)
    return Trial(old.name, new.name, tuple(rows))


class TrialPart(NamedTuple):
    """Some of the requests, one after the other; `sides` keep what joins them to others."""

    rows: list[Tried]
    sides: tuple[_Sessions, _Sessions]


def try_part(
    plane: Plane,
    order: Sequence[Saved],
    old: PolicyVersion,
    new: PolicyVersion,
    progress: Progress | None = None,
) -> TrialPart:
    """Try requests that are in the order of the log."""
    made = TrialPart([], (_Sessions(), _Sessions()))
    with _uncollected():
        for one, blocks, why in trial_blocks(plane, order, old, new):
            made.rows.append(_tried(one, blocks, why, made))
            if progress is not None:
                progress(len(made.rows), len(order))
    return made


def _joined(before: TrialPart, after: TrialPart) -> list[Tried]:
    """The rows of the later part, its first packs of a session held against the earlier part's."""
    rows = list(after.rows)
    for number, late in enumerate(after.sides):
        for shape, (at, report) in late.first.items():
            old, packed = before.sides[number].last.get(shape), rows[at][_SIDES_AT + number]
            if old is not None and isinstance(packed, TrialPack):
                joined = packed._replace(common_tokens=_common(old, report))
                fields = list(rows[at])
                fields[_SIDES_AT + number] = joined
                rows[at] = Tried._make(fields)
    return rows


@contextmanager
def _uncollected() -> Generator[None]:
    """Without the cyclic collector: a pack leaves no cycles, and looking for some costs a fifth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Sessions:
    """The first and the last pack of every session and shape under one policy.

    Of their reports what two packs are compared by; the first with its place among all.
    """

    def __init__(self) -> None:
        self.first: dict[str, tuple[int, Report]] = {}
        self.last: dict[str, Report] = {}

    def packed(self, block: Block, at: int) -> TrialPack:
        """Note the next pack, and hold it against the one before."""
        report = block.report
        common = None
        if report["request"].get("session") is not None:
            kept: Report = {name: report[name] for name in _COMPARED}
            kept["prefix"] = {**report["prefix"], "chain": chain_of(block)}
            shape = shape_of(report)
            if shape in self.last:
                common = _common(self.last[shape], kept)
            else:
                self.first[shape] = at, kept
            self.last[shape] = kept
        sections = {name: row["used"] for name, row in report["sections"].items()}
        return TrialPack(report["acb_sha256"], block.tokens, sections, common)


def _common(old: Report, new: Report) -> int:
    tokens: int = compared(old, new, None, _NO_STORY)["common_tokens"]
    return tokens


def _tried(asked: Saved, blocks: Blocks, why: str, made: TrialPart) -> Tried:
    old, new = blocks
    at = len(made.rows)
    before, after = (
        None if block is None else side.packed(block, at)
        for side, block in zip(made.sides, blocks, strict=True)
    )
    session = asked.report["request"].get("session")
    one = Tried(asked.id, seq_of(asked), session, before, after, why=why)
    if old is None or new is None or one.same:
        return one
    was, is_ = _entries(old.entries), _entries(new.entries)
    return one._replace(
        enters=tuple(moved for key, moved in is_.items() if key not in was),
        leaves=tuple(moved for key, moved in was.items() if key not in is_),
        resized=tuple(
            moved for key, moved in is_.items() if key in was and was[key].tokens != moved.tokens
        ),
    )


def _entries(entries: Sequence[Entry]) -> dict[Key, Moved]:
    """Entries by what they are of, one event or a view; else by what they say."""
    found: dict[Key, Moved] = {}
    for entry in entries:
        ids = (*entry.events, *entry.parts)
        name, more = entry.source.partition("@")[0], ""
        if len(ids) == 1 or name == "event":
            name = " ".join(ids)
        elif not name.startswith("view:"):
            more = hashlib.sha256(entry.text.encode()).hexdigest()
        key = (entry.section, name, more)
        tokens = entry.tokens + (found[key].tokens if key in found else 0)
        found[key] = Moved(name, entry.section, tokens)
    return found


def _by_section(groups: Iterable[Sequence[Moved]]) -> dict[str, int]:
    counts = Counter(one.section for group in groups for one in group)
    return dict(sorted(counts.items()))


# Two versions of the policies take turns at packing the same requests, in the order of the log.
#
# The log is folded once, forward; where both count and index alike, all that is folded, read and
# found serves both.

Blocks: TypeAlias = tuple[Block | None, Block | None]


def in_order(asked: Sequence[Saved]) -> list[Saved]:
    """The requests in the order of the log."""
    return sorted(asked, key=lambda one: (seq_of(one), one.id))


def seq_of(asked: Saved) -> int:
    """The last event that the request could see."""
    seq: int = asked.report["log"]["seq"]
    return seq


def trial_blocks(
    plane: Plane, asked: Sequence[Saved], old: PolicyVersion, new: PolicyVersion
) -> Generator[tuple[Saved, Blocks, str]]:
    """Yield each report with its block under both versions, and why there is none, in log order.

    The blocks are those that `Plane.under` packs at the report's place in the log.
    """
    order = in_order(asked)
    head = plane.head().seq
    there = [one for one in order if seq_of(one) <= head]
    with ExitStack() as stack:
        desk = _Desk(plane, (old, new), seq_of(there[0]) if there else 0, stack)
        for one in there:
            yield one, *desk.packs(one)
    for one in order[len(there) :]:
        yield one, (None, None), f"made at event {seq_of(one)}; this log ends at {head}"


class _Desk:
    """Two versions over one plane of a prefix, taking turns; over two where they share nothing."""

    def __init__(
        self,
        plane: Plane,
        versions: tuple[PolicyVersion, PolicyVersion],
        seq: int,
        stack: ExitStack,
    ) -> None:
        first = stack.enter_context(plane.under(versions[0].files, seq))
        other = stack.enter_context(plane.under(versions[1].files, seq))
        policies = [_policies(one, at) for one, at in zip((first, other), versions, strict=True)]
        shares = _folds_by(policies[0]) == _folds_by(policies[1])
        self._sides = [_Side(first), _Side(other, first if shares else other)]
        self._planes = [first] if shares else [first, other]
        self._finders: list[SharedIndexService] = [_shared(one) for one in self._planes]

    def packs(self, asked: Saved) -> tuple[Blocks, str]:
        """The blocks of a report's request; and why one is not there."""
        for plane, finder in zip(self._planes, self._finders, strict=True):
            plane.advance(seq_of(asked))
            finder.renew()
        found: list[Block | None] = []
        why = ""
        for side in self._sides:
            try:
                block = side.pack(asked)
            except MemplaneError as error:
                found.append(None)
                why = why or str(error)
                continue
            said = asked.report["log"]
            if block.report["log"]["h"] != said["h"]:
                return (None, None), f"another log: event {said['seq']} has another hash there"
            found.append(block)
        return (found[0], found[1]), why


class _Side:
    """One version at the desk: its files and rules, put before the plane that packs."""

    def __init__(self, own: Plane, at: Plane | None = None) -> None:
        context = own.context
        self._watched, self._intake = context.watched, context._intake  # noqa: SLF001 - likewise
        self._plane = at or own

    def pack(self, asked: Saved) -> Block:
        context = self._plane.context
        context.watched, context._intake = self._watched, self._intake  # noqa: SLF001 - likewise
        try:
            return self._plane.pack(**asked_of(asked))
        finally:
            self._intake = context._intake  # noqa: SLF001 - likewise


def _policies(plane: Plane, version: PolicyVersion) -> Policies:
    try:
        return plane.policies
    except PolicyError as error:
        placed = (one._replace(file=f"{version}: {one.file}") for one in error.problems)
        raise PolicyError(tuple(placed)) from None


def _folds_by(policies: Policies) -> tuple[object, ...]:
    """What of the policies decides how the log is folded, indexed and embedded."""
    budgets, plane = policies.budgets, policies.plane
    return budgets.counter, budgets.scale_ppm, plane.tool_result_tokens, plane.embedder


def _shared(plane: Plane) -> SharedIndexService:
    context = plane.context
    return context.part(SharedIndexService, IndexService)


# One search for two packs: what a request finds depends on the policies by a few values only.


class SharedIndexService(IndexService):
    """A finder whose retriever, and what it found, is given again to who asks the same next.

    That is a request with the same end of the log, vectors, scoring and counter. Call `renew`
    before each request of its own.
    """

    _made: tuple[tuple[object, ...], LogRetriever] | None = None

    def renew(self) -> None:
        """Let go of what was found: the next request is another one."""
        self._made = None

    def retriever(
        self,
        policies: Policies,
        folds: Folds,
        wanted: IndexReach = IndexReach(),  # noqa: B008 - immutable
    ) -> LogRetriever:
        """See `Finder.retriever`."""
        key = (
            folds,
            folds.log.head(),
            folds.variant,
            wanted[:2],
            policies.scoring,
            policies.plane.embedder,
            policies.plane.tool_result_tokens,
        )
        if self._made is None or self._made[0] != key:
            made = super().retriever(policies, folds, wanted)
            # Behind the index nothing is shared: such requests are few.
            self._made = key, _Retriever(made) if type(made) is LogRetriever else made
        return self._made[1]


class _Retriever(LogRetriever):
    """A retriever that finds the same once."""

    def __init__(self, made: LogRetriever) -> None:
        vars(self).update(vars(made))
        self._findings: dict[tuple[object, ...], SearchResult] = {}

    def find(
        self,
        query: str,
        *,
        upto: int,
        scope: Scope,
        never: Collection[int] = (),
        most: int,
        only: Sequence[Sequence[str]] = (),
        bytes_max: int | None = None,
    ) -> SearchResult:
        seen = (
            query,
            upto,
            frozenset(never),
            most,
            tuple(map(tuple, only)),
            bytes_max,
            *_sees(scope),
        )
        known = self._findings.get(seen)
        if known is None:
            known = self._findings[seen] = super().find(
                query,
                upto=upto,
                scope=scope,
                never=never,
                most=most,
                only=only,
                bytes_max=bytes_max,
            )
        return known


def _sees(scope: Scope) -> tuple[Any, ...]:
    """All that decides what a scope shows, but for the approvals, which the log decides."""
    return (
        scope.levels,
        scope.kinds,
        scope.now,
        scope.as_of,
        scope.ns,
        scope.task,
        scope.agent,
        scope.shared,
        scope.owner,
        scope.specs,
        scope.since,
        scope.until,
        scope.exclude,
        scope.held,
    )


# A trial of many requests in two processes: this one does the earlier half, a fork the later one.
#
# The fork folds the log up to its last request, this process no further than to the middle. Where
# none can be made, or it ends early, its half is done here.


def halves(
    plane: Plane,
    order: Sequence[Saved],
    old: PolicyVersion,
    new: PolicyVersion,
    progress: Progress | None,
) -> list[TrialPart]:
    """Try the requests, which are in the order of the log; return both parts."""
    middle = len(order) // 2
    early, late = order[:middle], order[middle:]
    context = multiprocessing.get_context("fork")
    hears, says = context.Pipe(duplex=False)
    other = context.Process(target=_say, args=(says, plane, late, old, new), daemon=True)
    heard = _Heard(hears)
    with suppress(OSError):  # no room for another: then nobody will say anything
        other.start()
    says.close()

    def told(done: int, _: int) -> None:
        done += heard.listen()
        if progress is not None:
            progress(done, len(order))

    try:
        first = try_part(plane, early, old, new, told)
        while heard.part is None and heard.open:
            hears.poll(0.1)
            told(middle, middle)
    finally:
        if other.pid is not None:
            other.kill()
            other.join()
        hears.close()
    if heard.part is not None:
        return [first, heard.part]
    return [first, try_part(plane, late, old, new, lambda done, _: told(middle + done, 0))]


class _Heard:
    """What the other process has said so far."""

    def __init__(self, hears: Connection) -> None:
        self._hears = hears
        self._done = 0
        self.part: TrialPart | None = None
        self.open = True

    def listen(self) -> int:
        """Take in what there is; return how many requests the other process has done."""
        try:
            while self.open and self.part is None and self._hears.poll():
                said = self._hears.recv()
                if isinstance(said, int):
                    self._done = said
                else:
                    self.part = said
        except (EOFError, OSError):
            self.open, self._done = False, 0
        return self._done


def _say(
    says: Connection, plane: Plane, order: Sequence[Saved], old: PolicyVersion, new: PolicyVersion
) -> None:
    """Try the requests and say so; whatever goes wrong is met again by who listens."""
    with suppress(Exception, KeyboardInterrupt), says:
        says.send(try_part(plane, order, old, new, lambda done, _: says.send(done)))
