"""Random packs are the same bytes wherever and however they are made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from builders_planes import rows
from process_packs import answers

ASKING = Path(__file__).with_name("process_packs.py")


def elsewhere(home, seed: int, count: int, **variables: str) -> list[str]:
    """What another process answers."""
    command = [sys.executable, str(ASKING), str(home), str(seed), str(count)]
    env = {**os.environ, **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n").split("\n")


def other_dispatch() -> str:
    """Every CPU feature that numpy found here and can do without."""
    features = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return " ".join(features)


def log_bytes(home) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((home / "log").glob("*.jsonl"))}


def hold(plane, tmp_path, seed: int, count: int) -> None:
    plane.record_many(rows(21, 500))
    plane.flush()
    before = log_bytes(plane.home)
    here = list(answers(plane, seed, count))
    assert len(set(here)) > count // 4, "the requests are too much alike to show anything"
    without = other_dispatch()
    assert (
        elsewhere(plane.home, seed, count, NPY_DISABLE_CPU_FEATURES=without, PYTHONHASHSEED="1")
        == here
    )
    plane.upkeep.rebuild()
    assert list(answers(plane, seed, count)) == here
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(plane.home, copy)
    for cache in ("projections", "index"):
        shutil.rmtree(copy / cache)
    assert elsewhere(copy, seed, count, PYTHONHASHSEED="2", TZ="Asia/Tokyo") == here
    assert log_bytes(plane.home) == before == log_bytes(copy)


def test_random_packs_are_the_same_everywhere(plane, tmp_path):
    hold(plane, tmp_path, 1, 12)


def test_what_is_left_out_costs_the_same_whatever_was_packed_before(plane):
    """An event that nobody has counted yet is counted where it is named."""
    plane.record_many(rows(21, 500))
    asked = {"session": "s1", "budget": 30_000, "intent": "deep", "as_of": 258, "agent": "planner"}
    block = plane.pack(channel="private", now="2026-02-01T00:00:00Z", **asked)
    assert block.omissions
    assert [o for o in block.omissions if o.seq and not o.tokens] == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_random_packs_are_the_same_everywhere(plane, tmp_path, seed):
    hold(plane, tmp_path, 100 + seed, 1000)
