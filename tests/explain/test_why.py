"""The story of an event in a pack is true: in the block or not, where, and why not."""

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from checks_stories import busy, event_at, packed, reasons_counted, untrue
from jsonschema import Draft202012Validator

from memplane.errors import InputError, NotFoundError
from memplane.explain.why import retold, why
from memplane.upkeep import reports

ROOT = Path(__file__).parents[2]


def told(plane, seed: int, worlds: int, packs: int, events: int) -> int:
    """Random (pack, event) pairs whose stories are true; a plane takes several worlds in turn."""
    chance, done = random.Random(seed), 0
    for world in range(worlds):
        busy(plane, seed * 1000 + world, chance.choice([20, 120, 250]))
        for _ in range(packs):
            block, saved = packed(plane, chance)
            with retold(plane, saved, channel="private") as pack:
                assert pack.same
                for _ in range(events):
                    line = plane._log.line(chance.randint(1, plane.head().seq))
                    story = pack.story(line)
                    wrong = untrue(plane, block, saved, line.event, story)
                    assert not wrong, (wrong, saved.report["request"], "\n".join(story.lines()))
                    done += 1
    return done


def test_random_stories_are_true(plane):
    assert told(plane, 1, worlds=2, packs=2, events=10) == 40


@pytest.mark.long
def test_a_thousand_random_stories_are_true(plane):
    assert told(plane, 2, worlds=5, packs=20, events=10) == 1000


def omitted(block) -> Counter:
    """What a report counts of events: views and handles, which have no seq, and gaps are none."""
    found = Counter(block.report["omissions"]["counts"])
    found.subtract(one["reason"] for one in block.report["omissions"]["listed"] if not one["seq"])
    del found["gap"]
    return +found


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]
)
def test_the_reasons_of_all_events_together_are_those_that_the_report_counts(plane, seed):
    chance = random.Random(seed)
    busy(plane, seed, 260)
    for _ in range(3):
        block, saved = packed(plane, chance)
        assert reasons_counted(plane, saved) == omitted(block)


def test_being_watched_changes_no_byte_of_a_block(plane):
    busy(plane, 4, 120)
    chance = random.Random(4)
    for _ in range(6):
        block, saved = packed(plane, chance)
        with retold(plane, saved) as pack:
            assert pack.same
            assert pack.note == ""
        assert reports.read_report(block.report_path).report == saved.report


@pytest.fixture
def kept(plane):
    """A decision that was replaced, one that was forgotten, one whose time is over, one in force."""
    plane.record("we keep pg", kind="decision", key="db", id="old")
    plane.record("we drink tea", kind="decision", key="tea", id="tea")
    plane.record("we ship", kind="decision", id="ship", valid_until="2026-01-05T12:00:01Z")
    plane.record("we move to sqlite", kind="decision", key="db", id="new")
    plane.record("the api key rotates", kind="fact", id="high", sensitivity="high")
    plane.record("agent a alone", kind="fact", id="own", ns="/agent/a")
    plane.forget("tea", reason="nobody does")
    return plane


def saved_pack(plane, query="", **asked):
    return reports.read_report(plane.pack(query, save_report=True, **asked).report_path)


def story_of(plane, saved, given, **asked):
    (story,) = why(plane, saved, given, **asked).stories
    return story


def test_who_took_an_event_out_of_force_is_named(kept):
    saved = saved_pack(kept, "pg tea", now="2026-01-06T00:00:00Z")
    old, tea, ship = (story_of(kept, saved, id_) for id_ in ("old", "tea", "ship"))
    assert [(one.reason, one.by_id) for one in old.left_out] == [("superseded", "new")]
    assert [one.words() for one in old.held.gone] == [f"superseded by new (#{seq(kept, 'new')})"]
    assert old.held.memory == ("db", False)
    (reason,) = tea.left_out
    assert reason.reason == "forgotten"
    assert event_at(kept, reason.by_seq).kind == "forget"
    assert [one.reason for one in ship.left_out] == ["expired"]
    new = story_of(kept, saved, "new")
    assert (new.outcome, new.held.memory, new.held.ledgers) == (
        "placed", ("db", True), ("decisions",),
    )  # fmt: skip


def seq(plane, id_: str) -> int:
    return plane._log.find(id_).event.seq


