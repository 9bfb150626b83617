"""What a block recalls of real agents' work: labelled questions, and what the next steps need.

    python tools/measure_traces.py FOLDER [--parts labelled,steps,next_need] [--json]

FOLDER holds the data: `claude_code_raw/*.jsonl.gz`, transcripts as Claude Code writes them, and
`next_need/{events,points}.jsonl.gz`, turns of such transcripts and the points at which it is
known which files come next.

labelled   The transcripts are imported into one plane and asked the questions of
           tests/labelled/claude_code.questions.jsonl, without a session: the part of the evidence
           that the rendered block holds whole, and at all, and the share of questions with any
           of it. Beside it, rendered and counted the same way: the last events that fit, and
           rank_bm25. `recall@10` is that of `Plane.search` and of the baselines' order.
steps      The transcripts are recorded again, event by event, and a block is packed at every
           prompt that at least five tool calls follow, with the prompt as the query and its session
           given. What the next ten tool calls act on is gold if it was met before: the files of
           those calls, and the session's last failed result of each file or command.
next_need  The same at the points of the other set, whose gold files are given.

A file is found when the block names it outside the prompt itself; also told apart: `evidence`
alone, and `list`, the section of recent files and of what the tools did last. An error is found
when the block holds a part of that result.
`recency` are the last events of the plane that fit, `session` the last ones of the session.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from trace_steps import Found, Row, Step, given, judged, prompts

from memplane.evaluate import (
    PRODUCT,
    Conversation,
    Dataset,
    EvaluationMode,
    EvidenceWords,
    LabelledQuestion,
    Measured,
    PlainIndex,
    QuestionOutcome,
    RankedQuestion,
    Shelf,
    evaluation_report,
    found_in,
    mean_of,
    order_of,
    percentile,
    plane_ranking,
    question_outcome,
)
from memplane.event import UPKEEP_KINDS, Event
from memplane.importers import import_paths
from memplane.plane import Plane
from memplane.wiring import init, make_counter

QUESTIONS: Final = Path(__file__).parents[1] / "tests/labelled/claude_code.questions.jsonl"
PARTS: Final = "labelled,steps,next_need"
FIELDS: Final = ("id", "ts", "kind", "session", "task", "actor", "role", "text", "tags", "data")
CHANNEL: Final = "private"
NEWEST: Final = 500  # events that the baselines of recency try; no budget here holds more
Figures = dict[str, Any]


@contextmanager
def made() -> Iterator[Plane]:
    """Give an empty plane under the default policies, gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="traces-") as home,
        init(Path(home, "plane"), durability="os", trusted=False) as plane,
    ):
        yield plane


@contextmanager
def transcripts(folder: Path) -> Iterator[Plane]:
    """Give a plane with the transcripts, imported as anybody would."""
    with made() as plane:
        import_paths(plane, "claude-code", [folder / "claude_code_raw"])
        yield plane


def told(words: str) -> None:
    """Say on stderr where the work stands."""
    print(words, file=sys.stderr, flush=True)


# --- labelled questions ---


def labelled(folder: Path, budgets: Sequence[int]) -> Figures:
    """Ask the labelled set of the transcripts in one plane; figures as `memplane eval` has them."""
    with transcripts(folder) as plane:
        shelf = Shelf(plane, CHANNEL, make_counter)
        dataset = _dataset(shelf)
        told(f"labelled: {len(shelf.events)} events, {len(dataset.questions)} questions")
        words = EvidenceWords(plane, CHANNEL)
        outcomes, searched = _asked(plane, dataset.questions, budgets, words)
        for name in ("recency", "rank_bm25"):
            more, ranked = _ordered(name, shelf, dataset.questions, budgets, words)
            outcomes += more
            searched += ranked
        own = [one for one in searched if one.system == PRODUCT]
        policies = plane.upkeep.policies
        measured = Measured(
            outcomes, own, len(shelf.events), [], dict(policies.hashes), policies.budgets.counter
        )
    report = evaluation_report(
        dataset, EvaluationMode(tuple(budgets), CHANNEL, together=True), measured, by_category=True,
        questions=True,
    )  # fmt: skip
    systems = sorted({one.system for one in searched})
    report["recall_at_10"] = {
        name: mean_of([one.recall(10) for one in searched if one.system == name])
        for name in systems
    }
    return report


