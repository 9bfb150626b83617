"""scoring.yaml: what makes one candidate worth more than another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.policy.patterns import pattern_faults
from memplane.policy.values import PERMILLE, Json, mapping, parts, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.policy.document import Fault

__all__ = ["Scoring", "build", "faults"]

_MARKER_BOOSTS: Final = {
    "constraint": 400,
    "decision": 300,
    "goal": 300,
    "failure": 200,
    "custom": 200,
}


class Scoring(NamedTuple):
    """Weights in thousandths, on relevance scaled to 0..1000.

    `evidence_floor` is the part of the best score that a candidate must reach.
    `intents` are tried in the order of the file; the first pattern found in the query decides.
    """

    marker_boosts: dict[str, int] = _MARKER_BOOSTS
    evidence_floor: int = 150
    tag_weight: int = 500
    key_weight: int = 1_000
    neighbour: int = 300
    intents: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("deep", (r"(?i)\b(?:when|why) did\b", r"(?i)\bhistory\b", r"(?i)\b(?:earlier|before)\b")),
        (
            "orient",
            (
                r"(?i)\bwhat (?:are|were) we (?:working on|doing)\b",
                r"(?i)\bwhere (?:are|were) we\b",
                r"(?i)\bcatch me up\b",
                r"(?i)^\W*(?:status|resume)\b",
            ),
        ),
    )


_DEFAULT: Final = Scoring()


def build(document: Json) -> Scoring:
    """Build the record from a document without mistakes."""
    boosts = mapping(document.get("marker_boosts", {}))
    intents = document.get("intents")

    def permille(key: str, default: int) -> int:
        return parts(document[key], PERMILLE) if key in document else default

    return Scoring(
        _MARKER_BOOSTS | {marker: parts(boost, PERMILLE) for marker, boost in boosts.items()},
        permille("evidence_floor", _DEFAULT.evidence_floor),
        permille("tag_weight", _DEFAULT.tag_weight),
        permille("key_weight", _DEFAULT.key_weight),
        permille("neighbour", _DEFAULT.neighbour),
        _DEFAULT.intents
        if intents is None
        else tuple((intent, texts(patterns)) for intent, patterns in mapping(intents).items()),
    )


def faults(document: Json) -> Iterator[Fault]:
    """Name what the schema cannot see: patterns that do not compile, or that can blow up."""
    intents = document.get("intents")
    if isinstance(intents, dict):
        for intent, patterns in intents.items():
            yield from pattern_faults(("intents", intent), patterns)
