"""The report of a pack: where each token went, why the rest stayed out. No text of the block."""

from __future__ import annotations

import hashlib
from collections import Counter
from operator import itemgetter
from typing import Any, Final, NamedTuple

from memplane.errors import NotFoundError
from memplane.pack.allocate import Rooms
from memplane.pack.block import Omission
from memplane.pack.layout import Sheet
from memplane.pack.render import FORM, Rendered
from memplane.pack.request import Materials, Request, View
from memplane.pack.window import Window
from memplane.projections.item import Item
from memplane.recall.retrieval import Retriever

__all__ = ["REPORT_VERSION", "Facts", "report_of"]

REPORT_VERSION: Final = 1
_LISTED: Final = 100


class Facts(NamedTuple):
    """What laying out a block found, for the report."""

    request: Request
    budget: int
    intent: str
    rooms: Rooms
    sheet: Sheet
    window: Window
    epoch: int
    prompt: int
    hidden: dict[str, int]
    left_over: list[Item]
    retriever: Retriever | None = None
    intent_rule: str = ""


def report_of(
    facts: Facts, materials: Materials, rendered: Rendered
) -> tuple[tuple[Omission, ...], dict[str, Any]]:
    """The listed omissions (at most 100, best score first) and the report around them."""
    listed, counts = _omissions(facts, materials.hotset.gaps)
    report: dict[str, Any] = {
        "version": REPORT_VERSION,
        "form": FORM,
        "request": _request(facts),
        "intent": facts.intent,
        "intent_rule": facts.intent_rule,
        "channel": facts.request.channel,
        "budget": facts.budget,
        "counter": facts.sheet.counter.name,
        "tokens": rendered.tokens,
        "frame_tokens": rendered.frame,
        "acb_sha256": hashlib.sha256(rendered.text.encode()).hexdigest(),
        "reason": _reason(facts, rendered),
        "policies": dict(sorted(materials.policies.hashes.items())),
        "views": _views(materials),
        "sections": _sections(facts),
        "entries": [
            {
                "section": entry.section, "place": entry.place, "area": entry.part,
                "tokens": entry.tokens, "score": entry.score, "events": list(entry.events),
                "parts": list(entry.parts), "source": entry.source,
                "score_parts": facts.sheet.score_parts.get(entry.seq, {}), "at": list(at),
            }
            for entry, at in zip(rendered.entries, rendered.at, strict=True)
        ],
        "omissions": {
            "counts": counts,
            # Written out: there are up to a hundred in every pack.
            "listed": [
                {
                    "id": id_, "seq": seq, "section": section, "tokens": tokens,
                    "reason": reason, "score": score, "short_by": short_by,
                }
                for id_, seq, section, tokens, reason, score, short_by in listed
            ],
            "more_decisions": materials.left_more,
        },
        "needs": {"files": facts.sheet.needs.files, "bytes": facts.sheet.needs.bytes},
        "gaps": [
            {"first": first, "last": last, "missing": last - first + 1}
            for first, last in materials.hotset.gaps
        ],
        "candidates": {
            "hotset": len(materials.hotset.items),
            "decisions": len(materials.decisions),
            "cards": len(materials.cards),
            "index": facts.sheet.scanned,
            "scored": facts.sheet.scored,
            "found": facts.sheet.found,
            "bound": materials.policies.budgets.limits.candidate_pool_max,
        },
    }  # fmt: skip
    return listed, report


def _views(materials: Materials) -> dict[str, str]:
    """The hashes of all views that were read, loaded by the channel or opened by a handle."""
    opened = (one for one in materials.expansions if isinstance(one, View))
    return {view.path: view.sha256 for view in (*materials.views, *opened) if not view.lost}


def _request(facts: Facts) -> dict[str, Any]:
    """What was asked; with the `dense_seq` and `index_seq` of the search, it can be asked again."""
    request, retriever = facts.request, facts.retriever
    if retriever is not None:
        request = request._replace(
            dense_seq=retriever.dense_seq, index_seq=retriever.index_seq
        )  # fmt: skip
    return request.as_json()


def _omissions(
    facts: Facts, gaps: list[tuple[int, int]]
) -> tuple[tuple[Omission, ...], dict[str, int]]:
    """The best of what was left out, at most 100, and the counts of all by reason."""
    sheet = facts.sheet
    counts = Counter(facts.hidden)
    counts.update(o.reason for o in sheet.views_omitted)
    counts.update(map(_reason_of, sheet.omitted.values()))
    counts.update(sheet.passed.values())
    counts.subtract(sheet.passed[seq] for seq in sheet.omitted if seq in sheet.passed)
    if sheet.unread:
        counts["limit"] += sheet.unread
    if facts.left_over:
        counts["older"] = len(facts.left_over)
    if gaps:
        counts["gap"] = sum(last - first + 1 for first, last in gaps)
    # By seq, then by score, and what wanted room before what was not wanted: two stable sorts of
    # numbers are quicker than one of pairs.
    rows = sorted(sheet.omitted.items(), key=itemgetter(0), reverse=True)
    ranks = [2 * score + (reason == "budget") for _, (_, _, _, reason, score, _) in rows]
    best = sorted(range(len(rows)), key=ranks.__getitem__, reverse=True)[:_LISTED]
    rows = [rows[at] for at in best]
    listed = [*sheet.views_omitted]
    named = [(_id_of(seq, row[0], facts), seq, row) for seq, row in rows]
    listed += [Omission(id_, seq, *row[1:]) for id_, seq, row in named if id_]
    for item in reversed(facts.left_over[-_LISTED:]):
        listed.append(Omission(item.id, item.seq, "", item.cost, "older", 0, 0))
    return tuple(listed[:_LISTED]), dict(sorted((+counts).items()))


_reason_of = itemgetter(3)


def _id_of(seq: int, item: Item | None, facts: Facts) -> str:
    """The event's id, read from the log where nobody has done so yet; "" where the log lost it."""
    if item is not None:
        return item.id
    assert facts.retriever is not None, "without a search every candidate is an item"
    try:
        return facts.retriever.id(seq)
    except NotFoundError:
        return ""


def _reason(facts: Facts, rendered: Rendered) -> str | None:
    """Why the block is empty, where it is."""
    if rendered.entries:
        return None
    lost = [row[3] for row in facts.sheet.omitted.values()]
    lost += [omission.reason for omission in facts.sheet.views_omitted]
    return "budget" if "budget" in lost else "nothing to show"


def _sections(facts: Facts) -> dict[str, dict[str, int]]:
    rooms = facts.rooms
    return {
        name: {
            "share_ppm": rooms.share_ppm[name],
            "room": rooms.room[name],
            "used": facts.sheet.used.get(name, 0),
            "cap": rooms.cap[name],
        }
        for name in rooms.room
    }
