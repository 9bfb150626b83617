"""Surroundings that differ from machine to machine: the same plane answers with the same bytes.

Who attacks: nobody; but what a block says may be looked up, cached by a provider and replayed, so
nothing outside of the log, the policies, the views and the request may show in it.

What is promised: blocks, entries, omissions, searches and values are the same under every hash
seed, locale, zone, umask, CPU, level of optimisation and counter that is or is not installed, in a
copy, after a rebuild, with and without caches, and in a plane that was restored.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import memplane

ASKING = """
import hashlib, json, os, random, sys
os.umask(int(sys.argv[4], 8))
if sys.argv[5] == "no exact counts":
    sys.modules["rs_bpe"] = None
import memplane
from memplane.errors import MemplaneError
QUERIES = ["", "herons nest", "which database do we keep?", "лес и дождь", "データベース", "deploy", "k3"]
chance = random.Random(7)
found = []
with memplane.open(sys.argv[1], read_only=sys.argv[3] == "read") as plane:
    for number in range(int(sys.argv[2])):
        asked = {
            "query": chance.choice(QUERIES), "budget": chance.choice([60, 300, 1500, 6000, 40000]),
            "intent": chance.choice(["auto", "fast", "deep", "orient"]),
            "channel": chance.choice(["private", "agent", "public"]),
            "session": chance.choice([None, "s0", "s1"]), "now": "2027-03-01T00:00:00Z",
        }
        if chance.random() < 0.3:
            asked["as_of"] = chance.randrange(50, 380)
        if chance.random() < 0.2:
            asked["cited"] = True
        block = plane.pack(**asked)
        found.append(repr((block.text, block.tokens, block.entries, block.omissions)))
    for query in QUERIES[1:]:
        found.append(repr(plane.search(query, now="2027-03-01T00:00:00Z")))
    for key in ("k1", "k3"):
        found.append(repr((plane.get(key), plane.history(key))))
    found.append(repr((plane.work.decisions(), plane.keys(""))))
print(json.dumps([hashlib.sha256(one.encode()).hexdigest()[:16] for one in found]))
"""


def rows():
    words = (
        "herons nest lake database ledger deploy storks лес дождь データベース ink cranes".split()
    )
    made = []
    for number in range(390):
        said = " ".join(
            words[(number * step + step) % len(words)] for step in range(1, 6 + number % 9)
        )
        row = {"text": f"{said} {number}", "id": f"e{number}", "session": f"s{number % 4}"}
        row |= {"role": ("user", "assistant")[number % 2]}
        if number % 7 == 0:
            row |= {"kind": "decision", "key": f"k{number % 5}"}
        if number % 31 == 0:
            row |= {"sensitivity": "high"}
        made.append(row)
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes") / "plane"
    with memplane.init(folder) as plane:
        plane.record_many(rows())
        plane.work.tasks.open("birds", "count the herons")
        plane.forget("k2")
        plane.upkeep.rebuild()
        plane.upkeep.index()
    return folder


def cpu_features():
    return " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"])


# Name: variables, options of the interpreter, umask, what is not installed.
SURROUNDINGS = {
    "hash seed 1": ({"PYTHONHASHSEED": "1"}, (), "022", ""),
    "LC_ALL C": ({"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"}, (), "022", ""),
    "LC_ALL Turkish": ({"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}, (), "022", ""),
    "zone": ({"TZ": "Pacific/Chatham"}, (), "022", ""),
    "umask 0": ({}, (), "000", ""),
    "umask 777": ({}, (), "777", ""),
    "no CPU features": ({"NPY_DISABLE_CPU_FEATURES": cpu_features()}, (), "022", ""),
    "another BLAS kernel": ({"OPENBLAS_CORETYPE": "Nehalem"}, (), "022", ""),
    "one thread": ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, (), "022", ""),
    "optimised": ({}, ("-OO",), "022", ""),
    "development": ({}, ("-X", "dev"), "022", ""),
    "no exact counts": ({}, (), "022", "no exact counts"),
}
STATES = {
    "a copy": "",
    "without caches": "rm -rf projections index reports",
    "the index alone": "rm -rf projections reports",
    "without index": "rm -rf index",
    "rebuilt": "rebuilt",
    "restored": "restored",
}


def asked(home, count, name="hash seed 1", folder=None):
    variables, options, umask, without = SURROUNDINGS[name]
    env = {**os.environ, "PYTHONHASHSEED": "0", **variables}
    mode = "read" if umask == "777" else "write"  # what nobody may read can be no cache of ours
    script = ASKING.encode("ascii", "backslashreplace").decode()  # a C locale has no more letters
    argv = [sys.executable, *options, "-c", script, str(home), str(count), mode, umask, without]
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout)


def in_state(home, state, folder):
    """The plane in another state: a copy of it that something was done to."""
    copy = folder / "copy" / ".memplane"
    copy.parent.mkdir(parents=True)
    if state == "restored":
        with memplane.open(home, read_only=True) as plane:
            plane.upkeep.export(folder / "export")
        memplane.restore(folder / "export", copy)
        subprocess.run(["cp", "-a", home / "policies", copy], check=True)
        return copy
    subprocess.run(["cp", "-a", home, copy], check=True)
    if state == "rebuilt":
        with memplane.open(copy) as plane:
            plane.upkeep.rebuild()
    else:
        subprocess.run(["sh", "-c", STATES[state] or "true"], cwd=copy, check=True)
    return copy


def compared(home, folder, names, states, count):
    expected = asked(home, count, "zone" if "zone" not in names else "optimised")
    assert len(set(expected)) > len(expected) // 2, "the requests are too much alike"
    return [
        f"{name}: {sum(map(str.__ne__, found, expected))} of {len(expected)} answers differ"
        for name, found in (
            *((name, asked(home, count, name)) for name in names),
            *((name, asked(in_state(home, name, folder / name), count)) for name in states),
        )
        if found != expected
    ]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_answers_are_the_same_bytes_in_all_surroundings(home, tmp_path):
    assert compared(home, tmp_path, list(SURROUNDINGS), list(STATES), 120) == []
