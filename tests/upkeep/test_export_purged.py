"""What was purged leaves in no export, and no export brings it back."""

import io
import shutil

import pytest
from builders_exports import (
    clock,
    exported,
    in_short_segments,
    is_well,
    made,
    opened,
    refused,
    tree,
)

import memplane
from memplane.errors import PlaneError


def with_secret(home):
    """A plane that holds a text which is to go, as a line, and one that takes a body."""
    with made(home) as plane:
        in_short_segments(plane, 800)
        for n in range(8):
            plane.record(f"line {n}", id=f"m{n}")
        plane.record("the swordfish word", id="gone")
        plane.record("swordfish " * 130_000, id="long")
        for n in range(8, 14):
            plane.record(f"line {n}", id=f"m{n}")
    return home


def test_what_was_purged_is_in_no_export_and_comes_back_by_none(tmp_path):
    home = with_secret(tmp_path / "plane")
    exported(home, tmp_path / "before.jsonl")
    with opened(home) as plane:
        for id_ in ("gone", "long"):
            plane.upkeep.purge(id_)
        report = plane.upkeep.export(tmp_path / "e.jsonl")
        plane.upkeep.export(tmp_path / "part.jsonl", redact=True)
    for name in ("e.jsonl", "part.jsonl"):
        assert b"swordfish" not in (tmp_path / name).read_bytes()
    assert report.damaged == 0
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    assert tree(tmp_path / "back") == tree(home)
    is_well(tmp_path / "back")
    for into in (home, tmp_path / "back"):
        merged = memplane.restore(tmp_path / "before.jsonl", into, clock=clock).merged
        assert (merged.recorded, merged.refusals) == (0, 2)
        assert not any(b"swordfish" in data for data in tree(into, caches=True).values())


def test_a_plane_that_still_holds_what_was_purged_elsewhere_is_told_so(tmp_path):
    home = with_secret(tmp_path / "plane")
    shutil.copytree(home, tmp_path / "older")
    with opened(home) as plane:
        plane.upkeep.purge("gone")
        plane.upkeep.export(tmp_path / "e.jsonl")
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "older", clock=clock).merged
    assert (merged.recorded, merged.purged, merged.still_here) == (0, 1, ["gone"])
    with made(tmp_path / "new") as plane:
        plane.record("mine")
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "new", clock=clock).merged
    assert (merged.purged, merged.still_here, merged.refusals) == (1, [], 0)


def purging(home, ids):
    """A `progress` that purges one more event now and then, once lines have been read."""
    left = iter(ids)

    def progress(done, _):
        id_ = next(left, None) if done > 10 else None
        if id_ is not None:
            with opened(home) as other:
                other.upkeep.purge(id_)

    return progress


def test_a_purge_while_it_is_exported_leaves_nothing_of_the_erased_text(tmp_path):
    home = with_secret(tmp_path / "plane")
    with opened(home) as plane:
        plane.upkeep.export(tmp_path / "e.jsonl", progress=purging(home, ("gone", "long", "m3")))
    assert b"swordfish" not in (tmp_path / "e.jsonl").read_bytes()
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    is_well(tmp_path / "back")


def test_a_stream_that_a_purge_overtook_has_no_last_line(tmp_path):
    home = with_secret(tmp_path / "plane")
    stream = io.BytesIO()
    with opened(home) as plane, pytest.raises(PlaneError, match="no last line"):
        plane.upkeep.export(stream, progress=purging(home, ("gone",)))
    refused(stream.getvalue())
