"""Area G, the tail: the only place for what may change at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from memplane.pack.block import Entry
from memplane.pack.layout import PARTS, Sheet, own_part
from memplane.pack.request import Materials, Request
from memplane.policy import Section
from memplane.projections.item import Item
from memplane.projections.window import shown
from memplane.recall.suppress import Scope

__all__ = ["TAIL", "fill_tail", "is_own"]

_BY_NAME = {part.name: part for part in PARTS}
TAIL: Final = ("task_state", "tool_state", "expansions", "retrieved_evidence")
_STANDARD: Final = frozenset(part.section for part in PARTS) | {"system_map"}
_FILES: Final = 10
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
    """
    waiting = sorted(sections, key=_by_priority)  # stable: file order where equal
    for at, section in enumerate(waiting):
        later = sum(room.get(other.name, 0) for other in waiting[at + 1 :])
        used = sheet.used.get(section.name, 0)
        free = total - sheet.spent - later
        sheet.left[section.name] = max(0, min(section.max_tokens - used, free))
        fill(section)


def _by_priority(section: Section) -> int:
    return -section.priority


def place_tasks(
    sheet: Sheet, materials: Materials, request: Request, scope: Scope, epoch: int
) -> None:
    """The request's task first, then the other open ones; then decisions of other sessions."""
    items = materials.hotset.items
    tasks = [items[seq] for task, seq in materials.hotset.tasks.items() if task != request.task]
    tasks.reverse()
    mine = materials.hotset.tasks.get(request.task or "")
    first = [items[mine]] if mine is not None else []
    for item in first + tasks:
        if not scope.hides(item) and item.seq not in sheet.seqs:
            sheet.offer(_BY_NAME["tasks"], item, tier=0 if item.task == request.task else 1)
    for item in reversed(materials.decisions):
        if item.seq <= epoch:
            break
        if request.session is not None and item.session == request.session:
            continue  # its own are turns of its window
        if item.seq not in sheet.seqs and item.role != "tool" and not scope.hides(item):
            source = "projection:decisions"
            sheet.offer(_BY_NAME["elsewhere"], item, tier=1, source=source)


def place_tools(sheet: Sheet, materials: Materials, scope: Scope) -> None:
    """Recently touched files, newest first; then the last error and call of each tool."""
    hotset = materials.hotset
    for path, (seq, branch) in reversed(list(hotset.files.items())[-_FILES:]):
        item = hotset.items[seq]
        if not scope.hides(item):
            _place_file(sheet, item, path, branch)
    for call, error in reversed(hotset.tools.values()):
        for seq in (error, call):
            if not seq:
                continue
            item = hotset.items[seq]
            if item.seq not in sheet.seqs and not scope.hides(item):
                sheet.offer(_BY_NAME["tools"], item, tier=1)


def _place_file(sheet: Sheet, item: Item, path: str, branch: str) -> None:
    part = _BY_NAME["files"]
    named = " ".join(f"{path} ({branch})".split() if branch else path.split())
    line = shown("file", sheet.printer.redact(named))
    tokens = sheet.counter.count(line)
    if tokens > sheet.room(part):
        return
    # seq 0: naming a file does not render the event that touched it.
    sheet.put(
        part,
        Entry(
            part.section, part.place, line, tokens, 0, (), (item.id,), "projection:hotset",
            part.area,
        ),
    )  # fmt: skip


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
