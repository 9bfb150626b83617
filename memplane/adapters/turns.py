"""What adapters of agents' frameworks share: their messages as turns, their bytes, their classes.

**Turns.** A message is a JSON value of its framework. What it says is the text of an event, and
stands in it once, so packs and searches use it as any other turn of its session; the rest lies in
`data` under the framework's name::

    data.NAME.value   the message, null where its text was taken out
    data.NAME.at      the names and places that lead to its text; none where it has no single one
    data.NAME.blob    the key that the message has, where it is too large for an event

Where the messages of a conversation begin in the log stands under a key of its own, so a session
that is opened reads the log from there, and nothing of it where the conversation is new. Secrets
are masked before anything is stored, so such a message comes back with the mask in it. A
`SessionTurns` keeps the events that it has read.

**Context.** A call of a model is sent, in this order: the instructions, the last turns of the
session as they are, a block, the newest prompt and what followed it (`ContextPacks`). Up to the
block each call begins with what the call before sent; between two prompts that is the whole call.
The block is packed once for each prompt, and holds nothing of what the messages hold already
(`held_seq`): what the session said before them, other sessions, statements.

**Bytes.** A value (`Blob`) is kept under a key, read back exactly and shown in no block or search:
an event of a `custom:` kind without a text, of high sensitivity, in the namespace of an agent that
does not speak (`/agent/langgraph`). Blocks and searches show texts, of which it has none, and look
into that namespace only for that agent; an agent's channel does not see it by name either. What a
value is now, the plane's own fold of keys says: it is cached beside the log, so nothing is read
again after a reopening. The bytes are compressed and stand as base64 in the `data` of the event.
What is too large for one event lies in several, written with it in one batch, before it::

    data.bytes   the bytes
    data.parts   [name, count]: they lie under p/OWNER/NAME/0 and so on; the name is the key's
    data.sum     the beginning of the SHA-256 of the bytes

The bytes are opaque: no rule finds a secret in them, so none is masked. Whoever stores secrets
encrypts before. A purge erases them as it erases any event.

**Classes.** An adapter imports its framework when that is used first. Its classes stand over a base
class of the framework and are made when they are first asked for.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import uuid
import zlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from itertools import chain
from threading import Lock
from types import MappingProxyType, new_class
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, get_type_hints

from memplane.errors import InputError, MissingExtraError, NotFoundError, PlaneError
from memplane.lazy import NamedTuple
from memplane.projections.in_force import forget_of

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.pack.block import Block
    from memplane.plane.plane import Plane


AGENTS: Final = "/agent/"
DATA_BYTES: Final = 32 * 1024  # of a message without its text, that stand in its event
SESSIONS_KEPT: Final = 64
BUDGET: Final = 2000
TURNS: Final = 20  # prompts that are sent with what followed them
PART_BYTES: Final = 36 * 1024  # of compressed bytes: 48 KiB as base64, of 64 KiB that data holds
PARTS_MAX: Final = 4096
SPELLED_BYTES: Final = 80
_TAIL: Final = 32  # events
_CLEARED: Final = "cleared by its program"
_SIZE_BYTES: Final = 4
_TRIES: Final = 3  # to read what others overwrite meanwhile
_ONE_BY_ONE: Final = 8  # above it the log is read once, and all is forgotten with one write
_DELETED: Final = "deleted by its program"
_PAGE: Final = 64
_NAME_MAX: Final = 128
_LEVEL: Final = 1  # of zlib
_Path = tuple[str | int, ...]
_P = ParamSpec("_P")
_T = TypeVar("_T")
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Over(NamedTuple):
    """A class of ours, what gives the framework's base class, and values of fields."""

    own: type
    base: Callable[[], type]
    values: Mapping[str, Any] = _NONE


def framework(begins: str, name: str, extra: str) -> Callable[[str], Any]:
    """What imports a framework's modules, by the end of their names.

    It raises MissingExtraError where the framework is not installed.
    """

    def module(ends: str) -> Any:
        try:
            return import_module(f"{begins}{ends}")
        except ImportError as error:
            raise MissingExtraError(name, extra) from error

    return module


