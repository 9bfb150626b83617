"""Other search engines behind the port `Index`: what they have in common, and their files.

An engine answers with documents and scores; whose documents they are, who may see them and what a
match is worth is not its business. Its files lie in a folder of its own below the index's::

    engine.json     plane, variant, engine and how many documents it holds, with size and CRC-32 of
                    each of the other files; written last, and replaced in one step
    .lock           held while anything is written
    the rest        as the engine's library has it

Files of another plane, variant or version of the library, or with other bytes than the header says,
do not count: the folder is emptied, and the engine filled again from the log.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from memplane import nofollow
from memplane.index import storage
from memplane.index.lexical import Matches
from memplane.index.segment import Array
from memplane.lazy import NamedTuple
from memplane.ports import ONE, Hit, Index

ENGINES: Final = ("tantivy", "usearch")  # the names in the policy, and of the folders
HEADER: Final = "engine.json"
FORMAT: Final = 1
_MORE: Final = 64  # hits asked for beyond those wanted
_GROWTH: Final = 4
_TIES_MAX: Final = 2_000


class EngineKind(NamedTuple):
    """Whose documents a folder holds; `variant` names all that decides which a log gives.

    `engine`: the library, its version and how it is used.
    """

    plane: str
    variant: str
    engine: str


class EngineHeader(NamedTuple):
    """The first `documents` of an index are in the files.

    The index went up to event `seq` then, of whose place in the log `mark` is the caller's word,
    and `erased` was its; `files` has the size and CRC-32 of each.
    """

    plane: str
    variant: str
    engine: str
    documents: int = 0
    seq: int = 0
    mark: str = ""
    erased: int = 0
    files: dict[str, list[int]] = {}  # noqa: RUF012 - read only

    @property
    def kind(self) -> EngineKind:
        """Whose they are."""
        return EngineKind(*self[:3])


class KeptIndex(Index, Protocol):
    """An engine that can leave what it holds in a folder."""

    def write(self, folder: Path) -> list[str]:
        """Write all that was added; return the names of the files. Raises OSError, ValueError."""
        ...


def read_header(folder: Path) -> EngineHeader | None:
    """Return what is said of the files; None where nothing is."""
    fields = storage.signed_fields(folder / HEADER)
    if fields is None or fields.pop("format", None) != FORMAT:
        return None
    try:
        header = EngineHeader(**fields)  # type: ignore[arg-type]
    except TypeError:
        return None
    return header if isinstance(header.files, dict) else None


def has_its_files(folder: Path, header: EngineHeader) -> bool:
    """Whether the files have the bytes that were written."""
    try:
        return all(_sum(folder / name) == said for name, said in header.files.items())
    except (OSError, ValueError):
        return False


def write_header(folder: Path, header: EngineHeader, names: Sequence[str]) -> EngineHeader:
    """Let these files count from now on, and remove all others; hold the folder's lock.

    The sums of files that `header` names already are taken from there, unless their size changed
    or they are replaced by each write (`.json`).
    """
    known = header.files
    files = {}
    for name in sorted(names):
        said = known.get(name)
        fixed = said is not None and not name.endswith(".json")
        size = (folder / name).lstat().st_size
        files[name] = said if fixed and said and said[0] == size else _sum(folder / name)
    made = header._replace(files=files)
    storage.replace_bytes(folder / HEADER, storage.signed({"format": FORMAT} | made._asdict()))
    return made


def remove_strays(folder: Path, header: EngineHeader | None) -> None:
    """Remove what the header does not name; hold the folder's lock. Raises OSError."""
    counted = {".lock"} if header is None else {".lock", HEADER, *header.files}
    for name in nofollow.folder_names(folder):
        if name not in counted:
            try:
                nofollow.remove_name(folder / name)
            except IsADirectoryError:
                nofollow.remove_tree(folder / name)


def discard_engines(index: Path, erased: int | None = None) -> bool:
    """Empty the engines' folders in that of an index; return whether nothing of them is left.

    With `erased`, that of the index now, those that are behind fewer purges, or are not whole.
    """
    left = False
    for name in ENGINES:
        folder = index / name
        if not nofollow.folder_names(folder):
            continue
        with storage.alone(folder) as held:
            header = read_header(folder)
            if erased is not None and header is not None and header.erased >= erased:
                continue
            try:
                if held:
                    remove_strays(folder, None)
                left = left or not held
            except OSError:
                left = True
    return not left


def _sum(path: Path) -> list[int]:
    with nofollow.open_regular(path) as file:
        data = nofollow.map_file(file) if path.lstat().st_size else b""
        return [len(data), zlib.crc32(data)]


def best_hits(
    ask: Callable[[int], tuple[Array, Array]],
    k: int,
    *,
    upto: int,
    masked: Collection[int],
    total: int,
) -> list[Hit]:
    """Return the k best of what an engine finds, without what is later or masked.

    For engines that know no masks: `ask` gives the seqs and scores of its so many best of `total`
    documents, and is asked for more until enough of them may be shown. Ties go to the newer, also
    where what is left out ties with the last, up to 2,000 hits.
    """
    wanted, gone = k + _MORE, np.array(sorted(masked), np.int64)
    while k > 0 and total > 0:
        seqs, scores = ask(min(wanted, total))
        seen = (seqs <= upto) & ~np.isin(seqs, gone)
        whole = len(seqs) < wanted or wanted >= total
        seqs, scores = seqs[seen], scores[seen]
        order = np.lexsort((-seqs, -scores))
        enough = len(order) >= k and wanted * _GROWTH > _TIES_MAX
        if whole or enough or (len(order) > k and scores[order[k]] < scores[order[k - 1]]):
            best = order[:k]
            return list(map(Hit, seqs[best].tolist(), scores[best].tolist()))
        wanted *= _GROWTH
    return []


def engine_matches(hits: Sequence[Hit], hidden: Array) -> Matches:
    """Return an engine's documents as matches, whose words earn what the engine gave them.

    All count as having all words. What is hidden is none, whatever the engine answered.
    """
    pairs = sorted((hit.seq, hit.score) for hit in hits if 0 <= hit.seq < len(hidden))
    docs = np.array([doc for doc, _ in pairs], np.int32)
    scores = np.array([score for _, score in pairs], np.float64) / ONE
    seen = ~hidden[docs]
    docs, scores = docs[seen], scores[seen]
    none = np.zeros(len(docs))
    return Matches(docs, scores, none, none, none, np.ones(len(docs)), none)
