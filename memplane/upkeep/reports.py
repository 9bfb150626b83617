"""Saved reports of packs in `reports/`: write, find and read them, and why a prefix broke."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from memplane import nofollow
from memplane.errors import InputError, MemplaneError, NotFoundError, WriteError
from memplane.home import VERSION, replace_file
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple
from memplane.pack.report import LogChanges, chain_of, compared, cost_of, marks_of, shape_of
from memplane.policy import NAMES
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.pack.block import Block
    from memplane.policy import Policies
    from memplane.policy.records import CachePrices

_WORDS: Final = {dict: "a mapping", list: "a list", str: "a text", int: "a whole number"}
_TOP: Final[dict[str, type]] = {
    "request": dict,
    "log": dict,
    "policies": dict,
    "views": dict,
    "entries": list,
    "prefix": dict,
    "omissions": dict,
    "gaps": list,
    "budget": int,
    "tokens": int,
    "channel": str,
    "acb_sha256": str,
}
_PREFIX: Final[dict[str, type]] = {
    "anchor_seq": int,
    "epoch_seq": int,
    "prompt_seq": int,
    "shed_seq": int,
    "map_shed_seq": int,
    "breakpoints": list,
    "stable_bytes": dict,
}
# What saved reports have beside it, all or none of it.
_COMPARED: Final = ("common_tokens", "share_ppm", "stable_kept", "break", "compared_with")
_ENTRY: Final[dict[str, type]] = {"events": list, "parts": list, "area": str, "section": str}


def mistake_in(report: object) -> str | None:
    """What is wrong with a report, None where nothing is; checks only what its readers rely on."""
    if not isinstance(report, dict):
        return "other JSON"
    return (
        _typed(report, _TOP, "")
        or _typed(report["log"], {"seq": int, "h": str}, "log.")
        or _typed(report["prefix"], _PREFIX, "prefix.")
        or _entries(report["entries"])
        or _hashes(report)
        or _chain(report)
    )


def _typed(values: dict[str, Any], form: dict[str, type], place: str) -> str | None:
    for name, kind in form.items():
        found = values.get(name)
        if not isinstance(found, kind) or isinstance(found, bool):
            return f"no {place}{name} that is {_WORDS[kind]}"
    return None


def _entries(entries: list[Any]) -> str | None:
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            return f"no mapping as entries[{number}]"
        odd = _typed(entry, _ENTRY, f"entries[{number}].")
        if odd is not None:
            return odd
    return None


def _hashes(report: dict[str, Any]) -> str | None:
    missing = [name for name in NAMES if name not in report["policies"]]
    if missing:
        return f"no hash of {missing[0]} among policies"
    every = (*report["policies"].values(), *report["views"].values())
    if not all(isinstance(one, str) and _is_hash(one) for one in every):
        return "a policy or view without its SHA-256"
    return None


def _is_hash(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdef" for digit in text)


def _chain(report: dict[str, Any]) -> str | None:
    prefix = report["prefix"]
    if "chain" not in prefix:
        return None
    rows = prefix["chain"]
    if not isinstance(rows, list) or len(rows) != len(report["entries"]):
        return "no prefix.chain with a row for each entry"
    if not all(isinstance(row, list) and list(map(type, row)) == [int, int, str] for row in rows):
        return "a row of prefix.chain that is not a byte, tokens and a hash"
    lacks = [name for name in _COMPARED if name not in prefix]
    return f"no prefix.{lacks[0]}" if lacks else None


# What the log says of the events between two packs: why a prefix broke.
_LOOKED_AT: Final = 5_000
_RING_HELD: Final = 200  # events before the prompt that a fast pack takes its evidence from

Report = dict[str, Any]


def story(context: PlaneContext, old: Report | None, new: Report) -> LogChanges:
    """What the log says of the events between two packs. Read only where a prefix broke."""
    between = _Between(context, old, new)
    return LogChanges(between.gone, between.corrected, between.ring)


class _Between:
    """Two reports and the log. The plane's lock is held."""

    def __init__(self, context: PlaneContext, old: Report | None, new: Report) -> None:
        self._context, self._old, self._new = context, old or {}, new

    def gone(self, id_: str) -> str | None:
        """Why an event is no longer in force, None where it is."""
        line = self._context.log.find(id_)
        if line is None:
            return "purged"
        asked = self._new["request"]
        memories = self._context.caught_up().memories
        found = memories.archived(line.event, upto=asked.get("as_of"))
        if found is not None:
            by = self._context.log.line(found.by_seq)
            return "confirmed" if by is not None and _confirms(by.event) else found.reason
        until = line.event.valid_until
        return "expired" if until is not None and until < asked["now"] else None

    def corrected(self, area: str) -> str | None:
        """The first reason for a change in an area that an event between the packs gives."""
        old = self._old
        first, last = old["log"]["seq"], self._new["log"]["seq"]
        shown = {id_ for one in old["entries"] for id_ in (*one["events"], *one["parts"])}
        for line in self._context.log.read(first, min(last, first + _LOOKED_AT)):
            event = line.event
            reason = _correction(event)
            replaces = event.key is not None and reason in ("superseded", "confirmed")
            if reason is not None and (not replaces or self._replaced(event, shown, area)):
                return reason
        return None

    def ring(self) -> bool:
        """Whether events that evidence came from have left the ring of recent events."""
        asked, policies = self._new["request"], self._context.watched.policies_or_last()
        scope = Scope.of(
            policies,
            self._new["channel"],
            now=asked["now"],
            as_of=asked.get("as_of", 0),
            ns=tuple(asked.get("ns", ())),
            agent=asked.get("agent"),
        )
        held = self._context.caught_up().hotset.state.seen(scope.sees).plane
        before = sum(1 for seq in held if seq < self._new["prefix"]["prompt_seq"])
        return before < _RING_HELD and bool(held) and held[0] > 1

    def _replaced(self, event: Event, shown: set[str], area: str) -> bool:
        """Whether the value that an event took the place of counted for what was shown there.

        Unseen it may have: as a neighbour of evidence; and as a witness of the map's names, for
        what the first value of its key said.
        """
        memories, prefix = self._context.caught_up().memories, self._old["prefix"]
        seq = memories.before(event)
        line = None if seq is None else self._context.log.line(seq)
        if seq is None or line is None or line.event.id in shown:
            return line is not None
        folds = self._context.caught_up()
        ledgers = (folds.decisions.state, folds.cards.state)
        if any(one.differs == seq for ledger in ledgers for one in ledger.active()):
            return True  # another statement named it
        if area == "B":
            oldest = memories.history(event.ns, event.key or "")[0]
            return bool(oldest.seq <= prefix["epoch_seq"])
        return area == "E" and bool(seq <= prefix["prompt_seq"])


