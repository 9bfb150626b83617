"""Assertions that hold one pack against another: bytes, beginnings, sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memplane.pack.block import Block
from memplane.scenario.finding import Finding, block_of, listed, pack_of, quoted
from memplane.scenario.scene import Scene

__all__ = ["LIKENESS"]


def _identical(scene: Scene, said: Mapping[str, Any]) -> Finding:
    """Every run of one pack has the bytes of every run of the other."""
    packed, other = pack_of(scene, said), pack_of(scene, said, "to")
    expected = f"the bytes of {quoted(other.name)} in {quoted(packed.name)}"
    first = other.last.block.text
    for run in (*other.runs, *packed.runs):
        if run.block.text != first:
            return Finding(False, expected, _difference(first, run.block.text))
    return Finding(True, expected, f"the same {len(first.encode())} bytes")


def _difference(one: str, other: str) -> str:
    """Where two texts part, in the words of both."""
    ours, theirs = one.splitlines(), other.splitlines()
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False), 1):
        if left != right:
            return f"another line {number}: {quoted(right)} instead of {quoted(left)}"
    return f"{len(theirs)} lines instead of {len(ours)}"


def _prefix_kept(scene: Scene, said: Mapping[str, Any]) -> Finding:
    block, earlier = block_of(scene, said), block_of(scene, said, "of")
    reuse = said.get("reuse", "prompt")
    stable: int = earlier.report["prefix"]["stable_bytes"][reuse]
    expected = f"the first {stable} bytes of {quoted(said['of'])} at the beginning ({reuse})"
    if not stable:
        return Finding(False, expected, "nothing stable in it to be kept")
    kept, begins = earlier.text.encode()[:stable], block.text.encode()
    if begins.startswith(kept):
        return Finding(True, expected, "them there", {"stable_bytes": stable})
    same = next(at for at, byte in enumerate(kept) if begins[at : at + 1] != bytes((byte,)))
    return Finding(False, expected, f"{same} of them; then {quoted(_at(begins, same))}")


def _at(data: bytes, place: int) -> str:
    """The line in which a byte stands."""
    start = data.rfind(b"\n", 0, place) + 1
    end = data.find(b"\n", place)
    return data[start : end if end >= 0 else None].decode(errors="replace")


def _same_sections(scene: Scene, said: Mapping[str, Any]) -> Finding:
    ours, theirs = _by_section(block_of(scene, said)), _by_section(block_of(scene, said, "to"))
    but = said.get("but", [])
    differ = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    expected = f"the sections of {quoted(said['to'])}"
    expected += f", other ones in {listed(but)} alone" if but else ""
    found = f"other ones in {listed(differ)}" if differ else "all the same"
    return Finding(sorted(differ) == sorted(but), expected, found)


def _by_section(block: Block) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for entry in block.entries:
        sections.setdefault(entry.section, []).append(entry.text)
    return sections


LIKENESS: Final = {
    "identical": _identical,
    "prefix_kept": _prefix_kept,
    "same_sections": _same_sections,
}
