"""Points in agents' work, what their next steps act on, and whether a block holds it.

For `measure_traces.py`. Rows are those that `Plane.record_many` takes, in log order.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from measure_files import rows as lines, short

from memplane.importers.records import Jsonl
from memplane.pack.block import Entry

NEXT_CALLS: Final = 10
LATER_CALLS_MIN: Final = 5
# What a shell call runs, without where its output goes: enough to know the same check again.
COMMAND: Final = re.compile(r'command(?:="?|": "|:\n)(?:cd \S+ && )?([^"\n|;&>]+)')

Row = dict[str, Any]


class Step(NamedTuple):
    """A point in the work. `rows` come before it, the prompt (if any) being the last of them."""

    kind: str
    rows: int
    query: str
    session: str
    prompt: str  # id of the event that is the query
    files: frozenset[str]
    errors: frozenset[str]


class Found(NamedTuple):
    """What one block held of a step's gold, each from 0 to 1; None where there was none."""

    files: float | None
    in_evidence: float | None
    in_list: float | None
    errors: float | None
    tokens: int
    ns: int


def acted_on(row: Mapping[str, Any]) -> str:
    """Name the file or the command that a tool call is about; "" where it is neither."""
    path: str = row.get("data", {}).get("path", "")
    command = None if path else COMMAND.search(row["text"])
    return path or (re.sub(r"\s+\d?$", "", command[1]).strip() if command else "")


class Past:
    """What was met so far: files touched, and each session's last failures, by what they are of."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.failed: dict[tuple[str, str], str] = {}  # session, acted on -> id of the result
        self._calls: dict[str, str] = {}

    def take(self, row: Row) -> None:
        """Go on by one row."""
        data = row.get("data", {})
        if row["kind"] == "tool_call":
            about = acted_on(row)
            self._calls[data.get("call", "")] = about
            if data.get("path"):
                self.files.add(data["path"])
        elif row["kind"] == "tool_result" and data.get("status") == "error":
            about = self._calls.get(data.get("call", ""), "")
            if about:
                self.failed[row.get("session", ""), about] = row["id"]

    def gold(self, calls: Sequence[Row]) -> tuple[frozenset[str], frozenset[str]]:
        """Of what these calls act on: the files met before, and what failed in their session."""
        about = {acted_on(call) for call in calls}
        keys = {(call.get("session", ""), acted_on(call)) for call in calls}
        errors = {self.failed[key] for key in keys if key in self.failed}
        return frozenset(about & self.files), frozenset(errors)


def _calls_after(rows: Sequence[Row]) -> dict[str, list[tuple[int, Row]]]:
    """Each session's tool calls, with their places."""
    found: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for place, row in enumerate(rows):
        if row["kind"] == "tool_call":
            found[row.get("session", "")].append((place, row))
    return found


def prompts(rows: Sequence[Row]) -> Iterator[Step]:
    """Yield a step for every prompt that enough tool calls of its session follow."""
    calls, past = _calls_after(rows), Past()
    for place, row in enumerate(rows):
        past.take(row)
        if (row["kind"], row.get("role")) != ("message", "user"):
            continue
        session = row.get("session", "")
        later = [call for at, call in calls[session] if at > place]
        files, errors = past.gold(later[:NEXT_CALLS])
        if len(later) >= LATER_CALLS_MIN and (files or errors):
            yield Step("prompt", place + 1, row["text"], session, row["id"], files, errors)


def given(folder: Path) -> tuple[list[Row], list[Step]]:
    """Read the events and the points whose next files are given."""
    points: dict[str, list[Row]] = defaultdict(list)
    for point in lines(folder / "points.jsonl.gz"):
        points[point["event_id"]].append(point)
    reader, rows = Jsonl(), list[Row]()
    reader.begin({})
    asked: list[tuple[int, str, Row]] = []
    for record in lines(folder / "events.jsonl.gz"):
        for row in reader.read(record, json.dumps(record).encode()).rows:
            data = row.get("data", {})
            if "path" in data:
                row["data"] = {**data, "path": short(data["path"])}
            rows.append(row)
        # A compaction leaves no row of its own; it lies behind the last one.
        session = f"{record['conversation_id']}/{record['session_id']}"
        asked += [(len(rows), session, point) for point in points.get(record["event_id"], ())]
    calls, past, taken = _calls_after(rows), Past(), 0
    found = []
    for place, session, point in asked:
        for row in rows[taken:place]:
            past.take(row)
        taken = place
        later = [call for at, call in calls[session] if at >= place][:NEXT_CALLS]
        last = rows[place - 1]
        spoken = point["point"] != "compaction" and last.get("role") == "user"
        found.append(
            Step(
                point["point"], place, last["text"] if spoken else "", session,
                last["id"] if spoken else "", frozenset(point["gold_paths"]), past.gold(later)[1],
            )
        )  # fmt: skip
    return rows, found


def judged(step: Step, entries: Iterable[Entry], tokens: int, ns: int) -> Found:
    """Say what of a step's gold these entries hold, without the prompt's own."""
    others = [one for one in entries if step.prompt not in (*one.events, *one.parts)]
    held = {each for one in others for each in (*one.events, *one.parts)}

    def named(section: str | None) -> float | None:
        text = "\n".join(one.text for one in others if section in (None, one.section))
        here = [path for path in step.files if _names(text, path)]
        return len(here) / len(step.files) if step.files else None

    errors = len(step.errors & held) / len(step.errors) if step.errors else None
    return Found(named(None), named("retrieved_evidence"), named("tool_state"), errors, tokens, ns)


def _names(text: str, path: str) -> bool:
    """Whether the path stands there, and not as the beginning or end of another name."""
    return path in text and bool(re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w/-]|\.\w)", text))
