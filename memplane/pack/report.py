"""The report of a pack: where each token went, why the rest stayed out. No text of the block."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import NotFoundError
from memplane.lazy import NamedTuple, late, word_set
from memplane.pack.block import Block, Omission
from memplane.pack.evidence import Reminder
from memplane.pack.layout import DECISIONS, FORM, Rendered, Rooms, Sheet
from memplane.pack.request import Materials, PackContext, Request, View
from memplane.ports import Retriever
from memplane.projections.item import Item, Printer
from memplane.recall.suppress import WITHHELD, Scope

if TYPE_CHECKING:
    from memplane.pack import expansion_depths as pack_expansion_depths
    from memplane.policy.records import CachePrices
else:
    pack_expansion_depths = late("memplane.pack.expansion_depths")

REPORT_VERSION: Final = 1
_LISTED: Final = 100


class LayoutFacts(NamedTuple):
    """What laying out a block found, for the report.

    `hidden` counts suppressed candidates by reason; `left_over` are visible ones that no section
    looked at, in log order.
    """

    budget: int
    rooms: Rooms
    sheet: Sheet
    context: PackContext
    intent_rule: str
    hidden: dict[str, int]
    left_over: list[Item]
    retriever: Retriever[Scope, Item] | None = None
    reminder: Reminder = Reminder()  # a tuple, whose fields nobody changes


def pack_report(
    facts: LayoutFacts, rendered: Rendered, request: Request
) -> tuple[tuple[Omission, ...], dict[str, Any]]:
    """The listed omissions (at most 100, best score first) and the report around them.

    `request` is written into the report as it is.
    """
    materials = facts.context.materials
    listed, counts = _omissions(facts, materials.hotset.gaps)
    report: dict[str, Any] = {
        "version": REPORT_VERSION,
        "form": FORM,
        "request": request.as_json(),
        "intent": facts.context.intent,
        "intent_rule": facts.intent_rule,
        "channel": request.channel,
        "budget": facts.budget,
        "counter": facts.sheet.counter.name,
        "tokens": rendered.tokens,
        "frame_tokens": rendered.frame,
        "acb_sha256": hashlib.sha256(rendered.text.encode()).hexdigest(),
        "reason": _reason(facts, rendered),
        "policies": dict(sorted(materials.policies.hashes.items())),
        "views": _views(materials),
        "sections": _sections(facts),
        "entries": list(_entries(facts, rendered)),
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
        "candidates": _candidates(materials, facts.sheet),
    }  # fmt: skip
    return listed, report


def _entries(facts: LayoutFacts, rendered: Rendered) -> Iterator[dict[str, Any]]:
    for entry, at in zip(rendered.entries, rendered.at, strict=True):
        yield {
            "section": entry.section,
            "place": entry.place,
            "area": entry.part,
            "tokens": entry.tokens,
            "score": entry.score,
            "events": list(entry.events),
            "parts": list(entry.parts),
            "source": entry.source,
            "score_parts": facts.sheet.score_parts.get(entry.seq, {}),
            "at": list(at),
        }


def _candidates(materials: Materials, sheet: Sheet) -> dict[str, int]:
    """Counts of events: in each projection, found in the index, scored, answering the query."""
    return {
        "hotset": len(materials.hotset.items),
        "decisions": len(materials.decisions),
        "cards": len(materials.cards),
        "index": sheet.scanned,
        "scored": sheet.scored,
        "found": sheet.found,
        "bound": materials.policies.budgets.limits.candidate_pool_max,
    }


def _views(materials: Materials) -> dict[str, str]:
    """The hashes of all views that were read, loaded by the channel or opened by a handle."""
    opened = (one for one in materials.expansions if isinstance(one, View))
    return {view.path: view.sha256 for view in (*materials.views, *opened) if not view.lost}


def _omissions(
    facts: LayoutFacts, gaps: list[tuple[int, int]]
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


def _id_of(seq: int, item: Item | None, facts: LayoutFacts) -> str:
    """The event's id, read from the log where it was not read yet; "" where the log lost it."""
    if item is not None:
        return item.id
    assert facts.retriever is not None, "without a search every candidate is an item"
    try:
        return facts.retriever.id(seq)
    except NotFoundError:
        return ""


