"""LangGraph's long-term memory over a plane (extra `langgraph`): `PlaneStore`.

    from memplane.adapters.langgraph import PlaneStore

    graph = builder.compile(store=PlaneStore(plane))

An item is a fact with a key: `tea` of `("users", "ann")` is the key `users/ann//tea` in the
namespace `/agent/store`. It is an agent's own: blocks and searches of that agent show it
(`plane.pack(agent="store")`), those of others do not, since a store may hold what is of several
users. `history` has the values before, `forget` and `purge` take them. `search` with a query finds
by the words of what `index` names, by default all texts of a value, and by the key; with
`index=False` by the key alone. With `similar=True` vectors decide: those of the plane's embedder,
else of its static table; a score is then the cosine. A `ttl` ends in `valid_until`; reading an item
does not write, so it does not begin again.

Values are JSON objects of at most 64 KiB, in which secrets are masked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from memplane.errors import InputError, MissingExtraError, NotFoundError

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.plane import Plane

_NS: Final = "/agent/"
_SAFE: Final = " !#$&'()+,-.:;=?@[]^_`{|}~"
_HITS_MAX: Final = 1_000  # of `search`, before what lies elsewhere or fails a filter goes
_PAGE: Final = 64
_Path = tuple[str, ...]
_ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}


class StoredItems:
    """Items under namespaces and keys. Threads and processes may share the plane.

    Stores of other agents are apart. `fields` are the paths of what an item is found by where a put
    names none; a search by vectors first makes those that the plane's embedder owes. `now` gives
    the time that a TTL counts from. Raises InputError for what cannot be stored.
    """

    supports_ttl = True

    def __init__(
        self,
        plane: Plane,
        *,
        agent: str = "store",
        similar: bool = False,
        fields: Sequence[str] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._plane, self._ns, self._similar = plane, f"{_NS}{agent}", similar
        self._fields = fields
        self._now = now or (lambda: datetime.now(UTC))

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Answer operations in their order; what is put is stored behind them, in one write."""
        answers: list[Any] = []
        puts: dict[tuple[_Path, str], Any] = {}
        for one in ops:
            match type(one).__name__:
                case "GetOp":
                    answers.append(self._get(one.namespace, one.key))
                case "SearchOp":
                    answers.append(self._search(one))
                case "ListNamespacesOp":
                    answers.append(self._namespaces(one))
                case "PutOp":
                    puts[one.namespace, one.key] = one
                    answers.append(None)
                case other:
                    raise InputError(f"expected an operation of a store, found {other}")
        rows = [self._row(one) for one in puts.values() if one.value is not None]
        if rows:
            self._plane.record_many(rows, batch=len(rows))
        for one in puts.values():
            if one.value is None:
                with suppress(NotFoundError):
                    self._plane.forget(_key(one.namespace, one.key), ns=self._ns)
        return answers

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """The same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _get(self, namespace: _Path, key: str) -> Any:
        event = self._plane.get(_key(namespace, key), self._ns)
        return None if event is None else _base().Item(**_fields(event, namespace, key))

    def _search(self, asked: Any) -> list[Any]:
        kept = (
            (event, score)
            for event, score in self._candidates(asked)
            if matches(event.data.get("value"), asked.filter or {})
        )
        found: list[Any] = []
        for number, (event, score) in enumerate(kept):
            if number >= asked.offset + asked.limit:
                break
            if number >= asked.offset:
                fields = _fields(event, *_read_back(event.key or ""))
                found.append(_base().SearchItem(**fields, score=score))
        return found

    def _candidates(self, asked: Any) -> Iterator[tuple[Event, float | None]]:
        """The items below a namespace: by relevance where there is a query, else in key order."""
        begins = "".join(f"{_quoted(one)}/" for one in asked.namespace_prefix)
        if asked.query:
            if self._similar:
                with suppress(InputError):  # no embedder is named: the static table it is
                    self._plane.upkeep.embed()
            asking: dict[str, Any] = {"ns": self._ns, "kind": "fact", "similar": self._similar}
            for hit in self._plane.search(asked.query, _HITS_MAX, **asking):
                event = hit.event
                if event.key and event.key.startswith(begins) and "value" in event.data:
                    yield event, hit.score / 1000
            return
        for key in self._keys(begins):
            found = self._plane.get(key, self._ns)
            if found is not None:
                yield found, None

    def _namespaces(self, asked: Any) -> list[_Path]:
        found = dict.fromkeys(_read_back(key)[0] for key in self._keys(""))
        conditions = asked.match_conditions or ()
        named = {
            one[: asked.max_depth]
            for one in found
            if all(_is_under(one, condition) for condition in conditions)
        }
        return sorted(named)[asked.offset : asked.offset + asked.limit]

    def _keys(self, prefix: str) -> Iterator[str]:
        seen, size = 0, _PAGE
        while True:
            found = self._plane.keys(prefix, self._ns, limit=size)
            yield from found[seen:]
            if not found.more:
                return
            seen, size = len(found), size * 4

    def _row(self, put: Any) -> dict[str, Any]:
        key, value = _key(put.namespace, put.key), dict(put.value)
        before = self._plane.get(key, self._ns)
        created = None if before is None else before.data.get("created", before.ts)
        data = {"value": value} if created is None else {"value": value, "created": created}
        row = {
            "kind": "fact",
            "role": "assistant",
            "ns": self._ns,
            "key": key,
            "text": _text(value, self._fields if put.index is None else put.index),
            "data": data,
        }
        if put.ttl is None:
            return row
        return {**row, "valid_until": self._now() + timedelta(minutes=put.ttl)}


def matches(value: Any, asked: Any) -> bool:
    """Whether a value fits a filter: equal, or by `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`.

    Of an object what the filter names counts, of a list each item. InputError for another operator.
    """
    if isinstance(asked, Mapping):
        if any(name.startswith("$") for name in asked):
            return all(_compared(value, name, other) for name, other in asked.items())
        return isinstance(value, Mapping) and all(
            matches(value.get(name), other) for name, other in asked.items()
        )
    if isinstance(asked, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(asked)
        return same and all(map(matches, value, asked))
    return bool(value == asked)


def _compared(value: Any, name: str, other: Any) -> bool:
    if name in ("$eq", "$ne"):
        return (value == other) is (name == "$eq")
    if name not in _ORDERS:
        raise InputError(f"found {name!r}; known: $eq, $ne, {', '.join(_ORDERS)}", where="filter")
    return _ORDERS[name](float(value), float(other))


def _is_under(namespace: _Path, condition: Any) -> bool:
    path: Sequence[str] = condition.path
    if len(namespace) < len(path):
        return False
    if condition.match_type == "suffix":
        namespace = namespace[len(namespace) - len(path) :]
    return all(one in ("*", has) for one, has in zip(path, namespace, strict=False))


def _text(value: Mapping[str, Any], index: Any) -> str:
    """What an item is found by, and what a block says of it."""
    if index is False:
        return ""
    if index is None:
        return "; ".join(_texts(value))
    base = import_module("langgraph.store.base.embed")
    found = [base.get_text_at_path(value, base.tokenize_path(path)) for path in index]
    return "; ".join(one for some in found for one in some)


def _texts(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, name)
    elif value is not None:
        yield f"{name}: {value}" if name else str(value)


def _fields(event: Event, namespace: _Path, key: str) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "key": key,
        "value": event.data["value"],
        "created_at": datetime.fromisoformat(event.data.get("created", event.ts)),
        "updated_at": datetime.fromisoformat(event.ts),
    }


def _key(namespace: _Path, key: str) -> str:
    return f"{'/'.join(map(_quoted, namespace))}//{_quoted(key)}"


def _read_back(key: str) -> tuple[_Path, str]:
    path, _, name = key.partition("//")
    return tuple(map(unquote, path.split("/"))), unquote(name)


def _quoted(label: str) -> str:
    return quote(label, safe=_SAFE)


def _base() -> Any:
    try:
        return import_module("langgraph.store.base")
    except ImportError as error:
        raise MissingExtraError("LangGraph", "langgraph") from error


def store_class() -> Any:
    """Return the class `PlaneStore`; MissingExtraError without the extra."""
    told = {"__doc__": StoredItems.__doc__, "__module__": __name__}
    return type("PlaneStore", (StoredItems, _base().BaseStore), told)
