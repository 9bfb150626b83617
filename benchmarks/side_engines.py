"""One engine in a process of its own, which does what it is asked on standard input.

A request is a line of JSON with `do` and what it takes; the answer is a line with the microseconds
of processor time of each call. So no engine pays for what another one imported, its threads count,
and the memory of its process is its own.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

__all__ = ["ENGINES", "SIZES_MAX", "Engine"]

_MICRO: Final = 1e6
_K: Final = 10
_BUDGET: Final = 2_000  # tokens of a context
# Those of the questions: each has two, as real ones do.
_STOP: Final = frozenset(("what", "the"))


class Engine:
    """Texts go in, and are found again. What an engine cannot do is not in `can`."""

    module: ClassVar = ""  # what is imported first, and timed
    can: ClassVar = frozenset(("bulk", "search", "disk"))
    at_once: ClassVar = False  # it is filled in one call

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def bulk(self, texts: Sequence[str]) -> None:
        raise NotImplementedError

    def add(self, text: str) -> None:
        raise NotImplementedError

    def search(self, question: str) -> object:
        raise NotImplementedError

    def pack(self, question: str) -> object:
        raise NotImplementedError

    def open(self) -> None:
        """Open again what `close` closed."""

    def close(self) -> None:
        """Let go of the files."""


_ALL: Final = frozenset(("bulk", "add", "add_search", "search", "open_search", "disk"))


class Memplane(Engine):
    """A plane, as a program opens it."""

    module = "memplane"
    can = _ALL | {"pack", "pack_fast"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._memplane = importlib.import_module("memplane")
        self._plane = self._memplane.init(folder / "plane", durability="os", trusted=False)
        self._plane.search("what is there")  # from now on it is indexed as it is written

    def bulk(self, texts: Sequence[str]) -> None:
        self._plane.record_many({"text": text, "role": "user", "session": "s"} for text in texts)
        self._plane.upkeep.index()

    def add(self, text: str) -> None:
        self._plane.record(text, role="user", session="s")

    def search(self, question: str) -> object:
        return self._plane.search(question, k=_K)

    def pack(self, question: str) -> object:
        return self._plane.pack(question, budget=_BUDGET, intent="deep")

    def pack_fast(self, question: str) -> object:
        return self._plane.pack(question, budget=_BUDGET, intent="fast")

    def open(self) -> None:
        self._plane = self._memplane.open(self.folder / "plane", durability="os")

    def close(self) -> None:
        self._plane.close()


class FTS5(Engine):
    """SQLite's own index of words, WAL; the words of a question joined by OR."""

    module = "sqlite3"
    can = _ALL
    stop_words = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.open()
        self._ask("CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(text)")

    def _ask(self, *asked: Any) -> list[Any]:
        return self._connection.execute(*asked).fetchall()

    def bulk(self, texts: Sequence[str]) -> None:
        self._ask("BEGIN")
        self._connection.executemany("INSERT INTO texts VALUES (?)", ((one,) for one in texts))
        self._ask("COMMIT")

    def add(self, text: str) -> None:
        self._ask("INSERT INTO texts VALUES (?)", (text,))

    def search(self, question: str) -> object:
        words = [one for one in question.split() if self.stop_words or one not in _STOP]
        wanted = " OR ".join(f'"{word}"' for word in words)
        return self._ask(
            "SELECT text, rank FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (wanted, _K)
        )

    def open(self) -> None:
        self._connection = sqlite3.connect(self.folder / "texts.sqlite", isolation_level=None)
        self._ask("PRAGMA journal_mode=WAL")
        self._ask("PRAGMA synchronous=NORMAL")

    def close(self) -> None:
        self._connection.close()


class FTS5Content(FTS5):
    """The same without the words that every text has."""

    stop_words = False


