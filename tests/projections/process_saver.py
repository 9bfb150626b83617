"""A process of its own that folds one fixed history and saves: run by the tests."""

import resource
import sys
from pathlib import Path

from builders_journal import Journal

from memplane.projections.ledger import Cards, Decisions
from memplane.projections.memories import Memories
from memplane.projections.projector import Folded, catch_up

ROUNDS = 24
ROWS_A_ROUND = 25


def rows(round_):
    for n in range(ROWS_A_ROUND):
        at = round_ * ROWS_A_ROUND + n
        if n == 7:
            yield {
                "kind": "forget",
                "data": {
                    "forget": {"key": f"k{at % 31}"},
                    **({"undo": True} if round_ % 3 == 0 else {}),
                },
            }
        elif n == 9:
            yield {"kind": "pin", "refs": (f"e{at - 2}", f"e{at // 2}")}
        else:
            kind = ("decision", "fact", "message")[at % 3]
            yield {
                "kind": kind,
                "key": f"k{at % 31}",
                "session": f"s{at % 5}",
                "text": f"text {at}",
            }


def opened(journal, folder):
    parts = [
        Folded(projector, journal, folder, plane="plane") for projector in (Decisions(), Cards())
    ]
    return [*parts, Memories(journal, folder, plane="plane")]


def whole():
    return Journal(row for round_ in range(ROUNDS) for row in rows(round_))


def same(followers, journal):
    fresh = opened(journal, None)
    catch_up(journal, fresh)
    for one, other in zip(followers, fresh, strict=True):
        assert one.position == other.position
        if isinstance(one, Memories):
            assert one.dump() == other.dump()
        else:
            assert one.projector.dump(one.state) == other.projector.dump(other.state)


def main(work, folder):
    if work == "save":
        journal = Journal()
        followers = opened(journal, folder)
        for round_ in range(ROUNDS):
            journal.extend(rows(round_))
            catch_up(journal, followers)
            for one in followers:
                one.save()
            same(followers, journal)
            if round_ % 5 == 0:
                followers[-1].close()
                followers = opened(journal, folder)
                catch_up(journal, followers)
                same(followers, journal)
        followers[-1].close()
        return
    if work == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, resource.RLIM_INFINITY))
    journal = whole()
    followers = opened(journal, folder)
    catch_up(journal, followers)
    if work == "look":
        same(followers, journal)
        followers[-1].close()
        return
    saved = [one.save() for one in followers]
    assert saved == ([False] * 3 if work == "full" else [True] * 3), saved
    same(followers, journal)
    if work == "once":
        (folder / "memories.dump").write_bytes(followers[-1].dump())
    followers[-1].close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
