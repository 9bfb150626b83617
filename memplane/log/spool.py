"""The spool: events of callers that must not wait for the log's lock, until a writer takes them in.

A file holds what one caller was acknowledged for; its name sorts by time (microseconds, bytes,
chance), its bytes are lines of JSON in UTF-8::

    log/spool/20260105120000000000-412-9f86d081884c7d65.spool

    {"format":1,"plane":"01J…","events":1}
    {"id":"…","ts":"…","kind":"message","text":"…"}     as in the log, without seq, dur, rec and h
    {"body":"…"}                                        the whole text, behind a line that names one
    {"recalled":"…"}                                    a block moved out of the text, behind them
    {"sha256":"<64 hex of the bytes before this line>"}

It is written under another name, synced, renamed, its directory synced: then it is acknowledged,
and no power cut takes it. `ts` is when it was spooled if the caller gave none; seq and `rec` come
with the log's line (`memplane.log.log`). Two files at one time have the order of chance.
A file that is not of this form, not whole or of another plane is set aside, and stops no writer.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
from __future__ import annotations

import json
import os
import re
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import InputError, StrangeFileError, WriteError
from memplane.event import Draft, decode, encode
from memplane.lazy import NamedTuple, regex
from memplane.log.disk import Disk, drop
from memplane.log.segments import draft_again, prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FORMAT: Final = 1
_FORMAT_RECALLED: Final = 2  # of a file with blocks, which earlier versions cannot read
# An hour of a busy agent while one writer hangs. What is beyond was not noticed by anybody, and
# the caller that is told so can still say it.
FILES_MAX: Final = 4096
BYTES_MAX: Final = 64 * 1024 * 1024
# A time stamp has ticks: a folder that changed this recently may have changed again since.
_SETTLED_NS: Final = 2_000_000_000
_NAME: Final = regex(r"\d{20}-(\d{1,12})-[0-9a-f]{16}\.spool")
_LINE: Final = regex(
    rb'\{("id":"(?:[^"\\]|\\.)*"),"ts":"[^"]*",("kind":"[^"]*"(?:,.*)?)\}', re.DOTALL
)
_SUM: Final = regex(rb'\{"sha256":"([0-9a-f]{64})"\}\n')
_SUM_BYTES: Final = len('{"sha256":""}\n') + 64
# What the log writes about itself comes from nobody else.
_OWN: Final = frozenset(("segment", "repair", "purge"))


_BROKEN: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, InputError)


class Waiting(NamedTuple):
    """One thing that lies in the spool. `fault` says why it cannot be taken in, "" where it can.

    `mark` is made of its bytes, of its name where it is no file: the same for the same.
    """

    name: str
    bytes: int
    drafts: tuple[Draft, ...]
    fault: str
    mark: str


class AsideNote(NamedTuple):
    """What was set aside: its name in the spool, that in log/quarantine, and why."""

    name: str
    kept: str
    what: str


class Spool:
    """The spool of one plane. `put` needs no lock; the rest is for who holds the log's."""

    def __init__(
        self, home: str, plane_id: str, disk: Disk, loads: Callable[[bytes], Any] = json.loads
    ) -> None:
        self._home, self.folder = home, f"{home}/log/spool"
        self.disk = disk
        self._plane, self._loads = plane_id, loads
        self._empty_at = -1  # the folder's time stamp when nothing was in it
        self._left: set[str] = set()  # what could neither be read nor moved
        self._durable = False  # the folder, under its name
        self._stamp = 0
        self.notes: list[AsideNote] = []  # what this object set aside

    def waits(self) -> bool:
        """Whether something is there to take in; one stat where nothing came since."""
        try:
            changed = os.lstat(self.folder).st_mtime_ns
        except OSError:
            return False
        if changed == self._empty_at:
            return False
        if self.names():
            return True
        if abs(time.time_ns() - changed) > _SETTLED_NS:
            self._empty_at = changed
        return False

    def names(self) -> list[str]:
        """What lies there, the oldest first; not what is being written, nor what had to be left."""
        try:
            found = nofollow.folder_names(self.folder, self._home)
        except OSError:
            return []
        return [
            name
            for name in found
            if not name.startswith(".") and not name.endswith(".new") and name not in self._left
        ]

    def put(self, drafts: Sequence[Draft], now: str) -> None:
        """Make the drafts durable in one file, without waiting for anybody.

        WriteError where the disk refuses or the spool is full, InputError for what no line can be.
        """
        digest, lines = sha256(), []
        for line in self._lines(drafts, now):
            digest.update(line)
            lines.append(line)
        data = b"".join([*lines, b'{"sha256":"%b"}\n' % digest.hexdigest().encode()])
        lines.clear()  # a long text is held once
        path = f"{self.folder}/{self._new_name(len(data), now)}"
        try:
            self._make_folder()
            self._check_room(len(data))
            self.disk.publish(path, data, self._home)
        except OSError as error:
            # Renamed and not durable: nobody may believe in it, unless a writer did already.
            drop(path, self._home)
            raise WriteError(f"{self.folder}: {error.strerror}; nothing was spooled") from error

    def _lines(self, drafts: Sequence[Draft], now: str) -> Iterator[bytes]:
        """What a file says of the drafts, before its checksum."""
        number = _FORMAT_RECALLED if any(draft.recalled for draft in drafts) else FORMAT
        head = {"format": number, "plane": self._plane, "events": len(drafts)}
        yield f"{encode(head)}\n".encode()
        for draft in drafts:
            said = f'{{{prepared(draft)},"ts":"{draft.ts or now}",'.encode()
            yield b"%b%b}\n" % (said, draft.rest)
            if draft.body is not None:
                yield f"{encode({'body': draft.body.decode()})}\n".encode()
            for block in draft.recalled:
                yield f"{encode({'recalled': block.decode()})}\n".encode()

    def read(self, name: str) -> Waiting | None:
        """What lies there by that name; None where nothing does. OSError says nothing about it."""
        path = f"{self.folder}/{name}"
        mark = sha256(os.fsencode(name)).hexdigest()
        try:
            file = nofollow.open_regular(path, home=self._home)
        except FileNotFoundError:
            return None
        except StrangeFileError:
            return Waiting(name, 0, (), "is not a file", mark)
        with file:
            found = os.fstat(file.fileno())
            if found.st_size > BYTES_MAX:
                what = f"holds {found.st_size} bytes, expected at most {BYTES_MAX}"
                return Waiting(name, found.st_size, (), what, mark)
            data = file.read()
        mark = sha256(data).hexdigest()
        try:
            drafts, fault = self._parsed(data), ""
        except _BROKEN as error:
            drafts, fault = (), str(error) if isinstance(error, _FaultError) else "is no spool file"
        return Waiting(name, len(data), drafts, fault, mark)

    def remove(self, name: str) -> None:
        """Forget what was taken in. Not synced: what comes back is a repeat."""
        try:
            nofollow.remove_name(f"{self.folder}/{name}", home=self._home)
        except FileNotFoundError:
            pass
        except OSError:
            self._left.add(name)

    def set_aside(self, note: AsideNote) -> None:
        """Move it to quarantine; it stays where the disk refuses."""
        quarantine = f"{os.path.dirname(self.folder)}/quarantine"  # noqa: PTH120 - a string
        try:
            nofollow.make_folder(quarantine, self._home)
            self.disk.replace(f"{self.folder}/{note.name}", f"{quarantine}/{note.kept}", self._home)
            self.disk.sync_directory(quarantine, self._home)
        except OSError:
            self._left.add(note.name)
        else:
            self.notes.append(note)

    def leave(self, name: str) -> None:
        """Let it lie: it cannot be read now."""
        self._left.add(name)

    def _parsed(self, data: bytes) -> tuple[Draft, ...]:
        """The drafts of a file's bytes; raises _FaultError, or what its lines make fail."""
        end = _SUM.fullmatch(data, max(len(data) - _SUM_BYTES, 0))
        if end is None:
            raise _FaultError("is torn, or no spool file: it does not end with its checksum")
        if sha256(memoryview(data)[:-_SUM_BYTES]).hexdigest().encode() != end[1]:
            raise _FaultError("is not what was written: its checksum does not match")
        head, *lines = data.split(b"\n")[:-2]
        facts = self._loads(head)
        if facts["format"] not in (FORMAT, _FORMAT_RECALLED):
            raise _FaultError(f"is of another format than {FORMAT} or {_FORMAT_RECALLED}")
        if facts["plane"] != self._plane:
            raise _FaultError("belongs to another plane")
        drafts: list[Draft] = []
        for line in lines:
            if line.startswith(b'{"body":'):
                text = self._loads(line)["body"]
                drafts[-1] = drafts[-1]._replace(text=text, body=text.encode())
            elif line.startswith(b'{"recalled":'):
                block = self._loads(line)["recalled"].encode()
                drafts[-1] = drafts[-1]._replace(recalled=(*drafts[-1].recalled, block))
            else:
                drafts.append(self._draft(line))
        if len(drafts) != facts["events"]:
            raise _FaultError(f"holds {len(drafts)} events, which is not what it says itself")
        return tuple(drafts)

    def _draft(self, line: bytes) -> Draft:
        found = _LINE.fullmatch(line)
        if found is None:
            raise _FaultError("holds a line that is no event")
        event = decode({"seq": 0, **self._loads(line)})
        if event.kind in _OWN:
            raise _FaultError(f"holds an event of kind {event.kind}, which only the log writes")
        draft = draft_again(event, event.ts, found[2])
        if prepared(draft).encode() != found[1]:
            raise _FaultError("holds an id in another form than memplane writes")
        return draft

    def _new_name(self, size: int, now: str) -> str:
        # Whatever the clock does, one caller's events keep their order.
        digits = int("".join(letter for letter in now if letter.isdigit()))
        self._stamp = max(self._stamp + 1, digits)
        return f"{self._stamp:020d}-{size}-{os.urandom(8).hex()}.spool"

    def _make_folder(self) -> None:
        nofollow.make_folder(self.folder, self._home)
        if not self._durable:
            # Even where all was there: whoever made it may not have come to its own sync yet.
            log = os.path.dirname(self.folder)  # noqa: PTH120 - a string
            self.disk.sync_directory(log)
            self.disk.sync_directory(os.path.dirname(log))  # noqa: PTH120 - a string
            self._durable = True

    def _check_room(self, size: int) -> None:
        names = self.names()
        held = sum(map(named_size, names)) + size
        if len(names) >= FILES_MAX or held > BYTES_MAX:
            raise WriteError(
                f"{self.folder}: {len(names)} files wait there, and with this one {held} bytes "
                f"(at most {FILES_MAX} files, {BYTES_MAX} bytes); nothing was spooled; the next "
                "writer takes them in: record without the spool, or run `memplane repair`"
            )


class _FaultError(ValueError):
    """What is wrong with a file of the spool, in words."""


def named_size(name: str) -> int:
    """The bytes that a name of ours states; 0 for another's."""
    found = _NAME.fullmatch(name)
    return 0 if found is None else int(found[1])


def is_ours(name: str) -> bool:
    """Whether `put` could have given that name."""
    return _NAME.fullmatch(name) is not None


def spooled(home: str, plane_id: str) -> list[Waiting]:
    """What lies in a plane's spool, the oldest first; read, nothing is changed."""
    spool = Spool(home, plane_id, Disk())
    found: list[Waiting] = []
    for name in spool.names():
        try:
            waiting = spool.read(name)
        except OSError as error:
            waiting = Waiting(name, 0, (), f"cannot be read: {error.strerror}", "")
        if waiting is not None:
            found.append(waiting)
    return found
