"""`why`: what became of an event in a saved pack, told from the pack made again.

Reasons are the pack's own: it is laid out once more under what its report names, and asked. Whoever
may not see an event learns what he learns of one that does not exist: the counts of the report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import InputError, NotFoundError
from memplane.explain.reasons import Archive, left_out, suppressed
from memplane.explain.replay import asked_of, plane_of
from memplane.explain.smallest import FITS_MAX, smallest_for
from memplane.explain.sources import ledgers_of, no_source, rings_of, sources_of, tasks_of
from memplane.explain.story import (
    HIDDEN,
    NAMING,
    Allocated,
    Gone,
    Held,
    LeftOut,
    Logged,
    Memory,
    Placed,
    Scored,
    Smallest,
    Sourced,
    Story,
    Why,
)
from memplane.intake.redact import shown
from memplane.pack.block import Block, Entry
from memplane.pack.retrieved import parts_of
from memplane.projections.order import KEYLESS_KINDS
from memplane.recall.retrieval import ONE, Candidates
from memplane.recall.suppress import NAMED, OWNER

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.pack.pack import Laid
    from memplane.plane import Plane
    from memplane.plane.reports import Saved
    from memplane.ports import Line

__all__ = ["UNTOLD", "Retold", "retold", "why"]

# Stands for figures that others than who made the pack and the owner are not told.
UNTOLD: Final = "told to who made the pack, and to the owner"
_ENTRY: Final = "entry:"
_PERMILLE: Final = 1000
_NOT_SAME: Final = (
    "the pack made again is another one than was saved (see `memplane replay`): this is its story"
)
_PRIVATE: Final = ("sensitivity", "kind", "ns")


def why(
    plane: Plane, saved: Saved, given: str | int, *, channel: str | None = None,
    agent: str | None = None, smallest: bool = False, fits: int = FITS_MAX,
    progress: Callable[[int, int], None] | None = None,
) -> Why:  # fmt: skip
    """Tell the story of an event (id, seq, `#seq`) or of those of an entry (`entry:N`) in a pack.

    Who asks is the report's channel and agent, or those given; `private` without an agent is the
    owner, who is told all. Any other than who made the pack is told the place or the reason, and no
    figure that entries decide which he may not see. Raises NotFoundError for an event that is not
    there, and in the same words for one that is not for who asks, or for an entry of another's
    pack; also where too much of what the pack was made of is lost. With `smallest`, the smallest
    budget at which it would come in, looked for with at most `fits` packs; `progress` is told how
    many of how many were made.
    """
    with retold(plane, saved, channel=channel, agent=agent) as pack:
        entry, lines = pack.asked_about(given)
        stories = [pack.story(line) for line in lines]
        if smallest:
            stories = [
                story._replace(smallest=pack.smallest(line, story, fits, progress))
                for story, line in zip(stories, lines, strict=True)
            ]
        return Why(saved.id, pack.same, pack.note, entry, tuple(stories))


@contextmanager
def retold(
    plane: Plane, saved: Saved, *, channel: str | None = None, agent: str | None = None
) -> Iterator[Retold]:
    """The pack of a report made again, to be asked about many events; see `why` for the rest."""
    then, lost = plane_of(plane, saved)
    if then is None:
        names = "; ".join(map(str, lost))
        raise NotFoundError(f"the pack {saved.id} cannot be made again: {names}")
    with then:
        laid: list[Laid] = []
        block = then.pack(**asked_of(saved), watch=laid.append)
        same = hashlib.sha256(block.text.encode()).hexdigest() == saved.report["acb_sha256"]
        note = "" if same else "; ".join((_NOT_SAME, *map(str, lost)))
        request = laid[0].ground.request
        if channel is None and agent is None:
            channel, agent = request.channel, request.agent
        asker = _Asker(plane, then, channel or request.channel, agent)
        yield Retold(asker, block, laid[0], note)


class _Asker(NamedTuple):
    """Who wants to know, on the plane of now and on the one of then."""

    now: Plane
    then: Plane
    channel: str
    agent: str | None

    @property
    def owner(self) -> bool:
        return self.channel == OWNER and self.agent is None

    def may_see(self, event: Event) -> bool:
        """Whether he may know of the event: by today's policies, and by those of the pack."""
        if self.owner:
            return True
        planes = (self.now, self.then) if event.seq <= self.then.head().seq else (self.now,)
        return all(
            one._engine.reader(self.channel, agent=self.agent).may_read(event)  # noqa: SLF001
            for one in planes
        )

    def __str__(self) -> str:
        return f"channel {self.channel}" if self.agent is None else (
            f"agent {shown(self.agent)} on channel {self.channel}"
        )  # fmt: skip


