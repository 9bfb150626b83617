"""Where an episode of a session ends (plane.yaml), and how `recall` ranks (scoring.yaml).

Both are rules of people for what is derived, never for what is stored: under other rules the same
log has other episodes. The defaults of the episodes' profiles are here, those of the recall's
profiles in memplane's own scoring.yaml.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from memplane.lazy import NamedTuple, late
from memplane.policy.document import (
    PERMILLE,
    PPM,
    Fault,
    Json,
    filled_record,
    mapping,
    parts_per,
    whole_number as whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.policy import regex_safety as policy_regex_safety
else:
    policy_regex_safety = late("memplane.policy.regex_safety")

# The words with which people end a matter, in English.
_ENDING: Final = r"(?i)\b(done|finished|complete|thanks|thank you)\b"


class EpisodeRules(NamedTuple):
    """When an episode ends: after so many turns, a silence, a tool's result, words in a turn.

    0 turns and 0 seconds switch these two off. A turn that comes more than `gap_seconds` after the
    one before it opens the next episode; the other rules end the episode of the turn itself.
    """

    max_turns: int = 40
    gap_seconds: int = 1_800
    close_on_tool_result: bool = False
    close_on_patterns: tuple[str, ...] = ()

    @property
    def variant(self) -> str:
        """What names the rules: other rules, another fold of the same log."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:16]


CHAT: Final = EpisodeRules(6, 1_800, close_on_tool_result=True, close_on_patterns=(_ENDING,))
AGENT: Final = EpisodeRules()
EPISODE_PROFILES: Final = {"chat": CHAT, "agent": AGENT, "none": EpisodeRules(0, 0)}


def build_episode_rules(document: Json) -> EpisodeRules:
    """Build the rules of `episodes` in plane.yaml, a document without mistakes."""
    rules = {name: value for name, value in document.items() if name != "profile"}
    return filled_record(EPISODE_PROFILES[str(document.get("profile", "agent"))], rules)


def episode_faults(document: Json) -> Iterator[Fault]:
    """Name patterns of `episodes` that do not compile, or that can take for ever."""
    episodes = document.get("episodes")
    if isinstance(episodes, dict):
        yield from policy_regex_safety.pattern_faults(
            ("episodes", "close_on_patterns"), episodes.get("close_on_patterns")
        )


RECALL_PROFILES: Final = ("acms-v2", "acms-v1")


class EpisodeFirstProfile(NamedTuple):
    """`acms-v2`: the current episode first, then marked turns, then what was found and facts.

    `episode_ppm`: the most that the episode takes, in millionths of the budget.
    `carry_last_turns`: so many of the last turns of the episode before count as the current one's.
    A marker `custom:<name>` weighs what `custom` does; weights are in thousandths.
    """

    marker_weights: dict[str, int]
    episode_ppm: int
    carry_last_turns: int


class BlendedProfile(NamedTuple):
    """`acms-v1`: relevance, recency and coherence together, all in thousandths.

    Recency halves in `half_life_hours`; coherence is the part of the candidates that are of the
    same episode.
    """

    relevance: int
    recency: int
    half_life_hours: int
    coherence: int


class RecallProfiles(NamedTuple):
    """The two ways in which `recall` chooses; see `memplane.recall.profiles`."""

    episode_first: EpisodeFirstProfile
    blended: BlendedProfile


def build_recall_profiles(document: Json) -> RecallProfiles:
    """Build the records of `profiles` in scoring.yaml, a whole document without mistakes."""
    first, blended = mapping(document["acms-v2"]), mapping(document["acms-v1"])
    return RecallProfiles(
        EpisodeFirstProfile(
            {
                name: parts_per(weight, PERMILLE)
                for name, weight in mapping(first["marker_weights"]).items()
            },
            parts_per(first["current_episode"], PPM),
            whole(first["carry_last_turns"]),
        ),
        BlendedProfile(
            parts_per(blended["relevance"], PERMILLE),
            parts_per(blended["recency"], PERMILLE),
            whole(blended["recency_half_life_hours"]),
            parts_per(blended["coherence"], PERMILLE),
        ),
    )
