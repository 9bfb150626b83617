"""The program `git`, run so that it reads one repository and does nothing else.

A list of words and no shell; nothing of the environment that leads elsewhere; no hooks, pagers,
helpers or net; bounded time and output. Nothing is ever written.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO, Final

from memplane.errors import NotFoundError

__all__ = ["GitError", "answer", "command", "environment", "reading", "reason"]

SECONDS_MAX: Final = 60.0
_WORDS_BYTES: Final = 64 * 1024
# A repository's own configuration must neither run programs nor change what is read.
_PLAIN: Final = (
    "--no-pager", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "log.showRoot=true",
    "-c", "protocol.allow=never",
)  # fmt: skip


class GitError(NotFoundError):
    """git is not there, or will not answer; `words` are its own."""

    def __init__(self, message: str, words: str = "") -> None:
        super().__init__(message)
        self.words = words


def command(path: Path, *argv: str) -> list[str]:
    """The words that run git in a folder."""
    return ["git", "-C", os.fspath(path.absolute()), *_PLAIN, *argv]


def environment() -> dict[str, str]:
    """What git may know of the environment: nothing that names a repository or a program."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {
        **kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }  # fmt: skip


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


def answer(path: Path, *argv: str, most: int) -> bytes:
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
                command(path, *argv), stdin=asked, stdout=subprocess.PIPE, stderr=words,
                env=environment(),
            )  # fmt: skip
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
