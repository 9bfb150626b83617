"""Conversations with questions about them, in the neutral form that the jsonl importer reads.

::

    events.jsonl     conversation_id, event_id, ts, session_id, role, speaker, text
    questions.jsonl  conversation_id, question_id, question, evidence_event_ids,
                     and where they are known category, asked_at

An `event_id` is one of its conversation; evidence names events of the question's own. Every mistake
is named with its file and line.

What became of one labelled question: in a block, and in a ranking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.importers.jsonl import Jsonl
from memplane.importers.records import parse_records, read_lines
from memplane.index import terms
from memplane.intake import timestamp
from memplane.lazy import NamedTuple
from memplane.pack.layout import Rendered, parse_block

if TYPE_CHECKING:
    import os

    from memplane.pack.block import Block
    from memplane.plane import Plane


_SHOWN: Final = 60


LISTED: Final = 20  # mistakes that are named


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


PLACES: Final = 5  # of a figure
PRODUCT: Final = "memplane"  # the system that is measured, beside the baselines


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
