"""What tells of more log than there is: files that are made only of lines that stood in it.

The log's own end says nothing of what stood behind it: a cut at the end of a line, a newest segment
that is gone, leave a log that verifies. What was made from the longer one may still be there. Files
of the log are looked for here; of projections and reports, who knows those hands over.
"""

# Paths are strings here, as everywhere in the log.
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane import nofollow
from memplane.errors import CorruptError
from memplane.lazy import regex
from memplane.log.format import own_draft, ulid
from memplane.log.recovery import marked
from memplane.log.strays import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.event import Draft, Event
    from memplane.log.segments import Point, Segments
    from memplane.log.survey import Survey

__all__ = [
    "Beyond",
    "Witness",
    "beyond_of",
    "check_never_begun",
    "ended_draft",
    "lost_end",
    "named_segments",
    "tells",
]

# A table is made of a sealed segment, a copy in quarantine of one that is there.
_FOLDERS: Final = (
    ("index/ids", re.compile(r"(\d{8})\.ids")),
    ("log/quarantine", re.compile(r"(\d{8})-\d+-[0-9a-f]{16}")),
)
_MARKER: Final = regex(r"(\d{8})\.broken")
_SEGMENT: Final = regex(r"(\d{8})" + re.escape(SUFFIX))
_FILES_MAX: Final = 20
# How a projection begins that was folded from a log (`memplane.projections.checkpoint`).
_FOLDED: Final = b'{"projector":'
_HEADER_BYTES: Final = 400


class Witness(NamedTuple):
    """A file below the home that knows of a seq or of a segment; 0 for what it does not say."""

    file: str
    seq: int
    segment: int


class Beyond(NamedTuple):
    """How far a repair has recorded that the log once went, or anything says so."""

    seq: int = 0
    segment: int = 0

    def covers(self, other: Witness | Beyond) -> bool:
        """Whether the other tells of nothing behind this."""
        return other.seq <= self.seq and other.segment <= self.segment

    def joined(self, other: Witness | Beyond) -> Beyond:
        """The further of both."""
        return Beyond(max(self.seq, other.seq), max(self.segment, other.segment))


def named_segments(segments: Segments) -> list[Witness]:
    """The files of the log that tell of a segment behind the last one that is there."""
    folder, home = segments.folder, segments.home
    told = {
        f"{below}/{name}": Witness(f"{below}/{name}", 0, int(found[1]))
        for below, form in _FOLDERS
        for name in nofollow.files(f"{home}/{below}", home)
        if (found := form.fullmatch(name))
    }
    for name in nofollow.files(folder):
        number = int(found[1]) if (found := _MARKER.fullmatch(name)) else 0
        if number and (watermark := marked(segments, number)):
            told[f"log/{name}"] = Witness(f"log/{name}", watermark, number)
    # Looked for after those: a segment that is begun meanwhile is there.
    here = [int(found[1]) for name in nofollow.files(folder) if (found := _SEGMENT.fullmatch(name))]
    last = max(here, default=0)
    return [one for _, one in sorted(told.items()) if one.segment > last]


def check_never_begun(segments: Segments) -> None:
    """Before the first segment is made, or made anew: raise CorruptError where there was a log.

    A projection of this plane is folded from one; seqs would be given a second time.
    """
    home = segments.home
    plane = b'"plane":"%b",' % segments.plane_id.encode()
    for name in nofollow.files(f"{home}/projections"):
        if not name.endswith(".json"):
            continue
        begins = _beginning(f"{home}/projections/{name}")
        if begins.startswith(_FOLDED) and plane in begins:
            raise CorruptError(
                f"{segments.folder}: holds no line, and projections/{name} was made from a log "
                "of this plane: it is lost; bring it back from a copy, or let `memplane repair` "
                "record that and begin anew",
                segment="", offset=0, seq=0,
            )  # fmt: skip


def lost_end(found: Survey, told: Iterable[Witness]) -> tuple[Witness, ...]:
    """Those that know of more than the log's end, and than repairs have recorded as lost."""
    last = Beyond(found.last.seq, max([found.newest, *found.strays]))
    known = last.joined(found.ended)
    return tuple(one for one in told if not known.covers(one))


def tells(one: Witness, found: Survey) -> str:
    """What a witness knows, beside what there is."""
    if one.seq > found.last.seq:
        return f"knows of seq {one.seq}, and the log ends with seq {found.last.seq}"
    return f"knows of segment {one.segment}, and the newest is {found.newest}"


def beyond_of(event: Event) -> Beyond:
    """What a repair event of case `ended` says that there once was."""
    seq, segment = event.data.get("known_seq"), event.data.get("known_segment")
    if event.data.get("case") == "ended" and isinstance(seq, int) and isinstance(segment, int):
        return Beyond(seq, segment)
    return Beyond()


def ended_draft(witnesses: Iterable[Witness], last: Point) -> Draft:
    """The event that says where the log ended, who knows of more, and of what."""
    known, files = Beyond(), []
    for one in witnesses:
        known = known.joined(one)
        files.append(one.file)
    data: dict[str, object] = {
        "segment": 0,
        "offset": 0,
        "bytes": 0,
        "quarantine": "",
        "case": "ended",
        "last_seq": last.seq,
        "known_seq": known.seq,
        "known_segment": known.segment,
        "told_by": files[:_FILES_MAX],
    }
    name = b"ended %d %d" % known
    return own_draft("repair", data, ulid(last.rec, last.h, name))


def _beginning(path: str) -> bytes:
    try:
        return nofollow.read(path, _HEADER_BYTES)
    except OSError:
        return b""
