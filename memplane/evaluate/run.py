"""Asks every question of a set, of the product and of the baselines, within every budget."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import BudgetError
from memplane.evaluate.baselines import Shelf, check_baselines, order_of
from memplane.evaluate.dataset import Conversation, Dataset, LabelledQuestion
from memplane.importers import import_paths
from memplane.plane import Plane
from memplane.policy.plane import NO_EMBEDDER
from memplane.ports import Index, TokenCounter

if TYPE_CHECKING:
    from memplane.pack.block import Entry

__all__ = [
    "BUDGETS",
    "DEPTH",
    "PRODUCT",
    "EvaluationMode",
    "Measured",
    "QuestionOutcome",
    "RankedQuestion",
    "Recorded",
    "SystemFactory",
    "found_in",
    "measure",
    "plane_ranking",
    "recorded",
]


BUDGETS: Final = (500, 1000, 2000, 4000, 8000)
DEPTH: Final = 100  # hits taken of a search
_NO_POLICIES: Final[Mapping[str, bytes]] = {}

# A question with its five packs takes about as long as recording so many events.
_EVENTS_A_QUESTION: Final = 30

Progress = Callable[[int, int], None]


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

    def ask(self, conversations: list[Conversation], questions: list[LabelledQuestion]) -> None:
        """Make a plane of the conversations and ask it."""
        count = sum(len(one.lines) for one in conversations)

        def importing(done: int, total: int, _events: int) -> None:
            self._tell(count * done // max(1, total))

        with recorded(conversations, self._builders, self._policies, importing) as made:
            plane = made.plane
            if plane.policies.plane.embedder != NO_EMBEDDER:
                plane.embed(progress=lambda done, total: self._tell(count * done // total))
            self._done += count
            self.events += made.events
            self.refused += made.refused
            self.hashes = dict(sorted(plane.policies.hashes.items()))
            self.counter = plane.policies.budgets.counter
            shelf, orders = None, {}
            if self._asked.baselines:
                shelf = Shelf(plane, self._asked.channel, self._builders.make_counter)
                orders = {
                    name: order_of(name, shelf.events, self._builders.make_index)
                    for name in self._asked.baselines
                }
            # The first one also opens the plane and indexes it, which is no part of a latency.
            plane.index()
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
            self._keep(question, PRODUCT, budget, block.entries, block.tokens, ns)

    def _baseline(
        self, name: str, shelf: Shelf, order: Sequence[int], question: LabelledQuestion
    ) -> None:
        for budget in self._asked.budgets:
            block = shelf.fill(order, budget)
            self._keep(question, name, budget, block.entries, block.tokens, None)

    def _keep(
        self,
        question: LabelledQuestion,
        system: str,
        budget: int,
        entries: Iterable[Entry],
        tokens: int,
        ns: int | None,
    ) -> None:
        whole: set[str] = set()
        parts: set[str] = set()
        for entry in entries:
            whole.update(entry.events)
            parts.update(entry.parts)
        in_whole, touched, missing = found_in(self._evidence(question), whole, parts)
        self.outcomes.append(
            QuestionOutcome(
                question.conversation,
                question.id,
                question.category,
                system,
                budget,
                len(question.evidence),
                in_whole,
                touched,
                tokens,
                ns,
                missing,
            )
        )

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
            _ = plane.policies  # broken ones are named before anything is recorded
            report = import_paths(plane, "jsonl", [source], progress=progress)
            refused = [f"{row.id}: {row.message}" for row in report.refused]
            yield Recorded(plane, report.events, refused)


# What became of one question: in a block, and in a ranking.

PRODUCT = "memplane"  # the system that is measured, beside the baselines


class QuestionOutcome(NamedTuple):
    """One question, answered by one system within one budget.

    `evidence` is how many events it needs, `whole` how many of them the block holds whole,
    `touched` how many whole or in part, `missing` the others. `ns` is the time of the pack; None
    where the system is a baseline, which has none.
    """

    conversation: str
    question: str
    category: str
    system: str
    budget: int
    evidence: int
    whole: int
    touched: int
    tokens: int
    ns: int | None
    missing: tuple[str, ...]

    def share(self, column: str) -> float:
        """The part of the evidence that was found, by `whole` or `touched`."""
        found: int = getattr(self, column)
        return found / self.evidence


class RankedQuestion(NamedTuple):
    """One question, answered by one ranking: the ranks (from 1) at which evidence stands."""

    conversation: str
    question: str
    category: str
    system: str
    evidence: int
    ranks: tuple[int, ...]
    ns: int

    def recall(self, k: int) -> float:
        """The part of the evidence among the first k."""
        return sum(rank <= k for rank in self.ranks) / self.evidence


def found_in(
    evidence: dict[str, str | None], whole: set[str], parts: set[str]
) -> tuple[int, int, tuple[str, ...]]:
    """Count evidence (event id -> id in the plane, None: not there) found whole, and at all."""
    in_whole = [event for event, plane_id in evidence.items() if plane_id in whole]
    touched = [event for event, plane_id in evidence.items() if plane_id in whole | parts]
    missing = tuple(event for event in evidence if event not in touched)
    return len(in_whole), len(touched), missing
