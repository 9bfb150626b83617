"""Pydantic AI over a plane (extra `pydantic-ai`): `PlaneConversationStore`, and context for a run.

    store = PlaneConversationStore(plane)
    agent = Agent(model, capabilities=[ProcessHistory(context_processor(plane, "c1"))])
    conversation = await store.load("c1") or Conversation(conversation_id="c1")
    await store.save(await agent.run("Where do herons nest?", conversation=conversation))

A conversation is a session, a message a turn of it. What points at its newest message lies under a
key in `/agent/pydantic-ai`, one version behind the other. Source:
`pydantic_ai.conversation_store`, its five primitives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
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
    short_name,
)
from memplane.errors import NotFoundError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneConversationStore: Any

PROGRAM: Final = "pydantic-ai"
_OWNER: Final = "records"
_USERS: Final = ("user-prompt",)
_TOOLS: Final = ("tool-return", "retry-prompt")
_module = framework("pydantic_ai.", "Pydantic AI", "pydantic-ai")


class _Store:
    """Conversations of any number of scopes; `ns` is where their turns lie.

    Secrets in messages are masked. Raises what `Plane.record` raises beside the framework's
    `ConversationConflict`.
    """

    def __init__(self, plane: Plane, *, ns: str | None = None) -> None:
        self._plane, self._ns = plane, ns
        self._recent, self._heads = RecentSessions[SessionTurns](), BlobRows(plane, PROGRAM)

    @in_thread
    def read_record(self, conversation_id: str) -> Any:
        return _record_of(self._head(conversation_id))

    @in_thread
    def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Any:
        found = [one for one in self._records() if scope is None or one.scope == scope]
        return sorted(found, key=lambda one: one.updated_at, reverse=True)[:limit]

    @in_thread
    def read_entry(self, entry_id: str) -> Any:
        return _entry_of(self._turn(entry_id))

    @in_thread
    def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[Any]:
        return [*self._chain(head_id, limit)][::-1]

    @in_thread
    def write_record(
        self, record: Any, *, new_entries: Sequence[Any] = (), expected_revision: str | None
    ) -> None:
        name = record.conversation_id
        before = self._checked(name, expected_revision)
        if record.head_id is not None and all(one.id != record.head_id for one in new_entries):
            try:
                self._turn(record.head_id)
            except LookupError:
                raise _conflict(name) from None
        turns, rows = self._turns(name), list[dict[str, Any]]()
        for entry in new_entries:
            said = entry_said(_adapter("ConversationEntry").dump_python(entry, mode="json"))
            rows += turns.rows(said, entry.id)
        told = _adapter("ConversationRecord").dump_python(record, mode="json")
        self._keep(name, before, told, rows)

    @in_thread
    def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        before = self._checked(conversation_id, expected_revision)
        self._keep(conversation_id, before, {}, [])
        left = {one.id for each in self._records() for one in self._reached(each)}
        turns = self._turns(conversation_id)
        for entry in dict.fromkeys(one.id for one in self._reached(_record_of(before))):
            if entry not in left:
                with suppress(NotFoundError):
                    turns.forget(turns.id(entry))

    def _turns(self, conversation: str) -> SessionTurns:
        return self._recent.of(conversation, lambda: _turns(self._plane, conversation, self._ns))

    def _turn(self, entry_id: str) -> KeptTurn:
        turns = self._turns("")
        turn = turns.turn(turns.id(entry_id))
        if turn is None:
            raise LookupError(entry_id)
        return turn

    def _chain(self, head_id: str | None, limit: int | None = None) -> Iterator[Any]:
        """The entries from a head back to the first one; those of its session are read at once."""
        known: dict[str, KeptTurn] = {}
        while head_id is not None and (limit is None or limit > 0):
            turn = known.get(head_id) or self._turn(head_id)
            if limit is None and head_id not in known and turn.session is not None:
                known |= {one.value["id"]: one for one in self._turns(turn.session).turns()}
            entry = _entry_of(turn)
            yield entry
            head_id, limit = entry.parent_id, None if limit is None else limit - 1

    def _head(self, conversation_id: str) -> Blob | None:
        return self._heads.get(f"c/{short_name(conversation_id)}")

    def _records(self) -> Iterator[Any]:
        records = map(_record_of, map(self._heads.get, self._heads.keys("c/")))
        return (one for one in records if one is not None)

    def _reached(self, record: Any) -> Iterator[Any]:
        for tip in [record.head_id, *record.branches]:
            yield from self._chain(tip)

    def _checked(self, name: str, expected: str | None) -> Blob | None:
        before = self._head(name)
        record = _record_of(before)
        if (None if record is None else record.revision) != expected:
            raise _conflict(name)
        return before

    def _keep(self, name: str, before: Blob | None, head: dict[str, Any], rows: list[Any]) -> None:
        """Store what stands behind a version, in one write.

        The id of a record names the version before, and the log takes an id once: where another
        record stands behind that version, the new entries are forgotten, and it is a conflict.
        """
        told = short_name(name)
        made = self._heads.rows(f"c/{told}", {"record": head}, owner=_OWNER)
        made[-1]["id"] = f"{PROGRAM}.{_OWNER}:{told}.{0 if before is None else before.seq}"
        done = self._plane.record_many(rows + made, batch=len(rows) + len(made))
        if done.duplicates:
            for row in rows:
                self._plane.forget(id=row["id"], reason="another save came first")
            raise _conflict(name)


def entry_said(entry: dict[str, Any]) -> Said:
    """What an entry, in its JSON form, says: the prompt, the answer, what tools returned."""
    message = entry["message"]
    parts = message["parts"]
    answer = message["kind"] == "response"
    kinds = {part["part_kind"] for part in parts}
    if answer and not kinds & {"text"}:
        calls = [part for part in parts if part["part_kind"] == "tool-call"]
        if len(calls) == 1:
            return call_said(entry, calls[0]["tool_name"], calls[0].get("args") or "")
    tool = not answer and not kinds & {*_USERS} and bool(kinds & {*_TOOLS})
    wanted = ("text",) if answer else _TOOLS if tool else _USERS
    paths = [
        ("message", "parts", at, "content")
        for at, part in enumerate(parts)
        if part["part_kind"] in wanted and isinstance(part.get("content"), str)
    ]
    role = "assistant" if answer else "tool" if tool else "user"
    return said_at(role, entry, paths, kind="tool_result" if tool else "message")


def context_processor(
    plane: Plane, session: str, *, budget: int = BUDGET, **asked: Any
) -> Callable[[list[Any]], Awaitable[list[Any]]]:
    """What `ProcessHistory` takes: context before each call of a model.

    A block of at most `budget` tokens stands before the newest prompt; what is stored stays as it
    is. `ContextPacks` takes what is `asked`: `turns`, `channel`, `watch`, arguments of
    `plane.pack`.
    """
    kept = _turns(plane, session)
    packs = ContextPacks(plane, kept.session, budget=budget, **asked)

    async def processed(messages: list[Any]) -> list[Any]:
        return await packs.sent(messages, _prompt, _as_message, kept.turns, pending=True)

    return processed


def _turns(plane: Plane, conversation: str, ns: str | None = None) -> SessionTurns:
    """The entries that a conversation wrote. Their ids do not name it: others may have them."""
    return SessionTurns(plane, session=conversation, program=PROGRAM, owner="e", ns=ns)


def _prompt(message: Any) -> str | None:
    """The text of a message that is a user's prompt; None for others."""
    found = [part for part in message.parts if getattr(part, "part_kind", "") in _USERS]
    if not found:
        return None
    return "\n".join(part.content for part in found if isinstance(part.content, str))


def _as_message(block: str) -> Any:
    known = _module("messages")
    return known.ModelRequest(parts=[known.UserPromptPart(content=block)])


def _entry_of(turn: KeptTurn) -> Any:
    return _adapter("ConversationEntry").validate_python(turn.value)


def _record_of(blob: Blob | None) -> Any:
    told = None if blob is None else blob.head["record"]
    return _adapter("ConversationRecord").validate_python(told) if told else None


def _conflict(name: str) -> Exception:
    error: Exception = _module("conversation_store").ConversationConflict(name)
    return error


@cache
def _adapter(name: str) -> Any:
    return import_module("pydantic").TypeAdapter(getattr(_module("conversation_store"), name))


__getattr__ = classes(
    __name__,
    {
        "PlaneConversationStore": Over(
            _Store, lambda: _module("conversation_store").ConversationStore
        )
    },
)
