"""The `SessionStore` of the Claude Agent SDK over a plane: resumable transcripts, and recall.

Each entry of a transcript is stored twice, both times under ids made of its uuid. As it is, in
events of kind `session`: `load` returns it from there, and no block or search shows it. And as the
events that an import of the transcript would record, which packs and searches use (`Recall`);
an import of the same transcript then finds those events there already.

Deleting a conversation forgets its entries and the recall events of its session. The log keeps both
until a purge; entries appended later start a new transcript. Secrets are masked before anything is
stored, so `load` returns such an entry with the mask in it, the only difference from what was
stored. Forgetting one message hides it from recall but not from its transcript, which could not be
resumed without it; forgetting a session hides both.

The index of stored transcripts is `projections/transcripts.sqlite`::

    place     position in the log, plane, and a mark that no copy of the file has
    keys      one row for each transcript: project, conversation and branch; `cut` is the seq of
              the last forget that removed entries of it, or of the undo that returned them
    entries   one row for each event that holds an entry or a part of one
    summaries the summary that a fold gave of a conversation up to a seq, at a `cut`

The file is a cache, derived from the events of the log alone. It is built again where the log does
not hold the line that it was made at, where it is damaged or a copy, and after a purge, which
empties its folder. Where another process is writing it, new events are folded into a copy in
memory.

An entry is any JSON object; `packed` and `unpacked` convert it to the `data` of events and back.
`Recall` records what an import of the same entries would record.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, cast

from memplane import nofollow
from memplane.errors import InputError, MemplaneError, MissingExtraError
from memplane.event import Event
from memplane.importers.claude_code import SOURCE, ClaudeCode
from memplane.importers.records import Hooked
from memplane.importers.rows import name
from memplane.index.storage import alone
from memplane.intake import timestamp, with_permitted_actor
from memplane.intake.redact import unexpected
from memplane.lazy import NamedTuple
from memplane.ports import Line, Position
from memplane.projections.in_force import Forget, forget_of
from memplane.projections.memories import Broken, Database
from memplane.projections.projector import Replayable, catch_up

if TYPE_CHECKING:
    from memplane.importers.rows import Row
    from memplane.plane.plane import Plane


Answer = TypeVar("Answer")
ENTRY: Final = "entry"  # the status of a `session` event that holds one
_NAME: Final = "transcripts.sqlite"
_VERSION: Final = 1
_TRIES: Final = 25  # to write while others do
_PAUSE_S: Final = 0.02
_PARTS_MAX: Final = 1_000_000
_IDS_AT_ONCE: Final = 500
_SCHEMA: Final = """
CREATE TABLE place (version, plane, inode, seq, h, segment, "offset");
CREATE TABLE keys (project, conversation, branch, session_id, subpath, cut INTEGER DEFAULT 0,
    PRIMARY KEY (conversation, branch)) WITHOUT ROWID;
CREATE INDEX by_project ON keys (project, branch);
CREATE TABLE entries (seq INTEGER PRIMARY KEY, conversation, branch, stem, part, parts, id UNIQUE,
    session, ms, gone INTEGER DEFAULT 0);
