"""This folder on the path, for `searching`; files to add as artifacts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def file(tmp_path):
    """A file to add, by its name and what it says."""

    def file(name="report.md", data="# Herons\n\nThey nest in trees.\n"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return file
