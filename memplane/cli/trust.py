"""`memplane trust` and `policy accept`: show a plane from elsewhere, then use it.

Text of such a plane is untrusted: secrets in it are masked, and characters that could control a
terminal are escaped.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson

from memplane import home as homes
from memplane.cli.commands import FINE, NO, command
from memplane.cli.options import Argument, Home, Json, Option
from memplane.cli.output import counted, print_answer, say
from memplane.clock import clock
from memplane.errors import (
    HomeError,
    InputError,
    MemplaneError,
    PolicyError,
    UntrustedError,
    WriteError,
)
from memplane.intake.redact import masked
from memplane.lazy import late
from memplane.trust import (
    TrustStore,
    is_own_plane,
    location_of,
    named_plane,
    printable,
    shell_word,
    upward,
)
from memplane.wiring import user_folder

if TYPE_CHECKING:
    from memplane import wiring
    from memplane.explain import history
    from memplane.explain.history import TrustSurvey
else:
    history = late("memplane.explain.history")
    wiring = late("memplane.wiring")

_LINES_SHOWN: Final = 200  # of a view
_COLUMNS: Final = 2_000  # of a line
_Yes = Annotated[bool, Option("--yes", help="Take it without asking.")]


@command("trust", example="trust --list")
def trust(
    paths: Annotated[
        list[str] | None,
        Argument(metavar="[PATH]...", help="Planes; else the nearest one here or above."),
    ] = None,
    *,
    found: Annotated[
        bool, Option("--found", help="The planes that were met so far and not trusted.")
    ] = False,
    listed: Annotated[bool, Option("--list", help="List the planes you trust.")] = False,
    revoke: Annotated[bool, Option("--revoke", help="Trust them no longer.")] = False,
    yes: _Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Show who made a plane and what its policies and views say; then, if you agree, trust it.

    A plane that hooks, servers and commands find by looking upward is used only if you trust it;
    `init` and `restore` trust what they make. Trusting drops projections/ and index/, which are
    made again, and closes the files to others. Later changes of views, privacy.yaml, channels.yaml
    and the hooks part of plane.yaml count when you have taken them here, or with `memplane policy
    accept`. A plane that is named with --home or MEMPLANE_HOME needs no trust.
    """
    if found + listed + revoke > 1:
        raise InputError("expected one of --found, --list and --revoke")
    if listed:
        return _list(as_json=as_json)
    chosen = [named_plane(path) for path in paths or []] + (
        [] if home is None else [named_plane(home)]
    )
    if revoke:
        return _revoke(chosen or [_nearest()], as_json=as_json)
    if not chosen:
        chosen = _met() if found else [_nearest()]
    surveys = [_survey(path) for path in chosen]
    if found and not surveys:
        say("no plane was met that you do not trust")
    taken = [_shown_and_taken(one, yes=yes, as_json=as_json) for one in surveys]
    if as_json:
        print_answer(
            [{**_facts(one), "trusted": now} for one, now in zip(surveys, taken, strict=True)],
            "",
            as_json=True,
        )
    return FINE if all(taken) else NO


@command("accept", example="policy accept --yes", group="policy")
def accept(*, yes: _Yes = False, home: Home = None, as_json: Json = False) -> int:
    """Show what differs from the policies and views that you trusted, and take it.

    For a plane that is found by looking upward: its views, privacy.yaml, channels.yaml and the
    hooks part of plane.yaml count as you trusted them until then.
    """
    found = _survey(wiring.find_plane(home).folder)
    taken = True
    if found.own:
        say(f"{found.location}: is your own plane; its policies and views count as they are")
    elif found.kept is None:
        say(
            f"{printable(found.location)}: is used as it is where it is named; where it is found "
            f"it is not trusted: `memplane trust {shell_word(found.location)}`"
        )
    elif found.mistakes:
        raise PolicyError(found.mistakes)  # nothing would be packed under them
    else:
        taken = _shown_and_taken(found, yes=yes, as_json=as_json)
    if as_json:
        changed = [one._asdict() for one in found.changes]
        print_answer(
            {"home": found.location, "changes": changed, "accepted": taken}, "", as_json=True
        )
    return FINE if taken else NO


def ask_once(error: UntrustedError) -> bool:
    """Show a plane that was met, on a terminal, and ask: once. True where it is trusted now.

    Elsewhere nothing is asked. The plane is noted, for `memplane trust --found`.
    """
    store = TrustStore(os.environ)
    asks = _asks() and not error.fault and not store.was_asked(error.path)
    try:
        store.meet(error.path, asked=asks)
    except WriteError:
        return False  # to ask each time would be worse than not to ask
    if not asks:
        return False
    say(
        f"{printable(error.path)} is a plane that you have not trusted: made by an earlier "
        "memplane, or from elsewhere. This is asked once"
    )
    try:
        return _shown_and_taken(_survey(error.path), yes=False, as_json=False, out=sys.stderr)
    except MemplaneError as fault:
        say(masked(str(fault)))
        return False


def say_if_untrusted(path: str) -> None:
    """Say of a plane that was made around files that were there that it is not trusted."""
    found = upward(os.environ, path, user_folder())
    if found.passed is not None and not found.fault:
        say(
            f"{printable(path)}: files were there before the plane, so it is not used where it is "
            f"found by looking upward until you trust it: `memplane trust {shell_word(path)}` "
            "shows what its files say"
        )


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _nearest() -> str:
    if given := os.environ.get("MEMPLANE_HOME"):
        return named_plane(given)
    here = os.getcwd()  # noqa: PTH109 - a text is asked for
    found = homes.nearest_home(here)
    if found is None:
        raise HomeError(f"{here}: no plane here or above; name one: `memplane trust PATH`")
    return found


def _met() -> list[str]:
    store = TrustStore(os.environ)
    paths = [one.location for one in store.met()]
    with suppress(HomeError):
        nearest = location_of(_nearest())
        if nearest not in paths:
            paths.append(nearest)
    return [path for path in paths if not _is_trusted(path, store)]


def _is_trusted(path: str, store: TrustStore) -> bool:
    return is_own_plane(path, user_folder()) or store.get(path)[0] is not None


def _survey(path: str) -> TrustSurvey:

    return history.survey_plane(
        path, os.environ, clock=clock, user=user_folder(), loads=orjson.loads
    )


def _shown_and_taken(found: TrustSurvey, *, yes: bool, as_json: bool, out: Any = None) -> bool:
    """Print what the plane is, ask unless `yes`, and trust it; True where it is trusted then."""
    if not as_json:
        print(_words(found), file=out or sys.stdout, flush=True)
    if found.own or not found.differs:
        return True
    if not yes:
        if as_json or not _asks():
            say(f"{printable(found.location)}: nothing was changed; --yes takes it")
            return False
        sys.stderr.write("Trust this? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("not trusted; nothing was changed")
            return False
    history.trust_plane(found, os.environ, clock())
    if not as_json:
        say(f"{printable(found.location)}: trusted")
    return True


def _list(*, as_json: bool) -> int:
    store = TrustStore(os.environ)
    rows: list[dict[str, Any]] = [
        {
            "path": one.location,
            "plane": one.plane,
            "trusted": one.at,
            "there": os.path.isfile(os.path.join(one.location, "plane.json")),  # noqa: PTH113, PTH118
        }
        for one in store.records()
    ]
    lines = [
        f"{row['trusted'][:10]}  {printable(str(row['path']))}{'' if row['there'] else '  (gone)'}"
        for row in rows
    ]
    print_answer(rows, "\n".join(lines), as_json=as_json)
    for fault in store.faults():
        say(f"cannot be used: {fault}")
    return FINE


def _revoke(paths: list[str], *, as_json: bool) -> int:
    store = TrustStore(os.environ)
    gone = [path for path in map(location_of, paths) if store.drop(path)]
    kept = [path for path in map(location_of, paths) if path not in gone]
    words = "\n".join(f"{printable(path)}: trusted no longer" for path in gone)
    print_answer({"revoked": gone}, words, as_json=as_json)
    for path in kept:
        say(f"{printable(path)}: was not trusted")
    return NO if kept else FINE


def _facts(found: TrustSurvey) -> dict[str, Any]:
    """The same as plain JSON values, secrets masked."""
    changed = [{**one._asdict(), "words": masked(one.words)} for one in found.changes]
    for one in changed:
        del one["before"], one["after"]
    return {
        "path": found.location,
        "plane": found.home.plane_id,
        "created": found.created,
        "memplane": found.memplane,
        "owner": found.owner,
        "own": found.own,
        "tracked": found.tracked,
        "events": found.events,
        "first": found.first or None,
        "last": found.last or None,
        "was": None if found.kept is None else found.kept.at,
        "changes": changed,
        "views": {name: masked(text) for name, text in found.views.items()},
        "lost": list(found.lost),
    }


def _words(found: TrustSurvey) -> str:
    if found.own:
        return f"{printable(found.location)}: your own plane, which needs no trust"
    if found.kept is not None and not found.differs:
        return f"{printable(found.location)}: trusted since {found.kept.at[:10]}; nothing changed"
    git = {None: "in no repository", True: "its log is in git", False: "its log is not in git"}
    rows = {
        "plane": f"{printable(found.location)}",
        "id": printable(found.home.plane_id),
        "made": printable(f"{found.created[:19]} by memplane {found.memplane}"),
        "owner": f"user id {found.owner}, {git[found.tracked]}",
        "events": "not counted: the log has more than 1 GB"
        if found.events is None
        else f"{found.events}"
        + (f", {found.first[:10]} to {found.last[:10]}" if found.events else ""),
    }
    if found.kept is not None:
        rows["trusted"] = f"since {found.kept.at[:19]}; what follows is otherwise now"
    lines = [f"{name:<8}  {value}" for name, value in rows.items()]
    lines += ["", "policies" if found.kept is None else "changed"]
    lines += _changes(found) or ["  as memplane ships them"]
    for name, text in found.views.items():
        lines += ["", f"{printable(name)}, as it would be shown to agents", *_quoted(text)]
    lines += [f"{printable(name)}: cannot be read" for name in found.lost]
    return "\n".join(lines)


def _changes(found: TrustSurvey) -> list[str]:
    lines = []
    for one in found.changes:
        said = masked(str(one)).split("\n")
        lines += [f"  {printable(line[:_COLUMNS])}" for line in said]
        if one.file.startswith("views/"):
            for mark, some in (("-", one.before or []), ("+", one.after or [])):
                lines += _quoted("\n".join(some), mark)
    return lines


def _quoted(text: str, mark: str = "|") -> list[str]:
    """Lines of a stranger's text, each behind a mark."""
    lines = masked(text).split("\n")
    shown = [f"  {mark} {printable(line[:_COLUMNS])}" for line in lines[:_LINES_SHOWN]]
    if len(lines) > _LINES_SHOWN:
        shown.append(f"  {mark} AND {counted(len(lines) - _LINES_SHOWN, 'MORE LINE')}: read them")
    return shown
