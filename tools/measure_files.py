"""How many of the files that an agent touches next are on the list that memplane would show.

    python tools/measure_files.py DATA_DIR [--as-recorded]

DATA_DIR holds `events.jsonl.gz` (turns as the importer `jsonl` reads them) and `points.jsonl.gz`
(point: prompt, compaction or session_start; event_id; gold_paths). Every event goes through that
importer and into the projections; at each point, the state as of its event is asked the way a
pack asks: the session's own files for prompts and compactions, the guess for a session's start.
Only the events up to the point are known then. `--as-recorded` leaves paths absolute, as that
importer does; without it they are cut to the repository, as gold names them.

Printed: the mean part of the gold that the first 5, 10 and 20 files hold, over all points and
over each half of them (by time, and every second one); of sessions' starts also by author (the
home folder that most paths of the session lie in) and by week, first 20. Gold and lists name files
below the repository, so that a file in a work tree is the same file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from memplane.event import Event, encode
from memplane.importers.records import Jsonl
from memplane.policy import ChannelRule
from memplane.ports import Line
from memplane.projections.files import Files
from memplane.projections.hotset import Hotset
from memplane.recall.file_guess import guess_files
from memplane.recall.suppress import Scope

SIZES = (5, 10, 20)
# What lies before a file's name below the repository, in a clone or a work tree of anybody. Hooks
# take it from `.git`, imports from the session's folder; of this data neither is kept.
_REPOSITORY = re.compile(
    r"^(?:/Users/[^/]+/)?(?:.*?/)??(?=(?:cmd|docs|scripts|plans|\.github|\.claude)/|go\.mod$"
    r"|CLAUDE\.md$|README\.md$|mise\.toml$|\.go\w+\.ya?ml$)"
)
_AUTHOR = re.compile(r"^/Users/([^/]+)/")


class Characters:
    """A counter that costs nothing: what files are shown does not depend on tokens."""

    name = "len4"

    def count(self, text: str) -> int:
        return len(text) // 4


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped file of JSON lines."""
    with gzip.open(path, "rb") as file:
        for line in file:
            yield json.loads(line)


def events(folder: Path, *, cut: bool) -> Iterator[tuple[str, Line]]:
    """Each turn's own id and its line, as an import would write it."""
    reader = Jsonl()
    reader.begin({})
    seq = 0
    for record in rows(folder / "events.jsonl.gz"):
        for row in reader.read(record, json.dumps(record).encode()).rows:
            seq += 1
            data = row.get("data", {})
            if cut and "path" in data:
                data = {**data, "path": short(data["path"])}
            event = Event(
                seq, row["id"], row["ts"], row["ts"], row["kind"], session=row["session"],
                role=row.get("role"), text=row["text"], tokens=len(row["text"]) // 4, data=data,
            )  # fmt: skip
            size = len(encode(event._asdict()).encode())
            yield record["event_id"], Line(event, 1, 0, size)


def short(path: str) -> str:
    """The path below the repository, as the gold names it."""
    return _REPOSITORY.sub("", path, count=1)


def authors_of(folder: Path) -> dict[str, str]:
    """Whose home most of a session's paths lie in."""
    homes: dict[str, Counter[str]] = {}
    for record in rows(folder / "events.jsonl.gz"):
        found = _AUTHOR.match(record.get("path") or "")
        if found is not None:
            homes.setdefault(record["session_id"], Counter())[found[1]] += 1
    return {session: counts.most_common(1)[0][0] for session, counts in homes.items()}


def measure(folder: Path, *, cut: bool) -> dict[str, list[dict[int, float]]]:
    """For each kind of point, the part of the gold within each size of list."""
    authors = authors_of(folder)
    points: dict[str, list[dict[str, Any]]] = {}
    for point in rows(folder / "points.jsonl.gz"):
        points.setdefault(point["event_id"], []).append(point)
    hotset, files = Hotset(Characters()), Files()
    warm, state = hotset.initial(), files.initial()
    found: dict[str, list[dict[int, float]]] = {}
    spent = folding = at_bytes = 0.0
    for own_id, line in events(folder, cut=cut):
        hotset.apply(warm, line)
        began = time.perf_counter()
        files.apply(state, line)
        folding += time.perf_counter() - began
        for point in points.get(own_id, ()):
            session = line.event.session
            if point["point"] == "session_start":
                began = time.perf_counter()
                errors = [warm.items[seq].text for _, seq in warm.tools.values() if seq]
                scope = Scope(ChannelRule((), (), ()), now=line.event.ts, as_of=line.event.seq)
                branch = state.branch_of(session, scope.hides)
                guesses = guess_files(
                    state, scope, query=line.event.text, branch=branch, named=errors,
                    limit=max(SIZES),
                )  # fmt: skip
                listed = [one.path for one in guesses]
                spent += time.perf_counter() - began
            else:
                table = warm.files.get(session or "")
                listed = [path for path, _ in table.warmest()] if table is not None else []
            part = covered(listed, point["gold_paths"])
            found.setdefault(point["point"], []).append(part)
            if point["point"] == "session_start":
                week = f"week {date.fromisoformat(point['ts'][:10]).isocalendar().week}"
                for fold in (authors.get(point["session_id"], "unknown"), week):
                    found.setdefault(f"start, {fold}", []).append(part)
    size = len(files.dump(state))
    at_bytes = state.bytes
    starts = len(found.get("session_start", ())) or 1
    print(
        f"files.json: {size:,} bytes (counted as {at_bytes:,.0f}), {len(state.last)} files,"
        f" {len(state.episodes)} episodes; {1e6 * folding / line.event.seq:.2f} us an event,"
        f" {1e3 * spent / starts:.1f} ms a guess"
    )
    return found


def covered(listed: list[str], gold: list[str]) -> dict[int, float]:
    """The part of the gold that the first files of the list hold, by how many are looked at."""
    wanted = {short(path) for path in gold}
    return {
        size: len(wanted & {short(path) for path in listed[:size]}) / len(wanted) for size in SIZES
    }


def mean(found: list[dict[int, float]], size: int) -> float:
    """The mean over points, in percent."""
    return 100 * sum(one[size] for one in found) / len(found) if found else 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage of next-needed files.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--as-recorded", action="store_true", help="leave paths absolute")
    asked = parser.parse_args()
    found = measure(asked.data, cut=not asked.as_recorded)
    print(f"{'point':<14}{'n':>5}  " + "".join(f"{f'first {size}':>26}" for size in SIZES))
    for kind, all_points in sorted(found.items()):
        half = len(all_points) // 2
        parts = (
            all_points, all_points[:half], all_points[half:], all_points[::2], all_points[1::2],
        )  # fmt: skip
        cells = ("/".join(f"{mean(part, size):.1f}" for part in parts) for size in SIZES)
        print(f"{kind:<14}{len(all_points):>5}  " + "".join(f"{cell:>26}" for cell in cells))
    print("each cell: all / first half / second half / every even / every odd point, in percent")


if __name__ == "__main__":
    main()
