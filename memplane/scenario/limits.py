"""Assertions about what packs cost: tokens, time, candidates, files, bytes, sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from memplane.scenario.finding import Finding, block_of, blocks_of, quoted
from memplane.scenario.scene import Pack, Scene

__all__ = ["LIMITS", "p95", "percentile"]

_MS: Final = 1_000_000  # nanoseconds


def percentile(values: list[int], percent: int) -> int:
    """The value that so many percent of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def p95(packs: list[Pack]) -> float:
    """How long packs take, in milliseconds: 95 of 100 no longer."""
    return round(percentile([pack.ns for pack in packs], 95) / _MS, 3)


def _most(unit: str, of: Callable[[Pack], int]) -> Callable[[Scene, Mapping[str, Any]], Finding]:
    """An assertion that no pack has more of something."""

    def check(scene: Scene, said: Mapping[str, Any]) -> Finding:
        packs = blocks_of(scene, said)
        most, name = max(((of(pack), name) for name, pack in packs), key=lambda one: one[0])
        of_many = f", the most of {len(packs)} packs" if len(packs) > 1 else ""
        return Finding(
            most <= said["max"], f"at most {said['max']} {unit}",
            f"{most} in {quoted(name)}{of_many}", {"most": most},
        )  # fmt: skip

    return check


def _tokens(pack: Pack) -> int:
    """What a block costs: what it says, or what is counted anew, whichever is more."""
    return max(pack.block.tokens, pack.counted)


def _candidates(pack: Pack) -> int:
    scored: int = pack.block.report["candidates"]["scored"]
    return scored


def _files(pack: Pack) -> int:
    files: int = pack.block.report["io"]["files"]
    return files


def _bytes(pack: Pack) -> int:
    read: int = pack.block.report["io"]["bytes"]
    return read


def _latency(scene: Scene, said: Mapping[str, Any]) -> Finding:
    """Of each name's packs on its own: the slowest name decides."""
    by_name: dict[str, list[Pack]] = {}
    for name, pack in blocks_of(scene, said):
        by_name.setdefault(name, []).append(pack)
    slowest, name = max((p95(packs), name) for name, packs in by_name.items())
    count = len(by_name[name])
    aim = {"aim": float(said["aim"])} if "aim" in said else {}
    wished = f" (our aim: {said['aim']})" if aim else ""
    return Finding(
        slowest <= said["max"], f"a p95 of at most {said['max']} ms{wished}",
        f"{slowest:.1f} ms in {quoted(name)}, of {count} {'pack' if count == 1 else 'packs'}",
        {"p95_ms": slowest, "max_ms": float(said["max"]), **aim},
    )  # fmt: skip


def _section_tokens(scene: Scene, said: Mapping[str, Any]) -> Finding:
    block, name = block_of(scene, said), said["section"]
    sections = block.report["sections"]
    if name not in sections:
        there = ", ".join(sections)
        return Finding(False, f"a section {quoted(name)}", f"none; the block has {there}")
    used = sections[name]["used"]
    least, most = said.get("min", 0), said.get("max")
    bounds = f"{least} to {most}" if most is not None else f"at least {least}"
    passed = least <= used and (most is None or used <= most)
    return Finding(passed, f"{bounds} tokens in {name}", f"{used}", {"tokens": used})


LIMITS: Final = {
    "acb_max_tokens": _most("tokens", _tokens),
    "acb_build_latency_p95_ms": _latency,
    "acb_candidate_scan_max": _most("candidates scored", _candidates),
    "acb_file_reads_max": _most("files opened", _files),
    "acb_bytes_read_max": _most("bytes read", _bytes),
    "section_tokens": _section_tokens,
}
