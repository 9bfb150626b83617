"""One search for two packs: what a request finds depends on the policies by a few values only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from memplane.plane.finding import Finder, Wanted
from memplane.plane.folds import Folds
from memplane.plane.retrieving import LogRetriever
from memplane.policy import Policies
from memplane.projections.memories import Memories
from memplane.recall.retrieval import Finding
from memplane.recall.suppress import Scope

__all__ = ["SharedFinder"]


class SharedFinder(Finder):
    """A finder whose retriever, and what it found, is given again to who asks the same next.

    That is a request with the same end of the log, vectors, scoring and counter. Call `renew`
    before each request of its own.
    """

    _made: tuple[tuple[object, ...], LogRetriever] | None = None

    def renew(self) -> None:
        """Let go of what was found: the next request is another one."""
        self._made = None

    def retriever(
        self, policies: Policies, folds: Folds, memories: Memories, wanted: Wanted
    ) -> LogRetriever:
        """See `Finder.retriever`."""
        key = (
            folds, folds.log.head(), folds.variant, wanted[:2], policies.scoring,
            policies.plane.embedder, policies.plane.tool_result_tokens,
        )  # fmt: skip
        if self._made is None or self._made[0] != key:
            made = super().retriever(policies, folds, memories, wanted)
            # Behind the index nothing is shared: such requests are few.
            self._made = key, _Retriever(made) if type(made) is LogRetriever else made
        return self._made[1]


class _Retriever(LogRetriever):
    """A retriever that finds the same once."""

    def __init__(self, made: LogRetriever) -> None:
        vars(self).update(vars(made))
        self._findings: dict[tuple[object, ...], Finding] = {}

    def find(
        self, query: str, *, upto: int, scope: Scope, never: Collection[int] = (), most: int,
        only: Sequence[Sequence[str]] = (), bytes_max: int | None = None,
    ) -> Finding:  # fmt: skip
        seen = (
            query,
            upto,
            frozenset(never),
            most,
            tuple(map(tuple, only)),
            bytes_max,
            *_sees(scope),
        )
        known = self._findings.get(seen)
        if known is None:
            known = self._findings[seen] = super().find(
                query,
                upto=upto,
                scope=scope,
                never=never,
                most=most,
                only=only,
                bytes_max=bytes_max,
            )
        return known


def _sees(scope: Scope) -> tuple[Any, ...]:
    """All that decides what a scope shows, but for the approvals, which the log decides."""
    return (
        scope.levels, scope.kinds, scope.now, scope.as_of, scope.ns, scope.task, scope.agent,
        scope.shared, scope.owner, scope.specs, scope.since, scope.until, scope.exclude,
        scope.held,
    )  # fmt: skip
