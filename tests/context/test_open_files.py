"""A pack in a process of its own opens few files, however many segments the log has."""

from __future__ import annotations

import pytest

import memplane
from memplane.log import FileLog, segments


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A plane with some 40 segments, and caches on disk."""
    monkeypatch.setitem(FileLog.__init__.__kwdefaults__, "segment_bytes_max", 20_000)
    home = tmp_path / "plane"
    with memplane.init(home) as plane:
        for view in ("identity.md", "rules.project.md", "preferences.md"):
            (home / "views" / view).write_text(f"The heron of {view}.\n")
        for _ in range(40):
            plane.record_many([
                {"text": f"Turn {n} of the heron. " * 10, "kind": "message", "role": "user"}
                for n in range(60)
            ])  # fmt: skip
        plane.pack("heron", intent="fast")
    assert len(list((home / "log").glob("0*.jsonl"))) > 20
    with memplane.open(home) as plane:  # the last segments have been sealed since
        plane.upkeep.rebuild()
    return home


def opened(home, **asked) -> int:
    with memplane.open(home, read_only=True) as plane:
        assert not plane.upkeep.damage
        return plane.pack("heron", budget=2000, **asked).report["io"]["files"]


def test_a_fast_one_opens_no_more_than_the_limit(many):
    most = 20
    assert opened(many, intent="fast") <= most


def test_headers_are_read_again_where_a_segment_has_changed(many):
    first = min((many / "log").glob("0*.jsonl"))
    before = opened(many, intent="fast")
    data = first.read_bytes()
    first.write_bytes(data)
    assert opened(many, intent="fast") == before + 1
    (many / segments.HEADERS).write_text('{"plane": "another", "segments": {}}')
    assert opened(many, intent="fast") > 20
    (many / segments.HEADERS).write_text("[1]")
    assert opened(many, intent="fast") > 20
