"""What changed in the policies and views between two versions, in words.

Key by key, with what holds: where a file leaves a key out, memplane's default stands for it.

What a person should see of a plane before trusting it, and what trusting it does.

The plane is read as a stranger's: nothing is written before `take`, no cache of it is believed, and
what is trusted are the very bytes that were shown.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import IO, Any, Final

from memplane import nofollow
from memplane.context.watched_files import Frozen
from memplane.errors import (
    HomeError,
    InputError,
    MemplaneError,
    NotFoundError,
    PolicyError,
    Problem,
    StrangeFileError,
    WriteError,
)
from memplane.home import Assets, Home, asset, open_home
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple, word_table
from memplane.log import FileLog
from memplane.policy import NAMES, Documents, PolicyValue, as_yaml, documents, values_of_policy
from memplane.policy.document import without_places
from memplane.ports import Clock
from memplane.trust import TrustRecord, TrustStore, is_own_plane, location_of, record_of, salt

_SCHEMAS: Final = tuple(name.replace(".yaml", ".schema.json") for name in NAMES)
_NAMED_MAX: Final = 8  # keys named in one sentence
_VALUE_MAX: Final = 300  # characters
_LONG: Final = 80  # of longer values only what differs is shown,
_AROUND: Final = 20  # and so much around it
_NAME_OF_ITEM: Final = re.compile(r"^(channels\[)(\d+)(\])")
_STEP: Final = re.compile(r"[.\[]")

Value = tuple[Any, str]  # and where it comes from: file or default


class PolicyChange(NamedTuple):
    """One thing that is otherwise.

    `what`: changed, added, removed (a key, with its value; a file, without a key), written or
    unwritten (a key whose value stayed), order, layout, broken, lines (of a view).
    """

    file: str
    key: str
    what: str
    before: Any
    after: Any
    words: str

    def __str__(self) -> str:
        return f"{self.file}: {self.words}"


class _File(NamedTuple):
    """One policy at one version: its values, or its mistakes."""

    values: dict[str, Value]
    document: Any  # as it was written
    mistakes: tuple[str, ...]


def policy_history(
    repository: PolicyRepository, limit: int
) -> Iterator[tuple[PolicyCommit, list[PolicyChange] | None]]:
    """Yield the newest commits that touched policies or views, with what they changed.

    None where that cannot be known: the first commit of a shallow clone.
    """
    kept: dict[str, PolicyVersion] = {}

    def at(hash_: str) -> PolicyVersion:
        if hash_ not in kept:
            kept[hash_] = repository.at(hash_)
        return kept[hash_]

    for commit in islice(repository.log(limit), limit):
        if not commit.known:
            yield commit, None
            continue
        before = PolicyVersion("", {}) if commit.parent is None else at(commit.parent)
        after = at(commit.hash)
        kept = {commit.hash: after} if commit.parent is None else {commit.parent: before}
        yield commit, changes(before, after)


def changes(old: PolicyVersion, new: PolicyVersion) -> list[PolicyChange]:
    """What is otherwise in the new version, file by file."""
    found: list[PolicyChange] = []
    for name in NAMES:
        path = f"policies/{name}"
        if old.files.get(path) != new.files.get(path):
            found += _of_policy(name, old, new)
        elif path in old.files and _file(name, *_bytes(old)) != _file(name, *_bytes(new)):
            found += _of_policy(name, old, new)  # privacy.yaml, for what channels.yaml says
    views = sorted(path for path in {*old.files, *new.files} if path.startswith("views/"))
    for path in views:
        if old.files.get(path) != new.files.get(path):
            found.append(_of_view(path, old.files.get(path), new.files.get(path)))
    for path in sorted({*new.lost} - {*old.lost}):
        found.append(
            PolicyChange(
                path, "", "broken", None, None, f"cannot be read at {new}: a link, or too many"
            )
        )
    return found


def _bytes(version: PolicyVersion) -> tuple[tuple[str, bytes], ...]:
    return tuple((path, data) for path, data in version.files.items() if path.startswith("pol"))


def _of_policy(name: str, old: PolicyVersion, new: PolicyVersion) -> list[PolicyChange]:
    before, after = _file(name, *_bytes(old)), _file(name, *_bytes(new))
    path = f"policies/{name}"
    whole = _whole_file(name, path in old.files, path in new.files)
    read = ((before, _where(old, "before")), (after, _where(new, "now")))
    broken = [_broken(name, file.mistakes, where) for file, where in read if file.mistakes]
    if broken:
        return [*whole, *broken]
    found = list(_values(name, before.values, after.values, both=not whole))
    if not whole:
        found += _orders(name, before.document, after.document, ())
        if not found:
            words = "only comments or layout changed"
            found.append(PolicyChange(name, "", "layout", None, None, words))
    elif not found:
        found.append(whole[0]._replace(words=f"{whole[0].words}; every value is as it was"))
        return found
    return [*whole, *found]


def _broken(name: str, mistakes: Sequence[str], where: str) -> PolicyChange:
    listed = "".join(f"\n  {mistake}" for mistake in mistakes)
    words = f"has mistakes {where}, so what it says there is not known:{listed}"
    return PolicyChange(name, "", "broken", None, list(mistakes), words)


def _where(version: PolicyVersion, otherwise: str) -> str:
    return f"at {version}" if version.name else otherwise


def _whole_file(name: str, was: bool, is_: bool) -> list[PolicyChange]:
    if was and not is_:
        words = "removed; memplane's defaults stand for it"
        return [PolicyChange(name, "", "removed", None, None, words)]
    if is_ and not was:
        return [
            PolicyChange(
                name, "", "added", None, None, "added; memplane's defaults stood for it before"
            )
        ]
    return []


@lru_cache(maxsize=64)
def _file(name: str, *files: tuple[str, bytes]) -> _File:
    """Read one policy of a version, which is given by its files."""
    read = _documents(*files)
    own = [problem for problem in read.problems if problem.file == name]
    if own:
        placed = (problem._replace(file=f"policies/{name}") for problem in own)
        return _File({}, None, tuple(masked(str(problem)) for problem in placed))
    written = any(path == f"policies/{name}" for path, _ in files)
    rows = list(values_of_policy(name, read, written=written, defaults=Assets("policies", NAMES)))
    root = read.roots[name]
    return _File(_by_name(rows), None if root is None else without_places(root), ())


@lru_cache(maxsize=4)
def _documents(*files: tuple[str, bytes]) -> Documents:
    """Read all policies of a version: a mistake in one may take two to see."""
    data = {path.removeprefix("policies/"): held for path, held in files}
    defaults, schemas = Assets("policies", NAMES), Assets("schemas", _SCHEMAS)
    return documents(dict(data), defaults=defaults, schemas=schemas)


def _by_name(rows: Sequence[PolicyValue]) -> dict[str, Value]:
    """Values by key; channels go by their names, wherever they stand in the list."""
    names = {row.key: str(row.value) for row in rows if _NAME_OF_ITEM.sub("", row.key) == ".name"}

    def key(row: PolicyValue) -> str:
        found = _NAME_OF_ITEM.match(row.key)
        name = names.get(f"{found[0]}.name") if found else None
        return row.key if name is None or not found else f"channels[{name}]{row.key[found.end() :]}"

    return {key(row): (row.value, row.origin) for row in rows}


def _values(
    name: str, before: dict[str, Value], after: dict[str, Value], *, both: bool
) -> Iterator[PolicyChange]:
    """What holds otherwise; with `both` files there, also what is merely written or not."""
    silent: dict[str, list[str]] = {"written": [], "unwritten": []}
    told: set[str] = set()
    for key in [*before, *(key for key in after if key not in before)]:
        if key in before and key in after:
            (old, was), (new, is_) = before[key], after[key]
            if old != new:
                yield from _changed(name, key, before[key], after[key])
            elif was != is_:
                silent["written" if is_ == "file" else "unwritten"].append(key)
            continue
        gone = key in before
        own, other = (before, after) if gone else (after, before)
        top = _top(key, other)
        if top in told or (own[key][0] == {} and _holds(other, key)):
            continue
        told.add(top)
        value = _gathered(top, own)
        what = "removed" if gone else "added"
        words = f"{top} {what}, it was {_said(value)}" if gone else f"{top} {what}: {_said(value)}"
        yield PolicyChange(name, top, what, value if gone else None, None if gone else value, words)
    if both:
        for what, keys in silent.items():
            if keys:
                how = "now written, with" if what == "written" else "no longer written, which keeps"
                words = f"{_some(keys)} {how} the value of the default"
                yield PolicyChange(name, ", ".join(keys), what, None, None, words)


def _changed(name: str, key: str, before: Value, after: Value) -> Iterator[PolicyChange]:
    (old, was), (new, is_) = before, after
    one = PolicyChange(name, key, "changed", old, new, "")
    if isinstance(old, list) and isinstance(new, list):
        gone = list((Counter(map(_said, old)) - Counter(map(_said, new))).elements())
        come = list((Counter(map(_said, new)) - Counter(map(_said, old))).elements())
        if not gone and not come:
            yield one._replace(what="order", words=f"{key}: the same in another order {_said(new)}")
            return
        parts = [f"- {item}" for item in gone] + [f"+ {item}" for item in come]
        note = _note(was, is_)
        yield one._replace(words=f"{key}{note} " + ", ".join(parts))
        return
    was_said, is_said = (_cut(said) for said in _apart(as_yaml(old), as_yaml(new)))
    yield one._replace(words=f"{key} {was_said} -> {is_said}{_note(was, is_)}")


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two long values, less what they begin and end with alike."""
    if max(len(old), len(new)) <= _LONG:
        return old, new
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    begin, end = max(0, begin - _AROUND), max(0, end - _AROUND)
    return _between(old, begin, end), _between(new, begin, end)


