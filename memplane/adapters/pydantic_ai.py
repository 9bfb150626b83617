"""Pydantic AI over a plane (extra `pydantic-ai`): `PlaneConversationStore`, and context for a run.

    from memplane.adapters.pydantic_ai import PlaneConversationStore, context_processor

    store = PlaneConversationStore(plane)
    agent = Agent(model, capabilities=[ProcessHistory(context_processor(plane, "c1"))])
    conversation = await store.load("c1") or Conversation(conversation_id="c1")
    await store.save(await agent.run("Where do herons nest?", conversation=conversation))

A conversation is a session, a message a turn of it. What points at its newest message lies under a
key in `/agent/pydantic-ai`, one version behind the other: of two that save at once, in whatever
processes, one is told of a conflict, and its messages are forgotten. A deletion forgets the
messages that no conversation has any more.

Source: `pydantic_ai.conversation_store`, its five primitives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.blobs import Blob, BlobRows, short_name
from memplane.adapters.placing import ContextPacks, kept_from
from memplane.adapters.turns import KeptTurn, RecentTurns, Said, SessionTurns, call_said, said_at
from memplane.errors import MissingExtraError, NotFoundError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneConversationStore: Any

PROGRAM: Final = "pydantic-ai"
_OWNER: Final = "records"
_USERS: Final = ("user-prompt",)
_TOOLS: Final = ("tool-return", "retry-prompt")


class _Store:
    """Conversations of any number of scopes; `ns` is where their turns lie.

    Secrets in messages are masked. Raises what `Plane.record` raises beside the framework's
    `ConversationConflict`.
    """

    def __init__(self, plane: Plane, *, ns: str | None = None) -> None:
        self._plane, self._ns = plane, ns
        self._recent = RecentTurns()
        self._heads = BlobRows(
            plane, ns=f"/agent/{PROGRAM}", kind=f"custom:{PROGRAM}", source=PROGRAM
        )

    async def read_record(self, conversation_id: str) -> Any:
        return await asyncio.to_thread(self._record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Any:
        return await asyncio.to_thread(self._records, scope, limit)

    async def read_entry(self, entry_id: str) -> Any:
        return await asyncio.to_thread(self._entry, entry_id)

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[Any]:
        found = await asyncio.to_thread(lambda: list(self._chain(head_id, limit)))
        return found[::-1]

    async def write_record(
        self, record: Any, *, new_entries: Sequence[Any] = (), expected_revision: str | None
    ) -> None:
        await asyncio.to_thread(self._write, record, list(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await asyncio.to_thread(self._delete, conversation_id, expected_revision)

    def _turns(self, conversation_id: str) -> SessionTurns:
        return self._recent.of(
            conversation_id, lambda: _turns(self._plane, conversation_id, self._ns)
        )

    def _entry(self, entry_id: str) -> Any:
        return self._made(self._turn(entry_id))

    def _turn(self, entry_id: str) -> KeptTurn:
        turns = self._turns("")
        turn = turns.turn(turns.id(entry_id))
        if turn is None:
            raise LookupError(entry_id)
        return turn

    def _made(self, turn: KeptTurn) -> Any:
        kind = _module("conversation_store").ConversationEntry
        (message,) = _adapter("messages.ModelMessagesTypeAdapter").validate_python(
            [turn.value["message"]]
        )
        name = turn.id.partition(":")[2]
        return kind(id=name, parent_id=turn.value["parent"], message=message)

    def _chain(self, head_id: str | None, limit: int | None = None) -> Iterator[Any]:
        """The entries from a head back to the first one; those of its session are read at once."""
        known: dict[str, KeptTurn] = {}
        while head_id is not None and (limit is None or limit > 0):
            turn = known.get(head_id) or self._turn(head_id)
            if limit is None and head_id not in known and turn.session is not None:
                known |= {
                    one.id.partition(":")[2]: one for one in self._turns(turn.session).turns()
                }
            yield self._made(turn)
            head_id, limit = turn.value["parent"], None if limit is None else limit - 1

    def _head(self, conversation_id: str) -> Blob | None:
        return self._heads.get(f"c/{short_name(conversation_id)}")

    def _record(self, conversation_id: str) -> Any:
        return _record_of(self._head(conversation_id))

    def _records(self, scope: str | None, limit: int | None) -> list[Any]:
        blobs = [self._heads.get(key) for key in self._heads.keys("c/")]
        every = [one for one in map(_record_of, blobs) if one is not None]
        found = [one for one in every if scope is None or one.scope == scope]
        return sorted(found, key=lambda one: one.updated_at, reverse=True)[:limit]

    def _write(self, record: Any, new: list[Any], expected: str | None) -> None:
        name = record.conversation_id
        before = self._checked(name, expected)
        if record.head_id is not None and all(one.id != record.head_id for one in new):
            try:
                self._entry(record.head_id)
            except LookupError:
                raise _conflict(name) from None
        turns, rows = self._turns(name), []
        for entry in new:
            (row,) = _adapter("messages.ModelMessagesTypeAdapter").dump_python(
                [entry.message], mode="json"
            )
            rows += turns.rows(entry_said({"parent": entry.parent_id, "message": row}), entry.id)
        self._keep(name, before, _adapter("record").dump_python(record, mode="json"), rows)

    def _delete(self, name: str, expected: str) -> None:
        before = self._checked(name, expected)
        record = _record_of(before)
        self._keep(name, before, {}, [])
        turns = self._turns(name)
        left = {one.id for each in self._records(None, None) for one in self._reached(each)}
        for entry in {one.id: one for one in self._reached(record)}:
            if entry not in left:
                with suppress(NotFoundError):
                    turns.forget(turns.id(entry))

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
    """What an entry's message says: the prompt, the answer, what tools returned."""
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
    plane: Plane,
    session: str,
    *,
    budget: int = 2000,
    channel: str = "agent",
    turns: int = 20,
    watch: Callable[[Any], None] | None = None,
    **asked: Any,
) -> Callable[[list[Any]], Any]:
    """What `ProcessHistory` takes: context before each call of a model, as in `placing`.

    Of the conversation's earlier prompts at most `turns` are sent as they are; a block of at most
    `budget` tokens stands before the newest one. What is stored stays as it is.
    """
    kept = _turns(plane, session)
    packs = ContextPacks(plane, kept.session, budget=budget, channel=channel, asked=asked)

    async def processed(messages: list[Any]) -> list[Any]:
        known = _module("messages")
        prompts = [at for at, one in enumerate(messages) if _prompt(one) is not None]
        if not prompts:
            return messages
        first, newest = kept_from(len(prompts), turns), prompts[-1]
        back = len(prompts) - 1 - first
        held = await asyncio.to_thread(_held, plane, kept, back)
        text = _prompt(messages[newest]) or ""
        block = await asyncio.to_thread(packs.block, text, held, None)
        if watch is not None:
            watch(block)
        sent = messages[prompts[first] if first else 0 :]
        if block.text:
            said = known.ModelRequest(parts=[known.UserPromptPart(content=block.text)])
            sent.insert(len(sent) - (len(messages) - newest), said)
        return sent

    return processed


