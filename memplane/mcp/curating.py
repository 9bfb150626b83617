"""`memory_curate`: a packed block, and what it is made of, together within one cap."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from memplane.errors import InputError, NotFoundError
from memplane.mcp.desk import Desk
from memplane.mcp.fitting import Answer, Cap
from memplane.pack.block import Block, Entry

__all__ = ["curate"]

_HANDLE: Final = re.compile(r"(?:expand://\S+|#\d+)$", re.MULTILINE)
_BUDGET_MIN: Final = 40
_REST: Final = "memplane://report has all of them"


def curate(desk: Desk, given: dict[str, Any]) -> Answer:
    """Pack for the server's session; three quarters of the cap are the block's, at first.

    Written as JSON, a block takes more tokens than it has. Where a small list of its entries does
    not find room behind it, it is packed again, smaller. Same plane, same arguments: same answer.
    """
    cap, budget = desk.cap(given), given["max_tokens"] * 3 // 4
    held = _held(desk)
    while True:
        block = desk.plane.pack(
            given["query"], budget=budget, intent=given["mode"],
            session=desk.session, task=given.get("task"), held_seq=held, save_report=True,
            tag=given.get("tags"), without_tag=given.get("without_tags"),
            importance_min=given.get("importance_min"), progress=desk.tell, **desk.who,
        )  # fmt: skip
        try:
            return _answer(block, cap)
        except InputError:
            if budget < _BUDGET_MIN:
                raise
        budget = budget * 7 // 8


def _held(desk: Desk) -> int | None:
    """The seq behind which the client has before it what its session said.

    None where it has nothing of it: the session is over, so the client that is still there is at
    another one (`/clear`).
    """
    if desk.held is None:
        return None
    with suppress(NotFoundError):
        if desk.plane.sessions.get(desk.session, **desk.who).status == "ended":
            return None
    return desk.held(desk.plane.home)


def _answer(block: Block, cap: Cap) -> Answer:
    rows = [(_entry(one), _handles(one)) for one in block.entries]
    data = cap.rows(rows, lambda count: _data(block, count))
    words = [block.text.rstrip("\n"), data.get("note", "")]
    return Answer(cap.words("\n".join(filter(None, words))), data)


def _data(block: Block, count: int) -> dict[str, Any]:
    entries = block.entries[:count]
    data: dict[str, Any] = {
        "text": block.text,
        "tokens": block.tokens,
        "entries": [_entry(one) for one in entries],
        "handles": list(dict.fromkeys(one for each in entries for one in _handles(each))),
        "omissions": dict(block.report["omissions"]["counts"]),
    }
    if not block.entries:
        data["note"] = f"an empty block: {block.report['reason']}"
    elif count < len(block.entries):
        data["note"] = f"{len(block.entries) - count} entries are in the text alone; {_REST}"
    return data


def _entry(entry: Entry) -> dict[str, Any]:
    ids = [*entry.events, *entry.parts] or [entry.source]
    return {"section": entry.section, "ids": ids, "tokens": entry.tokens}


def _handles(entry: Entry) -> list[str]:
    """What the entry's own lines end in; only an entry that shows a part of something has any."""
    return _HANDLE.findall(entry.text) if entry.parts else []
