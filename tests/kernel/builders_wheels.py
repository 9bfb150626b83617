"""A wheel of this checkout, made by its build backend; `make test-long` makes one as pip does."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def wheel(folder, **environment):
    """The file of the wheel, in the folder; the environment is this one with these changes."""
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT,
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (file,) = folder.glob("*.whl")
    return file
