"""`memplane policy`: every mistake in the policies, and every value with where it comes from."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memplane.cli.app import command, policy_app
from memplane.cli.exits import FINE, NO
from memplane.cli.options import Home, Json
from memplane.cli.output import put, say
from memplane.errors import InputError
from memplane.home import asset
from memplane.policy import NAMES
from memplane.policy.effective import Row
from memplane.policy.mistakes import meant
from memplane.wiring import open_plane

__all__ = ["check", "show"]

_STEMS = [name.removesuffix(".yaml") for name in NAMES]


@command("check", example="policy check", group=policy_app)
def check(*, home: Home = None, as_json: Json = False) -> int:
    """List every mistake in the policies; exit 1 if there is one.

    Most stop packs. A view that is not there, a channel without a rule, odd shares do not.
    """
    with open_plane(home) as plane:
        found = plane.check_policies()
        hashes = {} if found.mistakes else dict(sorted(plane.policies.hashes.items()))
        unwritten = [name for name in NAMES if not (plane.home / "policies" / name).exists()]
        old = _other_schemas(plane.home)
    problems = [*found.mistakes, *found.doubts]
    answer: dict[str, Any] = {
        "ok": not problems,
        "packs": not found.mistakes,
        "problems": [problem._asdict() for problem in problems],
    }
    if problems:
        put(answer, "\n".join(map(str, problems)), as_json=as_json)
        if not found.mistakes:
            say("packs go on under these policies; say what was meant, so that they do it")
        return NO
    words = f"{len(NAMES)} policies, no mistakes"
    if unwritten:
        words += f"; not there, so memplane's own defaults: {', '.join(unwritten)}"
    if found.unwritten:
        words += f"; views not written yet: {', '.join(found.unwritten)}"
    put({**answer, "hashes": hashes, "views_unwritten": found.unwritten}, words, as_json=as_json)
    if old:
        say(f"editors check by other schemas: delete {', '.join(old)} and run `memplane init`")
    return FINE


@command("show", example="policy show budgets", group=policy_app)
def show(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="One of: budgets privacy channels scoring plane."),
    ] = None,
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print every value in force, and whether a file, a variable or a default says so.

    MEMPLANE_<FILE>__<KEY> stands before a file: MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS=6000.
    """
    stem = None if file is None else file.removeprefix("policies/").removesuffix(".yaml")
    if stem is not None and stem not in _STEMS:
        known = ", ".join(_STEMS)
        raise InputError(f"expected one of {known}, found {file!r}{meant(stem, _STEMS)}")
    with open_plane(home) as plane:
        found = plane.policy_values()
    rows = [row for row in found if stem is None or row.file == f"{stem}.yaml"]
    put([_json(row) for row in rows], "\n".join(map(str, rows)), as_json=as_json)


def _other_schemas(home: Path) -> list[str]:
    """The schemas of the home that are not this memplane's: of an older one, or changed by hand."""
    names = [f"schemas/{stem}.schema.json" for stem in _STEMS]
    there = [name for name in names if (home / name).is_file()]
    return [name for name in there if (home / name).read_bytes() != asset(name)]


def _json(row: Row) -> dict[str, Any]:
    return {**row._asdict(), "file": f"policies/{row.file}"}