def _correction(event: Event) -> str | None:
    """What an event does to others that stand in blocks already."""
    if event.kind == "forget" and not _confirms(event):
        return "unforgotten" if (event.data or {}).get("undo") else "forgotten"
    if _confirms(event):
        return "confirmed"
    if event.kind in ("pin", "purge"):
        return "pin" if event.kind == "pin" else "purged"
    if event.kind == "approval":
        return "approval"
    return "superseded" if event.key is not None and event.kind != "session" else None


def _confirms(event: Event) -> bool:
    """Whether a user confirmed a statement by the event, or it took the old one out for that."""
    if event.kind == "forget":
        return event.data.get("reason") == "confirmed" and not event.data.get("undo")
    return "confirms" in event.data


# Reports of packs in HOME/reports: saved with what they name, found again, held against the last.
#
# A report has no text. What a pack was made under lies beside the log, by hash: the policies and
# views that its report names, so that the pack can be made again.

LAST: Final = "last"
_SUFFIX: Final = ".report.json"
# Events between two packs that are looked through for what broke the prefix.


class Saved(NamedTuple):
    """A report on disk; its id is the name of the file without its suffix."""

    id: str
    path: Path
    report: Report


def finished(context: PlaneContext, block: Block, policies: Policies) -> Report:
    """A pack's report as it is saved: with the ends of entries, compared with the pack before it.

    The pack before it is the newest saved one of the same session and shape. Hold the plane's lock.
    """
    report = {"memplane": VERSION, **block.report}
    report["prefix"] = {**report["prefix"], "chain": chain_of(block)}
    report["log"] = {**report["log"], "head": context.log.head().seq}
    old = None
    if report["request"].get("session") is not None and not of_the_past(report):
        old = _newest(context.home.path, shape_of(report))
    prices = policies.plane.cache
    before = None if old is None else old.report
    held = compared(before, report, None if old is None else old.id, story(context, before, report))
    report["prefix"] |= held
    report["prefix"]["cost"] = costs_of(before, report, prices)
    return report


