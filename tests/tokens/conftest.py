import sys
from pathlib import Path

import pytest

import memplane.tokens
from memplane.tokens import make

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))  # for `table_formats`

FILE = Path(memplane.tokens.__file__).with_name("bound1.xz")


@pytest.fixture(scope="session")
def table():
    packed = FILE.read_bytes()
    return lambda: packed


@pytest.fixture(scope="session")
def bound(table):
    return make("bound/1", table=table)


@pytest.fixture(scope="session")
def encodings():
    openai = pytest.importorskip("rs_bpe.bpe", reason="exact counts need rs-bpe").openai
    return {"o200k": openai.o200k_base(), "cl100k": openai.cl100k_base()}