def _reason(facts: LayoutFacts, rendered: Rendered) -> str | None:
    """Why the block is empty, where it is."""
    if rendered.entries:
        return None
    lost = [row[3] for row in facts.sheet.omitted.values()]
    lost += [omission.reason for omission in facts.sheet.views_omitted]
    return "budget" if "budget" in lost else "nothing to show"


def _sections(facts: LayoutFacts) -> dict[str, dict[str, int]]:
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


# Candidates that no section looked at, and names in a request that nothing is known of.


def unknown_names(context: PackContext, printer: Printer) -> list[str]:
    """`session` and `task` of the request, where its reader can see nothing of them.

    A name that only a search of the log could find counts as known. What may not be seen is treated
    as missing; the owner's session is known from its start.
    """
    materials, scope = context.materials, context.scope
    found: list[str] = []

    def bears(own: Callable[[Item], bool]) -> bool:
        held = chain(materials.hotset.items.values(), materials.decisions, materials.cards)
        return any(own(item) and scope.hides(item) not in WITHHELD for item in held)

    session, began = context.session, scope.owner and context.ring is not None
    known = began or materials.gap or session is None
    if not known and not bears(lambda item: item.session == session):
        found.append("session")
    task, table = context.task, materials.tasks
    if task is not None and not table.only_in_log(task):
        record, space = table.get(task), f"/task/{task}"
        known = record is not None and pack_expansion_depths.is_seen(
            record, pack_expansion_depths.Sight(scope.hides, printer)
        )
        if not (known or bears(lambda item: task == item.task or space == item.ns)):
            found.append("task")
    return found


def not_placed(context: PackContext, sheet: Sheet) -> tuple[dict[str, int], list[Item]]:
    """Counts of suppressed candidates by reason, and visible ones that no section looked at.

    Of suppressed ones only the counts are reported; the others are older than what was looked at.
    Decisions that no place is kept for are omitted here.
    """
    pool, hides = context.pool, context.scope.hides
    for item in context.materials.left:
        if not (item.seq in sheet.seqs or item.seq in sheet.omitted or hides(item)):
            sheet.omit_unread(item.seq, (item, DECISIONS, item.cost, "limit", 0, 0))
    unseen = context.materials.source.unseen()
    counts = Counter(hides(item) for item in unseen if item.seq not in sheet.hidden)
    looked_at = {item.seq for item in pool} if sheet.hidden else frozenset[int]()
    counts.update(why for seq, why in sheet.hidden.items() if seq not in looked_at)
    left: list[Item] = []
    listed = {omission.seq for omission in sheet.views_omitted if omission.seq}
    rendered, omitted, passed = sheet.seqs, sheet.omitted, sheet.passed
    for item, reason in zip(pool, context.scope.reasons(pool), strict=True):
        if reason is None:
            seq = item.seq
            if not (seq in rendered or seq in omitted or seq in passed):
                left.append(item)
        elif reason == "changed":
            # A reader that may see it gets its id, where it was not listed yet.
            if item.seq not in listed and item.seq not in omitted:
                sheet.omit(item, "", item.cost, reason)
        else:
            counts[reason] += 1
    return {why: counts[why] for why in sorted(filter(None, counts))}, left


# Two packs of one session held against each other: what is repeated, what broke, what it costs.
#
# Works on reports alone, which hold no text: each has the places where its entries end, and the
# hash of the block up to there. A difference is therefore found to the entry, not to the letter.

Report = dict[str, Any]

# Why a pack may begin otherwise than the one before it, in the order in which they are looked for:
# R9, and what an owner or a clock may do besides.
CAUSES: Final = (
    "policy",
    "view",
    "gap",
    "epoch",
    "anchor",
    "superseded",
    "confirmed",
    "forgotten",
    "evicted",
    "purged",
    "expired",
    "unforgotten",
    "approval",
    "pin",
    "shed",
    "map shed",
    "index",
    "ring",
    "unexplained",
)
# Places in a report's prefix that follow from the log alone, by what it is called when they move.
_MOVES: Final = {
    "gap": "gap",
    "epoch": "epoch_seq",
    "anchor": "anchor_seq",
    "shed": "shed_seq",
    "map shed": "map_shed_seq",
}
_HEX: Final = 12
_MILLION: Final = 1_000_000
# What may differ between packs of one shape.
_NOT_SHAPE: Final = word_set("""
    query query_event as_of now exclude held_marks held_seq dense_seq index_seq
""")


