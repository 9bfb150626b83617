"""What privacy.yaml hides from a channel shows nowhere on it; what was replaced is in no block."""

import json
import random
from contextlib import suppress

import pytest
from builders_planes import rows
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.errors import MemplaneError, NotFoundError
from tests.examples import examples

SECRET_WORDS = ("zanzibar", "quokka", "xylograph")


def hidden_rows(seed: int, count: int) -> list[dict]:
    """Rows of which some must not show on `public`: each of those holds one of SECRET_WORDS."""
    chance = random.Random(seed)
    made = rows(seed, count)
    for row in made:
        if not row.get("text"):
            continue
        roll = chance.random()
        word = chance.choice(SECRET_WORDS)
        if row.get("kind") == "preference":
            row["text"] = f"{row['text']} {word}"
            row.pop("key", None)
        elif roll < 0.3:
            row["text"] = f"{word} {row['text']}"
            row["sensitivity"] = chance.choice(["high", "secret"])
            row["tags"] = [word]
            if row.get("kind") not in ("tool_call", "task"):
                row["actor"] = word
            if "data" in row:
                row["data"]["path"] = f"src/{word}.py"
        elif row.get("sensitivity") in ("high", "secret"):
            row["sensitivity"] = "normal"
    return made


def everything_shown(plane, channel: str) -> str:
    out = []
    for session in (None, "s0", "s1"):
        for budget in (180, 1200, 6000):
            block = plane.pack(
                "parser quokka zanzibar", session=session, budget=budget, channel=channel
            )
            report = {k: v for k, v in block.report.items() if k != "request"}
            out.append(block.text + json.dumps(report, default=str) + repr(block.omissions))
    ids = [f"expand://event/{seq}" for seq in range(2, plane.head().seq + 1, 7)]
    for handle in ids:
        try:
            out.append(repr(plane.expand(handle, channel=channel)))
            out.append(repr(plane.event(int(handle.rpartition("/")[2]), channel=channel)))
        except MemplaneError as error:
            out.append(str(error))
    named = [f"task/{task}?depth=3" for task in ("t0", "t1", "t2", "t3")]
    named += [f"session/{session}?depth=3" for session in ("s0", "s1", "s2")]
    named += [f"memory/global/k{number}?depth=1" for number in range(12)]
    for handle in named:
        try:
            out.append(repr(plane.expand(handle, 6000, channel=channel)))
            block = plane.pack(expand=[handle], sections=["expansions"], channel=channel)
            out.append(block.text + repr(block.omissions))
        except MemplaneError as error:
            out.append(str(error))
    out.extend(repr(event) for event in plane.events(channel=channel))
    for key in plane.keys(ns=None, channel=channel):
        out.append(key)
        out += [repr(answer(key, channel=channel)) for answer in (plane.get, plane.history)]
    out.append(repr(plane.work.decisions(channel=channel)))
    for handle in ids[:5]:
        with suppress(NotFoundError):
            block = plane.pack("parser", expand=[handle], channel=channel)
            out.append(block.text + repr(block.omissions))
    return "\n".join(out)


def check_nothing_shows(home, seed: int, count: int) -> None:
    with memplane.init(home, durability="os") as plane:
        plane.record_many(hidden_rows(seed, count))
        shown = everything_shown(plane, "public")
        for word in SECRET_WORDS:
            at = shown.find(word)
            assert at < 0, shown[max(0, at - 300) : at + 100]


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), count=st.integers(5, 60))
def test_public_shows_nothing_that_privacy_suppresses(tmp_path_factory, seed, count):
    check_nothing_shows(tmp_path_factory.mktemp("public"), seed, count)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_public_shows_nothing_in_a_thousand_planes(tmp_path, first):
    for seed in range(first, first + 50):
        check_nothing_shows(tmp_path / f"{seed}", seed, 20 + seed % 50)


def test_a_hidden_newer_value_hides_the_older_one(plane):
    plane.record("the old endpoint", kind="fact", key="endpoint")
    plane.record("the secret endpoint", kind="fact", key="endpoint", sensitivity="high")
    block = plane.pack("endpoint", channel="public", budget=2000)
    assert "endpoint" not in block.text
    assert block.report["omissions"]["counts"] == {"missing": 2, "sensitivity": 1, "superseded": 1}
    assert plane.get("endpoint", channel="public") is None


def test_preferences_are_hidden_where_their_view_is(plane):
    plane.record("short answers please", kind="preference", key="style")
    assert "short answers" not in plane.pack("answers", channel="public", budget=2000).text
    assert "short answers" in plane.pack("answers", channel="private", budget=2000).text


@pytest.mark.parametrize("session", [None, "s"])
@pytest.mark.parametrize("budget", [150, 900, 1000, 4000, 20000])
def test_a_superseded_or_forgotten_value_is_in_no_block_not_even_as_a_recent_turn(
    plane, session, budget
):
    plane.record("we use porcupine", kind="decision", key="db", session="s", role="user")
    plane.record("the turn about wombat", role="user", session="s", id="w1")
    plane.record("a fact about platypus", kind="fact", key="animal", session="s")
    plane.record("we use hedgehog", kind="decision", key="db", session="s")
    plane.forget(id="w1")
    plane.forget("animal")
    for query in ("", "porcupine wombat platypus hedgehog"):
        text = plane.pack(query, session=session, budget=budget).text
        assert not any(word in text for word in ("porcupine", "wombat", "platypus"))
    assert "hedgehog" in plane.pack("hedgehog", session=session, budget=max(budget, 400)).text


def test_what_was_forgotten_comes_back_and_a_predecessor_never_does(plane):
    plane.record("old", kind="fact", key="k")
    plane.record("new", kind="fact", key="k")
    plane.forget("k")
    assert plane.get("k") is None
    assert "old" not in plane.pack("old new", budget=2000).text
    plane.unforget("k")
    assert plane.get("k").text == "new"
    assert [version.reason for version in plane.history("k")] == ["superseded", None]


def test_an_expired_value_is_not_shown_at_a_clock_behind_it(plane):
    plane.record(
        "the freeze holds", kind="decision", key="freeze", valid_until="2026-01-10T00:00:00Z"
    )
    assert "freeze holds" in plane.pack("freeze", now="2026-01-09T00:00:00Z").text
    assert "freeze holds" not in plane.pack("freeze", now="2026-01-11T00:00:00Z").text
    assert plane.get("freeze", now="2026-01-11T00:00:00Z") is None


def test_an_agents_own_namespace_is_not_shown_to_another(plane):
    plane.record("the scout saw a heron", kind="fact", ns="/agent/scout")
    assert "heron" not in plane.pack("heron").text
    assert "heron" not in plane.pack("heron", agent="builder").text
    assert "heron" in plane.pack("heron", agent="scout").text


def test_a_pack_for_a_task_sees_that_task_the_specs_and_the_plane(plane):
    for ns in ("/global", "/task/a", "/task/b", "/spec/x"):
        plane.record(f"note of {ns} about kestrel", kind="fact", ns=ns)
    text = plane.pack("kestrel", task="a").text
    assert "/task/b" not in text
    assert all(ns in text for ns in ("/global", "/task/a", "/spec/x"))
