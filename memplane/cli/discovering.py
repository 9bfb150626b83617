"""`memplane import --discover`: what agents on this machine have kept, and which of it to take."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from memplane.cli.exits import FINE, NO
from memplane.cli.output import counted, one_line, put, say
from memplane.errors import InputError
from memplane.importers.discover import FILES_MAX, Discovered, discover

__all__ = ["choose"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def choose(*, yes: bool, dry_run: bool, as_json: bool) -> list[Discovered] | int:
    """What is to be imported, or the exit code where nothing is.

    What is of the project here, with `yes`; what a person chooses, where a terminal asks. Else it
    only says what there is, and the answer is no, unless a dry run was all that was wanted.
    """
    discovery = discover(Path.cwd(), Path.home(), os.environ)
    found = discovery.found
    if not discovery.complete:
        say(f"looked at {FILES_MAX} files and stopped; there may be more: name folders yourself")
    here = [one for one in found if one.here]
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    if yes and not dry_run:
        if not here:
            say("nothing is of this project; without --yes, --discover says what else there is")
            return NO
        return here
    put([_as_json(one) for one in found], _table(found), as_json=as_json)
    if not found or dry_run:
        return FINE if dry_run else NO
    if not asks:
        hint = "--yes takes what is of this project" if here else "nothing is of this project"
        say(f"nothing was imported; {hint}")
        return NO
    return _asked(found, input) or NO


def _asked(found: list[Discovered], ask: Callable[[str], str]) -> list[Discovered]:
    """What a person chooses; nothing where that is the answer."""
    here = [number for number, one in enumerate(found, 1) if one.here]
    usual = ",".join(map(str, here)) or "none"
    while True:
        print(
            f"Import which? numbers, all or none [{usual}]: ", end="", file=sys.stderr, flush=True
        )
        try:
            answer = ask("").strip() or usual
        except EOFError:
            return []
        if answer == "none":
            return []
        try:
            return found if answer == "all" else _numbered(found, answer)
        except InputError as error:
            say(str(error))


def _numbered(found: list[Discovered], answer: str) -> list[Discovered]:
    numbers = answer.replace(",", " ").split()
    if not all(one.isdecimal() and 1 <= int(one[:9]) <= len(found) for one in numbers):
        raise InputError(f"expected numbers from 1 to {len(found)}, all or none; found {answer!r}")
    return [found[number - 1] for number in dict.fromkeys(map(int, numbers))]


def _table(found: list[Discovered]) -> str:
    """What there is, two lines each: what, of whom, how much, from when to when; the command."""
    lines: list[str] = []
    for number, one in enumerate(found, 1):
        days = one.first if one.first == one.last else f"{one.first} to {one.last}"
        here = ", of this project" if one.here else ""
        files = counted(one.files, "file")
        lines.append(f"{number:>3}  {one.what}{here}: {files}, {_size(one.bytes)}, {days}")
        lines.append(f"     {one_line(one.command or 'memplane import --discover --yes', 400)}")
    return "\n".join(lines) or "no agent has kept anything here that memplane imports"


def _size(size: int) -> str:
    unit = 0
    while size >= 10_000 and unit < len(_UNITS) - 1:
        size, unit = size // 1000, unit + 1
    return f"{size} {_UNITS[unit]}"


def _as_json(one: Discovered) -> dict[str, object]:
    return {**one._asdict(), "paths": list(one.paths)}