def costs_of(old: Report | None, new: Report, prices: CachePrices) -> dict[str, Any]:
    """The modelled cost by what the next pack comes with (`prompt`, `call`), with `old` cached."""
    return {
        reuse: cost_of(
            new,
            reuse,
            prices,
            known=[] if old is None else [(m[0], m[2]) for m in marks_of(old, reuse, prices.marks)],
            common_tokens=new["prefix"]["common_tokens"],
        )._asdict()
        for reuse in ("prompt", "call")
    }


def save(
    home: Path, report: Report, now: str, keep: int, bodies: Callable[[str], bytes | None]
) -> Path | None:
    """Write a report and the policies and views that it names; None on a read-only home."""
    names = [f"policies/{name}" for name in report["policies"]]
    hashes = [*report["policies"].values(), *report["views"].values()]
    try:
        for name, sha256 in zip([*names, *report["views"]], hashes, strict=True):
            path = kept_bytes_path(home, sha256)
            data = None if nofollow.is_file(path) else bodies(name)
            due = data is not None and hashlib.sha256(data).hexdigest() == sha256 and _keeps(data)
            if due and not replace_file(path, cast("bytes", data)):
                return None
        stamp = "".join(digit for digit in now if digit.isdigit() or digit == "T")
        named = f"{shape_of(report)}-{report['acb_sha256'][:8]}{_SUFFIX}"
        path = home / "reports" / _newest_name(home, stamp, named)
        if not replace_file(path, _dumped(report)):
            return None
    except WriteError:  # a full disk must not cost the caller the block
        return None
    for old in _paths(home)[: -keep or None]:
        with contextlib.suppress(OSError):
            nofollow.remove_name(old)
    return path if nofollow.is_file(path) else None


def _newest_name(home: Path, stamp: str, named: str) -> str:
    """A name that sorts behind all others of its moment."""
    same = [one.name for one in _paths(home) if one.name.startswith((f"{stamp}-", f"{stamp}."))]
    if not same:
        return f"{stamp}-{named}"
    number = same[-1].removeprefix(stamp).partition("-")[0].removeprefix(".")
    return f"{stamp}.{int(number or 0) + 1:03}-{named}"


def _keeps(data: bytes) -> bool:
    """Whether the bytes may be kept: a policy with a token in it is not (views have none left)."""
    text = data.decode(errors="replace")
    return masked(text) == text


def kept_bytes_path(home: Path, sha256: str) -> Path:
    """The path of the bytes with a hash."""
    return home / "bodies" / "sha256" / sha256[:2] / sha256[2:]


_JSON: Final = json.JSONEncoder(ensure_ascii=False).encode
_QUOTED: Final = json.encoder.encode_basestring


def _dumped(report: Report) -> bytes:
    """The report's file: JSON for people, indented."""
    parts: list[str] = []
    _indent(report, "\n", parts)
    return f"{''.join(parts)}\n".encode()


