"""Answers to figures: one row for each system, budget and group, as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from memplane.evaluate.beir import CollectionRun
from memplane.evaluate.dataset import Dataset
from memplane.evaluate.figures import (
    RESAMPLES,
    SEED,
    mean_of,
    percentile,
    se_groups,
    se_values,
)
from memplane.evaluate.folds import Column, deal
from memplane.evaluate.outcome import Outcome, Ranked
from memplane.evaluate.run import Asked, Measured

__all__ = ["RANKS", "collection_report", "report_of"]

RANKS: Final = (5, 10, 20, 50, 100)
_LISTED: Final = 20
_PLACES: Final = 5


def report_of(
    dataset: Dataset, asked: Asked, measured: Measured, *, by_category: bool = False,
    folds: int = 0, questions: bool = False,
) -> dict[str, Any]:  # fmt: skip
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
        "refused_first": measured.refused[:_LISTED],
        "questions": len(dataset.questions),
        "with_evidence": len(dataset.asked),
        "evidence": sum(len(question.evidence) for question in dataset.asked),
        "unresolved": len(dataset.unresolved),
        "unresolved_first": [list(one) for one in dataset.unresolved[:_LISTED]],
    }


def _group(
    kind: str, name: str, outcomes: Sequence[Outcome], searched: Sequence[Ranked]
) -> dict[str, Any]:
    keys = dict.fromkeys((one.system, one.budget) for one in outcomes)
    rows = [_row([one for one in outcomes if (one.system, one.budget) == key]) for key in keys]
    return {"group": kind, "name": name, "rows": rows, "search": _search_row(searched)}


def _row(outcomes: Sequence[Outcome]) -> dict[str, Any]:
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


def _recall(column: Column, outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Mean recall, both errors, and how many questions have any and all of their evidence."""
    shares = [one.share(column) for one in outcomes]
    groups: dict[str, list[float]] = {}
    for one, share in zip(outcomes, shares, strict=True):
        groups.setdefault(one.conversation, []).append(share)
    return {
        column: round(mean_of(shares), _PLACES),
        f"{column}_se_questions": _rounded(se_values(shares)),
        f"{column}_se_conversations": _rounded(se_groups(groups)),
        f"{column}_any": round(mean_of([share > 0 for share in shares]), _PLACES),
        f"{column}_all": round(mean_of([share == 1 for share in shares]), _PLACES),
    }


def _rounded(error: float | None) -> float | None:
    return None if error is None else round(error, _PLACES)


def _search_row(searched: Sequence[Ranked]) -> dict[str, Any] | None:
    if not searched:
        return None
    times = [one.ns for one in searched]
    recall = {str(k): round(mean_of([one.recall(k) for one in searched]), _PLACES) for k in RANKS}
    return {
        "questions": len(searched),
        "recall_at": recall,
        "p50_ns": percentile(times, 50),
        "p95_ns": percentile(times, 95),
    }


def collection_report(run: CollectionRun) -> dict[str, Any]:
    """Put the figures of a collection together: a row for each ranking."""
    systems: Iterable[str] = dict.fromkeys(one.system for one in run.rankings)
    rows = []
    for system in systems:
        own = [one for one in run.rankings if one.system == system]
        times = [one.ns for one in own]
        rows.append(
            {
                "system": system,
                "queries": len(own),
                "ndcg_at_10": round(mean_of([one.ndcg for one in own]), _PLACES),
                "ndcg_at_10_se": _rounded(se_values([one.ndcg for one in own])),
                "recall_at": {
                    str(k): round(mean_of([one.recall(k) for one in own]), _PLACES) for k in RANKS
                },
                "p50_ns": percentile(times, 50),
                "p95_ns": percentile(times, 95),
            }
        )
    return {
        "collection": {
            "documents": run.documents, "queries": run.queries, "judged": run.judged,
            "unresolved": run.unresolved,
        },
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
        "rows": rows,
    }  # fmt: skip
