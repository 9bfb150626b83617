"""A ledger: the statements of some kinds that are in force, bounded, with enough text to be packed.

One rule of supersession for all ledgers: a later event of the same namespace and key,
whatever its kind, takes the place of the older one, which leaves the ledger. Without a
key nothing can replace a statement, so it is filed under its own number.

Bounds: the newest `kept_max` plain ones, as many protected ones (pinned, or carrying the
ledger's marker), as many passing ones, as many forgotten ones, and `bytes_max` of JSON over
all, each in every group of events that are open to the same readers (`groups`). Over a bound
the oldest forgotten goes first, then the oldest passing, plain, marked, and last a pinned one.
A statement that left does not come back: `memories` has the history. Of the last `left_max` that
left, everything but the text is kept until they are replaced, so that a pack can name statements
that it could not choose from. Of those before them only the fact that there were some is kept:
`more`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from memplane.event import PROJECTS, Event
from memplane.lazy import NamedTuple, word_table
from memplane.ports import Line, TokenCounter
from memplane.projections.groups import (
    Grouped,
    Groups,
    Sees,
    share_of,
)
from memplane.projections.in_force import KEYLESS_KINDS, Forget, forget_of
from memplane.projections.item import Item
from memplane.projections.projector import canonical
from memplane.projections.window import plain_text

KEPT_MAX: Final = 100
# Of one group.
BYTES_MAX: Final = 512 * 1024 - 4096
TEXT_CHARS_MAX: Final = 4000
RATIONALE_CHARS_MAX: Final = 1000

_SEQ_DIGITS: Final = 20
_FORM_BYTES: Final = 24
_LEFT: Final = 2  # added to the digit that says whether a statement is forgotten
# In the order in which they are given up.
_FORGOTTEN, _PASSING, _PLAIN, _MARKED, _PINNED = range(5)


class EntryForm(NamedTuple):
    """A statement's entry: `cost` in tokens, characters shown, and whether that is `whole`."""

    cost: int
    chars: int
    whole: bool


class Statement:
    """A statement: its event, as far as a ledger keeps it, and its state there.

    The event's text ends after `TEXT_CHARS_MAX` characters, and of its data the rationale is left;
    `whole` says whether that is all of the text. `pinned_at` is the seq of the pin in force, 0 for
    none. `left`: a bound drove it out, and its text is gone. `rank`: which bound it counts against.
    """

    __slots__ = ("event", "forgotten", "form", "left", "pinned_at", "rank", "size", "whole")

    def __init__(self, event: Event, *, whole: bool, forgotten: bool = False) -> None:
        self.event, self.whole, self.forgotten = event, whole, forgotten
        self.pinned_at = 0
        self.left = False
        self.rank, self.size = _PLAIN, 0
        self.form: EntryForm | None = None  # from the first saving on

    @classmethod
    def of(cls, event: Event) -> Statement:
        """The statement that a new event makes."""
        text, rationale = event.text, event.data.get("rationale")
        kept = event._replace(
            rec=event.ts,
            text=text[:TEXT_CHARS_MAX],
            data=_data(rationale[:RATIONALE_CHARS_MAX] if isinstance(rationale, str) else None),
            dur=0,
            h="",
        )
        # A spilled body leaves only its beginning in the event.
        return cls(kept, whole=len(text) <= TEXT_CHARS_MAX and "body" not in event.data)

    def bare(self) -> Statement:
        """What is kept of it when a bound drives it out."""
        event = self.event._replace(text="", refs=(), markers=(), actor=None, data={})
        return Statement(event, whole=False, forgotten=self.forgotten)

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def id(self) -> str:
        return self.event.id

    @property
    def session(self) -> str | None:
        return self.event.session

    @property
    def ns(self) -> str:
        return self.event.ns

    @property
    def key(self) -> str | None:
        return self.event.key


