"""A shared folder that is a git repository: fetch, rebase the own commits, commit, push.

The folder is the top of a clone of its own. git runs as a list of words without a shell; hooks,
signatures, editors, pagers and file system monitors are off, and transports that run programs of an
address (`ext::`) are refused. A clone's own configuration can name programs in many ways, and it
may come with an archive: one that sets anything but where its remote is and how files are stored is
refused by the name of the key. What the user's own configuration says of credentials and SSH holds.

Attributes that a commit brings are put out of force for device files (`info/attributes`): no
conversion of line ends, no filter, no merge of two versions touches their bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import Final

from memplane import nofollow
from memplane.errors import MemplaneError
from memplane.lazy import word_table
from memplane.shared.device_file import file_of
from memplane.trust import printable

_TRIES: Final = 5  # of a push, when others pushed meanwhile
_SECONDS_MAX: Final = 300
_WORDS_BYTES: Final = 64 * 1024
_SAFE: Final = word_table("""
    --no-pager --no-replace-objects --no-optional-locks -c core.hooksPath=/dev/null -c
    core.fsmonitor=false -c core.editor=true -c sequence.editor=true -c commit.gpgSign=false -c
    tag.gpgSign=false -c push.gpgSign=false -c gc.auto=0 -c maintenance.auto=false -c
    protocol.ext.allow=never -c submodule.recurse=false -c fetch.recurseSubmodules=false -c
    push.recurseSubmodules=no -c core.autocrlf=false -c core.attributesFile=/dev/null -c
    rebase.autoStash=false -c rebase.updateRefs=false -c merge.autoStash=false -c
    advice.detachedHead=false
""")
# Of the environment: nothing that names another repository. How to reach a server is the user's.
_KEPT: Final = frozenset(("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_ASKPASS"))
_PLAIN_KEYS: Final = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|sharedrepository|eol|autocrlf)"
    r"|extensions\.(objectformat|refstorage)"
    r"|remote\..*\.(url|pushurl|fetch|tagopt|prune)"
    r"|branch\..*\.(remote|merge|rebase|description)"
    r"|user\.(name|email)|init\.defaultbranch|pull\.(rebase|ff)|push\.(default|autosetupremote)"
)
_ATTRIBUTES: Final = "*.jsonl -text -filter -ident -working-tree-encoding -merge -diff"


class CloneError(MemplaneError):
    """git is not there, refuses, or would run what a stranger's repository names."""


