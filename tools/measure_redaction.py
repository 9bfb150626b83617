"""What redaction masks and what it leaves alone, on a folder of real and published material.

    python tools/measure_redaction.py DATA_DIR [--show] [--gaps]

Reads `secrets/` (generated cases by rule, labelled literals, labelled lines), transcripts as they
lie on disk (`claude_code_raw/`), the same kind converted (`next_need/`) and chats (`locomo/`,
`realtalk/`, `qmsum/`, `beam_100K/`). Everything is judged under the default policy. `--show` prints
every hit in the transcripts with what stands around it, `--gaps` the labelled spans that stay.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memplane.intake import Redactor
from memplane.intake.pairs import MARK
from memplane.intake.shapes import SHAPES, suspects
from memplane.policy.privacy import Privacy

REDACTOR: Final = Redactor(Privacy().redact_patterns)
CHATS: Final = ("locomo", "realtalk", "qmsum", "beam_100K")
# What must never change in a transcript: ids of records, messages and calls, hashes, paths.
KEPT: Final = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{40}\b|\b[0-9a-f]{64}\b"
    r"|\b(?:toolu|msg|req|call)_[A-Za-z0-9]{16,}|(?<![\w.:/-])(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]+)+"
)
AROUND: Final = 60


def rows(path: Path) -> Iterator[Any]:
    """The JSON values of a gzipped file of lines; lines that are no JSON are passed over."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def masked(before: str, after: str) -> list[tuple[int, int, str]]:
    """Where the marks of `after` stand in `before`, and their rules."""
    pieces = MARK.split(after)
    rules = [mark.group()[10:-1] for mark in MARK.finditer(after)]
    match = re.fullmatch("([\\s\\S]+?)".join(re.escape(piece) for piece in pieces), before)
    if match is None:  # a mark stood there before
        return []
    return [(*match.span(number), rule) for number, rule in enumerate(rules, 1)]


def generated(folder: Path) -> None:
    """Cases of the published rules: generated tokens and literals, by whether we mask them."""
    hit: Counter[tuple[str, str, str]] = Counter()
    all_of: Counter[tuple[str, str, str]] = Counter()
    ours: dict[str, Counter[str]] = defaultdict(Counter)
    for case in rows(folder / "gitleaks_cases.jsonl.gz"):
        kind = (case["rule"], case["label"], case["source"])
        _, counts = REDACTOR.redact(case["text"])
        all_of[kind] += 1
        if counts:
            hit[kind] += 1
        for rule in counts:
            ours[case["rule"]][rule] += 1
    print(f"shapes shipped: {len(SHAPES)}: {', '.join(shape.name for shape in SHAPES)}")
    names = {shape.name for shape in SHAPES}
    for label, source in sorted({(label, source) for _, label, source in all_of}):
        found = sum(n for kind, n in hit.items() if kind[1:] == (label, source))
        there = sum(n for kind, n in all_of.items() if kind[1:] == (label, source))
        print(f"cases {label} {source}: {found} of {there} masked")
    shipped = {rule for rule, by in ours.items() if names & set(by)}
    for kind, there in sorted(all_of.items()):
        rule, label, source = kind
        if label == "tp" and source != "literal" and hit[kind] < there:
            known = "shipped" if rule in shipped else "no shape"
            print(f"  {rule} ({known}): {hit[kind]} of {there}")


def labelled(folder: Path, *, gaps: bool) -> None:
    """Lines with labelled spans: a span counts when a mark covers it whole.

    A file's lines are judged together, as they would be recorded: a key block has many lines.
    """
    files: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in rows(folder / "credsweeper_lines.jsonl.gz"):
        files[row["file"]][row["line"]] = row
    there: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    partly: Counter[str] = Counter()
    for name, lines in files.items():
        text, starts = "", {}
        for number in sorted(lines):
            starts[number] = len(text)
            text += lines[number]["text"] + "\n"
        spans = masked(text, REDACTOR.redact(text)[0])
        for number, row in lines.items():
            for span in row["spans"]:
                start, end = starts[number] + span["start"], starts[number] + span["end"]
                there[span["rule"]] += 1
                if any(low <= start and end <= high for low, high, _ in spans):
                    whole[span["rule"]] += 1
                elif any(low < end and start < high for low, high, _ in spans):
                    partly[span["rule"]] += 1
                if gaps and not any(low <= start and end <= high for low, high, _ in spans):
                    around = text[max(0, start - AROUND) : end + 20][:200]
                    print(f"  gap {span['rule']}: {name}:{number}: {around!r}")
    for what in ("PEM Private Key", "Password"):
        print(f"labelled spans, {what}: {whole[what]} of {there[what]}")
    total, found = there.total(), whole.total()
    print(f"labelled spans: {found} of {total} masked whole ({found * 100 // total} %), ", end="")
    print(f"{partly.total()} in part")
    remaining = [f"{rule} {n - whole[rule]}" for rule, n in there.most_common() if n > whole[rule]]
    print(f"remaining: {', '.join(remaining)}")