class Ledger:
    """The state: statements in log order, forgotten ones among them, flagged.

    `left` are those that a bound drove out, without their texts, in the order in which they went;
    `more` says that others went before them.
    """

    __slots__ = ("_bytes", "_left_bytes", "_ranks", "items", "keyed", "left", "more", "shed_seq")

    def __init__(self) -> None:
        self.items: dict[int, Statement] = {}  # by seq, in log order
        self.keyed: dict[tuple[str, str], int] = {}
        self.left: dict[int, Statement] = {}
        self.more = False
        self.shed_seq = 0  # the newest statement that a bound drove out
        self._ranks = [0] * 5
        self._bytes = self._left_bytes = 0

    def active(self) -> list[Statement]:
        """Return the statements in force in log order, expired ones included."""
        return [one for one in self.items.values() if not one.forgotten]

    def left_in_force(self) -> list[Statement]:
        """Return those of `left` that are in force: without text, refs and markers."""
        return [one for one in self.left.values() if not one.forgotten]

    def mark(self, forget: Forget) -> list[Statement]:
        """Flag what a forget names, of `items` and `left`; return it."""
        if forget.key is None:
            return forget.mark((*self.items.values(), *self.left.values()))
        seq = self.keyed.get((forget.ns, forget.key))
        return forget.mark([] if seq is None else [self.items.get(seq) or self.left[seq]])

    def __len__(self) -> int:
        return len(self.items)

    def supersede(self, ns: str, key: str) -> None:
        """Drop the statement under the key, forgotten or not."""
        seq = self.keyed.get((ns, key))
        if seq is not None:
            self._drop(seq)

    def enter(self, one: Statement, rank: int) -> None:
        """File a statement that is newer than all others."""
        one.rank, one.size = rank, _size(one)
        self.items[one.seq] = one
        if one.key is not None:
            self.keyed[one.ns, one.key] = one.seq
        self._ranks[rank] += 1
        self._bytes += one.size

    def keep_left(self, one: Statement) -> None:
        """File one that left, as the last of them."""
        one.left, one.size = True, one.size or _size(one)
        self.left[one.seq] = one
        if one.key is not None:
            self.keyed[one.ns, one.key] = one.seq
        self._left_bytes += one.size
        self._bytes += one.size

    def _drop(self, seq: int) -> Statement:
        one = self.items.pop(seq, None)
        if one is not None:
            self._ranks[one.rank] -= 1
        else:
            one = self.left.pop(seq)
            self._left_bytes -= one.size
        if one.key is not None:
            del self.keyed[one.ns, one.key]
        self._bytes -= one.size
        return one

    def rerank(self, one: Statement, rank: int) -> None:
        """Move a statement between the bounds it counts against."""
        self._ranks[one.rank] -= 1
        self._ranks[rank] += 1
        one.rank = rank

    def shed(self, kept_max: int, left_max: int, bytes_max: int) -> None:
        """Drop the oldest of the least worth until every bound holds.

        What left takes no room from what is here, but the eighth of the bytes that is its own.
        """
        ranks = self._ranks
        while ranks[_FORGOTTEN] > kept_max:
            self._give_up(_FORGOTTEN, left_max)
        while ranks[_PASSING] > kept_max:
            self._give_up(_PASSING, left_max)
        while ranks[_PLAIN] > kept_max:
            self._give_up(_PLAIN, left_max)
        while ranks[_MARKED] + ranks[_PINNED] > kept_max:
            self._give_up(_MARKED if ranks[_MARKED] else _PINNED, left_max)
        while self._bytes > bytes_max:
            if self._left_bytes > bytes_max // 8:
                self._drop_left()
            else:
                self._give_up(next(rank for rank in range(5) if ranks[rank]), left_max)

    def _give_up(self, rank: int, left_max: int) -> None:
        seq = next(seq for seq, item in self.items.items() if item.rank == rank)
        if rank != _PASSING or self._recurs(seq):  # else no block has shown it
            self.shed_seq = max(self.shed_seq, seq)
        one = self._drop(seq)
        if left_max:
            self.keep_left(one.bare())
            if len(self.left) > left_max:
                self._drop_left()

    def _drop_left(self) -> None:
        self._drop(next(iter(self.left)))
        self.more = True

    def _recurs(self, seq: int) -> bool:
        words = self.items[seq].event.text.split()
        same = (one.event.text.split() == words for one in self.items.values())
        return sum(same) > 1


