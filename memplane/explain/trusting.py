"""What a person should see of a plane before trusting it, and what trusting it does.

The plane is read as a stranger's: nothing is written before `take`, no cache of it is believed, and
what is trusted are the very bytes that were shown.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from memplane import nofollow
from memplane.context.watched_files import Frozen
from memplane.errors import (
    HomeError,
    MemplaneError,
    NotFoundError,
    PolicyError,
    Problem,
    StrangeFileError,
    WriteError,
)
from memplane.explain.history import PolicyChange, PolicyVersion, changes, git_output, in_home
from memplane.home import Home, asset, open_home
from memplane.lazy import NamedTuple
from memplane.log import FileLog
from memplane.policy import NAMES
from memplane.ports import Clock
from memplane.trust import TrustRecord, TrustStore, is_own_plane, location_of, record_of, salt

_CACHES: Final = ("projections", "index")
_FACTS_BYTES_MAX: Final = 64 * 1024


class TrustSurvey(NamedTuple):
    """A plane as it is now. `kept` is the trust that counts already, if any.

    `tracked`: whether git holds its log, None where there is no repository. `changes`: what differs
    from `kept`, else from memplane's defaults. `views`: their texts, without a `kept` trust.
    `mistakes`: those of the policies. `files`: the bytes that `take` would trust.
    """

    home: Home
    location: str
    created: str
    memplane: str
    owner: int
    own: bool
    tracked: bool | None
    events: int | None
    first: str
    last: str
    kept: TrustRecord | None
    changes: list[PolicyChange]
    views: dict[str, str]
    lost: tuple[str, ...]
    mistakes: tuple[Problem, ...]
    files: dict[str, bytes | None]

    @property
    def differs(self) -> bool:
        """Whether there is anything to take."""
        return self.kept is None or dict(self.kept.files) != self.files


def survey_plane(
    path: str,
    environment: Mapping[str, str],
    *,
    clock: Clock,
    user: str,
    loads: Callable[[bytes], Any],
) -> TrustSurvey:
    """Look at a plane and write nothing. Raises what `open_home` does."""
    home = open_home(path)
    facts = _facts(home)
    now = in_home(home.path)
    location = location_of(path)
    kept, _ = TrustStore(environment).get(location)
    if kept is not None and (kept.path, kept.plane) != (_real(home), home.plane_id):
        kept = None
    events, first, last = _events(home, clock, loads)
    before = _defaults() if kept is None else _as_trusted(kept, now)
    return TrustSurvey(
        home,
        location,
        facts["created"],
        facts["memplane"],
        home.path.stat().st_uid,
        is_own_plane(location, user),
        _tracked(home.path),
        events,
        first,
        last,
        kept,
        [one for one in changes(before, now) if kept is not None or not _is_view(one.file)],
        {} if kept is not None else _views(now),
        now.lost,
        *_read(home, now),
    )


def trust_plane(found: TrustSurvey, environment: Mapping[str, str], at: str) -> None:
    """Trust a plane as it was surveyed: its caches go, its files become the owner's alone.

    Raises HomeError where another plane lies there by now, WriteError where that cannot be done, or
    the trust cannot be kept.
    """
    if open_home(found.home.folder).plane_id != found.home.plane_id:
        raise HomeError(f"{found.home.folder}: another plane lies there now; look at it again")
    try:
        if not found.home.read_only:
            for name in _CACHES:
                _drop(found.home.path / name)
            nofollow.make_folder(found.home.path / "projections")
            _make_private(found.home.path)
    except OSError as error:
        raise WriteError(f"{error.filename}: {error.strerror}; nothing was trusted") from error
    TrustStore(environment).put(record_of(found.home, found.location, found.files, at))


def _facts(home: Home) -> dict[str, str]:
    """What plane.json says of who made it; a stranger's words."""
    found: dict[str, Any] = {}
    with suppress(ValueError):  # more than that is nobody's plane.json
        found = json.loads(nofollow.read_bytes(home.path / "plane.json", _FACTS_BYTES_MAX))
    return {name: str(found.get(name, ""))[:100] for name in ("created", "memplane")}


def _real(home: Home) -> str:
    return os.path.realpath(home.folder)


def _defaults() -> PolicyVersion:
    return PolicyVersion("", {f"policies/{name}": asset(f"policies/{name}") for name in NAMES})


def _as_trusted(kept: TrustRecord, now: PolicyVersion) -> PolicyVersion:
    """The files as they were trusted; those that count as they are, as they are."""
    same = {name: data for name, data in now.files.items() if name.startswith("policies/")}
    same = {name: data for name, data in same.items() if name not in kept.files}
    trusted = {name: data for name, data in kept.files.items() if data is not None}
    return PolicyVersion("", {**same, **trusted})


_LOG_BYTES_MAX: Final = 1 << 30


def _is_view(file: str) -> bool:
    return file.startswith("views/")


def _views(now: PolicyVersion) -> dict[str, str]:
    return {
        name: data.decode("utf-8", "replace") for name, data in now.files.items() if _is_view(name)
    }


def _events(home: Home, clock: Clock, loads: Callable[[bytes], Any]) -> tuple[int | None, str, str]:
    """How many events verify, and when the first and the last happened; None: too long to read.

    A stranger's log may be of any size: a hole of many GB takes no room where it lies.
    """
    count, first, last = 0, "", ""
    folder = home.path / "log"
    sizes = [(folder / name).lstat().st_size for name in nofollow.file_names(folder, home.folder)]
    if sum(sizes) > _LOG_BYTES_MAX:
        return None, "", ""
    log = FileLog(home.folder, home.plane_id, clock=clock, loads=loads, read_only=True)
    with suppress(MemplaneError):
        for line in log.read():
            if line.event.kind != "segment":
                count += 1
                first, last = first or line.event.ts, line.event.ts
    log.close()
    return count, first, last


def _read(home: Home, now: PolicyVersion) -> tuple[tuple[Problem, ...], dict[str, bytes | None]]:
    """The mistakes of the policies, and what a trust would keep; no parsed form is believed."""
    files, mistakes = Frozen(home.path, now.files, salt=salt()), tuple[Problem, ...]()
    try:
        files.policies()
    except PolicyError as error:
        mistakes = error.problems
    return mistakes, files.trustable()


def _tracked(path: Path) -> bool | None:
    with suppress(NotFoundError, OSError):
        said = git_output(
            path.parent, "ls-files", "-z", "--", f"{path.name}/log", most=_FACTS_BYTES_MAX
        )
        return bool(said)
    return None


def _drop(folder: Path) -> None:
    """Remove a folder, or what stands in its place."""
    with suppress(FileNotFoundError):
        try:
            nofollow.remove_tree(folder)
        except StrangeFileError:
            nofollow.remove_name(folder)


def _make_private(top: Path) -> None:
    """Make folders 0700 and files 0600; not what a link leads to, nor what has another name too."""
    for _, _, files, descriptor in os.fwalk(top, follow_symlinks=False):
        os.fchmod(descriptor, 0o700)
        for name in files:
            state = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            mine = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid()
            if not mine or state.st_nlink > 1 or stat.S_IMODE(state.st_mode) == 0o600:
                continue
            with suppress(PermissionError):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                file = os.open(name, flags, dir_fd=descriptor)
                try:
                    os.fchmod(file, 0o600)
                finally:
                    os.close(file)
