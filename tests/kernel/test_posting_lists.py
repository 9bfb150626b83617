"""The compiled kernel builds the postings that its twin in Python builds, over any documents."""

from array import array

import pytest
from hypothesis import given, settings, strategies as st

from memplane import kernel
from memplane.index import segment, storage
from memplane.index.segment import PostingLists, build_segment, encode_segment, word_traits
from memplane.index.terms import Document, TermVocabulary
from tests.examples import examples

pytestmark = pytest.mark.skipif(kernel.BUILT is None, reason="the kernel was not built")

TERMS = st.integers(1, 4) | st.integers(1, (1 << 64) - 1)
ATOMS = st.tuples(TERMS, st.just(0) | TERMS, st.booleans())
EMPTY = array("I", [0]), array("Q"), array("Q"), array("B")


@st.composite
def vocabularies(draw):
    """The columns of a vocabulary, and runs of its numbers."""
    words = draw(st.lists(st.lists(ATOMS, max_size=3), min_size=1, max_size=9))
    atoms = [atom for word in words for atom in word]
    starts = array("I", [sum(map(len, words[:at])) for at in range(len(words) + 1)])
    columns = (
        starts,
        array("Q", [atom[0] for atom in atoms]),
        array("Q", [atom[1] for atom in atoms]),
        array("B", [atom[2] for atom in atoms]),
    )
    run = st.lists(st.integers(0, len(words) - 1), max_size=12)
    return columns, draw(st.lists(st.tuples(run, run), max_size=6))


def lists_of(made, columns, documents, labels=()):
    runs = [run for both in documents for run in both]
    labels = [one for one in labels if one[1] < len(documents)]
    (terms, starts, docs, times), lengths = made.of(
        b"".join(array("I", run).tobytes() for run in runs),
        array("I", map(len, runs)).tobytes(),
        columns,
        array("Q", [term for term, _ in labels]).tobytes(),
        array("I", [doc for _, doc in labels]).tobytes(),
    )
    return tuple(
        array(code, bytes(column)).tolist()
        for code, column in zip("QIHBI", (terms, starts, docs, times, lengths), strict=True)
    )


@settings(max_examples=examples(1_000), deadline=None)
@given(vocabularies(), st.lists(st.tuples(TERMS, st.integers(0, 5)), max_size=20))
def test_the_same_postings_are_built(vocabulary, labels):
    columns, documents = vocabulary
    built = lists_of(kernel.BUILT.PostingLists(), columns, documents, labels)
    assert built == lists_of(PostingLists(), columns, documents, labels)


def test_a_term_that_occurs_more_often_than_a_byte_counts_is_counted_up_to_it():
    columns = array("I", [0, 1]), array("Q", [9]), array("Q", [0]), array("B", [0])
    documents = [([0] * 254, [0]), ([0] * 300, []), ([0], [])]
    for made in (kernel.BUILT.PostingLists(), PostingLists()):
        terms, starts, docs, times, lengths = lists_of(made, columns, documents)
        assert (terms, starts, docs, times) == ([9], [0, 3], [0, 1, 2], [255, 255, 1])
        assert lengths[:3] == [255, 300, 1]


@pytest.mark.parametrize("shift", [0, 20, 40, 62])
def test_many_terms_are_sorted_however_they_are_spread(shift):
    """All of them in one group, too: terms are spread evenly only as a rule."""
    words = [((at * 7919) % 20_011 + 1 << shift) & (1 << 64) - 1 or 1 for at in range(20_000)]
    columns = (
        array("I", range(len(words) + 1)),
        array("Q", words),
        array("Q", bytes(8 * len(words))),
        array("B", [1] * len(words)),
    )
    documents = [(range(begin, begin + 100), ()) for begin in range(0, len(words), 100)]
    built = lists_of(kernel.BUILT.PostingLists(), columns, documents)
    assert built == lists_of(PostingLists(), columns, documents)


@pytest.mark.parametrize(
    ("numbers", "lengths", "columns", "labels"),
    [
        ([0], [1], EMPTY, []),
        ([5], [1], (array("I", [0, 1]), array("Q", [1]), array("Q", [0]), array("B", [1])), []),
        ([0], [2], (array("I", [0, 1]), array("Q", [1]), array("Q", [0]), array("B", [1])), []),
        ([0], [1], (array("I", [0, 9]), array("Q", [1]), array("Q", [0]), array("B", [1])), []),
        ([0], [1], (array("I", [1, 0]), array("Q", [1]), array("Q", [0]), array("B", [1])), []),
        ([0], [1], (array("I", [0, 1]), array("Q", [1]), array("Q"), array("B", [1])), []),
        ([], [], EMPTY, [1]),
    ],
)
def test_what_lies_in_no_column_is_an_error(numbers, lengths, columns, labels):
    given_bytes = array("I", numbers).tobytes(), array("I", lengths).tobytes()
    with pytest.raises(ValueError, match="none of the columns"):
        kernel.BUILT.PostingLists().of(*given_bytes, columns, array("Q", labels), array("I"))


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.text("abcde 12_./é"), max_size=9))
def test_a_segment_has_the_same_bytes(texts):
    documents = [
        Document(at + 1, text=text, group=text[:1], labels=(f"kind:{text[:1]}", "ns:/global"))
        for at, text in enumerate(texts)
    ]

    def made():
        return encode_segment(build_segment(documents, 0, TermVocabulary(word_traits)), 0, 1)

    built = made()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "BUILT", None)
        patch.setattr(segment, "_LISTS", PostingLists())
        assert made() == built
    assert len(built) >= storage.HEADER_BYTES
