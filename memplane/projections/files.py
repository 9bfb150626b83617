"""Files: which were worked on, when, on which branch, and under which prompts.

`memplane.recall.file_guess` predicts from it what a session needs next. The state is a list
of episodes, and the last touch of each file. An episode is what one prompt of a session led to:
the prompt's words, the branch, and the files touched. So no figure of a file is a sum that
could not be taken apart again: an episode that a reader may not see is passed over, and a file
whose last touch in one namespace is hidden may still be shown by that in another.

Each group of events that are open to the same readers (`groups`) has its own clock and bounds. Old
episodes go, and with them the files that nothing newer touched. The checkpoint is read
by requests for files, and by packs of sessions that have not touched any yet.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memplane.event import UPKEEP_KINDS, Event
from memplane.lazy import NamedTuple, regex, word_set
from memplane.ports import Line
from memplane.projections.function_words import SAID_ANYWHERE
from memplane.projections.groups import Grouped, Groups, Sees, share_of
from memplane.projections.in_force import Forget, VisibleFields, forget_of
from memplane.projections.projector import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

# The files that a word could mean, so that a prediction need not look at every file.
#
# Built from the state at its first use, and kept up by the fold from then on. It is in no
# checkpoint, and no answer depends on when it was built.

Entry = TypeVar("Entry")
_WORDS_OF_PATH = 40


class FileIndex:
    """Episodes by the words of their prompts, files by the words and the last part of their paths.

    The inner dicts are ordered sets: entries leave from their front.
    """

    __slots__ = ("names", "terms", "words")

    def __init__(self, episodes: Iterable[FileEpisode], paths: Iterable[str]) -> None:
        self.terms: dict[str, dict[FileEpisode, None]] = {}
        self.words: dict[str, dict[str, None]] = {}
        self.names: dict[str, dict[str, None]] = {}
        for episode in episodes:
            self.begin(episode)
        for path in paths:
            self.enter(path)

    def begin(self, episode: FileEpisode) -> None:
        """File an episode under its prompt's words."""
        for term in episode.terms:
            _put(self.terms, term, episode)

    def end(self, episode: FileEpisode) -> None:
        """Let go of an episode."""
        for term in episode.terms:
            _take(self.terms, term, episode)

    def enter(self, path: str) -> None:
        """File a path under its words and its last part."""
        for word in path_words(path):
            _put(self.words, word, path)
        _put(self.names, last_part(path), path)

    def leave(self, path: str) -> None:
        """Let go of a path."""
        for word in path_words(path):
            _take(self.words, word, path)
        _take(self.names, last_part(path), path)


@lru_cache(maxsize=4096)
def path_words(path: str) -> tuple[str, ...]:
    """The words that a path is made of."""
    return tuple(search_words(path, _WORDS_OF_PATH))


def last_part(path: str) -> str:
    """The name of the file, in small letters."""
    return path.replace("\\", "/").rpartition("/")[2].lower()


def _put(table: dict[str, dict[Entry, None]], name: str, entry: Entry) -> None:
    table.setdefault(name, {})[entry] = None


def _take(table: dict[str, dict[Entry, None]], name: str, entry: Entry) -> None:
    held = table[name]
    del held[entry]
    if not held:
        del table[name]


# The state of the files view: episodes, last touches, and where sessions stand.

COUNT_BYTES: Final = 10  # a file in an episode: its number and how often
QUOTES: Final = 3  # of a text, with its comma
_LAST_BYTES: Final = 48  # numbers and quotes of a last touch
_EPISODE_BYTES: Final = 40


