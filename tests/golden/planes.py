"""Planes of the golden corpus: the same events, ids and times whenever and wherever they are built.

Each builder fills a new plane in a folder. What it writes must not change without the corpus being
recorded again, so the builders use nothing from other tests except the seeded generators.
"""

import itertools
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import memplane
from memplane.importers import import_paths

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "scenarios" / "data"
RECORDED = ROOT / "tests" / "recorded"
NOW = "2026-01-05T12:00:00.000000Z"
VIEWS = {
    "identity.md": "You are the build agent of the ledger project.\n",
    "rules.project.md": "- Plan before code.\n- Tests pass before a commit.\n// a comment\n" * 3,
    "preferences.md": "Short answers. Metric units.\n",
}
AGENTS = ("planner", "builder", "reviewer")


def clock() -> str:
    return NOW


def generator(folder: str, name: str) -> ModuleType:
    """A module of seeded rows from `folder`, which is no package."""
    sys.path.insert(0, str(ROOT / folder))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


def new(home: Path, *, views: bool = False) -> memplane.Plane:
    # How far the log is synced stands in its lines: at `os` that depends on the machine.
    plane = memplane.init(home, clock=clock, environment={}, trusted=False)
    if views:
        folder = home / "views"
        folder.mkdir(exist_ok=True)
        for name, text in VIEWS.items():
            (folder / name).write_text(text)
    return plane


def sample(home: Path) -> None:
    """The sample session of `make demo` and its decisions."""
    with new(home, views=True) as plane:
        for name in ("sample-session.jsonl", "sample-decisions.jsonl"):
            import_paths(plane, None, SAMPLES / name)


def recorded(client: str) -> Callable[[Path], None]:
    """What the real client itself wrote of its sessions, imported."""

    def build(home: Path) -> None:
        copies = home.parent / f"{home.name}-transcripts"
        (source,) = RECORDED.glob(f"{client}-*/home")
        shutil.copytree(source, copies)
        with new(home) as plane:
            import_paths(plane, None, sorted(copies.rglob("*.jsonl")))

    return build


def world(seed: int, count: int, *, views: bool = False) -> Callable[[Path], None]:
    """A plausible mess of everything, hostile texts among it."""

    def build(home: Path) -> None:
        with new(home, views=views) as plane:
            plane.record_many(generator("tests/pack", "builders_planes").rows(seed, count))

    return build


def shared(home: Path) -> None:
    """Agents with namespaces of their own, hidden values, pins, forgets, touches and evictions."""
    chance = random.Random(5)
    words = generator("tests/pack", "builders_planes").WORDS
    with new(home, views=True) as plane:
        for n in range(260):
            kind = chance.choice(["message", "message", "decision", "fact", "preference", "rule"])
            row = {
                "id": f"sh-{n}", "kind": kind,
                "text": f"{' '.join(chance.choices(words, k=chance.randint(3, 18)))} {n}",
                "session": f"s{n // 40}", "actor": chance.choice(AGENTS),
                "importance": chance.choice([0.1, 0.5, 0.9]),
                "sensitivity": chance.choice(["low", "normal", "normal", "high", "secret"]),
            }  # fmt: skip
            if kind == "message":
                row["role"] = chance.choice(["user", "assistant"])
            else:
                row["key"] = f"{chance.choice(words)}.{n % 25}"
            if chance.random() < 0.3:
                row["ns"] = f"/agent/{chance.choice(AGENTS)}"
            plane.record(**row)
            act = chance.random() if row["sensitivity"] != "secret" else 1.0
            if act < 0.03:
                plane.forget(id=f"sh-{n}")
            elif act < 0.06:
                plane.pin(id=f"sh-{n}")
            elif act < 0.08:
                plane.touch(id=f"sh-{n}")
        plane.work.sessions.end("s2")
        plane.work.tasks.open("t1", "ship the ledger", session="s6")
        plane.record("the ledger is half done", role="assistant", session="s6", task="t1")


def coding(count: int) -> Callable[[Path], None]:
    """Coding sessions of so many events, several segments of the index."""

    def build(home: Path) -> None:
        with new(home, views=True) as plane:
            plane.record_many(generator("benchmarks", "workload").rows(count, 9))
            plane.upkeep.index()

    return build


@contextmanager
def same_ids() -> Iterator[None]:
    """Ids that memplane draws are the same in every build: 16 bytes at a time, counted up."""
    drawn, real = itertools.count(1), os.urandom
    os.urandom = lambda size: next(drawn).to_bytes(16, "big") if size == 16 else real(size)
    try:
        yield
    finally:
        os.urandom = real


PLANES: dict[str, Callable[[Path], None]] = {
    "sample": sample,
    "claude-code": recorded("claude-code"),
    "codex": recorded("codex"),
    "small": world(31, 60),
    "world": world(32, 400, views=True),
    "shared": shared,
    "medium": coding(5_000),
    "large": coding(20_000),
}
