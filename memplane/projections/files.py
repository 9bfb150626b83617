"""Files: which were worked on, when, on which branch, and under which prompts.

What a session is about to need is guessed from it (`memplane.recall.files`). The state is a list
of episodes, and the last touch of each file. An episode is what one prompt of a session led to:
the prompt's words, the branch, and the files touched. So nothing about a file is summed up that
could not be taken apart again: an episode that a reader may not see is passed over, and a file
whose last touch in one namespace is hidden may still be shown by that in another.

Each group of events that are open to the same readers (`groups`) has its own clock and bounds. Old
episodes go, and with them the files that nothing newer touched. Only those who ask for files
read the file, and packs of sessions that touched none yet.
"""

from __future__ import annotations

import json
from typing import Any, Final

from memplane.event import UPKEEP_KINDS, Event
from memplane.ports import Line
from memplane.projections.file_rows import (
    COUNT_BYTES,
    QUOTES,
    Episode,
    FilesState,
    LastTouch,
    Now,
    Origin,
    together,
)
from memplane.projections.forgetting import Forget, forget_of
from memplane.projections.groups import Grouped, Groups, Sees, share_of
from memplane.projections.projector import canonical
from memplane.projections.touches import PATH_MAX, json_bytes, touched_by
from memplane.projections.words import words

__all__ = [
    "BYTES_MAX", "PATHS", "AllFiles", "AllFilesState", "Episode", "Files", "FilesState",
    "LastTouch",
]  # fmt: skip

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
                [*(name_at[name] for name in one.names()), one.prompt, one.terms, one.at,
                 int(one.forgotten), int(one.unsaid),
                 [n for path, count in one.paths.items() for n in (path_at[path], count)]]
                for one in state.episodes
            ],
            "last": [
                [path, *([episode_at[id(one.episode)], *one.fields()] for one in touches)]
                for path, touches in state.last.items()
            ],
        }  # fmt: skip

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
            episode = Episode(session, branch, ns, sensitivity, prompt, terms)
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
        """The files of a reader, None: of all. What he does not see shapes nothing of them."""
        states = self.among(sees)
        if len(states) == 1:
            return states[0]
        key = tuple((one, one.changes) for one in states)
        if self._together is None or self._together[0] != key:
            self._together = (key, together(states))
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
        now.origin = Origin(
            event.seq, event.id, event.ts, event.kind, event.ns, event.sensitivity
        )  # fmt: skip
    if prompts:
        now.prompt, now.ns, now.sensitivity = event.id, event.ns, event.sensitivity
        now.terms = words(event.text[:TEXT_MAX], WORDS)
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
    fields = [
        event.seq, event.id, event.ts, count, event.kind, False, False, event.key,
        event.valid_from, event.valid_until,
    ]  # fmt: skip
    touch = LastTouch(episode, fields)
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

    def hides(origin: Origin) -> str | None:
        alike = (origin.ns, origin.sensitivity) == (event.ns, event.sensitivity)
        return None if alike and origin.kind in _TURNS else "other"

    return state.branch_of(event.session, hides)


def _episode(state: FilesState, event: Event, path: str, branch: str) -> Episode:
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
    episode = Episode(*named, prompt, now.terms if now is not None and alike else [])
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


def _drop_touch(state: FilesState, path: str, episode: Episode) -> None:
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
    for touches in state.last.values():
        for touch in touches:
            if _names(forget, touch):
                touch.forgotten = not forget.undo
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


def _names(forget: Forget, touch: LastTouch) -> bool:
    if forget.key is not None:
        return touch.key == forget.key and touch.ns == forget.ns
    return forget.names(touch.id, touch.episode.session)
