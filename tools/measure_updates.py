"""Whether a block shows both of two statements that disagree, and the newer one first.

    python tools/measure_updates.py --data DATA_DIR [--sets beam_100K] [--budget 2000] [-v]

DATA_DIR holds a folder a set with `events.jsonl.gz` and `questions.jsonl.gz` in the neutral form,
where a question's `evidence_by_role` names the turns of two statements: an old value and the one
that replaced it, or two that contradict each other. Pairs that share a turn are left out. Blocks
are packed as anybody would pack them, one plane a conversation. `-v` names the pairs that fail.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import memplane
from memplane.evaluate import PlainIndex, SystemFactory, read_dataset, recorded
from memplane.plane.plane import Plane
from memplane.wiring import make_counter

CATEGORIES: Final = ("knowledge_update", "contradiction_resolution")


def make(folder: Path, policies: Mapping[str, bytes]) -> Plane:
    """A plane under memplane's own policies."""
    assert not policies
    return memplane.init(folder, durability="os", trusted=False)


def statements(path: Path) -> dict[tuple[str, str], tuple[str, list[list[str]]]]:
    """By conversation and question: the category and the turns of its two statements."""
    found = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            roles: dict[str, list[str]] = row.get("evidence_by_role") or {}
            if row["category"] in CATEGORIES and len(roles) > 1:
                both = list(roles.values())[:2]
                if not set(both[0]) & set(both[1]):
                    place = (row["conversation_id"], row["question"])
                    found[place] = (row["category"], both)
    return found


def judged(plane: Plane, query: str, sides: list[list[str]], request: dict[str, Any]) -> str:
    """`missing`, `newer first` or `older first`, by where the statements begin in the block."""
    places: dict[str, int] = {}
    for at, entry in enumerate(plane.pack(query, **request).entries):
        for name in (*entry.events, *entry.parts):
            places.setdefault(name, at)
    shown = [[name for name in side if name in places] for side in sides]
    if not all(shown):
        return "missing"
    older, newer = sorted(shown, key=lambda side: max(plane.event(name).seq for name in side))
    first = min(places[name] for name in newer) < min(places[name] for name in older)
    return "newer first" if first else "older first"


def main() -> None:
    """Print a line for each set and category."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="beam_100K,beam_500K")
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    for name in args.sets.split(","):
        folder = args.data / name
        dataset = read_dataset(folder / "events.jsonl.gz", folder / "questions.jsonl.gz")
        pairs = statements(folder / "questions.jsonl.gz")
        counts: Counter[tuple[str, str]] = Counter()
        for title, conversation in dataset.conversations.items():
            asked = [q for q in dataset.asked if (q.conversation, q.text) in pairs]
            asked = [question for question in asked if question.conversation == title]
            with recorded(
                [conversation], SystemFactory(make, make_counter, PlainIndex), {}, None
            ) as made:
                for question in asked:
                    category, sides = pairs[title, question.text]
                    ids = [[conversation.ids[turn] for turn in side] for side in sides]
                    request = {"budget": args.budget}
                    if question.asked_at is not None:
                        request["now"] = question.asked_at
                    found = judged(made.plane, question.text, ids, request)
                    counts[category, found] += 1
                    if args.verbose and found != "newer first":
                        print(f"{found}: {question.text}")
        for category in CATEGORIES:
            newer, older = counts[category, "newer first"], counts[category, "older first"]
            both, all_ = newer + older, newer + older + counts[category, "missing"]
            print(f"{name} {category}: both shown {both} of {all_}, newer first {newer} of {both}")


if __name__ == "__main__":
    main()
