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
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from memplane.event import Event
from memplane.ports import Line, TokenCounter
from memplane.projections.forgetting import Forget, forget_of
from memplane.projections.groups import (
    Grouped,
    Groups,
    Sees,
    VisibilityGroup,
    group_space,
    share_of,
)
from memplane.projections.item import Item
from memplane.projections.order import KEYLESS_KINDS
from memplane.projections.projector import canonical
from memplane.projections.window import plain_text

__all__ = [
    "Cards",
    "Decisions",
    "EntryForm",
    "Ledger",
    "LedgerProjector",
    "LedgerStatement",
    "Ledgers",
    "LedgersProjector",
    "items_of",
]


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


class LedgerStatement(NamedTuple):
    """What a ledger keeps of an event.

    `key` is `#<seq>` where the event has none. `whole` says whether `text` is all of
    it; `tokens` are those of the whole text, None where a light process wrote it.
    """

    seq: int
    id: str
    ts: str
    ns: str
    session: str | None
    task: str | None
    key: str
    kind: str
    text: str
    tokens: int | None
    refs: tuple[str, ...]
    tags: tuple[str, ...]
    markers: tuple[str, ...]
    sensitivity: str
    importance: int
    valid_from: str | None
    valid_until: str | None
    pinned_at: int  # seq of the pin in force, 0 for none
    actor: str | None
    role: str | None
    rationale: str | None
    whole: bool


class EntryForm(NamedTuple):
    """How a statement stands in a block: its tokens, so many characters of it, `whole` or cut."""

    cost: int
    chars: int
    whole: bool


# What is given up of one that leaves.
_BARE: Final[dict[str, Any]] = {
    "text": "",
    "refs": (),
    "markers": (),
    "pinned_at": 0,
    "actor": None,
    "rationale": None,
    "whole": False,
}
_PINNED_AT: Final = LedgerStatement._fields.index("pinned_at")
_FIELDS: Final = len(LedgerStatement._fields)


class _Item:
    __slots__ = ("forgotten", "form", "keyed", "left", "rank", "size", "statement")

    def __init__(self, statement: LedgerStatement, keyed: bool, forgotten: bool = False) -> None:
        self.statement, self.keyed, self.forgotten = statement, keyed, forgotten
        self.left = False  # whether it is one that left, without its text
        self.rank, self.size = _PLAIN, 0
        self.form: EntryForm | None = None  # from the first saving on


