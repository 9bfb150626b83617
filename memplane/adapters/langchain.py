"""LangChain over a plane: a key-value store, a retriever, a chat history, and an agent's context.

    retriever = PlaneRetriever(plane=plane, k=5, asked={"channel": "agent"})
    history = PlaneChatHistory(plane, session="s1")
    cache = PlaneByteStore(plane, name="embeddings")
    agent = create_agent(model, tools, middleware=[PlaneContext(plane, session="s1", budget=2000)])

`PlaneContext` needs the extra `langchain-agents`, the others `langchain`. Source:
`langchain_core.stores`, `.retrievers` and `.chat_history`,
`langchain.agents.middleware.AgentMiddleware`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.turns import (
    BUDGET,
    BlobRows,
    ContextPacks,
    Over,
    Said,
    SessionTurns,
    call_said,
    classes,
    framework,
    in_thread,
    read_back,
    said_at,
    short_name,
    spelled,
    spelled_prefix,
    texts_in,
)
from memplane.errors import InputError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneByteStore: Any
    PlaneChatHistory: Any
    PlaneContext: Any
    PlaneRetriever: Any

PROGRAM: Final = "langchain"
CHAT: Final = "langchain-chat"
AGENT: Final = "langchain-agent"
MARKS: Final = ("none", "anthropic", "openai")
_MARK: Final = {"type": "ephemeral"}
_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_core = framework("langchain_core.", "LangChain", "langchain")
_agents = framework("langchain.agents", "A context of LangChain's agents", "langchain-agents")


class _ByteStore:
    """Bytes under keys: `mget`, `mset`, `mdelete`, `yield_keys`, and the same for event loops.

    Stores of other names are apart. A key is any text. `mset` is one write. Raises InputError for
    what is not bytes.
    """

    def __init__(self, plane: Plane, *, name: str = "default") -> None:
        self._blobs = BlobRows(plane, PROGRAM)
        self._owner = short_name(name)
        self._prefix = f"k/{self._owner}/"

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """The value of each key, None where there is none."""
        found = [self._blobs.get(self._key(key)) for key in keys]
        return [None if blob is None else blob.raws[0] for blob in found]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Store values; of a key that is given twice the last one."""
        made: dict[str, list[dict[str, Any]]] = {}
        for key, value in dict(key_value_pairs).items():
            if not isinstance(value, bytes):
                raise InputError(f"expected bytes, found {type(value).__name__}", where="value")
            head = {"key": key}
            told = self._key(key)
            made[told] = self._blobs.rows(told, head, [value], owner=self._owner)
        self._blobs.overwrite(made)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Forget values; a key without one is passed over."""
        self._blobs.forget_all(map(self._key, dict.fromkeys(keys)))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys that begin with the prefix, in the order of their bytes up to SPELLED_BYTES."""
        asked = prefix or ""
        for key in self._blobs.keys(f"{self._prefix}{spelled_prefix(asked)}"):
            found = read_back(key.removeprefix(self._prefix))
            if found is None:
                blob = self._blobs.get(key)
                found = None if blob is None else blob.head["key"]
            if found is not None and found.startswith(asked):
                yield found

    def _key(self, key: str) -> str:
        return f"{self._prefix}{spelled(key)}"


class _ChatHistory:
    """The messages of one session that were added here, in their order.

    Each is a turn of that session. Secrets are masked before anything is stored, so such a message
    comes back with the mask in it. `clear` forgets the messages, and nothing else of the session.
    """

    def __init__(self, plane: Plane, *, session: str) -> None:
        self._kept = SessionTurns(plane, session=session, program=CHAT)

    @property
    def messages(self) -> list[Any]:
        """The messages in force; only what was recorded since the last look is read for them."""
        told = [turn.value for turn in self._kept.turns()]
        return list(_core("messages").messages_from_dict(told))

    def add_messages(self, messages: Sequence[Any]) -> None:
        """Record messages with one write."""
        self._kept.add(map(message_said, messages))

    def clear(self) -> None:
        """Forget the messages; nothing where there are none."""
        self._kept.clear()


def message_said(message: Any) -> Said:
    """What a message says."""
    value = _core("messages").message_to_dict(message)
    content = value["data"]["content"]
    role = _ROLES.get(value["type"])
    kind = "tool_result" if role == "tool" else "message"
    calls = value["data"].get("tool_calls")
    if calls and not content:
        return call_said(value, calls[0]["name"], calls[0]["args"])
    if isinstance(content, str):
        return Said(role, value, ("data", "content"), kind=kind)
    paths = [("data", "content", *path) for path in texts_in(content)]
    return said_at(role, value, paths, kind=kind)


class _Retriever:
    """Hits of `plane.search` as documents: `k` of them, with the arguments `asked`.

    Metadata: seq, id, score, session, day, kind, ns, key, said_by and the handle that opens it.
    """

    plane: Any
    k: int
    asked: dict[str, Any]

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, k: int | None = None
    ) -> list[Any]:
        del run_manager
        hits = self.plane.search(query, self.k if k is None else k, **self.asked)
        return [_document(hit) for hit in hits]


