"""Write memplane/index/data/stems-en.txt: what Snowball English makes of the commonest words.

    python tools/build_stems.py [FILE]

The words are those of the tables that memplane ships anyway: the vocabularies of o200k and cl100k,
which were learnt from what is written often, and that of the static word vectors. A word that the
stemmer leaves as it is by its ending alone is left out. It takes some seconds and gives the same
bytes on every run. The format is described at `StemTable` in memplane/index/stems.py.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from memplane.index.stems import ENDINGS, snowball
from memplane.index.vectors import StaticTable
from memplane.tokens import unpack

ROOT = Path(__file__).parent.parent / "memplane"
TARGET = ROOT / "index" / "data" / "stems-en.txt"
SIZE_MAX = 600_000
WORDS_A_LINE = 32
_TOKEN = re.compile(rb" ?([A-Za-z][a-z]+)")
_WORD = re.compile(r"[a-z]{3,40}")


def main() -> None:
    """Build the file and say how large it became."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", nargs="?", type=Path, default=TARGET, metavar="FILE")
    target = parser.parse_args().target
    kept = sorted({word for word in common_words() if word.endswith(ENDINGS)})
    text = laid_out(kept)
    assert len(text) <= SIZE_MAX, f"expected at most {SIZE_MAX:,} bytes, found {len(text):,}"
    target.write_text(text, encoding="ascii")
    print(f"{len(kept):,} words, {len(text):,} bytes")
    print(f"sha256 {hashlib.sha256(text.encode()).hexdigest()}")


def common_words() -> Iterator[str]:
    """Yield the words of the tables that memplane ships, in lower case, some of them twice."""
    for ranks in unpack((ROOT / "tokens" / "bound1.xz").read_bytes()).ranks:
        assert isinstance(ranks, dict)
        for token in ranks:
            found = _TOKEN.fullmatch(token)
            if found is not None and _WORD.fullmatch(word := found[1].decode().lower()):
                yield word
    table = StaticTable((ROOT / "index" / "data" / "static.i8").read_bytes())
    yield from filter(_WORD.fullmatch, table.vocabulary())


def laid_out(words: Iterable[str]) -> str:
    """Lay out words in rising order with their stems."""
    entries = (f" {word}{_change(word, snowball(word))}" for word in words)
    return "".join(f"{''.join(line)}\n" for line in _lines(entries))


def _lines(entries: Iterator[str]) -> Iterator[list[str]]:
    while line := list(islice(entries, WORDS_A_LINE)):
        yield line


def _change(word: str, stem: str) -> str:
    same = next((at for at, pair in enumerate(zip(word, stem)) if pair[0] != pair[1]), len(stem))  # noqa: B905
    same = min(same, len(word))
    gone = len(word) - same
    assert gone < 10, word
    return f"{gone}{stem[same:]}"


if __name__ == "__main__":
    main()
