"""A plane full of everything."""

import random
import shutil

import pytest
from builders_planes import rows, sentence

import memplane


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """Everything at once: 5,000 decisions, an event of 350,000 characters, rules of 7,000 tokens."""
    home = tmp_path_factory.mktemp("full") / "plane"
    then = "2026-01-05T12:00:00.000000Z"
    with memplane.init(home, durability="os", clock=lambda: then) as plane:
        fill(plane)
    return home


@pytest.fixture
def full_plane(full, tmp_path, clock):
    home = shutil.copytree(full, tmp_path / "full")
    with memplane.open(home, durability="os", clock=clock) as plane:
        yield plane


def fill(plane):
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
