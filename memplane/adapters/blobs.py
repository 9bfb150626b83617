"""Bytes of programs in a plane: kept under keys, read back exactly, shown in no block or search.

A value is an event of a `custom:` kind without a text, of high sensitivity, in the namespace of an
agent that does not speak (`/agent/langgraph`). Blocks and searches show texts, of which it has
none, and look into that namespace only for that agent; an agent's channel does not see it by name
either. What a value is now, the plane's own fold of keys says: it is cached beside the log, so
nothing is read again after a reopening.

The bytes are compressed and stand as base64 in the `data` of the event. What is too large for one
event lies in several, written with it in one batch, before it::

    data.bytes   the bytes
    data.parts   [name, count]: they lie under p/OWNER/NAME/0 and so on; the name is the key's
    data.sum     the beginning of the SHA-256 of the bytes

The bytes are opaque: no rule finds a secret in them, so none is masked. Whoever stores secrets
encrypts before. A purge erases them as it erases any event.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError, NotFoundError, PlaneError
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.plane import Plane

PART_BYTES: Final = 36 * 1024  # of compressed bytes: 48 KiB as base64, of 64 KiB that data holds
PARTS_MAX: Final = 4096
SPELLED_BYTES: Final = 80
_SIZE_BYTES: Final = 4
_TRIES: Final = 3  # to read what others overwrite meanwhile
_ONE_BY_ONE: Final = 8  # above it the log is read once, and all is forgotten with one write
_REASON: Final = "deleted by its program"
_PAGE: Final = 64
_NAME_MAX: Final = 128
_LEVEL: Final = 1


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
            self._plane.work.forget_many(ids=ids, kind=self._kind, ns=self._ns, reason=_REASON)
            return
        for one in keys:
            with suppress(NotFoundError):
                self._plane.forget(one, ns=self._ns)

    def forget_owner(self, owner: str, *, purge: bool = False) -> None:
        """Forget all that an owner has, or erase it for good; nothing where it has nothing."""
        source = f"{self._source}.{owner}"
        with suppress(NotFoundError):
            if purge:
                self._plane.upkeep.purge(source=source, reason=_REASON)
            else:
                self._plane.forget(source=source, reason=_REASON)

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
