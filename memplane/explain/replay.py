"""A saved pack made again: the same log prefix, policies, views and request give the same bytes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from memplane import nofollow
from memplane.errors import CorruptError, MemplaneError
from memplane.home import VERSION
from memplane.pack.block import Block
from memplane.pack.render import FORM
from memplane.upkeep.reports import Saved, kept_bytes_path

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = ["MissingInput", "Replay", "asked_of", "plane_of", "replay_pack"]


class MissingInput(NamedTuple):
    """Something that a report names and that is not there: `what` (policy, view, log), `name`."""

    what: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} {self.name}: {self.why}"


class Replay(NamedTuple):
    """A pack made again. `same`: byte for byte what it was.

    `block` is None where too much is lost to make any; `lost` names what could not be found. A
    block made without a view that is lost is another one than it was.
    """

    saved: Saved
    block: Block | None
    same: bool
    lost: tuple[MissingInput, ...]
    note: str  # what else may make it another one, "" if nothing is known

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "report": self.saved.id,
            "same": self.same,
            "acb_sha256": self.saved.report["acb_sha256"],
            "found_sha256": None if self.block is None else _hash(self.block.text),
            "lost": [lost._asdict() for lost in self.lost],
            "note": self.note,
            "text": None if self.block is None else self.block.text,
        }


def replay_pack(plane: Plane, saved: Saved) -> Replay:
    """Make the pack of a report again, under the policies and views that it names.

    Reads only. What else was recorded since, and what policies and views have become, changes
    nothing.
    """
    then, lost = plane_of(plane, saved)
    block, note = None, ""
    if then is not None:
        with then:
            try:
                block = then.pack(**asked_of(saved))
            except MemplaneError as error:
                note = f"the pack cannot be made now: {error}"
    same = block is not None and _hash(block.text) == saved.report["acb_sha256"]
    if block is not None and not same:
        lost += _files(saved, block)
        note = note or ("" if lost else _note(saved, block))
    return Replay(saved, block, same, tuple(lost), note)


def plane_of(plane: Plane, saved: Saved) -> tuple[Plane | None, list[MissingInput]]:
    """The plane as a report saw it, read only, and what of it is lost.

    None where the log has another past, or a policy is lost: what stands for it would be a guess.
    Close the plane when done.
    """
    files, lost = _snapshots(plane, saved)
    lost += _log(plane, saved)
    if any(one.what in ("policy", "log") for one in lost):
        return None, lost
    return plane.under(files, saved.report["log"]["seq"]), lost


def asked_of(saved: Saved) -> dict[str, Any]:
    """The request of a report, as `pack` takes it."""
    asked = dict(saved.report["request"])
    asked.setdefault("as_of", saved.report["log"]["seq"])
    return asked


def _snapshots(plane: Plane, saved: Saved) -> tuple[dict[str, bytes], list[MissingInput]]:
    """The bytes of policies and views that the report names, by path under the home."""
    report, files, lost = saved.report, dict[str, bytes](), list[MissingInput]()
    named = [("policy", f"policies/{name}", one) for name, one in report["policies"].items()]
    named += [("view", path, one) for path, one in report["views"].items()]
    for what, path, sha256 in named:
        file = kept_bytes_path(plane.home, sha256)
        try:
            data = nofollow.read_bytes(file, home=plane.home)
        except OSError:
            lost.append(
                MissingInput(what, path, f"its bytes are not in bodies/ (sha256 {sha256[:12]})")
            )
            continue
        if hashlib.sha256(data).hexdigest() != sha256:
            lost.append(
                MissingInput(what, path, f"bodies/ has other bytes for sha256 {sha256[:12]}")
            )
            continue
        files[path] = data
    return files, lost


def _files(saved: Saved, block: Block) -> list[MissingInput]:
    """The artifacts whose file is not what it was: the pack of then showed what this one cannot."""
    shown = {id_ for one in saved.report["entries"] for id_ in (*one["events"], *one["parts"])}
    lost = dict.fromkeys(o.id for o in block.omissions if o.reason == "changed" and o.id in shown)
    return [
        MissingInput("artifact", id_, "its file is gone, or another than was added") for id_ in lost
    ]


def _log(plane: Plane, saved: Saved) -> list[MissingInput]:
    """Whether this log is the one that the pack was made of, up to its last event."""
    seq, digest = saved.report["log"]["seq"], saved.report["log"]["h"]
    if not seq:
        return []
    if seq > plane.head().seq:
        found = f"it ends at event {plane.head().seq}"
        return [MissingInput("log", f"event {seq}", f"this log is shorter: {found}")]
    try:
        line = plane.context.log.line(seq)
    except CorruptError as error:
        return [MissingInput("log", f"event {seq}", str(error))]
    if line is None:
        return [
            MissingInput("log", f"event {seq}", "its line does not verify; see `memplane verify`")
        ]
    if line.event.h != digest:
        found = f"its hash is {line.event.h}, the report has {digest}"
        return [MissingInput("log", f"event {seq}", f"another log: {found}")]
    return []


def _note(saved: Saved, block: Block) -> str:
    """What is known to make another block of the same inputs."""
    made = saved.report.get("memplane")
    if made != VERSION:
        return f"made by memplane {made or 'of an unknown version'}, this is {VERSION}"
    form = saved.report.get("form", 1)
    if form != FORM:
        return f"made in form {form} of blocks, this one is {FORM}: entries are printed otherwise"
    if block.report["gaps"] != saved.report["gaps"]:
        return "other parts of the log can be read now than then; see `memplane verify`"
    return "the inputs are the same, the block is not: please report this as a bug"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