class Ledger:
    """The state: statements in log order, forgotten ones among them, flagged.

    `left` are those that a bound drove out, without their texts, in the order in which they went;
    `more` says that others went before them.
    """

    __slots__ = ("_bytes", "_left_bytes", "_ranks", "items", "keyed", "left", "more", "shed_seq")

    def __init__(self) -> None:
        self.items: dict[int, _Item] = {}  # by seq, in log order
        self.keyed: dict[tuple[str, str], int] = {}
        self.left: dict[int, _Item] = {}
        self.more = False
        self.shed_seq = 0  # the newest statement that a bound drove out
        self._ranks = [0] * 5
        self._bytes = self._left_bytes = 0

    def active(self) -> list[LedgerStatement]:
        """Return what is in force in log order: expired ones too, forgotten ones not."""
        return [item.statement for item in self.items.values() if not item.forgotten]

    def left_in_force(self) -> list[LedgerStatement]:
        """Return what is in force of `left`: without text, refs and markers."""
        return [item.statement for item in self.left.values() if not item.forgotten]

    def named(self, forget: Forget) -> list[_Item]:
        """Return what a forget speaks of, of `items` and `left`."""
        if forget.key is not None:
            seq = self.keyed.get((forget.ns, forget.key))
            return [] if seq is None else [self.items.get(seq) or self.left[seq]]
        return [
            item
            for item in (*self.items.values(), *self.left.values())
            if forget.names(item.statement.id, item.statement.session)
        ]

    def form(self, statement: LedgerStatement) -> EntryForm | None:
        """Return how a statement stands in a block, where that was stored."""
        item = self.items.get(statement.seq)
        return None if item is None else item.form

    def __len__(self) -> int:
        return len(self.items)

    def supersede(self, ns: str, key: str) -> None:
        """Drop what is filed under the key, forgotten or not."""
        seq = self.keyed.get((ns, key))
        if seq is not None:
            self._drop(seq)

    def enter(self, item: _Item, rank: int) -> None:
        """File a statement that is newer than all others."""
        statement = item.statement
        item.rank, item.size = rank, _size(item)
        self.items[statement.seq] = item
        if item.keyed:
            self.keyed[statement.ns, statement.key] = statement.seq
        self._ranks[rank] += 1
        self._bytes += item.size

    def keep_left(self, item: _Item) -> None:
        """File one that left, as the last of them."""
        item.left, item.size = True, item.size or _size(item)
        self.left[item.statement.seq] = item
        if item.keyed:
            self.keyed[item.statement.ns, item.statement.key] = item.statement.seq
        self._left_bytes += item.size
        self._bytes += item.size

    def _drop(self, seq: int) -> _Item:
        item = self.items.pop(seq, None)
        if item is not None:
            self._ranks[item.rank] -= 1
        else:
            item = self.left.pop(seq)
            self._left_bytes -= item.size
        if item.keyed:
            del self.keyed[item.statement.ns, item.statement.key]
        self._bytes -= item.size
        return item

    def rerank(self, item: _Item, rank: int) -> None:
        """Move a statement between the bounds it counts against."""
        self._ranks[item.rank] -= 1
        self._ranks[rank] += 1
        item.rank = rank

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
        item = self._drop(seq)
        if left_max:
            bare = _Item(item.statement._replace(**_BARE), item.keyed, item.forgotten)
            self.keep_left(bare)
            if len(self.left) > left_max:
                self._drop_left()

    def _drop_left(self) -> None:
        self._drop(next(iter(self.left)))
        self.more = True

    def _recurs(self, seq: int) -> bool:
        words = self.items[seq].statement.text.split()
        same = (one.statement.text.split() == words for one in self.items.values())
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
            item = _Item(_statement(event), event.key is not None)
            state.enter(item, self._rank(item))
            self._shed(state)

    def keeps(self, event: Event) -> bool:
        """Whether the event is a statement of this ledger."""
        if event.kind not in self.kinds or self.ns not in (None, event.ns):
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
            for item in state.items.values():
                item.form = item.form or _form(item.statement, self.counter)
        return {
            "shed": state.shed_seq,
            "more": int(state.more),
            "items": [_row(item) for item in (*state.left.values(), *state.items.values())],
        }

    def load(self, data: bytes) -> Ledger:
        """Return the ledger that was dumped."""
        return self.of(json.loads(data))

    def of(self, fields: dict[str, Any]) -> Ledger:
        """The ledger that `fields` gave."""
        state = Ledger()
        state.shed_seq, state.more = fields["shed"], bool(fields["more"])
        for row in fields["items"]:
            item = _item(row)
            if item.left:
                state.keep_left(item)
            else:
                state.enter(item, self._rank(item))
        return state

    def _forget(self, state: Ledger, event: Event) -> None:
        named = forget_of(event)
        if named is None:
            return
        found = state.named(named)
        for item in found:
            item.forgotten = not named.undo
        self._settle(state, found)

    def _pin(self, state: Ledger, event: Event) -> None:
        refs = frozenset(event.refs)
        undo = event.data.get("undo", False)
        found = [item for item in state.items.values() if item.statement.id in refs]
        for item in found:
            # A second pin changes nothing: the head of the session's blocks stays as it is.
            pinned_at = 0 if undo else item.statement.pinned_at or event.seq
            item.statement = item.statement._replace(pinned_at=pinned_at)
        self._settle(state, found)

    def _settle(self, state: Ledger, changed: list[_Item]) -> None:
        for item in changed:
            if not item.left:
                state.rerank(item, self._rank(item))
        self._shed(state)

    def _rank(self, item: _Item) -> int:
        if item.forgotten:
            return _FORGOTTEN
        if item.statement.pinned_at:
            return _PINNED
        if item.statement.kind in self.passing:
            return _PASSING
        return _MARKED if self.marker in item.statement.markers else _PLAIN

    def _shed(self, state: Ledger) -> None:
        state.shed(self.kept_max, self.left_max, self.bytes_max)


class Ledgers(Groups[Ledger]):
    """The ledgers of all groups."""

    __slots__ = ()

    def active(self, sees: Sees | None = None) -> list[LedgerStatement]:
        """Return what is in force, in log order, as far as a reader sees it; None: all."""
        ledgers = self.among(sees)
        if len(ledgers) == 1:
            return ledgers[0].active()
        return sorted((one for ledger in ledgers for one in ledger.active()), key=_seq)

    def left(self, sees: Sees | None = None) -> list[LedgerStatement]:
        """Return what is in force of what left them, in log order: see `Ledger.left_in_force`."""
        left = [one for ledger in self.among(sees) for one in ledger.left_in_force()]
        return sorted(left, key=_seq)

    def more(self, sees: Sees | None = None) -> bool:
        """Whether more left what he sees than `left` tells of."""
        return any(one.more for one in self.among(sees))

    def form(self, statement: LedgerStatement) -> EntryForm | None:
        """Return how a statement stands in a block, where its group is here and that was stored."""
        ledger = self.groups.get(
            VisibilityGroup(statement.sensitivity == "high", group_space(statement.ns))
        )
        return None if ledger is None else ledger.form(statement)

    def shed_seq(self, sees: Sees | None = None) -> int:
        """The newest statement that a bound drove out of what he sees."""
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


