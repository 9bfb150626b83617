"""What is asked of a pack, and the materials it is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from memplane.pack.expansion_depths import OpenedHandle
from memplane.policy import Policies
from memplane.ports import Retriever
from memplane.projections.files import FilesState
from memplane.projections.hotset import HotsetState
from memplane.projections.item import Item
from memplane.projections.system_map import MapState
from memplane.projections.task_table import TaskTable
from memplane.recall.suppress import ApprovalLookup, Filter, Labels, Scope

__all__ = ["Expansion", "LastSession", "Materials", "Needs", "Request", "View"]


class Request(NamedTuple):
    """A pack's request, checked: times are canonical, the query is redacted and stripped."""

    query: str = ""
    channel: str = "private"
    intent: str = "auto"
    budget: int | None = None
    session: str | None = None
    task: str | None = None
    ns: tuple[str, ...] = ()
    agent: str | None = None
    sections: tuple[str, ...] = ()  # empty: all of the policy's
    expand: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    held_seq: int | None = None  # whoever asks holds what the session said behind it
    query_event: str | None = None
    since: str | None = None
    until: str | None = None
    tag: tuple[str, ...] = ()  # one of them
    without_tag: tuple[str, ...] = ()  # none of them
    importance_min: int = 0  # as recorded
    as_of: int = 0
    dense_seq: int | None = None  # vectors of events up to here at most
    index_seq: int | None = None  # documents of the index of events up to here at most
    cited: bool = False  # entries name the seqs of their events, statements their day
    now: str = ""

    @property
    def only(self) -> Filter:
        """What is asked for by tag and importance."""
        return Filter(self.tag, self.without_tag, self.importance_min)

    def as_json(self) -> dict[str, Any]:
        """The fields that were set."""
        usual = Request()
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._asdict().items()
            if value != getattr(usual, name)
        }


class View(NamedTuple):
    """A view that the channel loads: its path under the home, the hash of its bytes, its text.

    `lost`: why there is no text (`limit`, `missing`), "" where there is. `start`: the character of
    the whole text that this one begins with.
    """

    path: str
    sha256: str
    text: str
    lost: str = ""
    start: int = 0


class Needs:
    """What a request needs to read, counted from the log and the policy alone, within limits.

    Files are views, artifacts and bodies of long texts; bytes are those of views, of the texts of
    entries, and of what a search goes through. What this process really reads, of caches and to
    make them, is another matter: so a block is the same from a warm plane and a cold one.
    """

    __slots__ = ("bytes", "bytes_max", "files", "files_max")

    def __init__(self, files_max: int, bytes_max: int) -> None:
        self.files = self.bytes = 0
        self.files_max, self.bytes_max = files_max, bytes_max

    def take(self, size: int, files: int = 0) -> bool:
        """Count so many bytes and files more, if that passes no limit; return whether it did."""
        if self.bytes + size > self.bytes_max or self.files + files > self.files_max:
            return False
        self.bytes += size
        self.files += files
        return True

    def take_text(self, text: str, *, own_file: bool = False) -> bool:
        """`take` for a text; a long one has a file of its own."""
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        taken = self.bytes + size
        if own_file or size > _OWN_FILE or taken > self.bytes_max:
            return self.take(size, int(own_file or size > _OWN_FILE))
        self.bytes = taken
        return True

    @property
    def left(self) -> int:
        """Bytes that may still be needed."""
        return self.bytes_max - self.bytes


# A longer text stands in a file of its own: its line in the log has the beginning.
_OWN_FILE: Final = 1 << 20


class Expansion(NamedTuple):
    """What a handle opened: text that is redacted, and the event it is a part or the whole of.

    `lost`: why there is no text (`changed`, `past_end`), "" where there is. `start`: the character
    of the whole text that this one begins with; `ends`: whether it ends where that does.
    """

    handle: str
    item: Item
    text: str
    whole: bool
    lost: str = ""
    start: int = 0
    ends: bool = True


class LastSession(NamedTuple):
    """A session that was lately at work: its generated summary, else its last words, as items."""

    id: str
    items: tuple[Item, ...]


class Materials(NamedTuple):
    """Everything a pack reads, as values. Statements come as items, in log order.

    `memo` keeps rendered views between packs; a pack's bytes never depend on what is in it.
    `gap` says that the session's older events could not be read within the policy's bound;
    `shed_seq` is the newest statement that a ledger gave up for its bounds. `retriever` opens the
    search of the whole log, `sessions` reads the last ones (newest first), for who needs it;
    `query_seq` is the event that the request names as its query. `approvals` say which artifacts
    may be shown; without them none. `touched` says of an event when it was touched last, if it
    was, and whether it is pinned, as of a seq; `moment` when the event of a seq was recorded,
    `labels` its tags and importance, for filters. `hidden` are items of groups of events that the
    reader sees nothing of: they are counted. `left` are decisions in force, without text, that no
    place is kept for; `left_more` says that there may be others, which nothing counts. `pins` are
    events that were pinned since the session's epoch, each with the seq of its pin, newest first.
    """

    policies: Policies
    hotset: HotsetState
    tasks: TaskTable
    decisions: tuple[Item, ...]
    cards: tuple[Item, ...]
    pinned: dict[int, int]  # statement -> seq of the pin that holds it
    views: tuple[View, ...]
    expansions: tuple[Expansion | OpenedHandle | View, ...]
    memo: dict[tuple[str, int, str], tuple[str, int, bool]]
    gap: bool = False
    shed_seq: int = 0
    files: FilesState | None = None  # where the session has touched no file yet
    retriever: Callable[[], Retriever[Scope, Item]] | None = None
    query_seq: int = 0
    plane_map: MapState | None = None
    sessions: Callable[[], tuple[LastSession, ...]] | None = None
    approvals: ApprovalLookup | None = None
    touched: Callable[[Item, int], tuple[str | None, bool]] | None = None
    moment: Callable[[int], str] | None = None
    labels: Callable[[int], Labels | None] | None = None
    hidden: Callable[[], Iterable[Item]] | None = None
    left: tuple[Item, ...] = ()
    left_more: bool = False
    pins: tuple[tuple[Item, int], ...] = ()
