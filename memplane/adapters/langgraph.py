"""LangGraph over a plane (extra `langgraph`): a checkpointer, and the store of long-term memory.

    graph = builder.compile(checkpointer=PlaneSaver(plane), store=PlaneStore(plane))

**Checkpoints.** A checkpoint is an event of kind `custom:langgraph`, a thread a session. The value
of a channel is an event of its own for each version, as in LangGraph's own savers, so a long list
of messages is not stored again with each step that leaves it alone. One call is one write. What a
thread holds the plane's fold of keys says, also after a reopening: this module keeps nothing in
memory.

Keys in `/agent/langgraph`; THREAD, NS and the rest are digests, but for a checkpoint's id, which is
turned so that the newest one comes first::

    c/THREAD/NS/ID            a checkpoint and its metadata
    b/THREAD/NS/CHANNEL       the value that a channel has in a version
    w/THREAD/NS/ID/CALL       the writes of one call
    r/RUN/CALL                which checkpoint a run made

Values are opaque bytes of the serialiser: no secret in them is masked. LangGraph's
`EncryptedSerializer`, given as `serde`, encrypts them. Deleting a thread forgets its checkpoints,
not the turns that were recorded in the session of that name.

**Items.** An item is a fact with a key: `tea` of `("users", "ann")` is the key `users/ann//tea` in
the namespace `/agent/store`. It is an agent's own: blocks and searches of that agent show it
(`plane.pack(agent="store")`), those of others do not, since a store may hold what is of several
users. `history` has the values before, `forget` and `purge` take them. `search` with a query finds
by the words of what `index` names, by default all texts of a value, and by the key; with
`index=False` by the key alone. With `similar=True` vectors decide: those of the plane's embedder,
else of its static table; a score is then the cosine. A `ttl` ends in `valid_until`; reading an item
does not write, so it does not begin again.

Values are JSON objects of at most 64 KiB, in which secrets are masked.

Source: `langgraph.checkpoint.base.BaseCheckpointSaver`, `langgraph.store.base.BaseStore`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from memplane.adapters.turns import (
    Blob,
    BlobRows,
    Over,
    classes,
    framework,
    in_thread,
    keys_below,
    session_of,
    short_name,
    turned_id,
)
from memplane.errors import InputError, NotFoundError
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.plane import Plane

    PlaneSaver: Any
    PlaneStore: Any

PROGRAM: Final = "langgraph"
_EMPTY: Final = "empty"
_STRATEGIES: Final = ("keep_latest", "delete")
_SPECIAL: Final = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
_langgraph = framework("langgraph.", "LangGraph", "langgraph")
_Config = Mapping[str, Any]
_Writes = list[tuple[str, str, Any]]
_Rows = list[dict[str, Any]]


class _Place(NamedTuple):
    """A checkpoint's thread, namespace and id; the id is "" for the newest."""

    thread: str
    ns: str
    id: str

    @property
    def branch(self) -> str:
        return f"{short_name(self.thread)}/{short_name(self.ns, size=16)}"

    @property
    def key(self) -> str:
        return f"c/{self.branch}/{turned_id(self.id)}"

    @property
    def writes(self) -> str:
        return f"w/{self.branch}/{short_name(self.id)}/"

    @property
    def config(self) -> dict[str, Any]:
        named = {"thread_id": self.thread, "checkpoint_ns": self.ns, "checkpoint_id": self.id}
        return {"configurable": named}

    def blob(self, channel: str, version: Any) -> str:
        told = short_name(channel, type(version).__name__, str(version), size=32)
        return f"b/{self.branch}/{told}"


