"""How far an index of a plane reaches: the position in the log that its manifest names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memplane.harness import variant_with
from memplane.lazy import late
from memplane.ports import Head

# Tables and stems are imported where they are used first: a process that searches nothing does
# without.
if TYPE_CHECKING:
    from pathlib import Path

    from memplane.index import storage
    from memplane.policy import Policies
    from memplane.recall import documents
else:
    storage = late("memplane.index.storage")
    documents = late("memplane.recall.documents")

__all__ = ["Progress", "kept_upto", "mark_of", "position_named", "variant_of"]

Progress = Callable[[int, int], None]  # events done, events there are


def variant_of(policies: Policies) -> str:
    """Name all that decides which documents a log gives, beside the analyser."""
    made = f"documents {documents.VERSION}, results {policies.plane.tool_result_tokens}"
    return variant_with(made)


def mark_of(position: Head) -> str:
    """Name a place in the log, for the index's manifest."""
    return f"{position.h} {position.segment} {position.offset}"


def position_named(seq: int, mark: str) -> Head | None:
    """Return the place in the log that a mark names; None where it names none."""
    parts = mark.split(" ")
    if len(parts) != len(Head._fields) - 1 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return Head(seq, parts[0], int(parts[1]), int(parts[2]))


def kept_upto(home: Path, plane: str, policies: Policies) -> Head | None:
    """Return up to where an index is kept in a home; None where none is, or one of other rules."""
    manifest = storage.read_manifest(home / "index", plane, variant_of(policies))
    return None if manifest is None else position_named(manifest.seq, manifest.mark)
