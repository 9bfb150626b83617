"""LlamaIndex over a plane (extra `llamaindex`): a chat store, and a memory block.

    from memplane.adapters.llamaindex import PlaneChatStore, PlaneMemoryBlock

    buffer = ChatMemoryBuffer.from_defaults(chat_store=PlaneChatStore(plane), chat_store_key="s1")
    block = PlaneMemoryBlock(plane=plane, session="s1", budget=2000)
    memory = Memory.from_defaults(session_id="s1", memory_blocks=[block])

Messages of a chat store are turns of the session that its key names. A memory block records what
leaves the short-term memory, and gives a packed block; use it without the chat store, which would
record the same again.

Source: `llama_index.core.storage.chat_store.BaseChatStore`, `llama_index.core.memory`.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib import import_module
from types import new_class
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.blobs import BlobRows, session_of, spelled
from memplane.adapters.turns import RecentTurns, Said, SessionTurns, call_said, said_at
from memplane.errors import MissingExtraError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneChatStore: Any
    PlaneMemoryBlock: Any

PROGRAM: Final = "llamaindex"
_OWNER: Final = "keys"
_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


class _ChatStore:
    """Lists of messages under keys: `BaseChatStore`, sync and async. A key is a session.

    What is deleted is forgotten. Secrets are masked. Raises what `Plane.record` raises.
    """

    _plane: Plane
    _ns: str | None
    _recent: RecentTurns
    _keys: BlobRows

    def __init__(self, plane: Plane, *, ns: str | None = None) -> None:
        super().__init__()
        self._plane, self._ns, self._recent = plane, ns, RecentTurns()
        self._keys = BlobRows(
            plane, ns=f"/agent/{PROGRAM}", kind=f"custom:{PROGRAM}", source=PROGRAM
        )

    @classmethod
    def class_name(cls) -> str:
        return "PlaneChatStore"

    def set_messages(self, key: str, messages: list[Any]) -> None:
        """Forget the messages of a key and store others."""
        self._turns(key).clear()
        self._add(key, messages)

    def get_messages(self, key: str) -> list[Any]:
        """The messages of a key, none where it has none."""
        return [_message(turn.value) for turn in self._turns(key).turns()]

    def add_message(self, key: str, message: Any) -> None:
        """Store a message behind the others."""
        self._add(key, [message])

    def delete_messages(self, key: str) -> list[Any] | None:
        """Forget a key with its messages and return these; None where it is not there."""
        if not self._is_there(key):
            return None
        found = self.get_messages(key)
        self._turns(key).clear()
        self._keys.forget(_key(key))
        return found

    def delete_message(self, key: str, idx: int) -> Any:
        """Forget the message at a place and return it; None where there is none."""
        turns = self._turns(key).turns()
        if not -len(turns) <= idx < len(turns):
            return None
        self._turns(key).forget(turns[idx].id)
        return _message(turns[idx].value)

    def delete_last_message(self, key: str) -> Any:
        """Forget the newest message and return it; None where there is none."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """The keys, in the order of their bytes."""
        found = (self._keys.get(key) for key in self._keys.keys("k/"))
        return [blob.head["key"] for blob in found if blob is not None]

    def _turns(self, key: str) -> SessionTurns:
        return self._recent.of(
            key, lambda: SessionTurns(self._plane, session=key, program=PROGRAM, ns=self._ns)
        )

    def _is_there(self, key: str) -> bool:
        return self._keys.get(_key(key)) is not None

    def _add(self, key: str, messages: list[Any]) -> None:
        rows: list[dict[str, Any]] = []
        if not self._is_there(key):
            rows += self._keys.rows(_key(key), {"key": key}, owner=_OWNER)
        for message in messages:
            rows += self._turns(key).rows(chat_said(message))
        if rows:
            self._keys.keep(rows)


class _MemoryBlock:
    """What a plane knows for a session, at most `budget` tokens, in the memory of an agent.

    It records the messages that it is given: those that leave the short-term memory, in the order
    in which they were said.
    """

    plane: Any
    session: str
    budget: int
    channel: str
    asked: dict[str, Any]
    watch: Any

    async def _aget(self, messages: list[Any] | None = None, **given: Any) -> str:
        del given
        said = [one for one in messages or () if one.role.value == "user"]
        query = (said[-1].content or "") if said else ""
        block = await asyncio.to_thread(
            self.plane.pack,
            query,
            session=session_of(self.session),
            budget=self.budget,
            channel=self.channel,
            **self.asked,
        )
        if self.watch is not None:
            self.watch(block)
        return str(block.text)

    async def _aput(self, messages: list[Any]) -> None:
        turns = SessionTurns(self.plane, session=self.session, program=PROGRAM)
        await asyncio.to_thread(turns.add, [chat_said(one) for one in messages])


def chat_said(message: Any) -> Said:
    """What a `ChatMessage` says."""
    value = message.model_dump(mode="json")
    blocks = value.get("blocks") or []
    role = _ROLES.get(value["role"])
    kind = "tool_result" if role == "tool" else "message"
    calls = [one for one in blocks if one.get("block_type") == "tool_call"]
    paths = [
        ("blocks", at, "text")
        for at, one in enumerate(blocks)
        if one.get("block_type") == "text" and one.get("text")
    ]
    if calls and not paths:
        return call_said(value, str(calls[0].get("tool_name")), calls[0].get("tool_kwargs") or {})
    return said_at(role, value, paths, kind=kind)


def _key(key: str) -> str:
    return f"k/{spelled(key)}"


def _message(value: Any) -> Any:
    return _core("llms").ChatMessage.model_validate(value)


def _core(module: str) -> Any:
    try:
        return import_module(f"llama_index.core.{module}")
    except ImportError as error:
        raise MissingExtraError("LlamaIndex", "llamaindex") from error


@cache
def _made(name: str) -> Any:
    if name == "PlaneChatStore":
        own: type = _ChatStore
        base = _core("storage.chat_store").BaseChatStore
        typed: dict[str, Any] = dict.fromkeys(("_plane", "_ns", "_recent", "_keys"), Any)
        values: dict[str, Any] = {}
    else:
        base, own = _core("memory").BaseMemoryBlock[str], _MemoryBlock
        typed = {"name": str, "plane": Any, "session": str, "budget": int, "channel": str}
        typed |= {"asked": dict[str, Any], "watch": Any}
        values = {"name": "memplane", "budget": 2000, "channel": "agent", "asked": {}}
        values["watch"] = None
    told = {"__doc__": own.__doc__, "__module__": __name__, "__annotations__": typed, **values}
    return new_class(name, (own, base), exec_body=lambda body: body.update(told))


def __getattr__(name: str) -> Any:
    """The classes, made when they are first asked for; MissingExtraError without the extra."""
    if name in ("PlaneChatStore", "PlaneMemoryBlock"):
        return _made(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
