"""`ACMSConfig`: how a session of `memplane.acms` divides, marks and recalls; it checks itself.

What it says of episodes and recall is policy: `policies` gives the text that would stand in
plane.yaml and scoring.yaml, and the session goes by the records that are built from it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from memplane.errors import ConfigurationError
from memplane.event import MARKERS
from memplane.intake.check import is_marker
from memplane.intake.redact import quoted_value
from memplane.policy.recall import (
    CHAT,
    RECALL_PROFILES,
    EpisodeRules,
    RecallProfiles,
    build_episode_rules,
    build_recall_profiles,
)
from memplane.policy.regex_safety import pattern_faults
from memplane.wiring import make_counter

ANY_CUSTOM: Final = "custom:*"
MARKER_WEIGHTS: Final = {
    "constraint": 0.4,
    "decision": 0.3,
    "goal": 0.3,
    "failure": 0.2,
    ANY_CUSTOM: 0.2,
}
_WEIGHT_MAX: Final = 10
_CARRIED_MAX: Final = 20
_GAP_MAX: Final = 31_536_000
_TURNS_MAX: Final = 100_000
_SCOPES: Final = ("session", "plane")
_DURABILITIES: Final = ("sync", "os")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeBoundaryConfig:
    """When an episode closes; None for a rule switches it off."""

    max_turns: int | None = CHAT.max_turns
    max_time_gap_seconds: int | None = CHAT.gap_seconds
    close_on_tool_result: bool = CHAT.close_on_tool_result
    close_on_patterns: Sequence[str] = CHAT.close_on_patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class ACMSConfig:
    """The settings of a session. Raises ConfigurationError that names every mistake, a line each.

    `marker_weights` by marker, `custom:*` for any of one's own. `marker_patterns`: regular
    expressions by marker, looked for at the beginning of a turn's lines in place of memplane's own
    words. `current_episode_budget_pct`: the most that the current episode takes of a recall;
    `carry_last_turns`: so many turns of the episode before count as the current one's (0 is the
    plan's, 4 keeps the thread right after a boundary). `scope`: `session` for what this session
    said alone, `plane` for all that the plane remembers. `agent`: who reads and answers, for all
    calls. `durability`: what an acknowledged turn survives, for a plane that is opened by path:
    `sync` a power cut, `os` the end of the process.
    """

    boundaries: EpisodeBoundaryConfig = field(default_factory=EpisodeBoundaryConfig)
    marker_weights: Mapping[str, float] = field(default_factory=lambda: dict(MARKER_WEIGHTS))
    auto_detect_markers: bool = True
    marker_patterns: Mapping[str, Sequence[str]] | None = None
    current_episode_budget_pct: float = 0.4
    carry_last_turns: int = 0
    profile: str = "acms-v2"
    scope: str = "session"
    agent: str | None = None
    embed_on_ingest: bool = True
    durability: Literal["sync", "os"] = "sync"
    close_timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        found = [*_boundary_faults(self.boundaries), *_faults(self)]
        if found:
            raise ConfigurationError("\n".join(found))

    def policies(self) -> dict[str, bytes]:
        """What the settings are as policies: texts of plane.yaml and scoring.yaml, by their name.

        JSON, which is YAML too. `Plane.under` recalls by them what this session does.
        """
        episodes, profiles = self._documents()
        return {
            "policies/plane.yaml": _bytes({"version": 1, "episodes": episodes}),
            "policies/scoring.yaml": _bytes({"version": 1, "profiles": profiles}),
        }

    def rules(self) -> EpisodeRules:
        """The rules of episodes, as the policy's record."""
        return build_episode_rules(self._documents()[0])

    def profiles(self) -> RecallProfiles:
        """The profiles of recall, as the policy's records."""
        return build_recall_profiles(self._documents()[1])

    def _documents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        ends = self.boundaries
        weights = {
            "custom" if name == ANY_CUSTOM else name: weight
            for name, weight in {**dict.fromkeys(MARKER_WEIGHTS, 0), **self.marker_weights}.items()
        }
        episodes = {
            "profile": "none",
            "max_turns": ends.max_turns or 0,
            "gap_seconds": ends.max_time_gap_seconds or 0,
            "close_on_tool_result": ends.close_on_tool_result,
            "close_on_patterns": list(ends.close_on_patterns),
        }
        profiles = {
            "acms-v2": {
                "marker_weights": weights,
                "current_episode": self.current_episode_budget_pct,
                "carry_last_turns": self.carry_last_turns,
            },
            "acms-v1": {
                "relevance": 0.6,
                "recency": 0.2,
                "recency_half_life_hours": 24,
                "coherence": 0.2,
            },
        }
        return episodes, profiles


