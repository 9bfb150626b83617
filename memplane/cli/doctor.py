"""`memplane doctor`: is this plane fit to be used, and what is missing around it."""

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import orjson

from memplane import nofollow
from memplane.cli.app import command
from memplane.cli.exits import BROKEN, FINE, NO
from memplane.cli.options import Home, Json
from memplane.cli.output import one_line, put
from memplane.cli.trust import ask_once
from memplane.errors import MemplaneError, UntrustedError
from memplane.home import VERSION
from memplane.importers import git
from memplane.intake.redact import masked
from memplane.plane.doctor import Check, examine
from memplane.policy import variables
from memplane.trust import Store
from memplane.wiring import clock, find, find_home, make_counter, open_found

__all__ = ["doctor"]

_NEEDED: Final = ("orjson", "PyYAML", "jsonschema", "typer")
# Extra, the package that it brings, what that gives.
_EXTRAS: Final = (("tokens", "rs-bpe", "the counters o200k and cl100k, and faster counting"),)
_UNUSABLE: Final = ("home", "log")


@command("doctor", example="doctor")
def doctor(*, home: Home = None, as_json: Json = False) -> int:
    """Check the plane and its surroundings; write nothing. Exit 1 on a failure, 3 if unusable."""
    checks = [*_plane(home, asks=not as_json), *_trusts(), *_surroundings()]
    failed = [check.name for check in checks if check.status == "fail"]
    put(
        {"ok": not failed, "checks": [check._asdict() for check in checks]},
        "\n".join(map(_words, checks)),
        as_json=as_json,
    )
    if not failed:
        return FINE
    return BROKEN if any(name in _UNUSABLE for name in failed) else NO


def _plane(home: str | None, *, asks: bool) -> list[Check]:
    trusted = None
    try:
        path = find_home(home)
        if path.is_dir():
            with suppress(MemplaneError):  # a check says what is wrong with it
                trusted = find(home).trusted
    except UntrustedError as error:
        if asks and ask_once(error):
            return _plane(home, asks=False)
        return [Check("home", "fail", error.found, error.remedy)]
    except MemplaneError as error:
        return [Check("home", "fail", str(error))]
    if not path.is_dir():
        return [Check("home", "fail", f"{path}: no plane here", "make one with `memplane init`")]
    checks = examine(
        path, clock=clock, make_counter=make_counter, loads=orjson.loads,
        overrides=variables(os.environ), trusted=trusted,
    )  # fmt: skip
    return [*checks, *_hooks(path / "hooks.log"), *_keep(home)]


def _keep(home: str | None) -> Iterator[Check]:
    """What plane.yaml lets go of, before anybody erases it."""
    with suppress(MemplaneError), open_found(find(home), read_only=True) as plane:
        due = plane.due()
        if due.seqs:
            remedy = "`memplane purge --keep` shows them, and erases them with --yes"
            yield Check("keep", "warn", f"over by plane.yaml: {due}", remedy)


def _trusts() -> Iterator[Check]:
    """What of the store of trusts cannot be used."""
    for fault in Store(os.environ).faults():
        yield Check("trusts", "warn", fault, "trust that plane again: `memplane trust PATH`")


def _hooks(log: Path) -> Iterator[Check]:
    """What went wrong in hooks, who tell nobody else."""
    try:
        lines = nofollow.read(log).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        yield Check("hooks", "warn", f"{log}: cannot be read: {error.strerror}")
        return
    if lines:
        count = "1 fault" if len(lines) == 1 else f"{len(lines)} faults, the last"
        remedy = f"all of them are in {log}; delete it when that is mended"
        yield Check("hooks", "warn", masked(f"{count}: {lines[-1]}"), remedy)


def _surroundings() -> Iterator[Check]:
    lost = [name for name in _NEEDED if _version(name) is None]
    found = {"memplane": VERSION, "python": platform.python_version()}
    try:
        import sqlite3  # noqa: PLC0415 - a plane is used without it, too
    except ImportError:
        found["sqlite"] = "missing"
    else:
        found["sqlite"] = sqlite3.sqlite_version
    found["system"] = platform.system()
    found |= {name: _version(name) or "missing" for name in _NEEDED}
    words = ", ".join(f"{name} {number}" for name, number in found.items())
    yield Check(
        "versions", "fail" if lost else "ok", words, f"pip install {' '.join(lost)}" if lost else ""
    )
    for extra, package, gives in _EXTRAS:
        number = _version(package)
        there = f"{package} {number}" if number else f"not installed; it gives {gives}"
        hint = "" if number else f"pip install 'memplane[{extra}]', where that is wanted"
        yield Check(f"extra {extra}", "ok", there, hint)
    number = git.version()
    if number is None:
        yield Check("git", "warn", "not found", "`memplane import git` needs it: install git")
    else:
        yield Check("git", "ok", number)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _words(check: Check) -> str:
    line = f"{check.status:<5} {check.name:<13} {one_line(check.found, 200)}"
    return f"{line}\n{'':<20}{one_line(check.remedy, 200)}" if check.remedy else line