class FileEpisode:
    """The touches after one prompt. `terms` are empty where the prompt is less visible than they.

    `at` is the clock (touches of its group of events) at its last touch; `paths` counts touches.
    """

    __slots__ = (
        "at",
        "branch",
        "bytes",
        "forgotten",
        "ns",
        "paths",
        "prompt",
        "sensitivity",
        "session",
        "terms",
        "unsaid",
    )

    def __init__(
        self, session: str, branch: str, ns: str, sensitivity: str, prompt: str, terms: list[str]
    ) -> None:
        self.session = session  # "" outside of any
        self.branch = branch
        self.ns = ns
        self.sensitivity = sensitivity
        self.prompt = prompt  # its id, "" where there is none
        self.terms = terms
        self.at = 0
        self.forgotten = False
        self.unsaid = False  # the prompt alone was forgotten
        self.paths: dict[str, int] = {}
        # An upper bound of its row's bytes, without its names and files.
        self.bytes = _EPISODE_BYTES + json_bytes(prompt) + _bytes(terms)

    def names(self) -> tuple[str, ...]:
        """What the file writes once for all episodes."""
        return self.session, self.branch, self.ns, self.sensitivity


# A touch as the file has it: the usual values at the end of a row are left out.
_USUAL: Final[dict[str, Any]] = {
    "kind": "tool_call",
    "forgotten": False,
    "superseded": False,
    "key": None,
    "valid_from": None,
    "valid_until": None,
}
_TOUCH_ROW: Final = ("seq", "id", "ts", "touches", *_USUAL)


class LastTouch:
    """The newest touch of a file in one namespace at one sensitivity: what `Scope` asks for."""

    __slots__ = (
        "bytes",
        "episode",
        "forgotten",
        "id",
        "key",
        "kind",
        "seq",
        "superseded",
        "touches",
        "ts",
        "valid_from",
        "valid_until",
    )

    def __init__(self, episode: FileEpisode, event: Event, touches: int) -> None:
        self.episode = episode
        self.touches = touches  # of this file in this namespace at this sensitivity
        self.seq, self.id, self.ts, self.kind = event.seq, event.id, event.ts, event.kind
        self.forgotten = self.superseded = False
        self.key = event.key
        self.valid_from, self.valid_until = event.valid_from, event.valid_until
        self._measure()

    def _measure(self) -> None:
        """Set an upper bound of the row's bytes."""
        self.bytes = _LAST_BYTES + json_bytes_of((self.id, self.ts))
        if self.key or self.valid_from or self.valid_until:
            told = (self.key, self.valid_from, self.valid_until)
            self.bytes += _bytes([one for one in told if one])

    @property
    def ns(self) -> str:
        return self.episode.ns

    @property
    def sensitivity(self) -> str:
        return self.episode.sensitivity

    @property
    def session(self) -> str | None:
        return self.episode.session

    @classmethod
    def of(cls, episode: FileEpisode, row: list[Any]) -> LastTouch:
        """The touch that `fields` gave."""
        touch = object.__new__(cls)
        touch.episode = episode
        for name, value in (_USUAL | dict(zip(_TOUCH_ROW, row, strict=False))).items():
            setattr(touch, name, value)
        touch._measure()
        return touch

    def fields(self) -> list[Any]:
        """The row of the file, without its usual end."""
        row = [getattr(self, name) for name in _TOUCH_ROW]
        for usual in reversed(_USUAL.values()):
            if row[-1] != usual:
                break
            row.pop()
        return row


_ORIGIN: Final = 6


class Now:
    """A session's current branch with the event that named it, and its last prompt."""

    __slots__ = ("branch", "bytes", "ns", "origin", "prompt", "sensitivity", "terms")

    def __init__(
        self,
        branch: str = "",
        prompt: str = "",
        ns: str = "",
        sensitivity: str = "",
        terms: list[str] | None = None,
        origin: list[Any] | None = None,
    ) -> None:
        self.branch = branch
        self.origin = VisibleFields(*origin) if origin else None
        self.prompt, self.ns, self.sensitivity = prompt, ns, sensitivity
        self.terms = terms or []
        self.bytes = self.size()

    def fields(self) -> list[Any]:
        """The row of the file."""
        origin = [] if self.origin is None else list(self.origin[:_ORIGIN])
        return [self.branch, self.prompt, self.ns, self.sensitivity, self.terms, origin]

    def size(self) -> int:
        """An upper bound of the row's bytes, without the session's name."""
        told = () if self.origin is None else (str(self.origin.seq), *self.origin[1:_ORIGIN])
        return _bytes((self.branch, self.prompt, self.ns, self.sensitivity, *self.terms, *told))


