"""The contract of `memplane.ports.Embedder`, on every embedder that is there."""

from pathlib import Path

import numpy as np
import pytest

import memplane.index
from memplane.adapters.minilm import MiniLM
from memplane.errors import MissingExtraError
from memplane.index.vectors import StaticTable, signed_bytes
from memplane.ports import Embedder

TEXTS = ["We keep PostgreSQL", "", "the", "naïve 東京 parse_url()", "word " * 600]


class Letters:
    """Counts the letters a to h."""

    name = "letters"
    dimension = 8

    def embed(self, texts):
        return [signed_bytes([text.count(letter) for letter in "abcdefgh"]) for text in texts]


def static():
    return StaticTable((Path(memplane.index.__file__).parent / "data" / "static.i8").read_bytes())


def whole():
    try:
        return MiniLM()
    except MissingExtraError:
        pytest.skip("no package with the weights of MiniLM is installed")


@pytest.fixture(scope="module", params=[Letters, static, whole])
def embedder(request) -> Embedder:
    return request.param()


def test_a_text_gives_as_many_signed_bytes_as_the_embedder_says(embedder):
    for vector in embedder.embed(TEXTS):
        assert len(vector) == embedder.dimension
        assert np.abs(np.frombuffer(vector, np.int8).astype(int)).max() in {0, 127}


def test_no_texts_give_no_vectors(embedder):
    assert list(embedder.embed([])) == []


def test_a_vector_does_not_depend_on_the_texts_it_is_given_with(embedder):
    assert list(embedder.embed(TEXTS)) == [embedder.embed([text])[0] for text in TEXTS]


def test_it_has_a_name_of_its_own(embedder):
    assert embedder.name
    assert embedder.name.isprintable()
