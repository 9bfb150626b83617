"""The episodes: each turn in exactly one, whatever the rules, the split and the bounds."""

import pytest
from builders_histories import MARKS, WORK
from builders_journal import FORGETS, STATEMENTS, Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.policy.records import AGENT, CHAT, EPISODE_PROFILES, EpisodeRules
from memplane.projections.sessions import (
    MARKED_MAX,
    TURNS,
    EpisodesProjector,
    every_episode,
    session_episodes,
)
from memplane.tokens import make
from tests.examples import examples

COUNTER = make("len4", scale_ppm=1_000_000, table=bytes)
SIDES = st.sampled_from(["s1", "s2", "s3"])
TIMES = st.integers(0, 9_000).map(
    lambda n: f"2026-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.000000Z"
)
TURN_ROWS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(TURNS)),
        "session": SIDES,
        "ts": TIMES,
        "text": st.sampled_from(["go on", "thanks a lot", "incomplete", "all done", ""]),
    },
    optional={
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "tokens": st.integers(0, 50),
        "markers": st.sampled_from([("goal",), ("constraint", "custom:x")]),
    },
)
CLOSES = st.fixed_dictionaries(
    {
        "kind": st.just("episode"),
        "session": SIDES,
        "data": st.sampled_from(
            [
                {"status": "closed", "reason": "manual"},
                {"status": "closed", "reason": 7},
                {"status": "opened"},
                {},
            ]
        ),
    }
)
HISTORIES = st.lists(
    st.one_of(TURN_ROWS, TURN_ROWS, TURN_ROWS, CLOSES, WORK, MARKS, STATEMENTS, FORGETS),
    max_size=60,
)
RULES = st.builds(
    EpisodeRules,
    st.integers(0, 7),
    st.sampled_from([0, 1, 600, 1_800]),
    st.booleans(),
    st.sampled_from([(), CHAT.close_on_patterns, ("on$",)]),
)
BOUNDS = st.tuples(st.integers(1, 3), st.sampled_from([40, 90, 9_000]), st.sampled_from([1, 3, 99]))


def projector(rules=CHAT, sessions=99, numbers=9_999, episodes=99):
    return EpisodesProjector(
        rules, COUNTER, sessions_max=sessions, numbers_max=numbers, episodes_max=episodes
    )


def said(text="go on", session="s1", second=0, **fields):
    ts = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"
    return {"kind": "message", "session": session, "text": text, "ts": ts, **fields}


def closed(session="s1", reason="manual"):
    return {"kind": "episode", "session": session, "data": {"status": "closed", "reason": reason}}


def spans(rows, rules=CHAT, session="s1"):
    state = fold(projector(rules), Journal(rows).lines)
    found = state.sessions.get(session)
    return [] if found is None else [(one.first_seq, one.turns, one.reason) for one in found.spans]


@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES, RULES, BOUNDS)
def test_any_split_of_any_history_folds_to_the_same_bytes_whatever_the_rules(rows, rules, bounds):
    holds_the_law(projector(rules, *bounds), Journal(rows).lines)


@settings(max_examples=examples(80), deadline=None)
@given(HISTORIES, RULES)
def test_each_turn_is_in_exactly_one_episode_for_every_history_and_rule_set(rows, rules):
    """A2-17: episodes are mandatory, by rules alone. A2-24: one that has closed never opens."""
    lines = Journal(rows).lines
    state = fold(projector(rules), lines)
    for session in ("s1", "s2", "s3"):
        turns = [
            one.event.seq
            for one in lines
            if one.event.session == session and one.event.kind in TURNS
        ]
        found = state.sessions.get(session)
        if found is None:
            assert turns == []
            continue
        assert sum(one.turns for one in found.spans) == len(turns)
        for one in found.spans:
            inside = [seq for seq in turns if one.first_seq <= seq <= one.last_seq]
            assert len(inside) == one.turns
            assert (one.first_seq, one.last_seq) == (inside[0], inside[-1])
            if rules.max_turns:
                assert one.turns <= rules.max_turns
        assert all(one.reason for one in found.spans[:-1]), "only the latest may be open"


@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES, RULES, BOUNDS)
def test_what_bounds_drove_out_is_folded_alone_to_the_same_episodes(rows, rules, bounds):
    journal = Journal(rows)
    one = projector(rules, *bounds)
    state = fold(one, journal.lines)
    for session in ("s1", "s2", "s3"):
        whole = every_episode(journal, session, projector(rules))
        found = session_episodes(journal, state, session, one)
        if whole is None:
            assert found is None
            continue
        assert found.spans == whole.spans[found.before :]
        assert (found.turns, found.marked) == (whole.turns, whole.marked)


