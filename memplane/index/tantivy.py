"""`TantivyIndex`: BM25 by the search library Tantivy. Needs the extra `tantivy`.

Words are what stands between characters that are neither letters nor digits, in small letters,
without accents and English endings; English words without content are left out. So a text in a
script without blanks is found by whole runs of letters alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from memplane import nofollow
from memplane.errors import MissingExtraError
from memplane.index.engine import HEADER, best_hits
from memplane.index.segment import Array
from memplane.lazy import late
from memplane.ports import ONE, Hit

if TYPE_CHECKING:
    import tantivy
else:
    tantivy = late("tantivy")

EXTRA: Final = "tantivy"
_USED: Final = 1  # raised whenever the same documents give other files
_HEAP_BYTES: Final = 50_000_000
_WORD_BYTES: Final = 60
_TERMS_MAX: Final = 256  # of a query
_NO_FILES: Final = (".tantivy-", ".lock", HEADER)  # locks, and what is said of the files


def require_tantivy() -> str:
    """Return what headers call the engine: version and format; raises MissingExtraError."""
    try:
        return f"{tantivy.tantivy.__version__} {_USED}"
    except ImportError:
        raise MissingExtraError("`index.engine: tantivy`", EXTRA) from None


class TantivyIndex:
    """An `Index` in a folder, or in memory alone (no folder). One thread at a time.

    What was added is found after a commit, which the next search makes: in a folder some 50 ms.
    Statistics are those of all documents there are, later and masked ones too. A folder has to be
    entered by nobody else, and to hold an index of this version or nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Open what is in the folder; raises MissingExtraError, ValueError, OSError."""
        require_tantivy()
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("seq", stored=False, indexed=False, fast=True)
        builder.add_text_field("text", stored=False, tokenizer_name="memplane", index_option="freq")
        self._schema = builder.build()
        self._analyser = _analyser()
        self._index = (
            tantivy.Index(self._schema)
            if folder is None
            else tantivy.Index(self._schema, path=str(folder))
        )
        self._index.register_tokenizer("memplane", self._analyser)
        self._added: list[tuple[int, str]] = []

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        said = " ".join((text, *(fields[name] for name in sorted(fields))))
        self._added.append((seq, said))

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        self._commit()
        words = list(dict.fromkeys(self._analyser.analyze(query)))[:_TERMS_MAX]
        if not words:
            return []
        asked = tantivy.Query.boolean_query(
            [
                (
                    tantivy.Occur.Should,
                    tantivy.Query.term_query(self._schema, "text", word, "freq"),
                )
                for word in words
            ]
        )
        searcher = self._index.searcher()

        def ask(most: int) -> tuple[Array, Array]:
            found = searcher.search(asked, most, count=False).hits
            seqs = searcher.fast_field_values("seq", [place for _, place in found])
            scores = np.array([score for score, _ in found], np.float64)
            return np.array(seqs, np.int64), np.rint(scores * ONE).astype(np.int64)

        return best_hits(ask, k, upto=upto, masked=masked, total=searcher.num_docs)

    def write(self, folder: Path) -> list[str]:
        self._commit()
        return [name for name in nofollow.folder_names(folder) if not name.startswith(_NO_FILES)]

    def _commit(self) -> None:
        if not self._added:
            return
        # One thread, so that the same documents give the same segments.
        writer = self._index.writer(_HEAP_BYTES, 1)
        for seq, said in self._added:
            document = tantivy.Document()
            document.add_integer("seq", seq)
            document.add_text("text", said)
            writer.add_document(document)
        writer.commit()
        writer.garbage_collect_files()
        writer.wait_merging_threads()
        self._index.reload()
        self._added = []


def _analyser() -> tantivy.TextAnalyzer:
    every = (
        tantivy.Filter.remove_long(_WORD_BYTES),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stopword("english"),
        tantivy.Filter.stemmer("english"),
    )
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for one in every:
        builder = builder.filter(one)
    return builder.build()
