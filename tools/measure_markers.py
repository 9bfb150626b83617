"""How well standing instructions and preferences are found in what users say.

    python tools/measure_markers.py --data DATA_DIR [--policy scoring.yaml] [--show N] [--seed S]

First the sentences of `tests/intake/standing.tsv`: standing or not, whichever marker they get.

Labelled: `beam_100K/` and `beam_500K/`, where the turns that questions of instruction_following and
preference_following name as evidence are the positives and all other turns of users the negatives.
That is strict twice over: a part of the evidence only follows up on an instruction, and most
instructions are asked about by no question. `--show N` prints so many of the hits beside the
evidence, to be judged by eye.

Unlabelled: how much of what users say is marked in chats between people (`locomo/`, `realtalk/`)
and in the transcripts of coding agents (`next_need/`, `claude_code_raw/`).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from memplane.importers.claude_code import ClaudeCode
from memplane.intake import Marker
from memplane.policy import records

LABELLED: Final = ("beam_100K", "beam_500K")
CATEGORIES: Final = {
    "custom:instruction": "instruction_following",
    "custom:preference": "preference_following",
}
SENTENCES: Final = Path(__file__).parent.parent / "tests" / "intake" / "standing.tsv"
UNLABELLED: Final = ("locomo", "realtalk", "next_need")


def rows(path: Path) -> Iterator[Any]:
    """The JSON values of a gzipped file of lines; lines that are no JSON are passed over."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def labelled(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """What users said, and for which markers it is evidence."""
    evidence: dict[tuple[str, str], set[str]] = {}
    for question in rows(folder / "questions.jsonl.gz"):
        for marker, category in CATEGORIES.items():
            if question["category"] == category:
                for event in question["evidence_event_ids"]:
                    place = (question["conversation_id"], event)
                    evidence.setdefault(place, set()).add(marker)
    for event in rows(folder / "events.jsonl.gz"):
        if event["role"] == "user":
            place = (event["conversation_id"], event["event_id"])
            yield event["text"], evidence.get(place, set())


def users(folder: Path) -> Iterator[str]:
    """What users said in a converted set."""
    for event in rows(folder / "events.jsonl.gz"):
        if event["role"] == "user" and event.get("kind", "message") == "message":
            yield event["text"]


def transcripts(folder: Path) -> Iterator[str]:
    """What users said in transcripts as they lie on disk, as the importer tells them."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        reader = ClaudeCode()
        for record in rows(path):
            body = json.dumps(record).encode()
            for row in reader.read(record, body).rows if isinstance(record, dict) else ():
                if row.get("role") == "user" and row["kind"] == "message":
                    yield row["text"]


def sentences(marker: Marker) -> None:
    """Precision and recall on sentences that were made up, and those that are judged wrongly."""
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = [bool(CATEGORIES.keys() & marker.find(said, "user")) for _, said in table]
    wanted = [label == "yes" for label, _ in table]
    right = sum(got and want for got, want in zip(found, wanted, strict=True))
    shares = right / max(1, sum(found)), right / max(1, sum(wanted))
    print(f"{len(table)} sentences: precision {shares[0]:.1%}, recall {shares[1]:.1%}")
    for got, want, (_, said) in zip(found, wanted, table, strict=True):
        if got is not want:
            print(f"  {'missed' if want else 'marked'}: {said}")
    print()


def strict(marker: Marker, data: Path, show: int, seed: int) -> None:
    """Precision and recall against the evidence of questions, and hits to look at."""
    said = [row for name in LABELLED for row in labelled(data / name)]
    found = [set(marker.find(text, "user")) for text, _ in said]
    print(f"{len(said)} turns of users in {', '.join(LABELLED)}")
    print("marker              evidence  found    hits  strict precision  recall")
    for name in CATEGORIES:
        right = sum(name in of and name in got for (_, of), got in zip(said, found, strict=True))
        wanted, hits = sum(name in of for _, of in said), sum(name in got for got in found)
        share = right / max(1, hits), right / max(1, wanted)
        print(f"{name:18} {wanted:9} {right:6} {hits:7} {share[0]:17.1%} {share[1]:7.1%}")
    either = sum(bool(got & CATEGORIES.keys()) for got in found)
    print(f"either: {either} turns, {either / len(said):.1%}")
    beside = [
        (name, text)
        for (text, of), got in zip(said, found, strict=True)
        for name in CATEGORIES
        if name in got and name not in of
    ]
    for name, text in random.Random(seed).sample(beside, min(show, len(beside))):
        print(f"  {name.partition(':')[2]:12} {' '.join(text.split())[:200]}")


def shares(marker: Marker, data: Path) -> None:
    """How much of what users say in other sets is marked, and as what."""
    print("\nset               turns   marked  of them")
    sets = {name: users(data / name) for name in UNLABELLED}
    for name, texts in {**sets, "claude_code_raw": transcripts(data / "claude_code_raw")}.items():
        said = list(dict.fromkeys(texts))
        found = [marker.find(text, "user") for text in said]
        by = Counter(one for got in found for one in got)
        marked = sum(map(bool, found)) / max(1, len(said))
        print(f"{name:16} {len(said):6} {marked:8.1%}  {dict(sorted(by.items()))}")


def speed(marker: Marker, data: Path) -> None:
    """The time that a text of 600 characters takes."""
    texts = [text for text, _ in labelled(data / LABELLED[0]) if 400 <= len(text) < 800][:300]
    length = sum(map(len, texts)) / len(texts)
    for role in ("user", "assistant"):
        best = float("inf")
        for _ in range(20):
            begun = time.process_time_ns()
            for text in texts:
                marker.find(text, role)
            best = min(best, (time.process_time_ns() - begun) / len(texts) / 1000)
        print(f"{best:.1f} us for {length:.0f} characters of role {role}")


def main() -> None:
    """Measure what stands in the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DATA_DIR")
    parser.add_argument("--policy", type=Path, help="the tables of this scoring.yaml")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print so many hits")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tables = records.Markers()
    if given.policy is not None:
        tables = records.build_markers(yaml.safe_load(given.policy.read_bytes())["markers"])
    marker = Marker(tables)
    sentences(marker)
    strict(marker, given.data, given.show, given.seed)
    shares(marker, given.data)
    print()
    speed(marker, given.data)


if __name__ == "__main__":
    main()