def classes(home: str, made: Mapping[str, Over]) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562) for classes over those of a framework.

    What our class annotates are fields of the class that is made; `values` are their defaults.
    """

    @cache
    def make(name: str) -> type:
        own, base, values = made[name]
        told = {"__doc__": own.__doc__, "__module__": home, "__annotations__": get_type_hints(own)}
        body = {**told, **values}
        return new_class(name, (own, base()), exec_body=lambda space: space.update(body))

    def get(name: str) -> Any:
        if name not in made:
            raise AttributeError(f"module {home!r} has no attribute {name!r}")
        return make(name)

    return get


def in_thread(call: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """The same call for event loops: it runs in a thread, so that none waits for the disk."""

    @wraps(call)
    async def run(*given: _P.args, **named: _P.kwargs) -> _T:
        return await asyncio.to_thread(call, *given, **named)

    return run


class Blob(NamedTuple):
    """A value: the seq of its event, a JSON object that says what it is, and byte strings."""

    seq: int
    head: dict[str, Any]
    raws: tuple[bytes, ...]


class BlobRows:
    """The values of one program, in the namespace `/agent/PROGRAM`, of kind `custom:PROGRAM`.

    Threads and processes may share it. Each value has an owner: what `forget_owner` takes away at
    once, such as a thread.
    """

    def __init__(self, plane: Plane, program: str) -> None:
        self._plane, self._source = plane, program
        self._ns, self._kind = f"/agent/{program}", f"custom:{program}"

    def rows(
        self,
        key: str,
        head: Mapping[str, Any],
        raws: Sequence[bytes] = (),
        *,
        owner: str,
        session: str | None = None,
    ) -> list[dict[str, Any]]:
        """The events that keep a value, for `keep`; InputError where it is too large."""
        whole = _joined(head, raws)
        body = zlib.compress(whole, _LEVEL)
        data: dict[str, Any] = {"sum": _sum(whole)}
        found: list[dict[str, Any]] = []
        if len(body) <= PART_BYTES:
            data["bytes"] = _written(body)
        else:
            # Named after the key: parts of a value that is overwritten are overwritten as well.
            name = short_name(key)
            cuts = range(0, len(body), PART_BYTES)
            if len(cuts) > PARTS_MAX:
                most = PART_BYTES * PARTS_MAX
                raise InputError(f"found {len(body)} compressed bytes; expected at most {most}")
            for number, at in enumerate(cuts):
                part = {"bytes": _written(body[at : at + PART_BYTES])}
                found.append(self._row(_part(owner, name, number), part, owner, session))
            data["parts"] = [name, len(cuts)]
        data["owner"] = owner
        return [*found, self._row(key, data, owner, session)]

    def keep(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record the rows in their order, with one write; raises as `Plane.record` does."""
        if not rows:
            return
        self._plane.record_many(rows, batch=len(rows))

    def overwrite(self, made: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Record the rows of each key with one write; forget what only the values before needed."""
        before = [self._plane.get(key, self._ns) for key in made]
        rows = [row for some in made.values() for row in some]
        self.keep(rows)
        written = {row["key"] for row in rows}
        parts = (one for event in before if event is not None for one in _part_keys(event))
        self._forget([one for one in parts if one not in written])

    def get(self, key: str) -> Blob | None:
        """The value of a key, None where there is none; PlaneError where parts are missing."""
        for left in range(_TRIES, -1, -1):
            event = self._plane.get(key, self._ns)
            if event is None:
                return None
            try:
                return self._blob(key, event)
            except PlaneError:
                again = self._plane.get(key, self._ns)
                if not left or again is None or again.seq == event.seq:
                    raise  # else it was overwritten while its parts were read
        raise AssertionError("the last try returns or raises")

    def _blob(self, key: str, event: Event) -> Blob:
        data = event.data
        try:
            body = b"".join(self._bodies(data))
            whole = zlib.decompress(body)
        except (LookupError, TypeError, ValueError, zlib.error) as error:
            raise PlaneError(f"the value of {key!r} cannot be read: {error}") from error
        if _sum(whole) != data.get("sum"):
            raise PlaneError(f"the value of {key!r} is not what was stored")
        return _parted(event.seq, whole)

    def keys(self, prefix: str, limit: int | None = None) -> Iterator[str]:
        """See `keys_below`."""
        return keys_below(self._plane, prefix, self._ns, limit)

    def forget(self, key: str) -> None:
        """Forget one value with its parts; nothing where there is none."""
        self.forget_all([key])

    def forget_all(self, keys: Iterable[str]) -> None:
        """Forget values with their parts; many of them with one write."""
        found: list[str] = []
        for key in keys:
            event = self._plane.get(key, self._ns)
            if event is not None:
                found += [key, *_part_keys(event)]
        self._forget(found)

    def _forget(self, keys: Sequence[str]) -> None:
        if len(keys) > _ONE_BY_ONE:
            events = (self._plane.get(key, self._ns) for key in keys)
            ids = [event.id for event in events if event is not None]
            self._plane.work.forget_many(ids=ids, kind=self._kind, ns=self._ns, reason=_DELETED)
            return
        for one in keys:
            with suppress(NotFoundError):
                self._plane.forget(one, ns=self._ns)

    def forget_owner(self, owner: str, *, purge: bool = False) -> None:
        """Forget all that an owner has, or erase it for good; nothing where it has nothing."""
        source = f"{self._source}.{owner}"
        with suppress(NotFoundError):
            if purge:
                self._plane.upkeep.purge(source=source, reason=_DELETED)
            else:
                self._plane.forget(source=source, reason=_DELETED)

    def _row(
        self, key: str, data: dict[str, Any], owner: str, session: str | None
    ) -> dict[str, Any]:
        row = {
            "kind": self._kind,
            "ns": self._ns,
            "key": key,
            "sensitivity": "high",
            "id": f"{self._source}.{owner}:{uuid.uuid4().hex}",
            "data": data,
        }
        return row if session is None else {**row, "session": session}

    def _bodies(self, data: Mapping[str, Any]) -> Iterator[bytes]:
        if "parts" not in data:
            yield base64.b64decode(data["bytes"])
            return
        name, count = data["parts"]
        for number in range(min(count, PARTS_MAX)):
            part = self._plane.get(_part(data["owner"], name, number), self._ns)
            if part is None:
                raise LookupError(f"part {number + 1} of {count} is missing")
            yield base64.b64decode(part.data["bytes"])


def keys_below(plane: Plane, prefix: str, ns: str, limit: int | None = None) -> Iterator[str]:
    """The keys with a value, in byte order; only as many are listed as are asked for."""
    seen, size = 0, limit or _PAGE
    while True:
        found = plane.keys(prefix, ns, limit=size)
        yield from found[seen:]
        if not found.more or (limit is not None and len(found) >= limit):
            return
        seen, size = len(found), size * 4


def short_name(*words: str, size: int = 24) -> str:
    """Return a name of hex digits for texts of any length, other ones for other texts."""
    told = json.dumps(words).encode()
    return hashlib.sha256(told).hexdigest()[:size]


def turned_id(name: str) -> str:
    """Return a text whose byte order is the reverse of the name's: the greatest comes first."""
    turned = bytes(255 - one for one in name.encode("utf-8", "surrogatepass"))
    return f"{turned.hex()}~"


def spelled(name: str) -> str:
    """Return a key's part for a name of any length and form, in hex digits: no word to search for.

    It begins with that of each text that the name begins with, up to SPELLED_BYTES of UTF-8; a
    longer name ends in `~` and its digest, and is not read back from it.
    """
    told = name.encode("utf-8", "surrogatepass")
    cut = told[:SPELLED_BYTES].hex()
    return cut if len(told) <= SPELLED_BYTES else f"{cut}~{short_name(name)}"


def read_back(part: str) -> str | None:
    """Return the name that a key's part spells, None where it was too long."""
    return None if "~" in part else bytes.fromhex(part).decode("utf-8", "surrogatepass")


def spelled_prefix(name: str) -> str:
    """Return what the parts of all names that begin with this one begin with."""
    return name.encode("utf-8", "surrogatepass")[:SPELLED_BYTES].hex()


def session_of(thread: str) -> str:
    """Return the session that a thread is: its name, or a digest where that is no session's."""
    plain = 0 < len(thread) <= _NAME_MAX and thread.isprintable()
    return thread if plain else f"thread-{short_name(thread)}"


def _part(owner: str, name: str, number: int) -> str:
    return f"p/{owner}/{name}/{number}"


def _part_keys(event: Event) -> Iterator[str]:
    if "parts" in event.data:
        name, count = event.data["parts"]
        for number in range(min(count, PARTS_MAX)):
            yield _part(event.data["owner"], name, number)


def _written(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _sum(whole: bytes) -> str:
    return hashlib.sha256(whole).hexdigest()[:16]


def _joined(head: Mapping[str, Any], raws: Sequence[bytes]) -> bytes:
    told = json.dumps([head, [len(raw) for raw in raws]]).encode()
    return b"".join([len(told).to_bytes(_SIZE_BYTES, "big"), told, *raws])


def _parted(seq: int, whole: bytes) -> Blob:
    at = _SIZE_BYTES + int.from_bytes(whole[:_SIZE_BYTES], "big")
    head, sizes = json.loads(whole[_SIZE_BYTES:at])
    raws: list[bytes] = []
    for size in sizes:
        raws.append(whole[at : at + size])
        at += size
    return Blob(seq, head, tuple(raws))


class Said(NamedTuple):
    """A message: who says it, its JSON value and where its text stands in that.

    Where no single text does, `at` is empty and `text` is what a block and a search show.
    """

    role: str | None
    value: Any
    at: _Path = ()
    text: str = ""
    kind: str = "message"
    tool: str | None = None  # that is called


class KeptTurn(NamedTuple):
    """A message that was stored: its event's seq, id, session and role, and its JSON value."""

    seq: int
    id: str
    session: str | None
    role: str | None
    value: Any


class SessionTurns:
    """The messages that a program keeps in one session, in their order.

    Other turns of the session are not among them. `owner` sets those of one conversation apart from
    others of the same session. Threads and processes may share a plane. `ns` is where they lie: an
    agent's namespace is its own, any other is for all that read the plane.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        session: str,
        program: str,
        owner: str | None = None,
        ns: str | None = None,
    ) -> None:
        self._plane, self._program, self._ns = plane, program, ns
        own = ns is not None and ns.startswith(AGENTS)
        self._agent = ns.removeprefix(AGENTS) if own and ns is not None else None
        self.session = session_of(session)
        self.owner = owner or short_name(session)
        self.source = f"{program}.{self.owner}"
        self._blobs = BlobRows(plane, program)
        self._mark = f"t/{short_name(self.owner, self.session)}"
        self._begun: int | None = None  # the seq before the first message, None while unknown
        self._lock, self._popping = Lock(), Lock()
        self._ids: dict[int, str] = {}  # of the messages up to the seq `_upto`, by their seq
        self._seqs: dict[str, int] = {}  # the other way round
        self._found: dict[int, Event] = {}  # those of them that are in force
        self._upto = 0

    def id(self, name: str) -> str:
        """The id of the event of a message that has a name of its own."""
        return f"{self.source}:{name}"

    def rows(self, said: Said, name: str | None = None) -> list[dict[str, Any]]:
        """The events that keep a message; of a name that is there already nothing is stored.

        For the first message of a conversation it is recorded where that begins.
        """
        self._begin()
        text, value = _taken(said)
        kept: dict[str, Any] = {"value": value}
        if said.at:
            kept["at"] = list(said.at)
        found: list[dict[str, Any]] = []
        raw = json.dumps(kept).encode()
        if len(raw) > DATA_BYTES:
            key = f"m/{self.owner}/{uuid.uuid4().hex}"
            found += self._blobs.rows(key, {}, [raw], owner=self.owner, session=self.session)
            kept = {"blob": key}
        data: dict[str, Any] = {self._program: kept}
        if said.tool is not None:
            data["tool"] = said.tool
        row = {
            "kind": said.kind,
            "session": self.session,
            "id": self.id(name or uuid.uuid4().hex),
            "text": text,
            "data": data,
        }
        given = {"role": said.role, "ns": self._ns}
        found.append({**row, **{key: one for key, one in given.items() if one is not None}})
        return found

    def add(self, messages: Iterable[Said]) -> None:
        """Record messages with one write; raises as `Plane.record` does."""
        self._blobs.keep([row for said in messages for row in self.rows(said)])

    def add_named(self, messages: Mapping[str, Said]) -> None:
        """The same for messages by their names; of a name that is there already nothing is stored.

        Nor is one that was forgotten or purged stored again.
        """
        rows = [row for name, said in messages.items() for row in self.rows(said, name)]
        if rows:
            self._plane.record_many(rows, batch=len(rows), strict=False)

    def turns(self, last: int | None = None) -> list[KeptTurn]:
        """The messages in force, or the last of them; of the log only what is new is read."""
        events, _ = self._look()
        if last is not None:
            events = events[max(0, len(events) - last) :]
        return [self._turn(event) for event in events]

    def _look(self) -> tuple[list[Event], int]:
        """The events in force, and the seq up to which the log was read for them."""
        with self._lock:
            self._follow()
            return list(self._found.values()), self._upto

    def _begin(self) -> None:
        if self._begins() is None:
            head = {"after": self._plane.head().seq}
            # Of an owner of its own: it stays when the messages are forgotten, for those to come.
            # Under one id: of two that begin at once the first says where.
            (row,) = self._blobs.rows(self._mark, head, owner="begins")
            self._blobs.keep([{**row, "id": f"{self._program}.begins:{self._mark[2:]}"}])

    def _begins(self) -> int | None:
        if self._begun is None:
            blob = self._blobs.get(self._mark)
            self._begun = None if blob is None else int(blob.head["after"])
        return self._begun

    def _follow(self) -> None:
        head = self._plane.head().seq
        if head <= self._upto:
            return
        begins = self._begins()
        if begins is None:  # what is recorded from now on is behind this head
            self._upto = head
            return
        self._upto = max(self._upto, begins)
        begin, named = f"{self.source}:", set[int]()
        for one in self._since(head):
            self._upto = max(self._upto, one.seq)
            if one.id.startswith(begin):
                of_ns = self._ns is None or one.ns == self._ns
                if of_ns and one.session == self.session and self._program in one.data:
                    self._ids[one.seq], self._seqs[one.id] = one.id, one.seq
                    self._found[one.seq] = one
            elif one.kind == "forget":
                named |= self._named(one)
            elif one.kind == "purge":
                named = {*self._ids}
        if named:
            left = {
                seq: self._in_force(seq) if seq in named else self._found.get(seq)
                for seq in self._ids
            }
            self._found = {seq: event for seq, event in left.items() if event is not None}
        self._upto = max(head, self._upto)

    def _since(self, head: int) -> Iterator[Event]:
        """The session's events behind `_upto`, and those that forget and purge; maybe others.

        Each question reads the log anew, so of a short tail all is asked for at once.
        """
        events = self._plane.events
        asked: dict[str, Any] = {"after": self._upto, "agent": self._agent}
        if head - self._upto <= _TAIL:
            return events(**asked)
        return chain(
            events(session=self.session, ns=self._ns, **asked),
            events(kind="forget", **asked),
            events(kind="purge", **asked),
        )

    def _named(self, event: Event) -> set[int]:
        """The messages whose standing a forget may change: a message has no key and no end."""
        forget = forget_of(event)
        return {
            seq
            for seq, id_ in self._ids.items()
            if forget is None or forget.names(id_, self.session)
        }

    def _in_force(self, named: int | str) -> Event | None:
        try:
            event = self._plane.event(named, agent=self._agent)
        except NotFoundError:  # purged
            return None
        kept = self._program in event.data and self._plane.work.archived(event) is None
        return event if kept else None

    def turn(self, named: int | str) -> KeptTurn | None:
        """The message of a seq or id; None where there is none, or it was forgotten or purged."""
        with self._lock:
            seq = self._seqs.get(named, 0) if isinstance(named, str) else named
            known = seq in self._ids
            if known:
                self._follow()
            event = self._found.get(seq) if known else self._in_force(named)
        return None if event is None else self._turn(event)

    def _turn(self, event: Event) -> KeptTurn:
        return KeptTurn(event.seq, event.id, event.session, event.role, self._value(event))

    def pop(self, at: int = -1) -> KeptTurn | None:
        """Forget the message at a place and return it; None where there is none.

        Of those that pop at once, in whatever processes, no two are given the same one: it is
        given to the one whose forget stands first in the log.
        """
        with self._popping:
            while True:
                events, upto = self._look()
                if not -len(events) <= at < len(events):
                    return None
                turn = self._turn(events[at])
                with suppress(NotFoundError):  # purged meanwhile
                    if self._was_first(turn.id, self.forget(turn.id), upto):
                        return turn

    def forget(self, id_: str) -> int:
        """Forget one message; the seq of the forget. NotFoundError where it is not there."""
        done = self._plane.forget(id=id_, reason=_CLEARED)
        with self._lock:
            if done.seq == self._upto + 1:  # nothing else was written meanwhile
                self._found = {seq: one for seq, one in self._found.items() if one.id != id_}
                self._upto = done.seq
        return done.seq

    def _was_first(self, id_: str, seq: int, upto: int) -> bool:
        """Whether no forget behind `upto` and before `seq` names a message."""
        first = True
        if upto + 1 < seq:
            for event in self._plane.events(kind="forget", after=upto, agent=self._agent):
                forget = forget_of(event) if event.seq < seq else None
                if forget is not None and forget.names(id_, self.session):
                    first = forget.undo
        return first

    def clear(self) -> None:
        """Forget the messages, and nothing else of the session; nothing where there are none."""
        try:
            self._plane.forget(source=self.source, reason=_CLEARED)
        except NotFoundError:
            return

    def _value(self, event: Event) -> Any:
        kept = event.data[self._program]
        if "blob" in kept:
            blob = self._blobs.get(kept["blob"])
            kept = {"value": None} if blob is None else json.loads(blob.raws[0])
        value = json.loads(json.dumps(kept["value"]))  # a caller may change what it is given
        if at := kept.get("at"):
            at_path(value, at[:-1])[at[-1]] = self._plane.text(event)
        return value


class RecentSessions(Generic[_T]):
    """What was made for the sessions that were used last, at most SESSIONS_KEPT of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[str, _T] = {}

    def of(self, name: str, make: Callable[[], _T]) -> _T:
        """What was made for a name, made where it is not among them."""
        with self._lock:
            found = self._kept.pop(name) if name in self._kept else make()
            while len(self._kept) >= SESSIONS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[name] = found
            return found


def texts_in(value: Any, *, names: Sequence[str] = ("text",)) -> Iterator[_Path]:
    """The paths of a message's texts: of the value itself, or of items of a list under `names`."""
    if isinstance(value, str):
        yield ()
    elif isinstance(value, list):
        for at, one in enumerate(value):
            for name in names:
                if isinstance(one, dict) and isinstance(one.get(name), str):
                    yield at, name


def at_path(value: Any, path: Sequence[str | int]) -> Any:
    """What stands at a path."""
    for step in path:
        value = value[step]
    return value


def said_at(role: str | None, value: Any, paths: Sequence[_Path], *, kind: str = "message") -> Said:
    """A message of one text, or of several, which are joined for its event."""
    if len(paths) == 1:
        return Said(role, value, paths[0], kind=kind)
    return Said(role, value, (), "\n".join(at_path(value, path) for path in paths), kind)


def call_said(value: Any, name: str, arguments: Any) -> Said:
    """A message that is a call of a tool and says nothing else."""
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Said("assistant", value, (), f"{name} {told}", "tool_call", name)


def _taken(said: Said) -> tuple[str, Any]:
    """The text of a message, and its value without it."""
    if not said.at:
        return said.text, said.value
    value = json.loads(json.dumps(said.value))
    inner = at_path(value, said.at[:-1])
    text, inner[said.at[-1]] = inner[said.at[-1]], None
    return text, value


def kept_from(prompts: int, turns: int) -> int:
    """Which prompt of a session, counted from 0, is the first that is sent with its messages.

    At most `turns` and the newest one are. Where there would be more, half of them go at once: the
    answer changes with every half of `turns` prompts alone. InputError for fewer than 1 turn.
    """
    if turns < 1:
        raise InputError(f"expected 1 or more, found {turns}", where="turns")
    step = max(1, (turns + 1) // 2)
    over = prompts - 1 - turns
    return 0 if over <= 0 else -(-over // step) * step


class ContextPacks:
    """Context for the calls of one session: one block a prompt, of at most `budget` tokens.

    `turns`: how many of the session's earlier prompts are sent as they are, at most. `asked` goes
    to `plane.pack`; `watch` is given each block.
    """

    def __init__(
        self,
        plane: Plane,
        session: str,
        *,
        budget: int = BUDGET,
        channel: str = "agent",
        turns: int = TURNS,
        watch: Callable[[Any], None] | None = None,
        **asked: Any,
    ) -> None:
        self._plane, self._most, self._watch = plane, turns, watch
        self._asked = {**asked, "session": session, "budget": budget, "channel": channel}
        self._last: tuple[tuple[str, int, str | int], Block] | None = None

    def block(self, prompt: str, held: int, event: str | None) -> Block:
        """The block for a prompt whose messages hold what the session said behind the seq `held`.

        `event` is the id of the prompt's event, if it is stored. Raises as `plane.pack` does.
        """
        named = (prompt, held, self._plane.head().seq if event is None else event)
        if self._last is None or self._last[0] != named:
            more: dict[str, Any] = {} if event is None else {"query_event": event}
            block = self._plane.pack(prompt, held_seq=held, **more, **self._asked)
            self._last = (named, block)
        if self._watch is not None:
            self._watch(self._last[1])
        return self._last[1]

    def first(self, prompts: Sequence[int]) -> int:
        """Which of the prompts of a call is the first that is sent; `prompts`: their places."""
        return kept_from(len(prompts), self._most)

    @in_thread
    def sent(
        self,
        messages: Sequence[Any],
        prompt_of: Callable[[Any], str | None],
        as_message: Callable[[str], Any],
        stored: Callable[[], Sequence[KeptTurn]],
        *,
        pending: bool = False,
    ) -> list[Any]:
        """The messages that a call sends: the last of them, the block before the newest prompt.

        `prompt_of` is the text of a message that is a prompt, `as_message` makes one of a block's
        text. `stored` gives the session's turns; with `pending` the newest prompt is not yet one.
        """
        prompts = [at for at, one in enumerate(messages) if prompt_of(one) is not None]
        if not prompts:
            return [*messages]
        first, newest = self.first(prompts), prompts[-1]
        back = len(prompts) - first - pending
        said = [turn for turn in stored() if turn.role == "user"]
        there = 0 < back <= len(said)
        held = said[-back].seq - 1 if there else self._plane.head().seq
        event = said[-1].id if there and not pending else None
        text = self.block(prompt_of(messages[newest]) or "", held, event).text
        before = messages[prompts[first] if first else 0 : newest]
        return [*before, *([as_message(text)] if text else []), *messages[newest:]]
