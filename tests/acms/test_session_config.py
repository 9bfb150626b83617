"""`ACMSConfig` checks itself; embedders of one's own; values that go to JSON and back."""

import asyncio
import json
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.acms import (
    ACMS,
    ACMSConfig,
    ContextAssembly,
    ContextItem,
    Episode,
    EpisodeBoundaryConfig,
    EpisodeStatus,
    Fact,
    ProviderError,
    RecallOmission,
    Role,
    SessionStats,
    Turn,
    ValidationError,
)
from memplane.errors import ConfigurationError
from memplane.home import Assets
from memplane.policy import NAMES, load_policies, regex_safety
from memplane.policy.records import CHAT


def test_the_defaults_are_those_of_the_plan():
    """A2-19 to A2-23, A2-27, A2-43."""
    config = ACMSConfig()
    assert config.rules() == CHAT
    assert CHAT == (6, 1_800, True, (r"(?i)\b(done|finished|complete|thanks|thank you)\b",))
    first = config.profiles().episode_first
    assert first.marker_weights == {
        "constraint": 400, "decision": 300, "goal": 300, "failure": 200, "custom": 200,
    }  # fmt: skip
    assert (first.episode_ppm, first.carry_last_turns) == (400_000, 0)


def test_the_shipped_profiles_are_the_same(tmp_path):
    """A2-27: custom markers weigh 0.2 in the ACMS profiles of scoring.yaml, too."""
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as plane:
        assert plane.upkeep.policies.scoring.profiles == ACMSConfig().profiles()


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"boundaries": EpisodeBoundaryConfig(max_turns=0)}, "boundaries.max_turns: expected 1 or more, found 0"),
        ({"boundaries": EpisodeBoundaryConfig(max_turns=1.5)}, "boundaries.max_turns: expected a whole number from 1 to 100000, found 1.5"),
        ({"boundaries": EpisodeBoundaryConfig(max_time_gap_seconds=-1)}, "boundaries.max_time_gap_seconds: expected 1 or more, found -1"),
        ({"boundaries": EpisodeBoundaryConfig(close_on_patterns=["("])}, "boundaries.close_on_patterns[0]: expected a regular expression, found `(`: missing ), unterminated subpattern at position 0"),
        ({"boundaries": EpisodeBoundaryConfig(close_on_patterns="done")}, "boundaries.close_on_patterns: expected a list of regular expressions, found 'done'"),
        ({"boundaries": EpisodeBoundaryConfig(close_on_tool_result=1)}, "boundaries.close_on_tool_result: expected true or false, found 1"),
        ({"boundaries": None}, "boundaries: expected an EpisodeBoundaryConfig, found None"),
        ({"marker_weights": {"joy": 1}}, "marker_weights: expected one of constraint, decision, goal, failure, custom:*, found 'joy'"),
        ({"marker_weights": {"goal": -1}}, "marker_weights.goal: expected a number from 0 to 10, found -1"),
        ({"marker_weights": 3}, "marker_weights: expected a mapping, found 3"),
        ({"marker_patterns": {"joy": ["x"]}}, "marker_patterns: expected one of decision, constraint, failure, goal, custom:<name>, found 'joy'"),
        ({"marker_patterns": {"goal": [4]}}, "marker_patterns.goal: expected a list of regular expressions, found [4]"),
        ({"auto_detect_markers": "yes"}, "auto_detect_markers: expected true or false, found 'yes'"),
        ({"current_episode_budget_pct": 40}, "current_episode_budget_pct: expected a number from 0 to 1, found 40"),
        ({"current_episode_budget_pct": float("nan")}, "current_episode_budget_pct: expected a number from 0 to 1, found nan"),
        ({"carry_last_turns": 21}, "carry_last_turns: expected a whole number from 0 to 20, found 21"),
        ({"profile": "v3"}, "profile: expected acms-v2 or acms-v1, found 'v3'"),
        ({"scope": "all"}, "scope: expected session or plane, found 'all'"),
        ({"agent": ""}, "agent: expected a name, found ''"),
        ({"embed_on_ingest": None}, "embed_on_ingest: expected true or false, found None"),
        ({"durability": "none"}, "durability: expected sync or os, found 'none'"),
        ({"close_timeout_seconds": -1}, "close_timeout_seconds: expected a number from 0 to 3600, found -1"),
    ],
)  # fmt: skip
def test_a_bad_value_is_a_configuration_error_that_names_it(given_, said):
    """A2-85: ACMSConfig validates itself."""
    with pytest.raises(ConfigurationError) as error:
        ACMSConfig(**given_)
    assert str(error.value) == said


