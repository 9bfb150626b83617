"""A plane's folder and what it lies on: who may enter, who holds the lock, how much room there is.

Looks and writes nothing. What the plane holds is for `doctor`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import Final, Literal, NamedTuple

from memplane import nofollow
from memplane.lazy import regex
from memplane.log import Disk
from memplane.log.spool import Spool

__all__ = [
    "Check",
    "filesystem",
    "hard_links",
    "ignored",
    "leftovers",
    "lock",
    "network_kind",
    "permissions",
    "room",
    "some",
    "space",
    "spool",
    "synced_by",
]

Status = Literal["ok", "warn", "fail"]

SPACE_WARN: Final = 100 * 1024 * 1024
SPACE_FAIL: Final = 8 * 1024 * 1024  # a segment, and a checkpoint of every projection
_LOCK_SECONDS: Final = 0.5
_LISTED: Final = 3
_IGNORE_BYTES_MAX: Final = 1 << 20
# What memplane alone writes: nobody else has business there.
_OURS: Final = ("log", "bodies", "projections", "index", "reports")
_NETWORK: Final = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "drvfs", "fuse.davfs2", "fuse.glusterfs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "prl_fs", "smb", "smb3", "smbfs", "vboxsf",
))  # fmt: skip
# The folders that clients of clouds make: their name, alone or followed by an account (`OneDrive -
# Contoso`, `Dropbox (Work)`, and below ~/Library/CloudStorage `GoogleDrive-me@example.com`).
_SYNCED: Final = {
    "OneDrive": "OneDrive", "Dropbox": "Dropbox", "Google Drive": "Google Drive",
    "GoogleDrive": "Google Drive", "iCloud Drive": "iCloud", "iCloudDrive": "iCloud",
    "Mobile Documents": "iCloud", "com~apple~CloudDocs": "iCloud", "pCloudDrive": "pCloud",
    "Nextcloud": "Nextcloud", "ownCloud": "ownCloud",
}  # fmt: skip
# What they leave in the folder that they copy, whatever its name is.
_SYNC_MARKS: Final = {
    ".dropbox": "Dropbox", ".dropbox.cache": "Dropbox", ".stfolder": "Syncthing",
    ".849C9593-D756-4E56-8D6E-42412F2A707B": "OneDrive",
}  # fmt: skip
_ACCOUNT: Final = (" - ", "-", " (")
# What `memplane.index.storage.put` calls a folder that it moves out of its way.
_ASIDE: Final = regex(r"\.aside\d+$")
_OCTAL: Final = regex(r"\\([0-7]{3})")


class Check(NamedTuple):
    """One answer. `remedy` says what to do, "" where there is nothing to do."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def permissions(path: Path) -> Check:
    """The folder protects all below it; below, what memplane writes is for the owner alone."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Check(
            "permissions", "fail", f"{path}: mode {mode:04o} lets others in, expected 0700",
            f"chmod 700 {path}",
        )  # fmt: skip
    open_ones: list[str] = []
    strange: list[str] = []
    for file in map(Path, nofollow.walk(path, folders=True)):
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
            "permissions", "fail", f"not yours: {some(strange)}",
            f"chown -R {os.geteuid()} {path}",
        )  # fmt: skip
    if open_ones:
        return Check(
            "permissions", "warn", f"open to others but for the folder above: {some(open_ones)}",
            f"chmod -R go-rwx {path}",
        )  # fmt: skip
    return Check("permissions", "ok", f"mode {mode:04o}, yours alone")


def hard_links(home: Path) -> Check:
    """Files of memplane's own that have another name too, as in a backup made with `cp -al`."""
    shared = [
        str(file.relative_to(home))
        for file in map(Path, nofollow.walk(home))
        if file.relative_to(home).parts[0] in (*_OURS, "hooks.log") and file.lstat().st_nlink > 1
    ]
    if shared:
        return Check(
            "hard-links", "warn", f"{len(shared)} files have other names too: {some(shared)}",
            "nothing is lost: each is copied before it is written, and the other name keeps what "
            "it holds; a backup of its own is made with `memplane export` or `cp -a`",
        )  # fmt: skip
    return Check("hard-links", "ok", "no file has another name")


