"""The same bits whatever the CPU can do: numpy picks its loops by the features it finds."""

import os
import subprocess
import sys
from pathlib import Path

from numpy._core import _multiarray_umath as numpy_core

BITS = """
import hashlib, sys
sys.path[:0] = [{tests!r}, {root!r}]
from builders_documents import made_up
from memplane.index import segment, terms
from memplane.index.store import SegmentedIndex
index = SegmentedIndex()
index.add_many(made_up(2500))
index.settle()
digest = hashlib.sha256(b"".join(segment.encode_segment(b, 0, 1) for b in index.blocks()[:1]))
for text in ("guitar ledger migration", "pool.py Tokyo3 parse_http_url", "데이터베이스 May 1,200"):
    for column in index.view().match(terms.query(text)):
        digest.update(column.tobytes())
print(digest.hexdigest())
"""

SEARCHES = """
import sys, tempfile
from pathlib import Path
sys.path[:0] = [{tests!r}, {root!r}]
from builders_documents import zipf
from memplane.index import terms
from memplane.index.ranking import Columns
from memplane.index.ranking import RankingQuery, Ranking, rank
from memplane.index.reader import SavedIndexReader
from memplane.index.store import SegmentedIndex
with tempfile.TemporaryDirectory() as folder:
    index = SegmentedIndex(Path(folder))
    documents = zipf(3000)
    index.add_many(documents)
    assert index.save(3000)
    frame, reader = Columns().frame(index.view()), SavedIndexReader(Path(folder))
    for number in range(0, 3000, 100):
        query = terms.query(" ".join(documents[number].text.split()[:6]))
        hits = index.view().hits(query, 20)
        assert reader.hits(query, 20) == hits
        asked = RankingQuery(first_person=number % 3 == 0, broad=number % 7 == 0)
        found = rank(index.view().match(query), frame, asked, Ranking(), most=50)
        print([tuple(hit) for hit in hits], *(column.tolist() for column in found))
"""

# What the environment says when numpy is loaded, by the first pack of a process, and afterwards.
LOADED = """
import os, sys, tempfile
import memplane
SPIN = "OPENBLAS_THREAD_TIMEOUT"
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get(SPIN), os.environ.get("OPENBLAS_NUM_THREADS"))
sys.meta_path.insert(0, Watch())
with tempfile.TemporaryDirectory() as folder:
    with memplane.init(folder) as plane:
        plane.record("The ledger moved to port 7443.", role="user")
        assert "7443" in plane.pack("Which port has the ledger?", intent="deep").text
print(os.environ.get(SPIN))
"""


def run(script, **environment):
    here = Path(__file__)
    script = script.format(tests=str(here.parent), root=str(here.parents[2]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def everything_off():
    """Name every feature that numpy found here and can do without."""
    there = numpy_core.__cpu_features__
    return " ".join(name for name in numpy_core.__cpu_dispatch__ if there.get(name))


def test_segments_and_scores_are_the_same_bits_under_another_cpu_dispatch_and_hash_seed():
    plain = run(BITS, PYTHONHASHSEED="1")
    assert plain == run(BITS, PYTHONHASHSEED="2", NPY_DISABLE_CPU_FEATURES=everything_off())


def test_searches_give_the_same_integers_under_another_cpu_dispatch():
    plain = run(SEARCHES)
    assert plain.count("\n") == 30
    assert plain == run(SEARCHES, NPY_DISABLE_CPU_FEATURES=everything_off())


def test_numpy_is_loaded_with_threads_that_sleep_and_the_environment_is_as_before():
    here = {"OPENBLAS_NUM_THREADS": "3", "OPENBLAS_THREAD_TIMEOUT": "9"}
    assert run(LOADED, **here).split() == ["9", "3", "9"]
    without = {name: text for name, text in os.environ.items() if name not in here}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=without, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["4", "None", "None"]
