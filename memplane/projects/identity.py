"""What a folder says of itself: its root, its origin and its work trees, read from `.git`.

git is not run (a repository's own configuration names programs that git would start), links are not
followed, a `.git` of another user counts as none, and every read is bounded. What is found here is
a claim: a `.git` can say any origin. Who believes it is `memplane.projects.entering`.

Layout as in gitrepository-layout(5) and git-worktree(1): the `.git` of a work tree is a file with
`gitdir: <path>`; that folder has `commondir`, and `gitdir`, which names the `.git` file back. The
`.git` file of a submodule names a folder whose config has `core.worktree`.
"""

# A hook comes by here: `pathlib` is a twentieth of what one costs.
# ruff: noqa: PTH111, PTH117, PTH118, PTH119, PTH120
from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from memplane import nofollow
from memplane.lazy import NamedTuple

_UPWARD_MAX: Final = 64  # folders
_POINTER_BYTES: Final = 4096  # of a `.git` file, `commondir`, `gitdir`
_CONFIG_BYTES: Final = 256 * 1024
_TREES_MAX: Final = 64
_NAME_MAX: Final = 40
_GIT: Final = ".git"
# Where clients and people put work trees inside of a root; what is below is of the root.
_INNER_TREES: Final = ("/.claude/worktrees/", "/.worktrees/", "/.codex/worktrees/")


class Root(NamedTuple):
    """A folder and what its `.git` claims.

    `path`: the real path. `main`: the root that it is a work tree of, which lists it; else "".
    `origin`: the address without credentials, "" where none is said. `git`: there is a `.git`.
    `there`: the folder is on this machine.
    """

    path: str
    main: str = ""
    origin: str = ""
    git: bool = False
    there: bool = True


NO_ROOT: Final = Root("")


def find_root(folder: str) -> Root:
    """The root of a folder: the nearest with a `.git` at or above it, else the folder itself.

    Of a folder that is not there nothing is looked for on the disk: it is its own root.
    """
    if not os.path.isabs(folder):
        return NO_ROOT
    try:
        real = os.path.realpath(folder, strict=True)
        there = stat.S_ISDIR(os.lstat(real).st_mode)
    except (OSError, ValueError):
        there = False
    if not there:
        return Root(os.path.normpath(folder), there=False)
    at = real
    for _ in range(_UPWARD_MAX):
        found = _root_at(at)
        if found is not None:
            return found
        above = os.path.dirname(at)
        if above == at:
            break
        at = above
    return Root(real)


def _root_at(folder: str) -> Root | None:
    """The root in this very folder; None where it has no `.git` of this user."""
    git = os.path.join(folder, _GIT)
    try:
        state = os.lstat(git)
    except (OSError, ValueError):
        return None
    if state.st_uid != os.geteuid():
        return None
    if stat.S_ISDIR(state.st_mode):
        return Root(folder, "", _origin(git, folder), git=True)
    if stat.S_ISREG(state.st_mode):
        return _pointed(folder, git)
    return None  # a link, or what no git makes


def _pointed(folder: str, git: str) -> Root:
    """The root whose `.git` is a file: a work tree or submodule, if the other side says so too."""
    plain = Root(folder, git=True)
    said = _line(git, folder)
    if not said.startswith("gitdir:"):
        return plain
    gitdir = _resolved(said.removeprefix("gitdir:").strip(), folder)
    if not gitdir or not _is_ours(gitdir):
        return plain
    if _resolved(_line(os.path.join(gitdir, "gitdir"), gitdir), gitdir) == git:
        common = _resolved(_line(os.path.join(gitdir, "commondir"), gitdir), gitdir)
        # The main root lists it: its own folder of work trees has the place that names us.
        if common and os.path.dirname(gitdir) == os.path.join(common, "worktrees"):
            main = os.path.dirname(common) if os.path.basename(common) == _GIT else common
            return Root(folder, main, _origin(common, main), git=True)
        return plain
    values = _config(gitdir)
    if _resolved(values.get("core.worktree", ""), gitdir) == folder:
        return Root(folder, "", address_of(values.get("remote.origin.url", ""), folder), git=True)
    return plain


def work_trees(main: str) -> list[str]:
    """The roots that a main root lists as its work trees, at most 64; none of one without."""
    git = os.path.join(main, _GIT)
    common = git if _is_folder(git) else main
    found: list[str] = []
    with suppress(OSError):
        for name in nofollow.folder_names(os.path.join(common, "worktrees"), common)[:_TREES_MAX]:
            place = os.path.join(common, "worktrees", name)
            named = _resolved(_line(os.path.join(place, "gitdir"), common), place)
            if os.path.basename(named) == _GIT:
                found.append(os.path.dirname(named))
    return found


