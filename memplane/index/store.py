"""The index of a plane: takes documents in log order, answers as of any seq, keeps files.

Everything happens in memory first, so that a document is found as soon as it is added and
a process that may not write still answers; `save` brings the folder up to date. What an
index answers, and the bytes of its files, depend on its documents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from memplane.index import layout, storage, terms
from memplane.index.build import build
from memplane.index.document import Document, blank
from memplane.index.lexical import Block
from memplane.index.live import Live
from memplane.index.merge import erase, merge
from memplane.index.segment import Array, Segment, decode, encode
from memplane.index.view import View

__all__ = ["Index"]

# The largest segment that is built from documents at once; to merge larger ones is quicker.
_BUILD_LEVEL: Final = 1
_BATCH: Final = layout.CAPACITIES[2]
_HELD_BYTES: Final = 1 << 24


class _Sealed(NamedTuple):
    level: int
    segment: Segment
    entry: storage.Entry | None  # None: not in the folder yet


def _file_of(part: _Sealed) -> str:
    level = part.level
    return storage.name_of(level, part.segment.first // layout.CAPACITIES[max(level, 0)])


class Index:
    """Documents of one plane, in the folder or in memory alone (no folder).

    `variant` names all that decides which documents a log gives. One thread adds, saves, erases
    or takes a view at a time; views taken before stay good. `keeps`: opening it may write down
    which files were found whole; all else waits for `save`.
    """

    def __init__(
        self, folder: Path | None = None, *, plane: str = "", variant: str = "",
        keeps: bool = False,
    ) -> None:  # fmt: skip
        # The C library of Linux gives memory back to the system beyond twice the largest block
        # that it ever freed. One that is never touched spares every search, which takes and
        # frees some large arrays, hundreds of page faults: a third of its time.
        np.empty(_HELD_BYTES, np.uint8)
        self._folder = folder
        self._mark = layout.fingerprint(plane, variant)
        self._plane, self._variant, self._keeps = plane, variant, keeps
        self._vocabulary = terms.Vocabulary()
        self.reload()

    def reload(self) -> None:
        """Forget what is in memory and open the folder again.

        Where segments are missing or harmed, `seq` says from where the log must be read again.
        """
        self._sealed: list[_Sealed] = []
        self._opened: Segment | None = None
        self._stamps: storage.Stamps = {}
        self._cleared = False
        self._last = (0, -1)
        self.seq, self.mark, self.erased = 0, "", 0
        loaded = (
            storage.load(self._folder, self._plane, self._variant)
            if self._folder
            else storage.Loaded(storage.Manifest("", ""), (), {})
        )
        if self._folder and self._keeps:
            storage.keep_stamps(self._folder, loaded)
        # What the folder said, also where not all of it was there: whether it is of this log.
        self.reached = (loaded.manifest.seq, loaded.manifest.mark)
        first = 0
        for entry, (header, data) in zip(loaded.manifest.segments, loaded.segments, strict=False):
            segment = decode(data, header, first)
            if entry.level < 0:
                self._opened = segment
            else:
                self._sealed.append(_Sealed(entry.level, segment, entry))
            first += header.documents
            columns = segment.columns
            self._last = (int(columns["seq"][-1]), int(columns["part"][-1]))
        self._live = Live(first)
        self._stamps = loaded.stamps
        self.erased = loaded.manifest.erased
        if loaded.complete:
            self.seq, self.mark = loaded.manifest.seq, loaded.manifest.mark
        else:
            # The last event may have had more parts; those that are here are skipped when added.
            self.seq = max(self._last[0] - 1, 0)

    @property
    def count(self) -> int:
        """How many documents there are, blank ones too."""
        return self._live.first + self._live.size

    def blocks(self) -> list[Block]:
        """Return the parts that the documents lie in, in order."""
        found: list[Block] = [sealed.segment for sealed in self._sealed]
        if self._opened is not None:
            found.append(self._opened)
        return found + self._live.segments(self._vocabulary)

    def view(self, upto: int | None = None) -> View:
        """Return the index as of a seq: what it was when it held no later documents."""
        return View(self.blocks(), self.count, upto)

    def add(self, document: Document) -> None:
        """Take one document in; it is found at once. One that is here already is passed over."""
        place = (document.seq, document.part)
        if place <= self._last:
            return
        self._last = place
        self._live.add(document, self._vocabulary)
        if self._live.first + self._live.size == self._sealed_end() + layout.LEVEL_0:
            self._seal()

    def add_many(self, documents: Iterable[Document]) -> None:
        """Take documents in, quickly where there are many.

        They stay in memory until `save`, so save now and then.
        """
        source = iter(documents)
        while batch := list(islice(source, _BATCH)):
            fresh = []
            for document in batch:
                place = (document.seq, document.part)
                if place > self._last:
                    self._last = place
                    fresh.append(document)
            self._take(fresh)
            if len(batch) == _BATCH:
                self.settle()

    def _take(self, documents: list[Document]) -> None:
        while documents:
            end = self._sealed_end()
            missing = end + layout.LEVEL_0 - self.count
            if len(documents) < missing:
                for document in documents:
                    self._live.add(document, self._vocabulary)
                return
            if missing < layout.LEVEL_0:
                taken = missing
                for document in documents[:taken]:
                    self._live.add(document, self._vocabulary)
                self._seal()
            else:
                level = max(
                    level
                    for level in range(_BUILD_LEVEL + 1)
                    if level == 0
                    or (
                        len(documents) >= layout.CAPACITIES[level]
                        and end % layout.CAPACITIES[level] == 0
                    )
                )
                taken = layout.CAPACITIES[level]
                segment = build(documents[:taken], end, self._vocabulary)
                self._push(level, segment)
            documents = documents[taken:]

    def _sealed_end(self) -> int:
        return self._sealed[-1].segment.first + self._sealed[-1].segment.size if self._sealed else 0

    def _newest(self) -> Segment | None:
        """Give the open documents as one segment."""
        parts = [] if self._opened is None else [self._opened]
        parts += self._live.segments(self._vocabulary)
        return merge(parts) if len(parts) > 1 else next(iter(parts), None)

    def _seal(self) -> None:
        segment = self._newest()
        assert segment is not None
        assert segment.size == layout.LEVEL_0
        self._push(0, segment)

    def _push(self, level: int, segment: Segment) -> None:
        self._sealed.append(_Sealed(level, segment, None))
        self._opened, self._live = None, Live(segment.first + segment.size)
        if self._vocabulary.full():
            self._vocabulary = terms.Vocabulary()

    def clear(self) -> None:
        """Forget every document, here and with the next `save` in the folder.

        For a log that is not the one the index was made from.
        """
        self._sealed, self._opened, self._live, self._stamps = [], None, Live(0), {}
        self._last = (0, -1)
        self.seq, self.mark, self.erased = 0, "", 0
        self._cleared = True

    def settle(self) -> None:
        """Merge neighbours of one level wherever they fill a segment of the next."""
        done: list[_Sealed] = []
        for sealed in self._sealed:
            done.append(sealed)
            while done[-1].level < layout.LEVELS - 1:
                level = done[-1].level + 1
                many = layout.CAPACITIES[level] // layout.CAPACITIES[level - 1]
                parts = done[-many:]
                if len(parts) < many or parts[0].level != parts[-1].level:
                    break
                done[-many:] = [_Sealed(level, merge([part.segment for part in parts]), None)]
        self._sealed = done

    def save(self, seq: int, mark: str = "", *, stale: Callable[[], bool] | None = None) -> bool:
        """Bring the folder up to date, the log being folded up to `seq`.

        False where nothing was written: another process is writing, has come further or has
        erased more (then `reload`), or the disk refuses. The index goes on in memory. `stale` is
        asked while the folder is held: whether something was erased since.
        """
        self.settle()
        self.seq, self.mark = seq, mark
        if self._folder is None:
            return False
        with storage.alone(self._folder) as held:
            if not held or (stale is not None and stale()):
                return False
            disk = storage.read_manifest(self._folder, self._plane, self._variant)
            if disk and not self._cleared and (disk.erased > self.erased or self._is_behind(disk)):
                return False
            try:
                self._write(self._folder)
            except OSError:
                return False
        return True

    def _is_behind(self, disk: storage.Manifest) -> bool:
        return disk.erased == self.erased and disk.seq > self.seq

    def _write(self, folder: Path) -> None:
        stamps: storage.Stamps = {}
        newest = self._newest()
        parts = [*self._sealed, *([] if newest is None else [_Sealed(-1, newest, None)])]
        stored: list[_Sealed] = []
        for name, shared in groupby(parts, key=_file_of):
            stored += self._stored(folder, name, list(shared), stamps)
        entries = tuple(part.entry for part in stored if part.entry is not None)
        manifest = storage.Manifest(
            self._plane, self._variant, self.seq, self.mark, self.erased, entries
        )
        if storage.read_manifest(folder, self._plane, self._variant) != manifest:
            storage.write_manifest(folder, manifest)
        if stamps != storage.read_stamps(folder):
            storage.write_stamps(folder, stamps)
        storage.remove_others(folder, manifest)
        self._opened = None if newest is None else stored.pop().segment
        self._sealed, self._live = stored, Live(self.count)
        self._stamps, self._cleared = stamps, False

    def _stored(
        self, folder: Path, name: str, parts: list[_Sealed], stamps: storage.Stamps
    ) -> list[_Sealed]:
        """Give the parts of a file as the folder has them, written where they are not there yet."""
        entries = [part.entry for part in parts if part.entry is not None]
        if len(entries) == len(parts):
            seen = storage.stamp(folder, entries)
            if seen and self._stamps.get(name) == seen:
                stamps[name] = seen
                return parts
        written = [encode(part.segment, max(part.level, 0), self._mark) for part in parts]
        entries, headers = [], []
        for part, data in zip(parts, written, strict=True):
            header = layout.parse(data, len(data))
            assert header is not None
            headers.append(header)
            body = header.body.hex()
            entries.append(storage.Entry(part.level, header.number, header.documents, body))
        seen = storage.stamp(folder, entries)
        if not seen or self._stamps.get(name) != seen:
            storage.replace(folder / name, b"".join(written), sync=parts[0].level >= 0)
            seen = storage.stamp(folder, entries)
        stamps[name] = seen
        kept = storage.map_file(folder, entries, self._mark, stamps)
        buffers: list[layout.Buffer] = [*written]
        if len(kept) == len(parts):
            buffers = [data for _, data in kept]
        return [
            _Sealed(part.level, decode(data, header, part.segment.first), entry)
            for part, data, header, entry in zip(parts, buffers, headers, entries, strict=True)
        ]

    def erase(self, seqs: Sequence[int]) -> None:
        """Leave blank documents in the slots of these events; `save` rewrites the files.

        Call it once for each purge of the log, in order: `erased` tells stale processes apart.
        """
        gone = np.array(sorted(set(seqs)), np.int64)
        self._sealed = [self._erased(part, gone) for part in self._sealed]
        if self._opened is not None:
            self._opened = self._erased(_Sealed(-1, self._opened, None), gone).segment
        wanted = set(seqs)
        live = Live(self._live.first)
        for document in self._live.documents:
            empty = document.seq in wanted
            kept = blank(document.seq, document.part) if empty else document
            live.add(kept, self._vocabulary)
        self._live = live
        self.erased += len(gone)

    @staticmethod
    def _erased(part: _Sealed, gone: Array) -> _Sealed:
        there = np.isin(part.segment.columns["seq"], gone)
        return _Sealed(part.level, erase(part.segment, there), None) if there.any() else part
