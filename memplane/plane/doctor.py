"""Is this plane fit to be used? Looks at files and their surroundings, and writes nothing.

Each check stands for itself, so that a broken plane is looked at as far as that goes. `fail`
means that something does not work or is not safe, `warn` that it may not be what was meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow, tokens
from memplane.errors import MemplaneError, PolicyError
from memplane.home import Home, Trusted, open_home
from memplane.log import FileLog
from memplane.log.segments import Segments
from memplane.log.verifying import is_interrupted
from memplane.plane.files import Watched, watched
from memplane.plane.folder_checks import (
    Check,
    filesystem,
    hard_links,
    ignored,
    leftovers,
    lock,
    permissions,
    room,
    some,
    spool,
)
from memplane.plane.index_position import kept_upto, variant_of
from memplane.plane.packing import view_paths
from memplane.plane.stated import stated
from memplane.policy.plane import NO_EMBEDDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from memplane.plane.engine import MakeCounter
    from memplane.ports import Clock, Head

__all__ = ["Check", "examine"]

BEHIND_WARN: Final = 5000
_EMBED: Final = "`memplane embed` makes them; until then searches and packs use what there is"


class _Place(NamedTuple):
    path: Path
    clock: Clock
    make_counter: MakeCounter
    loads: Callable[[bytes], Any]
    overrides: Mapping[str, str]
    trusted: Trusted | None

    def watched(self) -> Watched:
        return watched(Home(str(self.path), "", True, self.trusted), bool, self.overrides)


def examine(
    path: Path, *, clock: Clock, make_counter: MakeCounter, loads: Callable[[bytes], Any],
    overrides: Mapping[str, str], trusted: Trusted | None = None,
) -> list[Check]:  # fmt: skip
    """Make every check of the plane in a folder, whatever state it is in.

    `overrides` are the variables that stand before values of the policies; `trusted` is what stands
    for files of a plane that was found.
    """
    place = _Place(path, clock, make_counter, loads, overrides, trusted)
    checks = [_tried("home", _home, place)]
    opens = checks[0].status != "fail"
    for name, check in _CHECKS.items():
        if opens or name not in _OPENING:
            checks.append(_tried(name, check, place))
        else:
            checks.append(Check(name, "warn", "not looked at: the plane cannot be opened"))
    return checks


def _tried(name: str, check: Callable[[_Place], Check], place: _Place) -> Check:
    try:
        return check(place)
    except (MemplaneError, OSError, ValueError) as error:
        return Check(name, "fail", str(error))


def _home(place: _Place) -> Check:
    home = open_home(place.path)
    if home.read_only:
        return Check(
            "home", "warn", f"{home.path}: plane {home.plane_id}, read-only",
            "it can be packed and read; to record, make the folder writable",
        )  # fmt: skip
    return Check("home", "ok", f"{home.path}: plane {home.plane_id}")


def _policies(place: _Place) -> Check:
    try:
        place.watched().policies()
    except PolicyError as error:
        count = len(error.problems)
        mistakes = "1 mistake" if count == 1 else f"{count} mistakes"
        return Check(
            "policies", "fail", f"{mistakes}; the first: {error.problems[0]}",
            "`memplane policy check` lists them all; nothing is packed until then",
        )  # fmt: skip
    return Check("policies", "ok", "no mistakes")


def _views(place: _Place) -> Check:
    files = place.watched()
    policies = files.policies_or_last()
    paths = dict.fromkeys(
        path for name in policies.channels.views for path in view_paths(policies, name)
    )
    views = [files.view(path) for path in paths]
    if wrong := [f"{one.path}: {why}" for one in views if (why := files.unread(one.path))]:
        return Check("views", "fail", some(wrong), "put a file there that you may read")
    if outside := [one.path for one in views if one.lost == "outside"]:
        return Check("views", "fail", f"outside of the plane, so not read: {some(outside)}")
    return Check("views", "ok", f"{sum(not one.lost for one in views)} loaded")


def _trust(place: _Place) -> Check:
    if place.trusted is None:
        return Check("trust", "ok", "named or your own, so its files count as they are")
    if held := place.watched().held():
        return Check(
            "trust", "warn", f"changed since it was trusted, so as it was then: {some(held)}",
            "`memplane policy accept` shows the difference and takes it",
        )  # fmt: skip
    return Check("trust", "ok", "found here and trusted; nothing changed since")


def _counter(place: _Place) -> Check:
    budgets = place.watched().policies_or_last().budgets
    there, lost = [], {}
    for name in tokens.NAMES:
        try:
            place.make_counter(name, budgets.scale_ppm).count("one two")
            there.append(name)
        except (MemplaneError, OSError, ImportError) as error:
            lost[name] = str(error)
    found = f"{budgets.counter}; available: {', '.join(there)}"
    if budgets.counter in lost:
        return Check("counter", "fail", found, lost[budgets.counter])
    return Check("counter", "ok", found)


def _opened(place: _Place) -> tuple[Home, FileLog, Head]:
    home = open_home(place.path)
    log = FileLog(
        home.path, home.plane_id, clock=place.clock, loads=place.loads, read_only=True
    )  # fmt: skip
    return home, log, log.head()


def _log(place: _Place) -> Check:
    """The newest segment line by line; the sealed ones are for `verify`."""
    home, log, head = _opened(place)
    folder = place.path / "log"
    segments = Segments(str(folder), home.plane_id)
    newest = max(segments.numbers(), default=0)
    names = nofollow.files(folder)
    sizes = {name: (folder / name).lstat().st_size for name in names if name.endswith(".jsonl")}
    found = f"seq {head.seq}, {len(sizes)} segments, {sum(sizes.values())} bytes"
    broken = [name for name in names if name == f"{newest:08d}.broken"]
    behind = sizes.get(f"{head.segment:08}.jsonl", 0) - head.offset
    fault = _log_fault(log, segments, found)
    if fault is not None:
        return fault
    what, remedy = "", ""
    if broken:
        what = f"a sync failed once: {some(broken)}"
        remedy = "check the disk; the next record goes on in a new segment"
    elif is_interrupted(segments.purging_path):
        what = "a purge was interrupted: what it erases may still be there"
        remedy = "`memplane repair` finishes it, and so does the next record"
    elif behind > 0:
        what = f"{behind} bytes behind its last line were never acknowledged"
        remedy = "the next record sets them aside, and so does `memplane repair`"
    elif again := log.restarts():
        what = str(again[-1])
        remedy = "`memplane restore EXPORT` brings the lost events back, where there is an export"
    return Check("log", "warn" if what else "ok", f"{found}; {what}" if what else found, remedy)


def _log_fault(log: FileLog, segments: Segments, found: str) -> Check | None:
    """What keeps the log from taking events, or events from being read."""
    if segments.strays:
        number, what = min(segments.strays.items())
        return Check(
            "log", "fail", f"{found}; {number:08d}.jsonl {what}",
            "`memplane repair --salvage` moves it to log/quarantine; nothing is recorded before",
        )  # fmt: skip
    refusal = log.headless()
    if refusal is not None:
        return Check("log", "fail", str(refusal), "`memplane repair`, or a copy of that file")
    gaps = log.gaps()
    if gaps:
        first = gaps[0]
        where = f"segment {first.segment} from byte {first.offset}"
        return Check("log", "fail", f"{found}; does not verify: {where}", "`memplane verify`")
    return None


def _projections(place: _Place) -> Check:
    home, log, head = _opened(place)
    behind: dict[str, int] = {}
    useless: list[str] = []
    for name, at in stated(place.path, home.plane_id):
        if at is not None and at.seq > (head := log.head()).seq:
            return Check(
                "projections", "warn",
                f"{name} knows of seq {at.seq}, and the log ends with seq {head.seq}",
                "the log lost its end, or is an older copy: `memplane verify` says what to do",
            )  # fmt: skip
        if at is None or not log.matches(at):
            useless.append(name)
        else:
            behind[name] = head.seq - at.seq
    most = max(behind.values(), default=0)
    found = f"{len(behind)} kept, the oldest {most} events behind"
    if useless:
        found += f"; not of this log: {some(useless)}"
    if useless or most > BEHIND_WARN:
        return Check("projections", "warn", found, "`memplane rebuild` makes them again")
    return Check("projections", "ok", found)


def _index(place: _Place) -> Check:
    home, log, head = _opened(place)
    folder = home.path / "index"
    if not nofollow.is_file(folder / "manifest.json"):
        return Check("index", "ok", "none kept: the first search makes it")
    at = kept_upto(home.path, home.plane_id, place.watched().policies_or_last())
    if at is None or not log.matches(at):
        why = "kept, but not of this log and these policies"
        return Check("index", "warn", why, "the next search makes it again")
    names = [name for name in nofollow.files(folder) if name.endswith(".bin")]
    size = sum((folder / name).lstat().st_size for name in names)
    found = f"up to seq {at.seq}, {head.seq - at.seq} events behind, {size} bytes"
    if head.seq - at.seq > BEHIND_WARN:
        return Check("index", "warn", found, "the next search takes them in")
    return Check("index", "ok", found)


def _vectors(place: _Place) -> Check:
    """How far vectors lag behind the index that is kept; where no policy asks for any, nothing."""
    from memplane.index import dense, storage  # noqa: PLC0415 - they bring arrays along

    policies = place.watched().policies_or_last()
    name = policies.plane.embedder
    if name == NO_EMBEDDER:
        return Check("vectors", "ok", "no embedder is named in plane.yaml")
    home = open_home(place.path)
    manifest = storage.read_manifest(home.path / "index", home.plane_id, variant_of(policies))
    documents = 0 if manifest is None else sum(part.documents for part in manifest.segments)
    header = dense.kept(home.path / "index" / dense.FOLDER)
    kind = (home.plane_id, variant_of(policies))
    if header is None or (header.plane, header.variant) != kind:
        if not documents:
            return Check("vectors", "ok", f"{name}: none kept, and nothing indexed yet")
        return Check("vectors", "warn", f"{name}: none of {documents} texts", _EMBED)
    behind = max(0, documents - header.documents)
    # Whether that is the embedder of this name, only loading it would tell.
    found = f"{name}: {behind} of {documents} indexed texts without one (of {header.embedder})"
    return Check("vectors", "warn" if behind else "ok", found, _EMBED if behind else "")


def _clock(place: _Place) -> Check:
    _, log, head = _opened(place)
    line = log.line(head.seq) if head.seq else None
    now = place.clock()
    if line is not None and line.event.rec > now:
        return Check(
            "clock", "warn", f"{now} is before the last event, {line.event.rec}",
            "set the clock; events are stamped with the later of the two until it has passed",
        )  # fmt: skip
    return Check("clock", "ok", now)


def _of_folder(check: Callable[[Path], Check]) -> Callable[[_Place], Check]:
    return lambda place: check(place.path)


_CHECKS: Final[dict[str, Callable[[_Place], Check]]] = {
    "permissions": _of_folder(permissions),
    "lock": _of_folder(lock),
    "spool": _of_folder(spool),
    "space": _of_folder(room),
    "filesystem": _of_folder(filesystem),
    "trust": _trust,
    "policies": _policies,
    "views": _views,
    "counter": _counter,
    "log": _log,
    "projections": _projections,
    "index": _index,
    "vectors": _vectors,
    "leftovers": _of_folder(leftovers),
    "hard-links": _of_folder(hard_links),
    "clock": _clock,
    "git-ignore": _of_folder(ignored),
}
_OPENING: Final = frozenset(("log", "projections", "index", "vectors", "clock"))
