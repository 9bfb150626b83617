"""`memplane` alone: where the plane is, what is in it, what a block costs; and `memplane init`."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from memplane.cli.app import app, command
from memplane.cli.exits import BROKEN, FINE
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, data, put, say, say_aside, say_damage
from memplane.cli.trust import say_if_untrusted
from memplane.errors import InputError, PolicyError
from memplane.home import HOME_NAME, VERSION, find
from memplane.log import Restart
from memplane.plane import Plane
from memplane.plane.folder_checks import filesystem
from memplane.trust import printable
from memplane.wiring import init, open_plane

__all__ = ["initialise", "status"]

_NOTHING_YET = 'memplane record "what happened", or memplane import PATH'


@app.callback(
    invoke_without_command=True,
    epilog="\b\nExample:\n  memplane\n\nOptions stand before or behind the command.",
)
def status(
    context: typer.Context,
    *,
    home: Home = None,
    as_json: Json = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version of memplane.")
    ] = False,
) -> int | None:
    """A memory plane for LLM agents. Without a command: what is in it, and the next step."""
    if context.invoked_subcommand is not None:
        if show_version:
            raise InputError("expected --version alone", where="--version")
        return None
    if show_version:
        put({"version": VERSION}, f"memplane {VERSION}", as_json=as_json)
        return FINE
    with open_plane(home) as plane:
        say_damage(plane)
        found = _found(plane)
    say_aside(plane)
    put(found, _words(found), as_json=as_json)
    return BROKEN if found["mistakes"] or found["gaps"] or found["damage"] else FINE


@command("init", example="init")
def initialise(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="The folder; else --home, MEMPLANE_HOME, .memplane."),
    ] = None,
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a plane, with policies to edit. One that is there stays as it is.

    Says where another plane lies above, which was used here until now, and where the folder is not
    fit for one: on a network, or copied to other machines by a cloud's client.
    """
    if folder is not None and home is not None:
        raise InputError("expected DIR or --home, found both")
    path = folder or home or os.environ.get("MEMPLANE_HOME") or None
    folder_path = Path(path or HOME_NAME).expanduser().absolute()
    there = (folder_path / "plane.json").exists()
    above = None if there else find(str(folder_path.parent))
    with init(path) as plane:
        where = str(plane.home.absolute())
        place = filesystem(plane.home)
        unfit = None if place.status == "ok" else f"{place.found}: {place.remedy}"
        facts = {
            "home": where, "plane": plane.id, "made": not there, "above": above, "unfit": unfit,
        }  # fmt: skip
    say_if_untrusted(where)
    if above is not None:
        below = folder_path.parent if folder_path.name == HOME_NAME else folder_path
        say(
            f"{printable(above)} is a plane too: in {printable(str(below))} and below, commands "
            "that name none now use the new one, and elsewhere that one"
        )
    if unfit is not None:
        say(f"a poor place for a plane: {unfit}")
    if as_json:
        data(facts)
    else:
        print(f"{where}: a plane was here already" if there else f"{where}: a new plane")
        print(f"next: {_NOTHING_YET}")


def _found(plane: Plane) -> dict[str, Any]:
    head = plane.head()
    newest = plane.hotset().newest_sessions()
    session = newest[0].id if newest else None
    found: dict[str, Any] = {
        "home": str(plane.home.absolute()),
        "plane": plane.id,
        # Each segment begins with a line about itself.
        "events": max(0, head.seq - head.segment),
        "seq": head.seq,
        "session": session,
        "pack": None,
        "mistakes": [],
        "gaps": 0,
        "waiting": plane.waiting,
        "damage": plane.damage,
        "restarts": [restart._asdict() for restart in plane.restarts],
        "held": plane.held_files(),
        "read_only": plane.read_only,
    }
    try:
        block = plane.pack("", session=session)
    except PolicyError as error:
        found["mistakes"] = [str(problem) for problem in error.problems]
    else:
        spent_ns = sum(block.report["timings_ns"].values())
        found["pack"] = {
            "tokens": block.tokens,
            "budget": block.report["budget"],
            "us": spent_ns // 1000,
        }
        found["gaps"] = len(block.report["gaps"])
    due = plane.due()
    found["due"] = {"events": len(due.seqs), "bytes": due.bytes, "words": str(due)}
    found["next"] = _next(found)
    return found


def _next(found: dict[str, Any]) -> str:
    if found["mistakes"]:
        return "memplane policy check"
    if found["damage"]:
        return "memplane repair"
    if found["gaps"]:
        return "memplane verify"
    return 'memplane pack "your question"' if found["events"] else _NOTHING_YET


def _words(found: dict[str, Any]) -> str:
    cost = found["pack"]
    pack = (
        f"{cost['tokens']} of {cost['budget']} tokens, {cost['us'] / 1000:.1f} ms"
        if cost is not None
        else f"refused: {counted(len(found['mistakes']), 'mistake')} in the policies"
    )
    lines = {
        "home": found["home"] + (" (read-only)" if found["read_only"] else ""),
        "events": str(found["events"]),
        "session": found["session"] or "none yet",
        "pack": pack,
        "next": found["next"],
    }
    if found["gaps"]:
        lines["gaps"] = f"{counted(found['gaps'], 'place')} of the log that cannot be read"
    if found["damage"]:
        lines["log"] = found["damage"]
    elif found["restarts"]:
        lines["log"] = str(Restart(**found["restarts"][-1]))
    if found["held"]:
        names = ", ".join(map(printable, found["held"]))
        lines["trusted"] = f"as it was, not as it is now: {names}; memplane policy accept"
    if found["due"]["events"]:
        lines["keep"] = f"over by plane.yaml: {found['due']['words']}; memplane purge --keep"
    if found["waiting"]:
        lines["spool"] = f"{counted(found['waiting'], 'event')} waiting for the next writer"
    return "\n".join(f"{name:<8}  {value}" for name, value in lines.items())
