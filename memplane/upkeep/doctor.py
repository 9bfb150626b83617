"""`memplane doctor`: check a plane's folder and its surroundings; writes nothing.

Permissions, links, lock, disk space, file system, sync clients, versions, what is behind or
waiting.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane import nofollow, tokens
from memplane.context.materials import view_paths
from memplane.context.watched_files import Watched, watched
from memplane.errors import MemplaneError, PolicyError
from memplane.home import Home, Trusted, open_home
from memplane.lazy import NamedTuple, late, regex, word_set
from memplane.log import Disk, FileLog
from memplane.log.segments import Segments
from memplane.log.spool import Spool
from memplane.log.verifying import is_interrupted
from memplane.policy.records import NO_EMBEDDER, OWN_ENGINE
from memplane.projects import cache_id
from memplane.search.service import kept_upto
from memplane.upkeep.verify import stated_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memplane.context.context import MakeCounter
    from memplane.index import (
        engine as index_engine,
        storage as index_storage,
    )
    from memplane.ports import Clock, Position
    from memplane.recall import documents as recall_documents
else:
    recall_documents = late("memplane.recall.documents")
    index_engine = late("memplane.index.engine")
    index_storage = late("memplane.index.storage")

Status = Literal["ok", "warn", "fail"]

SPACE_WARN: Final = 100 * 1024 * 1024
SPACE_FAIL: Final = 8 * 1024 * 1024  # a segment, and a checkpoint of every projection
_LOCK_SECONDS: Final = 0.5
_LISTED: Final = 3
_IGNORE_BYTES_MAX: Final = 1 << 20
# What only memplane writes.
_OURS: Final = ("log", "bodies", "projections", "index", "reports")
_NETWORK: Final = word_set("""
    9p afs beegfs ceph cifs davfs drvfs fuse.davfs2 fuse.glusterfs fuse.rclone fuse.s3fs
    fuse.sshfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 prl_fs smb smb3 smbfs vboxsf
