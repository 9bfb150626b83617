"""Two packs of one session held against each other: what is repeated, what broke, what it costs.

Works on reports alone, which hold no text: each says where its entries end, and the hash of the
block up to there. A difference is therefore found to the entry, not to the letter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.pack.block import Block

if TYPE_CHECKING:
    from memplane.policy.plane import CachePrices

__all__ = ["CAUSES", "Cost", "Story", "chain_of", "compared", "cost_of", "marks_of", "shape_of"]

Report = dict[str, Any]

# Why a pack may begin otherwise than the one before it, in the order in which they are looked for:
# R9, and what an owner or a clock may do besides.
CAUSES: Final = (
    "policy", "view", "gap", "epoch", "anchor", "superseded", "forgotten",
    "evicted", "purged", "expired", "unforgotten", "approval", "pin", "shed", "map shed", "index",
    "ring", "unexplained",
)  # fmt: skip
# Places in a report's prefix that follow from the log alone, by what it is called when they move.
_MOVES: Final = {
    "gap": "gap", "epoch": "epoch_seq", "anchor": "anchor_seq", "shed": "shed_seq",
    "map shed": "map_shed_seq",
}  # fmt: skip
_HEX: Final = 12
_MILLION: Final = 1_000_000
# What may differ between packs of one shape.
_NOT_SHAPE: Final = frozenset(
    ("query", "query_event", "as_of", "now", "exclude", "held_seq", "dense_seq", "index_seq")
)


class Story(NamedTuple):
    """What the log says between two packs.

    `gone` has the reason why an event that an id names is out of force, None where it is not;
    `corrected` the first reason that an event in between gives for a change in an area, None
    without one.
    """

    gone: Callable[[str], str | None]
    corrected: Callable[[str], str | None]
    ring: Callable[[], bool]  # whether events that evidence was taken from have left the ring


class Cost(NamedTuple):
    """Tokens of a block by what they cost; `price` in thousandths of a fresh token."""

    fresh: int
    written: int
    read: int
    price: int


def shape_of(report: Report) -> str:
    """Name what packs must have in common to be compared: session, budget, channel, and so on."""
    asked = {k: v for k, v in report["request"].items() if k not in _NOT_SHAPE}
    asked |= {"budget": report["budget"], "channel": report["channel"]}  # those in force
    lines = "\n".join(f"{key}={value!r}" for key, value in sorted(asked.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:8]


def chain_of(block: Block) -> list[list[Any]]:
    """Where each entry ends, as byte, tokens and the hash of the block up to there."""
    raw, digest, done = block.text.encode(), hashlib.sha256(), 0
    rows: list[list[Any]] = []
    for entry, said in zip(block.entries, block.report["entries"], strict=True):
        byte, tokens = said["at"]
        end = byte + len(entry.text.encode())
        digest.update(raw[done:end])
        rows.append([end, tokens + entry.tokens, digest.copy().hexdigest()[:_HEX]])
        done = end
    return rows


def compared(old: Report | None, new: Report, name: str | None, story: Story) -> dict[str, Any]:
    """The part of a report's `prefix` that needs an earlier report, `name` being that one's."""
    if old is None:
        return {
            "compared_with": None, "common_bytes": 0, "common_tokens": 0, "share_ppm": 0,
            "stable_kept": None, "break": None,
        }  # fmt: skip
    same = _same(old, new)
    byte, tokens = new["prefix"]["chain"][same - 1][:2] if same else (0, 0)
    stable = _stable(old, new)
    broken = None
    if same < stable:
        entry = old["entries"][same]
        broken = {
            "section": entry["section"], "area": entry["area"],
            "events": [*entry["events"], *entry["parts"]],
            "cause": cause(old, new, entry, story),
        }  # fmt: skip
    return {
        "compared_with": name, "common_bytes": byte, "common_tokens": tokens,
        "share_ppm": tokens * _MILLION // max(1, new["tokens"]),
        "stable_kept": broken is None, "break": broken,
    }  # fmt: skip


def _same(old: Report, new: Report) -> int:
    """How many entries stand in both from the first on, at the same place with the same bytes."""
    pairs = zip(old["prefix"]["chain"], new["prefix"]["chain"], strict=False)
    count = 0
    for one, two in pairs:
        if one != two:
            break
        count += 1
    return count


def _stable(old: Report, new: Report) -> int:
    """How many entries of the older pack the newer one should begin with (R9)."""
    same_prompt = old["prefix"]["prompt_seq"] == new["prefix"]["prompt_seq"]
    areas = "ABCDEF" if same_prompt else "ABCD"
    count = 0
    for entry in old["entries"]:
        if entry["area"] not in areas:
            break
        count += 1
    return count


def cause(old: Report, new: Report, entry: dict[str, Any], story: Story) -> str:
    """Why the entry of the older pack does not stand in the newer one where it stood: of CAUSES."""
    was, now = old["prefix"], new["prefix"]
    for name in ("policies", "views"):
        if old[name] != new[name]:
            return "policy" if name == "policies" else "view"
    moved = [name for name in _MOVES if was[_MOVES[name]] != now[_MOVES[name]]]
    # The head does not move with the window, nor the window with the head.
    usual = ("gap", "epoch") if entry["area"] in "AB" else ("gap", "anchor")
    found = next((name for name in usual if name in moved), None)
    gone = (story.gone(id_) for id_ in (*entry["events"], *entry["parts"]))
    found = found or next(filter(None, gone), None) or story.corrected(entry["area"])
    if found is not None:
        return found
    if entry["area"] == "E" and len({one["request"].get("index_seq") for one in (old, new)}) > 1:
        return "index"  # more of the log could be searched
    if moved:
        return moved[0]
    return "ring" if story.ring() else "unexplained"


def marks_of(report: Report, reuse: str, most: int) -> list[tuple[int, int, str]]:
    """The cache marks of a block: byte, tokens and the hash of the text before, first to last."""
    chain = {byte: (tokens, digest) for byte, tokens, digest in report["prefix"]["chain"]}
    points = [
        point for point in report["prefix"]["breakpoints"] if point["reuse"] in ("both", reuse)
    ]
    found = [(p["byte"], *chain[p["byte"]]) for p in points if p["byte"] in chain]
    return list(dict.fromkeys(found))[-most or len(found) :] if most else []


def cost_of(
    report: Report, reuse: str, prices: CachePrices, *, known: Collection[tuple[int, str]],
    common_tokens: int,
) -> Cost:  # fmt: skip
    """What the block costs where the prefixes in `known` (byte, hash) are in the cache.

    `common_tokens` are those that it repeats from the pack before, for providers that find the
    prefix by themselves.
    """
    total, least = report["tokens"], prices.minimum_tokens
    read = written = 0
    if prices.marks:
        marks = [mark for mark in marks_of(report, reuse, prices.marks) if mark[1] >= least]
        read = max((t for byte, t, digest in marks if (byte, digest) in known), default=0)
        written = marks[-1][1] - read if marks else 0
    elif common_tokens >= least:
        read = common_tokens // prices.step_tokens * prices.step_tokens
    fresh = total - read - written
    price = fresh * 1_000 + written * prices.write + read * prices.read
    return Cost(fresh, written, read, price)
