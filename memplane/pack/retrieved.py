"""Evidence from the whole log: the best value for its tokens first, passages before whole turns.

What an event is worth comes from the retriever, in which order events are tried from
`index.fill_order`; here is decided what fits. A turn that came in as a passage may grow to the
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from memplane.errors import ChangedError, NotFoundError
from memplane.event import TYPED_KINDS
from memplane.index.fill_order import STEP_COLUMNS, FillingParameters, steps_of
from memplane.pack.evidence import EvidenceQuery, Marked
from memplane.pack.layout import (
    BlockPart,
    EntryGroup,
    RankedCandidates,
    Sheet,
    entry_group,
    entry_of,
)
from memplane.pack.request import Materials
from memplane.policy import Limits
from memplane.ports import ONE, Candidates, FoundEvent, Retriever
from memplane.projections.files import normalised
from memplane.projections.item import Item
from memplane.recall.score import NONE, lifted
from memplane.recall.suppress import Scope
from memplane.recall.updates import LOOKED_AT_MAX, ValueMention, on_one_matter, says_a_value

__all__ = ["ROOM", "ChosenEvent", "newest_first", "place_retrieved", "score_parts"]


_PERMILLE: Final = 1000
_NO_TERMS: Final = NONE._asdict()
# A label, a few words and the newline: with less left nothing more is read from the log.
_LEAST: Final = 8
_MISSES_MAX: Final = 24  # events in a row that were read and did not fit; then the part is full
_NAMED_MAX: Final = 200  # omissions with all that is known of them: twice what a report lists
_ORDERED_FROM: Final = 300  # tokens: with less there is no room for date lines that come twice
_REPEATED_WORDS: Final = 6  # a text of so many words is not repeated
# What a passage saves must be worth its mark: it has at most this part of the whole.
_MOST_OF_WHOLE: Final = (4, 5)

Form = tuple[str, int, bool]


class _Shown(NamedTuple):
    at: int  # its place among the events found
    item: Item
    form: Form
    group: EntryGroup


def place_retrieved(
    sheet: Sheet,
    materials: Materials,
    scope: Scope,
    part: BlockPart,
    asked: EvidenceQuery,
    retriever: Retriever[Scope, Item],
) -> None:
    """Search the log for the query and place what is worth its tokens, by session and in log order.

    Nothing that matches no term of the query and has no neighbour that does. Looks at no more than
    `candidate_pool_max` events, and takes no more than `retrieved_chunks_max` chunks: turns that
    stand under one date line count together, a chunk for every `chunk_max_tokens`.
    """
    limits = materials.policies.budgets.limits
    finding = retriever.find(
        asked.query,
        upto=asked.upto,
        scope=scope,
        never=asked.never,
        most=limits.candidate_pool_max,
        bytes_max=sheet.needs.left,
    )
    sheet.needs.take(finding.size)
    sheet.unread += finding.unread
    found = finding.found
    turns = [(seq, tokens, None) for seq, tokens in finding.marked]
    marked = Marked(sheet, part, materials, turns, partial(_read, retriever))
    sheet.scored += len(found)
    sheet.found += len(found)
    sheet.scanned += finding.scanned
    if found:
        best = found.scores[0] * materials.policies.scoring.evidence_floor // _PERMILLE
        above = found.above(max(1, best))
        found, terms = lifted(found, above, retriever, asked.now, materials.policies.scoring)
        fill = _Fill(sheet, part, retriever, found, finding.wanted, limits)
        fill.place(above, materials, marked)
        for seq, more in terms.items():
            if seq in sheet.score_parts:
                sheet.score_parts[seq].update(more._asdict())
        sheet.ranked = RankedCandidates(part, found, max(1, best))
        others = asked.never.union(found.seqs)
    else:
        others = asked.never
    hides = scope.hides
    sheet.omit_all(
        [item for item in asked.pool if not (item.seq in others or hides(item))],
        part.section,
        "not_relevant",
    )
    marked.place()


def _read(retriever: Retriever[Scope, Item], seq: int) -> Item | None:
    """The event; None where the log has lost it."""
    try:
        return retriever.item(seq)
    except NotFoundError:
        return None


def score_parts(found: FoundEvent) -> dict[str, int]:
    """The parts of a score in thousandths of what the words could earn."""
    parts = {
        "words": found.words,
        "tags": found.tags,
        "key": found.key,
        "neighbours": found.neighbours,
        "markers": found.markers,
        "similar": found.similar,
    }
    return {name: part * _PERMILLE // ONE for name, part in parts.items()}


class _Fill:
    """The events of one part as they come in, until its room is spent."""

    def __init__(
        self,
        sheet: Sheet,
        part: BlockPart,
        retriever: Retriever[Scope, Item],
        found: Candidates,
        wanted: Mapping[int, int],
        limits: Limits,
    ) -> None:
        self._sheet, self._part, self._retriever = sheet, part, retriever
        self._found, self._wanted = found, wanted
        self._left = sheet.room(part)
        self._chunks_left, self._chunk = limits.retrieved_chunks_max, limits.chunk_max_tokens
        self._groups: dict[EntryGroup, int] = {}  # tokens under each date line
        self._texts: dict[tuple[str, int], int] = {}  # what was said -> the seq that shows it
        self._read: dict[int, Item] = {}
        self._counted: set[int] = set()  # events whose texts were needed; asked only
        self._exhausted = False  # whether a limit of the policy lets no more of them be read
        self._misses = 0  # events in a row that were read and did not fit
        self._why: dict[int, tuple[str, int]] = {}  # seq -> reason and tokens short
        self._shown: dict[int, _Shown] = {}

    def place(self, above: int, materials: Materials, marked: Marked) -> None:
        """Of the first `above` show what is worth its tokens, and say why the rest stays out.

        What marked turns are held back for, and do not need once others are chosen, is spent, too.
        """
        sheet, part, seqs = self._sheet, self._part, self._found.seqs
        placed = sheet.seqs
        kept = ROOM if self._left >= _ORDERED_FROM else 0
        self._left -= kept + marked.held
        good = [at for at in range(above) if seqs[at] not in placed]
        packing = _packing_of(materials)
        self._spend_on_standing(good, packing, materials)
        budget = self._left
        self._spend(good, packing, budget)
        freed = marked.give_back(self._shown)
        if freed:
            self._left, self._misses = self._left + freed, 0
            self._spend([at for at in good if seqs[at] not in marked.chosen], packing, budget)
        self._left += kept
        chosen = list(self._shown.values())
        rows = self._found.rows([one.at for one in chosen])
        first = self._first(chosen) if kept else {}
        for found, (_, item, form, group) in zip(rows, chosen, strict=True):
            score = found.score * _PERMILLE // ONE
            entry = entry_of(part, item, form, score)
            sheet.put(part, entry, first.get(item.seq, group), kind=item.kind)
            sheet.score_parts[found.seq] = score_parts(found) | _NO_TERMS
        self._omit_others(above)

    def _first(self, chosen: Sequence[_Shown]) -> dict[int, EntryGroup]:
        """The groups of what stands before the rest, newest first: see `newest_first`."""
        best = sorted(chosen, key=_place)
        rows = [ChosenEvent(self._found.doc(one.at), one.item, one.group) for one in best]
        return newest_first(
            self._sheet, self._part, rows, self._retriever, self._wanted, self._left
        )

    def _spend_on_standing(
        self, good: Sequence[int], packing: FillingParameters, materials: Materials
    ) -> None:
        """Show the standing instructions in `good` within their reserve."""
        found = self._found
        reserve = self._left * materials.policies.scoring.packing.instruction_reserve // _PERMILLE
        standing = found.standing()
        for at in sorted(set(good).intersection(standing)) if standing else ():
            if found.tokens[at] <= reserve:
                reserve -= self._take(at, packing, reserve, grows=True)

    def _spend(self, good: Sequence[int], packing: FillingParameters, budget: int) -> None:
        """Show places in `good` by value, as one does who has a budget of so many tokens."""
        found = self._found
        for at, grows, whole in _steps(found, good, budget, packing):
            there = self._shown.get(found.seqs[at])
            if grows:
                if there is not None and not there.form[2]:
                    self._take(at, packing, self._left, grows=True)
            elif there is None and not (
                # Where the whole is due at once, no passage is cut that would stand for nothing.
                whole and self._take(at, packing, self._left, grows=True)
            ):
                self._take(at, packing, self._left, grows=False)
            if self._left < _LEAST or self._misses >= _MISSES_MAX:
                return

    def _take(self, at: int, packing: FillingParameters, room: int, *, grows: bool) -> int:
        """Show an event, or more of it; return the tokens that cost, 0 where it did not fit."""
        seq, tokens = self._found.seqs[at], self._found.tokens[at]
        cut = not grows and tokens > packing.whole_tokens and packing.passage_tokens > 0
        room = min(room, self._left)
        least = packing.passage_mean if cut else tokens - packing.passage_tokens
        if room < max(_LEAST, least):
            # Not even the text fits: not worth reading it for that.
            return self._refuse(seq, "budget", tokens - room)
        read = self._formed(at, packing.passage_tokens if cut else 0)
        if isinstance(read, str):
            return self._refuse(seq, read, 0)
        item, form = read
        said = self._said(item, seq)
        same = self._texts.get(said, seq)
        if same > seq:
            self._sheet.same[seq] = same
            return self._refuse(seq, "duplicate", 0)
        there = self._shown.get(seq)
        group = entry_group(item) if there is None else there.group
        costs = form[1] + (0 if group in self._groups else self._dated(group))
        replaced = there if there is not None else self._shown.get(same)
        more = costs - (replaced.form[1] if replaced is not None else 0)
        if more > room:
            self._misses += 1
            return self._refuse(seq, "budget", more - room)
        chunks = self._chunks_of(group, more)
        if chunks > self._chunks_left:
            return self._refuse(seq, "limit", 0)
        if same != seq:
            self._why[same] = ("duplicate", 0)
            self._sheet.same[same] = seq
            del self._shown[same]
        self._chunks_left -= chunks
        self._misses = 0
        self._groups[group] = self._groups.get(group, 0) + more
        self._texts[said] = seq
        self._shown[seq] = _Shown(at, item, form, group)
        self._left -= more
        return max(1, more)

    def _formed(self, at: int, limit: int) -> tuple[Item, Form] | str:
        """The event at a place and how it prints (see `_form`), or why it cannot be read."""
        seq = self._found.seqs[at]
        try:
            item = self._item(seq) if seq in self._counted else self._needed(seq)
            return "limit" if item is None else (item, self._form(at, item, limit))
        except NotFoundError as error:  # the index remembers what the log or a file has lost
            return "changed" if isinstance(error, ChangedError) else "gap"

    def _needed(self, seq: int) -> Item | None:
        """Count the event's text, once, and read it; None from where that passes a limit on.

        Raises NotFoundError where the log has lost it.
        """
        if self._exhausted:  # what is shorter is not even read
            return None
        item = self._item(seq)
        if not item.final:
            item.finish(self._sheet.counter)
        text = item.text if item.whole else self._retriever.text(seq)
        if not self._sheet.needs.take_text(text, own_file=item.kind == "artifact"):
            self._exhausted = True
            return None
        self._counted.add(seq)
        return item

    def _said(self, item: Item, seq: int) -> tuple[str, int]:
        """What two events must agree in for the older to stay out: the normalised text.

        All of it, also where the item holds a part. With the seq, where it is as short as "Yes, of
        course": that says something else each time.
        """
        item.finish(self._sheet.counter)  # before that the item holds more of it, or less
        words = item.words if item.whole else None
        if words is None:
            # An artifact's item has its file's text, which the log does not.
            given = item.whole or item.kind == "artifact"
            words = normalised(item.text if given else self._retriever.text(seq))
            if item.whole:
                item.words = words
        return words, -seq if words.count(" ") < _REPEATED_WORDS - 1 else 0

    def _refuse(self, seq: int, reason: str, short_by: int) -> int:
        if seq not in self._shown:
            # With too little left for anything, how much is missing is not even looked at.
            self._why[seq] = (reason, max(1, short_by) if reason == "budget" else 0)
        return 0

    def _dated(self, group: EntryGroup) -> int:
        return self._sheet.date_tokens(self._part, group)

    def _chunks_of(self, group: EntryGroup, more: int) -> int:
        """How many chunks so many tokens more are; without a session there is no conversation."""
        if not group.session:
            return 1
        before = self._groups.get(group, 0)
        return -(-(before + more) // self._chunk) - -(-before // self._chunk)

    def _item(self, seq: int) -> Item:
        """Read the event; no more of them than the pool has. Raises NotFoundError."""
        item = self._read.get(seq)
        if item is None:
            item = self._retriever.item(seq)
            if item.kind in self._sheet.fading:
                item = self._sheet.marked(self._part, item)
            self._read[seq] = item
        return item

    def _form(self, at: int, item: Item, limit: int) -> Form:
        """A passage of at most `limit` tokens (0: none); the whole where that saves little."""
        printer = self._sheet.printer
        if not limit and item.holds_all(printer):
            return item.form(0, printer)
        found = self._found
        text = self._retriever.text(item.seq)
        # What today's redaction would take from the whole must not come in by a part of it.
        if limit and item.is_clean(text, printer):
            passage = self._retriever.passage(found.doc(at), self._wanted, limit)
            form = item.passage(passage, printer)
            part, whole = _MOST_OF_WHOLE
            if form[1] * whole < found.tokens[at] * part:
                return form
        return item.entire(text, printer)

    def _omit_others(self, above: int) -> None:
        """Name what stays out and why, best first; of what no report lists the reason alone.

        `above`: how many of them are good enough to be shown.
        """
        section, sheet, why = self._part.section, self._sheet, self._why
        found, seqs = self._found, self._found.seqs
        named = at = 0
        for at, seq in enumerate(seqs):
            if seq in sheet.seqs:
                continue
            named += 1
            if named > _NAMED_MAX:
                break
            tokens, score = found.tokens[at], found.scores[at] * _PERMILLE // ONE
            reason, short_by = why.get(seq, ("budget" if at < above else "not_relevant", 0))
            if reason == "budget":
                short_by = max(1, short_by or tokens - self._left)
            row = (self._read.get(seq), section, tokens, reason, score, short_by)
            sheet.omit_unread(seq, row)
        if named > _NAMED_MAX:
            # Thousands of them, and nothing but a count comes of it: none is looked at alone.
            rest = dict.fromkeys(seqs[at:], "not_relevant")
            rest.update(dict.fromkeys(seqs[at:above], "budget"))
            rest.update((seq, reason) for seq, (reason, _) in why.items() if seq in rest)
            sheet.pass_over(rest)


def _place(shown: _Shown) -> int:
    return shown.at


def _packing_of(materials: Materials) -> FillingParameters:
    weights = materials.policies.scoring.packing
    return FillingParameters(
        passage_tokens=weights.passage_tokens,
        passage_mean=weights.passage_mean,
        whole_tokens=weights.whole_tokens,
        passage_permille=weights.passage_worth,
        base_tokens=weights.base_tokens,
        powers=weights.powers,
        power=weights.power,
    )


def _steps(
    found: Candidates, good: Sequence[int], budget: int, packing: FillingParameters
) -> Iterator[tuple[int, bool, bool]]:
    """Places in the order to try them; whether one grows, and whether its whole is due next."""
    columns = [found.columns[name] for name in STEP_COLUMNS]
    steps = steps_of(columns, good, budget, packing)
    ahead = next(steps, None)
    while ahead is not None:
        (place, grows), ahead = ahead, next(steps, None)
        yield good[place], grows, not grows and ahead == (place, True)


# Evidence on one matter stands first, the newest before the older.
#
# A reader must not take an old value for the one that holds. The rest follows in log order.

ROOM: Final = 40  # tokens kept for date lines that come twice
_FIRST: Final = 1
_OTHER: Final = 2


class ChosenEvent(NamedTuple):
    """An event that will be shown: the document that speaks for it, and where it would stand."""

    doc: int
    item: Item
    group: EntryGroup


def newest_first(
    sheet: Sheet,
    part: BlockPart,
    chosen: Sequence[ChosenEvent],
    retriever: Retriever[Scope, Item],
    wanted: Mapping[int, int],
    room: int,
) -> dict[int, EntryGroup]:
    """By seq, the groups of the events that are to stand before the others.

    `chosen` comes best first; of what people said and of typed memories the first `LOOKED_AT_MAX`
    are looked at. The date lines that this adds cost at most `room` tokens: days for which that is
    not enough stay in log order.
    """
    spoken = [one for one in chosen if one.item.role == "user" or one.item.kind in TYPED_KINDS]
    told = [
        ValueMention(one.item.seq, retriever.words(one.doc), valued=True)
        for one in spoken[:LOOKED_AT_MAX]
        if says_a_value(one.item.text)
    ]
    matter = on_one_matter(wanted.keys(), told)
    if not matter:
        return {}
    staying = {one.group for one in chosen if one.item.seq not in matter}
    groups: dict[EntryGroup, list[int]] = {}  # those with the best evidence first
    for one in chosen:
        if one.item.seq in matter:
            groups.setdefault(one.group, []).append(one.item.seq)
    says_more = max(_says_more(sheet, part, group) for group in groups)
    taken: list[tuple[int, EntryGroup, list[int]]] = []
    for group, seqs in groups.items():
        # Where others of the day stay behind, its line comes twice; one of the lines says more.
        again = sheet.date_tokens(part, group) if group in staying else 0
        more = 0 if taken else says_more
        if again + more <= room:
            room -= again + more
            taken.append((max(seqs), group, seqs))
    taken.sort(reverse=True)
    moved: dict[int, EntryGroup] = {}
    for _, group, seqs in taken:
        moved.update(dict.fromkeys(seqs, group._replace(order=_OTHER if moved else _FIRST)))
    return moved if len(moved) > 1 else {}


def _says_more(sheet: Sheet, part: BlockPart, group: EntryGroup) -> int:
    plain = sheet.date_tokens(part, group)
    return max(0, sheet.date_tokens(part, group._replace(order=_FIRST)) - plain)