def test_what_became_of_an_event_since_does_not_matter(kept):
    saved = saved_pack(kept, "sqlite")
    before = story_of(kept, saved, "new")
    kept.record("we move to duckdb", kind="decision", key="db")
    assert story_of(kept, saved, "new") == before
    later = kept.record("later", kind="decision").id
    story = story_of(kept, saved, later)
    assert (story.outcome, [one.reason for one in story.left_out]) == ("left_out", ["as_of"])


def refused(plane, saved, given, **asked) -> str:
    with pytest.raises(NotFoundError) as raised:
        why(plane, saved, given, **asked)
    return str(raised.value).replace(str(given), "X")


def test_who_may_not_see_an_event_learns_what_he_learns_of_none(kept):
    policy = kept.home / "policies" / "privacy.yaml"
    before = policy.read_text()
    saved = saved_pack(kept, "key", channel="public")
    assert saved.report["omissions"]["counts"]["sensitivity"] == 1
    hidden = refused(kept, saved, "high")
    assert hidden == refused(kept, saved, "nothing")
    assert hidden.endswith("for channel public; the pack left out for privacy: 1 sensitivity, 1 ns")
    assert refused(kept, saved, seq(kept, "high")) == refused(kept, saved, 999)
    assert refused(kept, saved, "own") == hidden
    told = story_of(kept, saved, "high", channel="private")
    assert [one.reason for one in told.left_out] == ["sensitivity"]
    private = saved_pack(kept, "key")
    assert story_of(kept, private, "high").outcome == "placed"
    assert refused(kept, private, "high", channel="public").startswith(
        "no event 'X' for channel pub"
    )
    mine = saved_pack(kept, "alone", agent="a")
    assert story_of(kept, mine, "own").outcome == "placed"
    assert refused(kept, mine, "own", channel="agent", agent="b").startswith(
        "no event 'X' for agent"
    )
    assert policy.read_text() == before


def test_of_all_that_is_hidden_nothing_is_told_and_nothing_named(plane):
    busy(plane, 8, 150)
    saved = saved_pack(plane, "parser retry timeout", channel="public", session="s1", budget=1500)
    hidden, answers, stories = set(), set(), []
    with retold(plane, saved) as pack:
        for line in plane._log.read():
            try:
                plane.event(line.event.seq, channel="public")
            except NotFoundError:
                hidden.add(line.event.id)
                with pytest.raises(NotFoundError) as raised:
                    pack.asked_about(line.event.id)
                answers.add(str(raised.value).replace(line.event.id, "X"))
            else:
                assert pack.asked_about(line.event.id) == (None, [line])
                stories.append(json.dumps(pack.story(line).as_json()))
    assert len(hidden) > 5
    assert answers == {refused(plane, saved, "nothing")}
    named = {word for story in stories for word in re.findall(r"e8-\d+", story)}
    assert named
    assert not named & hidden


def test_a_policy_of_today_hides_what_that_of_then_did_not(kept):
    saved = saved_pack(kept, "sqlite", channel="team")
    assert story_of(kept, saved, "new").outcome == "placed"
    privacy = kept.home / "policies" / "privacy.yaml"
    text = privacy.read_text()
    hiding = "team:    {suppress_kinds: [decision], "
    privacy.write_text(text.replace("team:    {", hiding))
    assert kept.upkeep.policies.privacy.rule("team").suppress_kinds == ("decision",)
    assert refused(kept, saved, "new").startswith("no event 'X' for channel team")
    assert story_of(kept, saved, "new", channel="private").outcome == "placed"


def test_neither_id_nor_number_of_an_event_that_is_hidden_is_in_any_story(kept):
    kept.record("a new secret place", kind="decision", key="db", id="hidden", sensitivity="high")
    saved = saved_pack(kept, "sqlite", channel="public")
    story = story_of(kept, saved, "new")
    (reason,) = story.left_out
    assert (reason.reason, reason.by_id, reason.by_seq) == ("superseded", "", 0)
    assert reason.words() == "superseded: replaced by an event that is not for you"
    assert [one.words() for one in story.held.gone] == [
        "superseded by an event that is not for you"
    ]
    assert "hidden" not in str(story.as_json())
    assert f"#{seq(kept, 'hidden')}" not in "\n".join(story.lines())
    assert story_of(kept, saved, "new", channel="private").left_out[0].by_id == "hidden"