class LedgerProjector:
    """Folds the log into a `Ledger` of the kinds given, in one namespace or in all.

    Statements that carry `marker` are protected like pinned ones; those of the `passing` kinds are
    kept only where they are short, in bounds of their own, and go before others. An event of
    sensitivity `secret` supersedes like any other, and is not kept.
    """

    name: str
    version: int
    kinds: frozenset[str]
    ns: str | None = None
    marker: str | None = None
    passing: frozenset[str] = frozenset()
    passing_chars_max = TEXT_CHARS_MAX
    left_max = 0

    def __init__(
        self,
        *,
        kept_max: int = KEPT_MAX,
        bytes_max: int = BYTES_MAX,
        counter: TokenCounter | None = None,
    ) -> None:
        self.kept_max, self.bytes_max, self.counter = kept_max, bytes_max, counter
        self.kinds_read = self.kinds | {"forget", "pin"}

    def initial(self) -> Ledger:
        """Return an empty ledger."""
        return Ledger()

    def apply(self, state: Ledger, line: Line) -> None:
        """Supersede, file, forget or pin what one line says."""
        event = line.event
        kind = event.kind
        if kind in KEYLESS_KINDS:
            if kind == "forget":
                self._forget(state, event)
            elif kind == "pin":
                self._pin(state, event)
            return
        if event.key is not None:
            state.supersede(event.ns, event.key)
        if event.sensitivity != "secret" and self.keeps(event):
            one = Statement.of(event)
            state.enter(one, self._rank(one))
            self._shed(state)

    def keeps(self, event: Event) -> bool:
        """Whether the event is a statement of this ledger."""
        if event.kind not in self.kinds:
            return False
        if self.ns not in (None, event.ns) and not event.ns.startswith(PROJECTS):
            return False
        return event.kind not in self.passing or len(event.text) <= self.passing_chars_max

    def dump(self, state: Ledger) -> bytes:
        """Return the statements in log order, as `fields` has them."""
        return canonical(self.fields(state))

    def fields(self, state: Ledger) -> dict[str, Any]:
        """The statements in log order as JSON values; with a counter, what each costs in a block.

        What was counted stays with the state.
        """
        if self.counter is not None:
            for one in state.items.values():
                one.form = one.form or _form(one, self.counter)
        return {
            "shed": state.shed_seq,
            "more": int(state.more),
            "items": [_row(one) for one in (*state.left.values(), *state.items.values())],
        }

    def load(self, data: bytes) -> Ledger:
        """Return the ledger that was dumped."""
        return self.of(json.loads(data))

    def of(self, fields: dict[str, Any]) -> Ledger:
        """The ledger that `fields` gave."""
        state = Ledger()
        state.shed_seq, state.more = fields["shed"], bool(fields["more"])
        for row in fields["items"]:
            one = _statement(row)
            if one.left:
                state.keep_left(one)
            else:
                state.enter(one, self._rank(one))
        return state

    def _forget(self, state: Ledger, event: Event) -> None:
        forget = forget_of(event)
        if forget is not None:
            self._settle(state, state.mark(forget))

    def _pin(self, state: Ledger, event: Event) -> None:
        refs = frozenset(event.refs)
        undo = event.data.get("undo", False)
        found = [one for one in state.items.values() if one.id in refs]
        for one in found:
            # A second pin changes nothing: the head of the session's blocks stays as it is.
            one.pinned_at = 0 if undo else one.pinned_at or event.seq
        self._settle(state, found)

    def _settle(self, state: Ledger, changed: list[Statement]) -> None:
        for one in changed:
            if not one.left:
                state.rerank(one, self._rank(one))
        self._shed(state)

    def _rank(self, one: Statement) -> int:
        if one.forgotten:
            return _FORGOTTEN
        if one.pinned_at:
            return _PINNED
        if one.event.kind in self.passing:
            return _PASSING
        return _MARKED if self.marker in one.event.markers else _PLAIN

    def _shed(self, state: Ledger) -> None:
        state.shed(self.kept_max, self.left_max, self.bytes_max)


class Ledgers(Groups[Ledger]):
    """The ledgers of all groups."""

    __slots__ = ()

    def active(self, sees: Sees | None = None) -> list[Statement]:
        """Return the statements in force visible to a reader (None: all), in log order."""
        ledgers = self.among(sees)
        if len(ledgers) == 1:
            return ledgers[0].active()
        return sorted((one for ledger in ledgers for one in ledger.active()), key=_seq)

    def left(self, sees: Sees | None = None) -> list[Statement]:
        """Return `Ledger.left_in_force` of the visible groups, in log order."""
        left = [one for ledger in self.among(sees) for one in ledger.left_in_force()]
        return sorted(left, key=_seq)

    def more(self, sees: Sees | None = None) -> bool:
        """Whether visible groups lost statements that `left` no longer has."""
        return any(one.more for one in self.among(sees))

    def shed_seq(self, sees: Sees | None = None) -> int:
        """Return the seq of the newest statement that a bound drove out of a visible group."""
        return max((one.shed_seq for one in self.among(sees)), default=0)


class LedgersProjector(Grouped[Ledger]):
    """The projector of the ledgers of all groups.

    `part` makes that of one, with so many bytes; by `counter` it stores what statements cost.
    """

    states = Ledgers

    def __init__(
        self,
        part: type[LedgerProjector],
        *,
        counter: TokenCounter | None = None,
        only: Sees | None = None,
    ) -> None:
        super().__init__(
            lambda group: part(bytes_max=share_of(group, BYTES_MAX), counter=counter), only=only
        )


def _seq(statement: Statement) -> int:
    return statement.seq


def _data(rationale: str | None) -> dict[str, Any]:
    return {} if rationale is None else {"rationale": rationale}