def _dataset(shelf: Shelf) -> Dataset:
    """Give the questions over the events as they are; every evidence id must be one of theirs."""
    ids = {event.id: event.id for event in shelf.events}
    questions = [
        LabelledQuestion(
            row["conversation_id"], row["question_id"], row["question"], row["category"], None,
            tuple(row["evidence_event_ids"]),
        )
        for row in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    ]  # fmt: skip
    lost = [(one.id, each) for one in questions for each in one.evidence if each not in ids]
    assert not lost, f"no event is the evidence of {lost[0]}"
    name = questions[0].conversation
    return Dataset({name: Conversation(name, [b""] * len(ids), ids)}, questions, [])


def _asked(
    plane: Plane, questions: Sequence[LabelledQuestion], budgets: Sequence[int],
    words: EvidenceWords,
) -> tuple[list[QuestionOutcome], list[RankedQuestion]]:  # fmt: skip
    plane.pack("", budget=budgets[0])  # the first one also opens what it needs
    outcomes, searched = [], []
    for question in questions:
        begun = time.perf_counter_ns()
        ranks = plane_ranking(plane.search, question.text, CHANNEL)
        searched.append(_ranked(PRODUCT, question, ranks, time.perf_counter_ns() - begun))
        for budget in budgets:
            begun = time.perf_counter_ns()
            block = plane.pack(question.text, budget=budget, channel=CHANNEL)
            ns = time.perf_counter_ns() - begun
            found = found_in({each: each for each in question.evidence}, block, words)
            outcomes.append(question_outcome(question, PRODUCT, budget, found, block.tokens, ns))
    return outcomes, searched


def _ordered(
    name: str, shelf: Shelf, questions: Sequence[LabelledQuestion], budgets: Sequence[int],
    words: EvidenceWords,
) -> tuple[list[QuestionOutcome], list[RankedQuestion]]:  # fmt: skip
    order = order_of(name, shelf.events, PlainIndex)
    outcomes, searched = [], []
    for question in questions:
        places = list(order(question.text))
        ranks = {shelf.events[at].id: rank for rank, at in enumerate(places, 1)}
        searched.append(_ranked(name, question, ranks, 0))
        for budget in budgets:
            block = shelf.fill(places, budget)
            found = found_in({each: each for each in question.evidence}, block, words)
            outcomes.append(question_outcome(question, name, budget, found, block.tokens, None))
    return outcomes, searched


def _ranked(
    system: str, question: LabelledQuestion, ranks: Mapping[Any, int], ns: int
) -> RankedQuestion:  # fmt: skip
    found = sorted(ranks[each] for each in question.evidence if each in ranks)
    return RankedQuestion(
        question.conversation, question.id, question.category, system, len(question.evidence),
        tuple(found), ns,
    )  # fmt: skip


# --- next steps ---


def steps(folder: Path, budgets: Sequence[int]) -> Figures:
    """Measure the prompts of the raw transcripts."""
    with transcripts(folder) as plane:
        events = plane.events(channel=CHANNEL)
        rows = [_row_of(event) for event in events if event.kind not in UPKEEP_KINDS]
    return _measured("steps", rows, list(prompts(rows)), budgets)


def _row_of(event: Event) -> Row:
    values = event._asdict()
    return {name: values[name] for name in FIELDS if values[name]}


def next_need(folder: Path, budgets: Sequence[int]) -> Figures:
    """Measure the points whose next files are given."""
    rows, points = given(folder / "next_need")
    return _measured("next_need", rows, points, budgets)


