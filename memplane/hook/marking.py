"""That a session ended or went on, named by what came before it.

Clients say so without a number: the same words mean the same end, told twice (by two installs, or
again), or another end of a session that went on in between. What the log has last tells them apart.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from memplane.errors import MemplaneError
from memplane.importers.rows import name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.event import Event
    from memplane.hook.told import Told
    from memplane.importers.rows import Row
    from memplane.log import FileLog

__all__ = ["marked"]

_LOOK_MAX: Final = 1_000  # lines; who has been silent for longer is named by the very last one


def marked(log: FileLog, said: Told) -> Sequence[Row]:
    """The rows of a Told that `marks`; none where the log has the same from the same time."""
    [row] = said.rows
    with suppress(MemplaneError, OSError):  # whoever appends says what is wrong
        last = _last(log, said.session)
        if last is None:
            return said.rows
        status = last.data.get("status") if last.kind == "session" else None
        if last.session == said.session and status == row["data"]["status"]:
            return ()
        before = hashlib.sha256(last.id.encode()).hexdigest()[:16]
        return [{**row, "id": name(*said.marks, before)}]
    return said.rows


def _last(log: FileLog, session: str) -> Event | None:
    """The newest event of a session, but for what memplane itself says of it; else the newest."""
    found = newest = None
    for line in log.read(max(log.head().seq - _LOOK_MAX, 0)):
        newest = line.event
        if newest.session == session and newest.data.get("extract") is not True:
            found = newest
    return found or newest
