"""Policies and views as they were at a commit, as they lie in the home, or in some folder.

A home is a repository of its own or lies in one. git says what files held at a commit; only what
memplane reads is asked for: the five policies, and the views below `views/`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, NamedTuple

from memplane import nofollow
from memplane.errors import InputError, NotFoundError
from memplane.explain.git import GitError, answer, reading
from memplane.home import asset
from memplane.intake.redact import shown
from memplane.policy import NAMES

__all__ = [
    "HEAD",
    "NOW",
    "Commit",
    "Repository",
    "Version",
    "in_folder",
    "in_home",
    "say_the_same",
    "version",
]

NOW: Final = "now"  # names the working tree
HEAD: Final = "HEAD"
POLICIES: Final = tuple(f"policies/{name}" for name in NAMES)
_VIEWS: Final = ":(glob)views/**/*.md"
_POLICY_BYTES: Final = 256 * 1024 + 1  # one more than a policy may have: it is told from a whole
_VIEW_BYTES: Final = 1024 * 1024
_VIEWS_MAX: Final = 2_000
_LINK: Final = "120000"  # the mode of a symbolic link in a tree
_LISTING_BYTES: Final = 64 * 1024 * 1024
_LINE_BYTES: Final = 512
_ABBREVIATED: Final = 8
# hash, parents, committer's time, author, subject
_FIELDS: Final = ("%H", "%P", "%ct", "%an", "%s")


class Version(NamedTuple):
    """Bytes by path under the home: `policies/budgets.yaml`, `views/rules.project.md`.

    A policy that is not among them is memplane's default. `lost` are files that are there and
    cannot be read.
    """

    name: str
    files: Mapping[str, bytes]
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


class Commit(NamedTuple):
    """One commit. `known` is False where a shallow clone does not have what came before it."""

    hash: str
    at: str
    author: str
    subject: str
    parent: str | None
    known: bool


class Repository:
    """The repository that a home lies in. Raises NotFoundError where there is none, or no git."""

    def __init__(self, home: Path) -> None:
        self.home = home
        try:
            said = answer(home, "rev-parse", "--is-shallow-repository", most=_LINE_BYTES)
        except GitError as error:
            if "not a git repository" not in error.words:
                raise
            raise NotFoundError(
                f"{home}: no git repository here or above, so policies have no history; "
                "`git init` and commit policies/ and views/"
            ) from None
        self._shallow = said.startswith(b"true")

    def commit(self, given: str) -> str:
        """The hash of the commit that a revision names; raises NotFoundError."""
        if given and not given.startswith("-") and "\0" not in given:
            asked = ("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}")
            with suppress(GitError):
                return answer(self.home, *asked, most=_LINE_BYTES).decode().strip()
        if given == HEAD:
            raise NotFoundError(f"{self.home}: its repository has no commit yet")
        raise NotFoundError(
            f"expected a commit, branch or tag of the repository that {self.home} lies in, "
            f"found {shown(given)}"
        )

    def at(self, given: str) -> Version:
        """The files at a revision."""
        commit = self.commit(given)
        short = commit[:_ABBREVIATED]
        name = short if commit.startswith(given) else f"{given} ({short})"
        return Version(name, *self._files(commit))

    def log(self, limit: int) -> Iterator[Commit]:
        """Yield the newest commits that touched what memplane reads, newest first."""
        self.commit(HEAD)
        said = answer(
            self.home, "log", "-z", f"--max-count={limit}", "--no-color", "--no-show-signature",
            "--encoding=UTF-8", "--no-mailmap", f"--format={'%x00'.join(_FIELDS)}%x00", HEAD,
            "--", *POLICIES, _VIEWS, most=_LISTING_BYTES,
        )  # fmt: skip
        fields = iter(said.decode("utf-8", "replace").split("\0"))
        for hash_, parents, seconds, author, subject, _ in zip(*[fields] * 6, strict=False):
            parent = next(iter(parents.split()), None)
            known = parent is not None or not self._shallow
            yield Commit(hash_, _time(seconds), author, subject, parent, known)

    def ignored(self) -> bool:
        """Whether git is told to pass the policies over."""
        try:
            return bool(answer(self.home, "check-ignore", POLICIES[0], most=_VIEW_BYTES))
        except GitError:
            return False

    def _files(self, commit: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
        said = answer(
            self.home, "ls-tree", "-r", "-z", commit, "--", "policies/", "views/",
            most=_LISTING_BYTES,
        )  # fmt: skip
        listed = [_listed(row) for row in said.decode("utf-8", "replace").split("\0") if row]
        wanted = {path: (mode, hash_) for mode, hash_, path in listed if _is_read(path)}
        views = [path for path in sorted(wanted) if path not in POLICIES]
        for path in views[_VIEWS_MAX:]:
            del wanted[path]
        hashes = list(dict.fromkeys(hash_ for _, hash_ in wanted.values()))
        held = self._blobs(hashes)
        files, lost = dict[str, bytes](), views[_VIEWS_MAX:]
        for path, (mode, hash_) in wanted.items():
            data = None if mode == _LINK else held.get(hash_)  # a plane reads no link
            if data is None:
                lost.append(path)
            else:
                files[path] = data[: _most(path)]
        return dict(sorted(files.items())), tuple(lost)

    def _blobs(self, hashes: list[str]) -> dict[str, bytes]:
        """The contents by hash, no more of each than memplane would read."""
        if not hashes:
            return {}
        asked = "".join(f"{one}\n" for one in hashes).encode()
        with reading(self.home, "cat-file", "--batch", given=asked) as stream:
            return {one: data for one in hashes if (data := _blob(stream)) is not None}


def version(home: Path, given: str) -> Version:
    """The version that a person names: `now`, a revision, or a folder.

    Raises NotFoundError naming what there could have been.
    """
    if given == NOW:
        return in_home(home)
    if not given:
        raise InputError("expected a revision, `now` or a folder, found nothing")
    folder = Path(given).expanduser()
    spelled = given.startswith((".", "/", "~"))
    if spelled and folder.is_dir():
        return in_folder(home, folder)
    try:
        return Repository(home).at(given)
    except NotFoundError:
        if not folder.is_dir():
            raise
    return in_folder(home, folder)


def say_the_same(one: Version, other: Version) -> bool:
    """Whether both have the same files, the defaults where there are none."""
    defaults = {path: asset(path) for path in POLICIES}
    return {**defaults, **one.files} == {**defaults, **other.files}


def in_home(home: Path) -> Version:
    """The files as they lie in the home now."""
    files, lost = _read(home, home)
    return Version("the working tree", files, lost)


def in_folder(home: Path, folder: Path) -> Version:
    """The files of a folder; what it has not is as it lies in the home.

    They lie in `policies/` and `views/` below it, or the policies in the folder itself.
    """
    own, lost = _read(folder, folder)
    if not own:
        own = {
            path: data
            for path, name in zip(POLICIES, NAMES, strict=True)
            if (data := _bytes(folder, name, _POLICY_BYTES)) is not None
        }
    if not own:
        raise InputError(
            f"{folder}: expected policies ({', '.join(NAMES)}) in it or in its policies/, "
            "found none"
        )
    return Version(os.fspath(folder), {**_read(home, home)[0], **own}, lost)


def _read(root: Path, inside: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Policies and views below a folder; views that lead out of it are not read."""
    found = {path: _bytes(root, path, _POLICY_BYTES) for path in POLICIES}
    files = {path: data for path, data in found.items() if data is not None}
    views = sorted(path for path in (root / "views").rglob("*.md") if path.is_file())
    lost = [path.relative_to(root).as_posix() for path in views[_VIEWS_MAX:]]
    for path in views[:_VIEWS_MAX]:
        name = path.relative_to(root).as_posix()
        within = path.resolve().is_relative_to(inside.resolve())
        data = _bytes(root, name, _VIEW_BYTES) if within else None
        if data is None:
            lost.append(name)
        else:
            files[name] = data
    return files, tuple(lost)


def _bytes(root: Path, name: str, most: int) -> bytes | None:
    try:
        return nofollow.read(root / name, most, home=root)
    except OSError:
        return None


def _is_read(path: str) -> bool:
    return path in POLICIES or (path.startswith("views/") and path.endswith(".md"))


def _most(path: str) -> int:
    return _POLICY_BYTES if path in POLICIES else _VIEW_BYTES


def _listed(row: str) -> tuple[str, str, str]:
    """Mode, hash and path of a row of `git ls-tree`."""
    facts, _, path = row.partition("\t")
    mode, _, hash_ = facts.split(" ")[:3]
    return mode, hash_, path


def _blob(stream: IO[bytes]) -> bytes | None:
    """The next answer of `git cat-file --batch`: the beginning of a content, None for no blob."""
    words = stream.readline().split()
    if len(words) != 3:
        return None
    left = int(words[2]) + 1  # a newline follows
    kept = stream.read(min(left, _VIEW_BYTES + 1))
    left -= len(kept)
    data = kept[:-1] if not left else kept
    while left and (more := stream.read(min(left, _VIEW_BYTES))):
        left -= len(more)
    return data if words[1] == b"blob" else None


def _time(seconds: str) -> str:
    """The moment in the log's form; "" for one that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return ""
