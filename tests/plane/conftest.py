"""This folder on the path, for `searching` and others; files to add, and a plane of everything."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from exports import SEED, fill, made, with_files


@pytest.fixture
def file(tmp_path):
    """A file to add, by its name and what it says."""

    def file(name="report.md", data="# Herons\n\nThey nest in trees.\n"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return file


@pytest.fixture
def filled(tmp_path):
    """The home of a plane with something of everything, in short segments."""
    home = tmp_path / "filled"
    with made(home) as plane:
        fill(plane, random.Random(SEED))
        with_files(plane, tmp_path)
        fill(plane, random.Random(SEED + 1), 10)
    return home
