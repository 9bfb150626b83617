"""Ask every question of a set, of the product and of the baselines, within every budget.

What the product is compared with: an order of events, rendered and counted as its own blocks.

A baseline says in which order it would take the events. From there on it is the product's code:
each event in its window form, under the heading of evidence, between the same two marks, counted
by the plane's counter. What does not fit is skipped. The whole budget is for evidence: a baseline
has no decisions, no recent window and no tasks to pay for.

Figures are made of the answers: one row for each system, budget and group, as plain JSON values.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from memplane.context.folds import items_of_event
from memplane.errors import BudgetError, InputError
from memplane.evaluate.dataset import (
    LISTED,
    PLACES,
    PRODUCT,
    Conversation,
    Dataset,
    EvidenceWords,
    LabelledQuestion,
    QuestionOutcome,
    RankedQuestion,
    found_in,
    question_outcome,
)
from memplane.event import UPKEEP_KINDS, Event
from memplane.importers import import_paths
from memplane.index import store, terms
from memplane.index.terms import Document
from memplane.intake.redact import Redactor
from memplane.lazy import NamedTuple
from memplane.pack.evidence import FOUND
from memplane.pack.layout import (
    FRAMED_FROM,
    Rendered,
    Sheet,
    budget_of,
    entry_group,
    entry_of,
    frame_reserve,
    render_block,
)
from memplane.plane import Plane
from memplane.policy.records import NO_EMBEDDER
from memplane.ports import Index, TokenCounter
from memplane.projections.item import Printer

if TYPE_CHECKING:
    from memplane.pack.block import Block
    from memplane.ports import Hit, Progress

    Order = Callable[[str], Iterable[int]]

_WORD: Final = re.compile(r"\w+")
BASELINES: Final = ("recency", "rank_bm25", "lexical")


def check_baselines(names: Sequence[str]) -> None:
    """Raise InputError for a name that is none, or for one that cannot run here."""
    for name in names:
        if name not in BASELINES:
            known = ", ".join(BASELINES)
            raise InputError(f"expected some of {known}; found {name!r:.60}", where="baselines")
        if name == "rank_bm25" and find_spec("rank_bm25") is None:
            raise InputError("rank_bm25 is not installed: pip install rank-bm25", where="baselines")


class Shelf:
    """The events of a plane that a channel may see, each as the product prints it."""

    def __init__(
        self, plane: Plane, channel: str, counter: Callable[[str, int], TokenCounter]
    ) -> None:
        policies = plane.upkeep.policies
        self._budgets = policies.budgets
        made = counter(policies.budgets.counter, policies.budgets.scale_ppm)
        redactor = Redactor(policies.privacy.redact_patterns)
        self._printer = Printer(made, lambda text: redactor.redact(text)[0], "evaluate")
        self.events: list[Event] = [
            event for event in plane.events(channel=channel) if event.kind not in UPKEEP_KINDS
        ]
        self._items = [items_of_event(event, made) for event in self.events]
        self._forms = [item.form(0, self._printer) for item in self._items]
        self._least = min((form[1] for form in self._forms), default=0)

    def fill(self, order: Iterable[int], budget: int) -> Rendered:
        """Take events (by their place here) in this order, as long as they fit; render them."""
        budget = budget_of(budget, self._budgets)
        framed = budget >= FRAMED_FROM
        frame = frame_reserve(self._printer.counter) if framed else 0
        sheet = Sheet({FOUND.section: budget - frame}, self._printer)
        room = sheet.room(FOUND)
        for at in order:
            form, item = self._forms[at], self._items[at]
            group = entry_group(item)
            if form[1] <= room and form[1] + sheet.date_tokens(FOUND, group) <= room:
                sheet.put(FOUND, entry_of(FOUND, item, form), group)
                room = sheet.room(FOUND)
                if room < self._least:
                    break
        block = render_block(sheet.entries(), self._printer.counter, sheet.frame, framed=framed)
        assert block.tokens <= budget, "a baseline has no more room than the product"
        return block


def order_of(name: str, events: Sequence[Event], index: Callable[[], Index]) -> Order:
    """Return the order of a baseline: from a question to places in `events`, best first.

    `name` is one of those that `check_baselines` lets through; `index` makes an empty index.
    """
    if name == "recency":
        newest = range(len(events) - 1, -1, -1)
        return lambda _question: newest
    if name == "rank_bm25":
        return _rank_bm25(events)
    return _lexical(events, index())


def _rank_bm25(events: Sequence[Event]) -> Order:
    """Okapi BM25 as rank-bm25 ships it, over the words of the text alone; ties to the newer."""
    made: Any = import_module("rank_bm25")
    # It divides by the number of words: a corpus without any has no order but the newest first.
    texts = [_words(event.text) for event in events]
    ranker = made.BM25Okapi(texts) if any(texts) else None

    def order(question: str) -> list[int]:
        scores = ranker.get_scores(_words(question)).tolist() if ranker else [0] * len(events)
        return sorted(range(len(events)), key=lambda at: (-scores[at], -at))

    return order


def _words(text: str) -> list[str]:
    """Words in lower case and nothing else, as rank-bm25's own page has it."""
    return _WORD.findall(text.lower())