""")
# The folders that clients of clouds make: their name, alone or followed by an account (`OneDrive -
# Contoso`, `Dropbox (Work)`, and below ~/Library/CloudStorage `GoogleDrive-me@example.com`).
_SYNCED: Final = {
    "OneDrive": "OneDrive",
    "Dropbox": "Dropbox",
    "Google Drive": "Google Drive",
    "GoogleDrive": "Google Drive",
    "iCloud Drive": "iCloud",
    "iCloudDrive": "iCloud",
    "Mobile Documents": "iCloud",
    "com~apple~CloudDocs": "iCloud",
    "pCloudDrive": "pCloud",
    "Nextcloud": "Nextcloud",
    "ownCloud": "ownCloud",
}
# What they leave in the folder that they copy, whatever its name is.
_SYNC_MARKS: Final = {
    ".dropbox": "Dropbox",
    ".dropbox.cache": "Dropbox",
    ".stfolder": "Syncthing",
    ".849C9593-D756-4E56-8D6E-42412F2A707B": "OneDrive",
}
_ACCOUNT: Final = (" - ", "-", " (")
# What `memplane.index.storage.rename_over` calls a folder that it moves out of its way.
_ASIDE: Final = regex(r"\.aside\d+$")
_OCTAL: Final = regex(r"\\([0-7]{3})")


class Check(NamedTuple):
    """The result of one check. `remedy` says what to do, "" where nothing is to be done."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def permissions(path: Path) -> Check:
    """Check that only the owner may enter the folder, or write what memplane wrote below it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Check(
            "permissions",
            "fail",
            f"{path}: mode {mode:04o} lets others in, expected 0700",
            f"chmod 700 {path}",
        )
    open_ones: list[str] = []
    strange: list[str] = []
    for file in map(Path, nofollow.walk_files(path, folders=True)):
        below = file.relative_to(path)
        if below.parts[0] not in _OURS:
            continue
        shown = str(below)
        state = file.lstat()
        if state.st_uid != os.geteuid():
            strange.append(shown)
        elif state.st_mode & 0o077 and not stat.S_ISLNK(state.st_mode):
            open_ones.append(shown)
    if strange:
        return Check(
            "permissions", "fail", f"not yours: {some(strange)}", f"chown -R {os.geteuid()} {path}"
        )
    if open_ones:
        return Check(
            "permissions",
            "warn",
            f"open to others but for the folder above: {some(open_ones)}",
            f"chmod -R go-rwx {path}",
        )
    return Check("permissions", "ok", f"mode {mode:04o}, yours alone")


def hard_links(home: Path) -> Check:
    """Check that no file of the plane has a second name (hard link), as `cp -al` gives it."""
    shared = [
        str(file.relative_to(home))
        for file in map(Path, nofollow.walk_files(home))
        if file.relative_to(home).parts[0] in (*_OURS, "hooks.log") and file.lstat().st_nlink > 1
    ]
    if shared:
        return Check(
            "hard-links",
            "warn",
            f"{len(shared)} files have other names too: {some(shared)}",
            "nothing is lost: each is copied before it is written, and the other name keeps what "
            "it holds; a backup of its own is made with `memplane export` or `cp -a`",
        )
    return Check("hard-links", "ok", "no file has another name")


def lock(home: Path) -> Check:
    """Check that the log's lock can be taken, for a moment and shared: a writer waits that long."""
    path = home / "log" / ".lock"
    try:
        descriptor = nofollow.open_file(path)
    except FileNotFoundError:
        return Check("lock", "ok", "nobody has written yet")
    except OSError as error:
        return Check("lock", "fail", f"{path}: {error.strerror}", "remove it: it holds nothing")
    try:
        pid = _pid(os.pread(descriptor, 20, 0))
        deadline = time.monotonic() + _LOCK_SECONDS
        while not (free := _free(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        os.close(descriptor)
    if free:
        return Check("lock", "ok", f"free; last held by {_who(pid)}")
    return Check(
        "lock",
        "warn",
        f"held for more than {_LOCK_SECONDS} s by {_who(pid)}",
        "nobody else can write meanwhile: wait for that process, or end it",
    )


def _free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _pid(raw: bytes) -> int | None:
    text = raw.strip()
    return int(text) if text.isdigit() else None


def _who(pid: int | None) -> str:
    if pid is None:
        return "a process that left no number"
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return f"process {pid}, which has ended"
    except PermissionError:
        pass
    return f"process {pid}, which is alive"


def spool(home: Path) -> Check:
    """Check for events that were acknowledged while the lock was held and are in no segment yet."""
    waiting = Spool(os.fspath(home), "", Disk()).names()
    if not waiting:
        return Check("spool", "ok", "nothing waits")
    return Check(
        "spool",
        "warn",
        f"{len(waiting)} files wait for the next writer: {some(waiting)}",
        "`memplane repair` takes them in; they are as safe as the log meanwhile",
    )


def room(home: Path) -> Check:
    """Check the free space of the file system."""
    state = os.statvfs(home)
    return space(state.f_bavail * state.f_frsize)


def space(free: int) -> Check:
    """Judge a number of free bytes."""
    found = f"{free // 1024**2} MB free"
    if free < SPACE_FAIL:
        return Check("space", "fail", found, "make room: the next record may be refused")
    if free < SPACE_WARN:
        return Check("space", "warn", found, "make room soon")
    return Check("space", "ok", found)


def filesystem(home: Path) -> Check:
    """Check that the file system keeps locks and syncs, and that no service copies the files."""
    cloud = synced_by(home.absolute()) or synced_by(home.resolve())
    if cloud is not None:
        return Check(
            "filesystem",
            "warn",
            f"in a folder of {cloud}, which copies files while they are "
            "written and puts other versions in their place",
            "keep the plane outside of it; `memplane export` makes a file to keep there",
        )
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="surrogateescape")
    except OSError:
        return Check(
            "filesystem", "ok", "its kind is unknown on this system; expected a local disk"
        )
    kind, network = network_kind(mounts, home.resolve())
    if network:
        return Check(
            "filesystem",
            "warn",
            f"{kind}, which is shared over a network",
            "locks and syncs may not hold there: keep the plane on a local disk",
        )
    return Check("filesystem", "ok", kind or "unknown")


def synced_by(path: Path) -> str | None:
    """The service that copies a folder to other machines, by names and marks of its client.

    Looks at the folder and those above it; None if unknown.
    """
    for above in (path, *path.parents):
        for name, service in _SYNCED.items():
            if above.name == name or above.name.startswith(tuple(name + end for end in _ACCOUNT)):
                return service
        for mark, service in _SYNC_MARKS.items():
            # `~/.dropbox` is where the client keeps its settings: only below it the mark counts.
            if above != Path.home() and os.path.lexists(above / mark):
                return service
    return None


def network_kind(mounts: str, path: Path) -> tuple[str, bool]:
    """The type of the file system of a path, by a mount table, and whether it is remote."""
    kind, longest = "", -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[1]))
        # Of two on one place the later one is what is seen.
        if len(point.parts) >= longest and path.is_relative_to(point):
            kind, longest = fields[2], len(point.parts)
    return kind, kind in _NETWORK


