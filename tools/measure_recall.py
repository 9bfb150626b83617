"""Evidence recall of the ranking within a token budget, on conversations with labelled questions.

    python tools/measure_recall.py FOLDER [--sets locomo,qmsum] [--budgets 1000,2000]

FOLDER holds a folder a set with `events.jsonl.gz` and `questions.jsonl.gz` in the neutral form.
One index a conversation (`--together`: one for all of a set). Three figures a budget: events
shown whole, events of which a part is shown, and the share of the answer's words, among those
that the evidence holds and the question does not, that stand in what is shown of the evidence.
Passages of long turns trade the first for the second (`--whole` packs none); the third says
what it costs.

Costs are those of a printed block: its frame, a dated line for each session and day, a line
`speaker: text` for each turn, and the handle behind a passage, all in `--counter`. `--cost notes`
counts a turn as characters / 4 + 5, plus 12 a session.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

import memplane.tokens
from memplane.index import terms
from memplane.index.columns import Columns
from memplane.index.document import Document
from memplane.index.expansion import Neighbours, related
from memplane.index.lexical import idf
from memplane.index.packing import Packing, steps
from memplane.index.passage import passage, sentences
from memplane.index.question import INSTRUCTION, PREFERENCE, ask
from memplane.index.ranking import Asked, Ranked, Ranking, rank
from memplane.index.segment import Array
from memplane.index.static import StaticTable
from memplane.index.store import Index
from memplane.index.view import View
from memplane.intake import Marker
from memplane.policy.markers import Markers

MARKER: Final = Marker(Markers())
SETS: Final = "locomo,realtalk,beam_100K,beam_500K,qmsum"
CHUNK_CHARACTERS: Final = 1_600
POOL: Final = 2_000
RESERVE_PERMILLE: Final = 80
NOTES_SESSION: Final = 12
# What stands in every block: the begin and end line, a heading and two fences.
FRAME: Final = (
    f"memplane:begin\n## Evidence: quoted data\n~~~~\n~~~~\nmemplane:end {'0123456789abcdef'}\n"
)
MOST_OF_WHOLE: Final = (4, 5)  # a passage that saves less than the rest of this is no passage

Row = dict[str, Any]


class Setting(NamedTuple):
    """What is tried: the weights, how blocks are filled, how costs are counted."""

    weights: Ranking
    packing: Packing
    notes_cost: bool = False
    expand: bool = True


class Shown(NamedTuple):
    """One turn of a block: whole, or the span of one chunk's text."""

    whole: bool
    text: str


class Counts:
    """A token counter that remembers what it counted."""

    def __init__(self, name: str) -> None:
        table = Path(memplane.tokens.__file__).with_name("bound1.idx").read_bytes()
        made = memplane.tokens.make(name, table=lambda: table)
        self.of = lru_cache(maxsize=1_000_000)(made.count)


