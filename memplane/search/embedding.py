"""Embed the documents of a plane (`memplane embed`), and prepare searches by vectors alone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from memplane.errors import HomeError, InputError, LockError, WriteError
from memplane.index import dense
from memplane.intake.redact import quoted_value
from memplane.search.dense import Dense, QueryVectors
from memplane.search.service import index_service

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.policy import Policies
    from memplane.search.index_position import Progress

__all__ = ["embed", "near_to", "ready"]


_STATIC: Final = "static"  # the embedder that needs no extra


def ready(context: PlaneContext, progress: Progress | None) -> None:
    """Make the vectors that a search by similarity alone lacks, in a plane without an embedder.

    Those of the static table, which is quick; an embedder's wait for `embed`. Where another process
    does it or the disk refuses, what is there is searched, and so in a plane that is only read.
    """
    with context.lock:
        policies = context.watched.policies()
        found = _alone(context, policies)
    if found is index_service(context).static and context.keeps:
        with contextlib.suppress(LockError, WriteError):
            found.embed(policies, None, progress)


def near_to(context: PlaneContext, policies: Policies, upto: int) -> QueryVectors:
    """The vectors for a search by similarity alone, of events up to `upto`. Hold the lock."""
    return _alone(context, policies).near(index_service(context).index(policies), upto)


def _alone(context: PlaneContext, policies: Policies) -> Dense:
    """The vectors of the plane's embedder, or else of the static table."""
    found = index_service(context).dense(policies)
    if found is None:
        finder = index_service(context)
        if finder.static is None:
            finder.static = Dense(
                context, context.make_embedder(_STATIC), finder.index, dense.STATIC
            )
        found = finder.static
    return found


def embed(context: PlaneContext, limit: int | None, progress: Progress | None) -> int:
    """Give documents their vectors in log order, at most `limit`; return how many got one.

    What is done stays done, however it ends, and the next call goes on from there; whoever stores
    vectors of another embedder, or of a log that went another way, begins again. Raises InputError
    where no embedder is named, MissingExtraError where it is not installed, HomeError for a plane
    that is only read, LockError while another process embeds.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InputError(f"expected 1 or more, found {quoted_value(limit)}", where="limit")
    if not context.keeps:
        raise HomeError(f"{context.home.path}: is read-only; nothing was embedded")
    with context.lock:
        policies = context.watched.policies()
        found = index_service(context).dense(policies)
    if found is None:
        raise InputError(
            "expected the name of an embedder, as all-MiniLM-L6-v2, found none",
            where="policies/plane.yaml: index.embedder",
        )
    return found.embed(policies, limit, progress)
