"""Planes with letters for vectors, for the tests of what embedders make and requests use."""

import re
from contextlib import contextmanager

from fakes_embedder import Anagrams

import memplane
from memplane.index import storage

NOW = "2026-03-01T12:00:00Z"
ODD = "hreons nset naer the lkae"  # no word of it is in the log
HERONS = "herons nest near the lake"
WORDS = "ledger parser budget segment replay window anchor queue cranes storks printer ink".split()


def rows(count, start=0):
    for number in range(start, start + count):
        words = (WORDS[(number * step + step) % len(WORDS)] for step in range(1, 5 + number % 5))
        yield {"text": f"{' '.join(words)} {number}", "session": f"s{number % 3}", "ts": NOW}


@contextmanager
def plane_of_lines(home):
    """A plane of 60 lines, one of them about herons, of which nothing is embedded yet."""
    with memplane.init(home, durability="os", embedder=Anagrams()) as plane:
        plane.record_many(rows(40))
        plane.record(HERONS, id="herons", ts=NOW)
        plane.record_many(rows(19, 40))
        written(plane, "scoring.yaml", "dense_least", 2)
        yield plane


def again(plane, **fields):
    return memplane.open(plane.home, durability="os", **{"embedder": Anagrams(), **fields})


def written(plane, name, pattern, value):
    """Change a value of a policy file."""
    path = plane.home / "policies" / name
    text, count = re.subn(rf"(?m)^( *{pattern}: ).*$", rf"\g<1>{value}", path.read_text())
    assert count == 1
    path.write_text(text)


def packed(plane, query=ODD, **asked):
    return plane.pack(query, **{"now": NOW, "budget": 900, "intent": "deep"} | asked)


def found(plane, query=ODD, **asked):
    return [hit.event.id for hit in plane.search(query, **{"now": NOW} | asked)]


def files(home):
    folder = home / "index" / "dense"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def is_there(home):
    return (home / "index" / "dense" / storage.VECTORS_HEADER).exists()