def leftovers(home: Path) -> Check:
    """Check for files that a crash or a repair left."""
    drafts = [
        file for file in map(Path, nofollow.walk_files(home)) if file.suffix in (".tmp", ".new")
    ]
    aside = [
        file for file in map(Path, nofollow.walk_files(home)) if file.parent.name == "quarantine"
    ]
    restoring = home / "bodies" / "restoring"
    drafts += [restoring] if restoring.is_dir() else []
    if drafts:
        return Check(
            "leftovers",
            "warn",
            f"begun and never finished: {some([str(file.relative_to(home)) for file in drafts])}",
            "delete them while no memplane runs",
        )
    if aside:
        size = sum(file.lstat().st_size for file in aside)
        return Check(
            "leftovers",
            "warn",
            f"{size} bytes in {len(aside)} files of log/quarantine",
            "a repair set them aside: look at them, then delete them",
        )
    moved = [
        file
        for file in map(Path, nofollow.walk_files(home, folders=True))
        if _ASIDE.search(file.name)
    ]
    if moved:
        return Check(
            "leftovers",
            "warn",
            f"folders that stood in the place of caches: "
            f"{some([str(file.relative_to(home)) for file in moved])}",
            "look at them, then delete them",
        )
    return Check("leftovers", "ok", "none")


def ignored(path: Path) -> Check:
    """Check that git ignores the log of a plane inside a work tree."""
    home = path.resolve()
    tree = next((up for up in home.parents if (up / ".git").exists()), None)
    if tree is None:
        return Check("git-ignore", "ok", "in no work tree of git")
    lines = _lines(home / ".gitignore")
    if all(f"{folder}/" in lines for folder in _OURS):
        return Check(
            "git-ignore", "ok", f"in the work tree {tree}; its own .gitignore keeps it out"
        )
    for up in home.parents:
        if {home.name, f"{home.name}/", f"/{home.name}", f"/{home.name}/"} & _lines(
            up / ".gitignore"
        ):
            return Check("git-ignore", "ok", f"in the work tree {tree}, which ignores it")
        if up == tree:
            break
    return Check(
        "git-ignore",
        "warn",
        f"in the work tree {tree}, and nothing keeps its log out of git",
        f"put {', '.join(f'{folder}/' for folder in _OURS)} into {home / '.gitignore'}",
    )


def _lines(file: Path) -> set[str]:
    with contextlib.suppress(OSError):
        data = nofollow.read_bytes(file, _IGNORE_BYTES_MAX, home=file.parent)
        return {line.strip() for line in data.decode(errors="replace").splitlines()}
    return set()


def some(found: list[str]) -> str:
    """The first few of a list as text, and how many more there are."""
    shown = ", ".join(found[:_LISTED])
    more = len(found) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


# Whether a plane can be used: checks of its files and their surroundings; nothing is written.
#
# Checks are independent, so that a broken plane is examined as far as possible. `fail`
# means that something does not work or is not safe, `warn` that it may not be what was meant.
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