def _alike(old: str, new: str) -> int:
    """How many characters both begin with."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(old), len(new)))


def _between(text: str, begin: int, end: int) -> str:
    shown = text[begin : len(text) - end]
    return f"{'…' * (begin > 0)}{shown}{'…' * (end > 0)}"


def _note(was: str, is_: str) -> str:
    if was == is_:
        return ""
    return " (the default: no longer written)" if is_ == "default" else " (was the default)"


def _orders(name: str, before: Any, after: Any, path: tuple[str, ...]) -> Iterator[PolicyChange]:
    """Mappings below the top whose keys stand in another order, and channels that do."""
    if path == ("channels",) and isinstance(before, list) and isinstance(after, list):
        before, after = ({row["name"]: None for row in rows} for rows in (before, after))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return
    old = [key for key in before if key in after]
    new = [key for key in after if key in before]
    if path and old != new:
        key = ".".join(path)
        words = f"{key}: in another order: {_some(new)}"
        yield PolicyChange(name, key, "order", old, new, words)
    for key in old:
        yield from _orders(name, before[key], after[key], (*path, key))


def _top(key: str, other: dict[str, Value]) -> str:
    """The shortest part of a key's path that the other version has nothing of."""
    for step in _STEP.finditer(key):
        end = step.start() if key[step.start()] == "." else key.find("]", step.start()) + 1
        if key[:end] != key and not _holds(other, key[:end]):
            return key[:end]
    return key


