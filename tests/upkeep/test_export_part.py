"""A part of a plane: what was asked for and may be shown, which any plane takes once."""

import json
import random
import shutil

import pytest
from builders_exports import clock, fill, made, opened
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import HomeError, InputError
from tests.examples import examples


def rows(path):
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["whole"] is False
    assert "end" in lines[-1]
    return lines[1:-1]


def test_a_part_holds_what_was_asked_for_as_the_owner_sees_it(filled, tmp_path):
    with opened(filled) as plane:
        for number, asked in enumerate(
            (
                {"kind": "decision"},
                {"session": "s1"},
                {"session": ["s1", "s2"]},
                {"ns": "/task/t1"},
                {"ns": ["/global", "/agent/a1"], "kind": ["message", "fact"]},
                {"since": "2026-01-05T12:00:00Z"},
                {"until": "2026-01-05T11:59:59Z"},
            )
        ):
            plane.upkeep.export(tmp_path / f"{number}.jsonl", **asked)
            several = {
                name: [value] if isinstance(value, str) else value for name, value in asked.items()
            }
            shown = [
                event
                for ns in several.get("ns", [None])
                for event in plane.events(ns=ns)
                if (ns is not None or not event.ns.startswith("/agent/"))
                and event.kind in several.get("kind", [event.kind])
                and event.session in several.get("session", [event.session])
                and event.kind not in ("segment", "forget", "pin")
                and "until" not in asked
                and (plane.work.archived(event) or ("",))[0] != "forgotten"
            ]
            found = rows(tmp_path / f"{number}.jsonl")
            assert [row["seq"] for row in found] == sorted(event.seq for event in shown), asked
            for row in found:
                event = plane.event(row["seq"])
                assert "h" not in row
                assert "dur" not in row
                assert row["id"] == event.id
                assert row.get("text", "") == plane.text(event)


def test_nothing_secret_and_nothing_forgotten_leaves_in_a_part_unless_secrets_are_asked_for(
    tmp_path,
):
    with made(tmp_path / "plane") as plane:
        plane.record("the hidden one", sensitivity="secret", id="hidden")
        plane.record("the gone one", kind="fact", key="gone", id="gone")
        plane.forget("gone")
        plane.record("for another", ns="/agent/a1")
        plane.record("the open one")
        report = plane.upkeep.export(tmp_path / "part.jsonl", redact=True)
        asked = plane.upkeep.export(tmp_path / "asked.jsonl", kind=["message", "fact"], secret=True)
        whole = plane.upkeep.export(tmp_path / "whole.jsonl")
    part = (tmp_path / "part.jsonl").read_bytes()
    assert [text in part for text in (b"hidden one", b"gone one", b"another", b"open")] == [
        False, False, False, True,
    ]  # fmt: skip
    assert report.withheld == {"hidden": 2, "forgotten": 1}
    assert asked.withheld == {"hidden": 1, "forgotten": 1}
    assert b"hidden one" in (tmp_path / "asked.jsonl").read_bytes()
    assert b"gone one" in (tmp_path / "whole.jsonl").read_bytes()
    assert whole.withheld == {}


def test_a_part_is_redacted_under_the_policies_of_today(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("the word is swordfish", data={"note": "swordfish"}, tags=["swordfish"])
        plane.record("named after it", session="swordfish")
        privacy = tmp_path / "plane" / "policies" / "privacy.yaml"
        text = privacy.read_text()
        assert "redact_patterns: [" in text
        privacy.write_text(text.replace("redact_patterns: [", 'redact_patterns: ["swordfish", ', 1))
        report = plane.upkeep.export(tmp_path / "part.jsonl", redact=True)
        assert plane.upkeep.policies.privacy.redact_patterns[0] == "swordfish"
    assert b"swordfish" not in (tmp_path / "part.jsonl").read_bytes()
    assert report.withheld == {"identifier": 1}
    assert [row["text"] for row in rows(tmp_path / "part.jsonl")] == [
        "the word is [redacted:policy-1]"
    ]


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 2**32), kinds=st.sets(st.sampled_from(("message", "fact", "decision"))))
def test_a_part_comes_into_any_plane_once(tmp_path_factory, seed, kinds):
    folder = tmp_path_factory.mktemp("part")
    with made(folder / "plane") as plane:
        fill(plane, random.Random(seed), 15)
        report = plane.upkeep.export(folder / "e.jsonl", kind=kinds or None, redact=True)
    with made(folder / "other") as plane:
        fill(plane, random.Random(seed + 1), 5)
    for home in (folder / "missing", folder / "other", folder / "plane"):
        first = memplane.restore(folder / "e.jsonl", home, clock=clock).merged
        again = memplane.restore(folder / "e.jsonl", home, clock=clock).merged
        assert first.recorded + first.repeated + first.refusals == report.events
        assert (again.recorded, again.refusals) == (0, first.refusals)
        if home == folder / "plane":
            assert first.recorded == 0
    shutil.rmtree(folder)


def test_a_long_text_stands_whole_in_a_part_and_comes_back_whole(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("long " * 250_000, kind="fact", id="long")
        plane.upkeep.export(tmp_path / "e.jsonl", kind="fact")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "other", clock=clock)
    with opened(tmp_path / "other") as plane:
        assert plane.text(plane.event("long")) == "long " * 250_000


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"kind": "desicion"}, "kind"),
        ({"since": "yesterday"}, "since"),
        ({"session": 7}, "session"),
        ({"secret": True}, "secret"),
    ],
)
def test_what_cannot_be_asked_for_is_named_and_no_file_is_made(filled, tmp_path, asked, where):
    with opened(filled) as plane, pytest.raises((InputError, TypeError)) as error:
        plane.upkeep.export(tmp_path / "e.jsonl", **asked)
    assert str(error.value).startswith(where)
    assert not (tmp_path / "e.jsonl").exists()


def test_the_plane_as_it_was_is_exported_in_parts_only(filled, tmp_path):
    with opened(filled) as plane:
        past = plane.at(5)
        with pytest.raises(HomeError, match="as of seq 5"):
            past.upkeep.export(tmp_path / "e.jsonl")
        report = past.upkeep.export(tmp_path / "p.jsonl", redact=True)
    assert report.seq == 5
    assert max(row["seq"] for row in rows(tmp_path / "p.jsonl")) <= 5
