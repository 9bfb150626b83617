"""scoring.yaml: what makes one candidate worth more than another.

The defaults are in memplane's own scoring.yaml and nowhere else: what a plane's file leaves out is
filled in from there (`memplane.policy.files`), so that records are built from complete documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.policy import markers
from memplane.policy.document import (
    PERMILLE,
    Fault,
    Json,
    found_value,
    mapping,
    parts_per,
    texts_of_list,
    whole_number,
)
from memplane.policy.regex_safety import pattern_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memplane.policy.document import Path

__all__ = ["Around", "PackingPolicy", "Retrieval", "Scoring", "build_scoring", "scoring_faults"]

# Numbers that count something; all others are weights and parts, in thousandths.
_COUNTS: Final = frozenset(
    {
        "fade",
        "reach",
        "related_most",
        "sources_max",
        "wide_sources_max",
        "passage_tokens",
        "whole_tokens",
        "passage_mean",
        "base_tokens",
        "recency_half_life_hours",
    }
)


_OWN_NUMBERS: Final = (
    "evidence_floor",
    "tag_weight",
    "key_weight",
    "neighbour",
    "recency_weight",
    "recency_half_life_hours",
    "coherence_weight",
)


class Around(NamedTuple):
    """What the events around a match get of its score.

    `weight` in thousandths of it at no distance, 1/e of that `fade` tokens away, nothing beyond
    `reach` texts.
    """

    weight: int
    fade: int
    reach: int


class Retrieval(NamedTuple):
    """How a search of the whole log ranks events. In thousandths, but what counts something.

    `bigrams`, `prefixes`, `related` and `speaker_name` weigh terms, where a word is 1000;
    `speaker` and `first_person` are factors on what an event's words earn, those `heard` and
    `preference` on what its neighbours lend it too. At most
    `related_most` words with a cosine of `related_least` or more stand beside each word; those of
    `related_alone` or more stand in for the words where no event holds any of these.
    """

    k1: int
    b: int
    bigrams: int
    prefixes: int
    related: int
    related_least: int
    related_most: int
    related_alone: int
    dense: int
    dense_least: int
    dense_cosine: int
    speaker_name: int
    coverage: int
    speaker: int
    speaker_heard: int
    first_person: int
    first_person_heard: int
    preference: int
    tool_call: int
    tool_result: int
    near: Around
    wide: Around
    sources_max: int
    wide_sources_max: int


class PackingPolicy(NamedTuple):
    """How a block is filled with what a search found.

    Thousandths are `passage_worth`, the part of a text's worth that a passage as long as it has,
    and, of the evidence, `instruction_reserve` and `marked_reserve`. `powers` are (budget,
    sixteenths), rising: up to that budget the score is divided by the length to that power, above
    the last one by `power`.
    """

    passage_tokens: int
    whole_tokens: int
    passage_mean: int
    passage_worth: int
    base_tokens: int
    powers: tuple[tuple[int, int], ...]
    power: int
    instruction_reserve: int
    marked_reserve: int


class Scoring(NamedTuple):
    """Weights in thousandths, on relevance scaled to 0..1000.

    A marker `custom:<name>` without a boost of its own has that of `custom`. `evidence_floor`
    is the part of the best score that a candidate must reach. `neighbour` is for recent events;
    `retrieval` has its own. Recency and coherence: see `recall.score.circumstances`. `intents` are
    tried in the order of the file; the first pattern found in the query decides, and
    `default_intent` where there is none. `half_lives` has hours by kind, 0 for what never
    fades; what fades is stale after so many days, 0 for never.
    """

    marker_boosts: dict[str, int]
    evidence_floor: int
    tag_weight: int
    key_weight: int
    neighbour: int
    recency_weight: int
    recency_half_life_hours: int
    coherence_weight: int
    retrieval: Retrieval
    packing: PackingPolicy
    default_intent: str
    intents: tuple[tuple[str, tuple[str, ...]], ...]
    half_lives: dict[str, int]
    stale_after_days: int
    markers: markers.Markers


def build_scoring(document: Json) -> Scoring:
    """Build the record from a whole document without mistakes."""
    retrieval = mapping(document["retrieval"])
    packing = mapping(document["packing"])
    boosts = mapping(document["marker_boosts"])
    powers, power = _powers(packing["powers"])
    intent = document["default_intent"]
    if not isinstance(intent, str):
        raise TypeError(f"expected an intent, found {intent!r}")
    return Scoring(
        _numbers(boosts, boosts),
        **_numbers(document, _OWN_NUMBERS),
        retrieval=Retrieval(
            near=_around(retrieval["near"]),
            wide=_around(retrieval["wide"]),
            **_numbers(retrieval, [f for f in Retrieval._fields if f not in ("near", "wide")]),
        ),
        packing=PackingPolicy(
            powers=powers,
            power=power,
            **_numbers(packing, [f for f in PackingPolicy._fields if f not in ("powers", "power")]),
        ),
        default_intent=intent,
        intents=tuple(
            (name, texts_of_list(patterns))
            for name, patterns in mapping(document["intents"]).items()
        ),
        half_lives={k: whole_number(hours) for k, hours in mapping(document["half_lives"]).items()},
        stale_after_days=whole_number(document["stale_after_days"]),
        markers=markers.build_markers(mapping(document["markers"])),
    )


def _numbers(document: Json, names: Iterable[str]) -> dict[str, int]:
    return {
        name: whole_number(document[name])
        if name in _COUNTS
        else parts_per(document[name], PERMILLE)
        for name in names
    }


def _around(value: object) -> Around:
    return Around(**_numbers(mapping(value), Around._fields))


def _powers(value: Any) -> tuple[tuple[tuple[int, int], ...], int]:
    *rows, last = (mapping(row) for row in value)
    powers = tuple((whole_number(row["up_to"]), whole_number(row["power"])) for row in rows)
    return powers, whole_number(last["power"])


def scoring_faults(document: Json) -> Iterator[Fault]:
    """Name what the schema cannot see: bad patterns, powers that are in no order."""
    packing = document.get("packing")
    if isinstance(packing, dict) and isinstance(packing.get("powers"), list):
        yield from _power_faults(packing["powers"])
    yield from markers.marker_faults(document.get("markers"))
    intents = document.get("intents")
    if isinstance(intents, dict):
        for intent, patterns in intents.items():
            yield from pattern_faults(("intents", intent), patterns)


def _power_faults(rows: list[Any]) -> Iterator[Fault]:
    """Budgets must rise, and the last entry takes those that are larger than all of them."""
    before: int | float = 0
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            continue
        path: Path = ("packing", "powers", position, "up_to")
        most = row.get("up_to")
        if position == len(rows) - 1:
            if most is not None:
                why = "expected in all entries but the last, which is for all larger budgets"
                yield Fault(path, f"{why}; found {found_value(most)}")
        elif most is None:
            yield Fault(path, "missing; expected a number of tokens in all entries but the last")
        elif isinstance(most, int | float) and not isinstance(most, bool):
            if 0 < most <= before:
                yield Fault(
                    path, f"expected more than the {before} before it, found {found_value(most)}"
                )
            before = most