def test_a_hundred_sessions_check_their_patterns_once():
    ACMSConfig(marker_patterns={"goal": ["we (?:aim|want) to"]})
    before = regex_safety.pattern_mistake.cache_info().misses
    for _ in range(100):
        ACMSConfig(marker_patterns={"goal": ["we (?:aim|want) to"]})
    assert regex_safety.pattern_mistake.cache_info().misses == before


def test_every_mistake_is_named_at_once():
    """A2-85: all of them, a line each."""
    with pytest.raises(ConfigurationError) as error:
        ACMSConfig(scope="all", profile="v3", boundaries=EpisodeBoundaryConfig(max_turns=0))
    assert len(str(error.value).splitlines()) == 3


@given(
    st.builds(
        EpisodeBoundaryConfig,
        max_turns=st.none() | st.integers(1, 99),
        max_time_gap_seconds=st.none() | st.integers(1, 9_999),
        close_on_tool_result=st.booleans(),
        close_on_patterns=st.sampled_from([[], ["done"], ["a{1,9}b", "(?i)thanks"]]),
    ),
    st.integers(0, 10).map(lambda n: n / 10),
    st.integers(0, 20),
)
def test_the_settings_read_back_as_policies_are_the_same_records(boundaries, part, carried):
    """G1: the configuration is policy bytes."""
    config = ACMSConfig(
        boundaries=boundaries, current_episode_budget_pct=part, carry_last_turns=carried
    )
    files = {name.removeprefix("policies/"): data for name, data in config.policies().items()}
    read = load_policies(
        files,
        defaults=Assets("policies", NAMES),
        schemas=Assets("schemas", tuple(name.replace(".yaml", ".schema.json") for name in NAMES)),
    )
    assert read.plane.episodes == config.rules()
    assert read.scoring.profiles == config.profiles()


class Letters:
    """An embedder of the plan: asynchronous, numbers by the letters of a text."""

    dimension = 26

    def __init__(self, fails=None):
        self.texts, self.fails = [], fails

    async def embed(self, texts):
        if self.fails is not None:
            raise self.fails
        await asyncio.sleep(0)
        self.texts += texts
        return [[float(text.lower().count(chr(97 + n))) for n in range(26)] for text in texts]


def run(main):
    return asyncio.run(asyncio.wait_for(main, 60))


def test_a_turn_is_embedded_when_ingest_returns(tmp_path):
    """A2-09: embedding is awaited inside ingest."""
    letters = Letters()

    async def main():
        async with ACMS("s", tmp_path / "notes", letters) as session:
            await session.ingest("user", "the ferry leaves at nine")
            assert any("ferry" in text for text in letters.texts)
            assert (await session.get_session_stats()).embedded_count == 1
            assert len(await session.recall("ferries leaving")) == 1

    run(main())


def test_sessions_with_one_embedder_share_one_plane(tmp_path):
    letters = Letters()

    async def main():
        async with (
            ACMS("a", tmp_path / "notes", letters) as first,
            ACMS("b", tmp_path / "notes", letters) as second,
        ):
            assert first.plane is second.plane

    run(main())


@pytest.mark.parametrize(
    "error", [ConnectionError("down"), ValueError("odd"), ProviderError("no", provider="x")]
)
def test_an_embedder_that_fails_costs_no_turn_and_no_recall(tmp_path, error):
    """A2-77: provider failures degrade recall, they do not end it."""
    letters = Letters()

    async def main():
        async with ACMS("s", tmp_path / "notes", letters) as session:
            await session.ingest("user", "the ferry leaves at nine")
            letters.fails = error
            await session.ingest("user", "the bus leaves at ten")
            assert session.embed_failures == 1
            found = await session.assemble("when does the ferry leave?")
            assert len(found.items) == 2
            assert found.degraded
            letters.fails = None
            await session.ingest("user", "the train leaves at noon")
            assert (await session.get_session_stats()).embedded_count == 3

    run(main())


