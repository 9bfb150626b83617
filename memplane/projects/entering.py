"""Where a folder belongs: what its `.git` claims, judged by what the log knows of roots.

A root that was met before stays where it is. A new one whose origin nobody has claimed yet begins
that project. A new one whose origin is known joins it only if the known root lists it as a work
tree, or the user says so (`memplane projects join`): any folder can claim any origin. Until then
it is a project of its own, by its path, and is shown nothing of the other.

`for_folder` and `for_name` open the user's own plane for the project that somebody works in, or for
one that is named.
"""

# ruff: noqa: PTH111, PTH117, PTH119
from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import InputError, NotFoundError
from memplane.lazy import NamedTuple
from memplane.projects.registry import (
    NO_ROOT,
    PREFIX,
    UNKNOWN,
    KnownProjects,
    Registry,
    Root,
    client_folder,
    digest,
    find_root,
    path_place,
    project_name,
    shown_names,
    tree_base,
    work_trees,
)

if TYPE_CHECKING:
    from memplane.home import Home

# A hook comes by here: `pathlib` is a twentieth of what one costs.


_SESSIONS_MAX: Final = 1_000  # of a client's folder, the newest: an event holds 64 KiB
_NAMES_MAX: Final = 20_000
_DIGITS: Final = 8
_TRANSCRIPT: Final = ".jsonl"


class Place(NamedTuple):
    """A project, the root that paths are named from, and the other roots of it, longest first.

    `claims`: the project whose origin the root claims and has not joined, "" for none.
    """

    ns: str
    root: str
    trees: tuple[str, ...] = ()
    claims: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """Where a file may lie to be named from its root: the deepest first."""
        return tuple(sorted({self.root, *self.trees} - {""}, key=lambda one: (-len(one), one)))


class Entered(NamedTuple):
    """A place, and the events that say so for the first time: rows for the log."""

    place: Place
    rows: tuple[dict[str, Any], ...] = ()


def enter_folder(known: KnownProjects, folder: str, *, kept: str = "") -> Entered:
    """The place of who works in a folder. Writes nothing; `rows` are for who records.

    `kept`: the client's own folder of transcripts for it, whose sessions are of the same project.
    """
    found = find_root(folder)
    if found == NO_ROOT:
        return Entered(Place("", ""))
    ns = known.of_root(found.path)
    if ns is not None:
        return Entered(_placed(known, ns, found))
    base = "" if found.git else tree_base(f"{found.path}/")
    if base and (its := known.of_root(base)) is not None:
        return Entered(Place(its, found.path, (base,)))  # by its words: the folder may be gone
    return _met(known, found, kept)


def _met(known: KnownProjects, found: Root, kept: str) -> Entered:
    """The place of a root that was not met before."""
    rows: list[dict[str, Any]] = []
    top = found
    if found.main:
        # It is listed as a work tree: it belongs where its main root does.
        ns = known.of_root(found.main)
        if ns is not None:
            row = root_row(known, ns, found.path, tree=True)
            return Entered(_placed(known, ns, found), (row,))
        top = Root(found.main, "", found.origin, git=True)
    ns, key, claims = _named(known, top)
    trees = [one for one in work_trees(top.path) if one != top.path] if top.git else []
    if found.path != top.path and found.path not in trees:
        trees.append(found.path)
    trees = [one for one in trees if known.of_root(one) is None]
    rows.append(
        root_row(
            known,
            ns,
            top.path,
            key=key,
            address=top.origin,
            trees=trees,
            sessions=sessions_in(kept or _kept_by_client(top.path)),
            claims=claims,
        )
    )
    return Entered(
        Place(ns, found.path, tuple({top.path, *trees} - {found.path}), claims), tuple(rows)
    )


def _named(known: KnownProjects, top: Root) -> tuple[str, str, str]:
    """The namespace and key of a new root, and the project whose origin it only claims."""
    claims = ""
    if top.origin:
        key = digest(f"origin {top.origin}")
        ns = f"{PREFIX}{project_name(top.origin)}-{digest(top.origin)[:_DIGITS]}"
        claims = known.by_key.get(key, "")
        # Eight digits can be met on purpose: a namespace belongs to who had it first.
        if not claims and ns not in known.projects:
            return ns, key, ""
        claims = claims or ns
    ns, key = path_place(known, top.path)
    return ns, key, known.now(claims) if claims else ""


def _placed(known: KnownProjects, ns: str, found: Root) -> Place:
    """A place of a root that is known; its work trees of now among the roots."""
    main = found.main or found.path
    trees = {*known.roots_of(ns), main}
    if found.git:
        trees.update(work_trees(main))
    trees.discard(found.path)
    return Place(ns, found.path, tuple(trees), known.claimed_by(found.path))


def root_row(
    known: KnownProjects,
    ns: str,
    path: str,
    *,
    key: str = "",
    address: str = "",
    trees: Sequence[str] = (),
    sessions: Sequence[str] = (),
    claims: str = "",
    tree: bool = False,
) -> dict[str, Any]:
    """The event that says of which project a root is, for the first time."""
    key = key or known.projects.get(ns, ("", ""))[0] or digest(f"path {path}")
    said: dict[str, Any] = {"project": ns, "key": key, "place": digest(path), "path": path}
    more = {"address": address, "trees": list(trees)[:64], "sessions": list(sessions)}
    said |= {name: value for name, value in more.items() if value}
    if claims:
        said["claims"] = claims
    if tree:
        said["tree"] = True
    return {"kind": "project", "ns": ns, "text": f"Root {path}", "data": {"root": said}}


def joined(known: KnownProjects, ns: str, root: str) -> dict[str, Any]:
    """The event by which the user joins a root to a project."""
    said = {"project": ns, "place": digest(root), "path": root}
    was = known.of_root(root)
    if was is not None and was != ns:
        said["was"] = was
    return {"kind": "project", "ns": ns, "text": f"Joined {root}", "data": {"join": said}}


def sessions_in(folder: str) -> list[str]:
    """The sessions whose transcripts stand in a client's folder, the newest 1,000.

    Names alone are read, of which the client makes each of a session's id.
    """
    if not os.path.isabs(folder):
        return []
    with suppress(OSError):
        names = nofollow.file_names(folder)[:_NAMES_MAX]
        stems = [name.removesuffix(_TRANSCRIPT) for name in names if name.endswith(_TRANSCRIPT)]
        plain = [one for one in stems if one and len(one) <= 64 and one.isascii()]
        if len(plain) > _SESSIONS_MAX:
            at = {one: os.lstat(f"{folder}/{one}{_TRANSCRIPT}").st_mtime_ns for one in plain}
            plain = sorted(sorted(plain, key=at.__getitem__)[-_SESSIONS_MAX:])
        return plain
    return []


def roots_of_folder(folder: str) -> tuple[str, ...]:
    """The root of a folder and its work trees, the deepest first; none of what is no path."""
    found = find_root(folder)
    if found == NO_ROOT:
        return ()
    main = found.main or found.path
    trees = tuple(work_trees(main)) if found.git else ()
    return Place("", found.path, (main, *trees)).folders


def _kept_by_client(root: str) -> str:
    """Where Claude Code keeps its transcripts of a root."""
    given = os.environ.get("CLAUDE_CONFIG_DIR", "")
    config = given if os.path.isabs(given) else os.path.expanduser("~/.claude")
    return f"{config}/projects/{client_folder(root)}"


def is_clients_folder(folder: str, root: str) -> bool:
    """Whether a folder of transcripts is the one that Claude Code has for a root."""
    return bool(root) and os.path.basename(folder.rstrip("/")) == client_folder(root)


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