class Tantivy(Engine):
    """Tantivy on disk; each text added is committed, as it is found after that alone."""

    module = "tantivy"
    can = _ALL
    at_once = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._tantivy = importlib.import_module("tantivy")
        schema = self._tantivy.SchemaBuilder().add_text_field("text", stored=True).build()
        (folder / "index").mkdir()
        self._index = self._tantivy.Index(schema, str(folder / "index"))

    def bulk(self, texts: Sequence[str]) -> None:
        writer = self._index.writer()
        for text in texts:
            writer.add_document(self._tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def add(self, text: str) -> None:
        writer = self._index.writer()
        writer.add_document(self._tantivy.Document(text=text))
        writer.commit()
        self._index.reload()

    def search(self, question: str) -> object:
        query = self._index.parse_query(question, ["text"])
        searcher = self._index.searcher()
        return [searcher.doc(at)["text"] for _, at in searcher.search(query, _K).hits]

    def open(self) -> None:
        self._index = self._tantivy.Index.open(str(self.folder / "index"))


class BM25s(Engine):
    """bm25s in memory; it cannot be added to."""

    module = "bm25s"
    can = frozenset(("bulk", "search"))
    at_once = True

    def bulk(self, texts: Sequence[str]) -> None:
        self._index = importlib.import_module("bm25s").BM25()
        self._index.index([text.split() for text in texts], show_progress=False)
        self._texts = list(texts)

    def search(self, question: str) -> object:
        count = min(_K, len(self._texts))
        found = self._index.retrieve([question.split()], k=count, show_progress=False)
        return [self._texts[at] for at in found.documents[0]]


class RankBM25(Engine):
    """rank_bm25 in memory; it cannot be added to."""

    module = "rank_bm25"
    can = frozenset(("bulk", "search"))
    at_once = True

    def bulk(self, texts: Sequence[str]) -> None:
        self._texts = list(texts)
        made = importlib.import_module("rank_bm25").BM25Okapi
        self._index = made([text.split() for text in self._texts])

    def search(self, question: str) -> object:
        found: object = self._index.get_top_n(question.split(), self._texts, _K)
        return found


class AgentRecall(Engine):
    """agentrecall-db with its words alone."""

    module = "agentrecall"
    can = _ALL

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._make = importlib.import_module("agentrecall").Memory
        self.open()

    def bulk(self, texts: Sequence[str]) -> None:
        self._memory.add_many(list(texts))

    def add(self, text: str) -> None:
        self._memory.add(text)

    def search(self, question: str) -> object:
        return self._memory.search(question, k=_K)

    def open(self) -> None:
        self._memory = self._make(str(self.folder / "memory.db"), embeddings=False)

    def close(self) -> None:
        self._memory.close()


class CtxKernel(Engine):
    """ctxkernel: a log that is made into one context; it is searched by pattern alone."""

    module = "ctxkernel"
    can = frozenset(("bulk", "add", "pack", "disk"))

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        kernel = importlib.import_module("ctxkernel")
        self._engine = kernel.ContextEngine(
            root=str(folder / "kernel"), budget=kernel.budgets.window(_BUDGET)
        )

    def bulk(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        self._engine.record_user(text)

    def pack(self, question: str) -> object:
        self._engine.record_user(question)
        return self._engine.assemble()


class Chroma(Engine):
    """Chroma on disk, given vectors that cost next to nothing: its time alone."""

    module = "chromadb"
    can = _ALL - {"open_search"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        chromadb = importlib.import_module("chromadb")
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder / "chroma"), settings=settings)
        self._texts = client.create_collection("texts", embedding_function=None)
        self._embedded = importlib.import_module("memory_peers").embedded
        self._count = 0

    def bulk(self, texts: Sequence[str]) -> None:
        ids = [str(self._count + at) for at in range(len(texts))]
        self._count += len(texts)
        vectors = [self._embedded(one) for one in texts]
        self._texts.add(ids=ids, documents=list(texts), embeddings=vectors)

    def add(self, text: str) -> None:
        self.bulk([text])

    def search(self, question: str) -> object:
        return self._texts.query(query_embeddings=[self._embedded(question)], n_results=_K)


class _Memory(Engine):
    """A memory of agents, through its own front door: see `memory_peers`."""

    can = frozenset(("bulk", "add", "add_search", "search", "disk"))
    peer = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._memory: Any = importlib.import_module("memory_peers").opened(
            self.peer, folder / self.peer
        )

    def bulk(self, texts: Sequence[str]) -> None:
        self._memory.fill(list(texts))

    def add(self, text: str) -> None:
        self._memory.add(text)

    def search(self, question: str) -> object:
        return self._memory.recall(question, _K)

    def close(self) -> None:
        self._memory.close()


class Mem0(_Memory):
    """mem0 with `infer=False`: no model is asked."""

    module, peer = "mem0", "mem0"


class Tulving(_Memory):
    """tulving: a search, and `curate` within a budget."""

    module, peer = "tulving", "tulving"
    can = _Memory.can | {"pack"}

    def search(self, question: str) -> object:
        return self._memory.memory.search(question, top_k=_K)

    def pack(self, question: str) -> object:
        return self._memory.memory.curate(question, token_budget=_BUDGET)


ENGINES: Final[dict[str, type[Engine]]] = {
    "memplane": Memplane,
    "SQLite FTS5": FTS5,
    "SQLite FTS5, no stop words": FTS5Content,
    "tantivy": Tantivy,
    "bm25s": BM25s,
    "rank_bm25": RankBM25,
    "agentrecall-db": AgentRecall,
    "tulving": Tulving,
    "ctxkernel": CtxKernel,
    "chromadb": Chroma,
    "mem0, infer=False": Mem0,
}
# The largest size at which an engine is asked: its filling or its answers take minutes beyond.
SIZES_MAX: Final = {
    "rank_bm25": 100_000, "agentrecall-db": 100_000, "chromadb": 10_000, "ctxkernel": 2_000,
    "tulving": 2_000, "mem0, infer=False": 1_000,
}  # fmt: skip


def timed(act: Callable[[], object]) -> float:
    """Microseconds of processor time, those of other threads included."""
    begun = time.process_time()
    act()
    return (time.process_time() - begun) * _MICRO


class _Asked:
    """Does what it is asked with one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def bulk(self, texts: list[str]) -> list[float]:
        return [timed(lambda: self.engine.bulk(texts)) / max(1, len(texts))]

    def each(self, work: str, texts: list[str]) -> list[float]:
        act = self._add_search if work == "add_search" else getattr(self.engine, work)
        return [timed(lambda text=text: act(text)) for text in texts]  # type: ignore[misc]

    def _add_search(self, text: str) -> object:
        self.engine.add(text)
        return self.engine.search(" ".join(["what", *text.split()[:6], "the"]))

    def open_search(self, texts: list[str]) -> list[float]:
        def again(text: str) -> None:
            self.engine.close()
            self.engine.open()
            self.engine.search(text)

        return [timed(lambda text=text: again(text)) for text in texts]  # type: ignore[misc]


def _bytes(folder: Path) -> int:
    """What lies in a folder, as the file system stores it."""
    files = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return sum(one.stat().st_blocks * 512 for one in files)


def _resident_mb() -> float:
    """The most that was in memory; what `getrusage` tells counts from before the program began."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024


def main() -> int:
    """`side_engines.py NAME FOLDER`: answers requests until the end of its input."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    made = ENGINES[name]
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints disturbs nobody

    def answer(**told: Any) -> None:
        print(json.dumps(told), file=answers, flush=True)

    try:
        imported = timed(lambda: importlib.import_module(made.module))
        engine = made(folder)
    except ImportError as error:
        answer(missing=str(error))
        return 0
    answer(import_us=imported, can=sorted(made.can), at_once=made.at_once)
    asked = _Asked(engine)
    try:
        for line in sys.stdin:
            request = json.loads(line)
            work, texts = request["do"], request.get("texts", [])
            if work == "end":
                break
            if work == "size":
                answer(bytes=_bytes(folder), resident_mb=_resident_mb())
            elif work in ("bulk", "open_search"):
                answer(us=getattr(asked, work)(texts))
            else:
                answer(us=asked.each(work, texts))
        engine.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
