"""What an assertion found, and how it asks a scene for what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from memplane.intake.redact import masked
from memplane.pack.block import Block
from memplane.scenario.scene import Pack, Packed, Scene

__all__ = ["Finding", "block_of", "blocks_of", "listed", "pack_of", "quoted", "texts"]

_SHOWN_MAX = 80


class Finding(NamedTuple):
    """One assertion held against what happened. `figures` are numbers for the report."""

    passed: bool
    expected: str
    found: str
    figures: dict[str, float] = {}  # noqa: RUF012 - read only


def pack_of(scene: Scene, said: Mapping[str, Any], key: str = "pack") -> Packed:
    """The packs that an assertion names, else the last that were made."""
    if key in said:
        return scene.packs[said[key]]
    return next(reversed(scene.packs.values()))


def block_of(scene: Scene, said: Mapping[str, Any], key: str = "pack") -> Block:
    """The last block of those packs."""
    return pack_of(scene, said, key).last.block


def blocks_of(scene: Scene, said: Mapping[str, Any]) -> list[tuple[str, Pack]]:
    """Every pack that a limit is for: of the name given, else all; each with its name."""
    chosen = [scene.packs[said["pack"]]] if "pack" in said else scene.packs.values()
    return [(packed.name, run) for packed in chosen for run in packed.runs]


def texts(said: Mapping[str, Any], key: str) -> list[str]:
    """One text or several, as a list; none where the key is left out."""
    value = said.get(key, [])
    return [value] if isinstance(value, str) else list(value)


def quoted(text: str) -> str:
    """A text as it stands in a message: on one line, not too long."""
    line = " ".join(text.split())
    line = masked(line)  # before it is cut: of a part of a token no rule knows the rest
    return f"`{line if len(line) <= _SHOWN_MAX else line[:_SHOWN_MAX] + '…'}`"


def listed(words: Iterable[str], none: str = "none") -> str:
    """Several words in a message, the first few of many."""
    every = list(words)
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return (", ".join(every[:5]) + more) or none
