"""The intent of a query (deep, orient or fast), by the patterns of scoring.yaml; no model."""

from __future__ import annotations

import re
from functools import lru_cache

from memplane.errors import InputError
from memplane.policy import Scoring

__all__ = ["INTENTS", "chosen_intent", "intent_of"]

INTENTS = ("auto", "fast", "deep", "orient")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def intent_of(asked: str, query: str, scoring: Scoring) -> str:
    """The intent alone: see `chosen_intent`."""
    return chosen_intent(asked, query, scoring)[0]


def chosen_intent(asked: str, query: str, scoring: Scoring) -> tuple[str, str]:
    """`fast`, `deep` or `orient`: as asked, else the first intent with a pattern in the query.

    A query that no pattern fits is the policy's default, an empty one fast. With the rule that
    chose it: `asked`, `empty query`, `default_intent`, or `pattern: ` and the pattern. Raises
    InputError for an intent that does not exist.
    """
    if asked not in INTENTS:
        raise InputError(f"expected one of {', '.join(INTENTS)}, found {asked!r}", where="intent")
    if asked != "auto":
        return asked, "asked"
    if not query.strip():
        return "fast", "empty query"
    for intent, named in scoring.intents:
        for pattern in named:
            if _compiled(pattern).search(query):
                return intent, f"pattern: {pattern}"
    return scoring.default_intent, "default_intent"
