"""Cross-validation by conversation: what was fitted on the others is judged on these.

Questions of one conversation share its words, its people and its mistakes, so a fold holds whole
conversations and never half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from memplane.errors import InputError
from memplane.evaluate.outcome import PRODUCT, Outcome

__all__ = ["Choice", "Column", "CrossValidated", "cross_validate", "deal", "mean"]

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
    candidates: Mapping[str, bytes], measured: Callable[[bytes], Sequence[Outcome]], k: int, *,
    column: Column = "whole",
) -> CrossValidated:  # fmt: skip
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
    judged: list[Outcome] = []
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


def mean(outcomes: Sequence[Outcome], column: Column) -> float:
    """Mean recall; 0 of nothing."""
    return sum(one.share(column) for one in outcomes) / len(outcomes) if outcomes else 0.0
