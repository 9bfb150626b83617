"""Evidence from the whole log: the best value for its tokens first, passages before whole turns.

What an event is worth comes from the retriever, in which order events are tried from
`index.packing`; here is decided what fits. A turn that came in as a passage may grow to the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.errors import NotFoundError
from memplane.pack.evidence import Asked
from memplane.pack.layout import Group, Part, Sheet, entry_of, group_of
from memplane.pack.request import Materials
from memplane.policy import Limits
from memplane.projections.item import Item
from memplane.recall.retrieval import ONE, Finding, Found, Retriever
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.index.packing import Packing

__all__ = ["place_retrieved"]

_PERMILLE: Final = 1000
# A label, a few words and the newline: with less left nothing more is read from the log.
_LEAST: Final = 8
_MISSES_MAX: Final = 24  # events in a row that were read and did not fit; then the part is full
_NAMED_MAX: Final = 200  # omissions with all that is known of them: twice what a report lists
_REPEATED_WORDS: Final = 6  # a text of so many words is not repeated
# What a passage saves must be worth its mark: it has at most this part of the whole.
_MOST_OF_WHOLE: Final = (4, 5)

Form = tuple[str, int, bool]


class _Shown(NamedTuple):
    found: Found
    item: Item
    form: Form


def place_retrieved(
    sheet: Sheet, materials: Materials, scope: Scope, part: Part, asked: Asked,
    retriever: Retriever,
) -> None:  # fmt: skip
    """Search the log for the query and place what is worth its tokens, by session and in log order.

    Nothing that matches no term of the query and has no neighbour that does. Looks at no more than
    `candidate_pool_max` events, and takes no more than `retrieved_chunks_max` chunks: turns that
    stand under one date line count together, a chunk for every `chunk_max_tokens`.
    """
    limits = materials.policies.budgets.limits
    finding = retriever.find(
        asked.query, upto=asked.upto, scope=scope, never=asked.never,
        most=limits.candidate_pool_max,
    )  # fmt: skip
    sheet.scored += len(finding.found)
    sheet.found += len(finding.found)
    sheet.scanned += finding.scanned
    best = finding.found[0].score if finding.found else 0
    floor = max(1, best * materials.policies.scoring.evidence_floor // _PERMILLE)
    good = [one for one in finding.found if one.seq not in sheet.seqs and one.score >= floor]
    fill = _Fill(sheet, part, retriever, finding, limits)
    fill.spend(good, materials)
    for shown in fill.shown.values():
        found, item, form = shown
        score = found.score * _PERMILLE // ONE
        sheet.put(part, entry_of(part, item, form, score), group_of(item))
        sheet.score_parts[found.seq] = _parts_of(found)
    fill.omit_others(finding.found, floor)
    matched = {one.seq for one in finding.found}
    for item in asked.pool:
        if not (item.seq in matched or item.seq in asked.never or scope.hides(item)):
            sheet.omit(item, part.section, item.cost, "not_relevant")


def _parts_of(found: Found) -> dict[str, int]:
    """The parts of a score in thousandths of what the words could earn."""
    parts = {
        "words": found.words, "tags": found.tags, "key": found.key,
        "neighbours": found.neighbours, "markers": found.markers, "similar": found.similar,
    }  # fmt: skip
    return {name: part * _PERMILLE // ONE for name, part in parts.items()}


class _Fill:
    """The events of one part as they come in, until its room is spent."""

    def __init__(
        self, sheet: Sheet, part: Part, retriever: Retriever, finding: Finding, limits: Limits
    ) -> None:
        self._sheet, self._part, self._retriever = sheet, part, retriever
        self._wanted = finding.wanted
        self._left = sheet.room(part)
        self._chunks_left, self._chunk = limits.retrieved_chunks_max, limits.chunk_max_tokens
        self._groups: dict[Group, int] = {}  # tokens under each date line
        self._texts: dict[tuple[str, int], int] = {}  # what was said -> the seq that shows it
        self._read: dict[int, Item] = {}
        self._misses = 0  # events in a row that were read and did not fit
        self._why: dict[int, tuple[str, int]] = {}  # seq -> reason and tokens short
        self.shown: dict[int, _Shown] = {}

    def spend(self, found: list[Found], materials: Materials) -> None:
        """Standing instructions within their reserve first, then by value per token."""
        packing = _packing_of(materials)
        reserve = self._left * materials.policies.scoring.packing.instruction_reserve // _PERMILLE
        for one in found:
            if one.standing and one.tokens <= reserve:
                reserve -= self._take(one, packing, reserve, grows=True)
        for place, grows, whole in _steps(found, self._left, packing):
            one = found[place]
            there = self.shown.get(one.seq)
            if grows:
                if there is not None and not there.form[2]:
                    self._take(one, packing, self._left, grows=True)
            elif there is None and not (
                # Where the whole is due at once, no passage is cut that would stand for nothing.
                whole and self._take(one, packing, self._left, grows=True)
            ):
                self._take(one, packing, self._left, grows=False)
            if self._left < _LEAST or self._misses >= _MISSES_MAX:
                return

    def _take(self, found: Found, packing: Packing, room: int, *, grows: bool) -> int:
        """Show an event, or more of it; return the tokens that cost, 0 where it did not fit."""
        there = self.shown.get(found.seq)
        cut = not grows and found.tokens > packing.whole_tokens and packing.passage_tokens > 0
        room = min(room, self._left)
        least = packing.passage_mean if cut else found.tokens - packing.passage_tokens
        if room < max(_LEAST, least):
            # Not even the text fits: not worth reading it for that.
            return self._refuse(found, "budget", found.tokens - room)
        item = self._item(found.seq)
        if item is None:
            return self._refuse(found, "gap", 0)
        form = self._form(found, item, packing.passage_tokens if cut else 0)
        same = self._texts.get(_said(item, found), found.seq)
        if same > found.seq:
            return self._refuse(found, "duplicate", 0)
        group = group_of(item)
        costs = form[1] + (0 if group in self._groups else self._dated(group))
        replaced = there if there is not None else self.shown.get(same)
        more = costs - (replaced.form[1] if replaced is not None else 0)
        if more > room:
            self._misses += 1
            return self._refuse(found, "budget", more - room)
        chunks = self._chunks_of(group, more)
        if chunks > self._chunks_left:
            return self._refuse(found, "limit", 0)
        if same != found.seq:
            self._why[same] = ("duplicate", 0)
            del self.shown[same]
        self._chunks_left -= chunks
        self._misses = 0
        self._groups[group] = self._groups.get(group, 0) + more
        self._texts[_said(item, found)] = found.seq
        self.shown[found.seq] = _Shown(found, item, form)
        self._left -= more
        return max(1, more)

    def _refuse(self, found: Found, reason: str, short_by: int) -> int:
        if found.seq not in self.shown:
            # With too little left for anything, how much is missing is not even looked at.
            self._why[found.seq] = (reason, max(1, short_by) if reason == "budget" else 0)
        return 0

    def _dated(self, group: Group) -> int:
        return self._sheet.date_tokens(self._part, group)

    def _chunks_of(self, group: Group, more: int) -> int:
        """How many chunks so many tokens more are; without a session there is no conversation."""
        if not group.session:
            return 1
        before = self._groups.get(group, 0)
        return -(-(before + more) // self._chunk) - -(-before // self._chunk)

    def _item(self, seq: int) -> Item | None:
        """Read the event, None where its line is lost; no more of them than the pool has."""
        item = self._read.get(seq)
        if item is None:
            try:
                item = self._read[seq] = self._retriever.item(seq)
            except NotFoundError:  # the index remembers what the log has lost
                return None
        return item

    def _form(self, found: Found, item: Item, limit: int) -> Form:
        """A passage of at most `limit` tokens (0: none); the whole where that saves little."""
        printer = self._sheet.printer
        text = self._retriever.text(found.seq)
        # What today's redaction would take from the whole must not come in by a part of it.
        if limit and item.is_clean(text, printer):
            passage = self._retriever.passage(found.doc, self._wanted, limit)
            form = item.passage(passage, printer)
            part, whole = _MOST_OF_WHOLE
            if form[1] * whole < found.tokens * part:
                return form
        return item.entire(text, printer)

    def omit_others(self, found: Sequence[Found], floor: int) -> None:
        """Name what stays out and why, best first; of what no report lists the reason alone."""
        section, sheet = self._part.section, self._sheet
        named = 0
        for one in found:
            if one.seq in sheet.seqs:
                continue
            usual = "not_relevant" if one.score < floor else "budget"
            reason, short_by = self._why.get(one.seq, (usual, 0))
            named += 1
            if named > _NAMED_MAX:
                sheet.passed[one.seq] = reason
                continue
            if reason == "budget":
                short_by = max(1, short_by or one.tokens - self._left)
            row = (self._read.get(one.seq), section, one.tokens, reason)
            sheet.omit_unread(one.seq, (*row, one.score * _PERMILLE // ONE, short_by))


def _packing_of(materials: Materials) -> Packing:
    from memplane.index.packing import Packing  # noqa: PLC0415 - a fast pack goes without numpy

    weights = materials.policies.scoring.packing
    return Packing(
        passage_tokens=weights.passage_tokens,
        passage_mean=weights.passage_mean,
        whole_tokens=weights.whole_tokens,
        passage_permille=weights.passage_worth,
        base_tokens=weights.base_tokens,
        powers=weights.powers,
        power=weights.power,
    )


def _steps(
    found: Sequence[Found], budget: int, packing: Packing
) -> Iterator[tuple[int, bool, bool]]:
    """Places in the order to try them; whether one grows, and whether its whole is due next."""
    from memplane.index.packing import steps_of  # noqa: PLC0415 - likewise

    rows = [(one.score, one.tokens, one.importance, one.seq) for one in found]
    steps = steps_of(rows, budget, packing)
    for at, (place, grows) in enumerate(steps):
        yield place, grows, not grows and steps[at + 1 : at + 2] == [(place, True)]


def _said(item: Item, found: Found) -> tuple[str, int]:
    """What two events must agree in for the older to stay out: the normalised text.

    With the length, where the item holds a part of it; with the seq, where it is as short as "Yes,
    of course": that says something else each time.
    """
    if item.words is None:
        item.words = " ".join(item.text.lower().split())
    if item.words.count(" ") < _REPEATED_WORDS - 1:
        return item.words, -found.seq
    return item.words, 0 if item.whole else found.tokens
