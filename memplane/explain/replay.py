"""Saved packs made again, and compared: what they repeat of the ones before them.

The same log prefix, policies, views and request give the same bytes. What a pack repeats of the one
before it is what a prompt cache saves.

A trial packs saved requests again under two policies: what enters, what leaves, what it costs. Each
request is packed at its own place in the log and by its own clock.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memplane import nofollow
from memplane.errors import CorruptError, MemplaneError, NotFoundError, PolicyError
from memplane.explain.history import PolicyVersion
from memplane.home import VERSION
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.pack.block import Block, Entry
from memplane.pack.layout import FORM
from memplane.pack.report import Cost, LogChanges, chain_of, compared, cost_of, marks_of, shape_of
from memplane.policy.records import OWN_ENGINE
from memplane.upkeep import reports
from memplane.upkeep.reports import Saved, kept_bytes_path, saved

if TYPE_CHECKING:
    from memplane.plane import Plane
    from memplane.policy.records import CachePrices
    from memplane.ports import Progress

_STEP: Final = 2_000  # lines that are folded between two calls of a progress


class MissingInput(NamedTuple):
    """Something that a report names and that is not there: `what` (policy, view, log), `name`."""

    what: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} {self.name}: {self.why}"


class Replay(NamedTuple):
    """A pack made again. `same`: byte for byte what it was.

    `block` is None where too much is lost to make any; `lost` names what could not be found. A
    block made without a view that is lost is another one than it was.
    """

    saved: Saved
    block: Block | None
    same: bool
    lost: tuple[MissingInput, ...]
    note: str  # what else may make it another one, "" if nothing is known

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "report": self.saved.id,
            "same": self.same,
            "acb_sha256": self.saved.report["acb_sha256"],
            "found_sha256": None if self.block is None else _hash(self.block.text),
            "lost": [lost._asdict() for lost in self.lost],
            "note": self.note,
            "text": None if self.block is None else self.block.text,
        }


def replay_pack(plane: Plane, saved: Saved) -> Replay:
    """Make the pack of a report again, under the policies and views that it names.

    Reads only. What else was recorded since, and what policies and views have become, changes
    nothing.
    """
    return replay_packs(plane, [saved])[0]


def replay_packs(
    plane: Plane, packs: Sequence[Saved], progress: Progress | None = None
) -> list[Replay]:
    """Make the packs of several reports again, each as `replay_pack`, in the order given.

    Where one has the policies and views of the one before it and lies no earlier in the log, the
    log is folded on from there. `progress` is called with the seq reached and the last one.
    """
    found: list[Replay] = []
    last = max((seq_of(one) for one in packs), default=0)
    at, known = 0, dict[str, bytes]()
    with ExitStack() as stack:
        then: Plane | None = None
        for saved in packs:
            files, lost = _snapshots(plane, saved)
            lost += _log(plane, saved)
            seq = seq_of(saved)
            if _is_lost(lost):
                found.append(Replay(saved, None, same=False, lost=tuple(lost), note=""))
                continue
            if then is None or files != known or seq < at:
                at, known = seq if progress is None else min(seq, _STEP), files
                then = stack.enter_context(plane.under(files, at))
            at = _folded_to(then, at, seq, last, progress)
            found.append(_replayed(then, saved, lost))
    return found


def _folded_to(then: Plane, at: int, seq: int, last: int, progress: Progress | None) -> int:
    """Fold a plane of the past on to a seq; returns that."""
    if at < seq:
        with then.context.lock:  # in the same pass: each pack asks for them
            then.context.caught_up(then.upkeep.policies).open_digests()
    while at < seq:
        at = seq if progress is None else min(seq, at + _STEP)
        then.advance(at)
        if progress is not None:
            progress(at, last)
    return seq


def _replayed(then: Plane, saved: Saved, lost: list[MissingInput]) -> Replay:
    """The pack of a report in the plane as it was."""
    block, note = None, ""
    counted, now = saved.report["counter"], then.context.counter(then.upkeep.policies).name
    try:
        if now == counted:
            block = then.pack(**asked_of(saved))
        else:
            note = (
                f"its tokens were counted by {quoted_value(counted)}, and here by "
                f"{quoted_value(now)}: open the plane with that `counter`"
            )
    except MemplaneError as error:
        note = f"the pack cannot be made now: {error}"
    same = block is not None and _hash(block.text) == saved.report["acb_sha256"]
    if block is not None and not same:
        lost += _files(saved, block)
        note = note or ("" if lost else _note(saved, block))
    return Replay(saved, block, same, tuple(lost), note)


def plane_of(plane: Plane, saved: Saved) -> tuple[Plane | None, list[MissingInput]]:
    """The plane as a report saw it, read only, and what of it is lost.

    None where the log has another past, or a policy is lost: what stands for it would be a guess.
    Close the plane when done.
    """
    files, lost = _snapshots(plane, saved)
    lost += _log(plane, saved)
    if _is_lost(lost):
        return None, lost
    return plane.under(files, saved.report["log"]["seq"]), lost


def _is_lost(lost: Iterable[MissingInput]) -> bool:
    """Whether too much is lost to make the pack again."""
    return any(one.what in ("policy", "log") for one in lost)


def asked_of(saved: Saved) -> dict[str, Any]:
    """The request of a report, as `pack` takes it."""
    asked = dict(saved.report["request"])
    asked.setdefault("as_of", saved.report["log"]["seq"])
    asked.setdefault("engine", OWN_ENGINE)
    return asked


def _snapshots(plane: Plane, saved: Saved) -> tuple[dict[str, bytes], list[MissingInput]]:
    """The bytes of policies and views that the report names, by path under the home."""
    report, files, lost = saved.report, dict[str, bytes](), list[MissingInput]()
    named = [("policy", f"policies/{name}", one) for name, one in report["policies"].items()]
    named += [("view", path, one) for path, one in report["views"].items()]
    for what, path, sha256 in named:
        file = kept_bytes_path(plane.home, sha256)
        try:
            data = nofollow.read_bytes(file, home=plane.home)
        except OSError:
            lost.append(
                MissingInput(what, path, f"its bytes are not in bodies/ (sha256 {sha256[:12]})")
            )
            continue
        if hashlib.sha256(data).hexdigest() != sha256:
            lost.append(
                MissingInput(what, path, f"bodies/ has other bytes for sha256 {sha256[:12]}")
            )
            continue
        files[path] = data
    return files, lost


def _files(saved: Saved, block: Block) -> list[MissingInput]:
    """The artifacts whose file is not what it was: the pack of then showed what this one cannot."""
    shown = {id_ for one in saved.report["entries"] for id_ in (*one["events"], *one["parts"])}
    lost = dict.fromkeys(o.id for o in block.omissions if o.reason == "changed" and o.id in shown)
    return [
        MissingInput("artifact", id_, "its file is gone, or another than was added") for id_ in lost
    ]


def _log(plane: Plane, saved: Saved) -> list[MissingInput]:
    """Whether this log is the one that the pack was made of, up to its last event."""
    seq, digest = saved.report["log"]["seq"], saved.report["log"]["h"]
    if not seq:
        return []
    if seq > plane.head().seq:
        found = f"it ends at event {plane.head().seq}"
        return [MissingInput("log", f"event {seq}", f"this log is shorter: {found}")]
    try:
        line = plane.context.log.line(seq)
    except CorruptError as error:
        return [MissingInput("log", f"event {seq}", str(error))]
    if line is None:
        return [
            MissingInput("log", f"event {seq}", "its line does not verify; see `memplane verify`")
        ]
    if line.event.h != digest:
        found = f"its hash is {line.event.h}, the report has {digest}"
        return [MissingInput("log", f"event {seq}", f"another log: {found}")]
    return []


def _note(saved: Saved, block: Block) -> str:
    """What is known to make another block of the same inputs."""
    made = saved.report.get("memplane")
    if made != VERSION:
        return f"made by memplane {made or 'of an unknown version'}, this is {VERSION}"
    form = saved.report.get("form", 1)
    if form != FORM:
        return f"made in form {form} of blocks, this one is {FORM}: entries are printed otherwise"
    if block.report["gaps"] != saved.report["gaps"]:
        return "other parts of the log can be read now than then; see `memplane verify`"
    return "the inputs are the same, the block is not: please report this as a bug"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_MILLION: Final = 1_000_000
_FRESH: Final = 1_000  # price of a fresh token, in thousandths of one
_REUSES: Final = ("prompt", "call")


class Difference(NamedTuple):
    """The first line in which a block is another one than the block before it.

    `line` counts from 1; `old` and `new` are its text there, None behind the last line. `cause` is
    that of a broken prefix, else what should differ: `prompt`, `log` (it went on), `tail`; `same`
    where nothing differs.
    """

    compared_with: str
    common_bytes: int
    line: int
    old: str | None
    new: str | None
    section: str | None
    cause: str


class Shared(NamedTuple):
    """The saved packs of one session and shape, oldest first, and what each repeated.

    Shares in millionths of a block's tokens, the first pack left out; `costs` by `reuse`, summed,
    with every prefix in the cache that an earlier pack wrote; they never expire here.
    """

    session: str
    shape: str
    budget: int
    packs: int
    shares: tuple[int, ...]
    kept: int  # of the shares, packs that begin with all that was stable
    breaks: dict[str, int]  # the others, by cause
    tokens: int
    costs: dict[str, Cost]
    below_minimum: int  # packs too short for the cache

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, with median, mean and the tenth percentile of the shares."""
        return {
            **self._asdict(),
            "shares": {
                "median_ppm": round(median(self.shares)) if self.shares else None,
                "mean_ppm": round(fmean(self.shares)) if self.shares else None,
                "p10_ppm": sorted(self.shares)[len(self.shares) // 10] if self.shares else None,
            },
            "costs": {
                reuse: {**cost._asdict(), "of_fresh_ppm": self.of_fresh(reuse)}
                for reuse, cost in self.costs.items()
            },
        }

    def of_fresh(self, reuse: str) -> int:
        """What was paid, in millionths of what it costs to send every block anew."""
        return self.costs[reuse].price * _MILLION // max(1, self.tokens * _FRESH)


def first_difference(plane: Plane, block: Block) -> Difference | None:
    """Hold a block whose report was saved against the pack before it, made again.

    None where no pack of its session and shape was saved before. Raises NotFoundError where that
    one's report is gone or cannot be made again.
    """
    prefix = block.report["prefix"]
    name = prefix.get("compared_with")
    if name is None:
        return None
    old = reports.find_report(plane.home, name)
    again = replay_pack(plane, old)
    if again.block is None or not again.same:
        why = "; ".join([*map(str, again.lost), *([again.note] if again.note else [])])
        raise NotFoundError(f"the pack before, {name}, cannot be made again: {why}")
    return difference_of(old, again.block, block)


def difference_of(old: Saved, old_block: Block, block: Block) -> Difference:
    """The same for a pack before it that was made again already; `old` is that one's report."""
    before = old_block.text
    lines, others = before.splitlines(), block.text.splitlines()
    at = next((n for n, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b), None)
    if at is None:
        at = min(len(lines), len(others))
    same = len("".join(f"{line}\n" for line in others[:at]).encode())
    entry = _entry_at(block, same)
    return Difference(
        old.id,
        same,
        at + 1,
        lines[at] if at < len(lines) else None,
        others[at] if at < len(others) else None,
        None if entry is None else entry["section"],
        "same" if before == block.text else _cause(old.report, block.report, entry),
    )


def _entry_at(block: Block, byte: int) -> dict[str, Any] | None:
    """The entry in which a byte of the block lies, or that comes next."""
    chain = block.report["prefix"]["chain"]
    pairs = zip(chain, block.report["entries"], strict=True)
    return next((entry for row, entry in pairs if row[0] > byte), None)


def _cause(old: dict[str, Any], new: dict[str, Any], entry: dict[str, Any] | None) -> str:
    broken = new["prefix"]["break"]
    if broken is not None:
        return str(broken["cause"])
    if entry is None or entry["area"] == "G":
        return "tail"
    return "prompt" if old["prefix"]["prompt_seq"] != new["prefix"]["prompt_seq"] else "log"


def shared_by(
    saved: Iterable[Saved], prices: CachePrices, *, session: str | None = None
) -> list[Shared]:
    """What the packs of each session and shape repeated of the ones before; oldest session first.

    Of reports that were compared when they were saved; packs without a session, or of an earlier
    prefix of the log, are left out.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in sorted(saved, key=lambda saved: saved.id):
        asked = one.report["request"].get("session")
        if asked is None or session not in (None, asked) or "chain" not in one.report["prefix"]:
            continue
        if reports.of_the_past(one.report):
            continue
        groups.setdefault((asked, shape_of(one.report)), []).append(one.report)
    return [_shared(*key, found, prices) for key, found in groups.items()]


def _shared(session: str, shape: str, found: list[dict[str, Any]], prices: CachePrices) -> Shared:
    costs = {reuse: Cost(0, 0, 0, 0) for reuse in _REUSES}
    known: dict[str, set[tuple[int, str]]] = {reuse: set() for reuse in _REUSES}
    breaks: Counter[str] = Counter()
    for report in found:
        if report["prefix"]["break"] is not None:
            breaks[report["prefix"]["break"]["cause"]] += 1
        for reuse in _REUSES:
            common = report["prefix"]["common_tokens"]
            cost = cost_of(report, reuse, prices, known=known[reuse], common_tokens=common)
            costs[reuse] = Cost(*map(sum, zip(costs[reuse], cost, strict=True)))
            marks = marks_of(report, reuse, prices.marks)
            known[reuse].update((byte, digest) for byte, _, digest in marks)
    later = [one["prefix"] for one in found if one["prefix"]["compared_with"] is not None]
    return Shared(
        session,
        shape,
        found[0]["budget"],
        len(found),
        tuple(prefix["share_ppm"] for prefix in later),
        sum(1 for prefix in later if prefix["stable_kept"]),
        dict(sorted(breaks.items())),
        sum(report["tokens"] for report in found),
        costs,
        sum(1 for report in found if report["prefix"]["below_minimum"]),
    )


Blocks: TypeAlias = tuple[Block | None, Block | None]
Report: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, str]

_NO_STORY: Final = LogChanges(lambda _: None, lambda _: None, lambda: False)
_PPM: Final = 1_000_000
# What two reports are compared by, besides their prefix.
_COMPARED: Final = ("policies", "views", "budget", "channel", "entries", "tokens")
_ASKED: Final = ("request", "log", "acb_sha256")


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
) -> Trial:
    """Pack the saved requests again under both versions. Reads only.

    `progress` is called with the requests done and the requests in all. Raises PolicyError where a
    version has mistakes; what stops a single request is named in its row.
    """
    rows: list[Tried] = []
    sides = (_Sessions(), _Sessions())
    for one, blocks, why in trial_blocks(plane, asked, old, new):
        rows.append(_tried(one, blocks, why, sides))
        if progress is not None:
            progress(len(rows), len(asked))
    return Trial(old.name, new.name, tuple(rows))


class _Sessions:
    """The last pack of every session and shape under one policy: what the next is compared by."""

    def __init__(self) -> None:
        self._last: dict[str, Report] = {}

    def packed(self, block: Block) -> TrialPack:
        """Note the next pack, and compare it with the one before."""
        report = block.report
        common = None
        if report["request"].get("session") is not None:
            kept: Report = {name: report[name] for name in _COMPARED}
            kept["prefix"] = {**report["prefix"], "chain": chain_of(block)}
            shape = shape_of(report)
            if shape in self._last:
                common = _common(self._last[shape], kept)
            self._last[shape] = kept
        sections = {name: row["used"] for name, row in report["sections"].items()}
        return TrialPack(report["acb_sha256"], block.tokens, sections, common)


def _common(old: Report, new: Report) -> int:
    tokens: int = compared(old, new, None, _NO_STORY)["common_tokens"]
    return tokens


def _tried(asked: Saved, blocks: Blocks, why: str, sides: tuple[_Sessions, _Sessions]) -> Tried:
    old, new = blocks
    before, after = (
        None if block is None else side.packed(block)
        for side, block in zip(sides, blocks, strict=True)
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


# Two versions of the policies take turns at packing the same requests, in the order of the log:
# each plane folds the log once, forward.


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
    first = seq_of(there[0]) if there else 0
    with ExitStack() as stack:
        sides = [stack.enter_context(plane.under(one.files, first)) for one in (old, new)]
        for side, version in zip(sides, (old, new), strict=True):
            _check_policies(side, version)
        for one in there:
            yield one, *_packed_under(sides, one)
    for one in order[len(there) :]:
        yield one, (None, None), f"made at event {seq_of(one)}; this log ends at {head}"


def _check_policies(plane: Plane, version: PolicyVersion) -> None:
    """Raise PolicyError with the version named in every mistake."""
    try:
        _ = plane.upkeep.policies
    except PolicyError as error:
        placed = (one._replace(file=f"{version}: {one.file}") for one in error.problems)
        raise PolicyError(tuple(placed)) from None


def _packed_under(sides: Sequence[Plane], asked: Saved) -> tuple[Blocks, str]:
    """The blocks of a report's request; and why one is not there."""
    found: list[Block | None] = []
    why, log = "", asked.report["log"]
    for side in sides:
        side.advance(log["seq"])
        try:
            block = side.pack(**{**asked_of(asked), "engine": None})  # a policy may try another
        except MemplaneError as error:
            found.append(None)
            why = why or str(error)
            continue
        if block.report["log"]["h"] != log["h"]:
            return (None, None), f"another log: event {log['seq']} has another hash there"
        found.append(block)
    return (found[0], found[1]), why
