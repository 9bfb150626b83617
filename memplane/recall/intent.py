"""What the query is after, by the patterns in scoring.yaml: no model, no guess beyond them."""

from __future__ import annotations

import re
from functools import lru_cache

from memplane.errors import InputError
from memplane.policy import Scoring

__all__ = ["INTENTS", "intent_of"]

INTENTS = ("auto", "fast", "deep", "orient")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def intent_of(asked: str, query: str, scoring: Scoring) -> str:
    """`fast`, `deep` or `orient`: as asked, else the first intent with a pattern in the query.

    A query that no pattern fits is the policy's default, an empty one fast. Raises InputError for
    an intent that does not exist.
    """
    if asked not in INTENTS:
        raise InputError(f"expected one of {', '.join(INTENTS)}, found {asked!r}", where="intent")
    if asked != "auto":
        return asked
    if not query.strip():
        return "fast"
    for intent, named in scoring.intents:
        if any(_compiled(pattern).search(query) for pattern in named):
            return intent
    return scoring.default_intent
