"""Where a hook's session works: the plane as it sees it, the roots of its paths, what they say.

The client gives its agent CLAUDE.md or AGENTS.md, and README is at hand: a start need not say what
stands there. Of the project's files only hashes of sentences go further, without secrets; whoever
writes them can have a start leave something out, and no more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.lazy import NamedTuple, late, regex
from memplane.projects.entering import (
    for_folder,
    is_clients_folder,
    roots_of_folder,
    session_project,
)
from memplane.projects.registry import NOWHERE, UNKNOWN, is_excluded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from memplane.home import Home
    from memplane.recall import gate
else:
    gate = late("memplane.recall.gate")

_FILES: Final = ("CLAUDE.md", "AGENTS.md", "README.md")
_LABEL: Final = regex(r"^[-+*\s\d.]*\*\*[^*]{1,60}\*\*:? ")
_MARKS_MAX: Final = 400
_FILE_BYTES: Final = 32 * 1024  # of each: what stands behind is not read


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
    files lie that are named from their root, the deepest first. `root`: the one that the session
    works in, "" where there is none.
    """

    home: Home
    ns: str | None
    rows: tuple[Mapping[str, Any], ...]
    roots: tuple[str, ...]
    root: str = ""


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
    found = _work_place(home, folders, exclude)
    if found is None:
        return None
    above = (one for one in found.roots if f"{folders.folder}/".startswith(f"{one}/"))
    return found._replace(root=next(above, folders.folder))


def _work_place(home: Home, folders: SessionFolders, exclude: tuple[str, ...]) -> WorkPlace | None:
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


def project_marks(root: str, redact: Callable[[str], str]) -> tuple[str, ...]:
    """Hashes of the sentences of a root's CLAUDE.md, AGENTS.md and README.md, at most 400.

    Each also without a label in bold before it. The first 32 KiB of each file, without what
    `redact` takes out; a link, and what is no file, counts as absent.
    """
    found: dict[str, None] = {}
    for name in _FILES if root else ():
        with suppress(OSError):
            data = nofollow.read_bytes(f"{root}/{name}", _FILE_BYTES, home=root)
            text = _paragraphs(redact(data.decode("utf-8", "replace")))
            behind = "\n".join(_LABEL.sub("", line, count=1) for line in text.splitlines())
            found |= dict.fromkeys((*gate.sentence_marks(text), *gate.sentence_marks(behind)))
    return tuple(found)[:_MARKS_MAX]


def _paragraphs(text: str) -> str:
    """The text with the lines of a paragraph joined: Markdown breaks sentences anywhere."""
    lines: list[str] = []
    for line in text.splitlines():
        said = line.strip()
        if lines and lines[-1] and said[:1].isalnum() and not said[:1].isdecimal():
            lines[-1] = f"{lines[-1]} {said}"
        else:
            lines.append(said)
    return "\n".join(lines)
