"""How well digests of sessions tell what labels of the same sessions tell.

    python tools/measure_digests.py TRANSCRIPTS LABELS [--show] [--planted] [--half 0|1]

TRANSCRIPTS is a folder of `.jsonl` or `.jsonl.gz` files, LABELS a file of JSON lines that name one
each: `file, title, outcome_quotes, left, open_failures, decisions [{quote}]`. Printed are

* title: files in which title and branch share a word of meaning with the label's, and the share
* outcome: files in which one of the quotes stands in the digest (80 % of its words)
* left: items of which a half of the words of meaning stands in a line of what is left; lines in
  files that have nothing left by the label
* open failures, beside those of the label
* decisions: labelled ones whose words a decision or a marked turn was made of
* with `--planted`: failures of eight commands put into each file, at its beginning, middle and
  end, that are named as open

`--half` takes every second file. `--show` prints the digests, to be judged by eye.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import memplane
from memplane.event import Event
from memplane.harness import remembered, typed_once
from memplane.importers import import_paths
from memplane.ports import TokenCounter
from memplane.projections.digests import SessionParts, parts_of
from memplane.projections.reports import meaning_words
from memplane.recall.session_digest import SessionDigest, session_digest

PLANTED: Final = (
    "npm run build 2>&1 | tail -20",
    "make release",
    "docker build -t app .",
    "terraform apply -auto-approve",
    "goreleaser release --clean",
    "python3 tools/migrate.py",
    "git push origin HEAD",
    "gh pr create --title x --body y",
)
TOKENS: Final = 200
LEFT_SHARE: Final = 0.34  # of the words of meaning of what is left


def labels_of(path: Path) -> list[dict[str, Any]]:
    """The labels, one of each file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def events_of(path: Path) -> list[Event]:
    """The events of a transcript as memory reads them, by way of a plane."""
    with tempfile.TemporaryDirectory() as folder:
        plane = memplane.init(Path(folder) / "plane", environment={}, trusted=False)
        with plane:
            import_paths(plane, "claude-code", path)
            lines = (line.event for line in plane.context.log.read())
            return [remembered(event) for event in typed_once(list(lines))]


def counter_of() -> TokenCounter:
    """The counter of a new plane."""
    with tempfile.TemporaryDirectory() as folder:
        plane = memplane.init(Path(folder) / "plane", environment={}, trusted=False)
        with plane:
            return plane.context.counter(plane.context.watched.policies())


def sessions_in(events: Sequence[Event]) -> list[SessionParts]:
    """The sessions, the longest first."""
    by: dict[str, list[Event]] = {}
    for event in events:
        if event.session is not None:
            by.setdefault(event.session, []).append(event)
    found = [parts_of(each) for each in sorted(by.values(), key=len, reverse=True)]
    return [one for one in found if one is not None]


def digest(session: SessionParts, counter: TokenCounter) -> SessionDigest | None:
    """The digest of a session for who may see all of it."""
    return session_digest(session, lambda _: True, counter=counter, tokens_max=TOKENS, redact=str)


def stems(text: str) -> set[str]:
    """The words of meaning of a text, by their first five letters."""
    return {word[:5] for word in meaning_words(text)}


def share(wanted: str, text: str) -> float:
    """The part of the stems of one text that are in another."""
    words, there = stems(wanted), stems(text)
    return len(words & there) / len(words) if words else 0.0


def quoted(quote: str, text: str) -> bool:
    """Whether four of five words of a quote stand in a text."""
    words = [word.strip(".,:;!?`*\"'()") for word in quote.lower().split()]
    there = {word.strip(".,:;!?`*\"'()") for word in text.lower().split()}
    return sum(word in there for word in words) >= 0.8 * len(words)


