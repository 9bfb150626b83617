"""Lay out the tables that ship with memplane: the bytes that its readers expect.

The formats are described where they are read: `memplane/tokens/__init__.py` (vocabularies) and
`memplane/index/vectors.py` (word vectors, and the nearest words of each).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from memplane.index import terms
from memplane.index.vectors import (
    NEAR_MAGIC,
    STATIC_MAGIC,
    NearWord,
    Rows,
    StaticTable,
    aligned,
)
from memplane.tokens import CHARACTERS, GROUP, MAGIC, single_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_END = b"\xff"  # no token has it: it is in no UTF-8 text
_WORD = 4


def encode_vocabularies(characters: bytes, o200k: list[bytes], cl100k: list[bytes]) -> bytes:
    """Lay out the unpacked file. `unpack` is its inverse, behind xz."""
    assert len(characters) == CHARACTERS
    assert o200k[:256] == cl100k[:256] == single_bytes()
    parts = [_END.join(tokens[256:]) for tokens in (o200k, cl100k)]
    assert not any(_END * 2 in part for part in parts)
    return characters + (_END * 2).join(parts)


def encode_token_index(
    characters: bytes, vocabularies: tuple[dict[bytes, int], dict[bytes, int]]
) -> bytes:
    """Lay out the file: `open_ranks` reads its second part."""
    parts = [MAGIC, characters]
    for ranks in vocabularies:
        tokens = sorted(ranks.keys() - {_END})
        assert not any(_END in token for token in tokens)
        ends = list(accumulate(len(token) + 1 for token in tokens))
        starts = [0, *ends[GROUP - 1 : -1 : GROUP]]
        parts += [_words([len(tokens)]), _words([ranks[token] for token in tokens])]
        parts += [_words(starts), _ended(tokens[::GROUP]), _ended(tokens)]
    return b"".join(parts)


def _ended(tokens: list[bytes]) -> bytes:
    text = b"".join(token + _END for token in tokens)
    return _words([len(text)]) + text


def _words(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(_WORD, "little") for number in numbers)


def encode_static_table(
    model: str,
    source: str,
    pieces: Sequence[str],
    words: int,
    weights: NDArray[np.uint16],
    rows: Rows,
) -> bytes:
    """The bytes of a table; the same values give the same bytes."""
    assert len(pieces) == len(weights) == len(rows)
    letters = "".join(f"{piece}\n" for piece in pieces).encode()
    body = bytearray(letters)
    body += b"\n" * (aligned(len(body)) - len(body))
    body += weights.astype("<u2").tobytes()
    body += bytes(aligned(len(body)) - len(body))
    body += rows.tobytes()
    header = {
        "model": model,
        "source": source,
        "dimension": rows.shape[1],
        "pieces": len(pieces),
        "words": words,
        "vocabulary": len(letters),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    line = json.dumps(header, separators=(",", ":")).encode()
    size = len(STATIC_MAGIC) + len(line) + 1
    return STATIC_MAGIC + line + b" " * (aligned(size) - size) + b"\n" + bytes(body)


def encode_neighbours(table: StaticTable, near: Sequence[Iterable[NearWord]]) -> bytes:
    """The bytes of the file; `near` has what is near to each whole word, in order."""
    words = table.vocabulary()[: table.words]
    place = {word: number for number, word in enumerate(words)}
    stems = np.array([terms.whole_term(terms.stem(word)) for word in words], "<u8")
    starts, kept = [0], []
    for number, others in enumerate(near):
        seen = {stems[number]}
        for other, permille in others:
            at = place[other]
            if stems[at] not in seen:
                seen.add(stems[at])
                kept.append((at, permille))
        starts.append(len(kept))
    numbers, permilles = np.array(kept, "<u2").reshape(-1, 2).T
    arrays = (stems, np.array(starts, "<u4"), numbers, permilles)
    body = b"".join(one.tobytes() for one in arrays)
    header = {"table": table.sha256, "near": len(kept), "sha256": hashlib.sha256(body).hexdigest()}
    line = json.dumps(header, separators=(",", ":")).encode()
    size = len(NEAR_MAGIC) + len(line) + 1
    return NEAR_MAGIC + line + b" " * (aligned(size) - size) + b"\n" + body
