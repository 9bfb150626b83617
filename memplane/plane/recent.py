"""The files view: what was worked on, and what a session is about to need."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from memplane.errors import InputError
from memplane.intake.redact import shown
from memplane.pack.layout import budget_of
from memplane.pack.tools import naming_texts
from memplane.pack.window import prompt_of
from memplane.plane.asking import request_of
from memplane.plane.prefixes import seq_by
from memplane.recall.files import guess
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.pack.request import Request
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.policy import Policies
    from memplane.projections.files import FilesState
    from memplane.projections.hotset import HotsetState

__all__ = ["LIMIT_MAX", "FileView", "files_for", "list_files"]

LIMIT_MAX = 1000
_LEAST = 8  # tokens of a heading and the shortest line that names a file
# A session's own files stand before guessed ones, whose terms add up to less than this.
_OWN = 10_000


class FileView(NamedTuple):
    """A file, the event that touched it last as far as the channel may see, and why it is listed.

    `score` falls along a list. `why`: `session` (touched by it), `recent`, `branch`, `prompt` (the
    query is like prompts that led to the file), `path` (its words), `named` (by the query, a
    decision or an error); the strongest first.
    """

    path: str
    branch: str
    seq: int
    id: str
    touches: int
    score: int
    why: tuple[str, ...]


def files_for(
    engine: Engine, folds: Folds, request: Request, hotset: HotsetState, policies: Policies
) -> FilesState | None:
    """The files view where a pack needs it: for a session that has touched no file yet."""
    section = policies.budgets.section("tool_state")
    if (
        request.session is None
        or request.session in hotset.files
        or section is None
        or min(section.max_tokens, budget_of(request.budget, policies.budgets)) < _LEAST
        or (request.sections and "tool_state" not in request.sections)
    ):
        return None
    return engine.files(folds, request, policies)


def list_files(
    engine: Engine, query: str, *, session: str | None, branch: str | None, limit: int,
    asked: dict[str, Any],
) -> list[FileView]:  # fmt: skip
    """The session's own files, the warmest first, then those that it may need."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise InputError(f"expected 1 to {LIMIT_MAX}, found {shown(limit)}", where="limit")
    if branch is not None and not isinstance(branch, str):
        raise InputError(f"expected a text, found {shown(branch)}", where="branch")
    with engine.lock:
        policies = engine.watched.policies()
        folds = engine.caught_up(policies)
        request = request_of(
            query, {**asked, "session": session}, policies, head=folds.log.head().seq,
            clock=engine.clock, seq_by=partial(seq_by, engine.log),
            redactor=engine.intake(policies).redactor,
        )  # fmt: skip
        engine.reader_of(request)
        seen = engine.seen(folds, request, policies)
        hotset, decisions = seen.hotset, seen.decisions
        state = engine.files(folds, request, policies)
        scope = Scope.of(
            policies, request.channel, now=request.now, as_of=request.as_of, ns=request.ns,
            agent=request.agent,
        )  # fmt: skip
        wanted = request.query
        if not wanted and session is not None:
            prompt = prompt_of(hotset.sessions.get(session), hotset, scope)
            wanted = prompt.text if prompt is not None else ""
        own = _own(state, hotset, session, scope)
        guesses = guess(
            state, scope, query=wanted, named=naming_texts(hotset, decisions, scope),
            branch=state.branch_of(session, scope.hides) if branch is None else branch,
            limit=LIMIT_MAX,
        )  # fmt: skip
        redact = engine.redact(policies)
    listed = {one.path for one in own}
    found = own + [
        FileView(
            one.path, one.touch.episode.branch, one.touch.seq, one.touch.id,
            _touches(state, one.path, scope), one.score, one.why,
        )
        for one in guesses
        if one.path not in listed
    ]  # fmt: skip
    return [one._replace(path=redact(one.path), branch=redact(one.branch)) for one in found[:limit]]


def _own(
    state: FilesState, hotset: HotsetState, session: str | None, scope: Scope
) -> list[FileView]:
    table = hotset.files.get(session) if session is not None else None
    if table is None:
        return []
    return [
        FileView(
            path, touch.branch, touch.seq, hotset.items[touch.seq].id,
            _touches(state, path, scope), _OWN + table.heat(touch), ("session",),
        )
        for path, touch in table.warmest()
        if not scope.hides(hotset.items[touch.seq])
    ]  # fmt: skip


def _touches(state: FilesState, path: str, scope: Scope) -> int:
    """Touches in the namespaces and at the sensitivities that may be seen; 1 at least."""
    touches = state.last.get(path, ())
    return sum(touch.touches for touch in touches if not scope.hides(touch)) or 1
