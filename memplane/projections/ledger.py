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
from typing import Any, Final

from memplane.event import PROJECTS, Event
from memplane.lazy import NamedTuple, regex, word_set, word_table
from memplane.ports import Line, TokenCounter
from memplane.projections.groups import (
    Grouped,
    Groups,
    Sees,
    share_of,
)
from memplane.projections.in_force import KEYLESS_KINDS, Forget, forget_of
from memplane.projections.item import Item, plain_text
from memplane.projections.projector import canonical

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
    `differs`: the seq of an older one that it contradicts, 0 for none.
    """

    __slots__ = (
        "compared",
        "differs",
        "event",
        "forgotten",
        "form",
        "left",
        "pinned_at",
        "rank",
        "size",
        "whole",
        "words",
    )

    def __init__(self, event: Event, *, whole: bool, forgotten: bool = False) -> None:
        self.event, self.whole, self.forgotten = event, whole, forgotten
        self.pinned_at = 0
        self.left = False
        self.rank, self.size = _PLAIN, 0
        self.form: EntryForm | None = None  # from the first saving on
        self.differs = 0
        self.words: StatementWords | None = None  # see `alike_keys`
        self.compared = False  # whether `words` was asked for

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

    __slots__ = (
        "_alike",
        "_bytes",
        "_left_bytes",
        "_ranks",
        "items",
        "keyed",
        "left",
        "more",
        "shed_seq",
    )

    def __init__(self) -> None:
        self.items: dict[int, Statement] = {}  # by seq, in log order
        self.keyed: dict[tuple[str, str], int] = {}
        self.left: dict[int, Statement] = {}
        self.more = False
        self.shed_seq = 0  # the newest statement that a bound drove out
        self._ranks = [0] * 5
        self._bytes = self._left_bytes = 0
        # Seqs by what statements that may differ share; made when a statement first comes.
        self._alike: dict[tuple[str, ...], list[int]] | None = None

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
        one.rank, one.size = rank, one.size or _size(one)
        self.items[one.seq] = one
        if one.key is not None:
            self.keyed[one.ns, one.key] = one.seq
        self._ranks[rank] += 1
        self._bytes += one.size
        if self._alike is not None:
            for key in alike_keys(one):
                self._alike.setdefault(key, []).append(one.seq)

    def contradicted_by(self, one: Statement) -> int:
        """Return the seq of the newest statement in force that a new one contradicts, 0 for none.

        Compares with at most `COMPARED_MAX` of them.
        """
        keys = alike_keys(one)
        if not keys:
            return 0
        if self._alike is None:
            self._alike = {}
            for other in self.items.values():
                for key in alike_keys(other):
                    self._alike.setdefault(key, []).append(other.seq)
        found = {seq for key in keys for seq in self._alike.get(key, ())[-_COMPARED_BY_KEY:]}
        newest = (self.items[seq] for seq in sorted(found, reverse=True))
        return next((other.seq for other in newest if contradicts(other, one)), 0)

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
            if self._alike is not None:
                for key in alike_keys(one):
                    self._alike[key].remove(seq)
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
            one.differs = state.contradicted_by(one)
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
    valid_from valid_until pinned_at actor role rationale whole differs
""")
_PIN: Final = _COLUMNS.index("pinned_at")


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
        "differs": one.differs,
    }
    columns = (state[name] if name in state else getattr(event, name) for name in _COLUMNS)
    return [*columns, int(event.key is not None), one.forgotten + _LEFT * one.left]


def _size(one: Statement) -> int:
    """Bytes of the statement's row at most: a later pin must not change what it was counted as."""
    return _size_of(_fixed(one, 0))


def _size_of(fixed: list[Any]) -> int:
    return len(canonical(fixed)) + _SEQ_DIGITS + _FORM_BYTES


def _statement(row: list[Any]) -> Statement:
    whole, differs, keyed, state, *form = row[len(_COLUMNS) - 2 :]
    one = Statement(_event_of(row, keyed), whole=bool(whole), forgotten=bool(state % _LEFT))
    one.pinned_at, one.differs = row[_PIN], differs
    if state >= _LEFT:
        one.left, one.size = True, *form
        return one
    one.size = _size_of([*row[:_PIN], 0, *row[_PIN + 1 : len(_COLUMNS) + 2]])
    if form:
        cost, chars, all_there = form
        one.form = EntryForm(cost, chars, bool(all_there))
    return one


