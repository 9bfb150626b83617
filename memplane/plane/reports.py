"""Reports of packs in HOME/reports: saved with what they name, found again, held against the last.

A report has no text. What a pack was made under lies beside the log, by hash: the policies and
views that its report names, so that the pack can be made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.errors import InputError, MemplaneError, NotFoundError, WriteError
from memplane.home import VERSION, replace_file
from memplane.intake.redact import masked, shown
from memplane.pack.report import chain_of, compared, cost_of, marks_of, shape_of
from memplane.plane.causes import story
from memplane.plane.report_form import mistake_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memplane.pack.block import Block
    from memplane.plane.engine import Engine
    from memplane.policy import Policies
    from memplane.policy.plane import CachePrices

__all__ = [
    "LAST",
    "Saved",
    "costs_of",
    "find",
    "finished",
    "of_the_past",
    "read",
    "save",
    "saved",
]

Report = dict[str, Any]

LAST: Final = "last"
_SUFFIX: Final = ".report.json"
# Events between two packs that are looked through for what broke the prefix.


class Saved(NamedTuple):
    """A report on disk: its id is the file's name without the ending."""

    id: str
    path: Path
    report: Report


def finished(engine: Engine, block: Block, policies: Policies) -> Report:
    """The report as it is saved: with where entries end, and held against the pack before it.

    That is the newest saved one of the same session and shape. Hold the engine's lock.
    """
    report = {"memplane": VERSION, **block.report}
    report["prefix"] = {**report["prefix"], "chain": chain_of(block)}
    report["log"] = {**report["log"], "head": engine.log.head().seq}
    old = None
    if report["request"].get("session") is not None and not of_the_past(report):
        old = _newest(engine.home.path, shape_of(report))
    prices = policies.plane.cache
    before = None if old is None else old.report
    held = compared(before, report, None if old is None else old.id, story(engine, before, report))
    report["prefix"] |= held
    report["prefix"]["cost"] = costs_of(before, report, prices)
    return report


def costs_of(old: Report | None, new: Report, prices: CachePrices) -> dict[str, Any]:
    """The modelled cost by what the next pack comes with (`prompt`, `call`), `old` being cached."""
    return {
        reuse: cost_of(
            new, reuse, prices,
            known=[] if old is None else [(m[0], m[2]) for m in marks_of(old, reuse, prices.marks)],
            common_tokens=new["prefix"]["common_tokens"],
        )._asdict()
        for reuse in ("prompt", "call")
    }  # fmt: skip


def save(
    home: Path, report: Report, now: str, keep: int, bodies: Callable[[str], bytes | None]
) -> Path | None:
    """Write the report, and the policies and views that it names; None on a read-only home."""
    names = [f"policies/{name}" for name in report["policies"]]
    hashes = [*report["policies"].values(), *report["views"].values()]
    try:
        for name, sha256 in zip([*names, *report["views"]], hashes, strict=True):
            data = bodies(name)
            if data is not None and hashlib.sha256(data).hexdigest() == sha256 and _keeps(data):
                path = body_path(home, sha256)
                if not nofollow.is_file(path) and not replace_file(path, data):
                    return None
        stamp = "".join(digit for digit in now if digit.isdigit() or digit == "T")
        name = f"{stamp}-{shape_of(report)}-{report['acb_sha256'][:8]}{_SUFFIX}"
        path = home / "reports" / name
        if not replace_file(path, _dumped(report)):
            return None
    except WriteError:  # a full disk must not cost the caller the block
        return None
    for old in _paths(home)[: -keep or None]:
        with contextlib.suppress(OSError):
            nofollow.remove(old)
    return path if nofollow.is_file(path) else None


def _keeps(data: bytes) -> bool:
    """Whether the bytes may be kept: a policy with a token in it is not (views have none left)."""
    text = data.decode(errors="replace")
    return masked(text) == text


def body_path(home: Path, sha256: str) -> Path:
    """Where the bytes of a hash lie."""
    return home / "bodies" / "sha256" / sha256[:2] / sha256[2:]


def _dumped(report: Report) -> bytes:
    """The report's file: JSON for people, indented."""
    return (json.dumps(report, ensure_ascii=False, indent=1) + "\n").encode()


def _paths(home: Path) -> list[Path]:
    """The reports of a home, oldest first."""
    folder = home / "reports"
    return [folder / name for name in nofollow.files(folder) if name.endswith(_SUFFIX)]


def of_the_past(report: Report) -> bool:
    """Whether the pack was one of an earlier prefix of the log: it stands in no row of packs."""
    seq: int = report["log"]["seq"]
    head: int = report["log"].get("head", seq)
    return seq != head


def _newest(home: Path, shape: str) -> Saved | None:
    """The newest report of a shape that can be read and compared; None without one."""
    for path in reversed(_paths(home)):
        if f"-{shape}-" not in path.name:
            continue
        with contextlib.suppress(MemplaneError):
            found = read(path)
            if "chain" in found.report["prefix"] and not of_the_past(found.report):
                return found
    return None


def saved(home: Path) -> Iterator[Saved]:
    """Yield the reports of a home, newest first; files that are none are passed over."""
    for path in reversed(_paths(home)):
        with contextlib.suppress(MemplaneError):
            yield read(path)


def read(path: Path, *, given: bool = False) -> Saved:
    """Read a report's file; raises NotFoundError, InputError for what is no report.

    `given`: a person named the file, which may lie anywhere and be a link or a pipe.
    """
    try:
        report = json.loads(path.read_bytes() if given else nofollow.read(path))
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


def find(home: Path, given: str) -> Saved:
    """The report that a path, an id, a part of one, or `last` names.

    Raises NotFoundError where there is none, InputError where a part names several.
    """
    if "/" in given or Path(given).exists():
        try:
            return read(Path(given), given=True)
        except NotFoundError:  # as it was given: a path has one slash where a URL has two
            raise NotFoundError(f"{masked(given)}: no such report") from None
    if given.endswith(".json"):
        return read(home / "reports" / given)
    paths = _paths(home)
    if given == LAST:
        if not paths:
            raise NotFoundError("no report is saved yet; `memplane pack` saves one")
        return read(paths[-1])
    found = [path for path in paths if given in path.name.removesuffix(_SUFFIX)]
    if len(found) == 1:
        return read(found[0])
    if not found:
        raise NotFoundError(
            f"no report {shown(given)} in {home / 'reports'}; `memplane replay last` takes the "
            "newest, a path any"
        )
    some = ", ".join(path.name.removesuffix(_SUFFIX) for path in found[-3:])
    raise InputError(f"{len(found)} reports have {shown(given)} in their id: {some}")
