"""How well memplane recalls: labelled questions asked of planes made for it, and the figures.

Everything is asked through the product's own doors (the importer, `Plane.pack`, `Plane.search`),
and what it is compared with is rendered and counted by the same code under the same budget.

A set is two files, its conversations in the neutral form that the jsonl importer reads::

    events.jsonl     conversation_id, event_id, ts, session_id, role, speaker, text
    questions.jsonl  conversation_id, question_id, question, evidence_event_ids,
                     and where they are known category, asked_at

An `event_id` is one of its conversation; evidence names events of the question's own. Every mistake
is named with its file and line.

A baseline says in which order it would take the events. From there on it is the product's code:
each event in its window form, under the heading of evidence, between the same two marks, counted
by the plane's counter. What does not fit is skipped. The whole budget is for evidence: a baseline
has no decisions, no recent window and no tasks to pay for.

Figures are made of what became of each question, in a block and in a ranking: one row for each
system, budget and group, as plain JSON values. Their errors are resampled with a seed, so the same
values in the same order give the same errors on any machine. Cross-validation is by conversation:
questions of one share its words, its people and its mistakes, so a fold holds whole conversations.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
from memplane.event import UPKEEP_KINDS, Event
from memplane.importers import import_paths
from memplane.importers.records import Jsonl, parse_records, read_lines
from memplane.index import store, terms
from memplane.index.terms import Document
from memplane.intake import timestamp
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
    parse_block,
    render_block,
)
from memplane.plane import Plane
from memplane.policy.records import NO_EMBEDDER
from memplane.ports import Index, TokenCounter
from memplane.projections.item import Printer

if TYPE_CHECKING:
    import os

    from memplane.pack.block import Block
    from memplane.ports import Hit, Progress

    Order = Callable[[str], Iterable[int]]


BASELINES: Final = ("recency", "rank_bm25", "lexical")
LISTED: Final = 20  # mistakes that are named
PLACES: Final = 5  # of a figure
PRODUCT: Final = "memplane"  # the system that is measured, beside the baselines
_SHOWN: Final = 60  # characters of a line that is no object
_WORD: Final = re.compile(r"\w+")


class DataRow(NamedTuple):
    """One object of a file, with the number of its line and the line itself."""

    line: int
    record: dict[str, Any]
    body: bytes


class Mistakes:
    """Collects what is wrong with the files of a set, so that one run names all of it."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, path: Path, line: int, key: str, message: str) -> None:
        """Note one mistake; `key` "" blames the line as a whole."""
        self._found.append(f"{path}:{line}: {f'{key}: ' if key else ''}{message}")

    def settle(self) -> None:
        """Raise InputError with the first 20 of them, if there are any."""
        if self._found:
            more = len(self._found) - LISTED
            tail = [f"and {more} more"] if more > 0 else []
            raise InputError("\n".join([*self._found[:LISTED], *tail]))


def checked_file(path: Path, where: str) -> Path:
    """Give the path back if it is a file; else InputError that names the option."""
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: expected a file of JSON lines; {found}", where=where)
    return path


def read_rows(path: Path, mistakes: Mistakes) -> Iterator[DataRow]:
    """Yield the objects of a .jsonl or .jsonl.gz file; blank lines are passed over."""
    with closing(read_lines(path)) as lines:
        for line in lines:
            if line.fault:
                mistakes.add(path, line.number, "", f"{line.fault}: nothing can be read here")
                continue
            if not line.body.strip():
                continue
            records, broken = parse_records(line.body)
            if broken or len(records) != 1:
                start = line.body[:_SHOWN].decode("utf-8", "replace")
                mistakes.add(path, line.number, "", f"expected one JSON object, found {start!r}")
                continue
            yield DataRow(line.number, records[0], line.body)


def read_label(row: DataRow, key: str, path: Path, mistakes: Mistakes) -> str:
    """Read an identifier, a text or a whole number; "" where it is missing, which is a mistake."""
    value = row.record.get(key)
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value:
        return value
    found = "nothing" if key not in row.record else f"{value!r:.60}"
    mistakes.add(path, row.line, key, f"expected a name, found {found}")
    return ""


class LabelledQuestion(NamedTuple):
    """One question. `evidence` are the event ids of the set that an answer needs, each once."""

    conversation: str
    id: str
    text: str
    category: str
    asked_at: str | None
    evidence: tuple[str, ...]