class FilesState:
    """The fold's state. Read it, never write it, outside `Files`.

    `grounds` is the one exception: what a guess found out and the next one need not, by what it
    was asked for. The fold empties it with every change that could matter.
    """

    __slots__ = (
        "bytes",
        "changes",
        "clock",
        "clocks",
        "episodes",
        "grounds",
        "indexed",
        "keyed",
        "last",
        "latest",
        "names",
        "sessions",
    )

    def __init__(self) -> None:
        self.clock = 0
        self.clocks: dict[
            FileEpisode, int
        ] = {}  # of episodes of other groups: what their clocks show
        self.changes = 0  # how often the fold changed something
        self.bytes = 0
        self.episodes: list[FileEpisode] = []
        self.last: dict[str, list[LastTouch]] = {}  # by path, the path touched last behind
        self.sessions: dict[str, Now] = {}
        self.latest: dict[str, FileEpisode] = {}  # the newest episode of each session
        self.names: dict[str, int] = {}  # how many places of episodes hold each name
        self.keyed = 0  # touches with a key: so rare that they are looked for one by one
        self.grounds: dict[Any, Any] = {}
        self.indexed: FileIndex | None = None  # until somebody asks for `index`

    def change(self) -> None:
        """Note a change: what a guess found out before holds no longer."""
        self.changes += 1
        self.grounds = {}

    def age(self, episode: FileEpisode) -> int:
        """Touches since an episode's last one."""
        return self.clocks.get(episode, self.clock) - episode.at

    @property
    def index(self) -> FileIndex:
        """Episodes and files by their words."""
        if self.indexed is None:
            self.indexed = FileIndex(self.episodes, self.last)
        return self.indexed

    def branch_of(self, session: str | None, hides: Callable[[VisibleFields], str | None]) -> str:
        """The branch that the session was last seen on, "" where none was or it is hidden."""
        now = self.sessions.get(session) if session is not None else None
        if now is None or now.origin is None or hides(now.origin):
            return ""
        return now.branch


def joined_files(states: Sequence[FilesState]) -> FilesState:
    """What the files of several groups are for who sees them all: read, never folded on.

    Each episode ages by the touches of its own group.
    """
    both = FilesState()
    for one in states:
        both.episodes += one.episodes
        both.clocks.update(dict.fromkeys(one.episodes, one.clock))
        for path, touches in one.last.items():
            both.last[path] = [*both.last.get(path, ()), *touches]
        for session, now in one.sessions.items():
            before = both.sessions.get(session)
            if before is None or _named_at(now) > _named_at(before):
                both.sessions[session] = now
    return both


def _named_at(now: Now) -> int:
    return 0 if now.origin is None else now.origin.seq


def _bytes(texts: Sequence[str]) -> int:
    return json_bytes_of(texts) + QUOTES * len(texts)


PATHS: Final = 1000
EPISODE_PATHS: Final = 64  # a prompt that leads to more is several episodes
SESSIONS: Final = 32  # whose prompt and branch are remembered for the touches to come
WORDS: Final = 24  # of one prompt
TEXT_MAX: Final = 4000  # characters of a prompt that are looked at
# Of one group: what is counted against this is an upper bound of its rows.
BYTES_MAX: Final = 184 * 1024

_TURNS: Final = ("session", "message", "tool_call", "tool_result")
_TOUCHING: Final = frozenset(("tool_call", "message"))
_NEVER_KEYED: Final = frozenset((*UPKEEP_KINDS, "session"))


