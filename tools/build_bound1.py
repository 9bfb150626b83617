"""Write memplane/tokens/bound1.xz: both vocabularies and a byte for each character.

Beside it the same laid out for searching, `bound1.idx`.

    python tools/build_bound1.py [FILE]

Needs rs-bpe, whose tokens are read out one by one; takes less than a minute and gives the
same bytes on every run. The formats are described in memplane/tokens/__init__.py.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
import unicodedata
from pathlib import Path

from rs_bpe.bpe import openai
from table_formats import encode_token_index, encode_vocabularies

from memplane.tokens import (
    BLANKS,
    CHARACTERS,
    LETTER,
    LOWER,
    MARK,
    NUMBER,
    OTHER,
    UNSURE,
    UPPER,
    WHITE,
    TokenRanks,
    merged_count,
    pretoken_count,
    unpack,
)

TARGET = Path(__file__).parent.parent / "memplane" / "tokens" / "bound1.xz"
SIZES = {"o200k": 199_998, "cl100k": 100_256}

# What a token holds up to an LF that does not end it, and up to the byte behind that.
READING_ON = re.compile(rb"(([^\r\n]*\n)[\r\n/])")

# These two are s and k where case is ignored, as both encodings do in contractions.
FOLDED = "\u017f\u212a"

GROUPS = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lm": LETTER, "Lo": LETTER}
GROUPS |= dict.fromkeys(("Mn", "Mc", "Me"), MARK) | dict.fromkeys(("Nd", "Nl", "No"), NUMBER)


def main() -> None:
    """Build the file and say how large it became."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", nargs="?", type=Path, default=TARGET, metavar="FILE")
    target = parser.parse_args().target
    o200k = tokens(openai.o200k_base(), SIZES["o200k"])
    cl100k = tokens(openai.cl100k_base(), SIZES["cl100k"])
    blob = encode_vocabularies(characters(o200k, cl100k), o200k, cl100k)
    packed = pack(blob)
    target.write_bytes(packed)
    laid_out = index(packed)
    target.with_suffix(".idx").write_bytes(laid_out)
    print(f"o200k {len(o200k):,} tokens, cl100k {len(cl100k):,} tokens")
    print(f"{len(blob):,} bytes, packed {len(packed):,}")
    print(f"sha256 {hashlib.sha256(packed).hexdigest()}")
    print(f"laid out for searching {len(laid_out):,}")


def index(packed: bytes) -> bytes:
    """Lay out the same for searching."""
    table = unpack(packed)
    o200k, cl100k = table.ranks
    assert isinstance(o200k, dict)
    assert isinstance(cl100k, dict)
    return encode_token_index(table.characters, (o200k, cl100k))


def tokens(encoding: object, size: int) -> list[bytes]:
    """Read the tokens of an rs-bpe encoding in rank order."""
    decode = encoding.bpe().decode_tokens  # type: ignore[attr-defined]
    return [bytes(decode([rank])) for rank in range(size)]


def pack(blob: bytes) -> bytes:
    """One xz stream, its settings spelled out so that they outlast a change of presets."""
    lzma2 = {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": 1 << 22,
        "lc": 4,
        "lp": 0,
        "pb": 0,
    }
    return lzma.compress(blob, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=[lzma2])


def characters(o200k: list[bytes], cl100k: list[bytes]) -> bytes:
    """Class and worst cases of each character."""
    first, second = Ends(o200k), Ends(cl100k)
    table = bytearray()
    for code in range(CHARACTERS):
        char = "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
        text = char.encode()
        table.append(group(char) | first.worst(text) - 1 << 3 | second.worst(text) - 1 << 5)
    return bytes(table)


def group(char: str) -> int:
    """Classify a character: UNSURE if Unicode 3.2 had another or a newer one may."""
    if char in BLANKS or char in "\r\n":
        return WHITE
    now, then = unicodedata.category(char), unicodedata.ucd_3_2_0.category(char)
    if char in FOLDED or now == "Cn" or "Z" in {now[0], then[0]}:
        return UNSURE
    known = GROUPS.get(now, OTHER)
    return known if known == GROUPS.get(then, OTHER) else UNSURE


class Ends:
    """How tokens begin and end, as far as a character's bytes can tell."""

    def __init__(self, vocabulary: list[bytes]) -> None:
        self.ranks = TokenRanks((token, rank) for rank, token in enumerate(vocabulary))
        # `closing` rests on both.
        assert all(merged_count(token, self.ranks) == 1 for token in vocabulary)
        reading_on = filter(None, map(READING_ON.match, vocabulary))
        assert all(not self.ranks.keys().isdisjoint(match.groups()) for match in reading_on)
        inner = [(token, size) for token in vocabulary for size in (1, 2, 3) if size < len(token)]
        self.heads = frozenset(token[:size] for token, size in inner)
        self.tails = frozenset(token[-size:] for token, size in inner)

    def worst(self, text: bytes) -> int:
        """Find how many tokens can begin in these bytes of one character.

        The first bytes may end a token from before, the last ones begin one that reads on;
        what is between them stands alone.
        """
        most = 1
        size = len(text)
        for start in range(size):
            if start and text[:start] not in self.tails:
                continue
            most = max(most, pretoken_count(text[start:], self.ranks))
            for end in range(start + 1, size):
                if text[end:] in self.heads:
                    most = max(most, pretoken_count(text[start:end], self.ranks) + 1)
        return most


if __name__ == "__main__":
    main()
