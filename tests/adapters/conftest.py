"""Planes with an adapter over them."""

import pytest
from builders_transcripts import Store, fold


@pytest.fixture
def store(plane):
    with Store(plane, fold=fold) as opened:
        yield opened
