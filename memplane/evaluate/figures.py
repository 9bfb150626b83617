"""Answers to figures: one row for each system, budget and group, as plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import sqrt
from random import Random
from typing import Any, Final, Literal, NamedTuple

from memplane.errors import InputError
from memplane.evaluate.dataset import LISTED, Dataset
from memplane.evaluate.run import PRODUCT, EvaluationMode, Measured, QuestionOutcome, RankedQuestion

__all__ = [
    "RANKS",
    "RESAMPLES",
    "SEED",
    "Choice",
    "Column",
    "CrossValidated",
    "cross_validate",
    "deal",
    "evaluation_report",
    "mean",
    "mean_of",
    "percentile",
    "se_groups",
    "se_values",
    "table",
]


RANKS: Final = (5, 10, 20, 50, 100)
PLACES: Final = 5


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
    f"{'touched':>8}{'±q':>5}{'±c':>5}{'any':>6}{'all':>6}{'tokens':>7}{'p50':>6}{'p95':>6}"
)
_LEGEND: Final = """\
Percent of the evidence that the rendered block holds: events that are there `whole`, and those
`touched`, whole or in part. ±q ±c: standard errors over questions and over conversations. any, all:
questions with some, with all of their evidence. tokens: mean of the block in the plane's counter.
p50 p95: milliseconds of a pack."""


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
    for column, width in (("whole", 7), ("touched", 8)):
        cells.append(f"{100 * row[column]:>{width}.1f}")
        cells += [_error(row[f"{column}_se_{of}"]) for of in ("questions", "conversations")]
        cells += [_percent(row[f"{column}_{of}"]) for of in ("any", "all")]
    cells.append(f"{row['tokens_mean']:>7.0f}{_ms(row['p50_ns']):>6}{_ms(row['p95_ns']):>6}")
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

Column = Literal["whole", "touched"]


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