def _lexical(events: Sequence[Event], index: Index) -> Order:
    """The index's own scores and nothing else; what it does not find is not taken."""
    places = {event.seq: at for at, event in enumerate(events)}
    for event in events:
        index.add(event.seq, event.text, index_fields(event))
    last = events[-1].seq if events else 0

    def order(question: str) -> list[int]:
        hits = index.search(question, len(events), upto=last, masked=frozenset())
        return [places[hit.seq] for hit in hits]

    return order


def index_fields(event: Event) -> dict[str, str]:
    """Give an event's fields to an index, those that have a value."""
    fields = {"actor": event.actor, "role": event.role, "session": event.session, "ts": event.ts}
    return {name: value for name, value in fields.items() if value}


# The `Index` of the ports over words alone: texts in, scores out, no ranking beyond BM25.
#
# What `memplane eval` compares the product with, and the smallest example of the port.
class PlainIndex:
    """Documents in memory, each found by its text and the values of its fields."""

    def __init__(self) -> None:
        self._index = store.SegmentedIndex()

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        """Add a document behind all others; a seq that is here already is passed over."""
        extra = " ".join(fields[name] for name in sorted(fields))
        self._index.add(Document(seq, text=text, extra=extra))

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """Return the k best with seq <= upto, without the masked ones; ties go to the newer."""
        view = self._index.view(upto)
        hidden = np.zeros(view.count, bool)
        hidden[view.documents(masked)] = True
        return view.hits(terms.query(query), k, hidden)


BUDGETS: Final = (500, 1000, 2000, 4000, 8000)
DEPTH: Final = 100  # hits taken of a search
_NO_POLICIES: Final[Mapping[str, bytes]] = {}

# A question with its five packs takes about as long as recording so many events.
_EVENTS_A_QUESTION: Final = 30


class EvaluationMode(NamedTuple):
    """How a set is asked. `together`: all its conversations lie in one plane."""

    budgets: tuple[int, ...] = BUDGETS
    channel: str = "private"
    together: bool = False
    baselines: tuple[str, ...] = ()


class Measured(NamedTuple):
    """Every answer, and what it was asked of.

    `refused` are rows that the importer did not take; `policies` are the hashes in force and
    `counter` the name behind every token.
    """

    outcomes: list[QuestionOutcome]
    searched: list[RankedQuestion]
    events: int
    refused: list[str]
    policies: dict[str, str]
    counter: str


