"""Artifacts: files that were added to a plane, and the approvals that let prompts show their text.

An event of kind `artifact` names a file by its content. Its text is what a person said of the
file; its data

    uri      artifact://sha256/<hex>
    name     the file's name, without folders
    mime     its type
    bytes    its size
    sha256   of its bytes
    stored   copy: the bytes lie in bodies/; reference: the file stays at `path`
    path     of a reference, absolute
    type     research_report or research_bundle
    sidecar  {name, bytes, sha256} of the file that belongs to a report

Data comes from a caller and is not trusted: `facts_of` checks its form, and every read of the file
compares the bytes with the hash.

An event of kind `approval` names artifacts in `refs` and their content in `data.sha256`; with
`data.undo` it takes every earlier approval of them back. This projection only keeps what was said;
`Approvals` in `memplane.context.artifact_files` decides what holds as of a seq.
"""

from __future__ import annotations

import json
from bisect import insort
from typing import Any, Final, TypeGuard

from memplane.event import Event
from memplane.lazy import NamedTuple, regex, word_table
from memplane.ports import Line
from memplane.projections.in_force import Moment, moment_of
from memplane.projections.projector import canonical

COPY: Final = "copy"
REFERENCE: Final = "reference"
TYPES: Final = ("research_report", "research_bundle")
SCHEME: Final = "artifact://sha256/"
NAME_MAX: Final = 255
_PATH_MAX: Final = 4096
_NAME_SHOWN: Final = 120
HANDLE_DIGITS: Final = 16  # of a hash, in a handle: what a plane holds is told apart by fewer
_UNKNOWN: Final = "application/octet-stream"
_MIME: Final = regex(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}")
_DIGEST: Final = regex(r"[0-9a-f]{64}")
_SIZES: Final = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB"))
# Together they stay below the 512 KiB of a file that a pack reads.
_LISTED_MAX: Final = 6_000
_SAID_BYTES_MAX: Final = 256 * 1024


class Sidecar(NamedTuple):
    """The file beside a report."""

    name: str
    bytes: int
    sha256: str


class ArtifactFacts(NamedTuple):
    """What an artifact's event says of its file, in good form."""

    sha256: str
    name: str
    mime: str
    bytes: int
    stored: str
    path: str = ""
    type: str = ""
    sidecar: Sidecar | None = None

    @property
    def uri(self) -> str:
        """The URI of the content, independent of name and place."""
        return f"{SCHEME}{self.sha256}"

    @property
    def digits(self) -> str:
        """The beginning of the hash, as handles have it."""
        return self.sha256[:HANDLE_DIGITS]

    @property
    def handle(self) -> str:
        """What `expand` takes to open its text."""
        return f"expand://artifact/{self.digits}"

    @property
    def card(self) -> str:
        """Name, size and type on one line: shown before the artifact is approved, too."""
        name = " ".join(self.name.split())
        if len(name) > _NAME_SHOWN:
            name = f"{name[: _NAME_SHOWN - 1]}…"
        return f"{name} ({_size(self.bytes)}, {self.type or self.mime})"


class ApprovalChange(NamedTuple):
    """One approval of one artifact, or the taking back of all before it.

    `ref` is the artifact's id, `event` the one that says so, as far as it decides whether it is in
    force. `moment`: by which it is ordered among approvals, also of other planes.
    """

    ref: str
    event: Event
    sha256: str
    undo: bool
    moment: Moment

    def row(self) -> list[Any]:
        """The row of the file, as `_APPROVAL_ROW` names its fields."""
        event, at = self.event, self.moment
        place = [event.seq, event.id, event.ns, event.session, event.key]
        times = [event.valid_from, event.valid_until, at.time, at.turn]
        return [self.ref, *place, self.sha256, self.undo, *times]

    @classmethod
    def from_row(cls, row: list[Any]) -> ApprovalChange:
        """The approval that `row` gave."""
        fields = dict(zip(_APPROVAL_ROW, row, strict=True))
        ref, sha256, undo = fields.pop("ref"), fields.pop("sha256"), fields.pop("undo")
        moment = Moment(fields.pop("time"), fields.pop("turn"), fields["id"])
        event = Event(ts="", rec="", kind="approval", **fields)
        return cls(ref, event, sha256, undo, moment)


_APPROVAL_ROW: Final = word_table("""
    ref seq id ns session key sha256 undo valid_from valid_until time turn
""")


class ArtifactTable:
    """The state: the newest artifacts, and what was said of any by its id.

    What left `said` for its bound approves nothing any more; `shed` counts it. `listed` has the
    beginning of each hash by the event's seq, in log order; `older`: there are others in the log.
    """

    __slots__ = ("_bytes", "_order", "latest", "listed", "older", "said", "shed")

    def __init__(self) -> None:
        self.listed: dict[int, str] = {}
        self.older = False
        self.said: dict[
            str, list[ApprovalChange]
        ] = {}  # by the artifact's id, in the order of moments
        self.shed = 0
        self.latest: Moment | None = None  # of all approvals
        self._order: list[ApprovalChange] = []  # likewise
        self._bytes = 0

    def note(self, seq: int, digits: str) -> None:
        """Note an artifact."""
        self.listed[seq] = digits
        if len(self.listed) > _LISTED_MAX:
            del self.listed[next(iter(self.listed))]
            self.older = True

    def say(self, one: ApprovalChange, bytes_max: int) -> None:
        """Note an approval. The oldest goes first, so that none outlives what took it back."""
        insort(self._order, one, key=_moment)
        insort(self.said.setdefault(one.ref, []), one, key=_moment)
        self._bytes += _bytes_of(one)
        while self._bytes > bytes_max:
            gone = self._order.pop(0)
            self._bytes -= _bytes_of(gone)
            left = self.said[gone.ref]
            left.pop(0)
            if not left:
                del self.said[gone.ref]
            self.shed += 1

    def rows(self) -> list[ApprovalChange]:
        """Return everything that was said, in the order of moments."""
        return [*self._order]


