"""Vectors in a request: a block is a function of what it asks, and nothing hidden is found."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from builders_vectors import (
    HERONS,
    NOW,
    ODD,
    again,
    files,
    found,
    packed,
    plane_of_lines,
    rows,
    written,
)
from fakes_embedder import Anagrams
from hypothesis import example, given, settings, strategies as st

import memplane
from memplane.errors import InputError
from memplane.index import storage
from tests.examples import examples


@pytest.fixture
def plane(tmp_path):
    with plane_of_lines(tmp_path / "plane") as plane:
        yield plane


# --- a pack is a function of its request ---


def test_a_report_names_the_seq_with_which_the_same_block_is_packed_again(plane):
    plane.upkeep.embed(50)
    then = packed(plane, f"{ODD} ledger")
    assert then.report["request"]["dense_seq"] == 51
    plane.upkeep.embed()
    asked = {**then.report["request"]}
    assert plane.pack(asked.pop("query"), **asked).text == then.text
    assert packed(plane, f"{ODD} ledger").report["request"]["dense_seq"] == 61
    assert packed(plane, f"{ODD} ledger", dense_seq=51).text == then.text


@settings(max_examples=examples(10))
@example(1, 1)  # the log's first event has no document
@example(1, 61)
@given(st.integers(0, 61), st.integers(0, 61))
def test_a_prefix_of_the_vectors_always_gives_what_it_gave_alone(shelf, upto, as_of):
    whole, parts = shelf
    asked = {"dense_seq": upto, "as_of": as_of, "now": NOW}
    short = parts(upto)
    assert found(whole, **asked) == found(short, as_of=as_of)
    block, other = packed(whole, **asked), packed(short, as_of=as_of)
    assert block.text == other.text
    assert block.report["request"] == other.report["request"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A plane with all of its vectors, and how to get the same one with those up to a seq."""
    folder = tmp_path_factory.mktemp("shelf")
    whole = memplane.init(folder / "whole", durability="os", embedder=Anagrams())
    whole.record_many([*rows(40), {"text": HERONS, "id": "herons", "ts": NOW}, *rows(19, 40)])
    written(whole, "scoring.yaml", "dense_least", 2)
    made = {}

    def parts(upto):
        if upto not in made:
            home = folder / f"{upto}"
            if not home.exists():
                shutil.copytree(whole.home, home, ignore=shutil.ignore_patterns("dense"))
            made[upto] = memplane.open(home, durability="os", embedder=Anagrams())
            if upto > 1:
                made[upto].upkeep.embed(upto - 1)
        return made[upto]

    whole.upkeep.embed()
    yield whole, parts
    for plane in (whole, *made.values()):
        plane.close()


def test_a_block_is_the_same_from_another_process_and_another_hash_seed(plane):
    plane.upkeep.embed()
    code = (
        "import sys, memplane; sys.path.insert(0, sys.argv[2]); from fakes_embedder import Anagrams\n"
        "with memplane.open(sys.argv[1], read_only=True, embedder=Anagrams()) as plane:\n"
        f"    block = plane.pack({ODD!r}, now={NOW!r}, budget=900, intent='deep')\n"
        "    sys.stdout.buffer.write(block.text.encode())\n"
    )
    expected = packed(plane).text.encode()
    for seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code, plane.home, Path(__file__).parent],
            check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.stdout == expected


def test_the_plane_of_a_prefix_uses_the_vectors_of_its_events_alone(plane):
    plane.upkeep.embed()
    with plane.at(30) as then:
        assert packed(then).report["request"]["dense_seq"] == 30
        assert "herons" not in found(then)
    with plane.at(45) as then:
        assert found(then)[0] == "herons"


def test_reports_with_a_dense_seq_keep_the_schema(plane):
    plane.upkeep.embed()
    schema = json.loads(
        (Path(memplane.__file__).parents[1] / "schemas/report.schema.json").read_text()
    )
    for block in (packed(plane), packed(plane, dense_seq=0), packed(plane, intent="fast")):
        jsonschema.validate(block.report, schema)


