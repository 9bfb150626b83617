"""Google's Agent Development Kit over a plane (extra `adk`): session and memory service, context.

    sessions = PlaneSessionService(plane)
    agent = LlmAgent(..., before_model_callback=context_callback(plane, budget=2000))
    runner = Runner(app_name="app", agent=agent, session_service=sessions,
                    memory_service=PlaneMemoryService(plane))

Events of a session are turns in a namespace of the app and user, `/agent/adk.…`: what one user says
no other one's blocks or searches show. Each key of a state is a key of its own in `/agent/adk`, so
two that write different keys at once overwrite nothing. Events of a session with a name that was
deleted are not those of a later session of that name. Source:
`google.adk.sessions.BaseSessionService`, `google.adk.memory.BaseMemoryService`.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.turns import (
    BUDGET,
    Blob,
    BlobRows,
    ContextPacks,
    KeptTurn,
    Over,
    RecentSessions,
    Said,
    SessionTurns,
    call_said,
    classes,
    framework,
    in_thread,
    said_at,
    session_of,
    short_name,
    texts_in,
)
from memplane.errors import NotFoundError
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneMemoryService: Any
    PlaneSessionService: Any

PROGRAM: Final = "adk"
MEMORY: Final = "adk-memory"
_OWNER: Final = "state"
_SCOPES: Final = ("app:", "user:")
_TEMP: Final = "temp:"
_HITS: Final = 10
_adk = framework("google.adk.", "Google ADK", "adk")


def user_agent(app_name: str, user_id: str) -> str:
    """The agent whose namespace has what a user of an app said."""
    return f"adk.{short_name(app_name, user_id)}"


class _Named(NamedTuple):
    """What names a session, and the keys of what is kept for it."""

    app: str
    user: str
    id: str = "unknown"

    @classmethod
    def of(cls, session: Any) -> _Named:
        return cls(session.app_name, session.user_id, session.id)

    @property
    def session(self) -> str:
        return "/".join(self)

    @property
    def head(self) -> str:
        return f"s/{short_name(self.app)}/{short_name(self.user)}/{short_name(self.id)}"

    def states(self, owner: str) -> Mapping[str, tuple[str, str]]:
        """Of each prefix of a state's keys: what the plane's keys begin with, and their owner."""
        app, user = f"a/{short_name(self.app)}/", f"u/{short_name(self.app, self.user)}/"
        return {"": (f"o/{owner}/", owner), "app:": (app, _OWNER), "user:": (user, _OWNER)}


class _Sessions:
    """Sessions of any number of apps and users. Processes may share the plane.

    Secrets are masked in texts of events, not in states. Raises what `Plane.record` raises, beside
    the framework's AlreadyExistsError and SessionNotFoundError.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane, self._blobs = plane, BlobRows(plane, PROGRAM)
        self._recent = RecentSessions[SessionTurns]()

    @in_thread
    def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Any:
        named = _Named(app_name, user_id, (session_id or "").strip() or uuid.uuid4().hex)
        if self._head(named) is not None:
            raise _adk("errors.already_exists_error").AlreadyExistsError(
                f"Session with id {named.id} already exists."
            )
        owner = uuid.uuid4().hex
        head = {**named._asdict(), "owner": owner, "updated": time.time()}
        rows = self._blobs.rows(named.head, head, owner=owner)
        self._blobs.keep(rows + self._state_rows(named, owner, state or {}))
        return self._session(self._blobs.get(named.head), [])

    @in_thread
    def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Any = None
    ) -> Any:
        named = _Named(app_name, user_id, session_id.strip())
        head = self._head(named)
        if head is None:
            return None
        most = None if config is None else config.num_recent_events
        since = None if config is None else config.after_timestamp
        kind = _adk("events.event").Event
        turns = self._turns(named, head).turns(most)
        events = [kind.model_validate(turn.value) for turn in turns]
        if since is not None:
            late = [at for at, one in enumerate(events) if one.timestamp < since]
            events = events[late[-1] + 1 :] if late else events
        return self._session(head, events)

    @in_thread
    def list_sessions(self, *, app_name: str, user_id: str | None = None) -> Any:
        """The sessions without their events, the one that was changed first in front."""
        user = "" if user_id is None else f"{short_name(user_id)}/"
        heads = map(self._blobs.get, self._blobs.keys(f"s/{short_name(app_name)}/{user}"))
        found = [self._session(head, []) for head in heads if head is not None]
        found.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return _adk("sessions.base_session_service").ListSessionsResponse(sessions=found)

    @in_thread
    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        named = _Named(app_name, user_id, session_id.strip())
        head = self._head(named)
        if head is not None:
            self._turns(named, head).clear()

    @in_thread
    def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return self._state(_Named(app_name, user_id).states("")["user:"][0])

    async def append_event(self, session: Any, event: Any) -> Any:
        """Store an event with the changes of state that it has, in one write.

        What is partial is not stored; an equal event that is there already is not stored again.
        """
        if event.partial:
            return event
        named, name = _Named.of(session), _digest(event)
        head, there = await in_thread(self._known)(named, name)
        if head is None:
            raise _adk("errors.session_not_found_error").SessionNotFoundError(
                f"Session {session.id} not found."
            )
        if not there:
            await super().append_event(session=session, event=event)  # type: ignore[misc]
            session.last_update_time = event.timestamp
            await in_thread(self._append)(named, head, name, event)
        return event

    def _known(self, named: _Named, name: str) -> tuple[Blob | None, bool]:
        """The head of a session, and whether it has an event of that digest."""
        head = self._head(named)
        if head is None:
            return None, False
        turns = self._turns(named, head)
        return head, turns.turn(turns.id(name)) is not None

    def _append(self, named: _Named, head: Blob, name: str, event: Any) -> None:
        told, owner = {**head.head, "updated": event.timestamp}, head.head["owner"]
        rows = self._blobs.rows(named.head, told, owner=owner)
        rows += self._state_rows(named, owner, event.actions.state_delta if event.actions else {})
        self._blobs.keep(rows + self._turns(named, head).rows(event_said(_json(event)), name))

    def _session(self, head: Blob | None, events: list[Any]) -> Any:
        assert head is not None
        named, owner = _Named(*(head.head[one] for one in _Named._fields)), head.head["owner"]
        return _adk("sessions.session").Session(
            app_name=named.app,
            user_id=named.user,
            id=named.id,
            state={
                f"{prefix}{key}": value
                for prefix, (place, _) in named.states(owner).items()
                for key, value in self._state(place).items()
            },
            events=events,
            last_update_time=head.head["updated"],
        )

    def _head(self, named: _Named) -> Blob | None:
        return self._blobs.get(named.head)

    def _turns(self, named: _Named, head: Blob) -> SessionTurns:
        owner, ns = head.head["owner"], f"/agent/{user_agent(named.app, named.user)}"
        given: dict[str, Any] = {"program": PROGRAM, "owner": owner, "ns": ns}
        return self._recent.of(
            owner, lambda: SessionTurns(self._plane, session=named.session, **given)
        )

    def turns(self, named: _Named) -> list[KeptTurn]:
        """The events of a session; none where there is none."""
        head = self._head(named)
        return [] if head is None else self._turns(named, head).turns()

    def _state(self, place: str) -> dict[str, Any]:
        blobs = map(self._blobs.get, self._blobs.keys(place))
        return {blob.head["key"]: blob.head["value"] for blob in blobs if blob is not None}

    def _state_rows(
        self, named: _Named, owner: str, delta: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for key, value in delta.items():
            prefix = next((one for one in (*_SCOPES, _TEMP) if key.startswith(one)), "")
            if prefix != _TEMP:
                place, whose = named.states(owner)[prefix]
                told = {"key": key.removeprefix(prefix), "value": value}
                name = f"{place}{short_name(told['key'], size=32)}"
                rows += self._blobs.rows(name, told, owner=whose)
        return rows


class _Memories:
    """What users of apps said, found by its words: at most ten events, the best first.

    Its events are other ones than those of a session service over the same plane. One that was
    added or deleted before is not added again.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    @in_thread
    def add_session_to_memory(self, session: Any) -> None:
        self._add(_Named.of(session), session.events)

    @in_thread
    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        del custom_metadata
        named = _Named(app_name, user_id)
        self._add(named._replace(id=session_id) if session_id else named, events)

    @in_thread
    def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        turns, found = self._turns(_Named(app_name, user_id)), []
        entry = _adk("memory.memory_entry").MemoryEntry
        agent = f"{user_agent(app_name, user_id)}.memory"
        for hit in self._plane.search(query, _HITS, ns=f"/agent/{agent}", agent=agent):
            turn = turns.turn(hit.event.seq)
            if turn is not None:
                event = _adk("events.event").Event.model_validate(turn.value)
                at = datetime.fromtimestamp(event.timestamp).isoformat()  # noqa: DTZ006 - as theirs
                said = {"id": event.id, "author": event.author, "timestamp": at}
                found.append(entry(content=event.content, **said))
        return _adk("memory.base_memory_service").SearchMemoryResponse(memories=found)

    @in_thread
    def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        turns = self._turns(_Named(app_name, user_id))
        with suppress(NotFoundError):
            turns.forget(turns.id(memory_id or ""))

    def _turns(self, named: _Named) -> SessionTurns:
        ns = f"/agent/{user_agent(named.app, named.user)}.memory"
        owner = short_name(named.app, named.user)
        return SessionTurns(self._plane, session=named.session, program=MEMORY, owner=owner, ns=ns)

    def _add(self, named: _Named, events: Iterable[Any]) -> None:
        said = (one for one in events if one.content and one.content.parts)
        self._turns(named).add_named({one.id: event_said(_json(one)) for one in said})


def event_said(event: dict[str, Any]) -> Said:
    """What an event says, in its JSON form."""
    parts = (event.get("content") or {}).get("parts") or []
    role = "user" if event.get("author") == "user" else "assistant"
    paths = [("content", "parts", *path) for path in texts_in(parts)]
    if not paths:
        for part in parts:
            if call := part.get("function_call"):
                return call_said(event, str(call.get("name")), call.get("args") or {})
            if answer := part.get("function_response"):
                told = json.dumps(answer.get("response"), ensure_ascii=False)
                return Said("tool", event, (), told, "tool_result")
    return said_at(role, event, paths)


def context_callback(plane: Plane, *, budget: int = BUDGET, **asked: Any) -> Callable[..., Any]:
    """What `LlmAgent(before_model_callback=...)` takes: context before each call of a model.

    A block of at most `budget` tokens stands before the newest prompt. `ContextPacks` takes what is
    `asked`: `turns`, `channel`, `watch`, arguments of `plane.pack`. Needs `PlaneSessionService`
    over the same plane.
    """
    packs, sessions = RecentSessions[ContextPacks](), _Sessions(plane)

    async def before_model(callback_context: Any, llm_request: Any) -> None:
        named = _Named.of(callback_context.session)
        given = {"budget": budget, "agent": user_agent(named.app, named.user), **asked}
        made = packs.of(named.head, lambda: ContextPacks(plane, session_of(named.session), **given))
        llm_request.contents = await made.sent(
            llm_request.contents, _prompt, _as_message, lambda: sessions.turns(named)
        )

    return before_model


def _prompt(content: Any) -> str | None:
    """The text of a content that is a user's prompt; None for others."""
    if content.role != "user":
        return None
    texts = [part.text for part in content.parts or () if part.text]
    return "\n".join(texts) if texts else None


def _as_message(block: str) -> Any:
    types = import_module("google.genai.types")
    return types.Content(role="user", parts=[types.Part(text=block)])


def _digest(event: Any) -> str:
    return hashlib.sha256(json.dumps(_json(event), sort_keys=True).encode()).hexdigest()[:32]


def _json(event: Any) -> dict[str, Any]:
    told: dict[str, Any] = event.model_dump(mode="json", exclude_none=True)
    return told


__getattr__ = classes(
    __name__,
    {
        "PlaneMemoryService": Over(
            _Memories, lambda: _adk("memory.base_memory_service").BaseMemoryService
        ),
        "PlaneSessionService": Over(
            _Sessions, lambda: _adk("sessions.base_session_service").BaseSessionService
        ),
    },
)