class Files:
    """Folds the events of one group into `FilesState`. What has another comes as a secret."""

    name = "files"
    version = 3

    def __init__(self, *, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max

    def keeps(self, event: Event) -> bool:
        """Whether the event may say what was worked on, or where a session stands."""
        return event.role == "user" or "path" in event.data or "branch" in event.data

    def initial(self) -> FilesState:
        """Return the state before the first event."""
        return FilesState()

    def apply(self, state: FilesState, line: Line) -> None:
        """Note where sessions stand and what they touch; forget what is forgotten."""
        event = line.event
        kind, data = event.kind, event.data
        if kind == "forget":
            _forget(state, event)
            return
        if state.keyed and event.key is not None and kind not in _NEVER_KEYED:
            _supersede(state, event.ns, event.key)
        if event.sensitivity == "secret":
            return
        if (event.role == "user" or "branch" in data) and event.session is not None:
            _stand(state, event, event.session)
            _bound(state, self.bytes_max)
        # No artifact: one is shown only where an approval covers it.
        if data and kind in _TOUCHING and "path" in data:
            touched = touched_by(event)
            if touched is not None:
                _touch(state, event, *touched)
                _bound(state, self.bytes_max)

    def dump(self, state: FilesState) -> bytes:
        """Return the state."""
        return canonical(self.fields(state))

    def fields(self, state: FilesState) -> dict[str, Any]:
        """The state; files, episodes and names stand for themselves by their places."""
        name_at = {name: at for at, name in enumerate(state.names)}
        path_at = {path: at for at, path in enumerate(state.last)}
        episode_at = {id(episode): at for at, episode in enumerate(state.episodes)}
        return {
            "clock": state.clock,
            "bytes": state.bytes,
            "names": list(state.names.items()),
            "sessions": [[id_, *now.fields()] for id_, now in state.sessions.items()],
            "episodes": [
                [
                    *(name_at[name] for name in one.names()),
                    one.prompt,
                    one.terms,
                    one.at,
                    int(one.forgotten),
                    int(one.unsaid),
                    [n for path, count in one.paths.items() for n in (path_at[path], count)],
                ]
                for one in state.episodes
            ],
            "last": [
                [path, *([episode_at[id(one.episode)], *one.fields()] for one in touches)]
                for path, touches in state.last.items()
            ],
        }

    def load(self, data: bytes) -> FilesState:
        """Return the state that was dumped."""
        return self.of(json.loads(data))

    def of(self, fields: dict[str, Any]) -> FilesState:
        """The state that `fields` gave."""
        state = FilesState()
        state.clock, state.bytes = fields["clock"], fields["bytes"]
        state.names = dict(fields["names"])
        state.sessions = {id_: Now(*rest) for id_, *rest in fields["sessions"]}
        names, paths = list(state.names), [path for path, *_ in fields["last"]]
        for *places, prompt, terms, at, forgotten, unsaid, pairs in fields["episodes"]:
            session, branch, ns, sensitivity = (names[place] for place in places)
            episode = FileEpisode(session, branch, ns, sensitivity, prompt, terms)
            episode.at, episode.forgotten, episode.unsaid = at, bool(forgotten), bool(unsaid)
            numbers = zip(pairs[::2], pairs[1::2], strict=True)
            episode.paths = {paths[number]: count for number, count in numbers}
            state.episodes.append(episode)
            state.latest[session] = episode
        for path, *rows in fields["last"]:
            state.last[path] = [LastTouch.of(state.episodes[at], row) for at, *row in rows]
            state.keyed += sum(touch.key is not None for touch in state.last[path])
        return state


class AllFilesState(Groups[FilesState]):
    """The files of all groups."""

    __slots__ = ("_together",)

    def __init__(self) -> None:
        super().__init__()
        # What somebody saw, as of which clocks: it holds what the next guess need not find out.
        self._together: tuple[tuple[object, ...], FilesState] | None = None

    def seen(self, sees: Sees | None = None) -> FilesState:
        """Return the files for a reader (None: all groups), independent of what is hidden."""
        states = self.among(sees)
        if len(states) == 1:
            return states[0]
        key = tuple((one, one.changes) for one in states)
        if self._together is None or self._together[0] != key:
            self._together = (key, joined_files(states))
        return self._together[1]


class AllFiles(Grouped[FilesState]):
    """The projector of the files of all groups."""

    states = AllFilesState

    def __init__(self, *, only: Sees | None = None) -> None:
        super().__init__(lambda group: Files(bytes_max=share_of(group, BYTES_MAX)), only=only)


def _stand(state: FilesState, event: Event, session: str) -> None:
    """Note a session's branch and its newest prompt."""
    state.changes += 1
    branch = event.data.get("branch")
    now = state.sessions.get(session)
    prompts = event.role == "user" and event.kind == "message"
    if not prompts and (branch is None or (now is not None and _said(now, event, branch))):
        return
    named = branch if isinstance(branch, str) and len(branch) <= PATH_MAX else None
    if event.key is not None or event.valid_from is not None or event.valid_until is not None:
        named = None  # it may cease to hold, and nobody would take the branch back
    if now is None:
        now = Now()
        state.bytes += json_bytes(session) + QUOTES
    else:
        del state.sessions[session]
        state.bytes -= now.bytes
    state.sessions[session] = now  # behind the others: the one longest silent goes first
    if named is not None:
        now.branch = named
        now.origin = VisibleFields(
            event.seq, event.id, event.ts, event.kind, event.ns, event.sensitivity
        )
    if prompts:
        now.prompt, now.ns, now.sensitivity = event.id, event.ns, event.sensitivity
        now.terms = search_words(event.text[:TEXT_MAX], WORDS)
    now.bytes = now.size()
    state.bytes += now.bytes
    if len(state.sessions) > SESSIONS:
        silent = next(iter(state.sessions))
        state.bytes -= state.sessions.pop(silent).bytes + json_bytes(silent) + QUOTES


def _touch(state: FilesState, event: Event, path: str, branch: str) -> None:
    state.change()
    state.clock += 1
    episode = _episode(state, event, path, branch or _branch(state, event))
    if path not in episode.paths:
        state.bytes += COUNT_BYTES
    episode.paths[path] = episode.paths.get(path, 0) + 1
    episode.at = state.clock
    touches = state.last.pop(path, None)
    if touches is None:
        touches = []
        state.bytes += json_bytes(path) + QUOTES
        if state.indexed is not None:
            state.indexed.enter(path)
    state.last[path] = touches
    count = 1
    for at, old in enumerate(touches):
        if (old.ns, old.sensitivity) == (event.ns, event.sensitivity):
            count += old.touches
            _let_go(state, touches.pop(at))
            break
    touch = LastTouch(episode, event, count)
    touches.append(touch)
    state.bytes += touch.bytes
    state.keyed += event.key is not None


def _said(now: Now, event: Event, branch: object) -> bool:
    """Whether the branch is known already, from an event that the same readers may see."""
    origin = now.origin
    return (
        origin is not None
        and now.branch == branch
        and (origin.ns, origin.sensitivity) == (event.ns, event.sensitivity)
    )


def _branch(state: FilesState, event: Event) -> str:
    """The session's branch, where whoever may see the touch may also see what named the branch."""
    now = state.sessions.get(event.session or "")
    if now is None or now.origin is None:
        return ""

    def hides(origin: VisibleFields) -> str | None:
        alike = (origin.ns, origin.sensitivity) == (event.ns, event.sensitivity)
        return None if alike and origin.kind in _TURNS else "other"

    return state.branch_of(event.session, hides)


def _episode(state: FilesState, event: Event, path: str, branch: str) -> FileEpisode:
    """The episode that the touch belongs to: the session's latest, or a new one."""
    session = event.session or ""
    now = state.sessions.get(session)
    prompt = now.prompt if now is not None else ""
    named = (session, branch, event.ns, event.sensitivity)
    latest = state.latest.get(session)
    if (
        latest is not None
        and latest.names() == named
        and latest.prompt == prompt
        and not latest.forgotten
        and (path in latest.paths or len(latest.paths) < EPISODE_PATHS)
    ):
        return latest
    alike = now is not None and (now.ns, now.sensitivity) == (event.ns, event.sensitivity)
    episode = FileEpisode(*named, prompt, now.terms if now is not None and alike else [])
    state.episodes.append(episode)
    state.latest[session] = episode
    if state.indexed is not None:
        state.indexed.begin(episode)
    state.bytes += episode.bytes
    for name in episode.names():
        if name not in state.names:
            state.bytes += json_bytes(name) + 2 * QUOTES + 4
        state.names[name] = state.names.get(name, 0) + 1
    return episode


def _bound(state: FilesState, bytes_max: int) -> None:
    while len(state.episodes) > 1 and (state.bytes > bytes_max or len(state.last) > PATHS):
        oldest = state.episodes.pop(0)
        state.change()
        if state.indexed is not None:
            state.indexed.end(oldest)
        state.bytes -= oldest.bytes + COUNT_BYTES * len(oldest.paths)
        if state.latest[oldest.session] is oldest:
            del state.latest[oldest.session]
        for name in oldest.names():
            state.names[name] -= 1
            if not state.names[name]:
                del state.names[name]
                state.bytes -= json_bytes(name) + 2 * QUOTES + 4
        for path in oldest.paths:
            _drop_touch(state, path, oldest)


def _drop_touch(state: FilesState, path: str, episode: FileEpisode) -> None:
    """Let go of a file's last touch where it stands in this episode, and of a file without one."""
    touches = state.last[path]
    for at, touch in enumerate(touches):
        if touch.episode is episode:
            _let_go(state, touches.pop(at))
            break
    if not touches:
        del state.last[path]
        state.bytes -= json_bytes(path) + QUOTES
        if state.indexed is not None:
            state.indexed.leave(path)


def _let_go(state: FilesState, touch: LastTouch) -> None:
    state.bytes -= touch.bytes
    state.keyed -= touch.key is not None


def _supersede(state: FilesState, ns: str, key: str) -> None:
    state.change()
    for touches in state.last.values():
        for touch in touches:
            if touch.key == key and touch.ns == ns:
                touch.superseded = True


def _forget(state: FilesState, event: Event) -> None:
    forget = forget_of(event)
    if forget is None:
        return
    state.change()
    forget.mark(touch for touches in state.last.values() for touch in touches)
    for episode in state.episodes:
        if forget.session is not None and episode.session == forget.session:
            episode.forgotten = not forget.undo
        elif episode.prompt and forget.names(episode.prompt, None):
            episode.unsaid = not forget.undo
    if not forget.undo:
        for id_, now in state.sessions.items():
            _unsay(state, forget, id_, now)


def _unsay(state: FilesState, forget: Forget, session: str, now: Now) -> None:
    """Drop what a session's forgotten events said: its branch, its prompt's words."""
    if now.origin is not None and forget.names(now.origin.id, session):
        now.branch, now.origin = "", None
    if now.terms and forget.names(now.prompt, session):
        now.terms = []
    state.bytes += now.size() - now.bytes
    now.bytes = now.size()


# Touches of files: which events are one, and how warm a file is after them.
#
# A file's heat is the number of its touches, each worth half after `HALF_LIFE` more touches of any
# file in the same session. Touches are the clock, so a night does not cool what was left open. Heat
# is a whole number: `fade` multiplies by a table of powers of two, the same on every machine.

HALF_LIFE: Final = 20
UNIT: Final = 1000  # the heat of one touch
FILES: Final = 16  # of one session
PATH_MAX: Final = 300  # characters; a longer path is no file that a line could name
_PPM: Final = 1_000_000
# 2 ** (-step / 20) in millionths.
_POWERS: Final = (
    1_000_000,
    965_936,
    933_033,
    901_250,
    870_551,
    840_896,
    812_252,
    784_584,
    757_858,
    732_043,
    707_107,
    683_020,
    659_754,
    637_280,
    615_572,
    594_604,
    574_349,
    554_785,
    535_887,
    517_632,
)
# UNIT * 2 ** (step / 40), for what a file could ever be: halves of a touch.
_HEATS: Final = tuple(
    heat // _PPM
    for heat in accumulate(
        repeat(1_017_480, 200), lambda heat, by: heat * by // _PPM, initial=UNIT * _PPM
    )
)
_ROW_BYTES: Final = 40  # numbers, quotes and commas
_KINDS: Final = frozenset(("tool_call", "artifact", "message"))
# Tools that look around: the path is where they searched, not a file that was worked on. Counting
# them costs 4 of 91 points of what a list of ten covers.
_SEARCHES: Final = word_set("""
    grep glob ls list find search rg tree list_dir list_directory file_search grep_search
    search_files list_files codebase_search
""")


def fade(heat: int, age: int, half_life: int = HALF_LIFE) -> int:
    """What is left of the heat after `age` touches; never more than before, 0 in the end."""
    halvings, step = divmod(age * HALF_LIFE // half_life, HALF_LIFE)
    return heat * _POWERS[step] // _PPM >> halvings


def touched_by(event: Event) -> tuple[str, str] | None:
    """Path and branch of the file that the event works on; None where it works on none."""
    if event.kind not in _KINDS or not event.data:
        return None
    data: dict[str, Any] = event.data
    path, branch, tool = data.get("path"), data.get("branch"), data.get("tool")
    if not isinstance(path, str) or not path or len(path) > PATH_MAX:
        return None
    if isinstance(tool, str) and tool.lower() in _SEARCHES:
        return None
    return path, branch[:PATH_MAX] if isinstance(branch, str) else ""


class FileTouch(NamedTuple):
    """The last touch of a file in a session: its event, and the heat at that tick of the clock.

    Whatever the clock is, of two touches the one with the lower `rank` is colder.
    """

    seq: int
    branch: str
    heat: int
    at: int
    rank: int

    @classmethod
    def of(cls, seq: int, branch: str, heat: int, at: int) -> FileTouch:
        """A touch with its rank: the tick at which one touch alone would be as warm, doubled."""
        rank = 2 * at + bisect_right(_HEATS, heat)
        return tuple.__new__(cls, (seq, branch, heat, at, rank))  # the quickest way to make one


_RANK: Final = itemgetter(FileTouch._fields.index("rank"))


class FileTable:
    """The files of one session, by their last touch; the coldest of seventeen goes."""

    __slots__ = ("bytes", "clock", "touches")

    def __init__(self) -> None:
        self.clock = 0  # touches so far
        self.bytes = 0  # an upper bound of the rows in the file
        self.touches: dict[str, FileTouch] = {}

    def touch(self, path: str, seq: int, branch: str) -> list[int]:
        """Note a touch; return the seqs of touches that the table let go."""
        self.clock += 1
        before = self.touches.pop(path, None)
        gone, heat = [], UNIT
        if before is not None:
            gone.append(before.seq)
            heat += fade(before.heat, self.clock - before.at)
            self.bytes -= _size_of(path, before.branch)
        self.touches[path] = FileTouch.of(seq, branch, heat, self.clock)
        self.bytes += _size_of(path, branch)
        if len(self.touches) > FILES:
            # Never the newest: it would come in cold again and again. Of equals the oldest, which
            # stands before the others.
            ranks = [*map(_RANK, self.touches.values())]
            ranks.pop()
            coldest = [*self.touches][ranks.index(min(ranks))]
            old = self.touches.pop(coldest)
            gone.append(old.seq)
            self.bytes -= _size_of(coldest, old.branch)
        return gone

    @classmethod
    def together(cls, tables: Sequence[FileTable]) -> FileTable:
        """What several groups of events touched in one session: each file as warm as all say."""
        if len(tables) == 1:
            return tables[0]
        both = cls()
        both.clock = sum(table.clock for table in tables)
        for table in tables:
            for path, touch in table.touches.items():
                heat, known = table.heat(touch), both.touches.get(path)
                if known is not None:
                    heat += known.heat
                newer = touch if known is None or touch.seq > known.seq else known
                both.touches[path] = FileTouch.of(newer.seq, newer.branch, heat, both.clock)
        return both

    def warmest(self) -> list[tuple[str, FileTouch]]:
        """Files by heat now, the warmest first; of equally warm ones the newer touch."""
        return sorted(self.touches.items(), key=lambda one: (-self.heat(one[1]), -one[1].seq))

    def heat(self, touch: FileTouch) -> int:
        """The heat of a file now."""
        return fade(touch.heat, self.clock - touch.at)

    def fields(self) -> list[Any]:
        """The table as JSON values."""
        return [self.clock, [[path, *touch[:-1]] for path, touch in self.touches.items()]]

    @classmethod
    def of(cls, fields: list[Any]) -> FileTable:
        """The table that `fields` gave."""
        table = cls()
        table.clock = fields[0]
        table.touches = {path: FileTouch.of(*rest) for path, *rest in fields[1]}
        table.bytes = sum(_size_of(path, touch.branch) for path, touch in table.touches.items())
        return table


@lru_cache(maxsize=4096)  # the same files are touched again and again
def _size_of(path: str, branch: str) -> int:
    return _ROW_BYTES + json_bytes(path) + json_bytes(branch)


def json_bytes(text: str) -> int:
    """An upper bound of the bytes of a text in JSON, without its quotes."""
    return len(text) if _is_plain(text) else 6 * len(text)


def json_bytes_of(texts: Sequence[str]) -> int:
    """The same of many texts, added up; they are looked at together, as nearly all are plain."""
    joined = "".join(texts)
    return len(joined) if _is_plain(joined) else sum([json_bytes(text) for text in texts])


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


# Words of texts in the forms in which they are compared: by a files view, and with each other.

_WORD: Final = regex(r"[^\W_]+")
_CAMEL: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONGEST: Final = 24
# Longest first: "checkpoints" and "checkpointed" are about `checkpoint.go`.
# Characters: of a longer text stands a hash for its words, made of one part after another.
_PART: Final = 1 << 16
_BLANKS_MAX: Final = 64
_BLANK: Final = regex(r"\s")
_ENDINGS: Final = ("ing", "ed", "es", "s")


def search_words(text: str, most: int) -> list[str]:
    """The first `most` different words: small letters, identifiers in parts, endings dropped."""
    found: dict[str, None] = {}
    for run in _WORD.findall(text):
        for word in _words_of(run):
            found[word] = None
        if len(found) >= most:
            break
    return list(found)[:most]


def normalised(text: str) -> str:
    """What two texts must agree in to say the same: their words in small letters, a blank between.

    Where that is very long, a hash of it and as many blanks, up to 64.
    """
    if len(text) <= _PART and len(words := " ".join(text.lower().split())) <= _PART:
        return words
    digest, kept, size, blanks, at = hashlib.sha256(), [], 0, -1, 0
    while at < len(text):
        # Between words: what a letter becomes depends on those beside it.
        found = _BLANK.search(text, at + _PART)
        end = len(text) if found is None else found.end()
        part = " ".join(text[at:end].lower().split())
        at = end
        if part:
            digest.update(f" {part}".encode("utf-8", "surrogatepass"))
            size += len(part) + 1
            blanks += part.count(" ") + 1
            if size <= _PART + 1:
                kept.append(part)
    if size <= _PART + 1:
        return " ".join(kept)
    return f"\0{digest.hexdigest()}{' ' * min(blanks, _BLANKS_MAX)}"


@lru_cache(maxsize=8192)  # prompts are made of the same words again and again
def _words_of(run: str) -> tuple[str, ...]:
    """The words of letters and digits that stand together."""
    parts = (run,) if run.islower() or not run.isascii() else _CAMEL.findall(run)
    words = (part.lower() for part in parts)
    return tuple(
        _stem(word[:_LONGEST]) for word in words if len(word) > 1 and word not in SAID_ANYWHERE
    )


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