class LogChanges(NamedTuple):
    """The changes of the log between two packs.

    `gone` gives the reason why the event of an id is out of force, None if it is in force;
    `corrected` the first reason for a change in an area by an event in between, None without one.
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
    """What two packs must share to be compared: session, budget, channel, and so on."""
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


def compared(
    old: Report | None, new: Report, name: str | None, story: LogChanges
) -> dict[str, Any]:
    """The part of a report's `prefix` that needs the earlier report `name`."""
    if old is None:
        return {
            "compared_with": None,
            "common_bytes": 0,
            "common_tokens": 0,
            "share_ppm": 0,
            "stable_kept": None,
            "break": None,
        }
    same = _same(old, new)
    byte, tokens = new["prefix"]["chain"][same - 1][:2] if same else (0, 0)
    stable = _stable(old, new)
    broken = None
    if same < stable:
        entry = old["entries"][same]
        broken = {
            "section": entry["section"],
            "area": entry["area"],
            "events": [*entry["events"], *entry["parts"]],
            "cause": cause(old, new, entry, story),
        }
    return {
        "compared_with": name,
        "common_bytes": byte,
        "common_tokens": tokens,
        "share_ppm": tokens * _MILLION // max(1, new["tokens"]),
        "stable_kept": broken is None,
        "break": broken,
    }


def _same(old: Report, new: Report) -> int:
    """How many entries are in both from the first on, at the same place with the same bytes."""
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


def cause(old: Report, new: Report, entry: dict[str, Any], story: LogChanges) -> str:
    """Why the entry of the older pack is not at its place in the newer one: one of CAUSES."""
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
    report: Report,
    reuse: str,
    prices: CachePrices,
    *,
    known: Collection[tuple[int, str]],
    common_tokens: int,
) -> Cost:
    """The cost of the block where the prefixes in `known` (byte, hash) are in the cache.

    `common_tokens` are those shared with the pack before, for providers that find the prefix by
    themselves.
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


# What the next pack of the session will share with this one, and where to mark it for a cache.
#
# Providers keep the beginning of a prompt that they have seen before, up to marks that the caller
# sets or by themselves. Everything here follows from one pack; `comparing` holds two against each
# other. The rules R1-R9 behind the layout are in ARCHITECTURE.md.

_STABLE_UNTIL = {"prompt": "ABCD", "call": "ABCDEF"}


def stable_prefix(facts: LayoutFacts, rendered: Rendered) -> dict[str, Any]:
    """What decides how much of this block the next one will share; ids and counts only.

    `stable_bytes` is the length shared with the next pack of the session and shape: up to the end
    of D where a new prompt comes first (`prompt`), of F where it does not (`call`).
    """
    window, context = facts.sheet.window, facts.context
    materials, ring = context.materials, context.ring
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
        "epoch_seq": context.epoch,
        "prompt_seq": context.prompt.seq if context.prompt is not None else 0,
        "next_anchor_in": window.next_anchor_in,
        "shed_seq": max(
            materials.shed_seq, materials.hotset.shed, ring.shed if ring is not None else 0
        ),
        "map_shed_seq": materials.plane_map.shed_seq,
        "gap": materials.gap,
        "tokens_by_area": by_area,
        "tail_ppm": tail * 1_000_000 // max(1, rendered.tokens),
        "stable_bytes": {reuse: _end(rendered, areas)[0] for reuse, areas in _STABLE_UNTIL.items()},
        "breakpoints": _breakpoints(facts, rendered),
        "below_minimum": (
            _end(rendered, "ABCDEF")[1] < materials.policies.plane.cache.minimum_tokens
        ),
    }


def _end(rendered: Rendered, areas: str) -> tuple[int, int]:
    """The byte and token behind the last of these areas; 0 where none is there."""
    return max((rendered.ends[area] for area in areas if area in rendered.ends), default=(0, 0))


def _breakpoints(facts: LayoutFacts, rendered: Rendered) -> list[dict[str, Any]]:
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
    window = facts.sheet.window
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