def _measured(
    name: str, rows: Sequence[Row], points: Sequence[Step], budgets: Sequence[int]
) -> Figures:
    """Record the rows; pack at each step; then let the baselines fill blocks as of then."""
    told(f"{name}: {len(rows)} events, {len(points)} steps")
    found: dict[tuple[str, str, int], list[Found]] = defaultdict(list)
    with made() as plane:
        done = 0
        for number, step in enumerate(points, 1):
            receipt = plane.record_many(rows[done : step.rows], strict=False)
            assert not receipt.refused, receipt.refused[0]
            done = step.rows
            for budget in budgets:
                begun = time.perf_counter_ns()
                block = plane.pack(
                    step.query, budget=budget, session=step.session, now=rows[done - 1]["ts"],
                    channel=CHANNEL,
                )  # fmt: skip
                ns = time.perf_counter_ns() - begun
                judgement = judged(step, block.entries, block.tokens, ns)
                found[step.kind, PRODUCT, budget].append(judgement)
            if number % 100 == 0:
                told(f"{name}: {number} steps packed")
        _baselines(plane, points, budgets, found)
    return {
        "events": len(rows),
        "rows": [
            {"kind": kind, "system": system, "budget": budget, **_means(few)}
            for (kind, system, budget), few in found.items()
        ],
    }


def _baselines(
    plane: Plane, points: Sequence[Step], budgets: Sequence[int],
    found: dict[tuple[str, str, int], list[Found]],
) -> None:  # fmt: skip
    shelf = Shelf(plane, CHANNEL, make_counter)
    sessions: dict[str, list[int]] = defaultdict(list)
    done = 0
    for step in points:
        for place in range(done, step.rows):  # rows that are no upkeep: the shelf has them all
            sessions[shelf.events[place].session or ""].append(place)
        done = step.rows
        for name, places in (("recency", range(done)), ("session", sessions[step.session])):
            newest = [at for at in reversed(places[-NEWEST:]) if shelf.events[at].id != step.prompt]
            for budget in budgets:
                block = shelf.fill(newest, budget)
                found[step.kind, name, budget].append(judged(step, block.entries, block.tokens, 0))


def _means(few: Sequence[Found]) -> Figures:
    def mean(column: str) -> float:
        return mean_of([value for one in few if (value := getattr(one, column)) is not None])

    return {
        "n": sum(one.files is not None for one in few),
        **{column: mean(column) for column in ("files", "in_evidence", "in_list")},
        "n_errors": sum(one.errors is not None for one in few),
        "errors": mean("errors"),
        "tokens": mean_of([float(one.tokens) for one in few]),
        "p95_ms": percentile([one.ns for one in few], 95) / 1e6,
    }


# --- for people ---


def printed(report: Mapping[str, Figures]) -> Iterator[str]:
    """Yield the lines of all parts, in percent."""
    if "labelled" in report:
        yield report(report["labelled"])
        for system, value in report["labelled"]["recall_at_10"].items():
            yield f"recall@10 of {system}: {_percent(value)}"
    for name in ("steps", "next_need"):
        if name not in report:
            continue
        yield f"\n{name}: {report[name]['events']} events"
        yield (
            f"{'point':<14}{'system':<10}{'budget':>6}{'n':>5}{'files':>7}{'evidence':>9}"
            f"{'list':>7}{'n':>5}{'errors':>7}{'tokens':>7}{'p95 ms':>8}"
        )
        for row in report[name]["rows"]:
            yield (
                f"{row['kind']:<14}{row['system']:<10}{row['budget']:>6}{row['n']:>5}"
                f"{_percent(row['files']):>7}{_percent(row['in_evidence']):>9}"
                f"{_percent(row['in_list']):>7}{row['n_errors']:>5}"
                f"{_percent(row['errors']):>7}{row['tokens']:>7.0f}{row['p95_ms']:>8.1f}"
            )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def main() -> None:
    """Measure the parts asked for and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--budgets", default="1000,2000,4000,8000")
    parser.add_argument("--json", action="store_true", help="all figures and each answer")
    options = parser.parse_args()
    budgets = [int(each) for each in options.budgets.split(",")]
    measures = {"labelled": labelled, "steps": steps, "next_need": next_need}
    report = {name: measures[name](options.folder, budgets) for name in options.parts.split(",")}
    print(json.dumps(report) if options.json else "\n".join(printed(report)))


if __name__ == "__main__":
    main()
