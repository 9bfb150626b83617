"""An index of stored transcripts, `projections/transcripts.sqlite`, and the recall events of them.

::

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

import contextlib
import json
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from memplane import nofollow
from memplane.errors import InputError
from memplane.event import Event
from memplane.importers.claude_code import SOURCE, ClaudeCode
from memplane.importers.resume import Hooked
from memplane.index.storage import alone
from memplane.ports import Line, Position
from memplane.projections.cache import Broken, Database
from memplane.projections.in_force import Forget, forget_of
from memplane.projections.projector import Replayable, catch_up

if TYPE_CHECKING:
    from memplane.importers.rows import Row
    from memplane.plane.plane import Plane

__all__ = ["ENTRY", "Counts", "Recall", "TranscriptIndex", "TranscriptPlace", "packed", "unpacked"]


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
        place, part = _place(data.get("of")), data.get("part", [1, 1])
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


def _place(value: Any) -> TranscriptPlace | None:
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