def _event_of(row: list[Any], keyed: int) -> Event:
    """The event of a row, by the order of `_COLUMNS`: a process for one answer reads 300."""
    seq, id_, ts, ns, session, task, key, kind, text, tokens, refs, tags, markers, *rest = row
    sensitivity, importance, valid_from, valid_until, _, actor, role, rationale = rest[:8]
    return Event(
        *(seq, id_, ts, ts, kind, ns, session, task, actor, role, text, key if keyed else None),
        *(tuple(tags), tuple(markers), tuple(refs), sensitivity, importance, tokens),
        *(valid_from, valid_until, _data(rationale)),
    )


def statement_item(one: Statement) -> Item:
    """A statement as the packing stages see it; by its form, where that was stored, not counted."""
    event, form = one.event, one.form
    if event.key is not None and event.key.startswith("#"):
        event = event._replace(key=None)  # it would read like the number of an event
    item = Item.of(event, len(event.text) if event.tokens is None else event.tokens)
    item.differs = one.differs
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


# Whether two short statements speak of the same thing and differ: in a number, a "not" or a value.
#
# By words alone, and strict, as a wrong word of contradiction costs more trust than a missed one
# costs. Two statements are compared by their first clause, without articles and words of time: all
# but one span has to be equal. Then they contradict each other where the one says "not"; where the
# span is a number of some measure behind a word such as "is", "must" or "limit"; or where it is a
# name as the value of something that has one value: "the database is X", "the default Y is X", "we
# use X for Z". A number that is a name (step 3, version 2), a past event, a plural, a
# question and a condition are none. English.

COMPARED_MAX: Final = 24  # older statements that a new one is compared with
_COMPARED_BY_KEY: Final = 8  # of each of the three keys
WORDS_MAX: Final = 40
CHARACTERS_MAX: Final = 400
# By these tags an importer or a hook says that it made a decision of turns: a later answer turns it
# round (`memplane.recall.session_digest`), and no other does.
DERIVED_TAGS: Final = frozenset(
    ("answer", "numbered", "pick", "plan", "correction", "agreed", "refusal")
)
_SPAN_MAX: Final = 3  # words of a value
_SHARED: Final = 2  # words of meaning that both have, at least
_SUBJECT: Final = 1  # words of meaning before the word that gives a value

