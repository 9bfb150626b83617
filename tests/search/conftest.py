"""A plane with an index, to copy."""

import shutil

import builders_indexed_planes
import pytest


@pytest.fixture(scope="session")
def shelf_once(tmp_path_factory):
    return builders_indexed_planes.filled(tmp_path_factory.mktemp("shelf") / "shelf")


@pytest.fixture
def shelf(tmp_path, shelf_once):
    """A home with 900 events in its log and, behind it, an index on disk."""
    return shutil.copytree(shelf_once, tmp_path / "shelf")
