"""The same bits whatever the CPU can do: numpy picks its loops by the features it finds."""

import os
import subprocess
import sys
from pathlib import Path

from numpy._core import _multiarray_umath as numpy_core

SCRIPT = """
import hashlib, sys
sys.path[:0] = [{tests!r}, {root!r}]
from shelf import made_up
from memplane.index import segment, terms
from memplane.index.store import Index
index = Index()
index.add_many(made_up(2500))
index.settle()
digest = hashlib.sha256(b"".join(segment.encode(b, 0, 1) for b in index.blocks()[:1]))
for text in ("guitar ledger migration", "pool.py Tokyo3 parse_http_url", "데이터베이스 May 1,200"):
    for column in index.view().match(terms.query(text)):
        digest.update(column.tobytes())
print(digest.hexdigest())
"""


def run(**environment):
    here = Path(__file__)
    script = SCRIPT.format(tests=str(here.parent), root=str(here.parents[2]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_segments_and_scores_are_the_same_bits_under_another_cpu_dispatch_and_hash_seed():
    there = numpy_core.__cpu_features__
    features = [name for name in numpy_core.__cpu_dispatch__ if there.get(name)]
    plain = run(PYTHONHASHSEED="1")
    assert plain == run(PYTHONHASHSEED="2", NPY_DISABLE_CPU_FEATURES=" ".join(features))
