"""Why an event is not in a block: what the pack noted of it, and of what it never looked at.

Nothing is judged anew: omissions come from the sheet, what is suppressed from the pack's own scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from memplane.explain.sources import ITSELF, never_of
from memplane.explain.story import WINDOW, LeftOut
from memplane.plane.folds import items_of_event
from memplane.projections.order import KEYLESS_KINDS
from memplane.recall.retrieval import Candidates

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.pack.pack import Laid
    from memplane.projections.memories import Memories

__all__ = ["Archive", "left_out", "suppressed"]

_WORDS: Final = {
    "sensitivity": "its sensitivity is not for the channel of the pack",
    "kind": "its kind is not for the channel of the pack",
    "ns": "its namespace is not in the scope of the pack",
    "as_of": "recorded after the pack was made",
    "superseded": "replaced by",
    "forgotten": "forgotten by",
    "expired": "not valid at the clock of the pack",
    "time": "outside of the time that was asked for",
    "tag": "its tags are not those that were asked for",
    "importance": "of less importance than was asked for",
    "excluded": "the request excludes it",
    "unapproved": "nobody has approved the artifact: no more than its card may be shown",
    "approval": "what an approval says is quoted nowhere",
    "changed": "its file is gone or changed",
    "gap": "the log has lost it",
    "not_relevant": "what else answers the query does so much better, or it does not at all",
    "duplicate": "the same words as",
    "section": "no section that shows it was asked for",
    "past_end": "the handle begins behind its end",
    "cut": "shown in part",
}  # fmt: skip
_LIMITS: Final = {"relevant_decisions": "decisions_max", "knowledge_cards": "cards_max"}


class Archive:
    """What took events out of force, as of the pack."""

    def __init__(self, memories: Memories, upto: int) -> None:
        self._memories, self._upto = memories, upto

    def current(self, event: Event) -> bool:
        """Whether the event is the value of its key."""
        row = self._memories.current(event.ns, event.key or "", upto=self._upto)
        return row is not None and row.seq == event.seq

    def gone(self, event: Event) -> list[tuple[str, int]]:
        """What took the event out of force, and by which seq: forgotten first, then superseded."""
        if event.seq > self._upto:
            return []
        found = self._memories.archived(event, upto=self._upto)
        gone = [] if found is None else [found]
        if event.key is not None and event.kind not in KEYLESS_KINDS:
            later = self._memories.superseded(event, upto=self._upto)
            if later is not None and ("superseded", later) not in gone:
                gone.append(("superseded", later))
        return gone

    def by(self, event: Event, reason: str) -> int:
        """The seq that gave the event this reason; 0 where none did."""
        words = ("superseded",) if reason == "superseded" else ("forgotten", "evicted")
        return next((seq for word, seq in self.gone(event) if word in words), 0)


def left_out(laid: Laid, event: Event, archive: Archive) -> Iterator[LeftOut]:
    """Each reason that the pack has against an event; none for one that it shows whole."""
    facts, seq = laid.facts, event.seq
    sheet = facts.sheet
    for omission in sheet.views_omitted:
        if omission.seq == seq:
            yield _noted(laid, event, *omission[2:5], omission.short_by)
    row = sheet.omitted.get(seq)
    if row is not None:
        yield _noted(laid, event, *row[1:4], row[5])
    elif seq in sheet.passed:
        yield _passed(laid, event, sheet.passed[seq])
    pool = next((item for item in laid.ground.pool if item.seq == seq), None)
    if any(item.seq == seq for item in facts.left_over):
        yield _older(laid, event)
        return
    if seq in sheet.seqs:
        return
    reason = suppressed(laid, event, archive)
    # A changed file that was looked for is noted on the sheet already.
    if reason is not None and (row is None or row[3] != reason):
        by = archive.by(event, reason) if reason in ("superseded", "forgotten") else 0
        counted = pool is not None or seq in sheet.hidden or _is_apart(laid, seq)
        yield LeftOut(reason, _WORDS[reason], by_seq=by, counted=counted)


def _is_apart(laid: Laid, seq: int) -> bool:
    """Whether it is kept with what the reader sees nothing of, which the pack counts as well."""
    hidden = laid.ground.materials.hidden
    return hidden is not None and any(item.seq == seq for item in hidden())


def suppressed(laid: Laid, event: Event, archive: Archive) -> str | None:
    """Why the pack may not show the event, None where it may."""
    item = next((item for item in laid.ground.pool if item.seq == event.seq), None)
    if item is None:
        item = items_of_event(event, laid.facts.sheet.counter)
        gone = {reason for reason, _ in archive.gone(event)}
        item.superseded = "superseded" in gone
        item.forgotten = not gone.isdisjoint(("forgotten", "evicted"))
    return laid.ground.scope.hides(item)


def _noted(
    laid: Laid, event: Event, section: str, tokens: int, reason: str, short_by: int
) -> LeftOut:
    """A reason as the sheet has it."""
    if reason != "budget":
        by = laid.facts.sheet.same.get(event.seq, 0) if reason == "duplicate" else 0
        why = _limit(laid, event, section) if reason == "limit" else _WORDS.get(reason, "")
        return LeftOut(reason, why, section, tokens, by_seq=by)
    facts = laid.facts
    free = facts.budget - laid.rendered.tokens
    if short_by > free:
        return LeftOut(
            "budget", f"the block had no more room: {short_by} tokens short", section, tokens,
            short_by, "block",
        )  # fmt: skip
    return LeftOut(
        "budget",
        f"the section had no more room: {short_by} tokens short ({free} of the block stayed free)",
        section, tokens, short_by, "section",
    )  # fmt: skip


def _limit(laid: Laid, event: Event, section: str) -> str:
    """The policy's limit that a section has come to, or that of what is kept to choose from."""
    if any(item.seq == event.seq for item in laid.ground.materials.left):
        return "newer decisions, or those that are pinned or constraints, have all the places"
    limits = laid.ground.materials.policies.budgets.limits
    name = _LIMITS.get(section, "retrieved_chunks_max")
    return f"the section has the {getattr(limits, name)} that it takes at most ({name})"


def _passed(laid: Laid, event: Event, reason: str) -> LeftOut:
    """A reason that the sheet has without the rest, which no report lists."""
    sheet = laid.facts.sheet
    ranked = sheet.ranked
    assert ranked is not None, "only what answers a query is passed over"
    rows, section = ranked.rows, ranked.part.section
    assert isinstance(rows, Candidates), "and only where the whole log was searched"
    tokens = rows.tokens[rows.seqs.index(event.seq)]
    short_by = max(1, tokens - sheet.left[section]) if reason == "budget" else 0
    return _noted(laid, event, section, tokens, reason, short_by)


def _older(laid: Laid, event: Event) -> LeftOut:
    """A candidate of which no stage spoke: it lies before what is shown as recent."""
    if event.seq in never_of(laid):
        return LeftOut("older", ITSELF)
    anchor, session = laid.facts.window.anchor, laid.ground.request.session
    if session is not None and event.session == session and anchor > event.seq:
        return LeftOut("older", f"{WINDOW}, which begins at", by_seq=anchor)
    return LeftOut("older", "no section looked so far back")
