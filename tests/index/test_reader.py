import random
import subprocess
import sys

import pytest

from memplane.index import terms
from memplane.index.bm25 import BM25, Weights
from memplane.index.reader import Reader
from memplane.index.store import Index

from .shelf import WORDS, made_up


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read") / "index"
    index = Index(folder, plane="p")
    index.add_many(made_up(3000))
    assert index.save(3000, "mark")
    return folder


def test_the_reader_gives_the_integers_of_the_index_on_random_queries(folder):
    index, reader = Index(folder, plane="p"), Reader(folder, plane="p")
    rng = random.Random(7)
    for number in range(400):
        text = " ".join(rng.choices(WORDS, k=rng.randrange(1, 7)))
        related = sorted((terms.word(rng.choice(WORDS)), rng.random()) for _ in range(number % 3))
        query = terms.query(text)._replace(related=tuple(dict(related).items()))
        upto = rng.choice([None, rng.randrange(3200)])
        given = {"bm25": BM25(1.2, 0.75), "weights": Weights(0.3, 0.5, 0.4)} if number % 2 else {}
        assert reader.hits(query, 20, upto, **given) == index.view(upto).hits(query, 20, **given)


def test_hidden_events_are_not_found_and_stay_in_the_statistics(folder):
    reader = Reader(folder, plane="p")
    query = terms.query("guitar Tokyo")
    every = reader.hits(query, 3000)
    hidden = {hit.seq for hit in every[::2]}
    assert reader.hits(query, 3000, hidden=hidden) == [h for h in every if h.seq not in hidden]


def test_the_reader_says_how_far_it_reaches_and_reads_texts(folder):
    reader = Reader(folder, plane="p")
    assert (reader.count, reader.seq, reader.mark, reader.complete) == (3000, 3000, "mark", True)
    assert [reader.text(d.seq) for d in made_up(3000)[::500]] == [
        d.text for d in made_up(3000)[::500]
    ]
    assert Reader(folder, plane="other").hits(terms.query("guitar"), 5) == []


def test_the_reader_imports_no_numpy():
    code = "import sys, memplane.index.reader; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