_WORD: Final = regex(
    r"[`'\"]?(?P<number>[$\u20ac\u00a3]?\d[\d.,:_/-]*\d?(?:\s?%|[$\u20ac\u00a3])?)(?P<unit>[a-zA-Z%]*)"
    r"|[A-Za-z_][\w./@+#-]*(?:'\w+)?"
)
_LABEL: Final = regex(r"\s*(?:[-*]\s+)?(?:Decision|Rule|Fact|Note)\s*:\s*")
_CLAUSE_END: Final = regex(r"[.;!](?=\s|$)|,(?!\d)|[(\u2014]| - |\n|\b(?:because|since|so that)\b")
_CONDITION: Final = regex(
    r"(?i)\b(?:if|when|whenever|unless|until|except|only|for|on|in|at|while|during|where|once|but"
    r"|after|before|per|with|without|or|else)\b"
)
# Code is no statement, a line of a list means nothing alone, and what begins with a condition holds
# where that holds.
_NO_STATEMENT: Final = regex(
    r"\A\s*(?:[-*+|>#\"']|\d+[.)])|[\[\]{}<>;\\|=]|--|\*\*|//|://|\w\(|:\s*\Z"
    r"|\A\W*(?i:if|when|while|unless|suppose|imagine|say|for|else|elif|return|assert|import|from"
    r"|def|class|curl|sudo)\b"
)
_ONLY_NOT: Final = word_set("not never")
_STEM: Final = 3  # letters of a word that loses no plural
_NOT: Final = word_set("not never cannot can't don't doesn't isn't aren't won't mustn't shouldn't")
_DROPPED: Final = word_set("""
    a an the our my your this that these those do does now currently today already still also just
    really actually instead again always please so then we'll it's will
""")
_PAST: Final = word_set("was were had did been went got")
_IS: Final = word_set("is equal")
_NUMBER_WORDS: Final = word_set("""
    is equal are be must should may can has have need take cost allow hold keep limit maximum
    minimum default expire run listen within every wait
""")
# What a number stands behind that measures: behind a noun it is a name (step 3, port 80).
_BEFORE_NUMBER: Final = word_set("""
    is equal are be has have need take cost allow hold keep to at of than most least under over
    about around every within by after for only exactly port
""")
_ONE_VALUE: Final = word_set("""
    database db language framework host hostname port name owner deadline default primary main
    favorite favourite branch region timezone license licence license email address birthday
    version engine backend frontend broker queue cache editor shell theme font color colour
    currency locale encoding format protocol provider registry bucket url endpoint path directory
    folder prefix suffix runtime compiler linter formatter capital manager leader lead maintainer
    age height limit timeout interval cadence frequency day date time hometown password username
    price budget rate salary rent size weight capacity quota threshold
""")
# Of these a common word is a value, too: the others may be big or slow as well.
_ANY_VALUE: Final = word_set("default favorite favourite preferred name owner color colour")
_USE: Final = word_set("use keep run deploy store host")
_LIVES: Final = word_set("live based born located hosted")
_PLACE: Final = word_set("for as to in on with")
_QUIET: Final = word_set("""
    i we you he she it they of to in on at for with as by from and or is are be must should may can
    has have use per
""")
_PAIRS: Final = word_table("""
    enabled/disabled enable/disable allowed/forbidden allow/forbid on/off true/false
    required/optional open/closed public/private tab/space synchronous/asynchronous
    mutable/immutable
""")
_ANTONYMS: Final = frozenset(frozenset(pair.split("/")) for pair in _PAIRS)
# Two numbers of two of these may be one value: 5 MB, 5000 KB.
_UNITS: Final = word_set("""
    b kb mb gb tb kib mib gib tib ns us ms s sec second m min minute h hr hour day week month year
    hz khz mhz ghz w kw mw g mg kg mm cm km % percent $ \u20ac \u00a3 usd eur gbp
""")
_NUMBER: Final = regex(r"\d[\d.,:_/-]*")
_THOUSANDS: Final = regex(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_ZEROS: Final = regex(r"\A0*(\d+)(?:\.0+)?\Z|\A0+(?=\d:)")


class StatementWords(NamedTuple):
    """The first clause of a statement, compared by `differ`; `rest` is what stands behind it.

    `words` in lower case without articles and "not"; `names`: which of them look like a name or a
    number where they stand; `negated`: whether an odd number of "not" was left out.
    """

    words: tuple[str, ...]
    names: tuple[bool, ...]
    numbers: tuple[bool, ...]
    negated: bool
    rest: str


def statement_words(text: str) -> StatementWords | None:
    """Take a statement apart; None for what is too long, a question, or of the past."""
    if len(text) > CHARACTERS_MAX or "?" in text or _NO_STATEMENT.search(text):
        return None
    label = _LABEL.match(text)
    text = text[label.end() :] if label is not None else text
    end = _CLAUSE_END.search(text)
    clause, rest = (text, "") if end is None else (text[: end.start()], text[end.end() :])
    words: list[str] = []
    names: list[bool] = []
    numbers: list[bool] = []
    negations = 0
    for found in _WORD.finditer(clause):
        said = found[0].strip("`'\".,")
        word = said.lower().replace(" ", "")
        if word in _PAST or len(words) > WORDS_MAX:
            return None
        if word in _NOT or word.endswith("n't"):
            negations += 1
            word = word.removesuffix("n't").removesuffix("not") if word not in _ONLY_NOT else ""
            word = "can" if word == "ca" else word
        if word in _DROPPED:
            continue
        counted = found["number"] is not None
        if not counted and len(word) > _STEM and word.endswith("s") and not word.endswith("ss"):
            word = word[:-1]
        if word:
            words.append(word)
            numbers.append(counted)
            odd = not said.isalpha() or not said.islower()
            names.append(odd and (bool(words[1:]) or not said.istitle()))
    if len(words) < _SHARED:
        return None
    return StatementWords(tuple(words), tuple(names), tuple(numbers), negations % 2 == 1, rest)


def alike_keys(one: Statement) -> tuple[tuple[str, ...], ...]:
    """The keys of a statement, with its namespace; () for one that is not compared."""
    if not one.compared:
        one.compared = True
        event = one.event
        derived = event.key is None and not DERIVED_TAGS.isdisjoint(event.tags)
        if one.whole and event.kind != "observation" and not derived:
            one.words = statement_words(event.text)
    if one.words is None:
        return ()
    return tuple(dict.fromkeys((one.ns, *key) for key in keys_of(one.words)))


def contradicts(older: Statement, newer: Statement) -> bool:
    """Whether two statements of one namespace contradict each other, the older still in force."""
    one, other = older.event, newer.event
    if older.forgotten or (one.valid_until is not None and one.valid_until < other.ts):
        return False
    if None not in (one.key, other.key) and one.key != other.key:
        return False  # of two things
    if None not in (one.actor, other.actor) and one.actor != other.actor:
        return False  # of two speakers: "I" is not the same
    if older.words is None or newer.words is None:
        return False
    return differ(older.words, newer.words)


def keys_of(one: StatementWords) -> Iterator[tuple[str, ...]]:
    """What statements that may differ share: the first two or three words, or the last two."""
    yield ("<", *one.words[:2])
    yield ("<", *one.words[:3])
    yield (">", *one.words[-2:])


def differ(older: StatementWords, newer: StatementWords) -> bool:
    """Whether the two speak of the same thing and contradict each other."""
    apart = older.rest.strip() != newer.rest.strip()
    if apart and any(_CONDITION.search(one.rest) for one in (older, newer)):
        return False
    one, other = older.words, newer.words
    if one == other:
        return older.negated != newer.negated and _meaning(one) >= _SHARED
    if older.negated or newer.negated:
        return False
    least = min(len(one), len(other))
    start = next((at for at in range(least) if one[at] != other[at]), least)
    most = least - start
    same = next((at for at in range(most) if one[-1 - at] != other[-1 - at]), most)
    lengths = len(one) - same - start, len(other) - same - start
    if not all(0 < length <= _SPAN_MAX for length in lengths):
        return False
    return _two_values(older, newer, start, lengths)


def _two_values(
    older: StatementWords, newer: StatementWords, start: int, lengths: tuple[int, int]
) -> bool:
    """Whether two clauses, equal but for the words at `start`, so many of each, give two values."""
    one, other = older.words, newer.words
    before, behind = one[:start], one[start + lengths[0] :]
    shared = _meaning(before) + _meaning(behind)
    if lengths == (1, 1) and frozenset((one[start], other[start])) in _ANTONYMS:
        return shared > 0
    if shared < _SHARED and _ONE_VALUE.isdisjoint(before):
        return False
    spans = (older, start, lengths[0]), (newer, start, lengths[1])
    if _may_be_one(_written(*spans[0]), _written(*spans[1])):
        return False
    if all(_is_number(*span) for span in spans):
        return _counts(before)
    if all(_is_name(*span) for span in spans):
        return _has_one_value(before, behind)
    common = lengths == (1, 1) and not behind and before[-1:] == ("is",)
    return common and not _ANY_VALUE.isdisjoint(before)


def _meaning(words: tuple[str, ...]) -> int:
    return sum(1 for word in words if word not in _QUIET)


def _is_number(one: StatementWords, start: int, length: int) -> bool:
    return length == 1 and one.numbers[start]


def _is_name(one: StatementWords, start: int, length: int) -> bool:
    return all(one.names[start : start + length])


def _written(one: StatementWords, start: int, length: int) -> tuple[list[str], list[str]]:
    """The numbers and the words of a value, each sorted, however it is written.

    `20MB` is `20 MB`, `1,000` is `1000`, `May 5` is `5 May`, `v3.1` is `3.1`.
    """
    numbers, words = [], []
    for at in range(start, start + length):
        word = one.words[at]
        found = _NUMBER.search(word)
        lead = "" if found is None else word[: found.start()]
        if found is None or not (one.numbers[at] or lead == "v"):
            words.append(word)
            continue
        number = _THOUSANDS.sub("", found[0].rstrip(".,:_/-"))
        numbers.append(_ZEROS.sub(r"\1", number))
        words += [part for part in (lead.removeprefix("v"), word[found.end() :]) if part]
    return sorted(numbers), sorted(words)


def _may_be_one(one: tuple[list[str], list[str]], other: tuple[list[str], list[str]]) -> bool:
    """Whether two values are written otherwise, or measured in other units, and may be the same."""
    if one == other:
        return True
    measured = all(words and _UNITS.issuperset(words) for _, words in (one, other))
    return measured and one[0] != other[0] and one[1] != other[1]


def _counts(before: tuple[str, ...]) -> bool:
    """Whether a number behind these words is a measure of what they speak of."""
    if not before or before[-1] not in _BEFORE_NUMBER:
        return False
    at = next((at for at, word in enumerate(before) if word in _NUMBER_WORDS), None)
    return at is not None and _meaning(before[: at + 1]) >= _SUBJECT


def _has_one_value(before: tuple[str, ...], behind: tuple[str, ...]) -> bool:
    """Whether what stands between these words is the only value that they can have."""
    if not before:
        return False
    if before[-1] in _IS:
        return not behind and not _ONE_VALUE.isdisjoint(before)
    if before[-1] in _PLACE and before[-2:-1] and before[-2] in _LIVES:
        return not behind
    used = before[0] == "we" and any(word in _USE for word in before[-2:])
    return used and len(behind) >= _SHARED and behind[0] in _PLACE


# The two ledgers of the fast path: decisions, and knowledge cards.


class Decisions(LedgerProjector):
    """The latest decision of each namespace and key; constraints are protected. None decays.

    Also what a user said in a message that begins a line with `Decision: ...`. A pack chooses from
    those that are kept, and names the 200 in force that were kept before.
    """

    name = "decisions"
    version = 9
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
    version = 9
    kinds = frozenset({"preference", "rule", "insight", "fact", "observation"})
    passing = frozenset({"observation"})
    passing_chars_max = 600
    ns = "/global"