def lines(path: Path) -> Iterator[Row]:
    """Yield the rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def date_words(ts: str) -> str:
    """Name the month, year, day and weekday of a time."""
    return datetime.fromisoformat(ts).strftime("%B %Y %d %A")


def chunks(text: str) -> list[str]:
    """Cut a text at ends of sentences into pieces of at most 400 tokens or so."""
    found: list[str] = []
    begin = 0
    for start, end in sentences(text):
        if end - begin > CHUNK_CHARACTERS:
            found.append(text[begin:start])
            begin = start
    found.append(text[begin:])
    return found


class Conversation:
    """Events under one index, and what packing needs to know of them."""

    def __init__(self, events: Iterable[Row], count: Callable[[str], int]) -> None:
        self.events, self.count = list(events), count
        self.places = {
            (e["conversation_id"], e["event_id"]): seq for seq, e in enumerate(self.events, 1)
        }
        self.names = sorted({e["speaker"].lower() for e in self.events} - {"user", "assistant"})
        self.answered = any(e["speaker"] == "assistant" for e in self.events)
        self.index = Index()
        self.index.add_many(self._documents())
        self.view: View = self.index.view()
        self.frame = Columns().frame(self.view)
        every = np.arange(self.view.count)
        flags = self.view.take("flags", every) & INSTRUCTION
        self.standing = set(self.view.take("seq", every[flags > 0]).tolist())
        # A slot for no event, seqs begin at 1.
        self.tokens = np.array([0, *(count(e["text"]) for e in self.events)])
        self.groups = [("", "", ""), *map(_group, self.events)]

    def _documents(self) -> Iterator[Document]:
        for seq, event in enumerate(self.events, 1):
            talks = self.answered and event["role"] == "user"
            found = MARKER.find(event["text"], "user") if talks else ()
            flags = INSTRUCTION * ("custom:instruction" in found)
            flags |= PREFERENCE * ("custom:preference" in found)
            group = f"{event['conversation_id']} {event['session_id']}"
            for part, text in enumerate(chunks(event["text"])):
                yield Document(
                    seq, part, group, event["role"] if self.answered else "",
                    event["speaker"].lower(), text, f"{event['speaker']} {date_words(event['ts'])}",
                    len(text) // 4, flags=flags,
                )  # fmt: skip

    def asked(self, question: str) -> tuple[terms.Query, Asked]:
        """Analyse a question: terms and facts."""
        read = ask(question, self.names)
        named = {term for name in self.names for term, _ in terms.query(name).words}
        query = terms.query(question)
        words = tuple((t, 0.7 if t in named else weight) for t, weight in query.words)
        speakers = tuple(sorted(terms.label(name) for name in read.speakers))
        return query._replace(words=words), Asked(speakers, read.first_person, read.broad)

    def ranked(self, query: terms.Query, asked: Asked, weights: Ranking) -> Ranked:
        """Rank the events of the conversation."""
        return rank(self.view.match(query), self.frame, asked, weights, most=POOL)

    def wanted(self, query: terms.Query) -> dict[int, int]:
        """Weigh the words of a query for choosing passages."""
        return {
            term: int(weight * idf(self.view.count, self.view.having(term)) * 1024)
            for term, weight in query.words
        }


class Packer:
    """Fills blocks for one question."""

    def __init__(self, where: Conversation, question: str, setting: Setting) -> None:
        self.where, self.setting = where, setting
        self.query, asked = where.asked(question)
        if setting.expand:
            self.query = self.query._replace(related=near_words(where.view, question))
        self.found = where.ranked(self.query, asked, setting.weights)
        self.wanted = where.wanted(self.query)
        self._forms: dict[tuple[int, bool], tuple[int, Shown]] = {}

    def form(self, place: int, *, whole: bool) -> tuple[int, Shown]:
        """Give the cost and the text of an event as it would stand in the block."""
        if (place, whole) not in self._forms:
            seq = int(self.found.seqs[place])
            event = self.where.events[seq - 1]
            text = event["text"] if whole else self._passage(place)
            shown = Shown(text == event["text"], text)
            self._forms[place, whole] = self._cost(event["speaker"], seq, shown), shown
        return self._forms[place, whole]

    def _passage(self, place: int) -> str:
        """Cut the best passage of an event; the whole where that saves little."""
        seq, most = int(self.found.seqs[place]), self.setting.packing.passage_tokens
        text: str = self.where.events[seq - 1]["text"]
        tokens = int(self.where.tokens[seq])
        if not most or tokens <= self.setting.packing.whole_tokens:
            return text
        chunk = self.where.view.text(int(self.found.docs[place]))
        start, end = passage(chunk, self.wanted, most, self.where.count, _VOCABULARY)
        cut = chunk[start:end].strip()
        part, whole = MOST_OF_WHOLE
        return cut if self.where.count(f"{cut} …#{seq}") * whole < tokens * part else text

    def _cost(self, speaker: str, seq: int, shown: Shown) -> int:
        if self.setting.notes_cost:
            return len(shown.text) // 4 + 5
        mark = "" if shown.whole else f" …#{seq}"
        return self.where.count(f"{speaker}: {shown.text}{mark}\n")

    def pack(self, budget: int) -> dict[int, Shown]:
        """Fill a block: standing instructions first, then by value; what does not fit is passed."""
        found, where = self.found, self.where
        block: dict[int, Shown] = {}
        spent: dict[int, int] = {}
        groups: set[tuple[str, str, str]] = set()
        left = budget if self.setting.notes_cost else budget - where.count(FRAME)

        def take(place: int, most: int, *, whole: bool = False) -> int:
            nonlocal left
            seq = int(found.seqs[place])
            cost, shown = self.form(place, whole=whole)
            more = cost - spent.get(seq, 0)
            more += 0 if where.groups[seq] in groups else self._dated(seq)
            if more > min(left, most):
                return 0
            groups.add(where.groups[seq])
            block[seq], spent[seq] = shown, cost
            left -= more
            return more

        room = budget * RESERVE_PERMILLE // 1000
        for place, seq in enumerate(found.seqs.tolist()):
            if seq in where.standing:
                room -= take(place, room, whole=True)
        tokens = where.tokens[found.seqs]
        plan = steps(
            found.scores, tokens, np.zeros_like(tokens), found.seqs, budget, self.setting.packing
        )
        for place, grows in zip(plan.places.tolist(), plan.grows.tolist(), strict=True):
            seq = int(found.seqs[place])
            if grows == (seq in block) and not (grows and block[seq].whole):
                take(place, left, whole=grows)
        return block

    def _dated(self, seq: int) -> int:
        if self.setting.notes_cost:
            return NOTES_SESSION
        return self.where.count(f"{self.where.groups[seq][2]}\n")


def _group(event: Row) -> tuple[str, str, str]:
    return event["conversation_id"], event["session_id"], event["ts"][:10]


_VOCABULARY = terms.Vocabulary()


@lru_cache(maxsize=1)
def neighbours() -> Neighbours:
    """Open the static table that the package ships."""
    data = Path(terms.__file__).parent / "data" / "static.i8"
    return Neighbours(StaticTable(data.read_bytes()))


def near_words(view: View, question: str) -> tuple[tuple[int, float], ...]:
    """Look up what the static table has near to the words of a question."""

    def present(some: Sequence[int]) -> Iterable[int]:
        return [term for term in some if view.having(term)]

    return related(question, neighbours().near, present)


def content(text: str) -> set[int]:
    """Name the words of a text."""
    return set(terms.analyse(text, "", _VOCABULARY).words)


def figures(where: Conversation, row: Row, blocks: list[dict[int, Shown]]) -> Array:
    """Whole, touched and answer words found in each block of a question."""
    gold = [where.places[row["conversation_id"], name] for name in row["evidence_event_ids"]]
    evidence: set[int] = set().union(*(content(where.events[seq - 1]["text"]) for seq in gold))
    needed = (content(str(row.get("answer") or "")) - content(row["question"])) & evidence
    found = []
    for block in blocks:
        here = [block[seq] for seq in gold if seq in block]
        said: set[int] = set().union(*(content(shown.text) for shown in here))
        found.append((
            sum(shown.whole for shown in here) / len(gold),
            len(here) / len(gold),
            len(needed & said) / len(needed) if needed else np.nan,
        ))  # fmt: skip
    return np.array(found)


def load(
    folder: Path, count: Callable[[str], int], *, together: bool
) -> tuple[Mapping[str, Conversation], list[Row]]:
    """Read a set and index its conversations."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for event in lines(folder / "events.jsonl.gz"):
        rows["all" if together else event["conversation_id"]].append(event)
    questions = [row for row in lines(folder / "questions.jsonl.gz") if row["evidence_event_ids"]]
    return {name: Conversation(events, count) for name, events in rows.items()}, questions