def test_an_entry_is_told_by_its_events(kept):
    (kept.home / "views" / "identity.md").write_text("You are the build agent.\n")
    saved = saved_pack(kept, "sqlite")
    for at, entry in enumerate(saved.report["entries"], 1):
        found = why(kept, saved, f"entry:{at}")
        assert found.entry["section"] == entry["section"]
        assert [story.id for story in found.stories] == [*entry["events"], *entry["parts"]]
        assert all(at in [place.entry for place in story.places] for story in found.stories)
    assert "no event stands in it" in list(why(kept, saved, "entry:1").lines())
    with pytest.raises(InputError, match="entry:1 for the first"):
        why(kept, saved, "entry:one")
    assert refused(kept, saved, "entry:99").startswith("no entry 99 for channel private")


def test_an_event_is_named_by_id_seq_or_number(kept):
    saved = saved_pack(kept, "sqlite")
    number = seq(kept, "new")
    stories = [story_of(kept, saved, one) for one in ("new", number, str(number), f"#{number}")]
    assert stories == stories[:1] * 4


def reason_of(plane, saved, id_: str) -> str:
    (reason,) = story_of(plane, saved, id_).left_out
    return reason.words()


def test_each_kind_of_reason_is_said_in_words(plane):
    plane.record("the heron stands in the reeds", role="user", session="far", id="first")
    for number in range(450):
        plane.record(f"turn {number} of the mill", role="assistant", session="far", id=f"t{number}")
    plane.record("where does the heron stand?", role="user", session="near", id="asks")
    plane.record("", kind="session", session="near", data={"status": "checkpoint"}, id="mark")
    fast = saved_pack(plane, "of the mill", intent="fast", session="far", budget=2000)
    assert reason_of(plane, fast, "t0") == (
        "older: of its session the last 100 turns are at hand, it came before"
    )
    assert reason_of(plane, fast, "mark").startswith("never_shown: events of kind session")
    asked = {"sections": ["retrieved_evidence"], "budget": 2000}
    deep = saved_pack(plane, "where does the heron stand?", **asked)
    assert story_of(plane, deep, "first").outcome == "placed"
    assert "query" in reason_of(plane, deep, "asks")
    assert reason_of(plane, deep, "t200").startswith("not_relevant")
    without = saved_pack(plane, "heron", exclude=["first"], budget=2000)
    assert reason_of(plane, without, "first") == "excluded: the request excludes it"
    late = saved_pack(plane, "heron", since="2026-06-01T00:00:00Z", budget=2000)
    assert reason_of(plane, late, "first").startswith("time: ")
    rules = saved_pack(plane, "heron", sections=["rules"], budget=2000)
    assert reason_of(plane, rules, "first").startswith("section: the request asked for rules alone")


def test_words_and_json_say_the_same(plane):
    busy(plane, 5, 200)
    chance = random.Random(5)
    _, saved = packed(plane, chance)
    with retold(plane, saved, channel="private") as pack:
        for line in plane._log.read():
            story = pack.story(line)
            fields, words = story.as_json(), "\n".join(story.lines())
            assert fields["id"] in words
            for reason in fields["left_out"]:
                assert reason["reason"] in words
            for place in fields["places"]:
                assert f"entry {place['entry']}: {place['section']}" in words
            if fields["score"]:
                assert f"rank {fields['score']['rank']} of {fields['score']['of']}" in words


def test_stories_are_what_their_schema_says(plane):
    schema = json.loads((ROOT / "schemas" / "why.schema.json").read_text())
    valid = Draft202012Validator(schema)
    busy(plane, 6, 150)
    _, saved = packed(plane, random.Random(6))
    for given in range(1, plane.head().seq, 20):
        valid.validate(why(plane, saved, given, channel="private").as_json())
    valid.validate(why(plane, saved, "entry:1").as_json())


def test_a_pack_that_cannot_be_made_again_says_what_is_lost(kept):
    saved = saved_pack(kept, "sqlite")
    reports.kept_bytes_path(kept.home, saved.report["policies"]["budgets.yaml"]).unlink()
    with pytest.raises(NotFoundError, match=r"cannot be made again: policy policies/budgets\.yaml"):
        why(kept, saved, "new")