# The row of a statement in the checkpoint: the columns below, then whether it has a key of its own
# and its state (1 forgotten, 2 left; flags are digits, so that a forget changes no size), then its
# form, or the size of one that left. `key` is `#<seq>` where the event has none.
_COLUMNS: Final = word_table("""
    seq id ts ns session task key kind text tokens refs tags markers sensitivity importance
    valid_from valid_until pinned_at actor role rationale whole
""")


def _row(one: Statement) -> list[Any]:
    form: Iterable[int] = () if one.form is None else map(int, one.form)
    if one.left:
        form = (one.size,) if one.size else ()  # counted once, for there are many
    return [*_fixed(one, one.pinned_at), *form]


def _fixed(one: Statement, pinned_at: int) -> list[Any]:
    event = one.event
    state = {
        "key": f"#{event.seq}" if event.key is None else event.key,
        "pinned_at": pinned_at,
        "rationale": event.data.get("rationale"),
        "whole": int(one.whole),
    }
    columns = (state[name] if name in state else getattr(event, name) for name in _COLUMNS)
    return [*columns, int(event.key is not None), one.forgotten + _LEFT * one.left]


def _size(one: Statement) -> int:
    """Bytes of the statement's row at most: a later pin must not change what it was counted as."""
    return len(canonical(_fixed(one, 0))) + _SEQ_DIGITS + _FORM_BYTES


def _statement(row: list[Any]) -> Statement:
    keyed, state, *form = row[len(_COLUMNS) :]
    fields = dict(zip(_COLUMNS, row, strict=False))
    pinned_at, whole = fields.pop("pinned_at"), fields.pop("whole")
    fields |= {name: tuple(fields[name]) for name in ("refs", "tags", "markers")}
    fields |= {"rec": fields["ts"], "data": _data(fields.pop("rationale"))}
    if not keyed:
        fields["key"] = None
    one = Statement(Event(**fields), whole=bool(whole), forgotten=bool(state % _LEFT))
    one.pinned_at = pinned_at
    if state >= _LEFT:
        one.left, one.size = True, *form
    elif form:
        cost, chars, all_there = form
        one.form = EntryForm(cost, chars, bool(all_there))
    return one


def statement_item(one: Statement) -> Item:
    """A statement as the packing stages see it; by its form, where that was stored, not counted."""
    event, form = one.event, one.form
    if event.key is not None and event.key.startswith("#"):
        event = event._replace(key=None)  # it would read like the number of an event
    item = Item.of(event, len(event.text) if event.tokens is None else event.tokens)
    if not one.whole:
        item.whole = False
    if form is not None:
        item.text, item.whole = plain_text(item.text)[: form.chars], form.whole
        item.cost, item.final = form.cost, True
    return item


def _form(one: Statement, counter: TokenCounter) -> EntryForm | None:
    item = statement_item(one)
    text = plain_text(item.text)
    item.finish(counter)
    form = EntryForm(item.cost, len(item.text), item.whole)
    return form if text.startswith(item.text) else None


_DECISION: Final = "decision"  # the kind, and the marker
_MESSAGE: Final = "message"
_SIDE: Final = "sidechain"
_SAID_CHARS_MAX: Final = 600  # of a message that decides; a longer one says much else


# The two ledgers of the fast path: decisions, and knowledge cards.


class Decisions(LedgerProjector):
    """The latest decision of each namespace and key; constraints are protected. None decays.

    Also what a user said in a message that begins a line with `Decision: ...`. A pack chooses from
    those that are kept, and names the 200 in force that were kept before.
    """

    name = "decisions"
    version = 7
    kinds = frozenset({"decision"})
    marker = "constraint"
    left_max = 200

    def keeps(self, event: Event) -> bool:
        return states_decision(event) if event.kind == _MESSAGE else super().keeps(event)


def states_decision(event: Event) -> bool:
    """Whether the event is a decision: one by its kind, or a short message of a user marked as one.

    A message that quotes a line is none: the words may be somebody else's.
    """
    if event.kind != _MESSAGE:
        return event.kind == _DECISION
    if event.role != "user" or _DECISION not in event.markers or _SIDE in event.tags:
        return False
    text = event.text
    return 0 < len(text) <= _SAID_CHARS_MAX and not any(
        line.lstrip().startswith(">") for line in text.split("\n")
    )


class Cards(LedgerProjector):
    """Preferences, rules, insights and facts about the plane as a whole: those at `/global`.

    And short observations, which are cards where they recur; they go before all others.
    """

    name = "cards"
    version = 7
    kinds = frozenset({"preference", "rule", "insight", "fact", "observation"})
    passing = frozenset({"observation"})
    passing_chars_max = 600
    ns = "/global"
