"""Google's Agent Development Kit over a plane (extra `adk`): session and memory service, context.

    from memplane.adapters.adk import PlaneMemoryService, PlaneSessionService, context_callback

    sessions = PlaneSessionService(plane)
    agent = LlmAgent(..., before_model_callback=context_callback(plane, budget=2000))
    runner = Runner(app_name="app", agent=agent, session_service=sessions,
                    memory_service=PlaneMemoryService(plane))

Events of a session are turns in a namespace of the app and user, `/agent/adk.…`: what one user says
no other one's blocks or searches show. `user_agent(app, user)` names the agent that reads it. Each
key of a state is a key of its own in `/agent/adk`, so two that write different keys at once
overwrite nothing; it is in no block or search. Events of a session with a name that was deleted are
not those of a later session of that name.

Source: `google.adk.sessions.BaseSessionService`, `google.adk.memory.BaseMemoryService`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.blobs import Blob, BlobRows, session_of, short_name
from memplane.adapters.placing import ContextPacks, kept_from
from memplane.adapters.turns import RecentTurns, Said, SessionTurns, call_said, said_at, texts_in
from memplane.errors import MissingExtraError, NotFoundError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneMemoryService: Any
    PlaneSessionService: Any

PROGRAM: Final = "adk"
MEMORY: Final = "adk-memory"
_OWNER: Final = "state"
_SCOPES: Final = ("app:", "user:")
_TEMP: Final = "temp:"
_UNKNOWN: Final = "unknown"
_HITS: Final = 10
_PACKS: Final = 64  # sessions whose last block a callback keeps


def user_agent(app_name: str, user_id: str) -> str:
    """The agent whose namespace has what a user of an app said."""
    return f"adk.{short_name(app_name, user_id)}"


class _Sessions:
    """Sessions of any number of apps and users. Processes may share the plane.

    Secrets are masked in texts of events, not in states. Raises what `Plane.record` raises, beside
    the framework's AlreadyExistsError and SessionNotFoundError.
    """

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self._blobs = BlobRows(
            plane, ns=f"/agent/{PROGRAM}", kind=f"custom:{PROGRAM}", source=PROGRAM
        )
        self._recent = RecentTurns()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Any:
        """A new session; AlreadyExistsError where the name is taken."""
        named = (session_id or "").strip() or uuid.uuid4().hex
        return await asyncio.to_thread(self._create, app_name, user_id, named, state or {})

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Any = None
    ) -> Any:
        """A session with its state and events, as many as the config asks for; None for none."""
        return await asyncio.to_thread(self._get, app_name, user_id, session_id.strip(), config)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> Any:
        """The sessions without their events, the one that was changed first in front."""
        return await asyncio.to_thread(self._list, app_name, user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Forget a session with its events and state; nothing where there is none."""
        await asyncio.to_thread(self._delete, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user in all sessions, without prefixes."""
        return await asyncio.to_thread(self._state, _user(app_name, user_id))

    async def append_event(self, session: Any, event: Any) -> Any:
        """Store an event with the changes of state that it has, in one write.

        What is partial is not stored; an equal event that is there already is not stored again.
        """
        if event.partial:
            return event
        head = await asyncio.to_thread(self.head_of, session.app_name, session.user_id, session.id)
        if head is None:
            raise _adk("errors.session_not_found_error").SessionNotFoundError(
                f"Session {session.id} not found."
            )
        turns = self.turns_of(session.app_name, session.user_id, session.id, head)
        name = _digest(event.model_dump(mode="json", exclude_none=True))
        if await asyncio.to_thread(turns.turn, turns.id(name)) is not None:
            return event
        await super().append_event(session=session, event=event)  # type: ignore[misc]
        session.last_update_time = event.timestamp
        await asyncio.to_thread(self._append, session, head, turns, name, event)
        return event

    def _append(self, session: Any, head: Blob, turns: SessionTurns, name: str, event: Any) -> None:
        app, user, id_ = session.app_name, session.user_id, session.id
        told = {**head.head, "updated": event.timestamp}
        rows = self._blobs.rows(_session(app, user, id_), told, owner=head.head["owner"])
        delta = event.actions.state_delta if event.actions else None
        rows += self._state_rows(app, user, head.head["owner"], delta or {})
        rows += turns.rows(event_said(event.model_dump(mode="json", exclude_none=True)), name)
        self._blobs.keep(rows)

    def _create(self, app: str, user: str, id_: str, state: Mapping[str, Any]) -> Any:
        if self.head_of(app, user, id_) is not None:
            raise _adk("errors.already_exists_error").AlreadyExistsError(
                f"Session with id {id_} already exists."
            )
        owner = uuid.uuid4().hex
        head = {"app": app, "user": user, "id": id_, "owner": owner, "updated": time.time()}
        rows = self._blobs.rows(_session(app, user, id_), head, owner=owner)
        self._blobs.keep(rows + self._state_rows(app, user, owner, state))
        return self._get(app, user, id_, None)

    def _get(self, app: str, user: str, id_: str, config: Any) -> Any:
        head = self.head_of(app, user, id_)
        if head is None:
            return None
        most = None if config is None else config.num_recent_events
        since = None if config is None else config.after_timestamp
        turns = self.turns_of(app, user, id_, head).turns(most)
        kind = _adk("events.event").Event
        events = [kind.model_validate(turn.value) for turn in turns]
        if since is not None:
            late = [at for at, one in enumerate(events) if one.timestamp < since]
            events = events[late[-1] + 1 :] if late else events
        return self._session(head, events)

    def _session(self, head: Blob, events: list[Any]) -> Any:
        told = head.head
        app, user = told["app"], told["user"]
        state = self._state(_own(told["owner"]))
        for prefix, place in zip(_SCOPES, (_app(app), _user(app, user)), strict=True):
            state |= {f"{prefix}{key}": value for key, value in self._state(place).items()}
        return _adk("sessions.session").Session(
            app_name=app,
            user_id=user,
            id=told["id"],
            state=state,
            events=events,
            last_update_time=told["updated"],
        )

    def _list(self, app: str, user: str | None) -> Any:
        place = f"s/{short_name(app)}/"
        if user is not None:
            place += f"{short_name(user)}/"
        heads = [self._blobs.get(key) for key in self._blobs.keys(place)]
        found = [self._session(head, []) for head in heads if head is not None]
        found.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return _adk("sessions.base_session_service").ListSessionsResponse(sessions=found)

    def _delete(self, app: str, user: str, id_: str) -> None:
        head = self.head_of(app, user, id_)
        if head is not None:
            self.turns_of(app, user, id_, head).clear()

    def head_of(self, app: str, user: str, id_: str) -> Blob | None:
        return self._blobs.get(_session(app, user, id_))

    def turns_of(self, app: str, user: str, id_: str, head: Blob) -> SessionTurns:
        owner = head.head["owner"]
        return self._recent.of(
            owner,
            lambda: SessionTurns(
                self.plane,
                session=session_name(app, user, id_),
                program=PROGRAM,
                owner=owner,
                ns=f"/agent/{user_agent(app, user)}",
            ),
        )

    def _state(self, place: str) -> dict[str, Any]:
        blobs = [self._blobs.get(key) for key in self._blobs.keys(place)]
        return {blob.head["key"]: blob.head["value"] for blob in blobs if blob is not None}

    def _state_rows(
        self, app: str, user: str, owner: str, delta: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        places = {_SCOPES[0]: (_app(app), _OWNER), _SCOPES[1]: (_user(app, user), _OWNER)}
        for key, value in delta.items():
            prefix = next((one for one in (*_SCOPES, _TEMP) if key.startswith(one)), "")
            if prefix == _TEMP:
                continue
            place, whose = places.get(prefix, (_own(owner), owner))
            told = {"key": key.removeprefix(prefix), "value": value}
            rows += self._blobs.rows(
                f"{place}{short_name(told['key'], size=32)}", told, owner=whose
            )
        return rows


class _Memories:
    """What users of apps said, found by its words: at most ten events, the best first.

    Its events are other ones than those of a session service over the same plane.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add_session_to_memory(self, session: Any) -> None:
        """Add the events of a session that were not added before; nothing is taken away."""
        given = (session.app_name, session.user_id, session.id, list(session.events))
        await asyncio.to_thread(self._add, *given)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add events; one that was added or deleted before is not added again."""
        del custom_metadata
        given = (app_name, user_id, session_id or _UNKNOWN, list(events))
        await asyncio.to_thread(self._add, *given)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        """The events that answer a query, the best first."""
        return await asyncio.to_thread(self._search, app_name, user_id, query)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget an event by its id; it is not added again. Nothing where there is none."""
        if memory_id:
            await asyncio.to_thread(self._delete, app_name, user_id, memory_id)

    def _turns(self, app: str, user: str, id_: str) -> SessionTurns:
        name = session_name(app, user, id_)
        ns = f"/agent/{user_agent(app, user)}.memory"
        owner = short_name(app, user)
        return SessionTurns(self._plane, session=name, program=MEMORY, owner=owner, ns=ns)

    def _add(self, app: str, user: str, id_: str, events: Iterable[Any]) -> None:
        turns, rows = self._turns(app, user, id_), list[dict[str, Any]]()
        for event in events:
            if event.content and event.content.parts:
                told = event.model_dump(mode="json", exclude_none=True)
                rows += turns.rows(event_said(told), event.id)
        if rows:
            self._plane.record_many(rows, batch=len(rows), strict=False)

    def _search(self, app: str, user: str, query: str) -> Any:
        turns = self._turns(app, user, _UNKNOWN)
        entry = _adk("memory.memory_entry").MemoryEntry
        agent = f"{user_agent(app, user)}.memory"
        found = []
        for hit in self._plane.search(query, _HITS, ns=f"/agent/{agent}", agent=agent):
            turn = turns.turn(hit.event.seq)
            if turn is not None:
                event = _adk("events.event").Event.model_validate(turn.value)
                at = datetime.fromtimestamp(event.timestamp).isoformat()  # noqa: DTZ006 - as theirs
                said = {"id": event.id, "author": event.author, "timestamp": at}
                found.append(entry(content=event.content, **said))
        return _adk("memory.base_memory_service").SearchMemoryResponse(memories=found)

    def _delete(self, app: str, user: str, id_: str) -> None:
        turns = self._turns(app, user, _UNKNOWN)
        with suppress(NotFoundError):
            turns.forget(turns.id(id_))


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


def session_name(app_name: str, user_id: str, session_id: str) -> str:
    """The plane's session of a session of a user of an app."""
    return f"{app_name}/{user_id}/{session_id}"


def context_callback(
    plane: Plane,
    *,
    budget: int = 2000,
    channel: str = "agent",
    turns: int = 20,
    watch: Callable[[Any], None] | None = None,
    **asked: Any,
) -> Callable[..., Any]:
    """What `LlmAgent(before_model_callback=...)` takes: context before each call, as in `placing`.

    Of the session's earlier prompts at most `turns` are sent as they are; a block of at most
    `budget` tokens stands before the newest one. Needs `PlaneSessionService` over the same plane.
    """
    packs: dict[str, ContextPacks] = {}
    sessions = _Sessions(plane)

    async def before_model(callback_context: Any, llm_request: Any) -> None:
        session = callback_context.session
        app, user = session.app_name, session.user_id
        contents = list(llm_request.contents)
        prompts = [at for at, one in enumerate(contents) if _prompt(one) is not None]
        if not prompts:
            return
        name = session_of(session_name(app, user, session.id))
        if name not in packs:
            while len(packs) >= _PACKS:
                packs.pop(next(iter(packs)))
            own = {"agent": user_agent(app, user), **asked}
            packs[name] = ContextPacks(plane, name, budget=budget, channel=channel, asked=own)
        first, newest = kept_from(len(prompts), turns), prompts[-1]
        named = app, user, session.id
        held, prompt = await asyncio.to_thread(_held, sessions, named, len(prompts) - first)
        text = _prompt(contents[newest]) or ""
        block = await asyncio.to_thread(packs[name].block, text, held, prompt)
        if watch is not None:
            watch(block)
        if block.text:
            types = import_module("google.genai.types")
            part = types.Part(text=block.text)
            contents.insert(newest, types.Content(role="user", parts=[part]))
        llm_request.contents = contents[prompts[first] :]

    return before_model


def _held(sessions: _Sessions, named: tuple[str, str, str], back: int) -> tuple[int, str | None]:
    """The seq before the `back`th prompt from the end, and the id of the last prompt."""
    head = sessions.head_of(*named)
    turns = [] if head is None else sessions.turns_of(*named, head).turns()
    found = [turn for turn in turns if turn.role == "user"]
    if len(found) < back:
        return sessions.plane.head().seq, None
    return found[-back].seq - 1, found[-1].id


def _prompt(content: Any) -> str | None:
    if content.role != "user":
        return None
    texts = [part.text for part in content.parts or () if part.text]
    return "\n".join(texts) if texts else None


def _digest(value: Any) -> str:
    told = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(told).hexdigest()[:32]


def _session(app: str, user: str, id_: str) -> str:
    return f"s/{short_name(app)}/{short_name(user)}/{short_name(id_)}"


def _app(app: str) -> str:
    return f"a/{short_name(app)}/"


def _user(app: str, user: str) -> str:
    return f"u/{short_name(app, user)}/"


def _own(owner: str) -> str:
    return f"o/{owner}/"


def _adk(module: str) -> Any:
    try:
        return import_module(f"google.adk.{module}")
    except ImportError as error:
        raise MissingExtraError("Google ADK", "adk") from error


@cache
def _made(name: str) -> Any:
    own: type
    if name == "PlaneSessionService":
        own, base = _Sessions, _adk("sessions.base_session_service").BaseSessionService
    else:
        own, base = _Memories, _adk("memory.base_memory_service").BaseMemoryService
    return type(name, (own, base), {"__doc__": own.__doc__, "__module__": __name__})


def __getattr__(name: str) -> Any:
    """The classes, made when they are first asked for; MissingExtraError without the extra."""
    if name in ("PlaneMemoryService", "PlaneSessionService"):
        return _made(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