def texts_of(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


class Scan:
    """Hits in different texts of a set, and what changed in them that must not."""

    def __init__(self) -> None:
        self.size = 0
        self.seen: set[str] = set()
        self.hits: Counter[tuple[str, str]] = Counter()
        self.changed: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Look at one text, if it is new."""
        self.size += len(text)
        if text in self.seen:
            return
        self.seen.add(text)
        after, counts = REDACTOR.redact(text)
        if not counts:
            return
        self.changed.update(Counter(KEPT.findall(text)) - Counter(KEPT.findall(after)))
        for low, high, rule in masked(text, after):
            self.hits[rule, text[max(0, low - AROUND) : high + 20]] += 1

    def tell(self, name: str, *, show: bool) -> None:
        """Print what was found: the policy's patterns mask what they match, so they count apart."""
        megabytes = self.size / 1_000_000
        own = sum(n for (rule, _), n in self.hits.items() if not rule.startswith("policy-"))
        rules = Counter(rule for rule, _ in self.hits.elements())
        print(
            f"{name}: {megabytes:.1f} MB of text, {self.hits.total()} hits in different texts "
            f"({self.hits.total() / megabytes:.2f} a MB), {own} of them by built-in rules "
            f"({own / megabytes:.2f} a MB): {dict(rules)}; "
            f"paths, uuids, hashes and ids changed: {self.changed.total()}"
        )
        for what, number in self.changed.items():
            print(f"  changed {number} x {what!r:.100}")
        for (rule, around), number in sorted(self.hits.items()) if show else ():
            print(f"  {number} x {rule}: {around[:240]!r}")


def transcripts(data: Path, *, show: bool) -> None:
    """Hits in transcripts of agents at work on code, and whether an identifier changed."""
    sets = {
        "claude_code_raw": sorted((data / "claude_code_raw").glob("*.jsonl.gz")),
        "next_need": [data / "next_need" / "events.jsonl.gz"],
    }
    for name, files in sets.items():
        scan = Scan()
        for file in files:
            for row in rows(file):
                for text in texts_of(row):
                    scan.add(text)
        scan.tell(name, show=show)


def chats(data: Path, *, show: bool) -> None:
    """Hits in conversations, where there is nothing to find."""
    for name in CHATS:
        size, hits = 0, 0
        for row in rows(data / name / "events.jsonl.gz"):
            text = row["text"]
            size += len(text)
            after, counts = REDACTOR.redact(text)
            hits += sum(counts.values())
            if show:
                for low, high, rule in masked(text, after):
                    print(f"  {rule}: {text[max(0, low - AROUND) : high + 20]!r}")
        print(f"{name}: {size / 1_000_000:.1f} MB of text, {hits} hits")


def cost(data: Path) -> None:
    """Microseconds a kilobyte of transcript text, texts with and without a suspect apart."""
    texts = []
    for file in sorted((data / "claude_code_raw").glob("*.jsonl.gz"))[:4]:
        for row in rows(file):
            texts += [text for text in texts_of(row) if 200 <= len(text) <= 20_000]
    plain = [text for text in texts if not suspects(text.encode())]
    others = [text for text in texts if suspects(text.encode())]
    for what, group in (("no shape's literal", plain), ("a shape's literal", others)):
        if not group:
            continue
        best = min(_seconds(group) for _ in range(3))
        kilobytes = sum(len(text.encode()) for text in group) / 1000
        print(f"cost, texts with {what}: {best * 1e6 / kilobytes:.1f} us a KB ({len(group)} texts)")


def _seconds(texts: list[str]) -> float:
    begin = time.perf_counter()
    for text in texts:
        REDACTOR.redact(text)
    return time.perf_counter() - begin


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--show", action="store_true", help="print every hit in the transcripts")
    parser.add_argument("--gaps", action="store_true", help="print the labelled spans that stay")
    given = parser.parse_args()
    generated(given.data / "secrets")
    labelled(given.data / "secrets", gaps=given.gaps)
    transcripts(given.data, show=given.show)
    chats(given.data, show=given.show)
    cost(given.data)


if __name__ == "__main__":
    main()