def tree_base(path: str) -> str:
    """The root that a path lies in by the usual places of work trees below it; "" for no such."""
    for inner in _INNER_TREES:
        before, found, behind = path.partition(inner)
        if found and behind:
            return before
    return ""


def inner_path(path: str) -> str:
    """A file's path from its root, without the usual places of work trees before it."""
    for inner in _INNER_TREES:
        head = inner.removeprefix("/")
        if path.startswith(head):
            tree, slash, rest = path[len(head) :].partition("/")
            if tree and slash and rest:
                return rest
    return path


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_ours(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except (OSError, ValueError):
        return False


def _line(path: str, home: str) -> str:
    """The first line of a small file; "" where there is none, or no such file."""
    try:
        data = nofollow.read_bytes(path, _POINTER_BYTES, home=home)
    except (OSError, ValueError):
        return ""
    line = data.partition(b"\n")[0].strip()
    return "" if b"\0" in line else os.fsdecode(line)


def _resolved(named: str, folder: str) -> str:
    """A path as it was named in a folder, without `..`; "" of none."""
    return os.path.normpath(os.path.join(folder, named)) if named else ""


def _origin(common: str, root: str) -> str:
    return address_of(_config(common).get("remote.origin.url", ""), root)


def _config(folder: str) -> dict[str, str]:
    """`core.worktree` and `remote.origin.url` of a git config, the last of each; no includes."""
    found: dict[str, str] = {}
    try:
        data = nofollow.read_bytes(os.path.join(folder, "config"), _CONFIG_BYTES, home=folder)
    except (OSError, ValueError):
        return found
    section = ""
    for raw in data.decode("utf-8", "surrogateescape").splitlines():
        line = raw.strip()
        if line.startswith("["):
            head, _, line = line[1:].partition("]")
            word, _, name = head.partition(" ")
            name = name.strip().removeprefix('"').removesuffix('"')
            section = f"{word.strip().lower()}.{name}".rstrip(".")
            line = line.strip()
        key, equals, value = line.partition("=")
        wanted = f"{section}.{key.strip().lower()}"
        if equals and wanted in ("core.worktree", "remote.origin.url"):
            found[wanted] = value.strip().strip('"')
    return found


def address_of(url: str, root: str) -> str:
    """An origin's address: host and path, without scheme, user, password, query and `.git`.

    So `git@host:team/app.git` and `https://token@host/team/app` are one. Of a folder of this
    machine it is the path. "" for what is none.
    """
    url = url.strip()
    if not url or not url.isprintable():
        return ""
    scheme, slashes, rest = url.partition("://")
    if slashes and scheme.lower() != "file":
        host, _, path = rest.partition("/")
    elif not slashes and ":" in url.partition("/")[0]:  # the form of scp
        host, _, path = url.partition(":")
    else:
        path = rest if slashes else url
        return f"{os.path.normpath(os.path.join(root, path))}".removesuffix("/.git")
    host = host.rpartition("@")[2].lower()
    path = path.partition("?")[0].partition("#")[0].strip("/").removesuffix(_GIT).rstrip("/")
    return f"{host}/{path}" if host and path else ""


def project_name(path: str) -> str:
    """The last part of an address or path as a name: letters, digits, `.`, `_` and `-`."""
    last = path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    plain = "".join(
        one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in last
    )
    return plain.strip("-.")[:_NAME_MAX].strip("-.") or "project"


def digest(text: str) -> str:
    """The SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def client_folder(path: str) -> str:
    """The name that Claude Code gives the folder of what it keeps for a project."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in path)


def is_excluded(folders: Sequence[str], globs: Sequence[str]) -> bool:
    """Whether one of the folders, or one above it, is named by one of the globs.

    `*` stands for any characters, `/` among them; `~` for the user's folder. A folder is compared
    as it is named and by its real path.
    """
    if not globs:
        return False
    import fnmatch  # noqa: PLC0415 - most plane.yaml have none

    named = [os.path.expanduser(one).rstrip("/") or "/" for one in globs]
    return any(
        fnmatch.fnmatchcase(above, glob)
        for folder in dict.fromkeys(folders)
        for above in _at_and_above(folder)
        for glob in named
    )


def _at_and_above(folder: str) -> Iterator[str]:
    if not os.path.isabs(folder):
        return
    for path in dict.fromkeys((os.path.normpath(folder), os.path.realpath(folder))):
        at = path
        while True:
            yield at
            above = os.path.dirname(at)
            if above == at:
                break
            at = above
