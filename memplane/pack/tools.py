"""tool_state in the tail: the files of the session, then the last error and call of each tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from memplane.pack.block import Entry
from memplane.pack.layout import PARTS, Sheet
from memplane.pack.request import Materials, Request
from memplane.projections.files import FILES, FilesState, FileTouch
from memplane.projections.hotset import HotsetState
from memplane.projections.item import Item
from memplane.projections.window import entry_lines, one_line
from memplane.recall.files import guess
from memplane.recall.suppress import Scope

__all__ = ["guessed_files", "naming_texts", "own_files", "place_files", "place_tools"]

_SHOWN: Final = 10
_REMEMBERED: Final = 1000  # lines and views
_LEAST: Final = 4  # tokens of the shortest line that names a file
_FILES_PART: Final = next(part for part in PARTS if part.name == "files")
_TOOLS_PART: Final = next(part for part in PARTS if part.name == "tools")


class File(NamedTuple):
    """A file to show, and the event that stands for it: its newest touch that may be seen."""

    path: str
    branch: str
    id: str
    source: str  # of the entry


def place_files(
    sheet: Sheet, materials: Materials, request: Request, scope: Scope, query: str
) -> None:
    """The session's own files, the warmest first; before its first touch those it may need.

    Without a session: the files of all, the newest touch first.
    """
    if sheet.room(_FILES_PART) < _LEAST:
        return
    if materials.files is None:
        files = own_files(materials.hotset, request.session, scope)
    else:
        branch = materials.files.branch_of(request.session, scope.hides)
        files = guessed_files(materials.files, materials, scope, query, branch)
    for file in files[:_SHOWN]:
        _place(sheet, file, materials.memo)


def own_files(hotset: HotsetState, session: str | None, scope: Scope) -> list[File]:
    """The files that the session touched, or all sessions where it is None, as far as visible."""
    if session is not None:
        table = hotset.files.get(session)
        found = table.warmest() if table is not None else []
    else:
        newest: dict[str, FileTouch] = {}
        for table in hotset.files.values():
            for path, touch in table.touches.items():
                if path not in newest or touch.seq > newest[path].seq:
                    newest[path] = touch
        found = sorted(newest.items(), key=lambda one: -one[1].seq)[: 2 * FILES]
    return [
        File(path, touch.branch, hotset.items[touch.seq].id, "projection:hotset")
        for path, touch in found
        if not scope.hides(hotset.items[touch.seq])
    ]


def guessed_files(
    state: FilesState, materials: Materials, scope: Scope, query: str, branch: str
) -> list[File]:
    """The files that a session on this branch may need for the query."""
    texts = naming_texts(materials.hotset, materials.decisions, scope)
    found = guess(state, scope, query=query, branch=branch, named=texts, limit=_SHOWN)
    return [
        File(one.path, one.touch.episode.branch, one.touch.id, "projection:files") for one in found
    ]


def naming_texts(hotset: HotsetState, decisions: Sequence[Item], scope: Scope) -> Iterator[str]:
    """Texts that may name a file: the last error of each tool, then decisions, newest first."""
    errors = (hotset.items[error] for _, error in reversed(hotset.tools.values()) if error)
    for item in (*errors, *reversed(decisions)):
        if not scope.hides(item):
            yield item.text


def place_tools(sheet: Sheet, materials: Materials, scope: Scope) -> None:
    """The last error and the last call of each tool, the tool used last first."""
    hotset = materials.hotset
    for call, error in reversed(hotset.tools.values()):
        for seq in (error, call):
            if not seq:
                continue
            item = hotset.items[seq]
            if item.seq not in sheet.seqs and not scope.hides(item):
                sheet.offer(_TOOLS_PART, item, tier=1)


def _place(
    sheet: Sheet, file: File, memo: dict[tuple[str, int, str], tuple[str, int, bool]]
) -> None:
    named = f"{file.path} ({file.branch})" if file.branch else file.path
    known = memo.get((named, 0, sheet.printer.stamp))
    if known is None:
        line = entry_lines("file", sheet.printer.redact(one_line(named)))
        if len(memo) >= _REMEMBERED:
            memo.clear()
        known = memo[named, 0, sheet.printer.stamp] = (line, sheet.counter.count(line), True)
    line, tokens, _ = known
    placed = sheet.placed.get(_FILES_PART.name, ())
    if tokens > sheet.room(_FILES_PART) or any(entry.text == line for entry in placed):
        return
    part = _FILES_PART
    # seq 0: naming a file does not render the event that touched it.
    entry = Entry(part.section, part.place, line, tokens, 0, (), (file.id,), file.source, part.area)
    sheet.put(part, entry)