CREATE INDEX by_key ON entries (conversation, branch, seq);
CREATE INDEX by_session ON entries (session);
CREATE TABLE summaries (conversation PRIMARY KEY, upto, cut, data) WITHOUT ROWID;
"""
_LIVE: Final = "conversation=? AND branch=? AND gone=0"


class TranscriptPlace(NamedTuple):
    """Which transcript: hashes of its project, of the conversation in it, and of its branch.

    The branch is "" for the main transcript, else the hash of a sub-agent's path.
    """

    project: str
    conversation: str
    branch: str


class TranscriptIndex:
    """Follows the log when asked to `catch_up`; answers as of then. One thread at a time."""

    def __init__(self, log: Replayable, folder: Path | None, *, plane: str) -> None:
        self._log, self._plane = log, plane
        self._path = folder / _NAME if folder is not None else None
        self._db: Database | None = None
        self._inode = 0
        self._at: Position | None = None

    # --- following the log ---

    @property
    def position(self) -> Position | None:
        """Behind the last folded line; None before the first."""
        return self._at

    def catch_up(self) -> None:
        """Fold what was appended since."""
        try:
            self._follow()
        except (Broken, OSError):
            self._distrust()

    def ask(self, question: Callable[[TranscriptIndex], Answer]) -> Answer:
        """Catch up and ask; where the file turns out to be harmed, once more without it."""
        self.catch_up()
        try:
            return question(self)
        except Broken:
            self._distrust()
            return question(self)

    def _distrust(self) -> None:
        """Harmed, or held by a stranger: fold all of it once more, beside the file."""
        self._drop()
        self._path = None
        self._create(None)
        self._write()

    def _follow(self) -> None:
        if self._path is None:
            if self._db is None:
                self._create(None)
            self._write()
            return
        if self._db is not None and not self._is_there():
            self._drop()
        if self._db is not None and self._stands():
            return
        for _ in range(_TRIES):
            with alone(self._path.parent) as held:
                if held:
                    self._open(self._path)
                    self._write()
                    return
            time.sleep(_PAUSE_S)
        self._copy_to_memory()
        self._write()

    def _stands(self) -> bool:
        head, at = self._log.head(), self._at
        return at is not None and (at.seq, at.h) == (head.seq, head.h)

    def _is_there(self) -> bool:
        assert self._path is not None
        with contextlib.suppress(OSError):
            found = self._path.lstat()
            return found.st_ino == self._inode and found.st_nlink == 1
        return False

    def _open(self, path: Path) -> None:
        """Open the file, or make it anew. Hold `alone`."""
        if self._db is None:
            with contextlib.suppress(Broken, OSError):
                self._inode = path.lstat().st_ino
                self._db = Database(path)
                self._at = self._stated()
                return
            self._drop()
            for ending in ("-journal", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    nofollow.remove_name(path.with_name(f"{path.name}{ending}"))
            os.close(nofollow.create_draft(path))
            self._inode = path.lstat().st_ino
            self._create(path)
        else:
            self._at = self._stated()  # another process may have folded more

    def _create(self, path: Path | None) -> None:
        self._db, self._at = Database(path), None
        self._db.script(f"BEGIN;{_SCHEMA}")
        self._db.rows("COMMIT")

    def _copy_to_memory(self) -> None:
        memory = Database(None)
        with contextlib.suppress(Broken, OSError):
            if self._db is None and self._path is not None and nofollow.is_file(self._path):
                self._inode = self._path.lstat().st_ino
                self._db = Database(self._path, "ro")
                self._at = self._stated()
            if self._db is not None:
                self._db.copy_to(memory)
                self._drop(keep=True)
                self._db, self._path = memory, None
                return
        memory.close()
        self._drop()
        self._path = None
        self._create(None)

    def _stated(self) -> Position | None:
        found = self._rows('SELECT version, plane, inode, seq, h, segment, "offset" FROM place')
        if not found:
            return None
        version, plane, inode, *at = found[0]
        if (version, plane, inode) != (_VERSION, self._plane, self._inode):
            raise Broken("another plane's, or a copy")
        return Position(*at)

    def _write(self) -> None:
        """Fold the rest of the log, all or nothing."""
        assert self._db is not None
        before = self._at
        self._db.rows("BEGIN IMMEDIATE")
        try:
            catch_up(self._log, [self])
            self._db.rows("DELETE FROM place")
            if self._at is not None:
                row = (_VERSION, self._plane, self._inode, *_of_head(self._at))
                self._db.rows("INSERT INTO place VALUES (?,?,?,?,?,?,?)", row)
            self._db.rows("COMMIT")
        except BaseException:
            self._at = before
            self._db.rows("ROLLBACK")
            raise

    def reset(self) -> None:
        """Go back to before the first line."""
        self._at = None
        for table in ("keys", "entries", "summaries"):
            self._do(f"DELETE FROM {table}")  # noqa: S608 - our own names

    def fold(self, lines: Sequence[Line]) -> None:
        """Fold the next lines."""
        for line in lines:
            event = line.event
            if event.kind == "session":
                self._take(event)
            elif event.kind == "forget":
                said = forget_of(event)
                if said is not None:
                    self._forget(said, event.seq)
        last = lines[-1]
        self._at = last.position

    def _take(self, event: Event) -> None:
        data = event.data
        place, part = _place_of(data.get("of")), data.get("part", [1, 1])
        if data.get("status") != ENTRY or place is None or not _part(part):
            return
        project, conversation, branch = place
        stem = data.get("stem", event.id)
        told = [data.get("conversation"), data.get("subpath")]
        told = [one if isinstance(one, str) else "" for one in told]
        self._do(
            "INSERT OR IGNORE INTO keys (project, conversation, branch, session_id, subpath)"
            " VALUES (?,?,?,?,?)",
            (project, conversation, branch, *told),
        )
        self._do(
            "INSERT OR IGNORE INTO entries"
            " (seq, conversation, branch, stem, part, parts, id, session, ms)"
            " VALUES (?,?,?,?,?,?,?,?,?)",
            (
                event.seq,
                conversation,
                branch,
                str(stem),
                *part,
                event.id,
                event.session,
                _milliseconds(event.rec),
            ),
        )

    def _forget(self, said: Forget, seq: int) -> None:
        if said.session is not None:
            self._mark(said, seq, "session=?", [said.session])
        elif said.source is not None:
            # All that begins with "source:": the character behind the colon ends them.
            bounds = [f"{said.source}:", f"{said.source};"]
            self._mark(said, seq, "id>=? AND id<?", bounds)
        else:
            ids = sorted(said.ids)
            for at in range(0, len(ids), _IDS_AT_ONCE):
                some = ids[at : at + _IDS_AT_ONCE]
                self._mark(said, seq, f"id IN ({','.join('?' * len(some))})", some)

    def _mark(self, said: Forget, seq: int, which: str, values: list[str]) -> None:
        gone = int(not said.undo)
        which = f"{which} AND gone<>{gone}"
        self._do(
            f"UPDATE keys SET cut=? WHERE (conversation, branch) IN"  # noqa: S608 - our own names
            f" (SELECT conversation, branch FROM entries WHERE {which})",
            [seq, *values],
        )
        self._do(f"UPDATE entries SET gone={gone} WHERE {which}", values)  # noqa: S608

    # --- answers ---

    def entries(self, place: TranscriptPlace, after: int = 0) -> list[tuple[int, str, int, int]]:
        """Seq, stem, part and parts of what a transcript holds now, in log order."""
        return self._rows(
            f"SELECT seq, stem, part, parts FROM entries WHERE {_LIVE} AND seq>? ORDER BY seq",  # noqa: S608
            (place.conversation, place.branch, after),
        )

    def holds(self, place: TranscriptPlace) -> bool:
        """Whether a transcript holds anything; of a main one, it or one of its sub-agents."""
        query = f"SELECT 1 FROM entries WHERE {_LIVE} LIMIT 1"  # noqa: S608 - our own names
        values = [place.conversation, place.branch]
        if not place.branch:
            query, values = query.replace("branch=?", "1"), values[:1]
        return bool(self._rows(query, values))

    def gone(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that were forgotten."""
        found = set[str]()
        for at in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[at : at + _IDS_AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT id FROM entries WHERE gone=1 AND id IN ({marks})"  # noqa: S608
            found.update(one for (one,) in self._rows(query, some))
        return found

    def conversations(self, project: str) -> list[tuple[str, str, int, int, int]]:
        """Of each main transcript: conversation, session id, cut, last seq and its time in ms."""
        return self._rows(
            "SELECT k.conversation, k.session_id, k.cut, e.seq, e.ms FROM keys k JOIN entries e"
            " ON e.seq=(SELECT seq FROM entries WHERE conversation=k.conversation AND branch=''"
            " AND gone=0 ORDER BY seq DESC LIMIT 1) WHERE k.project=? AND k.branch=''"
            " ORDER BY e.seq",
            (project,),
        )

    def branches(self, conversation: str) -> list[str]:
        """The paths of the sub-agents that have entries, in the order of their hashes."""
        found = self._rows(
            "SELECT subpath FROM keys k WHERE conversation=? AND branch<>'' AND EXISTS (SELECT 1"
            " FROM entries WHERE conversation=k.conversation AND branch=k.branch AND gone=0)",
            (conversation,),
        )
        return [path for (path,) in found]

    def any_left(self, session: str) -> bool:
        """Whether any transcript of that session holds anything, in whatever project."""
        query = "SELECT 1 FROM entries WHERE session=? AND gone=0 LIMIT 1"
        return bool(self._rows(query, (session,)))

    def summary(self, conversation: str, cut: int) -> tuple[int, dict[str, Any]] | None:
        """What was kept of a conversation at a cut, and up to which seq."""
        query = "SELECT upto, data FROM summaries WHERE conversation=? AND cut=?"
        found = self._rows(query, (conversation, cut))
        return (found[0][0], json.loads(found[0][1])) if found else None

    def keep(self, rows: Sequence[tuple[str, int, int, dict[str, Any]]]) -> None:
        """Keep summaries: conversation, upto, cut, data. Where others write, nothing is kept."""
        with contextlib.ExitStack() as stack:
            if self._path is not None and not stack.enter_context(alone(self._path.parent)):
                return
            if self._path is not None and not self._is_there():  # a purge took it meanwhile
                return
            values = [(*row[:3], json.dumps(row[3])) for row in rows]
            with contextlib.suppress(Broken):
                assert self._db is not None
                self._db.rows("BEGIN IMMEDIATE")
                query = "INSERT OR REPLACE INTO summaries VALUES (?,?,?,?)"
                self._db.many(query, values)
                self._db.rows("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._drop()

    def _drop(self, *, keep: bool = False) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        if not keep:
            self._at = None

    def _do(self, query: str, values: Sequence[Any] = ()) -> None:
        assert self._db is not None
        self._db.rows(query, values)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        assert self._db is not None
        return self._db.rows(query, values)


def _of_head(at: Position) -> Iterator[int | str]:
    yield from (at.seq, at.h, at.segment, at.offset)


def _place_of(value: Any) -> TranscriptPlace | None:
    if not isinstance(value, list) or len(value) != len(TranscriptPlace._fields):
        return None
    return TranscriptPlace(*value) if all(isinstance(one, str) for one in value) else None


def _part(value: Any) -> bool:
    """Whether this is [n, of so many]."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) is int for number in value)
        and 1 <= value[0] <= value[1] <= _PARTS_MAX
    )


def _milliseconds(rec: str) -> int:
    return int(datetime.fromisoformat(rec).timestamp() * 1000)


# A transcript's entry, any JSON object, as the `data` of events, and back.
#
# An entry that fits is kept as it is, under `entry`. One that is too large, too deep, or holds what
# an event's data cannot (NUL, lone surrogates, integers beyond 64 bits, NaN) is taken to its
# leaves, in order, over as many events as it needs::
#
#     leaves   [[path, form, value], ...]; path: keys and numbers from the outside in
#     forms    v  the value itself
#              s  a piece of a long string; pieces with the same path belong together
#              j  the JSON of a value, in ASCII: a piece of a string, or a number
#              c  an empty object or list
#
# A path with a key that data cannot hold is written as its JSON. Secrets are masked in the whole
# entry before it is cut, so that none is missed for lying on a cut.

Counts: TypeAlias = Mapping[str, int]
Leaf: TypeAlias = list[Any]
_BYTES_MAX: Final = 44 * 1024  # of data's 64 KiB: names, places and marks of secrets need some
_DEPTH_MAX: Final = 24  # of data's 32
_PIECE: Final = 3_000  # characters: 14 bytes each at worst, as JSON of JSON in ASCII
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


def packed(
    entry: Mapping[str, Any], redact: Callable[[Any], tuple[Any, Counts]]
) -> list[dict[str, Any]]:
    """Return the parts of an entry, in order; each goes into the data of one event.

    Raises InputError for what is no JSON object, or one nested deeper than Python goes.
    """
    try:
        if _fits(entry):
            return [{"entry": dict(entry)}]
        clean, counts = redact(dict(entry))
        parts: list[dict[str, Any]] = [{"leaves": some} for some in _portions(_leaves(clean, []))]
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"no JSON object that can be stored: {error}", where="entry") from error
    if counts:
        parts[0]["redactions"] = dict(sorted(counts.items()))
    return parts


def unpacked(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the entry that these parts, all of them and in order, hold; None where they are none.

    What a caller gave is not believed: a part of another form holds nothing.
    """
    whole = parts[0].get("entry")
    if len(parts) == 1 and isinstance(whole, dict):
        return whole
    root: dict[str, Any] = {}
    try:
        for path, values in _by_path(leaf for part in parts for leaf in part["leaves"]):
            _put(root, path, _joined(values))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    return root


def _fits(entry: Mapping[str, Any]) -> bool:
    try:
        written = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(written.encode())
    except ValueError:  # NaN, a lone surrogate, or a circle, which has no leaves either
        return False
    if size > _BYTES_MAX or "\\u0000" in written or _LONG_NUMBER.search(written):
        return False
    return _depth(entry) <= _DEPTH_MAX


def _depth(value: Any) -> int:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return 1 + max(map(_depth, value), default=0)


def _leaves(value: Any, path: list[str | int]) -> Iterator[Leaf]:
    if isinstance(value, Mapping | list | tuple) and value:
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in inner:
            yield from _leaves(item, [*path, key])
        return
    place = _entry_place(path)
    if isinstance(value, Mapping | list | tuple):
        yield [place, "c", {} if isinstance(value, Mapping) else []]
    elif isinstance(value, str):
        yield from ([place, *_piece(value[at : at + _PIECE])] for at in _cuts(value))
    elif isinstance(value, bool) or value is None:
        yield [place, "v", value]
    elif isinstance(value, int | float):
        plain = isinstance(value, int) and _INT_MIN <= value <= _INT_MAX
        plain = plain or (isinstance(value, float) and value - value == 0)
        yield [place, "v", value] if plain else [place, "j", json.dumps(value)]
    else:
        raise TypeError(f"found {type(value).__name__}")


def _cuts(text: str) -> Iterable[int]:
    return range(0, len(text), _PIECE) if text else (0,)


def _piece(text: str) -> tuple[str, str]:
    return ("j", json.dumps(text)) if _UNSTORABLE.search(text) else ("s", text)


def _entry_place(path: list[str | int]) -> list[str | int] | str:
    strange = any(isinstance(key, str) and _UNSTORABLE.search(key) for key in path)
    return json.dumps(path) if strange else path


def _portions(leaves: Iterator[Leaf]) -> Iterator[list[Leaf]]:
    """As many leaves at once as the data of one event holds."""
    some: list[Leaf] = []
    size = 0
    for leaf in leaves:
        cost = len(json.dumps(leaf, ensure_ascii=False).encode())
        if cost > _BYTES_MAX:
            raise ValueError("a name in it is too long")
        if some and size + cost > _BYTES_MAX:
            yield some
            some, size = [], 0
        some.append(leaf)
        size += cost
    yield some


def _by_path(leaves: Iterator[Any]) -> Iterator[tuple[list[str | int], list[Any]]]:
    at: list[str | int] | None = None
    values: list[Any] = []
    for place, form, value in leaves:
        path = json.loads(place) if isinstance(place, str) else place
        if path != at:
            if at is not None:
                yield at, values
            at, values = path, []
        values.append(_read(value) if form == "j" else value)
    if at is not None:
        yield at, values


def _read(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:  # a mask was put over a part of it
        return written


def _joined(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else "".join(values)


def _put(root: dict[str, Any], path: list[str | int], value: Any) -> None:
    at: Any = root
    for key, inner in pairwise(path):
        at = _within(at, key, [] if isinstance(inner, int) else {})
    _within(at, path[-1], value)


def _within(at: Any, key: str | int, new: Any) -> Any:
    """What stands in an object or list under a key; `new` where there is nothing yet."""
    if isinstance(key, int):
        if key == len(at):
            at.append(new)
        return at[key]
    return at.setdefault(key, new)


# What recall gets of transcripts as they are stored: the events that an import would make of them.
#
# Hooks may be told of the same session (the SDK's client runs those of the user's settings). What
# they have recorded is left out. They hear of a call when it was answered and of an answer when it
# was given, perhaps after its entry is stored: so what an agent said waits, in such a session,
# until the transcript goes on behind it or the store is closed.

_TRANSCRIPTS_MAX: Final = 256  # of which the open calls are remembered, and what waits


class Recall:
    """Asked for each entry in the order of the transcript; `look` before those of one append."""

    def __init__(self, plane: Plane) -> None:
        self._hooked = Hooked(plane)
        self._states: OrderedDict[TranscriptPlace, dict[str, Any]] = OrderedDict()
        self._waiting: dict[TranscriptPlace, list[Row]] = {}

    def look(self) -> None:
        """Take in what hooks have recorded since."""
        self._hooked.look()

    def reader(self, place: TranscriptPlace) -> ClaudeCode:
        """A reader that goes on where the last one of the transcript was left; see `leave`."""
        reader = ClaudeCode()
        reader.begin(self._states.pop(place, {}))
        return reader

    def leave(self, place: TranscriptPlace, reader: ClaudeCode) -> list[Row]:
        """Keep what a transcript's next reader needs; the rows that can wait no longer."""
        self._states[place] = reader.state()
        if len(self._states) <= _TRANSCRIPTS_MAX:
            return []
        oldest, _ = self._states.popitem(last=False)
        return list(self._settled(oldest))

    def rows(
        self, place: TranscriptPlace, reader: ClaudeCode, entry: Mapping[str, Any]
    ) -> Iterator[Row]:
        """The rows of an entry, and of those before it that have waited for it."""
        rows = reader.read(dict(entry), json.dumps(entry).encode()).rows
        if entry.get("type") == "user":  # the agent was answered, so hooks have heard what it said
            yield from self._settled(place)
        for row in rows:
            session = row.get("session")
            if not isinstance(session, str) or not self._hooked.was_there(session):
                yield row
            elif self._hooked.holds(SOURCE, row):
                continue
            elif row.get("role") == "assistant":
                self._waiting.setdefault(place, []).append(row)
            else:
                yield row

    def settled(self) -> list[Row]:
        """What waits of all transcripts, as far as no hook has recorded it."""
        return [row for place in list(self._waiting) for row in self._settled(place)]

    def drop(self, place: TranscriptPlace) -> None:
        """Forget what waits of a transcript; of a main one, of its sub-agents' too."""
        for one in list(self._waiting):
            if one[:2] == place[:2] and place.branch in ("", one.branch):
                del self._waiting[one]

    def _settled(self, place: TranscriptPlace) -> Iterator[Row]:
        for row in self._waiting.pop(place, ()):
            if not self._hooked.holds(SOURCE, row):
                yield row


STORE_SOURCE: Final = "claude-session"
Key = Mapping[str, str]
Entry = dict[str, Any]
# A summary so far (None at first), the key, and the entries behind it: the summary with them.
Fold = Callable[[Any, Any, Any], Any]
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HASH: Final = 16  # hex digits of a hash that names
_SUMMARIES_AT_ONCE: Final = 100


class PlaneSessionStore:
    """Keeps transcripts in a plane: `ClaudeAgentOptions(session_store=PlaneSessionStore(plane))`.

    Threads and processes may share a plane; each has a store of its own, and all see the same
    transcripts. Within one store calls are served in their order. `fold` summarises (by default
    the SDK's `fold_session_summary`). Close the store, then the plane.
    """

    def __init__(self, plane: Plane, *, fold: Fold | None = None) -> None:
        self._plane, self._fold = plane, fold
        context = plane.context
        if context.as_of is not None:
            raise InputError("expected a plane of now, found one of a prefix of its log")
        self._context = context
        folder = context.home.path / "projections" if context.keeps else None
        self._index = TranscriptIndex(context.log, folder, plane=plane.id)
        self._recall = Recall(plane)
        self._cuts: dict[str, int] = {}  # by what was forgotten: the seq of the last that said so
        self._judged = 0
        # One thread: what is appended first is stored first, and what was stored is there to load.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="memplane-sessions")

    async def append(self, key: Key, entries: Sequence[Any]) -> None:
        """Store entries behind those of the key; one whose uuid is there already is left out."""
        await self._aside(partial(self._append, dict(key), list(entries)))

    async def load(self, key: Key) -> list[Any] | None:
        """Every entry of the key in the order of its storing; None where there is none."""
        return await self._aside(partial(self._load, dict(key)))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The conversations of a project, with the time of their last entry in milliseconds."""
        return await self._aside(partial(self._list, project_key))

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """What `fold` says of each conversation; only what was appended since is read for it."""
        return await self._aside(partial(self._summaries, project_key))

    async def delete(self, key: Key) -> None:
        """Forget a conversation with its sub-agents, or one sub-agent's transcript."""
        await self._aside(partial(self._delete, dict(key)))

    async def list_subkeys(self, key: Key) -> list[str]:
        """The paths of a conversation's sub-agents."""
        conversation = _place(key).conversation
        ask = partial(self._index.ask, lambda index: index.branches(conversation))
        return await self._aside(ask)

    def close(self) -> None:
        """Finish what was begun and let go of the files; the plane stays open."""
        with suppress(MemplaneError, RuntimeError):  # a plane or a store that is closed already
            self._worker.submit(self._settle).result()
        self._worker.shutdown(wait=True)
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _aside(self, work: Callable[[], Answer]) -> Answer:
        """Do it in the store's thread, in the order of the calls."""
        future = self._worker.submit(work)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # another event loop: the SDK runs under trio, too
            run_sync = import_module("anyio.to_thread").run_sync  # the SDK brings it along
            return cast("Answer", await run_sync(future.result))
        return await asyncio.wrap_future(future)

    # --- in the thread ---

    def _append(self, key: dict[str, str], entries: list[Any]) -> None:
        if not entries:
            return
        place = _place(key)
        cut = self._cut(place, key)
        rows = list(self._rows(place, key, entries, cut))
        if not self._store(rows):
            return
        # Some were there: what another process deleted meanwhile begins anew under other ids.
        gone = self._index.ask(lambda index: index.gone([row["id"] for row in rows]))
        now = self._cut(place, key)
        if gone:
            once = [entry for entry in entries if _stem(entry) is not None]
            again = list(self._raw_rows(place, key, once, cut))
            fresh = list(self._raw_rows(place, key, once, now))
            self._store([new for new, old in zip(fresh, again, strict=True) if old["id"] in gone])

    def _store(self, rows: list[dict[str, Any]]) -> int:
        """Record rows and return how many were there; raise where an entry cannot be stored."""
        receipt = self._plane.record_many(map(with_permitted_actor, rows), strict=False)
        for one in receipt.refused:
            # What was purged stays so; a turn that is no memory still stands in its transcript.
            if one.reason != "purged" and rows[one.index]["id"].startswith(f"{STORE_SOURCE}:"):
                raise InputError(one.message)
        return receipt.duplicates

    def _rows(
        self, place: TranscriptPlace, key: dict[str, str], entries: list[Any], cut: int
    ) -> Iterator[dict[str, Any]]:
        self._recall.look()
        reader = self._recall.reader(place)
        for entry in entries:
            yield from self._raw_rows(place, key, [entry], cut)
            yield from self._recall.rows(place, reader, entry)
        yield from self._recall.leave(place, reader)

    def _settle(self) -> None:
        """Record what waits for a hook that was never told of it."""
        self._recall.look()
        if rows := self._recall.settled():
            self._store(rows)

    def _raw_rows(
        self, place: TranscriptPlace, key: dict[str, str], entries: list[Any], cut: int
    ) -> Iterator[dict[str, Any]]:
        """The events that keep entries as they are."""
        scope = name(STORE_SOURCE, place.conversation, place.branch or "main", str(cut))
        redactor = self._context.intake(self._context.watched.policies_or_last()).redactor
        told = {"project": key["project_key"], "conversation": key["session_id"]}
        told |= {"subpath": key["subpath"]} if place.branch else {}
        for entry in entries:
            if not isinstance(entry, dict):
                raise unexpected("an object", entry, "entries")
            stem = f"{scope}:{_stem(entry) or uuid.uuid4().hex}"
            frame = {"kind": "session", "session": name(key["session_id"]), **_when(entry)}
            parts = packed(entry, redactor.redact_data)
            for number, part in enumerate(parts, 1):
                data = {"status": ENTRY, **told, "of": [*place], **part}
                if len(parts) > 1:
                    data |= {"stem": stem, "part": [number, len(parts)]}
                yield {**frame, "id": stem if number == 1 else f"{stem}:{number}", "data": data}

    def _load(self, key: dict[str, str]) -> list[Entry] | None:
        place = _place(key)
        stored = self._stored(self._index.ask(lambda index: index.entries(place)))
        return [self._masked(entry) for entry in stored] or None

    def _masked(self, value: Any) -> Any:
        """What leaves the plane, under the rules of today."""
        return self._context.intake(self._context.watched.policies_or_last()).redactor.redact_data(
            value
        )[0]

    def _stored(self, rows: list[tuple[int, str, int, int]]) -> Iterator[Entry]:
        """The entries that these parts make, each uuid once; those with a part missing are none."""
        parts: dict[str, dict[int, int]] = {}
        for seq, stem, part, _ in rows:
            parts.setdefault(stem, {}).setdefault(part, seq)
        whole = {stem: count for _, stem, _, count in rows if len(parts[stem]) == count}
        seen = set[str]()
        for stem in whole:
            entry = self._read([seq for _, seq in sorted(parts[stem].items())])
            if entry is None:
                continue
            once = _stem(entry)
            if once is None or once not in seen:
                if once is not None:
                    seen.add(once)
                yield entry

    def _read(self, seqs: list[int]) -> Entry | None:
        lines = [self._context.log.line(seq) for seq in seqs]
        found = [line.event.data for line in lines if line is not None]
        return unpacked(found) if len(found) == len(seqs) else None

    def _list(self, project_key: str) -> list[dict[str, Any]]:
        project = _hash(project_key)
        found = self._index.ask(lambda index: index.conversations(project))
        return [{"session_id": session, "mtime": ms} for _, session, _, _, ms in found]

    def _summaries(self, project_key: str) -> list[dict[str, Any]]:
        fold, told = self._fold or _sdk_fold(), list[dict[str, Any]]()
        fresh: list[tuple[str, int, int, dict[str, Any]]] = []
        project = _hash(project_key)
        for conversation, session, cut, last, ms in self._index.ask(
            lambda index: index.conversations(project)
        ):
            known = self._index.summary(conversation, cut)
            upto, data = known or (0, None)
            if data is None or upto < last:
                place = TranscriptPlace(project, conversation, "")
                entries = list(self._stored(self._index.entries(place, upto)))
                before = data and {"session_id": session, "mtime": ms, "data": data}
                key = {"project_key": project_key, "session_id": session}
                data = dict(fold(before, key, entries)["data"])
                fresh.append((conversation, last, cut, data))
                if len(fresh) == _SUMMARIES_AT_ONCE:
                    self._index.keep(fresh)
                    fresh = []
            told.append({"session_id": session, "mtime": ms, "data": self._masked(data)})
        if fresh:
            self._index.keep(fresh)
        return told

    def _delete(self, key: dict[str, str]) -> None:
        place, session = _place(key), name(key["session_id"])
        self._recall.drop(place)
        if not self._index.ask(lambda index: index.holds(place)):
            return
        # What `Plane.forget` would look for in the log is known to be there.
        self._forget({"source": _scope(place)})
        if not place.branch and not self._index.ask(lambda index: index.any_left(session)):
            self._forget({"session": session})

    def _forget(self, named: dict[str, str]) -> None:
        reason = "deleted by the Claude Agent SDK"
        self._context.write({"kind": "forget", "text": reason, "data": {"forget": named}})

    def _cut(self, place: TranscriptPlace, key: dict[str, str]) -> int:
        """The seq of the last forget that names a transcript; 0: there was none."""
        with self._context.lock:
            memories = self._context.caught_up().memories
            for act in memories.forgets(self._judged):
                self._cuts[act.target.value] = self._judged = act.seq
        whole = TranscriptPlace(place.project, place.conversation, "")
        named = (_scope(whole), _scope(place), name(key["session_id"]))
        return max(self._cuts.get(one, 0) for one in named)


def _scope(place: TranscriptPlace) -> str:
    """What the ids of a transcript's entries begin with; of a main one's, its sub-agents' too."""
    return name(STORE_SOURCE, place.conversation, *([place.branch] if place.branch else []))


def _place(key: Key) -> TranscriptPlace:
    project, conversation, subpath = key["project_key"], key["session_id"], key.get("subpath")
    if subpath == "":
        raise InputError("is empty; leave it out for the main transcript", where="subpath")
    branch = _hash(subpath) if subpath is not None else ""
    return TranscriptPlace(_hash(project), _hash(f"{_hash(project)}:{conversation}"), branch)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _stem(entry: Entry) -> str | None:
    """What names an entry in its transcript, however often it is appended; None: nothing does."""
    given = entry.get("uuid")
    if not isinstance(given, str) or not given:
        return None
    return (
        given
        if _UUID.fullmatch(given)
        else hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:32]
    )


def _when(entry: Entry) -> dict[str, str]:
    given = entry.get("timestamp")
    try:
        return {"ts": timestamp(given)} if isinstance(given, str) else {}
    except InputError:
        return {}


def _sdk_fold() -> Fold:
    try:
        return cast("Fold", import_module("claude_agent_sdk").fold_session_summary)
    except ImportError as error:
        raise MissingExtraError("a summary of each session", "claude") from error