def measure(
    dataset: Dataset,
    asked: EvaluationMode,
    builders: SystemFactory,
    policies: Mapping[str, bytes] = _NO_POLICIES,
    *,
    progress: Progress | None = None,
) -> Measured:
    """Record the conversations and ask the questions that have evidence.

    Each question is a new query, without a session, at the time it was asked. The answers come in
    the order of the file, budget by budget, the product before the baselines. Raises BudgetError
    and InputError for what cannot be asked, PolicyError for broken policies.
    """
    for budget in asked.budgets:
        if budget <= 0:
            raise BudgetError(f"expected 1 token or more, found {budget}", where="budgets")
    check_baselines(asked.baselines)
    run = _Run(dataset, asked, builders, policies, progress)
    for conversations, questions in _planes(dataset, together=asked.together):
        run.ask(conversations, questions)
    place = {(one.conversation, one.id): at for at, one in enumerate(dataset.questions)}
    # In one plane or in many, and whatever the order of conversations: the file's order.
    outcomes = sorted(run.outcomes, key=lambda one: place[one.conversation, one.question])
    searched = sorted(run.searched, key=lambda one: place[one.conversation, one.question])
    return Measured(outcomes, searched, run.events, run.refused, run.hashes, run.counter)


def _planes(
    dataset: Dataset, *, together: bool
) -> Iterator[tuple[list[Conversation], list[LabelledQuestion]]]:
    """Yield the conversations of each plane and the questions that are asked of it."""
    asked = dataset.asked
    if together:
        yield list(dataset.conversations.values()), asked
        return
    for name, conversation in dataset.conversations.items():
        questions = [question for question in asked if question.conversation == name]
        if questions:
            yield [conversation], questions