class Clone:
    """The clone whose top a shared folder is. Raises CloneError for any other folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if not os.path.lexists(f"{folder}/.git"):
            raise CloneError(
                f"{printable(folder)}: no git repository begins here; clone one for this folder "
                "alone, or sync without --git"
            )
        settings = self._settings()
        top, attributes = self._said(
            "rev-parse", "--show-toplevel", "--git-path", "info/attributes"
        ).split("\n")
        if os.path.realpath(top) != os.path.realpath(folder):
            raise CloneError(f"{printable(folder)}: lies in a repository, and is not its top")
        self.branch = self._tried("symbolic-ref", "--quiet", "--short", "HEAD")
        if not self.branch:
            raise CloneError(f"{printable(folder)}: no branch is checked out (a detached HEAD)")
        self.remote = settings.get(f"branch.{self.branch}.remote", "origin")
        if self.remote.startswith("-") or f"remote.{self.remote}.url" not in settings:
            raise CloneError(
                f"{printable(folder)}: the branch {printable(self.branch)} has no remote; "
                "`git remote add origin ADDRESS` says where the others are"
            )
        self._put_attributes(os.path.join(folder, attributes))  # noqa: PTH118 - a text

    def _settings(self) -> dict[str, str]:
        """The clone's own configuration; raises for one that sets more than a plain one's."""
        # Reading it runs nothing; what it includes from elsewhere is not read, but refused.
        listed = self._run("config", "--local", "--no-includes", "--null", "--list")
        found = dict(one.partition("\n")[::2] for one in listed.split("\0") if one)
        for key in found:
            if _PLAIN_KEYS.fullmatch(key) is None:
                raise CloneError(
                    f"{printable(self.folder)}: its own configuration sets {printable(key)[:100]}, "
                    "which git might run or follow; nothing was done; take it out of .git/config, "
                    "or sync without --git and run git yourself"
                )
        return found

    def _put_attributes(self, path: str) -> None:
        try:
            nofollow.make_folder(os.path.dirname(path))  # noqa: PTH120 - a text
            fd = nofollow.open_file(path, os.O_RDWR | os.O_CREAT)
            with os.fdopen(fd, "r+b") as file:
                said = file.read(_WORDS_BYTES)
                if _ATTRIBUTES.encode() not in said.splitlines()[-1:]:
                    file.write(b"\n" * (not said.endswith(b"\n")) + f"{_ATTRIBUTES}\n".encode())
        except OSError as error:
            raise CloneError(f"{printable(path)}: {error.strerror}") from error

    def pull(self, device: str | None) -> None:
        """Bring what the others have pushed; own commits are put behind it."""
        if device is not None:
            self._commit(device, device)  # what an interrupted sync left
        tip = f"refs/remotes/{self.remote}/{self.branch}"
        self._run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", self.remote)
        pushed, own = self._commit_at(tip), self._commit_at("HEAD")
        if not pushed or pushed == own:
            return
        if not own or self._is_in("HEAD", tip):
            self._run("merge", "--quiet", "--ff-only", "--no-verify-signatures", tip)
        elif not self._is_in(tip, "HEAD"):
            self._rebase(tip)

    def publish(self, device: str, name: str) -> str:
        """Commit the own file and push it; what was done, in a word."""
        self._commit(device, name)
        tip = f"refs/remotes/{self.remote}/{self.branch}"
        own = self._commit_at("HEAD")
        if not own or own == self._commit_at(tip):
            return "nothing to push"
        for left in range(_TRIES - 1, -1, -1):
            try:
                target = f"HEAD:refs/heads/{self.branch}"
                self._run("push", "--quiet", "--no-verify", "--", self.remote, target)
            except CloneError as error:
                if not left or not _was_overtaken(str(error)):
                    raise
                self.pull(None)
                continue
            return "pushed"
        raise CloneError(f"{printable(self.folder)}: others push all the time; sync again")

    def _commit(self, device: str, name: str) -> None:
        file = file_of(device)
        if not nofollow.is_file(f"{self.folder}/{file}"):
            return
        if not self._run("status", "--porcelain", "--ignored", "--", file).strip():
            return
        self._run("add", "--force", "--", file)
        identity = ("-c", f"user.name={name}", "-c", f"user.email={device}@memplane.invalid")
        self._run(
            "commit",
            "--quiet",
            "--no-verify",
            "-m",
            f"memplane: {name}",
            "--",
            file,
            before=identity,
        )

    def _rebase(self, tip: str) -> None:
        identity = ("-c", "user.name=memplane", "-c", "user.email=sync@memplane.invalid")
        try:
            self._run("rebase", "--quiet", "--no-verify", tip, before=identity)
        except CloneError:
            self._tried("rebase", "--abort")
            raise

    def _is_in(self, one: str, other: str) -> bool:
        return self._code("merge-base", "--is-ancestor", one, other) == 0

    def _commit_at(self, ref: str) -> str:
        return self._tried("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")

    def _said(self, *argv: str) -> str:
        return self._run(*argv).strip("\n")

    def _tried(self, *argv: str) -> str:
        """What git answers; nothing where it says no."""
        try:
            return self._run(*argv).strip("\n")
        except CloneError:
            return ""

    def _code(self, *argv: str) -> int:
        try:
            self._run(*argv)
        except CloneError:
            return 1
        return 0

    def _run(self, *argv: str, before: tuple[str, ...] = ()) -> str:
        """What git prints, at most 64 KiB; raises CloneError with its last words."""
        words = ["git", "-C", self.folder, *_SAFE, *before, *argv]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            try:
                code = subprocess.run(  # noqa: S603 - a list of words, no shell
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=said,
                    check=False,
                    env=_environment(),
                    timeout=_SECONDS_MAX,
                ).returncode
            except OSError as error:
                raise CloneError(
                    f"git: the program cannot be run ({error.strerror}); install git"
                ) from error
            except subprocess.TimeoutExpired as error:
                raise CloneError(
                    f"git {argv[0]} took longer than {_SECONDS_MAX} seconds and was ended"
                ) from error
            for file in (out, said):
                file.seek(0)
            if code:
                raise CloneError(
                    f"{printable(self.folder)}: git {argv[0]}: {_reason(said.read(_WORDS_BYTES))}"
                )
            return out.read(_WORDS_BYTES).decode("utf-8", "replace")


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_MERGE_AUTOEDIT": "no"}


def _was_overtaken(words: str) -> bool:
    """Whether a push was refused because others had pushed."""
    return any(
        one in words
        for one in (
            "[rejected]",
            "fetch first",
            "non-fast-forward",
            "cannot lock ref",
            "failed to update ref",
            "remote rejected",
        )
    )


def _reason(words: bytes) -> str:
    """Why git refused, in its own last words, inert for a terminal."""
    said = words.decode("utf-8", "replace")
    lines = [
        line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")
    ]
    return printable("; ".join(lines[-3:]) or "it failed, and said nothing")[:500]
