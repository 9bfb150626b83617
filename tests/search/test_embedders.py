"""Embedders: named by a policy, offered by packages, and what becomes of one that fails."""

from importlib import metadata

import pytest
from builders_vectors import (
    HERONS,
    NOW,
    again,
    found,
    is_there,
    packed,
    plane_of_lines,
    rows,
    written,
)
from fakes_embedder import Anagrams

import memplane
from memplane import wiring
from memplane.adapters import minilm
from memplane.errors import HomeError, InputError, MissingExtraError, ProviderError, WriteError
from memplane.index import storage
from memplane.index.reader import SavedIndexReader
from memplane.index.terms import query as analysed
from memplane.search import engines
from memplane.search.service import index_service


@pytest.fixture
def plane(tmp_path):
    with plane_of_lines(tmp_path / "plane") as plane:
        yield plane


def test_a_policy_names_the_embedder(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record_many(rows(30))
        with pytest.raises(InputError, match=r"index\.embedder: expected the name of an embedder"):
            plane.upkeep.embed()
        written(plane, "plane.yaml", "embedder", "static")
        assert plane.upkeep.embed() == 30
        assert packed(plane, "ledger").report["request"]["dense_seq"] == 31


def test_without_the_extra_the_error_names_it_and_nothing_else_suffers(tmp_path, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGES", (("no_such_package_of_weights", "model"),))
    wiring.find_embedder.cache_clear()
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        written(plane, "plane.yaml", "embedder", "all-MiniLM-L6-v2")
        plane.record(HERONS, id="herons", ts=NOW)
        with pytest.raises(MissingExtraError) as caught:
            plane.upkeep.embed()
        assert caught.value.extra == "dense"
        # Nobody has embedded anything: there is nothing to miss.
        assert found(plane, "herons") == ["herons"]
        assert packed(plane, "herons").report["request"]["dense_seq"] == 0


def test_where_vectors_are_and_the_extra_is_not_a_pack_says_so(plane, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGES", (("no_such_package_of_weights", "model"),))
    wiring.find_embedder.cache_clear()
    plane.upkeep.embed()
    written(plane, "plane.yaml", "embedder", "all-MiniLM-L6-v2")
    with memplane.open(plane.home) as other:
        with pytest.raises(MissingExtraError):
            packed(other)
        assert packed(other, dense_seq=0).report["request"]["dense_seq"] == 0
        assert packed(other, intent="fast").text


def test_an_unknown_name_is_an_error_that_names_the_known_ones(plane):
    written(plane, "plane.yaml", "embedder", "word2vec")
    with memplane.open(plane.home) as other, pytest.raises(InputError) as caught:
        other.upkeep.embed()
    assert "found: all-MiniLM-L6-v2, static" in str(caught.value)


def test_an_installed_package_may_offer_an_embedder(plane, monkeypatch):
    offered = metadata.EntryPoints(
        [metadata.EntryPoint("anagrams", "fakes_embedder:Anagrams", wiring.EMBEDDERS)]
    )
    monkeypatch.setattr(metadata, "entry_points", lambda group: offered.select(group=group))
    wiring.find_embedder.cache_clear()
    written(plane, "plane.yaml", "embedder", "anagrams")
    with memplane.open(plane.home) as other:
        assert other.upkeep.embed() == 60
        assert found(other)[0] == "herons"
    wiring.find_embedder.cache_clear()


class Short(Anagrams):
    def embed(self, texts):
        return [vector[:-1] for vector in super().embed(texts)]


class Few(Anagrams):
    def embed(self, texts):
        return super().embed(texts)[1:]


class Many(Anagrams):
    def embed(self, texts):
        return super().embed([*texts, "more"])


@pytest.mark.parametrize("embedder", [Short, Few, Many])
def test_an_embedder_that_gives_other_vectors_than_it_says_is_named(plane, embedder):
    with again(plane, embedder=embedder()) as other, pytest.raises(InputError) as caught:
        other.upkeep.embed()
    assert "expected a vector of 36 bytes" in str(caught.value)
    assert not is_there(plane.home)


class Unplugged(Anagrams):
    def embed(self, _texts):
        raise ConnectionError("nobody answers")


def test_what_an_embedder_raises_reaches_the_caller_as_a_provider_error(plane):
    """G10: one tree; what was raised is its cause."""
    with again(plane, embedder=Unplugged()) as other, pytest.raises(ProviderError) as caught:
        other.upkeep.embed()
    assert isinstance(caught.value.cause, ConnectionError)
    assert (caught.value.provider, caught.value.retryable) == ("anagrams/1", True)


def test_a_disk_that_refuses_is_an_error_that_names_the_folder(plane, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    plane.upkeep.embed(32)
    monkeypatch.setattr(storage.VectorAdder, "_put", full)
    with pytest.raises(WriteError, match=r"index/dense: .*No space left"):
        plane.upkeep.embed()
    monkeypatch.undo()
    assert plane.upkeep.embed() == 28


@pytest.mark.parametrize("limit", [0, -1, True, "many"])
def test_a_limit_that_is_none_is_named(plane, limit):
    with pytest.raises(InputError) as caught:
        plane.upkeep.embed(limit)
    assert caught.value.where == "limit"


def test_a_plane_that_is_only_read_embeds_nothing_and_uses_what_is_there(plane):
    with again(plane, read_only=True) as reading:
        with pytest.raises(HomeError):
            reading.upkeep.embed()
        with pytest.raises(HomeError):
            plane.at(20).upkeep.embed()
        plane.upkeep.embed()
        assert found(reading)[0] == "herons"


def test_the_reader_of_the_index_answers_the_same_beside_vectors(plane):
    plane.upkeep.index()
    kind = {
        "plane": plane.id,
        "variant": index_service(plane.context).index(plane.upkeep.policies).variant,
    }
    before = SavedIndexReader(plane.home / "index", **kind).hits(analysed("ledger parser"), 10)
    plane.upkeep.embed()
    assert (
        SavedIndexReader(plane.home / "index", **kind).hits(analysed("ledger parser"), 10) == before
    )
    assert before


def test_a_text_that_says_nothing_has_no_vector(plane):
    plane.record("", kind="tool_call", data={"tool": "herons"})
    plane.record("   ", kind="tool_result", role="tool")
    embedder = plane.context.embedder
    plane.upkeep.embed()
    assert all(text.strip() for text in embedder.given)
    assert engines.has_no_vectors(plane.context) is False


def test_minilm_finds_what_shares_no_word_where_its_weights_are_installed(tmp_path):
    try:
        minilm.find_weights()
    except MissingExtraError:
        pytest.skip("no package with the weights is installed")
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record_many(rows(20))
        plane.record("The kids adopted a puppy from the shelter", id="puppy", ts=NOW)
        written(plane, "plane.yaml", "embedder", "all-MiniLM-L6-v2")
        plane.upkeep.embed()
        assert found(plane, "which pet do they have?")[0] == "puppy"
