"""The projects of the user's own plane: list them, join a root to one, give sessions to one.

Nothing that was recorded is changed: each is an event, and events are read where it says.
"""

# ruff: noqa: PTH100, PTH111, PTH112, PTH119 - roots are texts
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from memplane.context.context import OfPlane
from memplane.errors import HomeError, InputError, NotFoundError
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.projects import (
    UNKNOWN,
    KnownProjects,
    enter_folder,
    find_root,
    joined,
    project_named,
    shown_name,
)

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext

_SESSIONS_LISTED: Final = 20
_SESSIONS_AT_ONCE: Final = 1_000


class ProjectSession(NamedTuple):
    """A session as its project lists it. `folder`: the name of where it began, "" for unknown."""

    session: str
    folder: str
    since: str


class Project(NamedTuple):
    """A project: `name` as it is shown, `here` for that of this folder.

    `claims`: the project whose origin its root claims and has not joined, "" for none. `recent`:
    its newest sessions, at most 20.
    """

    name: str
    ns: str
    here: bool
    address: str
    roots: tuple[str, ...]
    sessions: int
    recent: tuple[ProjectSession, ...]
    claims: str

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            **self._asdict(),
            "roots": list(self.roots),
            "recent": [one._asdict() for one in self.recent],
        }


class Reassigned(NamedTuple):
    """What was recorded: `seq` None where it was so already. `what`: a root, or sessions."""

    project: str
    ns: str
    what: tuple[str, ...]
    seq: int | None

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**self._asdict(), "what": list(self.what)}


class PlaneProjects(OfPlane):
    """The projects of a plane. Built per use; HomeError for a plane that is not parted."""

    def __init__(self, context: PlaneContext) -> None:
        if context.registry is None:
            raise HomeError(
                f"{context.home.folder}: one project's plane, and not parted; expected your own, "
                "~/.memplane: leave --home and MEMPLANE_HOME out, outside of folders with a "
                ".memplane"
            )
        self._context, self._registry = context, context.registry

    def list(self, folder: str = "") -> list[Project]:
        """All projects by name, the unknown one last; `folder`: where whoever asks works."""
        known = self._registry.follow()
        here = enter_folder(known, folder).place if folder else None
        namespaces = known.namespaces()
        if here is not None and here.ns and here.ns not in namespaces:
            namespaces = [*namespaces, here.ns]
        sessions: dict[str, list[ProjectSession]] = {}
        for id_, one in known.sessions.items():
            ns = known.of_session(id_) or ""
            sessions.setdefault(ns, []).append(ProjectSession(id_, one.folder, one.since))
        found = []
        for ns in namespaces:
            its = sorted(sessions.get(ns, ()), key=lambda one: (one.since, one.session))
            own = here is not None and here.ns == ns
            claims = here.claims if here is not None and own else ""
            found.append(
                Project(
                    shown_name(ns, namespaces),
                    ns,
                    own,
                    known.projects.get(ns, ("", ""))[1],
                    tuple(known.roots_of(ns)),
                    len(its),
                    tuple(its[: -_SESSIONS_LISTED - 1 : -1]),
                    shown_name(claims, namespaces) if claims else "",
                )
            )
        return sorted(found, key=lambda one: (one.ns == UNKNOWN, one.name, one.ns))

    def join(self, folder: str, project: str | None = None) -> Reassigned:
        """Let the root of a folder be of a project from now on, with all that was recorded there.

        Without a name of the one whose origin it claims. Raises InputError where it claims none,
        NotFoundError for a name that no project has.
        """
        known = self._registry.follow()
        root = find_root(folder)
        if not root.path or not root.there:
            found = quoted_value(folder)
            raise InputError(f"expected a folder that is there, found {found}", where="DIR")
        if project is not None:
            ns = project_named(known, project, where="PROJECT")
        else:
            ns = enter_folder(known, root.path).place.claims
            if not ns:
                raise InputError(
                    f"{root.path} claims no origin of another root; expected the name of the "
                    "project: `memplane projects join --to NAME`",
                    where="--to",
                )
        name = shown_name(ns, known.namespaces())
        if known.of_root(root.path) == ns:
            return Reassigned(name, ns, (root.path,), None)
        receipt = self._context.write(joined(known, ns, root.path))
        return Reassigned(name, ns, (root.path,), receipt.seq)

    def assign(self, what: str, project: str) -> Reassigned:
        """Give a session, or all that were recorded in folders of a name, to a project.

        `project` may be a folder: then it is that folder's. Of a folder's name those sessions go
        that are nobody's, and those that come later. Raises NotFoundError.
        """
        known = self._registry.follow()
        ns = self._target(known, project)
        name = shown_name(ns, [*known.namespaces(), ns])
        if what in known.sessions:
            return self._assigned(name, ns, (what,), "", known)
        folder = os.path.basename(what.rstrip("/"))
        sessions = tuple(
            id_
            for id_, one in known.sessions.items()
            if one.folder == folder and known.of_session(id_) == UNKNOWN
        )
        if not folder or not any(one.folder == folder for one in known.sessions.values()):
            raise NotFoundError(
                f"SESSION|FOLDER: no session {quoted_value(what)}, and none in a folder of that "
                "name; `memplane projects --json` lists both"
            )
        return self._assigned(name, ns, sessions, folder, known)

    def _target(self, known: KnownProjects, project: str) -> str:
        path = os.path.expanduser(project)
        if os.path.isdir(path) and (project.startswith((".", "/", "~"))):
            entered = enter_folder(known, os.path.abspath(path))
            for row in entered.rows:
                self._context.write(dict(row))
            return entered.place.ns
        return project_named(known, project, where="PROJECT")

    def _assigned(
        self, name: str, ns: str, sessions: tuple[str, ...], folder: str, known: KnownProjects
    ) -> Reassigned:
        if not folder and all(known.of_session(one) == ns for one in sessions):
            return Reassigned(name, ns, sessions, None)
        seq = None
        for start in range(0, max(len(sessions), 1), _SESSIONS_AT_ONCE):
            part = list(sessions[start : start + _SESSIONS_AT_ONCE])
            said: dict[str, Any] = {"project": ns, "sessions": part}
            if folder:
                said["folder"] = folder
            text = f"Given to {ns}: {folder or ', '.join(part)}"
            row = {"kind": "project", "ns": ns, "text": text, "data": {"assign": said}}
            seq = self._context.write(row).seq
        return Reassigned(name, ns, sessions, seq)
