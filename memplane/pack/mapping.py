"""system_map: what is in this memory, in a few fixed lines, for who has just come.

As of the session's epoch, like all of area B: no line changes within a session unless something was
corrected. A name is shown to who may see an event that said it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from memplane.event import GLOBAL
from memplane.pack.block import Entry, Omission
from memplane.pack.layout import PARTS, Sheet
from memplane.pack.request import Materials
from memplane.projections.map_state import Cell, MapState, Name, Witness
from memplane.projections.window import one_line, shown
from memplane.recall.suppress import Scope

__all__ = ["place_map"]

_PART: Final = next(part for part in PARTS if part.name == "map")
# What is counted, in the order of the line, and how many and one of it are called.
_COUNTED: Final = {
    "decision": "decisions", "fact": "facts", "rule": "rules", "preference": "preferences",
    "insight": "insights", "plan": "plans", "observation": "observations", "summary": "summaries",
    "artifact": "artifacts", "message": "messages", "tool_call": "tool calls",
}  # fmt: skip
_LABELS: Final = {
    "tasks": "open tasks", "keys": "keys", "tags": "tags", "namespaces": "namespaces",
    "tools": "tools used",
}  # fmt: skip
# Tags by which importers and hooks tell kinds of turns apart: nobody gave them.
_OF_SOURCES: Final = frozenset(
    ("api-error", "command", "compact", "hook", "interrupted", "meta", "reasoning", "sidechain")
)
_NAMES_MAX: Final = 12  # of a line: those that were said first most recently
_LEAST_EVENTS: Final = 10  # a memory of fewer is seen at a glance
_EXACT_BELOW: Final = 3
_REMEMBERED: Final = 1000  # lines
_MAP_LINE: Final = -1  # in the place of a room: a file may be called like a line
_LEAST: Final = 8  # tokens of the shortest line
_SOURCE: Final = "projection:plane_map"
_AFTER: Final = "decisions"  # stands in the tail where the block is for who has just come


class _Told(NamedTuple):
    """A witness as a scope judges it."""

    seq: int
    id: str
    ts: str
    kind: str
    ns: str
    sensitivity: str
    forgotten: bool
    superseded: bool = False
    valid_from: str | None = None
    valid_until: str | None = None


def place_map(sheet: Sheet, materials: Materials, scope: Scope, upto: int) -> None:
    """The lines that fit, each with the events that stand for its names.

    Where the block is for who has just come and there is room for none, it is said what was short.
    None where tags or importance are asked for.
    """
    # A name's few witnesses say nothing of the tags and importance of the others: no map at all.
    state = materials.plane_map if scope.only is None else None
    orients = sheet.laid[_AFTER].area == "G"
    if state is None or (sheet.room(_PART) < _LEAST and not orients):
        return
    scope = scope.timeless()  # when a name was said does not matter
    least = 0  # tokens of the shortest thing that there was no room for
    counted = _counts(state, scope, upto)
    if counted:
        least = _put(sheet, materials, counted, ())
    for sort, label in _LABELS.items():
        names = _names(state, sort, scope, upto)
        if sort == "namespaces" and [name for name, _ in names] == [GLOBAL]:
            continue  # it says nothing
        while names:  # the newest stay
            said = ", ".join(f"{name}.*" if sort == "keys" else name for name, _ in names)
            ids = tuple(dict.fromkeys(id_ for _, id_ in names))
            lacking = _put(sheet, materials, f"{label}: {said}", ids)
            if not lacking:
                break
            least = min(least or lacking, lacking)
            names = names[max(1, len(names) // 3) :]
    if orients and least and _PART.name not in sheet.placed:
        short_by = max(1, least - sheet.room(_PART))
        sheet.views_omitted.append(
            Omission(_SOURCE, 0, _PART.section, least, "budget", 0, short_by)
        )


def _counts(state: MapState, scope: Scope, upto: int) -> str:
    """What was recorded, at least; nothing for who sees only some namespaces."""
    if scope.ns or scope.task is not None:
        return ""
    reached = {
        kind: state.count(kind, scope.levels, upto) for kind in _COUNTED if kind not in scope.kinds
    }
    if sum(reached.values()) < _LEAST_EVENTS:
        return ""
    told = [f"{_COUNTED[kind]} {_figure(count)}" for kind, count in reached.items() if count]
    sessions = state.session_count(upto) if "session" not in scope.kinds else 0
    if sessions:
        told.append(f"sessions {_figure(sessions)}")
    return f"recorded: {', '.join(told)}"


def _figure(count: int) -> str:
    return str(count) if count < _EXACT_BELOW else f"{count}+"


def _names(state: MapState, sort: str, scope: Scope, upto: int) -> list[tuple[str, str]]:
    """Names in the order of their first saying, each with the id of a witness."""
    found = []
    for name, told in state.names[sort].items():
        if sort == "tasks" and not told.is_open(upto):
            continue
        if sort == "namespaces" and not scope.reaches(name):
            continue
        if sort == "tags" and name in _OF_SOURCES:
            continue
        seen = _visible(told, scope, upto)
        if seen is not None:
            found.append((*seen, one_line(name)))
    found.sort()
    return [(name, id_) for _, id_, name in found[-_NAMES_MAX:]]


def _visible(told: Name, scope: Scope, upto: int) -> tuple[int, str] | None:
    """Since when the reader may know the name, and by which event; None: he may not."""
    found: tuple[int, str] | None = None
    for cell in told.cells.values():
        if cell.first <= upto and (found is None or cell.first < found[0]):
            for one in cell.witnesses:
                if not scope.hides(_seen(cell, one)):
                    found = (cell.first, one.id)
                    break
    return found


def _seen(cell: Cell, one: Witness) -> _Told:
    return _Told(one.seq, one.id, one.ts, cell.kind, cell.ns, cell.sensitivity, one.forgotten)


def _put(sheet: Sheet, materials: Materials, line: str, ids: tuple[str, ...]) -> int:
    """Place a line if it fits; return the tokens of one that does not, else 0."""
    memo, printer = materials.memo, sheet.printer
    key = (line, _MAP_LINE, printer.stamp)
    known = memo.get(key)
    if known is None:
        head, _, rest = printer.redact(line).partition(": ")
        text = shown(head, rest)
        if len(memo) >= _REMEMBERED:
            memo.clear()
        known = memo[key] = (text, printer.counter.count(text), True)
    text, tokens, _ = known
    if tokens > sheet.room(_PART):
        return tokens
    sheet.put(
        _PART,
        Entry(_PART.section, _PART.place, text, tokens, 0, (), ids, _SOURCE, _PART.area),
    )
    return 0
