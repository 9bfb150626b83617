"""Area G, the tail: the only place for what may change at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from memplane.pack.block import Entry
from memplane.pack.layout import PARTS, Sheet, own_part
from memplane.pack.request import Materials, Request
from memplane.policy import Section
from memplane.recall.suppress import Scope

__all__ = ["TAIL", "fill_tail", "is_own"]

_BY_NAME = {part.name: part for part in PARTS}
TAIL: Final = ("task_state", "tool_state", "expansions", "retrieved_evidence")
_STANDARD: Final = frozenset(part.section for part in PARTS) | {"system_map"}
_OWN_MAX: Final = 50

Filler = Callable[[Section], None]


def is_own(section: Section) -> bool:
    """Whether the policy added the section: it shows views or kinds that it names."""
    return section.name not in _STANDARD and bool(section.views or section.kinds)


def fill_tail(
    sheet: Sheet, sections: list[Section], room: dict[str, int], total: int, fill: Filler
) -> None:
    """Fill the tail's sections by priority; each may also spend what the block has left over.

    `sections` are those of the tail in file order, `total` the tokens of the whole block but its
    frame. A section never passes its max_tokens, nor touches the room of one that comes later.
    Evidence, which can always use more, is filled last: sections of a lower priority spend no more
    than their own room before it, so that what they leave is not lost.
    """
    waiting = sorted(sections, key=_by_priority)  # stable: file order where equal
    evidence = next((s for s in waiting if s.name == "retrieved_evidence"), None)
    if evidence is not None:
        waiting.remove(evidence)
        waiting.append(evidence)
    for at, section in enumerate(waiting):
        later = sum(room.get(other.name, 0) for other in waiting[at + 1 :])
        used = sheet.used.get(section.name, 0)
        free = total - sheet.spent - later
        if evidence is not None and section.priority < evidence.priority:
            free = min(free, room.get(section.name, 0))
        sheet.left[section.name] = max(0, min(section.max_tokens - used, free))
        fill(section)


def _by_priority(section: Section) -> int:
    return -section.priority


def place_elsewhere(
    sheet: Sheet, materials: Materials, request: Request, scope: Scope, epoch: int
) -> None:
    """Decisions of other sessions since the epoch, newest first."""
    for item in reversed(materials.decisions):
        if item.seq <= epoch:
            break
        if request.session is not None and item.session == request.session:
            continue  # its own are turns of its window
        if item.seq not in sheet.seqs and item.role != "tool" and not scope.hides(item):
            source = "projection:decisions"
            sheet.offer(_BY_NAME["elsewhere"], item, tier=1, source=source)


def place_own(sheet: Sheet, materials: Materials, scope: Scope, section: Section) -> None:
    """A section of the policy's own: its views, then the newest events of its kinds."""
    if not section.kinds:
        return
    part = own_part(section.name)
    pool = {item.seq: item for item in (*materials.decisions, *materials.cards)}
    pool.update(materials.hotset.items)
    taken = 0
    for seq in sorted(pool, reverse=True):
        item = pool[seq]
        if item.kind in section.kinds and seq not in sheet.seqs and not scope.hides(item):
            taken += sheet.offer(part, item)
            if taken == _OWN_MAX:
                return


def place_expansions(sheet: Sheet, materials: Materials, scope: Scope) -> None:
    """What the request's handles opened, in the order asked for, each cut where the room ends."""
    part = _BY_NAME["expansions"]
    for expansion in materials.expansions:
        item = expansion.item
        # What stands in the block cut is what a handle is for: only a whole one is not repeated.
        if scope.hides(item) or item.seq in sheet.whole or not expansion.text.strip():
            continue
        form = item.expanded(expansion.text, sheet.room(part), sheet.printer, whole=expansion.whole)
        if form is None:
            sheet.omit(item, part.section, 0, "budget", 0, 1)
            continue
        lines, tokens, whole = form
        ids = (item.id,)
        sheet.put(
            part,
            Entry(
                part.section, part.place, lines, tokens, 0, ids if whole else (),
                () if whole else ids, "event", part.area, item.seq,
            ),
        )  # fmt: skip
