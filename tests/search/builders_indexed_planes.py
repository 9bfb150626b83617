"""A shelf of events with an index, for the tests of how the index follows its log."""

import shutil

from builders_searches import retriever

import memplane
from memplane.search.indexing import Indexed

QUERIES = ("herons", "herons nest", "where do cranes nest?", "what did Ann say?", "storage k1")
WORDS = "herons cranes lake nest ledger parser budget segment replay window anchor queue".split()


def rows(count, start=0):
    for number in range(start, start + count):
        words = (WORDS[(number * step) % len(WORDS)] for step in range(1, 4 + number % 9))
        row = {
            "text": f"{' '.join(words)} {number}",
            "session": f"s{number % 7}",
            "id": f"e{number}",
        }
        if number % 40 == 0:
            row["text"] = f"{row['text']}. " * 200
        yield row


def opened(plane, folder):
    return Indexed(
        plane._log, folder, plane=plane.id, policies=plane.upkeep.policies, keeps=True
    )  # fmt: skip


def only_log(home, to):
    """A copy of a plane that has nothing but its log."""
    shutil.copytree(home, to, ignore=shutil.ignore_patterns("index", "projections"))
    return to


def filled(home):
    """A home with 900 events in its log and, behind it, an index on disk."""
    with memplane.init(home, durability="os") as plane:
        plane.record_many(rows(900))
        retriever(plane)
    assert (home / "index" / "manifest.json").exists()
    return home
