"""What requests share: lines that were read, events as packing sees them, passages, names."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from memplane.errors import NotFoundError
from memplane.index import terms
from memplane.index.document import ROLES, Sentences, best_run
from memplane.plane.folds import items_of_event
from memplane.projections.item import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memplane.event import Event
    from memplane.index.columns import Frame
    from memplane.index.ranking import Speakers
    from memplane.index.segment import Array
    from memplane.log import FileLog
    from memplane.ports import Line, TokenCounter

__all__ = ["Seen"]

Key = TypeVar("Key")
Value = TypeVar("Value")

_LINES_KEPT: Final = 2_048
_LINE_BYTES: Final = 16_384  # a longer one is read again
_ITEMS_KEPT: Final = 8_192
_IDS_KEPT: Final = 32_768
_PASSAGES_KEPT: Final = 4_096
_SENTENCES_KEPT: Final = 128  # texts, with all their words
_SPEAKERS_MAX: Final = 64
_CHARACTERS_A_TOKEN: Final = 4
_ROLE_WORDS: Final = frozenset(ROLES)


class _Kept(Generic[Key, Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def keep(self, key: Key, value: Value) -> Value:
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return value


class Seen:
    """Nothing in here changes an answer: it is found again where it was forgotten.

    `line` gives lines as `log` does, where there is something quicker. Begin anew under another
    counter, and when the index was begun anew: then the log may be another one. `renewed` says how
    often that was.
    """

    def __init__(
        self, log: FileLog, counter: TokenCounter, renewed: int,
        line: Callable[[int], Line | None] | None = None,
    ) -> None:  # fmt: skip
        self.log, self.counter, self.renewed = log, counter, renewed
        self._look_up = line or log.line
        self._lines: _Kept[int, Line] = _Kept(_LINES_KEPT)
        self._items: _Kept[int, Item] = _Kept(_ITEMS_KEPT)
        self._told: _Kept[tuple[int, bool, int], Item] = _Kept(_ITEMS_KEPT)
        self._ids: _Kept[int, str] = _Kept(_IDS_KEPT)
        self._passages: _Kept[tuple[object, ...], str] = _Kept(_PASSAGES_KEPT)
        self._sentences: _Kept[str, Sentences] = _Kept(_SENTENCES_KEPT)
        self._vocabulary = terms.Vocabulary()
        self._names: dict[int, str] = {}

    def line(self, seq: int) -> Line:
        """Return a line of the log; raises NotFoundError without it."""
        found = self._lines.get(seq)
        if found is None:
            found = self._look_up(seq)
            if found is None:
                raise NotFoundError(f"no event {seq}")
            if found.end - found.offset <= _LINE_BYTES:
                self._lines.keep(seq, found)
        return found

    def id(self, seq: int) -> str:
        """Return the event's id; raises NotFoundError without its line."""
        found = self._ids.get(seq)
        if found is None:
            item = self._items.get(seq)
            found = self._ids.keep(seq, self.line(seq).event.id if item is None else item.id)
        return found

    def item(self, seq: int) -> Item:
        """Return the event as packing sees it: one object for all requests, in force."""
        item = self.kept(seq)
        if item is None:
            made = items_of_event(self.line(seq).event, self.counter)
            item = self._items.keep(seq, made)
            item.superseded = item.forgotten = False
        return item

    def kept(self, seq: int) -> Item | None:
        """Return what `item` returned before, without a look at the log; None if it did not."""
        item = self._items.get(seq)
        if item is not None:
            item.superseded = item.forgotten = False
        return item

    def saying(self, event: Event, text: str, *, card: bool) -> Item:
        """Return an event as packing sees it with another text: an artifact's, or its card.

        The hash in the event stands for what its file says: it has one text of each.
        """
        key = (event.seq, card, len(text))
        item = self._told.get(key)
        if item is None:
            said = event._replace(text=text)
            item = self._told.keep(key, Item.of(said, len(text) // _CHARACTERS_A_TOKEN))
        item.superseded = item.forgotten = False
        return item

    def passage(self, text: str, wanted: Mapping[int, int], limit: int) -> str:
        """Return the passage of a text that says most of `wanted`; see `Retriever.passage`."""
        key = (text, limit, *sorted(wanted.items()))
        found = self._passages.get(key)
        if found is None:
            said = self._said(text)
            start, end = best_run(said, wanted, limit, self.counter.count)
            found = self._passages.keep(key, text[start:end].strip())
        return found

    def words(self, text: str) -> frozenset[int]:
        """Return the words of a text, numbered as the terms of queries are."""
        return frozenset().union(*self._said(text).words)

    def _said(self, text: str) -> Sentences:
        said = self._sentences.get(text)
        if said is None:
            if self._vocabulary.full():
                self._vocabulary = terms.Vocabulary()
            said = self._sentences.keep(text, Sentences(text, self._vocabulary))
        return said

    def names(self, speakers: Speakers, hidden: Array, frame: Frame) -> dict[str, int]:
        """Return who speaks in visible documents, by name in small letters: at most 64, the usual.

        `frame` has all documents there are. Words for roles are no names.
        """
        found: dict[str, int] = {}
        for number in speakers.visible(hidden):
            label = speakers.labels[number]
            if label and label not in self._names:
                # The index knows a number only; one of the events says what it stands for.
                line = self._look_up(int(frame.seq[speakers.firsts[number]]))
                actor = None if line is None else line.event.actor
                self._names[label] = "" if actor is None else actor.lower()
            name = self._names.get(label, "")
            if name not in _ROLE_WORDS:
                found[name] = label
            if len(found) == _SPEAKERS_MAX:
                break
        return found
