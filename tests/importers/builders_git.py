"""Repositories that a test writes with git itself, and their import."""

import json
import os
import subprocess

from memplane.importers import import_paths

ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Ada Lovelace",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Bot",
    "GIT_COMMITTER_EMAIL": "bot@example.org",
}


class Made:
    """A repository that a test writes."""

    def __init__(self, path, *options):
        self.path, self.tick = path, 1_770_000_000
        path.mkdir(parents=True, exist_ok=True)
        self("init", "-q", "-b", "main", *options)

    def __call__(self, *argv, stdin=b"", **environment):
        done = subprocess.run(
            ["git", "-C", str(self.path), *argv], input=stdin, capture_output=True, check=False,
            env={**ENVIRONMENT, "GIT_AUTHOR_DATE": f"{self.tick} +0200",
                 "GIT_COMMITTER_DATE": f"{self.tick + 5} +0000", **environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, message, files=None, *options, **environment):
        self.tick += 60
        for name, text in (files or {}).items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self("add", "-A")
        given = message if isinstance(message, bytes) else message.encode()
        self(
            "commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-F",
            "-", *options, stdin=given, **environment,
        )  # fmt: skip
        return self("rev-parse", "HEAD")


def run(plane, *paths, **options):
    report = import_paths(plane, "git", paths, **options)
    assert report.items == (
        report.events + report.repeated + report.refusals + sum(report.skipped.values())
    )
    json.dumps(report.as_json())
    return report


def commits(plane):
    return list(plane.events(kind="observation"))
