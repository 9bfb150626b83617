"""The request of a pack, the materials that it is made from, and what follows from both.

`Request` is what the caller asks. `Materials` is what a plane has for it: values, and one port
(`PackSource` in `memplane.ports`) for what is read only when a section needs it. `prepare_pack`
makes of both a `PackContext`, which every section reads, and a `PackQuery`, which evidence and
cards are searched with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memplane.errors import InputError
from memplane.harness import remembered
from memplane.lazy import NamedTuple, TypedDict, late
from memplane.policy import Policies, Scoring
from memplane.projections.item import Item, saying

if TYPE_CHECKING:
    from memplane.pack.expansion_depths import OpenedHandle
    from memplane.ports import PackSource, Retriever, TokenCounter
    from memplane.projections.digests import SessionParts
    from memplane.projections.files import FilesState
    from memplane.projections.hotset import HotsetState, SessionRing
    from memplane.projections.system_map import MapState
    from memplane.projections.tasks import TaskTable
    from memplane.recall import suppress as recall_suppress, time_words as recall_time_words
    from memplane.recall.gate import Passage, PromptAnswer
    from memplane.recall.session_digest import StandingNote
    from memplane.recall.suppress import Labels, Scope
    from memplane.recall.time_words import AskedTime
else:
    recall_suppress = late("memplane.recall.suppress")
    recall_time_words = late("memplane.recall.time_words")


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
    project: str | None = None  # the namespace of the one that is seen, of a parted plane
    sections: tuple[str, ...] = ()  # empty: all of the policy's
    expand: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    held_seq: int | None = None  # the caller holds the session's events behind it
    query_event: str | None = None
    since: str | None = None
    until: str | None = None
    tag: tuple[str, ...] = ()  # one of them
    without_tag: tuple[str, ...] = ()  # none of them
    importance_min: int = 0  # as recorded
    as_of: int = 0
    dense_seq: int | None = None  # vectors of events up to here at most
    index_seq: int | None = None  # documents of the index of events up to here at most
    engine: str | None = None  # of the policy that the search must have
    cited: bool = False  # entries name the seqs of their events, statements their day
    remind: str = ""  # one of REMINDERS: passages that the session does not hold, and no more
    held_marks: tuple[str, ...] = ()  # of sentences that the caller holds: `gate.sentence_marks`
    now: str = ""

    def scope(self, policies: Policies) -> Scope:
        """The filter of the groups of events that the reader may see."""
        return recall_suppress.Scope.of(
            policies, self.channel, now=self.now, as_of=self.as_of, ns=self.ns, agent=self.agent
        )

    def as_json(self) -> dict[str, Any]:
        """The fields that were set."""
        usual = Request()
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._asdict().items()
            if value != getattr(usual, name)
        }


class PackFields(TypedDict, total=False):
    """The arguments of a pack beside its query; see `Plane.pack`. None: not given.

    Times are RFC 3339 or aware datetimes; a list may be one text.
    """

    budget: int | None
    channel: str | None
    intent: str | None
    session: str | None
    task: str | None
    ns: str | Iterable[str] | None
    agent: str | None
    project: str | None
    sections: str | Iterable[str] | None
    expand: str | Iterable[str] | None
    exclude: str | Iterable[str] | None
    held_seq: int | None
    query_event: str | None
    since: str | datetime | None
    until: str | datetime | None
    tag: str | Iterable[str] | None
    without_tag: str | Iterable[str] | None
    importance_min: float | None
    as_of: int | str | datetime | None
    dense_seq: int | None
    index_seq: int | None
    engine: str | None
    cited: bool
    remind: str | None
    now: str | datetime | None


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
    entries, and of what a search reads. Reads of caches are not counted, so a block is the same
    from a warm plane and a cold one.
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


# A longer text is in a file of its own; its line in the log has the beginning.
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
    """A recent session: what its digest is made of; where that is not known, its last turns.

    `items` are the generated summary and the last turns as items, `said` the messages of a time
    that was asked for, in log order, `gone` the ids of what is quoted in `parts` and out of force.
    """

    id: str
    items: tuple[Item, ...]
    parts: SessionParts | None = None
    said: tuple[Item, ...] = ()
    gone: frozenset[str] = frozenset()


# What packs read of a plane while they are laid out: the port with the types of this layer.
Source: TypeAlias = (
    "PackSource[Retriever[Scope, Item], LastSession, Item, Scope, PromptAnswer, Passage, AskedTime,"
    " StandingNote]"
)

Form = tuple[str, int, bool]  # lines, their tokens, whether all of the text stands there


_FORMS_MAX: Final = 1_000


class FormCache:
    """Redacted and counted lines, kept between packs; a block never depends on what it holds.

    Holds at most 1,000 forms and is emptied when it is full. One process's packs share it under
    the plane's lock.
    """

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[tuple[str, int, str], Form] = {}

    def form(self, name: str, room: int, stamp: str, make: Callable[[], Form]) -> Form:
        """The form of what `name` names, in `room` tokens (-1: in any), made where it is not kept.

        `stamp` names the counter and the redaction (`Printer.stamp`).
        """
        key = (name, room, stamp)
        known = self._forms.get(key)
        if known is None:
            known = make()
            if len(self._forms) >= _FORMS_MAX:
                self._forms.clear()
            self._forms[key] = known
        return known


class Materials(NamedTuple):
    """What a plane has for a pack. Statements come as items, in log order.

    Values but for `source`, which reads what only some packs need: the search of the log, the last
    sessions, lines, touches, approvals. `lines` keeps printed lines between packs. `gap`: older
    events of the session could not be read within the policy's bound. `shed_seq`: the newest
    statement that a ledger gave up for its bounds. `query_seq`: the event that the request names as
    its query. `left`: decisions in force, without text, that no place is kept for; `left_more`:
    there may be others, which nothing counts. `pins`: events pinned since the session's epoch, each
    with the seq of its pin, newest first.
    """

    policies: Policies
    hotset: HotsetState
    tasks: TaskTable
    decisions: tuple[Item, ...]
    cards: tuple[Item, ...]
    pinned: dict[int, int]  # statement -> seq of the pin that holds it
    views: tuple[View, ...]
    expansions: tuple[Expansion | OpenedHandle | View, ...]
    source: Source
    lines: FormCache
    plane_map: MapState
    gap: bool = False
    shed_seq: int = 0
    files: FilesState | None = None  # where the session has touched no file yet
    query_seq: int = 0
    left: tuple[Item, ...] = ()
    left_more: bool = False
    pins: tuple[tuple[Item, int], ...] = ()


class StatedEvent(NamedTuple):
    """An event that was stated since the session's epoch: see `stated_since` in `window`.

    `at` is the seq at which it counts as stated: its own, or that of the pin that brought an older
    one back; `pinned_at` the seq of the pin in force, 0 for none. `own`: the session's.
    """

    item: Item
    source: str
    at: int
    pinned_at: int
    own: bool


class ListedFile(NamedTuple):
    """A file to list, and the event that stands for it: its newest touch that may be seen."""

    path: str
    branch: str
    id: str
    source: str  # of the entry


class PackContext(NamedTuple):
    """The materials, the reader and the session: read by every section, changed by none.

    It does not hold the query: what reads it alone cannot depend on what was asked (R2). `intent`
    is fast, deep or orient.
    """

    materials: Materials
    scope: Scope
    session: str | None
    task: str | None
    ring: SessionRing | None  # of the session
    prompt: Item | None  # of the session: its newest visible event with role user
    epoch: int  # seq of the session's latest start or checkpoint; `as_of` without a session
    pool: list[Item]  # what this pack could show as of now, in log order, counted
    intent: str
    orients: bool  # laid out for a reader that has just come: by `ORIENT_TABLE`
    stated: tuple[StatedEvent, ...] = ()  # since the epoch, in log order
    step: int = 0  # tokens of the budget's step on the ladder: see `ladder` in `layout`
    steady: bool = True  # whether rooms follow the ladder, so that the prefix stays
    early: bool = False  # evidence stands before the tail: for a session's prompt, if steady (R4)
    searches: bool = False  # whether evidence comes from the whole log
    files: tuple[ListedFile, ...] = ()  # to list: the session's own, or those that it may need
    remind: str = ""  # as requested
    passages: tuple[Passage, ...] = ()  # of a reminder, in the order in which they take its room
    traps: tuple[StandingNote, ...] = ()  # at a tool, those that its call names
    held_marks: frozenset[str] = frozenset()  # see `Request`
    asked: AskedTime | None = None  # the query asks for a time and nothing else
    then: tuple[LastSession, ...] = ()  # the sessions of that time, newest first

    @property
    def as_of(self) -> int:
        """The seq up to which the log is read."""
        return self.scope.as_of


class PackQuery(NamedTuple):
    """The query of evidence and cards.

    `own`: the text is the session's prompt, so evidence is placed before what followed it. `event`:
    seq of the event that is the query itself and must not find itself; 0 if none. `rule` names what
    chose the intent. `retriever` searches the whole log, for the intent `deep`.
    """

    text: str
    own: bool
    event: int
    rule: str
    retriever: Retriever[Scope, Item] | None = None


def prepare_pack(
    request: Request, materials: Materials, pool: list[Item], counter: TokenCounter
) -> tuple[PackContext, PackQuery]:
    """The context and the query of a request over its materials; `counter` counts the prompt.

    Raises InputError for an unknown intent.
    """
    source, hotset, session = materials.source, materials.hotset, request.session
    held = None if session is None or request.held_seq is None else (session, request.held_seq)
    scope = recall_suppress.Scope.of(
        materials.policies,
        request.channel,
        now=request.now,
        as_of=request.as_of,
        ns=request.ns,
        task=request.task,
        specs=materials.tasks.specs_of(request.task),
        agent=request.agent,
        since=request.since,
        until=request.until,
        exclude=frozenset(request.exclude),
        approvals=source,
        held=held,
        only=recall_suppress.Filter(request.tag, request.without_tag, request.importance_min),
        labels=lambda seq: _labels(source, seq),
    )
    ring = hotset.sessions.get(session) if session is not None else None
    prompt = prompt_of(ring, hotset, scope)
    if prompt is not None:
        prompt.finish(counter)
    own = prompt is not None and (not request.query or prompt.says(request.query))
    epoch = ring.epoch if ring is not None else request.as_of
    text = prompt.text if own and prompt is not None else request.query
    # The prompt's own words decide where it is the query: its evidence must not change when the
    # caller stops repeating it.
    intent, rule = chosen_intent(request.intent, text, materials.policies.scoring)
    # A request that names an intent, a time, sections or handles is laid out as it says.
    named = request.remind or request.sections or request.expand or request.since or request.until
    free, times = request.intent == "auto" and not named, materials.policies.scoring.times
    asked = recall_time_words.read_time(text, request.now, times) if free else None
    if asked is not None and not asked.alone:
        asked = None
    if asked is not None:
        intent, rule = "orient", f"time: {asked.words}"
        if session is None:
            scope = scope.within(asked.since, asked.until)
    # In a session a block is laid out for who has just come where that is asked for: a prompt like
    # "where were we" is one of many, and the blocks around it go on as they are.
    orients = intent == "orient" and (request.intent == "orient" or session is None)
    orients = orients or bool(request.remind)
    context = PackContext(
        materials, scope, session, request.task, ring, prompt, epoch, pool, intent, orients
    )._replace(asked=asked)
    if request.remind in ("prompt", "tool"):
        return context, _reminder_query(request, context, rule)
    asked_seq = materials.query_seq
    if request.query_event is None:
        own_pool = pool if session is None else [one for one in pool if one.session == session]
        asked_seq = max(saying(own_pool, request.query), default=0) if request.query else 0
    return context, PackQuery(text, own, asked_seq, rule)


def _reminder_query(request: Request, context: PackContext, rule: str) -> PackQuery:
    """The prompt of a reminder: the request's words, or those of the event that it names.

    At a tool it is the call that the request names, if the session made it, and no words.

    Its event is the session's newest that says them, whether or not the session holds it.
    """
    materials, ring, text = context.materials, context.ring, request.query
    seq = materials.query_seq
    if request.remind == "tool":
        line = materials.source.line(seq) if seq else None
        own = line is not None and line.event.session == request.session
        return PackQuery("", own=False, event=seq if own else 0, rule=rule)
    if seq and not text:
        line = materials.source.line(seq)
        text = "" if line is None else remembered(line.event).text.strip()
    items = [materials.hotset.items[turn.seq] for turn in ring.ring] if ring is not None else []
    said = saying((one for one in items if one.role == "user"), text)
    return PackQuery(text, own=False, event=seq or max(said, default=0), rule=rule)


def prompt_of(ring: SessionRing | None, hotset: HotsetState, scope: Scope) -> Item | None:
    """The session's newest visible event with role user; None without one or without a session."""
    if ring is None:
        return None
    turns = (turn.seq for turn in reversed(ring.ring))
    for seq in (*reversed(ring.prompts), *turns):
        item = hotset.items[seq]
        if item.role == "user" and not scope.hides(item):
            return item
    return None