class _Saver:
    """Checkpoints in a plane; the base class of the framework stands behind it.

    Raises what `Plane.record` and `get` raise, and PlaneError where bytes of a checkpoint are
    lost.
    """

    serde: Any

    def __init__(self, plane: Plane, *, serde: Any = None) -> None:
        super().__init__(serde=serde)  # type: ignore[call-arg]
        self._blobs = BlobRows(plane, PROGRAM)

    # --- reading ---

    def get_tuple(self, config: _Config) -> Any:
        """The checkpoint that a config names, or the newest of its thread; None for none."""
        place = _place(config)
        key = place.key if place.id else next(self._blobs.keys(f"c/{place.branch}/", 1), None)
        blob = self._blobs.get(key) if key is not None else None
        return None if blob is None else self._tuple(blob)

    def list(
        self,
        config: _Config | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the framework's name
        before: _Config | None = None,
        limit: int | None = None,
    ) -> Iterator[Any]:
        """Checkpoints, the newest of each namespace first."""
        named = config["configurable"] if config else {}
        place = _place(config) if config else None
        prefix = "c/"
        if place is not None:
            whole = "checkpoint_ns" in named
            prefix += f"{place.branch}/" if whole else f"{short_name(place.thread)}/"
        end = _place(before).id if before else ""
        left = limit
        for key in self._blobs.keys(prefix):
            if left is not None and left <= 0:
                return
            blob = self._blobs.get(key)
            if blob is None:  # forgotten meanwhile
                continue
            found = blob.head["id"]
            if (place is not None and place.id not in ("", found)) or (end and found >= end):
                continue
            if filter:
                metadata = self._loaded(blob, 1)
                if any(metadata.get(name) != value for name, value in filter.items()):
                    continue
            left = None if left is None else left - 1
            yield self._tuple(blob)

    def _tuple(self, blob: Blob) -> Any:
        head = blob.head
        place = _Place(head["thread"], head["ns"], head["id"])
        checkpoint = self._loaded(blob, 0)
        values: dict[str, Any] = {}
        for channel, version in checkpoint["channel_versions"].items():
            kept = self._blobs.get(place.blob(channel, version))
            if kept is not None and kept.head["types"] != [_EMPTY]:
                values[channel] = self._loaded(kept, 0)
        parent = head.get("parent")
        return _langgraph("checkpoint.base").CheckpointTuple(
            config=place.config,
            checkpoint={**checkpoint, "channel_values": values},
            metadata=self._loaded(blob, 1),
            parent_config=place._replace(id=parent).config if parent else None,
            pending_writes=self._writes(place),
        )

    def _writes(self, place: _Place) -> _Writes:
        """The writes of a checkpoint: of one task and number the first, of special ones the last.

        In the order in which the framework applies tasks: by path, task and number.
        """
        calls = [self._blobs.get(key) for key in self._blobs.keys(place.writes)]
        found: dict[tuple[str, int], tuple[str, Blob, int, str]] = {}
        for blob in sorted((one for one in calls if one is not None), key=lambda one: one.seq):
            task, path = blob.head["task"], blob.head["path"]
            for at, (channel, number) in enumerate(blob.head["writes"]):
                if number < 0 or (task, number) not in found:
                    found[task, number] = (path, blob, at, channel)
        in_order = sorted(found, key=lambda one: (found[one][0], *one))
        told = ((task, found[task, number]) for task, number in in_order)
        return [(task, channel, self._loaded(blob, at)) for task, (_, blob, at, channel) in told]

    def _loaded(self, blob: Blob, at: int) -> Any:
        return self.serde.loads_typed((blob.head["types"][at], blob.raws[at]))

    # --- writing ---

    def put(
        self, config: _Config, checkpoint: Any, metadata: Any, new_versions: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Store a checkpoint with the values of its new versions; returns the config naming it."""
        parent = _place(config)
        place = parent._replace(id=checkpoint["id"])
        values = checkpoint.get("channel_values", {})
        bare = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        rows: _Rows = []
        for channel, version in new_versions.items():
            known = channel in values
            typed = self.serde.dumps_typed(values[channel]) if known else (_EMPTY, b"")
            rows += self._rows(place, place.blob(channel, version), {}, [typed])
        said = _langgraph("checkpoint.base").get_checkpoint_metadata(config, metadata)
        head = {"thread": place.thread, "ns": place.ns, "id": place.id, "parent": parent.id}
        both = [self.serde.dumps_typed(bare), self.serde.dumps_typed(said)]
        rows += self._rows(place, place.key, head, both)
        self._blobs.keep(rows + self._run_rows(place, head, said))
        return place.config

    def _run_rows(self, place: _Place, head: dict[str, Any], metadata: Mapping[str, Any]) -> _Rows:
        """What finds a checkpoint by the run that made it, if one did."""
        run = metadata.get("run_id")
        if run is None:
            return []
        return self._rows(place, f"r/{short_name(str(run))}/{uuid.uuid4().hex}", head, [])

    def put_writes(
        self,
        config: _Config,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote behind a checkpoint; a write that is there already stays."""
        if not writes:
            return
        place = _place(config)
        numbered = [[name, _SPECIAL.get(name, at)] for at, (name, _) in enumerate(writes)]
        head = {"task": task_id, "path": task_path, "writes": numbered}
        typed = [self.serde.dumps_typed(value) for _, value in writes]
        key = f"{place.writes}{uuid.uuid4().hex}"
        self._blobs.keep(self._rows(place, key, head, typed))

    def _rows(
        self, place: _Place, key: str, head: dict[str, Any], typed: Sequence[tuple[str, bytes]]
    ) -> _Rows:
        types = [one for one, _ in typed]
        raws = [raw for _, raw in typed]
        owner, session = short_name(place.thread), session_of(place.thread)
        told = {**head, "types": types}
        return self._blobs.rows(key, told, raws, owner=owner, session=session)

    # --- taking away ---

    def delete_thread(self, thread_id: str, *, purge: bool = False) -> None:
        """Forget all checkpoints and writes of a thread; with `purge` erase them for good."""
        self._blobs.forget_owner(short_name(str(thread_id)), purge=purge)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget the checkpoints that these runs made, with their writes."""
        gone: list[str] = []
        for run in run_ids:
            for key in self._blobs.keys(f"r/{short_name(str(run))}/"):
                blob = self._blobs.get(key)
                if blob is not None:
                    head = blob.head
                    gone += [*self._keys(_Place(head["thread"], head["ns"], head["id"])), key]
        self._blobs.forget_all(dict.fromkeys(gone))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history; what is of that name in the target is replaced."""
        source, target = str(source_thread_id), str(target_thread_id)
        if source == target:
            return
        begins = short_name(source)
        for area in ("b", "w", "c"):  # a checkpoint stands once all that it needs does
            for key in list(self._blobs.keys(f"{area}/{begins}/")):
                blob = self._blobs.get(key)
                if blob is None:
                    continue
                head = dict(blob.head)
                if "thread" in head:
                    head["thread"] = target
                place = _Place(target, "", "")
                typed = list(zip(head["types"], blob.raws, strict=True))
                there = f"{area}/{short_name(target)}/{key.split('/', 2)[2]}"
                rows = self._rows(place, there, head, typed)
                if area == "c":
                    rows += self._run_rows(place, head, self._loaded(blob, 1))
                self._blobs.keep(rows)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget all but the newest checkpoint of each namespace, or (`delete`) whole threads.

        Of a `DeltaChannel` whose value lies in writes of older checkpoints, these stay: all back
        to the one where each channel of the newest has a value.
        """
        if strategy not in _STRATEGIES:
            raise InputError(f"expected one of {', '.join(_STRATEGIES)}", where="strategy")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            branches: dict[str, list[str]] = {}
            for key in list(self._blobs.keys(f"c/{short_name(thread)}/")):
                branches.setdefault(key.rpartition("/")[0], []).append(key)
            for keys in branches.values():
                self._prune(keys)

    def _prune(self, keys: Sequence[str]) -> None:
        """Of the checkpoints of one namespace, the newest first, keep what the newest needs."""
        blobs = [blob for blob in map(self._blobs.get, keys) if blob is not None]
        by_id = {blob.head["id"]: blob for blob in blobs}
        kept, used, sought = set[str](), set[str](), dict[str, None]()
        at: Blob | None = blobs[0] if blobs else None
        while at is not None and at.head["id"] not in kept:
            place = _Place(at.head["thread"], at.head["ns"], at.head["id"])
            versions = self._loaded(at, 0)["channel_versions"]
            if not kept:
                sought = dict.fromkeys(versions)
            kept.add(place.id)
            for channel, version in versions.items():
                key = place.blob(channel, version)
                blob = self._blobs.get(key)
                used.add(key)
                if blob is not None and blob.head["types"] != [_EMPTY]:
                    sought.pop(channel, None)
            at = by_id.get(at.head.get("parent") or "") if sought else None
        gone: list[str] = []
        for blob in blobs:
            if blob.head["id"] not in kept:
                gone += self._keys(_Place(blob.head["thread"], blob.head["ns"], blob.head["id"]))
        if blobs:
            branch = _Place(blobs[0].head["thread"], blobs[0].head["ns"], "").branch
            gone += [key for key in self._blobs.keys(f"b/{branch}/") if key not in used]
        self._blobs.forget_all(gone)

    def _keys(self, place: _Place) -> Sequence[str]:
        return [place.key, *self._blobs.keys(place.writes)]

    def get_next_version(self, current: Any, channel: None) -> str:
        """A version behind `current`, another one on each branch of a history."""
        del channel
        number = current if isinstance(current, int) else int(str(current or 0).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311 - not a secret

    async def alist(self, config: _Config | None, **asked: Any) -> AsyncIterator[Any]:
        found = self.list(config, **asked)
        while (one := await in_thread(next)(found, None)) is not None:
            yield one

    aget_tuple = in_thread(get_tuple)
    aput = in_thread(put)
    aput_writes = in_thread(put_writes)
    adelete_thread = in_thread(delete_thread)
    adelete_for_runs = in_thread(delete_for_runs)
    acopy_thread = in_thread(copy_thread)
    aprune = in_thread(prune)


def _place(config: _Config) -> _Place:
    named = config["configurable"]
    return _Place(
        str(named["thread_id"]),
        str(named.get("checkpoint_ns") or ""),
        str(named.get("checkpoint_id") or ""),
    )


# The store of long-term memory.

_NS: Final = "/agent/"
_SAFE: Final = " !#$&'()+,-.:;=?@[]^_`{|}~"
_HITS_MAX: Final = 1_000  # of `search`, before what lies elsewhere or fails a filter goes
_Path = tuple[str, ...]
_ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}


class _Store:
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

    @in_thread
    def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return self.batch(ops)

    def _get(self, namespace: _Path, key: str) -> Any:
        event = self._plane.get(_key(namespace, key), self._ns)
        return (
            None
            if event is None
            else _langgraph("store.base").Item(**_fields(event, namespace, key))
        )

    def _search(self, asked: Any) -> list[Any]:
        kept = (
            (event, score)
            for event, score in self._candidates(asked)
            if matches(event.data.get("item"), asked.filter or {})
        )
        found: list[Any] = []
        for number, (event, score) in enumerate(kept):
            if number >= asked.offset + asked.limit:
                break
            if number >= asked.offset:
                fields = _fields(event, *_read_back(event.key or ""))
                found.append(_langgraph("store.base").SearchItem(**fields, score=score))
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
                if event.key and event.key.startswith(begins) and "item" in event.data:
                    yield event, hit.score / 1000
            return
        for key in keys_below(self._plane, begins, self._ns):
            found = self._plane.get(key, self._ns)
            if found is not None:
                yield found, None

    def _namespaces(self, asked: Any) -> list[_Path]:
        found = dict.fromkeys(_read_back(key)[0] for key in keys_below(self._plane, "", self._ns))
        conditions = asked.match_conditions or ()
        named = {
            one[: asked.max_depth]
            for one in found
            if all(_is_under(one, condition) for condition in conditions)
        }
        return sorted(named)[asked.offset : asked.offset + asked.limit]

    def _row(self, put: Any) -> dict[str, Any]:
        key, value = _key(put.namespace, put.key), dict(put.value)
        before = self._plane.get(key, self._ns)
        created = None if before is None else before.data.get("created", before.ts)
        data = {"item": value} if created is None else {"item": value, "created": created}
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
    base = _langgraph("store.base.embed")
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
        "value": event.data["item"],
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


__getattr__ = classes(
    __name__,
    {
        "PlaneSaver": Over(_Saver, lambda: _langgraph("checkpoint.base").BaseCheckpointSaver),
        "PlaneStore": Over(_Store, lambda: _langgraph("store.base").BaseStore),
    },
)
