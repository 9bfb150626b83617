"""Where the lines of each segment lie, by seq and by id.

Of a sealed segment a sorted table is kept in a cache file; that of the last one grows with it.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.log.ids import Place, SealedIds, Table, write_cache
from memplane.log.searching import line_of_seq, may_hold_id
from memplane.log.segments import Segments, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memplane.event import Draft
    from memplane.log.format import Run
    from memplane.ports import Head

    Believed = Callable[[int, int, int, bytes, int | None], tuple[bytes, list[Run]]]

__all__ = ["Places"]

# So many times a process searches the last segment's bytes, and so often it reads them for that,
# before it verifies all of it for a table: who lives for one answer needs a few lines.
_SEARCHES: Final = 100
_READINGS: Final = 3


class Places:
    """The tables of all segments, for any number of threads; each is made when it is asked.

    `beginning` gives the position before a segment, `believed` the runs of lines behind one: what
    a place names may have changed on disk since, so whoever fetches the line checks it.
    """

    def __init__(
        self, segments: Segments, home: str, beginning: Callable[[int], Head | None],
        believed: Believed, *, keep_caches: bool,
    ) -> None:  # fmt: skip
        self._segments, self._home, self._keep_caches = segments, home, keep_caches
        self._folder = f"{home}/index/ids"
        self._beginning, self._believed = beginning, believed
        self._sealed: dict[int, SealedIds] = {}
        self._mutex = Lock()
        self._table: Table | None = None
        self._searches, self._readings = _SEARCHES, _READINGS
        self._bytes: tuple[tuple[int, ...], bytes] = (), b""

    def forget_locks(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._mutex = Lock()

    def by_seq(self, number: int, seq: int) -> Place | None:
        """Where the segment has the line with that seq."""
        sealed = self._sealed.get(number)
        if sealed is not None:
            return sealed.by_seq(seq)
        with self._mutex:
            data = self._searched(number)
            found = None if data is None else line_of_seq(data, seq)
            return self._of(number).by_seq(seq) if found is None else found

    def by_id(self, number: int, id_: str, hashed: int) -> Sequence[Place]:
        """Where the segment may have lines with that id, of that hash; the oldest first."""
        sealed = self._sealed.get(number)
        if sealed is not None:
            return sealed.by_hash(hashed)
        with self._mutex:
            data = self._searched(number)
            if data is not None and not may_hold_id(data, id_):
                return ()
            return self._of(number).by_id(id_)

    def _searched(self, number: int) -> bytes | None:
        """The bytes of the last segment while it has no table and few have asked; None else."""
        if self._table is not None or not self._searches:
            return None
        if self._segments.after(number) is not None:
            return None
        self._searches -= 1
        path = self._segments.path(number)
        found = os.lstat(path)
        key = (number, found.st_dev, found.st_ino, found.st_size)
        if self._bytes[0] != key:
            self._readings -= 1
            if self._readings < 0:
                self._searches, self._bytes = 0, ((), b"")
                return None
            self._bytes = key, read_file(path)
        data = self._bytes[1]
        if not self._searches:
            self._bytes = (), b""
        return data

    @property
    def has_table(self) -> bool:
        """Whether `added` is of any use."""
        return self._table is not None

    def added(self, number: int, start: int, drafts: Sequence[Draft], lines: list[bytes]) -> None:
        """Note what the writer appended at byte `start`: spares reading it again."""
        with self._mutex:
            table = self._table
            if table is not None and table.number == number and table.end == start:
                for draft, line in zip(drafts, lines, strict=True):
                    table.add(draft.id, len(line), line[-19:-3])

    def _of(self, number: int) -> Table | SealedIds:
        """Where the segment's lines are. Under the mutex."""
        following = self._segments.after(number)
        header = None if following is None else self._segments.header(following)
        if following is None or header is None:
            return self._table_of(number)
        sealed = self._sealed.get(number)
        if sealed is None:
            size = os.lstat(self._segments.path(number)).st_size
            path = f"{self._folder}/{number:08d}.ids"
            try:
                content = nofollow.read(path, home=self._home)
            except OSError:
                content = b""
            first = self.entry(number)[0] + 1
            sealed = SealedIds.load(content, first, size, header.prev_h)
            if sealed is None:
                table = self._new_table(number)
                data, believed = self._believed(number, 0, table.seq, table.h, following)
                for run in believed:
                    table.take(data, 0, run)
                sealed = SealedIds.of(table, first)
                if self._keep_caches:
                    write_cache(self._home, path, sealed.dump(size, header.prev_h))
            self._sealed[number] = sealed
        return sealed

    def _new_table(self, number: int) -> Table:
        found = os.lstat(self._segments.path(number))
        seq, h = self.entry(number)
        return Table(number, (found.st_dev, found.st_ino), seq, h)

    def entry(self, number: int) -> tuple[int, bytes]:
        """What the segment follows: as its header says, or else as the one before it ends."""
        header = self._segments.header(number)
        if header is not None:
            return header.prev_seq, header.prev_h
        beginning = self._beginning(number)
        if beginning is not None:
            return beginning.seq, beginning.h.encode()
        before = max(each for each in self._segments.numbers() if each < number)
        seq, h = self.entry(before)
        _, believed = self._believed(before, 0, seq, h, number)
        return (believed[-1].last, believed[-1].h) if believed else (seq, h)

    def _table_of(self, number: int) -> Table:
        """The table of a segment without a readable successor, grown to the segment's end."""
        found = os.lstat(self._segments.path(number))
        identity = (found.st_dev, found.st_ino)
        table = self._table
        if table is not None and table.number == number and table.identity == identity:
            if table.end == found.st_size:
                return table
            if table.end < found.st_size and self._grow(table):
                return table
        table = self._new_table(number)
        self._grow(table)
        self._table = table
        return table

    def _grow(self, table: Table) -> bool:
        """Read what was appended; False where it does not follow what the table holds."""
        base = table.end
        data, believed = self._believed(table.number, base, table.seq, table.h, None)
        follows = bool(believed) and believed[0].start == 0
        if base and data.rfind(b"\n") >= 0 and not follows:
            return False
        for run in believed:
            table.take(data, base, run)
        return True