def lock(home: Path) -> Check:
    """Tried like a reader for a moment: a writer that comes meanwhile waits that long."""
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
        "lock", "warn", f"held for more than {_LOCK_SECONDS} s by {_who(pid)}",
        "nobody else can write meanwhile: wait for that process, or end it",
    )  # fmt: skip


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
    """What was acknowledged to callers that could not wait, and nobody has taken in yet."""
    waiting = Spool(os.fspath(home), "", Disk()).names()
    if not waiting:
        return Check("spool", "ok", "nothing waits")
    return Check(
        "spool", "warn", f"{len(waiting)} files wait for the next writer: {some(waiting)}",
        "`memplane repair` takes them in; they are as safe as the log meanwhile",
    )  # fmt: skip


def room(home: Path) -> Check:
    """How much may still be written there."""
    state = os.statvfs(home)
    return space(state.f_bavail * state.f_frsize)


def space(free: int) -> Check:
    """What so many free bytes mean for a plane."""
    found = f"{free // 1024**2} MB free"
    if free < SPACE_FAIL:
        return Check("space", "fail", found, "make room: the next record may be refused")
    if free < SPACE_WARN:
        return Check("space", "warn", found, "make room soon")
    return Check("space", "ok", found)


def filesystem(home: Path) -> Check:
    """Whether locks and syncs can be trusted there, and whether the files are left alone."""
    cloud = synced_by(home.absolute()) or synced_by(home.resolve())
    if cloud is not None:
        return Check(
            "filesystem", "warn", f"in a folder of {cloud}, which copies files while they are "
            "written and puts other versions in their place",
            "keep the plane outside of it; `memplane export` makes a file to keep there",
        )  # fmt: skip
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="surrogateescape")
    except OSError:
        return Check(
            "filesystem", "ok", "its kind is unknown on this system; expected a local disk"
        )
    kind, network = network_kind(mounts, home.resolve())
    if network:
        return Check(
            "filesystem", "warn", f"{kind}, which is shared over a network",
            "locks and syncs may not hold there: keep the plane on a local disk",
        )  # fmt: skip
    return Check("filesystem", "ok", kind or "unknown")


def synced_by(path: Path) -> str | None:
    """The service that copies a folder to other machines, by what its clients call theirs.

    The names of the folders above and marks in them are looked at; None where neither says so.
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
    """The kind of file system that a path lies on, by a table of mounts; whether it is remote."""
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
    """Files that a crash or a repair left."""
    drafts = [file for file in map(Path, nofollow.walk(home)) if file.suffix in (".tmp", ".new")]
    aside = [file for file in map(Path, nofollow.walk(home)) if file.parent.name == "quarantine"]
    restoring = home / "bodies" / "restoring"
    drafts += [restoring] if restoring.is_dir() else []
    if drafts:
        return Check(
            "leftovers", "warn", f"begun and never finished: "
            f"{some([str(file.relative_to(home)) for file in drafts])}",
            "delete them while no memplane runs",
        )  # fmt: skip
    if aside:
        size = sum(file.lstat().st_size for file in aside)
        return Check(
            "leftovers", "warn", f"{size} bytes in {len(aside)} files of log/quarantine",
            "a repair set them aside: look at them, then delete them",
        )  # fmt: skip
    moved = [
        file for file in map(Path, nofollow.walk(home, folders=True)) if _ASIDE.search(file.name)
    ]
    if moved:
        return Check(
            "leftovers", "warn", f"folders that stood in the place of caches: "
            f"{some([str(file.relative_to(home)) for file in moved])}",
            "look at them, then delete them",
        )  # fmt: skip
    return Check("leftovers", "ok", "none")


def ignored(path: Path) -> Check:
    """A plane inside a work tree: its log is not for git."""
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
        "git-ignore", "warn", f"in the work tree {tree}, and nothing keeps its log out of git",
        f"put {', '.join(f'{folder}/' for folder in _OURS)} into {home / '.gitignore'}",
    )  # fmt: skip


def _lines(file: Path) -> set[str]:
    with contextlib.suppress(OSError):
        data = nofollow.read(file, _IGNORE_BYTES_MAX, home=file.parent)
        return {line.strip() for line in data.decode(errors="replace").splitlines()}
    return set()


def some(found: list[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(found[:_LISTED])
    more = len(found) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown
