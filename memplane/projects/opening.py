"""The user's own plane, opened for the project that somebody works in, or for one that is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.errors import InputError, NotFoundError
from memplane.projects.entering import Entered, enter_folder
from memplane.projects.registry import PREFIX, UNKNOWN, KnownProjects, Registry, shown_names

if TYPE_CHECKING:
    from memplane.home import Home

__all__ = ["EVERY", "cache_id", "for_folder", "for_name", "project_named", "session_project"]

EVERY: Final = "*"  # in the place of a project's name: all of them
_LISTED: Final = 12


def for_folder(home: Home, folder: str, *, kept: str = "") -> tuple[Home, Entered | None]:
    """The plane as whoever works in a folder sees it, and where that is.

    None, and the plane as it is, for one that is not parted, and for no folder. `kept`: where the
    client has its transcripts of that folder.
    """
    if not home.parted or not folder:
        return home, None
    entered = enter_folder(_known(home), folder, kept=kept)
    place = entered.place
    if not place.ns:
        return home, None
    return home._replace(project=place.ns, entry=entered.rows), entered


def for_name(home: Home, name: str) -> Home:
    """The plane for a project that is named, `EVERY` for all of them.

    Raises InputError where the plane is not parted, or two projects have the name, NotFoundError
    where none has it.
    """
    if not home.parted:
        raise InputError(
            f"{home.folder} is one project's plane, and is not parted; expected no --project",
            where="--project",
        )
    if name == EVERY:
        return home._replace(project=None, entry=())
    return home._replace(project=project_named(_known(home), name), entry=())


def project_named(known: KnownProjects, name: str, *, where: str = "--project") -> str:
    """The namespace of a project: by its name, its name with digits, or its namespace.

    Raises NotFoundError where there is none, InputError where several have the name.
    """
    namespaces = [*known.namespaces(), UNKNOWN]
    wanted = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    if wanted in namespaces:
        return wanted
    found = [ns for ns in namespaces if ns.startswith(f"{wanted}-") and len(ns) == len(wanted) + 9]
    if len(found) == 1:
        return found[0]
    if found:
        digits = ", ".join(ns.removeprefix(PREFIX) for ns in found)
        raise InputError(
            f"found {name!r:.80}, the name of {len(found)} projects; expected one of {digits}",
            where=where,
        )
    names = sorted(shown_names(known.namespaces()).values())
    listed = ", ".join(names[:_LISTED]) or "none"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    raise NotFoundError(
        f"{where}: no project {name!r:.80}; known: {listed}{more} (`memplane projects` lists them)"
    )


def cache_id(home: Home) -> str:
    """The plane that the caches of a home are of: see `PlaneContext.cache_id`."""
    stamp = _known(home).stamp() if home.parted else ""
    return f"{home.plane_id}/{stamp}" if stamp else home.plane_id


def session_project(home: Home, session: str) -> str | None:
    """The project that a session is of by what was recorded; None where nothing says so."""
    ns = _known(home).of_session(session)
    return ns if ns is not None and ns.startswith(PREFIX) and ns != UNKNOWN else None


def _known(home: Home) -> KnownProjects:
    return Registry(home.folder, home.plane_id, keeps=not home.read_only).follow()
