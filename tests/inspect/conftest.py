"""Planes that are made once and copied."""

import shutil

import pytest
from builders_pages import hostile, sampled


@pytest.fixture(scope="session")
def sampled_once(tmp_path_factory):
    return sampled(tmp_path_factory.mktemp("sampled") / "plane")


@pytest.fixture(scope="session")
def hostile_once(tmp_path_factory):
    return hostile(tmp_path_factory.mktemp("hostile") / "plane")


@pytest.fixture
def sample(tmp_path, sampled_once):
    """The home of the sample session, to change."""
    return shutil.copytree(sampled_once, tmp_path / "plane")
