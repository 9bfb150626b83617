import random
import subprocess
import sys

import numpy as np
import pytest
from builders_documents import SPEAKERS, WORDS, document_lists, made_up, zipf
from hypothesis import given, settings, strategies as st

from memplane.index import reader, terms
from memplane.index.bm25 import BM25, Weights
from memplane.index.reader import SavedIndexReader
from memplane.index.store import SegmentedIndex


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read") / "index"
    index = SegmentedIndex(folder, plane="p")
    index.add_many(made_up(3000))
    assert index.save(3000, "mark")
    return folder


def test_the_reader_gives_the_integers_of_the_index_on_random_queries(folder):
    index, reader = SegmentedIndex(folder, plane="p"), SavedIndexReader(folder, plane="p")
    rng = random.Random(7)
    for number in range(400):
        text = " ".join(rng.choices(WORDS, k=rng.randrange(1, 7)))
        related = sorted(
            (terms.whole_term(rng.choice(WORDS)), rng.random()) for _ in range(number % 3)
        )
        query = terms.query(text)._replace(related=tuple(dict(related).items()))
        upto = rng.choice([None, rng.randrange(3200)])
        given = {"bm25": BM25(1.2, 0.75), "weights": Weights(0.3, 0.5, 0.4)} if number % 2 else {}
        assert reader.hits(query, 20, upto, **given) == index.view(upto).hits(query, 20, **given)


def test_hidden_events_are_not_found_and_stay_in_the_statistics(folder):
    reader = SavedIndexReader(folder, plane="p")
    query = terms.query("guitar Tokyo")
    every = reader.hits(query, 3000)
    hidden = {hit.seq for hit in every[::2]}
    assert reader.hits(query, 3000, hidden=hidden) == [h for h in every if h.seq not in hidden]


def test_the_reader_says_how_far_it_reaches_and_reads_texts(folder):
    reader = SavedIndexReader(folder, plane="p")
    assert (reader.count, reader.seq, reader.mark, reader.complete) == (3000, 3000, "mark", True)
    assert [reader.text(d.seq) for d in made_up(3000)[::500]] == [
        d.text for d in made_up(3000)[::500]
    ]
    assert SavedIndexReader(folder, plane="other").hits(terms.query("guitar"), 5) == []


def test_the_reader_imports_no_numpy():
    code = "import sys, memplane.index.reader; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """An index in which a frequent word stands in a third of the documents."""
    folder = tmp_path_factory.mktemp("large") / "index"
    index = SegmentedIndex(folder, plane="p")
    documents = zipf(15_000)
    index.add_many(documents)
    assert index.save(15_000)
    return (
        index,
        SavedIndexReader(folder, plane="p"),
        [document.text.split() for document in documents],
    )


def agree(large, queries, seed):
    """Ask both for words of one document, rare and frequent ones, and now and then of others."""
    index, reads, texts = large
    chance = random.Random(seed)
    for number in range(queries):
        words = chance.choice(texts)
        asked = chance.sample(words, min(len(words), chance.randint(1, 9)))
        asked += chance.choices(chance.choice(texts), k=number % 3)
        related = {
            terms.whole_term(word): chance.random() for word in chance.choices(words, k=number % 4)
        }
        query = terms.query(" ".join(asked))._replace(related=tuple(sorted(related.items())))
        upto = chance.choice([None, None, chance.randint(0, 15_000)])
        hidden = frozenset(chance.sample(range(15_000), 3000)) if number % 5 == 0 else frozenset()
        view = index.view(upto)
        masked = np.zeros(view.count, bool)
        masked[view.documents(hidden)] = True
        k = chance.choice([1, 3, 10, 10, 10, 40])
        found = reads.hits(query, k, upto, hidden)
        assert found == view.hits(query, k, masked), (asked, upto, k)


def test_the_reader_agrees_with_numpy_where_it_leaves_most_documents_out(large):
    agree(large, 150, seed=1)


@pytest.mark.parametrize("built", [True, False])
def test_words_alone_are_summed_by_the_kernel_to_the_same(large, monkeypatch, built):
    index, reads, texts = large
    if not built:
        monkeypatch.setattr(reader.kernel, "BUILT", None)
    chance = random.Random(3)
    for number in range(60):
        asked = chance.sample(words := chance.choice(texts), min(len(words), 1 + number % 8))
        query = terms.Query(words=terms.query(" ".join(asked)).words)
        upto = chance.choice([None, None, chance.randint(0, 15_000)])
        hidden = frozenset(chance.sample(range(15_000), 3000)) if number % 5 == 0 else frozenset()
        view = index.view(upto)
        masked = np.zeros(view.count, bool)
        masked[view.documents(hidden)] = True
        k = chance.choice([1, 3, 10, 40, 400])
        assert reads.hits(query, k, upto, hidden) == view.hits(query, k, masked), (asked, upto, k)


@pytest.mark.long
def test_the_reader_agrees_with_numpy_on_ten_thousand_queries(large):
    agree(large, 10_000, seed=2)


@settings(deadline=None)
@given(
    documents=document_lists(),
    words=st.lists(st.sampled_from((*WORDS, *SPEAKERS)), max_size=8),
    k=st.integers(0, 12),
    hidden=st.frozensets(st.integers(1, 40).map(lambda seq: seq * 3)),
    upto=st.none() | st.integers(0, 130),
)
def test_leaving_documents_out_never_changes_the_answer(
    documents, words, k, hidden, upto, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("any") / "index"
    index = SegmentedIndex(folder)
    index.add_many(documents)
    index.save(1)
    view, query = index.view(upto), terms.query(" ".join(words))
    masked = np.zeros(view.count, bool)
    masked[view.documents(hidden)] = True
    with pytest.MonkeyPatch.context() as patch:
        # As eager to leave documents out as it is in an index of a million.
        patch.setattr(reader, "_COSTLY", 0)
        patch.setattr(reader, "_FEW", 0)
        assert SavedIndexReader(folder).hits(query, k, upto, hidden) == view.hits(query, k, masked)


def test_of_frequent_words_only_the_documents_that_can_win_are_looked_at(large, monkeypatch):
    index, reads, texts = large
    postings = 0
    take = reader._Search.take

    def counted(search, term):
        nonlocal postings
        postings += term.size
        take(search, term)

    monkeypatch.setattr(reader._Search, "take", counted)
    queries = [terms.query(" ".join(words[:6])) for words in texts[::500] if len(words) > 6]
    every = 0
    for query in queries:
        reads.hits(query, 10)
        found = [term for field in query for term, _ in field]
        every += sum(index.view().counts(found))
    assert postings < every / 2


class Counted(list):
    def __init__(self, values):
        super().__init__(values)
        self.pages = set()

    def __getitem__(self, place):
        self.pages.add(place // 512)
        return super().__getitem__(place)


CHANCE = random.Random(5)
TERMS = Counted(sorted(CHANCE.getrandbits(64) for _ in range(300_000)))


@given(st.integers(0, 299_999), st.integers(-1, 1))
@settings(deadline=None)
def test_a_term_is_found_with_a_look_at_few_pages(place, off):
    known = TERMS[place] + off
    TERMS.pages.clear()
    at = reader._place(TERMS, known)
    assert at == (place if off == 0 else -1)
    assert len(TERMS.pages) <= 4


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=50), st.integers(0, 2**64 - 1))
def test_terms_are_found_however_they_are_spread(known, term):
    known = sorted(known)
    for wanted in (*known, term):
        assert reader._place(known, wanted) == (known.index(wanted) if wanted in known else -1)