@settings(max_examples=examples(40), deadline=None)
@given(HISTORIES, HISTORIES, RULES)
def test_a_session_folded_alone_is_followed_like_any_other(rows, more, rules):
    journal = Journal(rows)
    one = projector(rules, 1, 40, 99)
    state = fold(one, journal.lines)
    for session in ("s1", "s2", "s3"):
        session_episodes(journal, state, session, one)
    before = len(journal.lines)
    journal.extend(more)
    fold(one, journal.lines[before:], state)
    for session in ("s1", "s2", "s3"):
        whole = every_episode(journal, session, projector(rules))
        found = session_episodes(journal, state, session, one)
        assert (None if found is None else found.spans) == (None if whole is None else whole.spans)


def test_the_seventh_turn_opens_the_next_episode():
    """A2-19: an episode closes after max_turns = 6 turns."""
    assert spans([said()] * 7) == [(1, 6, "max_turns"), (7, 1, "")]


@pytest.mark.parametrize(("gap", "count"), [(1_799, 1), (1_800, 1), (1_801, 2)])
def test_a_turn_belongs_to_the_same_episode_up_to_the_gap(gap, count):
    """A2-20: an episode closes when the gap exceeds 1,800 seconds."""
    found = spans([said(), said(second=gap)])
    assert len(found) == count
    assert found[0][2] == ("time_gap" if count == 2 else "")


def test_a_clock_that_runs_backwards_is_no_gap():
    """A2-20: a turn of an earlier time is no silence."""
    assert spans([said(second=9_000), said(second=0)]) == [(1, 2, "")]


@pytest.mark.parametrize("row", [said(role="tool"), said(kind="tool_result")])
def test_a_tool_result_ends_its_episode(row):
    """A2-21: an episode closes after a tool result."""
    assert spans([said(), row, said()]) == [(1, 2, "tool_result"), (3, 1, "")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Thanks!", "pattern"),
        ("that is DONE", "pattern"),
        ("thank you", "pattern"),
        ("all finished here", "pattern"),
        ("Complete.", "pattern"),
        ("incomplete", ""),
        ("thankful", ""),
    ],
)
def test_words_that_end_a_matter_end_its_episode(text, reason):
    """A2-22: an episode closes on a pattern, as a whole word in any case."""
    assert spans([said(text)]) == [(1, 1, reason)]


def test_each_of_the_four_rules_can_be_switched_off():
    """A2-23: all four boundary rules are configurable."""
    rows = [said(), said("done", second=9_000), said(kind="tool_result"), *[said()] * 6]
    none = EPISODE_PROFILES["none"]
    assert spans(rows, none) == [(1, 9, "")]
    assert spans(rows, none._replace(max_turns=4))[0] == (1, 4, "max_turns")
    assert spans(rows, none._replace(gap_seconds=60))[0] == (1, 1, "time_gap")
    assert spans(rows, none._replace(close_on_tool_result=True))[0] == (1, 3, "tool_result")
    assert spans(rows, none._replace(close_on_patterns=("^done$",)))[0] == (1, 2, "pattern")


def test_an_agents_tool_results_do_not_end_its_episodes():
    """A2-21 ends 87 % of a coding agent's episodes: the profile `agent` goes without it."""
    assert spans([said(), said(kind="tool_result"), said("thanks")], AGENT) == [(1, 3, "")]


def test_an_explicit_close_ends_the_open_episode_and_the_next_turn_opens_another():
    """A2-13: close_episode ends the open episode, with its reason."""
    rows = [said(), closed(reason="topic"), closed(reason="again"), said()]
    assert spans(rows) == [(1, 1, "topic"), (4, 1, "")]


def test_a_close_without_turns_is_nothing():
    assert spans([closed()]) == []


def test_other_rules_have_another_variant():
    assert len({rules.variant for rules in EPISODE_PROFILES.values()}) == 3
    assert CHAT.variant == EpisodeRules(*CHAT).variant


def test_marked_turns_are_kept_over_all_episodes_and_only_the_newest():
    rows = [said(markers=("goal",))] * (MARKED_MAX + 3)
    state = fold(projector(numbers=10**9), Journal(rows).lines)
    assert state.sessions["s1"].marked == list(range(4, MARKED_MAX + 4))
