"""What facts cost or bring: evidence found in blocks with and without those of a reflector.

    python tools/measure_facts.py EVENTS QUESTIONS [--limit 100] [--budgets 500,1000,2000]

EVENTS and QUESTIONS are a labelled set as `memplane eval` takes it. A line for each budget: the
percent of its evidence that stands whole in a block, without facts and with them, the 95 % interval
of the difference by bootstrap over conversations, `by refs` where a fact counts for the turns that
say it, too; and how many questions became better and worse.

The reflector stands for a model and is none: of every closed episode it notes, of each turn of a
user, the sentence with the most names and numbers, in the words of the turn. So each run gives the
same figures, and facts compete with their own sources for the room of a block.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from measure_recall import interval

import memplane
from memplane.acms.session import (
    ReflectionConfig,
    ReflectionJob,
    ReflectionsDone,
    fact_rows,
    next_job,
    store_reflection,
)
from memplane.evaluate import (
    Dataset,
    LabelledQuestion,
    PlainIndex,
    SystemFactory,
    read_dataset,
    recorded,
)
from memplane.plane.plane import Plane
from memplane.policy.records import CHAT
from memplane.wiring import make_counter
from memplane.work.episodes import Fact

BY: Final = "scripted:1"
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_TELLING: Final = re.compile(r"\b[A-Z][\w'-]+|\d+")
_TELLING_LEAST: Final = 2  # names and numbers of a sentence that is noted
_WORDS_LEAST: Final = 5
_CONFIG: Final = ReflectionConfig(calls_per_session=1_000, max_facts=10, min_turns=1)


class Share(NamedTuple):
    """The percent of a question's evidence in a block: whole, and with facts by their refs."""

    whole: float
    by_refs: float


def make(folder: Path, policies: Mapping[str, bytes]) -> Plane:
    """A plane under memplane's own policies."""
    assert not policies
    return memplane.init(folder, durability="os", trusted=False)


def scripted(job: ReflectionJob) -> list[Fact]:
    """The facts of an episode: of each user's turn its most telling sentence."""
    facts = []
    for turn in job.turns:
        sentences = _SENTENCE.split(turn.content) if turn.role == "user" else []
        counted = [(len(_TELLING.findall(one)), one.strip()) for one in sentences]
        most, said = max(counted, default=(0, ""), key=lambda one: one[0])
        if most < _TELLING_LEAST or len(said.split()) < _WORDS_LEAST:
            continue
        speaker = f"{turn.actor_id}: " if turn.actor_id else ""
        fact = Fact(
            id="",
            session_id=job.episode.session_id,
            episode_id=job.episode.id,
            content=f"{speaker}{said}",
            source_turn_ids=(turn.id,),
            created_at=turn.created_at,
        )
        facts.append(fact)
    return facts


def sessions_of(plane: Plane) -> list[str]:
    """The names of the plane's sessions."""
    return sorted({event.session or "" for event in plane.events()} - {""})


def reflect(plane: Plane) -> int:
    """Store the facts of every session, as a runner in the background would; return how many."""
    stored = 0
    for session in sessions_of(plane):
        done = ReflectionsDone(session)
        while (job := next_job(plane.context, session, CHAT, _CONFIG, done)) is not None:
            rows = fact_rows(job, scripted(job)[: _CONFIG.max_facts], BY)
            state = {"status": "reflected", "episode": job.episode.id, "by": BY, "attempt": 1}
            stored += store_reflection(plane.context, job, rows, state, done)
    return stored


def ask(
    plane: Plane, dataset: Dataset, questions: Sequence[LabelledQuestion], budgets: Sequence[int]
) -> dict[tuple[str, int], Share]:
    """What each question's block holds of its evidence, by question and budget."""
    found = {}
    for question in questions:
        known = dataset.conversations[question.conversation].ids
        wanted = {known.get(one) for one in question.evidence}
        at: dict[str, Any] = {} if question.asked_at is None else {"now": question.asked_at}
        for budget in budgets:
            block = plane.pack(question.text, budget=budget, **at)
            whole = {id_ for entry in block.entries for id_ in entry.events}
            facts = [plane.event(id_) for id_ in sorted(whole) if id_.startswith("reflect:")]
            cited = whole | {ref for fact in facts for ref in fact.refs}
            per = 100 / len(question.evidence)
            found[question.id, budget] = Share(len(wanted & whole) * per, len(wanted & cited) * per)
    return found


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("events", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--budgets", default="500,1000,2000")
    given = parser.parse_args()
    budgets = [int(one) for one in given.budgets.split(",")]
    dataset = read_dataset(given.events, given.questions).limited(given.limit)
    builders = SystemFactory(make, make_counter, PlainIndex)
    before: dict[tuple[str, str, int], Share] = {}
    after: dict[tuple[str, str, int], Share] = {}
    count = 0
    for name, conversation in dataset.conversations.items():
        questions = [one for one in dataset.asked if one.conversation == name]
        if not questions:
            continue
        with recorded([conversation], builders, {}) as made:
            plane = made.plane
            for session in sessions_of(plane):  # so that its last episode is closed
                plane.work.sessions.end(session, summary=False)
            plane.upkeep.index()
            rows = ask(plane, dataset, questions, budgets)
            before.update(((name, *key), row) for key, row in rows.items())
            count += reflect(plane)
            plane.upkeep.index()
            rows = ask(plane, dataset, questions, budgets)
            after.update(((name, *key), row) for key, row in rows.items())
    print(f"{len(dataset.asked)} questions, {count} facts")
    print("budget  without    with  95 % by conversations  by refs  better  worse")
    for budget in budgets:
        keys = [key for key in before if key[2] == budget]
        changes = [after[key].by_refs - before[key].whole for key in keys]
        groups: dict[str, list[float]] = {}
        for key in keys:
            groups.setdefault(key[0], []).append(after[key].whole - before[key].whole)
        print(
            f"{budget:6}  {mean([before[key].whole for key in keys]):7.2f} "
            f"{mean([after[key].whole for key in keys]):7.2f}  "
            f"{interval(list(groups.values())):>22}  "
            f"{mean([after[key].by_refs for key in keys]):7.2f}  "
            f"{sum(one > 0 for one in changes):6} {sum(one < 0 for one in changes):6}"
        )


def mean(values: Sequence[float]) -> float:
    """Their mean; 0 of none."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
