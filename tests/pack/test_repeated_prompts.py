"""A question that was put a thousand times: the log is not read a thousand times to say so."""

import random

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.search.indexing import KeptLines
from memplane.search.retriever import LogRetriever

ASKED = "Run the tests of the billing export again and commit if they pass."
NOW = "2027-01-01T00:00:00Z"


def packed(home, **request):
    """The block, and its report without what differs from run to run."""
    with memplane.open(home) as plane:
        block = plane.pack(ASKED, intent="deep", now=NOW, **request)
        report = {name: said for name, said in block.report.items() if name != "timings_ns"}
    report.pop("io", None)
    return block.text, report


@pytest.mark.parametrize("budget", [300, 2_000])
def test_older_ones_are_told_without_a_look_at_their_lines(tmp_path, monkeypatch, budget):
    with memplane.init(tmp_path / "p") as plane:
        plane.record_many({"text": ASKED, "role": "user", "session": f"s{n}"} for n in range(300))
        plane.record_many(
            {"text": f"boat {n} lies in the harbour", "role": "user"} for n in range(600)
        )
    looked = set()
    line = KeptLines.line
    monkeypatch.setattr(KeptLines, "line", lambda of, seq: looked.add(seq) or line(of, seq))
    text, report = packed(tmp_path / "p", budget=budget)
    assert len(looked) <= 104  # the ids of those that a report lists
    assert text.count(ASKED) == 1
    assert report["omissions"]["counts"]["duplicate"] == 299
    looked.clear()
    monkeypatch.setattr(LogRetriever, "prompt", lambda _self, _doc: None)
    assert packed(tmp_path / "p", budget=budget) == (text, report)
    assert len(looked) > 250


def test_of_marked_turns_the_report_lists_those_that_were_read(tmp_path, monkeypatch):
    with memplane.init(tmp_path / "p") as plane:
        plane.record_many(
            {"text": ASKED, "role": "user", "session": f"s{n}", "markers": ["constraint"]}
            for n in range(120)
        )
        plane.record_many({"text": f"boat {n} is in", "role": "user"} for n in range(600))
    found = packed(tmp_path / "p", budget=2_000)
    monkeypatch.setattr(LogRetriever, "prompt", lambda _self, _doc: None)
    assert packed(tmp_path / "p", budget=2_000) == found


TEXTS = (
    ASKED,
    ASKED.lower(),
    "Run the tests.",
    f"{ASKED}\nThe export of billing has two callers, and both of them commit.",
    f"{ASKED} {'The export of the billing job runs at night, and its tests do not. ' * 30}",
    f"{ASKED} {'The export of billing runs at night, its tests do not. ' * 12}",
    "Commit the billing export if the tests pass again. Run them on Friday.",
)
KINDS = (
    {"role": "user"},
    {"role": "user", "actor": "Ana"},
    {"role": "user", "markers": ["constraint"]},
    {"role": "user", "markers": ["custom:instruction"]},
    {"role": "user", "sensitivity": "high"},
    {"role": "user", "kind": "fact", "key": "tests"},
    {"role": "user", "kind": "decision"},
    {"role": "assistant"},
    {"role": "assistant", "kind": "insight"},
    {"role": "tool", "kind": "tool_result", "data": {"tool": "Bash"}},
)


def test_a_prompt_is_all_of_a_users_turn(tmp_path, monkeypatch):
    seen, find = [], LogRetriever.find

    def finding(retriever, *asked, **named):
        result = find(retriever, *asked, **named)
        seen.extend((row.seq, retriever.prompt(row.doc)) for row in result.found)
        return result

    monkeypatch.setattr(LogRetriever, "find", finding)
    with memplane.init(tmp_path / "p") as plane:
        for kind in KINDS:
            for text in TEXTS:
                plane.record(text, **kind)
        plane.pack(ASKED, intent="deep", budget=6_000)
        assert len({seq for seq, _ in seen}) > len(KINDS)
        for seq, prompt in seen:
            event = plane.event(seq)
            whole = event.role == "user" and event.kind == "message" and len(event.text) < 1_600
            assert prompt == (event.text if whole else None)


@given(st.integers(0, 1 << 32), st.sampled_from([250, 700, 2_000, 6_000]), st.booleans())
def test_a_pack_is_what_it_would_be_by_the_lines(tmp_path_factory, seed, budget, few):
    chance = random.Random(seed)
    home = tmp_path_factory.mktemp("planes") / "p"
    rows = [
        {
            "text": chance.choice(TEXTS),
            "session": f"s{chance.randrange(6)}",
            **chance.choice(KINDS[: 3 if few else None]),
        }
        for _ in range(chance.randrange(2, 120))
    ]
    with memplane.init(home) as plane:
        ids = [plane.record(**row).id for row in rows]
        for id_ in chance.sample(ids, min(3, len(ids))):
            chance.choice([lambda one: plane.forget(id=one), plane.pin])(id_)
        plane.record_many(
            {"text": f"boat {n}", "role": "user"} for n in range(chance.randrange(90))
        )
    given_ = packed(home, budget=budget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogRetriever, "prompt", lambda _self, _doc: None)
        assert packed(home, budget=budget) == given_
