"""`why` for other eyes than the pack was made for, and of what the log or the disk has lost."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import memplane
from memplane.errors import NotFoundError
from memplane.explain.why import UNTOLD, Why, why
from memplane.log.segments import body_path
from memplane.upkeep import reports

ROOT = Path(__file__).parents[2]


def saved_pack(plane, query="", **asked):
    return reports.read_report(plane.pack(query, save_report=True, **asked).report_path)


def story_of(plane, saved, given, **asked):
    (story,) = why(plane, saved, given, **asked).stories
    return story


def refused(plane, saved, given, **asked) -> str:
    with pytest.raises(NotFoundError) as raised:
        why(plane, saved, given, **asked)
    return str(raised.value)


@pytest.fixture
def kept(plane):
    plane.record("we keep pg", kind="decision", key="db", id="old")
    plane.record("we move to sqlite", kind="decision", key="db", id="new")
    plane.record("the api key rotates", kind="fact", id="high", sensitivity="high")
    return plane


def test_no_figure_of_a_story_told_to_other_eyes_depends_on_what_they_may_not_see(tmp_path, clock):
    schema = json.loads((ROOT / "schemas" / "why.schema.json").read_text())
    valid, told = Draft202012Validator(schema), []
    for extra in (0, 25):
        with memplane.init(tmp_path / f"p{extra}", durability="os", clock=clock) as plane:
            for n in range(12):
                plane.record(f"the parser keeps queue {n} " * 12, role="user", id=f"open{n}")
            saved_before = saved_pack(plane, "parser queue", channel="public", budget=600)
            for n in range(extra):
                plane.record(f"the parser queue secret plan {n}", kind="fact", sensitivity="high")
            saved = saved_pack(plane, "parser queue", budget=600)
            stories = [story_of(plane, saved, f"open{n}", channel="public") for n in range(12)]
            for story in stories:
                valid.validate(Why("r", True, "", None, (story,)).as_json())
                assert (story.scored, story.allocated) == (UNTOLD, ())
                assert all(one.entry == one.tokens == 0 for one in story.places)
                assert all(one.short_by == one.tokens == 0 for one in story.left_out)
                text = "\n".join(line for line in story.lines() if line[2:5] not in ("log", "pro"))
                assert not re.search(r"\d", text.partition("\n")[2]), text
            told.append([story.outcome for story in stories])
            own = story_of(plane, saved_before, "open11", channel="public")
            assert own.scored != UNTOLD
            mine = story_of(plane, saved, "open11", channel="private")
            assert mine.scored != UNTOLD
    assert told[0] != told[1]  # what is hidden did take room


def test_of_entries_only_who_made_the_pack_and_the_owner_are_told(kept):
    saved = saved_pack(kept, "sqlite", agent="a")
    assert why(kept, saved, "entry:1").entry["entry"] == 1
    assert why(kept, saved, "entry:1", channel="private").entry["entry"] == 1
    for eyes in ({"channel": "public"}, {"channel": "agent", "agent": "b"}):
        there, missing = refused(kept, saved, "entry:1", **eyes), refused(
            kept, saved, "entry:99", **eyes
        )  # fmt: skip
        assert there.replace("entry 1", "N") == missing.replace("entry 99", "N")
        assert "privacy" not in there


def test_an_event_of_a_damaged_line_is_one_that_the_log_cannot_give(kept):
    kept.record("the heron stands in the reeds", id="heron")
    kept.record("after it", id="after")
    number = kept.event("heron").seq
    saved = saved_pack(kept, "sqlite")
    kept.close()
    (path,) = (kept.home / "log").glob("*.jsonl")
    data = bytearray(path.read_bytes())
    data[data.index(b"heron stands")] ^= 1
    path.write_bytes(bytes(data))
    with memplane.open(kept.home) as plane:
        assert story_of(plane, saved, "after").id == "after"
        for given in (number, str(number), f"#{number}"):
            said = refused(plane, saved, given)
            assert said.startswith("the log cannot give event ")
            assert said.endswith("its line does not verify; see `memplane verify`")
        for given in ("heron", "nothing", 999):
            assert "parts of it do not verify; see `memplane verify`" in refused(
                plane, saved, given
            )
        hidden, none = (refused(plane, saved, one, channel="public") for one in (number, 999))
        assert hidden.replace(str(number), "N") == none.replace("999", "N")


def test_a_file_that_is_gone_is_said_once(plane, tmp_path):
    path = tmp_path / "report.md"
    path.write_text("the heron stands in the reeds\n")
    added = plane.work.artifacts.add(path)
    plane.work.artifacts.approve("report.md")
    Path(body_path(str(plane.home), added.facts.sha256)).unlink()
    saved = saved_pack(plane, "heron reeds")
    story = story_of(plane, saved, added.receipt.id)
    assert [one.words() for one in story.left_out] == ["changed: its file is gone or changed"]


def test_that_a_hidden_event_says_the_same_is_not_told(plane):
    plane.record("the heron nests behind the mill", role="user", id="open")
    plane.record("the heron nests behind the mill", kind="fact", id="closed", sensitivity="high")
    saved = saved_pack(plane, "where does the heron nest", sections=["retrieved_evidence"])
    (owner,) = story_of(plane, saved, "open").left_out
    assert (owner.reason, owner.by_id) == ("duplicate", "closed")
    story = story_of(plane, saved, "open", channel="public")
    assert [one.words() for one in story.left_out] == [
        "passed_over [retrieved_evidence]: the block shows something else"
    ]


def test_where_a_window_begins_is_told_to_who_made_the_pack_alone(plane):
    for n in range(80):
        plane.record(f"turn {n} of the mill " * 20, role="assistant", session="s", id=f"t{n}")
    plane.record("where does the heron stand?", role="user", session="s")
    saved = saved_pack(plane, session="s", intent="fast", budget=2000, sections=["recent_window"])
    (reason,) = story_of(plane, saved, "t0").left_out
    assert reason.words() == (
        f"older: older than the session's window, which begins at {reason.by_id} (#{reason.by_seq})"
    )
    (other,) = story_of(plane, saved, "t0", channel="public").left_out
    assert (other.words(), other.by_seq) == ("older: older than the session's window", 0)
