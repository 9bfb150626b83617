"""Where a hook's session works: the plane as it sees it, and the roots of its paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from memplane.projects.entering import (
    for_folder,
    is_clients_folder,
    roots_of_folder,
    session_project,
)
from memplane.projects.identity import is_excluded
from memplane.projects.registry import NOWHERE, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memplane.home import Home

__all__ = ["SessionFolders", "WorkPlace", "folders_of", "work_place"]


class SessionFolders(NamedTuple):
    """What a client says of where its session works.

    `launched`: where it was started, "" where it does not say; `now`: where it is at. `kept`: its
    own folder of transcripts. `session`: its id.
    """

    launched: str
    now: str
    kept: str
    session: str

    @property
    def folder(self) -> str:
        """The one that decides: a session stays in its project wherever it goes."""
        return self.launched or self.now


class WorkPlace(NamedTuple):
    """The place of a session.

    `home`: the plane, for one project where it is parted. `ns`: of what is recorded, None for the
    usual. `rows`: what says of which project the folder is, for the first time. `roots`: where
    files lie that are named from their root, the deepest first.
    """

    home: Home
    ns: str | None
    rows: tuple[Mapping[str, Any], ...]
    roots: tuple[str, ...]


def folders_of(
    agent: str, said: Mapping[str, Any], environment: Mapping[str, str]
) -> SessionFolders:
    """Read them from the environment and the payload; what is no absolute path counts as none."""
    # `cwd` follows the agent's `cd`; this does not. Other agents may have inherited it.
    launched = environment.get("CLAUDE_PROJECT_DIR", "") if agent == "claude-code" else ""
    given = [launched, said.get("cwd"), said.get("transcript_path"), said.get("session_id")]
    launched, now, transcript, session = (one if isinstance(one, str) else "" for one in given)
    kept = os.path.dirname(transcript)  # noqa: PTH120 - a text is asked for
    if not os.path.isabs(launched):  # noqa: PTH117 - likewise
        launched = ""
    return SessionFolders(launched, now if os.path.isabs(now) else "", kept, session)  # noqa: PTH117


def work_place(home: Home, folders: SessionFolders, exclude: tuple[str, ...]) -> WorkPlace | None:
    """The place of a session; None in a folder that plane.yaml excludes."""
    if is_excluded([one for one in (folders.launched, folders.now) if one], exclude):
        return None
    folder = folders.folder
    if not home.parted:
        return WorkPlace(home, None, (), roots_of_folder(folder))
    if not folders.launched and folders.session:
        ns = session_project(home, folders.session)
        if ns is not None:
            roots = roots_of_folder(folder)
            return WorkPlace(home._replace(project=ns, entry=()), ns, (), roots)
    kept = folders.kept if is_clients_folder(folders.kept, folder) else ""
    found, entered = for_folder(home, folder, kept=kept)
    if entered is None:
        # Nobody knows whose it is: it is shown nothing of any project, and kept for the user.
        return WorkPlace(home._replace(project=NOWHERE), UNKNOWN, (), ())
    return WorkPlace(found, found.project, entered.rows, entered.place.folders)