def measure(
    where: Mapping[str, Conversation], questions: list[Row], budgets: list[int], setting: Setting
) -> tuple[Array, list[float]]:
    """Answer all questions: figures (question, budget, three of them) and milliseconds to rank."""
    found, times = [], []
    for row in questions:
        one = where.get(row["conversation_id"]) or where["all"]
        begin = perf_counter()
        packer = Packer(one, row["question"], setting)
        times.append((perf_counter() - begin) * 1e3)
        found.append(figures(one, row, [packer.pack(budget) for budget in budgets]))
    return np.array(found), times


def main() -> None:
    """Print a line a set and one for their mean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--budgets", default="500,1000,2000,4000,8000")
    parser.add_argument("--whole", action="store_true", help="pack whole turns, no passages")
    parser.add_argument("--cost", choices=("lines", "notes"), default="lines")
    parser.add_argument("--counter", default="bound/1", choices=memplane.tokens.NAMES)
    parser.add_argument("--no-related", action="store_true", help="without the static table")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--categories", action="store_true")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    packing = Packing(passage_tokens=0) if options.whole else Packing()
    setting = Setting(Ranking(), packing, options.cost == "notes", not options.no_related)
    print("whole / touched / answer words, % at " + ", ".join(f"{b:,}" for b in budgets))
    means, count = [], Counts(options.counter).of
    for name in options.sets.split(","):
        where, questions = load(options.folder / name, count, together=options.together)
        found, times = measure(where, questions, budgets, setting)
        means.append(means_of(found))
        print(f"{name:26} {_cells(means[-1])}  {np.median(times):.1f} ms", flush=True)
        if options.categories:
            kinds = np.array([row["category"] for row in questions])
            for kind in sorted(set(kinds.tolist())):
                few = found[kinds == kind]
                print(f"  {kind:24} {_cells(means_of(few))}  n={len(few)}")
    print(f"{'all':26} {_cells(np.mean(means, axis=0))}")


def means_of(found: Array) -> Array:
    """Average over questions, leaving out what is no number; nan where nothing else is left."""
    known = ~np.isnan(found)
    counts = known.sum(axis=0)
    return np.where(counts > 0, np.nansum(found, axis=0) / np.maximum(counts, 1), np.nan)


def _cells(rows: Array) -> str:
    return "  ".join("/".join(f"{100 * one:.1f}" for one in row) for row in rows)


if __name__ == "__main__":
    main()
