"""Commits of a git repository: one event each, from the oldest to the newest.

An `observation` without a role: it was not said in a conversation, and its point is who
did it and why. The text is the commit's message and then the files it touched; the author
is the actor, the author's time the event's; the id is `git:<hash>:0`. Addresses are
left out, in trailers too. A merge has no files: its parents' commits have them. Neither
has the oldest commit of a shallow clone, where git would list the whole tree.

`data` holds tool (`git`), commit, branch (what was checked out when it was read; absent
on a detached HEAD), paths (the first 20, by their new names), files (how many) and merge.

The program `git` reads the repository, with nothing of the environment that could lead
it to another one, without hooks, helpers, pagers or the net, and writes nothing.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from memplane.errors import InputError
from memplane.explain.history import environment, git_command, reason
from memplane.importers.rows import Row, name
from memplane.intake import NAME_MAX
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence


SOURCE: Final = "git"
PATHS_MAX: Final = 20
PATH_BYTES_MAX: Final = 1000
MESSAGE_BYTES_MAX: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HASH: Final = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
# hash, parents, author's time, committer's time, author, message
_FIELDS: Final = ("%H", "%P", "%at", "%ct", "%an", "%B")
_ADDRESS: Final = re.compile(r"(?m)^([\w-]+-by:[^<\n]*?)[ \t]*<[^<>\n]*@[^<>\n]*>[ \t]*$")
_LOG: Final = (
    "log",
    "-O/dev/null",
    "--reverse",
    "--topo-order",
    "-z",
    "--name-status",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-show-signature",
    "--no-diff-merges",
    "--no-relative",
    "--no-mailmap",
    "--ignore-submodules=none",
    "--encoding=UTF-8",
    f"--format={'%x00'.join(_FIELDS)}%x00",
)


class GitCommit(NamedTuple):
    """One commit as git prints it. `changes` are the first of its `changed` files."""

    hash: str
    parents: int
    authored: int
    committed: int
    author: str
    message: str
    changes: tuple[tuple[str, str, str], ...]  # status letter, path, path before a rename
    changed: int


class GitRepository:
    """A repository, by any path inside it. Raises InputError where git finds none."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder", where="paths")
        if not path.is_dir():
            raise InputError(f"{path}: expected a folder with a git repository", where="paths")
        self.path = path
        *folder, shallow = self._say("rev-parse", "--git-common-dir", "--is-shallow-repository")
        # Where its commits are: the same for all work trees of a repository.
        self.folder = (path / "\n".join(folder)).resolve()
        self.boundary = self._boundary() if shallow == "true" else frozenset()
        self.head = next(iter(self._try("rev-parse", "--verify", "--quiet", "HEAD^{commit}")), "")
        self.branch = next(iter(self._try("symbolic-ref", "--quiet", "--short", "HEAD")), "")

    def known(self, hashes: Sequence[str]) -> list[str]:
        """Those of the hashes that are commits of this repository still."""
        asked = "".join(f"{each}\n" for each in hashes).encode()
        found = self._try("cat-file", "--batch-check", given=asked)
        return [line.split()[0] for line in found if line.split()[1:2] == ["commit"]]

    def count(self, *, without: Sequence[str] = (), newest: int | None = None) -> int:
        """How many commits `commits` would give."""
        if not self.head:
            return 0
        span = self._span(without, newest)
        return int(self._say("rev-list", "--count", *span)[0])

    def commits(
        self, *, without: Sequence[str] = (), newest: int | None = None
    ) -> Generator[GitCommit]:
        """Yield the commits up to HEAD that `without` does not reach, parents before children.

        Holds one of them at a time. Raises InputError where git cannot read on.
        """
        if not self.head:
            return
        # Renames are told by contents, which a partial clone would have to fetch.
        partial = self._try("config", "--get-regexp", r"^extensions\.partialclone$|\.promisor$")
        renames = "--no-renames" if partial else "-M"
        words = git_command(self.path, *_LOG, renames, *self._span(without, newest), "--")
        with closing(_output(words, str(self.path))) as chunks:
            yield from _commits(_tokens(chunks))

    def _span(self, without: Sequence[str], newest: int | None) -> list[str]:
        most = [] if newest is None else [f"--max-count={newest}"]
        return [*most, self.head, *(f"^{each}" for each in without)]

    def _boundary(self) -> frozenset[str]:
        file = self.folder / "shallow"
        return frozenset(file.read_text().split()) if file.is_file() else frozenset()

    def _say(self, *argv: str) -> list[str]:
        """What git answers, by lines; InputError with its words where it refuses."""
        done = _run(git_command(self.path, *argv))
        if done.returncode:
            raise _refusal(str(self.path), done.stderr)
        return _text(done.stdout).removesuffix("\n").split("\n")

    def _try(self, *argv: str, given: bytes = b"") -> list[str]:
        """What git answers; nothing where it says no."""
        done = _run(git_command(self.path, *argv), given)
        return [] if done.returncode else _text(done.stdout).splitlines()