class Retold:
    """A pack made again, and what it was made of. `same`: it is the saved one, byte for byte."""

    def __init__(self, asker: _Asker, block: Block, laid: Laid, note: str) -> None:
        self.same, self.note = not note, note
        self._asker, self._block, self._laid = asker, block, laid
        # A plane shows what an event is, not where it stands.
        self._log, engine = asker.now._log, asker.then._engine  # noqa: SLF001
        self._archive = Archive(engine.caught_up().memories, laid.ground.request.as_of)

    def asked_about(self, given: str | int) -> tuple[dict[str, Any] | None, list[Line]]:
        """The lines of the events that are named, and the entry, where one is."""
        if isinstance(given, str) and given.startswith(_ENTRY):
            return self._entry(given)
        line = self._line(given)
        if line is None and self._asker.owner:
            self._lost(given)
        if line is None or not self._asker.may_see(line.event):
            raise self._unknown(f"event {shown(given)}")
        return None, [line]

    def story(self, line: Line) -> Story:
        """What became of one event."""
        event, laid = line.event, self._laid
        places = tuple(self._places(event))
        reasons = tuple(map(self._named, left_out(laid, event, self._archive)))
        names = tuple(source.name for source in sources_of(laid, event))
        if not places and not reasons:
            unseen = _passed_over(names) if names else no_source(laid, event)
            reasons = (LeftOut(*unseen, counted=False),)
        told = any(place.how != "named" for place in places)
        outcome = "placed" if told else "named" if places else "left_out"
        none = "" if names else self._no_source(event)
        logged = Logged(
            line.segment, event.seq, event.rec, event.kind, event.ns, event.session
        )  # fmt: skip
        allocated = tuple(self._allocated(places, reasons))
        scored: Scored | str = UNTOLD
        if self._foreign:
            places, allocated = tuple(place.bare() for place in places), ()
            reasons = tuple(reason.bare() for reason in reasons)
        else:
            scored = self._scored(event)
        return Story(
            event.id, outcome, logged, self._held(event), Sourced(names, none),
            scored, allocated, places, reasons,
        )  # fmt: skip

    def smallest(
        self, line: Line, story: Story, fits: int, progress: Callable[[int, int], None] | None
    ) -> Smallest:
        """The smallest budget at which the event would come in."""
        laid, event = self._laid, line.event
        if self._foreign:
            budgets = laid.ground.materials.policies.budgets
            most = budgets.acb_total_max_tokens - budgets.reserve_tokens
            return Smallest(
                None, "", "", exact=False, not_below=1, most=most, fits=0, why=UNTOLD
            )  # fmt: skip
        why = "it is in the block" if story.outcome == "placed" else ""
        if not why:
            reason = suppressed(laid, event, self._archive)
            if reason not in NAMED:
                why = f"no budget brings it in: {reason}"
        return smallest_for(laid, self._asker.then, event, why, fits, progress)

    @property
    def _foreign(self) -> bool:
        """Whether who asks has other eyes than who made the pack, and does not own the plane."""
        request = self._laid.ground.request
        own = (self._asker.channel, self._asker.agent) == (request.channel, request.agent)
        return not (own or self._asker.owner)

    def _no_source(self, event: Event) -> str:
        reason = suppressed(self._laid, event, self._archive)
        if reason in NAMED:
            return no_source(self._laid, event)[1]
        return f"it may not be shown ({reason})"

    def _entry(self, given: str) -> tuple[dict[str, Any], list[Line]]:
        number = given.removeprefix(_ENTRY)
        entries = self._block.entries
        if not _is_number(number):
            raise InputError(f"expected {_ENTRY}1 for the first entry, found {shown(given)}")
        at = int(number)
        entry = entries[at - 1] if 0 < at <= len(entries) else None
        found_lines = [] if entry is None else list(self._lines_of(entry))
        lines = [line for line in found_lines if self._asker.may_see(line.event)]
        if entry is None or self._foreign:
            raise self._unknown(f"entry {at}")
        fields = {
            "entry": at, "section": entry.section, "place": entry.place, "area": entry.part,
            "tokens": entry.tokens, "source": entry.source,
        }  # fmt: skip
        return fields, lines

    def _lines_of(self, entry: Entry) -> Iterator[Line]:
        for id_ in (*entry.events, *entry.parts):
            line = self._log.find(id_)
            if line is not None:
                yield line

    def _line(self, given: str | int) -> Line | None:
        """The line that an id or a seq names: a number is a seq first, and else an id."""
        digits = str(given).removeprefix("#")
        if _is_number(digits):
            line = self._log.line(int(digits))
            if line is not None or not isinstance(given, str) or given != digits:
                return line
        return self._log.find(given) if isinstance(given, str) else None

    def _lost(self, given: str | int) -> None:
        """Raise where the log had the event, or may have had it: for the owner, who may know."""
        digits = str(given).removeprefix("#")
        if _is_number(digits) and 0 < int(digits) <= self._log.head().seq:
            raise NotFoundError(
                f"the log cannot give event {shown(given)}: its line does not verify; "
                "see `memplane verify`"
            )
        if self._log.gaps():
            raise NotFoundError(
                f"no event {shown(given)} in what the log can give: parts of it do not verify; "
                "see `memplane verify`"
            )

    def _unknown(self, what: str) -> NotFoundError:
        if self._foreign:
            return NotFoundError(f"no {what} for {self._asker}")
        counts = self._block.report["omissions"]["counts"]
        hidden = ", ".join(f"{counts[name]} {name}" for name in _PRIVATE if name in counts)
        left = f"; the pack left out for privacy: {hidden}" if hidden else ""
        return NotFoundError(f"no {what} for {self._asker}{left}")

    def _named(self, reason: LeftOut) -> LeftOut:
        """The reason with the event that it names, for who may see that one."""
        if not reason.by_seq:
            return reason
        seq, id_ = self._told_of(reason.by_seq)
        if seq:
            return reason._replace(by_id=id_)
        if reason.reason == "duplicate":  # who sees the one would know the other's words
            return LeftOut("passed_over", "the block shows something else", reason.section)
        return reason._replace(why=f"{reason.why} {HIDDEN}", by_seq=0)

    def _told_of(self, seq: int) -> tuple[int, str]:
        """The seq and id of another event, 0 and "" for who may not see it."""
        if seq > self._laid.ground.request.as_of:  # an empty window begins at what comes next
            return seq, ""
        line = self._log.line(seq)
        if line is not None and self._asker.may_see(line.event):
            return seq, line.event.id
        return seq if self._asker.owner else 0, ""

    def _held(self, event: Event) -> Held:
        laid, seq = self._laid, event.seq
        materials = laid.ground.materials
        tasks = tasks_of(laid, seq)
        if not self._asker.owner:  # of others he may not even know the name
            tasks = [name for name in tasks if name == event.task]
        memory = None
        if event.key is not None and event.kind not in KEYLESS_KINDS:
            current = self._archive.current(event)
            memory = Memory(event.key, current)
        gone = tuple(
            Gone(reason, *self._told_of(by)) for reason, by in self._archive.gone(event)
        )  # fmt: skip
        pin = materials.pinned.get(seq, 0)
        if pin:
            pin, _ = self._told_of(pin)
        return Held(
            tuple(rings_of(laid, seq)), tuple(ledgers_of(laid, seq)), tuple(tasks), memory, gone,
            pin,
        )  # fmt: skip

    def _scored(self, event: Event) -> Scored | str:
        ranked = self._laid.facts.sheet.ranked
        if ranked is None:
            asked = bool(self._laid.ground.query)
            return "nothing answers the query" if asked else "nothing was asked"
        rows, none = ranked.rows, "it does not answer the query"
        if isinstance(rows, Candidates):
            if event.seq not in rows.seqs:
                return none
            at = rows.seqs.index(event.seq)
            found, floor = rows[at], ranked.floor * _PERMILLE // ONE
            score = found.score * _PERMILLE // ONE
            return Scored(score, parts_of(found), at + 1, len(rows), floor)
        hit = next((hit for hit in rows if hit.item.seq == event.seq), None)
        if hit is None:
            return none
        parts = {
            "words": hit.words, "tags": hit.tags, "key": hit.key, "neighbours": hit.neighbours,
            "markers": hit.markers,
        }  # fmt: skip
        rank = 1 + sum(1 for other in rows if other.score > hit.score)
        return Scored(hit.score, parts, rank, len(rows), ranked.floor)

    def _places(self, event: Event) -> Iterator[Placed]:
        for at, entry in enumerate(self._block.entries, 1):
            if event.id in entry.events or event.id in entry.parts:
                how = "whole" if event.id in entry.events else "part"
                if entry.source in NAMING:
                    how = "named"
                yield Placed(
                    at, entry.section, entry.place, entry.part, how, entry.tokens, entry.source
                )

    def _allocated(
        self, places: tuple[Placed, ...], reasons: tuple[LeftOut, ...]
    ) -> Iterator[Allocated]:
        tokens = {reason.section: reason.tokens for reason in reversed(reasons)}
        shown_in = [place for place in reversed(places) if place.how != "named"]
        tokens |= {place.section: place.tokens for place in shown_in}
        for name, section in self._block.report["sections"].items():
            if name in tokens:
                yield Allocated(
                    name, section["share_ppm"], section["room"], section["cap"], section["used"],
                    tokens[name],
                )  # fmt: skip


def _passed_over(names: tuple[str, ...]) -> tuple[str, str]:
    """Why an event is out that something holds, and of which no stage spoke."""
    return "passed_over", f"of what {', '.join(names)} hold, the block shows something else"


def _is_number(text: str) -> bool:
    """Whether a text is a number that a seq could be."""
    return text.isascii() and text.isdigit() and len(text) < 19
