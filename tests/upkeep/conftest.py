"""A plane of everything, to copy."""

import random
import shutil

import pytest
from builders_exports import SEED, fill, made, with_files


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
