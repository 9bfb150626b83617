"""The state of the files view: episodes, last touches, and where sessions stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from memplane.projections.file_index import FileIndex
from memplane.projections.touches import json_bytes, json_bytes_of

__all__ = [
    "COUNT_BYTES", "QUOTES", "Episode", "FilesState", "LastTouch", "Now", "Origin", "together",
]  # fmt: skip

COUNT_BYTES: Final = 10  # a file in an episode: its number and how often
QUOTES: Final = 3  # of a text, with its comma
_LAST_BYTES: Final = 48  # numbers and quotes of a last touch
_EPISODE_BYTES: Final = 40


class Episode:
    """What one prompt led to. `terms` are empty where the prompt is not as visible as the touches.

    `at` is the clock (touches of its group of events) at its last touch; `paths` counts touches.
    """

    __slots__ = (
        "at", "branch", "bytes", "forgotten", "ns", "paths", "prompt", "sensitivity", "session",
        "terms", "unsaid",
    )  # fmt: skip

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


class LastTouch:
    """The newest touch of a file in one namespace at one sensitivity: what `Scope` asks for."""

    __slots__ = (
        "bytes", "episode", "forgotten", "id", "key", "kind", "seq", "superseded", "touches", "ts",
        "valid_from", "valid_until",
    )  # fmt: skip

    def __init__(self, episode: Episode, fields: list[Any]) -> None:
        self.episode = episode
        self.seq: int
        self.id: str
        self.ts: str
        self.touches: int  # of this file in this namespace at this sensitivity
        self.kind: str
        self.forgotten: bool
        self.superseded: bool
        self.key: str | None
        self.valid_from: str | None
        self.valid_until: str | None
        (
            self.seq, self.id, self.ts, self.touches, self.kind, self.forgotten, self.superseded,
            self.key, self.valid_from, self.valid_until,
        ) = fields  # fmt: skip
        # An upper bound of the row's bytes.
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

    @classmethod
    def of(cls, episode: Episode, row: list[Any]) -> LastTouch:
        """The touch that `fields` gave."""
        return cls(episode, [*row, *_USUAL[len(row) - _LEAST :]])

    def fields(self) -> list[Any]:
        """The row of the file, without its usual end."""
        row = [
            self.seq, self.id, self.ts, self.touches, self.kind, self.forgotten, self.superseded,
            self.key, self.valid_from, self.valid_until,
        ]  # fmt: skip
        while len(row) > _LEAST and row[-1] == _USUAL[len(row) - _LEAST - 1]:
            row.pop()
        return row


_ORIGIN: Final = 6
_LEAST: Final = 4
_USUAL: Final = ("tool_call", False, False, None, None, None)


class Origin(NamedTuple):
    """The event that named a branch: what decides who may know of it."""

    seq: int
    id: str
    ts: str
    kind: str
    ns: str
    sensitivity: str
    # An event that has one of these names no branch.
    valid_from: str | None = None
    valid_until: str | None = None
    superseded: bool = False
    forgotten: bool = False


class Now:
    """Where a session stands: its branch with the event that named it, and its last prompt."""

    __slots__ = ("branch", "bytes", "ns", "origin", "prompt", "sensitivity", "terms")

    def __init__(
        self, branch: str = "", prompt: str = "", ns: str = "", sensitivity: str = "",
        terms: list[str] | None = None, origin: list[Any] | None = None,
    ) -> None:  # fmt: skip
        self.branch = branch
        self.origin = Origin(*origin) if origin else None
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
        "bytes", "changes", "clock", "clocks", "episodes", "grounds", "indexed", "keyed", "last",
        "latest", "names", "sessions",
    )  # fmt: skip

    def __init__(self) -> None:
        self.clock = 0
        self.clocks: dict[Episode, int] = {}  # of episodes of other groups: what their clocks show
        self.changes = 0  # how often the fold changed something
        self.bytes = 0
        self.episodes: list[Episode] = []
        self.last: dict[str, list[LastTouch]] = {}  # by path, the path touched last behind
        self.sessions: dict[str, Now] = {}
        self.latest: dict[str, Episode] = {}  # the newest episode of each session
        self.names: dict[str, int] = {}  # how many places of episodes hold each name
        self.keyed = 0  # touches with a key: so rare that they are looked for one by one
        self.grounds: dict[Any, Any] = {}
        self.indexed: FileIndex | None = None  # until somebody asks for `index`

    def change(self) -> None:
        """Note a change: what a guess found out before holds no longer."""
        self.changes += 1
        self.grounds = {}

    def age(self, episode: Episode) -> int:
        """Touches since an episode's last one."""
        return self.clocks.get(episode, self.clock) - episode.at

    @property
    def index(self) -> FileIndex:
        """Episodes and files by their words."""
        if self.indexed is None:
            self.indexed = FileIndex(self.episodes, self.last)
        return self.indexed

    def branch_of(self, session: str | None, hides: Callable[[Origin], str | None]) -> str:
        """The branch that the session was last seen on, "" where none was or it is hidden."""
        now = self.sessions.get(session) if session is not None else None
        if now is None or now.origin is None or hides(now.origin):
            return ""
        return now.branch


def together(states: Sequence[FilesState]) -> FilesState:
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
