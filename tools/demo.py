"""`make demo`: a plane with a sample session and this repository's commits, and three questions.

Everything is local and nothing is left behind but three reports; `--home` keeps the plane too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import memplane
from memplane.cli.maintenance import VIEWS, open_sample_task, write_views
from memplane.errors import MemplaneError
from memplane.importers import import_paths
from memplane.importers.git import is_repository

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "scenarios" / "data"
WIDTH = 100
COMMITS_MAX = 200


class Question(NamedTuple):
    """What is asked, for whom, and why that is worth seeing."""

    query: str
    channel: str
    session: str | None
    shows: str


def questions(session: str | None) -> list[Question]:
    """The three questions. `session`: the newest one of the sample."""
    return [
        Question("what are we working on?", "agent", session,
                 "the session goes on: rules and decisions first, then where the work stands"),
        Question("why do redirects use 302 and not 301?", "agent", None,
                 "a new session: cards, the decision in force and the turns behind it; the 301 of "
                 "the first day is superseded and stays out"),
        Question("what was lost in the outage?", "public", None,
                 "the same plane for anybody: Mira's preferences and what is sensitive are not in "
                 "it"),
    ]  # fmt: skip


SEARCHED = "why are redirects answered with 302?"


def main() -> int:
    """Run the demo; 0 when every step did what it should."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--home", type=Path, help="keep the plane in this folder")
    parser.add_argument("--reports", type=Path, default=ROOT / "reports", help="where reports go")
    parser.add_argument("--budget", type=int, default=2400, help="tokens of each block")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memplane-demo-") as scratch:
        home = asked.home or Path(scratch) / ".memplane"
        fill(home, kept=asked.home is not None)
        ask(home, asked.reports, asked.budget)
    say_next(asked.home)
    return 0


def fill(home: Path, *, kept: bool) -> None:
    """Make the plane and put everything into it; a second run adds nothing."""
    heading("A plane, and what happened")
    start = time.perf_counter()
    with memplane.init(home, trusted=kept) as plane:
        step("init", "policies, log and views lie in one folder of plain files", start)
        start = time.perf_counter()
        write_views(plane)
        step("views", f"{', '.join(VIEWS)}: written by people, read at every pack", start)
    start = time.perf_counter()
    step("import", f"this repository's commits: {commits(home)}", start)
    with memplane.open(home) as plane:
        start = time.perf_counter()
        report = import_paths(plane, "claude-code", [SAMPLES / "sample-session.jsonl"])
        left = ", ".join(f"{count} {reason}" for reason, count in report.skipped.items())
        counts = f"{report.lines} lines, {report.events} events; left out: {left or 'nothing'}"
        if report.unchanged:
            counts = "nothing new since an earlier import"
        step("import", f"sample-session.jsonl: {counts}", start)
    start = time.perf_counter()
    receipt = record(home, (SAMPLES / "sample-decisions.jsonl").read_text())
    step("record", f"sample-decisions.jsonl: {told(receipt)}", start)
    start = time.perf_counter()
    with memplane.open(home) as plane:
        open_sample_task(plane)
        told_of = plane.work.tasks.list()[0].short
    step("task", f"metrics: {told_of}", start)
    start = time.perf_counter()
    with memplane.open(home) as plane:
        reached = plane.upkeep.index()
    step("index", f"{reached} events can be searched; it follows the log by itself", start)


def record(home: Path, rows: str) -> dict[str, Any]:
    """Record lines of JSON as anybody would: through the command line, from standard input."""
    command = [sys.executable, "-m", "memplane", "record", "--home", str(home), "--json"]
    done = subprocess.run(
        [*command, "--jsonl", "-"], input=rows, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"memplane record ended with {done.returncode}:\n{done.stderr}")
    receipt: dict[str, Any] = json.loads(done.stdout)
    return receipt


def commits(home: Path) -> str:
    """Import this repository's newest commits; what became of them, or why there are none."""
    if not is_repository(ROOT):  # an unpacked archive may lie inside somebody else's repository
        return "none, this folder is no git clone"
    with memplane.open(home) as plane:
        try:
            report = import_paths(plane, "git", [ROOT], max_count=COMMITS_MAX)
        except MemplaneError as error:
            return f"none: {error}"
    return f"{report.events} events, {report.repeated} known before"


