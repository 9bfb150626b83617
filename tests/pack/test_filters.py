"""Packs and searches by tag and importance: a part of the request, so of the report and of a replay."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

import memplane
from memplane.errors import InputError
from memplane.explain.replay import replay_pack
from memplane.upkeep import reports
from tests.examples import examples

TAGS = ("alpha", "beta", "gamma")


def fill(plane):
    plane.work.tasks.open("herons", "Count the herons", session="s1")
    for number, kind in enumerate(("fact", "decision", "message", "tool_result", "preference") * 4):
        tags = [TAGS[number % 3]] if number % 4 else [TAGS[number % 3], "Beta"]
        plane.record(
            f"heron {number} nests at place {number}", kind=kind, tags=tags, session="s1",
            importance=100 * (number % 10), key=f"k{number}" if kind in ("fact", "decision") else None,
            role="tool" if kind == "tool_result" else "user",
            data={"tool": "read", "path": f"src/{number}.py"} if kind == "tool_result" else {},
        )  # fmt: skip
    plane.record("heron without any tag", kind="fact")


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with memplane.init(tmp_path_factory.mktemp("f") / "p", trusted=False) as plane:
        fill(plane)
        yield plane


def shown(plane, block):
    ids = {id_ for entry in block.entries for id_ in (*entry.events, *entry.parts)}
    return [plane.event(id_) for id_ in sorted(ids)]


ASKED = st.fixed_dictionaries(
    {
        "query": st.sampled_from(("", "where do herons nest?", "heron 3")),
        "intent": st.sampled_from(("auto", "fast", "deep", "orient")),
        "budget": st.sampled_from((300, 1_200, 6_000)),
    },
    optional={
        "session": st.sampled_from(("s1", "other")),
        "tag": st.lists(st.sampled_from((*TAGS, "Alpha", "none")), max_size=2),
        "without_tag": st.lists(st.sampled_from(TAGS), max_size=2),
        "importance_min": st.sampled_from((0, 1, 300, 0.5, 1000)),
    },
)


@settings(max_examples=examples(24), deadline=None)
@given(asked=ASKED)
def test_every_event_of_a_block_is_what_the_filters_ask_for(plane, asked):
    least = asked.get("importance_min", 0)
    least = int(least * 1000) if isinstance(least, float) else least
    tags = {tag.lower() for tag in asked.get("tag", ())}
    without = set(asked.get("without_tag", ()))
    block = plane.pack(**asked)
    for event in shown(plane, block):
        own = {tag.lower() for tag in event.tags}
        assert not tags or own & tags
        assert not own & without
        assert event.importance >= least
    again = plane.pack(**asked, now=block.report["request"]["now"])
    assert again.text == block.text


def test_a_filter_leaves_what_it_asks_for_and_counts_the_rest_by_reason(plane):
    block = plane.pack("where do herons nest?", budget=8_000, tag="alpha")
    assert {event.seq for event in shown(plane, block)}
    counts = block.report["omissions"]["counts"]
    assert counts["tag"] > 0
    assert "importance" not in counts
    block = plane.pack("where do herons nest?", budget=8_000, importance_min=500)
    assert block.report["omissions"]["counts"]["importance"] > 0
    every = plane.pack("where do herons nest?", budget=8_000)
    assert "tag" not in every.report["omissions"]["counts"]
    for name in ("tag", "without_tag", "importance_min"):
        assert name not in every.report["request"]


def test_filters_stand_in_the_report_and_a_replay_gives_the_same_bytes(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        fill(plane)
        replayed(plane)


def replayed(plane):
    asked = {"tag": ["Alpha", "beta", "alpha"], "without_tag": "gamma", "importance_min": 0.2}
    block = plane.pack("heron", budget=3_000, session="s1", **asked, save_report=True)
    request = block.report["request"]
    assert request["tag"] == ["alpha", "beta"]
    assert request["without_tag"] == ["gamma"]
    assert request["importance_min"] == 200
    report = json.loads((plane.home / block.report_path).read_text())
    schema = json.loads(memplane.schema("report"))
    Draft202012Validator(schema).validate(report)
    plane.record("heron later", kind="fact", tags=["alpha"])
    again = replay_pack(plane, reports.find_report(plane.home, "last"))
    assert (again.same, again.block.text) == (True, block.text)
    assert block.text != plane.pack("heron", budget=3_000, session="s1").text


@settings(max_examples=examples(16), deadline=None)
@given(
    tag=st.lists(st.sampled_from(TAGS), max_size=2),
    without_tag=st.lists(st.sampled_from(TAGS), max_size=2),
    importance_min=st.sampled_from((None, 0, 300, 700)),
)
def test_a_search_finds_what_it_would_find_less_what_the_filters_leave_out(
    plane, tag, without_tag, importance_min
):
    asked = {"tag": tag, "without_tag": without_tag, "importance_min": importance_min}
    found = {hit.event.seq for hit in plane.search("heron", 100, **asked)}
    every = [hit.event for hit in plane.search("heron", 100)]
    assert found == {
        event.seq
        for event in every
        if (not tag or {t.lower() for t in event.tags} & set(tag))
        and not {t.lower() for t in event.tags} & set(without_tag)
        and event.importance >= (importance_min or 0)
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"importance_min": 1001}, "importance_min: "),
        ({"importance_min": -1}, "importance_min: "),
        ({"importance_min": "high"}, "importance_min: "),
        ({"tag": 3}, "tag: expected a list of texts"),
        ({"without_tag": [3]}, "without_tag: expected a list of texts"),
    ],
)
def test_filters_that_are_none_are_refused(plane, given, said):
    with pytest.raises(InputError, match=said):
        plane.pack("x", **given)


def test_a_task_digest_and_the_map_say_nothing_of_what_a_filter_leaves_out(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        plane.work.tasks.open("herons", "Count the herons", session="s1")
        for number in range(30):
            tag = "draft" if number % 2 else "final"
            plane.record(
                f"{tag}word{number}", kind="decision", tags=[tag], session="s1", task="herons"
            )
        block = plane.pack("where were we?", intent="orient", budget=6_000, without_tag="draft")
        assert "finalword" in block.text
        assert "draftword" not in block.text
        assert "draft" not in block.text
        only = plane.pack("where were we?", intent="orient", budget=6_000, tag="draft")
        assert "draftword" in only.text
        assert "finalword" not in only.text
        assert "Count the herons" not in only.text
