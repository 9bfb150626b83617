"""Vectors of documents: made when they are asked for, and what a search by them alone uses."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from memplane.errors import HomeError, InputError, LockError, WriteError
from memplane.index import dense
from memplane.intake.redact import shown
from memplane.plane.dense import Dense, Near
from memplane.plane.finding import finder_of

if TYPE_CHECKING:
    from memplane.plane.engine import Engine
    from memplane.plane.index_position import Progress
    from memplane.policy import Policies

__all__ = ["embed", "near_to", "ready"]

_STATIC: Final = "static"  # the embedder that needs no extra


def ready(engine: Engine, progress: Progress | None) -> None:
    """Make the vectors that a search by similarity alone lacks, in a plane without an embedder.

    Those of the static table, which is quick; an embedder's wait for `embed`. Where another process
    does it or the disk refuses, what is there is searched, and so in a plane that is only read.
    """
    with engine.lock:
        policies = engine.watched.policies()
        found = _alone(engine, policies)
    if found is finder_of(engine).static and engine.keeps:
        with contextlib.suppress(LockError, WriteError):
            found.embed(policies, None, progress)


def near_to(engine: Engine, policies: Policies, upto: int) -> Near:
    """The vectors for a search by similarity alone, of events up to `upto`. Hold the lock."""
    return _alone(engine, policies).near(finder_of(engine).index(policies), upto)


def _alone(engine: Engine, policies: Policies) -> Dense:
    """The vectors of the plane's embedder, or else of the static table."""
    found = finder_of(engine).dense(policies)
    if found is None:
        finder = finder_of(engine)
        if finder.static is None:
            finder.static = Dense(engine, engine.make_embedder(_STATIC), finder.index, dense.STATIC)
        found = finder.static
    return found


def embed(engine: Engine, limit: int | None, progress: Progress | None) -> int:
    """Give documents their vectors in log order, at most `limit`; return how many got one.

    What is done stays done, however it ends, and the next call goes on from there; whoever stores
    vectors of another embedder, or of a log that went another way, begins again. Raises InputError
    where no embedder is named, MissingExtraError where it is not installed, HomeError for a plane
    that is only read, LockError while another process embeds.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InputError(f"expected 1 or more, found {shown(limit)}", where="limit")
    if not engine.keeps:
        raise HomeError(f"{engine.home.path}: is read-only; nothing was embedded")
    with engine.lock:
        policies = engine.watched.policies()
        found = finder_of(engine).dense(policies)
    if found is None:
        raise InputError(
            "expected the name of an embedder, as all-MiniLM-L6-v2, found none",
            where="policies/plane.yaml: index.embedder",
        )
    return found.embed(policies, limit, progress)