def ask(home: Path, reports: Path, budget: int) -> None:
    """Pack for each question; show the block and leave its report."""
    reports.mkdir(parents=True, exist_ok=True)
    with memplane.open(home) as plane:
        session = None
        for event in plane.events(kind="session"):
            session = event.session
        asked = questions(session)
        for number, question in enumerate(asked, 1):
            heading(f"Question {number} of {len(asked)}, channel {question.channel}")
            print(f"  {question.query}")
            tell(f"Shows: {question.shows}.")
            print()
            start = time.perf_counter()
            block = plane.pack(
                question.query, budget=budget, channel=question.channel, session=question.session
            )
            took = time.perf_counter() - start
            show(block, budget, took)
            path = reports / f"demo-{number}.report.json"
            path.write_text(json.dumps(block.report, indent=1, ensure_ascii=False) + "\n")
            print(f"  report: {path.parent.name}/{path.name}")
        heading("A search")
        print(f"  {SEARCHED}\n")
        start = time.perf_counter()
        hits = plane.search(SEARCHED, 3)
        took = time.perf_counter() - start
        for hit in hits:
            about = f"{hit.score:>5}  {hit.event.ts[:10]}  {hit.event.kind}"
            print(f"  {about}  {hit.handle}")
            tell(f"      {' '.join(hit.text.split())}", indent=8)
        tell(f"{len(hits)} of {plane.head().seq} events, in {took * 1000:.1f} ms")


def show(block: memplane.Block, budget: int, took: float) -> None:
    """The block as a model gets it, then where its tokens went."""
    for line in block.text.splitlines():
        for piece in textwrap.wrap(line, WIDTH - 4, tabsize=4, break_on_hyphens=False) or [""]:
            print(f"  | {piece}".rstrip())
    print(f"\n  {'section':<22} {'share':>7} {'used':>7} {'cap':>7}   tokens")
    for name, section in block.report["sections"].items():
        share = f"{section['share_ppm'] / 10_000:.1f}%"
        print(f"  {name:<22} {share:>7} {section['used']:>7,} {section['cap']:>7,}")
    # Headings count in their sections; what remains is the lines that begin and end the block.
    frame = block.tokens - sum(each["used"] for each in block.report["sections"].values())
    print(f"  {'begin and end':<22} {'':>7} {frame:>7,}")
    print(f"  {'whole block':<22} {'':>7} {block.tokens:>7,} {budget:>7,}\n")
    sources = {event for entry in block.entries for event in (*entry.events, *entry.parts)}
    counts = block.report["omissions"]["counts"]
    left = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in counts.items())
    tell(f"{len(block.entries)} entries from {len(sources)} events; left out: {left or 'nothing'}")
    stages = sorted(block.report["timings_ns"].items(), key=lambda stage: -stage[1])[:4]
    slowest = ", ".join(f"{name} {spent / 1e6:.1f}" for name, spent in stages)
    tell(f"packed in {took * 1000:.1f} ms (of these {slowest})")


def heading(text: str) -> None:
    """Begin a part."""
    print(f"\n{text}\n{'-' * len(text)}")


def step(name: str, what: str, start: float) -> None:
    """One thing that was done, and how long it took."""
    tell(f"{name:<7} {what} ({(time.perf_counter() - start) * 1000:.0f} ms)", indent=10)


def tell(text: str, indent: int = 4) -> None:
    """Print a sentence within the width."""
    print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent=" " * indent))


def told(receipt: dict[str, Any]) -> str:
    """A bulk receipt in words."""
    return f"{receipt['count']} events, {receipt['duplicates']} known before"


def say_next(home: Path | None) -> None:
    """What to try on one's own sessions."""
    heading("Next: your own sessions")
    commands = {
        "memplane init": "makes .memplane here",
        "memplane import claude-code ~/.claude/projects/": "or one project's folder below it",
        'memplane pack "what are we working on"': "the block on stdout",
        'memplane search "why did the build fail"': "the best ten events, with scores",
    }
    if home is None:
        commands[".venv/bin/python tools/demo.py --home demo"] = "keeps this plane to look at"
    for command, why in commands.items():
        print(f"  {command:<50} # {why}")
    if home is not None:
        print(f'  memplane pack "why 302" --home {home}')


if __name__ == "__main__":
    raise SystemExit(main())