TIMES = st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=2))))
TEXTS = st.text(max_size=12)
NAMES_ = st.lists(TEXTS, max_size=3).map(tuple)
FLOATS = st.floats(0, 9, allow_nan=False)
DATA = st.dictionaries(
    TEXTS, st.none() | st.integers() | TEXTS | st.lists(st.booleans(), max_size=2), max_size=3
)
ITEMS = st.builds(
    ContextItem, id=TEXTS, source=TEXTS, role=TEXTS, content=TEXTS, tokens=st.integers(0, 99),
    score=FLOATS, relevance=FLOATS, marker_boost=FLOATS, markers=NAMES_, episode_id=st.none() | TEXTS,
    created_at=TIMES, metadata=DATA, parts=st.dictionaries(TEXTS, FLOATS, max_size=2),
)  # fmt: skip
VALUES = st.one_of(
    ITEMS,
    st.builds(
        Turn, id=TEXTS, session_id=TEXTS, episode_id=TEXTS, role=st.sampled_from(Role),
        content=TEXTS, actor_id=st.none() | TEXTS, markers=NAMES_, metadata=DATA, created_at=TIMES,
        token_count=st.integers(0), seq=st.integers(1),
    ),
    st.builds(
        Episode, id=TEXTS, session_id=TEXTS, status=st.sampled_from(EpisodeStatus),
        turn_ids=NAMES_, started_at=TIMES, ended_at=st.none() | TIMES,
        close_reason=st.none() | TEXTS, token_count=st.integers(0),
    ),
    st.builds(
        Fact, id=TEXTS, session_id=TEXTS, episode_id=TEXTS, content=TEXTS, source_turn_ids=NAMES_,
        confidence=FLOATS, created_at=TIMES, metadata=DATA,
    ),
    st.builds(
        SessionStats, session_id=TEXTS, turn_count=st.integers(0), turns_by_role=st.just({"user": 2}),
        episode_count=st.integers(0), open_episode_id=st.none() | TEXTS, fact_count=st.integers(0),
        marker_counts=st.just({}), token_count=st.integers(0), embedded_count=st.integers(0),
        first_turn_at=st.none() | TIMES, last_turn_at=st.none() | TIMES,
    ),
    st.builds(
        ContextAssembly, query=TEXTS, items=st.lists(ITEMS, max_size=2).map(tuple),
        total_tokens=st.integers(0), token_budget=st.integers(1),
        omissions=st.lists(
            st.builds(RecallOmission, id=TEXTS, source=TEXTS, reason=TEXTS, score=FLOATS), max_size=2
        ).map(tuple),
        warnings=NAMES_, as_of_seq=st.integers(0), degraded=NAMES_,
    ),
)  # fmt: skip


@given(VALUES)
def test_every_value_goes_to_json_and_back(value):
    """A2-86: models serialise to JSON and back; what they do not know is ignored."""
    said = json.loads(json.dumps(value.to_dict()))
    assert type(value).from_dict(said) == value
    assert type(value).from_dict({**said, "unheard_of": 1}) == value


def test_a_time_without_a_zone_and_a_missing_field_are_refused():
    """A2-86: naive times are refused."""
    whole = {
        "id": "e", "session_id": "s", "status": "open", "turn_ids": [], "token_count": 1,
        "started_at": "2026-01-05T12:00:00+00:00",
    }  # fmt: skip
    assert Episode.from_dict(whole).status is EpisodeStatus.OPEN
    for wrong in (
        {"started_at": "2026-01-05T12:00:00"}, {"started_at": 7}, {"status": "ajar"},
        {"turn_ids": "abc"},
    ):  # fmt: skip
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            Episode.from_dict({**whole, **wrong})
    with pytest.raises(ValidationError, match="id: missing"):
        Episode.from_dict({name: value for name, value in whole.items() if name != "id"})
    with pytest.raises(ValidationError):
        Episode.from_dict([])