def _holds(values: dict[str, Value], key: str) -> bool:
    return key in values or any(one.startswith((f"{key}.", f"{key}[")) for one in values)


def _gathered(top: str, values: dict[str, Value]) -> Any:
    """What stands below a key, as one value."""
    if top in values:
        return values[top][0]
    return {
        key.removeprefix(top).lstrip("."): value
        for key, (value, _) in values.items()
        if key.startswith((f"{top}.", f"{top}["))
    }


def _of_view(path: str, old: bytes | None, new: bytes | None) -> PolicyChange:
    """The lines that came and went; one that moved did neither."""
    was, is_ = _lines(old), _lines(new)
    gone, come = _without(was, is_), _without(is_, was)
    if old is None or new is None:
        what = "added" if old is None else "removed"
        count = len(is_ if old is None else was)
        words = f"{what}, {count} line{'s' * (count != 1)}"
    elif not gone and not come:
        words = "the same lines in another order, or with other ends"
        return PolicyChange(path, "", "layout", None, None, words)
    else:
        what = "lines"
        words = f"{len(come)} line{'s' * (len(come) != 1)} added, {len(gone)} removed"
    return PolicyChange(path, "", what, gone, come, words)


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").splitlines()


def _without(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """The lines that the others have not, as often as they have them not, in order."""
    left = Counter(others)
    found = []
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
        elif line.strip():
            found.append(line)
    return found


def _some(keys: Sequence[str]) -> str:
    more = len(keys) - _NAMED_MAX
    return ", ".join(keys[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _said(value: Any) -> str:
    return _cut(as_yaml(value))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"


# Policies and views as they were at a commit, as they lie in the home, or in some folder.
#
# A home is a repository of its own or lies in one. git says what files held at a commit; only what
# memplane reads is asked for: the five policies, and the views below `views/`.

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


class PolicyVersion(NamedTuple):
    """Bytes by path under the home: `policies/budgets.yaml`, `views/rules.project.md`.

    A policy that is not among them is memplane's default. `lost` are files that are there and
    cannot be read.
    """

    name: str
    files: Mapping[str, bytes]
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


class PolicyCommit(NamedTuple):
    """One commit. `known` is False where a shallow clone does not have what came before it."""

    hash: str
    at: str
    author: str
    subject: str
    parent: str | None
    known: bool


class PolicyRepository:
    """The repository that a home lies in. Raises NotFoundError where there is none, or no git."""

    def __init__(self, home: Path) -> None:
        self.home = home
        try:
            said = git_output(home, "rev-parse", "--is-shallow-repository", most=_LINE_BYTES)
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
                return git_output(self.home, *asked, most=_LINE_BYTES).decode().strip()
        if given == HEAD:
            raise NotFoundError(f"{self.home}: its repository has no commit yet")
        raise NotFoundError(
            f"expected a commit, branch or tag of the repository that {self.home} lies in, "
            f"found {quoted_value(given)}"
        )

    def at(self, given: str) -> PolicyVersion:
        """The files at a revision."""
        commit = self.commit(given)
        short = commit[:_ABBREVIATED]
        name = short if commit.startswith(given) else f"{given} ({short})"
        return PolicyVersion(name, *self._files(commit))

    def log(self, limit: int) -> Iterator[PolicyCommit]:
        """Yield the newest commits that touched what memplane reads, newest first."""
        self.commit(HEAD)
        said = git_output(
            self.home,
            "log",
            "-z",
            f"--max-count={limit}",
            "--no-color",
            "--no-show-signature",
            "--encoding=UTF-8",
            "--no-mailmap",
            f"--format={'%x00'.join(_FIELDS)}%x00",
            HEAD,
            "--",
            *POLICIES,
            _VIEWS,
            most=_LISTING_BYTES,
        )
        fields = iter(said.decode("utf-8", "replace").split("\0"))
        for hash_, parents, seconds, author, subject, _ in zip(*[fields] * 6, strict=False):
            parent = next(iter(parents.split()), None)
            known = parent is not None or not self._shallow
            yield PolicyCommit(hash_, _time(seconds), author, subject, parent, known)

    def ignored(self) -> bool:
        """Whether git is told to pass the policies over."""
        try:
            return bool(git_output(self.home, "check-ignore", POLICIES[0], most=_VIEW_BYTES))
        except GitError:
            return False

    def _files(self, commit: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
        said = git_output(
            self.home,
            "ls-tree",
            "-r",
            "-z",
            commit,
            "--",
            "policies/",
            "views/",
            most=_LISTING_BYTES,
        )
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


def policy_version(home: Path, given: str) -> PolicyVersion:
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
        return PolicyRepository(home).at(given)
    except NotFoundError:
        if not folder.is_dir():
            raise
    return in_folder(home, folder)


def say_the_same(one: PolicyVersion, other: PolicyVersion) -> bool:
    """Whether both have the same files, the defaults where there are none."""
    defaults = {path: asset(path) for path in POLICIES}
    return {**defaults, **one.files} == {**defaults, **other.files}


def in_home(home: Path) -> PolicyVersion:
    """The files as they lie in the home now."""
    files, lost = _read(home, home)
    return PolicyVersion("the working tree", files, lost)


def in_folder(home: Path, folder: Path) -> PolicyVersion:
    """The files of a folder; what it has not is as it lies in the home.

    They lie in `policies/` and `views/` below it, or the policies in the folder itself.
    """
    own, lost = _read(folder, folder)
    if not own:
        own = {
            path: data
            for path, name in zip(POLICIES, NAMES, strict=True)
            if (data := _bytes_at(folder, name, _POLICY_BYTES)) is not None
        }
    if not own:
        raise InputError(
            f"{folder}: expected policies ({', '.join(NAMES)}) in it or in its policies/, "
            "found none"
        )
    return PolicyVersion(os.fspath(folder), {**_read(home, home)[0], **own}, lost)


def _read(root: Path, inside: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Policies and views below a folder; views that lead out of it are not read."""
    found = {path: _bytes_at(root, path, _POLICY_BYTES) for path in POLICIES}
    files = {path: data for path, data in found.items() if data is not None}
    views = sorted(path for path in (root / "views").rglob("*.md") if path.is_file())
    lost = [path.relative_to(root).as_posix() for path in views[_VIEWS_MAX:]]
    for path in views[:_VIEWS_MAX]:
        name = path.relative_to(root).as_posix()
        within = path.resolve().is_relative_to(inside.resolve())
        data = _bytes_at(root, name, _VIEW_BYTES) if within else None
        if data is None:
            lost.append(name)
        else:
            files[name] = data
    return files, tuple(lost)


def _bytes_at(root: Path, name: str, most: int) -> bytes | None:
    try:
        return nofollow.read_bytes(root / name, most, home=root)
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


# The program `git`, run so that it reads one repository and does nothing else.
#
# A list of words and no shell; nothing of the environment that leads elsewhere; no hooks, pagers,
# helpers or net; bounded time and output. Nothing is ever written.

SECONDS_MAX: Final = 60.0
_WORDS_BYTES: Final = 64 * 1024
# A repository's own configuration must neither run programs nor change what is read.
_PLAIN: Final = word_table("""
    --no-pager --no-replace-objects -c core.fsmonitor=false -c log.showRoot=true -c
    protocol.allow=never
""")


class GitError(NotFoundError):
    """git is not there, or will not answer; `words` are its own."""

    def __init__(self, message: str, words: str = "") -> None:
        super().__init__(message)
        self.words = words


def git_command(path: Path, *argv: str) -> list[str]:
    """The words that run git in a folder."""
    return ["git", "-C", os.fspath(path.absolute()), *_PLAIN, *argv]


def environment() -> dict[str, str]:
    """What git may know of the environment: nothing that names a repository or a program."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }


def reason(words: bytes) -> str:
    """Why git refused, from what it said."""
    said = words.decode("utf-8", "replace")
    if "dubious ownership" in said:
        return (
            "the repository belongs to another user, and git reads it only where its owner is "
            "trusted: `git config --global --add safe.directory PATH`"
        )
    if "not a git repository" in said:
        return "no git repository here or above"
    lines = [line for line in said.splitlines() if line.strip()]
    return f"git cannot read it: {(lines or ['it said nothing'])[-1][:300]}"


def git_output(path: Path, *argv: str, most: int) -> bytes:
    """What git prints, at most so many bytes; raises GitError."""
    with reading(path, *argv) as stream:
        data = stream.read(most + 1)
        if len(data) > most:
            raise GitError(f"{path}: git {argv[0]} has more to say than {most:,} bytes")
        return data


@contextmanager
def reading(path: Path, *argv: str, given: bytes = b"") -> Generator[IO[bytes]]:
    """Read what git prints as it comes; it is stopped after a minute.

    Who leaves early ends it. Raises GitError where it cannot be run, fails or takes too long.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as words:
        asked.write(given)
        asked.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of words, no shell
                git_command(path, *argv),
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=words,
                env=environment(),
            )
        except OSError as error:
            raise GitError(
                f"git: the program cannot be run ({error.strerror}); install git, or put it on PATH"
            ) from error
        assert process.stdout is not None
        late = Timer(SECONDS_MAX, process.kill)
        late.start()
        try:
            with process.stdout as stream:
                yield stream
                ended = not stream.read(1)
            code = process.wait() if ended else 0
        finally:
            stopped = late.finished.is_set()
            late.cancel()
            process.kill()
            process.wait()
            late.join()
        if stopped:
            raise GitError(f"{path}: git {argv[0]} took longer than {SECONDS_MAX:g} seconds")
        if code:
            words.seek(0)
            said = words.read(_WORDS_BYTES)
            raise GitError(f"{path}: {reason(said)}", said.decode("utf-8", "replace"))


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
        *_read_plane(home, now),
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


def _read_plane(
    home: Home, now: PolicyVersion
) -> tuple[tuple[Problem, ...], dict[str, bytes | None]]:
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