class Conversation(NamedTuple):
    """The lines of one conversation as they stood in the file, and event id -> id in a plane.

    An event that the importer leaves out, one without text say, is not in `ids`.
    """

    name: str
    lines: list[bytes]
    ids: dict[str, str]


class Dataset(NamedTuple):
    """A labelled set. `unresolved`: (conversation, question, event id) that names no event.

    Such evidence still counts as evidence: no block can hold it, and the figures say so.
    """

    conversations: dict[str, Conversation]
    questions: list[LabelledQuestion]
    unresolved: list[tuple[str, str, str]]

    @property
    def events(self) -> int:
        """Lines of events."""
        return sum(len(one.lines) for one in self.conversations.values())

    @property
    def asked(self) -> list[LabelledQuestion]:
        """The questions that have evidence: the others measure nothing here."""
        return [question for question in self.questions if question.evidence]

    @property
    def sizes(self) -> dict[str, int]:
        """Questions with evidence of each conversation that has one."""
        asked = [question.conversation for question in self.asked]
        return {name: asked.count(name) for name in self.conversations if name in asked}

    def limited(self, most: int) -> Dataset:
        """Keep at most so many questions with evidence, spread evenly over the file."""
        asked = self.asked
        if len(asked) <= most:
            return self
        kept = [asked[at * len(asked) // most] for at in range(most)]
        named = {(question.conversation, question.id) for question in kept}
        lost = [one for one in self.unresolved if one[:2] in named]
        return self._replace(questions=kept, unresolved=lost)


def read_dataset(events: str | os.PathLike[str], questions: str | os.PathLike[str]) -> Dataset:
    """Read a set from two files. Raises InputError that lists the mistakes of both."""
    mistakes = Mistakes()
    conversations = _conversations(checked_file(Path(events), "events"), mistakes)
    path = checked_file(Path(questions), "questions")
    asked = _questions(path, conversations, mistakes)
    mistakes.settle()
    if not any(question.evidence for question in asked):
        raise InputError(f"{path}: no question has evidence, so there is nothing to measure")
    lost = [
        (question.conversation, question.id, event)
        for question in asked
        for event in question.evidence
        if event not in conversations[question.conversation].ids
    ]
    return Dataset(conversations, asked, lost)


def _conversations(path: Path, mistakes: Mistakes) -> dict[str, Conversation]:
    reader = Jsonl()
    found: dict[str, Conversation] = {}
    seen: dict[tuple[str, str], DataRow] = {}
    for row in read_rows(path, mistakes):
        name = read_label(row, "conversation_id", path, mistakes)
        event = read_label(row, "event_id", path, mistakes)
        if not name or not event:
            continue
        first = seen.setdefault((name, event), row)
        if first is not row:
            if first.record != row.record:
                message = f"{event!r:.60} is another event already, in line {first.line}"
                mistakes.add(path, row.line, "event_id", message)
            continue
        conversation = found.setdefault(name, Conversation(name, [], {}))
        conversation.lines.append(row.body)
        for made in reader.read(row.record, row.body).rows:
            conversation.ids[event] = made["id"]
    return found


def _questions(
    path: Path, conversations: dict[str, Conversation], mistakes: Mistakes
) -> list[LabelledQuestion]:
    found: list[LabelledQuestion] = []
    seen: dict[tuple[str, str], int] = {}
    for row in read_rows(path, mistakes):
        name = read_label(row, "conversation_id", path, mistakes)
        question = read_label(row, "question_id", path, mistakes)
        if name and name not in conversations:
            mistakes.add(path, row.line, "conversation_id", f"no event is of {name!r:.60}")
        if question and (first := seen.setdefault((name, question), row.line)) != row.line:
            message = f"{question!r:.60} was asked already, in line {first}"
            mistakes.add(path, row.line, "question_id", message)
        found.append(
            LabelledQuestion(
                name,
                question,
                _text(row, path, mistakes),
                _category(row),
                _asked_at(row, path, mistakes),
                _evidence(row, path, mistakes),
            )
        )
    return found


def _text(row: DataRow, path: Path, mistakes: Mistakes) -> str:
    text = row.record.get("question")
    if isinstance(text, str) and text.strip():
        return text
    mistakes.add(path, row.line, "question", f"expected a text, found {text!r:.60}")
    return ""


def _category(row: DataRow) -> str:
    value = row.record.get("category")
    return str(value) if isinstance(value, str | int) and value != "" else "none"


def _asked_at(row: DataRow, path: Path, mistakes: Mistakes) -> str | None:
    value = row.record.get("asked_at")
    if value is None:
        return None
    try:
        return timestamp(value, where="asked_at")
    except InputError as error:
        mistakes.add(path, row.line, "", str(error))
        return None


def _evidence(row: DataRow, path: Path, mistakes: Mistakes) -> tuple[str, ...]:
    """The ids in their order, each once: evidence that is named twice is no more evidence."""
    key = "evidence_event_ids"
    value = row.record.get(key, "nothing")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str | int) for one in value):
        mistakes.add(path, row.line, key, f"expected a list of event ids, found {value!r:.60}")
        return ()
    return tuple(dict.fromkeys(str(one) for one in value))


