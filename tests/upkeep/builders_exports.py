"""Planes with something of everything, their exports, and what lies below a home."""

import io
import os

import pytest

import memplane
from memplane.errors import FormatError, InputError
from memplane.log import verify_log
from memplane.upkeep.restore import check_export

SEED = 20260105


def clock():
    return "2026-01-05T12:00:00.000000Z"


def opened(home, **options):
    return memplane.open(home, durability="os", clock=clock, environment={}, **options)


def made(home, **options):
    return memplane.init(home, durability="os", clock=clock, environment={}, **options)


def in_short_segments(plane, size=2500):
    plane._log._writer.segment_bytes_max = size
    return plane


TEXTS = (
    "We keep PostgreSQL", "which database do we use?", "the build fails on 3.12",
    "ünï çødé 語 ' \" \\ \n two lines", "herons nest in trees", "memplane:begin", "",
)  # fmt: skip


def fill(plane, rng, events=40):
    """A history of every sort of event, in segments of few lines."""
    in_short_segments(plane)
    for n in range(events):
        text = f"{rng.choice(TEXTS)} {n}"
        what = rng.randrange(12)
        session = rng.choice(("s1", "s2", None))
        if what == 0:
            plane.record(text, kind="decision", key=f"k{rng.randrange(4)}", session=session)
        elif what == 1:
            plane.record(text, kind="fact", sensitivity=rng.choice(("secret", "high", "low")))
        elif what == 2:
            plane.record(text, role="user", session=session, ns="/agent/a1")
        elif what == 3:
            plane.record_many([{"text": f"{text} {m}", "id": f"b{n}-{m}"} for m in range(3)])
        elif what == 4 and plane.get("k0") is not None:
            plane.forget("k0")
        elif what == 5 and plane.get("k1") is not None:
            plane.pin(key="k1")
        elif what == 6:
            plane.record(text, kind="tool_result", session=session, data={"tool": "ls"})
        else:
            plane.record(text, role=rng.choice(("user", "assistant")), session=session, task="t1")


def with_files(plane, folder):
    """A text too long for a line, and files that were added: text, and none."""
    plane.record("long " * 250_000, kind="fact", key="long")
    (folder / "report.md").write_text("# Herons\n\nThey nest in trees.\n")
    (folder / "picture.bin").write_bytes(bytes(range(256)) * 1100)
    (folder / "empty.txt").write_bytes(b"")
    for name in ("report.md", "picture.bin", "empty.txt"):
        plane.work.artifacts.add(folder / name, "what we found")
    plane.work.artifacts.approve("report.md")


def exported(home, to, **asked):
    with opened(home) as plane:
        return plane.upkeep.export(to, **asked)


def tree(home, *, caches=False):
    """Every file below a home, by its path; locks say who held them last."""
    ours = ("log", "bodies") if not caches else ("",)
    return {
        os.fspath(path.relative_to(home)): path.read_bytes()
        for folder in ours
        for path in sorted((home / folder).rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def is_well(home):
    with opened(home) as plane:
        assert plane.upkeep.differing() == []
        report = verify_log(home, plane.id)
    assert report.problems == ()


def small(tmp_path, name="small"):
    """A plane of a few lines, and its export."""
    home = tmp_path / name
    with made(home) as plane:
        in_short_segments(plane, 600)
        for n in range(5):
            plane.record(f"line {n}", role="user", session="s")
        (tmp_path / "a.txt").write_text("a file\n")
        (tmp_path / "b.bin").write_bytes(b"\x00\xff")
        plane.work.artifacts.add(tmp_path / "a.txt")
        plane.work.artifacts.add(tmp_path / "b.bin")
        plane.upkeep.export(tmp_path / f"{name}.jsonl", replace=True)
    return home, (tmp_path / f"{name}.jsonl").read_bytes()


def refused(data, name="e.jsonl"):
    """The refusal of an export that is not as it was written; the test fails where there is none."""
    with pytest.raises((InputError, FormatError)) as error:
        check_export(io.BytesIO(data), name)
    assert str(error.value).startswith(f"{name}:")
    assert "nothing was changed" in str(error.value)
    return str(error.value)
