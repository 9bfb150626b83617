"""Search by vectors alone: the nearest first, of nothing hidden, with the embedder or without."""

import pytest
from builders_vectors import HERONS, NOW, ODD, again, plane_of_lines
from fakes_embedder import Anagrams
from hypothesis import given, settings, strategies as st

import memplane
from memplane.index import storage
from memplane.index.vectors import MILLION, cosines
from tests.examples import examples

SAID = st.text("abc ", min_size=1, max_size=12).filter(str.strip)  # blanks are no event
LINES = st.lists(SAID, min_size=1, max_size=12)


@pytest.fixture
def plane(tmp_path):
    with plane_of_lines(tmp_path / "plane") as plane:
        yield plane


@pytest.fixture
def plain(tmp_path):
    """A plane without an embedder."""
    with memplane.init(tmp_path / "plain", durability="os") as plane:
        plane.record("We adopted a puppy from the shelter", id="puppy", ts=NOW)
        plane.record("The parser fails on empty lines", id="parser", ts=NOW)
        yield plane


def found(plane, query, **asked):
    return [hit.event.id for hit in plane.search(query, similar=True, **{"now": NOW} | asked)]


def folders(plane):
    return {path.parent.name for path in plane.home.glob(f"index/*/{storage.VECTORS_HEADER}")}


def cosine(one, other):
    return int(cosines(signed(one), signed(other))[0, 0])


def signed(text):
    import numpy as np

    return np.frombuffer(Anagrams().embed([text])[0], np.int8).reshape(1, -1)


@settings(max_examples=examples(8))
@given(LINES, st.text("abc", min_size=1, max_size=6))
def test_hits_are_always_those_of_the_largest_cosines_and_scores_are_these(
    tmp_path_factory, lines, query
):
    home = tmp_path_factory.mktemp("lines") / "plane"
    with memplane.init(home, durability="os", embedder=Anagrams()) as plane:
        seqs = {plane.record(text).seq: text for text in lines}
        plane.upkeep.embed()
        hits = plane.search(query, 50, similar=True)
        figures = {seq: cosine(text, query) for seq, text in seqs.items() if text.strip()}
    assert [hit.event.seq for hit in hits] == sorted(
        (hit.event.seq for hit in hits), key=lambda seq: (-figures[seq] * 2**20 // MILLION, -seq)
    )
    assert all(abs(hit.score - figures[hit.event.seq] // 1000) <= 1 for hit in hits)
    if figures and max(figures.values()) > 1000:
        assert figures[hits[0].event.seq] == max(figures.values())


def test_an_embedder_s_vectors_are_used_as_far_as_they_reach_and_none_is_made(plane):
    assert found(plane, ODD) == []
    assert folders(plane) == set()
    plane.upkeep.embed(30)
    assert "herons" not in found(plane, ODD)
    plane.upkeep.embed()
    assert found(plane, ODD)[0] == "herons"
    assert "herons" not in found(plane, ODD, dense_seq=30)
    assert folders(plane) == {storage.DENSE_FOLDER}


def test_without_an_embedder_the_static_table_s_vectors_are_made_when_asked_for(plain):
    assert [hit.event.id for hit in plain.search("dog")][:1] != ["parser"]
    assert storage.STATIC_FOLDER not in folders(plain)
    assert found(plain, "dog")[0] == "puppy"
    assert storage.STATIC_FOLDER in folders(plain)
    plain.record("a kitten, two kittens", id="kitten", ts=NOW)
    assert found(plain, "cat")[0] == "kitten"
    assert "dense_seq" not in plain.pack("dog", now=NOW).report["request"]


def test_the_vectors_of_an_embedder_and_of_the_static_table_leave_each_other_alone(plane):
    plane.upkeep.embed()
    with memplane.open(plane.home, durability="os") as other:
        assert found(other, HERONS)[0] == "herons"
    assert plane.upkeep.embed() == 0
    with again(plane) as other:
        assert found(other, ODD)[0] == "herons"


def test_a_plane_that_is_only_read_searches_what_is_there(plain):
    with memplane.open(plain.home, read_only=True) as reading:
        assert found(reading, "dog") == []
        found(plain, "dog")
        assert found(reading, "dog")[0] == "puppy"
    with plain.at(2) as then:
        assert found(then, "parser") == found(plain, "parser", as_of=2)


def test_what_may_not_be_seen_is_not_found(plain):
    plain.record("Another puppy", id="high", sensitivity="high", ts=NOW)
    plain.record("A third puppy", id="gone", ts=NOW)
    plain.forget(id="gone")
    assert {"high", "gone"}.isdisjoint(found(plain, "puppy", channel="agent"))
    assert found(plain, "puppy", kind="decision") == []
    assert "puppy" not in found(plain, "puppy", since="2026-03-02T00:00:00Z")


def test_of_what_is_erased_no_static_vector_stays(plain):
    found(plain, "dog")
    rows = plain.home / "index" / storage.STATIC_FOLDER / storage.VECTORS_ROWS
    before = rows.read_bytes()
    plain.upkeep.purge("puppy")
    assert rows.read_bytes()[:256] == bytes(256) != before[:256]
    assert "puppy" not in found(plain, "dog")