def _seq(statement: LedgerStatement) -> int:
    return statement.seq


def _statement(event: Event) -> LedgerStatement:
    text, rationale = event.text, event.data.get("rationale")
    return LedgerStatement(
        seq=event.seq,
        id=event.id,
        ts=event.ts,
        ns=event.ns,
        session=event.session,
        task=event.task,
        key=f"#{event.seq}" if event.key is None else event.key,
        kind=event.kind,
        text=text[:TEXT_CHARS_MAX],
        tokens=event.tokens,
        refs=event.refs,
        tags=event.tags,
        markers=event.markers,
        sensitivity=event.sensitivity,
        importance=event.importance,
        valid_from=event.valid_from,
        valid_until=event.valid_until,
        pinned_at=0,
        actor=event.actor,
        role=event.role,
        rationale=rationale[:RATIONALE_CHARS_MAX] if isinstance(rationale, str) else None,
        # A spilled body leaves only its beginning in the event.
        whole=len(text) <= TEXT_CHARS_MAX and "body" not in event.data,
    )


def _row(item: _Item) -> list[Any]:
    # Flags are digits, so that a forget changes no size.
    values = [int(value) if value is True or value is False else value for value in item.statement]
    form: Iterable[int] = () if item.form is None else map(int, item.form)
    if item.left:
        form = (item.size,) if item.size else ()  # counted once, for there are many
    return [*values, int(item.keyed), item.forgotten + _LEFT * item.left, *form]


def _size(item: _Item) -> int:
    """Bytes of the item's row at most: a later pin must not change what it was counted as."""
    row = _row(item)[: _FIELDS + 2]
    row[_PINNED_AT] = 0
    return len(canonical(row)) + _SEQ_DIGITS + _FORM_BYTES


def _item(row: list[Any]) -> _Item:
    values, (keyed, state, *form) = row[:_FIELDS], row[_FIELDS:]
    fields: Iterator[tuple[str, Any]] = zip(LedgerStatement._fields, values, strict=True)
    statement = LedgerStatement(**{name: _value(name, value) for name, value in fields})
    item = _Item(statement, bool(keyed), bool(state % _LEFT))
    if state >= _LEFT:
        item.left, item.size = True, *form
    elif form:
        cost, chars, whole = form
        item.form = EntryForm(cost, chars, bool(whole))
    return item


def items_of(statement: LedgerStatement, form: EntryForm | None = None) -> Item:
    """A statement as the packing stages see it; by its `form`, where there is one, not counted."""
    event = Event(
        statement.seq,
        statement.id,
        statement.ts,
        statement.ts,
        statement.kind,
        statement.ns,
        statement.session,
        statement.task,
        statement.actor,
        statement.role,
        statement.text,
        None if statement.key.startswith("#") else statement.key,
        statement.tags,
        statement.markers,
        statement.refs,
        statement.sensitivity,
        statement.importance,
        statement.tokens,
        statement.valid_from,
        statement.valid_until,
    )
    item = Item.of(event, statement.tokens if statement.tokens is not None else len(event.text))
    if not statement.whole:
        item.whole = False
    if form is not None:
        item.text, item.whole = plain_text(item.text)[: form.chars], form.whole
        item.cost, item.final = form.cost, True
    return item


def _form(statement: LedgerStatement, counter: TokenCounter) -> EntryForm | None:
    item = items_of(statement)
    text = plain_text(item.text)
    item.finish(counter)
    form = EntryForm(item.cost, len(item.text), item.whole)
    return form if text.startswith(item.text) else None


def _value(name: str, value: Any) -> Any:
    if name in ("refs", "tags", "markers"):
        return tuple(value)
    return bool(value) if name == "whole" else value


# The two ledgers of the fast path: decisions, and knowledge cards.


class Decisions(LedgerProjector):
    """The latest decision of each namespace and key; constraints are protected. None decays.

    A pack chooses from those that are kept, and names the 200 in force that were kept before.
    """

    name = "decisions"
    version = 5
    kinds = frozenset({"decision"})
    marker = "constraint"
    left_max = 200


class Cards(LedgerProjector):
    """Preferences, rules, insights and facts about the plane as a whole: those at `/global`.

    And short observations, which are cards where they recur; they go before all others.
    """

    name = "cards"
    version = 6
    kinds = frozenset({"preference", "rule", "insight", "fact", "observation"})
    passing = frozenset({"observation"})
    passing_chars_max = 600
    ns = "/global"