def is_repository(path: Path) -> bool:
    """Whether the folder looks like a repository's own, with files or bare; runs nothing."""
    bare = all((path / part).exists() for part in ("HEAD", "objects", "refs"))
    return bare or (path / ".git").exists()


def git_version() -> str | None:
    """The version of the program, None if it is not installed."""
    try:
        done = _run(["git", "--version"])
    except InputError:
        return None
    return _text(done.stdout).strip().removeprefix("git version ") if not done.returncode else None


def row_of(commit: GitCommit, branch: str, boundary: frozenset[str] = frozenset()) -> Row | None:
    """Return the commit as an event; None where it says nothing at all."""
    changes, changed = (commit.changes, commit.changed)
    if commit.hash in boundary:
        changes, changed = (), 0
    message = _ADDRESS.sub(r"\1", commit.message).strip()
    text = "\n\n".join(part for part in (message, _files(changes, changed)) if part)
    if not text:
        return None
    data: Row = {"tool": SOURCE, "commit": commit.hash}
    if branch:
        data["branch"] = branch
    if changed:
        data |= {"paths": [path for _, path, _ in changes], "files": changed}
    if commit.parents > 1:
        data["merge"] = True
    row: Row = {"id": name(SOURCE, commit.hash, "0"), "kind": "observation", "text": text}
    if author := " ".join(commit.author.split()):
        row["actor"] = author if len(author) <= NAME_MAX and author.isprintable() else name(author)
    if ts := _time(commit.authored) or _time(commit.committed):
        row["ts"] = ts
    return {**row, "tags": [SOURCE], "data": data}


def _files(changes: tuple[tuple[str, str, str], ...], changed: int) -> str:
    if not changes:
        return ""
    shown = [
        f"{status} {before} -> {path}" if before else f"{status} {path}"
        for status, path, before in changes
    ]
    more = changed - len(changes)
    return f"Files: {', '.join(shown)}" + (f", and {more} others" if more else "")


def _time(seconds: int) -> str:
    """The moment, "" for one that no calendar has: a commit may claim any."""
    try:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat() if seconds else ""
    except OverflowError:
        return ""


def _commits(tokens: Iterator[bytes]) -> Iterator[GitCommit]:
    """Take git's fields apart: six of a commit, then one or two paths behind each status.

    No status looks like a hash and no field has a NUL, so nothing that a commit holds can
    pass for the next one. The last is given only once git has ended well.
    """
    header: list[bytes] = []
    changes: list[tuple[str, str, str]] = []
    changed = 0
    for token in tokens:
        word = token.lstrip(b"\n")
        if _HASH.fullmatch(word):
            if header:
                yield _commit(header, changes, changed)
            header, changes, changed = [word, *islice(tokens, len(_FIELDS) - 1)], [], 0
        elif word:
            renamed = word[:1] in b"RC"
            paths = list(islice(tokens, 2 if renamed else 1))
            changed += 1
            if len(changes) < PATHS_MAX and paths:
                before = _path(paths[0]) if renamed else ""
                changes.append((word[:1].decode("ascii", "replace"), _path(paths[-1]), before))
    if header:
        yield _commit(header, changes, changed)


def _commit(header: list[bytes], changes: list[tuple[str, str, str]], changed: int) -> GitCommit:
    hash_, parents, authored, committed, author, message = (_text(field) for field in header)
    return GitCommit(
        hash_,
        len(parents.split()),
        _number(authored),
        _number(committed),
        author,
        message,
        tuple(changes),
        changed,
    )


def _number(digits: str) -> int:
    return int(digits) if re.fullmatch(r"-?[0-9]{1,15}", digits) else 0


def _path(raw: bytes) -> str:
    """A path on one line, whatever it is made of."""
    return "".join(c if c.isprintable() else "�" for c in _text(raw[:PATH_BYTES_MAX]))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _tokens(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What stands between NULs, each cut at a bound."""
    kept = b""
    for chunk in chunks:
        first, *more = chunk.split(b"\0")
        kept = (kept + first)[:MESSAGE_BYTES_MAX]
        for part in more:
            yield kept
            kept = part


def _output(argv: list[str], what: str) -> Generator[bytes]:
    """What the program prints, as it comes; InputError at its end where it failed."""
    with tempfile.TemporaryFile() as words:
        process = _start(argv, words)
        assert process.stdout is not None
        try:
            with process.stdout as stream:
                while chunk := stream.read(_CHUNK):
                    yield chunk
            if process.wait():
                words.seek(0)
                raise _refusal(what, words.read(_CHUNK))
        finally:
            process.kill()
            process.wait()


def _run(argv: list[str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - a list of words, no shell
            argv, input=given, capture_output=True, check=False, env=environment()
        )
    except OSError as error:
        raise _missing(error) from error


def _start(argv: list[str], words: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - a list of words, no shell
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, env=environment()
        )
    except OSError as error:
        raise _missing(error) from error


def _missing(error: OSError) -> InputError:
    return InputError(
        f"git: the program cannot be run ({error.strerror}); install git, or put it on PATH",
        where="source",
    )


def _refusal(what: str, words: bytes) -> InputError:
    return InputError(f"{what}: {reason(words)}", where="paths")
