"""Of which project an imported session is, and the roots that its files are named from.

A session that the log knows stays where it is. Of another one its folder decides, as for a hook
(`memplane.projects.entering`); a folder that is not on this machine is taken by its words: by the
known root that it lies in, else by the folder in which the client kept the transcript, which names
the root. What says so for the first time is recorded with the first event that is new: an import
of what is there already writes nothing.
"""

# Roots are texts.
# ruff: noqa: PTH119, PTH120
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from memplane.projects.entering import enter_folder, is_clients_folder, roots_of_folder
from memplane.projects.identity import client_folder, find_root, inner_path, is_excluded
from memplane.projects.registry import PREFIX, UNKNOWN, KnownProjects

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.importers.rows import Row
    from memplane.plane import Plane

__all__ = ["SessionPlaces"]


class SessionPlaces:
    """The places of one import's sessions. Of a plane that is not parted they are all its own."""

    def __init__(self, plane: Plane) -> None:
        context = plane.context
        self._context, self._registry = context, context.registry
        self._known = KnownProjects()
        if self._registry is not None:
            self._known = KnownProjects.of(self._registry.follow().fields())
        self._exclude = context.watched.policies_or_last().plane.hooks.exclude
        self._spaces: dict[str, str] = {}  # of sessions
        self._roots: dict[str, tuple[str, ...]] = {}  # of folders
        self._news: list[Row] = []

    def is_excluded(self, folder: str) -> bool:
        """Whether plane.yaml keeps what happened in a folder out."""
        return is_excluded([folder], self._exclude) if folder else False

    def roots(self, folder: str) -> tuple[str, ...]:
        """The root of a folder that is there, and its work trees; none of one that is not."""
        if folder not in self._roots:
            self._roots[folder] = roots_of_folder(folder) if find_root(folder).there else ()
        return self._roots[folder]

    def placed(self, row: Row, folder: str, file: Path) -> Row:
        """The row of a session in its project; `folder`: where that began, `file`: its transcript.

        A file in one of the usual places of work trees has the name that it has in the root.
        """
        data = row.get("data")
        path = data.get("path") if isinstance(data, dict) else None
        if isinstance(path, str) and (inner := inner_path(path)) != path:
            row = {**row, "data": {**row["data"], "path": inner}}
        session = row.get("session")
        if self._registry is None or "ns" in row or not isinstance(session, str):
            return row
        if session not in self._spaces:
            self._spaces[session] = self._space(session, folder, os.path.dirname(file))
        return {**row, "ns": self._spaces[session]}

    def of_kept(self, folder: Path) -> str | None:
        """The project of what the client keeps in its folder for one; None: the plane has none."""
        if self._registry is None:
            return None
        names = {
            client_folder(path): self._known.now(ns) for ns, path in self._known.roots.values()
        }
        return names.get(folder.parent.name, UNKNOWN)

    def of_root(self, folder: Path) -> str | None:
        """The project of a repository that is there; None: the plane has none."""
        if self._registry is None:
            return None
        return self._entered(os.path.realpath(folder), "") or UNKNOWN

    def settle(self) -> None:
        """Record which roots were met: something new was recorded of them."""
        news, self._news = self._news, []
        if news and self._registry is not None:
            known = self._registry.follow()
            make = self._context.drafting(internal=True)
            fresh = [make(row, "") for row in news if known.is_news(row)]
            if fresh:
                self._context.append(fresh)

    def _space(self, session: str, folder: str, kept: str) -> str:
        known = self._known
        said = known.of_session(session)
        if said is not None and said.startswith(PREFIX) and said != UNKNOWN:
            return said
        if not folder:
            return UNKNOWN
        root = folder
        if not find_root(folder).there:
            above = known.above(folder)
            if above is not None:
                return above[1]
            root = _root_by_words(folder, kept)
        return self._entered(root, kept if is_clients_folder(kept, root) else "") or UNKNOWN

    def _entered(self, root: str, kept: str) -> str:
        entered = enter_folder(self._known, root, kept=kept)
        for row in entered.rows:
            self._known.apply(row)
            self._news.append(dict(row))
        return entered.place.ns


def _root_by_words(folder: str, kept: str) -> str:
    """The folder, or the one above it for which the client named its own folder."""
    at, name = folder.rstrip("/"), os.path.basename(kept)
    while at and at != "/":
        if client_folder(at) == name:
            return at
        at = os.path.dirname(at)
    return folder
