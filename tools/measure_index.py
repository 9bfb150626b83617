"""How well the lexical index ranks: nDCG@10 and recall@100 on a collection in BEIR form.

    python tools/measure_index.py FOLDER...

Each folder holds corpus.jsonl.gz (_id, title, text), queries.jsonl.gz (_id, text) and
qrels.tsv.gz (query, document, grade; a header line). Words, bigrams and prefixes are scored
with the weights that the index has by default.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memplane.index import terms
from memplane.index.bm25 import BM25, Weights
from memplane.index.document import Document
from memplane.index.store import Index


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def grades(path: Path) -> dict[str, dict[str, int]]:
    """Return the judged documents of each query, those of grade 0 left out."""
    found: dict[str, dict[str, int]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            fields = line.split()
            query, document, grade = fields[0], fields[-2], fields[-1]
            if grade.lstrip("-").isdecimal() and int(grade) > 0:
                found.setdefault(query, {})[document] = int(grade)
    return found


def ndcg(ranked: list[str], judged: dict[str, int], k: int = 10) -> float:
    """Return the gain of the first k against the best possible order."""
    gains = [judged.get(name, 0) / math.log2(i + 2) for i, name in enumerate(ranked[:k])]
    best = sorted(judged.values(), reverse=True)[:k]
    return sum(gains) / sum(grade / math.log2(i + 2) for i, grade in enumerate(best))


def measure(folder: Path, bm25: BM25, weights: Weights) -> None:
    """Print one line for a collection."""
    names = []
    index = Index()

    def documents() -> Iterator[Document]:
        for seq, row in enumerate(rows(folder / "corpus.jsonl.gz")):
            names.append(row["_id"])
            yield Document(seq, text=f"{row.get('title', '')}\n{row['text']}")

    index.add_many(documents())
    view, judged = index.view(), grades(folder / "qrels.tsv.gz")
    gains, recalls = [], []
    for row in rows(folder / "queries.jsonl.gz"):
        relevant = judged.get(row["_id"])
        if relevant:
            hits = view.hits(terms.query(row["text"]), 100, bm25=bm25, weights=weights)
            ranked = [names[hit.seq] for hit in hits]
            gains.append(ndcg(ranked, relevant))
            recalls.append(len(relevant.keys() & set(ranked)) / len(relevant))
    print(
        f"{folder.name:12} documents {len(names):7,}  queries {len(gains):5,}"
        f"  nDCG@10 {sum(gains) / len(gains):.4f}  recall@100 {sum(recalls) / len(recalls):.4f}"
    )


def main() -> None:
    """Measure each folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--k1", type=float, default=BM25().k1)
    parser.add_argument("--b", type=float, default=BM25().b)
    parser.add_argument("--bigrams", type=float, default=Weights().bigrams)
    parser.add_argument("--prefixes", type=float, default=Weights().prefixes)
    given = parser.parse_args()
    for folder in given.folders:
        measure(folder, BM25(given.k1, given.b), Weights(given.bigrams, given.prefixes))


if __name__ == "__main__":
    main()
