"""Other engines that find texts by words, each asked for the ten best of any of the words.

A package that is not installed is `None` here and named under the table.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["FTS5", "OPTIONAL", "BM25s", "RankBM25", "Tantivy", "have"]

OPTIONAL = ("rank_bm25", "bm25s", "tantivy")
_K = 10


def have(name: str) -> Any:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _content(question: str) -> list[str]:
    return question.split()[1:-1]


class FTS5:
    """SQLite's own index of words, WAL, texts inside."""

    def __init__(self, path: Path, texts: Iterable[str] = ()) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS chunks USING fts5(text)")
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO chunks VALUES (?)", ((text,) for text in texts))
        self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def add(self, text: str) -> None:
        self.connection.execute("INSERT INTO chunks VALUES (?)", (text,))

    def search(self, question: str) -> list[Any]:
        wanted = " OR ".join(f'"{word}"' for word in _content(question))
        ask = "SELECT rowid, rank FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?"
        return self.connection.execute(ask, (wanted, _K)).fetchall()

    def close(self) -> None:
        self.connection.close()


class RankBM25:
    """rank_bm25; it cannot be added to."""

    def __init__(self, module: Any, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        self._index = module.BM25Okapi([text.split() for text in self._texts])

    def search(self, question: str) -> list[Any]:
        found: list[Any] = self._index.get_top_n(_content(question), self._texts, _K)
        return found


class BM25s:
    """bm25s in numpy; it cannot be added to."""

    def __init__(self, module: Any, texts: Iterable[str]) -> None:
        self._index = module.BM25()
        self._index.index([text.split() for text in texts], show_progress=False)

    def search(self, question: str) -> Any:
        return self._index.retrieve([_content(question)], k=_K, show_progress=False)


class Tantivy:
    """tantivy; what is added is found after a commit."""

    def __init__(self, module: Any, path: Path, texts: Iterable[str] = ()) -> None:
        builder = module.SchemaBuilder()
        builder.add_text_field("text", stored=True)
        path.mkdir(exist_ok=True)
        self._module = module
        self._index = module.Index(builder.build(), path=str(path))
        self._writer = self._index.writer(50_000_000, 1)
        for text in texts:
            self._writer.add_document(module.Document(text=[text]))
        self._commit()

    def _commit(self) -> None:
        self._writer.commit()
        self._index.reload()

    def add(self, text: str) -> None:
        self._writer.add_document(self._module.Document(text=[text]))
        self._commit()

    def search(self, question: str) -> Sequence[Any]:
        query = self._index.parse_query(" ".join(_content(question)), ["text"])
        found: Sequence[Any] = self._index.searcher().search(query, _K).hits
        return found
