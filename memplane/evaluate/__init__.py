"""How well memplane recalls: labelled questions asked of planes made for it, and the figures.

Everything is asked through the product's own doors (the importer, `Plane.pack`, `Plane.search`),
and what it is compared with is rendered and counted by the same code under the same budget.
"""

from __future__ import annotations

from memplane.evaluate.run import (
    BASELINES,
    Choice,
    Conversation,
    CrossValidated,
    Dataset,
    EvaluationMode,
    LabelledQuestion,
    Measured,
    QuestionOutcome,
    RankedQuestion,
    SystemFactory,
    cross_validate,
    deal,
    evaluation_report,
    measure,
    read_dataset,
    table,
)

__all__ = [
    "BASELINES",
    "Choice",
    "Conversation",
    "CrossValidated",
    "Dataset",
    "EvaluationMode",
    "LabelledQuestion",
    "Measured",
    "QuestionOutcome",
    "RankedQuestion",
    "SystemFactory",
    "cross_validate",
    "deal",
    "evaluation_report",
    "measure",
    "read_dataset",
    "table",
]
