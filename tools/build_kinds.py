"""Write memplane/index/data/kinds-en.bin, which nouns are of which kinds, from WordNet 3.0.

    python tools/build_kinds.py [--wordnet FOLDER] [--list FILE] [FILE]

WordNet is the folder with `data.noun` (Debian: `apt-get install wordnet-base`,
/usr/share/wordnet). The list names the kinds, their roots in WordNet and what WordNet lacks:
tools/kinds-en.txt. A noun is of a kind where a sense of it below one of the roots has at least half
of its tags, and it is not mostly a verb or an adjective. The same files give the same
bytes. The format is described in memplane/index/segment.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from memplane.index.segment import KINDS_MAGIC, THINGS

TARGET = Path(__file__).parent.parent / "memplane" / "index" / "data" / "kinds-en.bin"
LIST = Path(__file__).parent / "kinds-en.txt"
WORDNET = Path("/usr/share/wordnet")
SIZE_MAX = 100_000
SHARE_MIN = 0.5
LETTERS_MIN = 3
TAGS_MIN = 3  # fewer say nothing: then its senses are counted


class Kind(NamedTuple):
    """One kind of the list."""

    ask: list[str]
    roots: list[str]
    also: list[str]
    never: list[str]


class WordNet:
    """The nouns: senses, what stands below them, and how often each was tagged in SemCor."""

    def __init__(self, folder: Path) -> None:
        self.senses: dict[str, list[int]] = {}
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        self._names: dict[int, list[str]] = {}
        self._tags: Counter[tuple[str, int]] = Counter()
        self._all: Counter[str] = Counter()
        self._nouns: Counter[str] = Counter()
        self._entries: Counter[str] = Counter()
        self.irregular = [tuple(line.split()[:2]) for line in _lines(folder / "noun.exc")]
        for part in ("noun", "verb", "adj", "adv"):
            for line in _lines(folder / f"index.{part}"):
                lemma, _, count, *rest = line.split()
                self._entries[lemma] += int(count)
                if part == "noun":
                    self.senses[lemma] = [int(one) for one in rest[-int(count) :]]
        for line in _lines(folder / "data.noun"):
            self._read_sense(line.partition(" | ")[0].split())
        for line in _lines(folder / "cntlist.rev"):
            key, sense, count = line.split()
            lemma, _, rest = key.partition("%")
            self._all[lemma] += int(count)
            if rest[0] == "1":
                self._nouns[lemma] += int(count)
                self._tags[lemma, int(sense)] += int(count)

    def _read_sense(self, fields: list[str]) -> None:
        number, count = int(fields[0]), int(fields[3], 16)
        self._names[number] = fields[4 : 4 + 2 * count : 2]
        pointers = fields[5 + 2 * count :]
        for symbol, other, part in zip(pointers[::4], pointers[1::4], pointers[2::4], strict=False):
            if symbol in {"@", "@i"} and part == "n":
                self._below[int(other)].append(number)

    def below(self, root: str) -> set[int]:
        """The senses below a root (`lemma.sense`) and itself."""
        lemma, _, sense = root.partition(".")
        left, found = [self.senses[lemma][int(sense or 1) - 1]], set[int]()
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += self._below[one]
        return found

    def shares(self, lemma: str) -> Iterator[tuple[int, float]]:
        """The senses of a noun and the share of each; all less for a word that is often no noun."""
        senses = self.senses[lemma]
        counts = [self._tags[lemma, at] + 1 / at for at in range(1, len(senses) + 1)]
        noun = len(senses) / self._entries[lemma]
        if self._all[lemma] >= TAGS_MIN:
            noun = self._nouns[lemma] / self._all[lemma]
        for sense, count in zip(senses, counts, strict=True):
            yield sense, count / sum(counts) * min(1.0, 2 * noun)


def main() -> None:
    """Build the file and say how large it became."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wordnet", type=Path, default=WORDNET, metavar="FOLDER")
    parser.add_argument("--list", type=Path, default=LIST, metavar="FILE")
    parser.add_argument("target", nargs="?", type=Path, default=TARGET, metavar="FILE")
    asked = parser.parse_args()
    kinds, words = read_list(asked.list)
    data = encode(kinds, words, kinds_of_words(kinds, WordNet(asked.wordnet)))
    assert len(data) <= SIZE_MAX, f"{len(data):,} bytes"
    asked.target.write_bytes(data)
    print(f"{asked.target.name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


def read_list(path: Path) -> tuple[dict[str, Kind], dict[str, list[str]]]:
    """Read the kinds, and the words of `person` and `time`."""
    kinds: dict[str, Kind] = {}
    words: dict[str, list[str]] = {"person": [], "time": []}
    name = ""
    for line in path.read_text("utf-8").splitlines():
        key, _, rest = line.partition(" ")
        if key == "kind":
            name = rest
            kinds[name] = Kind([], [], [], [])
        elif key == "ask":
            kinds[name].ask.append(rest)
        elif key == "from":
            kinds[name].roots.extend(root.strip() for root in rest.split(","))
        elif key in {"also", "not"}:
            (kinds[name].also if key == "also" else kinds[name].never).extend(rest.split())
        elif key in words:
            words[key] += rest.split()
    assert tuple(kinds) == THINGS, "the kinds are those of memplane/index/segment.py, in order"
    return kinds, words


def kinds_of_words(kinds: dict[str, Kind], nouns: WordNet) -> dict[str, int]:
    """The bits of each word that is of a kind."""
    found: Counter[str] = Counter()
    for at, kind in enumerate(kinds.values()):
        senses = set[int]().union(*map(nouns.below, kind.roots))
        own = {
            lemma
            for lemma in nouns.senses
            if lemma.isalpha() and len(lemma) >= LETTERS_MIN
            if any(sense in senses and share >= SHARE_MIN for sense, share in nouns.shares(lemma))
        }
        # Mice, children: the plurals that no rule gives.
        own |= {plural for plural, lemma in nouns.irregular if lemma in own and plural.isalpha()}
        for word in (own - set(kind.never)) | set(kind.also):
            found[word] |= 1 << at
    return dict(found)


def encode(kinds: dict[str, Kind], words: dict[str, list[str]], found: dict[str, int]) -> bytes:
    """The bytes of the file."""
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for word, bits in found.items():
        groups[bits].append(word)
    lines = [f"{bits:x} " + " ".join(sorted(own)) for bits, own in sorted(groups.items())]
    body = zlib.compress("\n".join(lines).encode(), 9)
    header = {
        "language": "en",
        "source": "WordNet 3.0",
        "kinds": list(kinds),
        "asked": {name: "|".join(kind.ask) for name, kind in kinds.items()},
        "person": words["person"],
        "time": words["time"],
        "words": len(found),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return KINDS_MAGIC + json.dumps(header, separators=(",", ":")).encode() + b"\n" + body


def _lines(path: Path) -> Iterable[str]:
    with path.open(encoding="latin-1") as file:
        for line in file:
            if not line.startswith(" "):  # the licence
                yield line


if __name__ == "__main__":
    main()
