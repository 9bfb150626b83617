"""Predict which files a session needs next, from what was touched before.

Five terms, each scaled to thousandths of the best file and then weighted; they are integers
throughout. `recent`: touches, each worth half after the plane's next 300. `branch`: those
on the same branch. `prompt`: words that the query shares with prompts under which a file was
touched. `path`: words of the query, and of the branch's name, that a path is made of. `named`: the
query, a decision or an error names the file. What the terms are worth was found on the sessions of
one team (tools/measure_files.py): leaving one out costs up to six points of sixty, halving or
doubling a weight one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import islice
from math import isqrt
from typing import Final

from memplane.lazy import NamedTuple, regex
from memplane.projections.files import (
    FileEpisode,
    FilesState,
    LastTouch,
    fade,
    path_words,
    search_words,
)
from memplane.recall.suppress import Scope

TERMS: Final = ("recent", "branch", "prompt", "path", "named")
_WEIGHTS: Final = (1000, 2000, 1500, 1500, 700)
_HALF_LIFE: Final = 300  # touches in the whole plane
_BRANCH_NAME: Final = 500  # thousandths of a word of the query
_BY_DECISION: Final = 500  # thousandths of being named by the query
_QUERY_WORDS: Final = 200
_QUERY_CHARACTERS: Final = 8000
_READERS_MAX: Final = 8  # readers whose visible touches are kept
_COMMON: Final = 100  # a word that more files or prompts hold is left out
_NAMING_TEXTS: Final = 50
_NAMING_CHARACTERS: Final = 2000
_FILE: Final = regex(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,7}")
_UNIT: Final = 1000
_ROOTS: Final = tuple(isqrt(100 * count) for count in range(64))


class Guess(NamedTuple):
    """A file, its newest visible touch, and its score: the sum of `parts`, named by TERMS."""

    path: str
    touch: LastTouch
    score: int
    parts: tuple[int, ...]

    @property
    def why(self) -> tuple[str, ...]:
        """The terms that add to the score of the file, the strongest first."""
        found = [(part, name) for part, name in zip(self.parts, TERMS, strict=True) if part]
        return tuple(name for _, name in sorted(found, key=lambda one: -one[0]))


class _VisibleTouches:
    """What a guess takes from touches before it reads the query; the same until the next touch."""

    __slots__ = ("branches", "episodes", "newest", "order", "recent", "timed", "visible")

    def __init__(self, state: FilesState, scope: Scope) -> None:
        self.newest = 0  # seq of the newest touch, hidden or not
        self.timed = False  # whether the clock can change what is visible
        self.visible = self._visible(state, scope)
        reached = (one for one in state.episodes if not one.forgotten and _reaches(scope, one))
        self.episodes = dict.fromkeys(reached if self.visible else ())
        self.recent = _scaled(_touched(self.episodes, state), self.visible, _WEIGHTS[0])
        self.order = sorted(self.visible, key=self.place)
        self.branches: dict[str, dict[str, int]] = {"": {}}

    def place(self, path: str) -> tuple[int, int]:
        """The rank of a file by its touches alone; ties go to the newer one."""
        return -self.recent.get(path, 0), -self.visible[path].seq

    def on(self, branch: str, state: FilesState) -> dict[str, int]:
        """What touches on the branch are worth."""
        known = self.branches.get(branch)
        if known is None:
            there = [one for one in self.episodes if one.branch == branch]
            known = _scaled(_touched(there, state), self.visible, _WEIGHTS[1])
            self.branches[branch] = known
        return known

    def _visible(self, state: FilesState, scope: Scope) -> dict[str, LastTouch]:
        """The newest touch of each file that the scope does not hide."""
        found = {}
        for path, touches in state.last.items():
            newest = None
            for touch in touches:
                if touch.valid_from is not None or touch.valid_until is not None:
                    self.timed = True
                self.newest = max(self.newest, touch.seq)
                if (newest is None or touch.seq > newest.seq) and scope.hides(touch) is None:
                    newest = touch
            if newest is not None:
                found[path] = newest
        return found


def guess_files(
    state: FilesState,
    scope: Scope,
    *,
    query: str,
    branch: str,
    named: Iterable[str] = (),
    limit: int,
) -> list[Guess]:
    """The files that score best, the best first; ties go to the newer touch.

    Only files with a touch that the scope does not hide; a hidden touch adds nothing. `named` are
    texts of decisions and errors that the asker may see.
    """
    seen = _visible_touches(state, scope)
    visible = seen.visible
    if not visible:
        return []
    wanted = search_words(query[:_QUERY_CHARACTERS], _QUERY_WORDS)
    parts = (
        seen.recent,
        seen.on(branch, state),
        _scaled(_prompted(state, seen, scope, wanted), visible, _WEIGHTS[2]),
        _scaled(
            _worded(state, seen, wanted, search_words(branch, _QUERY_WORDS)), visible, _WEIGHTS[3]
        ),
        _scaled(_naming(state, query, named), visible, _WEIGHTS[4]),
    )
    score = dict(parts[1])
    for part in parts[2:]:
        for path, own in part.items():
            score[path] = score.get(path, 0) + own
    # Of those that have no score but by their touches, the best are known.
    others = (path for path in seen.order if path not in score)
    score.update(dict.fromkeys(list(islice(others, limit)), 0))
    for path in score:
        score[path] += seen.recent.get(path, 0)
    best = sorted(score, key=lambda path: (-score[path], -visible[path].seq))[:limit]
    return [
        Guess(path, visible[path], score[path], tuple(part.get(path, 0) for part in parts))
        for path in best
    ]


def _visible_touches(state: FilesState, scope: Scope) -> _VisibleTouches:
    """What the scope may see as of the fold; kept from the last time where that still holds."""
    asked = (
        scope.levels,
        scope.kinds,
        scope.ns,
        scope.task,
        scope.agent,
        scope.specs,
        scope.since,
        scope.until,
        scope.exclude,
        scope.held,
    )
    known: _VisibleTouches | None = state.grounds.get(asked)
    if known is not None and known.newest <= scope.as_of:
        return known
    seen = _VisibleTouches(state, scope)
    if not seen.timed and seen.newest <= scope.as_of:
        if len(state.grounds) == _READERS_MAX:
            state.grounds.pop(next(iter(state.grounds)))
        state.grounds[asked] = seen
    return seen


def _reaches(scope: Scope, episode: FileEpisode) -> bool:
    return episode.sensitivity not in scope.levels and scope.reaches(episode.ns)


def _touched(episodes: Iterable[FileEpisode], state: FilesState) -> dict[str, int]:
    """Heat by file. Many touches under one prompt count as their root: one was enough to know."""
    heat: dict[str, int] = {}
    for episode in episodes:
        worth = fade(_UNIT, state.age(episode), _HALF_LIFE)
        if worth:
            for path, count in episode.paths.items():
                root = _ROOTS[count] if count < len(_ROOTS) else isqrt(100 * count)
                heat[path] = heat.get(path, 0) + worth * root // 10
    return heat


def _prompted(
    state: FilesState, seen: _VisibleTouches, scope: Scope, wanted: list[str]
) -> dict[str, int]:
    """What the query shares with the prompts under which a file was touched."""
    if "message" in scope.kinds:
        return {}
    shares: dict[FileEpisode, int] = {}
    for term in wanted:
        holding = [
            one
            for one in state.index.terms.get(term, ())
            if not one.unsaid and one in seen.episodes and one.prompt not in scope.exclude
        ]
        if 0 < len(holding) <= _COMMON:
            weight = _rarity(len(seen.episodes), len(holding))
            for episode in holding:
                shares[episode] = shares.get(episode, 0) + weight
    shared: dict[str, int] = {}
    for episode, worth in shares.items():
        for path in episode.paths:
            shared[path] = shared.get(path, 0) + worth
    return shared


def _worded(
    state: FilesState, seen: _VisibleTouches, wanted: list[str], of_branch: list[str]
) -> dict[str, int]:
    """Words of the query, and at less of the branch's name, that a path is made of."""
    worth = {**dict.fromkeys(of_branch, _BRANCH_NAME), **dict.fromkeys(wanted, _UNIT)}
    found: dict[str, int] = {}
    for word, own in worth.items():
        holding = [path for path in state.index.words.get(word, ()) if path in seen.visible]
        if 0 < len(holding) <= _COMMON:
            weight = _rarity(len(seen.visible), len(holding)) * own
            for path in holding:
                found[path] = found.get(path, 0) + weight
    return {
        path: weight // isqrt(100 * (len(path_words(path)) + 2)) for path, weight in found.items()
    }


def _naming(state: FilesState, query: str, named: Iterable[str]) -> dict[str, int]:
    """Files that the query, a decision or an error names by their last part."""
    worth: dict[str, int] = {}
    for text in islice(named, _NAMING_TEXTS):
        worth.update(dict.fromkeys(_names_in(text[:_NAMING_CHARACTERS]), _BY_DECISION))
    worth.update(dict.fromkeys(_names_in(query[:_QUERY_CHARACTERS]), _UNIT))
    names = state.index.names
    return {path: own for name, own in worth.items() for path in names.get(name, ())}


@lru_cache(maxsize=256)
def _names_in(text: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in _FILE.findall(text))


def _scaled(part: dict[str, int], visible: Collection[str], weight: int) -> dict[str, int]:
    """The part in thousandths of its best visible file, times the weight."""
    shown = {path: own for path, own in part.items() if path in visible}
    best = max(shown.values(), default=0)
    return {path: weight * own // best for path, own in shown.items()} if best else {}


def _rarity(total: int, holding: int) -> int:
    """How much a word tells that `holding` of `total` have: a fourth root for the usual log."""
    return isqrt(isqrt((total + holding) * _UNIT**4 // holding)) - _UNIT
