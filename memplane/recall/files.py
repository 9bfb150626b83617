"""Which files a session is about to need, guessed from what was touched before.

Five terms, each scaled to thousandths of the best file and then weighted; they are integers
throughout. `recent`: touches, each worth half after the plane's next 300. `branch`: those
on the same branch. `prompt`: words that the query shares with prompts under which a file was
touched. `path`: words of the query, and of the branch's name, that a path is made of. `named`: the
query, a decision or an error names the file. What the terms are worth was found on the sessions of
one team (tools/measure_files.py): leaving one out costs up to six points of sixty, halving or
doubling a weight one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from math import isqrt
from typing import Final, NamedTuple

from memplane.projections.files import Episode, FilesState, LastTouch
from memplane.projections.touches import fade
from memplane.projections.words import words
from memplane.recall.suppress import Scope

__all__ = ["TERMS", "Guess", "guess"]

TERMS: Final = ("recent", "branch", "prompt", "path", "named")
_WEIGHTS: Final = (1000, 2000, 1500, 1500, 700)
_HALF_LIFE: Final = 300  # touches in the whole plane
_BRANCH_NAME: Final = 500  # thousandths of a word of the query
_BY_DECISION: Final = 500  # thousandths of being named by the query
_QUERY_WORDS: Final = 200
_QUERY_CHARACTERS: Final = 8000
_NAMING_TEXTS: Final = 50
_NAMING_CHARACTERS: Final = 2000
_FILE: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,7}")
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
        """The terms that speak for the file, the strongest first."""
        found = [(part, name) for part, name in zip(self.parts, TERMS, strict=True) if part]
        return tuple(name for _, name in sorted(found, key=lambda one: -one[0]))


def guess(
    state: FilesState, scope: Scope, *, query: str, branch: str, named: Iterable[str] = (),
    limit: int,
) -> list[Guess]:  # fmt: skip
    """The files that score best, the best first; ties go to the newer touch.

    Only files with a touch that the scope does not hide; a hidden touch adds nothing. `named` are
    texts of decisions and errors that the asker may see.
    """
    visible = _visible(state, scope)
    if not visible:
        return []
    episodes = [one for one in state.episodes if not one.forgotten and _reaches(scope, one)]
    wanted = words(query[:_QUERY_CHARACTERS], _QUERY_WORDS)
    parts = (
        _touched(episodes, state.clock),
        _touched([one for one in episodes if branch and one.branch == branch], state.clock),
        {} if "message" in scope.kinds else _prompted(episodes, scope, frozenset(wanted)),
        _worded(visible, wanted, words(branch, _QUERY_WORDS)),
        _naming(visible, query, named),
    )  # fmt: skip
    scaled = [_scaled(part, visible, weight) for part, weight in zip(parts, _WEIGHTS, strict=True)]
    total = dict.fromkeys(visible, 0)
    for part in scaled:
        for path, worth in part.items():
            total[path] += worth
    best = sorted(visible, key=lambda path: (-total[path], -visible[path].seq))[:limit]
    return [
        Guess(path, visible[path], total[path], tuple(part.get(path, 0) for part in scaled))
        for path in best
    ]


def _visible(state: FilesState, scope: Scope) -> dict[str, LastTouch]:
    """The newest touch of each file that the scope does not hide."""
    found = {}
    for path, touches in state.last.items():
        newest = None
        for touch in touches:
            if (newest is None or touch.seq > newest.seq) and scope.hides(touch) is None:
                newest = touch
        if newest is not None:
            found[path] = newest
    return found


def _reaches(scope: Scope, episode: Episode) -> bool:
    return episode.sensitivity not in scope.levels and scope.reaches(episode.ns)


def _touched(episodes: list[Episode], clock: int) -> dict[str, int]:
    """Heat by file. Many touches under one prompt count as their root: one was enough to know."""
    heat: dict[str, int] = {}
    for episode in episodes:
        worth = fade(_UNIT, clock - episode.at, _HALF_LIFE)
        if worth:
            for path, count in episode.paths.items():
                root = _ROOTS[count] if count < len(_ROOTS) else isqrt(100 * count)
                heat[path] = heat.get(path, 0) + worth * root // 10
    return heat


def _prompted(episodes: list[Episode], scope: Scope, wanted: frozenset[str]) -> dict[str, int]:
    """What the query shares with the prompts under which a file was touched."""
    holding: dict[str, int] = {}
    matched: list[tuple[Episode, list[str]]] = []
    for episode in episodes:
        if wanted.isdisjoint(episode.terms):
            continue
        found = [term for term in episode.terms if term in wanted]
        if not episode.unsaid and episode.prompt not in scope.exclude:
            matched.append((episode, found))
            for term in found:
                holding[term] = holding.get(term, 0) + 1
    weight = {term: _rarity(len(episodes), count) for term, count in holding.items()}
    shared: dict[str, int] = {}
    for episode, found in matched:
        worth = sum(weight[term] for term in found)
        for path in episode.paths:
            shared[path] = shared.get(path, 0) + worth
    return shared


def _worded(paths: Collection[str], wanted: list[str], of_branch: list[str]) -> dict[str, int]:
    """Words of the query, and at less of the branch's name, that a path is made of."""
    worth = {**dict.fromkeys(of_branch, _BRANCH_NAME), **dict.fromkeys(wanted, _UNIT)}
    matched: dict[str, list[str]] = {}
    holding: dict[str, int] = {}
    for path in paths:
        of_path = _path_words(path)
        if worth.keys().isdisjoint(of_path):
            continue
        found = matched[path] = [word for word in of_path if word in worth]
        for word in found:
            holding[word] = holding.get(word, 0) + 1
    weight = {word: _rarity(len(paths), count) * worth[word] for word, count in holding.items()}
    return {
        path: sum(weight[word] for word in found) // isqrt(100 * (len(_path_words(path)) + 2))
        for path, found in matched.items()
    }


def _naming(paths: Collection[str], query: str, named: Iterable[str]) -> dict[str, int]:
    """Files that the query, a decision or an error names by their last part."""
    worth: dict[str, int] = {}
    for at, text in enumerate(named):
        if at == _NAMING_TEXTS:
            break
        worth.update(dict.fromkeys(_names_in(text[:_NAMING_CHARACTERS]), _BY_DECISION))
    worth.update(dict.fromkeys(_names_in(query[:_QUERY_CHARACTERS]), _UNIT))
    if not worth:
        return {}
    last = ((path, path.replace("\\", "/").rpartition("/")[2].lower()) for path in paths)
    return {path: worth[name] for path, name in last if name in worth}


def _names_in(text: str) -> list[str]:
    return [name.lower() for name in _FILE.findall(text)]


def _scaled(part: dict[str, int], visible: Collection[str], weight: int) -> dict[str, int]:
    """The part in thousandths of its best visible file, times the weight."""
    shown = {path: own for path, own in part.items() if path in visible}
    best = max(shown.values(), default=0)
    return {path: weight * own // best for path, own in shown.items()} if best else {}


def _rarity(total: int, holding: int) -> int:
    """How much a word tells that `holding` of `total` have: a fourth root for the usual log."""
    return isqrt(isqrt((total + holding) * _UNIT**4 // holding)) - _UNIT


@lru_cache(maxsize=4096)
def _path_words(path: str) -> tuple[str, ...]:
    return tuple(words(path, 40))