def test_without_an_embedder_a_block_says_nothing_of_vectors(plane):
    plane.upkeep.embed()
    with memplane.open(plane.home) as other:
        assert "dense_seq" not in packed(other).report["request"]
        assert found(other, "herons") == found(plane, "herons", dense_seq=0)
    written(plane, "scoring.yaml", "dense", 0)
    assert "dense_seq" not in packed(plane).report["request"]


@pytest.mark.parametrize("value", [-1, True, "5", 1.5])
def test_a_dense_seq_that_is_none_is_named(plane, value):
    for ask in (packed, found):
        with pytest.raises(InputError) as caught:
            ask(plane, dense_seq=value)
        assert caught.value.where == "dense_seq"


def test_evidence_of_a_prompt_stays_where_it_is_until_more_is_embedded(plane):
    plane.upkeep.embed()
    plane.record(ODD, role="user", session="s1", ts=NOW)
    before = packed(plane, "", session="s1", budget=3_000)
    assert HERONS in before.text
    plane.record("The herons nest there.", role="assistant", session="s1", ts=NOW)
    after = packed(plane, "", session="s1", budget=3_000)
    assert after.report["request"]["dense_seq"] == before.report["request"]["dense_seq"] == 61
    stable = before.report["prefix"]["stable_bytes"]["call"]
    assert stable > before.text.encode().index(HERONS.encode())
    assert after.text.encode()[:stable] == before.text.encode()[:stable]


# --- what may not be seen ---


@pytest.mark.parametrize(
    "fields",
    [
        {"sensitivity": "high"},
        {"sensitivity": "secret"},
        {"ns": "/agent/other"},
        {"valid_until": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_a_channel_may_not_see_is_not_found_by_its_vector(tmp_path, fields):
    with memplane.init(tmp_path / "plane", durability="os", embedder=Anagrams()) as plane:
        plane.record_many(rows(30))
        plane.record(HERONS, id="herons", ts=NOW, **fields)
        plane.upkeep.embed()
        assert "herons" not in found(plane, channel="agent")
        assert HERONS not in packed(plane, channel="agent").text


def test_what_is_forgotten_or_replaced_is_not_found_by_its_vector(plane):
    old = plane.record(HERONS, kind="fact", key="birds", id="old", ts=NOW)
    plane.upkeep.embed()
    assert {"herons", old.id} <= set(found(plane))
    plane.record("storks now", kind="fact", key="birds", ts=NOW)
    plane.forget(id="herons")
    assert not {"herons", "old"} & set(found(plane))
    assert HERONS not in packed(plane).text
    plane.unforget(id="herons")
    assert "herons" in found(plane)


def test_filters_are_for_vectors_too(plane):
    plane.record(HERONS, kind="fact", id="fact", ts=NOW)
    plane.upkeep.embed()
    assert found(plane, kind="fact") == ["fact"]
    assert "herons" not in found(plane, since="2026-03-02T00:00:00Z")


def test_of_what_is_erased_no_vector_stays(plane):
    plane.upkeep.embed()
    row = Anagrams().embed([HERONS])[0]
    assert row in files(plane.home)[storage.VECTORS_ROWS]
    plane.upkeep.purge("herons")
    assert row not in files(plane.home)[storage.VECTORS_ROWS]
    assert "herons" not in found(plane)
    assert plane.upkeep.embed() == 0
    with again(plane) as other:
        assert "herons" not in found(other)
        assert packed(other).report["request"]["dense_seq"] == 61


def test_vectors_that_an_erasure_did_not_reach_are_not_used_and_go_with_the_next_embedding(plane):
    plane.upkeep.embed()
    stale = files(plane.home)
    plane.upkeep.purge("herons")
    for name, data in stale.items():
        (plane.home / "index" / "dense" / name).write_bytes(data)
    assert "herons" not in found(plane)
    assert plane.upkeep.embed() == 0
    assert Anagrams().embed([HERONS])[0] not in files(plane.home)[storage.VECTORS_ROWS]
