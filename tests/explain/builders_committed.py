"""A git repository with a configuration of its own and no other."""

import os
import subprocess
from pathlib import Path

ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class Committed:
    """A folder under git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        for name, value in (
            ("user.name", "Ann Example"), ("user.email", "ann@example.com"),
            ("commit.gpgsign", "false"), ("core.autocrlf", "false"),
        ):  # fmt: skip
            self.git("config", name, value)

    def git(self, *argv: str) -> str:
        done = subprocess.run(
            ["git", "-C", self.folder, *argv], env={**os.environ, **ALONE}, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        """Commit all there is; return the hash."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


def swap(path: Path, old: str, new: str) -> None:
    """Replace what stands in a file, which must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
