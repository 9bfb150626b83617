"""How well memplane recalls: labelled questions asked of planes made for it, and the figures.

Everything is asked through the product's own doors (the importer, `Plane.pack`, `Plane.search`),
and what it is compared with is rendered and counted by the same code under the same budget.
"""

from __future__ import annotations

from memplane.evaluate.baselines import BASELINES
from memplane.evaluate.beir import Collection, rank_collection, read_collection
from memplane.evaluate.dataset import Conversation, Dataset, Question, read_dataset
from memplane.evaluate.figures import (
    Choice,
    CrossValidated,
    collection_report,
    collection_table,
    cross_validate,
    deal,
    report_of,
    table,
)
from memplane.evaluate.run import Asked, Builders, Measured, Outcome, Ranked, measure

__all__ = [
    "BASELINES",
    "Asked",
    "Builders",
    "Choice",
    "Collection",
    "Conversation",
    "CrossValidated",
    "Dataset",
    "Measured",
    "Outcome",
    "Question",
    "Ranked",
    "collection_report",
    "collection_table",
    "cross_validate",
    "deal",
    "measure",
    "rank_collection",
    "read_collection",
    "read_dataset",
    "report_of",
    "table",
]