def planted(events: Sequence[Event]) -> dict[str, list[str]]:
    """Commands that are not named as open, by where their failure was planted."""
    lost: dict[str, list[str]] = {}
    for name, at in (("start", 4), ("middle", len(events) // 2), ("end", len(events))):
        for command in PLANTED:
            first = events[min(at, len(events)) - 1]
            data = {"tool": "Bash", "call": "planted"}
            call = first._replace(
                id="planted:call", kind="tool_call", role="assistant", tags=(), markers=(), refs=(),
                text=f"Bash command={json.dumps(command)}", data=data,
            )  # fmt: skip
            result = call._replace(
                id="planted:result", kind="tool_result", role="tool",
                text="Exit code 1\nit went wrong", data={**data, "status": "error"},
            )  # fmt: skip
            session = parts_of(typed_once([*events[:at], call, result, *events[at:]]))
            assert session is not None
            if not any(one.id == "planted:call" for one in session.quotes("failures")):
                lost.setdefault(name, []).append(command)
    return lost


class Figures:
    """Counts over the files."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.share = 0.0

    def add(self, name: str, count: int) -> None:
        """Add to a count."""
        self.counts[name] = self.counts.get(name, 0) + count

    def told(self, files: int) -> str:
        """All of them, a line each."""
        lines = [f"{name}: {count}" for name, count in self.counts.items()]
        return "\n".join([f"files: {files}", *lines, f"share of titles: {self.share / files:.2f}"])


def judge_digest(row: dict[str, Any], session: SessionParts, figures: Figures) -> str:
    """Compare the digest with the label; what to show of that."""
    made = digest(session, figures_counter())
    text = "" if made is None else made.text
    head = "" if made is None else f"{made.title} {made.branch}".replace("/", " ").replace("-", " ")
    told = any(quoted(quote, text) for quote in row["outcome_quotes"])
    lines = [line for line in text.split("\n") if line.startswith("Left: ")]
    items = lines[0].removeprefix("Left: ").split("; ") if lines else []
    found = [one for one in row["left"] if any(share(one, item) >= LEFT_SHARE for item in items)]
    figures.share += share(row["title"], head)
    figures.add("titles", bool(stems(row["title"]) & stems(head)))
    figures.add("outcomes", told)
    figures.add("open failures", len(list(session.quotes("failures"))))
    figures.add("open failures by the labels", len(row["open_failures"]))
    figures.add("left by the labels", len(row["left"]))
    figures.add("left found", len(found))
    figures.add("lines of what is left", len(items))
    figures.add("of these where nothing is left", 0 if row["left"] else len(items))
    missed = [f"   left, not found: {one}" for one in row["left"] if one not in found]
    missed += [] if told else [f"   outcome, not told: {one}" for one in row["outcome_quotes"]]
    return "\n".join([f"== {row['file']}: {row['title']}", text, *missed])


def judge_decisions(row: dict[str, Any], events: Sequence[Event], figures: Figures) -> str:
    """Compare decisions, and marked turns, with the label; what to show of that."""
    texts = {event.id: event.text for event in events}
    made = [event for event in events if event.kind == "decision"]
    sources = [" ".join([one.text, *(texts.get(ref, "") for ref in one.refs)]) for one in made]
    marked = [event.text for event in events if "custom:wish" in event.markers]
    wanted = row["decisions"]
    decided = [one for one in wanted if any(quoted(one["quote"], text) for text in sources)]
    both = [one for one in wanted if any(quoted(one["quote"], t) for t in (*sources, *marked))]
    figures.add("decisions by the labels", len(wanted))
    figures.add("decisions made", len(made))
    figures.add("decisions found", len(decided))
    figures.add("turns marked", len(marked))
    figures.add("decisions found, marked turns too", len(both))
    return "\n".join(f"   decision: {event.text}" for event in made)


@cache
def figures_counter() -> TokenCounter:
    """The counter of a new plane."""
    return counter_of()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--half", type=int)
    given = parser.parse_args()
    rows = labels_of(given.labels)
    rows = rows if given.half is None else rows[given.half :: 2]
    figures = Figures()
    for row in rows:
        path = given.transcripts / row["file"]
        events = events_of(path if path.exists() else path.with_name(f"{path.name}.gz"))
        session = max(sessions_in(events), key=lambda one: sum(1 for _ in one.every()))
        mine = [event for event in events if event.session == session.id]
        shown = [judge_digest(row, session, figures), judge_decisions(row, mine, figures)]
        if given.planted:
            for where, lost in planted(mine).items():
                figures.add(f"of {8 * len(rows)} planted at the {where}, lost", len(lost))
                shown.append(f"   lost at the {where}: {', '.join(lost)}")
        if given.show:
            print("\n".join(one for one in shown if one))
    print(figures.told(len(rows)))


if __name__ == "__main__":
    main()
