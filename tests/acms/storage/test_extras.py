"""Without what an extra brings a store says which extra it needs, and everything else goes on."""

import subprocess
import sys

import pytest

BARE = """
import asyncio, sys
for name in {hidden!r}:
    sys.modules[name] = None
from memplane.acms import ACMS
from memplane.acms.storage import ChromaBackend, InMemoryBackend, PostgresBackend, SQLiteBackend
from memplane.errors import MissingExtraError

async def main():
    async with InMemoryBackend() as rows, ACMS("s", rows) as session:
        await session.ingest("user", "x")
    try:
        async with {made}:
            pass
    except MissingExtraError as error:
        print(error.extra, str(error))

asyncio.run(main())
"""


@pytest.mark.parametrize(("extra", "hidden", "made"), [
    ("sqlite", ["aiosqlite", "sqlite_vec"], "SQLiteBackend('/nowhere/x.sqlite')"),
    ("postgres", ["asyncpg"], "PostgresBackend('postgresql://localhost/x')"),
    ("chroma", ["chromadb"], "ChromaBackend(None)"),
])  # fmt: skip
def test_a_store_whose_package_is_missing_names_its_extra(extra, hidden, made):
    code = BARE.format(hidden=hidden, made=made)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith(f"{extra} ")
    assert f"pip install 'memplane[{extra}]'" in done.stdout


def test_stores_import_no_package_before_they_are_opened():
    code = (
        "import sys, memplane.acms\n"
        "from memplane.acms.storage import *\n"
        "SQLiteBackend('x.sqlite'); PostgresBackend('postgresql://localhost/x')\n"
        "print([one for one in ('aiosqlite', 'sqlite_vec', 'asyncpg', 'chromadb') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