class Artifacts:
    """The projector."""

    name = "artifacts"
    version = 2
    kinds_read = frozenset(("artifact", "approval"))

    def __init__(self, *, bytes_max: int = _SAID_BYTES_MAX) -> None:
        self.bytes_max = bytes_max

    def initial(self) -> ArtifactTable:
        return ArtifactTable()

    def apply(self, state: ArtifactTable, line: Line) -> None:
        event = line.event
        if event.kind == "artifact":
            facts = facts_of(event)
            if facts is not None:
                state.note(event.seq, facts.digits)
        elif event.kind == "approval":
            at = moment_of(event, state.latest)
            state.latest = at if state.latest is None else max(at, state.latest)
            for one in _said_by(event, at):
                state.say(one, self.bytes_max)

    def dump(self, state: ArtifactTable) -> bytes:
        return canonical(
            {
                "artifacts": [[*one] for one in state.listed.items()],
                "older": state.older,
                "approvals": [one.row() for one in state.rows()],
                "shed": state.shed,
                "latest": state.latest,
            }
        )

    def load(self, data: bytes) -> ArtifactTable:
        fields: dict[str, Any] = json.loads(data)
        state = self.initial()
        state.listed = dict(fields["artifacts"])
        state.older = fields["older"]
        for row in fields["approvals"]:
            state.say(ApprovalChange.from_row(row), self.bytes_max)
        state.shed = fields["shed"]
        state.latest = fields["latest"] and Moment(*fields["latest"])
        return state


def facts_of(event: Event) -> ArtifactFacts | None:
    """Return the facts in an artifact event's data; None where they are missing or malformed."""
    data = event.data
    digest, stored, size = data.get("sha256"), data.get("stored"), data.get("bytes")
    if event.kind != "artifact" or not is_digest(digest) or not _is_size(size):
        return None
    path, type_ = data.get("path"), data.get("type")
    if stored == REFERENCE:
        if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
            return None
        if len(path) > _PATH_MAX:
            return None
    elif stored != COPY:
        return None
    mime = data.get("mime")
    return ArtifactFacts(
        sha256=digest,
        name=_name(data.get("name")) or digest[:HANDLE_DIGITS],
        mime=mime if isinstance(mime, str) and _MIME.fullmatch(mime) else _UNKNOWN,
        bytes=size,
        stored=str(stored),
        path=str(path) if stored == REFERENCE else "",
        type=str(type_) if type_ in TYPES else "",
        sidecar=_sidecar(data.get("sidecar")),
    )


def is_digest(value: object) -> TypeGuard[str]:
    """Whether this is a SHA-256 as we write it: a name of a file is made of it."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _name(value: object) -> str:
    """A name that leads nowhere and stays on its line; "" where it is none."""
    if not isinstance(value, str) or len(value) > NAME_MAX or value in (".", ".."):
        return ""
    return "" if "/" in value or not value.isprintable() else value.strip()


def _sidecar(value: object) -> Sidecar | None:
    if not isinstance(value, dict) or not is_digest(value.get("sha256")):
        return None
    name, size = _name(value.get("name")), value.get("bytes")
    return Sidecar(name, size, value["sha256"]) if name and _is_size(size) else None


def _said_by(event: Event, at: Moment) -> list[ApprovalChange]:
    undo = event.data.get("undo") is True
    digest = event.data.get("sha256")
    if not undo and not is_digest(digest):
        return []
    named = digest if is_digest(digest) else ""
    kept = Event(
        seq=event.seq,
        id=event.id,
        ts="",
        rec="",
        kind=event.kind,
        ns=event.ns,
        session=event.session,
        key=event.key,
        valid_from=event.valid_from,
        valid_until=event.valid_until,
    )
    return [ApprovalChange(ref, kept, named, undo, at) for ref in dict.fromkeys(event.refs)]


def _moment(one: ApprovalChange) -> Moment:
    return one.moment


def _bytes_of(one: ApprovalChange) -> int:
    return len(canonical(one.row())) + 1


def _size(count: int) -> str:
    """A size as people say it: rounded half up, one decimal below ten."""
    for unit, name in _SIZES:
        if count >= unit:
            tenths = (20 * count + unit) // (2 * unit)
            whole, tenth = divmod(tenths, 10)
            if whole < 10 and tenth:
                return f"{whole}.{tenth} {name}"
            return f"{(2 * count + unit) // (2 * unit)} {name}"
    return f"{count} bytes" if count != 1 else "1 byte"
