"""What the next pack of the session will share with this one, and where to mark it for a cache.

Providers keep the beginning of a prompt that they have seen before, up to marks that the caller
sets or by themselves. Everything here follows from one pack; `comparing` holds two against each
other. The rules R1-R9 behind the layout are in ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memplane.pack.render import Rendered
from memplane.pack.request import Materials

if TYPE_CHECKING:
    from memplane.pack.report import Facts
    from memplane.projections.item import Item

__all__ = ["prefix_of"]

_STABLE_UNTIL = {"prompt": "ABCD", "call": "ABCDEF"}


def prefix_of(facts: Facts, rendered: Rendered, materials: Materials) -> dict[str, Any]:
    """What decides how much of this block the next one will share; ids and counts only.

    `stable_bytes` is the length that the next pack of the session and shape starts with: up to
    the end of D where a new prompt comes first (`prompt`), of F where it does not (`call`).
    """
    window, session = facts.window, facts.request.session
    ring = materials.hotset.sessions.get(session) if session is not None else None
    tokens_at = 0
    by_area: dict[str, int] = {}
    for area in "ABCDEFG":
        if area in rendered.ends:
            end = max(tokens_at, rendered.ends[area][1])
            by_area[area] = end - tokens_at
            tokens_at = end
    tail = by_area.get("G", 0)
    return {
        "anchor_seq": window.anchor,
        "epoch_seq": facts.epoch,
        "prompt_seq": facts.prompt,
        "next_anchor_in": window.next_anchor_in,
        "shed_seq": max(
            materials.shed_seq, materials.hotset.shed, ring.shed if ring is not None else 0
        ),
        "map_shed_seq": materials.plane_map.shed_seq if materials.plane_map is not None else 0,
        "gap": materials.gap,
        "tokens_by_area": by_area,
        "tail_ppm": tail * 1_000_000 // max(1, rendered.tokens),
        "stable_bytes": {
            reuse: _end(rendered, areas)[0] for reuse, areas in _STABLE_UNTIL.items()
        },
        "breakpoints": _breakpoints(facts, rendered),
        "below_minimum": (
            _end(rendered, "ABCDEF")[1] < materials.policies.plane.cache.minimum_tokens
        ),
    }  # fmt: skip


def _end(rendered: Rendered, areas: str) -> tuple[int, int]:
    """The byte and token behind the last of these areas; 0 where none is there."""
    return max((rendered.ends[area] for area in areas if area in rendered.ends), default=(0, 0))


def _breakpoints(facts: Facts, rendered: Rendered) -> list[dict[str, Any]]:
    """Where a provider's cache marks belong, at most four of each `reuse`: see messages().

    `reuse` says for which next pack a mark is of use: that of the next `prompt`, of the next model
    `call`, or of `both`.
    """
    points = [
        _point("B", _end(rendered, "AB"), "both"),
        _point("D", _end(rendered, "ABCD"), "both"),
        _point("F", _end(rendered, "ABCDEF"), "call"),
    ]
    starts = {
        entry.seq: at for entry, at in zip(rendered.entries, rendered.at, strict=True) if entry.seq
    }
    window = facts.window
    called = _called(window.after)
    if called is not None and called.seq in starts and "F" in rendered.ends:
        # Where the pack of the call before ended: what it wrote is read up to here.
        points.append(_point("F", starts[called.seq], "call"))
    earlier = [item.seq for item in window.before if item.role == "user" and item.seq in starts]
    if earlier and "D" in rendered.ends:
        # Likewise the D of the pack of the prompt before. A first call reads up to there, too.
        reuse = "prompt" if called is not None else "both"
        points.append(_point("D", starts[earlier[-1]], reuse))
    return sorted((point for point in points if point["byte"]), key=_order)


def _point(part: str, end: tuple[int, int], reuse: str) -> dict[str, Any]:
    return {"part": part, "byte": end[0], "tokens": end[1], "reuse": reuse}


def _order(point: dict[str, Any]) -> tuple[int, str]:
    return point["byte"], point["part"]


def _called(after: tuple[Item, ...]) -> Item | None:
    """The first event behind the last pack but this one, where packs come with each model call.

    The model's newest turn, with all it called, and what tools answered: None where nothing but
    the prompt is there, which no pack was made behind yet.
    """
    found = None
    for item in _back_to_results(after):
        if item.role in ("user", "system"):
            break
        if item.role != "assistant" and found is not None:
            break
        if item.role == "assistant":
            found = item
    return found


def _back_to_results(after: tuple[Item, ...]) -> Iterator[Item]:
    """The events from the newest on, less the answers of tools at the end."""
    at = len(after)
    while at and after[at - 1].role == "tool":
        at -= 1
    return reversed(after[:at])