class QuestionOutcome(NamedTuple):
    """One question, answered by one system within one budget.

    `evidence` is how many events it needs, `whole` how many of them the block holds whole,
    `touched` how many whole or in part, `words` the sum of the parts of their informative words
    that it holds, `missing` the events that are not touched. `ns` is the time of the pack; None
    where the system is a baseline, which has none.
    """

    conversation: str
    question: str
    category: str
    system: str
    budget: int
    evidence: int
    whole: int
    words: float
    touched: int
    tokens: int
    ns: int | None
    missing: tuple[str, ...]

    def share(self, column: str) -> float:
        """The part of the evidence that was found, by `whole`, `words` or `touched`."""
        found: float = getattr(self, column)
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


class EvidenceHeld(NamedTuple):
    """How much of the evidence of a question a block holds: see `QuestionOutcome`."""

    whole: int
    words: float
    touched: int
    missing: tuple[str, ...]


def found_in(
    evidence: Mapping[str, str | None], block: Block | Rendered, words: EvidenceWords
) -> EvidenceHeld:
    """Look evidence (event id -> id in the plane, None: not there) up in the entries of a block.

    Always whole <= words <= touched: an event that stands there whole counts 1 in each; of one that
    stands there in part the informative words count that its own entries hold.
    """
    whole: set[str] = set()
    said: dict[str, list[str]] = {}
    for entry, parsed in zip(block.entries, parse_block(block.text).entries, strict=True):
        whole.update(entry.events)
        for event in entry.parts:
            said.setdefault(event, []).append(parsed.said)
    in_whole = [event for event, at in evidence.items() if at in whole]
    in_part = [at for at in evidence.values() if at in said and at not in whole]
    shares = [words.share(at, said[at]) for at in in_part if at is not None]
    missing = tuple(event for event, at in evidence.items() if at not in said and at not in whole)
    held = len(in_whole) + sum(shares)
    return EvidenceHeld(len(in_whole), held, len(in_whole) + len(in_part), missing)


def question_outcome(
    question: LabelledQuestion,
    system: str,
    budget: int,
    found: EvidenceHeld,
    tokens: int,
    ns: int | None,
) -> QuestionOutcome:
    """The outcome of a question whose evidence was `found` in a block of so many tokens."""
    return QuestionOutcome(
        question.conversation,
        question.id,
        question.category,
        system,
        budget,
        len(question.evidence),
        found.whole,
        round(found.words, PLACES),
        found.touched,
        tokens,
        ns,
        found.missing,
    )


class EvidenceWords:
    """The informative words of a plane's events: what they say, without how it is put.

    These are the distinct words of the text as the index compares them: stems, without stop words
    and single letters, numbers too. None is weighed by how rare it is: with such weights the
    figures differ by a tenth of a point, and would depend on what else a plane holds.
    """

    def __init__(self, plane: Plane, channel: str) -> None:
        self._plane, self._channel = plane, channel
        self._vocabulary = terms.TermVocabulary()
        self._known: dict[str, frozenset[int]] = {}

    def share(self, event: str, said: Iterable[str]) -> float:
        """The part of an event's words that stand in what entries say of it; 0 of none."""
        words = self._known.get(event)
        if words is None:
            found = self._plane.event(event, channel=self._channel)
            words = self._known[event] = self._of(self._plane.text(found))
        there = words & frozenset().union(*map(self._of, said))
        return len(there) / len(words) if words else 0.0

    def _of(self, text: str) -> frozenset[int]:
        return frozenset().union(*terms.Sentences(text, self._vocabulary).words)


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
