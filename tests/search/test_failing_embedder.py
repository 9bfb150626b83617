"""An embedder that fails takes nothing away but itself: packs and searches answer by words."""

import json
from pathlib import Path

import jsonschema
import pytest
from builders_vectors import NOW, ODD, again, found, packed, plane_of_lines
from fakes_embedder import Anagrams

import memplane
from memplane.errors import PlaneError
from memplane.explain.replay import replay_pack
from memplane.upkeep import reports

SCHEMA = Path(memplane.__file__).parents[1] / "schemas/report.schema.json"


class Unplugged(Anagrams):
    """Reaches its model no more; `left` times it still did."""

    left = 0

    def embed(self, texts):
        if self.left:
            self.left -= 1
            return super().embed(texts)
        raise ConnectionError("https://user:Zk29Xm4Qp7LwVb@host/embed does not answer")


class Short(Anagrams):
    def embed(self, texts):
        return [vector[1:] for vector in super().embed(texts)]


@pytest.fixture
def plane(tmp_path):
    with plane_of_lines(tmp_path / "p") as plane:
        plane.upkeep.embed()
        yield plane


@pytest.mark.parametrize("embedder", [Unplugged, Short])
@pytest.mark.parametrize("query", [ODD, "herons ledger"])
def test_a_pack_is_made_by_words_and_its_report_says_so(plane, embedder, query):
    with again(plane, embedder=embedder()) as other:
        block = packed(other, query)
    error = "ConnectionError" if embedder is Unplugged else "InputError"
    assert block.report["degraded"] == [f"embedder: {error}"]
    assert block.report["request"]["dense_seq"] == 0
    assert block.text == packed(plane, query, dense_seq=0).text
    jsonschema.validate(block.report, json.loads(SCHEMA.read_text()))
    assert "degraded" not in packed(plane, query).report


def test_a_search_answers_by_words(plane):
    with again(plane, embedder=Unplugged()) as other:
        assert found(other, "herons") == found(plane, "herons", dense_seq=0) != []
        assert found(other, ODD) == found(plane, ODD, dense_seq=0)
        assert "herons" not in found(other, ODD)


def test_a_saved_report_is_replayed_to_the_same_bytes_with_and_without_the_embedder(plane):
    with again(plane, embedder=Unplugged()) as other:
        block = packed(other, f"{ODD} ledger", save_report=True)
        saved = reports.find_report(other.home, "last")
        assert saved.report["degraded"] == ["embedder: ConnectionError"]
        assert replay_pack(other, saved).same
    assert replay_pack(plane, saved).same
    assert replay_pack(plane, saved).block.text == block.text


def test_one_that_fails_half_way_through_a_pack_has_no_part_in_it(plane):
    plane.record(ODD, role="user", session="s1", ts=NOW)
    asked = {"session": "s1", "budget": 3_000}
    for left in range(3):
        embedder = Unplugged()
        embedder.left = left
        with again(plane, embedder=embedder) as other:
            block = packed(other, "storks of the canal", **asked)
        if "degraded" in block.report:
            assert block.text == packed(plane, "storks of the canal", dense_seq=0, **asked).text
        else:
            assert block.text == packed(plane, "storks of the canal", **asked).text


def test_a_search_by_vectors_alone_says_what_failed_without_the_secrets_in_it(plane):
    with again(plane, embedder=Unplugged()) as other, pytest.raises(PlaneError) as caught:
        other.search("herons", similar=True)
    said = str(caught.value)
    assert "failed (ConnectionError: " in said
    assert "Zk29Xm4Qp7LwVb" not in said


def test_recording_and_fast_packs_do_not_ask_the_embedder(plane):
    with again(plane, embedder=Unplugged()) as other:
        other.record("one more line")
        assert "degraded" not in packed(other, "", intent="fast").report
