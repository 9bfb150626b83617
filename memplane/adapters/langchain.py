"""LangChain over a plane (extra `langchain`): a key-value store, a retriever, a chat history.

    from memplane.adapters.langchain import PlaneByteStore, PlaneChatHistory, PlaneRetriever

    retriever = PlaneRetriever(plane=plane, k=5, asked={"channel": "agent"})
    history = PlaneChatHistory(plane, session="s1")
    cache = PlaneByteStore(plane, name="embeddings")

Values of the store are bytes that no block or search shows (`adapters/blobs.py`). Documents of the
retriever are hits of `plane.search`. The messages of a history are turns of its session: packs and
searches use them as any others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from types import new_class
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters.blobs import BlobRows, read_back, short_name, spelled, spelled_prefix
from memplane.adapters.turns import Said, SessionTurns, call_said, said_at, texts_in
from memplane.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

    PlaneByteStore: Any
    PlaneChatHistory: Any
    PlaneRetriever: Any

NS: Final = "/agent/langchain"
KIND: Final = "custom:langchain"
CHAT_SOURCE: Final = "langchain-chat"
_SOURCE: Final = "langchain"
_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}


class _ByteStore:
    """Bytes under keys: `mget`, `mset`, `mdelete`, `yield_keys`, and the same for event loops.

    Stores of other names are apart. A key is any text. `mset` is one write. Raises InputError for
    what is not bytes.
    """

    def __init__(self, plane: Plane, *, name: str = "default") -> None:
        self._blobs = BlobRows(plane, ns=NS, kind=KIND, source=_SOURCE)
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
        self._kept = SessionTurns(plane, session=session, program=CHAT_SOURCE)

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


def _documents(self: Any, query: str, *, run_manager: Any, k: int | None = None) -> list[Any]:
    """What `search` finds, as documents.

    Metadata: seq, id, score, session, day, kind, ns, key, said_by and the handle that opens it.
    """
    del run_manager
    most = self.k if k is None else k
    hits = self.plane.search(query, most, **self.asked)
    made = _core("documents").Document
    return [
        made(
            page_content=hit.event.text or hit.text,
            id=hit.event.id,
            metadata={
                "seq": hit.event.seq,
                "id": hit.event.id,
                "score": hit.score,
                "session": hit.event.session,
                "day": hit.event.ts[:10],
                "kind": hit.event.kind,
                "ns": hit.event.ns,
                "key": hit.event.key,
                "said_by": hit.said_by,
                "handle": hit.handle,
            },
        )
        for hit in hits
    ]


def _core(module: str) -> Any:
    try:
        return import_module(f"langchain_core.{module}")
    except ImportError as error:
        raise MissingExtraError("LangChain", "langchain") from error


def _over(name: str, base: Any, own: type) -> Any:
    told = {"__doc__": own.__doc__, "__module__": __name__}
    return new_class(name, (own, base), exec_body=lambda body: body.update(told))


def _retriever() -> Any:
    told = {
        "__doc__": "Hits of `plane.search` as documents: `k` of them, with the arguments `asked`.",
        "__module__": __name__,
        "__annotations__": {"plane": Any, "k": int, "asked": dict[str, Any]},
        "k": 10,
        "asked": {},
        "_get_relevant_documents": _documents,
    }
    base = _core("retrievers").BaseRetriever
    return new_class("PlaneRetriever", (base,), exec_body=lambda body: body.update(told))


@cache
def _made(name: str) -> Any:
    if name == "PlaneByteStore":
        return _over(name, _core("stores").BaseStore, _ByteStore)
    if name == "PlaneChatHistory":
        return _over(name, _core("chat_history").BaseChatMessageHistory, _ChatHistory)
    return _retriever()


def __getattr__(name: str) -> Any:
    """The classes, made when they are first asked for; MissingExtraError without the extra."""
    if name in ("PlaneByteStore", "PlaneChatHistory", "PlaneRetriever"):
        return _made(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