class TiktokenCounter:
    """Tokens as OpenAI's models have them; nothing is downloaded. Needs the extra `tokens`.

    `encoding`: o200k_base or cl100k_base. Raises ConfigurationError for another one,
    MissingExtraError without the extra.
    """

    def __init__(self, encoding: str = "o200k_base") -> None:
        name = encoding.removesuffix("_base")
        if name not in ("o200k", "cl100k") or name == encoding:
            raise ConfigurationError(
                f"encoding: expected o200k_base or cl100k_base, found {quoted_value(encoding)}"
            )
        self.name = f"tiktoken:{encoding}"
        self.count: Callable[[str], int] = make_counter(name, 1_000_000).count


def compiled(patterns: Mapping[str, Sequence[str]]) -> dict[str, list[re.Pattern[str]]]:
    """The patterns of markers, for the beginning of each line, in any case."""
    return {
        marker: [re.compile(rf"^[ \t]*(?:{one})", re.IGNORECASE | re.MULTILINE) for one in some]
        for marker, some in patterns.items()
    }


def _bytes(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode()


def _boundary_faults(given: object) -> Iterator[str]:
    if not isinstance(given, EpisodeBoundaryConfig):
        yield f"boundaries: expected an EpisodeBoundaryConfig, found {quoted_value(given)}"
        return
    for name, most in (("max_turns", _TURNS_MAX), ("max_time_gap_seconds", _GAP_MAX)):
        value = getattr(given, name)
        if value is not None:
            yield from _whole(f"boundaries.{name}", value, 1, most)
    yield from _flag("boundaries.close_on_tool_result", given.close_on_tool_result)
    yield from _patterns("boundaries.close_on_patterns", given.close_on_patterns)


def _faults(config: ACMSConfig) -> Iterator[str]:
    yield from _weights(config.marker_weights)
    yield from _flag("auto_detect_markers", config.auto_detect_markers)
    if config.marker_patterns is not None:
        yield from _marker_patterns(config.marker_patterns)
    yield from _number("current_episode_budget_pct", config.current_episode_budget_pct, 0, 1)
    yield from _whole("carry_last_turns", config.carry_last_turns, 0, _CARRIED_MAX)
    yield from _word("profile", config.profile, RECALL_PROFILES)
    yield from _word("scope", config.scope, _SCOPES)
    if config.agent is not None and not (isinstance(config.agent, str) and config.agent):
        yield f"agent: expected a name, found {quoted_value(config.agent)}"
    yield from _flag("embed_on_ingest", config.embed_on_ingest)
    yield from _word("durability", config.durability, _DURABILITIES)
    yield from _number("close_timeout_seconds", config.close_timeout_seconds, 0, 3_600)


def _weights(given: object) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"marker_weights: expected a mapping, found {quoted_value(given)}"
        return
    for name, weight in given.items():
        if name not in MARKER_WEIGHTS:
            known = ", ".join(MARKER_WEIGHTS)
            yield f"marker_weights: expected one of {known}, found {quoted_value(name)}"
        else:
            yield from _number(f"marker_weights.{name}", weight, 0, _WEIGHT_MAX)


def _marker_patterns(given: object) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"marker_patterns: expected a mapping, found {quoted_value(given)}"
        return
    for name, patterns in given.items():
        if not is_marker(name):
            known = ", ".join((*MARKERS, "custom:<name>"))
            yield f"marker_patterns: expected one of {known}, found {quoted_value(name)}"
        else:
            yield from _patterns(f"marker_patterns.{name}", patterns)


def _patterns(where: str, given: object) -> Iterator[str]:
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or not all(isinstance(one, str) and one for one in given):  # type: ignore[attr-defined]
        yield f"{where}: expected a list of regular expressions, found {quoted_value(given)}"
        return
    for fault in pattern_faults((), list(given)):  # type: ignore[call-overload]
        yield f"{where}[{fault.path[-1]}]: {fault.message}"


def _whole(where: str, value: object, least: int, most: int) -> Iterator[str]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:  # type: ignore[operator]
        said = (
            f"{least} or more"
            if isinstance(value, int) and value < least
            else (f"a whole number from {least} to {most}")
        )
        yield f"{where}: expected {said}, found {quoted_value(value)}"


def _number(where: str, value: object, least: float, most: float) -> Iterator[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
        yield f"{where}: expected a number from {least} to {most}, found {quoted_value(value)}"


def _flag(where: str, value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{where}: expected true or false, found {quoted_value(value)}"


def _word(where: str, value: object, known: Sequence[str]) -> Iterator[str]:
    if value not in known:
        yield f"{where}: expected {' or '.join(known)}, found {quoted_value(value)}"
