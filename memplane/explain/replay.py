"""Saved packs made again, and compared: what they repeat of the ones before them.

The same log prefix, policies, views and request give the same bytes. What a pack repeats of the one
before it is what a prompt cache saves.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.errors import CorruptError, MemplaneError, NotFoundError
from memplane.home import VERSION
from memplane.pack.block import Block
from memplane.pack.render import FORM
from memplane.pack.report import Cost, cost_of, marks_of, shape_of
from memplane.upkeep import reports
from memplane.upkeep.reports import Saved, kept_bytes_path

if TYPE_CHECKING:
    from memplane.pack.block import Block
    from memplane.plane import Plane
    from memplane.policy.plane import CachePrices
    from memplane.upkeep.reports import Saved

__all__ = [
    "Difference",
    "MissingInput",
    "Replay",
    "Shared",
    "asked_of",
    "first_difference",
    "plane_of",
    "replay_pack",
    "shared_by",
]


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
    then, lost = plane_of(plane, saved)
    block, note = None, ""
    if then is not None:
        with then:
            try:
                block = then.pack(**asked_of(saved))
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
    if any(one.what in ("policy", "log") for one in lost):
        return None, lost
    return plane.under(files, saved.report["log"]["seq"]), lost


def asked_of(saved: Saved) -> dict[str, Any]:
    """The request of a report, as `pack` takes it."""
    asked = dict(saved.report["request"])
    asked.setdefault("as_of", saved.report["log"]["seq"])
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
    before = again.block.text
    lines, others = before.splitlines(), block.text.splitlines()
    at = next((n for n, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b), None)
    if at is None:
        at = min(len(lines), len(others))
    same = len("".join(f"{line}\n" for line in others[:at]).encode())
    entry = _entry_at(block, same)
    return Difference(
        name,
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
