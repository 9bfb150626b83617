"""Planes with an adapter over them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from transcripts import Store, fold


@pytest.fixture
def store(plane):
    with Store(plane, fold=fold) as opened:
        yield opened
