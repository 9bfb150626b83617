"""This folder on the path, for `searching` and others; files to add, and a plane of everything."""

import random
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import shelves
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


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    with made(folder / "filled") as plane:
        fill(plane, random.Random(SEED))
        with_files(plane, folder)
        fill(plane, random.Random(SEED + 1), 10)
    return folder


@pytest.fixture
def filled(tmp_path, filled_once):
    """The home of a plane with something of everything, in short segments; its files beside it."""
    shutil.copytree(filled_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "filled"


@pytest.fixture(scope="session")
def shelf_once(tmp_path_factory):
    return shelves.filled(tmp_path_factory.mktemp("shelf") / "shelf")


@pytest.fixture
def shelf(tmp_path, shelf_once):
    """A home with 900 events in its log and, behind it, an index on disk."""
    return shutil.copytree(shelf_once, tmp_path / "shelf")
