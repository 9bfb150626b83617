"""Two versions of the policies take turns at packing the same requests, in the order of the log.

The log is folded once, forward; where both count and index alike, all that is folded, read and
found serves both.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from memplane.errors import MemplaneError, PolicyError
from memplane.explain.replay import asked_of
from memplane.explain.versions import Version
from memplane.pack.block import Block
from memplane.plane.reports import Saved

if TYPE_CHECKING:
    from memplane.explain.sharing import SharedFinder
    from memplane.plane import Plane
    from memplane.policy import Policies

__all__ = ["Blocks", "blocks_of", "in_order", "seq_of"]

Blocks: TypeAlias = tuple[Block | None, Block | None]


def in_order(asked: Sequence[Saved]) -> list[Saved]:
    """The requests in the order of the log."""
    return sorted(asked, key=lambda one: (seq_of(one), one.id))


def seq_of(asked: Saved) -> int:
    """The last event that the request could see."""
    seq: int = asked.report["log"]["seq"]
    return seq


def blocks_of(
    plane: Plane, asked: Sequence[Saved], old: Version, new: Version
) -> Generator[tuple[Saved, Blocks, str]]:
    """Yield each report with its block under both versions, and why there is none, in log order.

    The blocks are those that `Plane.under` packs at the report's place in the log.
    """
    order = in_order(asked)
    head = plane.head().seq
    there = [one for one in order if seq_of(one) <= head]
    with ExitStack() as stack:
        desk = _Desk(plane, (old, new), seq_of(there[0]) if there else 0, stack)
        for one in there:
            yield one, *desk.packs(one)
    for one in order[len(there) :]:
        yield one, (None, None), f"made at event {seq_of(one)}; this log ends at {head}"


class _Desk:
    """Two versions over one plane of a prefix, taking turns; over two where they share nothing."""

    def __init__(
        self, plane: Plane, versions: tuple[Version, Version], seq: int, stack: ExitStack
    ) -> None:
        first = stack.enter_context(plane.under(versions[0].files, seq))
        other = stack.enter_context(plane.under(versions[1].files, seq))
        policies = [_policies(one, at) for one, at in zip((first, other), versions, strict=True)]
        shares = _folds_by(policies[0]) == _folds_by(policies[1])
        self._sides = [_Side(first), _Side(other, first if shares else other)]
        self._planes = [first] if shares else [first, other]
        self._finders: list[SharedFinder] = [_shared(one) for one in self._planes]

    def packs(self, asked: Saved) -> tuple[Blocks, str]:
        """The blocks of a report's request; and why one is not there."""
        for plane, finder in zip(self._planes, self._finders, strict=True):
            plane.advance(seq_of(asked))
            finder.renew()
        found: list[Block | None] = []
        why = ""
        for side in self._sides:
            try:
                block = side.pack(asked)
            except MemplaneError as error:
                found.append(None)
                why = why or str(error)
                continue
            said = asked.report["log"]
            if block.report["log"]["h"] != said["h"]:
                return (None, None), f"another log: event {said['seq']} has another hash there"
            found.append(block)
        return (found[0], found[1]), why


class _Side:
    """One version at the desk: its files and rules, put before the plane that packs."""

    def __init__(self, own: Plane, at: Plane | None = None) -> None:
        engine = own._engine  # noqa: SLF001 - what stands for policies is the engine's
        self._watched, self._intake = engine.watched, engine._intake  # noqa: SLF001 - likewise
        self._plane = at or own

    def pack(self, asked: Saved) -> Block:
        engine = self._plane._engine  # noqa: SLF001 - likewise
        engine.watched, engine._intake = self._watched, self._intake  # noqa: SLF001 - likewise
        try:
            return self._plane.pack(**asked_of(asked))
        finally:
            self._intake = engine._intake  # noqa: SLF001 - likewise


def _policies(plane: Plane, version: Version) -> Policies:
    try:
        return plane.policies
    except PolicyError as error:
        placed = (one._replace(file=f"{version}: {one.file}") for one in error.problems)
        raise PolicyError(tuple(placed)) from None


def _folds_by(policies: Policies) -> tuple[object, ...]:
    """What of the policies decides how the log is folded, indexed and embedded."""
    budgets, plane = policies.budgets, policies.plane
    return budgets.counter, budgets.scale_ppm, plane.tool_result_tokens, plane.embedder


def _shared(plane: Plane) -> SharedFinder:
    from memplane.explain.sharing import SharedFinder  # noqa: PLC0415 - it brings numpy along

    engine = plane._engine  # noqa: SLF001 - the finder is the engine's
    engine.finder = finder = SharedFinder(engine)
    return finder