def _turns(plane: Plane, conversation: str, ns: str | None = None) -> SessionTurns:
    """The entries that a conversation wrote. Their ids do not name it: others may have them."""
    return SessionTurns(plane, session=conversation, program=PROGRAM, owner="e", ns=ns)


def _held(plane: Plane, kept: SessionTurns, back: int) -> int:
    """The seq before the `back`th prompt of the session from its end; the log's where 0."""
    if not back:
        return plane.head().seq
    seqs = [turn.seq for turn in kept.turns() if turn.role == "user"]
    return seqs[-back] - 1 if len(seqs) >= back else 0


def _prompt(message: Any) -> str | None:
    """The text of a message that is a user's prompt; None for others."""
    found = [part for part in message.parts if getattr(part, "part_kind", "") in _USERS]
    if not found:
        return None
    return "\n".join(part.content for part in found if isinstance(part.content, str))


def _record_of(blob: Blob | None) -> Any:
    told = None if blob is None else blob.head["record"]
    return _adapter("record").validate_python(told) if told else None


def _conflict(name: str) -> Exception:
    error: Exception = _module("conversation_store").ConversationConflict(name)
    return error


def _module(name: str) -> Any:
    try:
        return import_module(f"pydantic_ai.{name}")
    except ImportError as error:
        raise MissingExtraError("Pydantic AI", "pydantic-ai") from error


@cache
def _adapter(name: str) -> Any:
    if name == "record":
        return import_module("pydantic").TypeAdapter(
            _module("conversation_store").ConversationRecord
        )
    home, _, found = name.partition(".")
    return getattr(_module(home), found)


@cache
def _made(name: str) -> Any:
    told = {"__doc__": _Store.__doc__, "__module__": __name__}
    return type(name, (_Store, _module("conversation_store").ConversationStore), told)


def __getattr__(name: str) -> Any:
    """The class, made when it is first asked for; MissingExtraError without the extra."""
    if name == "PlaneConversationStore":
        return _made(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