class _Run:
    """One measurement: what is asked, and the answers as they come."""

    def __init__(
        self,
        dataset: Dataset,
        asked: EvaluationMode,
        builders: SystemFactory,
        policies: Mapping[str, bytes],
        progress: Progress | None,
    ) -> None:
        self._dataset, self._asked, self._builders = dataset, asked, builders
        self._policies, self._progress = policies, progress
        self._total = sum(
            sum(len(one.lines) for one in conversations) + _EVENTS_A_QUESTION * len(questions)
            for conversations, questions in _planes(dataset, together=asked.together)
        )
        self._done = 0
        self.outcomes: list[QuestionOutcome] = []
        self.searched: list[RankedQuestion] = []
        self.events = 0
        self.refused: list[str] = []
        self.hashes: dict[str, str] = {}
        self.counter = ""
        self._words: EvidenceWords | None = None

    def ask(self, conversations: list[Conversation], questions: list[LabelledQuestion]) -> None:
        """Make a plane of the conversations and ask it."""
        count = sum(len(one.lines) for one in conversations)

        def importing(done: int, total: int, _events: int) -> None:
            self._tell(count * done // max(1, total))

        with recorded(conversations, self._builders, self._policies, importing) as made:
            plane = made.plane
            if plane.upkeep.policies.plane.embedder != NO_EMBEDDER:
                plane.upkeep.embed(progress=lambda done, total: self._tell(count * done // total))
            self._done += count
            self.events += made.events
            self.refused += made.refused
            self.hashes = dict(sorted(plane.upkeep.policies.hashes.items()))
            self.counter = plane.upkeep.policies.budgets.counter
            self._words = EvidenceWords(plane, self._asked.channel)
            shelf, orders = None, {}
            if self._asked.baselines:
                shelf = Shelf(plane, self._asked.channel, self._builders.make_counter)
                orders = {
                    name: order_of(name, shelf.events, self._builders.make_index)
                    for name in self._asked.baselines
                }
            # The first one also opens the plane and indexes it, which is no part of a latency.
            plane.upkeep.index()
            plane.pack(questions[0].text, budget=self._asked.budgets[0])
            for question in questions:
                self._packs(plane, question)
                self._search(plane.search, question)
                for name, order in orders.items():
                    assert shelf is not None
                    self._baseline(name, shelf, list(order(question.text)), question)
                self._done += _EVENTS_A_QUESTION
                self._tell(0)

    def _tell(self, more: int) -> None:
        if self._progress is not None:
            self._progress(self._done + more, self._total)

    def _packs(self, plane: Plane, question: LabelledQuestion) -> None:
        at: dict[str, Any] = {} if question.asked_at is None else {"now": question.asked_at}
        for budget in self._asked.budgets:
            begun = time.perf_counter_ns()
            block = plane.pack(question.text, budget=budget, channel=self._asked.channel, **at)
            ns = time.perf_counter_ns() - begun
            self._keep(question, PRODUCT, budget, block, ns)

    def _baseline(
        self, name: str, shelf: Shelf, order: Sequence[int], question: LabelledQuestion
    ) -> None:
        for budget in self._asked.budgets:
            block = shelf.fill(order, budget)
            self._keep(question, name, budget, block, None)

    def _keep(
        self,
        question: LabelledQuestion,
        system: str,
        budget: int,
        block: Block | Rendered,
        ns: int | None,
    ) -> None:
        assert self._words is not None
        found = found_in(self._evidence(question), block, self._words)
        outcome = question_outcome(question, system, budget, found, block.tokens, ns)
        self.outcomes.append(outcome)

    def _search(self, search: Callable[..., Any], question: LabelledQuestion) -> None:
        begun = time.perf_counter_ns()
        ranking = plane_ranking(search, question.text, self._asked.channel)
        ns = time.perf_counter_ns() - begun
        ranks = [
            ranking[plane_id]
            for plane_id in self._evidence(question).values()
            if plane_id in ranking
        ]
        self.searched.append(
            RankedQuestion(
                question.conversation,
                question.id,
                question.category,
                PRODUCT,
                len(question.evidence),
                tuple(sorted(ranks)),
                ns,
            )
        )

    def _evidence(self, question: LabelledQuestion) -> dict[str, str | None]:
        ids = self._dataset.conversations[question.conversation].ids
        return {event: ids.get(event) for event in question.evidence}


def plane_ranking(search: Callable[..., Any], query: str, channel: str) -> dict[str | None, int]:
    """Ask a plane's `search`; return event id -> rank from 1. An event counts where it is first."""
    ranks: dict[str | None, int] = {}
    for hit in search(query, k=DEPTH, channel=channel):
        ranks.setdefault(hit.event.id, len(ranks) + 1)
    return ranks


# Planes made for one measurement, in a folder that is gone afterwards.


class SystemFactory(NamedTuple):
    """What makes the parts, handed in by whoever may know their names.

    `make_plane` makes a plane in an empty folder and opens it, under policies (file name -> bytes;
    a file left out is memplane's default). `make_counter` takes a name and a scale in millionths.
    `make_index` makes an empty index.
    """

    make_plane: Callable[[Path, Mapping[str, bytes]], Plane]
    make_counter: Callable[[str, int], TokenCounter]
    make_index: Callable[[], Index]


class Recorded(NamedTuple):
    """A plane with conversations in it, and what the importer did not take of them."""

    plane: Plane
    events: int
    refused: list[str]


@contextmanager
def recorded(
    conversations: list[Conversation],
    builders: SystemFactory,
    policies: Mapping[str, bytes],
    progress: Callable[[int, int, int], None] | None = None,
) -> Iterator[Recorded]:
    """Give a plane that holds the conversations, imported as anybody would, one after the other.

    `progress` is the importer's: bytes done, bytes in all, events recorded.
    """
    with tempfile.TemporaryDirectory(prefix="memplane-eval-") as folder:
        source = Path(folder, "events.jsonl")
        with source.open("wb") as file:
            for conversation in conversations:
                file.writelines(line + b"\n" for line in conversation.lines)
        with builders.make_plane(Path(folder, "plane"), policies) as plane:
            _ = plane.upkeep.policies  # broken ones are named before anything is recorded
            report = import_paths(plane, "jsonl", [source], progress=progress)
            refused = [f"{row.id}: {row.message}" for row in report.refused]
            yield Recorded(plane, report.events, refused)


RANKS: Final = (5, 10, 20, 50, 100)


def evaluation_report(
    dataset: Dataset,
    asked: EvaluationMode,
    measured: Measured,
    *,
    by_category: bool = False,
    folds: int = 0,
    questions: bool = False,
) -> dict[str, Any]:
    """Put the figures of a measurement together.

    `groups` of rows: all questions, then each category and each fold where they are wanted.
    `questions` adds what became of each question within each budget.
    """
    outcomes = measured.outcomes
    dealt = deal(dataset.sizes, folds) if folds else {}
    groups = [_group("all", "", outcomes, measured.searched)]
    if by_category:
        for name in sorted({one.category for one in outcomes}):
            own = [one for one in outcomes if one.category == name]
            found = [one for one in measured.searched if one.category == name]
            groups.append(_group("category", name, own, found))
    for fold in range(folds):
        own = [one for one in outcomes if dealt[one.conversation] == fold]
        found = [one for one in measured.searched if dealt[one.conversation] == fold]
        groups.append(_group("fold", str(fold + 1), own, found))
    report: dict[str, Any] = {
        "set": _set(dataset, measured),
        "asked": {**asked._asdict(), "folds": {name: at + 1 for name, at in dealt.items()}},
        "counter": measured.counter,
        "policies": measured.policies,
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
        "groups": groups,
    }
    if questions:
        report["questions"] = [one._asdict() for one in outcomes]
        report["searched"] = [one._asdict() for one in measured.searched]
    return report


def _set(dataset: Dataset, measured: Measured) -> dict[str, Any]:
    return {
        "conversations": len(dataset.conversations),
        "events": dataset.events,
        "recorded": measured.events,
        "refused": len(measured.refused),
        "refused_first": measured.refused[:LISTED],
        "questions": len(dataset.questions),
        "with_evidence": len(dataset.asked),
        "evidence": sum(len(question.evidence) for question in dataset.asked),
        "unresolved": len(dataset.unresolved),
        "unresolved_first": [list(one) for one in dataset.unresolved[:LISTED]],
    }


def _group(
    kind: str, name: str, outcomes: Sequence[QuestionOutcome], searched: Sequence[RankedQuestion]
) -> dict[str, Any]:
    keys = dict.fromkeys((one.system, one.budget) for one in outcomes)
    rows = [_row([one for one in outcomes if (one.system, one.budget) == key]) for key in keys]
    return {"group": kind, "name": name, "rows": rows, "search": _search_row(searched)}


def _row(outcomes: Sequence[QuestionOutcome]) -> dict[str, Any]:
    first = outcomes[0]
    times = [one.ns for one in outcomes if one.ns is not None]
    return {
        "system": first.system,
        "budget": first.budget,
        "questions": len(outcomes),
        **_recall("whole", outcomes),
        **_recall("words", outcomes),
        **_recall("touched", outcomes),
        "tokens_mean": round(mean_of([one.tokens for one in outcomes]), 1),
        "tokens_max": max(one.tokens for one in outcomes),
        "p50_ns": percentile(times, 50) if times else None,
        "p95_ns": percentile(times, 95) if times else None,
    }


def _recall(column: Column, outcomes: Sequence[QuestionOutcome]) -> dict[str, float | None]:
    """Mean recall, both errors, and how many questions have any and all of their evidence."""
    shares = [one.share(column) for one in outcomes]
    groups: dict[str, list[float]] = {}
    for one, share in zip(outcomes, shares, strict=True):
        groups.setdefault(one.conversation, []).append(share)
    return {
        column: round(mean_of(shares), PLACES),
        f"{column}_se_questions": _rounded(se_values(shares)),
        f"{column}_se_conversations": _rounded(se_groups(groups)),
        f"{column}_any": round(mean_of([share > 0 for share in shares]), PLACES),
        f"{column}_all": round(mean_of([share == 1 for share in shares]), PLACES),
    }


def _rounded(error: float | None) -> float | None:
    return None if error is None else round(error, PLACES)


def _search_row(searched: Sequence[RankedQuestion]) -> dict[str, Any] | None:
    if not searched:
        return None
    times = [one.ns for one in searched]
    recall = {str(k): round(mean_of([one.recall(k) for one in searched]), PLACES) for k in RANKS}
    return {
        "questions": len(searched),
        "recall_at": recall,
        "p50_ns": percentile(times, 50),
        "p95_ns": percentile(times, 95),
    }


# Figures for people: tables of at most 100 columns.

_HEAD: Final = (
    f"{'system':<10}{'budget':>6}{'n':>5}{'whole':>7}{'±q':>5}{'±c':>5}{'any':>6}{'all':>6}"
    f"{'words':>7}{'±q':>5}{'±c':>5}{'touched':>9}{'tokens':>8}{'p50':>6}{'p95':>6}"
)
_LEGEND: Final = """\
Percent of the evidence that the rendered block holds: events that are there `whole`, the `words` of
its events that say something (each once, no stop words) and stand in their entries, and events that
are `touched`, whole or in part. ±q ±c: standard errors over questions and over conversations. any,
all: questions with some, with all of their evidence. tokens: mean of the block in the plane's
counter. p50 p95: milliseconds of a pack."""


def table(report: dict[str, Any]) -> str:
    """The rows of `report_of`, a block for each group."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    about, asked = report["set"], report["asked"]
    planes = "one plane for all" if asked["together"] else "a plane for each"
    yield (
        f"{about['conversations']} conversations ({planes}), {about['recorded']} events, "
        f"{about['questions']} questions, {about['with_evidence']} with evidence"
    )
    yield f"counter {report['counter']}, channel {asked['channel']}"
    for group in report["groups"]:
        yield ""
        yield from _group_lines(group, asked["folds"])
    yield ""
    yield _LEGEND


def _group_lines(group: dict[str, Any], folds: dict[str, int]) -> Iterator[str]:
    kind, name = group["group"], group["name"]
    if kind == "fold":
        count = sum(str(fold) == name for fold in folds.values())
        yield f"fold {name} ({count} conversation{'' if count == 1 else 's'})"
    else:
        yield "all questions" if kind == "all" else f"{kind} {name}"[:100]
    yield _HEAD
    for row in group["rows"]:
        yield _row_words(row)
    if group["search"] is not None:
        recall = "  ".join(
            f"@{k} {_percent(value).strip()}" for k, value in group["search"]["recall_at"].items()
        )
        yield f"search    recall {recall}; p50 {_ms(group['search']['p50_ns']).strip()} ms"


def _row_words(row: dict[str, Any]) -> str:
    cells = [f"{row['system']:<10}{row['budget']:>6}{row['questions']:>5}"]
    for column in ("whole", "words"):
        cells.append(f"{100 * row[column]:>7.1f}")
        cells += [_error(row[f"{column}_se_{of}"]) for of in ("questions", "conversations")]
        if column == "whole":
            cells += [_percent(row[f"{column}_{of}"]) for of in ("any", "all")]
    cells.append(f"{100 * row['touched']:>9.1f}{row['tokens_mean']:>8.0f}")
    cells.append(f"{_ms(row['p50_ns']):>6}{_ms(row['p95_ns']):>6}")
    return "".join(cells)


def _percent(share: float) -> str:
    return f"{100 * share:>6.1f}"


def _error(error: float | None) -> str:
    return f"{'-':>5}" if error is None else f"{100 * error:>5.1f}"


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:.1f}"


# Numbers from values: percentiles, nDCG, and standard errors by resampling. Nothing is read here.
#
# The resampling is seeded: the same values in the same order give the same errors on any machine.

RESAMPLES: Final = 1000
SEED: Final = 20260105


def mean_of(values: Sequence[float]) -> float:
    """Arithmetic mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[int], percent: int) -> int:
    """Nearest rank: the smallest value that so many percent of the values do not pass."""
    if not values:
        return 0
    return sorted(values)[max(0, -(-percent * len(values) // 100) - 1)]


def se_values(values: Sequence[float]) -> float | None:
    """Bootstrap standard error of the mean, with values (questions) drawn anew; None of one."""
    if len(values) < 2:
        return None
    means = [sum(map(values.__getitem__, drawn)) / len(values) for drawn in _draws(len(values))]
    return _spread(means)


def se_groups(groups: Mapping[str, Sequence[float]]) -> float | None:
    """Bootstrap standard error of the mean over all values, with groups (conversations) drawn anew.

    It is the larger one where groups differ, and says how far another set of them would lie. None
    of a single group, which says nothing about others.
    """
    if len(groups) < 2:
        return None
    sums = [(sum(values), len(values)) for values in groups.values()]
    means = []
    for drawn in _draws(len(sums)):
        chosen = [sums[at] for at in drawn]
        means.append(sum(total for total, _ in chosen) / sum(count for _, count in chosen))
    return _spread(means)


@lru_cache(maxsize=8)
def _draws(size: int) -> list[list[int]]:
    """Draw places with replacement, the same for every column of that size: paired by question."""
    # Only `random()` itself is promised to give the same numbers in every version of Python.
    draw = Random(SEED).random  # noqa: S311 - a measurement, no secret
    return [[int(draw() * size) for _ in range(size)] for _ in range(RESAMPLES)]


def _spread(values: Sequence[float]) -> float:
    middle = mean_of(values)
    return sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


# Cross-validation by conversation: what was fitted on the others is judged on these.
#
# Questions of one conversation share its words, its people and its mistakes, so a fold holds whole
# conversations and never half of one.

Column = Literal["whole", "words", "touched"]


class Choice(NamedTuple):
    """One fold: the candidate that was best on the others, there and on the fold itself."""

    fold: int
    candidate: str
    others: float
    own: float


class CrossValidated(NamedTuple):
    """`honest`: recall over all questions, each under weights fitted without its conversation.

    `fitted`: for each candidate its recall over all questions; the best of them less `honest` is
    what the fitting flatters itself by.
    """

    folds: tuple[Choice, ...]
    honest: float
    fitted: dict[str, float]


def deal(conversations: Mapping[str, int], k: int) -> dict[str, int]:
    """Deal conversations (with their numbers of questions) into k folds of about equal size.

    The same conversations are dealt the same way, in whatever order they come. Raises InputError
    where there are fewer of them than folds, or fewer than 2 folds.
    """
    if not 2 <= k <= len(conversations):
        found = f"{k} folds of {len(conversations)} conversations"
        raise InputError(f"expected 2 folds or more, none of them empty; found {found}")
    sizes = [0] * k
    folds: dict[str, int] = {}
    for name in sorted(conversations, key=lambda name: (-conversations[name], name)):
        at = min(range(k), key=lambda fold: (sizes[fold], fold))
        folds[name] = at
        # An empty conversation fills a fold too: else the first k - 1 could take them all.
        sizes[at] += max(1, conversations[name])
    return folds


def cross_validate(
    candidates: Mapping[str, bytes],
    measured: Callable[[bytes], Sequence[QuestionOutcome]],
    k: int,
    *,
    column: Column = "whole",
) -> CrossValidated:
    """Choose among scoring.yaml documents (name -> bytes) without looking at what judges them.

    `measured` asks every question under one document, e.g. `lambda document: measure(dataset,
    asked, builders, {"scoring.yaml": document}).outcomes`; it is called once for each. For each of
    the k folds the candidate with the best recall on the other folds is chosen (the first one
    where two are equal), over all budgets alike, and judged on the fold. Only the product's
    outcomes count. Raises InputError without candidates, or where `deal` does.
    """
    if not candidates:
        raise InputError("expected a candidate or more, found none", where="candidates")
    runs = {
        name: [one for one in measured(document) if one.system == PRODUCT]
        for name, document in candidates.items()
    }
    counts: dict[str, int] = {}
    for one in next(iter(runs.values())):
        counts[one.conversation] = counts.get(one.conversation, 0) + 1
    folds = deal(counts, k)
    choices = []
    judged: list[QuestionOutcome] = []
    for fold in range(k):
        others = {
            name: mean([o for o in run if folds[o.conversation] != fold], column)
            for name, run in runs.items()
        }
        best = max(others, key=others.__getitem__)
        own = [o for o in runs[best] if folds[o.conversation] == fold]
        choices.append(Choice(fold, best, others[best], mean(own, column)))
        judged += own
    fitted = {name: mean(run, column) for name, run in runs.items()}
    return CrossValidated(tuple(choices), mean(judged, column), fitted)


def mean(outcomes: Sequence[QuestionOutcome], column: Column) -> float:
    """Mean recall; 0 of nothing."""
    return sum(one.share(column) for one in outcomes) / len(outcomes) if outcomes else 0.0
