"""A plane full of everything, and this folder on the path for `worlds`."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worlds import rows, sentence


@pytest.fixture
def full_plane(plane):
    """Everything at once: 5,000 decisions, an event of 350,000 characters, rules of 7,000 tokens."""
    views = plane.home / "views"
    views.mkdir(exist_ok=True)
    chance = random.Random(7)
    (views / "identity.md").write_text("You are the build agent.\n")
    (views / "rules.project.md").write_text(
        "\n".join(f"- {sentence(chance, 20)}" for _ in range(550)) + "\n// a slash line\n"
    )
    (views / "preferences.md").write_text("Short answers.\n")
    plane.record_many(
        {"kind": "decision", "key": f"d{n}", "text": f"decision {n}: {sentence(chance, 10)}"}
        for n in range(5000)
    )
    plane.record_many(rows(1, 400))
    plane.record("x " * 175_000, role="user", session="s0")
    plane.record_many(rows(2, 200))
    return plane
