"""The projects of the user's own plane: which folder is of which, and who sees what of them.

Only `~/.memplane` is parted: what is recorded there belongs to a project, and a session sees its
own and `/global`. A project's own plane is one whole.

A namespace is `/project/<name>-<8 hex>`: of the git origin's address without credentials, else of
the root's path. `identity` reads folders and `.git` (no git is run, no link followed); `registry`
folds what the log says of projects; `entering` decides, from both, where a folder belongs.

Which root is of which project is said by events of kind `project`, whose `data` is one of::

    {"root": {"project": NS, "key": HEX, "place": HEX, "path": P, "address": A, "trees": [P, ..],
              "sessions": [ID, ..]}}          a root was met, and the work trees of it
    {"join": {"project": NS, "place": HEX, "path": P, "was": NS}}          the user joined a root
    {"assign": {"project": NS, "sessions": [ID, ..], "folder": NAME}}      the user moved sessions

`key` is the SHA-256 of what the project is made of (`origin <address>`, `path <root>`), `place`
that of the root's path. `sessions` of a root are those that the client keeps in the folder that it
has for that root. What was recorded earlier keeps its bytes: its place is decided where it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.projects.entering import Entered, Place, enter_folder
    from memplane.projects.registry import (
        PREFIX,
        UNKNOWN,
        KnownProjects,
        Registry,
        Root,
        find_root,
        is_excluded,
        shown_names,
    )

__all__ = [
    "PREFIX",
    "UNKNOWN",
    "Entered",
    "KnownProjects",
    "Place",
    "Registry",
    "Root",
    "enter_folder",
    "find_root",
    "is_excluded",
    "shown_names",
]

__getattr__ = lazily(
    __name__,
    {
        "memplane.projects.entering": ("Entered", "Place", "enter_folder"),
        "memplane.projects.registry": (
            "PREFIX",
            "UNKNOWN",
            "KnownProjects",
            "Registry",
            "Root",
            "find_root",
            "is_excluded",
            "shown_names",
        ),
    },
)