def _indent(value: Any, line: str, parts: list[str]) -> None:
    """Add what `json.dumps(value, ensure_ascii=False, indent=1)` says, in a third of its time."""
    rows: list[tuple[str, Any]]
    if isinstance(value, dict) and value:
        opens, closes = "{", "}"
        rows = [(f"{_QUOTED(key)}: ", one) for key, one in value.items()]
    elif isinstance(value, list | tuple) and value:
        opens, closes = "[", "]"
        rows = [("", one) for one in value]
    else:
        parts.append(_JSON(value))
        return
    within = f"{line} "
    begins = f"{opens}{within}"
    for name, one in rows:
        parts += (begins, name)
        kind = type(one)
        if kind is int:
            parts.append(str(one))
        elif kind is str:
            parts.append(_QUOTED(one))
        else:
            _indent(one, within, parts)
        begins = f",{within}"
    parts += (line, closes)


def _paths(home: Path) -> list[Path]:
    """The reports of a home, oldest first."""
    folder = home / "reports"
    return [folder / name for name in nofollow.file_names(folder) if name.endswith(_SUFFIX)]


def of_the_past(report: Report) -> bool:
    """Whether a pack was made as of an earlier prefix of the log; such a pack is part of no row."""
    seq: int = report["log"]["seq"]
    head: int = report["log"].get("head", seq)
    return seq != head


def _newest(home: Path, shape: str) -> Saved | None:
    """The newest report of a shape that can be read and compared; None without one."""
    for path in reversed(_paths(home)):
        if f"-{shape}-" not in path.name:
            continue
        with contextlib.suppress(MemplaneError):
            found = read_report(path)
            if "chain" in found.report["prefix"] and not of_the_past(found.report):
                return found
    return None


def saved(home: Path) -> Iterator[Saved]:
    """The reports of a home, newest first; files that are no reports are skipped."""
    for path in reversed(_paths(home)):
        with contextlib.suppress(MemplaneError):
            yield read_report(path)


def read_report(path: Path, *, given: bool = False) -> Saved:
    """Read a report file. Raises NotFoundError, and InputError for what is no report.

    `given`: a person named the file; it may be anywhere and may be a link or a pipe.
    """
    try:
        report = json.loads(path.read_bytes() if given else nofollow.read_bytes(path))
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no such report") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a report in JSON: {error}", where=str(path)) from None
    odd = mistake_in(report)
    if odd is not None:
        raise InputError(
            f"expected the report of a pack (schemas/report.schema.json), found {odd}",
            where=str(path),
        )
    return Saved(path.name.removesuffix(_SUFFIX), path, report)


def find_report(home: Path, given: str, project: str | None = None) -> Saved:
    """The report that a path, an id, part of an id, or `last` names.

    With `project`, `last` is the last pack for that project. Raises NotFoundError where there is
    none, InputError where part of an id is ambiguous.
    """
    if "/" in given or Path(given).exists():
        try:
            return read_report(Path(given), given=True)
        except NotFoundError:  # as it was given: a path has one slash where a URL has two
            raise NotFoundError(f"{masked(given)}: no such report") from None
    if given.endswith(".json"):
        return read_report(home / "reports" / given)
    paths = _paths(home)
    if given == LAST:
        if project is not None:
            ours = (one for one in saved(home) if one.report["request"].get("project") == project)
            newest = next(ours, None)
        else:
            newest = read_report(paths[-1]) if paths else None
        if newest is None:
            raise NotFoundError("no report is saved yet; `memplane pack` saves one")
        return newest
    found = [path for path in paths if given in path.name.removesuffix(_SUFFIX)]
    if len(found) == 1:
        return read_report(found[0])
    if not found:
        raise NotFoundError(
            f"no report {quoted_value(given)} in {home / 'reports'}; `memplane replay last` takes "
            "the "
            "newest, a path any"
        )
    some = ", ".join(path.name.removesuffix(_SUFFIX) for path in found[-3:])
    raise InputError(f"{len(found)} reports have {quoted_value(given)} in their id: {some}")
