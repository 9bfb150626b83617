"""The views of packs: the block line by line, what was left out, and what repeats the pack before.

A saved pack is made again under the policies of then (`explain.replay`), and shown within what the
channel may see now: of an entry that rests on something forgotten since, only its figures.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import MemplaneError
from memplane.explain.replay import Difference, Replay, difference_of, replay_packs, shared_by
from memplane.explain.why import REASON_WORDS
from memplane.inspect.records import ENTRY_CHARS_MAX, Visible, event_fields
from memplane.lazy import NamedTuple
from memplane.upkeep.reports import Saved, find_report, of_the_past, saved

if TYPE_CHECKING:
    from memplane.pack.block import Block, Entry
    from memplane.ports import Progress

# Saved reports that are read for the newest of a channel and for the row of its session.
REPORTS_READ_MAX: Final = 60
# Lines of the log that are folded to make a saved pack again, where nobody asked for that one.
REPLAY_LINES_MAX: Final = 50_000
_EVENTS_OF_ENTRY_MAX: Final = 12
_AROUND_MAX: Final = 12  # entries of each block from the first difference on
_WITHHELD: Final = "not shown: it rests on what this channel may not see now"
_MORE_WORDS: Final = {
    "superseded": "a later value of its key took its place",
    "forgotten": "somebody forgot it",
    "duplicate": "the block says the same words already",
    "budget": "there was no more room",
    "older": "older than what was looked at",
    "missing": "there is no such file",
    "limit": "the policy lets no more of these in",
}


class PackShown(NamedTuple):
    """A pack for the page.

    `saved` is its report, None for one that was made for the page; `before` the pack that the
    report was compared with, made again, None where its report is not kept.
    """

    block: Block
    saved: Saved | None
    note: str = ""
    before: Replay | None = None


def newest_report(visible: Visible, session: str | None) -> Saved | None:
    """The newest saved pack of the channel, of nobody's agent, and of the session if one is named.

    Of the newest `REPORTS_READ_MAX` reports.
    """
    project = visible.plane.context.home.project
    for one in islice(saved(visible.plane.home), REPORTS_READ_MAX):
        asked = one.report["request"]
        if one.report["channel"] != visible.channel or asked.get("agent") is not None:
            continue
        if session in (None, asked.get("session")) and asked.get("project") == project:
            return one
    return None


def pack_shown(
    visible: Visible, given: Saved | None, session: str | None, progress: Progress | None = None
) -> PackShown:
    """The pack that the page shows: the given one, the newest saved one, or one made now.

    A report that was not given is passed over with a note where it cannot be made again, or where
    that would fold more than `REPLAY_LINES_MAX` lines. Nothing is saved. `progress` is called with
    lines folded and to fold. Raises as `Plane.pack`.
    """
    chosen = given or newest_report(visible, session)
    note = ""
    if given is None and chosen is not None and chosen.report["log"]["seq"] > REPLAY_LINES_MAX:
        note = (
            f"made now; `memplane inspect --report {chosen.id}` makes the last pack again, which "
            "folds the log up to there"
        )
        chosen = None
    if chosen is not None:
        before = _compared_with(visible, chosen)
        packs = [chosen] if before is None else [before, chosen]
        *older, again = replay_packs(visible.plane, packs, progress)
        if again.block is not None:
            lost = "; ".join([*map(str, again.lost), *filter(None, [again.note])])
            said = f"made again, it is not the block that was saved: {lost}" if lost else ""
            note = "" if again.same else said
            return PackShown(again.block, chosen, note, older[0] if older else None)
        lost = "; ".join([*map(str, again.lost), again.note])
        note = f"the pack {chosen.id} cannot be made again ({lost}); this one was made now"
    if session is None:
        newest = visible.plane.work.sessions.list(channel=visible.channel)
        session = newest[-1].id if newest else None
    block = visible.plane.pack(session=session, channel=visible.channel, now=visible.now)
    return PackShown(block, None, note)


def _compared_with(visible: Visible, now: Saved) -> Saved | None:
    """The report of the pack that a pack was compared with; None where none is kept."""
    prefix = now.report["prefix"]
    if "chain" not in prefix or prefix["compared_with"] is None:
        return None
    with suppress(MemplaneError):
        return find_report(visible.plane.home, prefix["compared_with"])
    return None


def block_view(visible: Visible, shown: PackShown) -> dict[str, Any]:
    """The block: sections with their tokens, and each entry with where it came from."""
    report = shown.block.report
    kept = shown.saved
    rows = zip(shown.block.entries, report["entries"], strict=True)
    asked = report["request"]
    return {
        "id": "block",
        "label": "Block",
        "count": shown.block.tokens,
        "unit": "tokens",
        "report": None if shown.saved is None else shown.saved.id,
        "note": visible.text(shown.note),
        "query": visible.text(asked.get("query") or "") if visible.stands(kept) else "",
        "session": asked.get("session"),
        "made": asked["now"][:19],
        "intent": report["intent"],
        "budget": report["budget"],
        "tokens": shown.block.tokens,
        "frame": report["frame_tokens"],
        "counter": report["counter"],
        "candidates": report["candidates"],
        "sections": [
            {"name": name, **{part: facts[part] for part in ("room", "used", "cap")}}
            for name, facts in report["sections"].items()
        ],
        "entries": [_entry(visible, one, said, kept) for one, said in rows],
    }


def _entry(
    visible: Visible, entry: Entry, said: dict[str, Any], kept: Saved | None
) -> dict[str, Any]:
    ids = [*entry.events, *entry.parts]
    found = [visible.named(id_) for id_ in ids[:_EVENTS_OF_ENTRY_MAX]]
    events = [event_fields(event, 0) | {"text": ""} for event in found if event is not None]
    told = _told(visible, entry, kept)
    return {
        "section": entry.section,
        "area": entry.part,
        "tokens": entry.tokens,
        "score": entry.score,
        "parts": {name: value for name, value in said["score_parts"].items() if value},
        "source": visible.text(entry.source, 200),
        "whole": len(entry.events),
        "events": events,
        "more": max(0, len(ids) - _EVENTS_OF_ENTRY_MAX),
        "text": visible.text(entry.text.strip("\n"), ENTRY_CHARS_MAX) if told else "",
        "withheld": "" if told else _WITHHELD,
    }


def _told(visible: Visible, entry: Entry, kept: Saved | None) -> bool:
    """Whether the text of an entry may stand on the page.

    One that names no event rests on the log, or on a view, nevertheless.
    """
    if entry.events or entry.parts:
        return visible.shows_all(chain(entry.events, entry.parts))
    return visible.stands(kept, entry.source)


def left_out_view(visible: Visible, shown: PackShown) -> dict[str, Any]:
    """What was left out of the block, and why: the counts of all, the best of them by name."""
    counts = shown.block.report["omissions"]["counts"]
    rows = []
    for one in shown.block.omissions:
        event = visible.named(one.id) if one.seq else None
        if one.seq and event is None:
            continue
        rows.append(
            {
                "name": visible.text(one.id, 200),
                "section": one.section,
                "cost": one.tokens,
                "reason": one.reason,
                "score": one.score,
                "short_by": one.short_by,
                **({} if event is None else {"event": event_fields(event)}),
            }
        )
    words = {**REASON_WORDS, **_MORE_WORDS}
    return {
        "id": "left-out",
        "label": "Left out",
        "count": sum(counts.values()),
        "report": None if shown.saved is None else shown.saved.id,
        "counts": [
            {"reason": name, "count": count, "words": words.get(name, "")}
            for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        ],
        "rows": rows,
    }


def prefix_view(visible: Visible, shown: PackShown) -> dict[str, Any] | None:
    """What the pack repeats of the one before: both by their tokens, why they part, the cost.

    None where no saved pack of a session stands behind the page.
    """
    now = shown.saved
    if now is None or "chain" not in now.report["prefix"]:
        return None
    prefix = now.report["prefix"]
    view: dict[str, Any] = {
        "id": "prefix",
        "label": "Prefix",
        "now": _strip(now),
        "before": None,
        "common_tokens": prefix["common_tokens"],
        "share_ppm": prefix["share_ppm"],
        "stable_kept": prefix["stable_kept"],
        "cost": prefix.get("cost", {}),
        "below_minimum": prefix["below_minimum"],
        "packs": _row_of_packs(visible, now),
        "difference": None,
        "note": "",
    }
    if prefix["compared_with"] is None:
        return view
    if shown.before is None:
        return view | {"note": "the report of the pack before is not kept any more"}
    return view | {"before": _strip(shown.before.saved)} | _parting(visible, shown, now)


def _strip(one: Saved) -> dict[str, Any]:
    """A pack as a row of entries by their tokens."""
    entries = one.report["entries"]
    return {
        "report": one.id,
        "made": one.report["request"]["now"][:19],
        "tokens": one.report["tokens"],
        "entries": [
            [entry["section"], entry["area"], entry["tokens"], entry["at"][1]] for entry in entries
        ],
    }


def _parting(visible: Visible, shown: PackShown, now: Saved) -> dict[str, Any]:
    """Where the two packs part: the first line that differs, and the entries from there on."""
    again = shown.before
    if again is None or again.block is None or not again.same:
        return {"note": "the pack before cannot be made again, so its lines are not shown"}
    old = again.saved
    found = difference_of(old, again.block, shown.block._replace(report=now.report))
    if found.cause == "same":
        return {"note": "the same block as before", "shared_entries": len(again.block.entries)}
    sides = {"old": (again.block, old), "new": (shown.block, now)}
    texts = {side: _line_told(visible, *pair, found) for side, pair in sides.items()}
    at = _shared_entries(old, now)
    return {
        "difference": {
            "line": found.line,
            "section": found.section,
            "cause": found.cause,
            "cause_words": CAUSE_WORDS.get(found.cause, ""),
            "old": visible.text(found.old or "") if texts["old"] else _WITHHELD,
            "new": visible.text(found.new or "") if texts["new"] else _WITHHELD,
        },
        "shared_entries": at,
        "lists": {
            side: [
                {
                    "section": entry.section,
                    "tokens": entry.tokens,
                    "text": visible.text(entry.text.strip("\n"), 240)
                    if _told(visible, entry, kept)
                    else _WITHHELD,
                }
                for entry in pack.entries[at : at + _AROUND_MAX]
            ]
            for side, (pack, kept) in sides.items()
        },
    }


# Why a pack may begin otherwise than the one before it, in words: see `pack.report.CAUSES`.
CAUSE_WORDS: Final = {
    "policy": "a policy changed",
    "view": "a view changed",
    "gap": "part of the log could not be read",
    "epoch": "the session began anew or was marked: its head is chosen anew there",
    "anchor": "the window of the session moved a step",
    "superseded": "a value that was shown has a newer one",
    "forgotten": "something that was shown was forgotten",
    "evicted": "something that was shown had faded and was evicted",
    "purged": "something that was shown was purged",
    "expired": "something that was shown is out of its time",
    "unforgotten": "something that was forgotten holds again",
    "approval": "an artifact was approved or revoked",
    "pin": "a pin was set or taken back",
    "shed": "the head had no room for all of it",
    "map shed": "the map had no room for all of it",
    "index": "the index had caught up",
    "ring": "what evidence came from has left the recent events",
    "prompt": "there is a new prompt, and its own evidence",
    "log": "the session went on",
    "tail": "only what may change at any time changed",
    "unexplained": "no listed cause was found",
}


def _line_told(visible: Visible, block: Block, kept: Saved, found: Difference) -> bool:
    """Whether the line of a block at a difference may be shown: its entry says."""
    byte = found.common_bytes
    for entry, row in zip(block.entries, kept.report["prefix"]["chain"], strict=True):
        if row[0] > byte:
            return _told(visible, entry, kept)
    return visible.stands(kept)


def _shared_entries(old: Saved, now: Saved) -> int:
    """How many entries both begin with."""
    chains = (one.report["prefix"]["chain"] for one in (old, now))
    same = 0
    for before, after in zip(*chains, strict=False):
        if before != after:
            break
        same += 1
    return same


def _row_of_packs(visible: Visible, now: Saved) -> dict[str, Any] | None:
    """The saved packs of the session, oldest first: the share that each repeated, and the sum."""
    session = now.report["request"].get("session")
    if session is None:
        return None
    asked = now.report["request"]
    kept = [
        one
        for one in islice(saved(visible.plane.home), REPORTS_READ_MAX)
        if one.report["channel"] == visible.channel
        and one.report["request"].get("session") == session
        and one.report["request"].get("agent") == asked.get("agent")
        and "chain" in one.report["prefix"]
        and not of_the_past(one.report)
    ]
    prices = visible.plane.upkeep.policies.plane.cache
    groups = [one.as_json() for one in shared_by(kept, prices, session=session)]
    return {
        "session": session,
        "shares": [
            {
                "made": one.report["request"]["now"][:19],
                "tokens": one.report["tokens"],
                "share_ppm": one.report["prefix"]["share_ppm"],
                "cause": (one.report["prefix"]["break"] or {}).get("cause"),
                "first": one.report["prefix"]["compared_with"] is None,
            }
            for one in reversed(kept)
        ],
        "of_fresh_ppm": {
            reuse: sum(one["costs"][reuse]["price"] for one in groups)
            * 1_000
            // max(1, sum(one["tokens"] for one in groups))
            for reuse in ("prompt", "call")
        },
    }
