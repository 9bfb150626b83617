"""Planes made for one measurement, in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from memplane.evaluate.dataset import Conversation
from memplane.importers import import_paths
from memplane.plane import Plane
from memplane.ports import Index, TokenCounter

__all__ = ["Builders", "Recorded", "recorded"]


class Builders(NamedTuple):
    """What makes the parts, handed in by whoever may know their names.

    `make_plane` makes a plane in an empty folder and opens it, under policies (file name -> bytes;
    a file left out is memplane's default). `make_counter` takes a name and a scale in millionths.
    `make_index` makes an empty index.
    """

    make_plane: Callable[[Path, Mapping[str, bytes]], Plane]
    make_counter: Callable[[str, int], TokenCounter]
    make_index: Callable[[], Index]


class Recorded(NamedTuple):
    """A plane with conversations in it, and what the importer did not take of them."""

    plane: Plane
    events: int
    refused: list[str]


@contextmanager
def recorded(
    conversations: list[Conversation], builders: Builders, policies: Mapping[str, bytes],
    progress: Callable[[int, int, int], None] | None = None,
) -> Iterator[Recorded]:  # fmt: skip
    """Give a plane that holds the conversations, imported as anybody would, one after the other.

    `progress` is the importer's: bytes done, bytes in all, events recorded.
    """
    with tempfile.TemporaryDirectory(prefix="memplane-eval-") as folder:
        source = Path(folder, "events.jsonl")
        with source.open("wb") as file:
            for conversation in conversations:
                file.writelines(line + b"\n" for line in conversation.lines)
        with builders.make_plane(Path(folder, "plane"), policies) as plane:
            _ = plane.policies  # broken ones are named before anything is recorded
            report = import_paths(plane, "jsonl", [source], progress=progress)
            refused = [f"{row.id}: {row.message}" for row in report.refused]
            yield Recorded(plane, report.events, refused)