def _document(hit: Any) -> Any:
    event = hit.event
    metadata = {
        name: getattr(event, name) for name in ("seq", "id", "session", "kind", "ns", "key")
    }
    metadata |= {"day": event.ts[:10]}
    metadata |= {name: getattr(hit, name) for name in ("score", "said_by", "handle")}
    made = _core("documents").Document
    return made(page_content=event.text or hit.text, id=event.id, metadata=metadata)


class _Context:
    """Middleware for one session: before each call of a model a block of at most `budget` tokens.

    What is said becomes turns of the session: a message once, by its id, however often the agent is
    called with it and in however many processes. The block is in no message that LangChain keeps.
    `ContextPacks` takes what is `asked`: `turns`, `channel`, `watch`, arguments of `plane.pack`.

    `marks="anthropic"` sets cache marks (`cache_control`) where the next call still agrees: behind
    the instructions, the messages before the block, the block and the newest message. OpenAI needs
    none: its cache takes the longest beginning that agrees; `marks="openai"` gives it a key of the
    session. Raises InputError for other marks, and what `Plane.record` and `pack` raise.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        session: str,
        budget: int = BUDGET,
        marks: str = "none",
        **asked: Any,
    ) -> None:
        super().__init__()
        if marks not in MARKS:
            raise InputError(f"expected one of {', '.join(MARKS)}", where="marks")
        self._plane, self._marks = plane, marks
        self._kept = SessionTurns(plane, session=session, program=AGENT)
        self._packs = ContextPacks(plane, self._kept.session, budget=budget, **asked)
        self._known: dict[str, int] = {}  # seqs of the turns of messages, by their event's id

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with context, and record what it answers."""
        answer = handler(self._given(request))
        self._record(answer.result)
        return answer

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for event loops."""
        answer = await handler(await in_thread(self._given)(request))
        await in_thread(self._record)(answer.result)
        return answer

    def _record(self, messages: Sequence[Any]) -> None:
        """Make turns of the messages that have an id and are none yet, with one write."""
        named = {self._kept.id(str(one.id)): one for one in messages if one.id is not None}
        fresh = {id_: one for id_, one in named.items() if id_ not in self._known}
        self._kept.add_named({str(one.id): message_said(one) for one in fresh.values()})
        for id_ in fresh:
            self._known[id_] = self._plane.event(id_).seq

    def _given(self, request: Any) -> Any:
        messages = list(request.messages)
        self._record(messages)
        prompts = [at for at, one in enumerate(messages) if one.type == "human"]
        if not prompts:
            return request
        first, newest = self._packs.first(prompts), prompts[-1]
        start = self._known.get(self._kept.id(str(messages[prompts[first]].id)))
        held = self._plane.head().seq if start is None else start - 1
        prompt = self._kept.id(str(messages[newest].id))
        known = prompt if prompt in self._known else None
        block = self._packs.block(str(messages[newest].text), held, known)
        begin = prompts[first] if first else 0
        told = self._marked(messages[begin:], newest - begin, block.text)
        return request.override(messages=told, **self._settings(request))

    def _marked(self, messages: list[Any], newest: int, block: str) -> list[Any]:
        """The messages with the block in the newest prompt, and with marks where they are asked."""
        marked = self._marks == "anthropic"
        content = _parts(messages[newest].content)
        if block:
            part: dict[str, Any] = {"type": "text", "text": block}
            content.insert(0, part | ({"cache_control": _MARK} if marked else {}))
        messages[newest] = messages[newest].model_copy(update={"content": content})
        if marked:
            for at in dict.fromkeys((newest - 1, len(messages) - 1)):
                if at >= 0:
                    messages[at] = _with_mark(messages[at])
        return messages

    def _settings(self, request: Any) -> dict[str, Any]:
        if self._marks == "openai":
            key = {"prompt_cache_key": self._kept.owner}
            return {"model_settings": {**request.model_settings, **key}}
        if self._marks == "anthropic" and request.system_message is not None:
            return {"system_message": _with_mark(request.system_message)}
        return {}


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _with_mark(message: Any) -> Any:
    parts = _parts(message.content)
    if not parts or not isinstance(parts[-1], Mapping):
        return message
    parts[-1] = {**parts[-1], "cache_control": _MARK}
    return message.model_copy(update={"content": parts})


__getattr__ = classes(
    __name__,
    {
        "PlaneByteStore": Over(_ByteStore, lambda: _core("stores").BaseStore),
        "PlaneChatHistory": Over(
            _ChatHistory, lambda: _core("chat_history").BaseChatMessageHistory
        ),
        "PlaneContext": Over(_Context, lambda: _agents(".middleware").AgentMiddleware),
        "PlaneRetriever": Over(
            _Retriever, lambda: _core("retrievers").BaseRetriever, {"k": 10, "asked": {}}
        ),
    },
)