def _labels(source: Source, seq: int) -> Labels | None:
    line = source.line(seq)
    return None if line is None else recall_suppress.Labels(line.event.tags, line.event.importance)


# The intent of a query, by the patterns of scoring.yaml; no model.

INTENTS: Final = ("auto", "fast", "deep", "orient")
# What `Request.remind` may ask for: an answer to a prompt where the gate opens, the start of a
# session, one passage at a call of a tool.
REMINDERS: Final = ("prompt", "start", "tool")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz "


@lru_cache(maxsize=256)
def opening_words(pattern: str) -> tuple[str, ...]:
    """Words of which every ASCII text that the pattern matches has one, in any case.

    Read off how it begins, as most patterns do: with a word, or a choice of words, behind marks of
    its place. () where it begins otherwise. To compile a policy's patterns of all intents takes a
    sixth of the time of a bare Python.
    """
    begin = pattern.removeprefix("(?i)").removeprefix("^\\W*").removeprefix("\\b")
    if begin.startswith("(?:"):
        group, _, rest = begin[3:].partition(")")
        words = tuple(group.split("|"))
    else:
        rest = begin.lstrip(_LETTERS)
        words = (begin[: len(begin) - len(rest)],)
    plain = all(word.strip(" ") and not word.strip(_LETTERS) for word in words)
    # A class may hold brackets, and a group of its own kind may change what letters mean.
    if not plain or rest[:1] in (*"*?+{",) or "[" in rest or "(?" in rest.replace("(?:", ""):
        return ()
    depth = 0
    for sign in rest.replace("\\\\", "").replace("\\(", "").replace("\\)", ""):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            return ()
    return words


def intent_of(asked: str, query: str, scoring: Scoring) -> str:
    """The intent alone: see `chosen_intent`."""
    return chosen_intent(asked, query, scoring)[0]


def chosen_intent(asked: str, query: str, scoring: Scoring) -> tuple[str, str]:
    """`fast`, `deep` or `orient`: as asked, else the first intent with a pattern in the query.

    A query that no pattern fits is the policy's default, an empty one fast. With the rule that
    chose it: `asked`, `empty query`, `default_intent`, or `pattern: ` and the pattern. Raises
    InputError for an intent that does not exist.
    """
    if asked not in INTENTS:
        raise InputError(f"expected one of {', '.join(INTENTS)}, found {asked!r}", where="intent")
    if asked != "auto":
        return asked, "asked"
    if not query.strip():
        return "fast", "empty query"
    said = query.lower() if query.isascii() else ""
    for intent, named in scoring.intents:
        for pattern in named:
            words = opening_words(pattern) if said else ()
            if words and not any(word in said for word in words):
                continue
            if _compiled(pattern).search(query):
                return intent, f"pattern: {pattern}"
    return scoring.default_intent, "default_intent"
