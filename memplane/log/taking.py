"""Taking in what waits in the spool: appended, synced, then removed; what is no good, set aside.

Whoever is interrupted between two of these steps leaves a repeat, which its id tells: an event is
in the log once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from memplane.errors import (
    ConflictError,
    MemplaneError,
    NotFoundError,
    PlaneError,
    PurgedError,
    WriteError,
)
from memplane.log.bodies import store_bodies
from memplane.log.format import own_draft, prepared
from memplane.log.spool import FILES_MAX, AsideNote, is_ours, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memplane.event import Draft
    from memplane.log.log import FileLog
    from memplane.log.spool import Spool, Waiting
    from memplane.log.writer import Active, Writer
    from memplane.ports import Appended

    # Writes drafts whose ids may be in the log already, in one piece.
    Write = Callable[[Active, Sequence[Draft], list[str]], tuple[Active, list[Appended]]]
    # Those with a body, but for ids that are purged: `Known.unerased`.
    Unerased = Callable[[Sequence[Draft]], list[Draft]]

__all__ = ["take_in", "take_in_all"]

# What one append takes in for others: it holds the lock for some milliseconds longer, once.
FILES_AT_ONCE: Final = 64
BYTES_AT_ONCE: Final = 1024 * 1024


def take_in(
    spool: Spool, home: str, writer: Writer, active: Active, write: Write, unerased: Unerased
) -> Active:
    """Take in the oldest files; return where the log goes on. Under the log's lock.

    Where the disk refuses they wait on, and who appends meets that disk himself.
    """
    with suppress(WriteError):
        _take(spool, home, writer, active, write, unerased)
    return writer.catch_up(alone=False)


def take_in_all(log: FileLog) -> None:
    """Take in all that waits now, unless somebody holds the lock; raises nothing for it.

    For who opens, flushes or closes a log: what cannot be taken in has time.
    """
    with suppress(PlaneError, OSError):
        for _ in range(0, FILES_MAX, FILES_AT_ONCE):
            if not log.waiting.waits():
                break
            log.append([], wait=False)


def _take(
    spool: Spool, home: str, writer: Writer, active: Active, write: Write, unerased: Unerased
) -> None:
    good: list[Waiting] = []
    bad: list[tuple[Waiting, str]] = []
    for found in _oldest(spool):
        if found.fault:
            bad.append((found, found.fault))
        else:
            good.append(found)
    # A purged event comes back from a spool file whose removal a power cut took back: not its text.
    drafts = [draft for each in good for draft in each.drafts]
    store_bodies(home, unerased(drafts), spool.disk)
    active, refused = _written(spool, writer, active, good, write)
    bad += refused
    notes = [AsideNote(each.name, f"spool-{each.mark[:32]}", what) for each, what in bad]
    told = [_told(each, note) for (each, _), note in zip(bad, notes, strict=True)]
    active, _ = write(active, told, [prepared(draft) for draft in told])
    writer.sync(active, active.seq)
    for note in notes:
        spool.set_aside(note)
    aside = {note.name for note in notes}
    for each in good:
        if each.name not in aside:
            spool.remove(each.name)


def _oldest(spool: Spool) -> list[Waiting]:
    """What one append may take, at least one of what can be read."""
    found: list[Waiting] = []
    size = 0
    for name in spool.names()[:FILES_AT_ONCE]:
        if found and size + size_of(name) > BYTES_AT_ONCE:
            break
        try:
            waiting = spool.read(name)
        except OSError:
            spool.leave(name)
            continue
        if waiting is not None:
            found.append(waiting)
            size += waiting.bytes
    return found


def _written(
    spool: Spool, writer: Writer, active: Active, files: list[Waiting], write: Write
) -> tuple[Active, list[tuple[Waiting, str]]]:
    """Append the files' events; return those with an id that is another event's, and why."""
    drafts = [draft for each in files for draft in each.drafts]
    try:
        return write(active, drafts, [prepared(draft) for draft in drafts])[0], []
    except WriteError:
        raise
    except MemplaneError:
        pass  # nothing was written: now one by one, so that only what is at fault stays out
    refused: list[tuple[Waiting, str]] = []
    for each in files:
        purged: set[str] = set()
        fault = ""
        for draft in each.drafts:
            try:
                active, _ = write(active, [draft], [prepared(draft)])
            except PurgedError:
                purged.add(draft.id)
            except ConflictError as error:
                fault = f"id {draft.id!r} is taken by another event, seq {error.seq}"
            except NotFoundError:  # the whole text that it would be compared with is lost
                fault = f"id {draft.id!r} is taken by an event that cannot be read"
        if fault and purged:  # the erased text must not outlive this in quarantine
            rest = [draft for draft in each.drafts if draft.id not in purged]
            spool.put(rest, writer.clock())
        elif fault:
            refused.append((each, fault))
    return active, refused


def _told(each: Waiting, note: AsideNote) -> Draft:
    """The event that says what was set aside; the same for the same file, however often."""
    data: dict[str, object] = {
        "segment": 0,
        "offset": 0,
        "bytes": each.bytes,
        "quarantine": note.kept,
        "case": "spool",
        # What a stranger called it is nobody's word in a log.
        "file": each.name if is_ours(each.name) else "",
        "what": note.what,
    }
    return own_draft("repair", data, f"repair-{note.kept}")._replace(id_given=True)