def examine_plane(
    path: Path,
    *,
    clock: Clock,
    make_counter: MakeCounter,
    loads: Callable[[bytes], Any],
    overrides: Mapping[str, str],
    trusted: Trusted | None = None,
) -> list[Check]:
    """Make every check of the plane in a folder, whatever state it is in.

    `overrides` are the environment variables that stand before values of the policies; `trusted`
    are the files that stand for those of a plane that was found and is trusted.
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
            "home",
            "warn",
            f"{home.path}: plane {home.plane_id}, read-only",
            "it can be packed and read; to record, make the folder writable",
        )
    return Check("home", "ok", f"{home.path}: plane {home.plane_id}")


def _policies(place: _Place) -> Check:
    try:
        place.watched().policies()
    except PolicyError as error:
        count = len(error.problems)
        mistakes = "1 mistake" if count == 1 else f"{count} mistakes"
        return Check(
            "policies",
            "fail",
            f"{mistakes}; the first: {error.problems[0]}",
            "`memplane policy check` lists them all; nothing is packed until then",
        )
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
            "trust",
            "warn",
            f"changed since it was trusted, so as it was then: {some(held)}",
            "`memplane policy accept` shows the difference and takes it",
        )
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


def _opened(place: _Place) -> tuple[Home, FileLog, Position]:
    home = open_home(place.path)
    log = FileLog(home.path, home.plane_id, clock=place.clock, loads=place.loads, read_only=True)
    return home, log, log.head()


def _log(place: _Place) -> Check:
    """The newest segment line by line; the sealed ones are for `verify`."""
    home, log, head = _opened(place)
    folder = place.path / "log"
    segments = Segments(str(folder), home.plane_id)
    newest = max(segments.numbers(), default=0)
    names = nofollow.file_names(folder)
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
            "log",
            "fail",
            f"{found}; {number:08d}.jsonl {what}",
            "`memplane repair --salvage` moves it to log/quarantine; nothing is recorded before",
        )
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
    for name, at in stated_positions(place.path, cache_id(home)):
        if at is not None and at.seq > (head := log.head()).seq:
            return Check(
                "projections",
                "warn",
                f"{name} knows of seq {at.seq}, and the log ends with seq {head.seq}",
                "the log lost its end, or is an older copy: `memplane verify` says what to do",
            )
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
    at = kept_upto(home.path, cache_id(home), place.watched().policies_or_last())
    if at is None or not log.matches(at):
        why = "kept, but not of this log and these policies"
        return Check("index", "warn", why, "the next search makes it again")
    names = [name for name in nofollow.file_names(folder) if name.endswith(".bin")]
    size = sum((folder / name).lstat().st_size for name in names)
    found = f"up to seq {at.seq}, {head.seq - at.seq} events behind, {size} bytes"
    if head.seq - at.seq > BEHIND_WARN:
        return Check("index", "warn", found, "the next search takes them in")
    return Check("index", "ok", found)


def _vectors(place: _Place) -> Check:
    """How far vectors lag behind the index that is kept; where no policy asks for any, nothing."""
    policies = place.watched().policies_or_last()
    name = policies.plane.embedder
    if name == NO_EMBEDDER:
        return Check("vectors", "ok", "no embedder is named in plane.yaml")
    home = open_home(place.path)
    manifest = index_storage.read_manifest(
        home.path / "index", cache_id(home), recall_documents.variant_of(policies)
    )
    documents = 0 if manifest is None else sum(part.documents for part in manifest.segments)
    header = index_storage.vectors_header(home.path / "index" / index_storage.DENSE_FOLDER)
    kind = (cache_id(home), recall_documents.variant_of(policies))
    if header is None or (header.plane, header.variant) != kind:
        if not documents:
            return Check("vectors", "ok", f"{name}: none kept, and nothing indexed yet")
        return Check("vectors", "warn", f"{name}: none of {documents} texts", _EMBED)
    behind = max(0, documents - header.documents)
    # Whether that is the embedder of this name, only loading it would tell.
    found = f"{name}: {behind} of {documents} indexed texts without one (of {header.embedder})"
    return Check("vectors", "warn" if behind else "ok", found, _EMBED if behind else "")


def _engine(place: _Place) -> Check:
    """Whether the search engine of the policy is there, and how far it lags behind the index."""
    policies = place.watched().policies_or_last()
    name = policies.plane.engine
    if name == OWN_ENGINE:
        return Check("engine", "ok", "memplane's own index")
    if find_spec(name) is None:
        needed = f"pip install 'memplane[{name}]', or `index.engine: own` in plane.yaml"
        return Check("engine", "fail", f"{name}: is not installed; nothing can be searched", needed)
    home = open_home(place.path)
    header = index_engine.read_header(home.path / "index" / name)
    kind = (cache_id(home), recall_documents.variant_of(policies))
    if header is None or header[:2] != kind:
        return Check("engine", "ok", f"{name}: none kept: the first search fills it")
    manifest = index_storage.read_manifest(home.path / "index", *kind)
    documents = 0 if manifest is None else sum(part.documents for part in manifest.segments)
    behind = max(0, documents - header.documents)
    size = sum(said[0] for said in header.files.values())
    found = f"{name}: {behind} of {documents} indexed texts behind, {size} bytes"
    return Check("engine", "ok", found)


def _clock(place: _Place) -> Check:
    _, log, head = _opened(place)
    line = log.line(head.seq) if head.seq else None
    now = place.clock()
    if line is not None and line.event.rec > now:
        return Check(
            "clock",
            "warn",
            f"{now} is before the last event, {line.event.rec}",
            "set the clock; events are stamped with the later of the two until it has passed",
        )
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
    "engine": _engine,
    "leftovers": _of_folder(leftovers),
    "hard-links": _of_folder(hard_links),
    "clock": _clock,
    "git-ignore": _of_folder(ignored),
}
_OPENING: Final = frozenset(("log", "projections", "index", "vectors", "engine", "clock"))
