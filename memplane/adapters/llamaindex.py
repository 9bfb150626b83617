"""LlamaIndex over a plane (extra `llamaindex`): a chat store, and a memory block.

    buffer = ChatMemoryBuffer.from_defaults(chat_store=PlaneChatStore(plane), chat_store_key="s1")
    block = PlaneMemoryBlock(plane=plane, session="s1", budget=2000)
    memory = Memory.from_defaults(session_id="s1", memory_blocks=[block])

Messages of a chat store are turns of the session that its key names. Source:
`llama_index.core.storage.chat_store.BaseChatStore`, `llama_index.core.memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.turns import (
    BUDGET,
    BlobRows,
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
    spelled,
)

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
_core = framework("llama_index.core.", "LlamaIndex", "llamaindex")


class _ChatStore:
    """Lists of messages under keys: `BaseChatStore`, sync and async. A key is a session.

    What is deleted is forgotten. Secrets are masked. Raises what `Plane.record` raises.
    """

    _plane: Any
    _ns: Any
    _recent: Any
    _keys: Any

    def __init__(self, plane: Plane, *, ns: str | None = None) -> None:
        super().__init__()
        self._plane, self._ns = plane, ns
        self._recent, self._keys = RecentSessions[SessionTurns](), BlobRows(plane, PROGRAM)

    @classmethod
    def class_name(cls) -> str:
        return "PlaneChatStore"

    def set_messages(self, key: str, messages: list[Any]) -> None:
        self._turns(key).clear()
        self._add(key, messages)

    def get_messages(self, key: str) -> list[Any]:
        return [_message(turn.value) for turn in self._turns(key).turns()]

    def add_message(self, key: str, message: Any) -> None:
        self._add(key, [message])

    def delete_messages(self, key: str) -> list[Any] | None:
        if self._keys.get(_key(key)) is None:
            return None
        found = self.get_messages(key)
        self._turns(key).clear()
        self._keys.forget(_key(key))
        return found

    def delete_message(self, key: str, idx: int) -> Any:
        turn = self._turns(key).pop(idx)
        return None if turn is None else _message(turn.value)

    def delete_last_message(self, key: str) -> Any:
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        found = map(self._keys.get, self._keys.keys("k/"))
        return [blob.head["key"] for blob in found if blob is not None]

    def _turns(self, key: str) -> SessionTurns:
        kept: SessionTurns = self._recent.of(
            key, lambda: SessionTurns(self._plane, session=key, program=PROGRAM, ns=self._ns)
        )
        return kept

    def _add(self, key: str, messages: list[Any]) -> None:
        there = self._keys.get(_key(key)) is not None
        rows = [] if there else self._keys.rows(_key(key), {"key": key}, owner=_OWNER)
        for message in messages:
            rows += self._turns(key).rows(chat_said(message))
        self._keys.keep(rows)


class _MemoryBlock:
    """What a plane knows for a session, at most `budget` tokens, in the memory of an agent.

    It records the messages that it is given: those that leave the short-term memory, in the order
    in which they were said. `asked` goes to `plane.pack`, `watch` is given each block.
    """

    name: str
    plane: Any
    session: str
    budget: int
    channel: str
    asked: dict[str, Any]
    watch: Any

    @in_thread
    def _aget(self, messages: list[Any] | None = None, **given: Any) -> str:
        del given
        said = [one.content or "" for one in messages or () if one.role.value == "user"]
        named = {"session": session_of(self.session), "budget": self.budget}
        block = self.plane.pack(
            said[-1] if said else "", channel=self.channel, **named, **self.asked
        )
        if self.watch is not None:
            self.watch(block)
        return str(block.text)

    @in_thread
    def _aput(self, messages: list[Any]) -> None:
        SessionTurns(self.plane, session=self.session, program=PROGRAM).add(
            map(chat_said, messages)
        )


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


__getattr__ = classes(
    __name__,
    {
        "PlaneChatStore": Over(_ChatStore, lambda: _core("storage.chat_store").BaseChatStore),
        "PlaneMemoryBlock": Over(
            _MemoryBlock,
            lambda: _core("memory").BaseMemoryBlock[str],
            {"name": "memplane", "budget": BUDGET, "channel": "agent", "asked": {}, "watch": None},
        ),
    },
)
